//! Tests that data is delivered if it arrives completely before the connection is lost.

use bytes::{Bytes, BytesMut};
use rpcrdma_runtime::proto::work::{Action, Completion, Memory, Token};
use rpcrdma_runtime::provider::Connection;
use rpcrdma_runtime::provider::iwarp::{IwarpConnection, IwarpOptions};
use rpcrdma_runtime::wire::iwarp::Opcode;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::raw::{Ended, Established, establish, frame, next, register, send, untagged, until_closed, write};

#[derive(Clone, Copy, Debug)]
enum Exit {
    Fin,
    Reset,
    Terminate,
    Garbage,
}

async fn end_stream(mut raw: TcpStream, exit: Exit) {
    match exit {
        Exit::Fin => {}
        Exit::Reset => raw.set_zero_linger().unwrap(),
        Exit::Terminate => {
            let octets = untagged(Opcode::Terminate, true, 0, (2, 1, 0), &[0x12, 0x02, 0, 0]);
            raw.write_all(&octets).await.unwrap();
        }
        Exit::Garbage => raw.write_all(&frame(&[])).await.unwrap(),
    }
}

async fn next_except_sent(end: &mut IwarpConnection) -> Completion {
    loop {
        match next(end).await {
            Completion::Sent { .. } => {}
            other => return other,
        }
    }
}

/// The peer writes `size` octets, replies and disconnects before the local connection is polled again.
async fn reply_and_disconnect(exit: Exit, sends: bool, size: usize) {
    let what = format!("{exit:?}, sends: {sends}, {size} octets");
    let Established { mut raw, mut end, .. } = establish(IwarpOptions::default()).await;
    let sink = register(&mut end, Memory::Sink(BytesMut::zeroed(size))).await;
    raw.write_all(&send(1, b"go")).await.unwrap();
    assert!(matches!(next(&mut end).await, Completion::Received { .. }), "{what}");
    let chunk = vec![5; size];
    for (at, part) in chunk.chunks(32 << 10).enumerate() {
        let at = u64::try_from(at).unwrap() * (32 << 10);
        raw.write_all(&write(sink.handle, sink.offset + at, part)).await.unwrap();
    }
    raw.write_all(&send(2, b"reply")).await.unwrap();
    end_stream(raw, exit).await;
    if sends {
        // The Send to the disconnected peer may fail before the connection has read any data.
        end.submit(Action::Send {
            token: Token(1),
            message: vec![Bytes::from_static(b"?")],
            invalidate: None,
        });
    }
    let received = next_except_sent(&mut end).await;
    assert!(
        matches!(&received, Completion::Received { message, .. } if message == "reply"),
        "{what}: {received:?}"
    );
    end.submit(Action::Invalidate { token: Token(7), handle: sink.handle });
    let memory = match next_except_sent(&mut end).await {
        Completion::Invalidated { token: Token(7), memory: Memory::Sink(memory), .. } => memory,
        other => panic!("{what}: {other:?}"),
    };
    assert!(
        memory.len() == size && memory.iter().all(|octet| *octet == 5),
        "{what}: the chunk is incomplete"
    );
    let Ended { returned, .. } = until_closed(&mut end).await;
    assert_eq!(returned.len(), 2, "{what}: the other regions are returned");
}

#[tokio::test]
async fn a_reply_before_the_disconnect_is_delivered() {
    for exit in [Exit::Fin, Exit::Reset, Exit::Terminate, Exit::Garbage] {
        for sends in [false, true] {
            for size in [64, 100_000] {
                reply_and_disconnect(exit, sends, size).await;
            }
        }
    }
}

#[tokio::test]
async fn memory_invalidated_late_returns_with_the_close() {
    let Established { mut raw, mut end, sink, .. } = establish(IwarpOptions::default()).await;
    raw.write_all(&send(1, b"reply")).await.unwrap();
    end_stream(raw, Exit::Terminate).await;
    let Ended { before, returned, .. } = until_closed(&mut end).await;
    assert!(matches!(before[..], [Completion::Received { .. }]), "{before:?}");
    assert_eq!(returned.len(), 2);
    end.submit(Action::Invalidate { token: Token(7), handle: sink.handle });
    let after = std::future::poll_fn(|cx| std::task::Poll::Ready(end.poll_completion(cx))).await;
    assert!(after.is_pending(), "a completion after the close: {after:?}");
}
