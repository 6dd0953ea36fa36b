//! Sums of a connection.

use std::collections::BTreeMap;
use std::fmt;

use super::Connection;
use super::call::{Called, Side};

/// The totals of a connection's calls.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// A line per procedure; calls with an unreadable RPC header have a separate line.
    pub procedures: BTreeMap<Option<Called>, Line>,
    /// Calls without a reply in the capture.
    pub unanswered: u64,
    /// The most calls of the client that had no reply at a time, and the most credits that it was granted.
    pub in_flight: (usize, u32),
    /// Replies that invalidated a handle.
    pub invalidations: u64,
    /// Problems outside the calls.
    pub troubles: u64,
    /// Octets of TCP that are missing in the capture, and retransmitted ones.
    pub lost: (u64, u64),
}

/// The totals of a procedure's calls.
#[derive(Clone, Debug, Default)]
pub struct Line {
    /// Calls.
    pub calls: u64,
    /// Calls that ended without results.
    pub failed: u64,
    /// Calls with a reply.
    pub answered: u64,
    /// Time from call to reply, total and maximum, in nanoseconds.
    pub latency: (u64, u64),
    /// Octets of Sends, calls and replies.
    pub inline: u64,
    /// Octets by RDMA Read.
    pub read: u64,
    /// Octets by RDMA Write.
    pub written: u64,
}

impl Summary {
    /// Sums a connection up.
    #[must_use]
    pub fn of(connection: &Connection) -> Self {
        let conversation = &connection.conversation;
        let [in_flight, _] = conversation.most_in_flight;
        let mut summary = Summary { lost: (connection.lost, connection.again), ..Summary::default() };
        let mut granted = 0;
        for call in &conversation.calls {
            let line = summary.procedures.entry(call.procedure).or_default();
            let (read, written) = call.moved();
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
                    if call.by == Some(Side::Client) {
                        granted = reply.credits.max(granted);
                    }
                }
                _ => summary.unanswered += 1,
            }
        }
        summary.in_flight = (in_flight, granted);
        summary.troubles = conversation.troubles;
        summary
    }

    /// The header of the table.
    #[must_use]
    pub fn heading(&self) -> String {
        let calls: u64 = self.procedures.values().map(|line| line.calls).sum();
        let (in_flight, granted) = self.in_flight;
        let mut text = format!("{calls} calls, {} without a reply", self.unanswered);
        text += &format!("; at most {in_flight} of the client's in flight, {granted} credits granted");
        text += &format!("; {} remote invalidations", self.invalidations);
        if self.troubles > 0 {
            text += &format!("; {} troubles", self.troubles);
        }
        match self.lost {
            (0, 0) => {}
            (lost, again) => {
                text += &format!("; of TCP {lost} octets are not in the capture, {again} came again");
            }
        }
        text
    }
}

impl Line {
    /// The mean of the times from call to reply, and the longest, in milliseconds.
    #[must_use]
    pub fn times(&self) -> (String, String) {
        match self.latency.0.checked_div(self.answered) {
            Some(mean) => (millis(mean), millis(self.latency.1)),
            None => ("-".to_owned(), "-".to_owned()),
        }
    }
}

/// Nanoseconds as milliseconds.
#[must_use]
pub(super) fn millis(nanoseconds: u64) -> String {
    let micros = nanoseconds / 1000;
    format!("{}.{:03}", micros / 1000, micros % 1000)
}

/// The name of a line.
#[must_use]
pub(super) fn name(called: Option<&Called>) -> String {
    called.map_or_else(
        || "(unknown)".to_owned(),
        |called| format!("{} {}", called.program_name(), called.procedure_name()),
    )
}

impl fmt::Display for Summary {
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
