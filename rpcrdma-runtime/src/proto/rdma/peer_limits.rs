//! The limits that the peers of an open connection announce to each other (RFC 5666 section 6).

use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, Ordering};

use crate::wire::private_data::{DEFAULT_INLINE, MAX_INLINE, Negotiated};

/// The limits that a peer announces with the connection configuration protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerLimits {
    /// The maximum size of a message with an inline stream, in bytes, including its transport header.
    pub inline: u32,
    /// The maximum number of outstanding RDMA Reads. If 0, calls have no Read chunks.
    pub reads: u32,
}

impl PeerLimits {
    /// Returns the maximum size of messages to the peer, in bytes: the minimum of the announced size and a
    /// limit. The limit is the negotiated threshold `agreed` if it exceeds [`DEFAULT_INLINE`]. Otherwise, the
    /// limit is the local maximum `own`.
    pub(super) fn threshold(self, agreed: u32, own: u32) -> u32 {
        self.inline.min(if agreed > DEFAULT_INLINE { agreed } else { own })
    }
}

/// The RPC-over-RDMA connection of a call. Handlers find their `Link` in
/// [`CallContext::extensions`](crate::proto::program::CallContext::extensions). A `Link` contains the local
/// limits, the parameters negotiated in the handshake, and the limits that the caller announces. Clones refer
/// to the same connection.
#[derive(Clone, Debug)]
pub struct Link(Arc<LinkState>);

#[derive(Debug)]
struct LinkState {
    own: PeerLimits,
    negotiated: Negotiated,
    // The inline size (high half) and the number of Reads (low half), or `u64::MAX` if nothing was announced.
    // A single atomic gives readers a consistent pair.
    announced: AtomicU64,
}

impl Link {
    /// Creates a link with the local limits and the negotiated parameters.
    #[must_use]
    pub fn new(own: PeerLimits, negotiated: Negotiated) -> Self {
        Link(Arc::new(LinkState { own, negotiated, announced: AtomicU64::new(u64::MAX) }))
    }

    /// Returns the local limits, independent of the peer.
    #[must_use]
    pub fn own(&self) -> PeerLimits {
        self.0.own
    }

    /// Returns the parameters negotiated in the handshake.
    #[must_use]
    pub fn negotiated(&self) -> Negotiated {
        self.0.negotiated
    }

    /// Stores the limits that the caller announces, with an inline size of at most 262,144 bytes. They take
    /// effect after the next reply on this connection, and last until the caller announces new limits.
    pub fn announce(&self, caller: PeerLimits) {
        // The cap keeps `both` below `u64::MAX`, which stands for no announcement.
        let both = u64::from(caller.inline.min(MAX_INLINE)) << 32 | u64::from(caller.reads);
        self.0.announced.store(both, Ordering::Relaxed);
    }

    /// Returns the limits that the caller announced, if any.
    #[must_use]
    pub fn announced(&self) -> Option<PeerLimits> {
        let both = self.0.announced.load(Ordering::Relaxed);
        let (inline, reads) = (u32::try_from(both >> 32).ok()?, u32::try_from(both & 0xffff_ffff).ok()?);
        (both != u64::MAX).then_some(PeerLimits { inline, reads })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn announced_limits_are_a_consistent_pair() {
        let nothing = PeerLimits { inline: 0, reads: 0 };
        let agreed = Negotiated { call_threshold: 1024, reply_threshold: 1024, remote_invalidation: false };
        let link = Link::new(nothing, agreed);
        assert_eq!(link.announced(), None);
        let other = link.clone();
        let writer = std::thread::spawn(move || {
            for turn in 0..200_000u32 {
                other.announce(PeerLimits { inline: turn, reads: turn });
            }
        });
        while !writer.is_finished() {
            if let Some(PeerLimits { inline, reads }) = link.announced() {
                assert_eq!(inline, reads);
            }
        }
        writer.join().unwrap();
        assert_eq!(link.announced(), Some(PeerLimits { inline: 199_999, reads: 199_999 }));
    }

    #[test]
    fn a_caller_may_announce_the_largest_numbers() {
        let nothing = PeerLimits { inline: 0, reads: 0 };
        let agreed = Negotiated { call_threshold: 1024, reply_threshold: 1024, remote_invalidation: false };
        let link = Link::new(nothing, agreed);
        link.announce(PeerLimits { inline: u32::MAX, reads: u32::MAX });
        assert_eq!(link.announced(), Some(PeerLimits { inline: MAX_INLINE, reads: u32::MAX }));
    }

    #[test]
    fn announced_sizes_raise_limits_only_without_an_agreement() {
        let threshold = |inline, agreed| PeerLimits { inline, reads: 0 }.threshold(agreed, 8192);
        assert_eq!(threshold(2048, 4096), 2048);
        assert_eq!(threshold(65_536, 4096), 4096);
        assert_eq!(threshold(4096, DEFAULT_INLINE), 4096);
        assert_eq!(threshold(65_536, DEFAULT_INLINE), 8192);
        assert_eq!(threshold(512, DEFAULT_INLINE), 512);
    }
}
