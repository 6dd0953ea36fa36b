//! What the definitions mean: names over several documents, constants, the rules of the language, recursion, and the
//! Upper-Layer Binding. Everything that is wrong is found in one run.

mod asides;
mod consts;
mod ddp;
mod ends;
mod enums;
mod extend;
mod graph;
mod layout;
mod lists;
mod lower;
mod prelude;
mod programs;
mod scope;
mod suggest;
mod supply;
mod text;
mod unions;
mod uses;

pub(crate) use ends::MAX_DEPTH;
pub(crate) use graph::{Graph, collect_named, named_in};
pub(crate) use lists::fields_of;

use std::collections::{HashMap, HashSet};

use crate::ast::{Definition, DefinitionKind};
use crate::binding::Binding;
use crate::diag::{Diagnostic, Severity, has_errors};
use crate::ir::Module;
use crate::names::{Names, Taken};
use crate::source::Span;

use lower::Lower;
use scope::Scope;

pub(crate) use scope::Document;
pub(crate) use supply::{Known, supply};

/// How often definitions are left out because others were that they need. Each round looks at everything again.
const MAX_ROUNDS: usize = 32;

/// What documents define, as they define it: nothing is changed yet to look better in Rust.
struct Resolved {
    /// Whole if no diagnostic is an error.
    module: Module,
    /// What is wrong.
    found: Vec<Diagnostic>,
    /// Where each type stands.
    spans: Vec<Span>,
    /// The names that types have in Rust.
    idents: Taken,
    /// What is defined again by a later document, to extend it: how often each name is.
    extended: HashMap<String, usize>,
}

/// Finds out what the names of some documents stand for, and what is wrong with their definitions. Of a definition
/// that later documents extend, the one that was extended `stage` times stands.
fn resolve(documents: &[Document<'_>], known: &Known<'_>, names: Names, stage: usize) -> Resolved {
    let mut forgiven = Forgiven::default();
    let mut rounds = 0;
    let mut resolved = loop {
        let mut found = Vec::new();
        let scope = Scope::new(documents, &forgiven.left_out, stage, &mut found);
        let mut lower = Lower::new(scope, known, names, found);
        lower.run();
        let Lower { scope, module, spans, mut found, type_idents, .. } = lower;
        ends::check(&module, &spans, &mut found);
        let found = forgiven.forgive(documents, found);
        rounds += 1;
        if rounds == MAX_ROUNDS || !std::mem::take(&mut forgiven.more) {
            break Resolved { module, found, spans, idents: type_idents, extended: scope.extended() };
        }
    };
    resolved.found.append(&mut forgiven.said);
    resolved
}

/// What documents define, as they define it. With `all` the last of several definitions of a name stands, else they
/// must extend one another.
pub(crate) fn definitions(
    documents: &[Document<'_>],
    known: &Known<'_>,
    all: bool,
) -> (Module, Vec<Diagnostic>) {
    let names = Names::default();
    let resolved = resolve(documents, known, names, usize::MAX);
    let resolved = if all { resolved } else { extend::settle(documents, known, names, resolved) };
    (resolved.module, resolved.found)
}

/// Analyzes the documents of a run, which may use one another's names. The module is whole if no diagnostic is an
/// error.
pub(crate) fn analyze(
    documents: &[Document<'_>],
    bindings: &[Binding],
    known: &Known<'_>,
    names: Names,
) -> (Module, Vec<Diagnostic>) {
    let resolved = resolve(documents, known, names, usize::MAX);
    let Resolved { mut module, mut found, spans, mut idents, .. } =
        extend::settle(documents, known, names, resolved);
    // What is missing after an error would make a binding look wrong that is not.
    if has_errors(&found) {
        return (module, found);
    }
    let shared = ddp::apply(&mut module, &spans, bindings, &mut found);
    lists::collapse_options(&mut module);
    lists::make_lists(&mut module, names, &mut idents);
    layout::hold_small_opaque(&mut module, &shared);
    layout::box_recursion(&mut module);
    layout::decide_derives(&mut module);
    layout::weigh_unions(&mut module);
    for ty in &mut module.types {
        let fields = lists::fields_mut(&mut ty.body);
        fields.filter(|field| field.eligible).for_each(|field| ddp::note(&mut field.docs));
    }
    (module, found)
}

/// Definitions of lenient documents that are left out, and what was said of them.
#[derive(Default)]
struct Forgiven {
    left_out: HashSet<Span>,
    said: Vec<Diagnostic>,
    /// Whether one was left out since: others may have needed it.
    more: bool,
}

impl Forgiven {
    /// Takes the errors of lenient documents out of `found` and leaves out the definitions in which they are. A
    /// program stays: it lacks the procedures that are wrong.
    fn forgive(&mut self, documents: &[Document<'_>], found: Vec<Diagnostic>) -> Vec<Diagnostic> {
        let (errors, rest): (Vec<_>, Vec<_>) = found.into_iter().partition(Diagnostic::is_error);
        let mut kept = rest;
        for error in errors {
            let span = error.primary.span;
            let holds = |definition: &&Definition| {
                definition.span.start <= span.start && span.end <= definition.span.end
            };
            let lenient = documents.iter().find(|document| document.lenient && document.id == span.source);
            let Some(definition) =
                lenient.and_then(|document| document.specification.definitions.iter().find(holds))
            else {
                kept.push(error);
                continue;
            };
            let is_program = matches!(definition.kind, DefinitionKind::Program(_));
            if !is_program {
                self.more |= self.left_out.insert(definition.span);
            }
            let what = if is_program { "procedure" } else { "definition" };
            let help = format!("an example between prose: this {what} is left out");
            self.said.push(Diagnostic { severity: Severity::Warning, help: Some(help), ..error });
        }
        kept
    }
}
