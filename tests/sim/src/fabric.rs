//! Two ends in memory, under virtual time: a provider for tests and simulations.
//!
//! It does what RDMA hardware does and forgives as little: a Send needs a posted Receive that is large enough, a
//! handle has rights and bounds and an end, no more RDMA Reads are outstanding than were agreed on, and what
//! breaks a rule ends the connection. Writes are placed before the Sends asked for after them. Everything else
//! happens after delays that the seed decides, in any order that hardware allows; the same seed and the same
//! actions give the same run. Faults are planned with [`Faults`].
//!
//! Time is virtual: [`Fabric::advance`] goes to the next thing that happens. A fabric that is
//! [`automatic`](FabricConfig::automatic) advances by itself whenever an end that has nothing to hear is polled.

mod net;
mod regions;

use std::ops::AddAssign;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
pub use rpcrdma_runtime::proto::random::Rng;
use rpcrdma_runtime::proto::work::{Action, CloseReason, Completion};
use rpcrdma_runtime::provider::{Connection, ConnectionInfo};

use self::net::Net;

/// One of the two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The first of [`Fabric::pair`].
    Left,
    /// The second.
    Right,
}

impl Side {
    /// The other one.
    #[must_use]
    pub fn other(self) -> Side {
        match self {
            Side::Left => Side::Right,
            Side::Right => Side::Left,
        }
    }
}

/// What one end brings to the connection.
#[derive(Clone, Debug)]
pub struct EndConfig {
    /// What it tells the other end when connecting.
    pub private_data: Bytes,
    /// The size of each of its Receives, in bytes (default 4,096).
    pub receive_size: u32,
    /// RDMA Reads of its memory that it serves at once (its IRD; default 16).
    pub reads_in: u32,
    /// The largest region that it registers, in bytes (default: no bound).
    pub max_region: u32,
}

impl Default for EndConfig {
    fn default() -> Self {
        EndConfig { private_data: Bytes::new(), receive_size: 4096, reads_in: 16, max_region: u32::MAX }
    }
}

/// What goes wrong on purpose. Chances are in 10,000.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// Breaks the connection when this many things have happened, at some octet of what is on its way to each end then: what
    /// is before it still arrives, a Write as far as it goes, and what is behind it never does. One end hears of it at once,
    /// the other one later; what it submits until then goes nowhere. All other faults that end a connection do it so, too.
    pub cut_at: Option<u64>,
    /// A registration fails.
    pub register: u32,
    /// An RDMA Read fails, and with it the connection.
    pub read: u32,
    /// An RDMA Write fails, and with it the connection; a part of it may be placed.
    pub write: u32,
    /// A Send fails, and with it the connection; it may arrive all the same.
    pub send: u32,
}

/// What became of the work that was on its way when a connection broke.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LostWork {
    /// RDMA Writes of which the first octets were placed, and the others not.
    pub writes: u64,
    /// RDMA Reads without an answer, or with a part of one: they never complete.
    pub reads: u64,
    /// Sends that did not arrive, though their sender may have heard that they left.
    pub lost_sends: u64,
    /// Sends that arrived when their sender had heard of the end.
    pub late_sends: u64,
}

impl AddAssign for LostWork {
    fn add_assign(&mut self, other: Self) {
        self.writes += other.writes;
        self.reads += other.reads;
        self.lost_sends += other.lost_sends;
        self.late_sends += other.late_sends;
    }
}

/// How a fabric behaves.
#[derive(Clone, Debug)]
pub struct FabricConfig {
    /// Decides handles, offsets, delays and faults.
    pub seed: u64,
    /// The left end, and the right one.
    pub ends: [EndConfig; 2],
    /// The longest delay of one step (default 1 ms).
    pub delay: Duration,
    /// What goes wrong (default: nothing).
    pub faults: Faults,
    /// Whether polling advances time (default: no).
    pub automatic: bool,
}

impl Default for FabricConfig {
    fn default() -> Self {
        FabricConfig {
            seed: 0,
            ends: [EndConfig::default(), EndConfig::default()],
            delay: Duration::from_millis(1),
            faults: Faults::default(),
            automatic: false,
        }
    }
}

/// The connection between two [`End`]s, as somebody sees it who stands beside it.
#[derive(Clone, Debug)]
pub struct Fabric(Arc<Mutex<Net>>);

impl Fabric {
    /// Connects two ends.
    #[must_use]
    pub fn pair(config: FabricConfig) -> (Fabric, End, End) {
        let [left, right] = &config.ends;
        let info = |own: &EndConfig, peer: &EndConfig| ConnectionInfo {
            peer: None,
            private_data: peer.private_data.clone(),
            reads_out: peer.reads_in,
            reads_in: own.reads_in,
            max_region: own.max_region,
            receives: u32::MAX,
            remote_invalidation: true,
            local_fence: true,
        };
        let infos = (info(left, right), info(right, left));
        let automatic = config.automatic;
        let fabric = Fabric(Arc::new(Mutex::new(Net::new(config))));
        let end = |side, info| End { fabric: fabric.clone(), side, info, automatic };
        let ends = (end(Side::Left, infos.0), end(Side::Right, infos.1));
        (fabric, ends.0, ends.1)
    }

    /// Goes to the next thing that happens. False if nothing is under way.
    pub fn advance(&self) -> bool {
        self.with(Net::advance)
    }

    /// The virtual time since the connection was made.
    #[must_use]
    pub fn now(&self) -> Duration {
        self.lock().now()
    }

    /// How many things have happened.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.lock().steps()
    }

    /// Registrations of one end whose memory is not back with it.
    #[must_use]
    pub fn registered(&self, side: Side) -> usize {
        self.lock().registered(side)
    }

    /// Handles of one end that the other end can reach.
    #[must_use]
    pub fn exposed(&self, side: Side) -> Vec<u32> {
        self.lock().exposed(side)
    }

    /// Receives that one end has posted and that wait for a message.
    #[must_use]
    pub fn receives(&self, side: Side) -> u32 {
        self.lock().receives(side)
    }

    /// What became of the work that was on its way when the connection broke.
    #[must_use]
    pub fn lost_work(&self) -> LostWork {
        self.lock().lost_work
    }

    /// Cuts the connection: both ends hear of it at once, and nothing arrives any more.
    pub fn cut(&self) {
        self.with(|net| net.cut(CloseReason::Io("the connection was cut".into())));
    }

    /// Runs `what`, and wakes afterwards who waits for it.
    fn with<T>(&self, what: impl FnOnce(&mut Net) -> T) -> T {
        let mut net = self.lock();
        let result = what(&mut net);
        let wakers = net.take_wakers();
        drop(net);
        wakers.into_iter().for_each(Waker::wake);
        result
    }

    fn lock(&self) -> MutexGuard<'_, Net> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One end. Dropping it closes the connection.
#[derive(Debug)]
pub struct End {
    fabric: Fabric,
    side: Side,
    info: ConnectionInfo,
    automatic: bool,
}

impl End {
    /// The next completion, if there is one now.
    pub fn try_completion(&mut self) -> Option<Completion> {
        self.fabric.lock().next_completion(self.side)
    }
}

impl Connection for End {
    fn submit(&mut self, action: Action) {
        self.fabric.with(|net| net.submit(self.side, action));
    }

    fn poll_completion(&mut self, cx: &mut Context<'_>) -> Poll<Completion> {
        let (side, automatic) = (self.side, self.automatic);
        self.fabric.with(|net| {
            loop {
                if let Some(completion) = net.next_completion(side) {
                    return Poll::Ready(completion);
                }
                if !automatic || !net.advance() {
                    net.wait(side, cx.waker().clone());
                    return Poll::Pending;
                }
            }
        })
    }

    fn info(&self) -> &ConnectionInfo {
        &self.info
    }
}

impl Drop for End {
    fn drop(&mut self) {
        let automatic = self.automatic;
        self.fabric.with(|net| {
            net.submit(self.side, Action::Close { reason: CloseReason::Local });
            // It polls no more, and the other end may wait for what it said last.
            while automatic && net.advance() {}
        });
    }
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use rpcrdma_runtime::proto::work::{Memory, Segment, Token};

    use super::*;

    fn pair(seed: u64) -> (Fabric, End, End) {
        Fabric::pair(FabricConfig { seed, ..FabricConfig::default() })
    }

    fn drain(fabric: &Fabric, end: &mut End) -> Vec<Completion> {
        while fabric.advance() {}
        std::iter::from_fn(|| end.try_completion()).collect()
    }

    fn register(fabric: &Fabric, end: &mut End, memory: Memory) -> Segment {
        end.submit(Action::Register { token: Token(1), memory });
        match drain(fabric, end).pop() {
            Some(Completion::Registered { segment, .. }) => segment,
            other => panic!("{other:?}"),
        }
    }

    fn send(end: &mut End, text: &'static [u8], invalidate: Option<u32>) {
        end.submit(Action::Send { token: Token(9), message: vec![Bytes::from_static(text)], invalidate });
    }

    fn closed(completions: &[Completion]) -> Option<CloseReason> {
        match completions.last() {
            Some(Completion::Closed { reason, .. }) => Some(reason.clone()),
            _ => None,
        }
    }

    #[test]
    fn r005_a_write_is_placed_before_the_send_behind_it() {
        for seed in 0..50 {
            let (fabric, mut left, mut right) = pair(seed);
            let sink = register(&fabric, &mut left, Memory::Sink(BytesMut::zeroed(4)));
            left.submit(Action::PostReceives { count: 1 });
            right.submit(Action::Write { token: Token(1), sink, data: Bytes::from_static(b"data") });
            send(&mut right, b"done", None);
            while fabric.receives(Side::Left) == 1 {
                assert!(fabric.advance());
            }
            left.submit(Action::Invalidate { token: Token(2), handle: sink.handle });
            let memory = drain(&fabric, &mut left).pop();
            let Some(Completion::Invalidated { memory: Memory::Sink(memory), .. }) = memory else {
                panic!("{memory:?}")
            };
            assert_eq!(&memory[..], b"data");
        }
    }

    #[test]
    fn r008_a_send_without_a_receive_or_too_long_for_it_ends_the_connection() {
        for (posted, message) in [(0, &b"x"[..]), (1, &[0; 4097][..])] {
            let (fabric, mut left, mut right) = pair(1);
            right.submit(Action::PostReceives { count: posted });
            send(&mut left, message, None);
            let heard = drain(&fabric, &mut right);
            assert!(matches!(closed(&heard), Some(CloseReason::Violation(_))), "{heard:?}");
            let heard = drain(&fabric, &mut left);
            assert!(matches!(closed(&heard), Some(CloseReason::Terminated { .. })), "{heard:?}");
        }
    }

    #[test]
    fn a_read_brings_the_bytes_and_no_more_are_outstanding_than_agreed() {
        let (fabric, mut left, mut right) = pair(1);
        let source = register(&fabric, &mut left, Memory::Source(Bytes::from_static(b"bytes")));
        right.submit(Action::Read { token: Token(3), source });
        let heard = drain(&fabric, &mut right).pop();
        assert!(
            matches!(heard, Some(Completion::ReadDone { token: Token(3), data }) if data == b"bytes"[..])
        );
        for _ in 0..=right.info().reads_out {
            right.submit(Action::Read { token: Token(3), source });
        }
        assert!(closed(&drain(&fabric, &mut right)).is_some());
    }

    #[test]
    fn closing_gives_all_memory_back_and_is_the_last_thing_heard() {
        let (fabric, mut left, mut right) = pair(1);
        let _ = register(&fabric, &mut left, Memory::Sink(BytesMut::zeroed(4)));
        left.submit(Action::Register { token: Token(2), memory: Memory::Sink(BytesMut::zeroed(5)) });
        right.submit(Action::Close { reason: CloseReason::Local });
        left.submit(Action::PostReceives { count: 1 });
        fabric.cut();
        let heard = drain(&fabric, &mut left);
        let [Completion::Closed { returned, .. }] = &heard[..] else { panic!("{heard:?}") };
        assert_eq!(returned.iter().map(Memory::len).sum::<usize>(), 9);
        assert_eq!(closed(&drain(&fabric, &mut right)), Some(CloseReason::Local));
        assert_eq!(fabric.registered(Side::Left), 0);
    }

    #[test]
    fn a_side_that_closes_is_heard_behind_what_it_sent() {
        let (fabric, mut left, mut right) = pair(1);
        left.submit(Action::PostReceives { count: 1 });
        send(&mut right, b"last words", None);
        drop(right);
        let heard = drain(&fabric, &mut left);
        assert!(matches!(&heard[0], Completion::Received { message, .. } if *message == b"last words"[..]));
        assert_eq!(closed(&heard), Some(CloseReason::Peer));
    }

    #[test]
    fn the_same_seed_gives_the_same_run() {
        let run = |seed| {
            let (fabric, mut left, _right) = pair(seed);
            let segment = register(&fabric, &mut left, Memory::Sink(BytesMut::zeroed(4)));
            (segment, fabric.now())
        };
        assert_eq!(run(5), run(5));
        assert_ne!(run(5), run(6));
    }
}
