//! Queries on Rust syntax that several modules use.

use proc_macro2::{Delimiter, Span, TokenStream, TokenTree};
use quote::ToTokens;
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{
    Expr, ExprLit, GenericArgument, GenericParam, Generics, Ident, Lit, PathArguments, Token, Type, UnOp,
};

/// Rust types with an encoding of one or two words, which are never DDP-eligible.
pub(crate) const SCALARS: [&str; 9] = ["bool", "i16", "u16", "i32", "u32", "i64", "u64", "f32", "f64"];

pub(crate) fn is_scalar(ty: &Type) -> bool {
    is_one_of(ty, &SCALARS)
}

pub(crate) fn is_one_of(ty: &Type, names: &[&str]) -> bool {
    type_name(ty).is_some_and(|name| names.iter().any(|known| name == known))
}

/// Returns the last name in a type's path, without arguments. Returns `None` if the type is not a path, or
/// for a path such as `<T as Trait>::Type`.
pub(crate) fn type_name(ty: &Type) -> Option<&Ident> {
    match ty {
        Type::Path(path) if path.qself.is_none() => path.path.segments.last().map(|segment| &segment.ident),
        _ => None,
    }
}

/// Returns the angle-bracketed arguments of a path's last segment.
pub(crate) fn arguments(ty: &Type) -> Option<&Punctuated<GenericArgument, Token![,]>> {
    let Type::Path(path) = ty else { return None };
    match &path.path.segments.last()?.arguments {
        PathArguments::AngleBracketed(arguments) => Some(&arguments.args),
        _ => None,
    }
}

pub(crate) fn type_arguments(ty: &Type) -> impl Iterator<Item = &Type> {
    arguments(ty).into_iter().flatten().filter_map(|argument| match argument {
        GenericArgument::Type(ty) => Some(ty),
        _ => None,
    })
}

/// Returns the parameters that are types or constants.
pub(crate) fn parameters(generics: &Generics) -> impl Iterator<Item = &Ident> {
    generics.params.iter().filter_map(|parameter| match parameter {
        GenericParam::Type(parameter) => Some(&parameter.ident),
        GenericParam::Const(parameter) => Some(&parameter.ident),
        GenericParam::Lifetime(_) => None,
    })
}

/// How a type borrows data, according to its syntax.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Borrow {
    /// `&[u8]` or `&str`.
    Slice,
    /// A type of the runtime whose name ends in `Ref`.
    Ref,
    /// Any other reference.
    Other,
}

pub(crate) fn borrow(ty: &Type) -> Option<Borrow> {
    const REFS: [&str; 5] = ["OpaqueRef", "StringRef", "ArrayRef", "ListRef", "BoxRef"];
    match ty {
        Type::Reference(reference) if reference.mutability.is_some() => Some(Borrow::Other),
        Type::Reference(reference) => Some(match &*reference.elem {
            Type::Slice(slice) if is_one_of(&slice.elem, &["u8"]) => Borrow::Slice,
            elem if is_one_of(elem, &["str"]) => Borrow::Slice,
            _ => Borrow::Other,
        }),
        ty => is_one_of(ty, &REFS).then_some(Borrow::Ref),
    }
}

/// Returns true if a path in a type begins with a name for which `names` returns true. Ignores
/// constants in braces, lengths of arrays, and names after `::`.
pub(crate) fn mentions(tokens: TokenStream, names: &dyn Fn(&Ident) -> bool) -> bool {
    let mut is_behind_colon = false;
    tokens.into_iter().any(|token| {
        let found = match &token {
            TokenTree::Ident(ident) => !is_behind_colon && names(ident),
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => false,
            TokenTree::Group(group) => {
                let is_end =
                    |token: &TokenTree| matches!(token, TokenTree::Punct(mark) if mark.as_char() == ';');
                mentions(group.stream().into_iter().take_while(|token| !is_end(token)).collect(), names)
            }
            _ => false,
        };
        is_behind_colon = matches!(&token, TokenTree::Punct(mark) if mark.as_char() == ':');
        found
    })
}

/// Returns an expression without enclosing parentheses, and without the invisible group that a macro puts
/// around a variable such as `$label`.
pub(crate) fn bare(expr: &Expr) -> &Expr {
    match expr {
        Expr::Group(group) => bare(&group.expr),
        Expr::Paren(paren) => bare(&paren.expr),
        expr => expr,
    }
}

pub(crate) fn is_negated(expr: &Expr) -> bool {
    matches!(bare(expr), Expr::Unary(unary) if matches!(unary.op, UnOp::Neg(_)))
}

/// Returns the value of an integer literal with an optional minus sign: `0x10` is 16. A literal above
/// `i128::MAX` becomes `i128::MAX`. Returns `None` for any other expression.
pub(crate) fn number(expr: &Expr) -> Option<i128> {
    match bare(expr) {
        Expr::Unary(unary) if is_negated(expr) => number(&unary.expr)?.checked_neg(),
        Expr::Lit(ExprLit { lit: Lit::Int(int), .. }) => Some(int.base10_parse().unwrap_or(i128::MAX)),
        _ => None,
    }
}

/// Returns the spans of a type's first and last tokens. Tokens around the type get these spans, so that an
/// error covers the complete type and is reported once.
pub(crate) fn first_and_last(ty: &Type) -> (Span, Span) {
    let last = ty.to_token_stream().into_iter().last().map(|token| token.span());
    (ty.span(), last.unwrap_or_else(|| ty.span()))
}

/// Returns a variable of the derived code, for use in tokens with the span of a type or a label. If a macro
/// received the type as an argument, a name with that span would be resolved in the scope of the macro's
/// caller.
pub(crate) fn local(name: &str) -> Ident {
    Ident::new(name, Span::call_site())
}
