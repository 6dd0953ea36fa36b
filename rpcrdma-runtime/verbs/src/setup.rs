use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use rpcrdma_runtime::provider::ConnectionInfo;
use rpcrdma_runtime::wire::private_data::{self, PrivateData};
use tokio::net::{ToSocketAddrs, lookup_host};
use tokio::time::{sleep, timeout};
use tracing::{debug, info};

use super::cm::{Depths, Event, Id, Kind};
use super::objects::Capabilities;
use super::queue_pair::QueuePair;
use super::{ConnectError, Options, VerbsConnection};

/// What a connection manager carries with a request at most (InfiniBand, over IP addresses).
const PRIVATE_DATA: usize = 56;
/// How long a listener waits before it tries a device again that was gone.
const AGAIN: Duration = Duration::from_millis(500);
/// How many ports of this end are tried, where it is not said which.
const PORTS: usize = 10;

/// Connects over whatever RDMA device leads to the address. `private_data` is what the responder sees (at most 56 octets;
/// it may see zeros behind it); `receive_size` is the largest Send that this end takes, in octets.
///
/// # Errors
/// [`ConnectError`].
pub async fn connect(
    address: SocketAddr,
    private_data: &[u8],
    receive_size: u32,
    options: &Options,
) -> Result<VerbsConnection, ConnectError> {
    if private_data.len() > PRIVATE_DATA {
        return Err(ConnectError::PrivateData(private_data.len()));
    }
    let connecting = async {
        for _ in 1..PORTS {
            match connect_once(address, private_data, receive_size, options).await {
                Err(ConnectError::Io { source, .. }) if is_taken(&source) => {
                    debug!(error = %source, "another port of this end is tried");
                }
                done => return done,
            }
        }
        connect_once(address, private_data, receive_size, options).await
    };
    within(options.connect_timeout, "connecting", connecting).await
}

/// Whether the port that the connection manager chose for this end is one that TCP has in use, which it cannot know. So it is on
/// iWARP, where the device has TCP use that port, too; nothing was sent then.
fn is_taken(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EADDRINUSE | libc::EADDRNOTAVAIL))
}

async fn connect_once(
    address: SocketAddr,
    private_data: &[u8],
    receive_size: u32,
    options: &Options,
) -> Result<VerbsConnection, ConnectError> {
    let id = Arc::new(resolve(address, options.connect_timeout).await?);
    id.resolve_route(options.connect_timeout).map_err(ConnectError::of("finding the route"))?;
    let event = id.event().await.map_err(ConnectError::of("finding the route"))?;
    if event.kind() != Kind::Resolved {
        return Err(failed(event));
    }
    let queue_pair =
        QueuePair::new(&id, receive_size, options, true).map_err(ConnectError::of("a queue pair"))?;
    let depths = depths(options, queue_pair.device());
    let said =
        if queue_pair.has_windows() { private_data.to_vec() } else { without_invalidation(private_data) };
    id.connect(&said, depths).map_err(ConnectError::of("connecting"))?;
    let event = id.event().await.map_err(ConnectError::of("connecting"))?;
    match event.kind() {
        Kind::Established => {
            // On iWARP, drivers do not agree which of the two is which at this end: siw has them the other way round.
            let served = if queue_pair.device().iwarp {
                event.initiator_depth.min(event.responder_resources)
            } else {
                event.initiator_depth
            };
            Ok(made(queue_pair, event.private_data, depths, served, options))
        }
        Kind::Rejected => Err(ConnectError::Refused { private_data: event.private_data }),
        _ => Err(failed(event)),
    }
}

/// What is said to the peer: that it is not to invalidate memory of this end.
fn without_invalidation(private_data: &[u8]) -> Vec<u8> {
    let mut octets = private_data.to_vec();
    let at = octets.windows(private_data::LEN).position(|window| PrivateData::find(window).is_some());
    if let Some(at) = at
        && let Some(said) = PrivateData::find(private_data)
        && let Some(place) = octets.get_mut(at..at + private_data::LEN)
    {
        place.copy_from_slice(&PrivateData { remote_invalidation: false, ..said }.encode());
    }
    octets
}

/// An id that is bound to the device that leads to an address.
async fn resolve(address: SocketAddr, limit: Duration) -> Result<Id, ConnectError> {
    // Without any device or module there is not even a channel.
    let id = Id::new().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => ConnectError::NoDevice(address),
        _ if error.raw_os_error() == Some(libc::ENODEV) => ConnectError::NoDevice(address),
        _ => ConnectError::Io { what: "the connection manager", source: error },
    })?;
    if let Err(error) = id.resolve_address(address, limit) {
        return Err(match error.raw_os_error() {
            // That is what Linux says of an address behind a network device that is no RDMA device.
            Some(libc::ENODEV | libc::EADDRNOTAVAIL | libc::EINVAL) => ConnectError::NoDevice(address),
            _ => ConnectError::Io { what: "resolving the address", source: error },
        });
    }
    let event = id.event().await.map_err(ConnectError::of("resolving the address"))?;
    match event.kind() {
        Kind::Resolved => Ok(id),
        Kind::Unresolved => Err(ConnectError::NoDevice(address)),
        _ => Err(failed(event)),
    }
}

/// Whether an RDMA device of this machine leads to an address, and which.
///
/// # Errors
/// [`ConnectError`], if that cannot be found out; having none is not an error.
pub async fn device_for(address: SocketAddr, limit: Duration) -> Result<Option<String>, ConnectError> {
    match within(limit, "resolving the address", resolve(address, limit)).await {
        Ok(id) => Ok(id.device().map(|(verbs, _)| super::device::name(&id, verbs))),
        Err(ConnectError::NoDevice(_)) => Ok(None),
        Err(other) => Err(other),
    }
}

/// Whether an RDMA device of this machine has an address, or any device is there if the address stands for all.
#[must_use]
pub fn serves(address: SocketAddr) -> bool {
    if address.ip().is_unspecified() {
        return super::devices().is_ok_and(|devices| !devices.is_empty());
    }
    let bound = Id::new().and_then(|id| {
        id.bind(SocketAddr::new(address.ip(), 0))?;
        Ok(id.device().is_some())
    });
    bound.unwrap_or(false)
}

fn failed(event: Event) -> ConnectError {
    ConnectError::Failed { event: event.name(), source: event.status() }
}

fn depths(options: &Options, device: &Capabilities) -> Depths {
    let least = |own: u8, device: u32| own.min(u8::try_from(device).unwrap_or(u8::MAX));
    Depths {
        reads_in: least(options.reads_in, device.reads_in),
        reads_out: least(options.reads_out, device.reads_out),
        retries: options.retries,
        receiver_not_ready_retries: options.receiver_not_ready_retries,
    }
}

/// `served`: the RDMA Reads that the peer serves at once.
fn made(
    queue_pair: QueuePair,
    private_data: Bytes,
    depths: Depths,
    served: u8,
    options: &Options,
) -> VerbsConnection {
    let device = queue_pair.device();
    // What the peer is to read or write at once is no longer than one message.
    let region = u32::try_from(device.region).unwrap_or(u32::MAX).min(device.message.max(1));
    let info = ConnectionInfo {
        peer: queue_pair.id().peer_addr(),
        private_data,
        reads_out: u32::from(depths.reads_out.min(served)),
        reads_in: u32::from(depths.reads_in),
        max_region: options.max_region.min(region),
        receives: queue_pair.max_receives(),
        remote_invalidation: queue_pair.has_windows(),
        local_fence: false,
    };
    VerbsConnection::new(queue_pair, info, *options)
}

async fn within<T>(
    after: Duration,
    what: &'static str,
    work: impl Future<Output = Result<T, ConnectError>>,
) -> Result<T, ConnectError> {
    timeout(after, work).await.unwrap_or(Err(ConnectError::Timeout { what, after }))
}

/// Waits for peers that want connections. One that is bound to the address of a device comes back when the device does.
#[derive(Debug)]
pub struct Listener {
    /// `None` while its device is gone.
    id: Mutex<Option<Arc<Id>>>,
    address: SocketAddr,
    options: Options,
    refused: AtomicU64,
}

impl Listener {
    /// Binds an address.
    ///
    /// # Errors
    /// What the system says: no RDMA device may have the address.
    pub async fn bind(address: impl ToSocketAddrs, options: Options) -> io::Result<Self> {
        let mut last = io::ErrorKind::NotFound.into();
        for candidate in lookup_host(address).await? {
            match listening(candidate) {
                Ok(id) => {
                    let address = id.local_addr().unwrap_or(candidate);
                    let id = Mutex::new(Some(Arc::new(id)));
                    return Ok(Listener { id, address, options, refused: AtomicU64::new(0) });
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// The address that is bound: with the port that the system chose, if 0 was asked for.
    ///
    /// # Errors
    /// None; it is a result as sockets have it.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }

    /// Returns how many peers were refused since the last time because the system had no resources for them, and counts from 0
    /// again. [`Listener::accept`] never returns such a peer.
    pub fn take_refused(&self) -> u64 {
        self.refused.swap(0, Ordering::Relaxed)
    }

    /// The next peer that asks for a connection. One for which the system has no resources is refused, and the next is
    /// waited for.
    ///
    /// # Errors
    /// What the system says of the listener itself.
    pub async fn accept(&self) -> io::Result<Request> {
        loop {
            let Some(id) = self.current().clone() else {
                sleep(AGAIN).await;
                self.listen_again();
                continue;
            };
            let event = id.event().await?;
            match (event.kind(), event.asks) {
                (Kind::Request, Some(asks)) => {
                    let claimed = asks.claim().map(|id| (id.peer_addr(), Arc::new(id)));
                    let (peer, id) = match claimed {
                        Ok((Some(peer), id)) => (peer, id),
                        Ok((None, _)) => continue,
                        Err(error) => {
                            debug!(%error, "a peer is refused");
                            self.refused.fetch_add(1, Ordering::Relaxed);
                            continue;
                        }
                    };
                    let options = self.options;
                    let (wants, serves) = (event.responder_resources, event.initiator_depth);
                    return Ok(Request {
                        id,
                        peer,
                        private_data: event.private_data,
                        wants,
                        serves,
                        options,
                    });
                }
                (Kind::DeviceRemoved, _) => {
                    info!(address = %self.address, "the RDMA device is gone");
                    *self.current() = None;
                }
                _ => {}
            }
        }
    }

    fn current(&self) -> std::sync::MutexGuard<'_, Option<Arc<Id>>> {
        self.id.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn listen_again(&self) {
        match listening(self.address) {
            Ok(id) => {
                info!(address = %self.address, "listening again");
                *self.current() = Some(Arc::new(id));
            }
            Err(error) => debug!(%error, "the RDMA device is not back"),
        }
    }
}

fn listening(address: SocketAddr) -> io::Result<Id> {
    for _ in 1..PORTS {
        match listen_once(address) {
            Err(error) if address.port() == 0 && is_taken(&error) => {}
            done => return done,
        }
    }
    listen_once(address)
}

fn listen_once(address: SocketAddr) -> io::Result<Id> {
    let id = Id::new()?;
    id.bind(address)?;
    if !address.ip().is_unspecified() && id.device().is_none() {
        return Err(io::Error::new(io::ErrorKind::AddrNotAvailable, "no RDMA device has this address"));
    }
    id.listen()?;
    Ok(id)
}

/// A peer that asks for a connection. Dropping it refuses.
#[derive(Debug)]
pub struct Request {
    id: Arc<Id>,
    peer: SocketAddr,
    private_data: Bytes,
    /// RDMA Reads that the peer wants served, and serves, at once.
    wants: u8,
    serves: u8,
    options: Options,
}

impl Request {
    /// The peer's address.
    #[must_use]
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// The peer's private data. The connection manager may have put zeros behind it.
    #[must_use]
    pub fn private_data(&self) -> &Bytes {
        &self.private_data
    }

    /// Accepts, with private data of at most 56 octets. `receive_size` is the largest Send that this end takes, in octets. The
    /// first Receives are posted before the peer hears of it.
    ///
    /// # Errors
    /// [`ConnectError`]; the connection is refused then.
    pub async fn accept(
        self,
        private_data: &[u8],
        receive_size: u32,
    ) -> Result<VerbsConnection, ConnectError> {
        let Request { id, private_data: said, wants, serves, options, .. } = self;
        if private_data.len() > PRIVATE_DATA {
            return Err(ConnectError::PrivateData(private_data.len()));
        }
        let accepting = async {
            let queue_pair = QueuePair::new(&id, receive_size, &options, false)
                .map_err(ConnectError::of("a queue pair"))?;
            let own = depths(&options, queue_pair.device());
            let depths = Depths {
                // Linux's client does no RDMA Reads, says so, and still wants some served.
                reads_in: if wants == 0 { own.reads_in } else { own.reads_in.min(wants) },
                reads_out: own.reads_out.min(serves),
                ..own
            };
            id.accept(private_data, depths).map_err(ConnectError::of("accepting"))?;
            let event = id.event().await.map_err(ConnectError::of("accepting"))?;
            match event.kind() {
                Kind::Established => Ok(made(queue_pair, said, depths, serves, &options)),
                _ => Err(failed(event)),
            }
        };
        within(options.connect_timeout, "accepting", accepting).await
    }

    /// With at least so many Receives.
    pub(crate) fn with_receives(self, receives: u32) -> Self {
        Request { options: self.options.with_receives(receives), ..self }
    }

    /// Refuses, with private data of at most 56 octets.
    ///
    /// # Errors
    /// [`ConnectError`].
    pub async fn reject(self, private_data: &[u8]) -> Result<(), ConnectError> {
        self.id.reject(private_data).map_err(ConnectError::of("refusing"))
    }
}
