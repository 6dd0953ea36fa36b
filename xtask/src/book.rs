//! Builds the guides as a book with `mdbook build`, and tests their examples with `mdbook test`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, io};

use serde_json::Value;

use crate::{cargo, tools};

/// The package whose dependencies and compiled documents the examples use.
const PACKAGE: &str = "rpcrdma-tests";

pub(crate) fn check(root: &Path) -> Result<(), String> {
    let Some(program) = tools::MDBOOK.program(root, "book") else { return Ok(()) };
    let mdbook = |task: &str| {
        let mut command = Command::new(&program);
        command.args([task, "docs"]).current_dir(root);
        command
    };
    tools::succeed(&mut mdbook("build"), "the guides cannot be built as a book")?;
    let crates = Crates::build(root)?;
    let folder = cargo::scratch(root)?.join("book");
    let path = crates.write(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    tools::succeed(mdbook("test").env("PATH", path), "an example in a guide failed")
}

struct Crates {
    /// The path of each library, by name. A library that build scripts also use is built twice, and the
    /// examples use one of the two builds.
    libraries: BTreeMap<String, String>,
    compiled: PathBuf,
    dependencies: PathBuf,
}

impl Crates {
    fn build(root: &Path) -> Result<Self, String> {
        let dependencies = cargo::target(root).join("debug/deps");
        let arguments = ["build", "--package", PACKAGE, "--lib", "--message-format", "json"];
        let (mut libraries, mut compiled) = (BTreeMap::new(), None);
        for line in cargo::output(root, &arguments)?.lines() {
            let message: Value =
                serde_json::from_str(line).map_err(|error| format!("cargo build: {error}"))?;
            let text = |pointer| message.pointer(pointer).and_then(Value::as_str);
            if text("/package_id").is_some_and(|id| id.contains("/tests#"))
                && let Some(folder) = text("/out_dir")
            {
                compiled = Some(PathBuf::from(folder));
            }
            if let (Some(name), Some(file)) = (text("/target/name"), text("/filenames/0"))
                && (name.starts_with("rpcrdma_") || name == "tokio")
                && file.ends_with(".rlib")
            {
                libraries.insert(name.to_owned(), file.to_owned());
            }
        }
        let compiled = compiled.ok_or_else(|| format!("cargo reports no OUT_DIR for {PACKAGE}"))?;
        Ok(Crates { libraries, compiled, dependencies })
    }

    /// Writes a wrapper for `rustdoc` that adds an `--extern` option for each crate, since mdbook has no such
    /// option. Returns a search path that begins with the wrapper's directory.
    fn write(&self, folder: &Path) -> io::Result<OsString> {
        let path = env::var_os("PATH").unwrap_or_default();
        let mut script = format!(
            "#!/bin/sh\nexport PATH='{}' OUT_DIR='{}'\nexec rustdoc \"$@\" -L 'dependency={}'",
            path.display(),
            self.compiled.display(),
            self.dependencies.display()
        );
        for (name, file) in &self.libraries {
            let _ = write!(script, " --extern '{name}={file}'");
        }
        fs::create_dir_all(folder)?;
        let program = folder.join("rustdoc");
        fs::write(&program, script)?;
        fs::set_permissions(&program, Permissions::from_mode(0o755))?;
        let folders = [folder.to_owned()].into_iter().chain(env::split_paths(&path));
        env::join_paths(folders).map_err(io::Error::other)
    }
}
