//! Macros that an `#undef` removes. After the `#undef`, the name is free for another definition. Earlier
//! uses keep the macro's number.

use std::ops::Range;

use super::token::{Kind, Lexed};
use crate::ast::{DefinitionKind, Value};
use crate::hash::{HashMap, HashSet};

/// A macro with a number, and the ranges of tokens and of [`Lexed::c_lines`] in which it is defined.
struct Ended {
    tokens: Range<usize>,
    c_lines: Range<usize>,
    number: i128,
}

#[derive(Default)]
pub(super) struct Undefs<'a> {
    /// Definitions that no `#undef` has removed yet: the number, and the counts of tokens and of
    /// [`Lexed::c_lines`] before the definition. A macro with two different definitions has no number, and is
    /// reported like a constant with two values.
    open: HashMap<&'a str, (Option<i128>, usize, usize)>,
    /// The numeric definitions of each name that an `#undef` removed, in source order.
    ended: HashMap<&'a str, Vec<Ended>>,
}

impl<'a> Undefs<'a> {
    /// Records a `#define`. If the number is unknown, the name remains a constant after an `#undef`.
    pub(super) fn begin(&mut self, name: &'a str, number: Option<i128>, before: &Lexed<'a>) {
        let first = self.open.entry(name).or_insert((number, before.tokens.len(), before.c_lines.len()));
        first.0 = first.0.filter(|first| Some(*first) == number);
    }

    pub(super) fn end(&mut self, name: &'a str, before: &Lexed<'a>) {
        let Some((Some(number), token, line)) = self.open.remove(name) else { return };
        let (tokens, c_lines) = (token..before.tokens.len(), line..before.c_lines.len());
        self.ended.entry(name).or_default().push(Ended { tokens, c_lines, number });
    }

    /// For each numeric macro that an `#undef` removed, replaces the uses with the number, and drops the
    /// `#define`.
    pub(super) fn replace(&self, lexed: &mut Lexed<'a>) {
        if self.ended.is_empty() {
            return;
        }
        let mut before = "";
        for at in 0..lexed.tokens.len() {
            let Some(token) = lexed.tokens.get(at) else { break };
            // Only a token after `[`, `<`, `=` or `case` may be a value.
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
        let mut removed = HashSet::default();
        for (at, line) in lexed.c_lines.iter_mut().enumerate() {
            let DefinitionKind::Const(constant) = &mut line.kind else { continue };
            if self.ended(&constant.name.name, at, |ended| &ended.c_lines).is_some() {
                removed.insert(at);
            }
            if let Value::Name(of) = &constant.value
                && let Some(ended) = self.ended(&of.name, at, |ended| &ended.c_lines)
            {
                constant.value = Value::Literal { value: ended.number, span: of.span };
            }
        }
        let mut at = 0..;
        lexed.c_lines.retain(|_| at.next().is_none_or(|at| !removed.contains(&at)));
    }

    /// Returns the definition that is in effect for a name at a position, if a later `#undef` removes the
    /// definition.
    fn ended(&self, name: &str, at: usize, place: fn(&Ended) -> &Range<usize>) -> Option<&Ended> {
        let ended = self.ended.get(name)?;
        let first = ended.partition_point(|ended| place(ended).end <= at);
        ended.get(first).filter(|ended| place(ended).contains(&at))
    }
}
