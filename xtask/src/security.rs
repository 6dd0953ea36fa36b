//! Checks that every row and every bullet of SECURITY.md names a test, or a step of the gate.

use std::path::{Path, PathBuf};
use std::{fs, iter};

use xtask::files::{self, relative};
use xtask::trace;

use crate::cargo;

const DOCUMENT: &str = "SECURITY.md";
/// The text that precedes the name of a step in [`DOCUMENT`].
const STEP: &str = "cargo xtask ci ";

/// Checks that SECURITY.md names only existing tests and the given steps. Every statement must name a test or
/// a step.
pub(crate) fn check(root: &Path, steps: &[&str]) -> Result<(), String> {
    let text = fs::read_to_string(root.join(DOCUMENT)).map_err(|error| format!("{DOCUMENT}: {error}"))?;
    let sources = files::below(root)?;
    let mut found = Vec::new();
    for (line, statement) in statements(&text) {
        let references: Vec<_> = references(&statement).collect();
        if references.is_empty() {
            found.push(format!(
                "{DOCUMENT}:{line}: no test or step: name a test as `file.rs::test`, or a step as \
                 `cargo xtask ci STEP`"
            ));
        }
        for reference in references {
            if let Some(what) = reference.problem(root, &sources, steps)? {
                found.push(format!("{DOCUMENT}:{line}: {what}"));
            }
        }
    }
    cargo::report(&found)
}

/// A reference to the test or step that verifies a statement.
#[derive(Debug, PartialEq, Eq)]
enum Reference<'a> {
    /// The end of a file's path, and a test in that file.
    Test(&'a str, &'a str),
    Step(&'a str),
}

impl Reference<'_> {
    /// Returns an error message if the reference is invalid.
    fn problem(&self, root: &Path, sources: &[PathBuf], steps: &[&str]) -> Result<Option<String>, String> {
        let (end, test) = match *self {
            Reference::Test(end, test) => (end, test),
            Reference::Step(name) => {
                return Ok((!steps.contains(&name)).then(|| format!("the gate has no step `{name}`")));
            }
        };
        // `ends_with` compares whole components: `tests.rs` does not match `my_tests.rs`.
        let mut with_end = sources.iter().filter(|path| path.ends_with(end));
        let (Some(path), None) = (with_end.next(), with_end.next()) else {
            return Ok(Some(format!("expected exactly one path that ends in `{end}`")));
        };
        let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let tests = trace::tests(&relative(root, path), &text)?;
        Ok((!tests.iter().any(|name| name == test)).then(|| format!("`{end}` has no test `{test}`")))
    }
}

/// Returns the rows of tables and the items of lists, with their line numbers.
fn statements(text: &str) -> Vec<(usize, String)> {
    let mut statements: Vec<(usize, String)> = Vec::new();
    let mut before = "";
    for (number, line) in (1..).zip(text.lines()) {
        if line.starts_with("|--") {
            // The previous line is the header row of the table, not a statement.
            statements.pop();
        } else if line.starts_with("| ") || line.starts_with("- ") {
            statements.push((number, line.to_owned()));
        } else if line.starts_with("  ")
            && !before.is_empty()
            && let Some((_, item)) = statements.last_mut()
        {
            item.push_str(line);
        }
        before = line;
    }
    statements
}

fn references(text: &str) -> impl Iterator<Item = Reference<'_>> {
    let mut spans = text.split('`');
    iter::from_fn(move || {
        spans.next()?;
        spans.next()
    })
    .filter_map(|span| match span.split_once(".rs::") {
        Some((file, test)) => Some(Reference::Test(span.get(..file.len() + 3)?, test)),
        None => span.strip_prefix(STEP).map(Reference::Step),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_and_items_are_statements() {
        let text = "| a | b |\n|---|---|\n| c | `d` |\n\n- e\n  f\n\ng\n";
        assert_eq!(statements(text), [(3, "| c | `d` |".to_owned()), (5, "- e  f".to_owned())]);
    }

    #[test]
    fn tests_and_steps_are_references() {
        let text = "`a/b.rs::c`, `a::b`, `d` and `cargo xtask ci layers`";
        let expected = [Reference::Test("a/b.rs", "c"), Reference::Step("layers")];
        assert_eq!(references(text).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn names_without_a_test_are_reported() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let sources = files::below(root).unwrap();
        let problem = |reference: Reference<'_>| reference.problem(root, &sources, &["layers"]).unwrap();
        let test = |name| Reference::Test("xtask/src/security.rs", name);
        assert_eq!(problem(test("names_without_a_test_are_reported")), None);
        assert_eq!(problem(Reference::Step("layers")), None);
        for wrong in [test("problem"), Reference::Test("src/lib.rs", "a"), Reference::Step("absent")] {
            assert!(problem(wrong).is_some());
        }
    }
}
