use std::io;
use std::time::Duration;

use rpcrdma_layout::MAX_TRANSFER;

use super::ResultMemoryError;
use crate::proto::call::TransportError;
use crate::proto::rpc::gss::GssFailure;
use crate::provider::iwarp;
use crate::wire::rpc::ReplyError;
use crate::xdr;

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The arguments or the credential exceed a bound of their type. Nothing was sent.
    #[error("the arguments cannot be encoded: {0}")]
    Encode(#[source] xdr::Error),
    /// The maximum size of the reply is unknown, so the client cannot offer memory for it. Nothing was
    /// sent.
    #[error(
        "the reply of {procedure} has no bound: its binding must give one (`[binding.reply.\"{procedure}\"]`)"
    )]
    UnboundedReply {
        /// The procedure.
        procedure: &'static str,
    },
    /// The transport failed.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// The server did not accept a call that exceeds the default limit of servers.
    #[error(
        "the server did not accept the call of {procedure}: {bytes} bytes, default limit {MAX_TRANSFER} (MessageLimits::max_transfer, over TCP TcpOptions::max_record): {source}"
    )]
    TooLong {
        /// The procedure.
        procedure: &'static str,
        /// The length of the call in bytes.
        bytes: u64,
        /// The error of the transport.
        source: TransportError,
    },
    /// The server replied with an error.
    #[error(transparent)]
    Rejected(#[from] ReplyError),
    /// The result cannot be decoded.
    #[error("the result cannot be decoded: {0}")]
    Decode(#[source] xdr::Error),
    /// No reply arrived in time. The call may have been executed. The connection and its other calls
    /// continue. If the provider cannot fence the memory of the call, the other calls continue on the next
    /// connection.
    #[error("no reply within {0:?}")]
    Timeout(Duration),
    /// RPCSEC_GSS failed: the context, or the protection of a message.
    #[error(transparent)]
    Gss(#[from] GssFailure),
    /// Too many queued and outstanding calls. The limit of a client is
    /// [`super::ClientOptions::max_outstanding_calls`] or [`super::TcpClientOptions::max_outstanding_calls`].
    /// The limit of a server in the backward direction is [`super::ServerOptions::max_backward_calls`] or
    /// [`super::TcpServerOptions::max_backward_calls`]. Nothing was sent.
    #[error("too many outstanding calls (limit {0})")]
    TooMany(usize),
    /// The memory for the result ([`super::Client::with_result_memory`]) cannot be used. Nothing was sent.
    #[error(transparent)]
    ResultMemory(#[from] ResultMemoryError),
    /// The client was closed, or its only connection ended and it cannot reconnect.
    #[error("the connection is closed")]
    Disconnected,
}

/// Why a server failed to start or stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The address cannot be bound.
    #[error("{address} cannot be bound: {source}")]
    Bind {
        /// The address as given.
        address: String,
        /// The underlying error.
        source: io::Error,
    },
    /// The capture file cannot be written.
    #[error(transparent)]
    Capture(iwarp::CaptureError),
    /// The options set a limit of 0 connections.
    #[error("a server needs a limit of at least 1 connection")]
    NoConnections,
    /// The listener failed permanently.
    #[error("cannot accept connections: {0}")]
    Accept(#[source] io::Error),
}
