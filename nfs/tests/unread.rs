//! Tests programs whose standard output is closed, as in `nfs3 ls URL | head -1`. `nfs3` exits silently, but
//! `nfs3d` continues to serve.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};

/// The exit status that shells report after SIGPIPE.
const CLOSED: Option<i32> = Some(141);

const NFS3: &str = env!("CARGO_BIN_EXE_nfs3");
const NFS3D: &str = env!("CARGO_BIN_EXE_nfs3d");

fn closed_pipe() -> Stdio {
    std::io::pipe().unwrap().1.into()
}

fn unread(program: &str, arguments: &[&str]) -> Output {
    Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(closed_pipe())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
        .wait_with_output()
        .unwrap()
}

/// Starts a server whose standard output is closed after the first line.
fn serve(dir: &Path, stderr: Stdio) -> (Child, String) {
    let arguments = ["--listen", "127.0.0.1:0", "--stats", "--no-root-squash"];
    let mut command = Command::new(NFS3D);
    command.env("XDG_STATE_HOME", env!("CARGO_TARGET_TMPDIR"));
    command.arg(dir).args(arguments).stdout(Stdio::piped()).stderr(stderr);
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let url = line.split_whitespace().find(|word| word.starts_with("rdma://")).unwrap();
    (child, url.trim_end_matches('/').to_owned())
}

#[test]
fn a_server_continues_and_shuts_down_cleanly() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("file"), "here").unwrap();
    // Standard error may also be closed, even before the server prints its first line.
    for stderr in [Stdio::piped(), closed_pipe()] {
        let (child, url) = serve(dir.path(), stderr);
        let read = Command::new(NFS3).args(["cat", &format!("{url}/file")]).output().unwrap();
        assert_eq!(read.stdout, b"here", "{read:?}");
        kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
        let ended = child.wait_with_output().unwrap();
        assert!(ended.status.success(), "{ended:?}");
        assert!(!String::from_utf8_lossy(&ended.stderr).contains("panicked"), "{ended:?}");
    }
}

#[test]
fn programs_exit_silently() {
    let (dir, here) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(dir.path().join("file"), vec![7; 3 << 20]).unwrap();
    let (mut child, url) = serve(dir.path(), Stdio::null());
    let file = format!("{url}/file");
    let got = here.path().join("got");
    let quiet: [(&str, &[&str]); 5] = [
        (NFS3, &["ls", &url]),
        (NFS3, &["ls", "-l", &url]),
        (NFS3, &["info", &url]),
        (NFS3, &["cat", &file]),
        (NFS3, &["get", &file, got.to_str().unwrap()]),
    ];
    for (program, arguments) in quiet {
        let ended = unread(program, arguments);
        assert_eq!(
            (ended.status.code(), &ended.stderr[..]),
            (CLOSED, &b""[..]),
            "{program} {arguments:?}: {ended:?}"
        );
    }
    assert_eq!(fs::read(&got).unwrap(), fs::read(dir.path().join("file")).unwrap(), "the file was fetched");
    child.kill().unwrap();
    child.wait().unwrap();
}

/// A failed program exits with its usual status even if the error message cannot be written.
#[test]
fn failures_keep_their_status() {
    let dir = tempfile::tempdir().unwrap();
    let (mut child, url) = serve(dir.path(), Stdio::null());
    let status = |program: &str, arguments: &[&str]| {
        Command::new(program)
            .args(arguments)
            .stdout(closed_pipe())
            .stderr(closed_pipe())
            .status()
            .unwrap()
            .code()
    };
    assert_eq!(status(NFS3, &["cat", &format!("{url}/nowhere")]), Some(1));
    assert_eq!(status(NFS3D, &["/nowhere/at/all"]), Some(1));
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(status(NFS3, &["ls", &url]), Some(3), "the server is gone");
}
