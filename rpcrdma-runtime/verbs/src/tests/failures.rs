//! Devices that fail to create queue pairs, to register or deregister memory, or to accept work.

use std::sync::Mutex;

use super::*;

/// Keeps references to buffers that the provider leaks because they cannot be deregistered, so that Miri does
/// not report a leak.
static LEAKABLE: Mutex<Vec<Bytes>> = Mutex::new(Vec::new());

fn leakable(octets: Vec<u8>) -> Bytes {
    let data = Bytes::from(octets);
    LEAKABLE.lock().expect("the lock is not poisoned").push(data.clone());
    data
}

const NOT_DEREGISTERED: &str = "memory deregistration failed";

#[test]
fn connecting_fails_without_a_queue_pair() {
    with(Settings::CARD, async |device| {
        let listener = VerbsListener::bind(any_port(), options()).await.expect("a listener");
        let address = listener.local_addr().expect("an address");
        device.faults(|faults| faults.fail_queue_pairs = true);
        let local = connect(address, b"", RECEIVE, &options()).await;
        assert!(matches!(local, Err(VerbsError::Io { .. })), "{local:?}");
        device.faults(|faults| faults.fail_queue_pairs = false);
        let options = options();
        let serving = async {
            let request = listener.accept().await.expect("a peer");
            device.faults(|faults| faults.fail_queue_pairs = true);
            request.accept(b"", RECEIVE).await
        };
        let (local, peer) = tokio::join!(connect(address, b"", RECEIVE, &options), serving);
        assert!(matches!(local, Err(VerbsError::Refused { .. })), "{local:?}");
        assert!(matches!(peer, Err(VerbsError::Io { .. })), "{peer:?}");
    });
}

#[test]
fn failed_registration_returns_the_memory() {
    for settings in [Settings::CARD, PLAIN] {
        with(settings, async |device| {
            let (mut local, mut peer) = connected(&options()).await;
            device.faults(|faults| faults.fail_registration = true);
            for memory in [source(500, 1), sink(500)] {
                let had = contents(&memory).to_vec();
                local.submit(Action::Register { token: Token(7), memory });
                match next(&mut local).await {
                    Completion::RegisterFailed { token: Token(7), memory } => {
                        assert!(contents(&memory) == had);
                    }
                    other => panic!("{other:?}"),
                }
            }
            device.faults(|faults| faults.fail_registration = false);
            send(&mut local, vec![Bytes::from_static(b"still open")], None).await;
            assert_eq!(receive(&mut peer).await.0, b"still open"[..]);
        });
    }
}

#[test]
fn failed_registration_for_work_closes_the_connection() {
    for work in 0..4 {
        with(Settings::CARD, async |device| {
            let (mut local, mut peer) = connected(&options()).await;
            let source_segment = advertise(&mut peer, &mut local, source(9000, 1)).await;
            let sink_segment = advertise(&mut peer, &mut local, sink(9000)).await;
            let own = advertise(&mut local, &mut peer, sink(700)).await;
            device.faults(|faults| faults.fail_registration = true);
            local.submit(match work {
                0 => Action::read(Token(1), source_segment),
                1 => Action::Write { token: Token(1), sink: sink_segment, data: octets(9000, 1).into() },
                2 => {
                    Action::Send { token: Token(1), message: vec![octets(9000, 1).into()], invalidate: None }
                }
                // At most `max_receives` Receives are posted. Their slots are already registered, so the
                // connection stays open.
                _ => Action::PostReceives { count: 60 },
            });
            if work < 3 {
                let (reason, returned) = closed(&mut local).await;
                assert!(matches!(reason, CloseReason::Io(_)), "{reason:?}");
                assert!(returned == [vec![0; 700]]);
                assert_eq!(closed(&mut peer).await.0, CloseReason::Peer);
            } else {
                write(&mut peer, own, vec![1; 700]).await;
                assert!(poll_fn(|cx| Poll::Ready(local.poll_completion(cx))).await.is_pending());
            }
        });
    }
}

#[test]
fn memory_that_fails_to_deregister_is_not_returned() {
    for settings in [Settings::CARD, PLAIN] {
        with(settings, async |device| {
            let (mut local, mut peer) = connected(&options()).await;
            let sink_segment = advertise(&mut local, &mut peer, sink(500)).await;
            let other = advertise(&mut local, &mut peer, source(600, 1)).await;
            let before = device.leaked();
            device.faults(|faults| faults.fail_deregistration = true);
            local.submit(Action::Invalidate { token: Token(5), handle: sink_segment.handle });
            let (reason, returned) = closed(&mut local).await;
            assert_eq!(reason, CloseReason::Io(NOT_DEREGISTERED.into()));
            assert!(returned.is_empty(), "memory was returned although {other:?} is still registered");
            drop((local, peer));
            // At least four buffers are leaked: the two advertised buffers, and one slab of slots per peer.
            assert!(device.leaked() >= before + 4, "{} buffers", device.leaked() - before);
        });
    }
}

#[test]
fn read_and_sent_memory_that_fails_to_deregister_is_leaked() {
    with(Settings::CARD, async |device| {
        let (mut local, mut peer) = connected(&options()).await;
        let source_segment = advertise(&mut peer, &mut local, source(9000, 1)).await;
        let before = device.leaked();
        device.faults(|faults| faults.fail_deregistration = true);
        send(&mut local, vec![leakable(octets(9000, 2))], None).await;
        assert!(receive(&mut peer).await.0 == octets(9000, 2));
        assert_eq!(device.leaked(), before + 1);
        local.submit(Action::read(Token(4), source_segment));
        let (reason, _) = closed(&mut local).await;
        assert_eq!(reason, CloseReason::Io(NOT_DEREGISTERED.into()));
    });
}

#[test]
fn dropping_a_connection_does_not_free_registered_memory() {
    for settings in [Settings::CARD, PLAIN] {
        with(settings, async |device| {
            let (mut local, mut peer) = connected(&options()).await;
            advertise(&mut local, &mut peer, sink(500)).await;
            device.faults(|faults| (faults.fail_deregistration, faults.stalled) = (true, true));
            local.submit(Action::Send {
                token: Token(1),
                message: vec![leakable(octets(9000, 2))],
                invalidate: None,
            });
            assert!(poll_once(next(&mut local)).is_pending());
        });
    }
}

#[test]
fn failing_to_post_work_closes_the_connection() {
    for settings in [Settings::CARD, PLAIN] {
        with(settings, async |device| {
            let (mut local, mut peer) = connected(&options()).await;
            advertise(&mut local, &mut peer, sink(500)).await;
            device.faults(|faults| faults.fail_sends = true);
            local.submit(Action::Send {
                token: Token(1),
                message: vec![octets(9000, 2).into()],
                invalidate: None,
            });
            let (reason, returned) = closed(&mut local).await;
            assert!(matches!(reason, CloseReason::Io(_)), "{reason:?}");
            assert!(returned == [vec![0; 500]]);
            assert_eq!(closed(&mut peer).await.0, CloseReason::Peer);
        });
    }
}

/// The device accepts the first request of a batch and rejects the second, so the connection closes. Until
/// the queue pair is destroyed, the device may access the memory of the first request.
#[test]
fn requests_after_a_rejected_request_are_not_executed() {
    with(Settings::CARD, async |device| {
        let (mut local, mut peer) = connected(&options()).await;
        device.faults(|faults| faults.stalled = true);
        for seed in 0..3 {
            let message = vec![octets(9000, seed).into()];
            local.submit(Action::Send { token: Token(seed.into()), message, invalidate: None });
        }
        // Before the first message is posted, one slab of slots and the memory of all three messages are
        // registered, in four calls. The second post fails.
        let calls = device.calls();
        device.faults(|faults| faults.failing_call = Some(calls + 1 + 3 + 2));
        assert!(matches!(closed(&mut local).await.0, CloseReason::Io(_)));
        assert_eq!(closed(&mut peer).await.0, CloseReason::Peer);
    });
}

#[test]
fn failing_to_post_a_receive_closes_the_connection() {
    with(Settings::CARD, async |device| {
        let (mut local, mut peer) = connected(&options()).await;
        device.faults(|faults| faults.fail_receives = true);
        local.submit(Action::PostReceives { count: 3 });
        assert!(matches!(closed(&mut local).await.0, CloseReason::Io(_)));
        assert_eq!(closed(&mut peer).await.0, CloseReason::Peer);
    });
}
