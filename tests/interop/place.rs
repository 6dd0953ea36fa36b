//! The differences between a run on the host and a run in the guest.
//!
//! Some tests run in both places. In a run on the host, only the kernel's client or server is in the guest.
//! `inside.rs` runs this program in the guest, where `RPCRDMA_LAB_INSIDE` selects our transport: `siw` or
//! `rxe` for verbs on that device, or `iwarp` for user-space iWARP. With `iwarp`, the kernel uses siw.

use std::fmt;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use rpcrdma_nfs::provider::Provider;

/// The guest's address in QEMU's user-mode network.
pub(crate) const GUEST: &str = "10.0.2.15";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Device {
    Siw,
    Rxe,
}

/// The transport of our client or server for a run in the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ours {
    Iwarp,
    Verbs(Device),
}

impl Ours {
    /// Returns the guest's directory with the programs built for this transport.
    pub(crate) fn programs(self) -> &'static str {
        match self {
            Ours::Iwarp => "/run/iwarp",
            Ours::Verbs(_) => "/run/bin",
        }
    }
}

impl fmt::Display for Ours {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Ours::Iwarp => "iwarp",
            Ours::Verbs(Device::Siw) => "siw",
            Ours::Verbs(Device::Rxe) => "rxe",
        })
    }
}

/// Returns the transport that `RPCRDMA_LAB_INSIDE` selects, or `None` on the host.
pub(crate) fn inside() -> Option<Ours> {
    let named = std::env::var("RPCRDMA_LAB_INSIDE").ok()?;
    let known = [Ours::Iwarp, Ours::Verbs(Device::Siw), Ours::Verbs(Device::Rxe)];
    let ours = known.into_iter().find(|ours| ours.to_string() == named);
    Some(ours.unwrap_or_else(|| panic!("RPCRDMA_LAB_INSIDE={named}: expected iwarp, siw or rxe")))
}

/// Returns the address on which this program's servers listen and at which this program reaches the guest's
/// servers.
pub(crate) fn address() -> Ipv4Addr {
    if inside().is_some() { GUEST.parse().unwrap() } else { Ipv4Addr::LOCALHOST }
}

/// Returns the address at which the guest reaches [`address`]. 10.0.2.2 is the host's loopback as seen by the
/// guest.
pub(crate) fn guest_view() -> &'static str {
    if inside().is_some() { GUEST } else { "10.0.2.2" }
}

pub(crate) fn provider() -> Provider {
    if let Some(Ours::Verbs(_)) = inside() { Provider::Verbs } else { Provider::Iwarp }
}

/// Returns the path of one of our programs on the machine that runs the tests: the host or the guest. `built`
/// is the program's path on the host.
pub(crate) fn program(built: &str) -> PathBuf {
    let name = Path::new(built).file_name().unwrap();
    inside().map_or_else(|| PathBuf::from(built), |ours| Path::new(ours.programs()).join(name))
}
