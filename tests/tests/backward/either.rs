//! Tests that run over both RPC-over-RDMA and TCP.

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
use super::{Board, LONG, Noted, Notice, PANIC, Subscriber, notice};

#[derive(Clone)]
pub(super) struct Options {
    /// The maximum number of concurrent forward calls on one connection.
    pub(super) calls: u32,
    /// The maximum number of concurrent backward calls on one connection.
    pub(super) backward: u32,
    /// The maximum number of queued and outstanding backward calls on one connection.
    pub(super) max_backward_calls: usize,
    pub(super) duplicates: Option<DuplicateCache>,
}

impl Default for Options {
    fn default() -> Self {
        Options { calls: 64, backward: 16, max_backward_calls: 1024, duplicates: None }
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

    async fn connect(address: SocketAddr, backward: Services, idle: Duration) -> Self::Client;

    fn close(client: &Self::Client);

    fn connections(client: &Self::Client) -> u64;

    async fn next_connection(client: &Self::Client, seen: u64) -> Option<u64>;
}

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

    /// Starts a server at an address. Retries while the previous server still occupies the address.
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

    pub(super) async fn listener<T: Transport>(&self, subscriber: &Subscriber) -> T::Client {
        let client = T::connect(self.address, notice_services(subscriber), LONG).await;
        Watches(client.clone()).watch().await.expect("the client subscribes");
        client
    }

    pub(super) async fn end(self) {
        self.stop.send(()).expect("the server runs");
        timeout(LONG, self.server).await.expect("the server stops").expect("no panic");
    }
}

pub(super) fn notice_services(subscriber: &Subscriber) -> Services {
    let mut backward = Services::new();
    backward.add(notices_v1::Server(subscriber.clone()));
    backward
}

pub(super) async fn hundreds_of_calls_in_both_directions<T: Transport>(options: Options) {
    for duplicates in [None, Some(DuplicateCache::default())] {
        let serving = Serving::start::<T>(Options { duplicates, ..options.clone() }).await;
        let subscribers = [Subscriber::default(), Subscriber::default()];
        let clients =
            [serving.listener::<T>(&subscribers[0]).await, serving.listener::<T>(&subscribers[1]).await];
        let mut calls = JoinSet::new();
        for number in 0..300u64 {
            // The long notices still fit inline, as backward calls over RDMA must.
            let sent = notice(number, if number % 3 == 0 { 3800 } else { 40 });
            let speaker = Watches(clients[usize::from(number % 2 == 0)].clone());
            calls.spawn(async move { speaker.say(&sent).await.expect("the notice is sent") });
        }
        while let Some(replied) = timeout(LONG, calls.join_next()).await.expect("a reply") {
            assert_eq!(replied.expect("no panic"), 2, "both subscribers replied to the notice");
        }
        for subscriber in &subscribers {
            let mut received = subscriber.received.lock().expect("no panic").clone();
            received.sort_unstable();
            assert_eq!(received, (0..300).collect::<Vec<_>>(), "each notice arrives once");
        }
        drop(clients);
        serving.end().await;
    }
}

pub(super) async fn a_client_that_is_not_ready_receives_no_calls<T: Transport>() {
    let serving = Serving::start::<T>(Options::default()).await;
    let subscriber = Subscriber::default();
    let client = T::connect(serving.address, notice_services(&subscriber), LONG).await;
    Watches(client.clone()).rest(&0).await.expect("a reply");
    let early = Notices(serving.board.last()).notify(&notice(1, 0)).await;
    assert!(matches!(early, Err(CallError::Transport(TransportError::NotReady))), "{early:?}");
    Watches(client.clone()).watch().await.expect("the client subscribes");
    Notices(serving.board.last()).notify(&notice(2, 0)).await.expect("a reply");
    assert_eq!(*subscriber.received.lock().expect("no panic"), [2]);
    assert_eq!(serving.board.last().peer().expect("the peer's address").ip(), serving.address.ip());
    drop(client);
    serving.end().await;
}

pub(super) async fn a_client_without_services_survives_backward_calls<T: Transport>() {
    let serving = Serving::start::<T>(Options::default()).await;
    let client = T::connect(serving.address, Services::new(), LONG).await;
    Watches(client.clone()).watch().await.expect("the client subscribes");
    let impatient = serving.board.last().with_timeout(Duration::from_millis(50));
    let lost = Notices(impatient).notify(&notice(1, 0)).await;
    assert!(matches!(lost, Err(CallError::Timeout(_))), "{lost:?}");
    Watches(client.clone()).rest(&1).await.expect("the client's own calls continue");
    assert!(!serving.board.last().is_closed());
    drop(client);
    serving.end().await;
}

pub(super) async fn a_failure_affects_one_call<T: Transport>() {
    let serving = Serving::start::<T>(Options::default()).await;
    let client = serving.listener::<T>(&Subscriber::default()).await;
    let notices = Notices(serving.board.last());
    let panicked = notices.notify(&notice(PANIC, 0)).await;
    assert!(matches!(panicked, Err(CallError::Rejected(ReplyError::SystemError))), "{panicked:?}");
    // WATCHES is a forward program, which this client does not serve.
    let other = Watches(serving.board.last().bidirectional()).watch().await;
    assert!(matches!(other, Err(CallError::Rejected(ReplyError::ProgramUnavailable))), "{other:?}");
    notices.notify(&notice(2, 0)).await.expect("a reply");
    drop(client);
    serving.end().await;
}

/// Calls the server for each notice, and replies to the notice only after the server's reply.
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
    Watches(client.clone()).watch().await.expect("the client subscribes");
    let replied = timeout(LONG, Watches(client.clone()).say(&notice(1, 0))).await.expect("a reply");
    assert_eq!(replied.expect("the notice is sent"), 1);
    // The client's services own a clone of the client, so dropping the client would not close its connection.
    T::close(&client);
    serving.end().await;
}

pub(super) async fn abandoned_calls_leave_other_calls_unaffected<T: Transport>() {
    let serving = Serving::start::<T>(Options { backward: 2, ..Options::default() }).await;
    let subscriber = Subscriber { pause: Duration::from_millis(20), ..Subscriber::default() };
    let client = serving.listener::<T>(&subscriber).await;
    let back = serving.board.last();
    for number in 0..6 {
        let impatient = Notices(back.clone());
        assert!(timeout(Duration::from_millis(1), impatient.notify(&notice(number, 0))).await.is_err());
    }
    Notices(back).notify(&notice(100, 0)).await.expect("abandoned calls return their credits");
    Watches(client.clone()).rest(&0).await.expect("the client's own calls continue");
    drop(client);
    serving.end().await;
}

pub(super) async fn calls_beyond_the_limit_are_rejected<T: Transport>() {
    let serving =
        Serving::start::<T>(Options { backward: 1, max_backward_calls: 2, ..Options::default() }).await;
    let subscriber = Subscriber { pause: Duration::from_millis(50), ..Subscriber::default() };
    let client = serving.listener::<T>(&subscriber).await;
    let notices = Notices(serving.board.last());
    let (first, second, third) = (notice(1, 0), notice(2, 0), notice(3, 0));
    let (first, second, third) =
        tokio::join!(notices.notify(&first), notices.notify(&second), notices.notify(&third));
    assert!(first.is_ok() && second.is_ok(), "{first:?} {second:?}");
    assert!(matches!(third, Err(CallError::TooMany(2))), "{third:?}");
    notices.notify(&notice(4, 0)).await.expect("completed calls make room for new ones");
    drop(client);
    serving.end().await;
}

pub(super) async fn after_a_disconnect_the_server_waits_for_its_client<T: Transport>() {
    let serving = Serving::start::<T>(Options::default()).await;
    let subscriber = Subscriber { pause: LONG, ..Subscriber::default() };
    let first = serving.listener::<T>(&subscriber).await;
    let back = serving.board.last();
    let (notices, sent) = (Notices(back.clone()), notice(1, 0));
    let (waiting, ()) = tokio::join!(notices.notify(&sent), async {
        Watches(first.clone()).rest(&5).await.expect("a reply");
        T::close(&first);
        back.closed().await;
    });
    let ended =
        matches!(waiting, Err(CallError::Transport(TransportError::Closed(_) | TransportError::Unsent(_))));
    assert!(ended, "{waiting:?}");
    assert!(back.is_closed());
    let late = Notices(back).notify(&notice(2, 0)).await;
    assert!(matches!(late, Err(CallError::Disconnected)), "{late:?}");

    let subscriber = Subscriber::default();
    let second = serving.listener::<T>(&subscriber).await;
    Notices(serving.board.last()).notify(&notice(3, 0)).await.expect("a new connection");
    assert_eq!(*subscriber.received.lock().expect("no panic"), [3]);
    drop((first, second));
    serving.end().await;
}

/// The idle timeout does not apply to a client with backward services, even if it makes no calls.
pub(super) async fn a_client_with_backward_services_reconnects<T: Transport>() {
    let mut serving = Serving::start::<T>(Options::default()).await;
    let subscriber = Subscriber::default();
    let client = T::connect(serving.address, notice_services(&subscriber), Duration::from_millis(20)).await;
    for number in 1..=3 {
        assert_eq!(T::connections(&client), number);
        Watches(client.clone()).watch().await.expect("the client subscribes");
        let back = serving.board.last();
        assert!(timeout(Duration::from_millis(60), back.closed()).await.is_err(), "stays open");
        Notices(back.clone()).notify(&notice(number, 0)).await.expect("a reply");
        let (board, address) = (serving.board.clone(), serving.address);
        serving.end().await;
        timeout(LONG, back.closed()).await.expect("the connection closes");
        serving = Serving::at::<T>(address, Options::default(), board).await;
        let next = timeout(LONG, T::next_connection(&client, number)).await.expect("the client reconnects");
        assert_eq!(next, Some(number + 1));
    }
    assert_eq!(*subscriber.received.lock().expect("no panic"), [1, 2, 3]);
    T::close(&client);
    assert_eq!(timeout(LONG, T::next_connection(&client, 4)).await.expect("the client stops"), None);
    drop(client);
    serving.end().await;
}

/// A stopping server still receives replies to backward calls, because its own replies may depend on them.
pub(super) async fn a_stopping_server_still_receives_replies<T: Transport>() {
    let serving = Serving::start::<T>(Options::default()).await;
    let subscriber = Subscriber { pause: Duration::from_millis(100), ..Subscriber::default() };
    let client = serving.listener::<T>(&subscriber).await;
    let speaker = Watches(client.clone());
    let call = tokio::spawn(async move { speaker.say(&notice(1, 0)).await });
    let starts = async {
        while subscriber.running.load(std::sync::atomic::Ordering::Relaxed) == 0 {
            tokio::task::yield_now().await;
        }
    };
    timeout(LONG, starts).await.expect("the subscriber gets the notice");
    serving.end().await;
    assert_eq!(call.await.expect("no panic").expect("a reply"), 1);
    drop(client);
}
