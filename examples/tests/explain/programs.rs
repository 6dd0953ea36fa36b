//! The programs, as people run them.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use super::short;

fn explain(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_rpcrdma")).arg("explain").args(arguments).output().unwrap()
}

fn utf8(octets: &[u8]) -> String {
    String::from_utf8(octets.to_vec()).unwrap()
}

/// A server of a directory, with a capture.
pub(crate) struct Daemon(Child);

impl Daemon {
    pub(crate) fn start(dir: &Path, capture: &Path) -> (Self, String) {
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

/// The server is killed, as a crash would end it: its capture has everything.
#[test]
fn programs_write_captures_where_the_environment_says() {
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
    let show = |path: &Path| {
        let shown = explain(&["--calls", path.to_str().unwrap()]);
        assert!(shown.status.success());
        utf8(&shown.stdout)
    };
    let (server, client) = (show(&servers), show(&clients));
    assert!(server.contains("NFSv3 READDIRPLUS") && server.contains("MOUNTv3 MNT"), "{server}");
    // Both ends saw the same calls; times differ.
    let calls = |shown: &str| -> Vec<String> {
        let lines = shown.lines().filter(|line| line.contains(" xid "));
        lines.filter_map(|line| Some(line.split_once("-->")?.1.rsplit_once(',')?.0.to_owned())).collect()
    };
    assert!(!calls(&server).is_empty());
    assert_eq!(calls(&server), calls(&client));
}

/// Linux 6.12's server can break where a READ is the last call on a connection.
#[test]
fn a_file_that_was_read_is_not_the_last_that_a_server_hears_of() {
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
        let shown = utf8(&explain(&["--calls", capture.to_str().unwrap()]).stdout);
        let calls: Vec<_> = shown.lines().filter(|line| line.contains(" xid ")).collect();
        let reads = calls.iter().filter(|call| call.contains("NFSv3 READ"));
        assert!(reads.count() == 1 && !calls.last().unwrap().contains("NFSv3 READ"), "{command}: {shown}");
    }
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
    let said = utf8(&refused.stderr);
    assert!(said.contains("the capture /dev/full cannot be written: No space left on device"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn drawings_are_whole_and_need_nothing_else() {
    let work = tempfile::tempdir().unwrap();
    let capture = work.path().join("a.pcap");
    fs::write(&capture, short().await).unwrap();
    let capture = capture.to_str().unwrap();
    let drawing = utf8(&explain(&["--svg", capture]).stdout);
    assert!(drawing.starts_with("<svg xmlns=") && drawing.trim_end().ends_with("</svg>"), "{drawing}");
    for text in ["NFSv3 LOOKUP", "NFS3ERR_NOENT", "RDMA Read of 1500 bytes", "invalidates", "MPA request"] {
        assert!(drawing.contains(text), "{text}");
    }
    // An arrow has its tip where it ends: at the server's lane for calls, at the client's for replies.
    for tip in [r#"<path class="call" d="M1130 "#, r#"<path class="reply" d="M190 "#] {
        assert!(drawing.contains(tip), "{tip}");
    }
    assert_eq!(drawing.matches("<line").count() - 2, drawing.matches("<path").count());
    let page = work.path().join("page.html");
    let done = explain(&["--html", "-o", page.to_str().unwrap(), capture]);
    assert!(done.status.success() && done.stdout.is_empty());
    let page = fs::read_to_string(page).unwrap();
    assert!(
        page.starts_with("<!DOCTYPE html>") && page.contains("<svg") && page.contains("<td>NFSv3 WRITE</td>")
    );
    assert!(!page.contains(" id="), "drawings on one page name no part alike");
    let links = page.replace("http://www.w3.org/2000/svg", "");
    assert!(!links.contains("http") && !links.contains("src="), "nothing is fetched");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_is_said_in_a_line() {
    let work = tempfile::tempdir().unwrap();
    let path = |name: &str| work.path().join(name).to_str().unwrap().to_owned();
    fs::write(path("a.pcap"), short().await).unwrap();
    fs::write(path("text"), "no capture at all, but text").unwrap();
    fs::write(path("empty"), "").unwrap();
    let refused = |arguments: &[&str]| {
        let output = explain(arguments);
        assert!(!output.status.success() && output.stdout.is_empty());
        utf8(&output.stderr)
    };
    assert!(refused(&[&path("nowhere")]).contains("nowhere: No such file"));
    assert!(refused(&[&path("text")]).contains("this is no capture: neither pcap nor pcapng"));
    assert!(refused(&[&path("empty")]).contains("the file is empty"));
    assert!(refused(&["--connection", "7", &path("a.pcap")]).contains("no connection 7: the capture has 1"));
    assert!(refused(&["--xid", "blue", &path("a.pcap")]).contains("an XID is a number of 32 bits"));
    assert!(refused(&[work.path().to_str().unwrap()]).contains("cannot be read"));
}
