use crate::proto::program::Binding;
use crate::wire::private_data::PrivateData;
use crate::wire::rdma::Limits;

/// How a call travels that does not fit inline even when its items are in Read chunks (RFC 8166 section 3.5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LongCall {
    /// Whole, in a Position-Zero Read chunk. Every known responder takes it.
    #[default]
    Whole,
    /// The reduced stream in a Position-Zero Read chunk, the items in Read chunks of their own beside it; whole, if
    /// there are so many items that the chunks do not fit into the header. Linux's server (6.1 to 6.12) answers it
    /// with GARBAGE_ARGS.
    Reduced,
}

/// What one end of a connection is set to.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Credits to ask for (requester), or to grant (responder); at least 1 (default 64).
    pub credits: u32,
    /// Credits of the backward direction (RFC 8167): to grant where it is served (client), to ask for where it calls
    /// (server); at least 1 (default 16).
    pub backward_credits: u32,
    /// What to say of this end when connecting. Its sizes are those of this end's Sends and Receives.
    pub private_data: PrivateData,
    /// The largest segment of a chunk, in bytes; a longer chunk gets several (default: as large as a provider takes).
    pub max_segment: u32,
    /// How calls travel that are too long.
    pub long_call: LongCall,
    /// Bounds on the peer's messages.
    pub limits: Limits,
    /// Bytes of Read chunks that a responder holds at a time for the calls of one connection, from the first RDMA Read until
    /// the reply (default 64 MiB). Calls beyond wait; one alone may hold more, up to [`Limits::transfer`].
    pub fetched: u64,
}

impl Config {
    /// The inline size that is asked for by default: Linux's (RFC 8797 has no recommendation).
    pub const INLINE: u32 = 4096;

    /// The default, with the inline threshold that the program's binding recommends, if it does.
    #[must_use]
    pub fn of<P: Binding>() -> Self {
        let inline = P::INLINE_THRESHOLD.unwrap_or(Config::INLINE);
        Config { private_data: PrivateData::new(true, inline, inline), ..Config::default() }
    }
}

impl Default for Config {
    fn default() -> Self {
        Config {
            credits: 64,
            backward_credits: 16,
            private_data: PrivateData::new(true, Config::INLINE, Config::INLINE),
            max_segment: u32::MAX,
            long_call: LongCall::default(),
            limits: Limits::default(),
            fetched: 64 << 20,
        }
    }
}
