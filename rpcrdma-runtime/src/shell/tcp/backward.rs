//! Calls of a server to its client by TCP, on the connection that the client made.

use bytes::Bytes;

use super::super::backward::{Backward, Calling};
use super::TcpOptions;
use super::line::{Slot, TcpLine};
use crate::proto::rdma::session::Line;
use crate::proto::rdma::{CallId, Event, FailReason};
use crate::proto::work::CloseReason;
use crate::xdr::Message;

/// The calls of one connection.
pub(super) struct TcpBackward {
    line: TcpLine,
    ready: bool,
}

impl TcpBackward {
    /// A new connection's. It does nothing until its client is ready.
    pub(super) fn new(options: &TcpOptions) -> Self {
        TcpBackward { line: TcpLine::new(options, options.backward_calls), ready: false }
    }
}

impl Backward for TcpBackward {
    fn ready(&mut self) {
        self.ready = true;
    }

    fn submit(&mut self, message: Message) -> CallId {
        match self.line.closing().cloned() {
            Some(reason) => self.line.refuse(&message, FailReason::Unsent(reason)),
            None if self.ready => self.line.enqueue(message),
            None => self.line.refuse(&message, FailReason::NotReady),
        }
    }

    fn cancel(&mut self, call: CallId) {
        // Whether the client is still there is not for its server's calls to find out.
        self.line.forget(call);
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.line.poll_event()
    }
}

impl Calling<TcpBackward> {
    /// Whether replies may come.
    pub(super) fn is_ready(&self) -> bool {
        self.engine.ready
    }

    /// Whether a call was sent that has no reply.
    pub(super) fn awaits(&self) -> bool {
        self.engine.line.awaits()
    }

    /// The next message to be sent, with what is to be dropped once it has left. Callers hear how their calls ended.
    pub(super) fn poll_send(&mut self) -> Option<(Message, Slot)> {
        let next = self.engine.line.poll_send();
        self.settle();
        next
    }

    /// A reply has come.
    pub(super) fn received(&mut self, reply: Bytes) {
        self.engine.line.received(reply);
        self.settle();
    }

    /// No reply comes any more.
    pub(super) fn ended(&mut self, reason: &CloseReason) {
        self.engine.line.ended(reason);
        self.settle();
    }
}
