use core::mem;

use super::{OutgoingCall, Requester};
use crate::proto::call::{CallId, RequesterEvent, TransportError};
use crate::proto::rdma::ReplyResources;
use crate::proto::session::{CreditCounts, SessionCall, SessionRequester};
use crate::proto::work::CloseReason;
use crate::xdr::ItemMemory;

impl SessionRequester for Requester {
    /// Submits the call with reply memory that is planned for this connection, since thresholds can differ
    /// between connections.
    fn submit(&mut self, id: CallId, call: &SessionCall) -> Result<(), TransportError> {
        let (chunks, threshold) = (mem::take(&mut self.spare.write_chunks), self.negotiated.reply_threshold);
        let mut reply = ReplyResources::in_memory(chunks, &call.bounds, threshold, self.max_segment)?;
        if !reply.write_chunks.is_empty() {
            reply.memory = call.memory.as_deref().and_then(ItemMemory::acquire);
        }
        self.submit_as(id, OutgoingCall { message: call.message.clone(), reply });
        Ok(())
    }

    fn cancel(&mut self, call: CallId) {
        Requester::cancel(self, call);
    }

    fn holds_resources(&self, call: CallId) -> bool {
        Requester::holds_resources(self, call)
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
