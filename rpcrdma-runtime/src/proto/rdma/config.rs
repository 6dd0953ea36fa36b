use crate::proto::program::{Binding, checks};
use crate::wire::private_data::PrivateData;
use crate::wire::rdma::MessageLimits;

/// How to send a call that does not fit inline even with its items in Read chunks (RFC 8166 section 3.5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LongCall {
    /// The whole stream in a Position-Zero Read chunk. Every known responder supports this form.
    #[default]
    Whole,
    /// The reduced stream in a Position-Zero Read chunk, and each item in a separate Read chunk. The Linux
    /// server (6.1 and 6.12) rejects this form with GARBAGE_ARGS. A call falls back to `Whole` if the header
    /// would be too long or the number of segments would exceed [`MessageLimits::max_segments`].
    Reduced,
}

/// The local settings of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Credits to request (requester) or to grant (responder); at least 1 (default 64).
    pub credits: u32,
    /// Backward-direction credits (RFC 8167) to grant (client) or to request (server); at least 1 (default
    /// 16).
    pub backward_credits: u32,
    /// The private data to send during the handshake. It announces the sizes of the local Sends and Receives.
    pub private_data: PrivateData,
    /// The maximum size of a segment in bytes (default: the maximum of the provider). Longer chunks are split
    /// into several segments.
    pub max_segment: u32,
    /// How to send calls that do not fit inline.
    pub long_call: LongCall,
    /// Limits on the peer's messages and on the chunks of local calls.
    pub limits: MessageLimits,
    /// The maximum total size of the Read chunks that a responder keeps in memory for one connection, in
    /// bytes (default 64 MiB). A call counts from its first RDMA Read until its reply. Further calls wait. A
    /// single call may exceed this limit, up to [`MessageLimits::max_transfer`].
    pub max_fetched: u64,
    #[doc(hidden)]
    pub non_exhaustive: (),
}

impl Config {
    /// The default inline size in bytes, the same as in Linux (RFC 8797 recommends no value).
    pub const INLINE: u32 = 4096;

    /// Returns the default configuration with the inline threshold that the program's binding recommends, if
    /// any.
    #[must_use]
    pub fn of<P: Binding>() -> Self {
        const { checks::binding::<P>() };
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
            limits: MessageLimits::default(),
            max_fetched: 64 << 20,
            non_exhaustive: (),
        }
    }
}
