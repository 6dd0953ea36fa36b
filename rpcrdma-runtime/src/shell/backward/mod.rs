//! Calls in the backward direction (RFC 8167): made by handlers of the server, served by the client that connected.

mod caller;
mod calling;

pub use caller::{BackwardClient, BothWays};
pub(super) use calling::{Backward, Calling};
