//! Findings of the preprocessor: conditions, macros and pragmas.

use super::text;
use crate::source::Span;

kinds! {
    Preprocessor PreprocessorKind {
    /// invalid preprocessor condition
    X105 Warning ElseWithoutIf => text("an `#else` or `#elif` without a matching `#if`").help("remove it");
    /// An `#endif` without an `#if`.
    X105 Warning EndifWithoutIf => text("an `#endif` without a matching `#if`").help("remove it");
    /// An `#else` or `#elif` after the `#else` of the same `#if`.
    X105 Warning BranchAfterElse { is_else: bool } => text(match is_else {
            true => "a second `#else` for one `#if`",
            false => "an `#elif` after its `#else`",
        })
        .help("the text of this branch is omitted: `#else` must be the last branch");
    /// An unsupported condition.
    X105 Warning OddCondition => text("unsupported condition: assumed to be true")
        .help("write the condition with `defined(NAME)`, numbers, and the operators of C");
    /// A condition on a name that only an included file defines.
    X105 Warning UnseenDefine { name: String, defined: Span } =>
        text("a condition tests a name that only an included file defines")
        .label(format!("`{name}` is not defined here"))
        .and(*defined, "defined here")
        .help(format!("try `-D {name}`"));
    /// an unclosed preprocessor condition
    X106 Error OpenCondition => text("a condition is never closed").label("begins here").help("end it with `#endif`");
    /// an unknown pragma
    X133 Warning UnknownPragma => text("unknown `pragma`")
        .label("this line is omitted")
        .help("known pragmas are `big_endian`, `exclude`, `header`, `pages`, `public` and `skip`");
    /// A `pragma` line without its `;`.
    X133 Warning OpenPragma => text("a `pragma` is not closed").label("this line is omitted").help("end it with `;`");
    /// a macro cannot be expanded
    X138 Error Macro { name: String, defined: Span, fault: Fault } => {
        let (message, help) = fault.text(name);
        text(message).label("used here").and(*defined, "the macro").help(help)
    };
    }
}

/// The reason why a macro cannot be expanded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Macros nest more than this many levels deep.
    TooDeep(usize),
    /// The expansion of macros processes more than this many tokens.
    TooLong(usize),
    /// `##` creates more than this many tokens.
    TooManyPasted(usize),
    /// `##` creates a token of more than this many bytes.
    LongToken(usize),
    Open,
    Count {
        expected: usize,
        found: usize,
    },
}

impl Fault {
    /// Returns the message and the help of the finding.
    fn text(&self, name: &str) -> (String, &'static str) {
        match self {
            Fault::TooDeep(max) => {
                (format!("`{name}` expands more than {max} levels deep"), "write out the inner macros")
            }
            Fault::TooLong(max) => (
                format!("the expansion of macros processes more than {max} tokens"),
                "write out some of the macros: this macro and later macros are not expanded",
            ),
            Fault::TooManyPasted(max) => {
                (format!("`##` produces more than {max} tokens"), "write out the names that `##` produces")
            }
            Fault::LongToken(max) => (
                format!("`##` produces a token of more than {max} bytes in the expansion of `{name}`"),
                "write out the name that `##` produces",
            ),
            Fault::Open => (format!("the arguments of `{name}` are never closed"), "end them with `)`"),
            Fault::Count { expected, found } => (
                format!(
                    "wrong number of arguments for the macro `{name}`: found {found}, expected {expected}"
                ),
                "pass one argument for each parameter of the macro",
            ),
        }
    }
}
