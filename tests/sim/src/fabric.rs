//! An in-memory provider that runs in virtual time, for tests and simulations.
//!
//! The provider enforces the rules of RDMA hardware:
//!
//! - A Send needs a posted Receive that is large enough.
//! - A handle has access rights, bounds and a lifetime.
//! - The number of outstanding RDMA Reads never exceeds the negotiated limit.
//! - The data of an RDMA Write is placed before later Sends from the same peer arrive.
//! - A violation ends the connection.
//!
//! Within these rules, events happen in any order that hardware allows, after delays that depend on the seed.
//! The same seed and the same actions repeat the same run. [`Faults`] injects errors.
//!
//! Time is virtual: [`Fabric::advance`] runs the next event. An [`automatic`](FabricConfig::automatic) fabric
//! also advances when an end is dropped or is polled without a pending completion.

mod net;
mod reads;
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
pub use self::reads::ReadRegions;

/// One of the two peers of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The first end that [`Fabric::pair`] returns.
    Left,
    /// The second end that [`Fabric::pair`] returns.
    Right,
}

impl Side {
    /// Returns the opposite peer.
    #[must_use]
    pub fn other(self) -> Side {
        match self {
            Side::Left => Side::Right,
            Side::Right => Side::Left,
        }
    }
}

/// The configuration of one end.
#[derive(Clone, Debug)]
pub struct EndConfig {
    /// The private data to send during the handshake.
    pub private_data: Bytes,
    /// The size of each Receive of this end, in bytes (default 4,096).
    pub receive_size: u32,
    /// The IRD: the maximum number of outstanding RDMA Reads of the peer (default 16).
    pub ird: u32,
    /// The size of the largest region that this end can register, in bytes (default: `u32::MAX`).
    pub max_region: u32,
}

impl Default for EndConfig {
    fn default() -> Self {
        EndConfig { private_data: Bytes::new(), receive_size: 4096, ird: 16, max_region: u32::MAX }
    }
}

/// Injected faults. Probabilities are in units of 1/10,000.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// Breaks the connection at the event with this number, at a random octet of the outstanding data in each
    /// direction. Data after that octet is lost.
    ///
    /// One peer learns of the break at once and receives no more data. The other peer learns of the break
    /// later, and loses all Sends and RDMA Reads and Writes that it submits until then. Until then, data
    /// before the random octet may arrive at that peer, including the first part of an RDMA Write. All other
    /// faults that end a connection have the same effects.
    pub cut_at: Option<u64>,
    /// The probability that a registration fails.
    pub register: u32,
    /// The probability that an RDMA Read fails and breaks the connection.
    pub read: u32,
    /// The probability that an RDMA Write fails and breaks the connection. Some or all of the data may
    /// still be placed.
    pub write: u32,
    /// The probability that a Send fails and breaks the connection. The message may still arrive.
    pub send: u32,
}

/// Counts of the work that was outstanding when a connection broke. Messages that are dropped because their
/// receiver has learned of the break are not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LostWork {
    /// RDMA Writes that the break truncated. Their first octets may have been placed.
    pub writes: u64,
    /// RDMA Reads that never completed because the request or the response was lost.
    pub reads: u64,
    /// Sends in flight that did not arrive. Their sender may have received a completion.
    pub lost_sends: u64,
    /// Sends that arrived after their sender had learned of the break.
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

/// The configuration of a fabric.
#[derive(Clone, Debug)]
pub struct FabricConfig {
    /// The seed for handles, offsets, delays and faults.
    pub seed: u64,
    /// The configurations of the left and the right end.
    pub ends: [EndConfig; 2],
    /// The maximum delay of one event (default 1 ms).
    pub delay: Duration,
    /// The injected faults (default: none).
    pub faults: Faults,
    /// True if polling or dropping an end runs events (default: false).
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

/// Controls and observes the connection between two [`End`]s.
#[derive(Clone, Debug)]
pub struct Fabric(Arc<Mutex<Net>>);

impl Fabric {
    /// Creates a fabric and its left and right ends.
    #[must_use]
    pub fn pair(config: FabricConfig) -> (Fabric, End, End) {
        let [left, right] = &config.ends;
        let info = |own: &EndConfig, peer: &EndConfig| ConnectionInfo {
            local: None,
            peer: None,
            private_data: peer.private_data.clone(),
            ord: peer.ird,
            ird: own.ird,
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

    /// Runs the next event. Returns false if no event is left.
    pub fn advance(&self) -> bool {
        self.with(Net::advance)
    }

    /// Returns the virtual time since the connection was created.
    #[must_use]
    pub fn now(&self) -> Duration {
        self.lock().now()
    }

    /// Returns the number of events so far.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.lock().steps()
    }

    /// Returns the number of regions of `side` whose memory the provider has not returned.
    #[must_use]
    pub fn registered(&self, side: Side) -> usize {
        self.lock().registered(side)
    }

    /// Returns the handles of `side` that its peer can access.
    #[must_use]
    pub fn exposed(&self, side: Side) -> Vec<u32> {
        self.lock().exposed(side)
    }

    /// Returns the number of Receives that `side` has posted and that no message has used.
    #[must_use]
    pub fn receives(&self, side: Side) -> u32 {
        self.lock().receives(side)
    }

    /// Returns the counts of the work that was outstanding when the connection broke.
    #[must_use]
    pub fn lost_work(&self) -> LostWork {
        self.lock().lost_work
    }

    /// Cuts the connection. Both peers learn of the cut at once, and all outstanding data is lost.
    pub fn cut(&self) {
        self.with(|net| net.cut(CloseReason::Io("the connection was cut".into())));
    }

    /// Runs `update`, and then wakes the waiting tasks for which completions have arrived.
    fn with<T>(&self, update: impl FnOnce(&mut Net) -> T) -> T {
        let mut net = self.lock();
        let result = update(&mut net);
        let wakers = net.take_wakers();
        drop(net);
        wakers.into_iter().for_each(Waker::wake);
        result
    }

    fn lock(&self) -> MutexGuard<'_, Net> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One end of a connection. Dropping it closes the connection.
#[derive(Debug)]
pub struct End {
    fabric: Fabric,
    side: Side,
    info: ConnectionInfo,
    automatic: bool,
}

impl End {
    /// Returns the next completion, if any, without waiting.
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
            // This end is not polled again, so deliver its last messages to the peer.
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
    fn r005_a_write_is_placed_before_the_next_send_arrives() {
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
    fn r008_a_send_that_has_no_receive_or_exceeds_its_receive_ends_the_connection() {
        for (posted, message) in [(0, &b"x"[..]), (1, &[0; 4097][..])] {
            let (fabric, mut left, mut right) = pair(1);
            right.submit(Action::PostReceives { count: posted });
            send(&mut left, message, None);
            let completions = drain(&fabric, &mut right);
            assert!(matches!(closed(&completions), Some(CloseReason::Violation(_))), "{completions:?}");
            let completions = drain(&fabric, &mut left);
            assert!(matches!(closed(&completions), Some(CloseReason::Terminated { .. })), "{completions:?}");
        }
    }

    #[test]
    fn a_read_returns_the_bytes_and_too_many_outstanding_reads_close_the_connection() {
        let (fabric, mut left, mut right) = pair(1);
        let source = register(&fabric, &mut left, Memory::Source(Bytes::from_static(b"bytes")));
        right.submit(Action::read(Token(3), source));
        let completions = drain(&fabric, &mut right).pop();
        assert!(
            matches!(completions, Some(Completion::ReadDone { token: Token(3), data }) if data == b"bytes"[..])
        );
        for _ in 0..=right.info().ord {
            right.submit(Action::read(Token(3), source));
        }
        assert!(closed(&drain(&fabric, &mut right)).is_some());
    }

    #[test]
    fn closing_returns_all_memory_in_the_last_completion() {
        let (fabric, mut left, mut right) = pair(1);
        let _ = register(&fabric, &mut left, Memory::Sink(BytesMut::zeroed(4)));
        left.submit(Action::Register { token: Token(2), memory: Memory::Sink(BytesMut::zeroed(5)) });
        right.submit(Action::Close { reason: CloseReason::Local });
        left.submit(Action::PostReceives { count: 1 });
        fabric.cut();
        let completions = drain(&fabric, &mut left);
        let [Completion::Closed { returned, .. }] = &completions[..] else { panic!("{completions:?}") };
        assert_eq!(returned.iter().map(Memory::len).sum::<usize>(), 9);
        assert_eq!(closed(&drain(&fabric, &mut right)), Some(CloseReason::Local));
        assert_eq!(fabric.registered(Side::Left), 0);
    }

    #[test]
    fn a_close_arrives_after_the_last_send() {
        let (fabric, mut left, mut right) = pair(1);
        left.submit(Action::PostReceives { count: 1 });
        send(&mut right, b"last words", None);
        drop(right);
        let completions = drain(&fabric, &mut left);
        assert!(
            matches!(&completions[0], Completion::Received { message, .. } if *message == b"last words"[..])
        );
        assert_eq!(closed(&completions), Some(CloseReason::Peer));
    }

    #[test]
    fn equal_seeds_give_equal_runs() {
        let run = |seed| {
            let (fabric, mut left, _right) = pair(seed);
            let segment = register(&fabric, &mut left, Memory::Sink(BytesMut::zeroed(4)));
            (segment, fabric.now())
        };
        assert_eq!(run(5), run(5));
        assert_ne!(run(5), run(6));
    }
}
