//! Which provider carries a client's or server's calls, and connections of any of them.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::str::FromStr;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::net::lookup_host;
#[cfg(feature = "verbs")]
use tracing::debug;

use super::{ClientOptions, ConnectError, ServeError, ServerOptions};
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
    /// listens at the other end; not so if that cannot be found out, or takes longer than `limit`.
    pub async fn to(self, address: SocketAddr, limit: Duration) -> Provider {
        #[cfg(feature = "verbs")]
        if self == Provider::Auto {
            return match verbs::device_for(address, limit).await {
                Ok(Some(_)) => Provider::Verbs,
                Ok(None) => Provider::Iwarp,
                Err(error) => {
                    debug!(%address, %error, "no RDMA device is used");
                    Provider::Iwarp
                }
            };
        }
        let _ = (address, limit);
        if self == Provider::Auto { Provider::Iwarp } else { self }
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
    #[cfg(feature = "verbs")]
    let limit = options.verbs.connect_timeout;
    #[cfg(not(feature = "verbs"))]
    let limit = Duration::ZERO;
    match options.provider.to(address, limit).await {
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

/// What an end is set to on a connection: never to more credits than there are Receives for.
pub(super) fn fitted(config: Config, info: &ConnectionInfo) -> Config {
    // One of them is for a message out of turn.
    let most = info.receives.saturating_sub(1).max(2);
    if config.credits.saturating_add(config.backward_credits) <= most {
        return config;
    }
    let backward_credits = config.backward_credits.min(most / 2);
    let credits = config.credits.min(most - backward_credits);
    Config { credits, backward_credits, ..config }
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

    /// Peers that were refused since this was asked last, before anybody heard of them.
    pub(super) fn failed(&self) -> u64 {
        match self {
            AnyListener::Iwarp(_) => 0,
            #[cfg(feature = "verbs")]
            AnyListener::Verbs(listener) => listener.failed(),
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

    #[test]
    fn credits_are_no_more_than_there_are_receives_for() {
        let info = |receives| ConnectionInfo {
            peer: None,
            private_data: bytes::Bytes::new(),
            reads_out: 1,
            reads_in: 1,
            max_region: 1,
            receives,
            remote_invalidation: false,
        };
        let config = Config { credits: 64, backward_credits: 16, ..Config::default() };
        let credits = |receives| {
            let fitted = fitted(config, &info(receives));
            (fitted.credits, fitted.backward_credits)
        };
        assert_eq!(credits(u32::MAX), (64, 16));
        assert_eq!(credits(81), (64, 16));
        assert_eq!(credits(80), (63, 16));
        assert_eq!(credits(21), (10, 10));
        assert_eq!(credits(0), (1, 1));
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
