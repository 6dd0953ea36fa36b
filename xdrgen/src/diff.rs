//! What changed from one version of a protocol to another, definition by definition, and whether it is sent.
//!
//! Definitions are matched by their names, and what is in neither by its layout: then it was renamed. A change of a type
//! is listed where the type is defined, not wherever it is used.

mod parts;
mod programs;

use crate::compare::layouts::Layouts;
use crate::compat::{NotCompared, left_out};
use crate::diag::{self, Diagnostic};
use crate::generate::{self, Options};
use crate::hash::{HashMap, HashSet};
use crate::hir::{Body, Docs, Hir, TypeDef, TypeId};
use crate::source::{SourceId, Sources, Span};

/// Whether something is new, gone or not what it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sign {
    /// It is in the second version only.
    Added,
    /// It is in the first version only.
    Removed,
    /// It is in both, and differs.
    Changed,
}

/// A definition or a part of one in one version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Side {
    /// What it is there: a declaration, a value, a name.
    pub text: String,
    /// Where it stands.
    pub span: Span,
}

/// One difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// New, gone, or changed.
    pub sign: Sign,
    /// What it is: `constant`, `typedef`, `enum`, `struct`, `union`, `member`, `field`, `arm`, `discriminant`,
    /// `program`, `version` or `procedure`.
    pub what: &'static str,
    /// Its name; a part has that of its definition and a point before its own.
    pub name: String,
    /// What it was; none if it is new.
    pub old: Option<Side>,
    /// What it is; none if it is gone.
    pub new: Option<Side>,
    /// Whether messages change by it. Names, typedefs and the names of numbers are not sent.
    pub wire: bool,
}

/// What a comparison gives.
#[derive(Clone, Debug, Default)]
pub struct Diff {
    /// What is wrong with the documents themselves. After an error nothing was compared.
    pub diagnostics: Vec<Diagnostic>,
    /// What changed: definitions of the first version in its order, then those that the second added.
    pub changes: Vec<Change>,
    /// What was left out of one of the versions, and so is in none of the changes.
    pub not_compared: Vec<NotCompared>,
}

/// Compares two versions of a protocol, each of one or more documents that are compiled together.
#[must_use]
pub fn diff(sources: &Sources, old: &[SourceId], new: &[SourceId], options: &Options) -> Diff {
    let (base, mut diagnostics) = generate::resolved(sources, old, options, true);
    let (with, more) = generate::resolved(sources, new, options, true);
    diagnostics.extend(more);
    if diag::has_errors(&diagnostics) {
        return Diff { diagnostics, ..Diff::default() };
    }
    let mut differ =
        Differ { layouts: Layouts::new(&base, &with), old: &base, new: &with, changes: Vec::new() };
    differ.constants();
    differ.types();
    differ.programs();
    let mut changes = differ.changes;
    let place = |change: &Change| {
        let of = change.old.as_ref().or(change.new.as_ref());
        (change.old.is_none(), of.map(|side| (side.span.source, side.span.start)))
    };
    changes.sort_by_key(place);
    let not_compared = left_out(&diagnostics);
    // It may have what it had: nobody can tell.
    fn owner(change: &Change) -> &str {
        change.name.split_once('.').map_or(change.name.as_str(), |(owner, _)| owner)
    }
    let unknown: HashSet<&str> = not_compared.iter().map(|one| one.name.as_str()).collect();
    changes.retain(|change| change.sign == Sign::Changed || !unknown.contains(owner(change)));
    Diff { diagnostics, changes, not_compared }
}

/// A comparison under way.
struct Differ<'m> {
    layouts: Layouts<'m>,
    old: &'m Hir,
    new: &'m Hir,
    changes: Vec<Change>,
}

fn side(text: impl Into<String>, docs: &Docs) -> Option<Side> {
    Some(Side { text: text.into(), span: docs.span })
}

impl<'m> Differ<'m> {
    fn added(&mut self, what: &'static str, name: String, new: Option<Side>, wire: bool) {
        self.changes.push(Change { sign: Sign::Added, what, name, old: None, new, wire });
    }

    fn removed(&mut self, what: &'static str, name: String, old: Option<Side>, wire: bool) {
        self.changes.push(Change { sign: Sign::Removed, what, name, old, new: None, wire });
    }

    fn changed(&mut self, what: &'static str, name: String, sides: [Option<Side>; 2], wire: bool) {
        let [old, new] = sides;
        self.changes.push(Change { sign: Sign::Changed, what, name, old, new, wire });
    }

    fn constants(&mut self) {
        let known: HashMap<&str, _> = self.new.consts.iter().map(|one| (one.name.as_str(), one)).collect();
        for one in &self.old.consts {
            let text = one.value.to_string();
            match known.get(one.name.as_str()) {
                None => self.removed("constant", one.name.clone(), side(text, &one.docs), false),
                Some(other) if other.value != one.value => {
                    let sides = [side(text, &one.docs), side(other.value.to_string(), &other.docs)];
                    self.changed("constant", one.name.clone(), sides, true);
                }
                Some(_) => {}
            }
        }
        let old: HashSet<&str> = self.old.consts.iter().map(|one| one.name.as_str()).collect();
        for one in self.new.consts.iter().filter(|one| !old.contains(one.name.as_str())) {
            self.added("constant", one.name.clone(), side(one.value.to_string(), &one.docs), false);
        }
    }

    fn types(&mut self) {
        let named = |module: &'m Hir| -> HashMap<&'m str, TypeId> {
            let all = module.types.iter().enumerate();
            all.map(|(index, ty)| (ty.name.as_str(), TypeId(index))).collect()
        };
        let (old, new) = (named(self.old), named(self.new));
        // Bodies in place come and go with what they stand in.
        let alone = |id: &TypeId, module: &Hir, others: &HashMap<&str, TypeId>| {
            let name = module.get(*id).map_or("", |ty| ty.name.as_str());
            !others.contains_key(name)
                && name.rsplit_once('.').is_none_or(|(owner, _)| others.contains_key(owner))
        };
        let ids = |module: &Hir| (0..module.types.len()).map(TypeId).collect::<Vec<_>>();
        let gone: Vec<TypeId> = ids(self.old).into_iter().filter(|id| alone(id, self.old, &new)).collect();
        let come: Vec<TypeId> = ids(self.new).into_iter().filter(|id| alone(id, self.new, &old)).collect();
        let renamed = self.layouts.pairs(&gone, &come);
        for id in ids(self.old) {
            let Some(ty) = self.old.get(id) else { continue };
            let Some(&other) = new.get(ty.name.as_str()) else { continue };
            if let Some(with) = self.new.get(other) {
                self.definitions((id, ty), (other, with));
            }
        }
        for id in gone {
            let Some(ty) = self.old.get(id) else { continue };
            match renamed.get(&id).and_then(|other| self.new.get(*other)) {
                Some(with) => {
                    let sides = [side(&ty.name, &ty.docs), side(&with.name, &with.docs)];
                    self.changed(kind(ty), ty.name.clone(), sides, false);
                }
                None => self.removed(kind(ty), ty.name.clone(), side(line(&ty.docs), &ty.docs), is_sent(ty)),
            }
        }
        let taken: HashSet<TypeId> = renamed.into_values().collect();
        for ty in come.into_iter().filter(|id| !taken.contains(id)).filter_map(|id| self.new.get(id)) {
            self.added(kind(ty), ty.name.clone(), side(line(&ty.docs), &ty.docs), is_sent(ty));
        }
    }
}

/// What a definition is called.
fn kind(ty: &TypeDef) -> &'static str {
    match ty.body {
        Body::Alias(_) => "typedef",
        Body::Enum(_) => "enum",
        Body::Struct(_) | Body::Tuple(_) => "struct",
        Body::Union(_) => "union",
    }
}

/// A typedef gives a name to something; names are not sent.
fn is_sent(ty: &TypeDef) -> bool {
    !matches!(ty.body, Body::Alias(_))
}

/// How many characters of a declaration are shown.
const SHOWN: usize = 100;

/// A declaration in one line, without comments.
fn line(docs: &Docs) -> String {
    let mut bare = String::new();
    let mut rest = docs.declaration.as_str();
    while let Some((before, behind)) = rest.split_once("/*") {
        bare.push_str(before);
        rest = behind.split_once("*/").map_or("", |(_, behind)| behind);
    }
    bare.push_str(rest);
    let line = bare.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{} ...", line.get(..end).unwrap_or("")),
        None => line,
    }
}
