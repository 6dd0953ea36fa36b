//! Where this program runs. Mostly on this machine, from which the guest is another one. But it runs in the guest as well, as
//! `inside.rs` has it: with `RPCRDMA_LAB_INSIDE=siw` or `rxe` both ends are there, and ours use that device by verbs; with `iwarp`
//! ours have iWARP in user space, and the kernel has siw. The tests are the same.

use std::fmt;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use rpcrdma_nfs::provider::Provider;

/// The guest itself.
pub(crate) const GUEST: &str = "10.0.2.15";

/// The guest's devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Device {
    Siw,
    Rxe,
}

/// What carries calls at our end, if that is in the guest too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ours {
    Iwarp,
    Verbs(Device),
}

impl Ours {
    /// Where the programs are that are built for it.
    pub(crate) fn programs(self) -> &'static str {
        match self {
            Ours::Iwarp => "/run/iwarp",
            Ours::Verbs(_) => "/run/bin",
        }
    }
}

/// As `RPCRDMA_LAB_INSIDE` has it.
impl fmt::Display for Ours {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Ours::Iwarp => "iwarp",
            Ours::Verbs(Device::Siw) => "siw",
            Ours::Verbs(Device::Rxe) => "rxe",
        })
    }
}

/// What our end has, if this is the guest.
pub(crate) fn inside() -> Option<Ours> {
    let named = std::env::var("RPCRDMA_LAB_INSIDE").ok()?;
    let known = [Ours::Iwarp, Ours::Verbs(Device::Siw), Ours::Verbs(Device::Rxe)];
    let ours = known.into_iter().find(|ours| ours.to_string() == named);
    Some(ours.unwrap_or_else(|| panic!("RPCRDMA_LAB_INSIDE: nothing is called {named}")))
}

/// The address at which programs of this place listen, and at which they reach the guest's servers.
pub(crate) fn address() -> Ipv4Addr {
    if inside().is_some() { GUEST.parse().unwrap() } else { Ipv4Addr::LOCALHOST }
}

/// The same address as the kernel in the guest knows it: the loopback of this machine is 10.0.2.2 there.
pub(crate) fn seen_from_the_guest() -> &'static str {
    if inside().is_some() { GUEST } else { "10.0.2.2" }
}

/// What carries calls at our end.
pub(crate) fn provider() -> Provider {
    if let Some(Ours::Verbs(_)) = inside() { Provider::Verbs } else { Provider::Iwarp }
}

/// A program of ours, by its path on the machine that built it.
pub(crate) fn program(built: &str) -> PathBuf {
    let name = Path::new(built).file_name().unwrap();
    inside().map_or_else(|| PathBuf::from(built), |ours| Path::new(ours.programs()).join(name))
}
