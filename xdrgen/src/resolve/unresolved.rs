//! Names that a document uses and nothing defines, as values.

use crate::ast::Hidden;
use crate::diag::Diagnostic;
use crate::source::Span;

/// A kind of name: types and values have name spaces of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Space {
    Type,
    Value,
}

/// A name that nothing defines.
#[derive(Clone, Debug)]
pub(crate) struct Unresolved {
    pub(crate) space: Space,
    pub(crate) name: String,
    pub(crate) span: Span,
    pub(crate) reason: Reason,
    /// Where else it may be defined.
    pub(crate) origin: Option<Origin>,
}

/// What is known of such a name.
#[derive(Clone, Debug)]
pub(crate) enum Reason {
    /// Nothing is called so, nor much alike.
    Unknown,
    /// An erratum of a published document: this name is meant.
    Erratum(String),
    /// What it would name is left out.
    LeftOut,
    /// It names a value where a type is expected; defined here.
    IsValue(Span),
    /// Other languages call a type so, which XDR writes like this.
    Elsewhere(&'static str),
    /// A defined name that is much alike.
    Like(String),
    /// A type of the language whose name is much alike.
    LikeBuiltIn(&'static str),
}

/// What says something of a name that does not count.
#[derive(Clone, Debug)]
pub(crate) enum Origin {
    /// A condition that does not hold.
    Hidden(Hidden),
    /// A macro.
    Macro(Span),
    /// The files that the document includes.
    Included(Vec<String>),
}

/// The types that need no definition.
pub(crate) const BUILT_IN: &[&str] = &[
    "bool",
    "char",
    "double",
    "float",
    "hyper",
    "int",
    "int32_t",
    "int64_t",
    "long",
    "opaque",
    "quadruple",
    "short",
    "string",
    "uint32_t",
    "uint64_t",
    "unsigned",
];

/// What other languages call a type, and how XDR writes it.
pub(crate) const ELSEWHERE: &[(&str, &str)] = &[
    ("boolean", "bool"),
    ("byte", "opaque name[1]"),
    ("bytes", "opaque name<>"),
    ("f32", "float"),
    ("f64", "double"),
    ("i32", "int"),
    ("i64", "hyper"),
    ("integer", "int"),
    ("size_t", "unsigned hyper"),
    ("ssize_t", "hyper"),
    ("str", "string name<>"),
    ("text", "string name<>"),
    ("u32", "unsigned int"),
    ("u64", "unsigned hyper"),
];

impl Unresolved {
    /// What is said of it.
    pub(crate) fn diagnostic(&self) -> Diagnostic {
        let Unresolved { space, name, span, .. } = self;
        let (code, what) = match space {
            Space::Type => ("X200", "type"),
            Space::Value => ("X202", "constant"),
        };
        let message = format!("no {what} is called `{name}`");
        let found = match &self.reason {
            Reason::Erratum(near) => {
                Diagnostic::warning(code, *span, message).with_label(format!("taken for `{near}`"))
            }
            Reason::LeftOut => {
                Diagnostic::error(code, *span, message).with_label("what it would be is left out")
            }
            _ => self.advised(
                Diagnostic::error(code, *span, message).with_label("not defined in any document of this run"),
            ),
        };
        found.with_missing(name)
    }

    fn advised(&self, found: Diagnostic) -> Diagnostic {
        let found = match &self.reason {
            Reason::IsValue(place) => found.with_related(*place, "this is a value, not a type"),
            _ => found,
        };
        match &self.origin {
            Some(Origin::Hidden(Hidden { name, condition, is_else })) => {
                let wanted = condition.strip_prefix("#ifdef").map(str::trim).filter(|_| !is_else);
                let branch = if *is_else { "a later branch of " } else { "" };
                let found = found.with_label("not defined under the conditions of this run");
                let found =
                    found.with_related(name.span, format!("defined here under {branch}`{condition}`"));
                found.with_help(match wanted {
                    Some(wanted) => format!("try `-D {wanted}`"),
                    None => "the condition leaves this definition out: change what `-D` defines".to_owned(),
                })
            }
            Some(Origin::Macro(place)) => found
                .with_related(*place, "this means something to C alone")
                .with_help("write a number as `const NAME = value;`, and a type as `typedef type NAME;`"),
            Some(Origin::Included(files)) => {
                let files = files.join(", ");
                found.with_help(match (self.advice(), self.asks()) {
                    (None, _) => format!("this document includes {files}, which may define it"),
                    (Some(asks), true) => {
                        format!("{asks} or is it defined in {files}, which this document includes?")
                    }
                    (Some(help), false) => {
                        format!("{help}; this document includes {files}, which may define it")
                    }
                })
            }
            None => match self.advice() {
                Some(help) => found.with_help(help),
                None => found,
            },
        }
    }

    /// Whether the advice is a question.
    fn asks(&self) -> bool {
        matches!(self.reason, Reason::Like(_) | Reason::LikeBuiltIn(_))
    }

    fn advice(&self) -> Option<String> {
        Some(match (&self.reason, self.space) {
            (Reason::IsValue(_) | Reason::LeftOut | Reason::Erratum(_), _) => return None,
            (Reason::Elsewhere(xdr), _) => format!("XDR writes it `{xdr}`"),
            (Reason::Like(near), _) => format!("`{near}` is defined; is that what is meant?"),
            (Reason::LikeBuiltIn(near), _) => format!("`{near}` is a type of XDR; is that what is meant?"),
            (Reason::Unknown, Space::Type) => format!(
                "compile the document that defines it together with this one, or name the type in Rust: \
                 `--extern {}=path::to::Type`",
                self.name
            ),
            (Reason::Unknown, Space::Value) => {
                "define it with `const`, or compile the document that does together with this one".to_owned()
            }
        })
    }
}
