//! Models of the budget's counters and of calls that wait for memory. Loom runs each model in all thread
//! interleavings with at most two preemptions, and reports a thread that waits forever. Loom cannot see how
//! tokio's `Notify` orders memory accesses, so no model depends on that order.

use loom::future::block_on;
use loom::thread;

use self::budget::{MemoryBudget, SMALL};
use crate::proto::owner::Owner;
use crate::shell::testing::check;

/// `budget.rs` with the atomics of loom.
#[allow(dead_code, unreachable_pub, clippy::duplicate_mod)]
#[path = "budget.rs"]
mod budget;

mod sync {
    pub(super) use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering};
}

const MAX: u64 = 64 * SMALL;

/// The owner holds half of the budget, so a call that needs another quarter waits.
#[test]
fn a_call_that_waits_for_memory_gets_it() {
    check(|| {
        let budget = MemoryBudget::new(MAX);
        let account = budget.account(Owner::of_peer(None));
        let held = account.permit();
        held.set(MAX / 2);
        let waiting = {
            let account = account.clone();
            thread::spawn(move || {
                let permit = account.permit();
                block_on(permit.reserve(MAX / 4));
                drop(permit);
            })
        };
        drop(held);
        waiting.join().unwrap();
        assert_eq!(budget.used(), 0);
    });
}

#[test]
fn the_counters_return_to_zero_after_concurrent_calls() {
    check(|| {
        let budget = MemoryBudget::new(MAX);
        let other = budget.account(Owner::from(std::net::IpAddr::from([192, 0, 2, 1])));
        let account = budget.account(Owner::of_peer(None));
        let threads = [account, other].map(|account| {
            thread::spawn(move || {
                let permit = account.permit();
                block_on(permit.reserve(MAX / 4));
                permit.set(SMALL);
            })
        });
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(budget.used(), 0);
    });
}

/// Both calls hold memory, and no memory is left. One call at a time may exceed the owner's share, so the
/// calls do not block each other.
#[test]
fn calls_that_hold_memory_do_not_wait_for_each_other() {
    check(|| {
        let budget = MemoryBudget::new(MAX);
        let rest = budget.account(Owner::from(std::net::IpAddr::from([192, 0, 2, 1]))).permit();
        let account = budget.account(Owner::of_peer(None));
        let calls = [account.permit(), account.permit()];
        calls.iter().for_each(|call| call.set(2 * SMALL));
        rest.set(MAX);
        let threads = calls.map(|call| thread::spawn(move || block_on(call.reserve(MAX / 4))));
        for thread in threads {
            thread.join().unwrap();
        }
        drop(rest);
        assert_eq!(budget.used(), 0);
    });
}
