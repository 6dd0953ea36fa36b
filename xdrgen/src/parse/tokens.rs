//! The input of the grammar functions (a range of tokens), and basic parsers.

use std::cell::RefCell;
use std::iter::Copied;
use std::slice::Iter;

use nom::error::{ErrorKind, ParseError};
use nom::{IResult, Input, Needed};

use super::Dialect;
use super::token::{Comment, Kind, Lexed, Token};
use crate::ast::Identifier;
use crate::diag::{Diagnostic, Expected, Found, SyntaxKind, TokenContext};
use crate::extract::Map;
use crate::keywords::is_keyword;
use crate::source::{Span, narrow};

/// Maximum nesting of bodies.
pub(crate) const MAX_DEPTH: u8 = 64;

pub(crate) const TOO_DEEP: Reason = Reason::Kind(&SyntaxKind::TooDeep { max: MAX_DEPTH });

/// State that the grammar functions share during one parse.
pub(crate) struct Context<'a> {
    pub(crate) text: &'a str,
    pub(crate) map: &'a Map,
    pub(crate) lexed: &'a Lexed<'a>,
    /// True if prose may follow a definition. The definition is then kept even if its last `;` is
    /// missing.
    pub(crate) prose: bool,
    /// True if the document is published and cannot be corrected. Obvious mistakes are then accepted, such as
    /// several declarations in one arm.
    pub(crate) published: bool,
    pub(crate) dialect: Dialect,
    /// The findings of the parser. If an entire text is parsed, they include the errors of skipped
    /// definitions.
    pub(crate) found: RefCell<Found>,
}

impl<'a> Context<'a> {
    pub(crate) fn token(&self, at: usize) -> Option<&'a Token<'a>> {
        self.lexed.tokens.get(at)
    }

    /// Returns the span from the first byte of one token to the last byte of another.
    pub(crate) fn span(&self, first: usize, last: usize) -> Span {
        let (Some(from), Some(to)) = (self.token(first), self.token(last)) else {
            let start = self.token(first).map_or_else(|| narrow(self.text.len()), |token| token.start);
            let end = self.token(last).map_or(start, |token| self.lexed.end(token));
            return self.map.span(start..end.max(start));
        };
        let (start, end) = (from.place.0, if first > last { from.place.0 } else { to.place.1 });
        Span { source: self.map.source(), start, end: end.max(start) }
    }

    /// Returns the position directly after the token before `at`, where missing text is reported. Returns the
    /// position of `at` if no token precedes `at`.
    pub(crate) fn position_after(&self, at: usize) -> Span {
        let Some(token) = at.checked_sub(1).and_then(|at| self.token(at)) else { return self.span(at, at) };
        let end = token.place.1;
        Span { source: self.map.source(), start: end, end: end + 1 }
    }

    /// Returns the comments before a token.
    fn comments(&self, at: usize) -> &'a [Comment<'a>] {
        let before = at.checked_sub(1).and_then(|before| self.token(before));
        let from = before.map_or(0, |token| token.comments as usize);
        let to = self.token(at).map_or(self.lexed.comments.len(), |token| token.comments as usize);
        self.lexed.comments.get(from..to).unwrap_or_default()
    }

    /// Returns the comments before a token, except the trailing comments of the previous token.
    pub(crate) fn before(&self, at: usize) -> impl Iterator<Item = &'a Comment<'a>> {
        self.comments(at).iter().filter(|comment| !comment.is_trailing)
    }

    /// Returns the trailing comments of a token: comments on the token's line, and their continuation in the
    /// same column.
    pub(crate) fn after(&self, at: usize) -> impl Iterator<Item = &'a Comment<'a>> {
        self.comments(at + 1).iter().filter(|comment| comment.is_trailing)
    }

    /// Returns the comments before and after a range of tokens, and also those inside if the range contains
    /// no body.
    pub(crate) fn docs(&self, first: usize, last: usize) -> Vec<String> {
        let body = (first..=last).any(|at| self.word(at) == "{");
        let inside = if body { first + 1..first + 1 } else { first + 1..last + 1 };
        let inside = inside.flat_map(|at| self.comments(at));
        self.before(first)
            .chain(inside)
            .chain(self.after(last))
            .filter_map(|c| super::docs::clean(c.text))
            .collect()
    }

    pub(crate) fn report(&self, found: Diagnostic) {
        self.found.borrow_mut().push(found);
    }

    /// Returns the text of a token, or an empty string after the last token.
    pub(crate) fn word(&self, at: usize) -> &'a str {
        self.token(at).map_or("", |token| token.text)
    }

    /// Returns a token and its neighbors, as shown in findings.
    pub(crate) fn near(&self, at: usize) -> TokenContext {
        let before = at.checked_sub(1).map_or("", |before| self.word(before));
        let word = self.token(at).map(|token| shown(token.text));
        TokenContext { before: shown(before), word, next: shown(self.word(at + 1)) }
    }
}

/// Maximum number of characters of a token in a finding.
const SHOWN: usize = 40;

pub(crate) fn shown(text: &str) -> String {
    text.chars().take(SHOWN).collect()
}

#[derive(Clone, Copy)]
pub(crate) struct Tokens<'a> {
    pub(crate) context: &'a Context<'a>,
    /// The index of the next token.
    pub(crate) at: usize,
    end: usize,
    /// The number of open bodies.
    depth: u8,
}

impl<'a> Tokens<'a> {
    pub(crate) fn new(context: &'a Context<'a>) -> Self {
        Tokens { context, at: 0, end: context.lexed.tokens.len(), depth: 0 }
    }

    pub(crate) fn peek(&self, ahead: usize) -> Option<&'a Token<'a>> {
        self.context.token(self.at + ahead).filter(|_| self.at + ahead < self.end)
    }

    /// Returns the text of the token that is `ahead` tokens after the next token, or an empty string after
    /// the last token.
    pub(crate) fn word(&self, ahead: usize) -> &'a str {
        self.peek(ahead).map_or("", |token| token.text)
    }

    pub(crate) fn from(self, at: usize) -> Self {
        Tokens { at, ..self }
    }

    /// Enters a body whose `{` has been parsed. Fails if bodies nest more than [`MAX_DEPTH`] levels deep.
    pub(crate) fn deeper(self) -> Result<Self, nom::Err<Syntax>> {
        if self.depth >= MAX_DEPTH {
            return Err(fail(self.from(self.at.saturating_sub(1)), TOO_DEEP));
        }
        Ok(Tokens { depth: self.depth + 1, ..self })
    }

    /// Restores the nesting depth of `outer`.
    pub(crate) fn level(self, outer: Tokens<'_>) -> Self {
        Tokens { depth: outer.depth, ..self }
    }

    fn slice(&self) -> &'a [Token<'a>] {
        self.context.lexed.tokens.get(self.at..self.end).unwrap_or_default()
    }
}

/// The reason why a text is not valid XDR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// Another token is required. The second field lists the keywords that a misspelled word may stand for.
    Expected(Expected, &'static [&'static str]),
    /// The previous token must be followed by a `;`.
    Semicolon,
    KeywordAsName,
    Malformed,
    /// A second default arm, with the token index of the first.
    SecondDefault(usize),
    Kind(&'static SyntaxKind),
}

/// A syntax error: the token where it is detected, and the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Syntax {
    pub(crate) at: usize,
    pub(crate) reason: Reason,
}

impl<'a> ParseError<Tokens<'a>> for Syntax {
    fn from_error_kind(input: Tokens<'a>, _kind: ErrorKind) -> Self {
        Syntax { at: input.at, reason: Reason::Expected(Expected::Other, &[]) }
    }

    fn append(_input: Tokens<'a>, _kind: ErrorKind, other: Self) -> Self {
        other
    }

    fn or(self, other: Self) -> Self {
        // Prefers the error of the alternative that parsed further. At the same position, prefers the error
        // of the later alternative.
        if self.at > other.at { self } else { other }
    }
}

pub(crate) type Parse<'a, T> = IResult<Tokens<'a>, T, Syntax>;

/// Returns an error after which other alternatives are tried.
pub(crate) fn refuse(input: Tokens<'_>, reason: Reason) -> nom::Err<Syntax> {
    nom::Err::Error(Syntax { at: input.at, reason })
}

/// Returns an error after which no alternative is tried.
pub(crate) fn fail(input: Tokens<'_>, reason: Reason) -> nom::Err<Syntax> {
    nom::Err::Failure(Syntax { at: input.at, reason })
}

pub(crate) fn token<'a>(text: &'static str) -> impl Fn(Tokens<'a>) -> Parse<'a, usize> {
    move |input: Tokens<'a>| {
        if input.word(0) == text {
            Ok((input.take_from(1), input.at))
        } else {
            Err(refuse(input, Reason::Expected(Expected::Token(text), &[])))
        }
    }
}

pub(crate) fn semicolon(input: Tokens<'_>) -> Parse<'_, usize> {
    if input.word(0) == ";" {
        return Ok((input.take_from(1), input.at));
    }
    let found = input.peek(0);
    let elsewhere = found.is_none_or(|found| found.first || matches!(found.text, "}" | "case" | "default"));
    Err(fail(input, if elsewhere { Reason::Semicolon } else { Reason::Expected(Expected::Token(";"), &[]) }))
}

/// Parses the `;` of a declaration. C syntax instead of the `;` causes a specific error.
pub(crate) fn end_of_declaration(input: Tokens<'_>) -> Parse<'_, usize> {
    semicolon(input).map_err(|error| match input.word(0) {
        "[" | "<" => fail(input, Reason::Kind(&SyntaxKind::SecondSize)),
        "," => fail(input, Reason::Kind(&SyntaxKind::SecondName)),
        "=" => fail(input, Reason::Kind(&SyntaxKind::InitialValue)),
        _ => error,
    })
}

/// Reports a finding at the next token.
pub(crate) fn warn(input: Tokens<'_>, found: impl FnOnce(Span) -> Diagnostic) {
    input.context.report(found(input.context.span(input.at, input.at)));
}

pub(crate) fn identifier(input: Tokens<'_>) -> Parse<'_, Identifier> {
    match input.peek(0) {
        Some(found) if found.kind == Kind::Word && !is_keyword(found.text) => {
            let span = input.context.span(input.at, input.at);
            Ok((input.take_from(1), Identifier { name: found.text.to_owned(), span }))
        }
        Some(found) if found.kind == Kind::Word => Err(refuse(input, Reason::KeywordAsName)),
        _ => Err(refuse(input, Reason::Expected(Expected::Name, &[]))),
    }
}

/// Parses a name with optional namespaces: `a::b` (xdrpp).
pub(crate) fn path(input: Tokens<'_>) -> Parse<'_, Identifier> {
    let (mut rest, mut path) = identifier(input)?;
    while is_in_namespace(rest) {
        let (after, name) = identifier(rest.take_from(2))?;
        path = Identifier { name: format!("{}::{}", path.name, name.name), span: path.span.to(name.span) };
        rest = after;
    }
    Ok((rest, path))
}

/// Returns true if `::` and a name follow.
fn is_in_namespace(input: Tokens<'_>) -> bool {
    let (Some(first), Some(second), Some(name)) = (input.peek(0), input.peek(1), input.peek(2)) else {
        return false;
    };
    first.text == ":" && second.text == ":" && first.end() == second.start && name.kind == Kind::Word
}

impl<'a> Input for Tokens<'a> {
    type Item = Token<'a>;
    type Iter = Copied<Iter<'a, Token<'a>>>;
    type IterIndices = std::iter::Enumerate<Self::Iter>;

    fn input_len(&self) -> usize {
        self.end.saturating_sub(self.at)
    }

    fn take(&self, index: usize) -> Self {
        Tokens { end: (self.at + index).min(self.end), ..*self }
    }

    fn take_from(&self, index: usize) -> Self {
        Tokens { at: (self.at + index).min(self.end), ..*self }
    }

    fn take_split(&self, index: usize) -> (Self, Self) {
        (self.take_from(index), self.take(index))
    }

    fn position<P: Fn(Self::Item) -> bool>(&self, predicate: P) -> Option<usize> {
        self.slice().iter().position(|token| predicate(*token))
    }

    fn iter_elements(&self) -> Self::Iter {
        self.slice().iter().copied()
    }

    fn iter_indices(&self) -> Self::IterIndices {
        self.iter_elements().enumerate()
    }

    fn slice_index(&self, count: usize) -> Result<usize, Needed> {
        if count <= self.input_len() { Ok(count) } else { Err(Needed::new(count - self.input_len())) }
    }
}
