//! `cargo xtask dist` and `cargo xtask release`: both run the package `rpcrdma-dist`, so that xtask builds
//! without the dependencies of these tasks.

use std::env;
use std::path::Path;
use std::process::Command;

use crate::tools;

/// The arguments for `rpcrdma-dist`; `--help` lists them.
#[derive(Default, clap::Args)]
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

/// Runs the long job that builds the archive of statically linked programs and tests it in minimal root
/// directories.
pub(crate) fn checked(root: &Path) -> Result<(), String> {
    if let Some(why) = missing() {
        not_run::record("dist", why);
        return Ok(());
    }
    run(root, &["dist", "--check"], &Arguments::default())
}

/// Returns the first missing requirement for building and testing the archive on this machine, if any.
fn missing() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("only root can run programs in another root directory".to_owned());
    }
    if tools::on_path("debootstrap").is_none() {
        return Some("debootstrap is not installed (package debootstrap)".to_owned());
    }
    let target = format!("{}-unknown-linux-musl", env::consts::ARCH);
    let libraries = Command::new("rustc").args(["--print", "target-libdir", "--target", &target]).output();
    let has_library =
        libraries.is_ok_and(|found| Path::new(String::from_utf8_lossy(&found.stdout).trim()).exists());
    (!has_library).then(|| format!("no standard library for {target}; run `rustup target add {target}`"))
}
