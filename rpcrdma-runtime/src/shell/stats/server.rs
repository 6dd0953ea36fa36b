use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::Atomics;
use crate::proto::counts::counts;
use crate::proto::rdma::{Refusals, TrafficCounts};
use crate::proto::rpc::RpcCounts;

counts! {
    /// Connections of a server.
    pub struct ConnectionCounts {
        /// Connections that were made.
        pub made: "connections",
        /// Connections that were taken and came to nothing: a handshake that failed or took too long.
        pub failed: "that came to nothing",
        /// Connections that were closed at once: their address may not connect, or has as many as it may have.
        pub turned_away: "turned away",
    }
}

counts! {
    /// What a duplicate-request cache did for a server.
    pub struct DuplicateCounts {
        /// Calls that were new, and remembered.
        pub remembered: "calls remembered",
        /// Calls that came again and were answered with the reply that was kept.
        pub answered: "answered as before",
        /// Calls that came again while they ran, and were answered with the first.
        pub joined: "joined while they ran",
        /// Calls that were not remembered, for too many ran.
        pub unremembered: "not remembered",
    }
}

/// What a server has counted since it was bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerSnapshot {
    /// Connections that stand.
    pub connected: u64,
    /// Connections there have been.
    pub connections: ConnectionCounts,
    /// What was answered, over any transport.
    pub rpc: RpcCounts,
    /// What came again.
    pub duplicates: DuplicateCounts,
    /// How calls travelled that were answered. Nothing over TCP.
    pub traffic: TrafficCounts,
    /// What was not run. Nothing over TCP.
    pub refusals: Refusals,
}

impl fmt::Display for ServerSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ServerSnapshot { connected, connections, rpc, duplicates, traffic, refusals } = self;
        writeln!(f, "connections: {connected} now, {connections} in all")?;
        writeln!(f, "replies: {rpc}")?;
        writeln!(f, "calls again: {duplicates}")?;
        writeln!(f, "traffic: {traffic}")?;
        write!(f, "refused: {refusals}")
    }
}

/// Reads what a server counts. Clones read the same; it may outlive the server.
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
    /// What was counted up to now.
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
    }

    pub(in super::super) fn rpc(&self, counts: RpcCounts) {
        self.0.rpc.add(counts.to_array());
    }

    pub(in super::super) fn duplicates(&self, counts: DuplicateCounts) {
        self.0.duplicates.add(counts.to_array());
    }

    pub(in super::super) fn transport(&self, (traffic, refusals): (TrafficCounts, Refusals)) {
        self.0.traffic.add(traffic.to_array());
        self.0.refusals.add(refusals.to_array());
    }

    /// A connection stands, as long as what this gives is kept.
    pub(in super::super) fn connected(&self) -> Connected {
        self.connections(ConnectionCounts { made: 1, ..ConnectionCounts::default() });
        self.0.connected.fetch_add(1, Ordering::Relaxed);
        Connected(self.clone())
    }
}

/// A connection that stands.
#[derive(Debug)]
pub(in super::super) struct Connected(ServerStats);

impl Drop for Connected {
    fn drop(&mut self) {
        self.0.0.connected.fetch_sub(1, Ordering::Relaxed);
    }
}
