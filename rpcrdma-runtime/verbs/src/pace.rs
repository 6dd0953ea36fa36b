//! Enforces the minimum rate at which the work of a server completes.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rpcrdma_runtime::provider::MinRate;
use tokio::time::{Instant, Sleep, sleep};

/// The minimum rate applies only while the oldest work has at least this age, because a long round trip alone
/// does not mean a low rate.
const LATE: Duration = Duration::from_secs(1);
/// The oldest request must complete within this time, plus the time that the octets covered by its completion
/// take at the minimum rate.
const STALL: Duration = Duration::from_secs(30);

/// The posted work of a queue pair. Requests have consecutive numbers in the order of posting.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    /// The number of the oldest request.
    pub(super) oldest: u64,
    /// The number of the next request to be posted.
    pub(super) next: u64,
    /// Octets of the requests up to the first signaled request, whose completion also completes the oldest
    /// request.
    pub(super) octets: u64,
    /// Octets of all completed requests.
    pub(super) completed: u64,
}

/// Detects a peer that delays posted work.
pub(super) struct Pace {
    /// The minimum rate, in octets per second. Never 0.
    rate: u64,
    average: MinRate,
    /// The number of the oldest request, and the time at which that request became the oldest.
    oldest: (u64, Instant),
    /// A request number, and the time at which that request was the next to be posted. Replaced once all
    /// earlier requests are complete.
    mark: (u64, Instant),
    alarm: Pin<Box<Sleep>>,
}

impl Pace {
    /// Returns `None` if `rate` is 0, which allows any rate.
    pub(super) fn new(rate: u64) -> Option<Self> {
        let (average, alarm, now) = (MinRate::new(rate), Box::pin(sleep(STALL)), Instant::now());
        (rate > 0).then_some(Pace { rate, average, oldest: (u64::MAX, now), mark: (0, now), alarm })
    }

    /// Returns ready if the peer is too slow. `load` is `None` if no work is posted.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, load: Option<Load>) -> Poll<()> {
        let Some(Load { oldest, next, octets, completed }) = load else {
            self.average.is_missed(None);
            return Poll::Pending;
        };
        let now = Instant::now();
        if self.mark.0 <= oldest {
            self.mark = (next, now);
        }
        if self.oldest.0 != oldest {
            self.oldest = (oldest, now);
        }
        let is_late = now - self.mark.1 >= LATE;
        if self.average.is_missed(is_late.then_some(completed)) {
            return Poll::Ready(());
        }
        let deadline = self.oldest.1 + STALL + Duration::from_secs(octets / self.rate);
        loop {
            // An early wake-up is harmless and costs less than resetting the timer in each call.
            if self.alarm.deadline() > deadline || self.alarm.is_elapsed() {
                self.alarm.as_mut().reset(deadline);
            }
            ready!(self.alarm.as_mut().poll(cx));
            if Instant::now() >= deadline {
                return Poll::Ready(());
            }
        }
    }
}

// Miri takes minutes for thousands of timers, and this module has no unsafe code.
#[cfg(all(test, not(miri)))]
mod tests {
    use std::future::poll_fn;

    use tokio::time::timeout;

    use super::*;

    const RATE: u64 = 64 << 10;

    /// Keeps `depth` requests of `octets` octets each outstanding, and completes one request per interval
    /// `every`. Returns the time until `Pace` detects a slow peer, or `None` if that takes more than ten
    /// minutes.
    async fn too_slow(depth: u64, octets: u64, every: Duration) -> Option<Duration> {
        let (mut pace, began) = (Pace::new(RATE).expect("a rate"), Instant::now());
        for oldest in 0.. {
            let load = Load { oldest, next: oldest + depth, octets, completed: oldest * octets };
            let missed = timeout(every, poll_fn(|cx| pace.poll(cx, Some(load)))).await;
            if missed.is_ok() {
                return Some(began.elapsed());
            }
            if began.elapsed() > Duration::from_secs(600) {
                break;
            }
        }
        None
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_completes_little_is_too_slow() {
        let second = Duration::from_secs(1);
        assert_eq!(too_slow(64, RATE, second).await, None);
        assert_eq!(too_slow(64, RATE / 2, second).await.map(|time| time.as_secs()), Some(11));
        // Each request takes 64 s at the minimum rate, so one completion per minute is fast enough.
        assert_eq!(too_slow(8, 64 * RATE, 60 * second).await, None);
        assert_eq!(too_slow(8, 64 * RATE, 80 * second).await.map(|time| time.as_secs()), Some(160));
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_completes_nothing_is_too_slow() {
        let hour = Duration::from_secs(3600);
        assert_eq!(too_slow(1, 100, hour).await, Some(STALL));
        assert_eq!(too_slow(8, 64 * RATE, hour).await, Some(STALL + Duration::from_secs(64)));
    }

    /// Ten small replies are outstanding at any time. An acknowledgment after 0.5 s is fast enough, but an
    /// acknowledgment after 20 s is not.
    #[tokio::test(start_paused = true)]
    async fn a_long_round_trip_is_not_a_low_rate() {
        assert_eq!(too_slow(10, 100, Duration::from_millis(50)).await, None);
        assert!(too_slow(10, 100, Duration::from_secs(2)).await.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn only_outstanding_work_counts() {
        let mut pace = Pace::new(RATE).expect("a rate");
        for oldest in 0..100 {
            let load = Load { oldest, next: oldest + 1, octets: 100, completed: oldest * 100 };
            for (load, seconds) in [(Some(load), 5), (None, 60)] {
                let waited = timeout(Duration::from_secs(seconds), poll_fn(|cx| pace.poll(cx, load))).await;
                assert!(waited.is_err());
            }
        }
        assert!(Pace::new(0).is_none());
    }
}
