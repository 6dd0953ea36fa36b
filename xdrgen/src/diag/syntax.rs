//! Findings of the lexer and the parser.

use std::fmt;

use super::{Text, text};
use crate::keywords::is_keyword;
use crate::source::Span;

kinds! {
    /// X1: syntax
    Syntax SyntaxKind {
    /// unexpected text
    ///
    /// The grammar (RFC 4506 section 6.3, RFC 5531 section 12.2) requires another token here. The message
    /// names the expected and the actual token.
    ///
    /// ```xdr
    /// const LIMIT 5;
    /// ```
    ///
    /// ```xdr
    /// const LIMIT = 5;
    /// ```
    X100 Error Unexpected { expected: Expected, near: TokenContext } => {
        instead(format!("expected {expected}, found {}", near.shown()), expected, near)
    };
    /// A token is missing at the end of a line.
    X100 Error Missing { expected: Expected } => text(format!("a {expected} is missing"))
        .label(format!("expected {expected} here"));
    /// a comment is never closed
    ///
    /// A `/*` has no `*/`. The compiler continues at the next line that begins a definition.
    ///
    /// ```xdr
    /// /* The longest name.
    /// const LONGEST = 255;
    /// ```
    ///
    /// ```xdr
    /// /* The longest name. */
    /// const LONGEST = 255;
    /// ```
    X101 Error OpenComment => text("a comment is never closed").label("begins here").help("end it with `*/`");
    /// invalid number
    ///
    /// Numbers are decimal (`10`), hexadecimal (`0xa`) or octal (`012`). A number that begins with 0 but not
    /// with 0x is octal and may contain only the digits 0 to 7.
    ///
    /// ```xdr
    /// const MONTH = 08;
    /// ```
    ///
    /// ```xdr
    /// const MONTH = 8;
    /// ```
    X102 Error Malformed { number: String } => malformed(number.trim_start_matches('-'));
    /// a number does not fit in 64 bits
    ///
    /// Numbers range from -2^63 to 2^64-1.
    ///
    /// ```xdr
    /// const HUGE = 0x10000000000000000;
    /// ```
    ///
    /// ```xdr
    /// const HUGE = 0xffffffffffffffff;
    /// ```
    X103 Error TooWide => text("a number does not fit in 64 bits")
        .label("too large")
        .help("numbers range from -2^63 to 2^64-1");
    /// a comment begins inside a comment
    ///
    /// Comments do not nest: the first `*/` ends all of them, and the rest is read as XDR. This is a
    /// warning.
    ///
    /// ```xdr
    /// /* Not used yet:
    ///    /* const A = 1; */
    /// const B = 2;
    /// ```
    ///
    /// ```xdr
    /// /* Not used yet:
    ///    const A = 1; */
    /// const B = 2;
    /// ```
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
    /// A comment inside the additions of a published document.
    X104 Warning CommentInAddition { outer: Span } => text("a comment begins inside a comment")
        .label("comments do not nest: the first `*/` ends both")
        .and(*outer, "the comment begins here")
        .help("the lines up to the line with only `*/` are read as the addition");
    /// a character has no meaning here
    ///
    /// Names consist of letters, digits and `_`. Outside comments and lines for C, the only other characters
    /// of XDR are `{ } ( ) [ ] < > = * ; : , -`.
    ///
    /// ```xdr
    /// const FIRST-ONE = 1;
    /// ```
    ///
    /// ```xdr
    /// const FIRST_ONE = 1;
    /// ```
    X110 Error Unknown { expected: Expected, near: TokenContext } => {
        instead(format!("{} has no meaning here", near.shown()), expected, near)
    };
    /// a `;` is missing
    ///
    /// A `;` ends each declaration and each definition, including the last declaration of a body. The
    /// position is where the `;` is missing, which may be on the line before the unexpected token.
    ///
    /// ```xdr
    /// struct point {
    ///    int x
    ///    int y;
    /// };
    /// ```
    ///
    /// ```xdr
    /// struct point {
    ///    int x;
    ///    int y;
    /// };
    /// ```
    X111 Error NoSemicolon => text("a `;` is missing")
        .label("expected `;` here")
        .help("a `;` ends each declaration and each definition");
    /// a `{` or `}` is missing
    ///
    /// Either a body begins without its `{`, or a body is still open where another definition begins or
    /// the text ends. In the second case, the second span is the `{` that is never closed.
    ///
    /// ```xdr
    /// struct point {
    ///    int x;
    ///    int y;
    ///
    /// const ORIGIN = 0;
    /// ```
    ///
    /// ```xdr
    /// struct point {
    ///    int x;
    ///    int y;
    /// };
    ///
    /// const ORIGIN = 0;
    /// ```
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
    ///
    /// A keyword that is valid here differs from the word by one letter, by two swapped letters, or only in
    /// case. Keywords are in lower case.
    ///
    /// ```xdr
    /// strcut point {
    ///    int x;
    /// };
    /// ```
    ///
    /// ```xdr
    /// struct point {
    ///    int x;
    /// };
    /// ```
    X113 Error Misspelt { word: String, meant: &'static str } => text(format!("{} is not a keyword", quoted(word)))
        .label("misspelled?")
        .help(format!("a similar keyword exists: `{meant}`"));
    /// a keyword used as a name
    ///
    /// The keywords of XDR, and rpcgen's types `char`, `short` and `long`, cannot be names.
    ///
    /// ```xdr
    /// struct call {
    ///    int case;
    /// };
    /// ```
    ///
    /// ```xdr
    /// struct call {
    ///    int which;
    /// };
    /// ```
    X114 Error KeywordAsName { near: TokenContext } => text(format!("{} is a keyword and cannot be a name", near.shown()))
        .label("expected a name")
        .help(match (near.before.as_str(), near.word.as_deref().unwrap_or("")) {
            ("const", _) => "remove the type of the constant: `const NAME = 1;`",
            (_, "unsigned") => "`unsigned` precedes `int`, `hyper`, `char`, `short` or `long`",
            ("typedef", _) => "a typedef is written `typedef type name;`",
            _ => "give it another name",
        });
    /// bodies are nested too deeply
    ///
    /// Bodies may nest at most 64 levels deep, including the definition's own body.
    ///
    /// ```xdr
    /// struct a {struct {struct {struct {struct {struct {struct {struct {struct {
    /// struct {struct {struct {struct {struct {struct {struct {struct {
    /// struct {struct {struct {struct {struct {struct {struct {struct {
    /// struct {struct {struct {struct {struct {struct {struct {struct {
    /// struct {struct {struct {struct {struct {struct {struct {struct {
    /// struct {struct {struct {struct {struct {struct {struct {struct {
    /// struct {struct {struct {struct {struct {struct {struct {struct {
    /// struct {struct {struct {struct {struct {struct {struct {struct { int x;
    /// } b; } b; } b; } b; } b; } b; } b; } b; } b; } b; } b; } b; } b; } b; } b; } b;
    /// } b; } b; } b; } b; } b; } b; } b; } b; } b; } b; } b; } b; } b; } b; } b; } b;
    /// } b; } b; } b; } b; } b; } b; } b; } b; } b; } b; } b; } b; } b; } b; } b; } b;
    /// } b; } b; } b; } b; } b; } b; } b; } b; } b; } b; } b; } b; } b; } b; } b; } b; };
    /// ```
    ///
    /// Define inner bodies separately.
    ///
    /// ```xdr
    /// struct inner { int x; };
    /// struct a { inner b; };
    /// ```
    X115 Error TooDeep { max: u8 } => text(format!("more than {max} nested bodies"))
        .label("this body is too deep")
        .help("define inner bodies separately");
    /// A namespace with a qualified name that is too long.
    X115 Error LongPath { max: usize } => text(format!("the qualified name of a namespace has more than {max} bytes"))
        .label("including this name")
        .help("nest fewer namespaces, or shorten their names");
    /// an arm has several declarations
    ///
    /// This is an error. In a published document it is a warning, and the declarations are read as one
    /// struct.
    ///
    /// ```xdr
    /// union shape switch (int kind) {
    /// case 1:
    ///    int width;
    ///    int height;
    /// default:
    ///    void;
    /// };
    /// ```
    ///
    /// Put the declarations into a struct.
    ///
    /// ```xdr
    /// union shape switch (int kind) {
    /// case 1:
    ///    struct {
    ///       int width;
    ///       int height;
    ///    } box;
    /// default:
    ///    void;
    /// };
    /// ```
    X116 Error SecondDeclaration => text("an arm has several declarations")
        .label("the second declaration")
        .help("put both into a `struct { ... } name;`");
    /// Several declarations in an arm of a published document.
    X116 Warning SeveralDeclarations => text("an arm has several declarations")
        .label("the second declaration")
        .help("a published document cannot be corrected: the declarations are read as one struct");
    /// an enum without members
    ///
    /// RFC 4506 section 6.3 requires at least one member: a value of an empty enum cannot be encoded.
    ///
    /// ```xdr
    /// enum colour { };
    /// ```
    ///
    /// ```xdr
    /// enum colour { RED };
    /// ```
    X117 Error EmptyEnum => text("an enum without members")
        .label("expected a member")
        .help("an enum has at least one member");
    /// a union has several default arms
    ///
    /// The default arm covers all values without an arm, so a second default arm would never be selected.
    ///
    /// ```xdr
    /// union answer switch (int status) {
    /// case 0:
    ///    int value;
    /// default:
    ///    void;
    /// default:
    ///    int error;
    /// };
    /// ```
    ///
    /// ```xdr
    /// union answer switch (int status) {
    /// case 0:
    ///    int value;
    /// default:
    ///    int error;
    /// };
    /// ```
    X118 Error SecondDefault { first: Span } => text("a union has several default arms")
        .label("the second default arm")
        .and(*first, "the first");
    /// a missing `,`
    ///
    /// A `,` separates the members of an enum, and the arguments of a procedure. An argument may have a
    /// name (`bool known`). A missing `,` before a type's name is therefore only a warning: the type's name
    /// is read as the argument's name.
    ///
    /// ```xdr
    /// enum colour {
    ///    RED = 1
    ///    GREEN = 2
    /// };
    /// ```
    ///
    /// ```xdr
    /// enum colour {
    ///    RED = 1,
    ///    GREEN = 2
    /// };
    /// ```
    X119 Error NoComma => text("a `,` is missing")
        .label("expected `,` here")
        .help("a `,` separates the members of an enum");
    /// A word after the last member of an enum.
    X119 Error StrayWord { word: String } =>
        text(format!("{} follows the last member of an enum", quoted(word)))
        .label("has no value, unlike the previous members")
        .help("remove it; if it is a member, write a `,` before it");
    /// A name that may be the type of another argument.
    X119 Warning ArgumentLikeType { name: String } => text(format!("an argument is named `{name}`, like a type"))
        .label("read as a name")
        .help("write a `,` before it if it is the type of another argument");
    /// opaque data without a size
    ///
    /// ```xdr
    /// struct file {
    ///    opaque handle;
    /// };
    /// ```
    ///
    /// `[n]` is exactly n bytes, `<n>` at most n, and `<>` any number.
    ///
    /// ```xdr
    /// struct file {
    ///    opaque handle<64>;
    /// };
    /// ```
    X120 Error OpaqueSize => text("opaque data without a size")
        .label("expected `[` or `<`")
        .help("write `[n]` for n bytes, `<n>` for up to n, `<>` for any number");
    /// a string cannot have a fixed size
    ///
    /// A string has a variable length, which precedes its bytes in the encoding. XDR defines only an upper
    /// bound for a string, `<n>`.
    ///
    /// ```xdr
    /// struct file {
    ///    string name[16];
    /// };
    /// ```
    ///
    /// ```xdr
    /// struct file {
    ///    string name<16>;
    /// };
    /// ```
    X121 Error StringSize => text("a string cannot have a fixed size")
        .label("expected `<`")
        .help("write `<n>` for up to n bytes, `<>` for any number");
    /// a definition inside another
    ///
    /// A body written in place of a type name cannot have a name itself. C allows a name there.
    ///
    /// ```xdr
    /// typedef struct point {
    ///    int x;
    /// } point;
    /// ```
    ///
    /// ```xdr
    /// struct point {
    ///    int x;
    /// };
    /// ```
    X122 Error NamedInside => text("a definition inside another")
        .label("a named body must be a separate definition")
        .help("move it out, or remove its name");
    /// `opaque` is not a type name
    ///
    /// `opaque` without a size is not a type. RFC 5531 section 12.2 allows no size in an argument or a result
    /// of a procedure.
    ///
    /// ```xdr
    /// program STORE {
    ///    version STORE_V1 {
    ///       opaque GET(int) = 1;
    ///    } = 1;
    /// } = 0x20000099;
    /// ```
    ///
    /// ```xdr
    /// typedef opaque content<>;
    /// program STORE {
    ///    version STORE_V1 {
    ///       content GET(int) = 1;
    ///    } = 1;
    /// } = 0x20000099;
    /// ```
    X123 Error OpaqueType => text("`opaque` is not a type name")
        .label("expected a type")
        .help("define a name for it: `typedef opaque name<n>;`");
    /// a declaration has several sizes
    ///
    /// XDR has no arrays of arrays and no pointers to arrays. A declaration has at most one `*`,
    /// `[n]` or `<n>`.
    ///
    /// ```xdr
    /// struct matrix {
    ///    int cells[3][3];
    /// };
    /// ```
    ///
    /// Give the inner type a name.
    ///
    /// ```xdr
    /// typedef int row[3];
    /// struct matrix {
    ///    row rows[3];
    /// };
    /// ```
    X124 Error SecondSize => text("a declaration has several sizes")
        .label("the second `*`, `[n]` or `<n>`")
        .help("give the inner type a name by `typedef` and use the name here");
    /// a declaration has several names
    ///
    /// C accepts a list of names after a type. XDR requires one declaration for each name.
    ///
    /// ```xdr
    /// struct point {
    ///    int x, y;
    /// };
    /// ```
    ///
    /// ```xdr
    /// struct point {
    ///    int x;
    ///    int y;
    /// };
    /// ```
    X125 Error SecondName => text("a declaration has several names")
        .label("expected `;`")
        .help("write a declaration for each name: `int a; int b;`");
    /// a declaration with a value
    ///
    /// ```xdr
    /// struct point {
    ///    int x = 0;
    /// };
    /// ```
    ///
    /// Only a constant has a value. The application sets the values of fields.
    ///
    /// ```xdr
    /// const ORIGIN = 0;
    /// struct point {
    ///    int x;
    /// };
    /// ```
    X126 Error InitialValue => text("a declaration cannot have a value")
        .label("expected `;`")
        .help("`const NAME = value;` defines a constant");
    /// arithmetic is not supported
    ///
    /// A value is a literal, or the name of a constant or an enum member. Macros (`#define`) follow the
    /// rules of C, so their arithmetic is evaluated.
    ///
    /// ```xdr
    /// const FLAG = 1 << 3;
    /// ```
    ///
    /// ```xdr
    /// const FLAG = 8;
    /// ```
    X127 Error Arithmetic => text("arithmetic is not supported")
        .label("a value is a number or the name of a constant")
        .help("write the result as a number");
    /// a union without arms
    ///
    /// RFC 4506 section 6.3 requires at least one `case`. This compiler also accepts a union that has only a
    /// default arm.
    ///
    /// ```xdr
    /// union answer switch (int status) {
    /// };
    /// ```
    ///
    /// ```xdr
    /// union answer switch (int status) {
    /// default:
    ///    void;
    /// };
    /// ```
    X128 Error NoArms => text("a union without arms").label("expected `case`").help("a union has at least one arm");
    /// `opaque` and `string` cannot be optional
    ///
    /// ```xdr
    /// struct file {
    ///    string *name;
    /// };
    /// ```
    ///
    /// Empty data needs no `*`, since `<>` allows empty data. To distinguish missing text from empty text,
    /// define a type.
    ///
    /// ```xdr
    /// typedef string name<>;
    /// struct file {
    ///    name *called;
    /// };
    /// ```
    X129 Error PointerToBytes => text("`opaque` and `string` cannot be optional")
        .label("expected a name")
        .help("`opaque name<>` and `string name<>` may be empty; for optional data, define a type");
    }
}

/// The expected token at a position.
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

/// The construct with the missing `}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Open {
    Body,
    Namespace,
    Program,
}

/// Quotes the first characters of a token, and escapes invisible characters.
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
        (_, "-") => "a name consists of letters, digits and `_`; the `-` of a number directly precedes it",
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
