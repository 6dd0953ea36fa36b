use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rpcrdma_runtime::Owner;
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

use crate::export::FileHandle;

/// Maximum number of concurrent blocking calls of one [`Owner`]. Each call occupies a thread of tokio's
/// blocking pool, which has 512 threads by default.
const CALLS_MAX: usize = 64;
/// Maximum number of concurrent blocking calls of one owner that change the same file. More than one call is
/// allowed, because concurrent stable writes share one sync.
const CHANGES_MAX: usize = 16;
/// Maximum number of concurrent blocking calls of all owners that change the same file. While one of these
/// calls uses the file, the others may block their threads.
const FILE_CHANGES_MAX: usize = 64;

/// Limits an owner's concurrent blocking calls, and the concurrent changes to one file or directory, by owner
/// and in total. Further calls wait without occupying a thread.
#[derive(Debug)]
pub(super) struct CallPermits {
    changes: Arc<KeyedSemaphores<(Owner, FileHandle)>>,
    owners: Arc<KeyedSemaphores<Owner>>,
    files: Arc<KeyedSemaphores<FileHandle>>,
}

type ChangePermit = (KeyPermit<(Owner, FileHandle)>, KeyPermit<FileHandle>);
pub(super) type CallPermit = (KeyPermit<Owner>, Option<ChangePermit>);

impl Default for CallPermits {
    fn default() -> Self {
        CallPermits {
            changes: Arc::new(KeyedSemaphores::new(CHANGES_MAX)),
            owners: Arc::new(KeyedSemaphores::new(CALLS_MAX)),
            files: Arc::new(KeyedSemaphores::new(FILE_CHANGES_MAX)),
        }
    }
}

impl CallPermits {
    /// Waits for a permit for the owner and, if the call changes a file, for permits for this file. Calls get
    /// each permit in the order in which they requested it. Calls of other owners cause no delay, except if
    /// [`FILE_CHANGES_MAX`] of them change the same file. A call that waits for such a file keeps its owner's
    /// permit.
    ///
    /// # Errors
    /// None, since the semaphores are never closed.
    pub(super) async fn acquire(
        &self,
        owner: Owner,
        changed: Option<FileHandle>,
    ) -> Result<CallPermit, AcquireError> {
        let Some(file) = changed else { return Ok((self.owners.clone().acquire(owner).await?, None)) };
        let change = self.changes.clone().acquire((owner.clone(), file)).await?;
        let call = self.owners.clone().acquire(owner).await?;
        // The last permit: a call that waits for its owner must not delay other owners.
        Ok((call, Some((change, self.files.clone().acquire(file).await?))))
    }
}

/// A semaphore for each key that is in use.
#[derive(Debug)]
struct KeyedSemaphores<K> {
    max: usize,
    semaphores: Mutex<HashMap<K, Arc<Semaphore>>>,
}

#[derive(Debug)]
pub(super) struct KeyPermit<K: Eq + Hash> {
    registry: Arc<KeyedSemaphores<K>>,
    key: K,
    /// `None` while the call waits.
    permit: Option<OwnedSemaphorePermit>,
}

impl<K: Clone + Eq + Hash> KeyedSemaphores<K> {
    fn new(max: usize) -> Self {
        KeyedSemaphores { max, semaphores: Mutex::default() }
    }

    async fn acquire(self: Arc<Self>, key: K) -> Result<KeyPermit<K>, AcquireError> {
        let new = || Arc::new(Semaphore::new(self.max));
        let semaphore = self.lock().entry(key.clone()).or_insert_with(new).clone();
        // `held` exists before the wait starts. If the call is abandoned, dropping `held` removes an unused
        // semaphore.
        let mut held = KeyPermit { registry: self, key, permit: None };
        held.permit = Some(semaphore.acquire_owned().await?);
        Ok(held)
    }
}

impl<K> KeyedSemaphores<K> {
    fn lock(&self) -> MutexGuard<'_, HashMap<K, Arc<Semaphore>>> {
        self.semaphores.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Eq + Hash> Drop for KeyPermit<K> {
    fn drop(&mut self) {
        let mut semaphores = self.registry.lock();
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
    async fn permits_of_a_file_delay_no_other_file() {
        let permits = CallPermits::default();
        let [one, other] = [b"one", b"two"].map(|name| Some(FileHandle::new(name).unwrap()));
        let mut taken = Vec::new();
        for _ in 0..CHANGES_MAX {
            taken.push(permits.acquire(owner(1), one).await.unwrap());
        }
        let next = tokio::time::timeout(Duration::from_millis(50), permits.acquire(owner(1), one));
        assert!(next.await.is_err());
        drop(permits.acquire(owner(1), other).await.unwrap());
        drop(permits.acquire(owner(2), one).await.unwrap());
        assert_eq!((permits.changes.lock().len(), permits.owners.lock().len()), (1, 1));
        taken.pop();
        drop(permits.acquire(owner(1), one).await.unwrap());
        drop(taken);
        assert!(permits.changes.lock().is_empty() && permits.owners.lock().is_empty());
        assert!(permits.files.lock().is_empty());
    }

    #[tokio::test]
    async fn changes_of_many_owners_to_one_file_leave_threads_to_others() {
        let permits = CallPermits::default();
        let [one, other] = [b"one", b"two"].map(|name| Some(FileHandle::new(name).unwrap()));
        let mut taken = Vec::new();
        for number in 0..FILE_CHANGES_MAX {
            let owner = owner(u8::try_from(number / CHANGES_MAX).unwrap());
            taken.push(permits.acquire(owner, one).await.unwrap());
        }
        let next = tokio::time::timeout(Duration::from_millis(50), permits.acquire(owner(200), one));
        assert!(next.await.is_err());
        drop(permits.acquire(owner(200), other).await.unwrap());
        taken.pop();
        drop(permits.acquire(owner(200), one).await.unwrap());
    }

    /// A call that waits for its owner takes no permit that other owners may need.
    #[tokio::test]
    async fn calls_that_wait_for_their_owner_delay_no_changes_of_others() {
        let permits = CallPermits::default();
        let file = Some(FileHandle::new(b"one").unwrap());
        let mut taken = Vec::new();
        for _ in 0..CALLS_MAX {
            taken.push(permits.acquire(owner(1), None).await.unwrap());
        }
        let waiting = tokio::time::timeout(Duration::from_millis(50), permits.acquire(owner(1), file));
        let observed = async {
            tokio::task::yield_now().await;
            (permits.changes.lock().len(), permits.files.lock().len())
        };
        let (waited, locked) = tokio::join!(waiting, observed);
        assert!(waited.is_err());
        assert_eq!(locked, (1, 0));
    }

    #[tokio::test]
    async fn permits_of_an_owner_delay_no_other_owner() {
        let permits = CallPermits::default();
        let mut taken = Vec::new();
        for _ in 0..CALLS_MAX {
            taken.push(permits.acquire(owner(1), None).await.unwrap());
        }
        let next = tokio::time::timeout(Duration::from_millis(50), permits.acquire(owner(1), None));
        assert!(next.await.is_err());
        drop(permits.acquire(owner(2), None).await.unwrap());
    }
}
