// The example in the README needs `rpcrdma-runtime`, which depends on this crate. `rpcrdma-tests` compiles
// the example.
#![cfg_attr(not(doctest), doc = include_str!("../README.md"))]

mod ast;
mod attr;
mod check;
mod cycle;
mod enumeration;
mod expand;
mod fallback;
mod field;
mod impls;
mod labels;
mod layout;
mod names;
mod syntax;
mod union;

use proc_macro::TokenStream;
use quote::quote;
use syn::{DeriveInput, parse_macro_input};

/// Derives `Layout`, `Encode` and `Decode` of `rpcrdma_runtime::xdr`. For a C-like enum, also derives
/// `Discriminant` and the conversions from and to its number.
#[proc_macro_derive(Xdr, attributes(xdr, ddp_eligible))]
pub fn derive_xdr(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    let mut container = match ast::Container::from_input(&input).and_then(|c| check::check(&c).map(|()| c)) {
        Ok(container) => container,
        Err(errors) => {
            let fallback_impls = fallback::fallback_impls(&input);
            let errors = errors.into_compile_error();
            return quote!(#errors #fallback_impls).into();
        }
    };
    // The compiler already reports an infinitely large type and each function that returns it. Impls would
    // cause another error.
    if container.fields().iter().any(|field| field.cycle == Some(cycle::Cycle::InPlace)) {
        return TokenStream::new();
    }
    expand::expand(&mut container).into()
}
