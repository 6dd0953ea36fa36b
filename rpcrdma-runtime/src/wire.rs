//! The wire formats as stateless values.
//!
//! Parsing takes bytes and returns a validated value or an error. Encoding takes a value and returns bytes.
//! Parsing enforces the limits of the formats, so that [`crate::proto`] uses validated values only.
// Lengths come from untrusted peers.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

#[expect(dead_code, unreachable_pub, reason = "xdrgen emits complete, public modules")]
pub(crate) mod generated;
pub mod iwarp;
pub mod private_data;
pub mod rdma;
pub mod rpc;
