//! What a reply says was put where, checked against what was offered, and the data itself.

use alloc::vec::Vec;

use bytes::{Bytes, BytesMut};

use crate::proto::work::Memory;
use crate::wire::rdma::WriteChunk;
use crate::xdr::PlacedItem;

/// The bytes that the responder says it wrote to each segment of one chunk.
pub(super) type Lengths = Vec<u32>;

/// Checks a returned chunk. The responder fills segments in order without a gap and changes nothing but lengths
/// (RFC 8166 section 3.4.6); one that leaves out the segments it did not use is tolerated.
///
/// # Errors
/// What is wrong, in words.
pub(super) fn check(returned: &WriteChunk, offered: &WriteChunk) -> Result<Lengths, &'static str> {
    if returned.0.len() > offered.0.len() {
        return Err("a returned chunk has more segments than were offered");
    }
    let mut full = true;
    let mut lengths = Vec::with_capacity(offered.0.len());
    for (back, out) in returned.0.iter().zip(&offered.0) {
        if back.handle != out.handle || back.offset != out.offset {
            return Err("a returned segment is not the one that was offered");
        }
        if back.length > out.length {
            return Err("a returned segment is longer than what was offered");
        }
        if back.length > 0 && !full {
            return Err("a returned chunk has a gap");
        }
        full = back.length == out.length;
        lengths.push(back.length);
    }
    lengths.resize(offered.0.len(), 0);
    Ok(lengths)
}

/// A chunk's data from its fenced memory: one segment is given up as it is, several are joined.
pub(super) fn collect(parts: impl IntoIterator<Item = (u32, Option<Memory>)>) -> Bytes {
    let mut pieces: Vec<BytesMut> = Vec::new();
    for (length, memory) in parts {
        if let Some(Memory::Sink(mut data)) = memory {
            data.truncate(usize::try_from(length).unwrap_or(usize::MAX));
            if !data.is_empty() {
                pieces.push(data);
            }
        }
    }
    match pieces.len() {
        0 => Bytes::new(),
        1 => pieces.pop().unwrap_or_default().freeze(),
        _ => pieces.concat().into(),
    }
}

/// The same as an item for the decoder.
pub(super) fn item(parts: Vec<(u32, Option<Memory>)>) -> PlacedItem {
    let segments = u32::try_from(parts.len()).unwrap_or(u32::MAX);
    PlacedItem { data: collect(parts), segments }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::rdma::Segment;

    fn chunk(lengths: &[u32]) -> WriteChunk {
        let segment = |(handle, length): (u32, &u32)| Segment { handle, length: *length, offset: 7 };
        WriteChunk((1..).zip(lengths).map(segment).collect())
    }

    #[test]
    fn r093_lengths_come_back_in_order_without_a_gap() {
        let offered = chunk(&[10, 10, 10]);
        assert_eq!(check(&chunk(&[10, 4, 0]), &offered), Ok([10, 4, 0].to_vec()));
        assert_eq!(check(&chunk(&[0, 0, 0]), &offered), Ok([0, 0, 0].to_vec()));
        assert!(check(&chunk(&[4, 10, 0]), &offered).is_err());
        assert!(check(&chunk(&[0, 0, 1]), &offered).is_err());
    }

    #[test]
    fn r095_unused_segments_may_be_left_out() {
        assert_eq!(check(&chunk(&[3]), &chunk(&[10, 10])), Ok([3, 0].to_vec()));
        assert_eq!(check(&chunk(&[]), &chunk(&[10, 10])), Ok([0, 0].to_vec()));
    }

    #[test]
    fn h32_what_was_not_offered_is_refused() {
        let offered = chunk(&[10]);
        assert!(check(&chunk(&[11]), &offered).is_err());
        assert!(check(&chunk(&[10, 0]), &offered).is_err());
        let mut other = chunk(&[10]);
        other.0[0].handle = 99;
        assert!(check(&other, &offered).is_err());
        let mut moved = chunk(&[10]);
        moved.0[0].offset = 8;
        assert!(check(&moved, &offered).is_err());
    }
}
