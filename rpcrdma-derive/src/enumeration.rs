//! Generates the code for enums.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::{Generics, Ident, Path};

use crate::ast::{Container, Unknown, VALUE, Variant};
use crate::impls::{Bodies, do_not_recommend};

pub(crate) fn enumeration(container: &Container<'_>, values: &[Variant<'_>]) -> Bodies {
    let ident = container.owner.ident;
    let variants: Vec<&Ident> = values.iter().map(|value| value.ident).collect();
    let checks = values.iter().filter_map(|value| check_value(ident, value));
    let name = ident.to_string();
    let unknown = quote!(__xdr::ErrorKind::UnknownEnum { type_name: #name, value: __value });
    let conversions = conversions(
        (ident, container.owner.generics, &container.krate),
        &quote!(__number(__value)),
        &quote!(__known(__value).ok_or(#unknown)),
    );
    let extra_items = quote! {
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

        #conversions
    };
    Bodies {
        inline: quote!(#[inline(always)]),
        encode: quote!(<i32 as __xdr::Encode>::encode(&__number(self), __sink)),
        fields: None,
        decode: quote! {
            let __at = __reader.position();
            let __value = <i32 as __xdr::Decode<'__de>>::decode(__reader)?;
            __known(__value).ok_or_else(|| __xdr::Error::new(#unknown, __at))
        },
        extra_items: Some(extra_items),
    }
}

/// Returns the impls that convert an enum to its number and back. In the expression `number`, the variable
/// `__value` is a reference to the enum. In `known`, it is the number.
pub(crate) fn conversions(
    (ident, generics, krate): (&Ident, &Generics, &Path),
    number: &TokenStream,
    known: &TokenStream,
) -> TokenStream {
    let (impl_generics, type_generics, where_clause) = generics.split_for_impl();
    let do_not_recommend = do_not_recommend(krate);
    quote! {
        #[automatically_derived]
        impl #impl_generics ::core::convert::From<#ident #type_generics> for i32 #where_clause {
            fn from(__value: #ident #type_generics) -> i32 {
                let __value = &__value;
                #number
            }
        }

        #[automatically_derived]
        #do_not_recommend
        impl #impl_generics __xdr::Discriminant for #ident #type_generics #where_clause {
            type Word = i32;

            #[inline]
            fn number(&self) -> i128 {
                ::core::convert::From::from(__xdr::Discriminant::word(self))
            }

            #[inline]
            fn word(&self) -> i32 {
                let __value = self;
                #number
            }
        }

        #[automatically_derived]
        impl #impl_generics ::core::convert::TryFrom<i32> for #ident #type_generics #where_clause {
            type Error = __xdr::ErrorKind;
            fn try_from(__value: i32) -> ::core::result::Result<Self, __xdr::ErrorKind> {
                #known
            }
        }
    }
}

/// Returns a check that a value is in range, if only the compiler can compute the value.
fn check_value(ident: &Ident, value: &Variant<'_>) -> Option<TokenStream> {
    let name = value.ident;
    let (span, fits) = match value.unknown? {
        Unknown::Given(span) => (span, quote!(#ident::#name as i128 == #ident::#name as i32 as i128)),
        // Of several consecutive implicit values, only the first that is too large fails this check.
        Unknown::Follows => (name.span(), quote!(#ident::#name as i128 != 0x8000_0000)),
    };
    Some(quote_spanned!(span=> const _: () = ::core::assert!(#fits, #VALUE);))
}
