use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use rpcrdma_layout::MAX_TRANSFER;

use super::ResultMemoryError;
use crate::proto::call::TransportError;
use crate::proto::rpc::gss::GssFailure;
use crate::provider::iwarp;
use crate::wire::rpc::ReplyError;
use crate::xdr::{self, Size};

/// The procedure, the program and the peer of a call. The display format is
/// `PROCEDURE (program PROGRAM, peer ADDRESS)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallTarget {
    /// The name of the program's version (`Program::NAME`).
    pub program: &'static str,
    /// The name of the procedure.
    pub procedure: &'static str,
    /// The address of the peer, if the transport has addresses.
    pub peer: Option<SocketAddr>,
}

impl fmt::Display for CallTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (program {}", self.procedure, self.program)?;
        match self.peer {
            Some(peer) => write!(f, ", peer {peer})"),
            None => f.write_str(")"),
        }
    }
}

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The arguments or the credential exceed a bound of their type. Nothing was sent.
    #[error("the arguments or the credential cannot be encoded: {0}")]
    Encode(#[source] xdr::Error),
    /// The maximum size of the reply is unknown, so the client cannot offer memory for it. Nothing was
    /// sent.
    #[error(
        "the reply of {target} has no bound: specify a bound in the binding (`[binding.reply.\"{}\"]`)",
        target.procedure
    )]
    UnboundedReply {
        /// The call.
        target: Box<CallTarget>,
    },
    /// The transport failed.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// The bound of the reply, or of an item in it, exceeds the maximum size of a chunk. Nothing was sent.
    #[error(
        "the reply of {target} can have {bytes} bytes, but a chunk has at most {max} bytes; lower the bound of the reply in the document or in the binding (`[binding.reply.\"{}\"]`)",
        target.procedure
    )]
    ReplyTooLong {
        /// The call.
        target: Box<CallTarget>,
        /// The bound of an item, or of the reply's stream with its RPC header, in bytes.
        bytes: u64,
        /// The maximum size of a chunk, in bytes.
        max: u64,
    },
    /// The call or its reply may exceed a limit. Either the peer replied with ERR_CHUNK
    /// ([`TransportError::Chunk`]), or the connection ended during a call longer than 4 KiB
    /// ([`TransportError::Closed`]). Over TCP, a server closes the connection if a record is too long.
    #[error("{}", too_long(target, *bytes, *reply, source))]
    TooLong {
        /// The call.
        target: Box<CallTarget>,
        /// The length of the call in bytes.
        bytes: u64,
        /// The bound of the reply without its RPC header, in bytes, or `None` for a backward call.
        reply: Option<Size>,
        /// The error of the transport.
        source: TransportError,
    },
    /// The peer replied with an error, or the RPC header of its reply is invalid.
    #[error(transparent)]
    Rejected(#[from] ReplyError),
    /// The result cannot be decoded.
    #[error("the result cannot be decoded: {0}")]
    Decode(#[source] xdr::Error),
    /// No reply arrived in time. The call may have been executed. Other calls continue on the same
    /// connection, or on the next connection if the client closes this one. The client closes the connection
    /// if the server stays silent, timed-out calls hold all credits, or the provider cannot fence the memory
    /// of this call.
    #[error("no reply within {0:?}")]
    Timeout(Duration),
    /// RPCSEC_GSS failed: a context could not be established or used, or a message could not be protected or
    /// verified.
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
    /// The client was closed, or its connection ended and cannot be replaced.
    #[error("the connection is closed")]
    Disconnected,
}

impl CallError {
    pub(super) fn with_peer(mut self, peer: impl FnOnce() -> Option<SocketAddr>) -> Self {
        if let CallError::UnboundedReply { target }
        | CallError::ReplyTooLong { target, .. }
        | CallError::TooLong { target, .. } = &mut self
        {
            target.peer = peer();
        }
        self
    }
}

fn too_long(target: &CallTarget, bytes: u64, reply: Option<Size>, source: &TransportError) -> String {
    let limits = format!(
        "limits of the server: MessageLimits::max_transfer, or TcpOptions::max_record over TCP; by default at least {MAX_TRANSFER} bytes, and more if its programs have longer calls"
    );
    if reply.is_none() && !matches!(source, TransportError::Chunk) {
        return format!(
            "the client may not have accepted the call of {target}: {bytes} bytes (over TCP, the limit is the client's TcpOptions::max_record): {source}"
        );
    }
    if !matches!(source, TransportError::Chunk) {
        return format!(
            "the server may not have accepted the call of {target}: {bytes} bytes ({limits}): {source}"
        );
    }
    let Some(reply) = reply else {
        return format!(
            "the call of {target} has {bytes} bytes, and its reply does not fit inline: {source}"
        );
    };
    let reply =
        reply.bound().map_or("without a bound".to_owned(), |bytes| format!("of at most {bytes} bytes"));
    format!(
        "{source}: the call of {target} has {bytes} bytes ({limits}), and the client offered memory for a reply {reply} (to offer more, raise the bound in `[binding.reply.\"{}\"]`)",
        target.procedure
    )
}

/// Why a server failed to start, or why it stopped.
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
    #[error("invalid `max_connections`: 0, minimum 1")]
    NoConnections,
    /// The listener failed permanently.
    #[error("cannot accept connections: {0}")]
    Accept(#[source] io::Error),
}
