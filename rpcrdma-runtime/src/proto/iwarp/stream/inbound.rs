use alloc::boxed::Box;
use alloc::string::ToString;
use alloc::vec::Vec;

use bytes::{Bytes, BytesMut};

use super::super::regions::Refusal;
use super::Stream;
use super::placement::Placement;
use crate::proto::work::{CloseReason, Completion};
use crate::wire::iwarp::rdmap::{QUEUE_READ_REQUEST, QUEUE_SEND, QUEUE_TERMINATE};
use crate::wire::iwarp::{
    Code, DdpError, DdpHeader, FpduError, Markers, Opcode, RdmapError, ReadRequest, Terminate, ddp, fpdu,
};
use crate::xdr::copied;

pub(super) struct Inbound {
    pub(super) assembly: Assembly,
    pub(super) placement: Option<Box<Placement>>,
    /// The position relative to the markers of received FPDUs, if the local peer requires markers.
    pub(super) markers: Option<Markers>,
    /// The number of FPDUs with valid headers. `Stream::terminate` raises this number to at least 1.
    pub(super) fpdus: u64,
    receives: u64,
    send_msn: u32,
    read_msn: u32,
    send: Option<PartialSend>,
    tagged: Option<PartialTagged>,
    pub(super) counters: Counters,
}

/// Progress counters of received messages: their octets, plus one per complete message, so that empty
/// messages also count.
#[derive(Default)]
pub(super) struct Counters {
    sends: u64,
    writes: u64,
    pub(super) reads: u64,
}

fn count(so_far: &mut u64, octets: usize, last: bool) {
    let octets = u64::try_from(octets).unwrap_or(u64::MAX);
    *so_far = so_far.wrapping_add(octets).wrapping_add(u64::from(last));
}

struct PartialSend {
    opcode: Opcode,
    data: BytesMut,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum PartialTagged {
    Write { stag: u32, offset: u64 },
    ReadResponse,
}

pub(super) struct Fault {
    pub(super) code: Code,
    pub(super) what: &'static str,
}

fn fault<T>(code: Code, what: &'static str) -> Result<T, Fault> {
    Err(Fault { code, what })
}

impl Fault {
    /// Returns the Terminate for this violation. The Terminate contains the length and the DDP header of the
    /// segment (RFC 5040 section 4.8). For an RDMAP error, the Terminate also contains the Read Request, if
    /// any. For an MPA error or an incomplete DDP header, the Terminate contains only the error code. The
    /// last `placed` octets of the ULPDU are not in `ulpdu`.
    pub(super) fn terminate(&self, ulpdu: &[u8], placed: usize) -> Terminate {
        const RDMAP: u8 = 0;
        const MPA: u8 = 2;
        let mut terminate = Terminate { code: self.code, segment: None, read_request: None };
        let (header_len, control) = match DdpHeader::parse(ulpdu) {
            Ok((header, _)) => (header.wire_len(), Some(header.control())),
            Err(DdpError::Version { tagged: true }) => (ddp::TAGGED_LEN, None),
            Err(DdpError::Version { tagged: false }) => (ddp::UNTAGGED_LEN, None),
            Err(DdpError::Short) => return terminate,
        };
        let Some((header, payload)) = ulpdu.split_at_checked(header_len) else { return terminate };
        if self.code.layer == MPA {
            return terminate;
        }
        let length = ulpdu.len().saturating_add(placed);
        terminate.segment = u16::try_from(length).ok().map(|length| (length, header.to_vec()));
        let is_request = control.map(Opcode::from_control) == Some(Ok(Opcode::ReadRequest));
        // A Read Request that DDP rejects never becomes an RDMAP message (RFC 5040 figure 10).
        if self.code.layer == RDMAP && is_request && ReadRequest::parse(payload).is_some() {
            terminate.read_request = Some(payload.to_vec());
        }
        terminate
    }
}

/// Splits the TCP stream into FPDUs. Copies an FPDU only if it arrives in several parts. The copy has at most
/// [`fpdu::MAX_LEN`] octets, plus markers.
#[derive(Default)]
pub(super) struct Assembly {
    partial: Vec<u8>,
}

pub(super) enum Found<'a> {
    Contiguous(&'a [u8]),
    /// The FPDU is in [`Assembly::partial`].
    Assembled,
    Incomplete,
}

impl Assembly {
    pub(super) fn next<'a>(&mut self, octets: &'a [u8], markers: Option<Markers>) -> (Found<'a>, &'a [u8]) {
        let len =
            |octets: &[u8]| markers.map_or_else(|| fpdu::len(octets), |markers| markers.fpdu_len(octets));
        if self.partial.is_empty()
            && let Some((fpdu, rest)) = len(octets).and_then(|len| octets.split_at_checked(len))
        {
            return (Found::Contiguous(fpdu), rest);
        }
        let length_at = markers.map_or(0, |markers| markers.length_at());
        let rest = self.fill(length_at.saturating_add(fpdu::LENGTH_LEN), octets);
        let Some(len) = len(&self.partial) else { return (Found::Incomplete, rest) };
        let rest = self.fill(len, rest);
        if self.partial.len() < len { (Found::Incomplete, rest) } else { (Found::Assembled, rest) }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.partial.is_empty()
    }

    pub(super) fn partial(&self) -> &[u8] {
        &self.partial
    }

    fn fill<'a>(&mut self, len: usize, octets: &'a [u8]) -> &'a [u8] {
        let missing = len.saturating_sub(self.partial.len()).min(octets.len());
        let (now, rest) = octets.split_at_checked(missing).unwrap_or((octets, &[]));
        self.partial.extend_from_slice(now);
        rest
    }

    /// Drops the handled FPDU and frees the buffer, because few FPDUs need the buffer.
    pub(super) fn clear(&mut self) {
        self.partial = Vec::new();
    }
}

impl Inbound {
    pub(super) fn new(markers: bool) -> Self {
        Inbound {
            assembly: Assembly::default(),
            placement: None,
            markers: markers.then(Markers::default),
            fpdus: 0,
            receives: 0,
            send_msn: 1,
            read_msn: 1,
            send: None,
            tagged: None,
            counters: Counters::default(),
        }
    }

    pub(super) fn post(&mut self, count: u32) {
        self.receives = self.receives.saturating_add(u64::from(count));
    }

    /// Returns progress counters for the rest of an FPDU, a Send and an RDMA Write, in this order (see
    /// [`Stream::peer_progress`]).
    pub(super) fn peer_progress(&self) -> [Option<u64>; 3] {
        let writing = matches!(self.tagged, Some(PartialTagged::Write { .. }));
        [
            (self.placement.is_some() || !self.assembly.is_empty()).then_some(self.fpdus),
            self.send.is_some().then_some(self.counters.sends),
            writing.then_some(self.counters.writes),
        ]
    }
}

struct Untagged<'a> {
    last: bool,
    word: u32,
    queue: u32,
    msn: u32,
    offset: u32,
    payload: &'a [u8],
}

struct Tagged<'a> {
    last: bool,
    stag: u32,
    offset: u64,
    payload: &'a [u8],
    /// The number of octets after `payload` that are already at their destination.
    placed: usize,
}

impl Tagged<'_> {
    fn len(&self) -> usize {
        self.payload.len().saturating_add(self.placed)
    }
}

impl Stream {
    pub(super) fn take_fpdu(&mut self, octets: &[u8]) {
        let crc = self.config.crc;
        let mut plain = Vec::new();
        let opened = match &mut self.inbound.markers {
            None => fpdu::open(octets, crc),
            Some(markers) => markers.remove(octets, crc, &mut plain).and_then(|()| fpdu::open(&plain, false)),
        };
        match opened {
            Ok(ulpdu) => self.take_ulpdu(ulpdu, 0),
            Err(FpduError::Crc) => self.reject_crc(),
            Err(FpduError::Marker) => {
                let what = "an MPA marker does not point to the start of its FPDU";
                self.terminate(&Fault { code: Code::FPDU_LENGTH, what }, &[], 0);
            }
        }
    }

    /// Processes the ULPDU of an FPDU that passed all MPA checks. The last `placed` octets are at their
    /// destination, not in `ulpdu`.
    pub(super) fn take_ulpdu(&mut self, ulpdu: &[u8], placed: usize) {
        if let Err(fault) = self.take_segment(ulpdu, placed) {
            self.terminate(&fault, ulpdu, placed);
        }
    }

    pub(super) fn reject_crc(&mut self) {
        self.terminate(&Fault { code: Code::CRC, what: "the CRC of an FPDU is wrong" }, &[], 0);
    }

    fn take_segment(&mut self, ulpdu: &[u8], placed: usize) -> Result<(), Fault> {
        let (header, payload) = match DdpHeader::parse(ulpdu) {
            Ok(parsed) => parsed,
            Err(DdpError::Short) => return fault(Code::FPDU_LENGTH, "an FPDU is shorter than its headers"),
            Err(DdpError::Version { tagged: true }) => {
                return fault(Code::TAGGED_VERSION, "a DDP segment of an unsupported version");
            }
            Err(DdpError::Version { tagged: false }) => {
                return fault(Code::UNTAGGED_VERSION, "a DDP segment of an unsupported version");
            }
        };
        let opcode = match Opcode::from_control(header.control()) {
            Ok(opcode) => opcode,
            Err(RdmapError::Version) => {
                return fault(Code::RDMAP_VERSION, "an RDMAP message of an unsupported version");
            }
            Err(RdmapError::Opcode(_)) => {
                return fault(Code::UNEXPECTED_OPCODE, "an RDMAP message with an unknown opcode");
            }
        };
        self.inbound.fpdus = self.inbound.fpdus.saturating_add(1);
        match (opcode, header) {
            (Opcode::Write, DdpHeader::Tagged { last, stag, offset, .. }) => {
                self.take_write(&Tagged { last, stag, offset, payload, placed })
            }
            (Opcode::ReadResponse, DdpHeader::Tagged { last, stag, offset, .. }) => {
                self.take_read_response(&Tagged { last, stag, offset, payload, placed })
            }
            (Opcode::Send { .. }, DdpHeader::Untagged { last, word, queue, msn, offset, .. }) => {
                self.take_send(opcode, &Untagged { last, word, queue, msn, offset, payload })
            }
            (Opcode::ReadRequest, DdpHeader::Untagged { last, word, queue, msn, offset, .. }) => {
                self.take_read_request(&Untagged { last, word, queue, msn, offset, payload })
            }
            (Opcode::Terminate, DdpHeader::Untagged { queue, msn, offset, .. }) => match (queue, msn, offset)
            {
                (QUEUE_TERMINATE, 1, 0) => {
                    self.take_terminate(payload);
                    Ok(())
                }
                (QUEUE_TERMINATE, 1, _) => {
                    fault(Code::INVALID_OFFSET, "a Terminate does not start at offset 0")
                }
                (QUEUE_TERMINATE, ..) => fault(Code::MSN_RANGE, "a Terminate out of sequence"),
                _ => fault(Code::INVALID_QUEUE, "a Terminate on a queue other than 2"),
            },
            _ => fault(Code::UNEXPECTED_OPCODE, "the T bit does not match the opcode"),
        }
    }

    fn take_send(&mut self, opcode: Opcode, segment: &Untagged<'_>) -> Result<(), Fault> {
        if segment.queue != QUEUE_SEND {
            return fault(Code::INVALID_QUEUE, "a Send on a queue other than 0");
        }
        if segment.msn != self.inbound.send_msn {
            return fault(Code::MSN_RANGE, "a Send out of sequence");
        }
        let so_far = self.inbound.send.as_ref().map_or(0, |send| send.data.len());
        if usize::try_from(segment.offset) != Ok(so_far) {
            return fault(Code::INVALID_OFFSET, "a segment of a Send does not follow the previous one");
        }
        if self.inbound.send.as_ref().is_some_and(|send| send.opcode != opcode) {
            return fault(Code::UNEXPECTED_OPCODE, "segments of a Send have different opcodes");
        }
        // The Send would be delivered before the rest of the RDMA Write.
        if segment.last && matches!(self.inbound.tagged, Some(PartialTagged::Write { .. })) {
            return fault(Code::UNEXPECTED_OPCODE, "a Send inside an RDMA Write");
        }
        if self.inbound.receives == 0 {
            return fault(Code::NO_BUFFER, "a Send without a posted Receive");
        }
        let size = so_far.saturating_add(segment.payload.len());
        let limit = usize::try_from(self.config.receive_size).unwrap_or(usize::MAX);
        if size > limit {
            return fault(Code::TOO_LONG, "a Send is longer than the Receive buffer");
        }
        count(&mut self.inbound.counters.sends, segment.payload.len(), segment.last);
        if !segment.last {
            // Only a Send of several segments allocates a buffer of the maximum size.
            let new_send = || PartialSend { opcode, data: BytesMut::with_capacity(limit) };
            self.inbound.send.get_or_insert_with(new_send).data.extend_from_slice(segment.payload);
            return Ok(());
        }
        let message = match self.inbound.send.take() {
            // A short message must not keep a buffer of the maximum size.
            Some(send) if size <= limit / 2 => copied([&send.data, segment.payload]),
            Some(mut send) => {
                send.data.extend_from_slice(segment.payload);
                send.data.freeze()
            }
            None => copied([segment.payload, &[]]),
        };
        let invalidated = matches!(opcode, Opcode::Send { invalidate: true, .. }).then_some(segment.word);
        if invalidated.is_some_and(|handle| !self.regions.invalidate_by_peer(handle)) {
            return fault(
                Code::CANNOT_INVALIDATE,
                "a Send with Invalidate of a handle that is not advertised",
            );
        }
        self.inbound.receives = self.inbound.receives.saturating_sub(1);
        self.inbound.send_msn = self.inbound.send_msn.wrapping_add(1);
        self.completions.push_back(Completion::Received { message, invalidated });
        Ok(())
    }

    fn take_write(&mut self, segment: &Tagged<'_>) -> Result<(), Fault> {
        let &Tagged { last, stag, offset, payload, placed } = segment;
        match self.inbound.tagged {
            None => {}
            Some(partial) if partial == (PartialTagged::Write { stag, offset }) => {}
            Some(PartialTagged::Write { .. }) => {
                return fault(Code::BASE_OR_BOUNDS, "an RDMA Write is not contiguous");
            }
            Some(PartialTagged::ReadResponse) => {
                return fault(Code::UNEXPECTED_OPCODE, "an RDMA Write inside a Read Response");
            }
        }
        // An empty segment places no data, so its handle is not checked.
        let length = segment.len();
        if length > 0
            && let Err(refusal) = self.regions.place(stag, offset, payload, placed)
        {
            let code = match refusal {
                Refusal::Unknown => Code::INVALID_STAG,
                Refusal::Rights => Code::ACCESS_RIGHTS,
                Refusal::Bounds => Code::BASE_OR_BOUNDS,
                Refusal::Wrap => Code::WRAP,
            };
            return fault(code, "an RDMA Write outside the memory that the peer may write");
        }
        count(&mut self.inbound.counters.writes, length, last);
        let offset = offset.wrapping_add(u64::try_from(length).unwrap_or(u64::MAX));
        self.inbound.tagged = (!last).then_some(PartialTagged::Write { stag, offset });
        Ok(())
    }

    fn take_read_request(&mut self, segment: &Untagged<'_>) -> Result<(), Fault> {
        if segment.queue != QUEUE_READ_REQUEST {
            return fault(Code::INVALID_QUEUE, "a Read Request on a queue other than 1");
        }
        if segment.msn != self.inbound.read_msn {
            return fault(Code::MSN_RANGE, "a Read Request out of sequence");
        }
        if segment.offset != 0 {
            return fault(Code::INVALID_OFFSET, "a Read Request does not start at offset 0");
        }
        if self.inbound.send.is_some() {
            return fault(Code::UNEXPECTED_OPCODE, "a Read Request inside a Send");
        }
        let Some(request) = ReadRequest::parse(segment.payload).filter(|_| segment.last) else {
            return fault(Code::UNSPECIFIED, "a Read Request is not one segment of 28 octets");
        };
        if u32::try_from(self.outbound.responses()).unwrap_or(u32::MAX) >= self.config.ird {
            return fault(Code::STREAM_CATASTROPHIC, "more outstanding Read Requests than the local IRD");
        }
        self.inbound.read_msn = self.inbound.read_msn.wrapping_add(1);
        if request.length == 0 {
            self.outbound.respond(&request, Bytes::new(), None);
            return Ok(());
        }
        let length = usize::try_from(request.length).unwrap_or(usize::MAX);
        match self.regions.source(request.source_stag, request.source_offset, length) {
            Ok(data) => {
                self.outbound.respond(&request, data, Some(request.source_stag));
                Ok(())
            }
            Err(Refusal::Unknown) => fault(Code::READ_INVALID_STAG, "a Read Request for an unknown handle"),
            Err(Refusal::Rights) => fault(Code::ACCESS_RIGHTS, "a Read Request for a sink"),
            Err(Refusal::Bounds) => fault(Code::READ_BOUNDS, "a Read Request exceeds its region"),
            Err(Refusal::Wrap) => fault(Code::READ_WRAP, "the offsets of a Read Request overflow 64 bits"),
        }
    }

    fn take_read_response(&mut self, segment: &Tagged<'_>) -> Result<(), Fault> {
        if matches!(self.inbound.tagged, Some(PartialTagged::Write { .. })) {
            return fault(Code::UNEXPECTED_OPCODE, "a Read Response inside an RDMA Write");
        }
        let Some(read) = self.reads.front_mut() else {
            return fault(Code::UNEXPECTED_OPCODE, "an unsolicited Read Response");
        };
        if segment.stag != read.sink_stag {
            return fault(Code::INVALID_STAG, "a Read Response with the wrong STag");
        }
        let so_far = read.received().saturating_sub(segment.placed);
        if !read.is_next(segment.offset, so_far) {
            return fault(Code::BASE_OR_BOUNDS, "a Read Response is not contiguous");
        }
        let length = usize::try_from(read.length).unwrap_or(usize::MAX);
        let size = so_far.saturating_add(segment.len());
        if size > length || segment.last != (size == length) {
            return fault(Code::BASE_OR_BOUNDS, "a Read Response does not have the requested length");
        }
        read.room().extend_from_slice(segment.payload);
        count(&mut self.inbound.counters.reads, segment.len(), segment.last);
        self.inbound.tagged = (!segment.last).then_some(PartialTagged::ReadResponse);
        if segment.last
            && let Some(read) = self.reads.pop_front()
        {
            let is_last = read.part.is_last(read.length);
            let data = if is_last { read.data.freeze() } else { self.continue_region(read.data) };
            self.completions.push_back(Completion::ReadDone { token: read.token, data });
        }
        Ok(())
    }

    /// Keeps an unfinished region for its next Read. Returns empty data.
    fn continue_region(&mut self, region: BytesMut) -> Bytes {
        match self.reads.front_mut() {
            Some(next) if next.part.offset > 0 => next.data = region,
            _ => self.sink = region,
        }
        Bytes::new()
    }

    /// Ends the stream after the peer's Terminate. The content is diagnostic only, and no reply is sent.
    fn take_terminate(&mut self, payload: &[u8]) {
        self.fail(match Terminate::read_code(payload) {
            Some(Code { layer, etype, code }) => CloseReason::Terminated { layer, etype, code },
            None => CloseReason::Violation("a Terminate is too short to have an error code".to_string()),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::tests::{config, entropy, octets};
    use super::super::super::{Role, Stream};
    use super::*;
    use crate::proto::work::{Action, Token};

    /// Requirement: R527
    #[test]
    fn sequence_numbers_wrap_to_zero() {
        let [mut sender, mut receiver] =
            [Role::Initiator, Role::Responder].map(|role| Stream::new(config(role), entropy(1)));
        sender.outbound.send_msn = u32::MAX;
        receiver.inbound.send_msn = u32::MAX;
        receiver.submit(Action::PostReceives { count: 3 });
        for expected in [u32::MAX, 0, 1] {
            sender.submit(Action::Send { token: Token(1), message: Vec::new(), invalidate: None });
            let octets = octets(&mut sender);
            let (header, _) = DdpHeader::parse(fpdu::open(&octets, true).unwrap()).unwrap();
            assert!(matches!(header, DdpHeader::Untagged { msn, .. } if msn == expected), "{header:?}");
            receiver.receive(&octets);
            assert!(matches!(receiver.poll_completion(), Some(Completion::Received { .. })));
        }
    }
}
