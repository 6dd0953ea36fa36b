//! Rust slices as opaque data and strings in handwritten types.

use super::{Decode, Encode, Error, ErrorKind, Items, Layout, Lengths, Reader, Sink, Size};

/// A Rust slice that represents opaque data or a string. `#[xdr(max = N)]` can bound its length.
pub trait Slice<'a>: Sized {
    /// Returns the bytes.
    fn bytes(&self) -> &[u8];

    /// Converts bytes to this type. `at` is the offset of the bytes in the unreduced stream. An error
    /// contains the offset of the first invalid byte in this stream.
    ///
    /// # Errors
    /// [`ErrorKind::NotUtf8`] if this is a text type and the bytes are not UTF-8.
    fn from_bytes(bytes: &'a [u8], at: u64) -> Result<Self, Error>;
}

impl<'a> Slice<'a> for &'a [u8] {
    fn bytes(&self) -> &[u8] {
        self
    }

    fn from_bytes(bytes: &'a [u8], _at: u64) -> Result<Self, Error> {
        Ok(bytes)
    }
}

impl<'a> Slice<'a> for &'a str {
    fn bytes(&self) -> &[u8] {
        self.as_bytes()
    }

    fn from_bytes(bytes: &'a [u8], at: u64) -> Result<Self, Error> {
        core::str::from_utf8(bytes).map_err(|error| {
            let valid = error.valid_up_to() as u64;
            Error::new(ErrorKind::NotUtf8, at.saturating_add(valid))
        })
    }
}

/// Writes opaque data or a string of at most `max` bytes.
///
/// # Errors
/// [`ErrorKind::TooLong`] if `slice` has more than `max` bytes, or the sink's error.
#[inline]
pub fn encode_slice<'a, T: Slice<'a>, S: Sink + ?Sized>(
    slice: &T,
    max: u32,
    sink: &mut S,
) -> Result<(), Error> {
    let bytes = slice.bytes();
    sink.put_count(bytes.len(), max)?;
    sink.put_padded(bytes)
}

/// Reads opaque data or a string of at most `max` bytes without copying.
///
/// # Errors
/// [`ErrorKind::TooLong`], [`ErrorKind::Truncated`], [`ErrorKind::Padding`]; for text [`ErrorKind::NotUtf8`].
#[inline]
pub fn decode_slice<'de: 'a, 'a, T: Slice<'a>>(reader: &mut Reader<'de>, max: u32) -> Result<T, Error> {
    let len = reader.count(max)?;
    let at = reader.position();
    T::from_bytes(reader.opaque(len as usize)?, at)
}

macro_rules! unbounded {
    ($($type:ty),*) => { $(
        impl Layout for &$type {
            const LENGTHS: Lengths = Lengths::of_data(Size::Unbounded);
            const HELD: Items = Items::NONE;
        }

        impl Encode for &$type {
            #[inline]
            fn encode<S: Sink + ?Sized>(&self, sink: &mut S) -> Result<(), Error> {
                encode_slice(self, u32::MAX, sink)
            }
        }

        impl<'de: 'a, 'a> Decode<'de> for &'a $type {
            #[inline]
            fn decode(reader: &mut Reader<'de>) -> Result<Self, Error> {
                decode_slice(reader, u32::MAX)
            }
        }
    )* };
}

unbounded!([u8], str);
