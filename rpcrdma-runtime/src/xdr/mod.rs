//! The External Data Representation (RFC 4506): values to bytes and back.
//!
//! Uses `core` and `alloc` only, but for the feature `std`, with which a thread keeps memory for its next
//! message. Decoding shares the memory of what arrived: an [`Opaque`] is a view of it, not a copy, and so is
//! an [`XdrString`] that is too long to be held in place. Nothing that a peer claims is believed before it is
//! there: a count reserves no more than what the remaining bytes can hold, every bound is checked in both
//! directions, padding must be zero, and nesting has a limit.
//!
//! For data there are two families of types. [`Opaque`] and [`XdrString`] share memory and can be kept for as long as one
//! likes. [`OpaqueRef`], [`StringRef`], [`ArrayRef`], [`ListRef`] and [`BoxRef`] borrow the message: to decode values
//! made of them, and of plain data, allocates nothing at all.
//!
//! Types get their encoding from `#[derive(Xdr)]`, written by hand or by rpcrdma-xdrgen.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))] // lengths come from peers

#[cfg(feature = "arbitrary")]
pub mod arbitrary_with;
mod array;
mod array_ref;
mod buffer;
#[doc(hidden)]
pub mod derive_support;
mod error;
mod field;
mod impls;
mod item;
mod message;
mod opaque;
mod opaque_ref;
mod reader;
#[cfg(feature = "serde")]
pub mod serde_as;
mod sink;
mod slice;
#[cfg_attr(not(feature = "std"), path = "no_spare.rs")]
mod spare;
mod string;

pub use array::{decode_array, decode_list, encode_array, encode_list};
pub use array_ref::{ArrayRef, BoxRef, Iter, ListRef};
pub use bytes::{Bytes, BytesMut};
pub use error::{Error, ErrorKind};
pub use impls::{Char, Quadruple, UnsignedChar};
pub use item::Item;
pub use message::{Message, Placed, PlacedItem, Received, Reducer};
pub use opaque::{DdpItem, Opaque, SmallOpaque};
pub use opaque_ref::{OpaqueRef, StringRef};
pub use reader::{Limits, Reader};
pub use rpcrdma_derive::Xdr;
pub use rpcrdma_layout::{Items, Lengths, Size};
pub use sink::{Length, Sink, Writer, encoded_len, to_bytes};
pub(crate) use spare::{copied, keep_items};
pub use string::XdrString;

/// What can choose the arm of a union: `i32`, `u32`, `bool` and every C-like enum that derives [`Xdr`]
/// (RFC 4506 section 4.15); also `i64` and `u64`, which some compilers of XDR accept.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the discriminant of a union",
    label = "neither an integer of 32 bits, nor a bool, nor an enum",
    note = "a union's discriminant is an `i32`, a `u32`, a `bool`, or an enum without data that derives `Xdr` (RFC 4506 section 4.15)"
)]
pub trait Discriminant {
    /// What it is on the wire.
    #[doc(hidden)]
    type Word: Encode;

    /// The value as a number, for errors.
    fn number(&self) -> i128;

    #[doc(hidden)]
    fn word(&self) -> Self::Word;
}

/// How long the encodings of a type can be and which DDP-eligible items it can hold, known at compile time.
///
/// `T::LENGTHS.max` is the longest encoding in bytes, `T::HELD.largest` the largest item.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no XDR encoding, so its size is not known",
    label = "no encoding",
    note = "put `#[derive(Xdr)]` on it; text is `XdrString<N>`, opaque data is `[u8; N]`, `SmallOpaque<N>` or `Opaque<N>`"
)]
pub trait Layout {
    /// How long encodings can be.
    const LENGTHS: Lengths;
    /// The DDP-eligible items that a value can hold.
    const HELD: Items;
}

/// A type that can be written as XDR.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no XDR encoding, so it cannot be written",
    label = "no encoding",
    note = "put `#[derive(Xdr)]` on it; text is `XdrString<N>`, opaque data is `[u8; N]`, `SmallOpaque<N>` or `Opaque<N>`"
)]
pub trait Encode: Layout {
    /// Writes the value.
    ///
    /// # Errors
    /// [`ErrorKind::TooLong`] if the value breaks a bound of its type. Nothing is cut to fit.
    fn encode<S: Sink + ?Sized>(&self, sink: &mut S) -> Result<(), Error>;

    /// The same, a field at a time: what derived code for a struct has to say. In a `RUN` the sink is memory that was made for
    /// all of it, so that no part is given memory of its own: the code to do so would be there again for each level of
    /// structs in place.
    #[doc(hidden)]
    #[inline]
    fn encode_fields<S: Sink + ?Sized, const RUN: bool>(&self, sink: &mut S) -> Result<(), Error> {
        self.encode(sink)
    }
}

/// A type that can be read from XDR. Values may borrow from what is read.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no XDR encoding, so it cannot be read",
    label = "no encoding",
    note = "put `#[derive(Xdr)]` on it; text is `XdrString<N>`, opaque data is `[u8; N]`, `SmallOpaque<N>` or `Opaque<N>`"
)]
pub trait Decode<'de>: Layout + Sized {
    /// Reads one value.
    ///
    /// # Errors
    /// Everything that is not exactly an encoding of this type, with the byte and the field.
    fn decode(reader: &mut Reader<'de>) -> Result<Self, Error>;
}

/// A type that owns what it holds and can be written and read. Implemented for every such type.
pub trait Xdr: Encode + for<'de> Decode<'de> {}

impl<T: Encode + for<'de> Decode<'de>> Xdr for T {}

/// Reads one value that fills `bytes` to the end. Opaque data shares the memory of `bytes`.
///
/// # Errors
/// What [`Decode::decode`] refuses, and [`ErrorKind::Trailing`] if bytes are left over.
#[inline(always)]
pub fn from_bytes<T: Xdr>(bytes: &Bytes) -> Result<T, Error> {
    let mut reader = Reader::from_bytes(bytes);
    let value = T::decode(&mut reader)?;
    reader.finish()?;
    Ok(value)
}

/// Reads one value that fills `bytes` to the end.
///
/// # Errors
/// What [`Decode::decode`] refuses, and [`ErrorKind::Trailing`] if bytes are left over.
#[inline(always)]
pub fn from_slice<'de, T: Decode<'de>>(bytes: &'de [u8]) -> Result<T, Error> {
    let mut reader = Reader::from_slice(bytes);
    let value = T::decode(&mut reader)?;
    reader.finish()?;
    Ok(value)
}

/// How many bytes of zero follow `len` bytes of opaque data: up to the next multiple of four.
#[inline]
#[must_use]
pub const fn pad_len(len: usize) -> usize {
    len.wrapping_neg() & 3
}
