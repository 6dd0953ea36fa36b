//! Receives most of the payload of a long FPDU directly at its destination, without a copy.
//!
//! Octets with an unchecked CRC are never visible. They are removed from a sink before the sink is returned,
//! and a Read completes only after the check of its last FPDU.

use alloc::boxed::Box;

use arrayvec::ArrayVec;
use bytes::buf::Limit;
use bytes::{BufMut, BytesMut};

use super::Stream;
use crate::wire::iwarp::{Crc32c, DdpHeader, Opcode, ddp, fpdu};

/// The minimum number of missing payload octets for which an FPDU is received directly at its destination.
/// Copying fewer octets costs less than another system call.
const LONG: usize = 8 << 10;
const HEAD: usize = fpdu::LENGTH_LEN + ddp::TAGGED_LEN;
/// Maximum size of the pad octets and the CRC.
const TRAILER: usize = 3 + fpdu::CRC_LEN;

/// An incomplete FPDU whose payload is received at its destination.
pub(super) struct Placement {
    head: [u8; HEAD],
    to: Destination,
    last: bool,
    size: usize,
    missing: usize,
    /// The index of the next payload octet in the destination.
    at: usize,
    crc: Option<Crc32c>,
    trailer: ArrayVec<u8, TRAILER>,
}

#[derive(Clone, Copy)]
enum Destination {
    /// The sink with this handle.
    Sink(u32),
    /// The oldest outstanding Read.
    Read,
}

impl Placement {
    fn pass(&mut self, payload: &[u8]) {
        if let Some(crc) = &mut self.crc {
            crc.update(payload);
        }
        self.at = self.at.saturating_add(payload.len());
        self.missing = self.missing.saturating_sub(payload.len());
    }

    fn missing_trailer(&self) -> usize {
        let padding = fpdu::padding(ddp::TAGGED_LEN.saturating_add(self.size));
        fpdu::CRC_LEN.saturating_add(padding).saturating_sub(self.trailer.len())
    }

    /// Returns true if the CRC of the complete FPDU is correct or not used.
    fn is_intact(&mut self) -> bool {
        let (Some(crc), Some((padding, sum))) = (&mut self.crc, self.trailer.split_last_chunk()) else {
            return true;
        };
        crc.update(padding);
        crc.octets() == *sum
    }
}

impl Stream {
    /// Returns the buffer for the next octets if they are payload of a long FPDU. The caller appends octets
    /// and calls [`Stream::commit_placement`]. Without a buffer, the caller passes octets to
    /// [`Stream::receive`].
    ///
    /// The buffer may have room for the end of the FPDU and the header of the next FPDU, which saves a system
    /// call.
    pub fn placement_buffer(&mut self) -> Option<Limit<&mut BytesMut>> {
        let placement = self.inbound.placement.as_ref().filter(|placement| placement.missing > 0)?;
        let more = if placement.last { 0 } else { placement.missing_trailer().saturating_add(HEAD) };
        let size = placement.missing.saturating_add(more);
        let (to, at) = (placement.to, placement.at);
        let memory = self.destination(to).filter(|memory| memory.len() == at)?;
        let room = memory.capacity().saturating_sub(at);
        Some(memory.limit(size.min(room)))
    }

    /// Calls `seen` with the octets that the caller appended to the buffer of [`Self::placement_buffer`], and
    /// then processes these octets.
    pub fn commit_placement(&mut self, seen: impl FnOnce(&[u8])) {
        let Some(mut placement) = self.inbound.placement.take() else { return };
        let mut following = ArrayVec::<u8, { TRAILER + HEAD }>::new();
        if let Some(memory) = self.destination(placement.to) {
            let octets = memory.get(placement.at..).unwrap_or_default();
            seen(octets);
            let (payload, rest) = octets.split_at_checked(placement.missing).unwrap_or((octets, &[]));
            placement.pass(payload);
            following.extend(rest.iter().copied().take(TRAILER + HEAD));
            memory.truncate(placement.at);
        }
        self.inbound.placement = Some(placement);
        self.receive(&following);
    }

    /// Starts to receive the payload of a long FPDU at its destination, given the first octets of the FPDU.
    /// Returns the octets after its header, or `None` if the FPDU must be complete before it is placed.
    pub(super) fn begin_placement<'a>(&mut self, octets: &'a [u8]) -> Option<&'a [u8]> {
        let (head, rest) = octets.split_first_chunk::<HEAD>()?;
        let (length, header) = head.split_first_chunk()?;
        let size = usize::from(u16::from_be_bytes(*length)).checked_sub(ddp::TAGGED_LEN)?;
        if self.inbound.markers.is_some() || size.saturating_sub(rest.len()) < LONG {
            return None;
        }
        let (header, _) = DdpHeader::parse(header).ok()?;
        let DdpHeader::Tagged { last, stag, offset, .. } = header else { return None };
        let (to, at) = match Opcode::from_control(header.control()) {
            Ok(Opcode::Write) => (Destination::Sink(stag), self.regions.begin_placement(stag, offset, size)?),
            Ok(Opcode::ReadResponse) => {
                (Destination::Read, self.reads.front_mut()?.begin_placement(stag, offset, size)?)
            }
            _ => return None,
        };
        let mut crc = self.config.crc.then(Crc32c::new);
        crc.iter_mut().for_each(|crc| crc.update(head));
        let trailer = ArrayVec::new();
        let placement = Placement { head: *head, to, last, size, missing: size, at, crc, trailer };
        self.inbound.placement = Some(Box::new(placement));
        Some(rest)
    }

    /// Handles octets of an FPDU whose payload is received at its destination. Returns the octets after the
    /// FPDU.
    pub(super) fn continue_placement<'a>(
        &mut self,
        mut placement: Box<Placement>,
        octets: &'a [u8],
    ) -> &'a [u8] {
        let (payload, rest) = octets.split_at_checked(placement.missing).unwrap_or((octets, &[]));
        // The sink may have been invalidated or abandoned since the FPDU began.
        if let Some(memory) = self.destination(placement.to).filter(|memory| memory.len() == placement.at) {
            memory.extend_from_slice(payload);
        }
        placement.pass(payload);
        let (trailer, rest) = rest.split_at_checked(placement.missing_trailer()).unwrap_or((rest, &[]));
        placement.trailer.extend(trailer.iter().copied());
        if placement.missing > 0 || placement.missing_trailer() > 0 {
            self.inbound.placement = Some(placement);
        } else if placement.is_intact() {
            let ulpdu = placement.head.get(fpdu::LENGTH_LEN..).unwrap_or_default();
            self.take_ulpdu(ulpdu, placement.size);
        } else {
            self.reject_crc();
        }
        rest
    }

    fn destination(&mut self, to: Destination) -> Option<&mut BytesMut> {
        match to {
            Destination::Sink(handle) => self.regions.sink(handle),
            Destination::Read => self.reads.front_mut().map(|read| &mut read.data),
        }
    }
}
