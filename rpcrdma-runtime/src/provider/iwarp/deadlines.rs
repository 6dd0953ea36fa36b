use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

use super::IwarpOptions;
use crate::proto::iwarp::PROGRESS_COUNTERS as COUNTERS;
use crate::provider::MinRate;

/// Maximum number of probes for a silent peer.
const MAX_PROBES: u32 = 8;
/// The initial delay of the timer, before any deadline is set.
const NO_DEADLINE: Duration = Duration::from_secs(3600);
/// The maximum time limit: a year, so that deadlines do not exceed the maximum `Instant`.
const MAX_LIMIT: Duration = Duration::from_secs(365 * 24 * 3600);

pub(super) struct Deadlines {
    stall: Duration,
    linger: Duration,
    timer: Pin<Box<Sleep>>,
    sending: Since,
    input: [Since; COUNTERS],
    output: MinRate,
    reads: MinRate,
    flushing: Since,
    closing: Since,
    probe: Option<Probe>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Progress {
    /// Octets written to TCP so far, or `None` if no output is queued.
    pub(super) sending: Option<u64>,
    /// The counters of `Stream::peer_progress`, one for each kind of data. A counter is `None` if no such
    /// data is outstanding.
    pub(super) input: [Option<u64>; COUNTERS],
    /// The stream has ended, and the socket is still open for writing.
    pub(super) flushing: bool,
    /// The socket is closed for writing, and the peer has not closed its direction.
    pub(super) closing: bool,
    /// Output was sent, none is left, and the peer has not sent anything since the MPA handshake.
    pub(super) silent: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expired {
    /// The peer accepts output too slowly, or not at all.
    Sending,
    /// Expected input did not arrive, or arrived too slowly.
    Receiving,
    /// The peer does not close the connection.
    Closing,
    /// The peer has sent nothing: a probe is due.
    Silent,
}

/// The time since which a counter has not changed.
#[derive(Default)]
struct Since(Option<(u64, Instant)>);

impl Since {
    fn update(&mut self, counter: Option<u64>) -> Option<Instant> {
        match (counter, self.0) {
            (None, _) => self.0 = None,
            (Some(now), Some((then, _))) if now == then => {}
            (Some(now), _) => self.0 = Some((now, Instant::now())),
        }
        self.0.map(|(_, at)| at)
    }
}

fn expiry(since: Option<Instant>, limit: Duration, what: Expired) -> Option<(Instant, Expired)> {
    Some((since?.checked_add(limit.min(MAX_LIMIT))?, what))
}

struct Probe {
    remaining: u32,
    delay: Duration,
    since: Since,
}

impl Deadlines {
    /// Only a server requires a minimum rate: a client must allow for a server that delays calls to save
    /// memory.
    pub(super) fn new(options: &IwarpOptions, is_client: bool) -> Self {
        let probe = options.probe.filter(|_| is_client);
        let rate = if is_client { 0 } else { options.min_rate };
        Deadlines {
            stall: options.stall_timeout,
            linger: options.linger,
            timer: Box::pin(sleep_until(Instant::now() + NO_DEADLINE)),
            sending: Since::default(),
            input: Default::default(),
            output: MinRate::new(rate),
            reads: MinRate::new(rate),
            flushing: Since::default(),
            closing: Since::default(),
            probe: probe.map(|delay| Probe { remaining: MAX_PROBES, delay, since: Since::default() }),
        }
    }

    /// Returns the first expired deadline. Otherwise, wakes the task when the next deadline may have expired.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, progress: Progress) -> Poll<Expired> {
        if self.output.is_missed(progress.sending) {
            return Poll::Ready(Expired::Sending);
        }
        let [.., reads] = progress.input;
        if self.reads.is_missed(reads) {
            return Poll::Ready(Expired::Receiving);
        }
        loop {
            let Some((deadline, expired)) = self.next(progress) else { return Poll::Pending };
            // An early wake-up is harmless and costs less than resetting the timer each time.
            if deadline < self.timer.deadline() || self.timer.is_elapsed() {
                self.timer.as_mut().reset(deadline);
            }
            if self.timer.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            if Instant::now() >= deadline {
                self.record(expired);
                return Poll::Ready(expired);
            }
            self.timer.as_mut().reset(deadline);
        }
    }

    fn next(&mut self, progress: Progress) -> Option<(Instant, Expired)> {
        let sending = expiry(self.sending.update(progress.sending), self.stall, Expired::Sending);
        let counters = self.input.iter_mut().zip(progress.input);
        // Lazy: `min_by_key` below consumes each element, and so updates each counter.
        let receiving =
            counters.map(|(since, counter)| expiry(since.update(counter), self.stall, Expired::Receiving));
        // These two deadlines ignore the counters, so they expire even if the peer makes progress.
        let flushing = self.flushing.update(progress.flushing.then_some(0));
        let closing = self.closing.update(progress.closing.then_some(0));
        let ending =
            [expiry(flushing, self.stall, Expired::Sending), expiry(closing, self.linger, Expired::Closing)];
        let silent = self.probe.as_mut().and_then(|probe| {
            let counter = (progress.silent && probe.remaining > 0).then_some(u64::from(probe.remaining));
            expiry(probe.since.update(counter), probe.delay, Expired::Silent)
        });
        let all = [sending].into_iter().chain(receiving).chain(ending).chain([silent]);
        // Of equal deadlines, the first one wins.
        all.flatten().min_by_key(|(deadline, _)| *deadline)
    }

    fn record(&mut self, expired: Expired) {
        if let (Expired::Silent, Some(probe)) = (expired, &mut self.probe) {
            probe.remaining = probe.remaining.saturating_sub(1);
            probe.delay = probe.delay.saturating_mul(2);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    const NOTHING: Progress =
        Progress { sending: None, input: [None; COUNTERS], flushing: false, closing: false, silent: false };

    fn deadlines(stall: Duration, linger: Duration) -> Deadlines {
        Deadlines::new(&IwarpOptions { stall_timeout: stall, linger, ..IwarpOptions::default() }, false)
    }

    /// Polls the deadlines every second with the progress of that second. Returns the time in seconds and the
    /// kind of the first deadline to expire, or `None` after 100 s.
    async fn trickle(
        deadlines: &mut Deadlines,
        progress: impl Fn(u64) -> Progress,
    ) -> Option<(u64, Expired)> {
        for second in 0..100 {
            let expired = poll_fn(|cx| deadlines.poll(cx, progress(second)));
            if let Ok(expired) = tokio::time::timeout(Duration::from_secs(1), expired).await {
                return Some((second, expired));
            }
        }
        None
    }

    #[tokio::test(start_paused = true)]
    async fn a_trickling_peer_times_out() {
        let sending = |second| Progress { sending: Some(second), ..NOTHING };
        let mut any_rate = Deadlines::new(&IwarpOptions { min_rate: 0, ..IwarpOptions::default() }, false);
        assert_eq!(trickle(&mut any_rate, sending).await, None, "with `min_rate` 0, output may trickle");
        let flushing = |second| Progress { flushing: true, ..sending(second) };
        let ended = trickle(&mut any_rate, flushing).await;
        assert!(matches!(ended, Some((29..=30, Expired::Sending))), "{ended:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_requires_a_minimum_rate() {
        let sending = |second| Progress { sending: Some(second), ..NOTHING };
        let reads = |second| Progress { input: [None, None, None, Some(second)], ..NOTHING };
        let mut server = Deadlines::new(&IwarpOptions::default(), false);
        let ended = trickle(&mut server, sending).await;
        assert!(matches!(ended, Some((9..=10, Expired::Sending))), "{ended:?}");
        let mut server = Deadlines::new(&IwarpOptions::default(), false);
        let ended = trickle(&mut server, reads).await;
        assert!(matches!(ended, Some((9..=10, Expired::Receiving))), "{ended:?}");
        let mut server = Deadlines::new(&IwarpOptions::default(), false);
        let fast = |second| Progress { sending: Some(second << 17), ..NOTHING };
        assert_eq!(trickle(&mut server, fast).await, None);
        let mut client = Deadlines::new(&IwarpOptions::default(), true);
        assert_eq!(trickle(&mut client, sending).await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn progress_of_one_input_does_not_extend_other_deadlines() {
        let mut both = deadlines(Duration::from_secs(30), Duration::from_secs(1));
        let input = |second| Progress { input: [None, Some(second), None, Some(7)], ..NOTHING };
        let ended = trickle(&mut both, input).await;
        assert!(matches!(ended, Some((29..=30, Expired::Receiving))), "{ended:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn maximum_durations_do_not_overflow() {
        let mut patient = deadlines(Duration::MAX, Duration::MAX);
        let all = Progress {
            sending: Some(0),
            input: [Some(0); COUNTERS],
            flushing: true,
            closing: true,
            silent: true,
        };
        assert_eq!(trickle(&mut patient, |_| all).await, None);
    }
}
