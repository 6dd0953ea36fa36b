use std::error::Error;
use std::io;

/// A provider's error.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// The reason why a connection attempt failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The address cannot be resolved.
    #[error("{address} cannot be resolved: {source}")]
    Resolve {
        /// The address as given.
        address: String,
        /// The underlying error.
        source: io::Error,
    },
    /// No address accepted a connection. The source is the provider's error for the last address.
    #[error("no connection to {address}: {source}")]
    Connect {
        /// The address as given.
        address: String,
        /// The underlying error.
        source: BoxError,
    },
    /// A connector supplied by the caller failed.
    #[error("no connection: {0}")]
    Connector(#[source] BoxError),
    /// No address accepted a TCP connection. The source is the error for the last address.
    #[error("no TCP connection to {address}: {source}")]
    Tcp {
        /// The address as given.
        address: String,
        /// The underlying error.
        source: io::Error,
    },
}
