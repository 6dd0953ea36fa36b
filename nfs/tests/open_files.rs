//! Cached descriptors of the files in a served directory: each call checks the caller's permissions, and
//! detects whether another file has replaced the handle's file.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use bytes::Bytes;
use rpcrdma_nfs::export::directory::DirectoryExport;
use rpcrdma_nfs::export::{
    CreateHow, Export, FileHandle, NfsCaller, NfsError, SetAttributes, Stability, access_bits,
};
use tempfile::TempDir;

fn user(uid: u32) -> NfsCaller {
    NfsCaller { uid, gid: uid, gids: vec![] }
}

fn served() -> (TempDir, DirectoryExport) {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), Permissions::from_mode(0o777)).unwrap();
    let export = DirectoryExport::open(dir.path()).unwrap();
    (dir, export)
}

fn open_below(path: &Path) -> usize {
    let path = path.canonicalize().unwrap();
    let links =
        fs::read_dir("/proc/self/fd").unwrap().filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    // The directory itself is always open and does not count.
    links.filter(|link| link.starts_with(&path) && *link != path).count()
}

fn found(export: &DirectoryExport, name: &str) -> FileHandle {
    export.lookup(&NfsCaller::ROOT, &export.root(), name.as_bytes()).unwrap().handle
}

fn make(export: &DirectoryExport, caller: &NfsCaller, name: &str, mode: u32) -> FileHandle {
    let how = CreateHow::Guarded(SetAttributes { mode: Some(mode), ..SetAttributes::default() });
    export.create(caller, &export.root(), name.as_bytes(), &how).result.unwrap().handle
}

fn read(export: &DirectoryExport, caller: &NfsCaller, file: &FileHandle) -> Result<Bytes, NfsError> {
    export.read(caller, file, 0, 100).map(|read| read.data)
}

fn write(
    export: &DirectoryExport,
    caller: &NfsCaller,
    file: &FileHandle,
    data: &'static str,
) -> Result<u32, NfsError> {
    let data = Bytes::from_static(data.as_bytes());
    export.write(caller, file, 0, &data, Stability::Unstable).result.map(|written| written.count)
}

#[test]
fn files_stay_open_until_they_are_removed_renamed_or_idle() {
    let (dir, export) = served();
    let (root, caller) = (export.root(), NfsCaller::ROOT);
    let used = |name: &str| {
        let file = make(&export, &caller, name, 0o600);
        for _ in 0..3 {
            assert_eq!(write(&export, &caller, &file, "content"), Ok(7));
            assert_eq!(read(&export, &caller, &file).unwrap(), "content");
        }
        assert_eq!(open_below(dir.path()), 2, "one descriptor to read and one to write");
        file
    };
    let removed = used("removed");
    export.remove(&caller, &root, b"removed").result.unwrap();
    assert_eq!(open_below(dir.path()), 0);
    assert_eq!(read(&export, &caller, &removed), Err(NfsError::Stale));

    let moved = used("moved");
    export.rename(&caller, (&root, b"moved"), (&root, b"elsewhere")).result.unwrap();
    assert_eq!(open_below(dir.path()), 0);
    assert_eq!(read(&export, &caller, &moved).unwrap(), "content");
    export.remove(&caller, &root, b"elsewhere").result.unwrap();

    let replaced = used("replaced");
    fs::write(dir.path().join("new"), "new").unwrap();
    export.rename(&caller, (&root, b"new"), (&root, b"replaced")).result.unwrap();
    assert_eq!(open_below(dir.path()), 0);
    assert_eq!(read(&export, &caller, &replaced), Err(NfsError::Stale));
    assert_eq!(read(&export, &caller, &found(&export, "replaced")).unwrap(), "new");

    let began = Instant::now();
    while open_below(dir.path()) > 0 {
        assert!(began.elapsed() < Duration::from_secs(20), "an idle file is still open");
        std::thread::sleep(Duration::from_millis(100));
    }
    drop(export);
}

#[test]
fn a_running_program_can_be_committed() {
    let (dir, export) = served();
    let path = dir.path().join("sleep");
    fs::copy("/bin/sleep", &path).unwrap();
    let program = found(&export, "sleep");
    let mut running = Command::new(&path).arg("600").spawn().unwrap();
    let committed = export.commit(&NfsCaller::ROOT, &program, 0, 0).result;
    running.kill().unwrap();
    running.wait().unwrap();
    assert_eq!(committed, Ok(()));
}

#[test]
fn a_replaced_file_is_detected() {
    let (dir, export) = served();
    let caller = NfsCaller::ROOT;
    fs::write(dir.path().join("file"), "old").unwrap();
    fs::write(dir.path().join("other"), "new").unwrap();
    let old = found(&export, "file");
    assert_eq!(read(&export, &caller, &old).unwrap(), "old");
    assert_eq!(write(&export, &caller, &old, "old"), Ok(3));
    // The test acts as another process that changes the files.
    fs::rename(dir.path().join("other"), dir.path().join("file")).unwrap();
    assert_eq!(read(&export, &caller, &old), Err(NfsError::Stale));
    assert_eq!(write(&export, &caller, &old, "bad"), Err(NfsError::Stale));
    assert_eq!(read(&export, &caller, &found(&export, "file")).unwrap(), "new");
    // The file is moved out of the export, and back.
    let outside = tempfile::tempdir_in(dir.path().parent().unwrap()).unwrap();
    let new = found(&export, "file");
    fs::rename(dir.path().join("file"), outside.path().join("file")).unwrap();
    assert_eq!(
        read(&export, &caller, &new),
        Err(NfsError::Stale),
        "files outside of the export are inaccessible"
    );
    fs::rename(outside.path().join("file"), dir.path().join("file")).unwrap();
    assert_eq!(read(&export, &caller, &found(&export, "file")).unwrap(), "new");
}

#[test]
fn an_open_file_serves_only_permitted_callers() {
    let (dir, export) = served();
    if !export.impersonates_callers() {
        return not_run::not_run("only root can serve callers with their own rights");
    }
    let [alice, bob] = [1000, 1001].map(user);
    let in_group = NfsCaller { gids: vec![1000], ..bob.clone() };
    let file = make(&export, &alice, "file", 0o640);
    let path = dir.path().join("file");
    assert_eq!(write(&export, &alice, &file, "hers"), Ok(4));
    assert_eq!(read(&export, &alice, &file).unwrap(), "hers");
    assert_eq!(read(&export, &in_group, &file).unwrap(), "hers");
    assert_eq!(read(&export, &NfsCaller::ROOT, &file).unwrap(), "hers");
    assert!(open_below(dir.path()) >= 4, "each caller has a descriptor");
    assert_eq!(read(&export, &bob, &file), Err(NfsError::Acces), "another user");
    assert_eq!(read(&export, &NfsCaller { gids: vec![7], ..bob.clone() }, &file), Err(NfsError::Acces));
    assert_eq!(write(&export, &bob, &file, "his"), Err(NfsError::Acces));
    assert_eq!(write(&export, &in_group, &file, "his"), Err(NfsError::Acces), "the group may only read");

    // Once the permissions change, the new permissions apply even to callers with cached descriptors.
    fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
    assert_eq!(read(&export, &bob, &file).unwrap(), "hers");
    assert_eq!(write(&export, &bob, &file, "his"), Ok(3));
    let none = SetAttributes { mode: Some(0), ..SetAttributes::default() };
    export.set_attributes(&alice, &file, &none, None).result.unwrap();
    for other in [&bob, &in_group] {
        assert_eq!(read(&export, other, &file), Err(NfsError::Acces));
        assert_eq!(write(&export, other, &file, "bad"), Err(NfsError::Acces));
        assert_eq!(export.commit(other, &file, 0, 0).result, Err(NfsError::Acces));
        assert_eq!(export.access(other, &file, access_bits::READ).unwrap().0, 0);
    }
    assert_eq!(read(&export, &alice, &file).unwrap(), "hiss", "the owner may read regardless of the mode");
    chown(&path, Some(1001), Some(1001)).unwrap();
    assert_eq!(read(&export, &alice, &file), Err(NfsError::Acces));
    assert_eq!(write(&export, &alice, &file, "bad"), Err(NfsError::Acces));
    assert_eq!(read(&export, &bob, &file).unwrap(), "hiss");
}
