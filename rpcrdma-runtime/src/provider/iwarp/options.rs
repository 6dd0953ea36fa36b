use std::io;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;

use super::capture::Tap;
use super::{Capture, CaptureError};

/// The longest FPDU if the system does not tell the segment size of TCP, in octets: right for Ethernet.
const DEFAULT_FPDU: usize = 1440;

/// What an iWARP end is set to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Ask for CRCs when connecting (default true). A responder has them if the peer asks. Linux's siw (seen in 6.1) takes an
    /// FPDU for damaged, and ends the connection, if TCP delivers its padding and CRC in two pieces: turn them off where
    /// something on the way to it divides the stream anew.
    pub crc: bool,
    /// A responder has CRCs even if the peer does not ask for them (default false; Linux's siw does not ask).
    pub crc_as_responder: bool,
    /// RDMA Reads that are served at once, 1 to 128 (IRD, default 128). Linux's NFS server refuses a client
    /// that serves none.
    pub reads_in: u16,
    /// RDMA Reads that are outstanding at once, 1 to 128 (ORD, default 16).
    pub reads_out: u16,
    /// The longest FPDU that is sent, in octets; `None` (default) makes one FPDU fill a TCP segment.
    pub max_fpdu: Option<usize>,
    /// The largest region that can be registered, in octets (default 1 GiB).
    pub max_region: u32,
    /// How long TCP may take to connect (default 10 s).
    pub connect_timeout: Duration,
    /// How long an initiator waits for the whole MPA reply (default 10 s).
    pub reply_timeout: Duration,
    /// How long a responder waits for the whole MPA request (default 5 s).
    pub request_timeout: Duration,
    /// How long a peer may stand still while it owes the rest of a message or the answer to an RDMA Read, or
    /// while it takes nothing of what is to be sent (default 30 s). Also how long it may take, from the end of a
    /// stream on, to take all that is still to be sent. Durations beyond a year count as a year.
    pub stall_timeout: Duration,
    /// How long the peer may take to close its side once this one is closed (default 1 s).
    pub linger: Duration,
    /// An initiator that hears nothing after its first message sends an RDMA Write of no octets, after this time
    /// and then after twice as much each time, eight times at most (default 20 ms; `None` never does). Linux's
    /// siw can leave the first message unread until another segment comes.
    pub nudge: Option<Duration>,
    /// When TCP asks whether the peer is still there (default: after 60 s without a segment); `None` never asks.
    /// A peer that has lost its power or its network is found out by nothing else while nothing is to be sent.
    pub keepalive: Option<Keepalive>,
    /// The capture file that the traffic is written to, with the feature `capture` (default: the file that the
    /// environment names, if any).
    pub capture: Capture,
}

/// How TCP finds out that a silent peer is gone (SO_KEEPALIVE, RFC 9293 section 3.8.4). Systems count in whole
/// seconds; where one has no setting for a part of it, its own value holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keepalive {
    /// Silence before the first probe; at least a second (default 60 s).
    pub idle: Duration,
    /// From one probe to the next; at least a second (default 10 s).
    pub interval: Duration,
    /// Probes without an answer after which the connection is given up, 1 to 127 (default 5).
    pub probes: u32,
}

impl Default for Keepalive {
    fn default() -> Self {
        Keepalive { idle: Duration::from_secs(60), interval: Duration::from_secs(10), probes: 5 }
    }
}

impl Default for Options {
    fn default() -> Self {
        Options {
            crc: true,
            crc_as_responder: false,
            reads_in: 128,
            reads_out: 16,
            max_fpdu: None,
            max_region: 1 << 30,
            connect_timeout: Duration::from_secs(10),
            reply_timeout: Duration::from_secs(10),
            request_timeout: Duration::from_secs(5),
            stall_timeout: Duration::from_secs(30),
            linger: Duration::from_secs(1),
            nudge: Some(Duration::from_millis(20)),
            keepalive: Some(Keepalive::default()),
            capture: Capture::default(),
        }
    }
}

impl Options {
    /// The longest FPDU for a socket: as set, or what fills a TCP segment. A multiple of eight, as siw has it, so
    /// that all payload but the last is a multiple of four.
    pub(super) fn fpdu_for(&self, socket: &TcpStream) -> usize {
        self.max_fpdu.unwrap_or_else(|| segment_size(socket).unwrap_or(DEFAULT_FPDU) & !7)
    }
}

impl Options {
    /// Makes sure that the capture file can be written, if there is one.
    pub(crate) fn prepare_capture(&self) -> Result<(), CaptureError> {
        Tap::prepare(&self.capture)
    }

    /// Sets what TCP is to do by itself.
    pub(super) fn prepare(&self, socket: &TcpStream) -> io::Result<()> {
        socket.set_nodelay(true)?;
        match &self.keepalive {
            Some(keepalive) => SockRef::from(socket).set_tcp_keepalive(&keepalive.parameters()),
            None => Ok(()),
        }
    }
}

impl Keepalive {
    pub(crate) fn parameters(&self) -> TcpKeepalive {
        let parameters = TcpKeepalive::new().with_time(self.idle);
        #[cfg(any(
            target_os = "android",
            target_os = "freebsd",
            target_os = "ios",
            target_os = "linux",
            target_os = "macos",
            target_os = "netbsd",
            target_os = "windows",
        ))]
        let parameters = parameters.with_interval(self.interval).with_retries(self.probes);
        parameters
    }
}

#[cfg(unix)]
fn segment_size(socket: &TcpStream) -> Option<usize> {
    let size = SockRef::from(socket).tcp_mss().ok()?;
    usize::try_from(size).ok()
}

#[cfg(not(unix))]
fn segment_size(_: &TcpStream) -> Option<usize> {
    None
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn a_silent_peer_is_asked_for() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (near, far) = tokio::join!(TcpStream::connect(address), listener.accept());
        let (near, (far, _)) = (near.unwrap(), far.unwrap());
        Options::default().prepare(&near).unwrap();
        let socket = SockRef::from(&near);
        assert!(socket.keepalive().unwrap());
        assert_eq!(socket.tcp_keepalive_time().unwrap(), Duration::from_secs(60));
        assert_eq!(socket.tcp_keepalive_interval().unwrap(), Duration::from_secs(10));
        assert_eq!(socket.tcp_keepalive_retries().unwrap(), 5);
        Options { keepalive: None, ..Options::default() }.prepare(&far).unwrap();
        assert!(!SockRef::from(&far).keepalive().unwrap());
    }
}
