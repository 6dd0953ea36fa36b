//! Checks a reply's returned chunks against the offered chunks, and collects their data.

use bytes::BytesMut;

use super::region::{Region, RegionState, Role};
use crate::proto::work::Memory;
use crate::wire::rdma::{Segment, WriteChunk};
use crate::xdr::PlacedItem;

/// Checks a returned chunk. The responder must fill segments in order, without gaps, and may change only
/// lengths (RFC 8166 section 3.4.6). The responder may omit unused segments.
pub(super) fn check<'a>(
    returned: &WriteChunk,
    mut offered: impl Iterator<Item = &'a Segment>,
) -> Result<(), &'static str> {
    let mut full = true;
    for segment in &returned.0 {
        let Some(offered) = offered.next() else {
            return Err("a returned chunk has more segments than were offered");
        };
        if segment.handle != offered.handle || segment.offset != offered.offset {
            return Err("a returned segment does not have the handle or offset of the offered segment");
        }
        if segment.length > offered.length {
            return Err("a returned segment is longer than the offered segment");
        }
        if segment.length > 0 && !full {
            return Err("a returned chunk has data after a segment that is not full");
        }
        full = segment.length == offered.length;
    }
    Ok(())
}

/// Collects a chunk's data from its fenced memory, without copying: the segments are parts of one buffer.
pub(super) fn collect(regions: &mut [Region], role: Role, returned: Option<&WriteChunk>) -> PlacedItem {
    let mut lengths = returned.into_iter().flat_map(|chunk| &chunk.0).map(|segment| segment.length);
    let mut collected = BytesMut::new();
    let mut segments = 0u32;
    for region in regions.iter_mut().filter(|region| region.role == role) {
        segments = segments.saturating_add(1);
        let length = usize::try_from(lengths.next().unwrap_or(0)).unwrap_or(usize::MAX);
        if let RegionState::Returned(Some(Memory::Sink(data))) = &mut region.state
            && length > 0
        {
            let mut data = core::mem::take(data);
            // Bytes that the responder reports as written but did not write are zero.
            data.resize(length.min(data.capacity()), 0);
            collected.unsplit(data);
        }
    }
    PlacedItem { data: collected.freeze(), segments }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(lengths: &[u32]) -> WriteChunk {
        let segment = |(handle, length): (u32, &u32)| Segment { handle, length: *length, offset: 7 };
        WriteChunk((1..).zip(lengths).map(segment).collect())
    }

    #[test]
    fn r093_returned_lengths_have_no_gap() {
        let offered = chunk(&[10, 10, 10]);
        assert!(check(&chunk(&[10, 4, 0]), offered.0.iter()).is_ok());
        assert!(check(&chunk(&[0, 0, 0]), offered.0.iter()).is_ok());
        assert!(check(&chunk(&[4, 10, 0]), offered.0.iter()).is_err());
        assert!(check(&chunk(&[0, 0, 1]), offered.0.iter()).is_err());
    }

    #[test]
    fn r095_unused_segments_may_be_omitted() {
        assert!(check(&chunk(&[3]), chunk(&[10, 10]).0.iter()).is_ok());
        let region = || {
            let memory = Memory::Sink(BytesMut::from(&b"0123456789"[..]));
            Region { role: Role::Reply, state: RegionState::Returned(Some(memory)) }
        };
        let item = |lengths| collect(&mut [region(), region()], Role::Reply, Some(&chunk(lengths)));
        assert_eq!(item(&[3]), PlacedItem { data: "012".into(), segments: 2 });
        assert_eq!(item(&[10, 2]).data, "012345678901");
        assert_eq!(item(&[]).data, "");
    }

    #[test]
    fn h32_chunks_that_were_not_offered_are_rejected() {
        let offered = chunk(&[10]);
        assert!(check(&chunk(&[11]), offered.0.iter()).is_err());
        assert!(check(&chunk(&[10, 0]), offered.0.iter()).is_err());
        let mut other = chunk(&[10]);
        other.0[0].handle = 99;
        assert!(check(&other, offered.0.iter()).is_err());
        let mut moved = chunk(&[10]);
        moved.0[0].offset = 8;
        assert!(check(&moved, offered.0.iter()).is_err());
    }
}
