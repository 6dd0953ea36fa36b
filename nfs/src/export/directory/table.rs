use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use super::stat::Key;

/// Names remembered of one file; the others are found again when they are looked up.
const PLACES_MAX: usize = 8;
/// Levels of directories below the top.
const DEPTH_MAX: usize = 1024;

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) parent: Key,
    pub(super) name: Box<[u8]>,
}

/// Where the files are that were given out as handles: by which names they can be opened again.
///
/// Only a hint. Whoever opens a file by it checks that it is the one. Grows with the files that were looked
/// up.
#[derive(Debug, Default)]
pub(super) struct Table {
    places: Mutex<HashMap<Key, Vec<Place>>>,
}

impl Table {
    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Vec<Place>>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A file was seen under a name. A directory has no other.
    pub(super) fn learn(&self, key: Key, is_directory: bool, parent: Key, name: &[u8]) {
        let mut table = self.lock();
        let places = table.entry(key).or_default();
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

    /// A file has lost a name.
    pub(super) fn forget(&self, key: Key, parent: Key, name: &[u8]) {
        let mut table = self.lock();
        if let Some(places) = table.get_mut(&key) {
            places.retain(|place| place.parent != parent || *place.name != *name);
            if places.is_empty() {
                table.remove(&key);
            }
        }
    }

    /// The directory above a directory.
    pub(super) fn parent(&self, key: Key) -> Option<Key> {
        self.lock().get(&key)?.first().map(|place| place.parent)
    }

    /// Where to look for a file: the path of a directory from the top, and the name in it. No path has a name
    /// that is not a single component, since none was learnt.
    pub(super) fn candidates(&self, key: Key, root: Key) -> Vec<(PathBuf, Box<[u8]>)> {
        let table = self.lock();
        let places = table.get(&key).map(Vec::as_slice).unwrap_or_default();
        let path = |place: &Place| Some((path(&table, place.parent, root)?, place.name.clone()));
        // The name that was learnt last is the likeliest.
        places.iter().rev().filter_map(path).collect()
    }
}

fn path(table: &HashMap<Key, Vec<Place>>, directory: Key, root: Key) -> Option<PathBuf> {
    let mut names = Vec::new();
    let mut at = directory;
    while at != root {
        if names.len() >= DEPTH_MAX {
            return None;
        }
        let place = table.get(&at)?.first()?;
        names.push(OsStr::from_bytes(&place.name));
        at = place.parent;
    }
    Some(names.into_iter().rev().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(ino: u64) -> Key {
        Key { dev: 1, ino }
    }

    #[test]
    fn a_renamed_directory_takes_what_is_below_it_along() {
        let table = Table::default();
        table.learn(key(2), true, key(1), b"a");
        table.learn(key(3), true, key(2), b"b");
        table.learn(key(4), false, key(3), b"file");
        table.learn(key(2), true, key(1), b"renamed");
        assert_eq!(table.candidates(key(4), key(1)), [(PathBuf::from("renamed/b"), b"file"[..].into())]);
    }

    #[test]
    fn a_file_has_the_names_that_it_was_not_seen_to_lose() {
        let table = Table::default();
        table.learn(key(4), false, key(1), b"one");
        table.learn(key(4), false, key(1), b"two");
        table.forget(key(4), key(1), b"two");
        assert_eq!(table.candidates(key(4), key(1)), [(PathBuf::new(), b"one"[..].into())]);
        table.forget(key(4), key(1), b"one");
        assert!(table.candidates(key(4), key(1)).is_empty());
    }

    #[test]
    fn a_ring_of_directories_ends() {
        let table = Table::default();
        table.learn(key(2), true, key(3), b"a");
        table.learn(key(3), true, key(2), b"b");
        assert!(table.candidates(key(2), key(1)).is_empty());
    }
}
