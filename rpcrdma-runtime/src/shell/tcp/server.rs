use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpStream, ToSocketAddrs};
use tokio::sync::watch;
use tracing::{Instrument, debug, debug_span};

use super::super::accept::{Listening, stopped};
use super::super::running::Running;
use super::super::serving::Serving;
use super::super::{ServeError, ServerStats};
use super::stream::{halves, prepare};
use super::{TcpOptions, TcpServerOptions};
use crate::proto::program::Service;
use crate::proto::rpc::Services;
use crate::xdr::Received;

/// Serves programs over TCP.
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
    /// [`ServeError::Bind`].
    pub async fn bind_with(
        address: impl ToSocketAddrs + fmt::Display,
        options: TcpServerOptions,
    ) -> Result<Self, ServeError> {
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
        let serving = Serving::new(services, options.duplicates, stats);
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
    mut stopping: watch::Receiver<bool>,
) {
    if let Err(error) = prepare(&socket, &options) {
        return debug!(%error, "the socket cannot be set up");
    }
    let (mut incoming, mut outgoing) = halves::<()>(socket, &options);
    let caller = serving.caller(Some(peer));
    let _connected = serving.stats().connected();
    // Of each whether it is a call.
    let mut running = Running::<bool>::default();
    // Calls that run, and replies that have not left.
    let mut unanswered = 0usize;
    let mut open = true;
    while open || unanswered > 0 {
        tokio::select! {
            record = incoming.next(), if open && unanswered < options.calls.max(1) => match record {
                Ok(Some(call)) => {
                    unanswered += 1;
                    let (xid, is_call) = (word(&call, 0).unwrap_or(0), word(&call, 4) == Some(CALL));
                    running.start(is_call, xid, Received::whole(call), caller.clone());
                }
                Ok(None) => open = false,
                Err(error) => return debug!(%error, "connection closed"),
            },
            Some((is_call, reply)) = running.next(), if !running.is_empty() => match reply {
                Some(reply) => if let Err(error) = outgoing.push(reply, ()) {
                    return debug!(%error, "a reply cannot be sent");
                },
                // Such as one over RPCSEC_GSS that came before (RFC 2203 section 5.3.3.1). The others are answered.
                None if is_call => {
                    debug!("a call that is not answered");
                    unanswered = unanswered.saturating_sub(1);
                }
                // A message that is no call, on a connection that carries nothing else.
                None => return debug!("connection closed: a message that is no call"),
            },
            written = outgoing.write(), if !outgoing.is_empty() => match written {
                Ok(left) => unanswered = unanswered.saturating_sub(left),
                Err(error) => return debug!(%error, "connection closed"),
            },
            () = stopped(&mut stopping), if open => open = false,
        }
    }
    match outgoing.finish().await {
        Ok(()) => debug!("connection closed"),
        Err(error) => debug!(%error, "connection closed"),
    }
}

/// `msg_type` of a call (RFC 5531 section 9).
const CALL: u32 = 0;

fn word(message: &[u8], at: usize) -> Option<u32> {
    message.get(at..)?.first_chunk().map(|word| u32::from_be_bytes(*word))
}
