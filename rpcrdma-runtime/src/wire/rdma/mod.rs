//! RPC-over-RDMA version 1 messages (RFC 8166 section 4).
//!
//! The layouts are rpcrdma-xdrgen's ([`crate::wire::generated::rpcrdma1`]); a [`Header`] is one that has been checked.

mod chunk;
mod direction;
mod header;
mod limits;
mod segment;

pub use chunk::{ChunkLists, ReadSegment, WriteChunk};
pub use direction::{Direction, direction};
pub use header::{
    Body, ErrorBody, Header, Refusal, ReplyRefusal, VERSION, decode_call, decode_reply, encode_version_error,
};
pub use limits::Limits;
pub use segment::Segment;
