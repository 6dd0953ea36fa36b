//! Calls that outlive their connection (RFC 8166 section 4.5.5, RFC 5531 section 5).
//!
//! A [`SessionRequester`] is one connection, over any transport. A session spans several connections and
//! keeps every call until the call completes. The session requests connections, submits unanswered calls to
//! each new connection, times out calls and closes idle connections. It does no I/O and has no clock. Its
//! owner establishes the connections. The owner passes in the time with every event, and calls
//! [`Session::handle_timeout`] at the time that [`Session::poll_timeout`] returned.
//!
//! A call is retransmitted only on a new connection, with the same XID and the same bytes. A new RDMA
//! connection starts with one credit and its own thresholds, so the chunks of each call are planned again.
//! The new connection is requested only after the old connection has released all advertised memory. Memory
//! of a call is therefore never accessible from two connections.

mod policy;
mod requester;

use alloc::collections::VecDeque;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

pub use policy::{Backoff, Policy, Reconnect};
pub use requester::{CreditCounts, SessionRequester};

use self::policy::Attempts;
use crate::proto::call::{CallId, IncomingReply, RequesterEvent, TransportError, Unsendable};
use crate::proto::program::ReplyBounds;
use crate::proto::table::Table;
use crate::proto::time::Time;
use crate::proto::work::CloseReason;
use crate::xdr::{ItemMemory, Message};

/// A call to be made.
#[derive(Clone, Debug)]
pub struct SessionCall {
    /// The RPC message. Its first word is the XID, for which [`Session::is_outstanding`] must return false.
    pub message: Message,
    /// The bounds of the reply: its maximum sizes, and its maximum number of eligible items.
    pub bounds: ReplyBounds,
    /// The timeout, or `None` for the timeout of the policy.
    pub timeout: Option<Duration>,
    /// Whether to retransmit the call on a new connection, or `None` for the policy's setting. If false, a
    /// sent call ends with its connection ([`TransportError::Closed`]).
    pub retransmit: Option<bool>,
    /// The caller's memory for the first eligible item of the result. A connection that transfers the item by
    /// RDMA uses this memory as the sink, if [`ItemMemory::acquire`] returns it.
    pub memory: Option<Arc<dyn ItemMemory>>,
}

/// An event of a session.
#[derive(Debug)]
pub enum SessionEvent {
    /// A connection is needed: the owner must try to connect, and then call [`Session::handle_connected`] or
    /// [`Session::handle_connect_failed`].
    Connect,
    /// A call completed. After a call without a reply, the connection may still hold memory that the call
    /// advertised.
    Done {
        /// The completed call.
        call: CallId,
        /// The outcome of the call.
        outcome: Result<IncomingReply, TransportError>,
    },
    /// The connection is closed and all its work is complete.
    Disconnected(CloseReason),
    /// The session ended. All calls have already completed.
    Ended(CloseReason),
}

/// Counters of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Connections established.
    pub connections: u64,
    /// Failed connection attempts.
    pub failed_attempts: u64,
    /// Retransmissions of calls on a new connection.
    pub retransmissions: u64,
    /// Calls that timed out.
    pub timeouts: u64,
}

/// An unanswered call, or an abandoned or timed-out call whose resources the connection may still hold.
#[derive(Debug)]
struct CallEntry {
    id: CallId,
    /// `None` once the call is abandoned or timed out.
    call: Option<SessionCall>,
    timeout: Duration,
    /// Whether the call is in progress on the current connection.
    on_connection: bool,
    /// The number of closed connections on which the call was sent.
    sends: u32,
    /// The reason why the last of these connections closed.
    lost: Option<CloseReason>,
}

impl CallEntry {
    /// Replaces an error that implies that the call was never sent. If the call was sent on an earlier
    /// connection, it may have been executed, so the error becomes [`TransportError::Closed`].
    fn with_history(&self, why: TransportError) -> TransportError {
        match (&self.lost, why) {
            (
                Some(lost),
                TransportError::Unsendable(_)
                | TransportError::Registration
                | TransportError::UnboundedReply
                | TransportError::ReplyTooLong { .. }
                | TransportError::Unsent(_),
            ) => TransportError::Closed(lost.clone()),
            (_, why) => why,
        }
    }
}

#[derive(Debug)]
enum State<R> {
    /// No connection exists or is needed.
    Idle,
    /// A connection is needed. [`SessionEvent::Connect`] is pending.
    Requested,
    Connecting,
    /// A connection is needed. [`SessionEvent::Connect`] follows at the time `until`.
    BackingOff {
        until: Time,
    },
    /// Connected. `idle_since` is the time at which the connection became idle, or `None` while a call is
    /// unanswered. `answered` is true if the peer answered a call on this connection. `lost` is true if the
    /// connection ended, or is closing, without a reply to some calls.
    Up {
        requester: R,
        idle_since: Option<Time>,
        answered: bool,
        lost: bool,
    },
    Ended,
}

/// The calls of one client to one server, over successive connections.
#[derive(Debug)]
pub struct Session<R> {
    policy: Policy,
    state: State<R>,
    attempts: Attempts,
    now: Time,
    submitted: u32,
    calls: Table<CallEntry>,
    /// The number of abandoned or timed-out calls in the table.
    abandoned: usize,
    /// The deadlines of calls, earliest first. The first deadline belongs to a call in the table; later
    /// deadlines may belong to removed calls.
    deadlines: VecDeque<(Time, CallId)>,
    /// The value of `abandoned` that triggers a sweep. A sweep removes abandoned and timed-out calls without
    /// resources on the connection.
    sweep_at: usize,
    /// The start of the interval that [`Policy::max_silence`] limits: the time of the latest
    /// received message, new connection, or first call after an idle period.
    last_received: Time,
    /// The reason why the session accepts no more calls.
    closing: Option<CloseReason>,
    events: VecDeque<SessionEvent>,
    counts: Counts,
}

const MIN_SWEEP: usize = 64;

impl<R: SessionRequester> Session<R> {
    /// Creates a session without a connection. The first call requests a connection, unless the owner
    /// supplies a connection earlier. The seed determines the random part of the backoff.
    #[must_use]
    pub fn new(policy: Policy, seed: u64) -> Self {
        Session {
            policy,
            state: State::Idle,
            attempts: Attempts::new(seed),
            now: Time::default(),
            submitted: 0,
            calls: Table::default(),
            abandoned: 0,
            deadlines: VecDeque::new(),
            sweep_at: MIN_SWEEP,
            last_received: Time::default(),
            closing: None,
            events: VecDeque::new(),
            counts: Counts::default(),
        }
    }

    /// Returns the counters.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Returns the number of unanswered calls.
    #[must_use]
    pub fn unanswered(&self) -> usize {
        self.calls.len().saturating_sub(self.abandoned)
    }

    /// Returns the connection, if any.
    #[must_use]
    pub fn requester(&self) -> Option<&R> {
        match &self.state {
            State::Up { requester, .. } => Some(requester),
            _ => None,
        }
    }

    /// Returns the connection, if any, so that the owner can pass input to it. The owner must then call
    /// [`Session::process_events`].
    pub fn requester_mut(&mut self) -> Option<&mut R> {
        match &mut self.state {
            State::Up { requester, .. } => Some(requester),
            _ => None,
        }
    }

    /// Returns the next event, if any.
    pub fn poll_event(&mut self) -> Option<SessionEvent> {
        if self.events.is_empty() && matches!(self.state, State::Requested) {
            self.state = State::Connecting;
            return Some(SessionEvent::Connect);
        }
        self.events.pop_front()
    }

    /// Returns true if an event or an action is pending.
    #[must_use]
    pub fn has_work(&self) -> bool {
        !self.events.is_empty()
            || matches!(self.state, State::Requested)
            || self.requester().is_some_and(R::has_work)
    }

    /// Returns when to call [`Session::handle_timeout`] if no event occurs earlier, or `None` if no timeout
    /// is pending.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        let deadline = self.deadlines.front().map(|(at, _)| *at);
        let state = match &self.state {
            State::BackingOff { until } => Some(*until),
            State::Up { requester, idle_since: Some(since), .. } if !requester.is_closing() => {
                self.policy.idle_limit().and_then(|idle| since.after(idle))
            }
            _ => None,
        };
        deadline.into_iter().chain(state).chain(self.silence_deadline()).min()
    }

    /// Submits a call on the current or the next connection. Calls start in the order of submission. A
    /// rejected call also completes with [`SessionEvent::Done`].
    pub fn submit(&mut self, now: Time, call: SessionCall) -> CallId {
        self.advance_time(now);
        self.submitted = self.submitted.wrapping_add(1);
        let (id, xid) = CallId::new(self.submitted, &call.message);
        let refused = match (&self.closing, xid) {
            (Some(reason), _) => Some(TransportError::Unsent(reason.clone())),
            (None, None) => Some(TransportError::Unsendable(Unsendable::NoXid)),
            (None, Some(xid)) if self.calls.contains(xid) => {
                Some(TransportError::Unsendable(Unsendable::RepeatedXid))
            }
            (None, Some(_)) => None,
        };
        if let Some(why) = refused {
            self.events.push_back(SessionEvent::Done { call: id, outcome: Err(why) });
            return id;
        }
        if self.unanswered() == 0 && self.silence_deadline().is_none() {
            self.last_received = self.now;
        }
        let timeout = call.timeout.unwrap_or(self.policy.timeout);
        let deadline = self.now.after(timeout);
        let entry = CallEntry { id, call: Some(call), timeout, on_connection: false, sends: 0, lost: None };
        // Cannot fail: no call has this XID.
        let _ = self.calls.insert(id.xid(), entry);
        if let Some(at) = deadline {
            let index = self.deadlines.partition_point(|(other, _)| *other <= at);
            self.deadlines.insert(index, (at, id));
        }
        match &mut self.state {
            State::Up { idle_since, .. } => {
                *idle_since = None;
                self.start(id);
                self.process_events(now);
            }
            State::Idle => self.request_connection(),
            State::Requested | State::Connecting | State::BackingOff { .. } | State::Ended => {}
        }
        id
    }

    /// Returns true if a call with this XID is unanswered, or if the connection may still hold resources of
    /// an abandoned or timed-out call with this XID.
    #[must_use]
    pub fn is_outstanding(&self, xid: u32) -> bool {
        self.calls.contains(xid)
    }

    /// Abandons the call: no event follows. The connection may keep the call's memory until the reply arrives
    /// or the connection ends.
    pub fn cancel(&mut self, now: Time, call: CallId) {
        self.advance_time(now);
        let done =
            |event: &SessionEvent| matches!(event, SessionEvent::Done { call: done, .. } if *done == call);
        self.events.retain(|event| !done(event));
        if self.entry(call).is_some_and(|entry| entry.call.is_some()) {
            self.abandon(call);
            self.update_state();
        }
    }

    /// Rejects new calls. Unanswered calls continue, on new connections if necessary. After the last call,
    /// the connection closes and the session ends.
    pub fn close_when_idle(&mut self, now: Time) {
        self.advance_time(now);
        if self.closing.is_none() {
            self.closing = Some(CloseReason::Local);
            self.update_state();
        }
    }

    /// Fails every call ([`TransportError::Closed`] or [`TransportError::Unsent`]), closes the connection,
    /// and ends the session.
    pub fn close(&mut self, now: Time, reason: &CloseReason) {
        self.advance_time(now);
        self.closing = Some(reason.clone());
        self.fail_all(reason);
        self.update_state();
    }

    /// Starts using a new connection. All unanswered calls are submitted to this connection, in their
    /// original order. Has no effect if another connection exists or the session has ended.
    pub fn handle_connected(&mut self, now: Time, requester: R) {
        self.advance_time(now);
        if matches!(self.state, State::Up { .. } | State::Ended) {
            return;
        }
        self.counts.connections = self.counts.connections.saturating_add(1);
        self.last_received = self.now;
        self.state = State::Up { requester, idle_since: None, answered: false, lost: false };
        for id in self.unanswered_ids() {
            self.start(id);
        }
        self.process_events(now);
    }

    /// Handles a failed connection attempt. After [`Reconnect::attempts`] consecutive failures, fails all
    /// unanswered calls. Schedules the next attempt if the session still needs a connection. Ends a session
    /// that does not reconnect.
    pub fn handle_connect_failed(&mut self, now: Time, why: String) {
        self.advance_time(now);
        if !matches!(self.state, State::Connecting) {
            return;
        }
        self.state = State::Idle;
        self.counts.failed_attempts = self.counts.failed_attempts.saturating_add(1);
        match self.policy.reconnect {
            Some(reconnect) => self.attempt_failed(&reconnect, why),
            None => {
                self.closing.get_or_insert(CloseReason::Io(why.clone()));
                self.fail_unreachable(&why);
                self.attempts.error = Some(why);
            }
        }
        self.update_state();
    }

    /// Handles all timeouts that are due. Call this method at the time that [`Session::poll_timeout`]
    /// returned.
    pub fn handle_timeout(&mut self, now: Time) {
        self.advance_time(now);
        while let Some((_, id)) = self.deadlines.pop_front_if(|(at, _)| *at <= self.now) {
            self.expire(id);
            self.trim_deadlines();
        }
        if self.silence_deadline().is_some_and(|at| at <= self.now)
            && let State::Up { requester, lost, .. } = &mut self.state
        {
            *lost = true;
            requester.close(CloseReason::Timeout("the peer is silent and calls are outstanding".to_string()));
        }
        match &mut self.state {
            State::BackingOff { until } if *until <= self.now => self.state = State::Idle,
            State::Up { requester, idle_since: Some(since), .. } => {
                let end = self.policy.idle_limit().and_then(|idle| since.after(idle));
                if end.is_some_and(|end| end <= self.now) {
                    requester.close(CloseReason::Local);
                }
            }
            _ => {}
        }
        self.process_events(now);
    }

    /// Handles the connection's events. Must be called after each input to the connection.
    pub fn process_events(&mut self, now: Time) {
        self.advance_time(now);
        if self.requester_mut().is_some_and(R::take_received) {
            self.last_received = self.now;
        }
        while let State::Up { requester, answered, lost, .. } = &mut self.state {
            let Some(event) = requester.poll_event() else { break };
            match event {
                RequesterEvent::Done { call, outcome } => {
                    if is_answer(&outcome) {
                        self.last_received = self.now;
                        *answered = true;
                        self.attempts.succeeded();
                    }
                    *lost |= matches!(outcome, Err(TransportError::Closed(_) | TransportError::Unsent(_)));
                    self.call_done(call, outcome);
                }
                RequesterEvent::Closed(reason) => self.connection_closed(reason),
            }
        }
        self.update_state();
    }

    /// Updates the time, which never goes backwards.
    fn advance_time(&mut self, now: Time) {
        self.now = self.now.max(now);
    }

    fn entry(&self, id: CallId) -> Option<&CallEntry> {
        self.calls.get(id.xid()).filter(|entry| entry.id == id)
    }

    fn entry_mut(&mut self, id: CallId) -> Option<&mut CallEntry> {
        self.calls.get_mut(id.xid()).filter(|entry| entry.id == id)
    }

    /// Returns the unanswered calls in the order of submission.
    fn unanswered_ids(&self) -> Vec<CallId> {
        self.calls_where(|entry| entry.call.is_some())
    }

    fn calls_where(&self, chosen: impl Fn(&CallEntry) -> bool) -> Vec<CallId> {
        let chosen = self.calls.iter().filter(|(_, entry)| chosen(entry));
        let mut ids: Vec<CallId> = chosen.map(|(_, entry)| entry.id).collect();
        ids.sort_unstable();
        ids
    }

    fn start(&mut self, id: CallId) {
        let State::Up { requester, .. } = &mut self.state else { return };
        let Some(entry) = self.calls.get_mut(id.xid()).filter(|entry| entry.id == id) else { return };
        let Some(call) = entry.call.as_ref().filter(|_| !requester.is_closing()) else { return };
        match requester.submit(id, call) {
            Ok(()) => {
                entry.on_connection = true;
                let again = u64::from(entry.sends > 0);
                self.counts.retransmissions = self.counts.retransmissions.saturating_add(again);
            }
            Err(why) => {
                let why = entry.with_history(why);
                self.complete(id, Err(why));
            }
        }
    }

    /// Completes a call with its outcome on the connection, unless the call continues on the next connection.
    fn call_done(&mut self, id: CallId, outcome: Result<IncomingReply, TransportError>) {
        let reconnect = self.policy.reconnect;
        let Some(entry) = self.entry_mut(id) else { return };
        entry.on_connection = false;
        let sent = match &outcome {
            Err(TransportError::Closed(reason)) => {
                entry.lost = Some(reason.clone());
                true
            }
            Err(TransportError::Unsent(_)) => false,
            _ => {
                let outcome = outcome.map_err(|why| entry.with_history(why));
                return self.complete(id, outcome);
            }
        };
        let Some(reconnect) = reconnect else { return self.complete(id, outcome) };
        entry.sends = entry.sends.saturating_add(u32::from(sent));
        let retransmit = entry.call.as_ref().and_then(|call| call.retransmit).unwrap_or(reconnect.retransmit);
        let again = retransmit && entry.sends < reconnect.sends;
        if sent && !again {
            self.complete(id, outcome);
        }
    }

    fn connection_closed(&mut self, reason: CloseReason) {
        let state = core::mem::replace(&mut self.state, State::Idle);
        // The old connection no longer holds resources of any call.
        for id in self.calls_where(|entry| entry.call.is_none()) {
            self.remove_call(id);
        }
        self.events.push_back(SessionEvent::Disconnected(reason.clone()));
        match self.policy.reconnect {
            Some(reconnect) => {
                // If no call was lost and none is unanswered, the end of the connection is a failure only if
                // [`Policy::keep`] is set.
                let needed = self.policy.keep || self.unanswered() > 0;
                let failed = match state {
                    State::Up { answered, lost, .. } => !answered && (lost || needed),
                    _ => false,
                };
                if failed && !matches!(reason, CloseReason::Local) {
                    self.attempt_failed(&reconnect, reason.to_string());
                }
            }
            None => {
                self.fail_all(&reason);
                self.closing.get_or_insert(reason);
            }
        }
    }

    /// Counts a failed attempt. After [`Reconnect::attempts`] consecutive failures, fails all unanswered
    /// calls.
    fn attempt_failed(&mut self, reconnect: &Reconnect, why: String) {
        self.attempts.failed(self.now, &reconnect.backoff);
        if reconnect.attempts.is_some_and(|max_attempts| self.attempts.unreported >= max_attempts) {
            self.fail_unreachable(&why);
        }
        self.attempts.error = Some(why);
    }

    fn fail_unreachable(&mut self, why: &str) {
        self.attempts.unreported = 0;
        for id in self.unanswered_ids() {
            self.complete(id, Err(TransportError::Unreachable(why.to_string())));
        }
    }

    /// Times out a call. The call stays in the table as long as the connection holds resources of the call.
    fn expire(&mut self, id: CallId) {
        let Some(entry) = self.calls.get_mut(id.xid()).filter(|entry| entry.id == id) else { return };
        if entry.call.take().is_some() {
            self.abandoned = self.abandoned.saturating_add(1);
            self.counts.timeouts = self.counts.timeouts.saturating_add(1);
            let outcome = Err(match (&self.attempts.error, entry.on_connection) {
                (Some(why), false) => TransportError::Unreachable(why.clone()),
                _ => TransportError::Timeout(entry.timeout),
            });
            self.events.push_back(SessionEvent::Done { call: id, outcome });
        }
        let holds_resources = match &mut self.state {
            State::Up { requester, lost, .. } if entry.on_connection => {
                requester.expire(id);
                *lost |= requester.is_closing();
                requester.holds_resources(id)
            }
            _ => false,
        };
        if !holds_resources {
            self.remove_call(id);
        }
    }

    /// Returns when to close the connection if the peer stays silent. Returns `None` unless the connection
    /// holds resources of a timed-out call.
    fn silence_deadline(&self) -> Option<Time> {
        let overdue =
            self.requester().is_some_and(|requester| requester.is_overdue() && !requester.is_closing());
        if overdue { self.last_received.after(self.policy.max_silence) } else { None }
    }

    /// Abandons a call. The call stays in the table as long as the connection holds resources of the call.
    fn abandon(&mut self, id: CallId) {
        let Some(entry) = self.calls.get_mut(id.xid()).filter(|entry| entry.id == id) else { return };
        let holds_resources = match &mut self.state {
            State::Up { requester, .. } if entry.on_connection => {
                requester.cancel(id);
                requester.holds_resources(id)
            }
            _ => false,
        };
        if !holds_resources {
            self.remove_call(id);
            return;
        }
        entry.call = None;
        self.abandoned = self.abandoned.saturating_add(1);
        if self.abandoned >= self.sweep_at {
            let holds_resources =
                |id| self.requester().is_some_and(|requester| requester.holds_resources(id));
            for id in self.calls_where(|entry| entry.call.is_none() && !holds_resources(entry.id)) {
                self.remove_call(id);
            }
            self.sweep_at = self.abandoned.saturating_mul(2).max(MIN_SWEEP);
        }
    }

    fn remove_call(&mut self, id: CallId) -> Option<CallEntry> {
        self.entry(id)?;
        let entry = self.calls.remove(id.xid())?;
        self.abandoned = self.abandoned.saturating_sub(usize::from(entry.call.is_none()));
        self.trim_deadlines();
        Some(entry)
    }

    /// Drops deadlines until the first deadline belongs to a call in the table. If there are more than
    /// [`MIN_SWEEP`] deadlines, and more than two per call, drops all deadlines of removed calls.
    fn trim_deadlines(&mut self) {
        let Session { deadlines, calls, .. } = self;
        let is_known = |id: &CallId| calls.get(id.xid()).is_some_and(|entry| entry.id == *id);
        while deadlines.pop_front_if(|(_, id)| !is_known(id)).is_some() {}
        if deadlines.len() > calls.len().saturating_mul(2).max(MIN_SWEEP) {
            deadlines.retain(|(_, id)| is_known(id));
        }
    }

    fn complete(&mut self, id: CallId, outcome: Result<IncomingReply, TransportError>) {
        if self.remove_call(id).is_some() {
            self.events.push_back(SessionEvent::Done { call: id, outcome });
        }
    }

    fn fail_all(&mut self, reason: &CloseReason) {
        for id in self.unanswered_ids() {
            let Some(entry) = self.entry(id) else { continue };
            let sent = entry.sends > 0 || entry.on_connection;
            let why = if sent { TransportError::Closed } else { TransportError::Unsent };
            self.abandon(id);
            self.events.push_back(SessionEvent::Done { call: id, outcome: Err(why(reason.clone())) });
        }
    }

    fn update_state(&mut self) {
        let idle = self.unanswered() == 0;
        let keep_connected = self.policy.keep && self.counts.connections > 0;
        match (&mut self.state, &self.closing) {
            (State::Up { requester, .. }, Some(reason)) if idle => requester.close(reason.clone()),
            (State::Up { requester, idle_since, .. }, _) if idle && !requester.is_closing() => {
                idle_since.get_or_insert(self.now);
            }
            (State::Idle | State::Requested | State::BackingOff { .. } | State::Connecting, Some(reason))
                if idle =>
            {
                let reason = reason.clone();
                self.events.push_back(SessionEvent::Ended(reason));
                self.state = State::Ended;
            }
            (State::Requested | State::BackingOff { .. }, None) if idle && !keep_connected => {
                self.state = State::Idle
            }
            (State::Idle, _) if !idle || keep_connected => self.request_connection(),
            _ => {}
        }
    }

    fn request_connection(&mut self) {
        let until = self.attempts.not_before;
        if until > self.now {
            self.state = State::BackingOff { until };
        } else {
            self.state = State::Requested;
        }
    }
}

/// Returns true if the server responded, which shows that the connection works.
fn is_answer(outcome: &Result<IncomingReply, TransportError>) -> bool {
    match outcome {
        Ok(_) | Err(TransportError::Version { .. } | TransportError::Chunk | TransportError::BadReply(_)) => {
            true
        }
        Err(_) => false,
    }
}
