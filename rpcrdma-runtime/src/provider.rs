//! Providers: the transports of RPC-over-RDMA.
//!
//! A provider implements [`Connector`] for clients, [`Acceptor`] and [`IncomingConnection`] for servers,
//! and [`Connection`] for both. [`iwarp`] is one provider; the crate `rpcrdma-verbs` is another.

mod backlog;
mod error;
mod min_rate;
mod resolve;
mod write;

pub mod iwarp;

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::task::{Context, Poll};

use bytes::Bytes;

pub(crate) use self::backlog::raise_backlog;
pub use self::error::{BoxError, ConnectError};
pub use self::min_rate::MinRate;
pub use self::resolve::connect_any;
#[cfg(feature = "shell")]
pub(crate) use self::resolve::{addresses, resolve};
pub(crate) use self::write::try_write;
use crate::proto::rdma::Config;
use crate::proto::work::{Action, Completion};

/// Connects to one server. A client calls its connector for each connection, including reconnections.
///
/// A closure is also a connector if its future resolves to a connection or a [`ConnectError`].
pub trait Connector: Send + Sync + 'static {
    /// The type of the connections.
    type Connection: Connection + 'static;

    /// Establishes one connection.
    fn connect(
        &self,
        local: &LocalParameters,
    ) -> impl Future<Output = Result<Self::Connection, ConnectError>> + Send;
}

impl<F, Fut, C> Connector for F
where
    F: Fn() -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<C, ConnectError>> + Send,
    C: Connection + 'static,
{
    type Connection = C;

    fn connect(&self, _: &LocalParameters) -> impl Future<Output = Result<C, ConnectError>> + Send {
        self()
    }
}

/// Listens on an address.
pub trait Acceptor: Send + Sync + 'static {
    /// The type of a connection request.
    type Incoming: IncomingConnection;

    /// Returns the bound address, with the port that the system chose if port 0 was requested.
    ///
    /// # Errors
    /// An operating system error.
    fn local_addr(&self) -> io::Result<SocketAddr>;

    /// Returns the next connection request.
    ///
    /// # Errors
    /// A connection request or the listener failed, or the process reached a limit.
    fn accept(&self) -> impl Future<Output = io::Result<Self::Incoming>> + Send;

    /// Returns the number of connection requests that the provider itself refused since the last call to
    /// this method.
    fn take_refused(&self) -> u64 {
        0
    }
}

/// A connection request from a peer. Dropping it refuses the connection.
pub trait IncomingConnection: Send + 'static {
    /// The type of an accepted connection.
    type Connection: Connection + 'static;

    /// Returns the peer's address.
    fn peer(&self) -> SocketAddr;

    /// Accepts the connection. The server runs this method on a separate task, so a slow peer does not delay
    /// other peers.
    fn accept(
        self,
        local: &LocalParameters,
    ) -> impl Future<Output = Result<Self::Connection, BoxError>> + Send;
}

/// The local parameters of a new connection.
#[derive(Clone, Debug)]
pub struct LocalParameters {
    /// The private data to send to the peer (RFC 8797 section 4).
    pub private_data: Bytes,
    /// The maximum length of a received Send, in bytes.
    pub receive_size: u32,
    /// The maximum number of Receives that are posted at the same time, enough for all outstanding messages
    /// of the peer.
    pub receives: u32,
}

impl LocalParameters {
    /// Returns the parameters for a configuration. The number of Receives is the number of credits of both
    /// directions, plus one for each direction.
    #[must_use]
    pub fn new(config: &Config) -> Self {
        LocalParameters {
            private_data: Bytes::copy_from_slice(&config.private_data.encode()),
            receive_size: config.private_data.announced().receive_size,
            receives: config.credits.saturating_add(config.backward_credits).saturating_add(2),
        }
    }
}

/// The local end of a connection. A single task polls it. Other tasks may submit and flush, one at a time.
pub trait Connection: Send {
    /// Starts an action without blocking. [`Completion::Closed`] reports a failure of the connection.
    fn submit(&mut self, action: Action);

    /// Polls for the next completion. Each poll also sends and receives data, so blocked output does not
    /// stop input.
    /// After [`Completion::Closed`], the method always returns [`Poll::Pending`].
    fn poll_completion(&mut self, cx: &mut Context<'_>) -> Poll<Completion>;

    /// Returns the next completion that is already available, if any, without checking for new input.
    fn try_completion(&mut self) -> Option<Completion> {
        None
    }

    /// Sends as much as possible without waiting. Returns true if nothing is left to do until input
    /// arrives. If the method returns false, the task that polls the connection must poll it again. The
    /// default implementation leaves all sending to that task.
    fn try_flush(&mut self) -> bool {
        false
    }

    /// Returns the negotiated parameters of the connection.
    fn info(&self) -> &ConnectionInfo;
}

impl<C: Connection + ?Sized> Connection for Box<C> {
    fn submit(&mut self, action: Action) {
        (**self).submit(action);
    }

    fn poll_completion(&mut self, cx: &mut Context<'_>) -> Poll<Completion> {
        (**self).poll_completion(cx)
    }

    fn try_completion(&mut self) -> Option<Completion> {
        (**self).try_completion()
    }

    fn try_flush(&mut self) -> bool {
        (**self).try_flush()
    }

    fn info(&self) -> &ConnectionInfo {
        (**self).info()
    }
}

/// The negotiated parameters of a connection.
#[derive(Clone, Debug)]
pub struct ConnectionInfo {
    /// The local address, if the transport has addresses.
    pub local: Option<SocketAddr>,
    /// The peer's address, if the transport has addresses.
    pub peer: Option<SocketAddr>,
    /// The peer's private data for the upper layer: for iWARP, without the IRD and ORD words.
    pub private_data: Bytes,
    /// Maximum number of outstanding local RDMA Reads (local ORD, limited by the peer's IRD).
    pub ord: u32,
    /// Maximum number of outstanding RDMA Reads of the peer (local IRD).
    pub ird: u32,
    /// The maximum length of one registration, in bytes.
    pub max_region: u32,
    /// The maximum number of posted Receives.
    pub receives: u32,
    /// Whether the peer may invalidate local handles. If false, a connector clears the R flag in the private
    /// data that it sends (RFC 8797 section 4.1), regardless of the client's configuration.
    pub remote_invalidation: bool,
    /// Whether the provider can fence a sink that the peer may still write, without closing the connection
    /// ([`Action::Abandon`]).
    pub local_fence: bool,
}
