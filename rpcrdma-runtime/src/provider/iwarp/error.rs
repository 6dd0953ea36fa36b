use std::io;
use std::time::Duration;

use bytes::Bytes;

use crate::proto::iwarp::SetupError;
use crate::wire::iwarp::MpaError;

/// Why connecting over iWARP, or accepting a connection, failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IwarpError {
    /// A TCP or operating system error.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A step of the connection setup timed out.
    #[error("{what} took more than {after:?}")]
    Timeout {
        /// The step that timed out.
        what: &'static str,
        /// The time limit.
        after: Duration,
    },
    /// The peer closed the connection during the MPA handshake.
    #[error("the peer closed the connection during the MPA handshake")]
    Hangup,
    /// The peer does not use MPA, or its MPA frame is invalid or has an unsupported revision.
    #[error(transparent)]
    Mpa(#[from] MpaError),
    /// The parameters of the peers are incompatible, or the local private data is too long.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// The peer refused the connection (the R flag of its MPA reply).
    #[error("the peer refused the connection")]
    Refused {
        /// The private data of the reply, without the IRD and ORD words.
        private_data: Bytes,
    },
    /// The peer sent data before the MPA reply (RFC 5044 section 7.1.2).
    #[error("the peer sent data before the MPA reply")]
    EarlyData,
    /// The capture file cannot be written. Nothing was sent.
    #[error(transparent)]
    Capture(#[from] super::CaptureError),
}
