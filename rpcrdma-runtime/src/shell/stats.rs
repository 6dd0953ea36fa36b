//! Counters of clients and servers, for operators.

mod client;
mod server;

use std::sync::atomic::{AtomicU64, Ordering};

pub(super) use client::ClientStats;
pub use client::{ClientSnapshot, Failures};
pub use server::{ConnectionCounts, DuplicateCounts, ServerSnapshot, ServerStats};

/// Counters that several tasks increment. Each counter is read separately, so a snapshot may be inconsistent.
#[derive(Debug)]
struct Atomics<const N: usize>([AtomicU64; N]);

impl<const N: usize> Atomics<N> {
    fn add(&self, counts: [u64; N]) {
        for (sum, count) in self.0.iter().zip(counts) {
            if count > 0 {
                sum.fetch_add(count, Ordering::Relaxed);
            }
        }
    }

    fn get(&self) -> [u64; N] {
        std::array::from_fn(|index| self.0.get(index).map_or(0, |sum| sum.load(Ordering::Relaxed)))
    }
}

impl<const N: usize> Default for Atomics<N> {
    fn default() -> Self {
        Atomics(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}
