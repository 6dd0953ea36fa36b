use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::net::ToSocketAddrs;
use tracing::{Instrument, debug, debug_span};

use super::carrier::{Carrier, is_sent_once};
use super::driver::{Calls, Connect, Shared};
use super::stats::{ClientSnapshot, ClientStats};
use super::tcp::TcpClient;
use super::{CallError, ClientOptions, ConnectError, Observer};
use crate::proto::program::{Binding, Caller, Procedure, Program, ReplyBounds};
use crate::proto::rdma::session::{Call, Policy, Session};
use crate::proto::rdma::{FailReason, Reply, Stated, Traffic};
use crate::provider::iwarp::IwarpConnector;
use crate::provider::{Connection, Connector, LocalParameters};
use crate::wire::private_data::Negotiated;
use crate::wire::rpc::{CallHeader, decode_reply};
use crate::xdr::{Decode, Encode, Message, Reader, Received, Reducer};

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
    calls: Arc<dyn Calls>,
    stats: ClientStats,
    options: ClientOptions,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.calls.close();
    }
}

/// One call that ended, as an [`super::Observer`] hears of it.
#[derive(Clone, Debug)]
pub struct CallReport {
    /// Program number.
    pub program: u32,
    /// Version number.
    pub version: u32,
    /// The procedure's name in its document.
    pub procedure: &'static str,
    /// The call's XID.
    pub xid: u32,
    /// From the call to its decoded result.
    pub elapsed: Duration,
    /// How it travelled, if it has a result.
    pub traffic: Option<Traffic>,
    /// Why there is no result, if there is none.
    pub error: Option<String>,
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
        Client::start(Some(connection), None, ClientOptions { reconnect: None, ..options })
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
        first: Option<C>,
        connect: Option<Connect<C>>,
        options: ClientOptions,
    ) -> Self {
        let ClientOptions { timeout, idle, reconnect, .. } = options;
        let keep = options.backward.programs().next().is_some();
        let session = Session::new(Policy { timeout, idle, keep, reconnect }, seed());
        let stats = ClientStats::default();
        let backward = options.backward.clone();
        let config = options.config;
        let (calls, driver) =
            Shared::new(session, config, (first, connect), backward, stats.clone(), options.pending);
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
    /// was sent when its connection ends fails with [`FailReason::Closed`], and is not sent on the next one. Calls over
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
        self.inner.calls.next_connection(seen).await
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
        self.inner.calls.ended().await;
    }

    fn next_xid(&self) -> u32 {
        self.inner.calls.next_xid()
    }

    async fn transact(&self, mut call: Call) -> Result<Reply, CallError> {
        if is_sent_once(&call.message) {
            call.retransmit = Some(false);
        }
        self.inner.calls.transact(call).await
    }

    async fn exchange<Q: Procedure>(&self, xid: u32, args: &Q::Args) -> Result<(Q::Res, Traffic), CallError> {
        let call = self.prepare::<Q>(xid, args)?;
        let reply = self.transact(call).await.map_err(|error| named(error, Q::NAME))?;
        let mut reader = Reader::new(&reply.message);
        decode_reply(&mut reader, xid)?;
        let result = Q::Res::decode(&mut reader).map_err(CallError::Decode)?;
        reader.finish().map_err(CallError::Decode)?;
        Ok((result, reply.traffic))
    }

    fn prepare<Q: Procedure>(&self, xid: u32, args: &Q::Args) -> Result<Call, CallError> {
        let options = &self.inner.options;
        // What the credential protects as a whole stays whole, and so does the reply to it.
        let (bounds, mut message) = if options.credential.allows_reduction() {
            (Q::reply_bounds(args), Reducer::new(self.min_item.unwrap_or(options.min_item)))
        } else {
            (Q::reply_bounds(args).unreduced(), Reducer::disabled())
        };
        let header = CallHeader {
            xid,
            program: <Q::Program as Program>::NUMBER,
            version: <Q::Program as Program>::VERSION,
            procedure: Q::NUMBER,
            credential: options.credential.clone(),
        };
        header.encode(&mut message).and_then(|()| args.encode(&mut message)).map_err(CallError::Encode)?;
        let (timeout, retransmit) = (self.timeout, self.retransmit);
        Ok(Call { message: message.into_message(), bounds, timeout, retransmit })
    }
}

fn connect_by<P: Connector>(connector: P, options: &ClientOptions) -> Connect<P::Connection> {
    let shared = Arc::new((connector, LocalParameters::new(&options.config)));
    Box::new(move || {
        let shared = shared.clone();
        Box::pin(async move { shared.0.connect(&shared.1).await })
    })
}

/// What the transport says, with the procedure's name.
fn named(error: CallError, procedure: &'static str) -> CallError {
    match error {
        CallError::Transport(FailReason::UnboundedReply) => CallError::UnboundedReply { procedure },
        other => other,
    }
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
        observed::<P, Q>(self.inner.options.observer.as_ref(), &self.inner.stats, xid, exchange).await
    }

    async fn carry(
        &self,
        procedure: &'static str,
        message: Message,
        bounds: ReplyBounds,
    ) -> Result<(Received, Traffic), CallError> {
        let call = Call { message, bounds, timeout: self.timeout, retransmit: self.retransmit };
        let reply = self.transact(call).await.map_err(|error| named(error, procedure))?;
        Ok((reply.message, reply.traffic))
    }
}

impl<P: Binding> Caller<P> for Client {
    type Error = CallError;

    async fn call<Q: Procedure<Program = P>>(&self, args: &Q::Args) -> Result<Q::Res, CallError> {
        let xid = self.next_xid();
        let Inner { options, stats, .. } = &*self.inner;
        observed::<P, Q>(options.observer.as_ref(), stats, xid, self.exchange::<Q>(xid, args)).await
    }
}

/// Counts a call whose caller left before its end.
struct Unfinished<'a>(Option<&'a ClientStats>);

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if let Some(stats) = self.0 {
            stats.abandoned();
        }
    }
}

/// Makes a call in a span of its own, counts it, and tells the observer of its end.
pub(super) async fn observed<P: Program, Q: Procedure>(
    observer: Option<&Observer>,
    stats: &ClientStats,
    xid: u32,
    exchange: impl Future<Output = Result<(Q::Res, Traffic), CallError>>,
) -> Result<Q::Res, CallError> {
    let began = Instant::now();
    let mut unfinished = Unfinished(Some(stats));
    let outcome = exchange.instrument(debug_span!("call", procedure = Q::NAME, xid)).await;
    unfinished.0 = None;
    stats.ended(outcome.as_ref().map(|(_, traffic)| traffic));
    let elapsed = began.elapsed();
    match &outcome {
        Ok((_, traffic)) => debug!(procedure = Q::NAME, xid, ?elapsed, %traffic, "call answered"),
        Err(error) => debug!(procedure = Q::NAME, xid, ?elapsed, %error, "call failed"),
    }
    if let Some(observer) = observer {
        observer.report(&CallReport {
            program: P::NUMBER,
            version: P::VERSION,
            procedure: Q::NAME,
            xid,
            elapsed,
            traffic: outcome.as_ref().ok().map(|(_, traffic)| *traffic),
            error: outcome.as_ref().err().map(ToString::to_string),
        });
    }
    outcome.map(|(result, _)| result)
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("peer", &self.inner.calls.peer()).finish_non_exhaustive()
    }
}

/// What the waits between attempts to connect are drawn from.
pub(super) fn seed() -> u64 {
    getrandom::u64().unwrap_or_else(|_| u64::from(std::process::id()))
}
