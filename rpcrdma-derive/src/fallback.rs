//! Substitute impls for a rejected type, so that its uses cause no further errors. The code never runs,
//! because the crate does not compile.

use proc_macro2::{TokenStream, TokenTree};
use quote::quote;
use syn::{Attribute, Data, DeriveInput, Fields, Meta, Type, parse_quote};

use crate::attr::{Attrs, Errors, Place};
use crate::cycle::Owner;
use crate::enumeration::conversions;
use crate::impls::{Bodies, impls};
use crate::layout::Layout;
use crate::syntax::is_one_of;

/// Returns impls of the traits that the derive implements for a valid type. Returns nothing for an unsized
/// type, or if the path of the runtime is unknown.
pub(crate) fn fallback_impls(input: &DeriveInput) -> TokenStream {
    let attrs = Attrs::parse(Place::Type, &input.attrs, &mut Errors::default());
    if is_unsized(&input.data) || attrs.krate.is_none() && input.attrs.iter().any(names_crate) {
        return TokenStream::new();
    }
    let krate = &attrs.krate.unwrap_or_else(|| parse_quote!(::rpcrdma_runtime));
    let is_enum = attrs.union.is_none()
        && matches!(&input.data, Data::Enum(data) if data.variants.iter().all(|variant| matches!(variant.fields, Fields::Unit)));
    let unknown = quote!(::core::result::Result::Err(__xdr::ErrorKind::TooLarge));
    let conversions =
        is_enum.then(|| conversions((&input.ident, &input.generics, krate), &quote!(0), &unknown));
    let failed = quote!(::core::result::Result::Err(__xdr::derive_support::refused()));
    let layout =
        Layout { lengths: quote!(__xdr::Lengths::UNKNOWN), items: quote!(__xdr::Items::NONE), check: None };
    let inline = TokenStream::new();
    let bodies =
        Bodies { inline, encode: failed.clone(), fields: None, decode: failed, extra_items: conversions };
    let owner = Owner { ident: &input.ident, generics: &input.generics };
    let impls = impls(owner, krate, &layout, &bodies);
    quote! {
        #[allow(unused_variables)]
        const _: () = {
            use #krate::xdr as __xdr;
            #impls
        };
    }
}

/// Returns true if the last field is unsized. A type with an unsized field cannot be decoded.
fn is_unsized(data: &Data) -> bool {
    let Data::Struct(data) = data else { return false };
    data.fields.iter().last().is_some_and(|last| {
        matches!(last.ty, Type::Slice(_) | Type::TraitObject(_)) || is_one_of(&last.ty, &["str"])
    })
}

fn names_crate(attribute: &Attribute) -> bool {
    let Meta::List(list) = &attribute.meta else { return false };
    let is_crate = |token| matches!(token, TokenTree::Ident(name) if name == "crate");
    attribute.path().is_ident("xdr") && list.tokens.clone().into_iter().any(is_crate)
}
