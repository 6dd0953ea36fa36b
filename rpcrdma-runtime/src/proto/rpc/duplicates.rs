//! The duplicate-request cache, which replays replies instead of running retransmitted calls again.
//!
//! A client that loses its connection retransmits its unanswered calls on the next connection, with the same
//! XIDs. The server caches replies and replays them, so that procedures such as remove, rename and append do
//! not run twice. The server passes in the time, and represents each waiting caller by a value `W`.

mod entries;
mod identity;
mod shares;

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::mem;
use core::time::Duration;

use bytes::Bytes;

pub use identity::{CallIdentity, CallerId, ProcedureId};

use self::entries::Entries;
use self::shares::{Change, Shares};
use crate::xdr::{Item, Message};

/// The limits of a duplicate-request cache.
///
/// Owners share the room for cached replies fairly: when the cache is full, the
/// [`Owner`](crate::proto::owner::Owner) with the largest share loses a reply. Running calls are never
/// evicted, so slow calls can use up [`DuplicateLimits::max_entries`] and [`DuplicateLimits::max_running`].
/// New calls are then not cached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DuplicateLimits {
    /// Maximum number of running calls and cached replies (default 4,096). At the limit, a new call evicts
    /// the least recently used reply of the owner with the most entries, among the owners with cached
    /// replies. If the owner of the call would then have even more entries, the call evicts a reply of its
    /// own owner instead. If this owner has no cached reply, the call is not cached.
    pub max_entries: usize,
    /// Maximum total size of the running calls in bytes (default 64 MiB). A tracked call runs to completion
    /// even if its connection is lost. Calls that exceed the limit are not tracked and end with their
    /// connection.
    pub max_running: u64,
    /// Maximum total size of the cached replies in bytes, including items (default 16 MiB). Above the limit,
    /// the owner with the most cached bytes loses its least recently used reply, which may be the new reply.
    /// Replies are copied, so that a few bytes of a file do not keep a whole read buffer alive.
    pub max_bytes: usize,
    /// Maximum size of a cached reply in bytes (default 64 KiB). Longer replies usually come from procedures
    /// that only read, which can safely run again.
    pub max_reply: usize,
    /// Lifetime of a reply since its last use (default 120 s). After that, the client may use the XID for
    /// another call.
    pub lifetime: Duration,
    #[doc(hidden)]
    pub non_exhaustive: (),
}

impl Default for DuplicateLimits {
    fn default() -> Self {
        DuplicateLimits {
            max_entries: 4096,
            max_running: 64 << 20,
            max_bytes: 16 << 20,
            max_reply: 64 << 10,
            lifetime: Duration::from_secs(120),
            non_exhaustive: (),
        }
    }
}

/// Maximum number of waiters for one running call. Beyond this number, a new waiter displaces the oldest
/// waiter, which most likely lost its connection.
pub const WAITERS: usize = 16;

/// The action for a received call.
#[derive(Debug)]
pub enum CacheLookup<W> {
    /// The call is new: run it, then call [`Duplicates::finish`]. The cache keeps the waiter until then.
    Run(Ticket),
    /// The call is already running. The waiter joins the other waiters of the call, and the oldest waiter may
    /// be displaced.
    Joined {
        /// The displaced waiter, if any. This waiter gets no reply.
        left: Option<W>,
    },
    /// The call was already answered: replay this reply.
    Cached(W, Message),
    /// The cache is full, or the call would exceed [`DuplicateLimits::max_running`]: run the call without the
    /// cache.
    Uncached(W),
}

/// A running call. Pass the ticket to [`Duplicates::finish`], even if the call fails.
#[derive(Debug)]
#[must_use]
pub struct Ticket {
    entry: u32,
    size: u64,
}

/// A duplicate-request cache, which contains running calls and cached replies.
#[derive(Debug)]
pub struct Duplicates<W> {
    limits: DuplicateLimits,
    entries: Entries<Entry<W>>,
    /// The entry numbers of cached replies, by the number of their last use. Later uses have higher numbers.
    by_use: BTreeMap<u64, u32>,
    next_use: u64,
    shares: Shares,
    running: usize,
    running_bytes: u64,
    bytes: usize,
}

#[derive(Debug)]
enum Entry<W> {
    Running(VecDeque<W>),
    Cached(CachedReply),
}

impl<W> Entry<W> {
    fn into_waiters(self) -> Vec<W> {
        match self {
            Entry::Running(waiting) => waiting.into(),
            Entry::Cached(_) => Vec::new(),
        }
    }
}

#[derive(Debug)]
struct CachedReply {
    reply: Message,
    used: u64,
    /// The time of the last use.
    since: Duration,
}

impl<W> Duplicates<W> {
    /// Creates an empty cache.
    #[must_use]
    pub fn new(limits: DuplicateLimits) -> Self {
        Duplicates {
            limits,
            entries: Entries::default(),
            by_use: BTreeMap::new(),
            next_use: 0,
            shares: Shares::default(),
            running: 0,
            running_bytes: 0,
            bytes: 0,
        }
    }

    /// Returns the limits.
    #[must_use]
    pub fn limits(&self) -> DuplicateLimits {
        self.limits
    }

    /// Sets the limits. Evicts replies, but not running calls, to enforce [`DuplicateLimits::max_entries`]
    /// and [`DuplicateLimits::max_bytes`].
    pub fn set_limits(&mut self, limits: DuplicateLimits) {
        self.limits = limits;
        while self.entries.len() > limits.max_entries && self.evict(self.shares.of_most_entries()) {}
        self.trim();
    }

    /// Returns the number of running calls.
    #[must_use]
    pub fn running(&self) -> usize {
        self.running
    }

    /// Returns true if this call is running, so that [`Duplicates::begin`] would return
    /// [`CacheLookup::Joined`].
    #[must_use]
    pub fn is_running(&self, call: &CallIdentity) -> bool {
        let is_running = |number| matches!(self.entries.get(number), Some((_, Entry::Running(_))));
        self.running > 0 && self.entries.find(call).is_some_and(is_running)
    }

    /// Returns the total size of running calls in bytes.
    #[must_use]
    pub fn running_bytes(&self) -> u64 {
        self.running_bytes
    }

    /// Returns the number of cached replies.
    #[must_use]
    pub fn cached_replies(&self) -> usize {
        self.by_use.len()
    }

    /// Returns the total size of cached replies in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Looks up a received call of `size` bytes, and registers the call if it is new. `waiter` represents the
    /// caller, which waits for the reply. `now` is a monotonic time since an arbitrary moment.
    pub fn begin(&mut self, call: CallIdentity, size: u64, waiter: W, now: Duration) -> CacheLookup<W> {
        self.expire(now);
        let number = self.entries.find(&call);
        match number.and_then(|number| self.entries.get_mut(number)) {
            Some((_, Entry::Running(waiting))) => {
                let left = if waiting.len() >= WAITERS { waiting.pop_front() } else { None };
                waiting.push_back(waiter);
                return CacheLookup::Joined { left };
            }
            Some((_, Entry::Cached(cached))) => {
                let before = mem::replace(&mut cached.used, self.next_use);
                cached.since = now;
                self.next_use = self.next_use.wrapping_add(1);
                let (used, reply) = (cached.used, cached.reply.clone());
                self.shares.change(call.owner(), Change::ReplyUsed(before, used));
                if let Some(number) = self.by_use.remove(&before) {
                    self.by_use.insert(used, number);
                }
                return CacheLookup::Cached(waiter, reply);
            }
            None => {}
        }
        let running_bytes = self.running_bytes.saturating_add(size);
        if self.running >= self.limits.max_entries || running_bytes > self.limits.max_running {
            return CacheLookup::Uncached(waiter);
        }
        while self.entries.len() >= self.limits.max_entries {
            if !self.evict(self.shares.for_call_of(call.owner())) {
                return CacheLookup::Uncached(waiter);
            }
        }
        self.shares.change(call.owner(), Change::CallStarted);
        self.running = self.running.saturating_add(1);
        self.running_bytes = running_bytes;
        let entry = self.entries.insert(call, Entry::Running(VecDeque::from([waiter])));
        CacheLookup::Run(Ticket { entry, size })
    }

    /// Completes a call and caches its reply, if any, within the limits. Returns all waiters in arrival
    /// order. `now` is as in [`Duplicates::begin`].
    pub fn finish(&mut self, ticket: Ticket, reply: Option<&Message>, now: Duration) -> Vec<W> {
        let Ticket { entry: number, size } = ticket;
        self.running = self.running.saturating_sub(1);
        self.running_bytes = self.running_bytes.saturating_sub(size);
        let Some(reply) = reply.filter(|reply| self.is_cacheable(reply)) else {
            let Some((call, entry)) = self.entries.remove(number) else { return Vec::new() };
            self.shares.change(call.owner(), Change::CallEnded);
            return entry.into_waiters();
        };
        let Some((call, entry)) = self.entries.get_mut(number) else { return Vec::new() };
        let (used, size) = (self.next_use, cached_size(reply));
        let cached = CachedReply { reply: copied(reply), used, since: now };
        let running = mem::replace(entry, Entry::Cached(cached));
        self.next_use = self.next_use.wrapping_add(1);
        self.bytes = self.bytes.saturating_add(size);
        self.by_use.insert(used, number);
        self.shares.change(call.owner(), Change::CallAnswered(used, size));
        self.trim();
        running.into_waiters()
    }

    fn is_cacheable(&self, reply: &Message) -> bool {
        length(reply) <= self.limits.max_reply && cached_size(reply) <= self.limits.max_bytes
    }

    fn trim(&mut self) {
        while self.bytes > self.limits.max_bytes && self.evict(self.shares.of_most_bytes()) {}
    }

    /// Removes expired replies. The least recently used reply expires first.
    fn expire(&mut self, now: Duration) {
        while let Some((used, number)) = self.by_use.first_key_value()
            && let Some((_, Entry::Cached(cached))) = self.entries.get(*number)
            && cached.since.saturating_add(self.limits.lifetime) <= now
        {
            self.evict(Some(*used));
        }
    }

    /// Removes the reply whose last use has this number. Returns false if no reply has this number.
    fn evict(&mut self, used: Option<u64>) -> bool {
        let Some(number) = used.and_then(|used| self.by_use.remove(&used)) else { return false };
        if let Some((call, Entry::Cached(cached))) = self.entries.remove(number) {
            let size = cached_size(&cached.reply);
            self.bytes = self.bytes.saturating_sub(size);
            self.shares.change(call.owner(), Change::ReplyEvicted(cached.used, size));
        }
        true
    }
}

fn length(reply: &Message) -> usize {
    let items = reply.items.iter().map(|item| item.data.len());
    items.fold(reply.stream.len(), usize::saturating_add)
}

/// Returns the size of a cached copy in bytes. Includes the list of items, since a reply may have many short
/// items.
fn cached_size(reply: &Message) -> usize {
    size_of_val(&reply.items[..]).saturating_add(length(reply))
}

fn copied(reply: &Message) -> Message {
    let mut all = Vec::with_capacity(length(reply));
    all.extend_from_slice(&reply.stream);
    reply.items.iter().for_each(|item| all.extend_from_slice(&item.data));
    let mut rest = Bytes::from(all);
    let stream = rest.split_to(reply.stream.len());
    let items = reply.items.iter();
    let items = items.map(|item| Item { position: item.position, data: rest.split_to(item.data.len()) });
    Message { stream, items: items.collect() }
}
