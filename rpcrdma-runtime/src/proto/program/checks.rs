//! Compile-time checks of handwritten programs and bindings, in code that makes a call or a
//! [`Config`](crate::proto::rdma::Config). rpcrdma-xdrgen reports the same mistakes in documents and
//! bindings.

use super::Binding;
#[cfg(feature = "shell")]
use super::{Procedure, Program};
use crate::wire::private_data::{DEFAULT_INLINE, MAX_INLINE};

/// Checks that the procedure is in its program's list, and that the list has no number twice.
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
