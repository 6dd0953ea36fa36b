//! The fuzz targets for code that handles octets from a peer. `tests/tests/fuzz_seeds.rs` also runs the
//! targets on their seeds, and runs `header` on captured messages.

use std::collections::{BTreeMap, VecDeque};

use bytes::{Bytes, BytesMut};
use rpcrdma_runtime::proto::iwarp::{Role, Stream, StreamConfig};
use rpcrdma_runtime::proto::rdma::{
    CallKey, Config, MessageLimits, OutgoingCall, ReplyResources, Requester, RequesterEvent, Responder,
    ResponderEvent,
};
use rpcrdma_runtime::proto::work::{Action, CloseReason, Completion, Memory, Segment, Token};
use rpcrdma_runtime::wire::private_data::{MAX_INLINE, Negotiated, PrivateData};
use rpcrdma_runtime::wire::rdma::{
    Body, CallTooLong, Header, Refusal, decode_call, decode_reply, encode_version_error,
};
use rpcrdma_runtime::wire::rpc::{CallHeader, Records, decode_reply as decode_rpc_reply};
use rpcrdma_runtime::xdr::{Message, Reader, Received};

/// Decodes a header with its chunk lists, as a call and as a reply.
///
/// The encoding of a decoded header, together with the payload, must be no longer than the input. If the
/// lengths are equal, the octets must be equal. An ERR_VERS reply must start with the refusal's XID, and a
/// refusal that leads to ERR_CHUNK must have the call's XID.
pub(crate) fn header(data: &[u8]) {
    let message = Bytes::copy_from_slice(data);
    let limits = MessageLimits::default();
    match decode_call(&message, &limits) {
        Ok((header, payload)) => check_encoding(&header, &payload, &message),
        Err(Refusal::Version { xid, version }) => {
            let answer = encode_version_error(xid, version, 1);
            assert_eq!(answer.first_chunk(), Some(&xid.to_be_bytes()));
        }
        Err(Refusal::Chunk { xid, .. } | Refusal::TooLong(CallTooLong { xid, .. })) => {
            assert_eq!(message.first_chunk(), Some(&xid.to_be_bytes()));
        }
        Err(Refusal::Discard(_)) => {}
    }
    if let Ok((header, payload)) = decode_reply(&message, &limits) {
        check_encoding(&header, &payload, &message);
    }
}

fn check_encoding(header: &Header, payload: &Bytes, message: &Bytes) {
    let head = header.clone().encode();
    assert!(head.len() + payload.len() <= message.len(), "{header:?}");
    if head.len() + payload.len() == message.len() {
        assert!(message.starts_with(&head) && message.ends_with(payload), "{header:?}");
    }
}

/// Parses and negotiates private data. The result must be within the bounds of RFC 8797.
pub(crate) fn private_data(data: &[u8]) {
    let theirs = PrivateData::find(data);
    if let Some(theirs) = &theirs {
        assert_eq!(PrivateData::find(&theirs.encode()).as_ref(), Some(theirs));
    }
    let theirs = theirs.unwrap_or(PrivateData::ABSENT);
    for ours in
        [PrivateData::ABSENT, PrivateData::new(true, 4096, 4096), PrivateData::new(true, 1024, MAX_INLINE)]
    {
        for agreed in [PrivateData::negotiate(&ours, &theirs), PrivateData::negotiate(&theirs, &ours)] {
            for threshold in [agreed.call_threshold, agreed.reply_threshold] {
                assert!((1024..=MAX_INLINE).contains(&threshold), "{theirs:?}: {agreed:?}");
            }
            assert!(!agreed.remote_invalidation || (ours.remote_invalidation && theirs.remote_invalidation));
        }
    }
}

/// Passes a stream to [`Records`], all at once and in pieces. The records must be the same in both cases.
/// Also decodes the RPC headers of the records.
pub(crate) fn records(data: &[u8]) {
    let expected = split(data, data.len().max(1));
    for piece in [1, 7] {
        assert_eq!(split(data, piece), expected, "in pieces of {piece} octets");
    }
    for record in &expected.0 {
        let received = Received::unreduced(record.clone());
        let _ = CallHeader::decode(&mut Reader::new(&received));
        let xid = record.first_chunk().map_or(0, |word| u32::from_be_bytes(*word));
        let _ = decode_rpc_reply(&mut Reader::new(&received), xid);
    }
}

fn split(data: &[u8], piece: usize) -> (Vec<Bytes>, bool) {
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
            // Even an empty record has a mark, so the length of the stream bounds the number of records.
            assert!(found.len() <= data.len());
        }
    }
    (found, true)
}

struct Script<'a>(&'a [u8]);

impl<'a> Script<'a> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    /// Reads a two-octet length and returns that many of the following octets, or all that are left.
    fn octets(&mut self) -> &'a [u8] {
        let len = u16::from_be_bytes([self.byte().unwrap_or(0), self.byte().unwrap_or(0)]);
        let (taken, rest) = self.0.split_at(usize::from(len).min(self.0.len()));
        self.0 = rest;
        taken
    }
}

const NEGOTIATED: Negotiated =
    Negotiated { call_threshold: 1024, reply_threshold: 1024, remote_invalidation: true };

/// Runs a responder with messages, completions and replies in an arbitrary order.
///
/// The responder must not have more than [`ORD`] outstanding RDMA Reads, write outside the offered memory, or
/// act after the connection closes.
pub(crate) fn responder(data: &[u8]) {
    let mut script = Script(data);
    let mut responder = Responder::new(Config { credits: 8, ..Config::default() }, NEGOTIATED, ORD);
    let mut peer = Peer::default();
    while let Some(what) = script.byte() {
        peer.act(what, &mut script, &mut responder);
        while let Some(action) = responder.poll_action() {
            if let Action::Close { reason } = action {
                responder.handle_completion(Completion::Closed { reason, returned: Vec::new() });
                while responder.poll_event().is_some() {}
                return assert!(responder.poll_action().is_none() && responder.in_progress() == 0);
            }
            peer.handle_action(action);
        }
        while let Some(event) = responder.poll_event() {
            match event {
                ResponderEvent::Call(call) => peer.calls.push_back(call.key),
                ResponderEvent::Closed(_) => panic!("closed without a close action"),
            }
        }
    }
}

const ORD: u32 = 4;

/// The environment of a responder: a requester, a provider and a program.
#[derive(Default)]
struct Peer {
    /// The outstanding RDMA Reads, with the number of octets that each returns.
    reads: VecDeque<(Token, usize)>,
    sends: VecDeque<Token>,
    calls: VecDeque<CallKey>,
    /// The segments that calls offered for RDMA Writes.
    offered: Vec<Segment>,
}

impl Peer {
    fn act(&mut self, what: u8, script: &mut Script<'_>, responder: &mut Responder) {
        match what % 6 {
            0 | 1 => {
                let message = Bytes::copy_from_slice(script.octets());
                if let Ok((header, _)) = decode_call(&message, &MessageLimits::default()) {
                    self.offered.extend(header_segments(&header));
                }
                responder.handle_completion(Completion::Received { message, invalidated: None });
            }
            2 => {
                let Some((token, len)) = self.reads.pop_front() else { return };
                let data = Bytes::from(vec![what; len]);
                responder.handle_completion(Completion::ReadDone { token, data });
            }
            3 => {
                let Some(key) = self.calls.pop_front() else { return };
                responder.reply(key, Message::unreduced(Bytes::copy_from_slice(script.octets())));
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

    fn handle_action(&mut self, action: Action) {
        match action {
            Action::Read { token, source, part } => {
                let filled = part.is_last(source.length).then_some(part.total);
                let len = filled.map_or(0, |len| usize::try_from(len).expect("a local region's length"));
                self.reads.push_back((token, len));
                assert!(self.reads.len() <= ORD as usize, "{} outstanding RDMA Reads", self.reads.len());
            }
            Action::Write { sink, data, .. } => {
                assert_eq!(sink.length as usize, data.len());
                assert!(
                    self.offered.iter().any(|segment| within(&sink, segment)),
                    "{sink:?} was not offered"
                );
            }
            Action::Send { token, message, .. } => {
                let message: Bytes = message.concat().into();
                assert!((20..=1024).contains(&message.len()), "a reply of {} bytes", message.len());
                assert_ne!(message.get(8..12), Some(&[0; 4][..]), "the reply grants no credits");
                self.sends.push_back(token);
            }
            Action::Register { .. } | Action::Invalidate { .. } | Action::Abandon { .. } => {
                panic!("a responder must not advertise memory")
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

fn within(part: &Segment, segment: &Segment) -> bool {
    part.handle == segment.handle
        && part.offset >= segment.offset
        && part.offset.wrapping_sub(segment.offset).saturating_add(part.length.into())
            <= segment.length.into()
}

/// Runs a requester with a peer that sends arbitrary messages. The calls are short or long, with or without
/// Write and Reply chunks. No call has an eligible item.
///
/// Every call must complete once, at the latest when the connection closes. No handle may be invalidated
/// twice. The outstanding calls must not exceed the requested credits.
pub(crate) fn requester(data: &[u8]) {
    let mut script = Script(data);
    let mut requester = Requester::new(Config { credits: 8, ..Config::default() }, NEGOTIATED, 1 << 20);
    let mut provider = FakeProvider::default();
    let (mut submitted, mut done) = (0u32, 0u32);
    while let Some(what) = script.byte() {
        match what % 4 {
            0 if submitted < 64 => {
                submitted += 1;
                requester.submit(call_of(submitted, what));
            }
            1 => {
                // The first word is an XID, which may match an outstanding call.
                let octets = script.octets();
                let message = Bytes::copy_from_slice(octets);
                let invalidated = (what & 0x80 != 0).then(|| provider.any_handle()).flatten();
                requester.handle_completion(Completion::Received { message, invalidated });
            }
            _ => provider.complete(&mut requester, what & 0x40 != 0),
        }
        while let Some(action) = requester.poll_action() {
            if let Action::Close { reason } = action {
                let returned = provider.take_all();
                requester.handle_completion(Completion::Closed { reason, returned });
                break;
            }
            provider.handle_action(action);
        }
        while let Some(event) = requester.poll_event() {
            match event {
                RequesterEvent::Done { .. } => done += 1,
                RequesterEvent::Closed(_) => {
                    return assert_eq!(
                        done, submitted,
                        "every call must complete when the connection closes"
                    );
                }
            }
        }
        assert!(done <= submitted);
        let credits = requester.credits();
        assert!(credits.granted() >= 1 && credits.outstanding() <= credits.requested(), "{credits:?}");
    }
}

fn call_of(xid: u32, what: u8) -> OutgoingCall {
    let mut stream = BytesMut::from(&xid.to_be_bytes()[..]);
    stream.resize(if what & 0x10 == 0 { 40 } else { 2000 }, what);
    let reply = ReplyResources {
        write_chunks: if what & 0x20 == 0 { Vec::new() } else { vec![512; 2] },
        reply_chunk: (what & 0x40 != 0).then_some(2048),
        memory: None,
    };
    OutgoingCall { message: Message { stream: stream.freeze(), items: Vec::new() }, reply }
}

/// A provider that holds the requester's registered memory and incomplete actions.
#[derive(Default)]
struct FakeProvider {
    handles: u32,
    exposed: BTreeMap<u32, Memory>,
    pending: VecDeque<Action>,
}

impl FakeProvider {
    fn handle_action(&mut self, action: Action) {
        match action {
            Action::Register { .. } | Action::Invalidate { .. } | Action::Send { .. } => {
                self.pending.push_back(action)
            }
            Action::Read { .. } | Action::Write { .. } => {
                panic!("a requester must not submit RDMA Reads or Writes")
            }
            Action::Abandon { .. } => panic!("without a local fence, a requester must not abandon regions"),
            Action::PostReceives { .. } | Action::Close { .. } => {}
        }
    }

    fn complete(&mut self, requester: &mut Requester, fail: bool) {
        let completion = match self.pending.pop_front() {
            Some(Action::Register { token, memory }) if fail => Completion::RegisterFailed { token, memory },
            Some(Action::Register { token, memory }) => {
                self.handles += 1;
                let length = u32::try_from(memory.len()).expect("a small region");
                self.exposed.insert(self.handles, memory);
                let segment = Segment { handle: self.handles, length, offset: 0 };
                Completion::Registered { token, segment }
            }
            Some(Action::Invalidate { token, handle }) => {
                let memory = self.exposed.remove(&handle).expect("a handle is invalidated once");
                Completion::Invalidated { token, handle, memory }
            }
            Some(Action::Send { token, .. }) => Completion::Sent { token },
            _ => return,
        };
        requester.handle_completion(completion);
    }

    fn any_handle(&self) -> Option<u32> {
        self.exposed.keys().next().copied()
    }

    fn take_all(&mut self) -> Vec<Memory> {
        self.pending.clear();
        std::mem::take(&mut self.exposed).into_values().collect()
    }
}

/// Passes octets to an iWARP stream after the MPA handshake, all at once and in pieces.
///
/// The completions must be the same in both cases, and closing must return all memory that is still
/// registered.
pub(crate) fn iwarp(data: &[u8]) {
    let Some((first, octets)) = data.split_first() else { return };
    let (crc, markers) = (first & 1 != 0, first & 2 != 0);
    let expected = completions(octets, octets.len().max(1), crc, markers);
    for piece in [1, 13] {
        assert_eq!(completions(octets, piece, crc, markers), expected, "in pieces of {piece} octets");
    }
}

fn completions(octets: &[u8], piece: usize, crc: bool, markers: bool) -> Vec<String> {
    let config = StreamConfig {
        crc,
        markers_in: markers,
        markers_out: markers,
        ord: 4,
        ird: 4,
        max_region: 1 << 20,
        ..StreamConfig::new(Role::Responder)
    };
    let mut number = 0u64;
    let mut stream = Stream::new(config, move || {
        number += 1;
        Some(number << 32)
    });
    stream.submit(Action::PostReceives { count: 8 });
    stream.submit(Action::Register { token: Token(1), memory: Memory::Source(Bytes::from_static(&[7; 64])) });
    stream.submit(Action::Register { token: Token(2), memory: Memory::Sink(BytesMut::zeroed(64)) });
    let mut completions = Vec::new();
    for piece in octets.chunks(piece) {
        stream.receive(piece);
        // The octets to send depend on when `poll_transmit` is called, so call it only at the end.
        while let Some(completion) = stream.poll_completion() {
            completions.push(format!("{completion:?}"));
        }
    }
    let mut out = VecDeque::new();
    while stream.has_output() {
        assert!(stream.poll_transmit(1 << 16, &mut out) > 0, "`has_output` is true, but there is no output");
    }
    stream.abort(CloseReason::Peer);
    let mut returned = 0;
    while let Some(completion) = stream.poll_completion() {
        if let Completion::Closed { returned: memory, .. } = &completion {
            returned = memory.len();
        }
        completions.push(format!("{completion:?}"));
    }
    assert!(stream.is_closed());
    let invalidated = completions.iter().filter(|one| one.starts_with("Invalidated")).count();
    assert_eq!(returned + invalidated, 2, "closing must return all memory");
    completions
}
