//! What `rpcrdma info` says: the RDMA devices of this machine, and which provider an address would use.

use std::fmt::{self, Write};
use std::net::SocketAddr;
use std::time::Duration;

use rpcrdma_runtime::shell::{ConnectError, Provider};
use tokio::net::lookup_host;

/// How long it may take to find out which device leads to an address.
const LIMIT: Duration = Duration::from_secs(10);

/// The devices of this machine: names, ports, addresses, limits.
///
/// # Errors
/// What the system says of a device that cannot be asked.
pub fn devices() -> std::io::Result<String> {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = list(&mut text)?;
    Ok(text)
}

#[cfg(not(feature = "verbs"))]
fn list(text: &mut String) -> std::io::Result<fmt::Result> {
    Ok(writeln!(text, "RDMA devices are not looked for: this was built without the feature `verbs`"))
}

#[cfg(feature = "verbs")]
fn list(text: &mut String) -> std::io::Result<fmt::Result> {
    let devices = rpcrdma_runtime::provider::verbs::devices()?;
    if devices.is_empty() {
        return Ok(writeln!(text, "no RDMA devices"));
    }
    Ok(devices.iter().try_for_each(|device| show(text, device)))
}

#[cfg(feature = "verbs")]
fn show(text: &mut String, device: &rpcrdma_runtime::provider::verbs::Device) -> fmt::Result {
    let kind = if device.iwarp { "iWARP" } else { "InfiniBand or RoCE" };
    writeln!(text, "{}: {kind}, GUID {}", device.name, device.guid)?;
    writeln!(
        text,
        "  at most: {} RDMA Reads served, {} outstanding; {} work requests in a queue; regions of {} bytes",
        device.reads_in, device.reads_out, device.work, device.region
    )?;
    let windows = if device.windows { "memory windows of type 2" } else { "no memory windows of type 2" };
    writeln!(text, "  {windows}")?;
    for port in &device.ports {
        let state = if port.active { "active" } else { "down" };
        writeln!(text, "  port {}: {state}, messages of at most {} bytes", port.number, port.message)?;
        port.gids.iter().try_for_each(|gid| writeln!(text, "    GID {gid}"))?;
    }
    Ok(())
}

/// Which provider would be used to connect to an address, and which to listen there, if nothing else is asked for.
///
/// # Errors
/// [`ConnectError`]: the name cannot be resolved, or a device not be asked.
pub async fn address(name: &str) -> Result<String, ConnectError> {
    let unresolved = |source| ConnectError::Resolve { address: name.to_owned(), source };
    let mut text = String::new();
    for address in lookup_host(name).await.map_err(unresolved)? {
        let _ = writeln!(
            text,
            "{address}: --provider auto connects by {}{}, and listens by {}",
            Provider::Auto.to(address, LIMIT).await,
            device(address).await?,
            Provider::Auto.at(address),
        );
    }
    Ok(text)
}

#[cfg(not(feature = "verbs"))]
#[allow(clippy::unused_async, reason = "as with the feature")]
async fn device(_: SocketAddr) -> Result<String, ConnectError> {
    Ok(String::new())
}

#[cfg(feature = "verbs")]
async fn device(address: SocketAddr) -> Result<String, ConnectError> {
    let found = rpcrdma_runtime::provider::verbs::device_for(address, LIMIT).await;
    let found = found.map_err(|source| ConnectError::Verbs { address: address.to_string(), source })?;
    Ok(found.map(|name| format!(" ({name})")).unwrap_or_default())
}
