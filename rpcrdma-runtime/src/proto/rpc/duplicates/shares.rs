use alloc::collections::{BTreeMap, BTreeSet};
use core::cmp::Reverse;

use crate::proto::owner::Owner;

/// Each owner's share of a cache. The owner with the largest share makes room for others.
#[derive(Debug, Default)]
pub(super) struct Shares {
    owners: BTreeMap<Owner, Share>,
    /// Owners that have replies to evict.
    by_entries: Order,
    by_bytes: Order,
}

/// Owners by the size of their share. Of equal shares, the one with the least recently used reply comes
/// last.
type Order = BTreeMap<(usize, Reverse<u64>), Owner>;

#[derive(Debug, Default)]
struct Share {
    running: usize,
    /// Cached replies by last use.
    kept: BTreeSet<u64>,
    /// The memory of these replies in bytes.
    bytes: usize,
}

impl Share {
    fn entries(&self) -> usize {
        self.running.saturating_add(self.kept.len())
    }
}

/// A change of an owner's share.
#[derive(Clone, Copy, Debug)]
pub(super) enum Change {
    /// A call starts.
    Begins,
    /// A call completed.
    Ends,
    /// A reply is cached: its last use and its memory.
    Keeps(u64, usize),
    /// A reply is used again: its previous and its new last use.
    Uses(u64, u64),
    /// A reply is evicted: its last use and its memory.
    Forgets(u64, usize),
}

impl Shares {
    pub(super) fn change(&mut self, owner: &Owner, change: Change) {
        let mut share = self.take(owner);
        match change {
            Change::Begins => share.running = share.running.saturating_add(1),
            Change::Ends => share.running = share.running.saturating_sub(1),
            Change::Keeps(used, held) => {
                share.kept.insert(used);
                share.bytes = share.bytes.saturating_add(held);
            }
            Change::Uses(before, now) => {
                share.kept.remove(&before);
                share.kept.insert(now);
            }
            Change::Forgets(used, held) => {
                share.kept.remove(&used);
                share.bytes = share.bytes.saturating_sub(held);
            }
        }
        self.put(owner, share);
    }

    /// Returns the last use of the reply to evict for a further call of this owner. Returns `None` if the
    /// owner would then have a larger share than every owner with replies, and has no reply of its own.
    pub(super) fn for_call_of(&self, owner: &Owner) -> Option<u64> {
        let own = self.owners.get(owner);
        let wanted = own.map_or(0, Share::entries).saturating_add(1);
        let (entries, oldest) = last(&self.by_entries)?;
        // An owner that already has the largest share evicts its own reply.
        if entries >= wanted { Some(oldest) } else { own?.kept.first().copied() }
    }

    /// Returns the last use of the reply to evict if there are too many.
    pub(super) fn of_most_entries(&self) -> Option<u64> {
        last(&self.by_entries).map(|(_, oldest)| oldest)
    }

    /// Returns the last use of the reply to evict if they use too many bytes.
    pub(super) fn of_most_bytes(&self) -> Option<u64> {
        last(&self.by_bytes).map(|(_, oldest)| oldest)
    }

    fn take(&mut self, owner: &Owner) -> Share {
        let share = self.owners.remove(owner).unwrap_or_default();
        if let Some(oldest) = share.kept.first() {
            self.by_entries.remove(&(share.entries(), Reverse(*oldest)));
            self.by_bytes.remove(&(share.bytes, Reverse(*oldest)));
        }
        share
    }

    fn put(&mut self, owner: &Owner, share: Share) {
        if let Some(oldest) = share.kept.first() {
            self.by_entries.insert((share.entries(), Reverse(*oldest)), owner.clone());
            self.by_bytes.insert((share.bytes, Reverse(*oldest)), owner.clone());
        }
        if share.entries() > 0 {
            self.owners.insert(owner.clone(), share);
        }
    }
}

fn last(order: &Order) -> Option<(usize, u64)> {
    let ((most, Reverse(oldest)), _) = order.last_key_value()?;
    Some((*most, *oldest))
}
