//! Checks the lengths, tables and links of documents, the summary of the book, and the widths of comments.

use std::fs;
use std::path::Path;

use xtask::files::{self, relative};

use crate::cargo;

const LENGTHS: &[(&str, usize)] = &[("README.md", 150), ("ARCHITECTURE.md", 200), ("CONTRIBUTING.md", 120)];

/// Maximum number of characters in a table cell.
const CELL: usize = 160;

/// Maximum width of a comment line, in columns.
const COMMENT: usize = 110;

const GENERATED: &[&str] = &["specs/requirements/README.md"];

const EMITTED: &[&str] = &["generated/", "rpcrdma-runtime/src/wire/generated/"];

const GUEST_SCRIPTS: &str = "tests/interop/guest/";

/// The directory of the guides. In the book, a relative link works only if its target is in this
/// directory.
const BOOK: &str = "docs/";

const SUMMARY: &str = "docs/SUMMARY.md";

/// Checks the Markdown files of the workspace, except those in [`GENERATED`]. Also checks the widths of
/// comments, and that the summary lists every guide.
pub(crate) fn check(root: &Path) -> Result<(), String> {
    let mut found = Vec::new();
    let summary = read(&root.join(SUMMARY))?;
    for path in files::below(root)? {
        let name = relative(root, &path);
        if let Some(marks) = comment_marks(&name) {
            found.extend(
                wide_comments(&read(&path)?, marks).map(|(line, what)| format!("{name}:{line}: {what}")),
            );
        }
        if path.extension().is_none_or(|extension| extension != "md") || GENERATED.contains(&&*name) {
            continue;
        }
        let text = read(&path)?;
        let folder = path.parent().unwrap_or(root);
        let links = links(&text).filter_map(|link| Some((link.line, link.problem(folder, &name, &text)?)));
        let wrong = wrong(&name, &text).into_iter().chain(links);
        found.extend(wrong.map(|(line, what)| format!("{name}:{line}: {what}")));
        if let Some(guide) = name.strip_prefix(BOOK)
            && name != SUMMARY
            && !self::links(&summary).any(|link| link.path == guide)
        {
            found.push(format!("{SUMMARY}: `{guide}` is missing"));
        }
    }
    cargo::report(&found)
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Returns the marks that begin comments in a file, or `None` if the file is emitted code or of a kind that
/// is not checked.
fn comment_marks(name: &str) -> Option<&'static [&'static str]> {
    if EMITTED.iter().any(|folder| name.starts_with(folder)) {
        return None;
    }
    let path = Path::new(name);
    match path.extension().or(path.file_name())?.to_str()? {
        "rs" => Some(&["//"]),
        "c" | "x" => Some(&["//", "/*", CONTINUED]),
        "toml" | "sh" | "run" | "service" | "socket" | "Containerfile" => Some(&["#"]),
        _ if name.starts_with(GUEST_SCRIPTS) => Some(&["#"]),
        _ => None,
    }
}

/// The mark of the continuation lines of a comment in C. After code, `*` is an operator.
const CONTINUED: &str = "*";

/// Returns the number of each line that is too wide and contains a comment, with a message. The comment may
/// follow code.
fn wide_comments(text: &str, marks: &[&str]) -> impl Iterator<Item = (usize, String)> {
    let columns = |line: &str| line.chars().count();
    let wide = (1..).zip(text.lines()).filter(move |(_, line)| columns(line) > COMMENT);
    wide.filter(|(_, line)| marks.iter().any(|mark| has_comment(line, mark))).map(move |(number, line)| {
        (number, format!("a comment ends in column {} (limit {COMMENT})", columns(line)))
    })
}

/// Returns true if a line has a comment with this mark. A mark after an odd number of quotes is in a string.
fn has_comment(line: &str, mark: &str) -> bool {
    let ends_code = |at: usize| {
        line.get(..at).is_some_and(|code| code.ends_with(' ') && code.matches('"').count() % 2 == 0)
    };
    line.trim_start().starts_with(mark)
        || mark != CONTINUED && line.match_indices(&format!("{mark} ")).any(|(at, _)| ends_code(at))
}

fn wrong(name: &str, text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let limit = LENGTHS.iter().find(|(limited, _)| *limited == name).map_or(usize::MAX, |(_, limit)| *limit);
    let lines = text.lines().count();
    if lines > limit {
        found.push((lines, format!("{lines} lines (limit {limit}): move details to docs/")));
    }
    for (number, line) in prose(text).filter(|(_, line)| line.starts_with('|')) {
        let longest = cells(line).map(|cell| cell.chars().count()).max().unwrap_or_default();
        if longest > CELL {
            found.push((number, format!("a cell of {longest} characters (limit {CELL}): use a paragraph")));
        }
    }
    found
}

/// Returns the cells of a table row. An escaped `|` does not end a cell.
fn cells(row: &str) -> impl Iterator<Item = &str> {
    let mut is_escaped = false;
    let parts = row.split(move |c: char| {
        let ends_cell = c == '|' && !is_escaped;
        is_escaped = c == '\\';
        ends_cell
    });
    parts.map(str::trim)
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

/// A link to a file of the workspace or to a heading.
#[derive(Debug, PartialEq)]
struct Link<'t> {
    line: usize,
    /// The target's path, relative to the document's directory. Empty for a heading of the same document.
    path: &'t str,
    anchor: Option<&'t str>,
}

impl Link<'_> {
    /// Returns an error message if the link is invalid. `folder`, `name` and `text` are the directory, the
    /// path and the text of the document that contains the link.
    fn problem(&self, folder: &Path, name: &str, text: &str) -> Option<String> {
        let Link { path, anchor, .. } = self;
        let file = folder.join(path);
        if !file.exists() {
            return Some(format!("broken link to `{path}`"));
        }
        if name.starts_with(BOOK) && path.starts_with("../") {
            return Some(format!("the link to `{path}` leaves the book: write the path without a link"));
        }
        let anchor = anchor.filter(|_| path.is_empty() || path.ends_with(".md"))?;
        let other = if path.is_empty() { text.to_owned() } else { read(&file).ok()? };
        let is_found = prose(&other).any(|(_, line)| line.starts_with('#') && slug(line) == anchor);
        (!is_found).then(|| format!("broken link to `{path}#{anchor}`: no such heading"))
    }
}

/// Returns the anchor that GitHub and mdBook generate for a heading.
fn slug(heading: &str) -> String {
    let title = heading.trim_start_matches('#').trim();
    let kept = title.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
}

fn links(text: &str) -> impl Iterator<Item = Link<'_>> {
    let targets = |line| str::split(line, "](").skip(1).filter_map(|rest| rest.split(')').next());
    let all = prose(text).flat_map(move |(number, line)| targets(line).map(move |target| (number, target)));
    all.filter(|(_, target)| !target.contains("://")).map(|(line, target)| match target.split_once('#') {
        Some((path, anchor)) => Link { line, path, anchor: Some(anchor) },
        None => Link { line, path: target, anchor: None },
    })
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
    fn cells_are_counted_without_their_borders() {
        let row = |length| format!("|{}|b|\n", "a".repeat(length));
        assert_eq!(wrong("a.md", &row(160)), []);
        assert_eq!(wrong("a.md", &row(161)).len(), 1);
        let halves = format!("|{0}|{0}|\n", "a".repeat(150));
        assert_eq!(wrong("a.md", &halves), [], "two cells");
        let escaped = format!("| {0} \\| {0} |\n", "a".repeat(150));
        assert_eq!(wrong("a.md", &escaped).len(), 1, "one cell");
    }

    #[test]
    fn wide_comments_are_reported() {
        let line = |mark, width: usize| format!("a\n    {mark} {}\n", "b".repeat(width - 5 - str::len(mark)));
        let lines = |name, text: &str| {
            wide_comments(text, comment_marks(name).unwrap()).map(|(line, _)| line).collect::<Vec<usize>>()
        };
        let alone = [
            ("xtask/src/main.rs", "//"),
            ("a.rs", "///"),
            ("Cargo.toml", "#"),
            (".ci/run", "#"),
            ("nfs/dist/Containerfile", "#"),
            ("nfs/dist/nfs3d.socket", "#"),
            ("benches/codec/tirpc.c", "*"),
        ];
        let after_code = [("a.rs", "let a = 1; //"), ("a.sh", "run \"a\" #"), ("a.c", "int a; /*")];
        for (name, mark) in alone.into_iter().chain(after_code) {
            assert!(lines(name, &line(mark, 110)).is_empty(), "{name}: {mark}");
            assert_eq!(lines(name, &line(mark, 111)), [2], "{name}: {mark}");
        }
        assert!(lines("a.rs", &line("let", 120)).is_empty());
        assert!(lines("a.rs", &line("let a = \"b //", 120)).is_empty(), "part of a string");
        assert!(lines("a.c", &line("a = b *", 120)).is_empty(), "an operator");
        assert_eq!(comment_marks("generated/nfs3/src/lib.rs"), None);
        assert_eq!(comment_marks("README.md"), None);
    }

    #[test]
    fn links_to_files_are_found() {
        let text = "[a](a.md), [b](https://b.example) [c](#c)\n```text\n[d](d.md)\n```\n[e](../e.md#f)";
        let found: Vec<_> = links(text).map(|Link { line, path, anchor }| (line, path, anchor)).collect();
        assert_eq!(found, [(1, "a.md", None), (1, "", Some("c")), (5, "../e.md", Some("f"))]);
    }

    #[test]
    fn broken_links_are_reported() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("docs/SUMMARY.md", "[a](a.md)\n[b](b.md)\n");
        write("docs/b.md", "# B\n\n## One `two`, three\n\n```text\n# Four\n```\n");
        write("docs/a.md", "[b](b.md) [b](b.md#one-two-three) [a](#a)\n# A\n");
        write("README.md", "[a](docs/a.md)\n");
        assert_eq!(check(folder.path()), Ok(()));
        for (link, problem) in [
            ("c.md", "docs/a.md:2: broken link to `c.md`"),
            ("b.md#four", "docs/a.md:2: broken link to `b.md#four`: no such heading"),
            ("#b", "docs/a.md:2: broken link to `#b`: no such heading"),
            ("../README.md", "docs/a.md:2: the link to `../README.md` leaves the book"),
        ] {
            write("docs/a.md", &format!("# A\n[b]({link})\n"));
            let found = check(folder.path()).unwrap_err();
            assert!(found.contains(problem), "{found}");
        }
    }
}
