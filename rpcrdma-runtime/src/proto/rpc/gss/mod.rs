//! RPCSEC_GSS (RFC 2203): callers show who they are, and arguments and results can be protected.
//!
//! What a security mechanism computes is the user's: a [`GssMechanism`] makes [`GssContext`]s by exchanging tokens. All
//! that RFC 2203 says around it is here, for both ends: [`GssSession`] is a client's, `GssServer` a server's.
//!
//! With [`GssService::None`] a message may be reduced, and only its program's items are: what belongs to RPCSEC_GSS stays in
//! the stream. With the other services nothing leaves it (RFC 8166 section 8.2.2).

mod body;
mod session;
mod window;

#[cfg(feature = "std")]
mod server;

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

pub use crate::wire::rpc::{GssControl, GssCredential, GssService};
#[cfg(feature = "std")]
pub use server::{GssCaller, GssServer, GssServerOptions};
pub use session::{GssSession, InitAnswer};
pub use window::SequenceWindow;

use crate::wire::rpc::ReplyError;
use crate::xdr;

/// One end of a security context that is made, as GSS-API has it (RFC 2743 section 2.3). The same quality of protection
/// is used for everything.
pub trait GssContext: Send + Sync {
    /// A checksum of a message, at most [`Overhead::mic`] bytes.
    ///
    /// # Errors
    /// What the mechanism says, such as that the context is too old.
    fn get_mic(&self, message: &[u8]) -> Result<Vec<u8>, GssError>;

    /// Whether a checksum is the peer's, of this message.
    ///
    /// # Errors
    /// It is not, or what else the mechanism says. [`GssError::is_expired`] has the peer told that a new context is needed.
    fn verify_mic(&self, message: &[u8], mic: &[u8]) -> Result<(), GssError>;

    /// Encrypts a message, so that changes are noticed too. It becomes longer by [`Overhead::wrap`] bytes at most.
    ///
    /// # Errors
    /// What the mechanism says.
    fn wrap(&self, message: &[u8]) -> Result<Vec<u8>, GssError>;

    /// Decrypts what the peer's [`GssContext::wrap`] made.
    ///
    /// # Errors
    /// It is not that, was not encrypted, or what else the mechanism says.
    fn unwrap(&self, wrapped: &[u8]) -> Result<Vec<u8>, GssError>;

    /// How much longer messages become at most, at either end. Memory for replies is sized by it.
    fn overhead(&self) -> Overhead;

    /// Who the peer is, in the mechanism's form of a name.
    fn peer(&self) -> &[u8];
}

/// How much a mechanism adds, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overhead {
    /// The longest checksum, of any message; at most 400, or no verifier can hold it.
    pub mic: u32,
    /// How much longer a wrapped message is at most than the message.
    pub wrap: u32,
}

/// What makes contexts: the identity of a client, or the keys of a server.
pub trait GssMechanism: Send + Sync {
    /// Begins one.
    ///
    /// # Errors
    /// What the mechanism says.
    fn begin(&self) -> Result<Box<dyn GssExchange>, GssError>;

    /// The longest token that the peer may send, in bytes (default 64 KiB). Memory for replies is sized by it.
    fn longest_token(&self) -> u32 {
        64 << 10
    }
}

/// A context that is being made. Sequence and replay detection of the mechanism stay off (RFC 2203 section 5.2.2).
pub trait GssExchange: Send {
    /// Takes the peer's token; the client's first step has none, and its token is empty. It should not wait long: on a
    /// server a connection's other calls go on meanwhile, but a thread is taken.
    ///
    /// # Errors
    /// The context cannot be made.
    fn step(&mut self, token: &[u8]) -> Result<GssStep, GssError>;
}

/// What a step led to.
pub enum GssStep {
    /// The peer is to get this token and to answer with another.
    Continue(Vec<u8>),
    /// This end is done. The peer is to get this token, if it is not empty.
    Done(Vec<u8>, Arc<dyn GssContext>),
}

/// Why GSS-API failed: the major status by RFC 2203 appendix A, and the mechanism's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the security mechanism failed (major status {major:#x}, minor {minor})")]
pub struct GssError {
    /// The major status. Never 0 or 1, which are no failures.
    pub major: u32,
    /// The minor status.
    pub minor: u32,
}

impl GssError {
    /// GSS_S_BAD_MIC: a checksum is wrong.
    pub const BAD_MIC: GssError = GssError { major: 0x0006_0000, minor: 0 };
    /// GSS_S_DEFECTIVE_TOKEN: a token, or what was to be unwrapped, cannot be read.
    pub const DEFECTIVE_TOKEN: GssError = GssError { major: 0x0009_0000, minor: 0 };
    /// GSS_S_CREDENTIALS_EXPIRED: whoever showed who it is has done so too long ago.
    pub const CREDENTIALS_EXPIRED: GssError = GssError { major: 0x000b_0000, minor: 0 };
    /// GSS_S_CONTEXT_EXPIRED: the context is too old.
    pub const CONTEXT_EXPIRED: GssError = GssError { major: 0x000c_0000, minor: 0 };
    /// GSS_S_FAILURE: see the minor status.
    pub const FAILURE: GssError = GssError { major: 0x000d_0000, minor: 0 };

    /// Whether a new context would help.
    #[must_use]
    pub fn is_expired(&self) -> bool {
        [GssError::CREDENTIALS_EXPIRED.major, GssError::CONTEXT_EXPIRED.major].contains(&self.major)
    }
}

/// Why a call over RPCSEC_GSS has no result.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum GssFailure {
    /// The mechanism of this end.
    #[error(transparent)]
    Mechanism(#[from] GssError),
    /// The server's mechanism refused to make a context.
    #[error("the server makes no context: {0}")]
    Refused(GssError),
    /// The server does not make contexts as RFC 2203 says.
    #[error("the server breaks RFC 2203: {0}")]
    Protocol(&'static str),
    /// A reply is not the server's, or was changed on its way. The call may have been executed.
    #[error("the reply is not shown to be the server's")]
    Unverified,
    /// What is protected belongs to another call.
    #[error("what is protected belongs to another call")]
    Sequence,
    /// Every sequence number has been used: a new context is needed.
    #[error("the context has no sequence numbers left")]
    Exhausted,
    /// The arguments break a bound of their type.
    #[error("the arguments cannot be encoded: {0}")]
    Encode(#[source] xdr::Error),
    /// The server answered without a result.
    #[error(transparent)]
    Rejected(#[from] ReplyError),
    /// What is protected, or the result in it, cannot be decoded.
    #[error("the result cannot be decoded: {0}")]
    Decode(#[source] xdr::Error),
}
