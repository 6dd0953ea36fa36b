//! The connection manager: event channels and ids. Each object is destroyed once, after the objects that
//! depend on it.

use std::ffi::CStr;
use std::io;
use std::mem::{self, MaybeUninit};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, RawFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use ibverbs_sys as ib;
use libc::c_int;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::address::{from_storage, to_storage};
use super::rdmacm_ffi::{self as ffi, event};

/// Maximum number of connection requests that wait to be accepted.
const BACKLOG: c_int = 128;

fn check(returned: c_int) -> io::Result<()> {
    if returned == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// A non-blocking event channel.
#[derive(Debug)]
struct Channel(NonNull<ffi::EventChannel>);

// SAFETY: any thread may call librdmacm, and the channel has no thread-local state.
unsafe impl Send for Channel {}
// SAFETY: as above. Calls through a shared reference only read the descriptor's number from the channel.
unsafe impl Sync for Channel {}

impl Channel {
    fn new() -> io::Result<Self> {
        // SAFETY: the function has no arguments or preconditions.
        let raw = unsafe { ffi::rdma_create_event_channel() };
        let channel = Channel(NonNull::new(raw).ok_or_else(io::Error::last_os_error)?);
        set_nonblocking(channel.as_raw_fd())?;
        Ok(channel)
    }

    /// Returns a copy of the next event, or `None` if no event is pending. Acknowledges the original event.
    fn next(&self) -> io::Result<Option<Event>> {
        let mut raw = ptr::null_mut();
        // SAFETY: the channel is alive, and `raw` is writable.
        if let Err(error) = check(unsafe { ffi::rdma_get_cm_event(self.0.as_ptr(), &raw mut raw) }) {
            return if error.kind() == io::ErrorKind::WouldBlock { Ok(None) } else { Err(error) };
        }
        // SAFETY: on success `raw` points to an event, which is alive until it is acknowledged below.
        let event = unsafe { Event::copy(&*raw) };
        // SAFETY: the event is acknowledged once, and the copy does not refer to it.
        unsafe { ffi::rdma_ack_cm_event(raw) };
        Ok(Some(event))
    }
}

impl AsRawFd for Channel {
    fn as_raw_fd(&self) -> RawFd {
        // SAFETY: the channel is alive as long as this value.
        unsafe { self.0.as_ref().fd }
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        // SAFETY: the channel is destroyed once. An `Id` owns its channel and destroys the raw id first.
        // While a `NewId` exists, `VerbsListener::accept` holds the listener's id and thus the channel.
        unsafe { ffi::rdma_destroy_event_channel(self.0.as_ptr()) };
    }
}

pub(super) fn async_fd<T: OwnsDescriptor>(channel: T) -> io::Result<AsyncFd<T>> {
    // SAFETY: the channel keeps the same descriptor open for as long as it is alive.
    Ok(unsafe { AsyncFd::register_with_interest(channel, Interest::READABLE)? })
}

/// A channel that owns a file descriptor.
///
/// # Safety
/// The value must keep the same descriptor open for as long as it is alive.
pub(super) unsafe trait OwnsDescriptor: AsRawFd {}

// SAFETY: the library opens one descriptor per channel and closes it when the channel is destroyed.
unsafe impl OwnsDescriptor for Channel {}

pub(super) fn set_nonblocking(descriptor: RawFd) -> io::Result<()> {
    // SAFETY: both calls take only integers and fail for an invalid descriptor.
    let set = unsafe {
        let flags = libc::fcntl(descriptor, libc::F_GETFL);
        if flags < 0 { flags } else { libc::fcntl(descriptor, libc::F_SETFL, flags | libc::O_NONBLOCK) }
    };
    if set < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[derive(Debug)]
pub(super) struct Event {
    kind: c_int,
    status: c_int,
    pub(super) private_data: Bytes,
    /// The number of concurrent RDMA Reads that the peer may issue.
    pub(super) responder_resources: u8,
    /// The number of concurrent RDMA Reads that the peer can serve.
    pub(super) initiator_depth: u8,
    /// The new id of a connection request.
    pub(super) request: Option<NewId>,
}

impl Event {
    /// # Safety
    /// The event must come from the library and must not have been acknowledged yet.
    unsafe fn copy(raw: &ffi::CmEvent) -> Self {
        let connects = matches!(raw.event, event::CONNECT_REQUEST | event::ESTABLISHED | event::REJECTED);
        let mut private_data = Bytes::new();
        if connects && !raw.conn.private_data.is_null() {
            let (at, len) = (raw.conn.private_data.cast::<u8>(), usize::from(raw.conn.private_data_len));
            // SAFETY: for these events the library sets the pointer to the private data and its length, and
            // the data is alive as long as the event.
            private_data = Bytes::copy_from_slice(unsafe { std::slice::from_raw_parts(at, len) });
        }
        let request =
            (raw.event == event::CONNECT_REQUEST).then(|| NonNull::new(raw.id)).flatten().map(NewId);
        Event {
            kind: raw.event,
            status: raw.status,
            private_data,
            responder_resources: raw.conn.responder_resources,
            initiator_depth: raw.conn.initiator_depth,
            request,
        }
    }

    pub(super) fn kind(&self) -> Kind {
        match self.kind {
            event::ADDR_RESOLVED | event::ROUTE_RESOLVED => Kind::Resolved,
            event::ADDR_ERROR | event::ROUTE_ERROR => Kind::Unresolved,
            event::CONNECT_REQUEST => Kind::ConnectRequest,
            event::ESTABLISHED => Kind::Established,
            event::REJECTED => Kind::Rejected,
            event::CONNECT_ERROR | event::UNREACHABLE => Kind::Failed,
            event::DISCONNECTED => Kind::Disconnected,
            event::DEVICE_REMOVAL => Kind::DeviceRemoved,
            event::ADDR_CHANGE => Kind::AddressChanged,
            event::TIMEWAIT_EXIT => Kind::TimewaitExit,
            _ => Kind::Other,
        }
    }

    pub(super) fn name(&self) -> String {
        // SAFETY: for every integer the function returns a static C string.
        let name = unsafe { CStr::from_ptr(ffi::rdma_event_str(self.kind)) };
        name.to_string_lossy().into_owned()
    }

    /// Returns the status as an error: a system error, or a reason code of the connection manager.
    pub(super) fn status(&self) -> io::Error {
        match self.status {
            negative if negative < 0 => io::Error::from_raw_os_error(negative.saturating_neg()),
            reason => io::Error::other(format!("status {reason}")),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Resolved,
    Unresolved,
    ConnectRequest,
    Established,
    Rejected,
    Failed,
    Disconnected,
    DeviceRemoved,
    AddressChanged,
    /// The network can no longer deliver packets of the closed connection.
    TimewaitExit,
    Other,
}

/// The id of a connection request, still on the channel of the listener. Dropping this value rejects the
/// request.
#[derive(Debug)]
pub(super) struct NewId(NonNull<ffi::CmId>);

// SAFETY: any thread may call librdmacm.
unsafe impl Send for NewId {}

impl NewId {
    /// Moves the id to a new channel.
    pub(super) fn claim(self) -> io::Result<Id> {
        let events = async_fd(Channel::new()?)?;
        // SAFETY: the id and the channel are alive. All events of the id are acknowledged, so the call does
        // not block.
        check(unsafe { ffi::rdma_migrate_id(self.0.as_ptr(), events.get_ref().0.as_ptr()) })?;
        let raw = self.0;
        mem::forget(self);
        Ok(Id { raw, events, device_removed: AtomicBool::new(false) })
    }
}

impl Drop for NewId {
    fn drop(&mut self) {
        // SAFETY: this value is the only owner of the id, which has no queue pair.
        unsafe { ffi::rdma_destroy_id(self.0.as_ptr()) };
    }
}

/// Limits on concurrent RDMA Reads and on retries.
#[derive(Clone, Copy, Debug)]
pub(super) struct Depths {
    pub(super) ird: u8,
    pub(super) ord: u8,
    pub(super) retries: u8,
    pub(super) receiver_not_ready_retries: u8,
}

/// An id with its own event channel. The queue pair holds the id, so the queue pair is destroyed first, and
/// the channel last.
#[derive(Debug)]
pub(super) struct Id {
    raw: NonNull<ffi::CmId>,
    events: AsyncFd<Channel>,
    device_removed: AtomicBool,
}

// SAFETY: any thread may call librdmacm.
unsafe impl Send for Id {}
// SAFETY: as above. At most one task at a time calls functions that modify the id.
unsafe impl Sync for Id {}

impl Id {
    pub(super) fn new() -> io::Result<Self> {
        let events = async_fd(Channel::new()?)?;
        let mut raw = ptr::null_mut();
        let channel = events.get_ref().0.as_ptr();
        // SAFETY: the channel is alive, and `raw` is writable.
        check(unsafe { ffi::rdma_create_id(channel, &raw mut raw, ptr::null_mut(), ffi::PORT_SPACE_TCP) })?;
        let raw = NonNull::new(raw).ok_or_else(|| io::Error::other("librdmacm returned a null id"))?;
        Ok(Id { raw, events, device_removed: AtomicBool::new(false) })
    }

    pub(super) fn bind(&self, address: SocketAddr) -> io::Result<()> {
        let mut address = to_storage(address);
        // SAFETY: the id is alive, and the storage holds a complete address of its family.
        check(unsafe { ffi::rdma_bind_addr(self.raw.as_ptr(), (&raw mut address).cast()) })
    }

    pub(super) fn listen(&self) -> io::Result<()> {
        // SAFETY: the id is alive.
        check(unsafe { ffi::rdma_listen(self.raw.as_ptr(), BACKLOG) })
    }

    pub(super) fn resolve_address(&self, address: SocketAddr, within: Duration) -> io::Result<()> {
        let mut address = to_storage(address);
        let to = (&raw mut address).cast();
        // SAFETY: the id is alive, and the storage holds a complete address of its family. A null source
        // address is allowed.
        check(unsafe { ffi::rdma_resolve_addr(self.raw.as_ptr(), ptr::null_mut(), to, milliseconds(within)) })
    }

    pub(super) fn resolve_route(&self, within: Duration) -> io::Result<()> {
        // SAFETY: the id is alive.
        check(unsafe { ffi::rdma_resolve_route(self.raw.as_ptr(), milliseconds(within)) })
    }

    pub(super) fn connect(&self, private_data: &[u8], depths: Depths) -> io::Result<()> {
        let mut parameters = parameters(private_data, depths)?;
        // SAFETY: the id is alive and has a queue pair. The call copies the private data before it returns.
        check(unsafe { ffi::rdma_connect(self.raw.as_ptr(), &raw mut parameters) })
    }

    pub(super) fn accept(&self, private_data: &[u8], depths: Depths) -> io::Result<()> {
        let mut parameters = parameters(private_data, depths)?;
        // SAFETY: as for `connect`.
        check(unsafe { ffi::rdma_accept(self.raw.as_ptr(), &raw mut parameters) })
    }

    pub(super) fn reject(&self, private_data: &[u8]) -> io::Result<()> {
        let len = u8::try_from(private_data.len()).map_err(io::Error::other)?;
        // SAFETY: the id is alive. The call copies the private data before it returns.
        check(unsafe { ffi::rdma_reject(self.raw.as_ptr(), private_data.as_ptr().cast(), len) })
    }

    pub(super) fn disconnect(&self) -> io::Result<()> {
        // SAFETY: the id is alive.
        check(unsafe { ffi::rdma_disconnect(self.raw.as_ptr()) })
    }

    /// Creates the queue pair of the id.
    ///
    /// # Safety
    /// The protection domain and the queues must belong to the id's device and stay alive until
    /// [`Id::destroy_queue_pair`].
    pub(super) unsafe fn create_queue_pair(
        &self,
        pd: *mut ib::ibv_pd,
        attributes: &mut ib::ibv_qp_init_attr,
    ) -> io::Result<NonNull<ib::ibv_qp>> {
        // SAFETY: guaranteed by the caller.
        check(unsafe { ffi::rdma_create_qp(self.raw.as_ptr(), pd, attributes) })?;
        // SAFETY: the id is alive, and no other thread modifies it concurrently.
        let queue_pair = unsafe { (*self.raw.as_ptr()).qp };
        NonNull::new(queue_pair).ok_or_else(|| io::Error::other("librdmacm returned a null queue pair"))
    }

    /// Destroys the queue pair of the id. Afterwards the device accesses no memory for the queue pair.
    ///
    /// # Safety
    /// The id must have a queue pair, and the queue pair must not be used afterwards.
    pub(super) unsafe fn destroy_queue_pair(&self) {
        // SAFETY: guaranteed by the caller.
        unsafe { ffi::rdma_destroy_qp(self.raw.as_ptr()) };
    }

    /// Returns the context of the device to which the id is bound, if any, and the port number.
    pub(super) fn device(&self) -> Option<(NonNull<ib::ibv_context>, u8)> {
        // SAFETY: the id is alive, and no other task modifies it concurrently.
        let (verbs, port) = unsafe { ((*self.raw.as_ptr()).verbs, (*self.raw.as_ptr()).port_num) };
        NonNull::new(verbs).map(|verbs| (verbs, port))
    }

    pub(super) fn local_addr(&self) -> Option<SocketAddr> {
        // SAFETY: the id is alive, no other task modifies it concurrently, and every bit pattern is a valid
        // address.
        let mut address = from_storage(unsafe { &(*self.raw.as_ptr()).source })?;
        // SAFETY: the id is alive. The port is in network byte order.
        address.set_port(u16::from_be(unsafe { ffi::rdma_get_src_port(self.raw.as_ptr()) }));
        Some(address)
    }

    pub(super) fn peer_addr(&self) -> Option<SocketAddr> {
        // SAFETY: the id is alive, no other task modifies it concurrently, and every bit pattern is a valid
        // address.
        from_storage(unsafe { &(*self.raw.as_ptr()).destination })
    }

    pub(super) async fn event(&self) -> io::Result<Event> {
        loop {
            let mut ready = self.events.readable().await?;
            match self.next()? {
                Some(event) => return Ok(event),
                None => ready.clear_ready(),
            }
        }
    }

    pub(super) fn poll_event(&self, cx: &mut Context<'_>) -> Poll<io::Result<Event>> {
        loop {
            let mut ready = ready!(self.events.poll_read_ready(cx))?;
            match self.next()? {
                Some(event) => return Poll::Ready(Ok(event)),
                None => ready.clear_ready(),
            }
        }
    }

    fn next(&self) -> io::Result<Option<Event>> {
        let event = self.events.get_ref().next()?;
        if event.as_ref().is_some_and(|event| event.kind() == Kind::DeviceRemoved) {
            self.device_removed.store(true, Ordering::Relaxed);
        }
        Ok(event)
    }
}

impl Drop for Id {
    fn drop(&mut self) {
        // SAFETY: the id is destroyed once. The queue pair holds the id, so the queue pair is already
        // destroyed. All events are acknowledged, because `Channel::next` acknowledges each event before it
        // returns a copy.
        unsafe { ffi::rdma_destroy_id(self.raw.as_ptr()) };
        if self.device_removed.load(Ordering::Relaxed) {
            refresh_devices();
        }
    }
}

/// Makes the library refresh its device list, so that the library closes a removed device after the device's
/// last id is destroyed. The kernel may be waiting for the close: it keeps a software device until every
/// process has closed the device. The library closes no device while the refreshed list is empty.
fn refresh_devices() {
    let mut count = 0;
    // SAFETY: `count` is writable.
    let list = unsafe { ffi::rdma_get_devices(&raw mut count) };
    if !list.is_null() {
        // SAFETY: the list comes from the call above, is freed once, and is not used elsewhere.
        unsafe { ffi::rdma_free_devices(list) };
    }
}

fn milliseconds(time: Duration) -> c_int {
    c_int::try_from(time.as_millis()).unwrap_or(c_int::MAX)
}

fn parameters(private_data: &[u8], depths: Depths) -> io::Result<ffi::ConnParam> {
    let len = u8::try_from(private_data.len()).map_err(io::Error::other)?;
    // SAFETY: the structure contains only integers and raw pointers, so all zeros is a valid value.
    let mut parameters: ffi::ConnParam = unsafe { MaybeUninit::zeroed().assume_init() };
    parameters.private_data = private_data.as_ptr().cast();
    parameters.private_data_len = len;
    parameters.responder_resources = depths.ird;
    parameters.initiator_depth = depths.ord;
    parameters.flow_control = 1;
    parameters.retry_count = depths.retries.min(7);
    parameters.rnr_retry_count = depths.receiver_not_ready_retries.min(7);
    Ok(parameters)
}
