//! Compares the declarations of two definitions with the same name, part by part.

use super::view::{Use, View};
use super::walk::Walk;
use super::{Kind, Path, Side, kind, line, side};
use crate::hash::{HashMap, HashSet};
use crate::hir::{Body, Docs, Field, TypeDef, TypeId, Union};

impl<'m> Walk<'m> {
    /// Compares two definitions with the same name that were not compared as parts of messages.
    pub(super) fn definition(&mut self, id: TypeId, other: TypeId) {
        let (Some(ty), Some(with)) = (self.base.get(id), self.new.get(other)) else { return };
        let path = self.types(id, other);
        match (&ty.body, &with.body) {
            (Body::Enum(_), Body::Enum(_)) => self.members(id, other),
            (Body::Struct(fields) | Body::Tuple(fields), Body::Struct(others) | Body::Tuple(others)) => {
                self.fields(&ty.name, fields, others);
            }
            (Body::Union(union), Body::Union(with)) => self.unions((id, union), (other, with)),
            (Body::Alias(field), Body::Alias(with_field)) => {
                let (one, other) = (Use::Type(&field.ty), Use::Type(&with_field.ty));
                self.declared("typedef", path, (one, &ty.docs), (other, &with.docs));
            }
            _ => {
                // If neither definition is a typedef, the two differ, since they are of different kinds. A
                // trial would treat them as equal, since they have the same name.
                let ids = View::of(self.base, Use::Id(id)).id().zip(View::of(self.new, Use::Id(other)).id());
                let wire = ids == Some((id, other)) || !self.same(Use::Id(id), Use::Id(other));
                let text = |ty: &TypeDef| side(format!("{}: {}", kind(ty), line(&ty.docs)), &ty.docs);
                self.emit(path, Kind::Written(kind(ty)), wire, [text(ty), text(with)]);
            }
        }
    }

    /// Adds a change if the encoding or the declaration of a typedef, field or arm differs between the
    /// versions.
    pub(super) fn declared(
        &mut self,
        what: &'static str,
        path: Path<'m>,
        old: (Use<'m>, &'m Docs),
        new: (Use<'m>, &'m Docs),
    ) {
        let wire = !self.same(old.0, new.0);
        let (mut one, mut other) = (line(old.1), line(new.1));
        if wire && one == other {
            // The texts are equal, but the value of a constant or the target of a typedef in the texts may
            // differ.
            let (was, is) =
                (View::of(self.base, old.0).form(self.base), View::of(self.new, new.0).form(self.new));
            if was != is {
                (one, other) = (format!("{one} ({was})"), format!("{other} ({is})"));
            }
        }
        if wire || one != other {
            self.emit(path, Kind::Written(what), wire, [side(one, old.1), side(other, new.1)]);
        }
    }

    pub(super) fn fields(&mut self, owner: &'m str, old: &'m [Field], new: &'m [Field]) {
        let by_name = |all: &'m [Field]| -> HashMap<&'m str, &'m Field> {
            all.iter().map(|field| (field.name.as_str(), field)).collect()
        };
        let (before, now) = (by_name(old), by_name(new));
        let is_new = |field: &&Field| !before.contains_key(field.name.as_str());
        let text = |field: &Field| side(line(&field.docs), &field.docs);
        let path = |field: &'m Field| Path::named(owner).part(&field.name);
        let mut renamed = HashSet::default();
        for (index, field) in old.iter().enumerate() {
            let of = Use::Type(&field.ty);
            match (now.get(field.name.as_str()), new.get(index).filter(is_new)) {
                (Some(other), _) => {
                    self.declared(
                        "field",
                        path(field),
                        (of, &field.docs),
                        (Use::Type(&other.ty), &other.docs),
                    );
                }
                (None, Some(other)) if self.same(of, Use::Type(&other.ty)) => {
                    renamed.insert(other.name.as_str());
                    self.emit(path(field), Kind::Written("field"), false, [text(field), text(other)]);
                }
                (None, _) => self.emit(path(field), Kind::Written("field"), true, [text(field), None]),
            }
        }
        for field in new.iter().filter(is_new).filter(|field| !renamed.contains(field.name.as_str())) {
            self.emit(path(field), Kind::Written("field"), true, [None, text(field)]);
        }
        // Common fields may be in a different order. Only the first field that moved is shown as a change.
        let kept = old.iter().filter(|field| now.contains_key(field.name.as_str()));
        let mut still = kept.zip(new.iter().filter(|field| !is_new(field)));
        if let Some((one, other)) = still.find(|(one, other)| one.name != other.name) {
            let place = |field: &Field| side(format!("`{}` is at this position", field.name), &field.docs);
            self.emit(path(one), Kind::Written("field"), true, [place(one), place(other)]);
        }
    }

    pub(super) fn discriminants(&mut self, path: Path<'m>, old: &'m Union, new: &'m Union) {
        let (one, other) = (Use::Type(&old.discriminant), Use::Type(&new.discriminant));
        let wire = !self.same(one, other);
        if wire || old.discriminant_name != new.discriminant_name {
            let (one, other) =
                (View::of(self.base, one).form(self.base), View::of(self.new, other).form(self.new));
            let sides = [
                Some(Side { text: format!("{}: {one}", old.discriminant_name), span: path.base }),
                Some(Side { text: format!("{}: {other}", new.discriminant_name), span: path.new }),
            ];
            self.emit(path.part(&old.discriminant_name), Kind::Written("discriminant"), wire, sides);
        }
    }
}
