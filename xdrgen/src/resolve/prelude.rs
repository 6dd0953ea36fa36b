//! The prelude: names that documents use without defining them, from system headers or the RFCs on RPC.
//!
//! A run uses only the prelude names that its documents do not define. Aliases of scalar types, such as
//! `int32_t`, are replaced by these types. The other names are defined by XDR text, and emitted like
//! definitions of a document.

use crate::ast::Definition;
use crate::diag::has_errors;
use crate::extract::{Extract, Form, Map};
use crate::hash::HashMap;
use crate::ir::Scalar;
use crate::parse::{ParseOptions, parse_extract};
use crate::source::Span;

/// Definitions from the documents on RPC and from C's RPC headers. The flavor in `opaque_auth` is an integer,
/// since an unknown flavor must be decoded before a reply can reject it.
const TEXT: &str = include_str!("prelude.x");

/// Returns the scalar type for an alias such as `int32_t`, if any. XDR's smallest integer has four bytes.
/// Narrower integers are sent as four bytes, and their range is checked.
pub(crate) fn scalar(name: &str) -> Option<Scalar> {
    Some(match name {
        "int32_t" | "int32" | "s_int" | "enum_t" => Scalar::Int,
        "uint32_t" | "uint32" | "u_int32_t" | "u_int32" | "u_int" | "uint" | "uint_t" | "u_long"
        | "ulong" | "ulong_t" | "rpcprog_t" | "rpcvers_t" | "rpcproc_t" | "rpcprot_t" | "rpcport_t" => {
            Scalar::UnsignedInt
        }
        "int64_t" | "int64" | "quad_t" | "longlong_t" => Scalar::Hyper,
        "uint64_t" | "uint64" | "u_int64_t" | "u_int64" | "u_quad_t" | "u_longlong_t" | "u_hyper" => {
            Scalar::UnsignedHyper
        }
        "int16_t" | "int16" | "s_short" => Scalar::Short,
        "uint16_t" | "uint16" | "u_int16_t" | "u_int16" | "u_short" | "ushort" | "ushort_t" => {
            Scalar::UnsignedShort
        }
        "int8_t" | "int8" | "s_char" => Scalar::Char,
        "uint8_t" | "uint8" | "u_int8_t" | "u_int8" | "u_char" | "uchar" | "uchar_t" => Scalar::UnsignedChar,
        "bool_t" => Scalar::Bool,
        _ => return None,
    })
}

pub(crate) fn built_in(name: &str) -> Option<i128> {
    match name {
        "TRUE" | "true" => Some(1),
        "FALSE" | "false" => Some(0),
        _ => None,
    }
}

/// The definitions of the prelude by name, as text with the preceding comment. A run parses only the
/// definitions that it uses.
#[derive(Default)]
pub(crate) struct Prelude(HashMap<&'static str, String>);

impl Prelude {
    pub(crate) fn new() -> Self {
        let entries = TEXT.split("\n/*").filter_map(|entry| Some((entry, entry.split_once("*/\n")?.1)));
        let named = entries.filter_map(|(entry, text)| Some((name_of(text)?, format!("/*{entry}"))));
        Prelude(named.collect())
    }

    /// Returns the prelude's definition of a name, with the position `place`.
    pub(crate) fn definition(&self, name: &str, place: Span) -> Option<Definition> {
        parsed(self.0.get(name)?, place).pop()
    }
}

/// Returns the name that a definition defines: the last word before the first bracket, `=` or `;`.
fn name_of(definition: &'static str) -> Option<&'static str> {
    definition.split(['{', '=', ';', '<', '[']).next()?.split_ascii_whitespace().next_back()
}

/// Parses definitions that are not in a document, and assigns them a position. Returns no definitions if
/// the text is invalid. Drops warnings.
pub(crate) fn parsed(text: &str, place: Span) -> Vec<Definition> {
    let mut map = Map::new(place.source);
    map.push(0, place.start as usize, 0);
    let extract = Extract::new(Form::Plain, text.to_owned(), map);
    let (specification, found) = parse_extract(&extract, &ParseOptions::default());
    if has_errors(&found) { Vec::new() } else { specification.definitions }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prelude_is_complete() {
        let prelude = Prelude::new();
        assert_eq!(prelude.0.len(), TEXT.matches("\n/*").count());
        for name in prelude.0.keys() {
            let known = prelude.definition(name, Span::default()).expect("a definition");
            assert_eq!(known.name().map(|known| known.name.as_str()), Some(*name));
            assert_eq!(known.docs.len(), 1, "{name}");
        }
    }
}
