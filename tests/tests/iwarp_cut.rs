//! A whole conversation over iWARP without a network: MPA's request and reply, a call with a Read chunk, one
//! with a Write chunk. The stream of octets is cut at each of them, in each direction.

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
use rpcrdma_sim::{Args, Echo, Res, Want, call};

/// The client's end, and the server's.
const LEFT: usize = 0;
const RIGHT: usize = 1;
const NOW: Time = Time(std::time::Duration::ZERO);
const SIZE: u32 = 4096;

/// The side that first notices the cut. The other one still processes data in flight.
#[derive(Clone, Copy, Debug)]
enum First {
    Receiver,
    Sender,
}

/// The octet of one side's output at which the stream is cut.
#[derive(Clone, Copy, Debug)]
struct Cut {
    from: usize,
    at: u64,
    first: First,
}

/// Registrations of one side whose memory has not returned.
#[derive(Debug, Default)]
struct Out {
    registered: usize,
    back: usize,
}

impl Out {
    fn asked(&mut self, action: &Action) {
        self.registered += usize::from(matches!(action, Action::Register { .. }));
    }

    fn heard(&mut self, completion: &Completion) {
        self.back += match completion {
            Completion::RegisterFailed { .. } | Completion::Invalidated { .. } => 1,
            Completion::Closed { returned, .. } => returned.len(),
            _ => 0,
        };
    }
}

/// The results of a run.
#[derive(Debug, Default)]
struct Came {
    /// The outcome of each call, by XID.
    ended: BTreeMap<u32, Result<IncomingReply, TransportError>>,
    /// The number of executions of each.
    run: BTreeMap<u32, u32>,
    /// Octets that each end has sent.
    sent: [u64; 2],
}

/// Both sides, and the network between them.
struct Conversation {
    session: Session<Requester>,
    ids: BTreeMap<CallId, u32>,
    responder: Option<Responder>,
    services: Services,
    streams: Option<[Stream; 2]>,
    out: [Out; 2],
    framing: Framing,
    cut: Option<Cut>,
    is_cut: bool,
    came: Came,
    over: bool,
}

/// The settings of both sides.
#[derive(Clone, Copy, Debug)]
struct Framing {
    crc: bool,
    markers: bool,
}

fn offer(Framing { crc, markers }: Framing) -> Offer {
    Offer { crc, markers, ird: 4, ord: 4 }
}

fn config() -> Config {
    // Small, so that little is enough for chunks.
    Config { credits: 4, private_data: PrivateData::new(true, 1024, 1024), ..Config::default() }
}

/// The first has an item that goes in a Read chunk, the second gets one in a Write chunk.
fn arguments(xid: u32) -> Args {
    let want = Want { note: 1, item: if xid == 2 { 1200 } else { 9 }, other: 0 };
    Args::new(xid, [if xid == 1 { 1200 } else { 5 }, 2, 3], want)
}

fn at_once<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("it waits"),
    }
}

/// A complete frame: its header, its depths, and its private data.
fn frame(kind: FrameKind, octets: &[u8]) -> Option<(FrameHeader, ReadDepths, Bytes)> {
    let (head, rest) = octets.split_first_chunk::<{ mpa::HEADER_LEN }>()?;
    let header = FrameHeader::parse(kind, head).expect("a good frame");
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
            out: [Out::default(), Out::default()],
            framing,
            cut,
            is_cut: false,
            came: Came::default(),
            over: false,
        }
    }

    /// The octets of one side that arrive.
    fn carry(&mut self, from: usize, mut octets: Vec<u8>) -> Vec<u8> {
        let before = self.came.sent[from];
        self.came.sent[from] += octets.len() as u64;
        if let Some(cut) = self.cut.filter(|cut| cut.from == from && self.came.sent[from] > cut.at) {
            octets.truncate(usize::try_from(cut.at.saturating_sub(before)).expect("small"));
            self.is_cut = true;
        }
        octets
    }

    /// MPA's request and reply. False if one of them is incomplete.
    fn connect(&mut self) -> bool {
        let said = config().private_data.encode();
        let offer = offer(self.framing);
        let request = offer.request(&said).expect("short private data");
        let request = self.carry(LEFT, request);
        let Some((header, depths, client)) = frame(FrameKind::Request, &request) else { return false };
        let (agreed, depths) = offer.answer(&header, Some(depths)).expect("the same offers");
        let answer = offer.reply(&header, false, depths, &said).expect("short private data");
        self.be_connected(RIGHT, agreed, &client);
        let answer = self.carry(RIGHT, answer);
        let Some((header, depths, server)) = frame(FrameKind::Reply, &answer) else { return false };
        let agreed = offer.conclude(&header, Some(depths)).expect("the same offers");
        self.be_connected(LEFT, agreed, &server);
        true
    }

    fn be_connected(&mut self, end: usize, agreed: Agreed, peer: &[u8]) {
        let own = config().private_data;
        let peer = PrivateData::find(peer).expect("it says its sizes");
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
                // The left one is made when it has the reply.
                let other = Stream::new(agreed.stream(Role::Initiator, SIZE, 600, 1 << 20), || Some(7));
                self.streams = Some([other, stream]);
            }
            (_, streams) => {
                let [_, right] = streams.expect("the responder's");
                self.streams = Some([stream, right]);
                let negotiated = PrivateData::negotiate(&own, &peer);
                self.session.handle_connected(NOW, Requester::new(config(), negotiated, 1 << 20));
            }
        }
    }

    fn play(mut self) -> Came {
        assert!(matches!(self.session.poll_event(), Some(SessionEvent::Connect)));
        if self.connect() {
            while self.step() {}
            if self.is_cut {
                self.handle_cut();
            } else {
                self.session.close_when_idle(NOW);
                while self.step() {}
            }
        } else {
            assert!(self.is_cut);
            // A side that waits for a frame learns that the stream is lost and that no more octets follow.
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
        self.came
    }

    /// One side learns that the stream is cut, and its further output is lost. Later the other side learns
    /// of it.
    fn handle_cut(&mut self) {
        let Cut { from, first, .. } = self.cut.expect("it is cut");
        let first = match first {
            First::Receiver => 1 - from,
            First::Sender => from,
        };
        for end in [first, 1 - first] {
            let streams = self.streams.as_mut().expect("they were connected");
            streams[end].abort(CloseReason::Io("the stream was cut".to_owned()));
            while self.step() {}
        }
    }

    /// Lets every part do all that it can. Returns false if there was no progress.
    fn step(&mut self) -> bool {
        let Some(mut streams) = self.streams.take() else { return self.hear() };
        let mut moved = self.work(&mut streams);
        for from in [LEFT, RIGHT] {
            let mut pieces = VecDeque::new();
            let len = streams[from].poll_transmit(SIZE as usize, &mut pieces);
            let octets: Vec<u8> = pieces.into_iter().flatten().collect();
            let is_gone = self.is_cut && self.cut.is_some_and(|cut| cut.from == from);
            if len > 0 && !is_gone {
                let octets = self.carry(from, octets);
                streams[1 - from].receive(&octets);
            }
            moved |= len > 0;
            if !streams[from].is_open()
                && !streams[from].has_output()
                && !streams[from].is_closed()
                && !is_gone
            {
                // Its side is closed; the other one closes its own.
                streams[1 - from].abort(CloseReason::Peer);
                streams[from].abort(CloseReason::Peer);
            }
        }
        self.streams = Some(streams);
        self.hear() || moved
    }

    /// Moves actions and completions between engine and stream.
    fn work(&mut self, streams: &mut [Stream; 2]) -> bool {
        let [left, right] = streams;
        let mut moved = false;
        if let Some(requester) = self.session.requester_mut() {
            while let Some(action) = requester.poll_action() {
                self.out[LEFT].asked(&action);
                left.submit(action);
                moved = true;
            }
        }
        while let Some(action) = self.responder.as_mut().and_then(Responder::poll_action) {
            self.out[RIGHT].asked(&action);
            right.submit(action);
            moved = true;
        }
        while let Some(completion) = left.poll_completion() {
            self.out[LEFT].heard(&completion);
            if let Some(requester) = self.session.requester_mut() {
                requester.handle_completion(completion);
            }
            moved = true;
        }
        while let Some(completion) = right.poll_completion() {
            self.out[RIGHT].heard(&completion);
            self.responder.as_mut().expect("a responder").handle_completion(completion);
            moved = true;
        }
        moved
    }

    /// Processes the events of the engines. Returns false if there are none.
    fn hear(&mut self) -> bool {
        let mut heard = false;
        self.session.process_events(NOW);
        while let Some(event) = self.session.poll_event() {
            heard = true;
            match event {
                SessionEvent::Done { call, outcome } => {
                    let xid = self.ids.remove(&call).expect("a call ends once");
                    self.came.ended.insert(xid, outcome);
                }
                SessionEvent::Ended(_) => self.over = true,
                SessionEvent::Disconnected(_) => {}
                SessionEvent::Connect => panic!("it does not connect again"),
            }
        }
        while let Some(event) = self.responder.as_mut().and_then(Responder::poll_event) {
            heard = true;
            let ResponderEvent::Call(call) = event else { continue };
            *self.came.run.entry(call.xid).or_default() += 1;
            let reply = at_once(self.services.answer(&call.message, None)).expect("a call");
            self.responder.as_mut().expect("a responder").reply(call.key, reply);
        }
        heard
    }

    fn check_end(&self) {
        let Conversation { ids, streams, out, cut, over, came, .. } = self;
        assert!(ids.is_empty() && *over, "{cut:?}: it never ended: {ids:?}");
        for Out { registered, back } in out {
            assert_eq!(registered, back, "{cut:?}: memory is still registered");
        }
        assert!(came.run.values().all(|times| *times == 1), "{cut:?}: {:?}", came.run);
        assert!(streams.iter().flatten().all(Stream::is_closed), "{cut:?}: an end is still there");
        for (xid, outcome) in &came.ended {
            match outcome {
                Ok(reply) => {
                    assert!(came.run.contains_key(xid), "{cut:?}: a reply to a call that was not run");
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

/// Cuts a conversation at every octet.
fn cut_everywhere(framing: Framing) {
    let whole = Conversation::new(framing, None).play();
    let traffic: Vec<_> =
        whole.ended.values().map(|outcome| outcome.as_ref().expect("nothing is cut").traffic).collect();
    assert!(traffic[0].read_chunks > 0 && traffic[1].write_bytes >= 1200, "{traffic:?}");
    assert!(whole.sent.iter().all(|octets| *octets > 1500), "{:?}", whole.sent);
    // The number of calls with a reply, and of executed calls without one.
    let mut seen = BTreeMap::<(usize, usize), u32>::new();
    for from in [LEFT, RIGHT] {
        for at in 0..whole.sent[from] {
            for first in [First::Receiver, First::Sender] {
                let came = Conversation::new(framing, Some(Cut { from, at, first })).play();
                let replies = came.ended.values().filter(|outcome| outcome.is_ok()).count();
                *seen.entry((replies, came.run.len() - replies)).or_default() += 1;
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
