//! The formats as values, without state.
//!
//! Bytes come in and a checked value or a refusal comes out; a value goes in and bytes come out. What the
//! peer said is bounded here, once, so that [`crate::proto`] works with values only.

pub mod generated;
pub mod iwarp;
pub mod private_data;
pub mod rdma;
pub mod rpc;
