//! The code.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::{Ident, Path, parse_quote};

use crate::ast::{Body, Container, Field, Style, Unknown, VALUE, Variant, local, type_span};
use crate::bounds::take_bounds;
use crate::called::take_types;
use crate::field::{decode_field, encode_field};
use crate::generics::{bounded, decoding, eligible_bounds};
use crate::labels::take_labels;
use crate::sizes::{Sizes, field_sizes, held, items_behind, sum, without_items};
use crate::union::expand_union;

pub(crate) fn expand(container: &mut Container<'_>) -> TokenStream {
    let (bounds, labels, types) = (take_bounds(container), take_labels(container), take_types(container));
    let container = &*container;
    let krate = &container.krate;
    let impls = match &container.body {
        Body::Struct { style, fields } => expand_struct(container, *style, fields),
        Body::Enum { variants } => expand_enum(container, variants),
        Body::Union { discriminant, arms } => expand_union(container, discriminant, arms),
    };
    let without_items = without_items(container)
        .filter(|_| !container.is_generic())
        .map(|check| quote!(const _: () = { #check };));
    // A scope of its own: nothing that is named in here can meet a name of the user's.
    quote! {
        const _: () = {
            use #krate::xdr as __xdr;
            #[allow(unused_imports)]
            use __xdr::derive_support::{HoldsNothing as _, Known as _, Unknown as _, Written as _};
            #types
            #bounds
            #labels
            #impls
            #without_items
        };
    }
}

/// The three impls, from the bodies of their functions and the values of their constants.
pub(crate) struct Parts {
    pub(crate) sizes: Sizes,
    pub(crate) encode: TokenStream,
    /// How a struct is written field by field.
    pub(crate) fields: Option<TokenStream>,
    pub(crate) decode: TokenStream,
}

pub(crate) fn impls(container: &Container<'_>, parts: Parts) -> TokenStream {
    let ident = container.ident;
    let (_, type_generics, _) = container.generics.split_for_impl();
    let generics = eligible_bounds(container);
    let layout = bounded(&generics, &parse_quote!(__xdr::Layout));
    let encode = bounded(&generics, &parse_quote!(__xdr::Encode));
    let decode = decoding(&generics);
    let (layout_impl, _, layout_where) = layout.split_for_impl();
    let (encode_impl, _, encode_where) = encode.split_for_impl();
    let (decode_impl, _, decode_where) = decode.split_for_impl();
    let Parts { sizes, encode, fields, decode } = parts;
    let (constants, held_fields) = constants(container, sizes);
    let unlisted = unlisted(&container.krate);
    // A value that comes back through memory is copied on from there, and the processor waits for the bytes to arrive:
    // that took most of the time of a small message. So structs are read and written in place. A union need not be: it is
    // written from where the value lies, and its code, which is that of all its arms, would be there again for each arm of
    // another union that holds it.
    let inline = match container.body {
        Body::Struct { .. } | Body::Enum { .. } => quote!(#[inline(always)]),
        Body::Union { .. } => quote!(#[inline]),
    };
    let fields = fields.map(|fields| {
        quote! {
            #inline
            fn encode_fields<__S: __xdr::Sink + ?::core::marker::Sized, const __RUN: bool>(
                &self,
                __sink: &mut __S,
            ) -> ::core::result::Result<(), __xdr::Error> {
                #fields
            }
        }
    });
    quote! {
        #[automatically_derived]
        #unlisted
        impl #layout_impl __xdr::Layout for #ident #type_generics #layout_where {
            #constants
        }

        #held_fields

        #[automatically_derived]
        #unlisted
        impl #encode_impl __xdr::Encode for #ident #type_generics #encode_where {
            #inline
            fn encode<__S: __xdr::Sink + ?::core::marker::Sized>(
                &self,
                __sink: &mut __S,
            ) -> ::core::result::Result<(), __xdr::Error> {
                #encode
            }

            #fields
        }

        #[automatically_derived]
        #unlisted
        impl #decode_impl __xdr::Decode<'__de> for #ident #type_generics #decode_where {
            #inline
            fn decode(__reader: &mut __xdr::Reader<'__de>) -> ::core::result::Result<Self, __xdr::Error> {
                #decode
            }
        }
    }
}

/// What stands in the `Layout`, and beside it.
fn constants(container: &Container<'_>, sizes: Sizes) -> (TokenStream, Option<TokenStream>) {
    let Sizes { mut min, max, max_reduced, mut item, mut items } = sizes;
    if is_recursive(container) {
        // A sum of its fields' items would be needed to make itself.
        (item, items) = items_behind(&quote!(Self));
    }
    if let Some(check) = without_items(container).filter(|_| container.is_generic()) {
        // Known once the parameters are: each use asks for this constant.
        min = quote!({ #check #min });
    }
    let (held, held_fields) = held(container);
    let constants = quote! {
        const MIN: u64 = #min;
        const MAX: __xdr::Size = #max;
        const MAX_REDUCED: __xdr::Size = #max_reduced;
        const ITEM: __xdr::Size = #item;
        const ITEMS: __xdr::Size = #items;
        #held
    };
    (constants, held_fields)
}

/// To whoever has a type without an encoding, the compiler lists types that have one. The runtime's own
/// messages do not belong there. Elsewhere a module of the user's may be called `diagnostic`.
pub(crate) fn unlisted(krate: &Path) -> Option<TokenStream> {
    krate.is_ident("crate").then(|| quote!(#[diagnostic::do_not_recommend]))
}

fn is_recursive(container: &Container<'_>) -> bool {
    container.fields().iter().any(|field| field.recursive)
}

// ---- structs

fn expand_struct(container: &Container<'_>, style: Style, fields: &[Field<'_>]) -> TokenStream {
    let sizes: Vec<Sizes> = fields.iter().map(field_sizes).collect();
    let encode = fields.iter().map(|field| {
        // What is wrong with a value is wrong with its type.
        let (member, span, this) = (field.member_at_type(), type_span(field.ty), local("self"));
        encode_field(field, &quote_spanned!(span=> { let __value = &#this.#member; __value }))
    });
    let bindings: Vec<&Ident> = fields.iter().map(|field| &field.binding).collect();
    let decode = fields.iter().map(|field| {
        let (binding, value) = (&field.binding, decode_field(field));
        quote!(let #binding = #value;)
    });
    let members = fields.iter().map(|field| &field.member);
    let value = match style {
        Style::Named => quote!(Self { #(#members: #bindings),* }),
        Style::Tuple => quote!(Self(#(#bindings),*)),
        Style::Unit => quote!(Self),
    };
    impls(
        container,
        Parts {
            sizes: sum(&sizes),
            encode: quote!(__xdr::derive_support::encode_struct(self, __sink)),
            fields: Some(quote!(#(#encode)* ::core::result::Result::Ok(()))),
            decode: quote! {
                __xdr::derive_support::require_fixed::<Self>(__reader)?;
                #(#decode)*
                ::core::result::Result::Ok(#value)
            },
        },
    )
}

// ---- enums

fn expand_enum(container: &Container<'_>, values: &[Variant<'_>]) -> TokenStream {
    let ident = container.ident;
    let variants: Vec<&Ident> = values.iter().map(|value| value.ident).collect();
    let checks = values.iter().filter_map(|value| check_value(ident, value));
    let name = ident.to_string();
    let unknown = quote!(__xdr::ErrorKind::UnknownEnum { type_name: #name, value: __value });
    let body = impls(
        container,
        Parts {
            sizes: Sizes {
                min: quote!(4),
                max: quote!(__xdr::Size::Bounded(4)),
                max_reduced: quote!(__xdr::Size::Bounded(4)),
                item: quote!(__xdr::Size::ZERO),
                items: quote!(__xdr::Size::ZERO),
            },
            fields: None,
            encode: quote!(<i32 as __xdr::Encode>::encode(&__number(self), __sink)),
            decode: quote! {
                let __at = __reader.position();
                let __value = <i32 as __xdr::Decode<'__de>>::decode(__reader)?;
                match __known(__value) {
                    ::core::option::Option::Some(__known) => ::core::result::Result::Ok(__known),
                    ::core::option::Option::None => ::core::result::Result::Err(__xdr::Error::new(#unknown, __at)),
                }
            },
        },
    );
    let conversions = conversions(container, &unknown);
    quote! {
        #[inline]
        const fn __number(value: &#ident) -> i32 {
            match value { #(#ident::#variants => #ident::#variants as i32,)* }
        }

        #(#checks)*

        #[inline]
        const fn __known(value: i32) -> ::core::option::Option<#ident> {
            #(if value == #ident::#variants as i32 { return ::core::option::Option::Some(#ident::#variants); })*
            ::core::option::Option::None
        }

        #body

        #conversions
    }
}

/// From an enum to its number and back, with the functions that `expand_enum` makes.
fn conversions(container: &Container<'_>, unknown: &TokenStream) -> TokenStream {
    let (ident, unlisted) = (container.ident, unlisted(&container.krate));
    quote! {
        #[automatically_derived]
        impl ::core::convert::From<#ident> for i32 {
            fn from(value: #ident) -> i32 {
                __number(&value)
            }
        }

        #[automatically_derived]
        #unlisted
        impl __xdr::Discriminant for #ident {
            #[inline]
            fn number(&self) -> i64 {
                __number(self) as i64
            }
        }

        #[automatically_derived]
        impl ::core::convert::TryFrom<i32> for #ident {
            type Error = __xdr::ErrorKind;
            fn try_from(__value: i32) -> ::core::result::Result<Self, __xdr::ErrorKind> {
                __known(__value).ok_or(#unknown)
            }
        }
    }
}

/// What an expression of the user's comes to only the compiler knows.
fn check_value(ident: &Ident, value: &Variant<'_>) -> Option<TokenStream> {
    let name = value.ident;
    let (span, fits) = match value.unknown? {
        Unknown::Given(span) => (span, quote!(#ident::#name as i128 == #ident::#name as i32 as i128)),
        // Of those that are one more than the last, the first that is too large is the mistake.
        Unknown::Follows => (name.span(), quote!(#ident::#name as i128 != 0x8000_0000)),
    };
    Some(quote_spanned!(span=> const _: () = ::core::assert!(#fits, #VALUE);))
}
