use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use tokio::sync::watch;
use tracing::{Instrument, debug, debug_span, info};

use super::accept::{Listening, stopped};
use super::inbound::serve;
use super::rdma::RdmaInbound;
use super::serving::Serving;
use super::slots::Slot;
use super::stats::ConnectionCounts;
use super::tcp::TcpServer;
use super::{PeerFilter, ServeError, ServerOptions, ServerStats, ToAddress};
use crate::proto::program::Service;
use crate::proto::rdma::Config;
use crate::proto::rpc::Services;
use crate::provider::{Acceptor, Connection, IncomingConnection, LocalParameters, iwarp};

/// Serves programs over iWARP in user space or another provider.
///
/// A handler runs on the task of its connection until it first waits, and then on its own task. A handler
/// that blocks or computes for long delays the other calls of its connection; use
/// `tokio::task::spawn_blocking`. Calls that a duplicate-request cache tracks run on their own task from
/// the start.
pub struct Server {
    acceptor: Box<dyn AnyAcceptor>,
    services: Services,
    stats: ServerStats,
    peers: PeerFilter,
    options: ServerOptions,
}

impl Server {
    /// Binds an address with default options.
    ///
    /// # Errors
    /// [`ServeError::Bind`].
    pub async fn bind(address: impl ToAddress) -> Result<Self, ServeError> {
        Server::bind_with(address, ServerOptions::default()).await
    }

    /// Binds an address for RPC over TCP with default options, for clients without RDMA.
    ///
    /// # Errors
    /// [`ServeError::Bind`].
    pub async fn bind_tcp(address: impl ToAddress) -> Result<TcpServer, ServeError> {
        TcpServer::bind(address).await
    }

    /// Binds an address for iWARP in user space.
    ///
    /// # Errors
    /// [`ServeError::Bind`], [`ServeError::NoConnections`], and [`ServeError::Capture`] with the feature `capture`.
    pub async fn bind_with(
        address: impl ToAddress,
        options: ServerOptions,
    ) -> Result<Self, ServeError> {
        if options.connections == 0 {
            return Err(ServeError::NoConnections);
        }
        options.iwarp.prepare_capture().map_err(ServeError::Capture)?;
        let address = address.to_address();
        match iwarp::Listener::bind(&address, options.iwarp.clone()).await {
            Ok(listener) => Server::with_acceptor(listener, options),
            Err(source) => Err(ServeError::Bind { address, source }),
        }
    }

    /// Serves the connections that an acceptor of any provider accepts.
    ///
    /// # Errors
    /// [`ServeError::NoConnections`].
    pub fn with_acceptor(acceptor: impl Acceptor, options: ServerOptions) -> Result<Self, ServeError> {
        if options.connections == 0 {
            return Err(ServeError::NoConnections);
        }
        let (acceptor, services) = (Box::new(acceptor), Services::new());
        Ok(Server {
            acceptor,
            services,
            stats: ServerStats::default(),
            peers: PeerFilter::default(),
            options,
        })
    }

    /// Adds a program version.
    #[must_use]
    pub fn service(mut self, service: impl Service) -> Self {
        self.services.add(service);
        self
    }

    /// Serves exactly these program versions, which several servers can share.
    #[must_use]
    pub fn services(self, services: Services) -> Self {
        Server { services, ..self }
    }

    /// Accepts connections only from peers that the filter admits (default: all).
    #[must_use]
    pub fn peers(self, peers: PeerFilter) -> Self {
        Server { peers, ..self }
    }

    /// Returns the server's counters. They stay readable while the server runs and afterwards.
    #[must_use]
    pub fn stats(&self) -> ServerStats {
        self.stats.clone()
    }

    /// Returns the bound address, with the port that the system chose if port 0 was requested.
    ///
    /// # Errors
    /// The error of the operating system.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.acceptor.local_addr()
    }

    /// Serves until `shutdown` is ready. Then accepts no more connections, waits for the replies to running
    /// calls, and closes the connections.
    ///
    /// # Errors
    /// [`ServeError::Accept`] if the listener fails permanently.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> Result<(), ServeError> {
        let Server { acceptor, services, stats, peers, options } = self;
        let listening = Listening {
            connections: options.connections,
            per_address: options.connections_per_address,
            idle: options.idle,
            peers,
            stats: stats.clone(),
            drain: options.drain,
        };
        let address = |incoming: &BoxedIncoming| incoming.peer().ip();
        let counted = stats.clone();
        let serving = Serving::new(services, options.duplicates, options.backward_pending, stats);
        let accept = || async {
            let accepted = acceptor.accept().await;
            let failed = acceptor.take_refused();
            counted.connections(ConnectionCounts { failed, ..ConnectionCounts::default() });
            accepted
        };
        let serve = |incoming: BoxedIncoming, stopping, slot| {
            let span = debug_span!("connection", peer = %incoming.peer());
            incoming.serve(serving.clone(), options.config, stopping, slot).instrument(span)
        };
        let ended = listening.run(accept, address, serve, serving.executed(), shutdown).await;
        info!(stats = %serving.stats().snapshot(), "stopped");
        ended
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Server { acceptor, services, options, .. } = self;
        let address = acceptor.local_addr().ok();
        f.debug_struct("Server")
            .field("address", &address)
            .field("services", services)
            .field("options", options)
            .finish_non_exhaustive()
    }
}

type BoxedIncoming = Box<dyn AnyIncoming>;
type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The acceptor of any provider. Only `accept` uses dynamic dispatch: the task of a connection has a
/// concrete type.
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

    /// Accepts the connection and serves it until it ends.
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
        () = stopped(&mut stopping) => return debug!("stopped before a connection was made"),
        made = setup => made,
    };
    match made {
        Ok(connection) => serve_calls(connection, serving, config, stopping, Some(&slot)).await,
        Err(error) => {
            serving.stats().connections(ConnectionCounts { failed: 1, ..ConnectionCounts::default() });
            debug!(%error, "no connection was made");
        }
    }
}

/// Serves one connection of any provider until it is closed or `stopping` is true. Then it takes no more
/// calls and closes once the running calls are answered. If the sender of `stopping` is dropped first, the
/// server never stops by itself. Retransmitted calls run again: there is no duplicate-request cache.
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
    let (mut inbound, caller) = RdmaInbound::new(connection, &serving, config);
    let reason = serve(&mut inbound, caller, stopping, slot).await;
    inbound.ended(&serving, &reason);
}
