//! The facade of the crate `metrics`.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use metrics::{counter, gauge, histogram};

static ENABLED: AtomicBool = AtomicBool::new(false);

/// Starts to report metrics to the recorder of the crate `metrics`. Call this function after the recorder is
/// installed and before clients and servers are created. Metrics are disabled by default because they
/// allocate memory for each call.
pub fn enable_metrics() {
    ENABLED.store(true, Ordering::Relaxed);
}

pub(super) fn is_enabled() -> bool {
    ENABLED.load(Ordering::Relaxed)
}

/// Adds a number to the counter of a kind.
pub(super) fn increment(metric: &'static str, kind: &'static str, number: u64) {
    counter!(metric, "kind" => kind).increment(number);
}

/// Adds a number to a gauge.
pub(in crate::shell) fn add(metric: &'static str, number: f64) {
    gauge!(metric).increment(number);
}

/// Sets a gauge.
pub(super) fn set(metric: &'static str, number: f64) {
    gauge!(metric).set(number);
}

/// Adds the duration of a call to a histogram. `call` is its program, version and procedure.
pub(super) fn duration(metric: &'static str, call: [u32; 3], elapsed: Duration) {
    let [program, version, procedure] = call.map(|number| number.to_string());
    let labels = [("program", program), ("version", version), ("procedure", procedure)];
    histogram!(metric, &labels).record(elapsed);
}
