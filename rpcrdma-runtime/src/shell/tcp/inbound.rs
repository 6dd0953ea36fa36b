use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tracing::debug;

use super::super::backward::{BackwardClient, Calling};
use super::super::inbound::{Event, Inbound, serve};
use super::super::memory::{Account, CallMemory, Permit, SMALL, SMALL_CALL};
use super::super::running::Ended;
use super::super::serving::{CallExecutor, Serving};
use super::super::slots::Slot as ConnectionSlot;
use super::super::spans::{self, Endpoints};
use super::super::stats::ServerStats;
use super::super::warnings::{Kind, Subject, Warnings};
use super::TcpOptions;
use super::backward::TcpBackward;
use super::call_slots::{CallSlots, Counted};
use super::requester::Slot;
use super::stream::{Incoming, Outgoing, halves};
use crate::proto::call::Traffic;
use crate::proto::owner::Owner;
use crate::proto::program::{Extensions, Origin};
use crate::proto::rdma::TrafficCounts;
use crate::proto::work::CloseReason;
use crate::provider::iwarp::options::prepare_socket;
use crate::wire::rpc::{CallNumbers, MessageKind};

/// The slot and the memory of a call, and its length in octets.
pub(super) type Key = (Slot, Counted, u64);

pub(super) struct TcpInbound {
    peer: SocketAddr,
    incoming: Incoming,
    outgoing: Outgoing,
    slots: CallSlots,
    backward: Calling<TcpBackward>,
    /// False once the client has closed its direction of the connection.
    open: bool,
    /// Whether new calls are dropped.
    draining: bool,
    /// The error of a reply that could not be queued.
    failed: Option<io::Error>,
    account: Arc<Account>,
    /// [`SMALL_CALL`] bytes for each call until its reply is written.
    small: Permit,
    /// The memory of the arriving call, if the call waited for memory.
    arriving: Option<CallMemory>,
    stats: ServerStats,
    warnings: Warnings,
}

impl TcpInbound {
    pub(super) fn new(
        socket: TcpStream,
        peer: SocketAddr,
        serving: &Serving,
        options: &TcpOptions,
    ) -> (Self, Arc<CallExecutor>) {
        let options = &serving.with_raised_tcp_limits(options);
        let endpoints = Endpoints { local: socket.local_addr().ok(), peer: Some(peer) };
        let (incoming, outgoing) = halves(socket, options, options.min_rate);
        let backward = Calling::new(TcpBackward::new(options), serving.max_backward_calls());
        let client = BackwardClient::new(backward.calls(), endpoints);
        let extensions = Extensions::default().with(client);
        let executor = serving.executor(Origin { peer: Some(peer), extensions });
        let slots = CallSlots::new(options.max_concurrent_calls, options);
        let account = serving.memory().account(Owner::of_peer(Some(peer)));
        let inbound = TcpInbound {
            peer,
            incoming,
            outgoing,
            slots,
            backward,
            open: true,
            draining: false,
            failed: None,
            small: account.permit(),
            account,
            arriving: None,
            stats: serving.stats().clone(),
            warnings: serving.warnings().clone(),
        };
        (inbound, executor)
    }

    /// Fails all backward calls, because the client has closed its direction or the connection has ended.
    pub(super) fn ended(&mut self, reason: &CloseReason) {
        self.backward.with(|backward| backward.requester.ended(reason));
    }

    async fn event(&mut self, was_busy: bool) -> io::Result<Event<Key>> {
        loop {
            if let Some(error) = self.failed.take() {
                return Err(error);
            }
            if let Some((slot, call, memory)) = self.slots.next() {
                let memory = memory.unwrap_or_else(|| (CallMemory::new(&self.account), None));
                let (length, of_call) = (call.stream.len() as u64, memory.0.clone());
                return Ok(Event::Call((slot, memory, length), call, Some(of_call)));
            }
            if (!self.open || self.draining) && self.slots.is_idle() {
                self.outgoing.finish().await?;
                if self.open {
                    self.incoming.discard().await;
                }
                let reason = if self.open { CloseReason::Local } else { CloseReason::Peer };
                return Ok(Event::Closed(reason));
            }
            let may_read = self.may_read();
            let wanted = if may_read { self.wanted()? } else { None };
            let may_read = may_read && wanted.is_none();
            // Reads all buffered calls first, so that replies to calls that arrive together are sent
            // together.
            if may_read && let Some(record) = self.incoming.buffered()? {
                self.received(record)?;
                continue;
            }
            while let Some((call, slot)) = self.backward.with_used(|backward| backward.requester.poll_send())
            {
                self.outgoing.push(call, slot)?;
            }
            self.count_small();
            if was_busy != self.is_busy() {
                return Ok(Event::Activity);
            }
            if !may_read {
                self.incoming.pause();
            }
            tokio::select! {
                written = self.outgoing.write(), if !self.outgoing.is_empty() => written?,
                memory = CallMemory::acquire(&self.account, wanted.unwrap_or_default()), if wanted.is_some() => {
                    self.arriving = Some(memory);
                }
                open = self.incoming.read(), if may_read => if !open? {
                    self.open = false;
                    self.ended(&CloseReason::Peer);
                },
                () = self.backward.changed() => {}
            }
        }
    }

    /// Returns true if the server may read from the connection. While backward calls are outstanding, calls
    /// without a free slot are queued, because replies may arrive behind these calls.
    fn may_read(&self) -> bool {
        let has_outstanding = self.backward.with_used(|backward| backward.requester.has_outstanding());
        self.open && if self.draining { has_outstanding } else { self.slots.has_room(has_outstanding) }
    }

    /// Returns the number of bytes of memory for which the next record must wait, if any. Long records, which
    /// include all records in several fragments, always wait. Small records wait only if the owner has used
    /// up its share.
    ///
    /// Exception: while backward calls are outstanding, small records do not wait. Long records then wait
    /// only if the connection would hold too many octets without reserved memory. The reason is that the
    /// record may be a reply, or that replies may arrive behind it.
    fn wanted(&mut self) -> io::Result<Option<u64>> {
        if self.arriving.is_some() {
            return Ok(None);
        }
        let Some(len) = self.incoming.announced()? else { return Ok(None) };
        let is_long = len as u64 > SMALL;
        let must_wait = if self.backward.with_used(|backward| backward.requester.has_outstanding()) {
            is_long && !self.slots.has_unreserved(len)
        } else {
            is_long || !self.account.has_room()
        };
        Ok(must_wait.then_some(len as u64))
    }

    fn count_small(&self) {
        self.small.set((self.slots.unwritten() as u64).saturating_mul(SMALL_CALL));
    }

    fn received(&mut self, record: Bytes) -> io::Result<()> {
        let memory = self.arriving.take();
        match MessageKind::of(&record) {
            // Drops the call: the client detects that the connection closes, and can call another server.
            Some(MessageKind::Call) if self.draining => {}
            Some(MessageKind::Call) => {
                let is_long = record.len() as u64 > SMALL;
                let memory = match memory {
                    Some(memory) => Some((memory, None)),
                    None => is_long.then(|| self.slots.count_unreserved(&record, &self.account)),
                };
                self.slots.push(record, memory);
                // Counts the call before the next record is read, so that a burst of calls stays within the
                // owner's share.
                self.count_small();
            }
            Some(MessageKind::Reply) if self.backward.with_used(|backward| backward.ready) => {
                self.backward.with(|backward| backward.requester.received(record));
            }
            _ => return Err(io::Error::other("received a message that is not a call")),
        }
        Ok(())
    }
}

impl Inbound for TcpInbound {
    type Key = Key;

    async fn next(&mut self, was_busy: bool) -> Event<Self::Key> {
        match self.event(was_busy).await {
            Ok(event) => event,
            Err(error) => {
                if let Some(message) = self.incoming.refused(&error) {
                    let subject = Subject { peer: Some(self.peer), ..CallNumbers::of(message).into() };
                    let what = format_args!("{error}; closing the connection");
                    self.warnings.log(Kind::RecordTooLong, subject, what);
                }
                Event::Closed(CloseReason::Io(error.to_string()))
            }
        }
    }

    /// A call without a reply frees its slot immediately.
    fn reply(&mut self, Ended { key: (slot, memory, call_inline), span, reply, .. }: Ended<Key>) {
        let Some(reply) = reply else { return };
        let traffic = Traffic { call_inline, reply_inline: reply.unreduced_len(), ..Traffic::default() };
        match self.outgoing.push(memory.0.hold_all(reply), slot) {
            Ok(()) => {
                self.stats.traffic(&TrafficCounts::from(&traffic));
                spans::record_traffic(&span, &traffic);
            }
            Err(error) => self.failed = Some(error),
        }
    }

    fn is_busy(&self) -> bool {
        let has_calls = self.incoming.is_partial() || !self.slots.is_idle();
        has_calls || self.backward.with_used(|backward| backward.ready)
    }

    fn drain(&mut self) {
        self.draining = true;
    }
}

pub(in super::super) async fn serve_socket(
    socket: TcpStream,
    peer: SocketAddr,
    serving: Serving,
    options: TcpOptions,
    stopping: watch::Receiver<bool>,
    slot: Arc<ConnectionSlot>,
) {
    if let Err(error) = prepare_socket(&socket, options.keepalive.as_ref()) {
        return debug!(%error, "cannot set the socket options");
    }
    let _connected = serving.stats().connected();
    let (mut inbound, executor) = TcpInbound::new(socket, peer, &serving, &options);
    let reason = serve(&mut inbound, executor, stopping, Some(&slot)).await;
    debug!(%reason, "connection closed");
    inbound.ended(&reason);
}
