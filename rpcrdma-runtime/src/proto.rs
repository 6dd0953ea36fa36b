//! The protocol engines: state machines without I/O and without a clock.
//!
//! An engine is a value: it emits actions ([`work::Action`]) and consumes completions ([`work::Completion`]).
//! It does not depend on the provider that performs the actions or on their timing. The caller passes in the
//! time where it matters ([`time::Time`]).
// Lengths come from peers.
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
