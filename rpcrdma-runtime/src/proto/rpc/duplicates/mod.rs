//! The duplicate-request cache: a call that a client sends again is not run again.
//!
//! A client that loses its connection sends the calls that were not answered once more on the next one, with the same
//! XID. For a procedure that must not run twice (remove, rename, append) the server keeps what it answered, and gives
//! it again. The engine is a table; it knows time as what it is told and nothing of who waits but a value `W`.

mod identity;
mod shares;

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::time::Duration;

use bytes::{Bytes, BytesMut};

pub use identity::{CallIdentity, CallerId, ProcedureId};

use self::shares::{Change, Shares};
use crate::xdr::{Item, Message};

/// How much a duplicate-request cache remembers.
///
/// All callers have these bounds together, and fair shares of them: where there is no room, the caller that has the most
/// makes it, so one that makes many calls drives out its own replies and not those of others. A caller is what
/// [`CallerId`] says, except that one network of IPv6 (64 bits) is one. What runs is never forgotten, so callers whose calls run
/// long can take so much of [`DuplicateLimits::entries`] and [`DuplicateLimits::running`] that new calls of others are run as
/// without a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DuplicateLimits {
    /// Calls that run and replies that are kept, together (default 4,096). For a new call the reply goes that was not used
    /// for longest, of the caller that has the most of both. A call whose caller would have more than all that have replies to
    /// forget is run as without a cache.
    pub entries: usize,
    /// Bytes of all calls that run (default 64 MiB): they are held to their end, though their connection be gone. Calls
    /// beyond that are run as without a cache, and end with their connection.
    pub running: u64,
    /// Bytes of all replies that are kept, items included (default 16 MiB). For a new one the reply goes that was not used for
    /// longest, of the caller whose replies hold the most; that may be the new one. They are copied: a few bytes of a file do
    /// not keep all of what was read.
    pub bytes: usize,
    /// The longest reply that is kept, in bytes (default 64 KiB). A longer one is of a procedure that reads: its call is
    /// run again.
    pub reply: usize,
    /// How long a reply is kept since it was last asked for (default 120 s): beyond that a client may use the XID for
    /// another call.
    pub lifetime: Duration,
}

impl Default for DuplicateLimits {
    fn default() -> Self {
        DuplicateLimits {
            entries: 4096,
            running: 64 << 20,
            bytes: 16 << 20,
            reply: 64 << 10,
            lifetime: Duration::from_secs(120),
        }
    }
}

/// So many who wait for one call that runs are answered: the latest, for the connections of those before them are most
/// likely gone.
pub const WAITERS: usize = 16;

/// What becomes of a call that has arrived.
#[derive(Debug)]
pub enum Begun<W> {
    /// It is new: run it, and [`Duplicates::finish`]. Who waits is kept until then.
    Run(Ticket),
    /// It runs already. Who waits will be answered with the others; the one who waited longest may have had to leave.
    Joined {
        /// Who is not answered any more.
        left: Option<W>,
    },
    /// It was answered before: this is the reply.
    Kept(W, Message),
    /// As many calls run as are remembered, by number or by bytes: run it and answer it, as if there were no cache.
    Unremembered(W),
}

/// A call that runs. It has to be given back to [`Duplicates::finish`], whatever came of it.
#[derive(Debug)]
#[must_use]
pub struct Ticket {
    call: CallIdentity,
    size: u64,
}

/// Calls that run, and replies that were given.
#[derive(Debug)]
pub struct Duplicates<W> {
    limits: DuplicateLimits,
    entries: BTreeMap<CallIdentity, Entry<W>>,
    /// Kept replies by last use.
    by_use: BTreeMap<u64, CallIdentity>,
    next_use: u64,
    shares: Shares,
    running: usize,
    running_bytes: u64,
    bytes: usize,
}

#[derive(Debug)]
enum Entry<W> {
    Running(VecDeque<W>),
    Kept(Kept),
}

#[derive(Debug)]
struct Kept {
    reply: Message,
    used: u64,
    /// When that was.
    since: Duration,
}

impl<W> Duplicates<W> {
    /// An empty cache.
    #[must_use]
    pub fn new(limits: DuplicateLimits) -> Self {
        Duplicates {
            limits,
            entries: BTreeMap::new(),
            by_use: BTreeMap::new(),
            next_use: 0,
            shares: Shares::default(),
            running: 0,
            running_bytes: 0,
            bytes: 0,
        }
    }

    /// How much it remembers.
    #[must_use]
    pub fn limits(&self) -> DuplicateLimits {
        self.limits
    }

    /// Has it remember so much from now on. What is too much is forgotten, calls that run excepted.
    pub fn limit(&mut self, limits: DuplicateLimits) {
        self.limits = limits;
        while self.entries.len() > limits.entries && self.forget(self.shares.of_most_entries()) {}
        self.trim();
    }

    /// Calls that run.
    #[must_use]
    pub fn running(&self) -> usize {
        self.running
    }

    /// Whether this call runs: then [`Duplicates::begin`] joins it.
    #[must_use]
    pub fn is_running(&self, call: &CallIdentity) -> bool {
        matches!(self.entries.get(call), Some(Entry::Running(_)))
    }

    /// What they hold, in bytes.
    #[must_use]
    pub fn running_bytes(&self) -> u64 {
        self.running_bytes
    }

    /// Replies that are kept.
    #[must_use]
    pub fn kept(&self) -> usize {
        self.by_use.len()
    }

    /// What they hold, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// A call of `size` bytes has arrived, and `waiter` waits for its reply. `now` is the time since any moment in the past,
    /// and never goes back.
    pub fn begin(&mut self, call: CallIdentity, size: u64, waiter: W, now: Duration) -> Begun<W> {
        self.expire(now);
        match self.entries.get_mut(&call) {
            Some(Entry::Running(waiting)) => {
                let left = if waiting.len() >= WAITERS { waiting.pop_front() } else { None };
                waiting.push_back(waiter);
                return Begun::Joined { left };
            }
            Some(Entry::Kept(kept)) => {
                let before = core::mem::replace(&mut kept.used, self.next_use);
                kept.since = now;
                self.next_use = self.next_use.wrapping_add(1);
                let (used, reply) = (kept.used, kept.reply.clone());
                self.shares.change(call.caller(), Change::Uses(before, used));
                self.by_use.remove(&before);
                self.by_use.insert(used, call);
                return Begun::Kept(waiter, reply);
            }
            None => {}
        }
        let running_bytes = self.running_bytes.saturating_add(size);
        if self.running >= self.limits.entries || running_bytes > self.limits.running {
            return Begun::Unremembered(waiter);
        }
        while self.entries.len() >= self.limits.entries {
            if !self.forget(self.shares.for_call_of(call.caller())) {
                return Begun::Unremembered(waiter);
            }
        }
        self.shares.change(call.caller(), Change::Begins);
        self.running = self.running.saturating_add(1);
        self.running_bytes = running_bytes;
        self.entries.insert(call.clone(), Entry::Running(VecDeque::from([waiter])));
        Begun::Run(Ticket { call, size })
    }

    /// A call has ended: with a reply that is worth keeping, or without. Gives everyone who waits for it, in the order in
    /// which they came. `now` as in [`Duplicates::begin`].
    pub fn finish(&mut self, ticket: Ticket, reply: Option<&Message>, now: Duration) -> Vec<W> {
        let Ticket { call, size } = ticket;
        let Some(Entry::Running(waiting)) = self.entries.remove(&call) else { return Vec::new() };
        self.running = self.running.saturating_sub(1);
        self.running_bytes = self.running_bytes.saturating_sub(size);
        self.shares.change(call.caller(), Change::Ends);
        if let Some(reply) = reply {
            self.keep(call, reply, now);
        }
        waiting.into()
    }

    fn keep(&mut self, call: CallIdentity, reply: &Message, now: Duration) {
        let size = held(reply);
        if length(reply) > self.limits.reply || size > self.limits.bytes {
            return;
        }
        self.bytes = self.bytes.saturating_add(size);
        let used = self.next_use;
        self.next_use = self.next_use.wrapping_add(1);
        self.shares.change(call.caller(), Change::Keeps(used, size));
        self.by_use.insert(used, call.clone());
        self.entries.insert(call, Entry::Kept(Kept { reply: copied(reply), used, since: now }));
        self.trim();
    }

    /// Forgets replies until the others hold no more bytes than they may.
    fn trim(&mut self) {
        while self.bytes > self.limits.bytes && self.forget(self.shares.of_most_bytes()) {}
    }

    /// Forgets what nobody has asked for in its time. What was used before expires before.
    fn expire(&mut self, now: Duration) {
        while let Some((used, call)) = self.by_use.first_key_value()
            && let Some(Entry::Kept(kept)) = self.entries.get(call)
            && kept.since.saturating_add(self.limits.lifetime) <= now
        {
            self.forget(Some(*used));
        }
    }

    /// Forgets the reply with this last use. False if there is none.
    fn forget(&mut self, used: Option<u64>) -> bool {
        let Some(call) = used.and_then(|used| self.by_use.remove(&used)) else { return false };
        let caller = call.caller();
        if let Some(Entry::Kept(kept)) = self.entries.remove(&call) {
            let size = held(&kept.reply);
            self.bytes = self.bytes.saturating_sub(size);
            self.shares.change(caller, Change::Forgets(kept.used, size));
        }
        true
    }
}

/// The bytes of a reply.
fn length(reply: &Message) -> usize {
    let items = reply.items.iter().map(|item| item.data.len());
    items.fold(reply.stream.len(), usize::saturating_add)
}

/// What a copy of it holds: the list of its items, too, for they may be many and short.
fn held(reply: &Message) -> usize {
    size_of_val(&reply.items[..]).saturating_add(length(reply))
}

/// The reply in memory of its own, in one piece.
fn copied(reply: &Message) -> Message {
    let mut all = BytesMut::with_capacity(length(reply));
    let mut copy = |bytes: &Bytes| {
        all.extend_from_slice(bytes);
        all.split().freeze()
    };
    let stream = copy(&reply.stream);
    let items = reply.items.iter();
    let items = items.map(|item| Item { position: item.position, data: copy(&item.data) }).collect();
    Message { stream, items }
}
