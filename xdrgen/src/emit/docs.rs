//! Documentation: a document's comments as Markdown that says what they said.

use proc_macro2::TokenStream;
use quote::quote;

use crate::ir::Docs;

/// Attributes for lines of documentation.
pub(super) fn attributes(lines: &[String]) -> TokenStream {
    let lines = lines.iter().map(|line| if line.is_empty() { String::new() } else { format!(" {line}") });
    quote!(#(#[doc = #lines])*)
}

/// The documentation of a definition: its name and section, its comments, and what was written.
pub(super) fn definition(name: &str, docs: &Docs) -> Vec<String> {
    let mut lines = vec![match &docs.section {
        Some(section) => format!("`{name}`, section {}", escape(section)),
        None => format!("`{name}`"),
    }];
    paragraphs(&docs.comments, &mut lines);
    if !docs.declaration.is_empty() {
        lines.push(String::new());
        fenced(&docs.declaration, &mut lines);
    }
    lines
}

/// The documentation of a part of a definition: its comments, and what was written.
pub(super) fn part(docs: &Docs) -> Vec<String> {
    let mut lines = Vec::new();
    paragraphs(&docs.comments, &mut lines);
    if !lines.is_empty() {
        lines.remove(0);
        lines.push(String::new());
    }
    lines.push(code(&docs.declaration));
    lines
}

/// Comments, each a paragraph with an empty line before it.
pub(super) fn paragraphs(comments: &[String], lines: &mut Vec<String>) {
    for comment in comments.iter().filter(|comment| !comment.trim().is_empty()) {
        lines.push(String::new());
        if is_prose(comment) {
            lines.extend(comment.lines().map(escape));
        } else {
            fenced(comment, lines);
        }
    }
}

/// Text as it is: in a block of its own.
fn fenced(text: &str, lines: &mut Vec<String>) {
    let mut fence = "```".to_owned();
    while text.contains(&fence) {
        fence.push('`');
    }
    lines.push(format!("{fence}text"));
    lines.extend(text.lines().map(|line| line.trim_end().replace('\t', "        ")));
    lines.push(fence);
}

/// Text as it is, within a line.
fn code(text: &str) -> String {
    let text = text.replace(['\n', '\t'], " ");
    if text.contains('`') { format!("`` {text} ``") } else { format!("`{text}`") }
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
fn escape(line: &str) -> String {
    let words = line.replace('\t', " ");
    let words = words.split(' ').map(|word| {
        if word.contains("://") {
            return code(word);
        }
        let mut escaped = String::new();
        let chars: Vec<char> = word.chars().collect();
        for (at, c) in chars.iter().enumerate() {
            let inner = at > 0 && at + 1 < chars.len();
            if matches!(c, '\\' | '`' | '*' | '[' | ']' | '<' | '>' | '~' | '#' | '|') || *c == '_' && !inner
            {
                escaped.push('\\');
            }
            escaped.push(*c);
        }
        escaped
    });
    words.collect::<Vec<_>>().join(" ").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_stays_what_it_was() {
        assert_eq!(
            escape("an array[n] of <x> and AUTH_SYS, _x"),
            "an array\\[n\\] of \\<x\\> and AUTH_SYS, \\_x"
        );
        assert_eq!(escape("see http://example.org/a"), "see `http://example.org/a`");
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
