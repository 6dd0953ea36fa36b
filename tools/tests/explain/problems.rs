//! The trace shows rejected calls, Terminate messages and refused connections.

use std::future::poll_fn;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use rpcrdma_runtime::proto::work::{Action, Completion, Token};
use rpcrdma_runtime::provider::Connection;
use rpcrdma_runtime::provider::iwarp::{
    Capture, CaptureFile, IwarpConnection, IwarpListener, IwarpOptions, connect,
};
use rpcrdma_tools::explain::{Trace, read};

use super::{framing, serve};

fn words(words: &[u32]) -> Bytes {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

fn into(path: &Path) -> IwarpOptions {
    IwarpOptions { capture: Capture::File(CaptureFile::create(path).unwrap()), ..IwarpOptions::default() }
}

/// Waits until the connection reports a completion that `wanted` accepts.
async fn until(connection: &mut IwarpConnection, wanted: fn(&Completion) -> bool) {
    let waiting = async { while !wanted(&poll_fn(|cx| connection.poll_completion(cx)).await) {} };
    tokio::time::timeout(Duration::from_secs(60), waiting).await.unwrap();
}

/// Sends `messages` to a test server and waits for a completion that `wanted` accepts. Returns the trace of
/// the connection and the text of the trace.
async fn output_of_messages(messages: &[Bytes], wanted: fn(&Completion) -> bool) -> (Trace, String) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.pcap");
    let mut connection = connect(serve(framing(true, false)).await, &[], 1024, &into(&path)).await.unwrap();
    connection.submit(Action::PostReceives { count: 8 });
    for message in messages {
        connection.submit(Action::Send { token: Token(1), message: vec![message.clone()], invalidate: None });
    }
    until(&mut connection, wanted).await;
    drop(connection);
    let trace = read(std::fs::File::open(&path).unwrap()).unwrap();
    let text = super::text(&trace, rpcrdma_tools::explain::Selection::default());
    (trace, text)
}

/// Returns a call of this NFS version and procedure, without arguments.
fn call(xid: u32, version: u32, procedure: u32) -> Bytes {
    let header = [xid, 1, 32, 0, 0, 0, 0];
    words(&[&header[..], &[xid, 0, 2, 100_003, version, procedure, 0, 0, 0, 0]].concat())
}

#[tokio::test(flavor = "multi_thread")]
async fn rejections_by_rpc_and_by_the_transport_are_shown_as_replies() {
    let received: fn(&Completion) -> bool = |completion| matches!(completion, Completion::Received { .. });
    let (_, text) = output_of_messages(&[call(7, 9, 1)], received).await;
    assert!(text.contains("NFSv9 procedure 1  xid 0x00000007"), "{text}");
    assert!(text.contains("! reply rejected: the server supports only version 3 of the program"), "{text}");
    let (_, text) = output_of_messages(&[call(7, 3, 99)], received).await;
    assert!(text.contains("! reply rejected: the server does not provide the procedure"), "{text}");
    let (_, text) = output_of_messages(&[words(&[7, 2, 32, 0, 0, 0, 0])], received).await;
    assert!(text.contains("neither a call nor a reply: unsupported RPC-over-RDMA version 2"), "{text}");
    // This call has two Read chunks in an invalid order.
    let read = |position: u32| [1, position, 5, 40, 0, 0];
    let lists = [&[7, 1, 32, 0][..], &read(44), &read(40), &[0, 0, 0], &[7, 0, 2, 100_003, 3, 0, 0, 0, 0, 0]];
    let (trace, text) = output_of_messages(&[words(&lists.concat())], received).await;
    assert!(text.contains("! reply RDMA_ERROR: ERR_CHUNK"), "{text}");
    assert!(trace.connections[0].conversation.calls[0].has_failed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminate_has_a_reason() {
    let closed: fn(&Completion) -> bool = |completion| matches!(completion, Completion::Closed { .. });
    let (trace, text) = output_of_messages(&[Bytes::from(vec![0; 100_000])], closed).await;
    assert!(text.contains("! Terminate: the message is longer than the Receive"), "{text}");
    assert!(trace.connections[0].is_iwarp);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_connection_is_shown() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.pcap");
    let listener = IwarpListener::bind("[::1]:0", IwarpOptions::default()).await.unwrap();
    let refusing = async {
        let request = listener.accept().await.unwrap().request().await.unwrap();
        request.reject(b"not today").await.unwrap();
    };
    let options = into(&path);
    let address = listener.local_addr().unwrap();
    let (refused, ()) = tokio::join!(connect(address, b"hello", 1024, &options), refusing);
    assert!(refused.is_err());
    let trace = read(std::fs::File::open(&path).unwrap()).unwrap();
    let text = super::text(&trace, rpcrdma_tools::explain::Selection::default());
    assert!(text.contains("client [::1]:"), "{text}");
    assert!(text.contains("! MPA reply: rejected"), "{text}");
    assert!(text.contains("private data of 5 bytes, not in the format of RFC 8797"), "{text}");
}
