use std::future::Future;
use std::io;
use std::net::SocketAddr;

use tokio::net::lookup_host;

use super::{BoxError, ConnectError};

/// Resolves names with ports, separated by commas, in the format of `ToAddress::to_address`.
pub(crate) async fn addresses(text: &str) -> io::Result<Vec<SocketAddr>> {
    let mut addresses = Vec::new();
    for name in text.split(',') {
        addresses.extend(lookup_host(name).await?);
    }
    Ok(addresses)
}

/// Resolves a name with a port, and connects to the first of its addresses that accepts a connection. Several
/// names may be separated by commas.
///
/// # Errors
/// [`ConnectError::Resolve`], or [`ConnectError::Connect`] with the error of the last address.
pub async fn connect_any<C, E, Connecting>(
    name: &str,
    connect: impl Fn(SocketAddr) -> Connecting,
) -> Result<C, ConnectError>
where
    E: Into<BoxError>,
    Connecting: Future<Output = Result<C, E>>,
{
    let unresolved = |source| ConnectError::Resolve { address: name.to_owned(), source };
    let mut last = None;
    for address in addresses(name).await.map_err(unresolved)? {
        match connect(address).await {
            Ok(connection) => return Ok(connection),
            Err(error) => last = Some(error),
        }
    }
    Err(match last {
        Some(error) => ConnectError::Connect { address: name.to_owned(), source: error.into() },
        None => unresolved(io::ErrorKind::NotFound.into()),
    })
}
