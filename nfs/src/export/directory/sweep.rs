//! Forgets files that others have removed. The system does not report removals, so the names are tried.

use std::path::Path;
use std::thread::Builder;

use cap_std::fs::Dir;

use super::stat::Key;
use super::table::{Place, Table};
use super::{DirectoryExport, Error, Located, at_name};

impl DirectoryExport {
    /// Starts a sweep on its own thread if the number of files has doubled since the last one. A thread
    /// inherits the identity of its creator, so this must not be called as a caller.
    pub(super) fn sweep_if_due(&self) {
        let Some(keys) = self.table.begin_sweep() else { return };
        let (table, root) = (self.table.clone(), self.root.key);
        let started = self.top.try_clone().and_then(|top| {
            Builder::new().name("file table".to_owned()).spawn(move || {
                sweep(&table, &top, root, &keys);
                table.end_sweep();
            })
        });
        if started.is_err() {
            self.table.end_sweep();
        }
    }
}

fn sweep(table: &Table, top: &Dir, root: Key, keys: &[Key]) {
    for key in keys {
        // Checked twice: a directory on the path may have been renamed in between.
        if gone(table, top, root, *key).next().is_some() {
            gone(table, top, root, *key).for_each(|place| table.forget(*key, place.parent, &place.name));
        }
    }
}

/// Returns the recorded places of a file that no longer lead to it.
fn gone(table: &Table, top: &Dir, root: Key, key: Key) -> impl Iterator<Item = Place> {
    let candidates = table.candidates(key, root).into_iter();
    let is_gone = move |path: &Path, name: &[u8]| match at_place(top, path, name) {
        Ok(located) => located.stat.key != key,
        Err(error) => matches!(error, Error::NoEnt | Error::NotDir | Error::Inval),
    };
    candidates
        .filter(move |(path, place)| path.as_ref().is_none_or(|path| is_gone(path, &place.name)))
        .map(|(_, place)| place)
}

/// Opens a file by a directory's path from the root and its name there.
pub(super) fn at_place(top: &Dir, path: &Path, name: &[u8]) -> Result<Located, Error> {
    if path.as_os_str().is_empty() { at_name(top, name) } else { at_name(top.open_dir(path)?, name) }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::{Duration, Instant};

    use super::super::table::SWEEP_MIN;
    use super::*;
    use crate::export::{Caller, Export};

    #[test]
    fn files_that_others_removed_are_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("dir")).unwrap();
        fs::write(dir.path().join("dir/kept"), "content").unwrap();
        let export = DirectoryExport::open(dir.path()).unwrap();
        let above = export.lookup(&Caller::ROOT, &export.root(), b"dir").unwrap().handle;
        let kept = export.lookup(&Caller::ROOT, &above, b"kept").unwrap().handle;
        let (parent, _) = export.identity(&above).unwrap();
        for number in 0..SWEEP_MIN as u64 {
            // In an existing directory, and in one that does not exist.
            let above = if number % 2 == 0 { parent } else { Key { dev: 0, ino: 1 } };
            export.table.learn(Key { dev: 0, ino: 2 + number }, false, above, number.to_string().as_bytes());
        }
        let begun = Instant::now();
        while export.table.len() > 2 {
            assert_eq!(export.attributes(&kept).unwrap().size, 7);
            assert!(begun.elapsed() < Duration::from_secs(60), "{} files are kept", export.table.len());
        }
        assert_eq!(export.attributes(&kept).unwrap().size, 7);
    }
}
