//! The subset of C preprocessor conditions that rpcgen files use.

use std::collections::BTreeSet;
use std::ops::Range;

use super::expression;
use crate::diag::{Diagnostic, PreprocessorKind};
use crate::extract::Map;
use crate::hash::HashMap;
use crate::keywords::{before_comment, first_word};

#[derive(Clone, Debug)]
struct Open {
    /// True if the text around the condition is active.
    outer: bool,
    active: bool,
    /// True if the current branch or an earlier branch of the condition was active.
    taken: bool,
    /// True if the current branch is not the first.
    is_else: bool,
    /// True after an `#else`.
    last: bool,
    place: Range<u32>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Conditions {
    /// The defined names with their numbers, if any.
    defined: HashMap<String, Option<i128>>,
    open: Vec<Open>,
    found: Vec<(Range<u32>, PreprocessorKind)>,
}

impl Conditions {
    pub(crate) fn new(defined: &BTreeSet<String>) -> Self {
        let mut conditions = Conditions::default();
        for given in defined {
            let (name, value) = given.split_once('=').unwrap_or((given, "1"));
            let value = conditions.number(value);
            conditions.define(name.trim(), value);
        }
        conditions
    }

    pub(crate) fn active(&self) -> bool {
        self.open.last().is_none_or(|open| open.active)
    }

    /// Returns the position of the outermost condition whose current branch is inactive, and whether that
    /// branch begins with an `#elif` or an `#else`.
    pub(crate) fn inactive(&self) -> Option<(Range<u32>, bool)> {
        let open = self.open.iter().find(|open| !open.active)?;
        Some((open.place.clone(), open.is_else))
    }

    pub(crate) fn define(&mut self, name: &str, value: Option<i128>) {
        self.defined.insert(name.to_owned(), value);
    }

    /// Processes a directive from `#if` to `#endif`, or an `#undef`. Ignores other directives. For a
    /// `#define`, the lexer calls `define`.
    pub(crate) fn directive(&mut self, word: &str, argument: &str, place: Range<u32>) {
        match word {
            "ifdef" | "ifndef" | "if" => {
                let outer = self.active();
                let active = outer && self.holds(word, argument, &place);
                self.open.push(Open { outer, active, taken: active, is_else: false, last: false, place });
            }
            "elif" => {
                // As in C, the condition is not evaluated if this branch cannot be active.
                let may_hold = self.open.last().is_some_and(|open| open.outer && !open.taken);
                let holds = may_hold && self.holds("if", argument, &place);
                self.branch(&place, holds, false);
            }
            "else" => self.branch(&place, true, true),
            "endif" => self.close(place),
            "undef" if self.active() => {
                self.defined.remove(first_word(argument));
            }
            _ => {}
        }
    }

    fn branch(&mut self, place: &Range<u32>, holds: bool, last: bool) {
        let Some(open) = self.open.last_mut() else {
            return self.found.push((place.clone(), PreprocessorKind::ElseWithoutIf));
        };
        let is_after_else = open.last;
        open.is_else = true;
        open.last |= last;
        if is_after_else {
            self.found.push((place.clone(), PreprocessorKind::BranchAfterElse { is_else: last }));
        }
        open.active = open.outer && !open.taken && holds;
        open.taken |= open.active;
    }

    fn close(&mut self, place: Range<u32>) {
        if self.open.pop().is_none() {
            self.found.push((place, PreprocessorKind::EndifWithoutIf));
        }
    }

    fn holds(&mut self, word: &str, argument: &str, place: &Range<u32>) -> bool {
        match word {
            // As in C, text after the name is ignored.
            "ifdef" => self.defined.contains_key(first_word(argument)),
            "ifndef" => !self.defined.contains_key(first_word(argument)),
            _ => self.evaluate(before_comment(argument).trim()).unwrap_or_else(|| {
                self.found.push((place.clone(), PreprocessorKind::OddCondition));
                true
            }),
        }
    }

    /// Returns whether the condition of an `#if` is true; `None` if the condition cannot be evaluated. An
    /// undefined name counts as 0, and a defined name without a number counts as 1.
    fn evaluate(&self, text: &str) -> Option<bool> {
        let value = |name: &str| Some(self.defined.get(name).map_or(0, |value| value.unwrap_or(1)));
        let is_defined = |name: &str| self.defined.contains_key(name);
        expression::evaluate(text, &value, Some(&is_defined)).map(|value| value != 0)
    }

    /// Returns the value of an expression; `None` if it cannot be evaluated or a name in it has no number.
    pub(crate) fn number(&self, text: &str) -> Option<i128> {
        let value = |name: &str| self.defined.get(name).copied().flatten();
        let is_defined = |name: &str| self.defined.contains_key(name);
        expression::evaluate(text, &value, Some(&is_defined))
    }

    pub(crate) fn first_open(&self) -> Option<u32> {
        self.open.first().map(|open| open.place.start)
    }

    pub(crate) fn finish(self, map: &Map) -> impl Iterator<Item = Diagnostic> {
        let open = self.open.into_iter().map(|open| (open.place, PreprocessorKind::OpenCondition));
        self.found.into_iter().chain(open).map(|(place, kind)| kind.at(map.span(place)))
    }
}
