use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tracing::{Instrument, debug};

use super::spans::Endpoints;
use super::stats::ClientStats;
use super::{CallError, metrics, spans};
use crate::proto::call::Traffic;
use crate::proto::program::{Procedure, Program};

/// Observes every call that returns a result or an error. An abandoned call is not reported.
#[derive(Clone)]
pub struct Observer(Arc<dyn Fn(&CallReport) + Send + Sync>);

impl Observer {
    /// Returns an observer that calls `observe` on the caller's task when a call ends.
    pub fn new(observe: impl Fn(&CallReport) + Send + Sync + 'static) -> Self {
        Observer(Arc::new(observe))
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Observer")
    }
}

/// A report on one completed call, for an [`Observer`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CallReport {
    /// Program number.
    pub program: u32,
    /// Version number.
    pub version: u32,
    /// The procedure's name in the XDR document.
    pub procedure: &'static str,
    /// The call's XID.
    pub xid: u32,
    /// Time from the start of the call to its decoded result or its failure.
    pub elapsed: Duration,
    /// How the call was transferred, or `None` if the call failed.
    pub traffic: Option<Traffic>,
    /// Why the call failed, or `None` if the call succeeded.
    pub error: Option<String>,
}

/// Counts the call as abandoned if this value is dropped before the call has ended.
struct Unfinished<'a>(Option<&'a ClientStats>);

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if let Some(stats) = self.0 {
            stats.abandoned();
        }
    }
}

/// Runs the future of `exchange` in the span of the call, then counts and reports the outcome. `endpoints`
/// returns the addresses of the current connection, which may have replaced the connection that carried the
/// call.
///
/// `exchange` returns the future, because a future that is passed as an argument is stored twice.
pub(super) async fn observed<Q: Procedure, F>(
    observer: Option<&Observer>,
    stats: &ClientStats,
    xid: u32,
    endpoints: impl Fn() -> Endpoints,
    exchange: impl FnOnce() -> F,
) -> Result<Q::Res, CallError>
where
    F: Future<Output = Result<(Q::Res, Traffic), CallError>>,
{
    let start = Instant::now();
    let mut unfinished = Unfinished(Some(stats));
    let span = spans::client_call::<Q>(xid);
    let outcome = exchange().instrument(span.clone()).await;
    unfinished.0 = None;
    stats.ended(outcome.as_ref().map(|(_, traffic)| traffic));
    let elapsed = start.elapsed();
    metrics::client_call::<Q>(elapsed);
    let _entered = span.enter();
    if !span.is_disabled() {
        spans::record_endpoints(&span, endpoints());
    }
    match &outcome {
        Ok((_, traffic)) => {
            spans::record_traffic(&span, traffic);
            debug!(procedure = Q::NAME, xid, ?elapsed, %traffic, "call answered");
        }
        Err(error) => {
            spans::record_failure(&span, error);
            debug!(procedure = Q::NAME, xid, ?elapsed, %error, "call failed");
        }
    }
    if let Some(Observer(observe)) = observer {
        observe(&CallReport {
            program: <Q::Program as Program>::NUMBER,
            version: <Q::Program as Program>::VERSION,
            procedure: Q::NAME,
            xid,
            elapsed,
            traffic: outcome.as_ref().ok().map(|(_, traffic)| *traffic),
            error: outcome.as_ref().err().map(ToString::to_string),
        });
    }
    outcome.map(|(result, _)| result)
}
