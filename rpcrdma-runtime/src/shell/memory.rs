//! The memory budget for the calls of a server's peers.

use std::collections::HashMap;
use std::fmt;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use bytes::Bytes;
use tokio::sync::Notify;

use super::metrics;
use crate::proto::owner::Owner;
use crate::proto::program::CallContext;
use crate::xdr::Message;

/// The maximum size in bytes of calls and replies that do not wait for memory.
pub(super) const SMALL: u64 = 16 << 10;
/// The bytes that count for each small call until its reply is sent.
pub(super) const SMALL_CALL: u64 = 8 << 10;
/// The guaranteed share of each owner, in bytes: room for some small calls over TCP even if others use the
/// entire budget.
const GUARANTEED: u64 = 16 * SMALL;

/// The memory for the calls of a server's peers: bytes of calls, of replies until they are sent, and of work
/// that outlives its connection. Clones share it, so one budget can serve several servers.
///
/// A call waits while its [`Owner`] would use more memory, including the call, than remains free. One owner
/// therefore uses at most half of the budget, and two owners use at most a third each. Another owner always
/// has room: at the limit, a server first stops reading from the owner that uses most. Calls and replies of
/// up to 16 KiB count but do not wait. Over TCP they wait if their owner has used up its share and uses 256
/// KiB.
#[derive(Clone)]
pub struct MemoryBudget(Arc<Shared>);

struct Shared {
    max: AtomicU64,
    used: AtomicU64,
    /// Notified when memory is released or the limit changes.
    freed: Notify,
    accounts: Mutex<HashMap<Owner, Weak<Account>>>,
}

impl MemoryBudget {
    /// Returns a budget of `max` bytes.
    #[must_use]
    pub fn new(max: u64) -> Self {
        let (max, used) = (max.into(), AtomicU64::new(0));
        MemoryBudget(Arc::new(Shared { max, used, freed: Notify::new(), accounts: Mutex::default() }))
    }

    /// Changes the limit for all servers that share the budget.
    pub fn limit(&self, max: u64) {
        self.0.max.store(max, Ordering::SeqCst);
        metrics::memory_max(max);
        self.0.freed.notify_waiters();
    }

    /// Returns the limit in bytes.
    #[must_use]
    pub fn max(&self) -> u64 {
        self.0.max.load(Ordering::SeqCst)
    }

    /// Returns the bytes in use.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.0.used.load(Ordering::SeqCst)
    }

    /// Returns the account of an owner.
    pub(super) fn account(&self, owner: Owner) -> Arc<Account> {
        let mut accounts = self.0.accounts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(account) = accounts.get(&owner).and_then(Weak::upgrade) {
            return account;
        }
        accounts.retain(|_, account| account.strong_count() > 0);
        let account = Arc::new(Account { budget: self.clone(), used: AtomicU64::new(0) });
        accounts.insert(owner, Arc::downgrade(&account));
        account
    }
}

impl Default for MemoryBudget {
    fn default() -> Self {
        MemoryBudget::new(rpcrdma_layout::MEMORY)
    }
}

impl fmt::Debug for MemoryBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryBudget").field("max", &self.max()).field("used", &self.used()).finish()
    }
}

/// The memory that one owner uses.
#[derive(Debug)]
pub(super) struct Account {
    budget: MemoryBudget,
    used: AtomicU64,
}

impl Account {
    /// Returns a permit for no memory.
    pub(super) fn permit(self: &Arc<Self>) -> Permit {
        Permit { account: self.clone(), bytes: AtomicU64::new(0) }
    }

    /// Waits until there is room for a call and returns its memory. Cancel safe.
    pub(super) async fn acquire(self: &Arc<Self>, bytes: u64) -> CallMemory {
        let permit = self.permit();
        permit.reserve(bytes).await;
        CallMemory(Arc::new(permit))
    }

    /// Returns true if the owner's share has room for a small call.
    pub(super) fn has_room(&self) -> bool {
        self.fits(SMALL, self.budget.used())
    }

    fn fits(&self, bytes: u64, used: u64) -> bool {
        let own = self.used.load(Ordering::SeqCst).saturating_add(bytes);
        own <= GUARANTEED.min(self.budget.max() / 4) || own.saturating_add(used) <= self.budget.max()
    }

    /// Adds bytes if they fit. Concurrent threads may exceed the owner's share. Only [`GUARANTEED`] memory
    /// can exceed the budget.
    fn try_add(&self, bytes: u64) -> bool {
        let add = |used: u64| self.fits(bytes, used).then(|| used.saturating_add(bytes));
        let fits = self.budget.0.used.fetch_update(Ordering::SeqCst, Ordering::SeqCst, add).is_ok();
        if fits {
            self.used.fetch_add(bytes, Ordering::SeqCst);
            metrics::memory(bytes, 1.0);
        }
        fits
    }

    fn add(&self, bytes: u64) {
        self.used.fetch_add(bytes, Ordering::SeqCst);
        self.budget.0.used.fetch_add(bytes, Ordering::SeqCst);
        metrics::memory(bytes, 1.0);
    }

    fn release(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::SeqCst);
        self.budget.0.used.fetch_sub(bytes, Ordering::SeqCst);
        self.budget.0.freed.notify_waiters();
        metrics::memory(bytes, -1.0);
    }
}

/// Memory that counts toward the budget until it is dropped.
#[derive(Debug)]
pub(super) struct Permit {
    account: Arc<Account>,
    bytes: AtomicU64,
}

impl Permit {
    /// Waits until the permit covers this many bytes, or a quarter of the budget. Cancel safe.
    async fn reserve(&self, bytes: u64) {
        let budget = &self.account.budget;
        let wanted = bytes.min(budget.max() / 4);
        let held = self.bytes.load(Ordering::SeqCst);
        if wanted <= held {
            return;
        }
        // Calls that wait while they hold memory could wait for each other.
        if held > SMALL {
            return self.set(wanted);
        }
        loop {
            let mut freed = pin!(budget.0.freed.notified());
            // Registers for notifications before the check, so that no release is missed.
            freed.as_mut().enable();
            if self.account.try_add(wanted - held) {
                self.bytes.fetch_add(wanted - held, Ordering::SeqCst);
                return;
            }
            freed.await;
        }
    }

    /// Sets the size without waiting.
    pub(super) fn set(&self, bytes: u64) {
        let before = self.bytes.swap(bytes, Ordering::SeqCst);
        match bytes.checked_sub(before) {
            Some(0) => {}
            Some(more) => self.account.add(more),
            None => self.account.release(before - bytes),
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.set(0);
    }
}

/// The memory of one call, which counts toward the server's budget until all clones are dropped.
#[derive(Clone, Debug)]
pub struct CallMemory(Arc<Permit>);

impl CallMemory {
    /// Returns memory of size 0 for a call.
    pub(super) fn new(account: &Arc<Account>) -> Self {
        CallMemory(Arc::new(account.permit()))
    }

    /// Sets the size to the length of the reply: the memory of the call itself is free.
    pub(super) fn set_reply(&self, reply: &Message) {
        self.0.set(reply.unreduced_len());
    }

    /// Returns the same bytes, which keep the memory counted.
    pub(super) fn hold(&self, bytes: Bytes) -> Bytes {
        Bytes::from_owner(Held { bytes, _memory: self.clone() })
    }

    /// Returns the same message, whose bytes keep the memory counted unless the message is small.
    pub(super) fn hold_all(&self, message: Message) -> Message {
        self.set_reply(&message);
        if message.unreduced_len() <= SMALL {
            return message;
        }
        let Message { stream, mut items } = message;
        items.iter_mut().for_each(|item| item.data = self.hold(std::mem::take(&mut item.data)));
        Message { stream: self.hold(stream), items }
    }
}

/// Bytes with the memory of their call.
struct Held {
    bytes: Bytes,
    _memory: CallMemory,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl CallContext {
    /// Waits until the server's [`MemoryBudget`] has room for a reply of this many bytes. Returns the memory
    /// of the call. Work that may outlive the handler, such as a job of a blocking pool, must hold it until
    /// it ends.
    ///
    /// Returns `None` outside of a server. Over RPC-over-RDMA, memory for the offered reply chunks is reserved
    /// before the handler runs. Calls of up to 16 KiB with their chunks are counted together there: for them,
    /// the result is `None` if `bytes` is small too, and otherwise must be held while the memory is in use.
    /// Over TCP, a reply without a reservation counts once it is produced.
    pub async fn reserve(&self, bytes: u64) -> Option<CallMemory> {
        let memory = match self.extensions.get::<CallMemory>() {
            Some(memory) => memory.clone(),
            None if bytes <= SMALL => return None,
            None => CallMemory::new(self.extensions.get::<Arc<Account>>()?),
        };
        memory.0.reserve(bytes).await;
        Some(memory)
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::task::Poll;

    use super::*;

    fn account(budget: &MemoryBudget, last: u8) -> Arc<Account> {
        budget.account(IpAddr::from([192, 0, 2, last]).into())
    }

    /// Returns the permit if there is room.
    async fn now(account: &Arc<Account>, bytes: u64) -> Option<CallMemory> {
        let mut acquired = pin!(account.acquire(bytes));
        std::future::poll_fn(|cx| match acquired.as_mut().poll(cx) {
            Poll::Ready(memory) => Poll::Ready(Some(memory)),
            Poll::Pending => Poll::Ready(None),
        })
        .await
    }

    #[tokio::test]
    async fn an_owner_leaves_room_for_others() {
        let budget = MemoryBudget::new(160 << 20);
        let [heavy, same, other] = [1, 1, 2].map(|last| account(&budget, last));
        let mut taken = Vec::new();
        while let Some(memory) = now(&heavy, 4 << 20).await {
            taken.push(memory);
        }
        assert_eq!((taken.len(), budget.used()), (20, 80 << 20), "one owner has half");
        assert!(now(&same, 4 << 20).await.is_none());
        // Other owners get their share, and the heaviest owner waits.
        let others = [now(&other, 30 << 20).await, now(&account(&budget, 3), 8 << 20).await];
        assert!(others.iter().all(Option::is_some));
        taken.truncate(18);
        assert!(now(&heavy, 4 << 20).await.is_none());
        drop(others);
        assert!(now(&heavy, 4 << 20).await.is_some());
        drop(taken);
        assert_eq!(budget.used(), 0);
    }

    #[tokio::test]
    async fn small_calls_pass_however_many_owners_use_the_rest() {
        let budget = MemoryBudget::new(16 << 20);
        let mut taken = Vec::new();
        for last in 1..=50 {
            taken.extend(now(&account(&budget, last), 1 << 20).await);
        }
        assert_eq!((taken.len(), budget.used()), (16, budget.max()));
        let other = account(&budget, 100);
        let small = now(&other, SMALL).await;
        assert!(small.is_some() && other.has_room());
        assert!(now(&other, GUARANTEED).await.is_none(), "further calls wait");
        taken.pop();
        assert!(now(&other, GUARANTEED).await.is_some());
    }

    #[tokio::test]
    async fn memory_counts_until_the_last_byte_is_dropped() {
        let budget = MemoryBudget::new(1 << 20);
        let account = account(&budget, 1);
        let memory = account.acquire(100 << 10).await;
        let work = memory.clone();
        let reply = Message { stream: vec![0; 300 << 10].into(), items: Vec::new() };
        let mut reply = memory.hold_all(reply).stream;
        drop((memory, work));
        assert_eq!(budget.used(), 300 << 10);
        let last = reply.split_off(10);
        drop(reply);
        assert_eq!(budget.used(), 300 << 10);
        drop(last);
        assert_eq!(budget.used(), 0);
        // A size beyond the budget counts as a quarter of it, so that the call can run.
        assert!(now(&account, u64::MAX).await.is_some());
    }

    #[tokio::test]
    async fn waiting_calls_are_woken() {
        let budget = MemoryBudget::new(1 << 20);
        let account = account(&budget, 1);
        let first = account.acquire(256 << 10).await;
        let second = account.acquire(256 << 10).await;
        let waiting = tokio::spawn({
            let account = account.clone();
            async move { account.acquire(100 << 10).await }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        drop(first);
        waiting.await.unwrap();
        drop(second);
    }
}
