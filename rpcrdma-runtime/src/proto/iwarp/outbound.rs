use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::mem;

use arrayvec::ArrayVec;
use bytes::{BufMut, Bytes, BytesMut};

use crate::proto::work::{RegionPart, Segment, Token};
use crate::wire::iwarp::rdmap::{QUEUE_READ_REQUEST, QUEUE_SEND, QUEUE_TERMINATE};
use crate::wire::iwarp::{Crc32c, DdpHeader, Markers, Opcode, ReadRequest, Terminate, ddp, fpdu};
use crate::xdr::keep_pieces;

const FRAMING: usize = fpdu::LENGTH_LEN + fpdu::CRC_LEN;
/// A payload piece shorter than this size in octets is copied next to its header: copying is cheaper than a
/// separate buffer.
const COPY: usize = 256;
const ARENA: usize = 1024;
/// Maximum size of a sent FPDU in octets. Without markers, its ULPDU has at most 64,766 octets, within the
/// limit of 64,768 (RFC 5044 section 3).
const MAX_FPDU: usize = 64_772;

/// The queues of outgoing messages.
///
/// Sends, Writes and Read Requests are sent in the order of submission. Read Responses have a separate queue.
/// If both queues are ready, they alternate. A message is sent completely before the next message starts.
pub(super) struct Outbound {
    work: VecDeque<Work>,
    responses: VecDeque<Outgoing>,
    current: Option<Outgoing>,
    terminate: Option<Terminate>,
    /// True if the most recently started message is a Read Response. The front of `work` is then next, unless
    /// `work` is empty or starts with a Read that must wait.
    after_response: bool,
    pub(super) send_msn: u32,
    read_msn: u32,
    arena: BytesMut,
    pub(super) max_fpdu: usize,
    crc: bool,
    /// The output position relative to the markers, if the peer requires markers.
    markers: Option<Markers>,
    started: bool,
}

pub(super) enum Work {
    Send { token: Token, message: Vec<Bytes>, invalidate: Option<u32> },
    Write { token: Option<Token>, sink: Segment, data: Bytes },
    Read { token: Token, source: Segment, part: RegionPart },
}

struct Outgoing {
    opcode: Opcode,
    target: Target,
    /// The unsent payload: the current piece, then the pieces in `others`.
    piece: Bytes,
    others: VecDeque<Bytes>,
    remaining: usize,
    sent: u64,
    on_sent: Option<Finished>,
}

enum Target {
    Tagged { stag: u32, offset: u64 },
    Untagged { word: u32, queue: u32, msn: u32 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Finished {
    Sent(Token),
    Written(Token),
    /// A Read Response from the region with this handle.
    Response(u32),
}

impl Outbound {
    pub(super) fn new(max_fpdu: usize, crc: bool, markers: bool) -> Self {
        let mut outbound = Outbound {
            work: VecDeque::new(),
            responses: VecDeque::new(),
            current: None,
            terminate: None,
            after_response: false,
            send_msn: 1,
            read_msn: 1,
            arena: BytesMut::new(),
            max_fpdu,
            crc,
            markers: markers.then(Markers::default),
            started: false,
        };
        outbound.set_max_fpdu(max_fpdu);
        outbound
    }

    pub(super) fn set_max_fpdu(&mut self, max_fpdu: usize) {
        let marker = self.markers.map_or(0, |_| fpdu::MARKER_LEN);
        self.max_fpdu = max_fpdu.clamp(fpdu::MIN_LIMIT.saturating_add(marker), MAX_FPDU);
    }

    pub(super) fn push(&mut self, work: Work) {
        self.work.push_back(work);
    }

    /// Queues the response to a Read Request. `source` is the handle of the region that shares `data`, if
    /// any.
    pub(super) fn respond(&mut self, request: &ReadRequest, data: Bytes, source: Option<u32>) {
        let target = Target::Tagged { stag: request.sink_stag, offset: request.sink_offset };
        let on_sent = source.map(Finished::Response);
        self.responses.push_back(Outgoing::new(Opcode::ReadResponse, target, data, on_sent));
    }

    /// Returns the number of unfinished Read Responses.
    pub(super) fn responses(&self) -> usize {
        let current = self.current.as_ref().is_some_and(|message| message.opcode == Opcode::ReadResponse);
        self.responses.len().saturating_add(usize::from(current))
    }

    pub(super) fn end(&mut self, terminate: Option<Terminate>) {
        self.work.clear();
        self.responses.clear();
        self.current = None;
        self.terminate = terminate;
    }

    /// Drops queued Reads and Read Responses. For each dropped Read Response, returns the handle of its
    /// source region, if any. A partially sent message is kept, because no message can follow a truncated
    /// message.
    pub(super) fn prepare_close(&mut self) -> impl Iterator<Item = u32> {
        self.work.retain(|work| !matches!(work, Work::Read { .. }));
        self.responses.drain(..).filter_map(|response| match response.on_sent {
            Some(Finished::Response(handle)) => Some(handle),
            _ => None,
        })
    }

    /// Returns true if an FPDU can be sent. `may_read` is true if the peer accepts one more Read Request.
    pub(super) fn is_ready(&self, may_read: bool) -> bool {
        self.terminate.is_some()
            || self.current.is_some()
            || !self.responses.is_empty()
            || self.work.front().is_some_and(|work| may_read || !matches!(work, Work::Read { .. }))
    }

    pub(super) fn started(&self) -> bool {
        self.started
    }

    /// Removes and returns the next message if it is a Read and `may_read` is true. The stream then chooses a
    /// sink for the Read and passes the Read Request to [`Outbound::request`].
    pub(super) fn take_read(&mut self, may_read: bool) -> Option<(Token, Segment, RegionPart)> {
        let turn = self.responses.is_empty() || self.after_response;
        if !may_read || !turn || self.current.is_some() || self.terminate.is_some() {
            return None;
        }
        match self.work.pop_front_if(|work| matches!(work, Work::Read { .. }))? {
            Work::Read { token, source, part } => Some((token, source, part)),
            _ => None,
        }
    }

    /// Makes a Read Request the next message.
    pub(super) fn request(&mut self, request: &ReadRequest) {
        let mut octets = Vec::new();
        request.encode(|piece| octets.extend_from_slice(piece));
        let target = Target::Untagged { word: 0, queue: QUEUE_READ_REQUEST, msn: self.read_msn };
        self.read_msn = self.read_msn.wrapping_add(1);
        self.after_response = false;
        self.current = Some(Outgoing::new(Opcode::ReadRequest, target, octets.into(), None));
    }

    /// Writes the next FPDU, if any. Returns the size of the FPDU, and the message that the FPDU completes,
    /// if any. The last octets of the FPDU stay in `arena` until [`Outbound::flush`].
    pub(super) fn emit(&mut self, out: &mut VecDeque<Bytes>) -> Option<(usize, Option<Finished>)> {
        let mut message = self.current.take().or_else(|| self.next())?;
        self.started = true;
        let len = self.segment(&mut message, out);
        if message.remaining > 0 {
            self.current = Some(message);
            return Some((len, None));
        }
        keep_pieces(message.others.into());
        Some((len, message.on_sent))
    }

    fn next(&mut self) -> Option<Outgoing> {
        if let Some(terminate) = self.terminate.take() {
            let target = Target::Untagged { word: 0, queue: QUEUE_TERMINATE, msn: 1 };
            return Some(Outgoing::new(Opcode::Terminate, target, terminate.encode().into(), None));
        }
        // A Read at the front waits for `take_read`.
        let blocked = self.work.front().is_none_or(|work| matches!(work, Work::Read { .. }));
        if !self.responses.is_empty() && (blocked || !self.after_response) {
            self.after_response = true;
            return self.responses.pop_front();
        }
        if blocked {
            return None;
        }
        self.after_response = false;
        let work = self.work.pop_front()?;
        self.begin(work)
    }

    fn begin(&mut self, work: Work) -> Option<Outgoing> {
        Some(match work {
            Work::Send { token, message, invalidate } => {
                let target =
                    Target::Untagged { word: invalidate.unwrap_or(0), queue: QUEUE_SEND, msn: self.send_msn };
                self.send_msn = self.send_msn.wrapping_add(1);
                let opcode = Opcode::Send { invalidate: invalidate.is_some(), solicited: false };
                let remaining = message.iter().map(Bytes::len).sum();
                let empty = Outgoing::new(opcode, target, Bytes::new(), Some(Finished::Sent(token)));
                Outgoing { remaining, others: message.into(), ..empty }
            }
            Work::Write { token, sink, data } => {
                let target = Target::Tagged { stag: sink.handle, offset: sink.offset };
                Outgoing::new(Opcode::Write, target, data, token.map(Finished::Written))
            }
            Work::Read { .. } => return None,
        })
    }

    fn segment(&mut self, message: &mut Outgoing, out: &mut VecDeque<Bytes>) -> usize {
        let header_len = match message.target {
            Target::Tagged { .. } => ddp::TAGGED_LEN,
            Target::Untagged { .. } => ddp::UNTAGGED_LEN,
        };
        let markers = self.markers.map_or(0, |_| Markers::max_size(self.max_fpdu));
        let overhead = FRAMING.saturating_add(header_len).saturating_add(markers);
        // The room is a multiple of four, so that only a message's last segment has pad octets.
        let room = self.max_fpdu.saturating_sub(overhead) & !3;
        let payload = message.remaining.min(room);
        let ulpdu = header_len.saturating_add(payload);
        let header = message.header(message.remaining == payload);
        if self.arena.capacity() < FRAMING + COPY + ddp::UNTAGGED_LEN + 3 {
            self.arena.reserve(ARENA);
        }
        if let Some(markers) = &mut self.markers {
            markers.start();
        }
        let mut writer = FpduWriter {
            unsummed: self.arena.len(),
            arena: &mut self.arena,
            out,
            crc: self.crc.then(Crc32c::new),
            markers: self.markers.as_mut(),
            len: 0,
        };
        let mut octets = ArrayVec::<u8, { fpdu::LENGTH_LEN + ddp::UNTAGGED_LEN }>::new();
        octets.extend(u16::try_from(ulpdu).unwrap_or(u16::MAX).to_be_bytes());
        header.encode(|piece| octets.extend(piece.iter().copied()));
        writer.put(&octets);
        message.take(payload, |piece| writer.share(piece));
        let pad = fpdu::padding(ulpdu);
        writer.put([0; 3].get(..pad).unwrap_or_default());
        writer.finish()
    }

    /// Appends the copied octets that are not in `out` yet. Must be called before `out` is sent.
    pub(super) fn flush(&mut self, out: &mut VecDeque<Bytes>) {
        if !self.arena.is_empty() {
            out.push_back(self.arena.split().freeze());
        }
    }
}

impl Outgoing {
    fn new(opcode: Opcode, target: Target, data: Bytes, on_sent: Option<Finished>) -> Self {
        let others = VecDeque::new();
        Outgoing { opcode, target, remaining: data.len(), piece: data, others, sent: 0, on_sent }
    }

    fn header(&self, last: bool) -> DdpHeader {
        let control = self.opcode.control();
        match self.target {
            Target::Tagged { stag, offset } => {
                DdpHeader::Tagged { last, control, stag, offset: offset.wrapping_add(self.sent) }
            }
            Target::Untagged { word, queue, msn } => {
                // Messages of 4 GiB or more were rejected on submission.
                let offset = u32::try_from(self.sent).unwrap_or(u32::MAX);
                DdpHeader::Untagged { last, control, word, queue, msn, offset }
            }
        }
    }

    fn take(&mut self, count: usize, mut each: impl FnMut(Bytes)) {
        self.remaining = self.remaining.saturating_sub(count);
        self.sent = self.sent.saturating_add(u64::try_from(count).unwrap_or(u64::MAX));
        let mut missing = count;
        while missing > 0 {
            if self.piece.is_empty() {
                let Some(piece) = self.others.pop_front() else { return };
                self.piece = piece;
                continue;
            }
            let piece = &mut self.piece;
            let part = if piece.len() <= missing { mem::take(piece) } else { piece.split_to(missing) };
            missing = missing.saturating_sub(part.len());
            each(part);
        }
    }
}

/// Writes an FPDU. Copies headers and short pieces of payload, and copies all payload if the peer requires
/// markers. Shares other payload.
struct FpduWriter<'a> {
    arena: &'a mut BytesMut,
    /// The index of the first octet in `arena` that the CRC does not cover yet.
    unsummed: usize,
    out: &'a mut VecDeque<Bytes>,
    crc: Option<Crc32c>,
    markers: Option<&'a mut Markers>,
    len: usize,
}

impl FpduWriter<'_> {
    fn put(&mut self, octets: &[u8]) {
        let mut rest = octets;
        while !rest.is_empty() {
            self.put_marker();
            let (piece, after) = match &mut self.markers {
                Some(markers) => markers.split(rest),
                None => (rest, &[][..]),
            };
            self.copy(piece);
            rest = after;
        }
    }

    fn put_marker(&mut self) {
        if let Some(marker) = self.markers.as_mut().and_then(|markers| markers.due()) {
            self.copy(&marker);
        }
    }

    fn copy(&mut self, octets: &[u8]) {
        self.arena.put_slice(octets);
        self.len = self.len.saturating_add(octets.len());
    }

    fn share(&mut self, piece: Bytes) {
        if piece.len() < COPY || self.markers.is_some() {
            return self.put(&piece);
        }
        self.len = self.len.saturating_add(piece.len());
        self.update_crc();
        if let Some(crc) = &mut self.crc {
            crc.update(&piece);
        }
        if !self.arena.is_empty() {
            self.out.push_back(self.arena.split().freeze());
        }
        self.unsummed = 0;
        self.out.push_back(piece);
    }

    fn update_crc(&mut self) {
        if let Some(crc) = &mut self.crc {
            crc.update(self.arena.get(self.unsummed..).unwrap_or_default());
        }
        self.unsummed = self.arena.len();
    }

    fn finish(mut self) -> usize {
        // The CRC covers a marker directly before the CRC field (RFC 5044 section 4.4).
        self.put_marker();
        self.update_crc();
        let crc = self.crc.take().map_or([0; fpdu::CRC_LEN], |crc| crc.octets());
        self.put(&crc);
        self.len
    }
}
