//! Receives the payload of a long FPDU at its destination, without a copy on the way.
//!
//! Octets with an unchecked CRC are never visible: a sink loses them when it is returned, and a Read
//! completes after the check of its last FPDU.

use alloc::boxed::Box;
use alloc::vec::Vec;

use arrayvec::ArrayVec;
use bytes::buf::Limit;
use bytes::{BufMut, BytesMut};

use super::Stream;
use crate::wire::iwarp::{Crc32c, DdpHeader, Opcode, ddp, fpdu};

/// Shorter payload is copied, which costs less than one more system call.
const LONG: usize = 8 << 10;
/// Size of the length field and the header of an FPDU that lands, in octets.
const HEAD: usize = fpdu::LENGTH_LEN + ddp::TAGGED_LEN;
/// Maximum size of the pad octets and the CRC.
const TRAILER: usize = 3 + fpdu::CRC_LEN;

/// An incomplete FPDU whose payload is received at its destination.
pub(super) struct Landing {
    head: [u8; HEAD],
    to: Destination,
    last: bool,
    /// The size of the payload, and of its missing part.
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

impl Landing {
    /// Counts payload that has arrived.
    fn pass(&mut self, payload: &[u8]) {
        if let Some(crc) = &mut self.crc {
            crc.update(payload);
        }
        self.at = self.at.saturating_add(payload.len());
        self.missing = self.missing.saturating_sub(payload.len());
    }

    /// Returns the number of missing pad and CRC octets.
    fn missing_trailer(&self) -> usize {
        let padding = fpdu::padding(ddp::TAGGED_LEN.saturating_add(self.size));
        fpdu::CRC_LEN.saturating_add(padding).saturating_sub(self.trailer.len())
    }

    /// Checks the CRC of the complete FPDU.
    fn is_intact(&mut self) -> bool {
        let (Some(crc), Some((padding, sum))) = (&mut self.crc, self.trailer.split_last_chunk()) else {
            return true;
        };
        crc.update(padding);
        crc.octets() == *sum
    }
}

impl Stream {
    /// Returns the place of the next octets if they are payload of a long FPDU. After octets were appended
    /// to it, [`Stream::landed`] must be called. Without a place, octets go to [`Stream::receive`].
    ///
    /// The place may have room for the end of the FPDU and the header of the next one, which saves a read.
    pub fn landing(&mut self) -> Option<Limit<&mut BytesMut>> {
        let landing = self.inbound.landing.as_ref().filter(|landing| landing.missing > 0)?;
        let behind = if landing.last { 0 } else { landing.missing_trailer().saturating_add(HEAD) };
        let wanted = landing.missing.saturating_add(behind);
        let (to, at) = (landing.to, landing.at);
        let memory = self.destination(to).filter(|memory| memory.len() == at)?;
        let room = memory.capacity().saturating_sub(at);
        Some(memory.limit(wanted.min(room)))
    }

    /// Takes the octets that were appended to the place from [`Stream::landing`], and passes them to `seen`.
    pub fn landed(&mut self, seen: impl FnOnce(&[u8])) {
        let Some(mut landing) = self.inbound.landing.take() else { return };
        let mut behind = Vec::new();
        if let Some(memory) = self.destination(landing.to) {
            let octets = memory.get(landing.at..).unwrap_or_default();
            seen(octets);
            let (payload, rest) = octets.split_at_checked(landing.missing).unwrap_or((octets, &[]));
            landing.pass(payload);
            behind.extend_from_slice(rest);
            memory.truncate(landing.at);
        }
        self.inbound.landing = Some(landing);
        self.receive(&behind);
    }

    /// Starts to place the payload of a long FPDU whose first octets are received. Returns the octets after
    /// its header, or `None` if the FPDU must be complete before it is placed.
    pub(super) fn begin_landing<'a>(&mut self, octets: &'a [u8]) -> Option<&'a [u8]> {
        let (head, rest) = octets.split_first_chunk::<HEAD>()?;
        let (length, header) = head.split_first_chunk()?;
        let size = usize::from(u16::from_be_bytes(*length)).checked_sub(ddp::TAGGED_LEN)?;
        if self.inbound.markers.is_some() || size.saturating_sub(rest.len()) < LONG {
            return None;
        }
        let (header, _) = DdpHeader::parse(header).ok()?;
        let DdpHeader::Tagged { last, stag, offset, .. } = header else { return None };
        let (to, at) = match Opcode::from_control(header.control()) {
            Ok(Opcode::Write) => (Destination::Sink(stag), self.regions.land(stag, offset, size)?),
            Ok(Opcode::ReadResponse) => {
                (Destination::Read, self.reads.front_mut()?.land(stag, offset, size)?)
            }
            _ => return None,
        };
        let mut crc = self.config.crc.then(Crc32c::new);
        crc.iter_mut().for_each(|crc| crc.update(head));
        let trailer = ArrayVec::new();
        let landing = Landing { head: *head, to, last, size, missing: size, at, crc, trailer };
        self.inbound.landing = Some(Box::new(landing));
        Some(rest)
    }

    /// Takes octets of an FPDU that lands. Returns the octets behind it.
    pub(super) fn continue_landing<'a>(&mut self, mut landing: Box<Landing>, octets: &'a [u8]) -> &'a [u8] {
        let (payload, rest) = octets.split_at_checked(landing.missing).unwrap_or((octets, &[]));
        // The memory may have been taken back since the FPDU began.
        if let Some(memory) = self.destination(landing.to).filter(|memory| memory.len() == landing.at) {
            memory.extend_from_slice(payload);
        }
        landing.pass(payload);
        let (trailer, rest) = rest.split_at_checked(landing.missing_trailer()).unwrap_or((rest, &[]));
        landing.trailer.extend(trailer.iter().copied());
        if landing.missing > 0 || landing.missing_trailer() > 0 {
            self.inbound.landing = Some(landing);
        } else if landing.is_intact() {
            let ulpdu = landing.head.get(fpdu::LENGTH_LEN..).unwrap_or_default();
            self.take_ulpdu(ulpdu, landing.size);
        } else {
            self.refuse_crc();
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
