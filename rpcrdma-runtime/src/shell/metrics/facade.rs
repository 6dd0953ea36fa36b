//! The facade of the crate `metrics`.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use metrics::{counter, gauge, histogram};

static ENABLED: AtomicBool = AtomicBool::new(false);

/// Starts to report metrics to the recorder of the crate `metrics`. Call this function after the recorder is
/// installed and before clients and servers are created. Metrics are disabled by default because they
/// allocate memory for each call.
///
/// `docs/nfs.md` lists the metrics of servers. The metrics of clients are:
///
/// - `rpcrdma_client_call_duration_seconds`, a histogram of the times from a call to its result or error,
///   with the labels `program`, `version` and `procedure`;
/// - `rpcrdma_client_failures_total`: failed calls; the label `kind` is the name of a field of
///   [`Failures`](crate::Failures);
/// - `rpcrdma_client_bytes_total`: bytes of successful calls and their replies, with the `kind`
///   `call_inline`, `reply_inline`, `rdma_read` or `rdma_write`;
/// - `rpcrdma_client_credits`: a gauge of the credits currently granted to all clients;
/// - `rpcrdma_client_waits_total`, with the `kind` `credit`: calls that waited for a credit;
/// - `rpcrdma_client_sessions_total`: events of sessions, with the `kind` `connections`, `failed_attempts`,
///   `retransmissions` or `timeouts`.
pub fn enable_metrics() {
    ENABLED.store(true, Ordering::Relaxed);
}

pub(super) fn is_enabled() -> bool {
    ENABLED.load(Ordering::Relaxed)
}

pub(super) fn increment(metric: &'static str, kind: &'static str, number: u64) {
    counter!(metric, "kind" => kind).increment(number);
}

pub(super) fn add(metric: &'static str, number: f64) {
    gauge!(metric).increment(number);
}

pub(super) fn set(metric: &'static str, number: f64) {
    gauge!(metric).set(number);
}

/// `call` contains the numbers of the program, its version and the procedure.
pub(super) fn duration(metric: &'static str, call: [u32; 3], elapsed: Duration) {
    let [program, version, procedure] = call.map(|number| number.to_string());
    let labels = [("program", program), ("version", version), ("procedure", procedure)];
    histogram!(metric, &labels).record(elapsed);
}
