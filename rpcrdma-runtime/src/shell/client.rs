use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::net::{ToSocketAddrs, lookup_host};
use tokio::sync::{mpsc, oneshot};
use tracing::{Instrument, debug_span};

use super::driver::{Command, Outcome, drive};
use super::tcp::TcpClient;
use super::{CallError, ClientOptions, ConnectError, Observer};
use crate::proto::program::{Binding, Caller, Procedure, Program};
use crate::proto::rdma::{Call, Reply, ReplyResources, Requester, Stated, Traffic};
use crate::provider::{Connection, iwarp};
use crate::wire::private_data::{Negotiated, PrivateData};
use crate::wire::rpc::{CallHeader, decode_reply};
use crate::xdr::{Decode, Encode, Reader, Reducer};

/// A connection to a server, for any number of callers: clones share it.
///
/// It carries calls of every program that has an Upper-Layer Binding. Calls beyond the credits wait; dropping a
/// call's future abandons the call, and its buffers stay with the connection until the peer cannot reach them.
/// When the last clone is dropped the connection is closed.
#[derive(Clone)]
pub struct Client(Arc<Shared>);

struct Shared {
    commands: mpsc::UnboundedSender<Command>,
    next_xid: AtomicU32,
    next_key: AtomicU64,
    negotiated: Negotiated,
    max_segment: u32,
    reads_in: u32,
    peer: Option<SocketAddr>,
    options: ClientOptions,
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
    /// Connects over iWARP in user space with default options.
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
        let name = address.to_string();
        let unresolved = |source| ConnectError::Resolve { address: name.clone(), source };
        let private_data = options.config.private_data.encode();
        let mut last = None;
        for candidate in lookup_host(address).await.map_err(unresolved)? {
            let receive_size = options.config.private_data.announced().receive_size;
            match iwarp::connect(candidate, &private_data, receive_size, &options.iwarp).await {
                Ok(connection) => return Ok(Client::over(connection, options)),
                Err(error) => last = Some(error),
            }
        }
        Err(match last {
            Some(source) => ConnectError::Connect { address: name, source },
            None => unresolved(std::io::ErrorKind::NotFound.into()),
        })
    }

    /// Connects by RPC over TCP with default options: to servers without RDMA, and for programs without a binding.
    ///
    /// # Errors
    /// [`ConnectError`], once every address that the name stands for was tried.
    pub async fn connect_tcp(address: impl ToSocketAddrs + fmt::Display) -> Result<TcpClient, ConnectError> {
        TcpClient::connect(address).await
    }

    /// Uses a connection of any provider. Its task is spawned on the current runtime.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn over(connection: impl Connection + 'static, options: ClientOptions) -> Self {
        let info = connection.info();
        let server = PrivateData::find(&info.private_data).unwrap_or(PrivateData::ABSENT);
        let negotiated = PrivateData::negotiate(&options.config.private_data, &server);
        let requester = Requester::new(options.config, negotiated, info.max_region);
        let (peer, max_segment) = (info.peer, options.config.max_segment.min(info.max_region));
        let reads_in = info.reads_in;
        let (commands, receiver) = mpsc::unbounded_channel();
        tokio::spawn(
            drive(connection, requester, receiver).instrument(debug_span!("connection", peer = ?peer)),
        );
        Client(Arc::new(Shared {
            commands,
            next_xid: AtomicU32::new(first_xid()),
            next_key: AtomicU64::new(0),
            negotiated,
            max_segment,
            reads_in,
            peer,
            options,
        }))
    }

    /// What was agreed on when the connection was made.
    #[must_use]
    pub fn negotiated(&self) -> Negotiated {
        self.0.negotiated
    }

    /// The server's address.
    #[must_use]
    pub fn peer(&self) -> Option<SocketAddr> {
        self.0.peer
    }

    /// The longest message that this end sends, in bytes, whatever the server takes.
    #[must_use]
    pub fn longest_call(&self) -> u32 {
        self.0.options.config.private_data.announced().send_size
    }

    /// What this end takes and does: what [`Client::limit`] is at the server's end.
    #[must_use]
    pub fn own_limits(&self) -> Stated {
        let inline = self.0.options.config.private_data.announced().receive_size;
        Stated { inline, reads: self.0.reads_in }
    }

    /// Keeps calls to what the server says of itself, for as long as the connection lasts (RFC 5666 section 6.2): none is
    /// longer inline than it says, and none has Read chunks if it does no RDMA Reads. A call that cannot be sent so fails.
    pub fn limit(&self, server: Stated) {
        // If the task is gone there are no calls.
        let _ = self.0.commands.send(Command::Limit(server));
    }

    /// Closes the connection. Calls that wait fail.
    pub fn close(&self) {
        let _ = self.0.commands.send(Command::Close);
    }

    async fn exchange<Q: Procedure>(&self, xid: u32, args: &Q::Args) -> Result<(Q::Res, Traffic), CallError> {
        let call = self.prepare::<Q>(xid, args)?;
        let timeout = self.0.options.timeout;
        let waiting = self.transact(call);
        let reply =
            tokio::time::timeout(timeout, waiting).await.map_err(|_| CallError::Timeout(timeout))??;
        let mut reader = Reader::new(&reply.message);
        decode_reply(&mut reader, xid)?;
        let result = Q::Res::decode(&mut reader).map_err(CallError::Decode)?;
        reader.finish().map_err(CallError::Decode)?;
        Ok((result, reply.traffic))
    }

    fn prepare<Q: Procedure>(&self, xid: u32, args: &Q::Args) -> Result<Call, CallError> {
        let Shared { negotiated, max_segment, options, .. } = &*self.0;
        // What the credential protects as a whole stays whole, and so does the reply to it.
        let (bounds, mut message) = if options.credential.allows_reduction() {
            (Q::reply_bounds(args), Reducer::new(options.min_item))
        } else {
            (Q::reply_bounds(args).unreduced(), Reducer::disabled())
        };
        let reply = ReplyResources::in_segments(&bounds, negotiated.reply_threshold, *max_segment)
            .map_err(|_| CallError::UnboundedReply { procedure: Q::NAME })?;
        let header = CallHeader {
            xid,
            program: <Q::Program as Program>::NUMBER,
            version: <Q::Program as Program>::VERSION,
            procedure: Q::NUMBER,
            credential: options.credential.clone(),
        };
        header.encode(&mut message).and_then(|()| args.encode(&mut message)).map_err(CallError::Encode)?;
        Ok(Call { message: message.into_message(), reply })
    }

    async fn transact(&self, call: Call) -> Result<Reply, CallError> {
        let key = self.0.next_key.fetch_add(1, Ordering::Relaxed);
        let (done, outcome) = oneshot::channel::<Outcome>();
        let command = Command::Call { key, call, done };
        self.0.commands.send(command).map_err(|_| CallError::Disconnected)?;
        let mut guard = Abandon { client: self, key: Some(key) };
        let limit = self.0.options.timeout;
        let reply = tokio::time::timeout(limit, outcome).await;
        guard.key = None;
        match reply {
            Ok(reply) => Ok(reply.map_err(|_| CallError::Disconnected)??),
            Err(_) => {
                let _ = self.0.commands.send(Command::Expire { key });
                Err(CallError::Timeout(limit))
            }
        }
    }
}

/// Tells the connection's task when a caller leaves before its call has ended.
struct Abandon<'a> {
    client: &'a Client,
    key: Option<u64>,
}

impl Drop for Abandon<'_> {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            // If the task is gone there is nothing to abandon.
            let _ = self.client.0.commands.send(Command::Cancel { key });
        }
    }
}

impl<P: Binding> Caller<P> for Client {
    type Error = CallError;

    async fn call<Q: Procedure<Program = P>>(&self, args: &Q::Args) -> Result<Q::Res, CallError> {
        let xid = self.0.next_xid.fetch_add(1, Ordering::Relaxed);
        observed::<P, Q>(self.0.options.observer.as_ref(), xid, self.exchange::<Q>(xid, args)).await
    }
}

/// Makes a call in a span of its own, and tells the observer of its end.
pub(super) async fn observed<P: Program, Q: Procedure>(
    observer: Option<&Observer>,
    xid: u32,
    exchange: impl Future<Output = Result<(Q::Res, Traffic), CallError>>,
) -> Result<Q::Res, CallError> {
    let began = Instant::now();
    let outcome = exchange.instrument(debug_span!("call", procedure = Q::NAME, xid)).await;
    if let Some(observer) = observer {
        observer.report(&CallReport {
            program: P::NUMBER,
            version: P::VERSION,
            procedure: Q::NAME,
            xid,
            elapsed: began.elapsed(),
            traffic: outcome.as_ref().ok().map(|(_, traffic)| *traffic),
            error: outcome.as_ref().err().map(ToString::to_string),
        });
    }
    outcome.map(|(result, _)| result)
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("peer", &self.0.peer).field("negotiated", &self.0.negotiated).finish()
    }
}

/// Anything but what the last connection began with.
pub(super) fn first_xid() -> u32 {
    getrandom::u32().unwrap_or_else(|_| std::process::id())
}
