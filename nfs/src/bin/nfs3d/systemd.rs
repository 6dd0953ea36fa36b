//! Implements systemd's protocol for services: passed sockets, readiness and the watchdog. Has no effect
//! without systemd.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use anyhow::Context;
use listenfd::ListenFd;
use sd_notify::NotifyState;
use tokio::net::TcpListener;
use tokio::time::{Interval, interval};

/// The sockets that systemd passes, in the order of the socket unit.
pub(crate) struct Sockets {
    pub(crate) rdma: Option<TcpListener>,
    pub(crate) tcp: Option<TcpListener>,
}

impl Sockets {
    pub(crate) fn passed() -> anyhow::Result<Self> {
        let mut passed = ListenFd::from_env();
        let mut take = |index| {
            let socket = passed
                .take_tcp_listener(index)
                .context("a socket passed by systemd is not a TCP listener; set ListenStream=ADDR:PORT")?;
            let listener = socket.map(|socket| {
                socket.set_nonblocking(true)?;
                TcpListener::from_std(socket)
            });
            listener.transpose().context("cannot use a socket passed by systemd")
        };
        Ok(Sockets { rdma: take(0)?, tcp: take(1)? })
    }
}

/// Sends `states` to systemd. Failures are only logged.
pub(crate) fn notify(states: &[NotifyState<'_>]) {
    if let Err(error) = send(states) {
        tracing::debug!(%error, "systemd");
    }
}

/// The crate `sd-notify` does not support abstract addresses (`@NAME`), so this function sends to such an
/// address itself.
fn send(states: &[NotifyState<'_>]) -> io::Result<()> {
    let Some(address) = std::env::var_os("NOTIFY_SOCKET") else { return Ok(()) };
    let Some(name) = address.as_bytes().strip_prefix(b"@") else { return sd_notify::notify(states) };
    let report: String = states.iter().map(|state| format!("{state}\n")).collect();
    UnixDatagram::unbound()?.send_to_addr(report.as_bytes(), &SocketAddr::from_abstract_name(name)?)?;
    Ok(())
}

/// Returns a timer whose period is half of the watchdog's timeout, or `None` if the watchdog is disabled.
pub(crate) fn watchdog() -> Option<Interval> {
    sd_notify::watchdog_enabled().filter(|limit| !limit.is_zero()).map(|limit| interval(limit / 2))
}
