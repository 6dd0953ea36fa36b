//! What can be said before anything is expanded. What only the compiler can know (whether a type holds an
//! eligible item, say) is left to trait bounds with messages of their own.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use quote::ToTokens;
use syn::{Error, Expr, ExprLit, GenericArgument, Lit, PathArguments, Result, Type};

use crate::ast::{Arm, Body, Borrow, Container, Field, borrow, number, type_name, type_span};
use crate::attr::Errors;

/// Types of XDR that are one fixed word or two: never worth a chunk, and never allowed in one.
const SCALARS: [&str; 9] = ["bool", "i16", "u16", "i32", "u32", "i64", "u64", "f32", "f64"];

/// Types of Rust that have no encoding, and what to write.
const STRANGERS: [(&str, &str); 12] = [
    (
        "u8",
        "opaque data is `[u8; N]`, `SmallOpaque<N>` or `Opaque<N>`; rpcgen's `unsigned char` is `UnsignedChar`",
    ),
    ("i8", "rpcgen's `char` is `Char`"),
    ("usize", "its size is the machine's; write `u32` or `u64`"),
    ("isize", "its size is the machine's; write `i32` or `i64`"),
    ("u128", "the largest integer is an unsigned hyper, `u64`; sixteen bytes of opaque data are `[u8; 16]`"),
    ("i128", "the largest integer is a hyper, `i64`; sixteen bytes of opaque data are `[u8; 16]`"),
    ("char", "rpcgen's `char` is `Char`; text is `XdrString<N>`"),
    ("str", "text is `XdrString<N>`"),
    ("String", "text is `XdrString<N>`"),
    ("Vec<u8>", "opaque data is `Opaque<N>`"),
    ("Vec<()>", "an array has elements of some size, and `void` has none; a number of them is a `u32`"),
    ("Option<()>", "optional data is data, and `void` is none; whether it is there is a `bool`"),
];

/// Why nothing of a program of the backward direction is eligible.
pub(crate) const BACKWARD: &str = "a program that is called in the backward direction only has no DDP-eligible data: its messages have no chunks (RFC 8167 section 5.3); take `#[ddp_eligible]` away";

/// Whether a type is a number or a bool, by its name.
pub(crate) fn is_scalar(ty: &Type) -> bool {
    type_name(ty).is_some_and(|name| SCALARS.iter().any(|scalar| name == scalar))
}

pub(crate) fn check(container: &Container<'_>) -> Result<()> {
    let mut errors = Errors::default();
    match &container.body {
        Body::Struct { fields, .. } => fields.iter().for_each(|field| check_field(field, &mut errors)),
        Body::Enum { variants } if variants.is_empty() => {
            errors.at(
                container.ident,
                "an enum without values cannot be encoded: give it one, or take a `u32`",
            );
        }
        Body::Enum { .. } => {}
        Body::Union { discriminant, arms } => {
            check_arms(container, arms, &mut errors);
            check_labels(discriminant, arms, &mut errors);
        }
    }
    if container.backward {
        let marks = container.fields().into_iter().filter_map(|field| field.attrs.eligible);
        marks.for_each(|span| errors.push(Error::new(span, BACKWARD)));
    }
    errors.finish()
}

fn check_field(field: &Field<'_>, errors: &mut Errors) {
    let attrs = &field.attrs;
    let name = type_name(field.ty).map(ToString::to_string).unwrap_or_default();
    let is_vec = name == "Vec";
    if check_stranger(field, errors) || check_borrow(field, errors) || check_shape(field, errors) {
        return;
    }
    if let Some(span) = attrs.eligible {
        if SCALARS.contains(&name.as_str()) {
            errors.push(Error::new(
                type_span(field.ty),
                format!("`{name}` cannot be DDP-eligible: it is a few bytes; `#[ddp_eligible]` marks an `Opaque` or an `XdrString`"),
            ));
        } else if name == "SmallOpaque" || matches!(field.ty, syn::Type::Array(_)) {
            errors.push(Error::new(
                type_span(field.ty),
                "this is held in place and small; what is DDP-eligible is an `Opaque` or an `XdrString`",
            ));
        } else if attrs.list.is_some() || attrs.max.is_some() {
            errors.push(Error::new(
                span,
                "an array or a list is not DDP-eligible; mark the opaque field inside its element",
            ));
        }
    }
    if let Some(max) = &attrs.max {
        if attrs.list.is_some() {
            errors.at(
                max,
                "a list has no bound in XDR: `max` and `list` exclude each other, so take one of them away",
            );
        } else if borrow(field.ty) == Some(Borrow::Ref) {
            errors.at(max, "the bound of what is borrowed is in its type: `OpaqueRef<'a, N>`, `StringRef<'a, N>`, `ArrayRef<'a, T, N>`");
        } else if !is_vec && borrow(field.ty).is_none() && attrs.eligible.is_none() {
            errors.at(max, "`max` bounds a `Vec`; the bound of opaque data or of a string is in its type: `Opaque<N>`, `XdrString<N>`");
        }
    }
    if attrs.list.is_some() && !is_vec {
        errors.push(Error::new(
            type_span(field.ty),
            "`list` is a chain of optional data and is held in a `Vec`",
        ));
    }
    if let Some(span) = attrs.recursive
        && attrs.eligible.is_some()
    {
        errors.push(Error::new(span, "a DDP-eligible item is bytes and holds no other value: take `recursive` away, or mark the field of the other type that holds the bytes"));
    }
}

/// Whether the field borrows in a way that cannot be; then that is said, and nothing else.
fn check_borrow(field: &Field<'_>, errors: &mut Errors) -> bool {
    let Some(borrow) = borrow(field.ty) else { return false };
    let message = if borrow == Borrow::Other {
        "only `&'a [u8]` (opaque data) and `&'a str` (text) can be borrowed like this; an array is `ArrayRef<'a, T>`, a chain of optional data `ListRef<'a, T>`, a value of the type itself `BoxRef<'a, T>`"
    } else if is_static(field.ty) {
        "what is decoded lives no longer than the message it is in: give the type a lifetime, as in `struct Name<'a>`"
    } else if field.attrs.eligible.is_some() {
        "what is borrowed cannot be DDP-eligible: the transport keeps an item's memory until the peer is done with it, so the field must own its share of it; write an `Opaque` or an `XdrString`"
    } else {
        return false;
    };
    errors.push(Error::new(type_span(field.ty), message));
    true
}

/// Whether the type is none that has a name, or has such a one in it; then that is said, and nothing else.
fn check_shape(field: &Field<'_>, errors: &mut Errors) -> bool {
    let Some((place, message)) = nameless(field.ty) else { return false };
    errors.push(Error::new(type_span(place), message));
    true
}

/// A part of a type that has no encoding whatever it is made of, and what to write.
fn nameless(ty: &Type) -> Option<(&Type, &'static str)> {
    let message = match ty {
        Type::Tuple(tuple) if !tuple.elems.is_empty() => {
            "a tuple has no encoding: write a struct, whose fields have names"
        }
        Type::Slice(_) => {
            "an array without a length is a `Vec`, and one that is borrowed an `ArrayRef<'a, T>`"
        }
        Type::TraitObject(_) | Type::ImplTrait(_) | Type::Infer(_) => {
            "how this is read cannot be known from its type: name one type, or write a union of several"
        }
        Type::FnPtr(_) | Type::Ptr(_) | Type::Never(_) => {
            "this is nothing that could be sent: it has no encoding; send what it stands for, such as a number"
        }
        Type::Array(array) => return nameless(&array.elem),
        Type::Group(group) => return nameless(&group.elem),
        Type::Paren(paren) => return nameless(&paren.elem),
        Type::Path(path) => {
            let arguments = path.path.segments.iter().filter_map(|segment| match &segment.arguments {
                PathArguments::AngleBracketed(arguments) => Some(&arguments.args),
                _ => None,
            });
            return arguments.flatten().find_map(|argument| match argument {
                GenericArgument::Type(ty) => nameless(ty),
                _ => None,
            });
        }
        _ => return None,
    };
    Some((ty, message))
}

/// Whether a type that borrows does so for ever.
fn is_static(ty: &Type) -> bool {
    match ty {
        Type::Reference(reference) => {
            reference.lifetime.as_ref().is_some_and(|lifetime| lifetime.ident == "static")
        }
        Type::Path(path) => path.path.segments.last().is_some_and(|segment| {
            let PathArguments::AngleBracketed(arguments) = &segment.arguments else { return false };
            arguments.args.iter().any(
                |argument| matches!(argument, GenericArgument::Lifetime(lifetime) if lifetime.ident == "static"),
            )
        }),
        _ => false,
    }
}

/// Whether the type is one that never has an encoding; then that is said, and nothing else.
fn check_stranger(field: &Field<'_>, errors: &mut Errors) -> bool {
    let written = field.ty.to_token_stream().to_string().replace(' ', "");
    let Some((name, instead)) = STRANGERS.iter().find(|(name, _)| *name == written) else { return false };
    errors.push(Error::new(type_span(field.ty), format!("`{name}` is no XDR type: {instead}")));
    true
}

/// The discriminant is a type of the language that can be one, and a label that is a number is one of its values.
fn check_labels(discriminant: &Type, arms: &[Arm<'_>], errors: &mut Errors) {
    let written = discriminant.to_token_stream().to_string();
    for kept in arms.iter().filter_map(|arm| arm.kept) {
        let name = kept.to_token_stream().to_string();
        // Other types may be the same under another name: the compiler knows.
        if name != written && [&name, &written].iter().any(|name| SCALARS.contains(&name.as_str())) {
            errors.push(Error::new(
                type_span(kept),
                format!("this holds the union's discriminant: its type is `{written}`"),
            ));
        }
    }
    let (least, largest) = match written.as_str() {
        "i32" => (i128::from(i32::MIN), i128::from(i32::MAX)),
        "u32" => (0, i128::from(u32::MAX)),
        // Not in RFC 4506, but other compilers accept them.
        "i64" => (i128::from(i64::MIN), i128::from(i64::MAX)),
        "u64" => (0, i128::from(u64::MAX)),
        // No number is in an empty range.
        "bool" => (1, 0),
        name if SCALARS.contains(&name) || STRANGERS.iter().any(|(stranger, _)| *stranger == name) => {
            let message = "a union's discriminant is an `i32`, a `u32`, a `bool` or an enum (RFC 4506 section 4.15), or an `i64` or a `u64`";
            return errors.push(Error::new(type_span(discriminant), message));
        }
        _ => return,
    };
    for case in arms.iter().flat_map(|arm| &arm.cases) {
        let is_bool = matches!(case, Expr::Lit(ExprLit { lit: Lit::Bool(_), .. }));
        let fits = match number(case) {
            Some(value) => (least..=largest).contains(&value),
            None => !is_bool || written == "bool",
        };
        if !fits {
            let range = if written == "bool" {
                "`true` or `false`".to_owned()
            } else {
                format!("from {least} to {largest}")
            };
            let text = format!(
                "this is no value of the discriminant's type, `{written}`: take one of its own, {range}"
            );
            errors.at(case, &text);
        }
    }
}

fn check_arms(container: &Container<'_>, arms: &[Arm<'_>], errors: &mut Errors) {
    if arms.is_empty() {
        errors.at(
            container.ident,
            "a union without arms cannot be encoded: give it one, which may be `#[xdr(default)]`",
        );
    }
    let mut labels = HashMap::new();
    let mut default_seen = false;
    for arm in arms {
        if let Some(field) = &arm.payload {
            check_field(field, errors);
        }
        if let Some(span) = arm.default {
            if !arm.cases.is_empty() {
                errors.push(Error::new(
                    span,
                    "the default arm has no label: `case` and `default` exclude each other",
                ));
            } else if default_seen {
                errors.push(Error::new(
                    span,
                    "a union has one default arm at most: give this one a `case`, or take it away",
                ));
            }
            default_seen = true;
        }
        for case in &arm.cases {
            let label = number(case).map_or_else(|| case.to_token_stream().to_string(), |n| n.to_string());
            match labels.entry(label) {
                Entry::Vacant(place) => {
                    place.insert(arm.ident);
                }
                Entry::Occupied(place) => {
                    errors.at(
                        case,
                        &format!("this label chooses `{}` already: take it away, here or there", place.get()),
                    );
                }
            }
        }
    }
}
