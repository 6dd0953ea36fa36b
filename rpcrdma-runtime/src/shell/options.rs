use std::time::Duration;

use rpcrdma_layout::MAX_HEADERS;

use super::{DuplicateCache, MemoryBudget, Observer};
use crate::proto::program::{Binding, Credential};
use crate::proto::rdma::Config;
use crate::proto::rpc::Services;
use crate::proto::session::{Policy, Reconnect};
use crate::provider::iwarp;

/// The options of a client.
///
/// ```no_run
/// use rpcrdma_runtime::{Client, ClientOptions};
/// use std::time::Duration;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let options = ClientOptions { timeout: Duration::from_secs(10), ..ClientOptions::default() };
/// let client = Client::connect_with("192.0.2.1:20049", options).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// The configuration of RPC-over-RDMA: credits, inline thresholds, segments and limits.
    pub config: Config,
    /// The credential of the caller (default AUTH_NONE).
    pub credential: Credential,
    /// The minimum size, in bytes, of a DDP-eligible item that the client sends as a Read chunk. The default
    /// is 1,024: below this size, registration and a round trip cost more than a copy. A smaller item stays
    /// in its message even if the message is then too long to be sent inline. An item of any size stays in
    /// its message under RPCSEC_GSS with integrity or privacy, or if the whole message fits inline (RFC 8166
    /// section 3.5.1). With the default [`Config::long_call`], an item also stays if the rest of the message
    /// does not fit inline. [`Client::with_min_item`](super::Client::with_min_item) overrides the size.
    pub min_item: usize,
    /// How long a call may take across connections, including the wait for a connection and a credit (default
    /// 60 s). [`Client::with_timeout`](super::Client::with_timeout) overrides this timeout.
    pub timeout: Duration,
    /// The maximum number of queued and outstanding calls (default 65,536). Further calls fail immediately
    /// with [`CallError::TooMany`](super::CallError::TooMany).
    pub max_outstanding_calls: usize,
    /// How long the client keeps a connection without calls (default 5 minutes). The next call reconnects.
    /// With `None`, or without [`reconnect`](Self::reconnect), an idle connection stays open.
    pub idle: Option<Duration>,
    /// How long the server may be silent while a timed-out call holds a credit (default 30 s). After this
    /// time, the client closes the connection.
    pub max_silence: Duration,
    /// How the client reconnects, and which calls it retransmits. With `None`, all calls fail once the
    /// connection has ended.
    pub reconnect: Option<Reconnect>,
    /// The programs that the server may call on the connection in the backward direction (RFC 8167). By
    /// default, the client serves no programs. It then drops backward calls, or rejects them with ERR_CHUNK
    /// if they have chunks. A server of this crate calls the programs through
    /// [`BackwardClient`](super::BackwardClient).
    ///
    /// The client accepts backward calls as soon as a connection is made. On each connection
    /// ([`Client::next_connection`](super::Client::next_connection)), the caller must announce the backward
    /// programs to the server with a call of the forward program. This call must be new, because a server may
    /// replay a cached reply to a retransmission. A client with backward programs stays connected: `idle`
    /// does not apply. With [`reconnect`](Self::reconnect), a lost connection is replaced even without calls.
    ///
    /// At most [`Config::backward_credits`] backward calls run at a time. Until a handler waits, the handler
    /// runs on the task that receives the replies to the client's own calls. Use
    /// `tokio::task::spawn_blocking` for long computations.
    pub backward: Services,
    /// Options for iWARP in user space. Other providers ignore these options.
    pub iwarp: iwarp::IwarpOptions,
    /// Observes every call.
    pub observer: Option<Observer>,
    #[doc(hidden)]
    pub non_exhaustive: (),
}

impl ClientOptions {
    /// Returns the defaults for one program, with the inline threshold that its binding recommends, if any.
    #[must_use]
    pub fn of<P: Binding>() -> Self {
        ClientOptions { config: Config::of::<P>(), ..ClientOptions::default() }
    }
}

impl Default for ClientOptions {
    fn default() -> Self {
        let policy = Policy::default();
        ClientOptions {
            config: Config::default(),
            credential: Credential::None,
            min_item: 1024,
            timeout: policy.timeout,
            max_outstanding_calls: 65_536,
            idle: policy.idle,
            max_silence: policy.max_silence,
            reconnect: policy.reconnect,
            backward: Services::new(),
            iwarp: iwarp::IwarpOptions::default(),
            observer: None,
            non_exhaustive: (),
        }
    }
}

/// The options of a server.
///
/// ```no_run
/// use rpcrdma_runtime::{MemoryBudget, Server, ServerOptions};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let memory = MemoryBudget::new(256 << 20);
/// let options = ServerOptions { max_connections: 4096, memory, ..ServerOptions::default() };
/// let server = Server::bind_with("0.0.0.0:20049", options).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// The configuration of RPC-over-RDMA: credits, inline thresholds and limits.
    pub config: Config,
    /// The maximum number of connections (default 1,024). [`idle`](Self::idle) describes how the server
    /// handles further connections. With a limit of 0, the server fails to bind
    /// ([`ServeError::NoConnections`](super::ServeError::NoConnections)).
    pub max_connections: usize,
    /// The maximum number of connections from one IPv4 address or one 64-bit IPv6 prefix, at least 1
    /// (default 256). Further connections are closed.
    pub max_connections_per_address: usize,
    /// How long the server keeps a connection without calls (default 6 minutes). A connection on which the
    /// server may call its client is never idle.
    ///
    /// When [`max_connections`](Self::max_connections) is reached, the server applies the first matching rule
    /// to a new connection. In these rules, an IPv6 address stands for its 64-bit prefix.
    ///
    /// 1. If a connection has been idle for at least a second, the server closes the connection that has been
    ///    idle longest.
    /// 2. If an address has at least two more connections than the new connection's address, the server
    ///    closes one connection of the address with the most. It chooses the least recently active idle
    ///    connection, or else the least recently active busy connection.
    /// 3. If any address has at least two connections, the server closes the new connection.
    /// 4. Otherwise, the new connection waits to be accepted.
    ///
    /// With `None`, the server closes no connection for these reasons, and new connections wait.
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
    /// Further calls fail immediately with [`CallError::TooMany`](super::CallError::TooMany).
    pub max_backward_calls: usize,
    /// Options for iWARP in user space. Other providers ignore these options.
    pub iwarp: iwarp::IwarpOptions,
    #[doc(hidden)]
    pub non_exhaustive: (),
}

/// Returns `limit`. If `limit` equals `default`, raises the result to admit messages with `data` bytes of
/// data.
pub(super) fn raised_limit(limit: u64, default: u64, data: u64) -> u64 {
    if limit == default { limit.max(data.saturating_add(MAX_HEADERS)) } else { limit }
}

/// The default of [`ServerOptions::idle`]. The default of clients is shorter, so usually the client closes an
/// idle connection.
pub(super) const IDLE: Duration = Duration::from_secs(6 * 60);
pub(super) const MAX_BACKWARD_CALLS: usize = 1024;

impl ServerOptions {
    /// Returns the defaults for a server of one program, with the inline threshold that its binding
    /// recommends, if any.
    #[must_use]
    pub fn of<P: Binding>() -> Self {
        ServerOptions { config: Config::of::<P>(), ..ServerOptions::default() }
    }
}

impl Default for ServerOptions {
    fn default() -> Self {
        ServerOptions {
            config: Config::default(),
            max_connections: 1024,
            max_connections_per_address: 256,
            idle: Some(IDLE),
            drain: Duration::from_secs(10),
            duplicates: Some(DuplicateCache::default()),
            memory: MemoryBudget::default(),
            max_backward_calls: MAX_BACKWARD_CALLS,
            iwarp: iwarp::IwarpOptions::default(),
            non_exhaustive: (),
        }
    }
}
