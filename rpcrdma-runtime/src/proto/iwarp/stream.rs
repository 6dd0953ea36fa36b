use alloc::collections::VecDeque;
use alloc::string::ToString;

use bytes::{Bytes, BytesMut};

use super::inbound::Inbound;
use super::outbound::{Message, Outbound};
use super::regions::{Entropy, Regions};
use crate::proto::work::{Action, CloseReason, Completion};
use crate::wire::iwarp::Fault;

/// Which end of the connection this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It connected. It may send at once.
    Initiator,
    /// It accepted. It sends nothing before it has received an FPDU (RFC 5044 section 7.1.2).
    Responder,
}

/// What was agreed on at set-up, and what this end is set to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Which end.
    pub role: Role,
    /// CRCs are sent and checked.
    pub crc: bool,
    /// The largest ULPDU to send, in bytes.
    pub max_ulpdu: usize,
    /// The largest Send to receive, in bytes.
    pub receive_size: usize,
    /// RDMA Reads that this end makes at once (ORD).
    pub reads_out: u32,
    /// RDMA Reads that the peer makes at once (IRD).
    pub reads_in: u32,
}

/// One stream.
///
/// Feed what TCP brings to [`Stream::input`] and call [`Stream::process`]; take what TCP is to carry from
/// [`Stream::fill`]; ask with [`Stream::submit`] and hear from [`Stream::poll_completion`].
#[derive(Debug)]
pub struct Stream {
    pub(super) settings: Settings,
    pub(super) regions: Regions,
    pub(super) entropy: Entropy,
    pub(super) inbound: Inbound,
    pub(super) outbound: Outbound,
    pub(super) completions: VecDeque<Completion>,
    state: State,
}

#[derive(Debug)]
enum State {
    Open,
    /// Nothing more is received; once everything is sent the stream ends for this reason.
    Closing(CloseReason),
    Closed,
}

impl Stream {
    /// A stream whose set-up is done.
    #[must_use]
    pub fn new(settings: Settings, entropy: Entropy) -> Self {
        Stream {
            settings,
            regions: Regions::default(),
            entropy,
            inbound: Inbound::default(),
            outbound: Outbound::default(),
            completions: VecDeque::new(),
            state: State::Open,
        }
    }

    /// Asks for work.
    pub fn submit(&mut self, action: Action) {
        if !matches!(self.state, State::Open) {
            // What it would have brought back is in `Closed`, but memory that comes too late for that.
            if let Action::Register { token, memory } = action {
                self.completions.push_front(Completion::RegisterFailed { token, memory });
            }
            return;
        }
        match action {
            Action::PostReceives { count } => self.inbound.post_receives(count),
            Action::Send { token, message, invalidate } => {
                self.outbound.post(Message::send(token, message, invalidate));
            }
            Action::Register { token, memory } => {
                let completion = match self.regions.register(memory, &mut self.entropy) {
                    Ok(segment) => Completion::Registered { token, segment },
                    Err(memory) => Completion::RegisterFailed { token, memory },
                };
                self.completions.push_back(completion);
            }
            Action::Invalidate { token, handle } => {
                if let Some(memory) = self.regions.revoke(handle) {
                    self.completions.push_back(Completion::Invalidated { token, handle, memory });
                }
            }
            Action::Read { token, source } => self.outbound.post(Message::ReadRequest { token, source }),
            Action::Write { token, sink, data } => self.outbound.post(Message::write(token, sink, data)),
            Action::Close { reason: CloseReason::Violation(why) } => {
                self.terminate(Fault::UPPER_LAYER, CloseReason::Violation(why));
            }
            Action::Close { reason } => self.state = State::Closing(reason),
        }
    }

    /// Where bytes that TCP brought are appended.
    pub fn input(&mut self) -> &mut BytesMut {
        self.inbound.buffer()
    }

    /// Takes what is whole of the input.
    pub fn process(&mut self) {
        while matches!(self.state, State::Open) {
            match self.take_fpdu() {
                Ok(true) => {}
                Ok(false) => return,
                Err(fault) => self.terminate(fault, CloseReason::Violation(fault.why.to_string())),
            }
        }
        // Nothing of a stream that is ending is looked at.
        self.inbound.buffer().clear();
    }

    /// Hands over bytes to send, in order, until `budget` bytes are there or nothing more can go out now.
    /// A gathered FPDU comes in several pieces; payload is shared, not copied.
    pub fn fill(&mut self, out: &mut VecDeque<Bytes>, budget: usize) {
        if matches!(self.state, State::Closed) || !self.may_send() {
            return;
        }
        let mut filled = 0usize;
        while filled < budget {
            match self.next_fpdu(out) {
                Ok(0) => return,
                Ok(len) => filled = filled.saturating_add(len),
                Err(fault) => self.terminate(fault, CloseReason::Violation(fault.why.to_string())),
            }
        }
    }

    /// Sends a zero-length RDMA Write: a segment that means nothing and is legal at any time
    /// (RFC 5040 section 5.1). It wakes a peer that has left something unread.
    pub fn nudge(&mut self) {
        if matches!(self.state, State::Open) {
            self.outbound.nudge();
        }
    }

    /// The next completion.
    pub fn poll_completion(&mut self) -> Option<Completion> {
        self.completions.pop_front()
    }

    /// Whether the peer has been heard.
    #[must_use]
    pub fn has_heard(&self) -> bool {
        self.inbound.has_heard()
    }

    /// Whether the peer owes the rest of something.
    #[must_use]
    pub fn is_mid_message(&self) -> bool {
        self.inbound.is_mid_message() || self.outbound.reads_outstanding() > 0
    }

    /// Whether the stream is to end once everything is sent.
    #[must_use]
    pub fn is_closing(&self) -> bool {
        matches!(self.state, State::Closing(_))
    }

    /// Whether nothing is left to send.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.outbound.is_drained() || !self.may_send()
    }

    /// Whether the stream is over: [`Completion::Closed`] was given or is the next to be.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        matches!(self.state, State::Closed)
    }

    /// Why the stream is ending, if it is.
    #[must_use]
    pub fn closing_reason(&self) -> Option<CloseReason> {
        match &self.state {
            State::Closing(reason) => Some(reason.clone()),
            State::Open | State::Closed => None,
        }
    }

    /// Ends the stream now: all memory is fenced and given back.
    pub fn finish(&mut self, reason: CloseReason) {
        if !matches!(self.state, State::Closed) {
            self.state = State::Closed;
            let returned = self.regions.revoke_all();
            self.completions.push_back(Completion::Closed { reason, returned });
        }
    }

    fn may_send(&self) -> bool {
        self.settings.role == Role::Initiator || self.inbound.has_heard()
    }

    /// Says why, and nothing after it; then the stream ends.
    fn terminate(&mut self, fault: Fault, reason: CloseReason) {
        if matches!(self.state, State::Open) {
            self.outbound.terminate(fault);
            self.state = State::Closing(reason);
        }
    }

    /// The peer's Terminate.
    pub(super) fn terminated(&mut self, payload: &[u8]) {
        let (layer, etype, code) = Fault::decode(payload);
        self.finish(CloseReason::Terminated { layer, etype, code });
    }
}
