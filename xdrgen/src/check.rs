//! The rules of the language and of bindings that need more than one definition: one function each.

mod bindings;
mod cycles;
mod facts;
mod service;
mod unions;

use crate::diag::Found;
use crate::graph::Graph;
use crate::hir::Hir;

use facts::Facts;

pub(crate) use bindings::apply;
pub(crate) use unions::uncovered_values;

/// A rule: reports what breaks it.
type Rule = fn(&Facts<'_>, &mut Found);

/// What no definition may be: types that cannot be emitted.
const RULES: &[Rule] = &[cycles::endless_types, cycles::alias_cycles, cycles::depth];

/// Checks all definitions.
pub(crate) fn definitions(hir: &Hir, found: &mut Found) {
    let facts = Facts { hir, graph: Graph::of_all_uses(hir) };
    RULES.iter().for_each(|rule| rule(&facts, found));
}
