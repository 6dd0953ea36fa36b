use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpStream, ToSocketAddrs, lookup_host};
use tokio::time::timeout;
use tracing::{Instrument, debug_span};

use super::super::calls::{Calls, Command};
use super::super::carrier::Carrier;
use super::super::client::{observed, seed};
use super::super::stats::{ClientSnapshot, ClientStats};
use super::super::{CallError, ConnectError};
use super::driver::{Dialled, Driver, LastPeer};
use super::stream::prepare;
use super::{TcpClientOptions, TcpOptions};
use crate::proto::program::{Caller, Procedure, Program, ReplyBounds};
use crate::proto::rdma::Traffic;
use crate::proto::rdma::session::{Call, Policy, Session};
use crate::wire::rpc::{CallHeader, decode_reply};
use crate::xdr::{Decode, Encode, Message, Reader, Received, Reducer};

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
    shared: Arc<Shared>,
    timeout: Option<Duration>,
    retransmit: Option<bool>,
}

struct Shared {
    calls: Calls,
    peer: LastPeer<SocketAddr>,
    stats: ClientStats,
    options: TcpClientOptions,
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
        let name = address.to_string();
        let connect = {
            let tcp = options.tcp;
            move || {
                let name = name.clone();
                async move { reach(&name, &tcp).await }
            }
        };
        let first = connect().await?;
        let TcpClientOptions { timeout, idle, reconnect, tcp, .. } = options;
        let keep = options.backward.programs().next().is_some();
        let session = Session::new(Policy { timeout, idle, keep, reconnect }, seed());
        let peer = LastPeer::new(first.1);
        let span = debug_span!("client", peer = %first.1);
        let connect = Box::new(move || Box::pin(connect()) as _);
        let stats = ClientStats::default();
        let backward = options.backward.clone();
        let mut driver = Driver::new(session, tcp, connect, peer.clone(), backward, stats.clone());
        driver.connected(first);
        let (calls, receiver) = Calls::new(options.pending);
        tokio::spawn(driver.run(receiver).instrument(span));
        let shared = Shared { calls, peer, stats, options };
        Ok(TcpClient { shared: Arc::new(shared), timeout: None, retransmit: None })
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
        self.shared.calls.tell(Command::Close);
    }

    /// Takes no more calls, of any clone, waits until those that are under way have ended, and closes the connection.
    pub async fn drain(&self) {
        self.shared.calls.tell(Command::Drain);
        self.shared.calls.closed().await;
    }

    /// The server's address: of the connection that there is, or of the last one.
    #[must_use]
    pub fn peer(&self) -> SocketAddr {
        self.shared.peer.get()
    }

    /// How many connections there were, this one included.
    #[must_use]
    pub fn connections(&self) -> u64 {
        self.shared.peer.made()
    }

    /// Waits until there were more connections than `seen`, and says how many, as
    /// [`Client::next_connection`](super::super::Client::next_connection) does.
    pub async fn next_connection(&self, seen: u64) -> Option<u64> {
        self.shared.peer.next(seen, self.shared.calls.closed()).await
    }

    /// What was counted up to now, for all clones.
    #[must_use]
    pub fn stats(&self) -> ClientSnapshot {
        self.shared.stats.snapshot()
    }

    async fn exchange<Q: Procedure>(&self, xid: u32, args: &Q::Args) -> Result<(Q::Res, Traffic), CallError> {
        let message = self.encode::<Q>(xid, args)?;
        let (reply, traffic) =
            Carrier::<Q::Program>::carry(self, Q::NAME, message, Q::reply_bounds(args)).await?;
        let mut reader = Reader::new(&reply);
        decode_reply(&mut reader, xid)?;
        let result = Q::Res::decode(&mut reader).map_err(CallError::Decode)?;
        reader.finish().map_err(CallError::Decode)?;
        Ok((result, traffic))
    }

    fn encode<Q: Procedure>(&self, xid: u32, args: &Q::Args) -> Result<Message, CallError> {
        let header = CallHeader {
            xid,
            program: <Q::Program as Program>::NUMBER,
            version: <Q::Program as Program>::VERSION,
            procedure: Q::NUMBER,
            credential: self.shared.options.credential.clone(),
        };
        let mut message = Reducer::new(MIN_ITEM);
        header.encode(&mut message).and_then(|()| args.encode(&mut message)).map_err(CallError::Encode)?;
        Ok(message.into_message())
    }
}

impl<P: Program> Carrier<P> for TcpClient {
    fn next_xid(&self) -> u32 {
        self.shared.calls.next_xid()
    }

    fn min_item(&self) -> usize {
        MIN_ITEM
    }

    async fn observe<Q: Procedure<Program = P>>(
        &self,
        xid: u32,
        exchange: impl Future<Output = Result<(Q::Res, Traffic), CallError>> + Send,
    ) -> Result<Q::Res, CallError> {
        let Shared { options, stats, .. } = &*self.shared;
        observed::<P, Q>(options.observer.as_ref(), stats, xid, exchange).await
    }

    async fn carry(
        &self,
        _: &'static str,
        message: Message,
        bounds: ReplyBounds,
    ) -> Result<(Received, Traffic), CallError> {
        let (timeout, retransmit) = (self.timeout, self.retransmit);
        let reply = self.shared.calls.transact(Call { message, bounds, timeout, retransmit }).await?;
        Ok((reply.message, reply.traffic))
    }
}

/// Connects to one of the addresses that a name stands for.
async fn reach(name: &str, options: &TcpOptions) -> Result<Dialled, ConnectError> {
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
        let xid = self.shared.calls.next_xid();
        let Shared { options, stats, .. } = &*self.shared;
        observed::<P, Q>(options.observer.as_ref(), stats, xid, self.exchange::<Q>(xid, args)).await
    }
}

impl fmt::Debug for TcpClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TcpClient").field("peer", &self.peer()).finish_non_exhaustive()
    }
}
