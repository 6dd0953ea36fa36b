//! Support for derived code, not meant for direct use.

use alloc::vec::Vec;

pub use super::field::{Field, Known, Unknown, Written, refused};
use super::sink::Room;
pub use super::slice::{Slice, decode_slice, encode_slice};
use super::{DdpItem, Encode, Error, Layout, Lengths, Reader, Sink, Size};

/// A container for the elements of an array.
pub trait Elements {
    /// The element type.
    type Element;
}

impl<T> Elements for Vec<T> {
    type Element = T;
}

/// The types that the bound `N` in `#[xdr(max = N)]` can have.
#[diagnostic::on_unimplemented(
    message = "a bound must be a `u32`, but this has type `{Self}`",
    label = "not a `u32`",
    note = "an XDR count is an unsigned 32-bit integer: define the bound as a `u32`, or convert it here, as in `max = \"LIMIT as u32\"`"
)]
pub trait Count {
    /// The type itself. For a rejected type, `Count` cannot be resolved, so the compiler reports no further
    /// errors.
    type Count;
}

impl Count for u32 {
    type Count = u32;
}

/// Checks the type of a bound.
pub const fn count<T: Count<Count = T> + Copy>(bound: T) -> <T as Count>::Count {
    bound
}

/// The types that a label can have in a union with a discriminant of type `D`, if the label is a number, a
/// bool or a constant.
#[diagnostic::on_unimplemented(
    message = "this label has type `{Self}`, but the union's discriminant has type `{D}`",
    label = "not a `{D}`",
    note = "write a number or a bool directly, a value of an enum by its path in quotes, as in `case = \"Color::Red\"`, or a constant of type `{D}`"
)]
pub trait Label<D> {
    /// The type itself. As with [`Count::Count`], the compiler reports no further errors for a rejected type.
    type Label;
}

#[diagnostic::do_not_recommend] // a list of valid types does not help
impl Label<i32> for i32 {
    type Label = i32;
}

#[diagnostic::do_not_recommend] // a list of valid types does not help
impl Label<u32> for u32 {
    type Label = u32;
}

#[diagnostic::do_not_recommend] // a list of valid types does not help
impl Label<i64> for i64 {
    type Label = i64;
}

#[diagnostic::do_not_recommend] // a list of valid types does not help
impl Label<u64> for u64 {
    type Label = u64;
}

#[diagnostic::do_not_recommend] // a list of valid types does not help
impl Label<bool> for bool {
    type Label = bool;
}

/// Checks the type of a label against the discriminant.
pub const fn label<D, T: Label<D, Label = T> + Copy>(label: T) -> <T as Label<D>>::Label {
    label
}

/// The trait that a field marked as DDP-eligible requires: [`DdpItem`] without its supertraits. An unsuitable
/// type is thus reported only once, whether or not the type has an encoding.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be DDP-eligible",
    label = "neither an `Opaque` nor an `XdrString`",
    note = "`#[ddp_eligible]` marks an `Opaque` or an `XdrString`, which own their share of the memory, unlike borrowed data: mark the field of the struct, or the payload of the union's arm, that holds the data"
)]
pub trait Eligible: Sized {
    /// Same as [`DdpItem::LARGEST`].
    const LARGEST: Size;

    /// Same as [`DdpItem::encode_eligible`].
    ///
    /// # Errors
    /// Fails as [`DdpItem::encode_eligible`] does.
    fn encode_eligible<S: Sink + ?Sized>(&self, sink: &mut S) -> Result<(), Error>;

    /// Same as [`DdpItem::decode_eligible`].
    ///
    /// # Errors
    /// Fails as [`DdpItem::decode_eligible`] does.
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

/// A union whose arm with the index `ARM` stores the discriminant that selected the arm.
pub trait Keeps<const ARM: usize> {
    /// The discriminant.
    type Discriminant;

    /// Returns true if the discriminant selects this arm. With any other discriminant, the encoded value
    /// would not decode as this arm.
    fn chooses(discriminant: &Self::Discriminant) -> bool;
}

/// Checks once that all bytes of a fixed-size type are available. The compiler then sees that the following
/// reads cannot fail.
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

/// The maximum size in bytes of a run that is staged on the stack.
const STAGE: usize = 256;

/// Writes fixed-size values as one run, in the sink's memory or in an array on the stack, and returns from
/// the enclosing function. If neither is possible, the code after the macro writes the values. In a macro,
/// unlike in a function with closures, the compiler knows the position of each value.
macro_rules! encode_run {
    ($lengths:expr, $sink:ident, $room:ident => $write:block) => {
        // A constant condition: for variable-size types no code is generated for the body.
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

/// Returns the encoded size of a fixed-size type, or `None` if the size varies or does not fit a `usize`.
#[expect(clippy::cast_possible_truncation, reason = "the guard compares the result with the original")]
const fn one_length(lengths: Lengths) -> Option<usize> {
    match lengths.only() {
        Some(len) if len as usize as u64 == len => Some(len as usize),
        _ => None,
    }
}

/// Returns true if all encodings of a type have one size that fits the stage. Code after `encode_run` then
/// writes the fields without another attempt to reserve memory.
const fn is_staged(lengths: Lengths) -> bool {
    match one_length(lengths) {
        Some(len) => len <= STAGE,
        None => false,
    }
}

/// Writes a value after the word that announces it: a discriminant, or the presence flag of optional data.
/// Writes both as one run if both have a fixed size and memory for the run is available.
///
/// # Errors
/// Returns the error of the discriminant, of the value or of the sink.
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

/// Writes a struct as one run if it has a fixed size and memory for the run is available, otherwise field by
/// field.
///
/// # Errors
/// Returns the error of a field or of the sink.
#[inline(always)]
pub fn encode_struct<T: Encode, S: Sink + ?Sized>(value: &T, sink: &mut S) -> Result<(), Error> {
    encode_run!(T::LENGTHS, sink, room => { value.encode_fields::<_, true>(room)?; });
    if const { is_staged(T::LENGTHS) } {
        value.encode_fields::<_, true>(sink)
    } else {
        value.encode_fields::<_, false>(sink)
    }
}
