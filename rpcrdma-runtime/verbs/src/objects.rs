//! What belongs to a connection on its device, each object destroyed once, and after all that stands on it: memory regions
//! and queues hold their protection domain or their channel, and these hold the id, which keeps the device.

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

use super::cm::{Id, OwnsDescriptor, set_nonblocking, watched};

pub(super) use ibverbs::ibv_access_flags as Access;

/// What verbs return that answer with an error number.
pub(super) fn done(errno: c_int) -> io::Result<()> {
    if errno == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(errno.saturating_abs())) }
}

/// A protection domain: of one connection, so that no peer reaches the memory of another one.
#[derive(Debug)]
pub(super) struct Domain {
    raw: NonNull<ib::ibv_pd>,
    id: Arc<Id>,
}

// SAFETY: verbs may be called by any thread.
unsafe impl Send for Domain {}
// SAFETY: as above.
unsafe impl Sync for Domain {}

impl Domain {
    pub(super) fn new(id: &Arc<Id>) -> io::Result<Self> {
        let (verbs, _) = id.device().ok_or(io::ErrorKind::NotConnected)?;
        // SAFETY: the context lives as long as an id of it, and the domain keeps that.
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
        // SAFETY: it is freed once; regions and the queue pair hold it, so they are gone.
        destroyed("a protection domain", unsafe { ib::ibv_dealloc_pd(self.raw.as_ptr()) });
    }
}

/// A device whose objects do not go away has lost count, or is gone itself.
pub(super) fn destroyed(what: &str, errno: c_int) -> bool {
    if errno != 0 {
        let why = io::Error::from_raw_os_error(errno.saturating_abs());
        error!(%why, "{what} was not destroyed");
    }
    errno == 0
}

/// Memory whose address stays where it is as long as the value lives, wherever that is moved.
///
/// # Safety
/// That is so, and nothing but the value's own methods looks at the memory of one that can be written.
pub(super) unsafe trait Pinned: Send {
    /// Where it is, and how long.
    fn span(&mut self) -> (*mut u8, usize);
}

// SAFETY: the bytes are behind a pointer; they are shared, and nobody can write them.
unsafe impl Pinned for Bytes {
    fn span(&mut self) -> (*mut u8, usize) {
        (self.as_ptr().cast_mut(), self.len())
    }
}

// SAFETY: the bytes are behind a pointer, and belong to this value alone.
unsafe impl Pinned for BytesMut {
    fn span(&mut self) -> (*mut u8, usize) {
        (self.as_mut_ptr(), self.len())
    }
}

// SAFETY: it is one of the two above.
unsafe impl Pinned for Memory {
    fn span(&mut self) -> (*mut u8, usize) {
        match self {
            Memory::Source(data) => data.span(),
            Memory::Sink(data) => data.span(),
        }
    }
}

/// Memory that the device can reach. It is nobody else's until the region is gone.
#[derive(Debug)]
pub(super) struct Registered<M: Pinned> {
    raw: NonNull<ib::ibv_mr>,
    memory: ManuallyDrop<M>,
    at: *mut u8,
    len: usize,
    domain: Arc<Domain>,
}

// SAFETY: verbs may be called by any thread, and the memory may be sent.
unsafe impl<M: Pinned> Send for Registered<M> {}

impl<M: Pinned> Registered<M> {
    /// Registers it; if the device does not take it, the memory comes back.
    pub(super) fn new(domain: &Arc<Domain>, mut memory: M, access: Access) -> Result<Self, (M, io::Error)> {
        let (at, len) = memory.span();
        let flags = c_int::try_from(access.0).unwrap_or(0);
        // SAFETY: the memory is there until the region is destroyed, at the same place, and is not looked at meanwhile if it
        // may be written; memory that is only read is not written by the device, since it gets no right to.
        let raw = unsafe { ib::ibv_reg_mr(domain.as_ptr(), at.cast(), len, flags) };
        match NonNull::new(raw) {
            Some(raw) => {
                Ok(Registered { raw, memory: ManuallyDrop::new(memory), at, len, domain: domain.clone() })
            }
            None => Err((memory, not_registered(io::Error::last_os_error()))),
        }
    }

    pub(super) fn as_ptr(&self) -> *mut ib::ibv_mr {
        self.raw.as_ptr()
    }

    /// What it is over. Nobody looks into it: the device may be writing there.
    pub(super) fn memory(&self) -> &M {
        &self.memory
    }

    /// Its first octet, as the peer and the device name it.
    pub(super) fn address(&self) -> u64 {
        self.at.addr() as u64
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The key by which the device finds it.
    pub(super) fn local_key(&self) -> u32 {
        // SAFETY: the region lives.
        unsafe { self.raw.as_ref().lkey }
    }

    /// The key by which the peer finds it.
    pub(super) fn remote_key(&self) -> u32 {
        // SAFETY: the region lives.
        unsafe { self.raw.as_ref().rkey }
    }

    /// Fences it: when this returns, neither the device nor the peer can reach the memory. `None` if the device does not let
    /// go; then the memory is never used again.
    pub(super) fn release(self) -> Option<M> {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: `this` is not dropped, so the region is destroyed once, and the memory is taken once.
        let memory = unsafe { this.deregister().then(|| ManuallyDrop::take(&mut this.memory)) };
        // SAFETY: `this` is not dropped, and nothing refers to its domain any more.
        drop(unsafe { ptr::read(&raw const this.domain) });
        memory
    }

    /// # Safety
    /// It is called once, and the region is not used afterwards.
    unsafe fn deregister(&mut self) -> bool {
        // SAFETY: as the caller says.
        destroyed("a memory region", unsafe { ib::ibv_dereg_mr(self.raw.as_ptr()) })
    }
}

impl<M: Pinned> Drop for Registered<M> {
    fn drop(&mut self) {
        // SAFETY: the value is going away, so this is the one call. Memory that the device still has is never freed.
        unsafe {
            if self.deregister() {
                ManuallyDrop::drop(&mut self.memory);
            }
        }
    }
}

/// Who has too little of it does not know of this limit by what the kernel says.
fn not_registered(error: io::Error) -> io::Error {
    if error.raw_os_error() != Some(libc::ENOMEM) {
        return error;
    }
    let hint = "the limit of memory that is locked (ulimit -l) may be too low";
    io::Error::new(error.kind(), format!("memory cannot be registered: {error}; {hint}"))
}

/// Octets from which on memory is registered by threads that may wait: the kernel looks up and pins each page of it.
pub(super) const LONG: usize = 4 << 20;

/// Registered memory that is cut in slots of one size.
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

    /// Where `len` octets of a slot are, for the device, from the `skip`th on.
    pub(super) fn piece(&self, index: usize, skip: usize, len: usize) -> Option<ib::ibv_sge> {
        let at = self.place(index, skip, len)?;
        Some(sge(at.addr() as u64, len, self.memory.local_key()))
    }

    fn place(&self, index: usize, skip: usize, len: usize) -> Option<*mut u8> {
        let end = skip.checked_add(len).filter(|end| *end <= self.slot)?;
        let start = index.checked_mul(self.slot)?;
        if start.checked_add(end)? > self.memory.len() {
            return None;
        }
        // SAFETY: it is within the memory, as was just seen.
        Some(unsafe { self.memory.at.add(start).add(skip) })
    }

    /// Copies what is in a slot.
    ///
    /// # Safety
    /// The device does not use the slot.
    pub(super) unsafe fn read(&self, index: usize, len: usize) -> Option<Bytes> {
        let at = self.place(index, 0, len)?;
        // SAFETY: these octets were zeros at first and are within the memory; nobody writes them now, as the caller says.
        Some(Bytes::copy_from_slice(unsafe { std::slice::from_raw_parts(at, len) }))
    }

    /// Copies something to a slot, from its `skip`th octet on.
    ///
    /// # Safety
    /// The device does not use that part of the slot.
    pub(super) unsafe fn write(&mut self, index: usize, skip: usize, data: &[u8]) -> Option<()> {
        let at = self.place(index, skip, data.len())?;
        // SAFETY: both are as long, and apart: this memory is given to nobody else. Nobody uses it now, as the caller says.
        unsafe { ptr::copy_nonoverlapping(data.as_ptr(), at, data.len()) };
        Some(())
    }
}

/// Where memory is, for the device.
pub(super) fn sge(addr: u64, len: usize, lkey: u32) -> ib::ibv_sge {
    ib::ibv_sge { addr, length: u32::try_from(len).unwrap_or(u32::MAX), lkey }
}

/// A completion channel that does not block.
#[derive(Debug)]
struct CompletionChannel {
    raw: NonNull<ib::ibv_comp_channel>,
    /// Keeps the device.
    _id: Arc<Id>,
}

// SAFETY: verbs may be called by any thread.
unsafe impl Send for CompletionChannel {}
// SAFETY: as above.
unsafe impl Sync for CompletionChannel {}

impl CompletionChannel {
    fn new(id: &Arc<Id>) -> io::Result<Self> {
        let (verbs, _) = id.device().ok_or(io::ErrorKind::NotConnected)?;
        // SAFETY: the context lives as long as the id, which the channel keeps.
        let raw = unsafe { ib::ibv_create_comp_channel(verbs.as_ptr()) };
        let raw = NonNull::new(raw).ok_or_else(io::Error::last_os_error)?;
        let channel = CompletionChannel { raw, _id: id.clone() };
        set_nonblocking(channel.as_raw_fd())?;
        Ok(channel)
    }
}

impl AsRawFd for CompletionChannel {
    fn as_raw_fd(&self) -> RawFd {
        // SAFETY: the channel lives as long as this value.
        unsafe { self.raw.as_ref().fd }
    }
}

// SAFETY: the library closes it when the channel is destroyed, and opens no other.
unsafe impl OwnsDescriptor for CompletionChannel {}

impl Drop for CompletionChannel {
    fn drop(&mut self) {
        // SAFETY: it is destroyed once; its queue owns it, and goes first.
        destroyed("a completion channel", unsafe { ib::ibv_destroy_comp_channel(self.raw.as_ptr()) });
    }
}

/// Completions that are taken at once.
pub(super) const BATCH: usize = 16;

/// A completion queue with a channel of its own.
#[derive(Debug)]
pub(super) struct CompletionQueue {
    raw: NonNull<ib::ibv_cq>,
    channel: AsyncFd<CompletionChannel>,
    /// The next completion brings an event, or one is there.
    armed: bool,
}

// SAFETY: verbs may be called by any thread.
unsafe impl Send for CompletionQueue {}

impl CompletionQueue {
    pub(super) fn new(id: &Arc<Id>, entries: u32) -> io::Result<Self> {
        let (verbs, _) = id.device().ok_or(io::ErrorKind::NotConnected)?;
        let channel = watched(CompletionChannel::new(id)?)?;
        let entries = c_int::try_from(entries).unwrap_or(c_int::MAX);
        let events = channel.get_ref().raw.as_ptr();
        // SAFETY: context and channel live as long as the queue, which keeps both.
        let raw = unsafe { ib::ibv_create_cq(verbs.as_ptr(), entries, ptr::null_mut(), events, 0) };
        let raw = NonNull::new(raw).ok_or_else(io::Error::last_os_error)?;
        Ok(CompletionQueue { raw, channel, armed: false })
    }

    pub(super) fn as_ptr(&self) -> *mut ib::ibv_cq {
        self.raw.as_ptr()
    }

    /// Takes what is complete, as much of it as there is room for.
    pub(super) fn poll(&mut self, into: &mut [ib::ibv_wc; BATCH]) -> io::Result<usize> {
        // SAFETY: the queue lives, and the context with it; the table of calls was filled when the device was opened.
        let poll = unsafe { (*(*self.raw.as_ptr()).context).ops.poll_cq };
        let poll = poll.ok_or(io::ErrorKind::Unsupported)?;
        let room = c_int::try_from(into.len()).unwrap_or(0);
        // SAFETY: there is room for as many.
        let count = unsafe { poll(self.raw.as_ptr(), room, into.as_mut_ptr()) };
        usize::try_from(count).map_err(|_| io::Error::other("the completion queue cannot be read"))
    }

    /// Ready once there may be something to [`CompletionQueue::poll`]: the caller polls whenever it is, until there is
    /// nothing, and only then asks again. So no completion is lost between looking and waiting.
    pub(super) fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.armed {
            self.arm()?;
            self.armed = true;
            // What came between the last look and this moment brings no event.
            return Poll::Ready(Ok(()));
        }
        loop {
            let mut ready = ready!(self.channel.poll_read_ready(cx))?;
            let (mut queue, mut context) = (ptr::null_mut(), ptr::null_mut());
            let channel = self.channel.get_ref().raw.as_ptr();
            // SAFETY: the channel lives, and both take pointers.
            if unsafe { ib::ibv_get_cq_event(channel, &raw mut queue, &raw mut context) } == 0 {
                // SAFETY: the event is of this queue, the only one on its channel, and is acknowledged once.
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
        // SAFETY: as in `poll`.
        let arm = unsafe { (*(*self.raw.as_ptr()).context).ops.req_notify_cq };
        let arm = arm.ok_or(io::ErrorKind::Unsupported)?;
        // SAFETY: the queue lives.
        done(unsafe { arm(self.raw.as_ptr(), 0) })
    }
}

impl Drop for CompletionQueue {
    fn drop(&mut self) {
        // SAFETY: it is destroyed once; the queue pair, which owns it, is gone, and every event is acknowledged.
        destroyed("a completion queue", unsafe { ib::ibv_destroy_cq(self.raw.as_ptr()) });
    }
}

/// What a device and a port of it can do.
#[derive(Clone, Copy, Debug)]
pub(super) struct Capabilities {
    pub(super) work: u32,
    pub(super) completions: u32,
    pub(super) pieces: u32,
    pub(super) region: u64,
    pub(super) message: u32,
    pub(super) reads_in: u32,
    pub(super) reads_out: u32,
    /// It speaks iWARP.
    pub(super) iwarp: bool,
    /// It is InfiniBand's or RoCE's.
    pub(super) infiniband: bool,
    pub(super) ports: u8,
    pub(super) gids: c_int,
    pub(super) active: bool,
    /// It can send with invalidation.
    pub(super) invalidates: bool,
    /// It has memory windows of type 2.
    pub(super) windows: bool,
    /// It is Linux's software RoCE, rxe.
    pub(super) rxe: bool,
}

/// `IBV_DEVICE_MEM_MGT_EXTENSIONS`: among others, Send with Invalidate.
const MEMORY_EXTENSIONS: u32 = 1 << 21;
/// `IBV_DEVICE_MEM_WINDOW_TYPE_2A` and `_2B`; to this end they are the same.
const WINDOWS: u32 = 1 << 23 | 1 << 24;
/// The number that rxe has in place of a vendor's.
const RXE: u32 = 0x00ff_ffff;

impl Capabilities {
    /// Of the device and port that an id is bound to.
    pub(super) fn of(id: &Id) -> io::Result<Self> {
        let (verbs, port) = id.device().ok_or(io::ErrorKind::NotConnected)?;
        // SAFETY: the context lives as long as the id.
        unsafe { Capabilities::ask(verbs, port) }
    }

    /// # Safety
    /// The context is open.
    pub(super) unsafe fn ask(verbs: NonNull<ib::ibv_context>, port: u8) -> io::Result<Self> {
        // SAFETY: both are numbers only, and all zeros is a value of them.
        let (mut device, mut of_port): (ib::ibv_device_attr, ib::ibv_port_attr) = unsafe { mem::zeroed() };
        // SAFETY: the context is open, and `device` takes what is said.
        done(unsafe { ib::ibv_query_device(verbs.as_ptr(), &raw mut device) })?;
        // SAFETY: the same; the call fills the part of it that it knows, which is the front.
        done(unsafe { ib::ibv_query_port(verbs.as_ptr(), port, (&raw mut of_port).cast()) })?;
        // SAFETY: the device of an open context is there.
        let transport = unsafe { (*(*verbs.as_ptr()).device).transport_type };
        let number = |number: c_int| u32::try_from(number).unwrap_or(0);
        Ok(Capabilities {
            work: number(device.max_qp_wr),
            completions: number(device.max_cqe),
            pieces: number(device.max_sge),
            region: device.max_mr_size,
            message: of_port.max_msg_sz,
            reads_in: number(device.max_qp_rd_atom),
            reads_out: number(device.max_qp_init_rd_atom),
            iwarp: transport == ib::IBV_TRANSPORT_IWARP,
            infiniband: transport == ib::IBV_TRANSPORT_IB,
            ports: device.phys_port_cnt,
            gids: of_port.gid_tbl_len,
            invalidates: device.device_cap_flags & MEMORY_EXTENSIONS != 0,
            windows: device.device_cap_flags & WINDOWS != 0 && device.max_mw > 0,
            rxe: device.vendor_id == RXE,
            active: of_port.state == ib::ibv_port_state::IBV_PORT_ACTIVE,
        })
    }
}
