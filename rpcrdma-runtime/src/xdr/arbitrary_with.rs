//! Support for [`arbitrary`]: generates values within their bounds, so that each value can be encoded.
//!
//! A field with `#[xdr(max = N)]` uses [`array()`]. A discriminant stored in a union's arm uses [`one_of`] or
//! [`none_of`]. Generated types use these functions in the same way as this handwritten type:
//!
//! ```
//! use arbitrary::{Arbitrary, Unstructured};
//! use rpcrdma_runtime::xdr::{self, Xdr, arbitrary_with};
//!
//! #[derive(Arbitrary, Xdr)]
//! struct Ballot {
//!     #[xdr(max = 4)]
//!     #[arbitrary(with = arbitrary_with::array::<_, 4>)]
//!     votes: Vec<u32>,
//! }
//!
//! let bytes = [0x5a; 256];
//! let ballot = Ballot::arbitrary(&mut Unstructured::new(&bytes)).unwrap();
//! assert!(ballot.votes.len() <= 4 && xdr::to_bytes(&ballot).is_ok());
//! ```

use alloc::vec::Vec;
use core::ops::ControlFlow;

use arbitrary::{Arbitrary, Result, Unstructured};

use super::{Char, Opaque, Quadruple, SmallOpaque, UnsignedChar, XdrString};

/// Generates at most `MAX` elements.
///
/// # Errors
/// Fails if an element cannot be generated.
pub fn array<'a, T: Arbitrary<'a>, const MAX: u32>(input: &mut Unstructured<'a>) -> Result<Vec<T>> {
    let mut values = Vec::new();
    input.arbitrary_loop(None, Some(MAX), |input| {
        values.push(T::arbitrary(input)?);
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(values)
}

/// Returns a function that picks one of `values`. The returned function fails if `values` is empty.
pub fn one_of<T: Clone>(values: &[T]) -> impl FnOnce(&mut Unstructured<'_>) -> Result<T> {
    move |input| input.choose(values).cloned()
}

/// Returns a function that generates a number not in `taken`.
pub fn none_of<'a, T>(taken: &[T]) -> impl FnOnce(&mut Unstructured<'a>) -> Result<T>
where
    T: Arbitrary<'a> + Following,
{
    move |input| {
        let mut value = T::arbitrary(input)?;
        // At most `taken.len()` steps are needed to skip all taken numbers.
        for _ in taken {
            if !taken.contains(&value) {
                break;
            }
            value = value.following();
        }
        Ok(value)
    }
}

/// Numbers with a successor.
pub trait Following: PartialEq {
    /// Returns the next number. The successor of the last number is the first.
    #[must_use]
    fn following(self) -> Self;
}

macro_rules! following {
    ($($ty:ident)*) => {$(
        impl Following for $ty {
            fn following(self) -> Self {
                self.wrapping_add(1)
            }
        }
    )*};
}

following!(i32 u32 i64 u64);

fn bytes<'a>(input: &mut Unstructured<'a>, max: usize) -> Result<&'a [u8]> {
    let len = input.arbitrary_len::<u8>()?;
    input.bytes(len.min(max))
}

impl<'a, const MAX: u32> Arbitrary<'a> for Opaque<MAX> {
    fn arbitrary(input: &mut Unstructured<'a>) -> Result<Self> {
        bytes(input, usize::try_from(MAX).unwrap_or(usize::MAX)).map(|bytes| bytes.to_vec().into())
    }
}

impl<'a, const MAX: usize> Arbitrary<'a> for SmallOpaque<MAX> {
    fn arbitrary(input: &mut Unstructured<'a>) -> Result<Self> {
        SmallOpaque::new(bytes(input, MAX)?).map_err(|_| arbitrary::Error::IncorrectFormat)
    }
}

impl<'a, const MAX: u32> Arbitrary<'a> for XdrString<MAX> {
    fn arbitrary(input: &mut Unstructured<'a>) -> Result<Self> {
        Opaque::<MAX>::arbitrary(input).map(|bytes| bytes.into_bytes().into())
    }
}

impl<'a> Arbitrary<'a> for Char {
    fn arbitrary(input: &mut Unstructured<'a>) -> Result<Self> {
        i8::arbitrary(input).map(Char)
    }
}

impl<'a> Arbitrary<'a> for UnsignedChar {
    fn arbitrary(input: &mut Unstructured<'a>) -> Result<Self> {
        u8::arbitrary(input).map(UnsignedChar)
    }
}

impl<'a> Arbitrary<'a> for Quadruple {
    fn arbitrary(input: &mut Unstructured<'a>) -> Result<Self> {
        <[u8; 16]>::arbitrary(input).map(Quadruple)
    }
}
