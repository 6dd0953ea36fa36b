//! One TCP connection's calls, as a session sees them.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
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
use crate::proto::work::CloseReason;
use crate::wire::rpc::record_mark;
use crate::xdr::{Message, Received};

/// Room for one call: free once the call has left and is answered or forgotten, so that what waits to be sent has a bound.
pub(super) type Slot = Arc<OwnedSemaphorePermit>;

/// The calls on one connection: those that were sent, and those that wait for their turn.
#[derive(Debug)]
pub(super) struct TcpLine {
    submitted: u32,
    slots: Arc<Semaphore>,
    /// Calls that wait for a slot, in the order in which they were submitted.
    queue: BTreeMap<CallId, Message>,
    calls: BTreeMap<CallId, Sent>,
    by_xid: HashMap<u32, CallId>,
    outbox: VecDeque<(Message, Slot)>,
    /// How long a server may say nothing at all.
    patience: Duration,
    /// When it said something last, or the connection was made.
    heard: Instant,
    /// Calls that nobody waits for, and since which the server was silent for too long.
    silent: BTreeSet<CallId>,
    events: VecDeque<Event>,
    closing: Option<CloseReason>,
}

#[derive(Debug)]
struct Sent {
    xid: u32,
    octets: u64,
    at: Instant,
    _slot: Slot,
}

impl TcpLine {
    /// A new connection's, with so many calls at once.
    pub(super) fn new(options: &TcpOptions, calls: usize) -> Self {
        TcpLine {
            submitted: 0,
            slots: Arc::new(Semaphore::new(calls.clamp(1, Semaphore::MAX_PERMITS))),
            queue: BTreeMap::new(),
            calls: BTreeMap::new(),
            by_xid: HashMap::new(),
            outbox: VecDeque::new(),
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

    /// Makes a call, now or when it can be. [`Event::Done`] follows, unless it is cancelled.
    pub(super) fn enqueue(&mut self, message: Message) -> CallId {
        let id = self.new_id(&message);
        self.queue.insert(id, message);
        id
    }

    /// The same for a call that is not to be sent.
    pub(super) fn refuse(&mut self, message: &Message, why: FailReason) -> CallId {
        let id = self.new_id(message);
        self.events.push_back(Event::Done { call: id, outcome: Err(why) });
        id
    }

    fn new_id(&mut self, message: &Message) -> CallId {
        self.submitted = self.submitted.wrapping_add(1);
        CallId::new(self.submitted, message).0
    }

    /// Nobody waits for the call any more. Gives when it was sent, if it was.
    pub(super) fn forget(&mut self, call: CallId) -> Option<Instant> {
        self.queue.remove(&call);
        let sent = self.calls.remove(&call)?;
        self.by_xid.remove(&sent.xid);
        Some(sent.at)
    }

    /// Whether a call was sent that has no reply.
    pub(super) fn awaits(&self) -> bool {
        !self.calls.is_empty()
    }

    /// The next message to be sent, with what is to be dropped once it has left.
    pub(super) fn poll_send(&mut self) -> Option<(Message, Slot)> {
        while self.outbox.is_empty() && !self.queue.is_empty() {
            let slot = self.slots.clone().try_acquire_owned().ok()?;
            let (id, message) = self.queue.pop_first()?;
            self.start(id, message, slot.into());
        }
        self.outbox.pop_front()
    }

    fn start(&mut self, id: CallId, message: Message, slot: Slot) {
        let xid = message.stream.first_chunk().map(|word| u32::from_be_bytes(*word));
        let octets = message.unreduced_len();
        let why = match xid {
            None => "it has no XID",
            Some(xid) if self.by_xid.contains_key(&xid) => "another call has its XID",
            Some(_) if record_mark(octets).is_none() => "it is 2 GiB or longer",
            Some(xid) => {
                self.by_xid.insert(xid, id);
                self.calls.insert(id, Sent { xid, octets, at: Instant::now(), _slot: slot.clone() });
                return self.outbox.push_back((message, slot));
            }
        };
        self.events.push_back(Event::Done { call: id, outcome: Err(FailReason::Unsendable(why)) });
    }

    /// The peer has said something.
    pub(super) fn hear(&mut self) {
        self.heard = Instant::now();
        self.silent.clear();
    }

    /// Gives a reply to who waits for it; one that nobody waits for is late, or nobody's.
    pub(super) fn received(&mut self, reply: Bytes) {
        let xid = reply.first_chunk().map(|word| u32::from_be_bytes(*word));
        let call = xid.and_then(|xid| self.by_xid.remove(&xid));
        let Some((id, sent)) = call.and_then(|id| self.calls.remove_entry(&id)) else {
            return debug!(?xid, "no call waits for this reply");
        };
        let traffic =
            Traffic { call_inline: sent.octets, reply_inline: reply.len() as u64, ..Traffic::default() };
        let reply = Reply { message: Received::whole(reply), traffic };
        self.events.push_back(Event::Done { call: id, outcome: Ok(reply) });
    }

    /// The connection is gone: what has no reply has ended.
    pub(super) fn ended(&mut self, reason: &CloseReason) {
        self.closing = Some(reason.clone());
        self.by_xid.clear();
        self.outbox.clear();
        let sent = std::mem::take(&mut self.calls).into_keys().map(|id| (id, true));
        let queued = std::mem::take(&mut self.queue).into_keys().map(|id| (id, false));
        for (call, sent) in sent.chain(queued) {
            let why = if sent { FailReason::Closed } else { FailReason::Unsent };
            self.events.push_back(Event::Done { call, outcome: Err(why(reason.clone())) });
        }
        self.events.push_back(Event::Closed(reason.clone()));
    }
}

impl Line for TcpLine {
    fn submit(&mut self, call: CallId, message: Message, _: &ReplyBounds) -> Result<(), FailReason> {
        self.queue.insert(call, message);
        Ok(())
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
}
