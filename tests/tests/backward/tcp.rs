//! Tests of backward calls in RPC over TCP.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rpcrdma_runtime::Services;
use rpcrdma_runtime::{ServeError, TcpClient, TcpClientOptions, TcpOptions, TcpServer, TcpServerOptions};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::either::{self, Options, Serving, Transport, notice_services};
use super::notices::Notice;
use super::notices::notices_v1::Client as Notices;
use super::notices::watches_v1::{self, Client as Watches};
use super::{Board, LONG, Subscriber, notice};

pub(super) struct Tcp;

impl Transport for Tcp {
    type Client = TcpClient;
    type Server = TcpServer;

    async fn bind(address: SocketAddr, options: Options, board: Board) -> Result<TcpServer, ServeError> {
        let Options { calls, backward, max_backward_calls, duplicates } = options;
        let (calls, backward_calls) = (calls as usize, backward as usize);
        let tcp = TcpOptions {
            max_concurrent_calls: calls,
            max_concurrent_backward_calls: backward_calls,
            ..TcpOptions::default()
        };
        let options = TcpServerOptions { tcp, max_backward_calls, duplicates, ..TcpServerOptions::default() };
        Ok(TcpServer::bind_with(address, options).await?.service(watches_v1::Server(board)))
    }

    fn address(server: &TcpServer) -> SocketAddr {
        server.local_addr().expect("a local address")
    }

    async fn run(server: TcpServer, stop: oneshot::Receiver<()>) -> Result<(), ServeError> {
        server.run(async { drop(stop.await) }).await
    }

    async fn connect(address: SocketAddr, backward: Services, idle: Duration) -> TcpClient {
        let options = TcpClientOptions { backward, idle: Some(idle), ..TcpClientOptions::default() };
        TcpClient::connect_with(address, options).await.expect("the client connects")
    }

    fn close(client: &TcpClient) {
        client.close();
    }

    fn connections(client: &TcpClient) -> u64 {
        client.connections()
    }

    async fn next_connection(client: &TcpClient, seen: u64) -> Option<u64> {
        client.next_connection(seen).await
    }
}

/// The server runs fewer concurrent calls than the clients make, and each call waits for backward calls.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hundreds_of_calls_in_both_directions_at_once() {
    either::hundreds_of_calls_in_both_directions::<Tcp>(Options {
        calls: 3,
        backward: 2,
        ..Options::default()
    })
    .await;
}

#[tokio::test]
async fn a_client_that_is_not_ready_receives_no_calls() {
    either::a_client_that_is_not_ready_receives_no_calls::<Tcp>().await;
}

#[tokio::test]
async fn a_client_without_services_drops_backward_calls_and_continues() {
    either::a_client_without_services_survives_backward_calls::<Tcp>().await;
}

#[tokio::test]
async fn a_handler_panic_or_an_unknown_program_fails_only_its_call() {
    either::a_failure_affects_one_call::<Tcp>().await;
}

#[tokio::test]
async fn a_handler_of_the_client_calls_the_server() {
    either::a_handler_of_the_client_calls_the_server::<Tcp>().await;
}

#[tokio::test]
async fn abandoned_calls_leave_other_calls_unaffected() {
    either::abandoned_calls_leave_other_calls_unaffected::<Tcp>().await;
}

#[tokio::test]
async fn calls_beyond_the_limit_are_rejected() {
    either::calls_beyond_the_limit_are_rejected::<Tcp>().await;
}

#[tokio::test]
async fn after_a_disconnect_the_server_waits_for_its_client() {
    either::after_a_disconnect_the_server_waits_for_its_client::<Tcp>().await;
}

#[tokio::test]
async fn a_client_with_backward_services_stays_connected_and_reconnects() {
    either::a_client_with_backward_services_reconnects::<Tcp>().await;
}

#[tokio::test]
async fn a_stopping_server_still_receives_replies() {
    either::a_stopping_server_still_receives_replies::<Tcp>().await;
}

#[tokio::test]
async fn long_calls_and_replies_succeed() {
    let serving = Serving::start::<Tcp>(Options::default()).await;
    let client = serving.listener::<Tcp>(&Subscriber::default()).await;
    let notices = Notices(serving.board.last());
    notices.notify(&notice(1, 5000)).await.expect("a long call");
    let replied = notices.notify(&Notice { number: 2, text: "A".as_bytes().to_vec().into() }).await;
    assert_eq!(replied.expect("a long reply").answer.len(), 5000);
    drop(client);
    serving.end().await;
}

/// The smaller of the peers' limits on concurrent backward calls applies.
#[tokio::test]
async fn calls_beyond_the_smaller_credit_limit_wait() {
    for (server, client) in [(3, 100), (100, 3)] {
        let serving = Serving::start::<Tcp>(Options { backward: server, ..Options::default() }).await;
        let subscriber = Subscriber { pause: Duration::from_millis(5), ..Subscriber::default() };
        let tcp = TcpOptions { max_concurrent_backward_calls: client, ..TcpOptions::default() };
        let options =
            TcpClientOptions { tcp, backward: notice_services(&subscriber), ..TcpClientOptions::default() };
        let client = TcpClient::connect_with(serving.address, options).await.expect("the client connects");
        Watches(client.clone()).watch().await.expect("the client subscribes");
        let back = serving.board.last();
        let mut calls = JoinSet::new();
        for number in 0..20 {
            let notices = Notices(back.clone());
            calls.spawn(async move { notices.notify(&notice(number, 0)).await.expect("a reply") });
        }
        assert_eq!(timeout(LONG, calls.join_all()).await.expect("all calls complete").len(), 20);
        assert_eq!(subscriber.max_running.load(Ordering::Relaxed), 3);
        drop(client);
        serving.end().await;
    }
}
