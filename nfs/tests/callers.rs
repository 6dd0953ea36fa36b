//! Tests access rights of callers in a directory that root serves, and confinement to that directory. If the
//! user is not root, tests that need root are recorded as not run.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

use std::fs::{self, Permissions};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use rpcrdma_mount3::mount_v3::Handler;
use rpcrdma_mount3::{Mountres3, Mountstat3};
use rpcrdma_nfs::export::directory::{DirectoryExport, HandleKey};
use rpcrdma_nfs::export::{
    CreateHow, Entry, Export, FileHandle, FileKind, NfsCaller, NfsError, NfsVerifier, Outcome, SetAttributes,
    Stability, TryExport, access_bits,
};
use rpcrdma_nfs::nfs::{ExportPolicy, MountHandler, Squash};
use rpcrdma_runtime::program::{AuthSys, CallContext, Credential};
use tempfile::TempDir;

const NONE: SetAttributes =
    SetAttributes { mode: None, uid: None, gid: None, size: None, atime: None, mtime: None };

fn mode(mode: u32) -> SetAttributes {
    SetAttributes { mode: Some(mode), ..NONE }
}

fn alice() -> NfsCaller {
    NfsCaller { uid: 1000, gid: 1000, gids: vec![] }
}

/// Returns a caller with alice's group as a supplementary group.
fn bob() -> NfsCaller {
    NfsCaller { uid: 1001, gid: 1001, gids: vec![1000] }
}

fn carol() -> NfsCaller {
    NfsCaller { uid: 1002, gid: 1002, gids: vec![] }
}

/// Returns a directory with this mode, served by root, or `None` if the tests do not run as root.
fn served_by_root(mode: u32) -> Option<(TempDir, DirectoryExport)> {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), Permissions::from_mode(mode)).unwrap();
    let export = DirectoryExport::open(dir.path()).unwrap();
    if !export.impersonates_callers() {
        not_run::not_run("only root can serve callers with their own rights");
        return None;
    }
    Some((dir, export))
}

fn make(export: &DirectoryExport, caller: &NfsCaller, dir: &FileHandle, name: &str, bits: u32) -> FileHandle {
    export.create(caller, dir, name.as_bytes(), &CreateHow::Guarded(mode(bits))).result.unwrap().handle
}

fn write(
    export: &DirectoryExport,
    caller: &NfsCaller,
    file: &FileHandle,
    data: &'static [u8],
) -> Result<u32, NfsError> {
    let Outcome { result, .. } =
        export.write(caller, file, 0, &Bytes::from_static(data), Stability::Unstable);
    result.map(|written| written.count)
}

fn set(
    export: &DirectoryExport,
    caller: &NfsCaller,
    file: &FileHandle,
    new: SetAttributes,
) -> Result<(), NfsError> {
    export.set_attributes(caller, file, &new, None).result
}

#[test]
fn modes_limit_callers() {
    let Some((_dir, export)) = served_by_root(0o777) else { return };
    let file = make(&export, &alice(), &export.root(), "file", 0o640);
    assert_eq!(write(&export, &alice(), &file, b"content"), Ok(7));
    assert_eq!(write(&export, &bob(), &file, b"other"), Err(NfsError::Acces));
    let read = |caller: &NfsCaller| export.read(caller, &file, 0, 100).map(|read| read.data);
    assert_eq!(read(&bob()).unwrap(), "content", "a supplementary group grants access");
    assert_eq!(read(&carol()).unwrap_err(), NfsError::Acces);
    assert_eq!(read(&NfsCaller::NOBODY).unwrap_err(), NfsError::Acces);
    let all = access_bits::READ | access_bits::CHANGES | access_bits::EXECUTE;
    let access = |caller: &NfsCaller| export.access(caller, &file, all).unwrap().0;
    assert_eq!(access(&alice()), access_bits::READ | access_bits::MODIFY | access_bits::EXTEND);
    assert_eq!((access(&bob()), access(&carol())), (access_bits::READ, 0));

    assert_eq!(set(&export, &bob(), &file, mode(0o777)), Err(NfsError::Perm));
    let owner = |uid, gid| SetAttributes { uid, gid, ..NONE };
    assert_eq!(set(&export, &alice(), &file, owner(Some(1001), None)), Err(NfsError::Perm));
    assert_eq!(
        set(&export, &alice(), &file, owner(None, Some(5))),
        Err(NfsError::Perm),
        "alice is not in the group"
    );
    let member = NfsCaller { gids: vec![5], ..alice() };
    assert_eq!(set(&export, &member, &file, owner(None, Some(5))), Ok(()));
    assert_eq!(set(&export, &NfsCaller::ROOT, &file, owner(Some(1002), Some(1002))), Ok(()));
    assert_eq!(read(&alice()).unwrap_err(), NfsError::Acces);
    assert_eq!(read(&carol()).unwrap(), "content");
    let caller_without_uid = NfsCaller { uid: u32::MAX, ..alice() };
    assert_eq!(
        read(&caller_without_uid).unwrap_err(),
        NfsError::Acces,
        "system calls interpret this uid as `unchanged`"
    );
}

#[test]
fn modes_limit_directory_access() {
    let Some((_dir, export)) = served_by_root(0o755) else { return };
    let root = export.root();
    let how = CreateHow::Guarded(NONE);
    assert_eq!(export.create(&alice(), &root, b"file", &how).result.unwrap_err(), NfsError::Acces);
    assert_eq!(export.mkdir(&alice(), &root, b"dir", &NONE).result.unwrap_err(), NfsError::Acces);
    let shared = export.mkdir(&NfsCaller::ROOT, &root, b"shared", &mode(0o1777)).result.unwrap().handle;
    make(&export, &alice(), &shared, "hers", 0o666);
    assert!(matches!(
        export.remove(&bob(), &shared, b"hers").result.unwrap_err(),
        NfsError::Perm | NfsError::Acces
    ));
    let moved = export.rename(&bob(), (&shared, b"hers"), (&shared, b"his")).result;
    assert!(matches!(moved.unwrap_err(), NfsError::Perm | NfsError::Acces), "the directory is sticky");

    let closed = export.mkdir(&alice(), &shared, b"closed", &mode(0o700)).result.unwrap().handle;
    let inner = make(&export, &alice(), &closed, "inner", 0o644);
    assert_eq!(export.lookup(&bob(), &closed, b"inner").unwrap_err(), NfsError::Acces);
    let list =
        |caller: &NfsCaller| export.list(caller, &closed, (0, NfsVerifier::default()), true, &mut |_| true);
    assert_eq!(list(&bob()).unwrap_err(), NfsError::Acces);
    assert!(list(&alice()).unwrap().eof);
    // Like a process that has opened the file, a caller with the handle needs no access to the path.
    assert!(export.read(&bob(), &inner, 0, 1).is_ok());
    assert_eq!(export.remove(&alice(), &shared, b"hers").result, Ok(()));
}

#[tokio::test]
async fn a_mount_needs_the_permissions_of_its_caller() {
    let Some((dir, export)) = served_by_root(0o755) else { return };
    fs::create_dir_all(dir.path().join("closed/inner")).unwrap();
    let closed = dir.path().join("closed");
    fs::set_permissions(&closed, Permissions::from_mode(0o700)).unwrap();
    std::os::unix::fs::chown(&closed, Some(1000), Some(1000)).unwrap();
    let policy = ExportPolicy { squash: Squash::Root, ..ExportPolicy::default() };
    let server = MountHandler::new(Arc::new(export)).policy(Arc::new(policy));
    let mount = async |uid: u32, path: &str| {
        let credential = Credential::Sys(AuthSys { uid, gid: uid, ..AuthSys::default() });
        let (peer, extensions) = (None, Default::default());
        let (xid, program, version, procedure) = (1, 100_005, 3, 1);
        let context = CallContext { xid, program, version, procedure, credential, peer, extensions };
        match server.mnt(&context, path.into()).await.unwrap() {
            Mountres3::Mnt3Ok(_) => None,
            Mountres3::Default(status) => Some(status),
        }
    };
    assert_eq!(mount(1000, "/closed/inner").await, None);
    for other in [0, 1001] {
        assert_eq!(mount(other, "/closed/inner").await, Some(Mountstat3::Mnt3errAcces), "{other}");
        assert_eq!(mount(other, "/closed").await, None, "user {other} may mount a visible directory");
    }
}

#[test]
fn callers_own_the_files_they_create() {
    let Some((dir, export)) = served_by_root(0o777) else { return };
    let root = export.root();
    make(&export, &bob(), &root, "file", 0o600);
    let inner = export.mkdir(&bob(), &root, b"dir", &mode(0o755)).result.unwrap().handle;
    make(&export, &bob(), &inner, "below", 0o600);
    export.symlink(&bob(), &root, b"link", &Bytes::from_static(b"to"), &NONE).result.unwrap();
    export.mknod(&bob(), &root, b"pipe", (FileKind::Fifo, (0, 0)), &mode(0o600)).result.unwrap();
    for name in ["file", "dir", "dir/below", "link", "pipe"] {
        let of = fs::symlink_metadata(dir.path().join(name)).unwrap();
        assert_eq!((of.uid(), of.gid()), (1001, 1001), "{name}");
    }
    // New files in this directory inherit its group.
    let team = export.mkdir(&NfsCaller::ROOT, &root, b"team", &mode(0o2777)).result.unwrap().handle;
    let group = SetAttributes { gid: Some(77), mode: Some(0o2777), ..NONE };
    set(&export, &NfsCaller::ROOT, &team, group).unwrap();
    make(&export, &bob(), &team, "file", 0o600);
    export.mkdir(&bob(), &team, b"dir", &mode(0o755)).result.unwrap();
    for (name, bits) in [("file", 0o600), ("dir", 0o2755)] {
        let of = fs::metadata(dir.path().join("team").join(name)).unwrap();
        assert_eq!((of.uid(), of.gid(), of.mode() & 0o7777), (1001, 77, bits), "{name}");
    }
    // Only root can create a file for another owner.
    let given = SetAttributes { uid: Some(5), gid: Some(6), ..mode(0o600) };
    for (name, caller, uid) in [("alice's", alice(), 1000), ("root's", NfsCaller::ROOT, 5)] {
        let how = CreateHow::Guarded(given.clone());
        let made = export.create(&caller, &root, name.as_bytes(), &how).result.unwrap();
        assert_eq!(made.attributes.uid, uid);
    }
}

/// NFS has no OPEN, so each call checks the permissions. The owner may therefore read and write a file
/// regardless of its mode, and execute permission permits reading (RFC 1813 section 4.4).
#[test]
fn nfs_permissions_beyond_mode_bits() {
    let Some((_dir, export)) = served_by_root(0o777) else { return };
    let root = export.root();
    let file = make(&export, &alice(), &root, "file", 0o000);
    assert_eq!(write(&export, &alice(), &file, b"content"), Ok(7), "the owner");
    assert_eq!(export.read(&alice(), &file, 0, 3).unwrap().data, "con");
    set(&export, &alice(), &file, SetAttributes { size: Some(2), ..NONE }).unwrap();
    assert_eq!(export.attributes(&file).unwrap().mode, 0, "the mode is unchanged");
    assert_eq!(write(&export, &bob(), &file, b"other"), Err(NfsError::Acces), "another user");
    set(&export, &alice(), &file, mode(0o031)).unwrap();
    assert_eq!(export.read(&carol(), &file, 0, 3).unwrap().data, "co", "execute permission");
    assert_eq!(write(&export, &bob(), &file, b"abc"), Ok(3));
    export.commit(&bob(), &file, 0, 0).result.unwrap();
    assert_eq!(export.commit(&carol(), &file, 0, 0).result, Ok(()));
    set(&export, &alice(), &file, mode(0)).unwrap();
    assert_eq!(export.commit(&bob(), &file, 0, 0).result, Err(NfsError::Acces));
}

#[test]
fn a_write_clears_setuid_and_setgid() {
    let Some((_dir, export)) = served_by_root(0o777) else { return };
    let file = make(&export, &alice(), &export.root(), "program", 0o4777);
    assert_eq!(export.attributes(&file).unwrap().mode, 0o4777);
    write(&export, &carol(), &file, b"other").unwrap();
    assert_eq!(export.attributes(&file).unwrap().mode, 0o777);
}

fn may_make_devices(dir: &Path) -> bool {
    use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
    let name = dir.join("tried");
    let made = mknodat(CWD, &name, FileType::CharacterDevice, Mode::RUSR, makedev(1, 3));
    made.is_ok() && fs::remove_file(name).is_ok()
}

#[test]
fn only_root_creates_devices() {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), Permissions::from_mode(0o777)).unwrap();
    let export = DirectoryExport::open(dir.path()).unwrap();
    let root = export.root();
    let make = |caller: &NfsCaller, name: &str, kind, device| {
        export.mknod(caller, &root, name.as_bytes(), (kind, device), &mode(0o600)).result
    };
    if !may_make_devices(dir.path()) {
        not_run::not_run("this machine does not permit device files");
        let refused = make(&NfsCaller::ROOT, "device", FileKind::Block, (8, 1)).unwrap_err();
        assert_eq!(refused, NfsError::NotSupp);
        return;
    }
    for (name, kind, device) in
        [("block", FileKind::Block, (259, 70_000)), ("character", FileKind::Character, (1, 3))]
    {
        let made = make(&NfsCaller::ROOT, name, kind, device).unwrap();
        assert_eq!((made.attributes.kind, made.attributes.rdev), (kind, device));
        let of = fs::metadata(dir.path().join(name)).unwrap().file_type();
        assert!(of.is_block_device() || of.is_char_device());
        assert_eq!(export.read(&NfsCaller::ROOT, &made.handle, 0, 1).unwrap_err(), NfsError::Inval);
        assert_eq!(make(&alice(), "hers", kind, device).unwrap_err(), NfsError::Perm);
    }
    assert_eq!(make(&NfsCaller::ROOT, "file", FileKind::Regular, (0, 0)).unwrap_err(), NfsError::BadType);
}

/// An attacker can find inode numbers and creation times, but cannot forge a handle from them. Files below an
/// inaccessible directory stay inaccessible.
#[test]
fn handles_cannot_be_forged() {
    let Some((dir, export)) = served_by_root(0o777) else { return };
    let closed = export.mkdir(&alice(), &export.root(), b"closed", &mode(0o700)).result.unwrap().handle;
    let file = make(&export, &alice(), &closed, "file", 0o644);
    write(&export, &alice(), &file, b"hers").unwrap();
    assert_eq!(export.lookup(&carol(), &closed, b"file").unwrap_err(), NfsError::Acces);
    // An attacker that knows everything except the key can forge all fields of a handle except the checksum.
    let forger = DirectoryExport::open(dir.path()).unwrap();
    let closed_too = forger.lookup(&alice(), &forger.root(), b"closed").unwrap().handle;
    let forged = forger.lookup(&alice(), &closed_too, b"file").unwrap().handle;
    assert_eq!(forged.as_slice()[..32], file.as_slice()[..32]);
    assert_eq!(export.read(&carol(), &forged, 0, 10).unwrap_err(), NfsError::Stale);
    assert_eq!(export.attributes(&forged).unwrap_err(), NfsError::Stale);
    // Parts of two valid handles do not form a valid handle.
    let mixed = [&file.as_slice()[..32], &closed.as_slice()[32..]].concat();
    assert_eq!(export.attributes(&FileHandle::new(&mixed).unwrap()).unwrap_err(), NfsError::Stale);
    assert_eq!(export.read(&alice(), &file, 0, 10).unwrap().data, "hers");
}

/// Sets the flag on drop, which ends the loop of another thread even if the test fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Checks that non-blocking calls access no regular file other than `files`. Adds the number of successful
/// reads of attributes to `known`, and the number of successful writes to `written`.
fn check_try_operations(
    export: &DirectoryExport,
    files: [&FileHandle; 2],
    dirs: [&FileHandle; 2],
    (known, written): &mut (u32, u32),
) {
    for file in files {
        *known += u32::from(export.try_attributes(file).is_some());
        if let Some((read, _)) = export.try_read(&NfsCaller::ROOT, file, 0, 100) {
            assert_eq!(read.data, "public");
        }
        let data = Bytes::from_static(b"public");
        let put = export.try_write(&NfsCaller::ROOT, file, 0, &data, Stability::Unstable);
        *written += u32::from(put.is_some());
    }
    for dir in dirs {
        if let Some((found, _)) = export.try_lookup(&NfsCaller::ROOT, dir, b"file")
            && found.attributes.kind == FileKind::Regular
        {
            assert!(files.contains(&&found.handle));
        }
    }
}

/// A thread acts as another process and repeatedly replaces directories and files with links, while calls
/// access their paths.
#[test]
fn races_stay_within_the_export() {
    let (known, written) = races_in(&std::env::temp_dir());
    eprintln!("non-blocking calls that succeeded: {known} reads of attributes, {written} writes");
}

/// On a file system in memory, some non-blocking writes succeed.
#[test]
fn races_in_memory_stay_within_the_export() {
    let memory = Path::new("/dev/shm");
    if let Err(error) = tempfile::tempdir_in(memory) {
        return not_run::not_run(format_args!("no file system in memory: /dev/shm: {error}"));
    }
    let (known, written) = races_in(memory);
    // Linux before 5.12 lacks RESOLVE_CACHED, so all non-blocking calls fail.
    assert!(written > 0 || known == 0, "no non-blocking write succeeded");
}

fn races_in(place: &Path) -> (u32, u32) {
    let [outside, dir] = [(); 2].map(|()| tempfile::tempdir_in(place).unwrap());
    fs::write(outside.path().join("file"), b"secret").unwrap();
    let export = DirectoryExport::open(dir.path()).unwrap();
    let caller = NfsCaller::ROOT;
    let inner = export.mkdir(&caller, &export.root(), b"inner", &NONE).result.unwrap().handle;
    let deep = export.mkdir(&caller, &inner, b"deep", &NONE).result.unwrap().handle;
    let file = make(&export, &caller, &inner, "file", 0o600);
    let below = make(&export, &caller, &deep, "file", 0o600);
    for file in [&file, &below] {
        write(&export, &caller, file, b"public").unwrap();
    }
    let (stop, mut tried) = (AtomicBool::new(false), (0, 0));
    let swap = |name: &str, target: &Path| {
        let (here, away) = (dir.path().join(name), dir.path().join("away"));
        fs::rename(&here, &away).unwrap();
        symlink(target, &here).unwrap();
        fs::remove_file(&here).unwrap();
        fs::rename(&away, &here).unwrap();
    };
    std::thread::scope(|scope| {
        let _stop = Stop(&stop);
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                swap("inner", outside.path());
                swap("inner/deep", outside.path());
                swap("inner/file", &outside.path().join("file"));
            }
        });
        let (mut done, mut refused) = (0, 0);
        for round in 0..3000_u32 {
            check_try_operations(&export, [&file, &below], [&inner, &deep], &mut tried);
            for file in [&file, &below] {
                match export.read(&caller, file, 0, 100) {
                    Ok(read) => assert_eq!(read.data, "public"),
                    Err(_) => refused += 1,
                }
                done += u32::from(write(&export, &caller, file, b"public").is_ok());
            }
            for dir in [&inner, &deep] {
                match export.lookup(&caller, dir, b"file") {
                    Ok(found) if found.attributes.kind == FileKind::Regular => {
                        assert!([&file, &below].contains(&&found.handle));
                    }
                    _ => {}
                }
                let name = format!("new{round}");
                let made = export.create(&caller, dir, name.as_bytes(), &CreateHow::Guarded(NONE)).result;
                if made.is_ok() {
                    let _ = export.remove(&caller, dir, name.as_bytes());
                }
                let _ = export.set_attributes(&caller, &file, &mode(0o600), None);
            }
        }
        assert!(done > 0, "no write succeeded; {refused} reads were refused");
    });
    let left: Vec<_> =
        fs::read_dir(outside.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["file"]);
    assert_eq!(fs::read(outside.path().join("file")).unwrap(), b"secret");
    tried
}

/// Uses `/dev/pts`, which Linux systems mount separately from `/dev`.
#[test]
fn nested_mounts_are_served_only_if_configured() {
    let (caller, key) = (NfsCaller::ROOT, HandleKey::random().unwrap());
    let export =
        |cross| DirectoryExport::open(Path::new("/dev")).unwrap().cross_mounts(cross).keyed(key.clone());
    let (export, crossing) = (export(false), export(true));
    let names = |export: &DirectoryExport, plus| {
        let mut names = Vec::new();
        let mut take = |entry: Entry| {
            names.push(String::from_utf8(entry.name.to_vec()).unwrap());
            true
        };
        export.list(&caller, &export.root(), (0, NfsVerifier::default()), plus, &mut take).unwrap();
        names
    };
    for plus in [false, true] {
        let (names, crossing) = (names(&export, plus), names(&crossing, plus));
        assert!(names.iter().any(|name| name == "null") && !names.iter().any(|name| name == "pts"));
        assert!(crossing.iter().any(|name| name == "pts"));
    }
    let root = export.root();
    assert_eq!(export.lookup(&caller, &root, b"pts").map(drop), Err(NfsError::Acces));
    assert_eq!(export.rmdir(&caller, &root, b"pts").result, Err(NfsError::Acces));
    let beyond = crossing.lookup(&caller, &crossing.root(), b"pts").unwrap();
    assert_eq!(crossing.attributes(&beyond.handle), Ok(beyond.attributes));
    assert_eq!(export.attributes(&beyond.handle), Err(NfsError::Stale));
}
