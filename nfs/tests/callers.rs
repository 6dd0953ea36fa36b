//! Access rights of callers in a directory that root serves, and confinement to it. Tests that need root
//! are recorded as not run for other users.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

use std::fs::{self, Permissions};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use rpcrdma_mount3::mount_v3::Handler;
use rpcrdma_mount3::{Mountres3, Mountstat3};
use rpcrdma_nfs::export::directory::{DirectoryExport, HandleKey};
use rpcrdma_nfs::export::{
    Caller, CreateHow, Entry, Error, Export, FileHandle, FileKind, Outcome, SetAttributes, Stability,
    TryExport, Verifier, access_bits,
};
use rpcrdma_nfs::nfs::{MountHandler, Policy, Squash};
use rpcrdma_runtime::program::{AuthSys, CallContext, Credential};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use tempfile::TempDir;

const NONE: SetAttributes =
    SetAttributes { mode: None, uid: None, gid: None, size: None, atime: None, mtime: None };

fn mode(mode: u32) -> SetAttributes {
    SetAttributes { mode: Some(mode), ..NONE }
}

fn alice() -> Caller {
    Caller { uid: 1000, gid: 1000, gids: vec![] }
}

/// Alice's group is one of his.
fn bob() -> Caller {
    Caller { uid: 1001, gid: 1001, gids: vec![1000] }
}

fn carol() -> Caller {
    Caller { uid: 1002, gid: 1002, gids: vec![] }
}

/// A directory with this mode, served by root; nothing, if these tests are not root's.
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

fn make(export: &DirectoryExport, who: &Caller, dir: &FileHandle, name: &str, bits: u32) -> FileHandle {
    export.create(who, dir, name.as_bytes(), &CreateHow::Guarded(mode(bits))).result.unwrap().handle
}

fn write(
    export: &DirectoryExport,
    who: &Caller,
    file: &FileHandle,
    data: &'static [u8],
) -> Result<u32, Error> {
    let Outcome { result, .. } = export.write(who, file, 0, &Bytes::from_static(data), Stability::Unstable);
    result.map(|written| written.count)
}

fn set(export: &DirectoryExport, who: &Caller, file: &FileHandle, new: SetAttributes) -> Result<(), Error> {
    export.set_attributes(who, file, &new, None).result
}

#[test]
fn callers_are_held_to_the_modes() {
    let Some((_dir, export)) = served_by_root(0o777) else { return };
    let file = make(&export, &alice(), &export.root(), "file", 0o640);
    assert_eq!(write(&export, &alice(), &file, b"content"), Ok(7));
    assert_eq!(write(&export, &bob(), &file, b"other"), Err(Error::Acces));
    let read = |who: &Caller| export.read(who, &file, 0, 100).map(|read| read.data);
    assert_eq!(read(&bob()).unwrap(), "content", "by one of his further groups");
    assert_eq!(read(&carol()).unwrap_err(), Error::Acces);
    assert_eq!(read(&Caller::NOBODY).unwrap_err(), Error::Acces);
    let all = access_bits::READ | access_bits::CHANGES | access_bits::EXECUTE;
    let access = |who: &Caller| export.access(who, &file, all).unwrap().0;
    assert_eq!(access(&alice()), access_bits::READ | access_bits::MODIFY | access_bits::EXTEND);
    assert_eq!((access(&bob()), access(&carol())), (access_bits::READ, 0));

    assert_eq!(set(&export, &bob(), &file, mode(0o777)), Err(Error::Perm));
    let owner = |uid, gid| SetAttributes { uid, gid, ..NONE };
    assert_eq!(set(&export, &alice(), &file, owner(Some(1001), None)), Err(Error::Perm));
    assert_eq!(set(&export, &alice(), &file, owner(None, Some(5))), Err(Error::Perm), "not her group");
    let twofold = Caller { gids: vec![5], ..alice() };
    assert_eq!(set(&export, &twofold, &file, owner(None, Some(5))), Ok(()));
    assert_eq!(set(&export, &Caller::ROOT, &file, owner(Some(1002), Some(1002))), Ok(()));
    assert_eq!(read(&alice()).unwrap_err(), Error::Acces);
    assert_eq!(read(&carol()).unwrap(), "content");
    let nobody_at_all = Caller { uid: u32::MAX, ..alice() };
    assert_eq!(read(&nobody_at_all).unwrap_err(), Error::Acces, "to the system it means: as it is");
}

#[test]
fn directories_are_held_to_their_modes() {
    let Some((_dir, export)) = served_by_root(0o755) else { return };
    let root = export.root();
    let how = CreateHow::Guarded(NONE);
    assert_eq!(export.create(&alice(), &root, b"file", &how).result.unwrap_err(), Error::Acces);
    assert_eq!(export.mkdir(&alice(), &root, b"dir", &NONE).result.unwrap_err(), Error::Acces);
    let shared = export.mkdir(&Caller::ROOT, &root, b"shared", &mode(0o1777)).result.unwrap().handle;
    make(&export, &alice(), &shared, "hers", 0o666);
    assert!(matches!(
        export.remove(&bob(), &shared, b"hers").result.unwrap_err(),
        Error::Perm | Error::Acces
    ));
    let moved = export.rename(&bob(), (&shared, b"hers"), (&shared, b"his")).result;
    assert!(matches!(moved.unwrap_err(), Error::Perm | Error::Acces), "the directory is sticky");

    let closed = export.mkdir(&alice(), &shared, b"closed", &mode(0o700)).result.unwrap().handle;
    let inner = make(&export, &alice(), &closed, "inner", 0o644);
    assert_eq!(export.lookup(&bob(), &closed, b"inner").unwrap_err(), Error::Acces);
    let list = |who: &Caller| export.list(who, &closed, (0, Verifier::default()), true, &mut |_| true);
    assert_eq!(list(&bob()).unwrap_err(), Error::Acces);
    assert!(list(&alice()).unwrap().eof);
    // A caller with the handle needs no access to the path: the handle corresponds to an open file of a
    // program.
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
    let policy = Policy { squash: Squash::Root, ..Policy::default() };
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
        assert_eq!(mount(other, "/closed").await, None, "to see that it is there is allowed: {other}");
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
    // In a directory whose new files inherit its group.
    let team = export.mkdir(&Caller::ROOT, &root, b"team", &mode(0o2777)).result.unwrap().handle;
    let group = SetAttributes { gid: Some(77), mode: Some(0o2777), ..NONE };
    set(&export, &Caller::ROOT, &team, group).unwrap();
    make(&export, &bob(), &team, "file", 0o600);
    export.mkdir(&bob(), &team, b"dir", &mode(0o755)).result.unwrap();
    for (name, bits) in [("file", 0o600), ("dir", 0o2755)] {
        let of = fs::metadata(dir.path().join("team").join(name)).unwrap();
        assert_eq!((of.uid(), of.gid(), of.mode() & 0o7777), (1001, 77, bits), "{name}");
    }
    // To give a file away while it is made is for root.
    let given = SetAttributes { uid: Some(5), gid: Some(6), ..mode(0o600) };
    for (name, who, uid) in [("alice's", alice(), 1000), ("root's", Caller::ROOT, 5)] {
        let how = CreateHow::Guarded(given.clone());
        let made = export.create(&who, &root, name.as_bytes(), &how).result.unwrap();
        assert_eq!(made.attributes.uid, uid);
    }
}

/// NFS has no open: calls may continue wherever a program with an open file could.
#[test]
fn nfs_permissions_beyond_mode_bits() {
    let Some((_dir, export)) = served_by_root(0o777) else { return };
    let root = export.root();
    let file = make(&export, &alice(), &root, "file", 0o000);
    assert_eq!(write(&export, &alice(), &file, b"content"), Ok(7), "the owner");
    assert_eq!(export.read(&alice(), &file, 0, 3).unwrap().data, "con");
    set(&export, &alice(), &file, SetAttributes { size: Some(2), ..NONE }).unwrap();
    assert_eq!(export.attributes(&file).unwrap().mode, 0, "it is the same all the while");
    assert_eq!(write(&export, &bob(), &file, b"other"), Err(Error::Acces), "and nobody else");
    set(&export, &alice(), &file, mode(0o031)).unwrap();
    assert_eq!(export.read(&carol(), &file, 0, 3).unwrap().data, "co", "who may run it");
    assert_eq!(write(&export, &bob(), &file, b"abc"), Ok(3));
    export.commit(&bob(), &file, 0, 0).result.unwrap();
    assert_eq!(export.commit(&carol(), &file, 0, 0).result, Ok(()));
    set(&export, &alice(), &file, mode(0)).unwrap();
    assert_eq!(export.commit(&bob(), &file, 0, 0).result, Err(Error::Acces));
}

/// A write by a caller other than the owner clears setuid and setgid.
#[test]
fn a_write_clears_setuid_and_setgid() {
    let Some((_dir, export)) = served_by_root(0o777) else { return };
    let file = make(&export, &alice(), &export.root(), "program", 0o4777);
    assert_eq!(export.attributes(&file).unwrap().mode, 0o4777);
    write(&export, &carol(), &file, b"other").unwrap();
    assert_eq!(export.attributes(&file).unwrap().mode, 0o777);
}

/// Whether this machine lets these tests create devices.
fn may_make_devices(dir: &Path) -> bool {
    use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
    let name = dir.join("tried");
    let made = mknodat(CWD, &name, FileType::CharacterDevice, Mode::RUSR, makedev(1, 3));
    made.is_ok() && fs::remove_file(name).is_ok()
}

#[test]
fn devices_are_made_for_root() {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), Permissions::from_mode(0o777)).unwrap();
    let export = DirectoryExport::open(dir.path()).unwrap();
    let root = export.root();
    let make = |who: &Caller, name: &str, kind, device| {
        export.mknod(who, &root, name.as_bytes(), (kind, device), &mode(0o600)).result
    };
    if !may_make_devices(dir.path()) {
        not_run::not_run("no device files can be made here");
        let refused = make(&Caller::ROOT, "device", FileKind::Block, (8, 1)).unwrap_err();
        assert_eq!(refused, Error::NotSupp);
        return;
    }
    for (name, kind, device) in
        [("block", FileKind::Block, (259, 70_000)), ("character", FileKind::Character, (1, 3))]
    {
        let made = make(&Caller::ROOT, name, kind, device).unwrap();
        assert_eq!((made.attributes.kind, made.attributes.rdev), (kind, device));
        let of = fs::metadata(dir.path().join(name)).unwrap().file_type();
        assert!(of.is_block_device() || of.is_char_device());
        assert_eq!(export.read(&Caller::ROOT, &made.handle, 0, 1).unwrap_err(), Error::Inval);
        assert_eq!(make(&alice(), "hers", kind, device).unwrap_err(), Error::Perm);
    }
    assert_eq!(make(&Caller::ROOT, "file", FileKind::Regular, (0, 0)).unwrap_err(), Error::BadType);
}

/// Inode numbers and creation times can be found out or guessed, but they yield no handle. Files below an
/// inaccessible directory stay out of reach.
#[test]
fn handles_are_not_guessed() {
    let Some((dir, export)) = served_by_root(0o777) else { return };
    let closed = export.mkdir(&alice(), &export.root(), b"closed", &mode(0o700)).result.unwrap().handle;
    let file = make(&export, &alice(), &closed, "file", 0o644);
    write(&export, &alice(), &file, b"hers").unwrap();
    assert_eq!(export.lookup(&carol(), &closed, b"file").unwrap_err(), Error::Acces);
    // All fields of a handle, from an attacker who knows everything but the key.
    let forger = DirectoryExport::open(dir.path()).unwrap();
    let closed_too = forger.lookup(&alice(), &forger.root(), b"closed").unwrap().handle;
    let forged = forger.lookup(&alice(), &closed_too, b"file").unwrap().handle;
    assert_eq!(forged.as_slice()[..32], file.as_slice()[..32]);
    assert_eq!(export.read(&carol(), &forged, 0, 10).unwrap_err(), Error::Stale);
    assert_eq!(export.attributes(&forged).unwrap_err(), Error::Stale);
    // Nor are parts of two good handles one.
    let mixed = [&file.as_slice()[..32], &closed.as_slice()[32..]].concat();
    assert_eq!(export.attributes(&FileHandle::new(&mixed).unwrap()).unwrap_err(), Error::Stale);
    assert_eq!(export.read(&alice(), &file, 0, 10).unwrap().data, "hers");
}

/// Ends a loop, also if the test fails: it is waited for.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A try operation finds one of these files, or none. Counts the files found and the files written.
fn try_and_blocking_operations_agree(
    export: &DirectoryExport,
    files: [&FileHandle; 2],
    dirs: [&FileHandle; 2],
    (known, written): &mut (u32, u32),
) {
    for file in files {
        *known += u32::from(export.try_attributes(file).is_some());
        if let Some((read, _)) = export.try_read(&Caller::ROOT, file, 0, 100) {
            assert_eq!(read.data, "public");
        }
        let data = Bytes::from_static(b"public");
        let put = export.try_write(&Caller::ROOT, file, 0, &data, Stability::Unstable);
        *written += u32::from(put.is_some());
    }
    for dir in dirs {
        if let Some((found, _)) = export.try_lookup(&Caller::ROOT, dir, b"file")
            && found.attributes.kind == FileKind::Regular
        {
            assert!(files.contains(&&found.handle));
        }
    }
}

/// Another process repeatedly moves directories and files away and replaces them by links, while calls use
/// them.
#[test]
fn races_stay_within_the_export() {
    let (known, written) = races_in(&std::env::temp_dir());
    eprintln!("{known} times at hand, {written} written so");
}

/// There, the write runs inline.
#[test]
fn races_in_memory_stay_within_the_export() {
    let memory = Path::new("/dev/shm");
    if let Err(error) = tempfile::tempdir_in(memory) {
        return not_run::not_run(format_args!("no file system in memory: /dev/shm: {error}"));
    }
    let (known, written) = races_in(memory);
    // Linux before 5.12 does not report this.
    assert!(written > 0 || known == 0, "nothing was written at hand");
}

fn races_in(place: &Path) -> (u32, u32) {
    let [outside, dir] = [(); 2].map(|()| tempfile::tempdir_in(place).unwrap());
    fs::write(outside.path().join("file"), b"secret").unwrap();
    let export = DirectoryExport::open(dir.path()).unwrap();
    let who = Caller::ROOT;
    let inner = export.mkdir(&who, &export.root(), b"inner", &NONE).result.unwrap().handle;
    let deep = export.mkdir(&who, &inner, b"deep", &NONE).result.unwrap().handle;
    let file = make(&export, &who, &inner, "file", 0o600);
    let below = make(&export, &who, &deep, "file", 0o600);
    for file in [&file, &below] {
        write(&export, &who, file, b"public").unwrap();
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
            try_and_blocking_operations_agree(&export, [&file, &below], [&inner, &deep], &mut tried);
            for file in [&file, &below] {
                match export.read(&who, file, 0, 100) {
                    Ok(read) => assert_eq!(read.data, "public"),
                    Err(_) => refused += 1,
                }
                done += u32::from(write(&export, &who, file, b"public").is_ok());
            }
            for dir in [&inner, &deep] {
                match export.lookup(&who, dir, b"file") {
                    Ok(found) if found.attributes.kind == FileKind::Regular => {
                        assert!([&file, &below].contains(&&found.handle));
                    }
                    _ => {}
                }
                let name = format!("new{round}");
                let made = export.create(&who, dir, name.as_bytes(), &CreateHow::Guarded(NONE)).result;
                if made.is_ok() {
                    let _ = export.remove(&who, dir, name.as_bytes());
                }
                let _ = export.set_attributes(&who, &file, &mode(0o600), None);
            }
        }
        assert!(done > 0, "nothing got through, {refused} were refused");
    });
    let left: Vec<_> =
        fs::read_dir(outside.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["file"]);
    assert_eq!(fs::read(outside.path().join("file")).unwrap(), b"secret");
    tried
}

/// Every Linux system has `/dev/pts`.
#[test]
fn nested_mounts_are_served_only_if_configured() {
    let (who, key) = (Caller::ROOT, HandleKey::random().unwrap());
    let export =
        |cross| DirectoryExport::open(Path::new("/dev")).unwrap().cross_mounts(cross).keyed(key.clone());
    let (export, crossing) = (export(false), export(true));
    let names = |export: &DirectoryExport, plus| {
        let mut names = Vec::new();
        let mut take = |entry: Entry| {
            names.push(String::from_utf8(entry.name.to_vec()).unwrap());
            true
        };
        export.list(&who, &export.root(), (0, Verifier::default()), plus, &mut take).unwrap();
        names
    };
    for plus in [false, true] {
        let (names, crossing) = (names(&export, plus), names(&crossing, plus));
        assert!(names.iter().any(|name| name == "null") && !names.iter().any(|name| name == "pts"));
        assert!(crossing.iter().any(|name| name == "pts"));
    }
    let root = export.root();
    assert_eq!(export.lookup(&who, &root, b"pts").map(drop), Err(Error::Acces));
    assert_eq!(export.rmdir(&who, &root, b"pts").result, Err(Error::Acces));
    let beyond = crossing.lookup(&who, &crossing.root(), b"pts").unwrap();
    assert_eq!(crossing.attributes(&beyond.handle), Ok(beyond.attributes));
    assert_eq!(export.attributes(&beyond.handle), Err(Error::Stale));
}

/// Another process replaces the new file by an older one.
#[test]
fn a_create_sets_no_attributes_of_another_file() {
    let dir = tempfile::tempdir().unwrap();
    let export = DirectoryExport::open(dir.path()).unwrap();
    let [new, old] = ["new", "old"].map(|name| dir.path().join(name));
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !ended.load(Ordering::SeqCst) {
                let _ = renameat_with(CWD, &new, CWD, &old, RenameFlags::EXCHANGE);
            }
        });
        let begun = Instant::now();
        let mut touched = false;
        while begun.elapsed() < Duration::from_secs(2) && !touched {
            let kept = fs::File::create(&old).unwrap();
            kept.set_permissions(Permissions::from_mode(0o600)).unwrap();
            let how = CreateHow::Guarded(mode(0o666));
            let made = export.create(&Caller::ROOT, &export.root(), b"new", &how).result;
            let kept = kept.metadata().unwrap();
            touched = kept.mode() & 0o777 != 0o600 || made.unwrap().attributes.fileid == kept.ino();
            for path in [&new, &old] {
                fs::remove_file(path).unwrap();
            }
        }
        ended.store(true, Ordering::SeqCst);
        assert!(!touched);
    });
}
