//! A server for the programs GATE and ECHO over any transport. Tests can kill and restart the server.
// Each test uses only a part of this module.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use std::future::pending;
use std::net::SocketAddr;
use std::time::Duration;

use rpcrdma_runtime::Server;
use rpcrdma_runtime::TransportError;
use rpcrdma_runtime::program::Caller;
use rpcrdma_runtime::{Backoff, Reconnect};
use rpcrdma_runtime::{CallError, ServeError, TcpServer};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::echo::{Echo, EchoBlob, EchoServer, blob};
use crate::gate::{Gate, GateServer, Pass};

pub const WAIT: Duration = Duration::from_secs(30);

pub trait Transport: Sized + Send + 'static {
    async fn bind(address: SocketAddr, gate: GateServer) -> Result<Self, ServeError>;

    fn address(&self) -> SocketAddr;

    fn run_forever(self) -> impl Future<Output = Result<(), ServeError>> + Send;
}

impl Transport for Server {
    async fn bind(address: SocketAddr, gate: GateServer) -> Result<Self, ServeError> {
        Ok(Server::bind(address).await?.service(gate).service(EchoServer))
    }

    fn address(&self) -> SocketAddr {
        self.local_addr().unwrap()
    }

    async fn run_forever(self) -> Result<(), ServeError> {
        self.run(pending()).await
    }
}

impl Transport for TcpServer {
    async fn bind(address: SocketAddr, gate: GateServer) -> Result<Self, ServeError> {
        Ok(TcpServer::bind(address).await?.service(gate).service(EchoServer))
    }

    fn address(&self) -> SocketAddr {
        self.local_addr().unwrap()
    }

    async fn run_forever(self) -> Result<(), ServeError> {
        self.run(pending()).await
    }
}

pub struct Running {
    pub address: SocketAddr,
    pub gate: GateServer,
    task: JoinHandle<()>,
}

impl Running {
    pub async fn at<T: Transport>(address: SocketAddr, open: bool) -> Self {
        let gate = GateServer::new(open);
        // The previous server may still occupy the address for a moment.
        let server = loop {
            match T::bind(address, gate.clone()).await {
                Ok(server) => break server,
                Err(_) => sleep(Duration::from_millis(10)).await,
            }
        };
        let address = server.address();
        let running = server.run_forever();
        Running { address, gate, task: tokio::spawn(async move { running.await.unwrap() }) }
    }

    pub async fn anywhere<T: Transport>(open: bool) -> Self {
        Running::at::<T>(([127, 0, 0, 1], 0).into(), open).await
    }

    /// Ends all connections abruptly, as a crash does.
    pub async fn kill(self) -> SocketAddr {
        self.task.abort();
        assert!(self.task.await.unwrap_err().is_cancelled());
        self.address
    }

    pub async fn wait_for_calls(&self, calls: u32) {
        timeout(WAIT, async {
            while self.gate.arrived() < calls {
                sleep(Duration::from_millis(5)).await;
            }
        })
        .await
        .unwrap();
    }
}

pub fn reconnect() -> Reconnect {
    let backoff = Backoff { max: Duration::from_millis(500), ..Backoff::default() };
    Reconnect { backoff, ..Reconnect::default() }
}

pub trait Passes: Caller<Gate, Error = CallError> + Clone + Send + Sync + 'static {}

impl<C: Caller<Gate, Error = CallError> + Clone + Send + Sync + 'static> Passes for C {}

pub fn pass(client: &impl Passes) -> JoinHandle<Result<u32, CallError>> {
    let client = client.clone();
    tokio::spawn(async move { client.call::<Pass>(&()).await })
}

/// Kills the server twice. At each kill, twenty calls wait at the gate or in the client, and other calls
/// transfer data. Waits for the arrival of `first` calls before the first kill, and of `then` calls before
/// the second kill. Returns the last server, which has replied to the remaining calls.
pub async fn kill_twice<T: Transport>(
    mut server: Running,
    client: &(impl Passes + Caller<Echo, Error = CallError>),
    first: u32,
    then: u32,
) -> Running {
    let mut calls: Vec<_> = (0..20).map(|_| pass(client)).collect();
    for round in 0..2 {
        server.wait_for_calls(if round == 0 { first } else { then }).await;
        for size in [100, 50_000, 300_000] {
            let client = client.clone();
            calls.push(tokio::spawn(async move {
                let sent = blob(size % 7, size);
                assert_eq!(client.call::<EchoBlob>(&sent).await?, sent);
                Ok(0)
            }));
        }
        let address = server.kill().await;
        let waiting = calls.iter().take(20).all(|call| !call.is_finished());
        assert!(waiting, "a call has ended without a reply");
        server = Running::at::<T>(address, round == 1).await;
    }
    for call in calls {
        timeout(WAIT, call).await.unwrap().unwrap().unwrap();
    }
    assert_eq!(server.gate.arrived(), 20, "each call arrives once at the last server");
    server
}

/// Drains a client while a call waits at the gate. A new call fails, the waiting call completes, and then the
/// connection closes.
pub async fn check_drain(
    server: &Running,
    client: impl Passes,
    drain: impl Future<Output = ()> + Send + 'static,
) {
    let running = pass(&client);
    server.wait_for_calls(1).await;
    let draining = tokio::spawn(drain);
    // Lets the drain start before the new call.
    tokio::task::yield_now().await;
    let error = client.call::<Pass>(&()).await.unwrap_err();
    assert!(matches!(error, CallError::Transport(TransportError::Unsent(_))), "{error}");
    assert!(!draining.is_finished() && !running.is_finished());
    server.gate.open.add_permits(10);
    assert_eq!(timeout(WAIT, running).await.unwrap().unwrap().unwrap(), 0);
    timeout(WAIT, draining).await.unwrap().unwrap();
    let error = client.call::<Pass>(&()).await.unwrap_err();
    assert!(matches!(error, CallError::Disconnected), "{error}");
}
