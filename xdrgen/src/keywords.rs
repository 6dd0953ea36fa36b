//! The words and keywords of XDR, lines that begin definitions, and the comments of preprocessor lines.

/// The keywords that begin a definition.
pub(crate) const DEFINITIONS: &[&str] = &["const", "typedef", "enum", "struct", "union", "program"];

/// The words that cannot be names (RFC 4506 section 6.4, note 1), and rpcgen's types. Excludes `program`
/// and `version`, which RFC 5531 section 12.3 also reserves: published documents use them as names of
/// fields, where they are unambiguous.
const KEYWORDS: [&str; 21] = [
    "void",
    "opaque",
    "string",
    "int",
    "unsigned",
    "hyper",
    "float",
    "double",
    "quadruple",
    "bool",
    "enum",
    "struct",
    "union",
    "char",
    "short",
    "long",
    "case",
    "const",
    "default",
    "switch",
    "typedef",
];

/// The keywords that begin a declaration.
pub(crate) const BEGIN_DECLARATION: &[&str] = KEYWORDS.split_at(16).0;

pub(crate) fn is_keyword(word: &str) -> bool {
    KEYWORDS.contains(&word)
}

/// Splits the identifier or keyword off the start of a text. Returns the remaining text, then the word. As in
/// rpcgen files, the word may begin with an underscore.
pub(crate) fn word(text: &str) -> Option<(&str, &str)> {
    // Most tokens are words, so this function operates on bytes for speed.
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let length = text.as_bytes().iter().take_while(|byte| is_part(byte)).count();
    if length == 0 || text.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    text.split_at_checked(length).map(|(word, rest)| (rest, word))
}

/// Returns true if a text is an identifier or a keyword.
pub(crate) fn is_word(text: &str) -> bool {
    word(text).is_some_and(|(rest, _)| rest.is_empty())
}

/// Returns true for the characters of words: letters, digits and `_`.
pub(crate) fn is_word_part(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Returns the words and numbers of a text.
pub(crate) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c| !is_word_part(c)).filter(|word| !word.is_empty())
}

/// Skips leading white space, and returns the word or number that follows, or an empty string.
pub(crate) fn first_word(text: &str) -> &str {
    text.trim_start().split(|c| !is_word_part(c)).next().unwrap_or("")
}

/// Returns the name of the definition that begins on a line, if `= VALUE;`, `{` or `switch ... {` follows the
/// name. Returns `None` for a typedef.
pub(crate) fn definition_keyword(line: &str) -> Option<&str> {
    let line = line.trim_start();
    // The test of the first byte rejects most lines quickly.
    if !line.starts_with(['c', 'e', 's', 'p', 'u']) {
        return None;
    }
    let (rest, keyword) = word(line)?;
    let (after, name) = word(rest.trim_start()).filter(|_| rest.starts_with(char::is_whitespace))?;
    let after = after.trim();
    let begins = match keyword {
        "const" => after.starts_with('=') && after.ends_with(';'),
        "enum" | "struct" | "program" => after == "{",
        "union" => after.starts_with("switch") && after.ends_with('{'),
        _ => false,
    };
    begins.then_some(name)
}

/// Returns true if a line begins approximately like a definition: with a keyword and a name, followed by text
/// that may continue the definition.
pub(crate) fn begins_definition(line: &str) -> bool {
    let Some((rest, keyword)) = word(line.trim_start()) else { return false };
    let body = rest.trim_start();
    // RFC 1094 has `struct *name {`.
    let body = body.strip_prefix('*').unwrap_or(body);
    let Some((after, name)) = word(body) else { return false };
    if !rest.starts_with(char::is_whitespace) || name == "switch" {
        return false;
    }
    let after = after.trim_start();
    match keyword {
        "const" => after.starts_with('='),
        "typedef" => true,
        "enum" | "struct" | "program" => after.starts_with('{') || after.is_empty(),
        "union" => after.starts_with("switch") || after.starts_with('(') || after.is_empty(),
        _ => false,
    }
}

pub(crate) fn misspelt_keyword(word: &str) -> Option<&'static str> {
    let mut keywords = DEFINITIONS.iter().copied();
    if word.len() < 3 || keywords.clone().any(|keyword| keyword == word) {
        return None;
    }
    keywords.find(|keyword| differs_by_one_letter(word.as_bytes(), keyword.as_bytes()))
}

/// Returns true if a word equals a keyword or differs from it by one letter: inserted, missing, replaced,
/// or swapped with the next.
pub(crate) fn differs_by_one_letter(word: &[u8], keyword: &[u8]) -> bool {
    let same = word.iter().zip(keyword).take_while(|(a, b)| a == b).count();
    let (word, keyword) = (word.get(same..).unwrap_or_default(), keyword.get(same..).unwrap_or_default());
    match (word, keyword) {
        ([], []) => true,
        ([a, b, word @ ..], [c, d, keyword @ ..]) if a == d && b == c && word == keyword => true,
        _ => {
            let skip = |bytes: &'_ [u8]| bytes.get(1..).unwrap_or_default().to_vec();
            skip(word) == skip(keyword) || skip(word) == keyword || word == skip(keyword)
        }
    }
}

/// Returns the part of a line before its first comment. A `//` or `/*` in a string also counts as a comment.
pub(crate) fn before_comment(line: &str) -> &str {
    let end = [line.find("/*"), line.find("//")].into_iter().flatten().min();
    end.and_then(|end| line.get(..end)).unwrap_or(line)
}

/// Returns the position of a `/*` whose comment does not end on the line. In a string or a `//` comment, `/*`
/// does not begin a comment. A `"` without a second `"` does not begin a string.
pub(crate) fn open_comment(line: &str) -> Option<usize> {
    let (mut at, mut may_quote) = (0, true);
    while let Some(rest) = line.get(at..).filter(|rest| !rest.is_empty()) {
        at += match rest.as_bytes() {
            [b'/', b'/', ..] => return None,
            [b'/', b'*', ..] => match rest.get(2..)?.find("*/") {
                Some(length) => length + 4,
                None => return Some(at),
            },
            [b'\'', b'"', b'\'', ..] => 3,
            [b'"', ..] if may_quote => {
                let length = string_length(rest);
                // After a `"` that begins no string, no later `"` (such as `\"`) begins a string, so that the
                // run time stays linear.
                may_quote = length.is_some();
                length.unwrap_or(1)
            }
            _ => rest.chars().next().map_or(1, char::len_utf8),
        };
    }
    None
}

/// Returns the length of the string at the start of a text, if the string ends on its line.
fn string_length(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => return Some(at + 1),
            b'\n' => return None,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::{differs_by_one_letter, open_comment};

    #[test]
    fn an_open_comment_begins_outside_strings_and_line_comments() {
        for (line, open) in [
            ("a /* b", Some(2)),
            ("/* a */ /* b", Some(8)),
            ("/*/", Some(0)),
            ("a /* b */", None),
            ("a // /* b", None),
            ("\"/*\"", None),
            ("\"\\\"/*\" /* b", Some(7)),
            ("'\"' /* b", Some(4)),
            ("5\" /* b", Some(3)),
            ("\"//\" /* b", Some(5)),
        ] {
            assert_eq!(open_comment(line), open, "{line}");
        }
    }

    #[test]
    fn one_letter_may_be_inserted_missing_replaced_or_swapped() {
        let is_misspelt =
            |word: &str, keyword: &str| differs_by_one_letter(word.as_bytes(), keyword.as_bytes());
        assert!(is_misspelt("strcut", "struct"));
        assert!(is_misspelt("struc", "struct"));
        assert!(is_misspelt("structt", "struct"));
        assert!(is_misspelt("strict", "struct"));
        assert!(is_misspelt("struct", "struct"));
        assert!(is_misspelt("typdef", "typedef"));
        assert!(is_misspelt("tyepdef", "typedef"));
        assert!(!is_misspelt("string", "struct"));
        assert!(!is_misspelt("st", "struct"));
    }
}
