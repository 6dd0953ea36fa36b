//! What can be said before anything is expanded. What only the compiler can know (whether a type holds an
//! eligible item, say) is left to trait bounds with messages of their own.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use quote::ToTokens;
use syn::{Error, Expr, ExprLit, Lit, Result, UnOp};

use crate::ast::{Arm, Body, Container, Field, type_name, type_span};
use crate::attr::Errors;

/// Types of XDR that are one fixed word or two: never worth a chunk, and never allowed in one.
const SCALARS: [&str; 9] = ["bool", "i16", "u16", "i32", "u32", "i64", "u64", "f32", "f64"];

pub(crate) fn check(container: &Container<'_>) -> Result<()> {
    let mut errors = Errors::default();
    match &container.body {
        Body::Struct { fields, .. } => fields.iter().for_each(|field| check_field(field, &mut errors)),
        Body::Enum { variants } if variants.is_empty() => {
            errors.at(container.ident, "an enum without values cannot be encoded");
        }
        Body::Enum { .. } => {}
        Body::Union { arms, .. } => check_arms(container, arms, &mut errors),
    }
    errors.finish()
}

fn check_field(field: &Field<'_>, errors: &mut Errors) {
    let attrs = &field.attrs;
    let name = type_name(field.ty).map(ToString::to_string).unwrap_or_default();
    let is_vec = name == "Vec";
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
            errors.at(max, "a list has no bound in XDR: `max` and `list` exclude each other");
        } else if !is_vec && attrs.eligible.is_none() {
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
        errors.push(Error::new(span, "a DDP-eligible item is bytes and holds no other value"));
    }
}

fn check_arms(container: &Container<'_>, arms: &[Arm<'_>], errors: &mut Errors) {
    if arms.is_empty() {
        errors.at(container.ident, "a union without arms cannot be encoded");
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
                errors.push(Error::new(span, "a union has one default arm at most"));
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
                    errors.at(case, &format!("this label chooses `{}` already", place.get()));
                }
            }
        }
    }
}

/// The value of a label that is a number, however it is written: `0x10` and `16` are one label.
fn number(label: &Expr) -> Option<i128> {
    match label {
        Expr::Unary(unary) if matches!(unary.op, UnOp::Neg(_)) => number(&unary.expr)?.checked_neg(),
        Expr::Lit(ExprLit { lit: Lit::Int(int), .. }) => int.base10_parse().ok(),
        _ => None,
    }
}
