//! The driver of a server's connection, for any transport.

use std::future::{Future, poll_fn};
use std::sync::Arc;

use tokio::sync::watch;
use tokio::task::consume_budget;

use super::accept::stopped;
use super::memory::CallMemory;
use super::running::{Ended, Running};
use super::serving::CallExecutor;
use super::slots::Slot;
use crate::proto::work::CloseReason;
use crate::xdr::Received;

pub(super) trait Inbound {
    /// Identifies a call in [`Inbound::reply`].
    type Key: Send + 'static;

    /// Sends queued output and waits for the next event. `was_busy` is the last known value of
    /// [`Inbound::is_busy`]. Cancel safe.
    fn next(&mut self, was_busy: bool) -> impl Future<Output = Event<Self::Key>> + Send;

    /// Ends a call, with or without a reply.
    fn reply(&mut self, ended: Ended<Self::Key>);

    /// Returns true if a call is arriving or unanswered, a reply is not completely sent, or the server may
    /// call its client. Such a connection is not idle.
    fn is_busy(&self) -> bool;

    /// Drops new calls, and closes the connection once the running calls have ended.
    fn drain(&mut self);
}

pub(super) enum Event<K> {
    /// A call has arrived. Over RPC-over-RDMA, the memory is present only if the call waited for memory.
    Call(K, Received, Option<CallMemory>),
    /// The value of [`Inbound::is_busy`] has changed.
    Activity,
    Closed(CloseReason),
}

/// Serves a connection until it ends, or until `stopping` is true and the running calls have ended.
pub(super) async fn serve<I: Inbound>(
    inbound: &mut I,
    executor: Arc<CallExecutor>,
    mut stopping: watch::Receiver<bool>,
    slot: Option<&Slot>,
) -> CloseReason {
    let mut running = Running::new(executor);
    let mut stopped = std::pin::pin!(stopped(&mut stopping));
    let (mut draining, mut is_busy) = (false, false);
    let set_idle = |is_idle| slot.into_iter().for_each(|slot| slot.set_idle(is_idle));
    loop {
        tokio::select! {
            event = inbound.next(is_busy) => match event {
                Event::Activity => {}
                Event::Call(key, message, memory) => {
                    let at_once = running.start(key, message, memory);
                    if let Some(ended) = at_once {
                        inbound.reply(ended);
                        // Lets other tasks run even if many calls arrive.
                        consume_budget().await;
                    }
                }
                Event::Closed(reason) => return reason,
            },
            ended = poll_fn(|cx| running.poll_next(cx)) => {
                inbound.reply(ended);
            }
            () = &mut stopped, if !draining => {
                draining = true;
                inbound.drain();
            }
        }
        is_busy = inbound.is_busy();
        set_idle(running.is_empty() && !is_busy);
    }
}
