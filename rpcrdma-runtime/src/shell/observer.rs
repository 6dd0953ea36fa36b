use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tracing::field::Empty;
use tracing::{Instrument, debug, debug_span};

use super::stats::ClientStats;
use super::{CallError, metrics};
use crate::proto::call::Traffic;
use crate::proto::program::{Procedure, Program};

/// Observes every call that ends.
#[derive(Clone)]
pub struct Observer(Arc<dyn Fn(&CallReport) + Send + Sync>);

impl Observer {
    /// Returns an observer that calls `observe` on the caller's task when a call ends.
    pub fn new(observe: impl Fn(&CallReport) + Send + Sync + 'static) -> Self {
        Observer(Arc::new(observe))
    }

    fn report(&self, report: &CallReport) {
        (self.0)(report);
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Observer")
    }
}

/// The report about one call that has ended, for an [`Observer`].
#[derive(Clone, Debug)]
pub struct CallReport {
    /// Program number.
    pub program: u32,
    /// Version number.
    pub version: u32,
    /// The procedure's name in its document.
    pub procedure: &'static str,
    /// The call's XID.
    pub xid: u32,
    /// Time from the call to its decoded result.
    pub elapsed: Duration,
    /// How the call was transferred, if it has a result.
    pub traffic: Option<Traffic>,
    /// Why the call failed, if it did.
    pub error: Option<String>,
}

/// Counts a call whose caller stopped waiting.
struct Unfinished<'a>(Option<&'a ClientStats>);

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if let Some(stats) = self.0 {
            stats.abandoned();
        }
    }
}

/// Makes a call in its own span, counts it, and reports its end to the observer.
pub(super) async fn observed<Q: Procedure>(
    observer: Option<&Observer>,
    stats: &ClientStats,
    xid: u32,
    exchange: impl Future<Output = Result<(Q::Res, Traffic), CallError>>,
) -> Result<Q::Res, CallError> {
    let start = Instant::now();
    let mut unfinished = Unfinished(Some(stats));
    // The attributes that OpenTelemetry defines for ONC RPC.
    let span = debug_span!(
        "call",
        otel.kind = "client",
        otel.name = Q::NAME,
        rpc.system = "onc_rpc",
        rpc.service = <Q::Program as Program>::NAME,
        rpc.method = Q::NAME,
        onc_rpc.program.number = <Q::Program as Program>::NUMBER,
        onc_rpc.version = <Q::Program as Program>::VERSION,
        onc_rpc.procedure.number = Q::NUMBER,
        onc_rpc.xid = xid,
        rpcrdma.inline_bytes = Empty,
        rpcrdma.rdma_bytes = Empty,
        rpcrdma.chunks = Empty,
        error.type = Empty,
    );
    let outcome = exchange.instrument(span.clone()).await;
    unfinished.0 = None;
    stats.ended(outcome.as_ref().map(|(_, traffic)| traffic));
    let elapsed = start.elapsed();
    metrics::client_call::<Q>(elapsed);
    let _entered = span.enter();
    match &outcome {
        Ok((_, traffic)) => {
            let Traffic { read_bytes, position_zero, write_bytes, reply_chunk_bytes, .. } = *traffic;
            let long = u32::from(position_zero > 0) + u32::from(traffic.reply_chunk);
            span.record("rpcrdma.inline_bytes", traffic.call_inline + traffic.reply_inline);
            span.record("rpcrdma.rdma_bytes", read_bytes + position_zero + write_bytes + reply_chunk_bytes);
            span.record("rpcrdma.chunks", traffic.read_chunks + traffic.write_chunks + long);
        }
        Err(error) => {
            span.record("error.type", tracing::field::display(error));
        }
    }
    match &outcome {
        Ok((_, traffic)) => debug!(procedure = Q::NAME, xid, ?elapsed, %traffic, "call answered"),
        Err(error) => debug!(procedure = Q::NAME, xid, ?elapsed, %error, "call failed"),
    }
    if let Some(observer) = observer {
        observer.report(&CallReport {
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
