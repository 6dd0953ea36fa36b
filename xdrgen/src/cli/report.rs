//! Prints findings to standard error, and defines the options for findings.

use std::io::{IsTerminal, Write};
use std::path::Path;

use clap::{Args, ColorChoice, ValueEnum};

use super::Failure;
use crate::diag::{self, Count, Diagnostic, Severity};
use crate::source::Sources;

/// Maximum number of findings shown.
const SHOWN: usize = 200;

/// Options for findings, which go to standard error.
#[derive(Args, Debug)]
#[command(next_help_heading = "Findings")]
pub(super) struct Reporting {
    /// The format of findings on standard error; `json` also applies to the results of `compat`, `diff` and
    /// `sizes`.
    #[arg(long, global = true, value_name = "FORM", value_enum, default_value_t = Form::Human)]
    message_format: Form,
    /// When to use colors; `auto` uses colors on a terminal, unless NO_COLOR is set or TERM is `dumb`.
    #[arg(long, global = true, value_name = "WHEN", default_value_t = ColorChoice::Auto)]
    color: ColorChoice,
    /// Treat warnings as errors.
    #[arg(long, global = true, value_name = "WHAT", value_enum)]
    deny: Option<Deny>,
}

/// Output formats of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Form {
    /// The message, the line of the document with the span underlined, and the help.
    Human,
    /// `file:line:column: error[X212]: message; help`, one line each.
    Short,
    /// One JSON object per line: kind, code, severity, message, file, spans, help, rendered text.
    Json,
}

/// The findings to treat as errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Deny {
    /// All warnings.
    Warnings,
}

impl Reporting {
    /// Prints findings and a summary. Fails if a finding is an error or a denied warning.
    pub(super) fn report(&self, sources: &Sources, found: &[Diagnostic]) -> Result<(), Failure> {
        self.report_with(sources, found, Count::default())
    }

    /// Like `report`, but also counts `more` findings that were not stored.
    pub(super) fn report_with(
        &self,
        sources: &Sources,
        found: &[Diagnostic],
        more: Count,
    ) -> Result<(), Failure> {
        if found.is_empty() {
            return Ok(());
        }
        let shown: Vec<_> =
            first_findings(found).cloned().map(|found| self.with_denied_warnings(found)).collect();
        let hidden = found.len() - shown.len() + more.errors + more.warnings;
        let all = Count::of(found).and(more);
        let count = match self.deny {
            Some(Deny::Warnings) => Count { errors: all.errors + all.warnings, warnings: 0 },
            None => all,
        };
        let shown = shown.as_slice();
        print_error(&match self.message_format {
            Form::Human => {
                let text = diag::render(shown, sources, self.has_color());
                format!("{text}\n{}", summary(count, hidden, shown))
            }
            Form::Short => diag::short(shown, sources) + &summary(count, hidden, shown),
            Form::Json => diag::json(shown, sources) + &diag::json_summary(count, hidden),
        });
        if count.errors > 0 { Err(Failure::Findings) } else { Ok(()) }
    }

    /// Returns true if a finding is an error or a denied warning.
    pub(super) fn has_errors(&self, found: &[Diagnostic]) -> bool {
        diag::has_errors(found) || self.deny.is_some() && !found.is_empty()
    }

    pub(super) fn is_json(&self) -> bool {
        self.message_format == Form::Json
    }

    pub(super) fn print_failure(&self, file: Option<&Path>, message: &str) {
        let file = file.map(|file| file.to_string_lossy());
        print_error(&match (self.message_format, &file) {
            (Form::Json, _) => diag::json_failure(file.as_deref(), message),
            (_, Some(file)) => format!("rpcrdma-xdrgen: {file}: {message}\n"),
            (_, None) => format!("rpcrdma-xdrgen: {message}\n"),
        });
    }

    fn with_denied_warnings(&self, found: Diagnostic) -> Diagnostic {
        let denied = self.deny == Some(Deny::Warnings);
        if denied { Diagnostic { severity: Severity::Error, ..found } } else { found }
    }

    fn has_color(&self) -> bool {
        let unset = |name| std::env::var_os(name).is_none_or(|value| value.is_empty());
        match self.color {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => {
                unset("NO_COLOR")
                    && std::env::var_os("TERM").is_none_or(|terminal| terminal != "dumb")
                    && std::io::stderr().is_terminal()
            }
        }
    }
}

/// Returns up to [`SHOWN`] findings, in the given order. If there are more findings, errors take precedence
/// over warnings.
fn first_findings(found: &[Diagnostic]) -> impl Iterator<Item = &Diagnostic> {
    let mut errors = Count::of(found).errors.min(SHOWN);
    let mut warnings = found.len().min(SHOWN) - errors;
    found.iter().filter(move |found| {
        let left = if found.is_error() { &mut errors } else { &mut warnings };
        let is_shown = *left > 0;
        *left = left.saturating_sub(1);
        is_shown
    })
}

fn summary(count: Count, hidden: usize, shown: &[Diagnostic]) -> String {
    let hidden = if hidden > 0 { format!("; {hidden} of them not shown") } else { String::new() };
    let more = shown.iter().max_by_key(|found| found.severity).map_or_else(String::new, |first| {
        let code = shown.iter().find(|found| found.severity == first.severity).map_or("", Diagnostic::code);
        format!("; see `rpcrdma-xdrgen explain {code}`")
    });
    format!("rpcrdma-xdrgen: {count}{hidden}{more}\n")
}

/// Writes to standard error, and ignores errors such as a closed pipe.
fn print_error(text: &str) {
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}
