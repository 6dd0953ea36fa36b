//! How one field is written and read.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::Type;

use crate::ast::{Borrow, Field, borrow, local, type_name, type_span};
use crate::check::is_scalar;

/// Types whose encoding the derive knows to be there, by their names; of others it is looked up, so that one without is
/// one error.
fn is_known(ty: &Type) -> bool {
    const DATA: [&str; 5] = ["Opaque", "OpaqueRef", "SmallOpaque", "StringRef", "XdrString"];
    match ty {
        Type::Array(array) => type_name(&array.elem).is_some_and(|name| name == "u8"),
        ty => is_scalar(ty) || type_name(ty).is_some_and(|name| DATA.iter().any(|data| name == data)),
    }
}

/// The elements' type of an array.
pub(crate) fn element(field: &Field<'_>) -> TokenStream {
    let ((first, last), ty) = (ends(field.ty), &field.called);
    let whole = quote_spanned!(first=> <#ty as __xdr::derive_support::Elements>::);
    let element = quote_spanned!(last=> Element);
    quote!(#whole #element)
}

/// Where a type begins and ends: what is put around it has these places, so that an error is always at all of it, and is
/// one error.
pub(crate) fn ends(ty: &Type) -> (Span, Span) {
    let last = ty.to_token_stream().into_iter().last().map(|token| token.span());
    (type_span(ty), last.unwrap_or_else(|| type_span(ty)))
}

/// The bound of opaque data or text that is a slice of Rust.
pub(crate) fn bound_of_slice<'f>(field: &'f Field<'_>) -> Option<&'f TokenStream> {
    field.bound.as_ref().filter(|_| borrow(field.ty) == Some(Borrow::Slice))
}

/// Writes a field that is found there. A value as it is, which only a struct has, is told whether it is part of a run.
pub(crate) fn encode_field(field: &Field<'_>, access: &TokenStream) -> TokenStream {
    let (name, ty) = (&field.name, &field.called);
    let (span, sink) = (type_span(field.ty), local("__sink"));
    let call = if field.attrs.eligible.is_some() {
        quote_spanned!(span=> <#ty as __xdr::derive_support::Eligible>::encode_eligible(#access, #sink))
    } else if let Some(bound) = bound_of_slice(field) {
        quote!(__xdr::derive_support::encode_slice(#access, #bound, __sink))
    } else if let Some(bound) = &field.bound {
        let element = element(field);
        quote_spanned!(span=> __xdr::derive_support::Field::<#element>::IT.encode_array(#access, #bound, #sink))
    } else if field.attrs.list.is_some() {
        let element = element(field);
        quote_spanned!(span=> __xdr::derive_support::Field::<#element>::IT.encode_list(#access, #sink))
    } else if is_known(field.ty) {
        quote_spanned!(span=> <#ty as __xdr::Encode>::encode(#access, #sink))
    } else {
        let run = local("__RUN");
        quote_spanned!(span=> __xdr::derive_support::Field::<#ty>::IT.encode::<_, #run>(#access, #sink))
    };
    quote!(#call.map_err(|__error| __xdr::Error::within(__error, #name))?;)
}

/// Writes the payload of a union's arm and the discriminant before it.
pub(crate) fn encode_payload(field: &Field<'_>) -> TokenStream {
    let (binding, name, ty) = (&field.binding, &field.name, &field.called);
    if field.attrs.eligible.is_some() || field.attrs.max.is_some() || field.attrs.list.is_some() {
        let payload = encode_field(field, &quote!(#binding));
        return quote!(__xdr::Encode::encode(&__word, __sink)?; #payload);
    }
    let (span, word, sink) = (type_span(field.ty), local("__word"), local("__sink"));
    // The discriminant is what its type can write: what fails is the payload.
    let both = if is_known(field.ty) {
        quote_spanned!(span=> encode_behind::<_, #ty, _>(&#word, #binding, #sink))
    } else {
        quote_spanned!(span=> Field::<#ty>::IT.encode_behind(&#word, #binding, #sink))
    };
    quote!(__xdr::derive_support::#both.map_err(|__error| __xdr::Error::within(__error, #name))?;)
}

/// Reads a field.
pub(crate) fn decode_field(field: &Field<'_>) -> TokenStream {
    let (name, ty) = (&field.name, &field.called);
    let (span, reader) = (type_span(field.ty), local("__reader"));
    let call = if field.attrs.eligible.is_some() {
        quote_spanned!(span=> <#ty as __xdr::derive_support::Eligible>::decode_eligible(#reader))
    } else if let Some(bound) = bound_of_slice(field) {
        quote!(__xdr::derive_support::decode_slice(__reader, #bound))
    } else if let Some(bound) = &field.bound {
        let element = element(field);
        quote_spanned!(span=> __xdr::derive_support::Field::<'__de, #element>::IT.decode_array(#reader, #bound))
    } else if field.attrs.list.is_some() {
        let element = element(field);
        quote_spanned!(span=> __xdr::derive_support::Field::<'__de, #element>::IT.decode_list(#reader))
    } else if is_known(field.ty) {
        quote_spanned!(span=> <#ty as __xdr::Decode<'__de>>::decode(#reader))
    } else {
        quote_spanned!(span=> __xdr::derive_support::Field::<'__de, #ty>::IT.decode(#reader))
    };
    quote!(#call.map_err(|__error| __xdr::Error::within(__error, #name))?)
}
