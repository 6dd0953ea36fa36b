//! What rustc and clippy are told of names that are the document's.

use super::{Emitter, add};
use crate::ir::{Body, TypeDef};
use crate::names::{Names, camel, snake, upper};

impl Emitter<'_> {
    /// For a type, with its fields and variants: the lints that its names would break, no others.
    pub(super) fn allow_type(&self, ty: &TypeDef, out: &mut String) {
        if self.names == Names::Rust {
            return;
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
            (types().any(|name| !is(name, camel)), "non_camel_case_types"),
            (fields.iter().any(|field| !is(&field.ident, snake)), "non_snake_case"),
            (!variants.is_empty(), "clippy::enum_variant_names"),
            (types().any(is_capitals), "clippy::upper_case_acronyms"),
        ];
        allow(&lints, out);
    }

    /// For a constant.
    pub(super) fn allow_const(&self, ident: &str, out: &mut String) {
        allow(&[(self.names == Names::Verbatim && !is(ident, upper), "non_upper_case_globals")], out);
    }

    /// For the module of a version: its types and methods are called as the procedures are.
    pub(super) fn allow_version(&self, out: &mut String) {
        if self.names == Names::Verbatim {
            out.push_str("#[allow(non_camel_case_types, non_snake_case, clippy::upper_case_acronyms)]\n");
        }
    }
}

/// Whether a name is as the lint for its kind wants it.
fn is(ident: &str, wanted: fn(&str) -> String) -> bool {
    wanted(ident.trim_start_matches("r#")) == ident
}

fn is_capitals(ident: &str) -> bool {
    !ident.contains(char::is_lowercase)
}

fn allow(lints: &[(bool, &str)], out: &mut String) {
    let broken: Vec<&str> = lints.iter().filter(|(broken, _)| *broken).map(|(_, lint)| *lint).collect();
    if !broken.is_empty() {
        add(out, ["#[allow(", &broken.join(", "), ")]\n"]);
    }
}
