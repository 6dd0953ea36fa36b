use std::future::poll_fn;
use std::mem;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll, Waker};

use tokio::sync::watch;

use super::sync::{AtomicBool, Mutex, MutexGuard, Ordering};
use crate::proto::call::{CallId, RequesterEvent};
use crate::proto::rdma::BackwardRequester;
use crate::proto::session::SessionCall;
use crate::shell::CallError;
use crate::shell::waiters::{Outcome, Submit, Waiters};
use crate::xdr::Message;

pub(in crate::shell) trait Backward: Send + 'static {
    fn ready(&mut self);

    /// Queues a call for sending. [`RequesterEvent::Done`] follows unless the call is cancelled.
    fn submit(&mut self, message: Message) -> CallId;

    fn cancel(&mut self, call: CallId);

    fn is_outstanding(&self, xid: u32) -> bool;

    fn poll_event(&mut self) -> Option<RequesterEvent>;
}

pub(in crate::shell) trait BackwardCalls: Submit {
    fn ready(&self);

    /// Returns a receiver whose value becomes true when the connection is lost.
    fn watch(&self) -> watch::Receiver<bool>;
}

/// The backward calls on one connection. Callers submit the calls on their own tasks, and the connection's
/// task sends them. If this value is dropped, all calls without an outcome fail.
pub(in crate::shell) struct Calling<B: Backward>(Arc<Shared<B>>);

struct Shared<B> {
    state: Mutex<State<B>>,
    /// Whether a caller has ever used the engine. Until then, [`Calling::with_used`] avoids the lock.
    used: AtomicBool,
    closed: watch::Sender<bool>,
}

struct State<B> {
    /// Dropped with the connection, even if callers keep their client.
    engine: Option<B>,
    waiters: Waiters,
    /// Whether a caller has changed the state since the connection's task last checked.
    changed: bool,
    task: Option<Waker>,
}

impl<B: Backward> Calling<B> {
    /// At most `max_calls` calls can be queued or outstanding.
    pub(in crate::shell) fn new(engine: B, max_calls: usize) -> Self {
        let state =
            State { engine: Some(engine), waiters: Waiters::new(max_calls), changed: false, task: None };
        let (state, used, closed) = (Mutex::new(state), AtomicBool::new(false), watch::Sender::new(false));
        Calling(Arc::new(Shared { state, used, closed }))
    }

    pub(in crate::shell) fn calls(&self) -> Arc<dyn BackwardCalls> {
        self.0.clone()
    }

    /// Returns true if a caller has ever used the engine. Until then, the engine has no output and expects no
    /// replies.
    pub(in crate::shell) fn is_used(&self) -> bool {
        self.0.used.load(Ordering::Acquire)
    }

    /// Applies `change` to the engine, and wakes the callers whose calls have ended. Called by the
    /// connection's task.
    pub(in crate::shell) fn with<R: Default>(&self, change: impl FnOnce(&mut B) -> R) -> R {
        let mut state = self.0.lock();
        // The engine is present until this value is dropped.
        let result = state.engine.as_mut().map(change).unwrap_or_default();
        let woken = state.settle();
        drop(state);
        woken.into_iter().for_each(Waker::wake);
        result
    }

    /// Like [`Calling::with`], but does nothing and returns the default until a caller has used the engine.
    pub(in crate::shell) fn with_used<R: Default>(&self, change: impl FnOnce(&mut B) -> R) -> R {
        if self.is_used() { self.with(change) } else { R::default() }
    }

    /// Waits until a caller has changed the state. The engine may then have work.
    pub(in crate::shell) async fn changed(&self) {
        poll_fn(|cx| {
            let mut state = self.0.lock();
            if mem::take(&mut state.changed) {
                return Poll::Ready(());
            }
            if state.task.as_ref().is_none_or(|task| !task.will_wake(cx.waker())) {
                let replaced = state.task.replace(cx.waker().clone());
                drop(state);
                drop(replaced);
            }
            Poll::Pending
        })
        .await;
    }
}

impl<B: Backward> Drop for Calling<B> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.waiters.close();
        let dropped = (state.engine.take(), state.task.take());
        let woken = state.waiters.take_woken();
        drop(state);
        drop(dropped);
        self.0.closed.send_replace(true);
        woken.into_iter().for_each(Waker::wake);
    }
}

impl<B: Backward> State<B> {
    fn settle(&mut self) -> Vec<Waker> {
        while let Some(event) = self.engine.as_mut().and_then(B::poll_event) {
            if let RequesterEvent::Done { call, outcome } = event {
                self.waiters.end(call, outcome);
            }
        }
        self.waiters.take_woken()
    }
}

impl<B: Backward> Shared<B> {
    fn lock(&self) -> MutexGuard<'_, State<B>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Applies `change` to the state for a caller, and wakes the connection's task.
    fn change<R>(&self, change: impl FnOnce(&mut State<B>) -> R) -> R {
        let mut state = self.lock();
        let result = change(&mut state);
        let woken = state.settle();
        self.used.store(true, Ordering::Release);
        state.changed = true;
        let task = state.task.take();
        drop(state);
        woken.into_iter().chain(task).for_each(Waker::wake);
        result
    }
}

impl<B: Backward> Submit for Shared<B> {
    fn next_xid(&self) -> u32 {
        let State { engine, waiters, .. } = &mut *self.lock();
        waiters.next_xid(|xid| engine.as_ref().is_some_and(|engine| engine.is_outstanding(xid)))
    }

    fn submit(&self, call: SessionCall, waker: &Waker) -> Result<CallId, CallError> {
        self.change(|State { engine, waiters, .. }| {
            let engine = engine.as_mut().ok_or(CallError::Disconnected)?;
            waiters.admit(call, waker, |call| engine.submit(call.message))
        })
    }

    fn poll_outcome(&self, call: CallId, cx: &mut Context<'_>) -> Poll<Option<Outcome>> {
        let (outcome, replaced) = self.lock().waiters.poll_outcome(call, cx);
        drop(replaced);
        outcome
    }

    fn cancel(&self, call: CallId) {
        let removed = self.change(|State { engine, waiters, .. }| {
            let removed = waiters.remove(call);
            if let (Some(engine), Some(_)) = (engine, &removed) {
                engine.cancel(call);
            }
            removed
        });
        drop(removed);
    }
}

impl<B: Backward> BackwardCalls for Shared<B> {
    fn ready(&self) {
        self.change(|state| state.engine.iter_mut().for_each(B::ready));
    }

    fn watch(&self) -> watch::Receiver<bool> {
        self.closed.subscribe()
    }
}

impl Backward for BackwardRequester {
    fn ready(&mut self) {
        BackwardRequester::ready(self);
    }

    fn submit(&mut self, message: Message) -> CallId {
        BackwardRequester::submit(self, message)
    }

    fn cancel(&mut self, call: CallId) {
        BackwardRequester::cancel(self, call);
    }

    fn is_outstanding(&self, xid: u32) -> bool {
        BackwardRequester::is_outstanding(self, xid)
    }

    fn poll_event(&mut self) -> Option<RequesterEvent> {
        BackwardRequester::poll_event(self)
    }
}
