use std::collections::{BTreeMap, BTreeSet};

use rpcrdma_runtime::Services;
use rpcrdma_runtime::program::Procedure;
use rpcrdma_runtime::proto::rdma::{
    BackwardResponder, CallId, IncomingCall, IncomingReply, OutgoingCall, RequesterEvent, ResponderEvent,
    TransportError,
};
use rpcrdma_runtime::proto::work::CloseReason;
use rpcrdma_runtime::xdr::{Message, encoded_len};

use super::run::{arguments, change_grant, check_reply, min_item, one, poll_once, settings, word};
use super::{Args, Echo, Pair, ResultLengths, Settings, call};
use crate::fabric::{Faults, LostWork, Rng, Side};

/// The numbers of calls and events in runs with calls in both directions. Each array has the forward count,
/// then the backward count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bidirectional {
    /// Calls.
    pub calls: [u64; 2],
    /// Calls with a correct reply.
    pub replies: [u64; 2],
    /// Calls that failed because of an injected fault.
    pub failures: [u64; 2],
    /// Cancelled calls.
    pub abandoned: [u64; 2],
    /// Calls that failed because the call, its reply or its list of segments was too long.
    pub too_long: [u64; 2],
    /// Calls with the XID of an incomplete or cancelled call in the other direction.
    pub same_xid: u64,
    /// Work that was outstanding when connections broke.
    pub lost_work: LostWork,
    /// Simulated events.
    pub steps: u64,
}

impl std::ops::AddAssign for Bidirectional {
    fn add_assign(&mut self, other: Self) {
        for (own, others) in [
            (&mut self.calls, other.calls),
            (&mut self.replies, other.replies),
            (&mut self.failures, other.failures),
            (&mut self.abandoned, other.abandoned),
            (&mut self.too_long, other.too_long),
        ] {
            own[0] += others[0];
            own[1] += others[1];
        }
        self.same_xid += other.same_xid;
        self.lost_work += other.lost_work;
        self.steps += other.steps;
    }
}

/// Runs random calls in both directions on one connection.
///
/// Both directions use the same XIDs. Replies are sent in random order. The same seed repeats the same run.
///
/// # Panics
/// Panics if an engine violates a rule.
#[must_use]
pub fn run_bidirectional(seed: u64) -> Bidirectional {
    let mut rng = Rng::new(seed ^ 0x8167);
    let mut settings = settings(seed, &mut rng);
    for config in [&mut settings.left, &mut settings.right] {
        config.backward_credits = u32::try_from(rng.below(6)).expect("below 6");
    }
    let mut services = Services::new();
    services.add(Echo);
    let first = word(&mut rng);
    let mut run = Run {
        pair: Pair::bidirectional(&settings),
        services,
        left_to_make: 1 + rng.below(60),
        next_xid: [first; 2],
        settings,
        rng,
        waiting: BTreeMap::new(),
        held: Vec::new(),
        executed: BTreeSet::new(),
        closing: false,
        closed: 0,
        tally: Bidirectional::default(),
    };
    run.play();
    run.tally
}

/// The index of forward calls in the arrays of [`Bidirectional`].
const FORWARD: usize = 0;
const BACKWARD: usize = 1;

struct Waiting {
    xid: u32,
    args: Args,
    abandoned: bool,
}

struct Run {
    pair: Pair,
    settings: Settings,
    services: Services,
    rng: Rng,
    left_to_make: u64,
    next_xid: [u32; 2],
    /// Calls without an outcome, by direction and ID.
    waiting: BTreeMap<(usize, CallId), Waiting>,
    /// Calls that a responder has received but not yet answered.
    held: Vec<(usize, IncomingCall)>,
    executed: BTreeSet<(usize, u32)>,
    closing: bool,
    /// The number of engines that have reported the end of the connection.
    closed: usize,
    tally: Bidirectional,
}

impl Run {
    fn play(&mut self) {
        loop {
            if self.left_to_make > 0 && self.rng.chance(1, 3) {
                self.left_to_make -= 1;
                if self.rng.chance(1, 2) { self.call_forward() } else { self.call_backward() }
            }
            if self.rng.chance(1, 60) {
                self.abandon_one();
            }
            change_grant(&mut self.pair, &mut self.rng);
            let moved = self.pair.step();
            self.poll_events();
            if !self.held.is_empty() && (!moved || self.rng.chance(1, 4)) {
                self.reply_to_one();
            } else if !moved && self.left_to_make == 0 {
                break;
            }
        }
        let unanswered = self.waiting.values().filter(|call| !call.abandoned).count();
        assert_eq!(unanswered, 0, "calls without an outcome: {:?}", self.settings);
        let outstanding =
            [self.pair.requester.credits().outstanding(), self.pair.caller.credits().outstanding()];
        assert!(self.closed > 0 || outstanding == [0, 0], "credits leaked: {outstanding:?}");
        self.closing = true;
        self.pair.requester.close(CloseReason::Local);
        while self.pair.step() {}
        self.poll_events();
        assert_eq!(self.closed, 4, "each engine must report the end of the connection once");
        for side in [Side::Left, Side::Right] {
            assert_eq!(self.pair.fabric.registered(side), 0, "memory is still registered after the close");
        }
        self.tally.steps = self.pair.fabric.steps();
        self.tally.lost_work = self.pair.fabric.lost_work();
    }

    fn xid(&mut self, direction: usize) -> u32 {
        let xid = self.next_xid[direction];
        self.next_xid[direction] = xid.wrapping_add(1);
        self.tally.calls[direction] += 1;
        let in_use =
            |((other, _), call): (&(usize, CallId), &Waiting)| *other != direction && call.xid == xid;
        self.tally.same_xid += u64::from(self.waiting.iter().any(in_use));
        xid
    }

    fn call_forward(&mut self) {
        let xid = self.xid(FORWARD);
        let args = arguments(xid, &self.settings.left, &mut self.rng);
        let message = call(xid, &args, min_item(&mut self.rng));
        let reply = self.pair.requester.resources(&Echo::reply_bounds(&args)).expect("bounded");
        let id = self.pair.requester.submit(OutgoingCall { message, reply });
        self.waiting.insert((FORWARD, id), Waiting { xid, args, abandoned: false });
    }

    fn call_backward(&mut self) {
        let xid = self.xid(BACKWARD);
        let rng = &mut self.rng;
        let mut length = || {
            let max = one(rng, &[4, 100, 500, 1500]);
            rng.below(max)
        };
        let lengths = [length(), length(), length()].map(|len| usize::try_from(len).expect("small"));
        let mut want = || u32::try_from(length()).expect("small");
        let want = ResultLengths { note: want(), item: want(), other: want() };
        let args = Args::new(xid ^ 0xaaaa, lengths, want);
        let id = self.pair.caller.submit(call(xid, &args, usize::MAX));
        self.waiting.insert((BACKWARD, id), Waiting { xid, args, abandoned: false });
    }

    fn abandon_one(&mut self) {
        let left: Vec<(usize, CallId)> =
            self.waiting.iter().filter(|(_, call)| !call.abandoned).map(|(id, _)| *id).collect();
        let Some((direction, id)) = self.rng.pick(&left).copied() else { return };
        match direction {
            FORWARD => self.pair.requester.cancel(id),
            _ => self.pair.caller.cancel(id),
        }
        self.tally.abandoned[direction] += 1;
        if let Some(call) = self.waiting.get_mut(&(direction, id)) {
            call.abandoned = true;
        }
    }

    fn poll_events(&mut self) {
        while let Some(event) = self.pair.requester.poll_event() {
            self.handle_requester_event(FORWARD, event);
        }
        while let Some(event) = self.pair.caller.poll_event() {
            self.handle_requester_event(BACKWARD, event);
        }
        while let Some(event) = self.pair.responder.poll_event() {
            self.handle_responder_event(FORWARD, event);
        }
        while let Some(event) = self.pair.callee.as_mut().and_then(BackwardResponder::poll_event) {
            self.handle_responder_event(BACKWARD, event);
        }
    }

    fn handle_requester_event(&mut self, direction: usize, event: RequesterEvent) {
        match event {
            RequesterEvent::Done { call, outcome } => {
                let waiting = self.waiting.remove(&(direction, call)).expect("a call has one outcome");
                assert!(!waiting.abandoned, "a cancelled call must not have an event");
                self.done(direction, &waiting, outcome);
            }
            RequesterEvent::Closed(reason) => self.connection_closed(&reason),
        }
    }

    fn handle_responder_event(&mut self, direction: usize, event: ResponderEvent) {
        match event {
            ResponderEvent::Call(call) => {
                assert!(self.executed.insert((direction, call.xid)), "a call was delivered twice");
                self.held.push((direction, call));
                let Settings { left, right, .. } = &self.settings;
                let max = match direction {
                    FORWARD => left.credits.min(right.credits),
                    _ => left.backward_credits.min(right.backward_credits).max(1),
                };
                let held = self.held.iter().filter(|(other, _)| *other == direction).count();
                assert!(held <= max as usize, "R025, R033: more calls than granted credits");
            }
            ResponderEvent::Closed(reason) => {
                self.held.retain(|(other, _)| *other != direction);
                self.connection_closed(&reason);
            }
        }
    }

    fn connection_closed(&mut self, reason: &CloseReason) {
        self.closed += 1;
        self.left_to_make = 0;
        assert!(self.closing || may_close(&self.settings.faults), "closed without a fault: {reason}");
    }

    fn done(&mut self, direction: usize, call: &Waiting, outcome: Result<IncomingReply, TransportError>) {
        let closed = may_close(&self.settings.faults);
        let fits = direction == FORWARD || self.fits(call);
        match outcome {
            Ok(reply) => {
                assert!(fits, "a call succeeded although it or its reply is too long: {:?}", call.args.want);
                check_reply(&reply, call.xid, &call.args);
                self.tally.replies[direction] += 1;
            }
            Err(TransportError::Closed(_) | TransportError::Unsent(_)) if closed => {
                self.tally.failures[direction] += 1
            }
            Err(TransportError::Registration)
                if direction == FORWARD && self.settings.faults.register > 0 =>
            {
                self.tally.failures[direction] += 1;
            }
            Err(TransportError::Unsendable(_))
                if direction == FORWARD && self.settings.left.max_segment <= 4096 =>
            {
                self.tally.too_long[direction] += 1;
            }
            Err(TransportError::Unsendable(_) | TransportError::Chunk) if !fits => {
                self.tally.too_long[direction] += 1
            }
            Err(why) => {
                panic!("a call failed without a fault: {why}; {:?} {:?}", call.args.want, self.settings)
            }
        }
    }

    /// Returns true if a backward call and its reply fit inline.
    fn fits(&self, waiting: &Waiting) -> bool {
        const HEADER: u64 = 28;
        const REPLY: u64 = 24;
        let Message { stream, .. } = call(waiting.xid, &waiting.args, usize::MAX);
        let reply = encoded_len(&waiting.args.result()).expect("unbounded");
        stream.len() as u64 + HEADER <= u64::from(self.pair.negotiated.reply_threshold)
            && reply + REPLY + HEADER <= u64::from(self.pair.negotiated.call_threshold)
    }

    fn reply_to_one(&mut self) {
        let which = usize::try_from(self.rng.below(self.held.len() as u64)).expect("an index");
        let (direction, call) = self.held.swap_remove(which);
        let reply = poll_once(self.services.answer(&call.message, None)).expect("a call");
        match (direction, &mut self.pair.callee) {
            (BACKWARD, Some(callee)) => callee.reply(call.key, reply),
            _ => self.pair.responder.reply(call.key, reply),
        };
    }
}

fn may_close(faults: &Faults) -> bool {
    faults.cut_at.is_some() || faults.read > 0 || faults.write > 0 || faults.send > 0
}
