//! The end of a connection, in every state.

use super::*;

#[tokio::test]
async fn data_sent_before_the_close_arrives() {
    let Some(at) = device() else { return };
    for _ in 0..10 {
        let (mut near, mut far) = pair(at, VerbsOptions::default()).await;
        for _ in 0..20 {
            let message = vec![Bytes::from(vec![7; 4000])];
            near.submit(Action::Send { token: Token(1), message, invalidate: None });
        }
        near.submit(Action::Close { reason: CloseReason::Local });
        let hearing = async {
            let mut arrived = 0;
            loop {
                match next(&mut far).await {
                    Completion::Received { .. } => arrived += 1,
                    Completion::Closed { reason, .. } => return (arrived, reason),
                    _ => {}
                }
            }
        };
        let ((own, _), (arrived, reason)) = tokio::join!(closed(&mut near), hearing);
        assert_eq!((own, arrived, reason), (CloseReason::Local, 20, CloseReason::Peer));
    }
}

/// Polls a future so many times, and drops it where it stands then.
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

/// Tells the peer of memory that is advertised, in a message: whether it is a sink, and where it is.
fn told(sink: bool, segment: Segment) -> Vec<Bytes> {
    let place = [segment.handle.to_be_bytes(), segment.length.to_be_bytes()].concat();
    vec![Bytes::from([&[u8::from(sink)], &place[..], &segment.offset.to_be_bytes()].concat())]
}

/// What such a message asks its reader to do.
fn asked(message: &[u8]) -> Option<Action> {
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

/// Works on a connection for some completions, in one of many ways: registers memory, tells the peer of it,
/// reads and writes what the peer tells of, and leaves all of that. Some of it is as long as what other
/// threads register.
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
        // There may be nothing to hear any more.
        let heard = timeout(Duration::from_millis(300), poll_fn(|cx| end.poll_completion(cx))).await;
        match heard {
            Ok(Completion::Registered { token, segment }) => {
                let message = told(token >= Token(20), segment);
                end.submit(Action::Send { token: Token(7), message, invalidate: None });
                // A handle of this end means nothing at the other: the device there ends the connection.
                if way % 7 == 6 {
                    end.submit(Action::read(Token(3), segment));
                } else if way % 5 == 2 {
                    end.submit(Action::Invalidate { token: Token(4), handle: segment.handle });
                }
            }
            Ok(Completion::Received { message, .. }) => {
                if let Some(action) = asked(&message) {
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

/// RDMA Reads of the work above that came to their end.
static READS: AtomicUsize = AtomicUsize::new(0);

/// What the kernel counts of all devices: protection domains, queues, pairs, ids, contexts, regions.
async fn resources() -> String {
    let mut rdma = tokio::process::Command::new("rdma");
    let output = rdma.args(["resource", "show"]).output().await.expect("the program rdma, of iproute2");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Of 200 connections nothing is left in the kernel, while this process goes on.
#[tokio::test]
async fn connections_are_cut_in_every_state() {
    let Some(at) = device() else { return };
    // All Receives are there from the beginning: iWARP does not wait for them.
    let options =
        VerbsOptions { connect_timeout: Duration::from_secs(5), receives: 16, ..VerbsOptions::default() };
    let listener = listener(at, options).await;
    let address = listener.local_addr().expect("an address");
    // What the first one has the libraries open stays open; the rest of it goes.
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
    let mut made = (0, 0);
    for round in 0..200 {
        let windows = if round / 2 % 2 == 0 { MemoryWindows::Always } else { MemoryWindows::Never };
        let options = VerbsOptions { windows, ..options };
        let (near_polls, far_polls) = (round / 4 % 8, round / 8 % 6);
        let near = async {
            // Some are cut at a poll while they are made, most afterwards.
            let polls = if round % 4 == 0 { near_polls } else { usize::MAX };
            let near = cut_after(polls, connect(address, b"", RECEIVE, &options)).await;
            if let Some(Ok(near)) = near {
                made.0 += 1;
                work_on(near, round % 23).await;
            }
        };
        let far = async {
            let Ok(request) = timeout(Duration::from_millis(300), listener.accept()).await else { return };
            let request: VerbsRequest = request.expect("a request");
            match round % 5 {
                0 => drop(request),
                1 => request.reject(b"no").await.unwrap_or_default(),
                _ => {
                    let polls = if round % 5 == 2 { far_polls } else { usize::MAX };
                    if let Some(Ok(far)) = cut_after(polls, request.accept(b"", RECEIVE)).await {
                        made.1 += 1;
                        work_on(far, round % 19).await;
                    }
                }
            }
        };
        timeout(LIMIT, async { tokio::join!(near, far) }).await.expect("an end of it");
    }
    let reads = READS.load(Ordering::Relaxed);
    eprintln!("{} connections were made at one end, {} at the other, with {reads} Reads", made.0, made.1);
    assert!(made.0 > 50 && made.1 > 50 && reads > 20, "{made:?}, {reads}");
    // Threads may still be letting go of long memory, and the kernel of connections.
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
