use std::collections::HashMap;
use std::fmt;
use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::ToSocketAddrs;
use tokio::sync::{Semaphore, watch};
use tokio::task::{self, JoinError, JoinSet};
use tracing::{Instrument, debug, debug_span, info, trace, warn};

use super::{ServeError, ServerOptions};
use crate::proto::program::Service;
use crate::proto::rdma::{CallKey, Config, IncomingCall, Responder, ResponderEvent};
use crate::proto::rpc::Services;
use crate::proto::work::CloseReason;
use crate::provider::{Connection, iwarp};
use crate::wire::private_data::PrivateData;
use crate::xdr::Message;

/// Serves programs over iWARP in user space.
#[derive(Debug)]
pub struct Server {
    listener: iwarp::Listener,
    services: Services,
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

    /// Binds an address.
    ///
    /// # Errors
    /// [`ServeError::Bind`].
    pub async fn bind_with(
        address: impl ToSocketAddrs + fmt::Display,
        options: ServerOptions,
    ) -> Result<Self, ServeError> {
        let name = address.to_string();
        let receive_size = options.config.private_data.announced().receive_size;
        let listener = iwarp::Listener::bind(address, receive_size, options.iwarp)
            .await
            .map_err(|source| ServeError::Bind { address: name, source })?;
        Ok(Server { listener, services: Services::new(), options })
    }

    /// Adds a program version.
    #[must_use]
    pub fn service(mut self, service: impl Service) -> Self {
        self.services.add(service);
        self
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
        let Server { listener, services, options } = self;
        let free = Arc::new(Semaphore::new(options.connections));
        let (stop, stopping) = watch::channel(false);
        let mut connections = JoinSet::new();
        let mut shutdown = std::pin::pin!(shutdown);
        let failed = loop {
            let accepted = tokio::select! {
                () = &mut shutdown => break None,
                Some(outcome) = connections.join_next(), if !connections.is_empty() => {
                    ended(outcome);
                    continue;
                }
                accepted = accept(&listener, &free) => accepted,
            };
            match accepted {
                Ok((incoming, slot)) => {
                    let (services, stopping, config) = (services.clone(), stopping.clone(), options.config);
                    let span = debug_span!("connection", peer = %incoming.peer());
                    let serve = async move {
                        serve_incoming(incoming, services, config, stopping).await;
                        drop(slot);
                    };
                    connections.spawn(serve.instrument(span));
                }
                Err(error) => break Some(ServeError::Accept(error)),
            }
        };
        info!(connections = connections.len(), "stopping");
        let _ = stop.send(true);
        let drained = async {
            while let Some(outcome) = connections.join_next().await {
                ended(outcome);
            }
        };
        if tokio::time::timeout(options.drain, drained).await.is_err() {
            warn!("calls were still running when the time to stop was up");
        }
        failed.map_or(Ok(()), Err)
    }
}

/// The next TCP connection, once there is room for it.
async fn accept(
    listener: &iwarp::Listener,
    free: &Arc<Semaphore>,
) -> io::Result<(iwarp::Incoming, tokio::sync::OwnedSemaphorePermit)> {
    let slot = free.clone().acquire_owned().await.map_err(io::Error::other)?;
    loop {
        match listener.accept().await {
            Ok(incoming) => return Ok((incoming, slot)),
            // One connection's misfortune, or too many open files: the next may do.
            Err(error) if is_passing(&error) => {
                debug!(%error, "accept");
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
            Err(error) => return Err(error),
        }
    }
}

/// Whether the next `accept` may do although this one did not: a connection that went away before it was taken, or
/// a limit of the system or the process that others may leave. Anything else is the listener's own end.
fn is_passing(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted, OutOfMemory};
    matches!(error.kind(), ConnectionAborted | ConnectionReset | Interrupted | OutOfMemory)
        || error.raw_os_error().is_some_and(|code| PASSING.contains(&code))
}

/// ENFILE, EMFILE and ENOBUFS, for which [`io::ErrorKind`] has no names; and what Linux's `accept` passes on of a
/// connection's own errors: ENONET, EPROTO, ENOPROTOOPT, EOPNOTSUPP, ENETDOWN, ENETUNREACH, EHOSTDOWN, EHOSTUNREACH.
#[cfg(any(target_os = "linux", target_os = "android"))]
const PASSING: [i32; 11] = [23, 24, 105, 64, 71, 92, 95, 100, 101, 112, 113];
#[cfg(all(unix, not(any(target_os = "linux", target_os = "android"))))]
const PASSING: [i32; 3] = [23, 24, 55];
/// WSAEMFILE and WSAENOBUFS.
#[cfg(not(unix))]
const PASSING: [i32; 2] = [10024, 10055];

/// Waits until `stopping` turns true: for ever, if it was false when its sender went away.
async fn stopped(stopping: &mut watch::Receiver<bool>) {
    if stopping.wait_for(|stop| *stop).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// A connection's task has ended: as it should, or not.
fn ended(outcome: Result<(), JoinError>) {
    if let Err(error) = outcome {
        warn!(%error, "the task of a connection failed");
    }
}

async fn serve_incoming(
    incoming: iwarp::Incoming,
    services: Services,
    config: Config,
    mut stopping: watch::Receiver<bool>,
) {
    let setup = async { incoming.request().await?.accept(&config.private_data.encode()).await };
    let made = tokio::select! {
        biased;
        () = stopped(&mut stopping) => return debug!("stopped before a connection was made"),
        made = setup => made,
    };
    match made {
        Ok(connection) => serve_connection(connection, services, config, stopping).await,
        Err(error) => debug!(%error, "no connection was made"),
    }
}

/// Serves one connection of any provider until it is closed, or until `stopping` is true: then it takes no more calls,
/// and closes once those that run are answered. If the sender of `stopping` goes away first it never stops of itself.
pub async fn serve_connection(
    mut connection: impl Connection,
    services: Services,
    config: Config,
    mut stopping: watch::Receiver<bool>,
) {
    let info = connection.info();
    let peer = info.peer;
    let client = PrivateData::find(&info.private_data).unwrap_or(PrivateData::ABSENT);
    let negotiated = PrivateData::negotiate(&client, &config.private_data);
    let mut responder = Responder::new(config, negotiated, info.reads_out);
    let mut running = Running::default();
    let mut draining = false;
    debug!(?negotiated, "serving");
    loop {
        while let Some(action) = responder.poll_action() {
            trace!(?action, "ask");
            connection.submit(action);
        }
        while let Some(event) = responder.poll_event() {
            match event {
                // A requester whose call is dropped hears that the connection is closed, and may call elsewhere.
                ResponderEvent::Call(call) if draining => responder.drop_call(call.key),
                ResponderEvent::Call(call) => running.start(call, services.clone(), peer),
                ResponderEvent::Closed(reason) => return debug!(%reason, "connection closed"),
            }
        }
        if draining && responder.in_progress() == 0 {
            responder.close(CloseReason::Local);
        }
        if responder.has_work() {
            continue;
        }
        tokio::select! {
            completion = poll_fn(|cx| connection.poll_completion(cx)) => {
                trace!(?completion, "hear");
                responder.handle_completion(completion);
            }
            Some((key, reply)) = running.next(), if !running.is_empty() => match reply {
                Some(reply) => responder.reply(key, reply),
                None => responder.drop_call(key),
            },
            () = stopped(&mut stopping), if !draining => draining = true,
        }
    }
}

/// Calls whose handlers run.
#[derive(Default)]
struct Running {
    tasks: JoinSet<Option<Message>>,
    calls: HashMap<task::Id, (CallKey, u32)>,
}

impl Running {
    fn start(&mut self, call: IncomingCall, services: Services, peer: Option<SocketAddr>) {
        let IncomingCall { key, xid, message } = call;
        let span = debug_span!("call", xid);
        let answer = async move { services.answer(&message, peer).await };
        let task = self.tasks.spawn(answer.instrument(span));
        self.calls.insert(task.id(), (key, xid));
    }

    fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// The next call that has its reply.
    async fn next(&mut self) -> Option<(CallKey, Option<Message>)> {
        let ended = self.tasks.join_next_with_id().await?;
        let id = match &ended {
            Ok((id, _)) => *id,
            Err(error) => error.id(),
        };
        let (key, xid) = self.calls.remove(&id)?;
        let reply = ended.map_or_else(|error| panicked(&error, xid), |(_, reply)| reply);
        Some((key, reply))
    }
}

/// A handler that panicked answers SYSTEM_ERR; its connection and the others go on.
fn panicked(error: &JoinError, xid: u32) -> Option<Message> {
    warn!(%error, xid, "a handler panicked");
    Services::system_error(xid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_listener_outlives() {
        for kind in
            [io::ErrorKind::ConnectionAborted, io::ErrorKind::ConnectionReset, io::ErrorKind::Interrupted]
        {
            assert!(is_passing(&kind.into()), "{kind}");
        }
        for code in PASSING {
            assert!(is_passing(&io::Error::from_raw_os_error(code)), "{code}");
        }
        for kind in [io::ErrorKind::InvalidInput, io::ErrorKind::PermissionDenied, io::ErrorKind::Other] {
            assert!(!is_passing(&kind.into()), "{kind}");
        }
    }

    #[tokio::test]
    async fn a_sender_that_goes_away_stops_nobody() {
        let (stop, mut stopping) = watch::channel(false);
        drop(stop);
        let waiting = tokio::time::timeout(std::time::Duration::from_millis(20), stopped(&mut stopping));
        assert!(waiting.await.is_err());
        let (stop, mut stopping) = watch::channel(true);
        drop(stop);
        stopped(&mut stopping).await;
    }
}
