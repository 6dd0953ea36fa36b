//! One TCP connection's calls, as a session sees them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tracing::debug;

use super::TcpOptions;
use crate::proto::program::ReplyBounds;
use crate::proto::rdma::session::Line;
use crate::proto::rdma::{CallId, Event, FailReason, Reply, Traffic};
use crate::proto::table::Table;
use crate::proto::work::CloseReason;
use crate::wire::rpc::record_mark;
use crate::xdr::{Message, Received};

/// Room for one call: free once the call has left and is answered or forgotten, so that what waits to be sent has a bound.
pub(super) type Slot = Arc<OwnedSemaphorePermit>;

/// The calls on one connection: those that were sent, and those that wait for their turn.
pub(super) struct TcpLine {
    slots: Arc<Semaphore>,
    /// Calls that wait for a slot, in the order in which they were submitted.
    queue: BTreeMap<CallId, Message>,
    /// Calls that were sent, by their XIDs.
    calls: Table<Sent>,
    /// How long a server may say nothing at all.
    patience: Duration,
    /// When it said something last, or the connection was made.
    heard: Instant,
    /// Calls that nobody waits for, and since which the server was silent for too long.
    silent: BTreeSet<CallId>,
    events: VecDeque<Event>,
    closing: Option<CloseReason>,
}

struct Sent {
    id: CallId,
    octets: u64,
    at: Instant,
    _slot: Slot,
}

impl TcpLine {
    /// A new connection's, with so many calls at once.
    pub(super) fn new(options: &TcpOptions, calls: usize) -> Self {
        TcpLine {
            slots: Arc::new(Semaphore::new(calls.clamp(1, Semaphore::MAX_PERMITS))),
            queue: BTreeMap::new(),
            calls: Table::default(),
            patience: options.stall_timeout,
            heard: Instant::now(),
            silent: BTreeSet::new(),
            events: VecDeque::new(),
            closing: None,
        }
    }

    /// Why the connection is to be closed, if it is.
    pub(super) fn closing(&self) -> Option<&CloseReason> {
        self.closing.as_ref()
    }

    /// Makes a call, now or when it can be. [`Event::Done`] follows, unless it is forgotten.
    ///
    /// # Errors
    /// The message is 2 GiB or longer.
    pub(super) fn enqueue(&mut self, call: CallId, message: Message) -> Result<(), FailReason> {
        record_mark(message.unreduced_len()).ok_or(FailReason::Unsendable("it is 2 GiB or longer"))?;
        self.queue.insert(call, message);
        Ok(())
    }

    /// A call has ended.
    pub(super) fn end(&mut self, call: CallId, outcome: Result<Reply, FailReason>) {
        self.events.push_back(Event::Done { call, outcome });
    }

    /// Nobody waits for the call any more. Gives when it was sent, if it was.
    pub(super) fn forget(&mut self, call: CallId) -> Option<Instant> {
        if self.calls.get(call.xid()).is_some_and(|sent| sent.id == call) {
            return self.calls.remove(call.xid()).map(|sent| sent.at);
        }
        self.queue.remove(&call);
        None
    }

    /// Whether a call was sent that has no reply.
    pub(super) fn awaits(&self) -> bool {
        self.calls.len() > 0
    }

    /// The next message to be sent, with what is to be dropped once it has left.
    pub(super) fn poll_send(&mut self) -> Option<(Message, Slot)> {
        if self.queue.is_empty() {
            return None;
        }
        let slot: Slot = self.slots.clone().try_acquire_owned().ok()?.into();
        let (id, message) = self.queue.pop_first()?;
        let sent = Sent { id, octets: message.unreduced_len(), at: Instant::now(), _slot: slot.clone() };
        // No other outstanding call has this XID.
        let _ = self.calls.insert(id.xid(), sent);
        Some((message, slot))
    }

    /// The peer has said something.
    pub(super) fn hear(&mut self) {
        self.heard = Instant::now();
        self.silent.clear();
    }

    /// Ends the call that a reply answers. A reply to no outstanding call, such as a late one, is dropped.
    pub(super) fn received(&mut self, reply: Bytes) {
        let xid = reply.first_chunk().map(|word| u32::from_be_bytes(*word));
        let Some(sent) = xid.and_then(|xid| self.calls.remove(xid)) else {
            return debug!(?xid, "no call waits for this reply");
        };
        let traffic =
            Traffic { call_inline: sent.octets, reply_inline: reply.len() as u64, ..Traffic::default() };
        self.end(sent.id, Ok(Reply { message: Received::whole(reply), traffic }));
    }

    /// The connection is gone: what has no reply has ended.
    pub(super) fn ended(&mut self, reason: &CloseReason) {
        self.closing = Some(reason.clone());
        for (_, sent) in mem::take(&mut self.calls).drain() {
            self.end(sent.id, Err(FailReason::Closed(reason.clone())));
        }
        for (call, _) in mem::take(&mut self.queue) {
            self.end(call, Err(FailReason::Unsent(reason.clone())));
        }
        self.events.push_back(Event::Closed(reason.clone()));
    }
}

impl Line for TcpLine {
    fn submit(&mut self, call: CallId, message: Message, _: &ReplyBounds) -> Result<(), FailReason> {
        self.enqueue(call, message)
    }

    fn cancel(&mut self, call: CallId) {
        if let Some(at) = self.forget(call)
            && self.heard <= at
            && at.elapsed() >= self.patience
        {
            self.silent.insert(call);
        }
    }

    /// A call that nobody waits for costs a TCP connection nothing. But if nothing at all has come since it was sent, for
    /// as long as a peer may stand still, then nobody is there: TCP alone would find that out much later.
    fn holds(&self, call: CallId) -> bool {
        self.silent.contains(&call)
    }

    fn close(&mut self, reason: CloseReason) {
        self.closing.get_or_insert(reason);
    }

    fn is_closing(&self) -> bool {
        self.closing.is_some()
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn has_work(&self) -> bool {
        !self.events.is_empty() || self.closing.is_some()
    }
}
