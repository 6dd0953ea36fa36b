//! A client's session and connection, shared by its callers and by the task that waits for the peer.
//!
//! Both are behind one lock. A caller submits its call and writes it to the connection on its own task
//! ([`Calls::submit`]); it then waits for its reply. The [`Driver`] waits for what the peer sends and for timers, and wakes
//! the callers whose calls have ended. A caller wakes the driver only if something is left that it cannot do itself: a
//! connection to make, output that the connection did not take, or an earlier deadline.

use std::future::Future;
use std::mem;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use tokio::sync::watch;
use tokio::time::{Instant, Sleep, sleep_until};
use tracing::{debug, trace};

use super::backward::Callee;
use super::calls::first_xid;
use super::carried::fitted;
use super::stats::ClientStats;
use super::{CallError, ConnectError};
use crate::proto::rdma::session::{Call, Event, Session};
use crate::proto::rdma::{CallId, Config, FailReason, Reply, Requester, Stated};
use crate::proto::rpc::Services;
use crate::proto::table::Table;
use crate::proto::time::Time;
use crate::proto::work::{CloseReason, Completion};
use crate::provider::{Connection, ConnectionInfo};
use crate::wire::private_data::{Negotiated, PrivateData};

/// A connection that is being made.
pub(super) type Connecting<C> = Pin<Box<dyn Future<Output = Result<C, ConnectError>> + Send>>;

/// Makes connections.
pub(super) type Connect<C> = Box<dyn FnMut() -> Connecting<C> + Send>;

/// How a call ended.
pub(super) type Outcome = Result<Reply, FailReason>;

/// The peer of a connection.
#[derive(Clone, Debug)]
pub(super) struct Peer {
    /// The limits that both agreed on.
    pub(super) negotiated: Negotiated,
    /// The server's address.
    pub(super) address: Option<SocketAddr>,
    /// RDMA Reads that the local side serves at once.
    pub(super) ird: u32,
}

impl Peer {
    /// The peer of a connection, or before the first connection a peer without private data.
    fn new(config: &Config, info: Option<&ConnectionInfo>) -> Self {
        let sent = info.and_then(|info| PrivateData::find(&info.private_data));
        let server = sent.unwrap_or(PrivateData::ABSENT);
        let mut own = config.private_data;
        own.remote_invalidation &= info.is_none_or(|info| info.remote_invalidation);
        Peer {
            negotiated: PrivateData::negotiate(&own, &server),
            address: info.and_then(|info| info.peer),
            ird: info.map_or(0, |info| info.reads_in),
        }
    }
}

/// What a client needs of its session and connection, whatever carries them.
pub(super) trait Calls: Send + Sync {
    /// Returns an XID that no outstanding call has.
    fn next_xid(&self) -> u32;

    /// Starts a call. Its outcome comes from [`Calls::poll_outcome`].
    ///
    /// # Errors
    /// [`CallError::TooMany`] and [`CallError::Disconnected`].
    fn submit(&self, call: Call) -> Result<CallId, CallError>;

    /// The outcome of a call, once. `None` if the client was dropped with its runtime.
    fn poll_outcome(&self, call: CallId, cx: &mut Context<'_>) -> Poll<Option<Outcome>>;

    /// Abandons a call whose outcome was not taken.
    fn cancel(&self, call: CallId);

    /// Takes no more calls; closes the connection once the outstanding ones have ended.
    fn drain(&self);

    /// Fails all calls and closes the connection.
    fn close(&self);

    /// Limits calls on this connection, counted from 1, to what its peer has stated.
    fn set_peer_limits(&self, connection: u64, server: Stated);

    /// The peer of the current or last connection.
    fn peer(&self) -> Peer;

    /// How many connections were made, and true once the session has ended.
    fn watch(&self) -> watch::Receiver<Progress>;

    /// Brings the counts of the session and its connection up to date.
    fn count(&self);
}

impl dyn Calls {
    /// Makes a call and waits for its reply. Dropping the future abandons the call.
    ///
    /// # Errors
    /// As [`Calls::submit`], and the reason why the call failed.
    pub(super) async fn transact(&self, call: Call) -> Result<Reply, CallError> {
        let mut abandon = Abandon { calls: self, call: Some(self.submit(call)?) };
        let outcome = std::future::poll_fn(|cx| match abandon.call {
            Some(call) => self.poll_outcome(call, cx),
            None => Poll::Pending,
        })
        .await;
        abandon.call = None;
        match outcome {
            Some(Err(FailReason::Timeout(after))) => Err(CallError::Timeout(after)),
            Some(outcome) => Ok(outcome?),
            None => Err(CallError::Disconnected),
        }
    }

    /// Waits until more than `seen` connections were made and returns their number, or `None` if the session ends first.
    pub(super) async fn next_connection(&self, seen: u64) -> Option<u64> {
        let mut progress = self.watch();
        let reached =
            progress.wait_for(|progress| progress.ended || progress.connections > seen).await.ok()?;
        (reached.connections > seen).then_some(reached.connections)
    }

    /// Waits until the session has ended.
    pub(super) async fn ended(&self) {
        // A driver that is gone with its runtime makes no progress either.
        let _ = self.watch().wait_for(|progress| progress.ended).await;
    }
}

/// Abandons a call whose caller stops waiting.
struct Abandon<'a> {
    calls: &'a dyn Calls,
    call: Option<CallId>,
}

impl Drop for Abandon<'_> {
    fn drop(&mut self) {
        if let Some(call) = self.call {
            self.calls.cancel(call);
        }
    }
}

/// How far a client has come.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Progress {
    /// Connections that were made.
    pub(super) connections: u64,
    /// The session has ended, or its driver is gone.
    pub(super) ended: bool,
}

/// A caller that waits, or the outcome that it has not taken.
struct Waiter {
    call: CallId,
    state: Waiting,
}

enum Waiting {
    /// The caller has not asked yet.
    New,
    Asked(Waker),
    Ended(Outcome),
}

/// The part of a client that its callers and its driver share.
pub(super) struct Shared<C> {
    state: Mutex<State<C>>,
    progress: watch::Sender<Progress>,
    max_calls: usize,
    began: Instant,
}

struct State<C> {
    session: Session,
    config: Config,
    connect: Option<Connect<C>>,
    connection: Option<C>,
    connecting: Option<Connecting<C>>,
    /// The services that the server may call, and their engine on this connection.
    backward: Services,
    callee: Option<Callee>,
    peer: Peer,
    connections: u64,
    next_xid: u32,
    /// Callers, by the XID of their call.
    waiters: Table<Waiter>,
    /// Callers to wake once the lock is released.
    woken: Vec<Waker>,
    driver: Option<Waker>,
    /// When the driver's timer fires, if it is armed.
    alarm: Option<Time>,
    ended: bool,
    stats: ClientStats,
    counted: Counted,
}

/// The counts of the current connection that were published.
#[derive(Clone, Copy, Default)]
struct Counted {
    at: Time,
    /// Calls that wait for a credit since then.
    queued: usize,
    credit_waits: u64,
    discarded: u64,
}

/// How many callers are woken, or completions taken, before others get a turn.
const TURN: usize = 64;

impl<C: Connection + 'static> Shared<C> {
    /// A session and its driver, which must be spawned. Without `connect`, `first` is the only connection.
    pub(super) fn new(
        session: Session,
        config: Config,
        (first, connect): (Option<C>, Option<Connect<C>>),
        backward: Services,
        stats: ClientStats,
        max_calls: usize,
    ) -> (Arc<Self>, Driver<C>) {
        let began = Instant::now();
        let mut state = State {
            session,
            peer: Peer::new(&config, None),
            config,
            connect,
            connection: None,
            connecting: None,
            backward,
            callee: None,
            connections: 0,
            next_xid: first_xid(),
            waiters: Table::default(),
            woken: Vec::new(),
            driver: None,
            alarm: None,
            ended: false,
            stats,
            counted: Counted::default(),
        };
        if let Some(connection) = first {
            state.connected(connection, Time::default());
        }
        let connections = state.connections;
        let progress = watch::Sender::new(Progress { connections, ended: false });
        let shared = Arc::new(Shared { state: Mutex::new(state), progress, max_calls, began });
        let driver =
            Driver { shared: shared.clone(), alarm: Box::pin(sleep_until(began)), woken: Vec::new() };
        (shared, driver)
    }

    fn lock(&self) -> MutexGuard<'_, State<C>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Time {
        Time(self.began.elapsed())
    }

    /// Changes the state on a caller's task: sends what can be sent, and wakes the driver if it has to do the rest.
    fn with<R>(&self, change: impl FnOnce(&mut State<C>, Time) -> R) -> R {
        let now = self.now();
        let mut state = self.lock();
        let result = change(&mut state, now);
        let driver = if state.advance(now) { None } else { state.driver.take() };
        let woken = if state.woken.is_empty() { Vec::new() } else { mem::take(&mut state.woken) };
        drop(state);
        woken.into_iter().chain(driver).for_each(Waker::wake);
        result
    }
}

impl<C: Connection + 'static> Calls for Shared<C> {
    fn next_xid(&self) -> u32 {
        let mut state = self.lock();
        loop {
            let xid = state.next_xid;
            state.next_xid = xid.wrapping_add(1);
            if !state.session.is_outstanding(xid) {
                return xid;
            }
        }
    }

    fn submit(&self, call: Call) -> Result<CallId, CallError> {
        self.with(|state, now| {
            if state.ended {
                return Err(CallError::Disconnected);
            }
            if state.waiters.len() >= self.max_calls {
                return Err(CallError::TooMany(self.max_calls));
            }
            if CallId::new(0, &call.message).1.is_some_and(|xid| state.waiters.contains(xid)) {
                return Err(FailReason::Unsendable("another call has its XID").into());
            }
            let call = state.session.submit(now, call);
            let _ = state.waiters.insert(call.xid(), Waiter { call, state: Waiting::New });
            Ok(call)
        })
    }

    fn poll_outcome(&self, call: CallId, cx: &mut Context<'_>) -> Poll<Option<Outcome>> {
        let mut state = self.lock();
        let Some(waiter) = state.waiters.get_mut(call.xid()).filter(|waiter| waiter.call == call) else {
            return Poll::Ready(None);
        };
        match &mut waiter.state {
            Waiting::Ended(_) => {}
            Waiting::Asked(waker) => {
                waker.clone_from(cx.waker());
                return Poll::Pending;
            }
            Waiting::New => {
                waiter.state = Waiting::Asked(cx.waker().clone());
                return Poll::Pending;
            }
        }
        match state.waiters.remove(call.xid()).map(|waiter| waiter.state) {
            Some(Waiting::Ended(outcome)) => Poll::Ready(Some(outcome)),
            _ => Poll::Ready(None),
        }
    }

    fn cancel(&self, call: CallId) {
        self.with(|state, now| {
            if state.waiters.get(call.xid()).is_some_and(|waiter| waiter.call == call) {
                state.waiters.remove(call.xid());
                state.session.cancel(now, call);
            }
        });
    }

    fn drain(&self) {
        self.with(|state, now| state.session.close_when_idle(now));
    }

    fn close(&self) {
        self.with(|state, now| state.session.close(now, &CloseReason::Local));
    }

    fn set_peer_limits(&self, connection: u64, server: Stated) {
        self.with(|state, _| {
            if connection == state.connections
                && let Some(requester) = state.session.line_mut()
            {
                requester.limit(server);
            }
        });
    }

    fn peer(&self) -> Peer {
        self.lock().peer.clone()
    }

    fn watch(&self) -> watch::Receiver<Progress> {
        self.progress.subscribe()
    }

    fn count(&self) {
        let now = self.now();
        self.lock().count(now);
    }
}

impl<C: Connection> State<C> {
    /// Makes a new connection the one that calls use.
    fn connected(&mut self, connection: C, now: Time) {
        let info = connection.info();
        let peer = Peer::new(&self.config, Some(info));
        debug!(peer = ?peer.address, negotiated = ?peer.negotiated, "connected");
        let config = fitted(self.config, info);
        let requester =
            Requester::new(config, peer.negotiated, info.max_region).with_local_fence(info.local_fence);
        self.callee = Callee::new(&self.backward, config, peer.negotiated, peer.address);
        self.peer = peer;
        self.connections = self.connections.saturating_add(1);
        self.connection = Some(connection);
        self.session.handle_connected(now, requester);
    }

    /// Does all that can be done without waiting. Returns false if the driver has to do something before the peer is heard
    /// of again.
    fn advance(&mut self, now: Time) -> bool {
        let mut flushed = true;
        loop {
            if let (Some(callee), Some(connection)) = (&mut self.callee, &mut self.connection) {
                callee.work(connection);
            }
            while let Some(action) = self.session.poll_action() {
                trace!(?action, "action");
                if let Some(connection) = &mut self.connection {
                    connection.submit(action);
                }
            }
            while let Some(event) = self.session.poll_event() {
                self.handle_event(event);
            }
            if self.session.has_work() {
                continue;
            }
            let Some(connection) = &mut self.connection else { break };
            if let Some(completion) = connection.try_completion() {
                self.handle_completion(now, completion);
                continue;
            }
            flushed = connection.try_flush();
            match connection.try_completion() {
                Some(completion) => self.handle_completion(now, completion),
                None => break,
            }
        }
        if self.session.line().map_or(0, Requester::queued) != self.counted.queued {
            self.count(now);
        }
        let in_time = match (self.session.poll_timeout(), self.alarm) {
            (Some(at), Some(alarm)) => alarm <= at,
            (at, _) => at.is_none(),
        };
        flushed && in_time && self.connecting.is_none() && !self.ended
    }

    fn handle_completion(&mut self, now: Time, completion: Completion) {
        trace!(?completion, "completion");
        let completion = match &mut self.callee {
            Some(callee) => callee.take(completion),
            None => Some(completion),
        };
        if let Some(completion) = completion {
            self.session.handle_completion(now, completion);
        }
    }

    fn handle_event(&mut self, event: Event) {
        match event {
            Event::Done { call, outcome } => {
                if let Some(waiter) = self.waiters.get_mut(call.xid()).filter(|waiter| waiter.call == call)
                    && let Waiting::Asked(waker) = mem::replace(&mut waiter.state, Waiting::Ended(outcome))
                {
                    self.woken.push(waker);
                }
            }
            Event::Connect => match &mut self.connect {
                Some(connect) => self.connecting = Some(connect()),
                None => {
                    let why = "the connection was supplied by the caller; cannot reconnect";
                    self.session.handle_connect_failed(Time::default(), why.to_owned());
                }
            },
            Event::Disconnected(reason) => {
                debug!(%reason, "connection closed");
                self.connection = None;
                self.callee = None;
            }
            Event::Ended(reason) => {
                debug!(%reason, "session ended");
                self.ended = true;
            }
        }
    }

    /// Publishes what has happened since the last time.
    fn count(&mut self, now: Time) {
        let before = self.counted;
        if before.queued > 0 {
            self.stats.waited(before.queued, now.since(before.at));
        }
        self.stats.session(self.session.counts());
        let Some(line) = self.session.line() else {
            self.counted = Counted { at: now, ..Counted::default() };
            return;
        };
        self.stats.granted(line.credits().granted());
        let (credit_waits, discarded) = (line.credit_waits(), line.discarded());
        // Another connection counts from 0 on.
        let beyond = |count: u64, before: u64| count.checked_sub(before).unwrap_or(count);
        self.stats.connection(beyond(credit_waits, before.credit_waits), beyond(discarded, before.discarded));
        self.counted = Counted { at: now, queued: line.queued(), credit_waits, discarded };
    }

    /// Waits for the connection, for handlers of the server's calls, and for a connection that is being made. Returns true
    /// if something happened.
    fn poll_io(&mut self, cx: &mut Context<'_>, now: Time) -> bool {
        if let Some(connection) = &mut self.connection
            && let Poll::Ready(completion) = connection.poll_completion(cx)
        {
            self.handle_completion(now, completion);
            return true;
        }
        if let Some(callee) = &mut self.callee
            && pin!(callee.answer()).poll(cx).is_ready()
        {
            return true;
        }
        if let Some(connecting) = &mut self.connecting
            && let Poll::Ready(made) = connecting.as_mut().poll(cx)
        {
            self.connecting = None;
            match made {
                Ok(connection) => self.connected(connection, now),
                Err(error) => {
                    debug!(%error, "cannot connect");
                    self.session.handle_connect_failed(now, error.to_string());
                }
            }
            return true;
        }
        false
    }
}

/// The task of a client: it ends with the session.
pub(super) struct Driver<C> {
    shared: Arc<Shared<C>>,
    alarm: Pin<Box<Sleep>>,
    /// Room for the callers that one poll wakes.
    woken: Vec<Waker>,
}

impl<C: Connection + 'static> Driver<C> {
    /// Drives the session until it waits for something. Returns true once it has ended.
    fn drive(&mut self, state: &mut State<C>, cx: &mut Context<'_>) -> bool {
        for _ in 0..TURN {
            let now = self.shared.now();
            state.advance(now);
            if state.ended {
                state.count(now);
                return true;
            }
            if state.poll_io(cx, now) {
                continue;
            }
            if !self.poll_alarm(state, cx) {
                state.count(now);
                return false;
            }
            state.session.handle_timeout(self.shared.now());
        }
        cx.waker().wake_by_ref();
        false
    }

    /// Arms the timer for the session's next deadline. Returns true once that has come. A timer that fires too early does
    /// no harm and costs less than one that is reset for every call.
    fn poll_alarm(&mut self, state: &mut State<C>, cx: &mut Context<'_>) -> bool {
        state.alarm = None;
        let Some(at) = state.session.poll_timeout() else { return false };
        let Some(deadline) = self.shared.began.checked_add(at.0) else { return false };
        if deadline < self.alarm.deadline() || self.alarm.is_elapsed() {
            self.alarm.as_mut().reset(deadline);
        }
        if self.alarm.as_mut().poll(cx).is_ready() {
            return true;
        }
        state.alarm = Some(Time(self.alarm.deadline().saturating_duration_since(self.shared.began)));
        false
    }
}

impl<C: Connection + 'static> Future for Driver<C> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let driver = self.get_mut();
        let shared = driver.shared.clone();
        let mut state = shared.lock();
        let ended = driver.drive(&mut state, cx);
        if !state.driver.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            state.driver = Some(cx.waker().clone());
        }
        let connections = state.connections;
        mem::swap(&mut state.woken, &mut driver.woken);
        drop(state);
        driver.woken.drain(..).for_each(Waker::wake);
        shared.progress.send_if_modified(|progress| {
            let changed = progress.connections != connections || progress.ended != ended;
            *progress = Progress { connections, ended };
            changed
        });
        if ended { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl<C> Drop for Driver<C> {
    /// The runtime has dropped the task, or the session has ended: callers that still wait fail.
    fn drop(&mut self) {
        let mut state = self.shared.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.ended = true;
        state.connection = None;
        let mut woken = Vec::new();
        for (xid, waiter) in mem::take(&mut state.waiters).drain() {
            match waiter.state {
                Waiting::Asked(waker) => woken.push(waker),
                Waiting::Ended(_) => drop(state.waiters.insert(xid, waiter)),
                Waiting::New => {}
            }
        }
        drop(state);
        self.shared.progress.send_modify(|progress| progress.ended = true);
        woken.into_iter().for_each(Waker::wake);
    }
}
