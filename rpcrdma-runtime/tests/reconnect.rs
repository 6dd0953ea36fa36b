//! A client over iWARP that outlives its connections, on real TCP loopback connections.
#![allow(clippy::unwrap_used)] // tests fail by panicking

#[path = "support/echo.rs"]
mod echo;
#[path = "support/gate.rs"]
mod gate;
#[path = "support/killed.rs"]
mod killed;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rpcrdma_runtime::TransportError;
use rpcrdma_runtime::program::Caller;
use rpcrdma_runtime::provider::iwarp;
use rpcrdma_runtime::{Backoff, Reconnect};
use rpcrdma_runtime::{CallError, ClientOptions, ConnectError};
use rpcrdma_runtime::{Client, Server};
use tokio::time::{sleep, timeout};

use echo::EchoSleep;
use gate::Pass;
use killed::{Running, WAIT, check_drain, kill_twice, pass, reconnect};

async fn serve(address: impl Into<SocketAddr>, open: bool) -> Running {
    Running::at::<Server>(address.into(), open).await
}

async fn first() -> Running {
    Running::anywhere::<Server>(false).await
}

fn options() -> ClientOptions {
    let reconnect = Some(reconnect());
    ClientOptions { reconnect, timeout: WAIT, ..ClientOptions::default() }
}

/// Requirement: H76
#[tokio::test]
async fn a_killed_and_restarted_server_loses_no_call() {
    let server = first().await;
    let client = Client::connect_with(server.address, options()).await.unwrap();
    // The first reply grants more than one credit.
    assert_eq!(client.call::<EchoSleep>(&1).await.unwrap(), 1);
    // Some of these calls advertise memory that the server reads and writes.
    let _server = kill_twice::<Server>(server, &client, 20, 1).await;
    assert_eq!(client.call::<EchoSleep>(&2).await.unwrap(), 2);
}

#[tokio::test]
async fn a_call_dropped_without_a_connection_is_never_sent() {
    let server = first().await;
    let client = Client::connect_with(server.address, options()).await.unwrap();
    let (dropped, kept) = (pass(&client), pass(&client));
    server.wait_for_calls(1).await;
    let address = server.kill().await;
    let late = timeout(Duration::from_millis(50), client.call::<Pass>(&()));
    assert!(late.await.is_err());
    dropped.abort();
    assert!(dropped.await.unwrap_err().is_cancelled());
    let server = serve(address, true).await;
    assert_eq!(timeout(WAIT, kept).await.unwrap().unwrap().unwrap(), 0);
    assert_eq!(client.call::<Pass>(&()).await.unwrap(), 1, "a dropped call reached the new server");
    drop(server);
}

#[tokio::test]
async fn unrepeatable_calls_fail_with_their_connection() {
    let server = first().await;
    let client = Client::connect_with(server.address, options()).await.unwrap();
    let once = pass(&client.without_retransmission());
    server.wait_for_calls(1).await;
    let again = pass(&client);
    let address = server.kill().await;
    let error = timeout(WAIT, once).await.unwrap().unwrap().unwrap_err();
    assert!(matches!(error, CallError::Transport(TransportError::Closed(_))), "{error}");
    let _server = serve(address, true).await;
    timeout(WAIT, again).await.unwrap().unwrap().unwrap();
}

#[tokio::test]
async fn an_unreachable_server_is_reported_after_the_timeout() {
    let server = first().await;
    let client = Client::connect_with(server.address, options()).await.unwrap();
    server.kill().await;
    let error = client.with_timeout(Duration::from_millis(300)).call::<Pass>(&()).await.unwrap_err();
    assert!(matches!(error, CallError::Transport(TransportError::Unreachable(_))), "{error}");
}

/// Returns a client over iWARP, and the number of its connection attempts.
fn counted(address: SocketAddr, options: ClientOptions) -> (Client, Arc<AtomicU32>) {
    let made = Arc::new(AtomicU32::new(0));
    let (count, config) = (made.clone(), options.config);
    let connect = move || {
        count.fetch_add(1, Ordering::Relaxed);
        async move {
            let private_data = config.private_data.encode();
            let receive_size = config.private_data.announced().receive_size;
            iwarp::connect(address, &private_data, receive_size, &iwarp::IwarpOptions::default())
                .await
                .map_err(|error| ConnectError::Connector(error.into()))
        }
    };
    (Client::with_connector(connect, options), made)
}

#[tokio::test]
async fn an_unused_connection_closes_and_the_next_call_reconnects() {
    let server = serve(([127, 0, 0, 1], 0), true).await;
    let options = ClientOptions { idle: Some(Duration::from_millis(50)), ..options() };
    let (client, made) = counted(server.address, options);
    assert_eq!(
        (made.load(Ordering::Relaxed), client.peer()),
        (0, None),
        "the client connected before its first call"
    );
    client.call::<Pass>(&()).await.unwrap();
    assert_eq!((made.load(Ordering::Relaxed), client.peer()), (1, Some(server.address)));
    timeout(WAIT, async {
        while made.load(Ordering::Relaxed) < 3 {
            sleep(Duration::from_millis(200)).await;
            client.call::<Pass>(&()).await.unwrap();
        }
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn a_drain_waits_for_running_calls_and_rejects_new_ones() {
    let server = first().await;
    let (client, _) = counted(server.address, options());
    let draining = client.clone();
    check_drain(&server, client, async move { draining.drain().await }).await;
}

#[tokio::test]
async fn a_failing_connector_is_tried_a_limited_number_of_times() {
    let attempts = Arc::new(AtomicU32::new(0));
    let count = attempts.clone();
    let connect = move || {
        let number = count.fetch_add(1, Ordering::Relaxed);
        async move {
            Err::<iwarp::IwarpConnection, _>(ConnectError::Connector(format!("attempt {number}").into()))
        }
    };
    let backoff = Backoff { initial: Duration::from_millis(1), ..Backoff::default() };
    let reconnect = Some(Reconnect { attempts: Some(3), backoff, ..Reconnect::default() });
    let client = Client::with_connector(connect, ClientOptions { reconnect, ..options() });
    for expected in [3, 6] {
        let error = timeout(WAIT, client.call::<Pass>(&())).await.unwrap().unwrap_err();
        let last = format!("no connection: attempt {}", expected - 1);
        assert!(
            matches!(&error, CallError::Transport(TransportError::Unreachable(why)) if *why == last),
            "{error}"
        );
        assert_eq!(attempts.load(Ordering::Relaxed), expected);
    }
}
