use alloc::string::String;
use core::fmt;
use core::str::Utf8Error;

use bytes::Bytes;

use super::opaque::{byte_access, hex};
use super::string::quoted;
use super::{Decode, Encode, Error, Items, Layout, Lengths, Opaque, Reader, Sink, XdrString};

/// Borrowed variable-length opaque data of at most `MAX` bytes (RFC 4506 section 4.10). Decoded data is
/// borrowed from the message.
///
/// Encoding and decoding check the bound. Borrowed data cannot be DDP-eligible, because a transport keeps the
/// memory of an item until the peer can no longer access that memory.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpaqueRef<'a, const MAX: u32 = { u32::MAX }>(&'a [u8]);

impl<'a, const MAX: u32> OpaqueRef<'a, MAX> {
    /// Borrows bytes.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        OpaqueRef(bytes)
    }

    /// Returns the bytes with the lifetime of their owner.
    #[inline]
    #[must_use]
    pub const fn as_slice(self) -> &'a [u8] {
        self.0
    }

    /// Returns an owned copy.
    #[must_use]
    pub fn to_opaque(self) -> Opaque<MAX> {
        Opaque::new(Bytes::copy_from_slice(self.0))
    }
}

impl<const MAX: u32> Layout for OpaqueRef<'_, MAX> {
    const LENGTHS: Lengths = Opaque::<MAX>::LENGTHS;
    const HELD: Items = Items::NONE;
}

impl<const MAX: u32> Encode for OpaqueRef<'_, MAX> {
    #[inline]
    fn encode<S: Sink + ?Sized>(&self, sink: &mut S) -> Result<(), Error> {
        sink.put_count(self.0.len(), MAX)?;
        sink.put_padded(self.0)
    }
}

impl<'de: 'a, 'a, const MAX: u32> Decode<'de> for OpaqueRef<'a, MAX> {
    #[inline]
    fn decode(reader: &mut Reader<'de>) -> Result<Self, Error> {
        let len = reader.count(MAX)?;
        Ok(OpaqueRef(reader.opaque(len as usize)?))
    }
}

byte_access!([const MAX: u32] OpaqueRef<'_, MAX>, as_slice, hex);

impl<'a, const MAX: u32> From<&'a [u8]> for OpaqueRef<'a, MAX> {
    fn from(bytes: &'a [u8]) -> Self {
        OpaqueRef(bytes)
    }
}

impl<'a, const LEN: usize, const MAX: u32> From<&'a [u8; LEN]> for OpaqueRef<'a, MAX> {
    fn from(bytes: &'a [u8; LEN]) -> Self {
        OpaqueRef(bytes)
    }
}

impl<'a, const MAX: u32> From<&'a Opaque<MAX>> for OpaqueRef<'a, MAX> {
    fn from(owned: &'a Opaque<MAX>) -> Self {
        OpaqueRef(owned)
    }
}

impl<const MAX: u32> From<OpaqueRef<'_, MAX>> for Opaque<MAX> {
    fn from(borrowed: OpaqueRef<'_, MAX>) -> Self {
        borrowed.to_opaque()
    }
}

/// A borrowed string of at most `MAX` bytes (RFC 4506 section 4.11). A decoded string is borrowed from the
/// message.
///
/// The content is bytes in any encoding, as in [`XdrString`]. [`StringRef::to_str`] checks for UTF-8.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StringRef<'a, const MAX: u32 = { u32::MAX }>(OpaqueRef<'a, MAX>);

impl<'a, const MAX: u32> StringRef<'a, MAX> {
    /// Borrows bytes.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        StringRef(OpaqueRef::new(bytes))
    }

    /// Returns the bytes with the lifetime of their owner.
    #[inline]
    #[must_use]
    pub const fn as_slice(self) -> &'a [u8] {
        self.0.as_slice()
    }

    /// Returns the string as text.
    ///
    /// # Errors
    /// Fails if the string is not UTF-8.
    pub const fn to_str(self) -> Result<&'a str, Utf8Error> {
        core::str::from_utf8(self.0.as_slice())
    }

    /// Returns an owned copy.
    #[must_use]
    pub fn to_xdr_string(self) -> XdrString<MAX> {
        XdrString::new(Bytes::copy_from_slice(&self))
    }
}

impl<const MAX: u32> Layout for StringRef<'_, MAX> {
    const LENGTHS: Lengths = Opaque::<MAX>::LENGTHS;
    const HELD: Items = Items::NONE;
}

impl<const MAX: u32> Encode for StringRef<'_, MAX> {
    #[inline]
    fn encode<S: Sink + ?Sized>(&self, sink: &mut S) -> Result<(), Error> {
        self.0.encode(sink)
    }
}

impl<'de: 'a, 'a, const MAX: u32> Decode<'de> for StringRef<'a, MAX> {
    #[inline]
    fn decode(reader: &mut Reader<'de>) -> Result<Self, Error> {
        OpaqueRef::decode(reader).map(StringRef)
    }
}

byte_access!([const MAX: u32] StringRef<'_, MAX>, as_slice, quoted);

impl<'a, const MAX: u32> From<&'a [u8]> for StringRef<'a, MAX> {
    fn from(bytes: &'a [u8]) -> Self {
        StringRef::new(bytes)
    }
}

impl<'a, const MAX: u32> From<&'a str> for StringRef<'a, MAX> {
    fn from(text: &'a str) -> Self {
        StringRef::new(text.as_bytes())
    }
}

impl<'a, const MAX: u32> From<&'a XdrString<MAX>> for StringRef<'a, MAX> {
    fn from(owned: &'a XdrString<MAX>) -> Self {
        StringRef::new(owned)
    }
}

impl<const MAX: u32> From<StringRef<'_, MAX>> for XdrString<MAX> {
    fn from(borrowed: StringRef<'_, MAX>) -> Self {
        borrowed.to_xdr_string()
    }
}

impl<const MAX: u32> fmt::Display for StringRef<'_, MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        String::from_utf8_lossy(self).fmt(f)
    }
}
