#![doc = include_str!("../README.md")]

mod ast;
mod attr;
mod check;
mod cycle;
mod enumeration;
mod expand;
mod field;
mod impls;
mod labels;
mod layout;
mod names;
mod refused;
mod syntax;
mod union;

use proc_macro::TokenStream;
use quote::quote;
use syn::{DeriveInput, parse_macro_input};

/// Derives `Layout`, `Encode` and `Decode` of `rpcrdma_runtime::xdr`; for a C-like enum also the conversions
/// from and to its number.
#[proc_macro_derive(Xdr, attributes(xdr, ddp_eligible))]
pub fn derive_xdr(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    let mut container = match ast::Container::from_input(&input).and_then(|c| check::check(&c).map(|()| c)) {
        Ok(container) => container,
        Err(errors) => {
            let stand_in = refused::stand_in(&input);
            let errors = errors.into_compile_error();
            return quote!(#errors #stand_in).into();
        }
    };
    // The compiler reports an infinitely large type, also where a function returns it. Impls would add a
    // third error.
    if container.fields().iter().any(|field| field.cycle == Some(cycle::Cycle::InPlace)) {
        return TokenStream::new();
    }
    expand::expand(&mut container).into()
}
