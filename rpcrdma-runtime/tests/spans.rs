//! Each call is a span at the client and at the server, with the attributes that OpenTelemetry defines.
//! Warnings name the call.
#![allow(clippy::unwrap_used)] // tests fail by panicking

mod echo;

use std::io::{self, Write};
use std::sync::{Arc, Mutex, OnceLock};

use rpcrdma_runtime::program::{Caller, Procedure, Program, ReplyBounds};
use rpcrdma_runtime::{Client, Server};
use rpcrdma_runtime::{TcpClient, TcpClientOptions, TcpOptions};
use tracing_subscriber::fmt::format::FmtSpan;

use echo::{EchoBlob, EchoNames, EchoServer, EchoSleep, Names, blob};

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

/// Returns the value of an attribute in a line of the log.
fn attribute<'a>(line: &'a str, name: &str) -> &'a str {
    let (_, rest) = line.split_once(&format!("{name}=")).unwrap_or_else(|| panic!("no {name}: {line}"));
    rest.split([' ', '}']).next().unwrap().trim_matches('"')
}

/// Returns the log of this process, which all tests share.
fn log() -> Log {
    static LOG: OnceLock<Log> = OnceLock::new();
    let start = || {
        let log = Log::default();
        let writer = log.clone();
        tracing_subscriber::fmt()
            .with_max_level(tracing_subscriber::filter::LevelFilter::DEBUG)
            .with_span_events(FmtSpan::CLOSE)
            .with_ansi(false)
            .with_writer(move || writer.clone())
            .init();
        log
    };
    LOG.get_or_init(start).clone()
}

impl Log {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }

    /// Returns the first warning that contains this text.
    fn warning(&self, text: &str) -> String {
        let log = self.text();
        let line = log.lines().find(|line| line.contains(" WARN ") && line.contains(text));
        line.unwrap_or_else(|| panic!("no {text}: {log}")).to_owned()
    }
}

/// ECHO_NAMES with a bound that its replies exceed.
struct Narrow;

impl Procedure for Narrow {
    type Program = echo::Echo;
    type Args = Names;
    type Res = Names;
    const NUMBER: u32 = 2;
    const NAME: &'static str = "ECHO_NAMES";

    fn reply_bounds(_: &Names) -> ReplyBounds {
        ReplyBounds::of::<Names>().with_whole(8)
    }
}

#[tokio::test]
async fn warnings_name_the_call_its_size_and_the_limit() {
    let log = log();
    let server = Server::bind("127.0.0.1:0").await.unwrap().service(EchoServer);
    let small = TcpOptions { max_record: 5000, ..TcpOptions::default() };
    let server = server.also_tcp("127.0.0.1:0", small).await.unwrap();
    let addresses = server.local_addrs().unwrap();
    let serving = tokio::spawn(server.run(std::future::pending()));
    let client = Client::connect(addresses[0]).await.unwrap();
    client.call::<EchoSleep>(&14).await.unwrap_err();
    let warning = log.warning("a handler panicked");
    assert_eq!([attribute(&warning, "program"), attribute(&warning, "procedure")], ["536870913", "3"]);
    assert!(warning.contains("127.0.0.1:"), "{warning}");

    let error = client.call::<EchoBlob>(&blob(7, 9 << 20)).await.unwrap_err().to_string();
    assert!(
        error.contains("94372") && error.contains("default limit 8388608 (MessageLimits::transfer"),
        "{error}"
    );
    let warning = log.warning("call too large: 9437184 bytes in Read chunks, limit 8388608");
    assert!(warning.contains("MessageLimits::transfer") && warning.contains("127.0.0.1:"), "{warning}");

    let names = Names { names: vec!["n".repeat(9000).as_str().into()] };
    client.call::<Narrow>(&names).await.unwrap_err();
    let warning = log.warning("does not fit into the chunks that the client offered");
    assert_eq!([attribute(&warning, "procedure"), attribute(&warning, "bytes")], ["2", "9032"]);

    let once = TcpClientOptions { reconnect: None, ..TcpClientOptions::default() };
    let client = TcpClient::connect_with(addresses[1], once).await.unwrap();
    client.call::<EchoNames>(&names).await.unwrap_err();
    let warning = log.warning("record too long: at least 90");
    assert!(warning.contains("limit 5000 (TcpOptions::max_record)"), "{warning}");
    serving.abort();
}

#[tokio::test]
async fn spans_of_a_call_have_equal_attributes_on_client_and_server() {
    let log = log();
    let server = Server::bind("127.0.0.1:0").await.unwrap().service(EchoServer);
    let address = server.local_addr().unwrap();
    let serving = tokio::spawn(server.run(std::future::pending()));
    let client = Client::connect(address).await.unwrap();
    client.call::<EchoBlob>(&blob(7, 5000)).await.unwrap();
    serving.abort();
    let log = log.text();
    let is_it = |line: &&str| line.contains("close") && line.contains("onc_rpc.procedure.number=1 ");
    let spans: Vec<_> = log.lines().filter(is_it).collect();
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
