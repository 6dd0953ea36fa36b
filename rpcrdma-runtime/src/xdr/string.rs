use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::str::Utf8Error;

use bytes::Bytes;

use super::opaque::{byte_access, byte_order};
use super::{DdpItem, Decode, Encode, Error, Items, Layout, Lengths, Opaque, Reader, Sink, Size};

/// A string of at most `MAX` bytes (RFC 4506 section 4.11).
///
/// A decoded string of at most 23 bytes is stored inline. Copying a short string is cheaper than sharing the
/// memory of its message, and the copy does not keep the message alive. A longer string is decoded like an
/// [`Opaque`]. A string decoded as a DDP-eligible item is never stored inline.
///
/// The content is bytes: XDR specifies ASCII, but protocols use other encodings. [`XdrString::to_str`] checks
/// for UTF-8.
///
/// ```
/// use rpcrdma_runtime::xdr::{Error, XdrString, to_bytes};
///
/// # fn main() -> Result<(), Error> {
/// let name: XdrString<8> = "answer".into();
/// assert_eq!(name.to_str(), Ok("answer"));
/// assert_eq!(to_bytes(&name)?[..], *b"\0\0\0\x06answer\0\0");
/// assert!(to_bytes(&XdrString::<4>::from("answer")).is_err());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct XdrString<const MAX: u32 = { u32::MAX }>(Text);

#[derive(Clone)]
enum Text {
    Short(Short),
    Shared(Bytes),
}

/// The maximum length of an inline string in bytes. On 64-bit systems, this is the size of [`Bytes`] less the
/// length byte and less one pointer, which contains the niche of the enum.
const SHORT: usize = 23;

#[derive(Clone, Copy)]
struct Short {
    /// Bytes after the first `len` are unspecified and are never part of the value.
    data: [u8; SHORT],
    len: u8,
}

impl Short {
    #[inline]
    fn new(bytes: &[u8]) -> Option<Self> {
        let mut data = [0; SHORT];
        data.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(Short { data, len: u8::try_from(bytes.len()).ok()? })
    }

    #[inline]
    fn as_slice(&self) -> &[u8] {
        self.data.get(..usize::from(self.len)).unwrap_or(&self.data)
    }
}

impl<const MAX: u32> XdrString<MAX> {
    /// Wraps bytes without checking the bound. Encoding checks the bound.
    #[must_use]
    pub const fn new(bytes: Bytes) -> Self {
        XdrString(Text::Shared(bytes))
    }

    #[inline]
    fn short(data: [u8; SHORT], len: u8) -> Self {
        XdrString(Text::Short(Short { data, len }))
    }

    /// Returns the bytes.
    #[inline]
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        match &self.0 {
            Text::Short(short) => short.as_slice(),
            Text::Shared(bytes) => bytes,
        }
    }

    /// Returns the bytes in shareable form. Copies the bytes of an inline string.
    #[must_use]
    pub fn to_bytes(&self) -> Bytes {
        match &self.0 {
            Text::Short(short) => Bytes::copy_from_slice(short.as_slice()),
            Text::Shared(bytes) => bytes.clone(),
        }
    }

    /// Returns the bytes by value. Copies the bytes of an inline string.
    #[must_use]
    pub fn into_bytes(self) -> Bytes {
        match self.0 {
            Text::Short(short) => Bytes::copy_from_slice(short.as_slice()),
            Text::Shared(bytes) => bytes,
        }
    }

    /// Returns the string as text.
    ///
    /// # Errors
    /// Fails if the string is not UTF-8.
    pub fn to_str(&self) -> Result<&str, Utf8Error> {
        core::str::from_utf8(self)
    }

    /// Reads a string that exceeds the inline size, or starts fewer than [`SHORT`] bytes before the end of
    /// the stream.
    fn decode_other(reader: &mut Reader<'_>, len: u32) -> Result<Self, Error> {
        if len as usize > SHORT {
            return Ok(XdrString::new(reader.opaque_bytes(len as usize)?));
        }
        Ok(XdrString::from(reader.opaque(len as usize)?))
    }
}

impl<const MAX: u32> From<&[u8]> for XdrString<MAX> {
    fn from(bytes: &[u8]) -> Self {
        match Short::new(bytes) {
            Some(short) => XdrString(Text::Short(short)),
            None => XdrString::new(Bytes::copy_from_slice(bytes)),
        }
    }
}

impl<const MAX: u32> Layout for XdrString<MAX> {
    const LENGTHS: Lengths = Opaque::<MAX>::LENGTHS;
    const HELD: Items = Items::NONE;
}

impl<const MAX: u32> Encode for XdrString<MAX> {
    #[inline]
    fn encode<S: Sink + ?Sized>(&self, sink: &mut S) -> Result<(), Error> {
        match &self.0 {
            Text::Short(Short { data, len }) => {
                sink.put_count(usize::from(*len), MAX)?;
                sink.put_first(data, usize::from(*len))
            }
            Text::Shared(bytes) => {
                sink.put_count(bytes.len(), MAX)?;
                sink.put_padded(bytes)
            }
        }
    }
}

impl<'de, const MAX: u32> Decode<'de> for XdrString<MAX> {
    #[inline(always)]
    fn decode(reader: &mut Reader<'de>) -> Result<Self, Error> {
        let len = reader.count(MAX)?;
        if let Ok(short) = u8::try_from(len)
            && usize::from(short) <= SHORT
            && let Some(data) = reader.peek::<SHORT>()
        {
            reader.opaque(usize::from(short))?;
            return Ok(XdrString::short(*data, short));
        }
        Self::decode_other(reader, len)
    }
}

impl<const MAX: u32> DdpItem for XdrString<MAX> {
    const LARGEST: Size = Size::of_bound(MAX);

    fn encode_eligible<S: Sink + ?Sized>(&self, sink: &mut S) -> Result<(), Error> {
        sink.put_count(self.len(), MAX)?;
        match &self.0 {
            Text::Short(short) => sink.put_item(&Bytes::copy_from_slice(short.as_slice())),
            Text::Shared(bytes) => sink.put_item(bytes),
        }
    }

    #[inline]
    fn decode_eligible(reader: &mut Reader<'_>) -> Result<Self, Error> {
        Ok(XdrString::new(reader.item(MAX)?))
    }
}

impl<const MAX: u32> Default for XdrString<MAX> {
    fn default() -> Self {
        XdrString::new(Bytes::new())
    }
}

byte_access!([const MAX: u32] XdrString<MAX>, as_slice, quoted);
byte_order!([const MAX: u32] XdrString<MAX>);

impl<const MAX: u32> From<Bytes> for XdrString<MAX> {
    fn from(bytes: Bytes) -> Self {
        XdrString::new(bytes)
    }
}

impl<const MAX: u32> From<Vec<u8>> for XdrString<MAX> {
    fn from(bytes: Vec<u8>) -> Self {
        XdrString::new(bytes.into())
    }
}

impl<const MAX: u32> From<String> for XdrString<MAX> {
    fn from(text: String) -> Self {
        text.into_bytes().into()
    }
}

impl<const MAX: u32> From<&str> for XdrString<MAX> {
    fn from(text: &str) -> Self {
        text.as_bytes().into()
    }
}

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
        String::from_utf8_lossy(self).fmt(f)
    }
}
