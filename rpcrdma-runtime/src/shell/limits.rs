use std::time::Duration;

use super::{
    ClientOptions, DuplicateCache, MemoryBudget, ServerOptions, TcpClientOptions, TcpOptions,
    TcpServerOptions,
};
use crate::proto::rdma::{Config, MessageLimits};
use crate::proto::rpc::duplicates::DuplicateLimits;
use crate::provider::iwarp;

/// Limits on the memory, calls and time that peers and callers can use.
///
/// `Limits::default()` returns the defaults of all options. Each options type has two methods: `with_limits`
/// applies the limits that concern the type, and `limits` returns the limits in force. RDMA devices have
/// their own options, `rpcrdma_verbs::VerbsOptions`.
///
/// A server with any number of connections uses about [`Limits::max_memory`] for calls and replies, and
/// [`DuplicateLimits::max_bytes`] for cached replies. A connection over RDMA stores at most
/// [`Limits::max_fetched`] bytes of Read chunks, unless a single call needs more. A connection over TCP runs
/// at most [`Limits::max_tcp_calls`] calls at a time, of at most [`Limits::max_record`] bytes each.
///
/// ```
/// use rpcrdma_runtime::{Limits, ServerOptions, TcpServerOptions};
///
/// let limits = Limits { max_connections_per_address: 4, max_memory: 16 << 20, ..Limits::default() };
/// let rdma = ServerOptions::default().with_limits(&limits);
/// let tcp = TcpServerOptions::default().with_limits(&limits);
/// assert_eq!((rdma.max_connections_per_address, tcp.max_connections_per_address), (4, 4));
/// assert_eq!(rdma.memory.max(), 16 << 20);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Limits of one message over RDMA: segments, Write chunks, and bytes of Read chunks.
    pub message: MessageLimits,
    /// The inline threshold for receiving: the maximum length of a received Send, including the transport
    /// header, in bytes. With `None` (default), [`Config::private_data`] sets the threshold: 4,096 unless a
    /// binding recommends another size.
    pub inline: Option<u32>,
    /// Credits of one connection over RDMA (default 64): granted by a server, requested by a client.
    pub credits: u32,
    /// Credits for calls in the backward direction (default 16).
    pub backward_credits: u32,
    /// Maximum total size of the Read chunks that a server stores for one connection, in bytes (default
    /// 64 MiB).
    pub max_fetched: u64,
    /// The largest region that can be registered over iWARP, in bytes (default 1 GiB).
    pub max_region: u32,
    /// Maximum number of the peer's RDMA Reads to serve at once over iWARP, 1 to 128 (default 128).
    pub ird: u16,
    /// Maximum number of outstanding local RDMA Reads over iWARP, 1 to 128 (default 16).
    pub ord: u16,
    /// Maximum number of a client's queued and outstanding calls (default 65,536). Further calls fail
    /// immediately.
    pub max_outstanding_calls: usize,
    /// Maximum number of a server's queued and outstanding backward calls on one connection (default
    /// 1,024). Further calls fail immediately.
    pub max_backward_calls: usize,
    /// Maximum number of a server's connections (default 1,024). [`ServerOptions::idle`] describes how a
    /// server handles further connections. With a limit of 0, a server fails to bind.
    pub max_connections: usize,
    /// Maximum number of connections from one IPv4 address or one 64-bit IPv6 prefix (default 256). Further
    /// connections are closed.
    pub max_connections_per_address: usize,
    /// Limit of a [`MemoryBudget`] in bytes, for all connections of the servers that share the budget
    /// (default 48 MiB).
    pub max_memory: u64,
    /// Minimum rate at which a client must accept output or send expected data, in bytes per second (default
    /// 64 KiB; 0 disables the check). The rate is averaged over at least 10 s.
    pub min_rate: u64,
    /// Limits of a server's duplicate-request cache.
    pub duplicates: DuplicateLimits,
    /// Maximum length of a record over TCP, in bytes (default 8 MiB + 64 KiB). [`TcpOptions::max_record`]
    /// describes how servers and clients raise the default.
    pub max_record: usize,
    /// Maximum number of concurrent calls on one connection over TCP (default 64). Further calls wait.
    pub max_tcp_calls: usize,
    /// Maximum number of concurrent backward calls on one connection over TCP (default 16). Further calls
    /// wait.
    pub max_tcp_backward_calls: usize,
    /// Time limits.
    pub times: TimeLimits,
    #[doc(hidden)]
    pub non_exhaustive: (),
}

/// Time limits of connections and calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeLimits {
    /// How long connecting over TCP may take (default 10 s).
    pub connect: Duration,
    /// How long a client may take to send its MPA request once TCP is connected (default 5 s).
    pub request: Duration,
    /// How long a server may take to send the MPA reply (default 10 s).
    pub reply: Duration,
    /// How long a peer may stall in the middle of a message, or accept no output (default 30 s).
    pub stall: Duration,
    /// How long to wait for an iWARP peer to close the connection after a local close (default 1 s).
    pub linger: Duration,
    /// How long a client's call may take, from its start to its reply (default 60 s).
    pub call: Duration,
    /// How long a client keeps a connection without calls (default 5 minutes; with `None`, indefinitely).
    pub idle: Option<Duration>,
    /// How long a server keeps a connection without calls (default 6 minutes; with `None`, indefinitely).
    pub idle_peer: Option<Duration>,
    /// How long a stopping server waits for running calls (default 10 s). Calls that the duplicate-request
    /// cache tracks continue after this time.
    pub drain: Duration,
    #[doc(hidden)]
    pub non_exhaustive: (),
}

impl Default for Limits {
    fn default() -> Self {
        let (client, server) = (ClientOptions::default(), ServerOptions::default());
        let Config { limits: message, credits, backward_credits, max_fetched, .. } = server.config;
        let (iwarp, tcp) = (server.iwarp, TcpOptions::default());
        Limits {
            message,
            inline: None,
            credits,
            backward_credits,
            max_fetched,
            max_region: iwarp.max_region,
            ird: iwarp.ird,
            ord: iwarp.ord,
            max_outstanding_calls: client.max_outstanding_calls,
            max_backward_calls: server.max_backward_calls,
            max_connections: server.max_connections,
            max_connections_per_address: server.max_connections_per_address,
            max_memory: server.memory.max(),
            min_rate: tcp.min_rate,
            duplicates: DuplicateLimits::default(),
            max_record: tcp.max_record,
            max_tcp_calls: tcp.max_concurrent_calls,
            max_tcp_backward_calls: tcp.max_concurrent_backward_calls,
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
                non_exhaustive: (),
            },
            non_exhaustive: (),
        }
    }
}

/// Defines methods that copy limits to fields of options and back.
macro_rules! copied {
    ($put:ident, $take:ident, $options:ty: $($($limit:ident).+ => $($field:ident).+),+ $(,)?) => {
        fn $put(&self, options: &mut $options) {
            $(options.$($field).+ = self.$($limit).+;)+
        }

        fn $take(&mut self, options: &$options) {
            $(self.$($limit).+ = options.$($field).+;)+
        }
    };
}

impl Limits {
    fn put_into_config(&self, config: &mut Config) {
        self.put_into_messages(config);
        if let Some(inline) = self.inline {
            config.private_data.receive_size = inline;
        }
    }

    fn take_from_config(&mut self, config: &Config) {
        self.take_from_messages(config);
        self.inline = Some(config.private_data.receive_size);
    }

    copied!(put_into_messages, take_from_messages, Config:
        message => limits,
        credits => credits,
        backward_credits => backward_credits,
        max_fetched => max_fetched,
    );

    copied!(put_into_iwarp, take_from_iwarp, iwarp::IwarpOptions:
        max_region => max_region,
        min_rate => min_rate,
        ird => ird,
        ord => ord,
        times.connect => connect_timeout,
        times.request => request_timeout,
        times.reply => reply_timeout,
        times.stall => stall_timeout,
        times.linger => linger,
    );

    copied!(put_into_tcp, take_from_tcp, TcpOptions:
        max_record => max_record,
        max_tcp_calls => max_concurrent_calls,
        max_tcp_backward_calls => max_concurrent_backward_calls,
        min_rate => min_rate,
        times.connect => connect_timeout,
        times.stall => stall_timeout,
    );

    /// Applies the limits to the existing cache and budget, which other servers may share.
    fn put_into_shared(&self, cache: Option<&DuplicateCache>, memory: &MemoryBudget) {
        if let Some(cache) = cache {
            cache.set_limits(self.duplicates);
        }
        memory.set_max(self.max_memory);
    }

    fn take_from_shared(&mut self, cache: Option<&DuplicateCache>, memory: &MemoryBudget) {
        if let Some(cache) = cache {
            self.duplicates = cache.options().limits;
        }
        self.max_memory = memory.max();
    }
}

/// Defines `with_limits` and `limits`. `$put` and `$take` copy the limits of `$part`.
macro_rules! limited {
    ($options:ident, $what:literal:
        $($part:ident($put:ident, $take:ident)),+;
        $($($limit:ident).+ => $field:ident),+
        $(; $cache:ident, $memory:ident)?
    ) => {
        impl $options {
            #[doc = concat!("Applies the limits that concern ", $what, ".")]
            $(#[doc = concat!(
                "The limits of [`Self::", stringify!($cache), "`] and [`Self::", stringify!($memory), "`] then \
                 apply to all servers that share the cache or the budget."
            )])?
            #[must_use]
            pub fn with_limits(mut self, limits: &Limits) -> Self {
                $(limits.$put(&mut self.$part);)+
                $(self.$field = limits.$($limit).+;)+
                $(limits.put_into_shared(self.$cache.as_ref(), &self.$memory);)?
                self
            }

            /// Returns the limits in force.
            #[doc = concat!("Limits that do not concern ", $what, " have their defaults.")]
            #[must_use]
            pub fn limits(&self) -> Limits {
                let mut limits = Limits::default();
                $(limits.$take(&self.$part);)+
                $(limits.$($limit).+ = self.$field;)+
                $(limits.take_from_shared(self.$cache.as_ref(), &self.$memory);)?
                limits
            }
        }
    };
}

limited!(ClientOptions, "a client":
    config(put_into_config, take_from_config), iwarp(put_into_iwarp, take_from_iwarp);
    times.call => timeout, times.idle => idle, max_outstanding_calls => max_outstanding_calls
);
limited!(TcpClientOptions, "a client over TCP": tcp(put_into_tcp, take_from_tcp);
    times.call => timeout, times.idle => idle, max_outstanding_calls => max_outstanding_calls
);
limited!(ServerOptions, "a server":
    config(put_into_config, take_from_config), iwarp(put_into_iwarp, take_from_iwarp);
    max_connections => max_connections, max_connections_per_address => max_connections_per_address,
    max_backward_calls => max_backward_calls, times.drain => drain, times.idle_peer => idle;
    duplicates, memory
);
limited!(TcpServerOptions, "a server over TCP": tcp(put_into_tcp, take_from_tcp);
    max_connections => max_connections, max_connections_per_address => max_connections_per_address,
    max_backward_calls => max_backward_calls, times.drain => drain, times.idle_peer => idle;
    duplicates, memory
);

#[cfg(test)]
mod tests {
    use super::*;

    fn non_default() -> Limits {
        let second = Duration::from_secs;
        Limits {
            message: MessageLimits {
                max_segments: 1,
                max_write_chunks: 2,
                max_transfer: 3,
                non_exhaustive: (),
            },
            inline: Some(2048),
            credits: 4,
            backward_credits: 5,
            max_fetched: 6,
            max_region: 7,
            ird: 8,
            ord: 9,
            max_outstanding_calls: 10,
            max_connections: 11,
            max_connections_per_address: 12,
            max_memory: 30,
            min_rate: 31,
            duplicates: DuplicateLimits {
                max_entries: 13,
                max_running: 26,
                max_bytes: 14,
                max_reply: 15,
                lifetime: second(16),
                non_exhaustive: (),
            },
            max_record: 17,
            max_tcp_calls: 18,
            max_tcp_backward_calls: 27,
            max_backward_calls: 28,
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
                non_exhaustive: (),
            },
            non_exhaustive: (),
        }
    }

    #[test]
    fn each_options_type_stores_its_limits() {
        let (odd, default) = (non_default(), Limits::default());
        let client = ClientOptions::default().with_limits(&odd).limits();
        let server = ServerOptions::default().with_limits(&odd).limits();
        let TimeLimits { drain, call, idle, idle_peer, .. } = default.times;
        let Limits { max_record, max_tcp_calls, max_tcp_backward_calls, .. } = default;
        let others = Limits { max_record, max_tcp_calls, max_tcp_backward_calls, ..odd };
        assert_eq!(
            server,
            Limits {
                max_outstanding_calls: default.max_outstanding_calls,
                times: TimeLimits { call, idle, ..odd.times },
                ..others
            }
        );
        assert_eq!(
            client,
            Limits {
                max_backward_calls: default.max_backward_calls,
                max_connections: default.max_connections,
                max_connections_per_address: default.max_connections_per_address,
                max_memory: default.max_memory,
                duplicates: default.duplicates,
                times: TimeLimits { drain, idle_peer, ..odd.times },
                ..others
            }
        );
        let TimeLimits { connect, stall, .. } = odd.times;
        let Limits { max_record, max_tcp_calls, max_tcp_backward_calls, min_rate, .. } = odd;
        let over_tcp = Limits { max_record, max_tcp_calls, max_tcp_backward_calls, min_rate, ..default };
        let Limits { max_backward_calls, max_connections, max_connections_per_address, .. } = odd;
        let TimeLimits { drain, call, idle, idle_peer, .. } = odd.times;
        assert_eq!(
            TcpServerOptions::default().with_limits(&odd).limits(),
            Limits {
                max_backward_calls,
                max_connections,
                max_connections_per_address,
                max_memory: odd.max_memory,
                duplicates: odd.duplicates,
                times: TimeLimits { connect, stall, drain, idle_peer, ..default.times },
                ..over_tcp
            }
        );
        assert_eq!(
            TcpClientOptions::default().with_limits(&odd).limits(),
            Limits {
                max_outstanding_calls: odd.max_outstanding_calls,
                times: TimeLimits { connect, stall, call, idle, ..default.times },
                ..over_tcp
            }
        );
    }

    #[test]
    fn servers_that_share_a_cache_share_its_limits() {
        let cache = DuplicateCache::default();
        let shared = || Some(cache.clone());
        let rdma =
            ServerOptions { duplicates: shared(), ..ServerOptions::default() }.with_limits(&non_default());
        let tcp = TcpServerOptions { duplicates: shared(), ..TcpServerOptions::default() }
            .with_limits(&non_default());
        assert_eq!(cache.options().limits, non_default().duplicates);
        let fewer = DuplicateLimits { max_entries: 1, ..non_default().duplicates };
        cache.set_limits(fewer);
        assert_eq!((rdma.limits().duplicates, tcp.limits().duplicates), (fewer, fewer));
    }

    #[test]
    fn the_defaults_are_those_of_the_options() {
        let limits = Limits::default();
        let server = ServerOptions::default();
        let applied = server.clone().with_limits(&limits);
        assert_eq!(server.limits(), applied.limits());
        assert_eq!(server.limits().inline, Some(Config::INLINE));
        assert_eq!(Limits { inline: None, ..ClientOptions::default().limits() }, limits);
        assert_eq!(TcpClientOptions::default().limits(), limits);
        assert_eq!(TcpServerOptions::default().limits(), limits);
    }
}
