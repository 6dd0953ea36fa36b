use alloc::collections::{BTreeMap, BTreeSet};
use core::cmp::Reverse;
use core::net::{IpAddr, Ipv6Addr};

use super::CallerId;

/// What each caller has of a cache, so that the one that has the most makes room for the others.
#[derive(Debug, Default)]
pub(super) struct Shares {
    callers: BTreeMap<CallerId, Share>,
    /// Those that have something to forget.
    by_entries: Order,
    by_bytes: Order,
}

/// Callers by how much they have; of those that have the same, the one comes last whose oldest reply was not used for longest.
type Order = BTreeMap<(usize, Reverse<u64>), CallerId>;

#[derive(Debug, Default)]
struct Share {
    running: usize,
    /// Replies that are kept, by last use.
    kept: BTreeSet<u64>,
    /// What they hold.
    bytes: usize,
}

impl Share {
    fn entries(&self) -> usize {
        self.running.saturating_add(self.kept.len())
    }
}

/// What becomes of a caller's share.
#[derive(Clone, Copy, Debug)]
pub(super) enum Change {
    /// A call begins.
    Begins,
    /// A call has ended.
    Ends,
    /// A reply is kept: its last use, and what it holds.
    Keeps(u64, usize),
    /// A reply is used again: its last use before, and now.
    Uses(u64, u64),
    /// A reply is forgotten: its last use, and what it held.
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

    /// The last use of the reply that is to be forgotten for another call of this caller. None, if nobody has so much that
    /// the caller would not have more then.
    pub(super) fn for_call_of(&self, caller: CallerId) -> Option<u64> {
        let own = self.callers.get(&owner(caller));
        let wanted = own.map_or(0, Share::entries).saturating_add(1);
        let (entries, oldest) = last(&self.by_entries)?;
        // One that has the most already makes room for itself.
        if entries >= wanted { Some(oldest) } else { own?.kept.first().copied() }
    }

    /// The last use of the reply that is to be forgotten where there are too many.
    pub(super) fn of_most_entries(&self) -> Option<u64> {
        last(&self.by_entries).map(|(_, oldest)| oldest)
    }

    /// The last use of the reply that is to be forgotten where they hold too many bytes.
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

/// Whose share it is: one that has a network of IPv6 has all of its addresses.
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
