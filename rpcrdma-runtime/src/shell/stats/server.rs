use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::super::metrics::{self, Gauged};
use super::Atomics;
use crate::proto::counts::counts;
use crate::proto::rdma::{Refusals, TrafficCounts};
use crate::proto::rpc::RpcCounts;

counts! {
    /// Connections of a server.
    pub struct ConnectionCounts {
        /// Connections that were established.
        pub made: "made",
        /// Connections whose handshake failed or timed out, and connection requests that the provider itself
        /// refused.
        pub failed: "failed",
        /// Connections that were closed before they were served, because the peer's address was not admitted
        /// or a limit on connections was reached.
        pub refused: "refused",
    }
}

counts! {
    /// How a duplicate-request cache handled a server's calls.
    pub struct DuplicateCounts {
        /// New calls that the cache tracked.
        pub tracked: "tracked",
        /// Retransmitted calls that got the cached reply.
        pub replayed: "replayed",
        /// Retransmitted calls that arrived while the original call ran, and waited for it to end.
        pub joined: "joined",
        /// New calls that were not tracked because running calls filled the cache or the owner's share of
        /// the cache.
        pub untracked: "untracked",
    }
}

/// The counts of a server since it was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerSnapshot {
    /// Open connections.
    pub connected: u64,
    /// All connections so far.
    pub connections: ConnectionCounts,
    /// Replies, and calls without a reply, over any transport.
    pub rpc: RpcCounts,
    /// How the duplicate-request cache handled calls.
    pub duplicates: DuplicateCounts,
    /// How calls with a reply were transferred. Over TCP, all calls and replies are inline.
    pub traffic: TrafficCounts,
    /// Messages over RDMA that were dropped or rejected.
    pub refusals: Refusals,
}

impl fmt::Display for ServerSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ServerSnapshot { connected, connections, rpc, duplicates, traffic, refusals } = self;
        writeln!(f, "connections: {connected} open; total: {connections}")?;
        writeln!(f, "replies: {rpc}")?;
        writeln!(f, "duplicate-request cache: {duplicates}")?;
        writeln!(f, "traffic: {traffic}")?;
        write!(f, "refused: {refusals}")
    }
}

/// Reads the counters of a server. Clones read the same counters and may outlive the server.
#[derive(Clone, Debug, Default)]
pub struct ServerStats(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    connected: AtomicU64,
    connections: Atomics<{ ConnectionCounts::LEN }>,
    rpc: Atomics<{ RpcCounts::LEN }>,
    duplicates: Atomics<{ DuplicateCounts::LEN }>,
    traffic: Atomics<{ TrafficCounts::LEN }>,
    refusals: Atomics<{ Refusals::LEN }>,
}

impl ServerStats {
    /// Returns new statistics. If metrics are enabled, also creates the server's metrics with the value 0, so
    /// that the recorder exports them before their first event.
    pub(in super::super) fn with_metrics() -> Self {
        metrics::create_counters("rpcrdma_server_connections_total", &ConnectionCounts::NAMES);
        metrics::create_counters("rpcrdma_server_replies_total", &RpcCounts::NAMES);
        metrics::create_counters("rpcrdma_server_duplicates_total", &DuplicateCounts::NAMES);
        metrics::create_counters("rpcrdma_server_bytes_total", &metrics::BYTE_KINDS);
        metrics::create_counters("rpcrdma_server_refusals_total", &Refusals::NAMES);
        for gauge in ["rpcrdma_server_connections", "rpcrdma_server_credits", "rpcrdma_server_memory_bytes"] {
            metrics::add(gauge, 0.0);
        }
        ServerStats::default()
    }

    /// Returns the current counts.
    #[must_use]
    pub fn snapshot(&self) -> ServerSnapshot {
        let Counts { connected, connections, rpc, duplicates, traffic, refusals } = &*self.0;
        ServerSnapshot {
            connected: connected.load(Ordering::Relaxed),
            connections: ConnectionCounts::from_array(connections.get()),
            rpc: RpcCounts::from_array(rpc.get()),
            duplicates: DuplicateCounts::from_array(duplicates.get()),
            traffic: TrafficCounts::from_array(traffic.get()),
            refusals: Refusals::from_array(refusals.get()),
        }
    }

    pub(in super::super) fn connections(&self, counts: ConnectionCounts) {
        self.0.connections.add(counts.to_array());
        metrics::count("rpcrdma_server_connections_total", ConnectionCounts::NAMES, counts.to_array());
    }

    pub(in super::super) fn rpc(&self, counts: RpcCounts) {
        self.0.rpc.add(counts.to_array());
        metrics::count("rpcrdma_server_replies_total", RpcCounts::NAMES, counts.to_array());
    }

    pub(in super::super) fn duplicates(&self, counts: DuplicateCounts) {
        self.0.duplicates.add(counts.to_array());
        metrics::count("rpcrdma_server_duplicates_total", DuplicateCounts::NAMES, counts.to_array());
    }

    pub(in super::super) fn traffic(&self, traffic: &TrafficCounts) {
        self.0.traffic.add(traffic.to_array());
        metrics::bytes("rpcrdma_server_bytes_total", traffic);
    }

    pub(in super::super) fn refusals(&self, refusals: &Refusals) {
        self.0.refusals.add(refusals.to_array());
        metrics::count("rpcrdma_server_refusals_total", Refusals::NAMES, refusals.to_array());
    }

    /// Counts a new connection. The connection counts as open until the returned value is dropped.
    pub(in super::super) fn connected(&self) -> OpenConnection {
        self.connections(ConnectionCounts { made: 1, ..ConnectionCounts::default() });
        self.0.connected.fetch_add(1, Ordering::Relaxed);
        OpenConnection { stats: self.clone(), _gauge: Gauged::new("rpcrdma_server_connections", 1.0) }
    }
}

#[derive(Debug)]
pub(in super::super) struct OpenConnection {
    stats: ServerStats,
    _gauge: Gauged,
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.stats.0.connected.fetch_sub(1, Ordering::Relaxed);
    }
}
