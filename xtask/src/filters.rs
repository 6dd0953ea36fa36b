//! Runs tests by parts of their names. A name that selects no test is an error.

use std::io::{self, BufRead, BufReader, Write};
use std::process::{Command, Stdio};

/// The tests to run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Filters<'a> {
    /// Runs only tests whose names contain one of these. An empty list selects all tests.
    pub(crate) only: &'a [&'a str],
    /// Parts of the names of the tests to leave out.
    pub(crate) skip: &'a [&'a str],
}

/// Runs a command that ends in `cargo test` and its options, with these filters.
///
/// # Errors
/// If a test fails, or a filter selects no test.
pub(crate) fn test(mut command: Command, filters: &Filters<'_>) -> Result<(), String> {
    command.arg("--").args(filters.only);
    command.args(filters.skip.iter().flat_map(|part| ["--skip", part]));
    let mut child =
        command.stdout(Stdio::piped()).spawn().map_err(|error| format!("cannot run cargo: {error}"))?;
    let mut unmatched = Unmatched::new(filters);
    for line in child.stdout.take().into_iter().flat_map(|output| BufReader::new(output).split(b'\n')) {
        let line = line.map_err(|error| format!("cannot read what the tests print: {error}"))?;
        let line = String::from_utf8_lossy(&line);
        let _ = writeln!(io::stdout(), "{line}");
        unmatched.see(&line);
    }
    let status = child.wait().map_err(|error| format!("cannot wait for cargo: {error}"))?;
    if !status.success() {
        return Err(format!("a test failed ({status})"));
    }
    unmatched.done()
}

/// Filters that have selected no test so far.
struct Unmatched<'a> {
    filters: Vec<&'a str>,
    ran: bool,
}

impl<'a> Unmatched<'a> {
    fn new(filters: &Filters<'a>) -> Self {
        Unmatched { filters: filters.only.to_vec(), ran: false }
    }

    /// Takes a line of output into account: `test NAME ... ok`.
    fn see(&mut self, line: &str) {
        let name = line.strip_prefix("test ").and_then(|rest| rest.split_once(" ... "));
        let Some((name, _)) = name else { return };
        self.ran = true;
        self.filters.retain(|filter| !name.contains(filter));
    }

    fn done(self) -> Result<(), String> {
        if !self.filters.is_empty() {
            return Err(format!("no test has a name with: {}", self.filters.join(", ")));
        }
        if self.ran { Ok(()) } else { Err("the filters leave no test to run".to_owned()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(only: &[&str], lines: &[&str]) -> Result<(), String> {
        let mut unmatched = Unmatched::new(&Filters { only, skip: &[] });
        lines.iter().for_each(|line| unmatched.see(line));
        unmatched.done()
    }

    #[test]
    fn each_filter_has_to_select_a_test() {
        let lines = ["running 2 tests", "test faults::cut ... ok", "test captures::both ... ok"];
        assert_eq!(outcome(&["faults::", "captures::"], &lines), Ok(()));
        assert_eq!(
            outcome(&["faults::", "gone::"], &lines),
            Err("no test has a name with: gone::".to_owned())
        );
        assert_eq!(outcome(&[], &lines), Ok(()));
    }

    #[test]
    fn an_invocation_without_tests_is_an_error() {
        let lines = ["running 0 tests", "test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured"];
        assert_eq!(outcome(&[], &lines), Err("the filters leave no test to run".to_owned()));
        assert!(outcome(&["a"], &lines).is_err());
    }
}
