//! The programs that the lab needs on this machine, and helpers for running commands.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs, io};

const PROGRAMS: &[(&str, &str)] = &[
    ("apt-get", "apt"),
    ("apt-cache", "apt"),
    ("dpkg-deb", "dpkg"),
    ("tar", "tar"),
    ("xz", "xz-utils"),
    ("make", "make"),
    ("gcc", "gcc"),
    ("strip", "binutils"),
    ("depmod", "kmod"),
    ("modinfo", "kmod"),
    ("qemu-system-x86_64", "qemu-system-x86"),
];

/// Checks that this machine can run the lab.
///
/// # Errors
/// Fails if a program is missing; the error lists the packages to install. Also fails on systems other than
/// Linux on amd64.
pub(super) fn check() -> Result<(), String> {
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        return Err("the lab supports only Linux on amd64".to_owned());
    }
    let missing: Vec<_> = PROGRAMS.iter().filter(|(program, _)| find(program).is_none()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let names: Vec<_> = missing.iter().map(|(program, _)| format!("`{program}`")).collect();
    let mut packages: Vec<_> = missing.iter().map(|(_, package)| *package).collect();
    packages.dedup();
    Err(format!(
        "the lab needs {}; on Debian: apt-get install --no-install-recommends {}",
        names.join(", "),
        packages.join(" ")
    ))
}

fn find(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let admin = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    env::split_paths(&path).chain(admin).map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// Returns a command for a program, with messages in English and an empty standard input.
pub(super) fn command(program: &str) -> Command {
    let mut command = Command::new(find(program).unwrap_or_else(|| program.into()));
    command.env("LC_ALL", "C").stdin(Stdio::null());
    command
}

/// Runs a command and returns its standard output.
///
/// # Errors
/// Fails if the command fails; the error contains the last lines of its standard error.
pub(super) fn output(command: &mut Command) -> Result<String, String> {
    let shown = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| format!("{shown}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    let arguments: Vec<_> = command.get_args().map(OsStr::to_string_lossy).collect();
    Err(format!("`{shown} {}` failed:\n{}", arguments.join(" "), last_lines(&errors, 30)))
}

pub(super) fn pipe(first: &mut Command, second: &mut Command) -> Result<(), String> {
    let shown = first.get_program().to_string_lossy().into_owned();
    let mut writer = first.stdout(Stdio::piped()).spawn().map_err(|error| format!("{shown}: {error}"))?;
    if let Some(printed) = writer.stdout.take() {
        second.stdin(printed);
    }
    let read = output(second);
    // Close this process's copy of the pipe. Otherwise, if the second command exits early, the first command
    // could block forever on a full pipe.
    second.stdin(Stdio::null());
    let status = writer.wait().map_err(|error| format!("{shown}: {error}"))?;
    read?;
    if status.success() { Ok(()) } else { Err(format!("`{shown}` failed")) }
}

pub(super) fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

/// Returns a function that adds the path to the message of an I/O error.
pub(super) fn at(path: &Path) -> impl FnOnce(io::Error) -> String {
    let path = path.display().to_string();
    move |error| format!("{path}: {error}")
}

/// Removes a directory. Does nothing if the directory does not exist.
pub(super) fn remove(folder: &Path) -> Result<(), String> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(at(folder)(error)),
        _ => Ok(()),
    }
}
