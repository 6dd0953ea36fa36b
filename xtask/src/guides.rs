//! `cargo xtask ci guides`: runs the commands in the first `sh` code block of each guide in `GUIDES`. The
//! step `walk` runs the commands of the guide `compile`.
//!
//! Each guide gets a new directory with a copy of the documents in `specs/`. There, `cargo run --release`
//! runs the programs of this workspace in the `dev` profile, and other cargo commands do nothing.

use std::env;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::cargo;
use crate::shell::{Server, Shell};

/// Each guide, and a text that the output of its commands must contain.
const GUIDES: &[(&str, &str)] =
    &[("extensions", "compatible; additions:\n"), ("nfs", "big.iso"), ("captures", "NFSv3 WRITE")];

pub(crate) fn run(root: &Path) -> Result<(), String> {
    let compiler = ["build", "--quiet", "--package", "rpcrdma-xdrgen", "--features", "cli"];
    cargo::run(root, &compiler)?;
    GUIDES.iter().try_for_each(|(guide, output)| {
        follow(root, guide, output).map_err(|error| format!("docs/{guide}.md: {error}"))
    })
}

fn follow(root: &Path, guide: &str, output: &str) -> Result<(), String> {
    let text = read(root, guide)?;
    let commands = first_block(&text, "sh")?;
    let directory = tempfile::Builder::new().prefix("guide").tempdir().map_err(|error| error.to_string())?;
    let directory = directory.path();
    prepare(root, directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    let shell = Shell { directory, environment: environment(root, directory)? };
    let (mut printed, mut folder) = (String::new(), String::new());
    let mut server: Option<Server> = None;
    for command in commands.lines() {
        if let Some(command) = command.strip_suffix('&') {
            server = Some(shell.serve(command, &directory.join("printed"))?);
        } else if command.starts_with("cd ") {
            // Each command runs in a separate shell, so the `cd` is repeated before every later command
            // except servers.
            folder = format!("{command} && ");
        } else {
            printed.push_str(&shell.run(&format!("{folder}{command}"))?);
        }
    }
    drop(server);
    if printed.contains(output) { Ok(()) } else { Err(format!("no command prints `{output}`")) }
}

/// Copies the documents that the commands read, and writes a script that replaces `cargo`.
fn prepare(root: &Path, directory: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let specs = directory.join("specs");
    fs::create_dir(&specs)?;
    for entry in fs::read_dir(root.join("specs"))? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            fs::copy(entry.path(), specs.join(entry.file_name()))?;
        }
    }
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let script = format!(
        "#!/bin/sh\n[ \"$1\" = run ] && [ \"$2\" = --release ] || exit 0\nshift 2\n\
         exec '{}' run --quiet --manifest-path '{}' \"$@\"\n",
        cargo.display(),
        root.join("Cargo.toml").display()
    );
    let programs = directory.join("bin");
    fs::create_dir(&programs)?;
    fs::write(programs.join("cargo"), script)?;
    Ok(fs::set_permissions(programs.join("cargo"), Permissions::from_mode(0o755))?)
}

/// Returns environment variables: a search path with the programs, and a directory for the state of `nfs3d`.
fn environment(root: &Path, directory: &Path) -> Result<Vec<(&'static str, std::ffi::OsString)>, String> {
    let path = env::var_os("PATH").unwrap_or_default();
    let programs = [directory.join("bin"), cargo::target(root).join("debug")];
    let path = env::join_paths(programs.into_iter().chain(env::split_paths(&path)));
    let path = path.map_err(|error| format!("PATH: {error}"))?;
    Ok(vec![("PATH", path), ("STATE_DIRECTORY", directory.join("state").into())])
}

fn read(root: &Path, guide: &str) -> Result<String, String> {
    let path = root.join("docs").join(guide).with_extension("md");
    fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
}

fn first_block<'g>(guide: &'g str, language: &str) -> Result<&'g str, String> {
    let mut blocks = guide.split("```").skip(1).step_by(2).filter_map(|block| block.split_once('\n'));
    let found = blocks.find(|(name, _)| *name == language);
    found.map(|(_, text)| text).ok_or_else(|| format!("no code block with the language `{language}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_found_by_language() {
        let guide = "`x`\n\n```text\na\n```\n\n```sh\nb\n```\n\n```sh\nc\n```\n";
        assert_eq!(first_block(guide, "sh"), Ok("b\n"));
        assert!(first_block(guide, "toml").is_err());
    }
}
