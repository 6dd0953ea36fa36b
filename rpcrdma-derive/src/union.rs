//! Unions.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::Type;
use syn::spanned::Spanned;

use crate::ast::{Arm, Container};
use crate::field::{decode_field, encode_payload};
use crate::impls::Bodies;
use crate::labels::{allowed, choices, is_of_some_type, pattern, place};
use crate::syntax::local;

pub(crate) fn union(container: &Container<'_>, discriminant: &Type, arms: &[Arm<'_>]) -> Bodies {
    let name = container.owner.ident.to_string();
    let value = local("__discriminant");
    // A type that is no discriminant is reported here only.
    let number =
        quote_spanned!(discriminant.span()=> <#discriminant as __xdr::Discriminant>::number(&#value));
    let unknown = quote!(__xdr::ErrorKind::UnknownDiscriminant { type_name: #name, value: #number });
    let choices = choices(container, discriminant, arms);
    let encode = arms.iter().zip(&choices).map(|(arm, chooses)| match arm.kept {
        Some(_) => encode_kept(arm, chooses, discriminant, &unknown),
        None => encode_arm(arm, discriminant),
    });
    let labelled = arms.iter().zip(&choices).filter(|(arm, _)| arm.default.is_none());
    let decode = labelled.map(|(arm, chooses)| decode_arm(arm, &pattern(arm, chooses)));
    let otherwise = match arms.iter().find(|arm| arm.default.is_some()) {
        Some(default) => decode_arm(default, &quote!(_)),
        None => quote!(_ => ::core::result::Result::Err(__xdr::Error::new(#unknown, __at)),),
    };
    let allowed = allowed();
    Bodies {
        encode: quote!(match self { #(#encode)* }),
        fields: None,
        decode: quote! {
            let __at = __reader.position();
            let __discriminant = __xdr::derive_support::Field::<'__de, #discriminant>::IT.decode(__reader)?;
            #allowed
            match __discriminant { #(#decode)* #otherwise }
        },
        beside: place(container, discriminant, arms),
    }
}

/// Encodes an arm that one label chooses.
fn encode_arm(arm: &Arm<'_>, discriminant: &Type) -> TokenStream {
    let (ident, span, name) = (arm.ident, discriminant.span(), local("__word"));
    let pattern = arm.payload.iter().map(|field| &field.binding).map(|binding| quote!((#binding)));
    let case = arm.cases.first();
    let word = if case.is_some_and(is_of_some_type) {
        // A label of another type is reported as a pattern.
        quote_spanned!(span=> let #name = <_ as __xdr::Discriminant>::word(&#case);)
    } else {
        let word = word(discriminant);
        quote!(let __discriminant: #discriminant = #case; #word)
    };
    let payload = encode_rest(arm);
    quote!(Self::#ident #(#pattern)* => { #word #payload })
}

/// Encodes an arm that keeps the discriminant.
fn encode_kept(
    arm: &Arm<'_>,
    chooses: &TokenStream,
    discriminant: &Type,
    unknown: &TokenStream,
) -> TokenStream {
    let ident = arm.ident;
    let binding = arm.payload.iter().map(|field| &field.binding);
    let (word, payload) = (word(discriminant), encode_rest(arm));
    quote! {
        Self::#ident(__kept #(, #binding)*) => {
            let __discriminant: #discriminant = ::core::clone::Clone::clone(__kept);
            // With a discriminant of another arm the value would be decoded as something else.
            if !(#chooses) {
                return ::core::result::Result::Err(__xdr::Error::new(#unknown, __xdr::Sink::position(__sink)));
            }
            #word
            #payload
        }
    }
}

fn word(discriminant: &Type) -> TokenStream {
    let (name, value) = (local("__word"), local("__discriminant"));
    quote_spanned! {discriminant.span()=>
        let #name = <#discriminant as __xdr::Discriminant>::word(&#value);
    }
}

/// Encodes the discriminant and the payload, if there is one.
fn encode_rest(arm: &Arm<'_>) -> TokenStream {
    let rest = match &arm.payload {
        Some(field) => encode_payload(field),
        None => quote!(__xdr::Encode::encode(&__word, __sink)?;),
    };
    quote!(#rest ::core::result::Result::Ok(()))
}

fn decode_arm(arm: &Arm<'_>, pattern: &TokenStream) -> TokenStream {
    let ident = arm.ident;
    let kept = arm.kept.map(|_| quote!(__discriminant));
    let parts: Vec<_> = kept.into_iter().chain(arm.payload.as_ref().map(decode_field)).collect();
    let parts = (!parts.is_empty()).then(|| quote!((#(#parts),*)));
    quote!(#pattern => ::core::result::Result::Ok(Self::#ident #parts),)
}
