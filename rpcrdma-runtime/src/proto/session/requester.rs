use alloc::string::ToString;

use super::SessionCall;
use crate::proto::call::{CallId, RequesterEvent, TransportError};
use crate::proto::work::CloseReason;

/// The requester of one connection, for a [`Session`](super::Session). A closed requester stays closed:
/// later calls are sent on another connection.
pub trait SessionRequester {
    /// Submits a call, which is sent as soon as possible. [`RequesterEvent::Done`] follows, unless this
    /// method fails, or [`Self::cancel`] or [`Self::expire`] abandons the call. The caller ensures that no
    /// outstanding call of this connection has the same XID.
    ///
    /// # Errors
    /// Returns the reason if the call can never be sent on this connection.
    fn submit(&mut self, id: CallId, call: &SessionCall) -> Result<(), TransportError>;

    /// Abandons the call: no event follows.
    fn cancel(&mut self, call: CallId);

    /// Returns true if the connection still holds resources of the call, such as a credit or memory that the
    /// peer can access.
    fn holds_resources(&self, call: CallId) -> bool;

    /// Times out a call and abandons it. By default, closes the connection if it still holds resources of the
    /// call.
    fn expire(&mut self, call: CallId) {
        self.cancel(call);
        if self.holds_resources(call) {
            self.close(CloseReason::Timeout("a call had no reply".to_string()));
        }
    }

    /// Returns true if a timed-out call has no reply, and the connection still holds resources of the call.
    fn is_overdue(&self) -> bool {
        false
    }

    /// Closes the connection. [`RequesterEvent::Closed`] follows once all its resources are released.
    fn close(&mut self, reason: CloseReason);

    /// Returns true if the connection is closed or closing and accepts no more calls.
    fn is_closing(&self) -> bool;

    /// Returns the next event, if any.
    fn poll_event(&mut self) -> Option<RequesterEvent>;

    /// Returns true if an action or an event is pending.
    fn has_work(&self) -> bool;

    /// Returns true if the peer has sent anything since the last call to this method. Implementations need
    /// this method only if [`Self::is_overdue`] can return true.
    fn take_received(&mut self) -> bool {
        false
    }

    /// Returns the counters. By default, they are all 0.
    fn counts(&self) -> CreditCounts {
        CreditCounts::default()
    }
}

/// Counters of a [`SessionRequester`] whose calls use credits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CreditCounts {
    /// The number of credits that the responder grants.
    pub granted: u32,
    /// Calls waiting for a credit.
    pub queued: usize,
    /// The total number of calls that had to wait for a credit.
    pub credit_waits: u64,
    /// The number of received messages that were dropped, such as replies that match no outstanding call.
    pub discarded: u64,
}
