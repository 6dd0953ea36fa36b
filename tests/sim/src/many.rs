use std::ops::Range;
use std::panic::catch_unwind;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use super::{Bidirectional, Outcome, Tally, run, run_bidirectional, run_session};
use crate::fabric::LostWork;

/// The totals over many runs, for each kind of run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// Runs with calls in one direction on one connection.
    pub pairs: Outcome,
    /// Runs of a session over several connections.
    pub sessions: Tally,
    /// Runs with calls in both directions.
    pub bidirectional: Bidirectional,
}

/// Runs every kind of simulation for each seed, with one thread per processor.
///
/// # Panics
/// Panics if an engine violates a rule. The message names the seed.
#[must_use]
pub fn many(seeds: Range<u64>) -> Sums {
    let next = AtomicU64::new(seeds.start);
    let work = || {
        let mut sums = Sums::default();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                return sums;
            }
            let runs = catch_unwind(|| (run(seed), run_session(seed), run_bidirectional(seed)));
            let (pair, session, bidirectional) = runs.unwrap_or_else(|_| {
                next.store(seeds.end, Ordering::Relaxed);
                panic!("seed {seed} failed (SIM_SEED={seed} repeats it)")
            });
            sums.pairs += pair;
            sums.sessions += session;
            sums.bidirectional += bidirectional;
        }
    };
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let mut all = Sums::default();
        for thread in running {
            let sums = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            all.pairs += sums.pairs;
            all.sessions += sums.sessions;
            all.bidirectional += sums.bidirectional;
        }
        all
    })
}

impl Sums {
    /// Returns the total number of calls in all runs.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.pairs.calls + self.sessions.calls + self.bidirectional.calls.iter().sum::<u64>()
    }

    /// Returns the counts of the work that was outstanding when connections broke, over all runs.
    #[must_use]
    pub fn lost_work(&self) -> LostWork {
        let mut all = self.pairs.lost_work;
        all += self.sessions.lost_work;
        all += self.bidirectional.lost_work;
        all
    }

    /// Checks that each call had one outcome and that every kind of event occurred more than 20 times.
    ///
    /// # Panics
    /// Panics if a check fails.
    pub fn check(&self) {
        let Sums { pairs, sessions, bidirectional } = self;
        let lost_work = self.lost_work();
        assert_eq!(pairs.calls, pairs.replies + pairs.failures + pairs.abandoned);
        assert_eq!(
            sessions.calls,
            sessions.replies + sessions.timeouts + sessions.failures + sessions.abandoned
        );
        for (kind, count) in [
            ("replies", pairs.replies),
            ("failures", pairs.failures),
            ("abandoned calls", pairs.abandoned),
            ("Read chunks", pairs.with_read_chunks),
            ("Long calls", pairs.long_calls),
            ("Write chunks", pairs.with_write_chunks),
            ("Long replies", pairs.long_replies),
            ("remote invalidations", pairs.remote_invalidations),
            ("grants that fell to 1", pairs.few_credits),
            ("partially placed Writes", lost_work.writes),
            ("Reads that never completed", lost_work.reads),
            ("Sends that did not arrive", lost_work.lost_sends),
            ("Sends that arrived after their sender saw the disconnect", lost_work.late_sends),
            ("replies of sessions", sessions.replies),
            ("timeouts", sessions.timeouts),
            ("failures of sessions", sessions.failures),
            ("abandoned calls of sessions", sessions.abandoned),
            ("connections of sessions", sessions.connections),
            ("refused connection attempts", sessions.refused),
            ("idle connections", sessions.idle),
            ("retransmitted calls", sessions.repeated),
            ("calls found in the duplicate-request cache", sessions.cached),
        ] {
            assert!(count > 20, "too few {kind}: {count}");
        }
        for direction in 0..2 {
            let Bidirectional { replies, failures, abandoned, too_long, .. } = bidirectional;
            let ended = [replies, failures, abandoned, too_long].map(|count| count[direction]);
            assert_eq!(bidirectional.calls[direction], ended.iter().sum(), "{bidirectional:?}");
            assert!(ended.iter().all(|count| *count > 20), "too few events of some kind: {bidirectional:?}");
        }
        assert!(bidirectional.same_xid > 50, "{bidirectional:?}");
    }
}
