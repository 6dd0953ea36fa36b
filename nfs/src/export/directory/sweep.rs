//! Removes the records of files that other processes removed. The export does not watch directories for
//! removals, so each recorded name is looked up.

use std::io;
use std::path::{Path, PathBuf};
use std::thread::Builder;

use cap_std::fs::Dir;

use super::stat::Key;
use super::table::{Place, Table};
use super::{DirectoryExport, Located, NfsError, PATH_MAX, at_name};

impl DirectoryExport {
    /// Starts a sweep on a separate thread if a sweep is due ([`Table::begin_sweep`]). The thread inherits
    /// the identity of its creator, so the calling thread must not impersonate a caller.
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
        // Checks twice, because a directory on the path may be renamed during the check.
        if outdated_places(table, top, root, *key).next().is_some() {
            outdated_places(table, top, root, *key)
                .for_each(|place| table.forget(*key, place.parent, &place.name));
        }
    }
}

fn outdated_places(table: &Table, top: &Dir, root: Key, key: Key) -> impl Iterator<Item = Place> {
    let candidates = table.candidates(key, root).into_iter();
    let is_outdated = move |path: &Path, name: &[u8]| match open_at(top, path, name) {
        Ok(located) => located.stat.key != key,
        Err(error) => matches!(error, NfsError::NoEnt | NfsError::NotDir | NfsError::Inval),
    };
    candidates
        .filter(move |(path, place)| path.as_ref().is_none_or(|path| is_outdated(path, &place.name)))
        .map(|(_, place)| place)
}

/// Opens the file `name` in the directory at `path`, which is relative to `top`.
pub(super) fn open_at(top: &Dir, path: &Path, name: &[u8]) -> Result<Located, NfsError> {
    at_name(open_directory(top, path)?, name)
}

/// Opens a directory by its path relative to `top`. An empty path stands for `top`. The system rejects paths
/// of [`PATH_MAX`] or more bytes, so they are opened in parts.
pub(super) fn open_directory(top: &Dir, path: &Path) -> io::Result<Dir> {
    if path.as_os_str().is_empty() {
        return top.try_clone();
    }
    if path.as_os_str().len() < PATH_MAX {
        return top.open_dir(path);
    }
    let (mut reached, mut part) = (None::<Dir>, PathBuf::new());
    for name in path {
        if part.as_os_str().len() + name.len() + 1 >= PATH_MAX {
            reached = Some(reached.as_ref().unwrap_or(top).open_dir(&part)?);
            part.clear();
        }
        part.push(name);
    }
    reached.as_ref().unwrap_or(top).open_dir(&part)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::{Duration, Instant};

    use super::super::table::SWEEP_MIN;
    use super::*;
    use crate::export::{CreateHow, Export, NfsCaller, SetAttributes};

    #[test]
    fn records_of_removed_files_are_dropped() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("dir")).unwrap();
        fs::write(dir.path().join("dir/kept"), "content").unwrap();
        let export = DirectoryExport::open(dir.path()).unwrap();
        let above = export.lookup(&NfsCaller::ROOT, &export.root(), b"dir").unwrap().handle;
        let kept = export.lookup(&NfsCaller::ROOT, &above, b"kept").unwrap().handle;
        let (parent, _) = export.identity(&above).unwrap();
        for number in 0..SWEEP_MIN as u64 {
            // Half of the records are below an existing directory, and half below a directory that does not
            // exist. None of the recorded files exist.
            let above = if number % 2 == 0 { parent } else { Key { dev: 0, ino: 1 } };
            export.table.record(Key { dev: 0, ino: 2 + number }, false, above, number.to_string().as_bytes());
        }
        let start = Instant::now();
        while export.table.len() > 2 {
            assert_eq!(export.attributes(&kept).unwrap().size, 7);
            assert!(
                start.elapsed() < Duration::from_secs(60),
                "{} files are still recorded",
                export.table.len()
            );
        }
        assert_eq!(export.attributes(&kept).unwrap().size, 7);
    }

    #[test]
    fn files_that_a_caller_removes_or_replaces_are_dropped() {
        let dir = tempfile::tempdir().unwrap();
        let export = DirectoryExport::open(dir.path()).unwrap();
        let (caller, root, new) = (NfsCaller::ROOT, export.root(), SetAttributes::default());
        let how = CreateHow::Guarded(new.clone());
        let create =
            |name: &str| assert!(export.create(&caller, &root, name.as_bytes(), &how).result.is_ok());
        let before = export.table.len();
        let names: Vec<String> = (0..1000).map(|number| number.to_string()).collect();
        names.iter().for_each(|name| create(name));
        assert_eq!(export.table.len(), before + 1000);
        for name in &names {
            export.remove(&caller, &root, name.as_bytes()).result.unwrap();
        }
        assert_eq!(export.table.len(), before, "REMOVE");

        create("from");
        create("to");
        export.rename(&caller, (&root, b"from"), (&root, b"to")).result.unwrap();
        assert_eq!(export.table.len(), before + 1, "RENAME");
        export.remove(&caller, &root, b"to").result.unwrap();

        export.mkdir(&caller, &root, b"dir", &new).result.unwrap();
        export.rmdir(&caller, &root, b"dir").result.unwrap();
        assert_eq!(export.table.len(), before, "RMDIR");
    }
}
