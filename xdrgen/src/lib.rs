//! A compiler for the XDR language (RFC 4506) and ONC RPC programs (RFC 5531).
//!
//! A document's text is extracted ([`extract()`]), parsed ([`parse()`]) into what was written ([`ast`]), and
//! checked. Each stage is a function from a value to a value plus [`diag::Diagnostic`]s that lead back to the
//! line and column of the document; none of them reads or writes a file.
//!
//! Published RFCs have mistakes that nobody can mend any more, and the older ones have their XDR between paragraphs of
//! prose, without marks. Only there, in a document with the `Request for Comments:` line of a published RFC or, without
//! marks, with the feet of pages, is a name taken for the one that differs by a slip of the pen, and a definition that is
//! wrong left out; each with a warning. In any other document both are errors, with the nearest name as help.

pub mod ast;
mod binding;
mod build_script;
#[cfg(feature = "cli")]
pub mod cli;
pub mod compat;
pub mod diag;
pub mod diff;
mod emit;
pub mod extract;
pub mod generate;
mod hash;
pub mod include;
pub mod ir;
pub mod names;
mod namespace;
pub mod parse;
mod sema;
pub mod sizes;
pub mod source;
mod unread;

pub use build_script::{Build, BuildError};
pub use compat::{Compat, compat};
pub use diff::{Diff, diff};
pub use extract::{Extract, extract};
pub use generate::{Generated, Manifest, Options, Output, Package, Summary, check, generate};
pub use ir::Data;
pub use names::Names;
pub use parse::{Parsed, parse, parse_with};
