//! What goes out: messages cut into FPDUs, in the order in which they were asked for.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use bytes::{Bytes, BytesMut};

use super::stream::Stream;
use crate::proto::work::{Completion, Segment, Token};
use crate::wire::iwarp::{
    Ddp, Fault, MAX_ULPDU, Opcode, Queue, ReadRequest, TAGGED_LEN, Trailer, UNTAGGED_LEN,
};

/// A message that is, or will be, on its way.
#[derive(Debug)]
pub(super) enum Message {
    Send {
        token: Token,
        rest: VecDeque<Bytes>,
        invalidate: Option<u32>,
        offset: u32,
        msn: Option<u32>,
    },
    Write {
        token: Token,
        sink: Segment,
        rest: Bytes,
    },
    ReadRequest {
        token: Token,
        source: Segment,
    },
    /// The answer to a Read Request: memory `source` to the peer's `sink`.
    ReadResponse {
        source: u32,
        sink: u32,
        offset: u64,
        rest: Bytes,
    },
    Terminate(Fault),
    Nudge,
}

/// A Read of ours that the peer answers.
#[derive(Debug)]
pub(super) struct PendingRead {
    pub(super) token: Token,
    pub(super) stag: u32,
    pub(super) base: u64,
    pub(super) length: usize,
    pub(super) data: BytesMut,
}

#[derive(Debug, Default)]
pub(super) struct Outbound {
    /// What was asked for.
    posted: VecDeque<Message>,
    /// Answers to the peer's Read Requests.
    responses: VecDeque<Message>,
    /// The message that is part of the way out. Messages are not interleaved.
    current: Option<Message>,
    response_turn: bool,
    sends: u32,
    read_requests: u32,
    pub(super) reads: VecDeque<PendingRead>,
}

impl Message {
    pub(super) fn send(token: Token, message: Vec<Bytes>, invalidate: Option<u32>) -> Self {
        let rest = message.into_iter().filter(|piece| !piece.is_empty()).collect();
        Message::Send { token, rest, invalidate, offset: 0, msn: None }
    }

    pub(super) fn write(token: Token, sink: Segment, data: Bytes) -> Self {
        Message::Write { token, sink, rest: data }
    }
}

impl Outbound {
    pub(super) fn post(&mut self, message: Message) {
        self.posted.push_back(message);
    }

    pub(super) fn respond(&mut self, response: Message) {
        self.responses.push_back(response);
    }

    /// Nothing but this goes out any more, behind what is part of the way out already: FPDUs are whole.
    pub(super) fn terminate(&mut self, fault: Fault) {
        self.posted.clear();
        self.responses.clear();
        self.current = Some(Message::Terminate(fault));
    }

    pub(super) fn nudge(&mut self) {
        if self.current.is_none() {
            self.current = Some(Message::Nudge);
        }
    }

    pub(super) fn reads_outstanding(&self) -> usize {
        self.reads.len()
    }

    /// Read Requests of the peer that are not answered.
    pub(super) fn responses_pending(&self) -> usize {
        let current = usize::from(matches!(self.current, Some(Message::ReadResponse { .. })));
        self.responses.len().saturating_add(current)
    }

    pub(super) fn is_drained(&self) -> bool {
        self.current.is_none() && self.posted.is_empty() && self.responses.is_empty()
    }

    /// The next message to begin: responses and posted work by turns. A Read Request that would exceed the peer's
    /// IRD holds back what was posted behind it, as the order of posting demands.
    fn next_message(&mut self, reads_out: usize) -> Option<Message> {
        let stalled =
            matches!(self.posted.front(), Some(Message::ReadRequest { .. })) && self.reads.len() >= reads_out;
        let response_first = self.response_turn || stalled || self.posted.is_empty();
        if response_first && let Some(response) = self.responses.pop_front() {
            self.response_turn = false;
            return Some(response);
        }
        self.response_turn = true;
        if stalled { None } else { self.posted.pop_front() }
    }
}

/// Takes up to `len` bytes off the front of gathered pieces.
fn take(rest: &mut VecDeque<Bytes>, mut len: usize) -> Vec<Bytes> {
    let mut taken = Vec::new();
    while len > 0
        && let Some(mut piece) = rest.pop_front()
    {
        if piece.len() > len {
            rest.push_front(piece.split_off(len));
        }
        len = len.saturating_sub(piece.len());
        taken.push(piece);
    }
    taken
}

/// A segment to send.
struct Fpdu {
    header: Ddp,
    payload: Vec<Bytes>,
}

impl Stream {
    /// Appends the next FPDU, and gives its length; 0 if there is none now.
    ///
    /// # Errors
    /// A fault of the peer that shows only now.
    pub(super) fn next_fpdu(&mut self, out: &mut VecDeque<Bytes>) -> Result<usize, Fault> {
        let reads_out = usize::try_from(self.settings.reads_out).unwrap_or(usize::MAX);
        let Some(message) = self.outbound.current.take().or_else(|| self.outbound.next_message(reads_out))
        else {
            return Ok(0);
        };
        let max = self.settings.max_ulpdu.min(MAX_ULPDU);
        let fpdu = match message {
            Message::Send { token, rest, invalidate, offset, msn } => {
                self.send_segment(token, rest, invalidate, (offset, msn), max.saturating_sub(UNTAGGED_LEN))
            }
            Message::Write { token, sink, rest } => {
                self.write_segment(token, sink, rest, max.saturating_sub(TAGGED_LEN))
            }
            Message::ReadRequest { token, source } => self.read_request(token, source),
            Message::ReadResponse { source, sink, offset, rest } => {
                if !rest.is_empty() && !self.regions.is_readable(source) {
                    return Err(Fault::INVALID_STAG);
                }
                self.response_segment(source, sink, offset, rest, max.saturating_sub(TAGGED_LEN))
            }
            Message::Terminate(fault) => Fpdu {
                header: untagged(Opcode::Terminate, Queue::Terminate, 1),
                payload: alloc::vec![Bytes::copy_from_slice(&fault.encode())],
            },
            Message::Nudge => Fpdu {
                header: Ddp::Tagged { opcode: Opcode::Write, last: true, stag: 0, offset: 0 },
                payload: Vec::new(),
            },
        };
        Ok(fpdu.put(out, self.settings.crc))
    }

    fn send_segment(
        &mut self,
        token: Token,
        mut rest: VecDeque<Bytes>,
        invalidate: Option<u32>,
        (offset, msn): (u32, Option<u32>),
        room: usize,
    ) -> Fpdu {
        let msn = msn.unwrap_or_else(|| {
            self.outbound.sends = self.outbound.sends.wrapping_add(1);
            self.outbound.sends
        });
        let payload = take(&mut rest, room);
        let len: usize = payload.iter().map(Bytes::len).sum();
        let last = rest.is_empty();
        let opcode = if invalidate.is_some() { Opcode::SendInvalidate } else { Opcode::Send };
        let header = Ddp::Untagged {
            opcode,
            last,
            invalidate: invalidate.unwrap_or(0),
            queue: Queue::Send as u32,
            msn,
            offset,
        };
        if last {
            self.completions.push_back(Completion::Sent { token });
        } else {
            let offset = offset.saturating_add(u32::try_from(len).unwrap_or(u32::MAX));
            self.outbound.current = Some(Message::Send { token, rest, invalidate, offset, msn: Some(msn) });
        }
        Fpdu { header, payload }
    }

    fn write_segment(&mut self, token: Token, mut sink: Segment, mut rest: Bytes, room: usize) -> Fpdu {
        let piece = rest.split_to(rest.len().min(room));
        let last = rest.is_empty();
        let header = Ddp::Tagged { opcode: Opcode::Write, last, stag: sink.handle, offset: sink.offset };
        if last {
            self.completions.push_back(Completion::Written { token });
        } else {
            sink.offset = sink.offset.wrapping_add(piece.len() as u64);
            self.outbound.current = Some(Message::Write { token, sink, rest });
        }
        Fpdu { header, payload: alloc::vec![piece] }
    }

    fn response_segment(
        &mut self,
        source: u32,
        sink: u32,
        offset: u64,
        mut rest: Bytes,
        room: usize,
    ) -> Fpdu {
        let piece = rest.split_to(rest.len().min(room));
        let last = rest.is_empty();
        if !last {
            let offset = offset.wrapping_add(piece.len() as u64);
            self.outbound.current = Some(Message::ReadResponse { source, sink, offset, rest });
        }
        Fpdu {
            header: Ddp::Tagged { opcode: Opcode::ReadResponse, last, stag: sink, offset },
            payload: alloc::vec![piece],
        }
    }

    fn read_request(&mut self, token: Token, source: Segment) -> Fpdu {
        self.outbound.read_requests = self.outbound.read_requests.wrapping_add(1);
        let mut stag = self.entropy.stag();
        while self.regions.contains(stag) || self.outbound.reads.iter().any(|read| read.stag == stag) {
            stag = self.entropy.stag();
        }
        let length = usize::try_from(source.length).unwrap_or(usize::MAX);
        // Our own number, bounded by the engine's limit on transfers; grown as the data comes.
        let pending = PendingRead { token, stag, base: 0, length, data: BytesMut::new() };
        let request = ReadRequest { sink: stag, sink_offset: pending.base, source };
        self.outbound.reads.push_back(pending);
        Fpdu {
            header: untagged(Opcode::ReadRequest, Queue::ReadRequest, self.outbound.read_requests),
            payload: alloc::vec![Bytes::copy_from_slice(&request.encode())],
        }
    }
}

fn untagged(opcode: Opcode, queue: Queue, msn: u32) -> Ddp {
    Ddp::Untagged { opcode, last: true, invalidate: 0, queue: queue as u32, msn, offset: 0 }
}

impl Fpdu {
    fn put(self, out: &mut VecDeque<Bytes>, crc: bool) -> usize {
        let len: usize = self.payload.iter().map(Bytes::len).sum();
        let (header, header_len) = self.header.encode(len);
        let header = header.split_at(header_len).0;
        let pieces: Vec<&[u8]> =
            core::iter::once(header).chain(self.payload.iter().map(|piece| &piece[..])).collect();
        let trailer = Trailer::new(&pieces, crc);
        let total = header_len.saturating_add(len).saturating_add(trailer.as_slice().len());
        out.push_back(Bytes::copy_from_slice(header));
        out.extend(self.payload.into_iter().filter(|piece| !piece.is_empty()));
        out.push_back(Bytes::copy_from_slice(trailer.as_slice()));
        total
    }
}
