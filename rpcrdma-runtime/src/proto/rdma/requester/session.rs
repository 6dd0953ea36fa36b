//! A requester as the connection of a session.

use core::mem;

use super::Requester;
use crate::proto::call::{CallId, RequesterEvent, TransportError};
use crate::proto::session::{CreditCounts, SessionCall, SessionRequester};
use crate::proto::work::CloseReason;

impl SessionRequester for Requester {
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

    fn take_received(&mut self) -> bool {
        mem::take(&mut self.has_received)
    }

    fn counts(&self) -> CreditCounts {
        CreditCounts {
            granted: self.credits().granted(),
            queued: self.queued(),
            credit_waits: self.credit_waits(),
            discarded: self.discarded(),
        }
    }
}
