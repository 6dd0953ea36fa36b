//! The incoming calls of one TCP connection.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::super::memory::{Account, CallMemory};
use super::TcpOptions;
use super::requester::Slot;
use crate::xdr::Received;

/// The memory of a call, and the permits that the call holds from [`CallSlots::unreserved`] if the call is
/// long and its memory was not reserved.
pub(super) type Counted = (CallMemory, Option<OwnedSemaphorePermit>);

/// Slots for calls whose handlers run or whose replies are not yet written, and the queue of calls that
/// wait for a slot.
pub(super) struct CallSlots {
    free: Arc<Semaphore>,
    max_calls: usize,
    queue: VecDeque<(Bytes, Option<Counted>)>,
    queued_bytes: usize,
    max_queued_bytes: usize,
    /// A permit for each octet of long calls that the connection may hold without having reserved memory.
    unreserved: Arc<Semaphore>,
}

/// The fixed cost of a queued call, in bytes, in addition to its length.
const COST: usize = 256;

impl CallSlots {
    /// Creates `max_calls` free slots, at least one. The queue is full once the sum of the lengths and fixed
    /// costs of its calls reaches the maximum record length. The total length of long calls without reserved
    /// memory has the same limit.
    pub(super) fn new(max_calls: usize, options: &TcpOptions) -> Self {
        let max_calls = max_calls.clamp(1, Semaphore::MAX_PERMITS);
        CallSlots {
            free: Arc::new(Semaphore::new(max_calls)),
            max_calls,
            queue: VecDeque::new(),
            queued_bytes: 0,
            max_queued_bytes: options.max_record,
            unreserved: Semaphore::new(options.max_record.min(Semaphore::MAX_PERMITS)).into(),
        }
    }

    /// Returns true if another call can run, or if `queueing` is true and another call can be queued.
    /// Queueing lets the connection read replies that arrive behind calls.
    pub(super) fn has_room(&self, queueing: bool) -> bool {
        self.free.available_permits() > self.queue.len()
            || queueing && self.queued_bytes < self.max_queued_bytes
    }

    /// Returns true if a record of `len` octets may be read without reserving memory.
    pub(super) fn has_unreserved(&self, len: usize) -> bool {
        self.unreserved.available_permits() >= len.min(Semaphore::MAX_PERMITS)
    }

    /// Counts a long call that was read without reserving memory.
    pub(super) fn count_unreserved(&self, call: &Bytes, account: &Arc<Account>) -> Counted {
        let len = u32::try_from(call.len()).unwrap_or(u32::MAX);
        let permit = self.unreserved.clone().try_acquire_many_owned(len).ok();
        (CallMemory::arrived(account, call.len() as u64), permit)
    }

    pub(super) fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.free.available_permits() == self.max_calls
    }

    /// Returns the number of calls that are queued or running, or have unwritten replies.
    pub(super) fn unwritten(&self) -> usize {
        let running = self.max_calls.saturating_sub(self.free.available_permits());
        self.queue.len().saturating_add(running)
    }

    pub(super) fn push(&mut self, call: Bytes, memory: Option<Counted>) {
        self.queued_bytes = self.queued_bytes.saturating_add(call.len().saturating_add(COST));
        self.queue.push_back((call, memory));
    }

    pub(super) fn next(&mut self) -> Option<(Slot, Received, Option<Counted>)> {
        if self.queue.is_empty() {
            return None;
        }
        let slot = self.free.clone().try_acquire_owned().ok()?;
        let (call, memory) = self.queue.pop_front()?;
        self.queued_bytes = self.queued_bytes.saturating_sub(call.len().saturating_add(COST));
        Some((slot.into(), Received::unreduced(call), memory))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queued_calls_count_before_they_have_slots() {
        let options = TcpOptions { max_record: 1000, ..TcpOptions::default() };
        let mut slots = CallSlots::new(2, &options);
        let call = || Bytes::from_static(&[0; 44]);
        slots.push(call(), None);
        assert!(slots.has_room(false));
        slots.push(call(), None);
        assert!(!slots.has_room(false) && slots.has_room(true));
        let running = [slots.next().unwrap(), slots.next().unwrap()];
        assert!(slots.next().is_none() && !slots.has_room(false));
        // The queue is full, so the connection stops reading.
        (0..4).for_each(|_| slots.push(call(), None));
        assert!(!slots.has_room(true));
        drop(running);
        assert!(slots.next().is_some() && slots.has_room(true) && !slots.is_idle());
    }
}
