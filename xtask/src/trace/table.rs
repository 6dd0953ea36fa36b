//! Renders rules and their tests, for a terminal and as a Markdown table.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::rules::{Entry, Status};
use super::{Claim, Trace};

/// The statuses, best first.
const STATUSES: [Status; 4] = [Status::Met, Status::Excepted, Status::NotApplicable, Status::Missing];

pub(super) fn line(entry: &Entry) -> String {
    let level = entry.level.map_or("", |level| level.word());
    format!("{} {level:<10} {:<24} {}: {}", entry.id, place(entry), entry.binds, entry.text)
}

fn place(entry: &Entry) -> String {
    format!("{} {}", entry.source, entry.section).trim().to_owned()
}

/// Returns the rules by status, each with its tests, its reason or remaining work, and its note. The text
/// ends with the number of rules of each status per source document.
pub(super) fn report(trace: &Trace) -> String {
    let mut text = String::new();
    for status in STATUSES {
        let _ = writeln!(text, "{}:", status.word());
        for entry in trace.entries.iter().filter(|entry| entry.status == status) {
            let _ = writeln!(text, "  {}", line(entry));
            for test in tests(trace, entry) {
                let _ = writeln!(text, "         {} {}", test.place(), test.test);
            }
            for why in entry.why.iter().chain(&entry.note) {
                let _ = writeln!(text, "         {why}");
            }
        }
    }
    for (source, counts) in counts(trace) {
        let _ = writeln!(text, "{source}: {}", sum(counts));
    }
    text
}

fn tests<'a>(trace: &'a Trace, entry: &Entry) -> &'a [Claim] {
    trace.tests.get(&entry.id).map_or(&[], Vec::as_slice)
}

fn counts(trace: &Trace) -> BTreeMap<&str, [usize; 4]> {
    let mut counts: BTreeMap<&str, [usize; 4]> = BTreeMap::new();
    for entry in &trace.entries {
        let counts = counts.entry(&entry.source).or_default();
        for (count, _) in counts.iter_mut().zip(STATUSES).filter(|(_, status)| *status == entry.status) {
            *count += 1;
        }
    }
    counts
}

fn sum(counts: [usize; 4]) -> String {
    let words = counts.iter().zip(STATUSES).map(|(count, status)| format!("{count} {}", status.word()));
    words.collect::<Vec<_>>().join(", ")
}

/// Returns the table that README links to.
pub(super) fn markdown(trace: &Trace) -> String {
    let mut text = HEAD.to_owned();
    for (source, [met, excepted, not_applicable, missing]) in counts(trace) {
        let _ = writeln!(text, "| {source} | {met} | {excepted} | {not_applicable} | {missing} |");
    }
    let musts = trace.entries.iter().filter(|entry| entry.is_missing_must()).count();
    let _ = writeln!(text, "\nMissing rules with the level MUST or MUST NOT: {musts}.");
    let rules = trace.entries.iter().filter(|entry| entry.level.is_some());
    text.push_str(
        "\n## Rules\n\n| Id | Where | Level | Binds | Rule | Status |\n|---|---|---|---|---|---|\n",
    );
    for entry in rules {
        let level = entry.level.map_or("", |level| level.word());
        let (place, status) = (place(entry), status(trace, entry));
        let rule_text = rule_text(entry);
        let _ =
            writeln!(text, "| {} | {place} | {level} | {} | {rule_text} | {status} |", entry.id, entry.binds);
    }
    text.push_str("\n## Hostile inputs\n\n| Id | Input | Outcome | Status |\n|---|---|---|---|\n");
    for entry in trace.entries.iter().filter(|entry| entry.level.is_none()) {
        let (rule_text, status) = (rule_text(entry), status(trace, entry));
        let _ = writeln!(text, "| {} | {} | {rule_text} | {status} |", entry.id, cell(&entry.binds));
    }
    text
}

const HEAD: &str = "\
# Rules and their tests

Written by `cargo xtask trace --table` from the TOML files in this directory and from tests. Do not edit.
The rules are paraphrased; their documents are authoritative.

- **met**: the code follows the rule, and the named tests fail otherwise.
- **excepted**: the code deviates from the rule on purpose.
- **not applicable**: the rule does not apply to this project.
- **missing**: the code does not follow the rule yet, or no test verifies it.

| Source | Met | Excepted | Not applicable | Missing |
|---|---|---|---|---|
";

fn rule_text(entry: &Entry) -> String {
    let note = entry.note.as_ref().map(|note| format!(" *{}*", cell(note))).unwrap_or_default();
    format!("{}{note}", cell(&entry.text))
}

/// Returns the status, the reason or the remaining work (if any), and links to the tests.
fn status(trace: &Trace, entry: &Entry) -> String {
    let mut text = entry.status.word().to_owned();
    if let Some(why) = &entry.why {
        let _ = write!(text, ": {}", cell(why));
    }
    for test in tests(trace, entry) {
        let _ = write!(text, "<br>[{}](../../{})", test.test, test.file);
    }
    text
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::Level;

    fn trace() -> Trace {
        let entry = |id: &str, level, status, why: Option<&str>| Entry {
            id: id.into(),
            source: "RFC 1".into(),
            section: "4.2".into(),
            level,
            binds: "a | b".into(),
            text: "It is so.".into(),
            status,
            why: why.map(str::to_owned),
            note: None,
            place: String::new(),
        };
        let entries = vec![
            entry("H01", None, Status::Met, None),
            entry("R001", Some(Level::Must), Status::Missing, Some("Much.")),
        ];
        let claim = Claim { ids: vec!["H01".into()], test: "h01_x".into(), file: "a/b.rs".into(), line: 3 };
        Trace { entries, tests: [("H01".to_owned(), vec![claim])].into() }
    }

    #[test]
    fn the_report_has_tests_reasons_and_counts() {
        let text = report(&trace());
        for expected in [
            "         a/b.rs:3 h01_x\n",
            "         Much.\n",
            "RFC 1: 1 met, 0 excepted, 0 not applicable, 1 missing",
        ] {
            assert!(text.contains(expected), "no `{expected}` in {text}");
        }
    }

    #[test]
    fn the_table_links_tests_and_keeps_its_columns() {
        let text = markdown(&trace());
        for expected in [
            "| RFC 1 | 1 | 0 | 0 | 1 |",
            "Missing rules with the level MUST or MUST NOT: 1.",
            "| H01 | a \\| b | It is so. | met<br>[h01_x](../../a/b.rs) |",
            "| missing: Much. |",
        ] {
            assert!(text.contains(expected), "no `{expected}` in {text}");
        }
    }
}
