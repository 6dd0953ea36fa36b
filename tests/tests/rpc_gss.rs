//! RPCSEC_GSS (RFC 2203) with a mechanism that is a test's: contexts, what is protected, and how such
//! messages travel over RPC-over-RDMA (RFC 8166 section 8.2.2).
#![allow(clippy::unwrap_used)] // a test that cannot go on says so by panicking

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
use rpcrdma_sim::{Args, Echo, Want};
use rpcrdma_tests::gss::Toy;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

const SERVICES: [GssService; 3] = [GssService::None, GssService::Integrity, GssService::Privacy];

/// An echo that keeps who called it.
#[derive(Clone, Default)]
struct Known(Arc<Mutex<Option<GssCaller>>>);

impl Service for Known {
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

fn secured(options: GssServerOptions) -> (Services, Arc<GssServer>, Known) {
    let gss = Arc::new(GssServer::with(Toy::new("server"), options));
    let (mut services, known) = (Services::new(), Known::default());
    services.add(known.clone());
    services.with_gss(gss.clone());
    (services, gss, known)
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

/// A client, and where the traffic of its last call is found.
async fn watched(address: SocketAddr) -> (Client, Arc<Mutex<Traffic>>) {
    let last = Arc::new(Mutex::new(Traffic::default()));
    let seen = last.clone();
    let observer = Observer::new(move |report| *seen.lock().unwrap() = report.traffic.unwrap_or_default());
    let options = ClientOptions { observer: Some(observer), ..ClientOptions::default() };
    (Client::connect_with(address, options).await.unwrap(), last)
}

fn args(first: usize, note: usize, want: u32) -> Args {
    Args::new(3, [first, note, 5], Want { note: 8, item: want, other: 0 })
}

async fn echo(client: &impl Caller<Echo, Error = CallError>, args: &Args) -> Result<(), CallError> {
    let result = client.call::<Echo>(args).await?;
    assert_eq!(result, args.result());
    Ok(())
}

/// Requirement: R264, R265, R266
#[tokio::test]
async fn calls_and_replies_by_every_service_over_rdma() {
    for service in SERVICES {
        let (services, gss, known) = secured(GssServerOptions::default());
        let (client, traffic) = watched(over_rdma(services).await).await;
        let secure = GssClient::new(client, Toy::new("alice"), service);
        echo(&secure, &args(10, 20, 30)).await.unwrap();
        let caller = known.0.lock().unwrap().clone();
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
async fn calls_and_replies_by_every_service_over_tcp() {
    for service in SERVICES {
        let (services, _, known) = secured(GssServerOptions::default());
        let client = Client::connect_tcp(over_tcp(services).await).await.unwrap();
        let secure = GssClient::new(client, Toy::new("alice"), service);
        for size in [0, 1, 1000, 100_001] {
            echo(&secure, &args(size, 7, 50_000)).await.unwrap();
        }
        assert_eq!(known.0.lock().unwrap().as_ref().map(|caller| caller.service), Some(service));
    }
}

/// Around the inline threshold of 4,096 bytes, in both directions: what a mechanism adds is counted.
///
/// Requirement: R267
#[tokio::test]
async fn every_size_around_the_threshold() {
    for service in SERVICES {
        let (services, _, _) = secured(GssServerOptions::default());
        let client = Client::connect(over_rdma(services).await).await.unwrap();
        let secure = GssClient::new(client, Toy::new("alice"), service);
        for size in (3400..4200).step_by(13) {
            let want = Want { note: size, item: 0, other: 0 };
            echo(&secure, &Args::new(3, [0, 10, 0], want)).await.unwrap();
            echo(&secure, &Args::new(3, [0, size as usize, 0], Want::default())).await.unwrap();
        }
    }
}

/// As RFC 8166 section 8.2.2.1 has NFS do it.
#[tokio::test]
async fn a_context_that_was_made_over_tcp_is_good_over_rdma() {
    let (services, gss, _) = secured(GssServerOptions::default());
    let tcp = Client::connect_tcp(over_tcp(services.clone()).await).await.unwrap();
    let toy = Toy { token: 30_000, ..Toy::new("alice") };
    let secure = GssClient::<_, Echo>::new(
        Client::connect(over_rdma(services).await).await.unwrap(),
        toy.clone(),
        GssService::Privacy,
    );
    secure.establish_over(&tcp).await.unwrap();
    echo(&secure, &args(5000, 10, 5000)).await.unwrap();
    assert_eq!((gss.contexts(), toy.begun.load(Ordering::Relaxed)), (1, 1));
}

/// A token is no item, however long it is.
///
/// Requirement: R264
#[tokio::test]
async fn a_long_token_goes_as_a_long_call_and_comes_in_a_reply_chunk() {
    let gss = GssServer::new(Toy { token: 20_000, ..Toy::new("server") });
    let mut services = Services::new();
    services.add(Echo);
    services.with_gss(gss);
    let client = Client::connect(over_rdma(services).await).await.unwrap();
    let secure = GssClient::new(client, Toy { token: 20_000, ..Toy::new("alice") }, GssService::Integrity);
    echo(&secure, &args(10, 10, 10)).await.unwrap();
}

/// What changes messages on their way.
type Change = Box<dyn FnMut(Vec<u8>) -> Vec<u8> + Send>;

/// Carries calls to services without a network, keeps them, and changes them.
#[derive(Clone)]
struct Direct {
    services: Services,
    xid: Arc<AtomicU32>,
    calls: Arc<Mutex<Vec<Message>>>,
    /// How often each of them may be sent.
    sends: Arc<Mutex<Vec<Sends>>>,
    call: Arc<Mutex<Option<Change>>>,
    reply: Arc<Mutex<Option<Change>>>,
    /// Whether nobody hears of contexts that end.
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
        Some(self.services.answer(&Received::whole(call), None).await?.flatten())
    }
}

impl MessageTransport<Echo> for Direct {
    fn next_xid(&self) -> u32 {
        self.xid.fetch_add(1, Ordering::Relaxed)
    }

    fn min_item(&self) -> usize {
        1
    }

    async fn carry(
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
        Ok((Received::whole(changed(&self.reply, reply)), Traffic::default()))
    }
}

fn direct(service: GssService) -> (Direct, GssClient<Direct, Echo>, Arc<GssServer>) {
    let (services, gss, _) = secured(GssServerOptions::default());
    let direct = Direct::new(services);
    (direct.clone(), GssClient::new(direct, Toy::new("alice"), service), gss)
}

/// A call of `alice` as it is sent, after one that made the context.
async fn a_call(service: GssService) -> (Direct, GssClient<Direct, Echo>, Vec<u8>) {
    let (direct, client, _) = direct(service);
    echo(&client, &args(10, 10, 10)).await.unwrap();
    let xid = direct.xid.load(Ordering::Relaxed);
    // One that the server has not seen.
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

/// Where the parts of a call are: the credential's body, the verifier's body, and what is behind the
/// verifier.
fn places(call: &[u8]) -> (usize, usize, usize) {
    let word = |at: usize| u32::from_be_bytes(call[at..at + 4].try_into().unwrap()) as usize;
    let verifier = 32 + word(28).next_multiple_of(4);
    (32, verifier + 8, verifier + 8 + word(verifier + 4).next_multiple_of(4))
}

/// What a server says to a message: its verifier, and what it refuses it with.
fn said(reply: &Bytes) -> (Option<Verifier>, Result<(), ReplyError>) {
    let xid = u32::from_be_bytes(reply[..4].try_into().unwrap());
    decode_verified(&mut Reader::from_bytes(reply), xid).unwrap()
}

#[tokio::test]
async fn r264_items_are_the_programs_and_nothing_is_moved_that_is_the_flavors() {
    let (direct, client, _) = direct(GssService::None);
    echo(&client, &args(10, 10, 10)).await.unwrap();
    let calls = direct.calls.lock().unwrap().clone();
    let [init, data] = &calls[..] else { panic!("{} calls", calls.len()) };
    assert!(init.items.is_empty(), "the token stays in the stream");
    let lengths: Vec<_> = data.items.iter().map(|item| item.data.len()).collect();
    assert_eq!(lengths, [10, 5], "both items of the arguments, as long as they are, and nothing else");
    let (_, _, behind) = places(&data.stream);
    assert!(data.items.iter().all(|item| item.position as usize > behind));
    // Who moves a credential out all the same is not understood.
    let item = rpcrdma_runtime::xdr::Item { position: 32, data: data.stream.slice(32..68) };
    let stream = [&data.stream[..32], &data.stream[68..]].concat().into();
    let moved = Received { stream, items: Placed::Positioned(vec![item]) };
    let reply = direct.services.answer(&moved, None).await.unwrap().flatten();
    assert!(matches!(said(&reply), (None, Err(ReplyError::Auth(_)))), "{:?}", said(&reply));
}

#[tokio::test]
async fn r265_with_protection_nothing_leaves_the_message() {
    for service in [GssService::Integrity, GssService::Privacy] {
        let (direct, client, _) = direct(service);
        echo(&client, &args(10_000, 10, 10)).await.unwrap();
        assert!(direct.calls.lock().unwrap().iter().all(|call| call.items.is_empty()));
        let reply = {
            let (direct, _, message) = a_call(service).await;
            direct.services.answer(&Received::whole(message.into()), None).await.unwrap()
        };
        assert!(reply.items.is_empty());
        let in_the_clear = Args::new(3, [10_000, 10, 5], Want::default()).first.as_bytes().clone();
        let readable = direct.last_call().stream.windows(64).any(|part| part == &in_the_clear[..64]);
        assert_eq!(readable, service == GssService::Integrity);
    }
}

#[tokio::test]
async fn only_messages_without_a_sequence_number_are_sent_again() {
    let gss = Arc::new(GssServer::new(Toy { rounds: 2, ..Toy::new("server") }));
    let mut services = Services::new();
    services.add(Echo);
    services.with_gss(gss);
    let direct = Direct::new(services);
    let toy = Toy { rounds: 2, ..Toy::new("alice") };
    let client = GssClient::new(direct.clone(), toy, GssService::Integrity);
    echo(&client, &args(1, 1, 1)).await.unwrap();
    drop(client);
    while direct.sends.lock().unwrap().len() < 4 {
        tokio::task::yield_now().await;
    }
    // The control procedure in the credential (RFC 2203 section 5.3.1).
    let controls: Vec<u8> = direct.calls.lock().unwrap().iter().map(|call| call.stream[39]).collect();
    let [data, init, continue_init, destroy] = [0, 1, 2, 3];
    assert_eq!(controls, [init, continue_init, data, destroy]);
    let sends = direct.sends.lock().unwrap().clone();
    assert_eq!(sends, [Sends::Repeated, Sends::Repeated, Sends::Once, Sends::Once]);
}

#[tokio::test]
async fn tokens_go_back_and_forth_as_long_as_the_ends_want_to() {
    for (client_rounds, server_rounds) in [(0, 1), (1, 1), (1, 2), (2, 2), (2, 3), (5, 5), (5, 6)] {
        let gss = Arc::new(GssServer::new(Toy { rounds: server_rounds, ..Toy::new("server") }));
        let mut services = Services::new();
        services.add(Echo);
        services.with_gss(gss.clone());
        let direct = Direct::new(services);
        let toy = Toy { rounds: client_rounds, ..Toy::new("alice") };
        let client = GssClient::new(direct.clone(), toy, GssService::Integrity);
        echo(&client, &args(1, 1, 1)).await.unwrap();
        assert_eq!(direct.calls.lock().unwrap().len(), server_rounds + 1, "{client_rounds} {server_rounds}");
        assert_eq!(gss.contexts(), 1);
    }
}

#[tokio::test]
async fn who_is_not_taken_hears_why() {
    let (services, gss, _) = secured(GssServerOptions::default());
    let client = GssClient::new(Direct::new(services), Toy::new("nobody"), GssService::None);
    let refused = echo(&client, &args(1, 1, 1)).await;
    let Err(CallError::Gss(GssFailure::Refused(error))) = refused else { panic!("{refused:?}") };
    assert_eq!((error.major, error.minor), (0x000d_0000, 77));
    assert_eq!(gss.contexts(), 0);
    // A server that cannot show itself is none.
    let (services, _, _) = secured(GssServerOptions::default());
    let other_key = Toy { key: 1, ..Toy::new("alice") };
    let client = GssClient::new(Direct::new(services), other_key, GssService::None);
    let refused = echo(&client, &args(1, 1, 1)).await;
    assert!(matches!(refused, Err(CallError::Gss(GssFailure::Unverified))), "{refused:?}");
}

/// Each octet of the header, and of what is protected, flipped.
#[tokio::test]
async fn a_call_that_was_changed_on_its_way_is_not_run() {
    for service in SERVICES {
        let (direct, client, message) = a_call(service).await;
        let (_, _, behind) = places(&message);
        for at in 0..behind {
            let mut changed = message.clone();
            changed[at] ^= 1;
            let Some(reply) = direct.send(changed.into()).await else { continue };
            let (_, status) = said(&reply);
            assert!(status.is_err(), "{service:?}: octet {at} of {}", message.len());
        }
        let end = if service == GssService::None { behind } else { message.len() };
        let reply = direct.send(message.into()).await.unwrap();
        assert_eq!(said(&reply).1, Ok(()), "none of them has used the sequence number up");
        for at in behind..end {
            direct.change_calls(move |mut call| {
                call[at] ^= 1;
                call
            });
            let answer = echo(&client, &args(10, 10, 10)).await;
            let garbage =
                matches!(answer, Err(CallError::Gss(GssFailure::Rejected(ReplyError::GarbageArguments))));
            assert!(garbage, "{service:?}: octet {at} of {end}: {answer:?}");
        }
    }
}

#[tokio::test]
async fn each_fault_has_its_status() {
    let (direct, _, message) = a_call(GssService::Integrity).await;
    let (credential, verifier, behind) = places(&message);
    let auth = |stat| Err(ReplyError::Auth(stat));
    let faults: [(&str, usize, Result<(), ReplyError>); 7] = [
        ("the version", credential + 3, auth(AuthStat::RejectedCredential)),
        ("the control procedure", credential + 7, auth(AuthStat::BadCredential)),
        ("the service", credential + 15, auth(AuthStat::BadCredential)),
        ("the handle", credential + 20, auth(AuthStat::GssCredentialProblem)),
        ("the header", 23, auth(AuthStat::GssCredentialProblem)),
        ("the flavor of the verifier", verifier - 5, auth(AuthStat::BadVerifier)),
        ("the arguments", behind + 8, Err(ReplyError::GarbageArguments)),
    ];
    for (what, at, status) in faults {
        let mut changed = message.clone();
        changed[at] ^= 0x40;
        let reply = direct.send(changed.into()).await.unwrap();
        let (verifier, found) = said(&reply);
        assert_eq!(found, status, "{what}");
        let accepted = matches!(found, Err(ReplyError::GarbageArguments));
        assert_eq!(verifier.is_some_and(|verifier| verifier.flavor == 6), accepted, "{what}");
    }
}

#[tokio::test]
async fn a_call_that_comes_again_gets_no_answer() {
    for service in SERVICES {
        let (direct, client, message) = a_call(service).await;
        let message = Bytes::from(message);
        assert!(direct.send(message.clone()).await.is_some());
        assert_eq!(direct.send(message.clone()).await, None);
        echo(&client, &args(1, 1, 1)).await.unwrap();
        assert_eq!(direct.send(message).await, None);
    }
}

/// A connection by TCP, record by record.
struct Records(tokio::net::TcpStream);

impl Records {
    async fn to(address: SocketAddr) -> Self {
        Records(tokio::net::TcpStream::connect(address).await.unwrap())
    }

    async fn send(&mut self, call: &[u8]) {
        let mark = rpcrdma_runtime::wire::rpc::record_mark(call.len() as u64).unwrap();
        self.0.write_all(&[&mark, call].concat()).await.unwrap();
    }

    async fn next(&mut self) -> Bytes {
        let next = async {
            let mark = self.0.read_u32().await?;
            let mut reply = vec![0; (mark & 0x7fff_ffff) as usize];
            self.0.read_exact(&mut reply).await?;
            std::io::Result::Ok(reply.into())
        };
        tokio::time::timeout(Duration::from_secs(30), next).await.unwrap().expect("the connection is open")
    }
}

/// A call without a credential, of a program that is not there: one that is answered.
fn unavailable(xid: u32) -> Vec<u8> {
    [xid, 0, 2, 77, 1, 0, 0, 0, 0, 0].into_iter().flat_map(u32::to_be_bytes).collect()
}

async fn over_tcp_with(services: Services, duplicates: Option<DuplicateCache>) -> SocketAddr {
    let options = TcpServerOptions { duplicates, ..TcpServerOptions::default() };
    let server = TcpServer::bind_with("127.0.0.1:0", options).await.unwrap().services(services);
    let address = server.local_addr().unwrap();
    tokio::spawn(server.run(std::future::pending()));
    address
}

/// As a client does whose connection went away: the call is run once, and its reply comes again if it is
/// remembered.
#[tokio::test]
async fn a_call_that_is_sent_again_on_another_connection_is_answered_as_before() {
    for service in SERVICES {
        for remembers in [true, false] {
            let (direct, client, message) = a_call(service).await;
            let duplicates = remembers.then(DuplicateCache::default);
            let address = over_tcp_with(direct.services.clone(), duplicates).await;
            let mut socket = Records::to(address).await;
            socket.send(&message).await;
            let first = socket.next().await;
            assert_eq!(said(&first).1, Ok(()));
            let mut socket = Records::to(address).await;
            socket.send(&message).await;
            if remembers {
                assert_eq!(socket.next().await, first, "{service:?}");
            }
            socket.send(&unavailable(5)).await;
            assert_eq!(socket.next().await[..4], 5u32.to_be_bytes(), "no other reply has come");
            // Another number makes another call of it.
            echo(&client, &args(10, 10, 10)).await.unwrap();
            assert_ne!(direct.last_call().flatten()[32..], message[32..]);
        }
    }
}

/// A call with another verifier that the cache cannot tell from the first one: its checksum is not a secret.
fn forged(message: &[u8]) -> Vec<u8> {
    let (_, verifier, _) = places(message);
    let len = u32::from_be_bytes(message[verifier - 4..verifier].try_into().unwrap()) as usize;
    let end = verifier + len - 1;
    let word = |at: usize| u64::from_be_bytes(message[at..at + 8].try_into().unwrap());
    let step = |sum: u64, word: u64| {
        let mixed = (sum ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed ^ (mixed >> 32)).wrapping_mul(0xbf58_476d_1ce4_e5b9).rotate_left(29)
    };
    let mut forged = message.to_vec();
    // The last octet of the verifier, and the word of arguments behind it that makes up for the change.
    let last = end & !7;
    forged[end] ^= 1;
    let before = (0..last).step_by(8).fold(0xcbf2_9ce4_8422_2325, |sum, at| step(sum, word(at)));
    let changed = u64::from_be_bytes(forged[last..last + 8].try_into().unwrap());
    let next = word(last + 8) ^ step(before, word(last)) ^ step(before, changed);
    forged[last + 8..last + 16].copy_from_slice(&next.to_be_bytes());
    forged
}

#[tokio::test]
async fn a_cached_reply_is_for_its_authentic_caller_only() {
    let (direct, _client, message) = a_call(GssService::None).await;
    let address = over_tcp_with(direct.services.clone(), Some(DuplicateCache::default())).await;
    let mut socket = Records::to(address).await;
    socket.send(&message).await;
    assert_eq!(said(&socket.next().await).1, Ok(()));
    socket.send(&forged(&message)).await;
    let refused = said(&socket.next().await).1;
    assert_eq!(refused, Err(ReplyError::Auth(AuthStat::GssCredentialProblem)));
}

/// RFC 2203 section 5.3.3.1 has the server say nothing to it; the connection has other calls.
#[tokio::test]
async fn a_call_that_is_not_answered_leaves_its_tcp_connection_to_the_others() {
    let (direct, client, message) = a_call(GssService::Integrity).await;
    let address = over_tcp_with(direct.services.clone(), None).await;
    let mut socket = Records::to(address).await;
    socket.send(&message).await;
    assert_eq!(said(&socket.next().await).1, Ok(()));
    // More of them than calls may be under way.
    for n in 0..300 {
        socket.send(&message).await;
        socket.send(&unavailable(n)).await;
        assert_eq!(socket.next().await[..4], n.to_be_bytes());
    }
    for _ in 0..300 {
        socket.send(&message).await;
    }
    // What the client sends next is taken.
    direct.change_calls(|_| vec![0; 4]);
    assert!(echo(&client, &args(10, 10, 10)).await.is_err());
    socket.send(&direct.last_call().flatten()).await;
    assert_eq!(said(&socket.next().await).1, Ok(()));
    // Nor does the server wait for it, once the client has said that nothing more comes.
    socket.send(&message).await;
    socket.0.shutdown().await.unwrap();
    let end = tokio::time::timeout(Duration::from_secs(30), socket.0.read_u8()).await.unwrap();
    assert_eq!(end.unwrap_err().kind(), std::io::ErrorKind::UnexpectedEof);
}

/// An echo that answers nobody before it is opened, and counts who has come to it.
#[derive(Clone)]
struct Gate {
    open: Arc<Semaphore>,
    come: Arc<AtomicU32>,
}

impl Gate {
    fn new() -> Self {
        Gate { open: Arc::new(Semaphore::new(0)), come: Arc::default() }
    }

    /// With no context yet.
    fn services(&self) -> Services {
        let mut services = Services::new();
        services.add(self.clone());
        services.with_gss(GssServer::new(Toy::new("server")));
        services
    }
}

impl Service for Gate {
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
        Box::pin(async move {
            self.come.fetch_add(1, Ordering::Relaxed);
            let _passes = self.open.acquire().await;
            Echo.dispatch(context, args, reply).await
        })
    }
}

/// A server that remembers no calls, and that is killed by ending its task.
async fn mortal(address: SocketAddr, tcp: bool, services: Services) -> (SocketAddr, JoinHandle<()>) {
    let forever = std::future::pending;
    // The address may be taken for a moment by what is left of the server before.
    loop {
        if tcp {
            let options = TcpServerOptions { duplicates: None, ..TcpServerOptions::default() };
            if let Ok(server) = TcpServer::bind_with(address, options).await {
                let server = server.services(services);
                let address = server.local_addr().unwrap();
                return (address, tokio::spawn(async move { server.run(forever()).await.unwrap() }));
            }
        } else {
            let options = ServerOptions { duplicates: None, ..ServerOptions::default() };
            if let Ok(server) = Server::bind_with(address, options).await {
                let server = server.services(services);
                let address = server.local_addr().unwrap();
                return (address, tokio::spawn(async move { server.run(forever()).await.unwrap() }));
            }
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Loses the connection while a call runs. It fails; the next one goes by a new connection.
async fn lost<C: MessageTransport<Echo>>(
    secure: GssClient<C, Echo>,
    gate: Gate,
    server: JoinHandle<()>,
    restart: impl Future<Output = (SocketAddr, JoinHandle<()>)>,
) {
    let restarted = async {
        while gate.come.load(Ordering::Relaxed) == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        server.abort();
        assert!(server.await.unwrap_err().is_cancelled());
        gate.open.add_permits(100);
        restart.await
    };
    let arguments = args(10, 10, 10);
    let both = async { tokio::join!(echo(&secure, &arguments), restarted) };
    let (answer, _) = tokio::time::timeout(Duration::from_secs(30), both).await.unwrap();
    assert!(matches!(answer, Err(CallError::Transport(TransportError::Closed(_)))), "{answer:?}");
    assert_eq!(gate.come.load(Ordering::Relaxed), 1, "it was executed once");
    let next = echo(&secure, &arguments);
    tokio::time::timeout(Duration::from_secs(30), next).await.unwrap().unwrap();
    assert_eq!(gate.come.load(Ordering::Relaxed), 2);
}

/// Sent again it would wait for its time to be up, and then take the connection with it; or, if the server
/// has forgotten the context, it would be executed twice.
#[tokio::test]
async fn a_call_that_was_sent_fails_with_its_connection() {
    for (tcp, forgets) in [(false, false), (false, true), (true, false), (true, true)] {
        let gate = Gate::new();
        let services = gate.services();
        let (address, server) = mortal(([127, 0, 0, 1], 0).into(), tcp, services.clone()).await;
        let after = if forgets { gate.services() } else { services };
        let restart = mortal(address, tcp, after);
        let (alice, service) = (Toy::new("alice"), GssService::Integrity);
        if tcp {
            let client = Client::connect_tcp(address).await.unwrap();
            lost(GssClient::new(client, alice, service), gate, server, restart).await;
        } else {
            let client = Client::connect(address).await.unwrap();
            lost(GssClient::new(client, alice, service), gate, server, restart).await;
        }
    }
}

/// As a client does whose connection went away when the server had the token, and its answer was lost.
#[tokio::test]
async fn a_token_that_the_server_has_had_begins_the_context_anew() {
    for rounds in [2, 3] {
        let mut services = Services::new();
        services.add(Echo);
        services.with_gss(GssServer::new(Toy { rounds, ..Toy::new("server") }));
        let direct = Direct::new(services.clone());
        let lost = Arc::new(AtomicU32::new(0));
        let calls = lost.clone();
        direct.change_calls(move |call| {
            // The last token: the context is finished by it.
            if calls.fetch_add(1, Ordering::Relaxed) as usize == rounds - 1 {
                let token = Received::whole(call.clone().into());
                let first = services.answer(&token, None);
                let first = std::pin::pin!(first).poll(&mut Context::from_waker(Waker::noop()));
                assert!(matches!(first, Poll::Ready(Some(_))));
            }
            call
        });
        let toy = Toy { rounds, ..Toy::new("alice") };
        let client = GssClient::new(direct, toy.clone(), GssService::Integrity);
        echo(&client, &args(1, 1, 1)).await.unwrap();
        assert_eq!(toy.begun.load(Ordering::Relaxed), 2);
        assert_eq!(lost.load(Ordering::Relaxed) as usize, 2 * rounds + 1, "all tokens twice, and the call");
    }
}

#[tokio::test]
async fn a_server_that_does_not_hear_of_the_end_of_a_context_holds_up_no_call() {
    let (direct, client, gss) = direct(GssService::Integrity);
    echo(&client, &args(1, 1, 1)).await.unwrap();
    direct.silent.store(true, Ordering::Relaxed);
    let destroying = client.destroy();
    let arguments = args(1, 1, 1);
    let next = async {
        tokio::select! {
            biased;
            ended = destroying => panic!("nobody has answered: {ended:?}"),
            answer = echo(&client, &arguments) => answer.unwrap(),
        }
    };
    tokio::time::timeout(Duration::from_secs(30), next).await.expect("the call is not held up");
    assert_eq!(gss.contexts(), 2, "the old one, and one for the call");
}

#[tokio::test]
async fn a_call_from_below_the_window_gets_no_answer() {
    let (services, _, _) = secured(GssServerOptions { window: 4, ..GssServerOptions::default() });
    let direct = Direct::new(services);
    let client = GssClient::new(direct.clone(), Toy::new("alice"), GssService::None);
    echo(&client, &args(1, 1, 1)).await.unwrap();
    direct.change_calls(|_| vec![0; 4]);
    assert!(echo(&client, &args(1, 1, 1)).await.is_err());
    *direct.call.lock().unwrap() = None;
    let late = direct.last_call().flatten();
    for _ in 0..4 {
        echo(&client, &args(1, 1, 1)).await.unwrap();
    }
    assert_eq!(direct.send(late).await, None);
}

#[tokio::test]
async fn many_calls_at_once_through_a_small_window() {
    let (services, gss, _) = secured(GssServerOptions { window: 3, ..GssServerOptions::default() });
    let client = Client::connect(over_rdma(services).await).await.unwrap();
    let secure = GssClient::new(client, Toy::new("alice"), GssService::Integrity);
    let calls: Vec<_> = (0..200)
        .map(|n| {
            let secure = secure.clone();
            // Long and short ones, which overtake them.
            tokio::spawn(async move { echo(&secure, &args(n % 7 * 3000, 10, 10)).await.unwrap() })
        })
        .collect();
    for call in calls {
        tokio::time::timeout(Duration::from_secs(30), call).await.unwrap().unwrap();
    }
    assert_eq!(gss.contexts(), 1);
}

#[tokio::test]
async fn a_context_that_the_server_forgot_is_made_again() {
    let (services, gss, _) = secured(GssServerOptions { contexts: 1, ..GssServerOptions::default() });
    let direct = Direct::new(services);
    let (alice, bob) = (Toy::new("alice"), Toy::new("bob"));
    let first = GssClient::new(direct.clone(), alice.clone(), GssService::Integrity);
    let second = GssClient::new(direct, bob.clone(), GssService::Privacy);
    for _ in 0..3 {
        echo(&first, &args(1, 1, 1)).await.unwrap();
        echo(&second, &args(1, 1, 1)).await.unwrap();
    }
    assert_eq!((alice.begun.load(Ordering::Relaxed), bob.begun.load(Ordering::Relaxed)), (3, 3));
    assert_eq!(gss.contexts(), 1);
}

#[tokio::test]
async fn a_context_that_is_too_old_is_a_context_problem() {
    let toy = Toy::new("server");
    let gss = GssServer::new(toy.clone());
    let mut services = Services::new();
    services.add(Echo);
    services.with_gss(gss);
    let client = GssClient::new(Direct::new(services), Toy::new("alice"), GssService::Integrity);
    echo(&client, &args(1, 1, 1)).await.unwrap();
    toy.expired.store(true, Ordering::Relaxed);
    let failed = echo(&client, &args(1, 1, 1)).await;
    // The server refuses the new one, too.
    assert!(matches!(failed, Err(CallError::Gss(GssFailure::Refused(_)))), "{failed:?}");
    toy.expired.store(false, Ordering::Relaxed);
    echo(&client, &args(1, 1, 1)).await.unwrap();
}

/// As Kerberos does, whose new contexts last as long as the user's new ticket.
struct Renewed(Toy);

impl GssMechanism for Renewed {
    fn begin(&self) -> Result<Box<dyn GssExchange>, GssError> {
        self.0.expired.store(false, Ordering::Relaxed);
        self.0.begin()
    }

    fn explain(&self, refused: GssError) -> GssError {
        GssError { text: Some(format!("{} has no ticket", self.0.name).into()), ..refused }
    }
}

#[tokio::test]
async fn a_client_replaces_its_expired_context() {
    for service in SERVICES {
        let (services, gss, _) = secured(GssServerOptions::default());
        let alice = Toy::new("alice");
        let client = GssClient::new(Direct::new(services), Renewed(alice.clone()), service);
        for contexts in [1, 2] {
            echo(&client, &args(1, 1, 1)).await.unwrap();
            assert_eq!(gss.contexts(), contexts);
            alice.expired.store(true, Ordering::Relaxed);
        }
    }
}

#[tokio::test]
async fn a_mechanism_explains_why_a_server_refuses() {
    let (services, _, _) = secured(GssServerOptions::default());
    let client = GssClient::new(Direct::new(services), Renewed(Toy::new("nobody")), GssService::None);
    let refused = echo(&client, &args(1, 1, 1)).await.unwrap_err();
    assert_eq!(refused.to_string(), "the server makes no context: nobody has no ticket");
}

#[tokio::test]
async fn a_reply_that_was_changed_on_its_way_is_no_result() {
    for service in SERVICES {
        let (direct, client, _) = direct(service);
        echo(&client, &args(10, 10, 10)).await.unwrap();
        // Its verifier and its status, and from 64 on what may be protected.
        let end = if service == GssService::None { 64 } else { 101 };
        for at in [16, 24, 40, 60, 70, 80, 100].into_iter().filter(|at| *at < end) {
            let before = direct.calls.lock().unwrap().len();
            direct.change_replies(move |mut reply| {
                reply[at] ^= 1;
                reply
            });
            let answer = echo(&client, &args(10, 10, 10)).await;
            assert!(answer.is_err(), "{service:?} {at}");
            assert_eq!(direct.calls.lock().unwrap().len(), before + 1, "it may have been executed");
            *direct.reply.lock().unwrap() = None;
            echo(&client, &args(10, 10, 10)).await.unwrap();
        }
    }
}

#[tokio::test]
async fn the_reply_to_another_call_is_no_result() {
    for service in SERVICES {
        let (direct, client, _) = direct(service);
        let kept = Arc::new(Mutex::new(Vec::new()));
        let keep = kept.clone();
        direct.change_replies(move |reply| {
            *keep.lock().unwrap() = reply.clone();
            reply
        });
        echo(&client, &args(10, 10, 10)).await.unwrap();
        let earlier = kept.lock().unwrap().clone();
        direct.change_replies(move |reply| [&reply[..4], &earlier[4..]].concat());
        let answer = echo(&client, &args(10, 10, 10)).await;
        assert!(matches!(answer, Err(CallError::Gss(GssFailure::Unverified))), "{answer:?}");
    }
}

#[tokio::test]
async fn a_weaker_service_than_the_server_wants_is_refused() {
    let options = GssServerOptions { at_least: GssService::Integrity, ..GssServerOptions::default() };
    for service in SERVICES {
        let (services, _, _) = secured(options);
        let client = GssClient::new(Direct::new(services), Toy::new("alice"), service);
        let answer = echo(&client, &args(1, 1, 1)).await;
        match answer {
            Ok(()) => assert!(service >= GssService::Integrity),
            Err(CallError::Gss(GssFailure::Rejected(ReplyError::Auth(AuthStat::TooWeak)))) => {
                assert_eq!(service, GssService::None);
            }
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn contexts_end_with_their_clients() {
    let (services, gss, _) = secured(GssServerOptions::default());
    let address = over_rdma(services).await;
    for service in SERVICES {
        let client = Client::connect(address).await.unwrap();
        let secure = GssClient::new(client, Toy::new("alice"), service);
        echo(&secure, &args(1, 1, 1)).await.unwrap();
        assert_eq!(gss.contexts(), 1);
        secure.destroy().await.unwrap();
        assert_eq!(gss.contexts(), 0);
        echo(&secure, &args(1, 1, 1)).await.unwrap();
        assert_eq!(gss.contexts(), 1);
        drop(secure);
        let gone = async {
            while gss.contexts() > 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), gone).await.unwrap();
    }
}

/// A message over RPCSEC_GSS that says this.
fn message(procedure: u32, body: impl Into<Bytes>, verifier: &Verifier, rest: &[u8]) -> Bytes {
    let mut sink = Reducer::disabled();
    let header = CallHeader {
        xid: 9,
        program: <Echo as Program>::NUMBER,
        version: <Echo as Program>::VERSION,
        procedure,
        credential: Credential::Other { flavor: 6, body: body.into() },
    };
    header.encode_unverified(&mut sink).unwrap();
    CallHeader::encode_verifier(verifier, &mut sink).unwrap();
    [&sink.into_message().stream[..], rest].concat().into()
}

#[tokio::test]
async fn strange_tokens_and_strange_control_messages() {
    use rpcrdma_runtime::proto::rpc::gss::GssControl::{ContinueInit, Destroy, Init};
    let (services, gss, _) = secured(GssServerOptions::default());
    let direct = Direct::new(services);
    let credential = |control, handle: &'static [u8]| {
        let handle = Bytes::from_static(handle);
        GssCredential { control, sequence: 1, service: Some(GssService::None), handle }.encode().unwrap()
    };
    let (none, token) = (Verifier::default(), [&[0, 0, 0, 2][..], b"a:", &[0, 0]].concat());
    let some = Verifier { flavor: 1, body: Bytes::from_static(b"1234") };
    let auth = |stat| Err(ReplyError::Auth(stat));
    for (what, message, expected) in [
        ("procedure 1", message(1, credential(Init, b""), &none, &token), auth(AuthStat::BadCredential)),
        ("a handle", message(0, credential(Init, b"a handle"), &none, &token), auth(AuthStat::BadCredential)),
        ("a verifier", message(0, credential(Init, b""), &some, &token), auth(AuthStat::BadVerifier)),
        ("no token", message(0, credential(Init, b""), &none, &[]), Err(ReplyError::GarbageArguments)),
        (
            "a long token",
            message(0, credential(Init, b""), &none, &[0xff; 8]),
            Err(ReplyError::GarbageArguments),
        ),
        (
            "nothing to continue",
            message(0, credential(ContinueInit, b"0123456789abcdef"), &none, &token),
            auth(AuthStat::RejectedCredential),
        ),
        (
            "nothing to destroy",
            message(0, credential(Destroy, b"0123456789abcdef"), &some, &[]),
            auth(AuthStat::GssCredentialProblem),
        ),
        ("an empty credential", message(0, Bytes::new(), &none, &token), auth(AuthStat::BadCredential)),
    ] {
        let reply = direct.send(message).await.unwrap();
        assert_eq!(said(&reply).1, expected, "{what}");
    }
    assert_eq!(gss.contexts(), 0);
    // Contexts that nobody goes on to make have a bound.
    let gss = Arc::new(GssServer::with(
        Toy { rounds: 2, ..Toy::new("server") },
        GssServerOptions { unfinished: 10, ..GssServerOptions::default() },
    ));
    let mut services = Services::new();
    services.add(Echo);
    services.with_gss(gss.clone());
    let direct = Direct::new(services);
    let toy = Toy { rounds: 2, ..Toy::new("alice") };
    let client = GssClient::new(direct.clone(), toy.clone(), GssService::Integrity);
    echo(&client, &args(1, 1, 1)).await.unwrap();
    for _ in 0..100 {
        direct.send(message(0, credential(Init, b""), &none, &token)).await.unwrap();
    }
    assert_eq!((gss.contexts(), gss.unfinished()), (1, 10));
    echo(&client, &args(1, 1, 1)).await.unwrap();
    assert_eq!(toy.begun.load(Ordering::Relaxed), 1, "strangers do not drive out who is known");
}
