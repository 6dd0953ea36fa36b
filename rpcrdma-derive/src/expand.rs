//! Generates the code for a type.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Generics, Ident, Type, parse_quote};

use crate::ast::{Body, Container, Field};
use crate::cycle::Owner;
use crate::enumeration::enumeration;
use crate::field::{decode_field, encode_field};
use crate::impls::{Bodies, impls};
use crate::labels::define_labels;
use crate::layout::layout;
use crate::names::{define_bounds, define_type_aliases};
use crate::syntax::local;
use crate::union::union;

pub(crate) fn expand(container: &mut Container<'_>) -> TokenStream {
    let (bounds, labels, types) =
        (define_bounds(container), define_labels(container), define_type_aliases(container));
    let container = &*container;
    let krate = &container.krate;
    let bodies = match &container.body {
        Body::Struct(fields) => structure(fields),
        Body::Enum(variants) => enumeration(container, variants),
        Body::Union { discriminant, arms } => union(container, discriminant, arms),
    };
    let generics = eligible_bounds(container);
    let owner = Owner { generics: &generics, ..container.owner };
    let impls = impls(owner, krate, &layout(container), &bodies);
    // A separate scope prevents clashes with the user's names.
    quote! {
        const _: () = {
            use #krate::xdr as __xdr;
            #[allow(unused_imports)]
            use __xdr::derive_support::{Known as _, Unknown as _, Written as _};
            #types
            #bounds
            #labels
            #impls
        };
    }
}

/// Returns the generics, with the bound `DdpItem` on each parameter that is the type of a DDP-eligible field.
fn eligible_bounds(container: &Container<'_>) -> Generics {
    let fields = container.fields().into_iter().filter(|field| field.attrs.eligible.is_some());
    let eligible: Vec<&Type> = fields.map(|field| field.ty).collect();
    let mut generics = container.owner.generics.clone();
    for parameter in generics.type_params_mut() {
        if eligible.iter().any(|ty| matches!(ty, Type::Path(path) if path.path.is_ident(&parameter.ident))) {
            parameter.bounds.push(parse_quote!(__xdr::DdpItem));
        }
    }
    generics
}

fn structure(fields: &[Field<'_>]) -> Bodies {
    let encode = fields.iter().map(|field| {
        // If the value has no encoding, the error is reported at its type.
        let (member, span, this) = (field.member_at_type(), field.ty.span(), local("self"));
        encode_field(field, &quote_spanned!(span=> { let __value = &#this.#member; __value }))
    });
    let bindings: Vec<&Ident> = fields.iter().map(|field| &field.binding).collect();
    let (members, values) = (fields.iter().map(|field| &field.member), fields.iter().map(decode_field));
    Bodies {
        // Without inlining, a decoded value is returned through memory and copied.
        inline: quote!(#[inline(always)]),
        encode: quote!(__xdr::derive_support::encode_struct(self, __sink)),
        fields: Some(quote!(#(#encode)* ::core::result::Result::Ok(()))),
        decode: quote! {
            __xdr::derive_support::require_fixed::<Self>(__reader)?;
            #(let #bindings = #values;)*
            ::core::result::Result::Ok(Self { #(#members: #bindings),* })
        },
        extra_items: None,
    }
}
