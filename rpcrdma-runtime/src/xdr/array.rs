use alloc::vec::Vec;

use super::sink::TrialSink;
use super::{Decode, Encode, Error, Layout, Reader, Sink};

/// Writes a counted array of at most `max` elements (RFC 4506 section 4.13).
///
/// # Errors
/// [`super::ErrorKind::TooLong`] if `values` has more elements, or the error of an element or of the sink.
#[inline]
pub fn encode_array<T: Encode, S: Sink + ?Sized>(values: &[T], max: u32, sink: &mut S) -> Result<(), Error> {
    sink.put_count(values.len(), max)?;
    encode_elements::<T, S, false>(values, sink)
}

/// Writes the elements, each after the word 1 (TRUE) if `LINKED`.
#[inline]
pub(super) fn encode_elements<T: Encode, S: Sink + ?Sized, const LINKED: bool>(
    values: &[T],
    sink: &mut S,
) -> Result<(), Error> {
    // A sink must receive DDP-eligible items directly, not as staged bytes.
    let plain = T::HELD.is_none();
    let mut index = if plain { encode_ahead::<T, S, LINKED>(values, sink)? } else { 0 };
    if plain && sink.stages() && is_long::<T>(values.len().saturating_sub(index)) {
        return encode_staged::<T, S, LINKED>(values, index, sink);
    }
    while let Some(value) = values.get(index)
        && !sink.is_full()
    {
        encode_element::<T, S, LINKED>(value, index, sink)?;
        index = index.saturating_add(1);
    }
    Ok(())
}

#[inline]
fn encode_element<T: Encode, S: Sink + ?Sized, const LINKED: bool>(
    value: &T,
    index: usize,
    sink: &mut S,
) -> Result<(), Error> {
    if LINKED {
        sink.put_u32(1)?;
    }
    value.encode(sink).map_err(|error| error.at_index(index))
}

/// Writes as many elements as fit into the memory after the sink's content. Returns their number.
#[inline]
fn encode_ahead<T: Encode, S: Sink + ?Sized, const LINKED: bool>(
    values: &[T],
    sink: &mut S,
) -> Result<usize, Error> {
    let position = sink.position();
    let memory = sink.ahead();
    if memory.is_empty() {
        return Ok(0);
    }
    let (done, len) = fill::<T, LINKED>(values, 0, memory, position)?;
    sink.advance(len);
    Ok(done)
}

/// The size in bytes of the stage: memory on the stack for elements that are passed to the sink in one call.
const STAGE: usize = 1024;

#[inline]
fn is_long<T: Layout>(count: usize) -> bool {
    T::LENGTHS.min.saturating_mul(count as u64) >= STAGE as u64 / 4
}

/// Writes the elements from index `first` onward by way of the stage.
fn encode_staged<T: Encode, S: Sink + ?Sized, const LINKED: bool>(
    values: &[T],
    first: usize,
    sink: &mut S,
) -> Result<(), Error> {
    let (mut stage, mut index) = ([0; STAGE], first);
    while let Some(rest) = values.get(index..)
        && let Some(next) = rest.first()
    {
        let (done, len) = fill::<T, LINKED>(rest, index, &mut stage, sink.position())?;
        if done == 0 {
            // The element is longer than the stage.
            encode_element::<T, S, LINKED>(next, index, sink)?;
        } else {
            sink.put(stage.get(..len).unwrap_or_default())?;
        }
        index = index.saturating_add(done.max(1));
    }
    Ok(())
}

/// Writes as many elements as fit into `memory`. The element `values[0]` has the index `first`. Returns the
/// number of written elements and the number of written bytes.
#[inline]
fn fill<T: Encode, const LINKED: bool>(
    values: &[T],
    first: usize,
    memory: &mut [u8],
    position: u64,
) -> Result<(usize, usize), Error> {
    let all = memory.len();
    // A local sink lets the compiler keep the position in a register.
    let mut ahead = TrialSink::new(memory, position);
    let (mut done, mut left) = (0usize, all);
    for value in values {
        let written = encode_element::<T, _, LINKED>(value, first.saturating_add(done), &mut ahead);
        // An error after an incomplete write is ignored, because its offset is wrong. The error recurs when
        // the caller writes the element again.
        if ahead.is_full() {
            break;
        }
        written?;
        left = ahead.left();
        done = done.saturating_add(1);
    }
    Ok((done, all.saturating_sub(left)))
}

/// Reads a counted array of at most `max` elements. The initially reserved memory is at most the size of the
/// remaining stream plus one element.
///
/// # Errors
/// [`super::ErrorKind::TooLong`], [`super::ErrorKind::Truncated`], [`super::ErrorKind::TooDeep`], or the
/// error of an element.
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

/// Rejects a count of elements that the rest of the stream cannot contain.
///
/// # Errors
/// [`super::ErrorKind::Truncated`], or [`super::ErrorKind::TooLong`] for elements that may have size zero.
pub(super) fn require_elements<T: Layout>(reader: &mut Reader<'_>, count: u32) -> Result<(), Error> {
    let Some(room) = reader.remaining().checked_div(usize::try_from(T::LENGTHS.min).unwrap_or(usize::MAX))
    else {
        return reader.claim_empty(count);
    };
    if count as usize > room {
        return Err(reader.error(super::ErrorKind::Truncated {
            needed: u64::from(count).saturating_mul(T::LENGTHS.min),
            left: reader.remaining() as u64,
        }));
    }
    Ok(())
}

/// Writes a chain of optional data (RFC 4506 section 4.19): TRUE before each element, and FALSE at the end.
///
/// # Errors
/// Returns the error of an element or of the sink.
#[inline]
pub fn encode_list<T: Encode, S: Sink + ?Sized>(values: &[T], sink: &mut S) -> Result<(), Error> {
    encode_elements::<T, S, true>(values, sink)?;
    sink.put_u32(0)
}

/// Reads a chain of optional data in a loop, so that a long chain needs no more stack than a short chain.
///
/// # Errors
/// [`super::ErrorKind::Truncated`] if the stream ends before the chain, [`super::ErrorKind::BadBool`],
/// [`super::ErrorKind::TooDeep`], or the error of an element.
pub fn decode_list<'de, T: Decode<'de>>(reader: &mut Reader<'de>) -> Result<Vec<T>, Error> {
    reader.enter()?;
    let mut values = Vec::new();
    while reader.bool()? {
        let (index, left) = (values.len(), reader.remaining());
        let value = T::decode(reader).map_err(|error| error.at_index(index))?;
        // If each of many nested lists reserved memory for the rest of the message, the reserved memory would
        // grow with the square of the message's length.
        if index == 0 && !reader.is_nested() {
            values.reserve_exact(estimate_count::<T>(left, reader.remaining()).saturating_add(1));
        }
        values.push(value);
    }
    reader.leave();
    Ok(values)
}

/// Estimates the number of further elements from the size of the first element. Reading this element reduced
/// the stream from `left` to `remaining` bytes. The estimated elements occupy at most twice as much memory as
/// the remaining stream.
#[inline]
fn estimate_count<T>(left: usize, remaining: usize) -> usize {
    let len = left.saturating_sub(remaining).saturating_add(4);
    let max = remaining.saturating_mul(2).div_euclid(size_of::<T>().max(1));
    remaining.div_euclid(len.max(1)).min(max)
}
