//! The rules of the language and of bindings that need more than one definition: one function each.

mod bindings;
mod cycles;
mod service;
mod unions;

use crate::diag::Found;
use crate::graph::Graph;
use crate::hir::Hir;

pub(crate) use bindings::apply;
pub(crate) use unions::uncovered_values;

/// What a rule is checked against: the protocol, and the uses of its types by one another.
struct Facts<'h> {
    hir: &'h Hir,
    graph: Graph,
}

/// A rule: reports what breaks it.
type Rule = fn(&Facts<'_>, &mut Found);

/// What no definition may be, such as a type that cannot be emitted.
const RULES: &[Rule] = &[cycles::endless_types, cycles::alias_cycles, cycles::depth, unions::idle_defaults];

/// Checks all definitions.
pub(crate) fn definitions(hir: &Hir, found: &mut Found) {
    let facts = Facts { hir, graph: Graph::of_all_uses(hir) };
    RULES.iter().for_each(|rule| rule(&facts, found));
}
