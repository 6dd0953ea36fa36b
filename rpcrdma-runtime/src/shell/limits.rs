use std::time::Duration;

use super::{ClientOptions, DuplicateCache, ServerOptions, TcpClientOptions, TcpOptions, TcpServerOptions};
use crate::proto::rdma::{Config, Limits as MessageLimits};
use crate::proto::rpc::duplicates::DuplicateLimits;
use crate::provider::iwarp;

/// Every bound on what peers and callers can make an end do or hold, in one place.
///
/// The options of clients and servers have them where they belong; this collects them. `Limits::default()` is what the
/// options are by default, `with_limits` of each kind of options puts in those that it has, and `limits` says which are in
/// force. What one connection can hold of a server's memory is about [`Limits::fetched`], one [`MessageLimits::transfer`],
/// and the replies of [`Limits::credits`] calls; over TCP, [`Limits::tcp_calls`] calls and replies of one [`Limits::record`] each,
/// and about two records that arrive or wait. A whole server holds [`Limits::connections`] times that,
/// [`DuplicateLimits::bytes`], and [`DuplicateLimits::running`] for calls whose connection is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// What one message over RDMA may hold: segments, Write chunks, and bytes of Read chunks.
    pub message: MessageLimits,
    /// The longest message that is received whole, and so the longest header, in bytes (default `None`: what the
    /// private data of [`Config`] says, 4,096 unless a binding recommends another).
    pub inline: Option<u32>,
    /// Calls at once on one connection over RDMA (default 64): those that a server takes, those that a client asks for.
    pub credits: u32,
    /// The same for calls in the backward direction (default 16).
    pub backward_credits: u32,
    /// Bytes of Read chunks that a server holds for one connection (default 64 MiB).
    pub fetched: u64,
    /// The largest region that can be registered over iWARP, in bytes (default 1 GiB).
    pub region: u32,
    /// RDMA Reads that an end serves at once over iWARP, 1 to 128 (default 128).
    pub reads_in: u16,
    /// RDMA Reads that an end has outstanding at once over iWARP, 1 to 128 (default 16).
    pub reads_out: u16,
    /// Calls of a client that have not ended, those that wait for a credit or a connection included (default 65,536).
    /// Further ones fail at once.
    pub pending: usize,
    /// Calls of a server in the backward direction on one connection that have not ended, those that wait for their turn
    /// included (default 1,024). Further ones fail at once.
    pub backward_pending: usize,
    /// Connections of a server at once (default 1,024). For a further one the connection that has been idle for the longest time is
    /// closed; without an idle one, it waits to be accepted. No server is bound with 0.
    pub connections: usize,
    /// Connections at once of one IPv4 address, or of one 64-bit prefix of IPv6 (default 256). Further ones are closed.
    pub connections_per_address: usize,
    /// What a server remembers of calls.
    pub duplicates: DuplicateLimits,
    /// The longest record over TCP, in bytes (default 8 MiB and 64 KiB).
    pub record: usize,
    /// Calls at once on one connection over TCP (default 64). Further ones wait.
    pub tcp_calls: usize,
    /// The same for calls in the backward direction (default 16).
    pub tcp_backward_calls: usize,
    /// How long things may take.
    pub times: TimeLimits,
}

/// How long things may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeLimits {
    /// TCP, to connect (default 10 s).
    pub connect: Duration,
    /// A client, to ask for a connection over iWARP once it is there by TCP (default 5 s).
    pub request: Duration,
    /// A server, to answer that (default 10 s).
    pub reply: Duration,
    /// A peer that owes the rest of a message, or takes nothing of what is to be sent (default 30 s).
    pub stall: Duration,
    /// A peer over iWARP, to close its side once this one is closed (default 1 s).
    pub linger: Duration,
    /// A call of a client, from its beginning to its reply (default 60 s).
    pub call: Duration,
    /// A client's connection without calls, until it is closed (default 5 minutes; `None` keeps it).
    pub idle: Option<Duration>,
    /// A server's connection without calls, until it is closed (default 6 minutes; `None` keeps it).
    pub idle_peer: Option<Duration>,
    /// The calls that run when a server is asked to stop (default 10 s).
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        let (client, server) = (ClientOptions::default(), ServerOptions::default());
        let Config { limits: message, credits, backward_credits, fetched, .. } = server.config;
        let (iwarp, tcp) = (server.iwarp, TcpOptions::default());
        Limits {
            message,
            inline: None,
            credits,
            backward_credits,
            fetched,
            region: iwarp.max_region,
            reads_in: iwarp.reads_in,
            reads_out: iwarp.reads_out,
            pending: client.pending,
            backward_pending: server.backward_pending,
            connections: server.connections,
            connections_per_address: server.connections_per_address,
            duplicates: DuplicateLimits::default(),
            record: tcp.max_record,
            tcp_calls: tcp.calls,
            tcp_backward_calls: tcp.backward_calls,
            times: TimeLimits {
                connect: iwarp.connect_timeout,
                request: iwarp.request_timeout,
                reply: iwarp.reply_timeout,
                stall: iwarp.stall_timeout,
                linger: iwarp.linger,
                call: client.timeout,
                idle: client.idle,
                idle_peer: server.idle,
                drain: server.drain,
            },
        }
    }
}

impl Limits {
    fn put_into_config(&self, config: &mut Config) {
        config.limits = self.message;
        (config.credits, config.backward_credits) = (self.credits, self.backward_credits);
        config.fetched = self.fetched;
        if let Some(inline) = self.inline {
            config.private_data.receive_size = inline;
        }
    }

    fn take_from_config(&mut self, config: &Config) {
        let Config { limits: message, credits, backward_credits, fetched, .. } = *config;
        let inline = Some(config.private_data.receive_size);
        *self = Limits { message, credits, backward_credits, fetched, inline, ..*self };
    }

    fn put_into_iwarp(&self, options: &mut iwarp::Options) {
        options.max_region = self.region;
        (options.reads_in, options.reads_out) = (self.reads_in, self.reads_out);
        let TimeLimits { connect, request, reply, stall, linger, .. } = self.times;
        (options.connect_timeout, options.request_timeout, options.reply_timeout) = (connect, request, reply);
        (options.stall_timeout, options.linger) = (stall, linger);
    }

    fn take_from_iwarp(&mut self, options: &iwarp::Options) {
        self.region = options.max_region;
        (self.reads_in, self.reads_out) = (options.reads_in, options.reads_out);
        let times = &mut self.times;
        (times.connect, times.request, times.reply) =
            (options.connect_timeout, options.request_timeout, options.reply_timeout);
        (times.stall, times.linger) = (options.stall_timeout, options.linger);
    }

    fn put_into_tcp(&self, options: &mut TcpOptions) {
        (options.max_record, options.calls) = (self.record, self.tcp_calls);
        options.backward_calls = self.tcp_backward_calls;
        (options.connect_timeout, options.stall_timeout) = (self.times.connect, self.times.stall);
    }

    fn take_from_tcp(&mut self, options: &TcpOptions) {
        (self.record, self.tcp_calls) = (options.max_record, options.calls);
        self.tcp_backward_calls = options.backward_calls;
        (self.times.connect, self.times.stall) = (options.connect_timeout, options.stall_timeout);
    }

    /// The cache stays what it is, so that servers that share one still do, and all of them have these limits.
    fn put_into_cache(&self, cache: Option<&DuplicateCache>) {
        if let Some(cache) = cache {
            cache.limit(self.duplicates);
        }
    }

    fn take_from_cache(&mut self, cache: Option<&DuplicateCache>) {
        if let Some(cache) = cache {
            self.duplicates = cache.options().limits;
        }
    }
}

impl ClientOptions {
    /// The same with these limits, as far as they are a client's.
    #[must_use]
    pub fn with_limits(mut self, limits: &Limits) -> Self {
        limits.put_into_config(&mut self.config);
        limits.put_into_iwarp(&mut self.iwarp);
        (self.timeout, self.idle) = (limits.times.call, limits.times.idle);
        self.pending = limits.pending;
        self
    }

    /// The limits in force. What is not a client's is as by default.
    #[must_use]
    pub fn limits(&self) -> Limits {
        let mut limits = Limits::default();
        limits.take_from_config(&self.config);
        limits.take_from_iwarp(&self.iwarp);
        (limits.times.call, limits.times.idle) = (self.timeout, self.idle);
        limits.pending = self.pending;
        limits
    }
}

impl ServerOptions {
    /// The same with these limits, as far as they are a server's. A duplicate-request cache gets them for all that share it.
    #[must_use]
    pub fn with_limits(mut self, limits: &Limits) -> Self {
        limits.put_into_config(&mut self.config);
        limits.put_into_iwarp(&mut self.iwarp);
        self.connections = limits.connections;
        self.connections_per_address = limits.connections_per_address;
        self.backward_pending = limits.backward_pending;
        (self.drain, self.idle) = (limits.times.drain, limits.times.idle_peer);
        limits.put_into_cache(self.duplicates.as_ref());
        self
    }

    /// The limits in force. What is not a server's is as by default.
    #[must_use]
    pub fn limits(&self) -> Limits {
        let mut limits = Limits::default();
        limits.take_from_config(&self.config);
        limits.take_from_iwarp(&self.iwarp);
        limits.connections = self.connections;
        limits.connections_per_address = self.connections_per_address;
        limits.backward_pending = self.backward_pending;
        (limits.times.drain, limits.times.idle_peer) = (self.drain, self.idle);
        limits.take_from_cache(self.duplicates.as_ref());
        limits
    }
}

impl TcpClientOptions {
    /// The same with these limits, as far as they are those of a client over TCP.
    #[must_use]
    pub fn with_limits(mut self, limits: &Limits) -> Self {
        limits.put_into_tcp(&mut self.tcp);
        (self.timeout, self.pending) = (limits.times.call, limits.pending);
        self
    }

    /// The limits in force. What does not hold for a client over TCP is as by default.
    #[must_use]
    pub fn limits(&self) -> Limits {
        let mut limits = Limits::default();
        limits.take_from_tcp(&self.tcp);
        (limits.times.call, limits.pending) = (self.timeout, self.pending);
        limits
    }
}

impl TcpServerOptions {
    /// The same with these limits, as far as they are those of a server over TCP. A duplicate-request cache gets them for
    /// all that share it.
    #[must_use]
    pub fn with_limits(mut self, limits: &Limits) -> Self {
        limits.put_into_tcp(&mut self.tcp);
        self.connections = limits.connections;
        self.connections_per_address = limits.connections_per_address;
        self.backward_pending = limits.backward_pending;
        (self.drain, self.idle) = (limits.times.drain, limits.times.idle_peer);
        limits.put_into_cache(self.duplicates.as_ref());
        self
    }

    /// The limits in force. What does not hold for a server over TCP is as by default.
    #[must_use]
    pub fn limits(&self) -> Limits {
        let mut limits = Limits::default();
        limits.take_from_tcp(&self.tcp);
        limits.connections = self.connections;
        limits.connections_per_address = self.connections_per_address;
        limits.backward_pending = self.backward_pending;
        (limits.times.drain, limits.times.idle_peer) = (self.drain, self.idle);
        limits.take_from_cache(self.duplicates.as_ref());
        limits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every limit another than by default.
    fn odd() -> Limits {
        let second = Duration::from_secs;
        Limits {
            message: MessageLimits { segments: 1, write_chunks: 2, transfer: 3 },
            inline: Some(2048),
            credits: 4,
            backward_credits: 5,
            fetched: 6,
            region: 7,
            reads_in: 8,
            reads_out: 9,
            pending: 10,
            connections: 11,
            connections_per_address: 12,
            duplicates: DuplicateLimits {
                entries: 13,
                running: 26,
                bytes: 14,
                reply: 15,
                lifetime: second(16),
            },
            record: 17,
            tcp_calls: 18,
            tcp_backward_calls: 27,
            backward_pending: 28,
            times: TimeLimits {
                connect: second(19),
                request: second(20),
                reply: second(21),
                stall: second(22),
                linger: second(23),
                call: second(24),
                idle: None,
                idle_peer: Some(second(29)),
                drain: second(25),
            },
        }
    }

    #[test]
    fn what_is_put_in_is_in_force_and_each_limit_is_somebodys() {
        let (odd, default) = (odd(), Limits::default());
        let client = ClientOptions::default().with_limits(&odd).limits();
        let server = ServerOptions::default().with_limits(&odd).limits();
        let TimeLimits { drain, call, idle, idle_peer, .. } = default.times;
        let Limits { record, tcp_calls, tcp_backward_calls, .. } = default;
        let others = Limits { record, tcp_calls, tcp_backward_calls, ..odd };
        assert_eq!(
            server,
            Limits { pending: default.pending, times: TimeLimits { call, idle, ..odd.times }, ..others }
        );
        assert_eq!(
            client,
            Limits {
                backward_pending: default.backward_pending,
                connections: default.connections,
                connections_per_address: default.connections_per_address,
                duplicates: default.duplicates,
                times: TimeLimits { drain, idle_peer, ..odd.times },
                ..others
            }
        );
        let by_tcp = TcpServerOptions::default().with_limits(&odd).limits();
        assert_eq!((by_tcp.record, by_tcp.tcp_calls, by_tcp.times.stall), (17, 18, odd.times.stall));
        assert_eq!((by_tcp.tcp_backward_calls, by_tcp.backward_pending), (27, 28));
        assert_eq!((by_tcp.connections, by_tcp.connections_per_address), (11, 12));
        assert_eq!((by_tcp.duplicates, by_tcp.times.drain), (odd.duplicates, odd.times.drain));
        let by_tcp = TcpClientOptions::default().with_limits(&odd).limits();
        assert_eq!((by_tcp.record, by_tcp.tcp_calls, by_tcp.times.call), (17, 18, odd.times.call));
        assert_eq!((by_tcp.tcp_backward_calls, by_tcp.pending), (27, odd.pending));
    }

    #[test]
    fn servers_that_share_a_cache_share_it_with_limits_too() {
        let cache = DuplicateCache::default();
        let shared = || Some(cache.clone());
        let rdma = ServerOptions { duplicates: shared(), ..ServerOptions::default() }.with_limits(&odd());
        let tcp =
            TcpServerOptions { duplicates: shared(), ..TcpServerOptions::default() }.with_limits(&odd());
        assert_eq!(cache.options().limits, odd().duplicates);
        let fewer = DuplicateLimits { entries: 1, ..odd().duplicates };
        cache.limit(fewer);
        assert_eq!((rdma.limits().duplicates, tcp.limits().duplicates), (fewer, fewer));
    }

    #[test]
    fn the_defaults_are_those_of_the_options() {
        let limits = Limits::default();
        let server = ServerOptions::default();
        let again = server.clone().with_limits(&limits);
        assert_eq!(server.limits(), again.limits());
        assert_eq!(server.limits().inline, Some(Config::INLINE));
        assert_eq!(Limits { inline: None, ..ClientOptions::default().limits() }, limits);
        assert_eq!(TcpClientOptions::default().limits(), limits);
        assert_eq!(TcpServerOptions::default().limits(), limits);
    }
}
