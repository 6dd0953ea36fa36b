mod inbound;
mod placement;

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;
use core::fmt;

use bytes::{Bytes, BytesMut};

use self::inbound::{Fault, Found, Inbound};
use super::outbound::{Finished, Outbound, Work};
use super::regions::{PendingRead, Regions};
use super::{Entropy, Role, StreamConfig};
use crate::proto::work::{Action, CloseReason, Completion, Memory, RegionPart, Segment, Token};
use crate::wire::iwarp::{Code, ReadRequest, Terminate};

/// The number of counters of [`Stream::peer_progress`].
pub const PROGRESS_COUNTERS: usize = 4;

/// An iWARP stream, from the first octet after the MPA frames to the last octet.
///
/// 1. [`Stream::submit`] accepts work.
/// 2. [`Stream::poll_transmit`] returns octets to send; [`Stream::receive`] processes received octets.
/// 3. [`Stream::poll_completion`] reports results.
///
/// When the stream ends, by an error or by [`Action::Close`], [`Stream::is_open`] becomes false and all
/// memory is fenced. [`Stream::poll_transmit`] still returns the remaining octets to send. Once they are
/// sent, [`Stream::finish`] triggers [`Completion::Closed`]. If the TCP stream is closed, [`Stream::abort`]
/// triggers this completion. Earlier completions are reported first. Until the caller has taken all of these
/// completions, [`Action::Invalidate`] still returns memory, so that a complete reply is not lost with the
/// connection.
pub struct Stream {
    pub(super) config: StreamConfig,
    pub(super) regions: Regions,
    inbound: Inbound,
    pub(super) outbound: Outbound,
    /// Outstanding local Reads, oldest first.
    pub(super) reads: VecDeque<PendingRead>,
    /// The unfinished region whose next Read is not sent yet, or an empty buffer.
    pub(super) sink: BytesMut,
    pub(super) completions: VecDeque<Completion>,
    ending: Option<CloseReason>,
    /// Memory that was submitted for registration after the stream ended.
    late: Vec<Memory>,
    /// Whether the stream has ended and sends no more output.
    finished: bool,
    closed: bool,
}

impl Stream {
    /// Creates a stream that has not sent or received any FPDU.
    #[must_use]
    pub fn new(config: StreamConfig, entropy: impl Entropy + 'static) -> Self {
        Stream {
            config,
            regions: Regions::new(Box::new(entropy)),
            inbound: Inbound::new(config.markers_in),
            outbound: Outbound::new(config.max_fpdu, config.crc, config.markers_out),
            reads: VecDeque::new(),
            sink: BytesMut::new(),
            completions: VecDeque::new(),
            ending: None,
            late: Vec::new(),
            finished: false,
            closed: false,
        }
    }

    /// Submits work. Invalid work ends the stream. After the end, submissions can only reclaim memory. After
    /// [`Completion::Closed`], submissions have no effect.
    pub fn submit(&mut self, action: Action) {
        match action {
            _ if self.closed => {}
            Action::Invalidate { token, handle } => {
                let done = self.regions.invalidate(token, handle);
                self.completions.extend(done);
            }
            Action::Register { memory, .. } if !self.is_open() => self.late.push(memory),
            _ if !self.is_open() => {}
            Action::PostReceives { count } => self.inbound.post(count),
            Action::Send { token, message, invalidate } => {
                let length: usize = message.iter().map(Bytes::len).sum();
                if u32::try_from(length).is_err() {
                    return self.reject_work("a Send of 4 GiB or more");
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
            Action::Abandon { handle } => self.regions.abandon(handle),
            Action::Read { token, source, part } => {
                if self.config.ord == 0 {
                    return self.reject_work("an RDMA Read on a connection with an ORD of 0");
                }
                if source.offset.checked_add(u64::from(source.length)).is_none() {
                    return self.reject_work("the source offsets of an RDMA Read overflow 64 bits");
                }
                self.outbound.push(Work::Read { token, source, part });
            }
            Action::Write { token, sink, data } => {
                let length = u64::try_from(data.len()).unwrap_or(u64::MAX);
                if length > u64::from(sink.length) || sink.offset.checked_add(length).is_none() {
                    return self.reject_work("an RDMA Write does not fit into its sink");
                }
                self.outbound.push(Work::Write { token: Some(token), sink, data });
            }
            Action::Close { reason: CloseReason::Violation(what) } => {
                let terminate = Terminate { code: Code::UNSPECIFIED, segment: None, read_request: None };
                self.end_now(Some(terminate), CloseReason::Violation(what));
            }
            Action::Close { reason } => {
                let dropped = self.outbound.prepare_close();
                let done = dropped.filter_map(|handle| self.regions.response_sent(handle));
                self.completions.extend(done);
                self.end(reason);
            }
        }
    }

    /// Processes received octets of the TCP stream, which may be split at any position.
    pub fn receive(&mut self, octets: &[u8]) {
        if self.is_open()
            && self.config.role == Role::Initiator
            && !self.outbound.started()
            && !octets.is_empty()
        {
            return self.fail(CloseReason::Violation("the responder sent data first".to_string()));
        }
        // Moves the assembly out of `self`, because its FPDU is borrowed while the rest of the stream
        // changes.
        let mut assembly = core::mem::take(&mut self.inbound.assembly);
        let mut rest = octets;
        while self.is_open() {
            if let Some(placement) = self.inbound.placement.take() {
                rest = self.continue_placement(placement, rest);
                if self.inbound.placement.is_some() {
                    break;
                }
                continue;
            }
            if assembly.is_empty()
                && let Some(after) = self.begin_placement(rest)
            {
                rest = after;
                continue;
            }
            let (found, after) = assembly.next(rest, self.inbound.markers);
            rest = after;
            let fpdu = match &found {
                Found::Contiguous(fpdu) => fpdu,
                Found::Assembled => assembly.partial(),
                Found::Incomplete => break,
            };
            self.take_fpdu(fpdu);
            if let Found::Assembled = found {
                assembly.clear();
            }
        }
        self.inbound.assembly = assembly;
    }

    /// Appends output to `out`, until at least `budget` octets are appended or nothing is ready. Returns the
    /// number of appended octets. Without markers, long payload is shared instead of copied.
    pub fn poll_transmit(&mut self, budget: usize, out: &mut VecDeque<Bytes>) -> usize {
        let mut total = 0usize;
        while total < budget && self.has_output() {
            if let Some((token, source, part)) = self.outbound.take_read(self.may_read()) {
                self.begin_read(token, source, part);
            }
            let Some((len, sent)) = self.outbound.emit(out) else { break };
            total = total.saturating_add(len);
            match sent {
                Some(Finished::Sent(token)) => self.completions.push_back(Completion::Sent { token }),
                Some(Finished::Written(token)) => self.completions.push_back(Completion::Written { token }),
                Some(Finished::Response(handle)) => {
                    let done = self.regions.response_sent(handle);
                    self.completions.extend(done);
                }
                None => {}
            }
        }
        self.outbound.flush(out);
        total
    }

    /// Returns the next completion, if any, oldest first. [`Completion::Closed`] is the last.
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

    /// Returns true if [`Stream::poll_completion`] would return a completion.
    #[must_use]
    pub fn has_completion(&self) -> bool {
        !self.completions.is_empty() || (self.finished && !self.closed)
    }

    /// Returns true if [`Stream::poll_transmit`] would return octets.
    #[must_use]
    pub fn has_output(&self) -> bool {
        self.may_transmit() && self.outbound.is_ready(self.may_read())
    }

    /// Returns true if the stream has not ended.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.ending.is_none()
    }

    /// Returns true if [`Completion::Closed`] was returned.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Returns progress counters for data that the peer must still send: the rest of an FPDU, Send or RDMA
    /// Write, and Read Responses. A counter is `None` if no such data is outstanding. If a counter has a
    /// value that does not change, the peer is stalled.
    #[must_use]
    pub fn peer_progress(&self) -> [Option<u64>; PROGRESS_COUNTERS] {
        if !self.is_open() {
            return [None; PROGRESS_COUNTERS];
        }
        let [fpdu, send, write] = self.inbound.peer_progress();
        [fpdu, send, write, (!self.reads.is_empty()).then_some(self.inbound.counters.reads)]
    }

    /// Queues an empty RDMA Write if the stream may send and has no other output. The receiver ignores this
    /// RDMA Write. Its TCP segment makes Linux's siw read the first FPDU, which siw may leave unread until
    /// another TCP segment arrives.
    pub fn probe(&mut self) {
        if self.is_open() && self.may_transmit() && !self.has_output() {
            let sink = Segment { handle: 0, length: 0, offset: 0 };
            self.outbound.push(Work::Write { token: None, sink, data: Bytes::new() });
        }
    }

    /// Sets the maximum size of later FPDUs (see [`StreamConfig::max_fpdu`]).
    pub fn set_max_fpdu(&mut self, max_fpdu: usize) {
        self.outbound.set_max_fpdu(max_fpdu);
    }

    #[cfg(test)]
    pub(crate) fn max_fpdu(&self) -> usize {
        self.outbound.max_fpdu
    }

    /// Records that all output was sent: the stream closes once all completions are taken. Has no effect
    /// while the stream is open.
    pub fn finish(&mut self) {
        self.finished = !self.is_open();
    }

    /// Ends the stream without further output, for example because the TCP stream was closed or the peer
    /// timed out. A stream that is already ending keeps its first reason.
    pub fn abort(&mut self, reason: CloseReason) {
        self.fail(reason);
        self.finish();
    }

    fn may_transmit(&self) -> bool {
        self.config.role == Role::Initiator || self.inbound.fpdus > 0
    }

    fn may_read(&self) -> bool {
        u32::try_from(self.reads.len()).is_ok_and(|outstanding| outstanding < self.config.ord)
    }

    fn begin_read(&mut self, token: Token, source: Segment, part: RegionPart) {
        let Some((sink_stag, sink_offset)) = self.regions.new_handle() else {
            return self.reject_work("no handle for an RDMA Read: no random numbers, or no unused handle");
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
        let is_continued = part.offset > 0 && self.reads.is_empty();
        let data = if is_continued { core::mem::take(&mut self.sink) } else { BytesMut::new() };
        self.reads.push_back(PendingRead { token, sink_stag, sink_offset, length, part, data });
    }

    /// Ends the stream with a Terminate because the peer violated a rule.
    fn terminate(&mut self, fault: &Fault, ulpdu: &[u8], placed: usize) {
        let reason = CloseReason::Violation(format!("{}: {}", fault.what, fault.code));
        // Allows a responder to send the Terminate even if no valid FPDU has arrived.
        self.inbound.fpdus = self.inbound.fpdus.max(1);
        self.end_now(Some(fault.terminate(ulpdu, placed)), reason);
    }

    /// Ends the stream with a Terminate because of a local error (RFC 5040 section 7.1).
    fn reject_work(&mut self, what: &str) {
        let terminate = Terminate { code: Code::LOCAL_CATASTROPHIC, segment: None, read_request: None };
        let reason = CloseReason::Io(format!("local error: {what}"));
        self.end_now(Some(terminate), reason);
    }

    /// Ends the stream without sending another octet.
    pub(super) fn fail(&mut self, reason: CloseReason) {
        self.end_now(None, reason);
    }

    fn end_now(&mut self, terminate: Option<Terminate>, reason: CloseReason) {
        self.outbound.end(terminate);
        let done = self.regions.responses_dropped();
        self.completions.extend(done);
        self.end(reason);
    }

    fn end(&mut self, reason: CloseReason) {
        if self.ending.is_none() {
            self.regions.fence_all();
            self.reads.clear();
            self.sink = BytesMut::new();
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
