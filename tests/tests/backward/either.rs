//! Tests for RPC-over-RDMA and TCP alike.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rpcrdma_runtime::Services;
use rpcrdma_runtime::TransportError;
use rpcrdma_runtime::program::{CallContext, Caller, Reject};
use rpcrdma_runtime::wire::rpc::ReplyError;
use rpcrdma_runtime::{CallError, DuplicateCache, ServeError};
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;

use super::notices::notices_v1::{self, Client as Notices};
use super::notices::watches_v1::{Client as Watches, WatchesV1};
use super::{Board, Ear, LONG, Noted, Notice, PANIC, notice};

/// Settings of a server, independent of the transport.
#[derive(Clone)]
pub(super) struct Options {
    /// Calls at once on one connection, and in the backward direction.
    pub(super) calls: u32,
    pub(super) backward: u32,
    /// Calls in the backward direction that have not ended.
    pub(super) pending: usize,
    pub(super) duplicates: Option<DuplicateCache>,
}

impl Default for Options {
    fn default() -> Self {
        // A call that has lost its connection is dropped with it.
        Options { calls: 64, backward: 16, pending: 1024, duplicates: None }
    }
}

pub(super) trait Transport: 'static {
    type Client: Caller<WatchesV1, Error = CallError> + Clone + Send + Sync + 'static;
    type Server: Send;

    async fn bind(address: SocketAddr, options: Options, board: Board) -> Result<Self::Server, ServeError>;

    fn address(server: &Self::Server) -> SocketAddr;

    fn run(
        server: Self::Server,
        stop: oneshot::Receiver<()>,
    ) -> impl Future<Output = Result<(), ServeError>> + Send;

    /// A client with these services. The server closes a client that it has not called for this long.
    async fn connect(address: SocketAddr, backward: Services, idle: Duration) -> Self::Client;

    fn close(client: &Self::Client);

    fn connections(client: &Self::Client) -> u64;

    async fn next_connection(client: &Self::Client, seen: u64) -> Option<u64>;
}

/// A server that runs.
pub(super) struct Serving {
    pub(super) board: Board,
    pub(super) address: SocketAddr,
    stop: oneshot::Sender<()>,
    server: JoinHandle<()>,
}

impl Serving {
    pub(super) async fn start<T: Transport>(options: Options) -> Self {
        let free = SocketAddr::from(([127, 0, 0, 1], 0));
        Serving::at::<T>(free, options, Board::default()).await
    }

    /// Binds to an address that the previous server may still occupy for a moment.
    pub(super) async fn at<T: Transport>(address: SocketAddr, options: Options, board: Board) -> Self {
        let binding = async {
            loop {
                match T::bind(address, options.clone(), board.clone()).await {
                    Ok(server) => break server,
                    Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
                }
            }
        };
        let server = timeout(LONG, binding).await.expect("a port");
        let address = T::address(&server);
        let (stop, stopped) = oneshot::channel();
        let running = T::run(server, stopped);
        Serving { board, address, stop, server: tokio::spawn(async { running.await.expect("serves") }) }
    }

    /// A client that is subscribed.
    pub(super) async fn listener<T: Transport>(&self, ear: &Ear) -> T::Client {
        let client = T::connect(self.address, hearing(ear), LONG).await;
        Watches(client.clone()).watch().await.expect("it watches");
        client
    }

    pub(super) async fn end(self) {
        self.stop.send(()).expect("it runs");
        timeout(LONG, self.server).await.expect("it stops").expect("without a panic");
    }
}

pub(super) fn hearing(ear: &Ear) -> Services {
    let mut backward = Services::new();
    backward.add(notices_v1::Server(ear.clone()));
    backward
}

pub(super) async fn hundreds_of_calls_in_both_directions<T: Transport>(options: Options) {
    for duplicates in [None, Some(DuplicateCache::default())] {
        let serving = Serving::start::<T>(Options { duplicates, ..options.clone() }).await;
        let ears = [Ear::default(), Ear::default()];
        let clients = [serving.listener::<T>(&ears[0]).await, serving.listener::<T>(&ears[1]).await];
        let mut saying = JoinSet::new();
        for number in 0..300u64 {
            // Over RDMA, long calls use a Position-Zero chunk, and their replies are inline.
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
}

pub(super) async fn a_client_that_is_not_ready_receives_no_calls<T: Transport>() {
    let serving = Serving::start::<T>(Options::default()).await;
    let ear = Ear::default();
    let client = T::connect(serving.address, hearing(&ear), LONG).await;
    Watches(client.clone()).rest(&0).await.expect("an answer");
    let early = Notices(serving.board.last()).notify(&notice(1, 0)).await;
    assert!(matches!(early, Err(CallError::Transport(TransportError::NotReady))), "{early:?}");
    Watches(client.clone()).watch().await.expect("it watches");
    Notices(serving.board.last()).notify(&notice(2, 0)).await.expect("noted");
    assert_eq!(*ear.heard.lock().expect("no panic"), [2]);
    assert_eq!(serving.board.last().peer().expect("an address").ip(), serving.address.ip());
    drop(client);
    serving.end().await;
}

pub(super) async fn a_client_without_services_survives_backward_calls<T: Transport>() {
    let serving = Serving::start::<T>(Options::default()).await;
    let client = T::connect(serving.address, Services::new(), LONG).await;
    Watches(client.clone()).watch().await.expect("so it says");
    let hasty = serving.board.last().with_timeout(Duration::from_millis(50));
    let unheard = Notices(hasty).notify(&notice(1, 0)).await;
    assert!(matches!(unheard, Err(CallError::Timeout(_))), "{unheard:?}");
    Watches(client.clone()).rest(&1).await.expect("its own calls go on");
    assert!(!serving.board.last().is_closed());
    drop(client);
    serving.end().await;
}

pub(super) async fn a_failure_affects_one_call<T: Transport>() {
    let serving = Serving::start::<T>(Options::default()).await;
    let client = serving.listener::<T>(&Ear::default()).await;
    let notices = Notices(serving.board.last());
    let panicked = notices.notify(&notice(PANIC, 0)).await;
    assert!(matches!(panicked, Err(CallError::Rejected(ReplyError::SystemError))), "{panicked:?}");
    // WATCHES has a binding for the usual direction; called in the other one it is not served here.
    let other = Watches(serving.board.last().bidirectional()).watch().await;
    assert!(matches!(other, Err(CallError::Rejected(ReplyError::ProgramUnavailable))), "{other:?}");
    notices.notify(&notice(2, 0)).await.expect("noted");
    drop(client);
    serving.end().await;
}

/// Replies to a notice once the server has replied to a call in the other direction.
struct Asking<C>(Arc<OnceLock<C>>);

impl<C: Caller<WatchesV1> + Clone + Send + Sync + 'static> notices_v1::Handler for Asking<C> {
    async fn notify(&self, _context: &CallContext, notice: Notice) -> Result<Noted, Reject> {
        let client = self.0.get().ok_or(Reject::SystemError)?;
        Watches(client.clone()).rest(&0).await.map_err(|_| Reject::SystemError)?;
        Ok(Noted { number: notice.number, answer: Vec::new().into() })
    }
}

pub(super) async fn a_handler_of_the_client_calls_the_server<T: Transport>() {
    let serving = Serving::start::<T>(Options::default()).await;
    let own = Arc::new(OnceLock::new());
    let mut backward = Services::new();
    backward.add(notices_v1::Server(Asking(own.clone())));
    let client = T::connect(serving.address, backward, LONG).await;
    assert!(own.set(client.clone()).is_ok());
    Watches(client.clone()).watch().await.expect("it watches");
    let noted = timeout(LONG, Watches(client.clone()).say(&notice(1, 0))).await.expect("an answer");
    assert_eq!(noted.expect("it is said"), 1);
    // The client's services hold the client.
    T::close(&client);
    serving.end().await;
}

pub(super) async fn abandoned_calls_leave_other_calls_unaffected<T: Transport>() {
    let serving = Serving::start::<T>(Options { backward: 2, ..Options::default() }).await;
    let ear = Ear { pause: Duration::from_millis(20), ..Ear::default() };
    let client = serving.listener::<T>(&ear).await;
    let back = serving.board.last();
    for number in 0..6 {
        let hasty = Notices(back.clone());
        assert!(timeout(Duration::from_millis(1), hasty.notify(&notice(number, 0))).await.is_err());
    }
    Notices(back).notify(&notice(100, 0)).await.expect("their places come back");
    Watches(client.clone()).rest(&0).await.expect("and the client's own calls go on");
    drop(client);
    serving.end().await;
}

pub(super) async fn so_many_calls_at_once_and_no_more<T: Transport>() {
    let serving = Serving::start::<T>(Options { backward: 1, pending: 2, ..Options::default() }).await;
    let ear = Ear { pause: Duration::from_millis(50), ..Ear::default() };
    let client = serving.listener::<T>(&ear).await;
    let notices = Notices(serving.board.last());
    let (first, second, third) = (notice(1, 0), notice(2, 0), notice(3, 0));
    let (first, second, third) =
        tokio::join!(notices.notify(&first), notices.notify(&second), notices.notify(&third));
    assert!(first.is_ok() && second.is_ok(), "{first:?} {second:?}");
    assert!(matches!(third, Err(CallError::TooMany(2))), "{third:?}");
    notices.notify(&notice(4, 0)).await.expect("their places are free again");
    drop(client);
    serving.end().await;
}

pub(super) async fn after_a_disconnect_the_server_waits_for_its_client<T: Transport>() {
    let serving = Serving::start::<T>(Options::default()).await;
    let ear = Ear { pause: LONG, ..Ear::default() };
    let first = serving.listener::<T>(&ear).await;
    let back = serving.board.last();
    let (notices, said) = (Notices(back.clone()), notice(1, 0));
    let (waiting, ()) = tokio::join!(notices.notify(&said), async {
        Watches(first.clone()).rest(&5).await.expect("an answer");
        T::close(&first);
        back.closed().await;
    });
    let ended =
        matches!(waiting, Err(CallError::Transport(TransportError::Closed(_) | TransportError::Unsent(_))));
    assert!(ended, "{waiting:?}");
    assert!(back.is_closed());
    let late = Notices(back).notify(&notice(2, 0)).await;
    assert!(matches!(late, Err(CallError::Disconnected)), "{late:?}");

    let ear = Ear::default();
    let second = serving.listener::<T>(&ear).await;
    Notices(serving.board.last()).notify(&notice(3, 0)).await.expect("on the new connection");
    assert_eq!(*ear.heard.lock().expect("no panic"), [3]);
    drop((first, second));
    serving.end().await;
}

/// The short idle limit of others does not apply, even without calls from the client.
pub(super) async fn a_client_with_backward_services_reconnects<T: Transport>() {
    let mut serving = Serving::start::<T>(Options::default()).await;
    let ear = Ear::default();
    let client = T::connect(serving.address, hearing(&ear), Duration::from_millis(20)).await;
    for number in 1..=3 {
        assert_eq!(T::connections(&client), number);
        Watches(client.clone()).watch().await.expect("it watches");
        let back = serving.board.last();
        assert!(timeout(Duration::from_millis(60), back.closed()).await.is_err(), "it stays");
        Notices(back.clone()).notify(&notice(number, 0)).await.expect("noted");
        let (board, address) = (serving.board.clone(), serving.address);
        serving.end().await;
        timeout(LONG, back.closed()).await.expect("it is closed");
        serving = Serving::at::<T>(address, Options::default(), board).await;
        let next = timeout(LONG, T::next_connection(&client, number)).await.expect("it comes again");
        assert_eq!(next, Some(number + 1));
    }
    assert_eq!(*ear.heard.lock().expect("no panic"), [1, 2, 3]);
    T::close(&client);
    assert_eq!(timeout(LONG, T::next_connection(&client, 4)).await.expect("an end"), None);
    drop(client);
    serving.end().await;
}

/// Calls that a stopping server makes still get replies, since its own replies depend on them.
pub(super) async fn a_stopping_server_still_receives_replies<T: Transport>() {
    let serving = Serving::start::<T>(Options::default()).await;
    let ear = Ear { pause: Duration::from_millis(100), ..Ear::default() };
    let client = serving.listener::<T>(&ear).await;
    let speaker = Watches(client.clone());
    let said = tokio::spawn(async move { speaker.say(&notice(1, 0)).await });
    let thinks = async {
        while ear.thinking.load(std::sync::atomic::Ordering::Relaxed) == 0 {
            tokio::task::yield_now().await;
        }
    };
    timeout(LONG, thinks).await.expect("it is told");
    serving.end().await;
    assert_eq!(said.await.expect("no panic").expect("an answer"), 1);
    drop(client);
}
