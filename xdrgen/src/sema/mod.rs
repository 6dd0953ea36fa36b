//! What the definitions mean: names over several documents, constants, the rules of the language, recursion, and the
//! Upper-Layer Binding. Everything that is wrong is found in one run.

mod additions;
mod asides;
mod borrowed;
mod consts;
mod ddp;
mod ends;
mod enums;
mod extend;
mod forgiven;
mod graph;
mod layout;
mod lists;
mod lower;
mod prelude;
mod programs;
mod repeats;
mod replies;
mod scope;
mod service;
mod suggest;
mod supply;
mod text;
mod unions;
mod uses;

pub(crate) use ends::MAX_DEPTH;
pub(crate) use graph::{Graph, collect_named, named_in, names_any};
pub(crate) use lists::fields_of;

use crate::binding::Binding;
use crate::diag::{Found, Severity, has_errors};
use crate::hash::HashMap;
use crate::ir::{Data, Module};
use crate::names::{Names, Taken};
use crate::sizes;
use crate::source::Span;

use forgiven::Forgiven;
use lower::Lower;
use scope::Scope;

pub(crate) use additions::merge;
pub(crate) use scope::{Document, Trust};
pub(crate) use supply::{Known, supply};

/// How often definitions are left out because others were that they need. Each round looks at everything again.
const MAX_ROUNDS: usize = 32;

/// What documents define, as they define it: nothing is changed yet to look better in Rust.
struct Resolved {
    module: Module,
    /// Whether the module is fit to be emitted: no diagnostic is an error, or, to keep going, those that are have been left
    /// out with what needs them.
    whole: bool,
    /// What is wrong.
    found: Found,
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
    let mut forgiven = Forgiven::new(documents, known);
    let mut rounds = 0;
    let mut resolved = loop {
        let mut found = Found::default();
        let scope = Scope::new(documents, &forgiven.left_out, stage, &mut found);
        let mut lower = Lower::new(scope, known, names, found);
        lower.run();
        let Lower { scope, module, spans, mut found, type_idents, .. } = lower;
        ends::check(&module, &spans, &mut found);
        let (kept, more) = forgiven.forgive(std::mem::take(&mut found.kept));
        found.kept = kept;
        rounds += 1;
        let unfinished = more && rounds == MAX_ROUNDS;
        if unfinished {
            // What was forgiven last is in the module still.
            forgiven.said.iter_mut().for_each(|said| said.severity = Severity::Error);
        }
        if unfinished || !more {
            let whole = !unfinished && !found.has_errors();
            break Resolved { module, whole, found, spans, idents: type_idents, extended: scope.extended() };
        }
    };
    resolved.whole &= known.keep_going || !has_errors(&forgiven.said);
    resolved.found.kept.append(&mut forgiven.said);
    resolved
}

/// What documents define, as they define it. With `all` the last of several definitions of a name stands, else they
/// must extend one another.
pub(crate) fn definitions(documents: &[Document<'_>], known: &Known<'_>, all: bool) -> (Module, Found) {
    let names = Names::default();
    let resolved = resolve(documents, known, names, usize::MAX);
    let resolved = if all { resolved } else { extend::settle(documents, known, names, resolved) };
    (resolved.module, resolved.found)
}

/// Analyzes the documents of a run, which may use one another's names. Says whether the module is fit to be emitted:
/// no diagnostic is an error, or those that are have been left out with what needs them, to keep going.
pub(crate) fn analyze(
    documents: &[Document<'_>],
    bindings: &[Binding],
    known: &Known<'_>,
    names: Names,
) -> (Module, Found, bool) {
    let resolved = resolve(documents, known, names, usize::MAX);
    let Resolved { mut module, whole, mut found, spans, mut idents, .. } =
        extend::settle(documents, known, names, resolved);
    // What is missing after an error would make a binding look wrong that is not.
    if !whole {
        return (module, found, false);
    }
    let data = known.data;
    let shared = ddp::apply(&mut module, &spans, bindings, &mut found);
    if data == Data::Borrowed && !found.has_errors() {
        borrowed::leave_out_eligible(&mut module, bindings, &mut found);
    }
    lists::collapse_options(&mut module);
    lists::make_lists(&mut module, names, &mut idents);
    if data == Data::Bytes {
        layout::hold_small_opaque(&mut module, &shared);
    }
    // A box is no other use: the graph stays what it is.
    let graph = Graph::of_all_uses(&module);
    layout::box_recursion(&mut module, &graph);
    sizes::state_items(&mut module, &graph);
    if data == Data::Borrowed {
        borrowed::find_borrowing(&mut module, &graph);
    }
    replies::check(&module, bindings, &mut found);
    let held = layout::Held::of(&module);
    layout::decide_derives(&mut module, &graph, &held);
    layout::weigh_unions(&mut module, &held);
    for ty in &mut module.types {
        let fields = lists::fields_mut(&mut ty.body);
        fields.filter(|field| field.eligible).for_each(|field| ddp::note(&mut field.docs));
    }
    let whole = known.keep_going || !found.has_errors();
    (module, found, whole)
}
