//! Documentation: a document's comments as Markdown that says what they said.

use std::borrow::Cow;
use std::cell::RefCell;

use proc_macro2::Literal;

use super::print::{INDENT, WIDTH};
use crate::ir::Docs;

/// What stands around a part, about.
const ROOM_FOR_MARKS: usize = 24;

/// Lines of documentation, each with its end.
#[derive(Debug, Default)]
pub(super) struct Lines(String);

impl Lines {
    /// No lines, with room for a title and for all that is known of a definition.
    fn with_room(title: usize, docs: &Docs) -> Self {
        let comments: usize = docs.comments.iter().map(|comment| comment.len() + ROOM_FOR_MARKS).sum();
        let section = docs.section.as_ref().map_or(0, |section| section.len() + ROOM_FOR_MARKS);
        Lines(String::with_capacity(title + section + comments + docs.declaration.len() + ROOM_FOR_MARKS))
    }

    /// Adds lines.
    pub(super) fn push(&mut self, text: &str) {
        self.0.push_str(text);
        self.end_line();
    }

    /// Adds an empty line between what there is and what comes.
    pub(super) fn part(&mut self) {
        if !self.0.is_empty() {
            self.0.push('\n');
        }
    }

    fn end_line(&mut self) {
        self.0.push('\n');
    }
}

/// What stands before an item and has lines of its own.
#[derive(Debug)]
pub(super) enum Text {
    /// Lines of documentation, without their marks.
    Docs(String),
    /// One attribute, whole.
    Attribute(Cow<'static, str>),
}

/// No attribute that is longer is a text: it would fit its line wherever it stands, with room for four indents.
const LONGEST_ATTRIBUTE: usize = WIDTH - 4 * INDENT;

/// The documentation of items and most of their attributes, which stand beside their tokens: the number `3u128` where an
/// attribute may stand is the text with the number 3. As tokens documentation would be quoted line by line, only to be
/// unquoted again, and attributes would be most of the tokens that there are.
#[derive(Debug, Default)]
pub(crate) struct Texts(RefCell<Vec<Text>>);

impl Texts {
    /// The token that stands for some lines.
    pub(super) fn attribute(&self, lines: Lines) -> Literal {
        self.add(Text::Docs(lines.0))
    }

    /// The token that stands for an attribute before an item, a field in braces or a variant; none for an attribute that
    /// may have to be broken.
    pub(super) fn whole(&self, attribute: impl Into<Cow<'static, str>>) -> Option<Literal> {
        let attribute = attribute.into();
        (attribute.len() <= LONGEST_ATTRIBUTE).then(|| self.add(Text::Attribute(attribute)))
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
pub(super) fn definition(name: &str, docs: &Docs) -> Lines {
    let mut lines = Lines::with_room(name.len(), docs);
    code(name, &mut lines.0);
    if let Some(section) = &docs.section {
        lines.0.push_str(", section ");
        escape(section, &mut lines.0);
    }
    lines.end_line();
    paragraphs(&docs.comments, &mut lines);
    if !docs.declaration.is_empty() {
        lines.part();
        fenced(&docs.declaration, &mut lines);
    }
    lines
}

/// The documentation of a part of a definition: its comments, and what was written.
pub(super) fn part(docs: &Docs) -> Lines {
    let mut lines = Lines::with_room(0, docs);
    paragraphs(&docs.comments, &mut lines);
    lines.part();
    code(&docs.declaration, &mut lines.0);
    lines.end_line();
    lines
}

/// Comments, each a paragraph.
pub(super) fn paragraphs(comments: &[String], lines: &mut Lines) {
    for comment in comments.iter().filter(|comment| !comment.trim().is_empty()) {
        lines.part();
        if is_prose(comment) {
            for line in comment.lines() {
                escape(line, &mut lines.0);
                lines.end_line();
            }
        } else {
            fenced(comment, lines);
        }
    }
}

/// Text as it is: in a block of its own.
fn fenced(text: &str, lines: &mut Lines) {
    let mut fence = "```".to_owned();
    while text.as_bytes().contains(&b'`') && text.contains(&fence) {
        fence.push('`');
    }
    lines.push(&format!("{fence}text"));
    for line in text.lines() {
        push_plain(line.trim_end(), "        ", &mut lines.0);
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
        let numbered = first.trim_end_matches(['.', ')', ':']).parse::<u32>().is_ok() && first.len() > 1;
        let marked = ["-", "*", "+", "o", "=", "|", "~", ">", "#"].iter().any(|mark| first.starts_with(mark))
            && (first.len() == 1 || !first.starts_with('o'));
        !line.starts_with([' ', '\t']) && !numbered && !marked && !line.contains("   ")
    })
}

/// A line of text as Markdown that shows it as it is.
fn escape(line: &str, out: &mut String) {
    let begin = out.len();
    let has_links = line.contains("://");
    for (at, word) in line.split([' ', '\t', '\r', '\n']).enumerate() {
        if at > 0 {
            out.push(' ');
        }
        if has_links && word.contains("://") {
            code(word, out);
            continue;
        }
        for (at, c) in word.char_indices() {
            let inner = at > 0 && at + c.len_utf8() < word.len();
            let is_mark = matches!(c, '\\' | '`' | '*' | '[' | ']' | '<' | '>' | '~' | '#' | '|');
            if is_mark || c == '_' && !inner {
                out.push('\\');
            }
            out.push(c);
        }
    }
    let kept = out.get(begin..).map_or(0, |added| added.trim_end().len());
    out.truncate(begin + kept);
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
