//! The responder: it fetches what calls left in the requester's memory, and puts replies where they were asked for.

use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec;
use alloc::vec::Vec;
use core::mem;

use bytes::Bytes;
use tracing::debug;

use super::reads::Fetch;
use super::reply;
use super::requester::FIRST_BACKWARD;
use super::{Config, Refusals, Stated, Traffic, TrafficCounts};
use crate::proto::slab::{Key, Slab};
use crate::proto::work::{Action, CloseReason, Completion, Segment, Token};
use crate::wire::private_data::Negotiated;
use crate::wire::rdma::{Body, ChunkLists, ErrorBody, Header, Refusal, decode_call, encode_version_error};
use crate::wire::rpc::MessageKind;
use crate::xdr::{Message, Received};

/// Names a call of one responder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallKey(Key);

/// A call that has arrived whole.
#[derive(Debug)]
pub struct IncomingCall {
    /// Names it in [`Responder::reply`] and [`Responder::drop_call`].
    pub key: CallKey,
    /// The XID of the header, and of the RPC message.
    pub xid: u32,
    /// The RPC message, with the items of its Read chunks.
    pub message: Received,
}

/// What a responder says.
#[derive(Debug)]
pub enum ResponderEvent {
    /// Run this call and [`Responder::reply`].
    Call(IncomingCall),
    /// The connection is gone. Replies to its calls go nowhere.
    Closed(CloseReason),
}

/// RFC 8166 section 4.2.1.
const XIDS_DIFFER: &str = "the XIDs of the header and of the RPC message differ";
const NO_READS: &str = "Read chunks of a peer that takes no RDMA Reads";
/// Receives beyond the grant: for a message that the requester may send out of turn.
const SLACK: u32 = 1;

/// The responder's side of one connection.
#[derive(Debug)]
pub struct Responder {
    config: Config,
    /// What is granted with the next reply: at least 1, and no more than there are Receives for.
    granted: u32,
    negotiated: Negotiated,
    /// The longest reply that is sent inline.
    reply_inline: u32,
    /// RDMA Reads that the provider does at a time, and how many of them the requester takes.
    reads_out: usize,
    reads_limit: usize,
    next: u64,
    calls: Slab<CallState>,
    /// RDMA Reads that wait for their turn (no more are outstanding than the peer's IRD).
    read_queue: VecDeque<(Part, Segment)>,
    /// Those that are outstanding, at most `reads_limit`.
    reading: Vec<(Token, Part)>,
    /// Bytes of Read chunks of calls that are not answered, from their first RDMA Read on.
    fetched: u64,
    /// Answers that wait because the requester does not take those before them.
    held: VecDeque<Answer>,
    /// Calls that are refused when they come ([`Responder::refuse_calls`]).
    fatal: BTreeSet<u32>,
    /// The answers that left last, as many as the requester can still wait for: which call each was for, if something was
    /// written for it.
    recent: VecDeque<Option<u32>>,
    /// What may have ended the connection.
    suspects: Vec<u32>,
    /// The memory of the last answer's list of what is written.
    spare_writes: Vec<(Segment, Bytes)>,
    /// Sends that the provider has not finished.
    unsent: u32,
    actions: VecDeque<Action>,
    events: VecDeque<ResponderEvent>,
    closed: bool,
    /// The provider's last word was heard.
    gone: bool,
    refusals: Refusals,
    traffic: TrafficCounts,
    /// How many refusals were taken from the counts.
    taken: u64,
    /// Calls with chunks are refused: those of the backward direction.
    inline_only: bool,
}

#[derive(Debug)]
struct CallState {
    xid: u32,
    lists: ChunkLists,
    traffic: Traffic,
    /// Whether its Read chunks count as held.
    holds: bool,
    /// What is still being read; nothing once the call runs.
    fetch: Option<Fetch>,
}

impl CallState {
    /// What its Read chunks hold, in bytes.
    fn fetched(&self) -> u64 {
        self.traffic.read_bytes.saturating_add(self.traffic.position_zero)
    }
}

/// What an RDMA Read is for: a call, and what its [`Fetch`] calls the segment.
type Part = (Key, (usize, usize));

/// The count of what is refused by one rule.
type Rule = fn(&mut Refusals) -> &mut u64;

/// A reply or an error, placed and ready to go.
#[derive(Debug)]
struct Answer {
    /// The call.
    xid: u32,
    writes: Vec<(Segment, Bytes)>,
    message: Vec<Bytes>,
    invalidate: Option<u32>,
}

impl Responder {
    /// A responder on a new connection, and its Receives: as many as it will grant.
    #[must_use]
    pub fn new(config: Config, negotiated: Negotiated, reads_out: u32) -> Self {
        let receives = Action::PostReceives { count: config.credits.max(1).saturating_add(SLACK) };
        Responder {
            granted: config.credits.max(1),
            config,
            negotiated,
            reply_inline: negotiated.reply_threshold,
            reads_out: usize::try_from(reads_out).unwrap_or(usize::MAX),
            reads_limit: usize::try_from(reads_out).unwrap_or(usize::MAX),
            next: 0,
            calls: Slab::new(),
            read_queue: VecDeque::new(),
            reading: Vec::new(),
            fetched: 0,
            held: VecDeque::new(),
            fatal: BTreeSet::new(),
            recent: VecDeque::new(),
            suspects: Vec::new(),
            spare_writes: Vec::new(),
            unsent: 0,
            actions: VecDeque::from([receives]),
            events: VecDeque::new(),
            closed: false,
            gone: false,
            refusals: Refusals::default(),
            traffic: TrafficCounts::default(),
            taken: 0,
            inline_only: false,
        }
    }

    /// The responder of the backward direction, at the end that connected.
    pub(super) fn backward(config: Config, negotiated: Negotiated) -> Self {
        let config = Config { credits: config.backward_credits, ..config };
        let mut responder = Responder::new(config, negotiated.reversed(), 0);
        responder.next = FIRST_BACKWARD;
        responder.inline_only = true;
        responder
    }

    /// Keeps to what the requester says of itself (RFC 5666 section 6.2): no reply is longer inline than it says, and there
    /// are no more RDMA Reads at a time. Calls that wait for an RDMA Read get ERR_CHUNK if there are to be none.
    pub fn limit(&mut self, requester: Stated) {
        let own = self.config.private_data.announced().send_size;
        self.reply_inline = requester.threshold(self.negotiated.reply_threshold, own);
        self.reads_limit = self.reads_out.min(usize::try_from(requester.reads).unwrap_or(usize::MAX));
        if self.reads_limit == 0 {
            for ((key, _), _) in core::mem::take(&mut self.read_queue) {
                self.fail(key, NO_READS, |refusals| &mut refusals.chunks);
            }
        }
        self.start_reads();
    }

    /// Grants this many credits from the next reply on: at least 1, and at most [`Config::credits`], for which there are
    /// Receives. A requester with more calls unanswered than that makes none until enough have ended.
    pub fn set_grant(&mut self, credits: u32) {
        self.granted = credits.clamp(1, self.most());
    }

    /// Calls that are here and not answered, and answers that have not been handed to the provider.
    #[must_use]
    pub fn in_progress(&self) -> usize {
        self.calls.len().saturating_add(self.held.len())
    }

    /// Answers these calls with ERR_CHUNK, once each, if they come with chunks: by the same client as before they ended a
    /// connection (RFC 8166 section 4.5.3).
    pub fn refuse_calls(&mut self, xids: BTreeSet<u32>) {
        self.fatal = xids;
    }

    /// Those of them that did not come.
    pub fn take_unrefused(&mut self) -> BTreeSet<u32> {
        core::mem::take(&mut self.fatal)
    }

    /// Once the connection is closed: if the requester's provider ended it, the calls whose RDMA Reads or Writes may have been
    /// the reason.
    #[must_use]
    pub fn suspects(&self) -> &[u32] {
        &self.suspects
    }

    /// What was counted since this was last asked for: calls that were answered, and what was refused.
    pub fn take_counts(&mut self) -> (TrafficCounts, Refusals) {
        let refusals = core::mem::take(&mut self.refusals);
        self.taken = self.taken.saturating_add(refusals.sum());
        (core::mem::take(&mut self.traffic), refusals)
    }

    /// Messages that were dropped or answered with RDMA_ERROR.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.taken.saturating_add(self.refusals.sum())
    }

    /// Whether there is something to poll.
    #[must_use]
    pub fn has_work(&self) -> bool {
        !self.actions.is_empty() || !self.events.is_empty()
    }

    /// The next piece of work for the provider.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// The next thing to know.
    pub fn poll_event(&mut self) -> Option<ResponderEvent> {
        self.events.pop_front()
    }

    /// Closes the connection.
    pub fn close(&mut self, reason: CloseReason) {
        if !self.closed {
            self.closed = true;
            self.actions.push_back(Action::Close { reason });
        }
    }

    /// Takes a completion of the provider.
    pub fn handle_completion(&mut self, completion: Completion) {
        if self.gone {
            return;
        }
        match completion {
            Completion::Received { message, invalidated } => self.received(&message, invalidated),
            Completion::ReadDone { token, data } => self.read_done(token, data),
            Completion::Closed { reason, .. } => {
                (self.closed, self.gone) = (true, true);
                if matches!(reason, CloseReason::Terminated { .. }) {
                    self.suspects = self.find_suspects();
                }
                self.calls.clear();
                self.held.clear();
                self.actions.clear();
                self.read_queue.clear();
                self.reading.clear();
                self.events.push_back(ResponderEvent::Closed(reason));
            }
            Completion::Sent { .. } => {
                self.unsent = self.unsent.saturating_sub(1);
                if let Some(answer) = self.held.pop_front() {
                    self.submit(answer);
                }
            }
            // A responder advertises nothing; sources of Writes are held by count.
            Completion::Registered { .. }
            | Completion::RegisterFailed { .. }
            | Completion::Invalidated { .. }
            | Completion::Written { .. } => {}
        }
    }

    fn received(&mut self, message: &Bytes, invalidated: Option<u32>) {
        if invalidated.is_some() {
            let why = "a call invalidated a handle, and this side advertises none";
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
                let error = encode_version_error(xid, version, self.grant());
                self.refuse(Some((xid, error)), |refusals| &mut refusals.version);
            }
            Err(Refusal::Chunk { xid, why }) => {
                self.refuse_chunks(xid, &why, |refusals| &mut refusals.header);
            }
        }
    }

    /// Whose RDMA Reads are under way, or whose reply was written and may not have arrived: a requester waits for at most
    /// as many replies as were granted, those of the calls in progress included.
    fn find_suspects(&self) -> Vec<u32> {
        let mut reading: Vec<Key> = self.reading.iter().map(|(_, (key, _))| *key).collect();
        // The segments of one call are read one after the other.
        reading.dedup();
        let reading = reading.into_iter().filter_map(|key| self.calls.get(key)).map(|call| call.xid);
        let granted = usize::try_from(self.most()).unwrap_or(usize::MAX);
        let awaited = granted.saturating_sub(self.in_progress());
        reading.chain(self.recent.iter().rev().take(awaited).filter_map(|xid| *xid)).collect()
    }

    /// What is granted with every reply; never 0, whatever is in progress (RFC 8166 section 3.3.1).
    fn grant(&self) -> u32 {
        self.granted
    }

    /// The largest grant. A requester may not have heard of less.
    fn most(&self) -> u32 {
        self.config.credits.max(1)
    }

    fn chunk_error(&self, xid: u32) -> Bytes {
        Header { xid, credits: self.grant(), body: Body::Error(ErrorBody::Chunk) }.encode()
    }

    /// Deals with a message that begins no call, or not even that.
    fn refuse(&mut self, error: Option<(u32, Bytes)>, rule: Rule) {
        let count = rule(&mut self.refusals);
        *count = count.saturating_add(1);
        match error {
            Some((xid, error)) => {
                self.answer(Answer { xid, writes: Vec::new(), message: vec![error], invalidate: None });
            }
            None => self.actions.push_back(Action::PostReceives { count: 1 }),
        }
    }

    /// Answers ERR_CHUNK (RFC 8166 section 4.5.2).
    fn refuse_chunks(&mut self, xid: u32, why: &str, rule: Rule) {
        debug!(xid, why, "answered with ERR_CHUNK");
        let error = self.chunk_error(xid);
        self.refuse(Some((xid, error)), rule);
    }

    /// Lets an answer go, or holds it while the requester takes none: its Receive is not posted again before, so a
    /// requester that sends and never reads runs out of Receives and not us out of memory.
    fn answer(&mut self, answer: Answer) {
        if self.unsent < self.most().saturating_add(SLACK) {
            self.submit(answer);
        } else {
            self.held.push_back(answer);
        }
    }

    fn submit(&mut self, Answer { xid, mut writes, message, invalidate }: Answer) {
        while self.recent.len() >= usize::try_from(self.most()).unwrap_or(usize::MAX) {
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
        // The Receive is there before the reply that lets the requester use it (RFC 8166 section 3.3.1).
        self.actions.push_back(Action::PostReceives { count: 1 });
        let token = self.token();
        self.unsent = self.unsent.saturating_add(1);
        self.actions.push_back(Action::Send { token, message, invalidate });
    }

    fn token(&mut self) -> Token {
        self.next = self.next.wrapping_add(1);
        Token(self.next)
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
        // A reply in the backward direction answers nothing of ours (RFC 8167 section 5).
        if lists.is_empty() && payload.as_deref().and_then(MessageKind::of) == Some(MessageKind::Reply) {
            return self.refuse(None, |refusals| &mut refusals.discarded);
        }
        if payload.as_ref().is_some_and(|stream| stream.first_chunk() != Some(&xid.to_be_bytes())) {
            return self.refuse_chunks(xid, XIDS_DIFFER, |refusals| &mut refusals.xid);
        }
        if !lists.is_empty() && self.fatal.remove(&xid) {
            let why = "what was read or written for it has ended a connection";
            return self.refuse_chunks(xid, why, |refusals| &mut refusals.fatal);
        }
        let mut traffic = Traffic { call_inline: received, ..Traffic::default() };
        traffic.count_offered(&lists, payload.is_none());
        let fetch = match Fetch::new(&lists.reads, payload) {
            Ok(fetch) => fetch,
            Err(why) => return self.refuse_chunks(xid, why, |refusals| &mut refusals.chunks),
        };
        if !fetch.is_complete() && self.reads_limit == 0 {
            return self.refuse_chunks(xid, NO_READS, |refusals| &mut refusals.chunks);
        }
        let key = self.calls.insert(CallState { xid, lists, traffic, holds: false, fetch: None });
        self.read_queue.extend(fetch.wanted().map(|(part, segment)| ((key, part), segment)));
        if let Some(call) = self.calls.get_mut(key) {
            call.fetch = Some(fetch);
        }
        self.start_reads();
        self.run_if_complete(key);
    }

    fn start_reads(&mut self) {
        while self.reading.len() < self.reads_limit
            && let Some(((key, _), _)) = self.read_queue.front()
            && self.may_hold(*key)
            && let Some((part, source)) = self.read_queue.pop_front()
        {
            let token = self.token();
            self.reading.push((token, part));
            self.actions.push_back(Action::Read { token, source });
        }
    }

    /// Whether a call's Read chunks can be held besides those that are: then they are from now on.
    fn may_hold(&mut self, key: Key) -> bool {
        let Some(call) = self.calls.get_mut(key).filter(|call| !call.holds) else { return true };
        let after = self.fetched.saturating_add(call.fetched());
        if self.fetched > 0 && after > self.config.fetched {
            return false;
        }
        call.holds = true;
        self.fetched = after;
        true
    }

    /// Takes a call off the list; what its chunks held is for others.
    fn forget(&mut self, key: Key) -> Option<CallState> {
        let call = self.calls.remove(key)?;
        if call.holds {
            self.fetched = self.fetched.saturating_sub(call.fetched());
            self.start_reads();
        }
        Some(call)
    }

    fn read_done(&mut self, token: Token, data: Bytes) {
        let Some(at) = self.reading.iter().position(|(reading, _)| *reading == token) else { return };
        let (_, (key, part)) = self.reading.remove(at);
        if let Some(fetch) = self.calls.get_mut(key).and_then(|call| call.fetch.as_mut()) {
            fetch.arrived(part, data);
        }
        self.start_reads();
        self.run_if_complete(key);
    }

    fn run_if_complete(&mut self, key: Key) {
        let Some(call) = self.calls.get_mut(key) else { return };
        if !call.fetch.as_ref().is_some_and(Fetch::is_complete) {
            return;
        }
        let Some(fetch) = call.fetch.take() else { return };
        let (xid, message) = (call.xid, fetch.into_message());
        if message.stream.first_chunk() != Some(&xid.to_be_bytes()) {
            return self.fail(key, XIDS_DIFFER, |refusals| &mut refusals.xid);
        }
        self.events.push_back(ResponderEvent::Call(IncomingCall { key: CallKey(key), xid, message }));
    }

    fn fail(&mut self, key: Key, why: &str, rule: Rule) {
        if let Some(call) = self.forget(key) {
            self.refuse_chunks(call.xid, why, rule);
        }
    }

    /// Returns a call's reply. If it does not fit into what the call offered the requester gets ERR_CHUNK.
    /// A reply to a call that is gone goes nowhere.
    pub fn reply(&mut self, key: CallKey, message: Message) {
        let Some(CallState { xid, lists, mut traffic, .. }) = self.forget(key.0) else { return };
        let invalidate = self.invalidates(&lists);
        let Ok(plan) = reply::place(message, lists, self.reply_inline, mem::take(&mut self.spare_writes))
        else {
            let why = "the reply does not fit into what the call offered for it";
            return self.refuse_chunks(xid, why, |refusals| &mut refusals.room);
        };
        let written = plan.writes.iter().map(|(_, data)| data.len() as u64).sum::<u64>();
        traffic.reply_chunk_bytes = if plan.inline.is_none() { plan.stream } else { 0 };
        traffic.write_bytes = written.saturating_sub(traffic.reply_chunk_bytes);
        traffic.remote_invalidation = invalidate.is_some();
        let message = Header { xid, credits: self.grant(), body: plan.body }.with_payload(plan.inline);
        traffic.reply_inline = message.iter().map(|piece| piece.len() as u64).sum();
        debug!(xid, %traffic, "answered");
        self.traffic.count(&traffic);
        self.answer(Answer { xid, writes: plan.writes, message, invalidate });
    }

    /// A call that gets no reply.
    pub fn drop_call(&mut self, key: CallKey) {
        if self.forget(key.0).is_some() {
            self.refuse(None, |refusals| &mut refusals.unanswered);
        }
    }

    /// The one handle of the call's chunks, if both ends agreed on remote invalidation (RFC 8797 section 4.1).
    /// Among several handles none is chosen: a peer may have registered one of them for longer.
    fn invalidates(&self, lists: &ChunkLists) -> Option<u32> {
        if !self.negotiated.remote_invalidation {
            return None;
        }
        let mut handles = lists.segments().map(|segment| segment.handle);
        let first = handles.next()?;
        handles.all(|handle| handle == first).then_some(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::private_data::PrivateData;

    /// What the responder asks for: Receives, and the tokens of its Sends.
    fn asked(responder: &mut Responder) -> (u32, Vec<Token>) {
        let (mut receives, mut sends) = (0, Vec::new());
        while let Some(action) = responder.poll_action() {
            match action {
                Action::PostReceives { count } => receives += count,
                Action::Send { token, .. } => sends.push(token),
                other => panic!("{other:?}"),
            }
        }
        (receives, sends)
    }

    #[test]
    fn a_requester_that_sends_and_never_reads_runs_out_of_receives() {
        let config = Config { credits: 4, ..Config::default() };
        let negotiated = PrivateData::negotiate(&PrivateData::ABSENT, &PrivateData::ABSENT);
        let mut responder = Responder::new(config, negotiated, 16);
        // Version 2: each is answered with ERR_VERS.
        let message =
            Bytes::from([[0, 0, 0, 9], [0, 0, 0, 2], [0; 4], [0; 4], [0; 4], [0; 4], [0; 4]].concat());
        let (mut receives, mut taken, mut sends) = (0, 0, Vec::new());
        loop {
            let (more, new) = asked(&mut responder);
            receives += more;
            sends.extend(new);
            if receives == 0 {
                break;
            }
            receives -= 1;
            taken += 1;
            assert!(taken < 100, "every message got a Receive though no answer left");
            responder.handle_completion(Completion::Received { message: message.clone(), invalidated: None });
        }
        assert_eq!((taken, sends.len()), (10, 5));
        responder.handle_completion(Completion::Sent { token: sends[0] });
        assert_eq!(asked(&mut responder).0, 1, "one answer left, so one more message may come");
    }
}
