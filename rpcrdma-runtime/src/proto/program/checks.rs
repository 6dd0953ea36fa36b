//! Compile-time checks of handwritten bindings. rpcrdma-xdrgen reports the same mistakes in its input.

use super::Binding;
use crate::wire::private_data::{DEFAULT_INLINE, MAX_INLINE};

pub(crate) const fn binding<P: Binding>() {
    assert!(
        !matches!(P::PORT, Some(0)),
        "`Binding::PORT` is 0, but no client can connect to port 0: write `None`"
    );
    let mut netids = P::NETIDS;
    while let [netid, others @ ..] = netids {
        assert!(
            matches!(netid.as_bytes(), b"rdma" | b"rdma6"),
            "`Binding::NETIDS` has an unknown netid: write `rdma` or `rdma6`"
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
