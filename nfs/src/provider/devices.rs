use std::io;

use rpcrdma_runtime::{Client, Server};
use rpcrdma_runtime::{ClientOptions, ConnectError, ServeError, ServerOptions};
use rpcrdma_verbs::{AutoConnector, VerbsConnector, VerbsListener, VerbsOptions};
use tokio::net::lookup_host;

pub(super) async fn connect(address: &str, options: ClientOptions) -> Result<Client, ConnectError> {
    Client::connect_via(VerbsConnector::new(address, VerbsOptions::default()), options).await
}

pub(super) async fn connect_auto(address: &str, options: ClientOptions) -> Result<Client, ConnectError> {
    let connector = AutoConnector::new(address, VerbsOptions::default(), options.iwarp.clone());
    Client::connect_via(connector, options).await
}

pub(super) async fn bind(address: &str, options: ServerOptions) -> Result<Server, ServeError> {
    match VerbsListener::bind(address, VerbsOptions::default()).await {
        Ok(listener) => Server::with_acceptor(listener, options),
        Err(source) => Err(ServeError::Bind { address: address.to_owned(), source }),
    }
}

pub(super) async fn bind_auto(address: &str, options: ServerOptions) -> Result<Server, ServeError> {
    let failed = |source| ServeError::Bind { address: address.to_owned(), source };
    let mut last = failed(io::ErrorKind::NotFound.into());
    for candidate in lookup_host(address).await.map_err(failed)? {
        let bound = if rpcrdma_verbs::serves(candidate) {
            bind(&candidate.to_string(), options.clone()).await
        } else {
            Server::bind_with(candidate, options.clone()).await
        };
        match bound {
            Ok(server) => return Ok(server),
            Err(error) => last = error,
        }
    }
    Err(last)
}
