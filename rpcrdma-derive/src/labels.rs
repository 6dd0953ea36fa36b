//! The labels of a union's arms as patterns, and whether each has one arm.

use proc_macro2::{TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Expr, GenericParam, Generics, Ident, Type, parse_quote};

use crate::ast::{Arm, Body, Container, local, number};
use crate::check::is_scalar;

/// What is said of labels elsewhere, in words of ours.
pub(crate) fn allowed() -> TokenStream {
    quote!(#[allow(unreachable_patterns, unused_variables, non_snake_case, bindings_with_variant_name)])
}

/// A label of one name. Where that name means nothing, it would be a variable, for a pattern.
fn is_name(label: &Expr) -> bool {
    matches!(label, Expr::Path(path) if path.path.get_ident().is_some_and(|name| !name.to_string().starts_with(CONSTANT)))
}

/// Labels as expressions: where one means nothing, that is said, and the code that is around is not looked at further.
pub(crate) fn refused(arms: &[Arm<'_>]) -> Option<TokenStream> {
    let names: Vec<&Expr> = arms.iter().flat_map(|arm| &arm.cases).filter(|label| is_name(label)).collect();
    (!names.is_empty()).then(|| quote!(let _ = (#(&#names,)*);))
}

/// A label whose type may be wrong is a constant, which all of the code names: so one that is none, or one of another type,
/// is one error. Where the discriminant is a number or a bool that is a label by name, and else one that is a number or a
/// bool: the discriminant may be another name of such a type.
pub(crate) fn take_labels(container: &mut Container<'_>) -> TokenStream {
    let mut constants = TokenStream::new();
    let generics = container.generics;
    let Body::Union { discriminant, arms } = &mut container.body else { return constants };
    // A constant of its own cannot name parameters.
    if of_parameter(generics, discriminant) {
        return constants;
    }
    let by_name = is_scalar(discriminant);
    let labels = arms.iter_mut().flat_map(|arm| &mut arm.cases);
    for (place, label) in labels.enumerate().filter(|(_, label)| matches!(label, Expr::Path(_)) == by_name) {
        let span = label.span();
        let name = format_ident!("{CONSTANT}{place}", span = span);
        // A number below zero has one type, for no other takes it.
        let own = if number(label).is_some_and(|number| number < 0) {
            quote_spanned!(span=> i32)
        } else {
            quote_spanned!(span=> _)
        };
        constants.extend(quote_spanned! {span=>
            const #name: #discriminant = {
                let __label = __xdr::derive_support::label::<#discriminant, #own>(#label);
                __label
            };
        });
        *label = parse_quote!(#name);
    }
    constants
}

/// Whether a label is one that only the compiler knows the type of.
pub(crate) fn is_of_some_type(label: &Expr) -> bool {
    let Expr::Path(path) = label else { return false };
    !path.path.get_ident().is_some_and(|name| name.to_string().starts_with(CONSTANT))
}

const CONSTANT: &str = "__LABEL_";

/// The pattern of an arm that has labels.
pub(crate) fn pattern(arm: &Arm<'_>, index: usize) -> TokenStream {
    let cases = &arm.cases;
    if cases.len() > 1 && cases.iter().any(is_name) {
        return quote!(__discriminant if <Self as __xdr::derive_support::Keeps<#index>>::chooses(&__discriminant));
    }
    quote!(#(#cases)|*)
}

/// Whether a discriminant's type is one of the parameters, or is made of them.
fn of_parameter(generics: &Generics, discriminant: &Type) -> bool {
    let parameters: Vec<&Ident> = generics
        .params
        .iter()
        .filter_map(|parameter| match parameter {
            GenericParam::Type(parameter) => Some(&parameter.ident),
            GenericParam::Const(parameter) => Some(&parameter.ident),
            GenericParam::Lifetime(_) => None,
        })
        .collect();
    !parameters.is_empty() && begins_with(discriminant.to_token_stream(), &parameters)
}

/// Whether a path in a type begins with such a name. Behind `::` it is the name of something else.
fn begins_with(tokens: TokenStream, wanted: &[&Ident]) -> bool {
    let mut behind_colon = false;
    tokens.into_iter().any(|token| {
        let found = match &token {
            TokenTree::Ident(ident) => !behind_colon && wanted.contains(&ident),
            TokenTree::Group(group) => begins_with(group.stream(), wanted),
            _ => false,
        };
        behind_colon = matches!(&token, TokenTree::Punct(mark) if mark.as_char() == ':');
        found
    })
}

/// That no two labels are one value, as far as only the compiler can tell: constants and imported names may be the same
/// under two names. Each label is looked up among all; the first that is equal is itself.
pub(crate) fn distinct(
    container: &Container<'_>,
    discriminant: &Type,
    arms: &[Arm<'_>],
) -> Option<TokenStream> {
    let labels: Vec<&Expr> = arms.iter().flat_map(|arm| &arm.cases).collect();
    if labels.len() < 2
        || of_parameter(container.generics, discriminant)
        || !labels.iter().any(|label| matches!(label, Expr::Path(_)))
    {
        return None;
    }
    let (allowed, refused) = (allowed(), refused(arms));
    let (places, of) = (0..labels.len(), local("__place"));
    let checks = labels.iter().enumerate().skip(1).map(
        |(place, label)| quote_spanned!(label.span()=> ::core::assert!(#of(&#label) == #place, #TWICE);),
    );
    Some(quote! {
        const fn __place(__discriminant: &#discriminant) -> usize {
            #refused
            #allowed
            match *__discriminant { #(#labels => #places,)* _ => usize::MAX }
        }
        const _: () = { #(#checks)* };
    })
}

const TWICE: &str = "an arm before has this label already, under another name: a discriminant chooses one arm, so take one of the two away";
