//! `cargo xtask flaky`: runs the test suite many times on a busy machine, to find tests that fail
//! occasionally.

use std::collections::HashMap;
use std::fs;
use std::hint::spin_loop;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, available_parallelism};
use std::time::{Duration, Instant};

use crate::binaries::{self, Binary};
use crate::cargo::target;
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
    /// Test binaries that run at the same time
    #[arg(long, default_value_t = 4)]
    parallel: usize,
}

const LIMIT: Duration = Duration::from_secs(45 * 60);

/// The suite without doc tests, which would be compiled again for each run.
const SUITE: [&str; 5] = ["test", "--workspace", "--lib", "--bins", "--tests"];

/// Builds the suite and runs it under load. The output of failed binaries stays in `target/flaky`.
pub(crate) fn run(root: &Path, options: &Options) -> Result<(), String> {
    child::kill_on_signals()?;
    let mut suite = Suite { binaries: binaries::build(root, &SUITE)?, durations: HashMap::new() };
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
        let runs = (1..=options.runs).map(|number| suite.run(&folder, number, options.parallel));
        let failures: Result<Vec<String>, String> = runs.collect();
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

struct Suite {
    binaries: Vec<Binary>,
    durations: HashMap<Binary, Duration>,
}

impl Suite {
    /// Runs every binary once, `parallel` at a time, in descending order of their durations in the previous
    /// run. Returns the failures, one per line.
    fn run(&mut self, folder: &Path, number: usize, parallel: usize) -> Result<String, String> {
        self.binaries.sort_by_key(|binary| self.durations.get(binary).copied().unwrap_or_default());
        let waiting = Mutex::new(self.binaries.clone());
        let next = || waiting.lock().ok().and_then(|mut waiting| waiting.pop());
        let worker = || -> Result<Vec<(Binary, Duration, Vec<String>)>, String> {
            let mut finished = Vec::new();
            while let Some(binary) = next() {
                let began = Instant::now();
                let failures = run_once(&binary, folder, number)?;
                finished.push((binary, began.elapsed(), failures));
            }
            Ok(finished)
        };
        let began = Instant::now();
        let finished: Result<Vec<_>, String> = thread::scope(|scope| {
            let workers: Vec<_> = (0..parallel.max(1)).map(|_| scope.spawn(worker)).collect();
            let joined = workers.into_iter().map(|worker| worker.join().map_err(|_| "a worker panicked")?);
            joined.collect()
        });
        let mut failures = Vec::new();
        for (binary, took, tests) in finished?.into_iter().flatten() {
            self.durations.insert(binary, took);
            failures.extend(tests.iter().map(|test| format!("  run {number}: {test}\n")));
        }
        let outcome = if failures.is_empty() { "passed" } else { "failed" };
        print(&format!("run {number}: {outcome} in {} s", began.elapsed().as_secs()));
        Ok(failures.concat())
    }
}

/// Runs the binary once. Returns the failed tests, or a description of the failure if the output names no
/// failed test.
fn run_once(binary: &Binary, folder: &Path, number: usize) -> Result<Vec<String>, String> {
    let mut command = binary.command();
    command.env_remove("RPCRDMA_LAB").env("RPCRDMA_TSHARK", "1");
    let name = binary.program.file_name().unwrap_or_default().display().to_string();
    let mut output = String::new();
    let mut failed = Vec::new();
    let end = child::run(command, LIMIT, |line| {
        failed.extend(failed_test(line).map(|test| format!("{test} in {name}")));
        output.push_str(line);
        output.push('\n');
    })?;
    let outcome = match end {
        End::Succeeded => return Ok(Vec::new()),
        End::Failed(_) => "failed",
        End::TimedOut => "timed out",
    };
    let path = folder.join(format!("run-{number}-{name}.txt"));
    fs::write(&path, output).map_err(|error| format!("{}: {error}", path.display()))?;
    if failed.is_empty() {
        failed.push(format!("{name} {outcome}, and its output names no failed test"));
    }
    Ok(failed)
}

fn failed_test(line: &str) -> Option<&str> {
    line.strip_prefix("test ")?.strip_suffix(" ... FAILED")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn failed_tests_and_binaries_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("b-34");
        let binary = Binary { program: script.clone(), package: folder.path().to_path_buf() };
        for (lines, expected) in [
            ("echo 'test one ... ok'; echo 'test two::three ... FAILED'; exit 101", "two::three in b-34"),
            ("exit 101", "b-34 failed, and its output names no failed test"),
        ] {
            fs::write(&script, format!("#!/bin/sh\n{lines}\n")).unwrap();
            fs::set_permissions(&script, fs::Permissions::from_mode(0o700)).unwrap();
            assert_eq!(run_once(&binary, folder.path(), 3).unwrap(), [expected]);
        }
        assert!(folder.path().join("run-3-b-34.txt").exists());
    }
}
