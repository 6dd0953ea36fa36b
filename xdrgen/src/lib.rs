//! A compiler for the XDR language (RFC 4506) and ONC RPC programs (RFC 5531).
//!
//! A document's text is extracted ([`extract()`]), parsed ([`parse()`]) into what was written ([`ast`]), and
//! checked. Each stage is a function from a value to a value plus [`diag::Diagnostic`]s that lead back to the
//! line and column of the document; none of them reads or writes a file.

pub mod ast;
pub mod cli;
pub mod diag;
pub mod extract;
pub mod parse;
pub mod source;

pub use extract::{Extract, extract};
pub use parse::{Parsed, parse, parse_with};
