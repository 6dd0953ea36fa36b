//! Calls in the backward direction (RFC 8167): a server calls a connected client.

mod caller;
mod calling;
#[cfg(test)]
mod models;
#[cfg(test)]
mod tests;

pub use caller::{BackwardClient, Bidirectional};
pub(super) use calling::{Backward, Calling};

/// The locks and atomics of `calling.rs`. The models replace them with loom's.
mod sync {
    pub(super) use std::sync::atomic::{AtomicBool, Ordering};
    pub(super) use std::sync::{Mutex, MutexGuard};
}
