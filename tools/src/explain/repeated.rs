//! Summarizes repeated calls in one row.

use super::call::{Call, Status};
use super::summary::millis;

/// The minimum number of similar calls to fold.
pub(super) const FOLDED: usize = 4;

/// Consecutive successful calls of one procedure.
#[derive(Clone, Copy)]
pub(super) struct Repeated<'a> {
    pub(super) first: &'a Call,
    last: &'a Call,
    calls: u64,
    /// The sum and the maximum of the latencies, in nanoseconds.
    latency: (u64, u64),
    /// The number of bytes moved by RDMA Read, and the number of bytes moved by RDMA Write.
    rdma_bytes: (u64, u64),
}

impl<'a> Repeated<'a> {
    /// Returns true if one row can represent both calls.
    pub(super) fn is_alike(a: &Call, b: &Call) -> bool {
        let shape = |call: &Call| (call.by, call.procedure, call.long, call.lists.writes.len());
        let has_succeeded =
            |call: &Call| call.reply.as_ref().is_some_and(|reply| reply.status == Status::Success);
        a.procedure.is_some() && shape(a) == shape(b) && has_succeeded(a) && has_succeeded(b)
    }

    /// Summarizes `calls`, which start with `first`.
    pub(super) fn of(first: &'a Call, calls: impl Iterator<Item = &'a Call>) -> Self {
        let none = Repeated { first, last: first, calls: 0, latency: (0, 0), rdma_bytes: (0, 0) };
        calls.fold(none, |sum, call| {
            let latency = call.latency().unwrap_or(0);
            let (read, written) = call.rdma_bytes();
            Repeated {
                first,
                last: call,
                calls: sum.calls.saturating_add(1),
                latency: (sum.latency.0.saturating_add(latency), sum.latency.1.max(latency)),
                rdma_bytes: (sum.rdma_bytes.0.saturating_add(read), sum.rdma_bytes.1.saturating_add(written)),
            }
        })
    }

    pub(super) fn text(&self, name: &str) -> String {
        let Repeated { last, calls, latency, rdma_bytes, .. } = self;
        let mean = latency.0.checked_div(*calls).unwrap_or(0);
        let mut text = format!("... {calls} more {name} calls, up to #{}", last.number);
        for (bytes, how) in [(rdma_bytes.0, "Read"), (rdma_bytes.1, "Write")] {
            if bytes > 0 {
                text += &format!(", {bytes} bytes by RDMA {how}");
            }
        }
        text + &format!("; all OK, mean {} ms, max {} ms", millis(mean), millis(latency.1))
    }
}
