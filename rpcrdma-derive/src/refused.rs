//! What stands in for the encoding of a type that was refused.
//!
//! Without it each use of the type would be an error more, and none of those would be a mistake. Nothing of this ever
//! runs, for the crate does not compile.

use proc_macro2::{TokenStream, TokenTree};
use quote::quote;
use syn::{Attribute, Data, DeriveInput, Fields, Meta, Type, parse_quote};

use crate::ast::type_name;
use crate::attr::{ContainerAttrs, Errors};
use crate::expand::unlisted;
use crate::generics::{bounded, decoding};

/// The impls that the type would have had.
pub(crate) fn stand_in(input: &DeriveInput) -> TokenStream {
    let attrs = ContainerAttrs::parse(&input.attrs, &mut Errors::default());
    if is_unsized(&input.data) || attrs.krate.is_none() && input.attrs.iter().any(names_crate) {
        return TokenStream::new();
    }
    let krate = attrs.krate.unwrap_or_else(|| parse_quote!(::rpcrdma_runtime));
    let ident = &input.ident;
    let (_, type_generics, _) = input.generics.split_for_impl();
    let layout = bounded(&input.generics, &parse_quote!(__xdr::Layout));
    let encode = bounded(&input.generics, &parse_quote!(__xdr::Encode));
    let decode = decoding(&input.generics);
    let (layout_impl, _, layout_where) = layout.split_for_impl();
    let (encode_impl, _, encode_where) = encode.split_for_impl();
    let (decode_impl, _, decode_where) = decode.split_for_impl();
    let unlisted = unlisted(&krate);
    let conversions = (attrs.union.is_none() && is_plain_enum(&input.data)).then(|| conversions(input));
    quote! {
        const _: () = {
            use #krate::xdr as __xdr;

            #[automatically_derived]
            #unlisted
            impl #layout_impl __xdr::Layout for #ident #type_generics #layout_where {
                const MIN: u64 = 0;
                const MAX: __xdr::Size = __xdr::Size::Unbounded;
                const MAX_REDUCED: __xdr::Size = __xdr::Size::Unbounded;
                const ITEM: __xdr::Size = __xdr::Size::ZERO;
                const ITEMS: __xdr::Size = __xdr::Size::ZERO;
                type Held<__D: __xdr::Depth> = __xdr::Stated<Self>;
            }

            #[automatically_derived]
            #unlisted
            impl #encode_impl __xdr::Encode for #ident #type_generics #encode_where {
                fn encode<__S: __xdr::Sink + ?::core::marker::Sized>(
                    &self,
                    _: &mut __S,
                ) -> ::core::result::Result<(), __xdr::Error> {
                    ::core::result::Result::Err(__xdr::derive_support::refused())
                }
            }

            #[automatically_derived]
            #unlisted
            impl #decode_impl __xdr::Decode<'__de> for #ident #type_generics #decode_where {
                fn decode(_: &mut __xdr::Reader<'__de>) -> ::core::result::Result<Self, __xdr::Error> {
                    ::core::result::Result::Err(__xdr::derive_support::refused())
                }
            }

            #conversions
        };
    }
}

/// What an enum has besides, be it the discriminant of a union.
fn conversions(input: &DeriveInput) -> TokenStream {
    let ident = &input.ident;
    let (impl_generics, type_generics, where_clause) = input.generics.split_for_impl();
    quote! {
        #[automatically_derived]
        impl #impl_generics __xdr::Discriminant for #ident #type_generics #where_clause {
            fn number(&self) -> i64 {
                0
            }
        }

        #[automatically_derived]
        impl #impl_generics ::core::convert::From<#ident #type_generics> for i32 #where_clause {
            fn from(_: #ident #type_generics) -> i32 {
                0
            }
        }

        #[automatically_derived]
        impl #impl_generics ::core::convert::TryFrom<i32> for #ident #type_generics #where_clause {
            type Error = __xdr::ErrorKind;
            fn try_from(_: i32) -> ::core::result::Result<Self, __xdr::ErrorKind> {
                ::core::result::Result::Err(__xdr::ErrorKind::TooLarge)
            }
        }
    }
}

/// Whether it is an enum whose variants hold nothing.
fn is_plain_enum(data: &Data) -> bool {
    matches!(data, Data::Enum(data) if data.variants.iter().all(|variant| matches!(variant.fields, Fields::Unit)))
}

/// Whether the type ends in one that has no size of its own, which nothing can be decoded to.
fn is_unsized(data: &Data) -> bool {
    let Data::Struct(data) = data else { return false };
    data.fields.iter().last().is_some_and(|last| match &last.ty {
        Type::Slice(_) | Type::TraitObject(_) => true,
        ty => type_name(ty).is_some_and(|name| name == "str"),
    })
}

/// Whether an attribute says where the runtime is. If that could not be read, nobody knows it.
fn names_crate(attribute: &Attribute) -> bool {
    let Meta::List(list) = &attribute.meta else { return false };
    attribute.path().is_ident("xdr")
        && list
            .tokens
            .clone()
            .into_iter()
            .any(|token| matches!(token, TokenTree::Ident(name) if name == "crate"))
}
