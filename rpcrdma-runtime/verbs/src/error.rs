use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;

/// The reason why a device could not be looked up, or why a connection over an RDMA device could not be
/// established, accepted or refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VerbsError {
    /// The device or the system reported an error.
    #[error("{what}: {source}")]
    Io {
        /// The operation that failed.
        what: &'static str,
        /// The error.
        source: io::Error,
    },
    /// No RDMA device of this machine has a route to the address, or the address cannot be resolved.
    #[error("no RDMA device has a route to {0}")]
    NoDevice(SocketAddr),
    /// An operation timed out.
    #[error("{what} took more than {after:?}")]
    Timeout {
        /// The operation.
        what: &'static str,
        /// The timeout.
        after: Duration,
    },
    /// The route could not be resolved, the peer did not respond, or the handshake failed.
    #[error("the connection could not be established: {event} ({source})")]
    Failed {
        /// The connection manager's name for the event.
        event: String,
        /// The status of the event.
        source: io::Error,
    },
    /// The peer refused the connection, or no server listens at the address.
    #[error("the peer refused the connection")]
    Refused {
        /// The peer's private data. The connection manager may have appended zeros.
        private_data: Bytes,
    },
    /// The private data is too long for the connection manager.
    #[error("too much private data: {0} octets (limit 56)")]
    PrivateData(usize),
}

impl VerbsError {
    pub(super) fn io(what: &'static str) -> impl FnOnce(io::Error) -> VerbsError {
        move |source| VerbsError::Io { what, source }
    }
}
