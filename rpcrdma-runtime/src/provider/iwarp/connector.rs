use std::io;
use std::net::SocketAddr;

use super::{Incoming, IwarpConnection, IwarpListener, IwarpOptions, connect};
use crate::provider::{
    Acceptor, BoxError, ConnectError, Connector, IncomingConnection, LocalParameters, connect_any,
};

/// Connects to one server over iWARP.
#[derive(Clone, Debug)]
pub struct IwarpConnector {
    address: String,
    options: IwarpOptions,
}

impl IwarpConnector {
    /// Creates a connector for `HOST:PORT`, where the host is a name or an IP address. An IPv6 address is in
    /// brackets. Several addresses may be separated by commas.
    #[must_use]
    pub fn new(address: impl Into<String>, options: IwarpOptions) -> Self {
        IwarpConnector { address: address.into(), options }
    }
}

impl Connector for IwarpConnector {
    type Connection = IwarpConnection;

    async fn connect(&self, local: &LocalParameters) -> Result<IwarpConnection, ConnectError> {
        let LocalParameters { private_data, receive_size, .. } = local;
        connect_any(&self.address, |address| connect(address, private_data, *receive_size, &self.options))
            .await
    }
}

impl Acceptor for IwarpListener {
    type Incoming = Incoming;

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.local_addr()
    }

    async fn accept(&self) -> io::Result<Incoming> {
        self.accept().await
    }
}

impl IncomingConnection for Incoming {
    type Connection = IwarpConnection;

    fn peer(&self) -> SocketAddr {
        self.peer()
    }

    async fn accept(self, local: &LocalParameters) -> Result<IwarpConnection, BoxError> {
        Ok(self.request().await?.accept(&local.private_data, local.receive_size).await?)
    }
}
