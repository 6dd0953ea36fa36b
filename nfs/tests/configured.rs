//! Tests `nfs3d`: the configuration file, reloading, stopping, metrics, and systemd's protocols.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test may fail")]

#[path = "configured/prometheus.rs"]
mod prometheus;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant};

use clap::CommandFactory;
use rpcrdma_mount3::mount_v3;
use rpcrdma_nfs::cli::nfs3d::Nfs3dArguments;
use rpcrdma_nfs::client::ServerConnection;
use rpcrdma_runtime::{ClientOptions, TcpClient, TcpClientOptions};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::net::TcpSocket;

use self::prometheus::samples;

/// A directory with a configuration file and directories to export.
struct Place(TempDir);

impl Place {
    fn new(directories: &[&str]) -> Self {
        let place = Place(tempfile::tempdir().unwrap());
        for directory in directories {
            fs::create_dir(place.path(directory)).unwrap();
        }
        place
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    /// Writes `text` to the configuration file, with the path of this directory in place of `@`. Root is not
    /// squashed, since the tests may run as root.
    fn configure(&self, text: &str) {
        let text = format!("no-root-squash = true\nanon = \"0:0\"\n{}", text.replace('@', &self.path("")));
        fs::write(self.path("nfs3d.toml"), text).unwrap();
    }

    fn nfs3d(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_nfs3d"));
        command.args(["--config", &self.path("nfs3d.toml")]).args(arguments);
        command.env("XDG_STATE_HOME", self.0.path()).env_remove("RUST_LOG");
        command
    }

    fn start(&self, arguments: &[&str]) -> Daemon {
        Daemon::start(self.nfs3d(&[&["--listen", "127.0.0.1:0"], arguments].concat()))
    }
}

struct Daemon {
    child: Child,
    out: BufReader<ChildStdout>,
    line: String,
}

impl Daemon {
    fn start(mut command: Command) -> Self {
        command.stderr(Stdio::piped());
        Daemon::spawn(command)
    }

    fn spawn(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let mut daemon = Daemon { child, out, line: String::new() };
        daemon.line = daemon.next_line();
        daemon
    }

    fn next_line(&mut self) -> String {
        let mut line = String::new();
        self.out.read_line(&mut line).unwrap();
        line
    }

    fn url(&self, scheme: &str) -> &str {
        self.line
            .split_whitespace()
            .find(|word| word.starts_with(scheme))
            .unwrap()
            .trim_end_matches(['/', ','])
    }

    fn metrics_address(&self) -> String {
        self.url("http://").trim_start_matches("http://").trim_end_matches("/metrics").to_owned()
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Stops the server and returns its standard error.
    fn stop(mut self) -> String {
        self.signal(Signal::TERM);
        assert_eq!(self.next_line(), "stopped\n");
        let mut text = String::new();
        self.child.stderr.take().map(|mut errors| errors.read_to_string(&mut text).unwrap());
        assert!(self.child.wait().unwrap().success(), "{text}");
        text
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // The server has already exited, unless the test failed.
        let _ = self.child.kill();
    }
}

fn nfs3(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_nfs3")).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[tokio::test]
async fn a_peer_sees_only_the_exports_that_admit_it() {
    let place = Place::new(&["a"]);
    place.configure(
        "[[export]]\npath = '/a'\ndir = '@a'\n\
         [[export]]\npath = '/other'\ndir = '@a'\nallow = ['10.0.0.0/8']\n",
    );
    let daemon = place.start(&["--tcp", "127.0.0.1:0"]);
    let address = daemon.url("tcp://").trim_start_matches("tcp://").to_owned();
    let listed = mount_v3::Client(TcpClient::connect(address).await.unwrap()).export().await.unwrap();
    let listed = format!("{listed:?}");
    assert!(listed.contains("\"/a\"") && !listed.contains("/other"), "{listed}");
    assert_eq!(listed.matches("127.0.0.").count(), 1, "both listeners are in one network: {listed}");
    daemon.stop();
}

#[test]
fn exports_have_their_own_paths_and_options() {
    let place = Place::new(&["a", "b"]);
    fs::write(place.path("a/file"), "of a").unwrap();
    fs::write(place.path("b/file"), "of b").unwrap();
    place.configure(
        "[[export]]\npath = '/a'\ndir = '@a'\n[[export]]\npath = '/deep/b'\ndir = '@b'\nread-only = true\n\
         [[export]]\npath = '/other'\ndir = '@a'\nallow = ['10.0.0.0/8']\n",
    );
    let daemon = place.start(&["--tcp", "127.0.0.1:0"]);
    for scheme in ["rdma://", "tcp://"] {
        let url = |path: &str| format!("{}{path}", daemon.url(scheme));
        assert_eq!(text(&nfs3(&["cat", &url("/a/file")]).stdout), "of a");
        assert_eq!(text(&nfs3(&["cat", &url("/deep/b/file")]).stdout), "of b");
        let put = nfs3(&["put", &place.path("b/file"), &url("/a/new")]);
        assert!(put.status.success(), "{put:?}");
        let refused = nfs3(&["put", &place.path("a/file"), &url("/deep/b/new")]);
        assert!(text(&refused.stderr).contains("NFS3ERR_ROFS"), "{refused:?}");
        for path in ["/none", "/other"] {
            let refused = nfs3(&["ls", &url(path)]);
            assert_eq!(refused.status.code(), Some(1), "{path}: {refused:?}");
        }
    }
    assert_eq!(fs::read(place.path("a/new")).unwrap(), b"of b");
    daemon.stop();
}

/// The exported directory contains a directory with the name of the export. No command may change that
/// directory.
#[test]
fn commands_that_change_a_name_reject_the_root_of_an_export() {
    let place = Place::new(&["a", "a/a"]);
    fs::write(place.path("a/a/file"), "content").unwrap();
    place.configure("[[export]]\npath = '/a'\ndir = '@a'\n");
    let daemon = place.start(&[]);
    let root = format!("{}/a", daemon.url("rdma://"));
    let below = format!("{root}/b");
    let commands: [&[&str]; 4] =
        [&["mkdir", &root], &["mv", &root, &below], &["rm", &root], &["rm", "-r", &root]];
    for command in commands {
        let refused = nfs3(command);
        assert_eq!(refused.status.code(), Some(1), "{command:?}: {refused:?}");
        let message = "nfs3: /a: is the root of an export; append a path\n";
        assert_eq!(text(&refused.stderr), message, "{command:?}");
    }
    assert_eq!(fs::read(place.path("a/a/file")).unwrap(), b"content");
    daemon.stop();
}

#[test]
fn the_command_line_overrides_the_file() {
    let place = Place::new(&["a"]);
    place.configure("dir = '@a'\nlisten = '127.0.0.1:1'\nread-only = true\n");
    let daemon = place.start(&[]);
    assert!(!daemon.line.contains(":1/") && daemon.line.contains("read-only"), "{}", daemon.line);
    daemon.stop();
    // Options on the command line are the defaults for each export.
    place.configure("[[export]]\ndir = '@a'\n");
    let daemon = place.start(&["--read-only"]);
    assert!(daemon.line.contains("read-only"), "{}", daemon.line);
    daemon.stop();
    place.configure("read-only = true\n[[export]]\ndir = '@a'\nread-only = false\n");
    let daemon = place.start(&[]);
    assert!(!daemon.line.contains("read-only"), "{}", daemon.line);
    daemon.stop();
}

#[test]
fn errors_name_the_file_the_line_and_the_option() {
    let place = Place::new(&["a"]);
    let file = place.path("nfs3d.toml");
    // `configure` writes the first two lines.
    for (content, line, part) in [
        ("listne = '[::]:1'", 3, "unknown option `listne`"),
        ("config = 'x'", 3, "unknown option `config`"),
        ("tcp = true", 3, "option `tcp`: expected a string or a number"),
        ("\nstats = 'yes'", 4, "option `stats`: expected true or false"),
        ("allow = ['10.0.0.0/8', 'there']", 3, "option `allow`: invalid value 'there'"),
        ("provider = 'ib'", 3, "option `provider`: invalid value 'ib'"),
        ("all-squash = true", 3, "option `all-squash`: the argument '--all-squash' cannot be used with"),
        ("rpcbind = 'x'\n", 3, "option `rpcbind`"),
        ("listen = 'a'\nlisten = 'b'", 4, "duplicate key"),
        ("[[export]]\ndir = '@a'\nanon = '1'", 5, "option `anon`: invalid value '1'"),
        ("[[export]]\npath = '/x'", 3, "option `dir` is missing"),
        ("[[export]]\ndir = '@a'\n[[export]]\ndir = '@'", 5, "option `path`: another export has the path /"),
        ("[[export]]\ndir = '@a'\npath = 'x'", 5, "option `path`: invalid value 'x'"),
        ("[[export]]\ndir = '@a'\nlisten = 'x'", 5, "unknown option `listen`"),
        ("[export]\ndir = '@a'", 3, "`export` must be an array of tables: [[export]]"),
    ] {
        place.configure(content);
        let refused = place.nfs3d(&["--check-config"]).output().unwrap();
        let message = text(&refused.stderr);
        assert!(message.starts_with(&format!("nfs3d: {file}:{line}: {part}")), "{content}: {message}");
        assert_eq!((refused.status.code(), message.lines().count()), (Some(2), 1), "{content}: {message}");
    }
    place.configure("");
    let refused = place.nfs3d(&[]).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).starts_with("nfs3d: no directory to serve"), "{refused:?}");
    let usage = place.nfs3d(&["--listne"]).output().unwrap();
    assert_eq!(usage.status.code(), Some(2));
    assert!(text(&usage.stderr).starts_with("error: unexpected argument"), "{usage:?}");
}

#[test]
fn the_file_has_every_option_of_the_command_line() {
    let place = Place::new(&["a"]);
    fs::write(place.path("key"), [7; 16]).unwrap();
    fs::set_permissions(place.path("key"), fs::Permissions::from_mode(0o600)).unwrap();
    // The other options are flags.
    let values = [
        ("path", "'/of/a'"),
        ("allow", "['10.0.0.0/8', 'fd00::7']"),
        ("sec", "['sys']"),
        ("anon", "'1:2'"),
        ("listen", "'127.0.0.1:0'"),
        ("provider", "'iwarp'"),
        ("tcp", "'127.0.0.1:0'"),
        ("handle-key", "'@new-key'"),
        ("metrics", "'127.0.0.1:0'"),
        ("stop-timeout", "5"),
        ("log-format", "'json'"),
        ("rpcbind", "'127.0.0.1:111'\nregister = true"),
    ];
    let not_in_files = ["config", "check-config", "help", "version"];
    let command = Nfs3dArguments::command();
    let options =
        command.get_arguments().filter_map(|option| Some((option.get_long()?, option.get_action())));
    let mut tried = 0;
    for (name, action) in options.filter(|(name, _)| !not_in_files.contains(name)) {
        let value = values.iter().find(|(option, _)| *option == name).map_or("true", |(_, value)| value);
        assert_eq!(action.takes_values(), value != "true", "{name}: a sample value is missing");
        let content = format!("dir = '@a'\n{name} = {value}\n").replace('@', &place.path(""));
        fs::write(place.path("nfs3d.toml"), content).unwrap();
        let checked = place.nfs3d(&["--check-config"]).output().unwrap();
        assert_eq!(
            (text(&checked.stdout), text(&checked.stderr)),
            ("the configuration is valid\n", ""),
            "{name}"
        );
        tried += 1;
    }
    assert!(tried > values.len(), "{tried}");
}

#[test]
fn a_configuration_is_checked_without_a_server() {
    let place = Place::new(&["a"]);
    place.configure(
        "dir = '@a'\nlisten = '127.0.0.1:1'\nallow = ['10.0.0.0/8', 'fd00::7']\nstop-timeout = 5\n",
    );
    let checked = place.nfs3d(&["--check-config"]).output().unwrap();
    assert_eq!((text(&checked.stdout), text(&checked.stderr)), ("the configuration is valid\n", ""));
    place.configure("dir = '@gone'\n");
    let refused = place.nfs3d(&["--check-config"]).output().unwrap();
    let expected = format!("nfs3d: {}: No such file or directory (os error 2)\n", place.path("gone"));
    assert_eq!((refused.status.code(), text(&refused.stderr)), (Some(1), expected.as_str()));
}

#[test]
fn a_check_covers_addresses_and_keys() {
    let place = Place::new(&["a"]);
    fs::write(place.path("key"), "too short").unwrap();
    fs::set_permissions(place.path("key"), fs::Permissions::from_mode(0o600)).unwrap();
    let key = place.path("key");
    for (option, error) in [
        ("listen = '127.0.0.1'", "cannot resolve the address of --listen (127.0.0.1): "),
        ("tcp = 'host:port'", "cannot resolve the address of --tcp (host:port): "),
        ("metrics = '[::1]:99999'", "cannot resolve the address of --metrics ([::1]:99999): "),
        ("register = true\nrpcbind = '::1'", "cannot resolve the address of --rpcbind (::1): "),
        ("handle-key = '@key'", &format!("{key}: not a handle key")),
        ("sec = ['krb5']\nhandle-key = '@new'", ""),
    ] {
        place.configure(&format!("dir = '@a'\n{option}\n"));
        let mut command = place.nfs3d(&["--check-config"]);
        // With `sec = ['krb5']`, the check fails: the keytab is missing, or the feature `krb5` is disabled.
        let refused = command.env("KRB5_KTNAME", place.path("none")).output().unwrap();
        let message = text(&refused.stderr);
        assert!(message.starts_with(&format!("nfs3d: {error}")), "{option}: {message}");
        assert_eq!((refused.status.code(), message.lines().count()), (Some(1), 1), "{option}: {message}");
    }
    assert!(!Path::new(&place.path("new")).exists(), "a check creates no file");
}

#[cfg(not(feature = "verbs"))]
#[test]
fn a_check_rejects_a_provider_that_is_not_built_in() {
    let place = Place::new(&["a"]);
    place.configure("dir = '@a'\nprovider = 'verbs'\n");
    let refused = place.nfs3d(&["--check-config"]).output().unwrap();
    let error = "nfs3d: --provider verbs: built without the feature `verbs`\n";
    assert_eq!((refused.status.code(), text(&refused.stderr)), (Some(1), error));
}

#[test]
fn json_output_includes_errors_of_the_configuration() {
    let place = Place::new(&["a"]);
    let message = |arguments: &[&str]| {
        let refused = place.nfs3d(arguments).output().unwrap();
        assert_eq!(refused.status.code(), Some(2));
        let line: serde_json::Value = serde_json::from_str(text(&refused.stderr).trim_end()).unwrap();
        assert_eq!(line["level"], "ERROR");
        line["fields"]["message"].as_str().unwrap().to_owned()
    };
    // The configuration file does not exist yet.
    let missing = message(&["--check-config", "--log-format", "json"]);
    assert!(missing.contains("nfs3d.toml: No such file"), "{missing}");
    place.configure("log-format = 'json'\nlistne = 'x'\n");
    let unknown = message(&["--check-config"]);
    assert!(unknown.contains("nfs3d.toml:4: ") && unknown.contains("listne"), "{unknown}");
    place.configure("log-format = 'json'\nlisten =\n");
    assert!(message(&["--check-config"]).contains("nfs3d.toml:4: "));
    let refused = place.nfs3d(&["--log-format", "text"]).output().unwrap();
    assert!(text(&refused.stderr).starts_with("nfs3d: "), "{refused:?}");
}

#[test]
fn a_failed_mount_names_the_path_of_the_url() {
    let place = Place::new(&["a"]);
    place.configure("[[export]]\npath = '/a'\ndir = '@a'\n");
    let daemon = place.start(&["--tcp", "127.0.0.1:0"]);
    for scheme in ["rdma://", "tcp://"] {
        let failed = nfs3(&["ls", &format!("{}/none/below", daemon.url(scheme))]);
        let message = text(&failed.stderr);
        assert!(message.starts_with("nfs3: /none/below: no such file or directory (MNT: "), "{message}");
    }
    daemon.stop();
}

#[tokio::test]
async fn a_reload_replaces_exports_and_keeps_connections() {
    let place = Place::new(&["a", "b"]);
    fs::write(place.path("a/file"), "of a").unwrap();
    fs::write(place.path("b/file"), "of b").unwrap();
    place.configure("[[export]]\npath = '/a'\ndir = '@a'\n");
    let mut daemon = place.start(&[]);
    // This client fails if its connection is closed.
    let options = ClientOptions { reconnect: None, ..ClientOptions::default() };
    let address = daemon.url("rdma://").trim_start_matches("rdma://").to_owned();
    let client = rpcrdma_runtime::Client::connect_with(address.as_str(), options).await.unwrap();
    let mount =
        async |path: &str| rpcrdma_mount3::mount_v3::Client(client.clone()).mnt(&path.into()).await.unwrap();
    let is_mounted =
        |mounted: &rpcrdma_mount3::Mountres3| matches!(mounted, rpcrdma_mount3::Mountres3::Mnt3Ok(_));
    let rpcrdma_mount3::Mountres3::Mnt3Ok(a) = mount("/a").await else { panic!("not mounted") };
    assert!(!is_mounted(&mount("/b").await));

    place.configure(
        "[[export]]\npath = '/a'\ndir = '@a'\nread-only = true\n[[export]]\npath = '/b'\ndir = '@b'\n",
    );
    daemon.signal(Signal::HUP);
    let line = daemon.next_line();
    assert!(line.starts_with("serving ") && line.contains(&place.path("b")), "{line}");
    assert!(is_mounted(&mount("/b").await));
    let nfs = rpcrdma_nfs3::nfs_v3::Client(client.clone());
    let object = rpcrdma_nfs3::NfsFh3 { data: a.fhandle };
    let found = nfs.getattr(&rpcrdma_nfs3::Getattr3Args { object }).await.unwrap();
    assert!(matches!(found, rpcrdma_nfs3::Getattr3Res::Nfs3Ok(_)), "the handle stays valid: {found:?}");

    place.configure("[[export]]\npath = '/b'\ndir = 'nowhere'\n");
    daemon.signal(Signal::HUP);
    // Gives the server time to process the invalid file. The warnings checked below show that the server has
    // processed the file.
    std::thread::sleep(Duration::from_millis(300));
    assert!(is_mounted(&mount("/a").await), "the exports are unchanged");
    place.configure("tcp = '127.0.0.1:0'\n[[export]]\npath = '/b'\ndir = '@b'\n");
    daemon.signal(Signal::HUP);
    assert!(!daemon.next_line().contains(&place.path("a")));
    assert!(!is_mounted(&mount("/a").await) && is_mounted(&mount("/b").await));
    let found = nfs.getattr(&rpcrdma_nfs3::Getattr3Args { object }).await.unwrap();
    let stale = rpcrdma_nfs3::Nfsstat3::Nfs3errStale;
    assert!(matches!(found, rpcrdma_nfs3::Getattr3Res::Default(status) if status == stale), "{found:?}");
    // After a reload, the server serves the directory that replaced the old directory at the same path.
    std::fs::rename(place.path("b"), place.path("old")).unwrap();
    std::fs::rename(place.path("a"), place.path("b")).unwrap();
    fs::write(place.path("b/new"), "new").unwrap();
    daemon.signal(Signal::HUP);
    daemon.next_line();
    let got = nfs3(&["cat", &format!("{}/b/new", daemon.url("rdma://"))]);
    assert_eq!(text(&got.stdout), "new", "{got:?}");
    drop(client);
    let warnings = daemon.stop();
    assert!(warnings.contains("reload failed, nothing was changed: nowhere: No such file"), "{warnings}");
    assert!(warnings.contains("to apply the other changed options, restart nfs3d"), "{warnings}");
    // The server logs the first warning if it runs as root, and otherwise the second.
    let of_access = ["AUTH_SYS is not verified", "nfs3d is not root"];
    let logged = warnings.lines().filter(|line| of_access.iter().any(|part| line.contains(part)));
    assert_eq!(logged.count(), 4, "at the start and after each of three reloads: {warnings}");
}

#[tokio::test]
async fn a_reload_closes_connections_from_networks_that_are_no_longer_allowed() {
    let place = Place::new(&["a"]);
    place.configure("dir = '@a'\nallow = ['127.0.0.0/8']\n");
    let mut daemon = place.start(&["--tcp", "127.0.0.1:0"]);
    let address = |scheme: &str| daemon.url(scheme).trim_start_matches(scheme).to_owned();
    let (rdma, tcp) = (address("rdma://"), address("tcp://"));
    let once = ClientOptions { reconnect: None, ..ClientOptions::default() };
    let over_rdma = rpcrdma_runtime::Client::connect_with(rdma.as_str(), once).await.unwrap();
    let over_rdma = rpcrdma_mount3::mount_v3::Client(over_rdma);
    let once = TcpClientOptions { reconnect: None, ..TcpClientOptions::default() };
    let over_tcp = TcpClient::connect_with(tcp.as_str(), once).await.unwrap();
    let over_tcp = rpcrdma_mount3::mount_v3::Client(over_tcp);
    over_rdma.null().await.unwrap();
    over_tcp.null().await.unwrap();
    let allowed = TcpSocket::new_v4().unwrap();
    allowed.bind("127.0.0.2:0".parse().unwrap()).unwrap();
    let allowed = allowed.connect(tcp.parse().unwrap()).await.unwrap();

    place.configure("dir = '@a'\nallow = ['127.0.0.2']\n");
    daemon.signal(Signal::HUP);
    assert!(daemon.next_line().starts_with("serving "));
    // The policy does not reject NULL, so NULL fails only if the connection is closed.
    let closed = async {
        while over_rdma.null().await.is_ok() || over_tcp.null().await.is_ok() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), closed).await.unwrap();
    assert_eq!(allowed.try_read(&mut [0]).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    daemon.stop();
}

/// Sends 16 READs and does not receive the replies.
fn stuck_read(address: &str, handle: &[u8]) -> TcpStream {
    let mut call = Vec::new();
    for word in [7, 0, 2, 100_003, 3, 6, 0, 0, 0, 0, u32::try_from(handle.len()).unwrap()] {
        call.extend(word.to_be_bytes());
    }
    call.extend(handle);
    for word in [0, 0, 4_u32 << 20] {
        call.extend(word.to_be_bytes());
    }
    let mut stream = TcpStream::connect(address).unwrap();
    for _ in 0..16 {
        stream.write_all(&(0x8000_0000 | u32::try_from(call.len()).unwrap()).to_be_bytes()).unwrap();
        stream.write_all(&call).unwrap();
    }
    stream
}

#[tokio::test]
async fn a_stop_has_a_deadline() {
    let place = Place::new(&["a"]);
    fs::File::create(place.path("a/file")).unwrap().set_len(8 << 20).unwrap();
    place.configure("dir = '@a'\nstop-timeout = 2\nmetrics = '127.0.0.1:0'\n");
    let daemon = place.start(&["--tcp", "127.0.0.1:0"]);
    let address = daemon.url("tcp://").trim_start_matches("tcp://").to_owned();
    let client = TcpClient::connect(address.as_str()).await.unwrap();
    let mounted = rpcrdma_mount3::mount_v3::Client(client.clone()).mnt(&"/".into()).await.unwrap();
    let rpcrdma_mount3::Mountres3::Mnt3Ok(root) = mounted else { panic!("{mounted:?}") };
    let dir = rpcrdma_nfs3::NfsFh3 { data: root.fhandle };
    let what = rpcrdma_nfs3::Diropargs3 { dir, name: "file".into() };
    let looked_up = rpcrdma_nfs3::nfs_v3::Client(client).lookup(&rpcrdma_nfs3::Lookup3Args { what }).await;
    let Ok(rpcrdma_nfs3::Lookup3Res::Nfs3Ok(found)) = looked_up else { panic!("{looked_up:?}") };
    let _stuck = stuck_read(&address, found.object.data.as_slice());
    let metrics = daemon.metrics_address();
    // Waits until the unread replies use memory.
    let deadline = Instant::now() + Duration::from_secs(10);
    while samples_of(&metrics, "rpcrdma_server_memory_bytes") < f64::from(1 << 20) {
        assert!(Instant::now() < deadline, "{}", fetch(&metrics, "/metrics").1);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(fetch(&metrics, "/healthz"), (200, "ok\n".to_owned()));
    let began = Instant::now();
    daemon.signal(Signal::TERM);
    let draining = loop {
        match fetch(&metrics, "/healthz") {
            (200, _) => {}
            other => break other,
        }
    };
    assert_eq!(draining, (503, "stopping\n".to_owned()));
    daemon.stop();
    let took = began.elapsed();
    assert!(took >= Duration::from_millis(1900) && took < Duration::from_secs(5), "{took:?}");
}

/// A limit of 64 open files allows 32 connections in total, and 8 from one address.
#[tokio::test]
async fn one_address_leaves_connections_to_others() {
    let place = Place::new(&["a"]);
    place.configure("dir = '@a'\nallow = ['127.0.0.0/8']\n");
    let direct = place.nfs3d(&["--listen", "127.0.0.1:0", "--tcp", "127.0.0.1:0"]);
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n 64; exec \"$@\"", "sh"]).arg(direct.get_program());
    command.args(direct.get_args()).env("XDG_STATE_HOME", place.0.path());
    let daemon = Daemon::start(command);
    let address = daemon.url("tcp://").trim_start_matches("tcp://").to_owned();
    let mut taken = Vec::new();
    for number in 0..12 {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.2:0".parse().unwrap()).unwrap();
        let mut socket = socket.connect(address.parse().unwrap()).await.unwrap();
        if number < 8 {
            taken.push(socket);
        } else {
            let mut octet = [0];
            let closed = tokio::io::AsyncReadExt::read(&mut socket, &mut octet);
            let closed = tokio::time::timeout(Duration::from_secs(20), closed).await;
            assert!(matches!(closed, Ok(Ok(0) | Err(_))), "the server closes connection {number}");
        }
    }
    let client = TcpClient::connect(address.as_str()).await.unwrap();
    rpcrdma_mount3::mount_v3::Client(client).null().await.unwrap();
    for socket in &taken {
        assert_eq!(socket.try_read(&mut [0]).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    }
    daemon.stop();
}

#[tokio::test]
async fn a_reload_changes_the_networks_of_an_export_for_existing_connections() {
    let place = Place::new(&["a", "b"]);
    let configure = |allow: &str| {
        let exports = "[[export]]\npath = '/a'\ndir = '@a'\n[[export]]\npath = '/b'\ndir = '@b'";
        place.configure(&format!("{exports}\nallow = ['{allow}']\n"));
    };
    configure("127.0.0.1");
    let mut daemon = place.start(&["--tcp", "127.0.0.1:0"]);
    let address = |scheme: &str| daemon.url(scheme).trim_start_matches(scheme).to_owned();
    let (rdma, tcp) = (address("rdma://"), address("tcp://"));
    let once = ClientOptions { reconnect: None, ..ClientOptions::default() };
    let over_rdma = rpcrdma_runtime::Client::connect_with(rdma.as_str(), once).await.unwrap();
    let once = TcpClientOptions { reconnect: None, ..TcpClientOptions::default() };
    let over_tcp = TcpClient::connect_with(tcp.as_str(), once).await.unwrap();
    let clients = [ServerConnection::from(over_rdma), over_tcp.into()];
    let mut roots = Vec::new();
    for client in &clients {
        let mounted = rpcrdma_mount3::mount_v3::Client(client.clone()).mnt(&"/b".into()).await.unwrap();
        let rpcrdma_mount3::Mountres3::Mnt3Ok(root) = mounted else { panic!("{mounted:?}") };
        roots.push(rpcrdma_nfs3::NfsFh3 { data: root.fhandle });
    }
    // The clients are still allowed to use the export `/a`, so their connections stay open.
    for (allow, is_allowed) in [("192.0.2.1", false), ("127.0.0.1", true)] {
        configure(allow);
        daemon.signal(Signal::HUP);
        assert!(daemon.next_line().starts_with("serving "));
        for (client, root) in clients.iter().zip(&roots) {
            let mount = rpcrdma_mount3::mount_v3::Client(client.clone());
            let is_mounted = |mounted| matches!(mounted, rpcrdma_mount3::Mountres3::Mnt3Ok(_));
            assert!(is_mounted(mount.mnt(&"/a".into()).await.unwrap()));
            assert_eq!(is_mounted(mount.mnt(&"/b".into()).await.unwrap()), is_allowed, "{allow}");
            let nfs = rpcrdma_nfs3::nfs_v3::Client(client.clone());
            let found = nfs.getattr(&rpcrdma_nfs3::Getattr3Args { object: *root }).await;
            let is_found = matches!(&found, Ok(rpcrdma_nfs3::Getattr3Res::Nfs3Ok(_)));
            assert_eq!(is_found, is_allowed, "{allow}: {found:?}");
        }
    }
    drop(clients);
    daemon.stop();
}

/// Uses `/dev/pts`, which Linux systems mount separately from `/dev`.
#[test]
fn a_mount_below_an_export_is_served_only_with_cross_mounts() {
    let place = Place::new(&[]);
    place.configure("dir = '/dev'\nread-only = true\n");
    for (arguments, is_served) in [(&[][..], false), (&["--cross-mounts"], true)] {
        let daemon = place.start(arguments);
        let url = daemon.url("rdma://");
        let listed = nfs3(&["ls", url]);
        let names: Vec<_> = text(&listed.stdout).lines().filter(|line| line.contains("pts")).collect();
        assert!(text(&listed.stdout).contains("null"), "{listed:?}");
        assert_eq!(names.len(), usize::from(is_served), "{listed:?}");
        let below = nfs3(&["ls", &format!("{url}/pts")]);
        assert_eq!(below.status.success(), is_served, "{below:?}");
        assert_eq!(text(&below.stderr).contains("NFS3ERR_ACCES"), !is_served, "{below:?}");
        daemon.stop();
    }
}

/// Binds the socket of a fake service manager. An address that starts with `@` is in the abstract namespace.
fn service_manager(at: &str) -> UnixDatagram {
    let address = match at.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(at),
    };
    let socket = UnixDatagram::bind_addr(&address.unwrap()).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    socket
}

/// Starts `nfs3d` with a fake service manager. `watchdog` is the timeout of the watchdog in microseconds, and
/// `at` is the address of the manager's socket.
fn start_as_service(place: &Place, watchdog: &str, at: &str) -> (Daemon, UnixDatagram) {
    place.configure("dir = '@a'\n");
    let manager = service_manager(at);
    let mut command = place.nfs3d(&["--listen", "127.0.0.1:0"]);
    command.env("NOTIFY_SOCKET", at).env("WATCHDOG_USEC", watchdog).env_remove("WATCHDOG_PID");
    (Daemon::start(command), manager)
}

fn any_report(socket: &UnixDatagram) -> String {
    let mut buffer = [0; 256];
    let length = socket.recv(&mut buffer).unwrap();
    text(&buffer[..length]).trim_end().to_owned()
}

/// Returns the next report that is not a watchdog report.
fn report(socket: &UnixDatagram) -> String {
    loop {
        let report = any_report(socket);
        if report != "WATCHDOG=1" {
            return report;
        }
    }
}

fn stops(daemon: Daemon, manager: &UnixDatagram) {
    daemon.signal(Signal::TERM);
    assert_eq!(report(manager), "STOPPING=1");
    daemon.stop();
}

#[test]
fn systemd_is_notified_of_readiness_reloads_watchdog_and_stop() {
    let place = Place::new(&["a"]);
    let (mut daemon, manager) = start_as_service(&place, "100000", &place.path("notify"));
    assert_eq!(report(&manager), "READY=1");
    for _ in 0..3 {
        assert_eq!(any_report(&manager), "WATCHDOG=1");
    }
    daemon.signal(Signal::HUP);
    let reloading = report(&manager);
    assert!(reloading.starts_with("RELOADING=1\nMONOTONIC_USEC="), "{reloading}");
    assert_eq!(report(&manager), "READY=1");
    assert!(daemon.next_line().starts_with("serving "));
    stops(daemon, &manager);
}

#[test]
fn the_first_state_directory_of_a_service_contains_the_handle_key() {
    let place = Place::new(&["a", "one", "two"]);
    place.configure("dir = '@a'\n");
    let mut command = place.nfs3d(&["--listen", "127.0.0.1:0"]);
    command.env("STATE_DIRECTORY", format!("{}:{}", place.path("one"), place.path("two")));
    Daemon::start(command).stop();
    let has_key = |directory: &str| fs::exists(place.path(directory) + "/handle-key").unwrap();
    assert!(has_key("one") && !has_key("two"));
}

#[test]
fn a_server_that_cannot_listen_is_not_ready() {
    let place = Place::new(&["a"]);
    place.configure("dir = '@a'\n");
    let manager = service_manager(&place.path("notify"));
    let used = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut command = place.nfs3d(&["--listen", &used.local_addr().unwrap().to_string()]);
    let output = command.env("NOTIFY_SOCKET", place.path("notify")).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(text(&output.stderr).contains("in use"), "{output:?}");
    manager.set_nonblocking(true).unwrap();
    assert_eq!(manager.recv(&mut [0; 256]).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
}

/// A reload blocks while a file system blocks. Meanwhile, the server must report to the watchdog, and stop on
/// request.
#[test]
fn a_reload_that_blocks_delays_neither_the_watchdog_nor_the_end() {
    let place = Place::new(&["a"]);
    let (daemon, manager) = start_as_service(&place, "100000", &place.path("notify"));
    assert_eq!(report(&manager), "READY=1");
    // Opening a FIFO for reading blocks until another process opens the FIFO for writing.
    let config = place.path("nfs3d.toml");
    fs::remove_file(&config).unwrap();
    mknodat(CWD, &config, FileType::Fifo, Mode::RUSR, 0).unwrap();
    daemon.signal(Signal::HUP);
    let reloading = report(&manager);
    assert!(reloading.starts_with("RELOADING=1\n"), "{reloading}");
    for _ in 0..3 {
        assert_eq!(any_report(&manager), "WATCHDOG=1");
    }
    stops(daemon, &manager);
}

#[test]
fn reports_reach_an_abstract_socket() {
    let place = Place::new(&["a"]);
    let (daemon, manager) = start_as_service(&place, "100000", &format!("@{}", place.path("notify")));
    assert_eq!(report(&manager), "READY=1");
    stops(daemon, &manager);
}

#[test]
fn a_watchdog_with_a_timeout_of_zero_is_disabled() {
    let place = Place::new(&["a"]);
    let (daemon, manager) = start_as_service(&place, "0", &place.path("notify"));
    // The signal may arrive before the server is ready.
    daemon.signal(Signal::TERM);
    assert_eq!(any_report(&manager), "READY=1");
    assert_eq!(any_report(&manager), "STOPPING=1");
    daemon.stop();
}

#[test]
fn passed_sockets_replace_the_addresses() {
    let place = Place::new(&["a"]);
    fs::write(place.path("a/file"), "content").unwrap();
    place.configure("dir = '@a'\nlisten = '192.0.2.1:1'\n");
    let [rdma, tcp] = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let [rdma_at, tcp_at] = [&rdma, &tcp].map(|socket| socket.local_addr().unwrap());
    let script = "exec 3<&0 4<&2 0</dev/null 2>/dev/null; LISTEN_PID=$$ LISTEN_FDS=2 exec \"$@\"";
    let direct = place.nfs3d(&[]);
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh"]).arg(direct.get_program()).args(direct.get_args());
    let manager = service_manager(&place.path("notify"));
    command.env("XDG_STATE_HOME", place.0.path()).env("NOTIFY_SOCKET", place.path("notify"));
    // The shell passes the descriptors with the numbers that systemd uses.
    command.stdin(OwnedFd::from(rdma)).stderr(OwnedFd::from(tcp));
    let daemon = Daemon::spawn(command);
    assert_eq!(daemon.url("rdma://"), format!("rdma://{rdma_at}"));
    assert_eq!(daemon.url("tcp://"), format!("tcp://{tcp_at}"));
    for scheme in ["rdma://", "tcp://"] {
        let got = nfs3(&["cat", &format!("{}/file", daemon.url(scheme))]);
        assert_eq!(text(&got.stdout), "content", "{got:?}");
    }
    assert_eq!(report(&manager), "READY=1");
    stops(daemon, &manager);
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let direct = place.nfs3d(&["--provider", "verbs"]);
    let script = "exec 3<&0 0</dev/null; LISTEN_PID=$$ LISTEN_FDS=1 exec \"$@\"";
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh"]).arg(direct.get_program()).args(direct.get_args());
    let refused = command.stdin(OwnedFd::from(socket)).output().unwrap();
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    assert!(text(&refused.stderr).contains("--provider verbs cannot use the RDMA socket"), "{refused:?}");
}

/// Without a warning in the log, the operator could not see why a client cannot connect.
#[test]
fn the_log_names_peers_that_may_not_connect() {
    let place = Place::new(&["a"]);
    place.configure("dir = '@a'\nallow = ['192.0.2.0/24']\n");
    let daemon = place.start(&["--tcp", "127.0.0.1:0"]);
    for _ in 0..3 {
        let refused = nfs3(&["ls", daemon.url("tcp://")]);
        assert_eq!(refused.status.code(), Some(3), "{refused:?}");
    }
    let log = daemon.stop();
    assert_eq!(log.matches("refused a connection: the peer's address is not admitted").count(), 1, "{log}");
    assert!(log.contains("from=127.0.0.1") && !log.contains('\x1b'), "{log}");
}

#[test]
fn json_output_includes_warnings() {
    let place = Place::new(&["a"]);
    place.configure("dir = '@a'\nlog-format = 'json'\n");
    let daemon = Daemon::start(place.nfs3d(&["--listen", "0.0.0.0:0"]));
    let log = daemon.stop();
    let lines: Vec<serde_json::Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let is_warning = |line: &serde_json::Value| {
        line["level"] == "WARN"
            && line["fields"]["message"].as_str().unwrap().contains("--allow admits other networks")
    };
    assert!(lines.iter().any(is_warning), "{log}");
}

fn fetch(address: &str, path: &str) -> (u16, String) {
    request(address, "GET", path)
}

fn request(address: &str, method: &str, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "{method} {path} HTTP/1.1\r\nHost: {address}\r\n\r\n").unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    let (head, body) = reply.split_once("\r\n\r\n").unwrap();
    assert!(method == "HEAD" || head.contains(&format!("Content-Length: {}", body.len())), "{head}");
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

#[test]
fn counters_and_gauges_are_zero_before_their_first_event() {
    let place = Place::new(&["a"]);
    place.configure("dir = '@a'\nmetrics = '127.0.0.1:0'\n");
    let daemon = place.start(&[]);
    let metrics = daemon.metrics_address();
    let first = samples(&fetch(&metrics, "/metrics").1).unwrap();
    let zeros = [
        "_bytes_total{kind=\"rdma_read\"}",
        "_connections",
        "_connections_total{kind=\"refused\"}",
        "_credits",
        "_duplicates_total{kind=\"replayed\"}",
        "_memory_bytes",
        "_refusals_total{kind=\"room\"}",
        "_replies_total{kind=\"success\"}",
    ];
    assert!(zeros.iter().all(|name| first.get(&format!("rpcrdma_server{name}")) == Some(&0.0)), "{first:?}");
    daemon.stop();
}

#[tokio::test]
async fn a_scrape_counts_known_traffic() {
    let place = Place::new(&["a"]);
    fs::write(place.path("a/file"), vec![7; 1 << 20]).unwrap();
    place.configure("dir = '@a'\nmetrics = '127.0.0.1:0'\n");
    let daemon = place.start(&[]);
    let metrics = daemon.metrics_address();
    let address = daemon.url("rdma://").trim_start_matches("rdma://").to_owned();
    let client = rpcrdma_runtime::Client::connect(address.as_str()).await.unwrap();
    let mounted = rpcrdma_mount3::mount_v3::Client(client.clone()).mnt(&"/".into()).await.unwrap();
    let rpcrdma_mount3::Mountres3::Mnt3Ok(root) = mounted else { panic!("{mounted:?}") };
    let nfs = rpcrdma_nfs3::nfs_v3::Client(client.clone());
    let dir = rpcrdma_nfs3::NfsFh3 { data: root.fhandle };
    for _ in 0..5 {
        nfs.getattr(&rpcrdma_nfs3::Getattr3Args { object: dir }).await.unwrap();
    }
    let what = rpcrdma_nfs3::Diropargs3 { dir, name: "file".into() };
    let found = nfs.lookup(&rpcrdma_nfs3::Lookup3Args { what }).await.unwrap();
    let rpcrdma_nfs3::Lookup3Res::Nfs3Ok(found) = found else { panic!("{found:?}") };
    let read = rpcrdma_nfs3::Read3Args { file: found.object, offset: 0, count: 1 << 20 };
    nfs.read(&read).await.unwrap();
    let (status, text) = fetch(&metrics, "/metrics");
    assert_eq!(status, 200);
    let samples = samples(&text).unwrap();
    let sample = |name: &str| *samples.get(name).unwrap_or_else(|| panic!("no {name} in {text}"));
    let count = |procedure: u32| {
        let name = "rpcrdma_server_call_duration_seconds_count";
        sample(&format!("{name}{{program=\"100003\",version=\"3\",procedure=\"{procedure}\"}}"))
    };
    assert_eq!([count(1), count(3), count(6)], [5.0, 1.0, 1.0]);
    assert_eq!(sample("rpcrdma_server_replies_total{kind=\"success\"}"), 8.0);
    assert_eq!(sample("rpcrdma_server_connections"), 1.0);
    assert_eq!(sample("rpcrdma_server_connections_total{kind=\"made\"}"), 1.0);
    assert_eq!(sample("rpcrdma_server_bytes_total{kind=\"rdma_write\"}"), f64::from(1 << 20));
    assert!(sample("rpcrdma_server_bytes_total{kind=\"call_inline\"}") > 8.0 * 40.0);
    assert!(sample("rpcrdma_server_credits") >= 1.0, "{text}");
    assert_eq!(sample("rpcrdma_server_memory_max_bytes"), f64::from(48 << 20));
    // The parser checks that buckets are cumulative, and that the last bucket equals the count.
    let name = "rpcrdma_server_call_duration_seconds_bucket";
    let bucket = |bound: &str| {
        sample(&format!("{name}{{program=\"100003\",version=\"3\",procedure=\"1\",le=\"{bound}\"}}"))
    };
    assert!(bucket("0.00005") <= bucket("0.1") && bucket("+Inf") == 5.0, "{text}");
    assert_eq!(fetch(&metrics, "/healthz"), (200, "ok\n".to_owned()));
    assert_eq!(fetch(&metrics, "/other").0, 404);
    assert_eq!(fetch(&metrics, "/healthz?a=b"), (200, "ok\n".to_owned()));
    assert_eq!(request(&metrics, "HEAD", "/healthz"), (200, String::new()));
    assert_eq!(request(&metrics, "POST", "/healthz").0, 405);
    client.close();
    let gone = || {
        ["rpcrdma_server_connections", "rpcrdma_server_memory_bytes"].map(|name| samples_of(&metrics, name))
            == [0.0, 0.0]
    };
    let deadline = Instant::now() + Duration::from_secs(10);
    while !gone() {
        assert!(Instant::now() < deadline, "the connection or its memory is still counted");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let last = fetch(&metrics, "/metrics").1;
    assert!(!last.contains("rpcrdma_client"), "{last}");
    daemon.stop();
}

#[test]
fn bytes_over_tcp_are_inline() {
    let place = Place::new(&["a"]);
    fs::write(place.path("a/file"), vec![7; 1 << 20]).unwrap();
    place.configure("dir = '@a'\nmetrics = '127.0.0.1:0'\ntcp = '127.0.0.1:0'\n");
    let daemon = place.start(&[]);
    let cat = nfs3(&["cat", &format!("{}/file", daemon.url("tcp://"))]);
    assert_eq!(cat.stdout.len(), 1 << 20);
    let name = "rpcrdma_server_bytes_total{kind=\"reply_inline\"}";
    assert!(samples_of(&daemon.metrics_address(), name) > f64::from(1 << 20));
    daemon.stop();
}

/// The exporter answers at most 16 requests concurrently. An idle connection counts as a request for two
/// seconds, unless a newer request replaces it.
#[test]
fn idle_connections_do_not_delay_health_checks() {
    let place = Place::new(&["a"]);
    place.configure("dir = '@a'\nmetrics = '127.0.0.1:0'\n");
    let daemon = place.start(&[]);
    let metrics = daemon.metrics_address();
    let _idle: Vec<_> = (0..400).map(|_| TcpStream::connect(&metrics).unwrap()).collect();
    let mut stream = TcpStream::connect(&metrics).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(b"GET /healthz HTTP/1.1\r\n\r\n").unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    assert!(reply.starts_with("HTTP/1.1 200 OK\r\n"), "{reply}");
    daemon.stop();
}

fn samples_of(metrics: &str, name: &str) -> f64 {
    samples(&fetch(metrics, "/metrics").1).unwrap()[name]
}

#[test]
fn the_dashboard_shows_documented_metrics() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    let [guide, dashboard] =
        ["nfs.md", "grafana.json"].map(|name| fs::read_to_string(docs.join(name)).unwrap());
    let dashboard: serde_json::Value = serde_json::from_str(&dashboard).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let queries = panels.iter().filter_map(|panel| panel["targets"].as_array()).flatten();
    let queries: Vec<_> = queries.map(|target| target["expr"].as_str().unwrap()).collect();
    assert!(queries.len() > 8, "{queries:?}");
    for query in queries {
        let words = query.split(|c: char| c != '_' && !c.is_ascii_lowercase());
        let metrics: Vec<_> = words.filter(|word| word.starts_with("rpcrdma_server_")).collect();
        assert!(!metrics.is_empty(), "{query}");
        for metric in metrics {
            let family = ["_bucket", "_count", "_sum"].iter().find_map(|part| metric.strip_suffix(part));
            let row = format!("| `{}` |", family.unwrap_or(metric));
            assert!(guide.contains(&row), "{row} is not in docs/nfs.md");
        }
    }
}
