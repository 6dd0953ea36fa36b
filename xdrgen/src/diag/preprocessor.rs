//! Findings of the preprocessor: conditions, macros and pragmas.

use super::text;
use crate::source::Span;

kinds! {
    Preprocessor PreprocessorKind {
    /// invalid preprocessor condition
    ///
    /// This warning has four causes:
    ///
    /// - An `#elif`, `#else` or `#endif` has no `#if`.
    /// - An `#elif` or a second `#else` follows the `#else`. The text of that branch is omitted.
    /// - A condition contains anything but `defined(NAME)`, names, numbers, parentheses and C's unary and
    ///   binary operators, or has no value (`1 / 0`). The condition counts as true.
    /// - A condition tests a name that only an included file defines, but a `#define` applies only to its
    ///   own document.
    ///
    /// ```xdr
    /// const A = 1;
    /// #endif
    /// ```
    ///
    /// ```xdr
    /// #ifndef SMALL
    /// const A = 1;
    /// #endif
    /// ```
    X105 Warning ElseWithoutIf => text("an `#else` or `#elif` without its `#if`").help("remove it");
    /// An `#endif` without an `#if`.
    X105 Warning EndifWithoutIf => text("an `#endif` without its `#if`").help("remove it");
    /// A branch after the `#else`.
    X105 Warning BranchAfterElse { is_else: bool } => text(match is_else {
            true => "a second `#else` for one `#if`",
            false => "an `#elif` after its `#else`",
        })
        .help("the text of this branch is omitted: `#else` is the last branch");
    /// An unsupported condition.
    X105 Warning OddCondition => text("unsupported condition: assumed to be true")
        .help("write the condition with `defined(NAME)`, numbers, and the operators of C");
    /// A condition on a name of an included file.
    X105 Warning UnseenDefine { name: String, defined: Span } =>
        text("a condition tests a name that only an included file defines")
        .label(format!("`{name}` is not defined here"))
        .and(*defined, "defined here")
        .help(format!("try `-D {name}`"));
    /// an unclosed preprocessor condition
    ///
    /// An `#if`, `#ifdef` or `#ifndef` has no `#endif`, so the extent of the condition is unknown.
    ///
    /// ```xdr
    /// #ifdef BIG
    /// const A = 1;
    /// ```
    ///
    /// ```xdr
    /// #ifdef BIG
    /// const A = 1;
    /// #endif
    /// const B = 1;
    /// ```
    X106 Error OpenCondition => text("a condition is never closed").label("begins here").help("end it with `#endif`");
    /// an unknown pragma
    ///
    /// The XDR compiler of the Linux kernel accepts `pragma` lines. The known pragmas affect only the C code
    /// that this compiler generates, so they are skipped. An unknown pragma may have another purpose, so its
    /// line is omitted with a warning.
    ///
    /// ```xdr
    /// pragma small_endian;
    /// const A = 1;
    /// ```
    ///
    /// ```xdr
    /// const A = 1;
    /// ```
    X133 Warning UnknownPragma => text("unknown `pragma`")
        .label("this line is omitted")
        .help("known pragmas are `big_endian`, `exclude`, `header`, `pages`, `public` and `skip`");
    /// A `pragma` line without its `;`.
    X133 Warning OpenPragma => text("a `pragma` is not closed").label("this line is omitted").help("end it with `;`");
    /// a macro cannot be expanded
    ///
    /// The use of the macro has the wrong number of arguments or no `)`, or a limit is exceeded. Macros nest
    /// at most 64 levels deep, and the expansion of a document's macros processes at most 262144 tokens.
    /// `##` creates at most 16384 tokens, each of at most 1024 bytes.
    ///
    /// ```xdr
    /// #define FIELD(type, name) type name;
    /// struct item {
    ///    FIELD(int)
    /// };
    /// ```
    ///
    /// ```xdr
    /// #define FIELD(type, name) type name;
    /// struct item {
    ///    FIELD(int, count)
    /// };
    /// ```
    X138 Error Macro { name: String, defined: Span, fault: Fault } => {
        let (message, help) = fault.text(name);
        text(message).label("used here").and(*defined, "the macro").help(help)
    };
    }
}

/// The reason why a macro cannot be expanded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Macros nest more than this number of levels deep.
    TooDeep(usize),
    /// The expansion of macros processes more than this number of tokens.
    TooLong(usize),
    /// `##` creates more than this number of tokens.
    TooManyPasted(usize),
    /// `##` creates a token of more than this number of bytes.
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
                "pass as many arguments as its `#define` has parameters",
            ),
        }
    }
}
