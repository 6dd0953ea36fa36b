//! What the targets do with octets that a peer could send. `tests/tests/fuzz_seeds.rs` does the same with messages of
//! other implementations.

use std::collections::{BTreeMap, VecDeque};

use bytes::{Bytes, BytesMut};
use rpcrdma_runtime::proto::iwarp::{Role, Stream, StreamConfig};
use rpcrdma_runtime::proto::rdma::{
    Call, CallKey, Config, Event, Limits, ReplyResources, Requester, Responder, ResponderEvent,
};
use rpcrdma_runtime::proto::work::{Action, CloseReason, Completion, Memory, Segment, Token};
use rpcrdma_runtime::wire::private_data::{MAX_INLINE, Negotiated, PrivateData};
use rpcrdma_runtime::wire::rdma::{Body, Header, Refusal, decode_call, decode_reply, encode_version_error};
use rpcrdma_runtime::wire::rpc::{CallHeader, Records, decode_reply as decode_rpc_reply};
use rpcrdma_runtime::xdr::{Message, Reader, Received};

/// A header and its chunk lists, as a call and as a reply: what is taken is within the limits and is the same octets
/// when it is encoded again; what is refused has an answer that can be read.
pub(crate) fn header(data: &[u8]) {
    let message = Bytes::copy_from_slice(data);
    let limits = Limits::default();
    match decode_call(&message, &limits) {
        Ok((header, payload)) => again(&header, &payload, &message),
        Err(Refusal::Version { xid, version }) => {
            let answer = encode_version_error(xid, version, 1);
            assert_eq!(answer.first_chunk(), Some(&xid.to_be_bytes()));
        }
        Err(Refusal::Chunk { xid, .. }) => assert_eq!(message.first_chunk(), Some(&xid.to_be_bytes())),
        Err(Refusal::Discard(_)) => {}
    }
    if let Ok((header, payload)) = decode_reply(&message, &limits) {
        again(&header, &payload, &message);
    }
}

fn again(header: &Header, payload: &Bytes, message: &Bytes) {
    let head = header.clone().encode();
    assert!(head.len() + payload.len() <= message.len(), "{header:?}");
    if head.len() + payload.len() == message.len() {
        assert!(message.starts_with(&head) && message.ends_with(payload), "{header:?}");
    }
}

/// Private data: found or not, what is agreed on is within the bounds of RFC 8797.
pub(crate) fn private_data(data: &[u8]) {
    let said = PrivateData::find(data);
    if let Some(said) = &said {
        assert_eq!(PrivateData::find(&said.encode()).as_ref(), Some(said));
    }
    let said = said.unwrap_or(PrivateData::ABSENT);
    for own in
        [PrivateData::ABSENT, PrivateData::new(true, 4096, 4096), PrivateData::new(true, 1024, MAX_INLINE)]
    {
        for agreed in [PrivateData::negotiate(&own, &said), PrivateData::negotiate(&said, &own)] {
            for threshold in [agreed.call_threshold, agreed.reply_threshold] {
                assert!((1024..=MAX_INLINE).contains(&threshold), "{said:?}: {agreed:?}");
            }
            assert!(!agreed.remote_invalidation || (own.remote_invalidation && said.remote_invalidation));
        }
    }
}

/// RPC over TCP: records cut out of a stream, whole or in pieces, and the headers of RPC in them.
pub(crate) fn records(data: &[u8]) {
    let whole = taken(data, data.len().max(1));
    for piece in [1, 7] {
        assert_eq!(taken(data, piece), whole, "in pieces of {piece}");
    }
    for record in &whole.0 {
        let received = Received::whole(record.clone());
        let _ = CallHeader::decode(&mut Reader::new(&received));
        let xid = record.first_chunk().map_or(0, |word| u32::from_be_bytes(*word));
        let _ = decode_rpc_reply(&mut Reader::new(&received), xid);
    }
}

fn taken(data: &[u8], piece: usize) -> (Vec<Bytes>, bool) {
    let mut records = Records::new(4096);
    let (mut input, mut found) = (BytesMut::new(), Vec::new());
    for piece in data.chunks(piece) {
        input.extend_from_slice(piece);
        loop {
            match records.next(&mut input) {
                Ok(Some(record)) => found.push(record),
                Ok(None) => break,
                Err(_) => return (found, false),
            }
            // Empty records cost a mark each: a stream of them ends with it.
            assert!(found.len() <= data.len());
        }
    }
    (found, true)
}

/// Octets that say what happens next, one after another.
struct Script<'a>(&'a [u8]);

impl<'a> Script<'a> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    /// As many octets as two octets say, as far as there are any.
    fn octets(&mut self) -> &'a [u8] {
        let len = u16::from_be_bytes([self.byte().unwrap_or(0), self.byte().unwrap_or(0)]);
        let (taken, rest) = self.0.split_at(usize::from(len).min(self.0.len()));
        self.0 = rest;
        taken
    }
}

const NEGOTIATED: Negotiated =
    Negotiated { call_threshold: 1024, reply_threshold: 1024, remote_invalidation: true };

/// A responder that hears what the script says, in any order: messages, results of its Reads, the end. It asks for no
/// more Reads than were agreed on, writes nothing that was not offered, and says nothing after its end.
pub(crate) fn responder(data: &[u8]) {
    let mut script = Script(data);
    let mut responder = Responder::new(Config { credits: 8, ..Config::default() }, NEGOTIATED, READS);
    let mut peer = Peer::default();
    while let Some(what) = script.byte() {
        peer.act(what, &mut script, &mut responder);
        while let Some(action) = responder.poll_action() {
            if let Action::Close { reason } = action {
                responder.handle_completion(Completion::Closed { reason, returned: Vec::new() });
                while responder.poll_event().is_some() {}
                return assert!(responder.poll_action().is_none() && responder.in_progress() == 0);
            }
            peer.take(action);
        }
        while let Some(event) = responder.poll_event() {
            match event {
                ResponderEvent::Call(call) => peer.calls.push_back(call.key),
                ResponderEvent::Closed(_) => panic!("nobody closed it"),
            }
        }
    }
}

/// RDMA Reads that the responder may have outstanding.
const READS: u32 = 4;

/// What is around a responder: a requester, a provider and a program.
#[derive(Default)]
struct Peer {
    reads: VecDeque<(Token, u32)>,
    sends: VecDeque<Token>,
    calls: VecDeque<CallKey>,
    /// All memory that a call offered to be written.
    offered: Vec<Segment>,
}

impl Peer {
    fn act(&mut self, what: u8, script: &mut Script<'_>, responder: &mut Responder) {
        match what % 6 {
            0 | 1 => {
                let message = Bytes::copy_from_slice(script.octets());
                if let Ok((header, _)) = decode_call(&message, &Limits::default()) {
                    self.offered.extend(header_segments(&header));
                }
                responder.handle_completion(Completion::Received { message, invalidated: None });
            }
            2 => {
                let Some((token, length)) = self.reads.pop_front() else { return };
                let data = Bytes::from(vec![what; length as usize]);
                responder.handle_completion(Completion::ReadDone { token, data });
            }
            3 => {
                let Some(key) = self.calls.pop_front() else { return };
                responder.reply(key, Message::whole(Bytes::copy_from_slice(script.octets())));
            }
            4 => {
                let Some(token) = self.sends.pop_front() else { return };
                responder.handle_completion(Completion::Sent { token });
            }
            _ => {
                let Some(key) = self.calls.pop_back() else { return };
                responder.drop_call(key);
            }
        }
    }

    fn take(&mut self, action: Action) {
        match action {
            Action::Read { token, source } => {
                self.reads.push_back((token, source.length));
                assert!(self.reads.len() <= READS as usize, "{} Reads at once", self.reads.len());
            }
            Action::Write { sink, data, .. } => {
                assert_eq!(sink.length as usize, data.len());
                assert!(self.offered.iter().any(|one| within(&sink, one)), "{sink:?} was not offered");
            }
            Action::Send { token, message, .. } => {
                let message: Bytes = message.concat().into();
                assert!((20..=1024).contains(&message.len()), "a reply of {} bytes", message.len());
                assert_ne!(message.get(8..12), Some(&[0; 4][..]), "a grant of 0");
                self.sends.push_back(token);
            }
            Action::Register { .. } | Action::Invalidate { .. } | Action::Abandon { .. } => {
                panic!("a responder advertises nothing")
            }
            Action::PostReceives { .. } | Action::Close { .. } => {}
        }
    }
}

fn header_segments(header: &Header) -> Vec<Segment> {
    match &header.body {
        Body::Msg(lists) | Body::NoMsg(lists) => {
            let writes = lists.writes.iter().chain(&lists.reply).flat_map(|chunk| chunk.0.iter().copied());
            writes.collect()
        }
        Body::Error(_) => Vec::new(),
    }
}

fn within(part: &Segment, whole: &Segment) -> bool {
    part.handle == whole.handle
        && part.offset >= whole.offset
        && part.offset.wrapping_sub(whole.offset).saturating_add(part.length.into()) <= whole.length.into()
}

/// A requester with calls of each kind and a peer that answers what the script says. Each call ends once, with all of its
/// memory fenced, and never more are out than were granted.
pub(crate) fn requester(data: &[u8]) {
    let mut script = Script(data);
    let mut requester = Requester::new(Config { credits: 8, ..Config::default() }, NEGOTIATED, 1 << 20);
    let mut fence = Fence::default();
    let (mut submitted, mut done) = (0u32, 0u32);
    while let Some(what) = script.byte() {
        match what % 4 {
            0 if submitted < 64 => {
                submitted += 1;
                requester.submit(call_of(submitted, what));
            }
            1 => {
                // The first word names a call that is out, or one that never was.
                let octets = script.octets();
                let message = Bytes::copy_from_slice(octets);
                let invalidated = (what & 0x80 != 0).then(|| fence.any()).flatten();
                requester.handle_completion(Completion::Received { message, invalidated });
            }
            _ => fence.complete(&mut requester, what & 0x40 != 0),
        }
        while let Some(action) = requester.poll_action() {
            if let Action::Close { reason } = action {
                let returned = fence.all();
                requester.handle_completion(Completion::Closed { reason, returned });
                break;
            }
            fence.take(action);
        }
        while let Some(event) = requester.poll_event() {
            match event {
                Event::Done { .. } => done += 1,
                Event::Closed(_) => {
                    return assert_eq!(done, submitted, "every call ends with the connection");
                }
            }
        }
        assert!(done <= submitted);
        let credits = requester.credits();
        assert!(credits.granted() >= 1 && credits.in_flight() <= credits.asked(), "{credits:?}");
    }
}

fn call_of(xid: u32, what: u8) -> Call {
    let mut stream = BytesMut::from(&xid.to_be_bytes()[..]);
    stream.resize(if what & 0x10 == 0 { 40 } else { 2000 }, what);
    let reply = ReplyResources {
        write_chunks: if what & 0x20 == 0 { Vec::new() } else { vec![512; 2] },
        reply_chunk: (what & 0x40 != 0).then_some(2048),
    };
    Call { message: Message { stream: stream.freeze(), items: Vec::new() }, reply }
}

/// The memory that a requester has handed out, and work that waits to be completed.
#[derive(Default)]
struct Fence {
    handles: u32,
    exposed: BTreeMap<u32, Memory>,
    waiting: VecDeque<Action>,
}

impl Fence {
    fn take(&mut self, action: Action) {
        match action {
            Action::Register { .. } | Action::Invalidate { .. } | Action::Send { .. } => {
                self.waiting.push_back(action)
            }
            Action::Abandon { .. } => panic!("its provider has no local fence"),
            Action::Read { .. } | Action::Write { .. } => panic!("a requester neither reads nor writes"),
            Action::PostReceives { .. } | Action::Close { .. } => {}
        }
    }

    fn complete(&mut self, requester: &mut Requester, fail: bool) {
        let completion = match self.waiting.pop_front() {
            Some(Action::Register { token, memory }) if fail => Completion::RegisterFailed { token, memory },
            Some(Action::Register { token, memory }) => {
                self.handles += 1;
                let length = u32::try_from(memory.len()).expect("a small region");
                self.exposed.insert(self.handles, memory);
                let segment = Segment { handle: self.handles, length, offset: 0 };
                Completion::Registered { token, segment }
            }
            Some(Action::Invalidate { token, handle }) => {
                let memory = self.exposed.remove(&handle).expect("a handle is fenced once");
                Completion::Invalidated { token, handle, memory }
            }
            Some(Action::Send { token, .. }) => Completion::Sent { token },
            _ => return,
        };
        requester.handle_completion(completion);
    }

    fn any(&self) -> Option<u32> {
        self.exposed.keys().next().copied()
    }

    fn all(&mut self) -> Vec<Memory> {
        self.waiting.clear();
        std::mem::take(&mut self.exposed).into_values().collect()
    }
}

/// iWARP's stream behind the MPA frames, whole and in pieces: the same is heard, and memory comes back with the end.
pub(crate) fn iwarp(data: &[u8]) {
    let Some((first, octets)) = data.split_first() else { return };
    let crc = first & 1 != 0;
    let whole = heard(octets, octets.len().max(1), crc);
    for piece in [1, 13] {
        assert_eq!(heard(octets, piece, crc), whole, "in pieces of {piece}");
    }
}

fn heard(octets: &[u8], piece: usize, crc: bool) -> Vec<String> {
    let config = StreamConfig {
        role: Role::Responder,
        receive_size: 1024,
        max_fpdu: 1436,
        crc,
        reads_out: 4,
        reads_in: 4,
        max_region: 1 << 20,
    };
    let mut number = 0u64;
    let mut stream = Stream::new(config, move || {
        number += 1;
        Some(number << 32)
    });
    stream.submit(Action::PostReceives { count: 8 });
    stream.submit(Action::Register { token: Token(1), memory: Memory::Source(Bytes::from_static(&[7; 64])) });
    stream.submit(Action::Register { token: Token(2), memory: Memory::Sink(BytesMut::zeroed(64)) });
    let mut heard = Vec::new();
    for piece in octets.chunks(piece) {
        stream.receive(piece);
        // What it sends depends on when it is asked, so it is asked at the end only.
        while let Some(completion) = stream.poll_completion() {
            heard.push(format!("{completion:?}"));
        }
    }
    let mut out = VecDeque::new();
    while stream.has_output() {
        assert!(stream.poll_transmit(1 << 16, &mut out) > 0, "there is output, and nothing comes");
    }
    stream.abort(CloseReason::Peer);
    let mut returned = 0;
    while let Some(completion) = stream.poll_completion() {
        if let Completion::Closed { returned: memory, .. } = &completion {
            returned = memory.len();
        }
        heard.push(format!("{completion:?}"));
    }
    assert!(stream.is_closed());
    let invalidated = heard.iter().filter(|one| one.starts_with("Invalidated")).count();
    assert_eq!(returned + invalidated, 2, "memory comes back");
    heard
}
