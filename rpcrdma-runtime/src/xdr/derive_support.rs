//! What derived code needs and people do not.

use alloc::vec::Vec;

pub use super::slice::{Slice, decode_slice, encode_slice, slice_size};
use super::{Error, Layout, Reader, Size};

/// The element type of an array's container.
pub trait Elements {
    /// The element.
    type Element;
}

impl<T> Elements for Vec<T> {
    type Element = T;
}

/// The least of some sizes; none is 0.
#[must_use]
pub const fn least(sizes: &[u64]) -> u64 {
    let Some((first, mut rest)) = sizes.split_first() else { return 0 };
    let mut least = *first;
    while let Some((next, behind)) = rest.split_first() {
        if *next < least {
            least = *next;
        }
        rest = behind;
    }
    least
}

/// Asks once for all the bytes of a type whose encodings have one length: the compiler sees that the reads
/// behind it cannot fail.
///
/// # Errors
/// [`super::ErrorKind::Truncated`].
#[inline]
pub fn require_fixed<T: Layout>(reader: &Reader<'_>) -> Result<(), Error> {
    match T::MAX {
        Size::Bounded(max) if max == T::MIN => reader.require(max),
        _ => Ok(()),
    }
}
