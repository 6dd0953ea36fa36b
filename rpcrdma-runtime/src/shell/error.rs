use std::io;
use std::time::Duration;

use crate::proto::rdma::FailReason;
use crate::proto::rpc::gss::GssFailure;
use crate::provider::iwarp;
use crate::wire::rpc::ReplyError;
use crate::xdr;

/// Why a call has no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The arguments, or the credential, break a bound of their type. Nothing was sent.
    #[error("the arguments cannot be encoded: {0}")]
    Encode(#[source] xdr::Error),
    /// Nobody knows how large the reply can be, so no memory can be offered for it. Nothing was sent.
    #[error(
        "the reply of {procedure} has no bound: its binding must give one (`[binding.reply.\"{procedure}\"]`)"
    )]
    UnboundedReply {
        /// The procedure.
        procedure: &'static str,
    },
    /// The transport failed the call.
    #[error(transparent)]
    Transport(#[from] FailReason),
    /// The server answered without a result.
    #[error(transparent)]
    Rejected(#[from] ReplyError),
    /// The result cannot be decoded.
    #[error("the result cannot be decoded: {0}")]
    Decode(#[source] xdr::Error),
    /// No reply came in time. The call may have been executed. The connection and its other calls go on,
    /// unless its provider cannot fence the memory of the call: then the other calls go on, on the next
    /// connection.
    #[error("no reply within {0:?}")]
    Timeout(Duration),
    /// RPCSEC_GSS: the context, or what is protected by it.
    #[error(transparent)]
    Gss(#[from] GssFailure),
    /// As many calls have not ended as the client may have ([`super::ClientOptions::pending`],
    /// [`super::TcpClientOptions::pending`]), or a server in the backward direction ([`super::ServerOptions::backward_pending`],
    /// [`super::TcpServerOptions::backward_pending`]). Nothing was sent.
    #[error("{0} calls have not ended, and there may be no more")]
    TooMany(usize),
    /// The client was closed, or its one connection has ended and cannot be made again.
    #[error("the connection is closed")]
    Disconnected,
}

/// Why a server cannot serve.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The address cannot be bound.
    #[error("{address} cannot be bound: {source}")]
    Bind {
        /// The address as given.
        address: String,
        /// Why.
        source: io::Error,
    },
    /// The capture file cannot be written.
    #[error(transparent)]
    Capture(iwarp::CaptureError),
    /// The options allow no connection at all.
    #[error("a server with a limit of 0 connections serves nobody")]
    NoConnections,
    /// No connection can be accepted any more.
    #[error("no connection can be accepted: {0}")]
    Accept(#[source] io::Error),
}
