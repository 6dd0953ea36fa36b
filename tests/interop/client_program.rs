//! Tests the program `nfs3`, mainly against the kernel's NFS server.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex};

use rustix::process::{Pid, Signal, kill_process};

use crate::guest::{Guest, Random, Siw, server};
use crate::place::{address, program, provider};
use crate::relay::Relay;

fn nfs3(here: &Path, arguments: &[&str]) -> Child {
    Command::new(program(env!("CARGO_BIN_EXE_nfs3")))
        .current_dir(here)
        .args(["--provider", &provider().to_string()])
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn output_of(here: &Path, arguments: &[&str]) -> Output {
    nfs3(here, arguments).wait_with_output().unwrap()
}

fn prints(here: &Path, arguments: &[&str]) -> String {
    let output = output_of(here, arguments);
    assert!(output.status.success() && output.stderr.is_empty(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Starts a relay that counts the bytes from the server.
fn counting(target: u16) -> (Relay, Arc<Mutex<usize>>) {
    let through = Arc::new(Mutex::new(0));
    let counted = through.clone();
    let watch = move |to_server: bool, bytes: &[u8]| {
        *counted.lock().unwrap() += if to_server { 0 } else { bytes.len() };
    };
    (Relay::watched(target, Arc::new(Mutex::new(watch))), through)
}

#[test]
fn files_are_used_by_name() {
    let Some(guest) = server(Siw::Fixed) else { return };
    files_by_name(&guest, "/export");
}

pub(crate) fn files_by_name(guest: &Guest, export: &str) {
    guest.run("rm -rf /export/*");
    let (dir, ports) = (tempfile::tempdir().unwrap(), guest.ports());
    let here = dir.path();
    let url =
        |port: u16, path: &str| format!("rdma://{}:{port}/export{path}?mountport={}", address(), ports.mount);
    let at = |path: &str| url(ports.nfs_rdma, path);
    let data = Random::new().bytes(3_000_001);
    fs::write(here.join("local"), &data).unwrap();

    prints(here, &["mkdir", "-p", &at("/one/two")]);
    let put = prints(here, &["put", "--verify", "local", &at("/one/two")]);
    let sum = put.split_whitespace().next().unwrap();
    let there = guest.run("sha256sum </export/one/two/local; chmod 640 /export/one/two/local");
    assert_eq!(there.split_whitespace().next(), Some(sum), "{put}");
    let listed = prints(here, &["ls", "-l", &at("/one/two")]);
    assert!(listed.starts_with("-rw-r----- ") && listed.contains(" 3000001 "), "{listed}");
    assert!(listed.trim_end().ends_with(" local"), "{listed}");

    let got = prints(here, &["get", "--sha256", sum, &at("/one/two/local"), "copy"]);
    assert!(got.starts_with(sum) && fs::read(here.join("copy")).unwrap() == data);
    let other = output_of(here, &["get", "--sha256", &"0".repeat(64), &at("/one/two/local"), "other"]);
    assert!(other.status.code() == Some(4) && !here.join("other").exists(), "{other:?}");
    // `--resume` keeps the existing part of the file and writes the rest.
    guest.run("truncate -s 1000000 /export/one/two/local");
    assert!(prints(here, &["put", "--resume", "--verify", "local", &at("/one/two")]).starts_with(sum));
    assert!(guest.run("sha256sum </export/one/two/local").starts_with(sum));

    let info = prints(here, &["info", &at("/one")]);
    for expected in
        ["credits     64 granted", "inline      calls up to 4.00 KiB", &format!("export      {export}\n")]
    {
        assert!(info.contains(expected), "{expected}: {info}");
    }
    prints(here, &["rm", &at("/one/two/local")]);
    assert_eq!(prints(here, &["ls", &at("/one/two")]), "");
    assert_eq!(
        output_of(here, &["rm", &at("/one")]).status.code(),
        Some(1),
        "rm without -r must reject a directory"
    );
    prints(here, &["rm", "-r", &at("/one")]);
    assert_eq!(guest.run("ls -A /export"), "");
}

#[test]
fn an_interrupted_get_resumes() {
    const SIZE: usize = 16 << 20;
    let Some(guest) = server(Siw::Fixed) else { return };
    let (dir, ports) = (tempfile::tempdir().unwrap(), guest.ports());
    let here = dir.path();
    let sum = guest.run(&format!("head -c {SIZE} /dev/urandom >/export/large; sha256sum </export/large"));
    let url = |port: u16| format!("rdma://{}:{port}/export/large?mountport={}", address(), ports.mount);

    let (relay, is_reached, release) = Relay::holding(ports.nfs_rdma, 10 << 20);
    let child = nfs3(here, &["get", &url(relay.port)]);
    is_reached.recv().unwrap();
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let ended = child.wait_with_output().unwrap();
    drop(release);
    let output = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(130), "{output}");
    assert!(!here.join("large").exists());
    let kept = output.lines().find(|line| line.contains("`nfs3 get --resume`")).unwrap();
    let kept: usize = kept.split(' ').nth(2).unwrap().parse().unwrap();

    let (relay, through) = counting(ports.nfs_rdma);
    let resumed = prints(here, &["get", "--resume", &url(relay.port)]);
    assert_eq!(resumed.split_whitespace().next(), sum.split_whitespace().next());
    assert_eq!(fs::metadata(here.join("large")).unwrap().len(), SIZE as u64);
    let through = *through.lock().unwrap();
    assert!(kept > 0 && through < SIZE - kept + (1 << 20), "{kept} bytes kept, {through} bytes transferred");
    guest.run("rm /export/large");
}
