//! What the connections of a server have in common: how a call gets its reply.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tracing::{Instrument, debug, warn};

use super::duplicates::DuplicateCache;
use super::options::BACKWARD_PENDING;
use super::running::asked_once;
use super::stats::{DuplicateCounts, ServerStats};
use crate::proto::program::Origin;
use crate::proto::rdma::{FatalCalls, Responder};
use crate::proto::rpc::duplicates::{Begun, ProcedureId, Ticket};
use crate::proto::rpc::{RpcCounts, Services};
use crate::proto::work::CloseReason;
use crate::xdr::{Message, Placed, Received};

/// The services of a server, and what it remembers of their calls.
#[derive(Clone, Debug)]
pub(super) struct Serving {
    services: Services,
    duplicates: Option<DuplicateCache>,
    /// Calls in the backward direction on one connection that have not ended.
    backward_pending: usize,
    executing: Executing,
    stats: ServerStats,
    fatal: Arc<Mutex<FatalCalls<IpAddr>>>,
    began: Instant,
}

/// Who calls, by one connection.
#[derive(Clone, Debug)]
pub(super) struct Connected {
    serving: Serving,
    origin: Origin,
    /// Another one for each connection whose calls the cache knows.
    connection: u64,
}

impl Serving {
    pub(super) fn new(
        services: Services,
        duplicates: Option<DuplicateCache>,
        backward_pending: usize,
        stats: ServerStats,
    ) -> Self {
        let (executing, fatal) = (Executing::default(), Arc::default());
        Serving { services, duplicates, backward_pending, executing, stats, fatal, began: Instant::now() }
    }

    /// Without a cache, and with counts that nobody reads.
    pub(super) fn plain(services: Services) -> Self {
        Serving::new(services, None, BACKWARD_PENDING, ServerStats::default())
    }

    /// How many calls in the backward direction may be there on each connection that have not ended.
    pub(super) fn backward_pending(&self) -> usize {
        self.backward_pending
    }

    /// A new connection.
    pub(super) fn caller(&self, origin: impl Into<Origin>) -> Connected {
        let connection = self.duplicates.as_ref().map_or(0, DuplicateCache::new_connection);
        Connected { serving: self.clone(), origin: origin.into(), connection }
    }

    /// Has a new connection refuse what has ended one of the same client before.
    pub(super) fn warn(&self, responder: &mut Responder, client: Option<SocketAddr>) {
        if let Some(client) = client {
            let refused = self.fatal().take(client.ip(), self.began.elapsed());
            responder.refuse_calls(refused);
        }
    }

    /// A connection has ended.
    pub(super) fn ended(&self, responder: &mut Responder, client: Option<SocketAddr>, reason: &CloseReason) {
        debug!(%reason, "connection closed");
        if let Some(client) = client {
            let (mut fatal, now) = (self.fatal(), self.began.elapsed());
            fatal.give_back(client.ip(), &responder.take_unrefused(), now);
            fatal.blame(client.ip(), responder.suspects(), now);
        }
    }

    fn fatal(&self) -> MutexGuard<'_, FatalCalls<IpAddr>> {
        self.fatal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn stats(&self) -> &ServerStats {
        &self.stats
    }

    /// Waits until all is done that outlives its connection.
    pub(super) async fn executed(&self) {
        self.executing.all().await;
    }
}

impl Connected {
    /// The reply to a call; none if it is no call, or if somebody else is answered. A call that is remembered is gone
    /// through with though this future be dropped.
    pub(super) async fn answer(self, call: Received) -> Option<Message> {
        let mut unanswered = Unanswered(Some(self.serving.stats.clone()));
        let reply = self.reply(call).await;
        if let Some(stats) = unanswered.0.take() {
            stats.rpc(RpcCounts::of(reply.as_ref().map(|reply| &reply.stream[..])));
        }
        reply
    }

    async fn reply(self, call: Received) -> Option<Message> {
        let Connected { serving: Serving { services, duplicates, executing, stats, .. }, origin, connection } =
            self;
        let known = duplicates.as_ref().and_then(|cache| {
            ProcedureId::of(&call).filter(|procedure| services.remembers(*procedure))?;
            Some((cache.clone(), cache.identity(&call, origin.peer, connection)?))
        });
        let Some((cache, identity)) = known else { return services.answer(&call, origin).await };
        let xid = identity.xid();
        let (waiter, answer) = oneshot::channel();
        let begun = cache.begin(identity, size(&call), waiter);
        stats.duplicates(counted(&begun));
        match begun {
            Begun::Run(ticket) => {
                let used = ConnectionUsed::default();
                let origin = Origin { extensions: origin.extensions.with(used.clone()), ..origin };
                let executed = Executed { cache, ticket: Some(ticket), xid, used };
                let execute = async move {
                    let reply = services.answer(&call, origin).await;
                    // What the ticket stands for is given back with it.
                    drop(call);
                    executed.end(reply);
                };
                executing.run(execute.in_current_span());
            }
            Begun::Joined { left: _ } => debug!(xid, "a call that came again while it runs"),
            Begun::Kept(_, reply) => {
                debug!(xid, "a call that came again is answered as before");
                return Some(reply);
            }
            Begun::Unremembered(_) => {
                debug!(xid, "so many calls run that this one is not remembered");
                return services.answer(&call, origin).await;
            }
        }
        answer.await.ok().flatten()
    }
}

/// Counts a call whose handler did not come to its end.
struct Unanswered(Option<ServerStats>);

impl Drop for Unanswered {
    fn drop(&mut self) {
        let Some(stats) = &self.0 else { return };
        let none = RpcCounts::default();
        let panicked = std::thread::panicking();
        stats.rpc(if panicked {
            RpcCounts { system_error: 1, ..none }
        } else {
            RpcCounts { nothing: 1, ..none }
        });
    }
}

fn counted<W>(begun: &Begun<W>) -> DuplicateCounts {
    let none = DuplicateCounts::default();
    match begun {
        Begun::Run(_) => DuplicateCounts { remembered: 1, ..none },
        Begun::Joined { .. } => DuplicateCounts { joined: 1, ..none },
        Begun::Kept(..) => DuplicateCounts { answered: 1, ..none },
        Begun::Unremembered(_) => DuplicateCounts { unremembered: 1, ..none },
    }
}

/// A call that the cache has to hear the end of, whatever that is.
struct Executed {
    cache: DuplicateCache,
    ticket: Option<Ticket>,
    xid: u32,
    used: ConnectionUsed,
}

impl Executed {
    fn end(mut self, reply: Option<Message>) {
        let worth = |reply: &&Message| is_success(&reply.stream) && !self.used.get();
        let kept = reply.as_ref().filter(worth);
        self.tell(kept, reply.as_ref());
    }

    fn tell(&mut self, kept: Option<&Message>, reply: Option<&Message>) {
        let Some(ticket) = self.ticket.take() else { return };
        for waiter in self.cache.finish(ticket, kept) {
            // One whose connection is gone does not hear it.
            let _ = waiter.send(reply.cloned());
        }
    }
}

impl Drop for Executed {
    /// A handler that panicked answers SYSTEM_ERR; one that was stopped answers nothing.
    fn drop(&mut self) {
        let panicked = std::thread::panicking();
        if panicked {
            warn!(xid = self.xid, "a handler panicked");
        }
        let reply = if panicked { Services::system_error(self.xid) } else { None };
        self.tell(None, reply.as_ref());
    }
}

/// What a call holds, in bytes.
fn size(call: &Received) -> u64 {
    let items = match &call.items {
        Placed::Positioned(items) => items.iter().map(|item| item.data.len()).sum(),
        // Replies come by Write chunks.
        Placed::None | Placed::InOrder(_) => 0,
    };
    call.stream.len().saturating_add(items) as u64
}

/// Whether a reply has a result: it is accepted, and its status, behind the verifier, is SUCCESS (RFC 5531 section 9).
fn is_success(reply: &[u8]) -> bool {
    let word = |at: usize| {
        let word = reply.get(at..)?.first_chunk()?;
        Some(u32::from_be_bytes(*word))
    };
    let status = || {
        let verifier = usize::try_from(word(16)?).ok()?.checked_next_multiple_of(4)?;
        word(verifier.checked_add(20)?)
    };
    (word(4), word(8), status()) == (Some(1), Some(0), Some(0))
}

/// Whether a call has used the connection that it came by. What it did there it has to do again on another one.
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

/// Calls that run on without their connection.
#[derive(Clone, Debug, Default)]
struct Executing(Arc<Mutex<JoinSet<()>>>);

impl Executing {
    /// Goes through with a call: at once, or as a task if it waits.
    fn run(&self, call: impl Future<Output = ()> + Send + 'static) {
        let mut call = Box::pin(call);
        // Who panics has told the cache by now.
        if let Ok(Poll::Pending) = asked_once(call.as_mut()) {
            let mut tasks = self.tasks();
            while tasks.try_join_next().is_some() {}
            tasks.spawn(call);
        }
    }

    async fn all(&self) {
        while std::future::poll_fn(|cx| self.tasks().poll_join_next(cx)).await.is_some() {}
    }

    fn tasks(&self) -> MutexGuard<'_, JoinSet<()>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
