//! The calls that come by one TCP connection.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::Semaphore;

use super::TcpOptions;
use super::line::Slot;
use crate::xdr::Received;

/// Places of calls whose handlers run or whose replies have not left, and the calls that wait for one.
pub(super) struct Places {
    free: Arc<Semaphore>,
    most: usize,
    waiting: VecDeque<Bytes>,
    /// What those that wait hold, and how much that may be.
    waiting_octets: usize,
    most_octets: usize,
}

/// What a call costs that waits, beside its octets.
const COST: usize = 256;

impl Places {
    /// For so many calls at once. Of those that wait it keeps as many as the longest record has octets.
    pub(super) fn new(most: usize, options: &TcpOptions) -> Self {
        let most = most.clamp(1, Semaphore::MAX_PERMITS);
        Places {
            free: Arc::new(Semaphore::new(most)),
            most,
            waiting: VecDeque::new(),
            waiting_octets: 0,
            most_octets: options.max_record,
        }
    }

    /// Whether another call can be taken: to run, or if `further` to wait. So replies can be read that are behind calls.
    pub(super) fn has_room(&self, further: bool) -> bool {
        self.free.available_permits() > 0 || further && self.waiting_octets < self.most_octets
    }

    /// Whether every call has its reply, and that has left.
    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.free.available_permits() == self.most
    }

    /// A call has come.
    pub(super) fn take(&mut self, call: Bytes) {
        self.waiting_octets = self.waiting_octets.saturating_add(call.len().saturating_add(COST));
        self.waiting.push_back(call);
    }

    /// The next call that has a place, and the place.
    pub(super) fn next(&mut self) -> Option<(Slot, Received)> {
        if self.waiting.is_empty() {
            return None;
        }
        let place = self.free.clone().try_acquire_owned().ok()?;
        let call = self.waiting.pop_front()?;
        self.waiting_octets = self.waiting_octets.saturating_sub(call.len().saturating_add(COST));
        Some((place.into(), Received::whole(call)))
    }
}
