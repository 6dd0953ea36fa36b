use std::time::Duration;

use tokio::net::TcpStream;

/// The longest FPDU if the system does not tell the segment size of TCP, in octets: right for Ethernet.
const DEFAULT_FPDU: usize = 1440;

/// What an iWARP end is set to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Ask for CRCs when connecting (default true). A responder has them if the peer asks.
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
    /// while it takes nothing of what is to be sent (default 30 s).
    pub stall_timeout: Duration,
    /// How long the peer may take to close its side once this one is closed (default 1 s).
    pub linger: Duration,
    /// An initiator that hears nothing after its first message sends an RDMA Write of no octets, after this time
    /// and then after twice as much each time, eight times at most (default 20 ms; `None` never does). Linux's
    /// siw can leave the first message unread until another segment comes.
    pub nudge: Option<Duration>,
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

#[cfg(unix)]
fn segment_size(socket: &TcpStream) -> Option<usize> {
    let size = socket2::SockRef::from(socket).tcp_mss().ok()?;
    usize::try_from(size).ok()
}

#[cfg(not(unix))]
fn segment_size(_: &TcpStream) -> Option<usize> {
    None
}
