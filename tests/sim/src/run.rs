use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use rpcrdma_runtime::proto::program::Procedure;
use rpcrdma_runtime::proto::rdma::{
    Call, CallId, Config, Event, FailReason, IncomingCall, LongCall, Reply, ResponderEvent,
};
use rpcrdma_runtime::proto::rpc::Services;
use rpcrdma_runtime::proto::work::CloseReason;
use rpcrdma_runtime::wire::private_data::PrivateData;
use rpcrdma_runtime::wire::rpc::decode_reply;
use rpcrdma_runtime::xdr::{Decode, Reader};

use super::{Args, Echo, Pair, Res, Settings, Want, call};
use crate::fabric::{Faults, LostWork, Rng, Side};

/// What a run came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Calls that were made.
    pub calls: u64,
    /// Calls whose reply came and was right.
    pub replies: u64,
    /// Calls that failed, as they had to under the faults of the run.
    pub failures: u64,
    /// Calls that were abandoned.
    pub abandoned: u64,
    /// Calls with Read chunks.
    pub with_read_chunks: u64,
    /// Calls whose whole stream was in a Position-Zero Read chunk.
    pub long_calls: u64,
    /// Replies with data in Write chunks.
    pub with_write_chunks: u64,
    /// Replies in a Reply chunk.
    pub long_replies: u64,
    /// Replies that invalidated a handle.
    pub remote_invalidations: u64,
    /// Times that the grant fell to 1.
    pub few_credits: u64,
    /// What was on its way when connections broke.
    pub lost_work: LostWork,
    /// Things that happened.
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

/// One run: a random pair, random calls, a server that answers in any order, faults in two of three runs. Panics,
/// with what is wrong, as soon as a rule is broken; the same seed does the same again.
///
/// # Panics
/// See above.
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

/// How many calls a run makes: mostly a few, so that each thing that happens is near another; at times very many.
pub(super) fn length(rng: &mut Rng) -> u64 {
    let most = one(rng, &[24, 24, 40, 400]);
    1 + rng.below(most)
}

/// One of several values.
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

/// Arguments of any size that a client that is set so can send.
pub(super) fn arguments(xid: u32, config: &Config, rng: &mut Rng) -> Args {
    // What is cut in many segments cannot be long: the list of them would not fit inline.
    let small_segments = config.max_segment <= 100;
    let size = |rng: &mut Rng| {
        let most = one(rng, &[0, 3, 40, 600, 1500, 6000, 60_000]);
        rng.below(if small_segments { most.min(700) } else { most } + 1)
    };
    let length = |rng: &mut Rng| usize::try_from(size(rng)).expect("small");
    let lengths = [length(rng), length(rng).min(6000), length(rng)];
    let mut want = || u32::try_from(size(rng)).expect("small");
    let want = Want { note: want().min(6000), item: want(), other: want() };
    Args::new(xid ^ 0x5555, lengths, want)
}

/// How small an item may be that is taken out of the stream.
pub(super) fn min_item(rng: &mut Rng) -> usize {
    one(rng, &[1, 100, 1024, usize::MAX])
}

/// The result in a reply, which is right.
pub(super) fn check_reply(reply: &Reply, xid: u32, args: &Args) {
    let mut reader = Reader::new(&reply.message);
    decode_reply(&mut reader, xid).expect("the reply to this call");
    let result = Res::decode(&mut reader).expect("a result");
    reader.finish().expect("nothing but the result");
    assert!(result == args.result(), "the data is not what was sent: {:?}", args.want);
}

/// At times the server grants more or fewer credits than before: one, or as many as it ever does.
pub(super) fn change_grant(pair: &mut Pair, rng: &mut Rng) {
    if rng.chance(1, 40) {
        pair.responder.set_grant(one(rng, &[0, 1, 2, 5, u32::MAX, u32::MAX]));
    }
}

/// A call that has not ended.
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
    /// Calls that the server has and has not answered.
    held: Vec<IncomingCall>,
    /// XIDs that the server has run.
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
            self.hear_the_requester();
            self.hear_the_responder();
            if !self.held.is_empty() && (!moved || self.rng.chance(1, 4)) {
                self.answer_one();
            } else if !moved && self.left_to_make == 0 {
                break;
            }
        }
        let unanswered = self.waiting.values().filter(|call| !call.abandoned).count();
        assert_eq!(unanswered, 0, "calls that never ended: {:?}", self.settings);
        assert!(self.closed || self.pair.requester.credits().in_flight() == 0, "credits are lost");
        self.close();
        self.outcome.steps = self.pair.fabric.steps();
        self.outcome.few_credits = self.pair.few;
        self.outcome.lost_work = self.pair.fabric.lost_work();
    }

    fn close(&mut self) {
        self.closing = true;
        self.pair.requester.close(CloseReason::Local);
        while self.pair.step() {}
        self.hear_the_requester();
        assert!(self.closed, "the requester never heard of the end");
        assert_eq!(self.pair.fabric.registered(Side::Left), 0, "memory is still registered at the end");
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
        let id = self.pair.requester.submit(Call { message: call(xid, &args, min_item), reply });
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

    fn hear_the_requester(&mut self) {
        while let Some(event) = self.pair.requester.poll_event() {
            match event {
                Event::Done { call, outcome } => {
                    let waiting = self.waiting.remove(&call).expect("a call ends once");
                    assert!(!waiting.abandoned, "a call that nobody waits for has no event");
                    self.done(&waiting, outcome);
                }
                Event::Closed(reason) => {
                    assert!(!self.closed, "closed twice");
                    self.closed = true;
                    self.left_to_make = 0;
                    assert!(
                        self.closing || self.settings.faults.may_close(),
                        "closed for no reason: {reason}"
                    );
                }
            }
        }
    }

    fn done(&mut self, call: &Waiting, outcome: Result<Reply, FailReason>) {
        let reply = match outcome {
            Ok(reply) => reply,
            Err(FailReason::Registration) if self.settings.faults.register > 0 => {
                return self.outcome.failures += 1;
            }
            Err(FailReason::Closed(_) | FailReason::Unsent(_)) if self.settings.faults.may_close() => {
                return self.outcome.failures += 1;
            }
            Err(FailReason::Unsendable(_)) if self.settings.left.max_segment <= 4096 => {
                return self.outcome.failures += 1;
            }
            Err(why) => panic!("a call failed: {why}; {:?} {:?}", call.args.want, self.settings),
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

    fn hear_the_responder(&mut self) {
        while let Some(event) = self.pair.responder.poll_event() {
            match event {
                ResponderEvent::Call(call) => {
                    assert!(self.executed.insert(call.xid), "a call came twice");
                    self.held.push(call);
                    let most = self.settings.left.credits.min(self.settings.right.credits) as usize;
                    assert!(self.held.len() <= most, "R025: more calls than were granted");
                }
                ResponderEvent::Closed(_) => self.held.clear(),
            }
        }
    }

    fn answer_one(&mut self) {
        let which = usize::try_from(self.rng.below(self.held.len() as u64)).expect("an index");
        let call = self.held.swap_remove(which);
        let reply = at_once(self.services.answer(&call.message, None)).expect("a call");
        self.pair.responder.reply(call.key, reply);
    }
}

/// Whether this plan of faults may end the connection.
trait MayClose {
    fn may_close(&self) -> bool;
}

impl MayClose for Faults {
    fn may_close(&self) -> bool {
        self.cut_at.is_some() || self.read > 0 || self.write > 0 || self.send > 0
    }
}

/// The output of a future that waits for nothing.
pub(super) fn at_once<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("it waits"),
    }
}
