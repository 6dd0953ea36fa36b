//! How one field is encoded and decoded.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::Type;
use syn::spanned::Spanned;

use crate::ast::{Field, Kind};
use crate::names::element;
use crate::syntax::{is_one_of, is_scalar, local};

/// Returns true if a type surely has an encoding, judging by its name. Of other types the encoding is looked up, so that a
/// type without one is one error.
fn is_known(ty: &Type) -> bool {
    match ty {
        Type::Array(array) => is_one_of(&array.elem, &["u8"]),
        ty => {
            is_scalar(ty) || is_one_of(ty, &["Opaque", "OpaqueRef", "SmallOpaque", "StringRef", "XdrString"])
        }
    }
}

/// Encodes a field that `access` evaluates to. A plain value is told whether it is part of a run.
pub(crate) fn encode_field(field: &Field<'_>, access: &TokenStream) -> TokenStream {
    let (name, ty) = (&field.name, &field.called);
    let (span, sink) = (field.ty.span(), local("__sink"));
    let call = match field.kind() {
        Kind::Eligible => {
            quote_spanned!(span=> <#ty as __xdr::derive_support::Eligible>::encode_eligible(#access, #sink))
        }
        Kind::Slice(bound) => quote!(__xdr::derive_support::encode_slice(#access, #bound, __sink)),
        Kind::Array(bound) => {
            let of = element(field);
            quote_spanned!(span=> __xdr::derive_support::Field::<#of>::IT.encode_array(#access, #bound, #sink))
        }
        Kind::List => {
            let of = element(field);
            quote_spanned!(span=> __xdr::derive_support::Field::<#of>::IT.encode_list(#access, #sink))
        }
        Kind::Plain if is_known(field.ty) => {
            quote_spanned!(span=> <#ty as __xdr::Encode>::encode(#access, #sink))
        }
        Kind::Plain => {
            let run = local("__RUN");
            quote_spanned!(span=> __xdr::derive_support::Field::<#ty>::IT.encode::<_, #run>(#access, #sink))
        }
    };
    quote!(#call.map_err(|__error| __xdr::Error::within(__error, #name))?;)
}

/// Encodes the discriminant and the payload of a union's arm.
pub(crate) fn encode_payload(field: &Field<'_>) -> TokenStream {
    let (binding, name, ty) = (&field.binding, &field.name, &field.called);
    if !matches!(field.kind(), Kind::Plain) {
        let payload = encode_field(field, &quote!(#binding));
        return quote!(__xdr::Encode::encode(&__word, __sink)?; #payload);
    }
    let (span, word, sink) = (field.ty.span(), local("__word"), local("__sink"));
    // The type of the discriminant can write it: only the payload can fail.
    let both = if is_known(field.ty) {
        quote_spanned!(span=> encode_behind::<_, #ty, _>(&#word, #binding, #sink))
    } else {
        quote_spanned!(span=> Field::<#ty>::IT.encode_behind(&#word, #binding, #sink))
    };
    quote!(__xdr::derive_support::#both.map_err(|__error| __xdr::Error::within(__error, #name))?;)
}

/// Decodes a field.
pub(crate) fn decode_field(field: &Field<'_>) -> TokenStream {
    let (name, ty) = (&field.name, &field.called);
    let (span, reader) = (field.ty.span(), local("__reader"));
    let call = match field.kind() {
        Kind::Eligible => {
            quote_spanned!(span=> <#ty as __xdr::derive_support::Eligible>::decode_eligible(#reader))
        }
        Kind::Slice(bound) => quote!(__xdr::derive_support::decode_slice(__reader, #bound)),
        Kind::Array(bound) => {
            let of = element(field);
            quote_spanned!(span=> __xdr::derive_support::Field::<'__de, #of>::IT.decode_array(#reader, #bound))
        }
        Kind::List => {
            let of = element(field);
            quote_spanned!(span=> __xdr::derive_support::Field::<'__de, #of>::IT.decode_list(#reader))
        }
        Kind::Plain if is_known(field.ty) => {
            quote_spanned!(span=> <#ty as __xdr::Decode<'__de>>::decode(#reader))
        }
        Kind::Plain => quote_spanned!(span=> __xdr::derive_support::Field::<'__de, #ty>::IT.decode(#reader)),
    };
    quote!(#call.map_err(|__error| __xdr::Error::within(__error, #name))?)
}
