use alloc::format;
use alloc::string::String;

use thiserror::Error as ThisError;

use super::auth::{AuthStat, Verifier};
use super::call::CallRefusal;
use crate::wire::generated::rpc_msg as xdr;
use crate::xdr::{Decode, Encode, Error, Message, Reader, Reducer, Sink};

/// The reason why a server returns no result (RFC 5531 section 9, `accept_stat` and `reject_stat`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reject {
    /// PROC_UNAVAIL: this version of the program has no such procedure.
    ProcedureUnavailable,
    /// GARBAGE_ARGS: the arguments cannot be decoded.
    GarbageArguments,
    /// SYSTEM_ERR: the server failed to run the call or to encode its result.
    SystemError,
    /// AUTH_ERROR: the credential or the verifier is rejected.
    AuthError(AuthStat),
}

/// The status of a reply (RFC 5531 section 9). Results follow only [`ReplyHeader::Success`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyHeader {
    /// The results follow.
    Success,
    /// PROG_UNAVAIL: the server does not provide the program.
    ProgramUnavailable,
    /// PROG_MISMATCH: the server does not provide this version of the program.
    ProgramMismatch {
        /// The lowest supported version.
        low: u32,
        /// The highest supported version.
        high: u32,
    },
    /// RPC_MISMATCH: the server does not support the RPC version of the call.
    RpcMismatch,
    /// The call was rejected before or during its execution.
    Rejected(Reject),
}

/// The reason why a received message yields no results.
#[derive(Clone, Debug, PartialEq, ThisError)]
#[non_exhaustive]
pub enum ReplyError {
    /// PROG_UNAVAIL: the server does not provide the program.
    #[error("the server does not provide the program")]
    ProgramUnavailable,
    /// PROG_MISMATCH: the server does not provide this version of the program.
    #[error("the server supports only {} of the program", versions(*low, *high))]
    ProgramMismatch {
        /// The lowest supported version.
        low: u32,
        /// The highest supported version.
        high: u32,
    },
    /// PROC_UNAVAIL: this version of the program has no such procedure.
    #[error("the server does not provide the procedure")]
    ProcedureUnavailable,
    /// GARBAGE_ARGS: the server cannot decode the arguments.
    #[error("the server cannot decode the arguments")]
    GarbageArguments,
    /// SYSTEM_ERR: the server failed to run the call or to encode its result.
    #[error("the server failed to run the call")]
    SystemError,
    /// RPC_MISMATCH: the server does not support the RPC version of the call.
    #[error("the server supports only RPC {}", versions(*low, *high))]
    RpcMismatch {
        /// The lowest supported version.
        low: u32,
        /// The highest supported version.
        high: u32,
    },
    /// AUTH_ERROR: the server rejected the credential or the verifier.
    #[error("the server rejected the credential or the verifier: {0:?}")]
    Auth(AuthStat),
    /// The message is a reply to another call, or not a reply.
    #[error("the message is not the reply to this call")]
    NotTheReply,
    /// The reply cannot be decoded.
    #[error("the reply cannot be decoded: {0}")]
    Malformed(#[from] Error),
}

impl ReplyHeader {
    /// Writes the header of the reply to call `xid`, with an AUTH_NONE verifier.
    ///
    /// # Errors
    /// Fails only with the sink's error.
    pub fn encode<S: Sink + ?Sized>(&self, xid: u32, sink: &mut S) -> Result<(), Error> {
        self.encode_verified(xid, &Verifier::default(), sink)
    }

    /// Writes the header with a verifier. A denied reply has no verifier.
    ///
    /// # Errors
    /// Fails if the reply has a verifier with a body of more than 400 bytes, or with the sink's error.
    pub fn encode_verified<S: Sink + ?Sized>(
        &self,
        xid: u32,
        verifier: &Verifier,
        sink: &mut S,
    ) -> Result<(), Error> {
        use xdr::AcceptStat as Stat;
        let verf = || verifier.to_xdr();
        let accepted = |reply_data| xdr::ReplyBody::Accepted(xdr::AcceptedReply { verf: verf(), reply_data });
        let plain = |stat| accepted(xdr::AcceptedBody::Default(stat));
        let body = match *self {
            ReplyHeader::Success => accepted(xdr::AcceptedBody::Success),
            ReplyHeader::ProgramUnavailable => plain(Stat::ProgUnavail),
            ReplyHeader::ProgramMismatch { low, high } => {
                accepted(xdr::AcceptedBody::ProgMismatch(xdr::VersionRange { low, high }))
            }
            ReplyHeader::RpcMismatch => {
                xdr::ReplyBody::Denied(xdr::RejectedReply::RpcMismatch(xdr::VersionRange {
                    low: xdr::RPC_VERSION,
                    high: xdr::RPC_VERSION,
                }))
            }
            ReplyHeader::Rejected(Reject::ProcedureUnavailable) => plain(Stat::ProcUnavail),
            ReplyHeader::Rejected(Reject::GarbageArguments) => plain(Stat::GarbageArgs),
            ReplyHeader::Rejected(Reject::SystemError) => plain(Stat::SystemErr),
            ReplyHeader::Rejected(Reject::AuthError(stat)) => {
                let why = xdr::AuthStat::try_from(i32::from(stat)).unwrap_or(xdr::AuthStat::AuthFailed);
                xdr::ReplyBody::Denied(xdr::RejectedReply::AuthError(why))
            }
        };
        xdr::RpcMsg { xid, body: xdr::RpcBody::Reply(body) }.encode(sink)
    }
}

impl ReplyHeader {
    /// Returns the error that a client reports for this status, or `None` for [`ReplyHeader::Success`].
    #[must_use]
    pub fn error(self) -> Option<ReplyError> {
        Some(match self {
            ReplyHeader::Success => return None,
            ReplyHeader::ProgramUnavailable => ReplyError::ProgramUnavailable,
            ReplyHeader::ProgramMismatch { low, high } => ReplyError::ProgramMismatch { low, high },
            ReplyHeader::RpcMismatch => {
                ReplyError::RpcMismatch { low: xdr::RPC_VERSION, high: xdr::RPC_VERSION }
            }
            ReplyHeader::Rejected(Reject::ProcedureUnavailable) => ReplyError::ProcedureUnavailable,
            ReplyHeader::Rejected(Reject::GarbageArguments) => ReplyError::GarbageArguments,
            ReplyHeader::Rejected(Reject::SystemError) => ReplyError::SystemError,
            ReplyHeader::Rejected(Reject::AuthError(stat)) => ReplyError::Auth(stat),
        })
    }
}

/// A reply to send. The status is stored separately, so it need not be parsed from the message.
#[derive(Clone, Debug)]
pub struct RpcReply {
    /// The status.
    pub status: ReplyHeader,
    /// The header with the verifier, followed by the results if the status is [`ReplyHeader::Success`].
    pub message: Message,
    /// The encoding error that caused the status, if any.
    pub failure: Option<Error>,
}

impl RpcReply {
    /// Creates the reply to a successful call. `results` must start with the header of the reply.
    #[must_use]
    pub fn success(results: Reducer) -> Self {
        RpcReply { status: ReplyHeader::Success, message: results.into_message(), failure: None }
    }

    /// Creates a reply without results. Returns `None` for an accepted reply whose verifier has a body of
    /// more than 400 bytes.
    #[must_use]
    pub fn without_results(xid: u32, status: ReplyHeader, verifier: &Verifier) -> Option<Self> {
        let mut reply = Reducer::disabled();
        status.encode_verified(xid, verifier, &mut reply).ok()?;
        Some(RpcReply { status, message: reply.into_message(), failure: None })
    }

    /// Creates the reply to a call that a handler rejected, with the failure that `results` recorded. Returns
    /// `None` in the same case as [`RpcReply::without_results`].
    pub(crate) fn rejected(xid: u32, reject: Reject, verifier: &Verifier, results: Reducer) -> Option<Self> {
        let reply = RpcReply::without_results(xid, ReplyHeader::Rejected(reject), verifier)?;
        Some(RpcReply { failure: results.into_failure(), ..reply })
    }

    /// Creates the reply to a rejected call, with an AUTH_NONE verifier. Always returns `Some`.
    #[must_use]
    pub fn reject(xid: u32, reject: Reject) -> Option<Self> {
        RpcReply::without_results(xid, ReplyHeader::Rejected(reject), &Verifier::default())
    }

    /// Creates the reply to a message that is not a valid call. Returns `None` for
    /// [`CallRefusal::NotACall`].
    #[must_use]
    pub fn refuse(refusal: CallRefusal) -> Option<Self> {
        match refusal {
            CallRefusal::NotACall => None,
            CallRefusal::RpcMismatch { xid } => {
                RpcReply::without_results(xid, ReplyHeader::RpcMismatch, &Verifier::default())
            }
            CallRefusal::Truncated { xid } => RpcReply::reject(xid, Reject::GarbageArguments),
            CallRefusal::Auth { xid, stat } => RpcReply::reject(xid, Reject::AuthError(stat)),
        }
    }
}

pub(crate) fn versions(low: u32, high: u32) -> String {
    if low == high { format!("version {low}") } else { format!("versions {low} to {high}") }
}

/// Reads the header of the reply to call `xid`, up to the results.
///
/// # Errors
/// Returns [`ReplyError`] if the message is not a successful reply to this call.
pub fn decode_reply(reader: &mut Reader<'_>, xid: u32) -> Result<(), ReplyError> {
    decode_verified(reader, xid)?.1
}

/// Reads the header of the reply to call `xid`. Returns the verifier, if any (a denied reply has none), and
/// the reason if no results follow.
///
/// # Errors
/// Returns [`ReplyError`] if the message is not a reply to this call or cannot be decoded.
pub fn decode_verified(
    reader: &mut Reader<'_>,
    xid: u32,
) -> Result<(Option<Verifier>, Result<(), ReplyError>), ReplyError> {
    use xdr::AcceptStat as Stat;
    let message = xdr::RpcMsg::decode(reader)?;
    let xdr::RpcBody::Reply(body) = message.body else { return Err(ReplyError::NotTheReply) };
    if message.xid != xid {
        return Err(ReplyError::NotTheReply);
    }
    let denied = match body {
        xdr::ReplyBody::Accepted(accepted) => {
            let status = match accepted.reply_data {
                xdr::AcceptedBody::Success => Ok(()),
                xdr::AcceptedBody::ProgMismatch(range) => {
                    Err(ReplyError::ProgramMismatch { low: range.low, high: range.high })
                }
                xdr::AcceptedBody::Default(Stat::ProgUnavail) => Err(ReplyError::ProgramUnavailable),
                xdr::AcceptedBody::Default(Stat::ProcUnavail) => Err(ReplyError::ProcedureUnavailable),
                xdr::AcceptedBody::Default(Stat::GarbageArgs) => Err(ReplyError::GarbageArguments),
                xdr::AcceptedBody::Default(_) => Err(ReplyError::SystemError),
            };
            return Ok((Some(accepted.verf.into()), status));
        }
        xdr::ReplyBody::Denied(xdr::RejectedReply::RpcMismatch(range)) => {
            ReplyError::RpcMismatch { low: range.low, high: range.high }
        }
        xdr::ReplyBody::Denied(xdr::RejectedReply::AuthError(why)) => ReplyError::Auth(i32::from(why).into()),
    };
    Ok((None, Err(denied)))
}
