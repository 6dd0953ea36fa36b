//! Lists the changes between two versions of a protocol, definition by definition, and states whether each
//! change affects the encoding.
//!
//! Types and constants are matched by name, and programs and their parts by number, then by name. A removed
//! type and a new type with the same layout usually count as one renamed type. A change to a type is listed
//! at its definition, not at each use.

use serde::Serialize;

use crate::compare::{self, Effect};
use crate::compat::{NotCompared, omitted};
use crate::diag::{self, Diagnostic};
use crate::generate::{self, Options};
use crate::hash::HashSet;
use crate::source::{SourceId, Sources};

pub use crate::compare::Side;

/// The kind of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Sign {
    /// Only the new version contains the item.
    Added,
    /// Only the old version contains the item.
    Removed,
    /// Both versions contain the item, in different forms.
    Changed,
}

/// A difference between two versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Added, removed, or changed.
    pub sign: Sign,
    /// The kind: `constant`, `typedef`, `enum`, `struct`, `union`, `member`, `field`, `arm`,
    /// `discriminant`, `program`, `version` or `procedure`.
    pub what: &'static str,
    /// The name. For a part, the path from its definition, joined by dots, such as `e.B`.
    pub name: String,
    /// The item in the old version; `None` if the item was added.
    pub old: Option<Side>,
    /// The item in the new version; `None` if the item was removed.
    pub new: Option<Side>,
    /// True if the encoding changes, or if the value of a constant changes. Names and typedefs are not part
    /// of the encoding.
    pub wire: bool,
}

/// The result of a comparison.
#[derive(Clone, Debug, Default)]
pub struct Diff {
    /// The findings in the documents themselves. If a finding is an error, nothing was compared.
    pub diagnostics: Vec<Diagnostic>,
    /// The changes. Changes to items in the old version come first, in source order, followed by added items.
    pub changes: Vec<Change>,
    /// The definitions that were omitted, completely or in part, from at least one version. The omitted parts
    /// were not compared.
    pub not_compared: Vec<NotCompared>,
}

/// Compares two versions of a protocol, each consisting of documents that are compiled together.
#[must_use]
pub fn diff(sources: &Sources, old: &[SourceId], new: &[SourceId], options: &Options) -> Diff {
    let (base, mut diagnostics, _) = generate::resolved(sources, old, options, true);
    let (with, more, _) = generate::resolved(sources, new, options, true);
    diagnostics.extend(more);
    if diag::has_errors(&diagnostics) {
        return Diff { diagnostics, ..Diff::default() };
    }
    let found = compare::compare(&base, &with).changes.into_iter();
    let mut changes: Vec<Change> = found
        .filter_map(|compare::Change { path, kind, effect, sides: [old, new] }| {
            let sign = match (&old, &new) {
                (None, None) => return None,
                (None, _) => Sign::Added,
                (_, None) => Sign::Removed,
                _ => Sign::Changed,
            };
            Some(Change {
                sign,
                what: kind.what(),
                name: path.name(),
                old,
                new,
                wire: effect != Effect::Unsent,
            })
        })
        .collect();
    let place = |change: &Change| {
        let of = change.old.as_ref().or(change.new.as_ref());
        (change.old.is_none(), of.map(|side| (side.span.source, side.span.start)))
    };
    changes.sort_by_key(place);
    let not_compared = omitted(&diagnostics);
    // If a definition was omitted from one version, it is unknown which of its parts were added or removed.
    fn owner(change: &Change) -> &str {
        change.name.split_once('.').map_or(change.name.as_str(), |(owner, _)| owner)
    }
    let unknown: HashSet<&str> = not_compared.iter().map(|one| one.name.as_str()).collect();
    changes.retain(|change| change.sign == Sign::Changed || !unknown.contains(owner(change)));
    Diff { diagnostics, changes, not_compared }
}
