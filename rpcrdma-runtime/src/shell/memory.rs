//! The memory for the calls of a server's peers.

mod budget;
#[cfg(test)]
mod models;

use std::sync::Arc;

use bytes::Bytes;

pub use self::budget::MemoryBudget;
pub(super) use self::budget::{Account, Permit, SMALL, WaitingMemory};
use crate::proto::program::CallContext;
use crate::xdr::Message;

/// The number of bytes that count toward the budget for each call over TCP until its reply is sent, in
/// addition to the memory reserved for its messages.
pub(super) const SMALL_CALL: u64 = 8 << 10;

/// The atomics of `budget.rs`. The tests in `models.rs` use loom's atomics instead.
mod sync {
    pub(super) use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
}

/// The memory of one call, which counts toward the server's budget until all clones are dropped.
#[derive(Clone, Debug)]
pub struct CallMemory(Arc<Permit>);

impl CallMemory {
    pub(super) fn new(account: &Arc<Account>) -> Self {
        CallMemory(Arc::new(account.permit()))
    }

    /// Counts `bytes` bytes toward the budget without waiting, because they have already arrived.
    pub(super) fn arrived(account: &Arc<Account>, bytes: u64) -> Self {
        let memory = CallMemory::new(account);
        memory.0.set(bytes);
        memory
    }

    /// Waits until the budget has room for `bytes` bytes, or for a quarter of the budget if that is less.
    /// Then reserves this memory. Cancel safe.
    pub(super) async fn acquire(account: &Arc<Account>, bytes: u64) -> Self {
        let permit = account.permit();
        permit.reserve(bytes).await;
        CallMemory(Arc::new(permit))
    }

    /// Sets the size to the length of the reply, because the call itself no longer uses memory. The size does
    /// not shrink if work that outlives the handler holds the memory.
    pub(super) fn set_reply(&self, reply: &Message) {
        let bytes = reply.unreduced_len();
        if Arc::strong_count(&self.0) == 1 { self.0.set(bytes) } else { self.0.raise(bytes) }
    }

    /// Returns the same bytes. The memory counts toward the budget until the returned bytes are dropped.
    pub(super) fn hold(&self, bytes: Bytes) -> Bytes {
        Bytes::from_owner(Held { bytes, _memory: self.clone() })
    }

    /// Sets the size as [`CallMemory::set_reply`] does, and returns `message`. Unless the message is small,
    /// the memory counts toward the budget until the message's bytes are dropped.
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
    /// Waits until the server's [`MemoryBudget`] has room for a reply of `bytes` bytes, or for a quarter of
    /// the budget if that is less. Returns the memory of the call. Work that may outlive the handler, such as
    /// a job on the blocking pool, must hold the memory until the work ends.
    ///
    /// Returns `None` outside of a server. Over RPC-over-RDMA, memory for the offered reply chunks is
    /// reserved before the handler runs. A call has no reservation if it did not wait for memory and its
    /// chunks total at most 16 KiB. For such a call, this method returns `None` if `bytes` is at most 16 KiB.
    /// For a larger reply, each invocation makes a separate reservation, which the handler must hold while it
    /// uses the memory. Over TCP, a reply without a reservation counts as soon as it is produced.
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
    use std::pin::pin;
    use std::task::Poll;

    use super::budget::GUARANTEED;
    use super::*;

    fn account(budget: &MemoryBudget, last: u8) -> Arc<Account> {
        budget.account(IpAddr::from([192, 0, 2, last]).into())
    }

    /// Returns the memory of a call, or `None` if the call must wait.
    async fn now(account: &Arc<Account>, bytes: u64) -> Option<CallMemory> {
        let mut acquired = pin!(CallMemory::acquire(account, bytes));
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
        assert_eq!((taken.len(), budget.used()), (20, 80 << 20), "one owner can use half of the budget");
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
    async fn heavy_owners_leave_an_eighth_of_the_budget() {
        let budget = MemoryBudget::new(48 << 20);
        let mut taken = Vec::new();
        for last in 1..=10 {
            let heavy = account(&budget, last);
            while let Some(memory) = now(&heavy, 4 << 20).await {
                taken.push(memory);
            }
        }
        assert_eq!(budget.used(), 40 << 20);
        let light = account(&budget, 100);
        assert!(now(&light, 3 << 20).await.is_some());
        assert!(light.has_room());
    }

    #[tokio::test]
    async fn small_calls_are_admitted_even_if_other_owners_use_the_entire_budget() {
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
    async fn guaranteed_memory_of_all_owners_exceeds_the_budget_by_a_quarter() {
        let budget = MemoryBudget::new(16 << 20);
        let mut taken = Vec::new();
        for number in 0..1000u32 {
            let owner = budget.account(IpAddr::from(number.to_be_bytes()).into());
            while let Some(memory) = now(&owner, SMALL).await {
                taken.push(memory);
            }
        }
        // Once memory use exceeds the budget by a quarter, each further owner has room for only
        // one small call.
        assert!(budget.used() <= (20 << 20) + 1000 * SMALL && budget.used() > 20 << 20, "{budget:?}");
        let other = account(&budget, 1);
        assert!(now(&other, SMALL).await.is_some());
    }

    #[test]
    fn waiting_calls_use_an_eighth_of_the_budget_and_a_little_for_each_owner() {
        let budget = MemoryBudget::new(16 << 20);
        let [heavy, light] = [1, 2].map(|last| account(&budget, last));
        let mut connections: Vec<_> = (0..32).map(|_| heavy.waiting()).collect();
        assert!(
            connections.iter_mut().all(|waiting| waiting.set(64 << 10)),
            "waiting calls of one owner can use an eighth of the budget"
        );
        assert!(!connections[0].set((64 << 10) + 1));
        let mut other = light.waiting();
        assert!(other.set(64 << 10));
        assert!(!other.set((64 << 10) + 1), "the heavy owner uses the entire shared eighth");
        assert!(connections[0].set(1000), "a smaller size is always allowed");
        drop(connections);
        drop(other);
        assert!(heavy.waiting().set(2 << 20), "all memory is released");
        assert_eq!(budget.used(), 0);
    }

    #[tokio::test]
    async fn memory_counts_until_the_last_byte_is_dropped() {
        let budget = MemoryBudget::new(1 << 20);
        let account = account(&budget, 1);
        let memory = CallMemory::acquire(&account, 100 << 10).await;
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
        // A size beyond a quarter of the budget counts as a quarter, so that the call can run.
        assert!(now(&account, u64::MAX).await.is_some());
    }

    #[tokio::test]
    async fn memory_of_work_that_outlives_its_handler_counts() {
        let budget = MemoryBudget::new(1 << 20);
        let memory = CallMemory::acquire(&account(&budget, 1), 100 << 10).await;
        let work = memory.clone();
        let reply = memory.hold_all(Message::unreduced(vec![0; 20 << 10].into()));
        drop(memory);
        assert_eq!(budget.used(), 100 << 10);
        drop(reply);
        assert_eq!(budget.used(), 100 << 10, "the reply is sent, but the work continues");
        drop(work);
        assert_eq!(budget.used(), 0);
    }

    #[tokio::test]
    async fn one_call_at_a_time_may_exceed_the_budget() {
        const CALL: u64 = 32 << 10;
        const REPLY: u64 = 4 << 20;
        let budget = MemoryBudget::new(16 << 20);
        let account = account(&budget, 1);
        let mut calls = Vec::new();
        while let Some(call) = now(&account, CALL).await.filter(|_| calls.len() < 64) {
            calls.push(call);
        }
        let mut running = tokio::task::JoinSet::new();
        for call in calls {
            let budget = budget.clone();
            running.spawn(async move {
                call.0.reserve(REPLY).await;
                tokio::task::yield_now().await;
                budget.used()
            });
        }
        let used = running.join_all().await;
        assert_eq!(used.len(), 64, "each call ends");
        // A call fits if the memory of its owner, including the call, is at most the memory that is free
        // before the call.
        let share = (budget.max() + REPLY) / 2;
        assert!(used.iter().all(|used| *used <= share + REPLY) && used.iter().any(|used| *used > share));
        assert_eq!(budget.used(), 0);
    }

    #[tokio::test]
    async fn concurrent_reservations_of_a_call_count_once() {
        let budget = MemoryBudget::new(16 << 20);
        let account = account(&budget, 1);
        let other = CallMemory::acquire(&account, 4 << 20).await;
        let full = CallMemory::acquire(&account, 4 << 20).await;
        let call = CallMemory::new(&account);
        let release = async {
            tokio::task::yield_now().await;
            drop((other, full));
        };
        tokio::join!(call.0.reserve(2 << 20), call.0.reserve(2 << 20), release);
        assert_eq!(budget.used(), 2 << 20);
    }

    #[tokio::test]
    async fn waiting_calls_are_woken() {
        let budget = MemoryBudget::new(1 << 20);
        let account = account(&budget, 1);
        let first = CallMemory::acquire(&account, 256 << 10).await;
        let second = CallMemory::acquire(&account, 256 << 10).await;
        let waiting = tokio::spawn({
            let account = account.clone();
            async move { CallMemory::acquire(&account, 100 << 10).await }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        drop(first);
        waiting.await.unwrap();
        drop(second);
    }
}
