//! Caches open descriptors between calls.
//!
//! Opening a file for each call would discard the state that the file system keeps for a descriptor. This
//! state includes the readahead window and the blocks reserved for a growing file. A descriptor serves one
//! file, purpose and identity. Each call first checks that a recorded name still refers to the file and that
//! the caller may use the file.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::{Duration, Instant};

use rustix::fs::{Access, OFlags};
use rustix::process::{Resource, getrlimit};

use super::stat::{Key, Stat};
use crate::export::NfsCaller;

/// Idle time before a descriptor is closed. Until then, processes on this machine cannot execute a file that
/// is open for writing (ETXTBSY).
const IDLE: Duration = Duration::from_secs(2);
/// Maximum number of cached descriptors per export.
const MAX: usize = 512;
/// The cached descriptors of all exports use at most about 1/`PART` of the process's limit on open files.
/// Each export can always cache one descriptor, even if the total then exceeds this part.
const PART: u64 = 4;

/// The number of caches in this process, which share the limit on open files.
static CACHES: AtomicUsize = AtomicUsize::new(0);

fn max_per_cache() -> usize {
    share(getrlimit(Resource::Nofile).current, CACHES.load(Ordering::Relaxed))
}

fn share(open_files_max: Option<u64>, caches: usize) -> usize {
    let all = open_files_max.map_or(usize::MAX, |max| usize::try_from(max / PART).unwrap_or(usize::MAX));
    (all / caches.max(1)).clamp(1, MAX)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Read,
    Write,
}

impl Purpose {
    pub(super) fn flags(self) -> OFlags {
        match self {
            Purpose::Read => OFlags::RDONLY,
            Purpose::Write => OFlags::WRONLY,
        }
    }

    pub(super) fn right(self) -> Access {
        match self {
            Purpose::Read => Access::READ_OK,
            Purpose::Write => Access::WRITE_OK,
        }
    }
}

#[derive(Debug)]
struct Open {
    generation: u64,
    purpose: Purpose,
    /// The caller to which the thread switched to open the descriptor, or `None` if it did not switch.
    by: Option<NfsCaller>,
    file: Arc<OwnedFd>,
    /// The key in [`State::uses`] for the descriptor's last use.
    last: u64,
    used: Instant,
}

impl Open {
    fn serves(&self, of: &Stat, purpose: Purpose, by: Option<&NfsCaller>) -> bool {
        self.generation == of.generation && self.purpose == purpose && self.by.as_ref() == by
    }
}

#[derive(Debug, Default)]
struct State {
    files: HashMap<Key, Vec<Open>>,
    /// The file of each descriptor, keyed by [`Open::last`]. The least recently used descriptor comes first.
    uses: BTreeMap<u64, Key>,
    next: u64,
    stopped: bool,
}

impl State {
    fn take_number(&mut self, key: Key) -> u64 {
        let number = self.next;
        self.next = number.wrapping_add(1);
        self.uses.insert(number, key);
        number
    }

    fn oldest(&self) -> Option<&Open> {
        let (number, key) = self.uses.first_key_value()?;
        self.files.get(key)?.iter().find(|open| open.last == *number)
    }

    fn remove_oldest(&mut self) -> Option<Open> {
        let (number, key) = self.uses.pop_first()?;
        let opens = self.files.get_mut(&key)?;
        let index = opens.iter().position(|open| open.last == number)?;
        let open = opens.swap_remove(index);
        if opens.is_empty() {
            self.files.remove(&key);
        }
        Some(open)
    }
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes idle descriptors until [`OpenFiles`] is dropped.
    fn close_idle(&self) {
        let mut state = self.lock();
        while !state.stopped {
            let Some(oldest) = state.oldest() else {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let left = IDLE.saturating_sub(oldest.used.elapsed());
            if left.is_zero() {
                let idle = state.remove_oldest();
                // Releases the lock first, because closing a file may block.
                drop(state);
                drop(idle);
                state = self.lock();
            } else {
                let waited = self.changed.wait_timeout(state, left);
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
        }
    }
}

#[derive(Debug)]
pub(super) struct OpenFiles {
    shared: Arc<Shared>,
    max: fn() -> usize,
}

impl OpenFiles {
    /// Starts the thread that closes idle descriptors, and returns an empty cache.
    ///
    /// # Errors
    /// Fails if the thread cannot be started.
    pub(super) fn start() -> io::Result<Self> {
        OpenFiles::with_max(max_per_cache)
    }

    fn with_max(max: fn() -> usize) -> io::Result<Self> {
        let shared = Arc::<Shared>::default();
        let closing = shared.clone();
        Builder::new().name("idle files".to_owned()).spawn(move || closing.close_idle())?;
        CACHES.fetch_add(1, Ordering::Relaxed);
        Ok(OpenFiles { shared, max })
    }

    pub(super) fn get(&self, of: &Stat, purpose: Purpose, by: Option<&NfsCaller>) -> Option<Arc<OwnedFd>> {
        let mut state = self.shared.lock();
        let opens = state.files.get(&of.key)?;
        let index = opens.iter().position(|open| open.serves(of, purpose, by))?;
        let number = state.take_number(of.key);
        let open = state.files.get_mut(&of.key)?.get_mut(index)?;
        let before = std::mem::replace(&mut open.last, number);
        open.used = Instant::now();
        let file = open.file.clone();
        state.uses.remove(&before);
        Some(file)
    }

    /// Caches a descriptor, unless an equivalent descriptor is cached. A full cache closes the least recently
    /// used descriptor.
    pub(super) fn keep(
        &self,
        of: &Stat,
        purpose: Purpose,
        by: Option<&NfsCaller>,
        file: OwnedFd,
    ) -> Arc<OwnedFd> {
        let (file, max) = (Arc::new(file), (self.max)());
        let mut evicted = Vec::new();
        let mut state = self.shared.lock();
        if state.files.get(&of.key).is_some_and(|opens| opens.iter().any(|open| open.serves(of, purpose, by)))
        {
            // A concurrent call with the same identity cached its descriptor first.
            return file;
        }
        // The maximum decreases when an export is added.
        while state.uses.len() >= max {
            evicted.extend(state.remove_oldest());
        }
        if state.uses.is_empty() {
            self.shared.changed.notify_one();
        }
        let (generation, by, used) = (of.generation, by.cloned(), Instant::now());
        let last = state.take_number(of.key);
        let open = Open { generation, purpose, by, file: file.clone(), last, used };
        state.files.entry(of.key).or_default().push(open);
        drop(state);
        drop(evicted);
        file
    }

    pub(super) fn has_room(&self) -> bool {
        let max = (self.max)();
        self.shared.lock().uses.len() < max
    }

    /// Removes the descriptors of a file from the cache. Each descriptor is closed once no call uses it.
    pub(super) fn close(&self, key: Key) {
        let mut state = self.shared.lock();
        let closed = state.files.remove(&key).unwrap_or_default();
        for open in &closed {
            state.uses.remove(&open.last);
        }
        drop(state);
    }
}

impl Drop for OpenFiles {
    fn drop(&mut self) {
        CACHES.fetch_sub(1, Ordering::Relaxed);
        let mut state = self.shared.lock();
        state.stopped = true;
        let files = std::mem::take(&mut state.files);
        drop(state);
        self.shared.changed.notify_one();
        drop(files);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Weak;
    use std::thread::sleep;

    use super::*;

    /// A directory whose files have numbers as names.
    struct Files(tempfile::TempDir);

    impl Files {
        fn new() -> Self {
            Files(tempfile::tempdir().unwrap())
        }

        fn keep(&self, kept: &OpenFiles, number: u32, by: Option<&NfsCaller>) -> (Stat, Weak<OwnedFd>) {
            let file = OwnedFd::from(std::fs::File::create(self.0.path().join(number.to_string())).unwrap());
            let stat = Stat::of(&file).unwrap();
            let file = kept.keep(&stat, Purpose::Write, by, file);
            (stat, Arc::downgrade(&file))
        }
    }

    #[test]
    fn all_caches_share_a_quarter_of_the_open_files() {
        let shares = [(Some(1024), 1), (Some(4096), 5), (Some(4096), 0), (Some(8), 100), (None, 5)]
            .map(|(open_files_max, caches)| share(open_files_max, caches));
        assert_eq!(shares, [256, 204, 512, 1, 512]);
    }

    #[test]
    fn a_full_cache_closes_the_least_recently_used_descriptor() {
        let (files, kept) = (Files::new(), OpenFiles::with_max(|| 3).unwrap());
        let first: Vec<_> = (0..3).map(|number| files.keep(&kept, number, None)).collect();
        assert!(
            kept.get(&first[0].0, Purpose::Write, None).is_some(),
            "the descriptor of file 0 is cached; this use makes the descriptor of file 1 the oldest"
        );
        let fourth = files.keep(&kept, 3, None);
        let is_open = |kept: &(Stat, Weak<OwnedFd>)| kept.1.upgrade().is_some();
        assert_eq!(first.iter().map(is_open).collect::<Vec<_>>(), [true, false, true]);
        assert!(is_open(&fourth) && !kept.has_room());
        for number in 4..100 {
            files.keep(&kept, number, None);
            assert_eq!(kept.shared.lock().uses.len(), 3);
        }
    }

    #[test]
    fn a_descriptor_serves_one_purpose_and_one_caller() {
        let (files, kept) = (Files::new(), OpenFiles::with_max(|| 3).unwrap());
        let alice = NfsCaller { uid: 1, gid: 1, gids: vec![7] };
        let (stat, _) = files.keep(&kept, 0, Some(&alice));
        assert!(kept.get(&stat, Purpose::Write, Some(&alice)).is_some());
        assert!(kept.get(&stat, Purpose::Read, Some(&alice)).is_none());
        for other in [None, Some(&NfsCaller::ROOT), Some(&NfsCaller { gids: vec![], ..alice.clone() })] {
            assert!(kept.get(&stat, Purpose::Write, other).is_none());
        }
        let later = Stat { generation: stat.generation.wrapping_add(1), ..stat };
        assert!(
            kept.get(&later, Purpose::Write, Some(&alice)).is_none(),
            "a later file with the same inode number"
        );
    }

    #[test]
    fn idle_descriptors_are_closed() {
        let (files, kept) = (Files::new(), OpenFiles::with_max(|| 3).unwrap());
        let (_, idle) = files.keep(&kept, 0, None);
        let (stat, used) = files.keep(&kept, 1, None);
        let start = Instant::now();
        while idle.upgrade().is_some() {
            assert!(start.elapsed() < 10 * IDLE, "the idle descriptor stays open");
            assert!(kept.get(&stat, Purpose::Write, None).is_some());
            sleep(IDLE / 20);
        }
        assert!(start.elapsed() > IDLE / 2 && used.upgrade().is_some());
        kept.close(stat.key);
        assert!(used.upgrade().is_none() && kept.shared.lock().uses.is_empty());
        let (_, last) = files.keep(&kept, 2, None);
        drop(kept);
        assert!(last.upgrade().is_none());
    }
}
