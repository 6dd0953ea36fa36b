use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpStream, ToSocketAddrs, lookup_host};
use tokio::time::timeout;
use tracing::{Instrument, debug_span};

use super::super::carrier::{Carrier, Sends};
use super::super::driver::{Connect, Outbound, SessionHandle, Shared, ended, next_connection};
use super::super::exchange::{decode, encode, transact};
use super::super::observer::observed;
use super::super::stats::{ClientSnapshot, ClientStats};
use super::super::waiters::Submit;
use super::super::{CallError, ConnectError};
use super::outbound::TcpOutbound;
use super::stream::prepare;
use super::{TcpClientOptions, TcpOptions};
use crate::proto::program::{Caller, Procedure, Program, ReplyBounds};
use crate::proto::rdma::session::{Call, Policy};
use crate::proto::rdma::{Reply, Traffic};
use crate::xdr::{Message, Received, Reducer};

/// The smallest item that is sent from where it is, in octets; a smaller one is copied.
const MIN_ITEM: usize = 16 << 10;

/// Calls to one server by TCP, by any number of callers: clones share the connection.
///
/// It carries calls of every program. Dropping a call's future abandons the call; its reply is dropped when it comes.
/// When the last clone is dropped the connection is closed.
///
/// When the connection is lost, or closed because nobody used it, the next one is made as soon as there are calls, and those
/// that have no reply are sent on it, with the same XID: such a call may be executed twice by a server that keeps no
/// duplicate-request cache ([`TcpClient::without_retransmission`]). A call whose time is up costs the others nothing,
/// unless the server was silent all the while ([`TcpOptions::stall_timeout`]).
#[derive(Clone)]
pub struct TcpClient {
    inner: Arc<Inner>,
    timeout: Option<Duration>,
    retransmit: Option<bool>,
}

/// What the clones of a client share. The last one closes the connection.
struct Inner {
    calls: Arc<Shared<TcpOutbound>>,
    stats: ClientStats,
    options: TcpClientOptions,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.calls.close();
    }
}

impl TcpClient {
    /// Connects with default options.
    ///
    /// # Errors
    /// [`ConnectError`], once every address that the name stands for was tried.
    pub async fn connect(address: impl ToSocketAddrs + fmt::Display) -> Result<Self, ConnectError> {
        TcpClient::connect_with(address, TcpClientOptions::default()).await
    }

    /// Connects.
    ///
    /// # Errors
    /// [`ConnectError`], once every address that the name stands for was tried.
    pub async fn connect_with(
        address: impl ToSocketAddrs + fmt::Display,
        options: TcpClientOptions,
    ) -> Result<Self, ConnectError> {
        let connector = Arc::new((address.to_string(), options.tcp, options.backward.clone()));
        let mut connect: Connect<TcpOutbound> = Box::new(move || {
            let connector = connector.clone();
            Box::pin(async move {
                let (address, tcp, backward) = &*connector;
                let (socket, peer) = reach(address, tcp).await?;
                Ok(TcpOutbound::new(socket, peer, tcp, backward))
            })
        });
        let first = connect().await?;
        let TcpClientOptions { timeout, idle, reconnect, .. } = options;
        let policy = Policy { timeout, idle, keep: false, reconnect };
        let (stats, peer) = (ClientStats::default(), first.0.peer());
        let (calls, driver) = Shared::new(
            policy,
            (Some(first), Some(connect)),
            peer,
            &options.backward,
            stats.clone(),
            options.pending,
        );
        tokio::spawn(driver.instrument(debug_span!("client", %peer)));
        let inner = Inner { calls, stats, options };
        Ok(TcpClient { inner: Arc::new(inner), timeout: None, retransmit: None })
    }

    /// The same connection, for calls that may take this long each: from the call to its reply, however many connections
    /// that takes.
    #[must_use]
    pub fn with_timeout(&self, timeout: Duration) -> Self {
        TcpClient { timeout: Some(timeout), ..self.clone() }
    }

    /// The same connection, for calls that must not be executed twice and whose server may not know them again: one that
    /// was sent when its connection ends fails with [`FailReason::Closed`], and is not sent on the next one. Calls over
    /// RPCSEC_GSS are so in any case.
    ///
    /// [`FailReason::Closed`]: crate::proto::rdma::FailReason::Closed
    #[must_use]
    pub fn without_retransmission(&self) -> Self {
        TcpClient { retransmit: Some(false), ..self.clone() }
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

    /// The server's address: of the connection that there is, or of the last one.
    #[must_use]
    pub fn peer(&self) -> SocketAddr {
        self.inner.calls.peer()
    }

    /// How many connections there were, this one included.
    #[must_use]
    pub fn connections(&self) -> u64 {
        self.inner.calls.watch().borrow().connections
    }

    /// Waits until there were more connections than `seen`, and says how many, as
    /// [`Client::next_connection`](super::super::Client::next_connection) does.
    pub async fn next_connection(&self, seen: u64) -> Option<u64> {
        next_connection(self.inner.calls.watch(), seen).await
    }

    /// What was counted up to now, for all clones.
    #[must_use]
    pub fn stats(&self) -> ClientSnapshot {
        self.inner.calls.count();
        self.inner.stats.snapshot()
    }

    async fn exchange<Q: Procedure>(&self, xid: u32, args: &Q::Args) -> Result<(Q::Res, Traffic), CallError> {
        let credential = &self.inner.options.credential;
        let message = encode::<Q>(xid, credential, args, Reducer::new(MIN_ITEM))?;
        let bounds = Q::reply_bounds(args);
        decode::<Q>(xid, &self.transact(Q::NAME, message, bounds, Sends::of(credential)).await?)
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
}

impl<P: Program> Carrier<P> for TcpClient {
    fn next_xid(&self) -> u32 {
        self.inner.calls.next_xid()
    }

    fn min_item(&self) -> usize {
        MIN_ITEM
    }

    async fn observe<Q: Procedure<Program = P>>(
        &self,
        xid: u32,
        exchange: impl Future<Output = Result<(Q::Res, Traffic), CallError>> + Send,
    ) -> Result<Q::Res, CallError> {
        let Inner { options, stats, .. } = &*self.inner;
        observed::<Q>(options.observer.as_ref(), stats, xid, exchange).await
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

/// Connects to one of the addresses that a name stands for.
async fn reach(name: &str, options: &TcpOptions) -> Result<(TcpStream, SocketAddr), ConnectError> {
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    let candidates = lookup_host(name)
        .await
        .map_err(|source| ConnectError::Resolve { address: name.to_owned(), source })?;
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
    prepare(&socket, options)?;
    Ok(socket)
}

impl<P: Program> Caller<P> for TcpClient {
    type Error = CallError;

    async fn call<Q: Procedure<Program = P>>(&self, args: &Q::Args) -> Result<Q::Res, CallError> {
        let xid = self.inner.calls.next_xid();
        let Inner { options, stats, .. } = &*self.inner;
        observed::<Q>(options.observer.as_ref(), stats, xid, self.exchange::<Q>(xid, args)).await
    }
}

impl fmt::Debug for TcpClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TcpClient").field("peer", &self.peer()).finish_non_exhaustive()
    }
}
