//! State shared by the connections of a server, and the path of a call to its reply.

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
use super::duplicates::{DuplicateCache, Known};
use super::memory::{CallMemory, MemoryBudget};
use super::metrics::{self, CallTimer};
use super::options::{BACKWARD_PENDING, admitting};
use super::stats::{DuplicateCounts, ServerStats};
use crate::proto::owner::Owner;
use crate::proto::program::Origin;
use crate::proto::rdma::{Config, FatalCalls, MessageLimits, Responder};
use crate::proto::rpc::duplicates::Ticket;
use crate::proto::rpc::{RpcCounts, Services};
use crate::wire::rpc::{Reject, ReplyHeader, RpcCall, RpcReply};
use crate::xdr::Message;

/// The services of a server, its duplicate-request cache and its running calls. Clones share them.
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
    began: Instant,
}

/// The peer of one connection.
#[derive(Debug)]
pub(super) struct Connected {
    serving: Serving,
    origin: Origin,
    /// Unique among the connections that share the cache.
    connection: u64,
}

/// How an incoming call gets its reply.
pub(super) enum Arrived {
    /// [`Connected::run`] returns the reply.
    Run(Option<Executed>),
    /// The call is a duplicate of a running call and gets the same reply.
    Wait(oneshot::Receiver<Option<RpcReply>>),
    /// The reply is known, or there is none.
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
        metrics::memory_max(memory.max());
        let (executing, fatal, began) = (Mutex::default(), Mutex::default(), Instant::now());
        Serving(Arc::new(Shared {
            services,
            duplicates,
            memory,
            max_backward_calls,
            executing,
            stats,
            fatal,
            began,
        }))
    }

    /// Returns a server without a cache, with a separate memory budget and unused counters.
    pub(super) fn plain(services: Services) -> Self {
        let memory = MemoryBudget::default();
        Serving::new(services, None, memory, BACKWARD_PENDING, ServerStats::default())
    }

    /// Returns the maximum number of queued and outstanding backward calls on one connection.
    pub(super) fn max_backward_calls(&self) -> usize {
        self.0.max_backward_calls
    }

    /// Returns the configuration of a connection, which admits the calls of the services.
    pub(super) fn admitting(&self, mut config: Config) -> Config {
        let limits = &mut config.limits;
        limits.transfer = admitting(limits.transfer, MessageLimits::default().transfer, self.max_args());
        config
    }

    /// Returns the options of a TCP connection, which admit the calls of the services.
    pub(super) fn admitting_tcp(&self, options: &TcpOptions) -> TcpOptions {
        TcpOptions { max_record: options.admitting(self.max_args()), ..*options }
    }

    /// Returns the length of the longest arguments to accept: at most the half of the memory budget that one
    /// owner may use.
    fn max_args(&self) -> u64 {
        let half = self.0.memory.max() / 2;
        self.0.services.max_args().min(half.saturating_sub(MAX_HEADERS))
    }

    /// Returns the caller for a new connection.
    pub(super) fn caller(&self, origin: impl Into<Origin>) -> Arc<Connected> {
        let connection = self.0.duplicates.as_ref().map_or(0, DuplicateCache::new_connection);
        Arc::new(Connected { serving: self.clone(), origin: origin.into(), connection })
    }

    /// Makes a new connection refuse the calls that ended an earlier connection of the same owner.
    pub(super) fn warn(&self, responder: &mut Responder, client: Option<SocketAddr>) {
        if client.is_some() {
            let refused = self.fatal().take(&Owner::of_peer(client), self.0.began.elapsed());
            responder.refuse_calls(refused);
        }
    }

    /// Records the end of a connection and the calls suspected of causing it.
    pub(super) fn ended(&self, responder: &mut Responder, client: Option<SocketAddr>) {
        if client.is_some() {
            let (mut fatal, now, owner) = (self.fatal(), self.0.began.elapsed(), Owner::of_peer(client));
            fatal.restore(&owner, &responder.take_unrefused(), now);
            fatal.blame(&owner, responder.suspects(), now);
        }
    }

    fn fatal(&self) -> MutexGuard<'_, FatalCalls<Owner>> {
        self.0.fatal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn memory(&self) -> &MemoryBudget {
        &self.0.memory
    }

    pub(super) fn stats(&self) -> &ServerStats {
        &self.0.stats
    }

    /// Waits for all calls that outlive their connections.
    pub(super) async fn executed(&self) {
        while std::future::poll_fn(|cx| self.executing().poll_join_next(cx)).await.is_some() {}
    }

    fn executing(&self) -> MutexGuard<'_, JoinSet<()>> {
        self.0.executing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Connected {
    /// Returns the peer's address.
    pub(super) fn peer(&self) -> Option<SocketAddr> {
        self.origin.peer
    }

    /// Looks up an incoming call in the cache.
    pub(super) fn arrived(&self, call: &RpcCall) -> Arrived {
        let Connected { serving: Serving(shared), origin, connection } = self;
        let cache = shared.duplicates.as_ref().filter(|_| shared.services.is_cached(&call.header));
        let known = cache.filter(|cache| cache.tracks(&call.header)).and_then(|cache| {
            // A call whose caller is not authentic is refused when it runs, and gets no cached reply.
            let principal = shared.services.authenticate(call).ok()?;
            let owner = principal.map_or_else(|| Owner::of_peer(origin.peer), Owner::Principal);
            Some((cache, cache.begin(call, owner, origin.peer, *connection)?))
        });
        let Some((cache, known)) = known else { return Arrived::Run(None) };
        let (xid, none) = (call.header.xid, DuplicateCounts::default());
        let (arrived, counts) = match known {
            Known::New(ticket) => {
                let executed = Executed { cache: cache.clone(), ticket: Some(ticket), xid };
                (Arrived::Run(Some(executed)), DuplicateCounts { remembered: 1, ..none })
            }
            Known::Running(answer) => {
                debug!(xid, "retransmitted call: it runs");
                (Arrived::Wait(answer), DuplicateCounts { joined: 1, ..none })
            }
            Known::Answered(reply) => {
                debug!(xid, "retransmitted call: replaying the cached reply");
                (Arrived::Answered(Some(reply)), DuplicateCounts { answered: 1, ..none })
            }
            Known::Uncached => {
                debug!(xid, "too many calls run to cache this one");
                (Arrived::Run(None), DuplicateCounts { unremembered: 1, ..none })
            }
        };
        shared.stats.duplicates(counts);
        arrived
    }

    /// Runs a call and reports its end to the cache, if the cache tracks it.
    pub(super) async fn run(
        self: Arc<Self>,
        call: RpcCall,
        memory: Option<CallMemory>,
        executed: Option<Executed>,
    ) -> Option<RpcReply> {
        let services = &self.serving.0.services;
        let mut origin = self.origin.clone();
        if let Some(memory) = memory {
            origin.extensions = origin.extensions.with(memory);
        }
        let timer = CallTimer::start(&call.header);
        let Some(executed) = executed else {
            let reply = services.run(call, origin).await;
            timer.end(reply.as_ref());
            return reply;
        };
        let extensions = origin.extensions.with(ConnectionUsed::default());
        let origin = Origin { peer: origin.peer, extensions: extensions.clone() };
        // Drops the call, so its memory is free before the cache ticket is returned.
        let reply = services.run(call, origin).await;
        timer.end(reply.as_ref());
        let success = reply.as_ref().is_some_and(|reply| reply.status == ReplyHeader::Success);
        let used = extensions.get::<ConnectionUsed>().is_some_and(ConnectionUsed::get);
        executed.end(success && !used, reply.as_ref());
        reply
    }

    /// Runs a call to completion even if its connection is lost.
    pub(super) fn outlive(&self, call: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.serving.executing();
        while tasks.try_join_next().is_some() {}
        tasks.spawn(call);
    }

    /// Counts a reply and returns the message to send.
    pub(super) fn counted(&self, reply: Option<RpcReply>) -> Option<Message> {
        self.serving.stats().rpc(RpcCounts::of(reply.as_ref().map(|reply| reply.status)));
        reply.map(|reply| reply.message)
    }

    /// Counts calls whose handlers were stopped.
    pub(super) fn stopped(&self, calls: usize) {
        self.serving.stats().rpc(RpcCounts { nothing: calls as u64, ..RpcCounts::default() });
    }
}

/// A call whose end must be reported to the cache, whatever the outcome.
pub(super) struct Executed {
    cache: DuplicateCache,
    ticket: Option<Ticket>,
    xid: u32,
}

impl Executed {
    fn end(mut self, kept: bool, reply: Option<&RpcReply>) {
        self.finish(kept, reply);
    }

    fn finish(&mut self, kept: bool, reply: Option<&RpcReply>) {
        if let Some(ticket) = self.ticket.take() {
            self.cache.finish(ticket, kept, reply);
        }
    }
}

impl Drop for Executed {
    /// A handler that panicked replies with SYSTEM_ERR; a handler that was stopped sends no reply.
    fn drop(&mut self) {
        let panicked = std::thread::panicking();
        let reply = if panicked { RpcReply::reject(self.xid, Reject::SystemError) } else { None };
        self.finish(false, reply.as_ref());
    }
}

/// Records whether a call has used its connection. A retransmission on another connection must repeat that
/// effect.
#[derive(Debug, Default)]
pub(super) struct ConnectionUsed(AtomicBool);

impl ConnectionUsed {
    pub(super) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn get(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
