//! Naming lints that the names of a document may violate.

use super::Emitter;
use super::code::Code;
use crate::ir::{Body, TypeDef};
use crate::names::{Names, camel, snake, upper};

impl Emitter<'_> {
    pub(super) fn allow_type(&self, ty: &TypeDef, code: &mut Code) {
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
        allow(&lints, code);
    }

    pub(super) fn allow_const(&self, ident: &str, code: &mut Code) {
        allow(&[(self.names == Names::Verbatim && !is(ident, upper), "non_upper_case_globals")], code);
    }

    /// If names are verbatim, writes an `allow` attribute with naming lints for the module of a version,
    /// whose types and methods have the names of procedures.
    pub(super) fn allow_version(&self, code: &mut Code) {
        let lints = ["non_camel_case_types", "non_snake_case", "clippy::upper_case_acronyms"];
        allow(&lints.map(|lint| (self.names == Names::Verbatim, lint)), code);
    }
}

/// Returns true if a name has the case that its lint expects.
fn is(ident: &str, wanted: fn(&str) -> String) -> bool {
    wanted(ident.trim_start_matches("r#")) == ident
}

fn is_capitals(ident: &str) -> bool {
    !ident.contains(char::is_lowercase)
}

fn allow(lints: &[(bool, &str)], code: &mut Code) {
    if lints.iter().any(|(broken, _)| *broken) {
        code.attribute("allow", lints.iter().filter(|(broken, _)| *broken).map(|(_, lint)| *lint));
    }
}
