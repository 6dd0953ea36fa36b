//! Macros that an `#undef` ends. After it the name is free for another definition; earlier uses of the name
//! keep its number.

use crate::hash::{HashMap, HashSet};
use std::ops::Range;

use super::token::{Aside, Kind, Lexed};

/// A macro with a number and its range of tokens and directives: from its definition to its end.
struct Ended {
    tokens: Range<usize>,
    asides: Range<usize>,
    number: i128,
}

/// The macros of a text, and which of them have ended.
#[derive(Default)]
pub(super) struct Undefs<'a> {
    /// Current definitions: the number, and the count of tokens and directives before the definition. A
    /// macro with two different definitions has no number; the conflict is reported as for constants.
    open: HashMap<&'a str, (Option<i128>, usize, usize)>,
    /// Ended definitions, in order for each name.
    ended: HashMap<&'a str, Vec<Ended>>,
}

impl<'a> Undefs<'a> {
    /// A `#define` follows. One whose number is unknown here remains a constant.
    pub(super) fn begin(&mut self, name: &'a str, number: Option<i128>, before: &Lexed<'a>) {
        let first = self.open.entry(name).or_insert((number, before.tokens.len(), before.asides.len()));
        first.0 = first.0.filter(|first| Some(*first) == number);
    }

    /// An `#undef`.
    pub(super) fn end(&mut self, name: &'a str, before: &Lexed<'a>) {
        let Some((Some(number), token, aside)) = self.open.remove(name) else { return };
        let (tokens, asides) = (token..before.tokens.len(), aside..before.asides.len());
        self.ended.entry(name).or_default().push(Ended { tokens, asides, number });
    }

    /// Replaces the names of ended macros by numbers, and drops the macros.
    pub(super) fn replace(&self, lexed: &mut Lexed<'a>) {
        if self.ended.is_empty() {
            return;
        }
        let mut before = "";
        for at in 0..lexed.tokens.len() {
            let Some(token) = lexed.tokens.get(at) else { break };
            // Only these positions hold numbers.
            let is_value = token.kind == Kind::Word && matches!(before, "[" | "<" | "=" | "case");
            before = token.text;
            let ended = if is_value { self.ended(token.text, at, |ended| &ended.tokens) } else { None };
            if let Some(ended) = ended {
                lexed.numbers.insert(at, ended.number);
                if let Some(token) = lexed.tokens.get_mut(at) {
                    token.kind = Kind::Number;
                }
            }
        }
        let mut gone = HashSet::default();
        for (at, placed) in lexed.asides.iter_mut().enumerate() {
            let Aside::Define(name, value, number) = &mut placed.aside else { continue };
            if self.ended(name.text, at, |ended| &ended.asides).is_some() {
                gone.insert(at);
            }
            let of = Some(value.text).filter(|_| number.is_none());
            if let Some(ended) = of.and_then(|of| self.ended(of, at, |ended| &ended.asides)) {
                *number = Some(ended.number);
            }
        }
        let mut at = 0..;
        lexed.asides.retain(|_| at.next().is_none_or(|at| !gone.contains(&at)));
    }

    /// The value of a name at a position, if it has ended since.
    fn ended(&self, name: &str, at: usize, place: fn(&Ended) -> &Range<usize>) -> Option<&Ended> {
        let ended = self.ended.get(name)?;
        let first = ended.partition_point(|ended| place(ended).end <= at);
        ended.get(first).filter(|ended| place(ended).contains(&at))
    }
}
