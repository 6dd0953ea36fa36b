//! Supplies definitions from macros, the command line and the prelude for names that a run uses but does not
//! define.
//!
//! A definition in a document takes precedence. A supplied definition is appended to the document that first
//! uses it, with the position of the macro or of the first use.

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeSet;

use super::prelude::{self, Prelude};
use super::uses::{Defined, Uses};
use crate::ast::{ConstDef, Definition, DefinitionKind, Identifier, Specification, Value};
use crate::hash::HashMap;
use crate::ir::Scalar;
use crate::keywords::{before_comment, first_word, is_word};
use crate::options::Options;
use crate::parse::expression;
use crate::source::Span;

pub(crate) struct Known<'a> {
    pub(crate) options: &'a Options,
    /// True if the omission of a procedure from a published document is an error.
    pub(crate) complete_programs: bool,
}

impl Known<'_> {
    pub(crate) fn is_type(&self, name: &str) -> bool {
        self.options.externs.contains_key(name) || self.scalar(name).is_some()
    }

    /// Returns the scalar type for an alias such as `int32_t`, if the prelude is in use.
    pub(crate) fn scalar(&self, name: &str) -> Option<Scalar> {
        prelude::scalar(name).filter(|_| self.options.prelude)
    }

    pub(crate) fn is_value(&self, name: &str) -> bool {
        prelude::built_in(name).is_some()
    }
}

pub(crate) fn supply(documents: &mut [&mut Specification], known: &Known<'_>) {
    let mut defined = Defined::default();
    let all = || documents.iter().flat_map(|document| &document.definitions);
    all().for_each(|definition| defined.add(definition));
    let macros = Macros::new(all(), &defined, &known.options.defined);
    for document in documents.iter_mut() {
        document.definitions.iter_mut().for_each(|definition| macros.demote(definition));
    }
    let mut supplier = Supplier { known, macros, prelude: OnceCell::new(), defined };
    // Types come first, because an enum also defines the names of its members.
    for types in [true, false] {
        for document in documents.iter_mut() {
            supplier.document(document, types);
        }
    }
}

struct Supplier<'a> {
    known: &'a Known<'a>,
    macros: Macros,
    prelude: OnceCell<Prelude>,
    defined: Defined,
}

impl Supplier<'_> {
    fn document(&mut self, document: &mut Specification, types: bool) {
        let mut next = 0;
        // Added definitions may use missing names too, so the loop continues until it adds no definition.
        while next < document.definitions.len() {
            let mut uses = Uses::beyond(&self.defined);
            for definition in document.definitions.get(next..).unwrap_or_default() {
                uses.add(definition);
            }
            next = document.definitions.len();
            let Uses { types: unknown, values, .. } = uses;
            let names = if types { &unknown } else { &values };
            for name in names {
                let found = if types { self.missing_type(name) } else { self.missing_value(name) };
                if let Some(definition) = found {
                    self.defined.add(&definition);
                    document.definitions.push(definition);
                }
            }
        }
    }

    fn missing_type(&self, name: &Identifier) -> Option<Definition> {
        let externs = &self.known.options.externs;
        if self.defined.types.contains(&name.name) || externs.contains_key(&name.name) {
            return None;
        }
        if let Some(definition) = self.macros.typedef(name) {
            return Some(definition);
        }
        if self.known.scalar(&name.name).is_some() {
            return None;
        }
        let definition = self.of_prelude(name).filter(is_type)?;
        let mut members = Defined::default();
        members.add(&definition);
        if members.values.is_disjoint(&self.defined.values) {
            return Some(definition);
        }
        // A document already defines the name of a member of the prelude's enum, so `int` replaces the enum.
        prelude::parsed(&format!("typedef int {};", name.name), name.span).pop()
    }

    fn missing_value(&self, name: &Identifier) -> Option<Definition> {
        if self.defined.values.contains(&name.name) || self.known.is_value(&name.name) {
            return None;
        }
        let definition = self.macros.constant(name);
        definition.or_else(|| self.of_prelude(name).filter(|definition| !is_type(definition)))
    }

    fn of_prelude(&self, name: &Identifier) -> Option<Definition> {
        let prelude = || self.prelude.get_or_init(Prelude::new);
        if self.known.options.prelude { prelude().definition(&name.name, name.span) } else { None }
    }
}

fn is_type(definition: &Definition) -> bool {
    !matches!(definition.kind, DefinitionKind::Const(_))
}

/// A macro: its replacement and its position. The position is `None` for a macro from the command line.
struct Macro {
    body: String,
    place: Option<Span>,
}

/// The macros of a run that are not constants, and the numbers that their bodies may refer to.
#[derive(Default)]
struct Macros {
    /// `None` if the definitions of a name differ, since conditions in C would select one of them.
    macros: HashMap<String, Option<Macro>>,
    numbers: HashMap<String, i128>,
    /// The computed values. `None` during the computation, or if the value cannot be computed.
    computed: RefCell<HashMap<String, Option<i128>>>,
}

const MAX_CHAIN: usize = 64;

impl Macros {
    fn new<'d>(
        definitions: impl Iterator<Item = &'d Definition> + Clone,
        defined: &Defined,
        given: &BTreeSet<String>,
    ) -> Self {
        let mut macros = Macros::default();
        for definition in definitions.clone() {
            match &definition.kind {
                DefinitionKind::PassThrough(text) => {
                    if let Some((name, body)) = object_macro(text) {
                        macros.add(name, body, Some(definition.span));
                    }
                }
                DefinitionKind::Const(ConstDef { name, value: Value::Name(of) })
                    if definition.text.starts_with('#') && !defined.values.contains(&of.name) =>
                {
                    macros.add(&name.name, &of.name, Some(definition.span));
                }
                _ => {}
            }
        }
        for given in given {
            let (name, body) = given.split_once('=').unwrap_or((given, "1"));
            let body = body.trim().to_owned();
            macros.macros.insert(name.trim().to_owned(), Some(Macro { body, place: None }));
        }
        if !macros.macros.is_empty() {
            definitions.for_each(|definition| macros.add_numbers(definition));
        }
        macros
    }

    fn add_numbers(&mut self, definition: &Definition) {
        let mut add = |name: &Identifier, value: &Value| {
            if let Value::Literal { value, .. } = value {
                self.numbers.insert(name.name.clone(), *value);
            }
        };
        match &definition.kind {
            DefinitionKind::Const(ConstDef { name, value }) => add(name, value),
            DefinitionKind::Enum(_, body) => {
                for member in &body.members {
                    member.value.iter().for_each(|value| add(&member.name, value));
                }
            }
            _ => {}
        }
    }

    fn add(&mut self, name: &str, body: &str, place: Option<Span>) {
        let known = self.macros.get(name);
        let other = known.is_some_and(|known| known.as_ref().is_none_or(|known| known.body != body));
        let found = Macro { body: body.to_owned(), place };
        self.macros.insert(name.to_owned(), if other { None } else { Some(found) });
    }

    /// Turns `#define A B` into a line for C if no value is named B: B may be a type, or A may be unused.
    fn demote(&self, definition: &mut Definition) {
        if let DefinitionKind::Const(ConstDef { name, value: Value::Name(_) }) = &definition.kind
            && definition.text.starts_with('#')
            && self.macros.contains_key(&name.name)
        {
            definition.kind = DefinitionKind::PassThrough(definition.text.clone());
        }
    }

    fn typedef(&self, name: &Identifier) -> Option<Definition> {
        let found = self.macros.get(&name.name)?.as_ref()?;
        let place = found.place.unwrap_or(name.span);
        let mut definitions = prelude::parsed(&format!("typedef {} {};", found.body, name.name), place);
        let definition = definitions.pop().filter(|_| definitions.is_empty())?;
        definition.name().is_some_and(|defined| defined.name == name.name).then_some(definition)
    }

    fn constant(&self, name: &Identifier) -> Option<Definition> {
        let found = self.macros.get(&name.name)?.as_ref()?;
        let span = found.place.unwrap_or(name.span);
        let value = match self.number(&name.name, 0) {
            Some(value) => Value::Literal { value, span },
            None if is_word(&found.body) && found.body != name.name => {
                Value::Name(Identifier { name: found.body.clone(), span })
            }
            None => return None,
        };
        let kind =
            DefinitionKind::Const(ConstDef { name: Identifier { name: name.name.clone(), span }, value });
        let text = format!("#define {} {}", name.name, found.body);
        Some(Definition { kind, span, docs: Vec::new(), section: None, text })
    }

    fn number(&self, name: &str, chain: usize) -> Option<i128> {
        if let Some(number) = self.numbers.get(name) {
            return Some(*number);
        }
        if let Some(computed) = self.computed.borrow().get(name) {
            return *computed;
        }
        let body = &self.macros.get(name)?.as_ref()?.body;
        if chain >= MAX_CHAIN {
            return None;
        }
        self.computed.borrow_mut().insert(name.to_owned(), None);
        let value = expression::evaluate(body, &|name| self.number(name, chain + 1), None);
        self.computed.borrow_mut().insert(name.to_owned(), value);
        value
    }
}

/// Returns the name and the body of `#define NAME body`; `None` for a macro with parameters or without a
/// body.
pub(crate) fn object_macro(line: &str) -> Option<(&str, &str)> {
    let rest = line.trim_start().strip_prefix('#')?.trim_start().strip_prefix("define")?;
    let rest = rest.strip_prefix(|c: char| c.is_whitespace())?.trim_start();
    let name = first_word(rest);
    let body = rest.get(name.len()..)?;
    let has_no_arguments = body.is_empty() || body.starts_with(char::is_whitespace);
    let body = before_comment(body).trim();
    (!name.is_empty() && has_no_arguments && !body.is_empty()).then_some((name, body))
}
