//! Parses the attributes `#[xdr(...)]` and `#[ddp_eligible]`.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote};
use rpcrdma_layout::Size;
use syn::meta::ParseNestedMeta;
use syn::parse::Parse;
use syn::spanned::Spanned;
use syn::{Attribute, Error, Expr, ExprLit, Lit, LitStr, Meta, Path, Result, Token, Type};

use crate::syntax::{bare, is_negated, number};

/// Collects errors, so that one run of the derive can report several mistakes.
#[derive(Default)]
pub(crate) struct Errors(Option<Error>);

impl Errors {
    pub(crate) fn push(&mut self, error: Error) {
        match &mut self.0 {
            Some(errors) => errors.combine(error),
            None => self.0 = Some(error),
        }
    }

    pub(crate) fn at(&mut self, tokens: impl ToTokens, message: &str) {
        self.push(Error::new_spanned(tokens, message));
    }

    pub(crate) fn at_span(&mut self, span: Span, message: &str) {
        self.push(Error::new(span, message));
    }

    pub(crate) fn finish(self) -> Result<()> {
        self.0.map_or(Ok(()), Err)
    }
}

#[derive(Clone, Copy)]
pub(crate) enum Place {
    Type,
    /// An enum's value.
    Value,
    Arm,
    Field,
}

#[derive(Default)]
pub(crate) struct Attrs {
    pub(crate) krate: Option<Path>,
    pub(crate) union: Option<Type>,
    pub(crate) backward: Option<Span>,
    pub(crate) items: Option<(Span, Size)>,
    pub(crate) largest: Option<(Span, Size)>,
    pub(crate) cases: Vec<Expr>,
    pub(crate) default: Option<Span>,
    pub(crate) max: Option<Expr>,
    pub(crate) list: Option<Span>,
    pub(crate) recursive: Option<Span>,
    pub(crate) name: Option<String>,
    pub(crate) eligible: Option<Span>,
    /// Whether an invalid `#[xdr(...)]` was reported. If so, missing attributes are not reported.
    pub(crate) failed: bool,
}

impl Attrs {
    pub(crate) fn parse(place: Place, attrs: &[Attribute], errors: &mut Errors) -> Self {
        let mut found = Attrs::default();
        for attr in attrs {
            if attr.path().is_ident("ddp_eligible") {
                found.mark(place, attr, errors);
            } else if attr.path().is_ident("xdr") {
                let parsed = attr.parse_nested_meta(|meta| found.take(place, &meta));
                found.failed |= parsed.map_err(|error| errors.push(error)).is_err();
            }
        }
        found
    }

    fn mark(&mut self, place: Place, attr: &Attribute, errors: &mut Errors) {
        match (&attr.meta, place) {
            (_, Place::Type) => errors.at(
                attr,
                "`#[ddp_eligible]` marks a field, not a type: put it on the field that contains the data",
            ),
            (_, Place::Value) => errors.at(
                attr,
                "an enum's value is four bytes and cannot be DDP-eligible: mark opaque data or a string",
            ),
            (Meta::Path(_), _) if self.eligible.is_some() => {
                errors.at(attr, "`#[ddp_eligible]` is given twice: remove one");
            }
            (Meta::Path(_), _) => self.eligible = Some(attr.path().span()),
            _ => errors.at(
                attr,
                "`#[ddp_eligible]` accepts no arguments, since the sender of each message selects the items to move: remove the arguments",
            ),
        }
    }

    fn take(&mut self, place: Place, meta: &ParseNestedMeta<'_>) -> Result<()> {
        let key = meta.path.get_ident().map(ToString::to_string).unwrap_or_default();
        match (place, key.as_str()) {
            (Place::Type, "crate") => set(&mut self.krate, quoted(meta, "crate = \"path\"")?, meta),
            (Place::Type, "union") => set(&mut self.union, quoted(meta, "union = \"Type\"")?, meta),
            (Place::Type, "backward") => flag(&mut self.backward, meta),
            (Place::Type, "items") => size(&mut self.items, "items = N", meta),
            (Place::Type, "largest") => size(&mut self.largest, "largest = SIZE", meta),
            (Place::Arm, "case") => {
                self.cases.push(label(&value(meta, "case = 3` or `case = \"Color::Red\"")?)?);
                Ok(())
            }
            (Place::Arm, "default") => flag(&mut self.default, meta),
            (Place::Field, "max") => set(&mut self.max, bound(&value(meta, "max = 8")?)?, meta),
            (Place::Field, "list") => flag(&mut self.list, meta),
            (Place::Field, "recursive") => flag(&mut self.recursive, meta),
            (Place::Field, "name") => {
                set(&mut self.name, value::<LitStr>(meta, "name = \"file-handle\"")?.value(), meta)
            }
            (Place::Value, _) => Err(meta.error(format!(
                "`{key}` does not apply to an enum's value: write `Name = 3`, or `#[xdr(union = \"Type\")]` on the enum"
            ))),
            (Place::Type, _) => Err(meta.error(
                "unknown attribute: a type accepts `union = \"Type\"`, `backward`, `items = N`, `largest = SIZE` and `crate = \"path\"`",
            )),
            (Place::Arm, _) => {
                Err(meta.error("unknown attribute: a union's arm accepts `case = ...` and `default`"))
            }
            (Place::Field, _) => {
                Err(meta.error("unknown attribute: a field accepts `max = N`, `list`, `recursive` and `name = \"text\"`"))
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        let Attrs { max, list, recursive, name, eligible, .. } = self;
        max.is_none() && list.is_none() && recursive.is_none() && name.is_none() && eligible.is_none()
    }
}

fn set<T>(slot: &mut Option<T>, value: T, meta: &ParseNestedMeta<'_>) -> Result<()> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(meta.error(format!("`{}` is given twice: remove one", meta.path.to_token_stream()))),
    }
}

/// Parses the value after `=`. The error message suggests `example`, a correct attribute.
fn value<T: Parse>(meta: &ParseNestedMeta<'_>, example: &str) -> Result<T> {
    let parsed = if meta.input.peek(Token![=]) { meta.value()?.parse().ok() } else { None };
    parsed.ok_or_else(|| rest(meta, &format!("missing or invalid value: write `{example}`")))
}

fn quoted<T: Parse>(meta: &ParseNestedMeta<'_>, example: &str) -> Result<T> {
    let text = value::<LitStr>(meta, example)?;
    text.parse().map_err(|_| Error::new_spanned(&text, format!("invalid value: write `{example}`")))
}

fn flag(slot: &mut Option<Span>, meta: &ParseNestedMeta<'_>) -> Result<()> {
    if meta.input.peek(Token![=]) || meta.input.peek(syn::token::Paren) {
        let name = meta.path.to_token_stream();
        return Err(rest(meta, &format!("`{name}` accepts no value: write `#[xdr({name})]`")));
    }
    set(slot, meta.path.span(), meta)
}

/// Consumes the remaining tokens of the attribute, which would otherwise cause another error. Returns an
/// error that covers the attribute's name and these tokens.
fn rest(meta: &ParseNestedMeta<'_>, message: &str) -> Error {
    let rest: TokenStream = meta.input.parse().unwrap_or_default();
    let path = &meta.path;
    Error::new_spanned(quote!(#path #rest), message)
}

/// Parses the argument of `items` or `largest`, a number or `unbounded`, and stores it in `slot`.
fn size(slot: &mut Option<(Span, Size)>, example: &str, meta: &ParseNestedMeta<'_>) -> Result<()> {
    let expr: Expr = value(meta, example)?;
    let size = match (number(&expr).map(u64::try_from), bare(&expr)) {
        (Some(Ok(bound)), _) => Size::Bounded(bound),
        (None, Expr::Path(path)) if path.path.is_ident("unbounded") => Size::Unbounded,
        _ => return Err(Error::new_spanned(expr, "invalid size: write a number or `unbounded`")),
    };
    set(slot, (meta.path.span(), size), meta)
}

const LABEL: &str = "invalid label: write a path in quotes (`case = \"Color::Red\"`), an integer or a bool";

fn label(expr: &Expr) -> Result<Expr> {
    match bare(expr) {
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => match text.parse() {
            Ok(path) => Ok(Expr::Path(syn::ExprPath { attrs: Vec::new(), qself: None, path })),
            Err(_) => Err(Error::new_spanned(text, LABEL)),
        },
        Expr::Lit(ExprLit { lit: Lit::Int(_) | Lit::Bool(_), .. }) => Ok(bare(expr).clone()),
        _ if number(expr).is_some() => Ok(bare(expr).clone()),
        _ => Err(Error::new_spanned(expr, LABEL)),
    }
}

/// Parses a bound: an integer literal from 0 to 2^32 - 1, a path, or an expression in a string.
fn bound(expr: &Expr) -> Result<Expr> {
    let bound = match bare(expr) {
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => text.parse().map_err(|_| {
            Error::new_spanned(text, "invalid expression: write a bound such as `max = \"LIMIT * 2\"`")
        })?,
        Expr::Lit(ExprLit { lit: Lit::Int(_), .. }) | Expr::Path(_) => expr.clone(),
        _ if is_negated(expr) => expr.clone(),
        _ => {
            let message = "invalid bound: write an integer, a constant's path, or an expression in quotes";
            return Err(Error::new_spanned(expr, message));
        }
    };
    let message = match number(&bound) {
        _ if is_negated(&bound) => "a bound cannot be negative: write a number from 0 to 4294967295",
        Some(value) if u32::try_from(value).is_err() => {
            "a bound is at most 4294967295, since XDR counts have 32 bits: write a smaller bound"
        }
        _ => return Ok(bound),
    };
    Err(Error::new_spanned(expr, message))
}
