//! Findings of the lexer and the parser.

use std::fmt;

use super::{Text, text};
use crate::keywords::is_keyword;
use crate::source::Span;

kinds! {
    /// X1: syntax
    Syntax SyntaxKind {
    /// unexpected text
    X100 Error Unexpected { expected: Expected, near: TokenContext } => {
        instead(format!("expected {expected}, found {}", near.shown()), expected, near)
    };
    /// A token is missing at the end of a line.
    X100 Error Missing { expected: Expected } => text(format!("a {expected} is missing"))
        .label(format!("expected {expected} here"));
    /// a comment is never closed
    X101 Error OpenComment => text("a comment is never closed").label("begins here").help("end it with `*/`");
    /// invalid number
    X102 Error Malformed { number: String } => malformed(number.trim_start_matches('-'));
    /// a number does not fit in 64 bits
    X103 Error TooWide => text("a number does not fit in 64 bits")
        .label("too large")
        .help("numbers range from -2^63 to 2^64-1");
    /// a comment begins inside a comment
    X104 Warning NestedComment { outer: Span, hides: Option<Option<String>> } => {
        let question = "the first comment may lack its `*/`: the comment contains";
        text("a comment begins inside a comment")
            .label("`/*` has no meaning inside a comment")
            .and(*outer, "the comment begins here")
            .help(match hides {
                Some(Some(name)) => format!("{question} the definition of `{name}`"),
                Some(None) => format!("{question} a definition"),
                None => "a comment ends at the first `*/`, even if it contains `/*`".to_owned(),
            })
    };
    /// A comment inside an addition, which is itself part of a comment.
    X104 Warning CommentInAddition { outer: Span } => text("a comment begins inside a comment")
        .label("comments do not nest: the first `*/` ends both")
        .and(*outer, "the comment begins here")
        .help("the lines up to the line with only `*/` are read as the addition");
    /// a character has no meaning here
    X110 Error Unknown { expected: Expected, near: TokenContext } => {
        instead(format!("{} has no meaning here", near.shown()), expected, near)
    };
    /// a `;` is missing
    X111 Error NoSemicolon => text("a `;` is missing")
        .label("expected `;` here")
        .help("a `;` ends each declaration and each definition");
    /// a `{` or `}` is missing
    X112 Error NoOpenBrace => text("a `{` is missing")
        .label("expected `{` here")
        .help("write a body between `{` and `}`");
    /// A body without its `}`.
    X112 Error NoCloseBrace { open: Option<Span>, of: Open } => {
        let text = text("a `}` is missing").label("expected `}` here").help(match of {
            Open::Namespace => "close the namespace with `}`",
            Open::Program => "close the bodies of a program and of its versions with `} = number;`",
            Open::Body => "close the body with `};` before the next definition",
        });
        open.iter().fold(text, |text, open| text.and(*open, "this `{` is never closed"))
    };
    /// a misspelled keyword
    X113 Error Misspelt { word: String, meant: &'static str } => text(format!("{} is not a keyword", quoted(word)))
        .label("misspelled?")
        .help(format!("a similar keyword exists: `{meant}`"));
    /// a keyword used as a name
    X114 Error KeywordAsName { near: TokenContext } => text(format!("{} is a keyword and cannot be a name", near.shown()))
        .label("expected a name")
        .help(match (near.before.as_str(), near.word.as_deref().unwrap_or("")) {
            ("const", _) => "remove the type of the constant: `const NAME = 1;`",
            (_, "unsigned") => "`unsigned` precedes `int`, `hyper`, `char`, `short` or `long`",
            ("typedef", _) => "a typedef is written `typedef type name;`",
            _ => "give it another name",
        });
    /// bodies are nested too deeply
    X115 Error TooDeep { max: u8 } => text(format!("more than {max} nested bodies"))
        .label("this body is too deep")
        .help("define inner bodies separately");
    /// A namespace with a qualified name that is too long.
    X115 Error LongPath { max: usize } => text(format!("the qualified name of a namespace has more than {max} bytes"))
        .label("including this name")
        .help("nest fewer namespaces, or shorten their names");
    /// an arm has several declarations
    X116 Error SecondDeclaration => text("an arm has several declarations")
        .label("the second declaration")
        .help("put the declarations into a `struct { ... } name;`");
    /// Several declarations in an arm of a published document.
    X116 Warning SeveralDeclarations => text("an arm has several declarations")
        .label("the second declaration")
        .help("a published document cannot be corrected: the declarations are read as one struct");
    /// an enum without members
    X117 Error EmptyEnum => text("an enum without members")
        .label("expected a member")
        .help("an enum has at least one member");
    /// a union has several default arms
    X118 Error SecondDefault { first: Span } => text("a union has several default arms")
        .label("the second default arm")
        .and(*first, "the first");
    /// a missing `,`
    X119 Error NoComma => text("a `,` is missing")
        .label("expected `,` here")
        .help("a `,` separates the members of an enum");
    /// A word after the last member of an enum.
    X119 Error StrayWord { word: String } =>
        text(format!("{} follows the last member of an enum", quoted(word)))
        .label("has no value, unlike the previous members")
        .help("remove it; if it is a member, write a `,` before it");
    /// An argument with the name of a type. If a `,` is missing, the name may be another argument's type.
    X119 Warning ArgumentLikeType { name: String } => text(format!("an argument is named `{name}`, like a type"))
        .label("read as a name")
        .help("if it is the type of another argument, write a `,` before it");
    /// opaque data without a size
    X120 Error OpaqueSize => text("opaque data without a size")
        .label("expected `[` or `<`")
        .help("write `[n]` for n bytes, `<n>` for up to n, or `<>` for any number");
    /// a string cannot have a fixed size
    X121 Error StringSize => text("a string cannot have a fixed size")
        .label("expected `<`")
        .help("write `<n>` for up to n bytes, or `<>` for any number");
    /// a definition inside another
    X122 Error NamedInside => text("a definition inside another")
        .label("a named body must be a separate definition")
        .help("move it out, or remove its name");
    /// `opaque` is not a type name
    X123 Error OpaqueType => text("`opaque` is not a type name")
        .label("expected a type")
        .help("define a name for it: `typedef opaque name<n>;`");
    /// a declaration has several sizes
    X124 Error SecondSize => text("a declaration has several sizes")
        .label("the second `*`, `[n]` or `<n>`")
        .help("give the inner type a name with `typedef` and use the name here");
    /// a declaration has several names
    X125 Error SecondName => text("a declaration has several names")
        .label("expected `;`")
        .help("write a declaration for each name: `int a; int b;`");
    /// a declaration with a value
    X126 Error InitialValue => text("a declaration cannot have a value")
        .label("expected `;`")
        .help("`const NAME = value;` defines a constant");
    /// arithmetic is not supported
    X127 Error Arithmetic => text("arithmetic is not supported")
        .label("a value is a number or the name of a constant")
        .help("write the result as a number");
    /// a union without arms
    X128 Error NoArms => text("a union without arms").label("expected `case`").help("a union has at least one arm");
    /// `opaque` and `string` cannot be optional
    X129 Error PointerToBytes => text("`opaque` and `string` cannot be optional")
        .label("expected a name")
        .help("`opaque name<>` and `string name<>` may be empty; for optional data, name the type with `typedef`");
    }
}

/// The token or construct that the parser expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    /// A punctuation mark or a keyword.
    Token(&'static str),
    /// A `,` or the `}` of an enum.
    MemberEnd,
    /// A `case`, a `default` or the `}` of a union.
    Arm,
    Declaration,
    /// A declaration or the `}` of a struct.
    Field,
    Definition,
    Name,
    /// A procedure or the `}` of a version.
    Procedure,
    Type,
    Value,
    /// A version or the `}` of a program.
    Version,
    /// Never reported: each grammar function replaces this variant.
    Other,
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Expected::Token(token) => return write!(f, "`{token}`"),
            Expected::MemberEnd => "`,` or `}`",
            Expected::Arm => "`case`, `default` or `}`",
            Expected::Declaration => "a declaration",
            Expected::Field => "a declaration or `}`",
            Expected::Definition => "a definition",
            Expected::Name => "a name",
            Expected::Procedure => "a procedure or `}`",
            Expected::Type => "a type",
            Expected::Value => "a number or the name of a constant",
            Expected::Version => "`version` or `}`",
            Expected::Other => "something else",
        })
    }
}

/// The token at a position and its neighbors. `word` is `None` at the end of the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TokenContext {
    pub(crate) before: String,
    pub(crate) word: Option<String>,
    pub(crate) next: String,
}

impl TokenContext {
    fn shown(&self) -> String {
        self.word.as_deref().map_or_else(|| "the end of the text".to_owned(), quoted)
    }
}

/// The construct whose `}` is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Open {
    Body,
    Namespace,
    Program,
}

/// Quotes the first 40 characters of a token, and escapes invisible characters.
fn quoted(word: &str) -> String {
    let mut short = String::new();
    for c in word.chars().take(40) {
        if matches!(c, '"' | '\'' | '\\') { short.push(c) } else { short.extend(c.escape_debug()) }
    }
    format!("`{short}`")
}

/// Returns the text for a malformed number.
fn malformed(number: &str) -> Text {
    let decimal = number.trim_start_matches('0');
    let text = text("invalid number");
    if number.starts_with("0x") || number.starts_with("0X") {
        text.label("not a hexadecimal number").help("after `0x`, write digits and the letters `a` to `f`")
    } else if !decimal.is_empty()
        && decimal.len() < number.len()
        && decimal.bytes().all(|b| b.is_ascii_digit())
    {
        text.label("octal, since the first digit is 0").help(format!(
            "a number that begins with `0` contains only the digits 0 to 7; write `{decimal}` for a decimal number"
        ))
    } else {
        text.label("neither decimal, hexadecimal nor octal").help("numbers are written `10`, `0xa` or `012`")
    }
}

/// Returns the text for an unexpected token.
fn instead(message: String, expected: &Expected, near: &TokenContext) -> Text {
    let text = text(message).label(format!("expected {expected}"));
    Text { help: hint(expected, near).map(str::to_owned), ..text }
}

/// Returns the help for an unexpected token, if any.
fn hint(expected: &Expected, near: &TokenContext) -> Option<&'static str> {
    use Expected::{Arm, Definition, Field, MemberEnd, Name, Procedure, Token, Value, Version};
    Some(match (expected, near.word.as_deref()?) {
        (_, "-") => {
            "a name consists of letters, digits and `_`; write the `-` of a negative number before its digits"
        }
        (Token("switch"), _) => "a union is written `union name switch (type name) { ... };`",
        (Definition, _) if near.next == "=" => "a constant begins with `const`: `const NAME = value;`",
        (Definition, _) if near.next == "{" => "`struct`, `enum` or `program` is missing before the name",
        (Definition, _) if near.next == "switch" => "`union` is missing before the name",
        (Arm, _) if near.next == ":" => "`case` is missing before the label",
        (Field | Arm | Version | Procedure, ";") => {
            "remove the `;`, or write the `}` that is missing before it"
        }
        (Definition, "}") => "no body is open here: remove the `}`, or look for an extra `}` above",
        (Definition, word) if is_keyword(word) => "declarations belong in bodies: `struct name { ... };`",
        (Definition, _) => {
            "a definition begins with `const`, `typedef`, `enum`, `struct`, `union` or `program`"
        }
        (Name, word) if word.starts_with(|c: char| c.is_alphabetic() && !c.is_ascii()) => {
            "a name consists of the letters `a` to `z` and `A` to `Z`, digits and `_`"
        }
        (Name, "[" | "<") => "the size follows the name: `int name[3]`",
        (Value, "]") => "`[n]` needs a number; `<>` allows any number of elements",
        (_, "break") => "an arm ends at its `;`: XDR has no `break`",
        (Token(":"), ",") => "write `case 1: case 2:` for an arm with two labels",
        (MemberEnd, ";") => "a `,` separates the members of an enum",
        (Token(";"), ":") => "XDR has no bit fields",
        (Token(";"), _) if near.before == "}" => {
            "the previous `}` closes a body: remove it, or write `;` after it"
        }
        (Token(";"), ">") => "the `<` of a bound is missing",
        (Token(";"), "]") => "the `[` of a size is missing",
        (Token("{"), ";") if near.next == "{" => "remove the `;`: the definition ends after its body",
        (Token("{"), ";") => "XDR has no forward declarations: a name may be used before it is defined",
        (Token(";"), _) if near.before == "void" => "`void` has no name",
        (Field, "const" | "typedef") => "definitions cannot be nested",
        _ => return None,
    })
}
