use super::VERSION;
use crate::wire::generated::rpc_msg::MsgType;
use crate::wire::generated::rpcrdma1::RdmaProc;
use crate::xdr::{Decode, Reader};

/// What a message is to the end that received it (RFC 8167 section 4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// A call: for the responder.
    Call,
    /// A reply, or an error in place of one: for the requester.
    Reply,
}

/// The bytes of a segment, and of a position and a segment.
const SEGMENT: usize = 16;
const READ_SEGMENT: usize = 20;

/// Tells it where both ends call: by the RPC message behind the header. Without one an error answers a call, and a
/// Position-Zero Read chunk holds one. Nothing, where it cannot be told: another version, a header that cannot be read or
/// of a type that is out of use, a message without an RPC message, or with neither a call nor a reply.
#[must_use]
pub fn direction(message: &[u8]) -> Option<Direction> {
    let mut reader = Reader::from_slice(message);
    let (_xid, version, _credits) = (reader.u32().ok()?, reader.u32().ok()?, reader.u32().ok()?);
    if version != VERSION {
        return None;
    }
    match RdmaProc::decode(&mut reader).ok()? {
        RdmaProc::Msg => {
            skip_lists(&mut reader)?;
            let _xid = reader.u32().ok()?;
            match MsgType::decode(&mut reader).ok()? {
                MsgType::Call => Some(Direction::Call),
                MsgType::Reply => Some(Direction::Reply),
            }
        }
        RdmaProc::Nomsg => skip_lists(&mut reader)?.then_some(Direction::Call),
        RdmaProc::Error => Some(Direction::Reply),
        RdmaProc::Msgp | RdmaProc::Done => None,
    }
}

/// Goes past the chunk lists, each step of which takes bytes of the message; says whether the Read list has a segment at
/// position zero.
fn skip_lists(reader: &mut Reader<'_>) -> Option<bool> {
    let mut position_zero = false;
    while follows(reader)? {
        let entry: &[u8; READ_SEGMENT] = reader.array().ok()?;
        position_zero |= entry.starts_with(&[0; 4]);
    }
    while follows(reader)? {
        skip_chunk(reader)?;
    }
    if follows(reader)? {
        skip_chunk(reader)?;
    }
    Some(position_zero)
}

/// The word in front of an entry of a list: whether there is one.
fn follows(reader: &mut Reader<'_>) -> Option<bool> {
    match reader.u32().ok()? {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    }
}

/// A chunk's segments. One that says that it has more than the message holds ends with the message.
fn skip_chunk(reader: &mut Reader<'_>) -> Option<()> {
    for _ in 0..reader.u32().ok()? {
        let _segment: &[u8; SEGMENT] = reader.array().ok()?;
    }
    Some(())
}
