//! A compiler for the XDR language (RFC 4506) and ONC RPC programs (RFC 5531).
//!
//! ```text
//! text -> extract -> parse -> resolve -> check -> lower -> emit -> files
//!         spans      AST      HIR        findings Rust IR  text
//!                                \-> compare: compat, diff
//! ```
//!
//! [`extract()`] finds the XDR in a document. [`parse()`] builds a syntax tree (`ast`). `resolve` builds a
//! protocol (`hir`) with resolved names and evaluated constants. `check` enforces the rules that need all
//! definitions. `lower` builds a Rust IR (`ir`) with names, boxes, derives, lists and borrowed data.
//! `emit` produces the text. Each stage operates on values in memory. All stages except `emit` also report
//! [`Diagnostic`]s with positions in the document. No stage reads or writes a file. [`mod@generate`] runs the
//! stages in order.
//!
//! A published RFC cannot be corrected. A document counts as published if a line begins with
//! `Request for Comments:` and a number. A document with page footers also counts as published, unless its
//! XDR is marked with `///` or its file name ends in `.x` or `.xdr`. In a published RFC, a misspelled name is
//! read as the intended name if only one name can be meant. Most invalid definitions are omitted. Both cause
//! warnings. In any other document, misspelled names and invalid definitions are errors. For a misspelled
//! name, the help suggests the most similar name.
//!
//! ```
//! use rpcrdma_xdrgen::{Options, Source, Sources, generate};
//!
//! let mut sources = Sources::default();
//! sources.add(Source::new("kv.x", "struct pair { string key<64>; opaque value<>; };"));
//! let generated = generate(&sources, &Options::module("kv"));
//! assert!(generated.diagnostics.is_empty());
//! let (_, text) = &generated.files[0];
//! assert!(text.contains("pub struct Pair"));
//! ```
//!
//! | to | use |
//! |---|---|
//! | compile documents in a build script | [`Build`] |
//! | compile, or only check, texts in memory | [`generate()`], [`check`] |
//! | compare two versions of a protocol | [`compat()`], [`diff()`] |
//! | compute the sizes of messages | [`sizes`] |
//! | render [`Diagnostic`]s as text | [`diag::plain`] |

#[doc(hidden)]
pub mod ast;
mod binding;
mod build_script;
mod check;
#[cfg(feature = "cli")]
pub mod cli;
mod compare;
pub mod compat;
pub mod diag;
pub mod diff;
mod emit;
#[doc(hidden)]
pub mod extract;
pub mod generate;
mod graph;
mod hash;
#[doc(hidden)]
pub mod hir;
#[doc(hidden)]
pub mod include;
#[doc(hidden)]
pub mod ir;
mod keywords;
mod lower;
#[doc(hidden)]
pub mod names;
mod namespace;
mod options;
pub mod parse;
mod relative;
mod resolve;
mod similarity;
pub mod sizes;
#[doc(hidden)]
pub mod source;
mod unread;

pub use build_script::{Build, BuildError};
pub use compat::{Compat, compat};
pub use diag::{Diagnostic, Severity};
pub use diff::{Diff, diff};
pub use extract::Extract;
pub use generate::{Generated, Manifest, Options, Output, Package, Summary, check, generate};
pub use ir::Data;
pub use names::Names;
pub use parse::{Dialect, ParseOptions, Parsed, extract, parse, parse_with};
pub use source::{LineColumn, Source, SourceId, Sources, Span};
