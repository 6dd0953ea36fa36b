//! The whole provider over a fake device, under Miri: `cargo xtask miri`.

mod connecting;
mod ending;
mod moving;
mod refusing;
mod windows;

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use bytes::{Bytes, BytesMut};
use rpcrdma_runtime::proto::work::{Action, CloseReason, Completion, Memory, Segment, Token};
use rpcrdma_runtime::provider::Connection;

use super::fake_device::{FakeDevice, Settings, any_port, with};
use super::{ConnectError, Listener, Options, VerbsConnection, connect};

/// Octets of the longest message.
const RECEIVE: u32 = 20_000;

/// Few of everything, since Miri is slow.
fn options() -> Options {
    Options { receives: 2, max_receives: 8, max_sends: 8, inline: 32, ..Options::default() }
}

/// A device without memory windows.
const PLAIN: Settings = Settings { windows: 0, ..Settings::CARD };

/// Both ends of a connection, the first of which has connected, with some Receives each.
async fn connected(options: &Options) -> (VerbsConnection, VerbsConnection) {
    let listener = Listener::bind(any_port(), *options).await.expect("a listener");
    let address = listener.local_addr().expect("an address");
    let serving = async { listener.accept().await.expect("a peer").accept(b"", RECEIVE).await };
    let (near, far) = tokio::join!(connect(address, b"", RECEIVE, options), serving);
    let (mut near, mut far) = (near.expect("a connection"), far.expect("a connection"));
    near.submit(Action::PostReceives { count: 4 });
    far.submit(Action::PostReceives { count: 4 });
    (near, far)
}

async fn next(connection: &mut VerbsConnection) -> Completion {
    poll_fn(|cx| connection.poll_completion(cx)).await
}

/// Polls once, without anybody to be woken.
fn poll_once<T>(future: impl Future<Output = T>) -> Poll<T> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// Octets that tell where they are from.
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
        other => panic!("no message but {other:?}"),
    }
}

/// Advertises memory, in a message that the other end has when this returns.
async fn advertise(near: &mut VerbsConnection, far: &mut VerbsConnection, memory: Memory) -> Segment {
    near.submit(Action::Register { token: Token(2), memory });
    let Completion::Registered { token: Token(2), segment } = next(near).await else {
        panic!("not registered")
    };
    send(near, vec![Bytes::from_static(b"it is there")], None).await;
    receive(far).await;
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
    connection.submit(Action::Read { token: Token(4), source });
    match next(connection).await {
        Completion::ReadDone { token: Token(4), data } => data,
        other => panic!("not read: {other:?}"),
    }
}

/// Fences memory, and has it back.
async fn fence(connection: &mut VerbsConnection, segment: Segment) -> Vec<u8> {
    connection.submit(Action::Invalidate { token: Token(5), handle: segment.handle });
    match next(connection).await {
        Completion::Invalidated { token: Token(5), handle, memory } if handle == segment.handle => {
            contents(&memory).to_vec()
        }
        other => panic!("not fenced: {other:?}"),
    }
}

fn contents(memory: &Memory) -> &[u8] {
    match memory {
        Memory::Source(data) => data,
        Memory::Sink(data) => data,
    }
}

/// Why a connection ends, and what its memory has then.
async fn closed(connection: &mut VerbsConnection) -> (CloseReason, Vec<Vec<u8>>) {
    loop {
        if let Completion::Closed { reason, returned } = next(connection).await {
            return (reason, returned.iter().map(|memory| contents(memory).to_vec()).collect());
        }
    }
}
