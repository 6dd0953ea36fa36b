//! What the two ends of a connection tell each other of their limits while it lasts (RFC 5666 section 6).

use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, Ordering};

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
    // Both numbers in one, so that nobody sees one of them without the other: bytes above, Reads below. As long as nothing
    // was said: the largest there is, which limits nothing.
    stated: AtomicU64,
}

impl Link {
    /// A connection whose end here takes messages of so many bytes, and does so many RDMA Reads at a time.
    #[must_use]
    pub fn new(own: Stated, negotiated: Negotiated) -> Self {
        Link(Arc::new(Limits { own, negotiated, stated: AtomicU64::new(u64::MAX) }))
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
        let both = u64::from(caller.inline) << 32 | u64::from(caller.reads);
        self.0.stated.store(both, Ordering::Relaxed);
    }

    /// What the caller has said of itself, if it has.
    #[must_use]
    pub fn stated(&self) -> Option<Stated> {
        let both = self.0.stated.load(Ordering::Relaxed);
        let (inline, reads) = (u32::try_from(both >> 32).ok()?, u32::try_from(both & 0xffff_ffff).ok()?);
        (both != u64::MAX).then_some(Stated { inline, reads })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two handlers of one connection keep what the caller says, while its replies are planned.
    #[test]
    fn what_is_said_is_seen_whole() {
        let nothing = Stated { inline: 0, reads: 0 };
        let agreed = Negotiated { call_threshold: 1024, reply_threshold: 1024, remote_invalidation: false };
        let link = Link::new(nothing, agreed);
        assert_eq!(link.stated(), None);
        let other = link.clone();
        let talker = std::thread::spawn(move || {
            for turn in 0..200_000u32 {
                other.state(Stated { inline: turn, reads: turn });
            }
        });
        while !talker.is_finished() {
            if let Some(Stated { inline, reads }) = link.stated() {
                assert_eq!(inline, reads);
            }
        }
        talker.join().unwrap();
        assert_eq!(link.stated(), Some(Stated { inline: 199_999, reads: 199_999 }));
    }

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
