//! Two types side by side: whether whatever is sent as the one is understood as the other.
//!
//! Nothing here recurses: a document may lead from type to type as far as it likes.

use std::collections::BTreeMap;

use super::change::{Addition, Kind, NotCompared, Rules};
use super::view::{Use, View, values};

use crate::diag::Diagnostic;
use crate::hash::{HashMap, HashSet};
use crate::hir::{Arm, Docs, Field, Hir, Member, TypeDef, TypeId, Union};
use crate::source::Span;

/// How many fields of structs within structs are laid out side by side at most.
const MOST_FIELDS: usize = 4096;

/// Where two types are used that are to be compared.
#[derive(Clone, Copy)]
pub(super) struct At<'m> {
    /// The definition in which it is, in the base.
    pub(super) owner: &'m str,
    /// What of it.
    pub(super) part: &'m str,
    pub(super) base: Span,
    pub(super) new: Span,
}

impl<'m> At<'m> {
    /// Two definitions.
    pub(super) fn types(base: &'m TypeDef, new: &'m TypeDef) -> Self {
        At { owner: &base.name, part: "", base: base.docs.span, new: new.docs.span }
    }

    fn fields(owner: &'m str, base: &'m Field, new: &'m Field) -> Self {
        At { owner, part: &base.name, base: base.docs.span, new: new.docs.span }
    }

    fn words(&self) -> String {
        if self.part.is_empty() {
            format!("`{}`", self.owner)
        } else {
            format!("`{}.{}`", self.owner, self.part)
        }
    }
}

/// What was left out of the new protocol: it may have what seems to be gone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Unread {
    /// The names of what was; one may be empty.
    pub(super) names: HashSet<String>,
    /// Whether there may be programs, or parts of one, among it.
    pub(super) programs: bool,
}

impl Unread {
    pub(crate) fn of(found: &[Diagnostic]) -> Self {
        let left_out = || found.iter().filter_map(|found| found.left_out.as_ref());
        Unread {
            names: left_out().map(|one| one.name.clone()).collect(),
            programs: left_out().any(|one| one.is_program),
        }
    }
}

/// A comparison of two protocols under way.
pub(super) struct Comparison<'m> {
    pub(super) base: &'m Hir,
    pub(super) new: &'m Hir,
    pub(super) found: Vec<Diagnostic>,
    pub(super) additions: Vec<Addition>,
    pub(super) not_compared: Vec<NotCompared>,
    pub(super) unread: Unread,
    pub(super) rules: Rules,
    pending: Vec<(Use<'m>, Use<'m>, At<'m>)>,
    uses: HashSet<(usize, usize)>,
    /// Types that were compared.
    pub(super) bodies: HashSet<(TypeId, TypeId)>,
    plain: HashSet<(TypeId, TypeId)>,
    /// Findings about one new value: where the first is, and how many more places it would be said of.
    repeated: HashMap<(&'static str, Span), (usize, usize)>,
    /// How many more pairs are looked at. Types of one name are paired once; only a wild mixture needs more.
    pub(super) left: usize,
    stop: Stop,
}

/// When a comparison comes to an end.
#[derive(Clone, Copy)]
pub(super) enum Stop {
    /// When all has been compared.
    Never,
    /// When it is known to be no extension.
    AtBreach,
    /// When the two are known not to be the same.
    AtDifference,
}

/// How many pairs a comparison of two protocols looks at.
pub(super) fn most_pairs(base: &Hir, new: &Hir) -> usize {
    let parts = |hir: &Hir| -> usize { hir.types.iter().map(|ty| 2 + ty.body.fields().count()).sum() };
    64 + 8 * (parts(base) + parts(new))
}

impl<'m> Comparison<'m> {
    pub(super) fn new(base: &'m Hir, new: &'m Hir, rules: Rules) -> Self {
        Comparison::within(base, new, rules, most_pairs(base, new), Stop::Never)
    }

    /// A comparison that looks at no more than `left` pairs, and may come to an end before all is known.
    pub(super) fn within(base: &'m Hir, new: &'m Hir, rules: Rules, left: usize, stop: Stop) -> Self {
        Comparison {
            base,
            new,
            found: Vec::new(),
            additions: Vec::new(),
            not_compared: Vec::new(),
            unread: Unread::default(),
            rules,
            pending: Vec::new(),
            uses: HashSet::default(),
            bodies: HashSet::default(),
            plain: HashSet::default(),
            repeated: HashMap::default(),
            left,
            stop,
        }
    }

    /// Nothing can be said of a definition of the base.
    pub(super) fn cannot(&mut self, name: &str, why: &str, span: Span) {
        self.not_compared.push(NotCompared { name: name.to_owned(), why: why.to_owned(), span });
    }

    fn may_stop(&self) -> bool {
        match self.stop {
            Stop::Never => false,
            Stop::AtBreach => !self.found.is_empty(),
            Stop::AtDifference => !self.found.is_empty() || !self.additions.is_empty(),
        }
    }

    /// Compares two types, and all that they lead to.
    pub(super) fn types(&mut self, base: TypeId, new: TypeId, at: At<'m>) {
        self.compare(Use::Id(base), Use::Id(new), at);
    }

    /// Compares two uses, and all that they lead to.
    pub(super) fn compare(&mut self, base: Use<'m>, new: Use<'m>, at: At<'m>) {
        self.pending.push((base, new, at));
        while let Some((base, new, at)) = self.pending.pop() {
            if !self.uses.insert((base.key(), new.key())) {
                continue;
            }
            let Some(left) = self.left.checked_sub(1) else {
                self.pending.clear();
                return self.breach("X502", at, "the two protocols share too little to be compared further");
            };
            self.left = left;
            self.pair(base, new, at);
            if self.may_stop() {
                return self.pending.clear();
            }
        }
    }

    fn pair(&mut self, base_use: Use<'m>, new_use: Use<'m>, at: At<'m>) {
        let (base, new) = (View::of(self.base, base_use), View::of(self.new, new_use));
        match (base, new) {
            (View::Void, View::Void) => {}
            (View::Scalar(one), View::Scalar(other)) if one == other => {}
            (View::Extern(one), View::Extern(other)) if one == other => {}
            (View::Enum(one), View::Enum(other)) => self.plain_enums(one, other, at),
            (View::Union(one, union), View::Union(other, with)) => self.unions((one, union), (other, with)),
            (View::FixedOpaque(one), View::FixedOpaque(other)) => self.bounds("length", one, other, at),
            (View::Opaque(one), View::Opaque(other)) | (View::String(one), View::String(other)) => {
                self.bounds("bound", one, other, at);
            }
            (View::FixedArray(of, len), View::FixedArray(with, other)) => {
                self.bounds("length", len, other, at);
                self.pending.push((of, with, at));
            }
            (View::Array(of, max), View::Array(with, other)) => {
                self.bounds("bound", max, other, at);
                self.pending.push((of, with, at));
            }
            (View::Optional(of), View::Optional(with)) => self.pending.push((of, with, at)),
            (View::Struct(one, _), View::Struct(other, _)) if !self.bodies.insert((one, other)) => {}
            (View::Struct(one, _), View::Struct(other, _)) => {
                let both = self.base.get(one).zip(self.new.get(other));
                self.streams(base_use, new_use, both.map_or(at, |(one, other)| At::types(one, other)));
            }
            (View::Struct(..), _) | (_, View::Struct(..)) => self.streams(base_use, new_use, at),
            _ if values(self.base, &base).is_some()
                && values(self.base, &base).map(keys) == values(self.new, &new).map(keys) => {}
            _ => self.differ(&base, &new, at),
        }
    }

    fn differ(&mut self, base: &View<'m>, new: &View<'m>, at: At<'m>) {
        let (was, is) = (base.words(self.base), new.words(self.new));
        let message = format!("{} was {was} and is {is}", at.words());
        self.breach("X502", at, message);
    }

    fn bounds(&mut self, what: &str, base: u32, new: u32, at: At<'m>) {
        if base != new {
            let shown = |bound: u32| if bound == u32::MAX { "none".to_owned() } else { bound.to_string() };
            let message = format!("the {what} of {} was {} and is {}", at.words(), shown(base), shown(new));
            self.breach("X503", at, message);
        }
    }

    pub(super) fn breach(&mut self, code: &'static str, at: At<'m>, message: impl Into<String>) {
        let error = Diagnostic::error(code, at.new, message).with_label("here");
        self.found.push(error.with_related(at.base, "in the base"));
    }

    /// Adds a finding about a new value. Wherever else it breaks the same rule is counted with the first.
    fn say_once(&mut self, found: Diagnostic) {
        let next = self.found.len();
        let (_, more) = self
            .repeated
            .entry((found.code, found.primary.span))
            .and_modify(|(_, more)| *more += 1)
            .or_insert((next, 0));
        if *more == 0 {
            self.found.push(found);
        }
    }

    /// All findings, each with what was counted with it.
    pub(super) fn into_found(mut self) -> (Vec<Diagnostic>, Vec<Addition>) {
        for (index, more) in self.repeated.into_values().filter(|(_, more)| *more > 0) {
            if let Some(found) = self.found.get_mut(index) {
                let places = if more == 1 { "place" } else { "places" };
                found.message.push_str(&format!(", and the same in {more} more {places}"));
            }
        }
        (self.found, self.additions)
    }

    // ---- structs

    /// Compares what is sent one behind the other. That one struct stands in another is not seen on the wire.
    fn streams(&mut self, base: Use<'m>, new: Use<'m>, at: At<'m>) {
        let (mut one, mut other) = (items(self.base, base, 1, false), items(self.new, new, 1, false));
        let is_struct = |hir: &'m Hir, of: Use<'m>| matches!(View::of(hir, of), View::Struct(..));
        let uneven = one.len() != other.len()
            || one
                .iter()
                .zip(&other)
                .any(|(one, other)| is_struct(self.base, one.of) != is_struct(self.new, other.of));
        if uneven {
            one = items(self.base, base, MOST_FIELDS, false);
            other = items(self.new, new, MOST_FIELDS, false);
        }
        let is_array = |hir: &'m Hir, of: Use<'m>| matches!(View::of(hir, of), View::FixedArray(..));
        let uneven = one.len() != other.len()
            || one
                .iter()
                .zip(&other)
                .any(|(one, other)| is_array(self.base, one.of) != is_array(self.new, other.of));
        if uneven {
            // Nor is it seen that several of one type were written as an array.
            let all = items(self.base, base, MOST_FIELDS, true);
            let others = items(self.new, new, MOST_FIELDS, true);
            if all.len() == others.len() {
                (one, other) = (all, others);
            }
        }
        if one.len() == other.len() {
            for (one, other) in one.iter().zip(&other) {
                let at = match (one.field, other.field) {
                    (Some((owner, field)), Some((_, with))) => At::fields(owner, field, with),
                    (Some((owner, field)), None) => {
                        At { owner, part: &field.name, base: field.docs.span, ..at }
                    }
                    (None, Some((_, with))) => At { new: with.docs.span, ..at },
                    (None, None) => at,
                };
                self.pending.push((one.of, other.of, at));
            }
            return;
        }
        self.fields_differ(&one, &other, at);
    }

    fn fields_differ(&mut self, one: &[Sent<'m>], other: &[Sent<'m>], at: At<'m>) {
        let name = |item: &Sent<'m>| item.field.map(|(_, field)| field.name.as_str());
        let names = |items: &[Sent<'m>]| items.iter().filter_map(name).collect::<HashSet<_>>();
        let (base, new) = (names(one), names(other));
        let added = other
            .iter()
            .filter_map(|item| item.field)
            .filter(|(_, field)| !base.contains(field.name.as_str()));
        let gone =
            one.iter().filter_map(|item| item.field).filter(|(_, field)| !new.contains(field.name.as_str()));
        let (added, gone): (Vec<_>, Vec<_>) = (added.collect(), gone.collect());
        for (_, field) in &added {
            let message = format!("{} has a new field `{}`", at.words(), field.name);
            let at = At { new: field.docs.span, ..at };
            self.breach("X501", at, message);
        }
        for (_, field) in &gone {
            let message = format!("{} has no field `{}` any more", at.words(), field.name);
            let at = At { base: field.docs.span, ..at };
            self.breach("X501", at, message);
        }
        if added.is_empty() && gone.is_empty() {
            let message = format!("{} had {} parts and has {}", at.words(), one.len(), other.len());
            self.breach("X501", at, message);
        }
        // What both have is compared all the same.
        let known: HashMap<&str, &Sent<'m>> =
            other.iter().filter_map(|item| Some((name(item)?, item))).collect();
        for item in one {
            let Some(with) = name(item).and_then(|name| known.get(name)) else { continue };
            if let (Some((owner, field)), Some((_, other))) = (item.field, with.field) {
                self.pending.push((item.of, with.of, At::fields(owner, field, other)));
            }
        }
    }

    // ---- enums

    fn members(hir: &'m Hir, id: TypeId) -> (&'m [Member], &'m str, Span) {
        let (name, span) = hir.get(id).map_or(("", Span::default()), |ty| (ty.name.as_str(), ty.docs.span));
        (hir.members(id), name, span)
    }

    /// Whatever value an enum had it keeps.
    pub(super) fn kept_values(&mut self, base: TypeId, new: TypeId) {
        if !self.bodies.insert((base, new)) {
            return;
        }
        let ((old, name, _), (with, _, place)) =
            (Self::members(self.base, base), Self::members(self.new, new));
        let kept: HashSet<i32> = with.iter().map(|member| member.value).collect();
        let named: HashMap<&str, &Member> =
            with.iter().map(|member| (member.name.as_str(), member)).collect();
        for member in old.iter().filter(|member| !kept.contains(&member.value)) {
            let moved = named.get(member.name.as_str());
            let new = moved.map_or(place, |other| other.docs.span);
            let at = At { owner: name, part: "", base: member.docs.span, new };
            let message = match moved {
                Some(other) => {
                    format!("`{}` of `{name}` was {} and is {}", member.name, member.value, other.value)
                }
                None => format!("`{name}` has no value {} (`{}`) any more", member.value, member.name),
            };
            self.breach("X504", at, message);
        }
    }

    /// Whatever name a value had it keeps.
    pub(super) fn kept_names(&mut self, base: TypeId, new: TypeId) {
        let ((old, name, start), (with, _, place)) =
            (Self::members(self.base, base), Self::members(self.new, new));
        let kept: HashSet<&str> = with.iter().map(|member| member.name.as_str()).collect();
        let values: HashSet<i32> = with.iter().map(|member| member.value).collect();
        let renamed =
            |member: &&Member| !kept.contains(member.name.as_str()) && values.contains(&member.value);
        for member in old.iter().filter(renamed) {
            let at = At { owner: name, part: "", base: start, new: place };
            self.breach("X504", at, format!("`{name}` has no member `{}` any more", member.name));
        }
    }

    /// The members of an enum that have new values. One whose name the base has was moved, which is a breach already.
    fn new_members(&self, base: TypeId, new: TypeId) -> Vec<&'m Member> {
        let ((old, ..), (with, ..)) = (Self::members(self.base, base), Self::members(self.new, new));
        let values: HashSet<i32> = old.iter().map(|member| member.value).collect();
        let names: HashSet<&str> = old.iter().map(|member| member.name.as_str()).collect();
        let is_new = |member: &&Member| {
            member.same_as.is_none()
                && !values.contains(&member.value)
                && !names.contains(member.name.as_str())
        };
        with.iter().filter(is_new).collect()
    }

    /// Compares two enums where no union is chosen by them: they may not have more values, since nothing would tell an
    /// old peer that what it got is an extension.
    fn plain_enums(&mut self, base: TypeId, new: TypeId, at: At<'m>) {
        self.kept_values(base, new);
        if !self.plain.insert((base, new)) {
            return;
        }
        for member in self.new_members(base, new) {
            if self.rules == Rules::Rfc8178 {
                self.add_value(new, member);
                continue;
            }
            let message =
                format!("`{}` is a new value where no union is chosen by it: {}", member.name, at.words());
            let error = Diagnostic::error("X505", member.docs.span, message).with_label("the new value");
            let error = error.with_related(at.base, "used here in the base");
            self.say_once(error.with_help(
                "only a value that chooses an arm of a union tells an old peer that it meets an extension",
            ));
        }
    }

    // ---- unions

    fn unions(&mut self, base: (TypeId, &'m Union), new: (TypeId, &'m Union)) {
        if !self.bodies.insert((base.0, new.0)) {
            return;
        }
        let (Some(old), Some(with)) = (self.base.get(base.0), self.new.get(new.0)) else { return };
        let at = At::types(old, with);
        let (base, new) = (base.1, new.1);
        let chooser = (
            View::of(self.base, Use::Type(&base.discriminant)),
            View::of(self.new, Use::Type(&new.discriminant)),
        );
        let known = match chooser {
            (View::Enum(one), View::Enum(other)) => {
                self.kept_values(one, other);
                values(self.base, &chooser.0).unwrap_or_default()
            }
            (View::Scalar(one), View::Scalar(other)) if one == other => BTreeMap::new(),
            (one, other) => {
                let (one_values, others) = (values(self.base, &one), values(self.new, &other));
                if one_values.is_none() || one_values.map(keys) != others.map(keys) {
                    let at = At { part: &base.discriminant_name, ..at };
                    return self.differ(&one, &other, at);
                }
                BTreeMap::new()
            }
        };
        let (arms, others) = (Arms::of(base), Arms::of(new));
        self.kept_arms(&arms, &others, values(self.new, &chooser.1).filter(|_| !known.is_empty()), at);
        self.new_arms(&arms, &others, &known, at);
        self.new_values(chooser, &arms, &others, at);
    }

    /// What every peer knows must stay what it is.
    fn kept_arms(
        &mut self,
        base: &Arms<'m>,
        new: &Arms<'m>,
        values: Option<BTreeMap<i128, usize>>,
        at: At<'m>,
    ) {
        for (value, arm) in &base.labelled {
            let Some(other) = new.labelled.get(value) else {
                // That the value itself is gone is said already.
                if values.as_ref().is_some_and(|values| !values.contains_key(value)) {
                    continue;
                }
                let message = format!("{} has no arm for {value} any more ({})", at.words(), label(arm));
                self.breach("X508", At { base: arm.docs.span, ..at }, message);
                continue;
            };
            self.payloads(arm, other, at);
        }
        match (base.default, new.default) {
            (Some(arm), Some(other)) => self.payloads(arm, other, at),
            (Some(arm), None) => {
                let at_arm = At { base: arm.docs.span, ..at };
                self.breach("X510", at_arm, format!("{} has no default arm any more", at.words()));
            }
            (None, Some(arm)) => {
                let at_arm = At { new: arm.docs.span, ..at };
                self.breach("X510", at_arm, format!("{} has a default arm now", at.words()));
            }
            (None, None) => {}
        }
    }

    fn payloads(&mut self, base: &'m Arm, new: &'m Arm, at: At<'m>) {
        let (one, other) = (Use::payload(base.payload.as_ref()), Use::payload(new.payload.as_ref()));
        let place = |arm: &Arm| arm.payload.as_ref().map_or(arm.docs.span, |field| field.docs.span);
        let part = base.payload.as_ref().map_or(base.docs.declaration.as_str(), |field| &field.name);
        self.pending.push((one, other, At { part, base: place(base), new: place(new), ..at }));
    }

    /// An arm that was not there chooses what no old peer knows, or it changes what one knows.
    fn new_arms(&mut self, base: &Arms<'m>, new: &Arms<'m>, known: &BTreeMap<i128, usize>, at: At<'m>) {
        for (value, arm) in new.labelled.iter().filter(|(value, _)| !base.labelled.contains_key(value)) {
            if let Some(default) = base.default {
                let message = format!("{} gets an arm for {value}, which its default arm took", at.words());
                let error = Diagnostic::error("X507", arm.docs.span, message).with_label("the new arm");
                self.found.push(error.with_related(default.docs.span, "the base's default arm"));
            } else if known.contains_key(value) {
                let message = format!("{} gets an arm for {value}, which is no new value", at.words());
                let error = Diagnostic::error("X509", arm.docs.span, message).with_label("the new arm");
                let help =
                    "an old peer knows the value and takes the message for malformed, not for an extension";
                self.found.push(error.with_related(at.base, "without it in the base").with_help(help));
            } else {
                let name = at.owner.to_owned();
                self.additions.push(Addition {
                    kind: Kind::Arm,
                    name,
                    text: label(arm),
                    span: arm.docs.span,
                });
            }
        }
    }

    /// A new value of the enum that chooses needs an arm of its own.
    fn new_values(&mut self, chooser: (View<'m>, View<'m>), base: &Arms<'m>, new: &Arms<'m>, at: At<'m>) {
        let (View::Enum(old), View::Enum(id)) = chooser else { return };
        for member in self.new_members(old, id) {
            let value = i128::from(member.value);
            if base.default.is_some() && !new.labelled.contains_key(&value) && self.rules == Rules::Rfc8178 {
                self.add_value(id, member);
            } else if let (Some(default), false) = (base.default, new.labelled.contains_key(&value)) {
                let message =
                    format!("`{}` is a new value for the default arm of {}", member.name, at.words());
                let error = Diagnostic::error("X507", member.docs.span, message).with_label("the new value");
                self.say_once(error.with_related(default.docs.span, "the base's default arm"));
            } else if base.default.is_none() && !new.labelled.contains_key(&value) && new.default.is_none() {
                let message = format!("`{}` is a new value without an arm in {}", member.name, at.words());
                let error = Diagnostic::error("X506", member.docs.span, message).with_label("the new value");
                let error = error.with_related(at.new, "without an arm for it");
                let error = error.with_related(at.base, "in the base");
                self.say_once(error.with_help("add `case` and what the message carries, or `void`"));
            } else if base.default.is_none() {
                self.add_value(id, member);
            }
        }
    }

    /// A value that an extension may add to an enum, once.
    fn add_value(&mut self, of: TypeId, member: &Member) {
        let (_, name, _) = Self::members(self.new, of);
        let text = format!("{} = {}", member.name, member.value);
        let addition = Addition { kind: Kind::Value, name: name.to_owned(), text, span: member.docs.span };
        if !self.additions.contains(&addition) {
            self.additions.push(addition);
        }
    }
}

fn keys(values: BTreeMap<i128, usize>) -> Vec<i128> {
    values.into_keys().collect()
}

/// An arm's labels as they were written.
fn label(arm: &Arm) -> String {
    let Docs { declaration, .. } = &arm.docs;
    declaration.clone()
}

/// The arms of a union by the number that chooses them.
struct Arms<'m> {
    labelled: BTreeMap<i128, &'m Arm>,
    default: Option<&'m Arm>,
}

impl<'m> Arms<'m> {
    fn of(union: &'m Union) -> Self {
        let mut arms = Arms { labelled: BTreeMap::new(), default: None };
        for arm in &union.arms {
            if arm.labels.is_empty() {
                arms.default = Some(arm);
            }
            arms.labelled.extend(arm.labels.iter().map(|label| (label.value, arm)));
        }
        arms
    }
}

/// One thing that is sent: a field with its struct's name, or what is no field.
struct Sent<'m> {
    of: Use<'m>,
    field: Option<(&'m str, &'m Field)>,
}

/// What a use sends one behind the other, structs within structs opened while fewer than `most` are there. The first
/// one is opened always. With `arrays` those of fixed length are opened, too, while their elements are few.
fn items<'m>(hir: &'m Hir, of: Use<'m>, most: usize, arrays: bool) -> Vec<Sent<'m>> {
    let mut sent = Vec::new();
    let mut opened = 0;
    let mut pending = vec![Sent { of, field: None }];
    while let Some(item) = pending.pop() {
        match View::of(hir, item.of) {
            View::Struct(id, fields) if opened < most => {
                opened += 1;
                let owner = hir.get(id).map_or("", |ty| ty.name.as_str());
                let inner =
                    fields.iter().map(|field| Sent { of: Use::Type(&field.ty), field: Some((owner, field)) });
                pending.extend(inner.rev());
            }
            View::FixedArray(of, len) if arrays && opened.saturating_add(len as usize) < most => {
                opened += len as usize;
                pending.extend((0..len).map(|_| Sent { of, field: item.field }));
            }
            _ => sent.push(item),
        }
    }
    sent
}
