//! External programs and their output.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

pub(crate) fn succeed(command: &mut Command) -> Result<()> {
    let shown = shown(command);
    let status = command.status().with_context(|| format!("cannot run `{shown}`"))?;
    if !status.success() {
        bail!("`{shown}` failed: {status}");
    }
    Ok(())
}

/// Runs a program and returns its output without trailing white space. Fails if the program fails, or if its
/// output is not UTF-8.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let shown = shown(command);
    let output = command.stderr(Stdio::piped()).output().with_context(|| format!("cannot run `{shown}`"))?;
    if !output.status.success() {
        bail!("`{shown}` failed: {}{}", output.status, text(&output.stderr));
    }
    Ok(String::from_utf8(output.stdout).with_context(|| shown)?.trim_end().to_owned())
}

/// Returns true if a program can be started.
pub(crate) fn is_installed(program: &str) -> bool {
    Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

fn text(bytes: &[u8]) -> String {
    format!("\n{}", String::from_utf8_lossy(bytes).trim_end())
}

fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}
