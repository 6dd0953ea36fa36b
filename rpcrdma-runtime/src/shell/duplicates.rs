//! The duplicate-request cache of a server, shared by its connections.

use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::proto::owner::Owner;
use crate::proto::rpc::duplicates::{
    CacheLookup, CallIdentity, CallerId, DuplicateLimits, Duplicates, ProcedureId, Ticket,
};
use crate::wire::rpc::{CallHeader, ReplyHeader, RpcCall, RpcReply};
use crate::xdr::{Message, Placed, Received};

/// Tells a waiting duplicate how to continue after the running call. `None` for the first caller.
type Waiter = Option<oneshot::Sender<DuplicateEnd>>;

/// How a waiting duplicate continues after the running call has ended.
pub(super) enum DuplicateEnd {
    /// The duplicate gets the reply of the call, if any.
    Reply(Option<RpcReply>),
    /// The duplicate runs, because the call's handler has called `CallContext::backward`.
    Run,
}

pub(super) enum Lookup {
    /// The call is new and must run. After the call, pass the ticket to [`DuplicateCache::finish`] or
    /// [`DuplicateCache::finish_unshared`].
    New(Ticket),
    /// The call is already running. The receiver gets a [`DuplicateEnd`] once the call has ended.
    Running(oneshot::Receiver<DuplicateEnd>),
    /// The call has already run, and this is its cached reply.
    Answered(RpcReply),
    /// The call is new, but the cache has no room for it. The call runs without being cached.
    Uncached,
}

/// The calls that a cache compares to detect retransmissions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CallerScope {
    /// Calls from one address, so that a retransmission on another connection is detected. Ports below 1024
    /// and other ports are separate scopes. If the transport has no addresses, this scope is the same as
    /// [`CallerScope::Connection`].
    #[default]
    Client,
    /// Calls on one connection, for clients that share an address and start with the same XIDs. A call that
    /// is retransmitted on a new connection runs again.
    Connection,
}

/// The procedures that a duplicate-request cache tracks. [`DuplicateCache`] has an example.
#[derive(Clone, Default)]
pub struct CachePolicy(Option<Arc<Filter>>);

type Filter = dyn Fn(ProcedureId) -> bool + Send + Sync;

impl CachePolicy {
    /// Tracks every procedure. This is the default policy. No policy tracks procedure 0 without RPCSEC_GSS,
    /// or procedures for which [`Service::is_cached`](crate::program::Service::is_cached) returns false, such
    /// as those of an [`Uncached`](crate::program::Uncached) service.
    #[must_use]
    pub fn everything() -> Self {
        CachePolicy::default()
    }

    /// Tracks the procedures that must not run twice: those for which `which` returns true. Calls of other
    /// procedures run again when they are retransmitted, and stop when their connection ends.
    pub fn only(which: impl Fn(ProcedureId) -> bool + Send + Sync + 'static) -> Self {
        CachePolicy(Some(Arc::new(which)))
    }

    fn has(&self, procedure: ProcedureId) -> bool {
        self.0.as_ref().is_none_or(|which| which(procedure))
    }
}

impl fmt::Debug for CachePolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "CachePolicy::only(..)" } else { "CachePolicy::everything()" })
    }
}

/// The options of a duplicate-request cache.
#[derive(Clone, Debug, Default)]
pub struct DuplicateOptions {
    /// Limits of the cache.
    pub limits: DuplicateLimits,
    /// How callers are distinguished (default: by address).
    pub scope: CallerScope,
    /// The tracked procedures (default: [`CachePolicy::everything`]).
    pub policy: CachePolicy,
    #[doc(hidden)]
    pub non_exhaustive: (),
}

/// A duplicate-request cache. Clones share the cached replies, so one cache can serve several servers.
///
/// While a tracked call runs, a duplicate waits for the same reply. Afterwards a duplicate gets the cached
/// reply, over RDMA in the chunks that the duplicate offers. A duplicate runs only if the reply was not
/// cached, was evicted or has expired, or if the handler has called
/// [`CallContext::backward`](crate::program::CallContext::backward). A tracked call runs to completion even
/// if its connection is lost. Replies with an RPC error and replies longer than
/// [`DuplicateLimits::max_reply`] are not cached. Calls with credentials other than AUTH_NONE, AUTH_SYS and
/// RPCSEC_GSS are not tracked ([`CallIdentity::of`]).
///
/// ```
/// use rpcrdma_runtime::{CachePolicy, DuplicateCache, DuplicateOptions, ServerOptions};
///
/// // Procedure 1 must not run twice; other procedures may.
/// let policy = CachePolicy::only(|called| called.procedure == 1);
/// let cache = DuplicateCache::new(DuplicateOptions { policy, ..DuplicateOptions::default() });
/// let options = ServerOptions { duplicates: Some(cache.clone()), ..ServerOptions::default() };
/// assert_eq!(cache.cached_replies(), 0);
/// ```
#[derive(Clone, Debug)]
pub struct DuplicateCache(Arc<Shared>);

struct Shared {
    table: Mutex<Duplicates<Waiter>>,
    start: Instant,
    options: DuplicateOptions,
    connections: AtomicU64,
}

impl DuplicateCache {
    /// Returns an empty cache.
    #[must_use]
    pub fn new(options: DuplicateOptions) -> Self {
        DuplicateCache(Arc::new(Shared {
            table: Mutex::new(Duplicates::new(options.limits)),
            start: Instant::now(),
            options,
            connections: AtomicU64::new(0),
        }))
    }

    /// Returns the options, with the limits in force.
    #[must_use]
    pub fn options(&self) -> DuplicateOptions {
        DuplicateOptions { limits: self.table().limits(), ..self.0.options.clone() }
    }

    /// Changes the limits for all servers that share the cache. Evicts replies to enforce the new
    /// [`DuplicateLimits::max_entries`] and [`DuplicateLimits::max_bytes`]. Running calls are not affected.
    pub fn set_limits(&self, limits: DuplicateLimits) {
        self.table().set_limits(limits);
    }

    /// Returns the number of cached replies.
    #[must_use]
    pub fn cached_replies(&self) -> usize {
        self.table().cached_replies()
    }

    /// Returns a connection number that is unique across all servers that share the cache.
    pub(super) fn new_connection(&self) -> u64 {
        self.0.connections.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn tracks(&self, call: &CallHeader) -> bool {
        self.0.options.policy.has(call.into())
    }

    /// Looks up a call, and tracks the call if it is new and the cache has room. Returns `None` if calls with
    /// this credential flavor are not tracked ([`CallIdentity::of`]).
    pub(super) fn begin(
        &self,
        call: &RpcCall,
        owner: Owner,
        peer: Option<SocketAddr>,
        connection: u64,
    ) -> Option<Lookup> {
        let caller = match (self.0.options.scope, peer) {
            (CallerScope::Client, Some(peer)) if peer.port() < 1024 => CallerId::Privileged(peer.ip()),
            (CallerScope::Client, Some(peer)) => CallerId::Address(peer.ip()),
            _ => CallerId::Connection(connection),
        };
        let identity = CallIdentity::of(call, caller)?.owned_by(owner);
        let mut table = self.table();
        // Only a duplicate needs a channel: the first caller gets its reply from the handler.
        let (waiter, answer) = table.is_running(&identity).then(oneshot::channel).unzip();
        let lookup = table.begin(identity, size(call.message()), waiter, self.0.start.elapsed());
        Some(match (lookup, answer) {
            (CacheLookup::Run(ticket), _) => Lookup::New(ticket),
            (CacheLookup::Joined { .. }, Some(answer)) => Lookup::Running(answer),
            (CacheLookup::Cached(_, message), _) => {
                Lookup::Answered(RpcReply { status: ReplyHeader::Success, message, failure: None })
            }
            (CacheLookup::Uncached(_) | CacheLookup::Joined { .. }, _) => Lookup::Uncached,
        })
    }

    /// Ends a call. All waiting duplicates get `reply`. If `kept` is true, the reply is cached within the
    /// limits.
    pub(super) fn finish(&self, ticket: Ticket, kept: bool, reply: Option<&RpcReply>) {
        let kept = reply.filter(|_| kept).map(|reply| &reply.message);
        self.end(ticket, kept, || DuplicateEnd::Reply(reply.cloned()));
    }

    /// Ends a call whose handler has called `CallContext::backward`. All waiting duplicates run, and nothing
    /// is cached.
    pub(super) fn finish_unshared(&self, ticket: Ticket) {
        self.end(ticket, None, || DuplicateEnd::Run);
    }

    fn end(&self, ticket: Ticket, kept: Option<&Message>, end: impl Fn() -> DuplicateEnd) {
        let waiters = self.table().finish(ticket, kept, self.0.start.elapsed());
        for waiter in waiters.into_iter().flatten() {
            // Sending fails if the connection of the waiter is lost.
            let _ = waiter.send(end());
        }
    }

    fn table(&self) -> MutexGuard<'_, Duplicates<Waiter>> {
        // No user code runs under this lock, so a panic cannot leave the table inconsistent.
        self.0.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn size(call: &Received) -> u64 {
    let items = match &call.items {
        Placed::Positioned(items) => items.iter().map(|item| item.data.len()).sum(),
        // `InOrder` occurs only in replies: its items are from Write chunks.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xdr::Writer;

    fn call() -> RpcCall {
        let header =
            CallHeader { xid: 7, program: 1, version: 1, procedure: 1, credential: Default::default() };
        let mut call = Writer::new();
        header.encode(&mut call).unwrap();
        RpcCall::parse(Received::unreduced(call.into_bytes())).unwrap()
    }

    /// A handler may require a port below 1024, and a cached reply bypasses the handler.
    #[test]
    fn a_reply_to_a_privileged_port_is_not_replayed_to_others() {
        let cache = DuplicateCache::default();
        let begin = |port| {
            let peer = Some(SocketAddr::from(([192, 0, 2, 1], port)));
            cache.begin(&call(), Owner::of_peer(peer), peer, 0)
        };
        let Some(Lookup::New(ticket)) = begin(1000) else { panic!("a new call") };
        let message = Message::unreduced(vec![0; 24].into());
        cache.finish(ticket, true, Some(&RpcReply { status: ReplyHeader::Success, message, failure: None }));
        assert!(matches!(begin(1001), Some(Lookup::Answered(_))));
        assert!(matches!(begin(1024), Some(Lookup::New(_))));
    }
}
