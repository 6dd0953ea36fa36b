use std::io;

use rpcrdma_runtime::{Client, Server};
use rpcrdma_runtime::{ClientOptions, ConnectError, Limits, ServeError, ServerOptions};
use rpcrdma_verbs::{AutoConnector, VerbsConnector, VerbsListener, VerbsOptions};
use tokio::net::lookup_host;

/// Returns the options of a device with those limits that also exist for devices.
fn with_limits(limits: &Limits) -> VerbsOptions {
    VerbsOptions {
        ird: u8::try_from(limits.ird).unwrap_or(u8::MAX),
        ord: u8::try_from(limits.ord).unwrap_or(u8::MAX),
        min_rate: limits.min_rate,
        max_region: limits.max_region,
        connect_timeout: limits.times.connect,
        linger: limits.times.linger,
        ..VerbsOptions::default()
    }
}

pub(super) async fn connect(address: &str, options: ClientOptions) -> Result<Client, ConnectError> {
    Client::connect_via(VerbsConnector::new(address, with_limits(&options.limits())), options).await
}

pub(super) async fn connect_auto(address: &str, options: ClientOptions) -> Result<Client, ConnectError> {
    let connector = AutoConnector::new(address, with_limits(&options.limits()), options.iwarp.clone());
    Client::connect_via(connector, options).await
}

pub(super) async fn bind(address: &str, options: ServerOptions) -> Result<Server, ServeError> {
    match VerbsListener::bind(address, with_limits(&options.limits())).await {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_apply_to_devices() {
        assert_eq!(with_limits(&Limits::default()), VerbsOptions::default());
        let limits = Limits { min_rate: 7, ird: 8, ord: 9, max_region: 10, ..Limits::default() };
        let options = with_limits(&ServerOptions::default().with_limits(&limits).limits());
        let expected =
            VerbsOptions { min_rate: 7, ird: 8, ord: 9, max_region: 10, ..VerbsOptions::default() };
        assert_eq!(options, expected);
    }
}
