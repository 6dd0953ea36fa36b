//! Unmarked lines that appear to be XDR, between two marked lines of one body.

use super::map::Map;
use super::{Input, Recognizer, Region, mark};
use crate::diag::{Diagnostic, DocumentKind};
use crate::keywords::definition_keyword;

/// Unmarked lines that are read as XDR, and findings about unmarked XDR lines.
#[derive(Default)]
pub(super) struct Gaps {
    /// The indices of the unmarked lines that are read as XDR, in ascending order.
    pub(super) lines: Vec<usize>,
    pub(super) found: Vec<Diagnostic>,
}

/// Finds unmarked XDR lines inside bodies. In a published document, these lines are reported, but not read
/// as XDR.
pub(super) fn gaps(Input { id, document, lines, published, recognizer }: Input<'_>) -> Gaps {
    let mut gaps = Gaps::default();
    let mut body = Body::default();
    // Unmarked lines that can be part of the body. If a marked line of the body follows, these lines probably
    // lack their marks by mistake.
    let mut waiting: Vec<usize> = Vec::new();
    for (index, line) in lines.iter().enumerate().filter(|(_, line)| !line.page_break) {
        let text = line.text(document);
        if let Some(skip) = mark(text) {
            let xdr = text.get(skip..).unwrap_or("");
            if definition_keyword(xdr).is_some() {
                waiting.clear();
                body = Body { of_enum: xdr.trim_start().starts_with("enum"), ..Body::default() };
            }
            if let Some(first) = waiting.first().and_then(|first| lines.get(*first)) {
                let unmarked = DocumentKind::UnmarkedLine.at(first.span(id, document));
                gaps.found.push(unmarked.weakened_if(published));
                if !published {
                    gaps.lines.append(&mut waiting);
                }
                waiting.clear();
            }
            body.read(xdr);
        } else if body.is_open() && reads_as_part(text.trim(), body.of_enum, recognizer) {
            waiting.push(index);
        }
    }
    gaps
}

/// Tracks the open bodies and comments in the marked lines of a definition.
#[derive(Default)]
struct Body {
    open: usize,
    /// True if a comment continues on the next line.
    comment: bool,
    of_enum: bool,
}

impl Body {
    fn is_open(&self) -> bool {
        self.open > 0 && !self.comment
    }

    fn read(&mut self, line: &str) {
        let mut bytes = line.bytes().peekable();
        while let Some(byte) = bytes.next() {
            match (byte, self.comment) {
                (b'*', true) if bytes.next_if_eq(&b'/').is_some() => self.comment = false,
                (_, true) => {}
                (b'/', false) if bytes.next_if_eq(&b'*').is_some() => self.comment = true,
                (b'{', false) => self.open += 1,
                (b'}', false) => self.open = self.open.saturating_sub(1),
                (_, false) => {}
            }
        }
    }
}

/// Returns true if a line can be a part of a body: a declaration, an enum member, an arm or its label, or
/// a procedure.
fn reads_as_part(line: &str, of_enum: bool, recognizer: Recognizer<'_>) -> bool {
    let code = line.split("/*").next().unwrap_or("").trim_end();
    let one = |text: String| {
        matches!(recognizer(&text, &Map::default(), false), Region::Definition { found, end, .. }
            if found.is_empty() && end == text.len())
    };
    if of_enum {
        let member = code.strip_suffix(',').unwrap_or(code);
        return (member.len() < code.len() || code.contains('=')) && one(format!("enum x {{ {member} }};"));
    }
    if code.ends_with(':') {
        let is_label = code.starts_with("case") || code.starts_with("default");
        return is_label && one(format!("union x switch (int y) {{ {code} void; }};"));
    }
    code.ends_with(';')
        && (one(format!("struct x {{ {code} }};"))
            || one(format!("union x switch (int y) {{ {code} }};"))
            || code.contains('=') && one(format!("program x {{ version y {{ {code} }} = 1; }} = 1;")))
}
