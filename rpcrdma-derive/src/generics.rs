//! Bounds on the parameters of the impls: what each trait asks of them.

use syn::{GenericParam, Generics, Lifetime, LifetimeParam, Type, parse_quote};

use crate::ast::Container;

/// The parameters, each with a bound more.
pub(crate) fn bounded(generics: &Generics, bound: &syn::TypeParamBound) -> Generics {
    let mut generics = generics.clone();
    for parameter in generics.type_params_mut() {
        parameter.bounds.push(bound.clone());
    }
    generics
}

/// A parameter that is itself a DDP-eligible field must be something that can be one.
pub(crate) fn eligible_bounds(container: &Container<'_>) -> Generics {
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

/// The parameters as decoding has them.
pub(crate) fn decoding(generics: &Generics) -> Generics {
    let mut generics = bounded(generics, &parse_quote!(__xdr::Decode<'__de>));
    let mut parameter = LifetimeParam::new(Lifetime::new("'__de", proc_macro2::Span::call_site()));
    // What is decoded may borrow: the input outlives every lifetime of the type.
    parameter.bounds.extend(generics.lifetimes().map(|outlived| outlived.lifetime.clone()));
    generics.params.insert(0, GenericParam::Lifetime(parameter));
    generics
}
