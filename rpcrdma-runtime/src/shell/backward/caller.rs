use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tracing::trace;

use crate::proto::program::{BackwardOnly, Binding, CallContext, Caller, Credential, Procedure, Program};
use crate::proto::rdma::{BackwardRequester, CallId, Config, Event, Reply, Stated, Traffic};
use crate::proto::work::Completion;
use crate::provider::Connection;
use crate::shell::CallError;
use crate::shell::calls::{Outcome, Waiting, first_xid};
use crate::shell::client::observed;
use crate::shell::serving::ConnectionUsed;
use crate::shell::stats::{ClientSnapshot, ClientStats};
use crate::wire::private_data::Negotiated;
use crate::wire::rpc::{CallHeader, decode_reply};
use crate::xdr::{Decode, Encode, Message, Reader, Reducer};

/// Calls the client at the other end of a connection, on that connection: in the backward direction (RFC 8167).
///
/// A handler has it from [`CallContext::backward`] and may keep it for as long as it likes; clones are for the same
/// connection. Calls fail with [`FailReason::NotReady`] until somebody has said [`BackwardClient::ready`]: the protocol
/// has to tell the server that the client takes them, as NFS version 4.1 does by CREATE_SESSION. When the connection is
/// gone, also because the server stops, calls fail, and it is the client's to connect again: a server does not. The
/// procedure that says ready is to run anew then, so it is one whose calls are not remembered
/// ([`Unremembered`](crate::proto::program::Unremembered)), or the client's calls of it are new ones.
///
/// It carries calls of programs that are [`BackwardOnly`], and [`BackwardClient::both_ways`] those of others. A call and its reply go inline or not at all: a call that is
/// too long fails before it is sent, with [`FailReason::Unsendable`], and so does with [`FailReason::Chunk`] one whose
/// reply is too long. Calls beyond the credits of this direction wait. Dropping a call's future abandons the call.
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
    commands: mpsc::UnboundedSender<Command>,
    next_xid: AtomicU32,
    next_key: AtomicU64,
    peer: Option<SocketAddr>,
    stats: ClientStats,
}

/// How long a call may take if nobody says otherwise.
const TIMEOUT: Duration = Duration::from_secs(60);

/// What callers ask of the connection's task.
enum Command {
    Ready,
    Call { key: u64, message: Message, done: oneshot::Sender<Outcome> },
    Cancel { key: u64 },
}

impl CallContext {
    /// Calls of the client that this call came from, on the connection that it came by; nothing where the transport
    /// has no such calls, as RPC over TCP has none here.
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
    /// The client takes calls from now on: its upper layer has said so (RFC 8167 section 6).
    pub fn ready(&self) {
        // If the task is gone there is nobody to call.
        let _ = self.shared.commands.send(Command::Ready);
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
        self.shared.commands.is_closed()
    }

    /// Waits until the connection is gone: time to forget who wanted to be called on it.
    pub async fn closed(&self) {
        self.shared.commands.closed().await;
    }

    /// The same for programs that both ends call.
    #[must_use]
    pub fn both_ways(self) -> BothWays {
        BothWays(self)
    }

    async fn observed<P: Program, Q: Procedure<Program = P>>(
        &self,
        args: &Q::Args,
    ) -> Result<Q::Res, CallError> {
        let xid = self.shared.next_xid.fetch_add(1, Ordering::Relaxed);
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
        let key = self.shared.next_key.fetch_add(1, Ordering::Relaxed);
        let (done, outcome) = oneshot::channel();
        let command = Command::Call { key, message, done };
        self.shared.commands.send(command).map_err(|_| CallError::Disconnected)?;
        let mut abandon = Abandon { client: self, key: Some(key) };
        let ended = tokio::time::timeout(self.timeout, outcome).await;
        let outcome = ended.map_err(|_| CallError::Timeout(self.timeout))?;
        abandon.key = None;
        Ok(outcome.map_err(|_| CallError::Disconnected)??)
    }
}

/// Tells the connection's task when a caller leaves before its call has ended.
struct Abandon<'a> {
    client: &'a BackwardClient,
    key: Option<u64>,
}

impl Drop for Abandon<'_> {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            // If the task is gone there is nothing to abandon.
            let _ = self.client.shared.commands.send(Command::Cancel { key });
        }
    }
}

impl<P: BackwardOnly> Caller<P> for BackwardClient {
    type Error = CallError;

    async fn call<Q: Procedure<Program = P>>(&self, args: &Q::Args) -> Result<Q::Res, CallError> {
        self.observed::<P, Q>(args).await
    }
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

/// The task's side of it.
pub(in crate::shell) struct Calls {
    engine: BackwardRequester,
    commands: mpsc::UnboundedReceiver<Command>,
    waiting: Waiting<CallId>,
}

impl Calls {
    /// For a new connection, and what its handlers are given.
    pub(in crate::shell) fn new(
        config: Config,
        negotiated: Negotiated,
        peer: Option<SocketAddr>,
    ) -> (BackwardClient, Self) {
        let (commands, receiver) = mpsc::unbounded_channel();
        let (next_xid, next_key) = (AtomicU32::new(first_xid()), AtomicU64::new(0));
        let shared = Arc::new(Shared { commands, next_xid, next_key, peer, stats: ClientStats::default() });
        let calls = Calls {
            engine: BackwardRequester::new(config, negotiated),
            commands: receiver,
            waiting: Waiting::default(),
        };
        (BackwardClient { shared, timeout: TIMEOUT, credential: Credential::None }, calls)
    }

    /// Does what the engine asks for, and tells callers how their calls ended.
    pub(in crate::shell) fn work(&mut self, connection: &mut impl Connection) {
        while let Some(action) = self.engine.poll_action() {
            trace!(?action, "ask");
            connection.submit(action);
        }
        while let Some(event) = self.engine.poll_event() {
            let Event::Done { call, outcome } = event else { continue };
            self.waiting.end(call, outcome);
        }
    }

    /// As [`BackwardRequester::take`].
    pub(in crate::shell) fn take(&mut self, completion: Completion) -> Option<Completion> {
        self.engine.take(completion)
    }

    /// As [`BackwardRequester::limit`].
    pub(in crate::shell) fn limit(&mut self, client: Stated) {
        self.engine.limit(client);
    }

    /// Waits for what the next caller asks, and does it. It may be given up while it waits.
    pub(in crate::shell) async fn ask(&mut self) {
        match self.commands.recv().await {
            Some(Command::Ready) => self.engine.ready(),
            Some(Command::Call { key, message, done }) => {
                let call = self.engine.submit(message);
                self.waiting.begin(key, call, done);
            }
            Some(Command::Cancel { key }) => {
                if let Some(call) = self.waiting.forget(key) {
                    self.engine.cancel(call);
                }
            }
            None => std::future::pending().await,
        }
    }
}
