//! Connections that are closed or dropped in every state.

use super::*;

#[tokio::test]
async fn data_sent_before_the_close_arrives() {
    let Some(at) = device() else { return };
    for _ in 0..10 {
        let (mut local, mut peer) = pair(at, VerbsOptions::default()).await;
        for _ in 0..20 {
            let message = vec![Bytes::from(vec![7; 4000])];
            local.submit(Action::Send { token: Token(1), message, invalidate: None });
        }
        local.submit(Action::Close { reason: CloseReason::Local });
        let receiving = async {
            let mut arrived = 0;
            loop {
                match next(&mut peer).await {
                    Completion::Received { .. } => arrived += 1,
                    Completion::Closed { reason, .. } => return (arrived, reason),
                    _ => {}
                }
            }
        };
        let ((own, _), (arrived, reason)) = tokio::join!(closed(&mut local), receiving);
        assert_eq!((own, arrived, reason), (CloseReason::Local, 20, CloseReason::Peer));
    }
}

/// Polls a future at most `polls` + 1 times, and then drops it. Returns the future's output, if any.
async fn cut_after<T>(polls: usize, work: impl Future<Output = T>) -> Option<T> {
    let mut work = pin!(work);
    let mut left = polls;
    poll_fn(|cx| match work.as_mut().poll(cx) {
        Poll::Ready(done) => Poll::Ready(Some(done)),
        Poll::Pending if left == 0 => Poll::Ready(None),
        Poll::Pending => {
            left -= 1;
            Poll::Pending
        }
    })
    .await
}

/// Encodes a message that advertises memory: a byte that is 1 for a sink, and the segment.
fn advertisement(sink: bool, segment: Segment) -> Vec<Bytes> {
    let place = [segment.handle.to_be_bytes(), segment.length.to_be_bytes()].concat();
    vec![Bytes::from([&[u8::from(sink)], &place[..], &segment.offset.to_be_bytes()].concat())]
}

/// Decodes a message of [`advertisement`] into the RDMA Read or Write that the receiver submits.
fn requested(message: &[u8]) -> Option<Action> {
    let (&[sink, h0, h1, h2, h3, l0, l1, l2, l3], offset) = message.split_first_chunk()?;
    let offset = u64::from_be_bytes(offset.try_into().ok()?);
    let length = u32::from_be_bytes([l0, l1, l2, l3]);
    let place = Segment { handle: u32::from_be_bytes([h0, h1, h2, h3]), length, offset };
    let data = BytesMut::zeroed(usize::try_from(length).ok()?).freeze();
    Some(match sink {
        0 => Action::read(Token(5), place),
        _ => Action::Write { token: Token(6), sink: place, data },
    })
}

/// Uses a connection for up to `3 * way` completions, and then drops the connection. Registers and advertises
/// short and long memory, and reads and writes the peer's memory.
async fn work_on(mut end: VerbsConnection, way: usize) {
    for (token, len) in [(10, 8000), (11, 70_000), (20, 70_000), (21, 5 << 20)] {
        let zeros = BytesMut::zeroed(len);
        let memory = if token < 20 { Memory::Source(zeros.freeze()) } else { Memory::Sink(zeros) };
        end.submit(Action::Register { token: Token(token), memory });
    }
    for size in [10, 3000] {
        let message = vec![Bytes::from(vec![1; size])];
        end.submit(Action::Send { token: Token(2), message, invalidate: None });
    }
    for _ in 0..way * 3 {
        // The connection may have no further completions.
        let completion = timeout(Duration::from_millis(300), poll_fn(|cx| end.poll_completion(cx))).await;
        match completion {
            Ok(Completion::Registered { token, segment }) => {
                let message = advertisement(token >= Token(20), segment);
                end.submit(Action::Send { token: Token(7), message, invalidate: None });
                if way % 7 == 6 {
                    // This Read uses the local handle, which is invalid at the peer, so the peer's device
                    // closes the connection.
                    end.submit(Action::read(Token(3), segment));
                } else if way % 5 == 2 {
                    end.submit(Action::Invalidate { token: Token(4), handle: segment.handle });
                }
            }
            Ok(Completion::Received { message, .. }) => {
                if let Some(action) = requested(&message) {
                    end.submit(action);
                }
            }
            Ok(Completion::ReadDone { .. }) => {
                READS.fetch_add(1, Ordering::Relaxed);
            }
            Ok(Completion::Closed { .. }) | Err(_) => return,
            Ok(_) => {}
        }
    }
    if way.is_multiple_of(3) {
        end.submit(Action::Close { reason: CloseReason::Local });
        let _ = cut_after(way, closed(&mut end)).await;
    }
}

static READS: AtomicUsize = AtomicUsize::new(0);

/// Returns the kernel's resource counts for all devices: PDs, CQs, QPs, CM IDs, contexts and MRs.
async fn resources() -> String {
    let mut rdma = tokio::process::Command::new("rdma");
    let output = rdma.args(["resource", "show"]).output().await.expect("the program rdma of iproute2");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The kernel resources of 200 connection attempts are released while this process is still running.
#[tokio::test]
async fn connections_are_cut_in_every_state() {
    let Some(at) = device() else { return };
    // All Receives are posted at the start, because over iWARP a Send without a posted Receive ends the
    // connection.
    let options =
        VerbsOptions { connect_timeout: Duration::from_secs(5), receives: 16, ..VerbsOptions::default() };
    let listener = listener(at, options).await;
    let address = listener.local_addr().expect("a local address");
    // The RDMA libraries keep some resources of the first connection open. Wait until its other resources are
    // released.
    drop(pair(at, options).await);
    let mut before = String::new();
    for _ in 0..30 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let last = std::mem::replace(&mut before, resources().await);
        if last == before {
            break;
        }
    }
    assert!(before.contains("cm_id"), "{before}");
    let mut connected = (0, 0);
    for round in 0..200 {
        let windows = if round / 2 % 2 == 0 { MemoryWindows::Always } else { MemoryWindows::Never };
        let options = VerbsOptions { windows, ..options };
        let (local_polls, peer_polls) = (round / 4 % 8, round / 8 % 6);
        let local = async {
            // Some connections are dropped during the setup, but most are dropped later.
            let polls = if round % 4 == 0 { local_polls } else { usize::MAX };
            let local = cut_after(polls, connect(address, b"", RECEIVE, &options)).await;
            if let Some(Ok(local)) = local {
                connected.0 += 1;
                work_on(local, round % 23).await;
            }
        };
        let peer = async {
            let Ok(request) = timeout(Duration::from_millis(300), listener.accept()).await else { return };
            let request: VerbsRequest = request.expect("a request");
            match round % 5 {
                0 => drop(request),
                1 => request.reject(b"no").await.unwrap_or_default(),
                _ => {
                    let polls = if round % 5 == 2 { peer_polls } else { usize::MAX };
                    if let Some(Ok(peer)) = cut_after(polls, request.accept(b"", RECEIVE)).await {
                        connected.1 += 1;
                        work_on(peer, round % 19).await;
                    }
                }
            }
        };
        timeout(LIMIT, async { tokio::join!(local, peer) }).await.expect("no timeout");
    }
    let reads = READS.load(Ordering::Relaxed);
    eprintln!(
        "{} connections at the initiator, {} at the responder, {reads} RDMA Reads",
        connected.0, connected.1
    );
    assert!(connected.0 > 50 && connected.1 > 50 && reads > 20, "{connected:?}, {reads}");
    // Other threads and the kernel may still be releasing memory and connections.
    let mut after = resources().await;
    for _ in 0..100 {
        if after == before {
            return;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
        after = resources().await;
    }
    assert_eq!(after, before);
}
