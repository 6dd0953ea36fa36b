use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::BytesMut;
use rpcrdma_mount3::mount_v3;
use rpcrdma_nfs3::nfs_v3::NfsV3;
use rpcrdma_runtime::Client;
use rpcrdma_runtime::GssFailure;
use rpcrdma_runtime::Traffic;
use rpcrdma_runtime::program::{Binding, CallFuture, CallTransport, Caller, Procedure, Program, ReplyBounds};
use rpcrdma_runtime::xdr::{Message, Received};
use rpcrdma_runtime::{
    CallError, ClientOptions, GssClient, MessageTransport, Sends, TcpClient, TcpClientOptions,
};
use rpcrdma_services::rpcbind::{Netid, Rpcbind, RpcbindError};

use super::{ClientError, Transport, Url};
use crate::kerberos;

/// A connection to a server, over RPC-over-RDMA or TCP.
#[derive(Clone, Debug)]
pub enum ServerConnection {
    /// RPC-over-RDMA.
    Rdma(Client),
    /// RPC over TCP.
    Tcp(TcpClient),
}

impl From<Client> for ServerConnection {
    fn from(client: Client) -> Self {
        ServerConnection::Rdma(client)
    }
}

impl From<TcpClient> for ServerConnection {
    fn from(client: TcpClient) -> Self {
        ServerConnection::Tcp(client)
    }
}

impl CallTransport for ServerConnection {
    type Error = CallError;
}

impl<P: Binding> Caller<P> for ServerConnection {
    fn call<'a, Q: Procedure<Program = P>>(&'a self, args: &'a Q::Args) -> CallFuture<'a, Q::Res, CallError> {
        match self {
            ServerConnection::Rdma(client) => client.call::<Q>(args),
            ServerConnection::Tcp(client) => client.call::<Q>(args),
        }
    }
}

impl<P: Binding> MessageTransport<P> for ServerConnection {
    fn next_xid(&self) -> u32 {
        match self {
            ServerConnection::Rdma(client) => MessageTransport::<P>::next_xid(client),
            ServerConnection::Tcp(client) => MessageTransport::<P>::next_xid(client),
        }
    }

    fn min_item(&self) -> usize {
        match self {
            ServerConnection::Rdma(client) => MessageTransport::<P>::min_item(client),
            ServerConnection::Tcp(client) => MessageTransport::<P>::min_item(client),
        }
    }

    async fn observe<Q: Procedure<Program = P>>(
        &self,
        xid: u32,
        exchange: impl Future<Output = Result<(Q::Res, Traffic), CallError>> + Send,
    ) -> Result<Q::Res, CallError> {
        match self {
            ServerConnection::Rdma(client) => client.observe::<Q>(xid, exchange).await,
            ServerConnection::Tcp(client) => client.observe::<Q>(xid, exchange).await,
        }
    }

    async fn exchange(
        &self,
        procedure: &'static str,
        message: Message,
        bounds: ReplyBounds,
        sends: Sends,
    ) -> Result<(Received, Traffic), CallError> {
        match self {
            ServerConnection::Rdma(client) => {
                MessageTransport::<P>::exchange(client, procedure, message, bounds, sends).await
            }
            ServerConnection::Tcp(client) => {
                MessageTransport::<P>::exchange(client, procedure, message, bounds, sends).await
            }
        }
    }
}

/// A connection for calls of the NFS program, with the security flavor of a URL.
#[derive(Clone, Debug)]
pub enum NfsConnection {
    /// Sends calls with the credential of the connection.
    Sys(ServerConnection),
    /// Sends calls over RPCSEC_GSS.
    Gss(GssClient<ServerConnection, NfsV3>),
}

impl From<ServerConnection> for NfsConnection {
    fn from(connection: ServerConnection) -> Self {
        NfsConnection::Sys(connection)
    }
}

impl CallTransport for NfsConnection {
    type Error = CallError;
}

impl Caller<NfsV3> for NfsConnection {
    fn call<'a, Q: Procedure<Program = NfsV3>>(
        &'a self,
        args: &'a Q::Args,
    ) -> CallFuture<'a, Q::Res, CallError> {
        match self {
            NfsConnection::Sys(connection) => connection.call::<Q>(args),
            NfsConnection::Gss(client) => client.call::<Q>(args),
        }
    }
}

impl NfsConnection {
    /// Returns a connection that calls the NFS program with the security flavor of a URL. `connection` must
    /// be connected to the URL's server.
    ///
    /// # Errors
    /// [`ClientError::Call`] if the URL requests Kerberos and the feature `krb5` is disabled.
    pub fn new(connection: ServerConnection, url: &Url) -> Result<Self, ClientError> {
        let Some(service) = url.security.service() else { return Ok(connection.into()) };
        let mechanism = kerberos::client(&url.host)
            .map_err(|error| ClientError::call("?sec=", "/", GssFailure::from(error).into()))?;
        Ok(NfsConnection::Gss(GssClient::new(connection, mechanism, service)))
    }

    /// Returns a connection whose calls receive the first eligible item of their result in `memory`, like
    /// [`ServerConnection::with_result_memory`]. RPCSEC_GSS calls do not use `memory`.
    #[must_use]
    pub fn with_result_memory(&self, memory: BytesMut) -> Self {
        match self {
            NfsConnection::Sys(connection) => connection.with_result_memory(memory).into(),
            NfsConnection::Gss(client) => NfsConnection::Gss(client.clone()),
        }
    }
}

impl ServerConnection {
    /// Connects to the server of a URL with the provider in the URL. Over TCP, only the credential and the
    /// timeout of the options apply.
    ///
    /// # Errors
    /// [`ClientError::Connect`].
    pub async fn to(url: &Url, options: ClientOptions) -> Result<Self, ClientError> {
        Ok(match url.transport {
            Transport::Rdma => url.provider.connect(&url.address(), options).await?.into(),
            Transport::Tcp => by_tcp(url.address(), &options).await?.into(),
        })
    }

    /// Returns the server's address. Returns `None` before the first connection, or if the transport has no
    /// addresses.
    #[must_use]
    pub fn peer(&self) -> Option<SocketAddr> {
        match self {
            ServerConnection::Rdma(client) => client.peer(),
            ServerConnection::Tcp(client) => Some(client.peer()),
        }
    }

    /// Returns the timeout of this connection's calls.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        match self {
            ServerConnection::Rdma(client) => client.timeout(),
            ServerConnection::Tcp(client) => client.timeout(),
        }
    }

    /// Returns a client on the same connection whose calls receive the first eligible item of their result in
    /// `memory`, like [`Client::with_result_memory`].
    #[must_use]
    pub fn with_result_memory(&self, memory: BytesMut) -> Self {
        match self {
            ServerConnection::Rdma(client) => client.with_result_memory(memory).into(),
            ServerConnection::Tcp(client) => client.with_result_memory(memory).into(),
        }
    }

    /// Closes the connection permanently. Outstanding and later calls fail.
    pub fn close(&self) {
        match self {
            ServerConnection::Rdma(client) => client.close(),
            ServerConnection::Tcp(client) => client.close(),
        }
    }
}

async fn by_tcp(address: String, options: &ClientOptions) -> Result<TcpClient, ClientError> {
    let (credential, timeout) = (options.credential.clone(), options.timeout);
    let options = TcpClientOptions { credential, timeout, ..TcpClientOptions::default() };
    Ok(TcpClient::connect_with(address, options).await?)
}

/// Returns a client for the server's MOUNT program. Uses the port after `?mountport=` in the URL, if given.
/// Otherwise tries the NFS connection, on which this project's servers offer MOUNT. If MOUNT is not available
/// there, queries the server's rpcbind: Linux's server offers MOUNT on another port, without RDMA (RFC 8267
/// section 5.1).
///
/// # Errors
/// [`ClientError::Connect`], [`ClientError::Call`], [`ClientError::Find`], and [`ClientError::NoMount`] if
/// MOUNT was not found.
pub(super) async fn mount_of(
    connection: &ServerConnection,
    url: &Url,
    options: &ClientOptions,
) -> Result<mount_v3::Client<ServerConnection>, ClientError> {
    let mount = match url.mount_port {
        Some(port) => by_tcp(url.with_port(port), options).await?.into(),
        None if has_mount(connection).await? => connection.clone(),
        None => by_tcp(registered(url).await?.to_string(), options).await?.into(),
    };
    Ok(mount_v3::Client(mount))
}

async fn has_mount(connection: &ServerConnection) -> Result<bool, ClientError> {
    use rpcrdma_runtime::wire::rpc::ReplyError::{ProgramMismatch, ProgramUnavailable};
    match mount_v3::Client(connection.clone()).null().await {
        Ok(()) => Ok(true),
        Err(CallError::Rejected(ProgramUnavailable | ProgramMismatch { .. })) => Ok(false),
        Err(source) => Err(ClientError::call("MOUNT NULL", "/", source)),
    }
}

async fn registered(url: &Url) -> Result<SocketAddr, ClientError> {
    type Mount = mount_v3::MountV3;
    let rpcbind = Rpcbind::connect(url.with_port(url.rpcbind_port)).await?;
    let mut unusable = None;
    for netid in [Netid::Tcp, Netid::Tcp6] {
        match rpcbind.lookup(Mount::NUMBER, Mount::VERSION, netid).await {
            Ok(Some(address)) => return Ok(address),
            Ok(None) => {}
            // A server usually registers 0.0.0.0 and `::`, which `lookup` replaces with the host's address.
            // For an IPv6 host, only `::` can be replaced, so a bad address for `tcp` is not final: `tcp6` is
            // tried next.
            Err(error @ RpcbindError::BadAddress { .. }) => unusable = Some(error),
            Err(error) => return Err(error.into()),
        }
    }
    Err(unusable.map_or_else(|| ClientError::NoMount { host: url.host.clone() }, ClientError::from))
}

pub(super) fn options() -> ClientOptions {
    ClientOptions { credential: super::this_user(), ..ClientOptions::of::<NfsV3>() }
}
