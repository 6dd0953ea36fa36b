use std::time::Duration;

use super::objects::Capabilities;

/// Whether a client advertises memory through type 2 memory windows, which the server may invalidate (R flag,
/// RFC 8797 section 4.1). Without a window, the client advertises a memory region and deregisters it at the
/// end of the call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MemoryWindows {
    /// Uses windows if the device supports windows and Send with Invalidate, except on rxe (Linux's software
    /// RoCE). A server that invalidates a window twice can crash the kernel of an rxe client (seen on Linux
    /// 6.1 and 6.12).
    #[default]
    Auto,
    /// Like `Auto`, but also uses windows on rxe. On rxe, choose `Always` only if the servers are trusted.
    Always,
    /// Never uses windows.
    Never,
}

impl MemoryWindows {
    pub(super) fn apply_to(self, device: &Capabilities) -> bool {
        match self {
            MemoryWindows::Auto => device.windows && device.send_with_invalidate && !device.rxe,
            MemoryWindows::Always => device.windows && device.send_with_invalidate,
            MemoryWindows::Never => false,
        }
    }
}

/// Options of a connection or listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VerbsOptions {
    /// Number of Receives posted before the peer can send its first message (default 96).
    ///
    /// These Receives count toward the Receives requested with
    /// [`Action::PostReceives`](rpcrdma_runtime::proto::work::Action::PostReceives). The number must be at
    /// least the first credit grant, because a message without a posted Receive may close the connection.
    /// Connectors and acceptors raise the number accordingly.
    pub receives: u32,
    /// The maximum number of posted Receives (default 1,024). A value below [`VerbsOptions::receives`] is
    /// raised to that number. The device may impose a lower limit.
    pub max_receives: u32,
    /// The maximum number of posted work requests other than Receives: Sends, RDMA Reads, RDMA Writes, and
    /// binds and invalidations of memory windows (default 256). The device may impose a lower limit. Further
    /// work is queued.
    pub max_sends: u32,
    /// The longest Send or RDMA Write with inline data (`IBV_SEND_INLINE`), in octets (default 256). 0
    /// disables inline data. The device may impose a lower limit. On iWARP, no data is sent inline.
    pub inline: u32,
    /// How long an idle connection polls the device before it waits for an event (default zero).
    ///
    /// Polling saves system calls but uses processor time.
    pub spin: Duration,
    /// When to use memory windows (default [`MemoryWindows::Auto`]).
    pub windows: MemoryWindows,
    /// The maximum number of concurrent RDMA Reads that the peer may issue (IRD, responder resources; default
    /// 128). The device may impose a lower limit.
    pub ird: u8,
    /// The maximum number of outstanding RDMA Reads (ORD, initiator depth; default 16). The device and the
    /// peer may impose lower limits.
    pub ord: u8,
    /// The minimum rate at which the Sends, RDMA Writes and RDMA Reads of a server must complete, in octets
    /// per second (default 64 KiB). The actual rate is averaged over at least 10 s. A server closes the
    /// connection of a slower client. The server also closes a connection if its oldest outstanding work
    /// takes 30 s longer than it would at the minimum rate. With 0, any rate is allowed.
    pub min_rate: u64,
    /// The maximum size of an advertised region, in octets (default 1 GiB). The device and the port may
    /// impose lower limits.
    pub max_region: u32,
    /// The timeout for connecting: resolving the address, resolving the route and the handshake together
    /// (default 10 s). This timeout also limits [`VerbsRequest::accept`](crate::VerbsRequest::accept).
    pub connect_timeout: Duration,
    /// Maximum number of retransmissions of an unacknowledged message, 0 to 7 (default 7). Only for
    /// InfiniBand and RoCE.
    pub retries: u8,
    /// Maximum number of retransmissions if the peer has no posted Receive, 0 to 6 (default 6); 7 means
    /// unlimited. Only for InfiniBand and RoCE.
    pub receiver_not_ready_retries: u8,
    /// The time without a completion after which a connection checks that its peer is alive (default 60 s).
    /// `None` disables the checks, and a dead peer is then detected only while posted work is incomplete. A
    /// check is an empty RDMA Write. The RDMA Write fails when retransmission ends: on InfiniBand and RoCE
    /// after [`VerbsOptions::retries`] retransmissions, and on iWARP when TCP gives up.
    ///
    /// A dead peer is therefore detected within twice this time, plus the time of the retransmissions. The
    /// retransmissions usually take less than 20 s on RoCE. On siw, they take about 15 minutes by default
    /// (`net.ipv4.tcp_retries2`).
    pub keepalive: Option<Duration>,
    /// How long a local close waits for queued and posted work to complete (default 30 s).
    pub flush_timeout: Duration,
    /// How long a local close waits for the peer's response (default 1 s).
    pub linger: Duration,
    #[doc(hidden)]
    pub non_exhaustive: (),
}

impl Default for VerbsOptions {
    fn default() -> Self {
        VerbsOptions {
            receives: 96,
            max_receives: 1024,
            max_sends: 256,
            inline: 256,
            spin: Duration::ZERO,
            windows: MemoryWindows::Auto,
            ird: 128,
            ord: 16,
            min_rate: 64 << 10,
            max_region: 1 << 30,
            connect_timeout: Duration::from_secs(10),
            retries: 7,
            receiver_not_ready_retries: 6,
            keepalive: Some(Duration::from_secs(60)),
            flush_timeout: Duration::from_secs(30),
            linger: Duration::from_secs(1),
            non_exhaustive: (),
        }
    }
}

impl VerbsOptions {
    /// Raises [`VerbsOptions::receives`] to at least `receives`.
    pub(crate) fn with_receives(self, receives: u32) -> Self {
        VerbsOptions { receives: self.receives.max(receives), ..self }
    }
}

/// The capacities of the send queue and the receive queue, in work requests. The completion queue has an
/// entry for each of these work requests, so it cannot overflow.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Capacity {
    pub(super) sends: u32,
    pub(super) receives: u32,
}

impl Capacity {
    /// Returns the requested capacity, reduced to the device's limits.
    pub(super) fn of(options: &VerbsOptions, device: &Capabilities) -> Self {
        let (work, entries) = (device.max_work_requests.max(1), device.max_completions.max(2));
        let sends = options.max_sends.clamp(1, work).min(entries / 2);
        let receives = options.max_receives.max(options.receives).clamp(1, work).min(entries - sends);
        Capacity { sends, receives }
    }
}

#[cfg(test)]
mod tests {
    use rpcrdma_runtime::Config;
    use rpcrdma_runtime::provider::LocalParameters;

    use super::*;

    fn device(work: u32, completions: u32) -> Capabilities {
        Capabilities {
            max_work_requests: work,
            max_completions: completions,
            max_sges: 1,
            max_region: 1,
            max_message: 1,
            ird: 1,
            ord: 1,
            iwarp: false,
            infiniband: true,
            ports: 1,
            gids: 1,
            active: true,
            send_with_invalidate: false,
            windows: false,
            rxe: false,
        }
    }

    #[test]
    fn windows_are_used_if_supported_except_on_rxe() {
        let none = device(1, 2);
        let card = Capabilities { windows: true, send_with_invalidate: true, ..none };
        let rxe = Capabilities { rxe: true, ..card };
        let used = |windows: MemoryWindows| [none, card, rxe].map(|device| windows.apply_to(&device));
        assert_eq!(used(MemoryWindows::Auto), [false, true, false]);
        assert_eq!(used(MemoryWindows::Always), [false, true, true]);
        assert_eq!(used(MemoryWindows::Never), [false; 3]);
    }

    #[test]
    fn the_default_minimum_rate_is_64_kib_per_second() {
        assert_eq!(VerbsOptions::default().min_rate, 65_536);
    }

    #[test]
    fn by_default_96_receives_of_4_kib_suffice_for_all_credits() {
        let local = LocalParameters::new(&Config::default());
        assert_eq!((local.receives, local.receive_size), (64 + 16 + 2, 4096));
        assert_eq!(VerbsOptions::default().with_receives(local.receives).receives, 96);
    }

    #[test]
    fn capacity_respects_the_limits_on_work_requests_and_completions() {
        let options =
            VerbsOptions { max_sends: 256, max_receives: 1024, receives: 96, ..VerbsOptions::default() };
        let capacity = |work, completions| Capacity::of(&options, &device(work, completions));
        assert_eq!(capacity(16_384, 4_000_000), Capacity { sends: 256, receives: 1024 });
        assert_eq!(capacity(100, 4_000_000), Capacity { sends: 100, receives: 100 });
        assert_eq!(capacity(16_384, 600), Capacity { sends: 256, receives: 344 });
        assert_eq!(capacity(16_384, 100), Capacity { sends: 50, receives: 50 });
        assert_eq!(capacity(0, 0), Capacity { sends: 1, receives: 1 });
        let many = VerbsOptions { receives: 5000, ..options };
        assert_eq!(Capacity::of(&many, &device(16_384, 4_000_000)), Capacity { sends: 256, receives: 5000 });
    }
}
