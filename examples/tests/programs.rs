//! The programs `nfs3d` and `nfs3`, as people run them.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::cast_possible_truncation, reason = "a test may fail")]

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use rpcrdma_mount3::{Mountres3, mount_v3};
use rpcrdma_nfs3::{Diropargs3, Lookup3Args, Lookup3Res, NfsFh3, nfs_v3};
use rpcrdma_runtime::Client;
use rpcrdma_runtime::shell::TcpClient;
use rustix::process::{Pid, Signal, kill_process};

struct Daemon {
    child: Child,
    out: BufReader<std::process::ChildStdout>,
    /// What it said when it had begun.
    line: String,
    url: String,
}

impl Daemon {
    fn start(dir: &Path, arguments: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_nfs3d"))
            .arg(dir)
            .args(["--listen", "127.0.0.1:0", "--no-root-squash"])
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        let url = line.split_whitespace().find(|word| word.starts_with("rdma://")).unwrap();
        let url = url.trim_end_matches(['/', ',']).to_owned();
        Daemon { child, out, line, url }
    }

    fn stop(mut self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
        let mut rest = String::new();
        self.out.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "stopped\n");
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // It has ended already, unless the test failed.
        let _ = self.child.kill();
    }
}

fn nfs3(here: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_nfs3")).current_dir(here).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// Standard output of a run that succeeds.
fn succeeds(output: &Output) -> &str {
    assert!(output.status.success(), "{output:?}");
    assert_eq!(text(&output.stderr), "");
    text(&output.stdout)
}

/// Exit code and standard error of a run that fails.
fn fails(output: &Output) -> (i32, &str) {
    assert_eq!(text(&output.stdout), "");
    (output.status.code().unwrap(), text(&output.stderr))
}

/// Where a server listens for TCP, by its first line.
fn tcp_of(line: &str) -> String {
    let url = line.split_whitespace().find_map(|word| word.strip_prefix("tcp://")).unwrap();
    url.trim_end_matches(['/', ',']).to_owned()
}

/// Requirement: R314
#[tokio::test]
async fn what_is_mounted_over_tcp_is_used_over_rdma_and_over_tcp() {
    let served = tempfile::tempdir().unwrap();
    fs::write(served.path().join("file"), b"seen from both sides").unwrap();
    let daemon = Daemon::start(served.path(), &["--tcp", "127.0.0.1:0"]);
    let tcp = TcpClient::connect(tcp_of(&daemon.line)).await.unwrap();
    let mounted = mount_v3::Client(tcp.clone()).mnt(&"/".into()).await.unwrap();
    let Mountres3::Mnt3Ok(mounted) = mounted else { panic!("{mounted:?}") };
    let asked =
        Lookup3Args { what: Diropargs3 { dir: NfsFh3 { data: mounted.fhandle }, name: "file".into() } };
    let by_tcp = nfs_v3::Client(tcp).lookup(&asked).await.unwrap();
    let rdma = Client::connect(daemon.url.trim_start_matches("rdma://")).await.unwrap();
    let by_rdma = nfs_v3::Client(rdma).lookup(&asked).await.unwrap();
    assert!(matches!(by_tcp, Lookup3Res::Nfs3Ok(_)), "{by_tcp:?}");
    assert_eq!(by_tcp, by_rdma);
    daemon.stop(Signal::TERM);
}

#[test]
fn a_file_goes_there_and_back() {
    let (served, here) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let here = here.path();
    fs::create_dir(served.path().join("some dir")).unwrap();
    let data: Vec<u8> = (0..2_500_001_u32).map(|index| (index % 253) as u8).collect();
    fs::write(here.join("local"), &data).unwrap();
    fs::set_permissions(here.join("local"), fs::Permissions::from_mode(0o640)).unwrap();
    let daemon = Daemon::start(served.path(), &[]);
    let url = |path: &str| format!("{}{path}", daemon.url);

    let put = nfs3(here, &["put", "local", &url("/some%20dir")]);
    let (sum, name) = succeeds(&put).trim_end().split_once("  ").unwrap();
    assert_eq!(name, "/some dir/local");
    assert!(fs::read(served.path().join("some dir/local")).unwrap() == data);
    let got = nfs3(here, &["get", &url("/some%20dir/local"), "copy"]);
    assert_eq!(succeeds(&got), format!("{sum}  copy\n"));
    assert!(fs::read(here.join("copy")).unwrap() == data);
    assert_eq!(fs::metadata(here.join("copy")).unwrap().permissions().mode() & 0o777, 0o640);
    let catted = nfs3(here, &["cat", &url("/some%20dir/local")]);
    assert!(catted.status.success() && catted.stdout == data);
    let renamed = nfs3(here, &["put", "local", &url("/other")]);
    assert_eq!(succeeds(&renamed), format!("{sum}  /other\n"));
    let listed = nfs3(here, &["ls", &url("/")]);
    let lines: Vec<_> = succeeds(&listed).lines().collect();
    assert_eq!(lines.len(), 2);
    assert!(lines[0].starts_with("-rw-r----- 1 ") && lines[0].ends_with(" other"), "{}", lines[0]);
    assert!(lines[0].contains(" 2500001 "), "{}", lines[0]);
    assert!(lines[1].starts_with('d') && lines[1].ends_with(" some dir"), "{}", lines[1]);
    daemon.stop(Signal::INT);
}

#[test]
fn failures_say_what_failed() {
    let (served, here) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let here = here.path();
    fs::write(served.path().join("file"), b"content").unwrap();
    fs::write(here.join("local"), b"other").unwrap();
    let daemon = Daemon::start(served.path(), &["--read-only"]);
    let url = |path: &str| format!("{}{path}", daemon.url);
    let none = nfs3(here, &["cat", &url("/none")]);
    assert_eq!(fails(&none), (1, "nfs3: /none: no such file or directory (LOOKUP: NFS3ERR_NOENT)\n"));
    let none = nfs3(here, &["get", &url("/none")]);
    assert_eq!(fails(&none).0, 1);
    assert!(!here.join("none").exists() && !here.join("none.part").exists());
    let refused = nfs3(here, &["put", "local", &url("/new")]);
    assert_eq!(fails(&refused), (1, "nfs3: /new: read-only file system (CREATE: NFS3ERR_ROFS)\n"));
    let dir = nfs3(here, &["cat", &url("/")]);
    assert_eq!(fails(&dir), (1, "nfs3: /: is a directory\n"));
    let missing = nfs3(here, &["put", "missing", &url("/new")]);
    assert!(fails(&missing).1.starts_with("nfs3: missing: No such file"), "{missing:?}");
    let usage = nfs3(here, &["ls", "tcp://host/"]);
    assert_eq!(fails(&usage).0, 2);
    daemon.stop(Signal::TERM);
    let gone = nfs3(here, &["ls", &url_of_nobody()]);
    let (code, message) = fails(&gone);
    assert_eq!(code, 1);
    assert_eq!(message.matches("refused").count(), 1, "{message}");
}

/// A port that was free a moment ago.
fn url_of_nobody() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    format!("rdma://{}/", listener.local_addr().unwrap())
}

#[test]
fn what_is_no_directory_is_not_served() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, b"").unwrap();
    let refused = Command::new(env!("CARGO_BIN_EXE_nfs3d")).arg(&file).output().unwrap();
    let (code, message) = fails(&refused);
    assert_eq!(code, 1);
    assert!(message.starts_with(&format!("nfs3d: {}: ", file.display())), "{message}");
}
