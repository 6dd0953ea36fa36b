//! A turn: calls of one kind, so many at a time, for a while.

use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::image::SIZE;

/// What is done. READ and WRITE have so many bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Getattr,
    Read(usize),
    Write(usize),
}

impl Operation {
    /// The procedure's name.
    pub(crate) fn procedure(self) -> &'static str {
        match self {
            Operation::Getattr => "GETATTR",
            Operation::Read(_) => "READ",
            Operation::Write(_) => "WRITE",
        }
    }

    /// The part of the file that the call of this number is for: one after the other, and again from the beginning.
    pub(crate) fn part(self, number: u64) -> Range<usize> {
        let size = match self {
            Operation::Getattr => return 0..0,
            Operation::Read(size) | Operation::Write(size) => size,
        };
        let parts = (SIZE / size).max(1) as u64;
        let at = usize::try_from(number % parts).unwrap_or(0) * size;
        at..at + size
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.procedure();
        match self {
            Operation::Getattr => f.pad(name),
            Operation::Read(size) | Operation::Write(size) if size.is_multiple_of(1 << 20) => {
                f.pad(&format!("{name} {} MiB", size >> 20))
            }
            Operation::Read(size) | Operation::Write(size) if size.is_multiple_of(1 << 10) => {
                f.pad(&format!("{name} {} KiB", size >> 10))
            }
            Operation::Read(size) | Operation::Write(size) => f.pad(&format!("{name} {size}")),
        }
    }
}

/// What a turn is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work {
    pub(crate) operation: Operation,
    pub(crate) in_flight: usize,
    pub(crate) time: Duration,
}

/// A turn that is under way: whoever does calls asks it for the next one.
#[derive(Debug)]
pub(crate) struct Turn {
    next: AtomicU64,
    began: Instant,
    time: Duration,
}

impl Turn {
    pub(crate) fn begin(time: Duration) -> Self {
        Turn { next: AtomicU64::new(0), began: Instant::now(), time }
    }

    /// The number of the next call; none once the time is up, but for the first.
    pub(crate) fn next(&self) -> Option<u64> {
        let goes_on = self.began.elapsed() < self.time || self.next.load(Ordering::Relaxed) == 0;
        goes_on.then(|| self.next.fetch_add(1, Ordering::Relaxed))
    }

    /// It is over, and all calls have ended.
    pub(crate) fn end(&self) -> Done {
        Done { calls: self.next.load(Ordering::Relaxed), elapsed: self.began.elapsed() }
    }
}

/// What was done in a turn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Done {
    pub(crate) calls: u64,
    elapsed: Duration,
}

impl Done {
    /// Calls a second.
    #[allow(clippy::cast_precision_loss, reason = "a rate")]
    pub(crate) fn rate(&self) -> f64 {
        self.calls as f64 / self.elapsed.as_secs_f64()
    }
}
