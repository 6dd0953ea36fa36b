//! Tests with other implementations of NFSv3 over TCP, run by the steps `libnfs` and `ganesha` of `cargo
//! xtask soak`. The tests need an rpcbind in their network namespace, and the path of a directory in
//! `RPCRDMA_PEERS`.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic, clippy::cast_possible_truncation, reason = "a test may fail")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

const LEN: usize = 5_000_003;

fn scratch(name: &str) -> Option<PathBuf> {
    let Some(directory) = std::env::var_os("RPCRDMA_PEERS") else {
        not_run::not_run("RPCRDMA_PEERS is not set");
        return None;
    };
    let directory = Path::new(&directory).join(name);
    fs::create_dir_all(directory.join("served/sub")).unwrap();
    fs::write(directory.join("served/hello"), "hello\n").unwrap();
    fs::write(directory.join("served/sub/data"), data(7)).unwrap();
    fs::write(directory.join("local"), data(11)).unwrap();
    Some(directory)
}

fn data(factor: usize) -> Vec<u8> {
    (0..LEN).map(|at| (at * factor % 251) as u8).collect()
}

struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn run(here: &Path, program: &str, arguments: &[&str]) -> String {
    let output = Command::new("timeout").arg("120").arg(program).args(arguments).current_dir(here).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{program} {arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// libnfs mounts the empty path for files in the root. The mount succeeds, but libnfs then searches for
/// exports below the empty path and gives up, whatever the server replies. Either `//` before the name or the
/// option `auto-traverse-mounts=0` avoids the search.
#[test]
fn libnfs_uses_our_server() {
    let Some(here) = scratch("libnfs") else { return };
    let mut daemon = Command::new(env!("CARGO_BIN_EXE_nfs3d"));
    daemon.arg(here.join("served")).args([
        "--listen",
        "127.0.0.1:0",
        "--tcp",
        "127.0.0.1:2049",
        "--register",
    ]);
    daemon.arg("--no-root-squash").env("XDG_STATE_HOME", &here).stdout(Stdio::piped());
    let mut daemon = Server(daemon.spawn().unwrap());
    let mut line = String::new();
    BufReader::new(daemon.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("tcp://127.0.0.1:2049"), "{line}");

    let listing = run(&here, "nfs-ls", &["nfs://127.0.0.1/"]);
    let has = |name: &str, len: usize| {
        let mut lines = listing.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        lines.any(|words| words.last() == Some(&name) && words.contains(&len.to_string().as_str()))
    };
    assert!(has("hello", 6), "{listing}");
    let below = run(&here, "nfs-ls", &["nfs://127.0.0.1/sub"]);
    assert!(below.contains("data") && below.contains(&LEN.to_string()), "{below}");
    let in_root = |name: &str| format!("nfs://127.0.0.1/{name}?auto-traverse-mounts=0");
    assert_eq!(run(&here, "nfs-cat", &[&in_root("hello")]), "hello\n");
    run(&here, "nfs-cp", &["nfs://127.0.0.1//hello", "root"]);
    assert_eq!(fs::read(here.join("root")).unwrap(), b"hello\n");
    run(&here, "nfs-cp", &["nfs://127.0.0.1/sub/data", "copy"]);
    assert!(fs::read(here.join("copy")).unwrap() == data(7));
    run(&here, "nfs-cp", &["local", &in_root("put")]);
    assert!(fs::read(here.join("served/put")).unwrap() == data(11));
}

#[test]
fn our_client_uses_ganesha() {
    let Some(here) = scratch("ganesha") else { return };
    let served = here.join("served");
    let path = served.to_str().unwrap();
    let configuration = format!(
        "NFS_CORE_PARAM {{ Protocols = 3; Enable_NLM = false; Enable_RQUOTA = false; }}\n\
         EXPORT {{ Export_Id = 1; Path = {path}; Pseudo = /served; Protocols = 3; Transports = TCP;\n\
         Access_Type = RW; Squash = no_root_squash; SecType = sys; FSAL {{ Name = VFS; }} }}\n"
    );
    fs::write(here.join("ganesha.conf"), configuration).unwrap();
    let mut daemon = Command::new("ganesha.nfsd");
    daemon.args(["-F", "-f", "ganesha.conf", "-L", "log", "-p", "pid"]).current_dir(&here);
    let _daemon = Server(daemon.spawn().unwrap());
    let begun = Instant::now();
    let log = || fs::read_to_string(here.join("log")).unwrap_or_default();
    while TcpStream::connect("127.0.0.1:2049").is_err() || !log().contains("NFS SERVER INITIALIZED") {
        assert!(begun.elapsed() < Duration::from_secs(60), "{}", log());
        sleep(Duration::from_millis(100));
    }

    let nfs3 = |arguments: &[&str]| run(&here, env!("CARGO_BIN_EXE_nfs3"), arguments);
    let url = format!("tcp://127.0.0.1{path}");
    let listing = nfs3(&["ls", &url]);
    assert_eq!(listing.lines().collect::<Vec<_>>(), ["hello", "sub"], "{listing}");
    let long = nfs3(&["ls", "-l", &format!("{url}/sub")]);
    assert!(long.contains("data") && long.contains(&LEN.to_string()), "{long}");
    nfs3(&["get", &format!("{url}/sub/data"), "copy"]);
    assert!(fs::read(here.join("copy")).unwrap() == data(7));
    nfs3(&["put", "--verify", "local", &format!("{url}/put")]);
    assert!(fs::read(served.join("put")).unwrap() == data(11));
}
