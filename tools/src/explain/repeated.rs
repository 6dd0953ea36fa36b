//! Calls that repeat the one before them, in one row.

use super::call::Call;
use super::ladder::{Row, head, name};
use super::summary::millis;

/// The length of a run of calls from which on it is folded.
pub(super) const FOLDED: usize = 4;

/// Consecutive calls of one procedure that succeeded.
#[derive(Clone, Copy)]
pub(super) struct Repeated<'a> {
    pub(super) first: &'a Call,
    last: &'a Call,
    calls: u64,
    /// The sum of the latencies and the longest, in nanoseconds.
    latency: (u64, u64),
    /// Bytes by RDMA Read and by RDMA Write.
    moved: (u64, u64),
}

impl<'a> Repeated<'a> {
    /// Returns true if one row can represent both calls.
    pub(super) fn is_alike(a: &Call, b: &Call) -> bool {
        let shape = |call: &Call| (call.by, call.procedure, call.long, call.lists.writes.len());
        let is_good = |call: &Call| call.reply.is_some() && !call.has_failed();
        a.procedure.is_some() && shape(a) == shape(b) && is_good(a) && is_good(b)
    }

    /// Summarizes calls: `first` and the following ones.
    pub(super) fn of(first: &'a Call, calls: impl Iterator<Item = &'a Call>) -> Self {
        let none = Repeated { first, last: first, calls: 0, latency: (0, 0), moved: (0, 0) };
        calls.fold(none, |sum, call| {
            let latency = call.latency().unwrap_or(0);
            let (read, written) = call.moved();
            Repeated {
                first,
                last: call,
                calls: sum.calls.saturating_add(1),
                latency: (sum.latency.0.saturating_add(latency), sum.latency.1.max(latency)),
                moved: (sum.moved.0.saturating_add(read), sum.moved.1.saturating_add(written)),
            }
        })
    }

    pub(super) fn row(&self) -> Row {
        let Repeated { first, last, calls, latency, moved } = self;
        let mean = latency.0.checked_div(*calls).unwrap_or(0);
        let mut text = format!("... {calls} more calls of {}, up to #{}", name(first), last.number);
        for (bytes, how) in [(moved.0, "Read"), (moved.1, "Write")] {
            if bytes > 0 {
                text += &format!(", {bytes} bytes by RDMA {how}");
            }
        }
        text += &format!("; all OK, mean {} ms, max {} ms", millis(mean), millis(latency.1));
        head(first, text)
    }
}
