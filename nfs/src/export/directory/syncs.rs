//! Group commit: one fsync serves all calls that were waiting for the same file when the fsync started.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::stat::Key;
use crate::export::NfsError;

/// The fsyncs of one file. Each fsync is a round, and rounds are numbered from 1.
#[derive(Debug, Default)]
struct Rounds {
    started: u64,
    ended: u64,
    running: bool,
    /// The last failed round and its error.
    failed: Option<(u64, NfsError)>,
}

#[derive(Debug, Default)]
struct File {
    rounds: Mutex<Rounds>,
    ended: Condvar,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl File {
    /// Returns once a round has both started and ended during this call. Runs that round unless another call
    /// does.
    fn sync(&self, fsync: impl FnOnce() -> Result<(), NfsError>) -> Result<(), NfsError> {
        let mut rounds = lock(&self.rounds);
        // The running round may have started before this call's data was written.
        let wanted = rounds.started.saturating_add(1);
        while rounds.running && rounds.ended < wanted {
            rounds = self.ended.wait(rounds).unwrap_or_else(PoisonError::into_inner);
        }
        if rounds.ended < wanted {
            rounds.running = true;
            rounds.started = wanted;
            drop(rounds);
            let result = fsync();
            rounds = lock(&self.rounds);
            rounds.running = false;
            rounds.ended = wanted;
            if let Err(error) = result {
                rounds.failed = Some((wanted, error));
            }
            self.ended.notify_all();
        }
        // The system reports a failure only once, so all calls that the failed round serves get its error.
        rounds.failed.filter(|(round, _)| *round >= wanted).map_or(Ok(()), |(_, error)| Err(error))
    }
}

#[derive(Debug, Default)]
pub(super) struct Syncs(Mutex<HashMap<Key, Arc<File>>>);

impl Syncs {
    /// Returns once all data written to the file before this call is on stable storage. Runs `fsync`, or
    /// shares the `fsync` of another call. The calling function must not hold the file's lock.
    ///
    /// # Errors
    /// The error of `fsync`.
    pub(super) fn sync(
        &self,
        key: Key,
        fsync: impl FnOnce() -> Result<(), NfsError>,
    ) -> Result<(), NfsError> {
        let file = lock(&self.0).entry(key).or_default().clone();
        let result = file.sync(fsync);
        let mut files = lock(&self.0);
        drop(file);
        if files.get(&key).is_some_and(|file| Arc::strong_count(file) == 1) {
            files.remove(&key);
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::sync::mpsc;
    use std::thread::{scope, yield_now};

    use super::*;

    const KEY: Key = Key { dev: 1, ino: 1 };

    fn users(syncs: &Syncs) -> usize {
        lock(&syncs.0).get(&KEY).map_or(0, |file| Arc::strong_count(file) - 1)
    }

    /// Makes `others` calls while the first round runs. Each later round returns `second`. Returns the
    /// results of the `others` calls, and the number of rounds after the first.
    fn rounds(others: usize, second: Result<(), NfsError>) -> (Vec<Result<(), NfsError>>, u32) {
        let (syncs, count) = (Syncs::default(), AtomicU32::new(0));
        let (release, held) = mpsc::channel::<()>();
        let fsync = || {
            count.fetch_add(1, Ordering::SeqCst);
            second
        };
        let results = scope(|scope| {
            let first = scope.spawn(|| {
                syncs.sync(KEY, move || {
                    held.recv().unwrap();
                    Ok(())
                })
            });
            while users(&syncs) == 0 || !lock(&lock(&syncs.0)[&KEY].rounds).running {
                yield_now();
            }
            let others: Vec<_> = (0..others).map(|_| scope.spawn(|| syncs.sync(KEY, fsync))).collect();
            while users(&syncs) <= others.len() {
                yield_now();
            }
            // All calls have begun. The sleep gives them time to read `Rounds::started`.
            std::thread::sleep(std::time::Duration::from_millis(200));
            release.send(()).unwrap();
            assert_eq!(first.join().unwrap(), Ok(()));
            others.into_iter().map(|other| other.join().unwrap()).collect()
        });
        assert!(lock(&syncs.0).is_empty());
        (results, count.into_inner())
    }

    #[test]
    fn calls_that_wait_share_a_round() {
        assert_eq!(rounds(10, Ok(())), (vec![Ok(()); 10], 1));
    }

    #[test]
    fn all_calls_of_a_round_get_its_failure() {
        assert_eq!(rounds(10, Err(NfsError::Io)), (vec![Err(NfsError::Io); 10], 1));
    }
}
