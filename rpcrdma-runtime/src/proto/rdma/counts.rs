use crate::proto::call::Traffic;
use crate::proto::counts::counts;
use crate::wire::rdma::ChunkLists;

counts! {
    /// How answered calls and their replies were transferred. The counters of clients and servers have the
    /// same names. Lengths are in bytes, and include padding only if the padding was sent.
    pub struct TrafficCounts {
        /// Calls with a reply. Each call has exactly one of the three call forms and at least one reply form.
        pub calls: "calls",
        /// Inline calls without Read chunks.
        pub inline_calls: "inline calls",
        /// Calls with an inline stream and with items in Read chunks.
        pub chunked_calls: "calls with Read chunks",
        /// Calls with their stream in a Position-Zero Read chunk.
        pub long_calls: "long calls",
        /// Inline replies with no data in Write chunks.
        pub inline_replies: "inline replies",
        /// Replies with items in Write chunks. Some of these replies also use the Reply chunk.
        pub chunked_replies: "replies with Write chunks",
        /// Replies with their stream in the Reply chunk.
        pub long_replies: "long replies",
        /// Bytes of the calls' Sends, headers included. Over TCP, bytes of the calls' records, record marks
        /// excluded.
        pub call_bytes: "bytes in Sends of calls",
        /// Bytes of the replies' Sends, headers included. Over TCP, bytes of the replies' records, record
        /// marks excluded.
        pub reply_bytes: "bytes in Sends of replies",
        /// Bytes in Read chunks, Position-Zero chunks included.
        pub read_bytes: "bytes read",
        /// Bytes in Write chunks and Reply chunks.
        pub written_bytes: "bytes written",
        /// Replies that invalidated a handle (RFC 8797 section 4.1).
        pub remote_invalidations: "remote invalidations",
    }
}

counts! {
    /// Messages that a responder dropped or rejected. Numbers such as R184 refer to `specs/requirements`.
    pub struct Refusals {
        /// Dropped messages: short messages (R184), errors sent by a requester (R165), RDMA_DONE, and replies
        /// that match no call.
        pub discarded: "messages dropped",
        /// Messages of other protocol versions: ERR_VERS (R171).
        pub version: "ERR_VERS",
        /// Headers that cannot be decoded, break a rule or exceed a limit: ERR_CHUNK (R172, R273).
        pub header: "ERR_CHUNK for the header",
        /// Read chunks with invalid positions, a missing Position-Zero Read chunk, Read chunks on a
        /// connection that permits no RDMA Reads, and chunks in the backward direction (R220): ERR_CHUNK
        /// (R182).
        pub chunks: "ERR_CHUNK for Read chunks",
        /// Messages whose transport header and RPC message have different XIDs: ERR_CHUNK (R144).
        pub xid: "ERR_CHUNK for the XID",
        /// Calls that ran but offered too little memory for their reply: ERR_CHUNK (R177).
        pub room: "ERR_CHUNK because the reply did not fit",
        /// Retransmitted calls whose RDMA Reads or Writes may have ended an earlier connection: ERR_CHUNK
        /// (R178).
        pub fatal: "ERR_CHUNK for calls that may have ended a connection",
        /// Messages that the engine accepted but that got no reply, for example because the server is
        /// stopping or the message is not a call.
        pub unanswered: "messages without a reply",
    }
}

impl From<&Traffic> for TrafficCounts {
    fn from(traffic: &Traffic) -> Self {
        let one = |yes: bool| u64::from(yes);
        let (long_call, long_reply) = (traffic.position_zero > 0, traffic.reply_chunk_bytes > 0);
        let (reads, writes) = (traffic.read_chunks > 0, traffic.write_bytes > 0);
        TrafficCounts {
            calls: 1,
            inline_calls: one(!long_call && !reads),
            chunked_calls: one(!long_call && reads),
            long_calls: one(long_call),
            inline_replies: one(!long_reply && !writes),
            chunked_replies: one(writes),
            long_replies: one(long_reply),
            call_bytes: traffic.call_inline,
            reply_bytes: traffic.reply_inline,
            read_bytes: traffic.read_bytes.saturating_add(traffic.position_zero),
            written_bytes: traffic.write_bytes.saturating_add(traffic.reply_chunk_bytes),
            remote_invalidations: one(traffic.remote_invalidation),
        }
    }
}

impl Refusals {
    /// Returns the sum of all counters.
    #[must_use]
    pub fn sum(&self) -> u64 {
        self.to_array().into_iter().fold(0, u64::saturating_add)
    }
}

impl Traffic {
    /// Counts the chunks that a call offers. `long` is true if the call's stream is in a Position-Zero Read
    /// chunk.
    pub(super) fn count_offered(&mut self, lists: &ChunkLists, long: bool) {
        let mut last = None;
        for read in &lists.reads {
            let length = u64::from(read.segment.length);
            if long && read.position == 0 {
                self.position_zero = self.position_zero.saturating_add(length);
                continue;
            }
            self.read_bytes = self.read_bytes.saturating_add(length);
            if last != Some(read.position) {
                self.read_chunks = self.read_chunks.saturating_add(1);
            }
            last = Some(read.position);
        }
        self.write_chunks = u32::try_from(lists.writes.len()).unwrap_or(u32::MAX);
        self.reply_chunk = lists.reply.is_some();
        self.segments = u32::try_from(lists.segments().count()).unwrap_or(u32::MAX);
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;
    use crate::wire::rdma::{ReadSegment, Segment, WriteChunk};

    #[test]
    fn calls_are_counted_by_the_form_of_the_call_and_of_its_reply() {
        let plain = Traffic { call_inline: 5, reply_inline: 7, ..Traffic::default() };
        let with_item = Traffic { read_chunks: 1, read_bytes: 3, ..plain };
        let both = Traffic { write_bytes: 1, reply_chunk_bytes: 1, ..plain };
        // `forms` counts inline, chunked and long calls, then inline, chunked and long replies. `bytes`
        // counts the bytes read and the bytes written.
        for (traffic, forms, bytes) in [
            (plain, [1, 0, 0, 1, 0, 0], [0, 0]),
            (with_item, [0, 1, 0, 1, 0, 0], [3, 0]),
            (Traffic { position_zero: 1, ..plain }, [0, 0, 1, 1, 0, 0], [1, 0]),
            (Traffic { position_zero: 1, ..with_item }, [0, 0, 1, 1, 0, 0], [4, 0]),
            (Traffic { write_bytes: 1, ..plain }, [1, 0, 0, 0, 1, 0], [0, 1]),
            (Traffic { reply_chunk_bytes: 1, ..plain }, [1, 0, 0, 0, 0, 1], [0, 1]),
            (both, [1, 0, 0, 0, 1, 1], [0, 2]),
        ] {
            let mut counts = TrafficCounts::from(&traffic);
            assert_eq!(
                counts.to_array(),
                [&[1], &forms[..], &[5, 7], &bytes, &[0]].concat()[..],
                "{traffic}"
            );
            counts.add(&TrafficCounts::from(&Traffic { remote_invalidation: true, ..traffic }));
            assert_eq!((counts.calls, counts.remote_invalidations), (2, 1));
        }
    }

    #[test]
    fn offered_chunks_are_counted() {
        let segment = Segment { handle: 1, length: 10, offset: 0 };
        let read = |position| ReadSegment { position, segment };
        let lists = ChunkLists {
            reads: vec![read(0), read(0), read(8), read(8), read(16)],
            writes: vec![WriteChunk(vec![segment; 2]), WriteChunk::default()],
            reply: Some(WriteChunk(vec![segment])),
        };
        for (long, read_chunks, read_bytes, position_zero) in [(true, 2, 30, 20), (false, 3, 50, 0)] {
            let mut traffic = Traffic::default();
            traffic.count_offered(&lists, long);
            let counted = (traffic.read_chunks, traffic.read_bytes, traffic.position_zero);
            assert_eq!(counted, (read_chunks, read_bytes, position_zero));
            assert_eq!((traffic.write_chunks, traffic.reply_chunk, traffic.segments), (2, true, 8));
        }
    }

    #[test]
    fn refusals_are_summed() {
        let refusals = Refusals { discarded: 1, version: 2, unanswered: 4, ..Refusals::default() };
        assert_eq!(refusals.sum(), 7);
    }
}
