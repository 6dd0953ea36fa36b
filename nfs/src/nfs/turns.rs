use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

use crate::export::FileHandle;

/// Maximum number of concurrent changes of one file that may wait for storage, each on a thread of the
/// shared blocking pool. Those that wait for stable storage together share one sync.
const CHANGES_MAX: usize = 16;

type Files = HashMap<FileHandle, Arc<Semaphore>>;

/// Limits the threads that the changes of one file or directory occupy. Further changes wait without a
/// thread.
#[derive(Debug, Default)]
pub(super) struct Turns(Mutex<Files>);

/// A change's turn, until it is dropped.
#[derive(Debug)]
pub(super) struct Turn {
    turns: Arc<Turns>,
    file: FileHandle,
    /// Absent while the change waits.
    permit: Option<OwnedSemaphorePermit>,
}

impl Turns {
    fn lock(&self) -> MutexGuard<'_, Files> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a file's turn, in the order of calls.
    ///
    /// # Errors
    /// None, since the semaphores are never closed.
    pub(super) async fn take(self: Arc<Self>, file: FileHandle) -> Result<Turn, AcquireError> {
        let new = || Arc::new(Semaphore::new(CHANGES_MAX));
        let semaphore = self.lock().entry(file).or_insert_with(new).clone();
        // Also dropped if the call is abandoned while it waits.
        let mut turn = Turn { turns: self, file, permit: None };
        turn.permit = Some(semaphore.acquire_owned().await?);
        Ok(turn)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut files = self.turns.lock();
        self.permit = None;
        if files.get(&self.file).is_some_and(|semaphore| Arc::strong_count(semaphore) == 1) {
            files.remove(&self.file);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_file_has_its_turns_and_no_other_waits() {
        let turns = Arc::<Turns>::default();
        let [one, other] = [b"one", b"two"].map(|name| FileHandle::new(name).unwrap());
        let mut taken = Vec::new();
        for _ in 0..CHANGES_MAX {
            taken.push(turns.clone().take(one).await.unwrap());
        }
        let next = tokio::time::timeout(std::time::Duration::from_millis(50), turns.clone().take(one));
        assert!(next.await.is_err());
        drop(turns.clone().take(other).await.unwrap());
        assert_eq!(turns.lock().len(), 1);
        taken.pop();
        drop(turns.clone().take(one).await.unwrap());
        drop(taken);
        assert!(turns.lock().is_empty());
    }
}
