//! Rules that need all definitions of a protocol, and rules for bindings.
//!
//! To add a rule, write its function in a submodule, add the function to a table, and add the kind of the
//! finding to `diag`. The names of fixtures in `tests/diagnostics/` begin with the finding's code.

mod bindings;
mod cycles;
mod messages;
mod programs;
mod service;
mod unions;

use crate::binding::{Binding, Direction};
use crate::diag::Found;
use crate::graph::Graph;
use crate::hir::Hir;
use crate::ir::Module;
use crate::sizes::layout::Layouts;
use bindings::Bound;
use messages::Messages;

struct Facts<'h> {
    hir: &'h Hir,
    graph: &'h Graph,
    bound: &'h [Bound<'h>],
}

/// Functions that check rules, each with the code of its findings.
type Rules<F> = [(&'static str, F)];

/// The rules that are checked before invalid definitions are omitted.
const PROTOCOL: &Rules<fn(&Facts<'_>, &mut Found)> = &[
    ("X222", cycles::infinite_types),
    ("X223", cycles::alias_cycles),
    ("X225", cycles::depth),
    ("X226", unions::unused_defaults),
    ("X232", programs::shared_numbers),
];

/// The rules that are checked after invalid definitions are omitted, unless protocols are compared.
const REMAINING: &Rules<fn(&Hir, &mut Found)> = &[("X214", unions::uncovered_values)];

/// The rules that are checked after the names in all bindings are resolved and the listed fields are marked
/// as eligible.
const BINDING: &Rules<fn(&Facts<'_>, &mut Found)> = &[
    ("X305", bindings::ineligible_items),
    ("X306", bindings::repeated_items),
    ("X311", bindings::bounds_without_items),
    ("X313", bindings::unused_items),
    ("X315", bindings::small_items),
    ("X316", bindings::items_called_backward),
    ("X317", service::inline_thresholds),
    ("X318", service::netids),
    ("X319", service::ports),
    ("X320", bindings::empty_replies),
    ("X323", bindings::items_shared_with_backward),
    ("X324", service::keys_without_effect),
];

/// The rules that are checked for each version with a forward binding, once the types have their final
/// layout.
const MESSAGES: &Rules<fn(&Messages<'_>, &mut Found)> = &[
    ("X321", messages::impossible_bounds),
    ("X322", messages::unbounded_replies),
    ("X325", messages::long_calls),
    ("X326", messages::narrow_bounds),
    ("X327", messages::excess_items),
];

fn run<F>(rules: &Rules<fn(&F, &mut Found)>, facts: &F, found: &mut Found) {
    for (code, check) in rules {
        let before = found.kept.len();
        check(facts, found);
        debug_assert!(found.kept.iter().skip(before).all(|one| one.code() == *code), "{code}");
    }
}

pub(crate) fn protocol(hir: &Hir, found: &mut Found) {
    run(PROTOCOL, &Facts { hir, graph: &Graph::of_all_uses(hir), bound: &[] }, found);
}

pub(crate) fn remaining(hir: &Hir, found: &mut Found) {
    run(REMAINING, hir, found);
}

pub(crate) fn apply(hir: &mut Hir, bindings: &[Binding], found: &mut Found) {
    if bindings.is_empty() {
        return;
    }
    let graph = Graph::of_all_uses(hir);
    let bound = bindings::resolve(hir, &graph, bindings, found);
    bound.iter().for_each(|one| one.mark(hir));
    run(BINDING, &Facts { hir, graph: &graph, bound: &bound }, found);
    bound.iter().for_each(|one| one.write(hir, &graph));
}

pub(crate) fn messages(module: &Module, bindings: &[Binding], found: &mut Found) {
    if bindings.is_empty() {
        return;
    }
    let layouts = Layouts::of(module);
    for binding in bindings.iter().filter(|binding| binding.direction == Direction::Forward) {
        let version = module.versions().find(|(program, version)| {
            let names = (&program.name, &version.name);
            names == (&binding.program.value, &binding.version.value) && version.binding.is_some()
        });
        let Some((_, version)) = version else { continue };
        run(MESSAGES, &Messages { version, binding, layouts: &layouts }, found);
    }
}
