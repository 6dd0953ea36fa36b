use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rpcrdma_runtime::proto::owner::Owner;
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

use crate::export::FileHandle;

/// Maximum number of concurrent calls of one owner that may wait for storage, each on a thread of the shared
/// blocking pool. The pool of tokio has 512 threads.
const CALLS_MAX: usize = 64;
/// Maximum number of these calls that change the same file. Those that wait for stable storage together share
/// one sync.
const CHANGES_MAX: usize = 16;

/// Limits the threads of the blocking pool that the calls of one owner occupy, and its changes of one file or
/// directory. Further calls wait without a thread.
#[derive(Debug)]
pub(super) struct Turns {
    files: Arc<Queues<(Owner, FileHandle)>>,
    owners: Arc<Queues<Owner>>,
}

/// A call's turn, until it is dropped.
pub(super) type Turn = (Option<Held<(Owner, FileHandle)>>, Held<Owner>);

impl Default for Turns {
    fn default() -> Self {
        Turns { files: Arc::new(Queues::new(CHANGES_MAX)), owners: Arc::new(Queues::new(CALLS_MAX)) }
    }
}

impl Turns {
    /// Waits for a turn of an owner, and of a file that the call changes, in the order of calls. Turns of
    /// other owners do not delay it.
    ///
    /// # Errors
    /// None, since the semaphores are never closed.
    pub(super) async fn take(&self, owner: Owner, changed: Option<FileHandle>) -> Result<Turn, AcquireError> {
        let file = match changed {
            Some(file) => Some(self.files.clone().take((owner.clone(), file)).await?),
            None => None,
        };
        Ok((file, self.owners.clone().take(owner).await?))
    }
}

/// A semaphore for each key that is in use.
#[derive(Debug)]
struct Queues<K> {
    max: usize,
    semaphores: Mutex<HashMap<K, Arc<Semaphore>>>,
}

/// A permit of a key's semaphore.
#[derive(Debug)]
pub(super) struct Held<K: Eq + Hash> {
    queues: Arc<Queues<K>>,
    key: K,
    /// Absent while the call waits.
    permit: Option<OwnedSemaphorePermit>,
}

impl<K: Clone + Eq + Hash> Queues<K> {
    fn new(max: usize) -> Self {
        Queues { max, semaphores: Mutex::default() }
    }

    async fn take(self: Arc<Self>, key: K) -> Result<Held<K>, AcquireError> {
        let new = || Arc::new(Semaphore::new(self.max));
        let semaphore = self.lock().entry(key.clone()).or_insert_with(new).clone();
        // Also dropped if the call is abandoned while it waits.
        let mut held = Held { queues: self, key, permit: None };
        held.permit = Some(semaphore.acquire_owned().await?);
        Ok(held)
    }
}

impl<K> Queues<K> {
    fn lock(&self) -> MutexGuard<'_, HashMap<K, Arc<Semaphore>>> {
        self.semaphores.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Eq + Hash> Drop for Held<K> {
    fn drop(&mut self) {
        let mut semaphores = self.queues.lock();
        self.permit = None;
        if semaphores.get(&self.key).is_some_and(|semaphore| Arc::strong_count(semaphore) == 1) {
            semaphores.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn owner(last: u8) -> Owner {
        std::net::IpAddr::from([192, 0, 2, last]).into()
    }

    #[tokio::test]
    async fn a_file_has_its_turns_and_no_other_waits() {
        let turns = Turns::default();
        let [one, other] = [b"one", b"two"].map(|name| Some(FileHandle::new(name).unwrap()));
        let mut taken = Vec::new();
        for _ in 0..CHANGES_MAX {
            taken.push(turns.take(owner(1), one).await.unwrap());
        }
        let next = tokio::time::timeout(Duration::from_millis(50), turns.take(owner(1), one));
        assert!(next.await.is_err());
        drop(turns.take(owner(1), other).await.unwrap());
        drop(turns.take(owner(2), one).await.unwrap());
        assert_eq!((turns.files.lock().len(), turns.owners.lock().len()), (1, 1));
        taken.pop();
        drop(turns.take(owner(1), one).await.unwrap());
        drop(taken);
        assert!(turns.files.lock().is_empty() && turns.owners.lock().is_empty());
    }

    #[tokio::test]
    async fn an_owner_has_its_turns_and_no_other_waits() {
        let turns = Turns::default();
        let mut taken = Vec::new();
        for _ in 0..CALLS_MAX {
            taken.push(turns.take(owner(1), None).await.unwrap());
        }
        let next = tokio::time::timeout(Duration::from_millis(50), turns.take(owner(1), None));
        assert!(next.await.is_err());
        drop(turns.take(owner(2), None).await.unwrap());
    }
}
