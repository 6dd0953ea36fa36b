//! Metrics through the facade of the `metrics` crate. Nothing is measured without the `metrics` feature, or
//! before the program calls [`enable_metrics`].

#[cfg_attr(not(feature = "metrics"), path = "metrics/no_facade.rs")]
pub(super) mod facade;

use std::time::{Duration, Instant};

use self::facade::{duration, is_enabled};
use crate::proto::program::{Procedure, Program};
use crate::proto::rdma::TrafficCounts;
use crate::wire::rpc::{CallHeader, Reject, ReplyHeader, RpcReply};

pub(super) const BYTE_KINDS: [&str; 4] = ["call_inline", "reply_inline", "rdma_read", "rdma_write"];

/// Creates the counters of a metric with the value 0, so that the recorder exports them before their first
/// event.
pub(super) fn create_counters(metric: &'static str, kinds: &[&'static str]) {
    if is_enabled() {
        kinds.iter().for_each(|kind| facade::increment(metric, kind, 0));
    }
}

pub(super) fn count<const N: usize>(metric: &'static str, kinds: [&'static str; N], counts: [u64; N]) {
    if !is_enabled() {
        return;
    }
    for (kind, count) in kinds.into_iter().zip(counts).filter(|(_, count)| *count > 0) {
        facade::increment(metric, kind, count);
    }
}

pub(super) fn bytes(metric: &'static str, traffic: &TrafficCounts) {
    let TrafficCounts { call_bytes, reply_bytes, read_bytes, written_bytes, .. } = *traffic;
    count(metric, BYTE_KINDS, [call_bytes, reply_bytes, read_bytes, written_bytes]);
}

pub(super) fn add(gauge: &'static str, number: f64) {
    if is_enabled() {
        facade::add(gauge, number);
    }
}

/// Adds bytes to the gauge of memory for calls and replies, or subtracts the bytes if `sign` is -1.
pub(super) fn memory(bytes: u64, sign: f64) {
    add("rpcrdma_server_memory_bytes", sign * number(bytes));
}

pub(super) fn memory_max(bytes: u64) {
    if is_enabled() {
        facade::set("rpcrdma_server_memory_max_bytes", number(bytes));
    }
}

#[expect(clippy::cast_precision_loss, reason = "memory sizes are far below 2^53 bytes")]
fn number(bytes: u64) -> f64 {
    bytes as f64
}

/// A number that is added to a gauge, and subtracted again on drop.
#[derive(Debug)]
pub(super) struct Gauged {
    metric: &'static str,
    number: f64,
}

impl Gauged {
    pub(super) fn new(metric: &'static str, number: f64) -> Self {
        let number = if is_enabled() { number } else { 0.0 };
        add(metric, number);
        Gauged { metric, number }
    }
}

impl Drop for Gauged {
    fn drop(&mut self) {
        add(self.metric, -self.number);
    }
}

pub(super) fn client_call<Q: Procedure>(elapsed: Duration) {
    if !is_enabled() {
        return;
    }
    duration(
        "rpcrdma_client_call_duration_seconds",
        [<Q::Program as Program>::NUMBER, <Q::Program as Program>::VERSION, Q::NUMBER],
        elapsed,
    );
}

pub(super) struct CallTimer(Option<(Instant, [u32; 3])>);

impl CallTimer {
    pub(super) fn start(header: &CallHeader) -> Self {
        let call = [header.program, header.version, header.procedure];
        CallTimer(is_enabled().then(|| (Instant::now(), call)))
    }

    /// Records the duration if the reply shows that the procedure exists. Without this check, a peer could
    /// create a new time series with each invalid program, version or procedure number.
    pub(super) fn end(self, reply: Option<&RpcReply>) {
        use Reject::{GarbageArguments, SystemError};
        let is_known = matches!(
            reply.map(|reply| reply.status),
            Some(ReplyHeader::Success | ReplyHeader::Rejected(GarbageArguments | SystemError))
        );
        if let Some((start, call)) = self.0.filter(|_| is_known) {
            duration("rpcrdma_server_call_duration_seconds", call, start.elapsed());
        }
    }
}
