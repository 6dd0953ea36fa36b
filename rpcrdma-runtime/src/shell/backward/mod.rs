//! Calls in the backward direction (RFC 8167): made by handlers of the server, served by the client that connected.

mod callee;
mod caller;

pub(super) use callee::Callee;
pub(super) use caller::Calls;
pub use caller::{BackwardClient, BothWays};
