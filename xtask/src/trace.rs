//! `cargo xtask trace`: the rules of the source documents, and the tests that verify them.
//!
//! The rules are in `specs/requirements/*.toml`. A test names the rules that it verifies, either
//! in the test's name (`r093_r094_...`, `h44_...`) or in its documentation (`/// Requirement: R071, R074`).

mod claims;
mod rules;
mod table;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

pub use claims::{Claim, claims, tests};
pub use rules::{Entry, Level, Status, entries};

const COMMAND: &str = "cargo xtask trace --table";
/// The directory of the rules.
pub const RULES: &str = "specs/requirements";
/// The generated table of the rules.
const TABLE: &str = "specs/requirements/README.md";

/// Options of `cargo xtask trace`.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// Print no list; also fail if the table is out of date
    #[arg(long)]
    consistent: bool,
    /// Write the table that README links to
    #[arg(long, conflicts_with = "consistent")]
    table: bool,
}

/// All rules, and the tests that verify each rule.
#[derive(Debug, Default)]
pub struct Trace {
    /// The rules, sorted by id.
    pub entries: Vec<Entry>,
    /// The tests of each rule, by the rule's id. Rules without tests are absent.
    pub tests: BTreeMap<String, Vec<Claim>>,
}

/// Prints every rule with its status and its tests, writes the table, or only checks for consistency.
///
/// # Errors
/// Fails if [`read`] fails or, except with `--table`, a MUST or MUST NOT has the status `missing`. Also fails
/// if the table cannot be written or, with `--consistent`, is out of date.
pub fn run(root: &Path, arguments: &Arguments) -> Result<(), String> {
    if arguments.consistent {
        return check(root);
    }
    let trace = read(root)?;
    if arguments.table {
        return write(root, &table::markdown(&trace));
    }
    show(&table::report(&trace));
    nothing_is_missing(&trace)
}

fn nothing_is_missing(trace: &Trace) -> Result<(), String> {
    let missing: Vec<String> =
        trace.entries.iter().filter(|entry| entry.is_missing_must()).map(table::line).collect();
    report(&missing).map_err(|list| format!("missing rules:{list}"))
}

/// Checks that rules, tests and the table agree, and that no MUST or MUST NOT has the status `missing`.
///
/// # Errors
/// Fails if [`read`] fails, a MUST or MUST NOT has the status `missing`, or the table is out of date.
pub fn check(root: &Path) -> Result<(), String> {
    let trace = read(root)?;
    nothing_is_missing(&trace)?;
    let fresh = fs::read_to_string(root.join(TABLE)).is_ok_and(|old| old == table::markdown(&trace));
    if fresh { Ok(()) } else { Err(format!("{TABLE} is out of date: run `{COMMAND}`")) }
}

/// Reads the rules and the tests of the workspace at `root`.
///
/// # Errors
/// Reports unreadable files, invalid rules, invalid Rust, and invalid references to rules. Also reports
/// contradictions between tests and rules.
pub fn read(root: &Path) -> Result<Trace, String> {
    join(entries(&root.join(RULES), root)?, claims(root)?)
}

/// Assigns tests to rules.
///
/// # Errors
/// Fails if a test names an unknown rule, a `met` rule has no test, or a `missing` or `not applicable` rule
/// has a test.
pub fn join(entries: Vec<Entry>, claims: Vec<Claim>) -> Result<Trace, String> {
    let mut trace = Trace { entries, tests: BTreeMap::new() };
    let mut found = Vec::new();
    for claim in claims {
        for id in &claim.ids {
            if trace.entries.iter().any(|entry| entry.id == *id) {
                trace.tests.entry(id.clone()).or_default().push(claim.clone());
            } else {
                found.push(format!("{}: `{}` names the unknown rule {id}", claim.place(), claim.test));
            }
        }
    }
    for entry in &trace.entries {
        let test = trace.tests.get(&entry.id).and_then(|tests| tests.first());
        let problem = match (entry.status, test) {
            (Status::Met, None) => "is marked as met, but no test names it".to_owned(),
            (Status::Missing, Some(test)) => format!("is marked as missing, but `{}` verifies it", test.test),
            (Status::NotApplicable, Some(test)) => {
                format!("is marked as not applicable, but `{}` verifies it", test.test)
            }
            _ => continue,
        };
        found.push(format!("{}: {} {problem}", entry.place, entry.id));
    }
    report(&found)?;
    Ok(trace)
}

fn write(root: &Path, text: &str) -> Result<(), String> {
    fs::write(root.join(TABLE), text).map_err(|error| format!("{TABLE}: {error}"))
}

/// Prints a text. Ignores write errors, since a reader such as `head` may close the pipe early.
fn show(text: &str) {
    let _ = std::io::Write::write_all(&mut std::io::stdout(), text.as_bytes());
}

fn report(found: &[String]) -> Result<(), String> {
    let list = found.iter().fold(String::new(), |mut list, line| {
        let _ = write!(list, "\n  {line}");
        list
    });
    if list.is_empty() { Ok(()) } else { Err(list) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(id: &str, status: Status) -> Entry {
        Entry {
            id: id.into(),
            source: "RFC 8166".into(),
            section: "4.2".into(),
            level: Some(Level::Must),
            binds: "both".into(),
            text: "It is so.".into(),
            status,
            why: None,
            note: None,
            place: "rfc8166.toml:1".into(),
        }
    }

    fn claim(ids: &[&str]) -> Claim {
        let ids = ids.iter().map(|id| (*id).to_owned()).collect();
        Claim { ids, test: "it_is_so".into(), file: "a.rs".into(), line: 7 }
    }

    #[test]
    fn rules_and_tests_are_joined_by_id() {
        let entries = vec![entry("R001", Status::Met), entry("R002", Status::Missing)];
        let trace = join(entries, vec![claim(&["R001"])]).unwrap();
        assert_eq!(trace.tests["R001"].len(), 1);
        assert!(!trace.tests.contains_key("R002"));
    }

    #[test]
    fn all_mismatches_are_reported_together() {
        let statuses = [Status::Met, Status::Missing, Status::NotApplicable, Status::Excepted];
        let ids = ["R001", "R002", "R003", "R004"];
        let entries = ids.iter().zip(statuses).map(|(id, status)| entry(id, status)).collect();
        let error = join(entries, vec![claim(&["R002", "R003", "R004", "R999"])]).unwrap_err();
        for expected in [
            "a.rs:7: `it_is_so` names the unknown rule R999",
            "R001 is marked as met, but no test names it",
            "R002 is marked as missing, but `it_is_so` verifies it",
            "R003 is marked as not applicable, but `it_is_so` verifies it",
        ] {
            assert!(error.contains(expected), "no `{expected}` in {error}");
        }
        assert!(!error.contains("R004"), "an excepted rule may have a test: {error}");
    }

    #[test]
    fn missing_musts_are_distinguished() {
        assert!(entry("R001", Status::Missing).is_missing_must());
        assert!(!entry("R001", Status::Excepted).is_missing_must());
        let level = |level| Entry { level, ..entry("R001", Status::Missing) };
        assert!(level(Some(Level::MustNot)).is_missing_must());
        assert!(!level(Some(Level::Should)).is_missing_must());
        assert!(!level(None).is_missing_must());
    }
}
