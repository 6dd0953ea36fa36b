//! Tokens of XDR (RFC 4506 section 6.2), and the functions that recognize a token at the start of a text.

use std::ops::Range;

use nom::branch::alt;
use nom::bytes::complete::{tag, take_until, take_while};
use nom::character::complete::{char, one_of, satisfy};
use nom::combinator::{consumed, map, map_opt, opt, recognize};
use nom::sequence::{delimited, pair, preceded};
use nom::{IResult, Parser};

use crate::ast::{DefinitionKind, Expansion, Hidden};
use crate::diag::Found;
use crate::hash::HashMap;
use crate::keywords::{is_word_part, word};
use crate::source::narrow;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A name or a keyword.
    Word,
    Number,
    /// Text that begins like a number, but is not a valid number.
    Malformed,
    /// Text in quotation marks, an extension of rpcgen.
    Text,
    /// A symbol of the language, such as `;`.
    Mark,
    Unknown,
}

/// A token, and its position in the extracted text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Token<'a> {
    pub(crate) kind: Kind,
    pub(crate) text: &'a str,
    pub(crate) start: u32,
    /// The document positions of the token's first byte and of its end.
    pub(crate) place: (u32, u32),
    /// True if only spaces and comments precede the token on its line.
    pub(crate) first: bool,
    /// True if the token is from the expansion of a macro. `place`, `start` and `column` are then the
    /// positions of the macro's use.
    pub(crate) expanded: bool,
    /// The number of bytes before the token on its line.
    pub(crate) column: u32,
    /// The number of comments before the token in the text.
    pub(crate) comments: u32,
}

impl Token<'_> {
    pub(crate) fn end(&self) -> u32 {
        self.start + narrow(self.text.len())
    }
}

/// A comment, and whether the comment belongs to the preceding text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Comment<'a> {
    pub(crate) text: &'a str,
    pub(crate) start: u32,
    /// True if the comment begins on the line of the previous token, or continues such a comment in the same
    /// column.
    pub(crate) is_trailing: bool,
    pub(super) column: u32,
}

/// A line that is not XDR but affects the result, with its range in the extracted text and the index of the
/// token after the line.
#[derive(Clone, Debug)]
pub(crate) struct OtherLine {
    /// `PassThrough` for `%text` (without the `%`) and for a preprocessor line, `Const` for
    /// `#define NAME value`.
    pub(crate) kind: DefinitionKind,
    pub(crate) before: usize,
    pub(crate) start: u32,
    pub(crate) end: u32,
}

#[derive(Debug, Default)]
pub(crate) struct Lexed<'a> {
    pub(crate) tokens: Vec<Token<'a>>,
    /// The values of numbers from macros and of character constants, by token index.
    pub(super) numbers: HashMap<usize, i128>,
    pub(crate) comments: Vec<Comment<'a>>,
    pub(crate) c_lines: Vec<OtherLine>,
    /// The uses of macros in order, with their ranges in the extracted text.
    pub(crate) expansions: Vec<(Range<u32>, Expansion)>,
    pub(crate) hidden: Vec<Hidden>,
    pub(crate) diagnostics: Found,
    /// Ranges of the extracted text that were skipped after an error.
    pub(crate) unread: Vec<Range<u32>>,
}

impl Lexed<'_> {
    /// Returns the end of a token in the extracted text.
    pub(crate) fn end(&self, token: &Token<'_>) -> u32 {
        let at = self.expansions.partition_point(|(used, _)| used.start < token.start);
        let expansion = self.expansions.get(at).filter(|_| token.expanded);
        expansion.map_or_else(|| token.end(), |(used, _)| used.end)
    }

    pub(crate) fn number(&self, at: usize) -> Option<i128> {
        self.numbers.get(&at).copied().or_else(|| number(self.tokens.get(at)?.text))
    }
}

/// Returns the token at the start of a text, and its value if it is a number. The kind of each number is
/// `Malformed`; `push_token` replaces the kind if the number has a value.
pub(super) fn one_token(rest: &str) -> (Kind, &str, Option<i128>) {
    if let Some((_, text)) = word(rest) {
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

/// Recognizes text that begins like a decimal, hexadecimal or octal constant.
fn constant(input: &str) -> IResult<&str, &str> {
    let digits = pair(satisfy(|c| c.is_ascii_digit()), take_while(is_word_part));
    recognize(pair(opt(char('-')), digits)).parse(input)
}

/// Recognizes a single-line string constant, an extension of rpcgen.
fn quoted(input: &str) -> IResult<&str, &str> {
    recognize(delimited(char('"'), take_while(|c: char| !matches!(c, '"' | '\n')), char('"'))).parse(input)
}

/// Recognizes a C character constant, an extension of rpcgen. Its value is the ASCII code.
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

/// Returns the value of a constant, unless it is malformed.
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

/// Parses digits in a base. A value out of range saturates, and the parser reports it.
fn radix(digits: &str, base: u32) -> Option<i128> {
    if digits.is_empty() || !digits.chars().all(|digit| digit.is_digit(base)) {
        return None;
    }
    Some(i128::from_str_radix(digits, base).unwrap_or(i128::MAX))
}

pub(super) fn only_number(text: &str) -> Option<i128> {
    constant(text).ok().filter(|(rest, _)| rest.is_empty()).and_then(|(_, text)| number(text))
}

pub(super) fn line_length(rest: &str) -> usize {
    rest.find('\n').unwrap_or(rest.len())
}

/// Returns the number of bytes up to the end of a line. If the line ends with a backslash, its continuation
/// lines are included.
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
