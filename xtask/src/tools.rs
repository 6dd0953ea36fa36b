//! Tools that the checks need and that cargo can install, and programs on the search path.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use std::{env, fs};

use crate::cargo::target;
use crate::{cargo, child};

/// A program that cargo can install. Its version is fixed, so that a new version cannot change a check's
/// result.
pub(crate) struct Tool {
    program: &'static str,
    package: &'static str,
    version: &'static str,
    /// Options of `cargo install`.
    options: &'static [&'static str],
}

pub(crate) const TYPOS: Tool =
    Tool { program: "typos", package: "typos-cli", version: "1.52.0", options: &[] };
pub(crate) const DENY: Tool =
    Tool { program: "cargo-deny", package: "cargo-deny", version: "0.20.2", options: &[] };
/// mdBook without its default features, such as the web server.
pub(crate) const MDBOOK: Tool =
    Tool { program: "mdbook", package: "mdbook", version: "0.5.4", options: &["--no-default-features"] };

impl Tool {
    /// Finds the required version of the program on the search path or in the user's cache directory. If this
    /// version is missing, installs it in the cache directory.
    ///
    /// If the installation fails, records the check as not run and returns `None`.
    pub(crate) fn program(&self, root: &Path, check: &str) -> Option<PathBuf> {
        // All of a user's clones of this repository share the tools.
        let folder = env::home_dir().unwrap_or_else(|| target(root)).join(".cache/rpcrdma-tools");
        let folder = folder.join(format!("{}-{}", self.package, self.version));
        let found = self.find(&folder).or_else(|| self.install(root, &folder));
        if found.is_none() {
            let Tool { program, version, .. } = self;
            not_run::record(check, format_args!("{program} {version} is missing and cannot be installed"));
        }
        found
    }

    fn find(&self, folder: &Path) -> Option<PathBuf> {
        let programs = [PathBuf::from(self.program), folder.join("bin").join(self.program)];
        programs.into_iter().find(|program| {
            let output = Command::new(program).arg("--version").output();
            output.is_ok_and(|output| {
                let text = String::from_utf8_lossy(&output.stdout);
                output.status.success()
                    && text.split_whitespace().any(|word| word.trim_start_matches('v') == self.version)
            })
        })
    }

    fn install(&self, root: &Path, folder: &Path) -> Option<PathBuf> {
        // Each tool runs only for seconds, so a quick build saves more time than an optimized program.
        let build = target(root).join("tools");
        let mut command = cargo::command(root, &["install", "--locked", "--debug"]);
        command.args([self.package, "--version", self.version]).args(self.options);
        command.arg("--root").arg(folder).env("CARGO_TARGET_DIR", &build);
        let is_installed = child::succeeds(command, Duration::from_secs(900));
        // Only the program is kept, since its build directory is large.
        let _ = fs::remove_dir_all(&build);
        if is_installed { self.find(folder) } else { None }
    }
}

pub(crate) fn on_path(program: &str) -> Option<PathBuf> {
    find(program, env::split_paths(&env::var_os("PATH").unwrap_or_default()))
}

pub(crate) fn find(program: &str, directories: impl IntoIterator<Item = PathBuf>) -> Option<PathBuf> {
    directories.into_iter().map(|directory| directory.join(program)).find(|path| path.is_file())
}

pub(crate) fn succeed(command: &mut Command, failure: &str) -> Result<(), String> {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err(failure.to_owned()),
        Err(error) => Err(format!("cannot run {}: {error}", command.get_program().display())),
    }
}
