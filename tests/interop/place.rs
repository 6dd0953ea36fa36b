//! Where this program runs. Mostly on this machine, from which the guest is another one. But it runs in the guest as well, as
//! `by_verbs.rs` has it: with `RPCRDMA_LAB_INSIDE=siw` or `rxe` both ends are there, and ours use that device by verbs. The tests
//! are the same.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use rpcrdma_runtime::shell::Provider;

/// The guest itself.
pub(crate) const GUEST: &str = "10.0.2.15";

/// The guest's devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Device {
    Siw,
    Rxe,
}

/// The device that is between both ends, if this is the guest.
pub(crate) fn inside() -> Option<Device> {
    match std::env::var("RPCRDMA_LAB_INSIDE").ok()?.as_str() {
        "siw" => Some(Device::Siw),
        "rxe" => Some(Device::Rxe),
        other => panic!("RPCRDMA_LAB_INSIDE: no device {other}"),
    }
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
    if inside().is_some() { Provider::Verbs } else { Provider::Iwarp }
}

/// A program of ours, by its path on the machine that built it.
pub(crate) fn program(built: &str) -> PathBuf {
    let name = Path::new(built).file_name().unwrap();
    if inside().is_some() { Path::new("/run/bin").join(name) } else { PathBuf::from(built) }
}
