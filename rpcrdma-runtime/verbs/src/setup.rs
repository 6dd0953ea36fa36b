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
use super::{VerbsConnection, VerbsError, VerbsOptions};

/// The maximum length of private data, in octets. The limit for InfiniBand connections between IP addresses
/// also applies to all other transports.
const MAX_PRIVATE_DATA: usize = 56;
/// How long a listener waits before each attempt to listen again, after its device was removed.
const RETRY_DELAY: Duration = Duration::from_millis(500);
/// Maximum number of ephemeral local ports to try.
const PORT_ATTEMPTS: usize = 10;

/// Connects over the RDMA device that has a route to the address.
///
/// `private_data` (at most 56 octets) is sent to the peer. If the connection has no memory windows, the R
/// flag in the data is cleared first. The connection manager may append zeros. `receive_size` is the size of
/// the largest message that the peer may send, in octets.
///
/// # Errors
/// Returns [`VerbsError`] if the private data is too long, if no device has a route to the address, if the
/// device reports an error, or if the handshake fails or times out.
pub async fn connect(
    address: SocketAddr,
    private_data: &[u8],
    receive_size: u32,
    options: &VerbsOptions,
) -> Result<VerbsConnection, VerbsError> {
    check_length(private_data)?;
    let connecting = async {
        for _ in 1..PORT_ATTEMPTS {
            match connect_once(address, private_data, receive_size, options).await {
                Err(VerbsError::Io { source, .. }) if is_port_in_use(&source) => {
                    debug!(error = %source, "retrying with another local port");
                }
                result => return result,
            }
        }
        connect_once(address, private_data, receive_size, options).await
    };
    with_timeout(options.connect_timeout, "connecting", connecting).await
}

fn check_length(private_data: &[u8]) -> Result<(), VerbsError> {
    let length = private_data.len();
    if length > MAX_PRIVATE_DATA { Err(VerbsError::PrivateData(length)) } else { Ok(()) }
}

/// Returns true if the error means that TCP already uses the local port that the connection manager chose.
///
/// This happens on iWARP, because the connection manager does not check which ports TCP uses. No data has
/// been sent at this point, so trying another port is safe.
fn is_port_in_use(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EADDRINUSE | libc::EADDRNOTAVAIL))
}

async fn connect_once(
    address: SocketAddr,
    private_data: &[u8],
    receive_size: u32,
    options: &VerbsOptions,
) -> Result<VerbsConnection, VerbsError> {
    let id = Arc::new(resolve(address, options.connect_timeout).await?);
    id.resolve_route(options.connect_timeout).map_err(VerbsError::io("resolving the route"))?;
    let event = id.event().await.map_err(VerbsError::io("resolving the route"))?;
    if event.kind() != Kind::Resolved {
        return Err(failed(event));
    }
    let queue_pair =
        QueuePair::new(&id, receive_size, options, true).map_err(VerbsError::io("creating a queue pair"))?;
    let depths = depths(options, queue_pair.device());
    let private_data =
        if queue_pair.has_windows() { private_data.to_vec() } else { without_invalidation(private_data) };
    id.connect(&private_data, depths).map_err(VerbsError::io("connecting"))?;
    let event = id.event().await.map_err(VerbsError::io("connecting"))?;
    match event.kind() {
        Kind::Established => {
            // On iWARP, drivers disagree on the order of the two depths at the client: siw swaps them. The
            // smaller depth is safe in either order.
            let peer_ird = if queue_pair.device().iwarp {
                event.initiator_depth.min(event.responder_resources)
            } else {
                event.initiator_depth
            };
            // A client requires no minimum rate, because a server may delay calls to limit its memory use.
            let options = VerbsOptions { min_rate: 0, ..*options };
            Ok(established(queue_pair, event.private_data, depths, peer_ird, &options))
        }
        Kind::Rejected => Err(VerbsError::Refused { private_data: event.private_data }),
        _ => Err(failed(event)),
    }
}

/// Returns a copy of the private data with the R flag cleared, so that the peer does not invalidate local
/// memory.
fn without_invalidation(private_data: &[u8]) -> Vec<u8> {
    let mut octets = private_data.to_vec();
    let at = octets.windows(private_data::LEN).position(|window| PrivateData::find(window).is_some());
    if let Some(at) = at
        && let Some(found) = PrivateData::find(private_data)
        && let Some(encoded) = octets.get_mut(at..at + private_data::LEN)
    {
        encoded.copy_from_slice(&PrivateData { remote_invalidation: false, ..found }.encode());
    }
    octets
}

/// Returns an id that is bound to the device with a route to the address.
async fn resolve(address: SocketAddr, limit: Duration) -> Result<Id, VerbsError> {
    // Without a device or kernel module, even creating the event channel fails.
    let id = Id::new().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => VerbsError::NoDevice(address),
        _ if error.raw_os_error() == Some(libc::ENODEV) => VerbsError::NoDevice(address),
        _ => VerbsError::Io { what: "opening the connection manager", source: error },
    })?;
    if let Err(error) = id.resolve_address(address, limit) {
        return Err(match error.raw_os_error() {
            // Linux returns these errors if the route to the address uses a network device without RDMA.
            Some(libc::ENODEV | libc::EADDRNOTAVAIL | libc::EINVAL) => VerbsError::NoDevice(address),
            _ => VerbsError::Io { what: "resolving the address", source: error },
        });
    }
    let event = id.event().await.map_err(VerbsError::io("resolving the address"))?;
    match event.kind() {
        Kind::Resolved => Ok(id),
        Kind::Unresolved => Err(VerbsError::NoDevice(address)),
        _ => Err(failed(event)),
    }
}

/// Returns the name of the RDMA device that has a route to an address. Returns `None` if no device has a
/// route, or if the connection manager reports that the address cannot be resolved.
///
/// # Errors
/// Returns [`VerbsError`] if the system reports another error, or if no result arrives within `limit`.
pub async fn device_for(address: SocketAddr, limit: Duration) -> Result<Option<String>, VerbsError> {
    match with_timeout(limit, "resolving the address", resolve(address, limit)).await {
        Ok(id) => Ok(id.device().map(|(verbs, _)| super::device::name(&id, verbs))),
        Err(VerbsError::NoDevice(_)) => Ok(None),
        Err(other) => Err(other),
    }
}

/// Returns true if an RDMA device of this machine has the IP address of `address`. For an unspecified
/// address, returns true if this machine has any RDMA device.
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

fn failed(event: Event) -> VerbsError {
    VerbsError::Failed { event: event.name(), source: event.status() }
}

fn depths(options: &VerbsOptions, device: &Capabilities) -> Depths {
    let min = |option: u8, device: u32| option.min(u8::try_from(device).unwrap_or(u8::MAX));
    Depths {
        ird: min(options.ird, device.ird),
        ord: min(options.ord, device.ord),
        retries: options.retries,
        receiver_not_ready_retries: options.receiver_not_ready_retries,
    }
}

/// Wraps the queue pair of an established connection. `peer_ird` is the maximum number of concurrent RDMA
/// Reads that the peer serves.
fn established(
    queue_pair: QueuePair,
    private_data: Bytes,
    depths: Depths,
    peer_ird: u8,
    options: &VerbsOptions,
) -> VerbsConnection {
    let device = queue_pair.device();
    // The peer may read or write a complete region with one request, which cannot exceed the port's maximum
    // message length.
    let max_region = u32::try_from(device.max_region).unwrap_or(u32::MAX).min(device.max_message.max(1));
    let info = ConnectionInfo {
        local: queue_pair.id().local_addr(),
        peer: queue_pair.id().peer_addr(),
        private_data,
        ord: u32::from(depths.ord.min(peer_ird)),
        ird: u32::from(depths.ird),
        max_region: options.max_region.min(max_region),
        receives: queue_pair.max_receives(),
        remote_invalidation: queue_pair.has_windows(),
        local_fence: false,
    };
    VerbsConnection::new(queue_pair, info, *options)
}

async fn with_timeout<T>(
    after: Duration,
    what: &'static str,
    future: impl Future<Output = Result<T, VerbsError>>,
) -> Result<T, VerbsError> {
    timeout(after, future).await.unwrap_or(Err(VerbsError::Timeout { what, after }))
}

/// Listens for connection requests.
///
/// If the device with the bound address is removed, the listener tries to listen again until the
/// device returns.
#[derive(Debug)]
pub struct VerbsListener {
    /// `None` while the device is removed.
    id: Mutex<Option<Arc<Id>>>,
    address: SocketAddr,
    options: VerbsOptions,
    refused: AtomicU64,
}

impl VerbsListener {
    /// Binds an address and listens.
    ///
    /// # Errors
    /// Fails if no RDMA device has the address, or if resolving, binding or listening fails.
    pub async fn bind(address: impl ToSocketAddrs, options: VerbsOptions) -> io::Result<Self> {
        let mut last = io::ErrorKind::NotFound.into();
        for candidate in lookup_host(address).await? {
            match listen(candidate) {
                Ok(id) => {
                    let address = id.local_addr().unwrap_or(candidate);
                    let id = Mutex::new(Some(Arc::new(id)));
                    return Ok(VerbsListener { id, address, options, refused: AtomicU64::new(0) });
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Returns the bound address. If port 0 was requested, the address contains the port that the system
    /// chose.
    ///
    /// # Errors
    /// Never fails. The signature is the same as for socket listeners.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }

    /// Returns the number of connection requests refused for lack of system resources, and resets the count
    /// to zero. [`VerbsListener::accept`] does not return such requests.
    pub fn take_refused(&self) -> u64 {
        self.refused.swap(0, Ordering::Relaxed)
    }

    /// Waits for the next connection request. Requests for which the system has no resources are refused.
    ///
    /// # Errors
    /// Fails if reading the listener's events fails.
    pub async fn accept(&self) -> io::Result<VerbsRequest> {
        loop {
            let Some(id) = self.current().clone() else {
                sleep(RETRY_DELAY).await;
                self.listen_again();
                continue;
            };
            let event = id.event().await?;
            match (event.kind(), event.request) {
                (Kind::ConnectRequest, Some(request)) => {
                    let claimed = request.claim().map(|id| (id.peer_addr(), Arc::new(id)));
                    let (peer, id) = match claimed {
                        Ok((Some(peer), id)) => (peer, id),
                        Ok((None, _)) => continue,
                        Err(error) => {
                            debug!(%error, "connection request refused");
                            self.refused.fetch_add(1, Ordering::Relaxed);
                            continue;
                        }
                    };
                    return Ok(VerbsRequest {
                        id,
                        peer,
                        private_data: event.private_data,
                        peer_ord: event.responder_resources,
                        peer_ird: event.initiator_depth,
                        options: self.options,
                    });
                }
                (Kind::DeviceRemoved, _) => {
                    info!(address = %self.address, "the RDMA device was removed");
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
        match listen(self.address) {
            Ok(id) => {
                info!(address = %self.address, "listening again");
                *self.current() = Some(Arc::new(id));
            }
            Err(error) => debug!(%error, "listening again failed"),
        }
    }
}

fn listen(address: SocketAddr) -> io::Result<Id> {
    for _ in 1..PORT_ATTEMPTS {
        match listen_once(address) {
            Err(error) if address.port() == 0 && is_port_in_use(&error) => {}
            result => return result,
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

/// A connection request from a peer. Dropping this value refuses the request.
#[derive(Debug)]
pub struct VerbsRequest {
    id: Arc<Id>,
    peer: SocketAddr,
    private_data: Bytes,
    peer_ord: u8,
    peer_ird: u8,
    options: VerbsOptions,
}

impl VerbsRequest {
    /// Returns the peer's address.
    #[must_use]
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Returns the peer's private data. The connection manager may have appended zeros.
    #[must_use]
    pub fn private_data(&self) -> &Bytes {
        &self.private_data
    }

    /// Accepts the connection, with private data of at most 56 octets.
    ///
    /// `receive_size` is the size of the largest message that the peer may send, in octets. The first
    /// Receives are posted before the peer is notified.
    ///
    /// # Errors
    /// Returns [`VerbsError`] if the private data is too long, if the device reports an error, or if the
    /// handshake fails or times out. The connection is then refused.
    pub async fn accept(self, private_data: &[u8], receive_size: u32) -> Result<VerbsConnection, VerbsError> {
        let VerbsRequest { id, private_data: peer_private_data, peer_ord, peer_ird, options, .. } = self;
        check_length(private_data)?;
        let accepting = async {
            let queue_pair = QueuePair::new(&id, receive_size, &options, false)
                .map_err(VerbsError::io("creating a queue pair"))?;
            let local = depths(&options, queue_pair.device());
            let depths = Depths {
                // Linux's client announces an ORD of 0, because it issues no RDMA Reads, but requires the
                // server to announce a nonzero IRD.
                ird: if peer_ord == 0 { local.ird } else { local.ird.min(peer_ord) },
                ord: local.ord.min(peer_ird),
                ..local
            };
            id.accept(private_data, depths).map_err(VerbsError::io("accepting the connection"))?;
            let event = id.event().await.map_err(VerbsError::io("accepting the connection"))?;
            match event.kind() {
                Kind::Established => {
                    Ok(established(queue_pair, peer_private_data, depths, peer_ird, &options))
                }
                _ => Err(failed(event)),
            }
        };
        with_timeout(options.connect_timeout, "accepting the connection", accepting).await
    }

    /// Raises the number of initial Receives to at least `receives`.
    pub(crate) fn with_receives(self, receives: u32) -> Self {
        VerbsRequest { options: self.options.with_receives(receives), ..self }
    }

    /// Refuses the connection, with private data of at most 56 octets.
    ///
    /// # Errors
    /// Returns [`VerbsError`] if the private data is too long, or if it cannot be sent. The connection is
    /// refused nevertheless.
    pub async fn reject(self, private_data: &[u8]) -> Result<(), VerbsError> {
        check_length(private_data)?;
        self.id.reject(private_data).map_err(VerbsError::io("refusing the connection"))
    }
}
