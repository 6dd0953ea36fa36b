//! Calls in the backward direction (RFC 8167): made by handlers of the server, served by the connected
//! client.

mod caller;
mod calling;

pub use caller::{BackwardClient, Bidirectional};
pub(super) use calling::{Backward, Calling};
