//! The ledger of long jobs: `docs/ledger.tsv`, with one line for each run. Lines are only appended, so
//! git can merge them (`.gitattributes`).

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::child::print;

const FILE: &str = "docs/ledger.tsv";
pub(crate) const INTEROP: &str = "docs/interop.md";
pub(crate) const BENCHMARKS: &str = "docs/benchmarks.md";
const HEADER: &str = "# date\trevision\tjob\toutcome\tseconds";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The end of the run in UTC, such as `2026-01-31T23:59:59Z`.
    pub(crate) date: String,
    /// The abbreviated commit, with `+` if there were uncommitted changes outside `docs/ledger.tsv`,
    /// `docs/interop.md` and `docs/benchmarks.md`. `unknown` outside a repository.
    pub(crate) revision: String,
    pub(crate) job: String,
    pub(crate) passed: bool,
    pub(crate) seconds: u64,
}

impl Entry {
    pub(crate) fn now(root: &Path, job: &str, passed: bool, took: Duration) -> Result<Self, String> {
        let date = output(root, "date", &["-u", "+%Y-%m-%dT%H:%M:%SZ"])?;
        Ok(Entry { date, revision: revision(root), job: job.to_owned(), passed, seconds: took.as_secs() })
    }

    fn parse(line: &str) -> Option<Self> {
        let columns: Vec<&str> = line.split('\t').collect();
        let [date, revision, job, outcome, seconds] = columns[..] else { return None };
        let passed = match outcome {
            "passed" => true,
            "failed" => false,
            _ => return None,
        };
        let seconds = seconds.parse().ok()?;
        Some(Entry {
            date: date.to_owned(),
            revision: revision.to_owned(),
            job: job.to_owned(),
            passed,
            seconds,
        })
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let outcome = if self.passed { "passed" } else { "failed" };
        let Entry { date, revision, job, seconds, .. } = self;
        write!(out, "{date}\t{revision}\t{job}\t{outcome}\t{seconds}")
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ledger {
    entries: Vec<Entry>,
}

impl Ledger {
    pub(crate) fn read(root: &Path) -> Result<Self, String> {
        let path = root.join(FILE);
        match fs::read_to_string(&path) {
            Ok(text) => Ledger::parse(&text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Ledger::default()),
            Err(error) => Err(format!("{FILE}: {error}")),
        }
    }

    fn parse(text: &str) -> Result<Self, String> {
        let mut entries = Vec::new();
        for (number, line) in text.lines().enumerate() {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let entry = Entry::parse(line);
            entries.push(entry.ok_or_else(|| format!("{FILE}:{}: not an entry: {line}", number + 1))?);
        }
        Ok(Ledger { entries })
    }

    #[cfg(test)]
    pub(crate) fn add(&mut self, entry: Entry) {
        self.entries.push(entry);
    }

    pub(crate) fn last(&self, job: &str) -> Option<&Entry> {
        // If several entries have the same date, the last line wins.
        self.entries.iter().filter(|entry| entry.job == job).max_by(|a, b| a.date.cmp(&b.date))
    }

    pub(crate) fn runs(&self, job: &str) -> usize {
        self.entries.iter().filter(|entry| entry.job == job).count()
    }

    pub(crate) fn last_passed(&self, job: &str) -> Option<&Entry> {
        let passed = self.entries.iter().filter(|entry| entry.job == job && entry.passed);
        passed.max_by(|a, b| a.date.cmp(&b.date))
    }

    pub(crate) fn duration(&self, job: &str) -> Option<Duration> {
        self.last_passed(job).map(|entry| Duration::from_secs(entry.seconds))
    }

    /// Sorts jobs by their latest runs, oldest first. Jobs that never ran precede all other jobs.
    pub(crate) fn by_age<'a>(&self, jobs: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
        let mut jobs: Vec<&str> = jobs.into_iter().collect();
        // The sort is stable: jobs that never ran stay in the given order.
        jobs.sort_by_key(|job| self.last(job).map(|entry| entry.date.clone()));
        jobs
    }
}

pub(crate) fn record(root: &Path, job: &str, passed: bool, took: Duration) -> Result<(), String> {
    let entry = Entry::now(root, job, passed, took)?;
    append(root, &entry)?;
    print(&format!("\n{FILE}: {entry}"));
    Ok(())
}

fn append(root: &Path, entry: &Entry) -> Result<(), String> {
    let path = root.join(FILE);
    let failed = |error: io::Error| format!("{FILE}: {error}");
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(failed)?;
    }
    let mut file = OpenOptions::new().append(true).create(true).open(&path).map_err(failed)?;
    if file.metadata().map_err(failed)?.len() == 0 {
        writeln!(file, "{HEADER}").map_err(failed)?;
    }
    writeln!(file, "{entry}").map_err(failed)
}

/// Returns the revision for a new entry. The revision is `unknown` outside a repository, such as in an
/// archive of the source.
fn revision(root: &Path) -> String {
    let git = |arguments: &[&str]| output(root, "git", arguments);
    let Ok(mut revision) = git(&["rev-parse", "--short=12", "HEAD"]) else { return "unknown".to_owned() };
    let written_by_jobs = [FILE, INTEROP, BENCHMARKS].map(|file| format!(":!{file}"));
    let status =
        ["status", "--porcelain", "--", "."].into_iter().chain(written_by_jobs.iter().map(String::as_str));
    let changes = git(&status.collect::<Vec<_>>());
    if changes.is_ok_and(|changes| !changes.is_empty()) {
        revision.push('+');
    }
    revision
}

fn output(root: &Path, program: &str, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(program).args(arguments).current_dir(root).output();
    let output = output.map_err(|error| format!("cannot run `{program}`: {error}"))?;
    if !output.status.success() {
        return Err(format!("`{program}` failed: {}", String::from_utf8_lossy(&output.stderr).trim_end()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(date: &str, job: &str, passed: bool, seconds: u64) -> Entry {
        Entry { date: date.to_owned(), revision: "abc".to_owned(), job: job.to_owned(), passed, seconds }
    }

    #[test]
    fn appended_data_is_read_back() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(Ledger::read(root.path()), Ok(Ledger::default()));
        let entries = vec![
            entry("2026-01-01T00:00:00Z", "faults", true, 900),
            entry("2026-01-02T00:00:00Z", "bench", false, 3),
        ];
        for entry in &entries {
            append(root.path(), entry).unwrap();
        }
        assert_eq!(Ledger::read(root.path()).unwrap().entries, entries);
        let text = fs::read_to_string(root.path().join(FILE)).unwrap();
        assert_eq!(text.lines().filter(|line| line.starts_with('#')).count(), 1, "{text}");
    }

    #[test]
    fn an_invalid_line_is_named() {
        for line in [
            "2026-01-01\tabc\tfaults\tpassed",
            "2026-01-01\tabc\tfaults\tperhaps\t1",
            "2026-01-01\tabc\tfaults\tpassed\tx",
        ] {
            let error = Ledger::parse(&format!("{HEADER}\n\n{line}\n")).unwrap_err();
            assert_eq!(error, format!("docs/ledger.tsv:3: not an entry: {line}"));
        }
    }

    #[test]
    fn jobs_that_never_ran_come_first_and_then_the_oldest() {
        // After a merge, lines may be out of chronological order.
        let ledger = Ledger {
            entries: vec![
                entry("2026-01-03T00:00:00Z", "a", true, 30),
                entry("2026-01-01T00:00:00Z", "a", true, 10),
                entry("2026-01-02T00:00:00Z", "b", true, 20),
                entry("2026-01-04T00:00:00Z", "b", false, 1),
            ],
        };
        assert_eq!(ledger.by_age(["b", "x", "a", "y"]), ["x", "y", "a", "b"]);
        assert_eq!(ledger.last("b").map(|entry| entry.passed), Some(false));
        assert_eq!(ledger.duration("b"), Some(Duration::from_secs(20)), "failed runs are ignored");
        assert_eq!(ledger.duration("x"), None);
    }

    #[test]
    fn a_new_entry_has_the_revision() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let now = Entry::now(&root, "faults", true, Duration::from_secs(7)).unwrap();
        assert_eq!(Entry::parse(&now.to_string()), Some(now.clone()));
        assert!(now.date.ends_with('Z') && now.date.len() == 20, "{now}");
    }
}
