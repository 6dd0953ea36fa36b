//! What a session needs of one connection.

use alloc::string::ToString;

use super::super::{CallId, Event, FailReason, Requester, Stated};
use crate::proto::program::ReplyBounds;
use crate::proto::work::CloseReason;
use crate::xdr::Message;

/// The requester's side of one connection, as a [`Session`](super::Session) sees it. It ends for good: what is to be
/// sent afterwards is sent on another one.
pub trait Line {
    /// Makes a call, now or when it can be. [`Event::Done`] follows, unless it is cancelled. No outstanding call of this
    /// connection has the same XID.
    ///
    /// # Errors
    /// Why it can never be made here.
    fn submit(&mut self, call: CallId, message: Message, bounds: &ReplyBounds) -> Result<(), FailReason>;

    /// Nobody waits for the call any more. There will be no event for it.
    fn cancel(&mut self, call: CallId);

    /// Whether the connection still has something of the call that comes back with its reply, or with the connection's
    /// end: memory that the peer may reach, or a credit.
    fn holds(&self, call: CallId) -> bool;

    /// The time of a call is up, and nobody waits for it. By default the connection is closed if it still has
    /// something of the call.
    fn expire(&mut self, call: CallId) {
        self.cancel(call);
        if self.holds(call) {
            self.close(CloseReason::Timeout("a call had no reply".to_string()));
        }
    }

    /// Whether the connection still has something of a call whose time is up.
    fn is_overdue(&self) -> bool {
        false
    }

    /// Closes the connection. [`Event::Closed`] follows once nothing of it is left.
    fn close(&mut self, reason: CloseReason);

    /// Whether it is closed, or about to be: it takes no calls any more.
    fn is_closing(&self) -> bool;

    /// The next thing to know.
    fn poll_event(&mut self) -> Option<Event>;

    /// Whether there is something to poll.
    fn has_work(&self) -> bool;

    /// Keeps calls that are not sent yet to what the responder says of itself. By default it limits nothing.
    fn limit(&mut self, _responder: Stated) {}

    /// What was counted. By default nothing is.
    fn counts(&self) -> LineCounts {
        LineCounts::default()
    }
}

/// What a [`Line`] counts of credits, if its calls need them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LineCounts {
    /// Calls that the responder allows to be unanswered.
    pub granted: u32,
    /// Calls that wait for a credit.
    pub queued: usize,
    /// Calls that found no credit when they were submitted.
    pub credit_waits: u64,
    /// Messages of the peer that belonged to no call and were dropped.
    pub discarded: u64,
}

impl Line for Requester {
    fn submit(&mut self, call: CallId, message: Message, bounds: &ReplyBounds) -> Result<(), FailReason> {
        self.submit_bounded(call, message, bounds)
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

    fn poll_event(&mut self) -> Option<Event> {
        Requester::poll_event(self)
    }

    fn has_work(&self) -> bool {
        Requester::has_work(self)
    }

    fn limit(&mut self, responder: Stated) {
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
