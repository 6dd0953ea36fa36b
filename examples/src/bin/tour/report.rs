//! The table of calls that the tour prints, and the checks of these calls.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use rpcrdma_runtime::Traffic;
use rpcrdma_runtime::{CallReport, Observer};

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

/// The calls in the order in which they completed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Report(Arc<Mutex<Vec<CallReport>>>);

impl Report {
    pub(crate) fn observer(&self) -> Observer {
        let calls = self.0.clone();
        Observer::new(move |call| calls.lock().unwrap_or_else(PoisonError::into_inner).push(call.clone()))
    }

    fn calls(&self) -> Vec<CallReport> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn checks(&self, file: u64) -> Vec<Check> {
        let calls = self.calls();
        let all = |procedure: &str, enough: &dyn Fn(&Traffic) -> bool| {
            let traffic = calls.iter().filter(|call| call.procedure == procedure).map(|call| &call.traffic);
            let mut traffic = traffic.peekable();
            traffic.peek().is_some() && traffic.all(|traffic| traffic.as_ref().is_some_and(enough))
        };
        vec![
            Check::new("every call has a result", calls.iter().all(|call| call.error.is_none())),
            Check::new(
                "WRITE moved all of its data in a Read chunk",
                all("NFSPROC3_WRITE", &|traffic| traffic.read_bytes == file && traffic.call_inline < 1024),
            ),
            Check::new(
                "READ moved all of its data in a Write chunk",
                all("NFSPROC3_READ", &|traffic| traffic.write_bytes == file && traffic.reply_inline < 1024),
            ),
            Check::new(
                "the READDIRPLUS reply used a Reply chunk",
                all("NFSPROC3_READDIRPLUS", &|traffic| traffic.reply_chunk_bytes > 1024),
            ),
            Check::new(
                "the SYMLINK call used a Position-Zero Read chunk",
                all("NFSPROC3_SYMLINK", &|traffic| traffic.position_zero > 0 && traffic.call_inline < 1024),
            ),
        ]
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns =
            ["procedure", "call inline", "reply inline", "RDMA Read", "RDMA Write", "moved by RDMA"];
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

fn how(traffic: &Traffic) -> String {
    let kinds = [
        (traffic.read_chunks > 0, "the call's data, in Read chunks"),
        (traffic.position_zero > 0, "the complete call, in a Position-Zero Read chunk"),
        (traffic.write_bytes > 0, "the result's data, in Write chunks"),
        (traffic.reply_chunk_bytes > 0, "the complete reply, in the Reply chunk"),
        (traffic.remote_invalidation, "fenced by Send with Invalidate"),
    ];
    let used: Vec<&str> = kinds.into_iter().filter_map(|(used, kind)| used.then_some(kind)).collect();
    used.join("; ")
}
