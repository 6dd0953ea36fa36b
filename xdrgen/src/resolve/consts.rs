//! Constants and the values of enum members.

use super::prelude::built_in;
use super::scope::{Named, Scope, ValueSource};
use super::unresolved::{Reason, Space, Unresolved};
use crate::ast::{EnumBody, Identifier, Value};
use crate::diag::{Found, MeaningKind, PortabilityKind};
use crate::hash::{HashMap, HashSet};
use crate::source::Span;

/// Evaluates constants. Reports each error once.
#[derive(Default)]
pub(crate) struct Consts {
    reported: HashSet<String>,
    /// The evaluated constants by name; `None` if invalid.
    known: HashMap<String, Option<i128>>,
    /// For each member of an enum, the index of the member with the nearest explicit value: the member itself
    /// or a preceding member.
    explicit: HashMap<*const EnumBody, Vec<Option<usize>>>,
}

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

impl Consts {
    /// Evaluates a value to a number. An invalid value is reported and yields `None`. Follows the chain of
    /// names to a number, then adds the offset of each enum member in the chain.
    pub(crate) fn eval(
        &mut self,
        value: &Value,
        scope: &Scope<'_>,
        found: &mut Found,
        unresolved: &mut Vec<Unresolved>,
    ) -> Option<i128> {
        let mut path: Vec<(&str, usize)> = Vec::new();
        let mut visited: HashSet<&str> = HashSet::default();
        let mut next = Ok(value);
        let mut number = loop {
            let (name, span) = match next {
                Ok(Value::Literal { value, .. }) => break Some(*value),
                Ok(Value::Name(name)) => (name.name.as_str(), name.span),
                Err(meant) => meant,
            };
            if let Some(known) = self.known.get(name) {
                break *known;
            }
            let Some(named) = scope.value_named(name) else {
                match self.undefined(name, span, scope, found, unresolved) {
                    Undefined::Number(number) => break number,
                    Undefined::Intended(near) => next = Err((near, span)),
                }
                continue;
            };
            if let Some(second) = scope.second_number(name)
                && self.reported.insert(name.to_owned())
            {
                let name = name.to_owned();
                found.push(MeaningKind::TwoNumbers { name, first: named.span, second }.at(span));
            }
            if !visited.insert(name) {
                break self.cycle(name, span, named, found, &path);
            }
            let (value, steps) = match named.source {
                ValueSource::Const(value) => (Some(value), 0),
                ValueSource::Member(body, index) => self.member(body, index as usize),
            };
            path.push((name, steps));
            let Some(value) = value else { break Some(0) };
            next = Ok(value);
        };
        for (name, steps) in path.into_iter().rev() {
            number = number.and_then(|number| number.checked_add(i128::try_from(steps).ok()?));
            self.known.insert(name.to_owned(), number);
        }
        number
    }

    /// Returns the base of a member's value, and the offset from the base. The base is the nearest
    /// explicit value at or before the member, or `None` for 0.
    fn member<'v>(&mut self, body: &'v EnumBody, index: usize) -> (Option<&'v Value>, usize) {
        let before = self.explicit.entry(body).or_insert_with(|| explicit(body));
        match before.get(index).copied().flatten() {
            Some(at) => (body.members.get(at).and_then(|member| member.value.as_ref()), index - at),
            None => (None, index),
        }
    }

    fn undefined<'v>(
        &mut self,
        name: &str,
        span: Span,
        scope: &Scope<'v>,
        found: &mut Found,
        unresolved: &mut Vec<Unresolved>,
    ) -> Undefined<'v> {
        if let Some(value) = built_in(name) {
            let standard = if value == 1 { "TRUE" } else { "FALSE" };
            if name != standard && self.reported.insert(name.to_owned()) {
                found.push(PortabilityKind::LowerCaseBool { name: name.to_owned(), standard }.at(span));
            }
            return Undefined::Number(Some(value));
        }
        let name = &Identifier { name: name.to_owned(), span };
        if let Some(near) = scope.intended_name(name, scope.value_names()) {
            if self.reported.insert(name.name.clone()) {
                let reason = Reason::Erratum(near.to_owned());
                unresolved.push(Unresolved::new(Space::Value, name.clone(), reason));
            }
            return Undefined::Intended(near);
        }
        if scope.externs.is_some_and(|externs| externs.contains_key(&name.name)) {
            if self.reported.insert(name.name.clone()) {
                found.push(MeaningKind::NumberInRust { name: name.name.clone() }.at(name.span));
            }
            return Undefined::Number(None);
        }
        if self.reported.insert(name.name.clone()) {
            unresolved.push(scope.missing_value(name));
        }
        Undefined::Number(None)
    }

    fn cycle(
        &mut self,
        name: &str,
        span: Span,
        named: Named<'_>,
        found: &mut Found,
        path: &[(&str, usize)],
    ) -> Option<i128> {
        let new = !self.reported.contains(name);
        // One finding for each cycle is enough.
        self.reported.extend(path.iter().map(|(name, _)| (*name).to_owned()));
        if new {
            found.push(MeaningKind::CyclicConstant { name: name.to_owned(), used: span }.at(named.span));
        }
        None
    }
}
