//! The running handlers of one connection.

use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tracing::{Instrument, Span, warn};

use super::memory::CallMemory;
use super::serving::{Arrived, Connected, Executed};
use super::spans;
use crate::wire::rpc::{CallHeader, Reject, RpcCall, RpcReply};
use crate::xdr::{Message, Received};

/// A reply, if the call gets one.
type Reply = Option<RpcReply>;

/// A call, for events about it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Called {
    pub(super) xid: u32,
    pub(super) program: u32,
    pub(super) version: u32,
    pub(super) procedure: u32,
    pub(super) peer: Option<SocketAddr>,
}

/// A call that has ended.
pub(super) struct Ended<K> {
    pub(super) key: K,
    /// Absent if the message was not a call.
    pub(super) called: Option<Called>,
    /// The span of the call.
    pub(super) span: Span,
    pub(super) reply: Option<Message>,
}

/// Runs handlers. A call that completes on its first poll needs no task and wakes no other thread; any
/// other call becomes a task. `K` identifies a call on its connection.
pub(super) struct Running<K> {
    caller: Arc<Connected>,
    attempt: Box<dyn Attempt>,
    tasks: JoinSet<(K, Called, Span, Reply)>,
}

impl<K: Send + 'static> Running<K> {
    pub(super) fn new(caller: Arc<Connected>) -> Self {
        let runner = caller.clone();
        let run = move |call, memory, executed| runner.clone().run(call, memory, executed);
        Running { caller, attempt: Box::new(Reused { run, call: Box::pin(None) }), tasks: JoinSet::new() }
    }

    /// Starts a call. Returns the call if it ends at once, with or without a reply.
    pub(super) fn start(
        &mut self,
        key: K,
        message: Received,
        memory: Option<CallMemory>,
    ) -> Option<Ended<K>> {
        let call = match RpcCall::parse(message) {
            Ok(call) => call,
            Err(refusal) => {
                let reply = self.caller.counted(RpcReply::refuse(refusal));
                return Some(Ended { key, called: None, span: Span::none(), reply });
            }
        };
        let CallHeader { xid, program, version, procedure, .. } = call.header;
        let called = Called { xid, program, version, procedure, peer: self.caller.peer() };
        let span = spans::server_call(&call.header, called.peer);
        let entered = span.enter();
        let executed = match self.caller.arrived(&call) {
            Arrived::Run(executed) => executed,
            Arrived::Wait(answer) => {
                self.tasks.spawn(answered(key, called, span.clone(), answer));
                return None;
            }
            Arrived::Answered(reply) => return Some(self.ended(key, called, span.clone(), reply)),
        };
        let outlives = executed.is_some();
        let waiting = match self.attempt.run(call, called, memory, executed) {
            Ok(reply) => return Some(self.ended(key, called, span.clone(), reply)),
            Err(waiting) => waiting.in_current_span(),
        };
        drop(entered);
        if outlives {
            let (done, answer) = oneshot::channel();
            self.caller.outlive(async move {
                // The receiver is gone if the connection is lost.
                let _ = done.send(waiting.await);
            });
            self.tasks.spawn(answered(key, called, span, answer));
        } else {
            self.tasks.spawn(async move { (key, called, span, waiting.await) });
        }
        None
    }

    fn ended(&self, key: K, called: Called, span: Span, reply: Reply) -> Ended<K> {
        Ended { key, called: Some(called), span, reply: self.caller.counted(reply) }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Polls for the next call whose handler ends.
    pub(super) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Ended<K>> {
        loop {
            match ready!(self.tasks.poll_join_next(cx)) {
                Some(Ok((key, called, span, reply))) => {
                    return Poll::Ready(self.ended(key, called, span, reply));
                }
                // A task ends without a result only when the runtime shuts down.
                Some(Err(_)) => {}
                None => return Poll::Pending,
            }
        }
    }
}

impl<K> Drop for Running<K> {
    fn drop(&mut self) {
        self.caller.stopped(self.tasks.len());
    }
}

async fn answered<K>(
    key: K,
    called: Called,
    span: Span,
    answer: oneshot::Receiver<Reply>,
) -> (K, Called, Span, Reply) {
    (key, called, span, answer.await.ok().flatten())
}

/// A call that waits for something.
type Waiting = Pin<Box<dyn Future<Output = Reply> + Send>>;

/// Polls a call once.
trait Attempt: Send {
    /// # Errors
    /// The call, if it has no reply yet.
    fn run(
        &mut self,
        call: RpcCall,
        called: Called,
        memory: Option<CallMemory>,
        executed: Option<Executed>,
    ) -> Result<Reply, Waiting>;
}

/// The memory of one call, reused for the next call unless the call waits and keeps it.
struct Reused<M, F> {
    run: M,
    call: Pin<Box<Option<F>>>,
}

impl<M, F> Attempt for Reused<M, F>
where
    M: Fn(RpcCall, Option<CallMemory>, Option<Executed>) -> F + Send,
    F: Future<Output = Reply> + Send + 'static,
{
    fn run(
        &mut self,
        call: RpcCall,
        called: Called,
        memory: Option<CallMemory>,
        executed: Option<Executed>,
    ) -> Result<Reply, Waiting> {
        self.call.set(Some((self.run)(call, memory, executed)));
        // The no-op waker is safe: if the call becomes a task, the task polls it again first.
        let polled = poll(&mut self.call, called, &mut Context::from_waker(Waker::noop()));
        let Poll::Ready(reply) = polled else {
            let mut call = std::mem::replace(&mut self.call, Box::pin(None));
            return Err(Box::pin(poll_fn(move |cx| poll(&mut call, called, cx))));
        };
        self.call.set(None);
        Ok(reply)
    }
}

/// Polls a call. A handler that panics replies with SYSTEM_ERR; the connection and its other calls
/// continue.
fn poll<F: Future<Output = Reply>>(
    call: &mut Pin<Box<Option<F>>>,
    called: Called,
    cx: &mut Context<'_>,
) -> Poll<Reply> {
    let Some(call) = call.as_mut().as_pin_mut() else { return Poll::Ready(None) };
    catch_unwind(AssertUnwindSafe(|| call.poll(cx))).unwrap_or_else(|_| {
        let Called { xid, program, version, procedure, peer } = called;
        warn!(program, version, procedure, xid, ?peer, "a handler panicked");
        Poll::Ready(RpcReply::reject(xid, Reject::SystemError))
    })
}
