//! Peers exchange limits through the connection configuration protocol (RFC 5666 section 6) and respect the
//! limits.
#![allow(clippy::unwrap_used)] // a test that cannot continue panics

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use rpcrdma_conf::{ConfigRdmaReply, ConfigRdmaReq, vers1};
use rpcrdma_runtime::Services;
use rpcrdma_runtime::program::{
    AuthStat, AuthSys, CallContext, Caller, Credential, Origin, Program, Reject, Service,
};
use rpcrdma_runtime::proto::rdma::{
    Config, OutgoingCall, PeerLimits, ReplyResources, Requester, RequesterEvent, Responder, ResponderEvent,
    Traffic, TransportError,
};
use rpcrdma_runtime::proto::rpc::gss::{GssServer, GssService};
use rpcrdma_runtime::proto::work::{Action, Completion, Segment, Token};
use rpcrdma_runtime::wire::private_data::{Negotiated, PrivateData};
use rpcrdma_runtime::wire::rdma::{
    Body, ChunkLists, ErrorBody, Header, MessageLimits, ReadSegment, WriteChunk, decode_reply,
};
use rpcrdma_runtime::wire::rpc::{self, CallHeader, ReplyError};
use rpcrdma_runtime::xdr::{Message, Reader, Received, Sink, Writer};
use rpcrdma_runtime::{CallError, ClientOptions, GssClient, Observer, ServerOptions};
use rpcrdma_runtime::{Client, Server};
use rpcrdma_services::conf::{self, Flavors};
use rpcrdma_sim::{Args, Echo, ResultLengths};
use rpcrdma_tests::gss::TestMechanism;

const XID: u32 = 0x0a0b_0c0d;

fn negotiated(threshold: u32) -> Negotiated {
    Negotiated { call_threshold: threshold, reply_threshold: threshold, remote_invalidation: false }
}

/// Submits a call of `len` bytes. Returns the requester's actions after the initial `PostReceives`, and the
/// call's error, if any.
fn requester_calls(threshold: u32, server: PeerLimits, len: usize) -> (Vec<Action>, Option<TransportError>) {
    let mut requester = Requester::new(Config::default(), negotiated(threshold), 1 << 20);
    requester.set_peer_limits(server);
    let mut stream = vec![0; len];
    stream[..4].copy_from_slice(&XID.to_be_bytes());
    requester.submit(OutgoingCall {
        message: Message::unreduced(stream.into()),
        reply: ReplyResources::default(),
    });
    let actions = std::iter::from_fn(|| requester.poll_action()).skip(1).collect();
    let failed = match requester.poll_event() {
        Some(RequesterEvent::Done { outcome: Err(why), .. }) => Some(why),
        _ => None,
    };
    (actions, failed)
}

fn sent_inline(actions: &[Action]) -> Option<usize> {
    match actions {
        [Action::Send { message, .. }] => Some(message.iter().map(Bytes::len).sum()),
        _ => None,
    }
}

/// A transport header of 28 bytes precedes the call.
#[test]
fn r301_no_inline_call_exceeds_the_threshold_of_the_server() {
    for size in [100, 512, 1000, 4096] {
        let server = PeerLimits { inline: size, reads: 1 };
        let fits = size as usize - 28;
        let (actions, _) = requester_calls(4096, server, fits);
        assert_eq!(sent_inline(&actions), Some(size as usize));
        let (actions, failed) = requester_calls(4096, server, fits + 4);
        assert!(matches!(actions[..], [Action::Register { .. }]), "{size}: {actions:?}");
        assert_eq!(failed, None);
    }
}

/// Requirement: R301
#[test]
fn larger_sizes_must_be_negotiated() {
    let server = PeerLimits { inline: 2048, reads: 1 };
    let (actions, _) = requester_calls(1024, server, 2048 - 28);
    assert_eq!(sent_inline(&actions), Some(2048), "the server's limit replaces the default of 1,024 bytes");
    let server = PeerLimits { inline: 8192, reads: 1 };
    let (actions, _) = requester_calls(4096, server, 4096 - 28 + 4);
    assert_eq!(sent_inline(&actions), None, "4,096 bytes were negotiated");
}

#[test]
fn r302_a_server_without_rdma_reads_gets_no_read_chunks() {
    let server = PeerLimits { inline: 1024, reads: 0 };
    let (actions, failed) = requester_calls(1024, server, 1024 - 28);
    assert_eq!((sent_inline(&actions), failed), (Some(1024), None));
    let (actions, failed) = requester_calls(1024, server, 1024 - 24);
    assert!(actions.is_empty(), "{actions:?}");
    assert!(matches!(failed, Some(TransportError::Unsendable(_))), "{failed:?}");
}

/// Returns an encoded call with a stream of 8 bytes, `reads` Read chunks for items after the stream, and a
/// Reply chunk.
fn call_with(reads: u32) -> Bytes {
    let segment = |handle| Segment { handle, length: 8, offset: 0 };
    let lists = ChunkLists {
        reads: (0..reads).map(|n| ReadSegment { position: 8 + 8 * n, segment: segment(n) }).collect(),
        reply: Some(WriteChunk(vec![Segment { handle: 99, length: 1000, offset: 0 }])),
        ..ChunkLists::default()
    };
    let header = Header { xid: XID, credits: 1, body: Body::Msg(lists) }.encode();
    [&header[..], &XID.to_be_bytes(), &[0; 4]].concat().into()
}

fn responder(client: Option<PeerLimits>) -> Responder {
    let mut responder = Responder::new(Config::default(), negotiated(1024), 16);
    if let Some(client) = client {
        responder.set_peer_limits(client);
    }
    responder
}

/// Returns the tokens of the new RDMA Reads.
fn reads(responder: &mut Responder) -> Vec<Token> {
    let actions = std::iter::from_fn(|| responder.poll_action());
    let read = |action: Action| if let Action::Read { token, .. } = action { Some(token) } else { None };
    actions.filter_map(read).collect()
}

fn answered_err_chunk(responder: &mut Responder) -> bool {
    let mut actions = std::iter::from_fn(|| responder.poll_action());
    actions.any(|action| match action {
        Action::Send { message, .. } => {
            let (header, _) = decode_reply(&message.concat().into(), &MessageLimits::default()).unwrap();
            matches!(header.body, Body::Error(ErrorBody::Chunk))
        }
        Action::Read { .. } => panic!("unexpected RDMA Read"),
        _ => false,
    })
}

/// Requirement: R823
#[test]
fn r302_a_client_without_ird_gets_no_rdma_reads() {
    let received = |reads| Completion::Received { message: call_with(reads), invalidated: None };
    for (ird, outstanding) in [(1, 1), (2, 2), (3, 3), (100, 3)] {
        let mut limited = responder(Some(PeerLimits { inline: 1024, reads: ird }));
        limited.handle_completion(received(3));
        assert_eq!(reads(&mut limited).len(), outstanding, "{ird}");
    }
    let mut none = responder(Some(PeerLimits { inline: 1024, reads: 0 }));
    none.handle_completion(received(3));
    assert!(answered_err_chunk(&mut none));
    none.handle_completion(received(0));
    assert!(matches!(none.poll_event(), Some(ResponderEvent::Call(_))));
    // The client configures the connection while the server reads the chunks of a call.
    let mut late = responder(Some(PeerLimits { inline: 1024, reads: 1 }));
    late.handle_completion(received(3));
    let started = reads(&mut late);
    let [token] = started[..] else { panic!("{started:?}") };
    late.set_peer_limits(PeerLimits { inline: 1024, reads: 0 });
    assert!(!answered_err_chunk(&mut late), "a reply would let the client fence memory that is being read");
    late.handle_completion(Completion::ReadDone { token, data: Bytes::from_static(&[0; 8]) });
    assert!(answered_err_chunk(&mut late));
    assert_eq!(late.in_progress(), 0);
}

#[test]
fn no_inline_reply_exceeds_the_threshold_of_the_client() {
    let reply_of = |client: Option<PeerLimits>, len: usize| {
        let mut responder = responder(client);
        responder.handle_completion(Completion::Received { message: call_with(0), invalidated: None });
        let Some(ResponderEvent::Call(call)) = responder.poll_event() else { panic!("a call") };
        responder
            .reply(call.key, Message::unreduced([&XID.to_be_bytes()[..], &vec![0; len - 4]].concat().into()));
        let actions: Vec<_> = std::iter::from_fn(|| responder.poll_action()).collect();
        actions.iter().filter(|action| matches!(action, Action::Write { .. })).count()
    };
    // The header has 28 bytes, plus 20 bytes for the unused Reply chunk that the reply returns.
    let client = Some(PeerLimits { inline: 300, reads: 1 });
    assert_eq!((reply_of(client, 252), reply_of(client, 256)), (0, 1));
    assert_eq!(reply_of(None, 256), 0);
}

async fn serve(service: impl Service, config: Config) -> SocketAddr {
    let options = ServerOptions { config, ..ServerOptions::default() };
    let server = Server::bind_with("127.0.0.1:0", options).await.unwrap().service(service).service(Echo);
    let address = server.local_addr().unwrap();
    tokio::spawn(server.run(std::future::pending()));
    address
}

fn auth_sys() -> Credential {
    Credential::Sys(AuthSys { machine_name: "here".into(), ..AuthSys::default() })
}

/// Requirement: R816
#[tokio::test]
async fn r271_callers_below_the_required_flavor_are_rejected() {
    let gss = Credential::Other { flavor: 6, body: Bytes::from_static(&[0; 20]) };
    for (flavors, accepted) in [
        (Flavors::Any, [true, true]),
        (Flavors::AuthSys, [false, true]),
        (Flavors::RpcsecGss, [false, false]),
    ] {
        let address = serve(conf::server(flavors), Config::default()).await;
        for (credential, accepted) in [Credential::None, auth_sys()].into_iter().zip(accepted) {
            let options = ClientOptions { credential: credential.clone(), ..ClientOptions::default() };
            let client = Client::connect_with(address, options).await.unwrap();
            match conf::configure(&client).await {
                Ok(_) => assert!(accepted, "{flavors:?} {credential:?}"),
                Err(CallError::Rejected(ReplyError::Auth(AuthStat::TooWeak))) => assert!(!accepted),
                Err(other) => panic!("{other}"),
            }
        }
        // RPCSEC_GSS without a context is always rejected.
        let options = ClientOptions { credential: gss.clone(), ..ClientOptions::default() };
        let client = Client::connect_with(address, options).await.unwrap();
        assert!(matches!(conf::configure(&client).await, Err(CallError::Rejected(ReplyError::Auth(_)))));
    }
}

/// Requirement: R271
#[tokio::test]
async fn authenticated_callers_configure_under_the_strictest_rule() {
    let mut services = Services::new();
    services.add(conf::server(Flavors::RpcsecGss));
    services.with_gss(GssServer::new(TestMechanism::new("server")));
    let server = Server::bind("127.0.0.1:0").await.unwrap().services(services);
    let address = server.local_addr().unwrap();
    tokio::spawn(server.run(std::future::pending()));
    let client = Client::connect(address).await.unwrap();
    let refused = conf::configure(&client).await;
    assert!(matches!(refused, Err(CallError::Rejected(ReplyError::Auth(AuthStat::TooWeak)))), "{refused:?}");
    let authenticated = GssClient::new(client.clone(), TestMechanism::new("alice"), GssService::Integrity);
    assert_eq!(conf::configure_by(&client, authenticated).await.unwrap().inline, 4096);
}

#[tokio::test]
async fn the_reply_has_the_sizes_of_the_connection() {
    let config = Config { private_data: PrivateData::new(true, 2048, 8192), ..Config::default() };
    let address = serve(conf::server(Flavors::Any), config).await;
    let mut options = ClientOptions::default();
    options.iwarp.ird = 5;
    let client = Client::connect_with(address, options).await.unwrap();
    assert_eq!(client.own_limits(), PeerLimits { inline: 4096, reads: 5 });
    // The server's ORD does not exceed the client's IRD.
    assert_eq!(conf::configure(&client).await.unwrap(), PeerLimits { inline: 8192, reads: 5 });
}

#[tokio::test]
async fn tcp_connections_need_no_configuration() {
    let server = Server::bind_tcp("127.0.0.1:0").await.unwrap().service(conf::server(Flavors::Any));
    let address = server.local_addr().unwrap();
    tokio::spawn(server.run(std::future::pending()));
    let client = vers1::Client(Client::connect_tcp(address).await.unwrap());
    let answer = client.conf_rdma(&ConfigRdmaReq::default()).await;
    assert!(matches!(answer, Err(CallError::Rejected(ReplyError::ProcedureUnavailable))), "{answer:?}");
}

#[tokio::test]
async fn procedure_0_is_served_even_if_the_program_does_not_declare_it() {
    let mut services = Services::new();
    services.add(conf::server(Flavors::Any));
    let (program, version) = (<vers1::Vers1 as Program>::NUMBER, <vers1::Vers1 as Program>::VERSION);
    for (args, expected) in [(0, Ok(())), (4, Err(ReplyError::GarbageArguments))] {
        let mut writer = Writer::new();
        let header = CallHeader { xid: XID, program, version, procedure: 0, credential: Credential::None };
        header.encode(&mut writer).unwrap();
        writer.put(&vec![0; args]).unwrap();
        let answer =
            services.answer(&Received::unreduced(writer.into_bytes()), Origin::default()).await.unwrap();
        let answer = answer.flatten();
        let mut reader = Reader::from_bytes(&answer);
        assert_eq!(rpc::decode_reply(&mut reader, XID), expected);
        reader.finish().unwrap();
    }
}

struct Fixed(ConfigRdmaReply);

impl vers1::Handler for Fixed {
    async fn conf_rdma(&self, _: &CallContext, _: ConfigRdmaReq) -> Result<ConfigRdmaReply, Reject> {
        Ok(self.0)
    }
}

/// Returns a configured client and the traffic of its last call.
async fn configured(maxcall_sendsize: u32, maxrdmaread: u32) -> (Client, Arc<Mutex<Traffic>>) {
    let reply = ConfigRdmaReply { maxcall_sendsize, align: 512, maxrdmaread };
    let address = serve(vers1::Server(Fixed(reply)), Config::default()).await;
    let last = Arc::new(Mutex::new(Traffic::default()));
    let seen = last.clone();
    let observer = Observer::new(move |report| *seen.lock().unwrap() = report.traffic.unwrap_or_default());
    let options = ClientOptions { observer: Some(observer), ..ClientOptions::default() };
    let client = Client::connect_with(address, options).await.unwrap();
    conf::configure(&client).await.unwrap();
    (client, last)
}

async fn echo(client: &Client, note: usize) -> Result<(), CallError> {
    let args = Args::new(1, [0, note, 0], ResultLengths { note: 8, ..ResultLengths::default() });
    let answer = client.call::<Echo>(&args).await?;
    assert_eq!(answer, args.result());
    Ok(())
}

/// Requirement: R301
#[tokio::test]
async fn a_client_follows_the_configured_sizes() {
    let (client, traffic) = configured(512, 16).await;
    echo(&client, 300).await.unwrap();
    assert_eq!(traffic.lock().unwrap().position_zero, 0);
    echo(&client, 600).await.unwrap();
    let seen = *traffic.lock().unwrap();
    assert!(seen.position_zero > 600 && seen.call_inline <= 512, "{seen:?}");
}

/// Requirement: R301
#[tokio::test]
async fn configuration_applies_to_one_connection() {
    let reply = ConfigRdmaReply { maxcall_sendsize: 512, align: 0, maxrdmaread: 16 };
    let address = serve(vers1::Server(Fixed(reply)), Config::default()).await;
    let last = Arc::new(Mutex::new(Traffic::default()));
    let seen = last.clone();
    let observer = Observer::new(move |report| *seen.lock().unwrap() = report.traffic.unwrap_or_default());
    let idle = Some(std::time::Duration::from_millis(20));
    let options = ClientOptions { observer: Some(observer), idle, ..ClientOptions::default() };
    let client = Client::connect_with(address, options).await.unwrap();
    let long_call = async || {
        echo(&client, 600).await.unwrap();
        last.lock().unwrap().position_zero > 0
    };
    conf::configure(&client).await.unwrap();
    let first = client.connections();
    assert!(long_call().await || client.connections() > first);
    // The idle connection closes, and the next call reconnects.
    while client.connections() == 1 {
        tokio::time::sleep(std::time::Duration::from_millis(60)).await;
        echo(&client, 1).await.unwrap();
    }
    // Limits for the first connection arrive late and are ignored.
    client.set_peer_limits(1, PeerLimits { inline: 512, reads: 16 });
    assert!(!long_call().await);
    loop {
        let this = client.connections();
        client.set_peer_limits(this, PeerLimits { inline: 512, reads: 16 });
        let limited = long_call().await;
        if client.connections() == this {
            break assert!(limited);
        }
    }
}

/// Requirement: R302
#[tokio::test]
async fn a_client_sends_no_read_chunks_to_a_server_that_reports_0_reads() {
    let (client, traffic) = configured(4096, 0).await;
    echo(&client, 3000).await.unwrap();
    assert_eq!(traffic.lock().unwrap().read_chunks, 0);
    let refused = echo(&client, 5000).await;
    assert!(matches!(refused, Err(CallError::Transport(TransportError::Unsendable(_)))), "{refused:?}");
    echo(&client, 3000).await.unwrap();
}

/// Requirement: R302
#[tokio::test]
async fn a_server_issues_no_rdma_reads_to_a_client_that_reports_0_reads() {
    let address = serve(conf::server(Flavors::Any), Config::default()).await;
    let client = Client::connect(address).await.unwrap();
    echo(&client, 5000).await.unwrap();
    let no_reads = ConfigRdmaReq { maxcall_sendsize: 4096, maxreply_sendsize: 4096, maxrdmaread: 0 };
    vers1::Client(client.clone()).conf_rdma(&no_reads).await.unwrap();
    let refused = echo(&client, 5000).await;
    let is_chunk = matches!(refused, Err(CallError::TooLong { source: TransportError::Chunk, .. }));
    assert!(is_chunk, "{refused:?}");
    echo(&client, 3000).await.unwrap();
}
