use alloc::vec::Vec;

use super::{Decode, Encode, Error, Layout, Reader, Sink};

/// Writes a counted array of at most `max` elements (RFC 4506 section 4.13).
///
/// # Errors
/// [`super::ErrorKind::TooLong`] if there are more.
#[inline]
pub fn encode_array<T: Encode, S: Sink + ?Sized>(values: &[T], max: u32, sink: &mut S) -> Result<(), Error> {
    sink.put_count(values.len(), max)?;
    for (index, value) in values.iter().enumerate() {
        value.encode(sink).map_err(|error| error.at_index(index))?;
    }
    Ok(())
}

/// Reads a counted array of at most `max` elements. Reserves no more than the rest of the stream can hold.
///
/// # Errors
/// [`super::ErrorKind::TooLong`], and what an element refuses.
pub fn decode_array<'de, T: Decode<'de>>(reader: &mut Reader<'de>, max: u32) -> Result<Vec<T>, Error> {
    let count = reader.count(max)?;
    require_elements::<T>(reader, count)?;
    let count = count as usize;
    reader.enter()?;
    let mut values =
        Vec::with_capacity(count.min(reader.remaining().div_euclid(size_of::<T>().max(1)).saturating_add(1)));
    for index in 0..count {
        values.push(T::decode(reader).map_err(|error| error.at_index(index))?);
    }
    reader.leave();
    Ok(values)
}

/// Refuses a count of elements that the rest of the stream cannot hold.
///
/// # Errors
/// [`super::ErrorKind::Truncated`], or [`super::ErrorKind::TooLong`] if elements take no bytes.
pub(super) fn require_elements<T: Layout>(reader: &mut Reader<'_>, count: u32) -> Result<(), Error> {
    let Some(room) = reader.remaining().checked_div(usize::try_from(T::MIN).unwrap_or(usize::MAX)) else {
        return reader.claim_empty(count);
    };
    if count as usize > room {
        return Err(reader.error(super::ErrorKind::Truncated {
            needed: u64::from(count).saturating_mul(T::MIN),
            left: reader.remaining() as u64,
        }));
    }
    Ok(())
}

/// Writes a chain of optional data, each element followed by a pointer to the next (RFC 4506 section 4.19).
///
/// # Errors
/// What an element refuses.
#[inline]
pub fn encode_list<T: Encode, S: Sink + ?Sized>(values: &[T], sink: &mut S) -> Result<(), Error> {
    for (index, value) in values.iter().enumerate() {
        sink.put_u32(1)?;
        value.encode(sink).map_err(|error| error.at_index(index))?;
    }
    sink.put_u32(0)
}

/// Reads a chain of optional data in a loop: its length costs no stack.
///
/// # Errors
/// What an element refuses; a chain that does not end is [`super::ErrorKind::Truncated`].
pub fn decode_list<'de, T: Decode<'de>>(reader: &mut Reader<'de>) -> Result<Vec<T>, Error> {
    reader.enter()?;
    let mut values = Vec::new();
    while reader.bool()? {
        let (index, left) = (values.len(), reader.remaining());
        let value = T::decode(reader).map_err(|error| error.at_index(index))?;
        if index == 0 {
            values.reserve_exact(alike::<T>(left, reader.remaining()).saturating_add(1));
        }
        values.push(value);
    }
    reader.leave();
    Ok(values)
}

/// How many more elements there are if all of them are as long as the one that left `remaining` of `left` bytes; no more
/// than twice the stream's memory is reserved for them.
#[inline]
fn alike<T>(left: usize, remaining: usize) -> usize {
    let len = left.saturating_sub(remaining).saturating_add(4);
    let most = remaining.saturating_mul(2).div_euclid(size_of::<T>().max(1));
    remaining.div_euclid(len.max(1)).min(most)
}
