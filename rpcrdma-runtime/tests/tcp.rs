//! RPC over TCP with record marking (RFC 5531 section 11), on the loopback interface.
#![allow(clippy::unwrap_used)] // tests fail by panicking

#[path = "support/echo.rs"]
mod echo;

use std::net::SocketAddr;
use std::time::Duration;

use rpcrdma_runtime::Services;
use rpcrdma_runtime::TransportError;
use rpcrdma_runtime::program::{CallContext, Caller, Procedure, Program, Reject, Service};
use rpcrdma_runtime::wire::rpc::{CallHeader, ReplyError, decode_reply};
use rpcrdma_runtime::xdr::{Decode, Encode, Reader, Reducer, Writer};
use rpcrdma_runtime::{
    CallError, ConnectError, TcpClient, TcpClientOptions, TcpOptions, TcpServer, TcpServerOptions,
};
use rpcrdma_runtime::{Client, Server};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use echo::{EchoBlob, EchoNames, EchoServer, EchoSleep, Names, blob};

struct Running {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    server: JoinHandle<()>,
}

async fn serve(tcp: TcpOptions) -> Running {
    let options = TcpServerOptions { tcp, ..TcpServerOptions::default() };
    let server = TcpServer::bind_with("127.0.0.1:0", options).await.unwrap().service(EchoServer);
    let address = server.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let server = tokio::spawn(async move { server.run(async { drop(stopped.await) }).await.unwrap() });
    Running { address, stop, server }
}

impl Running {
    async fn client(&self, tcp: TcpOptions) -> TcpClient {
        let options =
            TcpClientOptions { tcp, timeout: Duration::from_secs(20), ..TcpClientOptions::default() };
        TcpClient::connect_with(self.address, options).await.unwrap()
    }

    async fn end(self) {
        self.stop.send(()).unwrap();
        tokio::time::timeout(Duration::from_secs(20), self.server).await.unwrap().unwrap();
    }
}

/// Returns an encoded call of the procedure `Q` without its record mark.
fn call<Q: Procedure>(xid: u32, args: &Q::Args) -> Vec<u8> {
    let header = CallHeader {
        xid,
        program: Q::Program::NUMBER,
        version: Q::Program::VERSION,
        procedure: Q::NUMBER,
        credential: Default::default(),
    };
    let mut call = Writer::new();
    header.encode(&mut call).unwrap();
    args.encode(&mut call).unwrap();
    call.into_vec()
}

fn sleep_call(xid: u32, millis: u32) -> Vec<u8> {
    call::<EchoSleep>(xid, &millis)
}

fn fragment(last: bool, data: &[u8]) -> Vec<u8> {
    let mark = u32::try_from(data.len()).unwrap() | u32::from(last) << 31;
    [&mark.to_be_bytes(), data].concat()
}

async fn read_record(socket: &mut TcpStream) -> Vec<u8> {
    let mark = socket.read_u32().await.unwrap();
    assert!(mark >> 31 == 1, "a reply is one fragment");
    let mut record = vec![0; (mark & 0x7fff_ffff) as usize];
    socket.read_exact(&mut record).await.unwrap();
    record
}

/// Returns true if the peer resets the connection, or closes it without sending more data, within 10 s.
async fn is_closed(socket: &mut TcpStream) -> bool {
    let mut rest = Vec::new();
    let read = tokio::time::timeout(Duration::from_secs(10), socket.read_to_end(&mut rest));
    !matches!(read.await, Ok(Ok(1..)) | Err(_))
}

#[tokio::test]
async fn messages_of_any_size_are_echoed() {
    let running = serve(TcpOptions::default()).await;
    let client = Client::connect_tcp(running.address).await.unwrap();
    assert_eq!(client.peer(), running.address);
    for size in [0, 1, 2, 3, 4, 5, 1000, 16_383, 16_384, 16_385, 65_537, 1_048_579] {
        let sent = blob(7, size);
        assert_eq!(client.call::<EchoBlob>(&sent).await.unwrap(), sent, "{size} bytes");
    }
    let sent = Names { names: (0..500).map(|n| format!("name {n}").as_str().into()).collect() };
    assert_eq!(client.call::<EchoNames>(&sent).await.unwrap(), sent);
    drop(client);
    running.end().await;
}

#[tokio::test]
async fn many_calls_at_once_in_few_slots() {
    let running = serve(TcpOptions { max_concurrent_calls: 3, ..TcpOptions::default() }).await;
    let client = running.client(TcpOptions { max_concurrent_calls: 5, ..TcpOptions::default() }).await;
    let calls: Vec<_> = (0..100)
        .map(|n| {
            let client = client.clone();
            tokio::spawn(async move {
                let sent = blob(n, n * 977);
                assert_eq!(client.call::<EchoBlob>(&sent).await.unwrap(), sent);
            })
        })
        .collect();
    for call in calls {
        call.await.unwrap();
    }
    running.end().await;
}

#[tokio::test]
async fn replies_are_sent_as_they_become_ready() {
    let running = serve(TcpOptions::default()).await;
    let client = running.client(TcpOptions::default()).await;
    let slow = client.call::<EchoSleep>(&60_000);
    let quick = client.call::<EchoSleep>(&1);
    tokio::select! {
        _ = slow => panic!("the slow call was answered first"),
        quick = quick => assert_eq!(quick.unwrap(), 1),
    }
    drop(client);
    drop(running);
}

#[tokio::test]
async fn a_late_reply_is_dropped_and_the_connection_survives() {
    let running = serve(TcpOptions::default()).await;
    let options = TcpClientOptions { timeout: Duration::from_millis(100), ..TcpClientOptions::default() };
    let client = TcpClient::connect_with(running.address, options).await.unwrap();
    let error = client.call::<EchoSleep>(&300).await.unwrap_err();
    assert!(matches!(error, CallError::Timeout(_)), "{error}");
    tokio::time::sleep(Duration::from_millis(400)).await;
    assert_eq!(client.call::<EchoSleep>(&1).await.unwrap(), 1);
    running.end().await;
}

#[tokio::test]
async fn failures_are_distinguishable() {
    let running = serve(TcpOptions::default()).await;
    let client = running.client(TcpOptions::default()).await;
    let error = client.call::<EchoSleep>(&13).await.unwrap_err();
    assert!(matches!(error, CallError::Rejected(ReplyError::SystemError)), "a panic: {error}");
    assert_eq!(client.call::<EchoSleep>(&1).await.unwrap(), 1);
    running.end().await;
    let impatient = client.with_timeout(Duration::from_millis(100));
    let error = impatient.call::<EchoSleep>(&1).await.unwrap_err();
    assert!(matches!(error, CallError::Transport(TransportError::Unreachable(_))), "{error}");
    let refused = TcpClient::connect("127.0.0.1:1").await.unwrap_err();
    assert!(matches!(refused, ConnectError::Tcp { .. }), "{refused}");
}

/// Requirement: R329
#[tokio::test]
async fn a_call_may_arrive_in_any_fragments() {
    let running = serve(TcpOptions::default()).await;
    let mut socket = TcpStream::connect(running.address).await.unwrap();
    let call = sleep_call(77, 1);
    let pieces: Vec<Vec<u8>> = call.chunks(7).map(|piece| fragment(false, piece)).collect();
    let mut stream = pieces.concat();
    stream.extend(fragment(true, &[]));
    // The second call follows directly, in one fragment.
    stream.extend(fragment(true, &sleep_call(78, 2)));
    for octet in stream {
        socket.write_all(&[octet]).await.unwrap();
    }
    for (xid, result) in [(77, 1), (78, 2)] {
        let reply = read_record(&mut socket).await;
        let mut reader = Reader::from_slice(&reply);
        decode_reply(&mut reader, xid).unwrap();
        assert_eq!(u32::decode(&mut reader).unwrap(), result);
    }
    // The connection is half closed: earlier calls still get replies.
    socket.write_all(&fragment(true, &sleep_call(79, 50))).await.unwrap();
    socket.shutdown().await.unwrap();
    assert_eq!(read_record(&mut socket).await[..4], 79u32.to_be_bytes());
    assert!(is_closed(&mut socket).await);
    running.end().await;
}

#[tokio::test]
async fn invalid_input_closes_only_its_own_connection() {
    let stall = Duration::from_millis(200);
    let options = TcpOptions { max_record: 1000, stall_timeout: stall, ..TcpOptions::default() };
    let running = serve(options).await;
    let client = running.client(TcpOptions::default()).await;
    let too_long = fragment(true, &[0; 1001]);
    let no_call = fragment(true, b"a message that is not a call at all");
    let empty = fragment(true, b"");
    let reply = fragment(true, &[[0, 0, 0, 5], [0, 0, 0, 1], [0; 4], [0; 4], [0; 4], [0; 4]].concat());
    let unfinished = fragment(true, &sleep_call(1, 1))[..20].to_vec();
    for (what, stream) in [
        ("too long", too_long),
        ("no call", no_call),
        ("empty", empty),
        ("a reply", reply),
        ("not finished", unfinished),
    ] {
        let mut socket = TcpStream::connect(running.address).await.unwrap();
        // The write can fail if the server has already closed the connection.
        let _ = socket.write_all(&stream).await;
        assert!(is_closed(&mut socket).await, "{what}");
        assert_eq!(client.call::<EchoSleep>(&1).await.unwrap(), 1, "{what}");
    }
    running.end().await;
}

#[tokio::test]
async fn a_client_that_never_reads_is_disconnected() {
    let options = TcpOptions {
        max_concurrent_calls: 2,
        stall_timeout: Duration::from_millis(500),
        ..TcpOptions::default()
    };
    let running = serve(options).await;
    let mut socket = TcpStream::connect(running.address).await.unwrap();
    let call = fragment(true, &call::<EchoBlob>(1, &blob(1, 1 << 20)));
    let sending = async {
        let mut sent = 0;
        while socket.write_all(&call).await.is_ok() {
            sent += 1;
            assert!(sent < 200, "the server did not stop reading");
        }
    };
    tokio::time::timeout(Duration::from_secs(20), sending).await.unwrap();
    running.end().await;
}

#[tokio::test]
async fn a_stopping_server_completes_running_calls() {
    let running = serve(TcpOptions::default()).await;
    let client = running.client(TcpOptions::default()).await;
    let call = tokio::spawn(async move { client.call::<EchoSleep>(&300).await.unwrap() });
    tokio::time::sleep(Duration::from_millis(100)).await;
    running.end().await;
    assert_eq!(call.await.unwrap(), 300);
}

/// The client sends another call while the server stops, and reads its replies only after the server has
/// closed the connection.
#[tokio::test]
async fn replies_of_a_stopping_server_survive_calls_that_it_drops() {
    let Running { address, stop, server } = serve(TcpOptions::default()).await;
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(64 << 10).unwrap();
    let mut socket = socket.connect(address).await.unwrap();
    socket.write_all(&fragment(true, &call::<EchoBlob>(1, &blob(1, 512 << 10)))).await.unwrap();
    socket.write_all(&fragment(true, &sleep_call(2, 1500))).await.unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    stop.send(()).unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    socket.write_all(&fragment(true, &sleep_call(3, 0))).await.unwrap();
    // Waits until the second call has ended and the server has closed the connection.
    tokio::time::sleep(Duration::from_millis(1500)).await;
    let replies = async { [read_record(&mut socket).await, read_record(&mut socket).await] };
    let replies = tokio::time::timeout(Duration::from_secs(10), replies).await.unwrap();
    assert_eq!(replies.map(|reply| reply[3]), [1, 2]);
    assert!(is_closed(&mut socket).await);
    drop(socket);
    tokio::time::timeout(Duration::from_secs(20), server).await.unwrap().unwrap();
}

/// A program that has no Upper-Layer Binding, so code that calls it over RDMA does not compile.
struct Unbound;

impl Program for Unbound {
    const NUMBER: u32 = 0x2000_0002;
    const VERSION: u32 = 3;
    const NAME: &'static str = "UNBOUND";
    const PROCEDURES: &'static [(u32, &'static str)] = &[(0, "UNBOUND_NULL")];
}

struct UnboundNull;

impl Procedure for UnboundNull {
    type Program = Unbound;
    type Args = ();
    type Res = ();
    const NUMBER: u32 = 0;
    const NAME: &'static str = "UNBOUND_NULL";
}

impl Service for Unbound {
    fn program(&self) -> u32 {
        Unbound::NUMBER
    }

    fn version(&self) -> u32 {
        Unbound::VERSION
    }

    fn dispatch<'a>(
        &'a self,
        _: &'a CallContext,
        _: Reader<'a>,
        _: &'a mut Reducer,
    ) -> std::pin::Pin<Box<dyn Future<Output = Result<(), Reject>> + Send + 'a>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

#[tokio::test]
async fn one_set_of_services_over_both_transports() {
    let mut services = Services::new();
    services.add(EchoServer);
    services.add(Unbound);
    let rdma = Server::bind("127.0.0.1:0").await.unwrap().services(services.clone());
    let tcp = Server::bind_tcp("127.0.0.1:0").await.unwrap().services(services);
    let (by_rdma, by_tcp) = (rdma.local_addr().unwrap(), tcp.local_addr().unwrap());
    tokio::spawn(rdma.run(std::future::pending()));
    tokio::spawn(tcp.run(std::future::pending()));
    let (rdma, tcp) = (Client::connect(by_rdma).await.unwrap(), Client::connect_tcp(by_tcp).await.unwrap());
    let sent = blob(3, 100_003);
    assert_eq!(rdma.call::<EchoBlob>(&sent).await.unwrap(), sent);
    assert_eq!(tcp.call::<EchoBlob>(&sent).await.unwrap(), sent);
    tcp.call::<UnboundNull>(&()).await.unwrap();
}

/// The first address of each list has an unknown IPv6 zone.
#[tokio::test]
async fn a_client_skips_names_that_cannot_be_resolved() {
    let server = Server::bind("127.0.0.1:0").await.unwrap().service(EchoServer);
    let server = server.also_tcp("127.0.0.1:0", TcpOptions::default()).await.unwrap();
    let addresses = server.local_addrs().unwrap();
    tokio::spawn(server.run(std::future::pending()));
    let names = |address: SocketAddr| format!("[fe80::1%none]:1,{address}");
    let rdma = Client::connect(names(addresses[0])).await.unwrap();
    let tcp = TcpClient::connect(names(addresses[1])).await.unwrap();
    assert_eq!(rdma.call::<EchoSleep>(&1).await.unwrap(), 1);
    assert_eq!(tcp.call::<EchoSleep>(&1).await.unwrap(), 1);
    let unresolved = TcpClient::connect("[fe80::1%none]:1").await.unwrap_err();
    assert!(matches!(unresolved, ConnectError::Resolve { .. }), "{unresolved}");
    let free = SocketAddr::from(([127, 0, 0, 1], 0));
    assert!(TcpServer::bind(names(free)).await.is_err(), "a server must resolve every name");
}
