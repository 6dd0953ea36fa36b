//! Constants and the values of enum members.

use std::collections::{HashMap, HashSet};

use super::scope::{Named, Scope, ValueSource};
use crate::ast::{EnumBody, Identifier, Value};
use crate::diag::Diagnostic;
use crate::source::Span;

/// The longest chain of constants that name one another. Nobody writes one; it bounds the stack.
const MAX_CHAIN: usize = 256;

/// Evaluates constants; each thing that is wrong is said once.
#[derive(Default)]
pub(crate) struct Consts {
    said: HashSet<String>,
    /// What has been evaluated, by name; none if it has no value.
    known: HashMap<String, Option<i128>>,
    /// For each member of an enum, the last one up to it that has a value of its own.
    explicit: HashMap<*const EnumBody, Vec<Option<usize>>>,
}

/// For each member, the last one up to it that has a value of its own.
fn explicit(body: &EnumBody) -> Vec<Option<usize>> {
    let mut last = None;
    let place = |(at, member): (usize, &crate::ast::EnumMember)| {
        last = member.value.as_ref().map(|_| at).or(last);
        last
    };
    body.members.iter().enumerate().map(place).collect()
}

/// The span of a value.
pub(crate) fn span(value: &Value) -> Span {
    match value {
        Value::Literal { span, .. } => *span,
        Value::Name(name) => name.span,
    }
}

impl Consts {
    /// A value's number; none if it has none, which is reported.
    pub(crate) fn eval(
        &mut self,
        value: &Value,
        scope: &Scope<'_>,
        found: &mut Vec<Diagnostic>,
    ) -> Option<i128> {
        self.follow(value, scope, found, &mut Vec::new())
    }

    /// The values of an enum's members in order; an implicit one is the one before plus one, from 0.
    pub(crate) fn members(
        &mut self,
        body: &EnumBody,
        scope: &Scope<'_>,
        found: &mut Vec<Diagnostic>,
    ) -> Vec<Option<i128>> {
        let mut next = Some(0);
        let mut values = Vec::new();
        for member in &body.members {
            let value = match &member.value {
                Some(value) => self.eval(value, scope, found),
                None => next,
            };
            next = value.and_then(|value| value.checked_add(1));
            values.push(value);
        }
        values
    }

    fn follow(
        &mut self,
        value: &Value,
        scope: &Scope<'_>,
        found: &mut Vec<Diagnostic>,
        chain: &mut Vec<String>,
    ) -> Option<i128> {
        let name = match value {
            Value::Literal { value, .. } => return Some(*value),
            Value::Name(name) => name,
        };
        if let Some(known) = self.known.get(&name.name) {
            return *known;
        }
        let Some(named) = scope.value_named(&name.name) else {
            return match name.name.as_str() {
                "TRUE" => Some(1),
                "FALSE" => Some(0),
                _ => self.undefined(name, scope, found, chain),
            };
        };
        if chain.contains(&name.name) || chain.len() >= MAX_CHAIN {
            return self.circle(name, named, found, chain);
        }
        chain.push(name.name.clone());
        let value = match named.source {
            ValueSource::Const(value) => self.follow(value, scope, found, chain),
            ValueSource::Member(body, index) => self.member(body, index, scope, found, chain),
        };
        chain.pop();
        self.known.insert(name.name.clone(), value);
        value
    }

    /// A member's value: that of the last explicit one up to it, plus the steps from there.
    fn member(
        &mut self,
        body: &EnumBody,
        index: usize,
        scope: &Scope<'_>,
        found: &mut Vec<Diagnostic>,
        chain: &mut Vec<String>,
    ) -> Option<i128> {
        let before = self.explicit.entry(body).or_insert_with(|| explicit(body));
        let (base, steps) = match before.get(index).copied().flatten() {
            Some(at) => {
                (self.follow(body.members.get(at)?.value.as_ref()?, scope, found, chain)?, index - at)
            }
            None => (0, index),
        };
        base.checked_add(i128::try_from(steps).ok()?)
    }

    fn undefined(
        &mut self,
        name: &Identifier,
        scope: &Scope<'_>,
        found: &mut Vec<Diagnostic>,
        chain: &mut Vec<String>,
    ) -> Option<i128> {
        let message = format!("no constant is called `{}`", name.name);
        if let Some(near) = scope.taken_for(name, scope.value_names()) {
            if self.said.insert(name.name.clone()) {
                let warning = Diagnostic::warning("X202", name.span, message);
                found.push(warning.with_label(format!("taken for `{near}`")));
            }
            let meant = Identifier { name: near.to_owned(), span: name.span };
            return self.follow(&Value::Name(meant), scope, found, chain);
        }
        if scope.externs.is_some_and(|externs| externs.contains_key(&name.name)) {
            if self.said.insert(name.name.clone()) {
                let message = format!("the number of `{}` is not known here", name.name);
                let error = Diagnostic::error("X211", name.span, message)
                    .with_label("a constant in Rust has no value yet when this is compiled");
                found.push(error.with_help(format!("give its number, too: `-D {}=NUMBER`", name.name)));
            }
            return None;
        }
        if self.said.insert(name.name.clone()) {
            let error = Diagnostic::error("X202", name.span, message)
                .with_label("not defined in any document of this run");
            let error = match scope.value_like(&name.name) {
                Some(near) => error.with_help(format!("`{near}` is defined; is that what is meant?")),
                None => error.with_help(
                    "define it with `const`, or compile the document that does together with this one",
                ),
            };
            found.push(scope.asides.explain(name, error));
        }
        None
    }

    fn circle(
        &mut self,
        name: &Identifier,
        named: Named<'_>,
        found: &mut Vec<Diagnostic>,
        chain: &[String],
    ) -> Option<i128> {
        let new = !self.said.contains(&name.name);
        // Of a circle one name is enough.
        self.said.extend(chain.iter().cloned());
        if new {
            let message = format!("the value of `{}` depends on itself", name.name);
            found.push(
                Diagnostic::error("X203", named.span, message)
                    .with_label("defined by way of itself")
                    .with_related(name.span, "used for its own value here")
                    .with_help("give one of the constants a number"),
            );
        }
        None
    }
}
