//! The constants of `Layout`: lengths of encodings, and the DDP-eligible items of a value.

use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use rpcrdma_layout::Size;
use syn::Ident;
use syn::spanned::Spanned;

use crate::ast::{Body, Container, Field, Kind};
use crate::check::BACKWARD;
use crate::cycle::Cycle;
use crate::names::element;
use crate::syntax::{is_one_of, is_scalar};

const HIDDEN: &str = "this field contains DDP-eligible items that the derive cannot see: declare their number and their maximum size on the type, as in `#[xdr(items = unbounded, largest = 4096)]`";
const EXCEEDED: &str =
    "the fields contain more or larger DDP-eligible items than declared: increase `items` or `largest`";

pub(crate) struct Layout {
    pub(crate) lengths: TokenStream,
    pub(crate) items: TokenStream,
    pub(crate) check: Option<TokenStream>,
}

pub(crate) fn layout(container: &Container<'_>) -> Layout {
    let lengths = match &container.body {
        Body::Enum(_) => quote!(__xdr::Lengths::fixed(4)),
        Body::Struct(fields) => {
            let fields = fields.iter().map(lengths);
            quote!(__xdr::Lengths::ZERO #(.and(#fields))*)
        }
        Body::Union { discriminant, arms } => {
            let mut arms = arms.iter().map(|arm| match &arm.payload {
                Some(field) => lengths(field),
                None => quote!(__xdr::Lengths::ZERO),
            });
            let first = arms.next();
            let own = quote_spanned!(discriminant.span()=> <<#discriminant as __xdr::Discriminant>::Word as __xdr::Layout>::LENGTHS);
            quote!(#own.and(#first #(.or(#arms))*))
        }
    };
    let items = match container.items {
        // The assertions from `check` ensure that the type has no items. Evaluating the items of its fields
        // could recurse endlessly, because the type may contain itself.
        _ if container.backward => quote!(__xdr::Items::NONE),
        Some((_, declared)) => {
            let (count, largest) = (size(declared.count), size(declared.largest));
            quote!(__xdr::Items { count: #count, largest: #largest })
        }
        None => solve_items(container),
    };
    Layout { lengths, items, check: check(container) }
}

fn size(size: Size) -> TokenStream {
    match size {
        Size::Bounded(bound) => quote!(__xdr::Size::Bounded(#bound)),
        Size::Unbounded => quote!(__xdr::Size::Unbounded),
    }
}

fn lengths(field: &Field<'_>) -> TokenStream {
    match field.kind() {
        Kind::Eligible => {
            let largest = largest(field);
            quote!(__xdr::Lengths::of_item(#largest))
        }
        // The lengths of the field depend on the lengths of the derived type, which are not yet known.
        _ if field.cycle.is_some() => {
            let is_counted = is_one_of(field.ty, &["Vec", "Option", "ArrayRef", "ListRef"]);
            let counted = is_counted.then(|| quote!(.array(u32::MAX)));
            quote!(__xdr::Lengths::UNKNOWN #counted)
        }
        Kind::Slice(bound) => quote!(__xdr::Lengths::of_data(__xdr::Size::of_bound(#bound))),
        _ => constant(field, "LENGTHS"),
    }
}

fn constant(field: &Field<'_>, name: &str) -> TokenStream {
    let (ty, span) = (&field.alias, field.ty.span());
    let name = Ident::new(name, span);
    if let Kind::Array(bound) = field.kind() {
        let element = element(field);
        let of = quote_spanned!(span=> <#element as __xdr::Layout>::#name);
        return quote!(#of.array(#bound));
    }
    quote_spanned!(span=> <#ty as __xdr::Layout>::#name)
}

fn largest(field: &Field<'_>) -> TokenStream {
    let ty = &field.alias;
    quote_spanned!(field.ty.span()=> <#ty as __xdr::derive_support::Eligible>::LARGEST)
}

// ---- items

/// Returns the items that the derive can see in the fields of the type. For a recursive type, the items are
/// the solution of an equation.
fn solve_items(container: &Container<'_>) -> TokenStream {
    let sum = sum(container, |field| match field.cycle {
        Some(Cycle::Hidden) => Some(quote!(__own)),
        Some(Cycle::Own) => container.owner.items_of(field.ty, field.bound.as_ref()),
        _ => items(field),
    });
    if container.fields().iter().all(|field| field.cycle.is_none()) {
        return sum;
    }
    quote!({
        let __own = __xdr::Items::NONE;
        let __first = #sum;
        let __own = __first;
        __first.grown(#sum)
    })
}

fn sum(container: &Container<'_>, of: impl Fn(&Field<'_>) -> Option<TokenStream>) -> TokenStream {
    let items = container.fields().into_iter().filter_map(of);
    match container.body {
        Body::Union { .. } => quote!(__xdr::Items::NONE #(.or(#items))*),
        _ => quote!(__xdr::Items::NONE #(.and(#items))*),
    }
}

/// Returns the items of a field, or `None` for scalars and bounded slices, which contain no items.
fn items(field: &Field<'_>) -> Option<TokenStream> {
    match field.kind() {
        Kind::Eligible => {
            let largest = largest(field);
            Some(quote!(__xdr::Items::one(#largest)))
        }
        Kind::Slice(_) => None,
        _ if is_scalar(field.ty) => None,
        _ => Some(constant(field, "HELD")),
    }
}

/// Returns checks that only the compiler can evaluate, if needed. A type of a backward-only program must
/// contain no items. A type with declared items must not contain more or larger items than declared. Without
/// a declaration, a type that may contain itself must not contain more or larger items than the derive can
/// see in the fields.
fn check(container: &Container<'_>) -> Option<TokenStream> {
    let fields = container.fields();
    if container.backward {
        let checks = fields.into_iter().filter_map(|field| {
            let (items, span) = (items(field)?, field.ty.span());
            Some(quote_spanned!(span=> ::core::assert!(#items.is_none(), #BACKWARD);))
        });
        return Some(quote!(#(#checks)*));
    }
    let hidden = fields.into_iter().find(|field| field.cycle.is_some());
    let (span, message): (Span, &str) = match container.items {
        Some((span, _)) => (span, EXCEEDED),
        None => (hidden?.ty.span(), HIDDEN),
    };
    let (ident, (_, generics, _)) = (container.owner.ident, container.owner.generics.split_for_impl());
    let sum = sum(container, items);
    let own = quote!(<#ident #generics as __xdr::Layout>::HELD);
    Some(quote_spanned!(span=> ::core::assert!(#own.covers(#sum), #message);))
}
