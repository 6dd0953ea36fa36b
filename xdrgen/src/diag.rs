//! Diagnostics: what is wrong, where in the document, and what to do about it.

#[cfg(feature = "cli")]
mod json;
#[cfg(feature = "cli")]
mod pages;
mod plain;
#[cfg(feature = "cli")]
mod render;
#[cfg(feature = "cli")]
mod short;

use std::fmt;

use crate::source::Span;

#[cfg(feature = "cli")]
pub use json::{json, json_failure, json_summary};
#[cfg(feature = "cli")]
pub use pages::{codes, page};
pub use plain::plain;
#[cfg(feature = "cli")]
pub use render::render;
#[cfg(feature = "cli")]
pub use short::short;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Worth knowing; code is emitted.
    Warning,
    /// Nothing is emitted.
    Error,
}

impl Severity {
    /// `error` or `warning`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Severity::Warning => "warning",
            Severity::Error => "error",
        }
    }
}

/// A place and what is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// Where.
    pub span: Span,
    /// What.
    pub text: String,
}

/// What is not compiled for what a finding says: the run goes on without it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// The definition's name; empty where it cannot be told.
    pub name: String,
    /// Whether it may be a program, or a procedure of the program of that name.
    pub is_program: bool,
}

/// One finding. Each has one cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// A stable code: `X0` extraction, `X1` syntax, `X2` names and rules, `X3` bindings, `X4` emission, `X5` extensions;
    /// two digits follow. `DIAGNOSTICS.md` has a section for each.
    pub code: &'static str,
    /// Error or warning.
    pub severity: Severity,
    /// One line, lower case, no full stop.
    pub message: String,
    /// Where it is.
    pub primary: Label,
    /// Other places that matter: the first definition, the bound that is broken.
    pub related: Vec<Label>,
    /// What to do.
    pub help: Option<String>,
    /// What is left out for it, where that is a definition or a part of a program.
    pub left_out: Option<LeftOut>,
    /// The names that it says nothing has.
    pub missing: Vec<String>,
}

impl Diagnostic {
    /// An error: nothing is emitted. `message` is one line, lower case, without a full stop.
    #[must_use]
    pub fn error(code: &'static str, span: Span, message: impl Into<String>) -> Self {
        Diagnostic::new(code, Severity::Error, span, message.into())
    }

    /// A warning: worth knowing, and code is emitted.
    #[must_use]
    pub fn warning(code: &'static str, span: Span, message: impl Into<String>) -> Self {
        Diagnostic::new(code, Severity::Warning, span, message.into())
    }

    /// A warning that only some compilers accept what the grammar of the RFCs lacks.
    #[must_use]
    pub(crate) fn portability(span: Span, what: &str, instead: &str) -> Self {
        Diagnostic::warning("X137", span, format!("not every compiler accepts {what}"))
            .with_label("not in RFC 4506 or RFC 5531")
            .with_help(instead)
    }

    fn new(code: &'static str, severity: Severity, span: Span, message: String) -> Self {
        let primary = Label { span, text: String::new() };
        let (related, missing) = (Vec::new(), Vec::new());
        Diagnostic { code, severity, message, primary, related, help: None, left_out: None, missing }
    }

    /// Says at the place itself what is there.
    #[must_use]
    pub fn with_label(mut self, text: impl Into<String>) -> Self {
        self.primary.text = text.into();
        self
    }

    /// Adds another place that matters.
    #[must_use]
    pub fn with_related(mut self, span: Span, text: impl Into<String>) -> Self {
        self.related.push(Label { span, text: text.into() });
        self
    }

    /// Says what to do. A later help takes the place of an earlier one.
    #[must_use]
    pub fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Says what is left out for it.
    #[must_use]
    pub fn with_left_out(mut self, name: impl Into<String>, is_program: bool) -> Self {
        self.left_out = Some(LeftOut { name: name.into(), is_program });
        self
    }

    /// Adds a name that nothing has.
    #[must_use]
    pub fn with_missing(mut self, name: &str) -> Self {
        self.missing.push(name.to_owned());
        self
    }

    /// Whether it keeps anything from being emitted.
    #[must_use]
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}

/// Puts findings into the order in which their places stand: document, offset, then code.
/// What was found twice at one place with one code is kept once.
pub fn sort(diagnostics: &mut Vec<Diagnostic>) {
    let place = |found: &Diagnostic| (found.primary.span.source, found.primary.span.start, found.code);
    diagnostics.sort_by_key(place);
    diagnostics.dedup_by(|later, first| place(later) == place(first) && later.message == first.message);
}

/// Whether one of them is an error.
#[must_use]
pub fn has_errors(diagnostics: &[Diagnostic]) -> bool {
    diagnostics.iter().any(Diagnostic::is_error)
}

/// How many errors of one stage are kept, and how many warnings. Whoever has more has one mistake many times.
const KEPT: usize = 4096;

/// Findings, of which no more are kept than memory bears; the rest is counted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Found {
    pub(crate) kept: Vec<Diagnostic>,
    pub(crate) more: Count,
    /// How many of both there were.
    all: Count,
}

/// How much had been found at some time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    kept: usize,
    more: Count,
    all: Count,
}

impl Found {
    /// Adds a finding. No number of warnings keeps an error from being kept.
    pub(crate) fn push(&mut self, found: Diagnostic) {
        let (all, more) = match found.severity {
            Severity::Error => (&mut self.all.errors, &mut self.more.errors),
            Severity::Warning => (&mut self.all.warnings, &mut self.more.warnings),
        };
        *all += 1;
        if *all <= KEPT {
            self.kept.push(found);
        } else {
            *more += 1;
        }
    }

    /// How many errors there were so far.
    pub(crate) fn errors(&self) -> usize {
        self.all.errors
    }

    /// Adds what another stage found.
    pub(crate) fn append(&mut self, other: Found) {
        self.more = self.more.and(other.more);
        other.kept.into_iter().for_each(|found| self.push(found));
    }

    /// The same as warnings.
    pub(crate) fn weakened(self, weaken: impl Fn(Diagnostic) -> Diagnostic) -> Self {
        let warnings = |count: Count| Count { errors: 0, warnings: count.errors + count.warnings };
        let kept = self.kept.into_iter().map(weaken).collect();
        Found { kept, more: warnings(self.more), all: warnings(self.all) }
    }

    /// What has been found up to now, to go back to it.
    pub(crate) fn mark(&self) -> Mark {
        Mark { kept: self.kept.len(), more: self.more, all: self.all }
    }

    /// Forgets what was found since.
    pub(crate) fn back_to(&mut self, mark: Mark) {
        self.kept.truncate(mark.kept);
        (self.more, self.all) = (mark.more, mark.all);
    }

    pub(crate) fn has_errors(&self) -> bool {
        self.more.errors > 0 || has_errors(&self.kept)
    }
}

/// How many errors and warnings there are. Its text is `2 errors, 1 warning`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Errors.
    pub errors: usize,
    /// Warnings.
    pub warnings: usize,
}

impl Count {
    /// With others.
    #[must_use]
    pub fn and(self, other: Count) -> Count {
        Count { errors: self.errors + other.errors, warnings: self.warnings + other.warnings }
    }

    /// Counts findings.
    #[must_use]
    pub fn of(diagnostics: &[Diagnostic]) -> Self {
        let errors = diagnostics.iter().filter(|found| found.is_error()).count();
        Count { errors, warnings: diagnostics.len() - errors }
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let one = |count: usize, what| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
        match (self.errors, self.warnings) {
            (errors, 0) => f.write_str(&one(errors, "error")),
            (0, warnings) => f.write_str(&one(warnings, "warning")),
            (errors, warnings) => write!(f, "{}, {}", one(errors, "error"), one(warnings, "warning")),
        }
    }
}
