use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio::time::timeout;
use tracing::{Instrument, debug_span};

use super::super::checks;
use super::super::client_handle::{ClientHandle, client_methods};
use super::super::driver::{Connect, Outbound, SessionHandle, Shared};
use super::super::message_transport::{MessageTransport, Sends};
use super::super::stats::ClientStats;
use super::super::waiters::Submit;
use super::super::{CallError, CallTarget, ConnectError, ToAddress};
use super::outbound::TcpOutbound;
use super::{TcpClientOptions, TcpOptions};
use crate::proto::call::Traffic;
use crate::proto::program::{CallFuture, Caller, Procedure, Program, ReplyBounds};
use crate::proto::session::Policy;
use crate::provider::addresses;
use crate::provider::iwarp::options::prepare_socket;
use crate::xdr::{BytesMut, Message, Received};

/// The minimum size, in octets, of an item that is sent from its own buffer. Smaller items are copied.
const MIN_ITEM: usize = 16 << 10;

/// A client of one server over TCP. Clones share its connection, and any number of tasks may make calls
/// concurrently.
///
/// The client can call any program that is not [`BackwardOnly`](crate::program::BackwardOnly). Dropping a
/// call's future abandons the call, and a late reply is dropped. Dropping the last clone closes the
/// connection.
///
/// A connection ends when it is lost or stays idle for too long. By default, the client then reconnects as
/// soon as it has calls, and retransmits the outstanding calls with the same XIDs. A server without a
/// duplicate-request cache may execute a retransmitted call twice; to avoid this, use
/// [`TcpClient::without_retransmission`]. A call that times out does not affect other calls, unless the
/// server has been silent for the whole stall timeout ([`TcpOptions::stall_timeout`]).
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
///
/// use rpcrdma_runtime::{TcpClient, TcpServer};
///
/// let server = TcpServer::bind("127.0.0.1:0").await?; // `service` adds programs
/// let address = server.local_addr()?;
/// tokio::spawn(server.run(std::future::pending()));
///
/// let client = TcpClient::connect(address).await?;
/// let impatient = client.with_timeout(Duration::from_secs(5)); // same connection
/// assert_eq!((impatient.connections(), client.connections()), (1, 1));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct TcpClient {
    handle: ClientHandle<Shared<TcpOutbound>>,
}

impl TcpClient {
    /// Connects with default options.
    ///
    /// # Errors
    /// [`ConnectError`] if the name cannot be resolved, or if none of its addresses accepts a connection.
    pub async fn connect(address: impl ToAddress) -> Result<Self, ConnectError> {
        TcpClient::connect_with(address, TcpClientOptions::default()).await
    }

    /// Connects with these options.
    ///
    /// # Errors
    /// [`ConnectError`] if the name cannot be resolved, or if none of its addresses accepts a connection.
    pub async fn connect_with(
        address: impl ToAddress,
        options: TcpClientOptions,
    ) -> Result<Self, ConnectError> {
        let connector = Arc::new((address.to_address(), options.tcp, options.backward.clone()));
        let mut connect: Connect<TcpOutbound> = Box::new(move || {
            let connector = connector.clone();
            Box::pin(async move {
                let (address, tcp, backward) = &*connector;
                let (socket, peer) = connect_to_any(address, tcp).await?;
                Ok(TcpOutbound::new(socket, peer, tcp, backward))
            })
        });
        let first = connect().await?;
        let TcpClientOptions { timeout, idle, reconnect, .. } = options;
        let policy = Policy { timeout, idle, reconnect, ..Policy::default() };
        let (stats, peer) = (ClientStats::default(), first.0.peer());
        let (calls, driver) = Shared::new(
            policy,
            (Some(first), Some(connect)),
            peer,
            &options.backward,
            stats.clone(),
            options.max_outstanding_calls,
        );
        tokio::spawn(driver.instrument(debug_span!("client", %peer)));
        let TcpClientOptions { credential, observer, .. } = options;
        Ok(TcpClient { handle: ClientHandle::new(calls, stats, credential, observer, timeout) })
    }

    /// Returns a client on the same connection. Its calls store the first eligible item of their result in
    /// `memory`, as described for [`Client::with_result_memory`](super::super::Client::with_result_memory).
    /// Over TCP, the item is copied. If the item has no bound, a call whose item exceeds the memory's
    /// capacity fails with [`CallError::Decode`](crate::CallError::Decode).
    #[must_use]
    pub fn with_result_memory(&self, memory: BytesMut) -> Self {
        TcpClient { handle: self.handle.with_result_memory(memory) }
    }

    /// Returns the server's address on the current or last connection.
    #[must_use]
    pub fn peer(&self) -> SocketAddr {
        self.handle.session().peer()
    }
}

impl<P: Program> MessageTransport<P> for TcpClient {
    fn next_xid(&self) -> u32 {
        self.handle.session().next_xid()
    }

    fn min_item(&self) -> usize {
        MIN_ITEM
    }

    async fn observe<Q: Procedure<Program = P>>(
        &self,
        xid: u32,
        exchange: impl Future<Output = Result<(Q::Res, Traffic), CallError>> + Send,
    ) -> Result<Q::Res, CallError> {
        const { checks::forward::<P>() };
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

async fn connect_to_any(name: &str, options: &TcpOptions) -> Result<(TcpStream, SocketAddr), ConnectError> {
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    let candidates =
        addresses(name).await.map_err(|source| ConnectError::Resolve { address: name.to_owned(), source })?;
    for candidate in candidates {
        match dial(candidate, options).await {
            Ok(socket) => return Ok((socket, candidate)),
            Err(error) => last = error,
        }
    }
    Err(ConnectError::Tcp { address: name.to_owned(), source: last })
}

async fn dial(address: SocketAddr, options: &TcpOptions) -> io::Result<TcpStream> {
    let connecting = timeout(options.connect_timeout, TcpStream::connect(address));
    let socket = connecting.await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
    prepare_socket(&socket, options.keepalive.as_ref())?;
    Ok(socket)
}

client_methods!(TcpClient {});

impl<P: Program> Caller<P> for TcpClient {
    fn call<'a, Q: Procedure<Program = P>>(&'a self, args: &'a Q::Args) -> CallFuture<'a, Q::Res, CallError> {
        const { checks::forward::<P>() };
        Box::pin(self.handle.call::<Q>(args, MIN_ITEM))
    }
}

impl fmt::Debug for TcpClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TcpClient").field("peer", &self.peer()).finish_non_exhaustive()
    }
}
