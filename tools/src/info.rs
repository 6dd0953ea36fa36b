//! The output of `rpcrdma info`: the RDMA devices of this machine, and the providers that `--provider auto`
//! selects for addresses.

use std::fmt::{self, Write};
use std::net::SocketAddr;
#[cfg(feature = "verbs")]
use std::time::Duration;

use rpcrdma_nfs::provider::Provider;
use rpcrdma_runtime::ConnectError;
use tokio::net::lookup_host;

/// The time limit for finding the device for an address.
#[cfg(feature = "verbs")]
const LIMIT: Duration = Duration::from_secs(10);

/// Describes the RDMA devices of this machine: names, ports, addresses and limits.
///
/// # Errors
/// Fails if the devices cannot be listed or queried.
pub fn devices() -> std::io::Result<String> {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = list(&mut text)?;
    Ok(text)
}

#[cfg(not(feature = "verbs"))]
fn list(text: &mut String) -> std::io::Result<fmt::Result> {
    Ok(writeln!(text, "RDMA devices are not supported: built without the feature `verbs`"))
}

#[cfg(feature = "verbs")]
fn list(text: &mut String) -> std::io::Result<fmt::Result> {
    let devices = rpcrdma_verbs::devices()?;
    if devices.is_empty() {
        return Ok(writeln!(text, "no RDMA devices"));
    }
    Ok(devices.iter().try_for_each(|device| show(text, device)))
}

#[cfg(feature = "verbs")]
fn show(text: &mut String, device: &rpcrdma_verbs::Device) -> fmt::Result {
    let kind = if device.iwarp { "iWARP" } else { "InfiniBand or RoCE" };
    writeln!(text, "{}: {kind}, GUID {}", device.name, device.guid)?;
    writeln!(
        text,
        "  limits: {} incoming and {} outgoing RDMA Reads; {} work requests in a queue; regions of {} bytes",
        device.ird, device.ord, device.max_work_requests, device.max_region
    )?;
    let windows = if device.windows { "memory windows of type 2" } else { "no memory windows of type 2" };
    writeln!(text, "  {windows}")?;
    for port in &device.ports {
        let state = if port.active { "active" } else { "down" };
        writeln!(text, "  port {}: {state}, messages of at most {} bytes", port.number, port.max_message)?;
        port.gids.iter().try_for_each(|gid| writeln!(text, "    GID {gid}"))?;
    }
    Ok(())
}

/// Describes the providers that `--provider auto` selects to connect to an address and to listen on it.
///
/// # Errors
/// Fails if the name cannot be resolved, or if finding the device for an address fails or takes longer than
/// 10 seconds.
pub async fn address(name: &str) -> Result<String, ConnectError> {
    let unresolved = |source| ConnectError::Resolve { address: name.to_owned(), source };
    let mut text = String::new();
    for address in lookup_host(name).await.map_err(unresolved)? {
        let _ = writeln!(
            text,
            "{address}: --provider auto connects with {} and listens with {}",
            connects(address).await?,
            listens(address),
        );
    }
    Ok(text)
}

#[cfg(not(feature = "verbs"))]
#[allow(clippy::unused_async, reason = "the variant with the feature `verbs` is async")]
async fn connects(_: SocketAddr) -> Result<Provider, ConnectError> {
    Ok(Provider::Iwarp)
}

#[cfg(feature = "verbs")]
async fn connects(address: SocketAddr) -> Result<String, ConnectError> {
    let found = rpcrdma_verbs::device_for(address, LIMIT).await;
    let failed = |source| ConnectError::Connect { address: address.to_string(), source };
    Ok(match found.map_err(|error| failed(error.into()))? {
        Some(name) => format!("{} ({name})", Provider::Verbs),
        None => Provider::Iwarp.to_string(),
    })
}

#[cfg(not(feature = "verbs"))]
fn listens(_: SocketAddr) -> Provider {
    Provider::Iwarp
}

#[cfg(feature = "verbs")]
fn listens(address: SocketAddr) -> Provider {
    if rpcrdma_verbs::serves(address) { Provider::Verbs } else { Provider::Iwarp }
}
