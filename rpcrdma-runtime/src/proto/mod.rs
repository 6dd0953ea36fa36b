//! The protocol's decisions as state machines, without I/O and without a clock.
//!
//! An engine is a value: work comes out of it ([`work::Action`]), completions go into it ([`work::Completion`]).
//! Which provider does the work, and when, is no concern of it. Where time matters, it is passed in ([`time::Time`]).
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))] // lengths come from peers

pub(crate) mod counts;
pub mod iwarp;
pub mod program;
pub mod random;
pub mod rdma;
pub mod rpc;
mod slab;
pub(crate) mod table;
pub mod time;
pub mod work;
