//! The page of each diagnostic code: its section of `DIAGNOSTICS.md`.

use super::CODES;

const PAGES: &str = include_str!("../../DIAGNOSTICS.md");

/// Returns the page of a code as Markdown: meaning, example and correction. Returns `None` for an
/// unknown code.
#[must_use]
pub fn page(code: &str) -> Option<String> {
    let code = codes().find(|known| *known == code)?;
    let (_, text) = PAGES.split_once(&format!("\n## {code}: "))?;
    Some(format!("## {code}: {}", before_heading(text)))
}

/// Returns all diagnostic codes in ascending order, each once.
pub fn codes() -> impl Iterator<Item = &'static str> {
    let mut codes = CODES.concat();
    codes.sort_unstable();
    codes.dedup();
    codes.into_iter()
}

/// Returns the pages of all codes by chapter: `DIAGNOSTICS.md` without its introduction.
#[must_use]
pub fn chapters() -> String {
    let mut all = String::new();
    for text in PAGES.split("\n# X").skip(1).map(before_heading) {
        let Some((group, _)) = text.split_once(':') else { continue };
        all.push_str(&format!("# X{text}\n\n"));
        let group = format!("X{group}");
        for page in codes().filter(|code| code.starts_with(&group)).filter_map(page) {
            all.push_str(&format!("{page}\n\n"));
        }
    }
    all.trim_end().to_owned() + "\n"
}

/// Returns the text before the next heading of a page or a chapter.
fn before_heading(text: &str) -> &str {
    let end = ["\n## X", "\n# X"].into_iter().filter_map(|heading| text.find(heading)).min();
    text.get(..end.unwrap_or(text.len())).unwrap_or("").trim_end()
}

#[cfg(test)]
mod tests {
    use super::super::COMMENTS;
    use super::{codes, page};

    #[test]
    fn the_comment_on_the_first_kind_of_a_code_is_the_title_of_its_page() {
        let comments = COMMENTS.concat();
        for code in codes() {
            let page = page(code).expect("a page");
            let comment = comments.iter().find(|(of, _)| *of == code).map(|(_, comment)| *comment);
            assert_eq!(page.lines().next(), comment.map(|title| format!("## {code}:{title}")).as_deref());
        }
    }
}
