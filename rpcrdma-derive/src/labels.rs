//! The labels of a union's arms as patterns, and whether each has one arm.

use proc_macro2::TokenStream;
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Expr, Type, parse_quote};

use crate::ast::{Arm, Body, Container, names};
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

/// Where the discriminant is a number or a bool, a label by name is a constant, which all of the code names: so one that
/// is none, or one of another type, is one error.
pub(crate) fn take_labels(container: &mut Container<'_>) -> TokenStream {
    let mut constants = TokenStream::new();
    let Body::Union { discriminant, arms } = &mut container.body else { return constants };
    if !is_scalar(discriminant) {
        return constants;
    }
    let labels = arms.iter_mut().flat_map(|arm| &mut arm.cases);
    for (place, label) in labels.enumerate().filter(|(_, label)| matches!(label, Expr::Path(_))) {
        let (span, name) = (label.span(), format_ident!("{CONSTANT}{place}", span = label.span()));
        constants.extend(quote_spanned!(span=> const #name: #discriminant = #label;));
        *label = parse_quote!(#name);
    }
    constants
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

/// That no two labels are one value, as far as only the compiler can tell: constants and imported names may be the same
/// under two names. Each label is looked up among all; the first that is equal is itself.
pub(crate) fn distinct(
    container: &Container<'_>,
    discriminant: &Type,
    arms: &[Arm<'_>],
) -> Option<TokenStream> {
    let labels: Vec<&Expr> = arms.iter().flat_map(|arm| &arm.cases).collect();
    let of_parameter = container.generics.params.iter().any(|parameter| match parameter {
        syn::GenericParam::Type(parameter) => names(discriminant.to_token_stream(), &parameter.ident),
        syn::GenericParam::Const(parameter) => names(discriminant.to_token_stream(), &parameter.ident),
        syn::GenericParam::Lifetime(_) => false,
    });
    if labels.len() < 2 || of_parameter || !labels.iter().any(|label| matches!(label, Expr::Path(_))) {
        return None;
    }
    let (allowed, refused) = (allowed(), refused(arms));
    let places = 0..labels.len();
    let checks = labels.iter().enumerate().skip(1).map(
        |(place, label)| quote_spanned!(label.span()=> ::core::assert!(__place(&#label) == #place, #TWICE);),
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
