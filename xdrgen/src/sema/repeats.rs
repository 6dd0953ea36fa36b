//! Names that are defined more than once: whether it is the same each time, and what is said of it.

use std::hash::{DefaultHasher, Hasher};

use super::scope::is_own_name;
use crate::ast::{Definition, Identifier, Value};
use crate::diag::Diagnostic;
use crate::hash::HashMap;
use crate::source::Span;

/// What definitions have been compared.
#[derive(Default)]
pub(crate) struct Repeats {
    /// Sums of the definitions' texts: a long one that is defined again many times is not read each time.
    sums: HashMap<Span, u64>,
}

impl Repeats {
    /// Whether two definitions of one name are the same but for comments and layout.
    pub(crate) fn same(&mut self, first: &Definition, second: &Definition) -> bool {
        if is_own_name(first) || is_own_name(second) {
            return true;
        }
        self.sum(first) == self.sum(second) && bare(&first.text) == bare(&second.text)
    }

    fn sum(&mut self, definition: &Definition) -> u64 {
        let sum = || {
            let mut hasher = DefaultHasher::new();
            hasher.write(bare(&definition.text).as_bytes());
            hasher.finish()
        };
        *self.sums.entry(definition.span).or_insert_with(sum)
    }
}

pub(crate) fn same_value(first: &Value, second: &Value) -> bool {
    match (first, second) {
        (Value::Literal { value: first, .. }, Value::Literal { value: second, .. }) => first == second,
        (Value::Name(first), Value::Name(second)) => first.name == second.name,
        _ => false,
    }
}

/// A definition's text without comments and blanks. Blanks between words stay, as one.
fn bare(text: &str) -> String {
    let mut rest = text;
    let mut kept = String::new();
    while let Some(start) = rest.find("/*") {
        kept.push_str(rest.get(..start).unwrap_or(""));
        kept.push(' ');
        let comment = rest.get(start..).unwrap_or("");
        rest = comment.split_once("*/").map_or("", |(_, behind)| behind);
    }
    kept.push_str(rest);
    let mut bare = String::new();
    for word in kept.lines().flat_map(|line| line.split("//").next()).flat_map(str::split_whitespace) {
        let part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
        if part(bare.chars().last()) && part(word.chars().next()) {
            bare.push(' ');
        }
        bare.push_str(word);
    }
    bare
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

    #[test]
    fn a_repetition_may_differ_in_layout_and_comments() {
        assert_eq!(bare("struct a {\n  int b; /* x */\n};"), bare("struct a { int  b ; };"));
        assert_ne!(bare("struct a { int b; };"), bare("struct a { int c; };"));
        assert_ne!(bare("typedef unsigned hyper a;"), bare("typedef unsignedhyper a;"));
    }
}
