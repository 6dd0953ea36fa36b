//! Calls that may have ended their connection (RFC 8166 section 4.5.3).

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use core::time::Duration;

/// XIDs of calls whose RDMA Reads or Writes may have ended a connection, by owner. The owner `K` identifies
/// the peer of the connection. A retransmission may end the next connection as well, so the responder rejects
/// the retransmission with ERR_CHUNK.
///
/// If only one call can be the cause, its retransmission is rejected. If several calls can be the cause, each
/// is rejected only after it is suspected a second time.
#[derive(Debug)]
pub struct FatalCalls<K> {
    suspects: BTreeMap<(K, u32), Suspect>,
    /// The suspects in insertion order. A call that was suspected more than once has several entries.
    order: VecDeque<(Duration, K, u32)>,
}

#[derive(Clone, Copy, Debug)]
struct Suspect {
    since: Duration,
    /// Whether the next retransmission is rejected.
    certain: bool,
    /// Whether a connection has taken the call in order to reject its retransmission ([`FatalCalls::take`]).
    taken: bool,
}

/// The maximum length of [`FatalCalls::order`]. Beyond this length, the owner with the most suspects loses
/// its oldest suspects.
const MAX_SUSPECTS: usize = 1024;
/// The lifetime of a suspect. After that, the client may use the XID for another call.
const LIFETIME: Duration = Duration::from_secs(120);

impl<K: Clone + Ord> FatalCalls<K> {
    /// Creates an empty set.
    #[must_use]
    pub fn new() -> Self {
        FatalCalls { suspects: BTreeMap::new(), order: VecDeque::new() }
    }

    /// Records that RDMA Reads or Writes of one of these calls may have ended a connection of this owner.
    /// `now` is a monotonic time since an arbitrary moment.
    pub fn add_suspects(&mut self, owner: &K, xids: &[u32], now: Duration) {
        self.evict(now);
        let alone = xids.len() == 1;
        for xid in xids {
            let again = self.suspects.get(&(owner.clone(), *xid)).is_some_and(|suspect| !suspect.taken);
            let suspect = Suspect { since: now, certain: alone || again, taken: false };
            self.suspects.insert((owner.clone(), *xid), suspect);
            self.order.push_back((now, owner.clone(), *xid));
        }
        self.evict(now);
    }

    /// Returns the calls to reject on a connection of this owner until [`FatalCalls::expiry`]. Other
    /// connections do not reject them. [`FatalCalls::restore`] restores the calls that the connection did not
    /// reject.
    pub fn take(&mut self, owner: &K, now: Duration) -> BTreeSet<u32> {
        self.evict(now);
        let of_owner = self.suspects.range_mut((owner.clone(), 0)..=(owner.clone(), u32::MAX));
        let certain = of_owner.filter(|(_, suspect)| suspect.certain && !suspect.taken);
        certain
            .map(|((_, xid), suspect)| {
                suspect.taken = true;
                *xid
            })
            .collect()
    }

    /// Returns the time at which the first of the owner's suspects in `xids` expires, or `None` if `xids`
    /// contains no such suspect.
    #[must_use]
    pub fn expiry(&self, owner: &K, xids: &BTreeSet<u32>) -> Option<Duration> {
        let suspects = xids.iter().filter_map(|xid| self.suspects.get(&(owner.clone(), *xid)));
        Some(suspects.map(|suspect| suspect.since).min()?.saturating_add(LIFETIME))
    }

    /// Makes [`FatalCalls::take`] return these calls again, because the connection did not reject them. Does
    /// not extend their lifetime.
    pub fn restore(&mut self, owner: &K, xids: &BTreeSet<u32>, now: Duration) {
        self.evict(now);
        for xid in xids {
            if let Some(suspect) = self.suspects.get_mut(&(owner.clone(), *xid)) {
                (suspect.certain, suspect.taken) = (true, false);
            }
        }
    }

    fn evict(&mut self, now: Duration) {
        while self.order.front().is_some_and(|(since, ..)| since.saturating_add(LIFETIME) <= now) {
            self.remove(0);
        }
        if self.order.len() > MAX_SUSPECTS {
            self.shrink();
        }
    }

    /// Until [`MAX_SUSPECTS`] suspects are left, removes the oldest suspect of the owner with the most
    /// suspects.
    fn shrink(&mut self) {
        let mut counts: BTreeMap<K, usize> = BTreeMap::new();
        for (_, owner, _) in &self.order {
            let count = counts.entry(owner.clone()).or_default();
            *count = count.saturating_add(1);
        }
        while self.order.len() > MAX_SUSPECTS
            && let Some((largest, count)) = counts.iter_mut().max_by_key(|(_, count)| **count)
        {
            *count = count.saturating_sub(1);
            let oldest = self.order.iter().position(|(_, owner, _)| owner == largest);
            self.remove(oldest.unwrap_or(0));
        }
    }

    fn remove(&mut self, position: usize) {
        let Some((since, owner, xid)) = self.order.remove(position) else { return };
        // Keeps the call in `suspects` if it was suspected again later.
        let call = (owner, xid);
        if self.suspects.get(&call).is_some_and(|suspect| suspect.since == since) {
            self.suspects.remove(&call);
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
    use alloc::vec::Vec;

    use super::*;

    const NOW: Duration = Duration::from_secs(1000);

    #[test]
    fn a_suspicion_expires() {
        for (after, certain) in [(LIFETIME - Duration::from_nanos(1), &[7, 8][..]), (LIFETIME, &[])] {
            let mut calls = FatalCalls::new();
            calls.add_suspects(&'a', &[7, 8], NOW);
            calls.add_suspects(&'a', &[7, 8], NOW + after);
            assert_eq!(calls.take(&'a', NOW + after), certain.iter().copied().collect());
        }
    }

    #[test]
    fn a_single_suspect_is_rejected_at_once_and_one_of_several_the_second_time() {
        let mut calls = FatalCalls::new();
        calls.add_suspects(&'a', &[7], NOW);
        calls.add_suspects(&'b', &[7, 8], NOW);
        assert_eq!(calls.take(&'b', NOW), BTreeSet::new());
        calls.add_suspects(&'b', &[8, 9], NOW);
        assert_eq!(calls.take(&'b', NOW), BTreeSet::from([8]));
        assert_eq!(calls.take(&'a', NOW), BTreeSet::from([7]));
        assert_eq!(calls.take(&'a', NOW), BTreeSet::new(), "already taken");
        calls.restore(&'a', &BTreeSet::from([7]), NOW);
        assert_eq!(calls.take(&'a', NOW), BTreeSet::from([7]));
    }

    #[test]
    fn suspects_expire() {
        let mut calls = FatalCalls::new();
        calls.add_suspects(&'a', &[7], NOW);
        calls.add_suspects(&'a', &[8], NOW + Duration::from_secs(1));
        assert_eq!(calls.take(&'a', NOW + LIFETIME), BTreeSet::from([8]));
        assert!(calls.order.len() <= 1);
    }

    #[test]
    fn a_connection_does_not_extend_a_suspicion() {
        let mut calls = FatalCalls::new();
        calls.add_suspects(&'a', &[7], NOW);
        let soon = NOW + Duration::from_secs(1);
        let taken = calls.take(&'a', soon);
        assert_eq!(calls.expiry(&'a', &taken), Some(NOW + LIFETIME));
        calls.restore(&'a', &taken, soon);
        assert_eq!(calls.take(&'a', NOW + LIFETIME), BTreeSet::new());
        assert_eq!(calls.expiry(&'a', &taken), None);
    }

    /// One connection has taken call 7 in order to reject its retransmission. Another connection ends with
    /// calls 7 and 9 as suspects. The first connection then restores call 7, which it did not reject.
    #[test]
    fn a_certain_call_stays_certain_if_other_connections_end() {
        let mut calls = FatalCalls::new();
        calls.add_suspects(&'a', &[7], NOW);
        let refused = calls.take(&'a', NOW);
        calls.add_suspects(&'a', &[7, 9], NOW);
        calls.restore(&'a', &refused, NOW);
        assert_eq!(calls.take(&'a', NOW), BTreeSet::from([7]));
    }

    #[test]
    fn the_number_of_suspects_is_limited() {
        let mut calls = FatalCalls::new();
        let last = u32::try_from(MAX_SUSPECTS).expect("small");
        for xid in 0..=last {
            calls.add_suspects(&'a', &[xid], NOW + Duration::from_nanos(u64::from(xid)));
        }
        assert_eq!((calls.order.len(), calls.suspects.len()), (MAX_SUSPECTS, MAX_SUSPECTS));
        let taken = calls.take(&'a', NOW);
        assert_eq!((taken.first(), taken.last()), (Some(&1), Some(&last)));
    }

    #[test]
    fn suspects_of_one_owner_do_not_evict_those_of_others() {
        let mut calls = FatalCalls::new();
        calls.add_suspects(&'a', &[7], NOW);
        let many: Vec<u32> = (0..).take(MAX_SUSPECTS).collect();
        calls.add_suspects(&'b', &many, NOW + Duration::from_secs(1));
        calls.add_suspects(&'b', &many, NOW + Duration::from_secs(2));
        assert_eq!(calls.order.len(), MAX_SUSPECTS);
        assert_eq!(calls.take(&'a', NOW), BTreeSet::from([7]));
        // The first suspect of `b` was evicted.
        assert_eq!(calls.take(&'b', NOW), (1..).take(MAX_SUSPECTS - 1).collect());
    }
}
