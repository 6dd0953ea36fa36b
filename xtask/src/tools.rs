//! Tools that the checks need and that cargo can install.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use std::{env, fs};

use crate::cargo::target;
use crate::{cargo, child};

/// Finds the program `name` on the search path or in the user's cache directory. If the program is missing,
/// installs it in the cache directory, by `cargo install` with the arguments `package`. To update the tools,
/// delete the directory.
///
/// If the installation fails, records the check as not run and returns `None`.
pub(crate) fn program(root: &Path, check: &str, name: &str, package: &[&str]) -> Option<PathBuf> {
    // All clones of a user share the tools.
    let folder = env::home_dir().unwrap_or_else(|| target(root)).join(".cache/rpcrdma-tools");
    let found = find(name, &folder).or_else(|| install(root, name, package, &folder));
    if found.is_none() {
        not_run::record(check, format_args!("{name} is missing and cannot be installed"));
    }
    found
}

fn find(name: &str, folder: &Path) -> Option<PathBuf> {
    let programs = [PathBuf::from(name), folder.join("bin").join(name)];
    let runs = |program: &PathBuf| {
        Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
    };
    programs.into_iter().find(runs)
}

fn install(root: &Path, name: &str, package: &[&str], folder: &Path) -> Option<PathBuf> {
    // Each tool runs only for seconds, so a quick build saves more time than an optimized program.
    let build = target(root).join("tools");
    let mut command = cargo::command(root, &["install", "--locked", "--debug"]);
    command.args(package).arg("--root").arg(folder).env("CARGO_TARGET_DIR", &build);
    let is_installed = child::succeeds(command, Duration::from_secs(900));
    // Only the program is kept, since its build directory is large.
    let _ = fs::remove_dir_all(&build);
    if is_installed { find(name, folder) } else { None }
}

pub(crate) fn succeed(command: &mut Command, failure: &str) -> Result<(), String> {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err(failure.to_owned()),
        Err(error) => Err(format!("cannot run {}: {error}", command.get_program().display())),
    }
}
