//! Names that generated code gives to the user's types and values, so that each mistake causes one error.

use proc_macro2::{Group, TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::spanned::Spanned;

use crate::ast::{Container, Field};
use crate::syntax::{ends, number, parameters};

/// Defines a constant for each bound that is not a number.
pub(crate) fn take_bounds(container: &mut Container<'_>) -> TokenStream {
    let is_generic = parameters(container.owner.generics).next().is_some();
    let mut constants = TokenStream::new();
    for (index, field) in container.fields_mut().into_iter().enumerate() {
        let Some(bound) = &field.attrs.max else { continue };
        if let Some(value) = number(bound).and_then(|value| u32::try_from(value).ok()) {
            field.bound = Some(quote!(#value));
            continue;
        }
        // A bound of another type causes one error: the variable that it passes through then has no type.
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

/// Defines an alias for each field's type. The compiler looks up an unknown name twice: at the user's
/// position and in the alias, whose parameters have the type's position. Both errors are equal, so the
/// compiler reports one.
pub(crate) fn take_types(container: &mut Container<'_>) -> TokenStream {
    let mut aliases = TokenStream::new();
    let generics = container.owner.generics;
    // An alias must use all of its parameters.
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
        let meant = without_self(ty.to_token_stream(), &owner);
        let name = format_ident!("__Type{index}", span = place);
        aliases.extend(quote!(type #name #parameters = #meant;));
        let (first, last) = ends(ty);
        let (open, close) = (quote_spanned!(first=> <), quote_spanned!(last=> >));
        let name = format_ident!("__Type{index}", span = first);
        field.called = quote!(#name #open #(#lifetimes),* #close);
    }
    aliases
}

/// A type with the owner in place of `Self`, which is undefined outside of the impls.
fn without_self(tokens: TokenStream, owner: &TokenStream) -> TokenStream {
    let named = |token| match token {
        TokenTree::Ident(name) if name == "Self" => owner.clone(),
        TokenTree::Group(group) => {
            let mut meant = Group::new(group.delimiter(), without_self(group.stream(), owner));
            meant.set_span(group.span());
            meant.into_token_stream()
        }
        token => token.into(),
    };
    tokens.into_iter().map(named).collect()
}

/// The type of an array's elements.
pub(crate) fn element(field: &Field<'_>) -> TokenStream {
    let ((first, last), ty) = (ends(field.ty), &field.called);
    let whole = quote_spanned!(first=> <#ty as __xdr::derive_support::Elements>::);
    let element = quote_spanned!(last=> Element);
    quote!(#whole #element)
}
