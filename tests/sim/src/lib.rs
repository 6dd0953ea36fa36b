//! Simulations of the requester and responder engines over an in-memory fabric.
//!
//! The crate provides an RPC program for tests, a pair of engines, and random runs over one or several
//! connections.

mod backward;
mod echo;
pub mod fabric;
mod many;
mod pair;
mod run;
mod sessions;

pub use backward::{Bidirectional, run_bidirectional};
pub use echo::{Args, Echo, Res, ResultLengths, call, pattern};
pub use many::{Sums, many};
pub use pair::{Pair, Settings, left_config, right_config};
pub use run::{Outcome, run};
pub use sessions::{Tally, run_session};
