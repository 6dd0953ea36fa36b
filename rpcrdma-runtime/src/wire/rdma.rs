//! RPC-over-RDMA version 1 messages (RFC 8166 section 4).
//!
//! rpcrdma-xdrgen generates the types of the encoded messages (`wire/generated/rpcrdma1.rs`). A [`Header`] is
//! a validated message header.

mod chunk;
mod direction;
mod header;
mod limits;
mod segment;

pub use chunk::{ChunkLists, ReadSegment, WriteChunk};
pub use direction::{Direction, direction};
pub use header::{
    Body, CallTooLong, ErrorBody, Header, Refusal, ReplyRefusal, VERSION, decode_call, decode_reply,
    encode_version_error,
};
pub use limits::MessageLimits;
pub use segment::Segment;
