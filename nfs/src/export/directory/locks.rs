use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::yield_now;
use std::time::{Duration, Instant};

use super::stat::Key;

const LOCKS: usize = 64;
/// How long somebody tries who must not wait: as long as it takes to write a few pages of memory. Who has the processor meanwhile may keep
/// it for longer.
const MOMENT: Duration = Duration::from_micros(100);

/// Keeps calls that change the same file apart, so that attributes from before and after a change belong to
/// it. Processes of this machine are not kept out.
#[derive(Debug)]
pub(super) struct Locks {
    locks: [Mutex<()>; LOCKS],
    hash: RandomState,
}

impl Default for Locks {
    fn default() -> Self {
        Locks { locks: [const { Mutex::new(()) }; LOCKS], hash: RandomState::new() }
    }
}

impl Locks {
    fn index(&self, key: Key) -> usize {
        usize::try_from(self.hash.hash_one(key) % LOCKS as u64).unwrap_or(0)
    }

    fn at(&self, index: usize) -> Option<MutexGuard<'_, ()>> {
        self.locks.get(index).map(|lock| lock.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Holds one file.
    pub(super) fn one(&self, key: Key) -> Option<MutexGuard<'_, ()>> {
        self.at(self.index(key))
    }

    /// Holds one file, if that can be had in a moment. Whoever else has it may wait for a disk.
    pub(super) fn one_at_hand(&self, key: Key) -> Option<MutexGuard<'_, ()>> {
        let lock = self.locks.get(self.index(key))?;
        let began = Instant::now();
        loop {
            match lock.try_lock() {
                Ok(held) => return Some(held),
                Err(TryLockError::Poisoned(held)) => return Some(held.into_inner()),
                Err(TryLockError::WouldBlock) if began.elapsed() < MOMENT => yield_now(),
                Err(TryLockError::WouldBlock) => return None,
            }
        }
    }

    /// Holds two files, which may be the same. All take them in one order, so nobody waits in a ring.
    pub(super) fn two(&self, a: Key, b: Key) -> [Option<MutexGuard<'_, ()>>; 2] {
        let (a, b) = (self.index(a), self.index(b));
        let first = self.at(a.min(b));
        let second = if a == b { None } else { self.at(a.max(b)) };
        [first, second]
    }
}
