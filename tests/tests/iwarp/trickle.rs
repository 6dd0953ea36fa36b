//! Peers that send or read slowly.

use std::time::Duration;

use bytes::Bytes;
use rpcrdma_runtime::proto::work::{Action, CloseReason, Completion, Segment, Token};
use rpcrdma_runtime::provider::Connection;
use rpcrdma_runtime::provider::iwarp::IwarpOptions;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use super::raw::{Established, SEND, establish, next, send, untagged, until_closed, write};

const PAUSE: Duration = Duration::from_millis(20);

fn impatient() -> IwarpOptions {
    IwarpOptions { stall_timeout: Duration::from_millis(300), ..IwarpOptions::default() }
}

fn keep_writing(mut raw: TcpStream, octets: Vec<u8>) -> JoinHandle<()> {
    tokio::spawn(async move {
        while raw.write_all(&octets).await.is_ok() {
            tokio::time::sleep(PAUSE).await;
        }
    })
}

#[tokio::test]
async fn empty_writes_do_not_prevent_the_timeout_of_a_message() {
    let Established { mut raw, mut end, .. } = establish(impatient()).await;
    raw.write_all(&untagged(SEND, false, 0, (0, 1, 0), b"to be continued")).await.unwrap();
    let peer = keep_writing(raw, write(0, 0, &[]));
    assert!(matches!(until_closed(&mut end).await.reason, CloseReason::Timeout(_)));
    drop(end);
    peer.await.unwrap();
}

#[tokio::test]
async fn empty_writes_do_not_prevent_the_timeout_of_a_read() {
    let Established { mut raw, mut end, source, .. } = establish(impatient()).await;
    raw.write_all(&send(1, b"go")).await.unwrap();
    end.submit(Action::read(Token(1), source));
    let peer = keep_writing(raw, write(0, 0, &[]));
    assert!(matches!(until_closed(&mut end).await.reason, CloseReason::Timeout(_)));
    drop(end);
    peer.await.unwrap();
}

/// A message in small segments arrives even if it takes much longer than the stall timeout.
#[tokio::test]
async fn a_slow_peer_that_makes_progress_does_not_time_out() {
    let Established { mut raw, mut end, .. } = establish(impatient()).await;
    let peer = tokio::spawn(async move {
        for offset in 0..40 {
            let octets = untagged(SEND, offset == 39, 0, (0, 1, offset), b".");
            raw.write_all(&octets).await.unwrap();
            tokio::time::sleep(PAUSE).await;
        }
        raw
    });
    let received = next(&mut end).await;
    assert!(matches!(&received, Completion::Received { message, .. } if message.len() == 40), "{received:?}");
    drop(peer.await.unwrap());
}

#[tokio::test]
async fn a_slow_reader_does_not_delay_the_close() {
    const SIZE: usize = 64 << 20;
    let Established { mut raw, mut end, .. } = establish(impatient()).await;
    raw.write_all(&send(1, b"go")).await.unwrap();
    assert!(matches!(next(&mut end).await, Completion::Received { .. }));
    let sink = Segment { handle: 9, length: u32::MAX, offset: 0 };
    end.submit(Action::Write { token: Token(1), sink, data: Bytes::from(vec![5; SIZE]) });
    end.submit(Action::Close { reason: CloseReason::Local });
    let peer = tokio::spawn(async move {
        let (mut room, mut total) = (vec![0; 64 << 10], 0);
        while let Ok(count @ 1..) = raw.read(&mut room).await {
            total += count;
            tokio::time::sleep(PAUSE).await;
        }
        total
    });
    assert_eq!(until_closed(&mut end).await.reason, CloseReason::Local);
    drop(end);
    let total = peer.await.unwrap();
    assert!(total < SIZE, "the close waited for all data");
}

#[tokio::test]
async fn a_slow_writer_does_not_delay_the_close() {
    let Established { raw, mut end, .. } = establish(impatient()).await;
    end.submit(Action::Close { reason: CloseReason::Local });
    let peer = keep_writing(raw, vec![0]);
    assert_eq!(until_closed(&mut end).await.reason, CloseReason::Local);
    drop(end);
    peer.await.unwrap();
}
