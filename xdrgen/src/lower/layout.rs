//! Analyses of all types: recursion, sizes, and derivable traits.

use crate::graph::Graph;
use crate::hash::HashSet;
use crate::ir::{Arm, Body, Data, Derives, Field, Module, Scalar, Type, TypeId, Union};
use crate::sizes::layout::Layouts;

/// In owned output, opaque data with a bound of at most this many bytes is stored in the value itself, unless
/// the data is eligible.
const SMALL: u32 = 128;
/// A type of at most this many bytes is `Copy` if all of its parts are. The limit applies to bytes in memory
/// for borrowed output, otherwise to bytes on the wire.
const COPIED: u64 = 128;
/// Maximum length of an array that implements `Default` in Rust.
const DEFAULT_ARRAY: u32 = 32;
/// A union is uneven if its largest arm exceeds the second largest by at least this many bytes of memory.
const UNEVEN: u64 = 160;

/// Stores small opaque data in the value itself. Eligible data instead shares the message's memory.
pub(crate) fn store_small_opaque_in_place(module: &mut Module) {
    let shared = shared(module);
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
            body => body.fields_mut().filter(|field| !field.eligible).for_each(|field| small(&mut field.ty)),
        }
    }
}

/// Returns the typedefs that eligible fields use, directly or through other typedefs.
fn shared(module: &Module) -> HashSet<TypeId> {
    let fields = module.types.iter().flat_map(|ty| ty.body.fields()).filter(|field| field.eligible);
    let mut shared = HashSet::default();
    for mut ty in fields.map(|field| &field.ty) {
        while let Type::Named(id) = ty
            && let Some(Body::Alias(of)) = module.get(*id).map(|ty| &ty.body)
            && shared.insert(*id)
        {
            ty = of;
        }
    }
    shared
}

/// Boxes recursive values. In a valid protocol, every cycle contains optional data, a union's arm or a
/// counted array. Optional data and payloads get a box; a counted array needs no box.
pub(crate) fn box_recursion(module: &mut Module, graph: &Graph) {
    let arrays = array_names(module, graph);
    for (index, ty) in module.types.iter_mut().enumerate() {
        let own = TypeId(index);
        let is_on_cycle = |ty: &Type| ty.named().is_some_and(|id| graph.is_cycle(id, own));
        match &mut ty.body {
            Body::Alias(of) => box_optional(of, &is_on_cycle),
            Body::Union(union) => {
                for field in union.arms.iter_mut().filter_map(|arm| arm.payload.as_mut()) {
                    box_field(field, &arrays, &is_on_cycle);
                    if matches!(field.ty, Type::Named(_) | Type::FixedArray(..)) && is_on_cycle(&field.ty) {
                        field.ty = Type::Boxed(Box::new(field.ty.clone()));
                    }
                }
            }
            body => body.fields_mut().for_each(|field| box_field(field, &arrays, &is_on_cycle)),
        }
    }
}

fn array_names(module: &Module, graph: &Graph) -> Vec<bool> {
    graph.solve(false, |id, arrays| {
        matches!(module.get(id).map(|ty| &ty.body), Some(Body::Alias(of)) if is_array(of, arrays))
    })
}

fn is_array(ty: &Type, arrays: &[bool]) -> bool {
    match ty {
        Type::Array(_) => true,
        Type::Named(id) => arrays.get(id.0) == Some(&true),
        Type::Optional(of) | Type::FixedArray(of, _) => is_array(of, arrays),
        _ => false,
    }
}

fn box_field(field: &mut Field, arrays: &[bool], is_on_cycle: &dyn Fn(&Type) -> bool) {
    // The layout of an array depends on that of its element, which here contains the array. `recursive`
    // breaks this cycle.
    if is_array(&field.ty, arrays) && is_on_cycle(&field.ty) {
        field.recursive = true;
    }
    box_optional(&mut field.ty, is_on_cycle);
}

fn box_optional(ty: &mut Type, is_on_cycle: &dyn Fn(&Type) -> bool) {
    if let Type::Optional(of) = ty
        && !matches!(**of, Type::Boxed(_))
        && is_on_cycle(of)
    {
        **of = Type::Boxed(of.clone());
    }
}

/// Determines the [`Derives`] of each type. `graph` must contain all uses of types.
pub(crate) fn decide_derives(module: &mut Module, graph: &Graph, held: &Held) {
    let is_small: Vec<bool> = match module.data {
        Data::Borrowed => Memory::of(module, held).of_types.into_iter().map(|size| size <= COPIED).collect(),
        Data::Bytes => {
            let layouts = Layouts::without_items(module, held.0.order());
            let ids = (0..module.types.len()).map(TypeId);
            ids.map(|id| layouts.named(id).lengths.max.fits(COPIED)).collect()
        }
    };
    // `Copy` and `Eq` are assumed until a part lacks them. `Default` starts as false, so that a type
    // has it only if a finite default value exists.
    let start = Derives { copy: true, eq: true, default: false };
    let derives = graph.solve(start, |id, derives| {
        let Some(ty) = module.get(id) else { return Derives::default() };
        Derives {
            copy: is_small.get(id.0) == Some(&true)
                && ty.body.types().all(|part| copies(part, module.data, derives)),
            eq: ty.body.types().all(|part| compares(part, derives)),
            default: has_default(&ty.body, module.data, derives),
        }
    });
    for (ty, derives) in module.types.iter_mut().zip(derives) {
        ty.derives = derives;
    }
}

fn copies(ty: &Type, data: Data, derives: &[Derives]) -> bool {
    match ty {
        Type::Void | Type::Scalar(_) | Type::FixedOpaque(_) | Type::SmallOpaque(_) => true,
        Type::Named(id) => derives.get(id.0).is_some_and(|derives| derives.copy),
        Type::FixedArray(of, _) | Type::Optional(of) => copies(of, data, derives),
        Type::Opaque(_) | Type::String(_) | Type::Array(_) | Type::Boxed(_) => data == Data::Borrowed,
        Type::Extern(_) => false,
    }
}

fn compares(ty: &Type, derives: &[Derives]) -> bool {
    match ty {
        Type::Scalar(scalar) => !matches!(scalar, Scalar::Float | Scalar::Double),
        Type::Named(id) => derives.get(id.0).is_some_and(|derives| derives.eq),
        Type::Extern(_) => false,
        ty => ty.inner().is_none_or(|of| compares(of, derives)),
    }
}

fn has_default(body: &Body, data: Data, derives: &[Derives]) -> bool {
    let default = |ty: &Type| type_has_default(ty, data, derives);
    match body {
        Body::Enum(members) => members.iter().any(|member| member.value == 0),
        Body::Union(union) => union.initial.and_then(|index| union.arms.get(index)).is_some_and(|arm| {
            (!arm.keeps_discriminant() || default(&union.discriminant))
                && arm.payload.as_ref().is_none_or(|field| default(&field.ty))
        }),
        body => body.types().all(default),
    }
}

fn type_has_default(ty: &Type, data: Data, derives: &[Derives]) -> bool {
    match ty {
        Type::Named(id) => derives.get(id.0).is_some_and(|derives| derives.default),
        Type::FixedOpaque(len) => len.value <= DEFAULT_ARRAY,
        Type::FixedArray(of, len) => len.value <= DEFAULT_ARRAY && type_has_default(of, data, derives),
        // In borrowed output, a box is a reference, which has no default target.
        Type::Boxed(of) => data == Data::Bytes && type_has_default(of, data, derives),
        Type::Extern(_) => false,
        Type::Void | Type::Scalar(_) | Type::SmallOpaque(_) | Type::Opaque(_) | Type::String(_) => true,
        Type::Array(_) | Type::Optional(_) => true,
    }
}

/// The approximate size in memory of the values of each type, in bytes.
struct Memory {
    of_types: Vec<u64>,
    data: Data,
}

impl Memory {
    fn of(module: &Module, held: &Held) -> Self {
        let mut memory = Memory { of_types: vec![u64::MAX; module.types.len()], data: module.data };
        for id in held.0.order() {
            let Some(ty) = module.get(*id) else { continue };
            let size = memory.body(&ty.body);
            if let Some(slot) = memory.of_types.get_mut(id.0) {
                *slot = size;
            }
        }
        memory
    }

    fn body(&self, body: &Body) -> u64 {
        let fields = body.fields().map(|field| self.ty(&field.ty));
        match body {
            Body::Alias(ty) => self.ty(ty),
            Body::Enum(_) => 4,
            Body::Union(_) => fields.fold(0, u64::max).saturating_add(8),
            _ => fields.fold(0, u64::saturating_add),
        }
    }

    fn ty(&self, ty: &Type) -> u64 {
        match ty {
            Type::Void => 0,
            Type::Scalar(scalar) => scalar.size(),
            Type::FixedOpaque(bound) | Type::SmallOpaque(bound) => u64::from(bound.value),
            Type::Opaque(_) | Type::String(_) if self.data == Data::Borrowed => 16,
            Type::Array(_) | Type::Boxed(_) if self.data == Data::Borrowed => 32,
            Type::Opaque(_) | Type::String(_) => 32,
            Type::Array(_) => 24,
            Type::Boxed(_) => 8,
            Type::Extern(_) => 64,
            Type::FixedArray(of, len) => self.ty(of).saturating_mul(u64::from(len.value)),
            Type::Optional(of) => self.ty(of).saturating_add(8),
            Type::Named(id) => self.of_types.get(id.0).copied().unwrap_or(0),
        }
    }
}

/// The types that each type stores directly, including the types of optional data. The graph has no cycles,
/// since every recursion contains a box or a counted array.
pub(crate) struct Held(Graph);

impl Held {
    pub(crate) fn of(module: &Module) -> Self {
        Held(Graph::new(&module.types, |_, ty, held| {
            let in_place = |mut ty: &Type| {
                while let Type::FixedArray(of, _) | Type::Optional(of) = ty {
                    ty = of;
                }
                if let Type::Named(id) = ty { Some(*id) } else { None }
            };
            held.extend(ty.body.types().filter_map(in_place));
        }))
    }
}

pub(crate) fn find_uneven_unions(module: &mut Module, held: &Held) {
    let memory = Memory::of(module, held);
    for ty in &mut module.types {
        if let Body::Union(union) = &mut ty.body {
            union.uneven = is_uneven(union, &memory);
        }
    }
}

fn is_uneven(union: &Union, memory: &Memory) -> bool {
    let size = |arm: &Arm| arm.payload.as_ref().map_or(0, |field| memory.ty(&field.ty));
    let mut arms: Vec<u64> = union.arms.iter().map(size).collect();
    arms.sort_unstable();
    let largest = arms.pop().unwrap_or(0);
    arms.pop().is_some_and(|next| largest.saturating_sub(next) >= UNEVEN)
}
