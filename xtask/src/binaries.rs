//! Builds test binaries as `cargo test` does, so that a caller can run each binary separately.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::{cargo, tools};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Binary {
    pub(crate) program: PathBuf,
    /// The directory of the binary's package. As with `cargo test`, the binary runs there.
    pub(crate) package: PathBuf,
}

impl Binary {
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.current_dir(&self.package).env("CARGO_MANIFEST_DIR", &self.package);
        command
    }
}

/// Builds the test binaries that a `cargo test` command with these arguments would run.
pub(crate) fn build(root: &Path, arguments: &[&str]) -> Result<Vec<Binary>, String> {
    let arguments = [arguments, &["--no-run"]].concat();
    cargo::run(root, &arguments)?;
    let binaries = listed(&cargo::output(root, &[&arguments[..], &["--message-format=json"]].concat())?);
    if binaries.is_empty() { Err("cargo reports no test binaries".to_owned()) } else { Ok(binaries) }
}

/// Builds tests as `cargo test` does with `options`, and runs those of the packages in `directories`. The
/// options must select the entire workspace: for single packages, cargo would compile dependencies again,
/// with fewer features.
pub(crate) fn run(root: &Path, directories: &[&str], options: &[&str]) -> Result<(), String> {
    let binaries = build(root, &[&["test"], options].concat())?;
    for directory in directories {
        let of_package: Vec<_> =
            binaries.iter().filter(|binary| binary.package.ends_with(directory)).collect();
        if of_package.is_empty() {
            return Err(format!("{directory}: cargo built no tests"));
        }
        for binary in of_package {
            eprintln!("     Running {}", binary.program.display());
            tools::succeed(&mut binary.command(), &format!("a test of {directory} failed"))?;
        }
    }
    Ok(())
}

/// Returns the test binaries that cargo's messages name. Each message is one line of JSON.
fn listed(messages: &str) -> Vec<Binary> {
    let binary = |line: &str| {
        let message: Value = serde_json::from_str(line).ok()?;
        let is_test = message["profile"]["test"] == true;
        let program = message["executable"].as_str().filter(|_| is_test)?.into();
        let package = Path::new(message["manifest_path"].as_str()?).parent()?.to_path_buf();
        Some(Binary { program, package })
    };
    messages.lines().filter_map(binary).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_binaries_are_found_in_the_messages_of_cargo() {
        let messages = r#"   Compiling a v0.1.0
{"reason":"compiler-artifact","manifest_path":"/w/a/Cargo.toml","profile":{"test":false},"executable":"/t/a"}
{"reason":"compiler-artifact","manifest_path":"/w/a/Cargo.toml","profile":{"test":true},"executable":null}
{"reason":"compiler-artifact","manifest_path":"/w/a/Cargo.toml","profile":{"test":true},"executable":"/t/a-1"}
{"reason":"build-finished","success":true}
"#;
        let expected = Binary { program: "/t/a-1".into(), package: "/w/a".into() };
        assert_eq!(listed(messages), [expected]);
    }
}
