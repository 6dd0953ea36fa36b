//! What there is to say about each code: `DIAGNOSTICS.md`, which has a section for each.

/// The whole of it.
const PAGES: &str = include_str!("../../DIAGNOSTICS.md");

/// What a section's heading begins with.
const HEADING: &str = "\n## X";

/// The page about a code: what it means, an example, and how to mend it, as Markdown. None if no finding has the code.
#[must_use]
pub fn page(code: &str) -> Option<&'static str> {
    sections().find(|section| code_of(section) == Some(code))
}

/// All codes that have a page, in order.
pub fn codes() -> impl Iterator<Item = &'static str> {
    sections().filter_map(code_of)
}

fn sections() -> impl Iterator<Item = &'static str> {
    let mut rest = PAGES;
    std::iter::from_fn(move || {
        let start = rest.find(HEADING)? + 1;
        let section = rest.get(start..)?;
        rest = section;
        // Chapters are headings of the first level; a line of code may begin with `#`, but not with `# `.
        let ends = ["\n## ", "\n# "].iter().filter_map(|heading| section.find(heading));
        let end = ends.min().unwrap_or(section.len());
        section.get(..end).map(str::trim_end)
    })
}

/// `X212` of `## X212: two arms have one label`
fn code_of(section: &'static str) -> Option<&'static str> {
    let heading = section.lines().next()?.strip_prefix("## ")?;
    heading.split_once(':').map(|(code, _)| code)
}
