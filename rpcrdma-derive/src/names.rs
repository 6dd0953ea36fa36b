//! Aliases and constants for the user's types and values, so that each mistake causes only one error.

use proc_macro2::{Group, TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::spanned::Spanned;

use crate::ast::{Container, Field};
use crate::syntax::{first_and_last, number, parameters};

/// Sets the bound of each field that has `max`. Returns a constant for each bound that is not a literal in
/// the range of `u32`, or no constants if the derived type has type or const parameters.
pub(crate) fn define_bounds(container: &mut Container<'_>) -> TokenStream {
    let is_generic = parameters(container.owner.generics).next().is_some();
    let mut constants = TokenStream::new();
    for (index, field) in container.fields_mut().into_iter().enumerate() {
        let Some(bound) = &field.attrs.max else { continue };
        if let Some(value) = number(bound).and_then(|value| u32::try_from(value).ok()) {
            field.bound = Some(quote!(#value));
            continue;
        }
        // If the bound has the wrong type, the type of `__bound` is unknown, so the compiler reports only one
        // error.
        let span = bound.span();
        let value = quote_spanned! {span=> {
            let __bound = __xdr::derive_support::count(#bound);
            __bound
        }};
        // A constant cannot name the type's parameters.
        if is_generic {
            field.bound = Some(value);
            continue;
        }
        let name = format_ident!("__BOUND_{index}");
        constants.extend(quote_spanned!(span=> const #name: u32 = #value;));
        field.bound = Some(quote!(#name));
    }
    constants
}

/// Defines an alias for each field's type, unless the derived type has type or const parameters. An
/// unknown name in a field's type also occurs in the alias, at the same source position. The two errors are
/// identical, so the compiler reports only one.
pub(crate) fn define_type_aliases(container: &mut Container<'_>) -> TokenStream {
    let mut aliases = TokenStream::new();
    let generics = container.owner.generics;
    // A type alias must use all of its type parameters, but a field's type may use only some.
    if parameters(generics).next().is_some() {
        return aliases;
    }
    let place = container.owner.ident.span();
    let lifetimes: Vec<_> = generics.lifetimes().map(|parameter| &parameter.lifetime).collect();
    let (ident, (_, arguments, _)) = (container.owner.ident, generics.split_for_impl());
    let owner = quote!(#ident #arguments);
    let parameters = (!lifetimes.is_empty()).then(|| quote!(<#(#lifetimes),*>));
    for (index, field) in container.fields_mut().into_iter().enumerate() {
        let ty = field.ty;
        let replaced = without_self(ty.to_token_stream(), &owner);
        let name = format_ident!("__Type{index}", span = place);
        aliases.extend(quote!(type #name #parameters = #replaced;));
        let (first, last) = first_and_last(ty);
        let (open, close) = (quote_spanned!(first=> <), quote_spanned!(last=> >));
        let name = format_ident!("__Type{index}", span = first);
        field.alias = quote!(#name #open #(#lifetimes),* #close);
    }
    aliases
}

/// Returns a type with `Self` replaced by the derived type, because `Self` is undefined outside of the impls.
fn without_self(tokens: TokenStream, owner: &TokenStream) -> TokenStream {
    let named = |token| match token {
        TokenTree::Ident(name) if name == "Self" => owner.clone(),
        TokenTree::Group(group) => {
            let mut replaced = Group::new(group.delimiter(), without_self(group.stream(), owner));
            replaced.set_span(group.span());
            replaced.into_token_stream()
        }
        token => token.into(),
    };
    tokens.into_iter().map(named).collect()
}

pub(crate) fn element(field: &Field<'_>) -> TokenStream {
    let ((first, last), ty) = (first_and_last(field.ty), &field.alias);
    let container = quote_spanned!(first=> <#ty as __xdr::derive_support::Elements>::);
    let element = quote_spanned!(last=> Element);
    quote!(#container #element)
}
