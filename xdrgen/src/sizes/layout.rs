//! The layouts of types, computed from the IR. The derive macro `Xdr` computes the same layouts for emitted
//! types, except that it also knows the layouts of existing Rust types.

use rpcrdma_layout::{Items, Lengths, Size};

use crate::graph::Graph;
use crate::ir::{Body, Bound, Field, Module, Type, TypeDef, TypeId};

/// The layout of a type's values on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TypeSizes {
    /// The range of lengths of the type's encodings, in bytes.
    pub lengths: Lengths,
    /// The eligible items that a value can contain.
    pub items: Items,
}

pub(crate) struct Layouts {
    lengths: Vec<Lengths>,
    items: Vec<Items>,
}

impl Layouts {
    pub(crate) fn of(module: &Module) -> Self {
        // The lengths of a type do not depend on boxed values or recursive fields, so no length depends on
        // itself.
        let graph = Graph::new(&module.types, |id, ty, named| held(id, &ty.body, named));
        let items = items_of_all(module, &Graph::of_module(module));
        Layouts { items, ..Layouts::without_items(module, graph.order()) }
    }

    /// Computes the lengths of types. A type's lengths are unknown unless `order` lists the contained types
    /// before the type.
    pub(crate) fn without_items(module: &Module, order: &[TypeId]) -> Self {
        let mut layouts = Layouts { lengths: vec![Lengths::UNKNOWN; module.types.len()], items: Vec::new() };
        for id in order {
            let Some(ty) = module.get(*id) else { continue };
            let lengths = layouts.definition(module, *id, ty);
            if let Some(slot) = layouts.lengths.get_mut(id.0) {
                *slot = lengths;
            }
        }
        layouts
    }

    pub(crate) fn named(&self, id: TypeId) -> TypeSizes {
        self.ty(&Type::Named(id))
    }

    pub(crate) fn ty(&self, ty: &Type) -> TypeSizes {
        TypeSizes { lengths: self.lengths(ty), items: items(ty, &self.items) }
    }

    fn definition(&self, module: &Module, id: TypeId, ty: &TypeDef) -> Lengths {
        let field = |field: &Field| self.field(module, id, field);
        match &ty.body {
            Body::Alias(of) => self.lengths(of),
            Body::Enum(_) => Lengths::fixed(4),
            Body::Union(union) => {
                let arms = union.arms.iter().map(|arm| arm.payload.as_ref().map_or(Lengths::ZERO, field));
                self.lengths(&union.discriminant).and(arms.reduce(Lengths::or).unwrap_or(Lengths::ZERO))
            }
            body => body.fields().map(field).fold(Lengths::ZERO, Lengths::and),
        }
    }

    fn field(&self, module: &Module, owner: TypeId, field: &Field) -> Lengths {
        match (&field.ty, &field.max) {
            (ty, _) if field.eligible => Lengths::of_item(data(module, ty)),
            (Type::Array(_) | Type::Optional(_), _) if is_recursive(owner, field) => {
                Lengths::UNKNOWN.array(u32::MAX)
            }
            _ if is_recursive(owner, field) => Lengths::UNKNOWN,
            (Type::Array(of), Some(max)) => self.lengths(of).array(max.value),
            (ty, _) => self.lengths(ty),
        }
    }

    fn lengths(&self, ty: &Type) -> Lengths {
        match ty {
            Type::Void => Lengths::ZERO,
            Type::Scalar(scalar) => Lengths::fixed(scalar.size()),
            Type::Named(id) => self.lengths.get(id.0).copied().unwrap_or(Lengths::UNKNOWN),
            Type::FixedOpaque(len) => Lengths::of_fixed_opaque(u64::from(len.value)),
            Type::Opaque(max) | Type::String(max) => Lengths::of_data(bound(max.as_ref())),
            Type::SmallOpaque(max) => Lengths::of_data(Size::Bounded(u64::from(max.value))),
            Type::FixedArray(of, len) => self.lengths(of).times(u64::from(len.value)),
            Type::Array(_) => Lengths::UNKNOWN.array(u32::MAX),
            Type::Optional(of) => self.lengths(of).optional(),
            // The runtime also treats a box's lengths as unknown. xdrgen cannot know the lengths of an
            // existing Rust type.
            Type::Boxed(_) | Type::Extern(_) => Lengths::UNKNOWN,
        }
    }
}

/// Sets the items of the types in a cycle of several types, since the derive cannot determine them. The
/// items of typedefs remain unset.
pub(crate) fn state_items(module: &mut Module, graph: &Graph) {
    let hidden: Vec<TypeId> = graph.cycles().filter(|cycle| cycle.len() > 1).flatten().copied().collect();
    if hidden.is_empty() {
        return;
    }
    let items = items_of_all(module, graph);
    for id in hidden {
        let (Some(ty), Some(items)) = (module.types.get_mut(id.0), items.get(id.0)) else { continue };
        ty.items = (!matches!(ty.body, Body::Alias(_))).then_some(*items);
    }
}

/// Returns the items of all types. The items of a cycle are the least solution of its equations (see
/// [`Items`]). Unlike the graph for the lengths, `graph` must include uses in boxes and recursive fields.
fn items_of_all(module: &Module, graph: &Graph) -> Vec<Items> {
    let mut known = vec![Items::NONE; module.types.len()];
    for cycle in graph.cycles() {
        let bodies = || cycle.iter().filter_map(|id| Some(&module.get(*id)?.body));
        // xdrgen cannot know the items of an external Rust type. The derive rejects a cycle that declares too
        // few items, so a cycle with an external type declares unbounded items.
        let is_unknown = cycle.len() > 1 && bodies().any(|body| body.types().any(names_extern));
        let combined = |known: &[Items]| {
            bodies().map(|body| items_of_body(module, body, known)).fold(Items::NONE, Items::or)
        };
        let mut items = match is_unknown {
            true => Items { count: Size::Unbounded, largest: Size::Unbounded },
            false => combined(&known),
        };
        // Each type of a cycle contains the others, so all of them have the same `Items`.
        for _ in 0..2 {
            for id in cycle {
                known.get_mut(id.0).into_iter().for_each(|slot| *slot = items);
            }
            items = items.grown(combined(&known));
        }
    }
    known
}

fn names_extern(ty: &Type) -> bool {
    matches!(ty, Type::Extern(_)) || ty.inner().is_some_and(names_extern)
}

fn items_of_body(module: &Module, body: &Body, known: &[Items]) -> Items {
    let fields = body.fields().map(|field| match (&field.ty, &field.max) {
        (ty, _) if field.eligible => Items::one(data(module, ty)),
        (Type::Array(of), Some(max)) => items(of, known).array(max.value),
        (ty, _) => items(ty, known),
    });
    match body {
        Body::Alias(of) => items(of, known),
        Body::Union(_) => fields.fold(Items::NONE, Items::or),
        _ => fields.fold(Items::NONE, Items::and),
    }
}

fn items(ty: &Type, known: &[Items]) -> Items {
    match ty {
        Type::Named(id) => known.get(id.0).copied().unwrap_or(Items::NONE),
        Type::FixedArray(of, len) => items(of, known).times(u64::from(len.value)),
        Type::Optional(of) | Type::Boxed(of) => items(of, known),
        Type::Array(of) => items(of, known).array(u32::MAX),
        _ => Items::NONE,
    }
}

/// Returns the bound of opaque data or a string, with typedefs resolved.
fn data(module: &Module, ty: &Type) -> Size {
    match module.resolve_alias(ty) {
        Type::Opaque(max) | Type::String(max) => bound(max.as_ref()),
        _ => Size::ZERO,
    }
}

fn bound(max: Option<&Bound>) -> Size {
    Size::of_bound(max.map_or(u32::MAX, |max| max.value))
}

/// Returns true if the derive can detect that a field contains the type that declares the field.
fn is_recursive(owner: TypeId, field: &Field) -> bool {
    field.recursive || field.ty.named() == Some(owner)
}

/// Adds the types that the lengths of a type depend on.
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
