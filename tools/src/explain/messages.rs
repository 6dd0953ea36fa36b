//! Decodes iWARP from the bytes of one direction: an MPA frame, then RDMAP messages.

use bytes::Bytes;
use rpcrdma_runtime::wire::iwarp::rdmap::{QUEUE_READ_REQUEST, QUEUE_SEND, QUEUE_TERMINATE};
use rpcrdma_runtime::wire::iwarp::{
    Code, DdpHeader, FrameHeader, FrameKind, Markers, Opcode, ReadDepths, ReadRequest, Terminate, fpdu, mpa,
};

use super::stream::Piece;

/// The maximum stored length of an untagged message, in bytes: twice the largest inline threshold of RFC
/// 8797.
const SEND_KEPT: usize = 512 << 10;
/// The maximum length of the stored data of an RDMA Read or Write, in bytes: enough for most RPC messages.
const HEAD_KEPT: usize = 64 << 10;

#[derive(Clone, Debug)]
pub(super) struct PeerMessage {
    /// The time of the first byte, in nanoseconds since 1970.
    pub(super) start: u64,
    /// The time of the last byte.
    pub(super) time: u64,
    pub(super) kind: MessageKind,
}

#[derive(Clone, Debug)]
pub(super) enum MessageKind {
    /// The MPA request or reply: its header, RDMA Read depths, and private data.
    Frame(FrameHeader, Option<ReadDepths>, Vec<u8>),
    /// A Send, and the handle that it invalidates, if any.
    Send(Bytes, Option<u32>),
    Write(Placed),
    ReadRequest(ReadRequest),
    ReadResponse(Placed),
    /// A Terminate, with its error code if the code can be parsed.
    Terminate(Option<Code>),
    Problem(String),
}

/// Data placed in the receiver's memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Placed {
    pub(super) handle: u32,
    pub(super) offset: u64,
    pub(super) len: u64,
    pub(super) segments: u64,
    /// The first bytes, at most [`HEAD_KEPT`].
    pub(super) head: Vec<u8>,
    start: u64,
    /// The time of the last segment.
    time: u64,
}

#[derive(Debug, Default)]
pub(super) struct Decoder {
    state: State,
    /// Received bytes. The bytes before `at` are decoded.
    buffer: Vec<u8>,
    at: usize,
    /// The time of the first undecoded byte.
    since: u64,
    /// True if the peers agreed on CRCs; `None` if no MPA reply was decoded.
    pub(super) crc: Option<bool>,
    /// True if the receiver requires markers.
    pub(super) marked: bool,
    markers: Markers,
    untagged: [Option<Untagged>; 3],
    write: Option<Placed>,
    response: Option<Placed>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// Nothing has been decoded yet.
    #[default]
    Beginning,
    /// Consecutive FPDUs.
    Fpdus,
    /// FPDUs, but the start of the next FPDU is unknown.
    Searching,
    /// Not iWARP, or iWARP with markers at unknown positions. Nothing more is decoded.
    Foreign,
}

/// An incomplete untagged message.
#[derive(Debug)]
struct Untagged {
    start: u64,
    octets: Vec<u8>,
    /// The number of bytes so far, including those not stored.
    len: u64,
    broken: bool,
}

impl Decoder {
    /// Returns true if the decoder is in sync and the last message is incomplete.
    #[must_use]
    pub(super) fn is_cut(&self) -> bool {
        let reads = matches!(self.state, State::Beginning | State::Fpdus);
        let partial =
            self.untagged.iter().any(Option::is_some) || self.write.is_some() || self.response.is_some();
        reads && (self.at < self.buffer.len() || partial)
    }

    /// Decodes the next bytes, or reports missing bytes. `from_start` is true if the capture contains the
    /// start of the direction.
    pub(super) fn take(&mut self, piece: Piece<'_>, from_start: bool, mut emit: impl FnMut(PeerMessage)) {
        match piece {
            Piece::Lost { time, octets } => {
                if self.state != State::Foreign {
                    let text = format!("bytes of TCP that are not in the capture: {octets}");
                    emit(PeerMessage { start: time, time, kind: MessageKind::Problem(text) });
                    self.lose_sync();
                }
            }
            Piece::Octets { time, octets } => {
                if self.state == State::Beginning && !from_start && !begins_frame(octets) {
                    self.state = State::Searching;
                }
                match self.state {
                    State::Foreign => return,
                    State::Searching if !may_be_fpdu(octets) => return,
                    State::Searching => self.state = State::Fpdus,
                    State::Beginning | State::Fpdus => {}
                }
                if self.at == self.buffer.len() {
                    self.buffer.clear();
                    (self.at, self.since) = (0, time);
                }
                self.buffer.extend_from_slice(octets);
                self.read(time, &mut emit);
                // The undecoded bytes are an incomplete MPA frame or FPDU.
                self.buffer.drain(..self.at);
                self.at = 0;
            }
        }
    }

    /// Records that the start of the next FPDU is unknown. If the direction has markers, their positions are
    /// also unknown, and decoding stops.
    fn lose_sync(&mut self) {
        self.buffer.clear();
        self.at = 0;
        if self.state != State::Foreign {
            self.state = if self.marked { State::Foreign } else { State::Searching };
        }
        for message in self.untagged.iter_mut().flatten() {
            message.broken = true;
        }
    }

    fn read(&mut self, time: u64, emit: &mut impl FnMut(PeerMessage)) {
        loop {
            let used = match self.state {
                State::Beginning => self.frame(time, emit),
                State::Fpdus => self.fpdu(time, emit),
                State::Searching | State::Foreign => {
                    self.buffer.clear();
                    self.at = 0;
                    return;
                }
            };
            let Some(used) = used else { return };
            self.at = self.at.saturating_add(used);
            self.since = time;
        }
    }

    fn rest(&self) -> &[u8] {
        self.buffer.get(self.at..).unwrap_or_default()
    }

    /// Decodes the MPA frame. Returns the number of bytes used, or `None` if the frame is incomplete.
    fn frame(&mut self, time: u64, emit: &mut impl FnMut(PeerMessage)) -> Option<usize> {
        let rest = self.rest();
        if !begins_frame(rest) {
            self.state = State::Foreign;
            return Some(0);
        }
        let (head, rest) = rest.split_first_chunk::<{ mpa::HEADER_LEN }>()?;
        let kind =
            if head.starts_with(FrameKind::Request.key()) { FrameKind::Request } else { FrameKind::Reply };
        let header = match FrameHeader::parse(kind, head) {
            Ok(header) => header,
            Err(error) => {
                emit(PeerMessage { start: self.since, time, kind: MessageKind::Problem(error.to_string()) });
                self.state = State::Foreign;
                return Some(0);
            }
        };
        let data = rest.get(..usize::from(header.private_data_len))?;
        let (depths, private) = match ReadDepths::split(data) {
            Ok((depths, private)) if header.enhanced => (Some(depths), private),
            _ => (None, data),
        };
        let used = mpa::HEADER_LEN.saturating_add(data.len());
        let kind = MessageKind::Frame(header, depths, private.to_vec());
        emit(PeerMessage { start: self.since, time, kind });
        self.state = State::Fpdus;
        Some(used)
    }

    /// Decodes an FPDU. Returns the number of bytes used, or `None` if the FPDU is incomplete.
    fn fpdu(&mut self, time: u64, emit: &mut impl FnMut(PeerMessage)) -> Option<usize> {
        let rest = self.buffer.get(self.at..)?;
        let len = if self.marked { self.markers.fpdu_len(rest)? } else { fpdu::len(rest)? };
        let octets = rest.get(..len)?;
        let crc = self.crc == Some(true);
        let mut plain = Vec::new();
        let opened = if self.marked {
            let mut markers = self.markers;
            self.markers.skip(len);
            markers.remove(octets, crc, &mut plain).and_then(|()| fpdu::open(&plain, false))
        } else {
            fpdu::open(octets, crc)
        };
        let start = self.since;
        let mut problem = |text: String| emit(PeerMessage { start, time, kind: MessageKind::Problem(text) });
        let segment = match opened {
            Ok(segment) => segment,
            Err(error) => {
                problem(error.to_string());
                return Some(len);
            }
        };
        let parsed =
            DdpHeader::parse(segment).map_err(|error| error.to_string()).and_then(|(header, payload)| {
                let opcode = Opcode::from_control(header.control()).map_err(|error| error.to_string())?;
                Ok((header, opcode, Bytes::copy_from_slice(payload)))
            });
        match parsed {
            Ok((header, opcode, payload)) => self.segment(header, opcode, &payload, (start, time), emit),
            Err(error) => {
                problem(error);
                self.lose_sync();
                return Some(0);
            }
        }
        Some(len)
    }

    fn segment(
        &mut self,
        header: DdpHeader,
        opcode: Opcode,
        payload: &[u8],
        (start, time): (u64, u64),
        emit: &mut impl FnMut(PeerMessage),
    ) {
        match header {
            DdpHeader::Tagged { last, stag, offset, .. } => {
                let new = Placed { handle: stag, offset, len: 0, segments: 0, head: Vec::new(), start, time };
                self.tagged(new, opcode, payload, last, time, emit);
            }
            DdpHeader::Untagged { last, word, queue, offset, .. } => {
                let slot = usize::try_from(queue).ok().and_then(|queue| self.untagged.get_mut(queue));
                let Some(slot) = slot.filter(|_| queue_of(opcode) == Some(queue)) else {
                    return emit(problem(time, "an untagged segment for the wrong queue"));
                };
                if offset == 0 {
                    *slot = None;
                }
                let new = || Untagged { start, octets: Vec::new(), len: 0, broken: false };
                let message = slot.get_or_insert_with(new);
                message.add(u64::from(offset), payload);
                if let Some(message) = slot.take_if(|_| last) {
                    emit(message.finish(opcode, word, time));
                }
            }
        }
    }

    fn tagged(
        &mut self,
        new: Placed,
        opcode: Opcode,
        payload: &[u8],
        last: bool,
        time: u64,
        emit: &mut impl FnMut(PeerMessage),
    ) {
        let slot = match opcode {
            Opcode::Write => &mut self.write,
            Opcode::ReadResponse => &mut self.response,
            _ => return emit(problem(time, "a tagged segment with the opcode of an untagged message")),
        };
        let is_write = opcode == Opcode::Write;
        let mut finish = |placed: Placed| {
            let (start, time) = (placed.start, placed.time);
            let kind = if is_write { MessageKind::Write(placed) } else { MessageKind::ReadResponse(placed) };
            emit(PeerMessage { start, time, kind });
        };
        // If the segment does not continue the previous operation, the capture lacks that operation's end.
        if let Some(placed) = slot.take_if(|placed| !placed.continues_at(new.handle, new.offset)) {
            finish(placed);
        }
        slot.get_or_insert(new).add(payload, time);
        if let Some(placed) = slot.take_if(|_| last) {
            finish(placed);
        }
    }
}

fn problem(time: u64, text: &str) -> PeerMessage {
    PeerMessage { start: time, time, kind: MessageKind::Problem(text.to_owned()) }
}

fn queue_of(opcode: Opcode) -> Option<u32> {
    match opcode {
        Opcode::Send { .. } => Some(QUEUE_SEND),
        Opcode::ReadRequest => Some(QUEUE_READ_REQUEST),
        Opcode::Terminate => Some(QUEUE_TERMINATE),
        Opcode::Write | Opcode::ReadResponse => None,
    }
}

impl Placed {
    fn continues_at(&self, handle: u32, offset: u64) -> bool {
        self.handle == handle && self.offset.wrapping_add(self.len) == offset
    }

    fn add(&mut self, payload: &[u8], time: u64) {
        self.time = time;
        let room = HEAD_KEPT.saturating_sub(self.head.len()).min(payload.len());
        self.head.extend_from_slice(payload.get(..room).unwrap_or_default());
        self.len = self.len.saturating_add(u64::try_from(payload.len()).unwrap_or(0));
        self.segments = self.segments.saturating_add(1);
    }
}

impl Untagged {
    fn add(&mut self, offset: u64, payload: &[u8]) {
        self.broken |= offset != self.len;
        let room = SEND_KEPT.saturating_sub(self.octets.len()).min(payload.len());
        self.octets.extend_from_slice(payload.get(..room).unwrap_or_default());
        self.len = self.len.saturating_add(u64::try_from(payload.len()).unwrap_or(0));
    }

    fn finish(self, opcode: Opcode, word: u32, time: u64) -> PeerMessage {
        let kind = match opcode {
            _ if self.broken => MessageKind::Problem("a message with a missing part".to_owned()),
            Opcode::ReadRequest => match ReadRequest::parse(&self.octets) {
                Some(request) => MessageKind::ReadRequest(request),
                None => MessageKind::Problem("an invalid RDMA Read Request".to_owned()),
            },
            Opcode::Terminate => MessageKind::Terminate(Terminate::read_code(&self.octets)),
            Opcode::Send { invalidate, .. } => {
                MessageKind::Send(self.octets.into(), invalidate.then_some(word))
            }
            Opcode::Write | Opcode::ReadResponse => {
                MessageKind::Problem("an untagged segment with the opcode of a tagged message".to_owned())
            }
        };
        PeerMessage { start: self.start, time, kind }
    }
}

/// Returns true if the bytes are, or may become, the start of an MPA frame.
fn begins_frame(octets: &[u8]) -> bool {
    FrameKind::Request.may_begin_with(octets) || FrameKind::Reply.may_begin_with(octets)
}

/// Returns true if the bytes of a TCP segment look like the start of an FPDU. The check is strict,
/// because after missing bytes, the segment may start in the middle of an FPDU.
fn may_be_fpdu(octets: &[u8]) -> bool {
    const RESERVED_DDP: u8 = 0x3c;
    const RESERVED_RDMAP: u8 = 0x30;
    let Some((length, rest)) = octets.split_first_chunk::<{ fpdu::LENGTH_LEN }>() else { return false };
    let ulpdu = usize::from(u16::from_be_bytes(*length));
    let Ok((header, _)) = DdpHeader::parse(rest) else { return false };
    let Ok(opcode) = Opcode::from_control(header.control()) else { return false };
    let reserved =
        rest.first().is_some_and(|octet| octet & RESERVED_DDP != 0) || header.control() & RESERVED_RDMAP != 0;
    let right_queue = match header {
        DdpHeader::Untagged { queue, .. } => queue_of(opcode) == Some(queue),
        DdpHeader::Tagged { .. } => opcode.is_tagged(),
    };
    ulpdu >= header.wire_len() && !reserved && right_queue
}
