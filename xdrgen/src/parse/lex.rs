//! The lexer: words, numbers and symbols of XDR (RFC 4506 section 6.2), and the text between them.
//!
//! The lexer never fails: an invalid character becomes a token, which the parser reports. Comments, `%`
//! lines and preprocessor lines are stored separately from tokens.

mod lines;

use super::condition::Conditions;
use super::macros::{Macros, Pasted};
use super::token::{Comment, Kind, Lexed, Token, comment, line_length, one_token};
use super::undefs::Undefs;
use crate::diag::SyntaxKind;
use crate::extract::{Map, Places};
use crate::hash::HashSet;
use crate::keywords::{begins_definition, definition_keyword};
use crate::source::{Span, narrow};

/// Estimated average length, in bytes, of a token and the text up to the next token. Few texts have a smaller
/// average, so the vector of tokens rarely grows.
const BYTES_OF_A_TOKEN: usize = 5;

/// Splits an extracted text into tokens. `conditions` evaluates `#if` and `#ifdef`, and `pasted` stores
/// the tokens that `##` creates.
pub(crate) fn lex<'a>(text: &'a str, map: &Map, conditions: Conditions, pasted: &'a Pasted) -> Lexed<'a> {
    let macros = Macros::new(pasted, HashSet::default());
    let (lexed, changing) = lex_with(text, map, conditions.clone(), macros);
    if changing.is_empty() {
        return lexed;
    }
    // The first run finds an `#undef` or a second `#define` only after earlier uses of the macro. The second
    // run expands these uses too.
    lex_with(text, map, conditions, Macros::new(pasted, changing)).0
}

/// Splits a text into tokens. Also returns the macros that stand for types and change within the text.
fn lex_with<'a>(
    text: &'a str,
    map: &Map,
    conditions: Conditions,
    macros: Macros<'a>,
) -> (Lexed<'a>, HashSet<&'a str>) {
    let mut header = conditions.clone();
    header.define("RPC_HDR", Some(1));
    let mut lexer = Lexer {
        text,
        map,
        places: map.places(),
        conditions,
        header,
        at: 0,
        line: 0,
        fresh: true,
        open: false,
        unclosed: false,
        undefs: Undefs::default(),
        macros,
        out: Lexed { tokens: Vec::with_capacity(text.len() / BYTES_OF_A_TOKEN), ..Lexed::default() },
    };
    while lexer.at < text.len() {
        lexer.step();
    }
    let Lexer { conditions, undefs, macros, mut out, .. } = lexer;
    undefs.replace(&mut out);
    out.unread.extend(conditions.first_open().map(|start| start..narrow(text.len())));
    out.diagnostics.extend(conditions.finish(map));
    (out, macros.changing)
}

struct Lexer<'a, 'm> {
    text: &'a str,
    map: &'m Map,
    /// A cursor in `map` for positions in source order.
    places: Places<'m>,
    conditions: Conditions,
    /// The conditions as rpcgen evaluates them for a header: `RPC_HDR` is defined.
    header: Conditions,
    at: usize,
    /// The start of the line that contains `at`.
    line: usize,
    /// True if the current line has no token yet.
    fresh: bool,
    /// True if an unclosed comment was reported. No later comment is closed either.
    open: bool,
    /// True if the rest of the text is known to contain no `*/`.
    unclosed: bool,
    /// The macros that an `#undef` removes.
    undefs: Undefs<'a>,
    macros: Macros<'a>,
    out: Lexed<'a>,
}

impl<'a> Lexer<'a, '_> {
    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or("")
    }

    fn step(&mut self) {
        let rest = self.rest();
        let Some(next) = rest.chars().next() else { return self.at = self.text.len() };
        if next == '\n' {
            self.at += 1;
            (self.line, self.fresh) = (self.at, true);
        } else if next.is_whitespace() || next == '\u{feff}' {
            self.at += next.len_utf8();
        } else if self.fresh && self.starts_line() && self.line_of_another_language(rest, next) {
            // `line_of_another_language` has consumed the line.
        } else if !self.conditions.active() {
            self.skip_line(rest);
        } else if rest.starts_with("/*") {
            self.comment(rest);
        } else if rest.starts_with("//") {
            let end = line_length(rest);
            self.push_comment(end);
        } else {
            self.token(rest);
        }
    }

    fn starts_line(&self) -> bool {
        self.text.get(self.line..self.at).is_some_and(|before| before.trim().is_empty())
    }

    /// Advances over bytes that may include line endings.
    fn advance(&mut self, length: usize) {
        let passed = self.text.get(self.at..self.at + length).unwrap_or("");
        if let Some(last) = passed.rfind('\n') {
            (self.line, self.fresh) = (self.at + last + 1, true);
        }
        self.at += length;
    }

    fn comment(&mut self, rest: &'a str) {
        let closed: Option<&str> = if self.open { None } else { comment(rest).ok().map(|(_, text)| text) };
        let Some(text) = closed else {
            if !std::mem::replace(&mut self.open, true) {
                self.out.diagnostics.push(SyntaxKind::OpenComment.at(self.mark(self.at)));
            }
            let length = next_definition(rest);
            self.out.unread.push(narrow(self.at)..narrow(self.at + length));
            return self.push_comment(length);
        };
        if let Some(inner) = begins_inside(text) {
            let mut before = text.get(..inner).unwrap_or("").lines().skip(1);
            let hides = before.find(|line| begins_definition(line));
            let hides = hides.map(|line| definition_keyword(line).map(str::to_owned));
            let outer = self.mark(self.at);
            let found = SyntaxKind::NestedComment { outer, hides };
            self.out.diagnostics.push(found.at(self.mark(self.at + inner)));
        }
        self.push_comment(text.len());
    }

    /// Returns the position of the `/*` at `at`.
    fn mark(&self, at: usize) -> Span {
        self.map.span(narrow(at)..narrow(at + 2))
    }

    fn push_comment(&mut self, length: usize) {
        let start = self.at;
        let column = narrow(start - self.line);
        let starts_line = self.starts_line();
        let text = self.text.get(start..start + length).unwrap_or("");
        let continues = self.out.comments.last().is_some_and(|last| {
            let between = self.text.get(last.start as usize + last.text.len()..start).unwrap_or("x");
            last.is_trailing && starts_line && last.column == column && between.matches('\n').count() == 1
        });
        let follows_token = !self.fresh && !self.out.tokens.is_empty();
        self.out.comments.push(Comment {
            text,
            start: narrow(start),
            is_trailing: follows_token || continues,
            column,
        });
        self.advance(length);
    }

    fn token(&mut self, rest: &'a str) {
        let (kind, text, number) = one_token(rest);
        let expanded = match kind {
            Kind::Word => self.macros.expand(text, rest.get(text.len()..).unwrap_or("")),
            _ => None,
        };
        match expanded {
            None => self.push_token(kind, text, number, text.len(), false),
            Some(expanded) => self.push_expanded(text, expanded),
        }
    }

    /// Adds a token for the next `length` bytes of the text.
    fn push_token(&mut self, kind: Kind, text: &'a str, number: Option<i128>, length: usize, expanded: bool) {
        let kind = if number.is_some() { Kind::Number } else { kind };
        if let Some(number) = number.filter(|_| expanded || text.starts_with('\'')) {
            self.out.numbers.insert(self.out.tokens.len(), number);
        }
        let start = narrow(self.at);
        self.out.tokens.push(Token {
            kind,
            text,
            start,
            place: self.places.of(start..narrow(self.at + length)),
            first: self.fresh,
            expanded,
            column: narrow(self.at - self.line),
            comments: narrow(self.out.comments.len()),
        });
        self.fresh = false;
        if !expanded {
            self.at += text.len();
        }
    }
}

/// Returns the number of bytes up to the next line that begins a definition: the assumed end of an unclosed
/// comment.
fn next_definition(rest: &str) -> usize {
    let mut length = 0;
    for line in rest.split_inclusive('\n') {
        if length > 0 && begins_definition(line) {
            return length;
        }
        length += line.len();
    }
    rest.len()
}

/// Returns the position of the first `/*` that follows white space inside a comment, if any.
fn begins_inside(comment: &str) -> Option<usize> {
    let is_parted = |at: &usize| {
        comment.get(..*at).is_some_and(|before| before.len() > 2 && before.ends_with(char::is_whitespace))
    };
    comment.match_indices("/*").map(|(at, _)| at).find(is_parted)
}
