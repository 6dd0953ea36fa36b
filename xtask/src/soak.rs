//! `cargo xtask soak JOB`: runs a job that takes too long to be part of every run of the gate.
//! `cargo xtask ledger` lists when each job last ran.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use crate::child::{self, print};
use crate::evidence;
use crate::gate::Gate;
use crate::jobs::JOBS;
use crate::ledger::{Entry, Ledger};

/// Options of `cargo xtask soak`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// The job
    #[arg(value_name = "JOB", value_parser = JOBS.iter().map(|job| job.name).collect::<Vec<_>>())]
    job: String,
}

/// The time limit of a job that `cargo xtask soak` runs.
const LIMIT: Duration = Duration::from_secs(6 * 3600);

/// Runs a job and appends the outcome to the ledger. Fails if the job cannot run here.
pub(crate) fn run(root: &Path, options: &Options) -> Result<ExitCode, String> {
    child::kill_on_signals()?;
    let mut gate = Gate::new(root);
    let (outcome, took) = gate.limited(&options.job, LIMIT)?;
    gate.print_report();
    if !outcome.has_run() {
        return Err(format!("{} cannot run here", options.job));
    }
    evidence::record(root, &options.job, !outcome.is_failure(), took)?;
    Ok(gate.finish())
}

/// Prints the jobs with their latest runs, oldest first.
pub(crate) fn list(root: &Path) -> Result<(), String> {
    let ledger = Ledger::read(root)?;
    print(&format!("{:15} {:20}  {:13} outcome  minutes", "job", "latest run", "revision"));
    for job in ledger.by_age(JOBS.iter().map(|job| job.name)) {
        let Some(Entry { date, revision, passed, seconds, .. }) = ledger.last(job) else {
            print(&format!("{job:15} never"));
            continue;
        };
        let outcome = if *passed { "passed" } else { "failed" };
        print(&format!("{job:15} {date:20}  {revision:13} {outcome:7}  {:7}", seconds.div_ceil(60)));
    }
    Ok(())
}
