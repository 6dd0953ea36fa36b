//! The rules in `specs/requirements/*.toml`, and the format of these files.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::Deserialize;
use toml::Spanned;

use crate::files;

/// A rule of a source document, or a hostile input.
#[derive(Clone, Debug)]
pub struct Entry {
    /// `R` and three digits for a rule, `H` and two digits for a hostile input.
    pub id: String,
    /// The source document.
    pub source: String,
    /// The section; empty for a hostile input.
    pub section: String,
    /// The requirement level; `None` for a hostile input.
    pub level: Option<Level>,
    /// The parties to which the rule applies; for a hostile input, the input.
    pub binds: String,
    /// The rule; for a hostile input, the required behavior.
    pub text: String,
    /// The status in this project.
    pub status: Status,
    /// The reason why the rule is excepted or not applicable, or the remaining work for a missing rule.
    pub why: Option<String>,
    /// Additional remarks.
    pub note: Option<String>,
    /// The position of the entry, as `FILE:LINE`.
    pub place: String,
}

/// The requirement level (RFC 2119) that a document assigns to a rule.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
pub enum Level {
    /// MUST, REQUIRED or SHALL.
    #[serde(rename = "MUST")]
    Must,
    /// MUST NOT or SHALL NOT.
    #[serde(rename = "MUST NOT")]
    MustNot,
    /// SHOULD or RECOMMENDED.
    #[serde(rename = "SHOULD")]
    Should,
    /// SHOULD NOT or NOT RECOMMENDED.
    #[serde(rename = "SHOULD NOT")]
    ShouldNot,
    /// MAY or OPTIONAL.
    #[serde(rename = "MAY")]
    May,
    /// A statement without an RFC 2119 keyword.
    #[serde(rename = "rule")]
    Plain,
}

/// The status of a rule in this project.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// The code follows the rule, and tests verify this.
    Met,
    /// The rule does not apply to this project.
    #[serde(rename = "not applicable")]
    NotApplicable,
    /// The code deviates from the rule on purpose.
    Excepted,
    /// The code does not follow the rule yet, or no test verifies the rule.
    Missing,
}

impl Level {
    /// Returns the RFC 2119 keyword, or `rule` for a statement without a keyword.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Level::Must => "MUST",
            Level::MustNot => "MUST NOT",
            Level::Should => "SHOULD",
            Level::ShouldNot => "SHOULD NOT",
            Level::May => "MAY",
            Level::Plain => "rule",
        }
    }
}

impl Status {
    /// Returns the spelling in the TOML files.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Status::Met => "met",
            Status::NotApplicable => "not applicable",
            Status::Excepted => "excepted",
            Status::Missing => "missing",
        }
    }
}

impl Entry {
    /// Returns true for a MUST or MUST NOT with the status `missing`, which makes `cargo xtask trace` fail.
    #[must_use]
    pub fn is_missing_must(&self) -> bool {
        self.status == Status::Missing && matches!(self.level, Some(Level::Must | Level::MustNot))
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Groups {
    group: Vec<Group>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    title: String,
    first: String,
    last: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    document: String,
    #[serde(default)]
    rule: Vec<Spanned<Rule>>,
    #[serde(default)]
    input: Vec<Spanned<Input>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    id: String,
    section: String,
    level: Level,
    binds: Binds,
    text: String,
    status: Status,
    reason: Option<String>,
    todo: Option<String>,
    note: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    id: String,
    arrives: String,
    outcome: String,
    status: Status,
    reason: Option<String>,
    todo: Option<String>,
    note: Option<String>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Binds {
    Requester,
    Responder,
    Both,
    Provider,
    #[serde(rename = "upper layer")]
    UpperLayer,
    Authors,
}

impl Binds {
    fn word(self) -> &'static str {
        match self {
            Binds::Requester => "requester",
            Binds::Responder => "responder",
            Binds::Both => "both",
            Binds::Provider => "provider",
            Binds::UpperLayer => "upper layer",
            Binds::Authors => "authors of protocols",
        }
    }
}

const GROUPS: &str = "groups.toml";

/// Reads every rule below `directory`, sorted by id.
///
/// # Errors
/// Reports unreadable files, invalid TOML, invalid groups, and invalid or contradictory fields. Also reports
/// invalid, duplicate and missing ids, and ids outside groups.
pub fn entries(directory: &Path, root: &Path) -> Result<Vec<Entry>, String> {
    let mut found = Vec::new();
    let mut by_id: BTreeMap<String, Entry> = BTreeMap::new();
    let mut groups = None;
    for path in files::below(directory)? {
        let name = files::relative(root, &path);
        if path.extension().is_none_or(|extension| extension != "toml") {
            continue;
        }
        let text = fs::read_to_string(&path).map_err(|error| format!("{name}: {error}"))?;
        if path.file_name().is_some_and(|file| file == GROUPS) {
            let read: Groups = toml::from_str(&text).map_err(|error| format!("{name}: {error}"))?;
            groups = Some(read.group);
            continue;
        }
        for entry in file(&name, &text, &mut found)? {
            if let Some(first) = by_id.get(&entry.id) {
                found.push(format!("{}: {} is also at {}", entry.place, entry.id, first.place));
            } else {
                by_id.insert(entry.id.clone(), entry);
            }
        }
    }
    let groups = groups.ok_or_else(|| format!("{}: no {GROUPS}", directory.display()))?;
    check_groups(&groups, &by_id, &mut found);
    super::report(&found)?;
    Ok(by_id.into_values().collect())
}

/// Returns the entries of one file. Problems are appended to `found`.
fn file(name: &str, text: &str, found: &mut Vec<String>) -> Result<Vec<Entry>, String> {
    let File { document, rule, input } = toml::from_str(text).map_err(|error| format!("{name}: {error}"))?;
    let place = |at: usize| format!("{name}:{}", text.get(..at).unwrap_or(text).lines().count() + 1);
    let rules = rule.into_iter().map(|rule| {
        let place = place(rule.span().start);
        rule_entry(rule.into_inner(), &document, place)
    });
    let inputs = input.into_iter().map(|input| {
        let place = place(input.span().start);
        input_entry(input.into_inner(), &document, place)
    });
    Ok(rules.chain(inputs).map(|(entry, reason, todo)| checked(entry, reason, todo, found)).collect())
}

/// An entry with its `reason` and `todo`.
type Raw = (Entry, Option<String>, Option<String>);

fn rule_entry(rule: Rule, document: &str, place: String) -> Raw {
    let entry = Entry {
        id: rule.id,
        source: document.to_owned(),
        section: rule.section,
        level: Some(rule.level),
        binds: rule.binds.word().to_owned(),
        text: rule.text,
        status: rule.status,
        why: None,
        note: rule.note,
        place,
    };
    (entry, rule.reason, rule.todo)
}

fn input_entry(input: Input, document: &str, place: String) -> Raw {
    let entry = Entry {
        id: input.id,
        source: document.to_owned(),
        section: String::new(),
        level: None,
        binds: input.arrives,
        text: input.outcome,
        status: input.status,
        why: None,
        note: input.note,
        place,
    };
    (entry, input.reason, input.todo)
}

fn checked(mut entry: Entry, reason: Option<String>, todo: Option<String>, found: &mut Vec<String>) -> Entry {
    let mut say = |what: &str| found.push(format!("{}: {} {what}", entry.place, entry.id));
    if !is_id(&entry.id, if entry.level.is_some() { 'R' } else { 'H' }) {
        say("is not an id: expected R and three digits for a rule, H and two digits for a hostile input");
    }
    if entry.level.is_some() && !entry.section.starts_with(|c: char| c.is_ascii_alphanumeric()) {
        say("has no section");
    }
    for text in [&entry.binds, &entry.text].into_iter().chain(&reason).chain(&todo).chain(&entry.note) {
        if text.trim().is_empty() || text.contains('\n') {
            say("has a field that is empty or has several lines");
        }
    }
    if !entry.text.ends_with('.') {
        say("has a text that does not end with a full stop");
    }
    let (needs_reason, needs_todo) = match entry.status {
        Status::Met => (false, false),
        Status::NotApplicable | Status::Excepted => (true, false),
        Status::Missing => (false, true),
    };
    if reason.is_some() != needs_reason {
        say("must have a `reason` if and only if its status is `not applicable` or `excepted`");
    }
    if todo.is_some() != needs_todo {
        say("must have a `todo` if and only if its status is `missing`");
    }
    entry.why = reason.or(todo);
    entry
}

/// Returns true if a word is an id with this letter: `R` and three digits, or another letter and two digits.
pub(super) fn is_id(word: &str, letter: char) -> bool {
    let digits = word.strip_prefix(letter);
    let len = if letter == 'R' { 3 } else { 2 };
    digits.is_some_and(|digits| digits.len() == len && digits.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Checks that every id in a group has an entry, and that every entry is in one group.
fn check_groups(groups: &[Group], by_id: &BTreeMap<String, Entry>, found: &mut Vec<String>) {
    let mut wanted: BTreeMap<String, &str> = BTreeMap::new();
    for group in groups {
        let ids = between(&group.first, &group.last);
        if ids.is_empty() {
            found.push(format!("{GROUPS}: `{}`: `first` to `last` is not a range of ids", group.title));
        }
        for id in ids {
            if let Some(other) = wanted.insert(id.clone(), &group.title) {
                found.push(format!("{GROUPS}: {id} is in `{other}` and in `{}`", group.title));
            }
        }
    }
    for (id, title) in wanted.iter().filter(|(id, _)| !by_id.contains_key(*id)) {
        found.push(format!("{GROUPS}: {id} of `{title}` has no entry"));
    }
    for entry in by_id.values().filter(|entry| !wanted.contains_key(&entry.id)) {
        found.push(format!("{}: {} is in no group of {GROUPS}", entry.place, entry.id));
    }
}

/// Returns the ids from the first to the last, or none if the range is invalid.
fn between(first: &str, last: &str) -> Vec<String> {
    let number = |id: &str| id.get(1..).and_then(|digits| digits.parse::<u16>().ok());
    let letter = first.chars().next().filter(|letter| is_id(first, *letter) && is_id(last, *letter));
    match (letter, number(first), number(last)) {
        (Some(letter), Some(low), Some(high)) => {
            let width = first.len() - 1;
            (low..=high).map(|number| format!("{letter}{number:0width$}")).collect()
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "document = \"RFC 1\"\n\n[[rule]]\nid = \"R001\"\nsection = \"4.2\"\nlevel = \"MUST NOT\"\n\
                        binds = \"upper layer\"\ntext = \"It is so.\"\nstatus = \"met\"\n";

    fn read(rules: &str, last: &str) -> Result<Vec<Entry>, String> {
        let folder = tempfile::tempdir().unwrap();
        let groups = format!("[[group]]\ntitle = \"All\"\nfirst = \"R001\"\nlast = \"{last}\"\n");
        fs::write(folder.path().join(GROUPS), groups).unwrap();
        fs::write(folder.path().join("rfc1.toml"), rules).unwrap();
        fs::write(folder.path().join("README.md"), "not a file of rules").unwrap();
        entries(folder.path(), folder.path())
    }

    fn refused(rules: &str, last: &str, expected: &str) {
        let error = read(rules, last).unwrap_err();
        assert!(error.contains(expected), "no `{expected}` in {error}");
    }

    #[test]
    fn a_good_file_is_read() {
        let entries = read(GOOD, "R001").unwrap();
        assert_eq!(entries.len(), 1);
        assert_eq!((entries[0].source.as_str(), entries[0].level), ("RFC 1", Some(Level::MustNot)));
        assert_eq!(entries[0].place, "rfc1.toml:3");
    }

    #[test]
    fn ids_have_no_gaps_or_duplicates() {
        refused(GOOD, "R002", "R002 of `All` has no entry");
        refused(&GOOD.replace("R001", "R002"), "R001", "R002 is in no group");
        refused(&GOOD.replace("R001", "R01"), "R001", "R01 is not an id");
        let twice = format!("{GOOD}{}", &GOOD[GOOD.find("[[rule]]").unwrap()..]);
        refused(&twice, "R001", "rfc1.toml:10: R001 is also at rfc1.toml:3");
        refused(GOOD, "H99", "is not a range of ids");
    }

    #[test]
    fn contradictory_fields_are_rejected() {
        refused(&GOOD.replace("\"met\"", "\"missing\""), "R001", "must have a `todo` if and only if");
        refused(&GOOD.replace("\"met\"", "\"excepted\""), "R001", "must have a `reason` if and only if");
        refused(&format!("{GOOD}todo = \"Much.\"\n"), "R001", "must have a `todo` if and only if");
        refused(&GOOD.replace("It is so.", "It is so"), "R001", "full stop");
        refused(&GOOD.replace("4.2", ""), "R001", "no section");
        refused(&GOOD.replace("MUST NOT", "OUGHT TO"), "R001", "OUGHT TO");
        refused(&GOOD.replace("level", "strength"), "R001", "strength");
        let missing = GOOD.replace("\"met\"", "\"missing\"\ntodo = \"Much.\"");
        assert_eq!(read(&missing, "R001").unwrap()[0].why.as_deref(), Some("Much."));
    }
}
