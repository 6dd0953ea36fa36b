//! The parts of types that both versions have: members, fields and arms.

use std::collections::BTreeMap;

use super::{Differ, kind, line, side};
use crate::compare::view::Use;
use crate::hash::{HashMap, HashSet};
use crate::hir::{Arm, Body, Docs, Field, Hir, Member, TypeDef, TypeId, Union};
use crate::namespace::last;

impl<'m> Differ<'m> {
    /// Two definitions of one name.
    pub(super) fn definitions(&mut self, old: (TypeId, &'m TypeDef), new: (TypeId, &'m TypeDef)) {
        let (ty, with) = (old.1, new.1);
        match (&ty.body, &with.body) {
            (Body::Enum(members), Body::Enum(others)) => self.members(&ty.name, members, others),
            (Body::Struct(fields) | Body::Tuple(fields), Body::Struct(others) | Body::Tuple(others)) => {
                self.fields(&ty.name, fields, others);
            }
            (Body::Union(union), Body::Union(other)) => self.unions((ty, union), (with, other)),
            (Body::Alias(_), Body::Alias(_)) => {
                let (one, other) = ((named(&ty.body), &ty.docs), (named(&with.body), &with.docs));
                self.uses("typedef", ty.name.clone(), one, other);
            }
            _ => {
                let wire = !self.layouts.equal(old.0, new.0);
                let text = |ty: &TypeDef| format!("{}: {}", kind(ty), line(&ty.docs));
                let sides = [side(text(ty), &ty.docs), side(text(with), &with.docs)];
                self.changed(kind(ty), ty.name.clone(), sides, wire);
            }
        }
    }

    /// Something of a type in each version: listed if what it is written as differs.
    fn uses(&mut self, what: &'static str, name: String, old: (Use<'m>, &Docs), new: (Use<'m>, &Docs)) {
        let wire = !self.layouts.same(old.0, new.0);
        let (mut one, mut other) = (line(old.1), line(new.1));
        if wire && one == other {
            // Both are written in the same words, whose meaning changed: a constant's value.
            let (was, is) = (old.0.words(self.old), new.0.words(self.new));
            if was != is {
                (one, other) = (format!("{one} ({was})"), format!("{other} ({is})"));
            }
        }
        if wire || one != other {
            self.changed(what, name, [side(one, old.1), side(other, new.1)], wire);
        }
    }

    fn members(&mut self, owner: &str, old: &[Member], new: &[Member]) {
        let name = |member: &Member| format!("{owner}.{}", last(&member.name));
        let text = |member: &Member| side(format!("{} = {}", last(&member.name), member.value), &member.docs);
        let (before, now) = (by_name(old, |one| &one.name), by_name(new, |one| &one.name));
        let is_new = |member: &&Member| !before.contains_key(member.name.as_str());
        let come = new.iter().filter(is_new).map(|member| (member.value, member));
        let mut values: HashMap<i32, &Member> = come.rev().collect();
        let mut renamed = HashSet::default();
        for member in old {
            match now.get(member.name.as_str()) {
                Some(other) if other.value == member.value => {}
                Some(other) => self.changed("member", name(member), [text(member), text(other)], true),
                None => match values.remove(&member.value) {
                    Some(other) => {
                        renamed.insert(other.name.as_str());
                        self.changed("member", name(member), [text(member), text(other)], false);
                    }
                    None => self.removed("member", name(member), text(member), true),
                },
            }
        }
        for member in new.iter().filter(is_new).filter(|member| !renamed.contains(member.name.as_str())) {
            self.added("member", name(member), text(member), true);
        }
    }

    fn fields(&mut self, owner: &str, old: &'m [Field], new: &'m [Field]) {
        let name = |field: &Field| format!("{owner}.{}", field.name);
        let text = |field: &Field| side(line(&field.docs), &field.docs);
        let (before, now) = (by_name(old, |one| &one.name), by_name(new, |one| &one.name));
        let is_new = |field: &&Field| !before.contains_key(field.name.as_str());
        let mut renamed = HashSet::default();
        for (index, field) in old.iter().enumerate() {
            match (now.get(field.name.as_str()), new.get(index).filter(is_new)) {
                (Some(other), _) => {
                    let (one, other) =
                        ((Use::Type(&field.ty), &field.docs), (Use::Type(&other.ty), &other.docs));
                    self.uses("field", name(field), one, other);
                }
                (None, Some(other)) if self.layouts.same(Use::Type(&field.ty), Use::Type(&other.ty)) => {
                    renamed.insert(other.name.as_str());
                    self.changed("field", name(field), [text(field), text(other)], false);
                }
                (None, _) => self.removed("field", name(field), text(field), true),
            }
        }
        for field in new.iter().filter(is_new).filter(|field| !renamed.contains(field.name.as_str())) {
            self.added("field", name(field), text(field), true);
        }
        self.order(owner, old, new);
    }

    /// Fields that both have may have changed places: the first that did is listed.
    fn order(&mut self, owner: &str, old: &[Field], new: &[Field]) {
        let (before, now) = (by_name(old, |one| &one.name), by_name(new, |one| &one.name));
        let kept = old.iter().filter(|field| now.contains_key(field.name.as_str()));
        let mut still = kept.zip(new.iter().filter(|field| before.contains_key(field.name.as_str())));
        let Some((one, other)) = still.find(|(one, other)| one.name != other.name) else { return };
        let place = |field: &Field| side(format!("{} stands here", field.name), &field.docs);
        self.changed("field", format!("{owner}.{}", one.name), [place(one), place(other)], true);
    }

    fn unions(&mut self, old: (&'m TypeDef, &'m Union), new: (&'m TypeDef, &'m Union)) {
        let owner = &old.0.name;
        let name = |arm: &Arm| format!("{owner}.{}", label(arm));
        self.discriminants(old, new);
        let (before, now) = (arms(old.1), arms(new.1));
        let mut said = HashSet::default();
        for (value, arm) in &before {
            match now.get(value) {
                None => self.removed("arm", name(arm), side(line(&arm.docs), &arm.docs), true),
                // Several labels of one arm are one change.
                Some(other) if !said.insert((arm.docs.span.start, other.docs.span.start)) => {}
                Some(other) => {
                    let one = (Use::payload(arm.payload.as_ref()), &arm.docs);
                    let other = (Use::payload(other.payload.as_ref()), &other.docs);
                    self.uses("arm", name(arm), one, other);
                }
            }
        }
        for (_, arm) in now.iter().filter(|(value, _)| !before.contains_key(value)) {
            self.added("arm", name(arm), side(line(&arm.docs), &arm.docs), true);
        }
    }

    fn discriminants(&mut self, old: (&'m TypeDef, &'m Union), new: (&'m TypeDef, &'m Union)) {
        let (one, other) = (Use::Type(&old.1.discriminant), Use::Type(&new.1.discriminant));
        let wire = !self.layouts.same(one, other);
        if !wire && old.1.discriminant_name == new.1.discriminant_name {
            return;
        }
        let text = |module: &Hir, of: Use<'_>, name: &str| format!("{name}: {}", of.words(module));
        let sides = [
            side(text(self.old, one, &old.1.discriminant_name), &old.0.docs),
            side(text(self.new, other, &new.1.discriminant_name), &new.0.docs),
        ];
        self.changed("discriminant", format!("{}.{}", old.0.name, old.1.discriminant_name), sides, wire);
    }
}

fn by_name<'a, T>(all: &'a [T], name: impl Fn(&'a T) -> &'a String) -> HashMap<&'a str, &'a T> {
    all.iter().map(|one| (name(one).as_str(), one)).collect()
}

/// The arms by the numbers that choose them; the default arm by none.
fn arms(union: &Union) -> BTreeMap<Option<i128>, &Arm> {
    let mut arms = BTreeMap::new();
    for arm in &union.arms {
        if arm.labels.is_empty() {
            arms.insert(None, arm);
        }
        arms.extend(arm.labels.iter().map(|label| (Some(label.value), arm)));
    }
    arms
}

/// `case A, B` of an arm's declaration.
fn label(arm: &Arm) -> &str {
    arm.docs.declaration.split_once(':').map_or(arm.docs.declaration.as_str(), |(label, _)| label)
}

/// What a typedef names.
fn named(body: &Body) -> Use<'_> {
    match body {
        Body::Alias(field) => Use::Type(&field.ty),
        _ => Use::Type(&crate::hir::Type::Void),
    }
}
