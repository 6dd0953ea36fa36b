//! Diagnostics: what is wrong, where, and how to fix it.
//!
//! A diagnostic is data: a `Kind` with its fields, and a position. The kinds are defined in submodules by
//! subject. Each definition states the kind's code, default severity and text. Only a `Note` changes this
//! text, and no code parses it. `DIAGNOSTICS.md` has a page for each code.

/// Defines the kinds of one subject. Each code has a page in `DIAGNOSTICS.md`: title, meaning, an example,
/// and the corrected example. The comment on the first kind of a code is the title of the page; a test
/// compares them.
macro_rules! kinds {
    ($(#[$chapter:meta])* $of:ident $name:ident {$(
        $(#[doc = $doc:literal])*
        $code:ident $severity:ident $kind:ident $({ $($field:ident: $ty:ty),* })? => $text:expr;
    )*}) => {
        $(#[$chapter])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub(crate) enum $name {$(
            $(#[doc = $doc])*
            $kind $({ $($field: $ty),* })?,
        )*}

        impl $name {
            #[cfg(feature = "cli")]
            pub(super) const CODES: &[&str] = &[$(stringify!($code)),*];

            #[cfg(all(test, feature = "cli"))]
            pub(super) const COMMENTS: &[(&str, &str)] = &[$((stringify!($code), concat!($($doc),*))),*];

            pub(super) fn code(&self) -> &'static str {
                match self {
                    $(Self::$kind { .. } => stringify!($code),)*
                }
            }

            #[allow(unused_variables, reason = "some texts do not use every field")]
            pub(super) fn text(&self) -> $crate::diag::Text {
                match self {
                    $(Self::$kind $({ $($field),* })? => $text,)*
                }
            }

            pub(crate) fn at(self, span: $crate::source::Span) -> $crate::diag::Diagnostic {
                let severity = match &self {
                    $(Self::$kind { .. } => $crate::diag::Severity::$severity,)*
                };
                let (kind, notes) = ($crate::diag::Kind::$of(self), Vec::new());
                $crate::diag::Diagnostic { kind, severity, span, within: None, notes, omitted: None }
            }
        }
    };
}

mod binding;
mod breach;
mod cycle;
mod document;
#[cfg(feature = "cli")]
mod json;
mod meaning;
mod message;
mod output;
#[cfg(feature = "cli")]
mod pages;
mod plain;
mod portability;
mod preprocessor;
#[cfg(feature = "cli")]
mod render;
mod syntax;
mod union;

use std::fmt;

use crate::ast::Expansion;
use crate::source::{Span, Trust};

pub(crate) use binding::{BindingKind, Inside, Unknown};
pub(crate) use breach::{BreachKind, Form, Gap};
pub(crate) use cycle::CycleKind;
pub(crate) use document::DocumentKind;
#[cfg(feature = "cli")]
pub(crate) use json::json_line;
#[cfg(feature = "cli")]
pub use json::{json, json_failure, json_summary};
pub(crate) use meaning::{MeaningKind, Redefinition};
pub(crate) use message::MessageKind;
pub(crate) use output::OutputKind;
#[cfg(feature = "cli")]
pub use pages::{chapters, codes, page};
pub(crate) use plain::place;
pub use plain::plain;
#[cfg(feature = "cli")]
pub use plain::short;
pub(crate) use portability::PortabilityKind;
pub(crate) use preprocessor::{Fault, PreprocessorKind};
#[cfg(feature = "cli")]
pub use render::render;
pub(crate) use syntax::{Expected, Open, SyntaxKind, TokenContext};
pub(crate) use union::UnionKind;

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The compiler emits code despite the finding.
    Warning,
    /// The compiler emits no code, or with `keep_going` only the valid definitions.
    Error,
}

impl Severity {
    /// Returns `error` or `warning`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Severity::Warning => "warning",
            Severity::Error => "error",
        }
    }
}

/// A position in a document, and the text to show there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// The position.
    pub span: Span,
    /// The text to show there.
    pub text: String,
}

/// A definition, or a part of a program, that is omitted because of a finding.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Omitted {
    /// The name of the definition; empty if unknown.
    pub name: String,
    /// True if the omitted part may be a program, or a procedure of the program `name`.
    pub is_program: bool,
}

/// Defines [`Kind`], which has a variant for each subject.
macro_rules! subjects {
    ($($subject:ident($kind:ident)),* $(,)?) => {
        /// The kind of a finding, by subject.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub(crate) enum Kind {$(
            $subject($kind),
        )*}

        #[cfg(feature = "cli")]
        const CODES: &[&[&str]] = &[$($kind::CODES),*];

        #[cfg(all(test, feature = "cli"))]
        const COMMENTS: &[&[(&str, &str)]] = &[$($kind::COMMENTS),*];

        impl Kind {
            fn code(&self) -> &'static str {
                match self {
                    $(Kind::$subject(kind) => kind.code(),)*
                }
            }

            fn text(&self) -> Text {
                match self {
                    $(Kind::$subject(kind) => kind.text(),)*
                }
            }
        }
    };
}

subjects! {
    Document(DocumentKind),
    Syntax(SyntaxKind),
    Preprocessor(PreprocessorKind),
    Portability(PortabilityKind),
    Meaning(MeaningKind),
    Union(UnionKind),
    Cycle(CycleKind),
    Binding(BindingKind),
    Message(MessageKind),
    Output(OutputKind),
    Breach(BreachKind),
}

impl Kind {
    /// Returns the undefined names that the finding reports. Text that could not be parsed may define them.
    pub(crate) fn missing(&self) -> Vec<&str> {
        use BindingKind::{NoField, NoPath, NoProgram, NoType, NoVersion};
        match self {
            Kind::Meaning(MeaningKind::NoType { name } | MeaningKind::NoValue { name }) => vec![&name.name],
            Kind::Binding(NoProgram { name } | NoVersion { name } | NoType { name })
            | Kind::Message(MessageKind::NoProcedure { name } | MessageKind::NoArgument { name, .. }) => {
                vec![&name.name]
            }
            Kind::Binding(NoField { of, name, .. }) => vec![&name.name, of],
            Kind::Binding(NoPath { item }) => vec![item],
            _ => Vec::new(),
        }
    }
}

/// A consequence of a finding, or the origin of the text at the finding's position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Note {
    /// Invalid text of a published document is omitted.
    Unread,
    /// The text is between lines of prose and resembles a definition. `published` is true for a published
    /// document.
    Scanned { published: bool },
    /// A definition or a procedure is omitted.
    Omitted { trust: Trust, what: OmittedPart },
    /// The position is in or directly after a use of a macro.
    Expansion(Expansion),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OmittedPart {
    Definition,
    Procedure,
    /// A procedure that its program needs: without it, the program is emitted only with `--keep-going`.
    Needed,
}

impl Note {
    /// Returns the help with the note added. In a published document or an example, `Note::Omitted` replaces
    /// the help.
    fn help(&self, help: Option<String>) -> String {
        let and = |text: &str| help.map_or_else(|| text.to_owned(), |help| format!("{help}; {text}"));
        match self {
            Note::Unread => and("invalid parts of a published document are omitted"),
            Note::Scanned { published: true } => and("this definition is omitted"),
            Note::Scanned { published: false } => {
                and("if this text is prose, mark the lines of XDR with `///`")
            }
            Note::Omitted { trust, what } => {
                let text = match what {
                    OmittedPart::Definition => "this definition is omitted",
                    OmittedPart::Procedure => "this procedure is omitted",
                    OmittedPart::Needed => {
                        "a program without this procedure is emitted only with `--keep-going`"
                    }
                };
                match trust {
                    Trust::Own => and(text),
                    Trust::Published => format!("a published document cannot be corrected: {text}"),
                    Trust::Example => format!("an example in prose: {text}"),
                }
            }
            Note::Expansion(one) => {
                let shown = one.text.replace(char::is_control, "\u{fffd}");
                and(&format!("`{}` expands to `{shown}`", one.name.name))
            }
        }
    }
}

/// An error or a warning, with its position.
///
/// ```
/// use rpcrdma_xdrgen::source::{Source, Sources};
/// use rpcrdma_xdrgen::{Options, check, diag};
///
/// let mut sources = Sources::default();
/// sources.add(Source::new("kv.x", "struct pair { string key<64>; content value; };"));
/// let diagnostics = check(&sources, &Options::module("kv")).diagnostics;
/// assert_eq!((diagnostics[0].code(), diagnostics[0].is_error()), ("X200", true));
/// print!("{}", diag::plain(&diagnostics, &sources));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    pub(crate) kind: Kind,
    /// Error or warning.
    pub severity: Severity,
    /// The position.
    pub span: Span,
    /// The name of the affected definition, if known. Needed because several definitions may share one
    /// position.
    pub(crate) within: Option<String>,
    pub(crate) notes: Vec<Note>,
    /// The definition or the part of a program that is omitted because of the finding.
    pub omitted: Option<Omitted>,
}

/// The text of a finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text {
    /// What is wrong: one line in lower case, without a full stop.
    pub message: String,
    /// The position with a label.
    pub primary: Label,
    /// Other relevant positions, such as the first definition or the violated bound.
    pub related: Vec<Label>,
    /// How to fix the mistake.
    pub help: Option<String>,
}

fn text(message: impl Into<String>) -> Text {
    let primary = Label { span: Span::default(), text: String::new() };
    Text { message: message.into(), primary, related: Vec::new(), help: None }
}

impl Text {
    fn label(mut self, text: impl Into<String>) -> Self {
        self.primary.text = text.into();
        self
    }

    fn and(mut self, span: Span, text: impl Into<String>) -> Self {
        self.related.push(Label { span, text: text.into() });
        self
    }

    fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    fn like(mut self, near: &Option<String>) -> Self {
        self.help = near.as_ref().map(|near| format!("a similar name exists: `{near}`"));
        self
    }
}

impl Diagnostic {
    /// Returns the stable code: `X` and three digits, such as `X212`. The first digit is the subject:
    /// 0 documents, 1 syntax, 2 names and rules, 3 bindings, 4 Rust output, 5 extensions. `DIAGNOSTICS.md`
    /// has a page for each code.
    #[must_use]
    pub fn code(&self) -> &'static str {
        self.kind.code()
    }

    /// Returns the message with its labels and help. The wording may change between releases.
    #[must_use]
    pub fn text(&self) -> Text {
        let mut text = self.kind.text();
        text.primary.span = self.span;
        for note in &self.notes {
            text.help = Some(note.help(text.help.take()));
            if let Note::Expansion(one) = note {
                text = text.and(one.name.span, "the macro is defined here");
            }
        }
        text
    }

    #[must_use]
    pub(crate) fn with_omitted(mut self, name: impl Into<String>, is_program: bool) -> Self {
        self.omitted = Some(Omitted { name: name.into(), is_program });
        self
    }

    #[must_use]
    pub(crate) fn with_note(mut self, note: Note) -> Self {
        self.notes.push(note);
        self
    }

    #[must_use]
    pub(crate) fn weakened_if(self, weaken: bool) -> Self {
        if weaken { Diagnostic { severity: Severity::Warning, ..self } } else { self }
    }

    /// Returns true if the finding is an error.
    #[must_use]
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Program,
    Version,
    Procedure,
}

impl Part {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Part::Program => "program",
            Part::Version => "version",
            Part::Procedure => "procedure",
        }
    }
}

/// The first few items, and the number of further items.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Excerpt<T> {
    pub(crate) first: Vec<T>,
    more: usize,
}

impl<T> Excerpt<T> {
    pub(crate) fn of(all: impl Iterator<Item = T>, max: usize) -> Self {
        let mut all = all.fuse();
        let first = all.by_ref().take(max).collect();
        Excerpt { first, more: all.count() }
    }

    /// `A, B and 3 more`
    pub(crate) fn shown(&self, one: impl Fn(&T) -> String) -> String {
        let first = self.first.iter().map(one).collect::<Vec<_>>().join(", ");
        if self.more > 0 { format!("{first} and {} more", self.more) } else { first }
    }
}

/// Sorts findings by position (document and offset), then by code. Removes repetitions at one position:
/// equal findings, and findings with the same code about the same undefined name.
pub fn sort(diagnostics: &mut Vec<Diagnostic>) {
    let place = |found: &Diagnostic| (found.span.source, found.span.start, found.code());
    diagnostics.sort_by_key(place);
    diagnostics.dedup_by(|later, first| {
        let names = later.kind.missing();
        place(later) == place(first)
            && (later.kind == first.kind || !names.is_empty() && names == first.kind.missing())
    });
}

/// Returns true if any diagnostic is an error.
#[must_use]
pub fn has_errors(diagnostics: &[Diagnostic]) -> bool {
    diagnostics.iter().any(Diagnostic::is_error)
}

/// Maximum number of errors, and of warnings, that [`Found`] stores. Further findings usually repeat the same
/// mistake.
const KEPT: usize = 4096;

/// Findings. Stores up to `KEPT` errors and `KEPT` warnings, and counts further findings.
#[derive(Clone, Debug, Default)]
pub(crate) struct Found {
    pub(crate) kept: Vec<Diagnostic>,
    pub(crate) more: Count,
    /// The numbers of errors and warnings passed to `push`, whether stored or not.
    all: Count,
}

/// The numbers of findings at a call of [`Found::mark`]. [`Found::roll_back`] removes all later findings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    kept: usize,
    more: Count,
    all: Count,
}

impl Found {
    /// Stores a finding, or only counts it if `KEPT` findings of the same severity are already stored.
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

    pub(crate) fn extend(&mut self, found: impl IntoIterator<Item = Diagnostic>) {
        found.into_iter().for_each(|one| self.push(one));
    }

    pub(crate) fn append(&mut self, other: Found) {
        self.more = self.more.and(other.more);
        self.extend(other.kept);
    }

    /// Converts each finding with `weaken`, and counts all findings as warnings.
    pub(crate) fn weakened(self, weaken: impl Fn(Diagnostic) -> Diagnostic) -> Self {
        let warnings = |count: Count| Count { errors: 0, warnings: count.errors + count.warnings };
        let kept = self.kept.into_iter().map(weaken).collect();
        Found { kept, more: warnings(self.more), all: warnings(self.all) }
    }

    pub(crate) fn mark(&self) -> Mark {
        Mark { kept: self.kept.len(), more: self.more, all: self.all }
    }

    pub(crate) fn roll_back(&mut self, mark: Mark) {
        self.kept.truncate(mark.kept);
        (self.more, self.all) = (mark.more, mark.all);
    }

    pub(crate) fn has_errors(&self) -> bool {
        self.more.errors > 0 || has_errors(&self.kept)
    }
}

/// The numbers of errors and warnings, displayed as in `2 errors, 1 warning`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Errors.
    pub errors: usize,
    /// Warnings.
    pub warnings: usize,
}

impl Count {
    /// Adds two counts.
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
