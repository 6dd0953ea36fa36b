use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use super::calling::BackwardCalls;
use crate::proto::program::{BackwardOnly, Binding, CallContext, Caller, Credential, Procedure, ReplyBounds};
use crate::proto::rdma::Traffic;
use crate::proto::rdma::session::Call;
use crate::shell::CallError;
use crate::shell::exchange::{decode, encode, transact};
use crate::shell::observer::observed;
use crate::shell::serving::ConnectionUsed;
use crate::shell::stats::{ClientSnapshot, ClientStats};
use crate::xdr::{Layout, Reducer};

/// Calls the client at the other end of a connection, on that connection: in the backward direction (RFC 8167), over
/// RPC-over-RDMA and over TCP.
///
/// A handler has it from [`CallContext::backward`] and may keep it for as long as it likes; clones are for the same
/// connection. Calls fail with [`FailReason::NotReady`] until somebody has said [`BackwardClient::ready`]: the protocol
/// has to tell the server that the client takes them, as NFS version 4.1 does by CREATE_SESSION. When the connection is
/// gone, also because the server stops, calls fail, and it is the client's to connect again: a server does not. The
/// procedure that says ready is to run anew then, so it is one whose calls are not remembered
/// ([`Unremembered`](crate::proto::program::Unremembered)), or the client's calls of it are new ones.
///
/// It carries calls of programs that are [`BackwardOnly`], and [`BackwardClient::both_ways`] those of others. Over RDMA a
/// call and its reply go inline or not at all: a call that is too long fails before it is sent, with
/// [`FailReason::Unsendable`], and so does with [`FailReason::Chunk`] one whose reply is too long. Over TCP they are as long
/// as records may be. Calls beyond the credits of this direction wait, and over TCP those beyond
/// [`TcpOptions::backward_calls`](super::super::TcpOptions::backward_calls); more than
/// [`Limits::backward_pending`](super::super::Limits::backward_pending) fail with [`CallError::TooMany`]. Dropping a call's
/// future abandons the call.
///
/// [`FailReason::NotReady`]: crate::proto::rdma::FailReason::NotReady
/// [`FailReason::Unsendable`]: crate::proto::rdma::FailReason::Unsendable
/// [`FailReason::Chunk`]: crate::proto::rdma::FailReason::Chunk
#[derive(Clone)]
pub struct BackwardClient {
    shared: Arc<Shared>,
    timeout: Duration,
    credential: Credential,
}

struct Shared {
    calls: Arc<dyn BackwardCalls>,
    peer: Option<SocketAddr>,
    stats: ClientStats,
}

/// How long a call may take if nobody says otherwise.
const TIMEOUT: Duration = Duration::from_secs(60);

impl CallContext {
    /// Calls of the client that this call came from, on the connection that it came by; nothing in a call that came in the
    /// backward direction itself.
    ///
    /// A call whose handler asks for this has done something to its connection. So its reply is not kept by the server's
    /// duplicate-request cache: if the client sends it again on the next connection, it is run there.
    #[must_use]
    pub fn backward(&self) -> Option<BackwardClient> {
        if let Some(used) = self.extensions.get::<ConnectionUsed>() {
            used.set();
        }
        self.extensions.get::<BackwardClient>().cloned()
    }
}

impl BackwardClient {
    /// For handlers of one connection.
    pub(in crate::shell) fn new(calls: Arc<dyn BackwardCalls>, peer: Option<SocketAddr>) -> Self {
        let shared = Arc::new(Shared { calls, peer, stats: ClientStats::default() });
        BackwardClient { shared, timeout: TIMEOUT, credential: Credential::None }
    }

    /// The client takes calls from now on: its upper layer has said so (RFC 8167 section 6).
    pub fn ready(&self) {
        self.shared.calls.ready();
    }

    /// The same with another time that a call may take, waiting for a credit included (default 60 s). One that was sent
    /// and takes longer keeps its credit, and leaves the connection as it is.
    #[must_use]
    pub fn with_timeout(self, timeout: Duration) -> Self {
        BackwardClient { timeout, ..self }
    }

    /// The same with another credential (default AUTH_NONE). It is independent of that of the client's own calls
    /// (RFC 8167 section 8).
    #[must_use]
    pub fn with_credential(self, credential: Credential) -> Self {
        BackwardClient { credential, ..self }
    }

    /// The client's address.
    #[must_use]
    pub fn peer(&self) -> Option<SocketAddr> {
        self.shared.peer
    }

    /// What was counted of calls in this direction on this connection, for all clones: how they travelled, and failures.
    #[must_use]
    pub fn stats(&self) -> ClientSnapshot {
        self.shared.stats.snapshot()
    }

    /// Whether the connection is gone.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        *self.shared.calls.watch().borrow()
    }

    /// Waits until the connection is gone: time to forget who wanted to be called on it.
    pub async fn closed(&self) {
        // The client itself keeps the sender.
        let _ = self.shared.calls.watch().wait_for(|closed| *closed).await;
    }

    /// The same for programs that both ends call.
    #[must_use]
    pub fn both_ways(self) -> BothWays {
        BothWays(self)
    }

    /// Makes one call, as [`Caller::call`] does for whoever takes any caller: a program that is not [`BackwardOnly`] is
    /// refused here by one error. So is one whose messages hold eligible items, for in this direction nothing is placed.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn call<Q: Procedure<Program: BackwardOnly>>(
        &self,
        args: &Q::Args,
    ) -> Result<Q::Res, CallError> {
        const { without_items::<Q>() };
        self.observed::<Q>(args).await
    }

    async fn observed<Q: Procedure>(&self, args: &Q::Args) -> Result<Q::Res, CallError> {
        let xid = self.shared.calls.next_xid();
        observed::<Q>(None, &self.shared.stats, xid, self.exchange::<Q>(xid, args)).await
    }

    async fn exchange<Q: Procedure>(&self, xid: u32, args: &Q::Args) -> Result<(Q::Res, Traffic), CallError> {
        let message = encode::<Q>(xid, &self.credential, args, Reducer::disabled())?;
        let call = Call { message, bounds: ReplyBounds::of::<()>(), timeout: None, retransmit: None };
        let reply = tokio::time::timeout(self.timeout, transact(&*self.shared.calls, Q::NAME, call)).await;
        decode::<Q>(xid, &reply.unwrap_or(Err(CallError::Timeout(self.timeout)))?)
    }
}

impl<P: BackwardOnly> Caller<P> for BackwardClient {
    type Error = CallError;

    async fn call<Q: Procedure<Program = P>>(&self, args: &Q::Args) -> Result<Q::Res, CallError> {
        BackwardClient::call::<Q>(self, args).await
    }
}

/// Holds a procedure of a program of this direction to what such a program may have. An error is where it is asked for.
#[track_caller]
const fn without_items<Q: Procedure>() {
    assert!(
        Q::Args::HELD.is_none() && Q::Res::HELD.is_none(),
        "a program that is called in the backward direction only has no DDP-eligible data: its messages have no chunks (RFC 8167 section 5.3); take `#[ddp_eligible]` away from what this procedure takes and returns, or give the program a `Binding` and call it by `both_ways`"
    );
}

/// Calls of programs that both ends call: those with a [`Binding`], of which the client at the other end may have a client
/// too. From [`BackwardClient::both_ways`]. Nothing of them is placed directly in this direction, whatever their binding
/// makes eligible.
#[derive(Clone, Debug)]
pub struct BothWays(BackwardClient);

impl<P: Binding> Caller<P> for BothWays {
    type Error = CallError;

    async fn call<Q: Procedure<Program = P>>(&self, args: &Q::Args) -> Result<Q::Res, CallError> {
        self.0.observed::<Q>(args).await
    }
}

impl fmt::Debug for BackwardClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BackwardClient").field("peer", &self.shared.peer).finish_non_exhaustive()
    }
}
