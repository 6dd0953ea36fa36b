//! Providers: what moves bytes.

pub mod fabric;
#[cfg(feature = "iwarp")]
pub mod iwarp;
#[cfg(feature = "verbs")]
pub mod verbs;

use core::net::SocketAddr;
use core::task::{Context, Poll};

use bytes::Bytes;

use crate::proto::work::{Action, Completion};

/// One end of a connection. One task owns it and polls it.
pub trait Connection: Send {
    /// Asks for work. It never waits and never fails: a failure arrives as [`Completion::Closed`].
    fn submit(&mut self, action: Action);

    /// The next completion. Polling is also what sends and receives, so that a side that is blocked
    /// writing still reads. After [`Completion::Closed`] it is pending for ever.
    fn poll_completion(&mut self, cx: &mut Context<'_>) -> Poll<Completion>;

    /// What was agreed on when the connection was made.
    fn info(&self) -> &ConnectionInfo;
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
}
