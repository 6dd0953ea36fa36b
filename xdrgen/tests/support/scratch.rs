//! Crates like those of a user: outside the project, with path dependencies.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the package is in a workspace").to_path_buf()
}

fn dev_profile() -> String {
    let manifest = fs::read_to_string(workspace().join("Cargo.toml")).expect("the workspace's manifest");
    let mut is_dev = false;
    let lines = manifest.lines().filter(|line| {
        if line.starts_with('[') {
            is_dev = line.starts_with("[profile.dev");
        }
        is_dev
    });
    lines.map(|line| format!("{line}\n")).collect()
}

fn unoptimized(name: &str) -> String {
    format!("[profile.dev.package.rpcrdma-{name}]\nopt-level = 0\n\n")
}

pub(crate) struct Scratch {
    directory: tempfile::TempDir,
}

impl Scratch {
    /// Creates a crate. Each crate of a run must have a unique `name`: in the shared target directory, cargo
    /// identifies a package by its path in its workspace. `manifest` is the rest of the crate's manifest,
    /// after `[package]`, `[workspace]` and the profiles.
    pub(crate) fn new(name: &str, manifest: &str) -> Self {
        let directory = tempfile::tempdir().expect("a directory for the crate");
        let scratch = Scratch { directory };
        // Dependencies are compiled as in the workspace, so that existing artifacts are reused.
        let profile = dev_profile() + &["layout", "runtime", "derive"].map(unoptimized).concat();
        let head = format!(
            "[package]\nname = \"{name}\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[workspace]\n\n{profile}"
        );
        scratch.write("Cargo.toml", &format!("{head}{manifest}"));
        // With this file, cargo uses the versions of the workspace and queries no registry.
        fs::copy(workspace().join("Cargo.lock"), scratch.path("Cargo.lock"))
            .expect("the workspace's lock file");
        scratch
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("a file is in a directory")).expect("a directory");
        fs::write(path, text).expect("a file of the crate");
    }

    /// Runs cargo offline. Returns whether cargo succeeded, and cargo's output.
    pub(crate) fn cargo(&self, arguments: &[&str]) -> (bool, String) {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("the target directory");
        let output = Command::new(env!("CARGO"))
            .args(arguments)
            .arg("--offline")
            .current_dir(self.directory.path())
            .env("CARGO_TARGET_DIR", target)
            .env("RUSTFLAGS", std::env::var("RUSTFLAGS").unwrap_or_default())
            .output()
            .expect("cargo runs");
        let text = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&text).into_owned())
    }
}
