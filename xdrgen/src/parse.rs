//! Parses documents.
//!
//! The grammar is that of RFC 4506 section 6.3 and RFC 5531 section 12.2, with one function per
//! production. The run time is linear in the text, and bodies nest at most 64 levels deep. The parser also
//! accepts extensions of published documents, rpcgen, xdrpp and Linux's XDR compiler:
//!
//! - `%` lines, preprocessor lines, `pragma` lines, macros with parameters, and namespaces
//! - `struct name`, `unsigned`, `char`, `short` and `long` as types
//! - implicit enum values, and characters as numbers
//! - names of arguments, and strings and arrays as arguments and results

mod additions;
mod condition;
mod decl;
mod def;
mod docs;
pub(crate) mod expression;
mod lex;
mod macros;
mod program;
mod recover;
mod region;
mod token;
mod tokens;
mod undefs;

use std::cell::RefCell;
use std::collections::BTreeSet;

use crate::ast::Specification;
use crate::diag::{
    self, Count, Diagnostic, DocumentKind, Found, Kind, Note, Omitted, PortabilityKind, Severity, SyntaxKind,
};
use crate::extract::{self, Extract, Form};
use crate::source::{Kind as SourceKind, Source, SourceId, Sources, Span};

pub(crate) use macros::explain;

/// The language of a document.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dialect {
    /// The language of RFC 4506 and RFC 5531, with extensions of rpcgen and xdrpp.
    #[default]
    Rfc,
    /// Like `Rfc`, with xdrzcc's keywords. Variable-length `zcopaque` is DDP-eligible opaque data. An arm of
    /// an `opaque_union` is opaque data that contains the encoded arm, because xdrzcc sends the arm's length
    /// before the arm.
    Xdrzcc,
}

/// The options of the parser.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParseOptions {
    /// The language of the documents.
    pub dialect: Dialect,
    /// Names that are defined for `#ifdef`, in the form of `-D`: `NAME` or `NAME=VALUE`. A document's own
    /// `#define` lines define further names.
    pub defined: BTreeSet<String>,
    #[doc(hidden)]
    pub non_exhaustive: (),
}

/// The parsed documents of a run.
#[derive(Clone, Debug, Default)]
pub struct Parsed {
    /// The definitions of each document.
    pub documents: Vec<(SourceId, Specification)>,
    /// The findings in source order. A document with errors still yields its valid definitions.
    pub diagnostics: Vec<Diagnostic>,
    /// The number of further findings, which are counted but not stored.
    pub more: Count,
}

/// Extracts the XDR of a document in any form. In an indented document, text counts as a definition if it
/// parses as a definition.
#[must_use]
pub fn extract(id: SourceId, source: &Source) -> Extract {
    extract::extract(id, source, &region::region)
}

/// Extracts and parses all documents. For `#ifdef`, only a document's own `#define` lines define names.
#[must_use]
pub fn parse(sources: &Sources) -> Parsed {
    parse_with(sources, &ParseOptions::default())
}

/// Extracts and parses all documents. Ignores bindings.
#[must_use]
pub fn parse_with(sources: &Sources, options: &ParseOptions) -> Parsed {
    let mut parsed = Parsed::default();
    for (id, source) in sources.iter().filter(|(_, source)| source.kind() != SourceKind::Binding) {
        let extract = extract(id, source);
        let (specification, found) = read(&extract, options);
        parsed.documents.push((id, specification));
        parsed.diagnostics.extend(found.kept);
        parsed.more = parsed.more.and(found.more);
    }
    diag::sort(&mut parsed.diagnostics);
    parsed
}

/// Parses the text extracted from one document. The findings include those of the extraction. At most 4096
/// errors and 4096 warnings are returned.
#[must_use]
pub fn parse_extract(extract: &Extract, options: &ParseOptions) -> (Specification, Vec<Diagnostic>) {
    let (specification, found) = read(extract, options);
    (specification, found.kept)
}

/// Like [`parse_extract`], but also returns the number of findings that were not stored.
pub(crate) fn read(extract: &Extract, options: &ParseOptions) -> (Specification, Found) {
    let blocks = if is_lenient(extract) { additions::find(&extract.text) } else { Vec::new() };
    let (mut specification, mut found) = if blocks.is_empty() {
        parse_text(extract, options)
    } else {
        let blanked = Extract { text: additions::blanked(&extract.text, &blocks), ..extract.clone() };
        parse_text(&blanked, options)
    };
    for block in blocks {
        let (mut added, of_block) = parse_text(&block.definition(extract), options);
        for definition in &mut added.definitions {
            definition.section = extract.section(definition.span.start).map(str::to_owned);
        }
        found.extend(block.nested(extract));
        // The last line of an addition conventionally ends with a `,`, so this `,` is not reported.
        let findings = of_block
            .kept
            .into_iter()
            .filter(|found| found.kind != Kind::Portability(PortabilityKind::LastComma));
        found.extend(findings.map(weakened));
        specification.additions.extend(added.definitions);
    }
    let nothing = specification.definitions.is_empty() && specification.additions.is_empty();
    if nothing && is_lenient(extract) && !found.kept.is_empty() {
        // The `///` marks have another meaning: in RFC 7532, for example, they mark a directory schema.
        let start = found.kept.first().map_or(extract.map.span(0..0), |found| found.span);
        let error = DocumentKind::NoXdr.at(start);
        specification.unread.push(Span { start: 0, end: u32::MAX, ..start });
        let mut only = Found::default();
        only.push(error);
        return (specification, only);
    }
    if nothing && found.kept.is_empty() {
        let start = Span::of(extract.map.source(), 0..0);
        found.push(DocumentKind::NoDefinition.at(start).with_omitted("", true));
    }
    diag::sort(&mut found.kept);
    (specification, found)
}

/// Returns true for a published RFC with marked XDR: text that cannot be parsed is omitted with a warning.
/// For an indented RFC, the extraction (`extract/scan.rs`) decides which text to omit.
fn is_lenient(extract: &Extract) -> bool {
    extract.published && extract.form == Form::Marked
}

fn weakened(mut found: Diagnostic) -> Diagnostic {
    // A missing `,` between members is assumed to be present; an extra word after the members is skipped.
    let read = matches!(found.kind, Kind::Syntax(SyntaxKind::NoComma | SyntaxKind::StrayWord { .. }));
    if found.is_error() && !read {
        found.notes.push(Note::Unread);
        found.omitted.get_or_insert(Omitted { is_program: true, ..Omitted::default() });
    }
    Diagnostic { severity: Severity::Warning, ..found }
}

/// Returns the names of the files in `#include "..."` lines, with their positions. C files such as `.h` and
/// `.c` are omitted.
pub(crate) fn includes(extract: &Extract, options: &ParseOptions) -> Vec<(String, Span)> {
    let pasted = macros::Pasted::default();
    let conditions = condition::Conditions::new(&options.defined);
    let lexed = lex::lex(&extract.text, &extract.map, conditions, &pasted);
    // Lines with `%` are only for C.
    let is_for_xdr = |line: &&token::OtherLine| {
        extract.text.get(line.start as usize..).is_some_and(|text| text.starts_with('#'))
    };
    lexed.c_lines.iter().filter(is_for_xdr).filter_map(|line| line.included(&extract.map)).collect()
}

fn parse_text(extract: &Extract, options: &ParseOptions) -> (Specification, Found) {
    let conditions = condition::Conditions::new(&options.defined);
    let pasted = macros::Pasted::default();
    let lexed = lex::lex(&extract.text, &extract.map, conditions, &pasted);
    let context = tokens::Context {
        text: &extract.text,
        map: &extract.map,
        lexed: &lexed,
        prose: false,
        published: extract.published,
        dialect: options.dialect,
        found: RefCell::default(),
    };
    let mut specification = def::specification(&context, extract);
    let of_grammar = context.found.into_inner();
    specification.expansions = lexed.expansions.into_iter().map(|(_, expansion)| expansion).collect();
    specification.hidden = lexed.hidden;
    let mut found = Found::default();
    found.extend(extract.diagnostics.iter().cloned());
    // For an indented document, the extraction has already reported the findings of this text.
    if extract.form != Form::Indented {
        let lenient = is_lenient(extract);
        for one in [lexed.diagnostics, of_grammar] {
            found.append(if lenient { one.weakened(weakened) } else { one });
        }
    }
    macros::explain(&mut found.kept, &specification.expansions);
    diag::sort(&mut found.kept);
    (specification, found)
}
