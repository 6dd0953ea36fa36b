//! `#[derive(Xdr)]` and `#[ddp_eligible]`.
//!
//! The derive gives a type its XDR encoding (RFC 4506) and its layout. A field marked `#[ddp_eligible]` is handed to the sink
//! as one item, which a reducing encoder moves into a chunk (RFC 8166 section 3.4.4). Code that the protocol forbids does not
//! compile.
//!
//! | where | attribute | meaning |
//! |---|---|---|
//! | type | `#[xdr(crate = "path")]` | the path of `rpcrdma_runtime`, if it has another |
//! | enum | `#[xdr(union = "Type")]` | a discriminated union; without it the enum is an XDR enum |
//! | type | `#[xdr(backward)]` | of a program that is called in the backward direction only (RFC 8167): nothing in it is eligible |
//! | type | `#[xdr(items(N, largest = SIZE))]` | holds at most so many items of at most this size; both may be `unbounded`; `items(0)` for none |
//! | variant | `#[xdr(case = "Path")]`, `case = 3`, `case = true` | a label of the arm; several are allowed |
//! | variant | `#[xdr(default)]` | the default arm |
//! | field | `#[xdr(max = N)]` | the bound of a counted array (`Vec`), of `&[u8]` or of `&str` |
//! | field | `#[xdr(list)]` | a chain of optional data held in a `Vec` |
//! | field | `#[xdr(recursive)]` | holds this type again behind another type or an alias |
//! | field, payload | `#[ddp_eligible]` | may be moved by direct data placement |
//!
//! # Types that hold each other
//!
//! A field that shows the type's own name needs no attribute. In a cycle of several types mark one field
//! `#[xdr(recursive)]`: without it the compiler reports a cycle in the constant `HELD` at that field. The derive assumes that
//! a marked field holds the items of the type itself. If there are more behind it, the compiler says so at the field, and
//! `#[xdr(items(...))]` on the type gives the number. The compiler checks that number, too. rpcrdma-xdrgen writes `items` on
//! each type of such a cycle.
//!
//! # Types that borrow
//!
//! A type with a lifetime borrows the message that it was decoded from: its fields are `OpaqueRef<'a, N>`,
//! `StringRef<'a, N>`, `ArrayRef<'a, T, N>`, `ListRef<'a, T>`, `BoxRef<'a, T>`, `&'a [u8]` for opaque data, or `&'a str`
//! for text that must be UTF-8. None of them can be DDP-eligible.
//!
//! # Unions
//!
//! An arm with one label is a variant with one payload or none. An arm with several labels, and the default arm, hold the
//! discriminant before the payload, so that decoding and encoding reproduce the bytes.

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

/// Derives `Layout`, `Encode` and `Decode` of `rpcrdma_runtime::xdr`; for a C-like enum also the conversions from and to
/// its number.
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
    // The compiler reports an infinitely large type, also where a function returns it. Impls would add a third error.
    if container.fields().iter().any(|field| field.cycle == Some(cycle::Cycle::InPlace)) {
        return TokenStream::new();
    }
    expand::expand(&mut container).into()
}
