//! An extension adds two header types (`specs/rpcrdma1-keepalive.txt`). Messages of the base protocol are
//! unchanged, and a peer without the extension rejects the new types. If the extension uses a new version
//! number, the peer reports the versions that it supports.

use bytes::Bytes;
use rpcrdma_keepalive::rpcrdma1::{RdmaMsg, RpcRdmaError, RpcRdmaErrvers, RpcRdmaHeader};
use rpcrdma_keepalive::rpcrdma1_keepalive::{
    RDMA_KEEPALIVE_FLAG_CLOSING, RdmaBody, RdmaProc, RpcRdmaKeepalive,
};
use rpcrdma_runtime::wire::rdma::{
    Body, ChunkLists, ErrorBody, Header, MessageLimits, ReadSegment, Refusal, ReplyRefusal, Segment,
    WriteChunk, decode_call, decode_reply, encode_version_error,
};
use rpcrdma_runtime::xdr::{self, Decode, Layout, Reader, Size};
use rpcrdma_sim::fabric::Rng;

fn keepalive(body: fn(RpcRdmaKeepalive) -> RdmaBody) -> RdmaMsg {
    let cookie = RpcRdmaKeepalive {
        rdma_ka_flags: RDMA_KEEPALIVE_FLAG_CLOSING,
        rdma_ka_cookie: 0x0102_0304_0506_0708,
    };
    RdmaMsg { rdma_xid: 0x1234_5678, rdma_vers: 1, rdma_credit: 32, rdma_body: body(cookie) }
}

#[test]
fn a_new_header_type_round_trips() {
    for (body, number) in [(RdmaBody::Keepalive as fn(_) -> _, 5), (RdmaBody::KeepaliveAck, 6)] {
        let message = keepalive(body);
        let bytes = xdr::to_bytes(&message).expect("a message without bounds");
        let words = [0x1234_5678_u32, 1, 32, number, 1, 0x0102_0304, 0x0506_0708];
        assert_eq!(bytes, words.iter().flat_map(|word| word.to_be_bytes()).collect::<Bytes>());
        assert_eq!(xdr::from_bytes::<RdmaMsg>(&bytes), Ok(message));
        for cut in 0..bytes.len() {
            assert!(xdr::from_bytes::<RdmaMsg>(&bytes.slice(..cut)).is_err(), "{cut}");
        }
    }
    assert_eq!(RpcRdmaKeepalive::LENGTHS.max, Size::Bounded(12));
}

fn word(rng: &mut Rng) -> u32 {
    u32::try_from(rng.next_u64() >> 32).expect("32 bits")
}

fn header(rng: &mut Rng) -> Header {
    let segment =
        |rng: &mut Rng| Segment { handle: word(rng), length: word(rng), offset: rng.next_u64() >> 33 };
    let count = |rng: &mut Rng| rng.next_u64() % 4;
    let chunk = |rng: &mut Rng| WriteChunk((0..count(rng)).map(|_| segment(rng)).collect());
    let lists = ChunkLists {
        reads: (0..word(rng) % 4).map(|at| ReadSegment { position: at * 8, segment: segment(rng) }).collect(),
        writes: (0..count(rng)).map(|_| chunk(rng)).collect(),
        reply: (count(rng) == 0).then(|| chunk(rng)),
    };
    let body = match rng.next_u64() % 4 {
        0 => Body::Msg(lists),
        1 => Body::NoMsg(lists),
        2 => Body::Error(ErrorBody::Version { low: word(rng), high: word(rng) }),
        _ => Body::Error(ErrorBody::Chunk),
    };
    Header { xid: word(rng), credits: word(rng), body }
}

#[test]
fn messages_of_the_base_are_unchanged() {
    let mut rng = Rng::new(8166);
    for _ in 0..1000 {
        let header = header(&mut rng);
        let bytes = header.clone().encode();
        let extended: RdmaMsg = xdr::from_bytes(&bytes).expect("a header of the base protocol");
        assert_eq!((extended.rdma_xid, extended.rdma_credit), (header.xid, header.credits));
        assert!(!matches!(extended.rdma_body, RdmaBody::Keepalive(_) | RdmaBody::KeepaliveAck(_)));
        assert_eq!(xdr::to_bytes(&extended).expect("a decoded header encodes"), bytes);
    }
    // `Header` cannot represent RDMA_DONE or RDMA_MSGP.
    for words in [&[7, 1, 32, 3][..], &[7, 1, 32, 2, 64, 512, 0, 0, 0]] {
        let bytes: Bytes = words.iter().flat_map(|word: &u32| word.to_be_bytes()).collect();
        let extended: RdmaMsg = xdr::from_bytes(&bytes).expect("a header of the base protocol");
        assert_eq!(xdr::to_bytes(&extended), Ok(bytes));
    }
}

#[test]
fn a_peer_without_the_extension_answers_err_chunk() {
    for body in [RdmaBody::Keepalive as fn(_) -> _, RdmaBody::KeepaliveAck] {
        let bytes = xdr::to_bytes(&keepalive(body)).expect("a message without bounds");
        // A responder replies with an error that has the XID of the rejected message.
        let refused = decode_call(&bytes, &MessageLimits::default());
        let Err(Refusal::Chunk { xid: 0x1234_5678, why }) = &refused else { panic!("{refused:?}") };
        assert!(why.contains("RdmaProc"), "{why}");
        // A requester sends no errors. The requester fails the call with this XID, if any.
        let refused = decode_reply(&bytes, &MessageLimits::default());
        assert!(matches!(refused, Err(ReplyRefusal::Fail { xid: 0x1234_5678, .. })), "{refused:?}");
    }
    // A peer with the extension can also decode the error reply.
    let answer = Header { xid: 0x1234_5678, credits: 32, body: Body::Error(ErrorBody::Chunk) }.encode();
    let extended: RdmaMsg = xdr::from_bytes(&answer).expect("an error");
    assert!(matches!(extended.rdma_body, RdmaBody::Error(_)));
}

/// A requester that supports versions 1 and 2 tries its highest version first, and then uses the highest
/// version that both peers support (docs/extensions.md, RFC 8166 section 7).
///
/// Requirement: R821
#[test]
fn a_new_version_is_negotiated_with_err_vers() {
    const SUPPORTED: std::ops::RangeInclusive<u32> = 1..=2;
    let request = RdmaMsg { rdma_vers: *SUPPORTED.end(), ..keepalive(RdmaBody::Keepalive) };
    let request = xdr::to_bytes(&request).expect("a message without bounds");
    let refused = decode_call(&request, &MessageLimits::default());
    let Err(Refusal::Version { xid: 0x1234_5678, version: 2 }) = refused else { panic!("{refused:?}") };

    let answer = encode_version_error(0x1234_5678, 2, 32);
    let answer: RdmaMsg = xdr::from_bytes(&answer).expect("an error");
    assert_eq!((answer.rdma_xid, answer.rdma_vers), (0x1234_5678, 2));
    let RdmaBody::Error(RpcRdmaError::Vers(RpcRdmaErrvers { rdma_vers_low: 1, rdma_vers_high: high @ 1 })) =
        answer.rdma_body
    else {
        panic!("{answer:?}")
    };

    // In this test, only version 2 has keepalives, so the next message is a call.
    let version = high.min(*SUPPORTED.end());
    assert!(SUPPORTED.contains(&version));
    let body = RdmaBody::Msg(RpcRdmaHeader::default());
    let call = RdmaMsg { rdma_xid: 7, rdma_vers: version, rdma_credit: 32, rdma_body: body };
    let call = xdr::to_bytes(&call).expect("a message without bounds");
    let (header, _) = decode_call(&call, &MessageLimits::default()).expect("a call of version 1");
    assert_eq!(header, Header { xid: 7, credits: 32, body: Body::Msg(ChunkLists::default()) });
}

#[test]
fn values_unknown_to_the_extension_are_invalid() {
    let mut bytes =
        xdr::to_bytes(&keepalive(RdmaBody::Keepalive)).expect("a message without bounds").to_vec();
    bytes[15] = 7;
    assert!(RdmaMsg::decode(&mut Reader::from_slice(&bytes)).is_err());
    assert_eq!(RdmaProc::try_from(6), Ok(RdmaProc::KeepaliveAck));
    assert!(RdmaProc::try_from(7).is_err());
}
