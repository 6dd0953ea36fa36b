//! Backward calls over TCP: a server calls its client on the client's connection.

use super::super::backward::Backward;
use super::TcpOptions;
use super::requester::TcpRequester;
use crate::proto::call::{CallId, RequesterEvent, TransportError};
use crate::proto::session::SessionRequester;
use crate::xdr::Message;

pub(super) struct TcpBackward {
    pub(super) requester: TcpRequester,
    /// True once [`Backward::ready`] has run. Earlier backward calls fail with [`TransportError::NotReady`].
    pub(super) ready: bool,
    submitted: u32,
}

impl TcpBackward {
    pub(super) fn new(options: &TcpOptions) -> Self {
        TcpBackward {
            requester: TcpRequester::new(options, options.max_concurrent_backward_calls),
            ready: false,
            submitted: 0,
        }
    }
}

impl Backward for TcpBackward {
    fn ready(&mut self) {
        self.ready = true;
    }

    fn submit(&mut self, message: Message) -> CallId {
        self.submitted = self.submitted.wrapping_add(1);
        let (call, _) = CallId::new(self.submitted, &message);
        let submitted = match self.requester.closing() {
            Some(reason) => Err(TransportError::Unsent(reason.clone())),
            None if self.ready => self.requester.enqueue(call, message),
            None => Err(TransportError::NotReady),
        };
        if let Err(why) = submitted {
            self.requester.end(call, Err(why));
        }
        call
    }

    fn cancel(&mut self, call: CallId) {
        // An abandoned backward call never closes the connection, so the send time, which `forget` returns,
        // is not needed.
        self.requester.forget(call);
    }

    fn is_outstanding(&self, xid: u32) -> bool {
        self.requester.is_outstanding(xid)
    }

    fn poll_event(&mut self) -> Option<RequesterEvent> {
        self.requester.poll_event()
    }
}
