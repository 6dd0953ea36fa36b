//! The client against a difficult server: short reads and writes, entries without attributes, restarts, a
//! busy server, rejected calls, files that change during a copy, endless listings, and invalid names and
//! times.

#![allow(clippy::unwrap_used, clippy::cast_possible_truncation, reason = "a test may fail")]

use std::io::Cursor;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use rpcrdma_mount3::mount_v3;
use rpcrdma_nfs::client::{ClientError, Remote, this_user};
use rpcrdma_nfs::export::memory::MemoryExport;
use rpcrdma_nfs::export::{
    Attributes, Cookie, CreateHow, Entry, Export, ExportLimits, FileHandle, FileTime, Found, Listed,
    NfsCaller, NfsError, NfsVerifier, Outcome, ReadData, Renamed, SetAttributes, Space, Stability, TryExport,
    WriteResult,
};
use rpcrdma_nfs::nfs::{MountHandler, NfsHandler};
use rpcrdma_nfs3::NfsFh3;
use rpcrdma_nfs3::nfs_v3::{self, NfsV3};
use rpcrdma_runtime::{Client, ClientOptions, Config, Server, Services, serve_connection};
use rpcrdma_sim::fabric::{Fabric, FabricConfig};
use tokio::sync::watch;
use tokio::time::Instant;

/// The maximum number of bytes that the server reads or writes per call.
const SHORT: usize = 70_001;

struct Reluctant {
    inner: MemoryExport,
    writes: AtomicU32,
    /// The numbers (from 0) of the WRITEs after which the server simulates a restart before it replies.
    restarts: &'static [u32],
    restarted: AtomicU32,
    /// How many of the next LOOKUPs, READs and WRITEs fail with NFS3ERR_JUKEBOX.
    busy: AtomicU32,
    /// A name, and the error that LOOKUP returns for it. If the name is empty, READLINK returns the error
    /// instead.
    refuses: Option<(&'static [u8], NfsError)>,
    /// True if the file changes with each READ.
    changes: bool,
    /// The modification time of all files, instead of the real time.
    mtime: Option<FileTime>,
    lists: Lists,
    invented: AtomicU64,
}

/// The server's response to READDIRPLUS.
#[derive(Clone, Copy, Debug)]
enum Lists {
    /// The entries, without attributes.
    Honestly,
    /// A listing without end. Each entry has this name and a new cookie. The client omits entries named `.`
    /// from a listing.
    Endlessly(&'static [u8]),
    /// Entries with repeated cookies.
    RepeatedCookies,
    /// Each directory contains an entry with the directory's own handle.
    Itself,
    /// Each directory contains a directory with a new handle.
    Deeply,
    /// The root contains a directory with this name.
    Named(&'static [u8]),
    /// All entries of the root, except `.` and `..`, have this name.
    Same(&'static [u8]),
}

impl Reluctant {
    fn new(restarts: &'static [u32]) -> Self {
        let (inner, writes, restarted) = (MemoryExport::default(), AtomicU32::new(0), AtomicU32::new(0));
        let (lists, invented, busy) = (Lists::Honestly, AtomicU64::new(0), AtomicU32::new(0));
        let (refuses, changes, mtime) = (None, false, None);
        Reluctant { inner, writes, restarts, restarted, busy, refuses, changes, mtime, lists, invented }
    }

    fn must_not_be_busy(&self) -> Result<(), NfsError> {
        let calls = self.busy.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |calls| calls.checked_sub(1));
        if calls.is_ok() { Err(NfsError::JukeBox) } else { Ok(()) }
    }

    fn changed(&self, attributes: Attributes) -> Attributes {
        Attributes { mtime: self.mtime.unwrap_or(attributes.mtime), ..attributes }
    }

    fn filled() -> Self {
        let this = Reluctant::new(&[]);
        let (root, new) = (this.inner.root(), SetAttributes::default());
        let how = CreateHow::Guarded(new.clone());
        let file = this.inner.create(&NfsCaller::ROOT, &root, b"file", &how).result.unwrap().handle;
        let data = Bytes::from_static(b"content");
        this.inner.write(&NfsCaller::ROOT, &file, 0, &data, Stability::FileSync).result.unwrap();
        this.inner
            .symlink(&NfsCaller::ROOT, &root, b"link", &Bytes::from_static(b"to"), &new)
            .result
            .unwrap();
        this
    }
}

macro_rules! pass_on {
    ($(fn $name:ident(&self $(, $arg:ident: $ty:ty)*) -> $res:ty;)*) => {
        $(fn $name(&self $(, $arg: $ty)*) -> $res { self.inner.$name($($arg),*) })*
    };
}

impl TryExport for Reluctant {}

impl Export for Reluctant {
    const BLOCKS: bool = false;

    fn write_verifier(&self) -> NfsVerifier {
        u64::from(self.restarted.load(Ordering::SeqCst)).to_be_bytes()
    }

    fn read(
        &self,
        caller: &NfsCaller,
        file: &FileHandle,
        offset: u64,
        count: u32,
    ) -> Result<ReadData, NfsError> {
        self.must_not_be_busy()?;
        let read = self.inner.read(caller, file, offset, count.min(SHORT as u32));
        if self.changes {
            let data = Bytes::from_static(b"other");
            self.inner.write(&NfsCaller::ROOT, file, 0, &data, Stability::FileSync).result.unwrap();
        }
        read
    }

    fn attributes(&self, file: &FileHandle) -> Result<Attributes, NfsError> {
        self.inner.attributes(file).map(|attributes| self.changed(attributes))
    }

    fn lookup(&self, caller: &NfsCaller, dir: &FileHandle, name: &[u8]) -> Result<Found, NfsError> {
        self.must_not_be_busy()?;
        match self.refuses {
            Some((refused, error)) if refused == name => Err(error),
            _ => {
                let found = self.inner.lookup(caller, dir, name)?;
                Ok(Found { attributes: self.changed(found.attributes), ..found })
            }
        }
    }

    fn readlink(&self, caller: &NfsCaller, file: &FileHandle) -> Result<Bytes, NfsError> {
        match self.refuses {
            Some((b"", error)) => Err(error),
            _ => self.inner.readlink(caller, file),
        }
    }

    fn write(
        &self,
        caller: &NfsCaller,
        file: &FileHandle,
        offset: u64,
        data: &Bytes,
        stable: Stability,
    ) -> Outcome<WriteResult> {
        if let Err(error) = self.must_not_be_busy() {
            return Outcome::failed(error);
        }
        let Outcome { result, wcc } =
            self.inner.write(caller, file, offset, &data.slice(..data.len().min(SHORT)), stable);
        let write = self.writes.fetch_add(1, Ordering::SeqCst);
        if self.restarts.contains(&write) {
            // The restart loses written data.
            self.restarted.fetch_add(1, Ordering::SeqCst);
            let empty = SetAttributes { size: Some(0), ..SetAttributes::default() };
            self.inner.set_attributes(caller, file, &empty, None).result.unwrap();
        }
        Outcome { result: result.map(|done| WriteResult { committed: Stability::Unstable, ..done }), wcc }
    }

    fn list(
        &self,
        caller: &NfsCaller,
        dir: &FileHandle,
        after: (Cookie, NfsVerifier),
        _plus: bool,
        take: &mut dyn FnMut(Entry) -> bool,
    ) -> Result<Listed, NfsError> {
        let attributes = self.inner.attributes(&self.inner.root())?;
        let verifier = NfsVerifier::default();
        let mut entry = |name: &[u8], cookie, handle| {
            let found = Some(Found { handle, attributes: attributes.clone() });
            take(Entry { fileid: 1, name: Bytes::copy_from_slice(name), cookie, found })
        };
        match self.lists {
            Lists::Honestly => return self.inner.list(caller, dir, after, false, take),
            Lists::Same(name) if *dir == self.inner.root() => {
                let mut rename = |entry: Entry| match &entry.name[..] {
                    b"." | b".." => take(entry),
                    _ => take(Entry { name: Bytes::from_static(name), ..entry }),
                };
                return self.inner.list(caller, dir, after, true, &mut rename);
            }
            Lists::Same(_) => return self.inner.list(caller, dir, after, true, take),
            Lists::Endlessly(name) => {
                let mut cookies = after.0 + 1..;
                while entry(name, cookies.next().unwrap(), *dir) {}
                return Ok(Listed { verifier, eof: false });
            }
            Lists::RepeatedCookies => {
                entry(b"name", (after.0 + 1) % 3, *dir);
                return Ok(Listed { verifier, eof: false });
            }
            Lists::Itself => entry(b"again", 1, *dir),
            Lists::Deeply => {
                let number = self.invented.fetch_add(1, Ordering::SeqCst);
                entry(b"d", 1, FileHandle::new(&number.to_be_bytes()).unwrap())
            }
            Lists::Named(name) => {
                *dir == self.inner.root() && entry(name, 1, FileHandle::new(b"below").unwrap())
            }
        };
        Ok(Listed { verifier, eof: true })
    }

    pass_on! {
        fn root(&self) -> FileHandle;
        fn limits(&self) -> ExportLimits;
        fn set_attributes(&self, caller: &NfsCaller, file: &FileHandle, new: &SetAttributes, guard: Option<FileTime>) -> Outcome<()>;
        fn access(&self, caller: &NfsCaller, file: &FileHandle, wanted: u32) -> Result<(u32, Attributes), NfsError>;
        fn create(&self, caller: &NfsCaller, dir: &FileHandle, name: &[u8], how: &CreateHow) -> Outcome<Found>;
        fn mkdir(&self, caller: &NfsCaller, dir: &FileHandle, name: &[u8], new: &SetAttributes) -> Outcome<Found>;
        fn symlink(&self, caller: &NfsCaller, dir: &FileHandle, name: &[u8], to: &Bytes, new: &SetAttributes) -> Outcome<Found>;
        fn remove(&self, caller: &NfsCaller, dir: &FileHandle, name: &[u8]) -> Outcome<()>;
        fn rmdir(&self, caller: &NfsCaller, dir: &FileHandle, name: &[u8]) -> Outcome<()>;
        fn rename(&self, caller: &NfsCaller, from: (&FileHandle, &[u8]), to: (&FileHandle, &[u8])) -> Renamed;
        fn link(&self, caller: &NfsCaller, file: &FileHandle, dir: &FileHandle, name: &[u8]) -> Outcome<()>;
        fn space(&self, file: &FileHandle) -> Result<Space, NfsError>;
        fn commit(&self, caller: &NfsCaller, file: &FileHandle, offset: u64, count: u32) -> Outcome<()>;
    }
}

async fn mount(export: Reluctant) -> Remote {
    Remote::mount(&serve(export).await.parse().unwrap()).await.unwrap()
}

async fn serve(export: Reluctant) -> String {
    let export = Arc::new(export);
    let server = Server::bind("127.0.0.1:0")
        .await
        .unwrap()
        .service(nfs_v3::Server(NfsHandler::new(export.clone())))
        .service(mount_v3::Server(MountHandler::new(export)));
    let url = format!("rdma://{}/", server.local_addr().unwrap());
    tokio::spawn(server.run(std::future::pending()));
    url
}

async fn put_and_get(remote: &Remote, data: &[u8]) -> Result<(), ClientError> {
    let root = remote.find(b"/").await?;
    let file = remote.create(&root, Bytes::from_static(b"file"), 0o600).await?;
    let sent = remote.write_file(&file, &mut Cursor::new(data), &|_| {}).await?;
    let mut read = Vec::new();
    let mut take = |piece: Bytes| {
        read.extend_from_slice(&piece);
        Ok(())
    };
    // The client reads to the end of the file, although `file` still has the size from before the WRITEs.
    let received = remote.read_file(&file, &mut take).await?;
    assert!(read == data);
    assert_eq!(sent, received);
    Ok(())
}

fn content() -> Vec<u8> {
    (0..3_000_001_u32).map(|index| (index % 249) as u8).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn short_reads_and_writes_continue() {
    let remote = mount(Reluctant::new(&[])).await;
    put_and_get(&remote, &content()).await.unwrap();
}

/// A reply of a few bytes occupies the memory of a complete READ, so short replies must not accumulate.
#[tokio::test(flavor = "multi_thread")]
async fn short_reads_are_merged() {
    let remote = mount(Reluctant::new(&[])).await;
    let root = remote.find(b"/").await.unwrap();
    let file = remote.create(&root, Bytes::from_static(b"file"), 0o600).await.unwrap();
    remote.write_file(&file, &mut Cursor::new(content()), &|_| {}).await.unwrap();
    let file = remote.refresh(&file).await.unwrap();
    let mut lens = Vec::new();
    let mut take = |data: Bytes| {
        lens.push(data.len());
        Ok(())
    };
    remote.read_file(&file, &mut take).await.unwrap();
    assert_eq!(lens, [1 << 20, 1 << 20, 3_000_001 - (2 << 20)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn data_lost_in_a_restart_is_rewritten() {
    let remote = mount(Reluctant::new(&[20])).await;
    put_and_get(&remote, &content()).await.unwrap();
    // The server loses the data of the only WRITE before it replies.
    let remote = mount(Reluctant::new(&[0])).await;
    put_and_get(&remote, &content()[..1000]).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_repeatedly_loses_data_fails_the_copy() {
    // Each of the three attempts has 43 WRITEs.
    let remote = mount(Reluctant::new(&[20, 60, 100, 130])).await;
    let error = put_and_get(&remote, &content()).await.unwrap_err();
    assert!(matches!(error, ClientError::Server { procedure: "COMMIT", .. }), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn entries_without_attributes_are_looked_up() {
    let remote = mount(Reluctant::new(&[])).await;
    let root = remote.find(b"/").await.unwrap();
    for index in 0..50 {
        remote.create(&root, Bytes::from(format!("file{index}")), 0o600).await.unwrap();
    }
    let items = remote.list(&root).await.unwrap();
    assert_eq!(items.len(), 50);
    assert!(items.iter().all(|item| item.attributes.mode == 0o600));
}

/// Mounts an export over the simulated fabric. With a socket, tokio's paused clock would advance while I/O is
/// pending.
async fn mount_in_memory(export: Arc<Reluctant>) -> Remote {
    let root = NfsFh3 { data: export.root() };
    let mut services = Services::new();
    services.add(nfs_v3::Server(NfsHandler::new(export)));
    let (_, client, server) = Fabric::pair(FabricConfig { automatic: true, ..FabricConfig::default() });
    let (_, stopping) = watch::channel(false);
    tokio::spawn(serve_connection(server, services, Config::of::<NfsV3>(), stopping));
    let options = ClientOptions { credential: this_user(), ..ClientOptions::of::<NfsV3>() };
    Remote::of(Client::over(client, options), root).await.unwrap()
}

/// Linux's server is busy (NFS3ERR_JUKEBOX) while it waits for a user-space program, such as one that maps
/// users.
#[tokio::test(start_paused = true)]
async fn calls_to_a_busy_server_are_repeated() {
    let export = Arc::new(Reluctant::filled());
    let remote = mount_in_memory(export.clone()).await;
    let root = remote.top().await.unwrap();
    let start = Instant::now();
    export.busy.store(2, Ordering::SeqCst);
    let file = remote.lookup_in(&root, Bytes::from_static(b"file")).await.unwrap();
    export.busy.store(2, Ordering::SeqCst);
    let mut read = Vec::new();
    let mut take = |data: Bytes| {
        read.extend_from_slice(&data);
        Ok(())
    };
    remote.read_file(&file, &mut take).await.unwrap();
    assert_eq!(read, b"content");
    let own = remote.create(&root, Bytes::from_static(b"own"), 0o600).await.unwrap();
    export.busy.store(2, Ordering::SeqCst);
    remote.write_file(&own, &mut Cursor::new(b"written"), &|_| {}).await.unwrap();
    assert_eq!(remote.refresh(&own).await.unwrap().attributes.size, 7);
    assert_eq!(start.elapsed().as_secs(), 3 * (1 + 2));

    // The timeout of calls (60 s) also limits the retries. If all retries of a LOOKUP fail, the listing must
    // fail instead of omitting the entry.
    export.busy.store(u32::MAX, Ordering::SeqCst);
    let start = Instant::now();
    let error = remote.list(&root).await.unwrap_err().to_string();
    assert!(error.ends_with(": try again later (LOOKUP: NFS3ERR_JUKEBOX)"), "{error}");
    assert_eq!(start.elapsed().as_secs(), 1 + 2 + 4 + 10 * 5);
}

#[tokio::test(start_paused = true)]
async fn entries_of_a_busy_server_are_not_omitted() {
    for refused in [b"file" as &[u8], b"link", b""] {
        let refuses = Some((refused, NfsError::JukeBox));
        let remote = mount_in_memory(Arc::new(Reluctant { refuses, ..Reluctant::filled() })).await;
        let root = remote.top().await.unwrap();
        let error = remote.list(&root).await.unwrap_err().to_string();
        assert!(error.contains(NfsError::JukeBox.name()), "{error}");
    }
}

async fn nfs3(here: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nfs3"));
    command.current_dir(here).args(arguments);
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn only_missing_entries_are_omitted() {
    let here = tempfile::tempdir().unwrap();
    for (index, refused) in [b"file" as &[u8], b"link", b""].into_iter().enumerate() {
        for (error, listed) in [
            (NfsError::NoEnt, true),
            (NfsError::Stale, true),
            (NfsError::Acces, false),
            (NfsError::Io, false),
        ] {
            let url = serve(Reluctant { refuses: Some((refused, error)), ..Reluctant::filled() }).await;
            let remote = Remote::mount(&url.parse().unwrap()).await.unwrap();
            let items = remote.list(&remote.find(b"/").await.unwrap()).await;
            assert_eq!(items.as_ref().map(Vec::len).ok(), listed.then_some(1), "{items:?}");
            let to = format!("copy-{index}-{}", error.name());
            let got = nfs3(here.path(), &["get", "-r", &url, &to]).await;
            assert_eq!(got.status.code(), Some(i32::from(!listed)), "{got:?}");
            assert_eq!(String::from_utf8_lossy(&got.stderr).contains(error.name()), !listed, "{got:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_changes_during_a_download_is_rejected() {
    let here = tempfile::tempdir().unwrap();
    let url = serve(Reluctant { changes: true, ..Reluctant::filled() }).await;
    let got = nfs3(here.path(), &["get", &format!("{url}file")]).await;
    assert_eq!(got.status.code(), Some(4), "{got:?}");
    let message = String::from_utf8(got.stderr).unwrap();
    assert_eq!(message, "nfs3: /file: changed during the copy, which was discarded; retry\n");
    assert_eq!(std::fs::read_dir(here.path()).unwrap().count(), 0);
}

async fn refused(what: impl Future<Output = Result<(), ClientError>>) -> String {
    let ended = tokio::time::timeout(Duration::from_secs(600), what).await;
    ended.expect("the listing does not end").unwrap_err().to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endless_listing_fails() {
    const LONG: &[u8] = &[b'n'; 4096];
    for (lists, why) in [
        (Lists::Endlessly(LONG), "/: READDIRPLUS: the listing exceeds 256 MiB"),
        (Lists::Endlessly(b"."), "/: READDIRPLUS: the listing exceeds 256 MiB"),
        (Lists::RepeatedCookies, "/: READDIRPLUS: the server repeated a cookie"),
    ] {
        let remote = mount(Reluctant { lists, ..Reluctant::new(&[]) }).await;
        let root = remote.find(b"/").await.unwrap();
        assert_eq!(refused(async { remote.list(&root).await.map(drop) }).await, why);
    }
    // The program must reject the listing before its memory runs out.
    let url = serve(Reluctant { lists: Lists::Endlessly(LONG), ..Reluctant::new(&[]) }).await;
    let here = tempfile::tempdir().unwrap();
    for arguments in [&["ls", "-l", &url][..], &["get", "-r", &url, "copy"]] {
        let limited = tokio::process::Command::new("sh")
            .args(["-c", "ulimit -v 1500000; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_nfs3")])
            .args(arguments)
            .current_dir(here.path())
            // The stacks and memory arenas of more threads would exceed the limit on virtual memory.
            .env("TOKIO_WORKER_THREADS", "2")
            .env("MALLOC_ARENA_MAX", "2")
            .output();
        let ended = tokio::time::timeout(Duration::from_secs(600), limited).await.unwrap().unwrap();
        let message = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(1), "{arguments:?}: {message}");
        assert!(message.contains("the listing exceeds 256 MiB"), "{arguments:?}: {message}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endless_tree_fails() {
    let here = tempfile::tempdir().unwrap();
    for (lists, why) in [
        (Lists::Itself, "the directory contains itself"),
        (Lists::Deeply, "too many levels of directories (limit 512)"),
    ] {
        let export = Reluctant { lists, ..Reluctant::filled() };
        let new = SetAttributes::default();
        export.inner.mkdir(&NfsCaller::ROOT, &export.inner.root(), b"tree", &new).result.unwrap();
        let url = serve(export).await;
        let remote = Remote::mount(&url.parse().unwrap()).await.unwrap();
        let root = remote.find(b"/").await.unwrap();
        let error = refused(remote.remove_tree(&root, Bytes::from_static(b"tree"))).await;
        assert!(error.starts_with("/tree/") && error.ends_with(why), "{error}");
        let got = nfs3(here.path(), &["get", "-r", &format!("{url}tree"), "copy"]).await;
        let message = String::from_utf8(got.stderr).unwrap();
        assert!(
            got.status.code() == Some(1) && message.contains(&format!("READDIRPLUS: {why}")),
            "{message}"
        );
        std::fs::remove_dir_all(here.path().join("copy")).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn names_from_a_server_stay_within_the_destination() {
    for name in [b"../out" as &[u8], b"in/../../out", b"in/out", b""] {
        let here = tempfile::tempdir().unwrap();
        let url = serve(Reluctant { lists: Lists::Named(name), ..Reluctant::filled() }).await;
        let got = nfs3(here.path(), &["get", "-r", &url, "copy"]).await;
        let message = String::from_utf8(got.stderr).unwrap();
        assert!(
            got.status.code() == Some(1) && message.contains("invalid file name from the server"),
            "{message}"
        );
        let made: Vec<_> =
            std::fs::read_dir(here.path()).unwrap().map(|at| at.unwrap().file_name()).collect();
        assert_eq!(made, ["copy"]);
        assert_eq!(std::fs::read_dir(here.path().join("copy")).unwrap().count(), 0);
    }
}

/// The directory `in` is copied before a link with the same name would redirect its file.
#[tokio::test(flavor = "multi_thread")]
async fn a_link_and_a_directory_of_the_same_name_stay_within_the_destination() {
    for command in [&["get", "-r"][..], &["sync"]] {
        let export = Reluctant { lists: Lists::Same(b"in"), ..Reluctant::new(&[]) };
        let (caller, root, new) = (NfsCaller::ROOT, export.inner.root(), SetAttributes::default());
        let out = Bytes::from_static(b"../out");
        export.inner.symlink(&caller, &root, b"a", &out, &new).result.unwrap();
        let dir = export.inner.mkdir(&caller, &root, b"b", &new).result.unwrap().handle;
        export.inner.create(&caller, &dir, b"file", &CreateHow::Guarded(new.clone())).result.unwrap();
        let here = tempfile::tempdir().unwrap();
        std::fs::create_dir(here.path().join("out")).unwrap();
        let got = nfs3(here.path(), &[command, &[&serve(export).await, "copy"]].concat()).await;
        let message = String::from_utf8(got.stderr).unwrap();
        assert!(got.status.code() == Some(1) && message.contains("copy/in"), "{message}");
        assert!(here.path().join("copy/in/file").symlink_metadata().unwrap().is_file());
        assert!(here.path().join("copy/in").symlink_metadata().unwrap().is_dir());
        assert_eq!(std::fs::read_dir(here.path().join("out")).unwrap().count(), 0);
    }
}

/// As nanoseconds in `utimensat`, this number means that the time stays unchanged.
const UTIME_OMIT: u32 = (1 << 30) - 2;

#[tokio::test(flavor = "multi_thread")]
async fn sync_sets_a_valid_time_from_invalid_nanoseconds() {
    let here = tempfile::tempdir().unwrap();
    let mtime = Some(FileTime { seconds: 1_000_000, nanoseconds: UTIME_OMIT });
    let export = Reluctant { mtime, ..Reluctant::filled() };
    let synced = nfs3(here.path(), &["sync", &serve(export).await, "copy"]).await;
    assert!(synced.status.success(), "{synced:?}");
    let copy = std::fs::metadata(here.path().join("copy/file")).unwrap();
    assert_eq!((copy.mtime(), copy.mtime_nsec()), (1_000_001, 73_741_822));
}
