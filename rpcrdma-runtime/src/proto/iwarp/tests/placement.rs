use bytes::BufMut;

use super::segments::{SEND, register, responder, sent, untagged, write};
use super::*;

const SIZE: usize = 200_000;

/// Delivers octets as a connection does: directly to their destination if possible. Returns the number of
/// octets delivered directly. Each step delivers at most `limit()` octets, but at least one.
fn deliver(stream: &mut Stream, octets: &[u8], mut limit: impl FnMut() -> usize) -> usize {
    let (mut rest, mut direct) = (octets, 0);
    while !rest.is_empty() {
        let at = limit().clamp(1, rest.len());
        let taken = match stream.placement_buffer() {
            Some(mut place) => {
                let at = at.min(place.remaining_mut());
                place.put_slice(&rest[..at]);
                stream.commit_placement(|seen| assert!(seen == &rest[..at]));
                direct += at;
                at
            }
            None => {
                stream.receive(&rest[..at]);
                at
            }
        };
        rest = &rest[taken..];
    }
    direct
}

/// Returns a responder, its sink, and the octets of the RDMA Writes that fill the sink and of a Send after
/// them. A new RDMA Write starts at each index in `cuts`.
fn writes(crc: bool, cuts: &[usize]) -> (Stream, Segment, Vec<u8>) {
    let change = |config: &mut StreamConfig| (config.crc, config.max_fpdu) = (crc, usize::MAX);
    let mut receiver = responder(change, 1);
    let sink = register(&mut receiver, Memory::Sink(BytesMut::with_capacity(SIZE)));
    let mut config = config(Role::Initiator);
    change(&mut config);
    let mut sender = Stream::new(config, entropy(1));
    let data = Bytes::from(pattern(SIZE, 3));
    let mut start = 0;
    for end in cuts.iter().copied().chain([SIZE]) {
        let end = end.clamp(start, SIZE);
        let sink = part(sink, start, end - start);
        sender.submit(Action::Write { token: Token(1), sink, data: data.slice(start..end) });
        start = end;
    }
    sender.submit(send(2, "done"));
    (receiver, sink, octets(&mut sender))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Requirement: R006, R360, R534, R541
    #[test]
    fn writes_and_responses_arrive_however_tcp_splits_them(
        crc in any::<bool>(), mut cuts in prop::collection::vec(0..SIZE, 0..3), max_read in 1usize..100_000,
        seed in any::<u64>(),
    ) {
        cuts.sort_unstable();
        let (mut receiver, sink, written) = writes(crc, &cuts);
        let mut random = Rng::new(seed);
        deliver(&mut receiver, &written, || below(&mut random, max_read));
        let received = receiver.poll_completion();
        assert!(matches!(&received, Some(Completion::Received { message, .. }) if message == "done"));
        assert!(content(&mut receiver, sink) == pattern(SIZE, 3));

        let source = register(&mut receiver, Memory::Source(pattern(SIZE, 5).into()));
        let config = StreamConfig { crc, ..config(Role::Initiator) };
        let mut reader = Stream::new(config, entropy(2));
        reader.submit(Action::read(Token(3), source));
        let request = octets(&mut reader);
        receiver.receive(&request);
        let response = octets(&mut receiver);
        deliver(&mut reader, &response, || below(&mut random, max_read));
        let done = reader.poll_completion();
        assert!(matches!(&done, Some(Completion::ReadDone { data, .. }) if *data == pattern(SIZE, 5)));
    }
}

#[test]
fn most_of_a_long_write_is_received_in_place() {
    let (mut receiver, _, octets) = writes(true, &[]);
    let direct = deliver(&mut receiver, &octets, || 70_000);
    assert!(direct > SIZE / 2, "{direct} octets");
}

#[test]
fn a_placement_buffer_does_not_exceed_its_sink() {
    let (mut receiver, sink, octets) = writes(true, &[SIZE - 20_000]);
    let mut rest = &octets[..];
    while rest.len() > 10_000 {
        let at = receiver.placement_buffer().map_or(100, |place| place.remaining_mut());
        let (now, later) = rest.split_at(at);
        deliver(&mut receiver, now, || at);
        rest = later;
    }
    let memory = &receiver.regions.sink(sink.handle).unwrap();
    assert!(memory.len() <= SIZE && memory.capacity() == SIZE, "{}", memory.len());
}

/// Requirement: R421, R422
#[test]
fn octets_with_a_wrong_crc_are_not_in_returned_memory() {
    for at in [100_000, 64_772 * 2 - 1] {
        let (mut receiver, sink, mut octets) = writes(true, &[]);
        octets[at] ^= 1;
        deliver(&mut receiver, &octets, || 30_000);
        assert!(!receiver.is_open());
        assert!(content(&mut receiver, sink) == pattern(64_752, 3), "only the first FPDU");
    }
}

#[test]
fn an_invalidated_sink_lacks_an_incomplete_fpdu() {
    let (mut receiver, sink, octets) = writes(true, &[]);
    deliver(&mut receiver, &octets[..100_000], || 30_000);
    assert!(receiver.placement_buffer().is_some() && receiver.peer_progress()[0].is_some());
    assert!(content(&mut receiver, sink) == pattern(64_752, 3));
    assert!(receiver.placement_buffer().is_none(), "the sink was invalidated");
    assert_eq!(deliver(&mut receiver, &octets[100_000..], || 30_000), 0);
    let [terminate] = &sent(&mut receiver)[..] else { panic!("expected one Terminate") };
    let header = &octets[64_772 + 2..][..14];
    assert_eq!(terminate.payload[..4], [0x11, 0, 0xc0, 0], "an invalid STag, with a header");
    assert_eq!(terminate.payload[4..6], 64_766_u16.to_be_bytes(), "the length of the segment");
    assert_eq!(terminate.payload[6..], *header);
}

#[test]
fn an_abandoned_sink_drops_an_incomplete_fpdu() {
    // The sink is abandoned after the header of the first FPDU, 4 octets later, or in the second FPDU.
    for arrived in [16, 20, 100_000] {
        let (mut receiver, sink, octets) = writes(true, &[]);
        deliver(&mut receiver, &octets[..arrived], || 30_000);
        assert!(receiver.placement_buffer().is_some());
        receiver.submit(Action::Abandon { handle: sink.handle });
        assert!(receiver.placement_buffer().is_none(), "{arrived}: the sink was abandoned");
        deliver(&mut receiver, &octets[arrived..], || 30_000);
        assert!(matches!(receiver.poll_completion(), Some(Completion::Received { .. })));
        assert!(content(&mut receiver, sink).is_empty());
    }
}

/// Requirement: R352, R666
#[test]
fn a_long_write_outside_a_sink_is_rejected() {
    let data = pattern(50_000, 1);
    for (change_handle, change_offset) in [(1, 0), (0, SIZE as u64 - 49_999), (0, u64::MAX)] {
        let mut stream = responder(|_| {}, 1);
        let sink = register(&mut stream, Memory::Sink(BytesMut::with_capacity(SIZE)));
        let offset = sink.offset.wrapping_add(change_offset);
        let octets = write(true, sink.handle ^ change_handle, offset, &data);
        assert_eq!(deliver(&mut stream, &octets, || 20_000), 0);
        assert!(!stream.is_open());
        assert!(content(&mut stream, sink).is_empty());
    }
}

/// A Write that does not start at the end of the sink's data is placed once its FPDU is complete.
#[test]
fn writes_in_any_order_are_placed() {
    let mut stream = responder(|_| {}, 1);
    let sink = register(&mut stream, Memory::Sink(BytesMut::with_capacity(100_000)));
    let data = pattern(100_000, 1);
    for at in [50_000, 0, 20_000] {
        let octets = write(true, sink.handle, sink.offset + at as u64, &data[at..at + 50_000]);
        deliver(&mut stream, &octets, || 20_000);
    }
    stream.receive(&untagged(SEND, true, (0, 1, 0), b"done"));
    assert!(matches!(stream.poll_completion(), Some(Completion::Received { .. })));
    assert!(content(&mut stream, sink) == data);
}
