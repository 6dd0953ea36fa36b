//! Documentation: a document's comments as Markdown that says what they said.

use std::cell::RefCell;

use proc_macro2::Literal;

use crate::ir::Docs;

/// Lines of documentation, with their marks, at the end of a text.
#[derive(Debug)]
pub(super) struct Lines<'o> {
    out: &'o mut String,
    /// Where they begin.
    begin: usize,
}

impl<'o> Lines<'o> {
    pub(super) fn new(out: &'o mut String) -> Self {
        let begin = out.len();
        Lines { out, begin }
    }

    /// Adds a line.
    pub(super) fn push(&mut self, text: &str) {
        self.begin_line();
        self.out.push_str(text);
        self.end_line();
    }

    /// Adds an empty line between what there is and what comes.
    pub(super) fn part(&mut self) {
        if self.out.len() > self.begin {
            self.out.push_str("///\n");
        }
    }

    fn begin_line(&mut self) {
        self.out.push_str("/// ");
    }

    fn end_line(&mut self) {
        let kept = self.out.trim_end_matches(' ').len();
        self.out.truncate(kept);
        self.out.push('\n');
    }
}

/// What a token can stand for.
#[derive(Debug)]
pub(super) enum Text {
    /// Lines of documentation and attributes, with their marks.
    Lines(String),
    /// Rust in the middle of a line.
    Code(String),
}

impl Default for Text {
    fn default() -> Self {
        Text::Code(String::new())
    }
}

/// Texts that stand beside the tokens of an item: the number `3u128` is the text with the number 3. As tokens documentation
/// would be quoted line by line, only to be unquoted again.
#[derive(Debug, Default)]
pub(crate) struct Texts(RefCell<Vec<Text>>);

impl Texts {
    /// The token that stands for some lines.
    pub(super) fn lines(&self, add: impl FnOnce(&mut Lines<'_>)) -> Literal {
        let mut text = String::new();
        add(&mut Lines::new(&mut text));
        self.add(Text::Lines(text))
    }

    /// The token that stands for attributes, a line each.
    pub(super) fn with(&self, add: impl FnOnce(&mut String)) -> Literal {
        let mut text = String::new();
        add(&mut text);
        self.add(Text::Code(text))
    }

    /// The token that stands for some Rust.
    pub(super) fn code(&self, code: String) -> Literal {
        self.add(Text::Code(code))
    }

    fn add(&self, text: Text) -> Literal {
        let mut texts = self.0.borrow_mut();
        texts.push(text);
        // Nothing else that is emitted has a suffix.
        Literal::u128_suffixed((texts.len() - 1) as u128)
    }

    /// What was said since it was taken last.
    pub(super) fn take(&self) -> Vec<Text> {
        self.0.take()
    }
}

/// The documentation of a definition: its name and section, its comments, and what was written.
pub(super) fn definition(name: &str, docs: &Docs, lines: &mut Lines<'_>) {
    lines.begin_line();
    code(name, lines.out);
    if let Some(section) = &docs.section {
        lines.out.push_str(", section ");
        escape(section, lines.out);
    }
    lines.end_line();
    paragraphs(&docs.comments, lines);
    if !docs.declaration.is_empty() {
        lines.part();
        fenced(&docs.declaration, lines);
    }
}

/// The documentation of a part of a definition: its comments, and what was written.
pub(super) fn part(docs: &Docs, lines: &mut Lines<'_>) {
    paragraphs(&docs.comments, lines);
    lines.part();
    lines.begin_line();
    code(&docs.declaration, lines.out);
    lines.end_line();
}

/// Comments, each a paragraph.
pub(super) fn paragraphs(comments: &[String], lines: &mut Lines<'_>) {
    for comment in comments.iter().filter(|comment| !comment.trim().is_empty()) {
        lines.part();
        if is_prose(comment) {
            for line in comment.lines() {
                lines.begin_line();
                escape(line, lines.out);
                lines.end_line();
            }
        } else {
            fenced(comment, lines);
        }
    }
}

/// Text as it is: in a block of its own.
fn fenced(text: &str, lines: &mut Lines<'_>) {
    let mut fence = "```".to_owned();
    while text.as_bytes().contains(&b'`') && text.contains(&fence) {
        fence.push('`');
    }
    lines.push(&format!("{fence}text"));
    for line in text.lines() {
        lines.begin_line();
        push_plain(line.trim_end(), "        ", lines.out);
        lines.end_line();
    }
    lines.push(&fence);
}

/// Adds text with something else for each tab, and without what a comment must not have.
fn push_plain(text: &str, tab: &str, out: &mut String) {
    if !text.bytes().any(|byte| matches!(byte, b'\t' | b'\r' | b'\n')) {
        return out.push_str(text);
    }
    for (at, part) in text.split('\t').enumerate() {
        if at > 0 {
            out.push_str(tab);
        }
        for (at, part) in part.split(['\r', '\n']).enumerate() {
            if at > 0 {
                out.push(' ');
            }
            out.push_str(part);
        }
    }
}

/// Text as it is, within a line.
fn code(text: &str, out: &mut String) {
    let [open, close] = if text.contains('`') { ["`` ", " ``"] } else { ["`", "`"] };
    out.push_str(open);
    push_plain(text, " ", out);
    out.push_str(close);
}

/// Whether a comment is sentences: no list, no drawing, no indentation that would mean something to Markdown.
fn is_prose(comment: &str) -> bool {
    comment.lines().all(|line| {
        let first = line.split_whitespace().next().unwrap_or("");
        let is_listed = match first.bytes().next() {
            Some(b'-' | b'*' | b'+' | b'=' | b'|' | b'~' | b'>' | b'#') => true,
            Some(b'o') => first.len() == 1,
            Some(b'0'..=b'9') => {
                first.len() > 1 && first.trim_end_matches(['.', ')', ':']).parse::<u32>().is_ok()
            }
            _ => false,
        };
        !line.starts_with([' ', '\t'])
            && !is_listed
            && !line.as_bytes().windows(3).any(|three| three == b"   ")
    })
}

/// A line of text as Markdown that shows it as it is.
fn escape(line: &str, out: &mut String) {
    let begin = out.len();
    let has_links = line.contains(':') && line.contains("://");
    for (at, word) in line.split([' ', '\t', '\r', '\n']).enumerate() {
        if at > 0 {
            out.push(' ');
        }
        if has_links && word.contains("://") {
            code(word, out);
            continue;
        }
        if !word.bytes().any(|byte| byte == b'_' || is_mark(char::from(byte))) {
            out.push_str(word);
            continue;
        }
        for (at, c) in word.char_indices() {
            let inner = at > 0 && at + c.len_utf8() < word.len();
            if is_mark(c) || c == '_' && !inner {
                out.push('\\');
            }
            out.push(c);
        }
    }
    let kept = out.get(begin..).map_or(0, |added| added.trim_end().len());
    out.truncate(begin + kept);
}

/// Whether a character means something to Markdown, wherever it stands.
fn is_mark(c: char) -> bool {
    matches!(c, '\\' | '`' | '*' | '[' | ']' | '<' | '>' | '~' | '#' | '|')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn escaped(line: &str) -> String {
        let mut text = String::new();
        escape(line, &mut text);
        text
    }

    #[test]
    fn text_stays_what_it_was() {
        assert_eq!(
            escaped("an array[n] of <x> and AUTH_SYS, _x"),
            "an array\\[n\\] of \\<x\\> and AUTH_SYS, \\_x"
        );
        assert_eq!(escaped("see http://example.org/a"), "see `http://example.org/a`");
    }

    #[test]
    fn lists_and_drawings_stay_as_they_stand() {
        assert!(is_prose("One sentence.\nAnd another."));
        assert!(!is_prose("- one\n- two"));
        assert!(!is_prose("1. one"));
        assert!(!is_prose("a   b"));
        assert!(is_prose("of the program called"));
        assert!(is_prose("0 is nothing"));
    }
}
