//! Tests of the whole provider with a fake device, under Miri: `cargo xtask miri`.

mod closing;
mod connecting;
#[path = "../../tests/support/echo.rs"]
mod echo;
mod failures;
mod pacing;
mod result_memory;
mod transfers;
mod windows;

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use bytes::{Bytes, BytesMut};
use rpcrdma_runtime::proto::work::{Action, CloseReason, Completion, Memory, RegionPart, Segment, Token};
use rpcrdma_runtime::provider::Connection;

use super::fake_device::{FakeDevice, Settings, any_port, with};
use super::{VerbsConnection, VerbsError, VerbsListener, VerbsOptions, connect};

/// The size of a Receive buffer, in octets.
const RECEIVE: u32 = 20_000;

/// A hidden field makes users write `..VerbsOptions::default()`, so that later versions may add fields.
#[test]
fn options_may_have_more_fields_later() {
    let () = VerbsOptions::default().non_exhaustive;
}

/// Small limits, because Miri is slow.
fn options() -> VerbsOptions {
    VerbsOptions { receives: 2, max_receives: 8, max_sends: 8, inline: 32, ..VerbsOptions::default() }
}

const PLAIN: Settings = Settings { windows: 0, ..Settings::CARD };

/// Returns the client's and the server's connection, each with four requested Receives.
async fn connected(options: &VerbsOptions) -> (VerbsConnection, VerbsConnection) {
    let listener = VerbsListener::bind(any_port(), *options).await.expect("a listener");
    let address = listener.local_addr().expect("an address");
    let serving = async { listener.accept().await.expect("a peer").accept(b"", RECEIVE).await };
    let (local, peer) = tokio::join!(connect(address, b"", RECEIVE, options), serving);
    let (mut local, mut peer) = (local.expect("a connection"), peer.expect("a connection"));
    local.submit(Action::PostReceives { count: 4 });
    peer.submit(Action::PostReceives { count: 4 });
    (local, peer)
}

async fn next(connection: &mut VerbsConnection) -> Completion {
    poll_fn(|cx| connection.poll_completion(cx)).await
}

fn poll_once<T>(future: impl Future<Output = T>) -> Poll<T> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}

fn octets(len: usize, seed: u8) -> Vec<u8> {
    let once: Vec<u8> = (0..=250).map(|octet: u8| octet.wrapping_add(seed)).collect();
    once.repeat(len / once.len() + 1).split_at(len).0.to_vec()
}

async fn send(connection: &mut VerbsConnection, message: Vec<Bytes>, invalidate: Option<u32>) {
    connection.submit(Action::Send { token: Token(1), message, invalidate });
    let done = next(connection).await;
    assert!(matches!(done, Completion::Sent { token: Token(1) }), "{done:?}");
}

async fn receive(connection: &mut VerbsConnection) -> (Bytes, Option<u32>) {
    match next(connection).await {
        Completion::Received { message, invalidated } => (message, invalidated),
        other => panic!("expected a message: {other:?}"),
    }
}

/// Registers memory and sends a message. Returns when the peer has received the message, because the peer can
/// then use the handle.
async fn advertise(local: &mut VerbsConnection, peer: &mut VerbsConnection, memory: Memory) -> Segment {
    local.submit(Action::Register { token: Token(2), memory });
    let Completion::Registered { token: Token(2), segment } = next(local).await else {
        panic!("not registered")
    };
    send(local, vec![Bytes::from_static(b"registered")], None).await;
    receive(peer).await;
    segment
}

fn source(len: usize, seed: u8) -> Memory {
    Memory::Source(octets(len, seed).into())
}

fn sink(len: usize) -> Memory {
    Memory::Sink(BytesMut::zeroed(len))
}

async fn write(connection: &mut VerbsConnection, sink: Segment, data: Vec<u8>) {
    connection.submit(Action::Write { token: Token(3), sink, data: data.into() });
    let done = next(connection).await;
    assert!(matches!(done, Completion::Written { token: Token(3) }), "{done:?}");
}

async fn read(connection: &mut VerbsConnection, source: Segment) -> Bytes {
    connection.submit(Action::read(Token(4), source));
    match next(connection).await {
        Completion::ReadDone { token: Token(4), data } => data,
        other => panic!("expected the data of an RDMA Read: {other:?}"),
    }
}

/// Invalidates a segment and returns the content of its memory.
async fn fence(connection: &mut VerbsConnection, segment: Segment) -> Vec<u8> {
    connection.submit(Action::Invalidate { token: Token(5), handle: segment.handle });
    match next(connection).await {
        Completion::Invalidated { token: Token(5), handle, memory } if handle == segment.handle => {
            contents(&memory).to_vec()
        }
        other => panic!("expected the fenced memory: {other:?}"),
    }
}

fn contents(memory: &Memory) -> &[u8] {
    match memory {
        Memory::Source(data) => data,
        Memory::Sink(data) => data,
    }
}

/// Waits until a connection is closed. Returns the reason and the content of the returned memory.
async fn closed(connection: &mut VerbsConnection) -> (CloseReason, Vec<Vec<u8>>) {
    loop {
        if let Completion::Closed { reason, returned } = next(connection).await {
            return (reason, returned.iter().map(|memory| contents(memory).to_vec()).collect());
        }
    }
}
