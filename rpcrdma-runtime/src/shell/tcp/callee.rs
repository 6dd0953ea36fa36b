//! The calls that come by one TCP connection.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::Semaphore;

use super::super::running::Running;
use super::super::serving::Connected;
use super::TcpOptions;
use super::line::Slot;
use crate::xdr::{Message, Received};

/// Calls whose handlers run or whose replies have not left, and those that wait for their places.
pub(super) struct Callee {
    caller: Connected,
    running: Running<Slot>,
    places: Arc<Semaphore>,
    most: usize,
    waiting: VecDeque<Bytes>,
    /// What those that wait hold, and how much that may be.
    waiting_octets: usize,
    most_octets: usize,
}

/// What a call costs that waits, beside its octets.
const COST: usize = 256;

impl Callee {
    /// For a new connection, with so many calls at once. Of those that wait it keeps as many as the longest record has octets.
    pub(super) fn new(caller: Connected, most: usize, options: &TcpOptions) -> Self {
        let most = most.clamp(1, Semaphore::MAX_PERMITS);
        Callee {
            caller,
            running: Running::default(),
            places: Arc::new(Semaphore::new(most)),
            most,
            waiting: VecDeque::new(),
            waiting_octets: 0,
            most_octets: options.max_record,
        }
    }

    /// Whether another call can be taken: to run, or if `further` to wait. So replies can be read that are behind calls.
    pub(super) fn has_room(&self, further: bool) -> bool {
        self.places.available_permits() > 0 || further && self.waiting_octets < self.most_octets
    }

    /// Whether every call has its reply, and that has left.
    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.places.available_permits() == self.most
    }

    /// A call has come.
    pub(super) fn take(&mut self, call: Bytes) {
        self.waiting_octets = self.waiting_octets.saturating_add(call.len().saturating_add(COST));
        self.waiting.push_back(call);
        self.start();
    }

    /// Starts the handlers of calls that wait, as far as there is room.
    pub(super) fn start(&mut self) {
        while !self.waiting.is_empty()
            && let Ok(place) = self.places.clone().try_acquire_owned()
            && let Some(call) = self.waiting.pop_front()
        {
            self.waiting_octets = self.waiting_octets.saturating_sub(call.len().saturating_add(COST));
            let xid = word(&call, 0).unwrap_or(0);
            self.running.start(place.into(), xid, Received::whole(call), self.caller.clone());
        }
    }

    /// Waits for the next handler that ends: its reply, and what is to be dropped once that has left. Without a reply, as for
    /// a call over RPCSEC_GSS that came before (RFC 2203 section 5.3.3.1), it is to be dropped at once: other calls may
    /// wait for the place. It may be given up while it waits.
    pub(super) async fn answer(&mut self) -> (Option<Message>, Slot) {
        match self.running.next().await {
            Some((slot, reply)) => (reply, slot),
            None => std::future::pending().await,
        }
    }
}

/// What a message is, by its second word (RFC 5531 section 9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Call,
    Reply,
    Neither,
}

impl Kind {
    pub(super) fn of(message: &[u8]) -> Self {
        match word(message, 4) {
            Some(0) => Kind::Call,
            Some(1) => Kind::Reply,
            _ => Kind::Neither,
        }
    }
}

fn word(message: &[u8], at: usize) -> Option<u32> {
    message.get(at..)?.first_chunk().map(|word| u32::from_be_bytes(*word))
}
