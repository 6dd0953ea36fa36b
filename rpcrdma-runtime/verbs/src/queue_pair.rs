//! A queue pair and the memory of its work requests. The queue pair keeps the memory of a posted request
//! until the request completes or the queue pair is destroyed.

mod advertise;

use std::collections::VecDeque;
use std::ffi::CStr;
use std::future::Future;
use std::io;
use std::mem;
use std::pin::Pin;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use ib::{ibv_wc_opcode, ibv_wc_status, ibv_wr_opcode};
use ibverbs_sys as ib;
use rpcrdma_runtime::proto::work::{CloseReason, Completion, RegionPart, Segment, Token};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::VerbsOptions;
use super::blocking;
use super::cm::Id;
use super::objects::{Access, BATCH, Capabilities, CompletionQueue, Domain, LONG, Registered, check, sge};
use super::options::Capacity;
use super::pace::Load;
use super::read_buffers::Owner;
use super::request::{Done, Local, Posted, Registration, Transfer, Work, WorkRequest, request, set_remote};
use super::slots::Slots;
use super::windows::Windows;

/// The size of a slot for parts of a Send, or for a short RDMA Read or Write, in octets. Copying up to this
/// much data is faster than registering it.
const MAX_COPIED: usize = 8192;
/// Parts of a longer message are also copied if they have at most this many octets and fit the slot.
const MAX_COPIED_PART: usize = 2048;
/// The maximum number of scatter/gather elements in a request. The device may impose a lower limit.
const MAX_SGES: u32 = 4;
/// At least one of this many consecutive requests generates a completion.
const SIGNAL_INTERVAL: usize = 16;
/// The longest unsignaled request on iWARP, in octets.
///
/// On iWARP, a request completes when TCP accepts its data. TCP may still read the data from the registered
/// memory, which is reused after the completion. Siw copies the data of signaled requests and data shorter
/// than a page, so longer requests must be signaled.
const MAX_UNSIGNALED_IWARP: u32 = 4095;
/// A rejected inline limit below this value becomes 0. Other rejected limits are halved.
const MIN_INLINE: u32 = 32;
/// Marks the work request id of a Receive. The remaining bits of the id are the index of its slot. The ids of
/// all other requests are consecutive numbers.
const RECEIVE: u64 = 1 << 63;

/// The queue pair of an [`Id`].
///
/// The drop order is: memory windows, queue pair, memory of posted requests, completion queue, protection
/// domain, id.
#[derive(Debug)]
pub(super) struct QueuePair {
    raw: NonNull<ib::ibv_qp>,
    /// Posted requests in send queue order. Completed requests are `None`.
    posted: VecDeque<Option<Posted>>,
    /// The number of the first element of `posted`.
    first_number: u64,
    /// Octets of completed requests.
    completed: u64,
    queued: VecDeque<Work>,
    /// The memory registration for the next work, while it runs on another thread. Later work waits, because
    /// requests are posted in order.
    registering: Option<oneshot::Receiver<io::Result<Registration>>>,
    /// The regions that RDMA Reads fill, in the order in which the RDMA Reads are posted and complete.
    sinks: VecDeque<Registered<BytesMut>>,
    /// The number of the first element of `sinks`.
    first_sink: u64,
    /// The offset at which the next RDMA Read into the last sink starts.
    sink_end: u64,
    /// The owner of the cached buffers for RDMA Reads.
    read_buffers: Owner,
    /// Slots for short parts of Sends and for short RDMA Reads and Writes.
    copy_slots: Slots,
    receive_slots: Slots,
    posted_receives: u32,
    /// Receives that are posted but not yet requested.
    unrequested_receives: u32,
    /// Receives that are requested but not yet posted.
    queued_receives: u32,
    max_receives: u32,
    max_sends: usize,
    max_sges: usize,
    max_inline: usize,
    device: Capabilities,
    /// Dropped before the queue pair.
    pub(super) windows: Option<Windows>,
    queue: CompletionQueue,
    domain: Arc<Domain>,
}

// SAFETY: any thread may call verbs, and all fields except `raw` are `Send`.
unsafe impl Send for QueuePair {}

impl QueuePair {
    /// Creates the queue pair of an id that is bound to a device, and posts the first Receives.
    ///
    /// Memory is advertised through windows if `windowed` is true, the options and the device permit windows,
    /// and the device can allocate a window.
    pub(super) fn new(
        id: &Arc<Id>,
        receive_size: u32,
        options: &VerbsOptions,
        windowed: bool,
    ) -> io::Result<Self> {
        let device = Capabilities::of(id)?;
        let Capacity { sends: max_sends, receives: max_receives } = Capacity::of(options, &device);
        let domain = Arc::new(Domain::new(id)?);
        let windowed = windowed && options.windows.apply_to(&device);
        let windows = if windowed { Windows::new(&domain).ok() } else { None };
        let queue = CompletionQueue::new(id, max_sends.saturating_add(max_receives))?;
        let max_sges = device.max_sges.clamp(1, MAX_SGES);
        // SAFETY: the structure contains only integers and raw pointers, so all zeros is a valid value.
        let mut attributes: ib::ibv_qp_init_attr = unsafe { mem::zeroed() };
        (attributes.send_cq, attributes.recv_cq) = (queue.as_ptr(), queue.as_ptr());
        attributes.qp_type = ib::ibv_qp_type::IBV_QPT_RC;
        attributes.cap.max_send_wr = max_sends;
        attributes.cap.max_recv_wr = max_receives;
        attributes.cap.max_send_sge = max_sges;
        attributes.cap.max_recv_sge = 1;
        // Siw corrupts inline Sends with Invalidate, so no data is sent inline on iWARP.
        let mut max_inline = if device.iwarp { 0 } else { options.inline };
        let requested = attributes.cap;
        let raw = loop {
            // A failed attempt may have changed the capacities.
            attributes.cap = ib::ibv_qp_cap { max_inline_data: max_inline, ..requested };
            // SAFETY: domain and queue belong to the id's device. `QueuePair` holds both and destroys the
            // queue pair first.
            match unsafe { id.create_queue_pair(domain.as_ptr(), &mut attributes) } {
                Ok(raw) => break raw,
                // The verbs API has no query for the device's limit on inline data.
                Err(_) if max_inline >= MIN_INLINE => max_inline /= 2,
                Err(_) if max_inline > 0 => max_inline = 0,
                Err(error) => return Err(error),
            }
        };
        let mut queue_pair = QueuePair {
            raw,
            posted: VecDeque::new(),
            first_number: 0,
            completed: 0,
            queued: VecDeque::new(),
            registering: None,
            sinks: VecDeque::new(),
            first_sink: 0,
            sink_end: 0,
            read_buffers: Owner::new(device.infiniband),
            copy_slots: Slots::new(MAX_COPIED),
            receive_slots: Slots::new(usize::try_from(receive_size).unwrap_or(usize::MAX)),
            posted_receives: 0,
            unrequested_receives: 0,
            queued_receives: 0,
            max_receives,
            max_sends: usize::try_from(max_sends).unwrap_or(usize::MAX),
            max_sges: usize::try_from(max_sges).unwrap_or(1),
            max_inline: usize::try_from(max_inline).unwrap_or(0),
            device,
            windows,
            queue,
            domain,
        };
        queue_pair.post_receives(options.receives.min(max_receives))?;
        queue_pair.unrequested_receives = queue_pair.posted_receives;
        Ok(queue_pair)
    }

    pub(super) fn id(&self) -> &Arc<Id> {
        self.domain.id()
    }

    pub(super) fn domain(&self) -> &Arc<Domain> {
        &self.domain
    }

    pub(super) fn device(&self) -> &Capabilities {
        &self.device
    }

    pub(super) fn max_receives(&self) -> u32 {
        self.max_receives
    }

    /// Returns true if all work except Receives is complete.
    pub(super) fn is_idle(&self) -> bool {
        !self.has_queued() && self.posted.is_empty()
    }

    pub(super) fn load(&self) -> Option<Load> {
        let mut octets = 0u64;
        for posted in self.posted.iter().flatten() {
            octets = octets.saturating_add(posted.octets);
            if !posted.unsignaled {
                break;
            }
        }
        let (oldest, count) = (self.first_number, self.posted.len() as u64);
        (count > 0).then_some(Load { oldest, next: oldest + count, octets, completed: self.completed })
    }

    /// Requests `count` more Receives. Receives beyond `max_receives` are posted when earlier Receives
    /// complete.
    pub(super) fn request_receives(&mut self, count: u32) -> io::Result<()> {
        let already_posted = count.min(self.unrequested_receives);
        self.unrequested_receives -= already_posted;
        self.queued_receives = self.queued_receives.saturating_add(count - already_posted);
        self.post_queued_receives()
    }

    fn post_queued_receives(&mut self) -> io::Result<()> {
        let count = self.queued_receives.min(self.max_receives.saturating_sub(self.posted_receives));
        self.queued_receives -= count;
        self.post_receives(count)
    }

    fn post_receives(&mut self, count: u32) -> io::Result<()> {
        // SAFETY: queue pair and context are alive. Opening the device initialized the function table.
        let post = unsafe { (*(*self.raw.as_ptr()).context).ops.post_recv };
        let post = post.ok_or(io::ErrorKind::Unsupported)?;
        for _ in 0..count {
            let slot = self.receive_slots.take(&self.domain)?;
            let mut sge = self.receive_slots.full_sge(slot)?;
            // SAFETY: the structure contains only integers and raw pointers, so all zeros is a valid value.
            let mut request: ib::ibv_recv_wr = unsafe { mem::zeroed() };
            request.wr_id = RECEIVE | slot as u64;
            (request.sg_list, request.num_sge) = (&raw mut sge, 1);
            let mut rejected = ptr::null_mut();
            // SAFETY: the queue pair is alive, and the call copies the request and its element. The slot is
            // taken, so nothing else uses it until the Receive completes. The slot's memory outlives the
            // queue pair.
            check(unsafe { post(self.raw.as_ptr(), &raw mut request, &raw mut rejected) })?;
            self.posted_receives += 1;
        }
        Ok(())
    }

    /// Queues work. [`QueuePair::flush`] posts it.
    pub(super) fn submit(&mut self, work: Work) {
        self.queued.push_back(work);
    }

    /// Returns true if [`QueuePair::flush`] has not posted all work.
    pub(super) fn has_queued(&self) -> bool {
        !self.queued.is_empty() || self.registering.is_some()
    }

    /// Posts queued work as one batch, up to the capacity of the send queue. While another thread registers
    /// memory for a transfer, neither this transfer nor later work is posted. This method detects the end of
    /// the registration only if `cx` is `Some`.
    pub(super) fn flush(&mut self, mut cx: Option<&mut Context<'_>>) -> io::Result<()> {
        let mut batch: Vec<WorkRequest> = Vec::new();
        while self.is_registered(cx.as_deref_mut())?
            && self.posted.len() + batch.len() < self.max_sends
            && let Some(work) = self.queued.pop_front()
        {
            if let Some(request) = self.prepare(work)? {
                batch.push(request);
            }
        }
        if batch.is_empty() {
            return Ok(());
        }
        let last = batch.len() - 1;
        let mut requests = Vec::with_capacity(batch.len());
        let mut sges = Vec::with_capacity(batch.len());
        let mut inline_slots = Vec::new();
        for (index, mut request) in batch.into_iter().enumerate() {
            let mut raw = request.raw;
            raw.wr_id = self.first_number + self.posted.len() as u64;
            request.posted.unsignaled &= index != last && index % SIGNAL_INTERVAL != SIGNAL_INTERVAL - 1;
            let length = request.sges.iter().map(|sge| sge.length).sum::<u32>();
            request.posted.octets = length.into();
            if self.device.iwarp && length > MAX_UNSIGNALED_IWARP {
                request.posted.unsignaled = false;
            }
            if !request.posted.unsignaled {
                raw.send_flags |= ib::ibv_send_flags::IBV_SEND_SIGNALED.0;
            }
            if let Some(slot) = request.inline {
                raw.send_flags |= ib::ibv_send_flags::IBV_SEND_INLINE.0;
                inline_slots.push(slot);
            }
            self.posted.push_back(Some(request.posted));
            sges.push(request.sges);
            requests.push(raw);
        }
        self.post(&mut requests, &mut sges)?;
        inline_slots.into_iter().for_each(|slot| self.copy_slots.release(slot));
        Ok(())
    }

    /// Returns true if no registration is pending. If `cx` is `Some`, first queues the transfer of a
    /// registration that has ended.
    fn is_registered(&mut self, cx: Option<&mut Context<'_>>) -> io::Result<bool> {
        let Some(registering) = &mut self.registering else { return Ok(true) };
        let Some(cx) = cx else { return Ok(false) };
        let Poll::Ready(registered) = Pin::new(registering).poll(cx) else { return Ok(false) };
        self.registering = None;
        let (transfer, sink) = registered.map_err(io::Error::other)??;
        self.sinks.extend(sink);
        self.queued.push_front(Work::Rest { transfer, at: 0 });
        Ok(true)
    }

    fn post(&mut self, requests: &mut [ib::ibv_send_wr], sges: &mut [Vec<ib::ibv_sge>]) -> io::Result<()> {
        for (request, sges) in requests.iter_mut().zip(sges) {
            (request.sg_list, request.num_sge) = (sges.as_mut_ptr(), i32::try_from(sges.len()).unwrap_or(0));
        }
        let first = requests.as_mut_ptr();
        for index in 1..requests.len() {
            // SAFETY: both indices are within the slice.
            unsafe { (*first.add(index - 1)).next = first.add(index) };
        }
        // SAFETY: queue pair and context are alive. Opening the device initialized the function table.
        let post = unsafe { (*(*self.raw.as_ptr()).context).ops.post_send };
        let post = post.ok_or(io::ErrorKind::Unsupported)?;
        let mut rejected = ptr::null_mut();
        // SAFETY: the queue pair is alive, and the call copies the requests and their elements. This value
        // keeps the memory that the elements refer to until the requests complete or the queue pair is
        // destroyed.
        check(unsafe { post(self.raw.as_ptr(), first, &raw mut rejected) })
    }

    /// Prepares a request. Returns `None` if the work needs no request, or if another thread must first
    /// register the memory.
    fn prepare(&mut self, work: Work) -> io::Result<Option<WorkRequest>> {
        Ok(Some(match work {
            Work::Send { token, message, invalidate } => {
                let mut request = self.gather(&message, Done::Sent(token))?;
                request.raw.opcode = ibv_wr_opcode::IBV_WR_SEND;
                request.posted.unsignaled = true;
                // Remote invalidation is optional: the peer checks which handle was invalidated and fences
                // all other handles itself.
                if let Some(handle) = invalidate.filter(|_| self.device.send_with_invalidate) {
                    request.raw.opcode = ibv_wr_opcode::IBV_WR_SEND_WITH_INV;
                    request.raw.__bindgen_anon_1.invalidate_rkey = handle;
                    // The library for siw reads the handle from this field (rdma-core 44). Other libraries
                    // use the field only for RDMA Reads and Writes.
                    request.raw.wr.rdma.rkey = handle;
                }
                request
            }
            Work::Write { token, sink, data } if data.len() <= MAX_COPIED => {
                let mut request = self.gather(&[data], Done::Written(token))?;
                request.raw.opcode = ibv_wr_opcode::IBV_WR_RDMA_WRITE;
                set_remote(&mut request.raw, &sink, 0);
                request.posted.unsignaled = true;
                request
            }
            Work::Write { token, sink, data } => {
                let (domain, len) = (self.domain.clone(), data.len());
                let register = move || {
                    let region = Registered::new(&domain, data, Access(0)).map_err(|(_, error)| error)?;
                    Ok((Transfer { remote: sink, local: Local::Source(token, region) }, None))
                };
                return self.start_transfer(len, register);
            }
            Work::Read { token, source, part } => return self.read(token, source, part),
            Work::Bind { handle } => {
                let mut raw = request();
                if !self.windows.as_mut().is_some_and(|windows| windows.bind(handle, &mut raw)) {
                    return Ok(None);
                }
                WorkRequest::without_data(raw, Done::Bound)
            }
            Work::Unbind { token, handle } => {
                let mut raw = request();
                if !self.windows.as_mut().is_some_and(|windows| windows.unbind(token, handle, &mut raw)) {
                    return Ok(None);
                }
                WorkRequest::without_data(raw, Done::Unbound(handle))
            }
            Work::Probe => {
                let mut raw = request();
                raw.opcode = ibv_wr_opcode::IBV_WR_RDMA_WRITE;
                WorkRequest::without_data(raw, Done::Probed)
            }
            Work::Rest { transfer, at } => self.part(transfer, at)?,
        }))
    }

    fn read(&mut self, token: Token, remote: Segment, part: RegionPart) -> io::Result<Option<WorkRequest>> {
        let len = usize::try_from(part.total).map_err(io::Error::other)?;
        let is_complete = part.total == u64::from(remote.length);
        if is_complete && len <= MAX_COPIED && !self.device.iwarp {
            return self.fetch(token, &remote, len).map(Some);
        }
        // A gap between RDMA Reads would leave earlier content of the buffer in the returned data.
        if part.offset != 0 && part.offset != self.sink_end {
            return Err(io::Error::other("an RDMA Read does not start where the previous one ended"));
        }
        self.sink_end = part.offset + u64::from(remote.length);
        let next = self.first_sink + self.sinks.len() as u64;
        if part.offset != 0 {
            let local = Local::Sink { token, sink: next - 1, part };
            return self.part(Transfer { remote, local }, 0).map(Some);
        }
        let domain = self.domain.clone();
        let mut access = Access::IBV_ACCESS_LOCAL_WRITE;
        if self.device.iwarp {
            // An RDMA Read Response carries the handle of its sink, as an RDMA Write does (RFC 5040 section
            // 5.2).
            access |= Access::IBV_ACCESS_REMOTE_WRITE;
        }
        let read_buffers = self.read_buffers;
        let register = move || {
            let region = Registered::new(&domain, read_buffers.take(len), access);
            let region = region.map_err(|(_, error)| error)?;
            Ok((Transfer { remote, local: Local::Sink { token, sink: next, part } }, Some(region)))
        };
        self.start_transfer(len, register)
    }

    /// Prepares a short RDMA Read into a slot. Not used on iWARP: there, the peer receives the sink's handle,
    /// but the slot stays registered and must not be advertised.
    fn fetch(&mut self, token: Token, source: &Segment, len: usize) -> io::Result<WorkRequest> {
        let slot = self.copy_slots.take(&self.domain)?;
        let sges = if len > 0 { vec![self.copy_slots.sge(slot, 0, len)?] } else { Vec::new() };
        let mut raw = request();
        raw.opcode = ibv_wr_opcode::IBV_WR_RDMA_READ;
        set_remote(&mut raw, source, 0);
        let done = Done::Fetched { token, slot, len };
        let posted = Posted { done, octets: 0, unsignaled: false, slot: Some(slot), regions: Vec::new() };
        Ok(WorkRequest { raw, sges, posted, inline: None })
    }

    /// Registers the memory of a transfer and prepares its first request. For long transfers, starts the
    /// registration on another thread and returns `None`.
    fn start_transfer(
        &mut self,
        len: usize,
        register: impl FnOnce() -> io::Result<Registration> + Send + 'static,
    ) -> io::Result<Option<WorkRequest>> {
        if len >= LONG && Handle::try_current().is_ok() {
            self.registering = Some(blocking::spawn(register)?);
            return Ok(None);
        }
        let (transfer, sink) = register()?;
        self.sinks.extend(sink);
        self.part(transfer, 0).map(Some)
    }

    /// Prepares the request for one part of a transfer, from offset `at`, and queues the remainder. The
    /// length of a part is at most the port's maximum message length.
    fn part(&mut self, transfer: Transfer, at: usize) -> io::Result<WorkRequest> {
        let (address, total, key, opcode) = match &transfer.local {
            Local::Source(_, region) => {
                (region.address(), region.len(), region.local_key(), ibv_wr_opcode::IBV_WR_RDMA_WRITE)
            }
            Local::Sink { sink, part, .. } => {
                let index = sink.checked_sub(self.first_sink).and_then(|index| usize::try_from(index).ok());
                let region = index.and_then(|index| self.sinks.get(index));
                let region = region.ok_or_else(|| io::Error::other("an RDMA Read without a region"))?;
                let len = usize::try_from(transfer.remote.length).map_err(io::Error::other)?;
                let address = region.address() + part.offset;
                (address, len, region.local_key(), ibv_wr_opcode::IBV_WR_RDMA_READ)
            }
        };
        let max_len = usize::try_from(self.device.max_message.max(1)).unwrap_or(usize::MAX);
        let len = total.saturating_sub(at).min(max_len);
        let mut raw = request();
        raw.opcode = opcode;
        set_remote(&mut raw, &transfer.remote, at as u64);
        let sges = if len > 0 { vec![sge(address + at as u64, len, key)] } else { Vec::new() };
        let end = at + len;
        let unsignaled = matches!(transfer.local, Local::Source(..));
        let done = if end < total {
            self.queued.push_front(Work::Rest { transfer, at: end });
            Done::Part
        } else {
            Done::Transferred(transfer)
        };
        let posted = Posted { done, octets: 0, unsignaled, slot: None, regions: Vec::new() };
        Ok(WorkRequest { raw, sges, posted, inline: None })
    }

    /// Prepares a Send or an RDMA Write of a message that consists of parts. The caller sets the opcode.
    /// Short parts are copied into a slot; long parts are registered. If the message needs more than
    /// `max_sges` elements, the whole message is copied into a new registered buffer.
    fn gather(&mut self, message: &[Bytes], done: Done) -> io::Result<WorkRequest> {
        let total: usize = message.iter().map(Bytes::len).sum();
        let slot = self.copy_slots.take(&self.domain)?;
        let mut posted = Posted { done, octets: 0, unsignaled: false, slot: Some(slot), regions: Vec::new() };
        let mut sges: Vec<ib::ibv_sge> = Vec::new();
        let (mut used, mut start) = (0, 0);
        for data in message.iter().filter(|data| !data.is_empty()) {
            if total <= MAX_COPIED || (data.len() <= MAX_COPIED_PART && used + data.len() <= MAX_COPIED) {
                // SAFETY: the slot was free, and no request that uses it is posted before this function
                // returns.
                unsafe { self.copy_slots.write(slot, used, data)? };
                used += data.len();
                continue;
            }
            if used > start {
                sges.push(self.copy_slots.sge(slot, start, used - start)?);
                start = used;
            }
            let region =
                Registered::new(&self.domain, data.clone(), Access(0)).map_err(|(_, error)| error)?;
            sges.push(sge(region.address(), region.len(), region.local_key()));
            posted.regions.push(region);
        }
        if used > start {
            sges.push(self.copy_slots.sge(slot, start, used - start)?);
        }
        if sges.len() > self.max_sges {
            let copied = Bytes::from(message.concat());
            let region = Registered::new(&self.domain, copied, Access(0)).map_err(|(_, error)| error)?;
            sges = vec![sge(region.address(), region.len(), region.local_key())];
            posted.regions = vec![region];
        }
        let inline = if total <= self.max_inline { posted.slot.take() } else { None };
        Ok(WorkRequest { raw: request(), sges, posted, inline })
    }

    /// Handles one batch of completions. Returns false if the batch is empty.
    pub(super) fn poll(&mut self, ready: &mut VecDeque<Completion>) -> Result<bool, CloseReason> {
        let mut batch = [ib::ibv_wc::default(); BATCH];
        let count = self.queue.poll(&mut batch).map_err(|error| CloseReason::Io(error.to_string()))?;
        for completion in batch.get(..count).unwrap_or_default() {
            let number = completion.wr_id();
            if let Some((status, _)) = completion.error() {
                return Err(close_reason(status, number & RECEIVE != 0));
            }
            if number & RECEIVE != 0 {
                self.receive_completed(completion, number & !RECEIVE, ready)?;
            } else {
                self.send_completed(number, ready)?;
            }
        }
        Ok(count > 0)
    }

    pub(super) fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.queue.poll_event(cx)
    }

    fn receive_completed(
        &mut self,
        completion: &ib::ibv_wc,
        slot: u64,
        ready: &mut VecDeque<Completion>,
    ) -> Result<(), CloseReason> {
        let failed = |error: io::Error| CloseReason::Io(error.to_string());
        let invalidated = self.invalidated(completion)?;
        if completion.opcode() != ibv_wc_opcode::IBV_WC_RECV {
            return Err(CloseReason::Violation("an RDMA Write with Immediate consumed a Receive".into()));
        }
        let slot = usize::try_from(slot).map_err(|error| failed(io::Error::other(error)))?;
        // SAFETY: the Receive is complete, so the device no longer uses its slot.
        let message = unsafe { self.receive_slots.read(slot, completion.len()) }.map_err(failed)?;
        self.receive_slots.release(slot);
        self.posted_receives = self.posted_receives.saturating_sub(1);
        self.post_queued_receives().map_err(failed)?;
        ready.push_back(Completion::Received { message, invalidated });
        Ok(())
    }

    /// Returns the handle that a message has invalidated, if any. Fails if the peer had no right to
    /// invalidate the handle.
    fn invalidated(&mut self, completion: &ib::ibv_wc) -> Result<Option<u32>, CloseReason> {
        let mut flags = ib::ibv_wc_flags::IBV_WC_WITH_INV;
        if self.device.rxe {
            // Rxe passes the kernel's value of `WITH_INV` to user space, where this bit means `IP_CSUM_OK`.
            // `IP_CSUM_OK` does not apply to messages on a reliable connection.
            flags |= ib::ibv_wc_flags::IBV_WC_IP_CSUM_OK;
        }
        if (completion.wc_flags & flags).0 == 0 {
            return Ok(None);
        }
        let handle = completion.imm_data;
        match self.windows.as_mut().map(|windows| windows.invalidated(handle)) {
            Some(true) => Ok(Some(handle)),
            Some(false) => Err(CloseReason::Violation(format!(
                "remote invalidation of handle {handle:#010x}, which is not advertised (RFC 8797 section 4.1)"
            ))),
            None => Err(CloseReason::Violation(format!(
                "remote invalidation of handle {handle:#010x}, although the R flag is 0 (RFC 8797 section 4.1)"
            ))),
        }
    }

    /// Completes the request with this number and the unsignaled requests directly before it.
    ///
    /// The completion of a Send does not imply the completion of an earlier RDMA Read. On iWARP, a Send may
    /// complete while the data of the RDMA Read is still outstanding, and siw reports completions in that
    /// order.
    fn send_completed(&mut self, number: u64, ready: &mut VecDeque<Completion>) -> Result<(), CloseReason> {
        let last = number.checked_sub(self.first_number).and_then(|last| usize::try_from(last).ok());
        let Some(last) = last.filter(|last| *last < self.posted.len()) else { return Ok(()) };
        let is_unsignaled = |posted: &Option<Posted>| posted.as_ref().is_some_and(|posted| posted.unsignaled);
        let unsignaled = self.posted.range(..last).rev().take_while(|posted| is_unsignaled(posted)).count();
        for index in last - unsignaled..=last {
            let posted = self.posted.get_mut(index).and_then(Option::take);
            if let Some(posted) = posted {
                self.complete(posted, ready)?;
            }
        }
        while let Some(None) = self.posted.front() {
            self.posted.pop_front();
            self.first_number += 1;
        }
        Ok(())
    }

    fn complete(&mut self, posted: Posted, ready: &mut VecDeque<Completion>) -> Result<(), CloseReason> {
        self.completed = self.completed.wrapping_add(posted.octets);
        // The slot cannot be taken again before this function returns, so its data can still be read below.
        if let Some(slot) = posted.slot {
            self.copy_slots.release(slot);
        }
        ready.push_back(match posted.done {
            Done::Part | Done::Bound | Done::Probed => return Ok(()),
            Done::Fetched { token, slot, len } => {
                // SAFETY: the RDMA Read is complete, so the device no longer uses its slot.
                let data = unsafe { self.copy_slots.read(slot, len) };
                Completion::ReadDone {
                    token,
                    data: data.map_err(|error| CloseReason::Io(error.to_string()))?,
                }
            }
            Done::Unbound(handle) => {
                if let Some(windows) = &mut self.windows {
                    windows.unbound(handle);
                }
                return Ok(());
            }
            Done::Sent(token) => Completion::Sent { token },
            Done::Written(token) => Completion::Written { token },
            Done::Transferred(Transfer { local: Local::Source(token, _), .. }) => {
                Completion::Written { token }
            }
            Done::Transferred(Transfer { remote, local: Local::Sink { token, sink, part } }) => {
                let is_last = part.is_last(remote.length);
                let data = if is_last { self.take_sink(sink)? } else { Bytes::new() };
                Completion::ReadDone { token, data }
            }
        });
        Ok(())
    }

    /// Returns the data of a full sink. Drops earlier sinks that are only partly filled: RDMA Reads complete
    /// in order, so the RDMA Reads into earlier sinks have completed.
    fn take_sink(&mut self, number: u64) -> Result<Bytes, CloseReason> {
        let failed = || CloseReason::Io("memory deregistration failed".into());
        while self.first_sink < number && self.sinks.pop_front().is_some() {
            self.first_sink += 1;
        }
        let region = self.sinks.pop_front().ok_or_else(failed)?;
        self.first_sink += 1;
        let data = region.release().ok_or_else(failed)?.freeze();
        self.read_buffers.keep(&data);
        Ok(data)
    }
}

impl Drop for QueuePair {
    fn drop(&mut self) {
        self.windows = None;
        self.read_buffers.clear();
        // SAFETY: this value created the queue pair of the id, and nothing else uses the queue pair.
        unsafe { self.domain.id().destroy_queue_pair() };
    }
}

fn close_reason(status: ibv_wc_status::Type, receive: bool) -> CloseReason {
    let description = || {
        // SAFETY: for every integer the function returns a static C string.
        let text = unsafe { CStr::from_ptr(ib::ibv_wc_status_str(status)) };
        text.to_string_lossy().into_owned()
    };
    // The error type of iWARP's Terminate message (RFC 5040 section 4.8). Verbs do not report the error
    // code, so it is 0xff (unspecified error).
    let terminated = |etype| CloseReason::Terminated { layer: 0, etype, code: 0xff };
    match status {
        ibv_wc_status::IBV_WC_WR_FLUSH_ERR => CloseReason::Peer,
        ibv_wc_status::IBV_WC_REM_ACCESS_ERR => terminated(1),
        ibv_wc_status::IBV_WC_REM_INV_REQ_ERR | ibv_wc_status::IBV_WC_REM_OP_ERR => terminated(2),
        ibv_wc_status::IBV_WC_LOC_LEN_ERR if receive => {
            CloseReason::Violation("a message is longer than the Receive buffer".into())
        }
        ibv_wc_status::IBV_WC_RNR_RETRY_EXC_ERR => {
            CloseReason::Violation("the peer posted too few Receives for the granted credits".into())
        }
        ibv_wc_status::IBV_WC_RETRY_EXC_ERR => {
            CloseReason::Timeout("waiting for an acknowledgment from the peer".into())
        }
        _ => CloseReason::Io(description()),
    }
}
