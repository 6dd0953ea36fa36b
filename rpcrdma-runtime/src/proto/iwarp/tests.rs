mod faults;
mod placement;
mod segments;

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec;
use alloc::vec::Vec;

use bytes::{Bytes, BytesMut};
use proptest::prelude::*;

use self::segments::sent;
use super::{Entropy, Role, Stream, StreamConfig};
use crate::proto::random::Rng;
use crate::proto::work::{Action, CloseReason, Completion, Memory, Segment, Token};
use crate::wire::iwarp::{Code, Crc32c, Opcode, Terminate};

fn below(random: &mut Rng, limit: usize) -> usize {
    usize::try_from(random.below(limit as u64)).unwrap()
}

pub(super) fn entropy(seed: u64) -> Box<dyn Entropy> {
    let mut random = Rng::new(seed);
    Box::new(move || Some(random.next_u64()))
}

fn send(token: u64, message: impl Into<Bytes>) -> Action {
    Action::Send { token: Token(token), message: vec![message.into()], invalidate: None }
}

/// Returns the output of a stream.
pub(super) fn octets(stream: &mut Stream) -> Vec<u8> {
    let mut pieces = VecDeque::new();
    stream.poll_transmit(usize::MAX, &mut pieces);
    pieces.iter().flatten().copied().collect()
}

/// Invalidates a sink and returns its memory.
fn content(stream: &mut Stream, sink: Segment) -> BytesMut {
    stream.submit(Action::Invalidate { token: Token(9), handle: sink.handle });
    match stream.poll_completion() {
        Some(Completion::Invalidated { memory: Memory::Sink(data), .. }) => data,
        other => panic!("{other:?}"),
    }
}

pub(super) fn config(role: Role) -> StreamConfig {
    StreamConfig {
        receive_size: 4096,
        max_fpdu: 600,
        ord: 2,
        ird: 2,
        max_region: 1 << 20,
        ..StreamConfig::new(role)
    }
}

/// Two streams, joined by a pipe that splits the data at arbitrary positions.
struct Pair {
    streams: [Stream; 2],
    done: [Vec<Completion>; 2],
    random: Rng,
}

impl Pair {
    fn new(change: impl Fn(&mut StreamConfig), seed: u64) -> Self {
        let stream = |role, seed| {
            let mut config = config(role);
            change(&mut config);
            Stream::new(config, entropy(seed))
        };
        let streams = [stream(Role::Initiator, seed), stream(Role::Responder, seed ^ 0x55)];
        let mut pair = Pair { streams, done: [Vec::new(), Vec::new()], random: Rng::new(seed) };
        // The responder may send once it has received an FPDU.
        pair.streams[0].probe();
        pair.run();
        pair
    }

    fn submit(&mut self, side: usize, action: Action) {
        self.streams[side].submit(action);
    }

    fn transfer(&mut self, from: usize) -> bool {
        let mut pieces = VecDeque::new();
        let budget = 1 + below(&mut self.random, 3000);
        let len = self.streams[from].poll_transmit(budget, &mut pieces);
        let octets: Vec<u8> = pieces.iter().flatten().copied().collect();
        assert_eq!(octets.len(), len, "the returned length is wrong");
        assert_eq!(len % 4, 0, "an FPDU is incomplete");
        let mut rest = &octets[..];
        while !rest.is_empty() {
            let at = 1 + below(&mut self.random, rest.len().min(900));
            let (now, later) = rest.split_at(at.min(rest.len()));
            self.streams[1 - from].receive(now);
            rest = later;
        }
        len > 0
    }

    fn run(&mut self) {
        let mut idle_rounds = 0;
        while idle_rounds < 2 {
            let from = below(&mut self.random, 2);
            let transferred = self.transfer(from) | self.transfer(1 - from);
            idle_rounds = if transferred { 0 } else { idle_rounds + 1 };
            self.collect();
        }
    }

    fn collect(&mut self) {
        for (stream, done) in self.streams.iter_mut().zip(&mut self.done) {
            done.extend(core::iter::from_fn(|| stream.poll_completion()));
        }
    }

    /// Runs both streams until neither sends data. Returns the completions of the stream `side` since the
    /// last call for that stream.
    fn take(&mut self, side: usize) -> Vec<Completion> {
        self.run();
        core::mem::take(&mut self.done[side])
    }

    fn register(&mut self, side: usize, memory: Memory) -> Segment {
        self.submit(side, Action::Register { token: Token(0), memory });
        self.collect();
        match self.done[side].pop() {
            Some(Completion::Registered { segment, .. }) => segment,
            other => panic!("not registered: {other:?}"),
        }
    }

    fn send(&mut self, side: usize, message: &[u8], invalidate: Option<u32>) {
        let message = Vec::from([Bytes::copy_from_slice(message)]);
        self.submit(side, Action::Send { token: Token(1), message, invalidate });
    }

    fn finish(&mut self, side: usize) -> Completion {
        self.run();
        self.streams[side].finish();
        self.take(side).pop().unwrap()
    }
}

fn pattern(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|at| u8::try_from(at * 7 % 251).unwrap().wrapping_add(seed)).collect()
}

#[derive(Clone, Debug)]
enum Step {
    Send { pieces: Vec<usize> },
    SendInvalidate { len: usize },
    Write { at: usize, len: usize },
    Read { at: usize, len: usize },
    Invalidate,
}

const SIZE: usize = 5000;

fn steps() -> impl Strategy<Value = Vec<(usize, Step)>> {
    let step = prop_oneof![
        prop::collection::vec(0usize..1200, 0..4).prop_map(|pieces| Step::Send { pieces }),
        (0usize..4096).prop_map(|len| Step::SendInvalidate { len }),
        (0..SIZE, 0..SIZE).prop_map(|(at, len)| Step::Write { at, len: len.min(SIZE - at) }),
        (0..SIZE, 0..SIZE).prop_map(|(at, len)| Step::Read { at, len: len.min(SIZE - at) }),
        Just(Step::Invalidate),
    ];
    prop::collection::vec((0usize..2, step), 1..40)
}

#[derive(Default)]
struct Expected {
    received: VecDeque<(Vec<u8>, Option<u32>)>,
    reads: BTreeMap<u64, Vec<u8>>,
    sent: usize,
    written: usize,
    invalidated: usize,
    sink: Vec<u8>,
}

/// Enables or disables markers in each direction: from the initiator, and from the responder.
fn mark(config: &mut StreamConfig, [from_initiator, from_responder]: [bool; 2]) {
    (config.markers_out, config.markers_in) = match config.role {
        Role::Initiator => (from_initiator, from_responder),
        Role::Responder => (from_responder, from_initiator),
    };
}

/// Submits all steps before any transfer, and checks that everything arrives complete and in order.
fn everything_arrives(steps: &[(usize, Step)], crc: bool, markers: [bool; 2], max_fpdu: usize, seed: u64) {
    let mut pair = Pair::new(
        |config| {
            config.crc = crc;
            config.max_fpdu = max_fpdu;
            mark(config, markers);
        },
        seed,
    );
    let mut sinks = Vec::new();
    let mut sources = Vec::new();
    let mut expected = [Expected::default(), Expected::default()];
    for side in 0..2u8 {
        let at = usize::from(side);
        sinks.push(pair.register(at, Memory::Sink(BytesMut::zeroed(SIZE))));
        sources.push(pair.register(at, Memory::Source(pattern(SIZE, side).into())));
        expected[at].sink = alloc::vec![0; SIZE];
        pair.submit(at, Action::PostReceives { count: 1000 });
    }
    for (number, (side, step)) in steps.iter().enumerate() {
        let (side, peer) = (*side, 1 - *side);
        let token = Token(100 + u64::try_from(number).unwrap());
        let mark = u8::try_from(number).unwrap();
        match step {
            Step::Send { pieces } => {
                let message: Vec<Bytes> = pieces.iter().map(|len| pattern(*len, mark).into()).collect();
                expected[peer].received.push_back((message.concat(), None));
                expected[side].sent += 1;
                pair.submit(side, Action::Send { token, message, invalidate: None });
            }
            Step::SendInvalidate { len } => {
                let handle = pair.register(peer, Memory::Sink(BytesMut::zeroed(8))).handle;
                let message = pattern(*len, mark);
                expected[peer].received.push_back((message.clone(), Some(handle)));
                expected[side].sent += 1;
                let message = Vec::from([message.into()]);
                pair.submit(side, Action::Send { token, message, invalidate: Some(handle) });
            }
            Step::Write { at, len } => {
                let data = pattern(*len, mark);
                expected[peer].sink[*at..at + len].copy_from_slice(&data);
                expected[side].written += 1;
                let sink = part(sinks[peer], *at, *len);
                pair.submit(side, Action::Write { token, sink, data: data.into() });
            }
            Step::Read { at, len } => {
                let data = pattern(SIZE, u8::try_from(peer).unwrap())[*at..at + len].to_vec();
                expected[side].reads.insert(token.0, data);
                pair.submit(side, Action::read(token, part(sources[peer], *at, *len)));
            }
            Step::Invalidate => {
                let handle = pair.register(side, Memory::Sink(BytesMut::zeroed(3))).handle;
                expected[side].invalidated += 1;
                pair.submit(side, Action::Invalidate { token, handle });
            }
        }
    }
    for (side, expected) in expected.into_iter().enumerate() {
        compare(pair.take(side), expected, sinks[side], &mut pair.streams[side]);
    }
}

fn part(segment: Segment, at: usize, len: usize) -> Segment {
    let (at, len) = (u64::try_from(at).unwrap(), u32::try_from(len).unwrap());
    Segment { offset: segment.offset + at, length: len, ..segment }
}

fn compare(done: Vec<Completion>, mut expected: Expected, sink: Segment, stream: &mut Stream) {
    for completion in done {
        match completion {
            Completion::Received { message, invalidated } => {
                assert_eq!(Some((message.to_vec(), invalidated)), expected.received.pop_front());
            }
            Completion::ReadDone { token, data } => {
                assert_eq!(Some(data.to_vec()), expected.reads.remove(&token.0))
            }
            Completion::Sent { .. } => expected.sent -= 1,
            Completion::Written { .. } => expected.written -= 1,
            Completion::Invalidated { memory, .. } => {
                assert_eq!(memory.len(), 3);
                expected.invalidated -= 1;
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(expected.received.is_empty() && expected.reads.is_empty(), "a completion is missing");
    assert_eq!((expected.sent, expected.written, expected.invalidated), (0, 0, 0));
    assert!(content(stream, sink) == expected.sink, "the content of the sink is wrong");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// Requirement: R003, R004, R006, R007, R203, R353, R360, R416, R420, R435, R502, R503, R534, R541
    /// Requirement: R634, R639, R649, R900
    #[test]
    fn sends_writes_reads_and_invalidations_arrive(
        steps in steps(), crc in any::<bool>(), markers in any::<[bool; 2]>(), max_fpdu in 0usize..3000,
        seed in any::<u64>(),
    ) {
        everything_arrives(&steps, crc, markers, max_fpdu, seed);
    }

    /// No input causes a panic, and [`Completion::Closed`] is reported once, as the last completion.
    #[test]
    fn garbage_ends_only_the_stream(
        octets in prop::collection::vec(any::<u8>(), 0..400), crc in any::<bool>(), markers_in in any::<bool>(),
    ) {
        let mut stream = Stream::new(StreamConfig { crc, markers_in, ..config(Role::Responder) }, entropy(3));
        stream.submit(Action::PostReceives { count: 1 });
        for octet in octets {
            stream.receive(&[octet]);
        }
        stream.abort(CloseReason::Peer);
        let done: Vec<_> = core::iter::from_fn(|| stream.poll_completion()).collect();
        let closed = done.iter().filter(|completion| matches!(completion, Completion::Closed { .. })).count();
        prop_assert_eq!(closed, 1);
        let last = matches!(done.last(), Some(Completion::Closed { .. }));
        prop_assert!(last);
    }
}

/// Requirement: R005, R361, R515
#[test]
fn a_write_is_placed_before_a_later_send() {
    let mut pair = Pair::new(|_| {}, 1);
    let sink = pair.register(1, Memory::Sink(BytesMut::zeroed(3000)));
    pair.submit(1, Action::PostReceives { count: 1 });
    pair.submit(0, Action::Write { token: Token(5), sink, data: alloc::vec![7; 3000].into() });
    pair.send(0, b"done", None);
    while !pair.streams[1].has_completion() {
        assert!(pair.transfer(0));
    }
    assert!(matches!(pair.streams[1].poll_completion(), Some(Completion::Received { .. })));
    assert!(content(&mut pair.streams[1], sink).iter().all(|octet| *octet == 7));
}

/// Requirement: R011, R363, R633, R650
#[test]
fn reads_beyond_the_peers_depth_wait_and_all_are_answered() {
    let mut pair = Pair::new(|_| {}, 2);
    let source = pair.register(1, Memory::Source(pattern(2000, 0).into()));
    for token in 0..20 {
        pair.submit(0, Action::read(Token(token), source));
    }
    let done = pair.take(0);
    let tokens: Vec<u64> = done
        .iter()
        .map(|completion| match completion {
            Completion::ReadDone { token, data } if data[..] == pattern(2000, 0) => token.0,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(tokens, (0..20).collect::<Vec<_>>());
}

/// Requirement: R345
#[test]
fn the_responder_waits_for_the_first_fpdu() {
    let mut stream = Stream::new(config(Role::Responder), entropy(1));
    stream.submit(Action::Send { token: Token(1), message: Vec::new(), invalidate: None });
    assert!(!stream.has_output());
    assert_eq!(stream.poll_transmit(1000, &mut VecDeque::new()), 0);
}

#[test]
fn a_responder_that_sends_first_ends_the_stream() {
    let mut stream = Stream::new(config(Role::Initiator), entropy(1));
    stream.receive(&[0]);
    assert!(!stream.is_open() && !stream.has_output());
}

/// Requirement: R378
#[test]
fn an_invalidate_waits_for_an_unfinished_read_response() {
    let mut pair = Pair::new(|_| {}, 3);
    let data = Bytes::from(pattern(5000, 1));
    let source = pair.register(1, Memory::Source(data.clone()));
    pair.submit(0, Action::read(Token(1), source));
    pair.transfer(0);
    let mut pieces = VecDeque::new();
    pair.streams[1].poll_transmit(1, &mut pieces);
    pair.submit(1, Action::Invalidate { token: Token(2), handle: source.handle });
    assert!(pair.streams[1].poll_completion().is_none(), "a Read Response is partially sent");
    for piece in pieces {
        pair.streams[0].receive(&piece);
    }
    let done = pair.take(1);
    assert!(matches!(done[..], [Completion::Invalidated { token: Token(2), .. }]), "{done:?}");
    let done = pair.take(0);
    assert!(matches!(&done[..], [Completion::ReadDone { data: read, .. }] if *read == data), "{done:?}");
    pair.submit(0, Action::read(Token(3), source));
    assert!(matches!(pair.finish(1), Completion::Closed { reason: CloseReason::Violation(_), .. }));
}

#[test]
fn an_invalidate_does_not_wait_for_read_responses_that_a_close_drops() {
    let mut pair = Pair::new(|_| {}, 3);
    let source = pair.register(1, Memory::Source(pattern(5000, 1).into()));
    let [initiator, responder] = &mut pair.streams;
    (1..=2).for_each(|token| initiator.submit(Action::read(Token(token), source)));
    let mut pieces = VecDeque::new();
    initiator.poll_transmit(usize::MAX, &mut pieces);
    pieces.iter().for_each(|piece| responder.receive(piece));
    responder.poll_transmit(1, &mut pieces);
    responder.submit(Action::Invalidate { token: Token(3), handle: source.handle });
    responder.submit(Action::Close { reason: CloseReason::Local });
    assert!(responder.poll_completion().is_none(), "a Read Response is partially sent");
    responder.poll_transmit(usize::MAX, &mut pieces);
    let done = responder.poll_completion();
    assert!(matches!(done, Some(Completion::Invalidated { token: Token(3), .. })), "{done:?}");
}

#[test]
fn long_payload_is_not_copied() {
    let mut stream = Stream::new(StreamConfig { max_fpdu: 65_000, ..config(Role::Initiator) }, entropy(1));
    let data = Bytes::from(pattern(20_000, 0));
    let sink = Segment { handle: 1, length: 20_000, offset: 0 };
    stream.submit(Action::Write { token: Token(1), sink, data: data.clone() });
    let mut pieces = VecDeque::new();
    stream.poll_transmit(usize::MAX, &mut pieces);
    assert!(pieces.iter().any(|piece| piece.as_ptr() == data.as_ptr() && piece.len() == data.len()));
}

#[test]
fn a_budget_limits_the_output() {
    let mut stream = Stream::new(config(Role::Initiator), entropy(1));
    let sink = Segment { handle: 1, length: 1 << 20, offset: 0 };
    stream.submit(Action::Write { token: Token(1), sink, data: alloc::vec![0; 1 << 20].into() });
    let mut pieces = VecDeque::new();
    let appended = stream.poll_transmit(10_000, &mut pieces);
    assert!((10_000..10_600).contains(&appended), "{appended}");
    assert!(stream.poll_completion().is_none(), "most of the Write is not sent");
}

/// Requirement: R509, R543
#[test]
fn close_sends_queued_work_and_returns_memory() {
    let mut pair = Pair::new(|_| {}, 4);
    pair.register(0, Memory::Sink(BytesMut::zeroed(10)));
    pair.submit(1, Action::PostReceives { count: 2 });
    pair.send(0, &pattern(3000, 0), None);
    pair.submit(0, Action::Close { reason: CloseReason::Local });
    let Completion::Closed { reason: CloseReason::Local, returned } = pair.finish(0) else {
        panic!("not closed")
    };
    assert_eq!(returned.len(), 1);
    assert!(matches!(pair.take(1)[..], [Completion::Received { .. }]));
}

#[test]
fn a_violation_that_the_engine_finds_sends_a_terminate() {
    let mut pair = Pair::new(|_| {}, 5);
    pair.submit(0, Action::Close { reason: CloseReason::Violation("no".into()) });
    let Completion::Closed { reason, .. } = pair.finish(1) else { panic!("not closed") };
    assert_eq!(reason, CloseReason::Terminated { layer: 0, etype: 2, code: 0xff });
}

#[test]
fn a_read_without_an_ord_closes_the_stream() {
    let mut stream = Stream::new(StreamConfig { ord: 0, ..config(Role::Initiator) }, entropy(1));
    stream.submit(Action::read(Token(1), Segment { handle: 1, length: 3, offset: 0 }));
    assert!(!stream.is_open(), "the Read could never be sent");
}

#[test]
fn writes_to_an_abandoned_sink_are_dropped_and_the_stream_continues() {
    let mut pair = Pair::new(|_| {}, 4);
    let sink = pair.register(1, Memory::Sink(BytesMut::zeroed(3000)));
    pair.submit(1, Action::PostReceives { count: 1 });
    pair.submit(1, Action::Abandon { handle: sink.handle });
    pair.submit(0, Action::Write { token: Token(5), sink, data: alloc::vec![7; 3000].into() });
    pair.send(0, b"late", Some(sink.handle));
    let done = pair.take(1);
    assert!(matches!(done[..], [Completion::Received { .. }]), "{done:?}");
    pair.submit(1, Action::Invalidate { token: Token(6), handle: sink.handle });
    let done = pair.take(1);
    let [Completion::Invalidated { token: Token(6), memory, .. }] = &done[..] else { panic!("{done:?}") };
    assert!(memory.is_empty(), "the memory of the sink was freed");
    assert!(!Memory::Source(Bytes::from_static(b"a")).is_empty());
    assert!(pair.streams[1].is_open());
}

#[test]
fn a_write_beyond_an_abandoned_sink_closes_the_stream() {
    let mut pair = Pair::new(|_| {}, 5);
    let sink = pair.register(1, Memory::Sink(BytesMut::zeroed(8)));
    pair.submit(1, Action::Abandon { handle: sink.handle });
    let beyond = Segment { length: 9, ..sink };
    pair.submit(0, Action::Write { token: Token(5), sink: beyond, data: alloc::vec![7; 9].into() });
    pair.run();
    assert!(!pair.streams[1].is_open());
}

/// Returns the output of an initiator that sends messages of all lengths up to `max_len`.
fn marked_sends(crc: bool, max_len: usize) -> Vec<u8> {
    let config = StreamConfig { crc, markers_out: true, ..config(Role::Initiator) };
    let mut stream = Stream::new(config, entropy(1));
    (0..=max_len).for_each(|len| stream.submit(send(1, pattern(len, 0))));
    octets(&mut stream)
}

/// Checks the output of [`marked_sends`] with a parser that finds markers only by their position in the
/// stream.
///
/// Requirement: R427, R900, R901
#[test]
fn markers_are_at_every_512th_octet_and_point_to_the_fpdu() {
    let octets = marked_sends(true, 700);
    let plain: Vec<usize> = (0..octets.len()).filter(|at| at % 512 >= 4).collect();
    let mut rest = &plain[..];
    let mut seen = BTreeSet::new();
    let (mut before_crc, mut largest) = (false, 0);
    while let [start, second, ..] = rest {
        let ulpdu = usize::from(u16::from_be_bytes([octets[*start], octets[*second]]));
        largest = largest.max(ulpdu);
        let (fpdu, after) = rest.split_at((ulpdu + 2).next_multiple_of(4) + 4);
        let first = if start % 512 == 4 { start - 4 } else { *start };
        let crc = fpdu[fpdu.len() - 4];
        for marker in (first.next_multiple_of(512)..crc).step_by(512) {
            let distance = if marker < *start { 0 } else { marker - start };
            assert_eq!(octets[marker..marker + 4], u32::try_from(distance).unwrap().to_be_bytes());
            seen.insert(distance);
            before_crc |= marker + 4 == crc;
        }
        let mut sum = Crc32c::new();
        sum.update(&octets[first..crc]);
        assert_eq!(octets[crc..crc + 4], sum.octets());
        assert!(crc + 4 - first <= 600, "the FPDU exceeds its limit");
        rest = after;
    }
    assert!(rest.is_empty());
    assert_eq!(largest, 600 - (6 + 4 * 2), "a segment of 600 octets can contain two markers");
    // Markers were found between FPDUs, in headers, in payload, and between padding and CRC.
    assert!(before_crc && (0..20).step_by(4).all(|distance| seen.contains(&distance)), "{seen:?}");
    assert!(seen.len() > 100, "{seen:?}");
}

/// Requirement: R900, R901
#[test]
fn markers_in_messages_of_any_length_are_removed() {
    for crc in [true, false] {
        for step in [1, 7, usize::MAX] {
            let config = StreamConfig { crc, markers_in: true, ..config(Role::Responder) };
            let mut stream = Stream::new(config, entropy(2));
            stream.submit(Action::PostReceives { count: 1000 });
            for piece in marked_sends(crc, 700).chunks(step) {
                stream.receive(piece);
            }
            for len in 0..=700 {
                let received = stream.poll_completion();
                let Some(Completion::Received { message, .. }) = received else { panic!("{received:?}") };
                assert_eq!(message, pattern(len, 0));
            }
            assert!(stream.is_open());
        }
    }
}

/// Requirement: R467, R469, R904
#[test]
fn wrong_markers_end_the_stream() {
    for (crc, code) in [(true, Code::CRC), (false, Code::FPDU_LENGTH)] {
        for marker in [0, 512, 1024] {
            let mut octets = marked_sends(crc, 100);
            octets[marker + 3] ^= 8;
            let config = StreamConfig { crc, markers_in: true, ..config(Role::Responder) };
            let mut stream = Stream::new(config, entropy(2));
            stream.submit(Action::PostReceives { count: 1000 });
            stream.receive(&octets);
            assert!(!stream.is_open());
            assert_eq!(Terminate::read_code(&self::octets(&mut stream)[20..]), Some(code));
        }
    }
}

/// Requirement: R905
#[test]
fn only_the_last_segment_of_a_message_has_the_last_flag() {
    let mut pair = Pair::new(|_| {}, 6);
    let sink = pair.register(1, Memory::Sink(BytesMut::zeroed(2000)));
    let source = pair.register(1, Memory::Source(pattern(2000, 0).into()));
    let segments = |stream: &mut Stream| -> Vec<_> {
        sent(stream).iter().map(|segment| (segment.opcode, segment.is_last())).collect()
    };
    let [initiator, responder] = &mut pair.streams;
    initiator.submit(Action::Write { token: Token(1), sink, data: pattern(2000, 0).into() });
    initiator.submit(send(2, pattern(2000, 0)));
    let sent = segments(initiator);
    initiator.submit(Action::read(Token(3), source));
    responder.receive(&octets(initiator));
    for (opcode, segments) in [
        (Opcode::Write, &sent[..4]),
        (Opcode::Send { invalidate: false, solicited: false }, &sent[4..]),
        (Opcode::ReadResponse, &segments(responder)[..]),
    ] {
        assert_eq!(segments, [(opcode, false), (opcode, false), (opcode, false), (opcode, true)]);
    }
}

/// Requirement: R008, R351
#[test]
fn a_send_is_at_most_as_long_as_a_receive() {
    for max_fpdu in [600, 65_000] {
        let mut pair = Pair::new(|config| config.max_fpdu = max_fpdu, 7);
        pair.submit(1, Action::PostReceives { count: 2 });
        pair.send(0, &pattern(4096, 0), None);
        let done = pair.take(1);
        assert!(matches!(&done[..], [Completion::Received { message, .. }] if *message == pattern(4096, 0)));
        pair.send(0, &pattern(4097, 0), None);
        let closed = pair.finish(0);
        let Code { layer, etype, code } = Code::TOO_LONG;
        let terminated = CloseReason::Terminated { layer, etype, code };
        assert!(matches!(&closed, Completion::Closed { reason, .. } if *reason == terminated), "{closed:?}");
    }
}
