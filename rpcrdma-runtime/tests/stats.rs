//! Counters of clients and servers: scripted traffic gives exact numbers.
#![allow(clippy::unwrap_used)] // tests fail by panicking

#[path = "support/echo.rs"]
mod echo;

use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use rpcrdma_runtime::program::{Caller, Credential};
use rpcrdma_runtime::proto::rdma::{Config, Refusals, Traffic, TrafficCounts};
use rpcrdma_runtime::proto::rpc::RpcCounts;
use rpcrdma_runtime::proto::work::{Action, Completion, Token};
use rpcrdma_runtime::provider::{Connection, iwarp};
use rpcrdma_runtime::wire::private_data::PrivateData;
use rpcrdma_runtime::wire::rdma::{Body, ChunkLists, Header, ReadSegment, Segment};
use rpcrdma_runtime::{
    CallError, ClientOptions, ClientSnapshot, Failures, Observer, ServerOptions, ServerStats, TcpServer,
};
use rpcrdma_runtime::{Client, Server};

use echo::{EchoBlob, EchoNames, EchoServer, EchoSleep, Names, blob};

fn config() -> Config {
    Config { private_data: PrivateData::new(true, 1024, 1024), ..Config::default() }
}

async fn serve(config: Config) -> (SocketAddr, ServerStats) {
    let options = ServerOptions { config, ..ServerOptions::default() };
    let server = Server::bind_with("127.0.0.1:0", options).await.unwrap().service(EchoServer);
    let (address, stats) = (server.local_addr().unwrap(), server.stats());
    tokio::spawn(server.run(std::future::pending()));
    (address, stats)
}

async fn connect(address: SocketAddr, options: ClientOptions) -> Client {
    Client::connect_with(address, ClientOptions { config: config(), ..options }).await.unwrap()
}

async fn until(condition: impl Fn() -> bool) {
    let holds = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), holds).await.unwrap();
}

#[tokio::test]
async fn both_peers_count_the_same_traffic_by_kind() {
    let (address, stats) = serve(config()).await;
    let seen: Arc<Mutex<Vec<Traffic>>> = Arc::default();
    let reports = seen.clone();
    let observer = Observer::new(move |report| reports.lock().unwrap().extend(report.traffic));
    let client =
        connect(address, ClientOptions { observer: Some(observer), ..ClientOptions::default() }).await;
    let names = Names { names: (0..500).map(|n| format!("name {n}").as_str().into()).collect() };
    for _ in 0..3 {
        client.call::<EchoBlob>(&blob(7, 100)).await.unwrap();
    }
    for _ in 0..2 {
        client.call::<EchoBlob>(&blob(7, 5000)).await.unwrap();
    }
    client.call::<EchoNames>(&names).await.unwrap();
    let counted = client.stats().traffic;
    let seen = seen.lock().unwrap().clone();
    let sum = |of: fn(&Traffic) -> u64| seen.iter().map(of).sum::<u64>();
    assert_eq!((counted.calls, seen.len()), (6, 6));
    assert_eq!((counted.inline_calls, counted.chunked_calls, counted.long_calls), (3, 2, 1));
    assert_eq!((counted.inline_replies, counted.chunked_replies, counted.long_replies), (3, 2, 1));
    assert_eq!(counted.call_bytes, sum(|call| call.call_inline));
    assert_eq!(counted.reply_bytes, sum(|call| call.reply_inline));
    assert_eq!(counted.read_bytes, 10_000 + sum(|call| call.position_zero));
    assert_eq!(counted.written_bytes, 10_000 + sum(|call| call.reply_chunk_bytes));
    let remote = seen.iter().filter(|call| call.remote_invalidation).count();
    assert_eq!(counted.remote_invalidations, remote as u64);
    let server = stats.snapshot();
    assert_eq!(server.traffic, counted, "the server counts the same traffic as the client");
    assert_eq!(server.rpc, rpc(|rpc| rpc.success = 6));
    assert_eq!((server.connected, server.connections.made, server.refusals.sum()), (1, 1, 0));
    assert_eq!(server.duplicates.tracked, 6);
    drop(client);
    until(|| stats.snapshot().connected == 0).await;
    assert_eq!(stats.snapshot().connections.made, 1);
    let text = stats.snapshot().to_string();
    assert!(text.contains("6 calls, 3 inline calls, 2 calls with Read chunks, 1 long calls"), "{text}");
}

fn rpc(set: impl FnOnce(&mut RpcCounts)) -> RpcCounts {
    let mut counts = RpcCounts::default();
    set(&mut counts);
    counts
}

fn failures(set: impl FnOnce(&mut Failures)) -> Failures {
    let mut counts = Failures::default();
    set(&mut counts);
    counts
}

#[tokio::test]
async fn failures_are_counted_by_their_reason() {
    let (address, stats) = serve(config()).await;
    let unknown = Credential::Other { flavor: 77, body: Bytes::new() };
    let client = connect(address, ClientOptions { credential: unknown, ..ClientOptions::default() }).await;
    assert!(client.call::<EchoSleep>(&1).await.is_err());
    assert_eq!(client.stats().failures, failures(|failed| failed.rejected = 1));
    assert_eq!(stats.snapshot().rpc, rpc(|rpc| rpc.auth_error = 1));
    let client = connect(address, ClientOptions::default()).await;
    assert!(client.call::<EchoSleep>(&13).await.is_err(), "the handler panics after it waits");
    assert!(client.call::<EchoSleep>(&14).await.is_err(), "the handler panics before it waits");
    assert!(
        tokio::time::timeout(Duration::from_millis(20), client.call::<EchoSleep>(&60_000)).await.is_err()
    );
    assert!(client.with_timeout(Duration::from_millis(20)).call::<EchoSleep>(&60_000).await.is_err());
    let expected = failures(|failed| (failed.rejected, failed.abandoned, failed.timeout) = (2, 1, 1));
    assert_eq!(client.stats().failures, expected);
    assert_eq!((client.stats().session.timeouts, client.stats().traffic), (1, TrafficCounts::default()));
    assert_eq!(stats.snapshot().rpc.system_error, 2);
    client.close();
    assert!(client.call::<EchoSleep>(&1).await.is_err());
    assert_eq!(client.stats().failures.disconnected, 1);
}

#[tokio::test]
async fn waits_for_credits_are_counted() {
    let (address, _) = serve(Config { credits: 1, ..config() }).await;
    let client = connect(address, ClientOptions::default()).await;
    let slow = || client.call::<EchoSleep>(&20);
    let (one, two, three) = tokio::join!(slow(), slow(), slow());
    assert!(one.is_ok() && two.is_ok() && three.is_ok());
    let ClientSnapshot { credit_waits, credit_wait_time, .. } = client.stats();
    assert_eq!(credit_waits, 2);
    assert!(
        credit_wait_time >= Duration::from_millis(20),
        "the third call did not wait for the second: {credit_wait_time:?}"
    );
    client.call::<EchoSleep>(&1).await.unwrap();
    assert_eq!(client.stats().credit_waits, 2, "sequential calls do not wait");
}

#[tokio::test]
async fn calls_of_a_client_are_limited() {
    let (address, _) = serve(config()).await;
    let client =
        connect(address, ClientOptions { max_outstanding_calls: 2, ..ClientOptions::default() }).await;
    let slow = || client.call::<EchoSleep>(&20);
    let (one, two, three) = tokio::join!(slow(), slow(), slow());
    assert!(one.is_ok() && two.is_ok());
    assert!(matches!(three, Err(CallError::TooMany(2))), "{three:?}");
    assert_eq!(client.stats().failures.unsendable, 1);
    client.call::<EchoSleep>(&1).await.unwrap();
}

#[tokio::test]
async fn connections_are_counted_by_both_peers() {
    let (address, stats) = serve(config()).await;
    let idle = Some(Duration::from_millis(5));
    let client = connect(address, ClientOptions { idle, ..ClientOptions::default() }).await;
    for connection in 1..=3 {
        client.call::<EchoSleep>(&1).await.unwrap();
        assert_eq!(client.stats().reconnects(), connection - 1);
        assert_eq!(stats.snapshot().connections.made, connection);
        until(|| stats.snapshot().connected == 0).await;
    }
    let invalid = tokio::net::TcpStream::connect(address).await.unwrap();
    invalid.writable().await.unwrap();
    assert!(invalid.try_write(&[b'x'; 40]).is_ok());
    until(|| stats.snapshot().connections.failed == 1).await;
    assert_eq!((stats.snapshot().connected, stats.snapshot().connections.made), (0, 3));
}

#[tokio::test]
async fn connections_of_an_address_are_limited() {
    let options = ServerOptions { max_connections_per_address: 2, ..ServerOptions::default() };
    let server = Server::bind_with("127.0.0.1:0", options).await.unwrap().service(EchoServer);
    let (address, stats) = (server.local_addr().unwrap(), server.stats());
    tokio::spawn(server.run(std::future::pending()));
    let first = connect(address, ClientOptions::default()).await;
    let second = connect(address, ClientOptions::default()).await;
    let third =
        Client::connect_with(address, ClientOptions { reconnect: None, ..ClientOptions::default() }).await;
    assert!(third.is_err());
    let connections = stats.snapshot().connections;
    assert_eq!((connections.made, connections.refused), (2, 1));
    drop(first);
    until(|| stats.snapshot().connected == 1).await;
    // The closed connection counts toward `max_connections_per_address` until its task has ended.
    let mut third = Client::connect(address).await;
    while third.is_err() {
        third = Client::connect(address).await;
    }
    third.unwrap().call::<EchoSleep>(&1).await.unwrap();
    second.call::<EchoSleep>(&1).await.unwrap();
}

#[tokio::test]
async fn over_tcp_everything_is_inline() {
    let server = TcpServer::bind("127.0.0.1:0").await.unwrap().service(EchoServer);
    let (address, stats) = (server.local_addr().unwrap(), server.stats());
    tokio::spawn(server.run(std::future::pending()));
    let client = Client::connect_tcp(address).await.unwrap();
    client.call::<EchoBlob>(&blob(7, 5000)).await.unwrap();
    let counted = client.stats().traffic;
    assert_eq!((counted.calls, counted.inline_calls, counted.inline_replies), (1, 1, 1));
    assert!(counted.call_bytes > 5000 && counted.reply_bytes > 5000);
    let server = stats.snapshot();
    assert_eq!((server.rpc, server.connected), (rpc(|rpc| rpc.success = 1), 1));
    assert_eq!(server.traffic, counted);
}

type CountOf = fn(&mut Refusals) -> &mut u64;

/// Returns messages that the server rejects or drops, each with the counter that it increments.
fn bad_messages() -> Vec<(Bytes, CountOf)> {
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_be_bytes()).collect::<Bytes>();
    let call = words(&[9, 0, 2, 0x2000_0001, 1, 0, 0, 0, 0, 0]);
    let with = |reads: Vec<ReadSegment>, payload: &Bytes| {
        let lists = ChunkLists { reads, ..ChunkLists::default() };
        let header = Header { xid: 9, credits: 4, body: Body::Msg(lists) }.encode();
        Bytes::from([&header[..], payload].concat())
    };
    let read = |position| {
        let segment = Segment { handle: 1, length: 40, offset: 0 };
        ReadSegment { position, segment }
    };
    vec![
        (words(&[9, 1]), |refused| &mut refused.discarded),
        (words(&[9, 2, 4, 0, 0, 0, 0]), |refused| &mut refused.version),
        (words(&[9, 2, 4, 0, 0, 0, 0]), |refused| &mut refused.version),
        (words(&[9, 1, 4, 5, 0, 0, 0]), |refused| &mut refused.header),
        (with(vec![read(2)], &call), |refused| &mut refused.header),
        (with(vec![read(40), read(44)], &call), |refused| &mut refused.chunks),
        (with(vec![], &words(&[8, 0, 2, 0, 0, 0])), |refused| &mut refused.xid),
    ]
}

/// Requirement: R144, R171, R172, R182, R184
#[tokio::test]
async fn rejections_are_counted_by_rule() {
    let (address, stats) = serve(config()).await;
    let private_data = config().private_data.encode();
    let mut connection =
        iwarp::connect(address, &private_data, 1024, &iwarp::IwarpOptions::default()).await.unwrap();
    connection.submit(Action::PostReceives { count: 16 });
    let mut expected = Refusals::default();
    for (message, count) in bad_messages() {
        connection.submit(Action::Send { token: Token(1), message: vec![message], invalidate: None });
        *count(&mut expected) += 1;
    }
    // The server replies to all messages except the discarded message.
    let mut answers = 0;
    while answers < expected.sum() - 1 {
        let completion = poll_fn(|cx| connection.poll_completion(cx)).await;
        answers += u64::from(matches!(completion, Completion::Received { .. }));
    }
    let server = stats.snapshot();
    assert_eq!(server.refusals, expected);
    assert_eq!((server.traffic, server.rpc), (TrafficCounts::default(), RpcCounts::default()));
}
