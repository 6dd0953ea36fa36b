//! Runs tests selected by parts of their names. A part that matches no test is an error.

use std::io::{self, BufRead, BufReader, Write};
use std::process::{Command, Stdio};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Filters<'a> {
    /// Runs only tests with names that contain one of these parts. An empty list selects all tests.
    pub(crate) only: &'a [&'a str],
    /// Skips tests with names that contain one of these parts.
    pub(crate) skip: &'a [&'a str],
}

impl<'a> Filters<'a> {
    /// Returns the filters that match no line `NAME: test` of a listing. A filter in `only` must match a test
    /// that is not skipped.
    pub(crate) fn unmatched(&self, listing: &str) -> Vec<&'a str> {
        let names: Vec<&str> = listing.lines().filter_map(|line| line.strip_suffix(": test")).collect();
        let is_skipped = |name: &str| self.skip.iter().any(|part| name.contains(part));
        let runs = |part: &str| names.iter().any(|name| name.contains(part) && !is_skipped(name));
        let skips = |part: &str| names.iter().any(|name| name.contains(part));
        let only = self.only.iter().filter(|part| !runs(part));
        only.chain(self.skip.iter().filter(|part| !skips(part))).copied().collect()
    }
}

/// Runs a `cargo test` command with these filters.
///
/// # Errors
/// Fails if the command fails, if a filter matches no test, or if no test runs.
pub(crate) fn test(mut command: Command, filters: &Filters<'_>) -> Result<(), String> {
    if !filters.skip.is_empty() {
        let unmatched = Filters { only: &[], ..*filters }.unmatched(&list(&command)?);
        if !unmatched.is_empty() {
            return Err(format!("skip filters that match no test name: {}", unmatched.join(", ")));
        }
    }
    command.arg("--").args(filters.only);
    command.args(filters.skip.iter().flat_map(|part| ["--skip", part]));
    let mut child =
        command.stdout(Stdio::piped()).spawn().map_err(|error| format!("cannot run cargo: {error}"))?;
    let mut unmatched = Unmatched::new(filters);
    for line in child.stdout.take().into_iter().flat_map(|output| BufReader::new(output).split(b'\n')) {
        let line = line.map_err(|error| format!("cannot read the output of the tests: {error}"))?;
        let line = String::from_utf8_lossy(&line);
        let _ = writeln!(io::stdout(), "{line}");
        unmatched.process(&line);
    }
    let status = child.wait().map_err(|error| format!("cannot wait for cargo: {error}"))?;
    if !status.success() {
        return Err(format!("the tests failed or did not compile ({status})"));
    }
    unmatched.done()
}

/// Returns the tests that a `cargo test` command selects, as libtest lists them.
pub(crate) fn list(command: &Command) -> Result<String, String> {
    let mut listing = Command::new(command.get_program());
    listing.args(command.get_args()).args(["--", "--list"]);
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => listing.env(name, value),
            None => listing.env_remove(name),
        };
    }
    if let Some(directory) = command.get_current_dir() {
        listing.current_dir(directory);
    }
    let output = listing.stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| format!("cannot run cargo: {error}"))?;
    if !output.status.success() {
        return Err(format!("cannot list the tests ({})", output.status));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The filters that no test has matched so far, and whether any test ran.
struct Unmatched<'a> {
    filters: Vec<&'a str>,
    ran: bool,
}

impl<'a> Unmatched<'a> {
    fn new(filters: &Filters<'a>) -> Self {
        Unmatched { filters: filters.only.to_vec(), ran: false }
    }

    /// Processes a line of output, such as `test NAME ... ok`.
    fn process(&mut self, line: &str) {
        let name = line.strip_prefix("test ").and_then(|rest| rest.split_once(" ... "));
        let Some((name, outcome)) = name else { return };
        if outcome.starts_with("ignored") {
            return;
        }
        self.ran = true;
        self.filters.retain(|filter| !name.contains(filter));
    }

    fn done(self) -> Result<(), String> {
        if !self.filters.is_empty() {
            return Err(format!("filters that match no test name: {}", self.filters.join(", ")));
        }
        if self.ran { Ok(()) } else { Err("no test ran: all tests are excluded or ignored".to_owned()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(only: &[&str], lines: &[&str]) -> Result<(), String> {
        let mut unmatched = Unmatched::new(&Filters { only, skip: &[] });
        lines.iter().for_each(|line| unmatched.process(line));
        unmatched.done()
    }

    #[test]
    fn each_filter_has_to_select_a_test() {
        let lines = ["running 2 tests", "test faults::cut ... ok", "test captures::both ... ok"];
        assert_eq!(outcome(&["faults::", "captures::"], &lines), Ok(()));
        assert_eq!(
            outcome(&["faults::", "gone::"], &lines),
            Err("filters that match no test name: gone::".to_owned())
        );
        assert_eq!(outcome(&[], &lines), Ok(()));
    }

    #[test]
    fn an_invocation_without_tests_is_an_error() {
        let lines = ["running 0 tests", "test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured"];
        assert_eq!(outcome(&[], &lines), Err("no test ran: all tests are excluded or ignored".to_owned()));
        assert!(outcome(&["a"], &lines).is_err());
        let ignored = ["test faults::cut ... ignored, takes hours"];
        assert!(outcome(&["faults::"], &ignored).is_err(), "an ignored test does not run");
    }

    #[test]
    fn each_filter_has_to_match_a_listed_test() {
        let listing = "verbs::read: test\nin_guest::read: test\nbench: benchmark\n\n2 tests, 1 benchmark\n";
        let unmatched = |only, skip| Filters { only, skip }.unmatched(listing);
        assert_eq!(unmatched(&[], &["verbs::", "in_guest::"]), [""; 0]);
        assert_eq!(unmatched(&[], &["verbs::", "gone::", "bench"]), ["gone::", "bench"]);
        assert_eq!(unmatched(&["read"], &["verbs::"]), [""; 0]);
        assert_eq!(unmatched(&["verbs", "gone", "guest"], &["verbs::"]), ["verbs", "gone"]);
    }
}
