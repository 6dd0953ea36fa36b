//! The running handlers of one connection.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tracing::{Instrument, debug_span, warn};

use super::memory::CallMemory;
use super::serving::{Arrived, Connected, Executed};
use crate::wire::rpc::{Reject, RpcCall, RpcReply};
use crate::xdr::{Message, Received};

/// A reply, if the call gets one.
type Reply = Option<RpcReply>;

/// Runs handlers. A call that completes on its first poll needs no task and wakes no other thread; any
/// other call becomes a task. `K` identifies a call on its connection.
pub(super) struct Running<K> {
    caller: Arc<Connected>,
    attempt: Box<dyn Attempt>,
    tasks: JoinSet<(K, Reply)>,
}

impl<K: Send + 'static> Running<K> {
    pub(super) fn new(caller: Arc<Connected>) -> Self {
        let runner = caller.clone();
        let run = move |call, memory, executed| runner.clone().run(call, memory, executed);
        Running { caller, attempt: Box::new(Reused { run, call: Box::pin(None) }), tasks: JoinSet::new() }
    }

    /// Starts a call. Returns its key if the reply is ready at once, or if there is none.
    pub(super) fn start(
        &mut self,
        key: K,
        message: Received,
        memory: Option<CallMemory>,
    ) -> Option<(K, Option<Message>)> {
        let call = match RpcCall::parse(message) {
            Ok(call) => call,
            Err(refusal) => return Some((key, self.caller.counted(RpcReply::refuse(refusal)))),
        };
        // The attributes that OpenTelemetry defines for ONC RPC. Programs have no names here.
        let span = debug_span!(
            "call",
            otel.kind = "server",
            rpc.system = "onc_rpc",
            onc_rpc.program.number = call.header.program,
            onc_rpc.version = call.header.version,
            onc_rpc.procedure.number = call.header.procedure,
            onc_rpc.xid = call.header.xid,
            network.peer.address = self.caller.peer().map(tracing::field::display),
        );
        let _entered = span.enter();
        let executed = match self.caller.arrived(&call) {
            Arrived::Run(executed) => executed,
            Arrived::Wait(answer) => {
                self.tasks.spawn(answered(key, answer));
                return None;
            }
            Arrived::Answered(reply) => return Some((key, self.caller.counted(reply))),
        };
        let outlives = executed.is_some();
        let waiting = match self.attempt.run(call, memory, executed) {
            Ok(reply) => return Some((key, self.caller.counted(reply))),
            Err(waiting) => waiting.in_current_span(),
        };
        if outlives {
            let (done, answer) = oneshot::channel();
            self.caller.outlive(async move {
                // The receiver is gone if the connection is lost.
                let _ = done.send(waiting.await);
            });
            self.tasks.spawn(answered(key, answer));
        } else {
            self.tasks.spawn(async move { (key, waiting.await) });
        }
        None
    }

    pub(super) fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Polls for the next call whose handler ends.
    pub(super) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<(K, Option<Message>)> {
        loop {
            match ready!(self.tasks.poll_join_next(cx)) {
                Some(Ok((key, reply))) => return Poll::Ready((key, self.caller.counted(reply))),
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

async fn answered<K>(key: K, answer: oneshot::Receiver<Reply>) -> (K, Reply) {
    (key, answer.await.ok().flatten())
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
        memory: Option<CallMemory>,
        executed: Option<Executed>,
    ) -> Result<Reply, Waiting> {
        let xid = call.header.xid;
        self.call.set(Some((self.run)(call, memory, executed)));
        // The no-op waker is safe: if the call becomes a task, the task polls it again first.
        let polled = poll(&mut self.call, xid, &mut Context::from_waker(Waker::noop()));
        let Poll::Ready(reply) = polled else {
            let mut call = std::mem::replace(&mut self.call, Box::pin(None));
            return Err(Box::pin(poll_fn(move |cx| poll(&mut call, xid, cx))));
        };
        self.call.set(None);
        Ok(reply)
    }
}

/// Polls a call. A handler that panics replies with SYSTEM_ERR; the connection and its other calls
/// continue.
fn poll<F: Future<Output = Reply>>(
    call: &mut Pin<Box<Option<F>>>,
    xid: u32,
    cx: &mut Context<'_>,
) -> Poll<Reply> {
    let Some(call) = call.as_mut().as_pin_mut() else { return Poll::Ready(None) };
    catch_unwind(AssertUnwindSafe(|| call.poll(cx))).unwrap_or_else(|_| {
        warn!(xid, "a handler panicked");
        Poll::Ready(RpcReply::reject(xid, Reject::SystemError))
    })
}
