use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use super::calling::BackwardCalls;
use crate::proto::call::Traffic;
use crate::proto::program::{
    BackwardOnly, Binding, CallContext, CallFuture, CallTransport, Caller, Credential, Procedure, ReplyBounds,
};
use crate::proto::session::SessionCall;
use crate::shell::checks;
use crate::shell::error::{CallError, CallTarget};
use crate::shell::exchange::{decode, encode, target, transact};
use crate::shell::observer::observed;
use crate::shell::serving::ConnectionUsed;
use crate::shell::spans::Endpoints;
use crate::shell::stats::{ClientSnapshot, ClientStats};
use crate::xdr::{Layout, Reducer};

/// Calls a client from its server, in the backward direction (RFC 8167) of the client's connection.
///
/// A handler gets a `BackwardClient` from [`CallContext::backward`] and may keep it. Clones use the same
/// connection. Calls fail with [`TransportError::NotReady`] until [`BackwardClient::ready`] is called. Before
/// that, a forward call must announce that the client accepts backward calls, as CREATE_SESSION does in NFS
/// version 4.1. Calls fail once the connection is lost or the server stops. Only the client can reconnect.
/// The client must then repeat the announcement, so that the handler calls `ready` for the new connection.
///
/// A `BackwardClient` calls programs that are [`BackwardOnly`]. [`BackwardClient::bidirectional`] returns a
/// client for other programs. Over RDMA, a call and its reply must fit inline. A call that is too long fails
/// with [`TransportError::Unsendable`] before it is sent. A call whose reply is too long fails with
/// [`CallError::TooLong`]. Over TCP, the limits are the maximum record lengths of the client and of the
/// server ([`TcpOptions::max_record`](super::super::TcpOptions::max_record)). Over RDMA, calls beyond the
/// credits of this direction wait; over TCP, calls beyond
/// [`TcpOptions::max_concurrent_backward_calls`](super::super::TcpOptions::max_concurrent_backward_calls)
/// wait. Calls beyond [`Limits::max_backward_calls`](super::super::Limits::max_backward_calls) fail with
/// [`CallError::TooMany`]. Dropping a call's future abandons the call.
///
/// ```
/// use std::time::Duration;
///
/// use rpcrdma_runtime::BackwardClient;
/// use rpcrdma_runtime::program::{CallContext, Reject};
///
/// /// Handles the call with which a client subscribes.
/// fn subscribe(context: &CallContext) -> Result<BackwardClient, Reject> {
///     let client = context.backward().ok_or(Reject::SystemError)?;
///     client.ready(); // In this protocol, subscribers accept calls.
///     Ok(client.with_timeout(Duration::from_secs(5)))
/// }
/// ```
///
/// [`TransportError::NotReady`]: crate::proto::call::TransportError::NotReady
/// [`TransportError::Unsendable`]: crate::proto::call::TransportError::Unsendable
#[derive(Clone)]
pub struct BackwardClient {
    shared: Arc<Shared>,
    timeout: Duration,
    credential: Credential,
}

struct Shared {
    calls: Arc<dyn BackwardCalls>,
    endpoints: Endpoints,
    stats: ClientStats,
}

const TIMEOUT: Duration = Duration::from_secs(60);

impl CallContext {
    /// Returns a client for calls to the peer of this call, on the same connection. Returns `None` if this
    /// call itself arrived in the backward direction.
    ///
    /// A handler that calls this method may change the state of its connection. The server's
    /// duplicate-request cache therefore does not keep the reply, and the call runs again if the client
    /// retransmits it on the next connection. A retransmission that arrives while the call is running waits
    /// until the call ends, and then runs.
    #[must_use]
    pub fn backward(&self) -> Option<BackwardClient> {
        if let Some(used) = self.extensions.get::<ConnectionUsed>() {
            used.set();
        }
        self.extensions.get::<BackwardClient>().cloned()
    }
}

impl BackwardClient {
    pub(in crate::shell) fn new(calls: Arc<dyn BackwardCalls>, endpoints: Endpoints) -> Self {
        let shared = Arc::new(Shared { calls, endpoints, stats: ClientStats::default() });
        BackwardClient { shared, timeout: TIMEOUT, credential: Credential::None }
    }

    /// Allows calls to the client. Call this method only after the client's upper layer has announced that
    /// the client accepts calls (RFC 8167 section 6).
    pub fn ready(&self) {
        self.shared.calls.ready();
    }

    /// Returns a client whose calls have this timeout (default 60 s). The timeout includes the wait for a
    /// credit. Over RDMA, a call that times out after it was sent keeps its credit until its reply arrives.
    /// The connection stays open.
    #[must_use]
    pub fn with_timeout(self, timeout: Duration) -> Self {
        BackwardClient { timeout, ..self }
    }

    /// Returns a client whose calls have this credential (default AUTH_NONE). This credential is independent
    /// of the credential of forward calls (RFC 8167 section 8).
    #[must_use]
    pub fn with_credential(self, credential: Credential) -> Self {
        BackwardClient { credential, ..self }
    }

    /// Returns the client's address, or `None` if the transport has no addresses.
    #[must_use]
    pub fn peer(&self) -> Option<SocketAddr> {
        self.shared.endpoints.peer
    }

    /// Returns the traffic and the failures of calls in this direction on this connection, for all clones.
    #[must_use]
    pub fn stats(&self) -> ClientSnapshot {
        self.shared.stats.snapshot()
    }

    /// Returns true if the connection is lost.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        *self.shared.calls.watch().borrow()
    }

    /// Waits until the connection is lost, for example to drop the callbacks that were registered on it.
    pub async fn closed(&self) {
        // Cannot fail: `self` keeps the sender alive.
        let _ = self.shared.calls.watch().wait_for(|closed| *closed).await;
    }

    /// Returns a client for programs that both peers call.
    #[must_use]
    pub fn bidirectional(self) -> Bidirectional {
        Bidirectional(self)
    }

    /// Calls a procedure of a program that is [`BackwardOnly`]. A call does not compile if the procedure's
    /// messages have eligible items, because backward calls have no chunks.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn call<Q: Procedure<Program: BackwardOnly>>(
        &self,
        args: &Q::Args,
    ) -> Result<Q::Res, CallError> {
        const { without_items::<Q>() };
        const { checks::backward_only::<Q::Program>() };
        self.observed::<Q>(args).await
    }

    async fn observed<Q: Procedure>(&self, args: &Q::Args) -> Result<Q::Res, CallError> {
        let xid = self.shared.calls.next_xid();
        let Shared { endpoints, stats, .. } = &*self.shared;
        observed::<Q, _>(None, stats, xid, || *endpoints, || self.exchange::<Q>(xid, args)).await
    }

    async fn exchange<Q: Procedure>(&self, xid: u32, args: &Q::Args) -> Result<(Q::Res, Traffic), CallError> {
        let message = encode::<Q>(xid, &self.credential, args, Reducer::disabled())?;
        let bounds = ReplyBounds::of::<()>();
        let call = SessionCall { message, bounds, timeout: None, retransmit: None, memory: None };
        let target = CallTarget { peer: self.shared.endpoints.peer, ..target::<Q>() };
        let reply =
            tokio::time::timeout(self.timeout, transact(&*self.shared.calls, target, None, call)).await;
        decode::<Q>(xid, &reply.unwrap_or(Err(CallError::Timeout(self.timeout)))?, None)
    }
}

impl CallTransport for BackwardClient {
    type Error = CallError;
}

impl<P: BackwardOnly> Caller<P> for BackwardClient {
    fn call<'a, Q: Procedure<Program = P>>(&'a self, args: &'a Q::Args) -> CallFuture<'a, Q::Res, CallError> {
        Box::pin(BackwardClient::call::<Q>(self, args))
    }
}

#[track_caller]
const fn without_items<Q: Procedure>() {
    assert!(
        Q::Args::HELD.is_none() && Q::Res::HELD.is_none(),
        "a program that is called only in the backward direction cannot have DDP-eligible data, because this implementation sends no chunks in that direction (RFC 8167 section 5.3 makes them optional); remove `#[ddp_eligible]` from the arguments and the result, or give the program a `Binding` and call it through `bidirectional`"
    );
}

/// A client for programs that both peers call. Such programs have a [`Binding`].
/// [`BackwardClient::bidirectional`] returns this client. Eligible items stay in the message, because
/// backward calls have no chunks.
#[derive(Clone, Debug)]
pub struct Bidirectional(BackwardClient);

impl CallTransport for Bidirectional {
    type Error = CallError;
}

impl<P: Binding> Caller<P> for Bidirectional {
    fn call<'a, Q: Procedure<Program = P>>(&'a self, args: &'a Q::Args) -> CallFuture<'a, Q::Res, CallError> {
        Box::pin(self.0.observed::<Q>(args))
    }
}

impl fmt::Debug for BackwardClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BackwardClient").field("peer", &self.peer()).finish_non_exhaustive()
    }
}
