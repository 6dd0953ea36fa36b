use std::future::poll_fn;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use tokio::sync::watch;

use crate::proto::rdma::session::Call;
use crate::proto::rdma::{BackwardRequester, CallId, Event};
use crate::shell::CallError;
use crate::shell::waiters::{Outcome, Submit, Waiters};
use crate::xdr::Message;

/// What makes the calls of a server on one connection.
pub(in crate::shell) trait Backward: Send + 'static {
    /// Calls may be made from now on.
    fn ready(&mut self);

    /// Makes a call, now or when it can be. [`Event::Done`] follows, unless it is cancelled.
    fn submit(&mut self, message: Message) -> CallId;

    /// Nobody waits for the call any more.
    fn cancel(&mut self, call: CallId);

    /// The next thing to know.
    fn poll_event(&mut self) -> Option<Event>;
}

/// What a server's callers in the backward direction need of their connection, whatever carries the calls.
pub(in crate::shell) trait BackwardCalls: Submit {
    /// Calls may be made from now on.
    fn ready(&self);

    /// True once the connection is gone.
    fn watch(&self) -> watch::Receiver<bool>;
}

/// The calls of a server on one connection. Callers submit them on their own tasks; the connection's task sends them. When
/// it drops this, callers that still wait fail.
pub(in crate::shell) struct Calling<B: Backward>(Arc<Shared<B>>);

struct Shared<B> {
    state: Mutex<State<B>>,
    closed: watch::Sender<bool>,
}

struct State<B> {
    engine: B,
    waiters: Waiters,
    /// Callers have changed something since the connection's task has looked.
    changed: bool,
    task: Option<Waker>,
}

impl<B: Backward> Calling<B> {
    /// For a new connection, whose callers may have so many calls that have not ended.
    pub(in crate::shell) fn new(engine: B, max_calls: usize) -> Self {
        let state = State { engine, waiters: Waiters::new(max_calls), changed: false, task: None };
        Calling(Arc::new(Shared { state: Mutex::new(state), closed: watch::Sender::new(false) }))
    }

    /// What callers are given.
    pub(in crate::shell) fn calls(&self) -> Arc<dyn BackwardCalls> {
        self.0.clone()
    }

    /// Uses the engine on the connection's task.
    pub(in crate::shell) fn with<R>(&self, change: impl FnOnce(&mut B) -> R) -> R {
        let mut state = self.0.lock();
        let result = change(&mut state.engine);
        let woken = state.settle();
        drop(state);
        woken.into_iter().for_each(Waker::wake);
        result
    }

    /// Waits until callers have changed something that may leave the engine with work.
    pub(in crate::shell) async fn changed(&self) {
        poll_fn(|cx| {
            let mut state = self.0.lock();
            if mem::take(&mut state.changed) {
                return Poll::Ready(());
            }
            state.task = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

impl<B: Backward> Drop for Calling<B> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.waiters.close();
        let woken = mem::take(state.waiters.woken());
        drop(state);
        self.0.closed.send_replace(true);
        woken.into_iter().for_each(Waker::wake);
    }
}

impl<B: Backward> State<B> {
    /// Keeps the outcomes of calls for their callers, and returns those to wake.
    fn settle(&mut self) -> Vec<Waker> {
        while let Some(event) = self.engine.poll_event() {
            if let Event::Done { call, outcome } = event {
                self.waiters.end(call, outcome);
            }
        }
        mem::take(self.waiters.woken())
    }
}

impl<B: Backward> Shared<B> {
    fn lock(&self) -> MutexGuard<'_, State<B>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state on a caller's task, and wakes the connection's.
    fn change<R>(&self, change: impl FnOnce(&mut State<B>) -> R) -> R {
        let mut state = self.lock();
        let result = change(&mut state);
        let woken = state.settle();
        state.changed = true;
        let task = state.task.take();
        drop(state);
        woken.into_iter().chain(task).for_each(Waker::wake);
        result
    }
}

impl<B: Backward> Submit for Shared<B> {
    fn next_xid(&self) -> u32 {
        self.lock().waiters.next_xid(|_| false)
    }

    fn submit(&self, call: Call) -> Result<CallId, CallError> {
        self.change(|State { engine, waiters, .. }| waiters.admit(call, |call| engine.submit(call.message)))
    }

    fn poll_outcome(&self, call: CallId, cx: &mut Context<'_>) -> Poll<Option<Outcome>> {
        self.lock().waiters.poll_outcome(call, cx)
    }

    fn cancel(&self, call: CallId) {
        self.change(|state| {
            if state.waiters.remove(call) {
                state.engine.cancel(call);
            }
        });
    }
}

impl<B: Backward> BackwardCalls for Shared<B> {
    fn ready(&self) {
        self.change(|state| state.engine.ready());
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

    fn poll_event(&mut self) -> Option<Event> {
        BackwardRequester::poll_event(self)
    }
}
