//! Decodes RPC-over-RDMA messages of Linux's NFS client and server, and encodes their headers again to the
//! same bytes.

use bytes::Bytes;
use rpcrdma_runtime::program::Credential;
use rpcrdma_runtime::wire::rdma::{
    Body, Header, MessageLimits, Refusal, ReplyRefusal, decode_call, decode_reply as decode_reply_header,
};
use rpcrdma_runtime::wire::rpc::{CallHeader, ReplyHeader, decode_reply};
use rpcrdma_runtime::xdr::{Reader, Writer};
use rpcrdma_tests::captured::{Captured, others, ours};

/// Checks that an RPC-over-RDMA header encodes to the bytes from which it was decoded.
fn check_header_round_trip(message: &Captured, header: &Header, payload: &Bytes) {
    let encoded = header.clone().encode();
    assert_eq!([&encoded[..], payload].concat(), message.bytes, "{}", message.name);
}

fn call(message: &Captured) {
    let (header, payload) = decode_call(&message.bytes, &MessageLimits::default()).expect("a call");
    check_header_round_trip(message, &header, &payload);
    let mut reader = Reader::from_bytes(&payload);
    let rpc = CallHeader::decode(&mut reader).expect("an RPC call");
    assert_eq!(rpc.xid, header.xid, "R144");
    assert!(matches!(rpc.credential, Credential::Sys(_) | Credential::None), "{}", message.name);
    let mut writer = Writer::new();
    rpc.encode(&mut writer).expect("a decoded header");
    assert_eq!(writer.as_slice(), &payload[..payload.len() - reader.remaining()], "{}", message.name);
}

fn reply(message: &Captured) {
    let (header, payload) = decode_reply_header(&message.bytes, &MessageLimits::default()).expect("a reply");
    check_header_round_trip(message, &header, &payload);
    if matches!(header.body, Body::NoMsg(_)) {
        return assert!(payload.is_empty());
    }
    let mut reader = Reader::from_bytes(&payload);
    decode_reply(&mut reader, header.xid).expect("a success");
    let mut writer = Writer::new();
    ReplyHeader::Success.encode(header.xid, &mut writer).expect("a header");
    assert_eq!(writer.as_slice(), &payload[..payload.len() - reader.remaining()], "{}", message.name);
}

/// Checks that the RPC header of a call or a reply encodes to the bytes from which it was decoded.
fn check_rpc_header_round_trip(message: &Captured, header: &Header, payload: &Bytes) {
    let (mut reader, mut writer) = (Reader::from_bytes(payload), Writer::new());
    match (&header.body, payload.get(4..8)) {
        // The RPC message is in a chunk.
        (Body::NoMsg(_), _) => return assert!(payload.is_empty(), "{}", message.name),
        (_, Some([0, 0, 0, 0])) => {
            let call =
                CallHeader::decode(&mut reader).unwrap_or_else(|error| panic!("{}: {error:?}", message.name));
            call.encode(&mut writer).expect("a decoded header");
        }
        _ => {
            decode_reply(&mut reader, header.xid)
                .unwrap_or_else(|error| panic!("{}: {error:?}", message.name));
            ReplyHeader::Success.encode(header.xid, &mut writer).expect("a header");
        }
    }
    assert_eq!(writer.as_slice(), &payload[..payload.len() - reader.remaining()], "{}", message.name);
}

/// Requirement: R144, R320
#[test]
fn linux_nfsv3_messages_round_trip() {
    let messages = ours("linux-nfs3.jsonl");
    assert_eq!(messages.len(), 16);
    for message in &messages {
        if message.from_client { call(message) } else { reply(message) }
    }
}

#[test]
fn linux_uses_each_kind_of_chunk() {
    let messages = ours("linux-nfs3.jsonl");
    let lists = messages.iter().filter_map(|message| {
        match decode_call(&message.bytes, &MessageLimits::default()).ok()?.0.body {
            Body::Msg(lists) => Some(lists),
            _ => None,
        }
    });
    let (mut reads, mut writes, mut replies) = (Vec::new(), 0, 0);
    for lists in lists {
        reads.extend(lists.reads.iter().map(|read| read.position));
        writes += lists.writes.len();
        replies += usize::from(lists.reply.is_some());
    }
    // The data of a WRITE follows 108 bytes of RPC header and arguments. Chunks in replies are also counted,
    // because the header does not distinguish a reply from a call.
    assert_eq!(reads, [108]);
    assert!(
        writes >= 1 && replies >= 1,
        "Write chunks: {writes}, Reply chunks: {replies}, expected at least 1 of each"
    );
}

#[test]
fn linux_calls_in_the_backward_direction() {
    let messages = ours("linux-nfs42-backward.jsonl");
    let [backward_call, backward_reply] = &messages[..] else { panic!("two messages") };
    let limits = MessageLimits::default();
    assert!(matches!(
        decode_reply_header(&backward_call.bytes, &limits),
        Err(ReplyRefusal::BackwardCall { chunks: false, .. })
    ));
    // `decode_call` also decodes the header of the client's reply to a backward call.
    let (header, payload) = decode_call(&backward_reply.bytes, &limits).expect("a header");
    check_header_round_trip(backward_reply, &header, &payload);
}

#[test]
fn a_truncated_message_is_rejected_or_has_less_payload() {
    for message in ours("linux-nfs3.jsonl") {
        for cut in 0..message.bytes.len() {
            let cut = message.bytes.slice(..cut);
            match decode_call(&cut, &MessageLimits::default()) {
                Ok((header, payload)) => assert_eq!([&header.encode()[..], &payload].concat(), cut),
                Err(Refusal::Discard(_)) => assert!(cut.len() < 28),
                Err(Refusal::Chunk { .. } | Refusal::TooLong(_)) => {}
                Err(Refusal::Version { .. }) => panic!("unexpected version error"),
            }
        }
    }
}

#[test]
fn captures_in_rpcrdma_vectors_round_trip() {
    for (file, messages) in others() {
        for message in messages {
            let limits = MessageLimits::default();
            let decoded = if message.from_client {
                decode_call(&message.bytes, &limits).ok()
            } else {
                match decode_reply_header(&message.bytes, &limits) {
                    Err(ReplyRefusal::BackwardCall { .. }) => decode_call(&message.bytes, &limits).ok(),
                    other => other.ok(),
                }
            };
            let (header, payload) = decoded.unwrap_or_else(|| panic!("{file}: {}", message.name));
            check_header_round_trip(&message, &header, &payload);
            check_rpc_header_round_trip(&message, &header, &payload);
        }
    }
}
