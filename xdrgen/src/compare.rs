//! Compares two versions of a protocol. One walk over both versions yields every [`Change`]. [`rules`] judges
//! the changes for `compat`, and `diff` prints them.

pub(crate) mod rules;
mod view;
mod walk;
mod written;

use std::collections::{BTreeMap, VecDeque};
use std::hash::Hash;

use crate::diag::Part;
use crate::graph::Graph;
use crate::hash::{HashMap, HashSet};
use crate::hir::{Arm, Body, Const, Docs, Field, Hir, Member, Procedure, Program, TypeDef, TypeId, Version};
use crate::source::{SourceId, Span};

use view::{Use, View};
use walk::{Stop, Walk};

/// The path of a definition or of a part, with its positions in both versions.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Path<'m> {
    /// The definition's name in the base (in the new version if the definition is added), and the names
    /// on the path to the part.
    names: [&'m str; 3],
    base: Span,
    new: Span,
}

impl<'m> Path<'m> {
    fn named(name: &'m str) -> Self {
        Path { names: [name, "", ""], ..Path::default() }
    }

    fn part(mut self, name: &'m str) -> Self {
        if let Some(place) = self.names.iter_mut().find(|name| name.is_empty()) {
            *place = name;
        }
        self
    }

    pub(crate) fn name(&self) -> String {
        let names: Vec<&str> = self.names.into_iter().filter(|name| !name.is_empty()).collect();
        names.join(".")
    }
}

/// The effect of a change on messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// No effect: messages contain neither names nor typedefs.
    Unsent,
    /// The encoding of the definition changed, but no message contains the definition in the same position
    /// in both versions.
    Definition,
    /// Messages change.
    Message,
}

/// A definition, or a part of a definition, in one version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Side {
    /// The text that `diff` shows: a declaration, a value or a name.
    pub text: String,
    /// The position.
    pub span: Span,
}

fn side(text: impl Into<String>, docs: &Docs) -> Option<Side> {
    Some(Side { text: text.into(), span: docs.span })
}

#[derive(Debug)]
pub(crate) struct Change<'m> {
    pub(crate) path: Path<'m>,
    pub(crate) kind: Kind<'m>,
    pub(crate) effect: Effect,
    /// The part in both versions, as `diff` shows it. `diff` omits the change if both sides are `None`.
    pub(crate) sides: Pair<Side>,
}

/// A part in the base and in the new version. One element is `None` if the part was added or removed.
type Pair<T> = [Option<T>; 2];

#[derive(Debug)]
pub(crate) enum Kind<'m> {
    Constant(Pair<&'m Const>),
    /// A definition. The flag is true if `compat` judges the change: the definition is a removed message, or
    /// a new type that does not replace a removed type.
    Type(Pair<&'m TypeDef>, bool),
    /// A member of an enum. The ids are those of the enum in the base and in the new version.
    Member((TypeId, TypeId), Pair<&'m Member>),
    /// An arm that only one of two unions has: its value (`None` for the default arm), the arm, and the
    /// base's default arm. The flag is true if the other union's enum or bool has the value. For a default
    /// arm or an integer discriminant, the flag is true only if the arm was removed.
    Arm(Option<i128>, Pair<&'m Arm>, Option<&'m Arm>, bool),
    /// A program, a version or a procedure, with the name of its container in the new version
    /// (empty for a program).
    Number(Pair<Number<'m>>, &'m str),
    /// A change in how a definition, field, discriminant or arm is declared. The string is the kind of the
    /// part: `struct`, `field` and so on.
    Written(&'static str),
    /// A changed wire form: the form in the base and the form in the new version.
    Form(View<'m>, View<'m>),
    /// `bound` or `length`, the value in the base, and the value in the new version.
    Bound(&'static str, u32, u32),
    /// A field in only one of two structs with different layouts. The flag is true if the field was added,
    /// and false if it was removed.
    Part(&'m Field, bool),
    /// The number of fields in each of two structs.
    Parts(usize, usize),
    /// The walk reached its limit on pairs of types.
    TooDifferent,
}

/// A program, a version or a procedure: its kind, name, number and documentation.
type Number<'m> = (Part, &'m str, u32, &'m Docs);

impl Kind<'_> {
    /// Returns the kind of the part: `constant`, `struct`, `member` and so on. Returns an empty string for a
    /// change that `diff` does not show.
    pub(crate) fn what(&self) -> &'static str {
        match self {
            Kind::Constant(_) => "constant",
            Kind::Type([one, other], _) => one.or(*other).map_or("", kind),
            Kind::Member(..) => "member",
            Kind::Arm(..) => "arm",
            Kind::Number([one, other], _) => one.or(*other).map_or("", |(part, ..)| part.name()),
            Kind::Written(what) => what,
            Kind::Form(..) | Kind::Bound(..) | Kind::Part(..) | Kind::Parts(..) | Kind::TooDifferent => "",
        }
    }
}

/// All changes, and the uses of enums in messages of both versions.
pub(crate) struct Compared<'m> {
    pub(crate) changes: Vec<Change<'m>>,
    uses: HashMap<(TypeId, TypeId), EnumUses<'m>>,
}

/// The uses of an enum in messages.
#[derive(Default)]
struct EnumUses<'m> {
    /// The first use that does not select a union's arm.
    plain: Option<Path<'m>>,
    /// The unions with this enum as the discriminant: for each, the base's default arm, the new version's
    /// arms, and the path.
    unions: Vec<(Option<&'m Arm>, Arms<'m>, Path<'m>)>,
}

/// The arms of a union by the numbers that select them. The key of the default arm is `None`.
type Arms<'m> = BTreeMap<Option<i128>, &'m Arm>;

pub(crate) fn compare<'m>(base: &'m Hir, new: &'m Hir) -> Compared<'m> {
    let mut walk = Walk::new(base, new, Stop::Never);
    let removed = walk.messages();
    walk.programs();
    walk.in_messages = false;
    walk.constants();
    walk.definitions(&removed);
    walk.found()
}

/// Compares types of the base with the new types of the same names. Considers only types of the documents
/// that precede the document `before`.
fn compare_before<'m>(base: &'m Hir, new: &'m Hir, before: SourceId) -> Compared<'m> {
    let named = by_name(new);
    let mut walk = Walk::new(base, new, Stop::Never);
    for (id, ty) in base.typed().filter(|(_, ty)| ty.docs.span.source < before) {
        let Some(&other) = named.get(ty.name.as_str()) else { continue };
        if is_enum(base, id) && is_enum(new, other) {
            walk.members(id, other);
        } else {
            walk.compare(Use::Id(id), Use::Id(other), walk.types(id, other));
        }
    }
    walk.found()
}

fn by_name(hir: &Hir) -> HashMap<&str, TypeId> {
    hir.typed().map(|(id, ty)| (ty.name.as_str(), id)).collect()
}

fn is_enum(hir: &Hir, id: TypeId) -> bool {
    matches!(hir.get(id), Some(TypeDef { body: Body::Enum(_), .. }))
}

fn kind(ty: &TypeDef) -> &'static str {
    match ty.body {
        Body::Alias(_) => "typedef",
        Body::Enum(_) => "enum",
        Body::Struct(_) | Body::Tuple(_) => "struct",
        Body::Union(_) => "union",
    }
}

/// Maximum number of characters of a declaration in the output.
const SHOWN: usize = 100;

/// Returns a declaration on one line, without comments, truncated to [`SHOWN`] characters.
fn line(docs: &Docs) -> String {
    let mut bare = String::new();
    let mut rest = docs.declaration.as_str();
    while let Some((before, after)) = rest.split_once("/*") {
        bare.push_str(before);
        rest = after.split_once("*/").map_or("", |(_, after)| after);
    }
    bare.push_str(rest);
    let code = bare.lines().map(|line| line.split_once("//").map_or(line, |(code, _)| code));
    let line = code.flat_map(str::split_whitespace).collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{} ...", line.get(..end).unwrap_or("")),
        None => line,
    }
}

/// Returns the types that no other type and no procedure uses: these count as messages. From a cycle of
/// types that nothing outside the cycle uses, returns only the first type.
fn roots(hir: &Hir) -> Vec<TypeId> {
    let graph = Graph::of_all_uses(hir);
    let mut parts = HashSet::default();
    for (id, ty) in hir.typed() {
        let used = ty.body.types().filter_map(|ty| ty.named()).map(|used| graph.cycle(used));
        parts.extend(used.filter(|used| *used != graph.cycle(id)));
    }
    let sent = hir.procedures().flat_map(|one| [&one.arguments, &one.result]);
    parts.extend(sent.filter_map(|ty| ty.named()).map(|id| graph.cycle(id)));
    hir.typed().map(|(id, _)| id).filter(|id| parts.insert(graph.cycle(*id))).collect()
}

/// Maximum number of new types that are tried as the renamed form of a missing type.
const MAX_CANDIDATES: usize = 4;

/// Pairs old types with new types of the same shape: the kind of body and, for a struct, the number of
/// fields. Tries up to [`MAX_CANDIDATES`] new types for each old type and takes the first that `is_similar`
/// accepts.
fn find_similar(
    [base, new]: [&Hir; 2],
    olds: &[TypeId],
    news: &[TypeId],
    mut is_similar: impl FnMut(TypeId, TypeId) -> bool,
) -> HashMap<TypeId, TypeId> {
    let shape = |hir: &Hir, id: TypeId| {
        let fields = |body: &Body| if let Body::Struct(fields) = body { fields.len() } else { 0 };
        hir.get(id).map(|ty| (std::mem::discriminant(&ty.body), fields(&ty.body)))
    };
    let mut others: HashMap<_, VecDeque<TypeId>> = HashMap::default();
    for id in news {
        others.entry(shape(new, *id)).or_default().push_back(*id);
    }
    let mut pairs = HashMap::default();
    for id in olds {
        let Some(others) = others.get_mut(&shape(base, *id)) else { continue };
        let found = others.iter().take(MAX_CANDIDATES).position(|other| is_similar(*id, *other));
        pairs.extend(found.and_then(|at| others.remove(at)).map(|other| (*id, other)));
    }
    pairs
}

/// Pairs the parts of two versions. `of` returns two keys for a part: parts are paired by the first key, and
/// the remaining parts by the second key.
fn matched<'a, T, K: Copy + Eq + Hash, L: Copy + Eq + Hash>(
    old: &'a [T],
    new: &'a [T],
    of: impl Fn(&'a T) -> (K, L),
) -> Vec<Pair<&'a T>> {
    let key = |one: &'a T| of(one).0;
    let keyed: HashMap<K, &T> = new.iter().map(|one| (key(one), one)).collect();
    let before: HashSet<K> = old.iter().map(key).collect();
    let is_new = |one: &&'a T| !before.contains(&key(one));
    let mut others = HashMap::default();
    for one in new.iter().filter(is_new) {
        others.entry(of(one).1).or_insert(one);
    }
    let mut taken = HashSet::default();
    let mut pairs = Vec::new();
    for one in old {
        let other = keyed.get(&key(one)).copied().or_else(|| others.remove(&of(one).1));
        taken.extend(other.map(key));
        pairs.push([Some(one), other]);
    }
    let added = new.iter().filter(|one| is_new(one) && !taken.contains(&key(one)));
    pairs.extend(added.map(|one| [None, Some(one)]));
    pairs
}

impl<'m> Walk<'m> {
    /// Compares messages. Returns the messages of the base that are missing from the new version.
    fn messages(&mut self) -> HashSet<TypeId> {
        let (base, new) = (self.base, self.new);
        let (named, known) = (by_name(new), by_name(base));
        let is_new = |id: &TypeId| !known.contains_key(view::name(new, *id));
        let others: Vec<TypeId> = roots(new).into_iter().filter(is_new).collect();
        // If no message contains an enum, the enum only gives names to numbers. A removed typedef is not a
        // message.
        let is_message = |id: &TypeId| {
            base.get(*id).is_some_and(|ty| match named.get(ty.name.as_str()) {
                Some(other) => !is_enum(base, *id) || !is_enum(new, *other),
                None => !matches!(ty.body, Body::Enum(_) | Body::Alias(_)),
            })
        };
        let messages: Vec<TypeId> = roots(base).into_iter().filter(is_message).collect();
        let is_removed = |id: &TypeId| !named.contains_key(view::name(base, *id));
        let mut removed: Vec<TypeId> = messages.iter().copied().filter(is_removed).collect();
        let renamed = find_similar([base, new], &removed, &others, |old, new| {
            !self.trial(Use::Id(old), Use::Id(new), Stop::AtBreach).is_over
        });
        removed.retain(|id| !renamed.contains_key(id));
        for id in messages {
            if let Some(other) = named.get(view::name(base, id)).or_else(|| renamed.get(&id)) {
                self.compare(Use::Id(id), Use::Id(*other), self.types(id, *other));
            }
        }
        removed.into_iter().collect()
    }

    fn programs(&mut self) {
        for [old, new] in matched(&self.base.programs, &self.new.programs, |one| (one.number, &*one.name)) {
            self.in_messages = true;
            let number = |one: &'m Program| (Part::Program, &*one.name, one.number, &one.docs);
            let path = self.number(Path::default(), [old, new].map(|one| one.map(number)), "", false);
            let (Some(program), Some(new)) = (old, new) else { continue };
            let path = Path { new: new.docs.span, ..path };
            for [old, with] in matched(&program.versions, &new.versions, |one| (one.number, &*one.name)) {
                self.in_messages = program.number == new.number;
                let number = |one: &'m Version| (Part::Version, &*one.name, one.number, &one.docs);
                let path = self.number(path, [old, with].map(|one| one.map(number)), &new.name, false);
                if let (Some(old), Some(new)) = (old, with) {
                    self.in_messages &= old.number == new.number;
                    self.procedures(Path { new: new.docs.span, ..path }, old, new);
                }
            }
        }
    }

    fn procedures(&mut self, path: Path<'m>, old: &'m Version, new: &'m Version) {
        for [old, with] in matched(&old.procedures, &new.procedures, |one| (one.number, &*one.name)) {
            let mut differs = false;
            if let (Some(old), Some(new)) = (old, with) {
                let at = Path { names: [&old.name, "", ""], base: old.docs.span, new: new.docs.span };
                let parts =
                    [("arguments", &old.arguments, &new.arguments), ("result", &old.result, &new.result)];
                for (part, one, other) in parts {
                    let (one, other) = (Use::Type(one), Use::Type(other));
                    differs |= !self.same(one, other);
                    if self.in_messages && old.number == new.number {
                        self.compare(one, other, at.part(part));
                    }
                }
            }
            let number = |one: &'m Procedure| (Part::Procedure, &*one.name, one.number, &one.docs);
            self.number(path, [old, with].map(|one| one.map(number)), &new.name, differs);
        }
    }

    /// Adds a change if a program, a version or a procedure differs between the two protocols. Returns the
    /// path of the program, version or procedure.
    fn number(
        &mut self,
        within: Path<'m>,
        [old, new]: Pair<Number<'m>>,
        new_name: &'m str,
        differs: bool,
    ) -> Path<'m> {
        let path = within.part(old.or(new).map_or("", |(_, name, ..)| name));
        let wire = differs || old.map(|(_, _, number, _)| number) != new.map(|(_, _, number, _)| number);
        let text = |(part, name, number, docs): Number<'_>| match part {
            Part::Procedure => docs.declaration.clone(),
            _ => format!("{name} = {number}"),
        };
        if wire || old.map(text) != new.map(text) {
            let sides = [old, new].map(|one| one.and_then(|one| side(text(one), one.3)));
            self.emit(path, Kind::Number([old, new], new_name), wire, sides);
        }
        path
    }

    fn constants(&mut self) {
        for [old, new] in matched(&self.base.consts, &self.new.consts, |one| (&*one.name, &*one.name)) {
            let path = Path::named(old.or(new).map_or("", |one| &one.name));
            if old.map(|one| one.value) != new.map(|one| one.value) {
                let sides = [old, new].map(|one| one.and_then(|one| side(one.value.to_string(), &one.docs)));
                self.emit(path, Kind::Constant([old, new]), old.is_some() && new.is_some(), sides);
            }
        }
    }

    /// Compares the types with equal names that were not compared as parts of messages. Adds a change for
    /// each definition that was added, removed or renamed. `removed` contains the removed messages.
    fn definitions(&mut self, removed: &HashSet<TypeId>) {
        let (base, new) = (self.base, self.new);
        let (known, named) = (by_name(base), by_name(new));
        for (id, ty) in base.typed() {
            let other = named.get(ty.name.as_str()).filter(|other| !self.bodies.contains(&(id, **other)));
            other.into_iter().for_each(|other| self.definition(id, *other));
        }
        // A body in place of a type name is added or removed together with the definition that contains it.
        let unmatched = |hir: &Hir, others: &HashMap<&str, TypeId>| -> Vec<TypeId> {
            let has = |name: &str| others.contains_key(name);
            let is_alone =
                |name: &str| !has(name) && name.rsplit_once('.').is_none_or(|(owner, _)| has(owner));
            hir.typed().filter(|(_, ty)| is_alone(&ty.name)).map(|(id, _)| id).collect()
        };
        let (olds, news) = (unmatched(base, &named), unmatched(new, &known));
        let renamed =
            find_similar([base, new], &olds, &news, |old, new| self.same(Use::Id(old), Use::Id(new)));
        let is_removed = |id: TypeId| !named.contains_key(view::name(base, id));
        let used: HashSet<TypeId> =
            self.bodies.iter().filter(|(old, _)| is_removed(*old)).map(|(_, new)| *new).collect();
        let taken: HashSet<TypeId> = renamed.values().copied().collect();
        let olds = olds.into_iter().map(|id| ([Some(id), renamed.get(&id).copied()], removed.contains(&id)));
        let news = news.into_iter().filter(|id| !taken.contains(id));
        for ([old, new_id], is_judged) in olds.chain(news.map(|id| ([None, Some(id)], !used.contains(&id)))) {
            let pair = [old.and_then(|id| base.get(id)), new_id.and_then(|id| new.get(id))];
            let is_renamed = old.is_some() && new_id.is_some();
            let text = |ty: &TypeDef| if is_renamed { ty.name.clone() } else { line(&ty.docs) };
            let sides = pair.map(|ty| ty.and_then(|ty| side(text(ty), &ty.docs)));
            let ([Some(ty), _] | [None, Some(ty)]) = pair else { continue };
            let wire = !is_renamed && !matches!(ty.body, Body::Alias(_));
            self.emit(Path::named(&ty.name), Kind::Type(pair, is_judged), wire, sides);
        }
    }
}
