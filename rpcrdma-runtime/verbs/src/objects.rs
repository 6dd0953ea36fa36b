//! The device objects of a connection. Each object is destroyed once, after the objects that depend on it.
//!
//! Memory regions hold their protection domain, and completion queues hold their channel. Domains and
//! channels hold the id, which keeps the device open.

use std::io;
use std::mem::{self, ManuallyDrop};
use std::os::fd::{AsRawFd, RawFd};
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use ibverbs_sys as ib;
use libc::c_int;
use rpcrdma_runtime::proto::work::Memory;
use tokio::io::unix::AsyncFd;
use tracing::error;

use super::cm::{Id, OwnsDescriptor, async_fd, set_nonblocking};

pub(super) use ibverbs::ibv_access_flags as Access;

/// Converts the return value of a verb, an error number, into a result.
pub(super) fn check(errno: c_int) -> io::Result<()> {
    if errno == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(errno.saturating_abs())) }
}

/// A protection domain. Each connection has a separate domain, so a peer cannot access the memory of another
/// connection.
#[derive(Debug)]
pub(super) struct Domain {
    raw: NonNull<ib::ibv_pd>,
    id: Arc<Id>,
}

// SAFETY: any thread may call verbs.
unsafe impl Send for Domain {}
// SAFETY: as above.
unsafe impl Sync for Domain {}

impl Domain {
    pub(super) fn new(id: &Arc<Id>) -> io::Result<Self> {
        let (verbs, _) = id.device().ok_or(io::ErrorKind::NotConnected)?;
        // SAFETY: the id keeps the context open, and the domain holds the id.
        let raw = unsafe { ib::ibv_alloc_pd(verbs.as_ptr()) };
        let raw = NonNull::new(raw).ok_or_else(io::Error::last_os_error)?;
        Ok(Domain { raw, id: id.clone() })
    }

    pub(super) fn as_ptr(&self) -> *mut ib::ibv_pd {
        self.raw.as_ptr()
    }

    pub(super) fn id(&self) -> &Arc<Id> {
        &self.id
    }
}

impl Drop for Domain {
    fn drop(&mut self) {
        // SAFETY: the domain is freed once. Regions, windows and the queue pair hold the domain, so they are
        // already destroyed.
        check_destroyed("protection domain", unsafe { ib::ibv_dealloc_pd(self.raw.as_ptr()) });
    }
}

/// Logs an error if a verb failed to destroy an object. Returns true if the verb succeeded.
///
/// Such a failure means that a dependent object still exists, or that the device was removed.
pub(super) fn check_destroyed(what: &str, errno: c_int) -> bool {
    if errno != 0 {
        let error = io::Error::from_raw_os_error(errno.saturating_abs());
        error!(%error, "destroying a {what} failed");
    }
    errno == 0
}

/// A buffer with a stable address.
///
/// # Safety
/// The address of the memory must not change while the value is alive, even if the value moves. If the device
/// may write the memory, only the value's own methods may access it.
pub(super) unsafe trait Pinned: Send {
    fn span(&mut self) -> (*mut u8, usize);
}

// SAFETY: the bytes are behind a pointer. They may be shared but are never written.
unsafe impl Pinned for Bytes {
    fn span(&mut self) -> (*mut u8, usize) {
        (self.as_ptr().cast_mut(), self.len())
    }
}

// SAFETY: the bytes are behind a pointer, and this value is their only owner.
unsafe impl Pinned for BytesMut {
    fn span(&mut self) -> (*mut u8, usize) {
        (self.as_mut_ptr(), self.len())
    }
}

// SAFETY: both variants are `Pinned`.
unsafe impl Pinned for Memory {
    fn span(&mut self) -> (*mut u8, usize) {
        match self {
            Memory::Source(data) => data.span(),
            Memory::Sink(data) => data.span(),
        }
    }
}

/// A memory region and the memory that it registers. Until the region is destroyed, nothing else accesses
/// memory that the device may write.
#[derive(Debug)]
pub(super) struct Registered<M: Pinned> {
    raw: NonNull<ib::ibv_mr>,
    memory: ManuallyDrop<M>,
    at: *mut u8,
    len: usize,
    domain: Arc<Domain>,
}

// SAFETY: any thread may call verbs, and the memory is `Send`.
unsafe impl<M: Pinned> Send for Registered<M> {}

impl<M: Pinned> Registered<M> {
    /// Registers memory. The error contains the memory.
    pub(super) fn new(domain: &Arc<Domain>, mut memory: M, access: Access) -> Result<Self, (M, io::Error)> {
        let (at, len) = memory.span();
        let flags = c_int::try_from(access.0).unwrap_or(0);
        // SAFETY: the memory stays allocated at the same address until the region is destroyed. If the device
        // may write the memory, nothing else accesses the memory until then. For read-only memory, callers
        // pass an `access` that does not permit writes.
        let raw = unsafe { ib::ibv_reg_mr(domain.as_ptr(), at.cast(), len, flags) };
        match NonNull::new(raw) {
            Some(raw) => {
                Ok(Registered { raw, memory: ManuallyDrop::new(memory), at, len, domain: domain.clone() })
            }
            None => Err((memory, registration_error(io::Error::last_os_error()))),
        }
    }

    pub(super) fn as_ptr(&self) -> *mut ib::ibv_mr {
        self.raw.as_ptr()
    }

    /// Returns the registered memory. Its content must not be accessed, because the device may be writing to
    /// it.
    pub(super) fn memory(&self) -> &M {
        &self.memory
    }

    pub(super) fn address(&self) -> u64 {
        self.at.addr() as u64
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn local_key(&self) -> u32 {
        // SAFETY: the region is alive.
        unsafe { self.raw.as_ref().lkey }
    }

    pub(super) fn remote_key(&self) -> u32 {
        // SAFETY: the region is alive.
        unsafe { self.raw.as_ref().rkey }
    }

    /// Deregisters the memory and returns it. Afterwards, neither the device nor the peer can access the
    /// memory.
    ///
    /// Returns `None` if the device fails to deregister the memory. The memory is then leaked.
    pub(super) fn release(self) -> Option<M> {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: `this` is not dropped, so the region is destroyed once, and the memory is taken once.
        let memory = unsafe { this.deregister().then(|| ManuallyDrop::take(&mut this.memory)) };
        // SAFETY: `this` is not dropped, and its domain is not used afterwards.
        drop(unsafe { ptr::read(&raw const this.domain) });
        memory
    }

    /// # Safety
    /// The function must be called at most once, and the region must not be used afterwards.
    unsafe fn deregister(&mut self) -> bool {
        // SAFETY: guaranteed by the caller.
        check_destroyed("memory region", unsafe { ib::ibv_dereg_mr(self.raw.as_ptr()) })
    }
}

impl<M: Pinned> Drop for Registered<M> {
    fn drop(&mut self) {
        // SAFETY: the value is being dropped, so `deregister` is called only once and the region is not used
        // afterwards. Memory that is still registered is never freed.
        unsafe {
            if self.deregister() {
                ManuallyDrop::drop(&mut self.memory);
            }
        }
    }
}

/// Adds a hint about the limit on locked memory to `ENOMEM`, because the kernel's text does not mention this
/// limit. Returns other errors unchanged.
fn registration_error(error: io::Error) -> io::Error {
    if error.raw_os_error() != Some(libc::ENOMEM) {
        return error;
    }
    let hint = "the limit on locked memory (ulimit -l) may be too low";
    io::Error::new(error.kind(), format!("memory registration failed: {error}; {hint}"))
}

/// Advertised memory and transfer buffers of at least this many octets are registered on another thread.
/// Registration is slow, because the kernel looks up and pins each page. On invalidation, advertised memory
/// of at least this size is also deregistered on another thread.
pub(super) const LONG: usize = 4 << 20;

/// Registered memory that is divided into slots of equal size.
#[derive(Debug)]
pub(super) struct Slab {
    memory: Registered<BytesMut>,
    slot: usize,
}

impl Slab {
    pub(super) fn new(domain: &Arc<Domain>, slots: usize, slot: usize) -> io::Result<Self> {
        let memory = BytesMut::zeroed(slots.saturating_mul(slot));
        let memory = Registered::new(domain, memory, Access::IBV_ACCESS_LOCAL_WRITE);
        Ok(Slab { memory: memory.map_err(|(_, error)| error)?, slot })
    }

    /// Returns a scatter/gather element for `len` octets of a slot, starting at offset `skip`.
    pub(super) fn sge(&self, index: usize, skip: usize, len: usize) -> Option<ib::ibv_sge> {
        let at = self.locate(index, skip, len)?;
        Some(sge(at.addr() as u64, len, self.memory.local_key()))
    }

    fn locate(&self, index: usize, skip: usize, len: usize) -> Option<*mut u8> {
        let end = skip.checked_add(len).filter(|end| *end <= self.slot)?;
        let start = index.checked_mul(self.slot)?;
        if start.checked_add(end)? > self.memory.len() {
            return None;
        }
        // SAFETY: the checks above show that the address is within the memory.
        Some(unsafe { self.memory.at.add(start).add(skip) })
    }

    /// Returns a copy of the first `len` octets of a slot, or `None` if the range exceeds the slot.
    ///
    /// # Safety
    /// The device must not be using the slot.
    pub(super) unsafe fn read(&self, index: usize, len: usize) -> Option<Bytes> {
        let at = self.locate(index, 0, len)?;
        // SAFETY: the octets are initialized and within the memory. The caller guarantees that the device is
        // not writing them.
        Some(Bytes::copy_from_slice(unsafe { std::slice::from_raw_parts(at, len) }))
    }

    /// Copies data into a slot, starting at offset `skip`.
    ///
    /// # Safety
    /// The device must not be using the part of the slot that is written.
    pub(super) unsafe fn write(&mut self, index: usize, skip: usize, data: &[u8]) -> Option<()> {
        let at = self.locate(index, skip, data.len())?;
        // SAFETY: both ranges have `data.len()` octets. They do not overlap, because no reference to the
        // slab's memory is ever given out. The caller guarantees that the device is not using this part of
        // the slot.
        unsafe { ptr::copy_nonoverlapping(data.as_ptr(), at, data.len()) };
        Some(())
    }
}

pub(super) fn sge(addr: u64, len: usize, lkey: u32) -> ib::ibv_sge {
    ib::ibv_sge { addr, length: u32::try_from(len).unwrap_or(u32::MAX), lkey }
}

/// A non-blocking completion channel.
#[derive(Debug)]
struct CompletionChannel {
    raw: NonNull<ib::ibv_comp_channel>,
    /// Keeps the device open.
    _id: Arc<Id>,
}

// SAFETY: any thread may call verbs.
unsafe impl Send for CompletionChannel {}
// SAFETY: as above.
unsafe impl Sync for CompletionChannel {}

impl CompletionChannel {
    fn new(id: &Arc<Id>) -> io::Result<Self> {
        let (verbs, _) = id.device().ok_or(io::ErrorKind::NotConnected)?;
        // SAFETY: the id keeps the context open, and the channel holds the id.
        let raw = unsafe { ib::ibv_create_comp_channel(verbs.as_ptr()) };
        let raw = NonNull::new(raw).ok_or_else(io::Error::last_os_error)?;
        let channel = CompletionChannel { raw, _id: id.clone() };
        set_nonblocking(channel.as_raw_fd())?;
        Ok(channel)
    }
}

impl AsRawFd for CompletionChannel {
    fn as_raw_fd(&self) -> RawFd {
        // SAFETY: the channel is alive as long as this value.
        unsafe { self.raw.as_ref().fd }
    }
}

// SAFETY: the library opens one descriptor per channel and closes it when the channel is destroyed.
unsafe impl OwnsDescriptor for CompletionChannel {}

impl Drop for CompletionChannel {
    fn drop(&mut self) {
        // SAFETY: the channel is destroyed once. The completion queue owns the channel and is destroyed
        // first.
        check_destroyed("completion channel", unsafe { ib::ibv_destroy_comp_channel(self.raw.as_ptr()) });
    }
}

/// The maximum number of completions in one poll.
pub(super) const BATCH: usize = 16;

/// A completion queue with its own channel.
#[derive(Debug)]
pub(super) struct CompletionQueue {
    raw: NonNull<ib::ibv_cq>,
    channel: AsyncFd<CompletionChannel>,
    /// Whether an event is pending or the next completion will generate an event.
    armed: bool,
}

// SAFETY: any thread may call verbs.
unsafe impl Send for CompletionQueue {}

impl CompletionQueue {
    pub(super) fn new(id: &Arc<Id>, entries: u32) -> io::Result<Self> {
        let (verbs, _) = id.device().ok_or(io::ErrorKind::NotConnected)?;
        let channel = async_fd(CompletionChannel::new(id)?)?;
        let entries = c_int::try_from(entries).unwrap_or(c_int::MAX);
        let events = channel.get_ref().raw.as_ptr();
        // SAFETY: context and channel are alive as long as the queue, which holds both.
        let raw = unsafe { ib::ibv_create_cq(verbs.as_ptr(), entries, ptr::null_mut(), events, 0) };
        let raw = NonNull::new(raw).ok_or_else(io::Error::last_os_error)?;
        Ok(CompletionQueue { raw, channel, armed: false })
    }

    pub(super) fn as_ptr(&self) -> *mut ib::ibv_cq {
        self.raw.as_ptr()
    }

    /// Moves up to [`BATCH`] completions from the queue to `into` and returns their number.
    pub(super) fn poll(&mut self, into: &mut [ib::ibv_wc; BATCH]) -> io::Result<usize> {
        // SAFETY: queue and context are alive. Opening the device initialized the function table.
        let poll = unsafe { (*(*self.raw.as_ptr()).context).ops.poll_cq };
        let poll = poll.ok_or(io::ErrorKind::Unsupported)?;
        let room = c_int::try_from(into.len()).unwrap_or(0);
        // SAFETY: `into` has `room` elements.
        let count = unsafe { poll(self.raw.as_ptr(), room, into.as_mut_ptr()) };
        usize::try_from(count).map_err(|_| io::Error::other("polling the completion queue failed"))
    }

    /// Returns ready when completions may be available to [`CompletionQueue::poll`].
    ///
    /// The caller must then poll until the queue is empty before it calls this method again. Otherwise a
    /// completion between polling and waiting may be missed.
    pub(super) fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.armed {
            self.arm()?;
            self.armed = true;
            // A completion between the last poll and the call to `arm` generates no event, so the caller must
            // poll again.
            return Poll::Ready(Ok(()));
        }
        loop {
            let mut ready = ready!(self.channel.poll_read_ready(cx))?;
            let (mut queue, mut context) = (ptr::null_mut(), ptr::null_mut());
            let channel = self.channel.get_ref().raw.as_ptr();
            // SAFETY: the channel is alive, and both pointers are writable.
            if unsafe { ib::ibv_get_cq_event(channel, &raw mut queue, &raw mut context) } == 0 {
                // SAFETY: the event belongs to this queue, the only queue on its channel. The event is
                // acknowledged once.
                unsafe { ib::ibv_ack_cq_events(self.raw.as_ptr(), 1) };
                self.armed = false;
                return Poll::Ready(Ok(()));
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::WouldBlock {
                return Poll::Ready(Err(error));
            }
            ready.clear_ready();
        }
    }

    fn arm(&self) -> io::Result<()> {
        // SAFETY: queue and context are alive, as in `poll`.
        let arm = unsafe { (*(*self.raw.as_ptr()).context).ops.req_notify_cq };
        let arm = arm.ok_or(io::ErrorKind::Unsupported)?;
        // SAFETY: the queue is alive.
        check(unsafe { arm(self.raw.as_ptr(), 0) })
    }
}

impl Drop for CompletionQueue {
    fn drop(&mut self) {
        // SAFETY: the queue is destroyed once. The queue pair is already destroyed, and every event is
        // acknowledged.
        check_destroyed("completion queue", unsafe { ib::ibv_destroy_cq(self.raw.as_ptr()) });
    }
}

/// The capabilities of a device and one of its ports.
#[derive(Clone, Copy, Debug)]
pub(super) struct Capabilities {
    pub(super) max_work_requests: u32,
    pub(super) max_completions: u32,
    pub(super) max_sges: u32,
    pub(super) max_region: u64,
    pub(super) max_message: u32,
    pub(super) ird: u32,
    pub(super) ord: u32,
    pub(super) iwarp: bool,
    /// Whether the transport is InfiniBand or RoCE.
    pub(super) infiniband: bool,
    pub(super) ports: u8,
    pub(super) gids: c_int,
    pub(super) active: bool,
    pub(super) send_with_invalidate: bool,
    /// Whether the device supports type 2 memory windows.
    pub(super) windows: bool,
    pub(super) rxe: bool,
}

/// `IBV_DEVICE_MEM_MGT_EXTENSIONS`, which includes Send with Invalidate.
const MEMORY_EXTENSIONS: u32 = 1 << 21;
/// `IBV_DEVICE_MEM_WINDOW_TYPE_2A` and `_2B`. Their differences do not matter here.
const WINDOWS: u32 = 1 << 23 | 1 << 24;
/// The vendor id of rxe.
const RXE: u32 = 0x00ff_ffff;

impl Capabilities {
    /// Queries the device and port that an id is bound to.
    pub(super) fn of(id: &Id) -> io::Result<Self> {
        let (verbs, port) = id.device().ok_or(io::ErrorKind::NotConnected)?;
        // SAFETY: the id keeps the context open.
        unsafe { Capabilities::query(verbs, port) }
    }

    /// # Safety
    /// The context must be open.
    pub(super) unsafe fn query(verbs: NonNull<ib::ibv_context>, port: u8) -> io::Result<Self> {
        // SAFETY: both structures contain only integers, so all zeros is a valid value.
        let (mut device, mut port_attributes): (ib::ibv_device_attr, ib::ibv_port_attr) =
            unsafe { mem::zeroed() };
        // SAFETY: the context is open, and `device` is writable.
        check(unsafe { ib::ibv_query_device(verbs.as_ptr(), &raw mut device) })?;
        // SAFETY: the context is open. The call writes the older, shorter form of the structure, which is a
        // prefix of the current form.
        check(unsafe { ib::ibv_query_port(verbs.as_ptr(), port, (&raw mut port_attributes).cast()) })?;
        // SAFETY: an open context has a valid device.
        let transport = unsafe { (*(*verbs.as_ptr()).device).transport_type };
        let number = |number: c_int| u32::try_from(number).unwrap_or(0);
        Ok(Capabilities {
            max_work_requests: number(device.max_qp_wr),
            max_completions: number(device.max_cqe),
            max_sges: number(device.max_sge),
            max_region: device.max_mr_size,
            max_message: port_attributes.max_msg_sz,
            ird: number(device.max_qp_rd_atom),
            ord: number(device.max_qp_init_rd_atom),
            iwarp: transport == ib::IBV_TRANSPORT_IWARP,
            infiniband: transport == ib::IBV_TRANSPORT_IB,
            ports: device.phys_port_cnt,
            gids: port_attributes.gid_tbl_len,
            send_with_invalidate: device.device_cap_flags & MEMORY_EXTENSIONS != 0,
            windows: device.device_cap_flags & WINDOWS != 0 && device.max_mw > 0,
            rxe: device.vendor_id == RXE,
            active: port_attributes.state == ib::ibv_port_state::IBV_PORT_ACTIVE,
        })
    }
}
