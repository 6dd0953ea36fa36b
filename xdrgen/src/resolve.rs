//! Resolution: converts syntax trees to the protocol. Resolves names across documents, evaluates constants,
//! and decides which invalid definitions to omit.

mod additions;
mod c_lines;
mod consts;
mod definitions;
mod enums;
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
pub(crate) use scope::Document;
pub(crate) use supply::{Known, supply};

pub(crate) struct Resolved {
    pub(crate) hir: Hir,
    /// True if the HIR can be emitted: resolution found no errors, or `--keep-going` is set and the invalid
    /// definitions and their dependents are omitted.
    pub(crate) is_complete: bool,
    pub(crate) found: Found,
    /// The largest number of redefinitions of one definition in later documents.
    pub(crate) stages: usize,
}

/// Resolves documents with all extensions of definitions, including those that break the extension rules.
pub(crate) fn latest(documents: &[Document], known: &Known<'_>) -> Resolved {
    at_stage(documents, known, usize::MAX)
}

/// Resolves documents. A document may extend enums and unions of earlier documents.
pub(crate) fn resolve(documents: &[Document], known: &Known<'_>) -> Resolved {
    let last = latest(documents, known);
    let mut before: Option<Resolved> = None;
    for stage in 1..=last.stages {
        let base = before.take().unwrap_or_else(|| at_stage(documents, known, stage - 1));
        let next = (stage < last.stages).then(|| at_stage(documents, known, stage));
        let breaches = breaches(&base.hir, &next.as_ref().unwrap_or(&last).hir);
        if !breaches.is_empty() {
            let mut first = if stage == 1 { base } else { at_stage(documents, known, 0) };
            first.is_complete = false;
            first.found.kept.extend(breaches);
            return first;
        }
        before = next;
    }
    last
}

/// Resolves documents with at most `stage` extensions of each definition.
fn at_stage(documents: &[Document], known: &Known<'_>, stage: usize) -> Resolved {
    let mut found = Found::default();
    let scope = Scope::new(documents, known, stage, &mut found);
    let mut resolver = Resolver::new(scope, known, found);
    resolver.run();
    let Resolver { scope, mut hir, mut found, unresolved, .. } = resolver;
    check::protocol(&hir, &mut found);
    let is_complete = omit::omit(&mut hir, &scope, documents, known, unresolved, &mut found);
    Resolved { hir, is_complete, found, stages: scope.stages() }
}

/// Returns the breaches of the extension rules between two stages. Considers only documents before the
/// first document that extends a definition. That document and later ones were written for the extended
/// types.
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
