//! A complete conversation over iWARP without a network: MPA's request and reply, a call with a Read chunk,
//! and a call with a Write chunk. The tests cut the stream at every octet of each direction.

use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use rpcrdma_runtime::Services;
use rpcrdma_runtime::program::Procedure;
use rpcrdma_runtime::proto::iwarp::{Agreed, Offer, Role, Stream};
use rpcrdma_runtime::proto::rdma::{
    CallId, Config, IncomingReply, Requester, Responder, ResponderEvent, TransportError,
};
use rpcrdma_runtime::proto::session::{Policy, Session, SessionCall, SessionEvent};
use rpcrdma_runtime::proto::time::Time;
use rpcrdma_runtime::proto::work::{Action, CloseReason, Completion};
use rpcrdma_runtime::wire::iwarp::mpa::{self, FrameHeader, FrameKind, ReadDepths};
use rpcrdma_runtime::wire::private_data::PrivateData;
use rpcrdma_runtime::wire::rpc::decode_reply;
use rpcrdma_runtime::xdr::{Decode, Reader};
use rpcrdma_sim::{Args, Echo, Res, ResultLengths, call};

/// The client is on the left, and the server on the right.
const LEFT: usize = 0;
const RIGHT: usize = 1;
const NOW: Time = Time(std::time::Duration::ZERO);
const SIZE: u32 = 4096;

/// The peer that first notices the cut. The other peer still processes outstanding data.
#[derive(Clone, Copy, Debug)]
enum First {
    Receiver,
    Sender,
}

/// The octet of one peer's output at which the stream is cut, and the peer that notices the cut first.
#[derive(Clone, Copy, Debug)]
struct Cut {
    from: usize,
    at: u64,
    first: First,
}

#[derive(Debug, Default)]
struct Registrations {
    registered: usize,
    returned: usize,
}

impl Registrations {
    fn count_action(&mut self, action: &Action) {
        self.registered += usize::from(matches!(action, Action::Register { .. }));
    }

    fn count_completion(&mut self, completion: &Completion) {
        self.returned += match completion {
            Completion::RegisterFailed { .. } | Completion::Invalidated { .. } => 1,
            Completion::Closed { returned: memory, .. } => memory.len(),
            _ => 0,
        };
    }
}

#[derive(Debug, Default)]
struct Outcome {
    /// The outcome of each call, by XID.
    ended: BTreeMap<u32, Result<IncomingReply, TransportError>>,
    /// The number of executions of each call, by XID.
    executed: BTreeMap<u32, u32>,
    sent: [u64; 2],
}

struct Conversation {
    session: Session<Requester>,
    ids: BTreeMap<CallId, u32>,
    responder: Option<Responder>,
    services: Services,
    streams: Option<[Stream; 2]>,
    registrations: [Registrations; 2],
    framing: Framing,
    cut: Option<Cut>,
    is_cut: bool,
    outcome: Outcome,
    over: bool,
}

#[derive(Clone, Copy, Debug)]
struct Framing {
    crc: bool,
    markers: bool,
}

fn offer(Framing { crc, markers }: Framing) -> Offer {
    Offer { crc, markers, ird: 4, ord: 4 }
}

fn config() -> Config {
    // With small thresholds, an item of 1,200 bytes needs a chunk.
    Config { credits: 4, private_data: PrivateData::new(true, 1024, 1024), ..Config::default() }
}

/// The first call sends an item in a Read chunk. The second call gets an item in a Write chunk.
fn arguments(xid: u32) -> Args {
    let want = ResultLengths { note: 1, item: if xid == 2 { 1200 } else { 9 }, other: 0 };
    Args::new(xid, [if xid == 1 { 1200 } else { 5 }, 2, 3], want)
}

fn poll_once<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("the future is not ready"),
    }
}

fn frame(kind: FrameKind, octets: &[u8]) -> Option<(FrameHeader, ReadDepths, Bytes)> {
    let (head, rest) = octets.split_first_chunk::<{ mpa::HEADER_LEN }>()?;
    let header = FrameHeader::parse(kind, head).expect("a valid frame");
    if rest.len() < usize::from(header.private_data_len) {
        return None;
    }
    let (depths, rest) = ReadDepths::split(rest).expect("an enhanced frame");
    Some((header, depths, Bytes::copy_from_slice(rest)))
}

impl Conversation {
    fn new(framing: Framing, cut: Option<Cut>) -> Self {
        let mut services = Services::new();
        services.add(Echo);
        let policy = Policy { reconnect: None, ..Policy::default() };
        let mut session = Session::new(policy, 1);
        let mut ids = BTreeMap::new();
        for xid in [1, 2] {
            let args = arguments(xid);
            let bounds = Echo::reply_bounds(&args);
            let message = call(xid, &args, 64);
            let call = SessionCall { message, bounds, timeout: None, retransmit: None, memory: None };
            ids.insert(session.submit(NOW, call), xid);
        }
        Conversation {
            session,
            ids,
            responder: None,
            services,
            streams: None,
            registrations: [Registrations::default(), Registrations::default()],
            framing,
            cut,
            is_cut: false,
            outcome: Outcome::default(),
            over: false,
        }
    }

    /// Counts the octets that a peer sends, and applies the cut. Returns the octets that reach the other
    /// peer.
    fn relay(&mut self, from: usize, mut octets: Vec<u8>) -> Vec<u8> {
        let before = self.outcome.sent[from];
        self.outcome.sent[from] += octets.len() as u64;
        if let Some(cut) = self.cut.filter(|cut| cut.from == from && self.outcome.sent[from] > cut.at) {
            octets.truncate(usize::try_from(cut.at.saturating_sub(before)).expect("small"));
            self.is_cut = true;
        }
        octets
    }

    /// Exchanges MPA's request and reply. Returns false if the cut leaves either incomplete.
    fn connect(&mut self) -> bool {
        let private_data = config().private_data.encode();
        let offer = offer(self.framing);
        let request = offer.request(&private_data).expect("short private data");
        let request = self.relay(LEFT, request);
        let Some((header, depths, client)) = frame(FrameKind::Request, &request) else { return false };
        let (agreed, depths) = offer.answer(&header, Some(depths)).expect("the offers are equal");
        let answer = offer.reply(&header, false, depths, &private_data).expect("short private data");
        self.set_connected(RIGHT, agreed, &client);
        let answer = self.relay(RIGHT, answer);
        let Some((header, depths, server)) = frame(FrameKind::Reply, &answer) else { return false };
        let agreed = offer.conclude(&header, Some(depths)).expect("the offers are equal");
        self.set_connected(LEFT, agreed, &server);
        true
    }

    fn set_connected(&mut self, end: usize, agreed: Agreed, peer: &[u8]) {
        let own = config().private_data;
        let peer = PrivateData::find(peer).expect("private data with sizes");
        let role = if end == LEFT { Role::Initiator } else { Role::Responder };
        let mut random = u64::try_from(end).expect("small") + 1;
        let entropy = move || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99);
            Some(random)
        };
        let stream = Stream::new(agreed.stream(role, SIZE, 600, 1 << 20), entropy);
        match (end, self.streams.take()) {
            (RIGHT, _) => {
                let negotiated = PrivateData::negotiate(&peer, &own);
                self.responder = Some(Responder::new(config(), negotiated, agreed.ord));
                // A placeholder until the left peer has received the MPA reply.
                let other = Stream::new(agreed.stream(Role::Initiator, SIZE, 600, 1 << 20), || Some(7));
                self.streams = Some([other, stream]);
            }
            (_, streams) => {
                let [_, right] = streams.expect("the responder's stream");
                self.streams = Some([stream, right]);
                let negotiated = PrivateData::negotiate(&own, &peer);
                self.session.handle_connected(NOW, Requester::new(config(), negotiated, 1 << 20));
            }
        }
    }

    fn play(mut self) -> Outcome {
        assert!(matches!(self.session.poll_event(), Some(SessionEvent::Connect)));
        if self.connect() {
            while !self.is_cut && self.step() {}
            if self.is_cut {
                self.handle_cut();
            } else {
                self.session.close_when_idle(NOW);
                while self.step() {}
            }
        } else {
            assert!(self.is_cut);
            // A peer that waits for a frame learns only that the stream has ended.
            self.session.handle_connect_failed(NOW, "the stream was cut".to_owned());
            if let Some([left, right]) = &mut self.streams {
                left.abort(CloseReason::Peer);
                right.abort(CloseReason::Peer);
            }
            while self.step() {}
        }
        self.session.close_when_idle(NOW);
        while self.step() {}
        self.check_end();
        self.outcome
    }

    /// Ends the connection for the peer that notices the cut first. The further output of this peer is lost.
    /// Ends the connection for the other peer once the other peer has processed the outstanding data.
    fn handle_cut(&mut self) {
        let Cut { from, first, .. } = self.cut.expect("the stream is cut");
        let first = match first {
            First::Receiver => 1 - from,
            First::Sender => from,
        };
        for end in [first, 1 - first] {
            let streams = self.streams.as_mut().expect("the peers are connected");
            streams[end].abort(CloseReason::Io("the stream was cut".to_owned()));
            while self.step() {}
        }
    }

    /// Runs both peers and the network once. Returns false if nothing changed.
    fn step(&mut self) -> bool {
        let Some(mut streams) = self.streams.take() else { return self.poll_events() };
        let mut moved = self.exchange(&mut streams);
        for from in [LEFT, RIGHT] {
            let mut pieces = VecDeque::new();
            let len = streams[from].poll_transmit(SIZE as usize, &mut pieces);
            let octets: Vec<u8> = pieces.into_iter().flatten().collect();
            let is_lost = self.is_cut && self.cut.is_some_and(|cut| cut.from == from);
            if len > 0 && !is_lost {
                let octets = self.relay(from, octets);
                streams[1 - from].receive(&octets);
            }
            moved |= len > 0;
            if !streams[from].is_open()
                && !streams[from].has_output()
                && !streams[from].is_closed()
                && !is_lost
            {
                // This peer has closed the stream, so the connection ends for both peers.
                streams[1 - from].abort(CloseReason::Peer);
                streams[from].abort(CloseReason::Peer);
            }
        }
        self.streams = Some(streams);
        self.poll_events() || moved
    }

    /// Moves actions and completions between the engines and the streams.
    fn exchange(&mut self, streams: &mut [Stream; 2]) -> bool {
        let [left, right] = streams;
        let mut moved = false;
        if let Some(requester) = self.session.requester_mut() {
            while let Some(action) = requester.poll_action() {
                self.registrations[LEFT].count_action(&action);
                left.submit(action);
                moved = true;
            }
        }
        while let Some(action) = self.responder.as_mut().and_then(Responder::poll_action) {
            self.registrations[RIGHT].count_action(&action);
            right.submit(action);
            moved = true;
        }
        while let Some(completion) = left.poll_completion() {
            self.registrations[LEFT].count_completion(&completion);
            if let Some(requester) = self.session.requester_mut() {
                requester.handle_completion(completion);
            }
            moved = true;
        }
        while let Some(completion) = right.poll_completion() {
            self.registrations[RIGHT].count_completion(&completion);
            self.responder.as_mut().expect("a responder").handle_completion(completion);
            moved = true;
        }
        moved
    }

    fn poll_events(&mut self) -> bool {
        let mut found = false;
        self.session.process_events(NOW);
        while let Some(event) = self.session.poll_event() {
            found = true;
            match event {
                SessionEvent::Done { call, outcome } => {
                    let xid = self.ids.remove(&call).expect("a call ends once");
                    self.outcome.ended.insert(xid, outcome);
                }
                SessionEvent::Ended(_) => self.over = true,
                SessionEvent::Disconnected(_) => {}
                SessionEvent::Connect => panic!("the session must not reconnect"),
            }
        }
        while let Some(event) = self.responder.as_mut().and_then(Responder::poll_event) {
            found = true;
            let ResponderEvent::Call(call) = event else { continue };
            *self.outcome.executed.entry(call.xid).or_default() += 1;
            let reply = poll_once(self.services.answer(&call.message, None)).expect("a call");
            self.responder.as_mut().expect("a responder").reply(call.key, reply);
        }
        found
    }

    fn check_end(&self) {
        let Conversation { ids, streams, registrations, cut, over, outcome, .. } = self;
        assert!(ids.is_empty() && *over, "{cut:?}: calls without an outcome: {ids:?}");
        for Registrations { registered, returned } in registrations {
            assert_eq!(registered, returned, "{cut:?}: memory is still registered");
        }
        assert!(outcome.executed.values().all(|times| *times == 1), "{cut:?}: {:?}", outcome.executed);
        assert!(streams.iter().flatten().all(Stream::is_closed), "{cut:?}: a stream is still open");
        for (xid, result) in &outcome.ended {
            match result {
                Ok(reply) => {
                    assert!(outcome.executed.contains_key(xid), "{cut:?}: a reply to a call that never ran");
                    check_reply(reply, *xid);
                }
                Err(
                    TransportError::Closed(_) | TransportError::Unsent(_) | TransportError::Unreachable(_),
                ) => {}
                Err(other) => panic!("{cut:?}: {other}"),
            }
        }
    }
}

fn check_reply(reply: &IncomingReply, xid: u32) {
    let mut reader = Reader::new(&reply.message);
    decode_reply(&mut reader, xid).expect("the reply to this call");
    assert_eq!(Res::decode(&mut reader).expect("a result"), arguments(xid).result());
}

fn cut_everywhere(framing: Framing) {
    let uncut = Conversation::new(framing, None).play();
    let traffic: Vec<_> = uncut
        .ended
        .values()
        .map(|outcome| outcome.as_ref().expect("the stream is not cut").traffic)
        .collect();
    assert!(traffic[0].read_chunks > 0 && traffic[1].write_bytes >= 1200, "{traffic:?}");
    assert!(uncut.sent.iter().all(|octets| *octets > 1500), "{:?}", uncut.sent);
    // Counts the runs by the number of replies and the number of executed calls without a reply.
    let mut seen = BTreeMap::<(usize, usize), u32>::new();
    for from in [LEFT, RIGHT] {
        for at in 0..uncut.sent[from] {
            for first in [First::Receiver, First::Sender] {
                let outcome = Conversation::new(framing, Some(Cut { from, at, first })).play();
                let replies = outcome.ended.values().filter(|outcome| outcome.is_ok()).count();
                *seen.entry((replies, outcome.executed.len() - replies)).or_default() += 1;
            }
        }
    }
    for kind in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        assert!(seen.contains_key(&kind), "{framing:?}, {kind:?}: {seen:?}");
    }
}

/// Requirement: H60
#[test]
fn every_call_ends_once_and_returns_its_memory_at_every_cut() {
    cut_everywhere(Framing { crc: true, markers: false });
    cut_everywhere(Framing { crc: false, markers: false });
}

/// Requirement: R900, H60
#[test]
fn markers_do_not_change_outcomes() {
    cut_everywhere(Framing { crc: true, markers: true });
    cut_everywhere(Framing { crc: false, markers: true });
}
