use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use rpcrdma_runtime::Services;
use rpcrdma_runtime::program::Procedure;
use rpcrdma_runtime::proto::rdma::{
    CallId, Config, IncomingCall, IncomingReply, LongCall, OutgoingCall, RequesterEvent, ResponderEvent,
    TransportError,
};
use rpcrdma_runtime::proto::work::CloseReason;
use rpcrdma_runtime::wire::private_data::PrivateData;
use rpcrdma_runtime::wire::rpc::decode_reply;
use rpcrdma_runtime::xdr::{Decode, Reader};

use super::{Args, Echo, Pair, Res, ResultLengths, Settings, call};
use crate::fabric::{Faults, LostWork, Rng, Side};

/// The counts of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Calls.
    pub calls: u64,
    /// Calls with a correct reply.
    pub replies: u64,
    /// Calls that failed because of an injected fault, or because they had too many segments.
    pub failures: u64,
    /// Cancelled calls.
    pub abandoned: u64,
    /// Calls with Read chunks.
    pub with_read_chunks: u64,
    /// Calls with a Position-Zero Read chunk.
    pub long_calls: u64,
    /// Replies with data in Write chunks.
    pub with_write_chunks: u64,
    /// Replies in a Reply chunk.
    pub long_replies: u64,
    /// Replies that invalidated a handle.
    pub remote_invalidations: u64,
    /// How often the grant fell to 1.
    pub few_credits: u64,
    /// Work that was outstanding when connections broke.
    pub lost_work: LostWork,
    /// Simulated events.
    pub steps: u64,
}

impl std::ops::AddAssign for Outcome {
    fn add_assign(&mut self, other: Self) {
        self.calls += other.calls;
        self.replies += other.replies;
        self.failures += other.failures;
        self.abandoned += other.abandoned;
        self.with_read_chunks += other.with_read_chunks;
        self.long_calls += other.long_calls;
        self.with_write_chunks += other.with_write_chunks;
        self.long_replies += other.long_replies;
        self.remote_invalidations += other.remote_invalidations;
        self.few_credits += other.few_credits;
        self.lost_work += other.lost_work;
        self.steps += other.steps;
    }
}

/// Runs random calls between two engines with random settings.
///
/// Replies are sent in random order. The same seed repeats the same run.
///
/// # Panics
/// Panics if an engine violates a rule.
#[must_use]
pub fn run(seed: u64) -> Outcome {
    let mut rng = Rng::new(seed);
    let settings = settings(seed, &mut rng);
    let mut run = Run {
        pair: Pair::new(&settings),
        services: Services::new(),
        settings,
        rng,
        left_to_make: 0,
        next_xid: 0,
        waiting: BTreeMap::new(),
        held: Vec::new(),
        executed: BTreeSet::new(),
        closing: false,
        closed: false,
        outcome: Outcome::default(),
    };
    run.services.add(Echo);
    run.left_to_make = length(&mut run.rng);
    run.next_xid = word(&mut run.rng);
    run.play();
    run.outcome
}

pub(super) fn word(rng: &mut Rng) -> u32 {
    u32::try_from(rng.below(1 << 32)).expect("below 2^32")
}

/// Returns a random number of calls for a run.
pub(super) fn length(rng: &mut Rng) -> u64 {
    let max = one(rng, &[24, 24, 40, 400]);
    1 + rng.below(max)
}

pub(super) fn one<T: Copy>(rng: &mut Rng, of: &[T]) -> T {
    *rng.pick(of).expect("not empty")
}

pub(super) fn settings(seed: u64, rng: &mut Rng) -> Settings {
    let sizes = [1024, 2048, 4096];
    let mut config = || Config {
        credits: 1 + u32::try_from(rng.below(8)).expect("below 8"),
        private_data: PrivateData {
            remote_invalidation: rng.chance(1, 2),
            send_size: one(rng, &sizes),
            receive_size: one(rng, &sizes),
        },
        max_segment: one(rng, &[100, 1000, 4096, 65_536, u32::MAX]),
        long_call: one(rng, &[LongCall::Whole, LongCall::Reduced]),
        ..Config::default()
    };
    let (left, right) = (config(), config());
    let rare = [0, 0, 20, 200];
    let faults = if rng.chance(1, 3) {
        Faults::default()
    } else {
        Faults {
            cut_at: rng.chance(1, 2).then(|| rng.below(600)),
            register: one(rng, &rare),
            read: one(rng, &rare),
            write: one(rng, &rare),
            send: one(rng, &rare),
        }
    };
    Settings { seed, left, right, reads: one(rng, &[1, 2, 16]), faults }
}

/// Returns arguments of random sizes. A client with this configuration can send most of these arguments.
pub(super) fn arguments(xid: u32, config: &Config, rng: &mut Rng) -> Args {
    // With small segments the data must be short, because the segment list has to fit inline.
    let small_segments = config.max_segment <= 100;
    let size = |rng: &mut Rng| {
        let max = one(rng, &[0, 3, 40, 600, 1500, 6000, 60_000]);
        rng.below(if small_segments { max.min(700) } else { max } + 1)
    };
    let length = |rng: &mut Rng| usize::try_from(size(rng)).expect("small");
    let lengths = [length(rng), length(rng).min(6000), length(rng)];
    let mut want = || u32::try_from(size(rng)).expect("small");
    let want = ResultLengths { note: want().min(6000), item: want(), other: want() };
    Args::new(xid ^ 0x5555, lengths, want)
}

pub(super) fn min_item(rng: &mut Rng) -> usize {
    one(rng, &[1, 100, 1024, usize::MAX])
}

pub(super) fn check_reply(reply: &IncomingReply, xid: u32, args: &Args) {
    let mut reader = Reader::new(&reply.message);
    decode_reply(&mut reader, xid).expect("the reply to this call");
    let result = Res::decode(&mut reader).expect("a result");
    reader.finish().expect("no data after the result");
    assert!(result == args.result(), "wrong result: {:?}", args.want);
}

pub(super) fn change_grant(pair: &mut Pair, rng: &mut Rng) {
    if rng.chance(1, 40) {
        pair.responder.set_grant(one(rng, &[0, 1, 2, 5, u32::MAX, u32::MAX]));
    }
}

struct Waiting {
    xid: u32,
    args: Args,
    abandoned: bool,
}

struct Run {
    pair: Pair,
    services: Services,
    settings: Settings,
    rng: Rng,
    left_to_make: u64,
    next_xid: u32,
    waiting: BTreeMap<CallId, Waiting>,
    /// Calls that the server has received but not yet answered.
    held: Vec<IncomingCall>,
    executed: BTreeSet<u32>,
    closing: bool,
    closed: bool,
    outcome: Outcome,
}

impl Run {
    fn play(&mut self) {
        loop {
            if self.left_to_make > 0 && self.rng.chance(1, 3) {
                self.make_a_call();
            }
            if self.rng.chance(1, 100) {
                self.abandon_one();
            }
            change_grant(&mut self.pair, &mut self.rng);
            let moved = self.pair.step();
            self.handle_requester_events();
            self.handle_responder_events();
            if !self.held.is_empty() && (!moved || self.rng.chance(1, 4)) {
                self.reply_to_one();
            } else if !moved && self.left_to_make == 0 {
                break;
            }
        }
        let unanswered = self.waiting.values().filter(|call| !call.abandoned).count();
        assert_eq!(unanswered, 0, "calls without an outcome: {:?}", self.settings);
        assert!(self.closed || self.pair.requester.credits().outstanding() == 0, "credits leaked");
        self.close();
        self.outcome.steps = self.pair.fabric.steps();
        self.outcome.few_credits = self.pair.drops_to_one;
        self.outcome.lost_work = self.pair.fabric.lost_work();
    }

    fn close(&mut self) {
        self.closing = true;
        self.pair.requester.close(CloseReason::Local);
        while self.pair.step() {}
        self.handle_requester_events();
        assert!(self.closed, "the requester did not report the end of the connection");
        assert_eq!(self.pair.fabric.registered(Side::Left), 0, "memory is still registered after the close");
        assert_eq!(self.pair.fabric.registered(Side::Right), 0);
    }

    fn make_a_call(&mut self) {
        self.left_to_make -= 1;
        self.outcome.calls += 1;
        let xid = self.next_xid;
        self.next_xid = xid.wrapping_add(1);
        let args = arguments(xid, &self.settings.left, &mut self.rng);
        let min_item = min_item(&mut self.rng);
        let reply = self.pair.requester.resources(&Echo::reply_bounds(&args)).expect("bounded");
        let id = self.pair.requester.submit(OutgoingCall { message: call(xid, &args, min_item), reply });
        self.waiting.insert(id, Waiting { xid, args, abandoned: false });
    }

    fn abandon_one(&mut self) {
        let ids: Vec<CallId> =
            self.waiting.iter().filter(|(_, call)| !call.abandoned).map(|(id, _)| *id).collect();
        let Some(id) = self.rng.pick(&ids).copied() else { return };
        self.pair.requester.cancel(id);
        self.outcome.abandoned += 1;
        if let Some(call) = self.waiting.get_mut(&id) {
            call.abandoned = true;
        }
    }

    fn handle_requester_events(&mut self) {
        while let Some(event) = self.pair.requester.poll_event() {
            match event {
                RequesterEvent::Done { call, outcome } => {
                    let waiting = self.waiting.remove(&call).expect("a call has one outcome");
                    assert!(!waiting.abandoned, "a cancelled call must not have an event");
                    self.done(&waiting, outcome);
                }
                RequesterEvent::Closed(reason) => {
                    assert!(!self.closed, "closed twice");
                    self.closed = true;
                    self.left_to_make = 0;
                    assert!(
                        self.closing || self.settings.faults.may_close(),
                        "closed without a fault: {reason}"
                    );
                }
            }
        }
    }

    fn done(&mut self, call: &Waiting, outcome: Result<IncomingReply, TransportError>) {
        let reply = match outcome {
            Ok(reply) => reply,
            Err(TransportError::Registration) if self.settings.faults.register > 0 => {
                return self.outcome.failures += 1;
            }
            Err(TransportError::Closed(_) | TransportError::Unsent(_))
                if self.settings.faults.may_close() =>
            {
                return self.outcome.failures += 1;
            }
            Err(TransportError::Unsendable(_)) if self.settings.left.max_segment <= 4096 => {
                return self.outcome.failures += 1;
            }
            Err(why) => {
                panic!("a call failed without a fault: {why}; {:?} {:?}", call.args.want, self.settings)
            }
        };
        check_reply(&reply, call.xid, &call.args);
        self.outcome.replies += 1;
        let traffic = reply.traffic;
        self.outcome.with_read_chunks += u64::from(traffic.read_chunks > 0);
        self.outcome.long_calls += u64::from(traffic.position_zero > 0);
        self.outcome.with_write_chunks += u64::from(traffic.write_bytes > 0);
        self.outcome.long_replies += u64::from(traffic.reply_chunk_bytes > 0);
        self.outcome.remote_invalidations += u64::from(traffic.remote_invalidation);
    }

    fn handle_responder_events(&mut self) {
        while let Some(event) = self.pair.responder.poll_event() {
            match event {
                ResponderEvent::Call(call) => {
                    assert!(self.executed.insert(call.xid), "a call was delivered twice");
                    self.held.push(call);
                    let max = self.settings.left.credits.min(self.settings.right.credits) as usize;
                    assert!(self.held.len() <= max, "R025: more calls than granted credits");
                }
                ResponderEvent::Closed(_) => self.held.clear(),
            }
        }
    }

    fn reply_to_one(&mut self) {
        let which = usize::try_from(self.rng.below(self.held.len() as u64)).expect("an index");
        let call = self.held.swap_remove(which);
        let reply = poll_once(self.services.answer(&call.message, None)).expect("a call");
        self.pair.responder.reply(call.key, reply);
    }
}

trait MayClose {
    fn may_close(&self) -> bool;
}

impl MayClose for Faults {
    fn may_close(&self) -> bool {
        self.cut_at.is_some() || self.read > 0 || self.write > 0 || self.send > 0
    }
}

/// Polls a future once with a no-op waker. The future must be ready.
pub(super) fn poll_once<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("the future is not ready"),
    }
}
