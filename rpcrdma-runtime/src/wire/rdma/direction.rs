use super::VERSION;
use crate::wire::generated::rpc_msg::MsgType;
use crate::wire::generated::rpcrdma1::RdmaProc;
use crate::xdr::{Decode, Reader};

/// The role of a received message (RFC 8167 section 4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// A call, for the responder.
    Call,
    /// A reply or an error, for the requester.
    Reply,
}

/// The encoded size of a segment in bytes.
const SEGMENT: usize = 16;
/// The encoded size of a Read segment in bytes, including its position.
const READ_SEGMENT: usize = 20;

/// Determines the direction of a message on a connection where both peers send calls. An RDMA_MSG has the
/// direction of the RPC message after its transport header. An RDMA_ERROR is always a reply, and an
/// RDMA_NOMSG with a Position-Zero Read chunk is a call. Returns `None` for an unsupported version, an
/// invalid header, an obsolete type, or an RDMA_NOMSG without a Position-Zero Read chunk. Also returns `None`
/// for an RDMA_MSG whose RPC message lacks an XID or a valid message type.
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

/// Skips the Read list, the Write list and the Reply chunk. Returns true if the Read list has a segment at
/// position zero, and `None` if one of the three is invalid. Each iteration consumes bytes of the message, so
/// the loops end.
fn skip_lists(reader: &mut Reader<'_>) -> Option<bool> {
    let mut position_zero = false;
    while reader.bool().ok()? {
        let entry: &[u8; READ_SEGMENT] = reader.array().ok()?;
        position_zero |= entry.starts_with(&[0; 4]);
    }
    while reader.bool().ok()? {
        skip_chunk(reader)?;
    }
    if reader.bool().ok()? {
        skip_chunk(reader)?;
    }
    Some(position_zero)
}

/// Skips a Write chunk or the Reply chunk. If the chunk claims more segments than the message contains, the
/// loop stops at the end of the message and the function returns `None`.
fn skip_chunk(reader: &mut Reader<'_>) -> Option<()> {
    for _ in 0..reader.u32().ok()? {
        let _segment: &[u8; SEGMENT] = reader.array().ok()?;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::rdma::{Body, ChunkLists, ErrorBody, Header, ReadSegment, Segment, WriteChunk};
    use alloc::vec;
    use alloc::vec::Vec;

    const SEGMENT: Segment = Segment { handle: 1, length: 2, offset: 3 };

    fn lists(position: u32, reads: usize, writes: usize, segments: usize) -> ChunkLists {
        let chunk = || WriteChunk(vec![SEGMENT; segments]);
        ChunkLists {
            reads: vec![ReadSegment { position, segment: SEGMENT }; reads],
            writes: vec![chunk(); writes],
            reply: (segments > 1).then(chunk),
        }
    }

    fn message(body: Body, stream: &[u32]) -> Vec<u8> {
        let header = Header { xid: 9, credits: 1, body }.encode();
        header.iter().copied().chain(stream.iter().flat_map(|word| word.to_be_bytes())).collect()
    }

    #[test]
    fn r221_the_direction_is_in_the_rpc_message_after_any_chunk_lists() {
        for (reads, writes, segments) in [(0, 0, 0), (1, 0, 0), (3, 2, 1), (0, 1, 5), (2, 3, 2)] {
            for (kind, expected) in [(0, Some(Direction::Call)), (1, Some(Direction::Reply)), (2, None)] {
                let complete = message(Body::Msg(lists(0, reads, writes, segments)), &[9, kind, 2]);
                assert_eq!(direction(&complete), expected, "{reads} {writes} {segments}");
                let needed = complete.len() - 4;
                for cut in 0..complete.len() {
                    let expected = expected.filter(|_| cut >= needed);
                    assert_eq!(direction(complete.get(..cut).unwrap_or_default()), expected, "{cut} bytes");
                }
            }
        }
    }

    #[test]
    fn r221_only_long_calls_and_errors_have_a_direction_without_an_rpc_message() {
        let of = |body| direction(&message(body, &[]));
        assert_eq!(of(Body::NoMsg(lists(0, 1, 0, 0))), Some(Direction::Call));
        assert_eq!(of(Body::NoMsg(lists(4, 2, 0, 0))), None);
        assert_eq!(of(Body::NoMsg(lists(0, 0, 1, 2))), None, "no Position-Zero Read chunk");
        assert_eq!(of(Body::Error(ErrorBody::Chunk)), Some(Direction::Reply));
        assert_eq!(of(Body::Error(ErrorBody::Version { low: 1, high: 1 })), Some(Direction::Reply));
    }
}
