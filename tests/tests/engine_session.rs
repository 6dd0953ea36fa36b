//! A session in virtual time: lost connections, retransmitted calls, and timeouts.

#[path = "engine_session/memory.rs"]
mod memory;
#[path = "engine_session/timeouts.rs"]
mod timeouts;

use std::time::Duration;

use bytes::Bytes;
use rpcrdma_runtime::program::ReplyBounds;
use rpcrdma_runtime::proto::rdma::{CallId, Config, IncomingReply, Requester, TransportError};
use rpcrdma_runtime::proto::session::{Backoff, Policy, Reconnect, Session, SessionCall, SessionEvent};
use rpcrdma_runtime::proto::time::Time;
use rpcrdma_runtime::proto::work::{Action, CloseReason, Completion, Memory, Segment};
use rpcrdma_runtime::wire::private_data::Negotiated;
use rpcrdma_runtime::wire::rdma::{Body, ChunkLists, Header, MessageLimits, decode_call};
use rpcrdma_runtime::xdr::{Item, Message, Size};

const MS: fn(u64) -> Duration = Duration::from_millis;

/// A session with its actions and events. Registration and fencing take no time.
struct Client {
    session: Session<Requester>,
    now: Time,
    /// The messages sent on the current connection.
    sent: Vec<Bytes>,
    registration_fails: bool,
    /// Memory that the connection advertises.
    exposed: Vec<(u32, Memory)>,
    /// True if the provider of the next connection has a local fence.
    local_fence: bool,
    abandoned: Vec<u32>,
    next_handle: u32,
    /// The reason for a requested close.
    closing: Option<CloseReason>,
    /// The number of pending connection attempts.
    connects: u32,
    done: Vec<(CallId, Result<IncomingReply, TransportError>)>,
    disconnected: u32,
    ended: Option<CloseReason>,
}

impl Client {
    fn new(policy: Policy) -> Self {
        Client {
            session: Session::new(policy, 7),
            now: Time::default(),
            sent: Vec::new(),
            registration_fails: false,
            exposed: Vec::new(),
            local_fence: false,
            abandoned: Vec::new(),
            next_handle: 1000,
            closing: None,
            connects: 0,
            done: Vec::new(),
            disconnected: 0,
            ended: None,
        }
    }

    /// Returns a client with a connected session whose reconnection delays have no jitter.
    fn connected() -> Self {
        let mut client = Client::new(policy());
        client.connect(1024);
        client
    }

    fn connect(&mut self, threshold: u32) {
        assert!(self.exposed.is_empty(), "memory of the previous connection is still advertised");
        let negotiated =
            Negotiated { call_threshold: threshold, reply_threshold: threshold, remote_invalidation: false };
        self.connects = 0;
        self.closing = None;
        self.sent.clear();
        let requester = Requester::new(Config { credits: 8, ..Config::default() }, negotiated, 1 << 20)
            .with_local_fence(self.local_fence);
        self.session.handle_connected(self.now, requester);
        self.collect();
    }

    fn refuse(&mut self) {
        assert_eq!(self.connects, 1);
        self.connects = 0;
        self.session.handle_connect_failed(self.now, "refused".to_owned());
        self.collect();
    }

    fn collect(&mut self) {
        while self.session.has_work() {
            while let Some(action) = self.session.requester_mut().and_then(Requester::poll_action) {
                self.act(action);
            }
            while let Some(event) = self.session.poll_event() {
                match event {
                    SessionEvent::Connect => self.connects += 1,
                    SessionEvent::Done { call, outcome } => self.done.push((call, outcome)),
                    SessionEvent::Disconnected(_) => self.disconnected += 1,
                    SessionEvent::Ended(reason) => self.ended = Some(reason),
                }
            }
        }
    }

    fn complete(&mut self, completion: Completion) {
        if let Some(requester) = self.session.requester_mut() {
            requester.handle_completion(completion);
        }
        self.session.process_events(self.now);
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Register { token, memory } if self.registration_fails => {
                self.complete(Completion::RegisterFailed { token, memory });
            }
            Action::Register { token, memory } => {
                self.next_handle += 1;
                let handle = self.next_handle;
                let length = u32::try_from(memory.len()).expect("small");
                self.exposed.push((handle, memory));
                let segment = Segment { handle, length, offset: 0 };
                self.complete(Completion::Registered { token, segment });
            }
            Action::Invalidate { token, handle } => {
                let at = self.exposed.iter().position(|(exposed, _)| *exposed == handle).expect("advertised");
                let (_, memory) = self.exposed.remove(at);
                self.complete(Completion::Invalidated { token, handle, memory });
            }
            Action::Abandon { handle } => self.abandoned.push(handle),
            Action::Send { message, .. } => self.sent.push(message.concat().into()),
            Action::Close { reason } => self.closing = Some(reason),
            Action::PostReceives { .. } => {}
            Action::Read { .. } | Action::Write { .. } => {
                panic!("a requester must not submit RDMA Reads or Writes")
            }
        }
    }

    fn lose_connection(&mut self, reason: CloseReason) {
        let returned = self.exposed.drain(..).map(|(_, memory)| memory).collect();
        self.complete(Completion::Closed { reason, returned });
        self.collect();
    }

    fn finish_closing(&mut self) {
        let reason = self.closing.take().expect("a close was requested");
        self.lose_connection(reason);
    }

    fn submit(&mut self, call: SessionCall) -> CallId {
        let id = self.session.submit(self.now, call);
        self.collect();
        id
    }

    fn cancel(&mut self, call: CallId) {
        self.session.cancel(self.now, call);
        self.collect();
    }

    fn answer(&mut self, xid: u32) {
        let header = Header { xid, credits: 8, body: Body::Msg(ChunkLists::default()) }.encode();
        let message = [&header[..], &words(&[xid, 1, 0, 0])[..]].concat().into();
        self.complete(Completion::Received { message, invalidated: None });
        self.collect();
    }

    fn next_timeout(&mut self) -> Time {
        let at = self.session.poll_timeout().expect("the session has a timeout");
        assert!(at >= self.now, "the timeout is in the past");
        self.now = at;
        self.session.handle_timeout(at);
        self.collect();
        at
    }

    /// Advances the time by `duration` and handles the session's timeouts up to then.
    fn advance(&mut self, duration: Duration) {
        let end = self.now.after(duration).expect("soon");
        while self.session.poll_timeout().is_some_and(|at| at <= end) {
            self.next_timeout();
        }
        self.now = end;
        self.session.handle_timeout(end);
        self.collect();
    }

    fn xids(&self) -> Vec<u32> {
        self.sent.iter().map(|message| header(message).0.xid).collect()
    }

    fn failure(&mut self, call: CallId) -> TransportError {
        let at = self.done.iter().position(|(done, _)| *done == call).expect("the call has ended");
        self.done.remove(at).1.expect_err("the call fails")
    }

    fn replies(&mut self) -> Vec<CallId> {
        self.done.drain(..).map(|(call, outcome)| outcome.map(|_| call).expect("a reply")).collect()
    }
}

fn policy() -> Policy {
    let backoff = Backoff { initial: MS(100), max: MS(1000), jitter: 0, ..Backoff::default() };
    let reconnect = Some(Reconnect { backoff, ..Reconnect::default() });
    Policy { reconnect, ..Policy::default() }
}

fn policy_with(change: impl FnOnce(&mut Reconnect)) -> Policy {
    let mut reconnect = policy().reconnect.expect("the policy reconnects");
    change(&mut reconnect);
    Policy { reconnect: Some(reconnect), ..policy() }
}

fn words(words: &[u32]) -> Bytes {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

fn header(message: &Bytes) -> (Header, Bytes) {
    decode_call(message, &MessageLimits::default()).expect("a valid header")
}

fn lists(message: &Bytes) -> ChunkLists {
    match header(message).0.body {
        Body::Msg(lists) | Body::NoMsg(lists) => lists,
        Body::Error(_) => panic!("R164: a requester must not send errors"),
    }
}

const SMALL: ReplyBounds = ReplyBounds {
    unreduced: Size::Bounded(16),
    reduced: Size::Bounded(16),
    item: Size::ZERO,
    items: Size::ZERO,
};

fn call(xid: u32) -> SessionCall {
    let stream = [&words(&[xid, 0])[..], &[0x11; 40]].concat();
    let message = Message::unreduced(stream.into());
    SessionCall { message, bounds: SMALL, timeout: None, retransmit: None, memory: None }
}

fn with_item(xid: u32, len: usize) -> SessionCall {
    let mut call = call(xid);
    call.message.items.push(Item { position: 48, data: vec![0x33; len].into() });
    call
}

/// Requirement: R030, R031, H76
#[test]
fn outstanding_calls_are_retransmitted_with_one_credit_and_the_same_bytes() {
    let mut client = Client::connected();
    let first = client.submit(call(1));
    client.answer(1);
    assert_eq!(client.replies(), [first]);
    let calls = [2, 3, 4].map(|xid| client.submit(call(xid)));
    assert_eq!(client.xids(), [1, 2, 3, 4]);
    let before = client.sent[1..].to_vec();
    client.answer(3);
    assert_eq!(client.replies(), [calls[1]]);

    client.lose_connection(CloseReason::Peer);
    assert!(client.done.is_empty(), "no call fails when the connection is lost");
    assert_eq!((client.connects, client.disconnected), (1, 1), "no delay after a working connection");
    client.connect(1024);
    assert_eq!(client.xids(), [2], "one credit until the first reply");
    client.answer(2);
    assert_eq!(client.xids(), [2, 4]);
    assert_eq!(client.sent, [before[0].clone(), before[2].clone()], "the same bytes");
    client.answer(4);
    assert_eq!(client.replies(), [calls[0], calls[2]]);
    assert_eq!(client.session.counts().retransmissions, 2);
}

#[test]
fn h76_a_call_is_never_retransmitted_on_the_same_connection() {
    let mut client = Client::connected();
    client.submit(SessionCall { timeout: Some(Duration::from_secs(86_400)), ..call(1) });
    client.advance(Duration::from_secs(86_399));
    assert_eq!(client.xids(), [1]);
    assert_eq!(client.closing, None);
}

/// Requirement: R200, R002
#[test]
fn r202_reconnection_waits_for_the_memory_of_the_last_connection() {
    let mut client = Client::connected();
    client.submit(with_item(1, 5000));
    client.submit(SessionCall { timeout: Some(MS(500)), ..with_item(2, 5000) });
    assert_eq!((client.sent.len(), client.exposed.len()), (1, 1));
    let impatient = client.submit(SessionCall { timeout: Some(MS(400)), ..call(3) });
    client.advance(MS(400));
    assert_eq!(client.failure(impatient), TransportError::Timeout(MS(400)));
    assert_eq!(client.closing, None, "the timeout of an unsent call does not close the connection");

    client.answer(1);
    assert_eq!((client.sent.len(), client.exposed.len()), (2, 1));
    client.done.clear();
    let waits = client.submit(with_item(4, 5000));
    client.advance(MS(100));
    assert!(matches!(client.closing, Some(CloseReason::Timeout(_))));
    assert_eq!((client.exposed.len(), client.connects), (2, 0), "the memory is still advertised");
    let later = client.submit(call(5));
    client.advance(Duration::from_secs(3));
    assert_eq!((client.xids().len(), client.connects), (3, 0));
    client.finish_closing();
    client.connect(1024);
    client.answer(4);
    client.answer(5);
    client.done.retain(|(_, outcome)| outcome.is_ok());
    assert_eq!(client.replies(), [waits, later]);
    assert_eq!(client.session.counts().timeouts, 2);
}

#[test]
fn r293_thresholds_are_those_of_the_new_connection() {
    let mut client = Client::new(policy());
    let large = ReplyBounds { unreduced: Size::Bounded(2000), reduced: Size::Bounded(2000), ..SMALL };
    let id = client.submit(SessionCall { bounds: large, ..with_item(9, 2000) });
    let mut seen = Vec::new();
    for threshold in [4096, 1024, 4096] {
        assert_eq!(client.connects, 1);
        client.connect(threshold);
        let lists = lists(&client.sent[0]);
        seen.push((lists.reads.len(), lists.reply.is_some(), client.sent[0].len() > 2000));
        assert!(client.sent[0].len() <= threshold as usize, "R045");
        if seen.len() < 3 {
            client.lose_connection(CloseReason::Peer);
            client.advance(MS(400));
        }
    }
    assert_eq!(seen, [(0, false, true), (1, true, false), (0, false, true)]);
    client.answer(9);
    assert_eq!(client.replies(), [id]);
}

#[test]
fn backoff_grows_and_restarts_after_a_reply() {
    let mut client = Client::connected();
    client.submit(call(1));
    client.lose_connection(CloseReason::Peer);
    assert_eq!(client.connects, 0, "a connection without a reply counts as failed");
    let mut times = Vec::new();
    for _ in 0..5 {
        times.push(client.next_timeout().0);
        client.refuse();
    }
    assert_eq!(times, [100, 300, 700, 1500, 2500].map(MS));
    client.next_timeout();
    client.connect(1024);
    client.answer(1);
    client.submit(call(2));
    client.lose_connection(CloseReason::Peer);
    assert_eq!(client.connects, 1, "at once");
    client.refuse();
    let before = client.now;
    assert_eq!(client.next_timeout().since(before), MS(100), "the backoff restarts at the initial delay");
}

#[test]
fn the_close_of_an_idle_connection_is_not_a_failure() {
    let mut client = Client::connected();
    client.lose_connection(CloseReason::Peer);
    client.submit(call(1));
    assert_eq!(client.connects, 1, "a connection without calls does not count as failed");
    client.connect(1024);
    client.answer(1);
    client.lose_connection(CloseReason::Peer);
    let abandoned = client.submit(call(2));
    client.connect(1024);
    client.cancel(abandoned);
    client.answer(2);
    client.lose_connection(CloseReason::Peer);
    client.submit(call(3));
    assert_eq!(client.connects, 1, "a connection without unanswered calls does not count as failed");
}

#[test]
fn a_kept_connection_reconnects_with_backoff_even_without_calls() {
    let mut client = Client::new(Policy { keep: true, ..policy() });
    client.connect(1024);
    client.lose_connection(CloseReason::Peer);
    assert_eq!(client.connects, 0);
    client.next_timeout();
    assert_eq!((client.connects, client.now), (1, Time(MS(100))));
}

/// If the call failed as unsent, the caller might repeat the call although the server may have executed it.
#[test]
fn a_sent_call_that_cannot_be_retransmitted_fails_as_sent() {
    let mut client = Client::connected();
    let id = client.submit(with_item(1, 5000));
    assert_eq!(client.xids(), [1]);
    client.lose_connection(CloseReason::Peer);
    client.next_timeout();
    client.registration_fails = true;
    client.connect(1024);
    assert_eq!(client.failure(id), TransportError::Closed(CloseReason::Peer));
    let id = client.submit(with_item(2, 5000));
    assert_eq!(client.failure(id), TransportError::Registration, "this call was never sent");
}

#[test]
fn calls_fail_after_the_maximum_number_of_attempts() {
    let mut client = Client::new(policy_with(|reconnect| reconnect.attempts = Some(3)));
    for round in [1, 2] {
        let calls = [10 * round, 10 * round + 1].map(|xid| client.submit(call(xid)));
        for _ in 0..3 {
            if client.connects == 0 {
                client.next_timeout();
            }
            assert!(client.done.is_empty());
            client.refuse();
        }
        for id in calls {
            assert_eq!(client.failure(id), TransportError::Unreachable("refused".to_owned()));
        }
        assert_eq!((client.connects, client.session.poll_timeout()), (0, None), "no call waits");
    }
}

#[test]
fn connections_that_end_without_an_answer_are_failed_attempts() {
    let limits = |reconnect: &mut Reconnect| (reconnect.attempts, reconnect.sends) = (Some(3), 100);
    let mut client = Client::new(policy_with(limits));
    let calls = [1, 2].map(|xid| client.submit(call(xid)));
    for _ in 0..3 {
        if client.connects == 0 {
            client.next_timeout();
        }
        assert!(client.done.is_empty());
        client.connect(1024);
        client.lose_connection(CloseReason::Peer);
    }
    for id in calls {
        assert_eq!(client.failure(id), TransportError::Unreachable("closed by the peer".to_owned()));
    }
    assert_eq!((client.connects, client.session.poll_timeout()), (0, None), "no call waits");
}

#[test]
fn a_call_that_breaks_every_connection_fails_alone() {
    let mut client = Client::new(policy_with(|reconnect| reconnect.sends = 3));
    let (breaking, good) = (client.submit(call(1)), client.submit(call(2)));
    for _ in 0..3 {
        client.connect(1024);
        assert_eq!(client.xids(), [1]);
        client.lose_connection(CloseReason::Peer);
        client.advance(MS(500));
    }
    assert_eq!(client.failure(breaking), TransportError::Closed(CloseReason::Peer));
    client.connect(1024);
    client.answer(2);
    assert_eq!(client.replies(), [good]);
}

#[test]
fn unrepeatable_calls_fail_with_their_connection_once_sent() {
    for by_policy in [true, false] {
        let policy = if by_policy { policy_with(|reconnect| reconnect.retransmit = false) } else { policy() };
        let retransmit = (!by_policy).then_some(false);
        let mut client = Client::new(policy);
        let (sent, unsent) = (
            client.submit(SessionCall { retransmit, ..call(1) }),
            client.submit(SessionCall { retransmit, ..call(2) }),
        );
        client.connect(1024);
        let other = client.submit(SessionCall { retransmit: Some(true), ..call(3) });
        client.answer(1);
        assert_eq!(client.replies(), [sent]);
        assert_eq!(client.xids(), [1, 2, 3]);
        client.lose_connection(CloseReason::Peer);
        assert_eq!(client.failure(unsent), TransportError::Closed(CloseReason::Peer));
        let unsent = client.submit(SessionCall { retransmit, ..call(4) });
        client.connect(1024);
        assert_eq!(client.xids(), [3]);
        client.lose_connection(CloseReason::Peer);
        client.advance(MS(100));
        client.connect(1024);
        client.answer(3);
        client.answer(4);
        assert_eq!(client.replies(), [other, unsent], "the unsent call also completes");
    }
}

#[test]
fn an_abandoned_call_is_not_retransmitted_and_does_not_block_other_calls() {
    let mut client = Client::connected();
    let (sent, kept) = (client.submit(call(1)), client.submit(call(2)));
    client.cancel(sent);
    client.lose_connection(CloseReason::Peer);
    let while_disconnected = client.submit(call(3));
    client.advance(MS(50));
    client.cancel(while_disconnected);
    client.advance(MS(50));
    client.connect(1024);
    client.answer(2);
    assert_eq!((client.xids(), client.replies()), (vec![2], vec![kept]));
    client.cancel(kept);
    client.lose_connection(CloseReason::Peer);
    assert_eq!((client.connects, client.session.poll_timeout()), (0, None));

    let last = client.submit(call(4));
    client.refuse();
    client.cancel(last);
    client.advance(Duration::from_secs(100));
    assert_eq!((client.connects, client.done.len()), (0, 0), "no call needs a connection");
}

/// Requirement: R202
#[test]
fn an_abandoned_call_without_a_reply_keeps_its_credit_until_its_timeout() {
    let mut client = Client::connected();
    let lost = client.submit(SessionCall { timeout: Some(MS(1000)), ..with_item(1, 5000) });
    let waits = client.submit(call(2));
    client.cancel(lost);
    assert_eq!((client.xids(), client.exposed.len()), (vec![1], 1));
    client.advance(MS(999));
    assert_eq!(client.closing, None);
    client.advance(MS(1));
    assert!(client.closing.is_some());
    client.finish_closing();
    client.advance(MS(100));
    client.connect(1024);
    client.answer(2);
    assert_eq!(client.replies(), [waits]);

    // The deadline of a cancelled call has no effect once the reply has arrived, however many calls were
    // cancelled.
    for xid in 100..400 {
        let id = client.submit(SessionCall { timeout: Some(MS(1000)), ..call(xid) });
        client.cancel(id);
        client.answer(xid);
    }
    client.advance(MS(5000));
    assert_eq!(client.closing, None);
}

#[test]
fn an_idle_connection_closes_and_the_next_call_reconnects() {
    let mut client = Client::connected();
    client.advance(Duration::from_secs(200));
    client.submit(call(1));
    client.advance(Duration::from_secs(50));
    client.answer(1);
    client.advance(Duration::from_secs(299));
    assert_eq!(client.closing, None, "the idle time starts at the end of the last call");
    client.advance(Duration::from_secs(1));
    assert_eq!(client.closing, Some(CloseReason::Local));
    let late = client.submit(call(2));
    client.done.clear();
    client.finish_closing();
    assert_eq!((client.connects, client.ended.is_some()), (1, false), "no delay after an idle close");
    client.connect(1024);
    client.answer(2);
    assert_eq!(client.replies(), [late]);
    client.advance(Duration::from_secs(300));
    client.finish_closing();
    assert_eq!((client.connects, client.session.poll_timeout()), (0, None));
}

#[test]
fn a_drain_completes_calls_on_the_next_connection() {
    let mut client = Client::connected();
    let running = client.submit(call(1));
    client.session.close_when_idle(client.now);
    let refused = client.submit(call(2));
    assert!(matches!(client.failure(refused), TransportError::Unsent(_)));
    client.lose_connection(CloseReason::Peer);
    client.advance(MS(100));
    client.connect(1024);
    assert_eq!((client.closing.clone(), client.ended.clone()), (None, None));
    client.answer(1);
    assert_eq!(client.replies(), [running]);
    client.finish_closing();
    assert_eq!(client.ended, Some(CloseReason::Local));

    for connected in [true, false] {
        let mut idle = if connected { Client::connected() } else { Client::new(policy()) };
        idle.session.close_when_idle(idle.now);
        idle.collect();
        if connected {
            idle.finish_closing();
        }
        assert_eq!(idle.ended, Some(CloseReason::Local));
    }
}

#[test]
fn closing_fails_every_call_at_once_and_ends_the_session() {
    let mut client = Client::connected();
    let (sent, unsent) = (client.submit(with_item(1, 5000)), client.submit(call(2)));
    client.session.close(client.now, &CloseReason::Local);
    client.collect();
    assert_eq!(client.failure(sent), TransportError::Closed(CloseReason::Local));
    assert_eq!(client.failure(unsent), TransportError::Closed(CloseReason::Local));
    assert_eq!((client.ended.clone(), client.exposed.len()), (None, 1));
    client.finish_closing();
    assert_eq!((client.ended.clone(), client.connects), (Some(CloseReason::Local), 0));
    let after = client.submit(call(3));
    assert!(matches!(client.failure(after), TransportError::Unsent(_)));

    let mut connecting = Client::new(policy());
    let waits = connecting.submit(call(1));
    connecting.session.close(connecting.now, &CloseReason::Local);
    connecting.collect();
    assert_eq!(connecting.failure(waits), TransportError::Unsent(CloseReason::Local));
    assert!(connecting.ended.is_some());
    connecting.connect(1024);
    assert!(connecting.sent.is_empty(), "a connection established after the close is not used");
}

#[test]
fn without_reconnection_a_lost_connection_ends_the_session() {
    let mut client = Client::new(Policy { reconnect: None, ..policy() });
    client.connect(1024);
    client.advance(Duration::from_secs(1000));
    assert_eq!(client.closing, None, "without reconnection, the idle connection stays open");
    let (sent, unsent) = (client.submit(call(1)), client.submit(call(2)));
    client.lose_connection(CloseReason::Peer);
    assert_eq!(client.failure(sent), TransportError::Closed(CloseReason::Peer));
    assert_eq!(client.failure(unsent), TransportError::Unsent(CloseReason::Peer));
    assert_eq!((client.ended.clone(), client.connects), (Some(CloseReason::Peer), 0));
}

#[test]
fn h73_a_removed_device_closes_only_its_connections() {
    let events = [
        CloseReason::Io("the device was removed".to_owned()),
        CloseReason::Io("the address has changed".to_owned()),
        CloseReason::Terminated { layer: 0, etype: 1, code: 5 },
    ];
    for event in events {
        let mut client = Client::connected();
        client.submit(call(1));
        client.answer(1);
        assert_eq!(client.replies().len(), 1);
        let calls = [client.submit(with_item(2, 5000)), client.submit(call(3))];
        assert_eq!(client.exposed.len(), 1);
        client.lose_connection(event.clone());
        // While the device is missing, every connection attempt fails.
        for _ in 0..5 {
            client.refuse();
            client.next_timeout();
        }
        assert_eq!((client.connects, client.done.len()), (1, 0), "{event}");
        client.connect(1024);
        client.answer(2);
        client.answer(3);
        assert_eq!(client.replies(), calls, "{event}");

        let mut alone = Client::new(Policy { reconnect: None, ..policy() });
        alone.connect(1024);
        let call = alone.submit(call(4));
        alone.lose_connection(event.clone());
        assert_eq!(alone.failure(call), TransportError::Closed(event.clone()));
        assert_eq!(alone.ended, Some(event));
    }
}

/// Requirement: R179
#[test]
fn a_call_that_cannot_be_sent_fails_at_once_and_alone() {
    let mut client = Client::connected();
    let unbounded = ReplyBounds { unreduced: Size::Unbounded, reduced: Size::Unbounded, ..SMALL };
    let bad = client.submit(SessionCall { bounds: unbounded, ..call(1) });
    let without_xid =
        client.submit(SessionCall { message: Message::unreduced(Bytes::from_static(b"x")), ..call(2) });
    let good = client.submit(call(3));
    assert_eq!(client.failure(bad), TransportError::UnboundedReply);
    assert!(matches!(client.failure(without_xid), TransportError::Unsendable(_)));
    client.answer(3);
    assert_eq!(client.replies(), [good]);
}

/// Requirement: H77
#[test]
fn backward_clock_steps_are_ignored() {
    let mut client = Client::connected();
    client.now = Time(Duration::from_secs(100));
    client.submit(SessionCall { timeout: Some(Duration::from_secs(10)), ..call(1) });
    client.now = Time(Duration::from_secs(1));
    let id = client.submit(SessionCall { timeout: Some(Duration::from_secs(10)), ..call(2) });
    client.session.handle_timeout(Time(Duration::from_secs(109)));
    client.collect();
    assert!(client.done.is_empty());
    client.session.handle_timeout(Time(Duration::from_secs(110)));
    client.collect();
    assert_eq!(client.failure(id), TransportError::Timeout(Duration::from_secs(10)));
}

/// Requirement: R222
#[test]
fn a_client_with_services_stays_connected_without_calls() {
    let mut client = Client::new(Policy { keep: true, ..policy() });
    assert_eq!(
        (client.connects, client.session.poll_timeout()),
        (0, None),
        "the caller starts the first connection"
    );
    client.connect(1024);
    client.advance(Duration::from_secs(3600));
    assert_eq!(client.closing, None, "the connection stays open without calls");
    client.lose_connection(CloseReason::Peer);
    let lost = client.now;
    assert_eq!(client.next_timeout(), lost.after(MS(100)).expect("soon"));
    client.refuse();
    assert_eq!(client.next_timeout(), lost.after(MS(300)).expect("soon"), "the backoff grows");
    assert_eq!(client.connects, 1);
    client.connect(1024);
    client.session.close_when_idle(client.now);
    client.collect();
    client.finish_closing();
    assert_eq!((client.ended.take(), client.connects), (Some(CloseReason::Local), 0));
}
