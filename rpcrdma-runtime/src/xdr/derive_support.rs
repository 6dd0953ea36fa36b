//! What derived code needs and people do not.

use alloc::vec::Vec;

pub use super::field::{Field, Known, Unknown, Written, refused};
use super::sink::Room;
pub use super::slice::{Slice, decode_slice, encode_slice};
use super::{DdpItem, Encode, Error, Layout, Lengths, Reader, Sink, Size};

/// The element type of an array's container.
pub trait Elements {
    /// The element.
    type Element;
}

impl<T> Elements for Vec<T> {
    type Element = T;
}

/// What `#[xdr(max = N)]` can be made of.
#[diagnostic::on_unimplemented(
    message = "a bound is a `u32`, and this is of type `{Self}`",
    label = "not a `u32`",
    note = "XDR's counts are 32 bits without a sign: make it a `u32` where it is defined, or convert it here, as in `max = \"LIMIT as u32\"`"
)]
pub trait Count {
    /// The type itself. Of one that is refused nothing is known, so that nothing else is wrong with it.
    type Count;
}

impl Count for u32 {
    type Count = u32;
}

/// Holds a bound to its type.
pub const fn count<T: Count<Count = T> + Copy>(bound: T) -> <T as Count>::Count {
    bound
}

/// What can be a label of a union with this discriminant, where one says it by a number, a bool or a constant.
#[diagnostic::on_unimplemented(
    message = "this label is of type `{Self}`, and the union's discriminant of type `{D}`",
    label = "no `{D}`",
    note = "a label is a value of the discriminant's type: a number or a bool as it is, an enum's by its name in quotes, as in `case = \"Color::Red\"`, or a constant that is defined as a `{D}`"
)]
pub trait Label<D> {
    /// The type itself, as with [`Count`].
    type Label;
}

#[diagnostic::do_not_recommend] // which types there are besides does not matter
impl Label<i32> for i32 {
    type Label = i32;
}

#[diagnostic::do_not_recommend] // which types there are besides does not matter
impl Label<u32> for u32 {
    type Label = u32;
}

#[diagnostic::do_not_recommend] // which types there are besides does not matter
impl Label<i64> for i64 {
    type Label = i64;
}

#[diagnostic::do_not_recommend] // which types there are besides does not matter
impl Label<u64> for u64 {
    type Label = u64;
}

#[diagnostic::do_not_recommend] // which types there are besides does not matter
impl Label<bool> for bool {
    type Label = bool;
}

/// Holds a label to the type of its discriminant.
pub const fn label<D, T: Label<D, Label = T> + Copy>(label: T) -> <T as Label<D>>::Label {
    label
}

/// A [`DdpItem`] as a marked field asks for it: without what an item is besides, so that what is none is refused once,
/// with an encoding or without.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be DDP-eligible",
    label = "not variable-length opaque data or a string",
    note = "`#[ddp_eligible]` marks an `Opaque` or an `XdrString`, which own their share of the memory (what is borrowed cannot be handed to a transport): mark the field inside the struct, or the payload of the union's arm, that holds the data"
)]
pub trait Eligible: Sized {
    /// As [`DdpItem::LARGEST`].
    const LARGEST: Size;

    /// As [`DdpItem::encode_eligible`].
    ///
    /// # Errors
    /// The same.
    fn encode_eligible<S: Sink + ?Sized>(&self, sink: &mut S) -> Result<(), Error>;

    /// As [`DdpItem::decode_eligible`].
    ///
    /// # Errors
    /// The same.
    fn decode_eligible(reader: &mut Reader<'_>) -> Result<Self, Error>;
}

impl<T: DdpItem> Eligible for T {
    const LARGEST: Size = <T as DdpItem>::LARGEST;

    #[inline(always)]
    fn encode_eligible<S: Sink + ?Sized>(&self, sink: &mut S) -> Result<(), Error> {
        DdpItem::encode_eligible(self, sink)
    }

    #[inline(always)]
    fn decode_eligible(reader: &mut Reader<'_>) -> Result<Self, Error> {
        DdpItem::decode_eligible(reader)
    }
}

/// A union whose arm of this index keeps the discriminant that chose it.
pub trait Keeps<const ARM: usize> {
    /// The discriminant.
    type Discriminant;

    /// Returns true if a discriminant chooses this arm: with any other the value would be decoded as something else.
    fn chooses(discriminant: &Self::Discriminant) -> bool;
}

/// Asks once for all the bytes of a type whose encodings have one length: the compiler sees that the reads
/// behind it cannot fail.
///
/// # Errors
/// [`super::ErrorKind::Truncated`].
#[inline]
pub fn require_fixed<T: Layout>(reader: &Reader<'_>) -> Result<(), Error> {
    match T::LENGTHS.only() {
        Some(len) => reader.require(len),
        None => Ok(()),
    }
}

/// The longest run that is staged.
const STAGE: usize = 256;

/// Writes values whose encodings have one length together, so that there is one check for all of them: into room that the
/// sink has for them, or side by side on the stack, from where they are put at once. There the compiler sees where each
/// value goes, and has them put without a detour; in a function with closures it does not. Else nothing happens.
macro_rules! encode_run {
    ($lengths:expr, $sink:ident, $room:ident => $write:block) => {
        // Asked as a constant: for a type of any length there is no code of what follows, not even to be removed.
        if const { one_length($lengths).is_some() }
            && let Some(len) = one_length($lengths)
        {
            let position = $sink.position();
            if let Some(room) = $sink.room(len) {
                let mut room = Room::new(room, position);
                {
                    let $room = &mut room;
                    $write
                }
                return room.finish();
            }
            let mut stage = [0; STAGE];
            if $sink.stages()
                && let Some((stage, _)) = stage.split_at_mut_checked(len)
            {
                let mut room = Room::new(stage, position);
                {
                    let $room = &mut room;
                    $write
                }
                room.finish()?;
                return $sink.put(stage);
            }
        }
    };
}

/// The length of all encodings of a type, if there is one that memory can have.
#[expect(clippy::cast_possible_truncation, reason = "compared with what it was")]
const fn one_length(lengths: Lengths) -> Option<usize> {
    match lengths.only() {
        Some(len) if len as usize as u64 == len => Some(len as usize),
        _ => None,
    }
}

/// Whether all encodings of a type have one length that a stage has room for. What is left to do where such a type found no memory
/// for all of it is left to its parts, too: no memory is looked for again.
const fn is_staged(lengths: Lengths) -> bool {
    match one_length(lengths) {
        Some(len) => len <= STAGE,
        None => false,
    }
}

/// Writes a value behind the word that announces it, a discriminant or whether it is there: as one run, if both have one
/// length.
///
/// # Errors
/// What the value refuses.
#[inline(always)]
pub fn encode_behind<D: Encode, T: Encode, S: Sink + ?Sized>(
    announced: &D,
    value: &T,
    sink: &mut S,
) -> Result<(), Error> {
    encode_run!(D::LENGTHS.and(T::LENGTHS), sink, room => {
        announced.encode(room)?;
        value.encode_fields::<_, true>(room)?;
    });
    announced.encode(sink)?;
    if const { is_staged(T::LENGTHS) } { value.encode_fields::<_, true>(sink) } else { value.encode(sink) }
}

/// Writes a struct field by field: as one run, if its encodings have one length.
///
/// # Errors
/// What a field refuses.
#[inline(always)]
pub fn encode_struct<T: Encode, S: Sink + ?Sized>(value: &T, sink: &mut S) -> Result<(), Error> {
    encode_run!(T::LENGTHS, sink, room => { value.encode_fields::<_, true>(room)?; });
    if const { is_staged(T::LENGTHS) } {
        value.encode_fields::<_, true>(sink)
    } else {
        value.encode_fields::<_, false>(sink)
    }
}
