//! `nfs3d` with limited rights: as another user, as root without the right to switch users, and with a file
//! size limit.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Cursor};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use bytes::Bytes;
use rpcrdma_nfs::client::Remote;
use tempfile::TempDir;

/// A directory that every user can reach and write to.
fn writable_by_all() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), Permissions::from_mode(0o777)).unwrap();
    dir
}

/// Returns an `nfs3d` for this directory with rights limited by setpriv, or `None` if that is impossible.
fn nfs3d(rights: &[&str], dir: &TempDir) -> Option<Command> {
    if !rustix::process::geteuid().is_root() {
        not_run::not_run("only root can drop rights");
        return None;
    }
    let tried =
        Command::new("setpriv").args(rights).args([env!("CARGO_BIN_EXE_nfs3d"), "--version"]).output();
    if !tried.as_ref().is_ok_and(|tried| tried.status.success()) {
        not_run::not_run(format_args!("setpriv {}: {tried:?}", rights.join(" ")));
        return None;
    }
    let mut command = Command::new("setpriv");
    command.args(rights).arg(env!("CARGO_BIN_EXE_nfs3d")).arg(dir.path()).args(["--listen", "127.0.0.1:0"]);
    Some(command)
}

/// Returns the output of a command. Kills the command if it does not exit.
fn output_or_kill(mut command: Command) -> Output {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    for _ in 0..100 {
        if child.try_wait().unwrap().is_some() {
            break;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    let _ = child.kill();
    child.wait_with_output().unwrap()
}

#[test]
fn root_without_setuid_refuses_to_serve() {
    let dir = writable_by_all();
    for (lost, named) in [
        ("-setuid,-setgid", "CAP_SETUID and CAP_SETGID"),
        ("-setuid", "root needs CAP_SETUID to"),
        ("-setgid", "root needs CAP_SETGID to"),
    ] {
        for options in [&[][..], &["--all-squash"], &["--no-root-squash"], &["--read-only"]] {
            let rights = ["--bounding-set", lost, "--inh-caps", lost];
            let Some(mut command) = nfs3d(&rights, &dir) else { return };
            command.env("XDG_STATE_HOME", dir.path()).args(options);
            let refused = output_or_kill(command);
            let message = String::from_utf8_lossy(&refused.stderr);
            assert_eq!((refused.status.code(), &refused.stdout[..]), (Some(1), &b""[..]), "{message}");
            assert!(message.contains(named) && message.contains("--all-squash"), "{message}");
            assert!(message.contains("a user other than root"), "{message}");
        }
    }
}

/// A server that runs until it is dropped.
struct Running {
    child: Child,
    url: String,
}

impl Running {
    fn start(mut command: Command, dir: &TempDir) -> Self {
        let mut child = command.env("XDG_STATE_HOME", dir.path()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let url = line.split_whitespace().find(|word| word.starts_with("rdma://"));
        Running { child, url: url.unwrap().trim_end_matches(',').to_owned() }
    }

    async fn mount(&self) -> Remote {
        Remote::mount(&self.url.parse().unwrap()).await.unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The server may have already exited if the test failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// New files of all callers belong to the server's user. With setuid bits, they would run with its rights.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_root_sets_no_setuid_bits() {
    let dir = writable_by_all();
    let rights = ["--reuid=1234", "--regid=1234", "--clear-groups"];
    let Some(command) = nfs3d(&rights, &dir) else { return };
    let server = Running::start(command, &dir);
    let remote = server.mount().await;
    let top = remote.top().await.unwrap();
    for mode in [0o4755, 0o2755, 0o6777] {
        let made = remote.create(&top, Bytes::from_static(b"file"), mode).await;
        let dir = remote.make_directory(&top, Bytes::from_static(b"dir"), mode).await;
        for refused in [made, dir] {
            assert!(
                refused.as_ref().is_err_and(|error| error.to_string().contains("NFS3ERR_PERM")),
                "{refused:?}"
            );
        }
    }
    assert!(!dir.path().join("file").exists() && !dir.path().join("dir").exists());
    assert!(remote.create(&top, Bytes::from_static(b"file"), 0o1755).await.is_ok());
}

/// The owner can read its file even if the mode forbids it, since the server temporarily changes the mode. A
/// read-only export does not.
#[tokio::test(flavor = "multi_thread")]
async fn a_read_only_server_without_root_does_not_change_modes() {
    let dir = writable_by_all();
    let path = dir.path().join("file");
    fs::write(&path, "content").unwrap();
    let rights = ["--reuid=1234", "--regid=1234", "--clear-groups"];
    let Some(mut command) = nfs3d(&rights, &dir) else { return };
    chown(&path, Some(1234), Some(1234)).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o200)).unwrap();
    let of = || fs::metadata(&path).map(|of| (of.mode(), of.ctime(), of.ctime_nsec())).unwrap();
    let before = of();
    command.arg("--read-only");
    let server = Running::start(command, &dir);
    let remote = server.mount().await;
    let file = remote.find(b"/file").await.unwrap();
    let read = remote.read_file(&file, &mut |_| Ok(())).await.map(drop);
    assert!(read.as_ref().is_err_and(|error| error.to_string().contains("NFS3ERR_ACCES")), "{read:?}");
    assert_eq!(of(), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_past_the_file_size_limit_fails_and_the_server_survives() {
    let dir = writable_by_all();
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -f 64; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_nfs3d")]);
    command.arg(dir.path()).args(["--listen", "127.0.0.1:0", "--no-root-squash"]);
    let server = Running::start(command, &dir);
    let remote = server.mount().await;
    let file = remote.create(&remote.top().await.unwrap(), Bytes::from_static(b"file"), 0o600).await.unwrap();
    for (len, fails) in [(1 << 20, true), (1 << 10, false)] {
        let written = remote.write_file(&file, &mut Cursor::new(vec![7; len]), &|_| {}).await.map(drop);
        let refused = written.as_ref().is_err_and(|error| error.to_string().contains("NFS3ERR_FBIG"));
        assert!(if fails { refused } else { written.is_ok() }, "{written:?}");
    }
    let grown = remote.set_size(&file, 1 << 20).await;
    assert!(grown.is_err_and(|error| error.to_string().contains("NFS3ERR_FBIG")));
}

/// Returns an `nfs3d` for this directory, started after these shell commands.
fn nfs3d_after(limits: &str, dir: &TempDir) -> Running {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{limits}; exec \"$@\""), "sh", env!("CARGO_BIN_EXE_nfs3d")]);
    command.arg(dir.path()).args(["--listen", "127.0.0.1:0", "--no-root-squash"]);
    Running::start(command, dir)
}

#[test]
fn a_server_raises_its_limit_of_open_files() {
    let dir = writable_by_all();
    let server = nfs3d_after("ulimit -S -n 256", &dir);
    let limits = fs::read_to_string(format!("/proc/{}/limits", server.child.id())).unwrap();
    let files = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    let [soft, hard] = files.split_whitespace().skip(3).take(2).collect::<Vec<_>>()[..] else {
        panic!("{files}")
    };
    assert_eq!(soft, hard);
}

/// Connections must not use up the descriptors that files need.
#[tokio::test(flavor = "multi_thread")]
async fn files_are_served_beside_many_idle_connections() {
    let dir = writable_by_all();
    for number in 0..20 {
        fs::write(dir.path().join(format!("file{number}")), "content").unwrap();
    }
    let server = nfs3d_after("ulimit -n 64", &dir);
    let remote = server.mount().await;
    let address = server.url.trim_start_matches("rdma://").trim_end_matches('/').to_owned();
    let idle: Vec<_> = (0..100).map(|_| std::net::TcpStream::connect(&address).unwrap()).collect();
    // Once the server has replied to a call, it has accepted all connections.
    for number in 0..20 {
        let file = remote.find(format!("/file{number}").as_bytes()).await.unwrap();
        let mut content = Vec::new();
        let mut take = |data: Bytes| {
            content.extend_from_slice(&data);
            Ok(())
        };
        let read = remote.read_file(&file, &mut take).await.map(drop);
        assert!(read.is_ok() && content == b"content", "{read:?}");
    }
    drop(idle);
}
