use crate::proto::call::Traffic;
use crate::proto::counts::counts;
use crate::wire::rdma::ChunkLists;

counts! {
    /// How answered calls and their replies were transferred. Client and server use the same names: a call is
    /// a call on both. Lengths are in bytes, without padding that was not sent.
    pub struct TrafficCounts {
        /// Calls with a reply. Each has exactly one of the three call forms and at least one reply form.
        pub calls: "calls",
        /// Inline calls without Read chunks.
        pub inline_calls: "inline calls",
        /// Calls with items in Read chunks, the rest of them inline.
        pub chunked_calls: "calls with Read chunks",
        /// Calls with their stream in a Position-Zero Read chunk.
        pub long_calls: "long calls",
        /// Inline replies with no data in Write chunks.
        pub inline_replies: "inline replies",
        /// Replies with items in Write chunks. Some of them also use the Reply chunk.
        pub chunked_replies: "replies with Write chunks",
        /// Replies with their stream in the Reply chunk.
        pub long_replies: "long replies",
        /// Bytes of the calls' Sends, headers included.
        pub call_bytes: "bytes of calls inline",
        /// Bytes of the replies' Sends, headers included.
        pub reply_bytes: "bytes of replies inline",
        /// Bytes in Read chunks, Position-Zero chunks included.
        pub read_bytes: "bytes read",
        /// Bytes in Write chunks and Reply chunks.
        pub written_bytes: "bytes written",
        /// Replies that invalidated a handle (RFC 8797 section 4.1).
        pub remote_invalidations: "remote invalidations",
    }
}

counts! {
    /// Messages that a responder rejected, by the rule (of `specs/requirements`) that determines the answer.
    pub struct Refusals {
        /// Dropped messages: too short (R184), errors sent by a requester (R165), obsolete types, replies
        /// that match no call.
        pub discarded: "messages dropped",
        /// Messages of other protocol versions: ERR_VERS (R171).
        pub version: "ERR_VERS",
        /// Headers that cannot be decoded, break a rule or exceed a limit: ERR_CHUNK (R172, R273).
        pub header: "ERR_CHUNK for the header",
        /// Read chunks that overlap, lie beyond the stream or cannot be read, and chunks in the backward
        /// direction (R220): ERR_CHUNK (R182).
        pub chunks: "ERR_CHUNK for Read chunks",
        /// Different XIDs in the header and in the message: ERR_CHUNK (R144).
        pub xid: "ERR_CHUNK for the XID",
        /// Calls that ran but offered too little memory for their reply: ERR_CHUNK (R177).
        pub room: "ERR_CHUNK because the reply did not fit",
        /// Retransmitted calls whose RDMA Reads or Writes had ended a connection: ERR_CHUNK (R178).
        pub fatal: "ERR_CHUNK for the end of a connection",
        /// Calls without a reply, because the server is stopping or the message is not a call.
        pub unanswered: "calls without an answer",
    }
}

impl TrafficCounts {
    /// Counts an answered call.
    pub fn count(&mut self, traffic: &Traffic) {
        let one = |yes: bool| u64::from(yes);
        let (long_call, long_reply) = (traffic.position_zero > 0, traffic.reply_chunk_bytes > 0);
        let (reads, writes) = (traffic.read_chunks > 0, traffic.write_bytes > 0);
        self.add(&TrafficCounts {
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
        });
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
    /// Counts the chunks that a call offers. `long` is true if its stream is in a Position-Zero chunk.
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
