//! Whether two types have one layout, asked of many types of two protocols.

use std::mem::Discriminant;

use super::change::Rules;
use super::pairs::{At, Comparison, Stop, most_pairs};
use super::view::{Use, View};
use crate::hash::HashMap;
use crate::hir::{Body, Hir, TypeDef, TypeId};
use crate::source::Span;

/// How many types of another name are tried for one that is gone.
pub(super) const TRIED: usize = 4;

/// What two types of one layout have in common at least: the kind, and how many parts a struct has.
pub(super) type Parts = (Option<Discriminant<Body>>, usize);

pub(super) fn parts(hir: &Hir, id: TypeId) -> Parts {
    let body = hir.get(id).map(|ty| &ty.body);
    let count = match body {
        Some(Body::Struct(fields)) => fields.len(),
        _ => 0,
    };
    (body.map(std::mem::discriminant), count)
}

/// What has been found out about types of two protocols.
pub(crate) struct Layouts<'m> {
    old: &'m Hir,
    new: &'m Hir,
    known: HashMap<(TypeId, TypeId), bool>,
    /// How many more pairs are looked at. What is left then counts as different.
    left: usize,
}

impl<'m> Layouts<'m> {
    pub(crate) fn new(old: &'m Hir, new: &'m Hir) -> Self {
        Layouts { old, new, known: HashMap::default(), left: most_pairs(old, new) }
    }

    /// Whether two uses have one layout, where types of one name count as one: what differs in them differs there.
    pub(crate) fn same(&mut self, old: Use<'m>, new: Use<'m>) -> bool {
        let (mut old, mut new) = (old, new);
        loop {
            let (one, other) = (View::of(self.old, old), View::of(self.new, new));
            return match (one, other) {
                (View::FixedArray(of, len), View::FixedArray(with, other)) if len == other => {
                    (old, new) = (of, with);
                    continue;
                }
                (View::Array(of, max), View::Array(with, other)) if max == other => {
                    (old, new) = (of, with);
                    continue;
                }
                (View::Optional(of), View::Optional(with)) => {
                    (old, new) = (of, with);
                    continue;
                }
                (View::Void, View::Void) => true,
                (View::Scalar(one), View::Scalar(other)) => one == other,
                (View::FixedOpaque(one), View::FixedOpaque(other))
                | (View::Opaque(one), View::Opaque(other))
                | (View::String(one), View::String(other)) => one == other,
                (View::Extern(one), View::Extern(other)) => one == other,
                _ => match (one.id(), other.id()) {
                    (Some(one), Some(other)) => self.same_named(one, other),
                    _ => self.whole(old, new),
                },
            };
        }
    }

    fn same_named(&mut self, old: TypeId, new: TypeId) -> bool {
        let name = |hir: &'m Hir, id| hir.get(id).map(|ty: &TypeDef| ty.name.as_str());
        name(self.old, old) == name(self.new, new) || self.equal(old, new)
    }

    /// Whether two types have one layout throughout.
    pub(crate) fn equal(&mut self, old: TypeId, new: TypeId) -> bool {
        if let Some(known) = self.known.get(&(old, new)) {
            return *known;
        }
        let equal = self.whole(Use::Id(old), Use::Id(new));
        self.known.insert((old, new), equal);
        equal
    }

    fn whole(&mut self, old: Use<'m>, new: Use<'m>) -> bool {
        let mut trial =
            Comparison::within(self.old, self.new, Rules::default(), self.left, Stop::AtDifference);
        let nowhere = At { owner: "", part: "", base: Span::default(), new: Span::default() };
        trial.compare(old, new, nowhere);
        self.left = trial.left;
        let equal = trial.found.is_empty() && trial.additions.is_empty();
        if equal {
            // So are all types that it led to.
            self.known.extend(trial.bodies.into_iter().map(|pair| (pair, true)));
        }
        equal
    }

    /// Which types are what others were, under another name.
    pub(crate) fn pairs(&mut self, old: &[TypeId], new: &[TypeId]) -> HashMap<TypeId, TypeId> {
        let mut alike: HashMap<Parts, Vec<TypeId>> = HashMap::default();
        for id in new {
            alike.entry(parts(self.new, *id)).or_default().push(*id);
        }
        let mut pairs = HashMap::default();
        for id in old {
            let Some(others) = alike.get_mut(&parts(self.old, *id)) else { continue };
            let found = others.iter().take(TRIED).position(|other| self.equal(*id, *other));
            if let Some(at) = found {
                pairs.insert(*id, others.remove(at));
            }
        }
        pairs
    }
}
