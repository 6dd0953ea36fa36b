//! The protocol engines: state machines without I/O and without a clock.
//!
//! The RPC-over-RDMA engines ([`rdma`]) emit actions ([`work::Action`]) and consume completions
//! ([`work::Completion`]). They do not depend on the provider that performs the actions, or on its timing.
//! The caller passes in the time where it matters, as a [`time::Time`] or as a `Duration`.
// Peers supply lengths and offsets, so unchecked indexing and arithmetic are denied.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

pub mod call;
pub(crate) mod counts;
pub mod iwarp;
pub mod owner;
pub mod program;
pub mod random;
pub mod rdma;
pub mod rpc;
pub mod session;
pub(crate) mod table;
pub mod time;
pub mod work;
