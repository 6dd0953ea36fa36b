use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;

use tracing::{Instrument, debug_span};

use super::checks;
use super::client_handle::{ClientHandle, client_methods};
use super::driver::{Connect, Connected, SessionHandle, Shared};
use super::message_transport::{MessageTransport, Sends};
use super::rdma::{Peer, RdmaOutbound, RdmaSession};
use super::stats::ClientStats;
use super::tcp::TcpClient;
use super::{CallError, CallTarget, ClientOptions, ConnectError, ToAddress};
use crate::proto::call::Traffic;
use crate::proto::program::{Binding, CallFuture, Caller, Procedure, ReplyBounds};
use crate::proto::rdma::{Config, PeerLimits};
use crate::proto::session::Policy;
use crate::provider::iwarp::IwarpConnector;
use crate::provider::{Connection, Connector, LocalParameters};
use crate::wire::private_data::Negotiated;
use crate::xdr::{BytesMut, Message, Received};

/// A client of one server. Clones share its connection, and any number of tasks may make calls concurrently.
///
/// The client can call any program that has an Upper-Layer Binding. Calls that exceed the server's credits
/// wait. Dropping a call's future abandons the call; its buffers stay with the connection until they are
/// fenced. Dropping the last clone closes the connection.
///
/// A connection ends when it is lost, stays idle for too long, or cannot release the resources of a timed-out
/// call ([`CallError::Timeout`]). By default, the client then reconnects as soon as it has calls, and
/// retransmits the outstanding calls with the same XIDs. A server without a duplicate-request cache may
/// execute a retransmitted call twice ([`Client::without_retransmission`]). [`ClientOptions::reconnect`] sets
/// how the client reconnects. Each call has a deadline ([`ClientOptions::timeout`],
/// [`Client::with_timeout`]).
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
///
/// use rpcrdma_runtime::{Client, Server};
///
/// let server = Server::bind("127.0.0.1:0").await?; // `service` adds programs
/// let address = server.local_addr()?;
/// tokio::spawn(server.run(std::future::pending()));
///
/// let client = Client::connect(address).await?;
/// let impatient = client.with_timeout(Duration::from_secs(5)); // same connection
/// assert_eq!((impatient.connections(), client.connections()), (1, 1));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Client {
    handle: ClientHandle<dyn RdmaSession>,
    config: Config,
    min_item: usize,
}

impl Client {
    /// Connects with default options over iWARP in user space.
    ///
    /// # Errors
    /// [`ConnectError`] if the name cannot be resolved, or if none of its addresses accepts a connection.
    pub async fn connect(address: impl ToAddress) -> Result<Self, ConnectError> {
        Client::connect_with(address, ClientOptions::default()).await
    }

    /// Connects over iWARP in user space.
    ///
    /// # Errors
    /// [`ConnectError`] if the name cannot be resolved, or if none of its addresses accepts a connection.
    pub async fn connect_with(address: impl ToAddress, options: ClientOptions) -> Result<Self, ConnectError> {
        let connector = IwarpConnector::new(address.to_address(), options.iwarp.clone());
        Client::connect_via(connector, options).await
    }

    /// Connects with a connector of any provider. The client also reconnects with this connector.
    ///
    /// # Errors
    /// The connector's [`ConnectError`].
    pub async fn connect_via(
        connector: impl Connector,
        options: ClientOptions,
    ) -> Result<Self, ConnectError> {
        let mut connect = connect_by(connector, &options);
        let first = connect().await?;
        Ok(Client::start(Some(first), Some(connect), options))
    }

    /// Connects over TCP with default options, for servers without RDMA and programs without a binding.
    ///
    /// # Errors
    /// [`ConnectError`] if the name cannot be resolved, or if none of its addresses accepts a connection.
    pub async fn connect_tcp(address: impl ToAddress) -> Result<TcpClient, ConnectError> {
        TcpClient::connect(address).await
    }

    /// Creates a client over an existing connection of any provider. The client cannot reconnect: all calls
    /// fail once the connection ends. An idle connection stays open. Spawns the driver task on the current
    /// runtime.
    ///
    /// # Panics
    /// Panics outside of a tokio runtime.
    pub fn over(connection: impl Connection + 'static, options: ClientOptions) -> Self {
        let first = RdmaOutbound::new(connection, options.config, &options.backward);
        Client::start(Some(first), None, ClientOptions { reconnect: None, ..options })
    }

    /// Returns a client that connects with a connector of any provider when the first call is made. Spawns
    /// the driver task on the current runtime.
    ///
    /// # Panics
    /// Panics outside of a tokio runtime.
    pub fn with_connector(connector: impl Connector, options: ClientOptions) -> Self {
        Client::start(None, Some(connect_by(connector, &options)), options)
    }

    fn start<C: Connection + 'static>(
        first: Option<Connected<RdmaOutbound<C>>>,
        connect: Option<Connect<RdmaOutbound<C>>>,
        options: ClientOptions,
    ) -> Self {
        let ClientOptions { timeout, idle, max_silence, reconnect, .. } = options;
        let policy = Policy { timeout, idle, max_silence, reconnect, ..Policy::default() };
        let stats = ClientStats::default();
        let peer = Peer::new(&options.config, None);
        let (calls, driver) = Shared::new(
            policy,
            (first, connect),
            peer,
            &options.backward,
            stats.clone(),
            options.max_outstanding_calls,
        );
        let span = debug_span!("client", peer = ?calls.peer().address);
        tokio::spawn(driver.instrument(span));
        let ClientOptions { config, credential, min_item, observer, .. } = options;
        let calls: Arc<dyn RdmaSession> = calls;
        Client { handle: ClientHandle::new(calls, stats, credential, observer, timeout), config, min_item }
    }

    /// Returns a client that shares the connection and uses `min_item` instead of
    /// [`ClientOptions::min_item`]. `min_item` is the minimum size of an item that is sent as a Read chunk,
    /// in bytes.
    #[must_use]
    pub fn with_min_item(&self, min_item: usize) -> Self {
        Client { min_item, ..self.clone() }
    }

    /// Returns a client on the same connection whose calls store the first eligible item of their result,
    /// such as the data of a READ, in `memory`. The server writes an item in a Write chunk directly to the
    /// memory; an item that arrives inline is copied. Only one call at a time can use the memory, and only
    /// after the previous result is dropped. Generated clients accept the returned client:
    /// `Program::Client(client.with_result_memory(memory))`.
    ///
    /// A call fails with [`CallError::ResultMemory`] if its result has no eligible item, the item may exceed
    /// the memory's capacity, or the memory is in use. RPCSEC_GSS calls always fail with this error.
    #[must_use]
    pub fn with_result_memory(&self, memory: BytesMut) -> Self {
        Client { handle: self.handle.with_result_memory(memory), ..*self }
    }

    /// Returns the limits negotiated on the current or last connection. Before the first connection, returns
    /// the limits for a server that sends no private data.
    #[must_use]
    pub fn negotiated(&self) -> Negotiated {
        self.handle.session().peer().negotiated
    }

    /// Returns the server's address. Returns `None` before the first connection, or if the transport has no
    /// addresses.
    #[must_use]
    pub fn peer(&self) -> Option<SocketAddr> {
        self.handle.session().peer().address
    }

    /// Returns the maximum length of an inline message that the client sends, in bytes, regardless of the
    /// server's limit.
    #[must_use]
    pub fn longest_call(&self) -> u32 {
        self.config.private_data.announced().send_size
    }

    /// Returns the client's own limits, not the server's ([`Client::set_peer_limits`]). Before the first
    /// connection, [`PeerLimits::reads`] is 0.
    #[must_use]
    pub fn own_limits(&self) -> PeerLimits {
        let inline = self.config.private_data.announced().receive_size;
        PeerLimits { inline, reads: self.handle.session().peer().ird }
    }

    /// Applies the limits that the server announced (RFC 5666 section 6.2) to calls until the connection
    /// ends. A call longer than the server's inline limit is sent with Read chunks, or fails if the server
    /// performs no RDMA Reads. `connection` is the number of the connection on which the server announced
    /// its limits, as returned by [`Client::connections`]. If that connection has ended, the method does
    /// nothing. The next connection starts without these limits, so ask the server again.
    pub fn set_peer_limits(&self, connection: u64, server: PeerLimits) {
        self.handle.session().set_peer_limits(connection, server);
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

impl<P: Binding> MessageTransport<P> for Client {
    fn next_xid(&self) -> u32 {
        self.handle.session().next_xid()
    }

    fn min_item(&self) -> usize {
        self.min_item
    }

    async fn observe<Q: Procedure<Program = P>>(
        &self,
        xid: u32,
        exchange: impl Future<Output = Result<(Q::Res, Traffic), CallError>> + Send,
    ) -> Result<Q::Res, CallError> {
        const { checks::binding::<P>() };
        const { checks::write_chunks::<Q>() };
        self.handle.observe::<Q, _>(xid, || exchange).await
    }

    async fn exchange(
        &self,
        procedure: &'static str,
        message: Message,
        bounds: ReplyBounds,
        sends: Sends,
    ) -> Result<(Received, Traffic), CallError> {
        let target = CallTarget { program: P::NAME, procedure, peer: None };
        self.handle.exchange(target, message, bounds, sends).await
    }
}

client_methods!(Client { config, min_item });

impl<P: Binding> Caller<P> for Client {
    fn call<'a, Q: Procedure<Program = P>>(&'a self, args: &'a Q::Args) -> CallFuture<'a, Q::Res, CallError> {
        const { checks::binding::<P>() };
        const { checks::write_chunks::<Q>() };
        Box::pin(self.handle.call::<Q>(args, self.min_item))
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("peer", &self.handle.session().peer()).finish_non_exhaustive()
    }
}
