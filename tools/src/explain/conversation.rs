//! Assembles the calls of one connection from the messages of its peers.

use std::collections::{HashMap, VecDeque};

use bytes::Bytes;
use rpcrdma_runtime::wire::iwarp::mpa::NOT_NEGOTIATED;
use rpcrdma_runtime::wire::iwarp::{FrameHeader, FrameKind, ReadDepths, ReadRequest};
use rpcrdma_runtime::wire::private_data::PrivateData;
use rpcrdma_runtime::wire::rdma::{
    Body, CallTooLong, ChunkLists, Direction, ErrorBody, Header, MessageLimits, Refusal, ReplyRefusal,
    decode_call, decode_reply, direction,
};
use rpcrdma_runtime::wire::rpc::{ReplyError, decode_reply as decode_rpc_reply};
use rpcrdma_runtime::xdr::Reader;

use super::call::{Call, CalledProcedure, Chunk, Operation, Peer, Place, Reply, Status};
use super::messages::{MessageKind, PeerMessage, Placed};
use super::values::Parts;

/// Returns the limits for decoding a header. The limits exceed those of all known peers, and bound the number
/// of stored segments of a call.
fn limits() -> MessageLimits {
    MessageLimits {
        max_segments: 4096,
        max_write_chunks: 4096,
        max_transfer: u64::MAX,
        ..MessageLimits::default()
    }
}

/// An event that is not part of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The time, in nanoseconds since 1970.
    pub time: u64,
    /// The peer that caused the event, if exactly one peer did.
    pub by: Option<Peer>,
    /// The description.
    pub text: String,
    /// True if the event is a problem.
    pub problem: bool,
}

#[derive(Clone, Copy, Debug)]
struct OutstandingRead {
    request: ReadRequest,
    /// The indices of the call and of its operation, if known.
    operation: Option<(usize, usize)>,
}

impl OutstandingRead {
    fn is_answered_by(&self, response: &Placed) -> bool {
        let ReadRequest { sink_stag, sink_offset, length, .. } = self.request;
        let from = response.offset.checked_sub(sink_offset);
        response.handle == sink_stag && from.is_some_and(|from| from == 0 || from < length.into())
    }

    /// Returns true if the response contains the last requested byte.
    fn is_completed_by(&self, response: &Placed) -> bool {
        let end = self.request.sink_offset.saturating_add(self.request.length.into());
        response.offset.saturating_add(response.len) >= end
    }
}

/// The calls and other events of a connection.
#[derive(Debug, Default)]
pub struct Conversation {
    /// The calls, in the order of their Sends.
    pub calls: Vec<Call>,
    /// The stored events that are not part of a call.
    pub notes: Vec<Note>,
    /// The number of events that are not stored. At most 10,000 are stored, because a capture can have
    /// millions of invalid frames.
    pub more_notes: u64,
    /// The number of events that are problems.
    pub problems: u64,
    /// True if the peers agreed on CRCs; `None` if no MPA reply was decoded.
    pub crc: Option<bool>,
    /// True if the connection is certainly iWARP: an MPA frame, a call or a reply was decoded.
    pub(super) is_certain: bool,
    /// Whether the client and the server, in this order, send markers.
    pub(super) markers: [bool; 2],
    /// The peak numbers of outstanding calls of the client and of the server, in this order.
    pub max_outstanding: [usize; 2],
    /// The indices of outstanding calls, by caller and XID.
    open: HashMap<(Peer, u32), usize>,
    open_count: [usize; 2],
    /// The index of the call that last offered a handle, by caller and handle.
    memory: HashMap<(Peer, u32), usize>,
    /// The outstanding Reads of the client and of the server, in this order, each oldest first.
    reads: [VecDeque<OutstandingRead>; 2],
    private: [Option<PrivateData>; 2],
    requested_crc: Option<bool>,
    /// The size of the stored parts of calls without a reply, in bytes.
    kept: usize,
    /// The length of all arguments and results as text, in bytes.
    values: usize,
}

const MAX_NOTES: usize = 10_000;
/// The maximum number of stored outstanding Reads of a peer. Further requests replace the oldest.
const MAX_READS: usize = 1024;
/// The limit for the stored parts of a connection's calls without a reply, in bytes. The data of one
/// RDMA operation may take the total above the limit. Further data is not stored.
const KEPT_MAX: usize = 4 << 20;
/// The length of a connection's arguments and results as text, in bytes, above which the arguments and
/// results of later calls are not shown.
const VALUES_MAX: usize = 16 << 20;

pub(super) fn index(peer: Peer) -> usize {
    match peer {
        Peer::Client => 0,
        Peer::Server => 1,
    }
}

impl Conversation {
    pub(super) fn receive(&mut self, by: Peer, message: PeerMessage) {
        let PeerMessage { start, time, kind } = message;
        match kind {
            MessageKind::Frame(header, depths, private) => self.frame(by, time, &header, depths, &private),
            MessageKind::Send(octets, invalidated) => self.send(by, start, &octets, invalidated),
            MessageKind::Write(placed) => self.write(by, start, time, &placed),
            MessageKind::ReadRequest(request) => self.read(by, start, &request),
            MessageKind::ReadResponse(placed) => self.response(by, time, &placed),
            MessageKind::Terminate(code) => {
                let why = code.map_or_else(|| "invalid error code".to_owned(), |code| code.to_string());
                self.note(by, time, format!("Terminate: {why}"), true);
            }
            MessageKind::Problem(text) => self.note(by, time, text, true),
        }
    }

    pub(super) fn note(
        &mut self,
        by: impl Into<Option<Peer>>,
        time: u64,
        text: impl Into<String>,
        problem: bool,
    ) {
        self.problems += u64::from(problem);
        if self.notes.len() < MAX_NOTES {
            self.notes.push(Note { time, by: by.into(), text: text.into(), problem });
        } else {
            self.more_notes += 1;
        }
    }

    fn frame(
        &mut self,
        by: Peer,
        time: u64,
        header: &FrameHeader,
        depths: Option<ReadDepths>,
        private: &[u8],
    ) {
        self.is_certain = true;
        let refused = header.reject && header.kind == FrameKind::Reply;
        self.note(by, time, frame_words(header, depths, private), refused);
        if let Some(markers) = self.markers.get_mut(index(by.other())) {
            *markers = header.markers;
        }
        if let Some(place) = self.private.get_mut(index(by)) {
            *place = Some(PrivateData::find(private).unwrap_or(PrivateData::ABSENT));
        }
        match header.kind {
            FrameKind::Request => self.requested_crc = Some(header.crc),
            FrameKind::Reply => self.crc = Some(header.crc || self.requested_crc == Some(true)),
        }
        if let ([Some(client), Some(server)], FrameKind::Reply, false) = (self.private, header.kind, refused)
        {
            let limits = PrivateData::negotiate(&client, &server);
            let invalidation = if limits.remote_invalidation { "" } else { "no " };
            let text = format!(
                "inline: calls up to {} bytes, replies up to {}; {invalidation}remote invalidation",
                limits.call_threshold, limits.reply_threshold
            );
            self.note(None, time, text, false);
        }
    }

    fn send(&mut self, by: Peer, time: u64, octets: &Bytes, invalidated: Option<u32>) {
        if octets.is_empty() {
            return self.note(by, time, "zero-length Send: ready-to-receive message", false);
        }
        match direction(octets) {
            Some(Direction::Call) => self.call(by, time, octets),
            Some(Direction::Reply) => self.reply(by, time, octets, invalidated),
            // A Send for a long reply has no RPC message, so only its XID identifies the Send as a reply.
            None if self.call_answered(by, octets).is_some() => self.reply(by, time, octets, invalidated),
            None => {
                let why = match decode_call(octets, &limits()) {
                    Err(refusal) => format!(": {}", refused(refusal)),
                    Ok(_) => String::new(),
                };
                let text = format!("message of {} bytes is neither a call nor a reply{why}", octets.len());
                self.note(by, time, text, true);
            }
        }
    }

    /// Returns the index of the other peer's outstanding call with the XID of this message, if any.
    fn call_answered(&self, by: Peer, octets: &[u8]) -> Option<usize> {
        let xid = u32::from_be_bytes(*octets.first_chunk()?);
        self.open.get(&(by.other(), xid)).copied()
    }

    fn call(&mut self, by: Peer, time: u64, octets: &Bytes) {
        let (header, payload) = match decode_call(octets, &limits()) {
            Ok(decoded) => decoded,
            Err(refusal) => {
                return self.note(by, time, format!("invalid call: {}", refused(refusal)), true);
            }
        };
        self.is_certain = true;
        let Header { xid, credits, body } = header;
        let (long, lists) = match body {
            Body::Msg(lists) => (false, lists),
            Body::NoMsg(lists) => (true, lists),
            Body::Error(_) => (false, ChunkLists::default()),
        };
        let at = self.calls.len();
        for segment in lists.segments() {
            self.memory.insert((by, segment.handle), at);
        }
        if self.open.insert((by, xid), at).is_none()
            && let Some(count) = self.open_count.get_mut(index(by))
        {
            *count = count.saturating_add(1);
        }
        let outstanding = self.open_count.get(index(by)).copied().unwrap_or(0);
        if let Some(max) = self.max_outstanding.get_mut(index(by)) {
            *max = outstanding.max(*max);
        }
        let mut call = Call {
            by: Some(by),
            time,
            xid,
            len: octets.len(),
            long,
            credits,
            places: Place::all(&lists),
            lists,
            outstanding,
            ..Call::default()
        };
        call.name(&payload);
        if self.values > VALUES_MAX {
            call.codec = None;
        }
        call.parts.stream = payload;
        if call.lists.reads.is_empty() {
            self.values = self.values.saturating_add(call.decode_arguments());
            call.parts = Parts::default();
        }
        if self.kept.saturating_add(call.parts.len()) > KEPT_MAX {
            (call.parts, call.codec) = (Parts::default(), None);
        }
        self.kept = self.kept.saturating_add(call.parts.len());
        self.calls.push(call);
    }

    fn reply(&mut self, by: Peer, time: u64, octets: &Bytes, invalidated: Option<u32>) {
        let (header, payload) = match decode_reply(octets, &limits()) {
            Ok(decoded) => decoded,
            Err(refusal) => {
                let why = match refusal {
                    ReplyRefusal::Discard(why) => why.to_owned(),
                    ReplyRefusal::Fail { why, .. } => why,
                    ReplyRefusal::BackwardCall { .. } => "the message is a call".to_owned(),
                };
                return self.note(by, time, format!("invalid reply: {why}"), true);
            }
        };
        self.is_certain = true;
        let Some(at) = self.open.remove(&(by.other(), header.xid)) else {
            let text = format!("reply to call {:#010x}, which is not in the capture", header.xid);
            return self.note(by, time, text, false);
        };
        if let Some(count) = self.open_count.get_mut(index(by.other())) {
            *count = count.saturating_sub(1);
        }
        let Some(call) = self.calls.get_mut(at) else { return };
        self.values = self.values.saturating_add(call.decode_arguments());
        let len = octets.len();
        let mut reply = Reply { time, len, credits: header.credits, invalidated, ..Reply::default() };
        match header.body {
            Body::Msg(lists) => {
                reply.status = status(call.procedure, call.xid, &payload);
                reply.lists = lists;
                reply.results = call.results(&reply.lists, Some(payload));
            }
            Body::NoMsg(lists) => {
                (reply.long, reply.lists) = (true, lists);
                reply.status = call.written.take().unwrap_or_default();
                reply.results = call.results(&reply.lists, None);
            }
            Body::Error(ErrorBody::Version { low, high }) => {
                reply.status = Status::Transport(format!("ERR_VERS, versions {low} to {high}"));
            }
            Body::Error(ErrorBody::Chunk) => reply.status = Status::Transport("ERR_CHUNK".to_owned()),
        }
        self.values = self.values.saturating_add(reply.results.as_ref().map_or(0, String::len));
        call.reply = Some(reply);
        self.kept = self.kept.saturating_sub(std::mem::take(&mut call.parts).len());
    }

    pub(super) fn finish(&mut self, time: u64) {
        for call in self.calls.iter_mut().filter(|call| call.reply.is_none()) {
            call.decode_arguments();
        }
        if self.values > VALUES_MAX {
            self.note(None, time, "the arguments and results of later calls are not shown", false);
        }
    }

    fn write(&mut self, by: Peer, start: u64, time: u64, placed: &Placed) {
        let Placed { handle, offset, len, segments, .. } = *placed;
        let known = self.memory.get(&(by.other(), handle)).and_then(|at| self.calls.get_mut(*at));
        let Some(call) = known else {
            if len == 0 {
                return self.note(by, start, "zero-length RDMA Write", false);
            }
            let text = format!("RDMA Write of {len} bytes to {handle:#010x}, which no call has offered");
            return self.note(by, start, text, true);
        };
        let place = call.chunk_at(handle, offset, false);
        if place == Some((Chunk::Reply, 0)) {
            call.written = Some(status(call.procedure, call.xid, &placed.head));
        }
        keep(&mut self.kept, call, place, &placed.head);
        let chunk = place.map(|(chunk, _)| chunk);
        call.operations.push(Operation {
            time: start,
            done: Some(time),
            chunk,
            is_read: false,
            handle,
            offset,
            len,
            received: len,
            segments,
        });
    }

    fn read(&mut self, by: Peer, time: u64, request: &ReadRequest) {
        let ReadRequest { length, source_stag: handle, source_offset: offset, .. } = *request;
        let known = self.memory.get(&(by.other(), handle)).copied();
        let place = known.and_then(|at| self.calls.get_mut(at).map(|call| (at, call))).map(|(at, call)| {
            let chunk = call.chunk_at(handle, offset, true).map(|(chunk, _)| chunk);
            let len = u64::from(length);
            let (done, is_read, received, segments) = (None, true, 0, 0);
            call.operations.push(Operation {
                time,
                done,
                chunk,
                is_read,
                handle,
                offset,
                len,
                received,
                segments,
            });
            (at, call.operations.len().saturating_sub(1))
        });
        if place.is_none() {
            let text = format!("RDMA Read of {length} bytes of {handle:#010x}, which no call has offered");
            self.note(by, time, text, length > 0);
        }
        if let Some(reads) = self.reads.get_mut(index(by)) {
            reads.push_back(OutstandingRead { request: *request, operation: place });
            if reads.len() > MAX_READS {
                reads.pop_front();
            }
        }
    }

    /// Adds a response to its RDMA Read. Responses arrive in request order (RFC 5040 section 5.5).
    fn response(&mut self, by: Peer, time: u64, placed: &Placed) {
        let answered = self.reads.get_mut(index(by.other())).and_then(|reads| {
            let at = reads.iter().position(|read| read.is_answered_by(placed))?;
            // If earlier requests are still outstanding, the capture lacks their responses. It may also lack
            // a part of this response.
            reads.drain(..at);
            let read = *reads.front()?;
            if read.is_completed_by(placed) { reads.pop_front() } else { Some(read) }
        });
        let Some(OutstandingRead { operation, .. }) = answered else {
            let text = format!("response of {} bytes to an RDMA Read that is not in the capture", placed.len);
            return self.note(by, time, text, false);
        };
        let Some((call, operation)) = operation else { return };
        let Some(call) = self.calls.get_mut(call) else { return };
        let Some(operation) = call.operations.get_mut(operation) else { return };
        operation.done = Some(time);
        operation.received = operation.received.saturating_add(placed.len);
        operation.segments = operation.segments.saturating_add(placed.segments);
        let (handle, offset) = (operation.handle, operation.offset);
        let place = call.chunk_at(handle, offset, true);
        if call.procedure.is_none() && place == Some((Chunk::Read(0), 0)) {
            call.name(&placed.head);
        }
        keep(&mut self.kept, call, place, &placed.head);
    }
}

fn frame_words(header: &FrameHeader, depths: Option<ReadDepths>, private: &[u8]) -> String {
    let kind = match (header.kind, header.reject) {
        (FrameKind::Request, _) => "request",
        (FrameKind::Reply, false) => "reply",
        (FrameKind::Reply, true) => "reply: rejected",
    };
    let crc = if header.crc { "CRC" } else { "no CRC" };
    let markers = if header.markers { ", markers" } else { "" };
    let mut text = format!("MPA {kind}, revision {}, {crc}{markers}", header.revision);
    if let Some(depths) = depths {
        let depth = |value: u16| match value {
            NOT_NEGOTIATED => "not negotiated".to_owned(),
            value => value.to_string(),
        };
        text += &format!(", IRD {}, ORD {}", depth(depths.ird), depth(depths.ord));
        text += if depths.peer_to_peer { ", peer to peer" } else { "" };
    }
    text + &match PrivateData::find(private) {
        Some(data) => {
            let invalidation = if data.remote_invalidation { "" } else { " no" };
            let PrivateData { send_size, receive_size, .. } = data;
            format!(
                "; private data: sends up to {send_size} bytes, receives up to {receive_size};{invalidation} \
                 remote invalidation"
            )
        }
        None if private.is_empty() => "; no private data".to_owned(),
        None => format!("; private data of {} bytes, not in the format of RFC 8797", private.len()),
    }
}

fn refused(refusal: Refusal) -> String {
    match refusal {
        Refusal::Discard(why) => why.to_owned(),
        Refusal::Version { version, .. } => format!("unsupported RPC-over-RDMA version {version}"),
        Refusal::Chunk { why, .. } => why,
        Refusal::TooLong(CallTooLong { bytes, max, .. }) => {
            format!("{bytes} bytes in Read chunks, limit {max}")
        }
    }
}

/// Stores the data that RDMA moved for a call, unless the call already has a reply or the stored data of the
/// connection has reached [`KEPT_MAX`].
fn keep(kept: &mut usize, call: &mut Call, place: Option<(Chunk, u64)>, data: &[u8]) {
    if let Some((chunk, offset)) = place.filter(|_| *kept < KEPT_MAX && call.reply.is_none()) {
        *kept = kept.saturating_add(call.parts.add(chunk, offset, data));
    }
}

/// Returns the status of a reply, given the first bytes of its RPC message.
fn status(procedure: Option<CalledProcedure>, xid: u32, message: &[u8]) -> Status {
    let mut reader = Reader::from_slice(message);
    match decode_rpc_reply(&mut reader, xid) {
        Ok(()) => {
            let results = message.get(message.len().saturating_sub(reader.remaining())..).unwrap_or_default();
            procedure.map_or(Status::Success, |procedure| procedure.status(results))
        }
        Err(ReplyError::Malformed(_) | ReplyError::NotTheReply) => Status::Unknown,
        Err(why) => Status::Rejected(why.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::{Conversation, MAX_NOTES};

    #[test]
    fn excess_notes_are_counted_but_not_stored() {
        let mut conversation = Conversation::default();
        for time in 0..MAX_NOTES + 50 {
            conversation.note(None, time as u64, "an empty frame", time % 2 == 0);
        }
        assert_eq!((conversation.notes.len(), conversation.more_notes), (MAX_NOTES, 50));
        assert_eq!(conversation.problems, (MAX_NOTES as u64 + 50) / 2);
    }
}
