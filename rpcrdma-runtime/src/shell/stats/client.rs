use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use super::super::{CallError, metrics};
use super::Atomics;
use crate::proto::call::{Traffic, TransportError};
use crate::proto::counts::counts;
use crate::proto::rdma::TrafficCounts;
use crate::proto::rpc::gss::GssFailure;
use crate::proto::session::Counts as SessionCounts;
use crate::wire::rpc::ReplyError;

counts! {
    /// Calls that failed, by reason ([`CallError`]).
    pub struct Failures {
        /// No message was sent, for example because an argument exceeded its bound, the reply had no usable
        /// bound, the chunk lists were too long, or there were too many calls.
        pub unsendable: "unsendable",
        /// Memory could not be registered.
        pub registration: "registration failures",
        /// The server replied with ERR_VERS.
        pub version: "ERR_VERS",
        /// The server replied with ERR_CHUNK.
        pub chunk: "ERR_CHUNK",
        /// The reply violated the protocol, or its result could not be decoded.
        pub bad_reply: "bad replies",
        /// The server replied with an error such as GARBAGE_ARGS or AUTH_ERROR.
        pub rejected: "rejected",
        /// No reply arrived in time.
        pub timeout: "timed out",
        /// The connection was lost, or could not be established.
        pub disconnected: "disconnected",
        /// The caller stopped waiting.
        pub abandoned: "abandoned",
    }
}

impl Failures {
    fn of(error: &CallError) -> Self {
        let mut counts = Failures::default();
        let count = match error {
            CallError::Encode(_)
            | CallError::TooMany(_)
            | CallError::ResultMemory(_)
            | CallError::UnboundedReply { .. }
            | CallError::ReplyTooLong { .. }
            | CallError::Transport(
                TransportError::Unsendable(_)
                | TransportError::UnboundedReply
                | TransportError::ReplyTooLong { .. }
                | TransportError::NotReady,
            ) => &mut counts.unsendable,
            CallError::Transport(TransportError::Registration) => &mut counts.registration,
            CallError::Transport(TransportError::Version { .. }) => &mut counts.version,
            CallError::TooLong { source: TransportError::Chunk, .. } => &mut counts.chunk,
            CallError::Gss(
                GssFailure::Encode(_)
                | GssFailure::Mechanism(_)
                | GssFailure::Exhausted
                | GssFailure::Expired,
            ) => &mut counts.unsendable,
            CallError::Gss(GssFailure::Refused(_)) => &mut counts.rejected,
            CallError::Rejected(error) | CallError::Gss(GssFailure::Rejected(error)) => match error {
                ReplyError::NotTheReply | ReplyError::Malformed(_) => &mut counts.bad_reply,
                _ => &mut counts.rejected,
            },
            CallError::Transport(TransportError::BadReply(_)) | CallError::Decode(_) | CallError::Gss(_) => {
                &mut counts.bad_reply
            }
            CallError::Timeout(_) | CallError::Transport(TransportError::Timeout(_)) => &mut counts.timeout,
            _ => &mut counts.disconnected,
        };
        *count = 1;
        counts
    }
}

/// The counts of a client since it was created, for all clones and connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClientSnapshot {
    /// How successful calls were transferred. Over TCP, everything is inline.
    pub traffic: TrafficCounts,
    /// Calls that failed.
    pub failures: Failures,
    /// Credits that the server granted in its last reply on the current connection, or 1 before its first
    /// reply on this connection (RFC 8166 section 3.3.3). The number is zero over TCP and without a
    /// connection.
    pub credits: u32,
    /// Calls that had to wait for a credit.
    pub credit_waits: u64,
    /// Total time that calls have waited for a credit.
    pub credit_wait_time: Duration,
    /// Messages from the server that matched no call. The count is zero over TCP.
    pub discarded: u64,
    /// Connections (including the first), failed attempts, retransmissions and timeouts.
    pub session: SessionCounts,
}

impl ClientSnapshot {
    /// Returns the number of connections made after the first.
    #[must_use]
    pub fn reconnects(&self) -> u64 {
        self.session.connections.saturating_sub(1)
    }
}

impl fmt::Display for ClientSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "traffic: {}", self.traffic)?;
        writeln!(f, "failures: {}", self.failures)?;
        writeln!(f, "credits: {} calls waited {:?} in total", self.credit_waits, self.credit_wait_time)?;
        let SessionCounts { connections, failed_attempts, retransmissions, .. } = self.session;
        write!(
            f,
            "connections: {connections}, {failed_attempts} attempts failed, {retransmissions} calls retransmitted, \
             {} messages dropped",
            self.discarded
        )
    }
}

const SESSION: [&str; 4] = ["connections", "failed_attempts", "retransmissions", "timeouts"];

#[derive(Clone, Debug, Default)]
pub(in super::super) struct ClientStats(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    traffic: Atomics<{ TrafficCounts::LEN }>,
    failures: Atomics<{ Failures::LEN }>,
    credits: AtomicU32,
    credit_waits: AtomicU64,
    credit_wait_nanos: AtomicU64,
    discarded: AtomicU64,
    session: [AtomicU64; 4],
}

impl Drop for Counts {
    fn drop(&mut self) {
        self.granted(0);
    }
}

impl Counts {
    fn granted(&self, credits: u32) {
        let before = self.credits.swap(credits, Ordering::Relaxed);
        if credits != before {
            metrics::add("rpcrdma_client_credits", f64::from(credits) - f64::from(before));
        }
    }
}

impl ClientStats {
    pub(in super::super) fn snapshot(&self) -> ClientSnapshot {
        let Counts { traffic, failures, credits, credit_waits, credit_wait_nanos, discarded, session } =
            &*self.0;
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let [connections, failed_attempts, retransmissions, timeouts] = session;
        ClientSnapshot {
            traffic: TrafficCounts::from_array(traffic.get()),
            failures: Failures::from_array(failures.get()),
            credits: credits.load(Ordering::Relaxed),
            credit_waits: load(credit_waits),
            credit_wait_time: Duration::from_nanos(load(credit_wait_nanos)),
            discarded: load(discarded),
            session: SessionCounts {
                connections: load(connections),
                failed_attempts: load(failed_attempts),
                retransmissions: load(retransmissions),
                timeouts: load(timeouts),
            },
        }
    }

    pub(in super::super) fn ended(&self, outcome: Result<&Traffic, &CallError>) {
        match outcome {
            Ok(traffic) => {
                let counts = TrafficCounts::from(traffic);
                self.0.traffic.add(counts.to_array());
                metrics::bytes("rpcrdma_client_bytes_total", &counts);
            }
            Err(error) => self.failed(Failures::of(error)),
        }
    }

    pub(in super::super) fn abandoned(&self) {
        self.failed(Failures { abandoned: 1, ..Failures::default() });
    }

    fn failed(&self, failures: Failures) {
        self.0.failures.add(failures.to_array());
        metrics::count("rpcrdma_client_failures_total", Failures::NAMES, failures.to_array());
    }

    pub(in super::super) fn granted(&self, credits: u32) {
        self.0.granted(credits);
    }

    /// Adds the credit waits and the discarded messages of a connection since the last update.
    pub(in super::super) fn connection(&self, credit_waits: u64, discarded: u64) {
        self.0.credit_waits.fetch_add(credit_waits, Ordering::Relaxed);
        self.0.discarded.fetch_add(discarded, Ordering::Relaxed);
        metrics::count("rpcrdma_client_waits_total", ["credit"], [credit_waits]);
    }

    /// Adds the time that calls have waited for a credit: `time` for each of `calls` calls.
    pub(in super::super) fn waited(&self, calls: usize, time: Duration) {
        let calls = u32::try_from(calls).unwrap_or(u32::MAX);
        let nanos = u64::try_from(time.saturating_mul(calls).as_nanos()).unwrap_or(u64::MAX);
        self.0.credit_wait_nanos.fetch_add(nanos, Ordering::Relaxed);
    }

    pub(in super::super) fn session(&self, counts: SessionCounts) {
        let counts = [counts.connections, counts.failed_attempts, counts.retransmissions, counts.timeouts];
        for ((sum, count), name) in self.0.session.iter().zip(counts).zip(SESSION) {
            let before = sum.swap(count, Ordering::Relaxed);
            metrics::count("rpcrdma_client_sessions_total", [name], [count.saturating_sub(before)]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_reply_is_not_a_rejection() {
        let errors: [fn(ReplyError) -> CallError; 2] =
            [CallError::Rejected, |error| CallError::Gss(GssFailure::Rejected(error))];
        for of in errors {
            let counts = |error| {
                let Failures { rejected, bad_reply, .. } = Failures::of(&of(error));
                (rejected, bad_reply)
            };
            assert_eq!(counts(ReplyError::GarbageArguments), (1, 0));
            assert_eq!(counts(ReplyError::NotTheReply), (0, 1));
        }
    }
}
