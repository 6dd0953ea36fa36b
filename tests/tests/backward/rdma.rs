//! Tests of backward calls in RPC-over-RDMA, over iWARP.

use std::net::SocketAddr;
use std::time::Duration;

use rpcrdma_runtime::Services;
use rpcrdma_runtime::proto::rdma::{Config, TransportError};
use rpcrdma_runtime::{CallError, ClientOptions, ServeError, ServerOptions};
use rpcrdma_runtime::{Client, Server};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::either::{self, Options, Serving, Transport, notice_services};
use super::notices::Notice;
use super::notices::notices_v1::Client as Notices;
use super::notices::watches_v1::{self, Client as Watches};
use super::{Board, LONG, Subscriber, notice};

pub(super) struct Rdma;

impl Transport for Rdma {
    type Client = Client;
    type Server = Server;

    async fn bind(address: SocketAddr, options: Options, board: Board) -> Result<Server, ServeError> {
        let Options { calls, backward, max_backward_calls, duplicates } = options;
        let config = Config { credits: calls, backward_credits: backward, ..Config::default() };
        let options = ServerOptions { config, max_backward_calls, duplicates, ..ServerOptions::default() };
        Ok(Server::bind_with(address, options).await?.service(watches_v1::Server(board)))
    }

    fn address(server: &Server) -> SocketAddr {
        server.local_addr().expect("a local address")
    }

    async fn run(server: Server, stop: oneshot::Receiver<()>) -> Result<(), ServeError> {
        server.run(async { drop(stop.await) }).await
    }

    async fn connect(address: SocketAddr, backward: Services, idle: Duration) -> Client {
        let options = ClientOptions { backward, idle: Some(idle), ..ClientOptions::default() };
        Client::connect_with(address, options).await.expect("the client connects")
    }

    fn close(client: &Client) {
        client.close();
    }

    fn connections(client: &Client) -> u64 {
        client.connections()
    }

    async fn next_connection(client: &Client, seen: u64) -> Option<u64> {
        client.next_connection(seen).await
    }
}

/// Requirement: R033, R210
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hundreds_of_calls_in_both_directions_at_once() {
    either::hundreds_of_calls_in_both_directions::<Rdma>(Options {
        calls: 8,
        backward: 3,
        ..Options::default()
    })
    .await;
}

#[tokio::test]
async fn r211_a_client_that_is_not_ready_is_not_called() {
    either::a_client_that_is_not_ready_receives_no_calls::<Rdma>().await;
}

#[tokio::test]
async fn a_client_without_services_drops_backward_calls_and_continues() {
    either::a_client_without_services_survives_backward_calls::<Rdma>().await;
}

#[tokio::test]
async fn a_handler_panic_or_an_unknown_program_fails_only_its_call() {
    either::a_failure_affects_one_call::<Rdma>().await;
}

#[tokio::test]
async fn a_handler_of_the_client_calls_the_server() {
    either::a_handler_of_the_client_calls_the_server::<Rdma>().await;
}

#[tokio::test]
async fn abandoned_calls_leave_other_calls_unaffected() {
    either::abandoned_calls_leave_other_calls_unaffected::<Rdma>().await;
}

#[tokio::test]
async fn calls_beyond_the_limit_are_rejected() {
    either::calls_beyond_the_limit_are_rejected::<Rdma>().await;
}

/// Requirement: R216, R217
#[tokio::test]
async fn after_a_disconnect_the_server_waits_for_its_client() {
    either::after_a_disconnect_the_server_waits_for_its_client::<Rdma>().await;
}

/// Requirement: R216, R222
#[tokio::test]
async fn a_client_with_backward_services_stays_connected_and_reconnects() {
    either::a_client_with_backward_services_reconnects::<Rdma>().await;
}

#[tokio::test]
async fn a_stopping_server_still_receives_replies() {
    either::a_stopping_server_still_receives_replies::<Rdma>().await;
}

#[tokio::test]
async fn a_call_too_long_to_be_sent_inline_fails_alone() {
    let serving = Serving::start::<Rdma>(Options::default()).await;
    let client = serving.listener::<Rdma>(&Subscriber::default()).await;
    let notices = Notices(serving.board.last());
    // The transport header, the RPC header, the notice's number and the text's length precede the text.
    let room = 4096 - 28 - 40 - 12;
    let long = notices.notify(&notice(1, room + 1)).await;
    assert!(matches!(long, Err(CallError::Transport(TransportError::Unsendable(_)))), "{long:?}");
    let long_reply = notices.notify(&Notice { number: 2, text: "A".as_bytes().to_vec().into() }).await;
    assert!(
        matches!(long_reply, Err(CallError::TooLong { reply: None, source: TransportError::Chunk, .. })),
        "{long_reply:?}"
    );
    notices.notify(&notice(3, room)).await.expect("the call fits the threshold exactly");
    drop(client);
    serving.end().await;
}

#[tokio::test]
async fn a_program_of_both_directions_is_served_by_both_peers() {
    let serving = Serving::start::<Rdma>(Options::default()).await;
    let own = Board::default();
    let mut backward = Services::new();
    backward.add(watches_v1::Server(own.clone()));
    let client = Rdma::connect(serving.address, backward, LONG).await;
    Watches(client.clone()).watch().await.expect("the client subscribes");
    let back = Watches(serving.board.last().bidirectional());
    assert_eq!(back.say(&notice(1, 10)).await.expect("a reply"), 0, "the client has no subscribers");
    let forward = Watches(client.clone());
    let (there, here) = tokio::join!(back.rest(&5), forward.rest(&5));
    assert!(there.is_ok() && here.is_ok());
    assert!(own.last.lock().expect("no panic").is_none(), "a backward call has no backward client");
    drop((client, forward));
    serving.end().await;
}

/// Requirement: R216, R222
#[tokio::test]
async fn only_a_client_with_backward_services_reconnects_after_a_lost_reply() {
    let serving = Serving::start::<Rdma>(Options::default()).await;
    let idle = Duration::from_millis(20);
    let subscriber = Subscriber::default();
    let options = ClientOptions {
        backward: notice_services(&subscriber),
        idle: Some(idle),
        max_silence: Duration::from_millis(100),
        ..ClientOptions::default()
    };
    let client = Client::connect_with(serving.address, options).await.expect("the client connects");
    let quiet = Rdma::connect(serving.address, Services::new(), idle).await;
    Watches(quiet.clone()).rest(&0).await.expect("a reply");
    timeout(LONG, serving.board.last().closed()).await.expect("the connection closes");
    assert_eq!(quiet.connections(), 1, "a client without services does not reconnect by itself");
    Watches(client.clone()).watch().await.expect("the client subscribes");
    let back = serving.board.last();
    // The timed-out call still holds a credit, so the client closes the connection after `max_silence`
    // without a message.
    let slow = Watches(client.with_timeout(Duration::from_millis(10))).rest(&100_000).await;
    assert!(matches!(slow, Err(CallError::Timeout(_))), "{slow:?}");
    back.closed().await;
    assert_eq!(timeout(LONG, client.next_connection(1)).await.expect("the client reconnects"), Some(2));
    drop((client, quiet));
    serving.end().await;
}
