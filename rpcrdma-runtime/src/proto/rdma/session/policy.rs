//! How patient a session is.

use core::time::Duration;

use crate::proto::random::Rng;
use crate::proto::time::Time;

/// What a [`Session`](super::Session) does about time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// How long a call may take that does not say otherwise, from its submission to its reply: waiting for a connection
    /// and for a credit included, and all connections on which it is sent (default 60 s).
    pub timeout: Duration,
    /// A connection without calls is closed after this time, and the next call makes a new one (default 5 minutes,
    /// Linux's; `None` keeps it, and so does a session that does not reconnect).
    pub idle: Option<Duration>,
    /// Once there was a connection there is to be one, with calls or without (default false): `idle` closes none, and
    /// when it is lost the next one is made at once or after the wait between attempts. For a client that may be called
    /// (RFC 8167 section 5.4).
    pub keep: bool,
    /// What happens when a connection ends that was still needed. `None`: its calls fail, and the session is over.
    pub reconnect: Option<Reconnect>,
}

impl Policy {
    /// How long a connection without calls stands, if not for ever: one that cannot be made again is not closed.
    pub(super) fn idle_limit(&self) -> Option<Duration> {
        self.idle.filter(|_| !self.keep && self.reconnect.is_some())
    }
}

impl Default for Policy {
    fn default() -> Self {
        Policy {
            timeout: Duration::from_secs(60),
            idle: Some(Duration::from_secs(300)),
            keep: false,
            reconnect: Some(Reconnect::default()),
        }
    }
}

/// How a session comes by a new connection, and what it sends there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reconnect {
    /// Whether a call that was sent is sent again on the new connection, with the same XID and the same bytes (default
    /// true). The server may run it twice then, unless it has a duplicate-request cache: a call of a procedure that
    /// must not be run twice can say that it is not to be sent again ([`Call::retransmit`](super::Call::retransmit)), or
    /// none is. A call that was not sent yet waits for the new connection in any case.
    pub retransmit: bool,
    /// On how many connections a call may be sent (default 5, at least 1). One that takes every connection with it ends
    /// so, and does not take those behind it along for ever.
    pub sends: u32,
    /// After how many failed attempts in a row, at least 1, the calls that wait fail with
    /// [`FailReason::Unreachable`](super::super::FailReason::Unreachable) (default `None`: each waits until its time is
    /// up).
    pub attempts: Option<u32>,
    /// How long it waits between attempts.
    pub backoff: Backoff,
}

impl Default for Reconnect {
    fn default() -> Self {
        Reconnect { retransmit: true, sends: 5, attempts: None, backoff: Backoff::default() }
    }
}

/// How long a session waits before it connects again. The first attempt after a connection that worked is made at
/// once. A connection on which calls waited and nothing was answered counts as a failed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// After the first failure (default 250 ms).
    pub initial: Duration,
    /// How many times as long after each further one (default 2).
    pub factor: u32,
    /// The longest wait (default 30 s, Linux's).
    pub max: Duration,
    /// How much of each wait is left to chance, in percent (default 50: between half of it and all of it), so that the
    /// clients of a server that comes back do not come back all at once.
    pub jitter: u32,
}

impl Default for Backoff {
    fn default() -> Self {
        Backoff { initial: Duration::from_millis(250), factor: 2, max: Duration::from_secs(30), jitter: 50 }
    }
}

impl Backoff {
    /// The longest wait after so many failures in a row.
    fn ceiling(&self, failures: u32) -> Duration {
        let times = self.factor.max(1).saturating_pow(failures.saturating_sub(1));
        self.initial.saturating_mul(times).min(self.max)
    }

    /// The wait after so many failures in a row.
    fn wait(&self, failures: u32, rng: &mut Rng) -> Duration {
        let longest = self.ceiling(failures);
        let random = u64::try_from(longest.as_nanos()).unwrap_or(u64::MAX).checked_div(100).unwrap_or(0);
        let random = random.saturating_mul(u64::from(self.jitter.min(100)));
        longest.saturating_sub(Duration::from_nanos(rng.below(random.saturating_add(1))))
    }
}

/// The attempts to connect since the last connection that worked.
#[derive(Debug)]
pub(super) struct Attempts {
    rng: Rng,
    failures: u32,
    /// Failures since calls were last told that there is no connection.
    pub(super) untold: u32,
    /// When the next one may be made.
    pub(super) not_before: Time,
    /// Why the last one failed.
    pub(super) why: Option<alloc::string::String>,
}

impl Attempts {
    pub(super) fn new(seed: u64) -> Self {
        Attempts { rng: Rng::new(seed), failures: 0, untold: 0, not_before: Time::default(), why: None }
    }

    /// A connection works.
    pub(super) fn worked(&mut self) {
        self.failures = 0;
        self.untold = 0;
        self.not_before = Time::default();
        self.why = None;
    }

    pub(super) fn failed(&mut self, now: Time, backoff: &Backoff) {
        self.failures = self.failures.saturating_add(1);
        self.untold = self.untold.saturating_add(1);
        let wait = backoff.wait(self.failures, &mut self.rng);
        self.not_before = now.after(wait).unwrap_or(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    #[test]
    fn waits_grow_up_to_the_longest() {
        let backoff = Backoff { initial: MS(100), factor: 3, max: MS(2000), jitter: 0 };
        let mut rng = Rng::new(1);
        let waits: Vec<_> = (1..6).map(|failures| backoff.wait(failures, &mut rng)).collect();
        assert_eq!(waits, [MS(100), MS(300), MS(900), MS(2000), MS(2000)]);
        assert_eq!(backoff.wait(u32::MAX, &mut rng), MS(2000));
        let none = Backoff { initial: Duration::MAX, factor: 0, max: Duration::MAX, jitter: 300 };
        assert!(none.wait(9, &mut rng) <= Duration::MAX);
    }

    #[test]
    fn chance_shortens_a_wait_by_its_part_and_differs_between_seeds() {
        let backoff = Backoff { initial: MS(1000), factor: 2, max: MS(1000), jitter: 50 };
        let waits = |seed| {
            let mut rng = Rng::new(seed);
            [(); 200].map(|()| backoff.wait(1, &mut rng))
        };
        assert!(waits(1).iter().all(|wait| (MS(500)..=MS(1000)).contains(wait)));
        assert!(waits(1).iter().any(|wait| *wait < MS(600)) && waits(1).iter().any(|wait| *wait > MS(900)));
        assert_ne!(waits(1), waits(2));
    }

    #[test]
    fn what_works_begins_anew() {
        let backoff = Backoff { jitter: 0, ..Backoff::default() };
        let mut attempts = Attempts::new(1);
        attempts.failed(Time(MS(1000)), &backoff);
        attempts.failed(Time(MS(2000)), &backoff);
        assert_eq!(attempts.not_before, Time(MS(2500)));
        attempts.worked();
        attempts.failed(Time(MS(3000)), &backoff);
        assert_eq!(attempts.not_before, Time(MS(3250)));
    }
}
