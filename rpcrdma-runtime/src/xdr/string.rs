use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Deref;
use core::str::Utf8Error;

use bytes::Bytes;

use super::{DdpItem, Decode, Encode, Error, Layout, Opaque, Reader, Sink, Size};

/// A string of at most `MAX` bytes (RFC 4506 section 4.11), sharing the memory it came in.
///
/// It is bytes: XDR says ASCII, protocols put in what they like. [`XdrString::to_str`] asks whether it is UTF-8.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct XdrString<const MAX: u32 = { u32::MAX }>(Opaque<MAX>);

impl<const MAX: u32> XdrString<MAX> {
    /// Takes bytes.
    #[must_use]
    pub const fn new(bytes: Bytes) -> Self {
        XdrString(Opaque::new(bytes))
    }

    /// The bytes, still shared.
    #[must_use]
    pub const fn as_bytes(&self) -> &Bytes {
        self.0.as_bytes()
    }

    /// The bytes, by value.
    #[must_use]
    pub fn into_bytes(self) -> Bytes {
        self.0.into_bytes()
    }

    /// The string as text.
    ///
    /// # Errors
    /// If it is not UTF-8.
    pub fn to_str(&self) -> Result<&str, Utf8Error> {
        core::str::from_utf8(&self.0)
    }
}

impl<const MAX: u32> Layout for XdrString<MAX> {
    const MIN: u64 = <Opaque<MAX> as Layout>::MIN;
    const MAX: Size = <Opaque<MAX> as Layout>::MAX;
    const MAX_REDUCED: Size = <Opaque<MAX> as Layout>::MAX_REDUCED;
    const ITEM: Size = Size::ZERO;
    const ITEMS: Size = Size::ZERO;
}

impl<const MAX: u32> Encode for XdrString<MAX> {
    #[inline]
    fn encode<S: Sink + ?Sized>(&self, sink: &mut S) -> Result<(), Error> {
        self.0.encode(sink)
    }
}

impl<'de, const MAX: u32> Decode<'de> for XdrString<MAX> {
    #[inline]
    fn decode(reader: &mut Reader<'de>) -> Result<Self, Error> {
        Opaque::decode(reader).map(XdrString)
    }
}

impl<const MAX: u32> DdpItem for XdrString<MAX> {
    const LARGEST: Size = Size::of_opaque(MAX);

    fn encode_eligible<S: Sink + ?Sized>(&self, sink: &mut S) -> Result<(), Error> {
        self.0.encode_eligible(sink)
    }

    fn decode_eligible(reader: &mut Reader<'_>) -> Result<Self, Error> {
        Opaque::decode_eligible(reader).map(XdrString)
    }
}

impl<const MAX: u32> Deref for XdrString<MAX> {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl<const MAX: u32> AsRef<[u8]> for XdrString<MAX> {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl<const MAX: u32> From<Bytes> for XdrString<MAX> {
    fn from(bytes: Bytes) -> Self {
        XdrString(bytes.into())
    }
}

impl<const MAX: u32> From<Vec<u8>> for XdrString<MAX> {
    fn from(bytes: Vec<u8>) -> Self {
        XdrString(bytes.into())
    }
}

impl<const MAX: u32> From<&'static [u8]> for XdrString<MAX> {
    fn from(bytes: &'static [u8]) -> Self {
        XdrString(bytes.into())
    }
}

impl<const MAX: u32> From<String> for XdrString<MAX> {
    fn from(text: String) -> Self {
        XdrString(text.into_bytes().into())
    }
}

impl<const MAX: u32> From<&str> for XdrString<MAX> {
    fn from(text: &str) -> Self {
        XdrString(Bytes::copy_from_slice(text.as_bytes()).into())
    }
}

impl<const MAX: u32> fmt::Debug for XdrString<MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        quoted(&self.0, f)
    }
}

/// The first bytes as text in quotes, and how many there are when that is not all.
pub(super) fn quoted(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    const SHOWN: usize = 256;
    let shown = bytes.get(..SHOWN).unwrap_or(bytes);
    write!(f, "\"{}\"", shown.escape_ascii())?;
    if bytes.len() > SHOWN {
        write!(f, "... ({} bytes)", bytes.len())?;
    }
    Ok(())
}

impl<const MAX: u32> fmt::Display for XdrString<MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        String::from_utf8_lossy(&self.0).fmt(f)
    }
}
