use alloc::string::String;
use core::time::Duration;

use crate::proto::work::CloseReason;
use crate::wire::rpc::versions;

/// The reason why a call has no reply.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TransportError {
    /// The call exceeds a limit of this connection, or its XID is missing or already in use.
    #[error("the call cannot be sent: {0}")]
    Unsendable(Unsendable),
    /// The provider could not register memory.
    #[error("the provider could not register memory (with an RDMA device, check `ulimit -l`)")]
    Registration,
    /// The responder supports only other versions of RPC-over-RDMA (ERR_VERS).
    #[error("the responder supports only RPC-over-RDMA {}", versions(*low, *high))]
    Version {
        /// The lowest supported version.
        low: u32,
        /// The highest supported version.
        high: u32,
    },
    /// The responder could not use the call's chunks, or could not return the reply (ERR_CHUNK).
    #[error("the responder could not use the chunks of the call or return its reply (ERR_CHUNK)")]
    Chunk,
    /// The reply violates the protocol or exceeds a local limit.
    #[error("the reply violates the protocol: {0}")]
    BadReply(String),
    /// The client has not announced support for backward-direction calls (RFC 8167 section 6).
    #[error("the client has not announced that it accepts backward calls")]
    NotReady,
    /// The connection ended before the call completed. The call may have been executed.
    #[error("the connection ended: {0}")]
    Closed(CloseReason),
    /// The connection ended before the call was sent. The call was not executed.
    #[error("the connection ended before the call was sent: {0}")]
    Unsent(CloseReason),
    /// The call timed out. The call may have been executed.
    #[error("no reply within {0:?}")]
    Timeout(Duration),
    /// No connection was available before the call timed out, or within the maximum number of attempts. A
    /// call that was sent on an earlier connection may have been executed.
    #[error("no connection: {0}")]
    Unreachable(String),
    /// The reply has no upper bound, so no memory can be offered for it.
    #[error("the reply has no upper bound, so no memory can be offered for it: add a bound to its binding")]
    UnboundedReply,
    /// The bound of the reply, or of an item in it, exceeds the maximum size of a chunk.
    #[error("the reply can exceed the maximum size of a chunk: {bytes} bytes, limit {max}")]
    ReplyTooLong {
        /// The bound of the item, or of the reply's stream with its RPC header, in bytes.
        bytes: u64,
        /// The maximum size of a chunk in bytes.
        max: u64,
    },
}

/// The reason why a call cannot be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unsendable {
    /// The header with the chunk lists exceeds the inline threshold.
    #[error(
        "the header with the chunk lists is too long: {bytes} bytes, limit {max} (the inline threshold of the connection); raise the sizes in Config::private_data on both peers, or raise Config::max_segment"
    )]
    Header {
        /// The size of the header in bytes.
        bytes: u64,
        /// The inline threshold that the header exceeds, for the call or for its reply, in bytes.
        max: u32,
    },
    /// The chunks have more segments than the local limit allows.
    #[error(
        "too many segments: {segments}, limit {max} (MessageLimits::max_segments); raise Config::max_segment or the limit"
    )]
    Segments {
        /// The number of segments.
        segments: u64,
        /// The limit.
        max: u64,
    },
    /// The call offers more Write chunks than the local limit allows.
    #[error("too many Write chunks: {chunks}, limit {max} (MessageLimits::max_write_chunks)")]
    WriteChunks {
        /// The number of Write chunks.
        chunks: usize,
        /// The limit.
        max: usize,
    },
    /// The call does not fit inline and must not have Read chunks, because it is a backward call or the
    /// responder does not support RDMA Reads.
    #[error(
        "the message does not fit inline and must not have Read chunks: {bytes} bytes, limit {max} (the inline threshold of the connection); raise the sizes in Config::private_data on both peers"
    )]
    NotInline {
        /// The size of the message in bytes, including its transport header.
        bytes: u64,
        /// The inline threshold.
        max: u32,
    },
    /// The message exceeds the maximum size of a record in RPC over TCP.
    #[error("the message is too long for a record: {0} bytes, limit 2147483647")]
    Record(u64),
    /// Another unanswered call has the same XID.
    #[error("another unanswered call has the same XID")]
    RepeatedXid,
    /// The message is shorter than an XID (four bytes).
    #[error("the message has no XID")]
    NoXid,
}
