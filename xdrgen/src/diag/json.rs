//! Findings as JSON for editors and other programs, one object per line.

use serde::Serialize;

use super::{Count, Diagnostic, Label, Text, render};
use crate::source::Sources;

/// One line of JSON. Future versions may add fields but never remove them.
#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum Line<'a> {
    Finding(Finding<'a>),
    Failure { file: Option<&'a str>, message: &'a str },
    Summary { errors: usize, warnings: usize, hidden: usize },
}

#[derive(Serialize)]
struct Finding<'a> {
    code: &'a str,
    severity: &'a str,
    message: &'a str,
    file: Option<String>,
    spans: Vec<Place<'a>>,
    help: Option<&'a str>,
    rendered: String,
}

/// A span of a file. Byte offsets start at 0, lines and columns (in characters) at 1. Ends are exclusive.
#[derive(Serialize)]
struct Place<'a> {
    file: String,
    byte_start: u32,
    byte_end: u32,
    line_start: u32,
    column_start: u32,
    line_end: u32,
    column_end: u32,
    is_primary: bool,
    label: Option<&'a str>,
}

/// Renders a line for each finding: `kind` is `"finding"`, followed by `code`, `severity`, `message`,
/// `file`, `spans` (the primary one first), `help` and `rendered`, the human-readable text.
#[must_use]
pub fn json(diagnostics: &[Diagnostic], sources: &Sources) -> String {
    let line = |found: &Diagnostic| json_line(&Line::Finding(finding(found, &found.text(), sources)));
    diagnostics.iter().map(line).collect()
}

/// Renders the line after the findings. `kind` is `"summary"`, followed by the numbers of `errors`,
/// `warnings` and `hidden` findings. Findings beyond the maximum number shown are hidden.
#[must_use]
pub fn json_summary(count: Count, hidden: usize) -> String {
    json_line(&Line::Summary { errors: count.errors, warnings: count.warnings, hidden })
}

/// Renders the last line of a run that could not start or finish. `kind` is `"failure"`, followed by `file`
/// and `message`. `file` is null unless a file could not be read or written.
#[must_use]
pub fn json_failure(file: Option<&str>, message: &str) -> String {
    json_line(&Line::Failure { file, message })
}

/// Returns one line of JSON. Serialization fails only for maps with keys that are not strings; no `Line` type
/// contains a map.
pub(crate) fn json_line(line: &impl Serialize) -> String {
    serde_json::to_string(line).unwrap_or_default() + "\n"
}

fn finding<'a>(found: &Diagnostic, text: &'a Text, sources: &Sources) -> Finding<'a> {
    let primary = place(&text.primary, true, sources);
    let others = text.related.iter().filter_map(|label| place(label, false, sources));
    Finding {
        code: found.code(),
        severity: found.severity.name(),
        message: &text.message,
        file: primary.as_ref().map(|place| place.file.clone()),
        spans: primary.into_iter().chain(others).collect(),
        help: text.help.as_deref(),
        rendered: render(std::slice::from_ref(found), sources, false),
    }
}

fn place<'a>(label: &'a Label, is_primary: bool, sources: &Sources) -> Option<Place<'a>> {
    let source = sources.get(label.span.source)?;
    let (start, end) = (source.line_column(label.span.start), source.line_column(label.span.end));
    Some(Place {
        file: source.name().to_string_lossy().into_owned(),
        byte_start: label.span.start,
        byte_end: label.span.end,
        line_start: start.line,
        column_start: start.column,
        line_end: end.line,
        column_end: end.column,
        is_primary,
        label: Some(label.text.as_str()).filter(|text| !text.is_empty()),
    })
}
