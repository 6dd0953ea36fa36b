use std::future::Future;
use std::io;
use std::net::SocketAddr;

use tokio::net::TcpListener;

use super::super::address::bind;
use super::super::server::Server;
use super::super::{PeerFilter, ServeError, ServerOptions, ServerStats, ToAddress};
use super::TcpServerOptions;
use crate::proto::program::Service;
use crate::proto::rpc::Services;

impl Server {
    /// Binds an address for RPC over TCP with default options, for clients without RDMA.
    ///
    /// # Errors
    /// [`ServeError::Bind`].
    pub async fn bind_tcp(address: impl ToAddress) -> Result<TcpServer, ServeError> {
        TcpServer::bind(address).await
    }
}

/// A server like [`Server`], but only for RPC over TCP.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use rpcrdma_runtime::{TcpClient, TcpServer};
///
/// let server = TcpServer::bind("127.0.0.1:0").await?; // `service` adds programs
/// let address = server.local_addr()?;
/// tokio::spawn(server.run(std::future::pending()));
/// assert_eq!(TcpClient::connect(address).await?.peer(), address);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct TcpServer(Server);

impl TcpServer {
    /// Binds an address with default options.
    ///
    /// # Errors
    /// [`ServeError::Bind`].
    pub async fn bind(address: impl ToAddress) -> Result<Self, ServeError> {
        TcpServer::bind_with(address, TcpServerOptions::default()).await
    }

    /// Binds an address.
    ///
    /// # Errors
    /// [`ServeError::Bind`], [`ServeError::NoConnections`].
    pub async fn bind_with(address: impl ToAddress, options: TcpServerOptions) -> Result<Self, ServeError> {
        TcpServer::of(bind(address.to_address()).await?, options)
    }

    /// Creates a server on a socket that is already bound, for example by systemd.
    ///
    /// # Errors
    /// [`ServeError::NoConnections`].
    pub fn of(listener: TcpListener, options: TcpServerOptions) -> Result<Self, ServeError> {
        let tcp = options.tcp;
        let options = ServerOptions {
            max_connections: options.max_connections,
            max_connections_per_address: options.max_connections_per_address,
            idle: options.idle,
            drain: options.drain,
            duplicates: options.duplicates,
            memory: options.memory,
            max_backward_calls: options.max_backward_calls,
            ..ServerOptions::default()
        };
        Server::over_tcp(listener, tcp, options).map(TcpServer)
    }

    /// Adds a program version.
    #[must_use]
    pub fn service(self, service: impl Service) -> Self {
        TcpServer(self.0.service(service))
    }

    /// Replaces all previously added program versions with `services`. Several servers can use clones of the
    /// same services.
    #[must_use]
    pub fn services(self, services: Services) -> Self {
        TcpServer(self.0.services(services))
    }

    /// Accepts connections only from peers that the filter admits (default: all).
    #[must_use]
    pub fn peers(self, peers: PeerFilter) -> Self {
        TcpServer(self.0.peers(peers))
    }

    /// Returns the server's counters, which stay readable while the server runs and afterwards.
    #[must_use]
    pub fn stats(&self) -> ServerStats {
        self.0.stats()
    }

    /// Returns the bound address, with the port that the system chose if port 0 was requested.
    ///
    /// # Errors
    /// The error of the operating system.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    /// Serves until `shutdown` is ready. Then accepts no more connections, waits up to
    /// [`TcpServerOptions::drain`] for the replies to running calls, and closes the connections.
    ///
    /// # Errors
    /// [`ServeError::Accept`] if the listener fails permanently.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> Result<(), ServeError> {
        self.0.run(shutdown).await
    }
}
