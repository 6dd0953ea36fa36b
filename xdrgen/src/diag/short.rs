//! Findings as one line each: what editors, `grep` and people with many of them want.

use super::{Diagnostic, Label};
use crate::source::Sources;

/// `file:line:column: error[X212]: message; help`, a line for each finding.
/// What stands in no document begins with `xdrgen`.
#[must_use]
pub fn short(diagnostics: &[Diagnostic], sources: &Sources) -> String {
    let mut lines = String::new();
    for found in diagnostics {
        let help = found.help.as_ref().map_or_else(String::new, |help| format!("; {help}"));
        let (place, severity) = (place(&found.primary, sources), found.severity.name());
        lines.push_str(&format!("{place}: {severity}[{}]: {}{help}\n", found.code, found.message));
    }
    lines
}

fn place(label: &Label, sources: &Sources) -> String {
    let Some(source) = sources.get(label.span.source) else { return "xdrgen".to_owned() };
    let at = source.line_column(label.span.start);
    format!("{}:{}:{}", source.name().display(), at.line, at.column)
}
