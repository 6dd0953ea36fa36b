//! The responder: fetches call data from the requester's memory, and places replies in the offered memory.

mod fetching;
#[cfg(test)]
mod tests;

use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec;
use alloc::vec::Vec;
use core::mem;

use bytes::Bytes;
use tracing::debug;

use super::reads::{Fetch, SegmentRead};
use super::reply::{self, NoRoom};
use super::requester::FIRST_BACKWARD;
use super::{Config, PeerLimits, Refusals, TrafficCounts};
use crate::proto::call::Traffic;
use crate::proto::table::Table;
use crate::proto::work::{Action, CloseReason, Completion, Segment, Token};
use crate::wire::private_data::Negotiated;
use crate::wire::rdma::{
    Body, CallTooLong, ChunkLists, ErrorBody, Header, Refusal, WriteChunk, decode_call, encode_version_error,
};
use crate::wire::rpc::MessageKind;
use crate::xdr::{Message, Received};

/// Identifies a call within one responder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallKey(u32);

/// A call that has arrived completely.
#[derive(Debug)]
pub struct IncomingCall {
    /// Identifies the call, for example in [`Responder::reply`] and [`Responder::drop_call`].
    pub key: CallKey,
    /// The XID, which is the same in the transport header and in the RPC message.
    pub xid: u32,
    /// The RPC message, with the items of its Read chunks.
    pub message: Received,
}

/// An event of a responder.
#[derive(Debug)]
pub enum ResponderEvent {
    /// Run this call, then call [`Responder::reply`], [`Responder::reply_with`] or [`Responder::drop_call`].
    Call(IncomingCall),
    /// The connection is closed. Later replies are dropped.
    Closed(CloseReason),
}

/// A violation of RFC 8166 section 4.2.1.
const XIDS_DIFFER: &str = "the XIDs of the header and of the RPC message differ";
const NO_READS: &str = "Read chunks, but the connection permits no RDMA Reads";
/// The estimated memory of a call in addition to its message, in bytes.
const CALL: u64 = 512;
/// The number of Receives beyond the grant, for unsolicited messages.
const SLACK: u32 = 1;

/// The responder of one connection.
#[derive(Debug)]
pub struct Responder {
    config: Config,
    /// Credits granted with every reply: at least 1 (RFC 8166 section 3.3.1), and at most
    /// [`Config::credits`].
    granted: u32,
    negotiated: Negotiated,
    /// The maximum size of the Send of a reply, in bytes.
    reply_inline: u32,
    /// The provider's maximum number of outstanding RDMA Reads.
    ord: usize,
    /// The minimum of `ord` and the requester's limit.
    reads_limit: usize,
    last_token: u64,
    calls: Table<CallState>,
    /// The key of the last call. Keys count up and wrap around.
    last_key: u32,
    /// Calls whose chunks have at least this many bytes in total wait for admission.
    hold_from: u64,
    /// Calls waiting for admission that [`Responder::poll_arrived`] has not returned yet, each with the total
    /// size of its chunks in bytes.
    awaiting_admission: VecDeque<(CallKey, u64)>,
    /// Unstarted RDMA Reads of admitted calls, each with the key of its call.
    read_queue: VecDeque<(u32, SegmentRead)>,
    /// Outstanding RDMA Reads: the token, the key of the call, and the index of the chunk in its [`Fetch`].
    reading: Vec<(Token, u32, usize)>,
    /// The total size in bytes of the Read chunks of unanswered calls whose RDMA Reads have
    /// started.
    fetched: u64,
    too_long: Option<CallTooLong>,
    no_room: Option<NoRoom>,
    /// Answers that wait until the Send of an earlier answer completes.
    queued_answers: VecDeque<Answer>,
    /// XIDs of calls to reject if they arrive with chunks ([`Responder::refuse_calls`]).
    fatal: BTreeSet<u32>,
    /// The XIDs of the most recently submitted answers, or `None` for an answer without RDMA Writes. The
    /// maximum length is the maximum grant.
    recent: VecDeque<Option<u32>>,
    suspects: Vec<u32>,
    /// An empty list whose memory is reused for the RDMA Writes of the next reply.
    spare_writes: Vec<(Segment, Bytes)>,
    /// For each outstanding Send, oldest first: the answer's part of [`Responder::unsent_bytes`].
    sending: VecDeque<u64>,
    unsent_bytes: u64,
    waiting_bytes: u64,
    actions: VecDeque<Action>,
    events: VecDeque<ResponderEvent>,
    closing: bool,
    closed: bool,
    refusals: Refusals,
    traffic: TrafficCounts,
    /// The number of refusals that [`Responder::take_counts`] has already returned.
    refusals_taken: u64,
    /// Whether calls with chunks are rejected: true in the backward direction.
    inline_only: bool,
}

#[derive(Debug)]
struct CallState {
    xid: u32,
    lists: ChunkLists,
    traffic: Traffic,
    /// Whether the call's Read chunks are counted in [`Responder::fetched`].
    counted: bool,
    admitted: bool,
    /// The call's part of [`Responder::unsent_bytes`], once the call is admitted.
    bytes: u64,
    /// The inline stream and the Read chunks, until the message is complete.
    fetch: Option<Fetch>,
}

impl CallState {
    /// Returns the estimated memory of the call in bytes, without its chunks.
    fn memory(&self) -> u64 {
        self.traffic.call_inline.saturating_add(CALL)
    }

    fn fetched(&self) -> u64 {
        self.traffic.read_bytes.saturating_add(self.traffic.position_zero)
    }
}

/// Selects the counter of one rejection rule.
type Rule = fn(&mut Refusals) -> &mut u64;

/// An answer that is ready to send: an error, or a reply with the RDMA Writes that place its data.
#[derive(Debug)]
struct Answer {
    xid: u32,
    writes: Vec<(Segment, Bytes)>,
    message: Vec<Bytes>,
    invalidate: Option<u32>,
    /// The answer's part of [`Responder::unsent_bytes`].
    bytes: u64,
}

impl Responder {
    /// Creates the responder of a new connection and posts its Receives: one for each credit that it may
    /// grant, and one for an unsolicited message.
    #[must_use]
    pub fn new(config: Config, negotiated: Negotiated, ord: u32) -> Self {
        let receives = Action::PostReceives { count: config.credits.max(1).saturating_add(SLACK) };
        Responder {
            granted: config.credits.max(1),
            config,
            negotiated,
            reply_inline: negotiated.reply_threshold,
            ord: usize::try_from(ord).unwrap_or(usize::MAX),
            reads_limit: usize::try_from(ord).unwrap_or(usize::MAX),
            last_token: 0,
            calls: Table::default(),
            last_key: 0,
            hold_from: u64::MAX,
            awaiting_admission: VecDeque::new(),
            read_queue: VecDeque::new(),
            reading: Vec::new(),
            fetched: 0,
            too_long: None,
            no_room: None,
            queued_answers: VecDeque::new(),
            fatal: BTreeSet::new(),
            recent: VecDeque::new(),
            suspects: Vec::new(),
            spare_writes: Vec::new(),
            sending: VecDeque::new(),
            unsent_bytes: 0,
            waiting_bytes: 0,
            actions: VecDeque::from([receives]),
            events: VecDeque::new(),
            closing: false,
            closed: false,
            refusals: Refusals::default(),
            traffic: TrafficCounts::default(),
            refusals_taken: 0,
            inline_only: false,
        }
    }

    /// Creates the responder of the backward direction, for the connecting client.
    pub(super) fn backward(config: Config, negotiated: Negotiated) -> Self {
        let config = Config { credits: config.backward_credits, ..config };
        let mut responder = Responder::new(config, negotiated.reversed(), 0);
        responder.last_token = FIRST_BACKWARD;
        responder.inline_only = true;
        responder
    }

    /// Applies the limits that the requester announces (RFC 5666 section 6.2): the inline size of replies and
    /// the number of outstanding RDMA Reads. If the requester allows no RDMA Reads, calls that wait for
    /// an RDMA Read are rejected with ERR_CHUNK, once their outstanding RDMA Reads are done.
    pub fn set_peer_limits(&mut self, requester: PeerLimits) {
        let own = self.config.private_data.announced().send_size;
        self.reply_inline = requester.threshold(self.negotiated.reply_threshold, own);
        self.reads_limit = self.ord.min(usize::try_from(requester.reads).unwrap_or(usize::MAX));
        self.reject_unread();
        self.start_reads();
    }

    /// Grants this many credits from the next reply on: at least 1, and at most [`Config::credits`], for
    /// which Receives are posted. A requester with more unanswered calls sends no new call until enough of
    /// them complete.
    pub fn set_grant(&mut self, credits: u32) {
        self.granted = credits.clamp(1, self.max_grant());
    }

    /// Makes later calls wait for [`Responder::admit`] if their chunks have at least this many bytes in
    /// total. At 0, every call waits.
    pub fn hold_calls(&mut self, from: u64) {
        self.hold_from = from;
    }

    /// Returns the next call that waits for [`Responder::admit`], if any, and the total size of its Read,
    /// Write and Reply chunks in bytes.
    pub fn poll_arrived(&mut self) -> Option<(CallKey, u64)> {
        self.awaiting_admission.pop_front()
    }

    /// Admits a waiting call and fetches its Read chunks. [`ResponderEvent::Call`] follows, unless the call
    /// is rejected.
    pub fn admit(&mut self, CallKey(key): CallKey) {
        let Some(call) = self.calls.get_mut(key).filter(|call| !call.admitted) else { return };
        call.admitted = true;
        self.waiting_bytes = self.waiting_bytes.saturating_sub(call.memory());
        // The reply may use the whole inline threshold.
        let inline = call.traffic.call_inline.saturating_add(u64::from(self.reply_inline));
        call.bytes = call.bytes.saturating_add(inline);
        self.unsent_bytes = self.unsent_bytes.saturating_add(call.bytes);
        let Some(fetch) = &call.fetch else { return };
        if !fetch.is_complete() && self.reads_limit == 0 {
            return self.fail(key, NO_READS, |refusals| &mut refusals.chunks);
        }
        self.read_queue.extend(fetch.reads().map(|read| (key, read)));
        self.start_reads();
        self.run_if_complete(key);
    }

    /// Returns true until the call is completely fetched or rejected.
    #[must_use]
    pub fn is_arriving(&self, CallKey(key): CallKey) -> bool {
        self.calls.get(key).is_some_and(|call| call.fetch.is_some())
    }

    /// Returns true if any call is unanswered.
    #[must_use]
    pub fn has_calls(&self) -> bool {
        self.calls.len() > 0
    }

    /// Returns the total size in bytes of admitted calls, each with its largest possible reply, and of unsent
    /// answers. Excludes the chunks of calls that waited for [`Responder::admit`], and RDMA Writes of replies
    /// that were passed to [`Responder::reply_with`].
    #[must_use]
    pub fn unsent_bytes(&self) -> u64 {
        self.unsent_bytes
    }

    /// Returns the memory in bytes of the calls that wait for [`Responder::admit`], without their chunks.
    #[must_use]
    pub fn waiting_bytes(&self) -> u64 {
        self.waiting_bytes
    }

    /// Returns the number of unanswered calls, plus the number of replies and errors that wait until an
    /// earlier Send completes.
    #[must_use]
    pub fn in_progress(&self) -> usize {
        self.calls.len().saturating_add(self.queued_answers.len())
    }

    /// Rejects these calls with ERR_CHUNK, once each, if they arrive with chunks. The calls may have ended an
    /// earlier connection of the same client (RFC 8166 section 4.5.3).
    pub fn refuse_calls(&mut self, xids: BTreeSet<u32>) {
        self.fatal = xids;
    }

    /// Removes and returns the calls passed to [`Responder::refuse_calls`] that were not rejected.
    pub fn take_unrefused(&mut self) -> BTreeSet<u32> {
        core::mem::take(&mut self.fatal)
    }

    /// Returns the XIDs of the calls whose RDMA Reads or Writes may have ended the connection. Valid once the
    /// connection is closed, and non-empty only if the peer ended the connection with a Terminate.
    #[must_use]
    pub fn suspects(&self) -> &[u32] {
        &self.suspects
    }

    /// Returns and resets the counters of answered and rejected calls.
    pub fn take_counts(&mut self) -> (TrafficCounts, Refusals) {
        let refusals = core::mem::take(&mut self.refusals);
        self.refusals_taken = self.refusals_taken.saturating_add(refusals.sum());
        (core::mem::take(&mut self.traffic), refusals)
    }

    /// Returns the number of messages dropped or answered with RDMA_ERROR.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refusals_taken.saturating_add(self.refusals.sum())
    }

    /// Returns true if an action or an event is pending, or a call waits for [`Responder::poll_arrived`].
    #[must_use]
    pub fn has_work(&self) -> bool {
        !self.actions.is_empty() || !self.events.is_empty() || !self.awaiting_admission.is_empty()
    }

    /// Returns the next action for the provider, if any.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// Returns the next event, if any.
    pub fn poll_event(&mut self) -> Option<ResponderEvent> {
        self.events.pop_front()
    }

    /// Removes and returns the last call, if any, that exceeded
    /// [`MessageLimits::max_transfer`](crate::wire::rdma::MessageLimits::max_transfer). The call was rejected
    /// with ERR_CHUNK.
    pub fn take_too_long(&mut self) -> Option<CallTooLong> {
        self.too_long.take()
    }

    /// Removes and returns the [`NoRoom`] of the last reply that did not fit, if any. The call of this reply
    /// was rejected with ERR_CHUNK.
    pub fn take_no_room(&mut self) -> Option<NoRoom> {
        self.no_room.take()
    }

    /// Closes the connection.
    pub fn close(&mut self, reason: CloseReason) {
        if !self.closing {
            self.closing = true;
            self.actions.push_back(Action::Close { reason });
        }
    }

    /// Handles a completion from the provider.
    pub fn handle_completion(&mut self, completion: Completion) {
        if self.closed {
            return;
        }
        match completion {
            Completion::Received { message, invalidated } => self.received(&message, invalidated),
            Completion::ReadDone { token, data } => self.read_done(token, data),
            Completion::Closed { reason, .. } => {
                (self.closing, self.closed) = (true, true);
                if matches!(reason, CloseReason::Terminated { .. }) {
                    self.suspects = self.find_suspects();
                }
                self.calls = Table::default();
                self.awaiting_admission.clear();
                self.queued_answers.clear();
                self.sending.clear();
                (self.unsent_bytes, self.waiting_bytes) = (0, 0);
                self.actions.clear();
                self.read_queue.clear();
                self.reading.clear();
                self.events.push_back(ResponderEvent::Closed(reason));
            }
            Completion::Sent { .. } => {
                let sent = self.sending.pop_front().unwrap_or_default();
                self.unsent_bytes = self.unsent_bytes.saturating_sub(sent);
                if let Some(answer) = self.queued_answers.pop_front() {
                    self.submit(answer);
                }
            }
            // Nothing to release: a responder advertises no memory, and the data of RDMA Writes is
            // reference-counted.
            Completion::Registered { .. }
            | Completion::RegisterFailed { .. }
            | Completion::Invalidated { .. }
            | Completion::Written { .. } => {}
        }
    }

    fn received(&mut self, message: &Bytes, invalidated: Option<u32>) {
        if invalidated.is_some() {
            let why = "a call invalidated a handle, but a responder advertises none";
            return self.close(CloseReason::Violation(why.into()));
        }
        match decode_call(message, &self.config.limits) {
            Ok((header, payload)) => self.accept(message.len() as u64, header, payload),
            Err(Refusal::Discard(why)) => {
                debug!(why, "message dropped");
                self.refuse(None, |refusals| &mut refusals.discarded);
            }
            Err(Refusal::Version { xid, version }) => {
                debug!(xid, version, "answered with ERR_VERS");
                let error = encode_version_error(xid, version, self.granted);
                self.refuse(Some((xid, error)), |refusals| &mut refusals.version);
            }
            Err(Refusal::Chunk { xid, why }) => {
                self.refuse_chunks(xid, &why, |refusals| &mut refusals.header);
            }
            Err(Refusal::TooLong(call)) => {
                self.too_long = Some(call);
                let why = "a call is too long (MessageLimits::max_transfer)";
                self.refuse_chunks(call.xid, why, |refusals| &mut refusals.header);
            }
        }
    }

    /// Returns the XIDs of calls with outstanding RDMA Reads, and of calls whose reply with RDMA Writes may
    /// not have arrived. A requester waits for at most as many replies as it has credits. The number of sent
    /// replies that may not have arrived is therefore at most the maximum grant minus
    /// [`Responder::in_progress`].
    fn find_suspects(&self) -> Vec<u32> {
        let mut reading: Vec<u32> = self.reading.iter().map(|(_, key, _)| *key).collect();
        // The Reads of one call are adjacent, since they start in sequence.
        reading.dedup();
        let reading = reading.into_iter().filter_map(|key| self.calls.get(key)).map(|call| call.xid);
        let granted = usize::try_from(self.max_grant()).unwrap_or(usize::MAX);
        let awaited = granted.saturating_sub(self.in_progress());
        reading.chain(self.recent.iter().rev().take(awaited).filter_map(|xid| *xid)).collect()
    }

    /// Returns the maximum grant, which the requester may use until it receives a lower grant.
    fn max_grant(&self) -> u32 {
        self.config.credits.max(1)
    }

    fn refuse(&mut self, error: Option<(u32, Bytes)>, rule: Rule) {
        let count = rule(&mut self.refusals);
        *count = count.saturating_add(1);
        match error {
            Some((xid, error)) => {
                let bytes = error.len() as u64;
                let (writes, message) = (Vec::new(), vec![error]);
                self.answer(Answer { xid, writes, message, invalidate: None, bytes });
            }
            None => self.actions.push_back(Action::PostReceives { count: 1 }),
        }
    }

    /// Rejects a call with ERR_CHUNK (RFC 8166 section 4.5.2).
    fn refuse_chunks(&mut self, xid: u32, why: &str, rule: Rule) {
        debug!(xid, why, "answered with ERR_CHUNK");
        let error = Header { xid, credits: self.granted, body: Body::Error(ErrorBody::Chunk) };
        self.refuse(Some((xid, error.encode())), rule);
    }

    /// Sends an answer, or queues the answer while too many Sends are outstanding. The Receive of an answered
    /// call is posted again only with the answer. A requester that sends and never reads therefore exhausts
    /// the Receives rather than the local memory.
    fn answer(&mut self, answer: Answer) {
        self.unsent_bytes = self.unsent_bytes.saturating_add(answer.bytes);
        if (self.sending.len() as u64) < u64::from(self.max_grant().saturating_add(SLACK)) {
            self.submit(answer);
        } else {
            self.queued_answers.push_back(answer);
        }
    }

    fn submit(&mut self, Answer { xid, mut writes, message, invalidate, bytes }: Answer) {
        while self.recent.len() >= usize::try_from(self.max_grant()).unwrap_or(usize::MAX) {
            self.recent.pop_front();
        }
        self.recent.push_back((!writes.is_empty()).then_some(xid));
        for (sink, data) in writes.drain(..) {
            let token = self.token();
            self.actions.push_back(Action::Write { token, sink, data });
        }
        if writes.capacity() > 0 {
            self.spare_writes = writes;
        }
        // The Receive is posted before the reply that lets the requester use it (RFC 8166 section 3.3.1).
        self.actions.push_back(Action::PostReceives { count: 1 });
        let token = self.token();
        self.sending.push_back(bytes);
        self.actions.push_back(Action::Send { token, message, invalidate });
    }

    fn token(&mut self) -> Token {
        self.last_token = self.last_token.wrapping_add(1);
        Token(self.last_token)
    }

    fn accept(&mut self, received: u64, header: Header, payload: Bytes) {
        let xid = header.xid;
        let (lists, payload) = match header.body {
            Body::Msg(lists) => (lists, Some(payload)),
            Body::NoMsg(lists) => (lists, None),
            Body::Error(_) => return self.refuse(None, |refusals| &mut refusals.discarded),
        };
        if self.inline_only && !lists.is_empty() {
            let why = "chunks in the backward direction (RFC 8167 section 5.3)";
            return self.refuse_chunks(xid, why, |refusals| &mut refusals.chunks);
        }
        // Drops a reply in the backward direction that matches no local call (RFC 8167 section 5).
        if lists.is_empty() && payload.as_deref().and_then(MessageKind::of) == Some(MessageKind::Reply) {
            return self.refuse(None, |refusals| &mut refusals.discarded);
        }
        if payload.as_ref().is_some_and(|stream| stream.first_chunk() != Some(&xid.to_be_bytes())) {
            return self.refuse_chunks(xid, XIDS_DIFFER, |refusals| &mut refusals.xid);
        }
        if !lists.is_empty() && self.fatal.remove(&xid) {
            let why = "RDMA Reads or Writes of this call may have ended an earlier connection";
            return self.refuse_chunks(xid, why, |refusals| &mut refusals.fatal);
        }
        let mut traffic = Traffic { call_inline: received, ..Traffic::default() };
        traffic.count_offered(&lists, payload.is_none());
        let fetch = match Fetch::new(&lists.reads, payload) {
            Ok(fetch) => fetch,
            Err(why) => return self.refuse_chunks(xid, why, |refusals| &mut refusals.chunks),
        };
        let offered = lists.writes.iter().chain(&lists.reply).map(WriteChunk::len);
        let bytes =
            offered.fold(traffic.read_bytes.saturating_add(traffic.position_zero), u64::saturating_add);
        let (fetch, is_held) = (Some(fetch), bytes >= self.hold_from);
        let counted_bytes = if is_held { 0 } else { bytes };
        let call =
            CallState { xid, lists, traffic, counted: false, admitted: false, bytes: counted_bytes, fetch };
        self.waiting_bytes = self.waiting_bytes.saturating_add(call.memory());
        let key = self.insert(call);
        if is_held {
            self.awaiting_admission.push_back((key, bytes));
        } else {
            self.admit(key);
        }
    }

    fn insert(&mut self, mut call: CallState) -> CallKey {
        loop {
            self.last_key = self.last_key.wrapping_add(1);
            match self.calls.insert(self.last_key, call) {
                Ok(()) => return CallKey(self.last_key),
                // An old call still uses this key. The loop ends because credits limit the number of calls.
                Err(returned) => call = returned,
            }
        }
    }

    fn remove_call(&mut self, key: u32) -> Option<CallState> {
        let call = self.calls.remove(key)?;
        if call.admitted {
            self.unsent_bytes = self.unsent_bytes.saturating_sub(call.bytes);
        } else {
            self.waiting_bytes = self.waiting_bytes.saturating_sub(call.memory());
        }
        if call.counted {
            self.fetched = self.fetched.saturating_sub(call.fetched());
            self.start_reads();
        }
        Some(call)
    }

    fn fail(&mut self, key: u32, why: &str, rule: Rule) {
        if let Some(call) = self.remove_call(key) {
            self.refuse_chunks(call.xid, why, rule);
        }
    }

    /// Sends a call's reply. If the reply does not fit into the memory that the call offered, the requester
    /// gets ERR_CHUNK. A reply to an unknown call is dropped. Returns how the call and its reply are
    /// transferred, or `None` if the reply is not sent.
    pub fn reply(&mut self, key: CallKey, message: Message) -> Option<Traffic> {
        self.answer_call(key, message, |bytes| bytes, true)
    }

    /// Same as [`Responder::reply`], but `wrap` replaces the stream and each item outside the stream before
    /// the reply is sent. [`Responder::unsent_bytes`] excludes the RDMA Writes of the reply.
    pub fn reply_with(
        &mut self,
        key: CallKey,
        message: Message,
        wrap: impl Fn(Bytes) -> Bytes,
    ) -> Option<Traffic> {
        self.answer_call(key, message, wrap, false)
    }

    fn answer_call(
        &mut self,
        key: CallKey,
        message: Message,
        wrap: impl Fn(Bytes) -> Bytes,
        counts_writes: bool,
    ) -> Option<Traffic> {
        let CallState { xid, lists, mut traffic, .. } = self.remove_call(key.0)?;
        let invalidate = self.invalidates(&lists);
        let writes = mem::take(&mut self.spare_writes);
        let plan = match reply::place(message, lists, self.reply_inline, writes, wrap) {
            Ok(plan) => plan,
            Err(no_room) => {
                self.no_room = Some(no_room);
                let why = "the reply does not fit into the chunks that the call offered";
                self.refuse_chunks(xid, why, |refusals| &mut refusals.room);
                return None;
            }
        };
        let written = plan.writes.iter().map(|(_, data)| data.len() as u64).sum::<u64>();
        traffic.reply_chunk_bytes = if plan.inline.is_none() { plan.stream } else { 0 };
        traffic.write_bytes = written.saturating_sub(traffic.reply_chunk_bytes);
        traffic.remote_invalidation = invalidate.is_some();
        let message = Header { xid, credits: self.granted, body: plan.body }.with_payload(plan.inline);
        traffic.reply_inline = message.iter().map(|piece| piece.len() as u64).sum();
        debug!(xid, %traffic, "answered");
        self.traffic.add(&TrafficCounts::from(&traffic));
        let bytes = traffic.reply_inline.saturating_add(if counts_writes { written } else { 0 });
        self.answer(Answer { xid, writes: plan.writes, message, invalidate, bytes });
        Some(traffic)
    }

    /// Drops a call without a reply.
    pub fn drop_call(&mut self, key: CallKey) {
        if self.remove_call(key.0).is_some() {
            self.refuse(None, |refusals| &mut refusals.unanswered);
        }
    }

    /// Returns the handle of the call's chunks if all have the same handle and remote invalidation was
    /// negotiated (RFC 8797 section 4.1). With several handles, returns `None`: the peer may keep one of them
    /// registered after the call.
    fn invalidates(&self, lists: &ChunkLists) -> Option<u32> {
        if !self.negotiated.remote_invalidation {
            return None;
        }
        let mut handles = lists.segments().map(|segment| segment.handle);
        let first = handles.next()?;
        handles.all(|handle| handle == first).then_some(first)
    }
}
