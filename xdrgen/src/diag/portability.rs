//! Constructs that only some compilers accept.

use super::{Text, text};
use crate::hir::Scalar;
use crate::source::Span;

kinds! {
    Portability PortabilityKind {
    /// a name after a definition's body
    X130 Warning NameAfterBody => text("a name after a definition's body")
        .label("has no meaning here")
        .help("remove the name");
    /// a `,` after the last member
    X131 Warning LastComma => text("a `,` after the last member")
        .label("not in RFC 4506")
        .help("remove the `,`");
    /// a string is not a constant
    X132 Warning TextConstant => text("a string is not an XDR constant")
        .label("only rpcgen supports this")
        .help("the constant is omitted");
    /// a string without `<>`
    X134 Warning StringWithoutBound => text("a string without `<>`")
        .label("RFC 4506 requires a bound here")
        .help("write `<n>` for up to n bytes, or `<>` for any number");
    /// `char *` is at most one character
    X135 Warning CharPointer => text("`char *` is at most one character")
        .label("optional data (RFC 4506 section 4.19)")
        .help("write text as `string name<>`, and bytes as `opaque name<>`");
    /// a case after the default arm
    X136 Warning CaseAfterDefault { default: Span } => text("a case after the default arm")
        .label("not in RFC 4506")
        .and(*default, "the default arm")
        .help("move the default arm to the end");
    /// a nonportable construct
    X137 Warning CharacterValue { value: i128 } => portability("a character as a number", &format!("write it as `{value}`"));
    /// `int F(int a[3])`
    X137 Warning ArrayArgument =>
        portability("an array as an argument or result", "give the array a name with `typedef`");
    /// `true` and `false`
    X137 Warning LowerCaseBool { name: String, standard: &'static str } =>
        portability(&format!("`{name}`"), &format!("write `{standard}` (RFC 4506 section 4.4)"));
    /// `long long x`
    X137 Warning LongLong => portability("`long long`", "write `hyper` (RFC 4506 section 4.5)");
    /// `switch (short x)`
    X137 Warning OddDiscriminant { of: Scalar } => {
        let article = if of.name().starts_with('u') { "an" } else { "a" };
        portability(&format!("{article} `{}` as a discriminant", of.name()), super::union::DISCRIMINANTS)
    };
    }
}

/// Returns the text for a construct that only some compilers accept. The help is `instead`.
fn portability(what: &str, instead: &str) -> Text {
    text(format!("not every compiler accepts {what}")).label("not in RFC 4506 or RFC 5531").help(instead)
}
