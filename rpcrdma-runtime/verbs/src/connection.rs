use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::future::Future;
use std::io;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use rpcrdma_runtime::proto::work::{Action, CloseReason, Completion, Memory, Segment, Token};
use rpcrdma_runtime::provider::{Connection, ConnectionInfo};
use tokio::runtime::Handle;
use tokio::sync::oneshot::error::RecvError;
use tokio::task::JoinSet;
use tokio::time::{Instant, Sleep, sleep};
use tracing::{debug, trace};

use super::VerbsOptions;
use super::blocking;
use super::cm::Kind;
use super::objects::{LONG, Registered};
use super::pace::Pace;
use super::queue_pair::QueuePair;
use super::request::Work;
use super::windows::{self, Fenced};

/// The minimum keepalive interval. A shorter [`VerbsOptions::keepalive`] is raised to this value.
const MIN_KEEPALIVE: Duration = Duration::from_millis(1);

/// A connection over an RDMA device.
///
/// Each advertised buffer has its own memory region, which is deregistered to fence the buffer. If the buffer
/// is advertised through a memory window, the window is invalidated first.
pub struct VerbsConnection {
    /// `None` after the connection is closed. The queue pair is dropped before the regions.
    queue_pair: Option<QueuePair>,
    regions: BTreeMap<u32, Registered<Memory>>,
    ready: VecDeque<Completion>,
    info: ConnectionInfo,
    options: VerbsOptions,
    phase: Phase,
    /// Registrations and deregistrations of advertised memory that run on other threads.
    blocking: JoinSet<Result<Blocking, RecvError>>,
    /// The time at which polling stopped making progress, for [`VerbsOptions::spin`].
    idle_since: Option<Instant>,
    /// The end of the current interval of [`VerbsOptions::keepalive`].
    keepalive: Option<Pin<Box<Sleep>>>,
    /// Whether any work, including a Receive, completed in the current keepalive interval.
    active: bool,
    /// Enforces the minimum rate. `None` if any rate is allowed, as for all clients.
    pace: Option<Pace>,
}

enum Blocking {
    Registered(Token, Result<Registered<Memory>, (Memory, io::Error)>),
    Released(Token, u32, Option<Memory>),
}

enum Phase {
    Open,
    /// The connection disconnects after all queued work has completed or `limit` has expired. After the
    /// disconnect, `limit` bounds the wait for the peer's response ([`VerbsOptions::linger`]).
    Closing {
        reason: CloseReason,
        disconnected: bool,
        limit: Pin<Box<Sleep>>,
    },
    /// The connection failed or ended. Earlier completions are still delivered.
    Lost(CloseReason),
    /// The last completion, `Completion::Closed`, has been delivered.
    Closed,
}

impl VerbsConnection {
    pub(super) fn new(queue_pair: QueuePair, info: ConnectionInfo, options: VerbsOptions) -> Self {
        debug!(peer = ?info.peer, device = ?queue_pair.device(), "verbs connection established");
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
            idle_since: None,
            keepalive: None,
            active: false,
            pace: Pace::new(options.min_rate),
        }
    }

    fn connection_lost(&mut self, reason: CloseReason) {
        if !matches!(self.phase, Phase::Lost(_) | Phase::Closed) {
            trace!(%reason, "connection lost");
            // A local close takes precedence over the errors of the work that it cancels.
            let reason = match mem::replace(&mut self.phase, Phase::Closed) {
                Phase::Closing { reason: local, .. } => local,
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
        self.complete_registration(token, length, windows::register(&domain, memory, windowed));
    }

    fn complete_registration(
        &mut self,
        token: Token,
        length: u32,
        result: Result<Registered<Memory>, (Memory, io::Error)>,
    ) {
        match result.and_then(|region| self.advertise(region)) {
            Ok((handle, offset)) => {
                let segment = Segment { handle, length, offset };
                self.ready.push_back(Completion::Registered { token, segment });
            }
            Err((memory, error)) => {
                debug!(%error, length, "memory registration failed");
                self.ready.push_back(Completion::RegisterFailed { token, memory });
            }
        }
    }

    /// Advertises a region, or a window bound to the region. Returns the handle and the address.
    fn advertise(&mut self, region: Registered<Memory>) -> Result<(u32, u64), (Memory, io::Error)> {
        let address = region.address();
        match &mut self.queue_pair {
            Some(queue_pair) if queue_pair.has_windows() => {
                let bound = queue_pair.bind(region).map(|handle| (handle, address));
                // Memory that cannot be deregistered is leaked. The error then contains an empty buffer
                // instead.
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
        let can_post = matches!(self.phase, Phase::Open | Phase::Closing { disconnected: false, .. });
        // Once the connection is lost or disconnected, the last completion returns the memory of all windows.
        if can_post && self.queue_pair.as_mut().is_some_and(|queue_pair| queue_pair.unbind(token, handle)) {
            self.take_fenced();
        } else {
            debug!(handle, "not invalidated: unknown handle, or the connection is closing");
        }
    }

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
            self.complete_release(token, handle, region.release());
        }
    }

    fn complete_release(&mut self, token: Token, handle: u32, memory: Option<Memory>) {
        match memory {
            Some(memory) => self.ready.push_back(Completion::Invalidated { token, handle, memory }),
            None => self.connection_lost(CloseReason::Io("memory deregistration failed".into())),
        }
    }

    fn run_blocking(&mut self, work: impl FnOnce() -> Blocking + Send + 'static) {
        match blocking::spawn(work) {
            Ok(receiver) => drop(self.blocking.spawn(receiver)),
            Err(error) => self.connection_lost(CloseReason::Io(error.to_string())),
        }
    }

    /// Handles the result of one blocking job. Returns true if a result was ready.
    fn poll_blocking(&mut self, cx: &mut Context<'_>) -> bool {
        let Poll::Ready(Some(joined)) = self.blocking.poll_join_next(cx) else { return false };
        match joined {
            Ok(Ok(Blocking::Registered(token, result))) => {
                let length = result.as_ref().map_or_else(|(memory, _)| memory.len(), Registered::len);
                self.complete_registration(token, u32::try_from(length).unwrap_or(u32::MAX), result);
            }
            Ok(Ok(Blocking::Released(token, handle, memory))) => {
                self.complete_release(token, handle, memory);
            }
            Ok(Err(error)) => self.connection_lost(CloseReason::Io(error.to_string())),
            Err(error) => self.connection_lost(CloseReason::Io(error.to_string())),
        }
        true
    }

    fn close(&mut self, reason: CloseReason) {
        if matches!(self.phase, Phase::Open) {
            let limit = Box::pin(sleep(self.options.flush_timeout));
            self.phase = Phase::Closing { reason, disconnected: false, limit };
        }
    }

    /// Posts queued work ([`QueuePair::flush`]). Returns false if the connection fails.
    fn flush(&mut self, cx: Option<&mut Context<'_>>) -> bool {
        if matches!(self.phase, Phase::Open | Phase::Closing { disconnected: false, .. })
            && let Some(queue_pair) = &mut self.queue_pair
            && let Err(error) = queue_pair.flush(cx)
        {
            self.connection_lost(CloseReason::Io(error.to_string()));
            return false;
        }
        true
    }

    /// Posts queued work and polls the completion queue. Returns true if the call made progress.
    fn drive_queue_pair(&mut self, cx: &mut Context<'_>) -> bool {
        if !self.flush(Some(cx)) {
            return true;
        }
        let Some(queue_pair) = &mut self.queue_pair else { return false };
        let polled = queue_pair.poll(&mut self.ready);
        self.take_fenced();
        match polled {
            Ok(progress) => {
                self.active |= progress;
                progress
            }
            Err(reason) => {
                self.connection_lost(reason);
                true
            }
        }
    }

    /// Handles one event of the connection manager. Returns true if an event or an error was pending.
    fn poll_connection_manager(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(queue_pair) = &self.queue_pair else { return false };
        let Poll::Ready(event) = queue_pair.id().poll_event(cx) else { return false };
        let event = match event {
            Ok(event) => event,
            Err(error) => {
                self.connection_lost(CloseReason::Io(error.to_string()));
                return true;
            }
        };
        trace!(event = event.name(), "connection manager event");
        match event.kind() {
            Kind::Disconnected => self.disconnected(),
            Kind::DeviceRemoved => {
                self.connection_lost(CloseReason::Io("the RDMA device was removed".into()))
            }
            Kind::AddressChanged => {
                self.connection_lost(CloseReason::Io("the address of the network device changed".into()));
            }
            Kind::Failed | Kind::Rejected => self.connection_lost(CloseReason::Io(event.name())),
            _ => {}
        }
        true
    }

    /// Handles a disconnect by the peer, or its response to a local disconnect. Earlier messages may still be
    /// in the completion queue.
    fn disconnected(&mut self) {
        if let Some(queue_pair) = &mut self.queue_pair {
            // Responds to the peer and flushes the queue pair.
            let _ = queue_pair.id().disconnect();
            while !matches!(self.phase, Phase::Lost(_))
                && matches!(queue_pair.poll(&mut self.ready), Ok(true))
            {}
        }
        self.connection_lost(CloseReason::Peer);
    }

    /// Advances a local close. Returns true if the call made progress.
    fn drive_close(&mut self, cx: &mut Context<'_>) -> bool {
        let Phase::Closing { reason, disconnected, limit } = &mut self.phase else { return false };
        let idle = self.queue_pair.as_ref().is_none_or(QueuePair::is_idle);
        let timed_out = limit.as_mut().poll(cx).is_ready();
        if *disconnected {
            if timed_out {
                let reason = reason.clone();
                self.connection_lost(reason);
            }
            return timed_out;
        }
        if !idle && !timed_out {
            return false;
        }
        let sent = self.queue_pair.as_ref().is_some_and(|queue_pair| queue_pair.id().disconnect().is_ok());
        *disconnected = true;
        limit.as_mut().reset(Instant::now() + if sent { self.options.linger } else { Default::default() });
        true
    }

    /// Checks the peer at the end of an interval without completions. Returns true if an interval has ended.
    fn poll_keepalive(&mut self, cx: &mut Context<'_>) -> bool {
        let (Phase::Open, Some(interval)) = (&self.phase, self.options.keepalive) else { return false };
        let start = || Box::pin(sleep(interval.max(MIN_KEEPALIVE)));
        if self.keepalive.get_or_insert_with(start).as_mut().poll(cx).is_pending() {
            return false;
        }
        self.keepalive = None;
        // Only an idle queue pair needs a probe: outstanding work fails by itself if the peer is dead.
        if !mem::take(&mut self.active)
            && let Some(queue_pair) = self.queue_pair.as_mut().filter(|queue_pair| queue_pair.is_idle())
        {
            queue_pair.submit(Work::Probe);
        }
        true
    }

    /// Ends the connection and returns true if the peer is too slow. A local close has its own timeouts.
    fn poll_pace(&mut self, cx: &mut Context<'_>) -> bool {
        let (Phase::Open, Some(pace), Some(queue_pair)) = (&self.phase, &mut self.pace, &self.queue_pair)
        else {
            return false;
        };
        let is_too_slow = pace.poll(cx, queue_pair.load()).is_ready();
        if is_too_slow {
            self.connection_lost(CloseReason::Timeout("the peer is slower than the minimum rate".into()));
        }
        is_too_slow
    }

    fn should_spin(&mut self) -> bool {
        let spin = self.options.spin;
        !spin.is_zero() && self.idle_since.get_or_insert_with(Instant::now).elapsed() < spin
    }

    /// Destroys the queue pair and then the regions. Returns the last completion, with the memory of the
    /// regions.
    fn finish(&mut self, reason: CloseReason) -> Completion {
        debug!(%reason, "verbs connection closed");
        let mut regions: Vec<_> = mem::take(&mut self.regions).into_values().collect();
        if let Some(mut queue_pair) = self.queue_pair.take() {
            let _ = queue_pair.id().disconnect();
            regions.extend(queue_pair.destroy_windows());
        }
        let returned = regions.into_iter().filter_map(Registered::release).collect();
        Completion::Closed { reason, returned }
    }
}

impl Connection for VerbsConnection {
    fn submit(&mut self, action: Action) {
        let open = matches!(self.phase, Phase::Open);
        match (action, &mut self.queue_pair) {
            // The memory of a `Register` action is returned even if the connection is not open.
            (Action::Register { token, memory }, _) if !open => {
                self.ready.push_back(Completion::RegisterFailed { token, memory });
            }
            (Action::Register { token, memory }, _) => self.register(token, memory),
            (Action::Invalidate { token, handle }, _) => self.invalidate(token, handle),
            (Action::Close { reason }, _) => self.close(reason),
            (Action::PostReceives { count }, Some(queue_pair)) if open => {
                if let Err(error) = queue_pair.request_receives(count) {
                    self.connection_lost(CloseReason::Io(error.to_string()));
                }
            }
            (Action::Send { token, message, invalidate }, Some(queue_pair)) if open => {
                queue_pair.submit(Work::Send { token, message, invalidate });
            }
            // Siw cannot register empty memory, and an empty RDMA Read needs no response from the peer.
            (Action::Read { token, source, .. }, Some(_)) if open && source.length == 0 => {
                self.ready.push_back(Completion::ReadDone { token, data: Bytes::new() });
            }
            (Action::Read { token, source, part }, Some(queue_pair)) if open => {
                queue_pair.submit(Work::Read { token, source, part });
            }
            (Action::Write { token, sink, data }, Some(queue_pair)) if open => {
                queue_pair.submit(Work::Write { token, sink, data });
            }
            // The other actions have no effect unless the connection is open.
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
            // Blocking jobs return their memory before the last completion.
            if matches!(self.phase, Phase::Lost(_)) && !self.blocking.is_empty() {
                return Poll::Pending;
            }
            if let Phase::Lost(_) = &self.phase
                && let Phase::Lost(reason) = mem::replace(&mut self.phase, Phase::Closed)
            {
                return Poll::Ready(self.finish(reason));
            }
            if self.drive_queue_pair(cx) || self.poll_connection_manager(cx) || self.drive_close(cx) {
                self.idle_since = None;
                continue;
            }
            if self.poll_pace(cx) || self.poll_keepalive(cx) {
                continue;
            }
            if self.should_spin() {
                // Yields to other tasks between polls.
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            let Some(queue_pair) = &mut self.queue_pair else { return Poll::Pending };
            match queue_pair.poll_event(cx) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(error)) => self.connection_lost(CloseReason::Io(error.to_string())),
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    fn try_completion(&mut self) -> Option<Completion> {
        if matches!(self.phase, Phase::Closed) { None } else { self.ready.pop_front() }
    }

    fn try_flush(&mut self) -> bool {
        let flushed = self.flush(None);
        self.take_fenced();
        let is_posted = self.queue_pair.as_ref().is_some_and(|queue_pair| !queue_pair.has_queued());
        // Blocking jobs, a local close and spinning (`VerbsOptions::spin`) need a task context.
        let is_quiet = self.ready.is_empty() && self.blocking.is_empty() && self.options.spin.is_zero();
        flushed && is_posted && is_quiet && matches!(self.phase, Phase::Open)
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
