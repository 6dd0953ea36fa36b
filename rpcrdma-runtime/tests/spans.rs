//! The client and the server each record a span for every call, with the attributes that OpenTelemetry
//! defines. Warnings name the call.
#![allow(clippy::unwrap_used)] // tests fail by panicking

#[path = "support/echo.rs"]
mod echo;

use std::fmt::Debug;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, OnceLock};

use rpcrdma_runtime::program::{Binding, CallContext, Caller, Procedure, Program, Reject, Service, answer};
use rpcrdma_runtime::xdr::{Reader, Reducer, XdrString};
use rpcrdma_runtime::{Client, ClientOptions, Config, ServeError, Server, Services};
use rpcrdma_runtime::{TcpClient, TcpClientOptions, TcpOptions};
use std::future::Future;
use std::pin::Pin;
use tokio::task::JoinHandle;
use tracing_subscriber::fmt::format::FmtSpan;

use echo::{EchoBlob, EchoNames, EchoServer, EchoSleep, EchoWide, Names, Narrow, blob};

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

    fn warning(&self, text: &str) -> String {
        let log = self.text();
        let line = log.lines().find(|line| line.contains(" WARN ") && line.contains(text));
        line.unwrap_or_else(|| panic!("no {text}: {log}")).to_owned()
    }
}

/// Starts a server over RDMA, and over TCP with a limit of 5,000 octets for each record.
async fn serve_both() -> (Vec<SocketAddr>, JoinHandle<Result<(), ServeError>>) {
    let server = Server::bind("127.0.0.1:0").await.unwrap().service(EchoServer);
    let small = TcpOptions { max_record: 5000, ..TcpOptions::default() };
    let server = server.also_tcp("127.0.0.1:0", small).await.unwrap();
    (server.local_addrs().unwrap(), tokio::spawn(server.run(std::future::pending())))
}

#[tokio::test]
async fn warnings_name_the_call_its_size_and_the_limit() {
    let log = log();
    let (addresses, serving) = serve_both().await;
    let client = Client::connect(addresses[0]).await.unwrap();
    let target = |procedure: &str, server: SocketAddr| format!("{procedure} (program ECHO, peer {server})");
    client.call::<EchoSleep>(&14).await.unwrap_err();
    let warning = log.warning("a handler panicked");
    assert_eq!([attribute(&warning, "program"), attribute(&warning, "procedure")], ["536870913", "3"]);
    assert!(warning.contains(" peer=127.0.0.1:"), "{warning}");

    let error = client.call::<EchoBlob>(&blob(7, 9 << 20)).await.unwrap_err().to_string();
    let call = target("ECHO_BLOB", addresses[0]) + " has 94372";
    for part in [&*call, "MessageLimits::max_transfer", "8388608", r#"[binding.reply."ECHO_BLOB"]"#] {
        assert!(error.contains(part), "no {part}: {error}");
    }
    let warning = log.warning("call too long: 9437184 bytes in Read chunks, limit 8388608");
    assert!(
        warning.contains("MessageLimits::max_transfer") && warning.contains(" peer=127.0.0.1:"),
        "{warning}"
    );
    assert_eq!([attribute(&warning, "program"), attribute(&warning, "procedure")], ["536870913", "1"]);

    let names = Names { names: vec!["n".repeat(9000).as_str().into()] };
    let error = client.call::<Narrow>(&names).await.unwrap_err().to_string();
    let call = target("ECHO_NAMES", addresses[0]) + " has 90";
    for part in ["ERR_CHUNK", &*call, "at most 8 bytes", r#"[binding.reply."ECHO_NAMES"]"#] {
        assert!(error.contains(part), "no {part}: {error}");
    }
    let room = Config::INLINE - 28;
    let warning = log.warning(&format!("9032 bytes for the inline message, limit {room}"));
    assert!(warning.contains("does not fit into the chunks that the client offered"), "{warning}");
    let of_call = ["program", "procedure", "bytes"].map(|name| attribute(&warning, name));
    assert_eq!(of_call, ["536870913", "2", "9032"]);
    assert!(warning.contains(" peer=127.0.0.1:"), "{warning}");

    let once = TcpClientOptions { reconnect: None, ..TcpClientOptions::default() };
    let client = TcpClient::connect_with(addresses[1], once).await.unwrap();
    let error = client.call::<EchoNames>(&names).await.unwrap_err().to_string();
    let call = target("ECHO_NAMES", addresses[1]) + ": 90";
    assert!(error.contains(&call) && error.contains("TcpOptions::max_record"), "{error}");
    let warning = log.warning("record too long: at least 90");
    assert!(warning.contains("limit 5000 (TcpOptions::max_record)"), "{warning}");
    assert_eq!([attribute(&warning, "program"), attribute(&warning, "procedure")], ["536870913", "2"]);
    assert!(warning.contains(" peer=127.0.0.1:"), "{warning}");
    serving.abort();
}

/// Servers on both transports log why results cannot be encoded. The client only learns that the call failed.
#[tokio::test]
async fn a_warning_explains_results_beyond_their_bound() {
    let log = log();
    let (addresses, serving) = serve_both().await;
    let clients =
        (Client::connect(addresses[0]).await.unwrap(), TcpClient::connect(addresses[1]).await.unwrap());
    assert_eq!(clients.0.call::<EchoWide>(&8).await.unwrap(), "nnnnnnnn".into());
    // All tests share the log. No other test uses these lengths, so the warning is from this test.
    clients.0.call::<EchoWide>(&1009).await.unwrap_err();
    let warning = log.warning("a length of 1009 ");
    assert!(warning.contains("the results of a handler cannot be encoded: "), "{warning}");
    assert!(warning.contains(" peer=127.0.0.1:"), "{warning}");
    assert_eq!([attribute(&warning, "program"), attribute(&warning, "procedure")], ["536870913", "4"]);
    // The same peer has already caused a warning of this kind, so this event is logged at DEBUG.
    clients.1.call::<EchoWide>(&1010).await.unwrap_err();
    let text = log.text();
    let line = text.lines().find(|line| line.contains("cannot be encoded") && line.contains("1010"));
    assert!(line.is_some_and(|line| attribute(line, "procedure") == "4"), "{text}");
    serving.abort();
}

/// A program with one procedure, which returns a string of a given length. A server gets the string from its
/// client by a backward call.
struct Ask;

impl Program for Ask {
    const NUMBER: u32 = 0x2000_0004;
    const VERSION: u32 = 1;
    const NAME: &'static str = "ASK";
    const PROCEDURES: &'static [(u32, &'static str)] = &[(1, "ASK_TEXT")];
}

impl Binding for Ask {
    const PORT: Option<u16> = None;
    const NETIDS: &'static [&'static str] = &[];
}

struct AskText;

impl Procedure for AskText {
    type Program = Ask;
    type Args = u32;
    type Res = XdrString<10_000>;
    const NUMBER: u32 = 1;
    const NAME: &'static str = "ASK_TEXT";
}

impl Service for Ask {
    fn program(&self) -> u32 {
        Self::NUMBER
    }

    fn version(&self) -> u32 {
        Self::VERSION
    }

    fn dispatch<'a>(
        &'a self,
        context: &'a CallContext,
        args: Reader<'a>,
        reply: &'a mut Reducer,
    ) -> Pin<Box<dyn Future<Output = Result<(), Reject>> + Send + 'a>> {
        Box::pin(answer(args, reply, async |len: u32| {
            let Some(back) = context.backward() else {
                return Ok(XdrString::from("n".repeat(len as usize).as_str()));
            };
            back.ready();
            back.bidirectional().call::<AskText>(&len).await.map_err(|_| Reject::SystemError)
        }))
    }
}

#[tokio::test]
async fn a_warning_explains_a_backward_reply_that_does_not_fit() {
    let log = log();
    let server = Server::bind("127.0.0.1:0").await.unwrap().service(Ask);
    let address = server.local_addr().unwrap();
    let serving = tokio::spawn(server.run(std::future::pending()));
    let mut backward = Services::new();
    backward.add(Ask);
    let options = ClientOptions { backward, ..ClientOptions::default() };
    let client = Client::connect_with(address, options).await.unwrap();
    assert_eq!(client.call::<AskText>(&3).await.unwrap(), "nnn".into());
    client.call::<AskText>(&7001).await.unwrap_err();
    let warning = log.warning("ERR_CHUNK: the reply to a backward call does not fit inline");
    assert!(warning.contains("7032 bytes for the inline message, limit "), "{warning}");
    let of_call = ["program", "procedure", "bytes"].map(|name| attribute(&warning, name));
    assert_eq!(of_call, ["536870916", "1", "7032"]);
    assert!(warning.contains(&format!(" peer={address}")), "{warning}");
    let text = log.text();
    let of_ask = format!("onc_rpc.program.number={}", Ask::NUMBER);
    let span = text.lines().find(|line| line.contains(&of_ask) && line.contains("otel.kind=\"client\""));
    assert!(span.is_some_and(|span| attribute(span, "onc_rpc.program.name") == "ASK"), "{text}");
    serving.abort();
}

#[tokio::test]
async fn a_peer_cannot_fill_the_log_with_warnings() {
    const CALLS: usize = 100;
    let log = log();
    let (addresses, serving) = serve_both().await;
    let client = Client::connect(addresses[0]).await.unwrap();
    // No other test uses these sizes.
    let (call, names) = (blob(7, 10 << 20), Names { names: vec!["n".repeat(9500).as_str().into()] });
    for _ in 0..CALLS {
        client.call::<EchoBlob>(&call).await.unwrap_err();
        client.call::<Narrow>(&names).await.unwrap_err();
        let once = TcpClientOptions { reconnect: None, ..TcpClientOptions::default() };
        TcpClient::connect_with(addresses[1], once)
            .await
            .unwrap()
            .call::<EchoNames>(&names)
            .await
            .unwrap_err();
    }
    let text = log.text();
    for what in
        ["call too long: 10485760 bytes", "9532 bytes for the inline message", "record too long: at least 95"]
    {
        let count = |level| text.lines().filter(|line| line.contains(level) && line.contains(what)).count();
        assert_eq!(count(" WARN "), 1, "{what}");
        // Other events can contain the text as well.
        assert!(count(" DEBUG ") >= CALLS - 1, "{what}");
    }
    serving.abort();
}

/// The attributes with the same value in both spans of a call.
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

/// Returns the spans that the client and the server recorded for the only call of `procedure` to `server`.
fn spans_of(log: &Log, procedure: u32, server: SocketAddr) -> [String; 2] {
    let text = log.text();
    let closed = |line: &&str| line.contains("rpcrdma_runtime::calls: close");
    let number = procedure.to_string();
    let of = |kind: &str, place: [&str; 2], address: [&str; 2]| {
        let mut found = text.lines().filter(closed).filter(|line| {
            attribute(line, "otel.kind") == kind
                && attribute(line, "onc_rpc.procedure.number") == number
                && place.map(|name| attribute(line, name)) == address
        });
        let line = found.next().unwrap_or_else(|| panic!("no span of the {kind}: {text}")).to_owned();
        assert!(found.next().is_none(), "more than one span of the {kind}: {text}");
        line
    };
    let peer = ["network.peer.address", "network.peer.port"];
    let port = server.port().to_string();
    let client = of("client", peer, ["127.0.0.1", &port]);
    let local = ["network.local.address", "network.local.port"].map(|name| attribute(&client, name));
    let server = of("server", peer, local);
    [client, server]
}

async fn check_spans(client: impl Caller<echo::Echo, Error: Debug>, server: SocketAddr, bytes: [&str; 2]) {
    let log = log();
    client.call::<EchoBlob>(&blob(7, 5000)).await.unwrap();
    let [client, server] = spans_of(&log, EchoBlob::NUMBER, server);
    for name in SHARED {
        assert_eq!(attribute(&client, name), attribute(&server, name), "{name}");
    }
    assert_eq!(attribute(&server, "rpc.system"), "onc_rpc");
    assert_eq!(attribute(&server, "onc_rpc.program.number"), echo::Echo::NUMBER.to_string());
    assert_eq!(attribute(&client, "rpc.method"), EchoBlob::NAME);
    assert_eq!(attribute(&client, "onc_rpc.procedure.name"), EchoBlob::NAME);
    assert_eq!(attribute(&client, "onc_rpc.program.name"), "ECHO_PROGRAM");
    assert_eq!(["rpcrdma.rdma_bytes", "rpcrdma.chunks"].map(|name| attribute(&client, name)), bytes);
    let inline: u64 = attribute(&client, "rpcrdma.inline_bytes").parse().unwrap();
    assert_eq!(inline > 10_000, bytes[0] == "0", "{client}");
}

#[tokio::test]
async fn spans_of_a_call_have_equal_attributes_on_client_and_server() {
    let _log = log();
    let server = Server::bind("127.0.0.1:0").await.unwrap().service(EchoServer);
    let server = server.also_tcp("127.0.0.1:0", TcpOptions::default()).await.unwrap();
    let addresses = server.local_addrs().unwrap();
    let serving = tokio::spawn(server.run(std::future::pending()));
    // Over RDMA, the arguments have a Read chunk and the results a Write chunk.
    check_spans(Client::connect(addresses[0]).await.unwrap(), addresses[0], ["10000", "2"]).await;
    check_spans(TcpClient::connect(addresses[1]).await.unwrap(), addresses[1], ["0", "0"]).await;
    serving.abort();
}

/// A handler that waits continues on its own task. If the server rejects a call with ERR_CHUNK, the server's
/// span of this call records no traffic.
#[tokio::test]
async fn a_span_ends_with_its_call_even_if_the_call_waits_or_fails() {
    let log = log();
    let server = Server::bind("127.0.0.1:0").await.unwrap().service(EchoServer);
    let address = server.local_addr().unwrap();
    let serving = tokio::spawn(server.run(std::future::pending()));
    let client = Client::connect(address).await.unwrap();
    client.call::<EchoSleep>(&1).await.unwrap();
    let [_, waited] = spans_of(&log, EchoSleep::NUMBER, address);
    assert!(attribute(&waited, "rpcrdma.inline_bytes").parse::<u64>().unwrap() > 0, "{waited}");
    let names = Names { names: vec!["n".repeat(9000).as_str().into()] };
    let error = client.call::<Narrow>(&names).await.unwrap_err().to_string();
    let [failed, refused] = spans_of(&log, Narrow::NUMBER, address);
    assert!(failed.contains(&format!("exception.message={error}")), "{failed}");
    assert!(failed.contains(r#"otel.status_code="ERROR""#), "{failed}");
    assert!(!refused.contains("rpcrdma.inline_bytes"), "{refused}");
    let reason = "exception.message=ERR_CHUNK: the reply does not fit into the chunks";
    assert!(refused.contains(r#"otel.status_code="ERROR""#) && refused.contains(reason), "{refused}");
    client.call::<EchoWide>(&9).await.unwrap_err();
    let [_, failed] = spans_of(&log, EchoWide::NUMBER, address);
    assert!(failed.contains(r#"otel.status_code="ERROR""#), "{failed}");
    assert!(failed.contains("exception.message=the server failed to run the call: "), "{failed}");
    serving.abort();
}
