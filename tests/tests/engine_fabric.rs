//! Tests of the engines over the simulated fabric. Most tests run one engine, with a peer that the test
//! controls.

use bytes::{Bytes, BytesMut};
use rpcrdma_runtime::proto::rdma::{
    Config, IncomingReply, OutgoingCall, ReplyResources, Requester, RequesterEvent, Responder,
    ResponderEvent, TransportError,
};
use rpcrdma_runtime::proto::work::{Action, CloseReason, Completion, Memory, Segment, Token};
use rpcrdma_runtime::provider::Connection;
use rpcrdma_runtime::wire::private_data::Negotiated;
use rpcrdma_runtime::wire::rdma::{
    Body, ChunkLists, Header, MessageLimits, ReadSegment, WriteChunk, decode_call, decode_reply,
};
use rpcrdma_runtime::xdr::{Item, Message, Placed};
use rpcrdma_sim::fabric::{End, Fabric, FabricConfig, Side};
use rpcrdma_sim::{Args, Pair, ResultLengths, Settings, call};

const NEGOTIATED: Negotiated =
    Negotiated { call_threshold: 4096, reply_threshold: 4096, remote_invalidation: false };

fn fabric(seed: u64) -> (Fabric, End, End) {
    Fabric::pair(FabricConfig { seed, ..FabricConfig::default() })
}

fn bytes_of(xid: u32, kind: u32) -> Bytes {
    [xid, kind, 2, 0, 0, 0].iter().flat_map(|word: &u32| word.to_be_bytes()).collect()
}

fn send(end: &mut End, message: Vec<Bytes>) {
    end.submit(Action::Send { token: Token(0), message, invalidate: None });
}

fn completions_of(fabric: &Fabric, end: &mut End) -> Vec<Completion> {
    while fabric.advance() {}
    std::iter::from_fn(|| end.try_completion()).collect()
}

/// A responder on the right. The test drives the left end.
struct Served {
    fabric: Fabric,
    left: End,
    right: End,
    responder: Responder,
}

impl Served {
    fn new(config: Config) -> Self {
        let (fabric, mut left, right) = fabric(4);
        left.submit(Action::PostReceives { count: 100 });
        let responder = Responder::new(config, NEGOTIATED, right.info().ord);
        Served { fabric, left, right, responder }
    }

    /// Runs until no work is pending. Returns the responder's events.
    fn settle(&mut self) -> Vec<ResponderEvent> {
        loop {
            while let Some(action) = self.responder.poll_action() {
                self.right.submit(action);
            }
            let moved = self.fabric.advance();
            while let Some(completion) = self.right.try_completion() {
                self.responder.handle_completion(completion);
            }
            if !moved {
                return std::iter::from_fn(|| self.responder.poll_event()).collect();
            }
        }
    }

    fn call(&mut self, xid: u32, lists: ChunkLists) {
        let header = Header { xid, credits: 1, body: Body::Msg(lists) }.encode();
        send(&mut self.left, vec![header, bytes_of(xid, 0)]);
    }

    fn register(&mut self, memory: Memory) -> Segment {
        self.left.submit(Action::Register { token: Token(1), memory });
        match completions_of(&self.fabric, &mut self.left).pop() {
            Some(Completion::Registered { segment, .. }) => segment,
            other => panic!("{other:?}"),
        }
    }
}

fn closed(completions: &[Completion]) -> Option<&CloseReason> {
    match completions.last() {
        Some(Completion::Closed { reason, .. }) => Some(reason),
        _ => None,
    }
}

/// Requirement: R008, R028
#[test]
fn h12_calls_beyond_the_grant_find_no_receive_and_end_the_connection() {
    for (calls, survives) in [(5, true), (6, false)] {
        // With 4 credits, the responder posts 5 Receives.
        let mut served = Served::new(Config { credits: 4, ..Config::default() });
        served.settle();
        (1..=calls).for_each(|xid| served.call(xid, ChunkLists::default()));
        let events = served.settle();
        let received = completions_of(&served.fabric, &mut served.left);
        assert_eq!(closed(&received).is_none(), survives, "{calls} calls");
        let closed = events.iter().any(|event| matches!(event, ResponderEvent::Closed(_)));
        assert_eq!(closed, !survives);
        let delivered = events.iter().filter(|event| matches!(event, ResponderEvent::Call(_))).count();
        assert_eq!(delivered, 5, "{calls} calls");
    }
}

#[test]
fn h18_dropped_messages_use_up_no_receives() {
    let mut served = Served::new(Config { credits: 2, ..Config::default() });
    served.settle();
    for _ in 0..200 {
        let done: Bytes = [1u32, 1, 1, 3, 0, 0, 0].iter().flat_map(|word| word.to_be_bytes()).collect();
        send(&mut served.left, vec![done]);
        served.settle();
    }
    assert_eq!((served.responder.refused(), served.fabric.receives(Side::Right)), (200, 3));
}

/// Requirement: R176
#[test]
fn h64_a_read_of_invalidated_memory_closes_the_connection_without_a_reply() {
    let mut served = Served::new(Config::default());
    let segment = served.register(Memory::Source(Bytes::from_static(b"argument")));
    served.left.submit(Action::Invalidate { token: Token(2), handle: segment.handle });
    assert_eq!(completions_of(&served.fabric, &mut served.left).len(), 1);
    let read = ReadSegment { position: 24, segment };
    served.call(1, ChunkLists { reads: vec![read], ..ChunkLists::default() });
    let events = served.settle();
    assert!(matches!(&events[..], [ResponderEvent::Closed(_)]), "{events:?}");
    assert!(matches!(
        closed(&completions_of(&served.fabric, &mut served.left)),
        Some(CloseReason::Violation(_))
    ));
}

#[test]
fn the_segments_of_a_chunk_are_read_into_one_region_without_a_copy() {
    const LEN: usize = 128 << 10;
    let mut served = Served::new(Config::default());
    let segments: Vec<Segment> =
        (0..8).map(|fill| served.register(Memory::Source(vec![fill; LEN].into()))).collect();
    let reads = segments.into_iter().map(|segment| ReadSegment { position: 24, segment }).collect();
    served.call(1, ChunkLists { reads, ..ChunkLists::default() });
    let mut regions = Vec::new();
    let call = loop {
        while let Some(action) = served.responder.poll_action() {
            served.right.submit(action);
        }
        assert!(served.fabric.advance(), "the call must arrive");
        while let Some(completion) = served.right.try_completion() {
            if let Completion::ReadDone { data, .. } = &completion {
                regions.push(data.clone());
            }
            served.responder.handle_completion(completion);
        }
        if let Some(ResponderEvent::Call(call)) = served.responder.poll_event() {
            break call;
        }
    };
    let Placed::Positioned(items) = call.message.items else { panic!("positioned") };
    let [Item { position: 24, data }] = &items[..] else { panic!("one item") };
    assert!(data.chunks(LEN).zip(0..8).all(|(part, fill)| part == [fill; LEN]) && data.len() == 8 * LEN);
    assert!(regions.len() == 8 && regions[..7].iter().all(Bytes::is_empty));
    assert_eq!(data.as_ptr(), regions[7].as_ptr());
}

#[test]
fn h65_read_chunks_may_share_memory_and_so_may_write_chunks() {
    let mut served = Served::new(Config::default());
    let source = served.register(Memory::Source(Bytes::from_static(b"argument")));
    let sink = served.register(Memory::Sink(BytesMut::zeroed(8)));
    let lists = ChunkLists {
        reads: vec![
            ReadSegment { position: 8, segment: source },
            ReadSegment { position: 16, segment: source },
        ],
        writes: vec![WriteChunk(vec![sink]), WriteChunk(vec![sink])],
        ..ChunkLists::default()
    };
    served.call(1, lists);
    let mut events = served.settle();
    let Some(ResponderEvent::Call(call)) = events.pop() else { panic!("{events:?}") };
    let Placed::Positioned(items) = &call.message.items else { panic!("positioned") };
    assert!(items.len() == 2 && items.iter().all(|item| item.data == b"argument"[..]));
    // Both items of the reply use the same memory, so the second item overwrites the first.
    let items = [(24, &b"first"[..]), (32, b"second")];
    let items = items.map(|(position, data)| Item { position, data: Bytes::from_static(data) });
    served.responder.reply(call.key, Message { stream: bytes_of(1, 1), items: items.to_vec() });
    served.settle();
    let received = completions_of(&served.fabric, &mut served.left);
    let lengths = received.iter().find_map(|received| match received {
        Completion::Received { message, .. } => {
            match decode_reply(message, &MessageLimits::default()).ok()?.0.body {
                Body::Msg(lists) => {
                    Some(lists.writes.iter().map(|chunk| chunk.0[0].length).collect::<Vec<_>>())
                }
                _ => None,
            }
        }
        _ => None,
    });
    assert_eq!(lengths, Some(vec![5, 6]));
    served.left.submit(Action::Invalidate { token: Token(3), handle: sink.handle });
    let returned = completions_of(&served.fabric, &mut served.left);
    assert!(format!("{returned:?}").contains("second"), "{returned:?}");
}

/// Requirement: R176
#[test]
fn r181_h33_a_write_beyond_its_region_closes_the_connection() {
    let mut served = Served::new(Config::default());
    let sink = served.register(Memory::Sink(BytesMut::zeroed(8)));
    let larger = Segment { length: 4000, ..sink };
    let lists = ChunkLists { reply: Some(WriteChunk(vec![larger])), ..ChunkLists::default() };
    served.call(1, lists);
    let mut events = served.settle();
    let Some(ResponderEvent::Call(call)) = events.pop() else { panic!("{events:?}") };
    let mut stream = bytes_of(1, 1).to_vec();
    stream.resize(4000, 0);
    served.responder.reply(call.key, Message::unreduced(stream.into()));
    // 28 bytes of header, 20 bytes of Reply chunk and 4,000 bytes of reply fit inline, so nothing is written.
    assert!(served.settle().is_empty());
    served.call(2, ChunkLists { reply: Some(WriteChunk(vec![larger, larger])), ..ChunkLists::default() });
    let mut events = served.settle();
    let Some(ResponderEvent::Call(call)) = events.pop() else { panic!("{events:?}") };
    let mut stream = bytes_of(2, 1).to_vec();
    stream.resize(8000, 0);
    served.responder.reply(call.key, Message::unreduced(stream.into()));
    let events = served.settle();
    assert!(matches!(&events[..], [ResponderEvent::Closed(CloseReason::Terminated { .. })]), "{events:?}");
}

/// Requirement: R002, R260
#[test]
fn h45_r200_a_write_after_the_reply_is_rejected_and_the_result_unchanged() {
    let (fabric, mut left, mut right) = fabric(8);
    right.submit(Action::PostReceives { count: 4 });
    let mut requester = Requester::new(Config::default(), NEGOTIATED, u32::MAX);
    let reply = ReplyResources { write_chunks: vec![64], ..ReplyResources::default() };
    requester.submit(OutgoingCall { message: Message::unreduced(bytes_of(1, 0)), reply });
    let mut offered = None;
    let mut outcome = None;
    loop {
        while let Some(action) = requester.poll_action() {
            left.submit(action);
        }
        while let Some(completion) = left.try_completion() {
            requester.handle_completion(completion);
        }
        outcome = outcome.or_else(|| requester.poll_event());
        if let Some(Completion::Received { message, .. }) = right.try_completion() {
            let (header, _) = decode_call(&message, &MessageLimits::default()).expect("a call");
            let Body::Msg(lists) = header.body else { panic!("short") };
            let chunk = lists.writes[0].clone();
            let sink = Segment { length: 8, ..chunk.0[0] };
            right.submit(Action::Write { token: Token(1), sink, data: Bytes::from_static(b"the data") });
            let back = ChunkLists { writes: vec![chunk.filled(8)], ..ChunkLists::default() };
            let header = Header { xid: 1, credits: 1, body: Body::Msg(back) }.encode();
            send(&mut right, vec![header, bytes_of(1, 1)]);
            offered = Some(sink);
        }
        if !fabric.advance() && outcome.is_some() {
            break;
        }
    }
    let Some(RequesterEvent::Done { outcome: Ok(IncomingReply { message, .. }), .. }) = outcome else {
        panic!("{outcome:?}")
    };
    let Placed::InOrder(items) = message.items else { panic!("placed") };
    let sink = offered.expect("the responder received the call");
    right.submit(Action::Write { token: Token(2), sink, data: Bytes::from_static(b"THE LATE") });
    assert!(matches!(closed(&completions_of(&fabric, &mut left)), Some(CloseReason::Violation(_))));
    assert_eq!(items[0].data, b"the data"[..]);
}

#[test]
fn r078_r202_a_cut_connection_ends_every_call_once_and_returns_all_memory() {
    let mut pair = Pair::new(&Settings::default());
    let args = Args::new(1, [20_000, 10, 20_000], ResultLengths { note: 10_000, item: 20_000, other: 5 });
    let offered =
        ReplyResources { write_chunks: vec![20_000, 20_000], reply_chunk: Some(11_000), memory: None };
    let calls = [1, 2, 3].map(|xid| {
        let call = OutgoingCall { message: call(xid, &args, 1), reply: offered.clone() };
        pair.requester.submit(call)
    });
    while pair.calls_sent.is_empty() {
        assert!(pair.step());
    }
    assert_eq!(pair.fabric.registered(Side::Left), 5);
    pair.fabric.cut();
    pair.settle();
    for (number, expected) in calls.into_iter().enumerate() {
        let RequesterEvent::Done { call, outcome: Err(why) } = pair.next_event() else {
            panic!("expected a failed call")
        };
        assert_eq!(call, expected);
        // Only the first call had a credit.
        let sent = matches!(why, TransportError::Closed(_));
        assert!(sent == (number == 0) && (sent || matches!(why, TransportError::Unsent(_))), "{why:?}");
    }
    assert!(matches!(pair.next_event(), RequesterEvent::Closed(_)));
    assert_eq!(pair.fabric.registered(Side::Left), 0);
    assert!(pair.requester.poll_event().is_none());
}
