//! Checks the input before expansion. Trait bounds with custom messages cover properties that only the
//! compiler can determine, such as whether a type can be DDP-eligible.

use std::collections::HashMap;

use quote::ToTokens;
use syn::spanned::Spanned;
use syn::{Error, Expr, ExprLit, GenericArgument, Lit, Result, Type};

use crate::ast::{Arm, Body, Container, Field};
use crate::attr::Errors;
use crate::syntax::{Borrow, SCALARS, arguments, borrow, is_one_of, number, type_arguments, type_name};

/// Rust types that have no encoding, and their replacements.
const UNSUPPORTED: [(&str, &str); 11] = [
    (
        "u8",
        "opaque data is `[u8; N]`, `SmallOpaque<N>` or `Opaque<N>`; rpcgen's `unsigned char` is `UnsignedChar`",
    ),
    ("i8", "rpcgen's `char` is `Char`"),
    ("usize", "its size depends on the machine; write `u32` or `u64`"),
    ("isize", "its size depends on the machine; write `i32` or `i64`"),
    ("u128", "the largest integer is an unsigned hyper, `u64`; sixteen bytes of opaque data are `[u8; 16]`"),
    ("i128", "the largest integer is a hyper, `i64`; sixteen bytes of opaque data are `[u8; 16]`"),
    ("char", "rpcgen's `char` is `Char`; text is `XdrString<N>`"),
    ("str", "text is `XdrString<N>`"),
    ("Vec<u8>", "opaque data is `Opaque<N>`"),
    ("Vec<()>", "`void` elements are empty; write their number as a `u32`"),
    ("Option<()>", "optional `void` has no data: write a `bool`"),
];

pub(crate) const BACKWARD: &str = "a program that is called only in the backward direction cannot have DDP-eligible data, because this implementation sends no chunks in that direction (RFC 8167 section 5.3 makes them optional): remove `#[ddp_eligible]`";

pub(crate) fn check(container: &Container<'_>) -> Result<()> {
    let mut errors = Errors::default();
    match &container.body {
        Body::Struct(fields) => fields.iter().for_each(|field| check_field(field, &mut errors)),
        Body::Enum(variants) if variants.is_empty() => {
            errors.at(
                container.owner.ident,
                "an enum without variants cannot be encoded: add a variant, or use `u32` instead",
            );
        }
        Body::Enum(_) => {}
        Body::Union { discriminant, arms } => {
            if arms.is_empty() {
                errors.at(
                    container.owner.ident,
                    "a union without arms cannot be encoded: add an arm, such as `#[xdr(default)]`",
                );
            }
            check_arms(arms, &mut errors);
            check_discriminant(discriminant, arms, &mut errors);
        }
    }
    if container.backward {
        let marks = container.fields().into_iter().filter_map(|field| field.attrs.eligible);
        marks.for_each(|span| errors.at_span(span, BACKWARD));
        if let Some((span, _)) = container.items {
            errors.at_span(
                span,
                "a type of a backward-only program contains no DDP-eligible items: remove `items` or `backward`",
            );
        }
    }
    errors.finish()
}

// ---- fields

fn check_field(field: &Field<'_>, errors: &mut Errors) {
    let refused = unsupported(field.ty).or_else(|| borrowed(field)).or_else(|| unnamed(field.ty));
    if let Some(error) = refused {
        return errors.push(error);
    }
    eligible(field).into_iter().for_each(|error| errors.push(error));
    let attrs = &field.attrs;
    let is_vec = is_one_of(field.ty, &["Vec"]);
    if let Some(max) = &attrs.max {
        let borrow = borrow(field.ty);
        if attrs.list.is_some() {
            errors.at(max, "a list has no bound in XDR: remove `max` or `list`");
        } else if borrow == Some(Borrow::Ref) {
            errors.at(max, "`max` does not apply to this type: the bound is in the type, as in `OpaqueRef<'a, N>`, `StringRef<'a, N>`, `ArrayRef<'a, T, N>`");
        } else if !is_vec && borrow.is_none() && attrs.eligible.is_none() {
            errors.at(max, "`max` bounds a `Vec`: the bound of opaque data or of a string is in its type, as in `Opaque<N>`, `XdrString<N>`");
        }
    }
    if attrs.list.is_some() && !is_vec {
        errors.at(field.ty, "`list` marks a chain of optional data: write the field as a `Vec`");
    }
    if let Some(span) = attrs.recursive.filter(|_| attrs.eligible.is_some()) {
        errors.at_span(span, "a DDP-eligible item is opaque data or a string and contains no other values: remove `recursive`, or mark the bytes field of the inner type");
    }
}

fn unsupported(ty: &Type) -> Option<Error> {
    let written = ty.to_token_stream().to_string().replace(' ', "");
    let (name, instead) = UNSUPPORTED.iter().find(|(name, _)| *name == written)?;
    Some(Error::new(ty.span(), format!("`{name}` is not an XDR type: {instead}")))
}

fn borrowed(field: &Field<'_>) -> Option<Error> {
    let message = match borrow(field.ty)? {
        Borrow::Other => {
            "only `&'a [u8]` (opaque data) and `&'a str` (text) can be borrowed as references: write `ArrayRef<'a, T>` for an array, `ListRef<'a, T>` for a chain of optional data, or `BoxRef<'a, T>` for a value of a recursive type"
        }
        _ if is_static(field.ty) => {
            "decoded data lives no longer than its message: give the type a lifetime, as in `struct Name<'a>`"
        }
        _ if field.attrs.eligible.is_some() => {
            "borrowed data cannot be DDP-eligible, since the transport keeps an item's memory until the peer no longer accesses it: write an `Opaque` or an `XdrString`, which share ownership of the memory"
        }
        _ => return None,
    };
    Some(Error::new(field.ty.span(), message))
}

fn is_static(ty: &Type) -> bool {
    let in_arguments = arguments(ty).into_iter().flatten().any(
        |argument| matches!(argument, GenericArgument::Lifetime(lifetime) if lifetime.ident == "static"),
    );
    in_arguments
        || matches!(ty, Type::Reference(of) if of.lifetime.as_ref().is_some_and(|lifetime| lifetime.ident == "static"))
}

/// Rejects types that never have an encoding, such as slices and pointers, even inside arrays and type
/// arguments.
fn unnamed(ty: &Type) -> Option<Error> {
    let message = match ty {
        Type::Tuple(tuple) if !tuple.elems.is_empty() => {
            "a tuple has no encoding: write a struct, whose fields have names"
        }
        Type::Slice(_) => {
            "a slice has no encoding: write a `Vec`, or an `ArrayRef<'a, T>` to borrow the elements"
        }
        Type::TraitObject(_) | Type::ImplTrait(_) | Type::Infer(_) => {
            "this type cannot be decoded: name a concrete type, or write a union of several types"
        }
        Type::FnPtr(_) | Type::Ptr(_) | Type::Never(_) => {
            "this type has no encoding: send a value such as a number"
        }
        Type::Array(array) => return unnamed(&array.elem),
        Type::Group(group) => return unnamed(&group.elem),
        Type::Paren(paren) => return unnamed(&paren.elem),
        ty => return type_arguments(ty).find_map(unnamed),
    };
    Some(Error::new(ty.span(), message))
}

/// Rejects `#[ddp_eligible]` on a field that cannot be a DDP-eligible item.
fn eligible(field: &Field<'_>) -> Option<Error> {
    let mark = field.attrs.eligible?;
    let is_array = field.attrs.list.is_some() || field.attrs.max.is_some();
    if is_one_of(field.ty, &SCALARS) {
        let name = type_name(field.ty)?;
        let message = format!(
            "`{name}` cannot be DDP-eligible, since it is only a few bytes long: mark an `Opaque` or an `XdrString`"
        );
        Some(Error::new(field.ty.span(), message))
    } else if is_one_of(field.ty, &["SmallOpaque"]) || matches!(field.ty, Type::Array(_)) {
        let message = "this type cannot be DDP-eligible, since its data is small and stored in place: write an `Opaque` or an `XdrString`";
        Some(Error::new(field.ty.span(), message))
    } else if is_one_of(field.ty, &["Opaque", "XdrString"]) && has_bound_zero(field.ty) {
        let message = "this field cannot be DDP-eligible, since it is always empty: remove `#[ddp_eligible]`";
        Some(Error::new(field.ty.span(), message))
    } else {
        let message = "an array or a list is not DDP-eligible: mark the opaque field inside its element";
        is_array.then(|| Error::new(mark, message))
    }
}

fn has_bound_zero(ty: &Type) -> bool {
    let bound = arguments(ty).and_then(|arguments| arguments.first());
    matches!(bound, Some(GenericArgument::Const(bound)) if number(bound) == Some(0))
}

// ---- unions

fn check_arms(arms: &[Arm<'_>], errors: &mut Errors) {
    let mut labels = HashMap::new();
    let mut default_seen = false;
    for arm in arms {
        if let Some(field) = &arm.payload {
            check_field(field, errors);
        }
        if let Some(span) = arm.default {
            if !arm.cases.is_empty() {
                errors.at_span(span, "the default arm has no label: remove `case` or `default`");
            } else if default_seen {
                errors.at_span(span, "a union has at most one default arm: replace `default` with `case = ...`, or remove this arm");
            }
            default_seen = true;
        }
        for case in &arm.cases {
            let label = number(case).map_or_else(|| case.to_token_stream().to_string(), |n| n.to_string());
            if let Some(first) = labels.get(&label) {
                errors.at(case, &format!("this label already selects `{first}`: remove one"));
            } else {
                labels.insert(label, arm.ident);
            }
        }
    }
}

/// Checks that the type can be a discriminant, that stored discriminants have this type, and that literal
/// labels are values of this type.
fn check_discriminant(discriminant: &Type, arms: &[Arm<'_>], errors: &mut Errors) {
    let written = discriminant.to_token_stream().to_string();
    for kept in arms.iter().filter_map(|arm| arm.kept) {
        let name = kept.to_token_stream().to_string();
        // If neither type is built in, both may be aliases of one type, which only the compiler can resolve.
        if name != written && [&name, &written].iter().any(|name| SCALARS.contains(&name.as_str())) {
            errors.at(
                kept,
                &format!("this field stores the union's discriminant: write its type, `{written}`"),
            );
        }
    }
    let (least, largest) = match written.as_str() {
        "i32" => (i128::from(i32::MIN), i128::from(i32::MAX)),
        "u32" => (0, i128::from(u32::MAX)),
        // RFC 4506 does not allow these types, but other XDR compilers accept them.
        "i64" => (i128::from(i64::MIN), i128::from(i64::MAX)),
        "u64" => (0, i128::from(u64::MAX)),
        // An empty range, because no number is a `bool`.
        "bool" => (1, 0),
        name if SCALARS.contains(&name)
            || UNSUPPORTED.iter().any(|(unsupported, _)| *unsupported == name) =>
        {
            let message = format!(
                "`{name}` cannot be a union's discriminant (RFC 4506 section 4.15): write `i32`, `u32`, `bool` or an enum, or `i64` or `u64`, which other compilers accept"
            );
            return errors.at(discriminant, &message);
        }
        _ => return,
    };
    let range = match written.as_str() {
        "bool" => "`true` or `false`".to_owned(),
        _ => format!("a number from {least} to {largest}"),
    };
    for case in arms.iter().flat_map(|arm| &arm.cases) {
        let is_bool = matches!(case, Expr::Lit(ExprLit { lit: Lit::Bool(_), .. }));
        let fits = match number(case) {
            Some(value) => (least..=largest).contains(&value),
            None => !is_bool || written == "bool",
        };
        if !fits {
            let message = format!("invalid label for the discriminant's type, `{written}`: write {range}");
            errors.at(case, &message);
        }
    }
}
