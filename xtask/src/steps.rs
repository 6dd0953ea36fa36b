//! The steps of the gate that run tests. `checks.rs` has the other steps, which run first.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::filters::{self, Filters};
use crate::jobs::JOBS;
use crate::step::Step;
use crate::{cargo, child, guides, interop, miri, optional, stress};

pub(crate) const STEPS: &[Step] = &[
    Step::new("features", 15, features),
    Step::new("optional-tests", 20, optional_tests),
    Step::new("tests", 40, tests),
    Step::new("tour", 10, tour),
    Step::new("guides", 15, guides::run),
    Step::new("short-siege", 15, |root| stress::siege(root, &["--short"])),
    Step::new("simulation", 15, |root| stress::simulation(root, "10000")),
    Step::new("miri", 20, memory),
    Step::new("fuzz", 15, |root| stress::fuzzing(root, "fuzz", 20)),
    Step::new("interop", 30, interop),
    Step::interop("interop-devices", 35, interop::DEVICES),
    Step::interop("interop-guest", 35, interop::IN_GUEST),
    Step::new("readme-mount", 25, interop::mount_commands),
];

/// Features of `rpcrdma-nfs` that must compile alone (empty for no feature). In the other steps, Clippy
/// checks only builds with both `client` and `directory`.
const NFS_FEATURES: [&str; 3] = ["", "client", "directory"];

/// Runs Clippy with combinations of features that it does not check in other steps: the runtime without
/// `capture`, and `rpcrdma-nfs` with each of [`NFS_FEATURES`]. Also runs the runtime's test `no_capture`.
fn features(root: &Path) -> Result<(), String> {
    for features in NFS_FEATURES {
        let selection =
            ["--package", "rpcrdma-nfs", "--lib", "--no-default-features", "--features", features];
        cargo::run(root, &[&["clippy"], &selection[..], &["--", "-D", "warnings"]].concat())?;
    }
    let runtime = ["--package", "rpcrdma-runtime"];
    cargo::run(root, &[&["clippy"], &runtime[..], &["--all-targets", "--", "-D", "warnings"]].concat())?;
    let arguments = [&["test"], &runtime[..], &["--test", "no_capture"]].concat();
    filters::test(cargo::command(root, &arguments), &Filters { only: &[], skip: &[] })
}

/// Tests the optional features (`optional.rs`). If Kerberos can be compiled here, also checks the filters of
/// the tests with Kerberos.
fn optional_tests(root: &Path) -> Result<(), String> {
    optional::test(root)?;
    if rpcrdma_verbs_packages::missing_for_krb5().is_empty() { check_filters(root, true) } else { Ok(()) }
}

/// Checks the filters of all steps and jobs without Kerberos, then runs tests against Linux's client and
/// server.
fn interop(root: &Path) -> Result<(), String> {
    check_filters(root, false)?;
    interop::run(root, "interop", &interop::IWARP)
}

/// Checks the filters of the steps and jobs that run tests against Linux's client and server. If `kerberos`
/// is true, checks the steps and jobs that need Kerberos. Otherwise, checks all others. Without this check, a
/// filter that matches no test is noticed only when its job runs.
fn check_filters(root: &Path, kerberos: bool) -> Result<(), String> {
    let steps = STEPS.iter().chain(JOBS).filter_map(|step| Some((step.name, step.group()?)));
    let gate = [("interop", &interop::IWARP)];
    interop::check_filters(root, kerberos, gate.into_iter().chain(steps))
}

/// Runs README's test command, but skips the tests that need the lab. Separate steps run these tests.
fn tests(root: &Path) -> Result<(), String> {
    let arguments = ["test", "--workspace"];
    let mut command = cargo::command(root, &arguments);
    command.env_remove("RPCRDMA_LAB");
    cargo::succeed(command, &arguments)
}

fn tour(root: &Path) -> Result<(), String> {
    cargo::run(root, &["run", "--release", "--package", "rpcrdma-examples", "--bin", "tour"])
}

/// Runs Miri. If a requirement is missing, first tries to install Miri with rustup.
fn memory(root: &Path) -> Result<(), String> {
    if miri::ready().is_err() {
        let install = ["toolchain", "install", "nightly", "--profile", "minimal"];
        let components = ["--component", "miri", "--component", "rust-src"];
        let mut rustup = Command::new("rustup");
        rustup.args(install).args(components);
        child::succeeds(rustup, Duration::from_secs(300));
    }
    match miri::ready() {
        Ok(()) => miri::run(root, &miri::Arguments::default()),
        Err(why) => {
            not_run::record("miri", why);
            Ok(())
        }
    }
}
