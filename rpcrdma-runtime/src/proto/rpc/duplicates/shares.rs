use alloc::collections::{BTreeMap, BTreeSet};
use core::cmp::Reverse;

use crate::proto::owner::Owner;

/// Each owner's share of a cache. The owner with the largest share makes room for others.
#[derive(Debug, Default)]
pub(super) struct Shares {
    owners: BTreeMap<Owner, Share>,
    /// Owners with cached replies, by the number of their entries.
    by_entries: Order,
    by_bytes: Order,
}

/// Owners by the size of their share. Among equal shares, the share with the least recently used reply is
/// last.
type Order = BTreeMap<Place, Owner>;

/// The size of a share, in entries or bytes, and the last use of its least recently used reply.
type Place = (usize, Reverse<u64>);

#[derive(Debug, Default)]
struct Share {
    running: usize,
    /// Cached replies, each identified by the number of its last use.
    cached: BTreeSet<u64>,
    /// The size of these replies in bytes.
    bytes: usize,
}

impl Share {
    fn entries(&self) -> usize {
        self.running.saturating_add(self.cached.len())
    }

    /// Returns the places of this share in [`Shares::by_entries`] and [`Shares::by_bytes`], if it has
    /// replies.
    fn places(&self) -> [Option<Place>; 2] {
        let oldest = self.cached.first().map(|oldest| Reverse(*oldest));
        [self.entries(), self.bytes].map(|size| Some((size, oldest?)))
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Change {
    CallStarted,
    /// A call completed, and its reply is not cached.
    CallEnded,
    /// A call completed, and its reply is cached with this last use and this size.
    CallAnswered(u64, usize),
    /// The last use of a reply changes from the first value to the second.
    ReplyUsed(u64, u64),
    /// A reply with this last use and this size is evicted.
    ReplyEvicted(u64, usize),
}

impl Shares {
    pub(super) fn change(&mut self, owner: &Owner, change: Change) {
        let share = self.owners.entry(owner.clone()).or_default();
        let before = share.places();
        match change {
            Change::CallStarted => share.running = share.running.saturating_add(1),
            Change::CallEnded => share.running = share.running.saturating_sub(1),
            Change::CallAnswered(used, size) => {
                share.running = share.running.saturating_sub(1);
                share.cached.insert(used);
                share.bytes = share.bytes.saturating_add(size);
            }
            Change::ReplyUsed(before, now) => {
                share.cached.remove(&before);
                share.cached.insert(now);
            }
            Change::ReplyEvicted(used, size) => {
                share.cached.remove(&used);
                share.bytes = share.bytes.saturating_sub(size);
            }
        }
        let after = share.places();
        if share.entries() == 0 {
            self.owners.remove(owner);
        }
        let orders = [&mut self.by_entries, &mut self.by_bytes];
        for (order, (before, after)) in orders.into_iter().zip(before.into_iter().zip(after)) {
            if before == after {
                continue;
            }
            if let Some(before) = before {
                order.remove(&before);
            }
            if let Some(after) = after {
                order.insert(after, owner.clone());
            }
        }
    }

    /// Chooses the reply to evict for a further call of this owner, and returns the number of its last use.
    /// Returns `None` if the owner would then have a larger share than every owner with replies, and has no
    /// cached reply itself.
    pub(super) fn for_call_of(&self, owner: &Owner) -> Option<u64> {
        let own = self.owners.get(owner);
        let wanted = own.map_or(0, Share::entries).saturating_add(1);
        let (entries, oldest) = last(&self.by_entries)?;
        // An owner that would have the largest share evicts its own reply.
        if entries >= wanted { Some(oldest) } else { own?.cached.first().copied() }
    }

    /// Chooses the least recently used reply of the owner with the most entries. Returns the number of its
    /// last use, or `None` if no reply is cached.
    pub(super) fn of_most_entries(&self) -> Option<u64> {
        last(&self.by_entries).map(|(_, oldest)| oldest)
    }

    /// Chooses the least recently used reply of the owner whose replies use the most bytes. Returns the
    /// number of its last use, or `None` if no reply is cached.
    pub(super) fn of_most_bytes(&self) -> Option<u64> {
        last(&self.by_bytes).map(|(_, oldest)| oldest)
    }
}

fn last(order: &Order) -> Option<(usize, u64)> {
    let ((largest, Reverse(oldest)), _) = order.last_key_value()?;
    Some((*largest, *oldest))
}
