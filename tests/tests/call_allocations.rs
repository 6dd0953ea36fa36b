//! Measures the allocations of clients and servers over iWARP: for calls in steady state, for idle
//! connections, and for long data.
#![allow(clippy::unwrap_used)] // a test that cannot continue panics

use std::future::ready;
use std::net::SocketAddr;
use std::pin::{Pin, pin};

use allocation_counter::measure;
use rpcrdma_nfs3::{
    NfsFh3, Read3Args, Read3Res, Read3Resok, StableHow, WccData, Write3Args, Write3Res, Write3Resok, nfs_v3,
};
use rpcrdma_runtime::program::{CallContext, Reject, Service, answer};
use rpcrdma_runtime::xdr::{Bytes, BytesMut, Reader, Reducer};
use rpcrdma_runtime::{
    CachePolicy, Client, ClientOptions, Config, DuplicateCache, DuplicateOptions, Server, ServerOptions,
};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;

const NULL: u32 = 0;
const READ: u32 = 6;
const WRITE: u32 = 7;
/// The number of warm-up calls, which is also the number of measured calls.
const CALLS: u32 = 256;

struct File(Bytes);

impl Service for File {
    fn program(&self) -> u32 {
        100_003
    }

    fn version(&self) -> u32 {
        3
    }

    fn dispatch<'a>(
        &'a self,
        context: &'a CallContext,
        args: Reader<'a>,
        reply: &'a mut Reducer,
    ) -> Pin<Box<dyn Future<Output = Result<(), Reject>> + Send + 'a>> {
        Box::pin(async move {
            match context.procedure {
                NULL => answer(args, reply, |()| ready(Ok(()))).await,
                READ => answer(args, reply, |args| ready(Ok(self.read(&args)))).await,
                WRITE => answer(args, reply, |args| ready(Ok(written(&args)))).await,
                _ => Err(Reject::ProcedureUnavailable),
            }
        })
    }
}

impl File {
    fn read(&self, args: &Read3Args) -> Read3Res {
        let data = self.0.slice(..args.count as usize);
        Read3Res::Nfs3Ok(Read3Resok {
            file_attributes: None,
            count: args.count,
            eof: false,
            data: data.into(),
        })
    }
}

/// Checks the data from [`writing_reads_all_segments_into_one_region`] and returns a successful result.
fn written(args: &Write3Args) -> Write3Res {
    assert!(args.data.len() == args.count as usize && args.data.iter().all(|octet| *octet == 9));
    Write3Res::Nfs3Ok(Write3Resok {
        file_wcc: WccData::default(),
        count: args.count,
        committed: StableHow::FileSync,
        verf: Default::default(),
    })
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

fn serve(runtime: &Runtime) -> SocketAddr {
    runtime.block_on(async {
        // Like nfs3d, this server does not cache replies to procedures that only read.
        let policy = CachePolicy::only(|procedure| ![NULL, READ].contains(&procedure.procedure));
        let cache = DuplicateCache::new(DuplicateOptions { policy, ..DuplicateOptions::default() });
        let options = ServerOptions { duplicates: Some(cache), ..ServerOptions::default() };
        let server = Server::bind_with("127.0.0.1:0", options).await.unwrap();
        let server = server.service(File(vec![7; 8 << 20].into()));
        let address = server.local_addr().unwrap();
        tokio::spawn(server.run(std::future::pending()));
        address
    })
}

fn connected() -> (Runtime, nfs_v3::Client<Client>) {
    let runtime = runtime();
    let address = serve(&runtime);
    let client = runtime.block_on(Client::connect(address)).unwrap();
    (runtime, nfs_v3::Client(client))
}

/// Returns the average number of allocations per call, after warm-up calls have created tables and buffers.
fn per_call<F: Future<Output = ()>>(call: impl Fn(nfs_v3::Client<Client>) -> F) -> f64 {
    let (runtime, client) = connected();
    let calls = || async {
        for _ in 0..CALLS {
            call(client.clone()).await;
        }
    };
    runtime.block_on(calls());
    // The runtime moves a large future to the heap, but not a reference to it.
    let measured = pin!(calls());
    measure(|| runtime.block_on(measured)).count_total as f64 / f64::from(CALLS)
}

async fn read(nfs: nfs_v3::Client<Client>, count: u32) {
    let args = Read3Args { file: NfsFh3::default(), offset: 0, count };
    let Read3Res::Nfs3Ok(read) = nfs.read(&args).await.unwrap() else { panic!("not read") };
    assert_eq!(read.data.len(), count as usize);
}

#[test]
fn an_idle_connection_uses_at_most_14_kib_of_server_memory() {
    const CONNECTIONS: u32 = 64;
    let server = runtime();
    let address = serve(&server);
    let (connected_clients, mut clients) = mpsc::unbounded_channel();
    // `measure` counts the allocations of its own thread only, so the clients run on another thread.
    let other = std::thread::spawn(move || {
        let runtime = runtime();
        for _ in 0..=CONNECTIONS {
            let client = runtime.block_on(Client::connect(address)).unwrap();
            runtime.block_on(nfs_v3::Client(client.clone()).null()).unwrap();
            connected_clients.send(client).unwrap();
        }
        runtime
    });
    let first = server.block_on(clients.recv());
    let mut held = Vec::with_capacity(CONNECTIONS as usize);
    let counted = measure(|| {
        server.block_on(async {
            for _ in 0..CONNECTIONS {
                held.push(clients.recv().await.unwrap());
            }
        });
    });
    drop((other.join().unwrap(), first));
    let each = counted.bytes_current / i64::from(CONNECTIONS);
    assert!(each < 14 << 10, "{each} bytes");
}

/// The data of a READ goes directly to the supplied memory. A separate sink would be as large as the data.
#[test]
fn read_into_supplied_memory_allocates_no_sink() {
    const LEN: u32 = 8 << 20;
    let (runtime, client) = connected();
    let memory = BytesMut::with_capacity(LEN as usize);
    let place = memory.as_ptr();
    let nfs = nfs_v3::Client(client.0.with_result_memory(memory));
    let counted = measure(|| {
        runtime.block_on(async {
            let args = Read3Args { file: NfsFh3::default(), offset: 0, count: LEN };
            let Read3Res::Nfs3Ok(read) = nfs.read(&args).await.unwrap() else { panic!("not read") };
            assert_eq!((read.data.len(), read.data.as_ptr()), (LEN as usize, place));
        });
    });
    assert!(counted.bytes_max < 2 << 20, "{} bytes", counted.bytes_max);
}

/// The server reads the data of a WRITE into a single region, although the Read chunk has eight segments.
#[test]
fn writing_reads_all_segments_into_one_region() {
    const LEN: u32 = 4 << 20;
    let runtime = runtime();
    let address = serve(&runtime);
    let config = Config { max_segment: LEN / 8, ..Config::default() };
    let client = Client::connect_with(address, ClientOptions { config, ..ClientOptions::default() });
    let nfs = nfs_v3::Client(runtime.block_on(client).unwrap());
    let (file, data) = (NfsFh3::default(), Bytes::from(vec![9; LEN as usize]));
    let args = Write3Args { file, offset: 0, count: LEN, stable: StableHow::FileSync, data: data.into() };
    let counted = measure(|| {
        let written = runtime.block_on(nfs.write(&args)).unwrap();
        assert!(matches!(written, Write3Res::Nfs3Ok(Write3Resok { count: LEN, .. })), "{written:?}");
    });
    assert!(counted.bytes_max < u64::from(LEN) * 3 / 2, "{} bytes", counted.bytes_max);
}

#[test]
fn null_allocates_at_most_4_times() {
    let count = per_call(async |nfs| nfs.null().await.unwrap());
    assert!(count <= 4.0, "{count} allocations per call");
}

#[test]
fn read_of_4_kib_allocates_at_most_8_times() {
    let count = per_call(|nfs| read(nfs, 4096));
    assert!(count <= 8.0, "{count} allocations per call");
}
