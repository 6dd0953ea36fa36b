//! The page of each code, taken from the comments on the kinds. `DIAGNOSTICS.md` contains all pages.

use super::CHAPTERS;

/// The pages of the kinds of one subject.
pub(super) struct Chapter {
    /// The heading and introduction; empty if the kinds continue an earlier chapter.
    pub(super) text: &'static str,
    /// The codes of the kinds with their comments. The first comment of a code is its page.
    pub(super) pages: &'static [(&'static str, &'static str)],
}

/// Returns the page of a code as Markdown: meaning, example and correction. Returns `None` for an unused
/// code.
#[must_use]
pub fn page(code: &str) -> Option<String> {
    let (code, text) = CHAPTERS.iter().flat_map(|chapter| chapter.pages).find(|(of, _)| *of == code)?;
    Some(format!("## {code}: {}", plain(text)))
}

/// Returns all codes in order.
pub fn codes() -> impl Iterator<Item = &'static str> {
    let mut codes: Vec<&str> = CHAPTERS.iter().flat_map(|one| one.pages).map(|(code, _)| *code).collect();
    codes.sort_unstable();
    codes.dedup();
    codes.into_iter()
}

/// Returns the pages of all codes by chapter: `DIAGNOSTICS.md` without its introduction.
#[must_use]
pub fn chapters() -> String {
    let mut all = String::new();
    for text in CHAPTERS.iter().map(|chapter| plain(chapter.text)) {
        let Some((group, _)) = text.split_once(':') else { continue };
        all.push_str(&format!("# {text}\n\n"));
        for page in codes().filter(|code| code.starts_with(group)).filter_map(page) {
            all.push_str(&format!("{page}\n\n"));
        }
    }
    all.trim_end().to_owned() + "\n"
}

/// Returns the text of a doc comment without the space at the start of each line.
fn plain(comment: &str) -> String {
    let lines = comment.lines().map(|line| line.strip_prefix(' ').unwrap_or(line));
    lines.collect::<Vec<_>>().join("\n")
}
