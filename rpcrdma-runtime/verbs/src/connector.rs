use std::io;
use std::net::SocketAddr;

use rpcrdma_runtime::provider::{
    self, Acceptor, BoxError, Connection, Connector, IncomingConnection, LocalParameters, connect_any, iwarp,
};
use tracing::debug;

use super::{VerbsConnection, VerbsError, VerbsListener, VerbsOptions, VerbsRequest, connect, device_for};

/// Connects to one server over the RDMA device that has a route to the server.
#[derive(Clone, Debug)]
pub struct VerbsConnector {
    address: String,
    options: VerbsOptions,
}

impl VerbsConnector {
    /// Creates a connector for `HOST:PORT`, where the host is a name or an IP address.
    #[must_use]
    pub fn new(address: impl Into<String>, options: VerbsOptions) -> Self {
        VerbsConnector { address: address.into(), options }
    }
}

impl Connector for VerbsConnector {
    type Connection = VerbsConnection;

    async fn connect(&self, local: &LocalParameters) -> Result<VerbsConnection, provider::ConnectError> {
        connect_any(&self.address, |address| connect_to(address, local, self.options)).await
    }
}

async fn connect_to(
    address: SocketAddr,
    local: &LocalParameters,
    options: VerbsOptions,
) -> Result<VerbsConnection, VerbsError> {
    let options = options.with_receives(local.receives);
    connect(address, &local.private_data, local.receive_size, &options).await
}

/// Connects to one server over an RDMA device with a route to the server. Without such a device, connects
/// over iWARP in user space. The choice is made for each connection.
#[derive(Clone, Debug)]
pub struct AutoConnector {
    address: String,
    verbs: VerbsOptions,
    iwarp: iwarp::IwarpOptions,
}

impl AutoConnector {
    /// Creates a connector for `HOST:PORT`, where the host is a name or an IP address.
    #[must_use]
    pub fn new(address: impl Into<String>, verbs: VerbsOptions, iwarp: iwarp::IwarpOptions) -> Self {
        AutoConnector { address: address.into(), verbs, iwarp }
    }

    async fn connect_to(
        &self,
        address: SocketAddr,
        local: &LocalParameters,
    ) -> Result<Box<dyn Connection>, BoxError> {
        let device = device_for(address, self.verbs.connect_timeout).await;
        let device = device.unwrap_or_else(|error| {
            debug!(%address, %error, "using user-space iWARP: finding an RDMA device failed");
            None
        });
        if device.is_some() {
            return Ok(Box::new(connect_to(address, local, self.verbs).await?));
        }
        let LocalParameters { private_data, receive_size, .. } = local;
        Ok(Box::new(iwarp::connect(address, private_data, *receive_size, &self.iwarp).await?))
    }
}

impl Connector for AutoConnector {
    type Connection = Box<dyn Connection>;

    async fn connect(&self, local: &LocalParameters) -> Result<Box<dyn Connection>, provider::ConnectError> {
        connect_any(&self.address, |address| self.connect_to(address, local)).await
    }
}

impl Acceptor for VerbsListener {
    type Incoming = VerbsRequest;

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.local_addr()
    }

    async fn accept(&self) -> io::Result<VerbsRequest> {
        self.accept().await
    }

    fn take_refused(&self) -> u64 {
        self.take_refused()
    }
}

impl IncomingConnection for VerbsRequest {
    type Connection = VerbsConnection;

    fn peer(&self) -> SocketAddr {
        self.peer()
    }

    async fn accept(self, local: &LocalParameters) -> Result<VerbsConnection, BoxError> {
        let request = self.with_receives(local.receives);
        Ok(request.accept(&local.private_data, local.receive_size).await?)
    }
}
