//! What rustc and clippy are told of names that are the document's.

use proc_macro2::TokenStream;
use quote::quote;

use super::Emitter;
use crate::ir::{Body, TypeDef};
use crate::names::{Names, camel, snake, upper};

impl Emitter<'_> {
    /// For a type, with its fields and variants: the lints that its names would break, no others.
    pub(super) fn allow_type(&self, ty: &TypeDef) -> Option<TokenStream> {
        if self.names == Names::Rust {
            return None;
        }
        let variants: Vec<&str> = match &ty.body {
            Body::Enum(members) => {
                let variants = members.iter().filter(|member| member.same_as.is_none());
                variants.map(|member| member.ident.as_str()).collect()
            }
            Body::Union(union) => union.arms.iter().map(|arm| arm.ident.as_str()).collect(),
            _ => Vec::new(),
        };
        let fields: &[_] = if let Body::Struct(fields) = &ty.body { fields } else { &[] };
        let types = || std::iter::once(ty.ident.as_str()).chain(variants.iter().copied());
        let lints = [
            (types().any(|name| !is(name, camel)), quote!(non_camel_case_types)),
            (fields.iter().any(|field| !is(&field.ident, snake)), quote!(non_snake_case)),
            (!variants.is_empty(), quote!(clippy::enum_variant_names)),
            (types().any(is_capitals), quote!(clippy::upper_case_acronyms)),
        ];
        allow(&lints)
    }

    /// For a constant.
    pub(super) fn allow_const(&self, ident: &str) -> Option<TokenStream> {
        allow(&[(self.names == Names::Verbatim && !is(ident, upper), quote!(non_upper_case_globals))])
    }

    /// For the module of a version: its types and methods are called as the procedures are.
    pub(super) fn allow_version(&self) -> Option<TokenStream> {
        let verbatim = self.names == Names::Verbatim;
        allow(&[
            (verbatim, quote!(non_camel_case_types)),
            (verbatim, quote!(non_snake_case)),
            (verbatim, quote!(clippy::upper_case_acronyms)),
        ])
    }
}

/// Whether a name is as the lint for its kind wants it.
fn is(ident: &str, wanted: fn(&str) -> String) -> bool {
    wanted(ident.trim_start_matches("r#")) == ident
}

fn is_capitals(ident: &str) -> bool {
    !ident.contains(char::is_lowercase)
}

fn allow(lints: &[(bool, TokenStream)]) -> Option<TokenStream> {
    let broken: Vec<&TokenStream> =
        lints.iter().filter(|(broken, _)| *broken).map(|(_, lint)| lint).collect();
    (!broken.is_empty()).then(|| quote!(#[allow(#(#broken),*)]))
}
