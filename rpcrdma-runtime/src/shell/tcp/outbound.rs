use std::io;
use std::net::SocketAddr;
use std::task::{Context, Poll};

use bytes::Bytes;
use tokio::net::TcpStream;
use tracing::debug;

use super::super::Limits;
use super::super::driver::Outbound;
use super::super::running::Ended;
use super::super::serving::max_args;
use super::super::spans::{self, Endpoints};
use super::super::warnings::Warnings;
use super::TcpOptions;
use super::call_slots::CallSlots;
use super::requester::{Slot, TcpRequester};
use super::stream::{Incoming, Outgoing, halves};
use crate::proto::call::Traffic;
use crate::proto::rpc::Services;
use crate::proto::work::CloseReason;
use crate::wire::rpc::MessageKind;
use crate::xdr::Received;

pub(super) struct TcpOutbound {
    incoming: Incoming,
    outgoing: Outgoing,
    /// Slots of backward calls, if the client serves programs.
    backward: Option<CallSlots>,
    /// The error of a reply that could not be queued.
    failed: Option<io::Error>,
    peer: SocketAddr,
    local: Option<SocketAddr>,
    options: TcpOptions,
    /// The maximum length of the arguments of a backward call, in octets.
    max_args: u64,
}

impl TcpOutbound {
    pub(super) fn new(
        socket: TcpStream,
        peer: SocketAddr,
        options: &TcpOptions,
        backward: &Services,
    ) -> (Self, TcpRequester) {
        debug!(%peer, "connected");
        let local = socket.local_addr().ok();
        let (incoming, outgoing) = halves(socket, options, 0);
        let max_args = max_args(backward, Limits::default().max_memory);
        let raised = TcpOptions { max_record: options.raised_max_record(max_args), ..*options };
        let backward = backward
            .programs()
            .next()
            .map(|_| CallSlots::new(options.max_concurrent_backward_calls, &raised));
        let options = *options;
        let connection =
            TcpOutbound { incoming, outgoing, backward, failed: None, peer, local, options, max_args };
        (connection, TcpRequester::new(&options, options.max_concurrent_calls))
    }

    /// Sends as much as possible without waiting. Returns false if output remains.
    fn transmit(&mut self, requester: &mut TcpRequester) -> io::Result<bool> {
        self.failed.take().map_or(Ok(()), Err)?;
        loop {
            while let Some((message, slot)) = requester.poll_send() {
                self.outgoing.push(message, slot)?;
            }
            if self.outgoing.is_empty() {
                return Ok(true);
            }
            // A write can free slots, so that the requester can send further calls.
            if !self.outgoing.try_write()? {
                return Ok(false);
            }
        }
    }

    fn received(&mut self, record: Bytes, requester: &mut TcpRequester) {
        let is_call = MessageKind::of(&record) == Some(MessageKind::Call);
        match &mut self.backward {
            _ if !is_call => requester.received(record),
            Some(slots) => slots.push(record, None),
            None => debug!("dropping a backward call: the client serves no programs"),
        }
    }

    /// Returns the next record. If a reply is too long, also fails its call, because a retransmission on the
    /// next connection would get the same reply.
    fn poll_record(
        &mut self,
        requester: &mut TcpRequester,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<Option<Bytes>>> {
        self.incoming.admit(self.options.raised_max_record(requester.max_reply().max(self.max_args)));
        let polled = self.incoming.poll_next(cx);
        if let Poll::Ready(Err(error)) = &polled
            && let Some(message) = self.incoming.refused(error)
            && MessageKind::of(message) != Some(MessageKind::Call)
            && let Some(xid) = message.first_chunk()
        {
            requester.fail(u32::from_be_bytes(*xid), error);
        }
        polled
    }

    fn poll_io(
        &mut self,
        requester: &mut TcpRequester,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), CloseReason>> {
        let failed = |error: io::Error| CloseReason::Io(error.to_string());
        // Polls both directions, so that stalled output is detected even under constant input.
        let mut progress = Poll::Pending;
        if !self.outgoing.is_empty() {
            progress = self.outgoing.poll_write(cx).map_err(failed)?;
        }
        if self.backward.as_ref().is_none_or(|slots| slots.has_room(true)) {
            let before = self.incoming.octets();
            let polled = self.poll_record(requester, cx).map_err(failed)?;
            // A server that sends a long record is not silent.
            if self.incoming.octets() != before {
                requester.record_activity();
            }
            if let Poll::Ready(record) = polled {
                self.received(record.ok_or(CloseReason::Peer)?, requester);
                progress = Poll::Ready(());
            }
        }
        progress.map(Ok)
    }
}

impl Outbound for TcpOutbound {
    type Requester = TcpRequester;
    /// The slot of a call, and its length in octets.
    type Key = (Slot, u64);
    type Peer = SocketAddr;

    fn peer(&self) -> SocketAddr {
        self.peer
    }

    fn endpoints(&self) -> Endpoints {
        Endpoints { local: self.local, peer: Some(self.peer) }
    }

    fn flush(&mut self, requester: &mut TcpRequester) -> bool {
        let sent = match requester.closing().cloned() {
            Some(reason) => Err(reason),
            None => self.transmit(requester).map_err(|error| CloseReason::Io(error.to_string())),
        };
        sent.unwrap_or_else(|reason| {
            requester.ended(&reason);
            true
        })
    }

    fn poll(&mut self, requester: &mut TcpRequester, cx: &mut Context<'_>) -> Poll<()> {
        self.poll_io(requester, cx).map(|outcome| outcome.unwrap_or_else(|reason| requester.ended(&reason)))
    }

    fn poll_call(&mut self) -> Option<(Self::Key, Received)> {
        let (slot, call, _) = self.backward.as_mut()?.next()?;
        Some(((slot, call.stream.len() as u64), call))
    }

    /// A call without a reply, such as a repeated RPCSEC_GSS call (RFC 2203 section 5.3.3.1), frees its slot
    /// immediately.
    fn reply(&mut self, Ended { key: (slot, call_inline), span, reply, .. }: Ended<Self::Key>, _: &Warnings) {
        let Some(reply) = reply else { return };
        let traffic = Traffic { call_inline, reply_inline: reply.unreduced_len(), ..Traffic::default() };
        match self.outgoing.push(reply, slot) {
            Ok(()) => spans::record_traffic(&span, &traffic),
            Err(error) => self.failed = Some(error),
        }
    }
}
