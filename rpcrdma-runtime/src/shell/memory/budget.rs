use std::collections::HashMap;
use std::fmt;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::Notify;

use super::sync::{AtomicBool, AtomicU64, Ordering};
use crate::proto::owner::Owner;
use crate::shell::metrics;

/// The maximum size in bytes of a small call or reply. Small calls and replies wait for memory only if their
/// owner has used up its share.
pub(in crate::shell) const SMALL: u64 = 16 << 10;
/// The guaranteed share of each owner, in bytes: room for some small calls even if other owners use the
/// entire budget.
pub(super) const GUARANTEED: u64 = 16 * SMALL;
/// The part of each owner's guaranteed share, in bytes, that is available regardless of the memory in use.
const ALWAYS: u64 = SMALL;
/// The memory that the waiting calls of one owner may always use, in bytes.
const WAITING: u64 = 64 << 10;
/// An owner is light if it uses at most the budget divided by this number.
const LIGHT: u64 = 16;
/// The budget divided by this number is reserved for light owners. The quotient also limits the total memory
/// of waiting calls, across all owners.
const FREE: u64 = 8;

/// The memory for the calls of a server's peers: bytes of calls, of replies until they are sent, and of work
/// that outlives its connection. Clones share one limit, so several servers can share a budget.
///
/// A call waits while the memory of its [`Owner`], including the call, would exceed the memory that is free
/// before the call is admitted. One owner can therefore use at most about half of the budget. Each owner has
/// a guaranteed share of 256 KiB, which drops to 16 KiB once memory use exceeds the budget by a quarter. An
/// owner that uses more than a sixteenth of the budget leaves an eighth free for owners that use at most a
/// sixteenth. A call that holds memory and needs more memory also waits. Exception: among the calls that hold
/// more than 16 KiB, one call at a time may exceed its owner's share, by at most a quarter of the budget.
///
/// RPC-over-RDMA calls that wait for memory do not count toward the budget. Two separate limits apply to
/// these calls: an eighth of the budget for all owners, and 64 KiB for each owner. If a call that must wait
/// would exceed both limits, the server closes the connection of that call.
///
/// ```
/// use rpcrdma_runtime::{MemoryBudget, ServerOptions, TcpServerOptions};
///
/// let budget = MemoryBudget::new(16 << 20);
/// let rdma = ServerOptions { memory: budget.clone(), ..ServerOptions::default() };
/// let tcp = TcpServerOptions { memory: budget.clone(), ..TcpServerOptions::default() };
/// budget.set_max(32 << 20); // for both servers
/// assert_eq!((rdma.memory.max(), tcp.memory.max(), budget.used()), (32 << 20, 32 << 20, 0));
/// ```
#[derive(Clone)]
pub struct MemoryBudget(Arc<Shared>);

struct Shared {
    max: AtomicU64,
    used: AtomicU64,
    /// The bytes that waiting calls occupy. `used` excludes these bytes.
    waiting: AtomicU64,
    /// True from the time a permit exceeds its owner's share ([`Permit::try_exceed`]) until the permit is
    /// dropped.
    exceeded: AtomicBool,
    /// Notified when memory is released or the limit changes.
    freed: Notify,
    accounts: Mutex<HashMap<Owner, Weak<Account>>>,
}

impl MemoryBudget {
    /// Returns a budget of `max` bytes.
    #[must_use]
    pub fn new(max: u64) -> Self {
        let [max, used, waiting] = [max, 0, 0].map(AtomicU64::new);
        let (exceeded, freed, accounts) = (AtomicBool::new(false), Notify::new(), Mutex::default());
        MemoryBudget(Arc::new(Shared { max, used, waiting, exceeded, freed, accounts }))
    }

    /// Changes the limit for all servers that share the budget.
    pub fn set_max(&self, max: u64) {
        self.0.max.store(max, Ordering::SeqCst);
        metrics::memory_max(max);
        self.0.freed.notify_waiters();
    }

    /// Returns the limit in bytes.
    #[must_use]
    pub fn max(&self) -> u64 {
        self.0.max.load(Ordering::SeqCst)
    }

    /// Returns the number of bytes in use, without those of waiting calls.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.0.used.load(Ordering::SeqCst)
    }

    pub(in crate::shell) fn account(&self, owner: Owner) -> Arc<Account> {
        let mut accounts = self.0.accounts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(account) = accounts.get(&owner).and_then(Weak::upgrade) {
            return account;
        }
        accounts.retain(|_, account| account.strong_count() > 0);
        let [used, waiting] = [0, 0].map(AtomicU64::new);
        let account = Arc::new(Account { budget: self.clone(), used, waiting });
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

#[derive(Debug)]
pub(in crate::shell) struct Account {
    budget: MemoryBudget,
    used: AtomicU64,
    /// The owner's part of `Shared::waiting`.
    waiting: AtomicU64,
}

impl Account {
    pub(in crate::shell) fn permit(self: &Arc<Self>) -> Permit {
        Permit { account: self.clone(), bytes: AtomicU64::new(0), exceeds: AtomicBool::new(false) }
    }

    pub(in crate::shell) fn waiting(self: &Arc<Self>) -> WaitingMemory {
        WaitingMemory { account: self.clone(), bytes: 0 }
    }

    pub(in crate::shell) fn has_room(&self) -> bool {
        self.fits(SMALL, self.budget.used(), 0)
    }

    /// Returns true if the owner's share has room for `bytes` more bytes while `used` bytes of the budget are
    /// in use. If the owner would then use more than `light` bytes, its share excludes the memory reserved
    /// for light owners.
    fn fits(&self, bytes: u64, used: u64, light: u64) -> bool {
        let max = self.budget.max();
        let own = self.used.load(Ordering::SeqCst).saturating_add(bytes);
        let free = if own > light { max / FREE } else { 0 };
        let is_fair = own.saturating_add(used) <= max && used.saturating_add(bytes + free) <= max;
        let exceeds_little = used.saturating_add(bytes) <= max.saturating_add(max / 4);
        own <= ALWAYS.min(max / 4) || own <= GUARANTEED.min(max / 4) && exceeds_little || is_fair
    }

    /// Adds bytes if they fit. Concurrent invocations may together exceed the owner's share, but only
    /// guaranteed memory can exceed the budget.
    fn try_add(&self, bytes: u64) -> bool {
        let light = self.budget.max() / LIGHT;
        let add = |used: u64| self.fits(bytes, used, light).then(|| used.saturating_add(bytes));
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

/// The memory of a connection's waiting calls. This memory is counted without waiting, because the calls have
/// already arrived.
#[derive(Debug)]
pub(in crate::shell) struct WaitingMemory {
    account: Arc<Account>,
    bytes: u64,
}

impl WaitingMemory {
    /// Sets the size. Returns false if the size grows and both limits are exceeded: [`WAITING`] for the
    /// owner's waiting calls, and the budget divided by [`FREE`] for those of all owners. The connection must
    /// then be closed.
    pub(in crate::shell) fn set(&mut self, bytes: u64) -> bool {
        let before = std::mem::replace(&mut self.bytes, bytes);
        let counters = [&self.account.waiting, &self.account.budget.0.waiting];
        let Some(more) = bytes.checked_sub(before) else {
            let _ = counters.map(|counter| counter.fetch_sub(before - bytes, Ordering::SeqCst));
            return true;
        };
        if more == 0 {
            return true;
        }
        let [own, all] = counters.map(|counter| counter.fetch_add(more, Ordering::SeqCst) + more);
        own <= WAITING || all <= self.account.budget.max() / FREE
    }
}

impl Drop for WaitingMemory {
    fn drop(&mut self) {
        self.set(0);
    }
}

/// Memory that counts toward the budget until the permit is dropped.
#[derive(Debug)]
pub(in crate::shell) struct Permit {
    account: Arc<Account>,
    bytes: AtomicU64,
    /// True if this permit has set `Shared::exceeded`.
    exceeds: AtomicBool,
}

impl Permit {
    /// Waits until the permit covers `bytes` bytes, or a quarter of the budget if that is less. Cancel safe.
    pub(super) async fn reserve(&self, bytes: u64) {
        let budget = &self.account.budget;
        let wanted = bytes.min(budget.max() / 4);
        loop {
            // Another reservation of the same call may have enlarged the permit while this one waited.
            let held = self.bytes.load(Ordering::SeqCst);
            if wanted <= held {
                return;
            }
            let mut freed = pin!(budget.0.freed.notified());
            // Registers for notifications before the check, so that no release is missed.
            freed.as_mut().enable();
            let more = wanted - held;
            let is_added = self.account.try_add(more) || (held > SMALL && self.try_exceed(more));
            if !is_added {
                freed.await;
            } else if self.bytes.compare_exchange(held, wanted, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
                return;
            } else {
                self.account.release(more);
            }
        }
    }

    /// Adds bytes beyond the owner's share, unless another permit already exceeds its owner's share. If no
    /// permit could exceed its owner's share, calls that hold memory could wait for each other forever.
    fn try_exceed(&self, bytes: u64) -> bool {
        let exceeded = &self.account.budget.0.exceeded;
        let is_first = !exceeded.swap(true, Ordering::SeqCst);
        if is_first || self.exceeds.load(Ordering::SeqCst) {
            self.exceeds.store(true, Ordering::SeqCst);
            self.account.add(bytes);
            return true;
        }
        false
    }

    pub(in crate::shell) fn set(&self, bytes: u64) {
        let before = self.bytes.swap(bytes, Ordering::SeqCst);
        match bytes.checked_sub(before) {
            Some(0) => {}
            Some(more) => self.account.add(more),
            None => self.account.release(before - bytes),
        }
    }

    /// Raises the size to `bytes` bytes, unless the size is already larger.
    pub(super) fn raise(&self, bytes: u64) {
        let before = self.bytes.fetch_max(bytes, Ordering::SeqCst);
        if bytes > before {
            self.account.add(bytes - before);
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        // Releases the memory first, so that at most one permit at a time exceeds its owner's share.
        self.set(0);
        if self.exceeds.load(Ordering::SeqCst) {
            let Shared { exceeded, freed, .. } = &*self.account.budget.0;
            exceeded.store(false, Ordering::SeqCst);
            freed.notify_waiters();
        }
    }
}
