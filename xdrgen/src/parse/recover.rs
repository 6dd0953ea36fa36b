//! What a syntax error says, and where the parser goes on after it.

use super::token::{Kind, Token};
use super::tokens::{Context, MAX_DEPTH, Reason, Syntax, is_keyword};
use crate::diag::Diagnostic;
use crate::keywords::{DEFINITIONS, one_slip};

/// Where to go on after an error, and how many bodies of the broken definition are open there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Resume {
    pub(crate) at: usize,
    open: usize,
}

/// Whether a definition begins at a token: its keyword, a name, and what follows a name. A body in place has no
/// name and a declaration has no body, so this never stands inside a correct definition.
pub(crate) fn begins_definition(context: &Context<'_>, at: usize) -> bool {
    let word = |at| context.token(at).map_or("", |token| token.text);
    let name = context.token(at + 1).is_some_and(|token| token.kind == Kind::Word && !is_keyword(token.text));
    match word(at) {
        "const" => name && word(at + 2) == "=",
        "typedef" => context.token(at + 1).is_some(),
        "struct" | "enum" => name && word(at + 2) == "{",
        "program" => name && word(at + 2) == "{" && word(at + 3) == "version",
        "union" => name && word(at + 2) == "switch",
        _ => false,
    }
}

/// The next definition behind one that begins at `start` and fails at `failed`: behind the `;` that closes it, or
/// where a line begins another that stands no deeper. Never `start` itself, unless the text ends there.
pub(crate) fn resume(context: &Context<'_>, start: usize, error: Syntax) -> Resume {
    let failed = error.at;
    let unopened = lacks_brace(context, error) || goes_on_behind_brace(context, error);
    let word = |at| context.token(at).map_or("", |token| token.text);
    let column = context.token(start).map_or(0, |token| token.column);
    let mut open = 0_usize;
    for at in start.. {
        let Some(token) = context.token(at) else { return Resume { at, open } };
        let near = at > start && at + 2 >= failed;
        if near && token.first && token.column <= column && begins_definition(context, at) {
            return Resume { at, open };
        }
        if unopened && at == failed {
            open += 1;
        }
        match token.text {
            "{" => open += 1,
            "}" => open = open.saturating_sub(1),
            ";" if open == 0 && at >= failed && word(at + 1) != "{" => return Resume { at: at + 1, open },
            _ => {}
        }
    }
    Resume { at: failed, open }
}

/// Whether a body begins at an error without its `{`.
fn lacks_brace(context: &Context<'_>, error: Syntax) -> bool {
    let word = |at| context.token(at).map_or("", |token| token.text);
    let begins_body = |token: &Token<'_>| {
        token.kind == Kind::Word
            && (token.first || is_keyword(token.text) || matches!(word(error.at + 1), "=" | ","))
    };
    error.reason == Reason::Expected("{", &[]) && context.token(error.at).is_some_and(begins_body)
}

/// Whether a body goes on behind a `}` that is one too many: behind the right one stands a `;`.
fn goes_on_behind_brace(context: &Context<'_>, error: Syntax) -> bool {
    let before = error.at.checked_sub(1).and_then(|at| context.token(at));
    error.reason == Reason::Expected("`;`", &[]) && before.is_some_and(|before| before.text == "}")
}

/// Whether a token behind a broken definition is what is left of it: no definition begins so, or not in the middle
/// of a line.
pub(crate) fn is_left_over(context: &Context<'_>, at: usize) -> bool {
    let is_value = at.checked_sub(1).and_then(|at| context.token(at)).is_some_and(|token| token.text == "=");
    context.token(at).is_some_and(|token| match token.kind {
        Kind::Mark | Kind::Number(_) => true,
        Kind::Word => is_value || !token.first && !begins_definition(context, at),
        _ => false,
    })
}

/// The names that a broken definition would have defined, as far as its tokens tell.
pub(crate) fn names(context: &Context<'_>, start: usize, end: usize) -> Vec<String> {
    let word = |at: usize| {
        context
            .token(at)
            .filter(|token| token.kind == Kind::Word && !is_keyword(token.text))
            .map(|token| token.text)
    };
    let mark = |at: usize| context.token(at).map_or("", |token| token.text);
    let is_name = |at: &usize| match mark(start) {
        "enum" => *at == start + 1 || matches!(mark(at - 1), "{" | ",") || matches!(mark(at + 1), "=" | ","),
        "typedef" => matches!(mark(at + 1), ";" | "<" | "["),
        _ => *at == start + 1,
    };
    (start + 1..end).filter(is_name).filter_map(word).map(str::to_owned).collect()
}

/// What an error says to a person.
pub(crate) fn diagnostic(context: &Context<'_>, start: usize, error: Syntax) -> Diagnostic {
    let resume = resume(context, start, error);
    let next = resume.at <= error.at && begins_definition(context, resume.at);
    let ended = context.token(error.at).is_none();
    if lacks_brace(context, error) {
        return Diagnostic::error("X112", context.behind(error.at), "a `{` is missing")
            .with_label("expected `{` here")
            .with_help("a body stands between `{` and `}`");
    }
    if resume.open > 0 && (next || ended) && error.reason != Reason::TooDeep {
        return missing_brace(context, start, resume.at);
    }
    if let Some(found) = misspelt(context, start, error) {
        return found;
    }
    let span = if ended { context.behind(error.at) } else { context.span(error.at, error.at) };
    match error.reason {
        Reason::Semicolon => missing_semicolon(context, error.at),
        Reason::Expected(what, _) => expected(context, error.at, what).unwrap_or_else(|| {
            let found =
                Diagnostic::error("X100", span, format!("expected {what}, found the end of the text"));
            found.with_label(format!("expected {what}"))
        }),
        Reason::KeywordAsName => keyword_as_name(context, error.at),
        Reason::Malformed => malformed(context, error.at),
        Reason::SecondDefault(first) => Diagnostic::error("X118", span, "a union has one default arm")
            .with_label("this is the second")
            .with_related(context.span(first, first), "the first is here"),
        reason => fixed(reason, span),
    }
}

/// A keyword where a name must stand: it may have been meant as one, or more words were written than XDR has.
fn keyword_as_name(context: &Context<'_>, at: usize) -> Diagnostic {
    let word = |at: usize| context.token(at).map_or("", |token| token.text);
    let before = at.checked_sub(1).map_or("", word);
    let help = match (before, word(at)) {
        ("const", _) => "a constant has no type: `const NAME = 1;`",
        ("long", "long" | "int") => "an integer of 64 bits is a `hyper`, or an `unsigned hyper`",
        (_, "unsigned") => "`unsigned` stands before `int`, `hyper`, `short` or `char`",
        ("typedef", _) => "a typedef is written `typedef type name;`",
        _ => "give it another name",
    };
    let message = format!("{} is a keyword and cannot be a name", found(context, at));
    let found = Diagnostic::error("X114", context.span(at, at), message);
    found.with_label("expected a name").with_help(help)
}

/// Something that begins as a number does and is none.
fn malformed(context: &Context<'_>, at: usize) -> Diagnostic {
    let text = context.token(at).map_or("", |token| token.text).trim_start_matches('-');
    let decimal = text.trim_start_matches('0');
    let (label, help) = if text.starts_with("0x") || text.starts_with("0X") {
        ("no hexadecimal number", "behind `0x` stand digits and the letters `a` to `f`".to_owned())
    } else if !decimal.is_empty() && decimal.len() < text.len() && decimal.bytes().all(|b| b.is_ascii_digit())
    {
        let help = format!(
            "a number that begins with `0` has the digits 0 to 7 only; write `{decimal}` for the decimal one"
        );
        ("an octal number, by its first digit", help)
    } else {
        ("neither decimal, hexadecimal nor octal", "numbers are written `10`, `0xa` or `012`".to_owned())
    };
    Diagnostic::error("X102", context.span(at, at), "this is no number").with_label(label).with_help(help)
}

/// The errors that say the same wherever they are.
fn fixed(reason: Reason, span: crate::source::Span) -> Diagnostic {
    let (code, message, label, help) = match reason {
        Reason::TooDeep => (
            "X115",
            format!("more than {MAX_DEPTH} bodies inside one another"),
            "this one is too deep",
            "give inner bodies a definition of their own",
        ),
        Reason::TooWide => (
            "X103",
            "a number is too wide".to_owned(),
            "this does not fit in 64 bits",
            "numbers reach from -2^63 to 2^64-1",
        ),
        Reason::SecondDeclaration => (
            "X116",
            "an arm holds one declaration".to_owned(),
            "this is another",
            "put both into a `struct { ... } name;`",
        ),
        Reason::EmptyEnum => (
            "X117",
            "an enum without members".to_owned(),
            "expected a member",
            "an enum has at least one member",
        ),
        Reason::OpaqueSize => (
            "X120",
            "opaque data without a size".to_owned(),
            "expected `[` or `<`",
            "write `[n]` for n bytes, `<n>` for up to n, `<>` for any number",
        ),
        Reason::StringSize => (
            "X121",
            "a string has no fixed size".to_owned(),
            "expected `<`",
            "write `<n>` for up to n bytes, `<>` for any number",
        ),
        Reason::NamedInside => (
            "X122",
            "a definition inside another".to_owned(),
            "a body with a name must stand by itself",
            "move it out, or remove its name",
        ),
        Reason::OpaqueType => (
            "X123",
            "`opaque` is no type by itself".to_owned(),
            "expected a type",
            "define a name for it: `typedef opaque name<n>;`",
        ),
        other => of_c(other),
    };
    Diagnostic::error(code, span, message).with_label(label).with_help(help)
}

/// What C has and XDR has not.
fn of_c(reason: Reason) -> (&'static str, String, &'static str, &'static str) {
    match reason {
        Reason::SecondSize => (
            "X124",
            "a declaration has one `*`, `[n]` or `<n>`".to_owned(),
            "this is the second",
            "give the inner type a name by `typedef` and use that here",
        ),
        Reason::SecondName => (
            "X125",
            "a declaration declares one name".to_owned(),
            "expected `;`",
            "declare each by itself: `int a; int b;`",
        ),
        Reason::InitialValue => (
            "X126",
            "a declaration has no value".to_owned(),
            "expected `;`",
            "`const NAME = value;` defines a constant",
        ),
        Reason::Arithmetic => (
            "X127",
            "XDR does not compute".to_owned(),
            "a value is a number or the name of one",
            "write the result as a number",
        ),
        Reason::NoArms => {
            ("X128", "a union without arms".to_owned(), "expected `case`", "a union has at least one arm")
        }
        _ => (
            "X129",
            "`opaque` and `string` have no `*`".to_owned(),
            "expected a name",
            "`opaque name<>` and `string name<>` have any length; for optional data define a type of them",
        ),
    }
}

/// What stands at a token, in a few characters.
fn found(context: &Context<'_>, at: usize) -> String {
    context.token(at).map_or_else(
        || "the end of the text".to_owned(),
        |token| {
            let mut short = String::new();
            for c in token.text.chars().take(40) {
                // What can be read is shown as it stands.
                if matches!(c, '"' | '\'' | '\\') { short.push(c) } else { short.extend(c.escape_debug()) }
            }
            format!("`{short}`")
        },
    )
}

/// Something else stands there; none at the end of the text.
fn expected(context: &Context<'_>, at: usize, what: &str) -> Option<Diagnostic> {
    let token = context.token(at)?;
    let what = if what.bytes().all(|b| b.is_ascii_lowercase()) || what.len() == 1 {
        format!("`{what}`")
    } else {
        what.to_owned()
    };
    // A mark that is missing is missed at the end of its line, not where the next begins.
    if token.first
        && token.kind != Kind::Unknown
        && matches!(what.as_str(), "`:`" | "`)`" | "`]`" | "`>`" | "`=`")
    {
        let report = Diagnostic::error("X100", context.behind(at), format!("a {what} is missing"));
        return Some(report.with_label(format!("expected {what} here")));
    }
    let (span, found) = (context.span(at, at), found(context, at));
    let report = if token.kind == Kind::Unknown {
        Diagnostic::error("X110", span, format!("{found} has no meaning in XDR"))
            .with_label(format!("expected {what}"))
    } else {
        let report = Diagnostic::error("X100", span, format!("expected {what}, found {found}"));
        report.with_label(format!("expected {what}"))
    };
    Some(match expected_help(context, at, &what) {
        Some(help) => report.with_help(help),
        None => report,
    })
}

/// What to do where something else stands than the language has there.
fn expected_help(context: &Context<'_>, at: usize, what: &str) -> Option<&'static str> {
    let word = |at: usize| context.token(at).map_or("", |token| token.text);
    let before = at.checked_sub(1).map_or("", word);
    Some(match (what, word(at)) {
        (_, "-") => "a name has letters, digits and `_`; a number's `-` stands directly before it",
        ("`switch`", _) => "a union is written `union name switch (type name) { ... };`",
        ("a definition", _) if word(at + 1) == "=" => "a constant begins with `const`: `const NAME = value;`",
        ("a definition", _) if word(at + 1) == "{" => {
            "`struct`, `enum` or `program` is missing before the name"
        }
        ("a definition", _) if word(at + 1) == "switch" => "`union` is missing before the name",
        ("`case`, `default` or `}`", _) if word(at + 1) == ":" => "`case` is missing before the label",
        (
            "a declaration or `}`" | "`case`, `default` or `}`" | "`version` or `}`" | "a procedure or `}`",
            ";",
        ) => "remove the `;`, or write the `}` that is missing before it",
        ("a definition", "}") => "no body is open here: remove it, or look for a `}` too many above",
        ("a definition", word) if is_keyword(word) => "declarations stand in bodies: `struct name { ... };`",
        ("a definition", _) => {
            "a definition begins with `const`, `typedef`, `enum`, `struct`, `union` or `program`"
        }
        ("a name", word) if word.starts_with(|c: char| c.is_alphabetic() && !c.is_ascii()) => {
            "a name has the letters `a` to `z` and `A` to `Z`, digits and `_`"
        }
        ("a name", "[" | "<") => "the size stands behind the name: `int name[3]`",
        ("a number or the name of one", "]") => "`[n]` has a number; `<>` is for any number",
        (_, "break") => "an arm ends at its `;`: there is no `break`",
        ("`:`", ",") => "write `case 1: case 2:` for an arm with two labels",
        ("`,` or `}`", ";") => "a `,` parts the members of an enum",
        ("`;`", ":") => "XDR has no bit fields",
        ("`;`", _) if before == "}" => "the `}` before it closes a body: remove it, or write `;` behind it",
        ("`;`", ">") => "the `<` of a bound is missing",
        ("`;`", "]") => "the `[` of a size is missing",
        ("`{`", ";") if word(at + 1) == "{" => "remove the `;`: the definition ends behind its body",
        ("`{`", ";") => "nothing is declared ahead: a name may be used before it is defined",
        ("`;`", _) if before == "void" => "`void` has no name",
        ("a declaration or `}`", "const" | "typedef") => "definitions do not stand inside one another",
        _ => return None,
    })
}

/// A `;` must stand behind the token before `at`.
pub(crate) fn missing_semicolon(context: &Context<'_>, at: usize) -> Diagnostic {
    Diagnostic::error("X111", context.behind(at), "a `;` is missing")
        .with_label("expected `;` here")
        .with_help("a `;` ends each declaration and each definition")
}

/// A `,` must stand between two members of an enum.
pub(crate) fn missing_comma(context: &Context<'_>, at: usize) -> Diagnostic {
    Diagnostic::error("X119", context.behind(at), "a `,` is missing")
        .with_label("expected `,` here")
        .with_help("a `,` parts the members of an enum")
}

/// A word without a value behind the last member of an enum whose members have values.
pub(crate) fn stray_word(context: &Context<'_>, at: usize) -> Diagnostic {
    let message = format!("{} stands behind the last member of an enum", found(context, at));
    Diagnostic::error("X119", context.span(at, at), message)
        .with_label("the members before it have values")
        .with_help("remove it; if it is a member, write a `,` before it")
}

/// The body that is open before `next` is never closed.
fn missing_brace(context: &Context<'_>, start: usize, next: usize) -> Diagnostic {
    let mut open = Vec::new();
    for at in start..next {
        match context.token(at).map_or("", |token| token.text) {
            "{" => open.push(at),
            "}" => {
                open.pop();
            }
            _ => {}
        }
    }
    let report = Diagnostic::error("X112", context.behind(next), "a `}` is missing")
        .with_label("expected `}` here")
        .with_help(if context.token(start).is_some_and(|token| token.text == "program") {
            "close the bodies of a program and of its versions with `} = number;`"
        } else {
            "close the body with `};` before the next definition"
        });
    match open.last() {
        Some(brace) => report.with_related(context.span(*brace, *brace), "this `{` is never closed"),
        None => report,
    }
}

/// A word that is nearly the keyword that should stand there: where the error shows, or where its declaration begins.
fn misspelt(context: &Context<'_>, start: usize, error: Syntax) -> Option<Diagnostic> {
    let keywords: &[&str] = match error.reason {
        Reason::Expected(what, []) if what.bytes().all(|b| b.is_ascii_lowercase()) => &[what],
        Reason::Expected(_, keywords) => keywords,
        _ => &[],
    };
    let here = nearest(context, error.at, keywords).map(|keyword| (error.at, keyword));
    let first = || {
        let breaks =
            |at: &usize| context.token(*at).is_some_and(|token| matches!(token.text, "{" | "}" | ";" | ":"));
        // Only two words before the error: behind a longer part that was right, the word was a name.
        let near = start.max(error.at.saturating_sub(3));
        let first = (near..error.at).rev().find(breaks).map_or(start, |at| at + 1);
        if first + 2 < error.at {
            return None;
        }
        let all: Vec<&str> = BEGIN_TYPE.iter().chain(DEFINITIONS).copied().collect();
        // The type of a typedef stands behind its keyword.
        let first =
            if context.token(first).is_some_and(|token| token.text == "typedef") { first + 1 } else { first };
        if first >= error.at {
            return None;
        }
        nearest(context, first, &all).map(|keyword| (first, keyword))
    };
    let (at, keyword) = here.or_else(|| if error.reason == Reason::Semicolon { None } else { first() })?;
    let report =
        Diagnostic::error("X113", context.span(at, at), format!("{} is no keyword", found(context, at)));
    Some(report.with_label("misspelt?").with_help(format!("perhaps `{keyword}` is meant")))
}

/// The words that begin a type or an arm and are long enough to be told from a name.
const BEGIN_TYPE: &[&str] =
    &["unsigned", "opaque", "string", "hyper", "float", "double", "quadruple", "default", "void"];

/// The keyword that is one slip away from a word: a letter too many, too few, wrong, or two in the wrong order.
fn nearest(context: &Context<'_>, at: usize, keywords: &[&'static str]) -> Option<&'static str> {
    let word = context.token(at).filter(|token| token.kind == Kind::Word && !is_keyword(token.text))?.text;
    if word.len() < 3 || word.len() > 12 || keywords.contains(&word) {
        return None;
    }
    let word = word.to_ascii_lowercase();
    keywords.iter().copied().find(|keyword| one_slip(word.as_bytes(), keyword.as_bytes()))
}
