use alloc::vec::Vec;
use core::fmt;

use bytes::Bytes;

use super::{Decode, Encode, Error, ErrorKind, Items, Layout, Lengths, Reader, Sink, Size};

/// Implements `Deref`, `AsRef` and `Debug` for opaque data or a string: `$bytes` returns the bytes, and
/// `$debug` prints them.
macro_rules! byte_access {
    ([$($generics:tt)*] $type:ty, $bytes:ident, $debug:ident) => {
        impl<$($generics)*> core::ops::Deref for $type {
            type Target = [u8];
            #[inline]
            fn deref(&self) -> &[u8] {
                self.$bytes()
            }
        }

        impl<$($generics)*> AsRef<[u8]> for $type {
            fn as_ref(&self) -> &[u8] {
                self.$bytes()
            }
        }

        impl<$($generics)*> core::fmt::Debug for $type {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                $debug(self.$bytes(), f)
            }
        }
    };
}

/// Implements comparison and hashing by a value's bytes, because equal bytes can be stored differently.
macro_rules! byte_order {
    ([$($generics:tt)*] $type:ty) => {
        impl<$($generics)*> PartialEq for $type {
            fn eq(&self, other: &Self) -> bool {
                self.as_slice() == other.as_slice()
            }
        }

        impl<$($generics)*> Eq for $type {}

        impl<$($generics)*> PartialOrd for $type {
            fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
                Some(self.cmp(other))
            }
        }

        impl<$($generics)*> Ord for $type {
            fn cmp(&self, other: &Self) -> core::cmp::Ordering {
                self.as_slice().cmp(other.as_slice())
            }
        }

        impl<$($generics)*> core::hash::Hash for $type {
            fn hash<H: core::hash::Hasher>(&self, state: &mut H) {
                self.as_slice().hash(state);
            }
        }
    };
}

pub(super) use byte_access;
pub(super) use byte_order;

/// The types that may be `#[ddp_eligible]` (RFC 8166 section 3.4.2): owned variable-length opaque data and
/// strings.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be DDP-eligible",
    label = "neither an `Opaque` nor an `XdrString`",
    note = "`#[ddp_eligible]` marks an `Opaque` or an `XdrString`, which own their share of the memory, unlike borrowed data: mark the field of the struct, or the payload of the union's arm, that holds the data"
)]
pub trait DdpItem: Encode + Sized {
    /// The maximum size of an item in bytes, without padding.
    const LARGEST: Size;

    /// Writes the count and passes the data to the sink as one item.
    ///
    /// # Errors
    /// [`ErrorKind::TooLong`] if the data exceeds its bound, or the sink's error.
    fn encode_eligible<S: Sink + ?Sized>(&self, sink: &mut S) -> Result<(), Error>;

    /// Reads the count, and the data from its chunk or the stream.
    ///
    /// # Errors
    /// Fails as [`Reader::item`] does.
    fn decode_eligible(reader: &mut Reader<'_>) -> Result<Self, Error>;
}

/// Variable-length opaque data of at most `MAX` bytes (RFC 4506 section 4.10), in reference-counted memory.
///
/// Encoding and decoding check the bound.
///
/// ```
/// use rpcrdma_runtime::xdr::{Error, Opaque, from_bytes, to_bytes};
///
/// # fn main() -> Result<(), Error> {
/// let data: Opaque<1024> = vec![7; 1000].into();
/// let message = to_bytes(&data)?;
/// let received: Opaque<1024> = from_bytes(&message)?;
/// assert_eq!(received.as_bytes().as_ptr(), message[4..].as_ptr(), "no copy");
/// assert!(Opaque::<16>::try_from(vec![7; 17]).is_err());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Opaque<const MAX: u32 = { u32::MAX }>(Bytes);

impl<const MAX: u32> Opaque<MAX> {
    /// Wraps bytes without checking the bound. Encoding checks the bound.
    #[must_use]
    pub const fn new(bytes: Bytes) -> Self {
        Opaque(bytes)
    }

    /// Wraps at most `MAX` bytes. This function takes precedence over [`TryFrom::try_from`], which does not
    /// check the bound because it uses `From`. `try_into` does not check the bound either.
    ///
    /// # Errors
    /// [`ErrorKind::TooLong`].
    pub fn try_from(bytes: impl Into<Bytes>) -> Result<Self, Error> {
        let bytes = bytes.into();
        if bytes.len() as u64 > u64::from(MAX) {
            let (len, max) = (bytes.len() as u64, u64::from(MAX));
            return Err(Error::new(ErrorKind::TooLong { len, max }, 0));
        }
        Ok(Opaque(bytes))
    }

    /// Returns the same bytes with another bound.
    ///
    /// # Errors
    /// [`ErrorKind::TooLong`] if the data has more than `OTHER` bytes.
    pub fn with_bound<const OTHER: u32>(self) -> Result<Opaque<OTHER>, Error> {
        Opaque::try_from(self.0)
    }

    /// Returns the same bytes without a bound.
    #[must_use]
    pub fn unbounded(self) -> Opaque {
        Opaque(self.0)
    }

    /// Returns a reference to the shared bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &Bytes {
        &self.0
    }

    /// Returns the bytes by value.
    #[must_use]
    pub fn into_bytes(self) -> Bytes {
        self.0
    }
}

impl<const MAX: u32> Layout for Opaque<MAX> {
    const LENGTHS: Lengths = Lengths::of_data(Size::of_bound(MAX));
    const HELD: Items = Items::NONE;
}

impl<const MAX: u32> Encode for Opaque<MAX> {
    #[inline]
    fn encode<S: Sink + ?Sized>(&self, sink: &mut S) -> Result<(), Error> {
        sink.put_count(self.0.len(), MAX)?;
        sink.put_padded(&self.0)
    }
}

impl<'de, const MAX: u32> Decode<'de> for Opaque<MAX> {
    #[inline]
    fn decode(reader: &mut Reader<'de>) -> Result<Self, Error> {
        let len = reader.count(MAX)?;
        Ok(Opaque(reader.opaque_bytes(len as usize)?))
    }
}

impl<const MAX: u32> DdpItem for Opaque<MAX> {
    const LARGEST: Size = Size::of_bound(MAX);

    #[inline]
    fn encode_eligible<S: Sink + ?Sized>(&self, sink: &mut S) -> Result<(), Error> {
        sink.put_count(self.0.len(), MAX)?;
        sink.put_item(&self.0)
    }

    #[inline]
    fn decode_eligible(reader: &mut Reader<'_>) -> Result<Self, Error> {
        Ok(Opaque(reader.item(MAX)?))
    }
}

byte_access!([const MAX: u32] Opaque<MAX>, as_bytes, hex);

/// Does not check the bound: encoding checks it. To check the bound immediately, use [`Opaque::try_from`].
impl<const MAX: u32> From<Bytes> for Opaque<MAX> {
    fn from(bytes: Bytes) -> Self {
        Opaque(bytes)
    }
}

/// Does not check the bound: encoding checks it. To check the bound immediately, use [`Opaque::try_from`].
impl<const MAX: u32> From<Vec<u8>> for Opaque<MAX> {
    fn from(bytes: Vec<u8>) -> Self {
        Opaque(bytes.into())
    }
}

/// Does not check the bound: encoding checks it. To check the bound immediately, use [`Opaque::try_from`].
impl<const MAX: u32> From<&'static [u8]> for Opaque<MAX> {
    fn from(bytes: &'static [u8]) -> Self {
        Opaque(Bytes::from_static(bytes))
    }
}

impl<const MAX: u32> From<Opaque<MAX>> for Bytes {
    fn from(opaque: Opaque<MAX>) -> Self {
        opaque.0
    }
}

pub(super) fn hex(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    const SHOWN: usize = 32;
    f.write_str("0x")?;
    for byte in bytes.iter().take(SHOWN) {
        write!(f, "{byte:02x}")?;
    }
    if bytes.len() > SHOWN {
        write!(f, "... ({} bytes)", bytes.len())?;
    }
    Ok(())
}

/// Variable-length opaque data of at most `MAX` bytes, such as a file handle, stored inline.
///
/// `MAX` is at most 255.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct SmallOpaque<const MAX: usize> {
    /// This field is first and pointer-sized, so that the error of a `Result` occupies the same bytes as this
    /// field. The compiler then copies length and data separately. A single load of both would wait for their
    /// two separate stores.
    len: usize,
    /// Bytes after the first `len` are unspecified and are never part of the value.
    data: [u8; MAX],
}

impl<const MAX: usize> SmallOpaque<MAX> {
    const FITS: () = assert!(MAX <= 255, "SmallOpaque holds at most 255 bytes; use Opaque");

    /// Copies the bytes.
    ///
    /// # Errors
    /// [`ErrorKind::TooLong`] if `bytes` has more than `MAX` bytes.
    pub fn new(bytes: &[u8]) -> Result<Self, Error> {
        const { Self::FITS };
        let too_long = || Error::new(ErrorKind::TooLong { len: bytes.len() as u64, max: MAX as u64 }, 0);
        let mut data = [0; MAX];
        data.get_mut(..bytes.len()).ok_or_else(too_long)?.copy_from_slice(bytes);
        Ok(SmallOpaque { len: bytes.len(), data })
    }

    /// Returns the bytes.
    #[inline]
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        self.data.get(..self.len).unwrap_or(&self.data)
    }
}

impl<const MAX: usize> Layout for SmallOpaque<MAX> {
    const LENGTHS: Lengths = Lengths::of_data(Size::Bounded(MAX as u64));
    const HELD: Items = Items::NONE;
}

impl<const MAX: usize> Encode for SmallOpaque<MAX> {
    #[inline]
    fn encode<S: Sink + ?Sized>(&self, sink: &mut S) -> Result<(), Error> {
        sink.put_count(self.len, u32::MAX)?;
        sink.put_first(&self.data, self.len)
    }
}

impl<'de, const MAX: usize> Decode<'de> for SmallOpaque<MAX> {
    #[inline(always)]
    fn decode(reader: &mut Reader<'de>) -> Result<Self, Error> {
        const { Self::FITS };
        let len = reader.count(u32::try_from(MAX).unwrap_or(u32::MAX))? as usize;
        // Copies `MAX` bytes if the stream has that many left, because a copy of constant length is faster.
        let room = reader.peek::<MAX>();
        let bytes = reader.opaque(len)?;
        let data = room.copied().unwrap_or_else(|| {
            let mut data = [0; MAX];
            data.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
            data
        });
        Ok(SmallOpaque { len, data })
    }
}

impl<const MAX: usize> Default for SmallOpaque<MAX> {
    fn default() -> Self {
        SmallOpaque { len: 0, data: [0; MAX] }
    }
}

byte_access!([const MAX: usize] SmallOpaque<MAX>, as_slice, hex);
byte_order!([const MAX: usize] SmallOpaque<MAX>);

impl<const MAX: usize> TryFrom<&[u8]> for SmallOpaque<MAX> {
    type Error = Error;
    fn try_from(bytes: &[u8]) -> Result<Self, Error> {
        SmallOpaque::new(bytes)
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::vec;

    use super::*;

    #[test]
    fn bounds_are_checked_and_changed() {
        let three = Opaque::<3>::try_from(&b"abc"[..]).unwrap();
        let error = Opaque::<3>::try_from(&b"abcd"[..]).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::TooLong { len: 4, max: 3 }), "{error}");
        let unbounded = three.clone().unbounded();
        assert_eq!(unbounded.clone().with_bound::<3>(), Ok(three.clone()));
        assert!(unbounded.with_bound::<2>().is_err());
        assert_eq!(Bytes::from(three), &b"abc"[..]);
    }

    #[test]
    fn up_to_32_bytes_are_printed() {
        for len in [0, 31, 32, 33] {
            let shown = format!("0x{}", "ab".repeat(len.min(32)));
            let expected = if len > 32 { format!("{shown}... ({len} bytes)") } else { shown };
            assert_eq!(format!("{:?}", Opaque::<64>::from(vec![0xab; len])), expected);
            assert_eq!(format!("{:?}", SmallOpaque::<64>::new(&vec![0xab; len]).unwrap()), expected);
        }
    }

    #[test]
    fn small_values_compare_by_their_bytes() {
        let small = |bytes| SmallOpaque::<4>::new(bytes).unwrap();
        assert_eq!(small(b"ab"), small(b"ab"));
        for (less, more) in [(&b""[..], &b"\0"[..]), (b"ab", b"ac"), (b"ab", b"abc")] {
            assert_ne!(small(less), small(more));
            assert!(small(less) < small(more));
        }
    }
}
