//! `nfs3d` with limited rights: as another user, as root with only some capabilities, and with limits on file
//! size and open files.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::fs::{self, File, Permissions};
use std::io::{BufRead, BufReader, Cursor};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, chown};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use bytes::Bytes;
use rpcrdma_nfs::client::{Remote, RemoteFile};
use rpcrdma_nfs3::nfs_v3::NfsV3;
use rpcrdma_nfs3::{
    Create3Args, Create3Res, Createhow3, Createmode3, Devicedata3, Diropargs3, Ftype3, Mknod3Args, Mknod3Res,
    Mknoddata3, Nfsstat3, Sattr3, Setattr3Args, Setattr3Res, Specdata3,
};
use rpcrdma_runtime::program::{AuthSys, Credential};
use rpcrdma_runtime::{Client, ClientOptions};
use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
use tempfile::TempDir;

fn writable_by_all() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), Permissions::from_mode(0o777)).unwrap();
    dir
}

fn limited(rights: &[&str], program: &str) -> Option<Command> {
    if !rustix::process::geteuid().is_root() {
        not_run::not_run("only root can drop rights");
        return None;
    }
    let tried = Command::new("setpriv").args(rights).args([program, "--version"]).output();
    if !tried.as_ref().is_ok_and(|tried| tried.status.success()) {
        not_run::not_run(format_args!("setpriv {}: {tried:?}", rights.join(" ")));
        return None;
    }
    let mut command = Command::new("setpriv");
    command.args(rights).arg(program);
    Some(command)
}

fn nfs3d(rights: &[&str], dir: &TempDir) -> Option<Command> {
    let mut command = limited(rights, env!("CARGO_BIN_EXE_nfs3d"))?;
    command.arg(dir.path()).args(["--listen", "127.0.0.1:0"]);
    Some(command)
}

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

/// With the securebit `no_setuid_fixup`, a thread that switches from root to a caller keeps root's
/// capabilities.
#[test]
fn root_with_no_setuid_fixup_refuses_to_serve() {
    let dir = writable_by_all();
    let Some(mut command) = nfs3d(&["--securebits", "+no_setuid_fixup"], &dir) else { return };
    command.env("XDG_STATE_HOME", dir.path());
    let refused = output_or_kill(command);
    let message = String::from_utf8_lossy(&refused.stderr);
    assert_eq!((refused.status.code(), &refused.stdout[..]), (Some(1), &b""[..]), "{message}");
    assert!(message.contains("(securebit no_setuid_fixup)"), "{message}");
}

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

    async fn mount_as(&self, id: u32) -> Remote {
        let credential = Credential::Sys(AuthSys { uid: id, gid: id, ..AuthSys::default() });
        let options = ClientOptions { credential, ..ClientOptions::of::<NfsV3>() };
        let address = self.url.trim_start_matches("rdma://").trim_end_matches('/');
        let client = Client::connect_with(address, options.clone()).await.unwrap();
        Remote::mount_over(client, &self.url.parse().unwrap(), &options).await.unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The server may have already exited if the test failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

async fn set(remote: &Remote, file: &RemoteFile, new_attributes: Sattr3) -> Result<(), Nfsstat3> {
    let args = Setattr3Args { object: file.handle, new_attributes, guard: None };
    match remote.nfs().setattr(&args).await.unwrap() {
        Setattr3Res::Nfs3Ok(_) => Ok(()),
        Setattr3Res::Default(status, _) => Err(status),
    }
}

async fn set_mode(remote: &Remote, file: &RemoteFile, mode: u32) -> Result<(), Nfsstat3> {
    set(remote, file, Sattr3 { mode: Some(mode), ..Sattr3::default() }).await
}

async fn make_node(
    remote: &Remote,
    dir: &RemoteFile,
    name: &'static str,
    what: Mknoddata3,
) -> Result<(), Nfsstat3> {
    let r#where = Diropargs3 { dir: dir.handle, name: Bytes::from_static(name.as_bytes()).into() };
    match remote.nfs().mknod(&Mknod3Args { r#where, what }).await.unwrap() {
        Mknod3Res::Nfs3Ok(_) => Ok(()),
        Mknod3Res::Default(status, _) => Err(status),
    }
}

fn mode_of(dir: &TempDir, name: &str) -> u32 {
    fs::symlink_metadata(dir.path().join(name)).unwrap().mode() & 0o7777
}

/// New files of all callers belong to the server's user. Setuid files would run with that user's rights.
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
    let fifo = |mode| Mknoddata3::PipeAttributes(Ftype3::Nf3fifo, Sattr3 { mode, ..Sattr3::default() });
    assert_eq!(make_node(&remote, &top, "fifo", fifo(Some(0o4755))).await, Err(Nfsstat3::Nfs3errPerm));
    assert!(["file", "dir", "fifo"].iter().all(|name| !dir.path().join(name).exists()));
    let file = remote.create(&top, Bytes::from_static(b"file"), 0o1755).await.unwrap();
    for mode in [0o4777, 0o2777, 0o6000] {
        assert_eq!(set_mode(&remote, &file, mode).await, Err(Nfsstat3::Nfs3errPerm));
        assert_eq!(mode_of(&dir, "file"), 0o1755);
    }
    // A setuid bit that is already set may stay.
    fs::set_permissions(dir.path().join("file"), Permissions::from_mode(0o4755)).unwrap();
    assert_eq!(set_mode(&remote, &file, 0o6755).await, Err(Nfsstat3::Nfs3errPerm));
    assert_eq!(mode_of(&dir, "file"), 0o4755);
    assert_eq!(set_mode(&remote, &file, 0o4700).await, Ok(()));
    assert_eq!(mode_of(&dir, "file"), 0o4700);
}

#[test]
fn sync_sets_the_time_of_a_copy_without_read_permission() {
    let (served, here) = (writable_by_all(), writable_by_all());
    let rights = ["--reuid=1234", "--regid=1234", "--clear-groups"];
    let Some(server) = nfs3d(&rights, &served) else { return };
    let Some(mut client) = limited(&rights, "bash") else { return };
    let (path, copy) = (served.path().join("file"), here.path().join("file"));
    fs::write(&path, "content").unwrap();
    let server = Running::start(server, &served);
    client.args(["-c", "umask 477; exec \"$@\"", "bash", env!("CARGO_BIN_EXE_nfs3")]);
    client.args(["sync", "--include", "file", &server.url]).arg(here.path());
    let synced = output_or_kill(client);
    assert!(synced.status.success(), "{synced:?}");
    let of = |path| fs::metadata(path).map(|of| (of.size(), of.mtime(), of.mtime_nsec())).unwrap();
    assert_eq!(of(&path), of(&copy));
    assert_eq!(fs::metadata(&copy).unwrap().mode() & 0o777, 0o200);
}

/// In a writable export, an owner can read a file whose mode forbids reading, since the server temporarily
/// changes the mode. A read-only export does not change the mode.
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

/// Returns the capabilities of the systemd unit, as setpriv spells them.
fn unit_capabilities() -> Vec<String> {
    let unit = include_str!("../dist/nfs3d.service");
    let sets = unit.lines().filter_map(|line| line.strip_prefix("CapabilityBoundingSet="));
    sets.flat_map(str::split_whitespace).map(|name| name.trim_start_matches("CAP_").to_lowercase()).collect()
}

fn nfs3d_as_unit(without: &str, dir: &TempDir) -> Option<Command> {
    let kept = unit_capabilities().into_iter().filter(|name| name != without);
    let set = kept.fold("-all".to_owned(), |set, name| set + ",+" + &name);
    nfs3d(&["--no-new-privs", "--bounding-set", &set, "--inh-caps", &set], dir)
}

/// Performs operations in an export as a user and as root. Returns the operations that failed.
async fn failed_uses(server: &Running, dir: &TempDir) -> Vec<&'static str> {
    let (user, root) = (server.mount_as(1234).await, server.mount_as(0).await);
    let top = root.top().await.unwrap();
    let write = async |remote: &Remote, file: &RemoteFile| {
        remote.write_file(file, &mut Cursor::new("content"), &|_| {}).await.is_ok()
    };
    let owned = user.create(&top, "owned".into(), 0o600).await.unwrap();
    let closed = user.create(&top, "closed".into(), 0).await.unwrap();
    let private = user.make_directory(&top, "private".into(), 0o700).await.unwrap();
    let in_private = user.create(&private, "file".into(), 0o600).await.unwrap();
    let shared = user.find(b"/shared").await.unwrap();
    let inherited = user.make_directory(&shared, "inner".into(), 0o750).await.is_ok();
    let spec = Specdata3 { specdata1: 1, specdata2: 3 };
    let null = Mknoddata3::Device(Ftype3::Nf3chr, Devicedata3 { dev_attributes: Sattr3::default(), spec });
    let device = make_node(&root, &top, "null", null).await.is_ok();
    let mode = set_mode(&root, &owned, 0o2750).await.is_ok();
    let to_root = Sattr3 { uid: Some(0), gid: Some(0), ..Sattr3::default() };
    let uses = [
        ("a user's private directory", write(&user, &in_private).await),
        ("a user's file with mode 0", write(&user, &closed).await),
        ("an inherited group", inherited && mode_of(dir, "shared/inner") == 0o2750),
        ("another user's file", write(&root, &closed).await),
        ("a mode", mode && mode_of(dir, "owned") == 0o2750),
        ("an owner", set(&root, &closed, to_root).await.is_ok()),
        ("a device", device && fs::metadata(dir.path().join("null")).unwrap().file_type().is_char_device()),
    ];
    uses.into_iter().filter(|(_, succeeded)| !succeeded).map(|(what, _)| what).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_capability_of_the_unit_is_needed() {
    let needing = |capability: &str| match capability {
        "" | "setuid" | "setgid" => &[][..],
        "dac_override" => &["a user's private directory", "a user's file with mode 0", "another user's file"],
        "chown" => &["an owner"],
        "fowner" | "fsetid" => &["an inherited group", "a mode"],
        "mknod" => &["a device"],
        other => panic!("no operation needs {other}"),
    };
    // In a user namespace, not even root can create devices.
    let dir = writable_by_all();
    let node = dir.path().join("null");
    if let Err(error) = mknodat(CWD, &node, FileType::CharacterDevice, Mode::RUSR, makedev(1, 3)) {
        return not_run::not_run(format_args!("cannot create devices: {error}"));
    }
    for without in unit_capabilities().iter().map(String::as_str).chain([""]) {
        let dir = writable_by_all();
        let Some(mut command) = nfs3d_as_unit(without, &dir) else { return };
        command.arg("--no-root-squash");
        if without.starts_with("set") {
            let refused = output_or_kill(command);
            let message = String::from_utf8_lossy(&refused.stderr);
            assert!(message.contains(&without.to_uppercase()) && !refused.status.success(), "{message}");
            continue;
        }
        // New directories in `shared` inherit a group of which the user is not a member.
        fs::create_dir(dir.path().join("shared")).unwrap();
        chown(dir.path().join("shared"), None, Some(4321)).unwrap();
        fs::set_permissions(dir.path().join("shared"), Permissions::from_mode(0o2777)).unwrap();
        let server = Running::start(command, &dir);
        assert_eq!(failed_uses(&server, &dir).await, needing(without), "without {without:?}");
    }
}

/// Starts `nfs3d` and returns the line of its log that describes its rights.
fn logged(mut command: Command, dir: &TempDir) -> String {
    let log = dir.path().join("log");
    command.stderr(File::create(&log).unwrap());
    drop(Running::start(command, dir));
    let log = fs::read_to_string(log).unwrap();
    log.lines().find(|line| line.contains("acts as")).unwrap_or(&log).to_owned()
}

#[test]
fn the_log_describes_what_the_server_may_do() {
    let dir = writable_by_all();
    let each = "nfs3d: /: acts as each caller; root is squashed; accepts sys";
    let device = format!("{each}; cannot create devices (CAP_MKNOD is missing)");
    for (without, line) in [("", each), ("mknod", &device)] {
        let Some(command) = nfs3d_as_unit(without, &dir) else { return };
        assert_eq!(logged(command, &dir), line);
    }
    for (option, identity) in [
        ("--no-root-squash", "acts as each caller, including root"),
        ("--all-squash", "acts as user 65534 and group 65534 for every caller"),
    ] {
        let Some(mut command) = nfs3d_as_unit("", &dir) else { return };
        command.arg(option);
        assert_eq!(logged(command, &dir), format!("nfs3d: /: {identity}; accepts sys"));
    }
    let dir = writable_by_all();
    let Some(command) = nfs3d(&["--reuid=1234", "--regid=1234", "--clear-groups"], &dir) else { return };
    let line = logged(command, &dir);
    let user = "nfs3d: /: acts as the server's user for every caller; accepts sys; cannot";
    assert!(
        line.starts_with(user) && line.contains("; cannot change owners (CAP_CHOWN is missing)"),
        "{line}"
    );
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

#[tokio::test(flavor = "multi_thread")]
async fn a_create_with_a_size_beyond_the_limit_leaves_no_file() {
    let dir = writable_by_all();
    let server = nfs3d_after("ulimit -f 64", &dir);
    let remote = server.mount().await;
    let top = remote.top().await.unwrap();
    let create = async |size: u64| {
        let r#where = Diropargs3 { dir: top.handle, name: Bytes::from_static(b"file").into() };
        let new = Sattr3 { size: Some(size), ..Sattr3::default() };
        let how = Createhow3::ObjAttributes(Createmode3::Guarded, new);
        match remote.nfs().create(&Create3Args { r#where, how }).await.unwrap() {
            Create3Res::Nfs3Ok(_) => Ok(()),
            Create3Res::Default(status, _) => Err(status),
        }
    };
    assert_eq!(create(1 << 20).await, Err(Nfsstat3::Nfs3errFbig));
    assert!(!dir.path().join("file").exists());
    assert_eq!(create(1 << 10).await, Ok(()));
}

/// Runs the shell commands in `limits`, and then replaces the shell with an `nfs3d` that serves `dir`.
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
