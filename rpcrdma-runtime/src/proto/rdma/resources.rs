use alloc::vec::Vec;

use bytes::BytesMut;
use rpcrdma_layout::WRITE_CHUNKS;

use crate::proto::call::TransportError;
use crate::proto::program::ReplyBounds;
use crate::wire::rdma::ChunkLists;
use crate::wire::rpc::MAX_AUTH_BYTES;
use crate::xdr::Size;

/// Memory that a call offers for its reply (RFC 8166 sections 3.4.6 and 3.5.3). All lengths are in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplyResources {
    /// The lengths of the Write chunks, in order. Each chunk is for one eligible item of the reply.
    pub write_chunks: Vec<u32>,
    /// The length of the Reply chunk, if any: the maximum length of the reply's stream.
    pub reply_chunk: Option<u32>,
    /// Memory for the first Write chunk, at least as large as the chunk.
    pub memory: Option<BytesMut>,
}

/// The maximum size of a chunk in bytes: counts and positions in an XDR stream have 32 bits.
const MAX_CHUNK: u32 = u32::MAX;

/// The reason why no memory can be offered for a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OfferError {
    /// The reply has no upper bound. The binding must define a bound.
    Unbounded,
    /// An item of the reply, or the reply's stream, can exceed the maximum size of a chunk.
    TooLong {
        /// The bound of the item, or of the reply's stream with its RPC header, in bytes.
        bytes: u64,
        /// The maximum size of a chunk in bytes.
        max: u64,
    },
}

impl From<OfferError> for TransportError {
    fn from(why: OfferError) -> Self {
        match why {
            OfferError::Unbounded => TransportError::UnboundedReply,
            OfferError::TooLong { bytes, max } => TransportError::ReplyTooLong { bytes, max },
        }
    }
}

/// The size of an RPC reply header without the verifier's body, in bytes: the XID, REPLY, MSG_ACCEPTED, the
/// verifier's flavor and length, and SUCCESS (RFC 5531 section 9).
const REPLY_WORDS: u64 = 24;
/// The space for the verifier's body in bytes. The server may send any verifier, so this is the maximum size.
const VERIFIER: u64 = MAX_AUTH_BYTES as u64;
/// The maximum size of the RPC header of a successful reply, in bytes.
const REPLY_HEADER: u64 = REPLY_WORDS + VERIFIER;

impl ReplyResources {
    /// Returns the memory that a call must offer so that the largest reply can be returned with this reply
    /// threshold. The result is empty if the reply always fits inline. Otherwise, it has Write chunks for the
    /// eligible items, and a Reply chunk if the stream may not fit inline (RFC 8166 sections 4.3.2 and
    /// 4.3.3). Assumes one segment per chunk.
    ///
    /// # Errors
    /// Returns [`OfferError`] if the reply has no upper bound, or a bound above the maximum size of a chunk.
    pub fn for_reply(bounds: &ReplyBounds, reply_threshold: u32) -> Result<Self, OfferError> {
        ReplyResources::in_segments(bounds, reply_threshold, u32::MAX)
    }

    /// Same as [`ReplyResources::for_reply`], but with segments of at most `max_segment` bytes. The reply
    /// returns these segments, so its header must have space for them.
    ///
    /// # Errors
    /// Returns [`OfferError`] if the reply has no upper bound, or a bound above the maximum size of a chunk.
    pub fn in_segments(
        bounds: &ReplyBounds,
        reply_threshold: u32,
        max_segment: u32,
    ) -> Result<Self, OfferError> {
        ReplyResources::in_memory(Vec::new(), bounds, reply_threshold, max_segment)
    }

    /// Same as [`ReplyResources::in_segments`], but reuses the memory of the empty list `write_chunks`.
    pub(super) fn in_memory(
        write_chunks: Vec<u32>,
        bounds: &ReplyBounds,
        reply_threshold: u32,
        max_segment: u32,
    ) -> Result<Self, OfferError> {
        let fits = |size: Size, writes: (u64, u64)| {
            let header = ChunkLists::header_len_for(0, writes, None).saturating_add(REPLY_HEADER);
            u64::from(reply_threshold).checked_sub(header).is_some_and(|room| size.fits(room))
        };
        if fits(bounds.unreduced, (0, 0)) {
            return Ok(ReplyResources::default());
        }
        let mut resources = ReplyResources { write_chunks, ..ReplyResources::default() };
        let mut stream = bounds.reduced;
        if bounds.item != Size::ZERO {
            let item = length(bounds.item)?;
            let items = bounds.items.min(Size::Bounded(WRITE_CHUNKS)).bound().unwrap_or(WRITE_CHUNKS);
            resources.write_chunks.resize(usize::try_from(items).unwrap_or(1), item);
            if !bounds.items.fits(WRITE_CHUNKS) {
                // Items without a chunk stay in the stream.
                stream = bounds.unreduced;
            }
        }
        let segments = |len: &u32| u64::from(len.div_ceil(max_segment.max(1)));
        let segments = resources.write_chunks.iter().map(segments).fold(0, u64::saturating_add);
        if !fits(stream, (resources.write_chunks.len() as u64, segments)) {
            resources.reply_chunk = Some(length(stream.plus(Size::Bounded(REPLY_HEADER)))?);
        }
        Ok(resources)
    }
}

fn length(size: Size) -> Result<u32, OfferError> {
    let bytes = size.bound().ok_or(OfferError::Unbounded)?;
    u32::try_from(bytes).map_err(|_| OfferError::TooLong { bytes, max: u64::from(MAX_CHUNK) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounds(unreduced: u64, reduced: u64, item: u64) -> ReplyBounds {
        let items = Size::Bounded(u64::from(item > 0));
        ReplyBounds {
            unreduced: Size::Bounded(unreduced),
            reduced: Size::Bounded(reduced),
            item: Size::Bounded(item),
            items,
        }
    }

    /// Requirement: R108, R127, R235, R267
    #[test]
    fn r126_a_reply_chunk_is_offered_if_the_largest_reply_may_not_fit() {
        // The transport header (28), the RPC header (24) and the verifier (400) leave 572 of 1,024 bytes.
        let fits = ReplyResources::for_reply(&bounds(572, 572, 0), 1024).expect("bounded");
        assert_eq!(fits, ReplyResources::default());
        let over = ReplyResources::for_reply(&bounds(573, 573, 0), 1024).expect("bounded");
        assert_eq!(over, ReplyResources { reply_chunk: Some(573 + 424), ..ReplyResources::default() });
    }

    /// Requirement: R098
    #[test]
    fn r090_a_write_chunk_is_as_large_as_the_largest_item() {
        let read = ReplyResources::for_reply(&bounds(1_048_700, 120, 1_048_579), 4096).expect("bounded");
        assert_eq!(read, ReplyResources { write_chunks: vec![1_048_579], ..ReplyResources::default() });
        let both = ReplyResources::for_reply(&bounds(1_048_700, 10_000, 1_048_579), 4096).expect("bounded");
        assert_eq!(both.reply_chunk, Some(10_424));
    }

    #[test]
    fn r107_every_write_chunk_is_as_large_as_the_largest_item() {
        let two = ReplyBounds { items: Size::Bounded(2), ..bounds(20_000, 100, 9_999) };
        let offered = ReplyResources::for_reply(&two, 4096).expect("bounded");
        assert_eq!(offered.write_chunks, [9_999, 9_999]);
    }

    #[test]
    fn r126_the_segments_of_a_write_chunk_take_space_in_the_reply() {
        // The transport header, the RPC header and the verifier's body take 28 + 24 + 400 bytes. A Write
        // chunk adds 24 bytes with one segment, and 1,032 bytes with 64 segments.
        let reply = bounds(66_000, 400, 65_536);
        let offered = |max_segment| ReplyResources::in_segments(&reply, 1024, max_segment).expect("bounded");
        assert_eq!(offered(65_536).reply_chunk, None);
        assert_eq!(offered(1024).reply_chunk, Some(824));
    }

    #[test]
    fn r235_items_without_a_write_chunk_fit_into_the_reply_chunk() {
        let many = ReplyBounds { items: Size::Bounded(17), ..bounds(20_000, 100, 1000) };
        let offered = ReplyResources::for_reply(&many, 4096).expect("bounded");
        assert_eq!((offered.write_chunks.len(), offered.reply_chunk), (16, Some(20_424)));
    }

    #[test]
    fn r236_an_unbounded_reply_is_rejected() {
        let unbounded =
            ReplyBounds { unreduced: Size::Unbounded, reduced: Size::Unbounded, ..bounds(0, 0, 0) };
        assert_eq!(ReplyResources::for_reply(&unbounded, 1 << 18), Err(OfferError::Unbounded));
    }

    #[test]
    fn a_reply_beyond_every_chunk_is_rejected_with_its_bound() {
        let max = u64::from(u32::MAX);
        let longest = ReplyResources::for_reply(&bounds(max - 424, max - 424, 0), 4096).expect("fits");
        assert_eq!(longest.reply_chunk, Some(u32::MAX));
        let too_long = Err(OfferError::TooLong { bytes: max + 1, max });
        let over = max - 423;
        assert_eq!(ReplyResources::for_reply(&bounds(over, over, 0), 4096), too_long, "the Reply chunk");
        assert_eq!(ReplyResources::for_reply(&bounds(max + 200, 100, max + 1), 4096), too_long, "an item");
    }
}
