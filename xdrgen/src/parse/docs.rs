//! Converts comments to text without delimiters.

/// Returns the text of a comment, line by line, or `None` if the comment has no text.
pub(crate) fn clean(comment: &str) -> Option<String> {
    let lines: Vec<&str> = comment.lines().map(clean_line).collect();
    let first = lines.iter().position(|line| !line.is_empty())?;
    let last = lines.iter().rposition(|line| !line.is_empty())?;
    let lines = lines.get(first..=last).unwrap_or_default();
    let blanks = |line: &&str| line.len() - line.trim_start().len();
    let indent = lines.iter().filter(|line| !line.is_empty()).map(blanks).min().unwrap_or(0);
    let lines: Vec<&str> = lines.iter().map(|line| line.get(indent..).unwrap_or("")).collect();
    Some(lines.join("\n"))
}

/// Removes `%`, `//`, `/*` and `*` from the start of a line, and `*/` from its end. Returns an empty line for
/// a horizontal rule.
fn clean_line(line: &str) -> &str {
    let line = line.trim_end();
    let line = line.strip_prefix('%').unwrap_or(line);
    let inner = if line.trim() == "/**/" { None } else { line.strip_suffix("*/") };
    let line = inner.map_or(line, |line| line.trim_end_matches('*')).trim_end();
    let bare = line.trim_start();
    let line = match bare.strip_prefix("//").or_else(|| bare.strip_prefix("/*")) {
        Some(rest) => rest.trim_start_matches(['*', '/']),
        None => bare.strip_prefix('*').map_or(line, |rest| rest.trim_start_matches('*')),
    };
    if line.bytes().all(|b| b"*/-=_#".contains(&b) || b == b' ') { "" } else { line }
}

#[cfg(test)]
mod tests {
    use super::clean;

    #[test]
    fn marks_are_removed_and_indentation_is_kept() {
        assert_eq!(clean("/* one */").as_deref(), Some("one"));
        assert_eq!(clean("/*\n * A list:\n *   - of one\n */").as_deref(), Some("A list:\n  - of one"));
        assert_eq!(clean("/* First\n   second */").as_deref(), Some("First\n  second"));
        assert_eq!(clean("/*******\n ** Drawn\n *******/").as_deref(), Some("Drawn"));
        assert_eq!(clean("%/*\n% * Passed through\n% */").as_deref(), Some("Passed through"));
        assert_eq!(clean("/* ---- */"), None);
        assert_eq!(clean("/**/"), None);
    }
}
