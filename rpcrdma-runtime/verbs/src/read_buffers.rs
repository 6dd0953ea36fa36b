//! A cache of buffers for long RDMA Reads. Without the cache, allocating and freeing a buffer would take as
//! long as filling it. A buffer can be reused as soon as no reference to its data is left.
//!
//! The cache and its size limit are shared by all connections of the process.
//!
//! With InfiniBand and RoCE, connections also share the buffers, so an idle connection holds none. Sharing
//! discloses no data: an RDMA Read completes only when it has overwritten the whole buffer.
//!
//! With iWARP, a peer may respond with less data than requested. A connection therefore reuses only its own
//! buffers, and the octets that are not overwritten come from the same peer. An idle connection holds its
//! buffers until it closes or newer buffers displace them.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::{Bytes, BytesMut};

/// Minimum size of a cached buffer, in octets.
const MIN_LEN: usize = 64 << 10;
/// Maximum size of the cache, in octets.
const MAX_TOTAL: usize = 32 << 20;

static CACHE: Mutex<Cache> = Mutex::new(Cache { data: VecDeque::new(), octets: 0 });

fn is_cacheable(len: usize) -> bool {
    (MIN_LEN..=MAX_TOTAL).contains(&len)
}

fn cache() -> MutexGuard<'static, Cache> {
    CACHE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Which connections may reuse a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// All connections over devices that complete an RDMA Read only when the buffer is full.
    Shared,
    /// The connection with this number.
    Connection(u64),
}

impl Owner {
    /// Returns the owner of a new connection's buffers. `shared` requires a device that completes an RDMA
    /// Read only when the buffer is full.
    pub(super) fn new(shared: bool) -> Self {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        if shared { Owner::Shared } else { Owner::Connection(NUMBERS.fetch_add(1, Ordering::Relaxed)) }
    }

    /// Returns a buffer of length `len` that contains zeros or the data of an earlier RDMA Read of this
    /// owner.
    pub(super) fn take(self, len: usize) -> BytesMut {
        let cached = if is_cacheable(len) { cache().take(self, len) } else { None };
        cached.unwrap_or_else(|| BytesMut::zeroed(len))
    }

    /// Adds a buffer to the cache, if its length is cacheable. The buffer becomes available when all other
    /// references to it are dropped.
    pub(super) fn keep(self, data: &Bytes) {
        if is_cacheable(data.len()) {
            let data = data.clone();
            let removed = cache().keep(self, data, MAX_TOTAL);
            // The lock is released before the memory is freed.
            drop(removed);
        }
    }

    /// Removes the buffers of a closed connection. Shared buffers remain.
    pub(super) fn clear(self) {
        if self != Owner::Shared {
            let removed = cache().clear(self);
            // The lock is released before the memory is freed.
            drop(removed);
        }
    }
}

/// Cached buffers, the oldest first.
struct Cache {
    data: VecDeque<(Owner, Bytes)>,
    octets: usize,
}

impl Cache {
    fn take(&mut self, owner: Owner, len: usize) -> Option<BytesMut> {
        let fits = |(of, data): &(Owner, Bytes)| *of == owner && data.len() == len && data.is_unique();
        let at = self.data.iter().position(fits)?;
        let (_, data) = self.data.remove(at)?;
        self.octets -= len;
        data.try_into_mut().ok()
    }

    /// Adds a buffer. Removes and returns the oldest buffers until the cache is within the size limit.
    fn keep(&mut self, owner: Owner, data: Bytes, max_total: usize) -> Vec<Bytes> {
        self.octets += data.len();
        self.data.push_back((owner, data));
        let mut removed = Vec::new();
        while self.octets > max_total
            && let Some((_, oldest)) = self.data.pop_front()
        {
            self.octets -= oldest.len();
            removed.push(oldest);
        }
        removed
    }

    fn clear(&mut self, owner: Owner) -> Vec<(Owner, Bytes)> {
        if self.data.iter().all(|(of, _)| *of != owner) {
            return Vec::new();
        }
        let (removed, kept): (Vec<_>, Vec<_>) = self.data.drain(..).partition(|(of, _)| *of == owner);
        self.data = kept.into();
        self.octets -= removed.iter().map(|(_, data)| data.len()).sum::<usize>();
        removed
    }
}

#[cfg(test)]
mod tests {
    use super::Owner::{Connection, Shared};
    use super::*;

    fn read(fill: u8, len: usize) -> Bytes {
        vec![fill; len].into()
    }

    #[test]
    fn a_buffer_without_other_references_is_reused() {
        let mut cache = Cache { data: VecDeque::new(), octets: 0 };
        let first = read(1, 100);
        let at = first.as_ptr();
        assert!(cache.keep(Shared, first.clone(), 1000).is_empty());
        assert!(cache.take(Shared, 100).is_none(), "the data is referenced");
        let part = first.slice(10..20);
        drop(first);
        assert!(cache.take(Shared, 100).is_none(), "a part of the data is referenced");
        assert_eq!(part, [1; 10][..]);
        drop(part);
        assert!(cache.take(Shared, 99).is_none() && cache.take(Shared, 101).is_none());
        let again = cache.take(Shared, 100).expect("the unreferenced buffer");
        assert_eq!((again.as_ptr(), again.len()), (at, 100));
        assert!(cache.take(Shared, 100).is_none(), "the buffer is in use");
        assert_eq!((cache.data.len(), cache.octets), (0, 0));
    }

    #[test]
    fn the_oldest_buffer_is_removed_first() {
        let mut cache = Cache { data: VecDeque::new(), octets: 0 };
        for (fill, len) in [(1, 400), (2, 300), (3, 300)] {
            assert!(cache.keep(Shared, read(fill, len), 1000).is_empty());
        }
        assert_eq!(cache.keep(Shared, read(4, 100), 1000), [read(1, 400)]);
        assert_eq!((cache.data.len(), cache.octets), (3, 700));
        assert!(cache.take(Shared, 400).is_none());
        assert_eq!(cache.keep(Shared, read(5, 900), 1000), [read(2, 300), read(3, 300)]);
        assert_eq!((cache.data.len(), cache.octets), (2, 1000));
    }

    #[test]
    fn a_buffer_is_reused_only_by_its_owner() {
        let mut cache = Cache { data: VecDeque::new(), octets: 0 };
        for (owner, fill) in [(Connection(1), 1), (Shared, 2), (Connection(2), 3), (Connection(1), 4)] {
            assert!(cache.keep(owner, read(fill, 100), 1000).is_empty());
        }
        assert_eq!(cache.take(Connection(2), 100).as_deref(), Some(&[3; 100][..]));
        assert!(cache.take(Connection(2), 100).is_none());
        assert_eq!(
            cache.clear(Connection(1)),
            [(Connection(1), read(1, 100)), (Connection(1), read(4, 100))]
        );
        assert!(cache.take(Connection(1), 100).is_none());
        assert_eq!((cache.data.len(), cache.octets), (1, 100));
        assert_eq!(cache.take(Shared, 100).as_deref(), Some(&[2; 100][..]));
    }
}
