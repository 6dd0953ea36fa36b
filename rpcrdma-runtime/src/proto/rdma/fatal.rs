//! Calls that take their connection with them (RFC 8166 section 4.5.3).

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use core::time::Duration;

/// XIDs, by client, of calls whose RDMA Reads or Writes ended a connection. Sent again, such a call would end the next one, and
/// so on for ever: it is answered with ERR_CHUNK instead.
///
/// Where one call alone can have been the reason it is refused when it comes again. Where it may have been one of several, each
/// has another chance, and is refused once it was among them a second time.
#[derive(Debug)]
pub struct FatalCalls<K> {
    suspects: BTreeMap<(K, u32), Suspect>,
    /// In the order in which they came; what was taken since is still in it.
    order: VecDeque<(Duration, K, u32)>,
}

#[derive(Clone, Copy, Debug)]
struct Suspect {
    since: Duration,
    /// Whether it is refused when it comes again.
    certain: bool,
}

/// So many are known, of all clients. Of more the oldest are forgotten.
const MOST: usize = 1024;
/// How long they are known. Beyond that a client may use the XID for another call.
const LIFETIME: Duration = Duration::from_secs(120);

impl<K: Copy + Ord> FatalCalls<K> {
    /// None yet.
    #[must_use]
    pub fn new() -> Self {
        FatalCalls { suspects: BTreeMap::new(), order: VecDeque::new() }
    }

    /// A connection of this client ended by what was read or written for one of these calls. `now` is the time since any
    /// moment in the past, and never goes back.
    pub fn blame(&mut self, client: K, xids: &[u32], now: Duration) {
        let alone = xids.len() == 1;
        for xid in xids {
            let again = self.suspects.contains_key(&(client, *xid));
            self.put(client, *xid, Suspect { since: now, certain: alone || again });
        }
        self.forget(now);
    }

    /// Calls that are to be refused on a new connection of this client. They are with that connection now: what it did not
    /// refuse comes back by [`FatalCalls::give_back`].
    pub fn take(&mut self, client: K, now: Duration) -> BTreeSet<u32> {
        self.forget(now);
        let of_client = self.suspects.range((client, 0)..=(client, u32::MAX));
        let certain: BTreeSet<u32> =
            of_client.filter(|(_, suspect)| suspect.certain).map(|((_, xid), _)| *xid).collect();
        for xid in &certain {
            self.suspects.remove(&(client, *xid));
        }
        certain
    }

    /// Calls that did not come again on a connection.
    pub fn give_back(&mut self, client: K, xids: &BTreeSet<u32>, now: Duration) {
        for xid in xids {
            self.put(client, *xid, Suspect { since: now, certain: true });
        }
        self.forget(now);
    }

    fn put(&mut self, client: K, xid: u32, suspect: Suspect) {
        self.suspects.insert((client, xid), suspect);
        self.order.push_back((suspect.since, client, xid));
    }

    fn forget(&mut self, now: Duration) {
        while let Some((since, client, xid)) = self.order.front().copied()
            && (self.order.len() > MOST || since.saturating_add(LIFETIME) <= now)
        {
            self.order.pop_front();
            // Unless it came again later.
            if self.suspects.get(&(client, xid)).is_some_and(|suspect| suspect.since == since) {
                self.suspects.remove(&(client, xid));
            }
        }
    }
}

impl<K: Copy + Ord> Default for FatalCalls<K> {
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
        calls.blame('a', &[7], NOW);
        calls.blame('b', &[7, 8], NOW);
        assert_eq!(calls.take('b', NOW), BTreeSet::new());
        calls.blame('b', &[8, 9], NOW);
        assert_eq!(calls.take('b', NOW), BTreeSet::from([8]));
        assert_eq!(calls.take('a', NOW), BTreeSet::from([7]));
        assert_eq!(calls.take('a', NOW), BTreeSet::new(), "the connection has it now");
        calls.give_back('a', &BTreeSet::from([7]), NOW);
        assert_eq!(calls.take('a', NOW), BTreeSet::from([7]));
    }

    #[test]
    fn they_are_known_for_their_time() {
        let mut calls = FatalCalls::new();
        calls.blame('a', &[7], NOW);
        calls.blame('a', &[8], NOW + Duration::from_secs(1));
        assert_eq!(calls.take('a', NOW + LIFETIME), BTreeSet::from([8]));
        assert!(calls.order.len() <= 1);
    }

    #[test]
    fn so_many_are_known_and_no_more() {
        let mut calls = FatalCalls::new();
        let most = u32::try_from(MOST).expect("small");
        for xid in 0..=most {
            calls.blame('a', &[xid], NOW + Duration::from_nanos(u64::from(xid)));
        }
        assert_eq!((calls.order.len(), calls.suspects.len()), (MOST, MOST));
        let taken = calls.take('a', NOW);
        assert_eq!((taken.first(), taken.last()), (Some(&1), Some(&most)));
    }
}
