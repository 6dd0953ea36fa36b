//! A requester and a peer that sends arbitrary replies.

#[path = "engine_requester/abandoned.rs"]
mod abandoned;

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use rpcrdma_runtime::proto::rdma::{
    CallId, Config, IncomingReply, LongCall, OutgoingCall, ReplyResources, Requester, RequesterEvent,
    TransportError, Unsendable,
};
use rpcrdma_runtime::proto::work::{Action, CloseReason, Completion, Memory, Segment, Token};
use rpcrdma_runtime::wire::private_data::{Negotiated, PrivateData};
use rpcrdma_runtime::wire::rdma::{
    Body, ChunkLists, ErrorBody, Header, MessageLimits, ReadSegment, WriteChunk, decode_call,
};
use rpcrdma_runtime::xdr::{Item, Message, Placed};

struct Peer {
    requester: Requester,
    sent: VecDeque<Bytes>,
    exposed: BTreeMap<u32, Memory>,
    fencing: Vec<(Token, u32)>,
    /// True if fences complete only in `finish_fencing`.
    slow: bool,
    /// The number of further registrations that succeed. All later registrations fail.
    registrations: usize,
    next_handle: u32,
    receives: u32,
    events: VecDeque<RequesterEvent>,
    closed: Option<CloseReason>,
}

impl Peer {
    fn new() -> Self {
        Peer::with(Config::default())
    }

    fn with(config: Config) -> Self {
        let negotiated =
            Negotiated { call_threshold: 1024, reply_threshold: 1024, remote_invalidation: false };
        let mut peer = Peer {
            requester: Requester::new(config, negotiated, 1 << 20),
            sent: VecDeque::new(),
            exposed: BTreeMap::new(),
            fencing: Vec::new(),
            slow: false,
            registrations: usize::MAX,
            next_handle: 1000,
            receives: 0,
            events: VecDeque::new(),
            closed: None,
        };
        peer.collect();
        peer
    }

    fn collect(&mut self) {
        while let Some(action) = self.requester.poll_action() {
            match action {
                Action::PostReceives { count } => self.receives += count,
                Action::Register { token, memory } => self.register(token, memory),
                Action::Invalidate { token, handle } => self.fencing.push((token, handle)),
                Action::Send { message, invalidate, .. } => {
                    assert_eq!(invalidate, None, "a requester must not use Send with Invalidate");
                    self.sent.push_back(message.concat().into());
                }
                Action::Close { reason } => self.closed = Some(reason),
                Action::Abandon { .. } => {
                    panic!("without a local fence, a requester must not abandon regions")
                }
                Action::Read { .. } | Action::Write { .. } => {
                    panic!("a requester must not submit RDMA Reads or Writes")
                }
            }
            if !self.slow {
                self.fence();
            }
        }
        self.events.extend(std::iter::from_fn(|| self.requester.poll_event()));
    }

    fn register(&mut self, token: Token, mut memory: Memory) {
        memory.initialize();
        let completion = if self.registrations == 0 {
            Completion::RegisterFailed { token, memory }
        } else {
            self.registrations -= 1;
            self.next_handle += 1;
            let handle = self.next_handle;
            let length = u32::try_from(memory.len()).expect("small");
            self.exposed.insert(handle, memory);
            Completion::Registered { token, segment: Segment { handle, length, offset: 1 << 40 } }
        };
        self.requester.handle_completion(completion);
    }

    fn fence(&mut self) {
        for (token, handle) in std::mem::take(&mut self.fencing) {
            let memory = self.exposed.remove(&handle).expect("only advertised memory is fenced");
            self.requester.handle_completion(Completion::Invalidated { token, handle, memory });
        }
    }

    fn finish_fencing(&mut self) {
        self.fence();
        self.collect();
    }

    fn call(&mut self, xid: u32, call: OutgoingCall) -> CallId {
        assert_eq!(call.message.stream[..4], xid.to_be_bytes());
        let id = self.requester.submit(call);
        self.collect();
        id
    }

    fn next_sent(&mut self) -> (Header, Bytes) {
        let sent = self.sent.pop_front().expect("a call");
        assert!(sent.len() <= 1024, "R045");
        decode_call(&sent, &MessageLimits::default()).expect("a valid header")
    }

    fn lists(&mut self, xid: u32, call: OutgoingCall) -> ChunkLists {
        self.call(xid, call);
        match self.next_sent().0.body {
            Body::Msg(lists) | Body::NoMsg(lists) => lists,
            Body::Error(_) => panic!("R164: a requester must not send errors"),
        }
    }

    fn receive(&mut self, message: impl Into<Bytes>) {
        self.receive_invalidating(message, None);
    }

    fn receive_invalidating(&mut self, message: impl Into<Bytes>, invalidated: Option<u32>) {
        self.receives -= 1;
        self.requester.handle_completion(Completion::Received { message: message.into(), invalidated });
        self.collect();
    }

    fn write(&mut self, segment: &Segment, data: &[u8]) {
        match self.exposed.get_mut(&segment.handle) {
            Some(Memory::Sink(memory)) => memory[..data.len()].copy_from_slice(data),
            other => panic!("expected a sink: {other:?}"),
        }
    }

    fn read(&self, segment: &Segment) -> Bytes {
        match self.exposed.get(&segment.handle) {
            Some(Memory::Source(memory)) => memory.clone(),
            other => panic!("expected a source: {other:?}"),
        }
    }

    fn outcome(&mut self) -> Result<IncomingReply, TransportError> {
        match self.events.pop_front() {
            Some(RequesterEvent::Done { outcome, .. }) => outcome,
            other => panic!("expected a completed call: {other:?}"),
        }
    }

    fn failure(&mut self) -> TransportError {
        self.outcome().expect_err("the call fails")
    }
}

fn words(words: &[u32]) -> Bytes {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// Returns the XID and the message type of an RPC call, followed by `more` bytes.
fn rpc_call(xid: u32, more: usize) -> Bytes {
    [&words(&[xid, 0])[..], &vec![0x11; more]].concat().into()
}

/// Returns the XID and the message type of an RPC reply, followed by `more` bytes.
fn rpc_reply(xid: u32, more: usize) -> Bytes {
    [&words(&[xid, 1])[..], &vec![0x22; more]].concat().into()
}

fn short(xid: u32) -> OutgoingCall {
    offering(xid, &[], None)
}

fn offering(xid: u32, write_chunks: &[u32], reply_chunk: Option<u32>) -> OutgoingCall {
    let reply = ReplyResources { write_chunks: write_chunks.to_vec(), reply_chunk, memory: None };
    OutgoingCall { message: Message::unreduced(rpc_call(xid, 40)), reply }
}

fn with_items(xid: u32, stream: usize, items: &[(u32, usize)]) -> OutgoingCall {
    let item = |(position, len): &(u32, usize)| Item { position: *position, data: vec![0x33; *len].into() };
    let items = items.iter().map(item).collect();
    OutgoingCall {
        message: Message { stream: rpc_call(xid, stream), items },
        reply: ReplyResources::default(),
    }
}

fn msg(xid: u32, credits: u32, lists: ChunkLists, payload: &[u8]) -> Bytes {
    let header = Header { xid, credits, body: Body::Msg(lists) }.encode();
    [&header[..], payload].concat().into()
}

fn nomsg(xid: u32, lists: ChunkLists) -> Bytes {
    Header { xid, credits: 8, body: Body::NoMsg(lists) }.encode()
}

/// Returns a reply without chunks that grants 8 credits.
fn answer(xid: u32) -> Bytes {
    msg(xid, 8, ChunkLists::default(), &rpc_reply(xid, 16))
}

fn returning(writes: Vec<WriteChunk>, reply: Option<WriteChunk>) -> ChunkLists {
    ChunkLists { reads: Vec::new(), writes, reply }
}

/// Requirement: R025
#[test]
fn r030_r031_one_call_is_sent_until_a_reply_grants_more() {
    let mut peer = Peer::new();
    for xid in 1..=4 {
        peer.call(xid, short(xid));
    }
    assert_eq!((peer.sent.len(), peer.requester.queued()), (1, 3));
    peer.receive(msg(1, 2, ChunkLists::default(), &rpc_reply(1, 16)));
    assert_eq!((peer.sent.len(), peer.requester.queued()), (3, 1));
    peer.receive(msg(2, 1, ChunkLists::default(), &rpc_reply(2, 16)));
    assert_eq!(peer.sent.len(), 3, "the smaller grant delays the call");
    peer.receive(msg(3, 1, ChunkLists::default(), &rpc_reply(3, 16)));
    assert_eq!((peer.sent.len(), peer.requester.queued()), (4, 0));
}

/// Requirement: R009, R036, R079, R108, R144, R216
#[test]
fn r020_r032_every_call_requests_the_same_credits() {
    let mut peer = Peer::with(Config { credits: 5, ..Config::default() });
    assert_eq!(peer.receives, 6, "R036: one Receive per reply, and one extra Receive");
    for xid in 1..=3 {
        peer.call(xid, short(xid));
        let lists = Body::Msg(ChunkLists::default());
        assert_eq!(peer.next_sent().0, Header { xid, credits: 5, body: lists });
        peer.receive(answer(xid));
        assert!(peer.outcome().is_ok());
        assert_eq!(peer.receives, 6);
    }
}

#[test]
fn r002_a_call_is_sent_once_all_its_memory_is_registered() {
    let mut requester = requester();
    requester.submit(offering(1, &[8, 8], None));
    let actions: Vec<_> = std::iter::from_fn(|| requester.poll_action()).collect();
    let tokens: Vec<_> = actions
        .iter()
        .filter_map(|action| match action {
            Action::PostReceives { .. } => None,
            Action::Register { token, .. } => Some(*token),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(tokens.len(), 2);
    for (handle, token) in (1..).zip(tokens) {
        assert!(requester.poll_action().is_none(), "memory {handle} is not registered yet");
        let segment = Segment { handle, length: 8, offset: 0 };
        requester.handle_completion(Completion::Registered { token, segment });
    }
    assert!(matches!(requester.poll_action(), Some(Action::Send { .. })));
}

#[test]
fn h37_h38_replies_that_belong_to_no_call_are_dropped() {
    let mut peer = Peer::new();
    peer.receive(answer(99));
    peer.call(1, short(1));
    peer.receive(answer(2));
    assert!(peer.events.is_empty());
    assert_eq!(peer.requester.credits().granted(), 1, "R031");
    peer.receive(answer(1));
    assert!(peer.outcome().is_ok());
    peer.receive(answer(1));
    assert!(peer.events.is_empty(), "the second reply");
    assert_eq!((peer.requester.discarded(), peer.closed.take()), (3, None));
    assert_eq!(peer.requester.credits().outstanding(), 0);
}

#[test]
fn h38_a_second_reply_during_the_fence_is_ignored() {
    let mut peer = Peer::new();
    let lists = peer.lists(1, offering(1, &[8], None));
    peer.slow = true;
    peer.write(&lists.writes[0].0[0], b"answer");
    peer.receive(msg(1, 8, returning(vec![lists.writes[0].filled(6)], None), &rpc_reply(1, 16)));
    let granted = peer.requester.credits().granted();
    peer.receive(msg(1, 1, returning(vec![lists.writes[0].filled(8)], None), &rpc_reply(1, 20)));
    let longer = WriteChunk(vec![lists.writes[0].0[0]; 2]);
    peer.receive(msg(1, 1, returning(vec![longer], None), &rpc_reply(1, 20)));
    peer.receive(msg(1, 1, ChunkLists::default(), &rpc_reply(1, 20)));
    let reads = vec![ReadSegment { position: 4, segment: lists.writes[0].0[0] }];
    peer.receive(msg(1, 1, ChunkLists { reads, ..ChunkLists::default() }, &rpc_reply(1, 20)));
    assert!(peer.events.is_empty(), "R200: no event before the fence");
    assert!(granted > 1 && peer.requester.credits().granted() == granted);
    peer.finish_fencing();
    let Placed::InOrder(items) = peer.outcome().expect("a reply").message.items else { panic!("placed") };
    assert_eq!(items[0].data, b"answer"[..]);
    assert!(peer.events.is_empty());
}

/// Requirement: R201
#[test]
fn h75_duplicate_completions_are_ignored() {
    let mut peer = Peer::new();
    let lists = peer.lists(7, offering(7, &[100], Some(2000)));
    assert!(lists.reply.is_some() && peer.exposed.len() == 2);
    // These completions have the tokens of an unknown call (XID 0), of this call's regions, and of its Send.
    let own = |region: u64| Token(7 << 24 | region);
    for token in (0..40).map(Token).chain([own(0), own(1), own((1 << 24) - 1)]) {
        let segment = Segment { handle: 1, length: 9, offset: 0 };
        let memory = || Memory::Source(Bytes::from_static(b"not of this call"));
        for again in [
            Completion::Registered { token, segment },
            Completion::RegisterFailed { token, memory: memory() },
            Completion::Invalidated { token, handle: 1, memory: memory() },
            Completion::Sent { token },
            Completion::ReadDone { token, data: Bytes::new() },
            Completion::Written { token },
        ] {
            peer.requester.handle_completion(again);
            peer.collect();
        }
    }
    assert!(peer.sent.is_empty() && peer.events.is_empty() && peer.closed.is_none());
    peer.receive(answer(7));
    peer.outcome().expect("a reply");
    assert!(peer.exposed.is_empty(), "R201: every region was fenced");
    peer.receive(answer(7));
    for _ in 0..2 {
        let closed = Completion::Closed { reason: CloseReason::Peer, returned: Vec::new() };
        peer.requester.handle_completion(closed);
        peer.collect();
    }
    assert!(
        matches!(peer.events.make_contiguous(), [RequesterEvent::Closed(CloseReason::Peer)]),
        "{:?}",
        peer.events
    );
}

/// Requirement: R201
#[test]
fn r200_a_reply_is_delivered_once_all_memory_is_fenced() {
    let mut peer = Peer::new();
    let lists = peer.lists(1, offering(1, &[8, 8], Some(2000)));
    peer.slow = true;
    peer.receive(msg(
        1,
        8,
        returning(lists.writes.iter().map(|w| w.filled(0)).collect(), None),
        &rpc_reply(1, 4),
    ));
    assert_eq!((peer.fencing.len(), peer.events.len()), (3, 0));
    let last = peer.fencing.pop().expect("three");
    peer.finish_fencing();
    assert_eq!((peer.exposed.len(), peer.events.len()), (1, 0));
    peer.fencing.push(last);
    peer.finish_fencing();
    assert!(peer.outcome().is_ok());
}

/// A Reply chunk is checked only after its memory is invalidated, so the check applies to the data that the
/// peer wrote last.
///
/// Requirement: R201, R263
#[test]
fn a_reply_chunk_is_checked_after_it_is_fenced() {
    let good = rpc_reply(1, 8);
    let bad = rpc_reply(2, 8);
    for (before, after, accepted) in [(&good, &bad, false), (&bad, &good, true)] {
        let mut peer = Peer::new();
        let lists = peer.lists(1, offering(1, &[], Some(2000)));
        let chunk = lists.reply.as_ref().expect("a Reply chunk");
        peer.slow = true;
        peer.write(&chunk.0[0], before);
        peer.receive(nomsg(1, returning(vec![], Some(chunk.filled(16)))));
        assert!(peer.events.is_empty() && peer.exposed.len() == 1);
        peer.write(&chunk.0[0], after);
        peer.finish_fencing();
        assert!(peer.exposed.is_empty());
        match peer.outcome() {
            Ok(reply) => assert!(accepted && reply.message.stream == good),
            Err(why) => assert!(!accepted && matches!(why, TransportError::BadReply(_)), "{why:?}"),
        }
    }
}

/// Requirement: R043
#[test]
fn a_larger_threshold_sends_longer_calls_inline() {
    for (threshold, len, inline) in
        [(1024, 988, true), (1024, 989, false), (4096, 4060, true), (4096, 4061, false)]
    {
        let negotiated =
            Negotiated { call_threshold: threshold, reply_threshold: 1024, remote_invalidation: false };
        let mut peer =
            Peer { requester: Requester::new(Config::default(), negotiated, 1 << 20), ..Peer::new() };
        peer.call(1, with_items(1, len, &[]));
        let sent = peer.sent.pop_front().expect("a call");
        assert_eq!((sent.len() == threshold as usize, peer.exposed.is_empty()), (inline, inline), "{len}");
    }
}

fn requester() -> Requester {
    let negotiated = Negotiated { call_threshold: 1024, reply_threshold: 1024, remote_invalidation: false };
    Requester::new(Config::default(), negotiated, 1 << 20)
}

/// Requirement: R053, R078, R081, R082
#[test]
fn r071_r074_r075_items_are_sent_in_read_chunks_without_their_padding() {
    let mut peer = Peer::new();
    let lists = peer.lists(1, with_items(1, 40, &[(12, 701), (720, 1500)]));
    let reads: Vec<_> = lists.reads.iter().map(|read| (read.position, read.segment.length)).collect();
    assert_eq!(reads, [(12, 701), (720, 1500)]);
    assert_eq!((peer.read(&lists.reads[0].segment).len(), peer.exposed.len()), (701, 2));
    peer.receive(answer(1));
    assert!(peer.exposed.is_empty(), "R078");
    let traffic = peer.outcome().expect("a reply").traffic;
    assert_eq!((traffic.read_chunks, traffic.read_bytes, traffic.position_zero), (2, 2201, 0));
}

/// Requirement: R045
#[test]
fn short_messages_are_sent_inline() {
    let mut peer = Peer::new();
    // 28 bytes of header, 48 bytes of stream, and an item of 945 bytes with 3 bytes of padding: 1,024 bytes.
    peer.call(1, with_items(1, 40, &[(12, 945)]));
    let (header, payload) = peer.next_sent();
    assert_eq!((header.body, payload.len()), (Body::Msg(ChunkLists::default()), 996));
    peer.receive(answer(1));
    let lists = peer.lists(2, with_items(2, 40, &[(12, 949)]));
    assert_eq!(lists.reads.len(), 1);
}

/// Requirement: R077, R098
#[test]
fn r054_a_chunk_is_divided_into_full_segments() {
    let mut peer = Peer::with(Config { max_segment: 601, ..Config::default() });
    let mut call = with_items(1, 40, &[(12, 1501)]);
    call.reply = ReplyResources { write_chunks: vec![701], reply_chunk: Some(1803), memory: None };
    let lists = peer.lists(1, call);
    let reads: Vec<_> = lists.reads.iter().map(|read| (read.position, read.segment.length)).collect();
    assert_eq!(reads, [(12, 601), (12, 601), (12, 299)], "R077: one position for all segments");
    let lengths = |chunk: &WriteChunk| chunk.0.iter().map(|segment| segment.length).collect::<Vec<_>>();
    assert_eq!(lengths(&lists.writes[0]), [601, 100], "R098: no room for padding");
    assert_eq!(lists.reply.as_ref().map(lengths), Some(vec![601; 3]));
}

/// Requirement: R046, R121, R124, R130, R131, R132, R133, R233
#[test]
fn r120_a_call_that_does_not_fit_uses_a_position_zero_chunk() {
    let mut peer = Peer::new();
    let call = with_items(1, 1200, &[(12, 2001)]);
    let unreduced = call.message.flatten();
    peer.call(1, call);
    let (header, payload) = peer.next_sent();
    let Body::NoMsg(lists) = header.body else { panic!("long") };
    assert!(payload.is_empty(), "R131");
    assert_eq!(lists.reads.len(), 1);
    assert_eq!(lists.reads[0].position, 0);
    assert_eq!(peer.read(&lists.reads[0].segment), unreduced, "R133: padding included");
    peer.receive(answer(1));
    assert_eq!(peer.outcome().expect("a reply").traffic.position_zero, unreduced.len() as u64);
}

#[test]
fn r121_every_segment_of_a_long_call_has_position_zero() {
    let mut peer = Peer::with(Config { max_segment: 700, ..Config::default() });
    let lists = peer.lists(1, with_items(1, 1200, &[(12, 2001)]));
    let reads: Vec<_> = lists.reads.iter().map(|read| (read.position, read.segment.length)).collect();
    assert_eq!(reads, [(0, 700), (0, 700), (0, 700), (0, 700), (0, 412)]);
}

#[test]
fn r125_items_may_have_chunks_in_addition_to_the_position_zero_chunk() {
    let mut peer = Peer::with(Config { long_call: LongCall::Reduced, ..Config::default() });
    let lists = peer.lists(1, with_items(1, 1200, &[(12, 2001)]));
    let reads: Vec<_> = lists.reads.iter().map(|read| (read.position, read.segment.length)).collect();
    assert_eq!(reads, [(0, 1208), (12, 2001)]);
}

#[test]
fn items_beyond_the_header_limit_stay_in_the_stream() {
    // With 28 bytes of header and 24 bytes per segment, at most 41 segments fit into 1,024 bytes.
    for (count, chunks) in [(40, 41), (41, 1)] {
        let items: Vec<(u32, usize)> = (0..count).map(|index| (12 + index * 104, 101)).collect();
        let call = with_items(1, 1200, &items);
        let unreduced = u32::try_from(call.message.unreduced_len()).expect("small");
        let mut peer = Peer::with(Config { long_call: LongCall::Reduced, ..Config::default() });
        let reads = peer.lists(1, call).reads;
        assert_eq!((reads.len(), reads[0].position), (chunks, 0), "{count} items");
        assert_eq!(reads[0].segment.length, if chunks == 1 { unreduced } else { 1208 }, "{count} items");
    }
}

/// Requirement: R101
#[test]
fn r096_r105_a_reply_in_write_chunks_and_the_reply_chunk_is_joined() {
    let mut peer = Peer::with(Config { max_segment: 1000, ..Config::default() });
    let lists = peer.lists(1, offering(1, &[1500, 8], Some(2000)));
    let (write, reply) = (&lists.writes[0], lists.reply.as_ref().expect("offered"));
    peer.write(&write.0[0], &[1; 1000]);
    peer.write(&write.0[1], &[2; 5]);
    peer.write(&lists.writes[1].0[0], b"rubbish");
    let stream = rpc_reply(1, 1100);
    peer.write(&reply.0[0], &stream[..1000]);
    peer.write(&reply.0[1], &stream[1000..]);
    let back = returning(vec![write.filled(1005), lists.writes[1].filled(0)], Some(reply.filled(1108)));
    peer.receive(nomsg(1, back));
    let reply = peer.outcome().expect("a reply");
    assert_eq!(reply.message.stream, stream);
    let Placed::InOrder(items) = reply.message.items else { panic!("placed") };
    assert_eq!((items[0].data.len(), items[0].data[999], items[0].data[1000]), (1005, 1, 2));
    assert_eq!(
        (items[1].data.len(), items[1].segments),
        (0, 1),
        "R101: the unused chunk's content is not delivered"
    );
    assert_eq!((reply.traffic.write_bytes, reply.traffic.reply_chunk_bytes), (1005, 1108));
}

#[test]
fn r095_r100_unused_segments_and_chunks_may_be_omitted() {
    for back in [
        |offered: &WriteChunk| returning(vec![WriteChunk(offered.filled(3).0[..1].to_vec())], None),
        |offered: &WriteChunk| returning(vec![offered.filled(3)], Some(WriteChunk::default())),
    ] {
        let mut peer = Peer::with(Config { max_segment: 8, ..Config::default() });
        let lists = peer.lists(1, offering(1, &[16], Some(16)));
        peer.write(&lists.writes[0].0[0], b"abc");
        peer.receive(msg(1, 8, back(&lists.writes[0]), &rpc_reply(1, 16)));
        let Placed::InOrder(items) = peer.outcome().expect("a reply").message.items else { panic!("placed") };
        assert_eq!(items[0].data, b"abc"[..]);
    }
    let mut peer = Peer::new();
    peer.lists(1, offering(1, &[16], None));
    peer.receive(msg(1, 8, returning(vec![WriteChunk::default()], None), &rpc_reply(1, 16)));
    assert!(peer.outcome().is_ok(), "a chunk without segments");
    peer.lists(2, offering(2, &[16], None));
    peer.receive(answer(2));
    assert!(peer.outcome().is_ok(), "a reply without a Write list");
}

#[test]
fn h32_the_eighth_bad_reply_closes_the_connection() {
    let mut peer = Peer::new();
    for xid in 1..=8 {
        assert_eq!(peer.closed, None, "after {} bad replies", xid - 1);
        peer.call(xid, short(xid));
        peer.receive(msg(xid, 8, ChunkLists::default(), &rpc_reply(99, 16)));
        assert!(matches!(peer.failure(), TransportError::BadReply(_)));
    }
    assert!(matches!(peer.closed, Some(CloseReason::Violation(_))), "{:?}", peer.closed);
}

/// Requirement: R164, R170, H30, H31, H76
#[test]
fn r169_errors_fail_only_their_call() {
    let error = |xid, body| Header { xid, credits: 8, body: Body::Error(body) }.encode();
    let mut peer = Peer::new();
    peer.call(1, short(1));
    peer.receive(error(1, ErrorBody::Chunk));
    assert_eq!(peer.failure(), TransportError::Chunk);
    peer.call(2, short(2));
    peer.call(3, short(3));
    peer.receive(error(2, ErrorBody::Version { low: 2, high: 3 }));
    assert_eq!(peer.failure(), TransportError::Version { low: 2, high: 3 });
    peer.receive(error(99, ErrorBody::Chunk));
    assert!(peer.events.is_empty());
    // H31: an invalid error message also fails the call with its XID.
    peer.receive(words(&[3, 1, 8, 4, 77]));
    assert!(matches!(peer.failure(), TransportError::BadReply(_)));
    peer.call(4, short(4));
    peer.receive(words(&[4, 1, 8, 4]));
    assert!(matches!(peer.failure(), TransportError::BadReply(_)), "truncated");
    // Invalid error messages and invalid chunk lists have no effect if the XID is unknown.
    peer.call(5, short(5));
    for stray in [words(&[99, 1, 8, 4, 77]), words(&[99, 1, 8, 4]), words(&[99, 1, 8, 0, 0, 5, 0])] {
        peer.receive(stray);
        assert!(peer.events.is_empty() && peer.closed.is_none());
    }
    peer.receive(answer(5));
    assert!(peer.outcome().is_ok(), "H30, H31: the outstanding call continues");
    assert_eq!(peer.sent.len(), 5, "R169: no call is retransmitted; R164: no error is answered");
}

/// Requirement: R035, R210, R220
#[test]
fn h36_a_backward_call_with_chunks_gets_err_chunk() {
    let mut peer = Peer::new();
    peer.call(1, short(1));
    peer.sent.clear();
    let read = ReadSegment { position: 8, segment: Segment { handle: 1, length: 4, offset: 0 } };
    peer.receive(msg(1, 0, ChunkLists { reads: vec![read], ..ChunkLists::default() }, &rpc_call(1, 40)));
    assert_eq!(peer.sent.pop_front(), Some(words(&[1, 1, 1, 4, 2])), "R035: credits are never 0");
    assert!(peer.events.is_empty(), "R210: the forward call with the same XID is unaffected");
}

#[test]
fn r220_h36_a_long_backward_call_gets_err_chunk() {
    let mut peer = Peer::new();
    peer.call(1, short(1));
    peer.sent.clear();
    let read = ReadSegment { position: 0, segment: Segment { handle: 1, length: 400, offset: 0 } };
    peer.receive(nomsg(1, ChunkLists { reads: vec![read], ..ChunkLists::default() }));
    assert_eq!(peer.sent.pop_front(), Some(words(&[1, 1, 1, 4, 2])));
    peer.receive(answer(1));
    assert!(peer.outcome().is_ok(), "R210: the forward call with the same XID is unaffected");
}

#[test]
fn r287_h47_remote_invalidation_needs_an_agreement_and_a_handle_of_the_call() {
    let run = |allowed: bool, other: bool| {
        let announced = PrivateData { remote_invalidation: allowed, ..Config::default().private_data };
        let mut peer = Peer::with(Config { private_data: announced, ..Config::default() });
        peer.receive(answer(0));
        peer.call(10, short(10));
        peer.receive(answer(10));
        let _ = peer.outcome();
        peer.sent.clear();
        let first = peer.lists(1, offering(1, &[8], None));
        let second = peer.lists(2, offering(2, &[8], None));
        let handle = if other { &second } else { &first }.writes[0].0[0].handle;
        let back = returning(vec![first.writes[0].filled(8)], None);
        peer.receive_invalidating(msg(1, 8, back, &rpc_reply(1, 16)), Some(handle));
        peer
    };
    let mut good = run(true, false);
    assert!(good.closed.is_none());
    assert!(good.outcome().expect("a reply").traffic.remote_invalidation);
    assert_eq!(good.exposed.len(), 1, "only the memory of this call is returned");
    for mut bad in [run(true, true), run(false, false)] {
        assert!(matches!(bad.closed, Some(CloseReason::Violation(_))));
        assert!(bad.events.is_empty());
        bad.requester.handle_completion(Completion::Closed { reason: CloseReason::Local, returned: vec![] });
        bad.collect();
        assert!(matches!(bad.failure(), TransportError::Closed(_)));
    }
    let mut stray = Peer::new();
    stray.receive_invalidating(answer(77), Some(5));
    assert!(matches!(stray.closed, Some(CloseReason::Violation(_))));
}

#[test]
fn a_failed_registration_undoes_the_others_and_fails_only_its_call() {
    let mut peer = Peer::new();
    peer.registrations = 2;
    peer.call(1, offering(1, &[8, 8], Some(8)));
    assert_eq!(peer.failure(), TransportError::Registration);
    assert!(peer.sent.is_empty() && peer.exposed.is_empty());
    peer.registrations = usize::MAX;
    peer.call(2, short(2));
    assert_eq!(peer.sent.len(), 1, "the failed call returned its credit");
}

#[test]
fn r179_a_call_that_cannot_be_sent_fails_at_once() {
    let mut peer = Peer::with(Config { max_segment: 16, ..Config::default() });
    peer.call(1, offering(1, &[2000], None));
    assert!(matches!(peer.failure(), TransportError::Unsendable(Unsendable::Header { bytes: 2000.., .. })));
    peer.call(2, short(2));
    peer.call(2, short(2));
    peer.receive(answer(2));
    assert!(peer.outcome().is_ok());
    peer.call(3, short(3));
    peer.call(3, short(3));
    assert_eq!(peer.failure(), TransportError::Unsendable(Unsendable::RepeatedXid));
}

#[test]
fn a_call_beyond_the_requesters_own_limits_fails() {
    let limits = MessageLimits { max_segments: 4, max_write_chunks: 2, ..MessageLimits::default() };
    let mut peer = Peer::with(Config { max_segment: 16, limits, ..Config::default() });
    peer.call(1, offering(1, &[32, 33], None));
    let five = TransportError::Unsendable(Unsendable::Segments { segments: 5, max: 4 });
    assert_eq!(peer.failure(), five, "2 and 3 segments");
    peer.call(1, offering(1, &[1, 1, 1], None));
    let chunks = Unsendable::WriteChunks { chunks: 3, max: 2 };
    assert_eq!(peer.failure(), TransportError::Unsendable(chunks));
    peer.call(1, offering(1, &[16, 16], Some(33)));
    assert_eq!(peer.failure(), five, "the segments of the Reply chunk also count");
    let lists = peer.lists(1, offering(1, &[32, 32], None));
    assert_eq!(lists.segments().count(), 4);
    peer.receive(answer(1));
    assert!(peer.outcome().is_ok());
    peer.call(2, with_items(2, 40, &[(8, 1024)]));
    assert!(
        matches!(peer.failure(), TransportError::Unsendable(Unsendable::Segments { segments: 64.., max: 4 })),
        "the item needs 64 segments, and the unreduced stream needs more"
    );
    assert!(peer.sent.is_empty() && peer.exposed.is_empty());
}

/// Requirement: R180
#[test]
fn every_call_ends_once_when_the_connection_ends() {
    let mut peer = Peer::new();
    peer.receive(answer(0));
    peer.slow = true;
    let first = peer.lists(1, offering(1, &[8], None));
    peer.receive(msg(1, 8, returning(vec![first.writes[0].filled(0)], None), &rpc_reply(1, 16)));
    let placed = peer.lists(5, offering(5, &[8], None));
    peer.receive(msg(5, 8, returning(vec![placed.writes[0].filled(4)], None), &rpc_reply(5, 16)));
    let abandoned = peer.call(2, offering(2, &[8], None));
    peer.requester.cancel(abandoned);
    peer.call(3, short(3));
    let returned = std::mem::take(&mut peer.exposed).into_values().collect();
    peer.requester.handle_completion(Completion::Closed { reason: CloseReason::Peer, returned });
    peer.collect();
    assert!(peer.outcome().is_ok(), "the reply arrived before the close and needs no registered memory");
    assert_eq!(
        peer.failure(),
        TransportError::Closed(CloseReason::Peer),
        "the reply's item is in memory that was not fenced"
    );
    assert_eq!(peer.failure(), TransportError::Closed(CloseReason::Peer));
    assert!(matches!(peer.events.pop_front(), Some(RequesterEvent::Closed(CloseReason::Peer))));
    assert!(peer.events.is_empty());
    peer.call(4, short(4));
    assert_eq!(peer.failure(), TransportError::Unsent(CloseReason::Peer), "every later call fails");
}
