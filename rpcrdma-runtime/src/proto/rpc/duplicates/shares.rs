use alloc::collections::{BTreeMap, BTreeSet};
use core::cmp::Reverse;
use core::net::{IpAddr, Ipv6Addr};

use super::CallerId;

/// Each caller's share of a cache. The caller with the largest share makes room for others.
#[derive(Debug, Default)]
pub(super) struct Shares {
    callers: BTreeMap<CallerId, Share>,
    /// Callers that have replies to evict.
    by_entries: Order,
    by_bytes: Order,
}

/// Callers by the size of their share. Of equal shares, the one with the least recently used reply comes
/// last.
type Order = BTreeMap<(usize, Reverse<u64>), CallerId>;

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

/// A change of a caller's share.
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
    pub(super) fn change(&mut self, caller: CallerId, change: Change) {
        let caller = owner(caller);
        let mut share = self.take(caller);
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
        self.put(caller, share);
    }

    /// Returns the last use of the reply to evict for a further call of this caller. Returns `None` if the
    /// caller would then have a larger share than every caller with replies, and has no reply of its own.
    pub(super) fn for_call_of(&self, caller: CallerId) -> Option<u64> {
        let own = self.callers.get(&owner(caller));
        let wanted = own.map_or(0, Share::entries).saturating_add(1);
        let (entries, oldest) = last(&self.by_entries)?;
        // A caller that already has the largest share evicts its own reply.
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

    fn take(&mut self, caller: CallerId) -> Share {
        let share = self.callers.remove(&caller).unwrap_or_default();
        if let Some(oldest) = share.kept.first() {
            self.by_entries.remove(&(share.entries(), Reverse(*oldest)));
            self.by_bytes.remove(&(share.bytes, Reverse(*oldest)));
        }
        share
    }

    fn put(&mut self, caller: CallerId, share: Share) {
        if let Some(oldest) = share.kept.first() {
            self.by_entries.insert((share.entries(), Reverse(*oldest)), caller);
            self.by_bytes.insert((share.bytes, Reverse(*oldest)), caller);
        }
        if share.entries() > 0 {
            self.callers.insert(caller, share);
        }
    }
}

fn last(order: &Order) -> Option<(usize, u64)> {
    let ((most, Reverse(oldest)), _) = order.last_key_value()?;
    Some((*most, *oldest))
}

/// Returns the owner of a caller's share: an IPv6 network of 64 bits counts as one caller.
fn owner(caller: CallerId) -> CallerId {
    match caller {
        CallerId::Address(address) => CallerId::Address(match address.to_canonical() {
            IpAddr::V6(address) => {
                let [a, b, c, d, ..] = address.segments();
                IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
            }
            v4 => v4,
        }),
        connection @ CallerId::Connection(_) => connection,
    }
}
