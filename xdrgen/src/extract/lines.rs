//! The lines of a document, its page breaks and its sections.

use std::ops::Range;

use crate::source::{SourceId, Span, narrow};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// The byte range of the line in the document, without the line ending.
    pub(crate) range: Range<usize>,
    /// True for a line of a page break: footer, form feed, header and the surrounding blank lines.
    pub(crate) page_break: bool,
}

impl Line {
    pub(crate) fn text<'a>(&self, document: &'a str) -> &'a str {
        document.get(self.range.clone()).unwrap_or("")
    }

    /// Returns the position of the line's text without the white space around it.
    pub(crate) fn span(&self, id: SourceId, document: &str) -> Span {
        let text = self.text(document);
        let start = self.range.start + text.len() - text.trim_start().len();
        Span::of(id, start..start + text.trim().len())
    }
}

/// The start and the title of a section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// The offset of the heading in the document.
    pub start: u32,
    /// The number and title: `4.3.1. Read List`.
    pub title: String,
}

/// Estimated length of a line in bytes. In most RFCs, the lines are longer on average, so the vector does
/// not grow.
const BYTES_OF_A_LINE: usize = 32;

pub(crate) fn lines(document: &str) -> Vec<Line> {
    let mut lines = Vec::with_capacity(document.len() / BYTES_OF_A_LINE);
    let mut start = 0;
    for piece in document.split_inclusive('\n') {
        let length = piece.trim_end_matches(['\n', '\r']).len();
        // A byte-order mark is not part of the first line.
        let mark = if start == 0 && piece.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
        lines.push(Line { range: start + mark..start + length.max(mark), page_break: false });
        start += piece.len();
    }
    mark_page_breaks(document, &mut lines);
    lines
}

fn mark_page_breaks(document: &str, lines: &mut [Line]) {
    // The first blank line after the last line with text. If a footer follows, the blank lines belong to
    // the page break.
    let mut blank_from = 0;
    let mut after_break = false;
    for index in 0..lines.len() {
        let text = lines.get(index).map_or("", |line| line.text(document));
        let feed = text.as_bytes().contains(&b'\x0c');
        let blank = is_blank(text);
        let page_break = if is_footer(text) || feed && (blank || is_header(text.trim_start_matches('\u{c}')))
        {
            for line in lines.get_mut(blank_from..index).unwrap_or_default() {
                line.page_break = true;
            }
            after_break = true;
            true
        } else if blank {
            after_break
        } else {
            after_break && is_header(text)
        };
        if let Some(line) = lines.get_mut(index) {
            line.page_break = page_break;
        }
        if !blank && !page_break {
            after_break = false;
        }
        if !blank || page_break {
            blank_from = index + 1;
        }
    }
}

pub(crate) fn is_blank(line: &str) -> bool {
    match line.bytes().find(|byte| !byte.is_ascii_whitespace()) {
        None => true,
        // `trim` also removes vertical tabs and non-ASCII white space.
        Some(byte) => !byte.is_ascii_graphic() && line.trim().is_empty(),
    }
}

/// Returns true for a footer such as `Lever, et al.   Standards Track   [Page 4]`.
fn is_footer(line: &str) -> bool {
    if line.starts_with([' ', '/']) {
        return false;
    }
    let line = line.trim_end();
    let Some(inside) = line.strip_suffix(']').and_then(|line| line.rsplit_once("[Page ")) else {
        return false;
    };
    !inside.1.is_empty() && inside.1.trim().bytes().all(|b| b.is_ascii_alphanumeric())
}

/// Returns true for a header such as `RFC 8166   RPC-over-RDMA Version 1   June 2017`, or a draft's
/// header.
fn is_header(line: &str) -> bool {
    let numbered =
        line.strip_prefix("RFC ").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    let dated = || {
        let last = line.split_ascii_whitespace().next_back().unwrap_or("");
        last.len() == 4 && last.bytes().all(|b| b.is_ascii_digit())
    };
    (numbered || line.starts_with("Internet-Draft") || line.starts_with("INTERNET-DRAFT")) && dated()
}

pub(crate) fn looks_like_rfc(document: &str, lines: &[Line]) -> bool {
    lines.iter().any(|line| line.page_break)
        || document.contains("Request for Comments:")
        || document.contains("Internet-Draft")
}

/// Returns true if a line of the document begins with `Request for Comments:` and a number.
pub(crate) fn is_numbered(document: &str, lines: &[Line]) -> bool {
    lines.iter().map(|line| line.text(document)).any(|text| {
        let number = text.strip_prefix("Request for Comments:").map(str::trim_start);
        number.is_some_and(|number| number.starts_with(|c: char| c.is_ascii_digit()))
    })
}

pub(crate) fn is_paged(document: &str, lines: &[Line]) -> bool {
    lines.iter().any(|line| is_footer(line.text(document)))
}

pub(crate) fn sections(document: &str, lines: &[Line]) -> Vec<Section> {
    let mut sections = Vec::new();
    for (index, line) in lines.iter().enumerate().filter(|(_, line)| !line.page_break) {
        let Some(title) = heading(line.text(document)) else { continue };
        let mut title = title.split_ascii_whitespace().collect::<Vec<_>>().join(" ");
        // A long title continues on the next line, indented.
        let next = lines.get(index + 1).map_or("", |line| line.text(document));
        if next.starts_with("    ") && !next.trim_start().starts_with("///") {
            title = format!("{title} {}", next.trim());
        }
        sections.push(Section { start: narrow(line.range.start), title });
    }
    sections
}

/// Returns the heading in a line, if any: a section number, possibly after `#` or `Appendix`, and a title.
pub(crate) fn heading(line: &str) -> Option<&str> {
    // The test of the first byte rejects most lines quickly.
    if !line.starts_with(|c: char| c == '#' || c.is_ascii_digit() || c.is_ascii_uppercase()) {
        return None;
    }
    let line =
        line.strip_prefix('#').map_or(line, |rest| rest.trim_start_matches('#').trim_start()).trim_end();
    let (number, title) = line.split_once(char::is_whitespace)?;
    let title = title.trim_start();
    let number = if number == "Appendix" { title.split(char::is_whitespace).next()? } else { number };
    let is_number = |part: &str| part.len() <= 3 && part.bytes().all(|b| b.is_ascii_digit());
    let parts = number.trim_end_matches(['.', ':']);
    let mut parts = parts.split('.');
    let first = parts.next()?;
    let lettered = first.len() == 1 && first.bytes().all(|b| b.is_ascii_uppercase()) && number.len() > 1;
    let numbered = !first.is_empty() && (is_number(first) || lettered) && parts.all(is_number);
    let contents = title.contains("...") || title.contains(". . ");
    (numbered && title.starts_with(|c: char| c.is_alphanumeric() || c == '"') && !contents).then_some(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_break_includes_its_blank_lines() {
        let text = "a\n\n\nLever, et al.   Standards Track   [Page 20]\n\u{c}\nRFC 8166    RPC    June 2017\n\n\nb\n\nc\n";
        let kept: Vec<&str> =
            lines(text).iter().filter(|line| !line.page_break).map(|line| line.text(text)).collect();
        assert_eq!(kept, ["a", "b", "", "c"]);
    }

    #[test]
    fn a_header_counts_only_after_a_page_break() {
        let text = "RFC 8166 came in June 2017\n";
        assert!(lines(text).iter().all(|line| !line.page_break));
    }

    #[test]
    fn a_byte_order_mark_is_not_text() {
        let text = "\u{feff}struct\r\n";
        assert_eq!(lines(text)[0].text(text), "struct");
    }

    #[test]
    fn headings_are_numbered_at_the_start_of_a_line() {
        assert_eq!(heading("4.3.1.  Read List"), Some("4.3.1.  Read List"));
        assert_eq!(heading("3.3.21 Procedure 21: COMMIT"), Some("3.3.21 Procedure 21: COMMIT"));
        assert_eq!(heading("A.4.2.  fhstatus"), Some("A.4.2.  fhstatus"));
        assert_eq!(heading("Appendix A: System Authentication"), Some("Appendix A: System Authentication"));
        assert_eq!(heading("## 2.5 Basic Data Types"), Some("2.5 Basic Data Types"));
        assert_eq!(heading("   4.3.1.  Indented"), None);
        assert_eq!(heading("2.1. Overview ........ 6"), None);
        assert_eq!(heading("A procedure"), None);
        assert_eq!(heading("1234 is a number"), None);
    }
}
