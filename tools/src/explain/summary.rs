//! The totals of a connection.

use std::collections::BTreeMap;
use std::fmt;

use super::CapturedConnection;
use super::call::{CalledProcedure, Peer};

/// The totals of a connection: its calls, its problems, and its missing and retransmitted bytes.
#[derive(Clone, Debug, Default)]
pub struct ConnectionSummary {
    /// One line per procedure. Calls with an unreadable RPC header share a line.
    pub procedures: BTreeMap<Option<CalledProcedure>, Line>,
    /// The number of calls without a reply in the capture.
    pub unanswered: u64,
    /// The maximum number of the client's outstanding calls, and the maximum number of credits granted to the
    /// client.
    pub outstanding: (usize, u32),
    /// The number of replies that invalidated a handle.
    pub invalidations: u64,
    /// The number of problems outside of calls.
    pub problems: u64,
    /// The number of bytes missing from the capture, and the number of retransmitted bytes.
    pub lost: (u64, u64),
}

/// The totals of a procedure's calls.
#[derive(Clone, Debug, Default)]
pub struct Line {
    /// The number of calls.
    pub calls: u64,
    /// The number of failed calls.
    pub failed: u64,
    /// The number of calls with a reply.
    pub answered: u64,
    /// The total and the maximum time from call to reply, in nanoseconds.
    pub latency: (u64, u64),
    /// The number of bytes in the Sends of calls and replies.
    pub inline: u64,
    /// The number of bytes moved by RDMA Read.
    pub read: u64,
    /// The number of bytes moved by RDMA Write.
    pub written: u64,
}

impl ConnectionSummary {
    /// Computes the totals of a connection.
    #[must_use]
    pub fn of(connection: &CapturedConnection) -> Self {
        let conversation = &connection.conversation;
        let [outstanding, _] = conversation.max_outstanding;
        let mut summary = ConnectionSummary {
            lost: (connection.lost, connection.retransmitted),
            ..ConnectionSummary::default()
        };
        let mut granted = 0;
        for call in &conversation.calls {
            let line = summary.procedures.entry(call.procedure).or_default();
            let (read, written) = call.rdma_bytes();
            let reply = call.reply.as_ref();
            let sent = call.len.saturating_add(reply.map_or(0, |reply| reply.len));
            line.calls += 1;
            line.failed += u64::from(call.has_failed());
            line.inline = line.inline.saturating_add(u64::try_from(sent).unwrap_or(u64::MAX));
            line.read = line.read.saturating_add(read);
            line.written = line.written.saturating_add(written);
            match (reply, call.latency()) {
                (Some(reply), Some(latency)) => {
                    line.answered += 1;
                    line.latency = (line.latency.0.saturating_add(latency), line.latency.1.max(latency));
                    summary.invalidations += u64::from(reply.invalidated.is_some());
                    if call.by == Some(Peer::Client) {
                        granted = reply.credits.max(granted);
                    }
                }
                _ => summary.unanswered += 1,
            }
        }
        summary.outstanding = (outstanding, granted);
        summary.problems = conversation.problems;
        summary
    }

    /// Returns the heading: the line above the table of procedures.
    #[must_use]
    pub fn heading(&self) -> String {
        let calls: u64 = self.procedures.values().map(|line| line.calls).sum();
        let (outstanding, granted) = self.outstanding;
        let mut text = format!("calls: {calls}, without a reply: {}", self.unanswered);
        text += &format!("; at most {outstanding} outstanding from the client, {granted} credits granted");
        text += &format!("; remote invalidations: {}", self.invalidations);
        if self.problems > 0 {
            text += &format!("; problems: {}", self.problems);
        }
        match self.lost {
            (0, 0) => {}
            (lost, retransmitted) => {
                text += &format!(
                    "; bytes of TCP that are not in the capture: {lost}, retransmitted bytes: {retransmitted}"
                );
            }
        }
        text
    }
}

impl Line {
    /// Returns the mean and the maximum time from call to reply, in milliseconds, or dashes if no call has a
    /// reply.
    #[must_use]
    pub fn times(&self) -> (String, String) {
        match self.latency.0.checked_div(self.answered) {
            Some(mean) => (millis(mean), millis(self.latency.1)),
            None => ("-".to_owned(), "-".to_owned()),
        }
    }
}

#[must_use]
pub(super) fn millis(nanoseconds: u64) -> String {
    let micros = nanoseconds / 1000;
    format!("{}.{:03}", micros / 1000, micros % 1000)
}

/// Returns the name of a procedure, as in the table's first column.
#[must_use]
pub(super) fn name(called: Option<&CalledProcedure>) -> String {
    called.map_or_else(
        || "(unknown)".to_owned(),
        |called| format!("{} {}", called.program_name(), called.procedure_name()),
    )
}

impl fmt::Display for ConnectionSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.heading())?;
        if self.procedures.is_empty() {
            return Ok(());
        }
        let (a, b, c, d) = ("calls", "failed", "mean, ms", "max, ms");
        let (e, g, h) = ("inline, B", "Read, B", "Write, B");
        writeln!(f, "  {:<24} {a:>7} {b:>7} {c:>10} {d:>10} {e:>12} {g:>12} {h:>12}", "procedure")?;
        for (called, line) in &self.procedures {
            let (mean, max) = line.times();
            let Line { calls, failed, inline, read, written, .. } = line;
            let name = name(called.as_ref());
            writeln!(
                f,
                "  {name:<24} {calls:>7} {failed:>7} {mean:>10} {max:>10} {inline:>12} {read:>12} {written:>12}"
            )?;
        }
        Ok(())
    }
}
