//! What may have been meant by a type's name that nothing defines.

use super::scope::{Scope, nearest};
use crate::ast::Identifier;
use crate::diag::Diagnostic;

/// The types that need no definition.
const BUILT_IN: &[&str] = &[
    "bool",
    "char",
    "double",
    "float",
    "hyper",
    "int",
    "int32_t",
    "int64_t",
    "long",
    "opaque",
    "quadruple",
    "short",
    "string",
    "uint32_t",
    "uint64_t",
    "unsigned",
];

/// What other languages call a type, and how XDR writes it.
const ELSEWHERE: &[(&str, &str)] = &[
    ("boolean", "bool"),
    ("byte", "opaque name[1]"),
    ("bytes", "opaque name<>"),
    ("f32", "float"),
    ("f64", "double"),
    ("i32", "int"),
    ("i64", "hyper"),
    ("integer", "int"),
    ("size_t", "unsigned hyper"),
    ("ssize_t", "hyper"),
    ("str", "string name<>"),
    ("text", "string name<>"),
    ("u32", "unsigned int"),
    ("u64", "unsigned hyper"),
];

/// Says of a type's name that nothing defines what it may be a slip of, and else where its definition can come from.
pub(crate) fn for_type(missing: &Identifier, scope: &Scope<'_>, error: Diagnostic) -> Diagnostic {
    let name = missing.name.as_str();
    if let Some(value) = scope.value_named(name) {
        return error.with_related(value.span, "this is a value, not a type");
    }
    if let Some((_, xdr)) = ELSEWHERE.iter().find(|(other, _)| name.eq_ignore_ascii_case(other)) {
        return error.with_help(format!("XDR writes it `{xdr}`"));
    }
    if let Some(near) = scope.type_like(missing) {
        return error.with_help(format!("`{near}` is defined; is that what is meant?"));
    }
    if let Some(near) = nearest(name, BUILT_IN.iter().copied()).filter(|_| name.len() > 2) {
        return error.with_help(format!("`{near}` is a type of XDR; is that what is meant?"));
    }
    let help = "compile the document that defines it together with this one, or name the type in Rust";
    error.with_help(format!("{help}: `--extern {name}=path::to::Type`"))
}
