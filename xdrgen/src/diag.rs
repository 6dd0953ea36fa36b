//! Diagnostics: what is wrong, where in the document, and what to do about it.

use crate::source::Span;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Worth knowing; code is emitted.
    Warning,
    /// Nothing is emitted.
    Error,
}

/// A place and what is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// Where.
    pub span: Span,
    /// What.
    pub text: String,
}

/// One finding. Each has one cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// A stable code: `X0` extraction, `X1` syntax, `X2` names and rules, `X3` bindings, `X4` emission;
    /// two digits follow.
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
}
