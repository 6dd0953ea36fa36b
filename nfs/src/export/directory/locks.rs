use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::yield_now;
use std::time::{Duration, Instant};

use super::stat::Key;

const SHARDS: usize = 64;
/// Maximum time for which a non-blocking call waits for a file lock.
const TRY_TIMEOUT: Duration = Duration::from_micros(100);

/// Serializes calls that change the same file, so that the attributes before and after a change are atomic
/// with the change. The locks do not exclude changes by other processes on this machine.
#[derive(Debug)]
pub(super) struct Locks {
    shards: [Shard; SHARDS],
    hash: RandomState,
}

#[derive(Debug)]
struct Shard {
    locked: Mutex<HashSet<Key>>,
    released: Condvar,
}

/// A locked file. Dropping this value releases the lock.
#[derive(Debug)]
pub(super) struct Held<'a> {
    shard: &'a Shard,
    key: Key,
}

impl Default for Locks {
    fn default() -> Self {
        let shard = |_| Shard { locked: Mutex::default(), released: Condvar::new() };
        Locks { shards: std::array::from_fn(shard), hash: RandomState::new() }
    }
}

impl Shard {
    fn lock(&self) -> MutexGuard<'_, HashSet<Key>> {
        self.locked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn try_hold(&self, key: Key) -> Option<Held<'_>> {
        self.lock().insert(key).then(|| Held { shard: self, key })
    }

    fn hold(&self, key: Key) -> Held<'_> {
        let mut locked = self.lock();
        while !locked.insert(key) {
            locked = self.released.wait(locked).unwrap_or_else(PoisonError::into_inner);
        }
        Held { shard: self, key }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.shard.lock().remove(&self.key);
        self.shard.released.notify_all();
    }
}

impl Locks {
    fn shard(&self, key: Key) -> Option<&Shard> {
        self.shards.get(usize::try_from(self.hash.hash_one(key) % SHARDS as u64).unwrap_or(0))
    }

    pub(super) fn one(&self, key: Key) -> Option<Held<'_>> {
        Some(self.shard(key)?.hold(key))
    }

    /// Locks one file, or returns `None` after `TRY_TIMEOUT`: the holder of the lock may be waiting for a
    /// disk.
    pub(super) fn try_one(&self, key: Key) -> Option<Held<'_>> {
        let shard = self.shard(key)?;
        let start = Instant::now();
        loop {
            match shard.try_hold(key) {
                Some(held) => return Some(held),
                None if start.elapsed() < TRY_TIMEOUT => yield_now(),
                None => return None,
            }
        }
    }

    /// Locks two files, which may be the same. Every call locks the smaller key first, which avoids
    /// deadlocks.
    pub(super) fn two(&self, a: Key, b: Key) -> [Option<Held<'_>>; 2] {
        let first = self.one(a.min(b));
        let second = if a == b { None } else { self.one(a.max(b)) };
        [first, second]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_files_stay_unlocked() {
        let locks = Locks::default();
        let key = |ino| Key { dev: 1, ino };
        let held: Vec<_> = (0..1000).map(|ino| locks.try_one(key(ino)).unwrap()).collect();
        assert!(locks.try_one(key(7)).is_none());
        drop(held);
        let [first, second] = locks.two(key(7), key(7));
        assert!(first.is_some() && second.is_none());
        assert!(locks.try_one(key(7)).is_none());
    }

    #[test]
    fn lock_order_prevents_deadlock() {
        let (locks, key) = (Locks::default(), |ino| Key { dev: 1, ino });
        std::thread::scope(|scope| {
            for (a, b) in [(1, 2), (2, 1), (2, 3), (3, 1)] {
                let locks = &locks;
                scope.spawn(move || (0..1000).for_each(|_| drop(locks.two(key(a), key(b)))));
            }
        });
        assert!(locks.shards.iter().all(|shard| shard.lock().is_empty()));
    }
}
