//! Hostile input from a peer on an established connection.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use rpcrdma_runtime::proto::work::{Action, CloseReason, Completion, Memory, Token};
use rpcrdma_runtime::provider::Connection;
use rpcrdma_runtime::provider::iwarp::IwarpOptions;
use rpcrdma_runtime::wire::iwarp::{Code, DdpHeader, Opcode, ReadRequest};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::raw::{
    Ended, Established, SEND, SEND_INVALIDATE, SIZE, assert_no_completion, establish, frame, next,
    read_request, register, rest, segment, segments, send, tagged, terminate_code, untagged, until_closed,
    write,
};

/// An attack: its name, its octets, and the expected Terminate code.
struct Case(&'static str, fn(&Established) -> Vec<u8>, Code);

fn impatient() -> IwarpOptions {
    IwarpOptions { stall_timeout: Duration::from_millis(200), ..IwarpOptions::default() }
}

/// Checks that the sink and the source were returned, and that the peer has not written to the sink.
fn assert_untouched(returned: &[Memory], what: &str) {
    let sinks: Vec<_> = returned
        .iter()
        .filter_map(|memory| match memory {
            Memory::Sink(data) => Some(data),
            Memory::Source(_) => None,
        })
        .collect();
    let [sink] = sinks[..] else { panic!("{what}: expected one sink") };
    assert!(sink.iter().all(|octet| *octet == 0), "{what}: octets were placed");
    assert_eq!(returned.len(), 2, "{what}: a region was not returned");
}

/// Checks that each attack gets one Terminate with the expected code, that no data is placed, and that all
/// memory is returned.
async fn run(cases: &[Case]) {
    for Case(what, octets, code) in cases {
        let mut met = establish(IwarpOptions::default()).await;
        let octets = octets(&met);
        met.raw.write_all(&octets).await.unwrap();
        let answer = tokio::spawn(rest(met.raw));
        let Ended { reason, returned, .. } = until_closed(&mut met.end).await;
        assert!(matches!(reason, CloseReason::Violation(_)), "{what}: {reason:?}");
        assert_untouched(&returned, what);
        drop(met.end);
        assert_eq!(terminate_code(&answer.await.unwrap()), Some(*code), "{what}");
    }
}

/// Requirement: R260, R350, R366, H35, H40, H41, H43, H44, H48, R010, R377, R379, R555, R564, R567, R572
/// Requirement: R569, R574, R675
#[tokio::test]
async fn access_outside_the_advertised_memory_is_rejected() {
    let past = |met: &Established| write(met.sink.handle, met.sink.offset + 60, &[1; 5]);
    run(&[
        Case(
            "H40 Write, unknown handle",
            |met| write(!met.sink.handle, met.sink.offset, &[1]),
            Code::INVALID_STAG,
        ),
        Case(
            "H41 Write, another key",
            |met| write(met.sink.handle ^ 1, met.sink.offset, &[1]),
            Code::INVALID_STAG,
        ),
        Case(
            "H43 Write to a source",
            |met| write(met.source.handle, met.source.offset, &[1]),
            Code::ACCESS_RIGHTS,
        ),
        Case(
            "H43 Read from a sink",
            |met| read_request(1, met.sink.handle, met.sink.offset, 1),
            Code::ACCESS_RIGHTS,
        ),
        Case("H44 Write, one octet past the end", past, Code::BASE_OR_BOUNDS),
        Case(
            "H44 Write, one octet before the start",
            |met| write(met.sink.handle, met.sink.offset - 1, &[1; 2]),
            Code::BASE_OR_BOUNDS,
        ),
        Case("H35 Write, wraps", |met| write(met.sink.handle, u64::MAX, &[1; 2]), Code::WRAP),
        Case(
            "H48 Read of 2^32 - 1 octets",
            |met| read_request(1, met.source.handle, met.source.offset, u32::MAX),
            Code::READ_BOUNDS,
        ),
        Case(
            "H48 Read, one octet past the end",
            |met| read_request(1, met.source.handle, met.source.offset + 1, SIZE),
            Code::READ_BOUNDS,
        ),
        Case("H35 Read, wraps", |met| read_request(1, met.source.handle, u64::MAX, 2), Code::READ_WRAP),
        Case(
            "H40 Read, unknown handle",
            |met| read_request(1, !met.source.handle, 0, 1),
            Code::READ_INVALID_STAG,
        ),
    ])
    .await;
}

fn invalidate(msn: u32, handle: u32) -> Vec<u8> {
    untagged(SEND_INVALIDATE, true, handle, (0, msn, 0), b"bye")
}

/// Requirement: R365, R369, H45
#[tokio::test]
async fn h46_invalid_remote_invalidations_are_rejected() {
    run(&[
        Case("H46 unknown handle", |_| invalidate(1, 0xdead_beef), Code::CANNOT_INVALIDATE),
        Case(
            "H46 the same index, another key",
            |met| invalidate(1, met.sink.handle ^ 1),
            Code::CANNOT_INVALIDATE,
        ),
        Case(
            "H46 twice",
            |met| [invalidate(1, met.sink.handle), invalidate(2, met.sink.handle)].concat(),
            Code::CANNOT_INVALIDATE,
        ),
        Case(
            "H45 Write after the invalidation",
            |met| [invalidate(1, met.sink.handle), write(met.sink.handle, met.sink.offset, &[1])].concat(),
            Code::INVALID_STAG,
        ),
    ])
    .await;
}

/// Returns a frame with a segment that starts with these two octets.
fn with_control(ddp: u8, rdmap: u8) -> Vec<u8> {
    let mut octets = segment(
        DdpHeader::Untagged { last: true, control: 0, word: 0, queue: 0, msn: 1, offset: 0 },
        &[0; 8],
    );
    (octets[0], octets[1]) = (ddp, rdmap);
    frame(&octets)
}

fn three_reads(met: &Established) -> Vec<u8> {
    (1..=3).flat_map(|msn| read_request(msn, met.source.handle, met.source.offset, SIZE)).collect()
}

fn bad_crc(met: &Established) -> Vec<u8> {
    let mut octets = write(met.sink.handle, met.sink.offset, &[1; 16]);
    *octets.last_mut().unwrap() ^= 1;
    octets
}

fn endless(_: &Established) -> Vec<u8> {
    (0..10).flat_map(|n| untagged(SEND, false, 0, (0, 1, n * 512), &[1; 512])).collect()
}

fn two_writes(met: &Established) -> Vec<u8> {
    let started = tagged(Opcode::Write, false, met.sink.handle, met.sink.offset, &[]);
    [started, write(met.sink.handle, met.sink.offset + 8, &[1])].concat()
}

fn send_in_write(met: &Established) -> Vec<u8> {
    let started = tagged(Opcode::Write, false, met.sink.handle, met.sink.offset, &[]);
    [started, send(1, b"too early")].concat()
}

const RULES: &[Case] = &[
    Case("H12 no Receive", |_| [send(1, b""), send(2, b""), send(3, b"")].concat(), Code::NO_BUFFER),
    Case("H49 too many Reads", three_reads, Code::STREAM_CATASTROPHIC),
    Case(
        "H50 unrequested response",
        |_| tagged(Opcode::ReadResponse, true, 9, 0, &[1]),
        Code::UNEXPECTED_OPCODE,
    ),
    Case("H51 length 0", |_| frame(&[]), Code::FPDU_LENGTH),
    Case("H51 length 1", |_| frame(&[0x41]), Code::FPDU_LENGTH),
    Case("H51 length 13", |_| frame(&[0xc1, 0x40, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]), Code::FPDU_LENGTH),
    Case(
        "H51 an untagged segment of 17 octets",
        |_| frame(&[0x41, 0x43, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0]),
        Code::FPDU_LENGTH,
    ),
    Case("H53 CRC", bad_crc, Code::CRC),
    Case("H54 DDP version 0", |_| with_control(0x40, 0x43), Code::UNTAGGED_VERSION),
    Case("H54 DDP version 2", |_| with_control(0x42, 0x43), Code::UNTAGGED_VERSION),
    Case("H54 DDP version 3, tagged", |_| with_control(0xc3, 0x40), Code::TAGGED_VERSION),
    Case("H54 RDMAP version 0", |_| with_control(0x41, 0x03), Code::RDMAP_VERSION),
    Case("H54 opcode 8", |_| with_control(0x41, 0x48), Code::UNEXPECTED_OPCODE),
    Case("H54 opcode 15", |_| with_control(0x41, 0x4f), Code::UNEXPECTED_OPCODE),
    Case("H55 MSN 0", |_| send(0, b"x"), Code::MSN_RANGE),
    Case("H55 MSN 2", |_| send(2, b"x"), Code::MSN_RANGE),
    Case("H55 MSN twice", |_| [send(1, b"x"), send(1, b"x")].concat(), Code::MSN_RANGE),
    Case(
        "H55 MSN of a Read",
        |met| read_request(2, met.source.handle, met.source.offset, 1),
        Code::MSN_RANGE,
    ),
    Case(
        "H55 nonzero offset of the first segment",
        |_| untagged(SEND, true, 0, (0, 1, 4), b"x"),
        Code::INVALID_OFFSET,
    ),
    Case(
        "H55 offset, overlapping",
        |_| {
            [untagged(SEND, false, 0, (0, 1, 0), b"abcd"), untagged(SEND, true, 0, (0, 1, 2), b"cd")].concat()
        },
        Code::INVALID_OFFSET,
    ),
    Case("H55 queue 3", |_| untagged(SEND, true, 0, (3, 1, 0), b"x"), Code::INVALID_QUEUE),
    Case(
        "H55 a Read on queue 0",
        |_| untagged(Opcode::ReadRequest, true, 0, (0, 1, 0), &[0; 28]),
        Code::INVALID_QUEUE,
    ),
    Case(
        "H51 a Read Request of 27 bytes",
        |_| untagged(Opcode::ReadRequest, true, 0, (1, 1, 0), &[0; 27]),
        Code::UNSPECIFIED,
    ),
    Case("H56 an endless Send", endless, Code::TOO_LONG),
    Case("H57 two interleaved tagged messages", two_writes, Code::BASE_OR_BOUNDS),
    Case("H57 a Send that ends within an RDMA Write", send_in_write, Code::UNEXPECTED_OPCODE),
    Case(
        "H58 a tagged Send",
        |met| tagged(SEND, true, met.sink.handle, met.sink.offset, &[1; 8]),
        Code::UNEXPECTED_OPCODE,
    ),
    Case(
        "H58 an untagged Write",
        |_| untagged(Opcode::Write, true, 0, (0, 1, 0), &[1; 8]),
        Code::UNEXPECTED_OPCODE,
    ),
];

/// Requirement: R008, R344, R351, R363, R364, R368, H12, H49, H50, H51, H53, H54, H55, H56, H57, H58, R384
/// Requirement: R469, R473, R509, R517, R530, R554, R555, R559, R627, R638, R640, R642, R665, R667, R673
#[tokio::test]
async fn violations_of_stream_rules_are_rejected() {
    run(RULES).await;
}

/// Requirement: R261, R354, R010, R375, R376, R560, R561, R562, R563, R566, R567, R569, R570, R571, R674
/// Requirement: R675
#[tokio::test]
async fn h42_a_handle_of_another_connection_is_rejected() {
    type Use = fn(&Established) -> Vec<u8>;
    let uses: [(Use, Code); 3] = [
        (|one| write(one.sink.handle, one.sink.offset, &[1]), Code::INVALID_STAG),
        (|one| read_request(1, one.source.handle, one.source.offset, 1), Code::READ_INVALID_STAG),
        (|one| invalidate(1, one.sink.handle), Code::CANNOT_INVALIDATE),
    ];
    for (hostile, code) in uses {
        let mut one = establish(IwarpOptions::default()).await;
        let mut other = establish(IwarpOptions::default()).await;
        other.raw.write_all(&hostile(&one)).await.unwrap();
        let answer = tokio::spawn(rest(other.raw));
        let Ended { returned, .. } = until_closed(&mut other.end).await;
        assert_untouched(&returned, "the other connection");
        drop(other.end);
        assert_eq!(terminate_code(&answer.await.unwrap()), Some(code));
        drop(one.raw);
        assert_untouched(&until_closed(&mut one.end).await.returned, "the handle's connection");
    }
}

/// Requirement: R557
#[tokio::test]
async fn r346_no_data_is_delivered_after_an_error() {
    let mut met = establish(IwarpOptions::default()).await;
    let octets = [bad_crc(&met), send(1, b"good, but too late")].concat();
    met.raw.write_all(&octets).await.unwrap();
    let Ended { before, returned, .. } = until_closed(&mut met.end).await;
    assert!(before.is_empty(), "{before:?}");
    assert_untouched(&returned, "after an error");
}

/// Requirement: R675, R676
#[tokio::test]
async fn r262_r367_handles_cannot_be_guessed() {
    const MANY: usize = 200;
    let mut handles = Vec::new();
    for _ in 0..2 {
        let Established { mut end, .. } = establish(IwarpOptions::default()).await;
        for _ in 0..MANY / 2 {
            handles.push(register(&mut end, Memory::Sink(BytesMut::zeroed(1))).await.handle);
        }
    }
    // A random generator fails this check in fewer than one in 10^9 runs.
    for bit in 0..32 {
        let set = handles.iter().filter(|handle| *handle >> bit & 1 == 1).count();
        assert!((50..=150).contains(&set), "bit {bit} is set in {set} of {MANY}");
    }
    let steps: BTreeSet<u32> = handles.windows(2).map(|pair| pair[1].wrapping_sub(pair[0])).collect();
    assert!(steps.len() > MANY - 5, "differences between handles repeat");
}

/// Requirement: R010, R378, R380, R564, R565, R569, R573, R575, R675
#[tokio::test]
async fn h45_a_write_after_the_fence_is_rejected() {
    let Established { mut raw, mut end, sink, .. } = establish(IwarpOptions::default()).await;
    end.submit(Action::Invalidate { token: Token(1), handle: sink.handle });
    let Completion::Invalidated { memory, .. } = next(&mut end).await else { panic!("not fenced") };
    raw.write_all(&write(sink.handle, sink.offset, &[1; 64])).await.unwrap();
    let answer = tokio::spawn(rest(raw));
    until_closed(&mut end).await;
    assert_eq!(terminate_code(&answer.await.unwrap()), Some(Code::INVALID_STAG));
    assert!(matches!(memory, Memory::Sink(data) if data.iter().all(|octet| *octet == 0)));
}

/// Requirement: R369, R523, R602
#[tokio::test]
async fn h46_the_peer_may_invalidate_advertised_handles() {
    let Established { mut raw, mut end, sink, .. } = establish(IwarpOptions::default()).await;
    raw.write_all(&invalidate(1, sink.handle)).await.unwrap();
    let received = next(&mut end).await;
    assert!(
        matches!(received, Completion::Received { invalidated: Some(handle), .. } if handle == sink.handle)
    );
    end.submit(Action::Invalidate { token: Token(1), handle: sink.handle });
    assert!(matches!(next(&mut end).await, Completion::Invalidated { memory: Memory::Sink(_), .. }));
}

/// Requirement: R352, R362
#[tokio::test]
async fn h48_empty_reads_and_writes_need_no_memory() {
    let Established { mut raw, mut end, .. } = establish(IwarpOptions::default()).await;
    let octets = [write(0xbad, 77, &[]), read_request(1, 0xbad, u64::MAX, 0), send(1, b"alive")].concat();
    raw.write_all(&octets).await.unwrap();
    assert!(matches!(next(&mut end).await, Completion::Received { message, .. } if message == "alive"));
    // The connection writes the response when it is next polled.
    let mut answer = Vec::new();
    tokio::select! {
        more = next(&mut end) => panic!("{more:?}"),
        read = raw.read_buf(&mut answer) => assert_ne!(read.unwrap(), 0),
    }
    end.submit(Action::Close { reason: CloseReason::Local });
    let closing = tokio::spawn(rest(raw));
    until_closed(&mut end).await;
    answer.extend(closing.await.unwrap());
    let [(Opcode::ReadResponse, header, payload)] = &segments(&answer)[..] else { panic!("{answer:?}") };
    assert!(matches!(header, DdpHeader::Tagged { last: true, stag: 9, offset: 0, .. }));
    assert!(payload.is_empty());
}

/// The connection under test requests 8 octets, and the peer sends a wrong response.
///
/// Requirement: R521
#[tokio::test]
async fn h50_responses_that_do_not_match_the_request_are_rejected() {
    type Answer = fn(ReadRequest) -> Vec<u8>;
    let response = Opcode::ReadResponse;
    assert!(response.is_tagged());
    let cases: [(&str, Answer, Code); 5] = [
        (
            "another handle",
            |request| tagged(Opcode::ReadResponse, true, !request.sink_stag, request.sink_offset, &[1; 8]),
            Code::INVALID_STAG,
        ),
        (
            "another offset",
            |request| tagged(Opcode::ReadResponse, true, request.sink_stag, request.sink_offset + 1, &[1; 8]),
            Code::BASE_OR_BOUNDS,
        ),
        (
            "too long",
            |request| tagged(Opcode::ReadResponse, true, request.sink_stag, request.sink_offset, &[1; 9]),
            Code::BASE_OR_BOUNDS,
        ),
        (
            "too short",
            |request| tagged(Opcode::ReadResponse, true, request.sink_stag, request.sink_offset, &[1; 7]),
            Code::BASE_OR_BOUNDS,
        ),
        (
            "an RDMA Write instead of a response",
            |request| write(request.sink_stag, request.sink_offset, &[1; 8]),
            Code::INVALID_STAG,
        ),
    ];
    for (what, answer, code) in cases {
        let Established { mut raw, mut end, mut source, .. } = establish(IwarpOptions::default()).await;
        source.length = 8;
        raw.write_all(&send(1, b"go")).await.unwrap();
        assert!(matches!(next(&mut end).await, Completion::Received { .. }));
        end.submit(Action::read(Token(1), source));
        let exchange = tokio::spawn(async move {
            let mut octets = [0; 52];
            raw.read_exact(&mut octets).await.unwrap();
            let request = ReadRequest::parse(&segments(&octets)[0].2).unwrap();
            raw.write_all(&answer(request)).await.unwrap();
            rest(raw).await
        });
        let Ended { before, returned, .. } = until_closed(&mut end).await;
        assert!(before.is_empty(), "{what}: {before:?}");
        assert_untouched(&returned, what);
        assert_eq!(terminate_code(&exchange.await.unwrap()), Some(code), "{what}");
    }
}

/// Requirement: R463
#[tokio::test]
async fn h52_an_incomplete_fpdu_times_out() {
    let Established { mut raw, mut end, .. } = establish(impatient()).await;
    raw.write_all(&[0xff, 0xff, 0x41, 0x43]).await.unwrap();
    let Ended { reason, returned, .. } = until_closed(&mut end).await;
    assert!(matches!(reason, CloseReason::Timeout(_)), "{reason:?}");
    assert_untouched(&returned, "half an FPDU");
}

/// Requirement: R463
#[tokio::test]
async fn h56_an_incomplete_message_times_out() {
    let Established { mut raw, mut end, .. } = establish(impatient()).await;
    raw.write_all(&untagged(SEND, false, 0, (0, 1, 0), b"to be continued")).await.unwrap();
    assert!(matches!(until_closed(&mut end).await.reason, CloseReason::Timeout(_)));
}

/// Requirement: R463
#[tokio::test]
async fn an_unanswered_read_times_out() {
    let Established { mut raw, mut end, source, .. } = establish(impatient()).await;
    raw.write_all(&send(1, b"go")).await.unwrap();
    end.submit(Action::read(Token(1), source));
    assert!(matches!(until_closed(&mut end).await.reason, CloseReason::Timeout(_)));
}

/// Requirement: R615, R647, R648
#[tokio::test]
async fn h59_terminates_of_every_kind_close_once_and_are_not_answered() {
    let siw = CloseReason::Terminated { layer: 1, etype: 2, code: 2 };
    for (payload, expected) in [
        (&[0x12, 0x02, 0xc0, 0x00][..], Some(&siw)),
        (&[0x21, 0x02, 0x03, 0x00], Some(&siw)),
        (&[0xff; 200], None),
        (&[], None),
    ] {
        let mut met = establish(IwarpOptions::default()).await;
        let octets = untagged(Opcode::Terminate, true, 0xffff, (2, 1, 0), payload);
        met.raw.write_all(&[&octets[..], &octets, &octets].concat()).await.unwrap();
        let answer = tokio::spawn(rest(met.raw));
        let Ended { before, reason, returned } = until_closed(&mut met.end).await;
        assert!(before.is_empty());
        assert_untouched(&returned, "Terminate");
        assert!(expected.is_none_or(|expected| *expected == reason), "{reason:?}");
        assert_no_completion(&mut met.end);
        assert!(answer.await.unwrap().is_empty());
    }
}

/// Requirement: R467, R502, R549, R553
#[tokio::test]
async fn h60_a_disconnect_within_an_fpdu_closes_the_connection() {
    for reset in [false, true] {
        let mut met = establish(IwarpOptions::default()).await;
        met.raw.write_all(&send(1, b"whole")).await.unwrap();
        met.raw.write_all(&send(2, b"half")[..9]).await.unwrap();
        assert!(matches!(next(&mut met.end).await, Completion::Received { .. }));
        if reset {
            met.raw.set_zero_linger().unwrap();
        }
        drop(met.raw);
        let Ended { before, reason, returned } = until_closed(&mut met.end).await;
        assert!(before.is_empty());
        assert!(matches!(reason, CloseReason::Peer | CloseReason::Io(_)), "{reason:?}");
        assert_untouched(&returned, "a disconnect");
    }
}

/// Requirement: R466, R508
#[tokio::test]
async fn h60_a_half_close_is_a_close() {
    let mut met = establish(IwarpOptions::default()).await;
    met.raw.shutdown().await.unwrap();
    assert_eq!(until_closed(&mut met.end).await.reason, CloseReason::Peer);
    drop(met.end);
    assert!(rest(met.raw).await.is_empty());
}

#[tokio::test]
async fn h61_a_peer_that_does_not_read_is_closed_after_its_messages_arrive() {
    let Established { mut raw, mut end, .. } = establish(impatient()).await;
    // The data exceeds the system's socket buffers.
    let data = Bytes::from(vec![5; 64 << 20]);
    let large = register(&mut end, Memory::Source(data)).await;
    raw.write_all(&read_request(1, large.handle, large.offset, large.length)).await.unwrap();
    raw.write_all(&send(1, b"a message")).await.unwrap();
    assert!(matches!(next(&mut end).await, Completion::Received { .. }));
    assert!(matches!(until_closed(&mut end).await.reason, CloseReason::Timeout(_)));
}
