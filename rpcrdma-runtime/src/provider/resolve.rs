use std::future::Future;
use std::io;
use std::net::SocketAddr;

use tokio::net::lookup_host;

use super::{BoxError, ConnectError};

/// Resolves a comma-separated list of names with ports, in the format of `ToAddress::to_address`. Fails only
/// if none of the names can be resolved.
pub(crate) async fn addresses(text: &str) -> io::Result<Vec<SocketAddr>> {
    let (mut addresses, mut failed) = (Vec::new(), None);
    for name in text.split(',') {
        match resolve(name).await {
            Ok(resolved) => addresses.extend(resolved),
            Err(error) => failed = Some(error),
        }
    }
    failed.filter(|_| addresses.is_empty()).map_or(Ok(addresses), Err)
}

/// Resolves one name with a port.
pub(crate) async fn resolve(name: &str) -> io::Result<Vec<SocketAddr>> {
    // The system resolves an IPv6 address with a named zone only if it is not in brackets. An address with a
    // numeric zone parses as a `SocketAddr`.
    if let Some((host, port)) = name.strip_prefix('[').and_then(|name| name.split_once("]:"))
        && host.contains('%')
        && name.parse::<SocketAddr>().is_err()
        && let Ok(port) = port.parse::<u16>()
    {
        return Ok(lookup_host((host, port)).await?.collect());
    }
    Ok(lookup_host(name).await?.collect())
}

/// Resolves a name with a port, and connects to the first of its addresses that accepts a connection. Several
/// names may be separated by commas. Names that cannot be resolved are skipped.
///
/// # Errors
/// [`ConnectError::Resolve`] if no name can be resolved, or [`ConnectError::Connect`] with the error of the
/// last address.
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
