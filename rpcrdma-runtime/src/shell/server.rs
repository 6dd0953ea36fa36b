use std::fmt;
use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;

use tokio::net::ToSocketAddrs;
use tokio::sync::watch;
use tracing::{Instrument, debug, debug_span, info, trace};

use super::accept::{Listening, stopped};
use super::backward::Calling;
use super::carried::{AnyIncoming, AnyListener, fitted};
use super::running::Running;
use super::serving::{Connected, Serving};
use super::stats::ConnectionCounts;
use super::tcp::TcpServer;
use super::{ServeError, ServerOptions, ServerStats};
use crate::proto::program::{Extensions, Origin, Service};
use crate::proto::rdma::{
    BackwardRequester, CallKey, Config, IncomingCall, Link, Responder, ResponderEvent, Stated,
};
use crate::proto::rpc::Services;
use crate::proto::work::CloseReason;
use crate::provider::Connection;
use crate::wire::private_data::PrivateData;
use crate::xdr::Message;

/// Serves programs over iWARP in user space, or what [`ServerOptions::provider`] says.
///
/// A handler runs on its connection's task until it waits for something, and then on a task of its own: what blocks or
/// computes for long holds up the other calls of its connection, and belongs in `tokio::task::spawn_blocking`. Calls that a
/// duplicate-request cache remembers have a task from the beginning.
#[derive(Debug)]
pub struct Server {
    listener: AnyListener,
    services: Services,
    stats: ServerStats,
    options: ServerOptions,
}

impl Server {
    /// Binds an address with default options.
    ///
    /// # Errors
    /// [`ServeError::Bind`].
    pub async fn bind(address: impl ToSocketAddrs + fmt::Display) -> Result<Self, ServeError> {
        Server::bind_with(address, ServerOptions::default()).await
    }

    /// Binds an address for RPC over TCP with default options: for clients without RDMA.
    ///
    /// # Errors
    /// [`ServeError::Bind`].
    pub async fn bind_tcp(address: impl ToSocketAddrs + fmt::Display) -> Result<TcpServer, ServeError> {
        TcpServer::bind(address).await
    }

    /// Binds an address.
    ///
    /// # Errors
    /// [`ServeError::Bind`], [`ServeError::NoConnections`], and `ServeError::Capture` with the feature `capture`.
    pub async fn bind_with(
        address: impl ToSocketAddrs + fmt::Display,
        options: ServerOptions,
    ) -> Result<Self, ServeError> {
        if options.connections == 0 {
            return Err(ServeError::NoConnections);
        }
        #[cfg(feature = "capture")]
        options.iwarp.capture.file().map_err(ServeError::Capture)?;
        let listener = AnyListener::bind(&address.to_string(), &options).await?;
        Ok(Server { listener, services: Services::new(), stats: ServerStats::default(), options })
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
        Server { services, ..self }
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
        let Server { listener, services, stats, options } = self;
        let listening = Listening {
            connections: options.connections,
            per_address: options.connections_per_address,
            stats: stats.clone(),
            drain: options.drain,
        };
        let address = |incoming: &AnyIncoming| incoming.peer().ip();
        let counted = stats.clone();
        let serving = Serving::new(services, options.duplicates, options.backward_pending, stats);
        let accept = || async {
            let accepted = listener.accept().await;
            counted
                .connections(ConnectionCounts { failed: listener.failed(), ..ConnectionCounts::default() });
            accepted
        };
        let serve = |incoming: AnyIncoming, stopping| {
            let span = debug_span!("connection", peer = %incoming.peer());
            serve_incoming(incoming, serving.clone(), options.config, stopping).instrument(span)
        };
        let ended = listening.run(accept, address, serve, serving.executed(), shutdown).await;
        info!(stats = %serving.stats().snapshot(), "stopped");
        ended
    }
}

async fn serve_incoming(
    incoming: AnyIncoming,
    serving: Serving,
    config: Config,
    mut stopping: watch::Receiver<bool>,
) {
    let private_data = config.private_data.encode();
    let setup = incoming.accept(&private_data);
    let made = tokio::select! {
        biased;
        () = stopped(&mut stopping) => return debug!("stopped before a connection was made"),
        made = setup => made,
    };
    match made {
        Ok(connection) => serve_calls(connection, serving, config, stopping).await,
        Err(error) => {
            serving.stats().connections(ConnectionCounts { failed: 1, ..ConnectionCounts::default() });
            debug!(%error, "no connection was made");
        }
    }
}

/// Serves one connection of any provider until it is closed, or until `stopping` is true: then it takes no more calls,
/// and closes once those that run are answered. If the sender of `stopping` goes away first it never stops of itself.
/// Calls that are sent again are run again.
pub async fn serve_connection(
    connection: impl Connection,
    services: Services,
    config: Config,
    stopping: watch::Receiver<bool>,
) {
    serve_calls(connection, Serving::plain(services), config, stopping).await;
}

async fn serve_calls(
    connection: impl Connection,
    serving: Serving,
    config: Config,
    mut stopping: watch::Receiver<bool>,
) {
    let _connected = serving.stats().connected();
    let mut served = Served::new(connection, serving, config);
    loop {
        if let Some(reason) = served.work() {
            return served.ended(&reason);
        }
        if !served.responder.has_work() {
            served.wait(&mut stopping).await;
        }
    }
}

/// A connection, the engines of both directions on it, and the calls whose handlers run.
struct Served<C> {
    connection: C,
    responder: Responder,
    backward: Calling<BackwardRequester>,
    running: Running<CallKey>,
    link: Link,
    peer: Option<SocketAddr>,
    caller: Connected,
    serving: Serving,
    /// No more calls are taken.
    draining: bool,
}

impl<C: Connection> Served<C> {
    fn new(connection: C, serving: Serving, config: Config) -> Self {
        let info = connection.info();
        let config = fitted(config, info);
        let (peer, reads_out) = (info.peer, info.reads_out);
        let client = PrivateData::find(&info.private_data).unwrap_or(PrivateData::ABSENT);
        let negotiated = PrivateData::negotiate(&client, &config.private_data);
        debug!(?negotiated, "serving");
        let own = Stated { inline: config.private_data.announced().receive_size, reads: reads_out };
        let link = Link::new(own, negotiated);
        let engine = BackwardRequester::new(config, negotiated);
        let (client, backward) = Calling::new(engine, peer, serving.backward_pending());
        let extensions = Extensions::default().with(link.clone()).with(client);
        let caller = serving.caller(Origin { peer, extensions });
        let mut responder = Responder::new(config, negotiated, reads_out);
        serving.warn(&mut responder, peer);
        let (running, draining) = (Running::default(), false);
        Served { connection, responder, backward, running, link, peer, caller, serving, draining }
    }

    /// Does what the engines ask for. Why the connection is closed, once it is.
    fn work(&mut self) -> Option<CloseReason> {
        while let Some(action) = self.responder.poll_action() {
            trace!(?action, "ask");
            self.connection.submit(action);
        }
        self.backward.work(&mut self.connection);
        self.serving.stats().transport(self.responder.take_counts());
        while let Some(event) = self.responder.poll_event() {
            match event {
                // A requester whose call is dropped hears that the connection is closed, and may call elsewhere.
                ResponderEvent::Call(call) if self.draining => self.responder.drop_call(call.key),
                ResponderEvent::Call(IncomingCall { key, xid, message }) => {
                    self.running.start(key, xid, message, self.caller.clone());
                }
                ResponderEvent::Closed(reason) => return Some(reason),
            }
        }
        if self.draining && self.responder.in_progress() == 0 {
            self.responder.close(CloseReason::Local);
        }
        None
    }

    /// Waits until something happens, and tells the engines.
    async fn wait(&mut self, stopping: &mut watch::Receiver<bool>) {
        tokio::select! {
            completion = poll_fn(|cx| self.connection.poll_completion(cx)) => {
                trace!(?completion, "hear");
                if let Some(completion) = self.backward.take(completion) {
                    self.responder.handle_completion(completion);
                }
            }
            () = self.backward.ask() => {}
            Some((key, reply)) = self.running.next(), if !self.running.is_empty() => self.answer(key, reply),
            () = stopped(stopping), if !self.draining => self.draining = true,
        }
    }

    fn answer(&mut self, key: CallKey, reply: Option<Message>) {
        match reply {
            Some(reply) => self.responder.reply(key, reply),
            None => self.responder.drop_call(key),
        }
        if let Some(client) = self.link.stated() {
            self.responder.limit(client);
            self.backward.limit(client);
        }
    }

    fn ended(&mut self, reason: &CloseReason) {
        self.serving.ended(&mut self.responder, self.peer, reason);
    }
}
