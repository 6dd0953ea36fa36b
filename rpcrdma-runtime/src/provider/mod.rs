//! Providers: what moves bytes.
//!
//! A provider implements [`Connector`] for clients, [`Acceptor`] and [`IncomingConnection`] for servers, and [`Connection`] for both.
//! [`iwarp`] is one; the crate `rpcrdma-verbs` is another.

mod error;
mod resolve;

pub mod iwarp;

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::task::{Context, Poll};

use bytes::Bytes;

pub use self::error::{BoxError, ConnectError};
pub use self::resolve::connect_any;
use crate::proto::rdma::Config;
use crate::proto::work::{Action, Completion};

/// Makes connections to one server, the first and those that replace it.
///
/// A closure that returns the future of a connection is a connector, too.
pub trait Connector: Send + Sync + 'static {
    /// What it makes.
    type Connection: Connection + 'static;

    /// Makes one connection.
    fn connect(
        &self,
        local: &LocalParameters,
    ) -> impl Future<Output = Result<Self::Connection, ConnectError>> + Send;
}

impl<F, Made, C> Connector for F
where
    F: Fn() -> Made + Send + Sync + 'static,
    Made: Future<Output = Result<C, ConnectError>> + Send,
    C: Connection + 'static,
{
    type Connection = C;

    fn connect(&self, _: &LocalParameters) -> impl Future<Output = Result<C, ConnectError>> + Send {
        self()
    }
}

/// Listens at an address.
pub trait Acceptor: Send + Sync + 'static {
    /// A peer that asks for a connection.
    type Incoming: IncomingConnection;

    /// The address that is bound, with the port that the system chose.
    ///
    /// # Errors
    /// What the system says.
    fn local_addr(&self) -> io::Result<SocketAddr>;

    /// The next peer that asks for a connection.
    ///
    /// # Errors
    /// What the system says: of one connection, of the process's limits, or of the listener.
    fn accept(&self) -> impl Future<Output = io::Result<Self::Incoming>> + Send;

    /// Returns how many peers the provider itself refused since the last time, and counts from 0 again.
    fn take_refused(&self) -> u64 {
        0
    }
}

/// A peer that asks for a connection. Dropping it refuses.
pub trait IncomingConnection: Send + 'static {
    /// What accepting makes.
    type Connection: Connection + 'static;

    /// The peer's address.
    fn peer(&self) -> SocketAddr;

    /// Accepts. It runs in a task of its own, so that a slow peer delays no other.
    fn accept(
        self,
        local: &LocalParameters,
    ) -> impl Future<Output = Result<Self::Connection, BoxError>> + Send;
}

/// What the local end of a new connection says and needs.
#[derive(Clone, Debug)]
pub struct LocalParameters {
    /// The private data for the peer (RFC 8797 section 4).
    pub private_data: Bytes,
    /// The longest Send that is received, in bytes.
    pub receive_size: u32,
    /// Receives that suffice for all that the peer may send at once.
    pub receives: u32,
}

impl LocalParameters {
    /// The parameters for this configuration: one Receive for each credit of either direction, and two to spare.
    #[must_use]
    pub fn new(config: &Config) -> Self {
        LocalParameters {
            private_data: Bytes::copy_from_slice(&config.private_data.encode()),
            receive_size: config.private_data.announced().receive_size,
            receives: config.credits.saturating_add(config.backward_credits).saturating_add(2),
        }
    }
}

/// One end of a connection. One task owns it and polls it.
pub trait Connection: Send {
    /// Asks for work. It never waits and never fails: a failure arrives as [`Completion::Closed`].
    fn submit(&mut self, action: Action);

    /// The next completion. Polling is also what sends and receives, so that a side that is blocked
    /// writing still reads. After [`Completion::Closed`] it is pending for ever.
    fn poll_completion(&mut self, cx: &mut Context<'_>) -> Poll<Completion>;

    /// Returns a completion that is known already, without looking for what has arrived.
    fn try_completion(&mut self) -> Option<Completion> {
        None
    }

    /// Sends what can be sent without waiting. Returns true if nothing is left to do until something arrives. If it returns
    /// false, the task that polls the connection must be woken. The default leaves all sending to that task.
    fn try_flush(&mut self) -> bool {
        false
    }

    /// What was agreed on when the connection was made.
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

/// What was agreed on when a connection was made.
#[derive(Clone, Debug)]
pub struct ConnectionInfo {
    /// The peer's address, where there is one.
    pub peer: Option<SocketAddr>,
    /// The peer's private data as the upper layer sees it: for iWARP behind the IRD/ORD words.
    pub private_data: Bytes,
    /// RDMA Reads that we may have outstanding (our ORD, the peer's IRD).
    pub reads_out: u32,
    /// RDMA Reads that the peer may have outstanding (our IRD).
    pub reads_in: u32,
    /// The largest region that one registration takes, in bytes.
    pub max_region: u32,
    /// The most Receives that can be posted at a time.
    pub receives: u32,
    /// Whether the peer may invalidate memory that this end advertises: if not, this end has not said so, whatever it is
    /// set to say (the R flag, RFC 8797 section 4.1).
    pub remote_invalidation: bool,
    /// Whether a sink can be fenced while the peer may still write to it, without ending the connection
    /// ([`Action::Abandon`]).
    pub local_fence: bool,
}
