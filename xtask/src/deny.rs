//! cargo-deny: licences, duplicate crates and sources of all dependencies, and known vulnerabilities
//! (`deny.toml`).

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::cargo::target;
use crate::{cargo, child};

/// Checks the dependencies. cargo-deny is installed below the target directory if it is missing and can be
/// fetched.
pub(crate) fn run(root: &Path) -> Result<(), String> {
    let installed = target(root).join("tools");
    let Some(program) = program(&installed).or_else(|| install(root, &installed)) else {
        not_run::record("deny", "cargo-deny is missing and cannot be installed");
        return Ok(());
    };
    let deny = |arguments: &[&str]| {
        let status = Command::new(&program).args(arguments).current_dir(root).status();
        status.map_err(|error| format!("cannot run cargo-deny: {error}"))
    };
    if !deny(&["check", "licenses", "bans", "sources"])?.success() {
        return Err("a dependency breaks a rule of deny.toml".to_owned());
    }
    let mut fetch = Command::new(&program);
    fetch.args(["fetch", "db"]).current_dir(root);
    if !child::succeeds(fetch, Duration::from_secs(120)) {
        not_run::record("deny: advisories", "the database of advisories cannot be fetched");
        return Ok(());
    }
    if deny(&["check", "--disable-fetch", "advisories"])?.success() {
        Ok(())
    } else {
        Err("a dependency has a known vulnerability".to_owned())
    }
}

/// cargo-deny of the system, or the one below the target directory.
fn program(installed: &Path) -> Option<PathBuf> {
    let programs = [PathBuf::from("cargo-deny"), installed.join("bin/cargo-deny")];
    let runs = |program: &PathBuf| {
        Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
    };
    programs.into_iter().find(runs)
}

fn install(root: &Path, installed: &Path) -> Option<PathBuf> {
    let mut command = cargo::command(root, &["install", "cargo-deny", "--locked", "--root"]);
    command.arg(installed).env("CARGO_TARGET_DIR", installed.join("build"));
    let is_installed = child::succeeds(command, Duration::from_secs(900));
    // The program stays; what it was built from is large.
    let _ = std::fs::remove_dir_all(installed.join("build"));
    if is_installed { program(installed) } else { None }
}
