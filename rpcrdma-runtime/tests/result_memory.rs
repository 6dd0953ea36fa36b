//! Tests that clients over iWARP and TCP store results in memory that the caller supplies.
#![allow(clippy::unwrap_used)] // tests fail by panicking

#[path = "support/echo.rs"]
mod echo;

use std::future::pending;

use bytes::BytesMut;
use rpcrdma_runtime::Config;
use rpcrdma_runtime::program::Caller;
use rpcrdma_runtime::{CallError, ClientOptions, ResultMemoryError, TcpClient, TcpServer};
use rpcrdma_runtime::{Client, Server};

use echo::{Blob, Echo, EchoBlob, EchoNames, EchoServer, Names, blob};

const LEN: usize = 100_000;

async fn over_iwarp(config: Config) -> Client {
    let server = Server::bind("127.0.0.1:0").await.unwrap().service(EchoServer);
    let address = server.local_addr().unwrap();
    tokio::spawn(server.run(pending()));
    Client::connect_with(address, ClientOptions { config, ..ClientOptions::default() }).await.unwrap()
}

async fn over_tcp() -> TcpClient {
    let server = TcpServer::bind("127.0.0.1:0").await.unwrap().service(EchoServer);
    let address = server.local_addr().unwrap();
    tokio::spawn(server.run(pending()));
    TcpClient::connect(address).await.unwrap()
}

fn memory(capacity: usize) -> (BytesMut, *const u8) {
    let memory = BytesMut::with_capacity(capacity);
    let place = memory.as_ptr();
    (memory, place)
}

type Echoed = Result<Blob, CallError>;

/// Checks that results of several sizes are stored in the supplied memory, which has `LEN` bytes at `place`.
/// Also checks the errors of calls that cannot use this memory.
async fn check_results(client: &impl Caller<Echo, Error = CallError>, place: *const u8) {
    for len in [LEN, 1, 100, 5000, LEN] {
        let sent = blob(7, len);
        let received = client.call::<EchoBlob>(&sent).await.unwrap();
        assert_eq!(received, sent, "{len} bytes");
        assert_eq!(received.data.as_ptr(), place, "{len} bytes");
        let second: Echoed = client.call::<EchoBlob>(&sent).await;
        assert!(matches!(second, Err(CallError::ResultMemory(ResultMemoryError::InUse))), "{second:?}");
    }
    let long: Echoed = client.call::<EchoBlob>(&blob(7, LEN + 1)).await;
    let error = ResultMemoryError::TooSmall { needed: LEN as u64 + 1, capacity: LEN };
    assert!(matches!(&long, Err(CallError::ResultMemory(found)) if *found == error), "{long:?}");
    let none = client.call::<EchoNames>(&Names { names: Vec::new() }).await;
    assert!(matches!(none, Err(CallError::ResultMemory(ResultMemoryError::NoItem))), "{none:?}");
}

#[tokio::test]
async fn supplied_memory_is_the_sink_over_iwarp() {
    let (memory, place) = memory(LEN);
    let client = over_iwarp(Config::default()).await.with_result_memory(memory);
    check_results(&client, place).await;
}

#[tokio::test]
async fn supplied_memory_in_many_segments_stays_contiguous() {
    let (memory, place) = memory(LEN);
    let config = Config { max_segment: 10_000, ..Config::default() };
    let client = over_iwarp(config).await.with_result_memory(memory);
    check_results(&client, place).await;
}

#[tokio::test]
async fn supplied_memory_receives_a_copy_over_tcp() {
    let (memory, place) = memory(LEN);
    let client = over_tcp().await.with_result_memory(memory);
    check_results(&client, place).await;
}

#[tokio::test]
async fn one_call_at_a_time_uses_the_memory() {
    let (memory, place) = memory(LEN);
    let client = over_iwarp(Config::default()).await.with_result_memory(memory);
    let sent = blob(7, LEN);
    let (first, second) = tokio::join!(client.call::<EchoBlob>(&sent), client.call::<EchoBlob>(&sent));
    assert_eq!(first.unwrap().data.as_ptr(), place);
    assert!(matches!(second, Err(CallError::ResultMemory(ResultMemoryError::InUse))), "{second:?}");
}
