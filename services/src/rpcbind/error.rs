use rpcrdma_runtime::shell::{CallError, ConnectError};

use super::Netid;

/// Why rpcbind was of no help.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// It cannot be reached.
    #[error("rpcbind: {0}")]
    Connect(#[from] ConnectError),
    /// It did not answer a call as it should.
    #[error("rpcbind: {0}")]
    Call(#[from] CallError),
    /// It registers nothing under this name: another server has it, or the caller may not.
    #[error(
        "rpcbind does not register program {program} version {version} at {netid}: another server has it, or this one may not"
    )]
    Refused {
        /// The program's number.
        program: u32,
        /// The version's number.
        version: u32,
        /// The transport.
        netid: Netid,
    },
    /// It still has a registration that was to be removed.
    #[error("rpcbind does not remove program {program} version {version} at {netid}")]
    Kept {
        /// The program's number.
        program: u32,
        /// The version's number.
        version: u32,
        /// The transport.
        netid: Netid,
    },
    /// It answered with what is no address to connect to over this transport.
    #[error("rpcbind says `{address}`, where nothing can be reached by {netid}")]
    BadAddress {
        /// What it said, cut after 80 bytes.
        address: String,
        /// The transport.
        netid: Netid,
    },
    /// The host has no address of the transport's family.
    #[error("{host} cannot be resolved: {source}")]
    Resolve {
        /// The host as given.
        host: String,
        /// Why.
        source: std::io::Error,
    },
}
