//! A client's session and connection, shared by its callers and by the task that waits for the peer.
//!
//! The session and the connection are behind one lock. A caller submits its call on its own task
//! ([`Submit::submit`]), then waits for the reply. If no other call is unanswered, the caller also writes the
//! call to the connection. Otherwise the caller wakes the [`Driver`], so calls that are made together share
//! one write. A caller also wakes the driver to connect, to write remaining output, or to set an earlier
//! deadline. The driver waits for the peer and for timers, and wakes the callers whose calls have ended.

#[cfg(test)]
mod tests;

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, PoisonError};
#[cfg(not(test))]
use std::sync::{Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::{iter, mem};

#[cfg(test)]
use loom::sync::{Mutex, MutexGuard};
use tokio::sync::watch;
use tokio::time::{Instant, Sleep, sleep_until};
use tracing::debug;

use super::running::{Ended, Running};
use super::serving::Serving;
use super::spans::Endpoints;
use super::stats::ClientStats;
use super::waiters::{Outcome, Submit, Waiters};
use super::warnings::Warnings;
use super::{CallError, ConnectError};
use crate::proto::call::CallId;
use crate::proto::rpc::Services;
use crate::proto::session::{CreditCounts, Policy, Session, SessionCall, SessionEvent, SessionRequester};
use crate::proto::time::Time;
use crate::proto::work::CloseReason;
use crate::xdr::Received;

/// A connection of a client. The session stores the requester of the connection.
pub(super) trait Outbound: Send + Sized + 'static {
    type Requester: SessionRequester + Send;

    /// Identifies a backward call in [`Outbound::reply`].
    type Key: Send + Unpin + 'static;

    type Peer: Clone + Send;

    fn peer(&self) -> Self::Peer;

    fn endpoints(&self) -> Endpoints;

    /// Sends as much as possible without waiting. Returns false if the driver must act before the next
    /// message from the peer.
    fn flush(&mut self, requester: &mut Self::Requester) -> bool;

    /// Sends output and polls for messages. Returns ready if the connection made progress.
    fn poll(&mut self, requester: &mut Self::Requester, cx: &mut Context<'_>) -> Poll<()>;

    fn poll_call(&mut self) -> Option<(Self::Key, Received)>;

    /// Ends a backward call, with or without a reply.
    fn reply(&mut self, ended: Ended<Self::Key>, warnings: &Warnings);
}

pub(super) type Connected<O> = (O, <O as Outbound>::Requester);

pub(super) type Connecting<O> = Pin<Box<dyn Future<Output = Result<Connected<O>, ConnectError>> + Send>>;

pub(super) type Connect<O> = Box<dyn FnMut() -> Connecting<O> + Send>;

pub(super) trait SessionHandle: Submit {
    type Peer;

    /// Rejects new calls, and closes the connection once the outstanding calls have ended.
    fn drain(&self);

    /// Fails all calls and closes the connection.
    fn close(&self);

    fn peer(&self) -> Self::Peer;

    fn endpoints(&self) -> Endpoints;

    fn watch(&self) -> watch::Receiver<Progress>;

    /// Publishes the counts of the session and its connection in the client's [`ClientStats`].
    fn count(&self);
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Progress {
    pub(super) connections: u64,
    /// The session has ended, or its driver was dropped.
    pub(super) ended: bool,
}

/// Waits until more than `seen` connections have been made, and returns the number of connections. Returns
/// `None` if the session ends first.
pub(super) async fn next_connection(mut progress: watch::Receiver<Progress>, seen: u64) -> Option<u64> {
    let reached = progress.wait_for(|progress| progress.ended || progress.connections > seen).await.ok()?;
    (reached.connections > seen).then_some(reached.connections)
}

pub(super) async fn ended(mut progress: watch::Receiver<Progress>) {
    // The session has also ended if the sender is dropped.
    let _ = progress.wait_for(|progress| progress.ended).await;
}

pub(super) struct Shared<O: Outbound> {
    state: Mutex<State<O>>,
    progress: watch::Sender<Progress>,
    start: Instant,
}

struct State<O: Outbound> {
    session: Session<O::Requester>,
    connection: Option<O>,
    /// The session needs a connection, and the driver has not started to connect.
    wants_connection: bool,
    peer: O::Peer,
    endpoints: Endpoints,
    connections: u64,
    waiters: Waiters,
    driver: Option<Waker>,
    /// When the driver's timer fires, if the timer is armed.
    alarm: Option<Time>,
    ended: bool,
    stats: ClientStats,
    /// The last published counts of the current connection, and the time of publication.
    counted: (Time, CreditCounts),
}

/// Maximum number of steps in one poll of a driver, so that other tasks can run.
const MAX_STEPS: usize = 16;
/// Maximum number of polls of the connection that make progress before a driver releases the lock and wakes
/// callers.
const MAX_POLLS: usize = 4;

impl<O: Outbound> Shared<O> {
    /// Returns the state of a client, and a driver that the caller must spawn. Without `connect`, `first` is
    /// the only connection. `SessionHandle::peer` returns `peer` until the first connection is made. If
    /// `backward` has programs, the client stays connected even without calls.
    pub(super) fn new(
        policy: Policy,
        (first, connect): (Option<Connected<O>>, Option<Connect<O>>),
        peer: O::Peer,
        backward: &Services,
        stats: ClientStats,
        max_calls: usize,
    ) -> (Arc<Self>, Driver<O>) {
        let start = Instant::now();
        // Backward calls need no duplicate-request cache: a server does not retransmit a call on the same
        // connection, and cannot reconnect.
        let backward = backward.programs().next().map(|_| Serving::plain(backward.clone()));
        let seed = getrandom::u64().unwrap_or_else(|_| u64::from(std::process::id()));
        let mut state = State {
            session: Session::new(Policy { keep: backward.is_some(), ..policy }, seed),
            connection: None,
            wants_connection: false,
            peer,
            endpoints: Endpoints::default(),
            connections: 0,
            waiters: Waiters::new(max_calls),
            driver: None,
            alarm: None,
            ended: false,
            stats,
            counted: Default::default(),
        };
        if let Some(connected) = first {
            state.connected(connected, Time::default());
        }
        let connections = state.connections;
        let progress = watch::Sender::new(Progress { connections, ended: false });
        let shared = Arc::new(Shared { state: Mutex::new(state), progress, start });
        let driver = Driver {
            shared: shared.clone(),
            alarm: Box::pin(sleep_until(start)),
            woken: Vec::new(),
            connect,
            connecting: None,
            backward,
            running: None,
            replies: Vec::new(),
        };
        (shared, driver)
    }

    fn lock(&self) -> MutexGuard<'_, State<O>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Time {
        Time(self.start.elapsed())
    }

    /// Applies `change` to the requester of the connection with the number `connection`, counted from 1. Does
    /// nothing if that connection has ended.
    pub(super) fn with_requester(&self, connection: u64, change: impl FnOnce(&mut O::Requester)) {
        self.with(|state, _| {
            let requester = state.session.requester_mut();
            requester.filter(|_| connection == state.connections).map(change)
        });
    }

    /// Applies `change` to the state for a caller. If at most one call is unanswered, sends as much as
    /// possible. Wakes the driver unless all work is done.
    fn with<R>(&self, change: impl FnOnce(&mut State<O>, Time) -> R) -> R {
        let now = self.now();
        let mut state = self.lock();
        let result = change(&mut state, now);
        let is_done = state.session.unanswered() <= 1 && state.advance(now);
        let driver = if is_done { None } else { state.driver.take() };
        let woken = state.waiters.take_woken();
        drop(state);
        woken.into_iter().chain(driver).for_each(Waker::wake);
        result
    }
}

impl<O: Outbound> Submit for Shared<O> {
    fn next_xid(&self) -> u32 {
        let State { waiters, session, .. } = &mut *self.lock();
        waiters.next_xid(|xid| session.is_outstanding(xid))
    }

    fn submit(&self, call: SessionCall, waker: &Waker) -> Result<CallId, CallError> {
        self.with(|State { waiters, session, .. }, now| {
            waiters.admit(call, waker, |call| session.submit(now, call))
        })
    }

    fn poll_outcome(&self, call: CallId, cx: &mut Context<'_>) -> Poll<Option<Outcome>> {
        let (outcome, replaced) = self.lock().waiters.poll_outcome(call, cx);
        drop(replaced);
        outcome
    }

    fn cancel(&self, call: CallId) {
        let removed = self.with(|state, now| {
            let removed = state.waiters.remove(call);
            if removed.is_some() {
                state.session.cancel(now, call);
            }
            removed
        });
        drop(removed);
    }
}

impl<O: Outbound> SessionHandle for Shared<O> {
    type Peer = O::Peer;

    fn drain(&self) {
        self.with(|state, now| state.session.close_when_idle(now));
    }

    fn close(&self) {
        self.with(|state, now| state.session.close(now, &CloseReason::Local));
    }

    fn peer(&self) -> O::Peer {
        self.lock().peer.clone()
    }

    fn endpoints(&self) -> Endpoints {
        self.lock().endpoints
    }

    fn watch(&self) -> watch::Receiver<Progress> {
        self.progress.subscribe()
    }

    fn count(&self) {
        let now = self.now();
        self.lock().count(now);
    }
}

impl<O: Outbound> State<O> {
    fn connected(&mut self, (connection, requester): Connected<O>, now: Time) {
        self.peer = connection.peer();
        self.endpoints = connection.endpoints();
        self.connections = self.connections.saturating_add(1);
        self.connection = Some(connection);
        self.session.handle_connected(now, requester);
    }

    /// Advances the session and the connection as far as possible without waiting. Returns false if the
    /// driver must act before the next message from the peer.
    fn advance(&mut self, now: Time) -> bool {
        let mut flushed = true;
        loop {
            if let (Some(connection), Some(requester)) = (&mut self.connection, self.session.requester_mut())
            {
                flushed = connection.flush(requester);
            }
            self.session.process_events(now);
            while let Some(event) = self.session.poll_event() {
                self.handle_event(event);
            }
            // Without a connection, for example after the driver is dropped, `has_work` can stay true.
            if self.connection.is_none() || !self.session.has_work() {
                break;
            }
        }
        if self.session.requester().map_or(0, |requester| requester.counts().queued) != self.counted.1.queued
        {
            self.count(now);
        }
        let in_time = match (self.session.poll_timeout(), self.alarm) {
            (Some(at), Some(alarm)) => alarm <= at,
            (at, _) => at.is_none(),
        };
        flushed && in_time && !self.wants_connection && !self.ended
    }

    fn handle_event(&mut self, event: SessionEvent) {
        match event {
            SessionEvent::Done { call, outcome } => self.waiters.end(call, outcome),
            SessionEvent::Connect => self.wants_connection = true,
            SessionEvent::Disconnected(reason) => {
                debug!(%reason, "connection closed");
                self.connection = None;
            }
            SessionEvent::Ended(reason) => {
                debug!(%reason, "session ended");
                self.ended = true;
                self.waiters.close();
            }
        }
    }

    fn count(&mut self, now: Time) {
        let (at, before) = self.counted;
        if before.queued > 0 {
            self.stats.waited(before.queued, now.since(at));
        }
        self.stats.session(self.session.counts());
        let Some(requester) = self.session.requester() else {
            self.stats.granted(0);
            self.counted = (now, CreditCounts::default());
            return;
        };
        let counts = requester.counts();
        self.stats.granted(counts.granted);
        // The counts of a new connection start at 0.
        let beyond = |count: u64, before: u64| count.checked_sub(before).unwrap_or(count);
        self.stats.connection(
            beyond(counts.credit_waits, before.credit_waits),
            beyond(counts.discarded, before.discarded),
        );
        self.counted = (now, counts);
    }

    /// Polls the connection. Returns true if it made progress; [`State::advance`] must then be called.
    fn poll_io(&mut self, cx: &mut Context<'_>) -> bool {
        match (&mut self.connection, self.session.requester_mut()) {
            (Some(connection), Some(requester)) => connection.poll(requester, cx).is_ready(),
            _ => false,
        }
    }

    /// Sets the waker of the driver's task. Returns the replaced waker, which must be dropped after the lock
    /// is released.
    fn set_driver(&mut self, driver: &Waker) -> Option<Waker> {
        let is_new = self.driver.as_ref().is_none_or(|waker| !waker.will_wake(driver));
        if is_new { self.driver.replace(driver.clone()) } else { None }
    }
}

/// The task of a client. It does not hold the lock while it runs connectors, wakers and handlers, because
/// they may call this client.
pub(super) struct Driver<O: Outbound> {
    shared: Arc<Shared<O>>,
    alarm: Pin<Box<Sleep>>,
    woken: Vec<Waker>,
    connect: Option<Connect<O>>,
    connecting: Option<Connecting<O>>,
    backward: Option<Serving>,
    /// The running backward calls, with the number of the connection on which they arrived.
    running: Option<(u64, Running<O::Key>)>,
    replies: Vec<Ended<O::Key>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Next,
    Wait,
    End,
}

impl<O: Outbound> Driver<O> {
    /// Advances the session and the connection. Handles expired deadlines first, so that a peer that sends
    /// without pause cannot delay them.
    fn step(&mut self, cx: &mut Context<'_>) -> Step {
        let shared = &self.shared;
        let now = shared.now();
        let mut state = shared.lock();
        if state.session.poll_timeout().is_some_and(|at| at <= now) {
            state.session.handle_timeout(now);
        }
        state.advance(now);
        let mut polls = 0;
        while polls < MAX_POLLS && !state.ended && state.poll_io(cx) {
            state.advance(now);
            polls += 1;
        }
        let mut step = if state.ended {
            Step::End
        } else if polls == MAX_POLLS || poll_alarm(&mut self.alarm, shared.start, &mut state, cx) {
            Step::Next
        } else {
            Step::Wait
        };
        if step != Step::Next {
            state.count(now);
        }
        let wants_connection = mem::take(&mut state.wants_connection);
        let replaced = state.set_driver(cx.waker());
        mem::swap(state.waiters.woken(), &mut self.woken);
        drop(state);
        drop(replaced);
        if step == Step::End {
            shared.progress.send_modify(|progress| progress.ended = true);
        }
        self.woken.drain(..).for_each(Waker::wake);
        if step != Step::End && self.poll_connecting(wants_connection, cx) {
            step = Step::Next;
        }
        step
    }

    /// Starts a connection attempt if `wants_connection` is true, and polls the current attempt, if any.
    /// Returns true if the attempt has ended.
    fn poll_connecting(&mut self, wants_connection: bool, cx: &mut Context<'_>) -> bool {
        if wants_connection {
            self.connecting = self.connect.as_mut().map(|connect| connect());
        }
        let made = match &mut self.connecting {
            Some(connecting) => match connecting.as_mut().poll(cx) {
                Poll::Ready(made) => made.map_err(|error| error.to_string()),
                Poll::Pending => return false,
            },
            None if wants_connection => {
                Err("the connection was supplied by the caller; cannot reconnect".to_owned())
            }
            None => return false,
        };
        self.connecting = None;
        let now = self.shared.now();
        let mut state = self.shared.lock();
        match made {
            // If the session has ended, the new connection is dropped after the lock is released.
            _ if state.ended => {}
            Ok(connected) => state.connected(connected, now),
            Err(error) => {
                debug!(%error, "cannot connect");
                state.session.handle_connect_failed(now, error);
            }
        }
        let connections = state.connections;
        drop(state);
        // Publishes the number of connections before a reply wakes a caller, which may read this number.
        self.shared
            .progress
            .send_if_modified(|progress| mem::replace(&mut progress.connections, connections) != connections);
        true
    }

    /// Passes the replies to the connection that carried their calls. Drops the replies if that connection
    /// has ended.
    fn reply(&mut self) {
        if self.replies.is_empty() {
            return;
        }
        let mut state = self.shared.lock();
        let is_current = self.running.as_ref().is_some_and(|(number, _)| *number == state.connections);
        if let Some(connection) = state.connection.as_mut().filter(|_| is_current)
            && let Some(serving) = &self.backward
        {
            self.replies.drain(..).for_each(|ended| connection.reply(ended, serving.warnings()));
        }
        drop(state);
        self.replies.clear();
    }

    /// Runs backward calls. Returns true if the driver must run again: replies are ready, or the connection
    /// may read more because calls were started.
    fn run(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(serving) = &self.backward else { return false };
        let mut state = self.shared.lock();
        let number = state.connections;
        let called = state.connection.as_mut().map(|connection| {
            let calls: Vec<_> = iter::from_fn(|| connection.poll_call()).collect();
            (connection.endpoints().peer, calls)
        });
        drop(state);
        let Some((server, calls)) = called else {
            self.running = None;
            return false;
        };
        let has_called = !calls.is_empty();
        let (_, running) = match self.running.take() {
            Some(running) if running.0 == number => self.running.insert(running),
            _ => self.running.insert((number, Running::new(serving.executor(server)))),
        };
        self.replies.extend(calls.into_iter().filter_map(|(key, call)| running.start(key, call, None)));
        while let Poll::Ready(reply) = running.poll_next(cx) {
            self.replies.push(reply);
        }
        has_called || !self.replies.is_empty()
    }
}

/// Arms the timer for the session's next deadline. Returns true once the timer has fired. Resetting the timer
/// for every call costs more than an early wake-up, so the timer stays armed even without a deadline.
fn poll_alarm<O: Outbound>(
    alarm: &mut Pin<Box<Sleep>>,
    start: Instant,
    state: &mut State<O>,
    cx: &mut Context<'_>,
) -> bool {
    state.alarm = None;
    let deadline = state.session.poll_timeout().and_then(|at| start.checked_add(at.0));
    match deadline {
        Some(deadline) if deadline < alarm.deadline() || alarm.is_elapsed() => alarm.as_mut().reset(deadline),
        None if alarm.is_elapsed() => return false,
        _ => {}
    }
    if alarm.as_mut().poll(cx).is_ready() {
        return true;
    }
    state.alarm = Some(Time(alarm.deadline().saturating_duration_since(start)));
    false
}

impl<O: Outbound> Future for Driver<O> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let driver = self.get_mut();
        driver.reply();
        let mut step = Step::Next;
        for _ in 0..MAX_STEPS {
            step = driver.step(cx);
            match step {
                Step::Next => {}
                Step::Wait => break,
                Step::End => return Poll::Ready(()),
            }
        }
        if driver.run(cx) || step == Step::Next {
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }
}

impl<O: Outbound> Drop for Driver<O> {
    /// If the runtime drops the task before the session ends, all waiting calls fail.
    fn drop(&mut self) {
        let now = self.shared.now();
        let mut state = self.shared.lock();
        state.ended = true;
        state.waiters.close();
        state.session.close(now, &CloseReason::Local);
        while state.session.poll_event().is_some() {}
        let dropped = (state.connection.take(), state.driver.take());
        let woken = state.waiters.take_woken();
        drop(state);
        drop(dropped);
        self.shared.progress.send_modify(|progress| progress.ended = true);
        woken.into_iter().for_each(Waker::wake);
    }
}
