//! `#[derive(Xdr)]` and `#[ddp_eligible]`.
//!
//! The derive gives a type its XDR encoding (RFC 4506) and its sizes. A field marked `#[ddp_eligible]` is
//! handed to the sink as one item, so that an encoder which reduces moves it into a chunk by itself
//! (RFC 8166 section 3.4.4). What the protocol forbids does not compile.
//!
//! | where | attribute | meaning |
//! |---|---|---|
//! | type | `#[xdr(crate = "path")]` | where `rpcrdma_runtime` is, if not there |
//! | enum | `#[xdr(union = "Type")]` | a discriminated union; without it the enum is an XDR enum |
//! | type | `#[xdr(backward)]` | of a program that is called in the backward direction only (RFC 8167): nothing in it is eligible |
//! | variant | `#[xdr(case = "Path")]`, `case = 3`, `case = true` | a label of the arm; several are allowed |
//! | variant | `#[xdr(default)]` | the default arm |
//! | field | `#[xdr(max = N)]` | the bound of a counted array (`Vec`), of `&[u8]` or of `&str` |
//! | field | `#[xdr(list)]` | a chain of optional data held in a `Vec` |
//! | field | `#[xdr(recursive)]` | holds this type again, through a type or an alias that does not show it: its sizes have no bound |
//! | field, payload | `#[ddp_eligible]` | may be moved by direct data placement |
//!
//! Types may hold each other, through boxes, arrays and optional data. A field that shows the type's own name, a `Box` and a
//! `Vec` need no mark; where the compiler speaks of a cycle in evaluating a constant, one does (`max` on both sides, an
//! alias). What such types hold of eligible items is found all the same, for the compiler goes along them: through sixteen boxes
//! and arrays, one in the other, and where a circle of types has an item in it there may be any number.
//!
//! A type with a lifetime borrows the message that it was decoded from: its fields are `OpaqueRef<'a, N>`,
//! `StringRef<'a, N>`, `ArrayRef<'a, T, N>`, `ListRef<'a, T>`, `BoxRef<'a, T>`, `&'a [u8]` for opaque data, or `&'a str`
//! for text that must be UTF-8. None of them can be DDP-eligible.
//!
//! An arm with one label is a variant with one payload or none. An arm with several labels, and the default
//! arm, hold the discriminant before the payload, so that what was read is written again byte for byte.

mod ast;
mod attr;
mod bounds;
mod called;
mod check;
mod expand;
mod field;
mod generics;
mod labels;
mod refused;
mod sizes;
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
    // A type that would be of no size is an error of the compiler's already, which says how to mend it. It has a second for
    // whoever returns such a type, so nothing stands in for its encoding.
    if container.fields().iter().any(|field| field.in_place) {
        return TokenStream::new();
    }
    expand::expand(&mut container).into()
}
