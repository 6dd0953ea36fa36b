//! What generated code calls the types of fields.

use proc_macro2::{TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::GenericParam;

use crate::ast::Container;
use crate::field::ends;

/// Gives each field's type another name, by which all of the code calls it. So a name in it that means nothing is looked up
/// once besides where the user wrote it. What the compiler says of it there is where the type's parameters
/// would be, so the alias has its own at the same place, and both are one error.
pub(crate) fn take_types(container: &mut Container<'_>) -> TokenStream {
    let mut aliases = TokenStream::new();
    let generics = container.generics;
    // An alias must use all of its parameters.
    if !generics.params.iter().all(|parameter| matches!(parameter, GenericParam::Lifetime(_))) {
        return aliases;
    }
    let place = container.ident.span();
    let lifetimes: Vec<_> = generics.lifetimes().map(|parameter| &parameter.lifetime).collect();
    let parameters = (!lifetimes.is_empty()).then(|| quote!(<#(#lifetimes),*>));
    for (index, field) in container.fields_mut().into_iter().enumerate() {
        let ty = field.ty;
        // Outside of the type `Self` is nothing.
        if has_self(ty.to_token_stream()) {
            continue;
        }
        let name = format_ident!("__Type{index}", span = place);
        aliases.extend(quote!(type #name #parameters = #ty;));
        let (first, last) = ends(ty);
        let (open, close) = (quote_spanned!(first=> <), quote_spanned!(last=> >));
        let name = format_ident!("__Type{index}", span = first);
        field.called = quote!(#name #open #(#lifetimes),* #close);
    }
    aliases
}

fn has_self(tokens: TokenStream) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Ident(ident) => ident == "Self",
        TokenTree::Group(group) => has_self(group.stream()),
        _ => false,
    })
}
