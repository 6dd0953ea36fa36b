//! Attributes: what stands in `#[xdr(...)]` and `#[ddp_eligible]`.

use proc_macro2::Span;
use quote::ToTokens;
use syn::meta::ParseNestedMeta;
use syn::spanned::Spanned;
use syn::{Attribute, Error, Expr, ExprLit, Lit, LitStr, Meta, Path, Result, Type};

/// Errors are collected: one derive reports all of its mistakes.
#[derive(Default)]
pub(crate) struct Errors(Option<Error>);

impl Errors {
    pub(crate) fn push(&mut self, error: Error) {
        match &mut self.0 {
            Some(errors) => errors.combine(error),
            None => self.0 = Some(error),
        }
    }

    pub(crate) fn at(&mut self, tokens: &dyn ToTokens, message: &str) {
        self.push(Error::new_spanned(Tokens(tokens), message));
    }

    pub(crate) fn keep<T>(&mut self, result: Result<T>) -> Option<T> {
        result.map_err(|error| self.push(error)).ok()
    }

    pub(crate) fn finish(self) -> Result<()> {
        self.0.map_or(Ok(()), Err)
    }
}

struct Tokens<'a>(&'a dyn ToTokens);

impl ToTokens for Tokens<'_> {
    fn to_tokens(&self, tokens: &mut proc_macro2::TokenStream) {
        self.0.to_tokens(tokens);
    }
}

/// On the type.
#[derive(Default)]
pub(crate) struct ContainerAttrs {
    pub(crate) krate: Option<Path>,
    pub(crate) union: Option<Type>,
    pub(crate) backward: Option<Span>,
}

/// On a union's arm.
#[derive(Default)]
pub(crate) struct VariantAttrs {
    pub(crate) cases: Vec<Expr>,
    pub(crate) default: Option<Span>,
    pub(crate) eligible: Option<Span>,
    /// Something was wrong and has been said: nothing follows from what is missing.
    pub(crate) failed: bool,
}

/// On a field.
#[derive(Default)]
pub(crate) struct FieldAttrs {
    pub(crate) max: Option<Expr>,
    pub(crate) list: Option<Span>,
    pub(crate) recursive: Option<Span>,
    pub(crate) eligible: Option<Span>,
}

/// `#[ddp_eligible]`, alone and once. Gives whether the attribute was one.
fn take_eligible(attr: &Attribute, slot: &mut Option<Span>, errors: &mut Errors) -> bool {
    if !attr.path().is_ident("ddp_eligible") {
        return false;
    }
    match &attr.meta {
        Meta::Path(_) if slot.is_some() => errors.at(attr, "`#[ddp_eligible]` stands here twice; remove one"),
        Meta::Path(_) => *slot = Some(attr.path().span()),
        _ => errors.at(
            attr,
            "`#[ddp_eligible]` takes no argument; which items a message moves is decided when it is sent",
        ),
    }
    true
}

fn set<T>(slot: &mut Option<T>, value: T, meta: &ParseNestedMeta) -> Result<()> {
    if slot.is_some() {
        let name = meta.path.get_ident().map(ToString::to_string).unwrap_or_default();
        return Err(meta.error(format!("`{name}` stands here twice; remove one")));
    }
    *slot = Some(value);
    Ok(())
}

fn string_value<T: syn::parse::Parse>(meta: &ParseNestedMeta) -> Result<T> {
    meta.value()?.parse::<LitStr>()?.parse()
}

impl ContainerAttrs {
    pub(crate) fn parse(attrs: &[Attribute], errors: &mut Errors) -> Self {
        let mut found = ContainerAttrs::default();
        for attr in attrs {
            if attr.path().is_ident("ddp_eligible") {
                errors.at(
                    attr,
                    "`#[ddp_eligible]` marks a field, not a type: put it on the field that holds the data",
                );
            }
            if !attr.path().is_ident("xdr") {
                continue;
            }
            let parsed = attr.parse_nested_meta(|meta| {
                if meta.path.is_ident("crate") {
                    let path = string_value(&meta)?;
                    set(&mut found.krate, path, &meta)
                } else if meta.path.is_ident("union") {
                    let ty = string_value(&meta)?;
                    set(&mut found.union, ty, &meta)
                } else if meta.path.is_ident("backward") {
                    set(&mut found.backward, meta.path.span(), &meta)
                } else {
                    Err(meta.error(
                        "unknown attribute; a type takes `union = \"Type\"`, `backward` and `crate = \"path\"`",
                    ))
                }
            });
            errors.keep(parsed);
        }
        found
    }
}

impl VariantAttrs {
    pub(crate) fn parse(attrs: &[Attribute], errors: &mut Errors) -> Self {
        let mut found = VariantAttrs::default();
        for attr in attrs {
            if take_eligible(attr, &mut found.eligible, errors) || !attr.path().is_ident("xdr") {
                continue;
            }
            let parsed = attr.parse_nested_meta(|meta| {
                if meta.path.is_ident("case") {
                    found.cases.push(case_label(meta.value()?.parse()?)?);
                    Ok(())
                } else if meta.path.is_ident("default") {
                    set(&mut found.default, meta.path.span(), &meta)
                } else {
                    Err(meta.error("unknown attribute; a union's arm takes `case = ...` and `default`"))
                }
            });
            found.failed |= errors.keep(parsed).is_none();
        }
        found
    }
}

/// A label: a path in a string, or an integer or a bool as it is.
fn case_label(expr: Expr) -> Result<Expr> {
    match &expr {
        Expr::Lit(ExprLit { lit: Lit::Str(path), .. }) => path
            .parse::<Path>()
            .map(|path| Expr::Path(syn::ExprPath { attrs: Vec::new(), qself: None, path })),
        Expr::Lit(ExprLit { lit: Lit::Int(_) | Lit::Bool(_), .. }) => Ok(expr),
        Expr::Unary(unary) if matches!(unary.op, syn::UnOp::Neg(_)) => Ok(expr),
        _ => Err(Error::new_spanned(
            &expr,
            "a case label is a path in quotes (`case = \"Color::Red\"`), an integer or a bool",
        )),
    }
}

impl FieldAttrs {
    pub(crate) fn parse(attrs: &[Attribute], errors: &mut Errors) -> Self {
        let mut found = FieldAttrs::default();
        for attr in attrs {
            if take_eligible(attr, &mut found.eligible, errors) || !attr.path().is_ident("xdr") {
                continue;
            }
            let parsed = attr.parse_nested_meta(|meta| {
                if meta.path.is_ident("max") {
                    let bound = bound(meta.value()?.parse()?)?;
                    set(&mut found.max, bound, &meta)
                } else if meta.path.is_ident("list") {
                    set(&mut found.list, meta.path.span(), &meta)
                } else if meta.path.is_ident("recursive") {
                    set(&mut found.recursive, meta.path.span(), &meta)
                } else {
                    Err(meta.error("unknown attribute; a field takes `max = N`, `list` and `recursive`"))
                }
            });
            errors.keep(parsed);
        }
        found
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.max.is_none() && self.list.is_none() && self.recursive.is_none() && self.eligible.is_none()
    }
}

/// A bound: an integer literal that is not negative and fits 32 bits, or an expression in a string.
fn bound(expr: Expr) -> Result<Expr> {
    match &expr {
        Expr::Unary(unary) if matches!(unary.op, syn::UnOp::Neg(_)) => {
            Err(Error::new_spanned(&expr, "a bound cannot be negative"))
        }
        Expr::Lit(ExprLit { lit: Lit::Int(int), .. }) if int.base10_parse::<u32>().is_err() => {
            Err(Error::new_spanned(&expr, "a bound is at most 4294967295: XDR counts are 32 bits"))
        }
        Expr::Lit(ExprLit { lit: Lit::Str(path), .. }) => path.parse(),
        Expr::Lit(ExprLit { lit: Lit::Int(_), .. }) | Expr::Path(_) => Ok(expr),
        _ => Err(Error::new_spanned(
            &expr,
            "a bound is an integer, a constant's path, or an expression in quotes",
        )),
    }
}
