//! The interface between a session and one connection.

use alloc::string::ToString;

use super::super::{CallId, PeerLimits, Requester, RequesterEvent, TransportError};
use super::SessionCall;
use crate::proto::work::CloseReason;

/// The requester's side of one connection, as a [`Session`](super::Session) sees it. It closes for good:
/// later calls are sent on another connection.
pub trait Line {
    /// Submits a call, which is sent as soon as possible. [`RequesterEvent::Done`] follows, unless the call
    /// is cancelled. No outstanding call of this connection has the same XID.
    ///
    /// # Errors
    /// Returns the reason if the call can never be sent on this connection.
    fn submit(&mut self, id: CallId, call: &SessionCall) -> Result<(), TransportError>;

    /// Abandons the call: no event follows.
    fn cancel(&mut self, call: CallId);

    /// Returns true if the connection still holds resources of the call: a credit, or memory that the peer
    /// can access. They are released with its reply or with the end of the connection.
    fn holds(&self, call: CallId) -> bool;

    /// Times out a call and abandons it. By default, closes the connection if it still holds resources of the
    /// call.
    fn expire(&mut self, call: CallId) {
        self.cancel(call);
        if self.holds(call) {
            self.close(CloseReason::Timeout("a call had no reply".to_string()));
        }
    }

    /// Returns true if the connection still holds resources of a timed-out call.
    fn is_overdue(&self) -> bool {
        false
    }

    /// Closes the connection. [`RequesterEvent::Closed`] follows once all its resources are released.
    fn close(&mut self, reason: CloseReason);

    /// Returns true if the connection is closed or closing and takes no more calls.
    fn is_closing(&self) -> bool;

    /// Returns the next event.
    fn poll_event(&mut self) -> Option<RequesterEvent>;

    /// Returns true if an action or an event is pending.
    fn has_work(&self) -> bool;

    /// Applies the limits that the responder announces to calls that are not sent yet. The default ignores
    /// them.
    fn limit(&mut self, _responder: PeerLimits) {}

    /// Returns the counters. The default counts nothing.
    fn counts(&self) -> LineCounts {
        LineCounts::default()
    }
}

/// Credit counters of a [`Line`], if its calls use credits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LineCounts {
    /// The maximum number of unanswered calls that the responder grants.
    pub granted: u32,
    /// Calls waiting for a credit.
    pub queued: usize,
    /// Calls that found no credit on submission.
    pub credit_waits: u64,
    /// Dropped messages that matched no call.
    pub discarded: u64,
}

impl Line for Requester {
    fn submit(&mut self, id: CallId, call: &SessionCall) -> Result<(), TransportError> {
        self.submit_bounded(id, call.message.clone(), &call.bounds, call.memory.as_deref())
    }

    fn cancel(&mut self, call: CallId) {
        Requester::cancel(self, call);
    }

    fn holds(&self, call: CallId) -> bool {
        Requester::holds(self, call)
    }

    fn expire(&mut self, call: CallId) {
        Requester::expire(self, call);
    }

    fn is_overdue(&self) -> bool {
        Requester::is_overdue(self)
    }

    fn close(&mut self, reason: CloseReason) {
        Requester::close(self, reason);
    }

    fn is_closing(&self) -> bool {
        Requester::is_closing(self)
    }

    fn poll_event(&mut self) -> Option<RequesterEvent> {
        Requester::poll_event(self)
    }

    fn has_work(&self) -> bool {
        Requester::has_work(self)
    }

    fn limit(&mut self, responder: PeerLimits) {
        Requester::limit(self, responder);
    }

    fn counts(&self) -> LineCounts {
        LineCounts {
            granted: self.credits().granted(),
            queued: self.queued(),
            credit_waits: self.credit_waits(),
            discarded: self.discarded(),
        }
    }
}
