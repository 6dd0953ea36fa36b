use std::time::Duration;

/// What this end of iWARP connections is set to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Ask for CRCs (default true). A responder has them whenever the initiator asks (RFC 5044 section 7.1).
    pub crc: bool,
    /// RDMA Reads to take at once (IRD, default 128, at most 16,382). Linux's NFS server refuses 0.
    pub reads_in: u16,
    /// RDMA Reads to make at once (ORD, default 16, at most 16,382).
    pub reads_out: u16,
    /// The largest FPDU to send, in bytes; by default what the connection's TCP segments hold, which hardware
    /// wants. At most 65,535.
    pub max_fpdu: Option<u16>,
    /// How long an initiator waits for TCP and for the reply (default 10 s).
    pub connect_timeout: Duration,
    /// How long a responder waits for the whole request (default 5 s).
    pub request_timeout: Duration,
    /// How long a peer may leave a message half sent, or take nothing of what is sent to it (default 30 s).
    pub stall_timeout: Duration,
    /// As an initiator, wake a peer that stays silent after the first Send (default true). Linux's siw can leave an
    /// FPDU unread that arrives within milliseconds of its MPA reply, until another segment comes.
    pub nudge: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            crc: true,
            reads_in: 128,
            reads_out: 16,
            max_fpdu: None,
            connect_timeout: Duration::from_secs(10),
            request_timeout: Duration::from_secs(5),
            stall_timeout: Duration::from_secs(30),
            nudge: true,
        }
    }
}
