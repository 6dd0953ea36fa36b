use super::segments::{
    SEND, SEND_INVALIDATE, Sent, padded, read_request, register, responder, segment, sent, untagged, write,
};
use super::*;
use crate::wire::iwarp::{Code, DdpError, DdpHeader, Opcode, ReadRequest, fpdu};

struct TestRegions {
    sink: Segment,
    source: Segment,
}

impl TestRegions {
    fn read(&self, msn: u32, change: impl Fn(&mut ReadRequest)) -> Vec<u8> {
        let mut request = ReadRequest {
            sink_stag: 5,
            sink_offset: 6,
            length: 8,
            source_stag: self.source.handle,
            source_offset: self.source.offset,
        };
        change(&mut request);
        read_request(msn, request)
    }
}

/// Returns `fpdu` with the given bits of one octet of its ULPDU inverted, and with a valid CRC.
fn with_inverted(fpdu: &[u8], octet: usize, bits: u8) -> Vec<u8> {
    let mut ulpdu = fpdu::open(fpdu, true).unwrap().to_vec();
    ulpdu[octet] ^= bits;
    padded(&ulpdu, 0)
}

/// The contents of a Terminate besides its code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Contents {
    Nothing,
    Header,
    HeaderAndRequest,
}

/// A test case: its name, the received FPDUs, and the expected Terminate. The last FPDU is invalid.
struct Case(&'static str, fn(&TestRegions) -> Vec<Vec<u8>>, Code, Contents);

const CASES: &[Case] = &[
    Case(
        "a wrong CRC",
        |_| {
            let mut bad = untagged(SEND, true, (0, 1, 0), b"x");
            *bad.last_mut().unwrap() ^= 1;
            vec![bad]
        },
        Code::CRC,
        Contents::Nothing,
    ),
    Case(
        "a Write to an unknown handle",
        |regions| vec![write(true, !regions.sink.handle, 0, b"x")],
        Code::INVALID_STAG,
        Contents::Header,
    ),
    Case(
        "a Send out of sequence",
        |_| vec![untagged(SEND, true, (0, 2, 0), b"x")],
        Code::MSN_RANGE,
        Contents::Header,
    ),
    Case(
        "a Send that is one octet too long",
        |_| vec![untagged(SEND, true, (0, 1, 0), &[1; 4096]), untagged(SEND, true, (0, 2, 0), &[1; 4097])],
        Code::TOO_LONG,
        Contents::Header,
    ),
    Case(
        "a Send of two segments that is one octet too long",
        |_| vec![untagged(SEND, false, (0, 1, 0), &[1; 4000]), untagged(SEND, true, (0, 1, 4000), &[1; 97])],
        Code::TOO_LONG,
        Contents::Header,
    ),
    Case(
        "a Send without a Receive",
        |_| (1..=4).map(|msn| untagged(SEND, true, (0, msn, 0), b"")).collect(),
        Code::NO_BUFFER,
        Contents::Header,
    ),
    Case(
        "a Send inside an RDMA Write",
        |regions| {
            let started = write(false, regions.sink.handle, regions.sink.offset, b"x");
            vec![started, untagged(SEND, true, (0, 1, 0), b"x")]
        },
        Code::UNEXPECTED_OPCODE,
        Contents::Header,
    ),
    Case(
        "a Send that invalidates an unknown handle",
        |_| vec![untagged(SEND_INVALIDATE, true, (0, 1, 0), b"x")],
        Code::CANNOT_INVALIDATE,
        Contents::Header,
    ),
    Case(
        "a Read of an unknown handle",
        |regions| vec![regions.read(1, |request| request.source_stag ^= 1)],
        Code::READ_INVALID_STAG,
        Contents::HeaderAndRequest,
    ),
    Case(
        "a Read beyond its region",
        |regions| vec![regions.read(1, |request| request.length = 9)],
        Code::READ_BOUNDS,
        Contents::HeaderAndRequest,
    ),
    Case(
        "one more Read than negotiated",
        |regions| (1..=3).map(|msn| regions.read(msn, |_| {})).collect(),
        Code::STREAM_CATASTROPHIC,
        Contents::HeaderAndRequest,
    ),
    Case(
        "a Read out of sequence, which DDP does not deliver",
        |regions| vec![regions.read(2, |_| {})],
        Code::MSN_RANGE,
        Contents::Header,
    ),
    Case(
        "a Terminate on the queue for Sends",
        |_| vec![untagged(Opcode::Terminate, true, (0, 1, 0), &[0x12, 2, 0, 0])],
        Code::INVALID_QUEUE,
        Contents::Header,
    ),
    Case(
        "a Terminate with MSN 2",
        |_| vec![untagged(Opcode::Terminate, true, (2, 2, 0), &[0x12, 2, 0, 0])],
        Code::MSN_RANGE,
        Contents::Header,
    ),
    Case(
        "a Terminate that starts at offset 4",
        |_| vec![untagged(Opcode::Terminate, true, (2, 1, 4), &[0x12, 2, 0, 0])],
        Code::INVALID_OFFSET,
        Contents::Header,
    ),
    Case(
        "a Write with another version of DDP",
        |regions| {
            let write = write(true, regions.sink.handle, regions.sink.offset, b"x");
            vec![with_inverted(&write, 0, 2)]
        },
        Code::TAGGED_VERSION,
        Contents::Header,
    ),
    Case(
        "a Send with another version of DDP",
        |_| vec![with_inverted(&untagged(SEND, true, (0, 1, 0), b"x"), 0, 2)],
        Code::UNTAGGED_VERSION,
        Contents::Header,
    ),
    Case(
        "a Send with another version of RDMAP",
        |_| vec![with_inverted(&untagged(SEND, true, (0, 1, 0), b"x"), 1, 0x80)],
        Code::RDMAP_VERSION,
        Contents::Header,
    ),
];

fn only_terminate(what: &str, sent: &[Sent]) -> Vec<u8> {
    let [Sent { opcode: Opcode::Terminate, header, payload, .. }] = sent else { panic!("{what}: {sent:?}") };
    let control = Opcode::Terminate.control();
    let expected = DdpHeader::Untagged { last: true, control, word: 0, queue: 2, msn: 1, offset: 0 };
    assert_eq!(*header, expected, "{what}");
    payload.clone()
}

/// The stream answers the first fault with one Terminate, regardless of queued work and later input.
///
/// Requirement: R426, R437, R467, R469, R507, R515, R549, R550, R551, R553, R556, R557, R558, R605, R612
/// Requirement: R614, R615, R616, R617, R618, R624, R644, R645, R646, R660, R663, R664, R666, R668, R670
/// Requirement: R671, R672, R673, R344, R365, R368
#[test]
fn a_fault_is_answered_with_one_terminate_that_names_it() {
    for Case(what, fpdus, code, with) in CASES {
        let mut stream = responder(|_| {}, 3);
        let regions = TestRegions {
            sink: register(&mut stream, Memory::Sink(BytesMut::zeroed(8))),
            source: register(&mut stream, Memory::Source(Bytes::from_static(&[7; 8]))),
        };
        stream.submit(send(1, "queued"));
        let fpdus = fpdus(&regions);
        let fault = fpdus.last().unwrap();
        stream.receive(&fpdus.concat());
        stream.receive(&write(true, 1, 1, b"another fault"));
        let payload = only_terminate(what, &sent(&mut stream));
        let ulpdu = fpdu::open(fault, false).unwrap();
        let header_len = match DdpHeader::parse(ulpdu) {
            Ok((header, _)) => header.wire_len(),
            Err(DdpError::Version { tagged: true }) => 14,
            Err(DdpError::Version { tagged: false }) => 18,
            Err(DdpError::Short) => panic!("{what}"),
        };
        let (header, request) = ulpdu.split_at(header_len);
        let flags = match with {
            Contents::Nothing => 0,
            Contents::Header => 0xc0,
            Contents::HeaderAndRequest => 0xe0,
        };
        let mut expected = vec![code.layer << 4 | code.etype, code.code, flags, 0];
        if *with != Contents::Nothing {
            expected.extend_from_slice(&u16::try_from(ulpdu.len()).unwrap().to_be_bytes());
            expected.extend_from_slice(header);
        }
        if *with == Contents::HeaderAndRequest {
            expected.extend_from_slice(request);
        }
        assert_eq!(payload, expected, "{what}");
        stream.submit(send(2, "late"));
        assert!(sent(&mut stream).is_empty(), "{what}: output follows the Terminate");
        stream.finish();
        let last = core::iter::from_fn(|| stream.poll_completion()).last();
        assert!(
            matches!(&last, Some(Completion::Closed { reason: CloseReason::Violation(_), returned }) if returned.len() == 2),
            "{what}: {last:?}"
        );
    }
}

/// Requirement: R512, R515, R541, R649, R655
#[test]
fn a_message_without_its_last_segment_is_not_delivered() {
    let mut stream = responder(|_| {}, 1);
    stream.receive(&untagged(SEND, false, (0, 1, 0), b"ab"));
    stream.receive(&untagged(SEND, false, (0, 1, 2), b"cd"));
    assert!(stream.poll_completion().is_none());
    stream.receive(&untagged(SEND, true, (0, 1, 4), b""));
    assert!(
        matches!(stream.poll_completion(), Some(Completion::Received { message, .. }) if message == "abcd")
    );
}

/// Requirement: R532, R668, R669
#[test]
fn invalid_local_work_sends_a_terminate() {
    let wrapping = Segment { handle: 1, length: 16, offset: u64::MAX - 3 };
    let short = Segment { handle: 1, length: 3, offset: 0 };
    let piece = Bytes::from_static(&[0; 1 << 20]);
    for action in [
        Action::read(Token(1), wrapping),
        Action::Write { token: Token(1), sink: wrapping, data: piece.slice(..16) },
        Action::Write { token: Token(1), sink: short, data: piece.slice(..16) },
        // This message has 4 GiB, one octet more than the maximum.
        Action::Send { token: Token(1), message: vec![piece; 4096], invalidate: None },
    ] {
        let mut stream = Stream::new(config(Role::Initiator), entropy(1));
        stream.submit(action);
        assert!(!stream.is_open());
        let payload = only_terminate("local", &sent(&mut stream));
        assert_eq!(payload.len(), 4);
        assert_eq!((payload[0], payload[2], payload[3]), (0, 0, 0), "a local error, without headers");
        stream.finish();
        let closed = stream.poll_completion();
        assert!(matches!(closed, Some(Completion::Closed { reason: CloseReason::Io(_), .. })), "{closed:?}");
    }
}

/// Neither the outstanding RDMA Read nor work that is submitted after the close has its own completion.
///
/// Requirement: R544, R550, R664
#[test]
fn after_close_outstanding_work_is_dropped_and_none_starts() {
    let mut stream = Stream::new(config(Role::Initiator), entropy(1));
    let remote = Segment { handle: 1, length: 4, offset: 0 };
    stream.submit(Action::read(Token(1), remote));
    sent(&mut stream);
    stream.submit(Action::Close { reason: CloseReason::Local });
    stream.submit(send(2, "late"));
    stream.submit(Action::Write { token: Token(3), sink: remote, data: Bytes::from_static(b"late") });
    stream.submit(Action::read(Token(4), remote));
    stream.submit(Action::Register { token: Token(5), memory: Memory::Sink(BytesMut::zeroed(1)) });
    assert!(sent(&mut stream).is_empty());
    stream.finish();
    let done: Vec<_> = core::iter::from_fn(|| stream.poll_completion()).collect();
    assert!(
        matches!(&done[..], [Completion::Closed { reason: CloseReason::Local, returned }] if returned.len() == 1),
        "{done:?}"
    );
}

#[test]
fn a_fault_in_a_short_fpdu_sends_no_header() {
    let control = SEND.control();
    let header = DdpHeader::Untagged { last: true, control, word: 0, queue: 0, msn: 1, offset: 0 };
    let short = segment(header, &[]).len() - 1;
    let mut stream = responder(|config| config.crc = false, 1);
    let mut octets = u16::try_from(short).unwrap().to_be_bytes().to_vec();
    octets.extend_from_slice(&segment(header, &[])[..short]);
    octets.resize(fpdu::len(&octets).unwrap(), 0);
    stream.receive(&octets);
    assert_eq!(only_terminate("short", &sent(&mut stream)), [0x20, 3, 0, 0]);
}
