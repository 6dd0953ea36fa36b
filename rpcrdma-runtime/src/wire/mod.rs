//! The formats as values, without state.
//!
//! Bytes come in and a checked value or a refusal comes out; a value goes in and bytes come out. What the
//! peer said is bounded here, once, so that [`crate::proto`] works with values only.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))] // lengths come from peers

pub mod generated;
pub mod iwarp;
pub mod private_data;
pub mod rdma;
pub mod rpc;
