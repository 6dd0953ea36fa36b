//! `cargo xtask flaky`: runs the test suite many times on a busy machine, to find tests that fail
//! occasionally.

use std::fs;
use std::hint::spin_loop;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, available_parallelism};
use std::time::Duration;

use crate::cargo::{self, target};
use crate::child::{self, End, print};

/// Options of `cargo xtask flaky`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Number of runs of the suite
    #[arg(long, default_value_t = 20)]
    runs: usize,
    /// Busy threads for each processor
    #[arg(long, default_value_t = 2)]
    busy: usize,
}

/// A run that exceeds this time counts as hanging.
const LIMIT: Duration = Duration::from_secs(45 * 60);

/// The suite without doc tests, which would be compiled again for each run.
const SUITE: &[&str] = &["test", "--lib", "--bins", "--tests"];

/// Builds the suite and runs it under load. The output of failed runs stays in `target/flaky`.
pub(crate) fn run(root: &Path, options: &Options) -> Result<(), String> {
    child::kill_on_signals()?;
    cargo::run(root, &[SUITE, &["--no-run"]].concat())?;
    let folder = target(root).join("flaky");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let processors = available_parallelism().map_or(1, usize::from);
    let is_done = AtomicBool::new(false);
    let failures = thread::scope(|scope| {
        for _ in 0..processors * options.busy {
            scope.spawn(|| {
                while !is_done.load(Ordering::Relaxed) {
                    spin_loop();
                }
            });
        }
        let failures: Result<Vec<String>, String> =
            (1..=options.runs).map(|number| suite(root, &folder, number)).collect();
        is_done.store(true, Ordering::Relaxed);
        failures
    })?;
    let failures: Vec<String> = failures.into_iter().filter(|failure| !failure.is_empty()).collect();
    if failures.is_empty() {
        return Ok(());
    }
    let (failed, runs) = (failures.len(), options.runs);
    Err(format!("{failed} of {runs} runs failed:\n{}see {}", failures.concat(), folder.display()))
}

/// Runs the suite once. Returns the failures, one per line.
fn suite(root: &Path, folder: &Path, number: usize) -> Result<String, String> {
    let mut command = cargo::command(root, &[SUITE, &["--no-fail-fast"]].concat());
    command.env_remove("RPCRDMA_LAB").env("RPCRDMA_TSHARK", "1");
    let mut output = String::new();
    let mut failed = Failed::default();
    let end = child::run(command, LIMIT, |line| {
        failed.process(line);
        output.push_str(line);
        output.push('\n');
    })?;
    let outcome = match end {
        End::Succeeded => "passed",
        End::Failed(_) => "failed",
        End::TimedOut => "timed out",
    };
    print(&format!("run {number}: {outcome}"));
    if end == End::Succeeded {
        return Ok(String::new());
    }
    let path = folder.join(format!("run-{number}.txt"));
    fs::write(&path, output).map_err(|error| format!("{}: {error}", path.display()))?;
    let tests = failed.tests(outcome);
    Ok(tests.iter().map(|test| format!("  run {number}: {test}\n")).collect())
}

/// The failed tests, from the output of cargo.
#[derive(Debug, Default)]
struct Failed {
    /// The test binary that is running.
    binary: String,
    tests: Vec<String>,
}

impl Failed {
    fn process(&mut self, line: &str) {
        if let Some(binary) = line.trim_start().strip_prefix("Running ") {
            binary.clone_into(&mut self.binary);
        } else if let Some(test) =
            line.strip_prefix("test ").and_then(|test| test.strip_suffix(" ... FAILED"))
        {
            self.tests.push(format!("{test} in {}", self.binary));
        }
    }

    /// Returns the failed tests, or the binary that failed without naming a test.
    fn tests(mut self, outcome: &str) -> Vec<String> {
        if self.tests.is_empty() {
            self.tests.push(format!("{outcome} without naming a test; the last binary was {}", self.binary));
        }
        self.tests
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_tests_are_named_with_their_binary() {
        let mut failed = Failed::default();
        for line in [
            "     Running unittests src/lib.rs (target/debug/deps/a-12)",
            "test one ... ok",
            "     Running tests/b.rs (target/debug/deps/b-34)",
            "test two::three ... FAILED",
            "test result: FAILED. 0 passed; 1 failed",
        ] {
            failed.process(line);
        }
        assert_eq!(failed.tests("failed"), ["two::three in tests/b.rs (target/debug/deps/b-34)"]);
    }

    #[test]
    fn a_binary_that_names_no_test_is_named_itself() {
        let mut failed = Failed::default();
        failed.process("     Running tests/b.rs (target/debug/deps/b-34)");
        let expected =
            "timed out without naming a test; the last binary was tests/b.rs (target/debug/deps/b-34)";
        assert_eq!(failed.tests("timed out"), [expected]);
    }
}
