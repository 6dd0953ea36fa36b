//! What comes in: FPDUs, checked whole before any byte of them is placed.

use alloc::vec::Vec;

use bytes::{Buf, BytesMut};

use super::outbound::Message;
use super::stream::Stream;
use crate::proto::work::Completion;
use crate::wire::iwarp::{Ddp, Fault, FpduError, HeaderError, Opcode, Queue, ReadRequest, next_fpdu};

#[derive(Debug, Default)]
pub(super) struct Inbound {
    buffer: BytesMut,
    heard: bool,
    /// Receives that no Send has used yet.
    receives: u32,
    /// Sends that have ended.
    sends: u32,
    read_requests: u32,
    /// A Send of which more is to come.
    send: Option<PartialSend>,
    /// A Write of which more is to come.
    write: Option<PartialWrite>,
}

#[derive(Debug)]
struct PartialSend {
    opcode: Opcode,
    invalidate: u32,
    data: Vec<u8>,
}

#[derive(Debug, PartialEq)]
struct PartialWrite {
    stag: u32,
    offset: u64,
}

/// The fields of an untagged header.
struct Untagged {
    opcode: Opcode,
    last: bool,
    invalidate: u32,
    queue: u32,
    msn: u32,
    offset: u32,
}

impl Inbound {
    pub(super) fn buffer(&mut self) -> &mut BytesMut {
        &mut self.buffer
    }

    pub(super) fn post_receives(&mut self, count: u32) {
        self.receives = self.receives.saturating_add(count);
    }

    pub(super) fn has_heard(&self) -> bool {
        self.heard
    }

    pub(super) fn is_mid_message(&self) -> bool {
        !self.buffer.is_empty() || self.send.is_some() || self.write.is_some()
    }
}

impl Stream {
    /// Takes one FPDU off the input; false if none is whole.
    ///
    /// # Errors
    /// What the peer did wrong.
    pub(super) fn take_fpdu(&mut self) -> Result<bool, Fault> {
        let mut buffer = core::mem::take(&mut self.inbound.buffer);
        let taken = match next_fpdu(&buffer, self.settings.crc) {
            Ok(Some((ulpdu, len))) => {
                self.inbound.heard = true;
                self.take_ulpdu(ulpdu).map(|()| len)
            }
            Ok(None) => Ok(0),
            Err(FpduError::TooShort) => Err(Fault::FPDU),
            Err(FpduError::Crc) => Err(Fault::CRC),
        };
        buffer.advance(taken.unwrap_or(0).min(buffer.len()));
        self.inbound.buffer = buffer;
        taken.map(|len| len > 0)
    }

    fn take_ulpdu(&mut self, ulpdu: &[u8]) -> Result<(), Fault> {
        let (header, payload) = Ddp::decode(ulpdu).map_err(|error| match error {
            HeaderError::TooShort => Fault::FPDU,
            HeaderError::DdpVersion { tagged: true } => Fault::TAGGED_VERSION,
            HeaderError::DdpVersion { tagged: false } => Fault::UNTAGGED_VERSION,
            HeaderError::RdmapVersion => Fault::RDMAP_VERSION,
            HeaderError::Opcode => Fault::UNEXPECTED_OPCODE,
        })?;
        match header {
            Ddp::Tagged { opcode: Opcode::ReadResponse, last, stag, offset } => {
                self.take_response(last, stag, offset, payload)
            }
            Ddp::Tagged { last, stag, offset, .. } => self.take_write(last, stag, offset, payload),
            Ddp::Untagged { opcode: Opcode::Terminate, .. } => {
                // Only a diagnosis: whatever it says, the stream is over.
                self.terminated(payload);
                Ok(())
            }
            Ddp::Untagged { opcode, last, invalidate, queue, msn, offset } => {
                let untagged = Untagged { opcode, last, invalidate, queue, msn, offset };
                if opcode == Opcode::ReadRequest {
                    self.take_read_request(&untagged, payload)
                } else {
                    self.take_send(&untagged, payload)
                }
            }
        }
    }

    fn take_send(&mut self, header: &Untagged, payload: &[u8]) -> Result<(), Fault> {
        let inbound = &mut self.inbound;
        if header.queue != Queue::Send as u32 {
            return Err(Fault::QUEUE_NUMBER);
        }
        if header.msn != inbound.sends.wrapping_add(1) {
            return Err(Fault::MSN_RANGE);
        }
        let received = inbound.send.as_ref().map_or(0, |send| send.data.len());
        if u32::try_from(received) != Ok(header.offset) {
            return Err(Fault::MESSAGE_OFFSET);
        }
        if inbound.receives == 0 {
            return Err(Fault::NO_BUFFER);
        }
        if received.saturating_add(payload.len()) > self.settings.receive_size {
            return Err(Fault::TOO_LONG);
        }
        let send = inbound.send.get_or_insert_with(|| PartialSend {
            opcode: header.opcode,
            invalidate: header.invalidate,
            data: Vec::with_capacity(payload.len()),
        });
        if send.opcode != header.opcode
            || (header.opcode.invalidates() && send.invalidate != header.invalidate)
        {
            return Err(Fault::UNEXPECTED_OPCODE);
        }
        send.data.extend_from_slice(payload);
        if !header.last {
            return Ok(());
        }
        let Some(send) = inbound.send.take() else { return Ok(()) };
        inbound.sends = inbound.sends.wrapping_add(1);
        inbound.receives = inbound.receives.saturating_sub(1);
        let mut invalidated = None;
        if send.opcode.invalidates() {
            self.regions.invalidate(send.invalidate)?;
            invalidated = Some(send.invalidate);
        }
        self.completions.push_back(Completion::Received { message: send.data.into(), invalidated });
        Ok(())
    }

    fn take_write(&mut self, last: bool, stag: u32, offset: u64, payload: &[u8]) -> Result<(), Fault> {
        if let Some(write) = &self.inbound.write
            && *write != (PartialWrite { stag, offset })
        {
            // A message ends before the next of its kind begins (RFC 5041 section 5.1).
            return Err(Fault::TAGGED_BOUNDS);
        }
        if !payload.is_empty() {
            self.regions.place(stag, offset, payload)?;
        }
        self.inbound.write =
            (!last).then(|| PartialWrite { stag, offset: offset.wrapping_add(payload.len() as u64) });
        Ok(())
    }

    fn take_read_request(&mut self, header: &Untagged, payload: &[u8]) -> Result<(), Fault> {
        if header.queue != Queue::ReadRequest as u32 {
            return Err(Fault::QUEUE_NUMBER);
        }
        if header.msn != self.inbound.read_requests.wrapping_add(1) {
            return Err(Fault::MSN_RANGE);
        }
        if header.offset != 0 {
            return Err(Fault::MESSAGE_OFFSET);
        }
        let request = ReadRequest::decode(payload).filter(|_| header.last).ok_or(Fault::TOO_LONG)?;
        let pending = u32::try_from(self.outbound.responses_pending()).unwrap_or(u32::MAX);
        if pending >= self.settings.reads_in {
            return Err(Fault::CATASTROPHIC);
        }
        self.inbound.read_requests = self.inbound.read_requests.wrapping_add(1);
        // A Read of nothing asks for no memory (RFC 5040 section 5.2).
        let data = match request.source.length {
            0 => bytes::Bytes::new(),
            _ => self.regions.source(&request.source)?,
        };
        self.outbound.respond(Message::ReadResponse {
            source: request.source.handle,
            sink: request.sink,
            offset: request.sink_offset,
            rest: data,
        });
        Ok(())
    }

    fn take_response(&mut self, last: bool, stag: u32, offset: u64, payload: &[u8]) -> Result<(), Fault> {
        let Some(read) = self.outbound.reads.front_mut() else { return Err(Fault::UNEXPECTED_OPCODE) };
        if read.stag != stag {
            return Err(Fault::TAGGED_STAG);
        }
        if read.base.wrapping_add(read.data.len() as u64) != offset {
            return Err(Fault::TAGGED_BOUNDS);
        }
        let received = read.data.len().saturating_add(payload.len());
        if received > read.length || (last && received != read.length) {
            return Err(Fault::TAGGED_BOUNDS);
        }
        if read.data.is_empty() && !payload.is_empty() {
            // The first bytes are here, so the peer does answer: room for the rest.
            read.data.reserve(read.length);
        }
        read.data.extend_from_slice(payload);
        if last && let Some(read) = self.outbound.reads.pop_front() {
            let data = read.data.freeze();
            self.completions.push_back(Completion::ReadDone { token: read.token, data });
        }
        Ok(())
    }
}
