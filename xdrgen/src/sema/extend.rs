//! Later documents may define an enum or a union of an earlier one again, to extend it: by the rules by which
//! [`crate::compat`] compares two protocols, and not otherwise.

use super::{Document, Known, Resolved, resolve};
use crate::compat;
use crate::diag::Diagnostic;
use crate::hash::HashSet;
use crate::ir::Module;
use crate::names::Names;
use crate::source::Span;

/// Checks every step of every extension. After the first that is none, the documents' first definitions stand and the
/// step is an error.
pub(super) fn settle(
    documents: &[Document<'_>],
    known: &Known<'_>,
    names: Names,
    last: Resolved,
) -> Resolved {
    let stages = last.extended.values().copied().max().unwrap_or(0);
    let mut before: Option<Resolved> = None;
    for stage in 1..=stages {
        let base = before.take().unwrap_or_else(|| resolve(documents, known, names, stage - 1));
        let next = (stage < stages).then(|| resolve(documents, known, names, stage));
        let module = &next.as_ref().unwrap_or(&last).module;
        let breaches = breaches(&base.module, module);
        if !breaches.is_empty() {
            let mut first = if stage == 1 { base } else { resolve(documents, known, names, 0) };
            first.whole = false;
            first.found.kept.extend(breaches.into_iter().map(as_no_extension));
            return first;
        }
        before = next;
    }
    last
}

/// What one step of extension breaks. Only what stands before its document counts: that document's own definitions
/// were made for it.
fn breaches(base: &Module, new: &Module) -> Vec<Diagnostic> {
    let spans: HashSet<Span> = base.types.iter().map(|ty| ty.docs.span).collect();
    let extending = new.types.iter().map(|ty| ty.docs.span).filter(|span| !spans.contains(span));
    let Some(first) = extending.map(|span| span.source).min() else { return Vec::new() };
    compat::breaches_before(base, new, first)
}

fn as_no_extension(breach: Diagnostic) -> Diagnostic {
    let message = format!("defined twice, and not as an extension: {}", breach.message);
    let help = "a later document may add values with their arms; else remove one of the definitions or give it another name";
    Diagnostic { code: "X201", message, ..breach }.with_help(help)
}
