//! The running handlers of one connection.

use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tracing::{Instrument, Span};

use super::memory::CallMemory;
use super::serving::{CallExecutor, Disposition, TrackedCall};
use super::spans;
use super::warnings::{Kind, Subject, Warnings};
use crate::wire::rpc::{CallHeader, CallNumbers, Reject, RpcCall, RpcReply};
use crate::xdr::{Message, Received};

type Reply = Option<RpcReply>;

#[derive(Clone, Copy, Debug)]
pub(super) struct CallInfo {
    call: CallNumbers,
    peer: Option<SocketAddr>,
}

impl From<CallInfo> for Subject {
    fn from(CallInfo { call, peer }: CallInfo) -> Self {
        Subject { peer, ..Some(call).into() }
    }
}

pub(super) struct Ended<K> {
    pub(super) key: K,
    /// `None` if the message was not a valid call.
    pub(super) info: Option<CallInfo>,
    pub(super) span: Span,
    pub(super) reply: Option<Message>,
}

/// Runs handlers. A call that completes on its first poll needs no task and wakes no other thread; any
/// other call becomes a task. `K` identifies a call on its connection.
pub(super) struct Running<K> {
    executor: Arc<CallExecutor>,
    attempt: Box<dyn Attempt>,
    tasks: JoinSet<(K, CallInfo, Span, Reply)>,
}

impl<K: Send + 'static> Running<K> {
    pub(super) fn new(executor: Arc<CallExecutor>) -> Self {
        let runner = executor.clone();
        let run = move |call, memory, tracked| runner.clone().run(call, memory, tracked);
        let warnings = executor.warnings().clone();
        let attempt = Box::new(Reused { run, call: Box::pin(None), warnings });
        Running { executor, attempt, tasks: JoinSet::new() }
    }

    /// Starts the call in `message`. Returns the call if it ends immediately, with or without a reply.
    pub(super) fn start(
        &mut self,
        key: K,
        message: Received,
        memory: Option<CallMemory>,
    ) -> Option<Ended<K>> {
        let call = match RpcCall::parse(message) {
            Ok(call) => call,
            Err(refusal) => {
                let reply = self.executor.count_reply(RpcReply::refuse(refusal));
                return Some(Ended { key, info: None, span: Span::none(), reply });
            }
        };
        let CallHeader { xid, program, version, procedure, .. } = call.header;
        let numbers = CallNumbers { xid, program, version, procedure };
        let info = CallInfo { call: numbers, peer: self.executor.peer() };
        let span = spans::server_call(&call.header, info.peer);
        let entered = span.enter();
        let tracked = match self.executor.look_up(&call) {
            Disposition::Run(tracked) => tracked,
            Disposition::Wait(end) => {
                let waiting = self.executor.clone().wait(call, memory, end);
                let waiting = guarded(Box::pin(Some(waiting)), info, self.executor.warnings().clone())
                    .in_current_span();
                let span = span.clone();
                self.tasks.spawn(async move { (key, info, span, waiting.await) });
                return None;
            }
            Disposition::Answered(reply) => return Some(self.ended(key, info, span.clone(), reply)),
        };
        let outlives = tracked.is_some();
        let waiting = match self.attempt.run(call, info, memory, tracked) {
            Ok(reply) => return Some(self.ended(key, info, span.clone(), reply)),
            Err(waiting) => waiting.in_current_span(),
        };
        drop(entered);
        if outlives {
            let (done, answer) = oneshot::channel();
            self.executor.outlive(async move {
                // Sending fails if the connection is lost, because the receiver is then dropped.
                let _ = done.send(waiting.await);
            });
            self.tasks.spawn(answered(key, info, span, answer));
        } else {
            self.tasks.spawn(async move { (key, info, span, waiting.await) });
        }
        None
    }

    fn ended(&self, key: K, info: CallInfo, span: Span, reply: Reply) -> Ended<K> {
        if let Some(RpcReply { status, failure, .. }) = &reply
            && let Some(error) = status.error()
        {
            match failure {
                Some(failure) => spans::record_failure(&span, format_args!("{error}: {failure}")),
                None => spans::record_failure(&span, error),
            }
        }
        Ended { key, info: Some(info), span, reply: self.executor.count_reply(reply) }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    pub(super) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Ended<K>> {
        loop {
            match ready!(self.tasks.poll_join_next(cx)) {
                Some(Ok((key, info, span, reply))) => {
                    return Poll::Ready(self.ended(key, info, span, reply));
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
        self.executor.count_stopped(self.tasks.len());
    }
}

async fn answered<K>(
    key: K,
    info: CallInfo,
    span: Span,
    answer: oneshot::Receiver<Reply>,
) -> (K, CallInfo, Span, Reply) {
    (key, info, span, answer.await.ok().flatten())
}

/// Runs a call. If its handler panics, the reply is SYSTEM_ERR.
fn guarded(
    mut call: Pin<Box<Option<impl Future<Output = Reply> + Send + 'static>>>,
    info: CallInfo,
    warnings: Warnings,
) -> PendingCall {
    Box::pin(poll_fn(move |cx| poll(&mut call, info, &warnings, cx)))
}

type PendingCall = Pin<Box<dyn Future<Output = Reply> + Send>>;

trait Attempt: Send {
    /// Polls a call once.
    ///
    /// # Errors
    /// If the first poll does not complete the call, returns a future that does.
    fn run(
        &mut self,
        call: RpcCall,
        info: CallInfo,
        memory: Option<CallMemory>,
        tracked: Option<TrackedCall>,
    ) -> Result<Reply, PendingCall>;
}

/// The memory of a call's future, reused for the next call. A pending call keeps its memory.
struct Reused<M, F> {
    run: M,
    call: Pin<Box<Option<F>>>,
    warnings: Warnings,
}

impl<M, F> Attempt for Reused<M, F>
where
    M: Fn(RpcCall, Option<CallMemory>, Option<TrackedCall>) -> F + Send,
    F: Future<Output = Reply> + Send + 'static,
{
    fn run(
        &mut self,
        call: RpcCall,
        info: CallInfo,
        memory: Option<CallMemory>,
        tracked: Option<TrackedCall>,
    ) -> Result<Reply, PendingCall> {
        self.call.set(Some((self.run)(call, memory, tracked)));
        // The no-op waker is safe: if the call becomes a task, the task first polls the call again.
        let polled = poll(&mut self.call, info, &self.warnings, &mut Context::from_waker(Waker::noop()));
        let Poll::Ready(reply) = polled else {
            let call = std::mem::replace(&mut self.call, Box::pin(None));
            return Err(guarded(call, info, self.warnings.clone()));
        };
        self.call.set(None);
        Ok(reply)
    }
}

/// Polls a call. If the handler panics, the reply is SYSTEM_ERR; the connection and its other calls continue.
fn poll<F: Future<Output = Reply>>(
    call: &mut Pin<Box<Option<F>>>,
    info: CallInfo,
    warnings: &Warnings,
    cx: &mut Context<'_>,
) -> Poll<Reply> {
    let Some(call) = call.as_mut().as_pin_mut() else { return Poll::Ready(None) };
    let polled = catch_unwind(AssertUnwindSafe(|| call.poll(cx))).unwrap_or_else(|_| {
        warnings.log(Kind::Panic, info.into(), "a handler panicked");
        Poll::Ready(RpcReply::reject(info.call.xid, Reject::SystemError))
    });
    if let Poll::Ready(Some(RpcReply { failure: Some(error), .. })) = &polled {
        let what = format_args!("the results of a handler cannot be encoded: {error}");
        warnings.log(Kind::InvalidResults, info.into(), what);
    }
    polled
}
