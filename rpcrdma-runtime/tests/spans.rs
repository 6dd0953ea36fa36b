//! Each call is a span at the client and at the server, with the attributes that OpenTelemetry defines.
#![allow(clippy::unwrap_used)] // a test that cannot go on says so by panicking

mod echo;

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use rpcrdma_runtime::proto::program::{Caller, Procedure, Program};
use rpcrdma_runtime::{Client, Server};
use tracing_subscriber::fmt::format::FmtSpan;

use echo::{EchoBlob, EchoServer, blob};

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(text)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The value of an attribute in a line of the log.
fn attribute<'a>(line: &'a str, name: &str) -> &'a str {
    let (_, rest) = line.split_once(&format!("{name}=")).unwrap_or_else(|| panic!("no {name}: {line}"));
    rest.split([' ', '}']).next().unwrap().trim_matches('"')
}

#[tokio::test]
async fn the_spans_of_a_call_have_the_same_attributes_at_both_ends() {
    let log = Log::default();
    let writer = log.clone();
    tracing_subscriber::fmt()
        .with_max_level(tracing_subscriber::filter::LevelFilter::DEBUG)
        .with_span_events(FmtSpan::CLOSE)
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .init();
    let server = Server::bind("127.0.0.1:0").await.unwrap().service(EchoServer);
    let address = server.local_addr().unwrap();
    let serving = tokio::spawn(server.run(std::future::pending()));
    let client = Client::connect(address).await.unwrap();
    client.call::<EchoBlob>(&blob(7, 5000)).await.unwrap();
    serving.abort();
    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    let spans: Vec<_> =
        log.lines().filter(|line| line.contains("close") && line.contains("onc_rpc.xid=")).collect();
    let of = |kind: &str| spans.iter().find(|line| attribute(line, "otel.kind") == kind).unwrap();
    let (client, server) = (of("client"), of("server"));
    let program = echo::Echo::NUMBER.to_string();
    for name in ["onc_rpc.program.number", "onc_rpc.version", "onc_rpc.procedure.number", "onc_rpc.xid"] {
        assert_eq!(attribute(client, name), attribute(server, name), "{name}");
    }
    assert_eq!(attribute(server, "onc_rpc.program.number"), program);
    assert_eq!(attribute(client, "rpc.system"), "onc_rpc");
    assert_eq!(attribute(client, "rpc.method"), EchoBlob::NAME);
    assert_eq!(attribute(client, "rpcrdma.rdma_bytes"), "10000");
    assert!(attribute(server, "network.peer.address").starts_with("127.0.0.1:"), "{server}");
}
