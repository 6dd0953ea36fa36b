//! The engines for backward-direction calls (RFC 8167). Each shares its connection with a forward engine.
//!
//! A client that accepts such calls has a [`BackwardResponder`] next to its requester. A server that makes
//! such calls has a [`BackwardRequester`] next to its responder. The backward engine receives each completion
//! first ([`BackwardResponder::take`]) and returns the completions of the forward engine. The directions have
//! separate XIDs and credits. Without a backward engine, a requester drops backward calls without chunks, and
//! rejects those with chunks (ERR_CHUNK). A responder without a backward engine drops backward replies
//! without chunks.
//!
//! Backward calls and their replies are inline only. RFC 8167 section 5.3 makes chunks optional, and no known
//! peer supports them.

use alloc::vec::Vec;

use super::reply::NoRoom;
use super::requester::FIRST_BACKWARD;
use super::{CallKey, Config, Credits, OutgoingCall, PeerLimits, Requester, Responder, ResponderEvent};
use crate::proto::call::{CallId, RequesterEvent, Traffic, TransportError};
use crate::proto::work::{Action, CloseReason, Completion, Token};
use crate::wire::private_data::Negotiated;
use crate::wire::rdma::{Direction, direction};
use crate::xdr::Message;

/// The client's backward-direction engine: it receives the server's calls.
#[derive(Debug)]
pub struct BackwardResponder {
    responder: Responder,
    granted: usize,
}

/// The server's backward-direction engine: it calls the client after [`BackwardRequester::ready`].
#[derive(Debug)]
pub struct BackwardRequester {
    requester: Requester,
    ready: bool,
}

impl BackwardResponder {
    /// Creates the engine of a new connection and posts its Receives: one for each of the
    /// [`Config::backward_credits`] that the engine grants, and one for an unsolicited message.
    #[must_use]
    pub fn new(config: Config, negotiated: Negotiated) -> Self {
        BackwardResponder {
            responder: Responder::backward(config, negotiated),
            granted: usize::try_from(config.backward_credits.max(1)).unwrap_or(usize::MAX),
        }
    }

    /// Handles a completion from the provider, or returns the completion if it belongs to the requester of
    /// the connection. Also returns [`Completion::Closed`], which both engines handle.
    #[must_use]
    pub fn take(&mut self, completion: Completion) -> Option<Completion> {
        if let Completion::Received { message, .. } = &completion
            && direction(message) == Some(Direction::Call)
        {
            if self.responder.in_progress() < self.granted {
                self.responder.handle_completion(completion);
            } else {
                let why = "more backward calls than granted credits (RFC 8167 section 4.1)";
                self.responder.close(CloseReason::Violation(why.into()));
            }
            return None;
        }
        take_sent_or_closed(completion, |completion| self.responder.handle_completion(completion))
    }

    /// Returns the next action for the provider, if any.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.responder.poll_action()
    }

    /// Returns the next event, if any.
    pub fn poll_event(&mut self) -> Option<ResponderEvent> {
        self.responder.poll_event()
    }

    /// Returns true if an action or an event is pending.
    #[must_use]
    pub fn has_work(&self) -> bool {
        self.responder.has_work()
    }

    /// Sends a call's reply. If the reply is too long, the server gets ERR_CHUNK. Returns how the call and
    /// its reply are transferred, or `None` if the reply is not sent.
    pub fn reply(&mut self, key: CallKey, message: Message) -> Option<Traffic> {
        self.responder.reply(key, message)
    }

    /// Removes and returns the [`NoRoom`] of the last reply that did not fit inline, if any. The call of this
    /// reply was rejected with ERR_CHUNK.
    pub fn take_no_room(&mut self) -> Option<NoRoom> {
        self.responder.take_no_room()
    }

    /// Drops a call without a reply.
    pub fn drop_call(&mut self, key: CallKey) {
        self.responder.drop_call(key);
    }

    /// Returns the number of unanswered calls, plus the number of replies and errors that wait until an
    /// earlier Send completes.
    #[must_use]
    pub fn in_progress(&self) -> usize {
        self.responder.in_progress()
    }

    /// Returns the number of calls dropped or answered with RDMA_ERROR.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.responder.refused()
    }
}

impl BackwardRequester {
    /// Creates the engine of a new connection. The engine is inactive until [`BackwardRequester::ready`] is
    /// called.
    #[must_use]
    pub fn new(config: Config, negotiated: Negotiated) -> Self {
        BackwardRequester { requester: Requester::backward(config, negotiated), ready: false }
    }

    /// Enables calls and posts Receives for the replies. Call this method after the client's upper layer has
    /// announced support for backward calls (RFC 8167 section 6), for example with CREATE_SESSION in NFS
    /// version 4.1.
    pub fn ready(&mut self) {
        self.ready = true;
    }

    /// Returns true if calls may be made.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.ready
    }

    /// Handles a completion from the provider, or returns the completion if it belongs to the responder of
    /// the connection. Also returns [`Completion::Closed`], which both engines handle.
    #[must_use]
    pub fn take(&mut self, completion: Completion) -> Option<Completion> {
        if self.ready
            && let Completion::Received { message, .. } = &completion
            && direction(message) == Some(Direction::Reply)
        {
            self.requester.handle_completion(completion);
            return None;
        }
        take_sent_or_closed(completion, |completion| self.requester.handle_completion(completion))
    }

    /// Returns the next action for the provider, if any.
    pub fn poll_action(&mut self) -> Option<Action> {
        if self.ready { self.requester.poll_action() } else { None }
    }

    /// Returns the next event, if any.
    pub fn poll_event(&mut self) -> Option<RequesterEvent> {
        self.requester.poll_event()
    }

    /// Returns true if an action or an event is pending.
    #[must_use]
    pub fn has_work(&self) -> bool {
        self.requester.has_event() || self.ready && self.requester.has_work()
    }

    /// Submits a call, which starts as soon as a credit is free. Before [`BackwardRequester::ready`] is
    /// called, every call fails with [`TransportError::NotReady`]. A call that does not fit inline fails with
    /// [`TransportError::Unsendable`]. No memory is offered for the reply.
    pub fn submit(&mut self, message: Message) -> CallId {
        if self.ready {
            self.requester.submit(OutgoingCall { message, reply: super::ReplyResources::default() })
        } else {
            self.requester.refuse(&message, TransportError::NotReady)
        }
    }

    /// Limits the inline size of calls to the size that the client announces, as
    /// [`Requester::set_peer_limits`] does.
    pub fn set_peer_limits(&mut self, client: PeerLimits) {
        self.requester.set_peer_limits(client);
    }

    /// Abandons the call. If the call was sent, its credit stays in use until the client replies or the
    /// connection ends.
    pub fn cancel(&mut self, call: CallId) {
        self.requester.cancel(call);
    }

    /// Returns true if a call with this XID holds a credit.
    #[must_use]
    pub fn is_outstanding(&self, xid: u32) -> bool {
        self.requester.is_outstanding(xid)
    }

    /// Returns the flow control state of this direction.
    #[must_use]
    pub fn credits(&self) -> Credits {
        self.requester.credits()
    }

    /// Returns the number of received messages that were dropped (RFC 8166 section 4.5), such as replies that
    /// match no outstanding call.
    #[must_use]
    pub fn discarded(&self) -> u64 {
        self.requester.discarded()
    }
}

/// Passes the completion of a backward engine's Send to `handle`. Except for Sends and Receives, backward
/// engines submit no work that completes. Also passes [`Completion::Closed`], but without memory, since
/// backward calls advertise none. Returns the completions that the forward engine must handle.
fn take_sent_or_closed(completion: Completion, handle: impl FnOnce(Completion)) -> Option<Completion> {
    match &completion {
        Completion::Sent { token: Token(FIRST_BACKWARD..) } => {
            handle(completion);
            None
        }
        Completion::Closed { reason, .. } => {
            handle(Completion::Closed { reason: reason.clone(), returned: Vec::new() });
            Some(completion)
        }
        _ => Some(completion),
    }
}
