//! Calls that end their connection (RFC 8166 section 4.5.3).

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use core::time::Duration;

/// XIDs, by owner, of calls whose RDMA Reads or Writes ended a connection. A retransmission would end the
/// next connection as well, and so on. It is therefore answered with ERR_CHUNK.
///
/// If only one call can be the cause, its retransmission is rejected. If several calls can be the cause, each
/// gets another chance, and is rejected after its second suspicion.
#[derive(Debug)]
pub struct FatalCalls<K> {
    suspects: BTreeMap<(K, u32), Suspect>,
    /// In the order of their arrival. May contain entries that were taken since.
    order: VecDeque<(Duration, K, u32)>,
}

#[derive(Clone, Copy, Debug)]
struct Suspect {
    since: Duration,
    /// Whether the next retransmission is rejected.
    certain: bool,
}

/// The maximum number of suspects of all owners. Beyond it, the oldest are dropped.
const MOST: usize = 1024;
/// The lifetime of a suspect. Later the client may use the XID for another call.
const LIFETIME: Duration = Duration::from_secs(120);

impl<K: Clone + Ord> FatalCalls<K> {
    /// Creates an empty set.
    #[must_use]
    pub fn new() -> Self {
        FatalCalls { suspects: BTreeMap::new(), order: VecDeque::new() }
    }

    /// Records that RDMA Reads or Writes of one of these calls ended a connection of this owner. `now` is a
    /// monotonic time since an arbitrary moment.
    pub fn blame(&mut self, owner: &K, xids: &[u32], now: Duration) {
        let alone = xids.len() == 1;
        for xid in xids {
            let again = self.suspects.contains_key(&(owner.clone(), *xid));
            self.put(owner, *xid, Suspect { since: now, certain: alone || again });
        }
        self.forget(now);
    }

    /// Removes and returns the calls to reject on a new connection of this owner. [`FatalCalls::give_back`]
    /// returns those that the connection did not reject.
    pub fn take(&mut self, owner: &K, now: Duration) -> BTreeSet<u32> {
        self.forget(now);
        let of_owner = self.suspects.range((owner.clone(), 0)..=(owner.clone(), u32::MAX));
        let certain: BTreeSet<u32> =
            of_owner.filter(|(_, suspect)| suspect.certain).map(|((_, xid), _)| *xid).collect();
        for xid in &certain {
            self.suspects.remove(&(owner.clone(), *xid));
        }
        certain
    }

    /// Returns the calls that were not retransmitted on a connection.
    pub fn give_back(&mut self, owner: &K, xids: &BTreeSet<u32>, now: Duration) {
        for xid in xids {
            self.put(owner, *xid, Suspect { since: now, certain: true });
        }
        self.forget(now);
    }

    fn put(&mut self, owner: &K, xid: u32, suspect: Suspect) {
        self.suspects.insert((owner.clone(), xid), suspect);
        self.order.push_back((suspect.since, owner.clone(), xid));
    }

    fn forget(&mut self, now: Duration) {
        while let Some((since, ..)) = self.order.front()
            && (self.order.len() > MOST || since.saturating_add(LIFETIME) <= now)
            && let Some((since, owner, xid)) = self.order.pop_front()
        {
            // Keeps the entry if the call was blamed again later.
            let call = (owner, xid);
            if self.suspects.get(&call).is_some_and(|suspect| suspect.since == since) {
                self.suspects.remove(&call);
            }
        }
    }
}

impl<K: Clone + Ord> Default for FatalCalls<K> {
    fn default() -> Self {
        FatalCalls::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(1000);

    #[test]
    fn one_alone_is_refused_and_one_of_several_the_second_time() {
        let mut calls = FatalCalls::new();
        calls.blame(&'a', &[7], NOW);
        calls.blame(&'b', &[7, 8], NOW);
        assert_eq!(calls.take(&'b', NOW), BTreeSet::new());
        calls.blame(&'b', &[8, 9], NOW);
        assert_eq!(calls.take(&'b', NOW), BTreeSet::from([8]));
        assert_eq!(calls.take(&'a', NOW), BTreeSet::from([7]));
        assert_eq!(calls.take(&'a', NOW), BTreeSet::new(), "the connection has it now");
        calls.give_back(&'a', &BTreeSet::from([7]), NOW);
        assert_eq!(calls.take(&'a', NOW), BTreeSet::from([7]));
    }

    #[test]
    fn they_are_known_for_their_time() {
        let mut calls = FatalCalls::new();
        calls.blame(&'a', &[7], NOW);
        calls.blame(&'a', &[8], NOW + Duration::from_secs(1));
        assert_eq!(calls.take(&'a', NOW + LIFETIME), BTreeSet::from([8]));
        assert!(calls.order.len() <= 1);
    }

    #[test]
    fn so_many_are_known_and_no_more() {
        let mut calls = FatalCalls::new();
        let most = u32::try_from(MOST).expect("small");
        for xid in 0..=most {
            calls.blame(&'a', &[xid], NOW + Duration::from_nanos(u64::from(xid)));
        }
        assert_eq!((calls.order.len(), calls.suspects.len()), (MOST, MOST));
        let taken = calls.take(&'a', NOW);
        assert_eq!((taken.first(), taken.last()), (Some(&1), Some(&most)));
    }
}
