//! Places a reply in the memory that its call offered (RFC 8166 sections 4.3.2 and 4.3.3).

use alloc::vec::Vec;
use core::fmt;

use bytes::Bytes;

use crate::proto::work::Segment;
use crate::wire::rdma::{Body, ChunkLists, WriteChunk};
use crate::xdr::{Message, keep_items};

#[derive(Debug)]
pub(super) struct ReplyPlan {
    pub(super) writes: Vec<(Segment, Bytes)>,
    pub(super) body: Body,
    /// The inline Payload stream, or `None` if it is in the Reply chunk.
    pub(super) inline: Option<Bytes>,
    /// The length of the Payload stream, inline or in the Reply chunk.
    pub(super) stream: u64,
}

/// The part of a reply that exceeds the space at its destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRoom {
    /// The destination of this part.
    pub place: Place,
    /// The size of this part in bytes.
    pub bytes: u64,
    /// The available space in the destination, in bytes.
    pub max: u64,
}

/// The destination of a part of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The inline message, if the call offered no Reply chunk or if the header alone exceeds the inline
    /// threshold.
    Inline,
    /// A Write chunk.
    WriteChunk,
    /// The Reply chunk.
    ReplyChunk,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Place::Inline => "the inline message",
            Place::WriteChunk => "a Write chunk",
            Place::ReplyChunk => "the Reply chunk",
        })
    }
}

/// Places eligible items in the Write chunks, in order. Places the stream, with the remaining items, inline
/// if it fits, and otherwise in the Reply chunk. `writes` is an empty list whose memory is reused. `wrap`
/// replaces the stream and each item before they are placed.
///
/// # Errors
/// Returns [`NoRoom`] if the reply does not fit. The responder then rejects the call with ERR_CHUNK.
pub(super) fn place(
    message: Message,
    offered: ChunkLists,
    threshold: u32,
    mut writes: Vec<(Segment, Bytes)>,
    wrap: impl Fn(Bytes) -> Bytes,
) -> Result<ReplyPlan, NoRoom> {
    let mut returned = ChunkLists { reads: Vec::new(), ..offered };
    let mut chunks = returned.writes.iter();
    // An empty chunk requests its item inline (RFC 8166 section 4.3.2.3).
    let Message { stream, mut items } =
        message.split(|_, _| chunks.next().is_some_and(|chunk| !chunk.0.is_empty()));
    let mut placed = items.drain(..);
    for chunk in returned.writes.iter_mut().filter(|chunk| !chunk.0.is_empty()) {
        match placed.next() {
            Some(item) => scatter(wrap(item.data), Place::WriteChunk, chunk, &mut writes)?,
            None => chunk.fill(0),
        }
    }
    drop(placed);
    keep_items(items);
    let stream = wrap(stream);
    let (len, header_len) = (stream.len() as u64, returned.header_len());
    if header_len.saturating_add(len) <= u64::from(threshold) {
        if let Some(chunk) = &mut returned.reply {
            chunk.fill(0);
        }
        return Ok(ReplyPlan { writes, body: Body::Msg(returned), inline: Some(stream), stream: len });
    }
    match &mut returned.reply {
        Some(chunk) if header_len <= u64::from(threshold) => {
            scatter(stream, Place::ReplyChunk, chunk, &mut writes)?;
        }
        _ => {
            let max = u64::from(threshold).saturating_sub(header_len);
            return Err(NoRoom { place: Place::Inline, bytes: len, max });
        }
    }
    Ok(ReplyPlan { writes, body: Body::NoMsg(returned), inline: None, stream: len })
}

/// Distributes data over a chunk's segments, and sets each segment's length to the number of bytes placed in
/// it.
fn scatter(
    mut data: Bytes,
    place: Place,
    chunk: &mut WriteChunk,
    writes: &mut Vec<(Segment, Bytes)>,
) -> Result<(), NoRoom> {
    let (bytes, max) = (data.len() as u64, chunk.len());
    if bytes > max {
        return Err(NoRoom { place, bytes, max });
    }
    chunk.fill(bytes);
    for segment in chunk.0.iter().filter(|segment| segment.length > 0) {
        let len = usize::try_from(segment.length).unwrap_or(usize::MAX).min(data.len());
        writes.push((*segment, data.split_to(len)));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xdr::Item;

    fn chunk(lengths: &[u32]) -> WriteChunk {
        let segment = |(handle, length): (u32, &u32)| Segment { handle, length: *length, offset: 0 };
        WriteChunk((1..).zip(lengths).map(segment).collect())
    }

    fn message(stream: usize, items: &[(u32, usize)]) -> Message {
        let item = |(position, len): &(u32, usize)| Item { position: *position, data: vec![7; *len].into() };
        Message { stream: vec![0; stream].into(), items: items.iter().map(item).collect() }
    }

    fn placed(message: Message, offered: &ChunkLists) -> Result<ReplyPlan, NoRoom> {
        place(message, offered.clone(), 1024, Vec::new(), |bytes| bytes)
    }

    fn lengths(chunk: &WriteChunk) -> Vec<u32> {
        chunk.0.iter().map(|segment| segment.length).collect()
    }

    /// Requirement: R092, R093, R109
    #[test]
    fn r094_segments_are_filled_in_order_and_the_rest_is_zero() {
        let offered = ChunkLists { writes: vec![chunk(&[3, 5, 4])], ..ChunkLists::default() };
        let plan = placed(message(40, &[(20, 6)]), &offered).expect("fits");
        let Body::Msg(lists) = plan.body else { panic!("inline") };
        assert_eq!(lengths(&lists.writes[0]), [3, 3, 0]);
        assert_eq!(
            plan.writes.iter().map(|(segment, data)| (segment.handle, data.len())).collect::<Vec<_>>(),
            [(1, 3), (2, 3)]
        );
    }

    /// Requirement: R102
    #[test]
    fn r103_items_fill_chunks_in_order_and_the_others_stay_inline() {
        let offered = ChunkLists { writes: vec![chunk(&[8]), chunk(&[8])], ..ChunkLists::default() };
        let plan = placed(message(40, &[(8, 4), (20, 8), (32, 4)]), &offered).expect("fits");
        let Body::Msg(lists) = plan.body else { panic!("inline") };
        assert_eq!((lengths(&lists.writes[0]), lengths(&lists.writes[1])), (vec![4], vec![8]));
        assert_eq!(plan.inline.map(|stream| stream.len()), Some(44));
    }

    #[test]
    fn r112_an_empty_chunk_requests_the_item_inline() {
        let offered = ChunkLists { writes: vec![chunk(&[]), chunk(&[8])], ..ChunkLists::default() };
        let plan = placed(message(40, &[(8, 4), (20, 8)]), &offered).expect("fits");
        let Body::Msg(lists) = plan.body else { panic!("inline") };
        assert_eq!((lengths(&lists.writes[0]), lengths(&lists.writes[1])), (vec![], vec![8]));
        assert_eq!(plan.inline.map(|stream| stream.len()), Some(44));
    }

    /// Requirement: R045, R046, R120
    #[test]
    fn r123_a_reply_that_does_not_fit_inline_uses_the_reply_chunk() {
        let offered = ChunkLists { reply: Some(chunk(&[600, 600])), ..ChunkLists::default() };
        // The header takes 28 bytes without chunks, and the Reply chunk adds 36, which leaves 960 of 1,024
        // bytes.
        let short = placed(message(960, &[]), &offered).expect("fits");
        assert!(
            matches!(&short.body, Body::Msg(lists) if lists.reply.as_ref().is_some_and(WriteChunk::is_empty))
        );
        let long = placed(message(964, &[]), &offered).expect("fits");
        assert!(long.inline.is_none());
        let Body::NoMsg(lists) = long.body else { panic!("long") };
        assert_eq!(lists.reply.as_ref().map(lengths), Some(vec![600, 364]));
    }

    #[test]
    fn r045_a_header_above_the_threshold_is_rejected() {
        // The header takes 28 bytes without chunks. The Reply chunk adds 4 bytes, and 16 bytes per segment.
        for (segments, fits) in [(62, true), (63, false)] {
            let offered = ChunkLists { reply: Some(chunk(&vec![100; segments])), ..ChunkLists::default() };
            let refused = placed(message(2000, &[]), &offered).err();
            let no_room = NoRoom { place: Place::Inline, bytes: 2000, max: 0 };
            assert_eq!(refused, (!fits).then_some(no_room), "{segments} segments");
        }
    }

    /// Requirement: R177
    #[test]
    fn h33_h71_a_reply_that_does_not_fit_is_rejected() {
        let none = ChunkLists::default();
        let refused = |message, offered| placed(message, offered).err();
        let no_room = |place, bytes, max| Some(NoRoom { place, bytes, max });
        assert_eq!(refused(message(997, &[]), &none), no_room(Place::Inline, 997, 996));
        assert!(placed(message(996, &[]), &none).is_ok());
        let small = ChunkLists { reply: Some(chunk(&[1])), ..ChunkLists::default() };
        assert_eq!(refused(message(1024, &[]), &small), no_room(Place::ReplyChunk, 1024, 1));
        let write = ChunkLists { writes: vec![chunk(&[3])], ..ChunkLists::default() };
        assert_eq!(refused(message(40, &[(8, 4)]), &write), no_room(Place::WriteChunk, 4, 3));
    }
}
