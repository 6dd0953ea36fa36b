use std::fmt;
use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tracing::{Instrument, debug, debug_span, info};

use super::accept::{Listening, stopped};
use super::address::bind;
use super::inbound::serve;
use super::metrics::memory_max;
use super::rdma::RdmaInbound;
use super::serving::Serving;
use super::slots::{Slot, Slots};
use super::stats::ConnectionCounts;
use super::tcp::serve_socket;
use super::{PeerFilter, ServeError, ServerOptions, ServerStats, TcpOptions, ToAddress};
use crate::proto::program::Service;
use crate::proto::rdma::Config;
use crate::proto::rpc::Services;
use crate::provider::{Acceptor, Connection, IncomingConnection, LocalParameters, iwarp, raise_backlog};

/// Serves programs over iWARP in user space, another provider, TCP, or several of these transports.
///
/// A handler runs on the task of its connection until the handler first waits, and then on its own task. A
/// handler that blocks or computes for a long time delays the other calls of its connection; use
/// `tokio::task::spawn_blocking` for such work. A call that a duplicate-request cache tracks runs to
/// completion even if its connection is lost.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use rpcrdma_runtime::{Client, Limits, Server, ServerOptions};
///
/// let options = ServerOptions::default().with_limits(&Limits { max_connections: 64, ..Limits::default() });
/// let server = Server::bind_with("127.0.0.1:0", options).await?; // `service` adds programs
/// let (address, stats) = (server.local_addr()?, server.stats());
/// let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
/// let running = tokio::spawn(server.run(async { stopped.await.unwrap_or_default() }));
///
/// let client = Client::connect(address).await?;
/// drop(stop);
/// running.await??;
/// assert_eq!(stats.snapshot().connections.made, 1);
/// # Ok(())
/// # }
/// ```
pub struct Server {
    /// Never empty.
    listeners: Vec<Box<dyn AnyAcceptor>>,
    services: Services,
    stats: ServerStats,
    peers: PeerFilter,
    options: ServerOptions,
}

impl Server {
    /// Binds an address for iWARP in user space, with default options.
    ///
    /// # Errors
    /// [`ServeError::Bind`], and [`ServeError::Capture`] with the feature `capture`.
    pub async fn bind(address: impl ToAddress) -> Result<Self, ServeError> {
        Server::bind_with(address, ServerOptions::default()).await
    }

    /// Binds an address for iWARP in user space.
    ///
    /// # Errors
    /// [`ServeError::Bind`], [`ServeError::NoConnections`], and [`ServeError::Capture`] with the feature
    /// `capture`.
    pub async fn bind_with(address: impl ToAddress, options: ServerOptions) -> Result<Self, ServeError> {
        if options.max_connections == 0 {
            return Err(ServeError::NoConnections);
        }
        options.iwarp.prepare_capture().map_err(ServeError::Capture)?;
        let address = address.to_address();
        let listener = bind(address.clone()).await?;
        let listener = iwarp::IwarpListener::of(listener, options.iwarp.clone());
        let listener = listener.map_err(|source| ServeError::Bind { address, source })?;
        Server::with_acceptor(listener, options)
    }

    /// Creates a server for the connections that an acceptor of any provider accepts.
    ///
    /// # Errors
    /// [`ServeError::NoConnections`].
    pub fn with_acceptor(acceptor: impl Acceptor, options: ServerOptions) -> Result<Self, ServeError> {
        Server::new(Box::new(acceptor), options)
    }

    pub(super) fn over_tcp(
        listener: TcpListener,
        tcp: TcpOptions,
        options: ServerOptions,
    ) -> Result<Self, ServeError> {
        Server::new(OverTcp::new(listener, tcp), options)
    }

    fn new(first: Box<dyn AnyAcceptor>, options: ServerOptions) -> Result<Self, ServeError> {
        if options.max_connections == 0 {
            return Err(ServeError::NoConnections);
        }
        let (stats, peers) = (ServerStats::with_metrics(), PeerFilter::default());
        Ok(Server { listeners: vec![first], services: Services::new(), stats, peers, options })
    }

    /// Also serves the connections that another acceptor accepts. All connections share the services, the
    /// limits, the duplicate-request cache and the counters.
    #[must_use]
    pub fn also(mut self, acceptor: impl Acceptor) -> Self {
        self.listeners.push(Box::new(acceptor));
        self
    }

    /// Also serves RPC over TCP at this address. The connections share the server's state as with
    /// [`Server::also`].
    ///
    /// # Errors
    /// [`ServeError::Bind`].
    pub async fn also_tcp(self, address: impl ToAddress, options: TcpOptions) -> Result<Self, ServeError> {
        Ok(self.also_tcp_listener(bind(address.to_address()).await?, options))
    }

    /// Also serves RPC over TCP on a socket that is already bound. The connections share the server's state
    /// as with [`Server::also`].
    #[must_use]
    pub fn also_tcp_listener(mut self, listener: TcpListener, options: TcpOptions) -> Self {
        self.listeners.push(OverTcp::new(listener, options));
        self
    }

    /// Adds a program version.
    #[must_use]
    pub fn service(mut self, service: impl Service) -> Self {
        self.services.add(service);
        self
    }

    /// Replaces all previously added program versions with `services`. Several servers can use clones of the
    /// same services.
    #[must_use]
    pub fn services(self, services: Services) -> Self {
        Server { services, ..self }
    }

    /// Accepts connections only from peers that the filter admits (default: all).
    #[must_use]
    pub fn peers(self, peers: PeerFilter) -> Self {
        Server { peers, ..self }
    }

    /// Returns the server's counters, which stay readable while the server runs and afterwards.
    #[must_use]
    pub fn stats(&self) -> ServerStats {
        self.stats.clone()
    }

    /// Returns the first bound address, with the port that the system chose if port 0 was requested.
    ///
    /// # Errors
    /// The error of the operating system.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listeners.first().map_or(Err(io::ErrorKind::NotFound.into()), |first| first.local_addr())
    }

    /// Returns all bound addresses, in the order in which the listeners were added.
    ///
    /// # Errors
    /// The error of the operating system.
    pub fn local_addrs(&self) -> io::Result<Vec<SocketAddr>> {
        self.listeners.iter().map(|listener| listener.local_addr()).collect()
    }

    /// Serves until `shutdown` is ready. Then accepts no more connections, waits up to
    /// [`ServerOptions::drain`] for the replies to running calls, and closes the connections.
    ///
    /// # Errors
    /// [`ServeError::Accept`] if a listener fails permanently. The other listeners then stop, too.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> Result<(), ServeError> {
        let Server { listeners, services, stats, peers, options } = self;
        let slots =
            Slots::new(options.max_connections, options.max_connections_per_address, options.idle.is_some());
        memory_max(options.memory.max());
        let serving = Serving::new(
            services,
            options.duplicates,
            options.memory,
            options.max_backward_calls,
            stats.clone(),
        );
        let (stop, stopping) = watch::channel(false);
        let runs = listeners.into_iter().map(|listener| {
            let listening = Listening {
                slots: slots.clone(),
                per_address: options.max_connections_per_address,
                idle: options.idle,
                peers: peers.clone(),
                stats: stats.clone(),
                drain: options.drain,
                warnings: serving.warnings().clone(),
            };
            Box::pin(listen(listener, listening, serving.clone(), options.config, stopping.clone()))
        });
        let (mut runs, mut shutdown, mut ended) = (runs.collect::<Vec<_>>(), pin!(shutdown), Ok(()));
        let mut is_stopping = false;
        poll_fn(|cx| {
            if !is_stopping && shutdown.as_mut().poll(cx).is_ready() {
                is_stopping = true;
                let _ = stop.send(true);
            }
            runs.retain_mut(|run| match run.as_mut().poll(cx) {
                Poll::Ready(outcome) => {
                    ended = std::mem::replace(&mut ended, Ok(())).and(outcome);
                    let _ = stop.send(true);
                    false
                }
                Poll::Pending => true,
            });
            if runs.is_empty() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        info!(stats = %stats.snapshot(), "stopped");
        ended
    }
}

async fn listen(
    listener: Box<dyn AnyAcceptor>,
    listening: Listening,
    serving: Serving,
    config: Config,
    mut stopping: watch::Receiver<bool>,
) -> Result<(), ServeError> {
    let address = |incoming: &BoxedIncoming| incoming.peer().ip();
    let (listener, stats): (Arc<dyn AnyAcceptor>, _) = (listener.into(), serving.stats().clone());
    let accept = move || {
        let (listener, stats) = (listener.clone(), stats.clone());
        async move {
            let accepted = listener.accept().await;
            let failed = listener.take_refused();
            stats.connections(ConnectionCounts { failed, ..ConnectionCounts::default() });
            accepted
        }
    };
    let serve = |incoming: BoxedIncoming, stopping, slot| {
        let span = debug_span!("connection", peer = %incoming.peer());
        incoming.serve(serving.clone(), config, stopping, slot).instrument(span)
    };
    listening.run(accept, address, serve, serving.outliving_calls(), stopped(&mut stopping)).await
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Server { services, options, .. } = self;
        f.debug_struct("Server")
            .field("addresses", &self.local_addrs().ok())
            .field("services", services)
            .field("options", options)
            .finish_non_exhaustive()
    }
}

type BoxedIncoming = Box<dyn AnyIncoming>;
type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

trait AnyAcceptor: Send + Sync {
    fn local_addr(&self) -> io::Result<SocketAddr>;
    fn accept(&self) -> Boxed<'_, io::Result<BoxedIncoming>>;
    fn take_refused(&self) -> u64;
}

impl<A: Acceptor> AnyAcceptor for A {
    fn local_addr(&self) -> io::Result<SocketAddr> {
        Acceptor::local_addr(self)
    }

    fn accept(&self) -> Boxed<'_, io::Result<BoxedIncoming>> {
        Box::pin(async { Ok(Box::new(Acceptor::accept(self).await?) as BoxedIncoming) })
    }

    fn take_refused(&self) -> u64 {
        Acceptor::take_refused(self)
    }
}

trait AnyIncoming: Send {
    fn peer(&self) -> SocketAddr;

    fn serve(
        self: Box<Self>,
        serving: Serving,
        config: Config,
        stopping: watch::Receiver<bool>,
        slot: Arc<Slot>,
    ) -> Boxed<'static, ()>;
}

impl<I: IncomingConnection> AnyIncoming for I {
    fn peer(&self) -> SocketAddr {
        IncomingConnection::peer(self)
    }

    fn serve(
        self: Box<Self>,
        serving: Serving,
        config: Config,
        stopping: watch::Receiver<bool>,
        slot: Arc<Slot>,
    ) -> Boxed<'static, ()> {
        Box::pin(serve_incoming(*self, serving, config, stopping, slot))
    }
}

struct OverTcp {
    listener: TcpListener,
    options: TcpOptions,
}

impl OverTcp {
    fn new(listener: TcpListener, options: TcpOptions) -> Box<Self> {
        raise_backlog(&listener);
        Box::new(OverTcp { listener, options })
    }
}

impl AnyAcceptor for OverTcp {
    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    fn accept(&self) -> Boxed<'_, io::Result<BoxedIncoming>> {
        Box::pin(async {
            let (socket, peer) = self.listener.accept().await?;
            Ok(Box::new(IncomingTcp { socket, peer, options: self.options }) as BoxedIncoming)
        })
    }

    fn take_refused(&self) -> u64 {
        0
    }
}

struct IncomingTcp {
    socket: TcpStream,
    peer: SocketAddr,
    options: TcpOptions,
}

impl AnyIncoming for IncomingTcp {
    fn peer(&self) -> SocketAddr {
        self.peer
    }

    fn serve(
        self: Box<Self>,
        serving: Serving,
        _: Config,
        stopping: watch::Receiver<bool>,
        slot: Arc<Slot>,
    ) -> Boxed<'static, ()> {
        Box::pin(serve_socket(self.socket, self.peer, serving, self.options, stopping, slot))
    }
}

async fn serve_incoming(
    incoming: impl IncomingConnection,
    serving: Serving,
    config: Config,
    mut stopping: watch::Receiver<bool>,
    slot: Arc<Slot>,
) {
    let local = LocalParameters::new(&config);
    let setup = incoming.accept(&local);
    let made = tokio::select! {
        biased;
        () = stopped(&mut stopping) => return debug!("the server stopped during the handshake"),
        made = setup => made,
    };
    match made {
        Ok(connection) => serve_calls(connection, serving, config, stopping, Some(&slot)).await,
        Err(error) => {
            serving.stats().connections(ConnectionCounts { failed: 1, ..ConnectionCounts::default() });
            debug!(%error, "handshake failed");
        }
    }
}

/// Serves one connection of any provider until the connection is closed. Once `stopping` is true, the
/// connection drops new calls and closes after the running calls have ended. If the sender of `stopping` is
/// dropped while the value is false, only the peer or a failure ends the connection. The connection uses no
/// duplicate-request cache, so retransmitted calls run again.
pub async fn serve_connection(
    connection: impl Connection,
    services: Services,
    config: Config,
    stopping: watch::Receiver<bool>,
) {
    serve_calls(connection, Serving::plain(services), config, stopping, None).await;
}

async fn serve_calls(
    connection: impl Connection,
    serving: Serving,
    config: Config,
    stopping: watch::Receiver<bool>,
    slot: Option<&Slot>,
) {
    let _connected = serving.stats().connected();
    let (mut inbound, executor) = RdmaInbound::new(connection, &serving, config);
    let reason = serve(&mut inbound, executor, stopping, slot).await;
    debug!(%reason, "connection closed");
}
