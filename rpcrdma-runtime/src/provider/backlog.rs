use socket2::SockRef;
use tokio::net::TcpListener;
use tracing::debug;

/// Maximum number of connections that the server has not accepted yet. The system may allow fewer
/// (`somaxconn` on Linux).
const BACKLOG: i32 = 4096;

/// Raises the backlog, because the default is too small for bursts of connections. While the backlog is full,
/// the system drops further SYN segments, and the peers retransmit the segments only after a second or more.
pub(crate) fn raise_backlog(listener: &TcpListener) {
    if let Err(error) = SockRef::from(listener).listen(BACKLOG) {
        debug!(%error, "cannot raise the backlog");
    }
}
