//! The tests of the workspace, and the rules that they name.

use std::fs;
use std::path::Path;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use super::rules::is_id;
use crate::files;

/// A test, and the rules that it names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The rules' ids.
    pub ids: Vec<String>,
    /// The test's name.
    pub test: String,
    /// The test's file, relative to the workspace's root.
    pub file: String,
    /// The line of the test's name.
    pub line: usize,
}

impl Claim {
    /// Returns the position `FILE:LINE`, for messages.
    #[must_use]
    pub fn place(&self) -> String {
        format!("{}:{}", self.file, self.line)
    }
}

/// The prefix of a documentation line that names rules.
const TAG: &str = "Requirement:";
/// Files without tests: generated files, and programs that a test compiles.
const WITHOUT_TESTS: &[&str] =
    &["generated/", "rpcrdma-runtime/src/wire/generated/", "tests/ui/fail/", "tests/ui/pass/"];

/// Returns the tests of the workspace at `root` that name rules, in the order of their files.
///
/// # Errors
/// Reports unreadable files, invalid Rust, invalid ids, ranges of ids, and ignored tests that name rules.
/// Also reports `Requirement:` in the documentation of a function that is not a test.
pub fn claims(root: &Path) -> Result<Vec<Claim>, String> {
    let mut claims = Vec::new();
    let mut found = Vec::new();
    for path in files::below(root)? {
        let name = files::relative(root, &path);
        if !name.ends_with(".rs") || WITHOUT_TESTS.iter().any(|folder| name.starts_with(folder)) {
            continue;
        }
        let text = fs::read_to_string(&path).map_err(|error| format!("{name}: {error}"))?;
        claims.extend(claims_of(&name, &text, &mut found)?);
    }
    super::report(&found)?;
    Ok(claims)
}

/// Returns the names of a file's tests, except ignored tests.
///
/// # Errors
/// Reports invalid Rust.
pub fn tests(file: &str, text: &str) -> Result<Vec<String>, String> {
    let tokens: TokenStream = text.parse().map_err(|error| format!("{file}: {error}"))?;
    let mut functions = Vec::new();
    collect(tokens, &mut functions);
    let tests = functions.into_iter().filter(|function| function.is_test() && !function.has("ignore"));
    Ok(tests.map(|function| function.name).collect())
}

/// Returns the tests of one file that name rules. Problems are appended to `found`.
fn claims_of(file: &str, text: &str, found: &mut Vec<String>) -> Result<Vec<Claim>, String> {
    let tokens: TokenStream = text.parse().map_err(|error| format!("{file}: {error}"))?;
    let mut functions = Vec::new();
    collect(tokens, &mut functions);
    let mut claims = Vec::new();
    for function in functions {
        let ids = function.ids();
        if ids.is_empty() {
            continue;
        }
        let claim = Claim { ids, test: function.name.clone(), file: file.to_owned(), line: function.line };
        let mut say = |what: &str| found.push(format!("{}: `{}` {what}", claim.place(), claim.test));
        for word in claim.ids.iter().filter(|id| !is_id(id, 'R') && !is_id(id, 'H')) {
            say(&format!("names `{word}`, which is not an id"));
        }
        if claim.test.contains("_to_r") || claim.test.contains("_to_h") {
            say("names a range: name each rule separately");
        }
        match (function.is_test(), function.has("ignore")) {
            (true, false) => claims.push(claim),
            (true, true) => say("is ignored, so it cannot verify a rule"),
            (false, _) if function.tagged().next().is_some() => say("is not a test"),
            (false, _) => {}
        }
    }
    Ok(claims)
}

/// A function, found by its tokens, so that functions in macro calls are found too.
struct Function {
    name: String,
    line: usize,
    attributes: Vec<TokenStream>,
}

impl Function {
    fn ids(&self) -> Vec<String> {
        let mut ids: Vec<String> = named(&self.name).chain(self.tagged()).collect();
        ids.sort();
        ids.dedup();
        ids
    }

    /// Returns the words after [`TAG`] in the function's documentation.
    fn tagged(&self) -> impl Iterator<Item = String> {
        let lines = self.attributes.iter().filter_map(documentation);
        lines.flat_map(|line| {
            let words = line.trim().strip_prefix(TAG).unwrap_or_default().to_owned();
            words.split([',', ' ']).filter(|word| !word.is_empty()).map(str::to_owned).collect::<Vec<_>>()
        })
    }

    /// Returns true if the function has `#[test]`, or an attribute such as `#[tokio::test]`.
    fn is_test(&self) -> bool {
        self.attributes.iter().any(|attribute| path(attribute).last().is_some_and(|word| word == "test"))
    }

    fn has(&self, name: &str) -> bool {
        self.attributes.iter().any(|attribute| path(attribute).first().is_some_and(|word| word == name))
    }
}

/// Returns the ids at the start of a name, such as R093 and H44 for `r093_h44_property`.
fn named(name: &str) -> impl Iterator<Item = String> {
    let ids = name.split('_').map(str::to_uppercase);
    ids.take_while(|word| is_id(word, 'R') || is_id(word, 'H')).collect::<Vec<_>>().into_iter()
}

fn path(attribute: &TokenStream) -> Vec<String> {
    let path = attribute.clone().into_iter().take_while(|token| match token {
        TokenTree::Punct(punct) => punct.as_char() == ':',
        other => matches!(other, TokenTree::Ident(_)),
    });
    path.filter(|token| matches!(token, TokenTree::Ident(_))).map(|token| token.to_string()).collect()
}

/// Returns the text of a `doc` attribute (a line of documentation), or `None` for any other attribute.
fn documentation(attribute: &TokenStream) -> Option<String> {
    let mut tokens = attribute.clone().into_iter();
    match (tokens.next()?, tokens.next()?, tokens.next()?) {
        (TokenTree::Ident(doc), TokenTree::Punct(_), TokenTree::Literal(text)) if doc == "doc" => {
            Some(text.to_string().trim_matches(['r', '#', '"']).to_owned())
        }
        _ => None,
    }
}

fn collect(tokens: TokenStream, functions: &mut Vec<Function>) {
    let mut attributes = Vec::new();
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Punct(punct) if punct.as_char() == '#' => {
                if let Some(TokenTree::Group(group)) = tokens.next_if(is_bracketed) {
                    attributes.push(group.stream());
                }
            }
            TokenTree::Ident(word) if word == "fn" => {
                if let Some(TokenTree::Ident(name)) = tokens.peek() {
                    let attributes = std::mem::take(&mut attributes);
                    let line = name.span().start().line;
                    functions.push(Function { name: name.to_string(), line, attributes });
                }
            }
            // These tokens may occur between attributes and `fn`.
            TokenTree::Ident(word) if word == "pub" || word == "async" || word == "const" => {}
            TokenTree::Group(group) => {
                if group.delimiter() != Delimiter::Parenthesis {
                    attributes.clear();
                }
                collect(group.stream(), functions);
            }
            _ => attributes.clear(),
        }
    }
}

fn is_bracketed(token: &TokenTree) -> bool {
    matches!(token, TokenTree::Group(group) if group.delimiter() == Delimiter::Bracket)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Vec<(String, Vec<String>)>, Vec<String>) {
        let mut found = Vec::new();
        let claims = claims_of("a.rs", text, &mut found).unwrap();
        (claims.into_iter().map(|claim| (claim.test, claim.ids)).collect(), found)
    }

    fn ids(text: &str) -> Vec<String> {
        let (claims, found) = read(text);
        assert!(found.is_empty(), "{found:?}");
        claims.into_iter().flat_map(|(_, ids)| ids).collect()
    }

    #[test]
    fn a_name_begins_with_ids() {
        assert_eq!(ids("#[test] fn r093_h04_order_of_r010() {}"), ["H04", "R093"]);
        assert_eq!(ids("#[tokio::test(flavor = \"multi_thread\")] async fn h44_x() {}"), ["H44"]);
        assert!(ids("#[test] fn rust_is_r() {} #[test] fn r12_and_h123() {}").is_empty());
    }

    #[test]
    fn documentation_names_rules_on_separate_lines() {
        let text = "/// Shows it.\n///\n/// Requirement: R071, R074\n/// Requirement: H21\n#[test]\npub(crate) fn x() {}";
        assert_eq!(ids(text), ["H21", "R071", "R074"]);
        assert!(ids("/// See Requirement: R071\n#[test]\nfn x() {}").is_empty());
    }

    #[test]
    fn tests_are_found_in_modules_and_in_macros() {
        let text =
            "mod tests { proptest! { #![config(x)] /// Requirement: R001\n #[test] fn a(b in 0..1) { } } }";
        assert_eq!(ids(text), ["R001"]);
        let line = claims_of("a.rs", "\n\n#[test]\nfn r002_x() {}", &mut Vec::new()).unwrap()[0].line;
        assert_eq!(line, 4);
    }

    #[test]
    fn invalid_claims_are_reported() {
        for (text, expected) in [
            ("/// Requirement: R001\nfn x() {}", "is not a test"),
            ("#[test] #[ignore = \"slow\"] fn r001_x() {}", "is ignored"),
            ("/// Requirement: R1\n#[test] fn x() {}", "names `R1`, which is not an id"),
            ("#[test] fn r001_to_r003_x() {}", "names a range"),
        ] {
            let (claims, found) = read(text);
            assert!(found.iter().any(|found| found.contains(expected)), "{text}: {found:?}");
            assert!(claims.is_empty() || expected.starts_with("names"), "{text}");
        }
    }

    #[test]
    fn attributes_apply_to_the_next_definition() {
        assert!(ids("#[test] struct S; fn r001_x() {}").is_empty(), "only tests name rules");
        assert!(ids("#[cfg(test)] fn r001_x() {}").is_empty());
    }
}
