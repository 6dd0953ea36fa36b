//! State shared by the connections of a server, and the execution of calls.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rpcrdma_layout::MAX_HEADERS;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tracing::debug;

use super::TcpOptions;
use super::duplicates::{DuplicateCache, DuplicateEnd, Lookup};
use super::memory::{CallMemory, MemoryBudget};
use super::metrics::CallTimer;
use super::options::{MAX_BACKWARD_CALLS, raised_limit};
use super::stats::{DuplicateCounts, ServerStats};
use super::warnings::Warnings;
use crate::proto::owner::Owner;
use crate::proto::program::Origin;
use crate::proto::rdma::{Config, FatalCalls, MessageLimits, Responder};
use crate::proto::rpc::duplicates::Ticket;
use crate::proto::rpc::{RpcCounts, Services};
use crate::wire::rpc::{Reject, ReplyHeader, RpcCall, RpcReply};
use crate::xdr::Message;

#[derive(Clone, Debug)]
pub(super) struct Serving(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    services: Services,
    duplicates: Option<DuplicateCache>,
    memory: MemoryBudget,
    /// Maximum number of queued and outstanding backward calls on one connection.
    max_backward_calls: usize,
    executing: Mutex<JoinSet<()>>,
    stats: ServerStats,
    fatal: Mutex<FatalCalls<Owner>>,
    warnings: Warnings,
    start: Instant,
}

#[derive(Debug)]
pub(super) struct CallExecutor {
    serving: Serving,
    origin: Origin,
    /// The number of the connection, unique among the connections that share the cache, or 0 without a cache.
    connection: u64,
}

pub(super) enum Disposition {
    /// The call must run. [`CallExecutor::run`] returns the reply.
    Run(Option<TrackedCall>),
    /// The call is a duplicate of a running call. [`CallExecutor::wait`] returns the reply.
    Wait(oneshot::Receiver<DuplicateEnd>),
    /// The call has already run, and this is its cached reply.
    Answered(Option<RpcReply>),
}

impl Serving {
    pub(super) fn new(
        services: Services,
        duplicates: Option<DuplicateCache>,
        memory: MemoryBudget,
        max_backward_calls: usize,
        stats: ServerStats,
    ) -> Self {
        let (executing, fatal, start) = (Mutex::default(), Mutex::default(), Instant::now());
        Serving(Arc::new(Shared {
            services,
            duplicates,
            memory,
            max_backward_calls,
            executing,
            stats,
            fatal,
            warnings: Warnings::new(),
            start,
        }))
    }

    /// Returns state without a cache, with its own memory budget and counters.
    pub(super) fn plain(services: Services) -> Self {
        let memory = MemoryBudget::default();
        Serving::new(services, None, memory, MAX_BACKWARD_CALLS, ServerStats::default())
    }

    pub(super) fn max_backward_calls(&self) -> usize {
        self.0.max_backward_calls
    }

    pub(super) fn with_raised_limits(&self, mut config: Config) -> Config {
        let limits = &mut config.limits;
        limits.max_transfer =
            raised_limit(limits.max_transfer, MessageLimits::default().max_transfer, self.max_args());
        config
    }

    pub(super) fn with_raised_tcp_limits(&self, options: &TcpOptions) -> TcpOptions {
        TcpOptions { max_record: options.raised_max_record(self.max_args()), ..*options }
    }

    fn max_args(&self) -> u64 {
        max_args(&self.0.services, self.0.memory.max())
    }

    pub(super) fn executor(&self, origin: impl Into<Origin>) -> Arc<CallExecutor> {
        let connection = self.0.duplicates.as_ref().map_or(0, DuplicateCache::new_connection);
        Arc::new(CallExecutor { serving: self.clone(), origin: origin.into(), connection })
    }

    /// Makes a connection refuse the calls that may have ended an earlier connection of the same owner. These
    /// calls replace the calls that the connection refused before. Returns the time at which this method must
    /// be called again, if any.
    pub(super) fn refuse_fatal_calls(
        &self,
        responder: &mut Responder,
        client: Option<SocketAddr>,
    ) -> Option<Instant> {
        client?;
        let (mut fatal, owner, now) = (self.fatal(), Owner::of_peer(client), self.0.start.elapsed());
        fatal.restore(&owner, &responder.take_unrefused(), now);
        let refused = fatal.take(&owner, now);
        let expiry = fatal.expiry(&owner, &refused);
        responder.refuse_calls(refused);
        self.0.start.checked_add(expiry?)
    }

    /// Records the calls that later connections must refuse. These are the calls that may have ended this
    /// connection, and the calls that this connection was to refuse but that did not arrive.
    pub(super) fn ended(&self, responder: &mut Responder, client: Option<SocketAddr>) {
        if client.is_some() {
            let (mut fatal, now, owner) = (self.fatal(), self.0.start.elapsed(), Owner::of_peer(client));
            fatal.restore(&owner, &responder.take_unrefused(), now);
            fatal.add_suspects(&owner, responder.suspects(), now);
        }
    }

    fn fatal(&self) -> MutexGuard<'_, FatalCalls<Owner>> {
        self.0.fatal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn warnings(&self) -> &Warnings {
        &self.0.warnings
    }

    pub(super) fn memory(&self) -> &MemoryBudget {
        &self.0.memory
    }

    pub(super) fn stats(&self) -> &ServerStats {
        &self.0.stats
    }

    pub(super) async fn outliving_calls(&self) {
        while std::future::poll_fn(|cx| self.executing().poll_join_next(cx)).await.is_some() {}
    }

    fn executing(&self) -> MutexGuard<'_, JoinSet<()>> {
        self.0.executing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the maximum length of the services' arguments, limited so that a call fits into half of a budget
/// of `max_memory` bytes. One owner can use at most about half of a budget.
pub(super) fn max_args(services: &Services, max_memory: u64) -> u64 {
    services.max_args().min((max_memory / 2).saturating_sub(MAX_HEADERS))
}

impl CallExecutor {
    pub(super) fn peer(&self) -> Option<SocketAddr> {
        self.origin.peer
    }

    pub(super) fn warnings(&self) -> &Warnings {
        self.serving.warnings()
    }

    pub(super) fn look_up(&self, call: &RpcCall) -> Disposition {
        let CallExecutor { serving: Serving(shared), origin, connection } = self;
        let cache = shared.duplicates.as_ref().filter(|_| shared.services.is_cached(&call.header));
        let known = cache.filter(|cache| cache.tracks(&call.header)).and_then(|cache| {
            // A call that fails authentication must not get a cached reply. `Services::run` rejects the call.
            let principal = shared.services.authenticate(call).ok()?;
            let owner = principal.map_or_else(|| Owner::of_peer(origin.peer), Owner::Principal);
            Some((cache, cache.begin(call, owner, origin.peer, *connection)?))
        });
        let Some((cache, known)) = known else { return Disposition::Run(None) };
        let (xid, none) = (call.header.xid, DuplicateCounts::default());
        let (disposition, counts) = match known {
            Lookup::New(ticket) => {
                let used = ConnectionUsed::default();
                let tracked = TrackedCall { cache: cache.clone(), ticket: Some(ticket), xid, used };
                (Disposition::Run(Some(tracked)), DuplicateCounts { tracked: 1, ..none })
            }
            Lookup::Running(answer) => {
                debug!(xid, "retransmitted call: waiting for the running call");
                (Disposition::Wait(answer), DuplicateCounts { joined: 1, ..none })
            }
            Lookup::Answered(reply) => {
                debug!(xid, "retransmitted call: replaying the cached reply");
                (Disposition::Answered(Some(reply)), DuplicateCounts { replayed: 1, ..none })
            }
            Lookup::Uncached => {
                debug!(xid, "running calls fill the cache or the owner's share: not tracking this call");
                (Disposition::Run(None), DuplicateCounts { untracked: 1, ..none })
            }
        };
        shared.stats.duplicates(counts);
        disposition
    }

    pub(super) async fn run(
        self: Arc<Self>,
        call: RpcCall,
        memory: Option<CallMemory>,
        tracked: Option<TrackedCall>,
    ) -> Option<RpcReply> {
        let services = &self.serving.0.services;
        let mut origin = self.origin.clone();
        if let Some(memory) = memory {
            origin.extensions = origin.extensions.with(memory);
        }
        let timer = CallTimer::start(&call.header);
        let Some(tracked) = tracked else {
            let reply = services.run(call, origin).await;
            timer.end(reply.as_ref());
            return reply;
        };
        origin.extensions = origin.extensions.with(tracked.used.clone());
        // `Services::run` drops the call, so that its memory is free before the cache entry is completed.
        let reply = services.run(call, origin).await;
        timer.end(reply.as_ref());
        let success = reply.as_ref().is_some_and(|reply| reply.status == ReplyHeader::Success);
        tracked.end(success, reply.as_ref());
        reply
    }

    /// Waits for the running call that `call` duplicates, and returns the running call's reply. If the
    /// running call has used its connection ([`ConnectionUsed`]), runs `call`, which may be on another
    /// connection.
    pub(super) async fn wait(
        self: Arc<Self>,
        call: RpcCall,
        memory: Option<CallMemory>,
        end: oneshot::Receiver<DuplicateEnd>,
    ) -> Option<RpcReply> {
        match end.await.ok()? {
            DuplicateEnd::Reply(reply) => reply,
            DuplicateEnd::Run => self.run(call, memory, None).await,
        }
    }

    /// Runs a call to completion even if its connection is lost or its server has stopped. The future `call`
    /// must own this executor, and with it the set of tasks: dropping the set would abort the call.
    pub(super) fn outlive(&self, call: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.serving.executing();
        while tasks.try_join_next().is_some() {}
        tasks.spawn(call);
    }

    pub(super) fn count_reply(&self, reply: Option<RpcReply>) -> Option<Message> {
        self.serving.stats().rpc(RpcCounts::of(reply.as_ref().map(|reply| reply.status)));
        reply.map(|reply| reply.message)
    }

    pub(super) fn count_stopped(&self, calls: usize) {
        self.serving.stats().rpc(RpcCounts { nothing: calls as u64, ..RpcCounts::default() });
    }
}

/// A call that the cache tracks. Dropping a `TrackedCall` also reports the end of the call to the cache.
pub(super) struct TrackedCall {
    cache: DuplicateCache,
    ticket: Option<Ticket>,
    xid: u32,
    used: ConnectionUsed,
}

impl TrackedCall {
    fn end(mut self, kept: bool, reply: Option<&RpcReply>) {
        self.finish(kept, reply);
    }

    /// Reports the end of the call to the cache. If the call has used its connection, its duplicates run,
    /// even if the call failed: such a call usually fails because its connection is lost.
    fn finish(&mut self, kept: bool, reply: Option<&RpcReply>) {
        match self.ticket.take() {
            Some(ticket) if self.used.get() => self.cache.finish_unshared(ticket),
            Some(ticket) => self.cache.finish(ticket, kept, reply),
            None => {}
        }
    }
}

impl Drop for TrackedCall {
    /// If the call has not used its connection, its duplicates get SYSTEM_ERR if the handler panicked, and no
    /// reply if the handler was stopped.
    fn drop(&mut self) {
        let panicked = std::thread::panicking();
        let reply = if panicked { RpcReply::reject(self.xid, Reject::SystemError) } else { None };
        self.finish(false, reply.as_ref());
    }
}

/// Records whether a call's handler has used the connection with `CallContext::backward`. If so, the reply is
/// neither cached nor sent to waiting duplicates, because a retransmission on another connection must run
/// again and use that connection.
#[derive(Clone, Debug, Default)]
pub(super) struct ConnectionUsed(Arc<AtomicBool>);

impl ConnectionUsed {
    pub(super) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn get(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
