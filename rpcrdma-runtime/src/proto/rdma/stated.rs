//! What the two ends of a connection tell each other of their limits while it lasts (RFC 5666 section 6).

use alloc::sync::Arc;
use core::sync::atomic::{AtomicU32, Ordering};

use crate::wire::private_data::{DEFAULT_INLINE, Negotiated};

/// What one end has said of itself by the connection configuration protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stated {
    /// The longest message without chunks of its own that it takes, in bytes, its transport header included.
    pub inline: u32,
    /// How many RDMA Reads there may be at a time. With 0 there are none: no call has Read chunks.
    pub reads: u32,
}

impl Stated {
    /// How long messages to that end may be, in bytes: never longer than it says. Where more than the least was agreed on
    /// when the connection was made this stands too; where it was not, `own` is the longest that this end sends.
    pub(super) fn threshold(self, agreed: u32, own: u32) -> u32 {
        self.inline.min(if agreed > DEFAULT_INLINE { agreed } else { own })
    }
}

/// The connection over RPC-over-RDMA that a call came by, as its handler finds it in
/// [`CallContext::extensions`](crate::proto::program::CallContext::extensions): what this end has, and what the caller says
/// of itself. Clones are the same connection.
#[derive(Clone, Debug)]
pub struct Link(Arc<Limits>);

#[derive(Debug)]
struct Limits {
    own: Stated,
    negotiated: Negotiated,
    // As long as nothing was said: the largest there is, which limits nothing.
    inline: AtomicU32,
    reads: AtomicU32,
}

impl Link {
    /// A connection whose end here takes messages of so many bytes, and does so many RDMA Reads at a time.
    #[must_use]
    pub fn new(own: Stated, negotiated: Negotiated) -> Self {
        let (inline, reads) = (AtomicU32::new(u32::MAX), AtomicU32::new(u32::MAX));
        Link(Arc::new(Limits { own, negotiated, inline, reads }))
    }

    /// What this end takes and does, whatever the peer is.
    #[must_use]
    pub fn own(&self) -> Stated {
        self.0.own
    }

    /// What was agreed on when the connection was made.
    #[must_use]
    pub fn negotiated(&self) -> Negotiated {
        self.0.negotiated
    }

    /// Keeps what the caller says of itself. It holds for the replies behind this call's, and for as long as the connection
    /// lasts or something else is said.
    pub fn state(&self, caller: Stated) {
        self.0.inline.store(caller.inline, Ordering::Relaxed);
        self.0.reads.store(caller.reads, Ordering::Relaxed);
    }

    /// What the caller has said of itself, if it has.
    #[must_use]
    pub fn stated(&self) -> Option<Stated> {
        let inline = self.0.inline.load(Ordering::Relaxed);
        let reads = self.0.reads.load(Ordering::Relaxed);
        (inline != u32::MAX || reads != u32::MAX).then_some(Stated { inline, reads })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_limits_and_lifts_only_where_nothing_was_agreed_on() {
        let threshold = |inline, agreed| Stated { inline, reads: 0 }.threshold(agreed, 8192);
        assert_eq!(threshold(2048, 4096), 2048);
        assert_eq!(threshold(65_536, 4096), 4096);
        assert_eq!(threshold(4096, DEFAULT_INLINE), 4096);
        assert_eq!(threshold(65_536, DEFAULT_INLINE), 8192);
        assert_eq!(threshold(512, DEFAULT_INLINE), 512);
    }
}
