//! Lines of other languages (the C preprocessor, `%` lines and `pragma`), and uses of macros.

use std::ops::Range;

use super::Lexer;
use crate::ast::{ConstDef, DefinitionKind, Expansion, Hidden, Identifier, Value};
use crate::diag::PreprocessorKind;
use crate::extract::Map;
use crate::keywords::{
    before_comment, begins_definition, first_word, is_word, is_word_part, open_comment, word,
};
use crate::parse::macros::Expanded;
use crate::parse::token::{Kind, OtherLine, joined_length, line_length, one_token, only_number};
use crate::source::{Span, narrow};

/// Maximum number of characters of an expansion or a condition in a finding.
const SHOWN: usize = 60;

/// Exclusive limit for the number of tokens of an expression in an expansion.
const MAX_EXPRESSION: usize = 100;

impl<'a> Lexer<'a, '_> {
    /// Consumes a `%` line, a preprocessor line or Linux's `pragma`. Returns false for other lines. In an
    /// inactive branch, consumes only preprocessor lines and, if `RPC_HDR` would activate the branch, a
    /// `%#define`.
    pub(super) fn line_of_another_language(&mut self, rest: &'a str, next: char) -> bool {
        match next {
            '#' => self.directive(rest),
            '%' if self.conditions.active() => self.pass_through(rest),
            '%' if self.header.active() && is_macro(rest) => {
                let length = joined_length(rest);
                self.push_directive(rest, length);
            }
            'p' if self.conditions.active() && is_pragma(rest) => self.pragma(rest),
            _ => return false,
        }
        true
    }

    /// Consumes `pragma DIRECTIVE NAME;`, which controls the C code that Linux's XDR compiler emits. XDR
    /// continues after the `;`.
    fn pragma(&mut self, rest: &str) {
        let line = rest.get(..line_length(rest)).unwrap_or("");
        let end = line.find(';').map(|at| at + 1);
        let directive = line.split_ascii_whitespace().nth(1).unwrap_or("").trim_end_matches(';');
        let odd = match end {
            None => Some(PreprocessorKind::OpenPragma),
            Some(_) if PRAGMAS.contains(&directive) => None,
            Some(_) => Some(PreprocessorKind::UnknownPragma),
        };
        let length = end.unwrap_or(line.trim_end().len());
        if let Some(odd) = odd {
            self.out.diagnostics.push(odd.at(self.map.span(narrow(self.at)..narrow(self.at + length))));
        }
        self.at += length;
    }

    fn identifier(&self, name: &str, start: usize) -> Identifier {
        let span = self.map.span(narrow(start)..narrow(start + name.len()));
        Identifier { name: name.to_owned(), span }
    }

    /// Skips a line in an inactive branch, and records the name that the line defines, if any.
    pub(super) fn skip_line(&mut self, rest: &'a str) {
        let length = line_length(rest);
        let line = rest.get(..length).unwrap_or("");
        if let (Some(name), Some((condition, is_else))) = (hidden_name(line), self.conditions.inactive()) {
            let condition = self.text.get(condition.start as usize..condition.end as usize).unwrap_or("");
            let condition = condition.lines().next().unwrap_or("").trim_end().chars().take(SHOWN).collect();
            let start = self.at + name.start;
            let name = self.identifier(line.get(name).unwrap_or(""), start);
            self.out.hidden.push(Hidden { name, condition, is_else });
        }
        self.at += length;
    }

    fn directive(&mut self, rest: &'a str) {
        let length = self.closed_length(rest, joined_length(rest));
        let line = rest.get(..length).unwrap_or("");
        let start = self.at;
        self.advance(length);
        let body = line.get(1..).unwrap_or("");
        let blanks = body.len() - body.trim_start().len();
        let body = body.trim_start();
        let word = body.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or("");
        let place = narrow(start)..narrow(start + line.trim_end().len());
        let argument = body.get(word.len()..).unwrap_or("");
        match word {
            "define" if self.conditions.active() => {
                self.define(argument, start + 1 + blanks + word.len(), place, line);
            }
            "include" if self.conditions.active() => {
                self.store(DefinitionKind::PassThrough(line.trim_end().to_owned()), place);
            }
            _ => {
                if word == "undef" && self.conditions.active() {
                    self.undefs.end(first_word(argument), &self.out);
                    self.macros.end(first_word(argument));
                }
                self.header.directive(word, argument, place.clone());
                self.conditions.directive(word, argument, place);
            }
        }
    }

    /// Returns the length of a preprocessor line or a `%` line, including a comment that begins on this line
    /// and ends on a later line.
    fn closed_length(&mut self, rest: &str, length: usize) -> usize {
        let opened = open_comment(rest.get(..length).unwrap_or(""));
        let opened = opened.filter(|_| self.conditions.active() && !self.unclosed);
        let Some(inside) = opened.map(|open| open + 2) else { return length };
        match rest.get(inside..).and_then(|rest| rest.find("*/")) {
            Some(close) => inside + close + 2,
            None => {
                self.unclosed = true;
                length
            }
        }
    }

    /// Processes a `#define`. A name that stands for a type becomes a macro if the name's meaning changes
    /// within the text. Any other name becomes a constant if the value can be computed or is another name.
    /// Otherwise, or if the name is a keyword, the name may become a macro, and the line is kept for C.
    fn define(&mut self, argument: &'a str, offset: usize, place: Range<u32>, line: &'a str) {
        let (name, offset) = (argument.trim_start(), offset + argument.len() - argument.trim_start().len());
        let Some((after, name)) = word(name) else { return };
        let value = before_comment(after).trim();
        let gap = after.len() - after.trim_start().len();
        let computed = || self.conditions.number(value);
        let written = only_number(value);
        let is_name = written.is_none() && is_word(value);
        // In `F(a) x`, no space separates the name from the `(`, so `F` is a macro with a parameter.
        let number = written.or_else(|| if gap == 0 && !is_name { None } else { computed() });
        self.conditions.define(name, number);
        self.header.define(name, number);
        let is_keyword = crate::keywords::is_keyword(name);
        if number.is_none() && !is_keyword && self.macros.define_type(name, after, offset) {
            return;
        }
        if name == value || is_keyword || number.is_none() && !is_name {
            self.macros.define(name, after, offset);
            return self.store(DefinitionKind::PassThrough(line.trim_end().to_owned()), place);
        }
        self.macros.undefine(name);
        self.undefs.begin(name, number, &self.out);
        let value = self.identifier(value, offset + name.len() + gap);
        let value = match number.filter(|_| !is_name) {
            Some(number) => Value::Literal { value: number, span: value.span },
            None => Value::Name(value),
        };
        let name = self.identifier(name, offset);
        self.store(DefinitionKind::Const(ConstDef { name, value }), place);
    }

    /// Stores a constant, or a line for C. A finding about an undefined name may refer to a line for C, since
    /// the line may define the name.
    fn store(&mut self, kind: DefinitionKind, Range { start, end }: Range<u32>) {
        let before = self.out.tokens.len();
        self.out.c_lines.push(OtherLine { kind, before, start, end });
    }

    /// Processes a `%` line, which contains C code. A comment that begins on the line may continue on further
    /// lines, with or without `%`. A line that has only comments becomes a comment of the document.
    fn pass_through(&mut self, rest: &'a str) {
        let length = self.closed_length(rest, joined_length(rest));
        let line = rest.get(1..length).unwrap_or("").trim();
        let mut left = line;
        while let Some((_, after)) = left.strip_prefix("/*").and_then(|left| left.split_once("*/")) {
            left = after.trim_start();
        }
        if left.is_empty() && !line.is_empty() {
            self.push_comment(length);
        } else {
            self.push_directive(rest, length);
        }
    }

    fn push_directive(&mut self, rest: &'a str, length: usize) {
        let text = rest.get(1..length).unwrap_or("").trim_end();
        let start = self.at;
        self.advance(length);
        if !text.trim().is_empty() {
            self.store(
                DefinitionKind::PassThrough(text.to_owned()),
                narrow(start)..narrow(start + 1 + text.len()),
            );
        }
    }

    /// Adds the tokens of a macro's expansion. An expression in the expansion becomes one number.
    pub(super) fn push_expanded(&mut self, name: &'a str, expanded: Expanded<'a>) {
        let length = name.len() + expanded.length;
        let used = narrow(self.at)..narrow(self.at + length);
        match expanded.tokens {
            Ok(tokens) => {
                let text = tokens.join(" ").chars().take(SHOWN).collect();
                let span = self.map.span(used.clone());
                let defined = self.identifier(name, expanded.place);
                self.out.expansions.push((used, Expansion { span, name: defined, text }));
                let (mut rest, mut before) = (tokens.as_slice(), "=");
                while let Some((token, after)) = rest.split_first() {
                    if let Some((count, number)) = self.computed(before, rest) {
                        self.push_token(Kind::Malformed, name, Some(number), length, true);
                        rest = rest.get(count..).unwrap_or_default();
                        before = "";
                        continue;
                    }
                    let (kind, text, number) = one_token(token);
                    self.push_token(kind, text, number, length, true);
                    (rest, before) = (after, token);
                }
            }
            Err(fault) => {
                let span = self.map.span(used.start..used.start + narrow(name.len()));
                let defined = self.identifier(name, expanded.place).span;
                self.out
                    .diagnostics
                    .push(PreprocessorKind::Macro { name: name.to_owned(), defined, fault }.at(span));
            }
        }
        self.advance(length);
        self.fresh = false;
    }

    /// Returns the number of tokens and the value of the expression at the start of `tokens`, if a value may
    /// follow the token `before`. A single token is not an expression.
    fn computed(&self, before: &str, tokens: &[&str]) -> Option<(usize, i128)> {
        if !matches!(before, "[" | "<" | "=" | "case") {
            return None;
        }
        let is_end = |token: &&str| matches!(*token, "]" | ">" | ";" | "," | "}" | ":");
        let count = tokens.iter().take(MAX_EXPRESSION).position(is_end).unwrap_or(tokens.len());
        let text = tokens.get(..count).filter(|_| (2..MAX_EXPRESSION).contains(&count))?.join(" ");
        Some((count, self.conditions.number(&text)?))
    }
}

/// The directives of `pragma`. They select the C code for a type and the destination of this code.
const PRAGMAS: [&str; 6] = ["big_endian", "exclude", "header", "pages", "public", "skip"];

const C_FILES: [&str; 5] = ["h", "c", "cc", "cpp", "hpp"];

fn is_macro(rest: &str) -> bool {
    let line = rest.strip_prefix('%').unwrap_or(rest).trim_start();
    line.strip_prefix('#').is_some_and(|line| line.trim_start().starts_with("define"))
}

/// Returns true for Linux's `pragma` lines: the word `pragma`, blanks, and another word or `;`.
fn is_pragma(rest: &str) -> bool {
    rest.strip_prefix("pragma").is_some_and(|after| {
        let what = after.trim_start_matches([' ', '\t']);
        what.len() < after.len() && (what.starts_with(';') || word(what).is_some())
    })
}

fn hidden_name(line: &str) -> Option<Range<usize>> {
    if !begins_definition(line) {
        return None;
    }
    let after = line.trim_start().trim_start_matches(is_word_part);
    if !line.trim_start().starts_with("typedef") {
        let after = after.trim_start_matches(|c| !is_word_part(c));
        let start = line.len() - after.len();
        return Some(start..start + first_word(after).len());
    }
    // The declared name precedes a size or the `;`.
    let before = line.get(..line.find(['<', '[', ';'])?)?.trim_end();
    Some(before.trim_end_matches(is_word_part).len()..before.len())
}

impl OtherLine {
    /// Returns the name in `#include "name"` and its position; `None` for a C file or another line.
    pub(crate) fn included(&self, map: &Map) -> Option<(String, Span)> {
        let DefinitionKind::PassThrough(line) = &self.kind else { return None };
        let rest = line.strip_prefix('#')?.trim_start().strip_prefix("include")?.trim_start();
        let (name, after) = rest.strip_prefix('"')?.split_once('"')?;
        let end = self.end - narrow(after.len() + 1);
        let span = map.span(end - narrow(name.len())..end);
        let suffix = name.rsplit_once('.').map_or("", |(_, suffix)| suffix).to_ascii_lowercase();
        (!C_FILES.contains(&suffix.as_str())).then(|| (name.to_owned(), span))
    }
}
