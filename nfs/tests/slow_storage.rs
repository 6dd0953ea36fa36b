//! Slow writes to a file delay neither calls for other files nor reads of the same file. A caller that waits
//! for slow storage does not delay other callers. The memory of waiting calls counts toward the budget until
//! the calls end.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use bytes::Bytes;
use rpcrdma_nfs::export::memory::MemoryExport;
use rpcrdma_nfs::export::{
    Attributes, Cookie, CreateHow, Entry, Export, ExportLimits, FileHandle, FileTime, Found, Listed,
    NfsCaller, NfsError, NfsVerifier, Outcome, ReadData, Renamed, SetAttributes, Space, Stability, TryExport,
    WriteResult,
};
use rpcrdma_nfs::nfs::{Exports, NfsHandler};
use rpcrdma_nfs3::nfs_v3::{self, Handler};
use rpcrdma_nfs3::{
    Diropargs3, Lookup3Args, Lookup3Res, NfsFh3, Read3Args, Read3Res, StableHow, Write3Args, Write3Res,
};
use rpcrdma_runtime::program::{CallContext, Credential};
use rpcrdma_runtime::wire::rpc::CallHeader;
use rpcrdma_runtime::xdr::{Encode, Writer};
use rpcrdma_runtime::{MemoryBudget, TcpServer, TcpServerOptions};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// Reads at this offset wait until they are released.
const SLOW_OFFSET: u64 = 1 << 40;

/// An export in memory in which stable writes to `file`, reads at [`SLOW_OFFSET`] and lookups of `slow` wait
/// until they are released.
#[derive(Default)]
struct Slow {
    inner: MemoryExport,
    file: Mutex<FileHandle>,
    released: Mutex<bool>,
    /// The number of calls that have begun to wait.
    waiting: AtomicUsize,
    changed: Condvar,
}

impl Slow {
    fn wait(&self) {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let released = self.released.lock().unwrap();
        drop(self.changed.wait_while(released, |released| !*released).unwrap());
    }

    fn release(&self) {
        *self.released.lock().unwrap() = true;
        self.changed.notify_all();
    }
}

macro_rules! pass_on {
    ($(fn $name:ident(&self $(, $arg:ident: $ty:ty)*) -> $res:ty;)*) => {
        $(fn $name(&self $(, $arg: $ty)*) -> $res { self.inner.$name($($arg),*) })*
    };
}

impl TryExport for Slow {}

impl Export for Slow {
    const BLOCKS: bool = true;

    fn write(
        &self,
        caller: &NfsCaller,
        file: &FileHandle,
        offset: u64,
        data: &Bytes,
        stable: Stability,
    ) -> Outcome<WriteResult> {
        if stable != Stability::Unstable && *file == *self.file.lock().unwrap() {
            self.wait();
        }
        self.inner.write(caller, file, offset, data, stable)
    }

    fn lookup(&self, caller: &NfsCaller, dir: &FileHandle, name: &[u8]) -> Result<Found, NfsError> {
        if name == b"slow" {
            self.wait();
        }
        self.inner.lookup(caller, dir, name)
    }

    fn read(
        &self,
        caller: &NfsCaller,
        file: &FileHandle,
        offset: u64,
        count: u32,
    ) -> Result<ReadData, NfsError> {
        if offset == SLOW_OFFSET {
            self.wait();
        }
        self.inner.read(caller, file, offset, count)
    }

    fn owns(&self, file: &FileHandle) -> bool {
        self.inner.attributes(file).is_ok()
    }

    pass_on! {
        fn root(&self) -> FileHandle;
        fn write_verifier(&self) -> NfsVerifier;
        fn limits(&self) -> ExportLimits;
        fn attributes(&self, file: &FileHandle) -> Result<Attributes, NfsError>;
        fn set_attributes(&self, caller: &NfsCaller, file: &FileHandle, new: &SetAttributes, guard: Option<FileTime>) -> Outcome<()>;
        fn access(&self, caller: &NfsCaller, file: &FileHandle, wanted: u32) -> Result<(u32, Attributes), NfsError>;
        fn readlink(&self, caller: &NfsCaller, file: &FileHandle) -> Result<Bytes, NfsError>;
        fn create(&self, caller: &NfsCaller, dir: &FileHandle, name: &[u8], how: &CreateHow) -> Outcome<Found>;
        fn mkdir(&self, caller: &NfsCaller, dir: &FileHandle, name: &[u8], new: &SetAttributes) -> Outcome<Found>;
        fn symlink(&self, caller: &NfsCaller, dir: &FileHandle, name: &[u8], to: &Bytes, new: &SetAttributes) -> Outcome<Found>;
        fn remove(&self, caller: &NfsCaller, dir: &FileHandle, name: &[u8]) -> Outcome<()>;
        fn rmdir(&self, caller: &NfsCaller, dir: &FileHandle, name: &[u8]) -> Outcome<()>;
        fn rename(&self, caller: &NfsCaller, from: (&FileHandle, &[u8]), to: (&FileHandle, &[u8])) -> Renamed;
        fn link(&self, caller: &NfsCaller, file: &FileHandle, dir: &FileHandle, name: &[u8]) -> Outcome<()>;
        fn list(&self, caller: &NfsCaller, dir: &FileHandle, after: (Cookie, NfsVerifier), plus: bool, take: &mut dyn FnMut(Entry) -> bool) -> Result<Listed, NfsError>;
        fn space(&self, file: &FileHandle) -> Result<Space, NfsError>;
        fn commit(&self, caller: &NfsCaller, file: &FileHandle, offset: u64, count: u32) -> Outcome<()>;
    }
}

fn context(procedure: u32) -> CallContext {
    let (credential, extensions) = (Credential::None, Default::default());
    CallContext { xid: 1, program: 100_003, version: 3, procedure, credential, peer: None, extensions }
}

async fn lookup(server: &impl Handler, root: FileHandle, name: &[u8], caller: u8) -> Lookup3Res {
    let context = CallContext { peer: Some(([192, 0, 2, caller], 700).into()), ..context(3) };
    let what = Diropargs3 { dir: NfsFh3 { data: root }, name: Bytes::copy_from_slice(name).into() };
    server.lookup(&context, Lookup3Args { what }).await.unwrap()
}

async fn write(server: &NfsHandler<Slow>, file: FileHandle) -> Write3Res {
    let (file, data) = (NfsFh3 { data: file }, Bytes::from_static(b"data").into());
    let args = Write3Args { file, offset: 0, count: 4, stable: StableHow::FileSync, data };
    server.write(&context(7), args).await.unwrap()
}

async fn calls_succeed() {
    let export = Arc::new(Slow::default());
    let make = |name: &[u8]| {
        let all = SetAttributes { mode: Some(0o666), ..SetAttributes::default() };
        let how = CreateHow::Guarded(all);
        export.inner.create(&NfsCaller::ROOT, &export.root(), name, &how).result.unwrap().handle
    };
    let (slow, other) = (make(b"slow"), make(b"other"));
    *export.file.lock().unwrap() = slow;
    let server = NfsHandler::new(export.clone());
    let mut writes = JoinSet::new();
    for _ in 0..64 {
        let server = server.clone();
        writes.spawn(async move { write(&server, slow).await });
    }
    // Gives the writes time to occupy all threads that they may use.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let tried = async {
        assert!(matches!(write(&server, other).await, Write3Res::Nfs3Ok(_)));
        let args = Read3Args { file: NfsFh3 { data: slow }, offset: 0, count: 4 };
        assert!(matches!(server.read(&context(6), args).await.unwrap(), Read3Res::Nfs3Ok(_)));
    };
    let in_time = timeout(Duration::from_secs(10), tried).await;
    export.release();
    in_time.expect("calls wait for the slow file");
    while let Some(written) = writes.join_next().await {
        assert!(matches!(written.unwrap(), Write3Res::Nfs3Ok(_)));
    }
}

/// Checks that slow calls of one caller to `count` exports leave threads for another caller.
async fn calls_of_others_succeed(count: usize) {
    let exports: Vec<Arc<Slow>> = std::iter::repeat_with(Arc::default).take(count).collect();
    for export in &exports {
        let how = CreateHow::Guarded(SetAttributes::default());
        export.inner.create(&NfsCaller::ROOT, &export.root(), b"other", &how).result.unwrap();
    }
    let handler = |number: usize| (format!("/{number}"), NfsHandler::new(exports[number].clone()));
    let server = Exports::new((0..count).map(handler));
    // `replace` must keep the limit on the blocking calls of one caller.
    server.replace((0..count).map(handler));
    let mut slow = JoinSet::new();
    // Blocking work counts toward the limit until it ends, even if its call was abandoned.
    for _ in 0..2 {
        slow.abort_all();
        while slow.join_next().await.is_some() {}
        for root in exports.iter().map(|export| export.root()) {
            for _ in 0..256 {
                let server = server.clone();
                slow.spawn(async move { lookup(&server, root, b"slow", 1).await });
            }
        }
        // Gives the lookups time to occupy all threads that they may use.
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    let tried = timeout(Duration::from_secs(10), lookup(&server, exports[0].root(), b"other", 2)).await;
    exports.iter().for_each(|export| export.release());
    assert!(matches!(tried.expect("a call waits for calls of another caller"), Lookup3Res::Nfs3Ok(_)));
    while let Some(done) = slow.join_next().await {
        assert!(matches!(done.unwrap(), Lookup3Res::Default(..)));
    }
}

async fn until(mut holds: impl FnMut() -> bool) -> bool {
    let waiting = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(Duration::from_secs(30), waiting).await.is_ok()
}

fn run(threads: usize, test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(threads)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(test);
}

#[test]
fn writes_to_a_slow_file_leave_threads_to_others() {
    run(32, calls_succeed());
}

#[test]
fn calls_of_one_caller_leave_threads_to_others() {
    run(96, calls_of_others_succeed(1));
}

#[test]
fn calls_of_one_caller_to_several_exports_leave_threads_to_others() {
    run(96, calls_of_others_succeed(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_of_a_waiting_read_counts_after_its_connection_is_closed() {
    const COUNT: u32 = 4 << 20;
    let export = Arc::new(Slow::default());
    let how = CreateHow::Guarded(SetAttributes { mode: Some(0o666), ..SetAttributes::default() });
    let made = export.inner.create(&NfsCaller::ROOT, &export.root(), b"file", &how).result.unwrap();
    let memory = MemoryBudget::new(64 << 20);
    let options = TcpServerOptions { memory: memory.clone(), ..TcpServerOptions::default() };
    let server = TcpServer::bind_with("127.0.0.1:0", options).await.unwrap();
    let (address, stats) = (server.local_addr().unwrap(), server.stats());
    let service = nfs_v3::Server(NfsHandler::new(export.clone()));
    tokio::spawn(server.service(service).run(std::future::pending()));
    let header =
        CallHeader { xid: 1, program: 100_003, version: 3, procedure: 6, credential: Credential::None };
    let args = Read3Args { file: NfsFh3 { data: made.handle }, offset: SLOW_OFFSET, count: COUNT };
    let mut call = Writer::new();
    header.encode(&mut call).and_then(|()| args.encode(&mut call)).unwrap();
    let mark = u32::try_from(call.as_slice().len()).unwrap() | 1 << 31;
    let mut socket = TcpStream::connect(address).await.unwrap();
    socket.write_all(&[&mark.to_be_bytes()[..], call.as_slice()].concat()).await.unwrap();
    let runs = until(|| export.waiting.load(Ordering::SeqCst) == 1).await;
    // Resets the connection, since a half-closed connection stays open for the reply.
    socket.set_zero_linger().unwrap();
    drop(socket);
    let closed = until(|| stats.snapshot().connected == 0).await;
    // Gives the server time to drop the call.
    tokio::time::sleep(Duration::from_millis(100)).await;
    let used = memory.used();
    // A waiting thread would keep the test from ending.
    export.release();
    assert!(runs && closed && used >= COUNT.into(), "runs: {runs}, closed: {closed}, {used} bytes");
    assert!(until(|| memory.used() == 0).await, "{memory:?}");
}
