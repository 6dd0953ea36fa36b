//! Rust source text, written line by line.
//!
//! A line is first written without breaks, while its possible breaks are recorded: at brackets, commas,
//! attributes, and the dots of a chain of calls. A line that is too long is broken at some of these
//! positions, in rustfmt's style.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{Display, Write};

use crate::source::SourceId;

/// Maximum length of a line in bytes, without the margin. Longer lines are broken where possible.
const WIDTH: usize = 89;
const INDENT: &str = "    ";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Break {
    /// After an opening bracket.
    Open,
    /// Before a comma and a space.
    Comma,
    /// Before a closing bracket.
    Close,
    /// Before a closing bracket. If each part has its own line, a comma precedes the bracket.
    CloseList,
    /// Before the space after an attribute.
    Attribute,
    /// Before a dot in a chain of calls.
    Dot,
}

#[derive(Debug, Default)]
pub(super) struct Used {
    /// Names from the runtime and from `alloc` that the code uses without a path.
    pub(super) imported: BTreeSet<&'static str>,
    /// The document or namespace of the current module.
    pub(super) own: Option<SourceId>,
    /// The names from other modules that the code uses without a path, by module.
    pub(super) foreign: BTreeMap<String, BTreeSet<String>>,
}

/// Emitted Rust code. The last line may be incomplete.
#[derive(Debug, Default)]
pub(super) struct Code {
    out: String,
    indent: usize,
    /// Levels of indentation that do not count towards the line length: those of the module of a document or
    /// namespace.
    margin: usize,
    /// The start of the current line in `out`, after the margin.
    line: usize,
    breaks: Vec<(usize, Break)>,
    pub(super) used: Used,
}

impl Code {
    /// Returns code that continues a text of complete lines.
    pub(super) fn after(text: String) -> Self {
        Code { out: text, ..Code::default() }
    }

    /// Returns the text, with bidirectional control characters escaped: rustc rejects these characters, and
    /// readers should see them.
    pub(super) fn finish(self) -> String {
        let is_hidden = |sign: char| matches!(sign, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        // Few texts contain 0xe2, the first byte of these characters, so the slower search is rarely needed.
        if !self.out.as_bytes().contains(&0xe2) || !self.out.contains(is_hidden) {
            return self.out;
        }
        let mut seen = String::with_capacity(self.out.len());
        for sign in self.out.chars() {
            if is_hidden(sign) { seen.extend(sign.escape_unicode()) } else { seen.push(sign) }
        }
        seen
    }

    /// Returns the used names, and an empty text for their imports.
    pub(super) fn imports(&mut self) -> (Used, Code) {
        (std::mem::take(&mut self.used), Code { margin: self.margin, ..Code::default() })
    }

    pub(super) fn insert(&mut self, at: usize, lines: Code) {
        if !lines.out.is_empty() {
            self.out.insert_str(at, &(lines.out + "\n"));
        }
    }

    pub(super) fn len(&self) -> usize {
        self.out.len()
    }

    /// Returns the whole text. Changes must stay within the current line.
    pub(super) fn text(&mut self) -> &mut String {
        &mut self.out
    }

    pub(super) fn push(&mut self, text: &str) -> &mut Self {
        self.out.push_str(text);
        self
    }

    pub(super) fn add<const N: usize>(&mut self, parts: [&str; N]) -> &mut Self {
        parts.into_iter().for_each(|part| self.out.push_str(part));
        self
    }

    /// Writes a number, or other text that cannot be broken. Writing to a string never fails.
    pub(super) fn show(&mut self, value: impl Display) -> &mut Self {
        let _ = write!(self.out, "{value}");
        self
    }

    pub(super) fn begin(&mut self) -> &mut Self {
        (0..self.margin).for_each(|_| self.out.push_str(INDENT));
        self.line = self.out.len();
        (0..self.indent).for_each(|_| self.out.push_str(INDENT));
        self.breaks.clear();
        self
    }

    pub(super) fn end(&mut self) {
        self.break_line();
        self.out.push('\n');
    }

    /// Ends the line without breaking it, and removes trailing spaces.
    pub(super) fn end_text(&mut self) {
        self.out.truncate(self.out.trim_end_matches(' ').len());
        self.out.push('\n');
    }

    /// Writes a line without possible breaks.
    pub(super) fn line<const N: usize>(&mut self, parts: [&str; N]) {
        self.begin().add(parts).push("\n");
    }

    pub(super) fn lines(&mut self, text: &str) {
        for line in text.lines() {
            if line.is_empty() { self.out.push('\n') } else { self.line([line]) }
        }
    }

    /// Separates the next item from the previous item with an empty line.
    pub(super) fn apart(&mut self) {
        if !(self.out.is_empty() || self.out.ends_with("{\n") || self.out.ends_with("\n\n")) {
            self.out.push('\n');
        }
    }

    /// Writes the body after the opening brace that ends the previous line, and then the closing brace.
    pub(super) fn block(&mut self, body: impl FnOnce(&mut Code)) {
        let begin = self.out.len();
        self.deeper(1, body);
        if self.out.len() > begin {
            self.line(["}"]);
        } else {
            self.out.pop();
            self.push("}\n");
        }
    }

    pub(super) fn deeper(&mut self, levels: usize, body: impl FnOnce(&mut Code)) {
        self.indent += levels;
        body(self);
        self.indent -= levels;
    }

    /// Writes the module of a document or namespace. The lines break as in a separate file.
    pub(super) fn module(&mut self, name: &str, body: impl FnOnce(&mut Code)) {
        self.line(["pub mod ", name, " {"]);
        self.margin += 1;
        body(self);
        self.margin -= 1;
        self.line(["}"]);
    }

    /// Writes text that ends with an opening bracket.
    pub(super) fn open(&mut self, text: &str) -> &mut Self {
        self.push(text).note(Break::Open)
    }

    /// Writes a comma, unless the line has just opened a bracket.
    pub(super) fn comma(&mut self) -> &mut Self {
        if self.breaks.last() == Some(&(self.out.len(), Break::Open)) {
            return self;
        }
        self.note(Break::Comma).push(", ")
    }

    /// Writes text that begins with a closing bracket.
    pub(super) fn close(&mut self, text: &str) -> &mut Self {
        self.note(Break::Close).push(text)
    }

    /// Like `close`, but after a list that may end with a comma.
    pub(super) fn close_list(&mut self, text: &str) -> &mut Self {
        self.note(Break::CloseList).push(text)
    }

    /// Separates an attribute in brackets from its item.
    pub(super) fn after_attribute(&mut self) -> &mut Self {
        self.note(Break::Attribute).push(" ")
    }

    /// Continues a method chain with text that begins with a dot.
    pub(super) fn dot(&mut self, text: &str) -> &mut Self {
        self.note(Break::Dot).push(text)
    }

    pub(super) fn then(&mut self, write: impl FnOnce(&mut Code)) -> &mut Self {
        write(self);
        self
    }

    pub(super) fn attribute<'p>(&mut self, name: &str, arguments: impl IntoIterator<Item = &'p str>) {
        self.begin().add(["#[", name]).open("(");
        for argument in arguments {
            self.comma().push(argument);
        }
        self.close(")]").end();
    }

    /// Writes the rest of an implementation's header, after `impl` and the trait. The type gets its own
    /// line if it does not fit after the trait.
    pub(super) fn end_impl(&mut self, target: impl Fn(&mut Code)) {
        self.break_line();
        let end = self.out.len();
        self.push(" for ").then(&target).push(" {");
        if self.column() > WIDTH {
            self.out.truncate(end);
            self.next_line().push("for ").then(&target).push(" {");
        }
        self.end();
    }

    /// Ends an arm of a `match`. The body of the arm begins at `body`. A body that does not fit gets braces
    /// and separate lines.
    pub(super) fn end_arm(&mut self, body: usize) {
        // The comma does not count towards the line length.
        if self.column() <= WIDTH {
            self.push(",\n");
            return;
        }
        let (text, breaks) = (self.out.split_off(body), std::mem::take(&mut self.breaks));
        self.push("{\n");
        self.block(|code| {
            code.begin();
            code.expression(&Cutter::cut(&text, body, &breaks), 0);
            code.push("\n");
        });
    }

    fn note(&mut self, place: Break) -> &mut Self {
        self.breaks.push((self.out.len(), place));
        self
    }

    fn column(&self) -> usize {
        self.out.len() - self.line
    }

    fn next_line(&mut self) -> &mut Self {
        self.out.push('\n');
        self.begin()
    }

    fn break_line(&mut self) {
        if self.column() > WIDTH && !self.breaks.is_empty() {
            let begin = self.line + self.indent * INDENT.len();
            let (text, breaks) = (self.out.split_off(begin), std::mem::take(&mut self.breaks));
            self.expression(&Cutter::cut(&text, begin, &breaks), 0);
        }
    }

    /// Writes a part on one line if it fits with `tail` bytes after it. Otherwise, each link of the part's
    /// chain of calls gets its own line.
    fn expression(&mut self, part: &[Piece<'_>], tail: usize) {
        if self.column() + width(part) + tail <= WIDTH {
            return self.flat(part);
        }
        let links: Vec<_> = part.split(|piece| matches!(piece, Piece::Dot)).collect();
        let (outer, last) = (self.indent, links.len() - 1);
        self.indent += usize::from(last > 0);
        for (index, link) in links.into_iter().enumerate() {
            if index > 0 {
                self.next_line();
            }
            self.brackets(link, if index == last { tail } else { 0 });
        }
        self.indent = outer;
    }

    /// Writes a part. If the text from an opening bracket onward does not fit on the line, each part in these
    /// brackets gets its own line.
    fn brackets(&mut self, part: &[Piece<'_>], tail: usize) {
        let mut rest = part;
        while let Some((piece, after)) = rest.split_first() {
            match piece {
                Piece::List(parts, comma) if self.column() + width(rest) + tail > WIDTH => {
                    self.list(parts, *comma);
                }
                piece => self.flat(std::slice::from_ref(piece)),
            }
            rest = after;
        }
    }

    /// Writes the parts between two brackets. Each part and each of its attributes gets its own line.
    fn list(&mut self, parts: &[Vec<Piece<'_>>], comma: bool) {
        self.indent += 1;
        for (index, part) in parts.iter().enumerate() {
            let is_last = index + 1 == parts.len();
            let mut pieces = part.split(|piece| matches!(piece, Piece::Attribute)).peekable();
            while let Some(piece) = pieces.next() {
                self.next_line();
                if pieces.peek().is_some() {
                    self.brackets(piece, 0);
                } else {
                    // The comma after the last part may exceed the line length.
                    self.expression(piece, usize::from(!is_last));
                }
            }
            self.push(if is_last && !comma { "" } else { "," });
        }
        self.indent -= 1;
        self.next_line();
    }

    fn flat(&mut self, part: &[Piece<'_>]) {
        for piece in part {
            match piece {
                Piece::Text(text) => self.out.push_str(text),
                Piece::List(parts, _) => {
                    for (index, part) in parts.iter().enumerate() {
                        self.push(if index > 0 { ", " } else { "" }).flat(part);
                    }
                }
                Piece::Attribute => self.out.push(' '),
                Piece::Dot => {}
            }
        }
    }
}

/// A piece of a line that is too long.
enum Piece<'t> {
    Text(&'t str),
    /// The parts between brackets. If the `bool` is true and each part has its own line, a comma follows the
    /// last part.
    List(Vec<Vec<Piece<'t>>>, bool),
    /// The space after an attribute.
    Attribute,
    Dot,
}

fn width(part: &[Piece<'_>]) -> usize {
    let of = |piece: &Piece<'_>| match piece {
        Piece::Text(text) => text.len(),
        Piece::List(parts, _) => {
            parts.iter().map(|part| width(part)).sum::<usize>() + ", ".len() * (parts.len() - 1)
        }
        Piece::Attribute => 1,
        Piece::Dot => 0,
    };
    part.iter().map(of).sum()
}

struct Cutter<'t> {
    text: &'t str,
    /// The position of `text` in the output. The positions in `breaks` are also relative to the output.
    begin: usize,
    at: usize,
    breaks: std::slice::Iter<'t, (usize, Break)>,
}

impl<'t> Cutter<'t> {
    fn cut(text: &'t str, begin: usize, breaks: &'t [(usize, Break)]) -> Vec<Piece<'t>> {
        let from = breaks.partition_point(|(at, _)| *at < begin);
        let breaks = breaks.get(from..).unwrap_or_default().iter();
        Cutter { text, begin, at: 0, breaks }.part().0
    }

    /// Returns the pieces up to the next comma or closing bracket, and the break there.
    fn part(&mut self) -> (Vec<Piece<'t>>, Break) {
        let mut pieces = Vec::new();
        while let Some((at, place)) = self.breaks.next() {
            pieces.push(self.text_to(at - self.begin));
            match place {
                Break::Open => pieces.push(self.list()),
                Break::Attribute => {
                    self.at += " ".len();
                    pieces.push(Piece::Attribute);
                }
                Break::Dot => pieces.push(Piece::Dot),
                Break::Comma => {
                    self.at += ", ".len();
                    return (pieces, Break::Comma);
                }
                Break::Close | Break::CloseList => return (pieces, *place),
            }
        }
        pieces.push(self.text_to(self.text.len()));
        (pieces, Break::Close)
    }

    fn list(&mut self) -> Piece<'t> {
        let mut parts = Vec::new();
        loop {
            let (part, end) = self.part();
            parts.push(part);
            if end != Break::Comma {
                return Piece::List(parts, end == Break::CloseList);
            }
        }
    }

    fn text_to(&mut self, end: usize) -> Piece<'t> {
        let text = self.text.get(self.at..end).unwrap_or("");
        self.at = end;
        Piece::Text(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes marked text. `‹` and `›` enclose a list that may end with a comma, and `«` and `»` enclose a
    /// list that may not. `;` separates parts, `@` follows an attribute, and `.` begins a link of a chain.
    fn marked(text: &str, code: &mut Code) {
        for sign in text.chars() {
            match sign {
                '‹' | '«' => code.open(""),
                '›' => code.close_list(""),
                '»' => code.close(""),
                ';' => code.comma(),
                '@' => code.after_attribute(),
                '.' => code.dot("."),
                sign => code.show(sign),
            };
        }
    }

    fn line(indent: usize, text: &str) -> String {
        let mut code = Code { indent, ..Code::default() };
        code.begin().then(|code| marked(text, code)).end();
        code.finish()
    }

    const LONG: &str = "abcdefghijklmnopqrstuvwxyz_abcdefghijklmnopqrstuvwxyz_abcdefghij_abcdefgh";

    #[test]
    fn a_line_that_fits_is_not_wrapped() {
        let text = format!("{LONG}(‹a;#[b]@c.d;e›)");
        assert_eq!(line(0, &text), format!("{LONG}(a, #[b] c.d, e)\n"));
        assert_eq!(line(0, &text).trim_end().len(), WIDTH);
        assert_eq!(line(1, &text).lines().count(), 6);
    }

    #[test]
    fn outer_brackets_break_before_inner_ones() {
        let text = format!("f(‹a;Option<‹{LONG}›>›) -> Vec<‹b›>");
        let expected = format!("f(\n    a,\n    Option<{LONG}>,\n) -> Vec<b>\n");
        assert_eq!(line(0, &text), expected);
        let text = format!("[«cfg(«a;b(«{LONG}.{LONG}»)»)»]");
        let expected =
            "[\n    cfg(\n        a,\n        b(\n            @\n                .@\n        )\n    )\n]\n";
        assert_eq!(line(0, &text), expected.replace('@', LONG));
    }

    #[test]
    fn attributes_and_parts_have_their_own_lines() {
        let text = format!("pub struct A(‹#[b]@#[c(«d»)]@{LONG};#[e]@f›)");
        let expected = "pub struct A(\n    #[b]\n    #[c(d)]\n    @,\n    #[e]\n    f,\n)\n";
        assert_eq!(line(0, &text), expected.replace('@', LONG));
    }

    #[test]
    fn a_chain_breaks_before_its_dots() {
        let text = format!("self.0.{LONG}(‹args›).await").replacen('.', "·", 1);
        let expected = format!("    self·0\n        .{LONG}(args)\n        .await\n");
        assert_eq!(line(1, &text), expected);
    }

    #[test]
    fn an_arm_that_does_not_fit_has_braces() {
        let arm = |body: &str| {
            let mut code = Code::default();
            let begin = code.begin().push("0 => ").len();
            code.then(|code| marked(body, code)).end_arm(begin);
            code.finish()
        };
        assert_eq!(arm("a(‹b›)"), "0 => a(b),\n");
        assert_eq!(arm(&format!("{LONG}(‹abcdefgh›).a")), format!("0 => {{\n    {LONG}(abcdefgh).a\n}}\n"));
    }

    #[test]
    fn a_long_type_in_an_impl_header_gets_its_own_line() {
        let head = |name: &str| {
            let mut code = Code::default();
            code.begin().then(|code| marked(&format!("impl From<‹{LONG}›>"), code));
            code.end_impl(|code| _ = code.push(name));
            code.block(|_| ());
            code.finish()
        };
        assert_eq!(head("A"), format!("impl From<{LONG}> for A {{}}\n").replace(" for", "\nfor"));
        assert_eq!(line(0, &format!("impl From<‹{}›>", &LONG[2..])).lines().count(), 1);
    }

    #[test]
    fn items_are_separated_and_modules_do_not_shorten_lines() {
        let mut code = Code::after("// Head.\n".to_owned());
        code.apart();
        code.module("a", |code| {
            for text in ["pub const B", LONG] {
                code.apart();
                let text = format!("{text}(‹{}›)", "a".repeat(WIDTH - text.len() - 2));
                code.begin().then(|code| marked(&text, code)).end();
            }
        });
        let text = code.finish();
        assert!(text.starts_with("// Head.\n\npub mod a {\n    pub const B"), "{text}");
        assert_eq!(text.lines().map(str::len).collect::<Vec<_>>(), [8, 0, 11, WIDTH + 4, 0, WIDTH + 4, 1]);
    }

    #[test]
    fn bidirectional_controls_are_escaped() {
        assert_eq!(Code::after("a\u{202e}b\u{20ac}".to_owned()).finish(), "a\\u{202e}b\u{20ac}");
    }
}
