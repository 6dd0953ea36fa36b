//! A client over TCP that outlives its connections.
#![allow(clippy::unwrap_used)] // tests fail by panicking

#[path = "support/echo.rs"]
mod echo;
#[path = "support/gate.rs"]
mod gate;
#[path = "support/killed.rs"]
mod killed;

use std::net::SocketAddr;
use std::time::Duration;

use rpcrdma_runtime::TransportError;
use rpcrdma_runtime::program::Caller;
use rpcrdma_runtime::{CallError, TcpClient, TcpClientOptions, TcpOptions, TcpServer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use echo::EchoSleep;
use gate::Pass;
use killed::{Running, WAIT, check_drain, kill_twice, pass, reconnect};

async fn serve(address: impl Into<SocketAddr>, open: bool) -> Running {
    Running::at::<TcpServer>(address.into(), open).await
}

async fn first() -> Running {
    Running::anywhere::<TcpServer>(false).await
}

fn options() -> TcpClientOptions {
    let reconnect = Some(reconnect());
    TcpClientOptions { reconnect, timeout: WAIT, ..TcpClientOptions::default() }
}

#[tokio::test]
async fn a_killed_and_restarted_server_loses_no_call() {
    let server = first().await;
    let tcp = TcpOptions { max_concurrent_calls: 8, ..TcpOptions::default() };
    let client =
        TcpClient::connect_with(server.address, TcpClientOptions { tcp, ..options() }).await.unwrap();
    let server = kill_twice::<TcpServer>(server, &client, 8, 8).await;
    assert_eq!(client.peer(), server.address);
    let counted = client.stats().session;
    assert_eq!((counted.connections, counted.retransmissions >= 16), (3, true), "{counted:?}");
}

#[tokio::test]
async fn outstanding_calls_are_limited() {
    let server = first().await;
    let few = TcpClientOptions { max_outstanding_calls: 2, ..options() };
    let client = TcpClient::connect_with(server.address, few).await.unwrap();
    let calls = [pass(&client), pass(&client)];
    server.wait_for_calls(2).await;
    let third = client.call::<Pass>(&()).await;
    assert!(matches!(third, Err(CallError::TooMany(2))), "{third:?}");
    calls[0].abort();
    let abandoned = async {
        while !calls[0].is_finished() {
            tokio::task::yield_now().await
        }
    };
    timeout(WAIT, abandoned).await.unwrap();
    let again = pass(&client);
    server.wait_for_calls(3).await;
    assert!(!again.is_finished(), "an abandoned call frees its slot");
}

#[tokio::test]
async fn dropped_and_unrepeatable_calls_are_not_retransmitted() {
    let server = first().await;
    let client = TcpClient::connect_with(server.address, options()).await.unwrap();
    let (dropped, once, kept) = (pass(&client), pass(&client.without_retransmission()), pass(&client));
    server.wait_for_calls(3).await;
    let address = server.kill().await;
    dropped.abort();
    assert!(dropped.await.unwrap_err().is_cancelled());
    let error = timeout(WAIT, once).await.unwrap().unwrap().unwrap_err();
    assert!(matches!(error, CallError::Transport(TransportError::Closed(_))), "{error}");
    let error = client.with_timeout(Duration::from_millis(20)).call::<Pass>(&()).await.unwrap_err();
    assert!(
        matches!(error, CallError::Transport(TransportError::Unreachable(_)) | CallError::Timeout(_)),
        "{error}"
    );
    let server = serve(address, true).await;
    assert_eq!(timeout(WAIT, kept).await.unwrap().unwrap().unwrap(), 0);
    assert_eq!(client.call::<Pass>(&()).await.unwrap(), 1, "a dropped or failed call reached the new server");
    drop(server);
}

/// Reads a call and replies with the result 9.
async fn answer(socket: &mut TcpStream) {
    let mut request = [0; 44];
    timeout(WAIT, socket.read_exact(&mut request)).await.unwrap().unwrap();
    // The reply is a record of one fragment: XID, REPLY, MSG_ACCEPTED, an AUTH_NONE verifier, SUCCESS, 9 (RFC
    // 5531 section 9).
    let xid = u32::from_be_bytes(*request[4..].first_chunk().unwrap());
    let words = [0x8000_001c, xid, 1, 0, 0, 0, 0, 9];
    let reply: Vec<u8> = words.into_iter().flat_map(u32::to_be_bytes).collect();
    socket.write_all(&reply).await.unwrap();
}

/// A server whose machine fails does not close its connections.
#[tokio::test]
async fn a_server_that_never_responds_is_disconnected() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let tcp = TcpOptions { stall_timeout: Duration::from_millis(100), ..TcpOptions::default() };
    let options = TcpClientOptions { tcp, ..options() };
    let client = TcpClient::connect_with(listener.local_addr().unwrap(), options).await.unwrap();
    let (_gone, _) = timeout(WAIT, listener.accept()).await.unwrap().unwrap();
    let waits = pass(&client);
    let short = client.with_timeout(Duration::from_millis(200)).call::<Pass>(&()).await.unwrap_err();
    assert!(matches!(short, CallError::Timeout(_)), "{short}");
    let (mut reconnected, _) = timeout(WAIT, listener.accept()).await.unwrap().unwrap();
    answer(&mut reconnected).await;
    assert_eq!(timeout(WAIT, waits).await.unwrap().unwrap().unwrap(), 9);
}

/// Each call times out long before the stall timeout.
#[tokio::test]
async fn a_server_that_never_responds_to_short_calls_is_disconnected() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let tcp = TcpOptions { stall_timeout: Duration::from_millis(300), ..TcpOptions::default() };
    let options = TcpClientOptions { tcp, ..options() };
    let client = TcpClient::connect_with(listener.local_addr().unwrap(), options).await.unwrap();
    let (_gone, _) = timeout(WAIT, listener.accept()).await.unwrap().unwrap();
    let impatient = client.with_timeout(Duration::from_millis(20));
    let calling = async {
        loop {
            impatient.call::<Pass>(&()).await.unwrap_err();
        }
    };
    tokio::select! {
        () = calling => {}
        reconnected = timeout(WAIT, listener.accept()) => drop(reconnected.unwrap().unwrap()),
    }
}

/// Over TCP, a late reply affects only its own call.
#[tokio::test]
async fn a_call_that_times_out_fails_alone() {
    let server = first().await;
    let client = TcpClient::connect_with(server.address, options()).await.unwrap();
    let other = pass(&client);
    server.wait_for_calls(1).await;
    let error = client.with_timeout(Duration::from_millis(50)).call::<EchoSleep>(&10_000).await.unwrap_err();
    assert!(matches!(error, CallError::Timeout(after) if after == Duration::from_millis(50)), "{error}");
    server.gate.open.add_permits(1);
    assert_eq!(timeout(WAIT, other).await.unwrap().unwrap().unwrap(), 0);
    assert_eq!(server.gate.arrived(), 1, "the other call was retransmitted");
}

#[tokio::test]
async fn an_unused_connection_closes_and_the_next_call_reconnects() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let options = TcpClientOptions { idle: Some(Duration::from_millis(50)), ..options() };
    let client = TcpClient::connect_with(listener.local_addr().unwrap(), options).await.unwrap();
    for _ in 0..3 {
        let call = pass(&client);
        let (mut socket, _) = timeout(WAIT, listener.accept()).await.unwrap().unwrap();
        answer(&mut socket).await;
        assert_eq!(timeout(WAIT, call).await.unwrap().unwrap().unwrap(), 9);
        assert_eq!(
            timeout(WAIT, socket.read(&mut [0; 1])).await.unwrap().unwrap(),
            0,
            "the client has not closed the connection"
        );
    }
}

#[tokio::test]
async fn a_drain_waits_for_running_calls_and_rejects_new_ones() {
    let server = first().await;
    let client = TcpClient::connect_with(server.address, options()).await.unwrap();
    let draining = client.clone();
    check_drain(&server, client, async move { draining.drain().await }).await;
}

#[tokio::test]
async fn closing_fails_all_calls() {
    let server = first().await;
    let client = TcpClient::connect_with(server.address, options()).await.unwrap();
    let running = pass(&client);
    server.wait_for_calls(1).await;
    client.close();
    let error = timeout(WAIT, running).await.unwrap().unwrap().unwrap_err();
    assert!(matches!(error, CallError::Transport(TransportError::Closed(_))), "{error}");
    assert!(client.call::<Pass>(&()).await.is_err());
}

#[tokio::test]
async fn without_reconnection_calls_fail_after_the_connection_ends() {
    let server = first().await;
    let once = TcpClientOptions { reconnect: None, ..options() };
    let client = TcpClient::connect_with(server.address, once).await.unwrap();
    let running = pass(&client);
    server.wait_for_calls(1).await;
    let address = server.kill().await;
    let error = timeout(WAIT, running).await.unwrap().unwrap().unwrap_err();
    assert!(matches!(error, CallError::Transport(TransportError::Closed(_))), "{error}");
    let _server = serve(address, true).await;
    assert!(client.call::<Pass>(&()).await.is_err());
}

#[tokio::test]
async fn a_server_that_never_pauses_does_not_delay_timers() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        // Sends replies to unknown calls until the client closes the connection.
        let (mut socket, _) = listener.accept().unwrap();
        let replies = [0x80, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 1].repeat(1 << 14);
        while std::io::Write::write_all(&mut socket, &replies).is_ok() {}
    });
    let timeout = Duration::from_millis(100);
    let client = TcpClient::connect_with(address, TcpClientOptions { timeout, ..options() }).await.unwrap();
    let called = tokio::time::timeout(WAIT, client.call::<Pass>(&())).await.unwrap();
    assert!(matches!(called, Err(CallError::Timeout(_))), "{called:?}");
}
