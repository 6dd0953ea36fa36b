//! Transfers between two cooperating peers.

use std::future::poll_fn;

use bytes::{Bytes, BytesMut};
use rpcrdma_runtime::proto::work::{Action, CloseReason, Completion, Memory, Segment, Token};
use rpcrdma_runtime::provider::Connection;
use rpcrdma_runtime::provider::iwarp::{IwarpConnection, IwarpError, IwarpOptions, connect};
use rpcrdma_runtime::wire::iwarp::{DdpHeader, Opcode, fpdu};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::raw::{
    WAIT, ask, assert_no_completion, listen, next, register, request, rest, segments, send, until_closed,
};

async fn pair(client: IwarpOptions, server: IwarpOptions) -> (IwarpConnection, IwarpConnection) {
    let (listener, address) = listen(server).await;
    let accepting = async {
        let request = listener.accept().await.unwrap().request().await.unwrap();
        assert_eq!(request.private_data(), "from the client");
        request.accept(b"from the server", 1024).await.unwrap()
    };
    let (one, other) = tokio::join!(connect(address, b"from the client", 1024, &client), accepting);
    (one.unwrap(), other)
}

fn data(len: usize, seed: u8) -> Bytes {
    (0..len).map(|at| u8::try_from(at * 13 % 241).unwrap() ^ seed).collect::<Vec<u8>>().into()
}

/// Posts Receives and sends the client's first message. The server must not send before this message arrives.
async fn greet(client: &mut IwarpConnection, server: &mut IwarpConnection) {
    server.submit(Action::PostReceives { count: 8 });
    client.submit(Action::PostReceives { count: 8 });
    client.submit(Action::Send {
        token: Token(0),
        message: vec![Bytes::from_static(b"hello")],
        invalidate: None,
    });
    assert!(matches!(next(client).await, Completion::Sent { .. }));
    assert!(matches!(next(server).await, Completion::Received { message, .. } if message == "hello"));
}

/// Requirement: R440, R446, R454, R458, R661, R662
#[tokio::test]
async fn private_data_is_delivered_without_the_depths() {
    let (mut client, mut server) = pair(IwarpOptions::default(), IwarpOptions::default()).await;
    assert_eq!(client.info().private_data, "from the server");
    assert_eq!(server.info().private_data, "from the client");
    assert_eq!((client.info().ord, client.info().ird), (16, 128));
    assert_eq!((server.info().ord, server.info().ird), (16, 16));
    greet(&mut client, &mut server).await;
}

/// The size of each RDMA Read and Write in octets.
const LARGE: usize = 6 << 20;

/// Submits all transfers together, and sends a message once the RDMA Reads are complete. If `first` is true,
/// closes the connection once its transfers are complete, its message is sent, and the peer's message has
/// arrived.
async fn read_and_write(
    mut end: IwarpConnection,
    first: bool,
    source: Segment,
    sink: Segment,
    expected: Bytes,
) {
    for token in 0..3 {
        end.submit(Action::read(Token(token), source));
        end.submit(Action::Write { token: Token(token), sink, data: data(LARGE, 9) });
    }
    let (mut reads, mut writes, mut sent, mut received) = (0, 0, 0, 0);
    loop {
        match next(&mut end).await {
            Completion::ReadDone { data, .. } => {
                assert!(data == expected, "the octets differ");
                reads += 1;
                if reads == 3 {
                    let message = vec![Bytes::from_static(b"done")];
                    end.submit(Action::Send { token: Token(9), message, invalidate: None });
                }
            }
            Completion::Written { .. } => writes += 1,
            Completion::Sent { .. } => sent += 1,
            Completion::Received { message, .. } => {
                assert_eq!(message, "done");
                received += 1;
            }
            Completion::Closed { returned, .. } => {
                assert_eq!((reads, writes, sent, received), (3, 3, 1, 1));
                let written =
                    |memory: &Memory| matches!(memory, Memory::Sink(sink) if *sink == data(LARGE, 9));
                assert!(returned.iter().any(written), "the written data is missing");
                return;
            }
            other => panic!("{other:?}"),
        }
        if first && (reads, writes, sent, received) == (3, 3, 1, 1) {
            end.submit(Action::Close { reason: CloseReason::Local });
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_peers_send_large_messages_without_deadlock() {
    for (crc, markers, max_fpdu) in [
        (true, [false, false], None),
        (false, [false, false], Some(1448)),
        (true, [false, false], Some(60_000)),
        (true, [true, false], Some(60_000)),
        (false, [true, true], None),
    ] {
        let options = |markers| IwarpOptions { crc, markers, max_fpdu, ..IwarpOptions::default() };
        let (mut client, mut server) = pair(options(markers[0]), options(markers[1])).await;
        greet(&mut client, &mut server).await;
        let (here, there) = (data(LARGE, 1), data(LARGE, 2));
        let mut segments = Vec::new();
        for (end, source) in [(&mut client, &here), (&mut server, &there)] {
            segments.push(register(end, Memory::Source(source.clone())).await);
            segments.push(register(end, Memory::Sink(BytesMut::zeroed(LARGE))).await);
        }
        let one = tokio::spawn(read_and_write(client, true, segments[2], segments[3], there));
        let other = tokio::spawn(read_and_write(server, false, segments[0], segments[1], here));
        // Only a deadlock takes this long, even on a busy machine.
        let (one, other) = tokio::time::timeout(10 * WAIT, async { (one.await, other.await) }).await.unwrap();
        one.unwrap();
        other.unwrap();
    }
}

/// Requirement: R452
#[tokio::test]
async fn a_rejection_carries_its_private_data() {
    let (listener, address) = listen(IwarpOptions::default()).await;
    let refusing = async {
        let request = listener.accept().await.unwrap().request().await.unwrap();
        request.reject(b"full").await.unwrap();
    };
    let options = IwarpOptions::default();
    let (outcome, ()) = tokio::join!(connect(address, b"", 1024, &options), refusing);
    assert!(matches!(outcome, Err(IwarpError::Refused { private_data }) if private_data == "full"));
}

#[tokio::test]
async fn connecting_without_a_listener_fails() {
    let (listener, address) = listen(IwarpOptions::default()).await;
    drop(listener);
    let outcome = connect(address, b"", 1024, &IwarpOptions::default()).await;
    assert!(matches!(outcome, Err(IwarpError::Io(_))), "{outcome:?}");
}

/// Requirement: R458, R543
#[tokio::test]
async fn queued_work_completes_before_the_close() {
    let (mut client, mut server) = pair(IwarpOptions::default(), IwarpOptions::default()).await;
    greet(&mut client, &mut server).await;
    let sink = register(&mut server, Memory::Sink(BytesMut::zeroed(1 << 20))).await;
    register(&mut client, Memory::Source(data(10, 0))).await;
    client.submit(Action::Write { token: Token(1), sink, data: data(1 << 20, 3) });
    client.submit(Action::Send { token: Token(2), message: vec![data(1000, 4)], invalidate: None });
    client.submit(Action::Close { reason: CloseReason::Local });
    let closing = tokio::spawn(async move { until_closed(&mut client).await });
    assert!(
        matches!(next(&mut server).await, Completion::Received { message, .. } if message == data(1000, 4))
    );
    let ended = until_closed(&mut server).await;
    assert_eq!(ended.reason, CloseReason::Peer);
    assert!(matches!(&ended.returned[..], [Memory::Sink(sink)] if *sink == data(1 << 20, 3)));
    drop(server);
    let ended = closing.await.unwrap();
    assert_eq!((ended.reason, ended.returned.len()), (CloseReason::Local, 1));
}

#[tokio::test]
async fn after_close_there_are_no_completions() {
    let (mut client, server) = pair(IwarpOptions::default(), IwarpOptions::default()).await;
    drop(server);
    until_closed(&mut client).await;
    client.submit(Action::Register { token: Token(1), memory: Memory::Sink(BytesMut::zeroed(1)) });
    assert_no_completion(&mut client);
}

/// Unmodified siw can miss the first FPDU, and then reads it only after further octets arrive.
#[tokio::test]
async fn an_empty_write_wakes_a_peer_that_waits_for_more_octets() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let siw = tokio::spawn(async move {
        let (mut raw, _) = listener.accept().await.unwrap();
        let mut request = [0; 24];
        raw.read_exact(&mut request).await.unwrap();
        raw.write_all(b"MPA ID Rep Frame\x50\x02\x00\x04\x00\x10\x00\x10").await.unwrap();
        let mut octets = Vec::new();
        let seen = loop {
            raw.read_buf(&mut octets).await.unwrap();
            let complete = fpdu::len(&octets).is_some_and(|first| {
                octets.get(first..).and_then(fpdu::len).is_some_and(|second| octets.len() >= first + second)
            });
            if complete {
                break octets;
            }
        };
        raw.write_all(&send(1, b"awake")).await.unwrap();
        (seen, raw)
    });
    let mut client = connect(address, b"", 1024, &IwarpOptions::default()).await.unwrap();
    client.submit(Action::PostReceives { count: 1 });
    client.submit(Action::Send { token: Token(0), message: vec![data(100, 0)], invalidate: None });
    assert!(matches!(next(&mut client).await, Completion::Sent { .. }));
    assert!(matches!(next(&mut client).await, Completion::Received { message, .. } if message == "awake"));
    let (seen, _raw) = siw.await.unwrap();
    let seen = segments(&seen);
    assert_eq!(seen[0].2, data(100, 0));
    assert_eq!((seen[1].0, seen[1].2.len()), (Opcode::Write, 0));
    assert!(matches!(seen[1].1, DdpHeader::Tagged { last: true, stag: 0, .. }));
}

/// Requirement: R903
#[tokio::test]
async fn a_responder_requires_crcs_by_default() {
    let plain = request(0x10, 2, 4, &[0, 1, 0, 1]);
    for (options, flags) in [
        (IwarpOptions::default(), 0x50),
        (IwarpOptions { crc: false, ..IwarpOptions::default() }, 0x10),
        (IwarpOptions { markers: true, ..IwarpOptions::default() }, 0xd0),
    ] {
        let (raw, outcome) = ask(&plain, options).await;
        drop(outcome.unwrap());
        assert_eq!(rest(raw).await[16], flags);
    }
    assert!(IwarpOptions::default().crc && !IwarpOptions::default().markers);
}

/// Requirement: R343, R900, R902
#[tokio::test]
async fn markers_and_crcs_work_in_all_combinations() {
    for crcs in [[false, false], [false, true], [true, false], [true, true]] {
        for markers in [[false, false], [false, true], [true, false], [true, true]] {
            let options = |end: usize| IwarpOptions {
                crc: crcs[end],
                markers: markers[end],
                ..IwarpOptions::default()
            };
            let (mut client, mut server) = pair(options(0), options(1)).await;
            greet(&mut client, &mut server).await;
            let sink = register(&mut server, Memory::Sink(BytesMut::zeroed(5000))).await;
            let source = register(&mut server, Memory::Source(data(5000, 1))).await;
            client.submit(Action::Write { token: Token(1), sink, data: data(5000, 2) });
            client.submit(Action::read(Token(2), source));
            let mut read = false;
            while !read {
                let server = async { poll_fn(|cx| server.poll_completion(cx)).await };
                read = tokio::select! {
                    completion = next(&mut client) => matches!(completion, Completion::ReadDone { data: found, .. } if found == data(5000, 1)),
                    completion = server => panic!("{completion:?}"),
                };
            }
            drop(client);
            let ended = until_closed(&mut server).await;
            let written = |memory: &Memory| matches!(memory, Memory::Sink(sink) if *sink == data(5000, 2));
            assert!(ended.returned.iter().any(written), "{crcs:?}, {markers:?}");
        }
    }
}
