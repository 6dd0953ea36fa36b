use std::time::Duration;

use super::super::options::{BACKWARD_PENDING, IDLE};
use super::super::{DuplicateCache, Observer};
use crate::proto::program::Credential;
use crate::proto::rdma::session::{Policy, Reconnect};
use crate::proto::rpc::Services;
use crate::provider::iwarp::Keepalive;

/// What one end of a TCP connection is set to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpOptions {
    /// The longest record that is taken, in octets (default 8 MiB and 64 KiB: as much data as a call over RDMA may
    /// hold, and what stands around it).
    pub max_record: usize,
    /// Calls at once on one connection (default 64). A client's further calls wait; of a server's client that has
    /// as many unanswered nothing more is read. Only while calls in the other direction have no replies, which may be behind
    /// them, calls are read that wait: as many octets as the longest record may have.
    pub calls: usize,
    /// Calls in the backward direction at once on one connection (default 16). Further ones of a server wait. Further ones that a
    /// client is given wait, too: as many octets as the longest record may have, and then nothing more is read.
    pub backward_calls: usize,
    /// How long TCP may take to connect (default 10 s).
    pub connect_timeout: Duration,
    /// How long a peer may stand still while it owes the rest of a record, or while it takes nothing of what is to be
    /// sent (default 30 s). At a client also how long a server may say nothing at all: when the time of a call is up and
    /// so much of it has passed in silence, the connection is made anew for the other calls.
    pub stall_timeout: Duration,
    /// When TCP asks whether the peer is still there (default: after 60 s without a segment); `None` never asks.
    pub keepalive: Option<Keepalive>,
}

impl Default for TcpOptions {
    fn default() -> Self {
        TcpOptions {
            max_record: (8 << 20) + (64 << 10),
            calls: 64,
            backward_calls: 16,
            connect_timeout: Duration::from_secs(10),
            stall_timeout: Duration::from_secs(30),
            keepalive: Some(Keepalive::default()),
        }
    }
}

/// What a client over TCP is set to.
#[derive(Clone, Debug)]
pub struct TcpClientOptions {
    /// Who calls (default AUTH_NONE).
    pub credential: Credential,
    /// How long a call may take, waiting for a connection and for its turn included, and on all connections on which it is
    /// sent (default 60 s). [`TcpClient::with_timeout`](super::TcpClient::with_timeout) has other calls take longer or
    /// less.
    pub timeout: Duration,
    /// A connection without calls is closed after this time, and made again for the next call (default 5 minutes; `None`
    /// keeps it, and so does a client that does not reconnect).
    pub idle: Option<Duration>,
    /// How connections are made again, and which calls are sent again on them. `None`: when the connection ends its calls
    /// fail, and so do all later ones.
    pub reconnect: Option<Reconnect>,
    /// Calls that have not ended, those that wait for their turn or a connection included (default 65,536). Further ones fail
    /// at once with [`CallError::TooMany`](super::super::CallError::TooMany).
    pub pending: usize,
    /// The programs that the server may call on the connection, in the backward direction (default none: such calls are
    /// dropped), as [`ClientOptions::backward`](super::super::ClientOptions::backward) has them: the client stays connected, and
    /// tells the server of them anew on each connection ([`TcpClient::next_connection`](super::TcpClient::next_connection)).
    /// At most [`TcpOptions::backward_calls`] run at a time.
    pub backward: Services,
    /// The connection's own.
    pub tcp: TcpOptions,
    /// Hears of every call.
    pub observer: Option<Observer>,
}

impl Default for TcpClientOptions {
    fn default() -> Self {
        let policy = Policy::default();
        TcpClientOptions {
            credential: Credential::None,
            timeout: policy.timeout,
            idle: policy.idle,
            reconnect: policy.reconnect,
            pending: 65_536,
            backward: Services::new(),
            tcp: TcpOptions::default(),
            observer: None,
        }
    }
}

/// What a server over TCP is set to.
#[derive(Clone, Debug)]
pub struct TcpServerOptions {
    /// Connections at once (default 1,024). Further ones wait to be accepted, if no connection is idle.
    pub connections: usize,
    /// Connections at once of one IPv4 address, or of one 64-bit prefix of IPv6, at least 1 (default 256); further ones are
    /// closed.
    pub connections_per_address: usize,
    /// How long a connection may stay without a call (default 6 minutes). If all [`connections`](Self::connections) are
    /// taken, the one that has been idle for the longest time, and for at least a second, is closed earlier. A connection on
    /// which the server may call its client is never idle. `None`: idle connections stay.
    pub idle: Option<Duration>,
    /// How long a server that is asked to stop waits for the calls that run (default 10 s).
    pub drain: Duration,
    /// Knows calls that are sent again (default: one with its defaults); `None` runs them again.
    pub duplicates: Option<DuplicateCache>,
    /// Calls in the backward direction on one connection that have not ended, those that wait for their turn included (default
    /// 1,024). Further ones fail at once with [`CallError::TooMany`](super::super::CallError::TooMany).
    pub backward_pending: usize,
    /// Each connection's own.
    pub tcp: TcpOptions,
}

impl Default for TcpServerOptions {
    fn default() -> Self {
        TcpServerOptions {
            connections: 1024,
            connections_per_address: 256,
            idle: Some(IDLE),
            drain: Duration::from_secs(10),
            duplicates: Some(DuplicateCache::default()),
            backward_pending: BACKWARD_PENDING,
            tcp: TcpOptions::default(),
        }
    }
}
