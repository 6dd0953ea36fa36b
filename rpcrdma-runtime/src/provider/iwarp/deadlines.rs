use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

use super::Options;

/// How often a silent peer is nudged.
const NUDGES: u32 = 8;
/// How far away the alarm is put when nothing is waited for.
const FAR: Duration = Duration::from_secs(3600);

/// What a connection waits for, and for how long it does.
pub(super) struct Deadlines {
    stall: Duration,
    linger: Duration,
    alarm: Pin<Box<Sleep>>,
    sending: Since,
    receiving: Since,
    closing: Since,
    nudge: Option<Nudge>,
}

/// How far the connection is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Progress {
    /// Octets given to TCP so far, if there are more to give.
    pub(super) sending: Option<u64>,
    /// FPDUs received so far, if the peer owes one.
    pub(super) receiving: Option<u64>,
    /// This side is closed and the peer's is not.
    pub(super) closing: bool,
    /// All that was to be sent was sent, and nothing has come back on this connection yet.
    pub(super) unheard: bool,
}

/// What is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expired {
    /// The peer takes nothing.
    Sending,
    /// The peer owes something.
    Receiving,
    /// The peer does not close.
    Closing,
    /// The peer may not have seen the first message.
    Unheard,
}

/// Since when a counter stands.
#[derive(Default)]
struct Since(Option<(u64, Instant)>);

impl Since {
    fn look(&mut self, counter: Option<u64>) -> Option<Instant> {
        match (counter, self.0) {
            (None, _) => self.0 = None,
            (Some(now), Some((then, _))) if now == then => {}
            (Some(now), _) => self.0 = Some((now, Instant::now())),
        }
        self.0.map(|(_, at)| at)
    }
}

struct Nudge {
    left: u32,
    delay: Duration,
    since: Since,
}

impl Deadlines {
    pub(super) fn new(options: &Options, nudge: bool) -> Self {
        let nudge = options.nudge.filter(|_| nudge);
        Deadlines {
            stall: options.stall_timeout,
            linger: options.linger,
            alarm: Box::pin(sleep_until(Instant::now() + FAR)),
            sending: Since::default(),
            receiving: Since::default(),
            closing: Since::default(),
            nudge: nudge.map(|delay| Nudge { left: NUDGES, delay, since: Since::default() }),
        }
    }

    /// The first thing that is over. Otherwise the task is woken once one may be.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, progress: Progress) -> Poll<Expired> {
        loop {
            let Some((deadline, expired)) = self.next(progress) else { return Poll::Pending };
            // An alarm that rings too early does no harm and is cheaper than one that is always put right.
            if deadline < self.alarm.deadline() || self.alarm.is_elapsed() {
                self.alarm.as_mut().reset(deadline);
            }
            if self.alarm.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            if Instant::now() >= deadline {
                self.note(expired);
                return Poll::Ready(expired);
            }
            self.alarm.as_mut().reset(deadline);
        }
    }

    fn next(&mut self, progress: Progress) -> Option<(Instant, Expired)> {
        let after = |since: Option<Instant>, limit: Duration, what| since.map(|at| (at + limit, what));
        let mut first = after(self.sending.look(progress.sending), self.stall, Expired::Sending);
        let mut also = |other: Option<(Instant, Expired)>| {
            if let Some(other) = other
                && first.is_none_or(|first| other.0 < first.0)
            {
                first = Some(other);
            }
        };
        also(after(self.receiving.look(progress.receiving), self.stall, Expired::Receiving));
        also(after(self.closing.look(progress.closing.then_some(0)), self.linger, Expired::Closing));
        if let Some(nudge) = &mut self.nudge {
            let counter = (progress.unheard && nudge.left > 0).then_some(u64::from(nudge.left));
            also(after(nudge.since.look(counter), nudge.delay, Expired::Unheard));
        }
        first
    }

    fn note(&mut self, expired: Expired) {
        if let (Expired::Unheard, Some(nudge)) = (expired, &mut self.nudge) {
            nudge.left = nudge.left.saturating_sub(1);
            nudge.delay = nudge.delay.saturating_mul(2);
        }
    }
}
