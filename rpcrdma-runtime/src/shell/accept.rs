//! Taking connections, and letting them end.

use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::{JoinError, JoinSet};
use tracing::{Instrument, debug, info, warn};

use super::stats::ConnectionCounts;
use super::{ServeError, ServerStats};

/// How a server takes connections, whatever they run over.
pub(super) struct Listening {
    /// Connections at once.
    pub(super) connections: usize,
    /// Connections of one address at once.
    pub(super) per_address: usize,
    /// Where connections are counted that are too many.
    pub(super) stats: ServerStats,
    /// How long calls that run are waited for at the end.
    pub(super) drain: Duration,
}

impl Listening {
    /// Takes connections until `shutdown` is ready, a task each. Then `serve`, which is given a sign, is to come to its
    /// end, and then `executed`: calls that outlive their connection.
    pub(super) async fn run<T, Accepting, Serving>(
        self,
        accept: impl Fn() -> Accepting,
        address: impl Fn(&T) -> IpAddr,
        serve: impl Fn(T, watch::Receiver<bool>) -> Serving,
        executed: impl Future<Output = ()>,
        shutdown: impl Future<Output = ()>,
    ) -> Result<(), ServeError>
    where
        Accepting: Future<Output = io::Result<T>>,
        Serving: Future<Output = ()> + Send + 'static,
    {
        let addresses = Addresses { most: self.per_address, standing: Arc::default() };
        let free = Arc::new(Semaphore::new(self.connections.min(Semaphore::MAX_PERMITS)));
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
                accepted = next(&accept, &free) => accepted,
            };
            match accepted {
                Ok((connection, slot)) => {
                    let from = address(&connection);
                    let Some(place) = addresses.take(from) else {
                        debug!(%from, "turned away: its address has as many connections as it may have");
                        let counts = ConnectionCounts { turned_away: 1, ..ConnectionCounts::default() };
                        self.stats.connections(counts);
                        continue;
                    };
                    let serving = serve(connection, stopping.clone());
                    connections.spawn(
                        async move {
                            serving.await;
                            drop((slot, place));
                        }
                        .in_current_span(),
                    );
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
            executed.await;
        };
        if tokio::time::timeout(self.drain, drained).await.is_err() {
            warn!("calls were still running when the time to stop was up");
        }
        failed.map_or(Ok(()), Err)
    }
}

/// How many connections each address has.
#[derive(Clone)]
struct Addresses {
    most: usize,
    standing: Arc<Mutex<HashMap<IpAddr, usize>>>,
}

/// One connection of an address.
struct Place {
    addresses: Addresses,
    address: IpAddr,
}

impl Addresses {
    /// None, if the address has as many as it may have.
    fn take(&self, address: IpAddr) -> Option<Place> {
        let mut standing = self.standing.lock().unwrap_or_else(PoisonError::into_inner);
        let count = standing.entry(address).or_default();
        if *count >= self.most.max(1) {
            return None;
        }
        *count += 1;
        Some(Place { addresses: self.clone(), address })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut standing = self.addresses.standing.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = standing.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                standing.remove(&self.address);
            }
        }
    }
}

/// The next connection, once there is room for it.
async fn next<T, Accepting: Future<Output = io::Result<T>>>(
    accept: impl Fn() -> Accepting,
    free: &Arc<Semaphore>,
) -> io::Result<(T, OwnedSemaphorePermit)> {
    let slot = free.clone().acquire_owned().await.map_err(io::Error::other)?;
    loop {
        match accept().await {
            Ok(incoming) => return Ok((incoming, slot)),
            // One connection's misfortune, or too many open files: the next may do.
            Err(error) if is_passing(&error) => {
                debug!(%error, "accept");
                tokio::time::sleep(Duration::from_millis(50)).await;
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
pub(super) async fn stopped(stopping: &mut watch::Receiver<bool>) {
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
