//! Memory that long RDMA Reads have filled, to be filled again once nobody has what was in it: to make it, and to give it back to the
//! system, takes as long as to fill it.
//!
//! It is the process's, so that connections of which there are many, and which have nothing to do, hold none of it. What was in it is
//! seen by nobody: over InfiniBand and RoCE an RDMA Read is complete when all of its octets are there. It is not used for iWARP, where a
//! peer answers with as many as it likes.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use bytes::{Bytes, BytesMut};

/// Octets of memory that is worth to be kept, and of all that is kept.
const LEAST: usize = 64 << 10;
const MOST: usize = 32 << 20;

static KEPT: Mutex<Kept> = Mutex::new(Kept { data: VecDeque::new(), octets: 0 });

/// Memory of this length, of zeros or of what was read into it before.
pub(super) fn take(len: usize) -> BytesMut {
    let kept = if len < LEAST { None } else { KEPT.lock().unwrap_or_else(PoisonError::into_inner).take(len) };
    kept.unwrap_or_else(|| BytesMut::zeroed(len))
}

/// Notes what was read, for when all others have let go of it.
pub(super) fn keep(data: &Bytes) {
    if (LEAST..=MOST).contains(&data.len()) {
        let left = KEPT.lock().unwrap_or_else(PoisonError::into_inner).keep(data.clone(), MOST);
        // It goes back to the system while nobody waits for the lock.
        drop(left);
    }
}

/// What was read, the oldest first.
struct Kept {
    data: VecDeque<Bytes>,
    octets: usize,
}

impl Kept {
    fn take(&mut self, len: usize) -> Option<BytesMut> {
        let at = self.data.iter().position(|data| data.len() == len && data.is_unique())?;
        let data = self.data.remove(at)?;
        self.octets -= len;
        data.try_into_mut().ok()
    }

    /// What there is no room for any more is returned.
    fn keep(&mut self, data: Bytes, most: usize) -> Vec<Bytes> {
        self.octets += data.len();
        self.data.push_back(data);
        let mut left = Vec::new();
        while self.octets > most
            && let Some(oldest) = self.data.pop_front()
        {
            self.octets -= oldest.len();
            left.push(oldest);
        }
        left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(fill: u8, len: usize) -> Bytes {
        vec![fill; len].into()
    }

    #[test]
    fn what_nobody_has_is_used_again() {
        let mut kept = Kept { data: VecDeque::new(), octets: 0 };
        let first = read(1, 100);
        let at = first.as_ptr();
        assert!(kept.keep(first.clone(), 1000).is_empty());
        assert!(kept.take(100).is_none(), "somebody has it");
        let part = first.slice(10..20);
        drop(first);
        assert!(kept.take(100).is_none(), "somebody has a part of it");
        assert_eq!(part, [1; 10][..]);
        drop(part);
        assert!(kept.take(99).is_none() && kept.take(101).is_none());
        let again = kept.take(100).expect("memory that nobody has");
        assert_eq!((again.as_ptr(), again.len()), (at, 100));
        assert!(kept.take(100).is_none(), "it is in use");
        assert_eq!((kept.data.len(), kept.octets), (0, 0));
    }

    #[test]
    fn the_oldest_is_let_go_of_first() {
        let mut kept = Kept { data: VecDeque::new(), octets: 0 };
        for (fill, len) in [(1, 400), (2, 300), (3, 300)] {
            assert!(kept.keep(read(fill, len), 1000).is_empty());
        }
        assert_eq!(kept.keep(read(4, 100), 1000), [read(1, 400)]);
        assert_eq!((kept.data.len(), kept.octets), (3, 700));
        assert!(kept.take(400).is_none());
        assert_eq!(kept.keep(read(5, 900), 1000), [read(2, 300), read(3, 300)]);
        assert_eq!((kept.data.len(), kept.octets), (2, 1000));
    }
}
