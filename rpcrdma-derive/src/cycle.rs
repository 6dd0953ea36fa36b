//! Detects fields that refer back to the derived type.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::{GenericArgument, Generics, Ident, Type};

use crate::syntax::{arguments, is_one_of, mentions, parameters, type_arguments, type_name};

/// How a field refers back to the derived type.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Cycle {
    /// The field is of the derived type, or an array or option of this type: the type would be infinitely
    /// large.
    InPlace,
    /// The field contains only values of the derived type, as in `Option<Box<Self>>` or `Vec<Self>`.
    Own,
    /// The field contains the derived type inside another type, or is marked as recursive.
    Hidden,
}

#[derive(Clone, Copy)]
pub(crate) struct Owner<'a> {
    pub(crate) ident: &'a Ident,
    pub(crate) generics: &'a Generics,
}

impl Owner<'_> {
    /// Returns how a field of type `ty` refers back to the derived type, if at all. `is_marked` is true if
    /// the field has `#[xdr(recursive)]`.
    pub(crate) fn cycle(self, ty: &Type, is_marked: bool) -> Option<Cycle> {
        if self.is_in_place(ty) {
            Some(Cycle::InPlace)
        } else if self.items_of(ty, None).is_some() {
            Some(Cycle::Own)
        } else {
            let names_owner = |name: &Ident| name == self.ident || name == "Self";
            (is_marked || mentions(ty.to_token_stream(), &names_owner)).then_some(Cycle::Hidden)
        }
    }

    fn is_in_place(self, ty: &Type) -> bool {
        match ty {
            Type::Array(array) => self.is_in_place(&array.elem),
            ty if is_one_of(ty, &["Option"]) => type_arguments(ty).any(|of| self.is_in_place(of)),
            ty => self.is_named(ty),
        }
    }

    /// Returns true if `ty` names the derived type, with any arguments.
    fn is_named(self, ty: &Type) -> bool {
        let Type::Path(path) = ty else { return false };
        path.path.segments.len() == 1
            && type_name(ty).is_some_and(|name| name == self.ident || name == "Self")
    }

    /// Returns true if `ty` is the derived type with the same arguments. With other arguments, the type may
    /// contain other items.
    fn is_self(self, ty: &Type) -> bool {
        let own = parameters(self.generics).map(ToString::to_string);
        let explicit = plain(ty).map(|argument| argument.to_token_stream().to_string());
        self.is_named(ty) && (is_one_of(ty, &["Self"]) || explicit.eq(own))
    }

    /// Returns the items of `ty` if `ty` contains only values of the derived type. The result is an
    /// expression that uses `__own`, the items of the derived type. `bound` is the maximum count of a `Vec`.
    pub(crate) fn items_of(self, ty: &Type, bound: Option<&TokenStream>) -> Option<TokenStream> {
        if self.is_self(ty) {
            return Some(quote!(__own));
        }
        match ty {
            Type::Array(array) => {
                let (of, len) = (self.items_of(&array.elem, None)?, &array.len);
                Some(quote!(#of.times((#len) as u64)))
            }
            Type::Group(group) => self.items_of(&group.elem, bound),
            ty if is_one_of(ty, &["Box", "BoxRef", "Option"]) => {
                self.items_of(type_arguments(ty).next()?, None)
            }
            ty if is_one_of(ty, &["Vec", "ArrayRef", "ListRef"]) => {
                let of = self.items_of(type_arguments(ty).next()?, None)?;
                let count = bound.cloned().or_else(|| plain(ty).nth(1).map(ToTokens::to_token_stream));
                let count = count.unwrap_or_else(|| quote!(u32::MAX));
                Some(quote!(#of.array(#count)))
            }
            _ => None,
        }
    }
}

/// Returns a type's arguments other than lifetimes.
fn plain(ty: &Type) -> impl Iterator<Item = &GenericArgument> {
    arguments(ty).into_iter().flatten().filter(|argument| !matches!(argument, GenericArgument::Lifetime(_)))
}
