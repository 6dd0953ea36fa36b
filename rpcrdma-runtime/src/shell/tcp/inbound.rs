use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use tokio::net::TcpStream;
use tracing::warn;

use super::super::backward::{BackwardClient, Calling};
use super::super::inbound::{Event, Inbound};
use super::super::running::Ended;
use super::super::serving::{Connected, Serving};
use super::TcpOptions;
use super::backward::TcpBackward;
use super::call_slots::CallSlots;
use super::line::Slot;
use super::stream::{Incoming, Outgoing, halves};
use crate::proto::program::{Extensions, Origin};
use crate::proto::work::CloseReason;
use crate::wire::rpc::{MessageKind, RecordError};
use crate::xdr::Received;

/// A server's TCP connection, the client's calls on it, and the server's own calls.
pub(super) struct TcpInbound {
    peer: SocketAddr,
    incoming: Incoming,
    outgoing: Outgoing,
    slots: CallSlots,
    backward: Calling<TcpBackward>,
    /// The client has not closed its direction.
    open: bool,
    /// New calls are dropped.
    draining: bool,
    /// The error of a reply that could not be queued.
    failed: Option<io::Error>,
}

impl TcpInbound {
    /// Returns a new connection and its caller.
    pub(super) fn new(
        socket: TcpStream,
        peer: SocketAddr,
        serving: &Serving,
        options: &TcpOptions,
    ) -> (Self, Arc<Connected>) {
        let (incoming, outgoing) = halves(socket, options);
        let backward = Calling::new(TcpBackward::new(options), serving.backward_pending());
        let client = BackwardClient::new(backward.calls(), Some(peer));
        let extensions = Extensions::default().with(client);
        let caller = serving.caller(Origin { peer: Some(peer), extensions });
        let slots = CallSlots::new(options.calls, options);
        let (open, draining, failed) = (true, false, None);
        (TcpInbound { peer, incoming, outgoing, slots, backward, open, draining, failed }, caller)
    }

    /// Records the end of the connection.
    pub(super) fn ended(&mut self, reason: &CloseReason) {
        self.backward.with(|backward| backward.line.ended(reason));
    }

    /// Returns the next call, or `None` at the end of the connection.
    ///
    /// # Errors
    /// The error that ended the connection before its client closed it.
    async fn call(&mut self) -> io::Result<Option<(Slot, Received)>> {
        loop {
            if let Some(error) = self.failed.take() {
                return Err(error);
            }
            if let Some(call) = self.slots.next() {
                return Ok(Some(call));
            }
            if (!self.open || self.draining) && self.slots.is_idle() {
                self.outgoing.finish().await?;
                return Ok(None);
            }
            // Replies to calls that arrived together are sent together.
            if self.may_read()
                && let Some(record) = self.incoming.buffered()?
            {
                self.received(record)?;
                continue;
            }
            while let Some((call, slot)) = self.backward.with_used(|backward| backward.line.poll_send()) {
                self.outgoing.push(call, slot)?;
            }
            tokio::select! {
                written = self.outgoing.write(), if !self.outgoing.is_empty() => written?,
                record = self.incoming.next(), if self.may_read() => match record? {
                    Some(record) => self.received(record)?,
                    None => {
                        self.open = false;
                        self.ended(&CloseReason::Peer);
                    }
                },
                () = self.backward.changed() => {}
            }
        }
    }

    /// Replies to the server's own calls may arrive behind more calls than it can run.
    fn may_read(&self) -> bool {
        let awaits = self.backward.with_used(|backward| backward.line.awaits());
        self.open && if self.draining { awaits } else { self.slots.has_room(awaits) }
    }

    fn received(&mut self, record: Bytes) -> io::Result<()> {
        match MessageKind::of(&record) {
            // The client sees the connection close and can call elsewhere.
            Some(MessageKind::Call) if self.draining => {}
            Some(MessageKind::Call) => self.slots.push(record),
            Some(MessageKind::Reply) if self.backward.with_used(|backward| backward.ready) => {
                self.backward.with(|backward| backward.line.received(record));
            }
            _ => return Err(io::Error::other("a message that is no call")),
        }
        Ok(())
    }
}

impl Inbound for TcpInbound {
    type Key = Slot;

    async fn next(&mut self) -> Event<Slot> {
        match self.call().await {
            Ok(Some((slot, call))) => Event::Call(slot, call),
            Ok(None) => Event::Closed(CloseReason::Peer),
            Err(error) => {
                if error.get_ref().is_some_and(|inner| inner.is::<RecordError>()) {
                    warn!(peer = %self.peer, "{error} (TcpOptions::max_record); closing the connection");
                }
                Event::Closed(CloseReason::Io(error.to_string()))
            }
        }
    }

    /// A call without a reply frees its slot at once.
    fn reply(&mut self, Ended { key, reply, .. }: Ended<Slot>) {
        if let Some(Err(error)) = reply.map(|reply| self.outgoing.push(reply, key)) {
            self.failed = Some(error);
        }
    }

    fn has_callbacks(&self) -> bool {
        self.backward.with_used(|backward| backward.ready)
    }

    fn drain(&mut self) {
        self.draining = true;
    }
}
