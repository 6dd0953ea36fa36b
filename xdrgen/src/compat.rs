//! Whether one protocol is a compatible extension of another.
//!
//! The rules are those of section 9.1 of the -04 draft of rfc5666bis: whatever the base takes for valid stays valid and
//! keeps its structure, and what is new can be told from it by an old peer. So new message types with their bodies, new
//! values of an enum with the arms that they choose in unions without a default, and new flag bits are extensions;
//! nothing else is. For programs, new versions and new procedures are what new message types are for a header.
//!
//! What is compared is what goes over the wire. Names, typedefs and the grouping of fields in structs do not: a field
//! or a member may be called otherwise, and a struct may be taken apart or put together.

pub(crate) mod layouts;
mod pairs;
pub(crate) mod view;

use std::mem::Discriminant;

use crate::diag::{self, Diagnostic};
use crate::generate::{self, Options};
use crate::hash::{HashMap, HashSet};
use crate::ir::{Body, Module, Procedure, Program, TypeDef, TypeId, Version};
use crate::sema::{Graph, collect_named, named_in};
use crate::source::{SourceId, Sources, Span};

use pairs::{At, Comparison, Stop, Unread};
use view::Use;

/// What an extension adds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A value of an enum that chooses an arm.
    Value,
    /// An arm of a union: a message type's body.
    Arm,
    /// A flag bit.
    Flag,
    /// A constant, or a member of an enum that no message has.
    Constant,
    /// A type.
    Type,
    /// A program.
    Program,
    /// A version of a program.
    Version,
    /// A procedure.
    Procedure,
}

/// One thing that an extension adds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Addition {
    /// What it is.
    pub kind: Kind,
    /// What it is added to, or its own name.
    pub name: String,
    /// What was added, as XDR.
    pub text: String,
    /// Where it stands.
    pub span: Span,
}

/// A definition about which nothing is known: it, or what it would be held against, was left out of its protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotCompared {
    /// Its name; empty where it cannot be told.
    pub name: String,
    /// Why not.
    pub why: String,
    /// Where it stands, or where what is wrong with it stands.
    pub span: Span,
}

/// What can be said of two protocols.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The new one is a compatible extension of the base.
    Extension,
    /// It breaks the rules.
    Breach,
    /// Nothing is wrong with what could be read, and not all could be.
    Unknown,
}

/// What a comparison gives.
#[derive(Clone, Debug, Default)]
pub struct Compat {
    /// What is wrong with the documents themselves. After an error nothing was compared.
    pub diagnostics: Vec<Diagnostic>,
    /// Each breach of the rules, `X500` to `X513`, with its place in both protocols.
    pub breaches: Vec<Diagnostic>,
    /// What it adds, in the order of the places.
    pub additions: Vec<Addition>,
    /// What could not be compared, in the order of the places.
    pub not_compared: Vec<NotCompared>,
}

impl Compat {
    /// What can be said. Nothing can of documents with errors.
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

/// What was left out of documents, each definition once.
pub(crate) fn left_out(found: &[Diagnostic]) -> Vec<NotCompared> {
    let mut said = HashSet::default();
    let mut all = Vec::new();
    for found in found {
        let Some(left_out) = &found.left_out else { continue };
        let span = found.primary.span;
        if left_out.name.is_empty() || said.insert((span.source, left_out.name.as_str())) {
            all.push(NotCompared { name: left_out.name.clone(), why: found.message.clone(), span });
        }
    }
    all
}

/// Compares two protocols, each of one or more documents that are compiled together. In `new`, a definition may take
/// the place of an earlier document's: whether it extends it is what is asked here.
#[must_use]
pub fn compat(sources: &Sources, base: &[SourceId], new: &[SourceId], options: &Options) -> Compat {
    let (old, mut diagnostics) = generate::resolved(sources, base, options, false);
    let (with, more) = generate::resolved(sources, new, options, true);
    diagnostics.extend(more.iter().cloned());
    if diag::has_errors(&diagnostics) {
        return Compat { diagnostics, ..Compat::default() };
    }
    let mut comparison = Comparison::new(&old, &with);
    comparison.unread = Unread::of(&more);
    compare(&mut comparison);
    let mut not_compared = left_out(&diagnostics);
    not_compared.append(&mut comparison.not_compared);
    not_compared.sort_by_key(|one| (one.span.source, one.span.start));
    let (mut breaches, mut additions) = comparison.into_found();
    diag::sort(&mut breaches);
    // That a value has no arm is a breach where it is new, and else not what was asked.
    diagnostics.retain(|found| found.code != "X214");
    additions.sort_by_key(|addition| (addition.span.source, addition.span.start));
    Compat { diagnostics, breaches, additions, not_compared }
}

/// The breaches in those types of a base that stand in documents before `before`. Documents of one run use one
/// another's names, so members keep theirs.
pub(crate) fn breaches_before(base: &Module, new: &Module, before: SourceId) -> Vec<Diagnostic> {
    let named = by_name(new);
    let mut comparison = Comparison::new(base, new);
    for (id, ty) in typed(base).filter(|(_, ty)| ty.docs.span.source < before) {
        if let Some(&(other, with)) = named.get(ty.name.as_str()) {
            if is_enum(ty) && is_enum(with) {
                comparison.kept_values(id, other);
                comparison.kept_names(id, other);
            } else {
                comparison.types(id, other, At::types(ty, with));
            }
        }
    }
    comparison.into_found().0
}

fn typed(module: &Module) -> impl Iterator<Item = (TypeId, &TypeDef)> {
    module.types.iter().enumerate().map(|(index, ty)| (TypeId(index), ty))
}

fn by_name(module: &Module) -> HashMap<&str, (TypeId, &TypeDef)> {
    typed(module).map(|(id, ty)| (ty.name.as_str(), (id, ty))).collect()
}

fn compare(comparison: &mut Comparison<'_>) {
    let (base, new) = (comparison.base, comparison.new);
    messages(comparison);
    programs(comparison);
    constants(comparison);
    // What is merely defined shows what an extension brings; a body in place is seen with what it stands in.
    let known = by_name(base);
    for ty in new.types.iter().filter(|ty| !known.contains_key(ty.name.as_str()) && !ty.name.contains('.')) {
        let addition =
            Addition { kind: Kind::Type, name: ty.name.clone(), text: String::new(), span: ty.docs.span };
        comparison.additions.push(addition);
    }
}

// ---- types

/// Types that nothing else is made of: what is sent as a whole. Of types that lead to one another only, the first.
fn whole(module: &Module) -> Vec<TypeId> {
    let graph = Graph::of_all_uses(module);
    let mut parts = HashSet::default();
    for (id, ty) in typed(module) {
        let used = named_in(&ty.body).into_iter().map(|used| graph.circle(used));
        parts.extend(used.filter(|used| *used != graph.circle(id)));
    }
    let mut named = Vec::new();
    for procedure in procedures(module) {
        collect_named(&procedure.arguments, &mut named);
        collect_named(&procedure.result, &mut named);
    }
    parts.extend(named.into_iter().map(|id| graph.circle(id)));
    typed(module).map(|(id, _)| id).filter(|id| parts.insert(graph.circle(*id))).collect()
}

fn procedures(module: &Module) -> impl Iterator<Item = &Procedure> {
    let versions = module.programs.iter().flat_map(|program| &program.versions);
    versions.flat_map(|version| &version.procedures)
}

/// How many types of another name are tried for one that is gone.
const TRIED: usize = 4;

fn messages(comparison: &mut Comparison<'_>) {
    let (base, new) = (comparison.base, comparison.new);
    let (named, known) = (by_name(new), by_name(base));
    let mut others: HashMap<Parts, Vec<TypeId>> = HashMap::default();
    let unknown = |id: &TypeId| new.get(*id).is_some_and(|ty| !known.contains_key(ty.name.as_str()));
    for id in whole(new).into_iter().filter(unknown) {
        others.entry(parts(new, id)).or_default().push(id);
    }
    for id in whole(base) {
        let Some(ty) = base.get(id) else { continue };
        match named.get(ty.name.as_str()) {
            // Nothing on the wire is of this type: its members are but names for numbers.
            Some((other, _)) if is_enum(ty) && is_enum_at(new, *other) => members(comparison, id, *other),
            Some((other, with)) => comparison.types(id, *other, At::types(ty, with)),
            None if is_enum(ty) => {}
            None if is_called_otherwise(comparison, id, &others) => {}
            // That it was left out is said where it stands.
            None if comparison.unread.names.contains(&ty.name) => {}
            None if !comparison.unread.names.is_empty() => {
                let why = "nothing that could be read in the new protocol has its name or its layout";
                comparison.cannot(&ty.name, why, ty.docs.span);
            }
            None => {
                let error = Diagnostic::error("X500", ty.docs.span, format!("`{}` is gone", ty.name));
                let error =
                    error.with_label("defined in the base; nothing in the new protocol has its layout");
                comparison.found.push(error.with_help("what was valid must stay valid"));
            }
        }
    }
}

fn is_enum(ty: &TypeDef) -> bool {
    matches!(ty.body, Body::Enum(_))
}

fn is_enum_at(module: &Module, id: TypeId) -> bool {
    module.get(id).is_some_and(is_enum)
}

/// What two types of one layout have in common at least: the kind, and how many parts a struct has.
type Parts = (Option<Discriminant<Body>>, usize);

fn parts(module: &Module, id: TypeId) -> Parts {
    let body = module.get(id).map(|ty| &ty.body);
    let count = match body {
        Some(Body::Struct(fields)) => fields.len(),
        _ => 0,
    };
    (body.map(std::mem::discriminant), count)
}

/// Whether the new protocol has a type under another name that extends the one of the base.
fn is_called_otherwise(
    comparison: &mut Comparison<'_>,
    id: TypeId,
    others: &HashMap<Parts, Vec<TypeId>>,
) -> bool {
    let (base, new) = (comparison.base, comparison.new);
    let alike = others.get(&parts(base, id)).map_or(&[][..], Vec::as_slice);
    alike.iter().take(TRIED).any(|other| {
        let (Some(ty), Some(with)) = (base.get(id), new.get(*other)) else { return false };
        let mut trial = Comparison::within(base, new, comparison.left, Stop::AtBreach);
        trial.types(id, *other, At::types(ty, with));
        comparison.left = trial.left;
        if trial.found.is_empty() {
            comparison.additions.append(&mut trial.additions);
        }
        trial.found.is_empty()
    })
}

// ---- programs

fn programs(comparison: &mut Comparison<'_>) {
    let (base, new) = (comparison.base, comparison.new);
    let others: HashMap<u32, &Program> = new.programs.iter().map(|one| (one.number, one)).collect();
    for program in &base.programs {
        match others.get(&program.number) {
            Some(other) => versions(comparison, program, other),
            None => gone(comparison, "program", &program.name, program.docs.span, None),
        }
    }
    let known: HashSet<u32> = base.programs.iter().map(|program| program.number).collect();
    for program in new.programs.iter().filter(|program| !known.contains(&program.number)) {
        let text = program.number.to_string();
        add(comparison, Kind::Program, &program.name, text, program.docs.span);
    }
}

fn versions<'m>(comparison: &mut Comparison<'m>, base: &'m Program, new: &'m Program) {
    let others: HashMap<u32, &Version> = new.versions.iter().map(|one| (one.number, one)).collect();
    for version in &base.versions {
        match others.get(&version.number) {
            Some(other) => all_procedures(comparison, version, other),
            None => gone(comparison, "version", &version.name, version.docs.span, Some(new.docs.span)),
        }
    }
    let known: HashSet<u32> = base.versions.iter().map(|version| version.number).collect();
    for version in new.versions.iter().filter(|version| !known.contains(&version.number)) {
        let text = format!("{} = {}", version.name, version.number);
        add(comparison, Kind::Version, &new.name, text, version.docs.span);
    }
}

fn all_procedures<'m>(comparison: &mut Comparison<'m>, base: &'m Version, new: &'m Version) {
    let by_number: HashMap<u32, &Procedure> = new.procedures.iter().map(|one| (one.number, one)).collect();
    for procedure in &base.procedures {
        let Some(other) = by_number.get(&procedure.number) else {
            gone(comparison, "procedure", &procedure.name, procedure.docs.span, Some(new.docs.span));
            continue;
        };
        let at = |part| At { owner: &procedure.name, part, base: procedure.docs.span, new: other.docs.span };
        comparison.compare(Use::of(&procedure.arguments), Use::of(&other.arguments), at("arguments"));
        comparison.compare(Use::of(&procedure.result), Use::of(&other.result), at("result"));
    }
    let known: HashSet<u32> = base.procedures.iter().map(|procedure| procedure.number).collect();
    for procedure in new.procedures.iter().filter(|procedure| !known.contains(&procedure.number)) {
        let text = procedure.docs.declaration.clone();
        add(comparison, Kind::Procedure, &new.name, text, procedure.docs.span);
    }
}

fn add(comparison: &mut Comparison<'_>, kind: Kind, name: &str, text: String, span: Span) {
    comparison.additions.push(Addition { kind, name: name.to_owned(), text, span });
}

/// What has a number, and nothing in the new protocol has that.
fn gone(comparison: &mut Comparison<'_>, what: &str, name: &str, base: Span, new: Option<Span>) {
    if comparison.unread.programs {
        let why = format!("no {what} that could be read in the new protocol has its number");
        return comparison.cannot(name, &why, base);
    }
    let message = format!("the {what} `{name}` is gone: its number is nowhere");
    comparison.found.push(match new {
        Some(new) => Diagnostic::error("X513", new, message)
            .with_label("not in here")
            .with_related(base, "in the base"),
        None => Diagnostic::error("X513", base, message).with_label("defined in the base"),
    });
}

// ---- constants

/// A name for a number: a constant, or a member of an enum that no message has.
#[derive(Clone, Copy)]
struct Name<'m> {
    name: &'m str,
    value: i128,
    span: Span,
}

fn constants(comparison: &mut Comparison<'_>) {
    fn of(module: &Module) -> Vec<Name<'_>> {
        module
            .consts
            .iter()
            .map(|one| Name { name: &one.name, value: one.value, span: one.docs.span })
            .collect()
    }
    let (old, with) = (of(comparison.base), of(comparison.new));
    names(comparison, &old, &with, "");
}

fn members(comparison: &mut Comparison<'_>, base: TypeId, new: TypeId) {
    fn of(module: &Module, id: TypeId) -> Vec<Name<'_>> {
        let Some(TypeDef { body: Body::Enum(members), .. }) = module.get(id) else { return Vec::new() };
        members
            .iter()
            .map(|one| Name { name: &one.name, value: one.value.into(), span: one.docs.span })
            .collect()
    }
    let (old, with) = (of(comparison.base, base), of(comparison.new, new));
    let owner = comparison.base.get(base).map_or("", |ty| ty.name.as_str());
    names(comparison, &old, &with, owner);
}

/// Compares names for numbers. Those that are gone are on no wire; those that stay keep their numbers. A flag is a new
/// bit of its word. Members of an enum `owner` are flags together; a constant is one that says so in its name.
fn names(comparison: &mut Comparison<'_>, base: &[Name<'_>], new: &[Name<'_>], owner: &str) {
    let old: HashMap<&str, &Name<'_>> = base.iter().map(|one| (one.name, one)).collect();
    let mut taken: HashMap<(&str, u64), &Name<'_>> = HashMap::default();
    for (first, bit) in base.iter().filter_map(|one| Some((one, u64::try_from(one.value).ok()?))) {
        if let Some(word) = flag_word(first.name, owner).filter(|_| bit.is_power_of_two()) {
            taken.entry((word, bit)).or_insert(first);
        }
    }
    for one in new {
        match old.get(one.name) {
            Some(first) if first.value == one.value => {}
            Some(first) => {
                let message = format!("`{}` was {} and is {}", one.name, first.value, one.value);
                let error = Diagnostic::error("X511", one.span, message).with_label("the new value");
                comparison.found.push(error.with_related(first.span, "in the base"));
            }
            None => {
                let word = flag_word(one.name, owner);
                let own = flag_bits(one, owner);
                let first = own.iter().find_map(|bit| taken.get(&(word?, *bit)));
                if let Some(first) = first {
                    let message = format!("the flag `{}` has the bit of `{}`", one.name, first.name);
                    let error = Diagnostic::error("X512", one.span, message).with_label("the same bit");
                    comparison.found.push(error.with_related(first.span, "taken in the base"));
                    continue;
                }
                let kind = if word.is_some() && !own.is_empty() { Kind::Flag } else { Kind::Constant };
                let text = format!("{} = {}", one.name, one.value);
                add(comparison, kind, owner, text, one.span);
            }
        }
    }
}

/// The bits that a new name for a number takes, as a flag. A number of several bits is a flag only if its name says so:
/// an enum that no message has may count as well.
fn flag_bits(one: &Name<'_>, owner: &str) -> Vec<u64> {
    let value = u64::try_from(one.value).unwrap_or(0);
    let says_so = flag_word(one.name, "").is_some();
    if !says_so && (owner.is_empty() || !value.is_power_of_two()) {
        return Vec::new();
    }
    (0..u64::BITS).map(|bit| 1 << bit).filter(|bit| value & bit != 0).collect()
}

/// The word that a flag is a bit of: the enum, or what a constant's name says up to `FLAG`.
fn flag_word<'n>(name: &'n str, owner: &'n str) -> Option<&'n str> {
    if !owner.is_empty() {
        return Some(owner);
    }
    let mut end = 0;
    for word in name.split('_') {
        end += word.len();
        if word.eq_ignore_ascii_case("FLAG") || word.eq_ignore_ascii_case("FLAGS") {
            return name.get(..end);
        }
        end += 1;
    }
    None
}
