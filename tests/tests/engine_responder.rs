//! A responder and a peer that sends arbitrary messages.

use std::collections::VecDeque;

use bytes::Bytes;
use rpcrdma_runtime::proto::rdma::{Config, IncomingCall, Responder, ResponderEvent};
use rpcrdma_runtime::proto::work::{Action, CloseReason, Completion, Segment, Token};
use rpcrdma_runtime::wire::private_data::Negotiated;
use rpcrdma_runtime::wire::rdma::{
    Body, ChunkLists, ErrorBody, Header, MessageLimits, ReadSegment, WriteChunk, decode_reply,
};
use rpcrdma_runtime::xdr::{Item, Message, Reader};
use rpcrdma_sim::fabric::ReadRegions;

const XID: u32 = 0x0102_0304;

/// A responder, its actions by kind, and the regions that its RDMA Reads fill.
struct Peer {
    responder: Responder,
    receives: u32,
    sent: VecDeque<(Bytes, Option<u32>)>,
    reads: VecDeque<(Token, Segment)>,
    regions: ReadRegions,
    writes: Vec<(Segment, Bytes)>,
    closed: Option<CloseReason>,
    events: VecDeque<ResponderEvent>,
}

impl Peer {
    fn new() -> Self {
        Peer::with(Config::default(), 16, true)
    }

    fn with(config: Config, ord: u32, remote_invalidation: bool) -> Self {
        let negotiated = Negotiated { call_threshold: 4096, reply_threshold: 1024, remote_invalidation };
        let mut peer = Peer {
            responder: Responder::new(config, negotiated, ord),
            receives: 0,
            sent: VecDeque::new(),
            reads: VecDeque::new(),
            regions: ReadRegions::default(),
            writes: Vec::new(),
            closed: None,
            events: VecDeque::new(),
        };
        peer.collect();
        peer
    }

    fn collect(&mut self) {
        while let Some(action) = self.responder.poll_action() {
            match action {
                Action::PostReceives { count } => self.receives += count,
                Action::Send { message, invalidate, .. } => {
                    self.sent.push_back((message.concat().into(), invalidate));
                }
                Action::Read { token, source, part } => {
                    self.regions.start(token, source.length, part);
                    self.reads.push_back((token, source));
                }
                Action::Write { sink, data, .. } => {
                    assert!(self.sent.is_empty(), "R005: a Write must precede the Send that announces it");
                    self.writes.push((sink, data));
                }
                Action::Close { reason } => self.closed = Some(reason),
                Action::Register { .. } | Action::Invalidate { .. } | Action::Abandon { .. } => {
                    panic!("a responder must not advertise memory")
                }
            }
        }
        self.events.extend(std::iter::from_fn(|| self.responder.poll_event()));
    }

    fn send(&mut self, message: impl Into<Bytes>) {
        self.send_invalidating(message, None);
    }

    fn send_invalidating(&mut self, message: impl Into<Bytes>, invalidated: Option<u32>) {
        self.receives -= 1;
        self.responder.handle_completion(Completion::Received { message: message.into(), invalidated });
        self.collect();
    }

    /// Completes the oldest RDMA Read with data that repeats the low octet of the source's handle.
    fn serve_read(&mut self) -> Segment {
        let (token, source) = self.reads.pop_front().expect("an outstanding RDMA Read");
        let data = vec![source.handle.to_be_bytes()[3]; source.length as usize];
        self.serve(token, data.into());
        source
    }

    fn serve(&mut self, token: Token, data: Bytes) {
        let data = self.regions.finish(token, &data);
        self.responder.handle_completion(Completion::ReadDone { token, data });
        self.collect();
    }

    fn call(&mut self) -> IncomingCall {
        match self.events.pop_front() {
            Some(ResponderEvent::Call(call)) => call,
            other => panic!("expected a call: {other:?}"),
        }
    }

    fn reply(&mut self, call: &IncomingCall, message: Message) {
        self.responder.reply(call.key, message);
        self.collect();
    }

    fn answer(&mut self) -> (Header, Bytes, Option<u32>) {
        assert_eq!(self.sent.len(), 1, "exactly one message");
        let (message, invalidate) = self.sent.pop_front().expect("one");
        let (header, payload) = decode_reply(&message, &MessageLimits::default()).expect("a reply");
        (header, payload, invalidate)
    }

    fn answers_err_chunk(&mut self) -> bool {
        matches!(self.answer(), (Header { xid: XID, body: Body::Error(ErrorBody::Chunk), .. }, _, None))
    }
}

fn words(words: &[u32]) -> Bytes {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// Returns the XID and the message type of an RPC call, followed by `more` bytes.
fn rpc(more: usize) -> Bytes {
    [&words(&[XID, 0])[..], &vec![0x11; more]].concat().into()
}

fn msg(lists: ChunkLists, payload: &[u8]) -> Bytes {
    let header = Header { xid: XID, credits: 4, body: Body::Msg(lists) }.encode();
    [&header[..], payload].concat().into()
}

fn nomsg(lists: ChunkLists) -> Bytes {
    Header { xid: XID, credits: 4, body: Body::NoMsg(lists) }.encode()
}

fn segment(handle: u32, length: u32) -> Segment {
    Segment { handle, length, offset: 0xffff_0000_0000 }
}

fn read(position: u32, handle: u32, length: u32) -> ReadSegment {
    ReadSegment { position, segment: segment(handle, length) }
}

fn reads(reads: Vec<ReadSegment>) -> ChunkLists {
    ChunkLists { reads, ..ChunkLists::default() }
}

fn chunk(lengths: &[u32]) -> WriteChunk {
    WriteChunk((100..).zip(lengths).map(|(handle, length)| segment(handle, *length)).collect())
}

fn stream(len: usize) -> Bytes {
    let mut stream = words(&[XID, 1]).to_vec();
    stream.resize(len, 0x22);
    stream.into()
}

#[test]
fn h75_duplicate_completions_are_ignored() {
    let mut peer = Peer::new();
    peer.send(msg(reads(vec![read(8, 1, 16)]), &rpc(40)));
    let (token, _) = *peer.reads.front().expect("an outstanding RDMA Read");
    peer.serve_read();
    peer.responder.handle_completion(Completion::ReadDone { token, data: vec![9; 16].into() });
    peer.collect();
    let call = peer.call();
    assert!(peer.events.is_empty(), "{:?}", peer.events);
    peer.reply(&call, Message::unreduced(stream(100)));
    peer.reply(&call, Message::unreduced(stream(100)));
    peer.answer();
    for token in (0..40).map(Token) {
        peer.responder.handle_completion(Completion::Sent { token });
        peer.responder.handle_completion(Completion::Written { token });
        peer.collect();
    }
    for _ in 0..2 {
        let closed = Completion::Closed { reason: CloseReason::Peer, returned: Vec::new() };
        peer.responder.handle_completion(closed);
        peer.collect();
    }
    assert!(peer.sent.is_empty() && peer.reads.is_empty() && peer.closed.is_none());
    let events = peer.events.make_contiguous();
    assert!(matches!(events, [ResponderEvent::Closed(CloseReason::Peer)]), "{events:?}");
}

/// Requirement: R029
#[test]
fn a_receive_is_posted_before_the_reply_that_grants_it() {
    let mut peer = Peer::with(Config { credits: 1, ..Config::default() }, 1, false);
    for _ in 0..3 {
        for message in [msg(ChunkLists::default(), &rpc(40)), nomsg(ChunkLists::default())] {
            peer.receives -= 1;
            peer.responder.handle_completion(Completion::Received { message, invalidated: None });
            while let Some(ResponderEvent::Call(call)) = peer.responder.poll_event() {
                peer.responder.reply(call.key, Message::unreduced(stream(40)));
            }
            let first = peer.responder.poll_action();
            assert!(matches!(first, Some(Action::PostReceives { count: 1 })), "{first:?}");
            let second = peer.responder.poll_action();
            let Some(Action::Send { token, .. }) = second else { panic!("{second:?}") };
            peer.receives += 1;
            peer.responder.handle_completion(Completion::Sent { token });
        }
    }
}

/// Requirement: R024
#[test]
fn the_grant_grows_and_shrinks_with_replies() {
    let mut peer = Peer::with(Config { credits: 5, ..Config::default() }, 1, false);
    for (set, granted) in [(2, 2), (4, 4), (1, 1), (0, 1), (9, 5)] {
        peer.responder.set_grant(set);
        peer.send(msg(ChunkLists::default(), &rpc(40)));
        let call = peer.call();
        peer.reply(&call, Message::unreduced(stream(40)));
        assert_eq!(peer.answer().0.credits, granted, "a reply");
        peer.send(nomsg(ChunkLists::default()));
        assert_eq!(peer.answer().0.credits, granted, "ERR_CHUNK");
        (0..2).for_each(|_| peer.responder.handle_completion(Completion::Sent { token: Token(0) }));
        assert_eq!(peer.receives, 6, "the Receives suffice for the maximum grant");
    }
}

/// Requirement: R043
#[test]
fn a_larger_threshold_sends_longer_replies_inline() {
    for (threshold, len, inline) in
        [(1024, 996, true), (1024, 997, false), (4096, 4068, true), (4096, 4069, false)]
    {
        let negotiated =
            Negotiated { call_threshold: 4096, reply_threshold: threshold, remote_invalidation: false };
        let mut peer = Peer { responder: Responder::new(Config::default(), negotiated, 1), ..Peer::new() };
        peer.collect();
        peer.send(msg(ChunkLists::default(), &rpc(40)));
        let call = peer.call();
        peer.reply(&call, Message::unreduced(stream(len)));
        assert_eq!(peer.sent.front().expect("a reply").0.len() == threshold as usize, inline, "{len}");
        assert_eq!(matches!(peer.answer().0.body, Body::Msg(_)), inline, "{len}");
    }
}

/// Requirement: R009, R021, R022, R216
#[test]
fn h12_h63_requested_credits_do_not_change_the_grant() {
    let mut peer = Peer::with(Config { credits: 3, ..Config::default() }, 1, false);
    assert_eq!(peer.receives, 4, "R009: one Receive per credit, and one extra Receive");
    for requested in [0, 1, u32::MAX] {
        let header = Header { xid: XID, credits: requested, body: Body::Msg(ChunkLists::default()) }.encode();
        peer.send([&header[..], &rpc(40)].concat());
        let call = peer.call();
        peer.reply(&call, Message::unreduced(stream(40)));
        assert_eq!(peer.answer().0.credits, 3);
        assert_eq!(peer.receives, 4);
    }
}

/// Requirement: R062, R071, R073, R077, R080, R083
#[test]
fn r070_r076_read_chunks_are_fetched_and_the_message_is_rebuilt() {
    let mut peer = Peer::new();
    // Two items, each after its count. The first has 5 bytes in two segments, without padding.
    let payload = [&rpc(0)[..], &words(&[5, 4, 0x6d61_726b])].concat();
    peer.send(msg(reads(vec![read(24, 3, 4), read(12, 1, 3), read(12, 2, 2)]), &payload));
    assert_eq!((peer.serve_read().handle, peer.serve_read().handle, peer.serve_read().handle), (1, 2, 3));
    let call = peer.call();
    let mut reader = Reader::new(&call.message);
    let head = (reader.u32(), reader.u32());
    assert_eq!(head, (Ok(XID), Ok(0)));
    assert_eq!(reader.item(u32::MAX).as_deref(), Ok(&[1, 1, 1, 2, 2][..]));
    assert_eq!(reader.item(u32::MAX).as_deref(), Ok(&[3; 4][..]));
    assert_eq!(reader.u32(), Ok(0x6d61_726b));
    assert_eq!(reader.position(), 32, "R071: positions are offsets in the unreduced stream");
    assert!(reader.finish().is_ok());
    let unreduced =
        [&rpc(0)[..], &words(&[5]), &[1, 1, 1, 2, 2, 0, 0, 0], &words(&[4]), &[3; 4], b"mark"].concat();
    assert_eq!(Reader::new(&call.message).gathered().as_deref(), Ok(&unreduced[..]), "R076: padded");
    peer.reply(&call, Message::unreduced(stream(40)));
    assert!(matches!(peer.answer().0.body, Body::Msg(lists) if lists.reads.is_empty()), "R083");
}

#[test]
fn h65_a_read_chunk_may_be_a_write_chunk_too() {
    let mut peer = Peer::new();
    let both = segment(1, 8);
    let lists = ChunkLists {
        reads: vec![ReadSegment { position: 12, segment: both }],
        writes: vec![WriteChunk(vec![both])],
        ..ChunkLists::default()
    };
    peer.send(msg(lists, &[&rpc(0)[..], &words(&[8])].concat()));
    assert_eq!(peer.serve_read(), both);
    let call = peer.call();
    let mut reader = Reader::new(&call.message);
    assert_eq!((reader.u32(), reader.u32()), (Ok(XID), Ok(0)));
    assert_eq!(reader.item(u32::MAX).as_deref(), Ok(&[1; 8][..]));
    let items = vec![Item { position: 12, data: Bytes::from_static(b"answered") }];
    peer.reply(&call, Message { stream: stream(12), items });
    assert_eq!(peer.writes, [(both, Bytes::from_static(b"answered"))]);
    assert!(matches!(peer.answer().0.body, Body::Msg(lists) if lists.writes == [WriteChunk(vec![both])]));
}

/// Requirement: H39
#[test]
fn r011_outstanding_reads_do_not_exceed_the_negotiated_number() {
    let mut peer = Peer::with(Config::default(), 2, false);
    peer.send(msg(reads((0..5).map(|n| read(12 + 4 * n, n, 4)).collect()), &rpc(40)));
    peer.send(msg(reads(vec![read(12, 9, 4)]), &rpc(40)));
    let mut order = Vec::new();
    while !peer.reads.is_empty() {
        assert!(peer.reads.len() <= 2);
        order.push(peer.serve_read().handle);
    }
    assert_eq!(order, [0, 1, 2, 3, 4, 9]);
    let (first, second) = (peer.call(), peer.call());
    assert_ne!(first.key, second.key, "H39: calls with the same XID are separate");
    for (call, len) in [(second, 44), (first, 48)] {
        peer.reply(&call, Message::unreduced(stream(len)));
        let (header, payload, _) = peer.answer();
        assert_eq!((header.xid, payload.len()), (XID, len), "H39: each call has its own reply");
        peer.reply(&call, Message::unreduced(stream(len)));
        assert!(peer.sent.is_empty(), "H39: each call has one reply");
    }
}

#[test]
fn fetched_bytes_of_a_connection_are_bounded() {
    let mut peer = Peer::with(Config { max_fetched: 100, ..Config::default() }, 16, false);
    // The first two calls use all 100 bytes, so the other two calls wait.
    let lengths = [60, 40, 1, 8];
    for (handle, length) in (1..).zip(lengths) {
        peer.send(msg(reads(vec![read(12, handle, length)]), &rpc(40)));
    }
    peer.send(msg(ChunkLists::default(), &rpc(40)));
    let call_without_chunks = peer.call();
    peer.reply(&call_without_chunks, Message::unreduced(stream(40)));
    peer.answer();
    assert_eq!(peer.reads.len(), 2, "a call without Read chunks does not wait");
    peer.serve_read();
    peer.serve_read();
    assert!(peer.reads.is_empty(), "fetched bytes count toward the limit until the reply");
    let (first, second) = (peer.call(), peer.call());
    peer.reply(&second, Message::unreduced(stream(40)));
    assert_eq!(peer.reads.len(), 2, "the reply to a call with 40 bytes admits calls with 1 and 8 bytes");
    peer.serve_read();
    peer.serve_read();
    peer.reply(&first, Message::unreduced(stream(40)));
    assert_eq!(peer.responder.in_progress(), 2);
}

#[test]
fn one_call_may_exceed_the_bound_on_fetched_bytes() {
    let mut peer = Peer::with(Config { max_fetched: 100, ..Config::default() }, 16, false);
    peer.send(msg(reads(vec![read(12, 1, 101)]), &rpc(40)));
    peer.send(msg(reads(vec![read(12, 2, 1)]), &rpc(40)));
    assert_eq!(peer.reads.len(), 1);
    peer.serve_read();
    let first = peer.call();
    assert!(peer.reads.is_empty());
    peer.responder.drop_call(first.key);
    peer.collect();
    assert_eq!(peer.serve_read().handle, 2, "a dropped call releases its bytes");
}

/// Ends the connection with a Terminate from the requester's provider. Returns the XIDs of the calls that may
/// have caused the Terminate.
fn suspects(mut peer: Peer) -> Vec<u32> {
    let reason = CloseReason::Terminated { layer: 1, etype: 1, code: 1 };
    peer.responder.handle_completion(Completion::Closed { reason, returned: Vec::new() });
    peer.responder.suspects().to_vec()
}

fn with_xid(xid: u32, lists: ChunkLists) -> Bytes {
    let header = Header { xid, credits: 4, body: Body::Msg(lists) }.encode();
    [&header[..], &words(&[xid, 0]), &[0x11; 40]].concat().into()
}

fn reply_chunk() -> ChunkLists {
    ChunkLists { reply: Some(chunk(&[4000])), ..ChunkLists::default() }
}

#[test]
fn r178_a_call_that_broke_its_connection_gets_err_chunk_on_the_next() {
    let mut peer = Peer::new();
    peer.send(msg(reply_chunk(), &rpc(40)));
    let call = peer.call();
    peer.reply(&call, Message::unreduced(stream(2000)));
    assert_eq!(suspects(peer), [XID]);
    let mut next = Peer::new();
    next.responder.refuse_calls([XID, 5].into());
    next.send(with_xid(6, reply_chunk()));
    assert_eq!(next.call().xid, 6, "other calls run");
    next.send(msg(ChunkLists::default(), &rpc(40)));
    assert_eq!(next.call().xid, XID, "a call without RDMA Reads or Writes runs");
    next.send(msg(reply_chunk(), &rpc(40)));
    assert!(next.answers_err_chunk() && next.events.is_empty());
    next.send(msg(reply_chunk(), &rpc(40)));
    assert_eq!(next.call().xid, XID, "a call is refused only once");
    assert_eq!(next.responder.take_unrefused(), [5].into());
    assert_eq!(next.responder.take_counts().1.fatal, 1);
}

#[test]
fn r178_only_unreceived_reads_and_writes_can_break_a_connection() {
    let mut peer = Peer::with(Config { credits: 3, ..Config::default() }, 16, false);
    for (xid, len) in [(1, 2000), (2, 40), (3, 2000), (4, 2000)] {
        peer.send(with_xid(xid, reply_chunk()));
        let call = peer.call();
        peer.reply(&call, Message::unreduced(stream(len)));
        peer.sent.clear();
    }
    // With three credits, the fourth call is not sent before the first reply arrives. The second reply was
    // inline.
    assert_eq!(suspects(peer), [4, 3]);
    let mut reading = Peer::with(Config { credits: 2, ..Config::default() }, 16, false);
    reading.send(with_xid(1, reply_chunk()));
    let call = reading.call();
    reading.reply(&call, Message::unreduced(stream(40)));
    reading.send(with_xid(2, reads(vec![read(12, 1, 4)])));
    assert_eq!(suspects(reading), [2], "the reply to call 1 was inline");
    let mut cut = Peer::new();
    cut.send(with_xid(1, reads(vec![read(12, 1, 4)])));
    let reason = CloseReason::Io("cut".into());
    cut.responder.handle_completion(Completion::Closed { reason, returned: Vec::new() });
    assert!(cut.responder.suspects().is_empty(), "a network failure makes no call suspect");
}

#[test]
fn r021_r032_calls_in_progress_do_not_change_the_grant() {
    let mut peer = Peer::with(Config { credits: 3, ..Config::default() }, 1, false);
    (0..3).for_each(|_| peer.send(msg(ChunkLists::default(), &rpc(40))));
    let calls = [peer.call(), peer.call(), peer.call()];
    for (left, call) in (0..3).rev().zip(&calls) {
        peer.reply(call, Message::unreduced(stream(40)));
        assert_eq!(peer.answer().0.credits, 3, "calls in progress: {left}");
    }
}

#[test]
fn r023_replies_and_errors_grant_at_least_one_credit() {
    let peer = || Peer::with(Config { credits: 0, ..Config::default() }, 1, false);
    let mut replying = peer();
    replying.send(msg(ChunkLists::default(), &rpc(40)));
    let call = replying.call();
    replying.reply(&call, Message::unreduced(stream(40)));
    assert_eq!(replying.answer().0.credits, 1, "a reply");
    let mut refusing = peer();
    refusing.send(nomsg(ChunkLists::default()));
    assert_eq!(refusing.answer().0.credits, 1, "ERR_CHUNK");
    let mut other_version = peer();
    other_version.send(words(&[XID, 2, 4, 0, 0, 0, 0]));
    let (answer, _) = other_version.sent.pop_front().expect("ERR_VERS");
    assert_eq!(answer[8..12], 1u32.to_be_bytes(), "ERR_VERS");
}

#[test]
fn a_peer_that_serves_no_reads_gets_err_chunk_for_read_chunks() {
    let mut peer = Peer::with(Config::default(), 0, false);
    peer.send(msg(reads(vec![read(12, 1, 4)]), &rpc(40)));
    assert!(peer.answers_err_chunk());
}

/// Requirement: H66
#[test]
fn r286_r287_r288_send_with_invalidate_uses_the_only_handle_after_agreement() {
    let one = ChunkLists { writes: vec![chunk(&[64])], ..ChunkLists::default() };
    let two = ChunkLists { writes: vec![chunk(&[32, 32])], ..ChunkLists::default() };
    let shared = ChunkLists {
        reads: vec![read(12, 100, 4)],
        reply: Some(WriteChunk(vec![segment(100, 64)])),
        ..ChunkLists::default()
    };
    for (agreed, lists, expected) in [
        (true, one.clone(), Some(100)),
        (false, one, None),
        (true, two, None),
        (true, ChunkLists::default(), None),
        // H66: a handle in two lists counts as one handle.
        (true, shared, Some(100)),
    ] {
        let mut peer = Peer::with(Config::default(), 16, agreed);
        peer.send(msg(lists, &rpc(40)));
        if !peer.reads.is_empty() {
            peer.serve_read();
        }
        let call = peer.call();
        peer.reply(&call, Message::unreduced(stream(40)));
        assert_eq!(peer.answer().2, expected);
    }
}

#[test]
fn a_dropped_call_returns_its_receive_and_ignores_a_late_reply() {
    let mut peer = Peer::new();
    let posted = peer.receives;
    peer.send(msg(ChunkLists::default(), &rpc(40)));
    let call = peer.call();
    peer.responder.drop_call(call.key);
    peer.reply(&call, Message::unreduced(stream(40)));
    assert!(peer.sent.is_empty());
    assert_eq!(peer.receives, posted);
}

#[test]
fn h46_a_call_with_invalidation_closes_the_connection() {
    let mut peer = Peer::new();
    peer.send_invalidating(msg(ChunkLists::default(), &rpc(40)), Some(7));
    assert!(matches!(peer.closed, Some(CloseReason::Violation(_))));
    assert!(peer.events.is_empty());
}

#[test]
fn replies_after_the_close_are_dropped() {
    let mut peer = Peer::new();
    peer.send(msg(ChunkLists::default(), &rpc(40)));
    peer.send(msg(reads(vec![read(12, 1, 4)]), &rpc(40)));
    let call = peer.call();
    peer.responder.handle_completion(Completion::Closed { reason: CloseReason::Peer, returned: Vec::new() });
    peer.collect();
    assert!(matches!(peer.events.pop_front(), Some(ResponderEvent::Closed(CloseReason::Peer))));
    peer.reply(&call, Message::unreduced(stream(40)));
    assert!(peer.sent.is_empty());
    assert_eq!(peer.responder.in_progress(), 0);
}
