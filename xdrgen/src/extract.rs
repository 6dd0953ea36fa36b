//! Extracts the XDR of a document and maps the XDR to positions in the document.
//!
//! Documents have three forms. A *marked* document has `///` before each line of XDR. An *indented*
//! document, such as an older RFC, has its definitions between paragraphs of prose; a scanner keeps the
//! parts that parse as definitions. A *plain* document, such as a `.x` file, consists of XDR only.

mod gaps;
mod lines;
mod map;
mod scan;

use std::collections::BTreeSet;

use crate::diag::{Diagnostic, DocumentKind};
use crate::hash::HashSet;
use crate::keywords::{definition_keyword, words};
use crate::source::{Source, SourceId};

pub use lines::Section;
pub use map::Map;
pub(crate) use map::Places;

/// The form in which a document contains its XDR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Each line of XDR begins with `///`, which may be indented.
    Marked,
    /// The XDR is indented text between lines of prose.
    Indented,
    /// The document consists of XDR only.
    Plain,
}

/// The result of a [`Recognizer`].
pub enum Region {
    Definition {
        /// The end of the definition in the text, including comments after it.
        end: usize,
        /// The tokens, separated by single spaces. Of indented definitions with the same key, only the first
        /// is extracted.
        key: String,
        /// The names that the definition uses as sizes.
        sizes: BTreeSet<String>,
        /// The constants and enum members that the definition defines.
        constants: BTreeSet<String>,
        found: Vec<Diagnostic>,
    },
    /// Text that is not a definition, and the reason.
    Broken(Diagnostic),
}

/// A document with its lines, and the recognizer of its definitions.
#[derive(Clone, Copy)]
struct Input<'a> {
    id: SourceId,
    document: &'a str,
    lines: &'a [lines::Line],
    published: bool,
    recognizer: Recognizer<'a>,
}

/// Tries to parse one definition at the start of a text, and ignores the text after the definition. The
/// [`Map`] locates the text in the document. The `bool` is true for a published RFC.
pub type Recognizer<'r> = &'r dyn Fn(&str, &Map, bool) -> Region;

/// The XDR of a document.
#[derive(Clone, Debug)]
pub struct Extract {
    /// The form of the document.
    pub form: Form,
    /// True if the document counts as a published RFC: a line begins with `Request for Comments:` and a
    /// number. An `Indented` document also counts as a published RFC if it has page footers. A published RFC
    /// cannot be corrected, so most mistakes in a published RFC are only warnings.
    pub published: bool,
    /// The XDR text, without `///` marks, page breaks or prose.
    pub text: String,
    /// Maps the bytes of `text` to positions in the document.
    pub map: Map,
    /// The document's sections, in order. A plain document has no sections.
    pub sections: Vec<Section>,
    /// Findings of the extraction, such as unmarked text that resembles a definition.
    pub diagnostics: Vec<Diagnostic>,
}

impl Extract {
    /// Returns an extract that has no sections or findings. Its document does not count as published.
    pub(crate) fn new(form: Form, text: String, map: Map) -> Self {
        Extract { form, published: false, text, map, sections: Vec::new(), diagnostics: Vec::new() }
    }

    /// Returns the title of the section that contains the byte at offset `document`, if any.
    #[must_use]
    pub fn section(&self, document: u32) -> Option<&str> {
        let index = self.sections.partition_point(|section| section.start <= document);
        Some(self.sections.get(index.checked_sub(1)?)?.title.as_str())
    }
}

/// Extracts the XDR of a document. The recognizer distinguishes definitions from prose.
#[must_use]
pub fn extract(id: SourceId, source: &Source, recognizer: Recognizer<'_>) -> Extract {
    let document = source.text();
    let lines = lines::lines(document);
    let form = form(source, &lines);
    let sections = match form {
        Form::Plain => Vec::new(),
        Form::Marked | Form::Indented => lines::sections(document, &lines),
    };
    // Marks show that a document was written for a compiler, so page footers alone do not make it
    // published.
    let published =
        lines::is_numbered(document, &lines) || form == Form::Indented && lines::is_paged(document, &lines);
    let input = Input { id, document, lines: &lines, published, recognizer };
    let extract = match form {
        Form::Marked => marked(input, sections),
        Form::Indented => scan::indented(input, sections),
        Form::Plain => plain(id, document),
    };
    Extract { published, ..extract }
}

fn form(source: &Source, lines: &[lines::Line]) -> Form {
    let document = source.text();
    let extension = source.name().extension().and_then(|extension| extension.to_str()).unwrap_or("");
    if extension == "x" || extension == "xdr" {
        Form::Plain
    } else if lines.iter().any(|line| mark(line.text(document)).is_some()) {
        Form::Marked
    } else if matches!(extension, "txt" | "md") || lines::looks_like_rfc(document, lines) {
        Form::Indented
    } else {
        Form::Plain
    }
}

/// Returns the number of bytes before the XDR of a marked line: indentation, `///`, and at most one
/// space. Returns `None` for an unmarked line.
fn mark(line: &str) -> Option<usize> {
    let indent = line.bytes().position(|byte| !matches!(byte, b' ' | b'\t'))?;
    let rest = line.get(indent..)?.strip_prefix("///")?;
    let rest = rest.strip_prefix(' ').unwrap_or(rest);
    Some(line.len() - rest.len())
}

fn marked(input: Input<'_>, sections: Vec<Section>) -> Extract {
    let Input { id, document, lines, published, .. } = input;
    let mut builder = Builder::new(id, document);
    let mut prose = false;
    let gaps = gaps::gaps(input);
    let mut unmarked_lines = gaps.lines.iter().peekable();
    for (index, line) in lines.iter().enumerate().filter(|(_, line)| !line.page_break) {
        let text = line.text(document);
        // A line without its mark is reported, but still parsed to avoid further findings.
        let unmarked = unmarked_lines.next_if(|next| **next == index).map(|_| 0);
        let Some(skip) = mark(text).or(unmarked) else {
            prose |= !text.trim().is_empty();
            continue;
        };
        // Prose between marked lines becomes an empty line. Without it, the comments above and below the
        // prose would form one comment block.
        if std::mem::take(&mut prose) && !builder.text.is_empty() {
            builder.line_end();
        }
        let start = line.range.start + skip;
        builder.copy(start, start + document.get(start..line.range.end).unwrap_or("").trim_end().len());
        builder.line_end();
    }
    // Published documents may quote definitions of other documents, so their unmarked definitions are not
    // reported.
    let unmarked = if published { Vec::new() } else { unmarked(input, &builder.text) };
    let found = gaps.found.into_iter().chain(unmarked).collect();
    builder.finish(Form::Marked, sections, found)
}

/// Reports definitions without marks in a document with marks. Unmarked text counts as prose, which often
/// repeats marked definitions. A definition is reported only if its name does not occur in the marked XDR.
fn unmarked(Input { id, document, lines, .. }: Input<'_>, xdr: &str) -> Vec<Diagnostic> {
    let words: HashSet<&str> = words(xdr).collect();
    let mut found = Vec::new();
    for line in lines.iter().filter(|line| !line.page_break) {
        let text = line.text(document);
        let Some(name) = definition_keyword(text).filter(|name| !words.contains(name)) else { continue };
        let is_program = text.trim_start().starts_with("program");
        let unmarked = DocumentKind::Unmarked { name: name.to_owned() };
        found.push(unmarked.at(line.span(id, document)).with_omitted(name, is_program));
    }
    found
}

fn plain(id: SourceId, document: &str) -> Extract {
    let mut builder = Builder::new(id, document);
    let start = if document.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    builder.copy(start, document.len());
    builder.finish(Form::Plain, Vec::new(), Vec::new())
}

struct Builder<'a> {
    document: &'a str,
    text: String,
    map: Map,
}

impl<'a> Builder<'a> {
    fn new(id: SourceId, document: &'a str) -> Self {
        Builder { document, text: String::new(), map: Map::new(id) }
    }

    fn copy(&mut self, start: usize, end: usize) {
        let Some(piece) = self.document.get(start..end).filter(|piece| !piece.is_empty()) else { return };
        self.map.push(self.text.len(), start, piece.len());
        self.text.push_str(piece);
    }

    /// Adds text that is not in the document, and maps the text to the offset `document`.
    fn insert(&mut self, text: &str, document: usize) {
        self.map.push(self.text.len(), document, 0);
        self.text.push_str(text);
    }

    fn line_end(&mut self) {
        self.text.push('\n');
    }

    fn finish(self, form: Form, sections: Vec<Section>, diagnostics: Vec<Diagnostic>) -> Extract {
        Extract { sections, diagnostics, ..Extract::new(form, self.text, self.map) }
    }
}
