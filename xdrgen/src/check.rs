//! Rules that need all definitions of a protocol, and rules for bindings.
//!
//! To add a rule, write its function in a submodule, add the function to [`RULES`], and add the kind of the
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

/// A function that checks a rule. The variant determines when the function runs, and the function's
/// arguments.
enum Rule {
    /// Runs before invalid definitions are omitted.
    Protocol(fn(&Facts<'_>, &mut Found)),
    /// Runs after invalid definitions are omitted. Does not run when protocols are compared.
    Remaining(fn(&Hir, &mut Found)),
    /// Runs after the names in all bindings are resolved and the listed fields are marked as eligible.
    Binding(fn(&Facts<'_>, &mut Found)),
    /// Runs on each version with a forward binding, once the types have their final layout.
    Messages(fn(&Messages<'_>, &mut Found)),
}

/// Every rule, with the code of its findings.
const RULES: &[(&str, Rule)] = &[
    ("X214", Rule::Remaining(unions::uncovered_values)),
    ("X222", Rule::Protocol(cycles::infinite_types)),
    ("X223", Rule::Protocol(cycles::alias_cycles)),
    ("X225", Rule::Protocol(cycles::depth)),
    ("X226", Rule::Protocol(unions::unused_defaults)),
    ("X232", Rule::Protocol(programs::shared_numbers)),
    ("X305", Rule::Binding(bindings::ineligible_items)),
    ("X306", Rule::Binding(bindings::repeated_items)),
    ("X311", Rule::Binding(bindings::bounds_without_items)),
    ("X313", Rule::Binding(bindings::unused_items)),
    ("X315", Rule::Binding(bindings::small_items)),
    ("X316", Rule::Binding(bindings::items_called_backward)),
    ("X317", Rule::Binding(service::inline_thresholds)),
    ("X318", Rule::Binding(service::netids)),
    ("X319", Rule::Binding(service::ports)),
    ("X320", Rule::Binding(bindings::empty_replies)),
    ("X321", Rule::Messages(messages::impossible_bounds)),
    ("X322", Rule::Messages(messages::unbounded_replies)),
    ("X323", Rule::Binding(bindings::items_shared_with_backward)),
    ("X324", Rule::Binding(service::keys_without_effect)),
    ("X325", Rule::Messages(messages::long_calls)),
    ("X326", Rule::Messages(messages::narrow_bounds)),
    ("X327", Rule::Messages(messages::excess_items)),
];

/// Passes every rule to `check`, which runs the rules of one kind and ignores the others.
fn run(found: &mut Found, check: impl Fn(&Rule, &mut Found)) {
    for (code, rule) in RULES {
        let before = found.kept.len();
        check(rule, found);
        debug_assert!(found.kept.iter().skip(before).all(|one| one.code() == *code), "{code}");
    }
}

pub(crate) fn protocol(hir: &Hir, found: &mut Found) {
    let facts = Facts { hir, graph: &Graph::of_all_uses(hir), bound: &[] };
    run(found, |rule, found| {
        if let Rule::Protocol(check) = rule {
            check(&facts, found)
        }
    });
}

pub(crate) fn remaining(hir: &Hir, found: &mut Found) {
    run(found, |rule, found| {
        if let Rule::Remaining(check) = rule {
            check(hir, found)
        }
    });
}

pub(crate) fn apply(hir: &mut Hir, bindings: &[Binding], found: &mut Found) {
    if bindings.is_empty() {
        return;
    }
    let graph = Graph::of_all_uses(hir);
    let bound = bindings::resolve(hir, &graph, bindings, found);
    bound.iter().for_each(|one| one.mark(hir));
    let facts = Facts { hir, graph: &graph, bound: &bound };
    run(found, |rule, found| {
        if let Rule::Binding(check) = rule {
            check(&facts, found)
        }
    });
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
        let messages = Messages { version, binding, layouts: &layouts };
        run(found, |rule, found| {
            if let Rule::Messages(check) = rule {
                check(&messages, found)
            }
        });
    }
}
