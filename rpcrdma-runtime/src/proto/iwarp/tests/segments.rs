use super::*;
use crate::proto::work::RegionPart;
use crate::wire::iwarp::{Crc32c, DdpHeader, Opcode, ReadRequest, fpdu};

pub(super) const SEND: Opcode = Opcode::Send { invalidate: false, solicited: false };
pub(super) const SEND_INVALIDATE: Opcode = Opcode::Send { invalidate: true, solicited: false };

#[derive(Debug)]
pub(super) struct Sent {
    pub(super) opcode: Opcode,
    pub(super) header: DdpHeader,
    pub(super) payload: Vec<u8>,
    /// The length of the segment's FPDU.
    len: usize,
}

impl Sent {
    pub(super) fn is_last(&self) -> bool {
        matches!(self.header, DdpHeader::Tagged { last: true, .. } | DdpHeader::Untagged { last: true, .. })
    }
}

/// Returns the segments that a stream sends. Checks the rules that apply to every segment.
pub(super) fn sent(stream: &mut Stream) -> Vec<Sent> {
    let (sent, mut all) = (octets(stream), Vec::new());
    let mut octets = &sent[..];
    while !octets.is_empty() {
        let (one, rest) = octets.split_at(fpdu::len(octets).unwrap());
        let ulpdu = fpdu::open(one, stream.config.crc).unwrap();
        assert!(one.len() % 4 == 0 && ulpdu.len() <= 64_768, "{} octets", one.len());
        let (covered, sum) = one.split_last_chunk::<4>().unwrap();
        assert!(covered[2 + ulpdu.len()..].iter().all(|octet| *octet == 0), "pad octets are not zero");
        assert!(stream.config.crc || *sum == [0; 4], "a CRC that was not negotiated");
        assert_eq!(ulpdu[0] & 0x3f, 1, "reserved bits and version of DDP");
        assert_eq!(ulpdu[1] & 0xf0, 0x40, "version and reserved bits of RDMAP");
        let (header, payload) = DdpHeader::parse(ulpdu).unwrap();
        let opcode = Opcode::from_control(header.control()).unwrap();
        all.push(Sent { opcode, header, payload: payload.to_vec(), len: one.len() });
        octets = rest;
    }
    all
}

/// Returns an FPDU with this ULPDU and with pad octets of this value.
pub(super) fn padded(ulpdu: &[u8], pad: u8) -> Vec<u8> {
    let mut octets = u16::try_from(ulpdu.len()).unwrap().to_be_bytes().to_vec();
    octets.extend_from_slice(ulpdu);
    octets.resize(octets.len() + fpdu::padding(ulpdu.len()), pad);
    let mut crc = Crc32c::new();
    crc.update(&octets);
    octets.extend(crc.octets());
    octets
}

pub(super) fn segment(header: DdpHeader, payload: &[u8]) -> Vec<u8> {
    let mut ulpdu = Vec::new();
    header.encode(|piece| ulpdu.extend_from_slice(piece));
    ulpdu.extend_from_slice(payload);
    ulpdu
}

pub(super) fn untagged(opcode: Opcode, last: bool, at: (u32, u32, u32), payload: &[u8]) -> Vec<u8> {
    let (queue, msn, offset) = at;
    let header = DdpHeader::Untagged { last, control: opcode.control(), word: 0, queue, msn, offset };
    padded(&segment(header, payload), 0)
}

pub(super) fn write(last: bool, stag: u32, offset: u64, payload: &[u8]) -> Vec<u8> {
    let header = DdpHeader::Tagged { last, control: Opcode::Write.control(), stag, offset };
    padded(&segment(header, payload), 0)
}

pub(super) fn read_request(msn: u32, request: ReadRequest) -> Vec<u8> {
    let mut payload = Vec::new();
    request.encode(|piece| payload.extend_from_slice(piece));
    untagged(Opcode::ReadRequest, true, (1, msn, 0), &payload)
}

/// Returns a responder that has this number of Receives and has received its first FPDU.
pub(super) fn responder(change: impl Fn(&mut StreamConfig), receives: u32) -> Stream {
    let mut config = config(Role::Responder);
    change(&mut config);
    let mut stream = Stream::new(config, entropy(7));
    stream.submit(Action::PostReceives { count: receives });
    stream.receive(&write(true, 0, 0, &[]));
    stream
}

pub(super) fn register(stream: &mut Stream, memory: Memory) -> Segment {
    stream.submit(Action::Register { token: Token(0), memory });
    match stream.poll_completion() {
        Some(Completion::Registered { segment, .. }) => segment,
        other => panic!("{other:?}"),
    }
}

#[derive(Clone, Copy, Debug)]
enum To {
    Memory(u32, u64),
    Queue { queue: u32, msn: u32, word: u32 },
}

fn take_message(sent: &mut impl Iterator<Item = Sent>, opcode: Opcode, to: To, limit: usize) -> Vec<u8> {
    let mut data = Vec::new();
    loop {
        let segment = sent.next().expect("a segment is missing");
        assert_eq!(segment.opcode, opcode);
        match (segment.header, to) {
            (DdpHeader::Tagged { stag, offset, .. }, To::Memory(handle, start)) => {
                assert_eq!((stag, offset), (handle, start + u64::try_from(data.len()).unwrap()));
            }
            (
                DdpHeader::Untagged { word, queue, msn, offset, .. },
                To::Queue { queue: to, msn: number, word: handle },
            ) => {
                assert_eq!(usize::try_from(offset), Ok(data.len()));
                assert_eq!((queue, msn, word), (to, number, handle));
            }
            other => panic!("the T bit is wrong: {other:?}"),
        }
        data.extend_from_slice(&segment.payload);
        if segment.is_last() {
            return data;
        }
        assert!(!segment.payload.is_empty(), "an empty segment that is not the last");
        assert_eq!(segment.len, limit, "a segment that is not the last must be as large as possible");
    }
}

/// Requirement: R401, R402, R403, R404, R405, R409, R410, R421, R423, R429, R430, R473, R501, R513, R514
/// Requirement: R516, R517, R519, R520, R523, R524, R525, R526, R528, R529, R530, R531, R533, R535, R536
/// Requirement: R537, R538, R539, R540, R600, R601, R602, R603, R605, R606, R607, R608, R609, R619, R620
/// Requirement: R621, R623, R627, R628, R630, R637, R640, R641, R643, R652, R660
#[test]
fn messages_are_sent_as_segments_in_order() {
    const HANDLE: u32 = 0xaabb_ccdd;
    for (max_fpdu, limit) in [(0, 136), (200, 200), (1448, 1448), (usize::MAX, 64_772)] {
        for len in [0, 1, 2, 3, 4, 111, 112, 113, 115, 116, 117, 1000, 64_752, 64_753, 200_000] {
            let config = StreamConfig { max_fpdu, crc: len % 2 == 0, ..config(Role::Initiator) };
            let mut stream = Stream::new(config, entropy(1));
            let data = Bytes::from(pattern(len, 3));
            let remote = Segment { handle: 0x1122_3344, length: u32::MAX, offset: (1 << 40) + 7 };
            let send = |invalidate| Action::Send {
                token: Token(1),
                message: data.chunks(100).map(Bytes::copy_from_slice).collect(),
                invalidate,
            };
            stream.submit(Action::Write { token: Token(1), sink: remote, data: data.clone() });
            stream.submit(send(None));
            stream.submit(send(Some(HANDLE)));
            stream.submit(Action::read(Token(2), Segment { length: 9, ..remote }));
            stream.submit(Action::read(Token(3), remote));
            stream.submit(send(None));
            stream.submit(Action::Write { token: Token(4), sink: remote, data: data.clone() });
            let mut all = sent(&mut stream).into_iter();
            let mut take = |opcode, to| take_message(&mut all, opcode, to, limit);
            let queue = |queue, msn, word| To::Queue { queue, msn, word };
            assert_eq!(take(Opcode::Write, To::Memory(remote.handle, remote.offset)), data);
            assert_eq!(take(SEND, queue(0, 1, 0)), data);
            assert_eq!(take(SEND_INVALIDATE, queue(0, 2, HANDLE)), data);
            for (msn, length) in [(1, 9), (2, u32::MAX)] {
                let request = ReadRequest::parse(&take(Opcode::ReadRequest, queue(1, msn, 0))).unwrap();
                assert_eq!(
                    (request.source_stag, request.source_offset, request.length),
                    (remote.handle, remote.offset, length)
                );
            }
            assert_eq!(take(SEND, queue(0, 3, 0)), data);
            assert_eq!(take(Opcode::Write, To::Memory(remote.handle, remote.offset)), data);
            assert!(all.next().is_none());
        }
    }
}

/// Requirement: R439, R603, R609, R611, R622, R625, R626, R629, R630, R631, R632, R633, R635, R636, R651
/// Requirement: R656, R658
#[test]
fn read_requests_are_answered_in_order_once_they_are_complete() {
    let mut stream = responder(|config| config.ird = 3, 1);
    let data = pattern(3000, 1);
    let source = register(&mut stream, Memory::Source(data.clone().into()));
    let request = |sink_stag, length| ReadRequest {
        sink_stag,
        sink_offset: 1 << 33,
        length,
        source_stag: source.handle,
        source_offset: source.offset,
    };
    let requests = [request(21, 3000), request(22, 0), request(0xffff_ffff, 1)];
    for (msn, request) in (1..).zip(requests) {
        let octets = read_request(msn, request);
        let (last, before) = octets.split_last().unwrap();
        before.iter().for_each(|octet| stream.receive(&[*octet]));
        if msn == 1 {
            assert!(!stream.has_output(), "the request is incomplete");
        }
        stream.receive(&[*last]);
    }
    let mut all = sent(&mut stream).into_iter();
    for ReadRequest { sink_stag, sink_offset, length, .. } in requests {
        let to = To::Memory(sink_stag, sink_offset);
        let response = take_message(&mut all, Opcode::ReadResponse, to, 600);
        assert_eq!(response, data[..usize::try_from(length).unwrap()]);
    }
    assert!(all.next().is_none(), "more responses than requests");
    assert!(stream.poll_completion().is_none(), "a Read Request has no completion");
}

/// A Send or Write completes once its last octet is sent. A Read completes once its response is complete.
///
/// Requirement: R519, R634, R650, R653, R657, R659
#[test]
fn sends_complete_once_written() {
    let mut stream = Stream::new(config(Role::Initiator), entropy(1));
    let remote = Segment { handle: 1, length: 3000, offset: 0 };
    let data = Bytes::from(pattern(3000, 0));
    stream.submit(Action::read(Token(1), Segment { length: 4, ..remote }));
    stream.submit(send(2, data.clone()));
    stream.submit(Action::Write { token: Token(3), sink: remote, data });
    let (mut pieces, mut order) = (VecDeque::new(), Vec::new());
    let mut rounds = 0;
    while stream.poll_transmit(1, &mut pieces) > 0 {
        rounds += 1;
        order.extend(core::iter::from_fn(|| stream.poll_completion()).map(|done| (rounds, done)));
    }
    // Each round sends one FPDU: a Read Request, then six FPDUs of the Send and six of the Write.
    assert!(
        matches!(
            order[..],
            [(7, Completion::Sent { token: Token(2) }), (13, Completion::Written { token: Token(3) })]
        ),
        "{order:?}"
    );
    let octets: Vec<u8> = pieces.iter().flatten().copied().collect();
    let (_, payload) = DdpHeader::parse(fpdu::open(&octets[..52], true).unwrap()).unwrap();
    let ReadRequest { sink_stag: stag, sink_offset: offset, .. } = ReadRequest::parse(payload).unwrap();
    let mut response = |last, offset, data| {
        let control = Opcode::ReadResponse.control();
        stream.receive(&padded(&segment(DdpHeader::Tagged { last, control, stag, offset }, data), 0));
        stream.poll_completion()
    };
    assert!(response(false, offset, b"ab").is_none(), "half of the response");
    let done = response(true, offset + 2, b"cd");
    assert!(
        matches!(&done, Some(Completion::ReadDone { token: Token(1), data }) if data == "abcd"),
        "{done:?}"
    );
}

/// Requirement: R410, R511, R516, R607, R608
#[test]
fn reserved_fields_and_pad_octets_are_not_checked() {
    let mut stream = responder(|_| {}, 1);
    let sink = register(&mut stream, Memory::Sink(BytesMut::zeroed(8)));
    let with_reserved_bits = |header, payload: &[u8]| {
        let mut ulpdu = segment(header, payload);
        ulpdu[0] |= 0x3c;
        ulpdu[1] |= 0x30;
        padded(&ulpdu, 0xff)
    };
    let control = Opcode::Write.control();
    let (stag, offset) = (sink.handle, sink.offset);
    stream.receive(&with_reserved_bits(DdpHeader::Tagged { last: true, control, stag, offset }, b"abc"));
    // In a Send with Invalidate, this word is the handle.
    let (control, word) = (SEND.control(), sink.handle);
    let header = DdpHeader::Untagged { last: true, control, word, queue: 0, msn: 1, offset: 0 };
    stream.receive(&with_reserved_bits(header, b"d"));
    let received = stream.poll_completion();
    assert!(
        matches!(&received, Some(Completion::Received { message, invalidated: None }) if message == "d"),
        "{received:?}"
    );
    assert!(content(&mut stream, sink).starts_with(b"abc"));
}

/// Requirement: R401, R406, R416, R417, R436, R438, R506, R511, R534
#[test]
fn fpdus_of_any_length_are_parsed_completely() {
    const LONGEST: usize = u16::MAX as usize - 14;
    let mut stream = responder(|_| {}, 1);
    let sink = register(&mut stream, Memory::Sink(BytesMut::zeroed(LONGEST)));
    let data = pattern(LONGEST, 9);
    let octets: Vec<u8> = (0..9)
        .chain([LONGEST])
        .flat_map(|len| write(true, sink.handle, sink.offset, &data[..len]))
        .chain(untagged(SEND, true, (0, 1, 0), b"done"))
        .collect();
    octets.chunks(1009).for_each(|piece| stream.receive(piece));
    assert!(
        matches!(stream.poll_completion(), Some(Completion::Received { message, .. }) if message == "done")
    );
    assert!(content(&mut stream, sink) == data);
}

/// Requirement: R411, R418, R421, R422
#[test]
fn crcs_are_checked_on_all_fpdus_or_none() {
    for crc in [true, false] {
        let mut stream = responder(|config| config.crc = crc, 60);
        for msn in 1..=50 {
            stream.receive(&untagged(SEND, true, (0, msn, 0), b"good"));
        }
        let mut bad = untagged(SEND, true, (0, 51, 0), b"bad");
        *bad.last_mut().unwrap() ^= 0x80;
        stream.receive(&bad);
        assert_eq!(stream.is_open(), !crc);
        let taken = core::iter::from_fn(|| stream.poll_completion()).count();
        assert_eq!(taken, if crc { 50 } else { 51 });
    }
}

/// The Reads of a region fill one buffer, which the last Read returns. An unfinished region does not affect
/// the next region.
#[test]
fn reads_of_one_region_return_one_buffer() {
    let mut pair = Pair::new(|_| {}, 5);
    let source = pair.register(1, Memory::Source(pattern(9000, 0).into()));
    let lengths = [3000, 5, 1995, 4000];
    let mut offset = 0;
    let mut read = |pair: &mut Pair, token: u64, length: u32, first: bool| {
        let at = if first { 0 } else { offset };
        offset = at + u64::from(length);
        let source = Segment { length, offset: source.offset + at, ..source };
        let part = RegionPart { offset: at, total: 9000 };
        pair.submit(0, Action::Read { token: Token(token), source, part });
    };
    read(&mut pair, 0, 4000, true);
    for (token, length) in (1..).zip(lengths) {
        read(&mut pair, token, length, token == 1);
    }
    let mut done = pair.take(0);
    let Some(Completion::ReadDone { token: Token(4), data }) = done.pop() else { panic!("{done:?}") };
    assert_eq!(data, pattern(9000, 0));
    assert_eq!(data.try_into_mut().map(|region| region.capacity()), Ok(9000), "the region was reallocated");
    let empty =
        |completion: &Completion| matches!(completion, Completion::ReadDone { data, .. } if data.is_empty());
    assert!(done.len() == 4 && done.iter().all(empty), "{done:?}");
}
