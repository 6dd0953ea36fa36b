use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use super::stat::Key;
use crate::export::NfsError;

/// Maximum number of recorded names per file. A further name replaces the oldest name, which a later LOOKUP
/// records again.
const PLACES_MAX: usize = 8;
/// Number of known files at which the first sweep starts: about 10 MB of memory.
pub(super) const SWEEP_MIN: usize = 1 << 16;
/// Maximum number of levels from the root to a directory. Bounds the work of each call, even if outdated
/// records form a cycle.
const DEPTH_MAX: usize = 1024;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) parent: Key,
    pub(super) name: Box<[u8]>,
}

/// The known locations of files: names by which the files can be reopened. The locations are only hints: a
/// call that opens a file by its location must verify the file.
#[derive(Debug, Default)]
pub(super) struct Table(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    places: HashMap<Key, Vec<Place>>,
    len_after_sweep: usize,
    is_sweeping: bool,
}

impl Table {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// If a sweep is due and no sweep runs, returns all files and prevents further sweeps until
    /// [`Table::end_sweep`]. Otherwise returns `None`.
    pub(super) fn begin_sweep(&self) -> Option<Vec<Key>> {
        let mut table = self.lock();
        let is_due = table.places.len() >= SWEEP_MIN.max(table.len_after_sweep.saturating_mul(2));
        if !is_due || table.is_sweeping {
            return None;
        }
        table.is_sweeping = true;
        Some(table.places.keys().copied().collect())
    }

    pub(super) fn end_sweep(&self) {
        let mut table = self.lock();
        table.is_sweeping = false;
        table.len_after_sweep = table.places.len();
        table.places.shrink_to_fit();
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.lock().places.len()
    }

    /// Records a name of a file. A directory has only one name, so a new name replaces the old name.
    pub(super) fn record(&self, key: Key, is_directory: bool, parent: Key, name: &[u8]) {
        let mut table = self.lock();
        // Most files have one name.
        let places = table.places.entry(key).or_insert_with(|| Vec::with_capacity(1));
        if places.iter().any(|place| place.parent == parent && *place.name == *name) {
            return;
        }
        if is_directory {
            places.clear();
        } else if places.len() >= PLACES_MAX {
            places.remove(0);
        }
        places.push(Place { parent, name: name.into() });
    }

    pub(super) fn forget(&self, key: Key, parent: Key, name: &[u8]) {
        let mut table = self.lock();
        if let Some(places) = table.places.get_mut(&key) {
            places.retain(|place| place.parent != parent || *place.name != *name);
            if places.is_empty() {
                table.places.remove(&key);
            }
        }
    }

    pub(super) fn parent(&self, key: Key) -> Option<Key> {
        self.lock().places.get(&key)?.first().map(|place| place.parent)
    }

    /// Returns the path of a directory from the root.
    ///
    /// # Errors
    /// [`NfsError::Stale`] for an unknown path, [`NfsError::NameTooLong`] for a path of more than `DEPTH_MAX`
    /// names.
    pub(super) fn path(&self, directory: Key, root: Key) -> Result<PathBuf, NfsError> {
        path(&self.lock().places, directory, root)
    }

    /// Returns the possible locations of a file. Each consists of the parent directory's path relative to the
    /// root, if known, and the [`Place`]. Each recorded name is a single path component.
    pub(super) fn candidates(&self, key: Key, root: Key) -> Vec<(Option<PathBuf>, Place)> {
        let table = self.lock();
        let places = table.places.get(&key).map(Vec::as_slice).unwrap_or_default();
        // The most recently recorded name is the most likely to be valid.
        let located = |place: &Place| (path(&table.places, place.parent, root).ok(), place.clone());
        places.iter().rev().map(located).collect()
    }
}

fn path(table: &HashMap<Key, Vec<Place>>, directory: Key, root: Key) -> Result<PathBuf, NfsError> {
    let mut names = Vec::new();
    let mut at = directory;
    while at != root {
        if names.len() >= DEPTH_MAX {
            return Err(NfsError::NameTooLong);
        }
        let place = table.get(&at).and_then(|places| places.first()).ok_or(NfsError::Stale)?;
        names.push(OsStr::from_bytes(&place.name));
        at = place.parent;
    }
    Ok(names.into_iter().rev().collect())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn key(ino: u64) -> Key {
        Key { dev: 1, ino }
    }

    fn paths(table: &Table, file: u64, top: u64) -> Vec<PathBuf> {
        let candidates = table.candidates(key(file), key(top)).into_iter();
        candidates.filter_map(|(path, place)| Some(path?.join(OsStr::from_bytes(&place.name)))).collect()
    }

    #[test]
    fn a_renamed_directory_keeps_its_contents() {
        let table = Table::default();
        table.record(key(2), true, key(1), b"a");
        table.record(key(3), true, key(2), b"b");
        table.record(key(4), false, key(3), b"file");
        table.record(key(2), true, key(1), b"renamed");
        assert_eq!(paths(&table, 4, 1), [Path::new("renamed/b/file")]);
    }

    #[test]
    fn a_file_keeps_its_remaining_names() {
        let table = Table::default();
        table.record(key(4), false, key(1), b"one");
        table.record(key(4), false, key(1), b"two");
        table.forget(key(4), key(1), b"two");
        assert_eq!(paths(&table, 4, 1), [Path::new("one")]);
        table.forget(key(4), key(1), b"one");
        assert!(paths(&table, 4, 1).is_empty());
    }

    #[test]
    fn a_cycle_of_directories_terminates() {
        let table = Table::default();
        table.record(key(2), true, key(3), b"a");
        table.record(key(3), true, key(2), b"b");
        assert!(paths(&table, 2, 1).is_empty());
    }

    #[test]
    fn a_file_with_a_short_name_needs_at_most_150_bytes() {
        /// The hash tables have just doubled, so most of their slots are free.
        const FILES: u64 = (1 << 16) / 8 * 7 + 1;
        let table = Table::default();
        let used = allocation_counter::measure(|| {
            for ino in 0..FILES {
                table.record(key(ino), false, key(FILES), format!("file {ino:07}").as_bytes());
            }
        });
        let each = used.bytes_current / FILES.cast_signed();
        assert!((100..=150).contains(&each), "{each} bytes for each file");
    }
}
