//! Calls that outlive their connection (RFC 8166 section 4.5.5, RFC 5531 section 4).
//!
//! A [`Requester`] is one connection. A session stands above it and keeps every call until it has ended: it says when a
//! connection is wanted, gives the new one the calls that have no reply, ends those whose time is up, and closes what
//! nobody needs. It has no I/O and no clock: its owner makes connections, and tells it the time with everything
//! that happens and when [`Session::poll_timeout`] has come.
//!
//! What is sent again is sent on a new connection, never on the one that has carried it, with the XID and the bytes of
//! the first time. The new connection begins with one credit and with thresholds of its own, by which each call is planned
//! anew. It is asked for once the old one is gone with all memory that it had advertised: what a call offers again is
//! never within reach of two connections.

mod line;
mod policy;

use alloc::collections::VecDeque;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::time::Duration;

pub use line::{Line, LineCounts};
pub use policy::{Backoff, Policy, Reconnect};

use self::policy::Attempts;
use super::{CallId, Event as LineEvent, FailReason, Reply, Requester};
use crate::proto::program::ReplyBounds;
use crate::proto::table::Table;
use crate::proto::time::Time;
use crate::proto::work::{Action, CloseReason, Completion};
use crate::xdr::Message;

/// A call to be made.
#[derive(Clone, Debug)]
pub struct Call {
    /// The RPC message. Its first word is the XID, which no other unanswered call has.
    pub message: Message,
    /// How large the reply can be.
    pub bounds: ReplyBounds,
    /// How long it may take, if not as long as the policy says.
    pub timeout: Option<Duration>,
    /// Whether it is sent again on a new connection, if not as the policy says. One that is not, and that was sent, ends
    /// with its connection ([`FailReason::Closed`]).
    pub retransmit: Option<bool>,
}

/// What a session says.
#[derive(Debug)]
pub enum Event {
    /// A connection is wanted: [`Session::handle_connected`] or [`Session::handle_connect_failed`] is to follow.
    Connect,
    /// A call has ended. If it ended without a reply, memory that it advertised may still be with the connection.
    Done {
        /// Which.
        call: CallId,
        /// How.
        outcome: Result<Reply, FailReason>,
    },
    /// The connection is gone and has nothing to do any more.
    Disconnected(CloseReason),
    /// The session is over, for this reason. Every call has ended before.
    Ended(CloseReason),
}

/// What a session has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Connections that it was given.
    pub connections: u64,
    /// Attempts to connect that failed.
    pub failed_attempts: u64,
    /// Calls that were given to a connection after another one had sent them.
    pub retransmissions: u64,
    /// Calls whose time was up.
    pub timeouts: u64,
}

/// A call that has not ended, or of which the connection still has something.
#[derive(Debug)]
struct Held {
    id: CallId,
    /// Nothing, once nobody waits for it any more.
    call: Option<Call>,
    timeout: Duration,
    /// Whether the connection has it.
    on_line: bool,
    /// How many connections have ended that had sent it.
    sends: u32,
    /// How the last of them ended.
    lost: Option<CloseReason>,
}

impl Held {
    /// Why it has no reply. What cannot be sent now may have been executed, if it was sent before.
    fn known(&self, why: FailReason) -> FailReason {
        match (&self.lost, why) {
            (
                Some(lost),
                FailReason::Unsendable(_)
                | FailReason::Registration
                | FailReason::UnboundedReply
                | FailReason::Unsent(_),
            ) => FailReason::Closed(lost.clone()),
            (_, why) => why,
        }
    }
}

#[derive(Debug)]
enum State<L> {
    /// There is no connection, and none is wanted.
    Idle,
    /// One is wanted, and nobody has heard of it yet.
    Wanted,
    /// One is being made.
    Connecting,
    /// One is wanted, and not before this moment.
    Waiting { until: Time },
    /// There is one; without calls since then, whether it has answered anything, and whether it owed something in the end.
    Up { line: L, idle_since: Option<Time>, answered: bool, owed: bool },
    /// The session is over.
    Ended,
}

/// The calls of one client to one server, over one connection after the other.
#[derive(Debug)]
pub struct Session<L = Requester> {
    policy: Policy,
    state: State<L>,
    attempts: Attempts,
    now: Time,
    submitted: u32,
    calls: Table<Held>,
    /// How many of them nobody waits for any more.
    abandoned: usize,
    /// When the time of each call is up, the earliest first. The first is of a call that is in the table; others may be of
    /// calls that have ended.
    deadlines: VecDeque<(Time, CallId)>,
    /// Abandoned calls are looked through when there are so many.
    sweep_at: usize,
    /// When the peer was last heard of, or began to owe a reply.
    heard: Time,
    /// Why no more calls are taken.
    closing: Option<CloseReason>,
    events: VecDeque<Event>,
    counts: Counts,
}

/// As many abandoned calls are kept before anybody looks which of them have ended.
const SWEEP_AT_LEAST: usize = 64;
/// A connection with calls whose time is up is closed once nothing has come from the peer for this long.
const MAX_SILENCE: Duration = Duration::from_secs(30);

impl<L: Line> Session<L> {
    /// A session without a connection: the first call asks for one, or the owner gives it one at once. The seed decides
    /// what is left to chance in its waits.
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
            sweep_at: SWEEP_AT_LEAST,
            heard: Time::default(),
            closing: None,
            events: VecDeque::new(),
            counts: Counts::default(),
        }
    }

    /// What it has done so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Calls that have not ended.
    #[must_use]
    pub fn unanswered(&self) -> usize {
        self.calls.len().saturating_sub(self.abandoned)
    }

    /// The connection, if there is one.
    #[must_use]
    pub fn line(&self) -> Option<&L> {
        match &self.state {
            State::Up { line, .. } => Some(line),
            _ => None,
        }
    }

    /// The same, to give it what its provider says; [`Session::settle`] is to follow.
    pub fn line_mut(&mut self) -> Option<&mut L> {
        match &mut self.state {
            State::Up { line, .. } => Some(line),
            _ => None,
        }
    }

    /// The next thing to know.
    pub fn poll_event(&mut self) -> Option<Event> {
        if self.events.is_empty() && matches!(self.state, State::Wanted) {
            self.state = State::Connecting;
            return Some(Event::Connect);
        }
        self.events.pop_front()
    }

    /// Whether there is something to poll.
    #[must_use]
    pub fn has_work(&self) -> bool {
        !self.events.is_empty()
            || matches!(self.state, State::Wanted)
            || self.line().is_some_and(Line::has_work)
    }

    /// When [`Session::handle_timeout`] is to be called, if nothing happens before.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        let deadline = self.deadlines.front().map(|(at, _)| *at);
        let state = match &self.state {
            State::Waiting { until } => Some(*until),
            State::Up { line, idle_since: Some(since), .. } if !line.is_closing() => {
                self.policy.idle_limit().and_then(|idle| since.after(idle))
            }
            _ => None,
        };
        deadline.into_iter().chain(state).chain(self.silent_at()).min()
    }

    /// Makes a call, on this connection or on the next one. Calls start in the order in which they are submitted.
    pub fn submit(&mut self, now: Time, call: Call) -> CallId {
        self.pass(now);
        self.submitted = self.submitted.wrapping_add(1);
        let (id, xid) = CallId::new(self.submitted, &call.message);
        let refused = match (&self.closing, xid) {
            (Some(reason), _) => Some(FailReason::Unsent(reason.clone())),
            (None, None) => Some(FailReason::Unsendable("it has no XID")),
            (None, Some(xid)) if self.calls.contains(xid) => {
                Some(FailReason::Unsendable("another call has its XID"))
            }
            (None, Some(_)) => None,
        };
        if let Some(why) = refused {
            self.events.push_back(Event::Done { call: id, outcome: Err(why) });
            return id;
        }
        if self.unanswered() == 0 && self.silent_at().is_none() {
            self.heard = self.now;
        }
        let timeout = call.timeout.unwrap_or(self.policy.timeout);
        let deadline = self.now.after(timeout);
        let held = Held { id, call: Some(call), timeout, on_line: false, sends: 0, lost: None };
        // No call has this XID.
        let _ = self.calls.insert(id.xid(), held);
        if let Some(at) = deadline {
            let behind = self.deadlines.partition_point(|(other, _)| *other <= at);
            self.deadlines.insert(behind, (at, id));
        }
        match &mut self.state {
            State::Up { idle_since, .. } => {
                *idle_since = None;
                self.start(id);
                self.settle(now);
            }
            State::Idle => self.want_connection(),
            State::Wanted | State::Connecting | State::Waiting { .. } | State::Ended => {}
        }
        id
    }

    /// Whether a call with this XID has not ended, or could still be answered.
    #[must_use]
    pub fn is_outstanding(&self, xid: u32) -> bool {
        self.calls.contains(xid)
    }

    /// Nobody waits for the call any more: there will be no event for it. Its memory stays with the
    /// connection until its reply comes or its time is up.
    pub fn cancel(&mut self, now: Time, call: CallId) {
        self.pass(now);
        let done = |event: &Event| matches!(event, Event::Done { call: done, .. } if *done == call);
        self.events.retain(|event| !done(event));
        if self.held(call).is_some_and(|held| held.call.is_some()) {
            self.leave(call);
            self.rest();
        }
    }

    /// Takes no more calls. Those that it has go on, on other connections too if need be; then it closes the connection
    /// and is over.
    pub fn close_when_idle(&mut self, now: Time) {
        self.pass(now);
        if self.closing.is_none() {
            self.closing = Some(CloseReason::Local);
            self.rest();
        }
    }

    /// Ends every call ([`FailReason::Closed`], or [`FailReason::Unsent`]), closes the connection, and is over.
    pub fn close(&mut self, now: Time, reason: &CloseReason) {
        self.pass(now);
        self.closing = Some(reason.clone());
        self.fail_all(reason);
        self.rest();
    }

    /// There is a connection. Every call that has no reply is given to it, in the order in which they were submitted.
    /// Without effect while there is another one, and once the session is over.
    pub fn handle_connected(&mut self, now: Time, line: L) {
        self.pass(now);
        if matches!(self.state, State::Up { .. } | State::Ended) {
            return;
        }
        self.counts.connections = self.counts.connections.saturating_add(1);
        self.heard = self.now;
        self.state = State::Up { line, idle_since: None, answered: false, owed: false };
        for id in self.waiting() {
            self.start(id);
        }
        self.settle(now);
    }

    /// No connection could be made, for the reason given.
    pub fn handle_connect_failed(&mut self, now: Time, why: String) {
        self.pass(now);
        if !matches!(self.state, State::Connecting) {
            return;
        }
        self.state = State::Idle;
        self.counts.failed_attempts = self.counts.failed_attempts.saturating_add(1);
        let most = match self.policy.reconnect {
            Some(Reconnect { attempts, backoff, .. }) => {
                self.attempts.failed(self.now, &backoff);
                attempts
            }
            None => {
                self.closing.get_or_insert(CloseReason::Io(why.clone()));
                Some(0)
            }
        };
        if most.is_some_and(|most| self.attempts.untold >= most) {
            self.attempts.untold = 0;
            for id in self.waiting() {
                self.end(id, Err(FailReason::Unreachable(why.clone())));
            }
        }
        self.attempts.why = Some(why);
        self.rest();
    }

    /// The moment of [`Session::poll_timeout`] may have come.
    pub fn handle_timeout(&mut self, now: Time) {
        self.pass(now);
        while let Some((at, id)) = self.deadlines.front().copied()
            && at <= self.now
        {
            self.deadlines.pop_front();
            self.expire(id);
            self.trim();
        }
        if self.silent_at().is_some_and(|at| at <= self.now)
            && let State::Up { line, owed, .. } = &mut self.state
        {
            *owed = true;
            line.close(CloseReason::Timeout("the peer is silent, and calls had no reply".to_string()));
        }
        match &mut self.state {
            State::Waiting { until } if *until <= self.now => self.state = State::Idle,
            State::Up { line, idle_since: Some(since), .. } => {
                let end = self.policy.idle_limit().and_then(|idle| since.after(idle));
                if end.is_some_and(|end| end <= self.now) {
                    line.close(CloseReason::Local);
                }
            }
            _ => {}
        }
        self.settle(now);
    }

    /// Hears what the connection has to say. It is to be called whenever the connection was given something.
    pub fn settle(&mut self, now: Time) {
        self.pass(now);
        while let State::Up { line, answered, owed, .. } = &mut self.state {
            let Some(event) = line.poll_event() else { break };
            match event {
                LineEvent::Done { call, outcome } => {
                    if is_answer(&outcome) {
                        self.heard = self.now;
                        *answered = true;
                        self.attempts.worked();
                    }
                    *owed |= matches!(outcome, Err(FailReason::Closed(_) | FailReason::Unsent(_)));
                    self.line_done(call, outcome);
                }
                LineEvent::Closed(reason) => self.line_closed(reason),
            }
        }
        self.rest();
    }

    /// Time does not go back.
    fn pass(&mut self, now: Time) {
        self.now = self.now.max(now);
    }

    fn held(&self, id: CallId) -> Option<&Held> {
        self.calls.get(id.xid()).filter(|held| held.id == id)
    }

    fn held_mut(&mut self, id: CallId) -> Option<&mut Held> {
        self.calls.get_mut(id.xid()).filter(|held| held.id == id)
    }

    /// Calls that somebody waits for, in the order in which they were submitted.
    fn waiting(&self) -> Vec<CallId> {
        self.calls_where(|held| held.call.is_some())
    }

    fn calls_where(&self, chosen: impl Fn(&Held) -> bool) -> Vec<CallId> {
        let chosen = self.calls.iter().filter(|(_, held)| chosen(held));
        let mut ids: Vec<CallId> = chosen.map(|(_, held)| held.id).collect();
        ids.sort_unstable();
        ids
    }

    /// Gives a call to the connection.
    fn start(&mut self, id: CallId) {
        let State::Up { line, .. } = &mut self.state else { return };
        let Some(held) = self.calls.get_mut(id.xid()).filter(|held| held.id == id) else { return };
        let Some(call) = held.call.as_ref().filter(|_| !line.is_closing()) else { return };
        match line.submit(id, call.message.clone(), &call.bounds) {
            Ok(()) => {
                held.on_line = true;
                let again = u64::from(held.sends > 0);
                self.counts.retransmissions = self.counts.retransmissions.saturating_add(again);
            }
            Err(why) => {
                let why = held.known(why);
                self.end(id, Err(why));
            }
        }
    }

    /// The connection says that a call has ended: with its reply, or because the connection has ended first.
    fn line_done(&mut self, id: CallId, outcome: Result<Reply, FailReason>) {
        let reconnect = self.policy.reconnect;
        let Some(held) = self.held_mut(id) else { return };
        held.on_line = false;
        let sent = match &outcome {
            Err(FailReason::Closed(reason)) => {
                held.lost = Some(reason.clone());
                true
            }
            Err(FailReason::Unsent(_)) => false,
            _ => {
                let outcome = outcome.map_err(|why| held.known(why));
                return self.end(id, outcome);
            }
        };
        let Some(reconnect) = reconnect else { return self.end(id, outcome) };
        held.sends = held.sends.saturating_add(u32::from(sent));
        let retransmit = held.call.as_ref().and_then(|call| call.retransmit).unwrap_or(reconnect.retransmit);
        let again = retransmit && held.sends < reconnect.sends;
        if sent && !again {
            self.end(id, outcome);
        }
    }

    fn line_closed(&mut self, reason: CloseReason) {
        let state = core::mem::replace(&mut self.state, State::Idle);
        // Nothing of a call is with the old connection any more.
        for id in self.calls_where(|held| held.call.is_none()) {
            self.forget(id);
        }
        self.events.push_back(Event::Disconnected(reason.clone()));
        match self.policy.reconnect {
            Some(reconnect) => {
                // One that nobody has asked anything has not failed, unless it is made again though nobody needs it.
                let needed = self.policy.keep || self.unanswered() > 0;
                let failed = match state {
                    State::Up { answered, owed, .. } => !answered && (owed || needed),
                    _ => false,
                };
                if failed && !matches!(reason, CloseReason::Local) {
                    self.attempts.why = Some(reason.to_string());
                    self.attempts.failed(self.now, &reconnect.backoff);
                }
            }
            None => {
                self.fail_all(&reason);
                self.closing.get_or_insert(reason);
            }
        }
    }

    /// The time of a call is up. It stays in the table while the connection has something of it.
    fn expire(&mut self, id: CallId) {
        let Some(held) = self.calls.get_mut(id.xid()).filter(|held| held.id == id) else { return };
        if held.call.take().is_some() {
            self.abandoned = self.abandoned.saturating_add(1);
            self.counts.timeouts = self.counts.timeouts.saturating_add(1);
            let outcome = Err(match (&self.attempts.why, held.on_line) {
                (Some(why), false) => FailReason::Unreachable(why.clone()),
                _ => FailReason::Timeout(held.timeout),
            });
            self.events.push_back(Event::Done { call: id, outcome });
        }
        let holds = match &mut self.state {
            State::Up { line, owed, .. } if held.on_line => {
                line.expire(id);
                *owed |= line.is_closing();
                line.holds(id)
            }
            _ => false,
        };
        if !holds {
            self.forget(id);
        }
    }

    /// When the connection is closed if nothing comes from the peer until then: only if the time of a call is
    /// up of which it has something.
    fn silent_at(&self) -> Option<Time> {
        let overdue = self.line().is_some_and(|line| line.is_overdue() && !line.is_closing());
        if overdue { self.heard.after(MAX_SILENCE) } else { None }
    }

    /// Nobody waits for a call any more. It stays in the table while the connection has something of it.
    fn leave(&mut self, id: CallId) {
        let Some(held) = self.calls.get_mut(id.xid()).filter(|held| held.id == id) else { return };
        let holds = match &mut self.state {
            State::Up { line, .. } if held.on_line => {
                line.cancel(id);
                line.holds(id)
            }
            _ => false,
        };
        if !holds {
            self.forget(id);
            return;
        }
        held.call = None;
        self.abandoned = self.abandoned.saturating_add(1);
        if self.abandoned >= self.sweep_at {
            let holds = |id| self.line().is_some_and(|line| line.holds(id));
            for id in self.calls_where(|held| held.call.is_none() && !holds(held.id)) {
                self.forget(id);
            }
            self.sweep_at = self.abandoned.saturating_mul(2).max(SWEEP_AT_LEAST);
        }
    }

    /// Takes a call off every list.
    fn forget(&mut self, id: CallId) -> Option<Held> {
        self.held(id)?;
        let held = self.calls.remove(id.xid())?;
        self.abandoned = self.abandoned.saturating_sub(usize::from(held.call.is_none()));
        self.trim();
        Some(held)
    }

    /// Drops the deadlines of calls that have ended, up to the first of one that has not.
    fn trim(&mut self) {
        while let Some((_, id)) = self.deadlines.front()
            && self.held(*id).is_none()
        {
            self.deadlines.pop_front();
        }
    }

    fn end(&mut self, id: CallId, outcome: Result<Reply, FailReason>) {
        if self.forget(id).is_some() {
            self.events.push_back(Event::Done { call: id, outcome });
        }
    }

    /// Ends every call without a reply.
    fn fail_all(&mut self, reason: &CloseReason) {
        for id in self.waiting() {
            let Some(held) = self.held(id) else { continue };
            let sent = held.sends > 0 || held.on_line;
            let why = if sent { FailReason::Closed } else { FailReason::Unsent };
            self.leave(id);
            self.events.push_back(Event::Done { call: id, outcome: Err(why(reason.clone())) });
        }
    }

    /// Goes over to what the calls that are left, or that there are none, ask for.
    fn rest(&mut self) {
        let idle = self.unanswered() == 0;
        let kept = self.policy.keep && self.counts.connections > 0;
        match (&mut self.state, &self.closing) {
            (State::Up { line, .. }, Some(reason)) if idle => line.close(reason.clone()),
            (State::Up { line, idle_since, .. }, _) if idle && !line.is_closing() => {
                idle_since.get_or_insert(self.now);
            }
            (State::Idle | State::Wanted | State::Waiting { .. } | State::Connecting, Some(reason))
                if idle =>
            {
                let reason = reason.clone();
                self.events.push_back(Event::Ended(reason));
                self.state = State::Ended;
            }
            (State::Wanted | State::Waiting { .. }, None) if idle && !kept => self.state = State::Idle,
            (State::Idle, _) if !idle || kept => self.want_connection(),
            _ => {}
        }
    }

    /// Asks for a connection, at once or when the wait after the last attempt is over.
    fn want_connection(&mut self) {
        let until = self.attempts.not_before;
        if until > self.now {
            self.state = State::Waiting { until };
        } else {
            self.state = State::Wanted;
        }
    }
}

/// Whether the server has said something: then the connection works.
fn is_answer(outcome: &Result<Reply, FailReason>) -> bool {
    match outcome {
        Ok(_) | Err(FailReason::Version { .. } | FailReason::Chunk | FailReason::BadReply(_)) => true,
        Err(_) => false,
    }
}

impl Session {
    /// The next piece of work for the connection's provider.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.line_mut()?.poll_action()
    }

    /// Takes a completion of the connection's provider.
    pub fn handle_completion(&mut self, now: Time, completion: Completion) {
        self.pass(now);
        if matches!(completion, Completion::Received { .. }) {
            self.heard = self.now;
        }
        if let Some(requester) = self.line_mut() {
            requester.handle_completion(completion);
        }
        self.settle(now);
    }
}
