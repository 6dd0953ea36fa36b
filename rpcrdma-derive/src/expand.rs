//! The code.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::{GenericParam, Generics, Ident, Lifetime, LifetimeParam, Type, parse_quote};

use crate::ast::{Arm, Body, Borrow, Container, Field, Style, borrow, type_name, type_span};
use crate::check::BACKWARD;

pub(crate) fn expand(container: &Container<'_>) -> TokenStream {
    let krate = &container.krate;
    let impls = match &container.body {
        Body::Struct { style, fields } => expand_struct(container, *style, fields),
        Body::Enum { variants } => expand_enum(container, variants),
        Body::Union { discriminant, arms } => expand_union(container, discriminant, arms),
    };
    let without_items = without_items(container);
    // A scope of its own: nothing that is named in here can meet a name of the user's.
    quote! {
        const _: () = {
            use #krate::xdr as __xdr;
            #impls
            #without_items
        };
    }
}

/// Whether a field's type holds an item only the compiler knows. Of a type with parameters it does not know either.
fn without_items(container: &Container<'_>) -> Option<TokenStream> {
    if !container.backward || !container.generics.params.is_empty() {
        return None;
    }
    let checks = container.fields().into_iter().filter(|field| !field.recursive).map(|field| {
        let ty = field.ty;
        quote_spanned! {type_span(ty)=>
            const _: () = ::core::assert!(
                ::core::matches!(<#ty as __xdr::Layout>::ITEMS, __xdr::Size::Bounded(0)),
                #BACKWARD
            );
        }
    });
    Some(quote!(#(#checks)*))
}

/// The three impls, from the bodies of their functions and the values of their constants.
struct Parts {
    sizes: Sizes,
    encode: TokenStream,
    /// How a struct is written field by field.
    fields: Option<TokenStream>,
    decode: TokenStream,
}

struct Sizes {
    min: TokenStream,
    max: TokenStream,
    max_reduced: TokenStream,
    item: TokenStream,
    items: TokenStream,
}

fn impls(container: &Container<'_>, parts: Parts) -> TokenStream {
    let ident = container.ident;
    let (_, type_generics, _) = container.generics.split_for_impl();
    let generics = eligible_bounds(container);
    let layout = bounded(&generics, &parse_quote!(__xdr::Layout));
    let encode = bounded(&generics, &parse_quote!(__xdr::Encode));
    let decode = decoding(&generics);
    let (layout_impl, _, layout_where) = layout.split_for_impl();
    let (encode_impl, _, encode_where) = encode.split_for_impl();
    let (decode_impl, _, decode_where) = decode.split_for_impl();
    let Parts { sizes: Sizes { min, max, max_reduced, item, mut items }, encode, fields, decode } = parts;
    if is_recursive(container) {
        // A value that holds values of its own type holds any number of what one of them holds.
        items = quote!(#items.repeated(__xdr::Size::Unbounded));
    }
    let unlisted = unlisted(container);
    // A value that comes back through memory is copied on from there, and the processor waits for the bytes to arrive:
    // that took most of the time of a small message. Written is from where the value lies, so a union, which has an
    // arm's code for each of its callers, need not be written in place.
    let inline = match container.body {
        Body::Struct { .. } | Body::Enum { .. } => quote!(#[inline(always)]),
        Body::Union { .. } => quote!(#[inline]),
    };
    let fields = fields.map(|fields| {
        quote! {
            #inline
            fn encode_fields<__S: __xdr::Sink + ?::core::marker::Sized>(
                &self,
                __sink: &mut __S,
            ) -> ::core::result::Result<(), __xdr::Error> {
                #fields
            }
        }
    });
    quote! {
        #[automatically_derived]
        #unlisted
        impl #layout_impl __xdr::Layout for #ident #type_generics #layout_where {
            const MIN: u64 = #min;
            const MAX: __xdr::Size = #max;
            const MAX_REDUCED: __xdr::Size = #max_reduced;
            const ITEM: __xdr::Size = #item;
            const ITEMS: __xdr::Size = #items;
        }

        #[automatically_derived]
        #unlisted
        impl #encode_impl __xdr::Encode for #ident #type_generics #encode_where {
            #inline
            fn encode<__S: __xdr::Sink + ?::core::marker::Sized>(
                &self,
                __sink: &mut __S,
            ) -> ::core::result::Result<(), __xdr::Error> {
                #encode
            }

            #fields
        }

        #[automatically_derived]
        #unlisted
        impl #decode_impl __xdr::Decode<'__de> for #ident #type_generics #decode_where {
            #[inline(always)]
            fn decode(__reader: &mut __xdr::Reader<'__de>) -> ::core::result::Result<Self, __xdr::Error> {
                #decode
            }
        }
    }
}

/// To whoever has a type without an encoding, the compiler lists types that have one. The runtime's own
/// messages do not belong there. Elsewhere a module of the user's may be called `diagnostic`.
fn unlisted(container: &Container<'_>) -> Option<TokenStream> {
    container.krate.is_ident("crate").then(|| quote!(#[diagnostic::do_not_recommend]))
}

fn is_recursive(container: &Container<'_>) -> bool {
    container.fields().iter().any(|field| field.recursive)
}

fn bounded(generics: &Generics, bound: &syn::TypeParamBound) -> Generics {
    let mut generics = generics.clone();
    for parameter in generics.type_params_mut() {
        parameter.bounds.push(bound.clone());
    }
    generics
}

/// A parameter that is itself a DDP-eligible field must be something that can be one.
fn eligible_bounds(container: &Container<'_>) -> Generics {
    let eligible: Vec<&Type> = container
        .fields()
        .into_iter()
        .filter(|field| field.attrs.eligible.is_some())
        .map(|field| field.ty)
        .collect();
    let mut generics = container.generics.clone();
    for parameter in generics.type_params_mut() {
        if eligible.iter().any(|ty| matches!(ty, Type::Path(path) if path.path.is_ident(&parameter.ident))) {
            parameter.bounds.push(parse_quote!(__xdr::DdpItem));
        }
    }
    generics
}

fn decoding(generics: &Generics) -> Generics {
    let mut generics = bounded(generics, &parse_quote!(__xdr::Decode<'__de>));
    let mut parameter = LifetimeParam::new(Lifetime::new("'__de", proc_macro2::Span::call_site()));
    // What is decoded may borrow: the input outlives every lifetime of the type.
    parameter.bounds.extend(generics.lifetimes().map(|outlived| outlived.lifetime.clone()));
    generics.params.insert(0, GenericParam::Lifetime(parameter));
    generics
}

// ---- one field

fn encode_field(field: &Field<'_>, access: &TokenStream) -> TokenStream {
    let (name, ty) = (&field.name, field.ty);
    let call = if field.attrs.eligible.is_some() {
        quote_spanned!(type_span(ty)=> <#ty as __xdr::DdpItem>::encode_eligible(#access, __sink))
    } else if let Some(max) = bound_of_slice(field) {
        quote!(__xdr::derive_support::encode_slice(#access, #max, __sink))
    } else if let Some(max) = &field.attrs.max {
        quote!(__xdr::encode_array(#access, #max, __sink))
    } else if field.attrs.list.is_some() {
        quote!(__xdr::encode_list(#access, __sink))
    } else {
        quote_spanned!(type_span(ty)=> <#ty as __xdr::Encode>::encode(#access, __sink))
    };
    quote!(#call.map_err(|__error| __xdr::Error::within(__error, #name))?;)
}

/// The bound of opaque data or text that is a slice of Rust.
fn bound_of_slice<'f>(field: &'f Field<'_>) -> Option<&'f syn::Expr> {
    field.attrs.max.as_ref().filter(|_| borrow(field.ty) == Some(Borrow::Slice))
}

fn decode_field(field: &Field<'_>) -> TokenStream {
    let (name, ty) = (&field.name, field.ty);
    let call = if field.attrs.eligible.is_some() {
        quote_spanned!(type_span(ty)=> <#ty as __xdr::DdpItem>::decode_eligible(__reader))
    } else if let Some(max) = bound_of_slice(field) {
        quote!(__xdr::derive_support::decode_slice(__reader, #max))
    } else if let Some(max) = &field.attrs.max {
        quote!(__xdr::decode_array(__reader, #max))
    } else if field.attrs.list.is_some() {
        quote!(__xdr::decode_list(__reader))
    } else {
        quote_spanned!(type_span(ty)=> <#ty as __xdr::Decode<'__de>>::decode(__reader))
    };
    quote!(#call.map_err(|__error| __xdr::Error::within(__error, #name))?)
}

/// Types whose encodings begin with a word, whatever they hold.
const COUNTED: [&str; 4] = ["Vec", "Option", "ArrayRef", "ListRef"];

fn field_sizes(field: &Field<'_>) -> Sizes {
    let ty = field.ty;
    let of = |constant: TokenStream| quote_spanned!(type_span(ty)=> <#ty as __xdr::Layout>::#constant);
    if field.attrs.eligible.is_some() {
        return Sizes {
            min: of(quote!(MIN)),
            max: of(quote!(MAX)),
            max_reduced: quote!(__xdr::Size::Bounded(4)),
            item: quote_spanned!(type_span(ty)=> <#ty as __xdr::DdpItem>::LARGEST),
            items: quote!(__xdr::Size::Bounded(1)),
        };
    }
    if field.recursive {
        // To ask for the type's own sizes here would be to need them before they are known. Its items are
        // counted where the type is expanded.
        let min: u64 = if matches!(type_name(ty), Some(name) if COUNTED.iter().any(|counted| name == counted))
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
    if let Some(max) = bound_of_slice(field) {
        let size = quote!(__xdr::derive_support::slice_size(#max));
        return Sizes {
            min: quote!(4),
            max: size.clone(),
            max_reduced: size,
            item: quote!(__xdr::Size::ZERO),
            items: quote!(__xdr::Size::ZERO),
        };
    }
    if let Some(max) = &field.attrs.max {
        let element = quote!(<#ty as __xdr::derive_support::Elements>::Element);
        let array = |constant: TokenStream| quote!(__xdr::Size::Bounded(4).plus(<#element as __xdr::Layout>::#constant.times((#max) as u64)));
        return Sizes {
            min: quote!(4),
            max: array(quote!(MAX)),
            max_reduced: array(quote!(MAX_REDUCED)),
            item: quote!(<#element as __xdr::Layout>::ITEM),
            items: quote!(<#element as __xdr::Layout>::ITEMS.times((#max) as u64)),
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
fn sum(sizes: &[Sizes]) -> Sizes {
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

// ---- structs

fn expand_struct(container: &Container<'_>, style: Style, fields: &[Field<'_>]) -> TokenStream {
    let sizes: Vec<Sizes> = fields.iter().map(field_sizes).collect();
    let encode = fields.iter().map(|field| {
        let member = &field.member;
        encode_field(field, &quote!(&self.#member))
    });
    let bindings: Vec<&Ident> = fields.iter().map(|field| &field.binding).collect();
    let decode = fields.iter().map(|field| {
        let (binding, value) = (&field.binding, decode_field(field));
        quote!(let #binding = #value;)
    });
    let members = fields.iter().map(|field| &field.member);
    let value = match style {
        Style::Named => quote!(Self { #(#members: #bindings),* }),
        Style::Tuple => quote!(Self(#(#bindings),*)),
        Style::Unit => quote!(Self),
    };
    impls(
        container,
        Parts {
            sizes: sum(&sizes),
            encode: quote!(__xdr::derive_support::encode_struct(self, __sink)),
            fields: Some(quote!(#(#encode)* ::core::result::Result::Ok(()))),
            decode: quote! {
                __xdr::derive_support::require_fixed::<Self>(__reader)?;
                #(#decode)*
                ::core::result::Result::Ok(#value)
            },
        },
    )
}

// ---- enums

fn expand_enum(container: &Container<'_>, variants: &[&Ident]) -> TokenStream {
    let ident = container.ident;
    let name = ident.to_string();
    let unlisted = unlisted(container);
    let unknown = quote!(__xdr::ErrorKind::UnknownEnum { type_name: #name, value: __value });
    let body = impls(
        container,
        Parts {
            sizes: Sizes {
                min: quote!(4),
                max: quote!(__xdr::Size::Bounded(4)),
                max_reduced: quote!(__xdr::Size::Bounded(4)),
                item: quote!(__xdr::Size::ZERO),
                items: quote!(__xdr::Size::ZERO),
            },
            fields: None,
            encode: quote!(<i32 as __xdr::Encode>::encode(&__number(self), __sink)),
            decode: quote! {
                let __at = __reader.position();
                let __value = <i32 as __xdr::Decode<'__de>>::decode(__reader)?;
                match __known(__value) {
                    ::core::option::Option::Some(__known) => ::core::result::Result::Ok(__known),
                    ::core::option::Option::None => ::core::result::Result::Err(__xdr::Error::new(#unknown, __at)),
                }
            },
        },
    );
    quote! {
        #[inline]
        const fn __number(value: &#ident) -> i32 {
            match value { #(#ident::#variants => #ident::#variants as i32,)* }
        }

        #[inline]
        const fn __known(value: i32) -> ::core::option::Option<#ident> {
            #(if value == #ident::#variants as i32 { return ::core::option::Option::Some(#ident::#variants); })*
            ::core::option::Option::None
        }

        #body

        #[automatically_derived]
        impl ::core::convert::From<#ident> for i32 {
            fn from(value: #ident) -> i32 {
                __number(&value)
            }
        }

        #[automatically_derived]
        #unlisted
        impl __xdr::Discriminant for #ident {
            fn number(&self) -> i64 {
                __number(self) as i64
            }
        }

        #[automatically_derived]
        impl ::core::convert::TryFrom<i32> for #ident {
            type Error = __xdr::ErrorKind;
            fn try_from(__value: i32) -> ::core::result::Result<Self, __xdr::ErrorKind> {
                __known(__value).ok_or(#unknown)
            }
        }
    }
}

// ---- unions

fn expand_union(container: &Container<'_>, discriminant: &Type, arms: &[Arm<'_>]) -> TokenStream {
    let name = container.ident.to_string();
    let unknown = quote!(__xdr::ErrorKind::UnknownDiscriminant {
        type_name: #name,
        value: __xdr::Discriminant::number(&__discriminant),
    });
    let encode = arms.iter().enumerate().map(|(index, arm)| encode_arm(arm, index, discriminant, &unknown));
    let kept = arms
        .iter()
        .enumerate()
        .filter(|(_, arm)| arm.keeps_discriminant)
        .map(|(index, arm)| keeps(container, arm, index, arms, discriminant));
    let decode = arms.iter().filter(|arm| arm.default.is_none()).map(decode_arm);
    let otherwise = match arms.iter().find(|arm| arm.default.is_some()) {
        Some(default) => decode_arm(default),
        None => quote!(_ => ::core::result::Result::Err(__xdr::Error::new(#unknown, __at)),),
    };
    let impls = impls(
        container,
        Parts {
            sizes: union_sizes(discriminant, arms),
            fields: None,
            encode: quote!(match self { #(#encode)* }),
            decode: quote! {
                let __at = __reader.position();
                let __discriminant = <#discriminant as __xdr::Decode<'__de>>::decode(__reader)?;
                #[allow(unreachable_patterns)]
                match __discriminant { #(#decode)* #otherwise }
            },
        },
    );
    quote!(#(#kept)* #impls)
}

fn union_sizes(discriminant: &Type, arms: &[Arm<'_>]) -> Sizes {
    let sizes: Vec<Sizes> =
        arms.iter().map(|arm| sum(arm.payload.as_ref().map(field_sizes).as_slice())).collect();
    let (mins, maxs): (Vec<_>, Vec<_>) = sizes.iter().map(|size| (&size.min, &size.max)).unzip();
    let (reduced, item): (Vec<_>, Vec<_>) = sizes.iter().map(|size| (&size.max_reduced, &size.item)).unzip();
    let items = sizes.iter().map(|size| &size.items);
    let own = quote!(<#discriminant as __xdr::Layout>);
    Sizes {
        min: quote!(#own::MIN.saturating_add(__xdr::derive_support::least(&[#(#mins),*]))),
        max: quote!(#own::MAX.plus(__xdr::Size::ZERO #(.max(#maxs))*)),
        max_reduced: quote!(#own::MAX.plus(__xdr::Size::ZERO #(.max(#reduced))*)),
        item: quote!(__xdr::Size::ZERO #(.max(#item))*),
        items: quote!(__xdr::Size::ZERO #(.max(#items))*),
    }
}

/// The discriminant, and the payload behind it.
fn encode_payload(arm: &Arm<'_>) -> TokenStream {
    let Some(field) = &arm.payload else { return quote!(__xdr::Encode::encode(&__discriminant, __sink)?;) };
    let (binding, name, ty) = (&field.binding, &field.name, field.ty);
    if field.attrs.eligible.is_none() && field.attrs.max.is_none() && field.attrs.list.is_none() {
        // The discriminant is what its type can write: what fails is the payload.
        let both =
            quote_spanned!(type_span(ty)=> encode_behind::<_, #ty, _>(&__discriminant, #binding, __sink));
        return quote!(__xdr::derive_support::#both.map_err(|__error| __xdr::Error::within(__error, #name))?;);
    }
    let payload = encode_field(field, &quote!(#binding));
    quote!(__xdr::Encode::encode(&__discriminant, __sink)?; #payload)
}

fn encode_arm(arm: &Arm<'_>, index: usize, discriminant: &Type, unknown: &TokenStream) -> TokenStream {
    let ident = arm.ident;
    let payload: Vec<&Ident> = arm.payload.iter().map(|field| &field.binding).collect();
    let encode_payload = encode_payload(arm);
    if !arm.keeps_discriminant {
        let pattern = (!payload.is_empty()).then(|| quote!((#(#payload)*)));
        let case = arm.cases.first();
        return quote! {
            Self::#ident #pattern => {
                let __discriminant: #discriminant = #case;
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
    let others: Vec<_> = arms.iter().flat_map(|other| &other.cases).collect();
    let chosen = if arm.default.is_some() {
        let refused = (!others.is_empty()).then(|| quote!(#(#others)|* => false,));
        quote!(#refused _ => true)
    } else {
        let own = &arm.cases;
        quote!(#(#own)|* => true, _ => false)
    };
    quote! {
        #[automatically_derived]
        impl #impl_generics __xdr::derive_support::Keeps<#index> for #ident #type_generics #where_clause {
            type Discriminant = #discriminant;

            #[inline]
            fn chooses(__discriminant: &#discriminant) -> bool {
                #[allow(unreachable_patterns)]
                match *__discriminant { #chosen }
            }
        }
    }
}

fn decode_arm(arm: &Arm<'_>) -> TokenStream {
    let ident = arm.ident;
    let payload = arm.payload.as_ref().map(decode_field);
    let value = match (arm.keeps_discriminant, payload) {
        (true, Some(payload)) => quote!(Self::#ident(__discriminant, #payload)),
        (true, None) => quote!(Self::#ident(__discriminant)),
        (false, Some(payload)) => quote!(Self::#ident(#payload)),
        (false, None) => quote!(Self::#ident),
    };
    let pattern = if arm.default.is_some() {
        quote!(_)
    } else {
        let cases = &arm.cases;
        quote!(#(#cases)|*)
    };
    quote!(#pattern => ::core::result::Result::Ok(#value),)
}
