//! Accepting and closing the connections of a server.

use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Interval, MissedTickBehavior};
use tracing::{Instrument, debug, info, warn};

use super::slots::{Slot, Slots};
use super::stats::ConnectionCounts;
use super::warnings::{Kind, Warnings};
use super::{PeerFilter, ServeError, ServerStats};

pub(super) struct Listening {
    pub(super) slots: Slots,
    /// Maximum number of connections per owner (an IPv4 address or a 64-bit IPv6 prefix). Used only in log
    /// messages, because `slots` enforces the limit.
    pub(super) per_address: usize,
    pub(super) idle: Option<Duration>,
    pub(super) peers: PeerFilter,
    pub(super) stats: ServerStats,
    pub(super) drain: Duration,
    pub(super) warnings: Warnings,
}

impl Listening {
    /// Accepts connections until `shutdown` is ready or the listener fails, and serves each connection on its
    /// own task. Then drops `accept`, which owns the listener, and signals the connections to end. Waits up
    /// to `drain` for the connections and for `outliving`, the calls that outlive their connections.
    pub(super) async fn run<T, Accepting, Serving>(
        self,
        accept: impl Fn() -> Accepting,
        address: impl Fn(&T) -> IpAddr,
        serve: impl Fn(T, watch::Receiver<bool>, Arc<Slot>) -> Serving,
        outliving: impl Future<Output = ()>,
        shutdown: impl Future<Output = ()>,
    ) -> Result<(), ServeError>
    where
        Accepting: Future<Output = io::Result<T>>,
        Serving: Future<Output = ()> + Send + 'static,
    {
        let slots = &self.slots;
        let (stop, stopping) = watch::channel(false);
        let mut connections = JoinSet::new();
        let mut shutdown = pin!(shutdown);
        // The future is kept while other branches run, because it may own a connection that waits for a slot.
        let mut accepting = Box::pin(self.next(&accept, &address));
        let mut sweeps = self.idle.map(sweeps);
        let mut rechecks = self.peers.changes();
        let failed = loop {
            let accepted = tokio::select! {
                () = &mut shutdown => break None,
                Some(outcome) = connections.join_next(), if !connections.is_empty() => {
                    log_panic(outcome);
                    continue;
                }
                () = tick(&mut sweeps) => {
                    self.idle.into_iter().for_each(|idle| slots.close_idle(idle));
                    continue;
                }
                Ok(()) = rechecks.changed() => {
                    slots.close_refused(&self.peers);
                    continue;
                }
                accepted = &mut accepting => accepted,
            };
            accepting.set(self.next(&accept, &address));
            match accepted {
                Ok((connection, slot)) => {
                    let slot = Arc::new(slot);
                    let serving = serve(connection, stopping.clone(), slot.clone());
                    connections.spawn(
                        async move {
                            tokio::select! {
                                () = serving => {}
                                () = slot.closed() => debug!("closing the connection: it is idle, another connection needs its slot, or its peer may no longer connect"),
                            }
                        }
                        .in_current_span(),
                    );
                }
                Err(error) => break Some(ServeError::Accept(error)),
            }
        };
        drop(accepting);
        // Closes the listener, so that clients do not connect to a server that is stopping.
        drop(accept);
        info!(connections = connections.len(), "stopping");
        let _ = stop.send(true);
        let drained = async {
            while let Some(outcome) = connections.join_next().await {
                log_panic(outcome);
            }
            outliving.await;
        };
        if tokio::time::timeout(self.drain, drained).await.is_err() {
            warn!(
                "stopping although calls are running or connections are open: the drain timeout has expired"
            );
        }
        failed.map_or(Ok(()), Err)
    }

    async fn next<T, Accepting: Future<Output = io::Result<T>>>(
        &self,
        accept: impl Fn() -> Accepting,
        address: impl Fn(&T) -> IpAddr,
    ) -> io::Result<(T, Slot)> {
        loop {
            // If no slot is free and no connection can be closed, new connections wait in the backlog.
            self.slots.available().await;
            let incoming = match accept().await {
                Ok(incoming) => incoming,
                Err(error) if is_transient(&error) => {
                    debug!(%error, "cannot accept a connection; retrying");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
                Err(error) => return Err(error),
            };
            let from = address(&incoming);
            if !self.peers.admits(from) {
                let what = "refused a connection: the peer's address is not admitted";
                if self.warnings.may_warn(Kind::RefusedPeer, from.into()) {
                    warn!(%from, "{what}");
                } else {
                    debug!(%from, "{what}");
                }
                self.refused();
                continue;
            }
            match self.slots.take(from).await {
                // The filter may have changed while the connection waited for its slot.
                Some(slot) if self.peers.admits(from) => return Ok((incoming, slot)),
                Some(_) => self.refused(),
                None => {
                    let limit = self.per_address;
                    debug!(%from, limit, "refused a connection: too many in total, or from this address");
                    self.refused();
                }
            }
        }
    }

    fn refused(&self) {
        self.stats.connections(ConnectionCounts { refused: 1, ..ConnectionCounts::default() });
    }
}

fn sweeps(idle: Duration) -> Interval {
    let period = (idle / 8).clamp(Duration::from_millis(10), Duration::from_secs(30));
    let mut sweeps = tokio::time::interval(period);
    sweeps.set_missed_tick_behavior(MissedTickBehavior::Delay);
    sweeps
}

async fn tick(sweeps: &mut Option<Interval>) {
    match sweeps {
        Some(sweeps) => drop(sweeps.tick().await),
        None => std::future::pending().await,
    }
}

/// Returns true if a later `accept` may succeed, for example if one connection was lost or the process has
/// too many open files.
fn is_transient(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted, OutOfMemory};
    matches!(error.kind(), ConnectionAborted | ConnectionReset | Interrupted | OutOfMemory)
        || error.raw_os_error().is_some_and(|code| TRANSIENT.contains(&code))
}

/// ENFILE, EMFILE and ENOBUFS, which [`io::ErrorKind`] does not name. On Linux, `accept` also returns pending
/// errors of the new connection: ENONET, EPROTO, ENOPROTOOPT, EOPNOTSUPP, ENETDOWN, ENETUNREACH, EHOSTDOWN,
/// EHOSTUNREACH. EPERM means that a firewall rule forbids the connection. Registering the new connection with
/// epoll fails with ENOSPC if the user has reached `max_user_watches`.
#[cfg(any(target_os = "linux", target_os = "android"))]
const TRANSIENT: [i32; 13] = [1, 23, 24, 28, 105, 64, 71, 92, 95, 100, 101, 112, 113];
#[cfg(all(unix, not(any(target_os = "linux", target_os = "android"))))]
const TRANSIENT: [i32; 3] = [23, 24, 55];
/// WSAEMFILE and WSAENOBUFS.
#[cfg(not(unix))]
const TRANSIENT: [i32; 2] = [10024, 10055];

/// Waits until `stopping` is true. Waits forever if the sender was dropped while the value was false.
pub(super) async fn stopped(stopping: &mut watch::Receiver<bool>) {
    if stopping.wait_for(|stop| *stop).await.is_err() {
        std::future::pending::<()>().await;
    }
}

fn log_panic(outcome: Result<(), JoinError>) {
    if let Err(error) = outcome {
        warn!(%error, "connection task failed");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_survives_failed_handshakes() {
        for kind in
            [io::ErrorKind::ConnectionAborted, io::ErrorKind::ConnectionReset, io::ErrorKind::Interrupted]
        {
            assert!(is_transient(&kind.into()), "{kind}");
        }
        for code in TRANSIENT {
            assert!(is_transient(&io::Error::from_raw_os_error(code)), "{code}");
        }
        #[cfg(target_os = "linux")]
        assert!(is_transient(&io::Error::from_raw_os_error(28)), "ENOSPC: too many epoll watches");
        for kind in [io::ErrorKind::InvalidInput, io::ErrorKind::PermissionDenied, io::ErrorKind::Other] {
            assert!(!is_transient(&kind.into()), "{kind}");
        }
    }

    #[tokio::test]
    async fn a_dropped_sender_does_not_stop_the_server() {
        let (stop, mut stopping) = watch::channel(false);
        drop(stop);
        let waiting = tokio::time::timeout(std::time::Duration::from_millis(20), stopped(&mut stopping));
        assert!(waiting.await.is_err());
        let (stop, mut stopping) = watch::channel(true);
        drop(stop);
        stopped(&mut stopping).await;
    }
}
