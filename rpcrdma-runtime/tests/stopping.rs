//! A stopping server: running calls complete, new calls are dropped, and a silent peer does not delay the
//! stop.
#![allow(clippy::unwrap_used)] // tests fail by panicking

#[path = "support/gate.rs"]
mod gate;

use std::future::pending;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rpcrdma_runtime::Config;
use rpcrdma_runtime::Services;
use rpcrdma_runtime::program::Caller;
use rpcrdma_runtime::provider::iwarp;
use rpcrdma_runtime::{CallError, ClientOptions, ServerOptions, TcpClient, TcpServer, serve_connection};
use rpcrdma_runtime::{Client, Server};
use rpcrdma_sim::fabric::{Fabric, FabricConfig};
use tokio::sync::watch;

use gate::{GateServer, Pass};

const WAIT: Duration = Duration::from_secs(20);

/// Serves a [`GateServer`] over an in-memory connection. Returns the client, the gate and the server's task.
fn serve(stopping: watch::Receiver<bool>) -> (Client, GateServer, tokio::task::JoinHandle<()>) {
    let gate = GateServer::new(false);
    let mut services = Services::new();
    services.add(gate.clone());
    let (_, local, peer) = Fabric::pair(FabricConfig { automatic: true, ..FabricConfig::default() });
    let server = tokio::spawn(serve_connection(peer, services, Config::default(), stopping));
    (Client::over(local, ClientOptions::default()), gate, server)
}

fn call(client: &Client) -> tokio::task::JoinHandle<Result<u32, CallError>> {
    let client = client.clone();
    tokio::spawn(async move { client.call::<Pass>(&()).await })
}

/// Lets every other task of this thread make progress.
async fn settle() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn running_calls_complete_and_new_calls_are_rejected() {
    let (stop, stopping) = watch::channel(false);
    let (client, gate, server) = serve(stopping);
    let running = call(&client);
    settle().await;
    assert_eq!(gate.arrived(), 1);
    assert_ne!(client.stats().credits, 0);
    stop.send(true).unwrap();
    settle().await;
    let new = call(&client);
    settle().await;
    gate.open.add_permits(10);
    assert_eq!(tokio::time::timeout(WAIT, running).await.unwrap().unwrap().unwrap(), 0);
    assert!(tokio::time::timeout(WAIT, new).await.unwrap().unwrap().is_err());
    tokio::time::timeout(WAIT, server).await.unwrap().unwrap();
    assert_eq!(gate.arrived(), 1, "a new call was started");
    settle().await;
    assert_eq!(client.stats().credits, 0, "without a connection");
}

#[tokio::test]
async fn a_dropped_stop_signal_does_not_stop_the_server() {
    let (stop, stopping) = watch::channel(false);
    let (client, gate, server) = serve(stopping);
    drop(stop);
    settle().await;
    gate.open.add_permits(10);
    for number in 0..3 {
        assert_eq!(client.call::<Pass>(&()).await.unwrap(), number);
    }
    drop(client);
    tokio::time::timeout(WAIT, server).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_silent_peer_does_not_delay_the_stop() {
    let hour = Duration::from_secs(3600);
    let patient = iwarp::IwarpOptions { request_timeout: hour, ..iwarp::IwarpOptions::default() };
    let options = ServerOptions { iwarp: patient, drain: hour, ..ServerOptions::default() };
    let server = Server::bind_with("127.0.0.1:0", options).await.unwrap();
    let address = server.local_addr().unwrap();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let server = tokio::spawn(server.run(async { drop(stopped.await) }));
    let silent = tokio::net::TcpStream::connect(address).await.unwrap();
    // The server accepts TCP connections in order. Once it has rejected the invalid handshake below, it
    // has also accepted the silent connection.
    let other = tokio::net::TcpStream::connect(address).await.unwrap();
    other.writable().await.unwrap();
    assert!(other.try_write(b"not MPA").is_ok());
    other.readable().await.unwrap();
    stop.send(()).unwrap();
    tokio::time::timeout(WAIT, server).await.unwrap().unwrap().unwrap();
    drop(silent);
}

/// If the listener stayed open, the kernel would accept connections, and calls on them would fail.
#[tokio::test]
async fn a_stopping_server_refuses_connections() {
    let gate = GateServer::new(false);
    let server = TcpServer::bind("127.0.0.1:0").await.unwrap().service(gate.clone());
    let address = server.local_addr().unwrap();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let server = tokio::spawn(server.run(async { drop(stopped.await) }));
    let client = TcpClient::connect(address).await.unwrap();
    let running = tokio::spawn(async move { client.call::<Pass>(&()).await });
    let started = async {
        while gate.arrived() == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(WAIT, started).await.unwrap();
    stop.send(()).unwrap();
    let refused = async {
        while tokio::net::TcpStream::connect(address).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(5), refused).await.unwrap();
    assert!(!running.is_finished() && !server.is_finished());
    gate.open.add_permits(1);
    assert_eq!(tokio::time::timeout(WAIT, running).await.unwrap().unwrap().unwrap(), 0);
    tokio::time::timeout(WAIT, server).await.unwrap().unwrap().unwrap();
}

/// Checks a client that outlives the runtime on which it connected: its calls fail, and neither a call nor
/// `drain` waits for a dropped task.
fn outlives_its_runtime<C: Clone>(
    connect: impl AsyncFn() -> C,
    call: impl AsyncFn(C) -> Result<u32, CallError>,
    drain: impl AsyncFn(C),
) {
    let build = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (runtime, later) = (build(), build());
    let client = runtime.block_on(connect());
    drop(runtime);
    let called = later.block_on(async { tokio::time::timeout(WAIT, call(client.clone())).await.unwrap() });
    assert!(matches!(called, Err(CallError::Disconnected)), "{called:?}");
    later.block_on(async { tokio::time::timeout(WAIT, drain(client.clone())).await.unwrap() });
    drop(client);
}

#[test]
fn a_client_outlives_its_runtime() {
    outlives_its_runtime(
        async || {
            let server = Server::bind("127.0.0.1:0").await.unwrap().service(GateServer::new(true));
            let address = server.local_addr().unwrap();
            tokio::spawn(server.run(pending()));
            let client = Client::connect(address).await.unwrap();
            client.call::<Pass>(&()).await.unwrap();
            client
        },
        async |client| client.call::<Pass>(&()).await,
        async |client| client.drain().await,
    );
}

#[test]
fn a_client_over_tcp_outlives_its_runtime() {
    outlives_its_runtime(
        async || {
            let server = TcpServer::bind("127.0.0.1:0").await.unwrap().service(GateServer::new(true));
            let address = server.local_addr().unwrap();
            tokio::spawn(server.run(pending()));
            let client = TcpClient::connect(address).await.unwrap();
            client.call::<Pass>(&()).await.unwrap();
            client
        },
        async |client| client.call::<Pass>(&()).await,
        async |client| client.drain().await,
    );
}

#[tokio::test]
async fn closing_abandons_a_connection_attempt() {
    let attempt = Arc::new(());
    let connecting = Arc::new(Mutex::new(Some(attempt.clone())));
    let connector = move || {
        let attempt = connecting.lock().unwrap().take();
        async move {
            let _attempt = attempt;
            pending::<Result<rpcrdma_sim::fabric::End, _>>().await
        }
    };
    let client = Client::with_connector(connector, ClientOptions::default());
    let waiting = call(&client);
    settle().await;
    client.close();
    assert!(tokio::time::timeout(WAIT, waiting).await.unwrap().unwrap().is_err());
    client.drain().await;
    settle().await;
    assert_eq!(Arc::strong_count(&attempt), 1, "the client still holds the attempt");
}
