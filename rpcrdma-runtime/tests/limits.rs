//! Limits of clients and servers over real connections: calls and connections up to a limit succeed, and
//! further calls and connections wait or fail.
#![allow(clippy::unwrap_used)] // tests fail by panicking

#[path = "support/gate.rs"]
mod gate;

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rpcrdma_runtime::Config;
use rpcrdma_runtime::program::{CallContext, Caller, Reject, Service};
use rpcrdma_runtime::proto::iwarp::{Role, StreamConfig};
use rpcrdma_runtime::proto::session::Policy;
use rpcrdma_runtime::provider::iwarp;
use rpcrdma_runtime::wire::rpc::CallHeader;
use rpcrdma_runtime::xdr::{DecodeLimits, Reader, Reducer, Sink, Writer};
use rpcrdma_runtime::{
    Backoff, CallError, ClientOptions, ConnectError, DuplicateCache, DuplicateOptions, GssServerOptions,
    Limits, PeerFilter, Reconnect, ServeError, ServerOptions, ServerStats, TcpClient, TcpClientOptions,
    TcpOptions, TcpServer, TcpServerOptions,
};
use rpcrdma_runtime::{Client, Server};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use gate::{Gate, GateServer, Pass};

const WAIT: Duration = Duration::from_secs(30);

/// A hidden field makes users write `..Default::default()`, so that later versions may add fields.
#[test]
fn options_and_limits_may_have_more_fields_later() {
    let limits = Limits::default();
    let () = limits.non_exhaustive;
    let () = limits.message.non_exhaustive;
    let () = limits.duplicates.non_exhaustive;
    let () = limits.times.non_exhaustive;
    let () = ClientOptions::default().non_exhaustive;
    let () = ServerOptions::default().non_exhaustive;
    let () = TcpOptions::default().non_exhaustive;
    let () = TcpClientOptions::default().non_exhaustive;
    let () = TcpServerOptions::default().non_exhaustive;
    let () = Config::default().non_exhaustive;
    let () = iwarp::IwarpOptions::default().non_exhaustive;
    let () = DuplicateOptions::default().non_exhaustive;
    let () = Reconnect::default().non_exhaustive;
    let () = Backoff::default().non_exhaustive;
    let () = Policy::default().non_exhaustive;
    let () = StreamConfig::new(Role::Responder).non_exhaustive;
    let () = DecodeLimits::default().non_exhaustive;
    let () = GssServerOptions::default().non_exhaustive;
}

/// The system drops the SYN segments of peers that do not fit into the backlog, so servers need a large
/// backlog.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn hundreds_of_connections_wait_to_be_accepted() {
    let max: usize = std::fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap().trim().parse().unwrap();
    // These servers never accept connections.
    let rdma = Server::bind("127.0.0.1:0").await.unwrap();
    let tcp = TcpServer::bind("127.0.0.1:0").await.unwrap();
    for address in [rdma.local_addr().unwrap(), tcp.local_addr().unwrap()] {
        let mut waiting = Vec::new();
        for _ in 0..max.min(300) {
            let connected = timeout(WAIT, tokio::net::TcpStream::connect(address)).await;
            waiting.push(connected.unwrap().unwrap());
        }
    }
}

fn pass(
    client: &(impl Caller<Gate, Error = CallError> + Clone + Send + Sync + 'static),
) -> JoinHandle<Result<u32, CallError>> {
    let client = client.clone();
    tokio::spawn(async move { client.call::<Pass>(&()).await })
}

async fn wait_for_calls(gate: &GateServer, calls: u32) {
    let waiting = async {
        while gate.arrived() < calls {
            sleep(Duration::from_millis(2)).await;
        }
    };
    timeout(WAIT, waiting).await.unwrap();
}

/// Checks that two of three calls reach the gate, and that the third call arrives once another call has
/// passed.
async fn two_at_once(
    gate: &GateServer,
    client: impl Caller<Gate, Error = CallError> + Clone + Send + Sync + 'static,
) {
    let before = gate.arrived();
    let calls = [pass(&client), pass(&client), pass(&client)];
    wait_for_calls(gate, before + 2).await;
    sleep(Duration::from_millis(50)).await;
    assert_eq!(gate.arrived(), before + 2, "a third call has arrived");
    gate.open.add_permits(1);
    wait_for_calls(gate, before + 3).await;
    gate.open.add_permits(100);
    for call in calls {
        timeout(WAIT, call).await.unwrap().unwrap().unwrap();
    }
}

async fn serve(options: ServerOptions) -> (SocketAddr, GateServer) {
    let gate = GateServer::new(false);
    let server = Server::bind_with("127.0.0.1:0", options).await.unwrap().service(gate.clone());
    let address = server.local_addr().unwrap();
    tokio::spawn(server.run(std::future::pending()));
    (address, gate)
}

async fn serve_tcp(options: TcpServerOptions) -> (SocketAddr, GateServer) {
    let gate = GateServer::new(false);
    let server = TcpServer::bind_with("127.0.0.1:0", options).await.unwrap().service(gate.clone());
    let address = server.local_addr().unwrap();
    tokio::spawn(server.run(std::future::pending()));
    (address, gate)
}

/// Requirement: R021
#[tokio::test]
async fn granted_credits_limit_calls() {
    let two = Config { credits: 2, ..Config::default() };
    for (server, client) in [(two, Config::default()), (Config::default(), two)] {
        let (address, gate) = serve(ServerOptions { config: server, ..ServerOptions::default() }).await;
        let options = ClientOptions { config: client, ..ClientOptions::default() };
        let client = Client::connect_with(address, options).await.unwrap();
        // The first reply grants the credits.
        let first = pass(&client);
        wait_for_calls(&gate, 1).await;
        gate.open.add_permits(1);
        first.await.unwrap().unwrap();
        gate.open.forget_permits(1);
        two_at_once(&gate, client).await;
    }
}

#[tokio::test]
async fn calls_over_tcp_are_limited() {
    let two = TcpOptions { max_concurrent_calls: 2, ..TcpOptions::default() };
    for (server, client) in [(two, TcpOptions::default()), (TcpOptions::default(), two)] {
        let (address, gate) =
            serve_tcp(TcpServerOptions { tcp: server, ..TcpServerOptions::default() }).await;
        let options = TcpClientOptions { tcp: client, ..TcpClientOptions::default() };
        two_at_once(&gate, TcpClient::connect_with(address, options).await.unwrap()).await;
    }
}

#[tokio::test]
async fn a_server_with_zero_connections_does_not_bind() {
    let options = ServerOptions { max_connections: 0, ..ServerOptions::default() };
    assert!(matches!(Server::bind_with("127.0.0.1:0", options).await, Err(ServeError::NoConnections)));
    let options = TcpServerOptions { max_connections: 0, ..TcpServerOptions::default() };
    assert!(matches!(TcpServer::bind_with("127.0.0.1:0", options).await, Err(ServeError::NoConnections)));
}

#[tokio::test]
async fn connections_over_tcp_are_limited() {
    let options = TcpServerOptions { max_connections: 1, idle: None, ..TcpServerOptions::default() };
    let (address, gate) = serve_tcp(options).await;
    gate.open.add_permits(100);
    let first = TcpClient::connect(address).await.unwrap();
    assert_eq!(first.call::<Pass>(&()).await.unwrap(), 0);
    let waiting = pass(&TcpClient::connect(address).await.unwrap());
    assert_eq!(first.call::<Pass>(&()).await.unwrap(), 1, "the second connection is served too early");
    sleep(Duration::from_millis(50)).await;
    assert!(!waiting.is_finished());
    drop(first);
    assert_eq!(timeout(WAIT, waiting).await.unwrap().unwrap().unwrap(), 2);
}

#[tokio::test]
async fn all_transports_of_a_server_share_the_connection_limit() {
    let gate = GateServer::new(true);
    let options = ServerOptions { max_connections: 1, idle: None, ..ServerOptions::default() };
    let server = Server::bind_with(("127.0.0.1", 0), options).await.unwrap().service(gate.clone());
    let server = server.also_tcp((Ipv4Addr::LOCALHOST, 0), TcpOptions::default()).await.unwrap();
    let (addresses, stats) = (server.local_addrs().unwrap(), server.stats());
    let (stop, stopped) = oneshot::channel::<()>();
    let server = tokio::spawn(server.run(async { drop(stopped.await) }));
    // Nothing listens on port 9, so the second address is used.
    let either = [SocketAddr::from((Ipv4Addr::LOCALHOST, 9)), addresses[0]];
    let over_rdma = Client::connect(&either[..]).await.unwrap();
    assert_eq!(over_rdma.call::<Pass>(&()).await.unwrap(), 0);
    let over_tcp = pass(&TcpClient::connect((addresses[1].ip(), addresses[1].port())).await.unwrap());
    sleep(Duration::from_millis(50)).await;
    assert!(!over_tcp.is_finished(), "the server exceeded its connection limit");
    drop(over_rdma);
    assert_eq!(timeout(WAIT, over_tcp).await.unwrap().unwrap().unwrap(), 1);
    assert_eq!((stats.snapshot().rpc.success, stats.snapshot().connections.made), (2, 2));
    stop.send(()).unwrap();
    timeout(WAIT, server).await.unwrap().unwrap().unwrap();
}

async fn wait_for_connections(stats: &ServerStats, connections: u64) {
    let waiting = async {
        while stats.snapshot().connected != connections {
            sleep(Duration::from_millis(2)).await;
        }
    };
    timeout(WAIT, waiting).await.unwrap();
}

/// The idle limit of servers exceeds the idle limit of clients, so usually the client closes the connection.
#[test]
fn servers_close_connections_that_are_idle_for_six_minutes() {
    let minutes = Duration::from_secs(6 * 60);
    assert_eq!(ServerOptions::default().idle, Some(minutes));
    assert_eq!(TcpServerOptions::default().idle, Some(minutes));
    assert_eq!(Limits::default().times.idle_peer, Some(minutes));
    assert!(
        ClientOptions::default().idle < Some(minutes) && TcpClientOptions::default().idle < Some(minutes)
    );
}

#[test]
fn servers_require_64_kib_per_second() {
    let tcp = TcpOptions::default().min_rate;
    let rates = [tcp, iwarp::IwarpOptions::default().min_rate, Limits::default().min_rate];
    assert_eq!(rates, [65_536; 3]);
}

#[tokio::test]
async fn an_idle_connection_is_closed() {
    let (gate, idle) = (GateServer::new(false), Some(Duration::from_millis(200)));
    let options = ServerOptions { idle, ..ServerOptions::default() };
    let server = Server::bind_with("127.0.0.1:0", options).await.unwrap().service(gate.clone());
    let (address, stats) = (server.local_addr().unwrap(), server.stats());
    tokio::spawn(server.run(std::future::pending()));
    let busy = pass(&Client::connect(address).await.unwrap());
    wait_for_calls(&gate, 1).await;
    let _idle = Client::connect(address).await.unwrap();
    wait_for_connections(&stats, 2).await;
    wait_for_connections(&stats, 1).await;
    assert!(!busy.is_finished());
    gate.open.add_permits(1);
    busy.await.unwrap().unwrap();
    wait_for_connections(&stats, 0).await;
}

/// Replies to each call with 16 MiB, more than the buffers of a socket can store.
struct Long;

const LONG: u32 = 16 << 20;

impl Service for Long {
    fn program(&self) -> u32 {
        1
    }

    fn version(&self) -> u32 {
        1
    }

    fn dispatch<'a>(
        &'a self,
        _: &'a CallContext,
        _: Reader<'a>,
        reply: &'a mut Reducer,
    ) -> Pin<Box<dyn Future<Output = Result<(), Reject>> + Send + 'a>> {
        Box::pin(async move {
            reply.put_u32(LONG).map_err(|_| Reject::SystemError)?;
            let item = vec![0; LONG as usize].into();
            reply.put_item(&item).map_err(|_| Reject::SystemError)
        })
    }
}

const IDLE: Duration = Duration::from_millis(200);

/// Starts a server that provides [`Long`]. Returns a connection to the server, and a record that contains a
/// call.
async fn serve_long() -> (tokio::net::TcpStream, Vec<u8>) {
    let options = TcpServerOptions { idle: Some(IDLE), ..TcpServerOptions::default() };
    let server = TcpServer::bind_with("127.0.0.1:0", options).await.unwrap().service(Long);
    let address = server.local_addr().unwrap();
    tokio::spawn(server.run(std::future::pending()));
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(64 << 10).unwrap();
    let mut call = Writer::new();
    let header = CallHeader { xid: 7, program: 1, version: 1, procedure: 1, credential: Default::default() };
    header.encode(&mut call).unwrap();
    let mark = u32::try_from(call.position()).unwrap() | 1 << 31;
    (socket.connect(address).await.unwrap(), [&mark.to_be_bytes()[..], call.as_slice()].concat())
}

async fn receive_long(mut socket: tokio::net::TcpStream) {
    let mut reply = vec![0; 4 + 28 + LONG as usize];
    timeout(WAIT, socket.read_exact(&mut reply)).await.unwrap().unwrap();
    assert_eq!(timeout(WAIT, socket.read(&mut [0])).await.unwrap().unwrap(), 0);
}

#[tokio::test]
async fn a_connection_that_receives_a_call_over_tcp_is_active() {
    let (mut socket, call) = serve_long().await;
    // The first part ends within the record mark, so the server does not yet know the record's length.
    for part in [&call[..2], &call[2..20], &call[20..]] {
        socket.write_all(part).await.unwrap();
        sleep(IDLE * 3).await;
    }
    receive_long(socket).await;
}

#[tokio::test]
async fn a_connection_that_sends_a_reply_over_tcp_is_active() {
    let (mut socket, call) = serve_long().await;
    socket.write_all(&call).await.unwrap();
    sleep(IDLE * 5).await;
    receive_long(socket).await;
}

#[tokio::test]
async fn an_idle_connection_makes_room_for_another_one() {
    let (address, gate) =
        serve_tcp(TcpServerOptions { max_connections: 2, ..TcpServerOptions::default() }).await;
    let busy = pass(&TcpClient::connect(address).await.unwrap());
    wait_for_calls(&gate, 1).await;
    let _idle = tokio::net::TcpStream::connect(address).await.unwrap();
    let second = pass(&TcpClient::connect(address).await.unwrap());
    wait_for_calls(&gate, 2).await;
    gate.open.add_permits(2);
    for call in [busy, second] {
        timeout(WAIT, call).await.unwrap().unwrap().unwrap();
    }
}

#[tokio::test]
async fn addresses_that_may_not_connect_take_no_slot() {
    let peers = PeerFilter::new(|address| !address.is_loopback());
    let server = Server::bind("127.0.0.1:0").await.unwrap().peers(peers.clone());
    let (address, stats) = (server.local_addr().unwrap(), server.stats());
    tokio::spawn(server.run(std::future::pending()));
    assert!(timeout(WAIT, Client::connect(address)).await.unwrap().is_err());
    assert_eq!((stats.snapshot().connections.made, stats.snapshot().connections.refused), (0, 1));
    let server = TcpServer::bind("127.0.0.1:0").await.unwrap().service(GateServer::new(true)).peers(peers);
    let (address, stats) = (server.local_addr().unwrap(), server.stats());
    tokio::spawn(server.run(std::future::pending()));
    let once = TcpClientOptions { reconnect: None, ..TcpClientOptions::default() };
    let refused = async { TcpClient::connect_with(address, once).await.unwrap().call::<Pass>(&()).await };
    assert!(timeout(WAIT, refused).await.unwrap().is_err());
    assert_eq!((stats.snapshot().connections.made, stats.snapshot().connections.refused), (0, 1));
}

/// `PeerFilter::recheck` applies the filter to connections of every transport, even to those with running
/// calls.
#[tokio::test]
async fn connections_that_are_no_longer_admitted_are_closed() {
    let (admitted, gate) = (Arc::new(AtomicBool::new(true)), GateServer::new(false));
    let admits = admitted.clone();
    let peers = PeerFilter::new(move |_| admits.load(Ordering::SeqCst));
    let server = Server::bind("127.0.0.1:0").await.unwrap().also_tcp("127.0.0.1:0", TcpOptions::default());
    let server = server.await.unwrap().service(gate.clone()).peers(peers.clone());
    let (addresses, stats) = (server.local_addrs().unwrap(), server.stats());
    tokio::spawn(server.run(std::future::pending()));
    let once = ClientOptions { reconnect: None, ..ClientOptions::default() };
    let over_rdma = Client::connect_with(addresses[0], once).await.unwrap();
    let once = TcpClientOptions { reconnect: None, ..TcpClientOptions::default() };
    let over_tcp = TcpClient::connect_with(addresses[1], once).await.unwrap();
    let calls = [pass(&over_rdma), pass(&over_tcp)];
    wait_for_calls(&gate, 2).await;
    peers.recheck();
    gate.open.add_permits(2);
    for call in calls {
        timeout(WAIT, call).await.unwrap().unwrap().unwrap();
    }
    gate.open.forget_permits(2);
    let calls = [pass(&over_rdma), pass(&over_tcp)];
    wait_for_calls(&gate, 4).await;
    admitted.store(false, Ordering::SeqCst);
    peers.recheck();
    wait_for_connections(&stats, 0).await;
    for call in calls {
        assert!(timeout(WAIT, call).await.unwrap().unwrap().is_err());
    }
}

#[tokio::test]
async fn a_stopping_server_waits_only_for_the_drain_timeout_and_its_calls_continue() {
    let gate = GateServer::new(false);
    let (drain, cache) = (Duration::from_millis(50), DuplicateCache::default());
    let options = ServerOptions { drain, duplicates: Some(cache.clone()), ..ServerOptions::default() };
    let server = Server::bind_with("127.0.0.1:0", options).await.unwrap().service(gate.clone());
    let address = server.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let server = tokio::spawn(server.run(async { drop(stopped.await) }));
    let client = Client::connect_with(address, ClientOptions { reconnect: None, ..ClientOptions::default() });
    let call = pass(&client.await.unwrap());
    wait_for_calls(&gate, 1).await;
    stop.send(()).unwrap();
    timeout(WAIT, server).await.unwrap().unwrap().unwrap();
    assert!(timeout(WAIT, call).await.unwrap().unwrap().is_err());
    // The call continues although the server has stopped, and its reply is cached.
    assert_eq!(cache.cached_replies(), 0);
    gate.open.add_permits(1);
    let completed = async {
        while cache.cached_replies() == 0 {
            sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(WAIT, completed).await.unwrap();
}

/// The queue of the listener is full, so connection attempts get no response.
#[tokio::test]
async fn connecting_times_out() {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    socket.listen(0).unwrap();
    let listener = TcpListener::from(socket);
    let address = listener.local_addr().unwrap();
    let mut queued = Vec::new();
    while let Ok(stream) = std::net::TcpStream::connect_timeout(&address, Duration::from_millis(200)) {
        queued.push(stream);
        assert!(queued.len() < 100, "the queue never fills");
    }
    let short = Duration::from_millis(100);
    let tcp = TcpOptions { connect_timeout: short, ..TcpOptions::default() };
    let by_tcp = TcpClient::connect_with(address, TcpClientOptions { tcp, ..TcpClientOptions::default() });
    let failed = timeout(WAIT, by_tcp).await.unwrap().unwrap_err();
    assert!(matches!(failed, ConnectError::Tcp { .. }), "{failed}");
    let iwarp = iwarp::IwarpOptions { connect_timeout: short, ..iwarp::IwarpOptions::default() };
    let by_rdma = Client::connect_with(address, ClientOptions { iwarp, ..ClientOptions::default() });
    let failed = timeout(WAIT, by_rdma).await.unwrap().unwrap_err();
    assert!(matches!(failed, ConnectError::Connect { .. }), "{failed}");
    drop(queued);
}
