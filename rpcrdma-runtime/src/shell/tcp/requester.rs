//! The requester of one TCP connection, for a session or for backward calls.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tracing::debug;

use super::TcpOptions;
use crate::proto::call::{CallId, IncomingReply, RequesterEvent, Traffic, TransportError, Unsendable};
use crate::proto::session::{SessionCall, SessionRequester};
use crate::proto::table::Table;
use crate::proto::work::CloseReason;
use crate::wire::rpc::record_mark;
use crate::xdr::{Message, Received};

/// A slot for one call. The slot is free once all clones are dropped. The output queue contains a clone until
/// the call or its reply is written, so the slots bound the queue.
pub(super) type Slot = Arc<OwnedSemaphorePermit>;

pub(super) struct TcpRequester {
    slots: Arc<Semaphore>,
    /// Calls that wait for a slot, in the order of submission.
    queue: BTreeMap<CallId, Message>,
    calls: Table<Sent>,
    max_silence: Duration,
    /// Time at which the server last sent anything, or at which the connection was made. Backward calls do
    /// not use this time.
    last_received: Instant,
    /// The send time of the earliest call that has timed out since `last_received`.
    unanswered_since: Option<Instant>,
    /// Calls that were abandoned at least `max_silence` after they were sent, without input in between. Input
    /// clears the set. The set also contains the timed-out call that ends the connection.
    silent: BTreeSet<CallId>,
    events: VecDeque<RequesterEvent>,
    closing: Option<CloseReason>,
    max_reply: u64,
}

struct Sent {
    id: CallId,
    octets: u64,
    at: Instant,
    _slot: Slot,
}

impl TcpRequester {
    pub(super) fn new(options: &TcpOptions, calls: usize) -> Self {
        TcpRequester {
            slots: Arc::new(Semaphore::new(calls.clamp(1, Semaphore::MAX_PERMITS))),
            queue: BTreeMap::new(),
            calls: Table::default(),
            max_silence: options.stall_timeout,
            last_received: Instant::now(),
            unanswered_since: None,
            silent: BTreeSet::new(),
            events: VecDeque::new(),
            closing: None,
            max_reply: 0,
        }
    }

    /// Returns the largest bound on the reply to any call so far, in octets. Ignores calls whose replies have
    /// no bound.
    pub(super) fn max_reply(&self) -> u64 {
        self.max_reply
    }

    pub(super) fn closing(&self) -> Option<&CloseReason> {
        self.closing.as_ref()
    }

    /// Queues a call for [`Self::poll_send`]. [`RequesterEvent::Done`] follows unless [`Self::forget`]
    /// abandons the call. Fails if the message is 2 GiB or longer.
    pub(super) fn enqueue(&mut self, call: CallId, message: Message) -> Result<(), TransportError> {
        let bytes = message.unreduced_len();
        record_mark(bytes).ok_or(TransportError::Unsendable(Unsendable::Record(bytes)))?;
        self.queue.insert(call, message);
        Ok(())
    }

    pub(super) fn end(&mut self, call: CallId, outcome: Result<IncomingReply, TransportError>) {
        self.events.push_back(RequesterEvent::Done { call, outcome });
    }

    /// Abandons a call. Returns the time at which the call was sent, or `None` if the call is not
    /// outstanding.
    pub(super) fn forget(&mut self, call: CallId) -> Option<Instant> {
        if self.calls.get(call.xid()).is_some_and(|sent| sent.id == call) {
            return self.calls.remove(call.xid()).map(|sent| sent.at);
        }
        self.queue.remove(&call);
        None
    }

    /// Returns true if a call with this XID is outstanding. XIDs of abandoned calls do not count, because
    /// they recur only after 2^32 calls.
    pub(super) fn is_outstanding(&self, xid: u32) -> bool {
        self.calls.contains(xid)
    }

    pub(super) fn has_outstanding(&self) -> bool {
        self.calls.len() > 0
    }

    /// Returns the next message to send, and the slot to drop once the message is written.
    pub(super) fn poll_send(&mut self) -> Option<(Message, Slot)> {
        if self.queue.is_empty() {
            return None;
        }
        let slot: Slot = self.slots.clone().try_acquire_owned().ok()?.into();
        let (id, message) = self.queue.pop_first()?;
        let sent = Sent { id, octets: message.unreduced_len(), at: Instant::now(), _slot: slot.clone() };
        // Never replaces a call: no other outstanding call has this XID.
        let _ = self.calls.insert(id.xid(), sent);
        Some((message, slot))
    }

    pub(super) fn record_activity(&mut self) {
        self.last_received = Instant::now();
        self.unanswered_since = None;
        self.silent.clear();
    }

    pub(super) fn received(&mut self, reply: Bytes) {
        let xid = reply.first_chunk().map(|word| u32::from_be_bytes(*word));
        let Some(sent) = xid.and_then(|xid| self.calls.remove(xid)) else {
            return debug!(?xid, "dropping a reply that matches no outstanding call");
        };
        let traffic =
            Traffic { call_inline: sent.octets, reply_inline: reply.len() as u64, ..Traffic::default() };
        self.end(sent.id, Ok(IncomingReply { message: Received::unreduced(reply), traffic }));
    }

    pub(super) fn fail(&mut self, xid: u32, why: &impl ToString) {
        if let Some(sent) = self.calls.remove(xid) {
            self.end(sent.id, Err(TransportError::BadReply(why.to_string())));
        }
    }

    pub(super) fn ended(&mut self, reason: &CloseReason) {
        self.closing = Some(reason.clone());
        for (_, sent) in mem::take(&mut self.calls).drain() {
            self.end(sent.id, Err(TransportError::Closed(reason.clone())));
        }
        for (call, _) in mem::take(&mut self.queue) {
            self.end(call, Err(TransportError::Unsent(reason.clone())));
        }
        self.events.push_back(RequesterEvent::Closed(reason.clone()));
    }
}

impl SessionRequester for TcpRequester {
    fn submit(&mut self, id: CallId, call: &SessionCall) -> Result<(), TransportError> {
        self.max_reply = self.max_reply.max(call.bounds.unreduced.bound().unwrap_or(0));
        self.enqueue(id, call.message.clone())
    }

    fn cancel(&mut self, call: CallId) {
        if let Some(at) = self.forget(call)
            && self.last_received <= at
            && at.elapsed() >= self.max_silence
        {
            self.silent.insert(call);
        }
    }

    /// Closes the connection if the server has been silent for at least `max_silence` since this call or an
    /// earlier timed-out call was sent. Earlier calls count because the timeout of each call may be shorter
    /// than `max_silence`.
    fn expire(&mut self, call: CallId) {
        if let Some(at) = self.forget(call)
            && self.last_received <= at
        {
            let since = self.unanswered_since.map_or(at, |since| since.min(at));
            self.unanswered_since = Some(since);
            if since.elapsed() >= self.max_silence {
                self.silent.insert(call);
            }
        }
        if self.holds_resources(call) {
            self.close(CloseReason::Timeout("a call had no reply".to_owned()));
        }
    }

    /// Returns true if the server has been silent for at least `max_silence` since this call or an earlier
    /// timed-out call was sent. The server is then presumed dead; TCP alone would detect the failure
    /// much later.
    fn holds_resources(&self, call: CallId) -> bool {
        self.silent.contains(&call)
    }

    fn close(&mut self, reason: CloseReason) {
        self.closing.get_or_insert(reason);
    }

    fn is_closing(&self) -> bool {
        self.closing.is_some()
    }

    fn poll_event(&mut self) -> Option<RequesterEvent> {
        self.events.pop_front()
    }

    fn has_work(&self) -> bool {
        !self.events.is_empty() || self.closing.is_some()
    }
}
