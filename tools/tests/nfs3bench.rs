//! Runs `nfs3bench` on local directories.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::fs;
use std::process::Command;

#[test]
fn no_file_remains_if_the_baseline_cannot_be_opened() {
    let target = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let baseline = target.path().join("missing");
    let failed =
        Command::new(env!("CARGO_BIN_EXE_nfs3bench")).arg(target.path()).arg(&baseline).output().unwrap();
    let message = String::from_utf8(failed.stderr).unwrap();
    assert_eq!(failed.status.code(), Some(1), "{message}");
    assert_eq!(fs::read_dir(target.path()).unwrap().count(), 0);
}
