//! The requester: sends calls and matches replies. A call completes only after its advertised memory is
//! fenced.

mod call;
mod plan;
mod session;

use alloc::collections::VecDeque;
use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;
use core::mem::{self, discriminant};

use bytes::Bytes;
use tracing::debug;

use self::call::{CallState, Outcome, Phase};
use self::plan::{Plan, Planner};
use super::region::{Region, RegionState, Spare};
use super::{Config, Credits, OfferError, PeerLimits, ReplyResources};
use crate::proto::call::{CallId, IncomingReply, RequesterEvent, Traffic, TransportError, Unsendable};
use crate::proto::program::ReplyBounds;
use crate::proto::table::Table;
use crate::proto::work::{Action, CloseReason, Completion, Token};
use crate::wire::private_data::Negotiated;
use crate::wire::rdma::{Body, ErrorBody, Header, ReplyRefusal, decode_reply};
use crate::xdr::Message;

/// A call to be made.
#[derive(Clone, Debug)]
pub struct OutgoingCall {
    /// The RPC message. Its first word is the XID, which must be unique among outstanding calls.
    pub message: Message,
    /// The memory to offer for the reply.
    pub reply: ReplyResources,
}

/// The bit that marks tokens of backward-direction engines.
pub(super) const FIRST_BACKWARD: u64 = 1 << 63;
/// The token of error replies to backward calls.
const BACKWARD_ERROR: Token = Token(1 << 62);
/// The number of bits below the XID in the token of a region or Send. For a region, these bits contain its
/// index. For a Send, all these bits are set.
const REGION_BITS: u32 = 24;
const SEND: u64 = (1 << REGION_BITS) - 1;

fn token_of(xid: u32, region: u64) -> Token {
    Token(u64::from(xid) << REGION_BITS | region & SEND)
}

fn split(Token(token): Token) -> Option<(u32, usize)> {
    Some((u32::try_from(token >> REGION_BITS).ok()?, usize::try_from(token & SEND).ok()?))
}

/// The number of invalid replies after which the requester closes the connection.
const MAX_BAD_REPLIES: u32 = 8;

/// The requester of one connection.
#[derive(Debug)]
pub struct Requester {
    config: Config,
    negotiated: Negotiated,
    /// The maximum size of the Send of an inline call, in bytes.
    inline: u32,
    /// Whether the responder supports RDMA Reads.
    reads: bool,
    max_segment: u32,
    credits: Credits,
    submitted: u32,
    /// Calls with a credit, by their XID.
    calls: Table<CallState>,
    /// Calls waiting for a credit, in the order of submission.
    queue: VecDeque<(CallId, OutgoingCall)>,
    /// The XIDs of unsent calls whose memory is registered.
    ready: VecDeque<u32>,
    actions: VecDeque<Action>,
    events: VecDeque<RequesterEvent>,
    closing: Option<CloseReason>,
    closed: bool,
    discarded: u64,
    bad_replies: u32,
    credit_waits: u64,
    /// Whether this requester makes backward calls, which have no chunks.
    backward: bool,
    /// Whether the provider supports [`Action::Abandon`].
    local_fence: bool,
    /// The number of sent calls that timed out and have no reply.
    overdue: u32,
    /// Whether the responder has sent anything since the last `take_received`.
    has_received: bool,
    spare: Spare,
}

impl Requester {
    /// Creates the requester of a new connection and posts its first Receives: one for each requested credit,
    /// and one for an unsolicited message.
    #[must_use]
    pub fn new(config: Config, negotiated: Negotiated, max_region: u32) -> Self {
        let credits = Credits::new(config.credits);
        let receives = Action::PostReceives { count: credits.requested().saturating_add(1) };
        Requester {
            config,
            negotiated,
            inline: negotiated.call_threshold,
            reads: true,
            max_segment: config.max_segment.min(max_region).max(1),
            credits,
            submitted: 0,
            calls: Table::default(),
            queue: VecDeque::new(),
            ready: VecDeque::new(),
            actions: VecDeque::from([receives]),
            events: VecDeque::new(),
            closing: None,
            closed: false,
            discarded: 0,
            bad_replies: 0,
            credit_waits: 0,
            backward: false,
            local_fence: false,
            overdue: 0,
            has_received: false,
            spare: Spare::default(),
        }
    }

    /// Sets whether the provider can fence sinks that the peer may still use (`ConnectionInfo::local_fence`).
    #[must_use]
    pub fn with_local_fence(self, local_fence: bool) -> Self {
        Requester { local_fence, ..self }
    }

    /// Creates the requester of the backward direction, for the server.
    pub(super) fn backward(config: Config, negotiated: Negotiated) -> Self {
        let config = Config { credits: config.backward_credits, ..config };
        let mut requester = Requester::new(config, negotiated.reversed(), u32::MAX);
        requester.backward = true;
        requester
    }

    /// Returns the parameters negotiated in the handshake.
    #[must_use]
    pub fn negotiated(&self) -> Negotiated {
        self.negotiated
    }

    /// Returns the memory that a call must offer for a reply within these bounds.
    ///
    /// # Errors
    /// Returns [`OfferError`] if the reply has no upper bound, or a bound above the maximum size of a chunk.
    pub fn resources(&self, bounds: &ReplyBounds) -> Result<ReplyResources, OfferError> {
        ReplyResources::in_segments(bounds, self.negotiated.reply_threshold, self.max_segment)
    }

    /// Applies the limits that the responder announces (RFC 5666 section 6.2) to all calls that start later.
    /// These calls send at most the announced size inline. If the responder supports no RDMA Reads, these
    /// calls have no Read chunks. A call that cannot be sent within these limits fails.
    pub fn set_peer_limits(&mut self, responder: PeerLimits) {
        let own = self.config.private_data.announced().send_size;
        self.inline = responder.threshold(self.negotiated.call_threshold, own);
        self.reads = responder.reads > 0;
    }

    /// Returns the current flow control state.
    #[must_use]
    pub fn credits(&self) -> Credits {
        self.credits
    }

    /// Returns the number of calls waiting for a credit.
    #[must_use]
    pub fn queued(&self) -> usize {
        self.queue.len()
    }

    /// Returns the total number of calls that had to wait for a credit.
    #[must_use]
    pub fn credit_waits(&self) -> u64 {
        self.credit_waits
    }

    /// Returns the number of received messages that were dropped (RFC 8166 section 4.5), such as replies that
    /// match no outstanding call.
    #[must_use]
    pub fn discarded(&self) -> u64 {
        self.discarded
    }

    /// Returns the next action for the provider, if any.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// Returns the next event, if any.
    pub fn poll_event(&mut self) -> Option<RequesterEvent> {
        self.events.pop_front()
    }

    /// Submits a call, which starts as soon as a credit is free. Calls start in the order of submission.
    pub fn submit(&mut self, call: OutgoingCall) -> CallId {
        let id = self.new_id(&call.message);
        self.submit_as(id, call);
        id
    }

    pub(super) fn submit_as(&mut self, id: CallId, call: OutgoingCall) {
        if let Some(reason) = &self.closing {
            let outcome = Err(TransportError::Unsent(reason.clone()));
            self.end(id, outcome);
        } else if self.queue.is_empty() && self.credits.take() {
            self.start(id, call);
        } else {
            self.queue.push_back((id, call));
            self.credit_waits = self.credit_waits.saturating_add(1);
        }
    }

    pub(super) fn refuse(&mut self, message: &Message, why: TransportError) -> CallId {
        let id = self.new_id(message);
        self.end(id, Err(why));
        id
    }

    fn end(&mut self, call: CallId, outcome: Result<IncomingReply, TransportError>) {
        self.events.push_back(RequesterEvent::Done { call, outcome });
    }

    fn new_id(&mut self, message: &Message) -> CallId {
        self.submitted = self.submitted.wrapping_add(1);
        CallId::new(self.submitted, message).0
    }

    /// Abandons the call: no event follows. Its memory stays with the provider until the memory is fenced
    /// (RFC 8166 section 4.4.1). Its credit stays in use until the call completes. If the call has not been
    /// sent yet, it will not be sent.
    pub fn cancel(&mut self, call: CallId) {
        self.queue.retain(|(queued, _)| *queued != call);
        self.events
            .retain(|event| !matches!(event, RequesterEvent::Done { call: done, .. } if *done == call));
        let Some(state) = self.calls.get_mut(call.xid()).filter(|state| state.id == call) else { return };
        state.abandoned = true;
        if let Some(index) = self.ready.iter().position(|ready| *ready == call.xid()) {
            self.ready.remove(index);
            self.fence(call.xid(), Outcome::Failed(TransportError::Registration));
        }
    }

    /// Closes the connection.
    pub fn close(&mut self, reason: CloseReason) {
        if self.closing.is_none() {
            self.closing = Some(reason.clone());
            self.actions.push_back(Action::Close { reason });
        }
    }

    /// Returns true if the call holds a credit. The call may also hold memory that the peer can access. The
    /// end of the call or of the connection releases the credit and the memory.
    #[must_use]
    pub fn holds_resources(&self, call: CallId) -> bool {
        self.calls.get(call.xid()).is_some_and(|state| state.id == call)
    }

    /// Returns true if a call with this XID holds a credit.
    pub(super) fn is_outstanding(&self, xid: u32) -> bool {
        self.calls.contains(xid)
    }

    /// Returns true if the connection is closed or closing.
    #[must_use]
    pub fn is_closing(&self) -> bool {
        self.closing.is_some()
    }

    /// Times out and abandons a call. A sent call keeps its credit until its reply arrives or the connection
    /// ends. Its sinks are fenced. Its sources stay registered, since their content cannot change and the
    /// responder may still run the call.
    ///
    /// Closes the connection if the provider cannot fence the memory of a sent call, or if timed-out calls
    /// hold all credits.
    pub fn expire(&mut self, call: CallId) {
        self.cancel(call);
        let waiting = |state: &&mut CallState| state.id == call && matches!(state.phase, Phase::Sent);
        let Some(state) = self.calls.get_mut(call.xid()).filter(waiting) else { return };
        if !self.local_fence && !state.regions.is_empty() {
            return self.close(CloseReason::Timeout("a call had no reply".to_string()));
        }
        if !mem::replace(&mut state.overdue, true) {
            self.overdue = self.overdue.saturating_add(1);
            let sinks = state.regions.iter().filter_map(Region::sink);
            self.actions.extend(sinks.map(|handle| Action::Abandon { handle }));
            self.close_if_stuck();
        }
    }

    /// Returns true if a sent call timed out and has no reply.
    #[must_use]
    pub fn is_overdue(&self) -> bool {
        self.overdue > 0
    }

    fn close_if_stuck(&mut self) {
        if self.overdue >= self.credits.granted() {
            self.close(CloseReason::Timeout("calls without a reply hold all credits".to_string()));
        }
    }

    /// Returns true if an action or an event is pending.
    #[must_use]
    pub fn has_work(&self) -> bool {
        !self.actions.is_empty() || !self.events.is_empty()
    }

    pub(super) fn has_event(&self) -> bool {
        !self.events.is_empty()
    }

    /// Handles a completion from the provider. A completion with an unknown token has no effect.
    pub fn handle_completion(&mut self, completion: Completion) {
        if self.closed {
            return;
        }
        match completion {
            Completion::Registered { token, segment } => {
                let advertised = RegionState::Advertised(segment);
                self.change_region_state(token, &RegionState::Registering, advertised);
            }
            Completion::RegisterFailed { token, memory } => {
                let returned = RegionState::Returned(Some(memory));
                self.change_region_state(token, &RegionState::Registering, returned);
            }
            Completion::Invalidated { token, memory, .. } => {
                let returned = RegionState::Returned(Some(memory));
                self.change_region_state(token, &RegionState::Fencing, returned);
            }
            Completion::Received { message, invalidated } => {
                self.has_received = true;
                self.received(&message, invalidated);
            }
            Completion::Closed { reason, .. } => self.connection_closed(&reason),
            Completion::Sent { token: BACKWARD_ERROR } => self.post_receive(),
            // A requester issues no RDMA Reads or Writes, and other completed Sends need no action.
            Completion::Sent { .. } | Completion::ReadDone { .. } | Completion::Written { .. } => {}
        }
    }

    fn start_queued(&mut self) {
        while self.closing.is_none() && !self.queue.is_empty() && self.credits.take() {
            if let Some((id, call)) = self.queue.pop_front() {
                self.start(id, call);
            }
        }
    }

    fn start(&mut self, id: CallId, call: OutgoingCall) {
        let (xid, plan) = match self.plan(call) {
            Ok(planned) => planned,
            Err(why) => {
                self.credits.release();
                return self.end(id, Err(TransportError::Unsendable(why)));
            }
        };
        let mut regions = plan.regions;
        for (number, region) in (0..).zip(&mut regions) {
            if let RegionState::Planned(memory) = mem::replace(&mut region.state, RegionState::Registering) {
                self.actions.push_back(Action::Register { token: token_of(xid, number), memory });
            }
        }
        let state = CallState {
            id,
            phase: Phase::Registering { inline: plan.inline, failed: false },
            regions,
            write_chunks: plan.write_chunks,
            traffic: Traffic::default(),
            abandoned: false,
            overdue: false,
        };
        // Cannot fail: [`Requester::plan`] has checked that no call has this XID.
        let _ = self.calls.insert(xid, state);
        self.advance(xid);
    }

    fn plan(&mut self, call: OutgoingCall) -> Result<(u32, Plan), Unsendable> {
        let xid = call.message.stream.first_chunk().map(|word| u32::from_be_bytes(*word));
        let xid = xid.ok_or(Unsendable::NoXid)?;
        if self.calls.contains(xid) {
            return Err(Unsendable::RepeatedXid);
        }
        let planner = Planner {
            threshold: self.negotiated.call_threshold.max(self.inline),
            inline: self.inline,
            reads: self.reads && !self.backward,
            reply_threshold: self.negotiated.reply_threshold,
            max_segment: self.max_segment,
            long_call: self.config.long_call,
            limits: self.config.limits,
        };
        Ok((xid, planner.plan(call, &mut self.spare)?))
    }

    /// Changes the state of a region and advances its call. Does nothing unless the region is in the state
    /// `from`: a duplicate completion must not end a call before its memory is fenced.
    fn change_region_state(&mut self, token: Token, from: &RegionState, to: RegionState) {
        let Some((xid, number)) = split(token) else { return };
        let Some(CallState { phase, regions, .. }) = self.calls.get_mut(xid) else { return };
        let Some(Region { state, .. }) = regions.get_mut(number) else { return };
        if discriminant(state) != discriminant(from) {
            return;
        }
        *state = to;
        if let (Phase::Registering { failed, .. }, RegionState::Returned(_)) = (phase, state) {
            *failed = true;
        }
        self.advance(xid);
    }

    fn advance(&mut self, xid: u32) {
        let Some(call) = self.calls.get_mut(xid) else { return };
        match &mut call.phase {
            Phase::Registering { failed, .. } => {
                if call.regions.iter().any(|region| matches!(region.state, RegionState::Registering)) {
                    return;
                }
                if *failed || call.abandoned {
                    self.fence(xid, Outcome::Failed(TransportError::Registration));
                } else {
                    self.ready.push_back(xid);
                    self.send_ready();
                }
            }
            Phase::Sent => {}
            Phase::Fencing(_) => {
                if call.regions.iter().all(|region| matches!(region.state, RegionState::Returned(_))) {
                    self.finish(xid);
                }
            }
        }
    }

    fn send_ready(&mut self) {
        while self.closing.is_none() && !self.ready.is_empty() && self.credits.send() {
            let Some(xid) = self.ready.pop_front() else { return };
            if let Some(CallState { phase: phase @ Phase::Registering { .. }, .. }) = self.calls.get_mut(xid)
                && let Phase::Registering { inline, .. } = mem::replace(phase, Phase::Sent)
            {
                self.send(xid, inline);
            }
        }
    }

    fn send(&mut self, xid: u32, inline: Option<Bytes>) {
        let requested = self.credits.requested();
        let Some(call) = self.calls.get_mut(xid) else { return };
        let lists = call.lists(&mut self.spare);
        call.traffic.count_offered(&lists, inline.is_none());
        let body = if inline.is_some() { Body::Msg(lists) } else { Body::NoMsg(lists) };
        let message = Header { xid, credits: requested, body }.with_payload(inline);
        call.traffic.call_inline = message.iter().map(|piece| piece.len() as u64).sum();
        let direction = if self.backward { FIRST_BACKWARD } else { 0 };
        let token = Token(token_of(xid, SEND).0 | direction);
        self.actions.push_back(Action::Send { token, message, invalidate: None });
    }

    fn received(&mut self, message: &Bytes, invalidated: Option<u32>) {
        let decoded = decode_reply(message, &self.config.limits);
        if let Err(ReplyRefusal::BackwardCall { xid, chunks: true }) = decoded {
            self.refuse_backward_call(xid);
            return self.discard("a call with chunks in the backward direction", invalidated);
        }
        self.post_receive();
        let len = message.len() as u64;
        let (xid, reply) = match decoded {
            Ok((header, payload)) => (header.xid, Ok((header, payload))),
            Err(ReplyRefusal::Fail { xid, why }) => (xid, Err(why)),
            Err(ReplyRefusal::Discard(why)) => return self.discard(why, invalidated),
            Err(ReplyRefusal::BackwardCall { .. }) => {
                return self.discard("a call in the backward direction", invalidated);
            }
        };
        let waiting = |call: &&mut CallState| matches!(call.phase, Phase::Sent);
        let Some(call) = self.calls.get_mut(xid).filter(waiting) else {
            return self.discard("no call with this XID waits for a reply", invalidated);
        };
        let outcome = match reply {
            Ok((header, payload)) => {
                let outcome = call.outcome(header.body, payload);
                // The grant of an invalid reply is ignored: only one call may be outstanding until the first
                // valid reply (RFC 8166 section 3.3.3). The content of a Reply chunk is checked once its
                // memory is fenced.
                if !matches!(outcome, Outcome::Failed(TransportError::BadReply(_))) {
                    self.credits.grant(header.credits);
                }
                outcome
            }
            Err(why) => Outcome::Failed(TransportError::BadReply(why)),
        };
        if let Some(handle) = invalidated {
            // The responder's remote invalidation flag is ignored: Linux's server clears its flag and still
            // invalidates handles.
            if !self.config.private_data.remote_invalidation {
                return self.violation(
                    "a reply invalidated a handle, although the client cleared the R flag (RFC 8797 section 4.1)",
                );
            }
            if !call.advertises(handle) {
                return self.violation(
                    "a reply invalidated a handle that its call did not advertise (RFC 8797 section 4.1)",
                );
            }
        }
        self.overdue = self.overdue.saturating_sub(call.overdue.into());
        call.traffic.reply_inline = len;
        call.traffic.remote_invalidation = invalidated.is_some();
        let is_bad = matches!(outcome, Outcome::Failed(TransportError::BadReply(_)));
        self.credits.answered();
        self.fence(xid, outcome);
        self.send_ready();
        if self.is_overdue() {
            self.close_if_stuck();
        }
        self.bad_replies = self.bad_replies.saturating_add(is_bad.into());
        if self.bad_replies >= MAX_BAD_REPLIES {
            self.violation("too many invalid replies");
        }
    }

    fn post_receive(&mut self) {
        self.actions.push_back(Action::PostReceives { count: 1 });
    }

    /// Rejects a backward call that has chunks (RFC 8167 section 5.3). In the backward direction, the peer is
    /// the requester. The call's Receive is posted again once the error is sent. A peer that sends and never
    /// reads therefore exhausts the Receives rather than the local memory.
    fn refuse_backward_call(&mut self, xid: u32) {
        let error = Header { xid, credits: 1, body: Body::Error(ErrorBody::Chunk) }.encode();
        let token = BACKWARD_ERROR;
        self.actions.push_back(Action::Send { token, message: vec![error], invalidate: None });
    }

    /// Counts a dropped message (RFC 8166 section 4.5). Closes the connection if the message invalidated a
    /// handle.
    fn discard(&mut self, why: &str, invalidated: Option<u32>) {
        debug!(why, "message dropped");
        self.discarded = self.discarded.saturating_add(1);
        if invalidated.is_some() {
            self.violation("a dropped message invalidated a handle");
        }
    }

    fn violation(&mut self, what: &str) {
        self.close(CloseReason::Violation(what.to_string()));
    }

    /// Invalidates all advertised regions of the call, including a region that the peer has invalidated. The
    /// provider then returns their memory.
    fn fence(&mut self, xid: u32, outcome: Outcome) {
        let Some(call) = self.calls.get_mut(xid) else { return };
        call.phase = Phase::Fencing(outcome);
        for (number, region) in (0..).zip(&mut call.regions) {
            if let RegionState::Advertised(segment) = &region.state {
                let token = token_of(xid, number);
                self.actions.push_back(Action::Invalidate { token, handle: segment.handle });
                region.state = RegionState::Fencing;
            }
        }
        self.advance(xid);
    }

    fn finish(&mut self, xid: u32) {
        let Some(call) = self.calls.remove(xid) else { return };
        self.credits.release();
        if !call.abandoned {
            let (id, outcome) = (call.id, call.into_outcome(&mut self.spare));
            self.end(id, outcome);
        }
        self.start_queued();
    }

    fn connection_closed(&mut self, reason: &CloseReason) {
        self.closing = Some(reason.clone());
        self.closed = true;
        self.actions.clear();
        self.ready.clear();
        let mut calls: Vec<CallState> = self.calls.drain().map(|(_, call)| call).collect();
        calls.sort_unstable_by_key(|call| call.id);
        for call in calls.into_iter().filter(|call| !call.abandoned) {
            let (id, outcome) = (call.id, call.into_outcome_after_close(reason, &mut self.spare));
            self.end(id, outcome);
        }
        for (call, _) in mem::take(&mut self.queue) {
            self.end(call, Err(TransportError::Unsent(reason.clone())));
        }
        self.events.push_back(RequesterEvent::Closed(reason.clone()));
    }
}
