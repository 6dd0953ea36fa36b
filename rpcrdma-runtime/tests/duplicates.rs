//! Retransmitted calls over real connections: a server with a duplicate-request cache runs a call once if it
//! caches the reply.
#![allow(clippy::unwrap_used)] // tests fail by panicking

#[path = "support/record.rs"]
mod record;

use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use rpcrdma_runtime::Server;
use rpcrdma_runtime::Services;
use rpcrdma_runtime::program::{CallContext, Reject, ReplyBounds, Service, Uncached};
use rpcrdma_runtime::proto::rdma::{
    Config, IncomingReply, OutgoingCall, Requester, RequesterEvent, Traffic, TransportError,
};
use rpcrdma_runtime::proto::rpc::duplicates::DuplicateLimits;
use rpcrdma_runtime::proto::work::{Action, Completion, Memory, Token};
use rpcrdma_runtime::provider::Connection;
use rpcrdma_runtime::provider::iwarp::{self, IwarpConnection};
use rpcrdma_runtime::wire::private_data::PrivateData;
use rpcrdma_runtime::wire::rdma::{Body, ChunkLists, Header, Segment, WriteChunk};
use rpcrdma_runtime::wire::rpc::{CallHeader, Credential, ReplyError, decode_reply};
use rpcrdma_runtime::xdr::{Decode, Encode, Layout, Opaque, Reader, Reducer, Size, Xdr};
use rpcrdma_runtime::{
    CachePolicy, CallerScope, DuplicateCache, DuplicateCounts, DuplicateOptions, ServerOptions, ServerStats,
    TcpOptions, TcpServer, TcpServerOptions,
};
use tokio::sync::{Semaphore, oneshot};
use tokio::task::{self, JoinHandle};

const WAIT: Duration = Duration::from_secs(20);

/// The lengths in bytes of [`Res::item`] and [`Res::note`], and data that the server ignores.
#[derive(Clone, Debug, PartialEq, Xdr)]
struct Args {
    item: u32,
    note: u32,
    #[ddp_eligible]
    data: Opaque,
}

#[derive(Clone, Debug, PartialEq, Xdr)]
struct Res {
    count: u32,
    note: Opaque,
    #[ddp_eligible]
    item: Opaque,
}

const COUNT: u32 = 1;
/// Counts the call and fails with SYSTEM_ERR.
const FAIL: u32 = 2;
/// Counts the call and panics.
const PANIC: u32 = 3;
/// Counts the call and waits for the gate.
const GATE: u32 = 4;

/// Counts the call and gets a client for backward calls from the context.
const BACK: u32 = 5;
/// Like [`BACK`], but also waits for the gate.
const BACK_GATE: u32 = 6;
/// Like [`BACK_GATE`], but then fails with SYSTEM_ERR.
const BACK_FAIL: u32 = 7;
/// Like [`BACK_GATE`], but then panics.
const BACK_PANIC: u32 = 8;

#[derive(Clone, Default)]
struct Counter {
    runs: Arc<AtomicU32>,
    gate: Arc<Gate>,
    /// The task on which each successful call ended.
    tasks: Arc<Mutex<Vec<task::Id>>>,
}

struct Gate(Semaphore);

impl Default for Gate {
    fn default() -> Self {
        Gate(Semaphore::new(0))
    }
}

impl Counter {
    fn runs(&self) -> u32 {
        self.runs.load(Ordering::SeqCst)
    }

    async fn wait_for_runs(&self, times: u32) {
        let enough = async {
            while self.runs() < times {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(WAIT, enough).await.unwrap();
    }
}

impl Service for Counter {
    fn program(&self) -> u32 {
        0x2000_0003
    }

    fn version(&self) -> u32 {
        1
    }

    fn dispatch<'a>(
        &'a self,
        context: &'a CallContext,
        mut args: Reader<'a>,
        reply: &'a mut Reducer,
    ) -> Pin<Box<dyn Future<Output = Result<(), Reject>> + Send + 'a>> {
        Box::pin(async move {
            let args = Args::decode(&mut args).map_err(|_| Reject::GarbageArguments)?;
            let count = self.runs.fetch_add(1, Ordering::SeqCst) + 1;
            match context.procedure {
                FAIL => return Err(Reject::SystemError),
                PANIC => panic!("this handler panics"),
                BACK => assert!(context.backward().is_some()),
                GATE => self.gate.0.acquire().await.unwrap().forget(),
                BACK_GATE | BACK_FAIL | BACK_PANIC => {
                    assert!(context.backward().is_some());
                    self.gate.0.acquire().await.unwrap().forget();
                    match context.procedure {
                        BACK_FAIL => return Err(Reject::SystemError),
                        BACK_PANIC => panic!("this handler panics"),
                        _ => {}
                    }
                }
                _ => {}
            }
            self.tasks.lock().unwrap().push(task::id());
            let fill = |len: u32| Opaque::from(vec![0x5a; len as usize]);
            let result = Res { count, note: fill(args.note), item: fill(args.item) };
            result.encode(reply).map_err(|_| Reject::SystemError)
        })
    }
}

struct Fixture {
    counter: Counter,
    address: SocketAddr,
    stats: ServerStats,
    stop: oneshot::Sender<()>,
    server: JoinHandle<()>,
}

impl Fixture {
    async fn new(duplicates: Option<DuplicateCache>) -> Self {
        Fixture::with(ServerOptions { duplicates, ..ServerOptions::default() }).await
    }

    async fn with(options: ServerOptions) -> Self {
        let counter = Counter::default();
        let server = Server::bind_with("127.0.0.1:0", options).await.unwrap().service(counter.clone());
        let (address, stats) = (server.local_addr().unwrap(), server.stats());
        let (stop, stopped) = oneshot::channel::<()>();
        let server = tokio::spawn(async move { server.run(async { drop(stopped.await) }).await.unwrap() });
        Fixture { counter, address, stats, stop, server }
    }

    async fn peer(&self) -> Peer {
        Peer::connect(self.address, Config::default()).await
    }

    async fn wait_until_disconnected(&self) {
        let closed = async {
            while self.stats.snapshot().connected > 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(WAIT, closed).await.unwrap();
    }

    async fn end(self) {
        self.stop.send(()).unwrap();
        tokio::time::timeout(WAIT, self.server).await.unwrap().unwrap();
    }
}

fn call_message(xid: u32, procedure: u32, args: &Args, min_item: usize) -> Reducer {
    let mut message = Reducer::new(min_item);
    let header =
        CallHeader { xid, program: 0x2000_0003, version: 1, procedure, credential: Credential::None };
    header.encode(&mut message).unwrap();
    args.encode(&mut message).unwrap();
    message
}

/// A client that lets the test choose the XID of each call.
struct Peer {
    connection: IwarpConnection,
    requester: Requester,
}

#[derive(Debug)]
struct Got {
    bytes: Bytes,
    traffic: Traffic,
    result: Result<Res, ReplyError>,
}

impl Peer {
    async fn connect(address: SocketAddr, config: Config) -> Peer {
        let private_data = config.private_data.encode();
        let size = config.private_data.announced().receive_size;
        let connection =
            iwarp::connect(address, &private_data, size, &iwarp::IwarpOptions::default()).await.unwrap();
        let info = connection.info();
        let server = PrivateData::find(&info.private_data).unwrap_or(PrivateData::ABSENT);
        let negotiated = PrivateData::negotiate(&config.private_data, &server);
        let requester = Requester::new(config, negotiated, info.max_region);
        Peer { connection, requester }
    }

    fn submit(&mut self, xid: u32, procedure: u32, args: &Args, min_item: usize) {
        let unreduced =
            u64::from(args.item.next_multiple_of(4) + args.note.next_multiple_of(4)) + Res::LENGTHS.min;
        let reduced = Size::Bounded(unreduced - u64::from(args.item.next_multiple_of(4)));
        let item = Size::Bounded(u64::from(args.item));
        let bounds =
            ReplyBounds { unreduced: Size::Bounded(unreduced), reduced, item, items: Size::Bounded(1) };
        let bounds = if min_item == usize::MAX { bounds.without_reduction() } else { bounds };
        let reply = self.requester.resources(&bounds).unwrap();
        let message = call_message(xid, procedure, args, min_item).into_message();
        let _ = self.requester.submit(OutgoingCall { message, reply });
    }

    async fn event(&mut self) -> RequesterEvent {
        loop {
            while let Some(action) = self.requester.poll_action() {
                self.connection.submit(action);
            }
            if let Some(event) = self.requester.poll_event() {
                return event;
            }
            let completion = poll_fn(|cx| self.connection.poll_completion(cx)).await;
            self.requester.handle_completion(completion);
        }
    }

    async fn reply(&mut self, xid: u32) -> Got {
        let event = tokio::time::timeout(WAIT, self.event()).await.unwrap();
        let RequesterEvent::Done { outcome: Ok(IncomingReply { message, traffic, .. }), .. } = event else {
            panic!("no reply: {event:?}")
        };
        let mut reader = Reader::new(&message);
        let result = decode_reply(&mut reader, xid).map(|()| Res::decode(&mut reader).unwrap());
        let mut bytes = message.stream.to_vec();
        if let Ok(result) = &result {
            bytes.extend_from_slice(result.item.as_bytes());
        }
        Got { bytes: bytes.into(), traffic, result }
    }

    async fn call(&mut self, xid: u32, procedure: u32, args: &Args) -> Got {
        self.submit(xid, procedure, args, 1024);
        self.reply(xid).await
    }
}

fn args(data: usize, note: u32, item: u32) -> Args {
    Args { item, note, data: vec![0xa5; data].into() }
}

#[tokio::test]
async fn a_retransmission_with_any_chunks_gets_the_cached_reply() {
    let fixture = Fixture::new(Some(DuplicateCache::default())).await;
    let forms = [
        ("inline", args(10, 10, 10)),
        ("Read and Write chunk", args(20_000, 10, 20_000)),
        ("Reply chunk", args(10, 20_000, 0)),
        ("both", args(10, 20_000, 20_000)),
    ];
    for (xid, (form, args)) in (70..).zip(&forms) {
        let before = fixture.counter.runs();
        let first = fixture.peer().await.call(xid, COUNT, args).await;
        let second = fixture.peer().await.call(xid, COUNT, args).await;
        assert_eq!(first.result.as_ref().unwrap().count, before + 1, "{form}");
        assert!(first.bytes == second.bytes && first.result == second.result, "{form}: different replies");
        assert_eq!(first.traffic, second.traffic, "{form}");
        assert_eq!(second.traffic.write_bytes > 0, args.item > 1000, "{form}");
        assert_eq!(second.traffic.reply_chunk_bytes > 0, args.note > 1000, "{form}");
        assert_eq!(fixture.counter.runs(), before + 1, "{form}: the call ran again");
    }
    let mut counts = DuplicateCounts::default();
    (counts.tracked, counts.replayed) = (4, 4);
    assert_eq!(fixture.stats.snapshot().duplicates, counts);
    fixture.end().await;
}

/// With smaller inline thresholds, the retransmission of an inline call has chunks, and the cached reply is
/// sent in chunks.
#[tokio::test]
async fn a_retransmission_in_another_form_is_a_duplicate() {
    let fixture = Fixture::new(Some(DuplicateCache::default())).await;
    let args = args(1100, 300, 1100);
    let first = fixture.peer().await.call(9, COUNT, &args).await;
    assert_eq!((first.traffic.read_chunks, first.traffic.write_bytes), (0, 0));
    let small = Config { private_data: PrivateData::new(true, 1024, 1024), ..Config::default() };
    let mut peer = Peer::connect(fixture.address, small).await;
    let second = peer.call(9, COUNT, &args).await;
    assert_eq!((second.traffic.read_chunks, second.traffic.write_bytes), (1, 1100));
    peer.submit(9, COUNT, &args, usize::MAX);
    let third = peer.reply(9).await;
    assert!(third.traffic.position_zero > 1100 && third.traffic.reply_chunk_bytes > 1100);
    assert_eq!((&first.result, &second.result), (&second.result, &third.result));
    assert_eq!(fixture.counter.runs(), 1);
    fixture.end().await;
}

#[tokio::test]
async fn a_call_that_never_waits_runs_on_the_task_of_its_connection() {
    for cache in [None, Some(DuplicateCache::default())] {
        let fixture = Fixture::new(cache).await;
        let mut peer = fixture.peer().await;
        for xid in 1..=3 {
            peer.call(xid, COUNT, &args(8, 0, 0)).await.result.unwrap();
        }
        peer.submit(4, GATE, &args(8, 0, 0), 1024);
        tokio::select! {
            event = peer.event() => panic!("{event:?}"),
            () = fixture.counter.wait_for_runs(4) => {}
        }
        fixture.counter.gate.0.add_permits(1);
        peer.reply(4).await.result.unwrap();
        let tasks = fixture.counter.tasks.lock().unwrap().clone();
        let [first, second, third, waited] = tasks[..] else { panic!("{tasks:?}") };
        assert_eq!((first, first), (second, third));
        assert_ne!(first, waited);
        drop(peer);
        fixture.end().await;
    }
}

#[tokio::test]
async fn another_call_with_the_same_xid_runs() {
    let fixture = Fixture::new(Some(DuplicateCache::default())).await;
    let mut peer = fixture.peer().await;
    assert_eq!(peer.call(5, COUNT, &args(8, 0, 0)).await.result.unwrap().count, 1);
    assert_eq!(peer.call(5, COUNT, &args(9, 0, 0)).await.result.unwrap().count, 2);
    assert_eq!(peer.call(6, COUNT, &args(8, 0, 0)).await.result.unwrap().count, 3);
    assert_eq!(peer.call(5, COUNT, &args(8, 0, 0)).await.result.unwrap().count, 1);
    fixture.end().await;
}

#[tokio::test]
async fn a_running_call_outlives_its_connection_and_serves_its_retransmissions() {
    let fixture = Fixture::new(Some(DuplicateCache::default())).await;
    let slow = args(4, 0, 2000);
    let mut first = fixture.peer().await;
    first.submit(1, GATE, &slow, 1024);
    tokio::select! {
        event = first.event() => panic!("{event:?}"),
        () = fixture.counter.wait_for_runs(1) => drop(first),
    }
    let mut second = fixture.peer().await;
    let mut third = fixture.peer().await;
    second.submit(1, GATE, &slow, 1024);
    third.submit(1, GATE, &slow, 1024);
    // Lets the retransmissions arrive while the call runs. Later retransmissions would get the cached reply.
    for peer in [&mut second, &mut third] {
        tokio::select! {
            event = peer.event() => panic!("{event:?}"),
            () = tokio::time::sleep(Duration::from_millis(50)) => {}
        }
    }
    fixture.counter.gate.0.add_permits(10);
    let (second, third) = (second.reply(1).await, third.reply(1).await);
    assert_eq!(second.result.as_ref().unwrap().count, 1);
    assert_eq!(second.result, third.result);
    assert_eq!(fixture.counter.runs(), 1);
    let counted = fixture.stats.snapshot().duplicates;
    assert_eq!((counted.tracked, counted.joined + counted.replayed), (1, 2));
    fixture.end().await;
}

/// Makes a call with XID 1 and a Reply chunk that is longer than its registered memory. The server's write to
/// this chunk ends the connection.
async fn end_connection(mut malicious: Peer, args: &Args) {
    let closed = async {
        malicious.connection.submit(Action::PostReceives { count: 4 });
        let memory = Memory::Sink(BytesMut::zeroed(8));
        malicious.connection.submit(Action::Register { token: Token(1), memory });
        loop {
            match poll_fn(|cx| malicious.connection.poll_completion(cx)).await {
                Completion::Registered { segment, .. } => {
                    let segment = Segment { length: 30_000, ..segment };
                    let lists =
                        ChunkLists { reply: Some(WriteChunk(vec![segment])), ..ChunkLists::default() };
                    let header = Header { xid: 1, credits: 4, body: Body::Msg(lists) }.encode();
                    let call = call_message(1, COUNT, args, usize::MAX).into_message().stream;
                    let message = vec![header, call];
                    malicious.connection.submit(Action::Send { token: Token(2), message, invalidate: None });
                }
                Completion::Closed { .. } => break,
                _ => {}
            }
        }
    };
    tokio::time::timeout(WAIT, closed).await.unwrap();
}

/// Writing to a Reply chunk that is longer than its registered memory closes the connection. The server
/// rejects the next retransmission of the call with ERR_CHUNK, so that the next connection stays open.
#[tokio::test]
async fn r178_a_call_that_ended_a_connection_does_not_end_the_next_one() {
    let fixture = Fixture::new(Some(DuplicateCache::default())).await;
    let long = args(10, 20_000, 0);
    end_connection(fixture.peer().await, &long).await;
    fixture.wait_until_disconnected().await;
    let mut next = fixture.peer().await;
    next.submit(1, COUNT, &long, 1024);
    let event = tokio::time::timeout(WAIT, next.event()).await.unwrap();
    assert!(matches!(event, RequesterEvent::Done { outcome: Err(TransportError::Chunk), .. }), "{event:?}");
    assert_eq!(next.call(2, COUNT, &long).await.result.unwrap().count, 2, "the connection was closed");
    assert_eq!(next.call(1, COUNT, &long).await.result.unwrap().count, 1, "the call was rejected twice");
    assert_eq!(fixture.stats.snapshot().refusals.fatal, 1);
    fixture.end().await;
}

/// The server closes an idle connection to admit a new connection. On the new connection, the server must
/// still reject the call that ended an earlier connection.
#[tokio::test]
async fn a_connection_closed_for_another_leaves_its_refused_calls() {
    let fixture = Fixture::with(ServerOptions { max_connections: 1, ..ServerOptions::default() }).await;
    let long = args(10, 20_000, 0);
    end_connection(fixture.peer().await, &long).await;
    fixture.wait_until_disconnected().await;
    let _idle = fixture.peer().await;
    let mut next = tokio::time::timeout(WAIT, fixture.peer()).await.unwrap();
    next.submit(1, COUNT, &long, 1024);
    let event = tokio::time::timeout(WAIT, next.event()).await.unwrap();
    assert!(matches!(event, RequesterEvent::Done { outcome: Err(TransportError::Chunk), .. }), "{event:?}");
    fixture.end().await;
}

#[tokio::test]
async fn without_a_cache_retransmitted_calls_run_again() {
    let fixture = Fixture::new(None).await;
    for run in 1..=2 {
        let got = fixture.peer().await.call(1, COUNT, &args(4, 0, 0)).await;
        assert_eq!(got.result.unwrap().count, run);
    }
    fixture.end().await;
}

#[tokio::test]
async fn failures_are_not_cached() {
    let fixture = Fixture::new(Some(DuplicateCache::default())).await;
    for (procedure, before) in [(FAIL, 0), (PANIC, 2)] {
        for run in 1..=2 {
            let got = fixture.peer().await.call(1, procedure, &args(4, 0, 0)).await;
            assert_eq!(got.result, Err(ReplyError::SystemError));
            assert_eq!(fixture.counter.runs(), before + run);
        }
    }
    fixture.end().await;
}

#[tokio::test]
async fn with_connection_scope_a_new_connection_is_a_new_caller() {
    let options = DuplicateOptions { scope: CallerScope::Connection, ..DuplicateOptions::default() };
    let fixture = Fixture::new(Some(DuplicateCache::new(options))).await;
    let mut first = fixture.peer().await;
    for _ in 0..2 {
        assert_eq!(first.call(1, COUNT, &args(4, 0, 0)).await.result.unwrap().count, 1);
    }
    assert_eq!(fixture.peer().await.call(1, COUNT, &args(4, 0, 0)).await.result.unwrap().count, 2);
    fixture.end().await;
}

#[tokio::test]
async fn one_cache_distinguishes_connections_of_two_servers() {
    let options = DuplicateOptions { scope: CallerScope::Connection, ..DuplicateOptions::default() };
    let cache = DuplicateCache::new(options);
    for _ in 0..2 {
        let fixture = Fixture::new(Some(cache.clone())).await;
        let mut peer = fixture.peer().await;
        for _ in 0..2 {
            assert_eq!(peer.call(1, COUNT, &args(4, 0, 0)).await.result.unwrap().count, 1);
        }
        assert_eq!(fixture.counter.runs(), 1, "each server runs the calls of its own clients");
        fixture.end().await;
    }
    assert_eq!(cache.cached_replies(), 2);
}

#[tokio::test]
async fn idempotent_replies_are_not_cached() {
    let policy = CachePolicy::only(|called| called.procedure != COUNT);
    let options = DuplicateOptions { policy, ..DuplicateOptions::default() };
    let cache = DuplicateCache::new(options);
    let fixture = Fixture::new(Some(cache.clone())).await;
    let mut peer = fixture.peer().await;
    for run in 1..=2 {
        assert_eq!(peer.call(1, COUNT, &args(4, 0, 0)).await.result.unwrap().count, run);
    }
    assert_eq!(cache.cached_replies(), 0);
    fixture.counter.gate.0.add_permits(1);
    for _ in 0..2 {
        assert_eq!(peer.call(1, GATE, &args(4, 0, 0)).await.result.unwrap().count, 3);
    }
    assert_eq!(cache.cached_replies(), 1);
    fixture.end().await;
}

/// A call that changes the state of its connection must run again on the next connection.
#[tokio::test]
async fn an_uncached_service_executes_retransmitted_calls() {
    let counter = Counter::default();
    let server = Server::bind("127.0.0.1:0").await.unwrap().service(Uncached(counter.clone()));
    let (address, stats) = (server.local_addr().unwrap(), server.stats());
    tokio::spawn(server.run(std::future::pending()));
    for run in 1..=2 {
        let got = Peer::connect(address, Config::default()).await.call(1, COUNT, &args(4, 0, 0)).await;
        assert_eq!(got.result.unwrap().count, run);
    }
    assert_eq!(stats.snapshot().duplicates, DuplicateCounts::default());
}

/// A handler that gets a client for backward calls may change the state of the connection.
#[tokio::test]
async fn a_call_that_uses_its_connection_runs_again_on_the_next() {
    let fixture = Fixture::new(Some(DuplicateCache::default())).await;
    for run in 1..=2 {
        let got = fixture.peer().await.call(1, BACK, &args(4, 0, 0)).await;
        assert_eq!(got.result.unwrap().count, run);
    }
    fixture.end().await;
}

/// Makes a call, drops its connection while the call runs, and returns the reply to a retransmission that
/// arrived before the call ended.
async fn retransmit_running(fixture: &Fixture, procedure: u32) -> Result<Res, ReplyError> {
    let mut first = fixture.peer().await;
    first.submit(1, procedure, &args(4, 0, 0), 1024);
    tokio::select! {
        event = first.event() => panic!("{event:?}"),
        () = fixture.counter.wait_for_runs(1) => drop(first),
    }
    let mut second = fixture.peer().await;
    second.submit(1, procedure, &args(4, 0, 0), 1024);
    let joined = async {
        while fixture.stats.snapshot().duplicates.joined == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::select! {
        event = second.event() => panic!("{event:?}"),
        joined = tokio::time::timeout(WAIT, joined) => joined.unwrap(),
    }
    assert_eq!(fixture.counter.runs(), 1, "the retransmission waits");
    fixture.counter.gate.0.add_permits(2);
    second.reply(1).await.result
}

/// The first call uses a connection that is lost while the call runs.
#[tokio::test]
async fn a_retransmission_of_a_running_call_that_uses_its_connection_runs() {
    let fixture = Fixture::new(Some(DuplicateCache::default())).await;
    assert_eq!(retransmit_running(&fixture, BACK_GATE).await.unwrap().count, 2);
    fixture.end().await;
}

/// If its connection is lost, a running call that uses this connection usually fails.
#[tokio::test]
async fn a_retransmission_of_a_failed_call_that_used_its_connection_runs() {
    for procedure in [BACK_FAIL, BACK_PANIC] {
        let fixture = Fixture::new(Some(DuplicateCache::default())).await;
        assert_eq!(retransmit_running(&fixture, procedure).await, Err(ReplyError::SystemError));
        assert_eq!(fixture.counter.runs(), 2, "procedure {procedure}");
        fixture.end().await;
    }
}

#[tokio::test]
async fn a_reply_that_is_too_long_is_not_cached() {
    let limits = DuplicateLimits { max_reply: 1000, ..DuplicateLimits::default() };
    let options = DuplicateOptions { limits, ..DuplicateOptions::default() };
    let fixture = Fixture::new(Some(DuplicateCache::new(options))).await;
    let mut peer = fixture.peer().await;
    // A header of 24 bytes, the count, two lengths and an item of 964 bytes make 1,000 bytes.
    for (xid, item, runs) in [(1, 964, 1), (2, 965, 2)] {
        let before = fixture.counter.runs();
        for _ in 0..2 {
            let _ = peer.call(xid, COUNT, &args(0, 0, item)).await;
        }
        assert_eq!(fixture.counter.runs(), before + runs, "{item}");
    }
    fixture.end().await;
}

async fn call_over_tcp(address: SocketAddr, xid: u32, args: &Args) -> Vec<u8> {
    let call = call_message(xid, COUNT, args, usize::MAX).into_message().stream;
    record::exchange(address, &call).await
}

#[tokio::test]
async fn servers_over_rdma_and_tcp_can_share_a_cache() {
    let cache = DuplicateCache::default();
    let fixture = Fixture::new(Some(cache.clone())).await;
    let mut services = Services::new();
    services.add(fixture.counter.clone());
    let options = TcpServerOptions { duplicates: Some(cache), ..TcpServerOptions::default() };
    let tcp = TcpServer::bind_with("127.0.0.1:0", options).await.unwrap().services(services);
    let address = tcp.local_addr().unwrap();
    tokio::spawn(tcp.run(std::future::pending()));
    let args = args(3000, 0, 3000);
    let first = fixture.peer().await.call(1, COUNT, &args).await;
    let (second, third) = (call_over_tcp(address, 1, &args).await, call_over_tcp(address, 1, &args).await);
    assert_eq!(second, third);
    assert_eq!(second[second.len() - 3000..], first.bytes[first.bytes.len() - 3000..]);
    assert_eq!(fixture.counter.runs(), 1);
    fixture.end().await;
}

#[tokio::test]
async fn one_server_shares_its_cache_between_rdma_and_tcp() {
    let counter = Counter::default();
    let server = Server::bind("127.0.0.1:0").await.unwrap().service(counter.clone());
    let server = server.also_tcp("127.0.0.1:0", TcpOptions::default()).await.unwrap();
    let (addresses, stats) = (server.local_addrs().unwrap(), server.stats());
    let serving = tokio::spawn(server.run(std::future::pending()));
    let args = args(3000, 0, 3000);
    let over_rdma = Peer::connect(addresses[0], Config::default()).await.call(1, COUNT, &args).await.bytes;
    let over_tcp = call_over_tcp(addresses[1], 1, &args).await;
    assert_eq!(over_tcp[over_tcp.len() - 3000..], over_rdma[over_rdma.len() - 3000..]);
    assert_eq!((counter.runs(), stats.snapshot().duplicates.replayed), (1, 1));
    serving.abort();
}

#[tokio::test]
async fn one_server_shares_its_cache_between_two_acceptors() {
    let counter = Counter::default();
    let second = iwarp::IwarpListener::bind("127.0.0.1:0", iwarp::IwarpOptions::default()).await.unwrap();
    let server = Server::bind("127.0.0.1:0").await.unwrap().service(counter.clone()).also(second);
    let (addresses, stats) = (server.local_addrs().unwrap(), server.stats());
    let serving = tokio::spawn(server.run(std::future::pending()));
    let mut replies = Vec::new();
    for address in addresses {
        let mut peer = Peer::connect(address, Config::default()).await;
        replies.push(peer.call(1, COUNT, &args(3000, 0, 3000)).await.bytes);
    }
    assert!(replies.len() == 2 && replies[0] == replies[1], "different replies");
    assert_eq!((counter.runs(), stats.snapshot().duplicates.replayed), (1, 1));
    serving.abort();
}

/// The server closes a busy connection from one address to admit a connection from another address.
#[cfg(target_os = "linux")] // Linux accepts 127.0.0.2 without configuration
#[tokio::test]
async fn a_call_outlives_a_connection_closed_for_another_peer() {
    let fixture = Fixture::with(ServerOptions { max_connections: 2, ..ServerOptions::default() }).await;
    let mut peers = [fixture.peer().await, fixture.peer().await];
    for (xid, peer) in (1..).zip(&mut peers) {
        peer.submit(xid, GATE, &args(4, 0, 0), 1024);
        tokio::select! {
            event = peer.event() => panic!("{event:?}"),
            () = fixture.counter.wait_for_runs(xid) => {}
        }
    }
    let [mut first, mut second] = peers;
    let other = tokio::net::TcpSocket::new_v4().unwrap();
    other.bind("127.0.0.2:0".parse().unwrap()).unwrap();
    let other = other.connect(fixture.address).await.unwrap();
    let closed = async { while !matches!(first.event().await, RequesterEvent::Closed(_)) {} };
    tokio::time::timeout(WAIT, closed).await.unwrap();
    drop(other);
    fixture.counter.gate.0.add_permits(2);
    second.reply(2).await.result.unwrap();
    for _ in 0..2 {
        let retransmitted = fixture.peer().await.call(1, GATE, &args(4, 0, 0)).await;
        assert_eq!(retransmitted.result.unwrap().count, 1);
    }
    assert_eq!(fixture.counter.runs(), 2, "the call ran again");
    drop((first, second));
    fixture.end().await;
}

#[tokio::test]
async fn a_stopping_server_waits_for_calls_that_outlive_their_connection() {
    let fixture = Fixture::new(Some(DuplicateCache::default())).await;
    let mut peer = fixture.peer().await;
    peer.submit(1, GATE, &args(4, 0, 0), 1024);
    tokio::select! {
        event = peer.event() => panic!("{event:?}"),
        () = fixture.counter.wait_for_runs(1) => drop(peer),
    }
    let Fixture { counter, stop, mut server, .. } = fixture;
    stop.send(()).unwrap();
    assert!(tokio::time::timeout(Duration::from_millis(100), &mut server).await.is_err());
    counter.gate.0.add_permits(1);
    tokio::time::timeout(WAIT, server).await.unwrap().unwrap();
}
