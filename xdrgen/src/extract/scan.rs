//! Finds definitions in older RFCs: indented text between paragraphs, without marks.
//!
//! A line that begins like a definition is passed to the parser. Only parts that parse are kept, which
//! excludes prose, pseudocode and examples of calls. Text that does not parse but was probably meant as a
//! definition is reported.

use std::collections::BTreeSet;

use super::lines::{Line, Section, heading};
use super::{Builder, Extract, Form, Input, Recognizer, Region};
use crate::diag::{Diagnostic, DocumentKind, Note, SyntaxKind};
use crate::keywords::{begins_definition, first_word, misspelt_keyword, open_comment, words};
use crate::source::{SourceId, Span};

/// Maximum number of bytes of a document that are parsed again because a definition begins on the last line
/// of the previous definition. The limit keeps the run time linear.
const MAX_AGAIN: usize = 1 << 22;

/// The lines of a definition, including a comment before it.
struct Found {
    first: usize,
    /// The line after the last line of the definition.
    next: usize,
    /// The document offset of a definition that begins in the middle of its first line, else 0.
    start: usize,
    /// The offset of the definition's end in the document.
    end: usize,
    indent: usize,
}

/// A size in prose: `NFS3_FHSIZE 64` alone on a line.
struct Size {
    name: std::ops::Range<usize>,
    value: std::ops::Range<usize>,
}

enum Piece {
    /// A definition or a `#define`.
    Definition(Found),
    Size(Size),
}

pub(super) fn indented(input: Input<'_>, sections: Vec<Section>) -> Extract {
    let Input { id, document, lines, published, recognizer } = input;
    let mut scan = Scan {
        id,
        document,
        lines,
        published,
        recognizer,
        pieces: Vec::new(),
        keys: BTreeSet::new(),
        sizes: BTreeSet::new(),
        constants: BTreeSet::new(),
        diagnostics: Vec::new(),
        again: MAX_AGAIN,
    };
    scan.run();
    let sizes = scan.sizes();
    scan.pieces.extend(sizes);
    scan.pieces.sort_by_key(|(line, _)| *line);
    let mut builder = Builder::new(id, document);
    for (_, piece) in &scan.pieces {
        match piece {
            Piece::Definition(found) => copy(&mut builder, lines, found),
            Piece::Size(size) => {
                builder.insert("const ", size.name.start);
                builder.copy(size.name.start, size.name.end);
                builder.insert(" = ", size.value.start);
                builder.copy(size.value.start, size.value.end);
                builder.insert(";\n", size.value.end);
            }
        }
        builder.line_end();
    }
    builder.finish(Form::Indented, sections, scan.diagnostics)
}

/// Returns the end of a `#define`. Excludes a comment that continues on the next line: only the first line
/// is copied, so the comment would stay open and hide later definitions.
fn end_of_define(line: &Line, document: &str) -> usize {
    let text = line.text(document);
    let kept = open_comment(text).and_then(|open| text.get(..open)).unwrap_or(text);
    line.range.start + kept.trim_end().len()
}

/// Copies lines, without page breaks and without the indentation of the definition.
fn copy(builder: &mut Builder<'_>, lines: &[Line], found: &Found) {
    for line in lines.get(found.first..found.next).unwrap_or_default().iter().filter(|line| !line.page_break)
    {
        let text = line.text(builder.document);
        let blanks = (text.len() - text.trim_start_matches(' ').len()).min(found.indent);
        let start = (line.range.start + blanks).max(found.start);
        let end = (line.range.start + text.trim_end().len()).min(found.end).max(start);
        builder.copy(start, end);
        builder.line_end();
    }
}

struct Scan<'a> {
    id: SourceId,
    document: &'a str,
    lines: &'a [Line],
    published: bool,
    recognizer: Recognizer<'a>,
    /// The parts to extract, each with its first line.
    pieces: Vec<(usize, Piece)>,
    keys: BTreeSet<String>,
    sizes: BTreeSet<String>,
    constants: BTreeSet<String>,
    diagnostics: Vec<Diagnostic>,
    /// The number of bytes that may still be parsed again.
    again: usize,
}

impl<'a> Scan<'a> {
    fn text(&self, line: usize) -> &'a str {
        self.lines.get(line).filter(|line| !line.page_break).map_or("", |line| line.text(self.document))
    }

    fn run(&mut self) {
        let mut line = 0;
        let mut free = 0;
        while line < self.lines.len() {
            let text = self.text(line);
            if is_define(text) {
                if self.keys.insert(text.split_ascii_whitespace().collect::<Vec<_>>().join(" ")) {
                    self.constants.extend(text.split_ascii_whitespace().nth(1).map(str::to_owned));
                    let end = self.lines.get(line).map_or(0, |line| end_of_define(line, self.document));
                    let found = Found { first: line, next: line + 1, start: 0, end, indent: usize::MAX };
                    self.pieces.push((line, Piece::Definition(found)));
                }
            } else if begins_definition(text)
                && let Some(next) = self.definitions(line, free)
            {
                line = next.max(line + 1);
                free = line;
                continue;
            } else if let Some(next) = self.misspelt(line) {
                line = next.max(line + 1);
                continue;
            }
            line += 1;
        }
    }

    /// Tries to parse a definition at `line`, and further definitions that each begin on the last line of the
    /// previous definition. Returns the line after these definitions, or `None` if the line begins no
    /// definition.
    fn definitions(&mut self, line: usize, free: usize) -> Option<usize> {
        let mut end = self.definition(line, 0, free)?;
        loop {
            let next = self.lines.partition_point(|line| line.range.start < end);
            let last = next.checked_sub(1)?;
            let rest = self.document.get(end..self.lines.get(last)?.range.end).unwrap_or("");
            let start = end + rest.len() - rest.trim_start().len();
            let after = begins_definition(rest).then(|| self.definition(last, start, last)).flatten();
            match after.filter(|after| *after > end) {
                Some(after) => end = after,
                None => return Some(next),
            }
        }
    }

    /// Tries to parse a definition at `line`, or at the offset `start` inside the line. Returns the offset of
    /// the definition's end on success.
    fn definition(&mut self, line: usize, start: usize, free: usize) -> Option<usize> {
        let text = self.text(line);
        let indent = text.len() - text.trim_start_matches(' ').len();
        let inside = start.saturating_sub(self.lines.get(line)?.range.start);
        let text = text.get(inside..).unwrap_or("");
        let limit = self.limit(line);
        let mut builder = Builder::new(self.id, self.document);
        copy(&mut builder, self.lines, &Found { first: line, next: limit, start, end: usize::MAX, indent });
        if inside > 0 && !self.may_parse_again(builder.text.len(), text, start) {
            return None;
        }
        match (self.recognizer)(&builder.text, &builder.map, self.published) {
            Region::Definition { end, key, sizes, constants, found } => {
                let document_end = builder.map.document(u32::try_from(end).ok()?) as usize;
                let next = self.lines.partition_point(|line| line.range.start < document_end);
                self.sizes.extend(sizes);
                self.constants.extend(constants);
                if self.keys.insert(key) {
                    let above = if inside > 0 { None } else { self.comment_before(line, free) };
                    let first = above.unwrap_or(line);
                    let found = Found { first, next, start, end: document_end, indent };
                    self.pieces.push((first, Piece::Definition(found)));
                }
                let published = self.published;
                self.diagnostics.extend(found.into_iter().map(|found| found.weakened_if(published)));
                Some(document_end)
            }
            Region::Broken(found) => {
                if is_probably_intended(text) {
                    let mut words = words(text);
                    let (keyword, name) = (words.next(), words.next().unwrap_or(""));
                    // The name that a typedef defines is at the end.
                    let name = if keyword == Some("typedef") { "" } else { name };
                    let published = self.published;
                    let found = found.weakened_if(published).with_note(Note::Scanned { published });
                    self.diagnostics.push(found.with_omitted(name, keyword == Some("program")));
                }
                None
            }
        }
    }

    /// Returns true and counts `length` bytes if [`MAX_AGAIN`] permits parsing them again. Otherwise, reports
    /// the definition at the start of `text`, whose offset in the document is `start`.
    fn may_parse_again(&mut self, length: usize, text: &str, start: usize) -> bool {
        if let Some(left) = self.again.checked_sub(length) {
            self.again = left;
            return true;
        }
        let keyword = text.split_ascii_whitespace().next().unwrap_or("");
        let span = Span::of(self.id, start..start + keyword.len());
        let found = DocumentKind::SharedLine { mib: MAX_AGAIN >> 20 }.at(span);
        self.diagnostics.push(found.weakened_if(self.published).with_omitted("", true));
        false
    }

    /// Reports a definition whose first word is a misspelled keyword, and returns the line after the
    /// definition. In a published document, such text counts as prose.
    fn misspelt(&mut self, line: usize) -> Option<usize> {
        let text = self.text(line);
        let (word, keyword) = misspelt_start(text).filter(|_| !self.published)?;
        let mut builder = Builder::new(self.id, self.document);
        let start = self.lines.get(line)?.range.start + text.len() - text.trim_start().len();
        builder.insert(keyword, start);
        builder.copy(start + word.len(), self.lines.get(line)?.range.end);
        builder.line_end();
        let next = self.limit(line);
        let found = Found { first: line + 1, next, start: 0, end: usize::MAX, indent: 0 };
        copy(&mut builder, self.lines, &found);
        let Region::Definition { end, .. } = (self.recognizer)(&builder.text, &builder.map, false) else {
            return None;
        };
        let span = Span::of(self.id, start..start + word.len());
        let name = first_word(text.trim_start().get(word.len()..).unwrap_or(""));
        let found = SyntaxKind::Misspelt { word: word.to_owned(), meant: keyword }.at(span);
        self.diagnostics.push(found.with_omitted(name, keyword == "program"));
        let end = builder.map.document(u32::try_from(end).ok()?) as usize;
        Some(self.lines.partition_point(|line| line.range.start < end))
    }

    /// Returns the first line after `line` that cannot belong to a definition at `line`: a heading, or the
    /// start of another definition. Definitions do not nest, so a line is parsed again only if another
    /// definition begins on the last line of a definition.
    fn limit(&self, line: usize) -> usize {
        let is_limit = |next: &usize| {
            let text = self.text(*next);
            heading(text).is_some()
                || begins_definition(text)
                || !self.published && misspelt_start(text).is_some()
        };
        (line + 1..self.lines.len()).find(is_limit).unwrap_or(self.lines.len())
    }

    /// Returns the first line of the comment above a line, if any. At most one blank line, or a page break,
    /// may separate the comment from the line. Searches at most 200 lines, and none above `free`.
    fn comment_before(&self, line: usize, free: usize) -> Option<usize> {
        let above = (free..line).rev();
        let last = above.clone().find(|above| !self.text(*above).trim().is_empty())?;
        let apart =
            line - last - 1 > 1 && !self.lines.get(last + 1..line)?.iter().any(|line| line.page_break);
        if apart || !self.text(last).trim_end().ends_with("*/") {
            return None;
        }
        let begins = |above: &usize| self.text(*above).trim_start().starts_with("/*");
        (free..=last).rev().take(200).find(begins)
    }

    /// Returns the sizes that definitions use, but that only a line of prose defines.
    fn sizes(&self) -> Vec<(usize, Piece)> {
        let mut wanted: BTreeSet<&str> = self.sizes.difference(&self.constants).map(String::as_str).collect();
        let mut sizes = Vec::new();
        for (index, line) in self.lines.iter().enumerate().filter(|(_, line)| !line.page_break) {
            let text = line.text(self.document);
            let mut words = text.split_ascii_whitespace();
            let (Some(name), Some(value), None) = (words.next(), words.next(), words.next()) else {
                continue;
            };
            if value.parse::<u32>().is_ok() && wanted.remove(name) {
                let at = |word: &str| {
                    text.rfind(word).map(|at| line.range.start + at..line.range.start + at + word.len())
                };
                let (Some(name), Some(value)) = (at(name), at(value)) else { continue };
                sizes.push((index, Piece::Size(Size { name, value })));
            }
        }
        sizes
    }
}

/// Returns true if unparsable text was probably meant as a definition, not as prose or a grammar rule.
fn is_probably_intended(text: &str) -> bool {
    let text = text.trim();
    match text.split(' ').next().unwrap_or("") {
        "typedef" => {
            text.contains('{') || text.ends_with(';') && words(text).count() > 2 && !text.contains("<<")
        }
        "const" => text.ends_with(';') || text.ends_with("*/"),
        _ => text.ends_with('{') || text.ends_with("*/"),
    }
}

/// Returns a line's first word and the keyword that the word probably stands for, if a body begins on
/// the line.
fn misspelt_start(line: &str) -> Option<(&str, &'static str)> {
    let word = first_word(line);
    let keyword = line.contains('{').then(|| misspelt_keyword(word)).flatten()?;
    Some((word, keyword))
}

/// Returns true for `#define NAME value` if the value may be a number: it begins with a digit, a sign, `~` or
/// `(`. If the value is not a number, the parser treats the line as C code. Returns false for macros with
/// parameters or several lines.
fn is_define(line: &str) -> bool {
    let is_number = |c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '~' | '(');
    let mut words = line.split_ascii_whitespace();
    !line.trim_end().ends_with('\\')
        && words.next() == Some("#define")
        && words.next().is_some_and(|name| !name.contains('('))
        && words.next().is_some_and(|value| value.starts_with(is_number))
}
