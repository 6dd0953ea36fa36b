use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use rpcrdma_runtime::Services;
use rpcrdma_runtime::program::Procedure;
use rpcrdma_runtime::proto::rdma::{
    CallId, CallKey, IncomingCall, IncomingReply, Requester, RequesterEvent, ResponderEvent, TransportError,
};
use rpcrdma_runtime::proto::rpc::duplicates::{
    CacheLookup, CallIdentity, CallerId, DuplicateLimits, Duplicates, Ticket,
};
use rpcrdma_runtime::proto::session::{
    Backoff, Policy, Reconnect, Session, SessionCall, SessionEvent, SessionRequester,
};
use rpcrdma_runtime::proto::time::Time;
use rpcrdma_runtime::proto::work::CloseReason;
use rpcrdma_runtime::wire::rpc::RpcCall;
use rpcrdma_runtime::xdr::Message;

use super::run::{arguments, change_grant, check_reply, length, min_item, one, poll_once, settings, word};
use super::{Args, Echo, Pair, Settings, call};
use crate::fabric::{Faults, LostWork, Rng, Side};

/// The counts of session runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Calls.
    pub calls: u64,
    /// Calls with a correct reply.
    pub replies: u64,
    /// Calls that timed out, and calls that failed because the server was unreachable.
    pub timeouts: u64,
    /// Calls that failed for another reason: a failed registration, a closed connection or too many segments.
    pub failures: u64,
    /// Cancelled calls.
    pub abandoned: u64,
    /// Connections.
    pub connections: u64,
    /// Refused connection attempts.
    pub refused: u64,
    /// Connections that the session closed, mostly after the idle timeout.
    pub idle: u64,
    /// Calls that reached the server on more than one connection.
    pub repeated: u64,
    /// Retransmitted calls that the duplicate-request cache recognized, while the first copy ran or after its
    /// reply.
    pub cached: u64,
    /// Work that was outstanding when connections broke.
    pub lost_work: LostWork,
    /// Simulated events.
    pub steps: u64,
}

impl std::ops::AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.calls += other.calls;
        self.replies += other.replies;
        self.timeouts += other.timeouts;
        self.failures += other.failures;
        self.abandoned += other.abandoned;
        self.connections += other.connections;
        self.refused += other.refused;
        self.idle += other.idle;
        self.repeated += other.repeated;
        self.cached += other.cached;
        self.lost_work += other.lost_work;
        self.steps += other.steps;
    }
}

/// Lets a session use pairs as connections. Every connection gets the checks of [`Pair`].
impl SessionRequester for Pair {
    fn submit(&mut self, id: CallId, call: &SessionCall) -> Result<(), TransportError> {
        SessionRequester::submit(&mut self.requester, id, call)
    }

    fn cancel(&mut self, call: CallId) {
        self.requester.cancel(call);
    }

    fn holds_resources(&self, call: CallId) -> bool {
        self.requester.holds_resources(call)
    }

    fn expire(&mut self, call: CallId) {
        self.requester.expire(call);
    }

    fn is_overdue(&self) -> bool {
        self.requester.is_overdue()
    }

    fn close(&mut self, reason: CloseReason) {
        Requester::close(&mut self.requester, reason);
    }

    fn is_closing(&self) -> bool {
        self.requester.is_closing()
    }

    fn poll_event(&mut self) -> Option<RequesterEvent> {
        let event = self.requester.poll_event();
        if matches!(event, Some(RequesterEvent::Closed(_))) {
            assert_eq!(
                self.fabric.registered(Side::Left),
                0,
                "R202: memory is still registered after the connection's end"
            );
        }
        event
    }

    fn has_work(&self) -> bool {
        self.requester.has_work()
    }

    fn take_received(&mut self) -> bool {
        self.requester.take_received()
    }
}

/// The server's duplicate-request cache. A waiter is a connection number and the key of a call on that
/// connection.
type Cache = Duplicates<(u64, CallKey)>;

fn cache() -> Cache {
    // The limits are never reached, so every reply is cached.
    let limits = DuplicateLimits {
        max_running: u64::MAX,
        max_bytes: usize::MAX,
        max_reply: usize::MAX,
        ..DuplicateLimits::default()
    };
    Duplicates::new(limits)
}

/// Runs random calls of a session over several connections.
///
/// Connections end for many reasons, and the server may refuse a connection. The server leaves some calls
/// without a reply, replies to the others in random order, and uses different settings for each connection.
/// The same seed repeats the same run.
///
/// # Panics
/// Panics if an engine violates a rule.
#[must_use]
pub fn run_session(seed: u64) -> Tally {
    let mut rng = Rng::new(seed ^ 0x5e55_1015);
    let settings = settings(seed, &mut rng);
    let policy = policy(&mut rng);
    let mut services = Services::new();
    services.add(Echo);
    let (cached, restarts) = (rng.chance(3, 4), rng.chance(1, 3));
    let mut run = Run {
        session: Session::new(policy, rng.next_u64()),
        policy,
        services,
        troubled: rng.chance(3, 4),
        refusals: one(&mut rng, &[0, 0, 1, 5]),
        silence: one(&mut rng, &[0, 0, 0, 100, 1000]),
        left_to_make: length(&mut rng),
        next_xid: word(&mut rng),
        settings,
        rng,
        began: Duration::ZERO,
        waiting: BTreeMap::new(),
        finished_at: BTreeMap::new(),
        held: Vec::new(),
        restarts,
        cache: cached.then(cache),
        executed: BTreeMap::new(),
        arrived: BTreeSet::new(),
        arrivals: BTreeMap::new(),
        ended: false,
        tally: Tally::default(),
    };
    run.play();
    run.tally
}

fn policy(rng: &mut Rng) -> Policy {
    let ms = Duration::from_millis;
    let backoff = Backoff {
        initial: ms(one(rng, &[0, 1, 20])),
        factor: one(rng, &[1, 2, 10]),
        max: ms(one(rng, &[1, 50, 500])),
        jitter: one(rng, &[0, 50, 100]),
        ..Backoff::default()
    };
    let reconnect = Reconnect {
        retransmit: rng.chance(3, 4),
        sends: one(rng, &[1, 2, 5, 100]),
        attempts: one(rng, &[None, None, None, Some(3)]),
        backoff,
        ..Reconnect::default()
    };
    Policy {
        timeout: ms(one(rng, &[100, 2000, 10_000, 10_000])),
        idle: one(rng, &[None, Some(ms(2)), Some(ms(50))]),
        keep: rng.chance(1, 8),
        reconnect: Some(reconnect),
        ..Policy::default()
    }
}

struct Held {
    connection: u64,
    call: IncomingCall,
    ticket: Option<Ticket>,
}

struct Waiting {
    xid: u32,
    args: Args,
    deadline: Duration,
}

struct Run {
    session: Session<Pair>,
    policy: Policy,
    settings: Settings,
    services: Services,
    rng: Rng,
    /// True if connections may have faults.
    troubled: bool,
    /// The probability that a connection attempt is refused, in tenths.
    refusals: u32,
    /// The probability that a call gets no reply, in units of 1/10,000.
    silence: u32,
    left_to_make: u64,
    next_xid: u32,
    /// The time to add to the connection's clock, or the current time if there is no connection.
    began: Duration,
    waiting: BTreeMap<CallId, Waiting>,
    /// XIDs of completed and cancelled calls, each with the number of connections made before the call ended.
    finished_at: BTreeMap<u32, u64>,
    held: Vec<Held>,
    /// True if the server may restart with an empty cache after the end of a connection.
    restarts: bool,
    cache: Option<Cache>,
    /// How often the server has run each call since its last restart.
    executed: BTreeMap<u32, u32>,
    /// XIDs of calls that arrived on the current connection.
    arrived: BTreeSet<u32>,
    /// How often each call arrived, over all connections.
    arrivals: BTreeMap<u32, u32>,
    ended: bool,
    tally: Tally,
}

impl Run {
    fn play(&mut self) {
        while !self.ended {
            self.make_calls();
            if self.rng.chance(1, 150) {
                self.abandon_one();
            }
            let moved = self.step();
            self.handle_events();
            if !self.held.is_empty() && (!moved || self.rng.chance(1, 4)) {
                self.reply_to_one();
            } else if !moved && !self.wait() && self.left_to_make == 0 {
                // The session is idle and all calls have been made, so close the session.
                self.session.close_when_idle(self.now());
                self.handle_events();
            }
        }
        assert!(self.waiting.is_empty(), "calls without an outcome: {:?}", self.settings);
        assert_eq!((self.session.unanswered(), self.session.poll_timeout()), (0, None));
        assert!(self.session.requester().is_none(), "a session that has ended still has a connection");
        let max = self.policy.reconnect.map_or(1, |reconnect| reconnect.sends);
        assert!(
            self.arrivals.values().all(|times| *times <= max),
            "a call arrived more than {max} times: {:?}",
            self.arrivals
        );
        self.tally.repeated = self.arrivals.values().map(|times| u64::from(*times > 1)).sum();
    }

    fn now(&self) -> Time {
        Time(self.began + self.session.requester().map_or(Duration::ZERO, |pair| pair.fabric.now()))
    }

    fn step(&mut self) -> bool {
        let moved = self.session.requester_mut().is_some_and(|pair| {
            change_grant(pair, &mut self.rng);
            pair.step()
        });
        self.tally.steps += u64::from(moved);
        let now = self.now();
        self.settle(now);
        if self.session.poll_timeout().is_some_and(|at| at <= now) {
            self.session.handle_timeout(now);
        }
        moved
    }

    /// Exchanges all pending work between the session and its connection. If the connection ends, sets
    /// `began` to the time of its end.
    fn settle(&mut self, now: Time) {
        if let Some(pair) = self.session.requester_mut() {
            pair.settle();
        }
        self.drain_server_side();
        let was = self.session.requester().is_some();
        self.session.process_events(now);
        if was && self.session.requester().is_none() {
            self.began = now.0;
        }
    }

    /// If the connection has ended for the client, runs the server until no event is left. The server still
    /// runs outstanding calls, and learns of the end later.
    fn drain_server_side(&mut self) {
        if !self.session.requester().is_some_and(Pair::client_is_closed) {
            return;
        }
        while self.session.requester_mut().is_some_and(Pair::step) {
            self.handle_server_events();
            if !self.held.is_empty() && self.rng.chance(1, 4) {
                self.reply_to_one();
            }
        }
        self.tally.lost_work +=
            self.session.requester().map_or(LostWork::default(), |pair| pair.fabric.lost_work());
    }

    /// Advances time to the session's next timeout. Returns false if the session has no timeout.
    fn wait(&mut self) -> bool {
        let Some(at) = self.session.poll_timeout() else { return false };
        self.began += at.since(self.now());
        self.session.handle_timeout(at);
        self.settle(at);
        self.handle_events();
        true
    }

    fn make_calls(&mut self) {
        while self.left_to_make > 0 && self.rng.chance(1, 4) {
            self.left_to_make -= 1;
            self.tally.calls += 1;
            let xid = self.next_xid;
            self.next_xid = xid.wrapping_add(1);
            let args = arguments(xid, &self.settings.left, &mut self.rng);
            let timeout = self.rng.chance(1, 10).then(|| Duration::from_millis(self.rng.below(200)));
            let now = self.now();
            let deadline = now.0 + timeout.unwrap_or(self.policy.timeout);
            let message = call(xid, &args, min_item(&mut self.rng));
            let retransmit = one(&mut self.rng, &[None, None, None, Some(true), Some(true), Some(false)]);
            let bounds = Echo::reply_bounds(&args);
            let id =
                self.session.submit(now, SessionCall { message, bounds, timeout, retransmit, memory: None });
            self.waiting.insert(id, Waiting { xid, args, deadline });
        }
    }

    fn abandon_one(&mut self) {
        let ids: Vec<CallId> = self.waiting.keys().copied().collect();
        let Some(id) = self.rng.pick(&ids) else { return };
        self.session.cancel(self.now(), *id);
        let call = self.waiting.remove(id).expect("a waiting call");
        self.finished_at.insert(call.xid, self.tally.connections);
        self.tally.abandoned += 1;
    }

    fn handle_events(&mut self) {
        while let Some(event) = self.session.poll_event() {
            match event {
                SessionEvent::Connect => self.connect(),
                SessionEvent::Done { call, outcome } => self.done(call, outcome),
                SessionEvent::Disconnected(reason) => {
                    self.tally.idle += u64::from(reason == CloseReason::Local);
                    self.server_disconnected();
                }
                SessionEvent::Ended(_) => self.ended = true,
            }
        }
        self.handle_server_events();
        let now = self.now().0;
        let overdue = self.waiting.values().find(|call| call.deadline + Duration::from_millis(1) < now);
        assert!(overdue.is_none(), "a call is still waiting after its deadline");
    }

    fn connect(&mut self) {
        assert!(
            self.session.unanswered() > 0 || self.policy.keep,
            "a session connected without an unanswered call and without `keep`"
        );
        assert!(!self.ended);
        let now = self.now();
        if self.rng.chance(self.refusals, 10) {
            self.tally.refused += 1;
            return self.session.handle_connect_failed(now, "refused".to_owned());
        }
        // Each connection has a random server configuration, and both ends have the same random IRD. If
        // `troubled`, the connection may also have faults.
        let other = settings(self.rng.next_u64(), &mut self.rng);
        let faults = if self.troubled {
            let cut_at = self.rng.chance(2, 3).then(|| self.rng.below(200));
            Faults { cut_at, ..other.faults }
        } else {
            Faults::default()
        };
        let pair = Pair::new(&Settings { left: self.settings.left, faults, ..other });
        self.tally.connections += 1;
        self.arrived.clear();
        self.session.handle_connected(now, pair);
    }

    fn done(&mut self, id: CallId, outcome: Result<IncomingReply, TransportError>) {
        let call = self.waiting.remove(&id).expect("a call that was not cancelled has one outcome");
        let reconnect = self.policy.reconnect.expect("every policy reconnects");
        match outcome {
            Ok(reply) => {
                check_reply(&reply, call.xid, &call.args);
                self.tally.replies += 1;
            }
            Err(TransportError::Timeout(_)) => {
                assert!(self.now().0 >= call.deadline, "a call timed out before its deadline");
                self.tally.timeouts += 1;
            }
            Err(TransportError::Unreachable(_)) => {
                let early = self.now().0 < call.deadline;
                assert!(
                    !early || reconnect.attempts.is_some(),
                    "a call failed as unreachable before its deadline"
                );
                self.tally.timeouts += 1;
            }
            Err(TransportError::Registration) if self.troubled => self.tally.failures += 1,
            Err(TransportError::Closed(_)) => self.tally.failures += 1,
            Err(TransportError::Unsendable(_)) if self.settings.left.max_segment <= 4096 => {
                self.tally.failures += 1;
            }
            Err(why) => {
                panic!("a call failed without a fault: {why}; {:?} {:?}", call.args.want, self.settings)
            }
        }
        // From here on, the call must not be retransmitted on a new connection.
        self.finished_at.insert(call.xid, self.tally.connections);
    }

    fn handle_server_events(&mut self) {
        let Some(pair) = self.session.requester_mut() else { return };
        let mut calls = Vec::new();
        while let Some(event) = pair.responder.poll_event() {
            match event {
                ResponderEvent::Call(call) => {
                    assert!(self.arrived.insert(call.xid), "H76: a call arrived twice on one connection");
                    *self.arrivals.entry(call.xid).or_default() += 1;
                    let finished = self.finished_at.get(&call.xid);
                    assert!(
                        finished.is_none_or(|connections| *connections == self.tally.connections),
                        "a finished call was retransmitted on a new connection"
                    );
                    calls.push(call);
                }
                ResponderEvent::Closed(_) => {}
            }
        }
        for call in calls {
            self.receive_call(call);
        }
    }

    /// Queues a call, unless the duplicate-request cache contains the call. In that case, replays the cached
    /// reply, or adds the call to the waiters if its first copy is still running.
    fn receive_call(&mut self, call: IncomingCall) {
        let (connection, now) = (self.tally.connections, self.now().0);
        let caller = CallerId::Address(IpAddr::V4(Ipv4Addr::LOCALHOST));
        let Some(cache) = &mut self.cache else {
            return self.held.push(Held { connection, call, ticket: None });
        };
        let parsed = RpcCall::parse(call.message.clone()).expect("a call");
        let identity = CallIdentity::of(&parsed, caller).expect("a call without a credential");
        match cache.begin(identity, 0, (connection, call.key), now) {
            CacheLookup::Run(ticket) => self.held.push(Held { connection, call, ticket: Some(ticket) }),
            CacheLookup::Joined { .. } => self.tally.cached += 1,
            CacheLookup::Cached(waiter, reply) => {
                self.tally.cached += 1;
                self.reply(waiter, reply);
            }
            CacheLookup::Uncached(_) => panic!("the duplicate-request cache is full"),
        }
    }

    /// Drops the calls without an entry in the duplicate-request cache. If the server restarts, drops all
    /// calls and the cached replies.
    fn server_disconnected(&mut self) {
        if self.restarts && self.rng.chance(1, 3) {
            self.held.clear();
            self.executed.clear();
            self.cache = self.cache.take().map(|_| cache());
        } else {
            self.held.retain(|held| held.ticket.is_some());
        }
    }

    fn reply(&mut self, (connection, key): (u64, CallKey), reply: Message) {
        if let Some(pair) = self.session.requester_mut().filter(|_| connection == self.tally.connections) {
            pair.responder.reply(key, reply);
        }
    }

    fn reply_to_one(&mut self) {
        let which = usize::try_from(self.rng.below(self.held.len() as u64)).expect("an index");
        let Held { connection, call, ticket } = self.held.swap_remove(which);
        let now = self.now().0;
        if self.rng.chance(self.silence, 10_000) {
            if let (Some(cache), Some(ticket)) = (&mut self.cache, ticket) {
                cache.finish(ticket, None, now);
            }
            return;
        }
        let reply = poll_once(self.services.answer(&call.message, None)).expect("a call");
        let times = self.executed.entry(call.xid).or_default();
        *times += 1;
        assert!(*times == 1 || self.cache.is_none(), "a server with a cache ran a call twice");
        let waiting = match (&mut self.cache, ticket) {
            (Some(cache), Some(ticket)) => cache.finish(ticket, Some(&reply), now),
            _ => vec![(connection, call.key)],
        };
        for waiter in waiting {
            self.reply(waiter, reply.clone());
        }
    }
}
