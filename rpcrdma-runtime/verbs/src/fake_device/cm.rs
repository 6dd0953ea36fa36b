//! The connection manager: event channels, events and ids.

use std::collections::VecDeque;
use std::mem;
use std::net::SocketAddr;
use std::ptr;

use crate::address::{from_storage, to_storage};
use crate::rdmacm_ffi::{CmEvent, CmId, ConnParam, EventChannel, event};
use libc::c_int;

use super::queues::Signal;
use super::{ADDRESS, Device, allocate, free, zeros};

pub(super) struct EventQueue {
    pub(super) raw: *mut EventChannel,
    pub(super) signal: Signal,
    pub(super) waiting: VecDeque<Event>,
}

pub(super) struct Event {
    pub(super) id: usize,
    /// For a connection request, the id of the client.
    pub(super) from: Option<usize>,
    pub(super) kind: c_int,
    pub(super) status: c_int,
    pub(super) parameters: Parameters,
}

/// The connection parameters that a peer sends.
#[derive(Clone, Default)]
pub(super) struct Parameters {
    pub(super) private_data: Vec<u8>,
    pub(super) ird: u8,
    pub(super) ord: u8,
}

/// An event that was read from its channel but not acknowledged.
pub(super) struct Delivered {
    pub(super) raw: *mut CmEvent,
    pub(super) private_data: *mut [u8],
    pub(super) id: usize,
}

pub(super) struct Ident {
    pub(super) raw: *mut CmId,
    pub(super) channel: usize,
    pub(super) context: Option<usize>,
    pub(super) pair: Option<usize>,
    pub(super) peer: Option<usize>,
    pub(super) step: Step,
    pub(super) parameters: Parameters,
    pub(super) unacknowledged: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    New,
    Listening,
    Resolved,
    Routed,
    Connecting,
    /// The id belongs to a connection request.
    Requested,
    Accepted,
    Connected,
    /// Disconnected by the local program.
    Disconnected,
    Over,
}

impl Ident {
    pub(super) fn source(&self) -> Option<SocketAddr> {
        // SAFETY: the id is in the table, so it is alive.
        from_storage(unsafe { &(*self.raw).source })
    }

    fn destination(&self) -> Option<SocketAddr> {
        // SAFETY: the id is in the table, so it is alive.
        from_storage(unsafe { &(*self.raw).destination })
    }
}

impl Parameters {
    /// # Safety
    /// The pointer to the private data and its length must be valid.
    pub(super) unsafe fn of(parameters: &ConnParam) -> Self {
        let (at, len) = (parameters.private_data.cast::<u8>(), usize::from(parameters.private_data_len));
        let mut private_data = Vec::new();
        if len > 0 {
            // SAFETY: guaranteed by the caller.
            private_data.extend_from_slice(unsafe { std::slice::from_raw_parts(at, len) });
        }
        Parameters { private_data, ird: parameters.responder_resources, ord: parameters.initiator_depth }
    }
}

impl Device {
    pub(super) fn send_event(
        &mut self,
        id: usize,
        kind: c_int,
        status: c_int,
        parameters: Parameters,
        from: Option<usize>,
    ) {
        let Some(channel) = self.ids.get(&id).map(|ident| ident.channel) else { return };
        let Some(queue) = self.event_queues.get_mut(&channel) else {
            return self.report("an event channel was destroyed before its id");
        };
        queue.waiting.push_back(Event { id, from, kind, status, parameters });
        queue.signal.raise();
    }

    pub(super) fn send_plain_event(&mut self, id: usize, kind: c_int) {
        self.send_event(id, kind, 0, Parameters::default(), None);
    }

    /// Sends an event to all ids that are bound to the device.
    pub(super) fn send_event_to_all(&mut self, kind: c_int) {
        let bound = self.ids.iter().filter(|(_, ident)| ident.context.is_some());
        let ids: Vec<usize> = bound.map(|(at, _)| *at).collect();
        ids.into_iter().for_each(|id| self.send_plain_event(id, kind));
    }

    pub(super) fn make_id(&mut self, channel: *mut EventChannel) -> *mut CmId {
        // SAFETY: the structure contains only integers and raw pointers, so all zeros is a valid value.
        let mut id: CmId = unsafe { zeros() };
        id.channel = channel;
        let raw = allocate(id);
        let ident = Ident {
            raw,
            channel: channel.addr(),
            context: None,
            pair: None,
            peer: None,
            step: Step::New,
            parameters: Parameters::default(),
            unacknowledged: 0,
        };
        self.ids.insert(raw.addr(), ident);
        raw
    }

    pub(super) fn bind_id(&mut self, at: usize, source: SocketAddr) {
        let context = self.open();
        let port = if source.port() == 0 {
            40_000 + u16::try_from(self.number() % 20_000).unwrap_or(0)
        } else {
            source.port()
        };
        let Some(ident) = self.ids.get_mut(&at) else { return };
        ident.context = Some(context.addr());
        // SAFETY: the id is in the table, so it is alive.
        unsafe {
            (*ident.raw).verbs = context;
            (*ident.raw).port_num = 1;
            (*ident.raw).source = to_storage(SocketAddr::new(source.ip(), port));
        }
    }

    /// Removes the unread events that satisfy `which` from a channel and returns them.
    pub(super) fn withdraw_events(&mut self, channel: usize, which: impl Fn(&Event) -> bool) -> Vec<Event> {
        let Some(queue) = self.event_queues.get_mut(&channel) else { return Vec::new() };
        let (withdrawn, left): (Vec<Event>, Vec<Event>) =
            mem::take(&mut queue.waiting).into_iter().partition(which);
        queue.waiting = left.into();
        for _ in &withdrawn {
            queue.signal.clear().expect("the signal is set");
        }
        withdrawn
    }

    pub(super) fn connect(&mut self, at: usize, parameters: Parameters) {
        let Some(ident) = self.ids.get_mut(&at) else { return };
        (ident.step, ident.parameters) = (Step::Connecting, parameters.clone());
        let to = ident.destination();
        let listens = |ident: &&Ident| {
            let local = ident.source().map(|source| source.port());
            ident.step == Step::Listening && local == to.map(|to| to.port())
        };
        match self.ids.values().find(listens).map(|listener| listener.raw.addr()) {
            Some(listener) => self.send_event(listener, event::CONNECT_REQUEST, 0, parameters, Some(at)),
            None => self.send_event(at, event::REJECTED, -libc::ECONNREFUSED, Parameters::default(), None),
        }
    }

    /// Creates the id of a connection request, on the listener's channel.
    fn create_request_id(&mut self, listener: usize, from: usize) -> *mut CmId {
        let channel = self.ids.get(&listener).and_then(|ident| self.event_queues.get(&ident.channel));
        let raw = self.make_id(channel.map_or(ptr::null_mut(), |channel| channel.raw));
        let (local, remote) = (self.ids.get(&listener), self.ids.get(&from));
        let (local, remote) = (local.and_then(Ident::source), remote.and_then(Ident::source));
        let (Some(local), Some(remote)) = (local, remote) else { return raw };
        self.bind_id(raw.addr(), SocketAddr::new(ADDRESS.into(), local.port()));
        // SAFETY: the id was allocated above.
        unsafe { (*raw).destination = to_storage(remote) };
        for (at, peer, step) in [(raw.addr(), from, Step::Requested), (from, raw.addr(), Step::Connecting)] {
            if let Some(ident) = self.ids.get_mut(&at) {
                (ident.peer, ident.step) = (Some(peer), step);
            }
        }
        raw
    }

    pub(super) fn accept(&mut self, at: usize, parameters: Parameters) -> Result<(), c_int> {
        let ident =
            self.ids.get_mut(&at).filter(|ident| ident.step == Step::Requested).ok_or(libc::EINVAL)?;
        let own = ident.pair.ok_or(libc::EINVAL)?;
        ident.step = Step::Accepted;
        let peer = ident.peer.ok_or(libc::ECONNRESET)?;
        if self.faults.never_established {
            return Ok(());
        }
        let other = self.ids.get(&peer).ok_or(libc::ECONNRESET)?;
        let pair = other.pair.ok_or(libc::EINVAL)?;
        if parameters.ord > other.parameters.ird || parameters.ird > 16 {
            self.report("more concurrent RDMA Reads than the peer or the device serves");
        }
        self.join(own, pair);
        for id in [at, peer] {
            if let Some(ident) = self.ids.get_mut(&id) {
                ident.step = Step::Connected;
            }
        }
        self.send_event(peer, event::ESTABLISHED, 0, parameters, None);
        self.send_plain_event(at, event::ESTABLISHED);
        Ok(())
    }

    pub(super) fn reject(&mut self, at: usize, parameters: Parameters) -> Result<(), c_int> {
        let ident =
            self.ids.get_mut(&at).filter(|ident| ident.step == Step::Requested).ok_or(libc::EINVAL)?;
        ident.step = Step::Over;
        if let Some(peer) = ident.peer.take() {
            self.unlink(peer, Step::Over);
            self.send_event(peer, event::REJECTED, 28, parameters, None);
        }
        Ok(())
    }

    fn unlink(&mut self, at: usize, step: Step) {
        if let Some(ident) = self.ids.get_mut(&at) {
            (ident.peer, ident.step) = (None, step);
        }
    }

    pub(super) fn disconnect(&mut self, at: usize) -> Result<(), c_int> {
        let ident =
            self.ids.get_mut(&at).filter(|ident| ident.step == Step::Connected).ok_or(libc::EINVAL)?;
        ident.step = Step::Disconnected;
        let (pair, peer) = (ident.pair, ident.peer);
        if let Some(pair) = pair {
            self.flush(pair);
        }
        let Some(peer) = peer.filter(|_| !self.faults.ignore_disconnect) else { return Ok(()) };
        self.send_plain_event(peer, event::DISCONNECTED);
        if self.ids.get(&peer).is_some_and(|ident| ident.step == Step::Disconnected) {
            self.send_plain_event(peer, event::TIMEWAIT_EXIT);
            self.send_plain_event(at, event::TIMEWAIT_EXIT);
        }
        Ok(())
    }

    pub(super) fn destroy_id(&mut self, at: usize) -> Result<(), c_int> {
        let Some(ident) = self.ids.get(&at) else {
            self.report("an unknown id is destroyed");
            return Err(libc::EINVAL);
        };
        let (channel, step, peer) = (ident.channel, ident.step, ident.peer);
        if ident.pair.is_some() {
            self.report("an id is destroyed before its queue pair");
            return Err(libc::EBUSY);
        }
        if ident.unacknowledged > 0 {
            self.report("an id is destroyed before its events are acknowledged, which would deadlock");
        }
        for event in self.withdraw_events(channel, |event| event.id == at) {
            if let Some(from) = event.from {
                self.send_plain_event(from, event::REJECTED);
            }
        }
        let others: Vec<usize> = self.event_queues.keys().copied().collect();
        for other in others {
            self.withdraw_events(other, |event| event.from == Some(at));
        }
        if let Some(peer) = peer {
            let kind = match step {
                Step::Requested | Step::Accepted => event::REJECTED,
                Step::Connecting => event::CONNECT_ERROR,
                _ => event::DISCONNECTED,
            };
            if !self.faults.ignore_disconnect {
                self.send_plain_event(peer, kind);
            }
            if let Some(other) = self.ids.get_mut(&peer) {
                other.peer = None;
            }
        }
        let Some(ident) = self.ids.remove(&at) else { return Err(libc::EINVAL) };
        if let Some(context) = ident.context {
            self.close(context);
        }
        // SAFETY: the id was allocated by `allocate` and is no longer in the table.
        unsafe { free(ident.raw) };
        Ok(())
    }

    /// Allocates the C structure of an event and, for a connection request, the id of the request.
    pub(super) fn deliver(&mut self, mut event: Event) -> *mut CmEvent {
        let (mut id, mut listener) = (event.id, 0);
        if let Some(from) = event.from {
            (id, listener) = (self.create_request_id(event.id, from).addr(), event.id);
        }
        let of = |at| self.ids.get(&at).map_or(ptr::null_mut(), |ident: &Ident| ident.raw);
        if matches!(event.kind, event::CONNECT_REQUEST | event::ESTABLISHED | event::REJECTED) {
            let len = event.parameters.private_data.len().max(self.settings.padded_private_data);
            event.parameters.private_data.resize(len, 0);
        }
        let len = u8::try_from(event.parameters.private_data.len()).unwrap_or(u8::MAX);
        let private_data = Box::into_raw(event.parameters.private_data.into_boxed_slice());
        let raw = allocate(CmEvent {
            id: of(id),
            listen_id: of(listener),
            event: event.kind,
            status: event.status,
            conn: ConnParam {
                private_data: if len > 0 { private_data.cast_const().cast() } else { ptr::null() },
                private_data_len: len,
                // The ORD of one peer is the IRD that the other peer needs.
                responder_resources: event.parameters.ord,
                initiator_depth: event.parameters.ird,
                // SAFETY: the structure contains only integers and raw pointers, so all zeros is a valid
                // value.
                ..unsafe { zeros() }
            },
        });
        if let Some(ident) = self.ids.get_mut(&event.id) {
            ident.unacknowledged += 1;
        }
        self.delivered.insert(raw.addr(), Delivered { raw, private_data, id: event.id });
        raw
    }
}
