use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use super::calling::{Commands, Ready};
use crate::proto::program::{
    BackwardOnly, Binding, CallContext, Caller, Credential, Procedure, Program, ReplyBounds,
};
use crate::proto::rdma::session::Call;
use crate::proto::rdma::{Reply, Traffic};
use crate::shell::CallError;
use crate::shell::calls::{Calls, Command};
use crate::shell::client::observed;
use crate::shell::serving::ConnectionUsed;
use crate::shell::stats::{ClientSnapshot, ClientStats};
use crate::wire::rpc::{CallHeader, decode_reply};
use crate::xdr::{Decode, Encode, Layout, Message, Reader, Reducer};

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
    calls: Calls<Ready>,
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
    /// For handlers of one connection, with at most so many calls that have not ended; and where its task hears of them.
    pub(super) fn new(peer: Option<SocketAddr>, pending: usize) -> (Self, Commands) {
        let (calls, commands) = Calls::new(pending);
        let shared = Arc::new(Shared { calls, peer, stats: ClientStats::default() });
        (BackwardClient { shared, timeout: TIMEOUT, credential: Credential::None }, commands)
    }

    /// The client takes calls from now on: its upper layer has said so (RFC 8167 section 6).
    pub fn ready(&self) {
        self.shared.calls.tell(Command::Other(Ready));
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
        self.shared.calls.is_closed()
    }

    /// Waits until the connection is gone: time to forget who wanted to be called on it.
    pub async fn closed(&self) {
        self.shared.calls.closed().await;
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
        self.observed::<Q::Program, Q>(args).await
    }

    async fn observed<P: Program, Q: Procedure<Program = P>>(
        &self,
        args: &Q::Args,
    ) -> Result<Q::Res, CallError> {
        let xid = self.shared.calls.next_xid();
        observed::<P, Q>(None, &self.shared.stats, xid, self.exchange::<Q>(xid, args)).await
    }

    async fn exchange<Q: Procedure>(&self, xid: u32, args: &Q::Args) -> Result<(Q::Res, Traffic), CallError> {
        let header = CallHeader {
            xid,
            program: <Q::Program as Program>::NUMBER,
            version: <Q::Program as Program>::VERSION,
            procedure: Q::NUMBER,
            credential: self.credential.clone(),
        };
        let mut message = Reducer::disabled();
        header.encode(&mut message).and_then(|()| args.encode(&mut message)).map_err(CallError::Encode)?;
        let reply = self.transact(message.into_message()).await?;
        let mut reader = Reader::new(&reply.message);
        decode_reply(&mut reader, xid)?;
        let result = Q::Res::decode(&mut reader).map_err(CallError::Decode)?;
        reader.finish().map_err(CallError::Decode)?;
        Ok((result, reply.traffic))
    }

    async fn transact(&self, message: Message) -> Result<Reply, CallError> {
        let call = Call { message, bounds: ReplyBounds::of::<()>(), timeout: None, retransmit: None };
        let ended = tokio::time::timeout(self.timeout, self.shared.calls.transact(call)).await;
        ended.unwrap_or(Err(CallError::Timeout(self.timeout)))
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
        self.0.observed::<P, Q>(args).await
    }
}

impl fmt::Debug for BackwardClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BackwardClient").field("peer", &self.shared.peer).finish_non_exhaustive()
    }
}
