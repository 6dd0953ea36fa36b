//! Attributes: what stands in `#[xdr(...)]` and `#[ddp_eligible]`.

use proc_macro2::{Span, TokenStream};
use quote::ToTokens;
use syn::meta::ParseNestedMeta;
use syn::spanned::Spanned;
use syn::{Attribute, Error, Expr, ExprLit, Lit, LitStr, Meta, Path, Result, Token, Type};

use crate::ast::number;

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
    /// Something was wrong and has been said: nothing follows from what is missing.
    pub(crate) failed: bool,
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

fn set<T>(slot: &mut Option<T>, value: T, meta: &ParseNestedMeta<'_>) -> Result<()> {
    if slot.is_some() {
        let name = meta.path.get_ident().map(ToString::to_string).unwrap_or_default();
        return Err(meta.error(format!("`{name}` stands here twice; remove one")));
    }
    *slot = Some(value);
    Ok(())
}

/// What stands behind `=`. `example` is how it is written.
fn value<T: syn::parse::Parse>(meta: &ParseNestedMeta<'_>, example: &str) -> Result<T> {
    let parsed = if meta.input.peek(Token![=]) { meta.value()?.parse().ok() } else { None };
    parsed.ok_or_else(|| {
        // What is left is no second mistake.
        let _ = meta.input.parse::<TokenStream>();
        meta.error(format!("this needs a value: write `{example}`"))
    })
}

/// The same in quotes.
fn string_value<T: syn::parse::Parse>(meta: &ParseNestedMeta<'_>, example: &str) -> Result<T> {
    let text = value::<LitStr>(meta, example)?;
    text.parse().map_err(|_| Error::new_spanned(&text, format!("this cannot be read: write `{example}`")))
}

/// Something that is said by its name alone.
fn flag(slot: &mut Option<Span>, meta: &ParseNestedMeta<'_>) -> Result<()> {
    let name = meta.path.get_ident().map(ToString::to_string).unwrap_or_default();
    if meta.input.peek(Token![=]) || meta.input.peek(syn::token::Paren) {
        let _ = meta.input.parse::<TokenStream>();
        return Err(meta.error(format!("`{name}` takes no value: write it alone, `#[xdr({name})]`")));
    }
    set(slot, meta.path.span(), meta)
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
                    let path = string_value(&meta, "crate = \"path\"")?;
                    set(&mut found.krate, path, &meta)
                } else if meta.path.is_ident("union") {
                    let ty = string_value(&meta, "union = \"Type\"")?;
                    set(&mut found.union, ty, &meta)
                } else if meta.path.is_ident("backward") {
                    flag(&mut found.backward, &meta)
                } else {
                    Err(meta.error(
                        "unknown attribute; a type takes `union = \"Type\"`, `backward` and `crate = \"path\"`",
                    ))
                }
            });
            found.failed |= errors.keep(parsed).is_none();
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
                    found.cases.push(case_label(&value(&meta, "case = 3` or `case = \"Color::Red\"")?)?);
                    Ok(())
                } else if meta.path.is_ident("default") {
                    flag(&mut found.default, &meta)
                } else {
                    Err(meta.error("unknown attribute; a union's arm takes `case = ...` and `default`"))
                }
            });
            found.failed |= errors.keep(parsed).is_none();
        }
        found
    }
}

/// An expression without parentheses, and without the bounds that a macro has put around it: `$label` is what stands for it.
pub(crate) fn bare(expr: &Expr) -> &Expr {
    match expr {
        Expr::Group(group) => bare(&group.expr),
        Expr::Paren(paren) => bare(&paren.expr),
        expr => expr,
    }
}

/// A label: a path in a string, or an integer or a bool as it is.
fn case_label(expr: &Expr) -> Result<Expr> {
    match bare(expr) {
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => match text.parse() {
            Ok(path) => Ok(Expr::Path(syn::ExprPath { attrs: Vec::new(), qself: None, path })),
            Err(_) => Err(Error::new_spanned(text, LABEL)),
        },
        Expr::Lit(ExprLit { lit: Lit::Int(_) | Lit::Bool(_), .. }) => Ok(bare(expr).clone()),
        Expr::Unary(unary) if matches!(unary.op, syn::UnOp::Neg(_)) && number(expr).is_some() => {
            Ok(bare(expr).clone())
        }
        _ => Err(Error::new_spanned(expr, LABEL)),
    }
}

const LABEL: &str = "a case label is a path in quotes (`case = \"Color::Red\"`), an integer or a bool";

impl FieldAttrs {
    pub(crate) fn parse(attrs: &[Attribute], errors: &mut Errors) -> Self {
        let mut found = FieldAttrs::default();
        for attr in attrs {
            if take_eligible(attr, &mut found.eligible, errors) || !attr.path().is_ident("xdr") {
                continue;
            }
            let parsed = attr.parse_nested_meta(|meta| {
                if meta.path.is_ident("max") {
                    let bound = bound(&value(&meta, "max = 8")?)?;
                    set(&mut found.max, bound, &meta)
                } else if meta.path.is_ident("list") {
                    flag(&mut found.list, &meta)
                } else if meta.path.is_ident("recursive") {
                    flag(&mut found.recursive, &meta)
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
fn bound(expr: &Expr) -> Result<Expr> {
    match bare(expr) {
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => match text.parse() {
            Ok(expr) => in_range(text, expr),
            Err(_) => Err(Error::new_spanned(
                text,
                "this is no expression; a bound is, as in `max = \"LIMIT * 2\"`",
            )),
        },
        Expr::Lit(ExprLit { lit: Lit::Int(_), .. }) | Expr::Path(_) => in_range(expr, expr.clone()),
        Expr::Unary(unary) if matches!(unary.op, syn::UnOp::Neg(_)) => in_range(expr, expr.clone()),
        _ => Err(Error::new_spanned(
            expr,
            "a bound is an integer, a constant's path, or an expression in quotes",
        )),
    }
}

/// What is known of a bound already.
fn in_range(place: &dyn ToTokens, expr: Expr) -> Result<Expr> {
    let negative = matches!(bare(&expr), Expr::Unary(unary) if matches!(unary.op, syn::UnOp::Neg(_)));
    match number(&expr) {
        _ if negative => Err(Error::new_spanned(
            Tokens(place),
            "a bound cannot be negative: it is how many there may be at most",
        )),
        Some(bound) if u32::try_from(bound).is_err() => {
            Err(Error::new_spanned(Tokens(place), "a bound is at most 4294967295: XDR counts are 32 bits"))
        }
        _ => Ok(expr),
    }
}
