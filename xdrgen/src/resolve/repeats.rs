//! Names that are defined more than once: whether it is the same each time, and what is said of it.

use super::named::{defined_name, is_own_name};
use super::text;
use crate::ast::{Definition, Identifier, Value};
use crate::diag::Diagnostic;
use crate::hash::HashMap;
use crate::source::Span;

/// What definitions have been compared.
#[derive(Default)]
pub(crate) struct Repeats {
    /// The definitions' texts in one form: one that is defined again many times is not written each time.
    texts: HashMap<*const Definition, String>,
}

impl Repeats {
    /// Whether two definitions of one name mean the same.
    pub(crate) fn same(&mut self, first: &Definition, second: &Definition) -> bool {
        if is_own_name(first) || is_own_name(second) {
            return true;
        }
        for one in [first, second] {
            self.texts.entry(one).or_insert_with(|| text::definition(one));
        }
        let text = |of: &Definition| self.texts.get(&std::ptr::from_ref(of));
        text(first) == text(second)
    }
}

pub(crate) fn same_value(first: &Value, second: &Value) -> bool {
    match (first, second) {
        (Value::Literal { value: first, .. }, Value::Literal { value: second, .. }) => first == second,
        (Value::Name(first), Value::Name(second)) => first.name == second.name,
        _ => false,
    }
}

/// A definition of a published document in whose place another of its name stands.
pub(crate) fn superseded(definition: &Definition, by: &Definition) -> Option<Diagnostic> {
    let (name, by) = (defined_name(definition)?, defined_name(by)?);
    let message = format!("`{}` is defined twice, and differently", name.name);
    let warning = Diagnostic::warning("X201", name.span, message)
        .with_label("left out")
        .with_related(by.span, "this one is taken")
        .with_help(
            "of several definitions in a published document the last one that is complete and sound is taken",
        );
    Some(warning)
}

/// Two definitions of one name that differ.
pub(crate) fn twice(name: &Identifier, first: Span) -> Diagnostic {
    Diagnostic::error("X201", name.span, format!("`{}` is defined twice, and differently", name.name))
        .with_label("defined again")
        .with_related(first, "first defined here")
        .with_help("remove one of them or give it another name; a repetition that is the same is no error")
}

/// A type and a constant of one name.
pub(crate) fn no_second_name(name: &Identifier, first: Span) -> Diagnostic {
    Diagnostic::error("X201", name.span, format!("`{}` is a constant and a type", name.name))
        .with_label("defined again")
        .with_related(first, "first defined here")
        .with_help(
            "constants and types share one name space (RFC 4506 section 6.4): give one of them another name",
        )
}

/// A definition that stands in a document twice.
pub(crate) fn repeated(name: &Identifier, first: Span) -> Diagnostic {
    Diagnostic::warning("X218", name.span, format!("`{}` is defined twice, and equally", name.name))
        .with_label("defined again")
        .with_related(first, "first defined here")
        .with_help("remove one of them; if it is a copy that was to be changed, give it another name")
}

/// A member of an enum that is called like a value before it.
pub(crate) fn member_again(name: &Identifier, first: Span) -> Diagnostic {
    Diagnostic::warning("X208", name.span, format!("`{}` is defined twice", name.name))
        .with_label("defined again; as a constant it means the first")
        .with_related(first, "first defined here")
        .with_help("members of all enums and constants share one name space (RFC 4506 section 6.4)")
}

/// A member of an enum and a type of one name.
pub(crate) fn also_a_type(name: &Identifier, first: Span) -> Diagnostic {
    Diagnostic::warning("X208", name.span, format!("`{}` is a member of an enum and a type", name.name))
        .with_label("defined again")
        .with_related(first, "first defined here")
        .with_help("members of enums share the name space of types (RFC 4506 section 6.4)")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resolve::prelude::parsed;
    use crate::source::Span;

    fn same(first: &str, second: &str) -> bool {
        let [first, second] = [first, second].map(|text| parsed(text, Span::default()).remove(0));
        Repeats::default().same(&first, &second)
    }

    #[test]
    fn definitions_that_mean_the_same_are_the_same() {
        assert!(same("struct a {\n  int b; /* x */\n};", "struct a { int  b ; };"));
        assert!(same("struct a { unsigned b; };", "struct a { unsigned int b; };"));
        assert!(same("struct a { opaque b<4>; };", "struct a { opaque b<0x4>; };"));
        assert!(same("struct a { struct c b; };", "struct a { c b; };"));
        assert!(same("enum a { B, C };", "enum a { B = 0, C = 1 };"));
        assert!(!same("struct a { int b; };", "struct a { int c; };"));
        assert!(!same("struct a { int b<4>; };", "struct a { int b[4]; };"));
        assert!(!same(
            "union a switch (int b) { case 1: int c; };",
            "union a switch (int b) { case 2: int c; };"
        ));
    }
}
