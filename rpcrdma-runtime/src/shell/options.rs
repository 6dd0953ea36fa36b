use std::time::Duration;

use super::{DuplicateCache, Observer};
use crate::proto::program::{Binding, Credential};
use crate::proto::rdma::Config;
use crate::proto::rdma::session::{Policy, Reconnect};
use crate::proto::rpc::Services;
use crate::provider::iwarp;

/// What a client is set to.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// Credits, inline sizes, segments, limits.
    pub config: Config,
    /// Who calls (default AUTH_NONE).
    pub credential: Credential,
    /// The smallest DDP-eligible item that is worth a Read chunk, in bytes (default 1,024, the smallest inline
    /// threshold there is: a registration and a round trip cost more than to copy so little). A smaller one stays in
    /// its message, also where the message is then too long to be sent inline; one of any size does where the message
    /// with all of its items fits inline (RFC 8166 section 3.5.1), and under RPCSEC_GSS with integrity or privacy.
    /// [`Client::with_min_item`](super::Client::with_min_item) sets it for some calls.
    pub min_item: usize,
    /// How long a call may take, waiting for a connection and for a credit included, and on all connections on which it is
    /// sent (default 60 s). [`Client::with_timeout`](super::Client::with_timeout) has other calls take longer or less.
    pub timeout: Duration,
    /// Calls that have not ended, those that wait for a credit or a connection included (default 65,536). Further ones fail
    /// at once with [`CallError::TooMany`](super::CallError::TooMany).
    pub pending: usize,
    /// A connection without calls is closed after this time, and made again for the next call (default 5 minutes; `None`
    /// keeps it, and so does a client that does not reconnect).
    pub idle: Option<Duration>,
    /// How connections are made again, and which calls are sent again on them. `None`: when the connection ends its calls
    /// fail, and so do all later ones.
    pub reconnect: Option<Reconnect>,
    /// The programs that the server may call on the connection, in the backward direction (RFC 8167; default none: such
    /// calls are dropped). The server's side of them is [`BackwardClient`](super::BackwardClient). They stand ready from
    /// the moment a connection is made; it is for the program of the forward direction to tell the server so, anew on each
    /// connection ([`Client::next_connection`](super::Client::next_connection)), by a call that the server has not had
    /// before. A client that may be called stays connected: `idle` does not count, and a connection that is lost is made
    /// again though there be no calls. At most [`Config::backward_credits`] calls run at a time, and until they wait for
    /// something, on the task that has the client's own replies: what computes for long belongs elsewhere.
    pub backward: Services,
    /// For iWARP in user space, unless another provider carries the calls.
    pub iwarp: iwarp::Options,
    /// Hears of every call.
    pub observer: Option<Observer>,
}

impl ClientOptions {
    /// The defaults for connections that are made for one program: with the inline threshold that its binding recommends.
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
            pending: 65_536,
            idle: policy.idle,
            reconnect: policy.reconnect,
            backward: Services::new(),
            iwarp: iwarp::Options::default(),
            observer: None,
        }
    }
}

/// What a server is set to.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Credits, inline sizes, limits.
    pub config: Config,
    /// Connections at once (default 1,024). Further ones wait to be accepted, if no connection is idle. With 0 the server is not bound
    /// ([`ServeError::NoConnections`](super::ServeError::NoConnections)).
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
    /// Calls in the backward direction on one connection that have not ended, those that wait for a credit included (default
    /// 1,024). Further ones fail at once with [`CallError::TooMany`](super::CallError::TooMany).
    pub backward_pending: usize,
    /// For iWARP in user space, unless another provider carries the calls.
    pub iwarp: iwarp::Options,
}

/// [`ServerOptions::idle`] by default: longer than a client waits, so that usually the client closes first.
pub(super) const IDLE: Duration = Duration::from_secs(6 * 60);
/// [`ServerOptions::backward_pending`] by default.
pub(super) const BACKWARD_PENDING: usize = 1024;

impl ServerOptions {
    /// The defaults for a server that is there for one program: with the inline threshold that its binding recommends.
    #[must_use]
    pub fn of<P: Binding>() -> Self {
        ServerOptions { config: Config::of::<P>(), ..ServerOptions::default() }
    }
}

impl Default for ServerOptions {
    fn default() -> Self {
        ServerOptions {
            config: Config::default(),
            connections: 1024,
            connections_per_address: 256,
            idle: Some(IDLE),
            drain: Duration::from_secs(10),
            duplicates: Some(DuplicateCache::default()),
            backward_pending: BACKWARD_PENDING,
            iwarp: iwarp::Options::default(),
        }
    }
}
