//! What the definitions mean: names over several documents, constants, the rules of the language, recursion, and the
//! Upper-Layer Binding. Everything that is wrong is found in one run.

mod consts;
mod ddp;
mod layout;
mod lists;
mod lower;
mod programs;
mod scope;
mod text;
mod unions;

pub(crate) use lists::fields_of;

use std::collections::BTreeMap;

use crate::ast::Specification;
use crate::binding::Binding;
use crate::diag::{Diagnostic, has_errors};
use crate::ir::Module;

/// Analyzes the documents of a run, which may use one another's names. The module is whole if no diagnostic is an
/// error.
pub(crate) fn analyze(
    documents: &[&Specification],
    bindings: &[Binding],
    externs: &BTreeMap<String, String>,
) -> (Module, Vec<Diagnostic>) {
    let mut found = Vec::new();
    let scope = scope::Scope::new(documents, &mut found);
    let mut lower = lower::Lower::new(scope, externs, found);
    lower.run();
    let lower::Lower { mut module, spans, mut found, mut type_idents, .. } = lower;
    layout::check_ends(&module, &spans, &mut found);
    // What is missing after an error would make a binding look wrong that is not.
    if has_errors(&found) {
        return (module, found);
    }
    let shared = ddp::apply(&mut module, &spans, bindings, &mut found);
    lists::collapse_options(&mut module);
    lists::make_lists(&mut module, &mut type_idents);
    layout::hold_small_opaque(&mut module, &shared);
    layout::box_recursion(&mut module);
    layout::decide_derives(&mut module);
    layout::weigh_unions(&mut module);
    for ty in &mut module.types {
        lists::fields_mut(&mut ty.body)
            .filter(|field| field.eligible)
            .for_each(|field| ddp::note(&mut field.docs));
    }
    (module, found)
}
