//! Two protocols side by side: what is sent by the one and by the other.

mod change;
pub(crate) mod layouts;
mod pairs;
pub(crate) mod view;

use crate::diag::Diagnostic;
use crate::graph::Graph;
use crate::hash::{HashMap, HashSet};
use crate::hir::{Body, Hir, Procedure, Program, TypeDef, TypeId, Version};
use crate::source::{SourceId, Span};

use layouts::{Parts, TRIED, parts};
use pairs::{At, Comparison, Stop};
use view::Use;

pub use change::{Addition, Kind, NotCompared, Rules};
pub(crate) use pairs::Unread;

/// What a comparison finds.
pub(crate) struct Compared {
    pub(crate) breaches: Vec<Diagnostic>,
    pub(crate) additions: Vec<Addition>,
    pub(crate) not_compared: Vec<NotCompared>,
}

/// Compares all of two protocols. Of what is gone nothing is known if it may have been left out of the new one.
pub(crate) fn compare(base: &Hir, new: &Hir, rules: Rules, unread: Unread) -> Compared {
    let mut comparison = Comparison::new(base, new, rules);
    comparison.unread = unread;
    messages(&mut comparison);
    programs(&mut comparison);
    constants(&mut comparison);
    added_types(&mut comparison);
    let not_compared = std::mem::take(&mut comparison.not_compared);
    let (breaches, additions) = comparison.into_found();
    Compared { breaches, additions, not_compared }
}

/// The breaches in those types of a base that stand in documents before `before`. Documents of one run use one
/// another's names, so members keep theirs.
pub(crate) fn breaches_before(base: &Hir, new: &Hir, before: SourceId) -> Vec<Diagnostic> {
    let named = by_name(new);
    let mut comparison = Comparison::new(base, new, Rules::default());
    for (id, ty) in base.typed().filter(|(_, ty)| ty.docs.span.source < before) {
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

fn by_name(hir: &Hir) -> HashMap<&str, (TypeId, &TypeDef)> {
    hir.typed().map(|(id, ty)| (ty.name.as_str(), (id, ty))).collect()
}

/// What is merely defined shows what an extension brings; a body in place is seen with what it stands in.
fn added_types(comparison: &mut Comparison<'_>) {
    let (known, named) = (by_name(comparison.base), by_name(comparison.new));
    let is_gone =
        |id: TypeId| comparison.base.get(id).is_some_and(|ty| !named.contains_key(ty.name.as_str()));
    let renamed: HashSet<TypeId> =
        comparison.bodies.iter().filter(|(base, _)| is_gone(*base)).map(|(_, new)| *new).collect();
    for (id, ty) in comparison.new.typed() {
        if known.contains_key(ty.name.as_str()) || ty.name.contains('.') || renamed.contains(&id) {
            continue;
        }
        let addition =
            Addition { kind: Kind::Type, name: ty.name.clone(), text: String::new(), span: ty.docs.span };
        comparison.additions.push(addition);
    }
}

// ---- types

/// Types that nothing else is made of: what is sent as a whole. Of types that lead to one another only, the first.
fn whole(hir: &Hir) -> Vec<TypeId> {
    let graph = Graph::of_all_uses(hir);
    let mut parts = HashSet::default();
    for (id, ty) in hir.typed() {
        let used = ty.body.types().filter_map(|ty| ty.named()).map(|used| graph.circle(used));
        parts.extend(used.filter(|used| *used != graph.circle(id)));
    }
    let sent = hir.procedures().flat_map(|one| [&one.arguments, &one.result]);
    parts.extend(sent.filter_map(|ty| ty.named()).map(|id| graph.circle(id)));
    hir.typed().map(|(id, _)| id).filter(|id| parts.insert(graph.circle(*id))).collect()
}

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
            // Nothing is made of it, and its name is not sent.
            None if matches!(ty.body, Body::Alias(_)) => {}
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

fn is_enum_at(hir: &Hir, id: TypeId) -> bool {
    hir.get(id).is_some_and(is_enum)
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
        let mut trial = Comparison::within(base, new, comparison.rules, comparison.left, Stop::AtBreach);
        trial.types(id, *other, At::types(ty, with));
        comparison.left = trial.left;
        let extends = trial.found.is_empty();
        if extends {
            comparison.additions.append(&mut trial.additions);
            comparison.bodies.extend(trial.bodies);
        }
        extends
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
        comparison.compare(Use::Type(&procedure.arguments), Use::Type(&other.arguments), at("arguments"));
        comparison.compare(Use::Type(&procedure.result), Use::Type(&other.result), at("result"));
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
    fn of(hir: &Hir) -> Vec<Name<'_>> {
        hir.consts.iter().map(|one| Name { name: &one.name, value: one.value, span: one.docs.span }).collect()
    }
    let (old, with) = (of(comparison.base), of(comparison.new));
    names(comparison, &old, &with, "");
}

fn members(comparison: &mut Comparison<'_>, base: TypeId, new: TypeId) {
    fn of(hir: &Hir, id: TypeId) -> Vec<Name<'_>> {
        let Some(TypeDef { body: Body::Enum(members), .. }) = hir.get(id) else { return Vec::new() };
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
