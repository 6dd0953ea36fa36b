//! `#[xdr(max = N)]`: what bounds a field, as one constant that all of the code names.

use proc_macro2::TokenStream;
use quote::{format_ident, quote, quote_spanned};
use syn::spanned::Spanned;

use crate::ast::{Container, number};

/// Gives each field with a bound its value, and defines the constants that these values are.
pub(crate) fn take_bounds(container: &mut Container<'_>) -> TokenStream {
    let is_generic = container.is_generic();
    let mut constants = TokenStream::new();
    for (index, field) in container.fields_mut().into_iter().enumerate() {
        let Some(bound) = &field.attrs.max else { continue };
        if let Some(value) = number(bound).and_then(|value| u32::try_from(value).ok()) {
            field.bound = Some(quote!(#value));
            continue;
        }
        // One that is no `u32` is said to be none, once: the value is taken through a name, which has no type then.
        let span = bound.span();
        let value = quote_spanned! {span=> {
            let __bound = __xdr::derive_support::count(#bound);
            __bound
        }};
        // A constant of its own cannot name parameters.
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
