//! Additions: lines that a published document adds to an enum or a union of another document.
//!
//! RFC 8276 uses comments, since XDR has no syntax for additions: one comment names the type, and the next
//! comment contains the lines. The lines are parsed as a definition of that type with only the new parts.

use std::ops::Range;

use crate::diag::{Diagnostic, SyntaxKind};
use crate::extract::{Extract, Map};
use crate::keywords::{begins_definition, is_word_part};
use crate::source::narrow;

/// Maximum number of lines of the comment that contains an addition.
const MAX_LINES: usize = 1000;

const PHRASE: &str = "to be added to";

/// An addition, as byte ranges of the extracted text.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Block {
    name: Range<usize>,
    /// The entire second comment.
    pub(crate) comment: Range<usize>,
    /// The lines within the comment.
    inside: Range<usize>,
}

pub(crate) fn find(text: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut from = 0;
    while let Some(at) = text.get(from..).and_then(|rest| rest.find(PHRASE)) {
        let at = from + at + PHRASE.len();
        let block = block(text, at);
        from = block.as_ref().map_or(at, |block| block.comment.end);
        blocks.extend(block);
    }
    blocks
}

/// Returns the block whose first comment contains [`PHRASE`] directly before `at`, if any.
fn block(text: &str, at: usize) -> Option<Block> {
    let rest = text.get(at..)?;
    let end = rest
        .find("*/")
        .filter(|end| rest.get(..*end).is_some_and(|text_between| text_between.len() < 200))?;
    let name = name(rest.get(..end)?)?;
    let comment_end = at + end + 2;
    let after = text.get(comment_end..)?;
    let open = comment_end + after.len() - after.trim_start().len();
    let mut lines = text.get(open..)?.split_inclusive('\n').take(MAX_LINES);
    let first = lines.next()?;
    if !first.starts_with("/*") || first.contains("*/") {
        return None;
    }
    let mut close = open + first.len();
    for line in lines {
        if line.trim() == "*/" {
            let end = close + line.trim_end().len();
            return Some(Block {
                name: at + name.start..at + name.end,
                comment: open..end,
                inside: open + 2..close,
            });
        }
        if begins_definition(line) {
            return None;
        }
        close += line.len();
    }
    None
}

/// Returns the range of `NAME` in ` enum NAME`, `NAME` or ` the union NAME:`; `None` for other text.
fn name(text_between: &str) -> Option<Range<usize>> {
    let mut found = None;
    let mut at = 0;
    for word in text_between.split(|c| !is_word_part(c)) {
        match word {
            "" => {}
            "enum" | "union" | "type" | "the" if found.is_none() => {}
            _ if found.is_none() => found = Some(at..at + word.len()),
            _ => return None,
        }
        at += word.len() + text_between.get(at + word.len()..)?.chars().next().map_or(0, char::len_utf8);
    }
    found
}

/// Replaces the second comment of each block with spaces, except for line endings, so that positions stay
/// valid.
pub(crate) fn blanked(text: &str, blocks: &[Block]) -> String {
    let mut out = String::with_capacity(text.len());
    let mut from = 0;
    for block in blocks {
        out.push_str(text.get(from..block.comment.start).unwrap_or(""));
        let comment = text.get(block.comment.clone()).unwrap_or("");
        out.extend(comment.bytes().map(|byte| if byte == b'\n' { '\n' } else { ' ' }));
        from = block.comment.end;
    }
    out.push_str(text.get(from..).unwrap_or(""));
    out
}

impl Block {
    /// Returns the lines as a definition of the type that they extend.
    pub(crate) fn definition(&self, extract: &Extract) -> Extract {
        let text = extract.text.as_str();
        let body = text.get(self.inside.clone()).unwrap_or("");
        let is_union = body.split_whitespace().next().is_some_and(|word| word == "case");
        let mut copy = Copy { from: extract, text: String::new(), map: Map::new(extract.map.source()) };
        copy.insert(if is_union { "union " } else { "enum " }, self.name.start);
        copy.lines(self.name.clone());
        copy.insert(if is_union { " switch (int added) {\n" } else { " {\n" }, self.name.end);
        copy.lines(self.inside.clone());
        copy.insert("\n};\n", self.inside.end);
        Extract::new(extract.form, copy.text, copy.map)
    }

    /// Warns about a comment inside the lines: for other compilers, the end of the inner comment also ends
    /// the outer comment.
    pub(crate) fn nested(&self, extract: &Extract) -> Option<Diagnostic> {
        let at = self.inside.start + extract.text.get(self.inside.clone())?.find("/*")?;
        let place = |at: usize| extract.map.span(narrow(at)..narrow(at + 2));
        Some(SyntaxKind::CommentInAddition { outer: place(self.comment.start) }.at(place(at)))
    }
}

struct Copy<'a> {
    from: &'a Extract,
    text: String,
    map: Map,
}

impl Copy<'_> {
    fn insert(&mut self, text: &str, at: usize) {
        self.map.push(self.text.len(), self.from.map.document(narrow(at)) as usize, 0);
        self.text.push_str(text);
    }

    fn lines(&mut self, range: Range<usize>) {
        let mut at = range.start;
        for line in self.from.text.get(range).unwrap_or("").split_inclusive('\n') {
            self.map.push(self.text.len(), self.from.map.document(narrow(at)) as usize, line.len());
            self.text.push_str(line);
            at += line.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_addition_is_two_comments() {
        let text = "/* Lines to be added to enum e */\n/*\n A = 1, /* a */\n B = 2\n*/\nconst C = 1;\n";
        let blocks = find(text);
        assert_eq!(blocks.len(), 1);
        assert_eq!(&text[blocks[0].name.clone()], "e");
        assert_eq!(&text[blocks[0].inside.clone()], "\n A = 1, /* a */\n B = 2\n");
        let rest = blanked(text, &blocks);
        assert_eq!((rest.len(), rest.trim_end().ends_with("const C = 1;")), (text.len(), true));
        assert!(!rest.contains("B = 2"));
    }

    #[test]
    fn other_comments_are_not_additions() {
        for text in [
            "/* to be added to e */\nconst A = 1;\n",
            "/* to be added to e */\n/* A = 1, */\n",
            "/* to be added to e */\n/*\n A = 1,\nstruct a {\n*/\n",
            "/* to be added to e in time */\n/*\n A = 1\n*/\n",
            "/* to be added to */\n/*\n A = 1\n*/\n",
            "to be added to e",
        ] {
            assert_eq!(find(text), [], "{text}");
        }
    }
}
