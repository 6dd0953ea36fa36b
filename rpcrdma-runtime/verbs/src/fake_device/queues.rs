//! Completion channels and completion queues.

use std::collections::VecDeque;
use std::io::{PipeReader, PipeWriter, Read, Write, pipe};
use std::os::fd::AsRawFd;

use ib::{ibv_wc_opcode, ibv_wc_status};
use ibverbs_sys as ib;
use libc::{c_int, c_uint, c_void};

use super::{Device, allocate, device, failed, free, null, zeros};

/// A pipe with one octet for each unread event. Its read end is readable while there are unread events.
pub(super) struct Signal {
    reader: PipeReader,
    writer: PipeWriter,
}

impl Signal {
    pub(super) fn new() -> Self {
        let (reader, writer) = pipe().expect("a pipe");
        Signal { reader, writer }
    }

    pub(super) fn descriptor(&self) -> c_int {
        self.reader.as_raw_fd()
    }

    pub(super) fn raise(&mut self) {
        self.writer.write_all(&[1]).expect("room in the pipe");
    }

    /// Consumes one octet. If no octet is available, returns the error number; a blocking descriptor blocks
    /// instead.
    pub(super) fn clear(&mut self) -> Result<(), c_int> {
        self.reader.read_exact(&mut [0]).map_err(|error| error.raw_os_error().unwrap_or(libc::EIO))
    }
}

pub(super) struct CompletionEvents {
    raw: *mut ib::ibv_comp_channel,
    pub(super) context: usize,
    signal: Signal,
    waiting: VecDeque<usize>,
}

pub(super) struct Completions {
    raw: *mut ib::ibv_cq,
    pub(super) context: usize,
    channel: usize,
    room: usize,
    entries: VecDeque<Entry>,
    armed: bool,
    unacknowledged: u32,
}

/// A completion, with the layout of `struct ibv_wc`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Entry {
    pub(super) number: u64,
    pub(super) status: ibv_wc_status::Type,
    pub(super) opcode: ibv_wc_opcode::Type,
    pub(super) vendor: u32,
    pub(super) len: u32,
    pub(super) key: u32,
    pub(super) pair: u32,
    pub(super) from: u32,
    pub(super) flags: u32,
    pub(super) rest: [u16; 4],
}

const _: () = {
    use std::mem::{align_of, offset_of, size_of};
    assert!(size_of::<Entry>() == size_of::<ib::ibv_wc>() && align_of::<Entry>() == align_of::<ib::ibv_wc>());
    assert!(offset_of!(Entry, key) == offset_of!(ib::ibv_wc, imm_data));
    assert!(offset_of!(Entry, flags) == offset_of!(ib::ibv_wc, wc_flags));
};

impl Device {
    /// Adds a completion to a queue. If the queue is armed, generates an event.
    pub(super) fn completed(&mut self, queue: usize, entry: Entry) {
        let Some(completions) = self.queues.get_mut(&queue) else {
            return self.report("a completion queue was destroyed before its queue pair");
        };
        completions.entries.push_back(entry);
        let full = completions.entries.len() > completions.room;
        if completions.armed {
            completions.armed = false;
            completions.unacknowledged += 1;
            if let Some(channel) = self.channels.get_mut(&completions.channel) {
                channel.waiting.push_back(queue);
                channel.signal.raise();
            }
        }
        if full {
            self.report("a completion queue overflowed");
        }
    }

    pub(super) fn remove_completions(&mut self, queue: usize, pair: u32) {
        if let Some(completions) = self.queues.get_mut(&queue) {
            completions.entries.retain(|entry| entry.pair != pair);
        }
    }
}

#[unsafe(no_mangle)]
extern "C" fn ibv_create_comp_channel(context: *mut ib::ibv_context) -> *mut ib::ibv_comp_channel {
    let mut device = device();
    if device.fails() {
        return null(libc::EMFILE);
    }
    let signal = Signal::new();
    let raw = allocate(ib::ibv_comp_channel { context, fd: signal.descriptor(), refcnt: 0 });
    let waiting = VecDeque::new();
    device.channels.insert(raw.addr(), CompletionEvents { raw, context: context.addr(), signal, waiting });
    raw
}

#[unsafe(no_mangle)]
extern "C" fn ibv_destroy_comp_channel(channel: *mut ib::ibv_comp_channel) -> c_int {
    let mut device = device();
    let at = channel.addr();
    if device.queues.values().any(|queue| queue.channel == at) {
        device.report("a completion channel is destroyed before its queue");
        return libc::EBUSY;
    }
    let Some(channel) = device.channels.remove(&at) else {
        device.report("an unknown completion channel is destroyed");
        return libc::EINVAL;
    };
    // SAFETY: the channel was allocated by `allocate` and is no longer in the table.
    unsafe { free(channel.raw) };
    0
}

#[unsafe(no_mangle)]
extern "C" fn ibv_create_cq(
    context: *mut ib::ibv_context,
    entries: c_int,
    cq_context: *mut c_void,
    channel: *mut ib::ibv_comp_channel,
    _vector: c_int,
) -> *mut ib::ibv_cq {
    let mut device = device();
    let Some(room) = usize::try_from(entries).ok().filter(|room| *room > 0) else {
        return null(libc::EINVAL);
    };
    if device.fails() {
        return null(libc::ENOMEM);
    }
    // SAFETY: the structure contains only integers and raw pointers, so all zeros is a valid value.
    let raw = allocate(ib::ibv_cq { context, channel, cq_context, cqe: entries, ..unsafe { zeros() } });
    let completions = Completions {
        raw,
        context: context.addr(),
        channel: channel.addr(),
        room,
        entries: VecDeque::new(),
        armed: false,
        unacknowledged: 0,
    };
    device.queues.insert(raw.addr(), completions);
    raw
}

#[unsafe(no_mangle)]
extern "C" fn ibv_destroy_cq(cq: *mut ib::ibv_cq) -> c_int {
    let mut device = device();
    let at = cq.addr();
    if device.pairs.values().any(|pair| pair.queue == at) {
        device.report("a completion queue is destroyed before its queue pair");
        return libc::EBUSY;
    }
    let Some(queue) = device.queues.remove(&at) else {
        device.report("an unknown completion queue is destroyed");
        return libc::EINVAL;
    };
    // Unread events are removed with the queue. Events that were read must have been acknowledged.
    let unread = device.channels.get_mut(&queue.channel).map_or(0, |channel| {
        let before = channel.waiting.len();
        channel.waiting.retain(|waiting| *waiting != at);
        before - channel.waiting.len()
    });
    if usize::try_from(queue.unacknowledged) != Ok(unread) {
        device.report(
            "a completion queue is destroyed before its events are acknowledged, which would deadlock",
        );
    }
    // SAFETY: the queue was allocated by `allocate` and is no longer in the table.
    unsafe { free(queue.raw) };
    0
}

#[unsafe(no_mangle)]
extern "C" fn ibv_get_cq_event(
    channel: *mut ib::ibv_comp_channel,
    cq: *mut *mut ib::ibv_cq,
    cq_context: *mut *mut c_void,
) -> c_int {
    let mut device = device();
    let Some(events) = device.channels.get_mut(&channel.addr()) else {
        device.report("an unknown completion channel is read");
        return failed(libc::EINVAL);
    };
    if let Err(errno) = events.signal.clear() {
        return failed(errno);
    }
    let queue = events.waiting.pop_front().and_then(|queue| device.queues.get(&queue));
    let Some(queue) = queue else { return failed(libc::EIO) };
    // SAFETY: the caller's pointers are writable, and the queue is alive.
    unsafe {
        cq.write(queue.raw);
        cq_context.write((*queue.raw).cq_context);
    }
    0
}

#[unsafe(no_mangle)]
extern "C" fn ibv_ack_cq_events(cq: *mut ib::ibv_cq, count: c_uint) {
    let mut device = device();
    let acknowledged = device.queues.get_mut(&cq.addr()).and_then(|queue| {
        queue.unacknowledged = queue.unacknowledged.checked_sub(count)?;
        Some(())
    });
    if acknowledged.is_none() {
        device.report("more completion events are acknowledged than were generated");
    }
}

pub(super) extern "C" fn poll_cq(cq: *mut ib::ibv_cq, room: c_int, into: *mut ib::ibv_wc) -> c_int {
    let mut device = device();
    let Some(queue) = device.queues.get_mut(&cq.addr()) else { return -1 };
    let count = queue.entries.len().min(usize::try_from(room).unwrap_or(0));
    let polled: Vec<Entry> = queue.entries.drain(..count).collect();
    for (index, entry) in polled.iter().enumerate() {
        // SAFETY: the caller's array has room for `count` completions, and both types have the same layout.
        unsafe { into.add(index).cast::<Entry>().write(*entry) };
        device.polled(entry);
    }
    c_int::try_from(count).unwrap_or(c_int::MAX)
}

pub(super) extern "C" fn req_notify_cq(cq: *mut ib::ibv_cq, _solicited: c_int) -> c_int {
    let mut device = device();
    if device.faults.late_completions {
        device.faults.stalled = false;
        device.run();
    }
    let Some(queue) = device.queues.get_mut(&cq.addr()) else { return libc::EINVAL };
    queue.armed = true;
    0
}

#[unsafe(no_mangle)]
extern "C" fn ibv_wc_status_str(_status: ibv_wc_status::Type) -> *const std::ffi::c_char {
    c"work request failed".as_ptr()
}
