#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::future::poll_fn;
use std::iter;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::time::Instant;
use tracing::{Span, debug, trace};

use super::backward::{BackwardClient, Calling};
use super::credits::fit_to_provider;
use super::driver::{Outbound, SessionHandle, Shared};
use super::inbound::{Event, Inbound};
use super::memory::{Account, CallMemory, Permit, SMALL, WaitingMemory};
use super::metrics::Gauged;
use super::running::{CallInfo, Ended};
use super::serving::{CallExecutor, Serving};
use super::spans::{self, Endpoints};
use super::stats::ServerStats;
use super::warnings::{Kind, Subject, Warnings};
use crate::proto::owner::Owner;
use crate::proto::program::{Extensions, Origin};
use crate::proto::rdma::{
    BackwardRequester, BackwardResponder, CallKey, Config, IncomingCall, Link, NoRoom, PeerLimits, Requester,
    Responder, ResponderEvent,
};
use crate::proto::rpc::Services;
use crate::proto::work::{CloseReason, Completion};
use crate::provider::{Connection, ConnectionInfo};
use crate::wire::private_data::{Negotiated, PrivateData};
use crate::wire::rdma::CallTooLong;
use crate::xdr::Received;

/// A call, and its memory if the call waited for memory.
type Key = (CallKey, Option<CallMemory>);

/// Calls that wait for memory, each with the total size of its chunks in bytes. Small calls do not wait for
/// large calls.
#[derive(Default)]
struct WaitingCalls {
    small: VecDeque<(CallKey, u64)>,
    large: VecDeque<(CallKey, u64)>,
}

impl WaitingCalls {
    fn push(&mut self, (call, bytes): (CallKey, u64)) {
        if bytes > SMALL { &mut self.large } else { &mut self.small }.push_back((call, bytes));
    }

    fn is_empty(&self) -> bool {
        self.small.is_empty() && self.large.is_empty()
    }

    fn drain(&mut self) -> impl Iterator<Item = CallKey> {
        self.small.drain(..).chain(self.large.drain(..)).map(|(call, _)| call)
    }

    /// Waits for memory for the next call, then removes and returns the call. Never completes while the
    /// queues are empty. Cancel safe.
    async fn acquire(&mut self, account: &Arc<Account>) -> Option<(CallKey, CallMemory)> {
        let next = self.large.front().map_or(0, |(_, bytes)| *bytes);
        tokio::select! {
            memory = CallMemory::acquire(account, SMALL), if !self.small.is_empty() => {
                self.small.pop_front().map(|(call, _)| (call, memory))
            }
            memory = CallMemory::acquire(account, next), if !self.large.is_empty() => {
                self.large.pop_front().map(|(call, _)| (call, memory))
            }
            else => std::future::pending().await,
        }
    }
}

pub(super) struct RdmaInbound<C> {
    connection: C,
    serving: Serving,
    responder: Responder,
    backward: Calling<BackwardRequester>,
    link: Link,
    peer: Option<SocketAddr>,
    /// The time at which [`Serving::refuse_fatal_calls`] must be called again, if any.
    refuse_until: Option<Instant>,
    stats: ServerStats,
    _credits: Gauged,
    /// Whether new calls are dropped.
    draining: bool,
    account: Arc<Account>,
    /// The memory that [`Responder::unsent_bytes`] counts.
    small: Permit,
    waiting: WaitingCalls,
    waiting_memory: WaitingMemory,
    /// The memory of admitted calls that have not arrived completely.
    fetching: Vec<(CallKey, CallMemory)>,
    warnings: Warnings,
}

impl<C: Connection> RdmaInbound<C> {
    pub(super) fn new(connection: C, serving: &Serving, config: Config) -> (Self, Arc<CallExecutor>) {
        let info = connection.info();
        let config = serving.with_raised_limits(fit_to_provider(config, info));
        let (peer, ord) = (info.peer, info.ord);
        let client = PrivateData::find(&info.private_data).unwrap_or(PrivateData::ABSENT);
        let negotiated = PrivateData::negotiate(&client, &config.private_data);
        debug!(?negotiated, "serving");
        let own = PeerLimits { inline: config.private_data.announced().receive_size, reads: ord };
        let link = Link::new(own, negotiated);
        let backward = BackwardRequester::new(config, negotiated);
        let backward = Calling::new(backward, serving.max_backward_calls());
        let client = BackwardClient::new(backward.calls(), Endpoints { local: info.local, peer });
        let account = serving.memory().account(Owner::of_peer(peer));
        let extensions = Extensions::default().with(link.clone()).with(client).with(account.clone());
        let executor = serving.executor(Origin { peer, extensions });
        let mut responder = Responder::new(config, negotiated, ord);
        let refuse_until = serving.refuse_fatal_calls(&mut responder, peer);
        let inbound = RdmaInbound {
            _credits: Gauged::new("rpcrdma_server_credits", f64::from(config.credits)),
            connection,
            serving: serving.clone(),
            responder,
            backward,
            link,
            peer,
            refuse_until,
            stats: serving.stats().clone(),
            draining: false,
            small: account.permit(),
            waiting_memory: account.waiting(),
            account,
            waiting: WaitingCalls::default(),
            fetching: Vec::new(),
            warnings: serving.warnings().clone(),
        };
        (inbound, executor)
    }

    /// Removes the memory of a call from `fetching`. Returns `None` if the call did not wait for memory.
    fn take_memory(&mut self, call: CallKey) -> Option<CallMemory> {
        let at = self.fetching.iter().position(|(key, _)| *key == call)?;
        Some(self.fetching.swap_remove(at).1)
    }

    fn take_event(&mut self) -> Option<Event<Key>> {
        if let Some(CallTooLong { xid, bytes, max, call }) = self.responder.take_too_long() {
            let subject = Subject { xid: Some(xid), peer: self.peer, ..call.into() };
            let limit = "MessageLimits::max_transfer, by default at most half of Limits::max_memory";
            let what =
                format_args!("ERR_CHUNK: call too long: {bytes} bytes in Read chunks, limit {max} ({limit})");
            self.warnings.log(Kind::CallTooLong, subject, what);
        }
        while let Some(event) = self.responder.poll_event() {
            match event {
                ResponderEvent::Call(IncomingCall { key, message, .. }) => {
                    let memory = self.take_memory(key);
                    if !self.draining {
                        return Some(Event::Call((key, memory.clone()), message, memory));
                    }
                    // Sends no reply: the client detects that the connection closes, and can call another
                    // server.
                    self.responder.drop_call(key);
                }
                ResponderEvent::Closed(reason) => return Some(Event::Closed(reason)),
            }
        }
        iter::from_fn(|| self.responder.poll_arrived()).for_each(|call| self.waiting.push(call));
        if self.draining {
            self.waiting.drain().for_each(|call| self.responder.drop_call(call));
        }
        // Releases the memory of admitted calls that were rejected, for example because the client permits no
        // RDMA Reads. Such calls cause no event.
        self.fetching.retain(|(call, _)| self.responder.is_arriving(*call));
        None
    }

    fn handle_completion(&mut self, completion: Completion) {
        trace!(?completion);
        let others = match self.backward.is_used() {
            true => self.backward.with(|backward| backward.take(completion)),
            false => Some(completion),
        };
        let Some(completion) = others else { return };
        // If the owner's share is used up, even small calls wait, because their unread replies use memory. A
        // connection may exceed the share by one call, because a call is counted only before the next
        // completion is handled.
        self.responder.hold_calls(if self.account.has_room() { SMALL + 1 } else { 0 });
        if self.refuse_until.is_some_and(|until| until <= Instant::now()) {
            self.refuse_until = self.serving.refuse_fatal_calls(&mut self.responder, self.peer);
        }
        self.responder.handle_completion(completion);
    }

    fn submit(&mut self) {
        if self.draining && self.responder.in_progress() == 0 {
            self.responder.close(CloseReason::Local);
        }
        while let Some(action) = self.responder.poll_action() {
            trace!(?action);
            self.connection.submit(action);
        }
        self.backward.with_used(|backward| {
            while let Some(action) = backward.poll_action() {
                trace!(?action);
                self.connection.submit(action);
            }
        });
        let (traffic, refusals) = self.responder.take_counts();
        self.stats.traffic(&traffic);
        self.stats.refusals(&refusals);
    }

    /// Handles the next completion if it is available without waiting. Returns true if a completion was
    /// handled. Sends output only if no completion is available, so that replies to calls that arrive
    /// together share one write.
    fn flush(&mut self) -> bool {
        let completion = self.connection.try_completion().or_else(|| {
            self.connection.try_flush();
            self.connection.try_completion()
        });
        completion.map(|completion| self.handle_completion(completion)).is_some()
    }
}

impl<C> Drop for RdmaInbound<C> {
    /// Records the calls that later connections must refuse. This happens on drop because the server may drop
    /// a connection at any time, for example to make room for another connection.
    fn drop(&mut self) {
        self.serving.ended(&mut self.responder, self.peer);
    }
}

impl<C: Connection> Inbound for RdmaInbound<C> {
    type Key = Key;

    async fn next(&mut self, was_busy: bool) -> Event<Key> {
        loop {
            if let Some(event) = self.take_event() {
                return event;
            }
            self.submit();
            if self.responder.has_work() {
                continue;
            }
            self.small.set(self.responder.unsent_bytes());
            if !self.waiting_memory.set(self.responder.waiting_bytes()) {
                debug!(peer = ?self.peer, "closing the connection: too many calls wait for memory");
                self.responder.close(CloseReason::Local);
                continue;
            }
            let is_busy = self.is_busy();
            // A refused call causes no other event. It counts as activity before its answer is sent.
            let is_new_activity = is_busy && !was_busy;
            if !is_new_activity && self.flush() {
                continue;
            }
            if is_busy != was_busy {
                return Event::Activity;
            }
            tokio::select! {
                admitted = self.waiting.acquire(&self.account), if !self.waiting.is_empty() => {
                    if let Some((call, memory)) = admitted {
                        self.fetching.push((call, memory));
                        self.responder.admit(call);
                    }
                }
                completion = poll_fn(|cx| self.connection.poll_completion(cx)) => {
                    self.handle_completion(completion);
                }
                () = self.backward.changed() => {}
            }
        }
    }

    fn reply(&mut self, Ended { key: (call, memory), info, span, reply }: Ended<Key>) {
        let Some(reply) = reply else { return self.responder.drop_call(call) };
        let reply_bytes = reply.unreduced_len();
        let traffic = match memory {
            Some(memory) if reply_bytes > SMALL => {
                memory.set_reply(&reply);
                self.responder.reply_with(call, reply, |bytes| memory.hold(bytes))
            }
            _ => self.responder.reply(call, reply),
        };
        if let Some(traffic) = traffic {
            spans::record_traffic(&span, &traffic);
        }
        let reason =
            "the reply does not fit into the chunks that the client offered according to its binding";
        report_no_room(&self.warnings, info, &span, reply_bytes, self.responder.take_no_room(), reason);
        if let Some(client) = self.link.announced() {
            self.responder.set_peer_limits(client);
            self.backward.with(|backward| backward.set_peer_limits(client));
        }
    }

    fn is_busy(&self) -> bool {
        let has_calls = self.responder.has_calls() || self.responder.unsent_bytes() > 0;
        has_calls || self.backward.with_used(|backward| backward.is_ready())
    }

    fn drain(&mut self) {
        self.draining = true;
    }
}

fn report_no_room(
    warnings: &Warnings,
    info: Option<CallInfo>,
    span: &Span,
    reply_bytes: u64,
    no_room: Option<NoRoom>,
    reason: &str,
) {
    if let (Some(NoRoom { place, bytes, max }), Some(info)) = (no_room, info) {
        let subject = Subject { bytes: Some(reply_bytes), ..info.into() };
        let what = format_args!("ERR_CHUNK: {reason}: {bytes} bytes for {place}, limit {max}");
        warnings.log(Kind::ReplyTooLong, subject, what);
        spans::record_failure(span, what);
    }
}

#[derive(Clone, Debug)]
pub(super) struct Peer {
    pub(super) negotiated: Negotiated,
    pub(super) address: Option<SocketAddr>,
    /// Maximum number of the peer's RDMA Reads to serve concurrently (local IRD).
    pub(super) ird: u32,
}

impl Peer {
    /// If `info` is `None`, returns a peer without private data.
    pub(super) fn new(config: &Config, info: Option<&ConnectionInfo>) -> Self {
        let sent = info.and_then(|info| PrivateData::find(&info.private_data));
        let server = sent.unwrap_or(PrivateData::ABSENT);
        let mut own = config.private_data;
        own.remote_invalidation &= info.is_none_or(|info| info.remote_invalidation);
        Peer {
            negotiated: PrivateData::negotiate(&own, &server),
            address: info.and_then(|info| info.peer),
            ird: info.map_or(0, |info| info.ird),
        }
    }
}

pub(super) struct RdmaOutbound<C> {
    connection: C,
    backward: Option<BackwardResponder>,
    peer: Peer,
}

impl<C: Connection> RdmaOutbound<C> {
    pub(super) fn new(connection: C, config: Config, backward: &Services) -> (Self, Requester) {
        let info = connection.info();
        let peer = Peer::new(&config, Some(info));
        debug!(peer = ?peer.address, negotiated = ?peer.negotiated, "connected");
        let config = fit_to_provider(config, info);
        let requester =
            Requester::new(config, peer.negotiated, info.max_region).with_local_fence(info.local_fence);
        let backward = backward.programs().next().map(|_| BackwardResponder::new(config, peer.negotiated));
        (RdmaOutbound { connection, backward, peer }, requester)
    }

    fn handle_completion(&mut self, requester: &mut Requester, completion: Completion) {
        trace!(?completion, "completion");
        let completion = match &mut self.backward {
            Some(backward) => backward.take(completion),
            None => Some(completion),
        };
        if let Some(completion) = completion {
            requester.handle_completion(completion);
        }
    }
}

pub(super) trait RdmaSession: SessionHandle<Peer = Peer> {
    /// Applies the server's limits to calls on connection number `connection` (counted from 1), as
    /// [`Requester::set_peer_limits`] does.
    fn set_peer_limits(&self, connection: u64, server: PeerLimits);
}

impl<C: Connection + 'static> RdmaSession for Shared<RdmaOutbound<C>> {
    fn set_peer_limits(&self, connection: u64, server: PeerLimits) {
        self.with_requester(connection, |requester| requester.set_peer_limits(server));
    }
}

impl<C: Connection + 'static> Outbound for RdmaOutbound<C> {
    type Requester = Requester;
    type Key = CallKey;
    type Peer = Peer;

    fn peer(&self) -> Peer {
        self.peer.clone()
    }

    fn endpoints(&self) -> Endpoints {
        let ConnectionInfo { local, peer, .. } = *self.connection.info();
        Endpoints { local, peer }
    }

    fn flush(&mut self, requester: &mut Requester) -> bool {
        loop {
            let backward = self.backward.as_mut();
            let backward = backward.into_iter().flat_map(|engine| iter::from_fn(|| engine.poll_action()));
            for action in backward.chain(iter::from_fn(|| requester.poll_action())) {
                trace!(?action, "action");
                self.connection.submit(action);
            }
            if let Some(completion) = self.connection.try_completion() {
                self.handle_completion(requester, completion);
                continue;
            }
            let flushed = self.connection.try_flush();
            match self.connection.try_completion() {
                Some(completion) => self.handle_completion(requester, completion),
                None => return flushed,
            }
        }
    }

    fn poll(&mut self, requester: &mut Requester, cx: &mut Context<'_>) -> Poll<()> {
        self.connection.poll_completion(cx).map(|completion| self.handle_completion(requester, completion))
    }

    fn poll_call(&mut self) -> Option<(CallKey, Received)> {
        loop {
            if let ResponderEvent::Call(IncomingCall { key, xid, message }) =
                self.backward.as_mut()?.poll_event()?
            {
                debug!(xid, "backward call");
                return Some((key, message));
            }
        }
    }

    fn reply(&mut self, Ended { key, info, span, reply }: Ended<CallKey>, warnings: &Warnings) {
        match (&mut self.backward, reply) {
            (Some(backward), Some(reply)) => {
                let reply_bytes = reply.unreduced_len();
                if let Some(traffic) = backward.reply(key, reply) {
                    spans::record_traffic(&span, &traffic);
                }
                let reason = "the reply to a backward call does not fit inline";
                report_no_room(warnings, info, &span, reply_bytes, backward.take_no_room(), reason);
            }
            (Some(backward), None) => backward.drop_call(key),
            (None, _) => {}
        }
    }
}
