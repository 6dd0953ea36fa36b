//! `cargo xtask miri`: runs the unsafe code, which is all in `rpcrdma-verbs`, under Miri.
//!
//! Miri interprets the tests and checks each memory access against Rust's rules. A fake device in Rust,
//! compiled only for Miri, replaces the C libraries. Building the crate still needs the system packages
//! listed in `docs/rdma-devices.md`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use crate::filters::{self, Filters};
use crate::packages::VERBS;
use crate::tools;

/// Options of `cargo xtask miri`.
#[derive(Default, clap::Args)]
pub(crate) struct Arguments {
    /// Run only tests whose names contain this text (default: all)
    tests: Option<String>,
    /// Only check that the requirements are present
    #[arg(long)]
    check: bool,
    /// Use the rules of Tree Borrows instead of Stacked Borrows: each set of rules forbids some accesses that
    /// the other set allows
    #[arg(long)]
    tree_borrows: bool,
}

/// Forbids conversions of integers to pointers. The fake device receives addresses as integers, and looks up
/// the original pointers.
const FLAGS: &str = "-Zmiri-strict-provenance";

/// Modules whose tests take about half of the run time. Miri uses one core, so these tests and all others run
/// at the same time, in two processes.
const FIRST_HALF: &[&str] =
    &["tests::closing::", "tests::connecting::", "tests::failures::", "tests::pacing::"];

/// Runs the tests. Miri's build output is in `target/miri`. Time is virtual under Miri, so no test waits.
pub(crate) fn run(root: &Path, arguments: &Arguments) -> Result<(), String> {
    ready()?;
    if arguments.check {
        return Ok(());
    }
    let rules = if arguments.tree_borrows { " -Zmiri-tree-borrows" } else { "" };
    let test = |filters: &Filters<'_>| {
        let mut command = Command::new("cargo");
        command
            .args(["+nightly", "miri", "test", "-p", VERBS, "--lib", "--features", "devices"])
            .current_dir(root)
            .env("MIRIFLAGS", format!("{FLAGS}{rules}"));
        filters::test(command, filters).map_err(|error| format!("the tests under Miri failed: {error}"))
    };
    if let Some(only) = arguments.tests.as_deref() {
        return test(&Filters { only: &[only], skip: &[] });
    }
    // Builds the standard library before both test runs use it.
    tools::succeed(Command::new("cargo").args(["+nightly", "miri", "setup"]), "`cargo miri setup` failed")?;
    thread::scope(|scope| {
        let first = scope.spawn(|| test(&Filters { only: FIRST_HALF, skip: &[] }));
        let rest = test(&Filters { only: &[], skip: FIRST_HALF });
        first.join().map_err(|_| "a thread panicked")?.and(rest)
    })
}

/// Fails if a requirement is missing. The error has the command that installs the requirement.
pub(crate) fn ready() -> Result<(), String> {
    let missing = rpcrdma_verbs_packages::missing();
    if !missing.is_empty() {
        return Err(format!(
            "rpcrdma-verbs: missing packages; on Debian: apt-get install {}",
            missing.join(" ")
        ));
    }
    let how = "`rustup toolchain install nightly --component miri --component rust-src`";
    let sysroot = output_of("rustc", &["+nightly", "--print", "sysroot"])
        .ok_or_else(|| format!("Miri requires a nightly toolchain, which is missing: run {how}"))?;
    if output_of("cargo", &["+nightly", "miri", "--version"]).is_none() {
        return Err("Miri is missing: run `rustup component add miri --toolchain nightly`".to_owned());
    }
    if !PathBuf::from(sysroot.trim()).join("lib/rustlib/src/rust/library/std").is_dir() {
        let how = "`rustup component add rust-src --toolchain nightly`";
        return Err(format!("Miri requires the source of the standard library, which is missing: run {how}"));
    }
    Ok(())
}

fn output_of(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}
