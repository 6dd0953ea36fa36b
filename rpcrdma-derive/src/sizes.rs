//! The sizes of a type, and the items that it holds.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::parse_quote;

use crate::ast::{Body, Container, Field, type_name, type_span};
use crate::check::{BACKWARD, is_scalar};
use crate::expand::unlisted;
use crate::field::{bound_of_slice, element, ends};
use crate::generics::{bounded, eligible_bounds};

/// The values of `Layout`'s constants.
pub(crate) struct Sizes {
    pub(crate) min: TokenStream,
    pub(crate) max: TokenStream,
    pub(crate) max_reduced: TokenStream,
    pub(crate) item: TokenStream,
    pub(crate) items: TokenStream,
}

/// Types whose encodings begin with a word, whatever they hold.
const COUNTED: [&str; 4] = ["Vec", "Option", "ArrayRef", "ListRef"];

pub(crate) fn field_sizes(field: &Field<'_>) -> Sizes {
    let (ty, span) = (&field.called, type_span(field.ty));
    let of = |constant: TokenStream| quote_spanned!(span=> <#ty as __xdr::Layout>::#constant);
    if field.attrs.eligible.is_some() {
        // A count and the item. What is no item has been refused then, and is asked for nothing else.
        let largest = quote_spanned!(span=> <#ty as __xdr::derive_support::Eligible>::LARGEST);
        return Sizes {
            min: quote!(4),
            max: quote!(__xdr::Size::Bounded(4).plus(#largest.with_padding())),
            max_reduced: quote!(__xdr::Size::Bounded(4)),
            item: largest,
            items: quote!(__xdr::Size::Bounded(1)),
        };
    }
    if field.recursive {
        // To ask for the type's own sizes here would be to need them before they are known. Its items are
        // found where the type is expanded.
        let min: u64 = if matches!(type_name(field.ty), Some(name) if COUNTED.iter().any(|counted| name == counted))
        {
            4
        } else {
            0
        };
        return Sizes {
            min: quote!(#min),
            max: quote!(__xdr::Size::Unbounded),
            max_reduced: quote!(__xdr::Size::Unbounded),
            item: quote!(__xdr::Size::ZERO),
            items: quote!(__xdr::Size::ZERO),
        };
    }
    if let Some(bound) = bound_of_slice(field) {
        let size = quote!(__xdr::derive_support::slice_size(#bound));
        return Sizes {
            min: quote!(4),
            max: size.clone(),
            max_reduced: size,
            item: quote!(__xdr::Size::ZERO),
            items: quote!(__xdr::Size::ZERO),
        };
    }
    if let Some(bound) = &field.bound {
        let element = element(field);
        let of = |constant: TokenStream| quote_spanned!(span=> <#element as __xdr::Layout>::#constant);
        let array = |size: TokenStream| quote!(__xdr::Size::Bounded(4).plus(#size.times((#bound) as u64)));
        return Sizes {
            min: quote!(4),
            max: array(of(quote!(MAX))),
            max_reduced: array(of(quote!(MAX_REDUCED))),
            item: of(quote!(ITEM)),
            items: {
                let items = of(quote!(ITEMS));
                quote!(#items.times((#bound) as u64))
            },
        };
    }
    Sizes {
        min: of(quote!(MIN)),
        max: of(quote!(MAX)),
        max_reduced: of(quote!(MAX_REDUCED)),
        item: of(quote!(ITEM)),
        items: of(quote!(ITEMS)),
    }
}

/// Sizes of fields one behind the other.
pub(crate) fn sum(sizes: &[Sizes]) -> Sizes {
    let (mins, maxs): (Vec<_>, Vec<_>) = sizes.iter().map(|size| (&size.min, &size.max)).unzip();
    let (reduced, items): (Vec<_>, Vec<_>) =
        sizes.iter().map(|size| (&size.max_reduced, &size.items)).unzip();
    let largest = sizes.iter().map(|size| &size.item);
    Sizes {
        min: quote!(0u64 #(.saturating_add(#mins))*),
        max: quote!(__xdr::Size::ZERO #(.plus(#maxs))*),
        max_reduced: quote!(__xdr::Size::ZERO #(.plus(#reduced))*),
        item: quote!(__xdr::Size::ZERO #(.max(#largest))*),
        items: quote!(__xdr::Size::ZERO #(.plus(#items))*),
    }
}

// ---- items

/// What the type holds of eligible items, for types behind which it may be found again: each level down is a parameter
/// more, so that no type needs its own numbers. Gives what belongs in the `Layout`, and what stands beside it.
pub(crate) fn held(container: &Container<'_>) -> (TokenStream, Option<TokenStream>) {
    let fields = container.fields();
    let parts: Vec<(TokenStream, TokenStream)> = fields.into_iter().filter_map(held_by).collect();
    if parts.is_empty() {
        return (
            quote!(
                type Held<__D: __xdr::Depth> = __xdr::Stated<Self>;
            ),
            None,
        );
    }
    let (item, items): (Vec<_>, Vec<_>) = parts.into_iter().unzip();
    let together = match container.body {
        Body::Union { .. } => quote!(max),
        _ => quote!(plus),
    };
    let ident = container.ident;
    let (_, type_generics, _) = container.generics.split_for_impl();
    let mut generics = bounded(&eligible_bounds(container), &parse_quote!(__xdr::Layout));
    generics.params.push(parse_quote!(__D: __xdr::Depth));
    let (impl_generics, _, where_clause) = generics.split_for_impl();
    let unlisted = unlisted(&container.krate);
    let fields = quote! {
        #[automatically_derived]
        #unlisted
        impl #impl_generics __xdr::derive_support::Fields<__D> for #ident #type_generics #where_clause {
            const ITEM: __xdr::Size = __xdr::Size::ZERO #(.max(#item))*;
            const ITEMS: __xdr::Size = __xdr::Size::ZERO #(.#together(#items))*;
        }
    };
    (
        quote!(
            type Held<__D: __xdr::Depth> = __xdr::derive_support::Of<Self, __D>;
        ),
        Some(fields),
    )
}

/// The largest item of a field and their number, if it can hold any.
fn held_by(field: &Field<'_>) -> Option<(TokenStream, TokenStream)> {
    let ty = field.ty;
    if field.attrs.eligible.is_some() {
        let Sizes { item, items, .. } = field_sizes(field);
        return Some((item, items));
    }
    if is_scalar(ty) || bound_of_slice(field).is_some() {
        return None;
    }
    let (first, last) = ends(ty);
    let behind = |ty: TokenStream| {
        let (open, close) =
            (quote_spanned!(first=> <__D as __xdr::Depth>::Behind<), quote_spanned!(last=> >));
        quote!(#open #ty #close)
    };
    let of = if field.bound.is_some() { element(field) } else { field.called.clone() };
    // Not asked for outright: of a type without an encoding that has been said.
    let of = |constant: TokenStream| {
        let (open, constant) = if field.recursive {
            let held = behind(of.clone());
            (quote_spanned!(first=> <#held as __xdr::Holds>::), quote_spanned!(last=> #constant))
        } else {
            (
                quote_spanned!(first=> __xdr::derive_support::Held::<#of, __D>::),
                quote_spanned!(last=> #constant),
            )
        };
        quote!(#open #constant)
    };
    let times = field.bound.as_ref().map(|bound| quote!(.times((#bound) as u64)));
    let items = of(quote!(ITEMS));
    Some((of(quote!(ITEM)), quote!(#items #times)))
}

/// The items of a type that is met again behind itself: what it holds is looked for level by level.
pub(crate) fn items_behind(ty: &TokenStream) -> (TokenStream, TokenStream) {
    let settled =
        |constant: TokenStream| quote!(<__xdr::derive_support::Settled<#ty> as __xdr::Holds>::#constant);
    (settled(quote!(ITEM)), settled(quote!(ITEMS)))
}

/// Whether a field's type holds an item only the compiler knows: for a type of a program of the backward direction, one
/// check behind the other. Of several fields by which the same item is found the first is named.
pub(crate) fn without_items(container: &Container<'_>) -> Option<TokenStream> {
    if !container.backward {
        return None;
    }
    let fields = container.fields();
    let checks = fields.iter().filter(|field| !field.only_itself && !is_scalar(field.ty)).map(|field| {
        let (ty, span) = (&field.called, type_span(field.ty));
        let items = if field.recursive {
            items_behind(ty).1
        } else {
            quote_spanned!(span=> <#ty as __xdr::Layout>::ITEMS)
        };
        quote_spanned! {span=>
            ::core::assert!(::core::matches!(#items, __xdr::Size::Bounded(0)), #BACKWARD);
        }
    });
    Some(quote!(#(#checks)*))
}
