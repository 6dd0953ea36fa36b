//! From what was written to the protocol as a value: names over several documents, constants, and what of a
//! published document has to be left out. Everything that is wrong is found in one run.

mod additions;
mod asides;
mod consts;
mod definitions;
mod enums;
mod named;
mod omit;
mod prelude;
mod programs;
mod repeats;
mod scope;
mod supply;
mod text;
mod unions;
pub(crate) mod unresolved;
mod uses;

use crate::check;
use crate::compare::rules;
use crate::diag::{Diagnostic, Found, Kind, MeaningKind};
use crate::hash::HashSet;
use crate::hir::Hir;
use crate::source::Span;

use definitions::Resolver;
use scope::Scope;

pub(crate) use additions::merge;
pub(crate) use named::is_own_name;
pub(crate) use scope::Document;
pub(crate) use supply::{Known, supply};

/// What documents define.
pub(crate) struct Resolved {
    pub(crate) hir: Hir,
    /// Whether it can be emitted: no diagnostic is an error, or, to keep going, what has errors has been left
    /// out with what needs it.
    pub(crate) whole: bool,
    /// What is wrong.
    pub(crate) found: Found,
    /// How often a definition is defined again by later documents, at most.
    pub(crate) stages: usize,
}

/// Resolves documents of which the last definition of a name stands, whether it extends the first or not.
pub(crate) fn latest(documents: &[Document<'_>], known: &Known<'_>) -> Resolved {
    at_stage(documents, known, usize::MAX)
}

/// Resolves documents of which later ones may extend definitions of earlier ones.
pub(crate) fn resolve(documents: &[Document<'_>], known: &Known<'_>) -> Resolved {
    let last = latest(documents, known);
    let mut before: Option<Resolved> = None;
    for stage in 1..=last.stages {
        let base = before.take().unwrap_or_else(|| at_stage(documents, known, stage - 1));
        let next = (stage < last.stages).then(|| at_stage(documents, known, stage));
        let breaches = breaches(&base.hir, &next.as_ref().unwrap_or(&last).hir);
        if !breaches.is_empty() {
            let mut first = if stage == 1 { base } else { at_stage(documents, known, 0) };
            first.whole = false;
            first.found.kept.extend(breaches);
            return first;
        }
        before = next;
    }
    last
}

/// Of a definition that later documents extend, the one that was extended `stage` times stands.
fn at_stage(documents: &[Document<'_>], known: &Known<'_>, stage: usize) -> Resolved {
    let mut found = Found::default();
    let scope = Scope::new(documents, known, stage, &mut found);
    let mut resolver = Resolver::new(scope, known, found);
    resolver.run();
    let Resolver { scope, mut hir, mut found, unresolved, .. } = resolver;
    check::protocol(&hir, &mut found);
    let whole = omit::omit(&mut hir, &scope, documents, known, unresolved, &mut found);
    Resolved { hir, whole, found, stages: scope.stages() }
}

/// What one step of extension breaks. Only what stands before its document counts: that document's own
/// definitions were made for it.
fn breaches(base: &Hir, new: &Hir) -> Vec<Diagnostic> {
    let spans: HashSet<Span> = base.types.iter().map(|ty| ty.docs.span).collect();
    let extending = new.types.iter().map(|ty| ty.docs.span).filter(|span| !spans.contains(span));
    let Some(first) = extending.map(|span| span.source).min() else { return Vec::new() };
    let breaches = rules::breaches_before(base, new, first).into_iter();
    breaches
        .filter_map(|Diagnostic { kind, span, .. }| match kind {
            Kind::Breach(breach) => Some(MeaningKind::NoExtension { breach: Box::new(breach) }.at(span)),
            _ => None,
        })
        .collect()
}
