use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use bytes::Bytes;

use super::{ChunkLists, Limits, Segment};
use crate::wire::generated::rpcrdma1 as xdr;
use crate::xdr::{Decode, Encode, Error, Reader, Writer};

/// The only version there is (RFC 8166 section 4.2.2).
pub const VERSION: u32 = xdr::RPCRDMA_VERSION;

/// The shortest RDMA_MSG or RDMA_NOMSG header: three empty lists. A shorter message is dropped unread by a
/// responder (RFC 8166 section 4.5).
const SHORTEST: usize = 28;
/// The words that every version has: XID, version, credits, type.
const FIXED: usize = 16;

/// A header of version 1 that has been checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The XID of the call, or of the reply.
    pub xid: u32,
    /// Credits asked for, or granted, as the peer said.
    pub credits: u32,
    /// What follows.
    pub body: Body,
}

/// The kinds of message that are in use (RFC 8166 section 4.2.4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// RDMA_MSG: the Payload stream follows.
    Msg(ChunkLists),
    /// RDMA_NOMSG: the Payload stream is in a chunk.
    NoMsg(ChunkLists),
    /// RDMA_ERROR.
    Error(ErrorBody),
}

/// What an RDMA_ERROR says (RFC 8166 section 4.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorBody {
    /// ERR_VERS: the responder speaks these versions.
    Version {
        /// The lowest.
        low: u32,
        /// The highest.
        high: u32,
    },
    /// ERR_CHUNK: the call's header cannot be used, or the reply cannot be returned.
    Chunk,
}

/// What a responder does with a message that is no call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Drop it: why, in words.
    Discard(&'static str),
    /// Answer RDMA_ERROR with ERR_VERS, the version as it came (RFC 8166 section 4.5.1).
    Version {
        /// The XID as it came.
        xid: u32,
        /// The version as it came.
        version: u32,
    },
    /// Answer RDMA_ERROR with ERR_CHUNK (RFC 8166 section 4.5.2).
    Chunk {
        /// The XID as it came.
        xid: u32,
        /// Why, in words.
        why: String,
    },
}

/// What a requester does with a message that is no good reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplyRefusal {
    /// Drop it: why, in words.
    Discard(&'static str),
    /// Fail the call with this XID, if there is one.
    Fail {
        /// The XID as it came.
        xid: u32,
        /// Why, in words.
        why: String,
    },
    /// It is a call of the responder (RFC 8167), which this end takes none of.
    BackwardCall {
        /// The XID as it came.
        xid: u32,
        /// Whether it has chunks: then it is answered with ERR_CHUNK, and else dropped.
        chunks: bool,
    },
}

/// A Payload stream of at most this length is copied behind its header, which costs less than sending two pieces.
const COPIED: usize = 1024;

impl Header {
    /// The bytes that go in front of the Payload stream.
    #[must_use]
    pub fn encode(self) -> Bytes {
        self.write(&[])
    }

    /// The header and the Payload stream behind it, if it goes inline, as the pieces of one message.
    #[must_use]
    pub fn with_payload(self, payload: Option<Bytes>) -> Vec<Bytes> {
        match payload {
            Some(payload) if payload.len() > COPIED => vec![self.encode(), payload],
            payload => vec![self.write(payload.as_deref().unwrap_or_default())],
        }
    }

    /// Encodes the header with a copy of a payload.
    fn write(self, payload: &[u8]) -> Bytes {
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
            rdma_vers: VERSION,
            rdma_credit: self.credits,
            rdma_body: body,
        };
        write(&message, payload)
    }
}

/// The answer to a message of another version: ERR_VERS with that version in its header (RFC 8166 section 4.5.1).
#[must_use]
pub fn encode_version_error(xid: u32, version: u32, credits: u32) -> Bytes {
    let range = xdr::RpcRdmaErrvers { rdma_vers_low: VERSION, rdma_vers_high: VERSION };
    let body = xdr::RdmaBody::Error(xdr::RpcRdmaError::Vers(range));
    let message = xdr::RdmaMsg { rdma_xid: xid, rdma_vers: version, rdma_credit: credits, rdma_body: body };
    write(&message, &[])
}

fn write(message: &xdr::RdmaMsg, payload: &[u8]) -> Bytes {
    let mut writer = Writer::reused();
    // No header type has a bound that a value of it could break but the count of segments, which is a length
    // in memory.
    if message.encode(&mut writer).is_err() {
        writer.clear();
    }
    writer.into_message(payload)
}

/// The words that stand in the same place in every version (RFC 8166 section 4.2).
struct Fixed {
    xid: u32,
    version: u32,
    kind: u32,
}

fn fixed(message: &[u8]) -> Option<Fixed> {
    let mut reader = Reader::from_slice(message.get(..FIXED)?);
    let mut word = || reader.u32().ok();
    let (xid, version, _credits, kind) = (word()?, word()?, word()?, word()?);
    Some(Fixed { xid, version, kind })
}

/// Header types that are never read to their end.
const MSGP: u32 = xdr::RdmaProc::Msgp as u32;
const DONE: u32 = xdr::RdmaProc::Done as u32;
const ERROR: u32 = xdr::RdmaProc::Error as u32;

/// Reads what a responder received. Total: every message gives a header and its payload, or what to do instead.
///
/// # Errors
/// [`Refusal`], by the rules of RFC 8166 section 4.5 and the limits.
pub fn decode_call(message: &Bytes, limits: &Limits) -> Result<(Header, Bytes), Refusal> {
    if message.len() < SHORTEST {
        return Err(Refusal::Discard("shorter than any header"));
    }
    let Some(Fixed { xid, version, kind }) = fixed(message) else {
        return Err(Refusal::Discard("shorter than any header"));
    };
    let chunk = |why: String| Refusal::Chunk { xid, why };
    match kind {
        // In every version: the first four words mean the same in all of them (RFC 8166 section 4.2).
        ERROR => return Err(Refusal::Discard("a requester must not send RDMA_ERROR")),
        _ if version != VERSION => return Err(Refusal::Version { xid, version }),
        DONE => return Err(Refusal::Discard("RDMA_DONE is obsolete")),
        MSGP => return Err(chunk("RDMA_MSGP is obsolete".to_string())),
        _ => {}
    }
    let (header, payload) = decode(message).map_err(|error| chunk(error.to_string()))?;
    match &header.body {
        Body::Msg(lists) => check_lists(lists, limits).map_err(|why| chunk(why.to_string()))?,
        Body::NoMsg(lists) => {
            check_lists(lists, limits).map_err(|why| chunk(why.to_string()))?;
            if !payload.is_empty() {
                return Err(chunk("bytes behind an RDMA_NOMSG header".to_string()));
            }
        }
        Body::Error(_) => return Err(Refusal::Discard("a requester must not send RDMA_ERROR")),
    }
    Ok((header, payload))
}

/// Reads what a requester received. Total, as [`decode_call`].
///
/// # Errors
/// [`ReplyRefusal`].
pub fn decode_reply(message: &Bytes, limits: &Limits) -> Result<(Header, Bytes), ReplyRefusal> {
    let Some(Fixed { xid, version, kind }) = fixed(message) else {
        return Err(ReplyRefusal::Discard("shorter than the fixed words"));
    };
    let fail = |why: String| ReplyRefusal::Fail { xid, why };
    // ERR_VERS carries the version of the call it answers, which was ours.
    if version != VERSION {
        return Err(ReplyRefusal::Discard("another version"));
    }
    if kind == MSGP || kind == DONE {
        return Err(ReplyRefusal::Discard("an obsolete header type"));
    }
    if kind != ERROR && message.len() < SHORTEST {
        return Err(ReplyRefusal::Discard("shorter than any header"));
    }
    let (header, payload) = decode(message).map_err(|error| fail(error.to_string()))?;
    if let Body::Msg(lists) | Body::NoMsg(lists) = &header.body {
        // A Position-Zero chunk holds a call, and is in no reply.
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
        return Err(fail("bytes behind an RDMA_NOMSG header".to_string()));
    }
    Ok((header, payload))
}

/// Whether a Payload stream begins an RPC call. The direction is nowhere else (RFC 8167 section 4.1).
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
        // The callers sent the types that are out of use away before.
        xdr::RdmaBody::Error(xdr::RpcRdmaError::Chunk) | xdr::RdmaBody::Msgp(_) | xdr::RdmaBody::Done => {
            Body::Error(ErrorBody::Chunk)
        }
    };
    Ok((Header { xid: decoded.rdma_xid, credits: decoded.rdma_credit, body }, payload))
}

/// What holds for the lists of every message.
fn check_lists(lists: &ChunkLists, limits: &Limits) -> Result<(), &'static str> {
    if lists.segments().count() > limits.segments {
        return Err("more segments than the limit");
    }
    if lists.writes.len() > limits.write_chunks {
        return Err("more Write chunks than the limit");
    }
    if lists.reads.iter().any(|read| read.position % 4 != 0) {
        return Err("a position that is no multiple of four");
    }
    if lists.segments().any(wraps) {
        return Err("a segment that wraps around the end of memory");
    }
    let read = lists.reads.iter().map(|read| u64::from(read.segment.length)).sum::<u64>();
    let mut written = lists.writes.iter().chain(&lists.reply).map(super::WriteChunk::len);
    // At most `limits.segments` lengths of 32 bits each: the sums cannot overflow.
    if read > limits.transfer || written.any(|len| len > u64::from(u32::MAX)) {
        return Err("a transfer larger than the limit");
    }
    Ok(())
}

fn wraps(segment: &Segment) -> bool {
    segment.offset.checked_add(u64::from(segment.length)).is_none()
}
