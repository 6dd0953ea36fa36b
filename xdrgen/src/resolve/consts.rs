//! Constants and the values of enum members.

use super::definitions::Resolver;
use super::prelude::built_in;
use super::scope::{Named, ValueSource};
use super::unresolved::{Reason, Space, Unresolved};
use crate::ast::{EnumBody, Identifier, Value};
use crate::diag::{MeaningKind, PortabilityKind};
use crate::hash::HashSet;
use crate::source::Span;

/// The meaning of a name that no document defines.
enum Undefined<'a> {
    /// The value of a built-in name. `None` for a name that has no value and has been reported.
    Number(Option<i128>),
    /// The name that is meant, if the name is a misspelling in a published document.
    Intended(&'a str),
}

fn explicit(body: &EnumBody) -> Vec<Option<usize>> {
    let mut last = None;
    let place = |(at, member): (usize, &crate::ast::EnumMember)| {
        last = member.value.as_ref().map(|_| at).or(last);
        last
    };
    body.members.iter().enumerate().map(place).collect()
}

impl<'a> Resolver<'a> {
    /// Evaluates a value to a number. An invalid value is reported and yields `None`. Follows the chain of
    /// names to a number, then adds the offset of each enum member in the chain.
    pub(crate) fn eval(&mut self, value: &Value) -> Option<i128> {
        let mut path: Vec<(&str, usize)> = Vec::new();
        let mut visited: HashSet<&str> = HashSet::default();
        let mut next = Ok(value);
        let mut number = loop {
            let (name, span) = match next {
                Ok(Value::Literal { value, .. }) => break Some(*value),
                Ok(Value::Name(name)) => (name.name.as_str(), name.span),
                Err(meant) => meant,
            };
            if let Some(known) = self.consts.known.get(name) {
                break *known;
            }
            let Some(named) = self.scope.value_named(name) else {
                match self.undefined(name, span) {
                    Undefined::Number(number) => break number,
                    Undefined::Intended(near) => next = Err((near, span)),
                }
                continue;
            };
            if let Some(second) = self.scope.second_number(name)
                && self.consts.reported.insert(name.to_owned())
            {
                let name = name.to_owned();
                self.found.push(MeaningKind::TwoNumbers { name, first: named.span, second }.at(span));
            }
            if !visited.insert(name) {
                break self.cycle(name, span, named, &path);
            }
            let (value, steps) = match named.source {
                ValueSource::Const(value) => (Some(value), 0),
                ValueSource::Member(body, index) => self.base(body, index as usize),
            };
            path.push((name, steps));
            let Some(value) = value else { break Some(0) };
            next = Ok(value);
        };
        for (name, steps) in path.into_iter().rev() {
            number = number.and_then(|number| number.checked_add(i128::try_from(steps).ok()?));
            self.consts.known.insert(name.to_owned(), number);
        }
        number
    }

    /// Returns the base of a member's value, and the offset from the base. The base is the nearest
    /// explicit value at or before the member, or `None` for 0.
    fn base<'v>(&mut self, body: &'v EnumBody, index: usize) -> (Option<&'v Value>, usize) {
        let before = self.consts.explicit.entry(body).or_insert_with(|| explicit(body));
        match before.get(index).copied().flatten() {
            Some(at) => (body.members.get(at).and_then(|member| member.value.as_ref()), index - at),
            None => (None, index),
        }
    }

    fn undefined(&mut self, name: &str, span: Span) -> Undefined<'a> {
        if let Some(value) = built_in(name) {
            let standard = if value == 1 { "TRUE" } else { "FALSE" };
            if name != standard && self.consts.reported.insert(name.to_owned()) {
                let name = name.to_owned();
                self.found.push(PortabilityKind::LowerCaseBool { name, standard }.at(span));
            }
            return Undefined::Number(Some(value));
        }
        let name = Identifier { name: name.to_owned(), span };
        if let Some(near) = self.scope.intended_name(&name, self.scope.value_names()) {
            if self.consts.reported.insert(name.name.clone()) {
                let reason = Reason::Erratum(near.to_owned());
                self.unresolved.push(Unresolved::new(Space::Value, name, reason));
            }
            return Undefined::Intended(near);
        }
        if self.consts.reported.insert(name.name.clone()) {
            if self.known.options.externs.contains_key(&name.name) {
                self.found.push(MeaningKind::NumberInRust { name: name.name }.at(span));
            } else {
                self.unresolved.push(self.scope.missing_value(&name));
            }
        }
        Undefined::Number(None)
    }

    fn cycle(&mut self, name: &str, span: Span, named: Named<'_>, path: &[(&str, usize)]) -> Option<i128> {
        let new = !self.consts.reported.contains(name);
        // One finding for each cycle is enough.
        self.consts.reported.extend(path.iter().map(|(name, _)| (*name).to_owned()));
        if new {
            let cyclic = MeaningKind::CyclicConstant { name: name.to_owned(), used: span };
            self.found.push(cyclic.at(named.span));
        }
        None
    }
}
