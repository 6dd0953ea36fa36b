use std::time::Duration;

use super::super::options::{IDLE, MAX_BACKWARD_CALLS, raised_limit};
use super::super::{DuplicateCache, MemoryBudget, Observer};
use crate::proto::program::Credential;
use crate::proto::rpc::Services;
use crate::proto::session::{Policy, Reconnect};
use crate::provider::iwarp::Keepalive;

/// The options of a TCP connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpOptions {
    /// The maximum length of a received record, in octets. The default is 8 MiB for the data of one call, as
    /// over RDMA, plus 64 KiB for headers. A server raises the default to accept the longest calls of its
    /// programs ([`Service::max_args`](crate::proto::program::Service::max_args)), up to half of its memory
    /// budget. A client raises the default to accept the longest bounded replies to its calls, and the
    /// longest calls (at most 24 MiB) of its backward programs. A server does not raise the default for
    /// replies to its backward calls.
    pub max_record: usize,
    /// Maximum number of concurrent calls on one connection (default 64). A client queues further calls. A
    /// server stops reading from a connection with this many unanswered calls. Exception: while a server has
    /// outstanding backward calls, it reads and queues further calls, up to
    /// [`max_record`](Self::max_record) octets, because replies may arrive behind the further calls.
    /// Meanwhile, calls longer than 16 KiB wait for memory only if the connection would otherwise hold more
    /// than `max_record` octets of such calls. Calls that do not wait count toward the memory budget once
    /// they have arrived. While a record in several fragments arrives, the record counts as `max_record`
    /// octets. A long reply to a backward call waits for memory like a long call.
    pub max_concurrent_calls: usize,
    /// Maximum number of concurrent backward calls on one connection (default 16). A server queues further
    /// calls. A client queues further calls that it receives, up to [`max_record`](Self::max_record) octets,
    /// and then stops reading.
    pub max_concurrent_backward_calls: usize,
    /// Timeout for connecting over TCP (default 10 s).
    pub connect_timeout: Duration,
    /// How long a peer may stall in the middle of a record, or accept no output (default 30 s). A client also
    /// applies this timeout to a silent server. If a call times out after that much silence, the client
    /// closes the connection. By default, it reconnects and retransmits its other calls.
    pub stall_timeout: Duration,
    /// Minimum rate at which a client must accept output or send the rest of a call, in octets per second
    /// (default 64 KiB). The rate is averaged over at least 10 s. A server closes the connection of a slower
    /// client. A rate of 0 disables the check. [`stall_timeout`](Self::stall_timeout) applies to a client
    /// that makes no progress.
    pub min_rate: u64,
    /// When TCP probes an idle peer (default: after 60 s without a segment); `None` disables the probes.
    pub keepalive: Option<Keepalive>,
    #[doc(hidden)]
    pub non_exhaustive: (),
}

impl TcpOptions {
    /// Returns [`max_record`](Self::max_record). If it has the default value, raises the result to admit
    /// `data` octets of data.
    pub(in super::super) fn raised_max_record(&self, data: u64) -> usize {
        let [limit, default] = [self.max_record, TcpOptions::default().max_record].map(|len| len as u64);
        usize::try_from(raised_limit(limit, default, data)).unwrap_or(usize::MAX)
    }
}

impl Default for TcpOptions {
    fn default() -> Self {
        TcpOptions {
            max_record: (8 << 20) + (64 << 10), // `MAX_TRANSFER` and `MAX_HEADERS`
            max_concurrent_calls: 64,
            max_concurrent_backward_calls: 16,
            connect_timeout: Duration::from_secs(10),
            stall_timeout: Duration::from_secs(30),
            min_rate: 64 << 10,
            keepalive: Some(Keepalive::default()),
            non_exhaustive: (),
        }
    }
}

/// The options of a client over TCP.
#[derive(Clone, Debug)]
pub struct TcpClientOptions {
    /// The credential of the caller (default AUTH_NONE).
    pub credential: Credential,
    /// How long a call may take across connections, including the wait for a connection and a slot (default
    /// 60 s). [`TcpClient::with_timeout`](super::TcpClient::with_timeout) overrides this timeout.
    pub timeout: Duration,
    /// How long the client keeps a connection without calls (default 5 minutes). The next call reconnects.
    /// With `None`, or without [`reconnect`](Self::reconnect), an idle connection stays open.
    pub idle: Option<Duration>,
    /// How the client reconnects, and which calls it retransmits. With `None`, all calls fail once the
    /// connection has ended.
    pub reconnect: Option<Reconnect>,
    /// The maximum number of queued and outstanding calls (default 65,536). Further calls fail immediately
    /// with [`CallError::TooMany`](super::super::CallError::TooMany).
    pub max_outstanding_calls: usize,
    /// The programs that the server may call on the connection, in the backward direction. By default, the
    /// client serves no programs and drops backward calls. As with
    /// [`ClientOptions::backward`](super::super::ClientOptions::backward), the client stays connected, and
    /// the caller must announce the programs on each connection
    /// ([`TcpClient::next_connection`](super::TcpClient::next_connection)). At most
    /// [`TcpOptions::max_concurrent_backward_calls`] backward calls run at a time.
    pub backward: Services,
    /// The options of each connection.
    pub tcp: TcpOptions,
    /// Observes every call.
    pub observer: Option<Observer>,
    #[doc(hidden)]
    pub non_exhaustive: (),
}

impl Default for TcpClientOptions {
    fn default() -> Self {
        let policy = Policy::default();
        TcpClientOptions {
            credential: Credential::None,
            timeout: policy.timeout,
            idle: policy.idle,
            reconnect: policy.reconnect,
            max_outstanding_calls: 65_536,
            backward: Services::new(),
            tcp: TcpOptions::default(),
            observer: None,
            non_exhaustive: (),
        }
    }
}

/// The options of a server over TCP.
#[derive(Clone, Debug)]
pub struct TcpServerOptions {
    /// The maximum number of connections (default 1,024).
    /// [`ServerOptions::idle`](super::super::ServerOptions::idle) describes how the server handles further
    /// connections. With a limit of 0, the server fails to bind.
    pub max_connections: usize,
    /// The maximum number of connections from one IPv4 address or one 64-bit IPv6 prefix, at least 1
    /// (default 256). Further connections are closed.
    pub max_connections_per_address: usize,
    /// How long the server keeps a connection without calls (default 6 minutes). A connection on which the
    /// server may call its client is never idle. [`ServerOptions::idle`](super::super::ServerOptions::idle)
    /// describes which connections the server closes when [`max_connections`](Self::max_connections) is
    /// reached, and the effect of `None`.
    pub idle: Option<Duration>,
    /// How long a stopping server waits for running calls (default 10 s). Calls that the duplicate-request
    /// cache tracks continue after this time.
    pub drain: Duration,
    /// Detects retransmitted calls (default: a cache with default options). With `None`, retransmitted
    /// calls run again.
    pub duplicates: Option<DuplicateCache>,
    /// The memory for calls and replies of all connections (default 48 MiB). Servers share the budget if
    /// their options contain clones of it.
    pub memory: MemoryBudget,
    /// The maximum number of queued and outstanding backward calls on one connection (default 1,024).
    /// Further calls fail immediately with [`CallError::TooMany`](super::super::CallError::TooMany).
    pub max_backward_calls: usize,
    /// The options of each connection.
    pub tcp: TcpOptions,
    #[doc(hidden)]
    pub non_exhaustive: (),
}

impl Default for TcpServerOptions {
    fn default() -> Self {
        TcpServerOptions {
            max_connections: 1024,
            max_connections_per_address: 256,
            idle: Some(IDLE),
            drain: Duration::from_secs(10),
            duplicates: Some(DuplicateCache::default()),
            memory: MemoryBudget::default(),
            max_backward_calls: MAX_BACKWARD_CALLS,
            tcp: TcpOptions::default(),
            non_exhaustive: (),
        }
    }
}
