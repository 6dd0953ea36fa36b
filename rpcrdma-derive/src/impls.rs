//! Generates the impls of `Layout`, `Encode` and `Decode`.

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::{GenericParam, Generics, Lifetime, LifetimeParam, Path, TypeParamBound, parse_quote};

use crate::cycle::Owner;
use crate::layout::Layout;

pub(crate) struct Bodies {
    pub(crate) inline: TokenStream,
    pub(crate) encode: TokenStream,
    /// The body of `encode_fields`, for a struct.
    pub(crate) fields: Option<TokenStream>,
    pub(crate) decode: TokenStream,
    /// Other generated Rust items, such as functions and the conversions of an enum.
    pub(crate) extra_items: Option<TokenStream>,
}

fn bounded(generics: &Generics, bound: &TypeParamBound) -> Generics {
    let mut generics = generics.clone();
    generics.type_params_mut().for_each(|parameter| parameter.bounds.push(bound.clone()));
    generics
}

/// Returns the generics of the `Decode` impl. Decoded values may borrow from the input, so the input's
/// lifetime outlives every lifetime of the type.
fn decoding(generics: &Generics) -> Generics {
    let mut generics = bounded(generics, &parse_quote!(__xdr::Decode<'__de>));
    let mut parameter = LifetimeParam::new(Lifetime::new("'__de", Span::call_site()));
    parameter.bounds.extend(generics.lifetimes().map(|outlived| outlived.lifetime.clone()));
    generics.params.insert(0, GenericParam::Lifetime(parameter));
    generics
}

/// Returns the attribute that hides an impl of the runtime when an error message lists the types with an
/// encoding. Outside of the runtime, the attribute is omitted, because a user may have a module called
/// `diagnostic`.
pub(crate) fn do_not_recommend(krate: &Path) -> Option<TokenStream> {
    krate.is_ident("crate").then(|| quote!(#[diagnostic::do_not_recommend]))
}

pub(crate) fn impls(owner: Owner<'_>, krate: &Path, layout: &Layout, bodies: &Bodies) -> TokenStream {
    let Layout { lengths, items, check } = layout;
    let Bodies { inline, encode, fields, decode, extra_items } = bodies;
    // The check of a generic type depends on the parameters, so the check is in a constant that each use of
    // the type evaluates. The code of a struct already evaluates that constant.
    let is_plain = owner.generics.params.is_empty();
    let inner = check.as_ref().filter(|_| !is_plain);
    let force = inner.filter(|_| fields.is_none());
    let force = force.map(|_| {
        quote!(
            const {
                let _ = <Self as __xdr::Layout>::LENGTHS;
            }
        )
    });
    let outer = check.iter().filter(|_| is_plain);
    let result = quote!(::core::result::Result<(), __xdr::Error>);
    let sink = quote!(__S: __xdr::Sink + ?::core::marker::Sized);
    let fields = fields.iter().map(|fields| {
        quote! {
            #inline
            fn encode_fields<#sink, const __RUN: bool>(&self, __sink: &mut __S) -> #result { #fields }
        }
    });
    let do_not_recommend = do_not_recommend(krate);
    let implement = |name: TokenStream, generics: &Generics, body: TokenStream| {
        let (ident, (impl_generics, _, where_clause)) = (owner.ident, generics.split_for_impl());
        let (_, type_generics, _) = owner.generics.split_for_impl();
        quote! {
            #[automatically_derived]
            #do_not_recommend
            impl #impl_generics __xdr::#name for #ident #type_generics #where_clause { #body }
        }
    };
    let layout = quote! {
        const LENGTHS: __xdr::Lengths = { #inner #lengths };
        const HELD: __xdr::Items = #items;
    };
    let encode = quote! {
        #inline
        fn encode<#sink>(&self, __sink: &mut __S) -> #result { #force #encode }
        #(#fields)*
    };
    let decode = quote! {
        #inline
        fn decode(__reader: &mut __xdr::Reader<'__de>) -> ::core::result::Result<Self, __xdr::Error> {
            #force
            #decode
        }
    };
    let layout = implement(quote!(Layout), &bounded(owner.generics, &parse_quote!(__xdr::Layout)), layout);
    let encode = implement(quote!(Encode), &bounded(owner.generics, &parse_quote!(__xdr::Encode)), encode);
    let decode = implement(quote!(Decode<'__de>), &decoding(owner.generics), decode);
    quote! {
        #extra_items
        #(const _: () = { #outer };)*
        #layout
        #encode
        #decode
    }
}
