use std::io;
use std::time::Duration;

use bytes::Bytes;

use crate::proto::iwarp::SetupError;
use crate::wire::iwarp::MpaError;

/// Why no iWARP connection was made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// TCP, or the system.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The peer took too long.
    #[error("{what} took more than {after:?}")]
    Timeout {
        /// What was waited for.
        what: &'static str,
        /// How long.
        after: Duration,
    },
    /// The peer closed before the MPA frames were through.
    #[error("the peer closed the connection while it was set up")]
    Hangup,
    /// The peer does not speak MPA, or a form of it that is unknown.
    #[error(transparent)]
    Mpa(#[from] MpaError),
    /// The ends do not come together.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// The peer refused (the R flag of its MPA reply).
    #[error("the peer refused the connection")]
    Refused {
        /// What it sent along, without the IRD and ORD words.
        private_data: Bytes,
    },
    /// The peer sent more before it had an answer (RFC 5044 section 7.1.2).
    #[error("the peer sent data before the MPA reply")]
    EarlyData,
    /// The capture file cannot be written. Nothing was sent.
    #[error(transparent)]
    Capture(#[from] super::CaptureError),
}
