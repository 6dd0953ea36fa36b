use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;

/// Why no connection was made over an RDMA device.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The device, or the system.
    #[error("{what}: {source}")]
    Io {
        /// What was being done.
        what: &'static str,
        /// Why it failed.
        source: io::Error,
    },
    /// No RDMA device of this machine leads to the address.
    #[error("no RDMA device leads to {0}")]
    NoDevice(SocketAddr),
    /// It took too long.
    #[error("{what} took more than {after:?}")]
    Timeout {
        /// What was waited for.
        what: &'static str,
        /// How long.
        after: Duration,
    },
    /// Nobody answers there, or no connection came about.
    #[error("no connection came about: {event} ({source})")]
    Failed {
        /// What the connection manager calls it.
        event: String,
        /// Its status.
        source: io::Error,
    },
    /// The peer refused, or nobody listens there.
    #[error("the peer refused the connection")]
    Refused {
        /// What it sent along; the connection manager may have put zeros behind it.
        private_data: Bytes,
    },
    /// More private data than a connection manager can carry.
    #[error("{0} octets of private data are too many")]
    PrivateData(usize),
}

impl ConnectError {
    pub(super) fn of(what: &'static str) -> impl FnOnce(io::Error) -> ConnectError {
        move |source| ConnectError::Io { what, source }
    }
}
