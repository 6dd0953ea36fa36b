//! Checks a call's Read chunks before any RDMA Read, and assembles the call afterwards (RFC 8166 sections
//! 3.4.5 and 3.5.3).

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use bytes::Bytes;

use crate::proto::work::{RegionPart, Segment};
use crate::wire::rdma::ReadSegment;
use crate::xdr::{Item, Placed, Received, pad_len};

/// The inline stream and the Read chunks of a call, with the data that has arrived.
#[derive(Debug)]
pub(super) struct Fetch {
    inline: Option<Bytes>,
    chunks: Vec<Chunk>,
    /// The number of non-empty chunks whose data has not arrived completely.
    missing: usize,
}

#[derive(Debug)]
struct Chunk {
    position: u32,
    segments: Vec<Segment>,
    /// Empty until all segments are read.
    data: Bytes,
}

impl Chunk {
    fn len(&self) -> u64 {
        self.segments.iter().fold(0, |sum, segment| sum.saturating_add(u64::from(segment.length)))
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct SegmentRead {
    /// The index of the chunk in its [`Fetch`].
    pub(super) chunk: usize,
    pub(super) source: Segment,
    pub(super) part: RegionPart,
}

impl Fetch {
    /// Sorts the Read list into chunks and checks their positions. `payload` is the inline stream, or `None`
    /// for RDMA_NOMSG.
    ///
    /// # Errors
    /// Returns a description of the defect. The responder then rejects the call with ERR_CHUNK.
    pub(super) fn new(reads: &[ReadSegment], payload: Option<Bytes>) -> Result<Self, &'static str> {
        let mut by_position: BTreeMap<u32, Vec<Segment>> = BTreeMap::new();
        for read in reads {
            by_position.entry(read.position).or_default().push(read.segment);
        }
        let chunk = |(position, segments)| Chunk { position, segments, data: Bytes::new() };
        let chunks: Vec<Chunk> = by_position.into_iter().map(chunk).collect();
        let long = chunks.first().filter(|chunk| chunk.position == 0).map(Chunk::len);
        let stream = match (&payload, long) {
            (Some(payload), None) => payload.len() as u64,
            (Some(_), Some(_)) => return Err("RDMA_MSG with a Position-Zero Read chunk"),
            (None, Some(len)) => len,
            (None, None) => return Err("RDMA_NOMSG without a Position-Zero Read chunk"),
        };
        check_positions(&chunks, stream)?;
        let missing = chunks.iter().filter(|chunk| chunk.len() > 0).count();
        Ok(Fetch { inline: payload, chunks, missing })
    }

    /// Returns the RDMA Reads of all non-empty segments. The segments of a chunk fill one region.
    pub(super) fn reads(&self) -> impl Iterator<Item = SegmentRead> {
        self.chunks.iter().enumerate().flat_map(|(index, chunk)| {
            let (mut offset, total) = (0u64, chunk.len());
            chunk.segments.iter().filter(|segment| segment.length > 0).map(move |source| {
                let part = RegionPart { offset, total };
                offset = offset.saturating_add(u64::from(source.length));
                SegmentRead { chunk: index, source: *source, part }
            })
        })
    }

    /// Stores the data of a completed RDMA Read. `data` is the chunk's region, or empty while other Reads of
    /// the chunk are outstanding.
    pub(super) fn read_done(&mut self, chunk: usize, data: Bytes) {
        if let Some(chunk) = self.chunks.get_mut(chunk)
            && chunk.data.is_empty()
            && !data.is_empty()
        {
            chunk.data = data;
            self.missing = self.missing.saturating_sub(1);
        }
    }

    pub(super) fn is_complete(&self) -> bool {
        self.missing == 0
    }

    pub(super) fn into_message(self) -> Received {
        let mut stream = self.inline;
        let mut items = Vec::new();
        for Chunk { position, data, .. } in self.chunks {
            match &stream {
                None => stream = Some(data),
                // An empty item consists of its count alone, so no data is inserted.
                Some(_) if data.is_empty() => {}
                Some(_) => items.push(Item { position, data }),
            }
        }
        let items = if items.is_empty() { Placed::None } else { Placed::Positioned(items) };
        Received { stream: stream.unwrap_or_default(), items }
    }
}

/// Checks that every chunk starts within the stream or at its end, and does not overlap another chunk. For
/// this check, the stream includes the preceding chunks.
fn check_positions(chunks: &[Chunk], stream: u64) -> Result<(), &'static str> {
    let mut last_end = 0u64;
    let mut chunk_bytes = 0u64;
    for chunk in chunks.iter().filter(|chunk| chunk.position != 0) {
        let position = u64::from(chunk.position);
        if position < last_end {
            return Err("Read chunks overlap");
        }
        if position.saturating_sub(chunk_bytes) > stream {
            return Err("a Read chunk's position lies beyond the stream");
        }
        let len = chunk.len();
        let pad = usize::try_from(len).map_or(0, |len| pad_len(len) as u64);
        let padded = len.saturating_add(pad);
        // Later positions include this chunk's padding, even if the chunk itself omits it (RFC 8166 section
        // 3.4.5.2).
        last_end = position.saturating_add(padded);
        chunk_bytes = chunk_bytes.saturating_add(padded);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(position: u32, length: u32) -> ReadSegment {
        ReadSegment { position, segment: Segment { handle: position, length, offset: 0 } }
    }

    fn inline(len: usize) -> Option<Bytes> {
        Some(Bytes::from(vec![0; len]))
    }

    fn fetched(reads: &[ReadSegment], payload: Option<Bytes>) -> Received {
        let mut fetch = Fetch::new(reads, payload).expect("good positions");
        let mut region = Vec::new();
        for SegmentRead { chunk, source, part } in fetch.reads().collect::<Vec<_>>() {
            assert_eq!(part.offset, region.len() as u64);
            let fill = u8::try_from(source.handle).expect("small");
            region.extend(vec![fill; source.length as usize]);
            let is_last = part.is_last(source.length);
            fetch.read_done(chunk, if is_last { std::mem::take(&mut region).into() } else { Bytes::new() });
        }
        assert!(fetch.is_complete());
        fetch.into_message()
    }

    #[test]
    fn r070_segments_of_one_position_are_one_chunk_in_list_order() {
        let message = fetched(&[read(48, 5), read(48, 3), read(60, 4)], inline(60));
        let Placed::Positioned(items) = message.items else { panic!("positioned") };
        assert_eq!(
            items.iter().map(|item| (item.position, item.data.len())).collect::<Vec<_>>(),
            [(48, 8), (60, 4)]
        );
    }

    #[test]
    fn h23_positions_in_any_order_are_sorted_and_overlaps_rejected() {
        let message = fetched(&[read(60, 4), read(48, 8)], inline(60));
        let Placed::Positioned(items) = message.items else { panic!("positioned") };
        assert_eq!(items.iter().map(|item| item.position).collect::<Vec<_>>(), [48, 60]);
        assert!(Fetch::new(&[read(48, 13), read(60, 4)], inline(60)).is_err(), "overlap");
    }

    /// Requirement: R073
    #[test]
    fn segments_of_one_position_need_not_be_adjacent() {
        let segment =
            |position, handle| ReadSegment { position, segment: Segment { handle, length: 4, offset: 0 } };
        let message = fetched(&[segment(48, 1), segment(60, 2), segment(48, 3)], inline(60));
        let Placed::Positioned(items) = message.items else { panic!("positioned") };
        let items: Vec<_> = items.iter().map(|item| (item.position, &item.data[..])).collect();
        assert_eq!(items, [(48, &[1, 1, 1, 1, 3, 3, 3, 3][..]), (60, &[2; 4][..])]);
    }

    #[test]
    fn an_empty_read_chunk_has_no_data() {
        assert_eq!(fetched(&[read(48, 0)], inline(60)).items, Placed::None);
    }

    /// Requirement: R071
    #[test]
    fn h22_a_position_beyond_the_stream_is_rejected() {
        assert!(Fetch::new(&[read(60, 4)], inline(60)).is_ok());
        assert!(Fetch::new(&[read(64, 4)], inline(60)).is_err());
        assert!(
            Fetch::new(&[read(60, 5), read(68, 4)], inline(60)).is_ok(),
            "a chunk may start after the first chunk and its padding"
        );
        assert!(Fetch::new(&[read(60, 5), read(72, 4)], inline(60)).is_err());
        assert!(Fetch::new(&[read(0xffff_fffc, 4)], inline(60)).is_err());
    }

    /// Requirement: R125
    #[test]
    fn r121_position_zero_is_the_stream() {
        let message = fetched(&[read(0, 8), read(0, 4)], None);
        assert_eq!((message.stream.len(), message.items), (12, Placed::None));
        let both = fetched(&[read(8, 4), read(0, 8)], None);
        assert_eq!(both.stream.len(), 8);
        assert!(matches!(both.items, Placed::Positioned(items) if items.len() == 1));
        assert!(Fetch::new(&[read(0, 8)], inline(8)).is_err());
        assert!(Fetch::new(&[], None).is_err());
        assert!(Fetch::new(&[read(8, 8)], None).is_err());
    }
}
