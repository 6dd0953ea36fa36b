//! Runs the example with OpenTelemetry and reads the spans that it exports.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::collections::HashMap;
use std::process::{Command, Stdio};

#[derive(Debug)]
struct Exported<'o> {
    kind: &'o str,
    name: &'o str,
    micros: u64,
    attributes: HashMap<&'o str, &'o str>,
}

impl<'o> Exported<'o> {
    fn parse(line: &'o str) -> Self {
        let mut words = line.split(' ');
        let [kind, name, took] = [(); 3].map(|()| words.next().unwrap());
        let attributes = words.map(|word| word.split_once('=').unwrap()).collect();
        Exported { kind, name, micros: took.strip_suffix("us").unwrap().parse().unwrap(), attributes }
    }

    fn attribute(&self, name: &str) -> &'o str {
        self.attributes.get(name).unwrap_or_else(|| panic!("no {name}: {self:?}"))
    }
}

/// The attributes whose values are equal in both spans of a call.
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

#[test]
fn spans_of_client_and_server_are_exported() {
    let output = Command::new(env!("CARGO_BIN_EXE_spans")).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = std::str::from_utf8(&output.stdout).unwrap();
    let spans: Vec<_> = text.lines().map(Exported::parse).collect();
    let of = |kind| -> Vec<&Exported> { spans.iter().filter(|span| span.kind == kind).collect() };
    let (clients, servers) = (of("Client"), of("Server"));
    assert_eq!(clients.iter().map(|span| span.name).collect::<Vec<_>>(), ["CONF_RDMA"; 2], "{text}");
    assert_eq!((servers.len(), spans.len()), (2, 4), "{text}");
    for client in clients {
        let from = ["network.local.address", "network.local.port"].map(|name| client.attribute(name));
        let is_same = |server: &&&Exported| {
            server.attribute("onc_rpc.xid") == client.attribute("onc_rpc.xid")
                && ["network.peer.address", "network.peer.port"].map(|name| server.attribute(name)) == from
        };
        let joined: Vec<_> = servers.iter().filter(is_same).collect();
        let [server] = joined[..] else { panic!("{client:?}: {text}") };
        for name in SHARED {
            assert_eq!(client.attribute(name), server.attribute(name), "{name}: {text}");
        }
        assert_eq!(client.attribute("rpc.system"), "onc_rpc");
        assert_eq!(client.attribute("onc_rpc.program.number"), "100417");
        assert_eq!(client.attribute("network.peer.address"), "127.0.0.1");
        assert_eq!(client.attribute("rpc.method"), client.name);
        assert!(client.attribute("rpcrdma.inline_bytes").parse::<u32>().unwrap() > 100, "{text}");
        assert!(server.micros <= client.micros, "{text}");
    }
}
