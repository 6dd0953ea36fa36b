//! What derived code needs and people do not.

use alloc::vec::Vec;

use super::sink::Room;
pub use super::slice::{Slice, decode_slice, encode_slice, slice_size};
use super::{Encode, Error, Layout, Reader, Sink, Size};

/// The element type of an array's container.
pub trait Elements {
    /// The element.
    type Element;
}

impl<T> Elements for Vec<T> {
    type Element = T;
}

/// A union one of whose arms, the one of this index, keeps the discriminant that chose it.
pub trait Keeps<const ARM: usize> {
    /// The discriminant.
    type Discriminant;

    /// Whether it chooses this arm: with any other the value would not be read as what was written.
    fn chooses(discriminant: &Self::Discriminant) -> bool;
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

/// Writes a value behind the word that announces it, a discriminant or whether it is there: into room that is made once,
/// if both have one length.
///
/// # Errors
/// What the value refuses.
#[inline(always)]
pub fn encode_behind<D: Encode, T: Encode, S: Sink + ?Sized>(
    announced: &D,
    value: &T,
    sink: &mut S,
) -> Result<(), Error> {
    let position = sink.position();
    if let (Size::Bounded(max), Ok(len)) =
        (D::MAX.plus(T::MAX), usize::try_from(D::MIN.saturating_add(T::MIN)))
        && max == len as u64
        && let Some(room) = sink.room(len)
    {
        let mut room = Room::new(room, position);
        announced.encode(&mut room)?;
        value.encode(&mut room)?;
        return room.finish();
    }
    announced.encode(sink)?;
    value.encode(sink)
}

/// Writes a struct field by field: into room that is made once, if its encodings have one length.
///
/// # Errors
/// What a field refuses.
#[inline(always)]
pub fn encode_struct<T: Encode, S: Sink + ?Sized>(value: &T, sink: &mut S) -> Result<(), Error> {
    let position = sink.position();
    if let (Size::Bounded(max), Ok(len)) = (T::MAX, usize::try_from(T::MIN))
        && max == T::MIN
        && let Some(room) = sink.room(len)
    {
        let mut room = Room::new(room, position);
        value.encode_fields(&mut room)?;
        return room.finish();
    }
    value.encode_fields(sink)
}
