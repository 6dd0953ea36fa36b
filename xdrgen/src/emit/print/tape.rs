//! Tokens in a row, with what the layout asks of them answered beforehand.
//!
//! Everything is worked out in one pass over the tokens: which bracket closes which, before what a blank stands, and
//! how far along an endless line each piece would stand. So the width of any run of pieces is a subtraction.

use std::fmt::Write;

use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};

use super::source::Source;
use crate::emit::docs::Text;

/// What a piece is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A name, or a keyword that stands where a name may: `self`, `super`, `crate`, `Self`.
    Word,
    /// Any other keyword.
    Keyword,
    /// A number or a text.
    Literal,
    /// `'a`
    Lifetime,
    /// Punctuation.
    Mark,
    /// A closure's `|` before its parameters.
    Bar,
    /// A bracket that opens, `<` of generics among them.
    Open,
    /// A bracket that closes.
    Close,
    /// A line of documentation, without its `///`.
    Doc,
    /// Lines as they are: of documentation, with their marks, and of attributes.
    Text,
}

/// What the lines between braces are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Role {
    /// Whatever it is, it may stand in one line.
    #[default]
    Plain,
    /// Statements or items.
    Block,
    /// Arms of a `match`.
    Arms,
}

/// A token.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    pub(super) kind: Kind,
    /// Where its text is.
    start: usize,
    end: usize,
    /// The bracket that belongs to this one.
    pub(super) mate: usize,
    pub(super) role: Role,
    /// Whether a blank stands before it, in the middle of a line.
    pub(super) spaced: bool,
    /// How many bytes stand before it, were everything in one line. The blank is among them.
    at: usize,
    /// How many blocks, which always take lines of their own, begin before it.
    blocks: usize,
}

/// The tokens of an item.
#[derive(Debug, Default)]
pub(super) struct Tape {
    text: String,
    pieces: Vec<Piece>,
    /// What tokens stand for: `3u128` is the text with that index.
    texts: Vec<Text>,
}

impl Tape {
    /// Takes an item's tokens instead of those that it had, and the texts that some of them stand for.
    pub(super) fn load(&mut self, tokens: TokenStream, texts: Vec<Text>) {
        self.text.clear();
        self.pieces.clear();
        self.texts = texts;
        self.group(tokens);
        self.measure();
    }

    /// The same for an item, or several, as text.
    pub(super) fn load_source(&mut self, text: &str) {
        self.text.clear();
        self.pieces.clear();
        let mut level = Level::default();
        self.code(&mut Source::new(text), &mut level);
        self.end_level(level);
        self.measure();
    }

    pub(super) fn len(&self) -> usize {
        self.pieces.len()
    }

    pub(super) fn get(&self, index: usize) -> Option<&Piece> {
        self.pieces.get(index)
    }

    pub(super) fn kind(&self, index: usize) -> Option<Kind> {
        self.get(index).map(|piece| piece.kind)
    }

    pub(super) fn text(&self, index: usize) -> &str {
        self.get(index).and_then(|piece| self.text.get(piece.start..piece.end)).unwrap_or("")
    }

    pub(super) fn is(&self, index: usize, text: &str) -> bool {
        self.kind(index).is_some_and(|kind| !matches!(kind, Kind::Literal | Kind::Doc | Kind::Text))
            && self.text(index) == text
    }

    /// The index behind a piece and, if it is a bracket, all that stands in it.
    pub(super) fn after(&self, index: usize) -> usize {
        match self.get(index) {
            Some(piece) if piece.kind == Kind::Open => piece.mate.max(index) + 1,
            _ => index + 1,
        }
    }

    /// The first of some pieces that is this mark or word, what stands in brackets left out.
    pub(super) fn find(&self, text: &str, from: usize, to: usize) -> Option<usize> {
        let mut index = from;
        while index < to {
            if self.is(index, text) {
                return Some(index);
            }
            index = self.after(index);
        }
        None
    }

    /// The width of a run of pieces in one line, without a blank before it.
    pub(super) fn width(&self, from: usize, to: usize) -> usize {
        let (Some(first), true) = (self.get(from), from < to) else { return 0 };
        self.column(to - 1) + self.text(to - 1).len() - first.at - usize::from(first.spaced)
    }

    fn column(&self, index: usize) -> usize {
        self.get(index).map_or(0, |piece| piece.at + usize::from(piece.spaced))
    }

    /// Whether something among the pieces always takes lines of its own.
    pub(super) fn has_block(&self, from: usize, to: usize) -> bool {
        let blocks = |index: usize| self.get(index).map_or(0, |piece| piece.blocks);
        from < to && {
            let last = to - 1;
            let own =
                self.get(last).is_some_and(|piece| piece.role != Role::Plain && piece.kind == Kind::Open);
            blocks(last) > blocks(from) || own
        }
    }

    fn push(&mut self, kind: Kind, start: usize) -> usize {
        let end = self.text.len();
        let piece = Piece { kind, start, end, mate: 0, role: Role::Plain, spaced: false, at: 0, blocks: 0 };
        self.pieces.push(piece);
        self.pieces.len() - 1
    }

    pub(super) fn push_text(&mut self, kind: Kind, text: &str) -> usize {
        let start = self.text.len();
        self.text.push_str(text);
        self.push(kind, start)
    }

    /// The tokens between two brackets.
    fn group(&mut self, tokens: TokenStream) {
        let mut level = Level::default();
        let mut tokens = tokens.into_iter().peekable();
        while let Some(token) = tokens.next() {
            match token {
                TokenTree::Group(group) => {
                    let (delimiter, inner) = (group.delimiter(), group.stream());
                    // Tokens that nobody else holds are moved, not copied.
                    drop(group);
                    self.bracketed(delimiter, inner, &mut level);
                }
                TokenTree::Ident(ident) => {
                    let start = self.text.len();
                    let _ = write!(self.text, "{ident}");
                    self.word(start, &mut level);
                }
                TokenTree::Literal(literal) => {
                    let start = self.text.len();
                    let _ = write!(self.text, "{literal}");
                    self.literal(start, &mut level);
                }
                TokenTree::Punct(punct) if punct.as_char() == '\'' => {
                    let start = self.text.len();
                    self.text.push('\'');
                    if let Some(TokenTree::Ident(name)) = tokens.next() {
                        let _ = write!(self.text, "{name}");
                    }
                    self.push(Kind::Lifetime, start);
                }
                TokenTree::Punct(punct) => {
                    let mut mark = Mark::new(punct.as_char());
                    let mut joint = punct.spacing() == Spacing::Joint;
                    while let (true, Some(TokenTree::Punct(next))) = (joint, tokens.peek())
                        && mark.grow(next.as_char())
                    {
                        joint = next.spacing() == Spacing::Joint;
                        tokens.next();
                    }
                    self.mark(&mark, &mut level);
                }
            }
        }
        self.end_level(level);
    }

    /// What no `>` closes was no bracket.
    pub(super) fn end_level(&mut self, level: Level) {
        for open in level.angles {
            self.set_kind(open, Kind::Mark);
        }
    }

    pub(super) fn add_word(&mut self, word: &str, level: &mut Level) {
        let start = self.text.len();
        self.text.push_str(word);
        self.word(start, level);
    }

    fn set_kind(&mut self, index: usize, kind: Kind) {
        if let Some(piece) = self.pieces.get_mut(index) {
            piece.kind = kind;
        }
    }

    fn word(&mut self, start: usize, level: &mut Level) {
        let text = self.text.get(start..).unwrap_or("");
        let after_dot =
            self.pieces.last().is_some_and(|last| self.text.get(last.start..last.end) == Some("."));
        let kind = if !after_dot && is_keyword(text) { Kind::Keyword } else { Kind::Word };
        match text {
            "match" => level.expects = Role::Arms,
            "async" | "move" | "if" | "else" | "for" | "while" | "loop" => level.expects = Role::Block,
            "fn" | "impl" | "mod" | "trait" => level.expects = Role::Block,
            _ => {}
        }
        self.push(kind, start);
    }

    /// A number or a text; what stands for a text. In `self.0.name` the number is written with the dot behind it.
    fn literal(&mut self, start: usize, level: &mut Level) {
        let text = self.text.get(start..).unwrap_or("");
        if let Some(number) = text.strip_suffix("u128").and_then(|number| number.parse().ok()) {
            self.text.truncate(start);
            match self.texts.get_mut::<usize>(number).map(std::mem::take) {
                Some(Text::Lines(lines)) => _ = self.push_text(Kind::Text, &lines),
                Some(Text::Code(code)) => self.code(&mut Source::new(&code), level),
                None => {}
            }
            return;
        }
        let has_dot = text.ends_with('.');
        if has_dot {
            self.text.pop();
        }
        self.push(Kind::Literal, start);
        if has_dot {
            self.push_text(Kind::Mark, ".");
        }
    }

    pub(super) fn mark(&mut self, mark: &Mark, level: &mut Level) {
        match mark.text() {
            "<" => {
                let open = self.push_text(Kind::Open, "<");
                level.angles.push(open);
            }
            ">" if !level.angles.is_empty() => {
                self.drop_comma(level.angles.last().copied());
                let close = self.push_text(Kind::Close, ">");
                self.join(level.angles.pop().unwrap_or(close), close);
            }
            "|" => {
                level.in_bars = !level.in_bars;
                self.push_text(if level.in_bars { Kind::Bar } else { Kind::Mark }, "|");
            }
            text => {
                if level.angles.is_empty() && matches!(text, "," | ";" | "=>" | "=") {
                    level.expects = Role::Plain;
                }
                self.push_text(Kind::Mark, text);
            }
        }
    }

    fn join(&mut self, open: usize, close: usize) {
        for (one, other) in [(open, close), (close, open)] {
            if let Some(piece) = self.pieces.get_mut(one) {
                piece.mate = other;
            }
        }
    }

    fn bracketed(&mut self, delimiter: Delimiter, inner: TokenStream, level: &mut Level) {
        let (open, close) = match delimiter {
            Delimiter::Parenthesis => ("(", ")"),
            Delimiter::Bracket => ("[", "]"),
            Delimiter::Brace => ("{", "}"),
            Delimiter::None => return self.group(inner),
        };
        let opened = self.open(open, level);
        self.group(inner);
        if delimiter == Delimiter::Bracket && self.doc(opened) {
            return;
        }
        self.close(opened, close);
    }

    /// Adds a bracket that opens. A brace holds what was expected of it.
    pub(super) fn open(&mut self, open: &'static str, level: &mut Level) -> usize {
        let opened = self.push_text(Kind::Open, open);
        if open == "{" {
            let role = std::mem::replace(&mut level.expects, Role::Plain);
            if let Some(piece) = self.pieces.get_mut(opened) {
                piece.role = role;
            }
        }
        opened
    }

    pub(super) fn close(&mut self, opened: usize, close: &'static str) {
        self.drop_comma(Some(opened));
        let closed = self.push_text(Kind::Close, close);
        self.join(opened, closed);
    }

    /// A comma before a closing bracket goes, but for that of a tuple of one.
    fn drop_comma(&mut self, open: Option<usize>) {
        let Some((open, last)) = open.zip(self.len().checked_sub(1)) else { return };
        if last == open || !self.is(last, ",") {
            return;
        }
        let called = open
            .checked_sub(1)
            .is_some_and(|before| matches!(self.kind(before), Some(Kind::Word | Kind::Close)));
        if !self.is(open, "(") || called || self.find(",", open + 1, last).is_some() {
            self.pieces.pop();
        }
    }

    /// Makes `#[doc = "text"]`, of which all but the last bracket was taken, a line of documentation.
    fn doc(&mut self, open: usize) -> bool {
        let is_doc = self.len() == open + 4
            && self.is(open + 1, "doc")
            && self.is(open + 2, "=")
            && self.kind(open + 3) == Some(Kind::Literal)
            && open.checked_sub(1).is_some_and(|before| self.is(before, "#"));
        let Some(line) = is_doc.then(|| unescaped(self.text(open + 3))).flatten() else { return false };
        let start = self.get(open - 1).map_or(0, |piece| piece.start);
        self.pieces.truncate(open - 1);
        self.text.truncate(start);
        self.push_text(Kind::Doc, line.trim_end_matches(' '));
        true
    }

    /// Finds where blanks stand, and how wide everything is.
    fn measure(&mut self) {
        let (mut at, mut blocks) = (0, 0);
        for index in 0..self.len() {
            let spaced = self.is_spaced(index);
            // Lines of their own are in no other.
            let width = if self.kind(index) == Some(Kind::Text) { 0 } else { self.text(index).len() };
            let Some(piece) = self.pieces.get_mut(index) else { return };
            (piece.spaced, piece.at, piece.blocks) = (spaced, at, blocks);
            at += width + usize::from(spaced);
            blocks += usize::from(piece.kind == Kind::Open && piece.role != Role::Plain);
        }
    }

    fn is_spaced(&self, index: usize) -> bool {
        let Some(before) = index.checked_sub(1) else { return false };
        let (Some(kind), Some(kind_before)) = (self.kind(index), self.kind(before)) else { return false };
        let (text, text_before) = (self.text(index), self.text(before));
        match (kind_before, text_before) {
            (Kind::Open, "{") => return kind != Kind::Close && !self.is_list_of_names(before),
            (Kind::Open | Kind::Bar, _) => return false,
            (Kind::Mark, "#" | "!" | "." | "::" | "&" | "..") => return false,
            (Kind::Mark, "-" | "*") if self.is_prefix(before) => return false,
            _ => {}
        }
        let before_is_value = matches!(kind_before, Kind::Word | Kind::Literal | Kind::Close);
        match (kind, text) {
            (Kind::Close, "}") => !self.get(index).is_some_and(|piece| self.is_list_of_names(piece.mate)),
            (Kind::Close, _) | (Kind::Mark, "," | ";" | "?" | "." | ":" | "..") => false,
            (Kind::Mark, "|") => false,
            (Kind::Mark, "::") => !before_is_value || self.ends_parameters(before),
            (Kind::Mark, "!") => kind_before != Kind::Word,
            (Kind::Open, "{") => true,
            (Kind::Open, "<") => !before_is_value && !matches!(text_before, "impl" | "for"),
            (Kind::Open, _) => !before_is_value && text_before != "pub" || self.ends_attribute(before),
            _ => true,
        }
    }

    /// Whether a bracket is the last of an impl's parameters.
    fn ends_parameters(&self, close: usize) -> bool {
        let open = self.get(close).filter(|piece| piece.kind == Kind::Close).map(|piece| piece.mate);
        open.and_then(|open| open.checked_sub(1)).is_some_and(|before| self.is(before, "impl"))
    }

    /// Whether a sign stands before what it belongs to, and not between two values.
    fn is_prefix(&self, index: usize) -> bool {
        index
            .checked_sub(1)
            .and_then(|before| self.kind(before))
            .is_none_or(|before| matches!(before, Kind::Mark | Kind::Open | Kind::Keyword | Kind::Bar))
    }

    /// Whether a brace holds the names of a `use`.
    fn is_list_of_names(&self, open: usize) -> bool {
        open.checked_sub(1).is_some_and(|before| self.is(before, "::"))
    }

    /// Whether a bracket is the last of an attribute.
    pub(super) fn ends_attribute(&self, close: usize) -> bool {
        let open = self.get(close).filter(|piece| piece.kind == Kind::Close).map(|piece| piece.mate);
        open.and_then(|open| open.checked_sub(1)).is_some_and(|before| self.is(before, "#"))
    }
}

/// What is known of the tokens between two brackets.
#[derive(Default)]
pub(super) struct Level {
    /// The `<` that are still open.
    angles: Vec<usize>,
    /// Whether a closure's parameters have begun.
    in_bars: bool,
    /// What the next brace holds.
    expects: Role,
}

/// One to three signs that are one mark.
pub(super) struct Mark {
    signs: [u8; 3],
    len: usize,
}

/// Marks of several signs that emitted code has.
const MARKS: [&str; 9] = ["::", "->", "=>", "&&", "||", "..", "..=", "==", "!="];

impl Mark {
    pub(super) fn new(sign: char) -> Self {
        Mark { signs: [u8::try_from(sign).unwrap_or(b'?'), 0, 0], len: 1 }
    }

    fn text(&self) -> &str {
        self.signs.get(..self.len).and_then(|signs| std::str::from_utf8(signs).ok()).unwrap_or("")
    }

    /// Adds a sign if the two are one mark.
    pub(super) fn grow(&mut self, sign: char) -> bool {
        let (Some(place), Ok(sign)) = (self.signs.get_mut(self.len), u8::try_from(sign)) else {
            return false;
        };
        *place = sign;
        self.len += 1;
        let is_mark = MARKS.contains(&self.text());
        self.len -= usize::from(!is_mark);
        is_mark
    }
}

/// Keywords that a blank stands behind, whatever comes.
fn is_keyword(word: &str) -> bool {
    matches!(
        word,
        "as" | "async"
            | "break"
            | "const"
            | "continue"
            | "dyn"
            | "else"
            | "enum"
            | "extern"
            | "fn"
            | "for"
            | "if"
            | "impl"
            | "in"
            | "let"
            | "loop"
            | "match"
            | "mod"
            | "move"
            | "mut"
            | "pub"
            | "ref"
            | "return"
            | "static"
            | "struct"
            | "trait"
            | "type"
            | "use"
            | "where"
            | "while"
    )
}

/// The text that a literal stands for; none if it is no text, or if `///` cannot say it.
fn unescaped(literal: &str) -> Option<String> {
    // `quote!` has its own documentation as raw text.
    let raw = literal.strip_prefix("r\"").and_then(|rest| rest.strip_suffix('"'));
    if let Some(text) = raw.filter(|text| !text.contains(['\n', '\r']) && !text.starts_with('/')) {
        return Some(text.to_owned());
    }
    let inner = literal.strip_prefix('"')?.strip_suffix('"')?;
    if inner.starts_with('/') {
        return None;
    }
    let mut text = String::with_capacity(inner.len());
    let mut rest = inner;
    while let Some(at) = rest.find('\\') {
        text.push_str(rest.get(..at)?);
        let (escape, length) = one_escape(rest.get(at + 1..)?)?;
        text.push(escape);
        rest = rest.get(at + 1 + length..)?;
    }
    text.push_str(rest);
    (!text.contains(['\n', '\r'])).then_some(text)
}

/// The character that follows a backslash, and how long it is written.
fn one_escape(text: &str) -> Option<(char, usize)> {
    let found = match text.chars().next()? {
        '0' => '\0',
        't' => '\t',
        'u' => {
            let (number, _) = text.strip_prefix("u{")?.split_once('}')?;
            let c = u32::from_str_radix(number, 16).ok().and_then(char::from_u32)?;
            return Some((c, number.len() + 3));
        }
        same @ ('"' | '\'' | '\\') => same,
        _ => return None,
    };
    Some((found, 1))
}
