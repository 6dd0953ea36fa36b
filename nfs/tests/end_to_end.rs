//! Tests the client and the server against each other, over iWARP on this machine.

#![allow(clippy::unwrap_used, clippy::cast_possible_truncation, reason = "a test may fail")]

use std::fs;
use std::io::Cursor;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use rpcrdma_mount3::mount_v3;
use rpcrdma_nfs::client::{ClientError, NfsConnection, Remote, Url};
use rpcrdma_nfs::export::directory::DirectoryExport;
use rpcrdma_nfs::export::memory::MemoryExport;
use rpcrdma_nfs::export::{Export, NfsError};
use rpcrdma_nfs::nfs::{MountHandler, NfsHandler};
use rpcrdma_nfs3::*;
use rpcrdma_runtime::xdr::encoded_len;
use rpcrdma_runtime::{Client, Server};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

struct Running {
    address: String,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Running {
    async fn serve<E: Export>(export: E, read_only: bool) -> Self {
        let export = Arc::new(export);
        let server = Server::bind("127.0.0.1:0")
            .await
            .unwrap()
            .service(nfs_v3::Server(NfsHandler::new(export.clone()).read_only(read_only)))
            .service(mount_v3::Server(MountHandler::new(export)));
        let address = server.local_addr().unwrap().to_string();
        let (stop, stopped) = oneshot::channel();
        let run = async move {
            let shutdown = async { drop(stopped.await) };
            server.run(shutdown).await.unwrap();
        };
        Running { address, stop, task: tokio::spawn(run) }
    }

    async fn directory(path: &Path) -> Self {
        Running::serve(DirectoryExport::open(path).unwrap(), false).await
    }

    fn url(&self, path: &str) -> Url {
        format!("rdma://{}{path}", self.address).parse().unwrap()
    }

    async fn mount(&self) -> Remote {
        Remote::mount(&self.url("/")).await.unwrap()
    }

    async fn stop(self) {
        self.stop.send(()).unwrap();
        self.task.await.unwrap();
    }
}

/// Returns pseudorandom bytes, so that misplaced data is detected.
fn content(len: usize) -> Vec<u8> {
    (0..len).map(|index| (index.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

async fn put(remote: &Remote, name: &str, data: &[u8]) -> String {
    let root = remote.find(b"/").await.unwrap();
    let file = remote.create(&root, Bytes::copy_from_slice(name.as_bytes()), 0o640).await.unwrap();
    remote.write_file(&file, &mut Cursor::new(data), &|_| {}).await.unwrap().to_string()
}

async fn get(remote: &Remote, path: &str) -> (Vec<u8>, String) {
    let file = remote.find(path.as_bytes()).await.unwrap();
    let mut data = Vec::new();
    let mut take = |piece: Bytes| {
        data.extend_from_slice(&piece);
        Ok(())
    };
    let sum = remote.read_file(&file, &mut take).await.unwrap().to_string();
    (data, sum)
}

/// File sizes at or near the boundaries of words, pages and transfers, in bytes.
const SIZES: [usize; 12] = [0, 1, 3, 4, 1023, 4095, 4097, 65_537, 1_048_575, 1_048_576, 1_048_579, 5_000_001];

#[tokio::test(flavor = "multi_thread")]
async fn files_of_any_size_survive_a_round_trip() {
    let dir = tempfile::tempdir().unwrap();
    let server = Running::directory(dir.path()).await;
    let remote = server.mount().await;
    for size in SIZES {
        let data = content(size);
        let name = format!("file of {size}");
        let sent = put(&remote, &name, &data).await;
        assert!(fs::read(dir.path().join(&name)).unwrap() == data, "{size} bytes in the directory");
        let (read, received) = get(&remote, &format!("/{name}")).await;
        assert!(read == data, "{size} bytes read");
        assert_eq!(sent, received);
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn files_in_memory_survive_a_round_trip() {
    let server = Running::serve(MemoryExport::default(), false).await;
    let remote = server.mount().await;
    for size in SIZES {
        let data = content(size);
        let sent = put(&remote, "file", &data).await;
        let (read, received) = get(&remote, "/file").await;
        assert!(read == data, "{size} bytes");
        assert_eq!(sent, received);
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_is_replaced_by_a_shorter_one() {
    let dir = tempfile::tempdir().unwrap();
    let server = Running::directory(dir.path()).await;
    let remote = server.mount().await;
    put(&remote, "file", &content(100_000)).await;
    put(&remote, "file", b"short").await;
    assert_eq!(get(&remote, "/file").await.0, b"short");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_directory_is_listed_completely() {
    let dir = tempfile::tempdir().unwrap();
    for index in 0..1000 {
        fs::write(dir.path().join(format!("entry number {index}")), vec![0; index]).unwrap();
    }
    std::os::unix::fs::symlink("entry number 7", dir.path().join("link")).unwrap();
    let server = Running::directory(dir.path()).await;
    let remote = server.mount().await;
    let root = remote.find(b"/").await.unwrap();
    let items = remote.list(&root).await.unwrap();
    assert_eq!(items.len(), 1001);
    for item in &items {
        let name = std::str::from_utf8(&item.name).unwrap();
        match name.strip_prefix("entry number ") {
            Some(index) => assert_eq!(item.attributes.size, index.parse::<u64>().unwrap()),
            None => assert_eq!((name, item.target.as_deref()), ("link", Some(&b"entry number 7"[..]))),
        }
    }
    let mut names: Vec<_> = items.iter().map(|item| item.name.clone()).collect();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 1001, "each name once");
    server.stop().await;
}

fn refused(result: Result<impl Sized, ClientError>) -> (String, NfsError) {
    match result.map(|_| ()) {
        Err(ClientError::Status { path, status, .. }) => (path, NfsError::from_number(status).unwrap()),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_name_the_file_and_the_status() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("inner")).unwrap();
    fs::write(dir.path().join("inner/file"), b"x").unwrap();
    std::os::unix::fs::symlink("/etc", dir.path().join("etc")).unwrap();
    let server = Running::directory(dir.path()).await;
    let remote = server.mount().await;
    let is = |path: &str, error| (path.to_owned(), error);
    assert_eq!(refused(remote.find(b"/inner/none/file").await), is("/inner/none", NfsError::NoEnt));
    assert_eq!(refused(remote.find(b"/inner/file/more").await), is("/inner/file/more", NfsError::NotDir));
    assert_eq!(refused(remote.find(b"/etc/passwd").await), is("/etc/passwd", NfsError::NotDir));
    let above = remote.find(b"/../..").await.unwrap();
    assert_eq!(above.handle, remote.find(b"/").await.unwrap().handle, "`..` of the root is the root");
    let text = remote.find(b"/none").await.unwrap_err().to_string();
    assert_eq!(text, "/none: no such file or directory (LOOKUP: NFS3ERR_NOENT)");
    let link = remote.find(b"/etc").await.unwrap();
    assert!(matches!(remote.read_file(&link, &mut |_| Ok(())).await, Err(ClientError::Kind { .. })));
    let file = remote.find(b"/inner/file").await.unwrap();
    fs::remove_file(dir.path().join("inner/file")).unwrap();
    assert_eq!(refused(remote.read_file(&file, &mut |_| Ok(())).await), is("/inner/file", NfsError::Stale));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_only_server_refuses_every_change() {
    refuses_every_change(&tempfile::tempdir().unwrap()).await;
}

/// On a file system in memory, a server runs writes without the blocking pool. A read-only server must also
/// reject these writes.
#[tokio::test(flavor = "multi_thread")]
async fn a_read_only_server_in_memory_refuses_every_change() {
    match tempfile::tempdir_in("/dev/shm") {
        Ok(dir) => refuses_every_change(&dir).await,
        Err(error) => not_run::not_run(format_args!("no file system in memory: /dev/shm: {error}")),
    }
}

/// `count` must not exceed the length of `data`, and bytes beyond `count` are not written.
#[tokio::test(flavor = "multi_thread")]
async fn a_write_beyond_its_data_is_rejected() {
    let in_memory = tempfile::tempdir_in("/dev/shm").ok();
    for dir in in_memory.into_iter().chain([tempfile::tempdir().unwrap()]) {
        fs::write(dir.path().join("file"), b"content").unwrap();
        let server = Running::serve(DirectoryExport::open(dir.path()).unwrap(), false).await;
        let remote = server.mount().await;
        let file = remote.find(b"/file").await.unwrap().handle;
        let stable = StableHow::FileSync;
        let args = Write3Args { file, offset: 0, count: 4, stable, data: Bytes::from_static(b"abc").into() };
        let written = remote.nfs().write(&args).await.unwrap();
        assert!(matches!(written, Write3Res::Default(Nfsstat3::Nfs3errInval, _)), "{written:?}");
        assert_eq!(fs::read(dir.path().join("file")).unwrap(), b"content");
        let args = Write3Args { count: 2, ..args };
        let written = remote.nfs().write(&args).await.unwrap();
        let Write3Res::Nfs3Ok(written) = written else { panic!("{written:?}") };
        assert_eq!((written.count, written.committed), (2, StableHow::FileSync));
        assert_eq!(fs::read(dir.path().join("file")).unwrap(), b"abntent");
        server.stop().await;
    }
}

async fn refuses_every_change(dir: &tempfile::TempDir) {
    fs::write(dir.path().join("file"), b"content").unwrap();
    let server = Running::serve(DirectoryExport::open(dir.path()).unwrap(), true).await;
    let remote = server.mount().await;
    let root = remote.find(b"/").await.unwrap();
    let file = remote.find(b"/file").await.unwrap();
    assert_eq!(refused(remote.create(&root, Bytes::from_static(b"new"), 0o600).await).1, NfsError::RoFs);
    let written = remote.write_file(&file, &mut Cursor::new(b"other"), &|_| {}).await;
    assert_eq!(refused(written).1, NfsError::RoFs);
    let what = |name: &'static str| Diropargs3 { dir: root.handle, name: name.into() };
    let removed = remote.nfs().remove(&Remove3Args { object: what("file") }).await.unwrap();
    assert!(matches!(removed, Remove3Res::Default(Nfsstat3::Nfs3errRofs, _)));
    let renamed = remote.nfs().rename(&Rename3Args { from: what("file"), to: what("b") }).await.unwrap();
    assert!(matches!(renamed, Rename3Res::Default(Nfsstat3::Nfs3errRofs, _)));
    let args = Access3Args { object: file.handle, access: ACCESS3_READ | ACCESS3_MODIFY };
    let Access3Res::Nfs3Ok(access) = remote.nfs().access(&args).await.unwrap() else { panic!("no access") };
    assert_eq!(access.access, ACCESS3_READ);
    assert_eq!(get(&remote, "/file").await.0, b"content");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn listings_respect_the_requested_size() {
    let server = Running::serve(MemoryExport::default(), false).await;
    let remote = server.mount().await;
    let root = remote.find(b"/").await.unwrap();
    for index in 0..40 {
        let name = Bytes::from("n".repeat(1 + index * 6));
        remote.create(&root, name, 0o600).await.unwrap();
    }
    for count in [110, 500, 512, 1000, 4096] {
        let mut args = Readdir3Args { dir: root.handle, cookie: 0, cookieverf: [0; 8], count };
        let mut seen = 0;
        loop {
            match remote.nfs().readdir(&args).await.unwrap() {
                Readdir3Res::Nfs3Ok(some) => {
                    assert!(encoded_len(&some).unwrap() <= u64::from(count));
                    seen += some.reply.entries.len();
                    if some.reply.eof {
                        assert_eq!(seen, 42, "with {count} bytes");
                        break;
                    }
                    let last = some.reply.entries.last().unwrap();
                    args = Readdir3Args { cookie: last.cookie, cookieverf: some.cookieverf, ..args };
                }
                Readdir3Res::Default(status, _) => {
                    assert_eq!(status, Nfsstat3::Nfs3errToosmall);
                    assert!(count < 400, "with {count} bytes");
                    break;
                }
            }
        }
    }
    for (dircount, maxcount) in [(1, 1000), (100, 4096), (65_536, 1000), (65_536, 65_536)] {
        let mut args =
            Readdirplus3Args { dir: root.handle, cookie: 0, cookieverf: [0; 8], dircount, maxcount };
        let mut seen = 0;
        loop {
            let result = remote.nfs().readdirplus(&args).await.unwrap();
            let Readdirplus3Res::Nfs3Ok(some) = result else { panic!("{result:?}") };
            assert!(encoded_len(&some).unwrap() <= u64::from(maxcount));
            seen += some.reply.entries.len();
            if some.reply.eof {
                assert_eq!(seen, 42, "with {maxcount} bytes");
                break;
            }
            let last = some.reply.entries.last().unwrap();
            args = Readdirplus3Args { cookie: last.cookie, cookieverf: some.cookieverf, ..args };
        }
    }
    let stale = Readdir3Args { dir: root.handle, cookie: 5, cookieverf: [9; 8], count: 4096 };
    let refused = remote.nfs().readdir(&stale).await.unwrap();
    assert!(matches!(refused, Readdir3Res::Default(Nfsstat3::Nfs3errBadCookie, _)));
    server.stop().await;
}

/// Tests procedures that `put` and `get` do not use.
#[tokio::test(flavor = "multi_thread")]
async fn the_other_procedures_work() {
    let server = Running::serve(MemoryExport::default(), false).await;
    let remote = server.mount().await;
    let (nfs, root) = (remote.nfs(), remote.find(b"/").await.unwrap().handle);
    let what = |name: &'static str| Diropargs3 { dir: root, name: name.into() };
    nfs.null().await.unwrap();
    let made = nfs.mkdir(&Mkdir3Args { r#where: what("dir"), attributes: Sattr3::default() }).await.unwrap();
    assert!(matches!(&made, Mkdir3Res::Nfs3Ok(made) if made.dir_wcc.before.is_some()));
    let target = "t".repeat(4000);
    let symlink =
        Symlinkdata3 { symlink_attributes: Sattr3::default(), symlink_data: target.as_str().into() };
    let made = nfs.symlink(&Symlink3Args { r#where: what("link"), symlink }).await.unwrap();
    let Symlink3Res::Nfs3Ok(made) = made else { panic!("{made:?}") };
    assert_eq!(remote.readlink(made.obj.unwrap(), "/link").await.unwrap(), target);
    special_files(nfs, root).await;
    put(&remote, "file", b"content").await;
    let file = remote.find(b"/file").await.unwrap();
    let link = Link3Args { file: file.handle, link: what("second") };
    let Link3Res::Nfs3Ok(linked) = nfs.link(&link).await.unwrap() else { panic!("not linked") };
    assert_eq!(linked.file_attributes.unwrap().nlink, 2);
    let new = Sattr3 { size: Some(3), ..Sattr3::default() };
    let guard = Some(Nfstime3 { seconds: 1, nseconds: 1 });
    let set = Setattr3Args { object: file.handle, new_attributes: new, guard };
    let refused = nfs.setattr(&set).await.unwrap();
    assert!(matches!(refused, Setattr3Res::Default(Nfsstat3::Nfs3errNotSync, _)));
    assert!(matches!(
        nfs.setattr(&Setattr3Args { guard: None, ..set }).await.unwrap(),
        Setattr3Res::Nfs3Ok(_)
    ));
    assert_eq!(get(&remote, "/second").await.0, b"con");
    let write = Write3Args {
        file: file.handle,
        offset: 0,
        count: 10,
        stable: StableHow::FileSync,
        data: Bytes::from_static(b"short").into(),
    };
    assert!(matches!(nfs.write(&write).await.unwrap(), Write3Res::Default(Nfsstat3::Nfs3errInval, _)));
    let stat = nfs.fsstat(&Fsstat3Args { fsroot: root }).await.unwrap();
    assert!(matches!(stat, Fsstat3Res::Nfs3Ok(stat) if stat.tbytes > stat.fbytes));
    let conf = nfs.pathconf(&Pathconf3Args { object: root }).await.unwrap();
    assert!(matches!(conf, Pathconf3Res::Nfs3Ok(conf) if conf.name_max == 255 && conf.no_trunc));
    let removed = nfs.rmdir(&Rmdir3Args { object: what("dir") }).await.unwrap();
    assert!(matches!(removed, Rmdir3Res::Nfs3Ok(_)));
    let bad = NfsFh3 { data: FileHandle::new(b"no handle").unwrap() };
    let refused = nfs.getattr(&Getattr3Args { object: bad }).await.unwrap();
    assert!(matches!(refused, Getattr3Res::Default(Nfsstat3::Nfs3errBadhandle)));
    server.stop().await;
}

/// MKNOD: every caller can create pipes; only root can create devices.
async fn special_files(nfs: &nfs_v3::Client<NfsConnection>, root: NfsFh3) {
    let r#where = |name: &'static str| Diropargs3 { dir: root, name: name.into() };
    let made = async |name, what| nfs.mknod(&Mknod3Args { r#where: r#where(name), what }).await.unwrap();
    let attributes = Sattr3 { mode: Some(0o620), ..Sattr3::default() };
    let pipe = made("pipe", Mknoddata3::PipeAttributes(Ftype3::Nf3fifo, attributes)).await;
    let Mknod3Res::Nfs3Ok(pipe) = pipe else { panic!("{pipe:?}") };
    let of = pipe.obj_attributes.unwrap();
    assert_eq!((of.r#type, of.mode), (Ftype3::Nf3fifo, 0o620));
    let spec = Specdata3 { specdata1: 259, specdata2: 70_000 };
    for kind in [Ftype3::Nf3blk, Ftype3::Nf3chr] {
        let device = Devicedata3 { dev_attributes: attributes, spec };
        let name = if kind == Ftype3::Nf3blk { "block" } else { "character" };
        match made(name, Mknoddata3::Device(kind, device)).await {
            Mknod3Res::Nfs3Ok(made) => {
                let of = made.obj_attributes.unwrap();
                assert_eq!((of.r#type, of.rdev), (kind, spec));
            }
            Mknod3Res::Default(status, _) => {
                assert_eq!(status, Nfsstat3::Nfs3errPerm);
                assert!(!rustix::process::geteuid().is_root());
            }
        }
    }
    let wrong = made("file", Mknoddata3::Default(Ftype3::Nf3reg)).await;
    assert!(matches!(wrong, Mknod3Res::Default(Nfsstat3::Nfs3errBadtype, _)));
}

type FileHandle = rpcrdma_nfs::export::FileHandle;

#[tokio::test(flavor = "multi_thread")]
async fn mounts_are_listed_until_unmounted() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("a/b")).unwrap();
    fs::write(dir.path().join("file"), b"").unwrap();
    let server = Running::directory(dir.path()).await;
    let mount = mount_v3::Client(Client::connect(server.address.as_str()).await.unwrap());
    let status = async |path: &str| match mount.mnt(&path.into()).await.unwrap() {
        rpcrdma_mount3::Mountres3::Mnt3Ok(found) => Ok(found.auth_flavors),
        rpcrdma_mount3::Mountres3::Default(status) => Err(status),
    };
    assert_eq!(status("/a/b/").await, Ok(vec![1, 0]));
    assert_eq!(status("/").await, Ok(vec![1, 0]));
    assert_eq!(status("/file").await, Err(rpcrdma_mount3::Mountstat3::Mnt3errNotdir));
    assert_eq!(status("/none").await, Err(rpcrdma_mount3::Mountstat3::Mnt3errNoent));
    let mounts = async || {
        let list = mount.dump().await.unwrap().0;
        list.into_iter().map(|mount| mount.ml_directory.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(mounts().await, ["/a/b/", "/"]);
    mount.umnt(&"/a/b/".into()).await.unwrap();
    assert_eq!(mounts().await, ["/"]);
    mount.umntall().await.unwrap();
    assert!(mounts().await.is_empty());
    assert_eq!(mount.export().await.unwrap().0.len(), 1);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_clients_are_independent() {
    let dir = tempfile::tempdir().unwrap();
    let server = Running::directory(dir.path()).await;
    let url = server.url("/");
    let tasks: Vec<_> = (0..8)
        .map(|client| {
            let url = url.clone();
            tokio::spawn(async move {
                let remote = Remote::mount(&url).await.unwrap();
                let data = content(3_000_000 + client);
                let name = format!("client{client}");
                let sent = put(&remote, &name, &data).await;
                let (read, received) = get(&remote, &format!("/{name}")).await;
                assert!(read == data && sent == received, "client {client}");
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    server.stop().await;
}
