//! Generates the code for unions.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote, quote_spanned};
use syn::Type;
use syn::spanned::Spanned;

use crate::ast::{Arm, Container, Field};
use crate::field::{decode_field, encode_payload};
use crate::impls::Bodies;
use crate::labels::{allowed, choices, is_of_some_type, pattern, place};
use crate::syntax::local;

pub(crate) fn union(container: &Container<'_>, discriminant: &Type, arms: &[Arm<'_>]) -> Bodies {
    let name = container.owner.ident.to_string();
    let value = local("__discriminant");
    // Every use of the trait `Discriminant` has the span of the discriminant's type, so an unsuitable type is
    // reported only once.
    let number =
        quote_spanned!(discriminant.span()=> <#discriminant as __xdr::Discriminant>::number(&#value));
    let unknown = quote!(__xdr::ErrorKind::UnknownDiscriminant { type_name: #name, value: #number });
    let choices = choices(container, discriminant, arms);
    let encode =
        arms.iter().zip(&choices).map(|(arm, chooses)| encode_arm(arm, chooses, discriminant, &unknown));
    let labelled = arms.iter().zip(&choices).filter(|(arm, _)| arm.default.is_none());
    let decode = labelled.map(|(arm, chooses)| decode_arm(arm, &pattern(arm, chooses)));
    let otherwise = match arms.iter().find(|arm| arm.default.is_some()) {
        Some(default) => decode_arm(default, &quote!(_)),
        None => quote!(_ => ::core::result::Result::Err(__xdr::Error::new(#unknown, __at)),),
    };
    let keeps = arms.iter().zip(&choices).enumerate().filter(|(_, (arm, _))| arm.kept.is_some());
    let keeps =
        keeps.map(|(index, (_, chooses))| keeps_discriminant(container, index, discriminant, chooses));
    let (allowed, place) = (allowed(), place(container, discriminant, arms));
    Bodies {
        // Forced inlining would repeat the code of all arms in each type that contains this union.
        inline: quote!(#[inline]),
        encode: quote!(match self { #(#encode)* }),
        fields: None,
        decode: quote! {
            let __at = __reader.position();
            let __discriminant = __xdr::derive_support::Field::<'__de, #discriminant>::IT.decode(__reader)?;
            #allowed
            match __discriminant { #(#decode)* #otherwise }
        },
        extra_items: Some(quote!(#place #(#keeps)*)),
    }
}

fn encode_arm(
    arm: &Arm<'_>,
    chooses: &TokenStream,
    discriminant: &Type,
    unknown: &TokenStream,
) -> TokenStream {
    let (ident, span) = (arm.ident, discriminant.span());
    let (name, value) = (local("__word"), local("__discriminant"));
    let word = quote_spanned!(span=> let #name = <#discriminant as __xdr::Discriminant>::word(&#value););
    let word = match (arm.kept, arm.cases.first()) {
        // A value with the discriminant of another arm would decode as that arm.
        (Some(_), _) => quote! {
            let __discriminant: #discriminant = ::core::clone::Clone::clone(__kept);
            if !(#chooses) {
                return ::core::result::Result::Err(__xdr::Error::new(#unknown, __xdr::Sink::position(__sink)));
            }
            #word
        },
        // A label of the wrong type is reported at its pattern.
        (None, Some(case)) if is_of_some_type(case) => {
            quote_spanned!(span=> let #name = <_ as __xdr::Discriminant>::word(&#case);)
        }
        (None, case) => quote!(let __discriminant: #discriminant = #case; #word),
    };
    let rest = match &arm.payload {
        Some(field) => encode_payload(field),
        None => quote!(__xdr::Encode::encode(&__word, __sink)?;),
    };
    let pattern = parts(arm, &quote!(__kept), |field| field.binding.to_token_stream());
    quote!(Self::#ident #pattern => { #word #rest ::core::result::Result::Ok(()) })
}

fn decode_arm(arm: &Arm<'_>, pattern: &TokenStream) -> TokenStream {
    let (ident, parts) = (arm.ident, parts(arm, &quote!(__discriminant), decode_field));
    quote!(#pattern => ::core::result::Result::Ok(Self::#ident #parts),)
}

/// Returns the stored discriminant and the payload of an arm, in parentheses, or `None` if the arm has
/// neither.
fn parts(
    arm: &Arm<'_>,
    kept: &TokenStream,
    payload: impl Fn(&Field<'_>) -> TokenStream,
) -> Option<TokenStream> {
    let kept = arm.kept.map(|_| kept.clone());
    let parts: Vec<_> = kept.into_iter().chain(arm.payload.as_ref().map(payload)).collect();
    (!parts.is_empty()).then(|| quote!((#(#parts),*)))
}

/// Returns the impl with which formats other than XDR, such as those of serde, check the discriminant that an
/// arm stores.
fn keeps_discriminant(
    container: &Container<'_>,
    index: usize,
    discriminant: &Type,
    chooses: &TokenStream,
) -> TokenStream {
    let (ident, (impl_generics, type_generics, where_clause)) =
        (container.owner.ident, container.owner.generics.split_for_impl());
    quote! {
        #[automatically_derived]
        impl #impl_generics __xdr::derive_support::Keeps<#index> for #ident #type_generics #where_clause {
            type Discriminant = #discriminant;

            #[inline]
            fn chooses(__kept: &#discriminant) -> bool {
                #chooses
            }
        }
    }
}
