use alloc::vec::Vec;

use super::Segment;
use crate::wire::generated::rpcrdma1 as xdr;

/// One segment of a Read chunk (RFC 8166 section 3.4.5). Segments with the same position form one chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadSegment {
    /// Position of the chunk's item in the unreduced Payload stream, or 0 if the chunk contains the Payload
    /// stream.
    pub position: u32,
    /// The memory segment.
    pub segment: Segment,
}

/// The segments of a Write chunk or of a Reply chunk (RFC 8166 section 3.4.6), which the responder fills in
/// order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteChunk(pub Vec<Segment>);

/// The chunk lists of one message (RFC 8166 section 4.3).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChunkLists {
    /// The Read list.
    pub reads: Vec<ReadSegment>,
    /// The Write list.
    pub writes: Vec<WriteChunk>,
    /// The Reply chunk.
    pub reply: Option<WriteChunk>,
}

impl WriteChunk {
    /// Returns the total size of the segments in bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.0.iter().fold(0, |sum, segment| sum.saturating_add(u64::from(segment.length)))
    }

    /// Returns true if the total size is 0.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns a copy with the segment lengths that [`WriteChunk::fill`] sets.
    #[must_use]
    pub fn filled(&self, len: u64) -> WriteChunk {
        let mut filled = self.clone();
        filled.fill(len);
        filled
    }

    /// Sets each segment's length to the number of bytes it receives in a write of `len` bytes. The segments
    /// are filled in order and without gaps, and unused segments get length 0 (RFC 8166 section 3.4.6). Bytes
    /// that exceed the chunk are ignored.
    pub fn fill(&mut self, len: u64) {
        let mut left = len;
        for segment in &mut self.0 {
            segment.length = u32::try_from(left).map_or(segment.length, |left| left.min(segment.length));
            left = left.saturating_sub(u64::from(segment.length));
        }
    }
}

impl ChunkLists {
    /// Returns true if both lists are empty and the Reply chunk is absent.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.reads.is_empty() && self.writes.is_empty() && self.reply.is_none()
    }

    /// Returns the segments of the Read list, the Write list and the Reply chunk, in this order.
    pub fn segments(&self) -> impl Iterator<Item = &Segment> {
        let chunks = self.writes.iter().chain(&self.reply).flat_map(|chunk| &chunk.0);
        self.reads.iter().map(|read| &read.segment).chain(chunks)
    }

    /// Returns the size of an RDMA_MSG or RDMA_NOMSG header with these lists, in bytes (RFC 8166 sections 4.2
    /// and 4.3).
    #[must_use]
    pub fn header_len(&self) -> u64 {
        let segments = |chunk: &WriteChunk| chunk.0.len() as u64;
        let written = self.writes.iter().map(segments).fold(0, u64::saturating_add);
        let writes = (self.writes.len() as u64, written);
        ChunkLists::header_len_for(self.reads.len() as u64, writes, self.reply.as_ref().map(segments))
    }

    /// Computes [`ChunkLists::header_len`] from the numbers of Read segments, Write chunks, segments in Write
    /// chunks, and segments in the Reply chunk.
    #[must_use]
    pub fn header_len_for(reads: u64, (chunks, segments): (u64, u64), reply: Option<u64>) -> u64 {
        28u64
            .saturating_add(reads.saturating_mul(24))
            .saturating_add(chunks.saturating_mul(8))
            .saturating_add(segments.saturating_mul(16))
            .saturating_add(reply.map_or(0, |segments| segments.saturating_mul(16).saturating_add(4)))
    }
}

impl From<xdr::XdrRdmaSegment> for Segment {
    fn from(segment: xdr::XdrRdmaSegment) -> Self {
        Segment { handle: segment.handle, length: segment.length, offset: segment.offset }
    }
}

impl From<Segment> for xdr::XdrRdmaSegment {
    fn from(segment: Segment) -> Self {
        xdr::XdrRdmaSegment { handle: segment.handle, length: segment.length, offset: segment.offset }
    }
}

impl From<xdr::XdrWriteChunk> for WriteChunk {
    fn from(chunk: xdr::XdrWriteChunk) -> Self {
        WriteChunk(chunk.target.into_iter().map(Segment::from).collect())
    }
}

impl From<WriteChunk> for xdr::XdrWriteChunk {
    fn from(chunk: WriteChunk) -> Self {
        xdr::XdrWriteChunk { target: chunk.0.into_iter().map(Into::into).collect() }
    }
}

impl From<xdr::RpcRdmaHeader> for ChunkLists {
    fn from(header: xdr::RpcRdmaHeader) -> Self {
        let read = |node: xdr::XdrReadListElement| ReadSegment {
            position: node.entry.position,
            segment: node.entry.target.into(),
        };
        ChunkLists {
            reads: header.rdma_reads.into_iter().map(read).collect(),
            writes: header.rdma_writes.into_iter().map(|node| node.entry.into()).collect(),
            reply: header.rdma_reply.map(Into::into),
        }
    }
}

impl From<ChunkLists> for xdr::RpcRdmaHeader {
    fn from(lists: ChunkLists) -> Self {
        let read = |read: ReadSegment| xdr::XdrReadListElement {
            entry: xdr::XdrReadChunk { position: read.position, target: read.segment.into() },
        };
        xdr::RpcRdmaHeader {
            rdma_reads: lists.reads.into_iter().map(read).collect(),
            rdma_writes: lists
                .writes
                .into_iter()
                .map(|chunk| xdr::XdrWriteListElement { entry: chunk.into() })
                .collect(),
            rdma_reply: lists.reply.map(Into::into),
        }
    }
}
