//! Documentation: converts the comments of a document to Markdown that, when rendered, looks like the
//! comments.

use super::code::Code;
use crate::ir::Docs;

pub(super) struct Lines<'c> {
    code: &'c mut Code,
    begin: usize,
}

impl<'c> Lines<'c> {
    pub(super) fn new(code: &'c mut Code) -> Self {
        let begin = code.len();
        Lines { code, begin }
    }

    pub(super) fn push(&mut self, text: &str) {
        self.with(|out| out.push_str(text));
    }

    /// Adds an empty line, unless it would be the first line.
    pub(super) fn part(&mut self) {
        if self.code.len() > self.begin {
            self.code.line(["///"]);
        }
    }

    fn with(&mut self, add: impl FnOnce(&mut String)) {
        self.code.begin();
        self.code.push("/// ");
        add(self.code.text());
        self.code.end_text();
    }
}

pub(super) fn definition(name: &str, docs: &Docs, lines: &mut Lines<'_>) {
    lines.with(|out| {
        code(name, out);
        if let Some(section) = &docs.section {
            out.push_str(", ");
            out.push_str(section_word(section));
            escape(section, out);
        }
    });
    paragraphs(&docs.comments, lines);
    if !docs.declaration.is_empty() {
        lines.part();
        fenced(&docs.declaration, lines);
    }
}

pub(super) fn section_word(heading: &str) -> &'static str {
    if heading.starts_with("Appendix ") { "" } else { "section " }
}

pub(super) fn part(comments: &[String], declaration: &str, lines: &mut Lines<'_>) {
    paragraphs(comments, lines);
    lines.part();
    lines.with(|out| code(declaration, out));
}

pub(super) fn paragraphs(comments: &[String], lines: &mut Lines<'_>) {
    for comment in comments.iter().filter(|comment| !comment.trim().is_empty()) {
        lines.part();
        if is_prose(comment) {
            comment.lines().for_each(|line| lines.with(|out| escape(line, out)));
        } else {
            fenced(comment, lines);
        }
    }
}

fn fenced(text: &str, lines: &mut Lines<'_>) {
    let mut fence = "```".to_owned();
    while text.as_bytes().contains(&b'`') && text.contains(&fence) {
        fence.push('`');
    }
    lines.push(&format!("{fence}text"));
    text.lines().for_each(|line| lines.with(|out| push_plain(line.trim_end(), "        ", out)));
    lines.push(&fence);
}

/// Appends `text` to `out`. Replaces each tab with `tab`. Replaces each CR or LF with a space, since a line
/// break would end the doc comment.
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

fn code(text: &str, out: &mut String) {
    let [open, close] = if text.contains('`') { ["`` ", " ``"] } else { ["`", "`"] };
    out.push_str(open);
    push_plain(text, " ", out);
    out.push_str(close);
}

/// Returns true if a comment is plain prose. Markdown would change lists, drawings and indentation.
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

/// Escapes Markdown. Words with `://` become code, and trailing spaces are removed.
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

/// Returns true if a character is escaped wherever it occurs, since it can have a meaning in Markdown.
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
    fn text_is_unchanged() {
        assert_eq!(
            escaped("an array[n] of <x> and AUTH_SYS, _x"),
            "an array\\[n\\] of \\<x\\> and AUTH_SYS, \\_x"
        );
        assert_eq!(escaped("see http://example.org/a"), "see `http://example.org/a`");
    }

    #[test]
    fn lists_and_drawings_are_unchanged() {
        assert!(is_prose("One sentence.\nAnd another."));
        assert!(!is_prose("- one\n- two"));
        assert!(!is_prose("1. one"));
        assert!(!is_prose("a   b"));
        assert!(is_prose("of the program called"));
        assert!(is_prose("0 is nothing"));
    }
}
