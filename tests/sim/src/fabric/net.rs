mod disconnect;

use std::collections::{BTreeMap, VecDeque};
use std::task::Waker;
use std::time::Duration;

use bytes::Bytes;
use rpcrdma_runtime::proto::work::{Action, CloseReason, Completion, Memory, Segment, Token};

use super::regions::Regions;
use super::{FabricConfig, Faults, LostWork, Rng, Side};

/// What the connection is made of: two ends, and what is under way.
#[derive(Debug)]
pub(super) struct Net {
    now: Duration,
    steps: u64,
    pub(super) rng: Rng,
    delay: Duration,
    faults: Faults,
    /// Nothing more is sent: it broke, and one end at least has not heard of it or has just now.
    pub(super) broken: bool,
    pub(super) lost_work: LostWork,
    /// By time, then by the order in which they were planned.
    pub(super) events: BTreeMap<(Duration, u64), Event>,
    next_event: u64,
    left: EndState,
    right: EndState,
}

/// One end's state.
#[derive(Debug)]
pub(super) struct EndState {
    receive_size: u32,
    max_region: u32,
    /// RDMA Reads that it may have outstanding.
    reads_out: u32,
    reading: u32,
    receives: u32,
    regions: Regions,
    completions: VecDeque<Completion>,
    waker: Option<Waker>,
    awake: bool,
    closed: bool,
    /// When the last message that it sent arrives: no later one overtakes it.
    pub(super) sent_until: Duration,
    /// The same for the answers to its RDMA Reads.
    read_until: Duration,
}

/// Something that will happen, at the end `to` or on the way to it.
#[derive(Debug)]
pub(super) enum Event {
    /// It hears this.
    Completion { to: Side, completion: Completion },
    /// Its registration is done.
    Register { to: Side, token: Token, memory: Memory },
    /// Its memory is fenced.
    Invalidate { to: Side, token: Token, handle: u32 },
    /// A Send arrives.
    Send { to: Side, message: Bytes, invalidate: Option<u32> },
    /// An RDMA Write is placed.
    Write { to: Side, sink: Segment, data: Bytes },
    /// An RDMA Read request arrives.
    Read { to: Side, token: Token, source: Segment },
    /// The answer to its RDMA Read arrives.
    ReadDone { to: Side, token: Token, data: Bytes },
    /// The other end has closed.
    Close { to: Side },
    /// It hears that the connection broke.
    Lost { to: Side, reason: CloseReason },
}

impl Net {
    pub(super) fn new(config: FabricConfig) -> Self {
        let FabricConfig { seed, ends: [left, right], delay, faults, automatic: _ } = config;
        let end = |own: &super::EndConfig, peer: &super::EndConfig| EndState {
            receive_size: own.receive_size,
            max_region: own.max_region,
            reads_out: peer.reads_in,
            reading: 0,
            receives: 0,
            regions: Regions::default(),
            completions: VecDeque::new(),
            waker: None,
            awake: false,
            closed: false,
            sent_until: Duration::ZERO,
            read_until: Duration::ZERO,
        };
        Net {
            now: Duration::ZERO,
            steps: 0,
            rng: Rng::new(seed),
            delay,
            faults,
            broken: false,
            lost_work: LostWork::default(),
            events: BTreeMap::new(),
            next_event: 0,
            left: end(&left, &right),
            right: end(&right, &left),
        }
    }

    pub(super) fn now(&self) -> Duration {
        self.now
    }

    pub(super) fn steps(&self) -> u64 {
        self.steps
    }

    pub(super) fn registered(&self, side: Side) -> usize {
        self.end(side).regions.len()
    }

    pub(super) fn exposed(&self, side: Side) -> Vec<u32> {
        self.end(side).regions.exposed().collect()
    }

    pub(super) fn receives(&self, side: Side) -> u32 {
        self.end(side).receives
    }

    pub(super) fn next_completion(&mut self, side: Side) -> Option<Completion> {
        self.end_mut(side).completions.pop_front()
    }

    pub(super) fn wait(&mut self, side: Side, waker: Waker) {
        self.end_mut(side).waker = Some(waker);
    }

    /// The wakers of the ends that have something new to hear.
    pub(super) fn take_wakers(&mut self) -> Vec<Waker> {
        [&mut self.left, &mut self.right]
            .into_iter()
            .filter(|end| end.awake)
            .filter_map(|end| {
                end.awake = false;
                end.waker.take()
            })
            .collect()
    }

    pub(super) fn end(&self, side: Side) -> &EndState {
        match side {
            Side::Left => &self.left,
            Side::Right => &self.right,
        }
    }

    fn end_mut(&mut self, side: Side) -> &mut EndState {
        match side {
            Side::Left => &mut self.left,
            Side::Right => &mut self.right,
        }
    }

    pub(super) fn after_a_while(&mut self) -> Duration {
        let longest = u64::try_from(self.delay.as_nanos()).unwrap_or(u64::MAX);
        self.now.saturating_add(Duration::from_nanos(self.rng.below(longest)))
    }

    pub(super) fn plan(&mut self, at: Duration, event: Event) {
        self.next_event = self.next_event.wrapping_add(1);
        self.events.insert((at, self.next_event), event);
    }

    /// Plans something that happens to the side itself, whenever it does.
    fn plan_soon(&mut self, event: Event) {
        let at = self.after_a_while();
        self.plan(at, event);
    }

    /// Plans what one side sends: it arrives behind all that the side sent before.
    fn plan_in_order(&mut self, from: Side, event: Event) {
        if self.broken {
            return;
        }
        let at = self.after_a_while().max(self.end(from).sent_until);
        self.end_mut(from).sent_until = at;
        self.plan(at, event);
    }

    pub(super) fn submit(&mut self, from: Side, action: Action) {
        if self.end(from).closed {
            return;
        }
        let to = from.other();
        match action {
            Action::PostReceives { count } => {
                let end = self.end_mut(from);
                end.receives = end.receives.saturating_add(count);
            }
            Action::Register { token, memory } => self.plan_soon(Event::Register { to: from, token, memory }),
            Action::Invalidate { token, handle } => {
                self.plan_soon(Event::Invalidate { to: from, token, handle });
            }
            Action::Abandon { handle } => self.end_mut(from).regions.abandon(handle),
            Action::Send { token, message, invalidate } => {
                let message = message.concat().into();
                self.plan_in_order(from, Event::Send { to, message, invalidate });
                self.leaves(from, self.faults.send, "a Send failed", Completion::Sent { token });
            }
            Action::Write { token, sink, data } => {
                if u32::try_from(data.len()) != Ok(sink.length) {
                    return self.misused(from, "the length of an RDMA Write is not that of its data");
                }
                self.plan_in_order(from, Event::Write { to, sink, data });
                self.leaves(from, self.faults.write, "an RDMA Write failed", Completion::Written { token });
            }
            Action::Read { token, source } => self.submit_read(from, token, source),
            Action::Close { reason } => {
                self.close(from, reason);
                self.plan_in_order(from, Event::Close { to });
            }
        }
    }

    fn submit_read(&mut self, from: Side, token: Token, source: Segment) {
        let end = self.end_mut(from);
        if end.reading >= end.reads_out {
            return self.misused(from, "more RDMA Reads outstanding than were agreed on");
        }
        end.reading = end.reading.saturating_add(1);
        self.plan_in_order(from, Event::Read { to: from.other(), token, source });
        self.fails(from, self.faults.read, "an RDMA Read failed");
    }

    pub(super) fn advance(&mut self) -> bool {
        let Some((key, event)) = self.events.pop_first() else { return false };
        self.now = key.0;
        self.steps = self.steps.saturating_add(1);
        if self.faults.cut_at.is_some_and(|step| step <= self.steps) {
            self.faults.cut_at = None;
            // Where it was: nothing overtakes it.
            self.events.insert(key, event);
            let first = if self.rng.chance(1, 2) { Side::Left } else { Side::Right };
            self.break_off(first, CloseReason::Io("the connection was cut".into()));
        } else {
            self.happen(event);
        }
        true
    }

    fn happen(&mut self, event: Event) {
        if self.end(event.to()).closed {
            return;
        }
        match event {
            Event::Completion { to, completion } => self.tell(to, completion),
            Event::Register { to, token, memory } => self.register(to, token, memory),
            Event::Invalidate { to, token, handle } => match self.end_mut(to).regions.take(handle) {
                Some(memory) => self.tell(to, Completion::Invalidated { token, handle, memory }),
                None => self.misused(to, "Invalidate of a handle that is not registered"),
            },
            Event::Send { to, message, invalidate } => self.arrive(to, message, invalidate),
            Event::Write { to, sink, data } => {
                if let Err(what) = self.end_mut(to).regions.write(&sink, &data) {
                    self.refused(to, what);
                }
            }
            Event::Read { to, token, source } => match self.end_mut(to).regions.read(&source) {
                // What it answers goes nowhere.
                Ok(_) if self.broken => self.lost_work.reads = self.lost_work.reads.saturating_add(1),
                Ok(data) => {
                    let reader = to.other();
                    let at = self.after_a_while().max(self.end(reader).read_until);
                    self.end_mut(reader).read_until = at;
                    self.plan(at, Event::ReadDone { to: reader, token, data });
                }
                Err(what) => self.refused(to, what),
            },
            Event::ReadDone { to, token, data } => {
                let end = self.end_mut(to);
                end.reading = end.reading.saturating_sub(1);
                self.tell(to, Completion::ReadDone { token, data });
            }
            Event::Close { to } => self.close(to, CloseReason::Peer),
            Event::Lost { to, reason } => self.close(to, reason),
        }
    }

    fn register(&mut self, to: Side, token: Token, memory: Memory) {
        let too_large = memory.len() as u64 > u64::from(self.end(to).max_region);
        if too_large || self.rng.chance(self.faults.register, 10_000) {
            return self.tell(to, Completion::RegisterFailed { token, memory });
        }
        let end = match to {
            Side::Left => &mut self.left,
            Side::Right => &mut self.right,
        };
        let segment = end.regions.register(memory, &mut self.rng);
        self.tell(to, Completion::Registered { token, segment });
    }

    fn arrive(&mut self, to: Side, message: Bytes, invalidate: Option<u32>) {
        let late = self.broken && self.end(to.other()).closed;
        self.lost_work.late_sends = self.lost_work.late_sends.saturating_add(late.into());
        let end = self.end_mut(to);
        let Some(left) = end.receives.checked_sub(1) else {
            return self.refused(to, "a Send found no Receive");
        };
        end.receives = left;
        if message.len() as u64 > u64::from(end.receive_size) {
            return self.refused(to, "a Send is longer than the Receive");
        }
        if let Some(Err(what)) = invalidate.map(|handle| end.regions.invalidate_remotely(handle)) {
            return self.refused(to, what);
        }
        self.tell(to, Completion::Received { message, invalidated: invalidate });
    }

    fn tell(&mut self, to: Side, completion: Completion) {
        let end = self.end_mut(to);
        end.completions.push_back(completion);
        end.awake = true;
    }

    /// Plans that a side hears that what it submitted has left. It does not if that fails; on a connection that broke, what
    /// goes nowhere may have left all the same.
    fn leaves(&mut self, from: Side, fault: u32, what: &str, completion: Completion) {
        let heard = if self.broken { self.rng.chance(1, 2) } else { !self.fails(from, fault, what) };
        if heard {
            self.plan_soon(Event::Completion { to: from, completion });
        }
    }

    /// Whether a planned fault strikes what a side has just submitted; the connection is gone then, and the side knows.
    fn fails(&mut self, from: Side, chance: u32, what: &str) -> bool {
        let fails = !self.broken && self.rng.chance(chance, 10_000);
        if fails {
            self.break_off(from, CloseReason::Io(what.into()));
        }
        fails
    }

    /// The peer of `at` asked for what `at` does not allow: `at` says so and closes.
    fn refused(&mut self, at: Side, what: &str) {
        self.close(at, CloseReason::Violation(what.into()));
        self.close(at.other(), CloseReason::Terminated { layer: 0, etype: 2, code: 0xff });
    }

    /// The side itself asked for what no provider does.
    fn misused(&mut self, side: Side, what: &str) {
        self.close(side, CloseReason::Io(what.into()));
        self.close(side.other(), CloseReason::Peer);
    }

    /// Ends the connection for both ends at once.
    pub(super) fn cut(&mut self, reason: CloseReason) {
        self.close(Side::Left, reason.clone());
        self.close(Side::Right, reason);
    }

    /// Ends the connection for one end; all its memory goes back to it.
    pub(super) fn close(&mut self, side: Side, reason: CloseReason) {
        if self.end(side).closed {
            return;
        }
        let mut returned = self.end_mut(side).regions.take_all();
        let own = self.events.extract_if(.., |_, event| event.to() == side);
        returned.extend(own.filter_map(|(_, event)| match event {
            Event::Register { memory, .. } => Some(memory),
            _ => None,
        }));
        self.tell(side, Completion::Closed { reason, returned });
        self.end_mut(side).closed = true;
    }
}

impl Event {
    /// Whom it happens to.
    pub(super) fn to(&self) -> Side {
        match self {
            Event::Completion { to, .. }
            | Event::Register { to, .. }
            | Event::Invalidate { to, .. }
            | Event::Send { to, .. }
            | Event::Write { to, .. }
            | Event::Read { to, .. }
            | Event::ReadDone { to, .. }
            | Event::Close { to }
            | Event::Lost { to, .. } => *to,
        }
    }

    /// How long it is on the way from one end to the other, one octet of a header included; nothing if it is not on that way.
    pub(super) fn octets(&self) -> Option<u64> {
        let data = match self {
            Event::Send { message: data, .. } | Event::Write { data, .. } | Event::ReadDone { data, .. } => {
                data.len()
            }
            Event::Read { .. } | Event::Close { .. } => 0,
            Event::Completion { .. }
            | Event::Register { .. }
            | Event::Invalidate { .. }
            | Event::Lost { .. } => return None,
        };
        Some((data as u64).saturating_add(1))
    }
}
