//! What rules are checked against.

use crate::graph::Graph;
use crate::hir::Hir;

/// What a rule is checked against: the protocol, and the uses of its types by one another.
pub(super) struct Facts<'h> {
    pub(super) hir: &'h Hir,
    pub(super) graph: Graph,
}
