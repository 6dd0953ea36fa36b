//! The encoding of RPC-over-RDMA headers, byte for byte (RFC 8166 section 4), and the rejection of invalid
//! headers.

use bytes::Bytes;
use rpcrdma_runtime::wire::rdma::{
    Body, CallTooLong, ChunkLists, ErrorBody, Header, MessageLimits, ReadSegment, Refusal, ReplyRefusal,
    Segment, WriteChunk, decode_call, decode_reply, encode_version_error,
};
use rpcrdma_sim::fabric::Rng;

fn words(words: &[u32]) -> Bytes {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

fn segment(number: u32) -> Segment {
    Segment { handle: 0xaa00 + number, length: 100 * number, offset: (u64::from(number) << 32) | 0x0c0c }
}

fn read(position: u32, number: u32) -> ReadSegment {
    ReadSegment { position, segment: segment(number) }
}

fn chunk(numbers: &[u32]) -> WriteChunk {
    WriteChunk(numbers.iter().map(|number| segment(*number)).collect())
}

fn message(body: Body) -> Header {
    Header { xid: 0x1234_5678, credits: 32, body }
}

/// Checks that the header encodes to `expected`, decodes with its payload, and is rejected if truncated.
fn golden(header: &Header, expected: &[u32]) {
    let encoded = header.clone().encode();
    assert_eq!(encoded, words(expected));
    if let Body::Msg(lists) | Body::NoMsg(lists) = &header.body {
        assert_eq!(encoded.len() as u64, lists.header_len());
    }
    let payload: &[u8] =
        if matches!(header.body, Body::Msg(_)) { b"\x12\x34\x56\x78\0\0\0\x01body" } else { b"" };
    let whole: Bytes = [&encoded[..], payload].concat().into();
    for payload in [payload, &[7; 2000]] {
        let payload = Bytes::copy_from_slice(payload);
        let message = header.clone().with_payload(Some(payload.clone())).concat();
        assert_eq!(message, [encoded.clone(), payload].concat());
    }
    let is_call = !matches!(header.body, Body::Error(_));
    let is_reply = !matches!(&header.body, Body::Msg(lists) | Body::NoMsg(lists) if !lists.reads.is_empty());
    let decoded = (header.clone(), Bytes::copy_from_slice(payload));
    if is_call {
        assert_eq!(decode_call(&whole, &MessageLimits::default()), Ok(decoded.clone()));
    }
    if is_reply {
        assert_eq!(decode_reply(&whole, &MessageLimits::default()), Ok(decoded));
    }
    for cut in 0..encoded.len() {
        let cut = encoded.slice(..cut);
        assert!(decode_call(&cut, &MessageLimits::default()).is_err(), "{cut:?}");
        assert!(decode_reply(&cut, &MessageLimits::default()).is_err(), "{cut:?}");
    }
}

/// Requirement: R140, R146, R148
#[test]
fn r152_three_empty_lists_are_three_zero_words() {
    golden(&message(Body::Msg(ChunkLists::default())), &[0x1234_5678, 1, 32, 0, 0, 0, 0]);
}

/// Requirement: R149, R156
#[test]
fn r151_a_read_list_of_two_chunks() {
    let lists = ChunkLists { reads: vec![read(48, 1), read(160, 2)], ..ChunkLists::default() };
    let entries = [1, 48, 0xaa01, 100, 1, 0x0c0c, 1, 160, 0xaa02, 200, 2, 0x0c0c, 0];
    golden(&message(Body::Msg(lists)), &[&[0x1234_5678, 1, 32, 0], &entries[..], &[0, 0]].concat());
}

#[test]
fn r151_a_write_list_of_chunks_of_three_and_two_segments() {
    let lists = ChunkLists { writes: vec![chunk(&[1, 2, 3]), chunk(&[4, 5])], ..ChunkLists::default() };
    let first = [1, 3, 0xaa01, 100, 1, 0x0c0c, 0xaa02, 200, 2, 0x0c0c, 0xaa03, 300, 3, 0x0c0c];
    let second = [1, 2, 0xaa04, 400, 4, 0x0c0c, 0xaa05, 500, 5, 0x0c0c, 0];
    golden(&message(Body::Msg(lists)), &[&[0x1234_5678, 1, 32, 0, 0], &first[..], &second, &[0]].concat());
}

/// Requirement: R153
#[test]
fn r151_a_reply_chunk_of_two_segments() {
    let lists = ChunkLists { reply: Some(chunk(&[6, 7])), ..ChunkLists::default() };
    let reply = [1, 2, 0xaa06, 600, 6, 0x0c0c, 0xaa07, 700, 7, 0x0c0c];
    golden(&message(Body::NoMsg(lists)), &[&[0x1234_5678, 1, 32, 1, 0, 0], &reply[..]].concat());
}

#[test]
fn r151_all_three_lists() {
    let lists = ChunkLists { reads: vec![read(0, 1)], writes: vec![chunk(&[2])], reply: Some(chunk(&[3])) };
    let expected = [
        [0x1234_5678, 1, 32, 1].as_slice(),
        &[1, 0, 0xaa01, 100, 1, 0x0c0c, 0],
        &[1, 1, 0xaa02, 200, 2, 0x0c0c, 0],
        &[1, 1, 0xaa03, 300, 3, 0x0c0c],
    ];
    golden(&message(Body::NoMsg(lists)), &expected.concat());
}

/// Requirement: R142, R153, R167, R168, R239
#[test]
fn r171_err_vers_gives_the_range_and_echoes_the_version() {
    let error = Body::Error(ErrorBody::Version { low: 1, high: 1 });
    golden(&message(error), &[0x1234_5678, 1, 32, 4, 1, 1, 1]);
    assert_eq!(encode_version_error(7, 9, 32), words(&[7, 9, 32, 4, 1, 1, 1]));
}

/// Requirement: R150, R153
#[test]
fn r172_err_chunk_is_twenty_bytes() {
    golden(&message(Body::Error(ErrorBody::Chunk)), &[0x1234_5678, 1, 32, 4, 2]);
}

#[test]
fn r001_handles_have_32_bits_and_offsets_64() {
    let segment = Segment { handle: u32::MAX, length: 1, offset: u64::MAX - 1 };
    let lists = ChunkLists { writes: vec![WriteChunk(vec![segment])], ..ChunkLists::default() };
    let expected = [0x1234_5678, 1, 32, 0, 0, 1, 1, u32::MAX, 1, u32::MAX, u32::MAX - 1, 0, 0];
    golden(&message(Body::Msg(lists)), &expected);
}

#[test]
fn h26_an_endless_list_is_rejected_without_recursion() {
    let mut list = vec![7, 1, 32, 0];
    for _ in 0..100_000 {
        list.extend_from_slice(&[1, 4, 1, 1, 0, 0]);
    }
    let cut = words(&list);
    assert!(matches!(decode_call(&cut, &MessageLimits::default()), Err(Refusal::Chunk { xid: 7, .. })));
    list.extend_from_slice(&[0, 0, 0]);
    let ended = words(&list);
    assert!(matches!(decode_call(&ended, &MessageLimits::default()), Err(Refusal::Chunk { xid: 7, .. })));
    let generous = MessageLimits { max_segments: 100_000, ..MessageLimits::default() };
    assert!(decode_call(&ended, &generous).is_ok());
}

/// Requirement: R273, H33
#[test]
fn limits_are_exact() {
    let lists = |segments: u32, chunks: u32| {
        let mut lists = vec![7, 1, 32, 0, 0];
        for _ in 0..chunks {
            lists.extend_from_slice(&[1, segments]);
            (0..segments).for_each(|_| lists.extend_from_slice(&[1, 8, 0, 0]));
        }
        lists.extend_from_slice(&[0, 0]);
        words(&lists)
    };
    let limits =
        MessageLimits { max_segments: 6, max_write_chunks: 3, max_transfer: 8, ..MessageLimits::default() };
    assert!(decode_call(&lists(2, 3), &limits).is_ok());
    assert!(decode_call(&lists(7, 1), &limits).is_err());
    assert!(decode_call(&lists(1, 4), &limits).is_err());
    let read = |length| words(&[7, 1, 32, 0, 1, 4, 1, length, 0, 0, 0, 0, 0]);
    assert!(decode_call(&read(8), &limits).is_ok());
    let too_long = CallTooLong { xid: 7, bytes: 9, max: 8, call: None };
    assert_eq!(decode_call(&read(9), &limits).unwrap_err(), Refusal::TooLong(too_long));
}

#[test]
fn positions_segments_and_chunks_are_checked_at_their_limits() {
    let at = |length, offset| Segment { handle: 1, length, offset };
    let read_at = |position| ReadSegment { position, segment: at(4, 0) };
    let reads = |one| ChunkLists { reads: vec![one], ..ChunkLists::default() };
    let reply = |segments| ChunkLists { reply: Some(WriteChunk(segments)), ..ChunkLists::default() };
    for (lists, is_valid) in [
        (reads(read_at(4)), true),
        (reads(read_at(6)), false),
        (reads(ReadSegment { position: 4, segment: at(4, u64::MAX - 4) }), true),
        (reads(ReadSegment { position: 4, segment: at(4, u64::MAX - 3) }), false),
        (reply(vec![at(u32::MAX - 1, 0), at(1, 0)]), true),
        (reply(vec![at(u32::MAX, 0), at(1, 0)]), false),
    ] {
        let encoded = message(Body::Msg(lists.clone())).encode();
        assert_eq!(decode_call(&encoded, &MessageLimits::default()).is_ok(), is_valid, "{lists:?}");
    }
}

#[test]
fn the_shortest_header_is_valid_in_both_directions() {
    let (header, limits) = (message(Body::NoMsg(ChunkLists::default())), MessageLimits::default());
    let encoded = header.clone().encode();
    assert_eq!(encoded.len(), 28);
    assert_eq!(decode_call(&encoded, &limits), Ok((header.clone(), Bytes::new())));
    assert_eq!(decode_reply(&encoded, &limits), Ok((header, Bytes::new())));
}

#[test]
fn a_requester_rejects_invalid_and_obsolete_replies() {
    let limits = MessageLimits::default();
    let with_read = ChunkLists { reads: vec![read(4, 1)], ..ChunkLists::default() };
    let refused = decode_reply(&message(Body::Msg(with_read)).encode(), &limits);
    assert!(matches!(refused, Err(ReplyRefusal::Fail { xid: 0x1234_5678, .. })), "{refused:?}");
    let long = [&message(Body::NoMsg(ChunkLists::default())).encode()[..], b"more"].concat();
    let refused = decode_reply(&long.into(), &limits);
    assert!(matches!(refused, Err(ReplyRefusal::Fail { xid: 0x1234_5678, .. })), "{refused:?}");
    // Replies of version 2, and replies of type RDMA_MSGP or RDMA_DONE, are discarded.
    for (version, kind) in [(2, 0), (1, 2), (1, 3)] {
        let refused = decode_reply(&words(&[7, version, 1, kind, 0, 0, 0]), &limits);
        assert!(matches!(refused, Err(ReplyRefusal::Discard(_))), "{version}, {kind}: {refused:?}");
    }
}

#[test]
fn h67_a_thousand_empty_write_chunks_are_rejected() {
    let mut list = vec![7, 1, 32, 0, 0];
    (0..1000).for_each(|_| list.extend_from_slice(&[1, 0]));
    list.extend_from_slice(&[0, 0]);
    assert!(matches!(decode_call(&words(&list), &MessageLimits::default()), Err(Refusal::Chunk { .. })));
}

/// Requirement: R268
#[test]
fn random_headers_are_rejected_or_decoded_without_a_panic() {
    let mut rng = Rng::new(9);
    let plausible = [0, 0, 0, 1, 1, 2, 3, 4, 5, 48, 0xffff_ffff];
    for round in 0..20_000 {
        let len = rng.below(40);
        let mut list = vec![7, 1, 32, u32::try_from(rng.below(6)).expect("small")];
        list.extend((0..len).map(|_| *rng.pick(&plausible).expect("not empty")));
        let mut bytes = words(&list).to_vec();
        bytes.truncate(bytes.len() - usize::try_from(rng.below(4)).expect("small"));
        let bytes = Bytes::from(bytes);
        let refused_for = |xid| assert_eq!(xid, 7, "round {round}");
        match decode_call(&bytes, &MessageLimits::default()) {
            Ok((header, payload)) => {
                assert!(bytes.ends_with(&payload));
                assert_eq!(header.encode().len() + payload.len(), bytes.len());
            }
            Err(
                Refusal::Chunk { xid, .. }
                | Refusal::Version { xid, .. }
                | Refusal::TooLong(CallTooLong { xid, .. }),
            ) => refused_for(xid),
            Err(Refusal::Discard(_)) => {}
        }
        match decode_reply(&bytes, &MessageLimits::default()) {
            Ok((header, _)) => refused_for(header.xid),
            Err(ReplyRefusal::Fail { xid, .. } | ReplyRefusal::BackwardCall { xid, .. }) => refused_for(xid),
            Err(ReplyRefusal::Discard(_)) => {}
        }
    }
}
