use std::time::Duration;

/// What a verbs end is set to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Receives that are posted before the peer can send its first message (default 96). What is asked for with
    /// [`Action::PostReceives`](crate::proto::work::Action::PostReceives) is posted beyond these. A peer that sends before there is a Receive may lose the connection, so it
    /// is to be at least as many as will be granted at first.
    pub receives: u32,
    /// The most Receives that are posted at a time (default 1,024), if the device has so many.
    pub max_receives: u32,
    /// The most Sends, RDMA Reads and RDMA Writes that the device has at a time (default 256), if it can have so many;
    /// others wait.
    pub max_sends: u32,
    /// RDMA Reads that are served at once (responder resources, default 128), if the device serves so many.
    pub reads_in: u8,
    /// RDMA Reads that are outstanding at once (initiator depth, default 16), if the device and the peer have so many.
    pub reads_out: u8,
    /// The largest region that is registered, in octets (default 1 GiB), if the device and its port take so much.
    pub max_region: u32,
    /// How long resolving the address, finding the route and being answered may take together (default 10 s). As long
    /// may the last step take at the end that accepts.
    pub connect_timeout: Duration,
    /// How often a message is sent again that is not acknowledged, 0 to 7 (default 7). For InfiniBand and RoCE.
    pub retries: u8,
    /// How often a message is sent again for which the peer has no Receive, 0 to 6, or 7 for ever (default 6). For
    /// InfiniBand and RoCE.
    pub receiver_not_ready_retries: u8,
    /// How long what was asked for before the end may take to leave (default 30 s).
    pub flush_timeout: Duration,
    /// How long the peer may take to answer the end of the connection (default 1 s).
    pub linger: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            receives: 96,
            max_receives: 1024,
            max_sends: 256,
            reads_in: 128,
            reads_out: 16,
            max_region: 1 << 30,
            connect_timeout: Duration::from_secs(10),
            retries: 7,
            receiver_not_ready_retries: 6,
            flush_timeout: Duration::from_secs(30),
            linger: Duration::from_secs(1),
        }
    }
}
