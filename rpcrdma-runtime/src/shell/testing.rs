//! Calls, replies, a waker and a loom configuration for tests.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Wake;

use crate::proto::call::{IncomingReply, Traffic};
use crate::proto::program::ReplyBounds;
use crate::proto::session::SessionCall;
use crate::xdr::{Message, Received};

pub(super) fn call(xid: u32) -> SessionCall {
    let message = Message::unreduced(xid.to_be_bytes().to_vec().into());
    let bounds = ReplyBounds::of::<()>();
    SessionCall { message, bounds, timeout: None, retransmit: None, memory: None }
}

pub(super) fn reply() -> IncomingReply {
    IncomingReply { message: Received::default(), traffic: Traffic::default() }
}

/// Runs a model in all thread interleavings with at most two preemptions.
pub(super) fn check(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(model);
}

/// A waker that counts its wake-ups.
#[derive(Default)]
pub(super) struct WakeCount(AtomicUsize);

impl WakeCount {
    /// Returns the number of wake-ups since the last call to this method.
    pub(super) fn take(&self) -> usize {
        self.0.swap(0, Ordering::Relaxed)
    }
}

impl Wake for WakeCount {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}
