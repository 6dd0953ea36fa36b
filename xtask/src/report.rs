//! The report at the end of a run: outcomes, skipped tests and steps, and the total numbers of tests.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    passed: u64,
    failed: u64,
    skipped: u64,
}

impl Totals {
    /// Adds the counts of a line of output if the line is a summary, such as
    /// `test result: ok. 3 passed; 0 failed; 1 ignored; …`.
    pub(crate) fn add(&mut self, line: &str) {
        let Some(summary) = line.strip_prefix("test result: ") else { return };
        // The outcome ends with a full stop.
        let counts = summary.split_once(". ").map_or("", |(_, counts)| counts);
        for count in counts.split(';') {
            let mut words = count.split_whitespace();
            let number = words.next().and_then(|number| number.parse::<u64>().ok());
            let (Some(number), Some(what)) = (number, words.next()) else { continue };
            match what {
                "passed" => self.passed += number,
                "failed" => self.failed += number,
                "ignored" => self.skipped += number,
                _ => {}
            }
        }
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Passed,
    Failed,
    TimedOut,
    /// The step recorded that it cannot run here, or the deadline of the gate ended a long job.
    NotRun,
    /// The step did not run, because an earlier step failed.
    NotReached,
}

impl Outcome {
    pub(crate) fn has_run(self) -> bool {
        !matches!(self, Outcome::NotRun | Outcome::NotReached)
    }

    pub(crate) fn is_failure(self) -> bool {
        matches!(self, Outcome::Failed | Outcome::TimedOut)
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(match self {
            Outcome::Passed => "passed",
            Outcome::Failed => "failed",
            Outcome::TimedOut => "timed out",
            Outcome::NotRun => "not run",
            Outcome::NotReached => "not reached",
        })
    }
}

/// Skipped tests and steps, from their records (package `not-run`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NotRun {
    /// Skipped tests and steps that `elsewhere` does not count, each with its reason, without duplicates.
    here: Vec<(String, String)>,
    /// For each reason, the number of skipped tests that another step or a long job runs.
    elsewhere: BTreeMap<String, usize>,
}

/// Prefixes of the names of environment variables that select tests (`RPCRDMA_LAB` also matches
/// `RPCRDMA_LAB_SUITES`). If the reason for skipping a test begins with one of these prefixes, another step
/// or a long job runs the test.
const ELSEWHERE: [&str; 3] = ["RPCRDMA_LAB", "RPCRDMA_PEERS", "RPCRDMA_RPCBIND"];

impl NotRun {
    /// Adds the records of a step. Returns true if a record is for the step itself.
    pub(crate) fn add(&mut self, step: &str, records: &str) -> bool {
        let mut is_step = false;
        for (what, why) in records.lines().filter_map(|line| line.split_once('\t')) {
            is_step |= what == step;
            if ELSEWHERE.iter().any(|variable| why.starts_with(variable)) {
                *self.elsewhere.entry(why.to_owned()).or_default() += 1;
                continue;
            }
            let entry = (what.to_owned(), why.to_owned());
            if !self.here.contains(&entry) {
                self.here.push(entry);
            }
        }
        is_step
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.here.is_empty()
    }
}

impl fmt::Display for NotRun {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.here.is_empty() {
            writeln!(out, "\nnot run:")?;
        }
        for (what, why) in &self.here {
            writeln!(out, "  {what}: {why}")?;
        }
        if !self.elsewhere.is_empty() {
            writeln!(out, "\ntests that other steps or long jobs run (.ci/run --soak JOB):")?;
        }
        for (why, count) in &self.elsewhere {
            writeln!(out, "  {why} ({count})")?;
        }
        Ok(())
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Report {
    pub(crate) totals: Totals,
    pub(crate) not_run: NotRun,
    steps: Vec<(String, Outcome, Duration)>,
}

impl Report {
    pub(crate) fn add(&mut self, step: &str, outcome: Outcome, took: Duration) {
        self.steps.push((step.to_owned(), outcome, took));
    }

    /// Changes the outcome of the latest step to "not run", and records the reason.
    pub(crate) fn set_not_run(&mut self, step: &str, why: &str) {
        if let Some((_, outcome, _)) = self.steps.last_mut() {
            *outcome = Outcome::NotRun;
        }
        self.not_run.add(step, &format!("{step}\t{why}\n"));
    }

    /// Returns the failures. With `strict`, a skipped test or step is also a failure, unless another step or
    /// a long job runs the test.
    pub(crate) fn failures(&self, strict: bool) -> Vec<String> {
        let failed = self.steps.iter().filter(|(_, outcome, _)| outcome.is_failure());
        let mut failures: Vec<_> = failed.map(|(step, outcome, _)| format!("{step} ({outcome})")).collect();
        if strict && !self.not_run.is_empty() {
            failures.push("a test or step that did not run (STRICT=1)".to_owned());
        }
        failures
    }
}

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.steps.iter().map(|(step, ..)| step.len()).max().unwrap_or_default();
        for (step, outcome, took) in &self.steps {
            let seconds = took.as_secs();
            writeln!(out, "{step:width$}  {outcome:11}  {:3}:{:02}", seconds / 60, seconds % 60)?;
        }
        write!(out, "{}", self.not_run)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summaries_are_added_up() {
        let mut totals = Totals::default();
        for line in [
            "running 4 tests",
            "test a ... ok",
            "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 3 filtered out; finished in 0.01s",
            "test result: FAILED. 7 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.50s",
            "12 test result: ok. 100 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out",
            "test result: ok.",
        ] {
            totals.add(line);
        }
        assert_eq!(totals.to_string(), "19 passed, 2 failed, 1 skipped");
    }

    #[test]
    fn records_are_separated_by_step() {
        let mut not_run = NotRun::default();
        let records = "verbs::a\tno packages\nverbs::a\tno packages\ninterop::b\tRPCRDMA_LAB is not set\n\
                       interop::c\tRPCRDMA_LAB is not set\n";
        assert!(!not_run.add("tests", records));
        assert!(not_run.add("miri", "miri\tno nightly Rust\n"));
        let expected = "\nnot run:\n  verbs::a: no packages\n  miri: no nightly Rust\n\
                        \ntests that other steps or long jobs run (.ci/run --soak JOB):\n  RPCRDMA_LAB is not set (2)\n";
        assert_eq!(not_run.to_string(), expected);
    }

    #[test]
    fn strict_mode_fails_on_tests_that_did_not_run() {
        let mut report = Report::default();
        report.add("fmt", Outcome::Passed, Duration::from_secs(61));
        for reason in
            ["RPCRDMA_LAB_SUITES=no", "RPCRDMA_PEERS is not set", "RPCRDMA_RPCBIND is not set: rpcbind"]
        {
            report.not_run.add("tests", &format!("interop::b\t{reason}\n"));
        }
        assert!(report.failures(true).is_empty(), "a test left to another step is not a failure");
        report.not_run.add("miri", "miri\tno nightly Rust\n");
        assert!(report.failures(false).is_empty());
        assert_eq!(report.failures(true), ["a test or step that did not run (STRICT=1)"]);
        report.add("clippy", Outcome::TimedOut, Duration::from_secs(1200));
        assert_eq!(report.failures(false), ["clippy (timed out)"]);
        assert!(report.to_string().starts_with("fmt     passed         1:01\nclippy  timed out     20:00\n"));
    }
}
