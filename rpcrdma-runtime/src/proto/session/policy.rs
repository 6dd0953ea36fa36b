use core::time::Duration;

use crate::proto::random::Rng;
use crate::proto::time::Time;

/// The timeouts and the reconnection settings of a [`Session`](super::Session).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The default timeout of a call, from its submission to its reply (default 60 s). It includes waiting
    /// for a connection and for a credit, and all retransmissions.
    pub timeout: Duration,
    /// How long a connection may be idle before the session closes it (default 5 minutes, as in Linux). The
    /// next call opens a new connection. If `None`, or if the session does not reconnect, idle connections
    /// stay open.
    pub idle: Option<Duration>,
    /// How long the peer may be silent while a timed-out call holds a credit (default 30 s). After this time,
    /// the session closes the connection.
    pub max_silence: Duration,
    /// Keeps the session connected after its first connection, even without calls (default false). The
    /// session then ignores `idle`. If `reconnect` is set, the session replaces a lost connection at once or
    /// after the backoff. Intended for clients that accept backward-direction calls (RFC 8167 section 5.4).
    pub keep: bool,
    /// How to replace a lost connection. With `None`, the end of the connection fails all calls and ends the
    /// session.
    pub reconnect: Option<Reconnect>,
    #[doc(hidden)]
    pub non_exhaustive: (),
}

impl Policy {
    /// Returns how long a connection may be idle. Returns `None` if an idle connection is never closed, for
    /// example because it cannot be replaced.
    pub(super) fn idle_limit(&self) -> Option<Duration> {
        self.idle.filter(|_| !self.keep && self.reconnect.is_some())
    }
}

impl Default for Policy {
    fn default() -> Self {
        Policy {
            timeout: Duration::from_secs(60),
            idle: Some(Duration::from_secs(300)),
            max_silence: Duration::from_secs(30),
            keep: false,
            reconnect: Some(Reconnect::default()),
            non_exhaustive: (),
        }
    }
}

/// How a session reconnects, and which calls it retransmits.
///
/// ```
/// use rpcrdma_runtime::{Backoff, ClientOptions, Reconnect};
/// use std::time::Duration;
///
/// // No call runs twice, and waiting calls fail after three consecutive failed attempts.
/// let backoff = Backoff { max: Duration::from_secs(2), ..Backoff::default() };
/// let reconnect = Reconnect { retransmit: false, attempts: Some(3), backoff, ..Reconnect::default() };
/// let options = ClientOptions { reconnect: Some(reconnect), ..ClientOptions::default() };
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reconnect {
    /// Whether to retransmit a sent call on the new connection, with the same XID and the same bytes (default
    /// true). The call may then run twice, unless the server's duplicate-request cache tracks it. A call that
    /// must not run twice can opt out ([`SessionCall::retransmit`](super::SessionCall::retransmit)). A call
    /// that has not been sent yet always waits for the new connection.
    pub retransmit: bool,
    /// The maximum number of connections on which a call is sent (default 5, at least 1). If all these
    /// connections are lost, the call fails. Other calls can then proceed even if this call breaks every
    /// connection.
    pub sends: u32,
    /// After this many consecutive failed attempts (at least 1), waiting calls fail with
    /// [`TransportError::Unreachable`](crate::proto::call::TransportError::Unreachable). By default (`None`),
    /// each call waits until it times out. A connection that is lost before the peer answers a call may also
    /// count as a failed attempt ([`Backoff`]). The number should exceed [`Reconnect::sends`]: otherwise, a
    /// call that breaks every connection makes all calls fail.
    pub attempts: Option<u32>,
    /// The delay before each attempt after a failure.
    pub backoff: Backoff,
    #[doc(hidden)]
    pub non_exhaustive: (),
}

impl Default for Reconnect {
    fn default() -> Self {
        Reconnect {
            retransmit: true,
            sends: 5,
            attempts: None,
            backoff: Backoff::default(),
            non_exhaustive: (),
        }
    }
}

/// The delay before a session reconnects. The first attempt after a working connection is immediate. A
/// connection that is lost before the peer answers a call counts as a failed attempt, if calls needed the
/// connection or [`Policy::keep`] is set. [`Reconnect`] has an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The delay after the first failure (default 250 ms).
    pub initial: Duration,
    /// The factor by which the delay grows after each further failure (default 2).
    pub factor: u32,
    /// The maximum delay (default 30 s, as in Linux).
    pub max: Duration,
    /// The random part of each delay, in percent. At the default of 50, the actual delay is 50 to 100 percent
    /// of the computed delay. Jitter keeps the clients of a restarted server from reconnecting at the same
    /// moment.
    pub jitter: u32,
    #[doc(hidden)]
    pub non_exhaustive: (),
}

impl Default for Backoff {
    fn default() -> Self {
        Backoff {
            initial: Duration::from_millis(250),
            factor: 2,
            max: Duration::from_secs(30),
            jitter: 50,
            non_exhaustive: (),
        }
    }
}

impl Backoff {
    fn max_delay(&self, failures: u32) -> Duration {
        let times = self.factor.max(1).saturating_pow(failures.saturating_sub(1));
        self.initial.saturating_mul(times).min(self.max)
    }

    fn delay(&self, failures: u32, rng: &mut Rng) -> Duration {
        let max = self.max_delay(failures);
        let random = u64::try_from(max.as_nanos()).unwrap_or(u64::MAX).checked_div(100).unwrap_or(0);
        let random = random.saturating_mul(u64::from(self.jitter.min(100)));
        max.saturating_sub(Duration::from_nanos(rng.below(random.saturating_add(1))))
    }
}

/// The failed connection attempts since the last working connection, and the earliest time of the next
/// attempt.
#[derive(Debug)]
pub(super) struct Attempts {
    rng: Rng,
    failures: u32,
    /// The number of failures since the last working connection or the last report of unreachable calls,
    /// whichever is later.
    pub(super) unreported: u32,
    pub(super) not_before: Time,
    pub(super) error: Option<alloc::string::String>,
}

impl Attempts {
    pub(super) fn new(seed: u64) -> Self {
        Attempts { rng: Rng::new(seed), failures: 0, unreported: 0, not_before: Time::default(), error: None }
    }

    pub(super) fn succeeded(&mut self) {
        self.failures = 0;
        self.unreported = 0;
        self.not_before = Time::default();
        self.error = None;
    }

    pub(super) fn failed(&mut self, now: Time, backoff: &Backoff) {
        self.failures = self.failures.saturating_add(1);
        self.unreported = self.unreported.saturating_add(1);
        let delay = backoff.delay(self.failures, &mut self.rng);
        self.not_before = now.after(delay).unwrap_or(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    #[test]
    fn delays_grow_up_to_the_maximum() {
        let backoff = Backoff { initial: MS(100), factor: 3, max: MS(2000), jitter: 0, ..Backoff::default() };
        let mut rng = Rng::new(1);
        let delays: Vec<_> = (1..6).map(|failures| backoff.delay(failures, &mut rng)).collect();
        assert_eq!(delays, [MS(100), MS(300), MS(900), MS(2000), MS(2000)]);
        assert_eq!(backoff.delay(u32::MAX, &mut rng), MS(2000));
        let (initial, max) = (Duration::MAX, Duration::MAX);
        let none = Backoff { initial, factor: 0, max, jitter: 300, ..Backoff::default() };
        assert!(none.delay(9, &mut rng) <= Duration::MAX);
    }

    #[test]
    fn jitter_shortens_delays_and_differs_between_seeds() {
        let backoff = Backoff { initial: MS(1000), max: MS(1000), ..Backoff::default() };
        let delays = |seed| {
            let mut rng = Rng::new(seed);
            [(); 200].map(|()| backoff.delay(1, &mut rng))
        };
        assert!(delays(1).iter().all(|delay| (MS(500)..=MS(1000)).contains(delay)));
        assert!(
            delays(1).iter().any(|delay| *delay < MS(600)) && delays(1).iter().any(|delay| *delay > MS(900))
        );
        assert_ne!(delays(1), delays(2));
    }

    #[test]
    fn a_working_connection_resets_the_backoff() {
        let backoff = Backoff { jitter: 0, ..Backoff::default() };
        let mut attempts = Attempts::new(1);
        attempts.failed(Time(MS(1000)), &backoff);
        attempts.failed(Time(MS(2000)), &backoff);
        assert_eq!(attempts.not_before, Time(MS(2500)));
        attempts.succeeded();
        attempts.failed(Time(MS(3000)), &backoff);
        assert_eq!(attempts.not_before, Time(MS(3250)));
    }
}
