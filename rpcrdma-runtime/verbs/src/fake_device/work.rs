//! Queue pairs and their posted work.

use std::collections::VecDeque;
use std::ptr;
use std::slice;

use ib::{ibv_wc_flags, ibv_wc_opcode, ibv_wc_status, ibv_wr_opcode};
use ibverbs_sys as ib;
use libc::c_int;

use super::memory::{Binding, REMOTE_READ, REMOTE_WRITE, touch};
use super::queues::Entry;
use super::{Device, allocate, device, free, zeros};

pub(super) struct Pair {
    raw: *mut ib::ibv_qp,
    number: u32,
    pub(super) domain: usize,
    pub(super) queue: usize,
    room: ib::ibv_qp_cap,
    state: State,
    sends: VecDeque<Posted>,
    receives: VecDeque<Receive>,
    /// Executed unsignaled work, whose memory the device may still access until the next completion.
    done: VecDeque<Posted>,
    /// The numbers of the requests that occupy the send queue. A request leaves the queue once its own or a
    /// later completion is polled.
    outstanding_sends: VecDeque<u64>,
    outstanding_receives: u32,
}

enum State {
    /// Accepts only Receives.
    Created,
    /// Connected to this peer.
    Ready(usize),
    Failed,
}

struct Posted {
    number: u64,
    signaled: bool,
    work: Work,
    sges: Vec<ib::ibv_sge>,
    /// Inline data, in place of the scatter/gather elements.
    inline: Option<Vec<u8>>,
}

enum Work {
    Send { invalidate: Option<u32> },
    Write { address: u64, key: u32 },
    Read { address: u64, key: u32 },
    Bind(Binding),
    Invalidate(u32),
}

struct Receive {
    number: u64,
    sges: Vec<ib::ibv_sge>,
}

enum Outcome {
    Done,
    /// The peer has no posted Receive. The work is retried later.
    NoReceive,
    /// The local status, and the number and status of the failed Receive of the peer, if any.
    Failed(ibv_wc_status::Type, Option<(u64, ibv_wc_status::Type)>),
}

impl Work {
    fn opcode(&self) -> ibv_wc_opcode::Type {
        match self {
            Work::Send { .. } => ibv_wc_opcode::IBV_WC_SEND,
            Work::Write { .. } => ibv_wc_opcode::IBV_WC_RDMA_WRITE,
            Work::Read { .. } => ibv_wc_opcode::IBV_WC_RDMA_READ,
            Work::Bind(_) => ibv_wc_opcode::IBV_WC_BIND_MW,
            Work::Invalidate(_) => ibv_wc_opcode::IBV_WC_LOCAL_INV,
        }
    }
}

impl Posted {
    fn len(&self) -> usize {
        let sges = || self.sges.iter().map(|sge| sge.length as usize).sum();
        self.inline.as_ref().map_or_else(sges, Vec::len)
    }
}

impl Device {
    /// Returns true if the device may still use the L_Key `key` for posted work.
    pub(super) fn is_used_by_work(&self, key: u32) -> bool {
        let has_key = |sges: &[ib::ibv_sge]| sges.iter().any(|sge| sge.lkey == key);
        self.pairs.values().any(|pair| {
            pair.sends.iter().chain(&pair.done).any(|posted| has_key(&posted.sges))
                || pair.receives.iter().any(|receive| has_key(&receive.sges))
        })
    }

    pub(super) fn create_pair(
        &mut self,
        context: *mut ib::ibv_context,
        pd: *mut ib::ibv_pd,
        attributes: &ib::ibv_qp_init_attr,
    ) -> Result<*mut ib::ibv_qp, c_int> {
        let cap = attributes.cap;
        let fails = self.fails() || self.faults.fail_queue_pairs;
        if fails || cap.max_inline_data > self.settings.max_inline {
            return Err(libc::EINVAL);
        }
        let number = self.number();
        let raw = allocate(ib::ibv_qp {
            context,
            pd,
            send_cq: attributes.send_cq,
            recv_cq: attributes.recv_cq,
            qp_num: number,
            qp_type: attributes.qp_type,
            // SAFETY: the structure contains only integers and raw pointers, so all zeros is a valid value.
            ..unsafe { zeros() }
        });
        let pair = Pair {
            raw,
            number,
            domain: pd.addr(),
            queue: attributes.send_cq.addr(),
            room: cap,
            state: State::Created,
            sends: VecDeque::new(),
            receives: VecDeque::new(),
            done: VecDeque::new(),
            outstanding_sends: VecDeque::new(),
            outstanding_receives: 0,
        };
        self.pairs.insert(raw.addr(), pair);
        Ok(raw)
    }

    pub(super) fn join(&mut self, one: usize, other: usize) {
        for (at, peer) in [(one, other), (other, one)] {
            if let Some(pair) = self.pairs.get_mut(&at) {
                pair.state = State::Ready(peer);
            }
        }
    }

    /// Completes all posted work of a queue pair with an error.
    pub(super) fn flush(&mut self, at: usize) {
        let Some(pair) = self.pairs.get_mut(&at) else { return };
        pair.state = State::Failed;
        pair.done.clear();
        let (number, queue) = (pair.number, pair.queue);
        let sends = std::mem::take(&mut pair.sends);
        let receives = std::mem::take(&mut pair.receives);
        let flushed = sends.iter().map(|posted| (posted.number, posted.work.opcode()));
        let received = receives.iter().map(|receive| (receive.number, ibv_wc_opcode::IBV_WC_RECV));
        for (work, opcode) in flushed.chain(received) {
            self.completed(queue, entry(work, number, ibv_wc_status::IBV_WC_WR_FLUSH_ERR, opcode));
        }
    }

    /// Destroys a queue pair. Before this call, the device may access the memory of all posted work.
    pub(super) fn destroy_pair(&mut self, at: usize) {
        self.touch_work(at);
        let Some(pair) = self.pairs.remove(&at) else {
            return self.report("an unknown queue pair is destroyed");
        };
        self.remove_completions(pair.queue, pair.number);
        // SAFETY: the queue pair was allocated by `allocate` and is no longer in the table.
        unsafe { free(pair.raw) };
    }

    fn touch_work(&mut self, at: usize) {
        let Some(pair) = self.pairs.get(&at) else { return };
        let sent = pair.sends.iter().chain(&pair.done).filter(|posted| posted.inline.is_none());
        let sent = sent
            .flat_map(|posted| posted.sges.iter().map(|sge| (sge, matches!(posted.work, Work::Read { .. }))));
        let received = pair.receives.iter().flat_map(|receive| receive.sges.iter().map(|sge| (sge, true)));
        let mut lost = 0;
        for (sge, writes) in sent.chain(received) {
            match self.local(pair.domain, sge, writes) {
                Some(memory) => touch(memory, sge.length as usize, writes),
                None => lost += 1,
            }
        }
        if lost > 0 {
            self.report("memory of posted work was deregistered before its queue pair was destroyed");
        }
    }

    /// Frees the entries of the send queue or the receive queue that a polled completion covers.
    pub(super) fn polled(&mut self, entry: &Entry) {
        let pair = self.pairs.values_mut().find(|pair| pair.number == entry.pair);
        let Some(pair) = pair else { return };
        if entry.opcode == ibv_wc_opcode::IBV_WC_RECV {
            pair.outstanding_receives = pair.outstanding_receives.saturating_sub(1);
            return;
        }
        while let Some(number) = pair.outstanding_sends.pop_front() {
            if number == entry.number {
                break;
            }
        }
    }

    /// Executes posted work until no queue pair can proceed.
    pub(super) fn run(&mut self) {
        if self.faults.stalled || self.gone {
            return;
        }
        let all: Vec<usize> = self.pairs.keys().copied().collect();
        while all.iter().any(|at| self.step(*at)) {}
    }

    /// Executes the first work request of a queue pair. Returns true if the queue pair made progress.
    fn step(&mut self, at: usize) -> bool {
        let Some(pair) = self.pairs.get_mut(&at) else { return false };
        let State::Ready(peer) = pair.state else { return false };
        let (number, queue) = (pair.number, pair.queue);
        let Some(posted) = pair.sends.pop_front() else { return false };
        let outcome = self.perform(at, peer, &posted);
        let (work, opcode) = (posted.number, posted.work.opcode());
        let Some(pair) = self.pairs.get_mut(&at) else { return false };
        match outcome {
            Outcome::NoReceive => {
                pair.sends.push_front(posted);
                return false;
            }
            Outcome::Done if posted.signaled => {
                pair.done.clear();
                self.completed(queue, entry(work, number, ibv_wc_status::IBV_WC_SUCCESS, opcode));
            }
            Outcome::Done => pair.done.push_back(posted),
            Outcome::Failed(status, failed_receive) => {
                self.completed(queue, entry(work, number, status, opcode));
                self.flush(at);
                self.fail_peer(peer, failed_receive);
            }
        }
        true
    }

    fn fail_peer(&mut self, peer: usize, failed_receive: Option<(u64, ibv_wc_status::Type)>) {
        let Some(pair) = self.pairs.get(&peer) else { return };
        if let Some((receive, status)) = failed_receive {
            let (number, queue) = (pair.number, pair.queue);
            self.completed(queue, entry(receive, number, status, ibv_wc_opcode::IBV_WC_RECV));
        }
        self.flush(peer);
    }

    fn perform(&mut self, at: usize, peer: usize, posted: &Posted) -> Outcome {
        let Some(domain) = self.pairs.get(&at).map(|pair| pair.domain) else { return Outcome::NoReceive };
        match &posted.work {
            Work::Bind(binding) if self.bind((at, domain), binding) => Outcome::Done,
            Work::Bind(_) => Outcome::Failed(ibv_wc_status::IBV_WC_MW_BIND_ERR, None),
            Work::Invalidate(key) if self.unbind(at, *key) => Outcome::Done,
            Work::Invalidate(_) => Outcome::Failed(ibv_wc_status::IBV_WC_LOC_PROT_ERR, None),
            Work::Send { invalidate } => self.send(domain, peer, posted, *invalidate),
            Work::Write { address, key } => self.transfer(domain, peer, posted, (*address, *key), true),
            Work::Read { address, key } => self.transfer(domain, peer, posted, (*address, *key), false),
        }
    }

    /// Returns the octets of a Send or RDMA Write, or `None` if their memory is not registered.
    fn gathered(&self, domain: usize, posted: &Posted) -> Option<Vec<u8>> {
        if let Some(inline) = &posted.inline {
            return Some(inline.clone());
        }
        let mut octets = Vec::with_capacity(posted.len());
        for sge in &posted.sges {
            let memory = self.local(domain, sge, false)?;
            // SAFETY: the memory is registered, as in `touch`. Nothing writes the memory during the read.
            octets.extend_from_slice(unsafe { slice::from_raw_parts(memory, sge.length as usize) });
        }
        Some(octets)
    }

    /// Copies octets into local memory. Returns `None` if the octets do not fit or the memory is not
    /// writable.
    fn scatter(&self, domain: usize, sges: &[ib::ibv_sge], mut octets: &[u8]) -> Option<()> {
        for sge in sges {
            let memory = self.local(domain, sge, true)?;
            let (now, rest) = octets.split_at(octets.len().min(sge.length as usize));
            // SAFETY: the memory is registered, as in `touch`. The source is a separate buffer, so the ranges
            // do not overlap.
            unsafe { ptr::copy_nonoverlapping(now.as_ptr(), memory, now.len()) };
            octets = rest;
        }
        octets.is_empty().then_some(())
    }

    fn send(&mut self, domain: usize, peer: usize, posted: &Posted, invalidate: Option<u32>) -> Outcome {
        let Some(octets) = self.gathered(domain, posted) else {
            return Outcome::Failed(ibv_wc_status::IBV_WC_LOC_PROT_ERR, None);
        };
        let Some(pair) = self.pairs.get_mut(&peer).filter(|pair| matches!(pair.state, State::Ready(_)))
        else {
            return Outcome::Failed(ibv_wc_status::IBV_WC_RETRY_EXC_ERR, None);
        };
        let Some(receive) = pair.receives.pop_front() else { return Outcome::NoReceive };
        let (number, queue, to) = (pair.number, pair.queue, pair.domain);
        if self.scatter(to, &receive.sges, &octets).is_none() {
            let failed_receive = Some((receive.number, ibv_wc_status::IBV_WC_LOC_LEN_ERR));
            return Outcome::Failed(ibv_wc_status::IBV_WC_REM_INV_REQ_ERR, failed_receive);
        }
        let mut entry =
            entry(receive.number, number, ibv_wc_status::IBV_WC_SUCCESS, ibv_wc_opcode::IBV_WC_RECV);
        entry.len = u32::try_from(octets.len()).unwrap_or(u32::MAX);
        if let Some(key) = invalidate {
            if !self.unbind(peer, key) {
                let failed_receive = Some((receive.number, ibv_wc_status::IBV_WC_LOC_ACCESS_ERR));
                return Outcome::Failed(ibv_wc_status::IBV_WC_REM_ACCESS_ERR, failed_receive);
            }
            (entry.key, entry.flags) = (key, ibv_wc_flags::IBV_WC_WITH_INV.0);
        }
        self.completed(queue, entry);
        Outcome::Done
    }

    /// Executes an RDMA Write if `writes` is true, otherwise an RDMA Read.
    fn transfer(
        &mut self,
        domain: usize,
        peer: usize,
        posted: &Posted,
        (address, key): (u64, u32),
        writes: bool,
    ) -> Outcome {
        let len = posted.len();
        let access = if writes { REMOTE_WRITE } else { REMOTE_READ };
        let Some(pair) = self.pairs.get(&peer).filter(|pair| matches!(pair.state, State::Ready(_))) else {
            return Outcome::Failed(ibv_wc_status::IBV_WC_RETRY_EXC_ERR, None);
        };
        if len == 0 {
            return Outcome::Done;
        }
        let Some(memory) = self.remote((peer, pair.domain), key, address, len, access) else {
            return Outcome::Failed(ibv_wc_status::IBV_WC_REM_ACCESS_ERR, None);
        };
        let moved = if writes {
            self.gathered(domain, posted).map(|octets| {
                // SAFETY: the memory is registered, as in `touch`, and the key permits writes. The source is
                // a separate buffer, so the ranges do not overlap.
                unsafe { ptr::copy_nonoverlapping(octets.as_ptr(), memory, octets.len()) };
                self.last_write = memory.addr();
            })
        } else {
            // SAFETY: the memory is registered, as in `touch`, and the key permits reads. Nothing writes the
            // memory during the read.
            let mut octets = unsafe { slice::from_raw_parts(memory, len) }.to_vec();
            if self.faults.short_reads {
                octets.truncate(len / 2);
            }
            self.scatter(domain, &posted.sges, &octets)
        };
        match moved {
            Some(()) => Outcome::Done,
            None => Outcome::Failed(ibv_wc_status::IBV_WC_LOC_PROT_ERR, None),
        }
    }

    fn post_send(&mut self, at: usize, request: &ib::ibv_send_wr) -> Result<(), c_int> {
        let signaled = request.send_flags & ib::ibv_send_flags::IBV_SEND_SIGNALED.0 != 0;
        let inline = request.send_flags & ib::ibv_send_flags::IBV_SEND_INLINE.0 != 0;
        let message = self.settings.max_message as usize;
        let pair = self.pairs.get(&at).ok_or(libc::EINVAL)?;
        if pair.outstanding_sends.len() >= pair.room.max_send_wr as usize {
            return Err(libc::ENOMEM);
        }
        if matches!(pair.state, State::Created) {
            return Err(libc::EINVAL);
        }
        let sges = sges(request.sg_list, request.num_sge, pair.room.max_send_sge)?;
        let (room, domain) = (pair.room.max_inline_data as usize, pair.domain);
        let work = convert_request(request).ok_or(libc::EINVAL)?;
        let mut posted = Posted { number: request.wr_id, signaled, work, sges, inline: None };
        if posted.len() > message || (inline && posted.len() > room) {
            return Err(libc::EINVAL);
        }
        if inline {
            posted.inline = Some(self.gathered(domain, &posted).ok_or(libc::EINVAL)?);
            posted.sges.clear();
            self.inlined += 1;
        }
        self.signaled += u32::from(signaled);
        let Some(pair) = self.pairs.get_mut(&at) else { return Err(libc::EINVAL) };
        pair.outstanding_sends.push_back(posted.number);
        pair.sends.push_back(posted);
        if matches!(pair.state, State::Failed) {
            self.flush(at);
        }
        Ok(())
    }

    fn post_receive(&mut self, at: usize, request: &ib::ibv_recv_wr) -> Result<(), c_int> {
        let pair = self.pairs.get(&at).ok_or(libc::EINVAL)?;
        if pair.outstanding_receives >= pair.room.max_recv_wr {
            return Err(libc::ENOMEM);
        }
        let sges = sges(request.sg_list, request.num_sge, pair.room.max_recv_sge)?;
        for sge in &sges {
            let memory = self.local(pair.domain, sge, true).ok_or(libc::EINVAL)?;
            touch(memory, sge.length as usize, true);
        }
        let Some(pair) = self.pairs.get_mut(&at) else { return Err(libc::EINVAL) };
        pair.outstanding_receives += 1;
        pair.receives.push_back(Receive { number: request.wr_id, sges });
        if matches!(pair.state, State::Failed) {
            self.flush(at);
        }
        Ok(())
    }
}

fn entry(number: u64, pair: u32, status: ibv_wc_status::Type, opcode: ibv_wc_opcode::Type) -> Entry {
    Entry { number, status, opcode, vendor: 0, len: 0, key: 0, pair, from: 0, flags: 0, rest: [0; 4] }
}

fn sges(list: *const ib::ibv_sge, count: c_int, max: u32) -> Result<Vec<ib::ibv_sge>, c_int> {
    let count = u32::try_from(count).ok().filter(|count| *count <= max).ok_or(libc::EINVAL)?;
    if count == 0 {
        return Ok(Vec::new());
    }
    // SAFETY: the caller's list has `count` elements.
    Ok(unsafe { slice::from_raw_parts(list, count as usize) }.to_vec())
}

fn convert_request(request: &ib::ibv_send_wr) -> Option<Work> {
    // SAFETY: both union fields contain only integers, so every bit pattern is valid.
    let (rdma, key) = unsafe { (request.wr.rdma, request.__bindgen_anon_1.invalidate_rkey) };
    let (address, remote) = (rdma.remote_addr, rdma.rkey);
    Some(match request.opcode {
        ibv_wr_opcode::IBV_WR_SEND => Work::Send { invalidate: None },
        ibv_wr_opcode::IBV_WR_SEND_WITH_INV => Work::Send { invalidate: Some(key) },
        ibv_wr_opcode::IBV_WR_RDMA_WRITE => Work::Write { address, key: remote },
        ibv_wr_opcode::IBV_WR_RDMA_READ => Work::Read { address, key: remote },
        ibv_wr_opcode::IBV_WR_LOCAL_INV => Work::Invalidate(key),
        ibv_wr_opcode::IBV_WR_BIND_MW => {
            // SAFETY: the opcode selects this union field, which contains only integers and raw pointers.
            let bind = unsafe { request.__bindgen_anon_2.bind_mw };
            Work::Bind(Binding {
                window: bind.mw.addr(),
                key: bind.rkey,
                region: bind.bind_info.mr.addr(),
                address: bind.bind_info.addr,
                len: bind.bind_info.length,
                access: bind.bind_info.mw_access_flags,
            })
        }
        _ => return None,
    })
}

pub(super) extern "C" fn post_send(
    qp: *mut ib::ibv_qp,
    first: *mut ib::ibv_send_wr,
    rejected: *mut *mut ib::ibv_send_wr,
) -> c_int {
    let mut device = device();
    let mut at = first;
    while !at.is_null() {
        // SAFETY: the caller's list is valid and ends with a null pointer.
        let request = unsafe { at.read() };
        let result = match device.faults.fail_sends || device.fails() {
            true => Err(libc::ENOMEM),
            false => device.post_send(qp.addr(), &request),
        };
        if let Err(errno) = result {
            // SAFETY: the caller's pointer is writable.
            unsafe { rejected.write(at) };
            device.run();
            return errno;
        }
        at = request.next;
    }
    device.run();
    0
}

pub(super) extern "C" fn post_recv(
    qp: *mut ib::ibv_qp,
    first: *mut ib::ibv_recv_wr,
    rejected: *mut *mut ib::ibv_recv_wr,
) -> c_int {
    let mut device = device();
    let mut at = first;
    while !at.is_null() {
        // SAFETY: the caller's list is valid and ends with a null pointer.
        let request = unsafe { at.read() };
        let result = match device.faults.fail_receives || device.fails() {
            true => Err(libc::ENOMEM),
            false => device.post_receive(qp.addr(), &request),
        };
        if let Err(errno) = result {
            // SAFETY: the caller's pointer is writable.
            unsafe { rejected.write(at) };
            return errno;
        }
        at = request.next;
    }
    device.run();
    0
}
