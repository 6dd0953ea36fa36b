//! Types in their wire form: without typedefs, and in a single form if several XDR types have the same
//! encoding.

use std::collections::BTreeSet;

use crate::diag::Form;
use crate::hir::{Body, Bound, Field, Hir, Scalar, Type, TypeId, Union};

/// Maximum length of a chain of typedefs. Longer chains are reported separately.
const MAX_NAMES: usize = 128;

/// A use of a type.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Use<'m> {
    Type(&'m Type),
    /// A definition compared by itself, such as a message.
    Id(TypeId),
}

impl<'m> Use<'m> {
    pub(super) fn payload(field: Option<&'m Field>) -> Self {
        Use::Type(field.map_or(&Type::Void, |field| &field.ty))
    }

    /// Returns a key that identifies the use: the address of the type, or an odd number for an id.
    pub(super) fn key(self) -> usize {
        match self {
            Use::Type(ty) => std::ptr::from_ref(ty).addr(),
            // Types are aligned, so their addresses are even.
            Use::Id(id) => 2 * id.0 + 1,
        }
    }
}

/// The wire form of a type.
#[derive(Clone, Copy, Debug)]
pub(crate) enum View<'m> {
    Void,
    Scalar(Scalar),
    Enum(TypeId),
    Struct(TypeId, &'m [Field]),
    Union(TypeId, &'m Union),
    FixedOpaque(u32),
    Opaque(u32),
    String(u32),
    FixedArray(Use<'m>, u32),
    Array(Use<'m>, u32),
    Optional(Use<'m>),
    Extern(&'m str),
}

impl<'m> View<'m> {
    pub(super) fn of(hir: &'m Hir, of: Use<'m>) -> View<'m> {
        let mut of = of;
        for _ in 0..MAX_NAMES {
            let id = match of {
                Use::Id(id) => id,
                Use::Type(Type::Named(id)) => *id,
                // A fixed-length array of one element is encoded like the element.
                Use::Type(Type::FixedArray(ty, len)) if len.value == 1 => {
                    of = Use::Type(ty);
                    continue;
                }
                Use::Type(ty) => return View::of_type(ty),
            };
            let Some(ty) = hir.get(id) else { break };
            match &ty.body {
                Body::Alias(field) => of = Use::Type(&field.ty),
                Body::Enum(_) => return View::Enum(id),
                Body::Struct(fields) | Body::Tuple(fields) => return View::Struct(id, fields),
                Body::Union(union) => {
                    return match hir.option(union) {
                        Some(field) => View::Optional(Use::Type(&field.ty)),
                        None => View::Union(id, union),
                    };
                }
            }
        }
        View::Void
    }

    fn of_type(ty: &'m Type) -> View<'m> {
        let limit = |max: &Option<Bound>| max.as_ref().map_or(u32::MAX, |bound| bound.value);
        match ty {
            Type::Scalar(scalar) => View::Scalar(*scalar),
            Type::FixedOpaque(len) => View::FixedOpaque(len.value),
            Type::Opaque(max) => View::Opaque(limit(max)),
            Type::String(max) => View::String(limit(max)),
            Type::FixedArray(of, len) => View::FixedArray(Use::Type(of), len.value),
            // A counted array of at most one element is encoded like optional data (RFC 4506 section 4.19).
            Type::Array(of, Some(Bound { value: 1, .. })) => View::Optional(Use::Type(of)),
            Type::Array(of, max) => View::Array(Use::Type(of), limit(max)),
            Type::Optional(of) => View::Optional(Use::Type(of)),
            Type::Extern(name) => View::Extern(name),
            Type::Void | Type::Named(_) => View::Void,
        }
    }

    /// Returns the id of an enum, a struct or a union; `None` for other types.
    pub(super) fn id(&self) -> Option<TypeId> {
        match self {
            View::Enum(id) | View::Struct(id, _) | View::Union(id, _) => Some(*id),
            _ => None,
        }
    }

    pub(super) fn form(&self, hir: &Hir) -> Form {
        let name = |id: &TypeId| name(hir, *id).to_owned();
        match self {
            View::Void => Form::Void,
            View::Scalar(scalar) => Form::Scalar(*scalar),
            View::Enum(id) => Form::Enum(name(id)),
            View::Struct(id, _) => Form::Struct(name(id)),
            View::Union(id, _) => Form::Union(name(id)),
            View::FixedOpaque(len) => Form::FixedOpaque(*len),
            View::Opaque(max) => Form::Opaque(*max),
            View::String(max) => Form::String(*max),
            View::FixedArray(_, len) => Form::FixedArray(*len),
            View::Array(_, max) => Form::Array(*max),
            View::Optional(_) => Form::Optional,
            View::Extern(path) => Form::Extern((*path).to_owned()),
        }
    }
}

pub(super) fn name(hir: &Hir, id: TypeId) -> &str {
    hir.get(id).map_or("", |ty| &ty.name)
}

/// Returns the values of an enum, or 0 and 1 for a bool; `None` for other types.
pub(super) fn values(hir: &Hir, view: &View<'_>) -> Option<BTreeSet<i128>> {
    match view {
        View::Scalar(Scalar::Bool) => Some(BTreeSet::from([0, 1])),
        View::Enum(id) => Some(hir.members(*id).iter().map(|member| member.value.into()).collect()),
        _ => None,
    }
}
