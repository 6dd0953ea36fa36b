//! Runs this test program in the guest, together with the kernel's client or server. `place.rs` lists the
//! differences from a run on the host.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::guest::{Guest, size};
use crate::place::Ours;

pub(crate) const SERVER: &[&str] = &[
    "kernel_client::a_tree_is_copied_and_renamed_and_removed",
    "kernel_client::a_write_survives_a_server_that_is_killed",
    "suites::blocks_are_written_and_read_with_and_without_the_clients_cache",
    "suites::thousands_of_files_are_copied_and_are_the_same",
];

/// A test that uses a relay to cut connections, so it needs a transport over TCP.
pub(crate) const CUT: &str = "kernel_client::cut_connections_lose_and_repeat_no_call";

pub(crate) const SUITES: &[&str] =
    &["suites::dbench_succeeds", "suites::fio_verifies_what_it_wrote", "suites::fsx_finds_no_wrong_byte"];

pub(crate) const SUITE_CUT: &str = "faults::fio_finds_no_wrong_byte_while_connections_are_cut";

/// A third-party test suite for file semantics, which hardly depend on the transport. Short runs skip this
/// suite with verbs over siw.
pub(crate) const RULES: &str = "suites::pjdfstest_finds_no_difference_from_the_kernels_server";

pub(crate) fn build(arguments: &[&str]) -> Vec<(String, PathBuf)> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).args(arguments);
    let output = cargo.arg("--message-format=json").stderr(Stdio::inherit()).output().unwrap();
    assert!(output.status.success(), "cargo failed to build the programs");
    let program = |message: &Value| {
        let name = message["target"]["name"].as_str()?;
        Some((name.to_owned(), PathBuf::from(message["executable"].as_str()?)))
    };
    let messages = serde_json::Deserializer::from_slice(&output.stdout).into_iter::<Value>();
    messages.filter_map(|message| program(&message.unwrap())).collect()
}

/// Shares stripped programs with the guest, unless the guest already has them.
pub(crate) fn bring(guest: &Guest, ours: Ours, programs: &[(String, PathBuf)]) {
    let at = ours.programs();
    if guest.run(&format!("ls {at} 2>/dev/null || true")).lines().count() >= programs.len() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    for (name, program) in programs {
        // Programs have the same name in each build, so a prefix distinguishes the builds.
        let small = dir.path().join(format!("{}-{name}", Path::new(at).file_name().unwrap().display()));
        let stripped = Command::new("strip").arg("-o").arg(&small).arg(program).status().unwrap();
        assert!(stripped.success(), "{}", program.display());
        let there = guest.bring(&small.to_string_lossy());
        guest.run(&format!("mkdir -p {at}; ln -sf {there} {at}/{name}"));
    }
}

/// Runs the named tests of this program in the guest. All of them must exist, run and pass.
pub(crate) fn run(guest: &Guest, ours: Ours, tests: &[&str]) {
    let (program, names) = (format!("{}/interop", ours.programs()), tests.join(" "));
    let lab = std::env::var("RPCRDMA_LAB").unwrap();
    let (status, output) = guest.try_run(
        &format!(
            "set -o pipefail; ulimit -l unlimited; mkdir -p /run/inside; cd /run/inside; SECONDS=0
             export TMPDIR=/run/inside RPCRDMA_LAB={lab} RPCRDMA_LAB_INSIDE={ours}
             {program} --exact --test-threads=1 --nocapture {names} 2>&1 |
                 while IFS= read -r line; do echo \"$SECONDS $line\"; done
             status=$?; ls -A /run/inside; exit $status"
        ),
        Duration::from_secs(size(2400, 6000)),
    );
    let passed = output.contains(&format!("test result: ok. {} passed; 0 failed", tests.len()));
    assert!(status == 0 && passed && !output.contains("not run:"), "{status}: {output}");
    eprintln!("{output}");
}
