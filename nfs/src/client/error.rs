use std::io;

use rpcrdma_runtime::{CallError, ConnectError, TransportError};

use rpcrdma_services::rpcbind;

use crate::export::NfsError;
use crate::security::Security;

/// Why an operation on a server's file failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The connection failed.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// MOUNT is not available on this connection, and the query to the server's rpcbind failed.
    #[error(
        "MOUNT is not available on this connection, and its port is unknown: {0}; add ?mountport=PORT to the end of the URL"
    )]
    Find(#[from] rpcbind::RpcbindError),
    /// The server's rpcbind has no registration of MOUNT.
    #[error("MOUNT is not registered with the rpcbind of {host}; add ?mountport=PORT to the end of the URL")]
    NoMount {
        /// The server.
        host: String,
    },
    /// A call failed.
    #[error("{path}: {procedure}: {source}")]
    Call {
        /// The procedure.
        procedure: &'static str,
        /// The file.
        path: String,
        /// The underlying error.
        source: CallError,
    },
    /// The server returned an error status.
    #[error("{path}: {} ({procedure}: {})", reason(*.status), name(*.status))]
    Status {
        /// The procedure.
        procedure: &'static str,
        /// The file.
        path: String,
        /// The status: `nfsstat3` (RFC 1813 section 2.6), or `mountstat3` (section 5.1.5) for MNT.
        status: u32,
    },
    /// The server does not accept the security flavor of the URL.
    #[error(
        "{path}: the server does not accept {wanted}, only {offered}; select one with ?sec=NAME at the end of the URL"
    )]
    Security {
        /// The export.
        path: String,
        /// The security flavor of the URL.
        wanted: Security,
        /// The security flavors that the server accepts.
        offered: String,
    },
    /// The server violated the protocol or exceeded a limit of the client.
    #[error("{path}: {procedure}: {what}")]
    Server {
        /// The procedure.
        procedure: &'static str,
        /// The file.
        path: String,
        /// The violation.
        what: &'static str,
    },
    /// The file has an unsuitable type.
    #[error("{path}: {what}")]
    Kind {
        /// The file.
        path: String,
        /// The mismatch.
        what: &'static str,
    },
    /// An I/O error at the source or the destination of the data, such as a local file.
    #[error(transparent)]
    Local(#[from] io::Error),
    /// A task of this client stopped before its call completed.
    #[error("the client is shutting down")]
    Stopped,
}

impl ClientError {
    /// Returns true if the server reports that the file does not exist or was removed.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        let missing = [NfsError::NoEnt.number(), NfsError::Stale.number()];
        matches!(self, ClientError::Status { status, .. } if missing.contains(status))
    }

    /// Returns true if the server or its MOUNT program was not found or did not reply. A call without a reply
    /// may have been executed.
    #[must_use]
    pub fn is_unreached(&self) -> bool {
        match self {
            ClientError::Connect(_) | ClientError::Find(_) | ClientError::NoMount { .. } => true,
            ClientError::Call { source, .. } => {
                matches!(
                    source,
                    CallError::Transport(_)
                        | CallError::TooLong { source: TransportError::Closed(_), .. }
                        | CallError::Timeout(_)
                        | CallError::Disconnected
                )
            }
            _ => false,
        }
    }

    pub(super) fn call(procedure: &'static str, path: &str, source: CallError) -> Self {
        ClientError::Call { procedure, path: path.to_owned(), source }
    }

    pub(super) fn status(procedure: &'static str, path: &str, status: i32) -> Self {
        ClientError::Status { procedure, path: path.to_owned(), status: status.cast_unsigned() }
    }

    pub(super) fn server(procedure: &'static str, path: &str, what: &'static str) -> Self {
        ClientError::Server { procedure, path: path.to_owned(), what }
    }
}

fn reason(status: u32) -> String {
    NfsError::from_number(status).map_or_else(|| format!("status {status}"), |error| error.to_string())
}

fn name(status: u32) -> String {
    NfsError::from_number(status).map_or_else(|| status.to_string(), |error| error.name().to_owned())
}
