//! The connection manager: event channels and ids, each destroyed once and after what stands on it.

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

/// Calls by which a peer may wait to be accepted.
const BACKLOG: c_int = 128;

/// What librdmacm's calls return, as a result.
fn done(returned: c_int) -> io::Result<()> {
    if returned == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// An event channel that does not block.
#[derive(Debug)]
struct Channel(NonNull<ffi::EventChannel>);

// SAFETY: librdmacm may be called by any thread, and nothing here belongs to one.
unsafe impl Send for Channel {}
// SAFETY: as above; the one call that takes it by reference, for the next event, is a read of its descriptor.
unsafe impl Sync for Channel {}

impl Channel {
    fn new() -> io::Result<Self> {
        // SAFETY: it takes nothing.
        let raw = unsafe { ffi::rdma_create_event_channel() };
        let channel = Channel(NonNull::new(raw).ok_or_else(io::Error::last_os_error)?);
        set_nonblocking(channel.as_raw_fd())?;
        Ok(channel)
    }

    /// The next event, if there is one. It is acknowledged when this returns: what it holds is copied.
    fn next(&self) -> io::Result<Option<Event>> {
        let mut raw = ptr::null_mut();
        // SAFETY: the channel lives; `raw` takes a pointer.
        if let Err(error) = done(unsafe { ffi::rdma_get_cm_event(self.0.as_ptr(), &raw mut raw) }) {
            return if error.kind() == io::ErrorKind::WouldBlock { Ok(None) } else { Err(error) };
        }
        // SAFETY: on success it points to an event, which lives until it is acknowledged below.
        let event = unsafe { Event::copy(&*raw) };
        // SAFETY: it was given out just now and is acknowledged this once. Nothing of it is referred to any more.
        unsafe { ffi::rdma_ack_cm_event(raw) };
        Ok(Some(event))
    }
}

impl AsRawFd for Channel {
    fn as_raw_fd(&self) -> RawFd {
        // SAFETY: the channel lives as long as this value.
        unsafe { self.0.as_ref().fd }
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        // SAFETY: it is destroyed once; its id is gone, since ids own their channel and go first.
        unsafe { ffi::rdma_destroy_event_channel(self.0.as_ptr()) };
    }
}

/// Has the runtime say when a channel has something.
pub(super) fn watched<T: OwnsDescriptor>(channel: T) -> io::Result<AsyncFd<T>> {
    // SAFETY: the channel keeps its descriptor open for as long as it lives, and has the same one all the time.
    Ok(unsafe { AsyncFd::register_with_interest(channel, Interest::READABLE)? })
}

/// A channel that keeps one descriptor open as long as it lives.
///
/// # Safety
/// That is so.
pub(super) unsafe trait OwnsDescriptor: AsRawFd {}

// SAFETY: the library closes it when the channel is destroyed, and opens no other.
unsafe impl OwnsDescriptor for Channel {}

/// Makes the descriptor of a channel return at once where there is nothing.
pub(super) fn set_nonblocking(descriptor: RawFd) -> io::Result<()> {
    // SAFETY: these two calls take numbers, and refuse a descriptor that is none.
    let set = unsafe {
        let flags = libc::fcntl(descriptor, libc::F_GETFL);
        if flags < 0 { flags } else { libc::fcntl(descriptor, libc::F_SETFL, flags | libc::O_NONBLOCK) }
    };
    if set < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// An event, with all that it holds.
#[derive(Debug)]
pub(super) struct Event {
    kind: c_int,
    status: c_int,
    pub(super) private_data: Bytes,
    /// RDMA Reads that the peer wants served at once.
    pub(super) responder_resources: u8,
    /// RDMA Reads that the peer serves at once.
    pub(super) initiator_depth: u8,
    /// The id of a peer that wants to connect.
    pub(super) asks: Option<NewId>,
}

impl Event {
    /// # Safety
    /// The event is one of the library's that is not acknowledged.
    unsafe fn copy(raw: &ffi::CmEvent) -> Self {
        let connects = matches!(raw.event, event::CONNECT_REQUEST | event::ESTABLISHED | event::REJECTED);
        let mut private_data = Bytes::new();
        if connects && !raw.conn.private_data.is_null() {
            let (at, len) = (raw.conn.private_data.cast::<u8>(), usize::from(raw.conn.private_data_len));
            // SAFETY: of these events the library says where the private data is and how long; it lives as long as the event.
            private_data = Bytes::copy_from_slice(unsafe { std::slice::from_raw_parts(at, len) });
        }
        let asks = (raw.event == event::CONNECT_REQUEST).then(|| NonNull::new(raw.id)).flatten().map(NewId);
        Event {
            kind: raw.event,
            status: raw.status,
            private_data,
            responder_resources: raw.conn.responder_resources,
            initiator_depth: raw.conn.initiator_depth,
            asks,
        }
    }

    pub(super) fn kind(&self) -> Kind {
        match self.kind {
            event::ADDR_RESOLVED | event::ROUTE_RESOLVED => Kind::Resolved,
            event::ADDR_ERROR | event::ROUTE_ERROR => Kind::Unresolved,
            event::CONNECT_REQUEST => Kind::Request,
            event::ESTABLISHED => Kind::Established,
            event::REJECTED => Kind::Rejected,
            event::CONNECT_ERROR | event::UNREACHABLE => Kind::Failed,
            event::DISCONNECTED => Kind::Disconnected,
            event::DEVICE_REMOVAL => Kind::DeviceRemoved,
            event::ADDR_CHANGE => Kind::AddressChanged,
            event::TIMEWAIT_EXIT => Kind::Over,
            _ => Kind::Other,
        }
    }

    /// What the library calls it.
    pub(super) fn name(&self) -> String {
        // SAFETY: for any number it returns a text that is never freed.
        let name = unsafe { CStr::from_ptr(ffi::rdma_event_str(self.kind)) };
        name.to_string_lossy().into_owned()
    }

    /// Its status, which is an error number or a reason of the connection manager's own.
    pub(super) fn status(&self) -> io::Error {
        match self.status {
            negative if negative < 0 => io::Error::from_raw_os_error(negative.saturating_neg()),
            reason => io::Error::other(format!("status {reason}")),
        }
    }
}

/// What kind of event it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Resolved,
    Unresolved,
    Request,
    Established,
    Rejected,
    Failed,
    Disconnected,
    DeviceRemoved,
    AddressChanged,
    /// All packets of a connection that has ended are gone.
    Over,
    Other,
}

/// The id of a peer that asks, on the channel of the listener still. Dropping it refuses.
#[derive(Debug)]
pub(super) struct NewId(NonNull<ffi::CmId>);

// SAFETY: librdmacm may be called by any thread.
unsafe impl Send for NewId {}

impl NewId {
    /// Gives it a channel of its own.
    pub(super) fn claim(self) -> io::Result<Id> {
        let events = watched(Channel::new()?)?;
        // SAFETY: both live. The event that brought the id is acknowledged, which this waits for.
        done(unsafe { ffi::rdma_migrate_id(self.0.as_ptr(), events.get_ref().0.as_ptr()) })?;
        let raw = self.0;
        mem::forget(self);
        Ok(Id { raw, events, orphan: AtomicBool::new(false) })
    }
}

impl Drop for NewId {
    fn drop(&mut self) {
        // SAFETY: nobody else has it, and it has no queue pair.
        unsafe { ffi::rdma_destroy_id(self.0.as_ptr()) };
    }
}

/// RDMA Reads at once: what [`Id::connect`] and [`Id::accept`] offer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Depths {
    pub(super) reads_in: u8,
    pub(super) reads_out: u8,
    pub(super) retries: u8,
    pub(super) receiver_not_ready_retries: u8,
}

/// An id with an event channel of its own. It is destroyed before its channel, and after its queue pair, which holds it.
#[derive(Debug)]
pub(super) struct Id {
    raw: NonNull<ffi::CmId>,
    events: AsyncFd<Channel>,
    /// Its device is gone, as an event said.
    orphan: AtomicBool,
}

// SAFETY: librdmacm may be called by any thread.
unsafe impl Send for Id {}
// SAFETY: as above, and what changes the id is asked for by its one owner.
unsafe impl Sync for Id {}

impl Id {
    /// A new one, which is bound to no device yet.
    pub(super) fn new() -> io::Result<Self> {
        let events = watched(Channel::new()?)?;
        let mut raw = ptr::null_mut();
        let channel = events.get_ref().0.as_ptr();
        // SAFETY: the channel lives, and `raw` takes a pointer.
        done(unsafe { ffi::rdma_create_id(channel, &raw mut raw, ptr::null_mut(), ffi::PORT_SPACE_TCP) })?;
        let raw = NonNull::new(raw).ok_or_else(|| io::Error::other("no id"))?;
        Ok(Id { raw, events, orphan: AtomicBool::new(false) })
    }

    pub(super) fn bind(&self, address: SocketAddr) -> io::Result<()> {
        let mut address = to_storage(address);
        // SAFETY: the id lives, and the address has a family whose size fits.
        done(unsafe { ffi::rdma_bind_addr(self.raw.as_ptr(), (&raw mut address).cast()) })
    }

    pub(super) fn listen(&self) -> io::Result<()> {
        // SAFETY: the id lives.
        done(unsafe { ffi::rdma_listen(self.raw.as_ptr(), BACKLOG) })
    }

    pub(super) fn resolve_address(&self, address: SocketAddr, within: Duration) -> io::Result<()> {
        let mut address = to_storage(address);
        let to = (&raw mut address).cast();
        // SAFETY: the id lives, and the address has a family whose size fits; no source is asked for.
        done(unsafe { ffi::rdma_resolve_addr(self.raw.as_ptr(), ptr::null_mut(), to, milliseconds(within)) })
    }

    pub(super) fn resolve_route(&self, within: Duration) -> io::Result<()> {
        // SAFETY: the id lives.
        done(unsafe { ffi::rdma_resolve_route(self.raw.as_ptr(), milliseconds(within)) })
    }

    pub(super) fn connect(&self, private_data: &[u8], depths: Depths) -> io::Result<()> {
        let mut parameters = parameters(private_data, depths)?;
        // SAFETY: the id lives and has a queue pair; the private data lives until this returns, when it is copied.
        done(unsafe { ffi::rdma_connect(self.raw.as_ptr(), &raw mut parameters) })
    }

    pub(super) fn accept(&self, private_data: &[u8], depths: Depths) -> io::Result<()> {
        let mut parameters = parameters(private_data, depths)?;
        // SAFETY: as for `connect`.
        done(unsafe { ffi::rdma_accept(self.raw.as_ptr(), &raw mut parameters) })
    }

    pub(super) fn reject(&self, private_data: &[u8]) -> io::Result<()> {
        let len = u8::try_from(private_data.len()).map_err(io::Error::other)?;
        // SAFETY: the id lives; the private data lives until this returns, when it is copied.
        done(unsafe { ffi::rdma_reject(self.raw.as_ptr(), private_data.as_ptr().cast(), len) })
    }

    /// Ends the connection. One that has ended already is none the worse for it.
    pub(super) fn disconnect(&self) -> io::Result<()> {
        // SAFETY: the id lives.
        done(unsafe { ffi::rdma_disconnect(self.raw.as_ptr()) })
    }

    /// Makes the id's queue pair.
    ///
    /// # Safety
    /// The protection domain and the queues are of the id's device and live until [`Id::destroy_queue_pair`].
    pub(super) unsafe fn create_queue_pair(
        &self,
        pd: *mut ib::ibv_pd,
        attributes: &mut ib::ibv_qp_init_attr,
    ) -> io::Result<NonNull<ib::ibv_qp>> {
        // SAFETY: as the caller says.
        done(unsafe { ffi::rdma_create_qp(self.raw.as_ptr(), pd, attributes) })?;
        // SAFETY: the id lives, and no other thread changes it meanwhile.
        let made = unsafe { (*self.raw.as_ptr()).qp };
        NonNull::new(made).ok_or_else(|| io::Error::other("no queue pair"))
    }

    /// Destroys the id's queue pair. Afterwards the device touches no memory on its behalf.
    ///
    /// # Safety
    /// It has one, and nobody uses it any more.
    pub(super) unsafe fn destroy_queue_pair(&self) {
        // SAFETY: as the caller says.
        unsafe { ffi::rdma_destroy_qp(self.raw.as_ptr()) };
    }

    /// The context of the device to which it is bound, and the number of the port.
    pub(super) fn device(&self) -> Option<(NonNull<ib::ibv_context>, u8)> {
        // SAFETY: the id lives, and is changed by calls of its one owner only.
        let (verbs, port) = unsafe { ((*self.raw.as_ptr()).verbs, (*self.raw.as_ptr()).port_num) };
        NonNull::new(verbs).map(|verbs| (verbs, port))
    }

    /// This end's address, with the port that it is bound to.
    pub(super) fn local_addr(&self) -> Option<SocketAddr> {
        // SAFETY: the id lives; the address is a copy of numbers.
        let mut address = from_storage(unsafe { &(*self.raw.as_ptr()).source })?;
        // SAFETY: the id lives. The port is in network order.
        address.set_port(u16::from_be(unsafe { ffi::rdma_get_src_port(self.raw.as_ptr()) }));
        Some(address)
    }

    /// The other end's address.
    pub(super) fn peer_addr(&self) -> Option<SocketAddr> {
        // SAFETY: the id lives; the address is a copy of numbers.
        from_storage(unsafe { &(*self.raw.as_ptr()).destination })
    }

    /// The next event.
    pub(super) async fn event(&self) -> io::Result<Event> {
        loop {
            let mut ready = self.events.readable().await?;
            match self.next()? {
                Some(event) => return Ok(event),
                None => ready.clear_ready(),
            }
        }
    }

    /// The next event, or the task is woken once there is one.
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
            self.orphan.store(true, Ordering::Relaxed);
        }
        Ok(event)
    }
}

impl Drop for Id {
    fn drop(&mut self) {
        // SAFETY: it is destroyed once. Its queue pair is gone, since that holds the id, and so are all events, since
        // each is acknowledged before it is given out.
        unsafe { ffi::rdma_destroy_id(self.raw.as_ptr()) };
        if self.orphan.load(Ordering::Relaxed) {
            look_at_devices();
        }
    }
}

/// Has the library see which devices there are, so that it closes one that is gone once its last id is. For that the kernel
/// may be waiting: the software devices do not go away while somebody has them open. The library closes none as long as
/// there is no other device.
fn look_at_devices() {
    let mut count = 0;
    // SAFETY: `count` takes a number.
    let list = unsafe { ffi::rdma_get_devices(&raw mut count) };
    if !list.is_null() {
        // SAFETY: the list was given out just now, is given back this once, and nothing refers to it.
        unsafe { ffi::rdma_free_devices(list) };
    }
}

fn milliseconds(time: Duration) -> c_int {
    c_int::try_from(time.as_millis()).unwrap_or(c_int::MAX)
}

fn parameters(private_data: &[u8], depths: Depths) -> io::Result<ffi::ConnParam> {
    let len = u8::try_from(private_data.len()).map_err(io::Error::other)?;
    // SAFETY: numbers and pointers only, and all zeros is a value of each.
    let mut parameters: ffi::ConnParam = unsafe { MaybeUninit::zeroed().assume_init() };
    parameters.private_data = private_data.as_ptr().cast();
    parameters.private_data_len = len;
    parameters.responder_resources = depths.reads_in;
    parameters.initiator_depth = depths.reads_out;
    parameters.flow_control = 1;
    parameters.retry_count = depths.retries.min(7);
    parameters.rnr_retry_count = depths.receiver_not_ready_retries.min(7);
    Ok(parameters)
}
