//! The connection manager: event channels, events and ids.

use std::collections::VecDeque;
use std::mem;
use std::net::SocketAddr;
use std::ptr;

use crate::address::{from_storage, to_storage};
use crate::rdmacm_ffi::{CmEvent, CmId, ConnParam, EventChannel, event};
use libc::c_int;

use super::queues::Bell;
use super::{ADDRESS, Device, ended, made, zeros};

pub(super) struct EventQueue {
    pub(super) raw: *mut EventChannel,
    pub(super) bell: Bell,
    pub(super) waiting: VecDeque<Event>,
}

/// An event that nobody has taken.
pub(super) struct Event {
    pub(super) id: usize,
    /// Who wants to connect.
    pub(super) from: Option<usize>,
    pub(super) kind: c_int,
    pub(super) status: c_int,
    pub(super) said: Said,
}

/// What one end says to the other when they connect.
#[derive(Clone, Default)]
pub(super) struct Said {
    pub(super) private_data: Vec<u8>,
    pub(super) reads_in: u8,
    pub(super) reads_out: u8,
}

/// An event that was taken, and is not acknowledged.
pub(super) struct Given {
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
    pub(super) said: Said,
    pub(super) unacknowledged: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    New,
    Listening,
    Resolved,
    Routed,
    Connecting,
    /// Its peer asks to connect.
    Asked,
    Accepted,
    Connected,
    /// This end has ended it.
    Ended,
    Over,
}

impl Ident {
    pub(super) fn source(&self) -> Option<SocketAddr> {
        // SAFETY: the id is in the table, so it was not destroyed.
        from_storage(unsafe { &(*self.raw).source })
    }

    fn destination(&self) -> Option<SocketAddr> {
        // SAFETY: as above.
        from_storage(unsafe { &(*self.raw).destination })
    }
}

impl Said {
    /// # Safety
    /// The private data is there.
    pub(super) unsafe fn of(parameters: &ConnParam) -> Self {
        let (at, len) = (parameters.private_data.cast::<u8>(), usize::from(parameters.private_data_len));
        let mut private_data = Vec::new();
        if len > 0 {
            // SAFETY: as the caller says.
            private_data.extend_from_slice(unsafe { std::slice::from_raw_parts(at, len) });
        }
        Said { private_data, reads_in: parameters.responder_resources, reads_out: parameters.initiator_depth }
    }
}

impl Device {
    /// Puts an event in the channel of an id.
    pub(super) fn tell(&mut self, id: usize, kind: c_int, status: c_int, said: Said, from: Option<usize>) {
        let Some(channel) = self.ids.get(&id).map(|ident| ident.channel) else { return };
        let Some(queue) = self.event_queues.get_mut(&channel) else {
            return self.complain("an event channel is gone before its id");
        };
        queue.waiting.push_back(Event { id, from, kind, status, said });
        queue.bell.ring();
    }

    pub(super) fn tell_shortly(&mut self, id: usize, kind: c_int) {
        self.tell(id, kind, 0, Said::default(), None);
    }

    /// Tells all ids that are bound to the device.
    pub(super) fn tell_all(&mut self, kind: c_int) {
        let bound = self.ids.iter().filter(|(_, ident)| ident.context.is_some());
        let ids: Vec<usize> = bound.map(|(at, _)| *at).collect();
        ids.into_iter().for_each(|id| self.tell_shortly(id, kind));
    }

    pub(super) fn make_id(&mut self, channel: *mut EventChannel) -> *mut CmId {
        // SAFETY: it is numbers and pointers only.
        let mut id: CmId = unsafe { zeros() };
        id.channel = channel;
        let raw = made(id);
        let ident = Ident {
            raw,
            channel: channel.addr(),
            context: None,
            pair: None,
            peer: None,
            step: Step::New,
            said: Said::default(),
            unacknowledged: 0,
        };
        self.ids.insert(raw.addr(), ident);
        raw
    }

    /// Binds an id to the device.
    pub(super) fn bound(&mut self, at: usize, source: SocketAddr) {
        let context = self.open();
        let port = if source.port() == 0 {
            40_000 + u16::try_from(self.number() % 20_000).unwrap_or(0)
        } else {
            source.port()
        };
        let Some(ident) = self.ids.get_mut(&at) else { return };
        ident.context = Some(context.addr());
        // SAFETY: the id is in the table, so it was not destroyed.
        unsafe {
            (*ident.raw).verbs = context;
            (*ident.raw).port_num = 1;
            (*ident.raw).source = to_storage(SocketAddr::new(source.ip(), port));
        }
    }

    /// Takes back events that nobody has taken.
    pub(super) fn untell(&mut self, channel: usize, which: impl Fn(&Event) -> bool) -> Vec<Event> {
        let Some(queue) = self.event_queues.get_mut(&channel) else { return Vec::new() };
        let (taken, left): (Vec<Event>, Vec<Event>) =
            mem::take(&mut queue.waiting).into_iter().partition(which);
        queue.waiting = left.into();
        for _ in &taken {
            queue.bell.answer().expect("it was rung");
        }
        taken
    }

    pub(super) fn connect(&mut self, at: usize, said: Said) {
        let Some(ident) = self.ids.get_mut(&at) else { return };
        (ident.step, ident.said) = (Step::Connecting, said.clone());
        let to = ident.destination();
        let listens = |ident: &&Ident| {
            let here = ident.source().map(|source| source.port());
            ident.step == Step::Listening && here == to.map(|to| to.port())
        };
        match self.ids.values().find(listens).map(|listener| listener.raw.addr()) {
            Some(listener) => self.tell(listener, event::CONNECT_REQUEST, 0, said, Some(at)),
            None => self.tell(at, event::REJECTED, -libc::ECONNREFUSED, Said::default(), None),
        }
    }

    /// The id of a peer that asks, on the listener's channel.
    fn asked(&mut self, listener: usize, from: usize) -> *mut CmId {
        let channel = self.ids.get(&listener).and_then(|ident| self.event_queues.get(&ident.channel));
        let raw = self.make_id(channel.map_or(ptr::null_mut(), |channel| channel.raw));
        let (here, there) = (self.ids.get(&listener), self.ids.get(&from));
        let (here, there) = (here.and_then(Ident::source), there.and_then(Ident::source));
        let (Some(here), Some(there)) = (here, there) else { return raw };
        self.bound(raw.addr(), SocketAddr::new(ADDRESS.into(), here.port()));
        // SAFETY: it was made just now.
        unsafe { (*raw).destination = to_storage(there) };
        for (at, peer, step) in [(raw.addr(), from, Step::Asked), (from, raw.addr(), Step::Connecting)] {
            if let Some(ident) = self.ids.get_mut(&at) {
                (ident.peer, ident.step) = (Some(peer), step);
            }
        }
        raw
    }

    pub(super) fn accept(&mut self, at: usize, said: Said) -> Result<(), c_int> {
        let ident = self.ids.get_mut(&at).filter(|ident| ident.step == Step::Asked).ok_or(libc::EINVAL)?;
        let own = ident.pair.ok_or(libc::EINVAL)?;
        ident.step = Step::Accepted;
        let peer = ident.peer.ok_or(libc::ECONNRESET)?;
        if self.faults.never_established {
            return Ok(());
        }
        let other = self.ids.get(&peer).ok_or(libc::ECONNRESET)?;
        let pair = other.pair.ok_or(libc::EINVAL)?;
        if said.reads_out > other.said.reads_in || said.reads_in > 16 {
            self.complain("more RDMA Reads at once than the peer, or the device, serves");
        }
        self.join(own, pair);
        for id in [at, peer] {
            if let Some(ident) = self.ids.get_mut(&id) {
                ident.step = Step::Connected;
            }
        }
        self.tell(peer, event::ESTABLISHED, 0, said, None);
        self.tell_shortly(at, event::ESTABLISHED);
        Ok(())
    }

    pub(super) fn reject(&mut self, at: usize, said: Said) -> Result<(), c_int> {
        let ident = self.ids.get_mut(&at).filter(|ident| ident.step == Step::Asked).ok_or(libc::EINVAL)?;
        ident.step = Step::Over;
        if let Some(peer) = ident.peer.take() {
            self.part(peer, Step::Over);
            self.tell(peer, event::REJECTED, 28, said, None);
        }
        Ok(())
    }

    fn part(&mut self, at: usize, step: Step) {
        if let Some(ident) = self.ids.get_mut(&at) {
            (ident.peer, ident.step) = (None, step);
        }
    }

    pub(super) fn disconnect(&mut self, at: usize) -> Result<(), c_int> {
        let ident =
            self.ids.get_mut(&at).filter(|ident| ident.step == Step::Connected).ok_or(libc::EINVAL)?;
        ident.step = Step::Ended;
        let (pair, peer) = (ident.pair, ident.peer);
        if let Some(pair) = pair {
            self.flush(pair);
        }
        let Some(peer) = peer.filter(|_| !self.faults.end_unanswered) else { return Ok(()) };
        self.tell_shortly(peer, event::DISCONNECTED);
        if self.ids.get(&peer).is_some_and(|ident| ident.step == Step::Ended) {
            self.tell_shortly(peer, event::TIMEWAIT_EXIT);
            self.tell_shortly(at, event::TIMEWAIT_EXIT);
        }
        Ok(())
    }

    /// The end of an id: its peer hears of it.
    pub(super) fn destroy_id(&mut self, at: usize) -> Result<(), c_int> {
        let Some(ident) = self.ids.get(&at) else {
            self.complain("an id is destroyed that is not there");
            return Err(libc::EINVAL);
        };
        let (channel, step, peer) = (ident.channel, ident.step, ident.peer);
        if ident.pair.is_some() {
            self.complain("an id is destroyed before its queue pair");
            return Err(libc::EBUSY);
        }
        if ident.unacknowledged > 0 {
            self.complain("an id is destroyed before its events are acknowledged, which waits for ever");
        }
        for event in self.untell(channel, |event| event.id == at) {
            if let Some(from) = event.from {
                self.tell_shortly(from, event::REJECTED);
            }
        }
        let others: Vec<usize> = self.event_queues.keys().copied().collect();
        for other in others {
            self.untell(other, |event| event.from == Some(at));
        }
        if let Some(peer) = peer {
            let kind = match step {
                Step::Asked | Step::Accepted => event::REJECTED,
                Step::Connecting => event::CONNECT_ERROR,
                _ => event::DISCONNECTED,
            };
            self.tell_shortly(peer, kind);
            if let Some(other) = self.ids.get_mut(&peer) {
                other.peer = None;
            }
        }
        let Some(ident) = self.ids.remove(&at) else { return Err(libc::EINVAL) };
        if let Some(context) = ident.context {
            self.close(context);
        }
        // SAFETY: it was made, and is not in the table any more.
        unsafe { ended(ident.raw) };
        Ok(())
    }

    /// Makes an event as the library hands it out.
    pub(super) fn given(&mut self, mut event: Event) -> *mut CmEvent {
        let (mut id, mut listener) = (event.id, 0);
        if let Some(from) = event.from {
            (id, listener) = (self.asked(event.id, from).addr(), event.id);
        }
        let of = |at| self.ids.get(&at).map_or(ptr::null_mut(), |ident: &Ident| ident.raw);
        if matches!(event.kind, event::CONNECT_REQUEST | event::ESTABLISHED | event::REJECTED) {
            let len = event.said.private_data.len().max(self.settings.filled_up);
            event.said.private_data.resize(len, 0);
        }
        let len = u8::try_from(event.said.private_data.len()).unwrap_or(u8::MAX);
        let private_data = Box::into_raw(event.said.private_data.into_boxed_slice());
        let raw = made(CmEvent {
            id: of(id),
            listen_id: of(listener),
            event: event.kind,
            status: event.status,
            conn: ConnParam {
                private_data: if len > 0 { private_data.cast_const().cast() } else { ptr::null() },
                private_data_len: len,
                // What the one asks for is what the other is to serve.
                responder_resources: event.said.reads_out,
                initiator_depth: event.said.reads_in,
                // SAFETY: it is numbers and pointers only.
                ..unsafe { zeros() }
            },
        });
        if let Some(ident) = self.ids.get_mut(&event.id) {
            ident.unacknowledged += 1;
        }
        self.given.insert(raw.addr(), Given { raw, private_data, id: event.id });
        raw
    }
}
