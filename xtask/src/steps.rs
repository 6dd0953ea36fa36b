//! The steps of the gate that run tests. `checks.rs` has the other steps, which run first.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::filters::{self, Filters};
use crate::packages::{KRB5_FEATURES, VERBS, VERBS_FEATURES};
use crate::step::Step;
use crate::{cargo, child, fuzz, guides, interop, miri};

/// The steps, in order.
pub(crate) const STEPS: &[Step] = &[
    Step { name: "features", minutes: 15, run: features },
    Step { name: "verbs-tests", minutes: 15, run: verbs_tests },
    Step { name: "krb5-tests", minutes: 15, run: krb5_tests },
    Step { name: "tests", minutes: 40, run: tests },
    Step { name: "tour", minutes: 10, run: tour },
    Step { name: "guides", minutes: 15, run: guides::run },
    Step { name: "short-siege", minutes: 10, run: |root| siege(root, &["--short"]) },
    Step { name: "simulation", minutes: 15, run: |root| simulation(root, "10000") },
    Step { name: "miri", minutes: 20, run: memory },
    Step { name: "fuzz", minutes: 15, run: |root| fuzzing(root, "fuzz", 20) },
    Step { name: "interop", minutes: 30, run: |root| interop::run(root, "interop", &interop::IWARP) },
    Step {
        name: "interop-devices",
        minutes: 35,
        run: |root| interop::run(root, "interop-devices", &interop::DEVICES),
    },
    Step {
        name: "interop-guest",
        minutes: 35,
        run: |root| interop::run(root, "interop-guest", &interop::IN_GUEST),
    },
    Step { name: "readme-mount", minutes: 25, run: interop::mount_commands },
];

/// Features of `rpcrdma-nfs` that must compile alone. The other steps compile all of them together.
const NFS_FEATURES: [&str; 3] = ["", "client", "directory"];

/// Compiles sets of features that the other steps do not compile. These are the runtime without `capture`,
/// `rpcrdma-nfs` with each of its features alone, and the example with OpenTelemetry.
fn features(root: &Path) -> Result<(), String> {
    for features in NFS_FEATURES {
        let selection =
            ["--package", "rpcrdma-nfs", "--lib", "--no-default-features", "--features", features];
        cargo::run(root, &[&["clippy"], &selection[..], &["--", "-D", "warnings"]].concat())?;
    }
    let runtime = ["--package", "rpcrdma-runtime"];
    cargo::run(root, &[&["clippy"], &runtime[..], &["--all-targets", "--", "-D", "warnings"]].concat())?;
    let arguments = [&["test"], &runtime[..], &["--test", "no_capture"]].concat();
    filters::test(cargo::command(root, &arguments), &Filters { only: &[], skip: &[] })?;
    let spans = ["--package", "rpcrdma-examples", "--features", "opentelemetry"];
    let targets = ["--bin", "spans", "--test", "spans"];
    cargo::run(root, &[&["clippy"], &spans[..], &targets, &["--", "-D", "warnings"]].concat())?;
    cargo::run(root, &[&["test"], &spans[..], &["--test", "spans"]].concat())
}

/// Runs the unit tests of the crate for RDMA devices that need no device.
fn verbs_tests(root: &Path) -> Result<(), String> {
    let missing = rpcrdma_verbs_packages::missing();
    if !missing.is_empty() {
        not_run::record("verbs-tests", format_args!("missing packages: {}", missing.join(" ")));
        return Ok(());
    }
    cargo::run(root, &[&["test", "--package", VERBS][..], &VERBS_FEATURES].concat())
}

/// Runs the Kerberos tests, with a KDC on loopback.
fn krb5_tests(root: &Path) -> Result<(), String> {
    let missing = rpcrdma_verbs_packages::missing_for_krb5();
    if !missing.is_empty() {
        not_run::record("krb5-tests", format_args!("missing packages: {}", missing.join(" ")));
        return Ok(());
    }
    cargo::run(root, &[&["test", "--lib", "--test", "kerberos"][..], &KRB5_FEATURES].concat())
}

/// Runs README's test command, without the lab, which has separate steps.
fn tests(root: &Path) -> Result<(), String> {
    let arguments = ["test", "--workspace"];
    let mut command = cargo::command(root, &arguments);
    command.env_remove("RPCRDMA_LAB");
    cargo::succeed(command, &arguments)
}

fn tour(root: &Path) -> Result<(), String> {
    cargo::run(root, &["run", "--release", "--package", "rpcrdma-examples", "--bin", "tour"])
}

/// Attacks `nfs3d`. Without `--short`, honest calls must also be fast, which needs an idle machine.
pub(crate) fn siege(root: &Path, options: &[&str]) -> Result<(), String> {
    let siege = ["run", "--release", "--package", "rpcrdma-tests", "--bin", "siege", "--"];
    cargo::run(root, &[&siege, options].concat())
}

/// Runs the simulation with a number of seeds, or a range of seeds.
pub(crate) fn simulation(root: &Path, seeds: &str) -> Result<(), String> {
    cargo::run(root, &["run", "--release", "--package", "rpcrdma-sim", "--", seeds])
}

/// Runs Miri, which is installed if it is missing and rustup is available.
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

/// Runs every fuzz target for a number of seconds, as the step or job `name`.
pub(crate) fn fuzzing(root: &Path, name: &str, seconds: u64) -> Result<(), String> {
    if Command::new("c++").arg("--version").output().is_err() {
        not_run::record(name, "no C++ compiler for libFuzzer (package g++)");
        return Ok(());
    }
    fuzz::run(root, &fuzz::Arguments { targets: Vec::new(), seconds })
}
