//! The labels of a union's arms: as constants, as patterns, and in a check that all labels differ.

use proc_macro2::TokenStream;
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Expr, Generics, Type, parse_quote};

use crate::ast::{Arm, Body, Container};
use crate::syntax::{is_scalar, local, mentions, parameters};

const CONSTANT: &str = "__LABEL_";
const DUPLICATE: &str = "an earlier label has the same value under another name: remove one";

/// Returns an attribute that disables lints on label patterns, because these lints would repeat the derive's
/// own errors.
pub(crate) fn allowed() -> TokenStream {
    quote!(#[allow(unreachable_patterns, unused_variables, non_snake_case, bindings_with_variant_name)])
}

/// Returns true if a label is a single name that [`define_labels`] has not replaced. As a pattern, an
/// undefined name would be a variable.
fn is_name(label: &Expr) -> bool {
    matches!(label, Expr::Path(path) if path.path.get_ident().is_some()) && !is_constant(label)
}

/// Returns true if [`define_labels`] has replaced a label with a constant of the discriminant's type.
fn is_constant(label: &Expr) -> bool {
    matches!(label, Expr::Path(path) if path.path.get_ident().is_some_and(|name| name.to_string().starts_with(CONSTANT)))
}

/// Returns true if only the compiler can determine the type of a label.
pub(crate) fn is_of_some_type(label: &Expr) -> bool {
    matches!(label, Expr::Path(_)) && !is_constant(label)
}

/// Defines a constant for each label whose type may be wrong, so that a wrong label causes only one error. If
/// the discriminant has a built-in type, these labels are the paths. Otherwise, these labels are the numbers
/// and bools, because the discriminant's type may be an alias of a built-in type.
pub(crate) fn define_labels(container: &mut Container<'_>) -> TokenStream {
    let mut constants = TokenStream::new();
    let generics = container.owner.generics;
    let Body::Union { discriminant, arms } = &mut container.body else { return constants };
    // A constant cannot name the type's parameters.
    if is_of_parameter(generics, discriminant) {
        return constants;
    }
    let by_name = is_scalar(discriminant);
    let labels = arms.iter_mut().flat_map(|arm| &mut arm.cases);
    for (index, label) in labels.enumerate().filter(|(_, label)| matches!(label, Expr::Path(_)) == by_name) {
        let span = label.span();
        let name = format_ident!("{CONSTANT}{index}", span = span);
        constants.extend(quote_spanned! {span=>
            const #name: #discriminant = {
                let __label = __xdr::derive_support::label::<#discriminant, _>(#label);
                __label
            };
        });
        *label = parse_quote!(#name);
    }
    constants
}

/// Returns true if a discriminant's type contains type or const parameters.
fn is_of_parameter(generics: &Generics, discriminant: &Type) -> bool {
    mentions(discriminant.to_token_stream(), &|name| parameters(generics).any(|parameter| name == parameter))
}

pub(crate) fn pattern(arm: &Arm<'_>, chooses: &TokenStream) -> TokenStream {
    let cases = &arm.cases;
    if cases.len() > 1 && cases.iter().any(is_name) {
        return quote!(__discriminant if { let __kept = &__discriminant; #chooses });
    }
    quote!(#(#cases)|*)
}

/// Returns an expression for each arm. The expression is true if the discriminant `*__kept` selects the arm.
pub(crate) fn choices(container: &Container<'_>, discriminant: &Type, arms: &[Arm<'_>]) -> Vec<TokenStream> {
    let generics = container.owner.generics;
    let arguments = is_of_parameter(generics, discriminant).then(|| {
        let parameters = parameters(generics);
        quote!(::<#(#parameters),*>)
    });
    let place = quote!(__place #arguments (__kept));
    let mut next = 0;
    let chooses = |arm: &Arm<'_>| {
        let own = next..next + arm.cases.len();
        next = own.end;
        if arm.default.is_some() {
            quote!(#place == usize::MAX)
        } else {
            quote!(::core::matches!(#place, #(#own)|*))
        }
    };
    arms.iter().map(chooses).collect()
}

/// Returns a function that maps a discriminant to the index of its label, or to `usize::MAX` if no label
/// matches. Also returns a check that labels with different names have different values, since only the
/// compiler can compare the values. Returns `None` if neither is needed.
pub(crate) fn place(container: &Container<'_>, discriminant: &Type, arms: &[Arm<'_>]) -> Option<TokenStream> {
    let labels: Vec<&Expr> = arms.iter().flat_map(|arm| &arm.cases).collect();
    let generics = container.owner.generics;
    let of_parameter = is_of_parameter(generics, discriminant);
    let is_distinct =
        labels.len() < 2 || of_parameter || !labels.iter().any(|label| matches!(label, Expr::Path(_)));
    if is_distinct && arms.iter().all(|arm| arm.kept.is_none()) {
        return None;
    }
    let (impl_generics, _, where_clause) = generics.split_for_impl();
    let (impl_generics, where_clause) =
        (of_parameter.then_some(impl_generics), where_clause.filter(|_| of_parameter));
    let (allowed, indexes) = (allowed(), 0..labels.len());
    // An undefined name causes an error here, and the compiler then skips the surrounding code.
    let names: Vec<_> = labels.iter().filter(|label| is_name(label)).collect();
    let names = (!names.is_empty()).then(|| quote!(let _ = (#(&#names,)*);));
    let checks = (!is_distinct).then(|| {
        let of = local("__place");
        let checks = labels.iter().enumerate().skip(1).map(
            |(index, label)| quote_spanned!(label.span()=> ::core::assert!(#of(&#label) == #index, #DUPLICATE);),
        );
        quote!(const _: () = { #(#checks)* };)
    });
    Some(quote! {
        #[inline]
        const fn __place #impl_generics (__discriminant: &#discriminant) -> usize #where_clause {
            #names
            #allowed
            match *__discriminant { #(#labels => #indexes,)* _ => usize::MAX }
        }
        #checks
    })
}
