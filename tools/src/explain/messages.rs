//! iWARP out of a direction's octets: the MPA frame that it begins with, then RDMAP messages.

use bytes::Bytes;
use rpcrdma_runtime::wire::iwarp::rdmap::{QUEUE_READ_REQUEST, QUEUE_SEND, QUEUE_TERMINATE};
use rpcrdma_runtime::wire::iwarp::{
    Code, DdpHeader, FrameHeader, FrameKind, Markers, Opcode, ReadDepths, ReadRequest, Terminate, fpdu, mpa,
};

use super::stream::Piece;

/// The stored part of a Send: longer than any inline threshold that can be announced.
const SEND_KEPT: usize = 512 << 10;
/// What is kept of the data of a Read or Write: enough for most RPC messages.
const HEAD_KEPT: usize = 64 << 10;

/// A message of one peer.
#[derive(Clone, Debug)]
pub(super) struct Said {
    /// The time of its first octet, in nanoseconds since 1970.
    pub(super) begun: u64,
    /// The time of its last octet.
    pub(super) time: u64,
    /// Its contents.
    pub(super) what: What,
}

/// The kinds of messages.
#[derive(Clone, Debug)]
pub(super) enum What {
    /// The MPA request or reply.
    Frame(FrameHeader, Option<ReadDepths>, Vec<u8>),
    /// A Send, and the handle that it invalidates.
    Send(Bytes, Option<u32>),
    /// An RDMA Write.
    Write(Placed),
    /// An RDMA Read Request.
    ReadRequest(ReadRequest),
    /// The answer to one.
    ReadResponse(Placed),
    /// A Terminate, and its contents if they can be parsed.
    Terminate(Option<Code>),
    /// Something that is not as it should be, in words.
    Trouble(String),
}

/// Data placed in the receiver's memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Placed {
    /// The memory.
    pub(super) handle: u32,
    /// The offset of the data.
    pub(super) offset: u64,
    /// Octets.
    pub(super) len: u64,
    /// DDP segments.
    pub(super) segments: u64,
    /// The first octets.
    pub(super) head: Vec<u8>,
    begun: u64,
}

/// A direction as it is read.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    state: State,
    /// Octets that have not been read: from `at` on.
    buffer: Vec<u8>,
    at: usize,
    /// The time of the first of them.
    since: u64,
    /// Whether the peers agreed on CRCs, if the capture shows it.
    pub(super) crc: Option<bool>,
    /// Whether the receiver requires markers.
    pub(super) marked: bool,
    markers: Markers,
    untagged: [Option<Untagged>; 3],
    write: Option<Placed>,
    response: Option<Placed>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// Nothing was read.
    #[default]
    Beginning,
    /// FPDUs, one after the other.
    Fpdus,
    /// FPDUs, of which the next begins with some segment of TCP.
    Searching,
    /// No iWARP.
    Foreign,
}

/// An untagged message of which a part is there.
#[derive(Debug)]
struct Untagged {
    begun: u64,
    octets: Vec<u8>,
    /// The number of octets so far, including those not stored.
    len: u64,
    /// A part of it is missing.
    broken: bool,
}

impl Decoder {
    /// Whether a message is incomplete.
    #[must_use]
    pub(super) fn is_cut(&self) -> bool {
        let reads = matches!(self.state, State::Beginning | State::Fpdus);
        let partial =
            self.untagged.iter().any(Option::is_some) || self.write.is_some() || self.response.is_some();
        reads && (self.at < self.buffer.len() || partial)
    }

    /// Parses the next octets. `from_start` is true if the capture has the direction's start.
    pub(super) fn take(&mut self, piece: Piece<'_>, from_start: bool, mut say: impl FnMut(Said)) {
        match piece {
            Piece::Lost { time, octets } => {
                if self.state != State::Foreign {
                    let text = format!("{octets} octets of TCP are not in the capture");
                    say(Said { begun: time, time, what: What::Trouble(text) });
                    self.lose();
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
                self.read(time, &mut say);
                // The rest is a part of one FPDU.
                self.buffer.drain(..self.at);
                self.at = 0;
            }
        }
    }

    /// The start of the next FPDU is unknown. With markers, their positions are unknown too, and reading
    /// stops.
    fn lose(&mut self) {
        self.buffer.clear();
        self.at = 0;
        if self.state != State::Foreign {
            self.state = if self.marked { State::Foreign } else { State::Searching };
        }
        for message in self.untagged.iter_mut().flatten() {
            message.broken = true;
        }
    }

    fn read(&mut self, time: u64, say: &mut impl FnMut(Said)) {
        loop {
            let used = match self.state {
                State::Beginning => self.frame(time, say),
                State::Fpdus => self.fpdu(time, say),
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

    /// Reads the MPA frame, if it is there whole, and gives its length.
    fn frame(&mut self, time: u64, say: &mut impl FnMut(Said)) -> Option<usize> {
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
                say(Said { begun: self.since, time, what: What::Trouble(error.to_string()) });
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
        let what = What::Frame(header, depths, private.to_vec());
        say(Said { begun: self.since, time, what });
        self.state = State::Fpdus;
        Some(used)
    }

    /// Reads an FPDU, if it is there whole, and gives its length.
    fn fpdu(&mut self, time: u64, say: &mut impl FnMut(Said)) -> Option<usize> {
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
        let begun = self.since;
        let mut trouble = |text: String| say(Said { begun, time, what: What::Trouble(text) });
        let segment = match opened {
            Ok(segment) => segment,
            Err(error) => {
                trouble(error.to_string());
                return Some(len);
            }
        };
        let parsed =
            DdpHeader::parse(segment).map_err(|error| error.to_string()).and_then(|(header, payload)| {
                let opcode = Opcode::from_control(header.control()).map_err(|error| error.to_string())?;
                Ok((header, opcode, Bytes::copy_from_slice(payload)))
            });
        match parsed {
            Ok((header, opcode, payload)) => self.segment(header, opcode, &payload, (begun, time), say),
            Err(error) => {
                trouble(error);
                self.lose();
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
        (begun, time): (u64, u64),
        say: &mut impl FnMut(Said),
    ) {
        match header {
            DdpHeader::Tagged { last, stag, offset, .. } => {
                let new = Placed { handle: stag, offset, len: 0, segments: 0, head: Vec::new(), begun };
                self.tagged(new, opcode, payload, last, time, say);
            }
            DdpHeader::Untagged { last, word, queue, offset, .. } => {
                let place = usize::try_from(queue).ok().and_then(|queue| self.untagged.get_mut(queue));
                let Some(place) = place.filter(|_| queue_of(opcode) == Some(queue)) else {
                    return say(trouble(time, "an untagged segment for a queue that is not its own"));
                };
                if offset == 0 {
                    *place = None;
                }
                let new = || Untagged { begun, octets: Vec::new(), len: 0, broken: false };
                let message = place.get_or_insert_with(new);
                message.add(u64::from(offset), payload);
                if let Some(message) = place.take_if(|_| last) {
                    say(message.said(opcode, word, time));
                }
            }
        }
    }

    /// Processes a tagged segment of the current message, or of a new one.
    fn tagged(
        &mut self,
        new: Placed,
        opcode: Opcode,
        payload: &[u8],
        last: bool,
        time: u64,
        say: &mut impl FnMut(Said),
    ) {
        let place = match opcode {
            Opcode::Write => &mut self.write,
            Opcode::ReadResponse => &mut self.response,
            _ => return say(trouble(time, "a tagged segment of a message that has none")),
        };
        place.get_or_insert(new).add(payload);
        if let Some(placed) = place.take_if(|_| last) {
            let begun = placed.begun;
            let is_write = opcode == Opcode::Write;
            let what = if is_write { What::Write(placed) } else { What::ReadResponse(placed) };
            say(Said { begun, time, what });
        }
    }
}

fn trouble(time: u64, text: &str) -> Said {
    Said { begun: time, time, what: What::Trouble(text.to_owned()) }
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
    fn add(&mut self, payload: &[u8]) {
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

    fn said(self, opcode: Opcode, word: u32, time: u64) -> Said {
        let what = match opcode {
            _ if self.broken => What::Trouble("a message with a missing part".to_owned()),
            Opcode::ReadRequest => match ReadRequest::parse(&self.octets) {
                Some(request) => What::ReadRequest(request),
                None => What::Trouble("an RDMA Read Request that cannot be read".to_owned()),
            },
            Opcode::Terminate => What::Terminate(Terminate::read_code(&self.octets)),
            Opcode::Send { invalidate, .. } => What::Send(self.octets.into(), invalidate.then_some(word)),
            Opcode::Write | Opcode::ReadResponse => {
                What::Trouble("an untagged message of no kind".to_owned())
            }
        };
        Said { begun: self.begun, time, what }
    }
}

/// Whether octets are, or may become, an MPA frame.
fn begins_frame(octets: &[u8]) -> bool {
    FrameKind::Request.may_begin_with(octets) || FrameKind::Reply.may_begin_with(octets)
}

/// Returns true if a segment of TCP may begin with an FPDU. Checks as strictly as the header allows, since
/// the missing octets before it are unknown.
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
