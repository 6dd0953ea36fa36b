//! Calls of the end that was connected to (RFC 8167), beside the engine of the usual direction on the same connection.
//!
//! A client that takes such calls has a [`BackwardResponder`] besides its requester, a server that makes them a
//! [`BackwardRequester`] besides its responder. Each hears a completion first ([`BackwardResponder::take`]) and hands
//! on what is not its own, so neither engine ever sees the XIDs and credits of the other direction. Without them the
//! engines answer for themselves what comes in the backward direction: they drop it, or refuse it with ERR_CHUNK.
//!
//! These calls and their replies go inline, or not at all: RFC 8167 section 5.3 leaves chunks to those who want them, and
//! no known peer takes them.

use super::requester::FIRST_BACKWARD;
use super::{
    Call, CallId, CallKey, Config, Credits, Event, FailReason, Requester, Responder, ResponderEvent, Stated,
};
use crate::proto::work::{Action, CloseReason, Completion, Token};
use crate::wire::private_data::Negotiated;
use crate::wire::rdma::{Direction, direction};
use crate::xdr::Message;

/// A client's end of the backward direction: it takes the server's calls.
#[derive(Debug)]
pub struct BackwardResponder {
    responder: Responder,
    granted: usize,
}

/// A server's end of the backward direction: it calls its client, once the client has said that it is ready.
#[derive(Debug)]
pub struct BackwardRequester {
    requester: Requester,
    ready: bool,
}

impl BackwardResponder {
    /// One on a new connection, with its Receives: as many calls as [`Config::backward_credits`] are granted.
    #[must_use]
    pub fn new(config: Config, negotiated: Negotiated) -> Self {
        BackwardResponder {
            responder: Responder::backward(config, negotiated),
            granted: usize::try_from(config.backward_credits.max(1)).unwrap_or(usize::MAX),
        }
    }

    /// Takes a completion of the provider, unless it is for the connection's requester: then it comes back. That the
    /// connection is closed both hear.
    #[must_use]
    pub fn take(&mut self, completion: Completion) -> Option<Completion> {
        match &completion {
            Completion::Received { message, .. } if direction(message) == Some(Direction::Call) => {
                if self.responder.in_progress() < self.granted {
                    self.responder.handle_completion(completion);
                } else {
                    let why = "more calls in the backward direction than were granted (RFC 8167 section 4.1)";
                    self.responder.close(CloseReason::Violation(why.into()));
                }
                None
            }
            Completion::Closed { reason, .. } => {
                self.responder.handle_completion(closed(reason));
                Some(completion)
            }
            _ if is_backward(&completion) => {
                self.responder.handle_completion(completion);
                None
            }
            _ => Some(completion),
        }
    }

    /// The next piece of work for the provider.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.responder.poll_action()
    }

    /// The next thing to know.
    pub fn poll_event(&mut self) -> Option<ResponderEvent> {
        self.responder.poll_event()
    }

    /// Whether there is something to poll.
    #[must_use]
    pub fn has_work(&self) -> bool {
        self.responder.has_work()
    }

    /// Returns a call's reply. If it does not fit inline the server gets ERR_CHUNK.
    pub fn reply(&mut self, key: CallKey, message: Message) {
        self.responder.reply(key, message);
    }

    /// A call that gets no reply.
    pub fn drop_call(&mut self, key: CallKey) {
        self.responder.drop_call(key);
    }

    /// Calls that are here and not answered, and answers that have not been handed to the provider.
    #[must_use]
    pub fn in_progress(&self) -> usize {
        self.responder.in_progress()
    }

    /// Calls that were answered with RDMA_ERROR.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.responder.refused()
    }
}

impl BackwardRequester {
    /// One on a new connection. It does nothing until [`BackwardRequester::ready`].
    #[must_use]
    pub fn new(config: Config, negotiated: Negotiated) -> Self {
        BackwardRequester { requester: Requester::backward(config, negotiated), ready: false }
    }

    /// The client's upper layer has said that it takes calls (RFC 8167 section 6): as NFS version 4.1 does by
    /// CREATE_SESSION. Receives for the replies are posted, and calls may be made.
    pub fn ready(&mut self) {
        self.ready = true;
    }

    /// Whether calls may be made.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.ready
    }

    /// Takes a completion of the provider, unless it is for the connection's responder: then it comes back. That the
    /// connection is closed both hear.
    #[must_use]
    pub fn take(&mut self, completion: Completion) -> Option<Completion> {
        match &completion {
            Completion::Received { message, .. }
                if self.ready && direction(message) == Some(Direction::Reply) =>
            {
                self.requester.handle_completion(completion);
                None
            }
            Completion::Closed { reason, .. } => {
                self.requester.handle_completion(closed(reason));
                Some(completion)
            }
            _ if is_backward(&completion) => {
                self.requester.handle_completion(completion);
                None
            }
            _ => Some(completion),
        }
    }

    /// The next piece of work for the provider.
    pub fn poll_action(&mut self) -> Option<Action> {
        if self.ready { self.requester.poll_action() } else { None }
    }

    /// The next thing to know.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.requester.poll_event()
    }

    /// Whether there is something to poll.
    #[must_use]
    pub fn has_work(&self) -> bool {
        self.requester.has_event() || self.ready && self.requester.has_work()
    }

    /// Makes a call, now or when there is a credit. It fails with [`FailReason::NotReady`] if the client has not
    /// said that it is ready, and with [`FailReason::Unsendable`] if it does not fit inline. Nothing is offered for its
    /// reply.
    pub fn submit(&mut self, message: Message) -> CallId {
        if self.ready {
            self.requester.submit(Call { message, reply: super::ReplyResources::default() })
        } else {
            self.requester.refuse(&message, FailReason::NotReady)
        }
    }

    /// As [`Requester::limit`]: no call is longer inline than the client says.
    pub fn limit(&mut self, client: Stated) {
        self.requester.limit(client);
    }

    /// Nobody waits for the call any more. If it was sent its credit stays with the client until it answers.
    pub fn cancel(&mut self, call: CallId) {
        self.requester.cancel(call);
    }

    /// Flow control as it stands, of this direction.
    #[must_use]
    pub fn credits(&self) -> Credits {
        self.requester.credits()
    }

    /// Replies that belonged to no call and were dropped.
    #[must_use]
    pub fn discarded(&self) -> u64 {
        self.requester.discarded()
    }
}

/// No memory is advertised in the backward direction, so none comes back.
fn closed(reason: &CloseReason) -> Completion {
    Completion::Closed { reason: reason.clone(), returned: alloc::vec::Vec::new() }
}

/// Whether an engine of the backward direction asked for this work. All that they ask for are Sends.
fn is_backward(completion: &Completion) -> bool {
    matches!(completion, Completion::Sent { token: Token(token) } if *token >= FIRST_BACKWARD)
}
