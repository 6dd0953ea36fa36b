use std::io;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;

use super::capture::Tap;
use super::{Capture, CaptureError};

/// The maximum length of an FPDU, in octets, if the system does not report TCP's segment size. An FPDU of
/// this length fits in a TCP segment over IPv4 on Ethernet (MTU 1,500).
const DEFAULT_FPDU: usize = 1440;

/// The options of an iWARP connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IwarpOptions {
    /// Requires CRCs, as initiator and as responder (default true, RFC 5044 section 4.4). If false, CRCs are
    /// used only if the peer requires them. Linux's siw (seen in 6.1) treats an FPDU as damaged and ends the
    /// connection if TCP delivers the FPDU's padding and CRC in two pieces. Disable CRCs if the path to such
    /// a peer resegments the stream.
    pub crc: bool,
    /// Requires MPA markers in received FPDUs (default false, RFC 5044 section 4.3). The receiver discards
    /// the markers. Linux's siw does not support markers and refuses the connection. Markers that the peer
    /// requires are always sent.
    pub markers: bool,
    /// Maximum number of the peer's RDMA Reads to serve at once, 1 to 128 (IRD, default 128). Linux's NFS
    /// server refuses a client with an IRD of 0.
    pub ird: u16,
    /// Maximum number of outstanding local RDMA Reads, 1 to 128 (ORD, default 16).
    pub ord: u16,
    /// Maximum length of a sent FPDU, in octets, from 136 (140 with markers) to 64,772. `None` (default): the
    /// longest FPDU that fits a TCP segment.
    pub max_fpdu: Option<usize>,
    /// Maximum length of a registered region, in octets (default 1 GiB).
    pub max_region: u32,
    /// Timeout for connecting over TCP (default 10 s).
    pub connect_timeout: Duration,
    /// Minimum rate at which a client must accept output or serve RDMA Reads, in octets per second (default
    /// 64 KiB). The rate is averaged over at least 10 s. A server closes the connection of a slower client. A
    /// rate of 0 disables the check. [`stall_timeout`](Self::stall_timeout) applies to a client that makes no
    /// progress.
    pub min_rate: u64,
    /// How long an initiator waits for the complete MPA reply (default 10 s).
    pub reply_timeout: Duration,
    /// How long a responder waits for the complete MPA request (default 5 s).
    pub request_timeout: Duration,
    /// How long a peer may stall in the middle of a message, before an RDMA Read Response, or without
    /// accepting output (default 30 s). This timeout also limits the time to send the remaining output after
    /// the stream has ended. Durations longer than a year count as a year.
    pub stall_timeout: Duration,
    /// How long to wait for the peer to close the connection after a local close (default 1 s).
    pub linger: Duration,
    /// How long an initiator waits for input after its first message before it sends an empty RDMA Write
    /// (default 20 ms). The interval doubles each time, for at most eight RDMA Writes; `None` disables them.
    /// Linux's siw can leave the first message unread until another segment arrives.
    pub probe: Option<Duration>,
    /// When TCP probes an idle peer (default: after 60 s without a segment); `None` disables the probes.
    /// Without output, only probes detect a peer that has lost power or its network connection.
    pub keepalive: Option<Keepalive>,
    /// The destination of captured traffic. Requires the feature `capture`. By default, the environment
    /// variable `RPCRDMA_PCAP` names the capture file, if any.
    pub capture: Capture,
    #[doc(hidden)]
    pub non_exhaustive: (),
}

/// How TCP detects that a silent peer is gone (SO_KEEPALIVE, RFC 9293 section 3.8.4). On Unix, fractions of a
/// second are dropped. A system that cannot set one of these values uses its own default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keepalive {
    /// Silence before the first probe; at least a second (default 60 s).
    pub idle: Duration,
    /// Time between probes; at least a second (default 10 s).
    pub interval: Duration,
    /// Number of unanswered probes after which the connection fails, 1 to 127 (default 5).
    pub probes: u32,
    #[doc(hidden)]
    pub non_exhaustive: (),
}

impl Default for Keepalive {
    fn default() -> Self {
        Keepalive {
            idle: Duration::from_secs(60),
            interval: Duration::from_secs(10),
            probes: 5,
            non_exhaustive: (),
        }
    }
}

impl Default for IwarpOptions {
    fn default() -> Self {
        IwarpOptions {
            crc: true,
            markers: false,
            ird: 128,
            ord: 16,
            max_fpdu: None,
            max_region: 1 << 30,
            min_rate: 64 << 10,
            connect_timeout: Duration::from_secs(10),
            reply_timeout: Duration::from_secs(10),
            request_timeout: Duration::from_secs(5),
            stall_timeout: Duration::from_secs(30),
            linger: Duration::from_secs(1),
            probe: Some(Duration::from_millis(20)),
            keepalive: Some(Keepalive::default()),
            capture: Capture::default(),
            non_exhaustive: (),
        }
    }
}

impl IwarpOptions {
    pub(super) fn fpdu_for(&self, socket: &TcpStream) -> usize {
        self.max_fpdu.unwrap_or_else(|| fpdu_in_segment(socket))
    }
}

/// Returns the size of the largest FPDU that fits a TCP segment, a multiple of four octets. If the segment
/// size is unknown, returns [`DEFAULT_FPDU`].
pub(super) fn fpdu_in_segment(socket: &TcpStream) -> usize {
    segment_size(socket).unwrap_or(DEFAULT_FPDU) & !3
}

impl IwarpOptions {
    pub(crate) fn prepare_capture(&self) -> Result<(), CaptureError> {
        Tap::prepare(&self.capture)
    }

    pub(super) fn prepare(&self, socket: &TcpStream) -> io::Result<()> {
        prepare_socket(socket, self.keepalive.as_ref())
    }
}

/// Sets the socket options of a TCP connection.
pub(crate) fn prepare_socket(socket: &TcpStream, keepalive: Option<&Keepalive>) -> io::Result<()> {
    socket.set_nodelay(true)?;
    match keepalive {
        Some(keepalive) => SockRef::from(socket).set_tcp_keepalive(&keepalive.parameters()),
        None => Ok(()),
    }
}

impl Keepalive {
    fn parameters(&self) -> TcpKeepalive {
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

    async fn connected() -> io::Result<[TcpStream; 2]> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let (local, peer) = tokio::join!(TcpStream::connect(address), listener.accept());
        Ok([local?, peer?.0])
    }

    /// Requirement: R428, R432, R434
    #[tokio::test]
    async fn an_fpdu_fills_a_tcp_segment() {
        let [local, _peer] = connected().await.unwrap();
        let options = IwarpOptions::default();
        options.prepare(&local).unwrap();
        assert!(local.nodelay().unwrap());
        let segment = usize::try_from(SockRef::from(&local).tcp_mss().unwrap()).unwrap();
        assert_eq!(options.fpdu_for(&local), segment / 4 * 4);
        let options = IwarpOptions { max_fpdu: Some(777), ..options };
        assert_eq!(options.fpdu_for(&local), 777);
    }

    #[tokio::test]
    async fn a_silent_peer_is_probed() {
        let [local, peer] = connected().await.unwrap();
        IwarpOptions::default().prepare(&local).unwrap();
        let socket = SockRef::from(&local);
        assert!(socket.keepalive().unwrap());
        assert_eq!(socket.tcp_keepalive_time().unwrap(), Duration::from_secs(60));
        assert_eq!(socket.tcp_keepalive_interval().unwrap(), Duration::from_secs(10));
        assert_eq!(socket.tcp_keepalive_retries().unwrap(), 5);
        IwarpOptions { keepalive: None, ..IwarpOptions::default() }.prepare(&peer).unwrap();
        assert!(!SockRef::from(&peer).keepalive().unwrap());
    }
}
