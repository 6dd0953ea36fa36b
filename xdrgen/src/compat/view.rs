//! Types as they are on the wire: without typedefs, and with one form for what XDR can spell in several.

use std::collections::BTreeMap;

use crate::ir::{Body, Field, Label, Module, Scalar, Type, TypeId, Union};

/// How many names for one thing are followed. More are an error of their own.
const MAX_NAMES: usize = 128;

/// A type where it is used, with the bound that stands beside it if it is a counted array.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Use<'m> {
    what: What<'m>,
    max: Option<u32>,
}

#[derive(Clone, Copy, Debug)]
enum What<'m> {
    Type(&'m Type),
    /// A type by itself, as a message.
    Id(TypeId),
}

impl<'m> Use<'m> {
    pub(crate) fn of(ty: &'m Type) -> Self {
        Use { what: What::Type(ty), max: None }
    }

    pub(crate) fn named(id: TypeId) -> Self {
        Use { what: What::Id(id), max: None }
    }

    pub(crate) fn field(field: &'m Field) -> Self {
        Use { what: What::Type(&field.ty), max: field.max.as_ref().map(|bound| bound.value) }
    }

    /// What an arm carries.
    pub(crate) fn payload(field: Option<&'m Field>) -> Self {
        field.map_or(Use::of(&Type::Void), Use::field)
    }

    /// What it is, in words.
    pub(crate) fn words(self, module: &Module) -> String {
        View::of(module, self).words(module)
    }

    /// The same for the same use: what tells one from another.
    pub(crate) fn key(self) -> usize {
        match self.what {
            What::Type(ty) => std::ptr::from_ref(ty).addr(),
            // No type has an odd address.
            What::Id(id) => 2 * id.0 + 1,
        }
    }
}

/// What a type is on the wire.
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
    pub(crate) fn of(module: &'m Module, of: Use<'m>) -> View<'m> {
        let mut of = of;
        for _ in 0..MAX_NAMES {
            let id = match of.what {
                What::Id(id) => id,
                What::Type(Type::Named(id)) => *id,
                What::Type(Type::Boxed(ty)) => {
                    of = Use::of(ty);
                    continue;
                }
                // One of something is the thing itself.
                What::Type(Type::FixedArray(ty, len)) if len.value == 1 => {
                    of = Use::of(ty);
                    continue;
                }
                What::Type(ty) => return View::of_type(ty, of.max),
            };
            of = match module.get(id).map(|ty| &ty.body) {
                Some(Body::Alias(ty)) => Use::of(ty),
                Some(Body::Newtype(field)) => Use::field(field),
                Some(body) => return View::of_body(module, id, body),
                None => return View::Void,
            };
        }
        View::Void
    }

    fn of_type(ty: &'m Type, max: Option<u32>) -> View<'m> {
        let bound = |bound: &Option<crate::ir::Bound>| bound.as_ref().map_or(u32::MAX, |bound| bound.value);
        match ty {
            Type::Scalar(scalar) => View::Scalar(*scalar),
            Type::FixedOpaque(len) => View::FixedOpaque(len.value),
            Type::Opaque(max) => View::Opaque(bound(max)),
            Type::SmallOpaque(max) => View::Opaque(max.value),
            Type::String(max) => View::String(bound(max)),
            Type::FixedArray(of, len) => View::FixedArray(Use::of(of), len.value),
            // At most one of something: what RFC 4506 section 4.19 has a star for.
            Type::Array(of) if max == Some(1) => View::Optional(Use::of(of)),
            Type::Array(of) => View::Array(Use::of(of), max.unwrap_or(u32::MAX)),
            Type::Optional(of) => View::Optional(Use::of(of)),
            Type::Extern(path) => View::Extern(path),
            Type::Void | Type::Named(_) | Type::Boxed(_) => View::Void,
        }
    }

    fn of_body(module: &'m Module, id: TypeId, body: &'m Body) -> View<'m> {
        match body {
            Body::Enum(_) => View::Enum(id),
            Body::Struct(fields) | Body::Tuple(fields) => View::Struct(id, fields),
            Body::Union(union) => match optional(module, union) {
                Some(of) => View::Optional(of),
                None => View::Union(id, union),
            },
            Body::Alias(_) | Body::Newtype(_) => View::Void,
        }
    }

    /// The type that it is, if it has a name of its own.
    pub(crate) fn id(&self) -> Option<TypeId> {
        match self {
            View::Enum(id) | View::Struct(id, _) | View::Union(id, _) => Some(*id),
            _ => None,
        }
    }

    /// In words, with its article.
    pub(crate) fn words(&self, module: &Module) -> String {
        let name = |id: &TypeId| module.get(*id).map_or("", |ty| ty.name.as_str()).to_owned();
        let most = |max: u32| if max == u32::MAX { String::new() } else { format!(" of at most {max}") };
        match self {
            View::Void => "nothing".to_owned(),
            View::Scalar(scalar) => scalar_name(*scalar).to_owned(),
            View::Enum(id) => format!("the enum `{}`", name(id)),
            View::Struct(id, _) => format!("the struct `{}`", name(id)),
            View::Union(id, _) => format!("the union `{}`", name(id)),
            View::FixedOpaque(len) => format!("{len} opaque bytes"),
            View::Opaque(max) => format!("counted opaque bytes{}", most(*max)),
            View::String(max) => format!("a string{}", most(*max)),
            View::FixedArray(_, len) => format!("an array of {len}"),
            View::Array(_, max) => format!("a counted array{}", most(*max)),
            View::Optional(_) => "optional data".to_owned(),
            View::Extern(path) => format!("`{path}`"),
        }
    }
}

/// A union of something at TRUE and nothing at FALSE is optional data (RFC 4506 section 4.19).
fn optional<'m>(module: &'m Module, union: &'m Union) -> Option<Use<'m>> {
    if !matches!(View::of(module, Use::of(&union.discriminant)), View::Scalar(Scalar::Bool)) {
        return None;
    }
    let [first, second] = union.arms.as_slice() else { return None };
    let (some, none) = if first.labels == [Label::Bool(true)] { (first, second) } else { (second, first) };
    let matched = some.labels == [Label::Bool(true)]
        && (none.labels.is_empty() || none.labels == [Label::Bool(false)])
        && none.payload.is_none();
    some.payload.as_ref().filter(|_| matched).map(Use::field)
}

/// The values of an enum, each with the index of the first member that has it; a bool's are 0 and 1.
pub(crate) fn values(module: &Module, view: &View<'_>) -> Option<BTreeMap<i64, usize>> {
    match view {
        View::Scalar(Scalar::Bool) => Some(BTreeMap::from([(0, 0), (1, 1)])),
        View::Enum(id) => match &module.get(*id)?.body {
            Body::Enum(members) => {
                let indexed = members.iter().enumerate().rev();
                Some(indexed.map(|(index, member)| (i64::from(member.value), index)).collect())
            }
            _ => None,
        },
        _ => None,
    }
}

/// The number that a label stands for.
pub(crate) fn label_value(module: &Module, label: &Label) -> Option<i64> {
    match label {
        Label::Member { of, index } => match &module.get(*of)?.body {
            Body::Enum(members) => members.get(*index).map(|member| i64::from(member.value)),
            _ => None,
        },
        Label::Number(number) => i64::try_from(*number).ok(),
        Label::Bool(value) => Some(i64::from(*value)),
    }
}

pub(crate) fn scalar_name(scalar: Scalar) -> &'static str {
    match scalar {
        Scalar::Int => "int",
        Scalar::UnsignedInt => "unsigned int",
        Scalar::Hyper => "hyper",
        Scalar::UnsignedHyper => "unsigned hyper",
        Scalar::Float => "float",
        Scalar::Double => "double",
        Scalar::Quadruple => "quadruple",
        Scalar::Bool => "bool",
        Scalar::Char => "char",
        Scalar::UnsignedChar => "unsigned char",
        Scalar::Short => "short",
        Scalar::UnsignedShort => "unsigned short",
    }
}
