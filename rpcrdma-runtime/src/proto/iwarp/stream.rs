mod inbound;

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;
use core::fmt;

use bytes::{Bytes, BytesMut};

use self::inbound::{Fault, Found, Inbound};
use super::outbound::{Departure, Outbound, Work};
use super::regions::{PendingRead, Regions};
use super::{Entropy, Role, StreamConfig};
use crate::proto::work::{Action, CloseReason, Completion, Memory, Segment, Token};
use crate::wire::iwarp::{Code, ReadRequest, Terminate};

/// Kinds of things that a peer can owe: see [`Stream::owed`].
pub const OWED: usize = 4;

/// One end of an iWARP stream, from the first octet behind the MPA frames to the last.
///
/// 1. [`Stream::submit`] takes work.
/// 2. [`Stream::poll_transmit`] gives octets to send; [`Stream::receive`] takes octets that came.
/// 3. [`Stream::poll_completion`] tells what has happened.
///
/// When it ends, of itself or by [`Action::Close`], [`Stream::is_open`] turns false and all memory is fenced. What is
/// still to be sent comes from [`Stream::poll_transmit`]; then [`Stream::finish`] brings [`Completion::Closed`].
/// If the TCP stream is gone, [`Stream::abort`] does. What came before the end is told first, and until all of it was
/// taken [`Action::Invalidate`] gives memory back: a reply that came whole is not lost with the connection.
pub struct Stream {
    pub(super) config: StreamConfig,
    pub(super) regions: Regions,
    inbound: Inbound,
    pub(super) outbound: Outbound,
    /// Our Reads without an answer, the oldest first.
    pub(super) reads: VecDeque<PendingRead>,
    pub(super) completions: VecDeque<Completion>,
    ending: Option<CloseReason>,
    /// Memory that was to be advertised after the end.
    late: Vec<Memory>,
    /// Nothing more is to be sent after the end.
    finished: bool,
    closed: bool,
}

impl Stream {
    /// A stream on which no FPDU was sent or received.
    #[must_use]
    pub fn new(config: StreamConfig, entropy: impl Entropy + 'static) -> Self {
        Stream {
            config,
            regions: Regions::new(Box::new(entropy)),
            inbound: Inbound::new(),
            outbound: Outbound::new(config.max_fpdu, config.crc),
            reads: VecDeque::new(),
            completions: VecDeque::new(),
            ending: None,
            late: Vec::new(),
            finished: false,
            closed: false,
        }
    }

    /// Takes work. What cannot be done ends the stream. Once it has ended memory can still be had back, and nothing
    /// else is done; once [`Completion::Closed`] was given out, nothing at all.
    pub fn submit(&mut self, action: Action) {
        if !self.is_open() {
            return self.submit_late(action);
        }
        match action {
            Action::PostReceives { count } => self.inbound.post(count),
            Action::Send { token, message, invalidate } => {
                let length: usize = message.iter().map(Bytes::len).sum();
                if u32::try_from(length).is_err() {
                    return self.refuse("a Send of 4 GiB or more");
                }
                self.outbound.push(Work::Send { token, message, invalidate });
            }
            Action::Register { token, memory } => {
                let max = self.config.max_region;
                self.completions.push_back(match self.regions.register(memory, max) {
                    Ok(segment) => Completion::Registered { token, segment },
                    Err(memory) => Completion::RegisterFailed { token, memory },
                });
            }
            Action::Invalidate { token, handle } => {
                let done = self.regions.invalidate(token, handle);
                self.completions.extend(done);
            }
            Action::Abandon { handle } => self.regions.abandon(handle),
            Action::Read { token, source } => {
                if self.config.reads_out == 0 {
                    return self.refuse("the peer takes no RDMA Read on this connection");
                }
                if source.offset.checked_add(u64::from(source.length)).is_none() {
                    return self.refuse("the memory to read ends beyond 64 bits");
                }
                self.outbound.push(Work::Read { token, source });
            }
            Action::Write { token, sink, data } => {
                let length = u64::try_from(data.len()).unwrap_or(u64::MAX);
                if length > u64::from(sink.length) || sink.offset.checked_add(length).is_none() {
                    return self.refuse("an RDMA Write does not fit the memory it is for");
                }
                self.outbound.push(Work::Write { token: Some(token), sink, data });
            }
            Action::Close { reason: CloseReason::Violation(what) } => {
                let terminate = Terminate { code: Code::UNSPECIFIED, segment: None, read_request: None };
                self.cut(Some(terminate), CloseReason::Violation(what));
            }
            Action::Close { reason } => {
                self.outbound.wind_up();
                self.end(reason);
            }
        }
    }

    /// Work that crossed the end of the stream: memory finds its way back.
    fn submit_late(&mut self, action: Action) {
        match action {
            _ if self.closed => {}
            Action::Register { memory, .. } => self.late.push(memory),
            Action::Invalidate { token, handle } => {
                let done = self.regions.invalidate(token, handle);
                self.completions.extend(done);
            }
            _ => {}
        }
    }

    /// Takes octets of the TCP stream, cut in any way.
    pub fn receive(&mut self, octets: &[u8]) {
        if self.is_open()
            && self.config.role == Role::Initiator
            && !self.outbound.started()
            && !octets.is_empty()
        {
            return self.fail(CloseReason::Violation("the responder sent before the initiator".to_string()));
        }
        // Taken out, so that the FPDU in it can be looked at while the rest of the stream changes.
        let mut assembly = core::mem::take(&mut self.inbound.assembly);
        let mut rest = octets;
        while self.is_open() {
            let (found, after) = assembly.next(rest);
            rest = after;
            let fpdu = match &found {
                Found::Whole(fpdu) => fpdu,
                Found::Partial => assembly.partial(),
                Found::Nowhere => break,
            };
            if let Err(fault) = self.take_fpdu(fpdu) {
                self.terminate(&fault, fpdu);
            }
            if let Found::Partial = found {
                assembly.clear();
            }
        }
        self.inbound.assembly = assembly;
    }

    /// Appends to `out` what is to be sent, in pieces, until there are `budget` octets or more, or nothing is ready.
    /// Says how many octets it has appended. Payload is not copied, and each piece belongs to one FPDU or to the
    /// seam of two, so `out` can be written as it comes.
    pub fn poll_transmit(&mut self, budget: usize, out: &mut VecDeque<Bytes>) -> usize {
        let mut total = 0usize;
        while total < budget && self.may_transmit() {
            if let Some((token, source)) = self.outbound.take_read(self.may_read()) {
                self.begin_read(token, source);
            }
            let Some((len, departure)) = self.outbound.emit(out) else { break };
            total = total.saturating_add(len);
            match departure {
                Some(Departure::Sent(token)) => self.completions.push_back(Completion::Sent { token }),
                Some(Departure::Written(token)) => self.completions.push_back(Completion::Written { token }),
                Some(Departure::Response(handle)) => {
                    let done = self.regions.response_left(handle);
                    self.completions.extend(done);
                }
                None => {}
            }
        }
        self.outbound.flush(out);
        total
    }

    /// What has happened, the oldest first. [`Completion::Closed`] is the last.
    pub fn poll_completion(&mut self) -> Option<Completion> {
        if let Some(completion) = self.completions.pop_front() {
            return Some(completion);
        }
        let reason = self.ending.clone().filter(|_| self.finished && !self.closed)?;
        self.closed = true;
        let mut returned = self.regions.take_all();
        returned.append(&mut self.late);
        Some(Completion::Closed { reason, returned })
    }

    /// Whether [`Stream::poll_completion`] has something.
    #[must_use]
    pub fn has_completion(&self) -> bool {
        !self.completions.is_empty() || (self.finished && !self.closed)
    }

    /// Whether [`Stream::poll_transmit`] has something.
    #[must_use]
    pub fn has_output(&self) -> bool {
        self.may_transmit() && self.outbound.is_ready(self.may_read())
    }

    /// Whether the stream carries on.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.ending.is_none()
    }

    /// Whether [`Completion::Closed`] was given out.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// What the peer owes, and how far it has come with each: the rest of an FPDU, of a Send and of an RDMA Write, and
    /// the answers to RDMA Reads. A number that stands still is a debt that is not being paid; whatever else the
    /// peer sends does not move it. `None` is owed nothing.
    #[must_use]
    pub fn owed(&self) -> [Option<u64>; OWED] {
        if !self.is_open() {
            return [None; OWED];
        }
        let [fpdu, send, write] = self.inbound.owed();
        [fpdu, send, write, (!self.reads.is_empty()).then_some(self.inbound.paid.reads)]
    }

    /// Sends an RDMA Write of no octets, which a receiver does nothing about, unless other things are to be sent
    /// anyway. Linux's siw may leave the first FPDU unread until one more segment comes.
    pub fn nudge(&mut self) {
        if self.is_open() && self.may_transmit() && !self.has_output() {
            let sink = Segment { handle: 0, length: 0, offset: 0 };
            self.outbound.push(Work::Write { token: None, sink, data: Bytes::new() });
        }
    }

    /// All that could be sent was sent: the stream closes once all completions were taken. Does nothing while it is
    /// open.
    pub fn finish(&mut self) {
        self.finished = !self.is_open();
    }

    /// The TCP stream is gone, or the peer took too long. If the stream was ending already, for a reason of its own,
    /// that reason stays.
    pub fn abort(&mut self, reason: CloseReason) {
        self.fail(reason);
        self.finish();
    }

    fn may_transmit(&self) -> bool {
        self.config.role == Role::Initiator || self.inbound.fpdus > 0
    }

    fn may_read(&self) -> bool {
        u32::try_from(self.reads.len()).is_ok_and(|outstanding| outstanding < self.config.reads_out)
    }

    fn begin_read(&mut self, token: Token, source: Segment) {
        let Some((sink_stag, sink_offset)) = self.regions.fresh() else {
            return self.fail(CloseReason::Io("no random numbers are to be had".to_string()));
        };
        let length = source.length;
        let request = ReadRequest {
            sink_stag,
            sink_offset,
            length,
            source_stag: source.handle,
            source_offset: source.offset,
        };
        self.outbound.request(&request);
        self.reads.push_back(PendingRead { token, sink_stag, sink_offset, length, data: BytesMut::new() });
    }

    /// The peer broke a rule: it is told with a Terminate.
    fn terminate(&mut self, fault: &Fault, fpdu: &[u8]) {
        let reason = CloseReason::Violation(format!("{}: {}", fault.what, fault.code));
        // Whoever sends rubbish has begun to send.
        self.inbound.fpdus = self.inbound.fpdus.max(1);
        self.cut(Some(fault.terminate(fpdu)), reason);
    }

    /// This end asked for what cannot be: no fault of the peer's.
    fn refuse(&mut self, what: &str) {
        self.fail(CloseReason::Io(format!("this side asked for what cannot be: {what}")));
    }

    /// Ends the stream, without another octet sent.
    pub(super) fn fail(&mut self, reason: CloseReason) {
        self.cut(None, reason);
    }

    /// Ends the stream; what was to be sent is dropped.
    fn cut(&mut self, terminate: Option<Terminate>, reason: CloseReason) {
        self.outbound.end(terminate);
        let done = self.regions.responses_dropped();
        self.completions.extend(done);
        self.end(reason);
    }

    fn end(&mut self, reason: CloseReason) {
        if self.ending.is_none() {
            self.regions.fence_all();
            self.reads.clear();
            self.ending = Some(reason);
        }
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream")
            .field("config", &self.config)
            .field("received", &self.inbound.fpdus)
            .field("reads", &self.reads.len())
            .field("ending", &self.ending)
            .finish_non_exhaustive()
    }
}
