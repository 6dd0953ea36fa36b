//! Traces of `nfs3 get`: the spans in the logs of `nfs3` and `nfs3d`, joined call by call. Also tests that
//! `nfs3` logs errors and warnings as JSON.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

const SIZE: u64 = 3 << 20;
const NFS: u64 = 100_003;
const MOUNT: u64 = 100_005;
const READ: u64 = 6;

fn program(path: &str, log: &Path) -> Command {
    let mut command = Command::new(path);
    command.args(["--log-format", "json"]).env("RUST_LOG", "rpcrdma_runtime::calls=debug");
    command.stderr(File::create(log).unwrap());
    command
}

struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns a duration from the log and its maximum rounding error, in nanoseconds.
fn duration(text: &str) -> (f64, f64) {
    let unit_at = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap();
    let (number, unit) = text.split_at(unit_at);
    let unit = match unit {
        "ns" => 1.0,
        "µs" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        _ => panic!("{text}"),
    };
    let decimals = number.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    let rounding = 0.5 / 10_f64.powi(i32::try_from(decimals).unwrap());
    (number.parse::<f64>().unwrap() * unit, rounding * unit)
}

#[derive(Debug)]
struct Span {
    end: String,
    /// The minimum and maximum possible duration of the span before rounding, in nanoseconds.
    took: [f64; 2],
    attributes: Value,
}

impl Span {
    fn attribute(&self, name: &str) -> &Value {
        let value = &self.attributes[name];
        assert!(!value.is_null(), "no {name}: {self:?}");
        value
    }

    fn number(&self, name: &str) -> u64 {
        self.attribute(name).as_u64().unwrap_or_else(|| panic!("{name}: {self:?}"))
    }

    fn address(&self, which: &str) -> String {
        let name = |part| format!("network.{which}.{part}");
        format!("{}:{}", self.attribute(&name("address")).as_str().unwrap(), self.number(&name("port")))
    }

    fn program(&self) -> u64 {
        self.number("onc_rpc.program.number")
    }

    fn procedure(&self) -> u64 {
        self.number("onc_rpc.procedure.number")
    }
}

fn spans(log: &Path, kind: &str) -> Vec<Span> {
    let text = fs::read_to_string(log).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let closed = lines.filter(|line| line["fields"]["message"] == "close" && line["span"]["name"] == "call");
    let spans = closed.map(|mut line| {
        assert_eq!(line["span"]["otel.kind"], kind, "{line}");
        let [busy, idle] =
            ["time.busy", "time.idle"].map(|name| duration(line["fields"][name].as_str().unwrap()));
        let (sum, rounding) = (busy.0 + idle.0, busy.1 + idle.1);
        let end = line["timestamp"].as_str().unwrap().to_owned();
        Span { end, took: [sum - rounding, sum + rounding], attributes: line["span"].take() }
    });
    spans.collect()
}

/// The attributes that are equal in both spans of a call.
const SHARED: [&str; 8] = [
    "rpc.system",
    "onc_rpc.program.number",
    "onc_rpc.version",
    "onc_rpc.procedure.number",
    "onc_rpc.xid",
    "rpcrdma.inline_bytes",
    "rpcrdma.rdma_bytes",
    "rpcrdma.chunks",
];

/// Joins the spans by the XID and the client's address, and compares each pair. Returns the client's spans.
fn joined(clients: Vec<Span>, servers: Vec<Span>, address: &str) -> Vec<Span> {
    let mut by_call = BTreeMap::new();
    for server in servers {
        let call = (server.number("onc_rpc.xid"), server.address("peer"));
        let twice = by_call.insert(call, server);
        assert!(twice.is_none(), "two spans of one call: {twice:?}");
    }
    for client in &clients {
        let call = (client.number("onc_rpc.xid"), client.address("local"));
        let server = by_call.remove(&call).unwrap_or_else(|| panic!("the server has no span of {client:?}"));
        for name in SHARED {
            assert_eq!(client.attribute(name), server.attribute(name), "{name}: {client:?} {server:?}");
        }
        assert_eq!(client.attribute("rpc.system"), "onc_rpc");
        let name = match client.program() {
            NFS => "NFS_PROGRAM",
            MOUNT => "MOUNT_PROGRAM",
            other => panic!("program {other}"),
        };
        assert_eq!(client.attribute("onc_rpc.program.name"), name, "{client:?}");
        assert_eq!(client.address("peer"), address, "{client:?}");
        assert!(client.number("rpcrdma.inline_bytes") > 0, "{client:?}");
        assert!(server.end <= client.end, "{client:?} {server:?}");
        assert!(server.took[0] <= client.took[1], "{client:?} {server:?}");
    }
    assert!(by_call.is_empty(), "the client has no span of {by_call:?}");
    clients
}

fn traced_get(scheme: &str) -> Vec<Span> {
    let place = tempfile::tempdir().unwrap();
    let path = |name: &str| place.path().join(name);
    fs::create_dir(path("files")).unwrap();
    let content: Vec<u8> = (0..=250).cycle().take(usize::try_from(SIZE).unwrap()).collect();
    fs::write(path("files/content"), &content).unwrap();
    let mut command = program(env!("CARGO_BIN_EXE_nfs3d"), &path("server.log"));
    command.arg(path("files")).args(["--listen", "127.0.0.1:0", "--tcp", "127.0.0.1:0", "--no-root-squash"]);
    command.env("XDG_STATE_HOME", place.path()).stdout(Stdio::piped());
    let mut daemon = Daemon(command.spawn().unwrap());
    let mut out = BufReader::new(daemon.0.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    let url = line.split_whitespace().find(|word| word.starts_with(scheme)).unwrap();
    let url = url.trim_end_matches(['/', ',']);
    let mut get = program(env!("CARGO_BIN_EXE_nfs3"), &path("client.log"));
    let got = get.args(["get", &format!("{url}/content")]).arg(path("copy")).output().unwrap();
    assert!(got.status.success(), "{got:?} {:?}", fs::read_to_string(path("client.log")));
    assert!(fs::read(path("copy")).unwrap() == content);
    kill_process(Pid::from_child(&daemon.0), Signal::TERM).unwrap();
    assert!(daemon.0.wait().unwrap().success());
    let (clients, servers) = (spans(&path("client.log"), "client"), spans(&path("server.log"), "server"));
    joined(clients, servers, url.trim_start_matches(scheme))
}

/// Returns the READ spans, after checks that do not depend on the transport.
fn reads(spans: &[Span]) -> Vec<&Span> {
    assert!(
        spans.iter().any(|span| span.program() == MOUNT && span.attribute("rpc.method") == "MOUNTPROC3_MNT")
    );
    let reads: Vec<_> =
        spans.iter().filter(|span| (span.program(), span.procedure()) == (NFS, READ)).collect();
    for read in &reads {
        assert_eq!(read.attribute("rpc.method"), "NFSPROC3_READ");
        assert_eq!(read.number("onc_rpc.version"), 3);
    }
    reads
}

#[test]
fn spans_of_a_get_over_rdma_join_client_and_server() {
    let spans = traced_get("rdma://");
    let reads = reads(&spans);
    let by_rdma: u64 = reads.iter().map(|read| read.number("rpcrdma.rdma_bytes")).sum();
    assert_eq!(by_rdma, SIZE);
    // The only chunk is the Write chunk for the data.
    assert!(reads.iter().all(|read| read.number("rpcrdma.chunks") == 1), "{reads:?}");
}

#[test]
fn spans_of_a_get_over_tcp_join_client_and_server() {
    let spans = traced_get("tcp://");
    let reads = reads(&spans);
    let inline: u64 = reads.iter().map(|read| read.number("rpcrdma.inline_bytes")).sum();
    assert!(inline > SIZE, "{reads:?}");
    assert!(spans.iter().all(|span| span.number("rpcrdma.rdma_bytes") + span.number("rpcrdma.chunks") == 0));
}

#[test]
fn errors_and_warnings_of_nfs3_are_json() {
    let place = tempfile::tempdir().unwrap();
    let log = place.path().join("log");
    let mut command = program(env!("CARGO_BIN_EXE_nfs3"), &log);
    // Nothing listens on port 1.
    let ended = command.args(["ls", "tcp://127.0.0.1:1/"]).env("RPCRDMA_PCAP", "/dev/null").output().unwrap();
    assert_eq!(ended.status.code(), Some(3));
    let text = fs::read_to_string(&log).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let message = |level: &str| {
        let line = lines.iter().find(|line| line["level"] == level).unwrap_or_else(|| panic!("{text}"));
        line["fields"]["message"].as_str().unwrap()
    };
    assert!(message("WARN").starts_with("RPCRDMA_PCAP is ignored for tcp:// URLs"), "{text}");
    assert!(message("ERROR").contains("127.0.0.1:1"), "{text}");
}
