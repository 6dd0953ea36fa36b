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
use crate::wire::rpc::{ReplyHeader, RpcCall, RpcReply};
use crate::xdr::{Placed, Received};

/// Waits for the reply to a call that joined another: nothing, for the first caller.
type Waiter = Option<oneshot::Sender<Option<RpcReply>>>;

/// What the cache knows of a call that has arrived.
pub(super) enum Known {
    /// Nothing: it runs, and [`DuplicateCache::finish`] ends it.
    New(Ticket),
    /// It runs: this is where its reply comes.
    Running(oneshot::Receiver<Option<RpcReply>>),
    /// It was answered before.
    Answered(RpcReply),
    /// Nothing, and there is no room: it runs as without a cache.
    Unremembered,
}

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

    /// A call has arrived: what becomes of it. Nothing, if it is not for the cache.
    pub(super) fn begin(&self, call: &RpcCall, peer: Option<SocketAddr>, connection: u64) -> Option<Known> {
        // Before anything is summed.
        if !self.0.options.remember.has((&call.header).into()) {
            return None;
        }
        let caller = match (self.0.options.scope, peer) {
            (CallerScope::Client, Some(peer)) => CallerId::Address(peer.ip()),
            _ => CallerId::Connection(connection),
        };
        let identity = CallIdentity::of(call, caller)?;
        let mut table = self.table();
        // The first caller gets its reply from the handler; only those that join wait for the cache.
        let (waiter, answer) = table.is_running(&identity).then(oneshot::channel).unzip();
        let begun = table.begin(identity, size(call.message()), waiter, self.0.began.elapsed());
        Some(match (begun, answer) {
            (Begun::Run(ticket), _) => Known::New(ticket),
            (Begun::Joined { .. }, Some(answer)) => Known::Running(answer),
            (Begun::Kept(_, message), _) => {
                Known::Answered(RpcReply { status: ReplyHeader::Success, message })
            }
            (Begun::Unremembered(_) | Begun::Joined { .. }, _) => Known::Unremembered,
        })
    }

    /// A call has ended. Replays are made of a reply that is `kept`; all who joined get `reply`.
    pub(super) fn finish(&self, ticket: Ticket, kept: bool, reply: Option<&RpcReply>) {
        let kept = reply.filter(|_| kept).map(|reply| &reply.message);
        let waiters = self.table().finish(ticket, kept, self.0.began.elapsed());
        for waiter in waiters.into_iter().flatten() {
            // A waiter whose connection is lost does not receive it.
            let _ = waiter.send(reply.cloned());
        }
    }

    fn table(&self) -> MutexGuard<'_, Duplicates<Waiter>> {
        // No user's code runs under this lock, so nothing is half done if its holder panicked.
        self.0.table.lock().unwrap_or_else(PoisonError::into_inner)
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
