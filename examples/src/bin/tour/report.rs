//! The table of calls.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use rpcrdma_runtime::proto::rdma::Traffic;
use rpcrdma_runtime::shell::{CallReport, Observer};

/// Something that must hold.
#[derive(Debug)]
pub(crate) struct Check {
    what: String,
    pub(crate) passed: bool,
}

impl Check {
    pub(crate) fn new(what: impl Into<String>, passed: bool) -> Self {
        Check { what: what.into(), passed }
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "   {:<6} {}", if self.passed { "ok" } else { "FAILED" }, self.what)
    }
}

/// The calls that were made, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Report(Arc<Mutex<Vec<CallReport>>>);

impl Report {
    /// What adds to this report.
    pub(crate) fn observer(&self) -> Observer {
        let calls = self.0.clone();
        Observer::new(move |call| calls.lock().unwrap_or_else(PoisonError::into_inner).push(call.clone()))
    }

    fn calls(&self) -> Vec<CallReport> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Every kind of chunk was in use, and no call failed.
    pub(crate) fn checks(&self) -> Vec<Check> {
        let calls = self.calls();
        let seen = |procedure: &str, bytes: &dyn Fn(&Traffic) -> u64| {
            calls.iter().any(|call| {
                call.procedure == procedure && call.traffic.as_ref().is_some_and(|t| bytes(t) > 0)
            })
        };
        vec![
            Check::new("every call has its result", calls.iter().all(|call| call.error.is_none())),
            Check::new("WRITE moved its data in a Read chunk", seen("NFSPROC3_WRITE", &|t| t.read_bytes)),
            Check::new("READ moved its data in a Write chunk", seen("NFSPROC3_READ", &|t| t.write_bytes)),
            Check::new(
                "READDIRPLUS came in a Reply chunk",
                seen("NFSPROC3_READDIRPLUS", &|t| t.reply_chunk_bytes),
            ),
            Check::new(
                "SYMLINK went in a Position-Zero Read chunk",
                seen("NFSPROC3_SYMLINK", &|t| t.position_zero),
            ),
        ]
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns =
            ["procedure", "call inline", "reply inline", "RDMA Read", "RDMA Write", "what moved by RDMA"];
        let mut row = |[name, call, reply, read, write, how]: [&str; 6]| {
            let line = format!("   {name:<20} {call:>12} {reply:>12} {read:>12} {write:>12}  {how}");
            writeln!(f, "{}", line.trim_end())
        };
        row(columns)?;
        for call in self.calls() {
            match &call.traffic {
                Some(traffic) => row([
                    call.procedure,
                    &traffic.call_inline.to_string(),
                    &traffic.reply_inline.to_string(),
                    &(traffic.read_bytes + traffic.position_zero).to_string(),
                    &(traffic.write_bytes + traffic.reply_chunk_bytes).to_string(),
                    &how(traffic),
                ])?,
                None => row([call.procedure, "", "", "", "", call.error.as_deref().unwrap_or_default()])?,
            }
        }
        Ok(())
    }
}

/// What of a call and its reply did not go inline, in words.
fn how(traffic: &Traffic) -> String {
    let kinds = [
        (traffic.read_chunks > 0, "the call's data, by Read chunk"),
        (traffic.position_zero > 0, "the whole call, by Position-Zero Read chunk"),
        (traffic.write_bytes > 0, "the result's data, by Write chunk"),
        (traffic.reply_chunk_bytes > 0, "the whole reply, by Reply chunk"),
        (traffic.remote_invalidation, "fenced by Send with Invalidate"),
    ];
    let used: Vec<&str> = kinds.into_iter().filter_map(|(used, kind)| used.then_some(kind)).collect();
    used.join("; ")
}
