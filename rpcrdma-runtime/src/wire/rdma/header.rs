use alloc::string::{String, ToString};
use alloc::vec::Vec;

use bytes::Bytes;

use super::{ChunkLists, MessageLimits, Segment};
use crate::wire::generated::rpcrdma1 as xdr;
use crate::wire::rpc::CallNumbers;
use crate::xdr::{Decode, Encode, Error, Reader, Writer, pieces};

/// The only supported version (RFC 8166 section 4.2.2).
pub const VERSION: u32 = xdr::RPCRDMA_VERSION;

/// Minimum size of an RDMA_MSG or RDMA_NOMSG header, in bytes: empty lists and no Reply chunk. A responder
/// drops shorter messages (RFC 8166 section 4.5).
const SHORTEST: usize = 28;

/// A validated header of version 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The XID of the call or reply.
    pub xid: u32,
    /// The credits that the sender requests in a call or grants in a reply.
    pub credits: u32,
    /// The message type and its data.
    pub body: Body,
}

/// The message types (RFC 8166 section 4.2.4), except the obsolete RDMA_MSGP and RDMA_DONE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// RDMA_MSG: the Payload stream follows.
    Msg(ChunkLists),
    /// RDMA_NOMSG: the Payload stream is in a chunk.
    NoMsg(ChunkLists),
    /// RDMA_ERROR.
    Error(ErrorBody),
}

/// The content of an RDMA_ERROR (RFC 8166 section 4.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorBody {
    /// ERR_VERS: the responder supports these versions.
    Version {
        /// The lowest version.
        low: u32,
        /// The highest version.
        high: u32,
    },
    /// ERR_CHUNK: the call's header is unusable, or the reply cannot be returned.
    Chunk,
}

/// How a responder handles a message that is not a valid call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Drop the message, for this reason.
    Discard(&'static str),
    /// Reply with RDMA_ERROR, ERR_VERS and the received version (RFC 8166 section 4.5.1).
    Version {
        /// The received XID.
        xid: u32,
        /// The received version.
        version: u32,
    },
    /// Reply with RDMA_ERROR and ERR_CHUNK (RFC 8166 section 4.5.2).
    Chunk {
        /// The received XID.
        xid: u32,
        /// The reason.
        why: String,
    },
    /// Reply with RDMA_ERROR and ERR_CHUNK: the Read chunks exceed [`MessageLimits::max_transfer`].
    TooLong(CallTooLong),
}

/// A call with more bytes in Read chunks than the responder accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallTooLong {
    /// The received XID.
    pub xid: u32,
    /// The size of the Read chunks in bytes.
    pub bytes: u64,
    /// The limit ([`MessageLimits::max_transfer`]), in bytes.
    pub max: u64,
    /// The XID, program, version and procedure of the call, or `None` if its RPC header is in a Read chunk or
    /// is invalid.
    pub call: Option<CallNumbers>,
}

/// How a requester handles a message that is not a valid reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplyRefusal {
    /// Drop the message, for this reason.
    Discard(&'static str),
    /// Fail the call with this XID, if outstanding.
    Fail {
        /// The received XID.
        xid: u32,
        /// The reason.
        why: String,
    },
    /// The message is a backward call of the server (RFC 8167), which this requester does not support.
    BackwardCall {
        /// The received XID.
        xid: u32,
        /// Whether the call has chunks. A call with chunks is rejected with ERR_CHUNK, and any other call is
        /// dropped.
        chunks: bool,
    },
}

/// The maximum size, in bytes, of a Payload stream that is copied into the buffer of the transport header. A
/// short copy is cheaper than sending two pieces.
const COPIED: usize = 1024;

impl Header {
    /// Encodes the header, which precedes the Payload stream.
    #[must_use]
    pub fn encode(self) -> Bytes {
        self.write(VERSION, &[])
    }

    /// Returns the header and the inline Payload stream, if any, as the pieces of one message.
    #[must_use]
    pub fn with_payload(self, payload: Option<Bytes>) -> Vec<Bytes> {
        let mut message = pieces();
        match payload {
            Some(payload) if payload.len() > COPIED => message.extend([self.encode(), payload]),
            payload => message.push(self.write(VERSION, payload.as_deref().unwrap_or_default())),
        }
        message
    }

    fn write(self, version: u32, payload: &[u8]) -> Bytes {
        let body = match self.body {
            Body::Msg(lists) => xdr::RdmaBody::Msg(lists.into()),
            Body::NoMsg(lists) => {
                let xdr::RpcRdmaHeader { rdma_reads, rdma_writes, rdma_reply } = lists.into();
                xdr::RdmaBody::Nomsg(xdr::RpcRdmaHeaderNomsg { rdma_reads, rdma_writes, rdma_reply })
            }
            Body::Error(ErrorBody::Version { low, high }) => {
                xdr::RdmaBody::Error(xdr::RpcRdmaError::Vers(xdr::RpcRdmaErrvers {
                    rdma_vers_low: low,
                    rdma_vers_high: high,
                }))
            }
            Body::Error(ErrorBody::Chunk) => xdr::RdmaBody::Error(xdr::RpcRdmaError::Chunk),
        };
        let message = xdr::RdmaMsg {
            rdma_xid: self.xid,
            rdma_vers: version,
            rdma_credit: self.credits,
            rdma_body: body,
        };
        let mut writer = Writer::reused();
        // Encoding cannot fail: only the number of segments in a Write chunk or a Reply chunk is limited (to
        // 32 bits), and no chunk in memory has that many.
        if message.encode(&mut writer).is_err() {
            writer.clear();
        }
        writer.into_message(payload)
    }
}

/// Encodes the reply to a message of another version: ERR_VERS with the received version in its header (RFC
/// 8166 section 4.5.1).
#[must_use]
pub fn encode_version_error(xid: u32, version: u32, credits: u32) -> Bytes {
    let body = Body::Error(ErrorBody::Version { low: VERSION, high: VERSION });
    Header { xid, credits, body }.write(version, &[])
}

/// Fields at the same position in every version (RFC 8166 section 4.2), without the credits.
struct Fixed {
    xid: u32,
    version: u32,
    kind: u32,
}

fn fixed(message: &[u8]) -> Option<Fixed> {
    let mut reader = Reader::from_slice(message);
    let mut word = || reader.u32().ok();
    let (xid, version, _credits, kind) = (word()?, word()?, word()?, word()?);
    Some(Fixed { xid, version, kind })
}

const MSGP: u32 = xdr::RdmaProc::Msgp as u32;
const DONE: u32 = xdr::RdmaProc::Done as u32;
const ERROR: u32 = xdr::RdmaProc::Error as u32;

/// Parses a message that a responder received. Returns the header and the payload.
///
/// # Errors
/// Returns the [`Refusal`] that RFC 8166 section 4.5 or a limit requires.
pub fn decode_call(message: &Bytes, limits: &MessageLimits) -> Result<(Header, Bytes), Refusal> {
    let Fixed { xid, version, kind } = match fixed(message) {
        Some(fixed) if message.len() >= SHORTEST => fixed,
        _ => return Err(Refusal::Discard("shorter than any call header")),
    };
    let chunk = |why: String| Refusal::Chunk { xid, why };
    match kind {
        // Checked before the version, so that no RDMA_ERROR is answered with ERR_VERS. The first four words
        // have the same meaning in every version (RFC 8166 section 4.2).
        ERROR => return Err(Refusal::Discard("a requester must not send RDMA_ERROR")),
        _ if version != VERSION => return Err(Refusal::Version { xid, version }),
        DONE => return Err(Refusal::Discard("RDMA_DONE is obsolete")),
        MSGP => return Err(chunk("RDMA_MSGP is obsolete".to_string())),
        _ => {}
    }
    let (header, payload) = decode(message).map_err(|error| chunk(error.to_string()))?;
    match &header.body {
        Body::Msg(lists) => check_call(xid, lists, &payload, limits)?,
        Body::NoMsg(lists) => {
            check_call(xid, lists, &[], limits)?;
            if !payload.is_empty() {
                return Err(chunk("bytes after an RDMA_NOMSG header".to_string()));
            }
        }
        Body::Error(_) => return Err(Refusal::Discard("a requester must not send RDMA_ERROR")),
    }
    Ok((header, payload))
}

/// Parses a message that a requester received. Returns the header and the payload.
///
/// # Errors
/// Returns [`ReplyRefusal`] if the message is not a valid reply.
pub fn decode_reply(message: &Bytes, limits: &MessageLimits) -> Result<(Header, Bytes), ReplyRefusal> {
    let Some(Fixed { xid, version, kind }) = fixed(message) else {
        return Err(ReplyRefusal::Discard("shorter than the fixed header fields"));
    };
    let fail = |why: String| ReplyRefusal::Fail { xid, why };
    // An ERR_VERS reply also passes this check: its header has the version of the call.
    if version != VERSION {
        return Err(ReplyRefusal::Discard("another version of RPC-over-RDMA"));
    }
    if kind == MSGP || kind == DONE {
        return Err(ReplyRefusal::Discard("an obsolete header type"));
    }
    if kind != ERROR && message.len() < SHORTEST {
        return Err(ReplyRefusal::Discard("shorter than any RDMA_MSG or RDMA_NOMSG header"));
    }
    let (header, payload) = decode(message).map_err(|error| fail(error.to_string()))?;
    if let Body::Msg(lists) | Body::NoMsg(lists) = &header.body {
        // A Position-Zero chunk contains a call and never occurs in a reply.
        let is_long_call =
            matches!(header.body, Body::NoMsg(_)) && lists.reads.iter().any(|r| r.position == 0);
        if is_long_call || is_call(&payload, xid) {
            return Err(ReplyRefusal::BackwardCall { xid, chunks: !lists.is_empty() });
        }
        check_lists(lists, limits).map_err(|why| fail(why.to_string()))?;
        if !lists.reads.is_empty() {
            return Err(fail("a Read list in a reply".to_string()));
        }
    }
    if matches!(header.body, Body::NoMsg(_)) && !payload.is_empty() {
        return Err(fail("bytes after an RDMA_NOMSG header".to_string()));
    }
    Ok((header, payload))
}

/// Returns true if a Payload stream starts with an RPC call whose XID is `xid`. Only the RPC message shows
/// the direction (RFC 8167 section 4.1).
fn is_call(payload: &[u8], xid: u32) -> bool {
    payload.strip_prefix(&xid.to_be_bytes()).is_some_and(|rest| rest.starts_with(&[0; 4]))
}

fn decode(message: &Bytes) -> Result<(Header, Bytes), Error> {
    let mut reader = Reader::from_bytes(message);
    let decoded = xdr::RdmaMsg::decode(&mut reader)?;
    let payload = message.slice(message.len().saturating_sub(reader.remaining())..);
    let body = match decoded.rdma_body {
        xdr::RdmaBody::Msg(header) => Body::Msg(header.into()),
        xdr::RdmaBody::Nomsg(xdr::RpcRdmaHeaderNomsg { rdma_reads, rdma_writes, rdma_reply }) => {
            Body::NoMsg(xdr::RpcRdmaHeader { rdma_reads, rdma_writes, rdma_reply }.into())
        }
        xdr::RdmaBody::Error(xdr::RpcRdmaError::Vers(range)) => {
            Body::Error(ErrorBody::Version { low: range.rdma_vers_low, high: range.rdma_vers_high })
        }
        // The callers have already handled obsolete types.
        xdr::RdmaBody::Error(xdr::RpcRdmaError::Chunk) | xdr::RdmaBody::Msgp(_) | xdr::RdmaBody::Done => {
            Body::Error(ErrorBody::Chunk)
        }
    };
    Ok((Header { xid: decoded.rdma_xid, credits: decoded.rdma_credit, body }, payload))
}

fn check_call(xid: u32, lists: &ChunkLists, payload: &[u8], limits: &MessageLimits) -> Result<(), Refusal> {
    check_lists(lists, limits).map_err(|why| Refusal::Chunk { xid, why: why.to_string() })?;
    // At most `limits.max_segments` lengths of 32 bits each: the sum cannot overflow.
    let bytes = lists.reads.iter().map(|read| u64::from(read.segment.length)).sum::<u64>();
    if bytes > limits.max_transfer {
        let call = CallNumbers::of(payload);
        return Err(Refusal::TooLong(CallTooLong { xid, bytes, max: limits.max_transfer, call }));
    }
    Ok(())
}

fn check_lists(lists: &ChunkLists, limits: &MessageLimits) -> Result<(), &'static str> {
    if lists.segments().count() > limits.max_segments {
        return Err("more segments than MessageLimits::max_segments");
    }
    if lists.writes.len() > limits.max_write_chunks {
        return Err("more Write chunks than MessageLimits::max_write_chunks");
    }
    if lists.reads.iter().any(|read| read.position % 4 != 0) {
        return Err("a Read chunk position that is not a multiple of four");
    }
    if lists.segments().any(wraps) {
        return Err("a segment whose offsets overflow 64 bits");
    }
    let mut written = lists.writes.iter().chain(&lists.reply).map(super::WriteChunk::len);
    if written.any(|len| len > u64::from(u32::MAX)) {
        return Err("a Write chunk or a Reply chunk of 4 GiB or more");
    }
    Ok(())
}

fn wraps(segment: &Segment) -> bool {
    segment.offset.checked_add(u64::from(segment.length)).is_none()
}
