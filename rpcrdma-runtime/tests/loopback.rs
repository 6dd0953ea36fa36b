//! A user-defined program, served and called over iWARP on real TCP loopback connections.
#![allow(clippy::unwrap_used)] // tests fail by panicking

#[path = "support/echo.rs"]
mod echo;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use rpcrdma_runtime::Services;
use rpcrdma_runtime::program::{AuthStat, Caller, Credential, Procedure, Program};
use rpcrdma_runtime::proto::rdma::{Config, LongCall, Traffic};
use rpcrdma_runtime::provider::iwarp;
use rpcrdma_runtime::wire::private_data::PrivateData;
use rpcrdma_runtime::wire::rpc::{CallHeader, ReplyError};
use rpcrdma_runtime::xdr::{Encode, Received, Reducer};
use rpcrdma_runtime::{CallError, ClientOptions, Observer, ServerOptions};
use rpcrdma_runtime::{Client, Server};

use echo::{Blob, Echo, EchoBlob, EchoNames, EchoServer, EchoSleep, GSS, Names, blob};

struct Fixture {
    client: Client,
    traffic: Arc<Mutex<Vec<Option<Traffic>>>>,
    stop: tokio::sync::oneshot::Sender<()>,
    server: tokio::task::JoinHandle<()>,
}

fn config(inline: u32) -> Config {
    let private_data = PrivateData { remote_invalidation: true, send_size: inline, receive_size: inline };
    Config { private_data, ..Config::default() }
}

async fn start(server: ServerOptions, client: ClientOptions) -> Fixture {
    let server = Server::bind_with("127.0.0.1:0", server).await.unwrap().service(EchoServer);
    let address = server.local_addr().unwrap();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let server = tokio::spawn(async move { server.run(async { drop(stopped.await) }).await.unwrap() });
    let traffic = Arc::new(Mutex::new(Vec::new()));
    let seen = traffic.clone();
    let observer = Observer::new(move |report| seen.lock().unwrap().push(report.traffic));
    let client =
        Client::connect_with(address, ClientOptions { observer: Some(observer), ..client }).await.unwrap();
    Fixture { client, traffic, stop, server }
}

async fn start_with(config: Config) -> Fixture {
    start(
        ServerOptions { config, ..ServerOptions::default() },
        ClientOptions { config, ..ClientOptions::default() },
    )
    .await
}

impl Fixture {
    fn last(&self) -> Traffic {
        self.traffic.lock().unwrap().last().unwrap().unwrap()
    }

    async fn end(self) {
        drop(self.client);
        self.stop.send(()).unwrap();
        tokio::time::timeout(Duration::from_secs(20), self.server).await.unwrap().unwrap();
    }
}

/// Requirement: R042, R219
#[tokio::test]
async fn sizes_around_every_threshold_round_trip() {
    let fixture = start_with(config(1024)).await;
    for data in
        [0, 1, 2, 3, 4, 5, 100, 800, 850, 860, 870, 880, 900, 1000, 1023, 1024, 1025, 4096, 65_537, 1_048_579]
    {
        let sent = blob(7, data);
        assert_eq!(fixture.client.call::<EchoBlob>(&sent).await.unwrap(), sent, "{data} bytes");
    }
    let traffic = fixture.last();
    assert_eq!((traffic.read_chunks, traffic.read_bytes), (1, 1_048_579));
    assert_eq!((traffic.write_chunks, traffic.write_bytes), (1, 1_048_579));
    // Tries string lengths in steps of four bytes, the unit of XDR, so that one message in each direction has
    // exactly the threshold size.
    let mut longest = (0, 0);
    for len in (800..1000).step_by(4) {
        let sent = Names { names: vec!["n".repeat(len).as_str().into()] };
        assert_eq!(fixture.client.call::<EchoNames>(&sent).await.unwrap(), sent, "{len} bytes");
        let Traffic { call_inline, reply_inline, .. } = fixture.last();
        longest = (longest.0.max(call_inline), longest.1.max(reply_inline));
    }
    assert_eq!(longest, (1024, 1024));
    fixture.end().await;
}

#[tokio::test]
async fn chunks_of_many_segments() {
    let fixture = start_with(Config { max_segment: 10_000, ..config(4096) }).await;
    let sent = blob(3, 123_457);
    assert_eq!(fixture.client.call::<EchoBlob>(&sent).await.unwrap(), sent);
    let traffic = fixture.last();
    assert_eq!((traffic.read_bytes, traffic.segments), (123_457, 26));
    fixture.end().await;
}

#[tokio::test]
async fn long_calls_and_replies_by_position_zero_and_reply_chunk() {
    let fixture = start_with(config(1024)).await;
    let sent = Names { names: (0..500).map(|n| format!("name {n}").as_str().into()).collect() };
    assert_eq!(fixture.client.call::<EchoNames>(&sent).await.unwrap(), sent);
    let traffic = fixture.last();
    assert!(traffic.position_zero > 5000 && traffic.reply_chunk_bytes > 5000, "{traffic:?}");
    fixture.end().await;
}

#[tokio::test]
async fn a_long_call_with_a_separate_item() {
    let fixture = start_with(Config { long_call: LongCall::Reduced, ..config(1024) }).await;
    let sent = blob(2000, 50_001);
    assert_eq!(fixture.client.call::<EchoBlob>(&sent).await.unwrap(), sent);
    let traffic = fixture.last();
    assert_eq!((traffic.read_chunks, traffic.read_bytes), (1, 50_001));
    assert!(traffic.position_zero > 2000);
    assert_eq!((traffic.write_bytes, traffic.reply_chunk), (50_001, true));
    fixture.end().await;
}

#[tokio::test]
async fn calls_with_different_minimum_item_sizes_share_a_connection() {
    let fixture = start_with(Config { long_call: LongCall::Reduced, ..config(1024) }).await;
    let sent = blob(2000, 501);
    let eager = fixture.client.with_min_item(501);
    for (client, chunk) in
        [(&fixture.client, (0, 0)), (&eager, (1, 501)), (&eager.with_min_item(502), (0, 0))]
    {
        assert_eq!(client.call::<EchoBlob>(&sent).await.unwrap(), sent);
        let traffic = fixture.last();
        assert_eq!((traffic.read_chunks, traffic.read_bytes), chunk);
    }
    drop(eager);
    fixture.end().await;
}

#[tokio::test]
async fn many_calls_at_once_within_few_credits() {
    let fixture = start_with(Config { credits: 4, ..config(4096) }).await;
    let calls: Vec<_> = (0..100)
        .map(|n| {
            let client = fixture.client.clone();
            tokio::spawn(async move {
                let sent = blob(n, n * 977);
                assert_eq!(client.call::<EchoBlob>(&sent).await.unwrap(), sent);
            })
        })
        .collect();
    for call in calls {
        call.await.unwrap();
    }
    fixture.end().await;
}

/// Requirement: R202, H74
#[tokio::test]
async fn abandoned_calls_affect_no_other_call() {
    let fixture = start_with(Config { credits: 3, ..config(1024) }).await;
    for wait in [0, 1, 5] {
        let slow = fixture.client.call::<EchoSleep>(&50);
        assert!(tokio::time::timeout(Duration::from_millis(wait), slow).await.is_err());
        let big = blob(1, 300_000);
        let _ =
            tokio::time::timeout(Duration::from_millis(wait), fixture.client.call::<EchoBlob>(&big)).await;
    }
    let sent = blob(5, 5000);
    assert_eq!(fixture.client.call::<EchoBlob>(&sent).await.unwrap(), sent);
    fixture.end().await;
}

#[tokio::test]
async fn a_panic_is_a_system_error_and_the_connection_survives() {
    let fixture = start_with(config(4096)).await;
    let error = fixture.client.call::<EchoSleep>(&13).await.unwrap_err();
    assert!(matches!(error, CallError::Rejected(ReplyError::SystemError)), "{error}");
    assert_eq!(fixture.client.call::<EchoSleep>(&1).await.unwrap(), 1);
    fixture.end().await;
}

#[tokio::test]
async fn a_stopping_server_completes_running_calls() {
    let Fixture { client, stop, server, .. } = start_with(config(4096)).await;
    let running = tokio::spawn(async move { client.call::<EchoSleep>(&300).await.unwrap() });
    tokio::time::sleep(Duration::from_millis(100)).await;
    stop.send(()).unwrap();
    assert_eq!(running.await.unwrap(), 300);
    tokio::time::timeout(Duration::from_secs(20), server).await.unwrap().unwrap();
}

#[tokio::test]
async fn calls_fail_once_when_the_server_is_lost_without_reconnection() {
    let once = ClientOptions { config: config(4096), reconnect: None, ..ClientOptions::default() };
    let Fixture { client, server, stop: _stop, .. } = start(ServerOptions::default(), once).await;
    assert_eq!(client.call::<EchoSleep>(&0).await.unwrap(), 0);
    let waiting = tokio::spawn({
        let client = client.clone();
        async move { client.call::<EchoSleep>(&60_000).await }
    });
    tokio::time::sleep(Duration::from_millis(50)).await;
    server.abort();
    let error = tokio::time::timeout(Duration::from_secs(20), waiting).await.unwrap().unwrap().unwrap_err();
    assert!(matches!(error, CallError::Transport(_)), "{error}");
    let error = client.call::<EchoSleep>(&0).await.unwrap_err();
    assert!(matches!(error, CallError::Disconnected | CallError::Transport(_)), "{error}");
}

/// Requirement: H76
#[tokio::test]
async fn a_call_without_a_reply_closes_only_its_own_connection() {
    let config = config(4096);
    let client = ClientOptions { config, timeout: Duration::from_millis(200), ..ClientOptions::default() };
    // A stopping server with a duplicate-request cache waits for the unanswered call until the drain timeout.
    let drain = Duration::from_millis(100);
    let fixture = start(ServerOptions { config, drain, ..ServerOptions::default() }, client).await;
    let patient = fixture.client.with_timeout(Duration::from_secs(20));
    let never = fixture.client.call::<EchoSleep>(&60_000);
    // Before its first reply, a connection has only one credit. The first call holds this credit, so the
    // second call needs another connection.
    let (never, next) = tokio::join!(never, patient.call::<EchoSleep>(&7));
    let error = never.unwrap_err();
    assert!(matches!(error, CallError::Timeout(_)), "{error}");
    assert_eq!(next.unwrap(), 7);
    drop(patient);
    fixture.end().await;
}

#[tokio::test]
async fn without_reconnection_calls_fail_after_a_call_without_a_reply() {
    let client = ClientOptions {
        config: config(4096),
        timeout: Duration::from_millis(200),
        reconnect: None,
        ..ClientOptions::default()
    };
    let fixture = start(ServerOptions::default(), client).await;
    let error = fixture.client.call::<EchoSleep>(&60_000).await.unwrap_err();
    assert!(matches!(error, CallError::Timeout(_)), "{error}");
    // The first call held the only credit. Later calls fail at once because the connection is closed.
    let error = fixture.client.call::<EchoSleep>(&0).await.unwrap_err();
    assert!(matches!(error, CallError::Disconnected | CallError::Transport(_)), "{error}");
}

/// Requirement: R328
#[tokio::test]
async fn a_credential_of_another_flavor_is_refused() {
    let credential = Credential::Other { flavor: 390_003, body: Bytes::from_static(b"who?") };
    let client = ClientOptions { credential, ..ClientOptions::default() };
    let fixture = start(ServerOptions::default(), client).await;
    let error = fixture.client.call::<EchoSleep>(&0).await.unwrap_err();
    assert!(matches!(error, CallError::Rejected(ReplyError::Auth(AuthStat::RejectedCredential))), "{error}");
    fixture.end().await;
}

/// Without an idle limit, a connection beyond `max_connections` waits until another connection closes.
#[tokio::test]
async fn h72_connections_beyond_the_limit_wait() {
    let options = ServerOptions { max_connections: 2, idle: None, ..ServerOptions::default() };
    let server = Server::bind_with("127.0.0.1:0", options).await.unwrap().service(EchoServer);
    let address = server.local_addr().unwrap();
    let server = tokio::spawn(server.run(std::future::pending()));
    let short =
        iwarp::IwarpOptions { reply_timeout: Duration::from_millis(300), ..iwarp::IwarpOptions::default() };
    let impatient = ClientOptions { iwarp: short, ..ClientOptions::default() };
    let first = Client::connect(address).await.unwrap();
    let second = Client::connect(address).await.unwrap();
    assert!(Client::connect_with(address, impatient).await.is_err(), "a third connection was accepted");
    assert_eq!(first.call::<EchoSleep>(&1).await.unwrap(), 1);
    drop(second);
    let third = Client::connect(address).await.unwrap();
    assert_eq!(third.call::<EchoSleep>(&2).await.unwrap(), 2);
    assert_eq!(first.call::<EchoSleep>(&3).await.unwrap(), 3);
    server.abort();
}

/// Each server has the address of the previous server, whose private data no longer applies.
#[tokio::test]
async fn r293_a_new_connection_uses_its_own_private_data() {
    let mut address = "127.0.0.1:0".to_owned();
    for inline in [4096, 1024, 8192] {
        let options = ServerOptions { config: config(inline), ..ServerOptions::default() };
        let server = Server::bind_with(address.as_str(), options).await.unwrap().service(EchoServer);
        address = server.local_addr().unwrap().to_string();
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let server = tokio::spawn(server.run(async { drop(stopped.await) }));
        let large = ClientOptions { config: config(16_384), ..ClientOptions::default() };
        let client = Client::connect_with(address.as_str(), large).await.unwrap();
        let negotiated = client.negotiated();
        assert_eq!((negotiated.call_threshold, negotiated.reply_threshold), (inline, inline));
        let sent = blob(3, 3000);
        assert_eq!(client.call::<EchoBlob>(&sent).await.unwrap(), sent);
        drop(client);
        stop.send(()).unwrap();
        server.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn long_data_arrives_in_a_write_chunk() {
    let fixture = start_with(config(4096)).await;
    let data = Bytes::from(vec![9; 200_000]);
    let sent = Blob { name: "x".into(), data: data.into(), mark: 1 };
    let received = fixture.client.call::<EchoBlob>(&sent).await.unwrap();
    assert_eq!(received.data.len(), 200_000);
    assert_eq!(fixture.last().write_bytes, 200_000);
    fixture.end().await;
}

#[tokio::test]
async fn a_binding_recommends_an_inline_threshold() {
    let fixture = start(ServerOptions::of::<Echo>(), ClientOptions::of::<Echo>()).await;
    let negotiated = fixture.client.negotiated();
    assert_eq!((negotiated.call_threshold, negotiated.reply_threshold), (8192, 8192));
    let sent = blob(7, 7000);
    assert_eq!(fixture.client.call::<EchoBlob>(&sent).await.unwrap(), sent);
    let traffic = fixture.last();
    assert!(traffic.call_inline > 7000 && traffic.reply_inline > 7000 && traffic.segments == 0, "{traffic}");
    fixture.end().await;
}

/// Returns an RPCSEC_GSS credential (RFC 2203 section 5.3.1) with version 1, procedure RPCSEC_GSS_DATA,
/// sequence number 7, the given service and an empty context handle.
fn gss(service: u32) -> Credential {
    let body: Vec<u8> = [1, 0, 7, service, 0].into_iter().flat_map(u32::to_be_bytes).collect();
    Credential::Other { flavor: GSS, body: body.into() }
}

#[tokio::test]
async fn r265_r266_protected_messages_are_not_reduced() {
    let sent = blob(7, 5000);
    for (credential, reduced) in [
        (gss(1), true),
        (gss(2), false),
        (gss(3), false),
        (Credential::Other { flavor: GSS, body: Bytes::from_static(&[0, 0, 0, 1]) }, false),
    ] {
        let client = ClientOptions { config: config(1024), credential, ..ClientOptions::default() };
        let fixture = start(ServerOptions { config: config(1024), ..ServerOptions::default() }, client).await;
        assert_eq!(fixture.client.call::<EchoBlob>(&sent).await.unwrap(), sent);
        let traffic = fixture.last();
        assert_eq!((traffic.read_chunks > 0, traffic.write_chunks > 0), (reduced, reduced), "{traffic}");
        assert_eq!((traffic.position_zero > 5000, traffic.reply_chunk_bytes > 5000), (!reduced, !reduced));
        fixture.end().await;
    }
}

#[tokio::test]
async fn r265_a_server_never_reduces_a_protected_reply() {
    let mut services = Services::new();
    services.add(EchoServer);
    for (credential, items) in [(Credential::None, 1), (gss(1), 1), (gss(2), 0), (gss(3), 0)] {
        let mut call = Reducer::disabled();
        let header = CallHeader {
            xid: 9,
            program: Echo::NUMBER,
            version: Echo::VERSION,
            procedure: EchoBlob::NUMBER,
            credential,
        };
        header.encode(&mut call).unwrap();
        blob(7, 5000).encode(&mut call).unwrap();
        let reply = services.answer(&Received::unreduced(call.into_message().stream), None).await.unwrap();
        assert_eq!((reply.items.len(), reply.unreduced_len() > 5000), (items, true));
    }
}
