mod disconnect;

use std::collections::{BTreeMap, VecDeque};
use std::task::Waker;
use std::time::Duration;

use bytes::Bytes;
use rpcrdma_runtime::proto::work::{Action, CloseReason, Completion, Memory, RegionPart, Segment, Token};

use super::reads::ReadRegions;
use super::regions::Regions;
use super::{FabricConfig, Faults, LostWork, Rng, Side};

#[derive(Debug)]
pub(super) struct Net {
    now: Duration,
    steps: u64,
    pub(super) rng: Rng,
    delay: Duration,
    faults: Faults,
    /// True once a fault has broken the connection. Sends and RDMA Reads and Writes that are submitted later
    /// are lost.
    pub(super) broken: bool,
    pub(super) lost_work: LostWork,
    /// Scheduled events, ordered by time and then by the order of scheduling.
    pub(super) events: BTreeMap<(Duration, u64), Event>,
    next_event: u64,
    left: EndState,
    right: EndState,
}

#[derive(Debug)]
pub(super) struct EndState {
    receive_size: u32,
    max_region: u32,
    ord: u32,
    outstanding_reads: u32,
    reads: ReadRegions,
    receives: u32,
    regions: Regions,
    completions: VecDeque<Completion>,
    waker: Option<Waker>,
    awake: bool,
    closed: bool,
    /// The arrival time of the last message from this end. Later messages do not arrive before this time.
    pub(super) sent_until: Duration,
    /// The arrival time of the last RDMA Read response to this end. Later responses do not arrive before this
    /// time.
    read_until: Duration,
}

/// A scheduled event at the peer `to`.
///
/// `Completion`, `Register` and `Invalidate` complete local work. `Lost` informs `to` that the connection
/// broke. All remaining events come from the other peer.
#[derive(Debug)]
pub(super) enum Event {
    Completion { to: Side, completion: Completion },
    Register { to: Side, token: Token, memory: Memory },
    Invalidate { to: Side, token: Token, handle: u32 },
    Send { to: Side, message: Bytes, invalidate: Option<u32> },
    Write { to: Side, sink: Segment, data: Bytes },
    Read { to: Side, token: Token, source: Segment },
    ReadDone { to: Side, token: Token, data: Bytes },
    Close { to: Side },
    Lost { to: Side, reason: CloseReason },
}

impl Net {
    pub(super) fn new(config: FabricConfig) -> Self {
        let FabricConfig { seed, ends: [left, right], delay, faults, automatic: _ } = config;
        let end = |own: &super::EndConfig, peer: &super::EndConfig| EndState {
            receive_size: own.receive_size,
            max_region: own.max_region,
            ord: peer.ird,
            outstanding_reads: 0,
            reads: ReadRegions::default(),
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

    pub(super) fn random_time(&mut self) -> Duration {
        let longest = u64::try_from(self.delay.as_nanos()).unwrap_or(u64::MAX);
        self.now.saturating_add(Duration::from_nanos(self.rng.below(longest)))
    }

    pub(super) fn schedule(&mut self, at: Duration, event: Event) {
        self.next_event = self.next_event.wrapping_add(1);
        self.events.insert((at, self.next_event), event);
    }

    fn schedule_local(&mut self, event: Event) {
        let at = self.random_time();
        self.schedule(at, event);
    }

    /// Schedules the arrival of a message after all earlier messages from the same peer, unless the
    /// connection is broken.
    fn schedule_in_order(&mut self, from: Side, event: Event) {
        if self.broken {
            return;
        }
        let at = self.random_time().max(self.end(from).sent_until);
        self.end_mut(from).sent_until = at;
        self.schedule(at, event);
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
            Action::Register { token, memory } => {
                self.schedule_local(Event::Register { to: from, token, memory })
            }
            Action::Invalidate { token, handle } => {
                self.schedule_local(Event::Invalidate { to: from, token, handle });
            }
            Action::Abandon { handle } => self.end_mut(from).regions.abandon(handle),
            Action::Send { token, message, invalidate } => {
                let message = message.concat().into();
                self.schedule_in_order(from, Event::Send { to, message, invalidate });
                self.complete_unless_lost(
                    from,
                    self.faults.send,
                    "a Send failed",
                    Completion::Sent { token },
                );
            }
            Action::Write { token, sink, data } => {
                if u32::try_from(data.len()) != Ok(sink.length) {
                    return self.local_error(from, "the length of an RDMA Write does not match its data");
                }
                self.schedule_in_order(from, Event::Write { to, sink, data });
                self.complete_unless_lost(
                    from,
                    self.faults.write,
                    "an RDMA Write failed",
                    Completion::Written { token },
                );
            }
            Action::Read { token, source, part } => self.submit_read(from, token, source, part),
            Action::Close { reason } => {
                self.close(from, reason);
                self.schedule_in_order(from, Event::Close { to });
            }
        }
    }

    fn submit_read(&mut self, from: Side, token: Token, source: Segment, part: RegionPart) {
        let end = self.end_mut(from);
        if end.outstanding_reads >= end.ord {
            return self.local_error(from, "too many outstanding RDMA Reads");
        }
        end.outstanding_reads = end.outstanding_reads.saturating_add(1);
        end.reads.start(token, source.length, part);
        self.schedule_in_order(from, Event::Read { to: from.other(), token, source });
        self.inject_fault(from, self.faults.read, "an RDMA Read failed");
    }

    pub(super) fn advance(&mut self) -> bool {
        let Some((key, event)) = self.events.pop_first() else { return false };
        self.now = key.0;
        self.steps = self.steps.saturating_add(1);
        if self.faults.cut_at.is_some_and(|step| step <= self.steps) {
            self.faults.cut_at = None;
            // Put the event back, because it is part of the outstanding data.
            self.events.insert(key, event);
            let first = if self.rng.chance(1, 2) { Side::Left } else { Side::Right };
            self.disconnect(first, CloseReason::Io("the connection was cut".into()));
        } else {
            self.handle_event(event);
        }
        true
    }

    fn handle_event(&mut self, event: Event) {
        if self.end(event.to()).closed {
            return;
        }
        match event {
            Event::Completion { to, completion } => self.complete(to, completion),
            Event::Register { to, token, memory } => self.register(to, token, memory),
            Event::Invalidate { to, token, handle } => match self.end_mut(to).regions.remove(handle) {
                Some(memory) => self.complete(to, Completion::Invalidated { token, handle, memory }),
                None => self.local_error(to, "local invalidation of an unknown handle"),
            },
            Event::Send { to, message, invalidate } => self.receive(to, message, invalidate),
            Event::Write { to, sink, data } => {
                if let Err(what) = self.end_mut(to).regions.write(&sink, &data) {
                    self.violation(to, what);
                }
            }
            Event::Read { to, token, source } => match self.end_mut(to).regions.read(&source) {
                // The connection is broken, so the response is lost.
                Ok(_) if self.broken => self.lost_work.reads = self.lost_work.reads.saturating_add(1),
                Ok(data) => {
                    let reader = to.other();
                    let at = self.random_time().max(self.end(reader).read_until);
                    self.end_mut(reader).read_until = at;
                    self.schedule(at, Event::ReadDone { to: reader, token, data });
                }
                Err(what) => self.violation(to, what),
            },
            Event::ReadDone { to, token, data } => {
                let end = self.end_mut(to);
                end.outstanding_reads = end.outstanding_reads.saturating_sub(1);
                let data = end.reads.finish(token, &data);
                self.complete(to, Completion::ReadDone { token, data });
            }
            Event::Close { to } => self.close(to, CloseReason::Peer),
            Event::Lost { to, reason } => self.close(to, reason),
        }
    }

    fn register(&mut self, to: Side, token: Token, memory: Memory) {
        let too_large = memory.len() as u64 > u64::from(self.end(to).max_region);
        if too_large || self.rng.chance(self.faults.register, 10_000) {
            return self.complete(to, Completion::RegisterFailed { token, memory });
        }
        let end = match to {
            Side::Left => &mut self.left,
            Side::Right => &mut self.right,
        };
        let segment = end.regions.register(memory, &mut self.rng);
        self.complete(to, Completion::Registered { token, segment });
    }

    fn receive(&mut self, to: Side, message: Bytes, invalidate: Option<u32>) {
        let late = self.broken && self.end(to.other()).closed;
        self.lost_work.late_sends = self.lost_work.late_sends.saturating_add(late.into());
        let end = self.end_mut(to);
        let Some(left) = end.receives.checked_sub(1) else {
            return self.violation(to, "a Send arrived without a posted Receive");
        };
        end.receives = left;
        if message.len() as u64 > u64::from(end.receive_size) {
            return self.violation(to, "a Send is longer than the Receive buffer");
        }
        if let Some(Err(what)) = invalidate.map(|handle| end.regions.invalidate_remotely(handle)) {
            return self.violation(to, what);
        }
        self.complete(to, Completion::Received { message, invalidated: invalidate });
    }

    fn complete(&mut self, to: Side, completion: Completion) {
        let end = self.end_mut(to);
        end.completions.push_back(completion);
        end.awake = true;
    }

    /// Schedules a completion unless the submission fails. On a broken connection, a lost submission may
    /// still complete.
    fn complete_unless_lost(&mut self, from: Side, fault: u32, what: &str, completion: Completion) {
        let completes =
            if self.broken { self.rng.chance(1, 2) } else { !self.inject_fault(from, fault, what) };
        if completes {
            self.schedule_local(Event::Completion { to: from, completion });
        }
    }

    /// Breaks an intact connection with a probability of `chance` / 10,000. In that case, `from` learns of
    /// the break at once. Returns true if this call broke the connection.
    fn inject_fault(&mut self, from: Side, chance: u32, what: &str) -> bool {
        let strikes = !self.broken && self.rng.chance(chance, 10_000);
        if strikes {
            self.disconnect(from, CloseReason::Io(what.into()));
        }
        strikes
    }

    /// Ends the connection because the peer of `at` broke a rule of the protocol.
    fn violation(&mut self, at: Side, what: &str) {
        self.close(at, CloseReason::Violation(what.into()));
        self.close(at.other(), CloseReason::Terminated { layer: 0, etype: 2, code: 0xff });
    }

    /// Ends the connection because of an invalid local submission.
    fn local_error(&mut self, side: Side, what: &str) {
        self.close(side, CloseReason::Io(what.into()));
        self.close(side.other(), CloseReason::Peer);
    }

    pub(super) fn cut(&mut self, reason: CloseReason) {
        self.close(Side::Left, reason.clone());
        self.close(Side::Right, reason);
    }

    /// Ends the connection for `side`. The last completion of `side` returns all memory that
    /// `side` has registered or is registering.
    pub(super) fn close(&mut self, side: Side, reason: CloseReason) {
        if self.end(side).closed {
            return;
        }
        let mut returned = self.end_mut(side).regions.remove_all();
        let own = self.events.extract_if(.., |_, event| event.to() == side);
        returned.extend(own.filter_map(|(_, event)| match event {
            Event::Register { memory, .. } => Some(memory),
            _ => None,
        }));
        self.complete(side, Completion::Closed { reason, returned });
        self.end_mut(side).closed = true;
    }
}

impl Event {
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

    /// Returns the number of octets on the wire, counting the header as one octet. Returns `None` for a
    /// local event.
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
