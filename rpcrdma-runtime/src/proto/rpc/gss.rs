//! RPCSEC_GSS (RFC 2203): authenticates callers, and protects arguments and results.
//!
//! The user supplies the security mechanism: a [`GssMechanism`] creates [`GssContext`]s by exchanging tokens.
//! This module implements RFC 2203 for clients ([`GssSession`]) and servers (`GssServer`).
//!
//! With [`GssService::None`], a message may be reduced: eligible items of its program leave the stream, but
//! RPCSEC_GSS data stays in the stream. The other services forbid reduction (RFC 8166 section 8.2.2.3).

mod body;
mod session;
mod window;

#[cfg(feature = "std")]
mod server;

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use bytes::Bytes;

pub use crate::wire::rpc::{GssControl, GssCredential, GssService};
#[cfg(feature = "std")]
pub use server::{GssServer, GssServerOptions};
pub use session::{GssSession, InitAnswer};
pub use window::SequenceWindow;

use crate::wire::rpc::ReplyError;
use crate::xdr;

/// The authenticated caller of an RPCSEC_GSS call. Handlers find the caller in
/// [`CallContext::extensions`](crate::proto::program::CallContext::extensions).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GssCaller {
    /// The caller's name, in the mechanism's format. The name is authenticated, not merely claimed.
    pub name: Bytes,
    /// The protection of arguments and results.
    pub service: GssService,
}

/// An established security context of a client or server, as in GSS-API (RFC 2743 section 2.3). All
/// messages use the same quality of protection.
pub trait GssContext: Send + Sync {
    /// Returns a checksum of a message. The checksum has at most [`GssOverhead::mic`] bytes.
    ///
    /// # Errors
    /// Returns the mechanism's error, for example if the context has expired.
    fn get_mic(&self, message: &[u8]) -> Result<Vec<u8>, GssError>;

    /// Verifies the peer's checksum of this message.
    ///
    /// # Errors
    /// Fails if the checksum is wrong or the mechanism reports an error. After an error for which
    /// [`GssError::is_expired`] returns true, the client must create a new context.
    fn verify_mic(&self, message: &[u8], mic: &[u8]) -> Result<(), GssError>;

    /// Encrypts a message and protects it against changes. Adds at most [`GssOverhead::wrap`] bytes.
    ///
    /// # Errors
    /// Returns the mechanism's error.
    fn wrap(&self, message: &[u8]) -> Result<Vec<u8>, GssError>;

    /// Decrypts a message that the peer's [`GssContext::wrap`] encrypted.
    ///
    /// # Errors
    /// Fails if the message is invalid or not encrypted, or if the mechanism reports an error.
    fn unwrap(&self, wrapped: &[u8]) -> Result<Vec<u8>, GssError>;

    /// Returns the maximum overhead of a message in either direction. A client adds it to the bounds of
    /// replies.
    fn overhead(&self) -> GssOverhead;

    /// Returns the peer's name, in the mechanism's format.
    fn peer(&self) -> &[u8];
}

/// The overhead of a mechanism in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GssOverhead {
    /// Maximum size of a checksum of any message; at most 400, the limit of a verifier.
    pub mic: u32,
    /// Maximum number of bytes that wrapping adds to a message.
    pub wrap: u32,
}

/// Creates contexts with the identity of a client or the keys of a server.
pub trait GssMechanism: Send + Sync {
    /// Starts the creation of a context.
    ///
    /// # Errors
    /// Returns the mechanism's error.
    fn begin(&self) -> Result<Box<dyn GssExchange>, GssError>;

    /// Returns the maximum size of the peer's tokens in bytes (default 64 KiB). A client offers memory for
    /// tokens of this size.
    fn longest_token(&self) -> u32 {
        64 << 10
    }

    /// Adds an explanation to the error that a server returned instead of a context. The default returns the
    /// error unchanged.
    fn explain(&self, refused: GssError) -> GssError {
        refused
    }
}

/// The exchange that creates a context. The mechanism's detection of replays and of out-of-sequence messages
/// must be disabled (RFC 2203 section 5.2.2).
pub trait GssExchange: Send {
    /// Processes the peer's token. The client's first step has an empty token. On a server, a step should not
    /// block for long: the step runs on the task of its connection and delays the connection's other calls.
    ///
    /// # Errors
    /// Returns the mechanism's error if the context cannot be created.
    fn step(&mut self, token: &[u8]) -> Result<GssStep, GssError>;
}

/// The outcome of a step.
pub enum GssStep {
    /// Send this token to the peer, which answers with another token.
    Continue(Vec<u8>),
    /// The local context is complete. Send this token to the peer, unless it is empty.
    Done(Vec<u8>, Arc<dyn GssContext>),
}

/// The reason for a GSS-API failure: the major status of RFC 2203 appendix A, and the mechanism's minor
/// status.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct GssError {
    /// The major status. Must not be 0 or 1, which are not failures.
    pub major: u32,
    /// The minor status.
    pub minor: u32,
    /// The cause and a fix, if the mechanism supplies them. The `Display` output then omits `major` and
    /// `minor`.
    pub text: Option<Arc<str>>,
}

impl fmt::Display for GssError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let GssError { major, minor, text } = self;
        match text {
            Some(text) => f.write_str(text),
            None => write!(f, "the security mechanism failed (major status {major:#x}, minor {minor})"),
        }
    }
}

impl GssError {
    /// GSS_S_BAD_MIC: a checksum is wrong.
    pub const BAD_MIC: GssError = GssError::new(0x0006_0000, 0);
    /// GSS_S_DEFECTIVE_TOKEN: a token or a wrapped message cannot be decoded.
    pub const DEFECTIVE_TOKEN: GssError = GssError::new(0x0009_0000, 0);
    /// GSS_S_CREDENTIALS_EXPIRED: the credentials have expired.
    pub const CREDENTIALS_EXPIRED: GssError = GssError::new(0x000b_0000, 0);
    /// GSS_S_CONTEXT_EXPIRED: the context has expired.
    pub const CONTEXT_EXPIRED: GssError = GssError::new(0x000c_0000, 0);
    /// GSS_S_FAILURE: see the minor status.
    pub const FAILURE: GssError = GssError::new(0x000d_0000, 0);

    /// Returns an error without [`GssError::text`].
    #[must_use]
    pub const fn new(major: u32, minor: u32) -> Self {
        GssError { major, minor, text: None }
    }

    /// Returns true if the context or the credentials have expired, so that a new context may help.
    #[must_use]
    pub fn is_expired(&self) -> bool {
        [GssError::CREDENTIALS_EXPIRED.major, GssError::CONTEXT_EXPIRED.major].contains(&self.major)
    }
}

/// The reason why an RPCSEC_GSS call has no result.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum GssFailure {
    /// The local mechanism failed.
    #[error(transparent)]
    Mechanism(#[from] GssError),
    /// The server's mechanism refused to create a context.
    #[error("the server refused to create a context: {0}")]
    Refused(GssError),
    /// The server violated RFC 2203 during the creation of the context.
    #[error("the server violates RFC 2203: {0}")]
    Protocol(&'static str),
    /// The verifier or the protected results of a reply are invalid, so the reply may be forged. The call may
    /// have been executed.
    #[error("the reply cannot be verified: it may be forged or modified")]
    Unverified,
    /// The protected data does not start with the sequence number of the call.
    #[error("the sequence number in the protected data is wrong")]
    Sequence,
    /// All sequence numbers are used up: a new context is needed.
    #[error("the context has no sequence numbers left")]
    Exhausted,
    /// The context expired before the call was sent: a new context is needed.
    #[error("the security context has expired")]
    Expired,
    /// The arguments, or a token, exceed a bound.
    #[error("the arguments or the token cannot be encoded: {0}")]
    Encode(#[source] xdr::Error),
    /// The server rejected the call or failed to run it, or the message is not a valid reply.
    #[error(transparent)]
    Rejected(#[from] ReplyError),
    /// The result, or the protected data that contains it, cannot be decoded.
    #[error("the result cannot be decoded: {0}")]
    Decode(#[source] xdr::Error),
}
