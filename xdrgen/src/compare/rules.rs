//! Judges changes by [`Rules`]: finds breaches, additions, and definitions that could not be compared.

use serde::Serialize;

use super::{Change, Compared, Effect, EnumUses, Kind as Of, Number, Pair, Path, view};
use crate::diag::{BreachKind, Diagnostic, Gap, Part};
use crate::hash::{HashMap, HashSet};
use crate::hir::{Arm, Hir, Member, TypeId};
use crate::source::{SourceId, Span};

/// The kind of an addition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A value of an enum, if messages contain the enum.
    Value,
    /// An arm of a union.
    Arm,
    /// A flag.
    Flag,
    /// A constant, or a member of an enum that no message contains.
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

/// An item that an extension adds to its base.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Addition {
    /// The kind of the addition.
    pub kind: Kind,
    /// The name of the definition that is extended, or of the added type or program. Empty for a constant or
    /// a flag outside enums.
    pub name: String,
    /// The text of the addition in XDR. For a program, only its number; for a type, empty.
    pub text: String,
    /// The position.
    pub span: Span,
}

/// A definition that could not be compared, because it was omitted or its counterpart may have been omitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotCompared {
    /// The name; empty if unknown.
    pub name: String,
    pub(crate) gap: Gap,
    /// The position of the definition or of its error.
    pub span: Span,
}

impl NotCompared {
    /// Returns the reason as text. The wording may change between releases.
    #[must_use]
    pub fn why(&self) -> String {
        self.gap.to_string()
    }
}

/// The rules for extending a protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
pub enum Rules {
    /// Section 9.1 of draft-ietf-nfsv4-rfc5666bis-04: each new enum value must select an arm of a union
    /// without a default arm. An old peer can then distinguish a message with this value from a malformed
    /// message.
    #[default]
    #[cfg_attr(feature = "cli", value(name = "5666bis"))]
    Rfc5666bis,
    /// Section 4.2 of RFC 8178, for NFS version 4: enums may have new values wherever they are used, and
    /// unions without a default arm may have new arms. Programs must not have new versions or procedures.
    /// Enum values and flags must not be removed.
    #[cfg_attr(feature = "cli", value(name = "8178"))]
    Rfc8178,
}

/// Definitions that were omitted from the new protocol. A part that seems to be removed may be among them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Unread {
    /// The names of the omitted definitions. An empty string stands for an unknown name.
    names: HashSet<String>,
    /// True if programs, or parts of programs, may have been omitted.
    programs: bool,
}

impl Unread {
    pub(crate) fn of(found: &[Diagnostic]) -> Self {
        let omitted = || found.iter().filter_map(|found| found.omitted.as_ref());
        Unread {
            names: omitted().map(|one| one.name.clone()).collect(),
            programs: omitted().any(|one| one.is_program),
        }
    }
}

#[derive(Default)]
pub(crate) struct Judged {
    pub(crate) breaches: Vec<Diagnostic>,
    pub(crate) additions: Vec<Addition>,
    pub(crate) not_compared: Vec<NotCompared>,
}

/// Judges all changes between two protocols. A missing definition is not judged if it may have been
/// omitted from the new protocol.
pub(crate) fn judge(base: &Hir, new: &Hir, rules: Rules, unread: Unread) -> Judged {
    judged(base, new, super::compare(base, new), rules, unread, false)
}

/// Finds changes to types of the base that break the default rules. Considers only types of the documents
/// that precede the document `before`. Documents of one run use each other's names, so members must keep
/// their names.
pub(crate) fn breaches_before(base: &Hir, new: &Hir, before: SourceId) -> Vec<Diagnostic> {
    let compared = super::compare_before(base, new, before);
    judged(base, new, compared, Rules::default(), Unread::default(), true).breaches
}

fn judged(
    base: &Hir,
    new: &Hir,
    Compared { changes, uses }: Compared<'_>,
    rules: Rules,
    unread: Unread,
    together: bool,
) -> Judged {
    let (taken, kept, judged) = (HashMap::default(), HashMap::default(), Judged::default());
    let mut judge = Judge { base, new, uses, rules, unread, together, taken, kept, judged };
    changes.iter().for_each(|change| judge.change(change));
    judge.judged
}

struct Judge<'m> {
    base: &'m Hir,
    new: &'m Hir,
    uses: HashMap<(TypeId, TypeId), EnumUses<'m>>,
    rules: Rules,
    unread: Unread,
    /// True if the base and the new version are documents of one run.
    together: bool,
    /// The named numbers of the base: constants (key `None`), and members of enums that no message contains
    /// (key: the enum).
    taken: HashMap<Option<TypeId>, Numbers<'m>>,
    /// The named numbers of the new protocol. The keys are those of `taken`, so an enum's key is its type in
    /// the base.
    kept: HashMap<Option<TypeId>, Numbers<'m>>,
    judged: Judged,
}

impl<'m> Judge<'m> {
    fn change(&mut self, change: &Change<'m>) {
        let (path, name, base) = (&change.path, change.path.name(), change.path.base);
        match &change.kind {
            Of::Constant(pair) => {
                let names = pair.map(|one| one.map(|one| (one.name.as_str(), one.value, one.docs.span)));
                self.name(None, path, names);
            }
            Of::Type([Some(ty), _], true) => self.removed_type(&name, ty.docs.span),
            Of::Type([None, Some(ty)], true) if !name.contains('.') => {
                self.add(Kind::Type, &name, String::new(), ty.docs.span);
            }
            Of::Member(ids, pair) if self.together || self.uses.contains_key(ids) => {
                self.member(change, *ids, *pair);
            }
            // No message contains this enum: its members only give names to numbers.
            Of::Member(_, [Some(old), None]) if change.effect != Effect::Unsent => {
                if self.rules == Rules::Rfc8178 {
                    self.removed_value(path, old);
                }
            }
            Of::Member(ids, pair) => {
                let names = pair.map(|one| one.map(|one| (one.name.as_str(), one.value.into(), one.span)));
                self.name(Some(*ids), path, names);
            }
            _ if change.effect == Effect::Definition => {}
            Of::Number([Some((_, _, old, _)), Some((_, _, new, _))], _) if old == new => {}
            Of::Number(pair, within) => self.number(path, *pair, within),
            Of::Arm(value, pair, default, has_value) => self.arm(path, *value, *pair, *default, *has_value),
            Of::Form(was, is) => {
                let (was, is) = (was.form(self.base), is.form(self.new));
                self.breach(path.new, BreachKind::OtherType { of: name, was, is, base });
            }
            Of::Bound(what, was, is) => {
                self.breach(path.new, BreachKind::Size { what, of: name, was: *was, is: *is, base });
            }
            Of::Part(field, is_new) => {
                let (of, field) = (name, field.name.clone());
                self.breach(
                    path.new,
                    if *is_new {
                        BreachKind::NewField { of, field, base }
                    } else {
                        BreachKind::NoField { of, field, base }
                    },
                );
            }
            Of::Parts(was, is) => {
                self.breach(path.new, BreachKind::Parts { of: name, was: *was, is: *is, base });
            }
            Of::TooDifferent => self.breach(path.new, BreachKind::TooDifferent { base }),
            Of::Type(..) | Of::Written(_) => {}
        }
    }

    fn breach(&mut self, span: Span, kind: BreachKind) {
        self.judged.breaches.push(kind.at(span));
    }

    fn add(&mut self, kind: Kind, name: &str, text: String, span: Span) {
        self.judged.additions.push(Addition { kind, name: name.to_owned(), text, span });
    }

    fn not_compared_because(&mut self, name: &str, gap: Gap, span: Span) {
        self.judged.not_compared.push(NotCompared { name: name.to_owned(), gap, span });
    }

    fn removed_type(&mut self, name: &str, span: Span) {
        // The omission was already reported at its position.
        if self.unread.names.contains(name) {
            return;
        }
        if !self.unread.names.is_empty() {
            return self.not_compared_because(name, Gap::Type, span);
        }
        self.breach(span, BreachKind::Removed { name: name.to_owned() });
    }

    /// Judges a program, a version or a procedure that was removed, added or renumbered. Only its number
    /// counts: names are not sent.
    fn number(&mut self, path: &Path<'_>, [old, new]: Pair<Number<'m>>, within: &str) {
        if let Some((part, name, _, docs)) = old {
            if self.unread.programs {
                self.not_compared_because(name, Gap::Number(part), docs.span);
            } else {
                let is_in = path.new != Span::default();
                let (base, span) = if is_in { (Some(docs.span), path.new) } else { (None, docs.span) };
                self.breach(span, BreachKind::NumberRemoved { part, name: name.to_owned(), base });
            }
        }
        match new {
            Some((Part::Program, name, number, docs)) => {
                self.add(Kind::Program, name, number.to_string(), docs.span);
            }
            Some((part, name, _, docs)) if self.rules == Rules::Rfc8178 => {
                self.breach(docs.span, BreachKind::NewNumber { part, name: name.to_owned() });
            }
            Some((Part::Version, name, number, docs)) => {
                self.add(Kind::Version, within, format!("{name} = {number}"), docs.span);
            }
            Some((.., docs)) => self.add(Kind::Procedure, within, docs.declaration.clone(), docs.span),
            None => {}
        }
    }

    fn arm(
        &mut self,
        path: &Path<'m>,
        value: Option<i128>,
        pair: Pair<&Arm>,
        default: Option<&Arm>,
        has_value: bool,
    ) {
        let (owner, base) = (path.names[0], path.base);
        let of = owner.to_owned();
        let Some(value) = value else {
            let is_gone = pair[0].is_some();
            let kind = if is_gone {
                BreachKind::DefaultRemoved { of, base }
            } else {
                BreachKind::NewDefault { of, base }
            };
            return self.breach(path.new, kind);
        };
        match (pair, default) {
            // The removal of the value itself is reported at the enum.
            ([Some(_), _], _) if !has_value => {}
            ([Some(arm), _], _) => {
                let arm = arm.docs.declaration.clone();
                self.breach(path.new, BreachKind::ArmRemoved { of, value, arm, base });
            }
            (_, Some(default)) => {
                self.breach(path.new, BreachKind::ArmOfDefault { of, value, default: default.docs.span });
            }
            _ if has_value && self.rules == Rules::Rfc5666bis => {
                self.breach(path.new, BreachKind::ArmForOld { of, value, base });
            }
            ([_, arm], _) => {
                let text = arm.map_or_else(String::new, |arm| arm.docs.declaration.clone());
                self.add(Kind::Arm, owner, text, path.new);
            }
        }
    }

    fn member(&mut self, change: &Change<'m>, ids: (TypeId, TypeId), pair: Pair<&'m Member>) {
        let (path, of) = (&change.path, change.path.names[0].to_owned());
        let is_sent = change.effect != Effect::Unsent;
        match pair {
            [Some(old), Some(new)] if is_sent => {
                let (name, was, is, base) = (old.name.clone(), old.value, new.value, old.span);
                self.breach(new.span, BreachKind::ValueChanged { name, of, was, is, base });
            }
            [Some(old), None] if is_sent => self.removed_value(path, old),
            [Some(old), _] if self.together => {
                let name = old.name.clone();
                self.breach(path.new, BreachKind::MemberRemoved { name, of, base: path.base });
            }
            [None, Some(new)] if is_sent => self.new_value(ids, new),
            _ => {}
        }
    }

    fn removed_value(&mut self, path: &Path<'m>, member: &Member) {
        let (name, of) = (member.name.clone(), path.names[0].to_owned());
        let breach = BreachKind::ValueRemoved { name, of, value: member.value, base: member.span };
        self.breach(path.new, breach);
    }

    /// Judges a new value of an enum by the uses of the enum. For each broken rule, reports the first use
    /// that breaks the rule.
    fn new_value(&mut self, ids: (TypeId, TypeId), member: &Member) {
        let Some(uses) = self.uses.get(&ids) else { return };
        let is_strict = self.rules == Rules::Rfc5666bis;
        let mut is_added = !is_strict;
        let (mut taken, mut without) = (Vec::new(), Vec::new());
        for (default, arms, path) in &uses.unions {
            match default {
                Some(default) if !arms.contains_key(&Some(member.value.into())) => {
                    taken.push((default, path))
                }
                None if [Some(member.value.into()), None].iter().all(|value| !arms.contains_key(value)) => {
                    without.push(path);
                }
                None => is_added = true,
                Some(_) => {}
            }
        }
        let mut breach = |kind: BreachKind| self.judged.breaches.push(kind.at(member.span));
        let name = || member.name.clone();
        if let Some(path) = uses.plain.filter(|_| is_strict) {
            breach(BreachKind::PlainValue { name: name(), of: path.name(), base: path.base });
        }
        if let Some((default, path)) = taken.first().filter(|_| is_strict) {
            let (default, more) = (default.docs.span, taken.len() - 1);
            breach(BreachKind::ValueForDefault { name: name(), of: path.name(), default, more });
        }
        if let Some(path) = without.first().filter(|_| is_strict) {
            let (new, base, more) = (path.new, path.base, without.len() - 1);
            breach(BreachKind::ValueWithoutArm { name: name(), of: path.name(), new, base, more });
        }
        if is_added {
            let owner = view::name(self.new, ids.1);
            self.add(Kind::Value, owner, format!("{} = {}", member.name, member.value), member.span);
        }
    }

    /// Judges a named number: a constant, or a member of an enum that no message contains. `ids` are the
    /// enum's types in the base and in the new protocol. The number must not change. The name may change or
    /// be removed, but under RFC 8178 a flag may be removed only if another flag has its bit. A new flag must
    /// not share a bit with a one-bit flag of the base in the same word (see `flag_word`). This does not
    /// apply to a base flag whose name was removed.
    fn name(&mut self, ids: Option<(TypeId, TypeId)>, path: &Path<'m>, pair: Pair<Name<'m>>) {
        let owner = ids.map_or("", |_| path.names[0]);
        let of = ids.map(|(old, _)| old);
        let taken = self.taken.entry(of).or_insert_with(|| Numbers::of(self.base, of, owner));
        let kept =
            self.kept.entry(of).or_insert_with(|| Numbers::of(self.new, ids.map(|(_, new)| new), owner));
        match pair {
            [Some(old), Some(new)] if old.0 == new.0 => {
                let (name, was, is) = (new.0.to_owned(), old.1, new.1);
                self.breach(new.2, BreachKind::Constant { name, was, is, base: old.2 });
            }
            [Some(old), Some(new)] if old.1 == new.1 => {}
            [_, Some(new)] => {
                let word = flag_word(new.0, owner);
                let own = flag_bits(&new, owner);
                let mut flags = own.iter().filter_map(|bit| taken.flags.get(&(word?, *bit))).flatten();
                if let Some(first) = flags.find(|first| kept.names.contains(first.0)) {
                    let (name, other) = (new.0.to_owned(), first.0.to_owned());
                    let taken = BreachKind::Flag { name, other, base: first.2 };
                    return self.breach(new.2, taken);
                }
                let kind = if word.is_some() && !own.is_empty() { Kind::Flag } else { Kind::Constant };
                self.add(kind, owner, format!("{} = {}", new.0, new.1), new.2);
            }
            [Some(old), None]
                if self.rules == Rules::Rfc8178
                    && flag(&old, owner).is_some_and(|flag| !kept.flags.contains_key(&flag)) =>
            {
                self.breach(old.2, BreachKind::FlagRemoved { name: old.0.to_owned() });
            }
            _ => {}
        }
    }
}

/// A named number: name, number and position.
type Name<'m> = (&'m str, i128, Span);

/// The constants of a protocol, or the members of an enum.
#[derive(Default)]
struct Numbers<'m> {
    names: HashSet<&'m str>,
    /// The one-bit flags, by word and bit.
    flags: HashMap<(&'m str, u64), Vec<Name<'m>>>,
}

impl<'m> Numbers<'m> {
    fn of(hir: &'m Hir, of: Option<TypeId>, owner: &'m str) -> Self {
        let names: Vec<Name<'m>> = match of {
            Some(id) => hir.members(id).iter().map(|one| (&*one.name, one.value.into(), one.span)).collect(),
            None => hir.consts.iter().map(|one| (&*one.name, one.value, one.docs.span)).collect(),
        };
        let mut numbers = Numbers::default();
        for name in names {
            numbers.names.insert(name.0);
            if let Some(flag) = flag(&name, owner) {
                numbers.flags.entry(flag).or_default().push(name);
            }
        }
        numbers
    }
}

/// Returns the word and the bit of a one-bit flag, or `None` for any other named number.
fn flag<'m>(one: &Name<'m>, owner: &'m str) -> Option<(&'m str, u64)> {
    let bit = u64::try_from(one.1).ok().filter(|bit| bit.is_power_of_two())?;
    Some((flag_word(one.0, owner)?, bit))
}

/// Returns the bits of a new named number, or no bits if the number is not a flag. The members of an enum may
/// be consecutive numbers, such as 1, 2 and 3, instead of flags. A member with several bits is therefore a
/// flag only if its name contains `FLAG` or `FLAGS`.
fn flag_bits(one: &Name<'_>, owner: &str) -> Vec<u64> {
    let value = u64::try_from(one.1).unwrap_or(0);
    let has_flag_name = flag_word(one.0, "").is_some();
    if !has_flag_name && (owner.is_empty() || !value.is_power_of_two()) {
        return Vec::new();
    }
    (0..u64::BITS).map(|bit| 1 << bit).filter(|bit| value & bit != 0).collect()
}

/// Returns a name for the word (bit mask) that contains a flag: the enum's name, or a constant's name up to
/// and including `FLAG` or `FLAGS`. Returns `None` for other constants.
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
