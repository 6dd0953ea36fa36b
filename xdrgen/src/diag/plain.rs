//! Findings as plain text, without a rendering library, for build scripts.

use std::ops::Range;

use super::{Diagnostic, Label, Text};
use crate::source::{Source, Sources, Span};

/// Renders findings as plain text in the given order, separated by blank lines. Each finding has its
/// position and message, the lines of the documents with the labels below them, and the help.
#[must_use]
pub fn plain(diagnostics: &[Diagnostic], sources: &Sources) -> String {
    let texts: Vec<String> = diagnostics.iter().map(|found| finding(found, sources)).collect();
    texts.join("\n")
}

/// Renders each finding on one line, for editors and `grep`:
/// `file:line:column: error[X212]: message; help`. A finding without a position begins with
/// `rpcrdma-xdrgen`.
#[cfg(feature = "cli")]
#[must_use]
pub fn short(diagnostics: &[Diagnostic], sources: &Sources) -> String {
    let line = |found: &Diagnostic| {
        let text = found.text();
        let help = text.help.as_ref().map_or_else(String::new, |help| format!("; {help}"));
        format!("{}{help}\n", head(found, &text, sources))
    };
    diagnostics.iter().map(line).collect()
}

/// Returns `file:line:column: error[X212]: message`. Without a position, the text begins with the program's
/// name.
fn head(found: &Diagnostic, text: &Text, sources: &Sources) -> String {
    let source = sources.get(found.span.source);
    let place = source.map_or_else(|| "rpcrdma-xdrgen".to_owned(), |source| place(source, text.primary.span));
    format!("{place}: {}[{}]: {}", found.severity.name(), found.code(), text.message)
}

/// Returns `file:line:column`, the start of a span.
pub(crate) fn place(source: &Source, span: Span) -> String {
    let at = source.line_column(span.start);
    format!("{}:{}:{}", source.name().display(), at.line, at.column)
}

fn finding(found: &Diagnostic, sources: &Sources) -> String {
    let message = found.text();
    let primary = std::iter::once((&message.primary, '^'));
    let labels = primary.chain(message.related.iter().map(|label| (label, '-')));
    let lines: Vec<Line<'_>> =
        labels.filter_map(|(label, mark)| Line::of(label, mark, sources.get(label.span.source)?)).collect();
    let width = lines.iter().map(|line| line.number.to_string().len()).max().unwrap_or(0);
    let mut text = head(found, &message, sources) + "\n";
    let mut above: Option<&Line<'_>> = None;
    for line in &lines {
        if !above.is_some_and(|above| std::ptr::eq(above.text, line.text)) {
            if line.mark == '-' {
                text.push_str(&format!("{:width$}::: {}\n", "", place(line.source, line.label.span)));
            }
            text.push_str(&format!("{:width$} |\n{:width$} | {}\n", "", line.number, printable(line.text)));
        }
        text.push_str(&format!("{:width$} | {}\n", "", line.marks()));
        above = Some(line);
    }
    if let Some(help) = &message.help {
        if !lines.is_empty() {
            text.push_str(&format!("{:width$} |\n", ""));
        }
        text.push_str(&format!("{:width$} = help: {help}\n", ""));
    }
    text
}

/// Maximum number of bytes shown before a span and after a span in a long line. Also the maximum length of a
/// marked span.
pub(super) const SIDE: usize = 500;

/// The line of a document that contains a label, or the part near the label if the line is very long.
struct Line<'a> {
    source: &'a Source,
    label: &'a Label,
    mark: char,
    number: u32,
    text: &'a str,
    /// The label's position in `text`.
    range: Range<usize>,
}

impl<'a> Line<'a> {
    fn of(label: &'a Label, mark: char, source: &'a Source) -> Option<Self> {
        let text = source.text();
        let Range { start, end } = range(label, text);
        let side = boundary(text, start.saturating_sub(SIDE));
        let from = side + text.get(side..start)?.rfind('\n').map_or(0, |end| end + 1);
        let side = boundary(text, end.saturating_add(SIDE));
        let after = text.get(end..side)?;
        let to = end + after.find(['\n', '\r']).unwrap_or(after.len());
        let number = source.line_column(label.span.start).line;
        Some(Line { source, label, mark, number, text: text.get(from..to)?, range: start - from..end - from })
    }

    /// Returns the line of marks under the label's span, followed by the label's text.
    fn marks(&self) -> String {
        let columns =
            |range: Range<usize>| self.text.get(range).map_or(0, |text| printable(text).chars().count());
        let blank = " ".repeat(columns(0..self.range.start));
        let line = self.mark.to_string().repeat(columns(self.range.clone()).max(1));
        format!("{blank}{line} {}", self.label.text).trim_end().to_owned()
    }
}

/// Replaces each tab with four spaces, and each other control character with U+FFFD. Control characters could
/// move the terminal's cursor.
fn printable(text: &str) -> String {
    let text = text.replace('\t', "    ");
    text.replace(char::is_control, "\u{fffd}")
}

/// Returns the range of a label in the text, limited to one line and to [`SIDE`] bytes.
pub(super) fn range(label: &Label, text: &str) -> Range<usize> {
    let start = boundary(text, label.span.start as usize);
    let end = boundary(text, (label.span.end as usize).min(start.saturating_add(SIDE))).max(start);
    let line_end = text.get(start..end).and_then(|place| place.find(['\n', '\r']));
    // A single tab gets an empty range, whose mark is one column wide. The mark of the tab itself would be
    // several columns wide.
    let end = if text.get(start..end) == Some("\t") { start } else { end };
    start..line_end.map_or(end, |length| start + length)
}

/// Returns the nearest character boundary at or before `offset`.
pub(super) fn boundary(text: &str, offset: usize) -> usize {
    let mut offset = offset.min(text.len());
    while !text.is_char_boundary(offset) {
        offset -= 1;
    }
    offset
}
