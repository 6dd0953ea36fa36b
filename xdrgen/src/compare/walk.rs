//! Compares the wire forms of two types and of all types that they contain.
//!
//! This code does not recurse, since a document may nest types deeply.

use super::view::{Use, View, name, values};
use super::{Arms, Change, Compared, Effect, EnumUses, Kind, Pair, Path, Side, line, side};
use crate::hash::{HashMap, HashSet};
use crate::hir::{Arm, Field, Hir, TypeId, Union};
use crate::namespace::last;

/// Maximum number of structs and array elements that are expanded into one sequence of fields.
const MAX_FIELDS: usize = 4096;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// Compares everything.
    Never,
    /// Stops once the new type is known not to extend the old type.
    AtBreach,
    /// Stops once the two types are known to differ. Types with the same name count as equal, since their
    /// differences are reported separately.
    AtDifference,
}

pub(super) struct Walk<'m> {
    pub(super) base: &'m Hir,
    pub(super) new: &'m Hir,
    pub(super) changes: Vec<Change<'m>>,
    /// True if messages of both versions contain the current part.
    pub(super) in_messages: bool,
    /// The pairs of enums, structs and unions that were compared.
    pub(super) bodies: HashSet<(TypeId, TypeId)>,
    enums: HashMap<(TypeId, TypeId), EnumUses<'m>>,
    pending: Vec<(Use<'m>, Use<'m>, Path<'m>)>,
    uses: HashSet<(usize, usize)>,
    /// The number of pairs that the walk may still compare; trials use `left_to_try`. Types with the same
    /// name are paired once, so only unusual documents reach the limit.
    left: usize,
    left_to_try: usize,
    /// The results of `same`, by pair of types.
    known: HashMap<(TypeId, TypeId), bool>,
    stop: Stop,
    /// True if `stop` ended the walk early.
    pub(super) is_over: bool,
}

impl<'m> Walk<'m> {
    pub(super) fn new(base: &'m Hir, new: &'m Hir, stop: Stop) -> Self {
        let parts = |hir: &Hir| -> usize { hir.types.iter().map(|ty| 2 + ty.body.fields().count()).sum() };
        Walk::within(base, new, stop, 64 + 8 * (parts(base) + parts(new)))
    }

    fn within(base: &'m Hir, new: &'m Hir, stop: Stop, left: usize) -> Self {
        Walk {
            base,
            new,
            changes: Vec::new(),
            in_messages: true,
            bodies: HashSet::default(),
            enums: HashMap::default(),
            pending: Vec::new(),
            uses: HashSet::default(),
            left,
            left_to_try: left,
            known: HashMap::default(),
            stop,
            is_over: false,
        }
    }

    pub(super) fn found(self) -> Compared<'m> {
        Compared { changes: self.changes, uses: self.enums }
    }

    /// Compares two uses in a separate walk, which may compare up to `left_to_try` pairs. Returns that walk.
    pub(super) fn trial(&mut self, old: Use<'m>, new: Use<'m>, stop: Stop) -> Walk<'m> {
        let mut trial = Walk::within(self.base, self.new, stop, self.left_to_try);
        trial.compare(old, new, Path::default());
        self.left_to_try = trial.left;
        trial
    }

    /// Returns true if two uses have the same layout. Types with the same name count as equal.
    pub(super) fn same(&mut self, old: Use<'m>, new: Use<'m>) -> bool {
        let ids = View::of(self.base, old).id().zip(View::of(self.new, new).id());
        if let Some(known) = ids.and_then(|ids| self.known.get(&ids)) {
            return *known;
        }
        let trial = self.trial(old, new, Stop::AtDifference);
        let same = !trial.is_over;
        // If the two uses have the same layout, the two types of each compared pair also have the same
        // layout.
        let pairs = trial.bodies.into_iter().filter(|pair| same || Some(*pair) == ids);
        self.known.extend(pairs.map(|pair| (pair, same)));
        same
    }

    /// Returns true if changes to the declarations of two definitions are also recorded: the definitions have
    /// the same name, and this walk is not a trial.
    pub(super) fn is_written(&self, old: TypeId, new: TypeId) -> bool {
        self.stop == Stop::Never && name(self.base, old) == name(self.new, new)
    }

    /// Adds a change. In a trial, only changes to the wire form matter.
    pub(super) fn emit(&mut self, path: Path<'m>, kind: Kind<'m>, wire: bool, sides: Pair<Side>) {
        let effect = match (wire, self.in_messages) {
            (false, _) => Effect::Unsent,
            (true, false) => Effect::Definition,
            (true, true) => Effect::Message,
        };
        if wire || self.stop == Stop::Never {
            self.is_over |= match self.stop {
                Stop::Never => false,
                // Only a change of an enum's member, or a new arm, may be an extension.
                Stop::AtBreach => !matches!(kind, Kind::Member(..) | Kind::Arm(_, [None, _], ..)),
                Stop::AtDifference => true,
            };
            self.changes.push(Change { path, kind, effect, sides });
        }
    }

    fn emit_sent(&mut self, path: Path<'m>, kind: Kind<'m>) {
        self.emit(path, kind, true, [None, None]);
    }

    pub(super) fn compare(&mut self, base: Use<'m>, new: Use<'m>, path: Path<'m>) {
        self.pending.push((base, new, path));
        while let Some((base, new, path)) = self.pending.pop() {
            if !self.uses.insert((base.key(), new.key())) {
                continue;
            }
            let Some(left) = self.left.checked_sub(1) else {
                self.pending.clear();
                return self.emit_sent(path, Kind::TooDifferent);
            };
            self.left = left;
            self.pair(base, new, path);
            if self.is_over {
                return self.pending.clear();
            }
        }
    }

    fn pair(&mut self, base_use: Use<'m>, new_use: Use<'m>, path: Path<'m>) {
        let (base, new) = (View::of(self.base, base_use), View::of(self.new, new_use));
        let are_twins = |(old, new)| name(self.base, old) == name(self.new, new);
        if self.stop == Stop::AtDifference && base.id().zip(new.id()).is_some_and(are_twins) {
            return;
        }
        match (base, new) {
            (View::Void, View::Void) => {}
            (View::Scalar(one), View::Scalar(other)) if one == other => {}
            (View::Extern(one), View::Extern(other)) if one == other => {}
            (View::Enum(one), View::Enum(other)) => {
                self.enums(one, other).plain.get_or_insert(path);
            }
            (View::Union(one, union), View::Union(other, with)) => {
                if self.bodies.insert((one, other)) {
                    self.unions((one, union), (other, with));
                }
            }
            (View::FixedOpaque(one), View::FixedOpaque(other)) => self.bounds("length", one, other, path),
            (View::Opaque(one), View::Opaque(other)) | (View::String(one), View::String(other)) => {
                self.bounds("bound", one, other, path);
            }
            (View::FixedArray(of, len), View::FixedArray(with, other)) => {
                self.bounds("length", len, other, path);
                self.pending.push((of, with, path));
            }
            (View::Array(of, max), View::Array(with, other)) => {
                self.bounds("bound", max, other, path);
                self.pending.push((of, with, path));
            }
            (View::Optional(of), View::Optional(with)) => self.pending.push((of, with, path)),
            (View::Struct(one, fields), View::Struct(other, others)) => {
                if self.bodies.insert((one, other)) {
                    if self.is_written(one, other) {
                        self.fields(name(self.base, one), fields, others);
                    }
                    self.streams(base_use, new_use, self.types(one, other));
                }
            }
            (View::Struct(..), _) | (_, View::Struct(..)) => self.streams(base_use, new_use, path),
            _ => {
                // An enum with the values 0 and 1 is encoded like a bool.
                let known = values(self.base, &base);
                if known.is_none() || known != values(self.new, &new) {
                    self.emit_sent(path, Kind::Form(base, new));
                }
            }
        }
    }

    fn bounds(&mut self, what: &'static str, base: u32, new: u32, path: Path<'m>) {
        if base != new {
            self.emit_sent(path, Kind::Bound(what, base, new));
        }
    }

    /// Compares sequences of fields. Nesting of structs is invisible on the wire.
    fn streams(&mut self, base: Use<'m>, new: Use<'m>, path: Path<'m>) {
        let (old_hir, new_hir) = (self.base, self.new);
        let both = |max, arrays| (items(old_hir, base, max, arrays), items(new_hir, new, max, arrays));
        let uneven = |(one, other): &(Vec<Element<'m>>, Vec<Element<'m>>), is: fn(&View<'m>) -> bool| {
            let is_in = |hir, item: &Element<'m>| is(&View::of(hir, item.of));
            let mut pairs = one.iter().zip(other);
            one.len() != other.len() || pairs.any(|(one, other)| is_in(old_hir, one) != is_in(new_hir, other))
        };
        let mut sent = both(1, false);
        if uneven(&sent, |view| matches!(view, View::Struct(..))) {
            sent = both(MAX_FIELDS, false);
        }
        if uneven(&sent, |view| matches!(view, View::FixedArray(..))) {
            // A fixed-length array is encoded like a sequence of fields of its element type.
            let all = both(MAX_FIELDS, true);
            if all.0.len() == all.1.len() {
                sent = all;
            }
        }
        let (one, other) = sent;
        if one.len() != other.len() {
            return self.parts(&one, &other, path);
        }
        for (one, other) in one.iter().zip(&other) {
            let mut at = one.field.map_or(path, |(owner, field)| Path {
                names: [owner, &field.name, ""],
                base: field.docs.span,
                ..path
            });
            if let Some((_, field)) = other.field {
                at.new = field.docs.span;
            }
            self.pending.push((one.of, other.of, at));
        }
    }

    /// Compares structs with different layouts: compares fields with the same name, and adds a change for
    /// each remaining field. If no field remains, adds a change for the number of fields.
    fn parts(&mut self, one: &[Element<'m>], other: &[Element<'m>], path: Path<'m>) {
        let fields = |items: &[Element<'m>]| -> Vec<(&'m Field, Use<'m>, &'m str)> {
            items.iter().filter_map(|item| item.field.map(|(owner, field)| (field, item.of, owner))).collect()
        };
        let (one, other, mut is_named) = (fields(one), fields(other), false);
        for pair in super::matched(&one, &other, |(field, ..)| (&*field.name, &*field.name)) {
            match pair {
                [Some((field, of, owner)), Some((other, with, _))] => {
                    let names = [owner, &*field.name, ""];
                    self.pending.push((
                        *of,
                        *with,
                        Path { names, base: field.docs.span, new: other.docs.span },
                    ));
                    continue;
                }
                [Some((field, ..)), _] => {
                    self.emit_sent(Path { base: field.docs.span, ..path }, Kind::Part(field, false));
                }
                [_, Some((field, ..))] => {
                    self.emit_sent(Path { new: field.docs.span, ..path }, Kind::Part(field, true));
                }
                [None, None] => {}
            }
            is_named = true;
        }
        if !is_named {
            self.emit_sent(path, Kind::Parts(one.len(), other.len()));
        }
    }

    fn enums(&mut self, old: TypeId, new: TypeId) -> &mut EnumUses<'m> {
        if self.bodies.insert((old, new)) {
            self.members(old, new);
        }
        self.enums.entry((old, new)).or_default()
    }

    pub(super) fn members(&mut self, old: TypeId, new: TypeId) {
        let (before, now) = (self.base.members(old), self.new.members(new));
        let values: HashSet<i32> = before.iter().map(|member| member.value).collect();
        let kept: HashSet<i32> = now.iter().map(|member| member.value).collect();
        let is_written = self.is_written(old, new);
        for [one, other] in super::matched(before, now, |one| (&*one.name, one.value)) {
            let wire = match (one, other) {
                (Some(one), Some(other)) if (&one.name, one.value) == (&other.name, other.value) => continue,
                (Some(one), Some(other)) => one.value != other.value,
                (Some(one), None) => !kept.contains(&one.value),
                (None, other) => {
                    other.is_some_and(|one| one.same_as.is_none() && !values.contains(&one.value))
                }
            };
            let sides = [one, other].map(|one| {
                let one = one.filter(|_| is_written)?;
                Some(Side { text: format!("{} = {}", last(&one.name), one.value), span: one.span })
            });
            let path = self.types(old, new).part(one.or(other).map_or("", |one| last(&one.name)));
            self.emit(path, Kind::Member((old, new), [one, other]), wire, sides);
        }
    }

    pub(super) fn types(&self, old: TypeId, new: TypeId) -> Path<'m> {
        let span = |hir: &Hir, id| hir.get(id).map(|ty| ty.docs.span).unwrap_or_default();
        Path { base: span(self.base, old), new: span(self.new, new), ..Path::named(name(self.base, old)) }
    }

    pub(super) fn unions(&mut self, old: (TypeId, &'m Union), new: (TypeId, &'m Union)) {
        let path = self.types(old.0, new.0);
        let is_written = self.is_written(old.0, new.0);
        let (union, with) = (old.1, new.1);
        let (one, other) = (Use::Type(&union.discriminant), Use::Type(&with.discriminant));
        if is_written {
            self.discriminants(path, union, with);
        }
        let (one, other) = (View::of(self.base, one), View::of(self.new, other));
        let (known, kept) = (values(self.base, &one), values(self.new, &other));
        let (before, now) = (arms(union), arms(with));
        let default = before.get(&None).copied();
        let in_messages = self.in_messages;
        match (one, other) {
            (View::Enum(old), View::Enum(new)) if in_messages => {
                self.enums(old, new).unions.push((default, now.clone(), path));
            }
            (View::Enum(_), View::Enum(_)) => {}
            (View::Scalar(one), View::Scalar(other)) if one == other => {}
            _ if known.is_some() && known == kept => {}
            _ => {
                self.emit_sent(path.part(&union.discriminant_name), Kind::Form(one, other));
                // If the discriminants differ, arms with the same value do not correspond to each other.
                self.in_messages = false;
            }
        }
        let mut seen = HashSet::default();
        for (value, arm) in &before {
            let Some(other) = now.get(value) else {
                let is_kept =
                    kept.as_ref().is_none_or(|kept| value.is_none_or(|value| kept.contains(&value)));
                self.arm(path, Kind::Arm(*value, [Some(arm), None], default, is_kept), arm, is_written);
                continue;
            };
            let (old, new) = (Use::payload(arm.payload.as_ref()), Use::payload(other.payload.as_ref()));
            if self.in_messages {
                let [one, with] = [arm, other].map(|arm| arm.payload.as_ref());
                let place =
                    |arm: &Arm, field: Option<&Field>| field.map_or(arm.docs.span, |field| field.docs.span);
                let path = path.part(one.map_or(&arm.docs.declaration, |field| &field.name));
                self.pending.push((
                    old,
                    new,
                    Path { base: place(arm, one), new: place(other, with), ..path },
                ));
            }
            // Several labels of one arm yield one change.
            if is_written && seen.insert((arm.docs.span.start, other.docs.span.start)) {
                self.declared("arm", path.part(label(arm)), (old, &arm.docs), (new, &other.docs));
            }
        }
        for (value, arm) in now.iter().filter(|(value, _)| !before.contains_key(value)) {
            let is_known = value.zip(known.as_ref()).is_some_and(|(value, known)| known.contains(&value));
            self.arm(path, Kind::Arm(*value, [None, Some(arm)], default, is_known), arm, is_written);
        }
        self.in_messages = in_messages;
    }

    /// Adds a change for an arm that only one of two unions has.
    fn arm(&mut self, path: Path<'m>, kind: Kind<'m>, arm: &'m Arm, is_written: bool) {
        let is_new = matches!(kind, Kind::Arm(_, [None, _], ..));
        let text = is_written.then(|| line(&arm.docs)).and_then(|text| side(text, &arm.docs));
        let (path, span) = (path.part(label(arm)), arm.docs.span);
        if is_new {
            self.emit(Path { new: span, ..path }, kind, true, [None, text]);
        } else {
            self.emit(Path { base: span, ..path }, kind, true, [text, None]);
        }
    }
}

fn arms(union: &Union) -> Arms<'_> {
    let mut arms = Arms::new();
    for arm in &union.arms {
        if arm.labels.is_empty() {
            arms.insert(None, arm);
        }
        arms.extend(arm.labels.iter().map(|label| (Some(label.value), arm)));
    }
    arms
}

/// Returns the text of an arm's declaration before the first colon: `case A, B`.
fn label(arm: &Arm) -> &str {
    arm.docs.declaration.split_once(':').map_or(&arm.docs.declaration, |(label, _)| label)
}

/// An element of a sequence: a field with the name of its struct, or a type that is not a field.
struct Element<'m> {
    of: Use<'m>,
    field: Option<(&'m str, &'m Field)>,
}

/// Returns the fields of a use in wire order. Expands at most `max` structs. With `arrays`, also expands
/// arrays of fixed length, whose elements count toward `max`.
fn items<'m>(hir: &'m Hir, of: Use<'m>, max: usize, arrays: bool) -> Vec<Element<'m>> {
    let mut sent = Vec::new();
    let mut opened = 0;
    let mut pending = vec![Element { of, field: None }];
    while let Some(item) = pending.pop() {
        match View::of(hir, item.of) {
            View::Struct(id, fields) if opened < max => {
                opened += 1;
                let owner = name(hir, id);
                let inner = fields
                    .iter()
                    .map(|field| Element { of: Use::Type(&field.ty), field: Some((owner, field)) });
                pending.extend(inner.rev());
            }
            View::FixedArray(of, len) if arrays && opened.saturating_add(len as usize) < max => {
                opened += len as usize;
                pending.extend((0..len).map(|_| Element { of, field: item.field }));
            }
            _ => sent.push(item),
        }
    }
    sent
}
