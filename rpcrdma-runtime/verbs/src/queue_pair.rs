//! A queue pair, with all memory that its work refers to: what is posted stays here until it is complete, or until the queue
//! pair is gone.

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

use bytes::Bytes;
use ib::{ibv_wc_opcode, ibv_wc_status, ibv_wr_opcode};
use ibverbs_sys as ib;
use rpcrdma_runtime::proto::work::{CloseReason, Completion, Segment, Token};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::Options;
use super::blocking;
use super::cm::Id;
use super::objects::{Access, BATCH, Capabilities, CompletionQueue, Domain, LONG, Registered, done, sge};
use super::options::Room;
use super::request::{Done, Local, Posted, Request, Transfer, Work, aim, request};
use super::sinks::Whose;
use super::slots::Slots;
use super::windows::Windows;

/// Octets of a slot for what is sent or fetched: what fits there is copied, which takes less than to register it.
const COPIED: usize = 8192;
/// A piece of a longer message that is not longer than this is copied too.
const SMALL: usize = 2048;
/// Pieces of memory in one message, if the device takes so many.
const PIECES: u32 = 4;
/// Sends and RDMA Writes one after the other without a completion of their own.
const SILENT: usize = 16;
/// On iWARP, work is complete when TCP has its data, and that may be out of the memory itself, which is free then. Siw copies the
/// data of work that has a completion of its own, and what is shorter than a page.
const SIW_COPIES: u32 = 4095;
/// A device that hands over less than this with a work request is asked for nothing of the kind.
const LEAST_INLINE: u32 = 32;
/// Set in the number of a Receive; the rest is its slot. Other work is numbered in its order.
const RECEIVE: u64 = 1 << 63;

/// The queue pair of one id. It goes first; then the memory of what was posted, the queue, the domain and the id.
#[derive(Debug)]
pub(super) struct QueuePair {
    raw: NonNull<ib::ibv_qp>,
    /// In the order of the send queue; nothing in place of what is complete.
    posted: VecDeque<Option<Posted>>,
    /// The number of the first of them.
    first: u64,
    pending: VecDeque<Work>,
    /// The next of them, while another thread registers its memory: all others wait, since work leaves in its order.
    registering: Option<oneshot::Receiver<io::Result<Transfer>>>,
    /// Whose memory long RDMA Reads fill.
    sinks: Whose,
    sources: Slots,
    receives: Slots,
    /// Receives that the device has, those that were posted before they were asked for, and those that wait.
    received_into: u32,
    ahead: u32,
    waiting: u32,
    max_receives: u32,
    max_sends: usize,
    pieces: usize,
    inline: usize,
    device: Capabilities,
    /// What is advertised through windows; they go before all else.
    pub(super) windows: Option<Windows>,
    queue: CompletionQueue,
    domain: Arc<Domain>,
}

// SAFETY: verbs may be called by any thread, and all that is in here may be sent.
unsafe impl Send for QueuePair {}

impl QueuePair {
    /// A queue pair for an id that is bound to a device, with its first Receives. `windowed`: what it advertises is to have
    /// windows, if the options want them and the device has one.
    pub(super) fn new(
        id: &Arc<Id>,
        receive_size: u32,
        options: &Options,
        windowed: bool,
    ) -> io::Result<Self> {
        let device = Capabilities::of(id)?;
        let Room { sends: max_sends, receives: max_receives } = Room::of(options, &device);
        let domain = Arc::new(Domain::new(id)?);
        let windowed = windowed && options.windows.are_used(&device);
        let windows = if windowed { Windows::new(&domain).ok() } else { None };
        let queue = CompletionQueue::new(id, max_sends.saturating_add(max_receives))?;
        let pieces = device.pieces.clamp(1, PIECES);
        // SAFETY: numbers and pointers only, and all zeros is a value of each.
        let mut attributes: ib::ibv_qp_init_attr = unsafe { mem::zeroed() };
        (attributes.send_cq, attributes.recv_cq) = (queue.as_ptr(), queue.as_ptr());
        attributes.qp_type = ib::ibv_qp_type::IBV_QPT_RC;
        attributes.cap.max_send_wr = max_sends;
        attributes.cap.max_recv_wr = max_receives;
        attributes.cap.max_send_sge = pieces;
        attributes.cap.max_recv_sge = 1;
        // Siw spoils messages that go so and invalidate; iWARP gains least by it.
        let mut inline = if device.iwarp { 0 } else { options.inline };
        let asked = attributes.cap;
        let raw = loop {
            // What was made of it in vain may have changed it.
            attributes.cap = ib::ibv_qp_cap { max_inline_data: inline, ..asked };
            // SAFETY: domain and queue are of the id's device, and fields of the value that destroys the queue pair first.
            match unsafe { id.create_queue_pair(domain.as_ptr(), &mut attributes) } {
                Ok(raw) => break raw,
                // No device says how much it takes.
                Err(_) if inline >= LEAST_INLINE => inline /= 2,
                Err(_) if inline > 0 => inline = 0,
                Err(error) => return Err(error),
            }
        };
        let inline = usize::try_from(inline).unwrap_or(0);
        let mut made = QueuePair {
            raw,
            posted: VecDeque::new(),
            first: 0,
            pending: VecDeque::new(),
            registering: None,
            sinks: Whose::new(device.infiniband),
            sources: Slots::new(COPIED),
            receives: Slots::new(usize::try_from(receive_size).unwrap_or(usize::MAX)),
            received_into: 0,
            ahead: 0,
            waiting: 0,
            max_receives,
            max_sends: usize::try_from(max_sends).unwrap_or(usize::MAX),
            pieces: usize::try_from(pieces).unwrap_or(1),
            inline,
            device,
            windows,
            queue,
            domain,
        };
        made.post_receives(options.receives.min(max_receives))?;
        made.ahead = made.received_into;
        Ok(made)
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

    /// Receives that it takes at a time.
    pub(super) fn max_receives(&self) -> u32 {
        self.max_receives
    }

    /// Whether everything that was asked for has left.
    pub(super) fn is_idle(&self) -> bool {
        self.pending.is_empty() && self.registering.is_none() && self.posted.is_empty()
    }

    /// Posts so many Receives more than were asked for before.
    pub(super) fn ask_receives(&mut self, count: u32) -> io::Result<()> {
        let there = count.min(self.ahead);
        self.ahead -= there;
        self.waiting = self.waiting.saturating_add(count - there);
        self.post_waiting()
    }

    fn post_waiting(&mut self) -> io::Result<()> {
        let count = self.waiting.min(self.max_receives.saturating_sub(self.received_into));
        self.waiting -= count;
        self.post_receives(count)
    }

    fn post_receives(&mut self, count: u32) -> io::Result<()> {
        // SAFETY: the queue pair lives, and its context with it; the table of calls was filled when the device was opened.
        let post = unsafe { (*(*self.raw.as_ptr()).context).ops.post_recv };
        let post = post.ok_or(io::ErrorKind::Unsupported)?;
        for _ in 0..count {
            let slot = self.receives.take(&self.domain)?;
            let mut piece = self.receives.whole(slot)?;
            // SAFETY: numbers and pointers only, and all zeros is a value of each.
            let mut request: ib::ibv_recv_wr = unsafe { mem::zeroed() };
            request.wr_id = RECEIVE | slot as u64;
            (request.sg_list, request.num_sge) = (&raw mut piece, 1);
            let mut refused = ptr::null_mut();
            // SAFETY: the queue pair lives; request and piece are copied by the call. The slot is not free, so nobody else
            // uses it until it comes back with its completion, and its memory is there until the queue pair is gone.
            done(unsafe { post(self.raw.as_ptr(), &raw mut request, &raw mut refused) })?;
            self.received_into += 1;
        }
        Ok(())
    }

    /// Takes work, to be posted with [`QueuePair::flush`].
    pub(super) fn submit(&mut self, work: Work) {
        self.pending.push_back(work);
    }

    /// Posts what the send queue has room for, as one batch.
    pub(super) fn flush(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        let mut batch: Vec<Request> = Vec::new();
        while self.is_registered(cx)?
            && self.posted.len() + batch.len() < self.max_sends
            && let Some(work) = self.pending.pop_front()
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
        let mut pieces = Vec::with_capacity(batch.len());
        let mut inline = Vec::new();
        for (index, mut request) in batch.into_iter().enumerate() {
            let mut raw = request.raw;
            raw.wr_id = self.first + self.posted.len() as u64;
            request.posted.silent &= index != last && index % SILENT != SILENT - 1;
            if self.device.iwarp && request.pieces.iter().map(|piece| piece.length).sum::<u32>() > SIW_COPIES
            {
                request.posted.silent = false;
            }
            if !request.posted.silent {
                raw.send_flags |= ib::ibv_send_flags::IBV_SEND_SIGNALED.0;
            }
            if let Some(slot) = request.inline {
                raw.send_flags |= ib::ibv_send_flags::IBV_SEND_INLINE.0;
                inline.push(slot);
            }
            self.posted.push_back(Some(request.posted));
            pieces.push(request.pieces);
            requests.push(raw);
        }
        self.post(&mut requests, &mut pieces)?;
        inline.into_iter().for_each(|slot| self.sources.give_back(slot));
        Ok(())
    }

    /// Whether no work waits for its memory to be registered.
    fn is_registered(&mut self, cx: &mut Context<'_>) -> io::Result<bool> {
        let Some(registering) = &mut self.registering else { return Ok(true) };
        let Poll::Ready(registered) = Pin::new(registering).poll(cx) else { return Ok(false) };
        self.registering = None;
        let transfer = registered.map_err(io::Error::other)??;
        self.pending.push_front(Work::Rest { transfer, at: 0 });
        Ok(true)
    }

    fn post(&mut self, requests: &mut [ib::ibv_send_wr], pieces: &mut [Vec<ib::ibv_sge>]) -> io::Result<()> {
        for (request, pieces) in requests.iter_mut().zip(pieces) {
            (request.sg_list, request.num_sge) =
                (pieces.as_mut_ptr(), i32::try_from(pieces.len()).unwrap_or(0));
        }
        let first = requests.as_mut_ptr();
        for index in 1..requests.len() {
            // SAFETY: both are within the slice.
            unsafe { (*first.add(index - 1)).next = first.add(index) };
        }
        // SAFETY: the queue pair lives, and its context with it; the table of calls was filled when the device was opened.
        let post = unsafe { (*(*self.raw.as_ptr()).context).ops.post_send };
        let post = post.ok_or(io::ErrorKind::Unsupported)?;
        let mut refused = ptr::null_mut();
        // SAFETY: the queue pair lives; the requests and the lists of pieces are copied by the call. The memory that these name
        // is held by `posted` until the work is complete, or until the queue pair is gone.
        done(unsafe { post(self.raw.as_ptr(), first, &raw mut refused) })
    }

    /// `None`, if its memory is to be registered first.
    fn prepare(&mut self, work: Work) -> io::Result<Option<Request>> {
        Ok(Some(match work {
            Work::Send { token, message, invalidate } => {
                let mut request = self.gather(&message, Done::Sent(token))?;
                request.raw.opcode = ibv_wr_opcode::IBV_WR_SEND;
                request.posted.silent = true;
                // Not to do so is always right: who advertised the handle looks at what was invalidated.
                if let Some(handle) = invalidate.filter(|_| self.device.invalidates) {
                    request.raw.opcode = ibv_wr_opcode::IBV_WR_SEND_WITH_INV;
                    request.raw.__bindgen_anon_1.invalidate_rkey = handle;
                    // Where siw's library looks for it (rdma-core 44); others look here for RDMA Reads and Writes only.
                    request.raw.wr.rdma.rkey = handle;
                }
                request
            }
            Work::Write { token, sink, data } if data.len() <= COPIED => {
                let mut request = self.gather(&[data], Done::Written(token))?;
                request.raw.opcode = ibv_wr_opcode::IBV_WR_RDMA_WRITE;
                aim(&mut request.raw, &sink, 0);
                request.posted.silent = true;
                request
            }
            Work::Write { token, sink, data } => {
                let (domain, len) = (self.domain.clone(), data.len());
                let register = move || {
                    let region = Registered::new(&domain, data, Access(0)).map_err(|(_, error)| error)?;
                    Ok(Transfer { remote: sink, local: Local::Source(token, region) })
                };
                return self.registered(len, register);
            }
            Work::Read { token, source } => return self.read(token, source),
            Work::Bind { handle } => {
                let mut raw = request();
                if !self.windows.as_mut().is_some_and(|windows| windows.bind(handle, &mut raw)) {
                    return Ok(None);
                }
                Request::bare(raw, Done::Bound)
            }
            Work::Unbind { token, handle } => {
                let mut raw = request();
                if !self.windows.as_mut().is_some_and(|windows| windows.unbind(token, handle, &mut raw)) {
                    return Ok(None);
                }
                Request::bare(raw, Done::Unbound(handle))
            }
            Work::Rest { transfer, at } => self.part(transfer, at)?,
        }))
    }

    fn read(&mut self, token: Token, source: Segment) -> io::Result<Option<Request>> {
        let len = usize::try_from(source.length).map_err(io::Error::other)?;
        if len <= COPIED && !self.device.iwarp {
            return self.fetch(token, &source, len).map(Some);
        }
        let domain = self.domain.clone();
        let mut access = Access::IBV_ACCESS_LOCAL_WRITE;
        if self.device.iwarp {
            // Where an RDMA Read Response is put is named on the wire, as where a Write is (RFC 5040 section 5.2).
            access |= Access::IBV_ACCESS_REMOTE_WRITE;
        }
        let sinks = self.sinks;
        let register = move || {
            let region = Registered::new(&domain, sinks.take(len), access);
            let region = region.map_err(|(_, error)| error)?;
            Ok(Transfer { remote: source, local: Local::Sink(token, region) })
        };
        self.registered(len, register)
    }

    /// A short RDMA Read, into memory that stays registered: it is not named on the wire, so the peer cannot reach it.
    fn fetch(&mut self, token: Token, source: &Segment, len: usize) -> io::Result<Request> {
        let slot = self.sources.take(&self.domain)?;
        let pieces = if len > 0 { vec![self.sources.piece(slot, 0, len)?] } else { Vec::new() };
        let mut raw = request();
        raw.opcode = ibv_wr_opcode::IBV_WR_RDMA_READ;
        aim(&mut raw, source, 0);
        let done = Done::Fetched { token, slot, len };
        let posted = Posted { done, silent: false, slot: Some(slot), regions: Vec::new() };
        Ok(Request { raw, pieces, posted, inline: None })
    }

    /// The first part of a transfer of so many octets, once its memory is registered; another thread registers that of a long one.
    fn registered(
        &mut self,
        len: usize,
        register: impl FnOnce() -> io::Result<Transfer> + Send + 'static,
    ) -> io::Result<Option<Request>> {
        if len >= LONG && Handle::try_current().is_ok() {
            self.registering = Some(blocking::spawn(register)?);
            return Ok(None);
        }
        self.part(register()?, 0).map(Some)
    }

    /// As much of a transfer, from `at` on, as one message takes.
    fn part(&mut self, transfer: Transfer, at: usize) -> io::Result<Request> {
        let (address, all, key, opcode) = match &transfer.local {
            Local::Source(_, region) => {
                (region.address(), region.len(), region.local_key(), ibv_wr_opcode::IBV_WR_RDMA_WRITE)
            }
            Local::Sink(_, region) => {
                (region.address(), region.len(), region.local_key(), ibv_wr_opcode::IBV_WR_RDMA_READ)
            }
        };
        let most = usize::try_from(self.device.message.max(1)).unwrap_or(usize::MAX);
        let len = all.saturating_sub(at).min(most);
        let mut raw = request();
        raw.opcode = opcode;
        aim(&mut raw, &transfer.remote, at as u64);
        let pieces = if len > 0 { vec![sge(address + at as u64, len, key)] } else { Vec::new() };
        let end = at + len;
        let silent = matches!(transfer.local, Local::Source(..));
        let done = if end < all {
            self.pending.push_front(Work::Rest { transfer, at: end });
            Done::Part
        } else {
            Done::Transferred(transfer)
        };
        let posted = Posted { done, silent, slot: None, regions: Vec::new() };
        Ok(Request { raw, pieces, posted, inline: None })
    }

    /// A message out of its pieces: short ones are copied together, long ones are sent from where they are.
    fn gather(&mut self, message: &[Bytes], done: Done) -> io::Result<Request> {
        let total: usize = message.iter().map(Bytes::len).sum();
        let slot = self.sources.take(&self.domain)?;
        let mut posted = Posted { done, silent: false, slot: Some(slot), regions: Vec::new() };
        let mut pieces: Vec<ib::ibv_sge> = Vec::new();
        let (mut used, mut began) = (0, 0);
        for data in message.iter().filter(|data| !data.is_empty()) {
            if total <= COPIED || (data.len() <= SMALL && used + data.len() <= COPIED) {
                // SAFETY: the slot was free, and what is posted of it is in front of this part.
                unsafe { self.sources.write(slot, used, data)? };
                used += data.len();
                continue;
            }
            if used > began {
                pieces.push(self.sources.piece(slot, began, used - began)?);
                began = used;
            }
            let region =
                Registered::new(&self.domain, data.clone(), Access(0)).map_err(|(_, error)| error)?;
            pieces.push(sge(region.address(), region.len(), region.local_key()));
            posted.regions.push(region);
        }
        if used > began {
            pieces.push(self.sources.piece(slot, began, used - began)?);
        }
        if pieces.len() > self.pieces {
            let whole = Bytes::from(message.concat());
            let region = Registered::new(&self.domain, whole, Access(0)).map_err(|(_, error)| error)?;
            pieces = vec![sge(region.address(), region.len(), region.local_key())];
            posted.regions = vec![region];
        }
        let inline = if total <= self.inline { posted.slot.take() } else { None };
        Ok(Request { raw: request(), pieces, posted, inline })
    }

    /// Takes a batch of what is complete. False if there was nothing.
    pub(super) fn poll(&mut self, ready: &mut VecDeque<Completion>) -> Result<bool, CloseReason> {
        let mut batch = [ib::ibv_wc::default(); BATCH];
        let count = self.queue.poll(&mut batch).map_err(|error| CloseReason::Io(error.to_string()))?;
        for complete in batch.get(..count).unwrap_or_default() {
            let number = complete.wr_id();
            if let Some((status, _)) = complete.error() {
                return Err(reason(status, number & RECEIVE != 0));
            }
            let taken = if number & RECEIVE != 0 {
                self.received(complete, number & !RECEIVE, ready)
            } else {
                self.left(number, ready)
            };
            taken?;
        }
        Ok(count > 0)
    }

    /// Ready once there may be something to [`QueuePair::poll`].
    pub(super) fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.queue.poll_event(cx)
    }

    fn received(
        &mut self,
        complete: &ib::ibv_wc,
        slot: u64,
        ready: &mut VecDeque<Completion>,
    ) -> Result<(), CloseReason> {
        let failed = |error: io::Error| CloseReason::Io(error.to_string());
        let invalidated = self.invalidated(complete)?;
        if complete.opcode() != ibv_wc_opcode::IBV_WC_RECV {
            return Err(CloseReason::Violation("an RDMA Write took the place of a message".into()));
        }
        let slot = usize::try_from(slot).map_err(|error| failed(io::Error::other(error)))?;
        // SAFETY: the Receive is complete, so the device is done with its slot.
        let message = unsafe { self.receives.read(slot, complete.len()) }.map_err(failed)?;
        self.receives.give_back(slot);
        self.received_into = self.received_into.saturating_sub(1);
        self.post_waiting().map_err(failed)?;
        ready.push_back(Completion::Received { message, invalidated });
        Ok(())
    }

    /// The handle that a message has invalidated: one that is advertised.
    fn invalidated(&mut self, complete: &ib::ibv_wc) -> Result<Option<u32>, CloseReason> {
        let mut told = ib::ibv_wc_flags::IBV_WC_WITH_INV;
        if self.device.rxe {
            // Rxe hands up the kernel's own number of it, which means something else to programs, and not for these messages.
            told |= ib::ibv_wc_flags::IBV_WC_IP_CSUM_OK;
        }
        if (complete.wc_flags & told).0 == 0 {
            return Ok(None);
        }
        let handle = complete.imm_data;
        match self.windows.as_mut().map(|windows| windows.invalidated(handle)) {
            Some(true) => Ok(Some(handle)),
            Some(false) => Err(CloseReason::Violation(format!(
                "it invalidated handle {handle:#010x}, which was not advertised (RFC 8797 section 4.1)"
            ))),
            None => {
                let why = format!("it invalidated handle {handle:#010x}, and was told not to");
                Err(CloseReason::Violation(why))
            }
        }
    }

    /// The work of this number is complete, and so is what stands before it without a completion of its own. Not so an RDMA
    /// Read before it: on iWARP a message can leave while the data of one is still to come, and siw says so.
    fn left(&mut self, number: u64, ready: &mut VecDeque<Completion>) -> Result<(), CloseReason> {
        let last = number.checked_sub(self.first).and_then(|last| usize::try_from(last).ok());
        let Some(last) = last.filter(|last| *last < self.posted.len()) else { return Ok(()) };
        let is_silent = |posted: &Option<Posted>| posted.as_ref().is_some_and(|posted| posted.silent);
        let silent = self.posted.range(..last).rev().take_while(|posted| is_silent(posted)).count();
        for index in last - silent..=last {
            let posted = self.posted.get_mut(index).and_then(Option::take);
            if let Some(posted) = posted {
                self.complete(posted, ready)?;
            }
        }
        while let Some(None) = self.posted.front() {
            self.posted.pop_front();
            self.first += 1;
        }
        Ok(())
    }

    fn complete(&mut self, posted: Posted, ready: &mut VecDeque<Completion>) -> Result<(), CloseReason> {
        // Nothing else takes a slot before this returns.
        if let Some(slot) = posted.slot {
            self.sources.give_back(slot);
        }
        ready.push_back(match posted.done {
            Done::Part | Done::Bound => return Ok(()),
            Done::Fetched { token, slot, len } => {
                // SAFETY: the RDMA Read is complete, so the device is done with its slot.
                let data = unsafe { self.sources.read(slot, len) };
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
            Done::Transferred(Transfer { local: Local::Sink(token, region), .. }) => {
                let kept = || CloseReason::Io("the device does not let go of memory".into());
                let data = region.release().ok_or_else(kept)?.freeze();
                self.sinks.keep(&data);
                Completion::ReadDone { token, data }
            }
        });
        Ok(())
    }
}

impl Drop for QueuePair {
    fn drop(&mut self) {
        self.windows = None;
        self.sinks.forget();
        // SAFETY: it has one, which this value made; nobody else uses it.
        unsafe { self.domain.id().destroy_queue_pair() };
    }
}

/// Why a connection is over whose work failed so.
fn reason(status: ibv_wc_status::Type, receive: bool) -> CloseReason {
    let said = || {
        // SAFETY: for any number it returns a text that is never freed.
        let text = unsafe { CStr::from_ptr(ib::ibv_wc_status_str(status)) };
        text.to_string_lossy().into_owned()
    };
    // As iWARP's Terminate message says it (RFC 5040 section 4.8), without the details, which verbs do not pass on.
    let terminated = |etype| CloseReason::Terminated { layer: 0, etype, code: 0xff };
    match status {
        ibv_wc_status::IBV_WC_WR_FLUSH_ERR => CloseReason::Peer,
        ibv_wc_status::IBV_WC_REM_ACCESS_ERR => terminated(1),
        ibv_wc_status::IBV_WC_REM_INV_REQ_ERR | ibv_wc_status::IBV_WC_REM_OP_ERR => terminated(2),
        ibv_wc_status::IBV_WC_LOC_LEN_ERR if receive => {
            CloseReason::Violation("a message is longer than a Receive".into())
        }
        ibv_wc_status::IBV_WC_RNR_RETRY_EXC_ERR => {
            CloseReason::Violation("it has no Receive for a message that it has granted".into())
        }
        ibv_wc_status::IBV_WC_RETRY_EXC_ERR => CloseReason::Timeout("being acknowledged by the peer".into()),
        _ => CloseReason::Io(said()),
    }
}
