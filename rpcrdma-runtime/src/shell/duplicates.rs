//! The duplicate-request cache of a server, shared by its connections.

use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::proto::rpc::duplicates::{
    Begun, CallIdentity, CallerId, DuplicateLimits, Duplicates, ProcedureId, Ticket,
};
use crate::xdr::{Message, Received};

/// Who waits for a reply.
type Waiter = oneshot::Sender<Option<Message>>;

/// Whose calls are compared with one another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CallerScope {
    /// Those of one address, whatever the port, so that a call is known that comes again by another connection. Where a
    /// transport has no addresses it is as [`CallerScope::Connection`].
    #[default]
    Client,
    /// Those of one connection: for clients that share an address and begin with the same XIDs. A call that is sent
    /// again after a reconnection is run again.
    Connection,
}

/// Which procedures a duplicate-request cache is for.
#[derive(Clone, Default)]
pub struct Remember(Option<Arc<Which>>);

type Which = dyn Fn(ProcedureId) -> bool + Send + Sync;

impl Remember {
    /// All. It is the default.
    #[must_use]
    pub fn everything() -> Self {
        Remember::default()
    }

    /// Those for which this is true: such as must not run twice. The others are run as often as they are called, and stop
    /// with the connection that they came by.
    pub fn only(which: impl Fn(ProcedureId) -> bool + Send + Sync + 'static) -> Self {
        Remember(Some(Arc::new(which)))
    }

    fn has(&self, procedure: ProcedureId) -> bool {
        self.0.as_ref().is_none_or(|which| which(procedure))
    }
}

impl fmt::Debug for Remember {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Remember::only(..)" } else { "Remember::everything()" })
    }
}

/// What a duplicate-request cache is set to.
#[derive(Clone, Debug, Default)]
pub struct DuplicateOptions {
    /// How much it remembers.
    pub limits: DuplicateLimits,
    /// Who is taken for the same caller (default: an address).
    pub scope: CallerScope,
    /// What it remembers (default: everything).
    pub remember: Remember,
}

/// A duplicate-request cache. Clones share it, so one may serve several servers.
///
/// A call that it remembers is run once, though it comes twice: while it runs, the second is answered with the first;
/// afterwards with the reply that was kept, placed into the chunks that the second offers. It is gone through with even if
/// its connection goes away. Not kept are replies without a result, and those that are too long
/// ([`DuplicateLimits::reply`]); calls with other credentials than AUTH_NONE, AUTH_SYS and RPCSEC_GSS are not remembered
/// ([`CallIdentity::of`]).
#[derive(Clone, Debug)]
pub struct DuplicateCache(Arc<Shared>);

struct Shared {
    table: Mutex<Duplicates<Waiter>>,
    began: Instant,
    options: DuplicateOptions,
    /// How many connections there were, of all servers that share it.
    connections: AtomicU64,
}

impl DuplicateCache {
    /// An empty one.
    #[must_use]
    pub fn new(options: DuplicateOptions) -> Self {
        DuplicateCache(Arc::new(Shared {
            table: Mutex::new(Duplicates::new(options.limits)),
            began: Instant::now(),
            options,
            connections: AtomicU64::new(0),
        }))
    }

    /// What it is set to.
    #[must_use]
    pub fn options(&self) -> DuplicateOptions {
        DuplicateOptions { limits: self.table().limits(), ..self.0.options.clone() }
    }

    /// Sets how much it remembers, for all that share it. What is too much is forgotten, calls that run excepted.
    pub fn limit(&self, limits: DuplicateLimits) {
        self.table().limit(limits);
    }

    /// Replies that are kept.
    #[must_use]
    pub fn kept(&self) -> usize {
        self.table().kept()
    }

    /// The number of a new connection, which no other connection of any server has.
    pub(super) fn new_connection(&self) -> u64 {
        self.0.connections.fetch_add(1, Ordering::Relaxed)
    }

    /// What this call is to the cache; nothing, if it is not for the cache.
    pub(super) fn identity(
        &self,
        call: &Received,
        peer: Option<SocketAddr>,
        connection: u64,
    ) -> Option<CallIdentity> {
        // Before anything is summed.
        ProcedureId::of(call).filter(|procedure| self.0.options.remember.has(*procedure))?;
        let caller = match (self.0.options.scope, peer) {
            (CallerScope::Client, Some(peer)) => CallerId::Address(peer.ip()),
            _ => CallerId::Connection(connection),
        };
        CallIdentity::of(call, caller)
    }

    pub(super) fn begin(&self, call: CallIdentity, size: u64, waiter: Waiter) -> Begun<Waiter> {
        self.table().begin(call, size, waiter, self.0.began.elapsed())
    }

    pub(super) fn finish(&self, ticket: Ticket, reply: Option<&Message>) -> Vec<Waiter> {
        self.table().finish(ticket, reply, self.0.began.elapsed())
    }

    fn table(&self) -> MutexGuard<'_, Duplicates<Waiter>> {
        // No user's code runs under this lock, so nothing is half done if its holder panicked.
        self.0.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for DuplicateCache {
    fn default() -> Self {
        DuplicateCache::new(DuplicateOptions::default())
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DuplicateCache").field("options", &self.options).finish_non_exhaustive()
    }
}
