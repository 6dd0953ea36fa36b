use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;

use bytes::Bytes;
use tokio::net::{TcpListener, TcpStream, ToSocketAddrs};
use tokio::sync::watch;
use tracing::{Instrument, debug, debug_span};

use super::super::accept::{Listening, stopped};
use super::super::backward::Calling;
use super::super::serving::Serving;
use super::super::{ServeError, ServerStats};
use super::backward::TcpBackward;
use super::callee::{Callee, Kind};
use super::stream::{Incoming, Outgoing, halves, prepare};
use super::{TcpOptions, TcpServerOptions};
use crate::proto::program::{Extensions, Origin, Service};
use crate::proto::rpc::Services;
use crate::proto::work::CloseReason;

/// Serves programs over TCP. Handlers run as a [`Server`](crate::Server)'s do.
#[derive(Debug)]
pub struct TcpServer {
    listener: TcpListener,
    services: Services,
    stats: ServerStats,
    options: TcpServerOptions,
}

impl TcpServer {
    /// Binds an address with default options.
    ///
    /// # Errors
    /// [`ServeError::Bind`].
    pub async fn bind(address: impl ToSocketAddrs + fmt::Display) -> Result<Self, ServeError> {
        TcpServer::bind_with(address, TcpServerOptions::default()).await
    }

    /// Binds an address.
    ///
    /// # Errors
    /// [`ServeError::Bind`], [`ServeError::NoConnections`].
    pub async fn bind_with(
        address: impl ToSocketAddrs + fmt::Display,
        options: TcpServerOptions,
    ) -> Result<Self, ServeError> {
        if options.connections == 0 {
            return Err(ServeError::NoConnections);
        }
        let name = address.to_string();
        let bound = TcpListener::bind(address).await;
        let listener = bound.map_err(|source| ServeError::Bind { address: name, source })?;
        Ok(TcpServer { listener, services: Services::new(), stats: ServerStats::default(), options })
    }

    /// Adds a program version.
    #[must_use]
    pub fn service(mut self, service: impl Service) -> Self {
        self.services.add(service);
        self
    }

    /// Serves these program versions, and no others: what another server serves too.
    #[must_use]
    pub fn services(self, services: Services) -> Self {
        TcpServer { services, ..self }
    }

    /// Reads what the server counts, also while it runs and afterwards.
    #[must_use]
    pub fn stats(&self) -> ServerStats {
        self.stats.clone()
    }

    /// The address that is served: with the port that the system chose, if 0 was asked for.
    ///
    /// # Errors
    /// What the system says.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `shutdown` is ready; then takes no more connections, lets the calls that run be answered, and
    /// closes.
    ///
    /// # Errors
    /// [`ServeError::Accept`], if the listener fails for good.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> Result<(), ServeError> {
        let TcpServer { listener, services, stats, options } = self;
        let listening = Listening {
            connections: options.connections,
            per_address: options.connections_per_address,
            stats: stats.clone(),
            drain: options.drain,
        };
        let address = |(_, peer): &(TcpStream, SocketAddr)| peer.ip();
        let serving = Serving::new(services, options.duplicates, options.backward_pending, stats);
        let accept = || listener.accept();
        let serve = |(socket, peer): (TcpStream, SocketAddr), stopping| {
            let span = debug_span!("connection", %peer);
            serve(socket, peer, serving.clone(), options.tcp, stopping).instrument(span)
        };
        listening.run(accept, address, serve, serving.executed(), shutdown).await
    }
}

/// Serves one connection until its client closes it, or until `stopping` is true: then it takes no more calls, and closes
/// once those that run are answered.
async fn serve(
    socket: TcpStream,
    peer: SocketAddr,
    serving: Serving,
    options: TcpOptions,
    stopping: watch::Receiver<bool>,
) {
    if let Err(error) = prepare(&socket, &options) {
        return debug!(%error, "the socket cannot be set up");
    }
    let _connected = serving.stats().connected();
    let mut served = Served::new(socket, peer, &serving, &options);
    let ended = served.serve(stopping).await;
    let reason = match ended {
        Ok(()) => CloseReason::Peer,
        Err(error) => CloseReason::Io(error.to_string()),
    };
    debug!(%reason, "connection closed");
    served.backward.ended(&reason);
}

/// A connection, its calls, and the server's own on it.
struct Served {
    incoming: Incoming,
    outgoing: Outgoing,
    callee: Callee,
    backward: Calling<TcpBackward>,
    /// The client may still send something.
    open: bool,
    /// No more calls are taken.
    draining: bool,
}

impl Served {
    fn new(socket: TcpStream, peer: SocketAddr, serving: &Serving, options: &TcpOptions) -> Self {
        let (incoming, outgoing) = halves(socket, options);
        let engine = TcpBackward::new(options);
        let (client, backward) = Calling::new(engine, Some(peer), serving.backward_pending());
        let extensions = Extensions::default().with(client);
        let callee =
            Callee::new(serving.caller(Origin { peer: Some(peer), extensions }), options.calls, options);
        Served { incoming, outgoing, callee, backward, open: true, draining: false }
    }

    /// # Errors
    /// What ends the connection before its client closes it.
    async fn serve(&mut self, mut stopping: watch::Receiver<bool>) -> io::Result<()> {
        while self.open && !self.draining || !self.callee.is_idle() {
            self.callee.start();
            while let Some((call, slot)) = self.backward.poll_send() {
                self.outgoing.push(call, slot)?;
            }
            tokio::select! {
                record = self.incoming.next(), if self.open && self.may_read() => match record? {
                    Some(record) => self.received(record)?,
                    None => {
                        self.open = false;
                        self.backward.ended(&CloseReason::Peer);
                    }
                },
                (reply, slot) = self.callee.answer() => match reply {
                    Some(reply) => self.outgoing.push(reply, slot)?,
                    None => drop(slot),
                },
                written = self.outgoing.write(), if !self.outgoing.is_empty() => written?,
                () = self.backward.ask() => {}
                () = stopped(&mut stopping), if !self.draining => self.draining = true,
            }
        }
        self.outgoing.finish().await
    }

    /// Replies to this end's own calls may stand behind more calls than it takes.
    fn may_read(&self) -> bool {
        let awaits = self.backward.awaits();
        if self.draining { awaits } else { self.callee.has_room(awaits) }
    }

    fn received(&mut self, record: Bytes) -> io::Result<()> {
        match Kind::of(&record) {
            // A client whose call is dropped hears that the connection is closed, and may call elsewhere.
            Kind::Call if self.draining => {}
            Kind::Call => self.callee.take(record),
            Kind::Reply if self.backward.is_ready() => self.backward.received(record),
            Kind::Reply | Kind::Neither => return Err(io::Error::other("a message that is no call")),
        }
        Ok(())
    }
}
