use std::error::Error;
use std::io;

/// An error of a provider.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The address cannot be resolved.
    #[error("{address} cannot be resolved: {source}")]
    Resolve {
        /// The address as given.
        address: String,
        /// Why.
        source: io::Error,
    },
    /// Every address was tried; this is the provider's error for the last one.
    #[error("no connection to {address}: {source}")]
    Connect {
        /// The address as given.
        address: String,
        /// Why.
        source: BoxError,
    },
    /// A connector of the caller's own failed.
    #[error("no connection: {0}")]
    Connector(#[source] BoxError),
    /// Every address was tried by TCP; this is the last one's answer.
    #[error("no connection by TCP to {address}: {source}")]
    Tcp {
        /// The address as given.
        address: String,
        /// Why.
        source: io::Error,
    },
}
