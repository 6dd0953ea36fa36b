use alloc::string::String;
use core::time::Duration;

use crate::proto::work::CloseReason;

/// The reason for a call without a reply.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TransportError {
    /// The call's chunk lists alone exceed the inline threshold, or its message has no unique XID.
    #[error("the call cannot be sent: {0}")]
    Unsendable(&'static str),
    /// The provider could not register memory.
    #[error("memory could not be registered")]
    Registration,
    /// The responder supports only other versions of RPC-over-RDMA (ERR_VERS).
    #[error("the responder supports only RPC-over-RDMA versions {low} to {high}")]
    Version {
        /// The lowest supported version.
        low: u32,
        /// The highest supported version.
        high: u32,
    },
    /// The responder could not use the call's chunks, or could not return the reply (ERR_CHUNK).
    #[error("the responder could not use the chunks of the call or return its reply (ERR_CHUNK)")]
    Chunk,
    /// The reply violates the protocol.
    #[error("the reply violates the protocol: {0}")]
    BadReply(String),
    /// The client has not announced support for backward-direction calls (RFC 8167 section 6).
    #[error("the client has not announced that it accepts backward calls")]
    NotReady,
    /// The connection ended before the reply. The call may have been executed.
    #[error("the connection ended: {0}")]
    Closed(CloseReason),
    /// The connection ended before the call was sent. It was not executed.
    #[error("the connection ended before the call was sent: {0}")]
    Unsent(CloseReason),
    /// The call timed out. It may have been executed.
    #[error("no reply within {0:?}")]
    Timeout(Duration),
    /// No connection was available before the call timed out, or within the maximum number of attempts. A
    /// call that was sent on an earlier connection may have been executed.
    #[error("no connection: {0}")]
    Unreachable(String),
    /// The reply has no upper bound, so no memory can be offered for it.
    #[error("the reply has no upper bound")]
    UnboundedReply,
}
