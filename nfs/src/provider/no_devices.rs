//! Stubs for builds without the feature `verbs`.

use std::future::{Future, ready};
use std::io;

use rpcrdma_runtime::{Client, Server};
use rpcrdma_runtime::{ClientOptions, ConnectError, ServeError, ServerOptions};

const NOT_BUILT: &str = "built without the feature `verbs`";

pub(super) fn connect(_: &str, _: ClientOptions) -> impl Future<Output = Result<Client, ConnectError>> {
    ready(Err(ConnectError::Connector(NOT_BUILT.into())))
}

pub(super) fn connect_auto(
    address: &str,
    options: ClientOptions,
) -> impl Future<Output = Result<Client, ConnectError>> {
    Client::connect_with(address, options)
}

pub(super) fn bind(address: &str, _: ServerOptions) -> impl Future<Output = Result<Server, ServeError>> {
    let source = io::Error::new(io::ErrorKind::Unsupported, NOT_BUILT);
    ready(Err(ServeError::Bind { address: address.to_owned(), source }))
}

pub(super) fn bind_auto(
    address: &str,
    options: ServerOptions,
) -> impl Future<Output = Result<Server, ServeError>> {
    Server::bind_with(address, options)
}
