//! Decides whether one protocol is a compatible extension of another.
//!
//! The default rules are those of section 9.1 of draft-ietf-nfsv4-rfc5666bis-04. Every valid message of the
//! base stays valid and keeps its structure, and an old peer can recognize new messages. The only extensions
//! are new message types with their bodies, new enum values with their arms in unions without a default, and
//! new flag bits. New programs, versions and procedures count as new message types.
//! [`Rules::Rfc8178`] selects the rules of section 4.2 of RFC 8178 instead.
//!
//! The comparison covers the wire form, and the numbers of constants and flags. Names, typedefs and the
//! nesting of structs do not affect the wire form. A field or a member may thus be renamed, and a struct may
//! be split or merged.

use serde::Serialize;

use crate::compare::rules::{self, Judged, Unread};
use crate::diag::{self, Diagnostic, Gap};
use crate::generate::{self, Options};
use crate::hash::HashSet;
use crate::source::{SourceId, Sources};

pub use crate::compare::rules::{Addition, Kind, NotCompared, Rules};

/// The verdict on two protocols.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The new protocol is a compatible extension of the base.
    Extension,
    /// The new protocol breaks the rules.
    Breach,
    /// No breach was found, but a document has errors or a definition could not be compared.
    Unknown,
}

/// The result of a comparison.
#[derive(Clone, Debug, Default)]
pub struct Compat {
    /// The findings in the documents themselves. If a finding is an error, nothing was compared.
    pub diagnostics: Vec<Diagnostic>,
    /// Each breach of the rules, `X500` to `X514`.
    pub breaches: Vec<Diagnostic>,
    /// The additions in source order.
    pub additions: Vec<Addition>,
    /// The definitions that could not be compared, in source order.
    pub not_compared: Vec<NotCompared>,
}

impl Compat {
    /// Returns the verdict. The verdict is unknown for documents with errors.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        if !self.breaches.is_empty() {
            Verdict::Breach
        } else if !self.not_compared.is_empty() || diag::has_errors(&self.diagnostics) {
            Verdict::Unknown
        } else {
            Verdict::Extension
        }
    }
}

/// Returns the definitions that were omitted from documents, each once.
pub(crate) fn omitted(found: &[Diagnostic]) -> Vec<NotCompared> {
    let mut seen = HashSet::default();
    let mut all = Vec::new();
    for found in found {
        let Some(omitted) = &found.omitted else { continue };
        let span = found.span;
        if omitted.name.is_empty() || seen.insert((span.source, omitted.name.as_str())) {
            all.push(NotCompared {
                name: omitted.name.clone(),
                gap: Gap::Omitted(Box::new(found.clone())),
                span,
            });
        }
    }
    all
}

/// Compares two protocols, each consisting of documents that are compiled together. In `new`, an enum or a
/// union may replace the definition of the same name in an earlier document.
#[must_use]
pub fn compat(sources: &Sources, base: &[SourceId], new: &[SourceId], options: &Options) -> Compat {
    compat_by(Rules::default(), sources, base, new, options)
}

/// Like [`compat()`], but applies the given rules.
#[must_use]
pub fn compat_by(
    rules: Rules,
    sources: &Sources,
    base: &[SourceId],
    new: &[SourceId],
    options: &Options,
) -> Compat {
    let (old, mut diagnostics, mut expansions) = generate::resolved(sources, base, options, false);
    let (with, more, others) = generate::resolved(sources, new, options, true);
    diagnostics.extend(more.iter().cloned());
    if diag::has_errors(&diagnostics) {
        return Compat { diagnostics, ..Compat::default() };
    }
    let Judged { mut breaches, mut additions, not_compared: unknown } =
        rules::judge(&old, &with, rules, Unread::of(&more));
    let mut not_compared = omitted(&diagnostics);
    not_compared.extend(unknown);
    not_compared.sort_by_key(|one| (one.span.source, one.span.start));
    expansions.extend(others);
    expansions.sort_by_key(|one| (one.span.source, one.span.start));
    crate::parse::explain(&mut breaches, &expansions);
    diag::sort(&mut breaches);
    additions.sort_by_key(|addition| (addition.span.source, addition.span.start));
    Compat { diagnostics, breaches, additions, not_compared }
}
