//! The sizes of types: what the derive computes for the emitted types, computed from the same form.

use std::fmt;

use crate::graph::Graph;
use crate::ir::{Body, Field, Module, Scalar, Type, TypeDef, TypeId};

/// A size in bytes, or a count; none is unbounded, a value of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size(pub Option<u64>);

impl Default for Size {
    fn default() -> Self {
        Size::ZERO
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(size) => write!(f, "{size}"),
            None => f.write_str("unbounded"),
        }
    }
}

impl Size {
    /// Nothing.
    pub const ZERO: Size = Size(Some(0));
    /// No bound.
    pub const UNBOUNDED: Size = Size(None);

    const fn new(size: u64) -> Self {
        Size(Some(size))
    }

    fn plus(self, other: Size) -> Size {
        Size(self.0.zip(other.0).and_then(|(one, other)| one.checked_add(other)))
    }

    /// Zero times anything is zero.
    fn times(self, count: u64) -> Size {
        if count == 0 { Size::ZERO } else { Size(self.0.and_then(|size| size.checked_mul(count))) }
    }

    /// Any number of times; nothing stays nothing.
    fn repeated(self) -> Size {
        if self == Size::ZERO { self } else { Size::UNBOUNDED }
    }

    fn max(self, other: Size) -> Size {
        Size(self.0.zip(other.0).map(|(one, other)| one.max(other)))
    }

    fn padded(len: u64) -> Size {
        Size(len.checked_next_multiple_of(4))
    }

    /// The largest count of XDR is no bound that anybody chose.
    fn of_opaque(max: Option<u32>) -> Size {
        Size(max.filter(|max| *max != u32::MAX).map(u64::from))
    }

    fn with_padding(self) -> Size {
        self.0.map_or(self, Size::padded)
    }
}

/// The sizes of a type's values on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The smallest encoding in bytes.
    pub min: u64,
    /// The largest encoding in bytes.
    pub max: Size,
    /// The largest encoding with every eligible item out of the stream.
    pub max_reduced: Size,
    /// The largest eligible item in bytes, without padding; zero if there is none.
    pub item: Size,
    /// How many eligible items a value can hold.
    pub items: Size,
}

impl Layout {
    const NOTHING: Layout = Layout::fixed(0);

    const fn fixed(size: u64) -> Self {
        Layout::plain(size, Size::new(size))
    }

    /// Without eligible items.
    const fn plain(min: u64, max: Size) -> Self {
        Layout { min, max, max_reduced: max, item: Size::ZERO, items: Size::ZERO }
    }

    /// One behind the other.
    fn and(self, other: Layout) -> Layout {
        Layout {
            min: self.min.saturating_add(other.min),
            max: self.max.plus(other.max),
            max_reduced: self.max_reduced.plus(other.max_reduced),
            item: self.item.max(other.item),
            items: self.items.plus(other.items),
        }
    }

    /// Either.
    fn or(self, other: Layout) -> Layout {
        Layout {
            min: self.min.min(other.min),
            max: self.max.max(other.max),
            max_reduced: self.max_reduced.max(other.max_reduced),
            item: self.item.max(other.item),
            items: self.items.max(other.items),
        }
    }

    /// The items alone.
    fn items(self) -> Layout {
        Layout { item: self.item, items: self.items, ..Layout::NOTHING }
    }

    /// Any number of times.
    fn repeated(self) -> Layout {
        Layout { item: self.item, items: self.items.repeated(), ..Layout::plain(4, Size::UNBOUNDED) }
    }

    fn times(self, count: u64) -> Layout {
        Layout {
            min: self.min.saturating_mul(count),
            max: self.max.times(count),
            max_reduced: self.max_reduced.times(count),
            item: self.item,
            items: self.items.times(count),
        }
    }
}

/// The layouts of a module's types.
pub(crate) struct Layouts {
    types: Vec<Layout>,
    /// The bound of the data that a type is: what an eligible item of it can be at most.
    data: Vec<Size>,
    /// What each type holds, seen so many levels down.
    levels: Vec<Vec<Layout>>,
}

/// How many levels down types are looked into.
const FULL: usize = 16;

impl Layouts {
    pub(crate) fn of(module: &Module) -> Self {
        let count = module.types.len();
        let types = vec![Layout::plain(0, Size::UNBOUNDED); count];
        let mut layouts = Layouts { types, data: vec![Size::ZERO; count], levels: Vec::new() };
        // What a type holds on the heap has no part in its sizes, so there are no circles.
        let graph = Graph::new(&module.types, |id, ty, named| held(id, &ty.body, named));
        for id in graph.order() {
            let Some(Body::Alias(of)) = module.get(*id).map(|ty| &ty.body) else { continue };
            let data = layouts.data(of);
            if let Some(bound) = layouts.data.get_mut(id.0) {
                *bound = data;
            }
        }
        layouts.look_down(module, graph.order());
        for id in graph.order() {
            let Some(ty) = module.get(*id) else { continue };
            let layout = layouts.definition(*id, ty);
            if let Some(slot) = layouts.types.get_mut(id.0) {
                *slot = layout;
            }
        }
        layouts
    }

    /// Looks into types, a level further down with each box, counted array and recursive field: as the runtime does, whose
    /// `Full` is sixteen levels.
    fn look_down(&mut self, module: &Module, order: &[TypeId]) {
        let mut same = 0;
        while self.levels.len() < FULL && same < 3 {
            let level = self.levels.len();
            self.levels.push(vec![Layout::NOTHING; module.types.len()]);
            for id in order {
                let Some(ty) = module.get(*id) else { continue };
                let seen = self.body_seen(*id, &ty.body, level);
                if let Some(slot) = self.levels.get_mut(level).and_then(|level| level.get_mut(id.0)) {
                    *slot = seen;
                }
            }
            // No field's type is more than two levels by itself, so nothing changes any more.
            let is_same = level > 0 && self.levels.get(level) == self.levels.get(level - 1);
            same = if is_same { same + 1 } else { 0 };
        }
    }

    fn body_seen(&self, id: TypeId, body: &Body, level: usize) -> Layout {
        let parts = body.fields().map(|field| self.field_seen(id, field, level));
        match body {
            Body::Alias(of) => self.seen(of, level),
            Body::Union(_) => parts.fold(Layout::NOTHING, Layout::or),
            _ => parts.fold(Layout::NOTHING, Layout::and),
        }
        .items()
    }

    fn field_seen(&self, owner: TypeId, field: &Field, level: usize) -> Layout {
        match (&field.ty, &field.max) {
            _ if field.eligible => self.field(owner, field),
            (Type::Array(of), Some(max)) => {
                let level = if is_recursive(owner, field) { level.checked_sub(1) } else { Some(level) };
                let of = level.map_or(Layout::NOTHING, |level| self.seen(of, level));
                of.times(u64::from(max.value))
            }
            (ty, _) if is_recursive(owner, field) => self.behind(ty, level),
            (ty, _) => self.seen(ty, level),
        }
    }

    /// What a type holds, seen from the level above.
    fn behind(&self, ty: &Type, level: usize) -> Layout {
        level.checked_sub(1).map_or(Layout::NOTHING, |level| self.seen(ty, level))
    }

    fn seen(&self, ty: &Type, level: usize) -> Layout {
        match ty {
            Type::Named(id) => {
                let level = self.levels.get(level).or(self.levels.last());
                level.and_then(|level| level.get(id.0)).copied().unwrap_or(Layout::NOTHING)
            }
            Type::FixedArray(of, len) => self.seen(of, level).times(u64::from(len.value)),
            Type::Optional(of) => self.seen(of, level),
            Type::Array(of) => self.behind(of, level).repeated(),
            Type::Boxed(of) => self.behind(of, level),
            _ => Layout::NOTHING,
        }
    }

    /// A type that is met behind itself, or may be: what it holds half the way down, and all the way.
    fn settled(&self, ty: &Type) -> Layout {
        let (half, full) = (self.behind(ty, FULL / 2), self.behind(ty, FULL));
        let items = if half.items == full.items { full.items } else { Size::UNBOUNDED };
        Layout { item: full.item, items, ..Layout::plain(0, Size::UNBOUNDED) }
    }

    pub(super) fn named(&self, index: usize) -> Layout {
        self.types.get(index).copied().unwrap_or(Layout::NOTHING)
    }

    fn definition(&self, id: TypeId, ty: &TypeDef) -> Layout {
        let fields = || ty.body.fields().map(|field| self.field(id, field));
        let layout = match &ty.body {
            Body::Alias(of) => self.ty(of),
            Body::Enum(_) => Layout::fixed(4),
            Body::Union(union) => {
                let payload =
                    |field: Option<&Field>| field.map_or(Layout::NOTHING, |field| self.field(id, field));
                let arms = union.arms.iter().map(|arm| payload(arm.payload.as_ref()));
                self.ty(&union.discriminant).and(arms.reduce(Layout::or).unwrap_or(Layout::NOTHING))
            }
            _ => fields().fold(Layout::NOTHING, Layout::and),
        };
        if !ty.body.fields().any(|field| is_recursive(id, field)) {
            return layout;
        }
        let Layout { item, items, .. } = self.settled(&Type::Named(id));
        Layout { item, items, ..layout }
    }

    fn field(&self, owner: TypeId, field: &Field) -> Layout {
        if field.eligible {
            // The count, four bytes, stays in the stream.
            let item = self.data(&field.ty);
            return Layout { max_reduced: Size::new(4), item, items: Size::new(1), ..self.ty(&field.ty) };
        }
        if is_recursive(owner, field) {
            let counted = matches!(field.ty, Type::Array(_) | Type::Optional(_));
            return Layout::plain(if counted { 4 } else { 0 }, Size::UNBOUNDED);
        }
        match (&field.ty, &field.max) {
            (Type::Array(of), Some(max)) => {
                let elements = self.ty(of).times(u64::from(max.value));
                Layout { min: 4, ..Layout::fixed(4).and(elements) }
            }
            (ty, _) => self.ty(ty),
        }
    }

    /// The bound of opaque data or of a string.
    fn data(&self, ty: &Type) -> Size {
        match ty {
            Type::Opaque(max) | Type::String(max) => Size::of_opaque(max.as_ref().map(|max| max.value)),
            Type::Named(id) => self.data.get(id.0).copied().unwrap_or(Size::ZERO),
            _ => Size::ZERO,
        }
    }

    pub(crate) fn ty(&self, ty: &Type) -> Layout {
        match ty {
            Type::Void => Layout::NOTHING,
            Type::Scalar(Scalar::Hyper | Scalar::UnsignedHyper | Scalar::Double) => Layout::fixed(8),
            Type::Scalar(Scalar::Quadruple) => Layout::fixed(16),
            Type::Scalar(_) => Layout::fixed(4),
            Type::Named(id) => self.named(id.0),
            Type::FixedOpaque(len) => Layout::fixed(u64::from(len.value).next_multiple_of(4)),
            Type::Opaque(max) | Type::String(max) => {
                let data = Size::of_opaque(max.as_ref().map(|max| max.value)).with_padding();
                Layout::plain(4, Size::new(4).plus(data))
            }
            Type::SmallOpaque(max) => Layout::plain(4, Size::new(4).plus(Size::padded(u64::from(max.value)))),
            Type::FixedArray(of, len) => self.ty(of).times(u64::from(len.value)),
            Type::Array(of) => self.settled(of).repeated(),
            Type::Optional(of) => Layout { min: 4, ..Layout::fixed(4).and(self.ty(of)) },
            // A box hides the sizes of what it holds, and not its items.
            Type::Boxed(of) => self.settled(of),
            // A type that exists in Rust has sizes that only Rust knows.
            Type::Extern(_) => Layout::plain(0, Size::UNBOUNDED),
        }
    }
}

/// Whether a field holds its own type again, as far as the derive can see it or is told.
fn is_recursive(owner: TypeId, field: &Field) -> bool {
    field.recursive || field.ty.named() == Some(owner)
}

/// The types whose sizes a type's sizes are made of.
fn held(id: TypeId, body: &Body, named: &mut Vec<TypeId>) {
    match body {
        Body::Alias(of) => unboxed(of, named),
        body => {
            body.fields().filter(|field| !is_recursive(id, field)).for_each(|field| unboxed(&field.ty, named))
        }
    }
    if let Body::Union(union) = body {
        unboxed(&union.discriminant, named);
    }
}

fn unboxed(ty: &Type, named: &mut Vec<TypeId>) {
    match ty {
        Type::Named(id) => named.push(*id),
        Type::FixedArray(of, _) | Type::Array(of) | Type::Optional(of) => unboxed(of, named),
        _ => {}
    }
}
