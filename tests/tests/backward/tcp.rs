//! Over RPC by TCP: the same programs, the same clients of them.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rpcrdma_runtime::Services;
use rpcrdma_runtime::{ServeError, TcpClient, TcpClientOptions, TcpOptions, TcpServer, TcpServerOptions};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::either::{self, Options, Serving, Transport, hearing};
use super::notices::Notice;
use super::notices::notices_v1::Client as Notices;
use super::notices::watches_v1::{self, Client as Watches};
use super::{Board, Ear, LONG, notice};

pub(super) struct Tcp;

impl Transport for Tcp {
    type Client = TcpClient;
    type Server = TcpServer;

    async fn bind(address: SocketAddr, options: Options, board: Board) -> Result<TcpServer, ServeError> {
        let Options { calls, backward, pending, duplicates } = options;
        let (calls, backward_calls) = (calls as usize, backward as usize);
        let tcp = TcpOptions { calls, backward_calls, ..TcpOptions::default() };
        let options =
            TcpServerOptions { tcp, max_backward_calls: pending, duplicates, ..TcpServerOptions::default() };
        Ok(TcpServer::bind_with(address, options).await?.service(watches_v1::Server(board)))
    }

    fn address(server: &TcpServer) -> SocketAddr {
        server.local_addr().expect("an address")
    }

    async fn run(server: TcpServer, stop: oneshot::Receiver<()>) -> Result<(), ServeError> {
        server.run(async { drop(stop.await) }).await
    }

    async fn connect(address: SocketAddr, backward: Services, idle: Duration) -> TcpClient {
        let options = TcpClientOptions { backward, idle: Some(idle), ..TcpClientOptions::default() };
        TcpClient::connect_with(address, options).await.expect("a connection")
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

/// The server runs fewer calls at once than the clients make, and each of them waits for calls in the other
/// direction.
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
async fn a_client_without_services_rejects_backward_calls_and_continues() {
    either::a_client_without_services_survives_backward_calls::<Tcp>().await;
}

#[tokio::test]
async fn a_handler_that_panics_and_a_program_that_is_not_there_fail_their_call_only() {
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
async fn so_many_calls_at_once_and_no_more() {
    either::so_many_calls_at_once_and_no_more::<Tcp>().await;
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
async fn calls_and_replies_are_as_long_as_records_may_be() {
    let serving = Serving::start::<Tcp>(Options::default()).await;
    let client = serving.listener::<Tcp>(&Ear::default()).await;
    let notices = Notices(serving.board.last());
    notices.notify(&notice(1, 5000)).await.expect("as long as it may be");
    let answered = notices.notify(&Notice { number: 2, text: "A".as_bytes().to_vec().into() }).await;
    assert_eq!(answered.expect("a long answer").answer.len(), 5000);
    drop(client);
    serving.end().await;
}

/// The client's bound and the server's: the smaller one holds.
#[tokio::test]
async fn so_many_run_at_once_and_the_others_wait() {
    for (server, client) in [(3, 100), (100, 3)] {
        let serving = Serving::start::<Tcp>(Options { backward: server, ..Options::default() }).await;
        let ear = Ear { pause: Duration::from_millis(5), ..Ear::default() };
        let tcp = TcpOptions { backward_calls: client, ..TcpOptions::default() };
        let options = TcpClientOptions { tcp, backward: hearing(&ear), ..TcpClientOptions::default() };
        let client = TcpClient::connect_with(serving.address, options).await.expect("a connection");
        Watches(client.clone()).watch().await.expect("it watches");
        let back = serving.board.last();
        let mut calls = JoinSet::new();
        for number in 0..20 {
            let notices = Notices(back.clone());
            calls.spawn(async move { notices.notify(&notice(number, 0)).await.expect("noted") });
        }
        assert_eq!(timeout(LONG, calls.join_all()).await.expect("an end").len(), 20);
        assert_eq!(ear.most.load(Ordering::Relaxed), 3);
        drop(client);
        serving.end().await;
    }
}
