//! A turn: concurrent calls of one operation for a limited time.

use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::image::SIZE;

/// An operation to measure. READ and WRITE have a size in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Getattr,
    Read(usize),
    Write(usize),
}

impl Operation {
    pub(crate) fn procedure(self) -> &'static str {
        match self {
            Operation::Getattr => "GETATTR",
            Operation::Read(_) => "READ",
            Operation::Write(_) => "WRITE",
        }
    }

    /// Returns the byte range of the file for the call with this number. READ and WRITE calls cover the file
    /// in order, repeatedly. The range of a GETATTR call is empty.
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

#[derive(Clone, Copy, Debug)]
pub(crate) struct Work {
    pub(crate) operation: Operation,
    pub(crate) in_flight: usize,
    pub(crate) time: Duration,
}

/// A running turn, which assigns the call numbers.
#[derive(Debug)]
pub(crate) struct Turn {
    next: AtomicU64,
    start: Instant,
    time: Duration,
}

impl Turn {
    pub(crate) fn begin(time: Duration) -> Self {
        Turn { next: AtomicU64::new(0), start: Instant::now(), time }
    }

    /// Returns the number of the next call, or `None` after the time limit. The first call always runs.
    pub(crate) fn next(&self) -> Option<u64> {
        let continues = self.start.elapsed() < self.time || self.next.load(Ordering::Relaxed) == 0;
        continues.then(|| self.next.fetch_add(1, Ordering::Relaxed))
    }

    /// Returns the results. All calls must have completed.
    pub(crate) fn end(&self) -> Done {
        Done { calls: self.next.load(Ordering::Relaxed), elapsed: self.start.elapsed() }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Done {
    pub(crate) calls: u64,
    elapsed: Duration,
}

impl Done {
    #[allow(clippy::cast_precision_loss, reason = "a rate may be rounded")]
    pub(crate) fn rate(&self) -> f64 {
        self.calls as f64 / self.elapsed.as_secs_f64()
    }
}
