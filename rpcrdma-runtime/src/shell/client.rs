use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::ToSocketAddrs;
use tracing::{Instrument, debug_span};

use super::carrier::{Carrier, Sends};
use super::driver::{Connect, Connected, SessionHandle, Shared, ended, next_connection};
use super::exchange::{decode, encode, transact};
use super::observer::observed;
use super::rdma::{Peer, RdmaOutbound};
use super::stats::{ClientSnapshot, ClientStats};
use super::tcp::TcpClient;
use super::{CallError, ClientOptions, ConnectError};
use crate::proto::program::{Binding, Caller, Procedure, ReplyBounds};
use crate::proto::rdma::session::{Call, Policy};
use crate::proto::rdma::{Reply, Stated, Traffic};
use crate::provider::iwarp::IwarpConnector;
use crate::provider::{Connection, Connector, LocalParameters};
use crate::wire::private_data::Negotiated;
use crate::xdr::{Message, Received, Reducer};

/// Calls to one server, by any number of callers: clones share the connection.
///
/// It carries calls of every program that has an Upper-Layer Binding. Calls beyond the credits wait; dropping a
/// call's future abandons the call, and its buffers stay with the connection until the peer cannot reach them.
/// When the last clone is dropped the connection is closed.
///
/// When the connection is lost, or closed because nobody used it or because calls had no reply in time
/// ([`CallError::Timeout`]), the next one is made as soon as there are calls, and those that have no reply
/// are sent on it, with the same XID: such a call may be executed twice by a server that keeps no
/// duplicate-request cache ([`Client::without_retransmission`]). Each call has a time by which it ends
/// ([`ClientOptions::timeout`], [`Client::with_timeout`]), and [`ClientOptions::reconnect`] says how
/// connections are made again.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
    timeout: Option<Duration>,
    retransmit: Option<bool>,
    min_item: Option<usize>,
}

/// What the clones of a client share. The last one closes the connection.
struct Inner {
    calls: Arc<dyn SessionHandle<Peer>>,
    stats: ClientStats,
    options: ClientOptions,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.calls.close();
    }
}

impl Client {
    /// Connects with default options: over iWARP in user space.
    ///
    /// # Errors
    /// [`ConnectError`], once every address that the name stands for was tried.
    pub async fn connect(address: impl ToSocketAddrs + fmt::Display) -> Result<Self, ConnectError> {
        Client::connect_with(address, ClientOptions::default()).await
    }

    /// Connects over iWARP in user space.
    ///
    /// # Errors
    /// [`ConnectError`], once every address that the name stands for was tried.
    pub async fn connect_with(
        address: impl ToSocketAddrs + fmt::Display,
        options: ClientOptions,
    ) -> Result<Self, ConnectError> {
        let connector = IwarpConnector::new(address.to_string(), options.iwarp.clone());
        Client::connect_via(connector, options).await
    }

    /// Connects over the provider of a connector. Later connections are made by it, too.
    ///
    /// # Errors
    /// What the connector returns.
    pub async fn connect_via(
        connector: impl Connector,
        options: ClientOptions,
    ) -> Result<Self, ConnectError> {
        let mut connect = connect_by(connector, &options);
        let first = connect().await?;
        Ok(Client::start(Some(first), Some(connect), options))
    }

    /// Connects by RPC over TCP with default options: to servers without RDMA, and for programs without a binding.
    ///
    /// # Errors
    /// [`ConnectError`], once every address that the name stands for was tried.
    pub async fn connect_tcp(address: impl ToSocketAddrs + fmt::Display) -> Result<TcpClient, ConnectError> {
        TcpClient::connect(address).await
    }

    /// Uses a connection of any provider. It cannot be made again: when it ends, all calls fail, and it is not closed for
    /// want of calls. Its task is spawned on the current runtime.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn over(connection: impl Connection + 'static, options: ClientOptions) -> Self {
        let first = RdmaOutbound::new(connection, options.config, &options.backward);
        Client::start(Some(first), None, ClientOptions { reconnect: None, ..options })
    }

    /// Uses connections that a connector makes, of any provider: the first one for the first call. The task is spawned on
    /// the current runtime.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn with_connector(connector: impl Connector, options: ClientOptions) -> Self {
        Client::start(None, Some(connect_by(connector, &options)), options)
    }

    fn start<C: Connection + 'static>(
        first: Option<Connected<RdmaOutbound<C>>>,
        connect: Option<Connect<RdmaOutbound<C>>>,
        options: ClientOptions,
    ) -> Self {
        let ClientOptions { timeout, idle, reconnect, .. } = options;
        let policy = Policy { timeout, idle, keep: false, reconnect };
        let stats = ClientStats::default();
        let peer = Peer::new(&options.config, None);
        let (calls, driver) =
            Shared::new(policy, (first, connect), peer, &options.backward, stats.clone(), options.pending);
        let span = debug_span!("client", peer = ?calls.peer().address);
        tokio::spawn(driver.instrument(span));
        let inner = Inner { calls, stats, options };
        Client { inner: Arc::new(inner), timeout: None, retransmit: None, min_item: None }
    }

    /// The same connection, for calls that may take this long each: from the call to its reply, however many connections
    /// that takes.
    #[must_use]
    pub fn with_timeout(&self, timeout: Duration) -> Self {
        Client { timeout: Some(timeout), ..self.clone() }
    }

    /// The same connection, for calls that must not be executed twice and whose server may not know them again: one that
    /// was sent when its connection ends fails with
    /// [`FailReason::Closed`](crate::proto::rdma::FailReason::Closed), and is not sent on the next one. Calls over
    /// RPCSEC_GSS are so in any case.
    #[must_use]
    pub fn without_retransmission(&self) -> Self {
        Client { retransmit: Some(false), ..self.clone() }
    }

    /// The same connection, for calls whose items are worth a Read chunk from this many bytes on, instead of
    /// [`ClientOptions::min_item`].
    #[must_use]
    pub fn with_min_item(&self, min_item: usize) -> Self {
        Client { min_item: Some(min_item), ..self.clone() }
    }

    /// What was agreed on when the connection was made, or the last one if there is none now. Before the first one: what
    /// is agreed on with a server that says nothing.
    #[must_use]
    pub fn negotiated(&self) -> Negotiated {
        self.inner.calls.peer().negotiated
    }

    /// The server's address, once there was a connection.
    #[must_use]
    pub fn peer(&self) -> Option<SocketAddr> {
        self.inner.calls.peer().address
    }

    /// How many connections there were, this one included.
    #[must_use]
    pub fn connections(&self) -> u64 {
        self.inner.calls.watch().borrow().connections
    }

    /// Waits until there were more connections than `seen`, and says how many; nothing, if the client is closed and there
    /// will be no more. What a server knows of one connection it does not know of the next: a client that is to be
    /// called back ([`ClientOptions::backward`]) tells it so again.
    pub async fn next_connection(&self, seen: u64) -> Option<u64> {
        next_connection(self.inner.calls.watch(), seen).await
    }

    /// What was counted up to now, for all clones and connections.
    #[must_use]
    pub fn stats(&self) -> ClientSnapshot {
        self.inner.calls.count();
        self.inner.stats.snapshot()
    }

    /// The longest message that this end sends, in bytes, whatever the server takes.
    #[must_use]
    pub fn longest_call(&self) -> u32 {
        self.inner.options.config.private_data.announced().send_size
    }

    /// What this end takes and does: what [`Client::limit`] is at the server's end. It does no RDMA Reads before there was a
    /// connection.
    #[must_use]
    pub fn own_limits(&self) -> Stated {
        let inline = self.inner.options.config.private_data.announced().receive_size;
        Stated { inline, reads: self.inner.calls.peer().ird }
    }

    /// Keeps calls to what the server says of itself, for as long as the connection lasts (RFC 5666 section 6.2): none is
    /// longer inline than it says, and none has Read chunks if it does no RDMA Reads. A call that cannot be sent so fails.
    /// `connection` is which it has said so on, as [`Client::connections`] counts them; if there is another one by now nothing is
    /// done. The next connection begins without such limits: they are to be asked for again.
    pub fn limit(&self, connection: u64, server: Stated) {
        self.inner.calls.set_peer_limits(connection, server);
    }

    /// Closes the connection for good. Calls that wait fail, and so do calls that are made afterwards.
    pub fn close(&self) {
        self.inner.calls.close();
    }

    /// Takes no more calls, of any clone, waits until those that are under way have ended, and closes the connection.
    pub async fn drain(&self) {
        self.inner.calls.drain();
        ended(self.inner.calls.watch()).await;
    }

    fn next_xid(&self) -> u32 {
        self.inner.calls.next_xid()
    }

    async fn transact(
        &self,
        procedure: &'static str,
        message: Message,
        bounds: ReplyBounds,
        sends: Sends,
    ) -> Result<Reply, CallError> {
        let retransmit = sends.retransmit(self.retransmit);
        let call = Call { message, bounds, timeout: self.timeout, retransmit };
        transact(&*self.inner.calls, procedure, call).await
    }

    async fn exchange<Q: Procedure>(&self, xid: u32, args: &Q::Args) -> Result<(Q::Res, Traffic), CallError> {
        let ClientOptions { credential, min_item, .. } = &self.inner.options;
        // What the credential protects as a whole stays whole, and so does the reply to it.
        let (bounds, sink) = if credential.allows_reduction() {
            (Q::reply_bounds(args), Reducer::new(self.min_item.unwrap_or(*min_item)))
        } else {
            (Q::reply_bounds(args).unreduced(), Reducer::disabled())
        };
        let message = encode::<Q>(xid, credential, args, sink)?;
        decode::<Q>(xid, &self.transact(Q::NAME, message, bounds, Sends::of(credential)).await?)
    }
}

fn connect_by<P: Connector>(connector: P, options: &ClientOptions) -> Connect<RdmaOutbound<P::Connection>> {
    let ClientOptions { config, backward, .. } = options;
    let shared = Arc::new((connector, LocalParameters::new(config), *config, backward.clone()));
    Box::new(move || {
        let shared = shared.clone();
        Box::pin(async move {
            let (connector, local, config, backward) = &*shared;
            Ok(RdmaOutbound::new(connector.connect(local).await?, *config, backward))
        })
    })
}

impl<P: Binding> Carrier<P> for Client {
    fn next_xid(&self) -> u32 {
        Client::next_xid(self)
    }

    fn min_item(&self) -> usize {
        self.min_item.unwrap_or(self.inner.options.min_item)
    }

    async fn observe<Q: Procedure<Program = P>>(
        &self,
        xid: u32,
        exchange: impl Future<Output = Result<(Q::Res, Traffic), CallError>> + Send,
    ) -> Result<Q::Res, CallError> {
        observed::<Q>(self.inner.options.observer.as_ref(), &self.inner.stats, xid, exchange).await
    }

    async fn carry(
        &self,
        procedure: &'static str,
        message: Message,
        bounds: ReplyBounds,
        sends: Sends,
    ) -> Result<(Received, Traffic), CallError> {
        let reply = self.transact(procedure, message, bounds, sends).await?;
        Ok((reply.message, reply.traffic))
    }
}

impl<P: Binding> Caller<P> for Client {
    type Error = CallError;

    async fn call<Q: Procedure<Program = P>>(&self, args: &Q::Args) -> Result<Q::Res, CallError> {
        let xid = self.next_xid();
        let Inner { options, stats, .. } = &*self.inner;
        observed::<Q>(options.observer.as_ref(), stats, xid, self.exchange::<Q>(xid, args)).await
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("peer", &self.inner.calls.peer()).finish_non_exhaustive()
    }
}
