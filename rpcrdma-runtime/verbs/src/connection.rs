use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::future::Future;
use std::io;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use rpcrdma_runtime::proto::work::{Action, CloseReason, Completion, Memory, Segment, Token};
use rpcrdma_runtime::provider::{Connection, ConnectionInfo};
use tokio::runtime::Handle;
use tokio::sync::oneshot::error::RecvError;
use tokio::task::JoinSet;
use tokio::time::{Instant, Sleep, sleep};
use tracing::{debug, trace};

use super::Options;
use super::blocking;
use super::cm::Kind;
use super::objects::{LONG, Registered};
use super::queue_pair::QueuePair;
use super::request::Work;
use super::windows::{self, Fenced};

/// A connection over an RDMA device.
///
/// Each piece of memory that is advertised has a region of its own, which is destroyed to fence it; where it is advertised through
/// a window, that ends before.
pub struct VerbsConnection {
    /// Until the end. It goes before the regions, which hold what they need.
    queue_pair: Option<QueuePair>,
    regions: BTreeMap<u32, Registered<Memory>>,
    ready: VecDeque<Completion>,
    info: ConnectionInfo,
    options: Options,
    phase: Phase,
    /// What threads do that may wait.
    blocking: JoinSet<Result<Blocking, RecvError>>,
    /// Since when there has been nothing to do; unknown while there is.
    idle: Option<Instant>,
}

/// What became of long memory.
enum Blocking {
    Registered(Token, Result<Registered<Memory>, (Memory, io::Error)>),
    Released(Token, u32, Option<Memory>),
}

/// How far a connection has come.
enum Phase {
    Open,
    /// What was asked for before is to leave, and then the peer is to hear of the end.
    Closing {
        reason: CloseReason,
        disconnected: bool,
        limit: Pin<Box<Sleep>>,
    },
    /// It is over, and this is why; what has come in is still handed on.
    Lost(CloseReason),
    /// Nothing happens any more.
    Closed,
}

impl VerbsConnection {
    pub(super) fn new(queue_pair: QueuePair, info: ConnectionInfo, options: Options) -> Self {
        debug!(peer = ?info.peer, device = ?queue_pair.device(), "verbs connection");
        let (regions, ready) = (BTreeMap::new(), VecDeque::new());
        let (queue_pair, phase) = (Some(queue_pair), Phase::Open);
        VerbsConnection {
            queue_pair,
            regions,
            ready,
            info,
            options,
            phase,
            blocking: JoinSet::new(),
            idle: None,
        }
    }

    fn lose(&mut self, reason: CloseReason) {
        if !matches!(self.phase, Phase::Lost(_) | Phase::Closed) {
            trace!(%reason, "lost");
            // What this side has asked for is why, whatever the device says of the work that was under way.
            let reason = match mem::replace(&mut self.phase, Phase::Closed) {
                Phase::Closing { reason: own, .. } => own,
                _ => reason,
            };
            self.phase = Phase::Lost(reason);
        }
    }

    fn register(&mut self, token: Token, mut memory: Memory) {
        memory.initialize();
        let (Some(queue_pair), Ok(length)) = (&self.queue_pair, u32::try_from(memory.len())) else {
            return self.ready.push_back(Completion::RegisterFailed { token, memory });
        };
        let (domain, windowed) = (queue_pair.domain().clone(), queue_pair.has_windows());
        if memory.len() >= LONG && Handle::try_current().is_ok() {
            let register = move || Blocking::Registered(token, windows::register(&domain, memory, windowed));
            return self.run_blocking(register);
        }
        self.registered(token, length, windows::register(&domain, memory, windowed));
    }

    fn registered(
        &mut self,
        token: Token,
        length: u32,
        made: Result<Registered<Memory>, (Memory, io::Error)>,
    ) {
        match made.and_then(|region| self.advertised(region)) {
            Ok((handle, offset)) => {
                let segment = Segment { handle, length, offset };
                self.ready.push_back(Completion::Registered { token, segment });
            }
            Err((memory, error)) => {
                debug!(%error, length, "memory was not registered");
                self.ready.push_back(Completion::RegisterFailed { token, memory });
            }
        }
    }

    /// The handle of a region, or of a window over it, and where it begins.
    fn advertised(&mut self, region: Registered<Memory>) -> Result<(u32, u64), (Memory, io::Error)> {
        let address = region.address();
        match &mut self.queue_pair {
            Some(queue_pair) if queue_pair.has_windows() => {
                let bound = queue_pair.bind(region).map(|handle| (handle, address));
                // Memory that the device does not let go of is not given back; an empty piece is, in its place.
                bound.map_err(|(region, error)| {
                    (region.release().unwrap_or(Memory::Source(Default::default())), error)
                })
            }
            _ => {
                let handle = region.remote_key();
                self.regions.insert(handle, region);
                Ok((handle, address))
            }
        }
    }

    fn invalidate(&mut self, token: Token, handle: u32) {
        if let Some(region) = self.regions.remove(&handle) {
            return self.release(token, handle, region);
        }
        let flows = matches!(self.phase, Phase::Open | Phase::Closing { disconnected: false, .. });
        // Later, all windows end with the connection, and their memory comes back with the last completion.
        if flows && self.queue_pair.as_mut().is_some_and(|queue_pair| queue_pair.unbind(token, handle)) {
            self.take_fenced();
        } else {
            // The engine asks for what it was given, once.
            debug!(handle, "no such handle, or too late");
        }
    }

    /// Destroys the regions whose windows have ended.
    fn take_fenced(&mut self) {
        let fenced = self.queue_pair.as_mut().map(QueuePair::fenced).unwrap_or_default();
        for Fenced { token, handle, region } in fenced {
            self.release(token, handle, region);
        }
    }

    fn release(&mut self, token: Token, handle: u32, region: Registered<Memory>) {
        if region.len() >= LONG && Handle::try_current().is_ok() {
            self.run_blocking(move || Blocking::Released(token, handle, region.release()));
        } else {
            self.released(token, handle, region.release());
        }
    }

    fn released(&mut self, token: Token, handle: u32, memory: Option<Memory>) {
        match memory {
            Some(memory) => self.ready.push_back(Completion::Invalidated { token, handle, memory }),
            None => self.lose(CloseReason::Io("the device does not let go of memory".into())),
        }
    }

    fn run_blocking(&mut self, work: impl FnOnce() -> Blocking + Send + 'static) {
        match blocking::spawn(work) {
            Ok(done) => drop(self.blocking.spawn(done)),
            Err(error) => self.lose(CloseReason::Io(error.to_string())),
        }
    }

    /// Takes a result of blocking work. Returns true if there was one.
    fn poll_blocking(&mut self, cx: &mut Context<'_>) -> bool {
        let Poll::Ready(Some(done)) = self.blocking.poll_join_next(cx) else { return false };
        match done {
            Ok(Ok(Blocking::Registered(token, made))) => {
                let length = made.as_ref().map_or_else(|(memory, _)| memory.len(), Registered::len);
                self.registered(token, u32::try_from(length).unwrap_or(u32::MAX), made);
            }
            Ok(Ok(Blocking::Released(token, handle, memory))) => self.released(token, handle, memory),
            Ok(Err(error)) => self.lose(CloseReason::Io(error.to_string())),
            Err(error) => self.lose(CloseReason::Io(error.to_string())),
        }
        true
    }

    fn close(&mut self, reason: CloseReason) {
        if matches!(self.phase, Phase::Open) {
            let limit = Box::pin(sleep(self.options.flush_timeout));
            self.phase = Phase::Closing { reason, disconnected: false, limit };
        }
    }

    /// Gives the device what there is to do, and takes what it has done. Says whether there was something.
    fn work(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(queue_pair) = &mut self.queue_pair else { return false };
        if matches!(self.phase, Phase::Open | Phase::Closing { disconnected: false, .. })
            && let Err(error) = queue_pair.flush(cx)
        {
            self.lose(CloseReason::Io(error.to_string()));
            return true;
        }
        let polled = queue_pair.poll(&mut self.ready);
        self.take_fenced();
        match polled {
            Ok(some) => some,
            Err(reason) => {
                self.lose(reason);
                true
            }
        }
    }

    /// What the connection manager says. Says whether it did.
    fn listen(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(queue_pair) = &self.queue_pair else { return false };
        let Poll::Ready(event) = queue_pair.id().poll_event(cx) else { return false };
        let event = match event {
            Ok(event) => event,
            Err(error) => {
                self.lose(CloseReason::Io(error.to_string()));
                return true;
            }
        };
        trace!(event = event.name(), "connection manager");
        match event.kind() {
            Kind::Disconnected => self.disconnected(),
            Kind::DeviceRemoved => self.lose(CloseReason::Io("the RDMA device is gone".into())),
            Kind::AddressChanged => {
                self.lose(CloseReason::Io("the network device has another address now".into()));
            }
            Kind::Failed | Kind::Rejected => self.lose(CloseReason::Io(event.name())),
            _ => {}
        }
        true
    }

    /// The peer has ended it, or has answered our end. What it sent before is in the queue still.
    fn disconnected(&mut self) {
        if let Some(queue_pair) = &mut self.queue_pair {
            // It answers the peer, and has the queue pair give back what it has.
            let _ = queue_pair.id().disconnect();
            while !matches!(self.phase, Phase::Lost(_))
                && matches!(queue_pair.poll(&mut self.ready), Ok(true))
            {}
        }
        self.lose(CloseReason::Peer);
    }

    /// Goes on with the end. Says whether there was something to do.
    fn go_on_closing(&mut self, cx: &mut Context<'_>) -> bool {
        let Phase::Closing { reason, disconnected, limit } = &mut self.phase else { return false };
        let idle = self.queue_pair.as_ref().is_none_or(QueuePair::is_idle);
        let late = limit.as_mut().poll(cx).is_ready();
        if *disconnected {
            if late {
                let reason = reason.clone();
                self.lose(reason);
            }
            return late;
        }
        if !idle && !late {
            return false;
        }
        let told = self.queue_pair.as_ref().is_some_and(|queue_pair| queue_pair.id().disconnect().is_ok());
        *disconnected = true;
        limit.as_mut().reset(Instant::now() + if told { self.options.linger } else { Default::default() });
        true
    }

    /// Whether to look again, and not to wait.
    fn spins(&mut self) -> bool {
        let spin = self.options.spin;
        !spin.is_zero() && self.idle.get_or_insert_with(Instant::now).elapsed() < spin
    }

    /// The last completion: the queue pair goes, then all regions, and their memory comes back.
    fn end(&mut self, reason: CloseReason) -> Completion {
        debug!(%reason, "verbs connection closed");
        let mut regions: Vec<_> = mem::take(&mut self.regions).into_values().collect();
        if let Some(mut queue_pair) = self.queue_pair.take() {
            let _ = queue_pair.id().disconnect();
            regions.extend(queue_pair.end_windows());
        }
        let returned = regions.into_iter().filter_map(Registered::release).collect();
        Completion::Closed { reason, returned }
    }
}

impl Connection for VerbsConnection {
    fn submit(&mut self, action: Action) {
        let open = matches!(self.phase, Phase::Open);
        match (action, &mut self.queue_pair) {
            // Memory comes back however the connection is.
            (Action::Register { token, memory }, _) if !open => {
                self.ready.push_back(Completion::RegisterFailed { token, memory });
            }
            (Action::Register { token, memory }, _) => self.register(token, memory),
            (Action::Invalidate { token, handle }, _) => self.invalidate(token, handle),
            (Action::Close { reason }, _) => self.close(reason),
            (Action::PostReceives { count }, Some(queue_pair)) if open => {
                if let Err(error) = queue_pair.ask_receives(count) {
                    self.lose(CloseReason::Io(error.to_string()));
                }
            }
            (Action::Send { token, message, invalidate }, Some(queue_pair)) if open => {
                queue_pair.submit(Work::Send { token, message, invalidate });
            }
            // Siw registers nothing that is empty, and the peer's device has nothing to say to it.
            (Action::Read { token, source }, Some(_)) if open && source.length == 0 => {
                self.ready.push_back(Completion::ReadDone { token, data: Bytes::new() });
            }
            (Action::Read { token, source }, Some(queue_pair)) if open => {
                queue_pair.submit(Work::Read { token, source });
            }
            (Action::Write { token, sink, data }, Some(queue_pair)) if open => {
                queue_pair.submit(Work::Write { token, sink, data });
            }
            // It has failed with the connection.
            _ => {}
        }
    }

    fn poll_completion(&mut self, cx: &mut Context<'_>) -> Poll<Completion> {
        loop {
            if matches!(self.phase, Phase::Closed) {
                return Poll::Pending;
            }
            if let Some(completion) = self.ready.pop_front() {
                return Poll::Ready(completion);
            }
            if self.poll_blocking(cx) {
                continue;
            }
            // All memory comes back first.
            if matches!(self.phase, Phase::Lost(_)) && !self.blocking.is_empty() {
                return Poll::Pending;
            }
            if let Phase::Lost(_) = &self.phase
                && let Phase::Lost(reason) = mem::replace(&mut self.phase, Phase::Closed)
            {
                return Poll::Ready(self.end(reason));
            }
            if self.work(cx) || self.listen(cx) || self.go_on_closing(cx) {
                self.idle = None;
                continue;
            }
            if self.spins() {
                // Others have their turn meanwhile.
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            let Some(queue_pair) = &mut self.queue_pair else { return Poll::Pending };
            match queue_pair.poll_event(cx) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(error)) => self.lose(CloseReason::Io(error.to_string())),
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    fn info(&self) -> &ConnectionInfo {
        &self.info
    }
}

impl Drop for VerbsConnection {
    fn drop(&mut self) {
        if let Some(queue_pair) = self.queue_pair.take() {
            let _ = queue_pair.id().disconnect();
        }
    }
}

impl fmt::Debug for VerbsConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VerbsConnection").field("info", &self.info).finish_non_exhaustive()
    }
}
