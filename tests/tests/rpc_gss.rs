//! RPCSEC_GSS (RFC 2203) with a test mechanism: contexts, protected messages, and their chunks in
//! RPC-over-RDMA (RFC 8166 section 8.2.2).
#![allow(clippy::unwrap_used)] // a test that cannot continue panics

#[path = "rpc_gss/contexts.rs"]
mod contexts;
#[path = "rpc_gss/faults.rs"]
mod faults;

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use rpcrdma_runtime::Services;
use rpcrdma_runtime::program::{AuthStat, CallContext, Caller, Program, Reject, ReplyBounds, Service};
use rpcrdma_runtime::proto::rdma::{Traffic, TransportError};
use rpcrdma_runtime::proto::rpc::gss::{
    GssCaller, GssCredential, GssError, GssExchange, GssFailure, GssMechanism, GssServer, GssServerOptions,
    GssService,
};
use rpcrdma_runtime::wire::rpc::{CallHeader, Credential, ReplyError, Verifier, decode_verified};
use rpcrdma_runtime::xdr::{Message, Placed, Reader, Received, Reducer};
use rpcrdma_runtime::{
    CallError, ClientOptions, DuplicateCache, GssClient, MessageTransport, Observer, Sends, ServerOptions,
    TcpServer, TcpServerOptions,
};
use rpcrdma_runtime::{Client, Server};
use rpcrdma_sim::{Args, Echo, ResultLengths};
use rpcrdma_tests::gss::TestMechanism;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

const SERVICES: [GssService; 3] = [GssService::None, GssService::Integrity, GssService::Privacy];

#[derive(Clone, Default)]
struct RecordingEcho(Arc<Mutex<Option<GssCaller>>>);

impl Service for RecordingEcho {
    fn program(&self) -> u32 {
        <Echo as Program>::NUMBER
    }

    fn version(&self) -> u32 {
        <Echo as Program>::VERSION
    }

    fn dispatch<'a>(
        &'a self,
        context: &'a CallContext,
        args: Reader<'a>,
        reply: &'a mut Reducer,
    ) -> Pin<Box<dyn Future<Output = Result<(), Reject>> + Send + 'a>> {
        *self.0.lock().unwrap() = context.extensions.get().cloned();
        Echo.dispatch(context, args, reply)
    }
}

fn gss_services(options: GssServerOptions) -> (Services, Arc<GssServer>, RecordingEcho) {
    let gss = Arc::new(GssServer::with(TestMechanism::new("server"), options));
    let (mut services, recording) = (Services::new(), RecordingEcho::default());
    services.add(recording.clone());
    services.with_gss(gss.clone());
    (services, gss, recording)
}

async fn over_rdma(services: Services) -> SocketAddr {
    let server = Server::bind("127.0.0.1:0").await.unwrap().services(services);
    let address = server.local_addr().unwrap();
    tokio::spawn(server.run(std::future::pending()));
    address
}

async fn over_tcp(services: Services) -> SocketAddr {
    let server = Server::bind_tcp("127.0.0.1:0").await.unwrap().services(services);
    let address = server.local_addr().unwrap();
    tokio::spawn(server.run(std::future::pending()));
    address
}

/// Returns a connected client and the traffic of its last call.
async fn watched(address: SocketAddr) -> (Client, Arc<Mutex<Traffic>>) {
    let last = Arc::new(Mutex::new(Traffic::default()));
    let seen = last.clone();
    let observer = Observer::new(move |report| *seen.lock().unwrap() = report.traffic.unwrap_or_default());
    let options = ClientOptions { observer: Some(observer), ..ClientOptions::default() };
    (Client::connect_with(address, options).await.unwrap(), last)
}

fn args(first: usize, note: usize, want: u32) -> Args {
    Args::new(3, [first, note, 5], ResultLengths { note: 8, item: want, other: 0 })
}

async fn echo(client: &impl Caller<Echo, Error = CallError>, args: &Args) -> Result<(), CallError> {
    let result = client.call::<Echo>(args).await?;
    assert_eq!(result, args.result());
    Ok(())
}

/// Requirement: R264, R265, R266
#[tokio::test]
async fn calls_and_replies_with_every_service_over_rdma() {
    for service in SERVICES {
        let (services, gss, recording) = gss_services(GssServerOptions::default());
        let (client, traffic) = watched(over_rdma(services).await).await;
        let secure = GssClient::new(client, TestMechanism::new("alice"), service);
        echo(&secure, &args(10, 20, 30)).await.unwrap();
        let caller = recording.0.lock().unwrap().clone();
        assert_eq!(caller, Some(GssCaller { name: Bytes::from_static(b"alice"), service }));
        assert_eq!(secure.server().await.unwrap(), b"server");
        echo(&secure, &args(100_001, 20, 70_003)).await.unwrap();
        let seen = *traffic.lock().unwrap();
        if service == GssService::None {
            assert_eq!((seen.read_chunks, seen.read_bytes, seen.position_zero), (1, 100_001, 0), "{seen:?}");
            assert_eq!((seen.write_bytes, seen.reply_chunk_bytes), (70_003, 0), "{seen:?}");
        } else {
            assert_eq!((seen.read_chunks, seen.write_chunks, seen.write_bytes), (0, 0, 0), "{seen:?}");
            assert!(seen.position_zero > 100_001 && seen.reply_chunk_bytes > 70_003, "{seen:?}");
        }
        assert_eq!(gss.contexts(), 1, "one context for both calls");
    }
}

#[tokio::test]
async fn calls_and_replies_with_every_service_over_tcp() {
    for service in SERVICES {
        let (services, _, recording) = gss_services(GssServerOptions::default());
        let client = Client::connect_tcp(over_tcp(services).await).await.unwrap();
        let secure = GssClient::new(client, TestMechanism::new("alice"), service);
        for size in [0, 1, 1000, 100_001] {
            echo(&secure, &args(size, 7, 50_000)).await.unwrap();
        }
        assert_eq!(recording.0.lock().unwrap().as_ref().map(|caller| caller.service), Some(service));
    }
}

/// The sizes are around the inline threshold of 4,096 bytes in both directions. The bytes that the mechanism
/// adds therefore decide whether a message fits inline.
///
/// Requirement: R267
#[tokio::test]
async fn every_size_around_the_threshold() {
    for service in SERVICES {
        let (services, _, _) = gss_services(GssServerOptions::default());
        let client = Client::connect(over_rdma(services).await).await.unwrap();
        let secure = GssClient::new(client, TestMechanism::new("alice"), service);
        for size in (3400..4200).step_by(13) {
            let want = ResultLengths { note: size, item: 0, other: 0 };
            echo(&secure, &Args::new(3, [0, 10, 0], want)).await.unwrap();
            echo(&secure, &Args::new(3, [0, size as usize, 0], ResultLengths::default())).await.unwrap();
        }
    }
}

/// Some NFS clients create contexts over TCP and use them over RDMA (RFC 8166 section 8.2.2.1).
#[tokio::test]
async fn a_context_created_over_tcp_is_valid_over_rdma() {
    let (services, gss, _) = gss_services(GssServerOptions::default());
    let tcp = Client::connect_tcp(over_tcp(services.clone()).await).await.unwrap();
    let mechanism = TestMechanism { token: 30_000, ..TestMechanism::new("alice") };
    let secure = GssClient::<_, Echo>::new(
        Client::connect(over_rdma(services).await).await.unwrap(),
        mechanism.clone(),
        GssService::Privacy,
    );
    secure.establish_over(&tcp).await.unwrap();
    echo(&secure, &args(5000, 10, 5000)).await.unwrap();
    assert_eq!((gss.contexts(), mechanism.started.load(Ordering::Relaxed)), (1, 1));
}

/// Even a long token is not a DDP-eligible item.
///
/// Requirement: R264
#[tokio::test]
async fn a_long_token_uses_a_long_call_and_a_reply_chunk() {
    let gss = GssServer::new(TestMechanism { token: 20_000, ..TestMechanism::new("server") });
    let mut services = Services::new();
    services.add(Echo);
    services.with_gss(gss);
    let client = Client::connect(over_rdma(services).await).await.unwrap();
    let secure = GssClient::new(
        client,
        TestMechanism { token: 20_000, ..TestMechanism::new("alice") },
        GssService::Integrity,
    );
    echo(&secure, &args(10, 10, 10)).await.unwrap();
}

type Change = Box<dyn FnMut(Vec<u8>) -> Vec<u8> + Send>;

/// Passes calls to services without a network. Records the calls, and can change calls and replies.
#[derive(Clone)]
struct Direct {
    services: Services,
    xid: Arc<AtomicU32>,
    calls: Arc<Mutex<Vec<Message>>>,
    /// Whether each call may be retransmitted.
    sends: Arc<Mutex<Vec<Sends>>>,
    call: Arc<Mutex<Option<Change>>>,
    reply: Arc<Mutex<Option<Change>>>,
    /// True if calls that destroy contexts get no reply.
    silent: Arc<AtomicBool>,
}

impl Direct {
    fn new(services: Services) -> Self {
        Direct {
            services,
            xid: Arc::new(AtomicU32::new(0x0101_0101)),
            calls: Arc::default(),
            sends: Arc::default(),
            call: Arc::default(),
            reply: Arc::default(),
            silent: Arc::default(),
        }
    }

    fn change_calls(&self, change: impl FnMut(Vec<u8>) -> Vec<u8> + Send + 'static) {
        *self.call.lock().unwrap() = Some(Box::new(change));
    }

    fn change_replies(&self, change: impl FnMut(Vec<u8>) -> Vec<u8> + Send + 'static) {
        *self.reply.lock().unwrap() = Some(Box::new(change));
    }

    fn last_call(&self) -> Message {
        self.calls.lock().unwrap().last().unwrap().clone()
    }

    async fn send(&self, call: Bytes) -> Option<Bytes> {
        Some(self.services.answer(&Received::unreduced(call), None).await?.flatten())
    }
}

impl MessageTransport<Echo> for Direct {
    fn next_xid(&self) -> u32 {
        self.xid.fetch_add(1, Ordering::Relaxed)
    }

    fn min_item(&self) -> usize {
        1
    }

    async fn exchange(
        &self,
        _: &'static str,
        message: Message,
        _: ReplyBounds,
        sends: Sends,
    ) -> Result<(Received, Traffic), CallError> {
        self.calls.lock().unwrap().push(message.clone());
        self.sends.lock().unwrap().push(sends);
        if self.silent.load(Ordering::Relaxed) && message.stream[36..40] == [0, 0, 0, 3] {
            std::future::pending::<()>().await;
        }
        let changed = |change: &Mutex<Option<Change>>, data: Bytes| match &mut *change.lock().unwrap() {
            Some(change) => change(data.to_vec()).into(),
            None => data,
        };
        let call = changed(&self.call, message.flatten());
        let reply = self.send(call).await.ok_or(CallError::Disconnected)?;
        Ok((Received::unreduced(changed(&self.reply, reply)), Traffic::default()))
    }
}

fn direct(service: GssService) -> (Direct, GssClient<Direct, Echo>, Arc<GssServer>) {
    let (services, gss, _) = gss_services(GssServerOptions::default());
    let direct = Direct::new(services);
    (direct.clone(), GssClient::new(direct, TestMechanism::new("alice"), service), gss)
}

/// Returns a transport, a client with an established context, and an encoded call by this client. The server
/// has not executed this call.
async fn a_call(service: GssService) -> (Direct, GssClient<Direct, Echo>, Vec<u8>) {
    let (direct, client, _) = direct(service);
    echo(&client, &args(10, 10, 10)).await.unwrap();
    let xid = direct.xid.load(Ordering::Relaxed);
    // Truncate the next call, so that the server does not execute it.
    direct.change_calls(|mut call| {
        call.truncate(4);
        call
    });
    let _ = echo(&client, &args(10, 10, 10)).await;
    *direct.call.lock().unwrap() = None;
    let message = direct.last_call().flatten().to_vec();
    assert_eq!(message[..4], xid.to_be_bytes());
    (direct, client, message)
}

/// Returns the offsets of the credential's body, of the verifier's body, and of the arguments.
fn offsets(call: &[u8]) -> (usize, usize, usize) {
    let word = |at: usize| u32::from_be_bytes(call[at..at + 4].try_into().unwrap()) as usize;
    let verifier = 32 + word(28).next_multiple_of(4);
    (32, verifier + 8, verifier + 8 + word(verifier + 4).next_multiple_of(4))
}

fn response_of(reply: &Bytes) -> (Option<Verifier>, Result<(), ReplyError>) {
    let xid = u32::from_be_bytes(reply[..4].try_into().unwrap());
    decode_verified(&mut Reader::from_bytes(reply), xid).unwrap()
}

#[tokio::test]
async fn r264_only_items_of_the_program_are_reduced() {
    let (direct, client, _) = direct(GssService::None);
    echo(&client, &args(10, 10, 10)).await.unwrap();
    let calls = direct.calls.lock().unwrap().clone();
    let [init, data] = &calls[..] else { panic!("{} calls", calls.len()) };
    assert!(init.items.is_empty(), "the token stays in the stream");
    let lengths: Vec<_> = data.items.iter().map(|item| item.data.len()).collect();
    assert_eq!(lengths, [10, 5], "only the items of the arguments");
    let (_, _, arguments) = offsets(&data.stream);
    assert!(data.items.iter().all(|item| item.position as usize > arguments));
    // A message with a reduced credential is rejected.
    let item = rpcrdma_runtime::xdr::Item { position: 32, data: data.stream.slice(32..68) };
    let stream = [&data.stream[..32], &data.stream[68..]].concat().into();
    let moved = Received { stream, items: Placed::Positioned(vec![item]) };
    let reply = direct.services.answer(&moved, None).await.unwrap().flatten();
    assert!(matches!(response_of(&reply), (None, Err(ReplyError::Auth(_)))), "{:?}", response_of(&reply));
}

#[tokio::test]
async fn r265_protected_messages_keep_their_items() {
    for service in [GssService::Integrity, GssService::Privacy] {
        let (direct, client, _) = direct(service);
        echo(&client, &args(10_000, 10, 10)).await.unwrap();
        assert!(direct.calls.lock().unwrap().iter().all(|call| call.items.is_empty()));
        let reply = {
            let (direct, _, message) = a_call(service).await;
            direct.services.answer(&Received::unreduced(message.into()), None).await.unwrap()
        };
        assert!(reply.items.is_empty());
        let in_the_clear = Args::new(3, [10_000, 10, 5], ResultLengths::default()).first.as_bytes().clone();
        let readable = direct.last_call().stream.windows(64).any(|part| part == &in_the_clear[..64]);
        assert_eq!(readable, service == GssService::Integrity);
    }
}

#[tokio::test]
async fn only_messages_without_a_sequence_number_are_retransmitted() {
    let gss = Arc::new(GssServer::new(TestMechanism { rounds: 2, ..TestMechanism::new("server") }));
    let mut services = Services::new();
    services.add(Echo);
    services.with_gss(gss);
    let direct = Direct::new(services);
    let mechanism = TestMechanism { rounds: 2, ..TestMechanism::new("alice") };
    let client = GssClient::new(direct.clone(), mechanism, GssService::Integrity);
    echo(&client, &args(1, 1, 1)).await.unwrap();
    drop(client);
    while direct.sends.lock().unwrap().len() < 4 {
        tokio::task::yield_now().await;
    }
    // The control procedure in the credential (RFC 2203 section 5).
    let controls: Vec<u8> = direct.calls.lock().unwrap().iter().map(|call| call.stream[39]).collect();
    let [data, init, continue_init, destroy] = [0, 1, 2, 3];
    assert_eq!(controls, [init, continue_init, data, destroy]);
    let sends = direct.sends.lock().unwrap().clone();
    assert_eq!(sends, [Sends::Repeated, Sends::Repeated, Sends::Once, Sends::Once]);
}

#[tokio::test]
async fn tokens_are_exchanged_until_both_peers_finish() {
    for (client_rounds, server_rounds) in [(0, 1), (1, 1), (1, 2), (2, 2), (2, 3), (5, 5), (5, 6)] {
        let gss =
            Arc::new(GssServer::new(TestMechanism { rounds: server_rounds, ..TestMechanism::new("server") }));
        let mut services = Services::new();
        services.add(Echo);
        services.with_gss(gss.clone());
        let direct = Direct::new(services);
        let mechanism = TestMechanism { rounds: client_rounds, ..TestMechanism::new("alice") };
        let client = GssClient::new(direct.clone(), mechanism, GssService::Integrity);
        echo(&client, &args(1, 1, 1)).await.unwrap();
        assert_eq!(direct.calls.lock().unwrap().len(), server_rounds + 1, "{client_rounds} {server_rounds}");
        assert_eq!(gss.contexts(), 1);
    }
}

#[tokio::test]
async fn rejected_peers_get_a_reason() {
    let (services, gss, _) = gss_services(GssServerOptions::default());
    let client = GssClient::new(Direct::new(services), TestMechanism::new("unknown"), GssService::None);
    let refused = echo(&client, &args(1, 1, 1)).await;
    let Err(CallError::Gss(GssFailure::Refused(error))) = refused else { panic!("{refused:?}") };
    assert_eq!((error.major, error.minor), (0x000d_0000, 77));
    assert_eq!(gss.contexts(), 0);
    // A server that cannot prove its identity is rejected.
    let (services, _, _) = gss_services(GssServerOptions::default());
    let other_key = TestMechanism { key: 1, ..TestMechanism::new("alice") };
    let client = GssClient::new(Direct::new(services), other_key, GssService::None);
    let refused = echo(&client, &args(1, 1, 1)).await;
    assert!(matches!(refused, Err(CallError::Gss(GssFailure::Unverified))), "{refused:?}");
}
