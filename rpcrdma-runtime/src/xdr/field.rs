//! Reads and writes the fields of derived types.
//!
//! The compiler should report a type without an encoding only once. If derived code required [`Layout`],
//! [`Encode`] and [`Decode`], the compiler would report three errors for this type. Derived code therefore
//! requires only [`Layout`], and calls methods of [`Field`] for everything else. If the type has the trait
//! that a method needs, [`Field`]'s own method is selected. Otherwise, the method of [`Known`] or [`Written`]
//! reports the missing trait. If an error for this type is already reported, the method of [`Unknown`] is
//! selected instead.

use alloc::vec::Vec;
use core::marker::PhantomData;

use super::derive_support::encode_behind;
use super::{
    Decode, Encode, Error, ErrorKind, Layout, Reader, Sink, decode_array, decode_list, encode_array,
    encode_list,
};

/// A field of type `T`, or an array or a list of `T`.
#[derive(Debug)]
pub struct Field<'de, T>(PhantomData<&'de ()>, PhantomData<fn() -> T>);

impl<T> Field<'_, T> {
    /// The only value of this type.
    pub const IT: Self = Field(PhantomData, PhantomData);
}

#[allow(clippy::missing_errors_doc)] // each method fails as the function or method of the same name does
impl<T: Encode> Field<'_, T> {
    /// Writes a value.
    #[inline(always)]
    pub fn encode<S: Sink + ?Sized, const RUN: bool>(self, value: &T, sink: &mut S) -> Result<(), Error> {
        if const { RUN } { value.encode_fields::<S, true>(sink) } else { value.encode(sink) }
    }

    /// Writes a value after the word that announces it.
    #[inline(always)]
    pub fn encode_behind<D: Encode, S: Sink + ?Sized>(
        self,
        announced: &D,
        value: &T,
        sink: &mut S,
    ) -> Result<(), Error> {
        encode_behind(announced, value, sink)
    }

    /// Writes a counted array.
    #[inline(always)]
    pub fn encode_array<S: Sink + ?Sized>(self, values: &[T], max: u32, sink: &mut S) -> Result<(), Error> {
        encode_array(values, max, sink)
    }

    /// Writes a chain of optional data.
    #[inline(always)]
    pub fn encode_list<S: Sink + ?Sized>(self, values: &[T], sink: &mut S) -> Result<(), Error> {
        encode_list(values, sink)
    }
}

#[allow(clippy::missing_errors_doc)] // as above
impl<'de, T: Decode<'de>> Field<'de, T> {
    /// Reads a value.
    #[inline(always)]
    pub fn decode(self, reader: &mut Reader<'de>) -> Result<T, Error> {
        T::decode(reader)
    }

    /// Reads a counted array.
    #[inline(always)]
    pub fn decode_array(self, reader: &mut Reader<'de>, max: u32) -> Result<Vec<T>, Error> {
        decode_array(reader, max)
    }

    /// Reads a chain of optional data.
    #[inline(always)]
    pub fn decode_list(self, reader: &mut Reader<'de>) -> Result<Vec<T>, Error> {
        decode_list(reader)
    }
}

/// Reports a type that implements [`Layout`] by hand but lacks [`Encode`] where it is required.
#[allow(missing_docs, clippy::missing_errors_doc)] // see the methods of `Field`
pub trait Known<T: Layout>: Sized {
    fn encode<S: Sink + ?Sized, const RUN: bool>(self, value: &T, sink: &mut S) -> Result<(), Error>
    where
        T: Encode,
    {
        value.encode(sink)
    }

    fn encode_behind<D: Encode, S: Sink + ?Sized>(
        self,
        announced: &D,
        value: &T,
        sink: &mut S,
    ) -> Result<(), Error>
    where
        T: Encode,
    {
        encode_behind(announced, value, sink)
    }

    fn encode_array<S: Sink + ?Sized>(self, values: &[T], max: u32, sink: &mut S) -> Result<(), Error>
    where
        T: Encode,
    {
        encode_array(values, max, sink)
    }

    fn encode_list<S: Sink + ?Sized>(self, values: &[T], sink: &mut S) -> Result<(), Error>
    where
        T: Encode,
    {
        encode_list(values, sink)
    }
}

impl<T: Layout> Known<T> for Field<'_, T> {}

/// Reports a type that implements [`Encode`] but lacks [`Decode`] where it is required. A type that lacks
/// both traits is reported earlier.
#[allow(missing_docs, clippy::missing_errors_doc)] // see the methods of `Field`
pub trait Written<'de, T: Encode>: Sized {
    fn decode(self, reader: &mut Reader<'de>) -> Result<T, Error>
    where
        T: Decode<'de>,
    {
        T::decode(reader)
    }

    fn decode_array(self, reader: &mut Reader<'de>, max: u32) -> Result<Vec<T>, Error>
    where
        T: Decode<'de>,
    {
        decode_array(reader, max)
    }

    fn decode_list(self, reader: &mut Reader<'de>) -> Result<Vec<T>, Error>
    where
        T: Decode<'de>,
    {
        decode_list(reader)
    }
}

impl<'de, T: Encode> Written<'de, T> for Field<'de, T> {}

/// Accepts a type whose missing encoding is already reported, so that no further error follows. These methods
/// never run.
#[allow(missing_docs, clippy::missing_errors_doc)] // see the methods of `Field`
pub trait Unknown<T> {
    fn encode<S: ?Sized, const RUN: bool>(&self, _value: &T, _sink: &mut S) -> Result<(), Error> {
        Err(refused())
    }

    fn encode_behind<D, S: ?Sized>(&self, _announced: &D, _value: &T, _sink: &mut S) -> Result<(), Error> {
        Err(refused())
    }

    fn encode_array<S: ?Sized>(&self, _values: &[T], _max: u32, _sink: &mut S) -> Result<(), Error> {
        Err(refused())
    }

    fn encode_list<S: ?Sized>(&self, _values: &[T], _sink: &mut S) -> Result<(), Error> {
        Err(refused())
    }

    fn decode(&self, _reader: &mut Reader<'_>) -> Result<T, Error> {
        Err(refused())
    }

    fn decode_array(&self, _reader: &mut Reader<'_>, _max: u32) -> Result<Vec<T>, Error> {
        Err(refused())
    }

    fn decode_list(&self, _reader: &mut Reader<'_>) -> Result<Vec<T>, Error> {
        Err(refused())
    }
}

impl<T> Unknown<T> for Field<'_, T> {}

/// Returns an error for code that stands in for a missing encoding. That code never runs, because its crate
/// does not compile.
#[must_use]
pub fn refused() -> Error {
    Error::new(ErrorKind::TooLarge, 0)
}
