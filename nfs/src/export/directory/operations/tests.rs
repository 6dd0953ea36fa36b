use std::sync::mpsc::{self, Sender};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use super::super::try_ops::Storage;
use super::*;

/// Opens a directory as if it were on a disk. Otherwise, changes would not be synced if the temporary
/// directory is in memory.
fn on_disk(dir: &tempfile::TempDir) -> DirectoryExport {
    let export = DirectoryExport::open(dir.path()).unwrap();
    DirectoryExport { storage: Storage::Cached, ..export }
}

/// Starts a simulated fsync of a file and returns while it runs. The fsync ends when the returned sender is
/// dropped.
fn slow_fsync<'scope>(
    scope: &'scope Scope<'scope, '_>,
    export: &'scope DirectoryExport,
    file: &FileHandle,
) -> (Sender<()>, ScopedJoinHandle<'scope, Result<(), NfsError>>) {
    let key = export.identity(file).unwrap().0;
    let (start_sender, started) = mpsc::channel();
    let (release, held) = mpsc::channel::<()>();
    let slow = move || {
        start_sender.send(()).unwrap();
        let _ = held.recv();
        Ok(())
    };
    let syncing = scope.spawn(move || export.syncs.sync(key, slow));
    started.recv().unwrap();
    (release, syncing)
}

#[test]
fn a_failed_fsync_changes_the_write_verifier() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("file"), "content").unwrap();
    let (export, caller) = (DirectoryExport::open(dir.path()).unwrap(), NfsCaller::ROOT);
    let file = export.lookup(&caller, &export.root(), b"file").unwrap().handle;
    let key = export.identity(&file).unwrap().0;
    let before = export.write_verifier();
    // A pipe cannot be synced.
    let (_reader, pipe) = std::io::pipe().unwrap();
    export.sync(key, &pipe).unwrap_err();
    let after = export.write_verifier();
    assert_ne!(before, after);
    export.commit(&caller, &file, 0, 0).result.unwrap();
    assert_eq!(export.write_verifier(), after);
}

/// fsync fails for directories of proc, and for directories of some writable file systems.
#[test]
fn a_directory_without_fsync_is_synced() {
    let export = DirectoryExport::open("/proc".as_ref()).unwrap();
    let top = export.locate_directory(&export.root()).unwrap();
    let verifier = export.write_verifier();
    assert_eq!(export.sync_metadata(&top), Ok(()));
    assert_eq!(export.write_verifier(), verifier);
}

/// fsync of a link or FIFO is impossible: the system cannot open a link, and opening a FIFO has side effects.
/// The whole file system is synced instead.
#[test]
fn attributes_of_links_and_pipes_are_synced() {
    let dir = tempfile::tempdir().unwrap();
    let export = on_disk(&dir);
    let (caller, root, none) = (NfsCaller::ROOT, export.root(), SetAttributes::default());
    let target = Bytes::from_static(b"target");
    let link = export.symlink(&caller, &root, b"link", &target, &none).result.unwrap();
    let pipe = export.mknod(&caller, &root, b"pipe", (FileKind::Fifo, (0, 0)), &none).result.unwrap();
    let time = SetAttributes { mtime: Some(SetTime::Now), ..none };
    for file in [link, pipe] {
        assert_eq!(export.set_attributes(&caller, &file.handle, &time, None).result, Ok(()));
    }
}

/// Before a CREATE fails, another call may have found the new file and written to it.
#[test]
fn a_failed_create_forgets_its_file() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("file"), "").unwrap();
    let (export, caller) = (DirectoryExport::open(dir.path()).unwrap(), NfsCaller::ROOT);
    let file = export.lookup(&caller, &export.root(), b"file").unwrap().handle;
    export.write(&caller, &file, 0, &Bytes::from_static(b"data"), Stability::Unstable).result.unwrap();
    let top = export.locate_directory(&export.root()).unwrap();
    let located = at_name(&top.file, b"file").unwrap();
    let (stat, acting) = (located.stat.clone(), export.identities.impersonate(&caller).unwrap());
    let is_open = || export.open_files.get(&stat, Purpose::Write, acting.caller()).is_some();
    assert!(is_open() && export.table.parent(stat.key).is_some());
    let invalid = SetAttributes { uid: Some(u32::MAX), ..SetAttributes::default() };
    let failed = export.made(&top, b"file", Ok(located), invalid, &acting);
    assert_eq!(failed.unwrap_err(), NfsError::Inval);
    assert!(!is_open() && export.table.parent(stat.key).is_none());
    assert!(!dir.path().join("file").exists());
}

/// While an fsync of a directory or file runs, a change to it waits for the next fsync (RFC 1813 section
/// 4.7).
#[test]
fn changes_of_names_and_attributes_end_after_an_fsync() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["linked", "moved", "old", "set"] {
        std::fs::write(dir.path().join(name), "content").unwrap();
    }
    std::fs::create_dir(dir.path().join("below")).unwrap();
    std::fs::create_dir(dir.path().join("empty")).unwrap();
    std::fs::write(dir.path().join("below/up"), "content").unwrap();
    let export = on_disk(&dir);
    let (caller, root, none) = (NfsCaller::ROOT, export.root(), SetAttributes::default());
    let find = |name: &[u8]| export.lookup(&caller, &root, name).unwrap().handle;
    let (set, linked, below) = (find(b"set"), find(b"linked"), find(b"below"));
    let mode = SetAttributes { mode: Some(0o600), ..none.clone() };
    let how = CreateHow::Guarded(none.clone());
    let fifo = (FileKind::Fifo, (0, 0));
    let changes: [&(dyn Fn() -> Result<(), NfsError> + Sync); 10] = [
        &|| export.set_attributes(&caller, &set, &mode, None).result,
        &|| export.create(&caller, &root, b"created", &how).result.map(drop),
        &|| export.mkdir(&caller, &root, b"directory", &none).result.map(drop),
        &|| export.symlink(&caller, &root, b"link", &Bytes::from_static(b"set"), &none).result.map(drop),
        &|| export.mknod(&caller, &root, b"fifo", fifo, &none).result.map(drop),
        &|| export.remove(&caller, &root, b"old").result,
        &|| export.rmdir(&caller, &root, b"empty").result,
        &|| export.link(&caller, &linked, &root, b"second").result,
        &|| export.rename(&caller, (&root, b"moved"), (&below, b"moved")).result,
        &|| export.rename(&caller, (&below, b"up"), (&root, b"up")).result,
    ];
    std::thread::scope(|scope| {
        let slow = [&set, &root].map(|file| slow_fsync(scope, &export, file));
        let (senders, syncing): (Vec<_>, Vec<_>) = slow.into_iter().unzip();
        let changing = changes.map(|change| scope.spawn(change));
        // Long enough for the changes to end if they do not wait.
        std::thread::sleep(Duration::from_millis(200));
        let early: Vec<_> = changing.iter().map(|changing| changing.is_finished()).collect();
        drop(senders);
        assert_eq!(early, [false; 10]);
        changing.into_iter().for_each(|changing| changing.join().unwrap().unwrap());
        syncing.into_iter().for_each(|syncing| syncing.join().unwrap().unwrap());
    });
}

/// A CREATE that truncates a file waits for an fsync of the file without holding the directory's lock.
#[test]
fn a_truncating_create_delays_no_other_change_of_its_directory() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("file"), "content").unwrap();
    let export = on_disk(&dir);
    let (caller, root) = (NfsCaller::ROOT, export.root());
    let file = export.lookup(&caller, &root, b"file").unwrap().handle;
    let how = CreateHow::Unchecked(SetAttributes { size: Some(0), ..SetAttributes::default() });
    let create = |name: &[u8]| export.create(&caller, &root, name, &how).result.map(drop);
    std::thread::scope(|scope| {
        let (release, syncing) = slow_fsync(scope, &export, &file);
        let truncating = scope.spawn(|| create(b"file"));
        while export.attributes(&file).unwrap().size != 0 {
            assert!(!truncating.is_finished());
            std::thread::yield_now();
        }
        let (other, start) = (scope.spawn(|| create(b"other")), Instant::now());
        while !other.is_finished() && start.elapsed() < Duration::from_secs(60) {
            std::thread::yield_now();
        }
        let finished = [&truncating, &other].map(ScopedJoinHandle::is_finished);
        drop(release);
        assert_eq!(finished, [false, true]);
        for thread in [syncing, truncating, other] {
            thread.join().unwrap().unwrap();
        }
    });
}

/// While an fsync of the file runs, a stable write and a COMMIT wait for the next fsync. READs and unstable
/// writes do not wait.
#[test]
fn fsync_delays_neither_readers_nor_other_writers() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("file"), "content").unwrap();
    let (export, caller) = (DirectoryExport::open(dir.path()).unwrap(), NfsCaller::ROOT);
    let file = export.lookup(&caller, &export.root(), b"file").unwrap().handle;
    let data = Bytes::from_static(b"other");
    let write = |stable| export.write(&caller, &file, 0, &data, stable).result.unwrap();
    std::thread::scope(|scope| {
        let (release, syncing) = slow_fsync(scope, &export, &file);
        let stable = scope.spawn(|| write(Stability::FileSync));
        let commit = scope.spawn(|| export.commit(&caller, &file, 0, 0).result);
        while export.read(&caller, &file, 0, 5).unwrap().data != "other" {
            assert!(!stable.is_finished());
            std::thread::yield_now();
        }
        for _ in 0..100 {
            assert_eq!(write(Stability::Unstable).count, 5);
            assert_eq!(export.read(&caller, &file, 0, 10).unwrap().data.len(), 7);
            export.set_attributes(&caller, &file, &SetAttributes::default(), None).result.unwrap();
        }
        assert!(!stable.is_finished() && !commit.is_finished() && !syncing.is_finished());
        drop(release);
        assert_eq!(syncing.join().unwrap(), Ok(()));
        assert_eq!(stable.join().unwrap().committed, Stability::FileSync);
        assert_eq!(commit.join().unwrap(), Ok(()));
    });
}

/// Another process replaces the new file with an older file before CREATE sets the attributes.
#[test]
fn a_create_sets_no_attributes_of_another_file() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    let dir = tempfile::tempdir().unwrap();
    let [new, old] = ["new", "old"].map(|name| dir.path().join(name));
    std::fs::write(&old, "").unwrap();
    std::fs::set_permissions(&old, std::fs::Permissions::from_mode(0o600)).unwrap();
    let (export, caller) = (DirectoryExport::open(dir.path()).unwrap(), NfsCaller::ROOT);
    let root = export.locate_directory(&export.root()).unwrap();
    let acting = export.identities.impersonate(&caller).unwrap();
    let file = std::fs::File::create_new(&new).unwrap();
    let created = file.metadata().unwrap().ino();
    std::fs::rename(&old, &new).unwrap();
    let attributes = SetAttributes { mode: Some(0o666), ..SetAttributes::default() };
    let made = export.created(&root, b"new", file.into(), attributes, &acting);
    assert_eq!(made.unwrap().0.attributes.fileid, created);
    assert_eq!(std::fs::metadata(&new).unwrap().mode() & 0o777, 0o600);
}
