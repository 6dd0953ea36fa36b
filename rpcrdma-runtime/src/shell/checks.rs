//! Compile-time checks of handwritten programs and bindings, evaluated for each called procedure.
//! rpcrdma-xdrgen reports the same mistakes in documents and bindings.

use rpcrdma_layout::WRITE_CHUNKS;

pub(super) use crate::proto::program::checks::binding;
use crate::proto::program::{Procedure, Program, ReplyBounds};
use crate::xdr::Size;

/// Checks that the procedure is in its program's list, that no number occurs twice in the list, and that
/// [`Procedure::MAX_REPLY`] covers the result type.
pub(super) const fn procedure<Q: Procedure>() {
    let mut rest = <Q::Program as Program>::PROCEDURES;
    let mut found = false;
    while let [(number, _), others @ ..] = rest {
        assert!(!contains(others, *number), "`Program::PROCEDURES` contains a procedure number twice");
        found |= *number == Q::NUMBER;
        rest = others;
    }
    assert!(found, "the procedure's number is missing from `Program::PROCEDURES`");
    let (bounds, of_type) = (Q::MAX_REPLY, ReplyBounds::of::<Q::Res>());
    assert!(
        covers(bounds.unreduced, of_type.unreduced)
            && covers(bounds.reduced, of_type.reduced)
            && covers(bounds.item, of_type.item)
            && covers(bounds.items, of_type.items),
        "`Procedure::MAX_REPLY` is smaller than the bound of the result type: increase `MAX_REPLY`"
    );
}

/// Checks that the program is not `BackwardOnly`, because only the server calls such a program.
pub(super) const fn forward<P: Program>() {
    assert!(!P::BACKWARD_ONLY, "only the server calls a `BackwardOnly` program: a client cannot call it");
}

/// Checks that a [`BackwardOnly`](crate::proto::program::BackwardOnly) program sets `Program::BACKWARD_ONLY`,
/// because [`forward`] checks only this constant.
pub(super) const fn backward_only<P: Program>() {
    assert!(
        P::BACKWARD_ONLY,
        "a `BackwardOnly` program is not marked: write `const BACKWARD_ONLY: bool = true` in `impl Program`"
    );
}

const fn contains(mut procedures: &[(u32, &str)], wanted: u32) -> bool {
    while let [(number, _), others @ ..] = procedures {
        if *number == wanted {
            return true;
        }
        procedures = others;
    }
    false
}

/// Returns true if `bound` covers `of_type`, a bound that follows from the result type. Also returns true if
/// `of_type` is unbounded or exceeds the maximum size of a chunk. [`Procedure::MAX_REPLY`] may then specify
/// any bound.
const fn covers(bound: Size, of_type: Size) -> bool {
    bound.covers(of_type) || !of_type.fits(u32::MAX as u64)
}

/// Checks that a call over RPC-over-RDMA can offer a Write chunk for each eligible item of its result, unless
/// [`Procedure::EXCESS_ITEMS`] is true.
pub(super) const fn write_chunks<Q: Procedure>() {
    assert!(
        Q::EXCESS_ITEMS || Q::MAX_REPLY.items.fits(WRITE_CHUNKS),
        "the result can hold more DDP-eligible items than the 16 Write chunks of a call: bound their number, \
         or write `const EXCESS_ITEMS: bool = true` to leave the excess items in the reply"
    );
}
