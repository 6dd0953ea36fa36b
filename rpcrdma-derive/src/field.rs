//! The encoding and decoding of one field.

use proc_macro2::TokenStream;
use quote::{format_ident, quote, quote_spanned};
use syn::Type;
use syn::spanned::Spanned;

use crate::ast::{Field, Kind};
use crate::names::element;
use crate::syntax::{is_one_of, is_scalar, local};

/// Returns true if no attribute changes the encoding of a field, and the syntax of its type shows that the
/// type has an encoding. For most other fields, derived code calls methods of `derive_support::Field`, so
/// that a missing encoding causes only one error.
fn is_known(field: &Field<'_>) -> bool {
    let is_known = match field.ty {
        Type::Array(array) => is_one_of(&array.elem, &["u8"]),
        ty => {
            is_scalar(ty) || is_one_of(ty, &["Opaque", "OpaqueRef", "SmallOpaque", "StringRef", "XdrString"])
        }
    };
    is_known && matches!(field.kind(), Kind::Plain)
}

/// Returns the parts of a call that encodes or decodes a field: the tokens before the function's name, the
/// suffix of that name, and the bound to pass, if any.
fn codec<'f>(field: &'f Field<'_>) -> (TokenStream, &'static str, Option<&'f TokenStream>) {
    let (ty, span) = (&field.alias, field.ty.span());
    let looked_up = |of: &TokenStream| quote_spanned!(span=> __xdr::derive_support::Field::<'_, #of>::IT.);
    match field.kind() {
        Kind::Eligible => {
            (quote_spanned!(span=> <#ty as __xdr::derive_support::Eligible>::), "_eligible", None)
        }
        Kind::Slice(bound) => (quote!(__xdr::derive_support::), "_slice", Some(bound)),
        Kind::Array(bound) => (looked_up(&element(field)), "_array", Some(bound)),
        Kind::List => (looked_up(&element(field)), "_list", None),
        Kind::Plain => (looked_up(ty), "", None),
    }
}

/// Returns code that encodes the field that `access` evaluates to. If the type of the field may be a struct,
/// the call passes on the const parameter `__RUN` of `encode_fields`.
pub(crate) fn encode_field(field: &Field<'_>, access: &TokenStream) -> TokenStream {
    let (name, ty, span, sink) = (&field.name, &field.alias, field.ty.span(), local("__sink"));
    let (path, suffix, bound) = codec(field);
    let function = format_ident!("encode{suffix}", span = span);
    let call = if is_known(field) {
        quote_spanned!(span=> <#ty as __xdr::Encode>::encode(#access, #sink))
    } else if suffix.is_empty() {
        let run = local("__RUN");
        quote_spanned!(span=> #path #function::<_, #run>(#access, #sink))
    } else {
        let bound = bound.into_iter();
        quote_spanned!(span=> #path #function(#access, #(#bound,)* #sink))
    };
    quote!(#call.map_err(|__error| __xdr::Error::within(__error, #name))?;)
}

/// Returns code that encodes the discriminant and the payload of a union's arm.
pub(crate) fn encode_payload(field: &Field<'_>) -> TokenStream {
    let (binding, name, ty) = (&field.binding, &field.name, &field.alias);
    if !matches!(field.kind(), Kind::Plain) {
        let payload = encode_field(field, &quote!(#binding));
        return quote!(__xdr::Encode::encode(&__word, __sink)?; #payload);
    }
    let (span, word, sink) = (field.ty.span(), local("__word"), local("__sink"));
    // Encoding the discriminant fails only if the sink fails or the `LENGTHS` of a type are wrong, so every
    // error is attributed to the payload.
    let both = if is_known(field) {
        quote_spanned!(span=> encode_behind::<_, #ty, _>(&#word, #binding, #sink))
    } else {
        quote_spanned!(span=> Field::<#ty>::IT.encode_behind(&#word, #binding, #sink))
    };
    quote!(__xdr::derive_support::#both.map_err(|__error| __xdr::Error::within(__error, #name))?;)
}

pub(crate) fn decode_field(field: &Field<'_>) -> TokenStream {
    let (name, ty, span, reader) = (&field.name, &field.alias, field.ty.span(), local("__reader"));
    let (path, suffix, bound) = codec(field);
    let function = format_ident!("decode{suffix}", span = span);
    let call = if is_known(field) {
        quote_spanned!(span=> <#ty as __xdr::Decode<'__de>>::decode(#reader))
    } else {
        let bound = bound.into_iter();
        quote_spanned!(span=> #path #function(#reader #(, #bound)*))
    };
    quote!(#call.map_err(|__error| __xdr::Error::within(__error, #name))?)
}
