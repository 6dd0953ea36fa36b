use std::future::Future;
use std::net::SocketAddr;

use bytes::BytesMut;
use rpcrdma_mount3::mount_v3;
use rpcrdma_nfs3::nfs_v3::NfsV3;
use rpcrdma_runtime::Client;
use rpcrdma_runtime::Traffic;
use rpcrdma_runtime::program::{Binding, Caller, Procedure, Program, ReplyBounds};
use rpcrdma_runtime::proto::rpc::gss::GssFailure;
use rpcrdma_runtime::xdr::{Message, Received};
use rpcrdma_runtime::{
    CallError, ClientOptions, GssClient, MessageTransport, Sends, TcpClient, TcpClientOptions,
};
use rpcrdma_services::rpcbind::{Netid, Rpcbind};

use super::{ClientError, Transport, Url};
use crate::kerberos;

/// A connection to a server, over either transport.
#[derive(Clone, Debug)]
pub enum Connection {
    /// RPC-over-RDMA.
    Rdma(Client),
    /// RPC over TCP.
    Tcp(TcpClient),
}

impl From<Client> for Connection {
    fn from(client: Client) -> Self {
        Connection::Rdma(client)
    }
}

impl From<TcpClient> for Connection {
    fn from(client: TcpClient) -> Self {
        Connection::Tcp(client)
    }
}

impl<P: Binding> Caller<P> for Connection {
    type Error = CallError;

    async fn call<Q: Procedure<Program = P>>(&self, args: &Q::Args) -> Result<Q::Res, CallError> {
        match self {
            Connection::Rdma(client) => client.call::<Q>(args).await,
            Connection::Tcp(client) => client.call::<Q>(args).await,
        }
    }
}

impl<P: Binding> MessageTransport<P> for Connection {
    fn next_xid(&self) -> u32 {
        match self {
            Connection::Rdma(client) => MessageTransport::<P>::next_xid(client),
            Connection::Tcp(client) => MessageTransport::<P>::next_xid(client),
        }
    }

    fn min_item(&self) -> usize {
        match self {
            Connection::Rdma(client) => MessageTransport::<P>::min_item(client),
            Connection::Tcp(client) => MessageTransport::<P>::min_item(client),
        }
    }

    async fn observe<Q: Procedure<Program = P>>(
        &self,
        xid: u32,
        exchange: impl Future<Output = Result<(Q::Res, Traffic), CallError>> + Send,
    ) -> Result<Q::Res, CallError> {
        match self {
            Connection::Rdma(client) => client.observe::<Q>(xid, exchange).await,
            Connection::Tcp(client) => client.observe::<Q>(xid, exchange).await,
        }
    }

    async fn carry(
        &self,
        procedure: &'static str,
        message: Message,
        bounds: ReplyBounds,
        sends: Sends,
    ) -> Result<(Received, Traffic), CallError> {
        match self {
            Connection::Rdma(client) => {
                MessageTransport::<P>::carry(client, procedure, message, bounds, sends).await
            }
            Connection::Tcp(client) => {
                MessageTransport::<P>::carry(client, procedure, message, bounds, sends).await
            }
        }
    }
}

/// The calls of the NFS program over a connection, with the security of a URL.
#[derive(Clone, Debug)]
pub enum NfsConnection {
    /// With the credential of the connection.
    Sys(Connection),
    /// Over RPCSEC_GSS.
    Gss(GssClient<Connection, NfsV3>),
}

impl From<Connection> for NfsConnection {
    fn from(connection: Connection) -> Self {
        NfsConnection::Sys(connection)
    }
}

impl Caller<NfsV3> for NfsConnection {
    type Error = CallError;

    async fn call<Q: Procedure<Program = NfsV3>>(&self, args: &Q::Args) -> Result<Q::Res, CallError> {
        match self {
            NfsConnection::Sys(connection) => connection.call::<Q>(args).await,
            NfsConnection::Gss(client) => client.call::<Q>(args).await,
        }
    }
}

impl NfsConnection {
    /// Returns the calls over a connection to the server of a URL, with the URL's security.
    ///
    /// # Errors
    /// [`ClientError::Call`] without the feature `krb5`, if the URL asks for Kerberos.
    pub fn new(connection: Connection, url: &Url) -> Result<Self, ClientError> {
        let Some(service) = url.security.service() else { return Ok(connection.into()) };
        let mechanism = kerberos::client(&url.host)
            .map_err(|error| ClientError::call("?sec=", "/", GssFailure::from(error).into()))?;
        Ok(NfsConnection::Gss(GssClient::new(connection, mechanism, service)))
    }

    /// Returns a connection whose calls receive the eligible item of their result in this memory, as
    /// [`Connection::with_result_memory`] does. Over RPCSEC_GSS, results do not use it.
    #[must_use]
    pub fn with_result_memory(&self, memory: BytesMut) -> Self {
        match self {
            NfsConnection::Sys(connection) => connection.with_result_memory(memory).into(),
            NfsConnection::Gss(client) => NfsConnection::Gss(client.clone()),
        }
    }
}

impl Connection {
    /// Connects to a URL's server for NFS over the provider that the URL names. Over TCP, only the
    /// credential and the timeout of the options apply.
    ///
    /// # Errors
    /// [`ClientError::Connect`].
    pub async fn to(url: &Url, options: ClientOptions) -> Result<Self, ClientError> {
        Ok(match url.transport {
            Transport::Rdma => url.provider.connect(&url.address(), options).await?.into(),
            Transport::Tcp => by_tcp(url.address(), &options).await?.into(),
        })
    }

    /// Returns the server's address, or `None` before the first connection.
    #[must_use]
    pub fn peer(&self) -> Option<SocketAddr> {
        match self {
            Connection::Rdma(client) => client.peer(),
            Connection::Tcp(client) => Some(client.peer()),
        }
    }

    /// Returns a client on the same connection whose calls receive the first eligible item of the result in
    /// this memory, as [`Client::with_result_memory`] does.
    #[must_use]
    pub fn with_result_memory(&self, memory: BytesMut) -> Self {
        match self {
            Connection::Rdma(client) => client.with_result_memory(memory).into(),
            Connection::Tcp(client) => client.with_result_memory(memory).into(),
        }
    }

    /// Closes the connection permanently. Outstanding and later calls fail.
    pub fn close(&self) {
        match self {
            Connection::Rdma(client) => client.close(),
            Connection::Tcp(client) => client.close(),
        }
    }
}

async fn by_tcp(address: String, options: &ClientOptions) -> Result<TcpClient, ClientError> {
    let (credential, timeout) = (options.credential.clone(), options.timeout);
    let options = TcpClientOptions { credential, timeout, ..TcpClientOptions::default() };
    Ok(TcpClient::connect_with(address, options).await?)
}

/// Returns a client for the server's MOUNT program. Uses the port in the URL if there is one. Otherwise
/// tries the NFS connection, where servers of this project offer MOUNT. Otherwise asks the server's
/// rpcbind, as Linux's server requires (RFC 8267 section 5.1 keeps MOUNT on TCP).
///
/// # Errors
/// [`ClientError::Connect`], [`ClientError::Find`], and [`ClientError::NoMount`] if MOUNT was not found.
pub(super) async fn mount_of(
    connection: &Connection,
    url: &Url,
    options: &ClientOptions,
) -> Result<mount_v3::Client<Connection>, ClientError> {
    let mount = match url.mount_port {
        Some(port) => by_tcp(url.with_port(port), options).await?.into(),
        None if has_mount(connection).await? => connection.clone(),
        None => by_tcp(registered(url).await?.to_string(), options).await?.into(),
    };
    Ok(mount_v3::Client(mount))
}

/// Returns true if MOUNT is available on the NFS connection.
async fn has_mount(connection: &Connection) -> Result<bool, ClientError> {
    use rpcrdma_runtime::wire::rpc::ReplyError::{ProgramMismatch, ProgramUnavailable};
    match mount_v3::Client(connection.clone()).null().await {
        Ok(()) => Ok(true),
        Err(CallError::Rejected(ProgramUnavailable | ProgramMismatch { .. })) => Ok(false),
        Err(source) => Err(ClientError::call("NULL of MOUNT", "/", source)),
    }
}

async fn registered(url: &Url) -> Result<SocketAddr, ClientError> {
    type Mount = mount_v3::MountV3;
    let rpcbind = Rpcbind::connect(url.with_port(url.rpcbind_port)).await?;
    for netid in [Netid::Tcp, Netid::Tcp6] {
        if let Some(address) = rpcbind.lookup(Mount::NUMBER, Mount::VERSION, netid).await? {
            return Ok(address);
        }
    }
    Err(ClientError::NoMount { host: url.host.clone() })
}

/// Returns the options of an NFS client over either transport.
pub(super) fn options() -> ClientOptions {
    ClientOptions { credential: super::this_user(), ..ClientOptions::of::<NfsV3>() }
}
