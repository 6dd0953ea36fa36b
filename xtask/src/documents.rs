//! Documents and comments: lengths, tables, links and line widths.

use std::fs;
use std::path::Path;

use xtask::files::{self, relative};

use crate::cargo;

/// Maximum numbers of lines of documents.
const LENGTHS: &[(&str, usize)] = &[("README.md", 150), ("ARCHITECTURE.md", 200), ("CONTRIBUTING.md", 120)];

/// Maximum number of characters in a table cell.
const CELL: usize = 160;

/// Maximum width of a comment line, in columns.
const COMMENT: usize = 110;

/// Documents that tools write.
const GENERATED: &[&str] = &["specs/requirements/README.md", "xdrgen/DIAGNOSTICS.md"];

/// Directories with emitted code.
const EMITTED: &[&str] = &["generated/", "rpcrdma-runtime/src/wire/generated/"];

/// The table of contents of the guides.
const SUMMARY: &str = "docs/SUMMARY.md";

/// Checks every Markdown file of the workspace except generated ones, and the comments of its code.
pub(crate) fn check(root: &Path) -> Result<(), String> {
    let mut found = Vec::new();
    let summary = read(&root.join(SUMMARY))?;
    for path in files::below(root)? {
        let name = relative(root, &path);
        if let Some(mark) = comment_mark(&name) {
            found.extend(
                wide_comments(&read(&path)?, mark).map(|(line, what)| format!("{name}:{line}: {what}")),
            );
        }
        if path.extension().is_none_or(|extension| extension != "md") || GENERATED.contains(&&*name) {
            continue;
        }
        let text = read(&path)?;
        found.extend(wrong(&name, &text).into_iter().map(|(line, what)| format!("{name}:{line}: {what}")));
        let folder = path.parent().unwrap_or(root);
        for (line, target) in links(&text).filter(|(_, target)| !folder.join(target).exists()) {
            found.push(format!("{name}:{line}: broken link to `{target}`"));
        }
        if let Some(guide) = name.strip_prefix("docs/")
            && name != SUMMARY
            && !links(&summary).any(|(_, target)| target == guide)
        {
            found.push(format!("{SUMMARY}: `{guide}` is missing"));
        }
    }
    cargo::report(&found)
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Returns the comment prefix of a source file, or `None` for other files and for emitted code.
fn comment_mark(name: &str) -> Option<&'static str> {
    if EMITTED.iter().any(|folder| name.starts_with(folder)) {
        return None;
    }
    match Path::new(name).extension()?.to_str()? {
        "rs" => Some("//"),
        "toml" | "sh" => Some("#"),
        _ => None,
    }
}

/// Returns the comments of a source file that are too wide, with their lines.
fn wide_comments(text: &str, mark: &str) -> impl Iterator<Item = (usize, String)> {
    let comments = (1..).zip(text.lines()).filter(move |(_, line)| line.trim_start().starts_with(mark));
    comments
        .map(|(number, line)| (number, line.chars().count()))
        .filter(|(_, columns)| *columns > COMMENT)
        .map(|(number, columns)| (number, format!("a comment of {columns} columns (limit {COMMENT})")))
}

/// Returns the violations of a document, with their lines.
fn wrong(name: &str, text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let limit = LENGTHS.iter().find(|(limited, _)| *limited == name).map_or(usize::MAX, |(_, limit)| *limit);
    let lines = text.lines().count();
    if lines > limit {
        found.push((lines, format!("{lines} lines (limit {limit}): move details to docs/")));
    }
    for (number, line) in prose(text).filter(|(_, line)| line.starts_with('|')) {
        let longest = line.split(" | ").map(|cell| cell.chars().count()).max().unwrap_or_default();
        if longest > CELL {
            found.push((number, format!("a cell of {longest} characters (limit {CELL}): use a paragraph")));
        }
    }
    found
}

/// Returns the lines outside fenced blocks, with their numbers.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_fenced = false;
    (1..).zip(text.lines()).filter(move |(_, line)| {
        let is_fence = line.trim_start().starts_with("```");
        is_fenced ^= is_fence;
        !is_fenced && !is_fence
    })
}

/// Returns the files that a document links to, without anchors, with the lines of the links.
fn links(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let targets = |line| str::split(line, "](").skip(1).filter_map(|rest| rest.split(')').next());
    let all = prose(text).flat_map(move |(number, line)| targets(line).map(move |target| (number, target)));
    all.filter_map(|(number, target)| Some((number, target.split('#').next()?)))
        .filter(|(_, target)| !target.is_empty() && !target.contains("://"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_documents_and_cells_are_reported() {
        let readme = "line\n".repeat(150);
        assert_eq!(wrong("README.md", &readme), []);
        assert_eq!(wrong("docs/a.md", &format!("{readme}line")), []);
        let found = wrong("README.md", &format!("{readme}line"));
        assert_eq!(found, [(151, "151 lines (limit 150): move details to docs/".to_owned())]);
        let cell = |length| format!("a\n| a | {} |\n", "b".repeat(length));
        assert_eq!(wrong("a.md", &cell(150)), []);
        assert_eq!(wrong("a.md", &cell(200)).first().map(|(line, _)| *line), Some(2));
        assert_eq!(wrong("a.md", &format!("```text\n{}```\n", cell(200))), []);
    }

    #[test]
    fn wide_comments_are_reported() {
        let line = |mark, width: usize| format!("a\n    {mark} {}\n", "b".repeat(width - 5 - str::len(mark)));
        let lines =
            |text: &str, mark| wide_comments(text, mark).map(|(line, _)| line).collect::<Vec<usize>>();
        for mark in ["//", "///", "#"] {
            let begin = if mark == "#" { "#" } else { "//" };
            assert!(lines(&line(mark, 110), begin).is_empty(), "{mark}");
            assert_eq!(lines(&line(mark, 111), begin), [2], "{mark}");
        }
        assert!(lines(&line("let", 120), "//").is_empty());
        assert_eq!(comment_mark("xtask/src/main.rs"), Some("//"));
        assert_eq!(comment_mark("generated/nfs3/src/lib.rs"), None);
        assert_eq!(comment_mark("README.md"), None);
    }

    #[test]
    fn links_to_files_are_found() {
        let text = "[a](a.md), [b](https://b.example) [c](#c)\n```text\n[d](d.md)\n```\n[e](../e.md#f)";
        assert_eq!(links(text).collect::<Vec<_>>(), [(1, "a.md"), (5, "../e.md")]);
    }
}
