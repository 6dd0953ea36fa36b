//! `cargo xtask dist` and `cargo xtask release`: both run the package `rpcrdma-dist`, which has the
//! dependencies that they need.

use std::env;
use std::path::Path;
use std::process::Command;

/// Passed on; `--help` lists them.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Arguments {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

pub(crate) fn run(root: &Path, task: &[&str], arguments: &Arguments) -> Result<(), String> {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["run", "--quiet", "--package", "rpcrdma-dist", "--"]).args(task).args(&arguments.arguments);
    let status = cargo.current_dir(root).status().map_err(|error| format!("cannot run `cargo`: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("`cargo xtask {}` failed", task.join(" "))) }
}
