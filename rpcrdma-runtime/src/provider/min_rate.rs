use std::time::Duration;

use tokio::time::Instant;

/// The minimum time over which the rate is averaged.
const WINDOW: Duration = Duration::from_secs(10);

/// The minimum rate at which a peer must accept output or send expected data. The rate applies to peers that
/// make progress: a stalled peer has a separate time limit.
#[derive(Debug)]
pub struct MinRate {
    /// The minimum rate, in octets per second.
    rate: u64,
    /// The progress and the time at the start of the current window.
    start: Option<(u64, Instant)>,
}

impl MinRate {
    /// Returns a check for a minimum rate in octets per second, averaged over at least 10 s. With a rate of
    /// 0, [`MinRate::is_missed`] always returns false.
    #[must_use]
    pub fn new(rate: u64) -> Self {
        MinRate { rate, start: None }
    }

    /// Returns true if the peer is too slow. `progress` is the number of octets transferred so far, or
    /// `None` if no progress is expected.
    pub fn is_missed(&mut self, progress: Option<u64>) -> bool {
        let Some(now) = progress.filter(|_| self.rate > 0) else {
            self.start = None;
            return false;
        };
        let Some((then, at)) = self.start else {
            self.start = Some((now, Instant::now()));
            return false;
        };
        let elapsed = if now == then { Duration::ZERO } else { at.elapsed() };
        if elapsed < WINDOW {
            return false;
        }
        self.start = Some((now, Instant::now()));
        now.wrapping_sub(then) < self.rate.saturating_mul(elapsed.as_secs())
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;

    /// Checks a peer for 100 s with a minimum rate of 1,000 octets per second. The peer sends `octets` octets
    /// every `every` seconds. Returns the time in seconds at which `is_missed` first returns true, or `None`.
    async fn missed(every: u64, octets: u64) -> Option<u64> {
        let mut rate = MinRate::new(1000);
        for time in 0..=100 / every {
            if rate.is_missed(Some(time * octets)) {
                return Some(time * every);
            }
            sleep(Duration::from_secs(every)).await;
        }
        None
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_trickles_is_too_slow() {
        assert_eq!(missed(1, 1000).await, None);
        assert_eq!(missed(1, 999).await, Some(10));
        assert_eq!(missed(29, 1).await, Some(29));
        assert_eq!(missed(29, 29_000).await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn only_time_with_expected_progress_counts() {
        let mut rate = MinRate::new(1000);
        for time in 0..100 {
            assert!(!rate.is_missed(Some(time)));
            sleep(Duration::from_secs(5)).await;
            assert!(!rate.is_missed(None));
        }
        let mut off = MinRate::new(0);
        for time in 0..100 {
            assert!(!off.is_missed(Some(time)));
            sleep(Duration::from_secs(5)).await;
        }
    }
}
