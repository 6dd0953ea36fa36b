//! Over iWARP.

use std::time::Duration;

use rpcrdma_runtime::proto::rdma::{Config, FailReason};
use rpcrdma_runtime::proto::rpc::Services;
use rpcrdma_runtime::shell::{CallError, ClientOptions, DuplicateCache, ServerOptions};
use rpcrdma_runtime::wire::rpc::ReplyError;
use rpcrdma_runtime::{Client, Server};
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
    async fn start(config: Config) -> Self {
        // A call that has lost its connection ends with it.
        Serving::with(ServerOptions { config, duplicates: None, ..ServerOptions::default() }).await
    }

    async fn with(options: ServerOptions) -> Self {
        let board = Board::default();
        let server = Server::bind_with("127.0.0.1:0", options).await.expect("a port");
        let server = server.service(watches_v1::Server(board.clone()));
        let address = server.local_addr().expect("an address");
        let (stop, stopped) = oneshot::channel::<()>();
        let server =
            tokio::spawn(async move { server.run(async { drop(stopped.await) }).await.expect("serves") });
        Serving { board, address, stop, server }
    }

    async fn client(&self, options: ClientOptions) -> Client {
        Client::connect_with(self.address, options).await.expect("a connection")
    }

    async fn listener(&self, ear: &Ear) -> Client {
        let client = self.client(hearing(ear)).await;
        Watches(client.clone()).watch().await.expect("it watches");
        client
    }

    async fn end(self) {
        self.stop.send(()).expect("it runs");
        timeout(LONG, self.server).await.expect("it stops").expect("without a panic");
    }
}

fn hearing(ear: &Ear) -> ClientOptions {
    let mut backward = Services::new();
    backward.add(notices_v1::Server(ear.clone()));
    ClientOptions { backward, ..ClientOptions::default() }
}

/// Requirement: R033, R210
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hundreds_of_calls_in_both_directions_at_once() {
    let config = Config { credits: 8, backward_credits: 3, ..Config::default() };
    for duplicates in [None, Some(DuplicateCache::default())] {
        let options = ServerOptions { config, duplicates, ..ServerOptions::default() };
        call_both_ways(Serving::with(options).await).await;
    }
}

async fn call_both_ways(serving: Serving) {
    let ears = [Ear::default(), Ear::default()];
    let clients = [serving.listener(&ears[0]).await, serving.listener(&ears[1]).await];
    let mut saying = JoinSet::new();
    for number in 0..300u64 {
        // Long ones go there in a Position-Zero chunk, and come back inline.
        let said = notice(number, if number % 3 == 0 { 3800 } else { 40 });
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

#[tokio::test]
async fn r211_a_client_that_has_not_said_so_is_not_called() {
    let serving = Serving::start(Config::default()).await;
    let ear = Ear::default();
    let client = serving.client(hearing(&ear)).await;
    Watches(client.clone()).rest(&0).await.expect("an answer");
    let early = Notices(serving.board.last()).notify(&notice(1, 0)).await;
    assert!(matches!(early, Err(CallError::Transport(FailReason::NotReady))), "{early:?}");
    Watches(client.clone()).watch().await.expect("it watches");
    Notices(serving.board.last()).notify(&notice(2, 0)).await.expect("noted");
    assert_eq!(*ear.heard.lock().expect("no panic"), [2]);
    drop(client);
    serving.end().await;
}

/// Requirement: R220
#[tokio::test]
async fn a_client_without_services_loses_nothing_by_calls_that_it_does_not_take() {
    let serving = Serving::start(Config::default()).await;
    let client = serving.client(ClientOptions::default()).await;
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
async fn what_does_not_fit_inline_fails_and_the_next_call_does_not() {
    let serving = Serving::start(Config::default()).await;
    let client = serving.listener(&Ear::default()).await;
    let notices = Notices(serving.board.last());
    // The transport header, the RPC header, the number and the length are in front of the text.
    let room = 4096 - 28 - 40 - 12;
    let long = notices.notify(&notice(1, room + 1)).await;
    assert!(matches!(long, Err(CallError::Transport(FailReason::Unsendable(_)))), "{long:?}");
    let long_answer = notices.notify(&Notice { number: 2, text: "A".as_bytes().to_vec().into() }).await;
    assert!(matches!(long_answer, Err(CallError::Transport(FailReason::Chunk))), "{long_answer:?}");
    notices.notify(&notice(3, room)).await.expect("it fits to the byte");
    drop(client);
    serving.end().await;
}

#[tokio::test]
async fn a_handler_that_panics_and_a_program_that_is_not_there_fail_their_call_only() {
    let serving = Serving::start(Config::default()).await;
    let client = serving.listener(&Ear::default()).await;
    let notices = Notices(serving.board.last());
    let panicked = notices.notify(&notice(PANIC, 0)).await;
    assert!(matches!(panicked, Err(CallError::Rejected(ReplyError::SystemError))), "{panicked:?}");
    // WATCHES has a binding for the usual direction; called in the other one it is not served here.
    let other = Watches(serving.board.last().both_ways()).watch().await;
    assert!(matches!(other, Err(CallError::Rejected(ReplyError::ProgramUnavailable))), "{other:?}");
    notices.notify(&notice(2, 0)).await.expect("noted");
    drop(client);
    serving.end().await;
}

/// A program that both ends call.
#[tokio::test]
async fn a_program_of_both_directions_is_served_by_both_ends() {
    let serving = Serving::start(Config::default()).await;
    let own = Board::default();
    let mut backward = Services::new();
    backward.add(watches_v1::Server(own.clone()));
    let client = serving.client(ClientOptions { backward, ..ClientOptions::default() }).await;
    Watches(client.clone()).watch().await.expect("it watches");
    let back = Watches(serving.board.last().both_ways());
    assert_eq!(back.say(&notice(1, 10)).await.expect("an answer"), 0, "nobody watches the client");
    let forward = Watches(client.clone());
    let (there, here) = tokio::join!(back.rest(&5), forward.rest(&5));
    assert!(there.is_ok() && here.is_ok());
    assert!(own.last.lock().expect("no panic").is_none(), "there is no way back from the way back");
    drop((client, forward));
    serving.end().await;
}

#[tokio::test]
async fn calls_that_are_abandoned_disturb_nobody() {
    let serving = Serving::start(Config { backward_credits: 2, ..Config::default() }).await;
    let ear = Ear { pause: Duration::from_millis(20), ..Ear::default() };
    let client = serving.listener(&ear).await;
    let back = serving.board.last();
    for number in 0..6 {
        let hasty = Notices(back.clone());
        assert!(timeout(Duration::from_millis(1), hasty.notify(&notice(number, 0))).await.is_err());
    }
    Notices(back).notify(&notice(100, 0)).await.expect("their credits come back with their replies");
    Watches(client.clone()).rest(&0).await.expect("and the client's own calls go on");
    drop(client);
    serving.end().await;
}

#[tokio::test]
async fn so_many_calls_at_once_and_no_more() {
    let config = Config { backward_credits: 1, ..Config::default() };
    let options = ServerOptions { config, backward_pending: 2, ..ServerOptions::default() };
    let serving = Serving::with(options).await;
    let client = serving.listener(&Ear { pause: Duration::from_millis(50), ..Ear::default() }).await;
    super::two_wait_and_a_third_fails(&serving.board).await;
    drop(client);
    serving.end().await;
}

/// Requirement: R216, R217
#[tokio::test]
async fn when_the_connection_is_gone_the_server_waits_for_its_client() {
    let serving = Serving::start(Config::default()).await;
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
    assert!(back.is_closed());
    let late = Notices(back).notify(&notice(2, 0)).await;
    assert!(matches!(late, Err(CallError::Disconnected)), "{late:?}");

    let ear = Ear::default();
    let second = serving.listener(&ear).await;
    Notices(serving.board.last()).notify(&notice(3, 0)).await.expect("on the new connection");
    assert_eq!(*ear.heard.lock().expect("no panic"), [3]);
    drop((first, second));
    serving.end().await;
}

/// Requirement: R216, R222
#[tokio::test]
async fn a_client_that_may_be_called_stays_connected_and_connects_again() {
    let serving = Serving::start(Config::default()).await;
    let ear = Ear::default();
    let hurried = ClientOptions { idle: Some(Duration::from_millis(20)), ..ClientOptions::default() };
    let client = serving.client(ClientOptions { backward: hearing(&ear).backward, ..hurried.clone() }).await;
    let quiet = serving.client(hurried).await;
    Watches(quiet.clone()).rest(&0).await.expect("an answer");
    // One that is not to be called goes when it has nothing to do.
    timeout(LONG, serving.board.last().closed()).await.expect("it is closed");
    assert_eq!(quiet.connections(), 1, "and does not come again of itself");
    for number in 1..=3 {
        assert_eq!(client.connections(), number);
        Watches(client.clone()).watch().await.expect("it watches");
        let back = serving.board.last();
        let idle = timeout(Duration::from_millis(60), back.closed()).await;
        assert!(idle.is_err(), "it stays");
        Notices(back.clone()).notify(&notice(number, 0)).await.expect("noted");
        // A call without a reply costs the connection.
        let slow = Watches(client.with_timeout(Duration::from_millis(10))).rest(&100_000).await;
        assert!(matches!(slow, Err(CallError::Timeout(_))), "{slow:?}");
        back.closed().await;
        let next =
            timeout(LONG, client.next_connection(number)).await.expect("it comes again, without calls");
        assert_eq!(next, Some(number + 1));
    }
    assert_eq!(*ear.heard.lock().expect("no panic"), [1, 2, 3]);
    client.close();
    assert_eq!(timeout(LONG, client.next_connection(4)).await.expect("an end"), None);
    drop((client, quiet));
    serving.end().await;
}
