//! Tests of adjustable length: short runs are steps of the gate, and long runs are long jobs.

use std::path::Path;
use std::process::Command;

use crate::{cargo, fuzz};

/// Attacks `nfs3d` while an honest client uses it. Without `--short`, also checks the p99 latency of this
/// client's calls, which requires an idle machine.
pub(crate) fn siege(root: &Path, options: &[&str]) -> Result<(), String> {
    let siege = ["run", "--release", "--package", "rpcrdma-tests", "--bin", "siege", "--"];
    cargo::run(root, &[&siege, options].concat())
}

/// Runs the simulation. `seeds` is a number of seeds or a range of seeds.
pub(crate) fn simulation(root: &Path, seeds: &str) -> Result<(), String> {
    cargo::run(root, &["run", "--release", "--package", "rpcrdma-sim", "--", seeds])
}

/// Runs every fuzz target for a number of seconds, as the step or job `name`. Without a C++ compiler, records
/// the step as not run.
pub(crate) fn fuzzing(root: &Path, name: &str, seconds: u64) -> Result<(), String> {
    if Command::new("c++").arg("--version").output().is_err() {
        not_run::record(name, "no C++ compiler for libFuzzer (package g++)");
        return Ok(());
    }
    fuzz::run(root, &fuzz::Arguments { targets: Vec::new(), seconds })
}
