//! Unions.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::{Expr, Ident, Type};

use crate::ast::{Arm, Container, local, type_span};
use crate::expand::{Parts, impls};
use crate::field::{decode_field, encode_payload};
use crate::labels;
use crate::sizes::{Sizes, field_sizes, sum};

pub(crate) fn expand_union(container: &Container<'_>, discriminant: &Type, arms: &[Arm<'_>]) -> TokenStream {
    let name = container.ident.to_string();
    // Of what is no discriminant that is said at its type, and nothing else.
    let value = local("__discriminant");
    let number =
        quote_spanned!(type_span(discriminant)=> <#discriminant as __xdr::Discriminant>::number(&#value));
    let unknown = quote!(__xdr::ErrorKind::UnknownDiscriminant {
        type_name: #name,
        value: #number,
    });
    let encode = arms.iter().enumerate().map(|(index, arm)| encode_arm(arm, index, discriminant, &unknown));
    let kept = arms
        .iter()
        .enumerate()
        .filter(|(_, arm)| arm.keeps_discriminant)
        .map(|(index, arm)| keeps(container, arm, index, arms, discriminant));
    let labelled = arms.iter().enumerate().filter(|(_, arm)| arm.default.is_none());
    let decode = labelled.map(|(index, arm)| decode_arm(arm, &labels::pattern(arm, index)));
    let otherwise = match arms.iter().find(|arm| arm.default.is_some()) {
        Some(default) => decode_arm(default, &quote!(_)),
        None => quote!(_ => ::core::result::Result::Err(__xdr::Error::new(#unknown, __at)),),
    };
    let (allowed, distinct) = (labels::allowed(), labels::distinct(container, discriminant, arms));
    let checked = checked(container);
    let impls = impls(
        container,
        Parts {
            sizes: union_sizes(discriminant, arms),
            fields: None,
            encode: quote!(#checked match self { #(#encode)* }),
            decode: quote! {
                #checked
                let __at = __reader.position();
                let __discriminant = __xdr::derive_support::Field::<'__de, #discriminant>::IT.decode(__reader)?;
                #allowed
                match __discriminant { #(#decode)* #otherwise }
            },
        },
    );
    quote!(#distinct #(#kept)* #impls)
}

/// Asks for the constant that has the check of a backward-only type with parameters: a struct's code needs it anyway, and a
/// union's does not.
fn checked(container: &Container<'_>) -> Option<TokenStream> {
    let is_checked = container.backward && container.is_generic();
    is_checked.then(|| {
        quote!(
            const {
                let _ = <Self as __xdr::Layout>::MIN;
            }
        )
    })
}

fn union_sizes(discriminant: &Type, arms: &[Arm<'_>]) -> Sizes {
    let own = quote_spanned!(type_span(discriminant)=> <#discriminant as __xdr::Discriminant>::SIZE);
    let sizes: Vec<Sizes> =
        arms.iter().map(|arm| sum(arm.payload.as_ref().map(field_sizes).as_slice())).collect();
    let (mins, maxs): (Vec<_>, Vec<_>) = sizes.iter().map(|size| (&size.min, &size.max)).unzip();
    let (reduced, item): (Vec<_>, Vec<_>) = sizes.iter().map(|size| (&size.max_reduced, &size.item)).unzip();
    let items = sizes.iter().map(|size| &size.items);
    Sizes {
        min: quote!((#own).saturating_add(__xdr::derive_support::least(&[#(#mins),*]))),
        max: quote!(__xdr::Size::Bounded(#own).plus(__xdr::Size::ZERO #(.max(#maxs))*)),
        max_reduced: quote!(__xdr::Size::Bounded(#own).plus(__xdr::Size::ZERO #(.max(#reduced))*)),
        item: quote!(__xdr::Size::ZERO #(.max(#item))*),
        items: quote!(__xdr::Size::ZERO #(.max(#items))*),
    }
}

fn encode_arm(arm: &Arm<'_>, index: usize, discriminant: &Type, unknown: &TokenStream) -> TokenStream {
    let ident = arm.ident;
    let payload: Vec<&Ident> = arm.payload.iter().map(|field| &field.binding).collect();
    let encode_payload = match &arm.payload {
        Some(field) => encode_payload(field),
        None => quote!(__xdr::Encode::encode(&__word, __sink)?;),
    };
    let (name, value) = (local("__word"), local("__discriminant"));
    let word = quote_spanned! {type_span(discriminant)=>
        let #name = <#discriminant as __xdr::Discriminant>::word(&#value);
    };
    if !arm.keeps_discriminant {
        let pattern = (!payload.is_empty()).then(|| quote!((#(#payload)*)));
        let case = arm.cases.first();
        let word = if case.is_some_and(labels::is_of_some_type) {
            // One of another type is no pattern of the discriminant's, which is said where it is one.
            quote_spanned!(type_span(discriminant)=> let #name = <_ as __xdr::Discriminant>::word(&#case);)
        } else {
            quote!(let __discriminant: #discriminant = #case; #word)
        };
        return quote! {
            Self::#ident #pattern => {
                #word
                #encode_payload
                ::core::result::Result::Ok(())
            }
        };
    }
    quote! {
        Self::#ident(__kept #(, #payload)*) => {
            let __discriminant: #discriminant = ::core::clone::Clone::clone(__kept);
            if !<Self as __xdr::derive_support::Keeps<#index>>::chooses(&__discriminant) {
                return ::core::result::Result::Err(__xdr::Error::new(#unknown, __xdr::Sink::position(__sink)));
            }
            #word
            #encode_payload
            ::core::result::Result::Ok(())
        }
    }
}

/// Which discriminants an arm may keep.
fn keeps(
    container: &Container<'_>,
    arm: &Arm<'_>,
    index: usize,
    arms: &[Arm<'_>],
    discriminant: &Type,
) -> TokenStream {
    let ident = container.ident;
    let (impl_generics, type_generics, where_clause) = container.generics.split_for_impl();
    let allowed = labels::allowed();
    let refused = labels::refused(arms);
    // Each label is a pattern of its own: in one with others a name that means nothing would be a second mistake.
    let (labels, is_own): (Vec<&Expr>, bool) = if arm.default.is_some() {
        (arms.iter().flat_map(|other| &other.cases).collect(), false)
    } else {
        (arm.cases.iter().collect(), true)
    };
    quote! {
        #[automatically_derived]
        impl #impl_generics __xdr::derive_support::Keeps<#index> for #ident #type_generics #where_clause {
            type Discriminant = #discriminant;

            #[inline]
            fn chooses(__discriminant: &#discriminant) -> bool {
                #refused
                #allowed
                match *__discriminant { #(#labels => #is_own,)* _ => !#is_own }
            }
        }
    }
}

fn decode_arm(arm: &Arm<'_>, pattern: &TokenStream) -> TokenStream {
    let ident = arm.ident;
    let payload = arm.payload.as_ref().map(decode_field);
    let value = match (arm.keeps_discriminant, payload) {
        (true, Some(payload)) => quote!(Self::#ident(__discriminant, #payload)),
        (true, None) => quote!(Self::#ident(__discriminant)),
        (false, Some(payload)) => quote!(Self::#ident(#payload)),
        (false, None) => quote!(Self::#ident),
    };
    quote!(#pattern => ::core::result::Result::Ok(#value),)
}
