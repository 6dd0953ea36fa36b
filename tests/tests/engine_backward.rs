//! Calls in both directions on one connection (RFC 8167). Each peer has two engines, and the fabric connects
//! the peers. Some tests send handcrafted messages to one engine.

use bytes::Bytes;
use rpcrdma_runtime::proto::rdma::{
    BackwardRequester, BackwardResponder, CallId, Config, IncomingCall, OutgoingCall, ReplyResources,
    Requester, RequesterEvent, Responder, ResponderEvent, TransportError, Unsendable,
};
use rpcrdma_runtime::proto::work::{Action, CloseReason, Completion, Segment};
use rpcrdma_runtime::provider::Connection;
use rpcrdma_runtime::wire::private_data::Negotiated;
use rpcrdma_runtime::wire::rdma::{Body, ChunkLists, ErrorBody, Header, ReadSegment, WriteChunk};
use rpcrdma_runtime::xdr::Message;
use rpcrdma_sim::fabric::{End, Fabric, FabricConfig, Side};
use rpcrdma_tests::captured::ours;

const NEGOTIATED: Negotiated =
    Negotiated { call_threshold: 1024, reply_threshold: 2048, remote_invalidation: true };
const HEADER: usize = 28;
const SEGMENT: Segment = Segment { handle: 1, length: 400, offset: 0 };

fn words(words: &[u32]) -> Bytes {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// Returns an RPC message of `len` bytes. The kind is 0 for a call and 1 for a reply.
fn rpc(xid: u32, kind: u32, len: usize) -> Bytes {
    let head = words(&[xid, kind]);
    head.iter().copied().chain(std::iter::repeat(7)).take(len).collect()
}

fn message(stream: impl Into<Bytes>) -> Message {
    Message { stream: stream.into(), items: Vec::new() }
}

fn call(xid: u32) -> Message {
    message(rpc(xid, 0, 40))
}

fn msg(xid: u32, credits: u32, lists: ChunkLists, stream: &[u8]) -> Bytes {
    [&Header { xid, credits, body: Body::Msg(lists) }.encode()[..], stream].concat().into()
}

fn plain(xid: u32, credits: u32, kind: u32) -> Bytes {
    msg(xid, credits, ChunkLists::default(), &rpc(xid, kind, 40))
}

fn received(message: Bytes) -> Completion {
    Completion::Received { message, invalidated: None }
}

/// Returns calls, each with a different kind of chunk.
fn with_chunks(xid: u32) -> Vec<Bytes> {
    let read = |position| vec![ReadSegment { position, segment: SEGMENT }];
    let chunk = || WriteChunk(vec![SEGMENT]);
    let stream = rpc(xid, 0, 40);
    let long = ChunkLists { reads: read(0), ..ChunkLists::default() };
    vec![
        msg(xid, 9, ChunkLists { reads: read(40), ..ChunkLists::default() }, &stream),
        msg(xid, 9, ChunkLists { writes: vec![chunk()], ..ChunkLists::default() }, &stream),
        msg(xid, 9, ChunkLists { reply: Some(chunk()), ..ChunkLists::default() }, &stream),
        Header { xid, credits: 9, body: Body::NoMsg(long) }.encode(),
    ]
}

/// A client on the left and a server on the right, each with two engines.
struct Peers {
    fabric: Fabric,
    left: End,
    right: End,
    requester: Requester,
    callee: BackwardResponder,
    responder: Responder,
    caller: BackwardRequester,
    sent: [Vec<Bytes>; 2],
    /// The outcomes of calls at the client's requester and at the server's backward requester.
    done: [Vec<(CallId, Result<Bytes, TransportError>)>; 2],
    /// Unanswered calls, at the server and at the client.
    calls: [Vec<IncomingCall>; 2],
    closed: usize,
}

impl Peers {
    fn new(config: Config) -> Self {
        let (fabric, left, right) = Fabric::pair(FabricConfig { seed: 8, ..FabricConfig::default() });
        let mut peers = Peers {
            requester: Requester::new(config, NEGOTIATED, left.info().max_region),
            callee: BackwardResponder::new(config, NEGOTIATED),
            responder: Responder::new(config, NEGOTIATED, right.info().ord),
            caller: BackwardRequester::new(config, NEGOTIATED),
            fabric,
            left,
            right,
            sent: Default::default(),
            done: Default::default(),
            calls: Default::default(),
            closed: 0,
        };
        peers.settle();
        peers
    }

    fn ready(config: Config) -> Self {
        let mut peers = Peers::new(config);
        peers.caller.ready();
        peers.settle();
        peers
    }

    fn settle(&mut self) {
        loop {
            while let Some(action) = self.requester.poll_action().or_else(|| self.callee.poll_action()) {
                record_send(&mut self.sent[0], &action);
                self.left.submit(action);
            }
            while let Some(action) = self.responder.poll_action().or_else(|| self.caller.poll_action()) {
                record_send(&mut self.sent[1], &action);
                self.right.submit(action);
            }
            let moved = self.fabric.advance();
            while let Some(completion) = self.left.try_completion() {
                if let Some(completion) = self.callee.take(completion) {
                    self.requester.handle_completion(completion);
                }
            }
            while let Some(completion) = self.right.try_completion() {
                if let Some(completion) = self.caller.take(completion) {
                    self.responder.handle_completion(completion);
                }
            }
            if !moved {
                return self.poll_events();
            }
        }
    }

    fn poll_events(&mut self) {
        for (done, event) in std::iter::from_fn(|| self.requester.poll_event().map(|event| (0, event)))
            .chain(std::iter::from_fn(|| self.caller.poll_event().map(|event| (1, event))))
        {
            match event {
                RequesterEvent::Done { call, outcome } => {
                    self.done[done].push((call, outcome.map(|reply| reply.message.stream)));
                }
                RequesterEvent::Closed(_) => self.closed += 1,
            }
        }
        for (calls, event) in std::iter::from_fn(|| self.responder.poll_event().map(|event| (0, event)))
            .chain(std::iter::from_fn(|| self.callee.poll_event().map(|event| (1, event))))
        {
            match event {
                ResponderEvent::Call(call) => self.calls[calls].push(call),
                ResponderEvent::Closed(_) => self.closed += 1,
            }
        }
    }

    fn forward(&mut self, xid: u32) -> CallId {
        self.requester.submit(OutgoingCall { message: call(xid), reply: ReplyResources::default() })
    }

    fn serve(&mut self) {
        for call in std::mem::take(&mut self.calls[0]) {
            self.responder.reply(call.key, message(rpc(call.xid, 1, 48)));
        }
        self.settle();
    }

    fn serve_backward(&mut self, len: usize) {
        for call in std::mem::take(&mut self.calls[1]) {
            self.callee.reply(call.key, message(rpc(call.xid, 1, len)));
        }
        self.settle();
    }

    /// Completes one call in each direction, so that all granted credits are available.
    fn warm(mut self) -> Self {
        self.forward(1);
        self.caller.submit(call(1));
        self.settle();
        self.serve();
        self.serve_backward(40);
        assert!(self.done.iter().all(|done| matches!(done[..], [(_, Ok(_))])));
        self.done = Default::default();
        self.sent = Default::default();
        self
    }
}

fn record_send(sent: &mut Vec<Bytes>, action: &Action) {
    match action {
        Action::Send { message, invalidate, .. } => {
            assert_eq!(*invalidate, None);
            sent.push(message.concat().into());
        }
        Action::PostReceives { .. } | Action::Close { .. } => {}
        other => panic!("unexpected action: {other:?}"),
    }
}

fn credits(message: &Bytes) -> u32 {
    u32::from_be_bytes(message[8..12].try_into().expect("a header"))
}

fn config(forward: u32, backward: u32) -> Config {
    Config { credits: forward, backward_credits: backward, ..Config::default() }
}

#[test]
fn r210_one_xid_names_a_call_in_each_direction() {
    let mut peers = Peers::ready(config(4, 4));
    let (there, back) = (peers.forward(77), peers.caller.submit(call(77)));
    peers.settle();
    assert_eq!(
        peers.calls.each_ref().map(|calls| calls.iter().map(|call| call.xid).collect::<Vec<_>>()),
        [vec![77], vec![77]]
    );
    peers.serve_backward(60);
    assert_eq!(
        peers.done,
        [vec![], vec![(back, Ok(rpc(77, 1, 60)))]],
        "the backward reply does not complete the forward call"
    );
    peers.serve();
    assert_eq!(peers.done[0], [(there, Ok(rpc(77, 1, 48)))]);
}

/// Requirement: R033, R034
#[test]
fn credits_of_the_two_directions_are_separate_and_may_differ() {
    let mut peers = Peers::ready(config(5, 2)).warm();
    assert_eq!((peers.requester.credits().granted(), peers.caller.credits().granted()), (5, 2));
    for xid in 10..20 {
        peers.caller.submit(call(xid));
    }
    peers.settle();
    assert_eq!(peers.calls[1].len(), 2, "the backward grant");
    for xid in 10..20 {
        peers.forward(xid);
    }
    peers.settle();
    assert_eq!(peers.calls[0].len(), 5, "the forward grant is independent of backward calls");
    peers.serve();
    peers.serve();
    assert_eq!((peers.done[0].len(), peers.done[1].len()), (10, 0), "only forward calls complete");
    let credits_of = |side: usize, kind: u8| -> Vec<u32> {
        let of_kind = |message: &&Bytes| message[HEADER + 7] == kind;
        peers.sent[side].iter().filter(of_kind).map(credits).collect()
    };
    assert_eq!((credits_of(0, 0), credits_of(1, 1)), (vec![5; 10], vec![5; 10]));
    assert_eq!(credits_of(1, 0), [2, 2]);
    (0..5).for_each(|_| peers.serve_backward(40));
    assert_eq!(peers.done[1].len(), 10);
}

/// Requirement: R035
#[test]
fn backward_credits_are_never_zero() {
    let mut peers = Peers::ready(config(3, 0)).warm();
    peers.caller.submit(call(2));
    peers.settle();
    peers.serve_backward(40);
    assert_eq!((credits(&peers.sent[0][0]), credits(&peers.sent[1][0])), (1, 1));
    assert_eq!(peers.done[1].len(), 1);
}

#[test]
fn r211_no_call_is_made_before_the_client_is_ready() {
    let mut peers = Peers::new(config(4, 4));
    let early = peers.caller.submit(call(1));
    peers.settle();
    assert_eq!(peers.done[1], [(early, Err(TransportError::NotReady))]);
    assert!(peers.sent[1].is_empty() && peers.calls[1].is_empty() && !peers.caller.is_ready());
    peers.caller.ready();
    peers.caller.submit(call(2));
    peers.settle();
    assert_eq!((peers.sent[1].len(), peers.calls[1].len()), (1, 1), "only the call after `ready` is sent");
}

/// Requirement: R212, R213
#[test]
fn calls_and_replies_equal_the_bytes_of_linux() {
    let captured = ours("linux-nfs42-backward.jsonl");
    let [theirs, answer] = &captured[..] else { panic!("two messages") };
    assert_eq!((credits(&theirs.bytes), credits(&answer.bytes)), (2, 16));
    // As in the capture, the server requests 2 credits and the client grants 16.
    let mut server = BackwardRequester::new(config(64, 2), NEGOTIATED);
    server.ready();
    let id = server.submit(message(theirs.bytes.slice(HEADER..)));
    let mut sent = Vec::new();
    std::iter::from_fn(|| server.poll_action()).for_each(|action| record_send(&mut sent, &action));
    assert_eq!(sent, std::slice::from_ref(&theirs.bytes));

    let mut client = BackwardResponder::new(config(64, 16), NEGOTIATED);
    assert!(client.take(received(theirs.bytes.clone())).is_none());
    let Some(ResponderEvent::Call(arrived)) = client.poll_event() else { panic!("a call") };
    assert_eq!(arrived.message.stream, theirs.bytes.slice(HEADER..));
    client.reply(arrived.key, message(answer.bytes.slice(HEADER..)));
    sent.clear();
    std::iter::from_fn(|| client.poll_action()).for_each(|action| record_send(&mut sent, &action));
    assert_eq!(sent, std::slice::from_ref(&answer.bytes));

    assert!(server.take(received(answer.bytes.clone())).is_none());
    match server.poll_event() {
        Some(RequesterEvent::Done { call, outcome: Ok(reply) }) => {
            assert_eq!((call, reply.message.stream), (id, answer.bytes.slice(HEADER..)));
        }
        other => panic!("{other:?}"),
    }
}

/// Requirement: R214, R215
#[test]
fn receives_suffice_for_both_directions() {
    let mut peers = Peers::new(config(6, 3));
    let receives = |peers: &Peers| [Side::Left, Side::Right].map(|side| peers.fabric.receives(side));
    assert_eq!(receives(&peers), [7 + 4, 7], "the client posts all Receives at the start");
    peers.caller.ready();
    peers.settle();
    assert_eq!(receives(&peers), [7 + 4, 7 + 4], "the server posts 4 more Receives before its first call");
    let mut peers = peers.warm();
    for xid in 10..16 {
        peers.forward(xid);
    }
    for xid in 20..23 {
        peers.caller.submit(call(xid));
    }
    peers.settle();
    assert_eq!(peers.calls.each_ref().map(Vec::len), [6, 3]);
    assert_eq!(
        receives(&peers),
        [11 - 3, 11 - 6],
        "the Receive of a call is posted again only when the call is answered"
    );
    peers.serve_backward(40);
    peers.serve();
    assert_eq!(peers.done.each_ref().map(Vec::len), [6, 3]);
    assert_eq!((receives(&peers), peers.closed), ([11, 11], 0));
}

#[test]
fn r218_thresholds_depend_on_the_direction_of_the_message() {
    let mut peers = Peers::ready(config(4, 4)).warm();
    let fits = peers.caller.submit(message(rpc(1, 0, 2048 - HEADER)));
    let too_long = peers.caller.submit(message(rpc(2, 0, 2052 - HEADER)));
    peers.settle();
    let refused = Err(TransportError::Unsendable(Unsendable::NotInline { bytes: 2052, max: 2048 }));
    assert_eq!(peers.done[1], [(too_long, refused)], "the long call fails before it is sent");
    assert_eq!(peers.sent[1].iter().map(Bytes::len).collect::<Vec<_>>(), [2048]);
    peers.serve_backward(1024 - HEADER);
    assert_eq!(peers.done[1][1], (fits, Ok(rpc(1, 1, 1024 - HEADER))));
    let long_reply = peers.caller.submit(call(3));
    peers.settle();
    peers.serve_backward(1028 - HEADER);
    assert_eq!(peers.done[1][2], (long_reply, Err(TransportError::Chunk)));
    assert_eq!(peers.caller.credits().outstanding(), 0, "the credit is returned");
    // In the forward direction, the threshold is 1,024 bytes for calls and 2,048 bytes for replies.
    let there = peers.forward(4);
    peers.settle();
    for call in std::mem::take(&mut peers.calls[0]) {
        peers.responder.reply(call.key, message(rpc(call.xid, 1, 2048 - HEADER)));
    }
    peers.settle();
    assert_eq!(peers.done[0], [(there, Ok(rpc(4, 1, 2048 - HEADER)))]);
}

/// Requirement: R220, H36
#[test]
fn a_client_rejects_chunks_in_backward_calls() {
    for (which, call) in with_chunks(5).into_iter().enumerate() {
        let mut client = BackwardResponder::new(config(4, 3), NEGOTIATED);
        assert!(client.take(received(call)).is_none());
        let mut sent = Vec::new();
        std::iter::from_fn(|| client.poll_action()).for_each(|action| record_send(&mut sent, &action));
        assert_eq!(sent, [words(&[5, 1, 3, 4, 2])], "{which}");
        assert!(client.poll_event().is_none(), "{which}: the call must not run");
    }
    // ERR_CHUNK completes the backward call, but not the forward call with the same XID.
    let mut peers = Peers::ready(config(4, 4)).warm();
    let (there, back) = (peers.forward(5), peers.caller.submit(call(5)));
    peers.settle();
    let refusal = Header { xid: 5, credits: 4, body: Body::Error(ErrorBody::Chunk) }.encode();
    assert!(peers.caller.take(received(refusal)).is_none());
    peers.settle();
    assert_eq!(peers.done, [vec![], vec![(back, Err(TransportError::Chunk))]]);
    peers.serve();
    assert_eq!(peers.done[0], [(there, Ok(rpc(5, 1, 48)))]);
}

/// Requirement: R221
#[test]
fn credits_of_a_message_without_a_direction_are_ignored() {
    for (what, message) in [
        ("another version", words(&[1, 2, 9, 0, 0, 0, 0, 1, 0])),
        ("no RPC message", words(&[1, 1, 9, 0, 0, 0, 0])),
        ("neither a call nor a reply", words(&[1, 1, 9, 0, 0, 0, 0, 1, 2])),
        ("a truncated header", words(&[1, 1, 9, 0, 1, 0])),
        ("an obsolete header type", words(&[1, 1, 9, 3, 0, 0, 0])),
        ("an endless list", words(&[1, 1, 9, 0, 0, 1, u32::MAX, 1, 0])),
    ] {
        let mut peers = Peers::ready(config(16, 16));
        peers.forward(2);
        peers.caller.submit(call(2));
        peers.settle();
        let message = || received(message.clone());
        let for_requester = peers.callee.take(message()).unwrap_or_else(|| panic!("{what}: a call"));
        peers.requester.handle_completion(for_requester);
        let for_responder = peers.caller.take(message()).unwrap_or_else(|| panic!("{what}: a reply"));
        peers.responder.handle_completion(for_responder);
        assert_eq!(peers.requester.credits().granted(), 1, "{what}");
        assert_eq!(peers.caller.credits().granted(), 1, "{what}");
        assert!(peers.callee.poll_event().is_none() && peers.caller.poll_event().is_none(), "{what}");
    }
}

/// Requirement: R217
#[test]
fn a_closed_connection_fails_calls_of_both_directions() {
    let mut peers = Peers::ready(config(4, 4)).warm();
    peers.forward(10);
    peers.caller.submit(call(10));
    peers.caller.submit(call(11));
    peers.settle();
    peers.requester.close(CloseReason::Local);
    peers.settle();
    assert_eq!(peers.closed, 4, "every engine reports the close");
    assert_eq!(peers.done.each_ref().map(Vec::len), [1, 2]);
    assert!(
        peers.done.iter().flatten().all(|(_, outcome)| matches!(
            outcome,
            Err(TransportError::Closed(_) | TransportError::Unsent(_))
        ))
    );
    let after = peers.caller.submit(call(12));
    peers.settle();
    assert!(matches!(&peers.done[1][2], (id, Err(TransportError::Unsent(_))) if *id == after));
    assert!(peers.caller.poll_action().is_none(), "a server does not connect");
}

#[test]
fn an_abandoned_call_keeps_its_credit_until_its_reply() {
    let mut peers = Peers::ready(config(4, 1)).warm();
    let slow = peers.caller.submit(call(1));
    let next = peers.caller.submit(call(2));
    peers.settle();
    peers.caller.cancel(slow);
    peers.settle();
    assert_eq!((peers.calls[1].len(), peers.closed), (1, 0), "the connection stays open");
    peers.serve_backward(40);
    peers.serve_backward(40);
    assert_eq!(peers.done[1], [(next, Ok(rpc(2, 1, 40)))]);
}

/// Requirement: R033, H12
#[test]
fn more_calls_than_granted_close_the_connection() {
    let mut client = BackwardResponder::new(config(64, 2), NEGOTIATED);
    let closes = |client: &mut BackwardResponder| {
        std::iter::from_fn(|| client.poll_action())
            .any(|action| matches!(action, Action::Close { reason: CloseReason::Violation(_) }))
    };
    for xid in 1..=2 {
        assert!(client.take(received(plain(xid, 2, 0))).is_none());
    }
    assert!(!closes(&mut client));
    assert!(client.take(received(plain(3, 2, 0))).is_none());
    assert!(closes(&mut client));
    let calls = std::iter::from_fn(|| client.poll_event()).count();
    assert_eq!(calls, 2, "the extra call must not run");
}

#[test]
fn h37_replies_without_a_call_are_dropped_and_their_receives_are_posted_again() {
    let mut peers = Peers::ready(config(4, 4)).warm();
    peers.forward(8);
    peers.settle();
    for xid in [8, 9, 10] {
        assert!(peers.caller.take(received(plain(xid, 4, 1))).is_none());
    }
    assert_eq!((peers.caller.discarded(), peers.calls[0].len()), (3, 1), "forward call 8 still runs");
    let posted = std::iter::from_fn(|| peers.caller.poll_action())
        .filter(|action| matches!(action, Action::PostReceives { count: 1 }));
    assert_eq!(posted.count(), 3);
}

#[test]
fn h32_a_reply_with_chunks_fails_its_call() {
    for chunk in 0..2 {
        let mut peers = Peers::ready(config(4, 4)).warm();
        let id = peers.caller.submit(call(6));
        peers.settle();
        let of = WriteChunk(vec![SEGMENT]);
        let lists = match chunk {
            0 => ChunkLists { writes: vec![of], ..ChunkLists::default() },
            _ => ChunkLists { reply: Some(of), ..ChunkLists::default() },
        };
        assert!(peers.caller.take(received(msg(6, 4, lists, &rpc(6, 1, 40)))).is_none());
        peers.settle();
        assert!(
            matches!(&peers.done[1][..], [(done, Err(TransportError::BadReply(_)))] if *done == id),
            "{:?}",
            peers.done
        );
    }
}

#[test]
fn before_ready_a_server_leaves_replies_and_errors_to_its_responder() {
    let mut server = BackwardRequester::new(config(4, 4), NEGOTIATED);
    let error = Header { xid: 1, credits: 1, body: Body::Error(ErrorBody::Chunk) }.encode();
    for message in [plain(1, 4, 1), error] {
        assert!(server.take(received(message)).is_some(), "the message is left to the responder");
    }
    assert!(!server.has_work());
}

/// Requirement: R220
#[test]
fn a_client_without_services_drops_calls_and_rejects_chunks() {
    // A client without services has only a requester.
    let mut client = Requester::new(config(4, 4), NEGOTIATED, 1 << 20);
    client.handle_completion(received(plain(1, 4, 0)));
    let actions = |client: &mut Requester| {
        let (mut receives, mut sent, mut tokens) = (0, Vec::new(), Vec::new());
        for action in std::iter::from_fn(|| client.poll_action()) {
            match &action {
                Action::PostReceives { count } => receives += count,
                Action::Send { token, .. } => tokens.push(*token),
                other => panic!("{other:?}"),
            }
            record_send(&mut sent, &action);
        }
        (receives, sent, tokens)
    };
    assert!(actions(&mut client).1.is_empty());
    let mut expected = Vec::new();
    for (xid, which) in (9..).zip(0..4) {
        client.handle_completion(received(with_chunks(xid).swap_remove(which)));
        expected.push(words(&[xid, 1, 1, 4, 2]));
    }
    let (receives, sent, tokens) = actions(&mut client);
    assert_eq!(sent, expected, "each call gets an error");
    assert_eq!(receives, 0, "no Receive is posted before the errors are sent");
    for token in tokens {
        client.handle_completion(Completion::Sent { token });
        assert_eq!(actions(&mut client).0, 1);
    }
    assert_eq!(client.discarded(), 5);
}
