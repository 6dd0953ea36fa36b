//! Runs `nfs3d` and `nfs3` as a user would.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::cast_possible_truncation, reason = "a test may fail")]

#[path = "programs/copies.rs"]
mod copies;
#[path = "programs/local.rs"]
mod local;
#[path = "programs/terminal.rs"]
mod terminal;

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use rpcrdma_mount3::{Mountres3, mount_v3};
use rpcrdma_nfs::export::Export;
use rpcrdma_nfs::export::directory::DirectoryExport;
use rpcrdma_nfs3::{
    Diropargs3, Getattr3Args, Getattr3Res, Lookup3Args, Lookup3Res, NfsFh3, Nfsstat3, nfs_v3,
};
use rpcrdma_runtime::Client;
use rpcrdma_runtime::program::AuthStat;
use rpcrdma_runtime::wire::rpc::ReplyError;
use rpcrdma_runtime::{CallError, TcpClient};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::{Pid, Signal, kill_process};

struct Daemon {
    child: Child,
    out: BufReader<std::process::ChildStdout>,
    line: String,
    url: String,
    tcp: Option<String>,
}

impl Daemon {
    /// Starts a server that does not squash root, since the tests may run as root.
    fn start(dir: &Path, arguments: &[&str]) -> Self {
        Daemon::start_squashing(dir, &[arguments, &["--no-root-squash"]].concat())
    }

    fn start_both(dir: &Path, arguments: &[&str]) -> Self {
        Daemon::start(dir, &[arguments, &["--tcp", "127.0.0.1:0"]].concat())
    }

    fn start_squashing(dir: &Path, arguments: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_nfs3d"))
            .env("XDG_STATE_HOME", env!("CARGO_TARGET_TMPDIR"))
            .arg(dir)
            .args(["--listen", "127.0.0.1:0"])
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        let of = |scheme: &str| {
            let url = line.split_whitespace().find(|word| word.starts_with(scheme))?;
            Some(url.trim_end_matches(['/', ',']).to_owned())
        };
        let (url, tcp) = (of("rdma://").unwrap(), of("tcp://"));
        Daemon { child, out, line, url, tcp }
    }

    fn urls(&self) -> [&str; 2] {
        [&self.url, self.tcp.as_deref().unwrap()]
    }

    fn stop(self, signal: Signal) {
        assert_eq!(self.end(signal), "stopped\n");
    }

    fn end(mut self, signal: Signal) -> String {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
        let mut rest = String::new();
        self.out.read_to_string(&mut rest).unwrap();
        assert!(self.child.wait().unwrap().success());
        rest
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // The server has already exited, unless the test failed.
        let _ = self.child.kill();
    }
}

fn nfs3(here: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_nfs3")).current_dir(here).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

fn succeeds(output: &Output) -> &str {
    assert!(output.status.success(), "{output:?}");
    assert_eq!(text(&output.stderr), "");
    text(&output.stdout)
}

fn fails(output: &Output) -> (i32, &str) {
    assert_eq!(text(&output.stdout), "");
    (output.status.code().unwrap(), text(&output.stderr))
}

fn tcp_of(line: &str) -> String {
    let url = line.split_whitespace().find_map(|word| word.strip_prefix("tcp://")).unwrap();
    url.trim_end_matches(['/', ',']).to_owned()
}

/// Requirement: R314
#[tokio::test]
async fn a_handle_from_a_tcp_mount_works_over_rdma_and_tcp() {
    let served = tempfile::tempdir().unwrap();
    fs::write(served.path().join("file"), b"both servers share the directory").unwrap();
    let daemon = Daemon::start(served.path(), &["--tcp", "127.0.0.1:0"]);
    let tcp = TcpClient::connect(tcp_of(&daemon.line)).await.unwrap();
    let mounted = mount_v3::Client(tcp.clone()).mnt(&"/".into()).await.unwrap();
    let Mountres3::Mnt3Ok(mounted) = mounted else { panic!("{mounted:?}") };
    // libnfs mounts the empty path.
    let empty = mount_v3::Client(tcp.clone()).mnt(&"".into()).await.unwrap();
    assert!(matches!(&empty, Mountres3::Mnt3Ok(empty) if empty.fhandle == mounted.fhandle), "{empty:?}");
    let args =
        Lookup3Args { what: Diropargs3 { dir: NfsFh3 { data: mounted.fhandle }, name: "file".into() } };
    let by_tcp = nfs_v3::Client(tcp).lookup(&args).await.unwrap();
    let rdma = Client::connect(daemon.url.trim_start_matches("rdma://")).await.unwrap();
    let by_rdma = nfs_v3::Client(rdma).lookup(&args).await.unwrap();
    assert!(matches!(by_tcp, Lookup3Res::Nfs3Ok(_)), "{by_tcp:?}");
    assert_eq!(by_tcp, by_rdma);
    daemon.stop(Signal::TERM);
}

#[test]
fn a_file_survives_a_round_trip() {
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
    let named = nfs3(here, &["ls", &url("/")]);
    assert_eq!(succeeds(&named), "other\nsome dir\n");
    let listed = nfs3(here, &["ls", "-l", &url("/")]);
    let lines: Vec<_> = succeeds(&listed).lines().collect();
    assert_eq!(lines.len(), 2);
    assert!(lines[0].starts_with("-rw-r----- 1 ") && lines[0].ends_with(" other"), "{}", lines[0]);
    assert!(lines[0].contains(" 2500001 "), "{}", lines[0]);
    assert!(lines[1].starts_with('d') && lines[1].ends_with(" some dir"), "{}", lines[1]);
    daemon.stop(Signal::INT);
}

#[test]
fn failures_name_the_cause() {
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
    assert!(!here.join("none").exists() && !here.join("none.nfs3-part").exists());
    let pipe = here.join("pipe");
    mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let taken = nfs3(here, &["get", &url("/file"), "pipe"]);
    assert_eq!(fails(&taken), (1, "nfs3: pipe: is not a regular file; use nfs3 cat to write to it\n"));
    assert!(fs::metadata(pipe).unwrap().file_type().is_fifo());
    let refused = nfs3(here, &["put", "local", &url("/new")]);
    assert_eq!(fails(&refused), (1, "nfs3: /new: read-only file system (CREATE: NFS3ERR_ROFS)\n"));
    let dir = nfs3(here, &["cat", &url("/")]);
    assert_eq!(fails(&dir), (1, "nfs3: /: is a directory\n"));
    let missing = nfs3(here, &["put", "missing", &url("/new")]);
    assert!(fails(&missing).1.starts_with("nfs3: missing: No such file"), "{missing:?}");
    let usage = nfs3(here, &["ls", "http://host/"]);
    assert_eq!(fails(&usage).0, 2);
    daemon.stop(Signal::TERM);
    let gone = nfs3(here, &["ls", &unreachable_url()]);
    let (code, message) = fails(&gone);
    assert_eq!(code, 3);
    assert_eq!(message.matches("refused").count(), 1, "{message}");
}

/// Returns a URL with a port that was free at the time of the call.
fn unreachable_url() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    format!("rdma://{}/", listener.local_addr().unwrap())
}

#[test]
fn only_directories_are_exported() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, b"").unwrap();
    let refused = Command::new(env!("CARGO_BIN_EXE_nfs3d")).arg(&file).output().unwrap();
    let (code, message) = fails(&refused);
    assert_eq!(code, 1);
    assert!(message.starts_with(&format!("nfs3d: {}: ", file.display())), "{message}");
}

/// Returns pseudorandom bytes, so that misplaced data is detected.
fn content(len: u32) -> Vec<u8> {
    (0..len).map(|index| (index.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

#[test]
fn every_command_works_over_either_transport() {
    let (served, here) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let here = here.path();
    let data = content(3_000_001);
    fs::write(here.join("local"), &data).unwrap();
    let daemon = Daemon::start_both(served.path(), &[]);
    for base in daemon.urls() {
        let url = |path: &str| format!("{base}{path}");
        succeeds(&nfs3(here, &["mkdir", &url("/dir")]));
        let taken = nfs3(here, &["mkdir", &url("/dir")]);
        assert_eq!(fails(&taken), (1, "nfs3: /dir: file exists (MKDIR: NFS3ERR_EXIST)\n"));
        succeeds(&nfs3(here, &["mkdir", "-p", &url("/dir"), &url("/dir/a/b/c")]));
        let put = nfs3(here, &["put", "--verify", "local", &url("/dir/a/file")]);
        let (sum, _) = succeeds(&put).split_once("  ").unwrap();
        assert!(fs::read(served.path().join("dir/a/file")).unwrap() == data);
        assert_eq!(succeeds(&nfs3(here, &["get", &url("/dir/a/file"), "copy"])), format!("{sum}  copy\n"));
        assert!(fs::read(here.join("copy")).unwrap() == data);
        let catted = nfs3(here, &["cat", "--sha256", sum, &url("/dir/a/file")]);
        assert!(catted.status.success() && catted.stdout == data);
        assert_eq!(succeeds(&nfs3(here, &["ls", &url("/dir/a")])), "b\nfile\n");

        let full = nfs3(here, &["rm", &url("/dir/a")]);
        assert_eq!(fails(&full), (1, "nfs3: /dir/a: is a directory (REMOVE: NFS3ERR_ISDIR)\n"));
        std::os::unix::fs::symlink(here, served.path().join("dir/link")).unwrap();
        succeeds(&nfs3(here, &["rm", &url("/dir/a/file")]));
        succeeds(&nfs3(here, &["rm", "-r", &url("/dir")]));
        assert_eq!(fs::read_dir(served.path()).unwrap().count(), 0);
        assert!(here.join("local").exists(), "a link was followed");
        let top = nfs3(here, &["rm", "-r", &url("/")]);
        assert_eq!(fails(&top).0, 1);
    }
    daemon.stop(Signal::TERM);
}

#[test]
fn info_describes_the_server() {
    let served = tempfile::tempdir().unwrap();
    let daemon = Daemon::start_both(served.path(), &[]);
    let info = |url: &str| {
        let info = nfs3(served.path(), &["info", url]);
        let pair = |line: &str| (line[..12].trim_end().to_owned(), line[12..].to_owned());
        succeeds(&info).lines().map(pair).collect::<std::collections::HashMap<_, _>>()
    };
    let [rdma, tcp] = daemon.urls().map(|url| info(&format!("{url}/")));
    assert!(rdma["server"].starts_with("127.0.0.1 at 127.0.0.1:"), "{rdma:?}");
    assert!(rdma["transport"].contains("iwarp"), "{rdma:?}");
    assert_eq!(rdma["inline"], "calls up to 4.00 KiB, replies up to 4.00 KiB");
    let credits: u32 = rdma["credits"].split_once(' ').unwrap().0.parse().unwrap();
    assert!(credits > 1, "{rdma:?}");
    assert_eq!(tcp["transport"], "TCP");
    assert!(!tcp.contains_key("credits"));
    for info in [rdma, tcp] {
        assert_eq!(info["export"], "/");
        assert_eq!(info["READ"], "up to 4.00 MiB, preferred 4.00 MiB");
        assert!(info["names"].starts_with("up to 255 bytes (longer names are rejected)"), "{info:?}");
    }
    daemon.stop(Signal::TERM);
}

#[test]
fn a_digest_mismatch_has_its_own_exit_status() {
    let (served, here) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let here = here.path();
    fs::write(served.path().join("file"), b"abc").unwrap();
    fs::write(here.join("local"), b"abc").unwrap();
    let daemon = Daemon::start(served.path(), &[]);
    let url = format!("{}/file", daemon.url);
    let right = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    let wrong = right.replace('b', "c");
    assert_eq!(succeeds(&nfs3(here, &["get", "--sha256", right, &url, "copy"])), format!("{right}  copy\n"));
    let refused = nfs3(here, &["get", "--sha256", &wrong, &url, "other"]);
    let (code, message) = fails(&refused);
    assert_eq!(code, 4);
    assert_eq!(message, format!("nfs3: /file: SHA-256 is {right}, expected {wrong}\n"));
    let left: Vec<_> = fs::read_dir(here).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "{left:?}");
    assert_eq!(fails(&nfs3(here, &["put", "--sha256", &wrong, "local", &url])).0, 4);
    assert_eq!(nfs3(here, &["cat", "--sha256", &wrong, &url]).status.code(), Some(4));
    assert_eq!(fails(&nfs3(here, &["cat", "--sha256", "12", &url])).0, 2);
    daemon.stop(Signal::TERM);
}

/// Runs `nfs3` with a file size limit of 2 or 4 MiB (shells use different units).
fn nfs3_that_runs_out_of_room(here: &Path, arguments: &[&str]) -> Output {
    Command::new("sh")
        .args(["-c", "trap '' XFSZ; ulimit -f 4096; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_nfs3")])
        .args(arguments)
        .current_dir(here)
        .output()
        .unwrap()
}

#[test]
fn an_interrupted_get_resumes() {
    let (served, here) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let here = here.path();
    let data = content(9_000_001);
    let there = served.path().join("file");
    fs::write(&there, &data).unwrap();
    let daemon = Daemon::start_both(served.path(), &[]);
    let part = here.join("file.nfs3-part");
    for base in daemon.urls() {
        let url = format!("{base}/file");
        let cut = || {
            let (code, message) = {
                let cut = nfs3_that_runs_out_of_room(here, &["get", &url]);
                (cut.status.code(), text(&cut.stderr).to_owned())
            };
            assert_eq!(code, Some(1), "{message}");
            assert!(
                message.contains("iB) of file; continue with `nfs3 get --resume`, `get -r` or `sync`"),
                "{message}"
            );
            assert!(message.contains("file.nfs3-part: File too large"), "{message}");
            assert!(!here.join("file").exists());
            let kept = message.split(' ').nth(2).unwrap().parse::<u64>().unwrap();
            assert!(kept > 1_000_000 && fs::metadata(&part).unwrap().len() >= kept);
        };
        let resume = |expected: &[u8]| {
            succeeds(&nfs3(here, &["get", "--resume", &url]));
            assert!(fs::read(here.join("file")).unwrap() == expected);
            assert_eq!(fs::read_dir(here).unwrap().count(), 1, "no other file is left");
            fs::remove_file(here.join("file")).unwrap();
        };
        cut();
        resume(&data);
        // Without `--resume`, the copy starts from the beginning.
        cut();
        succeeds(&nfs3(here, &["get", &url]));
        fs::remove_file(here.join("file")).unwrap();
        // The data in the partial file has changed.
        cut();
        let mut kept = fs::read(&part).unwrap();
        kept[12_345] ^= 1;
        fs::write(&part, kept).unwrap();
        resume(&data);
        // The server's file has been replaced.
        cut();
        let mut other = data.clone();
        other[54_321] ^= 1;
        fs::write(&there, &other).unwrap();
        resume(&other);
        fs::write(&there, &data).unwrap();
    }
    daemon.stop(Signal::TERM);
}

/// The partial file is completed without fetching its data again.
#[test]
fn an_interrupted_download_is_reused() {
    let (served, here) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let here = here.path();
    let data = content(9_000_001);
    fs::write(served.path().join("file"), &data).unwrap();
    let daemon = Daemon::start(served.path(), &[]);
    let url = format!("{}/file", daemon.url);
    let tree = format!("{}/", daemon.url);
    for again in [&["get", "--resume", &url][..], &["get", "-r", &tree, "."], &["sync", &tree, "."]] {
        nfs3_that_runs_out_of_room(here, &["get", &url]);
        let state = fs::read_to_string(here.join("file.nfs3-state")).unwrap();
        let kept = state.lines().next().unwrap().to_owned();
        let traced = Command::new(env!("CARGO_BIN_EXE_nfs3"))
            .current_dir(here)
            .args(again)
            .env("RUST_LOG", "rpcrdma_runtime=debug")
            .output()
            .unwrap();
        assert!(traced.status.success());
        let reads = text(&traced.stderr)
            .lines()
            .filter(|line| line.contains("call answered") && line.contains("NFSPROC3_READ\""))
            .count();
        let rest = data.len() as u64 - kept.parse::<u64>().unwrap();
        assert_eq!(reads as u64, rest.div_ceil(1 << 20), "{again:?}: {kept} bytes were kept");
        assert!(fs::read(here.join("file")).unwrap() == data);
        fs::remove_file(here.join("file")).unwrap();
    }
    daemon.stop(Signal::TERM);
}

#[test]
fn concurrent_gets_of_one_file_are_refused() {
    let (served, here) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let here = here.path();
    fs::write(served.path().join("file"), b"content").unwrap();
    let daemon = Daemon::start(served.path(), &[]);
    let url = format!("{}/file", daemon.url);
    fs::write(here.join("file.nfs3-part"), b"of another file").unwrap();
    let other = fs::File::open(here.join("file.nfs3-part")).unwrap();
    other.lock().unwrap();
    for how in [&["get"][..], &["get", "--resume"]] {
        let refused = nfs3(here, &[how, &[&url]].concat());
        assert_eq!(fails(&refused), (1, "nfs3: file: file.nfs3-part: in use by another nfs3 process\n"));
        assert_eq!(fs::read(here.join("file.nfs3-part")).unwrap(), b"of another file");
    }
    drop(other);
    succeeds(&nfs3(here, &["get", &url]));
    assert_eq!(fs::read(here.join("file")).unwrap(), b"content");
    daemon.stop(Signal::TERM);
}

#[test]
fn only_regular_files_are_overwritten() {
    let (served, here) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let here = here.path();
    fs::write(served.path().join("file"), b"content").unwrap();
    fs::write(here.join("precious"), b"mine").unwrap();
    let daemon = Daemon::start(served.path(), &[]);
    let url = format!("{}/file", daemon.url);
    for name in ["file", "file.nfs3-part", "file.nfs3-state"] {
        std::os::unix::fs::symlink("precious", here.join(name)).unwrap();
        let refused = nfs3(here, &["get", "--resume", &url]);
        assert_eq!(fails(&refused).0, 1, "{name}: {refused:?}");
        assert_eq!(fs::read(here.join("precious")).unwrap(), b"mine", "{name}");
        fs::remove_file(here.join(name)).unwrap();
    }
    // With an invalid state file, the copy starts from the beginning.
    for state in [&b"\xff\xfe\n"[..], &[b'1'; 100_000], b"", b"1\n2\n"] {
        fs::write(here.join("file.nfs3-part"), b"c").unwrap();
        fs::write(here.join("file.nfs3-state"), state).unwrap();
        succeeds(&nfs3(here, &["get", "--resume", &url]));
        assert_eq!(fs::read(here.join("file")).unwrap(), b"content");
        assert_eq!(fs::read_dir(here).unwrap().count(), 2);
    }
    daemon.stop(Signal::TERM);
}

#[test]
fn a_copied_tree_omits_temporary_names() {
    let (served, here) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let here = here.path();
    for name in ["a.nfs3-part", "b"] {
        fs::write(served.path().join(name), name).unwrap();
    }
    let daemon = Daemon::start(served.path(), &[]);
    let got = nfs3(here, &["get", "-r", &format!("{}/", daemon.url), "back"]);
    assert_eq!(got.status.code(), Some(1), "{got:?}");
    assert!(text(&got.stderr).starts_with("nfs3: back/a.nfs3-part: skipped: "), "{got:?}");
    assert_eq!(fs::read(here.join("back/b")).unwrap(), b"b");
    assert_eq!(fs::read_dir(here.join("back")).unwrap().count(), 1);
    let excluded =
        nfs3(here, &["get", "-r", "--exclude", "*.nfs3-part", &format!("{}/", daemon.url), "back"]);
    succeeds(&excluded);
    fs::write(here.join("back/c.nfs3-part"), b"c").unwrap();
    fs::create_dir(here.join("back/d.nfs3-link")).unwrap();
    fs::write(here.join("back/d.nfs3-link/e"), b"e").unwrap();
    let put = nfs3(here, &["put", "-r", "back", &daemon.url]);
    assert_eq!(put.status.code(), Some(1), "{put:?}");
    for name in ["c.nfs3-part", "d.nfs3-link"] {
        assert!(text(&put.stderr).contains(&format!("nfs3: back/{name}: skipped: ")), "{put:?}");
    }
    let end = "nfs3: back: incomplete copy: reserved names skipped: 2; rename the files or use --exclude\n";
    assert!(text(&put.stderr).ends_with(end), "{put:?}");
    assert_eq!(fs::read_dir(served.path().join("back")).unwrap().count(), 1);
    daemon.stop(Signal::TERM);
}

#[test]
fn an_interrupted_put_resumes() {
    let (served, here) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let here = here.path();
    let data = content(3_000_001);
    fs::write(here.join("local"), &data).unwrap();
    let there = served.path().join("file");
    let daemon = Daemon::start_both(served.path(), &[]);
    let with_a_hole = [&data[..1_500_000], &[0; 700_000], &data[2_200_000..2_900_000]].concat();
    let too_long = [&data[..], b"more"].concat();
    let other = [b"x", &data[1..]].concat();
    let before: [Option<&[u8]>; 7] = [
        None,
        Some(b""),
        Some(&data[..1_234_567]),
        Some(&with_a_hole),
        Some(&too_long),
        Some(&other),
        Some(&data),
    ];
    for base in daemon.urls() {
        let mut sums = Vec::new();
        for before in before {
            let _ = fs::remove_file(&there);
            if let Some(before) = before {
                fs::write(&there, before).unwrap();
            }
            let put = nfs3(here, &["put", "--resume", "local", &format!("{base}/file")]);
            sums.push(succeeds(&put).to_owned());
            assert!(fs::read(&there).unwrap() == data, "after {:?} bytes", before.map(<[u8]>::len));
        }
        sums.dedup();
        assert_eq!(sums.len(), 1, "the digest covers the complete file");
    }
    daemon.stop(Signal::TERM);
}

#[test]
fn trees_survive_a_round_trip() {
    let (served, here) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let here = here.path();
    fs::create_dir_all(here.join("tree/a/b")).unwrap();
    fs::create_dir(here.join("tree/empty")).unwrap();
    for (name, len) in [("tree/one", 10), ("tree/a/two", 70_000), ("tree/a/b/three", 0)] {
        fs::write(here.join(name), content(len)).unwrap();
    }
    std::os::unix::fs::symlink("../one", here.join("tree/a/link")).unwrap();
    let daemon = Daemon::start_both(served.path(), &[]);
    for base in daemon.urls() {
        let url = |path: &str| format!("{base}{path}");
        // The second copy overwrites existing files.
        for _ in 0..2 {
            assert_eq!(succeeds(&nfs3(here, &["put", "-r", "tree", &url("/")])).lines().count(), 3);
        }
        succeeds(&nfs3(here, &["get", "-r", &url("/tree"), "back"]));
        for name in ["one", "a/two", "a/b/three"] {
            let [sent, back] = ["tree", "back"].map(|top| fs::read(here.join(top).join(name)).unwrap());
            assert!(sent == back, "{name}");
        }
        assert!(here.join("back/empty").is_dir());
        assert_eq!(fs::read_link(here.join("back/a/link")).unwrap(), Path::new("../one"));
        // A link that replaced a directory is not followed.
        let elsewhere = tempfile::tempdir().unwrap();
        fs::remove_dir_all(here.join("back")).unwrap();
        fs::create_dir_all(here.join("back/tree")).unwrap();
        std::os::unix::fs::symlink(elsewhere.path(), here.join("back/tree/a")).unwrap();
        let refused = nfs3(here, &["get", "-r", &url("/tree"), "back"]);
        assert_eq!(refused.status.code(), Some(1), "{refused:?}");
        assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 0);
        fs::remove_dir_all(here.join("back")).unwrap();
        succeeds(&nfs3(here, &["rm", "-r", &url("/tree")]));
    }
    daemon.stop(Signal::TERM);
}

#[tokio::test]
async fn callers_from_other_networks_are_rejected() {
    let served = tempfile::tempdir().unwrap();
    let elsewhere = ["--allow", "192.0.2.0/24,2001:db8::/32"];
    let daemon = Daemon::start_both(served.path(), &elsewhere);
    for url in daemon.urls() {
        let refused = nfs3(served.path(), &["ls", &format!("{url}/")]);
        let (code, message) = fails(&refused);
        assert!(code == 3 && message.starts_with("nfs3: "), "{code}: {message}");
    }
    // The server closes the connection before the MPA handshake.
    assert!(Client::connect(daemon.url.trim_start_matches("rdma://")).await.is_err());
    daemon.stop(Signal::TERM);
    // nfs3 uses an unprivileged port.
    let daemon = Daemon::start_both(served.path(), &["--secure"]);
    for url in daemon.urls() {
        let refused = nfs3(served.path(), &["ls", &format!("{url}/")]);
        let (code, message) = fails(&refused);
        assert!(
            code == 1 && message.starts_with("nfs3: /: EXPORT: ") && message.contains("TooWeak"),
            "{message}"
        );
    }
    // Knowing a handle does not grant access.
    let handle = Export::root(&DirectoryExport::open(served.path()).unwrap());
    let args = Getattr3Args { object: NfsFh3 { data: handle } };
    let is_refused = |answer: Result<Getattr3Res, CallError>| {
        let refused = matches!(&answer, Err(CallError::Rejected(ReplyError::Auth(AuthStat::TooWeak))));
        assert!(refused, "{answer:?}");
    };
    let rdma = Client::connect(daemon.url.trim_start_matches("rdma://")).await.unwrap();
    is_refused(nfs_v3::Client(rdma).getattr(&args).await);
    let tcp = TcpClient::connect(tcp_of(&daemon.line)).await.unwrap();
    is_refused(nfs_v3::Client(tcp.clone()).getattr(&args).await);
    assert!(mount_v3::Client(tcp.clone()).dump().await.is_err());
    assert!(mount_v3::Client(tcp).export().await.is_err());
    daemon.stop(Signal::TERM);
    let daemon = Daemon::start(served.path(), &["--allow", "192.0.2.7", "--allow", "127.0.0.1"]);
    succeeds(&nfs3(served.path(), &["ls", &format!("{}/", daemon.url)]));
    daemon.stop(Signal::TERM);
}

/// A mount survives a restart of the server with the stored key, but not with another key.
#[tokio::test]
async fn handles_stay_valid_after_a_restart() {
    let (served, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(served.path().join("file"), b"content").unwrap();
    let key = |name: &str| state.path().join(name).to_str().unwrap().to_owned();
    let mut known = None;
    for (name, is_good) in [("below/one", true), ("below/one", true), ("two", false), ("below/one", true)] {
        let daemon = Daemon::start(served.path(), &["--handle-key", &key(name)]);
        let client = nfs_v3::Client(Client::connect(daemon.url.trim_start_matches("rdma://")).await.unwrap());
        if known.is_none() {
            let mounted = mount_v3::Client(client.0.clone()).mnt(&"/".into()).await.unwrap();
            let Mountres3::Mnt3Ok(mounted) = mounted else { panic!("{mounted:?}") };
            let what = Diropargs3 { dir: NfsFh3 { data: mounted.fhandle }, name: "file".into() };
            let Lookup3Res::Nfs3Ok(found) = client.lookup(&Lookup3Args { what }).await.unwrap() else {
                panic!("LOOKUP")
            };
            known = Some(found.object);
        }
        let answer = client.getattr(&Getattr3Args { object: known.unwrap() }).await.unwrap();
        let is_stale = matches!(answer, Getattr3Res::Default(Nfsstat3::Nfs3errStale));
        assert_eq!(is_stale, !is_good, "{name}: {answer:?}");
        client.0.close();
        daemon.stop(Signal::TERM);
    }
    let start = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_nfs3d"));
        command.arg(served.path()).args(["--listen", "127.0.0.1:0"]).args(arguments);
        command
    };
    // A key that other users can read is rejected.
    fs::set_permissions(key("two"), fs::Permissions::from_mode(0o644)).unwrap();
    let refused = start(&["--handle-key", &key("two")]).output().unwrap();
    let message = format!("nfs3d: {}: other users can access the key file; run chmod 600\n", key("two"));
    assert_eq!(fails(&refused), (1, &*message));
    // If no key file is requested and no key can be stored, the server logs a warning and runs.
    let mut unkept = start(&[])
        .env("XDG_STATE_HOME", key("two"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(unkept.stdout.take().unwrap()).read_line(&mut line).unwrap();
    unkept.kill().unwrap();
    let mut message = String::new();
    unkept.stderr.take().unwrap().read_to_string(&mut message).unwrap();
    unkept.wait().unwrap();
    assert!(line.starts_with("serving "), "{line}");
    assert!(message.contains("will be stale after a restart; specify --handle-key FILE"), "{message}");
}

#[test]
fn both_transports_are_counted() {
    let served = tempfile::tempdir().unwrap();
    let daemon = Daemon::start_both(served.path(), &["--stats"]);
    for base in daemon.urls() {
        succeeds(&nfs3(served.path(), &["ls", &format!("{base}/")]));
    }
    let message = daemon.end(Signal::TERM);
    assert!(
        message.starts_with("connections: 0 open; total: 2 ") && message.contains(" with a result"),
        "{message}"
    );
    assert!(message.contains(" inline calls") && message.ends_with("\nstopped\n"), "{message}");
}

#[test]
fn root_is_squashed_by_default() {
    let (served, here) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    if !DirectoryExport::open(served.path()).unwrap().impersonates_callers() {
        return not_run::not_run("only root can serve callers with their own rights");
    }
    fs::set_permissions(served.path(), fs::Permissions::from_mode(0o777)).unwrap();
    fs::write(here.path().join("local"), b"content").unwrap();
    let there = served.path().join("file");
    for (arguments, owner) in [
        (&[][..], (65_534, 65_534)),
        (&["--anon", "12:34"], (12, 34)),
        (&["--all-squash", "--anon", "12:34"], (12, 34)),
        (&["--no-root-squash"], (0, 0)),
    ] {
        let daemon = Daemon::start_squashing(served.path(), arguments);
        let url = |path: &str| format!("{}{path}", daemon.url);
        succeeds(&nfs3(here.path(), &["put", "local", &url("/file")]));
        let of = fs::metadata(&there).unwrap();
        assert_eq!((of.uid(), of.gid()), owner, "{arguments:?}");
        fs::remove_file(&there).unwrap();
        fs::write(&there, b"secret").unwrap();
        fs::set_permissions(&there, fs::Permissions::from_mode(0o600)).unwrap();
        let read = nfs3(here.path(), &["cat", &url("/file")]);
        assert_eq!(read.status.success(), owner == (0, 0), "{arguments:?}: {read:?}");
        fs::remove_file(&there).unwrap();
        daemon.stop(Signal::TERM);
    }
}

#[test]
fn names_are_escaped_for_the_terminal() {
    let (served, here) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (dir, name) = (served.path().join("d"), "a\x1b[2J\n\u{202e}b\u{2066}");
    fs::create_dir_all(dir.join(name)).unwrap();
    let daemon = Daemon::start(served.path(), &[]);
    let listed = nfs3(here.path(), &["ls", &format!("{}/d", daemon.url)]);
    assert_eq!(succeeds(&listed), "a\\u{1b}[2J\\n\\u{202e}b\\u{2066}\n");
    let url = format!("{}/d/a%1b[2J%0a%e2%80%aeb%e2%81%a6", daemon.url);
    let refused = nfs3(here.path(), &["cat", &url]);
    assert_eq!(fails(&refused), (1, "nfs3: /d/a\\u{1b}[2J\\n\\u{202e}b\\u{2066}: is a directory\n"));
    let json = nfs3(here.path(), &["--log-format", "json", "cat", &url]);
    let line = text(&json.stderr);
    assert!(line.contains(r"\\u{202e}b") && !line.contains('\u{202e}'), "{line}");
    let name = "\u{7f}\u{85}\u{202e}b\u{2066}";
    fs::write(dir.join(name), b"").unwrap();
    for arguments in
        [&["ls", "--json", &format!("{}/d", daemon.url)][..], &["sync", "--json", &daemon.url, "to"]]
    {
        let printed = nfs3(here.path(), arguments);
        let lines = succeeds(&printed);
        assert!(lines.contains(r"\u007f\u0085\u202eb\u2066") && !lines.contains(name), "{lines}");
        let lines = lines.lines().map(|line| serde_json::from_str(line).unwrap());
        let names: Vec<_> = lines.map(|line: serde_json::Value| line["name"].to_string()).collect();
        assert!(names.iter().any(|line| line.contains(name)), "the value is the same: {names:?}");
    }
    daemon.stop(Signal::TERM);
}
