//! `cargo xtask ci`: everything that has to hold before a change goes in, one step after another, cheap ones first.
//!
//! Every step runs in a process of its own (`cargo xtask step NAME`), with a time limit, and its output is passed on as it arrives.

pub(crate) mod child;
mod report;

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};
use std::{env, fs};

use self::child::{End, print};
use self::report::{Outcome, Report};
use crate::filters::{self, Filters};
use crate::soak::{self, JOBS, Ledger};
use crate::{ci, fuzz, interop, miri};

/// What `cargo xtask ci` accepts.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// The steps to run; all of them if none is named
    #[arg(value_name = "STEP", value_parser = names())]
    only: Vec<String>,
    /// Run only the steps that run no tests
    #[arg(long, conflicts_with = "only")]
    quick: bool,
    /// Run the remaining steps after a failure
    #[arg(long)]
    keep_going: bool,
    /// Run no long job in the time that is left
    #[arg(long)]
    no_soak: bool,
}

/// A step of the gate, or a long job.
pub(crate) struct Step {
    pub(crate) name: &'static str,
    /// The time limit of a step; the estimated duration of a long job.
    pub(crate) minutes: u64,
    /// Runs the step in the workspace at this path. A step that cannot run here records that under its name (package `not-run`).
    pub(crate) run: fn(&Path) -> Result<(), String>,
}

/// The steps that run tests, in their order. The checks of `ci.rs` come before them.
const STEPS: &[Step] = &[
    Step { name: "no-capture", minutes: 15, run: no_capture },
    Step { name: "verbs-tests", minutes: 15, run: verbs_tests },
    Step { name: "tests", minutes: 40, run: tests },
    Step { name: "tour", minutes: 10, run: tour },
    Step { name: "simulation", minutes: 15, run: |root| simulation(root, "10000") },
    Step { name: "miri", minutes: 20, run: memory },
    Step { name: "fuzz", minutes: 15, run: |root| fuzzing(root, "fuzz", 20) },
    Step { name: "interop", minutes: 30, run: |root| interop::run(root, "interop", &interop::IWARP) },
    Step {
        name: "interop-devices",
        minutes: 35,
        run: |root| interop::run(root, "interop-devices", &interop::DEVICES),
    },
    Step {
        name: "interop-guest",
        minutes: 35,
        run: |root| interop::run(root, "interop-guest", &interop::IN_GUEST),
    },
    Step { name: "readme-mount", minutes: 25, run: interop::mount_commands },
];

/// The time limit of a check.
const CHECK_MINUTES: u64 = 20;
/// When the gate ends at the latest.
const DEADLINE: Duration = Duration::from_secs(88 * 60);
/// A long job starts only if it is expected to end before this.
const SOAK_MARK: Duration = Duration::from_secs(75 * 60);

fn checks() -> impl Iterator<Item = Step> {
    ci::CHECKS.iter().map(|check| Step { name: check.name, minutes: CHECK_MINUTES, run: check.run })
}

fn names() -> Vec<&'static str> {
    checks().map(|step| step.name).chain(STEPS.iter().map(|step| step.name)).collect()
}

/// Runs the steps and prints what they found. The sum of the tests is the last line.
pub(crate) fn run(root: &Path, options: &Options) -> Result<ExitCode, String> {
    child::kill_on_signals()?;
    let steps = checks().map(|step| (step.name, step.minutes));
    let tests = STEPS.iter().map(|step| (step.name, step.minutes)).filter(|_| !options.quick);
    let is_chosen = |name: &str| options.only.is_empty() || options.only.iter().any(|only| only == name);
    let mut gate = Gate::new(root);
    let mut has_failed = false;
    for (name, minutes) in steps.chain(tests).filter(|(name, _)| is_chosen(name)) {
        if has_failed && !options.keep_going {
            gate.report.add(name, Outcome::NotReached, Duration::ZERO);
        } else {
            has_failed |= gate.step(name, Duration::from_secs(minutes * 60))?.is_failure();
        }
    }
    let is_whole = options.only.is_empty() && !options.quick && !options.no_soak;
    if is_whole && !has_failed {
        gate.job()?;
    }
    gate.print_report();
    Ok(gate.finish())
}

/// A run of steps.
pub(crate) struct Gate<'a> {
    root: &'a Path,
    began: Instant,
    report: Report,
}

impl<'a> Gate<'a> {
    /// Starts the clock of the gate's deadline.
    pub(crate) fn new(root: &'a Path) -> Self {
        Gate { root, began: Instant::now(), report: Report::default() }
    }

    /// Runs a step within what is left until the deadline.
    fn step(&mut self, name: &str, limit: Duration) -> Result<Outcome, String> {
        let left = DEADLINE.saturating_sub(self.began.elapsed());
        if left.is_zero() {
            print(&format!("\n==> {name}: the deadline of the gate has passed"));
            self.report.add(name, Outcome::TimedOut, Duration::ZERO);
            return Ok(Outcome::TimedOut);
        }
        self.limited(name, limit.min(left)).map(|(outcome, _)| outcome)
    }

    /// Runs a step within a time limit.
    pub(crate) fn limited(&mut self, name: &str, limit: Duration) -> Result<(Outcome, Duration), String> {
        print(&format!("\n==> {name}"));
        let records = scratch(self.root)?.join(format!("not-run-{name}"));
        let _ = fs::remove_file(&records);
        let mut command = Command::new(own_program()?);
        command.arg0("xtask").args(["step", name]).current_dir(self.root).env(not_run::FILE, &records);
        // Tests that need Wireshark look for it themselves, and record that it is missing.
        command.env("RPCRDMA_TSHARK", "1");
        let began = Instant::now();
        let totals = &mut self.report.totals;
        let end = child::run(command, limit, |line| {
            print(line);
            totals.add(line);
        })?;
        let took = began.elapsed();
        let is_not_run = self.report.not_run.add(name, &fs::read_to_string(&records).unwrap_or_default());
        let outcome = match end {
            End::Succeeded if is_not_run => Outcome::NotRun,
            End::Succeeded => Outcome::Passed,
            End::Failed(_) => Outcome::Failed,
            End::TimedOut => {
                print(&format!("{name}: killed after {} s", limit.as_secs()));
                Outcome::TimedOut
            }
        };
        self.report.add(name, outcome, took);
        Ok((outcome, took))
    }

    /// Runs the long job whose latest run is the oldest, of those that can run here and fit into the time that is left. The
    /// outcome goes to the ledger, unless the gate's deadline ends the job.
    fn job(&mut self) -> Result<(), String> {
        let ledger = Ledger::read(self.root)?;
        let mut tried = Vec::new();
        loop {
            let left = SOAK_MARK.saturating_sub(self.began.elapsed());
            let Some(job) = soak::next(&ledger, left, &tried) else {
                print(&format!("\n==> no long job fits into {} minutes", left.as_secs() / 60));
                return Ok(());
            };
            print(&format!("\n==> long job with the oldest entry in the ledger: {job}"));
            let limit = DEADLINE.saturating_sub(self.began.elapsed());
            match self.limited(job, limit)? {
                (Outcome::NotRun | Outcome::NotReached, _) => tried.push(job),
                (Outcome::TimedOut, _) => {
                    self.report.excuse(job, "the deadline of the gate ended it");
                    return Ok(());
                }
                (outcome @ (Outcome::Passed | Outcome::Failed), took) => {
                    return soak::record(self.root, job, outcome == Outcome::Passed, took);
                }
            }
        }
    }

    /// Prints what failed and, as the last line, the sum of the tests.
    pub(crate) fn finish(&self) -> ExitCode {
        let is_strict = env::var_os("STRICT").is_some_and(|value| value == "1");
        let failures = self.report.failures(is_strict);
        if !failures.is_empty() {
            print(&format!("failed: {}; `cargo xtask ci STEP` runs a step alone", failures.join(", ")));
        }
        print(&self.report.totals.to_string());
        if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }

    pub(crate) fn print_report(&self) {
        print(&format!("\n{}", self.report));
    }
}

/// Runs a step or a long job in this process.
pub(crate) fn step(root: &Path, name: &str) -> Result<(), String> {
    let mut checks = checks();
    let step = checks.find(|step| step.name == name);
    let run = step.map(|step| step.run).or_else(|| {
        let step = STEPS.iter().chain(JOBS).find(|step| step.name == name)?;
        Some(step.run)
    });
    run.ok_or_else(|| format!("no step is called {name}"))?(root)
}

/// This program, even if a build has replaced it since it was started.
fn own_program() -> Result<PathBuf, String> {
    let process = PathBuf::from("/proc/self/exe");
    if process.exists() {
        return Ok(process);
    }
    env::current_exe().map_err(|error| format!("cannot find the own program: {error}"))
}

/// The target directory.
pub(crate) fn target(root: &Path) -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |target: OsString| root.join(target))
}

/// The directory for files of the gate.
pub(crate) fn scratch(root: &Path) -> Result<PathBuf, String> {
    let folder = target(root).join("ci");
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    Ok(folder)
}

// ---- steps

/// The runtime without the feature `capture`, which other packages of the workspace enable.
fn no_capture(root: &Path) -> Result<(), String> {
    let runtime = ["--package", "rpcrdma-runtime"];
    ci::cargo(root, &[&["clippy"], &runtime[..], &["--all-targets", "--", "-D", "warnings"]].concat())?;
    let arguments = [&["test"], &runtime[..], &["--test", "no_capture"]].concat();
    filters::test(ci::cargo_command(root, &arguments), &Filters { only: &[], skip: &[] })
}

/// The unit tests of the provider for RDMA devices that need no device.
fn verbs_tests(root: &Path) -> Result<(), String> {
    let missing = rpcrdma_verbs_packages::missing();
    if !missing.is_empty() {
        not_run::record("verbs-tests", format_args!("missing packages: {}", missing.join(" ")));
        return Ok(());
    }
    let arguments = ["test", "--package", "rpcrdma-runtime", "--features", "verbs", "--lib"];
    let filters = Filters { only: &["provider::verbs"], skip: &[] };
    filters::test(ci::cargo_command(root, &arguments), &filters)
}

/// What README names, without the lab, which has steps of its own.
fn tests(root: &Path) -> Result<(), String> {
    let arguments = ["test", "--workspace"];
    let mut command = ci::cargo_command(root, &arguments);
    command.env_remove("RPCRDMA_LAB");
    ci::succeed(command, &arguments)
}

fn tour(root: &Path) -> Result<(), String> {
    ci::cargo(root, &["run", "--release", "--package", "rpcrdma-examples", "--bin", "tour"])
}

/// So many seeds of the simulation, or a range of them.
pub(crate) fn simulation(root: &Path, seeds: &str) -> Result<(), String> {
    ci::cargo(root, &["run", "--release", "--package", "rpcrdma-tests", "--bin", "sim", "--", seeds])
}

/// Miri, which is installed if it is missing and rustup can be used.
fn memory(root: &Path) -> Result<(), String> {
    if miri::ready().is_err() {
        let install = ["toolchain", "install", "nightly", "--profile", "minimal"];
        let components = ["--component", "miri", "--component", "rust-src"];
        let mut rustup = Command::new("rustup");
        rustup.args(install).args(components);
        child::succeeds(rustup, Duration::from_secs(300));
    }
    match miri::ready() {
        Ok(()) => miri::run(root, &miri::Arguments::default()),
        Err(why) => {
            not_run::record("miri", why);
            Ok(())
        }
    }
}

/// Every fuzz target for so many seconds, as the step or job `name`.
pub(crate) fn fuzzing(root: &Path, name: &str, seconds: u64) -> Result<(), String> {
    if Command::new("c++").arg("--version").output().is_err() {
        not_run::record(name, "no C++ compiler for libFuzzer (package g++)");
        return Ok(());
    }
    fuzz::run(root, &fuzz::Arguments { targets: Vec::new(), seconds })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn steps_and_jobs_have_names_of_their_own() {
        let names: Vec<&str> = names().into_iter().chain(JOBS.iter().map(|job| job.name)).collect();
        let distinct: BTreeSet<&str> = names.iter().copied().collect();
        assert_eq!(distinct.len(), names.len(), "{names:?}");
    }
}
