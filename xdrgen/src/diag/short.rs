//! Findings as one line each: what editors, `grep` and people with many of them want.

use super::Diagnostic;
use super::plain::head;
use crate::source::Sources;

/// `file:line:column: error[X212]: message; help`, a line for each finding.
/// What stands in no document begins with `rpcrdma-xdrgen`.
#[must_use]
pub fn short(diagnostics: &[Diagnostic], sources: &Sources) -> String {
    let mut lines = String::new();
    for found in diagnostics {
        let help = found.help.as_ref().map_or_else(String::new, |help| format!("; {help}"));
        lines.push_str(&format!("{}{help}\n", head(found, sources)));
    }
    lines
}
