use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tokio::net::{TcpStream, ToSocketAddrs, lookup_host};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::time::timeout;
use tracing::{Instrument, debug, debug_span};

use super::super::carrier::Carrier;
use super::super::client::{first_xid, observed};
use super::super::stats::{ClientSnapshot, ClientStats};
use super::super::{CallError, ConnectError};
use super::stream::{Incoming, Outgoing, halves, prepare};
use super::{TcpClientOptions, TcpOptions};
use crate::proto::program::{Caller, Procedure, Program, ReplyBounds};
use crate::proto::rdma::{FailReason, Traffic};
use crate::proto::work::CloseReason;
use crate::wire::rpc::{CallHeader, decode_reply};
use crate::xdr::{Decode, Encode, Message, Reader, Received, Reducer};

/// The smallest item that is sent from where it is, in octets; a smaller one is copied.
const MIN_ITEM: usize = 16 << 10;

/// A connection over TCP to a server, for any number of callers: clones share it.
///
/// It carries calls of every program. Dropping a call's future abandons the call; its reply is dropped when it comes.
/// When the last clone is dropped the connection is closed.
#[derive(Clone)]
pub struct TcpClient(Arc<Shared>);

struct Shared {
    commands: mpsc::UnboundedSender<Command>,
    free: Arc<Semaphore>,
    next_xid: AtomicU32,
    peer: SocketAddr,
    stats: ClientStats,
    options: TcpClientOptions,
}

/// What callers ask of the connection's task.
enum Command {
    /// Send a call and wait for its reply.
    Call { xid: u32, message: Message, slot: OwnedSemaphorePermit, done: oneshot::Sender<Outcome> },
    /// Nobody waits for this reply any more.
    Forget { xid: u32 },
}

type Outcome = Result<bytes::Bytes, FailReason>;

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
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        let candidates = lookup_host(address)
            .await
            .map_err(|source| ConnectError::Resolve { address: name.clone(), source })?;
        for candidate in candidates {
            match dial(candidate, &options.tcp).await {
                Ok(socket) => return Ok(TcpClient::over(socket, candidate, options)),
                Err(error) => last = error,
            }
        }
        Err(ConnectError::Tcp { address: name, source: last })
    }

    fn over(socket: TcpStream, peer: SocketAddr, options: TcpClientOptions) -> Self {
        let (incoming, outgoing) = halves(socket, &options.tcp);
        let (commands, receiver) = mpsc::unbounded_channel();
        let task = Task { outgoing, waiting: HashMap::new() };
        tokio::spawn(task.run(incoming, receiver).instrument(debug_span!("connection", %peer)));
        let free = Arc::new(Semaphore::new(options.tcp.calls.clamp(1, Semaphore::MAX_PERMITS)));
        let (next_xid, stats) = (AtomicU32::new(first_xid()), ClientStats::default());
        TcpClient(Arc::new(Shared { commands, free, next_xid, peer, stats, options }))
    }

    /// The server's address.
    #[must_use]
    pub fn peer(&self) -> SocketAddr {
        self.0.peer
    }

    /// What was counted up to now, for all clones.
    #[must_use]
    pub fn stats(&self) -> ClientSnapshot {
        self.0.stats.snapshot()
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
            credential: self.0.options.credential.clone(),
        };
        let mut message = Reducer::new(MIN_ITEM);
        header.encode(&mut message).and_then(|()| args.encode(&mut message)).map_err(CallError::Encode)?;
        Ok(message.into_message())
    }

    /// Gives how many octets were sent, and the reply.
    async fn transact(&self, xid: u32, message: Message) -> Result<(u64, bytes::Bytes), CallError> {
        let gone = |_| CallError::Disconnected;
        let slot = self.0.free.clone().acquire_owned().await.map_err(|_| CallError::Disconnected)?;
        let sent = message.unreduced_len();
        let (done, outcome) = oneshot::channel();
        self.0
            .commands
            .send(Command::Call { xid, message, slot, done })
            .map_err(|_| CallError::Disconnected)?;
        let _guard = Forget { client: self, xid };
        Ok((sent, outcome.await.map_err(gone)??))
    }
}

impl<P: Program> Carrier<P> for TcpClient {
    fn next_xid(&self) -> u32 {
        self.0.next_xid.fetch_add(1, Ordering::Relaxed)
    }

    fn min_item(&self) -> usize {
        MIN_ITEM
    }

    async fn observe<Q: Procedure<Program = P>>(
        &self,
        xid: u32,
        exchange: impl Future<Output = Result<(Q::Res, Traffic), CallError>> + Send,
    ) -> Result<Q::Res, CallError> {
        observed::<P, Q>(self.0.options.observer.as_ref(), &self.0.stats, xid, exchange).await
    }

    async fn carry(
        &self,
        _: &'static str,
        message: Message,
        _: ReplyBounds,
    ) -> Result<(Received, Traffic), CallError> {
        let limit = self.0.options.timeout;
        let xid = message.stream.first_chunk().map_or(0, |word| u32::from_be_bytes(*word));
        let waiting = self.transact(xid, message);
        let (sent, reply) = timeout(limit, waiting).await.map_err(|_| CallError::Timeout(limit))??;
        let traffic = Traffic { call_inline: sent, reply_inline: reply.len() as u64, ..Traffic::default() };
        Ok((Received::whole(reply), traffic))
    }
}

async fn dial(address: SocketAddr, options: &TcpOptions) -> io::Result<TcpStream> {
    let connecting = timeout(options.connect_timeout, TcpStream::connect(address));
    let socket = connecting.await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
    prepare(&socket, options)?;
    Ok(socket)
}

/// Tells the connection's task when a call has ended, or its caller has left.
struct Forget<'a> {
    client: &'a TcpClient,
    xid: u32,
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        // If the task is gone there is nothing to forget.
        let _ = self.client.0.commands.send(Command::Forget { xid: self.xid });
    }
}

impl<P: Program> Caller<P> for TcpClient {
    type Error = CallError;

    async fn call<Q: Procedure<Program = P>>(&self, args: &Q::Args) -> Result<Q::Res, CallError> {
        let xid = self.0.next_xid.fetch_add(1, Ordering::Relaxed);
        let Shared { options, stats, .. } = &*self.0;
        observed::<P, Q>(options.observer.as_ref(), stats, xid, self.exchange::<Q>(xid, args)).await
    }
}

impl fmt::Debug for TcpClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TcpClient").field("peer", &self.0.peer).finish_non_exhaustive()
    }
}

/// The task that owns a connection.
struct Task {
    outgoing: Outgoing<Arc<OwnedSemaphorePermit>>,
    waiting: HashMap<u32, Waiting>,
}

/// A call that waits for its reply.
struct Waiting {
    done: oneshot::Sender<Outcome>,
    /// Free once the call has left and is answered or forgotten: what waits to be sent has a bound.
    _slot: Arc<OwnedSemaphorePermit>,
}

impl Task {
    async fn run(mut self, mut incoming: Incoming, mut commands: mpsc::UnboundedReceiver<Command>) {
        let reason = loop {
            tokio::select! {
                record = incoming.next() => match record {
                    Ok(Some(reply)) => self.received(reply),
                    Ok(None) => break CloseReason::Peer,
                    Err(error) => break CloseReason::Io(error.to_string()),
                },
                written = self.outgoing.write(), if !self.outgoing.is_empty() => if let Err(error) = written {
                    break CloseReason::Io(error.to_string());
                },
                command = commands.recv() => match command {
                    Some(Command::Call { xid, message, slot, done }) => self.begin(xid, message, slot, done),
                    Some(Command::Forget { xid }) => drop(self.waiting.remove(&xid)),
                    None => break CloseReason::Local,
                },
            }
        };
        debug!(%reason, "connection closed");
        for (_, call) in self.waiting.drain() {
            let _ = call.done.send(Err(FailReason::Closed(reason.clone())));
        }
    }

    fn begin(
        &mut self,
        xid: u32,
        message: Message,
        slot: OwnedSemaphorePermit,
        done: oneshot::Sender<Outcome>,
    ) {
        let slot = Arc::new(slot);
        let why = if self.waiting.contains_key(&xid) {
            "another call has its XID"
        } else if self.outgoing.push(message, slot.clone()).is_err() {
            "it is 2 GiB or longer"
        } else {
            self.waiting.insert(xid, Waiting { done, _slot: slot });
            return;
        };
        let _ = done.send(Err(FailReason::Unsendable(why)));
    }

    /// Gives a reply to who waits for it; one that nobody waits for is late, or nobody's.
    fn received(&mut self, reply: bytes::Bytes) {
        let xid = reply.first_chunk().map(|word| u32::from_be_bytes(*word));
        match xid.and_then(|xid| self.waiting.remove(&xid)) {
            Some(call) => drop(call.done.send(Ok(reply))),
            None => debug!(?xid, "no call waits for this reply"),
        }
    }
}
