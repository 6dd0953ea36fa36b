//! What needs all types at once: types without an end, recursion, and which traits a type can have.

use std::collections::HashSet;

use super::lists::{fields_mut, fields_of};
use crate::diag::Diagnostic;
use crate::ir::{Body, Derives, Field, Module, Scalar, Type, TypeId, Union};
use crate::source::Span;

/// Bounded opaque data of at most this many bytes is held in place.
const SMALL: u32 = 128;
/// Plain data of at most this many bytes on the wire is `Copy`.
const COPIED: u64 = 128;
/// The largest array that has a `Default` in Rust.
const DEFAULT_ARRAY: u32 = 32;
/// A union is uneven if its largest arm takes so many bytes of memory more than the next.
const UNEVEN: u64 = 160;

/// Holds small opaque data in place, but for what RDMA may place: that shares the memory it came in.
pub(crate) fn hold_small_opaque(module: &mut Module, shared: &HashSet<TypeId>) {
    let small = |ty: &mut Type| {
        if let Type::Opaque(Some(bound)) = ty
            && bound.value <= SMALL
        {
            *ty = Type::SmallOpaque(bound.clone());
        }
    };
    for (index, ty) in module.types.iter_mut().enumerate() {
        match &mut ty.body {
            Body::Alias(of) if !shared.contains(&TypeId(index)) => small(of),
            body => fields_mut(body).filter(|field| !field.eligible).for_each(|field| small(&mut field.ty)),
        }
    }
}

// ---- types without an end

/// Reports types whose every value would be infinite, and typedefs that go in a circle.
pub(crate) fn check_ends(module: &Module, spans: &[Span], found: &mut Vec<Diagnostic>) {
    let finite = finite(module);
    let mut said = HashSet::new();
    for id in (0..module.types.len()).map(TypeId) {
        let endless = finite.get(id.0) == Some(&false);
        let circle =
            circle_of(module, id, &|ty| if endless { direct(module, ty) } else { aliased(module, ty) });
        if circle.is_empty() || circle.iter().any(|id| said.contains(id)) {
            continue;
        }
        let (Some(ty), Some(span)) = (module.get(id), spans.get(id.0)) else { continue };
        let mut error = if endless {
            Diagnostic::error("X222", *span, format!("a value of `{}` would have no end", ty.name))
                .with_label("contains itself")
                .with_help("let it be optional (`*`), or hold itself in a counted array (`<>`)")
        } else {
            Diagnostic::error("X223", *span, format!("`{}` is a name of itself", ty.name))
                .with_label("leads back to itself by typedefs alone")
                .with_help("put a struct in between")
        };
        for other in circle.iter().filter(|other| **other != id) {
            if let (Some(ty), Some(span)) = (module.get(*other), spans.get(other.0)) {
                error = error.with_related(*span, format!("by way of `{}`", ty.name));
            }
        }
        found.push(error);
        said.extend(circle);
    }
}

/// Which types have a value that ends.
fn finite(module: &Module) -> Vec<bool> {
    let mut finite = vec![false; module.types.len()];
    loop {
        let next: Vec<bool> = module.types.iter().map(|ty| ends(&ty.body, &finite)).collect();
        if next == finite {
            return finite;
        }
        finite = next;
    }
}

fn ends(body: &Body, finite: &[bool]) -> bool {
    match body {
        Body::Alias(ty) => type_ends(ty, finite),
        Body::Enum(_) => true,
        Body::Union(Union { arms, .. }) => {
            arms.is_empty()
                || arms.iter().any(|arm| {
                    arm.payload.as_ref().is_none_or(|field| field.list || type_ends(&field.ty, finite))
                })
        }
        body => fields_of(body).all(|field| field.list || type_ends(&field.ty, finite)),
    }
}

fn type_ends(ty: &Type, finite: &[bool]) -> bool {
    match ty {
        Type::Named(id) => finite.get(id.0).copied().unwrap_or(true),
        // An array of none has an end, but its type has none in Rust, nor a size here.
        Type::FixedArray(of, _) | Type::Boxed(of) => type_ends(of, finite),
        _ => true,
    }
}

/// The types that a type holds in place.
fn direct(module: &Module, id: TypeId) -> Vec<TypeId> {
    let in_place = |ty: &Type| {
        let mut ty = ty;
        while let Type::FixedArray(of, _) = ty {
            ty = of;
        }
        if let Type::Named(id) = ty { Some(*id) } else { None }
    };
    match module.get(id).map(|ty| &ty.body) {
        Some(Body::Alias(ty)) => in_place(ty).into_iter().collect(),
        Some(body) => fields_of(body).filter_map(|field| in_place(&field.ty)).collect(),
        None => Vec::new(),
    }
}

/// The types that a typedef is made of.
fn aliased(module: &Module, id: TypeId) -> Vec<TypeId> {
    let mut named = Vec::new();
    if let Some(Body::Alias(ty)) = module.get(id).map(|ty| &ty.body) {
        collect_named(ty, &mut named);
    }
    named
}

fn collect_named(ty: &Type, named: &mut Vec<TypeId>) {
    match ty {
        Type::Named(id) => named.push(*id),
        Type::FixedArray(of, _) | Type::Array(of) | Type::Optional(of) | Type::Boxed(of) => {
            collect_named(of, named);
        }
        _ => {}
    }
}

/// The types on a way from `start` back to it; empty if there is none.
fn circle_of(module: &Module, start: TypeId, next: &dyn Fn(TypeId) -> Vec<TypeId>) -> Vec<TypeId> {
    let mut before: Vec<Option<TypeId>> = vec![None; module.types.len()];
    let mut pending = vec![start];
    while let Some(id) = pending.pop() {
        for to in next(id) {
            let Some(slot) = before.get_mut(to.0) else { continue };
            if slot.is_some() {
                continue;
            }
            *slot = Some(id);
            if to == start {
                return way_back(&before, start);
            }
            pending.push(to);
        }
    }
    Vec::new()
}

fn way_back(before: &[Option<TypeId>], start: TypeId) -> Vec<TypeId> {
    let mut way = vec![start];
    let mut at = before.get(start.0).copied().flatten();
    while let Some(id) = at.filter(|id| *id != start) {
        way.push(id);
        at = before.get(id.0).copied().flatten();
    }
    way
}

// ---- recursion

/// Puts on the heap what would make a type contain itself. Every circle that is left has optional data, a union's
/// arm or an array in it: the first two get a box, the third is one.
pub(crate) fn box_recursion(module: &mut Module) {
    let reached: Vec<HashSet<TypeId>> =
        (0..module.types.len()).map(|index| reached_from(module, TypeId(index))).collect();
    let arrays = array_names(module);
    for (index, ty) in module.types.iter_mut().enumerate() {
        let own = TypeId(index);
        let comes_back = |ty: &Type| {
            let mut named = Vec::new();
            collect_named(ty, &mut named);
            named.iter().any(|id| reached.get(id.0).is_some_and(|reached| reached.contains(&own)))
        };
        match &mut ty.body {
            Body::Alias(of) => box_optional(of, &comes_back),
            Body::Union(union) => {
                for field in union.arms.iter_mut().filter_map(|arm| arm.payload.as_mut()) {
                    box_field(field, &arrays, &comes_back);
                    if matches!(field.ty, Type::Named(_) | Type::FixedArray(..)) && comes_back(&field.ty) {
                        field.ty = Type::Boxed(Box::new(field.ty.clone()));
                    }
                }
            }
            body => fields_mut(body).for_each(|field| box_field(field, &arrays, &comes_back)),
        }
    }
}

/// The types that are other names of counted arrays.
fn array_names(module: &Module) -> HashSet<TypeId> {
    let mut arrays = HashSet::new();
    // A name may stand for a name: until nothing is added.
    loop {
        let before = arrays.len();
        for (index, ty) in module.types.iter().enumerate() {
            if matches!(&ty.body, Body::Alias(of) if is_array(of, &arrays)) {
                arrays.insert(TypeId(index));
            }
        }
        if arrays.len() == before {
            return arrays;
        }
    }
}

fn is_array(ty: &Type, arrays: &HashSet<TypeId>) -> bool {
    match ty {
        Type::Array(_) => true,
        Type::Named(id) => arrays.contains(id),
        Type::Optional(of) | Type::FixedArray(of, _) => is_array(of, arrays),
        _ => false,
    }
}

fn box_field(field: &mut Field, arrays: &HashSet<TypeId>, comes_back: &dyn Fn(&Type) -> bool) {
    // An array asks for the sizes of its element, which would be asking for the type's own.
    if is_array(&field.ty, arrays) && comes_back(&field.ty) {
        field.recursive = true;
    }
    box_optional(&mut field.ty, comes_back);
}

fn box_optional(ty: &mut Type, comes_back: &dyn Fn(&Type) -> bool) {
    if let Type::Optional(of) = ty
        && !matches!(**of, Type::Boxed(_))
        && comes_back(of)
    {
        **of = Type::Boxed(of.clone());
    }
}

/// All types that a type is made of, by any number of steps.
pub(crate) fn reached_from(module: &Module, start: TypeId) -> HashSet<TypeId> {
    let mut reached = HashSet::new();
    let mut pending = vec![start];
    while let Some(id) = pending.pop() {
        let mut named = Vec::new();
        match module.get(id).map(|ty| &ty.body) {
            Some(Body::Alias(ty)) => collect_named(ty, &mut named),
            Some(body) => fields_of(body).for_each(|field| collect_named(&field.ty, &mut named)),
            None => {}
        }
        if let Some(Body::Union(union)) = module.get(id).map(|ty| &ty.body) {
            collect_named(&union.discriminant, &mut named);
        }
        pending.extend(named.into_iter().filter(|id| reached.insert(*id)));
    }
    reached
}

// ---- traits

/// Decides which traits each type derives.
pub(crate) fn decide_derives(module: &mut Module) {
    // `Copy` and `Eq` hold until a part says no; `Default` only once a value is known to come to an end.
    let mut derives = vec![Derives { copy: true, eq: true, default: false }; module.types.len()];
    loop {
        let next: Vec<Derives> = module
            .types
            .iter()
            .map(|ty| Derives {
                copy: parts(&ty.body).all(|part| copies(part, &derives)),
                eq: parts(&ty.body).all(|part| compares(part, &derives)),
                default: has_default(&ty.body, &derives),
            })
            .collect();
        if next == derives {
            break;
        }
        derives = next;
    }
    for (index, derives) in derives.iter_mut().enumerate() {
        derives.copy = derives.copy && size(module, &Type::Named(TypeId(index))) <= COPIED;
    }
    for (ty, derives) in module.types.iter_mut().zip(derives) {
        ty.derives = derives;
    }
}

/// The types of which a body is made.
fn parts(body: &Body) -> Box<dyn Iterator<Item = &Type> + '_> {
    match body {
        Body::Alias(ty) => Box::new(std::iter::once(ty)),
        Body::Union(union) => {
            Box::new(std::iter::once(&union.discriminant).chain(fields_of(body).map(|field| &field.ty)))
        }
        body => Box::new(fields_of(body).map(|field| &field.ty)),
    }
}

fn copies(ty: &Type, derives: &[Derives]) -> bool {
    match ty {
        Type::Void | Type::Scalar(_) | Type::FixedOpaque(_) | Type::SmallOpaque(_) => true,
        Type::Named(id) => derives.get(id.0).is_some_and(|derives| derives.copy),
        Type::FixedArray(of, _) | Type::Optional(of) => copies(of, derives),
        Type::Extern(_) | Type::Opaque(_) | Type::String(_) | Type::Array(_) | Type::Boxed(_) => false,
    }
}

fn compares(ty: &Type, derives: &[Derives]) -> bool {
    match ty {
        Type::Scalar(scalar) => !matches!(scalar, Scalar::Float | Scalar::Double),
        Type::Named(id) => derives.get(id.0).is_some_and(|derives| derives.eq),
        Type::FixedArray(of, _) | Type::Optional(of) | Type::Array(of) | Type::Boxed(of) => {
            compares(of, derives)
        }
        Type::Extern(_) => false,
        Type::Void | Type::FixedOpaque(_) | Type::SmallOpaque(_) | Type::Opaque(_) | Type::String(_) => true,
    }
}

fn has_default(body: &Body, derives: &[Derives]) -> bool {
    let default = |ty: &Type| type_has_default(ty, derives);
    match body {
        Body::Enum(members) => members.iter().any(|member| member.value == 0),
        Body::Union(union) => union.initial.and_then(|index| union.arms.get(index)).is_some_and(|arm| {
            (!arm.keeps_discriminant() || default(&union.discriminant))
                && arm.payload.as_ref().is_none_or(|field| default(&field.ty))
        }),
        body => parts(body).all(default),
    }
}

fn type_has_default(ty: &Type, derives: &[Derives]) -> bool {
    match ty {
        Type::Named(id) => derives.get(id.0).is_some_and(|derives| derives.default),
        Type::FixedOpaque(len) => len.value <= DEFAULT_ARRAY,
        Type::FixedArray(of, len) => len.value <= DEFAULT_ARRAY && type_has_default(of, derives),
        Type::Boxed(of) => type_has_default(of, derives),
        Type::Extern(_) => false,
        Type::Void | Type::Scalar(_) | Type::SmallOpaque(_) | Type::Opaque(_) | Type::String(_) => true,
        Type::Array(_) | Type::Optional(_) => true,
    }
}

/// The largest encoding of plain data. Anything else has no end here.
fn size(module: &Module, ty: &Type) -> u64 {
    match ty {
        Type::Void => 0,
        Type::Scalar(Scalar::Hyper | Scalar::UnsignedHyper | Scalar::Double) => 8,
        Type::Scalar(Scalar::Quadruple) => 16,
        Type::Scalar(_) => 4,
        Type::FixedOpaque(len) => u64::from(len.value).next_multiple_of(4),
        Type::SmallOpaque(max) => u64::from(max.value).next_multiple_of(4) + 4,
        Type::FixedArray(of, len) => size(module, of).saturating_mul(u64::from(len.value)),
        Type::Optional(of) => size(module, of).saturating_add(4),
        Type::Named(id) => match module.get(*id).map(|ty| &ty.body) {
            Some(Body::Alias(ty)) => size(module, ty),
            Some(Body::Enum(_)) => 4,
            Some(body @ Body::Union(_)) => {
                fields_of(body).map(|field| size(module, &field.ty)).fold(0, u64::max).saturating_add(4)
            }
            Some(body) => fields_of(body).map(|field| size(module, &field.ty)).fold(0, u64::saturating_add),
            None => 0,
        },
        Type::Extern(_) | Type::Opaque(_) | Type::String(_) | Type::Array(_) | Type::Boxed(_) => u64::MAX,
    }
}

// ---- memory

/// Finds unions of which one arm takes much more memory than the others.
pub(crate) fn weigh_unions(module: &mut Module) {
    let uneven: Vec<bool> = module.types.iter().map(|ty| is_uneven(module, &ty.body)).collect();
    for (ty, is_uneven) in module.types.iter_mut().zip(uneven) {
        if let Body::Union(union) = &mut ty.body {
            union.uneven = is_uneven;
        }
    }
}

fn is_uneven(module: &Module, body: &Body) -> bool {
    let Body::Union(union) = body else { return false };
    let payload = |field: Option<&Field>| field.map_or(0, |field| memory(module, &field.ty));
    let mut arms: Vec<u64> = union.arms.iter().map(|arm| payload(arm.payload.as_ref())).collect();
    arms.sort_unstable();
    let largest = arms.pop().unwrap_or(0);
    arms.pop().is_some_and(|next| largest.saturating_sub(next) >= UNEVEN)
}

/// About how many bytes a value takes where it is held.
fn memory(module: &Module, ty: &Type) -> u64 {
    match ty {
        Type::Void => 0,
        Type::Scalar(_) => size(module, ty),
        Type::FixedOpaque(bound) | Type::SmallOpaque(bound) => u64::from(bound.value),
        Type::Opaque(_) | Type::String(_) => 32,
        Type::Array(_) => 24,
        Type::Boxed(_) => 8,
        Type::Extern(_) => 64,
        Type::FixedArray(of, len) => memory(module, of).saturating_mul(u64::from(len.value)),
        Type::Optional(of) => memory(module, of).saturating_add(8),
        Type::Named(id) => match module.get(*id).map(|ty| &ty.body) {
            Some(Body::Alias(ty)) => memory(module, ty),
            Some(Body::Enum(_)) | None => 4,
            Some(body @ Body::Union(_)) => {
                let payloads = fields_of(body).map(|field| memory(module, &field.ty));
                payloads.fold(0, u64::max).saturating_add(8)
            }
            Some(body) => fields_of(body).map(|field| memory(module, &field.ty)).fold(0, u64::saturating_add),
        },
    }
}
