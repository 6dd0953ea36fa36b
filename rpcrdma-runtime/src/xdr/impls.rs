//! Encodings of Rust's own types, and of XDR numbers that have no Rust type.

use alloc::boxed::Box;
use alloc::vec::Vec;

use arrayvec::ArrayVec;

use super::{
    Decode, Discriminant, Encode, Error, Items, Layout, Lengths, Reader, Sink, decode_array, encode_array,
    pad_len,
};

macro_rules! fixed_layout {
    ($($type:ty => $size:expr),* $(,)?) => { $(
        impl Layout for $type {
            const LENGTHS: Lengths = Lengths::fixed($size);
            const HELD: Items = Items::NONE;
        }
    )* };
}

macro_rules! numbers {
    ($($type:ty),* $(,)?) => { $(
        fixed_layout!($type => size_of::<$type>() as u64);

        impl Encode for $type {
            #[inline]
            fn encode<S: Sink + ?Sized>(&self, sink: &mut S) -> Result<(), Error> {
                sink.put(&self.to_be_bytes())
            }
        }

        impl<'de> Decode<'de> for $type {
            #[inline]
            fn decode(reader: &mut Reader<'de>) -> Result<Self, Error> {
                Ok(<$type>::from_be_bytes(*reader.array()?))
            }
        }
    )* };
}

numbers!(i32, u32, i64, u64, f32, f64);

/// Implements rpcgen's narrow integers: four bytes on the wire. Values that do not fit are rejected.
macro_rules! narrow {
    ($($type:ty as $wide:ty, $name:literal);* $(;)?) => { $(
        fixed_layout!($type => 4);

        impl Encode for $type {
            #[inline]
            fn encode<S: Sink + ?Sized>(&self, sink: &mut S) -> Result<(), Error> {
                <$wide>::from(*self).encode(sink)
            }
        }

        impl<'de> Decode<'de> for $type {
            #[inline]
            fn decode(reader: &mut Reader<'de>) -> Result<Self, Error> {
                let at = reader.position();
                let wide = <$wide>::decode(reader)?;
                <$type>::try_from(wide).map_err(|_| {
                    let kind = super::ErrorKind::OutOfRange { type_name: $name, value: i64::from(wide) };
                    Error::new(kind, at)
                })
            }
        }
    )* };
}

narrow!(i16 as i32, "short"; u16 as u32, "unsigned short");

/// rpcgen's `char`: a signed byte in four bytes on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Char(pub i8);

/// rpcgen's `unsigned char`: a byte in four bytes on the wire. (`u8` itself is not an XDR type: `[u8; N]` is
/// opaque.)
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnsignedChar(pub u8);

impl From<Char> for i32 {
    fn from(value: Char) -> Self {
        i32::from(value.0)
    }
}

impl TryFrom<i32> for Char {
    type Error = core::num::TryFromIntError;
    fn try_from(value: i32) -> Result<Self, Self::Error> {
        i8::try_from(value).map(Char)
    }
}

impl From<UnsignedChar> for u32 {
    fn from(value: UnsignedChar) -> Self {
        u32::from(value.0)
    }
}

impl TryFrom<u32> for UnsignedChar {
    type Error = core::num::TryFromIntError;
    fn try_from(value: u32) -> Result<Self, Self::Error> {
        u8::try_from(value).map(UnsignedChar)
    }
}

narrow!(Char as i32, "char"; UnsignedChar as u32, "unsigned char");

/// A quadruple-precision floating-point number (RFC 4506 section 4.8), stored as its 16 bytes. Stable Rust
/// has no such type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Quadruple(pub [u8; 16]);

fixed_layout!(Quadruple => 16, bool => 4, () => 0);

impl Encode for Quadruple {
    #[inline]
    fn encode<S: Sink + ?Sized>(&self, sink: &mut S) -> Result<(), Error> {
        sink.put(&self.0)
    }
}

impl<'de> Decode<'de> for Quadruple {
    #[inline]
    fn decode(reader: &mut Reader<'de>) -> Result<Self, Error> {
        Ok(Quadruple(*reader.array()?))
    }
}

impl Encode for bool {
    #[inline]
    fn encode<S: Sink + ?Sized>(&self, sink: &mut S) -> Result<(), Error> {
        sink.put_u32(u32::from(*self))
    }
}

impl<'de> Decode<'de> for bool {
    #[inline]
    fn decode(reader: &mut Reader<'de>) -> Result<Self, Error> {
        reader.bool()
    }
}

impl Encode for () {
    #[inline]
    fn encode<S: Sink + ?Sized>(&self, _sink: &mut S) -> Result<(), Error> {
        Ok(())
    }
}

impl<'de> Decode<'de> for () {
    #[inline]
    fn decode(_reader: &mut Reader<'de>) -> Result<Self, Error> {
        Ok(())
    }
}

macro_rules! discriminants {
    ($($type:ty as $word:ty),*) => { $(
        impl Discriminant for $type {
            type Word = $word;

            #[inline]
            fn number(&self) -> i128 {
                i128::from(*self)
            }

            #[inline]
            fn word(&self) -> $word {
                <$word>::from(*self)
            }
        }
    )* };
}

discriminants!(i32 as i32, u32 as u32, i64 as i64, u64 as u64, bool as u32);

/// Fixed-length opaque data (RFC 4506 section 4.9).
impl<const N: usize> Layout for [u8; N] {
    const LENGTHS: Lengths = Lengths::of_fixed_opaque(N as u64);
    const HELD: Items = Items::NONE;
}

impl<const N: usize> Encode for [u8; N] {
    #[inline]
    fn encode<S: Sink + ?Sized>(&self, sink: &mut S) -> Result<(), Error> {
        sink.put_padded(self)
    }
}

impl<'de, const N: usize> Decode<'de> for [u8; N] {
    #[inline]
    fn decode(reader: &mut Reader<'de>) -> Result<Self, Error> {
        let data = *reader.array::<N>()?;
        let at = reader.position();
        if reader.take(const { pad_len(N) })?.iter().any(|byte| *byte != 0) {
            return Err(Error::new(super::ErrorKind::Padding, at));
        }
        Ok(data)
    }
}

/// Fixed-length arrays (RFC 4506 section 4.12).
impl<T: Layout, const N: usize> Layout for [T; N] {
    const LENGTHS: Lengths = T::LENGTHS.times(N as u64);
    const HELD: Items = T::HELD.times(N as u64);
}

impl<T: Encode, const N: usize> Encode for [T; N] {
    #[inline]
    fn encode<S: Sink + ?Sized>(&self, sink: &mut S) -> Result<(), Error> {
        self.encode_fields::<S, false>(sink)
    }

    #[inline]
    fn encode_fields<S: Sink + ?Sized, const RUN: bool>(&self, sink: &mut S) -> Result<(), Error> {
        for (index, value) in self.iter().enumerate() {
            let written =
                if const { RUN } { value.encode_fields::<S, true>(sink) } else { value.encode(sink) };
            written.map_err(|error| error.at_index(index))?;
        }
        Ok(())
    }
}

impl<'de, T: Decode<'de>, const N: usize> Decode<'de> for [T; N] {
    fn decode(reader: &mut Reader<'de>) -> Result<Self, Error> {
        reader.require(<Self as Layout>::LENGTHS.min)?;
        let mut values = ArrayVec::<T, N>::new();
        while !values.is_full() {
            let value = T::decode(reader).map_err(|error| error.at_index(values.len()))?;
            if values.try_push(value).is_err() {
                break;
            }
        }
        // The array is full: it has exactly `N` elements.
        values.into_inner().map_err(|short| {
            reader.error(super::ErrorKind::Truncated { needed: N as u64, left: short.len() as u64 })
        })
    }
}

/// Optional data (RFC 4506 section 4.19).
impl<T: Layout> Layout for Option<T> {
    const LENGTHS: Lengths = T::LENGTHS.optional();
    const HELD: Items = T::HELD;
}

impl<T: Encode> Encode for Option<T> {
    #[inline]
    fn encode<S: Sink + ?Sized>(&self, sink: &mut S) -> Result<(), Error> {
        match self {
            Some(value) => super::derive_support::encode_behind(&true, value, sink),
            None => sink.put_u32(0),
        }
    }
}

impl<'de, T: Decode<'de>> Decode<'de> for Option<T> {
    #[inline]
    fn decode(reader: &mut Reader<'de>) -> Result<Self, Error> {
        if reader.bool()? { T::decode(reader).map(Some) } else { Ok(None) }
    }
}

/// The lengths are unknown, because `T` may contain this box. Lengths computed from those of `T` would then
/// depend on themselves and not compile.
impl<T: Layout> Layout for Box<T> {
    const LENGTHS: Lengths = Lengths::UNKNOWN;
    const HELD: Items = T::HELD; // a cycle? mark one of its fields `#[xdr(recursive)]`
}

impl<T: Encode> Encode for Box<T> {
    #[inline]
    fn encode<S: Sink + ?Sized>(&self, sink: &mut S) -> Result<(), Error> {
        T::encode(self, sink)
    }
}

impl<'de, T: Decode<'de>> Decode<'de> for Box<T> {
    fn decode(reader: &mut Reader<'de>) -> Result<Self, Error> {
        reader.enter()?;
        let value = Box::new(T::decode(reader)?);
        reader.leave();
        Ok(value)
    }
}

/// A counted array without a bound (RFC 4506 section 4.13). `#[xdr(max = N)]` on the field sets a bound.
///
/// The lengths of `T` are not used, because `T` may contain this array: see the implementation for `Box`.
impl<T: Layout> Layout for Vec<T> {
    const LENGTHS: Lengths = Lengths::UNKNOWN.array(u32::MAX);
    const HELD: Items = T::HELD.array(u32::MAX); // a cycle? mark one of its fields `#[xdr(recursive)]`
}

impl<T: Encode> Encode for Vec<T> {
    #[inline]
    fn encode<S: Sink + ?Sized>(&self, sink: &mut S) -> Result<(), Error> {
        encode_array(self, u32::MAX, sink)
    }
}

impl<'de, T: Decode<'de>> Decode<'de> for Vec<T> {
    #[inline]
    fn decode(reader: &mut Reader<'de>) -> Result<Self, Error> {
        decode_array(reader, u32::MAX)
    }
}
