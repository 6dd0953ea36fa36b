use std::io;

use rpcrdma_runtime::shell::{CallError, ConnectError};

use rpcrdma_services::rpcbind;

use crate::export::Error;

/// Why something could not be done with a server's file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// There is no connection.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// MOUNT is elsewhere, and the server's rpcbind is of no help.
    #[error(
        "MOUNT is not on this connection, and {0}; ?mountport=PORT at the end of the URL says where it is"
    )]
    Find(#[from] rpcbind::Error),
    /// Nobody says where MOUNT is.
    #[error("{host} does not say where its MOUNT is; ?mountport=PORT at the end of the URL does")]
    NoMount {
        /// The server.
        host: String,
    },
    /// A call got no result.
    #[error("{path}: {procedure}: {source}")]
    Call {
        /// The procedure.
        procedure: &'static str,
        /// The file.
        path: String,
        /// Why.
        source: CallError,
    },
    /// The server refuses.
    #[error("{path}: {} ({procedure}: {})", reason(*.status), name(*.status))]
    Status {
        /// The procedure.
        procedure: &'static str,
        /// The file.
        path: String,
        /// The status (RFC 1813 section 2.6).
        status: u32,
    },
    /// The server breaks the protocol in a way that only shows between calls.
    #[error("{path}: {procedure}: {what}")]
    Server {
        /// The procedure.
        procedure: &'static str,
        /// The file.
        path: String,
        /// What it does.
        what: &'static str,
    },
    /// The file is of a kind that does not do.
    #[error("{path}: {what}")]
    Kind {
        /// The file.
        path: String,
        /// What it is or is not.
        what: &'static str,
    },
    /// A local file cannot be read or written.
    #[error(transparent)]
    Local(#[from] io::Error),
    /// A task of this client ended before its call.
    #[error("the client is shutting down")]
    Stopped,
}

impl ClientError {
    /// Whether the server says that there is no such thing, or no more.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        let missing = [Error::NoEnt.number(), Error::Stale.number()];
        matches!(self, ClientError::Status { status, .. } if missing.contains(status))
    }

    /// Whether the server could not be reached, or did not answer: whatever was asked for may be all right.
    #[must_use]
    pub fn is_unreached(&self) -> bool {
        match self {
            ClientError::Connect(_) | ClientError::Find(_) | ClientError::NoMount { .. } => true,
            ClientError::Call { source, .. } => {
                matches!(source, CallError::Transport(_) | CallError::Timeout(_) | CallError::Disconnected)
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
    Error::from_number(status).map_or_else(|| format!("status {status}"), |error| error.to_string())
}

fn name(status: u32) -> String {
    Error::from_number(status).map_or_else(|| status.to_string(), |error| error.name().to_owned())
}
