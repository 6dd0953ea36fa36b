//! `cargo xtask ci`: runs all checks required for a change, one step after another, cheap steps first.
//!
//! Every step runs in a separate process (`cargo xtask step NAME`) with a time limit. The gate forwards the
//! step's output as it arrives.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};
use std::{env, fs};

use crate::cargo::{scratch, target};
use crate::checks::CHECKS;
use crate::child::{self, End, print};
use crate::evidence;
use crate::jobs::{self, JOBS};
use crate::ledger::Ledger;
use crate::report::{Outcome, Report};
use crate::step::Step;
use crate::steps::STEPS;

/// Options of `cargo xtask ci`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// The steps to run (default: all)
    #[arg(value_name = "STEP", value_parser = names())]
    only: Vec<String>,
    /// Run only the steps without tests
    #[arg(long, conflicts_with = "only")]
    quick: bool,
    /// Run the remaining steps after a failure
    #[arg(long)]
    keep_going: bool,
    /// Do not run a long job after the steps
    #[arg(long)]
    no_soak: bool,
}

const DEADLINE: Duration = Duration::from_secs(88 * 60);
/// A long job starts only if it should end within this time after the start of the gate.
const SOAK_MARK: Duration = Duration::from_secs(75 * 60);

/// The minimum free space for the target directory, in MiB. With less free space, compilers are likely to
/// fail.
const SPACE_MIN: u64 = 1024;

fn names() -> Vec<&'static str> {
    CHECKS.iter().chain(STEPS).map(|step| step.name).collect()
}

/// Runs the chosen steps and, if the complete gate passed, a long job (unless `no_soak` is set). Then prints
/// the outcomes.
pub(crate) fn run(root: &Path, options: &Options) -> Result<ExitCode, String> {
    child::kill_on_signals()?;
    check_space(root)?;
    let tests = if options.quick { &[] } else { STEPS };
    let is_chosen = |name: &str| options.only.is_empty() || options.only.iter().any(|only| only == name);
    let mut gate = Gate::new(root);
    let mut has_failed = false;
    for Step { name, minutes, .. } in CHECKS.iter().chain(tests).filter(|step| is_chosen(step.name)) {
        if has_failed && !options.keep_going {
            gate.report.add(name, Outcome::NotReached, Duration::ZERO);
        } else {
            has_failed |= gate.step(name, Duration::from_secs(minutes * 60))?.is_failure();
        }
    }
    let is_complete = options.only.is_empty() && !options.quick && !options.no_soak;
    if is_complete && !has_failed {
        gate.job()?;
    }
    gate.print_report();
    if has_failed && let Err(why) = check_space(root) {
        print(&why);
    }
    Ok(gate.finish())
}

/// Returns an error if little disk space is free, because compiler errors about a full disk are unclear.
fn check_space(root: &Path) -> Result<(), String> {
    let target = target(root);
    let disk = rustix::fs::statvfs(&target).map_err(|error| format!("{}: {error}", target.display()))?;
    let free = disk.f_bavail.saturating_mul(disk.f_frsize) >> 20;
    if free < SPACE_MIN {
        let path = target.display();
        return Err(format!("{path}: only {free} MiB of free disk space (minimum {SPACE_MIN} MiB)"));
    }
    Ok(())
}

pub(crate) struct Gate<'a> {
    root: &'a Path,
    began: Instant,
    report: Report,
}

impl<'a> Gate<'a> {
    pub(crate) fn new(root: &'a Path) -> Self {
        Gate { root, began: Instant::now(), report: Report::default() }
    }

    fn step(&mut self, name: &str, limit: Duration) -> Result<Outcome, String> {
        let left = DEADLINE.saturating_sub(self.began.elapsed());
        if left.is_zero() {
            print(&format!("\n==> {name}: not started, because the deadline of the gate has passed"));
            self.report.add(name, Outcome::TimedOut, Duration::ZERO);
            return Ok(Outcome::TimedOut);
        }
        self.limited(name, limit.min(left)).map(|(outcome, _)| outcome)
    }

    pub(crate) fn limited(&mut self, name: &str, limit: Duration) -> Result<(Outcome, Duration), String> {
        print(&format!("\n==> {name}"));
        let records = scratch(self.root)?.join(format!("not-run-{name}"));
        let _ = fs::remove_file(&records);
        let mut command = Command::new(own_program()?);
        command.arg0("xtask").args(["step", name]).current_dir(self.root).env(not_run::FILE, &records);
        // Without this variable, tests with tshark are skipped even if tshark is installed.
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

    /// Runs the next long job that can run here, if any (see [`jobs::next`]). Records the outcome in the
    /// ledger, unless the gate's deadline ends the job.
    fn job(&mut self) -> Result<(), String> {
        let ledger = Ledger::read(self.root)?;
        let mut tried = Vec::new();
        loop {
            let left = SOAK_MARK.saturating_sub(self.began.elapsed());
            let Some(job) = jobs::next(&ledger, left, &tried) else {
                print(&format!("\n==> no long job fits into the remaining {} min", left.as_secs() / 60));
                return Ok(());
            };
            print(&format!("\n==> next long job: {job}"));
            let limit = DEADLINE.saturating_sub(self.began.elapsed());
            match self.limited(job, limit)? {
                (Outcome::NotRun | Outcome::NotReached, _) => tried.push(job),
                (Outcome::TimedOut, _) => {
                    self.report.set_not_run(job, "terminated at the deadline of the gate");
                    return Ok(());
                }
                (outcome @ (Outcome::Passed | Outcome::Failed), took) => {
                    return evidence::record(self.root, job, outcome == Outcome::Passed, took);
                }
            }
        }
    }

    /// Prints the failures and, as the last line, the total numbers of tests. Returns the exit code.
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

pub(crate) fn step(root: &Path, name: &str) -> Result<(), String> {
    let step = CHECKS.iter().chain(STEPS).chain(JOBS).find(|step| step.name == name);
    let step = step.ok_or_else(|| format!("unknown step {name}"))?;
    child::kill_on_signals()?;
    step.run(root)
}

/// Returns the path of this program. On Linux, the path is valid even if a build has replaced the program.
fn own_program() -> Result<PathBuf, String> {
    let process = PathBuf::from("/proc/self/exe");
    if process.exists() {
        return Ok(process);
    }
    env::current_exe().map_err(|error| format!("cannot find the path of this program: {error}"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_of_steps_and_jobs_are_unique() {
        let names: Vec<&str> = names().into_iter().chain(JOBS.iter().map(|job| job.name)).collect();
        let distinct: BTreeSet<&str> = names.iter().copied().collect();
        assert_eq!(distinct.len(), names.len(), "{names:?}");
    }
}
