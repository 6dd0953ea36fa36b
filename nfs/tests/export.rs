//! Tests the memory and directory exports against the rules of RFC 1813 section 3.3.

#![allow(clippy::unwrap_used, clippy::cast_possible_truncation, reason = "a test may fail")]

use std::collections::HashSet;
use std::os::unix::fs::PermissionsExt;

use bytes::Bytes;
use rpcrdma_nfs::export::directory::{DirectoryExport, HandleKey};
use rpcrdma_nfs::export::memory::MemoryExport;
use rpcrdma_nfs::export::{
    Attributes, Before, CreateHow, Entry, Export, ExportLimits, FileHandle, FileKind, FileTime, NfsCaller,
    NfsError, NfsVerifier, Outcome, SetAttributes, SetTime, Stability, TryExport, Wcc, access_bits,
};
use rpcrdma_nfs::nfs::ExportPolicy;

/// Defines two tests for each function, one per export.
macro_rules! on_both {
    ($($name:ident),* $(,)?) => {
        mod in_memory { $(#[test] fn $name() { super::$name(&super::MemoryExport::default()); })* }
        mod in_a_directory { $(#[test] fn $name() {
            let dir = super::writable_by_all();
            super::$name(&super::DirectoryExport::open(dir.path()).unwrap());
        })* }
    };
}

on_both!(
    written_data_is_read_back,
    a_write_beyond_the_end_fills_the_gap_with_zeros,
    attributes_are_set_and_guarded,
    changes_report_attributes_before_and_after,
    an_unchecked_create_opens_an_existing_file,
    a_create_with_invalid_attributes_creates_no_file,
    a_repeated_exclusive_create_succeeds,
    an_owner_reads_and_writes_regardless_of_the_mode,
    a_removed_file_is_stale,
    handles_survive_renames,
    a_file_with_a_long_path_is_served,
    a_rename_replaces_only_a_file_of_the_same_kind,
    a_directory_cannot_move_below_itself,
    a_linked_file_exists_until_its_last_name_is_removed,
    directories_are_removed_when_empty,
    symbolic_links_are_kept_and_not_followed,
    names_are_single_components,
    a_listing_resumes_at_its_cookie,
    foreign_handles_are_refused,
    file_kinds_are_distinguished,
    pipes_and_sockets_have_names,
);

const WHO: NfsCaller = NfsCaller::ROOT;

fn writable_by_all() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    dir
}

fn make(export: &impl Export, dir: &FileHandle, name: &str) -> FileHandle {
    let how = CreateHow::Guarded(SetAttributes { mode: Some(0o640), ..SetAttributes::default() });
    export.create(&WHO, dir, name.as_bytes(), &how).result.unwrap().handle
}

fn make_dir(export: &impl Export, dir: &FileHandle, name: &str) -> FileHandle {
    export.mkdir(&WHO, dir, name.as_bytes(), &SetAttributes::default()).result.unwrap().handle
}

fn write(export: &impl Export, file: &FileHandle, offset: u64, data: &[u8]) {
    let data = Bytes::copy_from_slice(data);
    let written = export.write(&WHO, file, offset, &data, Stability::FileSync).result.unwrap();
    assert_eq!(written.count as usize, data.len());
    assert_eq!(written.committed, Stability::FileSync);
}

fn read(export: &impl Export, file: &FileHandle, offset: u64, count: u32) -> (Vec<u8>, bool) {
    let read = export.read(&WHO, file, offset, count).unwrap();
    (read.data.to_vec(), read.eof)
}

fn size(size: u64) -> SetAttributes {
    SetAttributes { size: Some(size), ..SetAttributes::default() }
}

fn list(export: &impl Export, dir: &FileHandle, cookie: u64, max: usize) -> (Vec<Entry>, bool) {
    let verifier = if cookie == 0 {
        NfsVerifier::default()
    } else {
        export.list(&WHO, dir, (0, NfsVerifier::default()), false, &mut |_| false).unwrap().verifier
    };
    let mut entries = Vec::new();
    let mut take = |entry| {
        let fits = entries.len() < max;
        if fits {
            entries.push(entry);
        }
        fits
    };
    let end = export.list(&WHO, dir, (cookie, verifier), true, &mut take).unwrap();
    (entries, end.eof)
}

fn written_data_is_read_back(export: &impl Export) {
    let file = make(export, &export.root(), "file");
    let data: Vec<u8> = (0..300_001_u32).map(|index| (index % 251) as u8).collect();
    write(export, &file, 0, &data);
    write(export, &file, 100_000, b"other");
    assert_eq!(export.attributes(&file).unwrap().size, 300_001);
    assert_eq!(
        read(export, &file, 99_999, 7).0,
        [&data[99_999..100_000], b"other", &data[100_005..100_006]].concat()
    );
    assert_eq!(read(export, &file, 299_999, 2), (data[299_999..].to_vec(), true));
    assert_eq!(read(export, &file, 299_998, 2), (data[299_998..300_000].to_vec(), false));
    assert_eq!(read(export, &file, 300_001, 10), (Vec::new(), true));
    assert_eq!(read(export, &file, u64::MAX, 10), (Vec::new(), true));
    assert!(export.commit(&WHO, &file, 0, 0).result.is_ok());
}

fn a_write_beyond_the_end_fills_the_gap_with_zeros(export: &impl Export) {
    let file = make(export, &export.root(), "file");
    write(export, &file, 5, b"x");
    assert_eq!(read(export, &file, 0, 100), (b"\0\0\0\0\0x".to_vec(), true));
    export.set_attributes(&WHO, &file, &size(2), None).result.unwrap();
    export.set_attributes(&WHO, &file, &size(4), None).result.unwrap();
    assert_eq!(read(export, &file, 0, 100), (vec![0; 4], true));
    let far = export.write(&WHO, &file, u64::MAX - 1, &Bytes::from_static(b"xyz"), Stability::Unstable);
    assert_eq!(far.result.unwrap_err(), NfsError::FBig);
    assert_eq!(far.wcc.after.unwrap().size, 4);
}

fn attributes_are_set_and_guarded(export: &impl Export) {
    let file = make(export, &export.root(), "file");
    let old = export.attributes(&file).unwrap();
    assert_eq!((old.kind, old.mode, old.nlink, old.size), (FileKind::Regular, 0o640, 1, 0));
    let time = FileTime { seconds: 1_000_000_000, nanoseconds: 5 };
    let new = SetAttributes {
        mode: Some(0o600),
        atime: Some(SetTime::To(time)),
        mtime: Some(SetTime::To(time)),
        ..size(3)
    };
    let late = FileTime { seconds: old.ctime.seconds, nanoseconds: old.ctime.nanoseconds ^ 1 };
    let refused = export.set_attributes(&WHO, &file, &new, Some(late));
    assert_eq!(refused.result, Err(NfsError::NotSync));
    assert_eq!(export.attributes(&file).unwrap(), old);
    export.set_attributes(&WHO, &file, &new, Some(old.ctime)).result.unwrap();
    let now = export.attributes(&file).unwrap();
    assert_eq!((now.mode, now.size, now.atime, now.mtime), (0o600, 3, time, time));
    let now = SetAttributes { mtime: Some(SetTime::Now), ..SetAttributes::default() };
    export.set_attributes(&WHO, &file, &now, None).result.unwrap();
    assert!(export.attributes(&file).unwrap().mtime > time);
    let wrong = Some(SetTime::To(FileTime { seconds: 1, nanoseconds: 1_000_000_000 }));
    let wrong = SetAttributes { atime: wrong, ..SetAttributes::default() };
    assert_eq!(export.set_attributes(&WHO, &file, &wrong, None).result, Err(NfsError::Inval));
    assert_eq!(export.set_attributes(&WHO, &export.root(), &size(1), None).result, Err(NfsError::IsDir));
}

fn changes_report_attributes_before_and_after(export: &impl Export) {
    let check_wcc = |wcc: &Wcc, before: &Attributes, file: &FileHandle| {
        assert_eq!(wcc.before, Some(Before::from(before)));
        assert_eq!(wcc.after, export.attributes(file).ok());
    };
    let root = export.root();
    let before = export.attributes(&root).unwrap();
    let made = export.create(&WHO, &root, b"file", &CreateHow::Unchecked(SetAttributes::default()));
    check_wcc(&made.wcc, &before, &root);
    let file = made.result.unwrap().handle;
    let before = export.attributes(&file).unwrap();
    let written = export.write(&WHO, &file, 0, &Bytes::from_static(b"abc"), Stability::Unstable);
    check_wcc(&written.wcc, &before, &file);
    let before = export.attributes(&file).unwrap();
    check_wcc(&export.set_attributes(&WHO, &file, &size(1), None).wcc, &before, &file);
    let before = export.attributes(&file).unwrap();
    check_wcc(&export.commit(&WHO, &file, 0, 0).wcc, &before, &file);
    let new = SetAttributes::default();
    let in_root = |change: &dyn Fn() -> Wcc| {
        let before = export.attributes(&root).unwrap();
        check_wcc(&change(), &before, &root);
    };
    in_root(&|| export.mkdir(&WHO, &root, b"dir", &new).wcc);
    in_root(&|| export.symlink(&WHO, &root, b"symlink", &Bytes::from_static(b"to"), &new).wcc);
    in_root(&|| export.mknod(&WHO, &root, b"pipe", (FileKind::Fifo, (0, 0)), &new).wcc);
    in_root(&|| export.link(&WHO, &file, &root, b"link").wcc);
    in_root(&|| export.remove(&WHO, &root, b"link").wcc);
    let refused = |change: &dyn Fn() -> (Wcc, Option<NfsError>), error| {
        in_root(&|| {
            let (wcc, refused) = change();
            assert_eq!(refused, Some(error));
            wcc
        });
    };
    let why = |Outcome { result, wcc }| (wcc, Result::err(result));
    refused(&|| why(export.remove(&WHO, &root, b"other")), NfsError::NoEnt);
    refused(&|| why(export.remove(&WHO, &root, b"dir")), NfsError::IsDir);
    refused(&|| why(export.rmdir(&WHO, &root, b"file")), NfsError::NotDir);
    let dir = export.lookup(&WHO, &root, b"dir").unwrap().handle;
    let before = [&root, &dir].map(|dir| export.attributes(dir).unwrap());
    let renamed = export.rename(&WHO, (&root, b"file"), (&dir, b"moved"));
    assert_eq!(renamed.result, Ok(()));
    check_wcc(&renamed.from, &before[0], &root);
    check_wcc(&renamed.to, &before[1], &dir);
    export.remove(&WHO, &dir, b"moved").result.unwrap();
    in_root(&|| export.rmdir(&WHO, &root, b"dir").wcc);
}

fn an_unchecked_create_opens_an_existing_file(export: &impl Export) {
    let root = export.root();
    let file = make(export, &root, "file");
    write(export, &file, 0, b"content");
    let how = CreateHow::Unchecked(SetAttributes { mode: Some(0o777), ..SetAttributes::default() });
    let again = export.create(&WHO, &root, b"file", &how).result.unwrap();
    assert_eq!((again.handle, again.attributes.size, again.attributes.mode), (file, 7, 0o640));
    let again = export.create(&WHO, &root, b"file", &CreateHow::Unchecked(size(0))).result.unwrap();
    assert_eq!((again.handle, again.attributes.size), (file, 0));
    let guarded = CreateHow::Guarded(size(0));
    assert_eq!(export.create(&WHO, &root, b"file", &guarded).result.unwrap_err(), NfsError::Exist);
    make_dir(export, &root, "dir");
    assert_eq!(export.create(&WHO, &root, b"dir", &how).result.unwrap_err(), NfsError::Exist);
}

fn a_create_with_invalid_attributes_creates_no_file(export: &impl Export) {
    let root = export.root();
    let no_time = Some(SetTime::To(FileTime { seconds: 1, nanoseconds: 1_000_000_000 }));
    let times = [(no_time, None), (None, no_time)];
    for new in times.map(|(atime, mtime)| SetAttributes { atime, mtime, ..SetAttributes::default() }) {
        for how in [CreateHow::Guarded(new.clone()), CreateHow::Unchecked(new.clone())] {
            assert_eq!(export.create(&WHO, &root, b"name", &how).result.unwrap_err(), NfsError::Inval);
        }
        assert_eq!(export.mkdir(&WHO, &root, b"name", &new).result.unwrap_err(), NfsError::Inval);
        let target = Bytes::from_static(b"to");
        assert_eq!(export.symlink(&WHO, &root, b"name", &target, &new).result.unwrap_err(), NfsError::Inval);
        let made = export.mknod(&WHO, &root, b"name", (FileKind::Fifo, (0, 0)), &new);
        assert_eq!(made.result.unwrap_err(), NfsError::Inval);
        assert_eq!(export.lookup(&WHO, &root, b"name").unwrap_err(), NfsError::NoEnt);
    }
}

fn a_repeated_exclusive_create_succeeds(export: &impl Export) {
    let root = export.root();
    let create = |verifier| export.create(&WHO, &root, b"file", &CreateHow::Exclusive(verifier)).result;
    let first = create(*b"\x81bcdefgh").unwrap();
    assert_eq!(create(*b"\x81bcdefgh").unwrap().handle, first.handle);
    assert_eq!(create(*b"\x81bcdefgi").unwrap_err(), NfsError::Exist);
}

/// NFS has no OPEN, so a program that opens its file and then removes the permissions must still be able to
/// access the file.
fn an_owner_reads_and_writes_regardless_of_the_mode(export: &impl Export) {
    let owner = NfsCaller { uid: 1000, gid: 1000, gids: vec![] };
    let mode = |mode| SetAttributes { mode: Some(mode), ..SetAttributes::default() };
    let how = CreateHow::Guarded(mode(0o444));
    let file = export.create(&owner, &export.root(), b"file", &how).result.unwrap().handle;
    let data = Bytes::from_static(b"content");
    export.write(&owner, &file, 0, &data, Stability::Unstable).result.unwrap();
    export.set_attributes(&owner, &file, &mode(0), None).result.unwrap();
    export.set_attributes(&owner, &file, &size(3), None).result.unwrap();
    assert_eq!(export.read(&owner, &file, 0, 9).unwrap().data, "con");
    export.commit(&owner, &file, 0, 0).result.unwrap();
    assert_eq!(export.attributes(&file).unwrap().mode, 0);
}

fn a_removed_file_is_stale(export: &impl Export) {
    let root = export.root();
    let file = make(export, &root, "file");
    export.remove(&WHO, &root, b"file").result.unwrap();
    assert_eq!(export.attributes(&file).unwrap_err(), NfsError::Stale);
    assert_eq!(export.read(&WHO, &file, 0, 1).unwrap_err(), NfsError::Stale);
    assert_eq!(export.lookup(&WHO, &root, b"file").unwrap_err(), NfsError::NoEnt);
    let later = make(export, &root, "file");
    assert_ne!(later, file, "a new file has a new handle");
    assert_eq!(export.attributes(&file).unwrap_err(), NfsError::Stale);
}

fn handles_survive_renames(export: &impl Export) {
    let root = export.root();
    let (a, b) = (make_dir(export, &root, "a"), make_dir(export, &root, "b"));
    let inner = make_dir(export, &a, "inner");
    let file = make(export, &inner, "file");
    write(export, &file, 0, b"content");
    let renamed = export.rename(&WHO, (&root, b"a"), (&b, b"moved"));
    renamed.result.unwrap();
    assert_eq!(renamed.to.after.unwrap().nlink, export.attributes(&b).unwrap().nlink);
    export.rename(&WHO, (&inner, b"file"), (&root, b"top")).result.unwrap();
    assert_eq!(read(export, &file, 0, 9).0, b"content");
    assert_eq!(export.lookup(&WHO, &a, b"..").unwrap().handle, b);
    assert_eq!(export.lookup(&WHO, &a, b"inner").unwrap().handle, inner);
    assert_eq!(export.lookup(&WHO, &root, b"..").unwrap().handle, root);
    assert_eq!(export.lookup(&WHO, &root, b"top").unwrap().handle, file);
    assert_eq!(export.rename(&WHO, (&root, b"a"), (&root, b"c")).result, Err(NfsError::NoEnt));
}

/// Makes a directory whose path is longer than 4,095 bytes, the maximum in a system call.
fn make_long_path(export: &impl Export) -> FileHandle {
    let name = "n".repeat(250);
    (0..40).fold(export.root(), |dir, _| make_dir(export, &dir, &name))
}

fn a_file_with_a_long_path_is_served(export: &impl Export) {
    let deepest = make_long_path(export);
    let file = make(export, &deepest, "file");
    write(export, &file, 0, b"content");
    assert_eq!(read(export, &file, 0, 100), (b"content".to_vec(), true));
    assert_eq!(export.lookup(&WHO, &deepest, b"file").unwrap().handle, file);
    export.remove(&WHO, &deepest, b"file").result.unwrap();
    assert_eq!(export.attributes(&file).unwrap_err(), NfsError::Stale);
}

fn a_rename_replaces_only_a_file_of_the_same_kind(export: &impl Export) {
    let root = export.root();
    let (one, two) = (make(export, &root, "one"), make(export, &root, "two"));
    let dir = make_dir(export, &root, "dir");
    let full = make_dir(export, &root, "full");
    make(export, &full, "entry");
    let rename =
        |from: &str, to: &str| export.rename(&WHO, (&root, from.as_bytes()), (&root, to.as_bytes())).result;
    assert_eq!(rename("one", "dir"), Err(NfsError::Exist));
    assert_eq!(rename("dir", "one"), Err(NfsError::Exist));
    assert_eq!(rename("dir", "full"), Err(NfsError::Exist));
    assert_eq!(rename("one", "one"), Ok(()));
    assert_eq!(rename("one", "two"), Ok(()));
    assert_eq!(export.attributes(&two).unwrap_err(), NfsError::Stale);
    assert_eq!(export.lookup(&WHO, &root, b"two").unwrap().handle, one);
    assert_eq!(rename("full", "dir"), Ok(()));
    assert_eq!(export.attributes(&dir).unwrap_err(), NfsError::Stale);
    assert!(export.lookup(&WHO, &full, b"entry").is_ok());
}

fn a_directory_cannot_move_below_itself(export: &impl Export) {
    let root = export.root();
    let a = make_dir(export, &root, "a");
    let b = make_dir(export, &a, "b");
    assert_eq!(export.rename(&WHO, (&root, b"a"), (&b, b"c")).result, Err(NfsError::Inval));
    assert_eq!(export.rename(&WHO, (&root, b"a"), (&a, b"c")).result, Err(NfsError::Inval));
    assert_eq!(export.attributes(&root).unwrap().nlink, 3);
}

fn a_linked_file_exists_until_its_last_name_is_removed(export: &impl Export) {
    let root = export.root();
    let file = make(export, &root, "one");
    let dir = make_dir(export, &root, "dir");
    export.link(&WHO, &file, &dir, b"two").result.unwrap();
    assert_eq!(export.link(&WHO, &file, &dir, b"two").result, Err(NfsError::Exist));
    assert_eq!(export.link(&WHO, &dir, &root, b"loop").result, Err(NfsError::IsDir));
    assert_eq!(export.attributes(&file).unwrap().nlink, 2);
    // Renaming between two names of one file has no effect.
    export.rename(&WHO, (&root, b"one"), (&dir, b"two")).result.unwrap();
    assert_eq!(export.lookup(&WHO, &root, b"one").unwrap().handle, file);
    export.remove(&WHO, &root, b"one").result.unwrap();
    assert_eq!(export.attributes(&file).unwrap().nlink, 1);
    export.remove(&WHO, &dir, b"two").result.unwrap();
    assert_eq!(export.attributes(&file).unwrap_err(), NfsError::Stale);
}

fn directories_are_removed_when_empty(export: &impl Export) {
    let root = export.root();
    let dir = make_dir(export, &root, "dir");
    make(export, &dir, "file");
    assert_eq!(export.rmdir(&WHO, &root, b"dir").result, Err(NfsError::NotEmpty));
    assert_eq!(export.rmdir(&WHO, &dir, b"file").result, Err(NfsError::NotDir));
    assert_eq!(export.remove(&WHO, &root, b"dir").result, Err(NfsError::IsDir));
    export.remove(&WHO, &dir, b"file").result.unwrap();
    assert_eq!(export.rmdir(&WHO, &dir, b".").result, Err(NfsError::Inval));
    assert_eq!(export.rmdir(&WHO, &dir, b"..").result, Err(NfsError::Exist));
    export.rmdir(&WHO, &root, b"dir").result.unwrap();
    assert_eq!(export.attributes(&dir).unwrap_err(), NfsError::Stale);
    assert_eq!(export.lookup(&WHO, &dir, b"file").unwrap_err(), NfsError::Stale);
}

fn symbolic_links_are_kept_and_not_followed(export: &impl Export) {
    let root = export.root();
    let target = Bytes::from_static(b"../../etc/passwd");
    let link = export.symlink(&WHO, &root, b"link", &target, &SetAttributes::default()).result.unwrap();
    assert_eq!(link.attributes.kind, FileKind::Symlink);
    assert_eq!(export.readlink(&WHO, &link.handle).unwrap(), target);
    assert_eq!(export.lookup(&WHO, &root, b"link").unwrap().handle, link.handle);
    assert_eq!(export.read(&WHO, &link.handle, 0, 10).unwrap_err(), NfsError::Inval);
    assert_eq!(export.set_attributes(&WHO, &link.handle, &size(0), None).result, Err(NfsError::Inval));
    let up = Bytes::from_static(b"/");
    let up = export.symlink(&WHO, &root, b"up", &up, &SetAttributes::default()).result.unwrap().handle;
    assert_eq!(export.lookup(&WHO, &up, b"etc").unwrap_err(), NfsError::NotDir);
    let how = CreateHow::Unchecked(size(0));
    assert_eq!(export.create(&WHO, &up, b"file", &how).result.unwrap_err(), NfsError::NotDir);
    assert_eq!(export.create(&WHO, &root, b"link", &how).result.unwrap_err(), NfsError::Exist);
    let file = make(export, &root, "file");
    assert_eq!(export.readlink(&WHO, &file).unwrap_err(), NfsError::Inval);
    let long = Bytes::from(vec![b'x'; 5000]);
    let long = export.symlink(&WHO, &root, b"long", &long, &SetAttributes::default());
    assert_eq!(long.result.unwrap_err(), NfsError::NameTooLong);
}

fn names_are_single_components(export: &impl Export) {
    let root = export.root();
    let long = [b'n'; 256];
    let cases: [(&[u8], NfsError); 4] = [
        (b"", NfsError::Acces),
        (b"a/b", NfsError::Acces),
        (b"nul\0", NfsError::Acces),
        (&long, NfsError::NameTooLong),
    ];
    let file = make(export, &root, "file");
    for (name, error) in cases {
        assert_eq!(export.lookup(&WHO, &root, name).unwrap_err(), error);
        let how = CreateHow::Unchecked(SetAttributes::default());
        assert_eq!(export.create(&WHO, &root, name, &how).result.unwrap_err(), error);
        assert_eq!(export.mkdir(&WHO, &root, name, &SetAttributes::default()).result.unwrap_err(), error);
        assert_eq!(export.remove(&WHO, &root, name).result, Err(error));
        assert_eq!(export.rename(&WHO, (&root, b"file"), (&root, name)).result, Err(error));
        assert_eq!(export.rename(&WHO, (&root, name), (&root, b"x")).result, Err(error));
        assert_eq!(export.link(&WHO, &file, &root, name).result, Err(error));
    }
    for name in [&b"."[..], b".."] {
        assert_eq!(
            export.mkdir(&WHO, &root, name, &SetAttributes::default()).result.unwrap_err(),
            NfsError::Exist
        );
        assert_eq!(export.rename(&WHO, (&root, b"file"), (&root, name)).result, Err(NfsError::Inval));
    }
    make(export, &root, std::str::from_utf8(&long[..255]).unwrap());
}

fn a_listing_resumes_at_its_cookie(export: &impl Export) {
    let root = export.root();
    let dir = make_dir(export, &root, "dir");
    let names: Vec<String> = (0..500).map(|index| format!("name{index}")).collect();
    for name in &names {
        make(export, &dir, name);
    }
    let (all, eof) = list(export, &dir, 0, usize::MAX);
    assert!(eof);
    assert_eq!(all.len(), 502);
    let mut seen = HashSet::new();
    let mut cookie = 0;
    for round in 0.. {
        let (entries, eof) = list(export, &dir, cookie, 7);
        for entry in &entries {
            assert!(seen.insert(entry.name.clone()), "{:?} twice", entry.name);
            assert_eq!(entry.found.as_ref().unwrap().attributes.fileid, entry.fileid);
            cookie = entry.cookie;
        }
        // Removing and adding names must not affect the listing of the remaining names.
        if let Some(gone) = entries.iter().find(|entry| entry.name.starts_with(b"name")) {
            export.remove(&WHO, &dir, &gone.name).result.unwrap();
        }
        make(export, &dir, &format!("new{round}"));
        if eof {
            break;
        }
        assert_eq!(entries.len(), 7);
        assert!(round < 500, "the listing does not end");
    }
    for name in &names {
        assert!(seen.contains(name.as_bytes()), "{name} was not seen");
    }
    assert!(seen.contains(&b"."[..]) && seen.contains(&b".."[..]));
    let dots = |name: &[u8]| all.iter().find(|entry| entry.name == name).unwrap().fileid;
    assert_eq!(dots(b"."), export.attributes(&dir).unwrap().fileid);
    assert_eq!(dots(b".."), export.attributes(&root).unwrap().fileid);
    let file = make(export, &root, "file");
    let refused = export.list(&WHO, &file, (0, NfsVerifier::default()), false, &mut |_| true);
    assert_eq!(refused.unwrap_err(), NfsError::NotDir);
}

fn foreign_handles_are_refused(export: &impl Export) {
    for len in [0, 1, 8, 15, 17, 31, 47, 49, 64] {
        let handle = FileHandle::new(&vec![1; len]).unwrap();
        assert_eq!(export.attributes(&handle).unwrap_err(), NfsError::BadHandle, "{len} bytes");
    }
    for len in [16, 48] {
        let handle = FileHandle::new(&vec![1; len]).unwrap();
        assert!(
            matches!(export.attributes(&handle), Err(NfsError::BadHandle | NfsError::Stale)),
            "{len} bytes"
        );
    }
    let mut bytes = export.root().to_vec();
    for index in 0..bytes.len() {
        bytes[index] ^= 1;
        let handle = FileHandle::new(&bytes).unwrap();
        assert_eq!(export.attributes(&handle).unwrap_err(), NfsError::Stale, "byte {index} changed");
        bytes[index] ^= 1;
    }
}

fn file_kinds_are_distinguished(export: &impl Export) {
    let root = export.root();
    let file = make(export, &root, "file");
    assert_eq!(export.lookup(&WHO, &file, b"x").unwrap_err(), NfsError::NotDir);
    assert_eq!(export.read(&WHO, &root, 0, 1).unwrap_err(), NfsError::IsDir);
    let written = export.write(&WHO, &root, 0, &Bytes::from_static(b"x"), Stability::Unstable);
    assert_eq!(written.result.unwrap_err(), NfsError::IsDir);
    let wrong = (FileKind::Regular, (0, 0));
    let wrong = export.mknod(&WHO, &root, b"device", wrong, &SetAttributes::default());
    assert_eq!(wrong.result.unwrap_err(), NfsError::BadType);
    let space = export.space(&root).unwrap();
    assert!(space.bytes[0] >= space.bytes[1] && space.bytes[1] >= space.bytes[2]);
}

fn pipes_and_sockets_have_names(export: &impl Export) {
    let root = export.root();
    let new = SetAttributes { mode: Some(0o640), ..SetAttributes::default() };
    for (name, kind) in [("pipe", FileKind::Fifo), ("socket", FileKind::Socket)] {
        let make = || export.mknod(&WHO, &root, name.as_bytes(), (kind, (0, 0)), &new).result;
        let made = make().unwrap();
        assert_eq!((made.attributes.kind, made.attributes.mode), (kind, 0o640));
        assert_eq!(make().unwrap_err(), NfsError::Exist);
        assert_eq!(export.read(&WHO, &made.handle, 0, 1).unwrap_err(), NfsError::Inval);
        assert_eq!(export.set_attributes(&WHO, &made.handle, &size(0), None).result, Err(NfsError::Inval));
        export.remove(&WHO, &root, name.as_bytes()).result.unwrap();
        assert_eq!(export.attributes(&made.handle).unwrap_err(), NfsError::Stale);
    }
}

/// A new server finds the files by walking the directory tree, and must also open long paths.
#[test]
fn handles_of_files_with_long_paths_survive_the_server() {
    let dir = tempfile::tempdir().unwrap();
    let key = HandleKey::random().unwrap();
    let export = DirectoryExport::open(dir.path()).unwrap().keyed(key.clone());
    let deepest = make_long_path(&export);
    let file = make(&export, &deepest, "file");
    write(&export, &file, 0, b"content");
    let export = DirectoryExport::open(dir.path()).unwrap().keyed(key);
    assert_eq!(read(&export, &file, 0, 100), (b"content".to_vec(), true));
    assert_eq!(export.lookup(&WHO, &deepest, b"file").unwrap().handle, file);
}

/// LOOKUP and MKDIR reject a directory more than 1,024 levels below the root: handles of its files would be
/// stale.
#[test]
fn a_directory_that_is_too_deep_is_refused() {
    let dir = writable_by_all();
    let path = |levels: usize| dir.path().join("d/".repeat(levels));
    std::fs::create_dir_all(path(1025)).unwrap();
    let export = DirectoryExport::open(dir.path()).unwrap();
    let below = |dir: &FileHandle| export.lookup(&WHO, dir, b"d").map(|found| found.handle);
    let deepest = (0..1024).fold(export.root(), |dir, _| below(&dir).unwrap());
    let file = make(&export, &deepest, "file");
    write(&export, &file, 0, b"content");
    assert_eq!(read(&export, &file, 0, 100), (b"content".to_vec(), true));
    assert_eq!(below(&deepest), Err(NfsError::NameTooLong));
    let (listed, eof) = list(&export, &deepest, 0, usize::MAX);
    let found = |name: &[u8]| listed.iter().find(|entry| entry.name == name).unwrap().found.is_some();
    assert!(eof && found(b"file") && !found(b"d"));
    std::fs::remove_dir(path(1025)).unwrap();
    let made = export.mkdir(&WHO, &deepest, b"d", &SetAttributes::default());
    assert_eq!(made.result.unwrap_err(), NfsError::NameTooLong);
    assert_eq!(below(&deepest), Err(NfsError::NoEnt), "the call created no directory");
    // `remove_dir_all` would need a descriptor for each level.
    export.remove(&WHO, &deepest, b"file").result.unwrap();
    (1..=1024).rev().for_each(|levels| std::fs::remove_dir(path(levels)).unwrap());
}

#[test]
fn handles_survive_the_server() {
    let dir = tempfile::tempdir().unwrap();
    let key = HandleKey::random().unwrap();
    let export = DirectoryExport::open(dir.path()).unwrap().keyed(key.clone());
    let below = make_dir(&export, &export.root(), "below");
    let [kept, moved, removed] = ["kept", "moved", "removed"].map(|name| make(&export, &below, name));
    write(&export, &kept, 0, b"content");
    drop(export);
    std::fs::rename(dir.path().join("below/moved"), dir.path().join("elsewhere")).unwrap();
    std::fs::remove_file(dir.path().join("below/removed")).unwrap();
    // An export with another key rejects the handles, even of existing files.
    let other = DirectoryExport::open(dir.path()).unwrap();
    for handle in [&kept, &below, &moved] {
        assert_eq!(other.attributes(handle).unwrap_err(), NfsError::Stale);
    }
    let export = DirectoryExport::open(dir.path()).unwrap().keyed(key);
    assert_eq!(export.read(&WHO, &kept, 0, 100).unwrap().data, "content");
    assert_eq!(export.attributes(&moved).unwrap().size, 0);
    assert_eq!(export.attributes(&removed).unwrap_err(), NfsError::Stale);
    assert_eq!(export.lookup(&WHO, &below, b"kept").unwrap().handle, kept);
    assert_eq!(export.lookup(&WHO, &below, b"..").unwrap().handle, export.root());
}

/// A hidden field requires users to write `..Default::default()`, so that later versions may add fields.
#[test]
fn options_of_exports_may_have_more_fields_later() {
    let () = ExportLimits::default().non_exhaustive;
    let () = ExportPolicy::default().non_exhaustive;
}

#[test]
fn memory_exports_own_only_their_handles() {
    let (one, other) = (MemoryExport::new(1000, 4), MemoryExport::new(1000, 4));
    for (export, another) in [(&one, &other), (&other, &one)] {
        let file = make(export, &export.root(), "file");
        assert!(export.owns(&export.root()) && export.owns(&file));
        assert!(!another.owns(&export.root()) && !another.owns(&file));
    }
}

#[test]
fn memory_export_enforces_its_limits() {
    let export = MemoryExport::new(1000, 4);
    let root = export.root();
    let file = make(&export, &root, "file");
    let refused = export.write(&WHO, &file, 0, &Bytes::from(vec![1; 1001]), Stability::Unstable);
    assert_eq!(refused.result.unwrap_err(), NfsError::NoSpc);
    write(&export, &file, 0, &[1; 1000]);
    // Overwritten bytes do not count toward the limit again.
    write(&export, &file, 0, &[2; 1000]);
    let refused = export.write(&WHO, &file, 500, &Bytes::from(vec![3; 501]), Stability::Unstable);
    assert_eq!(refused.result.unwrap_err(), NfsError::NoSpc);
    export.set_attributes(&WHO, &file, &size(u64::MAX >> 1), None).result.unwrap();
    assert_eq!(export.space(&root).unwrap().bytes, [1000, 0, 0]);
    export.remove(&WHO, &root, b"file").result.unwrap();
    assert_eq!(export.space(&root).unwrap().bytes, [1000, 1000, 1000]);
    for name in ["a", "b", "c"] {
        make(&export, &root, name);
    }
    let how = CreateHow::Unchecked(SetAttributes::default());
    assert_eq!(export.create(&WHO, &root, b"d", &how).result.unwrap_err(), NfsError::NoSpc);
}

#[test]
fn modes_limit_callers_in_memory() {
    let export = MemoryExport::default();
    let root = export.root();
    let alice = NfsCaller { uid: 1000, gid: 1000, gids: vec![] };
    let bob = NfsCaller { uid: 1001, gid: 1001, gids: vec![1000] };
    let how = CreateHow::Guarded(SetAttributes { mode: Some(0o640), ..SetAttributes::default() });
    let file = export.create(&alice, &root, b"file", &how).result.unwrap();
    assert_eq!((file.attributes.uid, file.attributes.gid), (1000, 1000));
    let data = Bytes::from_static(b"x");
    assert!(export.read(&bob, &file.handle, 0, 1).is_ok());
    let write = |caller| export.write(caller, &file.handle, 0, &data, Stability::Unstable).result.map(drop);
    assert_eq!(write(&bob), Err(NfsError::Acces));
    assert_eq!(write(&alice), Ok(()));
    assert_eq!(export.read(&NfsCaller::NOBODY, &file.handle, 0, 1).unwrap_err(), NfsError::Acces);
    let set = |caller, new: SetAttributes| export.set_attributes(caller, &file.handle, &new, None).result;
    assert_eq!(
        set(&bob, SetAttributes { mode: Some(0o777), ..SetAttributes::default() }),
        Err(NfsError::Perm)
    );
    assert_eq!(
        set(&alice, SetAttributes { uid: Some(1001), ..SetAttributes::default() }),
        Err(NfsError::Perm)
    );
    assert_eq!(set(&NfsCaller::ROOT, SetAttributes { uid: Some(1001), ..SetAttributes::default() }), Ok(()));
}

#[cfg(unix)]
#[test]
fn paths_outside_an_export_are_unreachable() {
    use std::fs;
    use std::os::unix::fs::symlink;

    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("file"), b"secret").unwrap();
    let dir = tempfile::tempdir().unwrap();
    let export = DirectoryExport::open(dir.path()).unwrap();
    let root = export.root();
    let inner = make_dir(&export, &root, "inner");
    let file = make(&export, &inner, "file");

    // A link replaces the parent directory. The link's target, outside the export, also contains `file`.
    fs::rename(dir.path().join("inner"), dir.path().join("elsewhere")).unwrap();
    symlink(outside.path(), dir.path().join("inner")).unwrap();
    assert!(export.read(&WHO, &file, 0, 100).is_err());
    assert!(export.write(&WHO, &file, 0, &Bytes::from_static(b"x"), Stability::FileSync).result.is_err());
    // The handle of the moved directory still refers to it, not to the link's target.
    assert_eq!(export.lookup(&WHO, &inner, b"file").unwrap().handle, file);

    let again = export.lookup(&WHO, &root, b"elsewhere").unwrap().handle;
    assert_eq!(again, inner);
    assert_eq!(export.attributes(&file).unwrap().size, 0);

    fs::rename(dir.path().join("elsewhere"), outside.path().join("moved")).unwrap();
    assert_eq!(export.attributes(&file).unwrap_err(), NfsError::Stale);
    assert_eq!(export.lookup(&WHO, &inner, b"..").unwrap_err(), NfsError::Stale);

    let file = make(&export, &root, "plain");
    fs::remove_file(dir.path().join("plain")).unwrap();
    symlink(outside.path().join("file"), dir.path().join("plain")).unwrap();
    assert_eq!(export.read(&WHO, &file, 0, 100).unwrap_err(), NfsError::Stale);
    assert_eq!(fs::read(outside.path().join("file")).unwrap(), b"secret");
}

/// A restarted server recognizes a retransmitted exclusive CREATE, and returns the same handle.
#[test]
fn exclusive_creates_and_handles_survive_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let key = HandleKey::random().unwrap();
    let first = DirectoryExport::open(dir.path()).unwrap().keyed(key.clone());
    let how = CreateHow::Exclusive(*b"verifier");
    let made = first.create(&WHO, &first.root(), b"file", &how).result.unwrap();
    let second = DirectoryExport::open(dir.path()).unwrap().keyed(key);
    assert_eq!(second.root(), first.root());
    assert_ne!(second.write_verifier(), first.write_verifier());
    let again = second.create(&WHO, &second.root(), b"file", &how).result.unwrap();
    assert_eq!(again.handle, made.handle);
}

#[test]
fn a_read_only_directory_grants_no_changes() {
    let dir = writable_by_all();
    std::fs::write(dir.path().join("file"), "content").unwrap();
    let export = DirectoryExport::open(dir.path()).unwrap().read_only(true);
    let file = export.lookup(&WHO, &export.root(), b"file").unwrap().handle;
    for handle in [export.root(), file] {
        let granted = export.access(&WHO, &handle, u32::MAX).unwrap().0;
        assert_eq!(granted & (access_bits::READ | access_bits::CHANGES), access_bits::READ);
        let tried = export.try_access(&WHO, &handle, u32::MAX);
        assert!(tried.is_none_or(|(tried, _)| tried == granted));
    }
}
