//! This program once more, in the guest: both ends are there then, and the tests are the same. `place.rs` says what differs.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::guest::{Guest, size};
use crate::place::Ours;

/// The kernel's client, and our server beside it.
pub(crate) const SERVER: &[&str] = &[
    "kernel_client::a_tree_is_copied_and_renamed_and_removed",
    "kernel_client::a_write_survives_a_server_that_is_killed",
    "suites::blocks_are_written_and_read_with_and_without_the_clients_cache",
    "suites::thousands_of_files_are_copied_and_are_the_same",
];

/// Where a relay can cut what is between them, for it is TCP.
pub(crate) const CUT: &str = "kernel_client::connections_that_are_cut_lose_and_repeat_nothing";

/// Programs of others, on what the kernel's client has mounted of our server.
pub(crate) const SUITES: &[&str] =
    &["suites::dbench_goes_through", "suites::fio_verifies_what_it_wrote", "suites::fsx_finds_no_wrong_byte"];

/// One of them while connections are cut.
pub(crate) const SUITE_CUT: &str = "faults::fio_finds_no_wrong_byte_while_connections_are_cut";

/// It asks our server about files, and what carries the questions has little to do with that: once is enough where time is short.
pub(crate) const RULES: &str = "suites::what_pjdfstest_finds_it_finds_with_the_kernels_server_too";

/// Has cargo make programs; reads from its messages what they are called and where they are.
pub(crate) fn made(arguments: &[&str]) -> Vec<(String, PathBuf)> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).args(arguments);
    let output = cargo.arg("--message-format=json").stderr(Stdio::inherit()).output().unwrap();
    assert!(output.status.success(), "the programs are not built");
    let program = |message: &Value| {
        let name = message["target"]["name"].as_str()?;
        Some((name.to_owned(), PathBuf::from(message["executable"].as_str()?)))
    };
    let messages = serde_json::Deserializer::from_slice(&output.stdout).into_iter::<Value>();
    messages.filter_map(|message| program(&message.unwrap())).collect()
}

/// Brings programs in, by the names by which tests know them, unless they are there.
pub(crate) fn bring(guest: &Guest, ours: Ours, programs: &[(String, PathBuf)]) {
    let at = ours.programs();
    if guest.run(&format!("ls {at} 2>/dev/null || true")).lines().count() >= programs.len() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    for (name, program) in programs {
        // Builds with other features have the same names.
        let small = dir.path().join(format!("{}-{name}", Path::new(at).file_name().unwrap().display()));
        let stripped = Command::new("strip").arg("-o").arg(&small).arg(program).status().unwrap();
        assert!(stripped.success(), "{}", program.display());
        let there = guest.bring(&small.to_string_lossy());
        guest.run(&format!("mkdir -p {at}; ln -sf {there} {at}/{name}"));
    }
}

/// Runs tests of this program in the guest, by their names: all are there, run, and pass.
pub(crate) fn run(guest: &Guest, ours: Ours, tests: &[&str]) {
    let (program, names) = (format!("{}/interop", ours.programs()), tests.join(" "));
    let asked = std::env::var("RPCRDMA_LAB").unwrap();
    // What is printed has the seconds before it.
    let (status, said) = guest.try_run(
        &format!(
            "set -o pipefail; ulimit -l unlimited; mkdir -p /run/inside; cd /run/inside; SECONDS=0
             export TMPDIR=/run/inside RPCRDMA_LAB={asked} RPCRDMA_LAB_INSIDE={ours}
             {program} --exact --test-threads=1 --nocapture {names} 2>&1 |
                 while IFS= read -r line; do echo \"$SECONDS $line\"; done
             status=$?; ls -A /run/inside; exit $status"
        ),
        Duration::from_secs(size(2400, 6000)),
    );
    let passed = said.contains(&format!("test result: ok. {} passed; 0 failed", tests.len()));
    assert!(status == 0 && passed && !said.contains("not run:"), "{status}: {said}");
    eprintln!("{said}");
}
