//! Which provider carries a client's or server's calls, and connections of any of them.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::str::FromStr;
use std::task::{Context, Poll};

use tokio::net::lookup_host;

use super::{ClientOptions, ConnectError, ServeError, ServerOptions};
#[cfg(feature = "verbs")]
use crate::proto::rdma::Config;
use crate::proto::work::{Action, Completion};
#[cfg(feature = "verbs")]
use crate::provider::verbs;
use crate::provider::{Connection, ConnectionInfo, iwarp};

/// What carries RPC-over-RDMA.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Provider {
    /// iWARP in user space over TCP: it needs no device.
    #[default]
    Iwarp,
    /// An RDMA device, by libibverbs and librdmacm. Only if the crate was built with the feature `verbs`.
    Verbs,
    /// An RDMA device where one leads to the address, or has it, and else iWARP in user space.
    Auto,
}

impl fmt::Display for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Provider::Iwarp => "iwarp",
            Provider::Verbs => "verbs",
            Provider::Auto => "auto",
        })
    }
}

impl FromStr for Provider {
    type Err = UnknownProvider;

    fn from_str(name: &str) -> Result<Self, UnknownProvider> {
        match name {
            "iwarp" => Ok(Provider::Iwarp),
            "verbs" => Ok(Provider::Verbs),
            "auto" => Ok(Provider::Auto),
            _ => Err(UnknownProvider),
        }
    }
}

/// There is no provider of this name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a provider is iwarp, verbs or auto")]
pub struct UnknownProvider;

#[cfg(not(feature = "verbs"))]
const NOT_BUILT: &str = "this was built without the feature `verbs`";

impl Provider {
    /// The one of the other two that is used to connect to an address. An RDMA device counts if it leads there, whoever
    /// listens at the other end.
    ///
    /// # Errors
    /// [`ConnectError`], if the device of an address cannot be found out.
    pub async fn to(self, address: SocketAddr) -> Result<Provider, ConnectError> {
        #[cfg(feature = "verbs")]
        if self == Provider::Auto {
            let limit = verbs::Options::default().connect_timeout;
            let device = verbs::device_for(address, limit).await;
            let failed = |source| ConnectError::Verbs { address: address.to_string(), source };
            return Ok(if device.map_err(failed)?.is_some() { Provider::Verbs } else { Provider::Iwarp });
        }
        let _ = address;
        Ok(if self == Provider::Auto { Provider::Iwarp } else { self })
    }

    /// The one of the other two that is used to listen at an address.
    #[must_use]
    pub fn at(self, address: SocketAddr) -> Provider {
        #[cfg(feature = "verbs")]
        if self == Provider::Auto && verbs::serves(address) {
            return Provider::Verbs;
        }
        let _ = address;
        if self == Provider::Auto { Provider::Iwarp } else { self }
    }
}

/// A connection of any provider.
pub(super) enum AnyConnection {
    Iwarp(Box<iwarp::IwarpConnection>),
    #[cfg(feature = "verbs")]
    Verbs(Box<verbs::VerbsConnection>),
}

impl Connection for AnyConnection {
    fn submit(&mut self, action: Action) {
        match self {
            AnyConnection::Iwarp(connection) => connection.submit(action),
            #[cfg(feature = "verbs")]
            AnyConnection::Verbs(connection) => connection.submit(action),
        }
    }

    fn poll_completion(&mut self, cx: &mut Context<'_>) -> Poll<Completion> {
        match self {
            AnyConnection::Iwarp(connection) => connection.poll_completion(cx),
            #[cfg(feature = "verbs")]
            AnyConnection::Verbs(connection) => connection.poll_completion(cx),
        }
    }

    fn info(&self) -> &ConnectionInfo {
        match self {
            AnyConnection::Iwarp(connection) => connection.info(),
            #[cfg(feature = "verbs")]
            AnyConnection::Verbs(connection) => connection.info(),
        }
    }
}

/// Connects to a server by the provider that the options name, at the first address that answers.
pub(super) async fn connect(address: &str, options: &ClientOptions) -> Result<AnyConnection, ConnectError> {
    let unresolved = |source| ConnectError::Resolve { address: address.to_owned(), source };
    let mut last = None;
    for candidate in lookup_host(address).await.map_err(unresolved)? {
        match connect_to(address, candidate, options).await {
            Ok(connection) => return Ok(connection),
            Err(error) => last = Some(error),
        }
    }
    Err(last.unwrap_or_else(|| unresolved(io::ErrorKind::NotFound.into())))
}

async fn connect_to(
    name: &str,
    address: SocketAddr,
    options: &ClientOptions,
) -> Result<AnyConnection, ConnectError> {
    let private_data = options.config.private_data.encode();
    let receive_size = options.config.private_data.announced().receive_size;
    match options.provider.to(address).await? {
        Provider::Verbs => {
            #[cfg(feature = "verbs")]
            {
                let failed = |source| ConnectError::Verbs { address: name.to_owned(), source };
                let own = with_receives(options.verbs, &options.config);
                let connecting = verbs::connect(address, &private_data, receive_size, &own);
                let connection = connecting.await.map_err(failed)?;
                Ok(AnyConnection::Verbs(Box::new(connection)))
            }
            #[cfg(not(feature = "verbs"))]
            Err(ConnectError::Connector(NOT_BUILT.into()))
        }
        Provider::Iwarp | Provider::Auto => {
            let failed = |source| ConnectError::Connect { address: name.to_owned(), source };
            let connection =
                iwarp::connect(address, &private_data, receive_size, &options.iwarp).await.map_err(failed)?;
            Ok(AnyConnection::Iwarp(Box::new(connection)))
        }
    }
}

/// With Receives for all that an end may be sent: a message for each credit of either direction, and one out of turn.
#[cfg(feature = "verbs")]
fn with_receives(options: verbs::Options, config: &Config) -> verbs::Options {
    let wanted = config.credits.saturating_add(config.backward_credits).saturating_add(2);
    verbs::Options { receives: options.receives.max(wanted), ..options }
}

/// A listener of any provider.
#[derive(Debug)]
pub(super) enum AnyListener {
    Iwarp(iwarp::Listener),
    #[cfg(feature = "verbs")]
    Verbs(verbs::Listener),
}

impl AnyListener {
    /// Binds an address for the provider that the options name.
    pub(super) async fn bind(name: &str, options: &ServerOptions) -> Result<Self, ServeError> {
        let failed = |source| ServeError::Bind { address: name.to_owned(), source };
        let mut last = io::ErrorKind::NotFound.into();
        for candidate in lookup_host(name).await.map_err(failed)? {
            match AnyListener::bind_to(candidate, options).await {
                Ok(listener) => return Ok(listener),
                Err(error) => last = error,
            }
        }
        Err(failed(last))
    }

    async fn bind_to(address: SocketAddr, options: &ServerOptions) -> io::Result<Self> {
        let receive_size = options.config.private_data.announced().receive_size;
        match options.provider.at(address) {
            Provider::Verbs => {
                #[cfg(feature = "verbs")]
                {
                    let listener = verbs::Listener::bind(
                        address,
                        receive_size,
                        with_receives(options.verbs, &options.config),
                    )
                    .await?;
                    Ok(AnyListener::Verbs(listener))
                }
                #[cfg(not(feature = "verbs"))]
                Err(io::Error::new(io::ErrorKind::Unsupported, NOT_BUILT))
            }
            Provider::Iwarp | Provider::Auto => Ok(AnyListener::Iwarp(
                iwarp::Listener::bind(address, receive_size, options.iwarp.clone()).await?,
            )),
        }
    }

    pub(super) fn local_addr(&self) -> io::Result<SocketAddr> {
        match self {
            AnyListener::Iwarp(listener) => listener.local_addr(),
            #[cfg(feature = "verbs")]
            AnyListener::Verbs(listener) => listener.local_addr(),
        }
    }

    pub(super) async fn accept(&self) -> io::Result<AnyIncoming> {
        match self {
            AnyListener::Iwarp(listener) => Ok(AnyIncoming::Iwarp(listener.accept().await?)),
            #[cfg(feature = "verbs")]
            AnyListener::Verbs(listener) => Ok(AnyIncoming::Verbs(listener.accept().await?)),
        }
    }
}

/// A peer that wants a connection, of any provider.
pub(super) enum AnyIncoming {
    Iwarp(iwarp::Incoming),
    #[cfg(feature = "verbs")]
    Verbs(verbs::Request),
}

impl AnyIncoming {
    pub(super) fn peer(&self) -> SocketAddr {
        match self {
            AnyIncoming::Iwarp(incoming) => incoming.peer(),
            #[cfg(feature = "verbs")]
            AnyIncoming::Verbs(request) => request.peer(),
        }
    }

    /// Accepts with this private data. An error is told as text: nobody tells one from another.
    pub(super) async fn accept(self, private_data: &[u8]) -> Result<AnyConnection, String> {
        match self {
            AnyIncoming::Iwarp(incoming) => {
                let request = incoming.request().await.map_err(|error| error.to_string())?;
                let made = request.accept(private_data).await.map_err(|error| error.to_string())?;
                Ok(AnyConnection::Iwarp(Box::new(made)))
            }
            #[cfg(feature = "verbs")]
            AnyIncoming::Verbs(request) => {
                let made = request.accept(private_data).await.map_err(|error| error.to_string())?;
                Ok(AnyConnection::Verbs(Box::new(made)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_providers_are_read_as_they_are_written() {
        for provider in [Provider::Iwarp, Provider::Verbs, Provider::Auto] {
            assert_eq!(provider.to_string().parse(), Ok(provider));
        }
        assert_eq!("rdma".parse::<Provider>(), Err(UnknownProvider));
    }

    #[cfg(not(feature = "verbs"))]
    #[tokio::test]
    async fn without_the_feature_verbs_is_refused_and_auto_is_iwarp() {
        let server = ServerOptions { provider: Provider::Verbs, ..ServerOptions::default() };
        let error = AnyListener::bind("127.0.0.1:0", &server).await.unwrap_err();
        assert!(error.to_string().contains("`verbs`"), "{error}");
        let client = ClientOptions { provider: Provider::Verbs, ..ClientOptions::default() };
        let Err(error) = connect("127.0.0.1:1", &client).await else { panic!("connected") };
        assert!(error.to_string().contains("`verbs`"), "{error}");
        let server = ServerOptions { provider: Provider::Auto, ..ServerOptions::default() };
        let listener = AnyListener::bind("127.0.0.1:0", &server).await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let client = ClientOptions { provider: Provider::Auto, ..ClientOptions::default() };
        let accept = async { listener.accept().await.unwrap().accept(b"").await.is_ok() };
        let (made, accepted) = tokio::join!(connect(&address, &client), accept);
        assert!(made.is_ok() && accepted);
    }
}
