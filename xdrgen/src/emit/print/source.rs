//! Rust as text, cut into the pieces that its tokens are.
//!
//! Most of what is emitted are fields, variants and their documentation. As text they cost little; as tokens each name
//! would be an allocation of its own, only to become text again.

use super::tape::{Kind, Level, Mark, Tape};
use super::{INDENT, WIDTH};

/// No attribute that is longer stays a line as it is: others fit their line wherever it stands, with room for four indents.
const LONGEST_ATTRIBUTE: usize = WIDTH - 4 * INDENT;

/// A text, and how far it has been read.
pub(super) struct Source<'s> {
    text: &'s str,
    at: usize,
}

impl<'s> Source<'s> {
    pub(super) fn new(text: &'s str) -> Self {
        Source { text, at: 0 }
    }

    fn rest(&self) -> &'s str {
        self.text.get(self.at..).unwrap_or("")
    }

    fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Takes bytes.
    fn take(&mut self, length: usize) -> &'s str {
        let taken = self.rest().get(..length).unwrap_or("");
        self.at += length;
        taken
    }

    /// Takes the bytes up to the first that is no part of a name.
    fn word(&mut self) -> &'s str {
        let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_' || !byte.is_ascii();
        let length = self.rest().as_bytes().iter().take_while(|byte| is_part(byte)).count();
        self.take(length)
    }

    fn begins_line(&self) -> bool {
        self.at.checked_sub(1).is_none_or(|before| self.text.as_bytes().get(before) == Some(&b'\n'))
    }

    /// Takes whole lines of documentation and short attributes, with their ends; nothing if none begins here.
    fn lines(&mut self) -> &'s str {
        let mut length = 0;
        for line in self.rest().split_inclusive('\n') {
            let is_attribute = || {
                line.starts_with("#[")
                    && line.ends_with("]\n")
                    && line.len() <= LONGEST_ATTRIBUTE + "\n".len()
            };
            if !line.starts_with("///") && !is_attribute() {
                break;
            }
            length += line.len();
        }
        self.take(length)
    }

    /// Takes a text between quotation marks.
    fn quoted(&mut self) -> &'s str {
        let mut escaped = false;
        let end = self.rest().bytes().skip(1).position(|byte| {
            let ends = byte == b'"' && !escaped;
            escaped = byte == b'\\' && !escaped;
            ends
        });
        self.take(end.map_or(self.rest().len(), |end| end + 2))
    }

    /// A character between quotation marks, if one stands here and no lifetime.
    fn character(&self) -> Option<usize> {
        let inner = self.rest().strip_prefix('\'')?;
        let length = if inner.starts_with('\\') {
            inner.get(2..)?.find('\'')? + 2
        } else {
            inner.chars().next()?.len_utf8()
        };
        inner.get(length..)?.starts_with('\'').then_some(length + 2)
    }
}

impl Tape {
    /// Adds what stands up to the bracket that closes, or to the end.
    pub(super) fn code(&mut self, source: &mut Source<'_>, level: &mut Level) {
        while let Some(byte) = source.byte() {
            match byte {
                b' ' | b'\n' => source.at += 1,
                b'/' | b'#' if source.begins_line() => {
                    let lines = source.lines();
                    if lines.is_empty() {
                        self.sign(source, level);
                    } else {
                        self.push_text(Kind::Text, lines);
                    }
                }
                b'"' => {
                    self.push_text(Kind::Literal, source.quoted());
                }
                b'0'..=b'9' => {
                    self.push_text(Kind::Literal, source.word());
                }
                b'\'' => self.quote(source),
                b'(' | b'[' | b'{' => self.bracket(source, byte, level),
                b')' | b']' | b'}' => return,
                byte if byte.is_ascii_punctuation() && byte != b'_' => self.sign(source, level),
                _ => self.name(source, level),
            }
        }
    }

    /// A name, a raw one among them.
    fn name(&mut self, source: &mut Source<'_>, level: &mut Level) {
        let start = source.at;
        let word = source.word();
        if word == "r" && source.byte() == Some(b'#') {
            source.at += 1;
            source.word();
        }
        let name = source.text.get(start..source.at).unwrap_or("");
        if name.is_empty() {
            // Nothing that could be a part of Rust.
            source.at = source.text.len();
            return;
        }
        self.add_word(name, level);
    }

    /// A lifetime, or a character.
    fn quote(&mut self, source: &mut Source<'_>) {
        if let Some(length) = source.character() {
            self.push_text(Kind::Literal, source.take(length));
            return;
        }
        let start = source.at;
        source.at += 1;
        source.word();
        self.push_text(Kind::Lifetime, source.text.get(start..source.at).unwrap_or(""));
    }

    /// One mark, of as many signs as belong together.
    fn sign(&mut self, source: &mut Source<'_>, level: &mut Level) {
        let Some(first) = source.byte() else { return };
        source.at += 1;
        let mut mark = Mark::new(char::from(first));
        while let Some(next) = source.byte().filter(u8::is_ascii_punctuation)
            && mark.grow(char::from(next))
        {
            source.at += 1;
        }
        self.mark(&mark, level);
    }

    /// A bracket with what stands in it.
    fn bracket(&mut self, source: &mut Source<'_>, open: u8, level: &mut Level) {
        let (open, close) = match open {
            b'(' => ("(", ")"),
            b'[' => ("[", "]"),
            _ => ("{", "}"),
        };
        source.at += 1;
        let opened = self.open(open, level);
        let mut inner = Level::default();
        self.code(source, &mut inner);
        self.end_level(inner);
        source.at += 1;
        self.close(opened, close);
    }
}
