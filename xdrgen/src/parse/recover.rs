//! Recovery after a syntax error: the finding, and the position where the parser continues.

use super::token::{Kind, Token};
use super::tokens::{Context, Reason, Syntax, TOO_DEEP, shown};
use crate::diag::{Diagnostic, Expected, Open, SyntaxKind};
use crate::keywords::{DEFINITIONS, differs_by_one_letter, is_keyword};

/// The position where parsing continues after an error, and the number of open bodies of the broken
/// definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Resume {
    pub(crate) at: usize,
    open: usize,
}

/// Returns true if a definition begins at the token `at`. A definition begins with `typedef`, or with another
/// keyword, a name, and `=`, `{` or `switch`. Inside a correct definition, a body has no name, and a
/// reference to a type has no body, so this pattern never occurs there.
pub(crate) fn begins_definition(context: &Context<'_>, at: usize) -> bool {
    let name = context.token(at + 1).is_some_and(|token| token.kind == Kind::Word && !is_keyword(token.text));
    let after = context.word(at + 2);
    match context.word(at) {
        "const" => name && after == "=",
        "typedef" => context.token(at + 1).is_some(),
        "struct" | "enum" => name && after == "{",
        "program" => name && after == "{" && context.word(at + 3) == "version",
        "union" => name && after == "switch",
        _ => false,
    }
}

/// Returns where parsing continues after a definition that begins at `start` and contains `error`: after the
/// closing `;`, at the next definition, or at the end of the text. The next definition must begin on a new
/// line, and must not be indented further than `start`. The result is after `start` unless the text ends
/// there, so the parser always advances.
pub(crate) fn resume(context: &Context<'_>, start: usize, error: Syntax) -> Resume {
    let failed = error.at;
    let unopened = is_missing_brace(context, error) || continues_after_brace(context, error);
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
            ";" if open == 0 && at >= failed && context.word(at + 1) != "{" => {
                return Resume { at: at + 1, open };
            }
            _ => {}
        }
    }
    Resume { at: failed, open }
}

/// Returns true if the error is the missing `{` of a body.
fn is_missing_brace(context: &Context<'_>, error: Syntax) -> bool {
    let begins_body = |token: &Token<'_>| {
        token.kind == Kind::Word
            && (token.first || is_keyword(token.text) || matches!(context.word(error.at + 1), "=" | ","))
    };
    error.reason == Reason::Expected(Expected::Token("{"), &[])
        && context.token(error.at).is_some_and(begins_body)
}

/// Returns true if the error is a missing `;` after a `}`. The `}` may be an extra one, after which the body
/// continues.
fn continues_after_brace(context: &Context<'_>, error: Syntax) -> bool {
    error.reason == Reason::Expected(Expected::Token(";"), &[])
        && error.at.checked_sub(1).is_some_and(|before| context.word(before) == "}")
}

/// Returns true if a token belongs to the rest of a broken definition.
pub(crate) fn is_rest_of_broken(context: &Context<'_>, at: usize) -> bool {
    let is_value = at.checked_sub(1).is_some_and(|before| context.word(before) == "=");
    context.token(at).is_some_and(|token| match token.kind {
        Kind::Mark | Kind::Number => true,
        Kind::Word => is_value || !token.first && !begins_definition(context, at),
        _ => false,
    })
}

/// Returns the names that a broken definition would have defined, judging by its tokens.
pub(crate) fn names(context: &Context<'_>, start: usize, end: usize) -> Vec<String> {
    let word = |at: usize| {
        context
            .token(at)
            .filter(|token| token.kind == Kind::Word && !is_keyword(token.text))
            .map(|token| token.text)
    };
    let mark = |at: usize| context.word(at);
    let is_name = |at: &usize| match mark(start) {
        "enum" => *at == start + 1 || matches!(mark(at - 1), "{" | ",") || matches!(mark(at + 1), "=" | ","),
        "typedef" => matches!(mark(at + 1), ";" | "<" | "["),
        _ => *at == start + 1,
    };
    (start + 1..end).filter(is_name).filter_map(word).map(str::to_owned).collect()
}

pub(crate) fn diagnostic(context: &Context<'_>, start: usize, error: Syntax) -> Diagnostic {
    let resume = resume(context, start, error);
    let next = resume.at <= error.at && begins_definition(context, resume.at);
    let ended = context.token(error.at).is_none();
    if is_missing_brace(context, error) {
        return SyntaxKind::NoOpenBrace.at(context.position_after(error.at));
    }
    if resume.open > 0 && (next || ended) && error.reason != TOO_DEEP {
        return missing_brace(context, start, resume.at);
    }
    if let Some((at, meant)) = misspelt(context, start, error) {
        let word = shown(context.word(at));
        return SyntaxKind::Misspelt { word, meant }.at(context.span(at, at));
    }
    let here = if ended { context.position_after(error.at) } else { context.span(error.at, error.at) };
    let near = || context.near(error.at);
    let kind = match error.reason {
        Reason::Semicolon => return SyntaxKind::NoSemicolon.at(context.position_after(error.at)),
        Reason::Expected(expected, _) => match context.token(error.at) {
            // A missing token is reported directly after the previous token, not at the start of the next
            // line.
            Some(token) if token.first && token.kind != Kind::Unknown && ends_line(expected) => {
                return SyntaxKind::Missing { expected }.at(context.position_after(error.at));
            }
            Some(token) if token.kind == Kind::Unknown => SyntaxKind::Unknown { expected, near: near() },
            _ => SyntaxKind::Unexpected { expected, near: near() },
        },
        Reason::KeywordAsName => SyntaxKind::KeywordAsName { near: near() },
        Reason::Malformed => SyntaxKind::Malformed { number: context.word(error.at).to_owned() },
        Reason::SecondDefault(first) => SyntaxKind::SecondDefault { first: context.span(first, first) },
        Reason::Kind(kind) => kind.clone(),
    };
    kind.at(here)
}

/// Returns true if the expected token usually follows the previous token on the same line.
fn ends_line(expected: Expected) -> bool {
    matches!(expected, Expected::Token(":" | ")" | "]" | ">" | "="))
}

fn missing_brace(context: &Context<'_>, start: usize, next: usize) -> Diagnostic {
    let mut open = Vec::new();
    for at in start..next {
        match context.word(at) {
            "{" => open.push(at),
            "}" => {
                open.pop();
            }
            _ => {}
        }
    }
    let open = open.last().map(|brace| context.span(*brace, *brace));
    let of = if context.word(start) == "program" { Open::Program } else { Open::Body };
    SyntaxKind::NoCloseBrace { open, of }.at(context.position_after(next))
}

/// Returns the index of a word that resembles an expected keyword, and the keyword, if any. The word is at
/// the error, or at the start of the declaration.
fn misspelt(context: &Context<'_>, start: usize, error: Syntax) -> Option<(usize, &'static str)> {
    let keywords: &[&str] = match error.reason {
        Reason::Expected(Expected::Token(keyword), []) => &[keyword],
        Reason::Expected(_, keywords) => keywords,
        _ => &[],
    };
    let here = nearest(context, error.at, keywords).map(|keyword| (error.at, keyword));
    if here.is_some() || error.reason == Reason::Semicolon {
        return here;
    }
    let breaks = |at: &usize| matches!(context.word(*at), "{" | "}" | ";" | ":");
    // The first word is considered only if it is at most two tokens before the error. After a longer
    // correct part, the first word is a type's name, not a misspelled keyword.
    let near = start.max(error.at.saturating_sub(3));
    let first = (near..error.at).rev().find(breaks).map_or(start, |at| at + 1);
    if first + 2 < error.at {
        return None;
    }
    // The type of a typedef follows the keyword.
    let first = if context.word(first) == "typedef" { first + 1 } else { first };
    if first >= error.at {
        return None;
    }
    let all: Vec<&str> = BEGIN_TYPE.iter().chain(DEFINITIONS).copied().collect();
    nearest(context, first, &all).map(|keyword| (first, keyword))
}

/// Keywords that begin a type or an arm. Leaves out keywords such as `int` and `short`, because names often
/// differ from them by only one letter.
const BEGIN_TYPE: &[&str] =
    &["unsigned", "opaque", "string", "hyper", "float", "double", "quadruple", "default", "void"];

/// Returns the keyword that a word of 3 to 12 letters probably stands for, if any. Apart from case, the word
/// differs from the keyword by at most one letter, or by two swapped letters.
fn nearest(context: &Context<'_>, at: usize, keywords: &[&'static str]) -> Option<&'static str> {
    let word = context.token(at).filter(|token| token.kind == Kind::Word && !is_keyword(token.text))?.text;
    if word.len() < 3 || word.len() > 12 || keywords.contains(&word) {
        return None;
    }
    let word = word.to_ascii_lowercase();
    keywords.iter().copied().find(|keyword| differs_by_one_letter(word.as_bytes(), keyword.as_bytes()))
}
