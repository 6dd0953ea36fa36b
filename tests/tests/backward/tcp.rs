//! Over RPC by TCP: the same programs, the same clients of them.

use std::sync::atomic::Ordering;
use std::time::Duration;

use rpcrdma_runtime::Server;
use rpcrdma_runtime::proto::rdma::FailReason;
use rpcrdma_runtime::proto::rpc::Services;
use rpcrdma_runtime::shell::{
    CallError, DuplicateCache, TcpClient, TcpClientOptions, TcpOptions, TcpServer, TcpServerOptions,
};
use rpcrdma_runtime::wire::rpc::ReplyError;
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;

use super::notices::Notice;
use super::notices::notices_v1::{self, Client as Notices};
use super::notices::watches_v1::{self, Client as Watches};
use super::{Board, Ear, LONG, PANIC, notice};

struct Serving {
    board: Board,
    address: std::net::SocketAddr,
    stop: oneshot::Sender<()>,
    server: JoinHandle<()>,
}

impl Serving {
    async fn start() -> Self {
        Serving::with(TcpServerOptions { duplicates: None, ..TcpServerOptions::default() }).await
    }

    async fn with(options: TcpServerOptions) -> Self {
        let board = Board::default();
        let server = TcpServer::bind_with("127.0.0.1:0", options).await.expect("a port");
        let server = server.service(watches_v1::Server(board.clone()));
        let address = server.local_addr().expect("an address");
        let (stop, stopped) = oneshot::channel::<()>();
        let server =
            tokio::spawn(async move { server.run(async { drop(stopped.await) }).await.expect("serves") });
        Serving { board, address, stop, server }
    }

    async fn client(&self, options: TcpClientOptions) -> TcpClient {
        TcpClient::connect_with(self.address, options).await.expect("a connection")
    }

    async fn listener(&self, ear: &Ear) -> TcpClient {
        let client = self.client(hearing(ear)).await;
        Watches(client.clone()).watch().await.expect("it watches");
        client
    }

    async fn end(self) {
        self.stop.send(()).expect("it runs");
        timeout(LONG, self.server).await.expect("it stops").expect("without a panic");
    }
}

fn hearing(ear: &Ear) -> TcpClientOptions {
    let mut backward = Services::new();
    backward.add(notices_v1::Server(ear.clone()));
    TcpClientOptions { backward, ..TcpClientOptions::default() }
}

/// The server runs fewer calls at once than the clients make, and each of them waits for calls in the other direction.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hundreds_of_calls_in_both_directions_at_once() {
    let tcp = TcpOptions { calls: 3, backward_calls: 2, ..TcpOptions::default() };
    for duplicates in [None, Some(DuplicateCache::default())] {
        let serving =
            Serving::with(TcpServerOptions { tcp, duplicates, ..TcpServerOptions::default() }).await;
        let ears = [Ear::default(), Ear::default()];
        let clients = [serving.listener(&ears[0]).await, serving.listener(&ears[1]).await];
        let mut saying = JoinSet::new();
        for number in 0..300u64 {
            let said = notice(number, if number % 3 == 0 { 5000 } else { 40 });
            let speaker = Watches(clients[usize::from(number % 2 == 0)].clone());
            saying.spawn(async move { speaker.say(&said).await.expect("it is said") });
        }
        while let Some(noted) = timeout(LONG, saying.join_next()).await.expect("an answer") {
            assert_eq!(noted.expect("no panic"), 2, "both have noted it before it is answered");
        }
        for ear in &ears {
            let mut heard = ear.heard.lock().expect("no panic").clone();
            heard.sort_unstable();
            assert_eq!(heard, (0..300).collect::<Vec<_>>(), "each once");
        }
        drop(clients);
        serving.end().await;
    }
}

#[tokio::test]
async fn a_client_that_has_not_said_so_is_not_called() {
    let serving = Serving::start().await;
    let ear = Ear::default();
    let client = serving.client(hearing(&ear)).await;
    Watches(client.clone()).rest(&0).await.expect("an answer");
    let early = Notices(serving.board.last()).notify(&notice(1, 0)).await;
    assert!(matches!(early, Err(CallError::Transport(FailReason::NotReady))), "{early:?}");
    Watches(client.clone()).watch().await.expect("it watches");
    Notices(serving.board.last()).notify(&notice(2, 0)).await.expect("noted");
    assert_eq!(*ear.heard.lock().expect("no panic"), [2]);
    assert_eq!(serving.board.last().peer().expect("an address").ip(), serving.address.ip());
    drop(client);
    serving.end().await;
}

#[tokio::test]
async fn a_client_without_services_loses_nothing_by_calls_that_it_does_not_take() {
    let serving = Serving::start().await;
    let client = serving.client(TcpClientOptions::default()).await;
    Watches(client.clone()).watch().await.expect("so it says");
    let hasty = serving.board.last().with_timeout(Duration::from_millis(50));
    let unheard = Notices(hasty).notify(&notice(1, 0)).await;
    assert!(matches!(unheard, Err(CallError::Timeout(_))), "{unheard:?}");
    Watches(client.clone()).rest(&1).await.expect("its own calls go on");
    assert!(!serving.board.last().is_closed());
    drop(client);
    serving.end().await;
}

#[tokio::test]
async fn calls_and_replies_are_as_long_as_records_may_be() {
    let serving = Serving::start().await;
    let client = serving.listener(&Ear::default()).await;
    let notices = Notices(serving.board.last());
    notices.notify(&notice(1, 5000)).await.expect("as long as it may be");
    let answered = notices.notify(&Notice { number: 2, text: "A".as_bytes().to_vec().into() }).await;
    assert_eq!(answered.expect("a long answer").answer.len(), 5000);
    drop(client);
    serving.end().await;
}

#[tokio::test]
async fn a_handler_that_panics_and_a_program_that_is_not_there_fail_their_call_only() {
    let serving = Serving::start().await;
    let client = serving.listener(&Ear::default()).await;
    let notices = Notices(serving.board.last());
    let panicked = notices.notify(&notice(PANIC, 0)).await;
    assert!(matches!(panicked, Err(CallError::Rejected(ReplyError::SystemError))), "{panicked:?}");
    let other = Watches(serving.board.last().both_ways()).watch().await;
    assert!(matches!(other, Err(CallError::Rejected(ReplyError::ProgramUnavailable))), "{other:?}");
    notices.notify(&notice(2, 0)).await.expect("noted");
    drop(client);
    serving.end().await;
}

/// The client's bound and the server's: the smaller one holds.
#[tokio::test]
async fn so_many_run_at_once_and_the_others_wait() {
    let few = TcpOptions { backward_calls: 3, ..TcpOptions::default() };
    let many = TcpOptions { backward_calls: 100, ..TcpOptions::default() };
    for (server, client) in [(few, many), (many, few)] {
        let serving =
            Serving::with(TcpServerOptions { tcp: server, duplicates: None, ..TcpServerOptions::default() })
                .await;
        let ear = Ear { pause: Duration::from_millis(5), ..Ear::default() };
        let client = serving.client(TcpClientOptions { tcp: client, ..hearing(&ear) }).await;
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

#[tokio::test]
async fn so_many_calls_at_once_and_no_more() {
    let serving =
        Serving::with(TcpServerOptions { backward_pending: 2, ..TcpServerOptions::default() }).await;
    let client = serving.listener(&Ear { pause: Duration::from_millis(50), ..Ear::default() }).await;
    super::two_wait_and_a_third_fails(&serving.board).await;
    drop(client);
    serving.end().await;
}

/// What a server asks while it stops is answered still, for it is part of its answers.
#[tokio::test]
async fn a_server_that_stops_hears_what_its_calls_wait_for() {
    let serving = Serving::start().await;
    let ear = Ear { pause: Duration::from_millis(100), ..Ear::default() };
    let client = serving.listener(&ear).await;
    let speaker = Watches(client.clone());
    let said = tokio::spawn(async move { speaker.say(&notice(1, 0)).await });
    while ear.thinking.load(Ordering::Relaxed) == 0 {
        tokio::task::yield_now().await;
    }
    serving.end().await;
    assert_eq!(said.await.expect("no panic").expect("an answer"), 1);
    drop(client);
}

#[tokio::test]
async fn when_the_connection_is_gone_the_server_waits_for_its_client() {
    let serving = Serving::start().await;
    let ear = Ear { pause: LONG, ..Ear::default() };
    let first = serving.listener(&ear).await;
    let back = serving.board.last();
    let (notices, said) = (Notices(back.clone()), notice(1, 0));
    let (waiting, ()) = tokio::join!(notices.notify(&said), async {
        Watches(first.clone()).rest(&5).await.expect("an answer");
        first.close();
        back.closed().await;
    });
    let ended = matches!(waiting, Err(CallError::Transport(FailReason::Closed(_) | FailReason::Unsent(_))));
    assert!(ended, "{waiting:?}");
    let late = Notices(back).notify(&notice(2, 0)).await;
    assert!(matches!(late, Err(CallError::Disconnected)), "{late:?}");
    let ear = Ear::default();
    let second = serving.listener(&ear).await;
    Notices(serving.board.last()).notify(&notice(3, 0)).await.expect("on the new connection");
    assert_eq!(*ear.heard.lock().expect("no panic"), [3]);
    drop((first, second));
    serving.end().await;
}

#[tokio::test]
async fn a_client_that_may_be_called_stays_connected_and_connects_again() {
    let serving = Serving::start().await;
    let ear = Ear::default();
    let hurried = TcpClientOptions { idle: Some(Duration::from_millis(20)), ..hearing(&ear) };
    let client = serving.client(hurried).await;
    Watches(client.clone()).watch().await.expect("it watches");
    let back = serving.board.last();
    assert!(timeout(Duration::from_millis(60), back.closed()).await.is_err(), "it stays");
    Notices(back.clone()).notify(&notice(1, 0)).await.expect("noted");
    assert_eq!(client.connections(), 1);
    let (board, address) = (serving.board.clone(), serving.address);
    serving.end().await;
    timeout(LONG, back.closed()).await.expect("it is closed");
    let server = loop {
        match Server::bind_tcp(address).await {
            Ok(server) => break server.service(watches_v1::Server(board.clone())),
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    };
    tokio::spawn(server.run(std::future::pending()));
    let next = timeout(LONG, client.next_connection(1)).await.expect("it comes again, without calls");
    assert_eq!(next, Some(2));
    Watches(client.clone()).watch().await.expect("it watches");
    Notices(board.last()).notify(&notice(2, 0)).await.expect("noted");
    assert_eq!(*ear.heard.lock().expect("no panic"), [1, 2]);
    client.close();
    assert_eq!(timeout(LONG, client.next_connection(2)).await.expect("an end"), None);
}
