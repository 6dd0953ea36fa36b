//! The prelude: names that documents use without defining them, from system headers or the RFCs on RPC.
//!
//! A run uses only the prelude names that its documents do not define. Names of scalar types are mapped
//! directly. The other names are defined by XDR text, and emitted like definitions of a document.

use crate::ast::Definition;
use crate::extract::{Extract, Form, Map};
use crate::hash::HashMap;
use crate::ir::Scalar;
use crate::parse::{ParseOptions, parse_extract};
use crate::source::Span;

/// Definitions from the documents on RPC and from C's RPC headers. Flavors are integers: an unknown
/// flavor must be decoded before a reply can reject it.
const TEXT: &str = "
/* No authentication (RFC 5531 section 8.2). */
const AUTH_NONE = 0;
/* The former name of AUTH_NONE. */
const AUTH_NULL = 0;
/* User and group numbers (RFC 5531 appendix A). */
const AUTH_SYS = 1;
/* The former name of AUTH_SYS. */
const AUTH_UNIX = 1;
/* A shorthand for AUTH_SYS (RFC 5531 appendix A). */
const AUTH_SHORT = 2;
/* Diffie-Hellman (RFC 2695). */
const AUTH_DH = 3;
/* The former name of AUTH_DH. */
const AUTH_DES = 3;
/* Kerberos without the GSS-API (RFC 2695). */
const AUTH_KERB = 4;
/* RSA (RFC 5531 appendix C). */
const AUTH_RSA = 5;
/* GSS-API (RFC 2203). */
const RPCSEC_GSS = 6;
/* Opportunistic TLS (RFC 9289). */
const AUTH_TLS = 7;
/* Flavors of authentication (RFC 5531 section 8.2). */
enum auth_flavor {
    AUTH_NONE = 0,
    AUTH_SYS = 1,
    AUTH_SHORT = 2,
    AUTH_DH = 3,
    AUTH_KERB = 4,
    AUTH_RSA = 5,
    RPCSEC_GSS = 6,
    AUTH_TLS = 7
};
/* A credential or a verifier: its flavor and its body (RFC 5531 section 8.2). */
struct opaque_auth {
    int flavor;
    opaque body<400>;
};
/* The body of an AUTH_SYS credential (RFC 5531 appendix A). */
struct authsys_parms {
    unsigned int stamp;
    string machinename<255>;
    unsigned int uid;
    unsigned int gid;
    unsigned int gids<16>;
};
/* The protection of a call besides authentication, named as in NFS version 4.1 (RFC 5662). */
enum rpc_gss_svc_t {
    rpc_gss_svc_none = 1,
    rpc_gss_svc_integrity = 2,
    rpc_gss_svc_privacy = 3
};
/* The name of rpc_gss_svc_t in RFC 2203 section 5. */
typedef rpc_gss_svc_t rpc_gss_service_t;
/* An object that is opaque to the network (used in RFC 1813 section 6, but not defined there). */
typedef opaque netobj<1024>;
/* An address in the transport's format (RFC 1833 section 2.1). */
struct netbuf {
    unsigned int maxlen;
    opaque buf<>;
};
/* A DES key or block: 8 bytes. */
typedef opaque des_block[8];
/* The maximum length of the network name of a user or a machine (RFC 2695). */
const MAXNETNAMELEN = 255;
";

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

    /// The definition gets the position `place`.
    pub(crate) fn definition(&self, name: &str, place: Span) -> Option<Definition> {
        parsed(self.0.get(name)?, place).pop()
    }
}

/// Returns the name that a definition defines: the last word before the first bracket, `=` or `;`.
fn name_of(definition: &'static str) -> Option<&'static str> {
    definition.split(['{', '=', ';', '<', '[']).next()?.split_ascii_whitespace().next_back()
}

/// Parses definitions that are not in a document, and assigns them a position. Returns no definitions if
/// the text is invalid.
pub(crate) fn parsed(text: &str, place: Span) -> Vec<Definition> {
    let mut map = Map::new(place.source);
    map.push(0, place.start as usize, 0);
    let extract = Extract {
        form: Form::Plain,
        published: false,
        text: text.to_owned(),
        map,
        sections: Vec::new(),
        diagnostics: Vec::new(),
    };
    let (specification, found) = parse_extract(&extract, &ParseOptions::default());
    if found.is_empty() { specification.definitions } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::super::named::defined_name;
    use super::*;

    #[test]
    fn the_prelude_is_complete() {
        let prelude = Prelude::new();
        assert_eq!(prelude.0.len(), TEXT.matches("\n/*").count());
        for name in prelude.0.keys() {
            let known = prelude.definition(name, Span::default()).expect("a definition");
            assert_eq!(defined_name(&known).map(|known| known.name.as_str()), Some(*name));
            assert_eq!(known.docs.len(), 1, "{name}");
        }
    }
}
