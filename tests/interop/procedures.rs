//! Calls the 22 procedures of NFS version 3 and checks their results and effects.

use std::fmt::Debug;

use bytes::Bytes;
use rpcrdma_nfs::client::ServerConnection;
use rpcrdma_nfs3::*;

type Nfs = nfs_v3::Client<ServerConnection>;

macro_rules! ok {
    ($call:expr, $res:ident) => {
        match $call.await.unwrap() {
            $res::Nfs3Ok(result) => result,
            refused => panic!("{refused:?}"),
        }
    };
}

fn name(dir: NfsFh3, name: &str) -> Diropargs3 {
    Diropargs3 { dir, name: Bytes::copy_from_slice(name.as_bytes()).into() }
}

async fn attributes(nfs: &Nfs, object: NfsFh3) -> Fattr3 {
    ok!(nfs.getattr(&Getattr3Args { object }), Getattr3Res).obj_attributes
}

/// Calls every procedure in a new directory below `root`, and removes the directory.
pub(crate) async fn every_procedure(nfs: &Nfs, root: NfsFh3, dir_name: &str) {
    nfs.null().await.unwrap();
    let mode = |mode| Sattr3 { mode: Some(mode), ..Sattr3::default() };
    let args = Mkdir3Args { r#where: name(root, dir_name), attributes: mode(0o755) };
    let dir = ok!(nfs.mkdir(&args), Mkdir3Res).obj.unwrap();
    assert_eq!(attributes(nfs, dir).await.r#type, Ftype3::Nf3dir);
    let args = Setattr3Args { object: dir, new_attributes: mode(0o750), guard: None };
    ok!(nfs.setattr(&args), Setattr3Res);
    assert_eq!(attributes(nfs, dir).await.mode & 0o7777, 0o750);

    let file = file(nfs, dir).await;
    links(nfs, dir, file).await;
    listings(nfs, dir).await;
    file_system(nfs, dir).await;

    let args = Rename3Args { from: name(dir, "file"), to: name(dir, "renamed") };
    ok!(nfs.rename(&args), Rename3Res);
    assert_eq!(lookup(nfs, dir, "renamed").await, file);
    for removed in ["renamed", "link", "symlink", "pipe"] {
        ok!(nfs.remove(&Remove3Args { object: name(dir, removed) }), Remove3Res);
    }
    let again = nfs.remove(&Remove3Args { object: name(dir, "renamed") }).await.unwrap();
    assert!(matches!(again, Remove3Res::Default(Nfsstat3::Nfs3errNoent, _)), "{again:?}");
    ok!(nfs.rmdir(&Rmdir3Args { object: name(root, dir_name) }), Rmdir3Res);
    let removed = match nfs.getattr(&Getattr3Args { object: dir }).await.unwrap() {
        Getattr3Res::Default(status) => status == Nfsstat3::Nfs3errStale,
        // Linux may briefly keep the removed directory, with a link count of 0.
        Getattr3Res::Nfs3Ok(of) => of.obj_attributes.nlink == 0,
    };
    assert!(removed, "the removed directory still exists");
}

async fn lookup(nfs: &Nfs, dir: NfsFh3, of: &str) -> NfsFh3 {
    ok!(nfs.lookup(&Lookup3Args { what: name(dir, of) }), Lookup3Res).object
}

async fn file(nfs: &Nfs, dir: NfsFh3) -> NfsFh3 {
    let create = |how| Create3Args { r#where: name(dir, "file"), how };
    let verifier = *b"verifier";
    let created = ok!(nfs.create(&create(Createhow3::Exclusive(verifier))), Create3Res).obj.unwrap();
    let again = ok!(nfs.create(&create(Createhow3::Exclusive(verifier))), Create3Res).obj.unwrap();
    assert_eq!(created, again, "a repeated exclusive CREATE must return the same file");
    let other = nfs.create(&create(Createhow3::Exclusive(*b"another_"))).await.unwrap();
    check_exists(&other, matches!(other, Create3Res::Default(Nfsstat3::Nfs3errExist, _)));
    let guarded = Createhow3::ObjAttributes(Createmode3::Guarded, Sattr3::default());
    let other = nfs.create(&create(guarded)).await.unwrap();
    check_exists(&other, matches!(other, Create3Res::Default(Nfsstat3::Nfs3errExist, _)));
    let new = Sattr3 { mode: Some(0o640), size: Some(0), ..Sattr3::default() };
    let unchecked = Createhow3::ObjAttributes(Createmode3::Unchecked, new);
    let file = ok!(nfs.create(&create(unchecked)), Create3Res).obj.unwrap();
    assert_eq!(file, created);

    let access = ok!(nfs.access(&Access3Args { object: file, access: 0x3f }), Access3Res).access;
    assert_eq!(access & 0x0d, 0x0d, "READ, MODIFY and EXTEND must be permitted");
    for (stable, offset) in [(StableHow::FileSync, 0), (StableHow::Unstable, 7)] {
        let data = Bytes::from_static(b"1234567");
        let args = Write3Args { file, offset, count: 7, stable, data: data.into() };
        let written = ok!(nfs.write(&args), Write3Res);
        assert_eq!(written.count, 7);
        let committed = ok!(nfs.commit(&Commit3Args { file, offset: 0, count: 0 }), Commit3Res);
        assert_eq!(committed.verf, written.verf);
        assert_eq!(committed.file_wcc.after.unwrap().size, offset + 7);
    }
    let read = ok!(nfs.read(&Read3Args { file, offset: 1, count: 100 }), Read3Res);
    assert_eq!(&read.data[..], b"2345671234567");
    assert!(read.eof && read.count == 13, "{read:?}");
    file
}

fn check_exists(result: &impl Debug, is_refused: bool) {
    assert!(is_refused, "expected NFS3ERR_EXIST: {result:?}");
}

async fn links(nfs: &Nfs, dir: NfsFh3, file: NfsFh3) {
    assert_eq!(lookup(nfs, dir, "file").await, file);
    let target = "../somewhere/else";
    let symlink = Symlinkdata3 {
        symlink_attributes: Sattr3::default(),
        symlink_data: Bytes::from_static(target.as_bytes()).into(),
    };
    let args = Symlink3Args { r#where: name(dir, "symlink"), symlink };
    let symlink = ok!(nfs.symlink(&args), Symlink3Res).obj.unwrap();
    let read = ok!(nfs.readlink(&Readlink3Args { symlink }), Readlink3Res);
    assert_eq!(&read.data[..], target.as_bytes());
    ok!(nfs.link(&Link3Args { file, link: name(dir, "link") }), Link3Res);
    assert_eq!(attributes(nfs, file).await.nlink, 2);
    let new = Sattr3 { mode: Some(0o600), ..Sattr3::default() };
    let what = Mknoddata3::PipeAttributes(Ftype3::Nf3fifo, new);
    let pipe = ok!(nfs.mknod(&Mknod3Args { r#where: name(dir, "pipe"), what }), Mknod3Res).obj.unwrap();
    let pipe = attributes(nfs, pipe).await;
    assert_eq!((pipe.r#type, pipe.mode & 0o7777), (Ftype3::Nf3fifo, 0o600));
}

async fn listings(nfs: &Nfs, dir: NfsFh3) {
    let expected = [".", "..", "file", "link", "pipe", "symlink"];
    let args = Readdir3Args { dir, cookie: 0, cookieverf: Default::default(), count: 8192 };
    let listed = ok!(nfs.readdir(&args), Readdir3Res).reply;
    assert!(listed.eof);
    let mut names: Vec<_> =
        listed.entries.iter().map(|entry| entry.name.to_str().unwrap().to_owned()).collect();
    names.sort();
    assert_eq!(names, expected);
    let args =
        Readdirplus3Args { dir, cookie: 0, cookieverf: Default::default(), dircount: 8192, maxcount: 32_768 };
    let listed = ok!(nfs.readdirplus(&args), Readdirplus3Res).reply;
    let mut names: Vec<_> =
        listed.entries.iter().map(|entry| entry.name.to_str().unwrap().to_owned()).collect();
    names.sort();
    assert_eq!(names, expected);
    let file = listed.entries.iter().find(|entry| &entry.name[..] == b"file").unwrap();
    assert_eq!(file.name_attributes.as_ref().unwrap().fileid, file.fileid);
    assert_eq!(file.name_handle, Some(lookup(nfs, dir, "file").await));
}

async fn file_system(nfs: &Nfs, root: NfsFh3) {
    let space = ok!(nfs.fsstat(&Fsstat3Args { fsroot: root }), Fsstat3Res);
    assert!(space.tbytes >= space.fbytes && space.fbytes >= space.abytes && space.tbytes > 0, "{space:?}");
    let limits = ok!(nfs.fsinfo(&Fsinfo3Args { fsroot: root }), Fsinfo3Res);
    assert!(limits.rtmax >= 65_536 && limits.wtmax >= 65_536, "{limits:?}");
    let names = ok!(nfs.pathconf(&Pathconf3Args { object: root }), Pathconf3Res);
    assert_eq!(names.name_max, 255);
}
