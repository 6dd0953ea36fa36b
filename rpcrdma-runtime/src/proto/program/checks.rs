//! Compile-time checks of handwritten programs and bindings, in code that makes a call or a
//! [`Config`](crate::proto::rdma::Config). rpcrdma-xdrgen reports the same mistakes in documents and
//! bindings.

#[cfg(feature = "shell")]
use rpcrdma_layout::WRITE_CHUNKS;

use super::Binding;
#[cfg(feature = "shell")]
use super::{Procedure, Program, ReplyBounds};
use crate::wire::private_data::{DEFAULT_INLINE, MAX_INLINE};
#[cfg(feature = "shell")]
use crate::xdr::Size;

/// Checks that the procedure is in its program's list, that the list has no number twice, and that no reply
/// exceeds its bound.
#[cfg(feature = "shell")]
pub(crate) const fn procedure<Q: Procedure>() {
    let mut rest = <Q::Program as Program>::PROCEDURES;
    let mut found = false;
    while let [(number, _), others @ ..] = rest {
        assert!(!contains(others, *number), "`Program::PROCEDURES` has a procedure number twice");
        found |= *number == Q::NUMBER;
        rest = others;
    }
    assert!(found, "the procedure's number is missing from `Program::PROCEDURES`");
    let (bounds, of_type) = (Q::MAX_REPLY, ReplyBounds::of::<Q::Res>());
    assert!(
        covers(bounds.whole, of_type.whole)
            && covers(bounds.reduced, of_type.reduced)
            && covers(bounds.item, of_type.item)
            && covers(bounds.items, of_type.items),
        "`Procedure::MAX_REPLY` is smaller than the bound of the result type: a reply can exceed it"
    );
}

#[cfg(feature = "shell")]
const fn contains(mut procedures: &[(u32, &str)], wanted: u32) -> bool {
    while let [(number, _), others @ ..] = procedures {
        if *number == wanted {
            return true;
        }
        procedures = others;
    }
    false
}

/// Returns true if nothing of the type exceeds the bound. A type without a bound, or with one that no chunk
/// can have, leaves it to the binding.
#[cfg(feature = "shell")]
const fn covers(bound: Size, of_type: Size) -> bool {
    bound.covers(of_type) || !of_type.fits(u32::MAX as u64)
}

/// Checks that a call over RPC-over-RDMA offers a Write chunk for each eligible item of its result.
#[cfg(feature = "shell")]
pub(crate) const fn write_chunks<Q: Procedure>() {
    assert!(
        Q::EXCESS_ITEMS || Q::MAX_REPLY.items.fits(WRITE_CHUNKS),
        "the result can hold more DDP-eligible items than the 16 Write chunks of a call: bound their number, \
         or write `const EXCESS_ITEMS: bool = true` to leave the others in the reply"
    );
}

/// Checks the constants of a binding.
pub(crate) const fn binding<P: Binding>() {
    assert!(
        !matches!(P::PORT, Some(0)),
        "`Binding::PORT` is 0, to which no client can connect: write `None`"
    );
    let mut netids = P::NETIDS;
    while let [netid, others @ ..] = netids {
        assert!(
            matches!(netid.as_bytes(), b"rdma" | b"rdma6"),
            "`Binding::NETIDS` has an unknown netid: those of RPC-over-RDMA are `rdma` and `rdma6`"
        );
        netids = others;
    }
    if let Some(threshold) = P::INLINE_THRESHOLD {
        assert!(
            DEFAULT_INLINE <= threshold && threshold <= MAX_INLINE && threshold % DEFAULT_INLINE == 0,
            "`Binding::INLINE_THRESHOLD` cannot be announced: write a multiple of 1024 from 1024 to 262144"
        );
    }
}
