//! Runs the scenarios and tables over RDMA devices. The tests run only if `RPCRDMA_VERBS` is the address of a
//! device. `tests/interop/verbs.rs` runs them in a virtual machine (see `tests/lab`).

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use rpcrdma_runtime::provider::iwarp::{self, IwarpConnection, IwarpListener};
use rpcrdma_verbs::{MemoryWindows, VerbsConnection, VerbsListener, VerbsOptions};

use crate::calls::{self, Scenario, Seen};
use crate::link::{self, Link, Memory, Provider};
use crate::{headers, layouts, replies};

fn address() -> Option<IpAddr> {
    let address = std::env::var("RPCRDMA_VERBS").ok()?;
    Some(address.parse().expect("an address in RPCRDMA_VERBS"))
}

/// Returns the address for a listener: the device's address and any free port.
fn here() -> SocketAddr {
    SocketAddr::new(address().expect("RPCRDMA_VERBS"), 0)
}

fn options(link: &Link, windows: MemoryWindows) -> VerbsOptions {
    let depth = u8::try_from(link.reads).expect("a few");
    VerbsOptions { ird: depth, ord: depth, windows, ..VerbsOptions::default() }
}

async fn listener(link: &Link, windows: MemoryWindows) -> (VerbsListener, SocketAddr) {
    let listener = VerbsListener::bind(here(), options(link, windows)).await.expect("a device");
    let address = listener.local_addr().expect("a local address");
    (listener, address)
}

async fn connecting(address: SocketAddr, link: &Link, windows: MemoryWindows) -> VerbsConnection {
    let options = options(link, windows);
    let connection = rpcrdma_verbs::connect(address, &link.private_data(), link.receive(), &options).await;
    connection.expect("a connection")
}

async fn accepted(listener: &VerbsListener, link: &Link) -> VerbsConnection {
    let request = listener.accept().await.expect("a request");
    request.accept(&link.private_data(), link.receive()).await.expect("accepted")
}

async fn connected(link: &Link, windows: MemoryWindows) -> (VerbsConnection, VerbsConnection) {
    let (listener, address) = listener(link, windows).await;
    tokio::join!(connecting(address, link, windows), accepted(&listener, link))
}

struct Verbs;

impl Provider for Verbs {
    type ClientSide = VerbsConnection;
    type ServerSide = VerbsConnection;
    const INVALIDATES: bool = false;

    async fn connect(link: &Link) -> (Self::ClientSide, Self::ServerSide) {
        connected(link, MemoryWindows::Never).await
    }
}

/// The client advertises memory windows, and the server invalidates their handles.
struct Windowed;

impl Provider for Windowed {
    type ClientSide = VerbsConnection;
    type ServerSide = VerbsConnection;

    async fn connect(link: &Link) -> (Self::ClientSide, Self::ServerSide) {
        connected(link, MemoryWindows::Always).await
    }
}

/// User-space iWARP connects to an iWARP device.
struct FromIwarp;

impl Provider for FromIwarp {
    type ClientSide = IwarpConnection;
    type ServerSide = VerbsConnection;

    async fn connect(link: &Link) -> (Self::ClientSide, Self::ServerSide) {
        let (listener, address) = listener(link, VerbsOptions::default().windows).await;
        let (options, private_data) = (link.iwarp(), link.private_data());
        let connecting = iwarp::connect(address, &private_data, link.receive(), &options);
        let (local, peer) = tokio::join!(connecting, accepted(&listener, link));
        (local.expect("a connection"), peer)
    }
}

/// An iWARP device connects to user-space iWARP.
struct ToIwarp;

impl Provider for ToIwarp {
    type ClientSide = VerbsConnection;
    type ServerSide = IwarpConnection;
    const INVALIDATES: bool = false;

    async fn connect(link: &Link) -> (Self::ClientSide, Self::ServerSide) {
        let listener = IwarpListener::bind(here(), link.iwarp()).await.expect("a free port");
        let address = listener.local_addr().expect("a local address");
        let windows = VerbsOptions::default().windows;
        tokio::join!(connecting(address, link, windows), link::accepted(&listener, link))
    }
}

/// Runs a scenario over the in-memory provider and over `P`. Records a failure if a run fails or if the
/// traffic differs. Does not compare remote invalidation, or any traffic of a scenario whose runs may differ.
async fn compare<P: Provider>(scenario: &Scenario, provider: &str, failed: &mut Vec<String>) {
    let plain = |mut seen: Seen| {
        for call in &mut seen {
            call.remote_invalidation = false;
        }
        seen
    };
    let memory = calls::over::<Memory>(scenario).await.map(plain);
    let other = calls::over::<P>(scenario).await.map(plain);
    match (memory, other) {
        (Ok(memory), Ok(other)) if memory == other => {}
        (Ok(_), Ok(_)) if scenario.varies() => {}
        (memory, other) => {
            failed.push(format!("{}:\n  fabric {memory:?}\n  {provider} {other:?}", scenario.name));
        }
    }
}

async fn all<P: Provider>(provider: &str) {
    let mut failed = Vec::new();
    for scenario in &calls::scenarios() {
        compare::<P>(scenario, provider, &mut failed).await;
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    headers::over::<P>().await;
    layouts::over::<P>().await;
    replies::over::<P>().await;
}

#[tokio::test]
async fn each_case_is_the_same_over_an_rdma_device() {
    let Some(ip) = address() else {
        return not_run::not_run("RPCRDMA_VERBS is not set: no RDMA device");
    };
    let device = rpcrdma_verbs::device_for(SocketAddr::new(ip, 1), Duration::from_secs(10)).await;
    let name = device.expect("a route").expect("a device");
    let devices = rpcrdma_verbs::devices().expect("devices");
    let device = devices.iter().find(|device| device.name == name).expect("the same device");
    all::<Verbs>("verbs").await;
    if device.windows {
        all::<Windowed>("verbs with windows").await;
    }
    if device.iwarp {
        all::<FromIwarp>("iwarp to verbs").await;
        all::<ToIwarp>("verbs to iwarp").await;
    }
}
