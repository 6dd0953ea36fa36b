//! The captures that `nfs3` and `nfs3d` write, read back by the library behind `rpcrdma explain`.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rpcrdma_tools::explain::{self, Selection};

fn utf8(octets: &[u8]) -> String {
    String::from_utf8(octets.to_vec()).unwrap()
}

fn calls_of(capture: &Path) -> String {
    let trace = explain::read(File::open(capture).unwrap()).unwrap();
    let mut text = Vec::new();
    explain::text(&trace, &Selection { brief: true, ..Selection::default() }, &mut text).unwrap();
    utf8(&text)
}

struct Daemon(Child);

impl Daemon {
    fn start(dir: &Path, capture: &Path) -> (Self, String) {
        let mut child = Command::new(env!("CARGO_BIN_EXE_nfs3d"))
            .env("XDG_STATE_HOME", env!("CARGO_TARGET_TMPDIR"))
            .arg(dir)
            .args(["--listen", "127.0.0.1:0"])
            .env("RPCRDMA_PCAP", capture)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let url = line.split_whitespace().find(|word| word.starts_with("rdma://")).unwrap().to_owned();
        (Daemon(child), url)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The capture is complete even if the server is killed, as in a crash.
#[test]
fn programs_write_captures_to_the_path_in_the_environment() {
    let (files, work) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(files.path().join("hello"), "hello").unwrap();
    let (servers, clients) = (work.path().join("server.pcap"), work.path().join("client.pcap"));
    let (daemon, url) = Daemon::start(files.path(), &servers);
    let listed = Command::new(env!("CARGO_BIN_EXE_nfs3"))
        .args(["ls", &url])
        .env("RPCRDMA_PCAP", &clients)
        .output()
        .unwrap();
    assert!(listed.status.success() && utf8(&listed.stdout).contains("hello"));
    drop(daemon);
    let (server, client) = (calls_of(&servers), calls_of(&clients));
    assert!(server.contains("NFSv3 READDIRPLUS") && server.contains("MOUNTv3 MNT"), "{server}");
    // Both peers captured the same calls, at different times.
    let calls = |shown: &str| -> Vec<String> {
        let lines = shown.lines().filter(|line| line.contains(" xid "));
        lines.filter_map(|line| Some(line.split_once("-->")?.1.rsplit_once(',')?.0.to_owned())).collect()
    };
    assert!(!calls(&server).is_empty());
    assert_eq!(calls(&server), calls(&client));
}

/// Linux 6.12's server can crash if a READ is the last call on a connection.
#[test]
fn a_read_is_not_the_last_call_on_a_connection() {
    let (files, work) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(files.path().join("hello"), [7; 100_000]).unwrap();
    let capture = work.path().join("server.pcap");
    for command in ["cat", "get"] {
        let (daemon, url) = Daemon::start(files.path(), &capture);
        let file = format!("{}/hello", url.trim_end_matches('/'));
        let done = Command::new(env!("CARGO_BIN_EXE_nfs3"))
            .args([command, &file])
            .current_dir(work.path())
            .output()
            .unwrap();
        assert!(done.status.success(), "{command}: {}", utf8(&done.stderr));
        drop(daemon);
        let shown = calls_of(&capture);
        let calls: Vec<_> = shown.lines().filter(|line| line.contains(" xid ")).collect();
        let reads = calls.iter().filter(|call| call.contains("NFSv3 READ"));
        assert!(reads.count() == 1 && !calls.last().unwrap().contains("NFSv3 READ"), "{command}: {shown}");
    }
}

#[test]
fn a_read_is_not_the_last_call_after_an_error() {
    let (files, work) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(files.path().join("large"), vec![7; 32 << 20]).unwrap();
    let capture = work.path().join("server.pcap");
    let (daemon, url) = Daemon::start(files.path(), &capture);
    let mut cat = Command::new(env!("CARGO_BIN_EXE_nfs3"))
        .args(["cat", &format!("{}/large", url.trim_end_matches('/'))])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    drop(cat.stdout.take());
    assert!(!cat.wait().unwrap().success());
    drop(daemon);
    let shown = calls_of(&capture);
    let last = shown.lines().rfind(|line| line.contains(" xid ")).unwrap();
    assert!(shown.contains("NFSv3 READ") && !last.contains("NFSv3 READ"), "{shown}");
}

#[test]
fn a_capture_that_cannot_be_written_keeps_programs_from_starting() {
    let files = tempfile::tempdir().unwrap();
    let refused = Command::new(env!("CARGO_BIN_EXE_nfs3d"))
        .arg(files.path())
        .args(["--listen", "127.0.0.1:0"])
        .env("RPCRDMA_PCAP", "/dev/full")
        .output()
        .unwrap();
    assert_eq!(refused.status.code(), Some(1));
    let message = utf8(&refused.stderr);
    assert!(
        message.contains("the capture /dev/full cannot be written: No space left on device"),
        "{message}"
    );
}
