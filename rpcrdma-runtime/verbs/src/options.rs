use std::time::Duration;

use super::objects::Capabilities;

/// Whether memory that is advertised by who connects has windows of its own (type 2), which the server may invalidate (the R
/// flag, RFC 8797 section 4.1). Else the memory has a region, which this end destroys when a call is over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MemoryWindows {
    /// Where the device has them, but not on Linux's software RoCE, rxe: there a server that invalidates a window twice
    /// brings down the kernel of this end (Linux 6.1 and 6.12 have no check for that).
    #[default]
    Auto,
    /// Wherever the device has them, for servers that are trusted.
    Always,
    /// Nowhere.
    Never,
}

impl MemoryWindows {
    pub(super) fn are_used(self, device: &Capabilities) -> bool {
        match self {
            MemoryWindows::Auto => device.windows && device.invalidates && !device.rxe,
            MemoryWindows::Always => device.windows && device.invalidates,
            MemoryWindows::Never => false,
        }
    }
}

/// What a verbs end is set to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Receives that are posted before the peer can send its first message (default 96). What is asked for with
    /// [`Action::PostReceives`](rpcrdma_runtime::proto::work::Action::PostReceives) is posted beyond these. A peer that sends before
    /// there is a Receive may lose the connection, so it is to be at least as many as will be granted at first: a connector
    /// and an acceptor see to that.
    pub receives: u32,
    /// The most Receives that are posted at a time (default 1,024), if the device has so many.
    pub max_receives: u32,
    /// The most Sends, RDMA Reads and RDMA Writes that the device has at a time (default 256), if it can have so many;
    /// others wait.
    pub max_sends: u32,
    /// The longest message that is handed to the device together with its work request (inline, `IBV_SEND_INLINE`), in octets
    /// (default 256); 0 has none go so. Where the device takes less, it is as much as that takes; on iWARP none goes so.
    pub inline: u32,
    /// How long a connection on which something has just happened looks for more again and again, before it asks to be woken
    /// (default zero: at once). That takes a processor's time, which other tasks have in turns with it, and saves the way
    /// through the kernel.
    pub spin: Duration,
    /// Memory windows (default [`MemoryWindows::Auto`]).
    pub windows: MemoryWindows,
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
            inline: 256,
            spin: Duration::ZERO,
            windows: MemoryWindows::Auto,
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

impl Options {
    /// With at least so many Receives.
    pub(crate) fn with_receives(self, receives: u32) -> Self {
        Options { receives: self.receives.max(receives), ..self }
    }
}

/// Work that a queue pair has at a time. Its completion queue has an entry for each of them, or it would overflow.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Room {
    pub(super) sends: u32,
    pub(super) receives: u32,
}

impl Room {
    /// What is asked for, as far as the device has it.
    pub(super) fn of(options: &Options, device: &Capabilities) -> Self {
        let (work, entries) = (device.work.max(1), device.completions.max(2));
        let sends = options.max_sends.clamp(1, work).min(entries / 2);
        let receives = options.max_receives.max(options.receives).clamp(1, work).min(entries - sends);
        Room { sends, receives }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(work: u32, completions: u32) -> Capabilities {
        Capabilities {
            work,
            completions,
            pieces: 1,
            region: 1,
            message: 1,
            reads_in: 1,
            reads_out: 1,
            iwarp: false,
            infiniband: true,
            ports: 1,
            gids: 1,
            active: true,
            invalidates: false,
            windows: false,
            rxe: false,
        }
    }

    #[test]
    fn windows_are_used_where_there_are_any_and_nobody_is_harmed() {
        let none = device(1, 2);
        let card = Capabilities { windows: true, invalidates: true, ..none };
        let rxe = Capabilities { rxe: true, ..card };
        let used = |windows: MemoryWindows| [none, card, rxe].map(|device| windows.are_used(&device));
        assert_eq!(used(MemoryWindows::Auto), [false, true, false]);
        assert_eq!(used(MemoryWindows::Always), [false, true, true]);
        assert_eq!(used(MemoryWindows::Never), [false; 3]);
    }

    #[test]
    fn no_more_work_than_the_device_has_and_its_completions_have_room_for() {
        let options = Options { max_sends: 256, max_receives: 1024, receives: 96, ..Options::default() };
        let room = |work, completions| Room::of(&options, &device(work, completions));
        assert_eq!(room(16_384, 4_000_000), Room { sends: 256, receives: 1024 });
        assert_eq!(room(100, 4_000_000), Room { sends: 100, receives: 100 });
        assert_eq!(room(16_384, 600), Room { sends: 256, receives: 344 });
        assert_eq!(room(16_384, 100), Room { sends: 50, receives: 50 });
        assert_eq!(room(0, 0), Room { sends: 1, receives: 1 });
        let many = Options { receives: 5000, ..options };
        assert_eq!(Room::of(&many, &device(16_384, 4_000_000)), Room { sends: 256, receives: 5000 });
    }
}
