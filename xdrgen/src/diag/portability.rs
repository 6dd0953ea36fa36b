//! Constructs that only some compilers accept.

use super::{Text, text};
use crate::hir::Scalar;
use crate::source::Span;

kinds! {
    Portability PortabilityKind {
    /// a name after a definition's body
    ///
    /// RFC 5531 contains a union with a name after its body. The name has no meaning in XDR; in C it would
    /// be a variable. This is a warning.
    ///
    /// ```xdr
    /// struct point { int x; } origin;
    /// ```
    ///
    /// ```xdr
    /// struct point { int x; };
    /// ```
    X130 Warning NameAfterBody => text("a name after a definition's body")
        .label("has no meaning here")
        .help("remove the name");
    /// a `,` after the last member
    ///
    /// C and rpcgen accept a trailing `,`, but RFC 4506 does not allow it. This is a warning.
    ///
    /// ```xdr
    /// enum colour { RED, GREEN, };
    /// ```
    ///
    /// ```xdr
    /// enum colour { RED, GREEN };
    /// ```
    X131 Warning LastComma => text("a `,` after the last member")
        .label("not in RFC 4506")
        .help("remove the `,`");
    /// a string is not a constant
    ///
    /// rpcgen passes string constants to C. This compiler omits the constant. This is a warning.
    ///
    /// ```xdr
    /// const NAME = "store";
    /// const VERSION = 1;
    /// ```
    ///
    /// ```xdr
    /// const VERSION = 1;
    /// ```
    X132 Warning TextConstant => text("a string is not an XDR constant")
        .label("only rpcgen supports this")
        .help("the constant is omitted");
    /// a string without `<>`
    ///
    /// rpcgen accepts a string without `<>` in some positions, but RFC 4506 does not allow it. This is a
    /// warning.
    ///
    /// ```xdr
    /// struct file {
    ///    string name;
    /// };
    /// ```
    ///
    /// ```xdr
    /// struct file {
    ///    string name<>;
    /// };
    /// ```
    X134 Warning StringWithoutBound => text("a string without `<>`")
        .label("RFC 4506 requires a bound here")
        .help("write `<n>` for up to n bytes, `<>` for any number");
    /// `char *` is at most one character
    ///
    /// A `*` makes data of any type optional. This is a warning.
    ///
    /// ```xdr
    /// struct file {
    ///    char *name;
    /// };
    /// ```
    ///
    /// ```xdr
    /// struct file {
    ///    string name<>;
    /// };
    /// ```
    X135 Warning CharPointer => text("`char *` is at most one character")
        .label("optional data (RFC 4506 section 4.19)")
        .help("write text as `string name<>`, and bytes as `opaque name<>`");
    /// a case after the default arm
    ///
    /// rpcgen accepts this order, but RFC 4506 requires the default arm to be last. The order does not
    /// change the meaning. This is a warning.
    ///
    /// ```xdr
    /// union answer switch (int status) {
    /// default:
    ///    void;
    /// case 0:
    ///    int value;
    /// };
    /// ```
    ///
    /// ```xdr
    /// union answer switch (int status) {
    /// case 0:
    ///    int value;
    /// default:
    ///    void;
    /// };
    /// ```
    X136 Warning CaseAfterDefault { default: Span } => text("a case after the default arm")
        .label("not in RFC 4506")
        .and(*default, "the default arm")
        .help("move the default arm to the end");
    /// a nonportable construct
    ///
    /// Some compilers accept more than RFC 4506 and RFC 5531 define: `true` and `false` in lower case,
    /// characters as numbers, `long long`, and arrays as arguments or results of procedures. They also
    /// accept unions over a `char`, a `short` or a `hyper`. The encoding is that of these compilers: a
    /// `char` or a `short` is sent as an `int`, a `long long` as a `hyper`. This is a warning.
    ///
    /// ```xdr
    /// union answer switch (bool known) {
    /// case true:
    ///    int value;
    /// default:
    ///    void;
    /// };
    /// ```
    ///
    /// ```xdr
    /// union answer switch (bool known) {
    /// case TRUE:
    ///    int value;
    /// default:
    ///    void;
    /// };
    /// ```
    X137 Warning CharacterValue { value: i128 } => portability("a character as a number", &format!("write it as `{value}`"));
    /// `int F(int a[3])`
    X137 Warning ArrayArgument =>
        portability("an array as an argument or result", "give the array a name by `typedef`");
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
