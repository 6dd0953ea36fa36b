//! Memory that long RDMA Reads have filled, to be filled again once nobody has what was in it: to make it, and to give it back to the
//! system, takes as long as to fill it.
//!
//! All connections of the process have one bound. Over InfiniBand and RoCE they fill each other's memory again, so that those which have
//! nothing to do hold none. What was in it is seen by nobody: an RDMA Read is complete when all of its octets are there. Over iWARP a
//! peer answers with as many as it likes, so a connection fills what it has read into itself, and what does not come is what the same
//! peer has sent before. One that has nothing to do holds some until others push it out, the oldest first, or until it ends.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::{Bytes, BytesMut};

/// Octets of memory that is worth to be kept, and of all that is kept.
const LEAST: usize = 64 << 10;
const MOST: usize = 32 << 20;

static KEPT: Mutex<Kept> = Mutex::new(Kept { data: VecDeque::new(), octets: 0 });

fn is_worth(len: usize) -> bool {
    (LEAST..=MOST).contains(&len)
}

fn kept() -> MutexGuard<'static, Kept> {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whose reads may fill it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whose {
    /// Those of all connections over devices that complete an RDMA Read when all is there, and only then.
    Everybodys,
    /// Those of one connection, by its number.
    Own(u64),
}

impl Whose {
    /// A new connection's. `whole`: its device completes an RDMA Read when all is there, and only then.
    pub(super) fn new(whole: bool) -> Self {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        if whole { Whose::Everybodys } else { Whose::Own(NUMBERS.fetch_add(1, Ordering::Relaxed)) }
    }

    /// Memory of this length, of zeros or of what was read into it before.
    pub(super) fn take(self, len: usize) -> BytesMut {
        let again = if is_worth(len) { kept().take(self, len) } else { None };
        again.unwrap_or_else(|| BytesMut::zeroed(len))
    }

    /// Notes what was read, for when all others have let go of it.
    pub(super) fn keep(self, data: &Bytes) {
        if is_worth(data.len()) {
            let data = data.clone();
            let left = kept().keep(self, data, MOST);
            // It goes back to the system while nobody waits for the lock; so it does below.
            drop(left);
        }
    }

    /// Keeps nothing for a connection that ends.
    pub(super) fn forget(self) {
        if self != Whose::Everybodys {
            let left = kept().forget(self);
            drop(left);
        }
    }
}

/// What was read, the oldest first.
struct Kept {
    data: VecDeque<(Whose, Bytes)>,
    octets: usize,
}

impl Kept {
    fn take(&mut self, whose: Whose, len: usize) -> Option<BytesMut> {
        let fits = |(of, data): &(Whose, Bytes)| *of == whose && data.len() == len && data.is_unique();
        let at = self.data.iter().position(fits)?;
        let (_, data) = self.data.remove(at)?;
        self.octets -= len;
        data.try_into_mut().ok()
    }

    /// What there is no room for any more is returned.
    fn keep(&mut self, whose: Whose, data: Bytes, most: usize) -> Vec<Bytes> {
        self.octets += data.len();
        self.data.push_back((whose, data));
        let mut left = Vec::new();
        while self.octets > most
            && let Some((_, oldest)) = self.data.pop_front()
        {
            self.octets -= oldest.len();
            left.push(oldest);
        }
        left
    }

    fn forget(&mut self, whose: Whose) -> Vec<(Whose, Bytes)> {
        if self.data.iter().all(|(of, _)| *of != whose) {
            return Vec::new();
        }
        let (left, kept): (Vec<_>, Vec<_>) = self.data.drain(..).partition(|(of, _)| *of == whose);
        self.data = kept.into();
        self.octets -= left.iter().map(|(_, data)| data.len()).sum::<usize>();
        left
    }
}

#[cfg(test)]
mod tests {
    use super::Whose::{Everybodys, Own};
    use super::*;

    fn read(fill: u8, len: usize) -> Bytes {
        vec![fill; len].into()
    }

    #[test]
    fn what_nobody_has_is_used_again() {
        let mut kept = Kept { data: VecDeque::new(), octets: 0 };
        let first = read(1, 100);
        let at = first.as_ptr();
        assert!(kept.keep(Everybodys, first.clone(), 1000).is_empty());
        assert!(kept.take(Everybodys, 100).is_none(), "somebody has it");
        let part = first.slice(10..20);
        drop(first);
        assert!(kept.take(Everybodys, 100).is_none(), "somebody has a part of it");
        assert_eq!(part, [1; 10][..]);
        drop(part);
        assert!(kept.take(Everybodys, 99).is_none() && kept.take(Everybodys, 101).is_none());
        let again = kept.take(Everybodys, 100).expect("memory that nobody has");
        assert_eq!((again.as_ptr(), again.len()), (at, 100));
        assert!(kept.take(Everybodys, 100).is_none(), "it is in use");
        assert_eq!((kept.data.len(), kept.octets), (0, 0));
    }

    #[test]
    fn the_oldest_is_let_go_of_first() {
        let mut kept = Kept { data: VecDeque::new(), octets: 0 };
        for (fill, len) in [(1, 400), (2, 300), (3, 300)] {
            assert!(kept.keep(Everybodys, read(fill, len), 1000).is_empty());
        }
        assert_eq!(kept.keep(Everybodys, read(4, 100), 1000), [read(1, 400)]);
        assert_eq!((kept.data.len(), kept.octets), (3, 700));
        assert!(kept.take(Everybodys, 400).is_none());
        assert_eq!(kept.keep(Everybodys, read(5, 900), 1000), [read(2, 300), read(3, 300)]);
        assert_eq!((kept.data.len(), kept.octets), (2, 1000));
    }

    #[test]
    fn a_connections_own_is_nobody_elses() {
        let mut kept = Kept { data: VecDeque::new(), octets: 0 };
        for (whose, fill) in [(Own(1), 1), (Everybodys, 2), (Own(2), 3), (Own(1), 4)] {
            assert!(kept.keep(whose, read(fill, 100), 1000).is_empty());
        }
        assert_eq!(kept.take(Own(2), 100).as_deref(), Some(&[3; 100][..]));
        assert!(kept.take(Own(2), 100).is_none());
        assert_eq!(kept.forget(Own(1)), [(Own(1), read(1, 100)), (Own(1), read(4, 100))]);
        assert!(kept.take(Own(1), 100).is_none());
        assert_eq!((kept.data.len(), kept.octets), (1, 100));
        assert_eq!(kept.take(Everybodys, 100).as_deref(), Some(&[2; 100][..]));
    }
}
