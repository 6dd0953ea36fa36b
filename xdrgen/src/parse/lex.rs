//! Words, numbers and marks of the XDR language (RFC 4506 section 6.2), and what stands between them.
//!
//! The lexer is total: a byte that begins nothing becomes a token of its own, and the parser says so when it
//! trips over it. Comments, `%` lines and the C preprocessor's lines are no tokens; they are kept beside.

mod lines;

use std::ops::Range;

use nom::branch::alt;
use nom::bytes::complete::{tag, take_until, take_while};
use nom::character::complete::{char, one_of, satisfy};
use nom::combinator::{consumed, map, map_opt, opt, recognize};
use nom::error::{Error, ErrorKind};
use nom::sequence::{delimited, pair, preceded};
use nom::{IResult, Input, Parser};

use super::condition::Conditions;
use super::macros::{Macros, Pasted};
use super::undone::Undone;
use crate::ast::{Expansion, Hidden};
use crate::diag::{Diagnostic, Found};
use crate::extract::{Map, Places};

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A name or a keyword.
    Word,
    /// A number that is one: its index among [`Lexed::numbers`]. It would take half of a token's room.
    Number(u32),
    /// Something that begins as a number does.
    Malformed,
    /// A text between quotation marks, which only rpcgen knows.
    Text,
    /// One of the language's marks.
    Mark,
    /// Anything else.
    Unknown,
}

/// A token, and where it stands in the extracted text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Token<'a> {
    pub(crate) kind: Kind,
    pub(crate) text: &'a str,
    pub(crate) start: u32,
    /// Where its first byte stands in the document, and where the place behind its last does.
    pub(crate) place: (u32, u32),
    /// Whether only blanks and comments stand before it on its line.
    pub(crate) first: bool,
    /// Whether it is of a macro's body: its place is that of the use, and `start` the place of that in the text.
    pub(crate) expanded: bool,
    /// How many bytes stand before it on its line.
    pub(crate) column: u32,
    /// How many comments stand before it in the text.
    pub(crate) comments: u32,
}

impl Token<'_> {
    pub(crate) fn end(&self) -> u32 {
        self.start + narrow(self.text.len())
    }
}

/// A comment, and whether it belongs to what stands before it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Comment<'a> {
    pub(crate) text: &'a str,
    pub(crate) start: u32,
    /// It begins on the line of the token before it, or continues such a comment in the same column.
    pub(crate) behind: bool,
    column: u32,
}

/// A line that is no XDR and yet says something.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Aside<'a> {
    /// `%text`
    PassThrough(&'a str),
    /// `#define NAME value`: the name, what stands as its value, and the number that this is, if it is one.
    Define(Piece<'a>, Piece<'a>, Option<i128>),
}

/// A part of such a line, and where it begins in the extracted text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece<'a> {
    pub(crate) text: &'a str,
    pub(crate) start: u32,
}

/// An aside, which token it stands before, and its bytes in the extracted text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Placed<'a> {
    pub(crate) aside: Aside<'a>,
    pub(crate) before: usize,
    pub(crate) start: u32,
    pub(crate) end: u32,
}

/// A text cut into tokens.
#[derive(Debug, Default)]
pub(crate) struct Lexed<'a> {
    pub(crate) tokens: Vec<Token<'a>>,
    numbers: Vec<i128>,
    pub(crate) comments: Vec<Comment<'a>>,
    pub(crate) asides: Vec<Placed<'a>>,
    /// The uses of macros, in their order, and their bytes in the extracted text.
    pub(crate) expansions: Vec<(Range<u32>, Expansion)>,
    /// What is defined in branches of conditions that do not hold.
    pub(crate) hidden: Vec<Hidden>,
    pub(crate) diagnostics: Found,
    /// What was passed over for an error: its bytes in the extracted text.
    pub(crate) unread: Vec<Range<u32>>,
}

impl Lexed<'_> {
    /// Where a token ends in the extracted text.
    pub(crate) fn end(&self, token: &Token<'_>) -> u32 {
        let at = self.expansions.partition_point(|(used, _)| used.start < token.start);
        let expansion = self.expansions.get(at).filter(|_| token.expanded);
        expansion.map_or_else(|| token.end(), |(used, _)| used.end)
    }

    /// What a number is.
    pub(crate) fn number(&self, kind: Kind) -> Option<i128> {
        let Kind::Number(index) = kind else { return None };
        self.numbers.get(index as usize).copied()
    }

    /// The kind of a token that is a number.
    pub(super) fn kind_of(&mut self, number: i128) -> Kind {
        self.numbers.push(number);
        Kind::Number(narrow(self.numbers.len() - 1))
    }
}

/// Few texts have more tokens than their length in bytes divided by this.
const BYTES_OF_A_TOKEN: usize = 8;

/// Cuts an extracted text into tokens. `conditions` answers `#ifdef`, `pasted` holds what macros make of several tokens.
pub(crate) fn lex<'a>(text: &'a str, map: &Map, conditions: Conditions, pasted: &'a Pasted) -> Lexed<'a> {
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
        undone: Undone::default(),
        macros: Macros::new(pasted),
        out: Lexed { tokens: Vec::with_capacity(text.len() / BYTES_OF_A_TOKEN), ..Lexed::default() },
    };
    while lexer.at < text.len() {
        lexer.step();
    }
    let Lexer { conditions, undone, mut out, .. } = lexer;
    undone.replace(&mut out);
    out.unread.extend(conditions.first_open().map(|start| start..narrow(text.len())));
    conditions.finish(map).for_each(|found| out.diagnostics.push(found));
    out
}

struct Lexer<'a, 'm> {
    text: &'a str,
    map: &'m Map,
    /// The same, asked in the order of the text.
    places: Places<'m>,
    conditions: Conditions,
    /// What would hold where rpcgen makes a header: the macros of that are seen by all that includes it.
    header: Conditions,
    at: usize,
    /// Where the line of `at` begins.
    line: usize,
    /// Whether no token stands on this line yet.
    fresh: bool,
    /// Whether a comment was reported that nothing closes: then no later one is closed, either.
    open: bool,
    /// Whether nothing closes a comment from here on.
    unclosed: bool,
    /// What `#undef` ends.
    undone: Undone<'a>,
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
            // Taken.
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

    /// Whether only blanks stand before `at` on its line.
    fn starts_line(&self) -> bool {
        self.text.get(self.line..self.at).is_some_and(|before| before.trim().is_empty())
    }

    /// Moves on over bytes that may hold line ends.
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
                self.unterminated();
            }
            let length = next_definition(rest);
            self.out.unread.push(narrow(self.at)..narrow(self.at + length));
            return self.push_comment(length);
        };
        if let Some(inner) = begins_inside(text) {
            let start = narrow(self.at + inner);
            let before = text.get(..inner).unwrap_or("");
            let missing = "is the `*/` of the first comment missing? it ends here only, and";
            let help = match before.lines().skip(1).find(|line| begins_definition(line)) {
                Some(line) => match begun_definition(line) {
                    Some(name) => format!("{missing} what would define `{name}` stands in it"),
                    None => format!("{missing} a definition stands in it"),
                },
                None => "a comment ends at the first `*/`, however many `/*` it holds".to_owned(),
            };
            let span = self.map.span(start..start + 2);
            let found = Diagnostic::warning("X104", span, "a comment begins inside a comment")
                .with_label("this has no meaning here")
                .with_related(self.map.span(narrow(self.at)..narrow(self.at + 2)), "the comment begins here")
                .with_help(help);
            self.out.diagnostics.push(found);
        }
        self.push_comment(text.len());
    }

    fn unterminated(&mut self) {
        let span = self.map.span(narrow(self.at)..narrow(self.at + 2));
        let found = Diagnostic::error("X101", span, "a comment is never closed")
            .with_label("it begins here")
            .with_help("end it with `*/`");
        self.out.diagnostics.push(found);
    }

    fn push_comment(&mut self, length: usize) {
        let start = self.at;
        let column = narrow(start - self.line);
        let alone = self.starts_line();
        let text = self.text.get(start..start + length).unwrap_or("");
        let continues = self.out.comments.last().is_some_and(|last| {
            let between = self.text.get(last.start as usize + last.text.len()..start).unwrap_or("x");
            last.behind && alone && last.column == column && between.matches('\n').count() == 1
        });
        let comes_behind = !self.fresh && !self.out.tokens.is_empty();
        self.out.comments.push(Comment {
            text,
            start: narrow(start),
            behind: comes_behind || continues,
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
        let kind = number.map_or(kind, |number| self.out.kind_of(number));
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

/// The token at the start of a text, and the number that it is.
pub(super) fn one_token(rest: &str) -> (Kind, &str, Option<i128>) {
    if let Ok((_, text)) = word(rest) {
        (Kind::Word, text, None)
    } else if rest.starts_with(|c: char| c == '-' || c.is_ascii_digit())
        && let Ok((_, text)) = constant(rest)
    {
        (Kind::Malformed, text, number(text))
    } else {
        let first = rest.chars().next().unwrap_or(' ');
        let text = rest.get(..first.len_utf8()).unwrap_or(rest);
        if first == '"'
            && let Ok((_, text)) = quoted(rest)
        {
            return (Kind::Text, text, None);
        }
        if let Ok((_, (text, number))) = consumed(character).parse(rest) {
            return (Kind::Malformed, text, Some(number));
        }
        let is_mark =
            matches!(first, '{' | '}' | '(' | ')' | '[' | ']' | '<' | '>' | ';' | ':' | ',' | '=' | '*');
        (if is_mark { Kind::Mark } else { Kind::Unknown }, text, None)
    }
}

/// An identifier or a keyword. An underscore may begin one, as it does in files for rpcgen.
pub(super) fn word(input: &str) -> IResult<&str, &str> {
    // Most tokens are words: their bytes are looked at, and no character is put together.
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let length = input.as_bytes().iter().take_while(|byte| is_part(byte)).count();
    if length == 0 || input.starts_with(|c: char| c.is_ascii_digit()) {
        return Err(nom::Err::Error(Error::new(input, ErrorKind::Alpha)));
    }
    Ok(input.take_split(length))
}

/// Whatever begins as a decimal, hexadecimal or octal constant does.
fn constant(input: &str) -> IResult<&str, &str> {
    let digits =
        pair(satisfy(|c| c.is_ascii_digit()), take_while(|c: char| c.is_ascii_alphanumeric() || c == '_'));
    recognize(pair(opt(char('-')), digits)).parse(input)
}

/// rpcgen's text constants, on one line.
fn quoted(input: &str) -> IResult<&str, &str> {
    recognize(delimited(char('"'), take_while(|c: char| !matches!(c, '"' | '\n')), char('"'))).parse(input)
}

/// A character of C between apostrophes, which only rpcgen knows: its number in ASCII.
fn character(input: &str) -> IResult<&str, i128> {
    let plain = satisfy(|c| matches!(c, ' '..='~') && !matches!(c, '\\' | '\''));
    let escaped = preceded(char('\\'), one_of("abfnrtv0\\'\"?"));
    let escaped =
        map_opt(escaped, |c| Some(*b"\x07\x08\x0c\n\r\t\x0b\0\\'\"?".get("abfnrtv0\\'\"?".find(c)?)?));
    delimited(char('\''), alt((map(plain, |c| u32::from(c).into()), map(escaped, i128::from))), char('\''))
        .parse(input)
}

pub(super) fn comment(input: &str) -> IResult<&str, &str> {
    recognize(delimited(tag("/*"), take_until("*/"), tag("*/"))).parse(input)
}

/// The value of a constant; none if it is none, or wider than 127 bits.
pub(super) fn number(text: &str) -> Option<i128> {
    let (sign, digits) = text.strip_prefix('-').map_or((1, text), |digits| (-1, digits));
    let value = if let Some(hex) = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        radix(hex, 16)
    } else if digits.len() > 1 && digits.starts_with('0') {
        radix(digits, 8)
    } else {
        radix(digits, 10)
    };
    value.map(|value| sign * value)
}

/// Digits in a base. What does not fit is as wide as can be: the parser says that it is too wide.
fn radix(digits: &str, base: u32) -> Option<i128> {
    if digits.is_empty() || !digits.chars().all(|digit| digit.is_digit(base)) {
        return None;
    }
    Some(i128::from_str_radix(digits, base).unwrap_or(i128::MAX))
}

/// Whether a text is a name and nothing else.
fn is_word(text: &str) -> bool {
    word(text).is_ok_and(|(rest, _)| rest.is_empty())
}

/// The number that a text is, if it is one and nothing else.
fn whole_number(text: &str) -> Option<i128> {
    constant(text).ok().filter(|(rest, _)| rest.is_empty()).and_then(|(_, text)| number(text))
}

/// The bytes up to the line's end.
fn line_length(rest: &str) -> usize {
    rest.find('\n').unwrap_or(rest.len())
}

/// The bytes up to the end of a line that goes on behind a backslash.
pub(super) fn joined_length(rest: &str) -> usize {
    let mut length = 0;
    for line in rest.split_inclusive('\n') {
        let text = line.trim_end_matches(['\n', '\r']);
        if !text.ends_with('\\') {
            return length + text.len();
        }
        length += line.len();
    }
    length
}

/// The bytes up to the next line that begins a definition: a comment that nothing closes ends there.
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

/// Where another comment begins inside one, behind a blank or at the start of a line.
fn begins_inside(comment: &str) -> Option<usize> {
    let is_parted = |at: &usize| {
        comment.get(..*at).is_some_and(|before| before.len() > 2 && before.ends_with(char::is_whitespace))
    };
    comment.match_indices("/*").map(|(at, _)| at).find(is_parted)
}

/// The name of the definition that a line without doubt begins: with its `{`, `switch` or `=`.
pub(crate) fn begun_definition(line: &str) -> Option<&str> {
    let line = line.trim_start();
    // Most lines begin none, and this shows by their first byte.
    if !line.starts_with(['c', 'e', 's', 'p', 'u']) {
        return None;
    }
    let (rest, keyword) = word(line).ok()?;
    let (after, name) = word(rest.trim_start()).ok().filter(|_| rest.starts_with(char::is_whitespace))?;
    let after = after.trim();
    let begins = match keyword {
        "const" => after.starts_with('=') && after.ends_with(';'),
        "enum" | "struct" | "program" => after == "{",
        "union" => after.starts_with("switch") && after.ends_with('{'),
        _ => false,
    };
    begins.then_some(name)
}

/// Whether a line begins as a definition does, or nearly: its keyword, its name, and what follows a name.
pub(crate) fn begins_definition(line: &str) -> bool {
    let Ok((rest, keyword)) = word(line.trim_start()) else { return false };
    let body = rest.trim_start();
    // RFC 1094 has `struct *name {`.
    let body = body.strip_prefix('*').unwrap_or(body);
    let Ok((after, name)) = word(body) else { return false };
    if !rest.starts_with(char::is_whitespace) || name == "switch" {
        return false;
    }
    let after = after.trim_start();
    match keyword {
        "const" => after.starts_with('='),
        "typedef" => true,
        "enum" | "struct" | "program" => after.starts_with('{') || after.is_empty(),
        "union" => after.starts_with("switch") || after.starts_with('(') || after.is_empty(),
        _ => false,
    }
}

pub(crate) fn narrow(offset: usize) -> u32 {
    u32::try_from(offset).unwrap_or(u32::MAX)
}
