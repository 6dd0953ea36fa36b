//! Runs cargo in the workspace, and finds the workspace's directories.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

pub(crate) fn root() -> Result<PathBuf, String> {
    let manifest = env::var_os("CARGO_MANIFEST_DIR").ok_or("run this as `cargo xtask`")?;
    let root = Path::new(&manifest).parent().ok_or("the package has no parent directory")?;
    Ok(root.to_path_buf())
}

pub(crate) fn command(root: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(root);
    command
}

pub(crate) fn run(root: &Path, arguments: &[&str]) -> Result<(), String> {
    succeed(command(root, arguments), arguments)
}

pub(crate) fn succeed(mut command: Command, arguments: &[&str]) -> Result<(), String> {
    let shown = format!("cargo {}", arguments.join(" "));
    let status = command.status().map_err(|error| format!("cannot run `{shown}`: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("`{shown}` failed")) }
}

pub(crate) fn clippy(root: &Path, features: &[&str]) -> Result<(), String> {
    run(root, &[&["clippy", "--all-targets"], features, &["--", "-D", "warnings"]].concat())
}

/// Builds the documentation. A warning, for example about a broken link, is an error.
pub(crate) fn rustdoc(root: &Path, features: &[&str]) -> Result<(), String> {
    let arguments = [&["doc", "--no-deps"], features].concat();
    let mut command = command(root, &arguments);
    command.env("RUSTDOCFLAGS", "-D warnings");
    succeed(command, &arguments)
}

pub(crate) fn target(root: &Path) -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |target: OsString| root.join(target))
}

pub(crate) fn scratch(root: &Path) -> Result<PathBuf, String> {
    let folder = target(root).join("ci");
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    Ok(folder)
}

pub(crate) fn output(root: &Path, arguments: &[&str]) -> Result<String, String> {
    stdout(command(root, arguments), arguments)
}

pub(crate) fn stdout(mut command: Command, arguments: &[&str]) -> Result<String, String> {
    let shown = arguments.join(" ");
    let output = command.output().map_err(|error| format!("cannot run `cargo {shown}`: {error}"))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(format!("`cargo {shown}` failed\n{}", String::from_utf8_lossy(&output.stderr)))
    }
}

/// Fails if there are findings. The error has one line for each finding.
pub(crate) fn report(found: &[String]) -> Result<(), String> {
    if found.is_empty() { Ok(()) } else { Err(format!("\n  {}", found.join("\n  "))) }
}
