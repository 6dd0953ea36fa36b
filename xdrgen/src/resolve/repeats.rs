//! Compares repeated definitions of a name.

use super::text;
use crate::ast::{Definition, Value};
use crate::hash::HashMap;

#[derive(Default)]
pub(crate) struct Repeats {
    /// The canonical texts of definitions, cached for repeated comparisons.
    texts: HashMap<*const Definition, String>,
}

impl Repeats {
    pub(crate) fn same(&mut self, first: &Definition, second: &Definition) -> bool {
        if first.is_own_name() || second.is_own_name() {
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
    fn equivalent_definitions_are_equal() {
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
