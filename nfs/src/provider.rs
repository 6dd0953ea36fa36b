//! Selection of the provider for RPC-over-RDMA.

#[cfg(feature = "verbs")]
mod devices;
#[cfg(not(feature = "verbs"))]
#[path = "provider/no_devices.rs"]
mod devices;

use std::fmt;
use std::str::FromStr;

use rpcrdma_runtime::{Client, Server};
use rpcrdma_runtime::{ClientOptions, ConnectError, ServeError, ServerOptions};

/// The provider for RPC-over-RDMA.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Provider {
    /// iWARP in user space over TCP, which needs no device.
    #[default]
    Iwarp,
    /// An RDMA device through libibverbs and librdmacm. Requires the feature `verbs`.
    Verbs,
    /// An RDMA device, or iWARP in user space if no device is suitable. A client needs a device with a route
    /// to the server. A server needs a device that has the listening address, or any device if this
    /// address is unspecified.
    Auto,
}

impl Provider {
    /// Returns true unless the provider requires a feature that this build lacks. `Auto` works in any build.
    #[must_use]
    pub fn is_built(self) -> bool {
        self != Provider::Verbs || cfg!(feature = "verbs")
    }

    /// Connects a client.
    ///
    /// # Errors
    /// [`ConnectError`] if no address of the host accepts a connection, or the provider is not built in.
    pub async fn connect(self, address: &str, options: ClientOptions) -> Result<Client, ConnectError> {
        match self {
            Provider::Iwarp => Client::connect_with(address, options).await,
            Provider::Verbs => devices::connect(address, options).await,
            Provider::Auto => devices::connect_auto(address, options).await,
        }
    }

    /// Binds a server to an address.
    ///
    /// # Errors
    /// [`ServeError`] if no address of the host can be bound, or the provider is not built in.
    pub async fn bind(self, address: &str, options: ServerOptions) -> Result<Server, ServeError> {
        match self {
            Provider::Iwarp => Server::bind_with(address, options).await,
            Provider::Verbs => devices::bind(address, options).await,
            Provider::Auto => devices::bind_auto(address, options).await,
        }
    }
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

/// The provider name is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected iwarp, verbs or auto")]
pub struct UnknownProvider;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn provider_names_survive_a_round_trip() {
        for provider in [Provider::Iwarp, Provider::Verbs, Provider::Auto] {
            assert_eq!(provider.to_string().parse(), Ok(provider));
        }
        assert_eq!("rdma".parse::<Provider>(), Err(UnknownProvider));
    }

    #[cfg(not(feature = "verbs"))]
    #[tokio::test]
    async fn without_the_feature_the_verbs_provider_fails_and_auto_uses_iwarp() {
        let built = [Provider::Iwarp, Provider::Verbs, Provider::Auto].map(Provider::is_built);
        assert_eq!(built, [true, false, true]);
        let error = Provider::Verbs.bind("127.0.0.1:0", ServerOptions::default()).await.unwrap_err();
        assert!(error.to_string().contains("`verbs`"), "{error}");
        let error = Provider::Verbs.connect("127.0.0.1:1", ClientOptions::default()).await.unwrap_err();
        assert!(error.to_string().contains("`verbs`"), "{error}");
        let server = Provider::Auto.bind("127.0.0.1:0", ServerOptions::default()).await.unwrap();
        let address = server.local_addr().unwrap().to_string();
        let serving = tokio::spawn(server.run(std::future::pending()));
        assert!(Provider::Auto.connect(&address, ClientOptions::default()).await.is_ok());
        serving.abort();
    }
}
