//! RPC-over-RDMA version 1 messages (RFC 8166 section 4).

mod segment;

pub use segment::Segment;
