//! The tests against other implementations of NFSv3 (`nfs/tests/peers.rs`) and rpcbind
//! (`tests/tests/rpcbind.rs`), as long jobs.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::cargo;
use crate::filters::{self, Filters};
use crate::tools;

/// Programs and the Debian packages that contain them.
type Needs = [(&'static str, &'static str)];

const COMMON: &Needs = &[("rpcbind", "rpcbind"), ("unshare", "util-linux"), ("ip", "iproute2")];
const LIBNFS: &Needs = &[("nfs-ls", "libnfs-utils"), ("nfs-cp", "libnfs-utils"), ("nfs-cat", "libnfs-utils")];
const GANESHA: &Needs = &[("ganesha.nfsd", "nfs-ganesha, with nfs-ganesha-vfs")];

/// A script that mounts a tmpfs and starts an rpcbind in the new namespaces, and then runs the tests.
const SETUP: &str = "mount -t tmpfs peers /run && mkdir /run/peers /run/ganesha && ip link set lo up && \
     rpcbind -w && exec \"$@\"";
const NAMESPACES: [&str; 6] = ["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"];

/// A package, one of its integration tests, and a test function in that integration test.
type Test = [&'static str; 3];

const RPCBIND: Test = ["rpcrdma-tests", "rpcbind", "the_rpcbind_of_this_machine"];

/// Runs libnfs against our server, and registers a program with rpcbind.
pub(crate) fn libnfs(root: &Path) -> Result<(), String> {
    run(root, "libnfs", LIBNFS, &[["rpcrdma-nfs", "peers", "libnfs_uses_our_server"], RPCBIND])
}

/// Runs our client against NFS-Ganesha.
pub(crate) fn ganesha(root: &Path) -> Result<(), String> {
    run(root, "ganesha", GANESHA, &[["rpcrdma-nfs", "peers", "our_client_uses_ganesha"]])
}

fn run(root: &Path, name: &str, needs: &Needs, tests: &[Test]) -> Result<(), String> {
    let missing = COMMON.iter().chain(needs).find(|(program, _)| tools::on_path(program).is_none());
    if let Some((program, package)) = missing {
        not_run::record(name, format_args!("{program} is not installed (package {package})"));
        return Ok(());
    }
    if !rustix::process::geteuid().is_root() {
        not_run::record(name, "creating a network namespace with its own rpcbind requires root");
        return Ok(());
    }
    tests.iter().try_for_each(|test| run_test(root, test))
}

fn run_test(root: &Path, [package, test, function]: &Test) -> Result<(), String> {
    let arguments = ["test", "--package", package, "--test", test];
    // Builds the test before `unshare`: in the new network namespace, cargo cannot download dependencies.
    cargo::run(root, &[&arguments[..], &["--no-run"]].concat())?;
    let inner = cargo::command(root, &arguments);
    let mut command = Command::new("unshare");
    command.args(NAMESPACES).args(["sh", "-c", SETUP, "sh"]);
    command.arg(inner.get_program()).args(inner.get_args()).arg("--offline").current_dir(root);
    let records = cargo::scratch(root)?.join("not-run-peers");
    let _ = fs::remove_file(&records);
    command.env("RPCRDMA_PEERS", "/run/peers").env("RPCRDMA_RPCBIND", "1").env(not_run::FILE, &records);
    filters::test(command, &Filters { only: &[*function], skip: &[] })?;
    match fs::read_to_string(&records) {
        Ok(skipped) => Err(format!("a test did not run: {}", skipped.trim_end())),
        Err(_) => Ok(()),
    }
}
