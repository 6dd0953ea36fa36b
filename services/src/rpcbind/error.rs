use rpcrdma_runtime::{CallError, ConnectError};

use super::Netid;

/// The reason why a request to rpcbind failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RpcbindError {
    /// Connecting to rpcbind failed.
    #[error("rpcbind: {0}")]
    Connect(#[from] ConnectError),
    /// A call to rpcbind failed.
    #[error("rpcbind: {0}")]
    Call(#[from] CallError),
    /// rpcbind refused a registration: another server is registered, or the caller lacks permission.
    #[error(
        "rpcbind refused to register program {program} version {version} for {netid}: \
         another server is registered, or permission is denied"
    )]
    Refused {
        /// The program number.
        program: u32,
        /// The version number.
        version: u32,
        /// The transport.
        netid: Netid,
    },
    /// rpcbind refused to remove a registration.
    #[error("rpcbind refused to remove program {program} version {version} for {netid}")]
    Kept {
        /// The program number.
        program: u32,
        /// The version number.
        version: u32,
        /// The transport.
        netid: Netid,
    },
    /// rpcbind returned an address that is invalid for this transport.
    #[error("rpcbind returned an invalid address for {netid}: `{address}`")]
    BadAddress {
        /// The address, truncated to 80 bytes.
        address: String,
        /// The transport.
        netid: Netid,
    },
    /// The host name cannot be resolved.
    #[error("cannot resolve {host}: {source}")]
    Resolve {
        /// The host.
        host: String,
        /// The resolver's error.
        source: std::io::Error,
    },
}
