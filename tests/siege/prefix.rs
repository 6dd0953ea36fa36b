//! Local addresses in one IPv6 prefix of 64 bits.

use std::net::Ipv6Addr;
use std::process::{self, Command};

use anyhow::{Context, ensure};

/// A route to this machine for all addresses of a prefix. Dropping this value removes the route. The prefix
/// is part of 2001:db8::/32, which is reserved for documentation (RFC 3849).
pub(crate) struct Prefix(());

impl Prefix {
    pub(crate) fn add() -> anyhow::Result<Self> {
        // If this process is killed, the kernel removes the route when it expires.
        let added = route("add").args(["expires", "600"]).output().context("ip (package iproute2)")?;
        ensure!(added.status.success(), "{}", String::from_utf8_lossy(&added.stderr).trim_end());
        Ok(Prefix(()))
    }

    /// Returns an address of the prefix. The prefix contains the process ID, because several processes may
    /// run this program at the same time.
    pub(crate) fn host(number: usize) -> Ipv6Addr {
        Ipv6Addr::from((0x2001_0db8 << 96) | (u128::from(process::id()) << 64) | number as u128)
    }
}

fn route(action: &str) -> Command {
    let mut command = Command::new("ip");
    let prefix = format!("{}/64", Prefix::host(0));
    command.args(["-6", "route", action, "local", &prefix, "dev", "lo"]);
    command
}

impl Drop for Prefix {
    fn drop(&mut self) {
        let _ = route("del").output();
    }
}
