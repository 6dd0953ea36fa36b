//! Closing and dropping connections, dead peers, device removal and address changes.

use std::time::Duration;

use super::*;

const KINDS: [Settings; 2] = [Settings::CARD, PLAIN];

fn close(connection: &mut VerbsConnection) {
    connection.submit(Action::Close { reason: CloseReason::Local });
}

#[test]
fn closing_one_peer_closes_the_other() {
    for settings in KINDS {
        for local_first in [true, false] {
            with(settings, async |device| {
                let (mut local, mut peer) = connected(&options()).await;
                let sink_segment = advertise(&mut local, &mut peer, sink(500)).await;
                write(&mut peer, sink_segment, octets(500, 1)).await;
                let (first, second) =
                    if local_first { (&mut local, &mut peer) } else { (&mut peer, &mut local) };
                close(first);
                let (mine, theirs) = tokio::join!(closed(first), closed(second));
                assert_eq!((&mine.0, &theirs.0), (&CloseReason::Local, &CloseReason::Peer));
                let returned = if local_first { mine.1 } else { theirs.1 };
                assert!(returned == [octets(500, 1)]);
                assert_eq!(device.memory(), (0, 0));
                // `Closed` is the last completion.
                assert!(poll_once(next(&mut local)).is_pending() && poll_once(next(&mut peer)).is_pending());
            });
        }
    }
}

#[test]
fn both_peers_close_at_the_same_time() {
    with(Settings::CARD, async |_| {
        let (mut local, mut peer) = connected(&options()).await;
        close(&mut local);
        close(&mut peer);
        let (mine, theirs) = tokio::join!(closed(&mut local), closed(&mut peer));
        assert_eq!((mine.0, theirs.0), (CloseReason::Local, CloseReason::Local));
    });
}

#[test]
fn work_submitted_before_a_close_is_completed() {
    with(Settings::CARD, async |device| {
        let (mut local, mut peer) = connected(&options()).await;
        device.faults(|faults| faults.stalled = true);
        for seed in 0..3 {
            let message = vec![octets(9000, seed).into()];
            local.submit(Action::Send { token: Token(1), message, invalidate: None });
        }
        close(&mut local);
        assert!(poll_once(next(&mut local)).is_pending());
        device.resume();
        let receiving = async {
            for seed in 0..3 {
                assert!(receive(&mut peer).await.0 == octets(9000, seed));
            }
            closed(&mut peer).await.0
        };
        let (mine, theirs) = tokio::join!(closed(&mut local), receiving);
        assert_eq!((mine.0, theirs), (CloseReason::Local, CloseReason::Peer));
    });
}

#[test]
fn closing_does_not_depend_on_the_peer() {
    with(Settings::CARD, async |device| {
        let (mut local, mut peer) = connected(&options()).await;
        let sink_segment = advertise(&mut local, &mut peer, sink(500)).await;
        device.faults(|faults| faults.ignore_disconnect = true);
        close(&mut local);
        let (reason, returned) = closed(&mut local).await;
        assert_eq!(reason, CloseReason::Local);
        assert!(returned == [vec![0; 500]]);
        // The peer detects the close when its next RDMA Write is not acknowledged.
        drop(local);
        peer.submit(Action::Write { token: Token(3), sink: sink_segment, data: vec![7; 500].into() });
        let (reason, _) = closed(&mut peer).await;
        assert!(matches!(reason, CloseReason::Timeout(_)), "{reason:?}");
    });
}

#[test]
fn an_idle_connection_detects_a_dead_peer() {
    for client_dies in [true, false] {
        with(Settings::CARD, async |device| {
            let options = VerbsOptions { keepalive: Some(Duration::from_secs(1)), ..options() };
            let (client, server) = connected(&options).await;
            device.faults(|faults| faults.ignore_disconnect = true);
            let (dead, mut alive) = if client_dies { (client, server) } else { (server, client) };
            let quiet = tokio::time::timeout(Duration::from_secs(5), next(&mut alive)).await;
            assert!(quiet.is_err(), "an idle peer is not dead: {quiet:?}");
            drop(dead);
            let noticed = tokio::time::timeout(Duration::from_secs(60), closed(&mut alive)).await;
            let (reason, _) = noticed.expect("the dead peer is detected");
            assert!(matches!(reason, CloseReason::Timeout(_)), "{reason:?}");
        });
    }
}

/// Submits work of every kind while the device is stalled.
async fn busy(local: &mut VerbsConnection, peer: &mut VerbsConnection, device: FakeDevice) {
    let source_segment = advertise(peer, local, source(9000, 1)).await;
    let sink_segment = advertise(peer, local, sink(9000)).await;
    let own = advertise(local, peer, sink(700)).await;
    advertise(local, peer, source(800, 2)).await;
    device.faults(|faults| faults.stalled = true);
    local.submit(Action::read(Token(10), source_segment));
    local.submit(Action::Write { token: Token(11), sink: sink_segment, data: octets(9000, 3).into() });
    let message = vec![octets(10, 1).into(), octets(9000, 4).into()];
    local.submit(Action::Send { token: Token(12), message, invalidate: None });
    local.submit(Action::Register { token: Token(13), memory: sink(900) });
    local.submit(Action::Invalidate { token: Token(14), handle: own.handle });
    let mut done = Vec::new();
    while let Poll::Ready(completion) = poll_once(next(local)) {
        done.push(completion);
    }
    // Registration completes although the device is stalled. Without windows, so does invalidation, because
    // it posts no work.
    let expected = 1 + usize::from(!local.info().remote_invalidation);
    assert_eq!(done.len(), expected, "{done:?}");
}

#[test]
fn dropping_a_busy_connection_leaves_no_objects() {
    for settings in KINDS {
        for local_first in [true, false] {
            with(settings, async |device| {
                let (mut local, mut peer) = connected(&options()).await;
                busy(&mut local, &mut peer, device).await;
                let left = if local_first {
                    drop(local);
                    &mut peer
                } else {
                    drop(peer);
                    &mut local
                };
                device.resume();
                // The device may time out before the connection manager reports the disconnect.
                let (reason, _) = closed(left).await;
                assert!(matches!(reason, CloseReason::Peer | CloseReason::Timeout(_)), "{reason:?}");
            });
        }
    }
}

#[test]
fn dropping_an_unused_connection_leaves_no_objects() {
    with(Settings::CARD, async |_| {
        let (local, peer) = connected(&options()).await;
        drop(peer);
        drop(local);
    });
}

#[test]
fn dropping_a_connection_during_blocking_jobs_leaves_no_objects() {
    const LONG: usize = crate::objects::LONG;
    for settings in KINDS {
        with(Settings { max_message: 1 << 30, ..settings }, async |_| {
            let (mut local, mut peer) = connected(&options()).await;
            let segment = advertise(&mut local, &mut peer, sink(LONG)).await;
            local.submit(Action::Register { token: Token(1), memory: sink(LONG) });
            local.submit(Action::Invalidate { token: Token(2), handle: segment.handle });
            peer.submit(Action::read(Token(3), segment));
            // The results are ignored, because the blocking jobs may already have finished.
            let _ = (poll_once(next(&mut local)), poll_once(next(&mut peer)));
            drop(local);
        });
    }
}

#[test]
fn removing_the_device_closes_connections_and_returns_memory() {
    for settings in KINDS {
        with(settings, async |device| {
            let (mut local, mut peer) = connected(&options()).await;
            busy(&mut local, &mut peer, device).await;
            device.remove();
            for connection in [&mut local, &mut peer] {
                let (reason, returned) = closed(connection).await;
                assert_eq!(reason, CloseReason::Io("the RDMA device was removed".into()));
                // Without windows, one buffer of the client was already returned.
                assert!(returned.len() >= 2, "{} buffers", returned.len());
            }
            assert_eq!(device.memory().1, 0);
        });
    }
}

#[test]
fn changing_the_address_closes_connections_and_returns_memory() {
    for settings in KINDS {
        with(settings, async |device| {
            let (mut local, mut peer) = connected(&options()).await;
            busy(&mut local, &mut peer, device).await;
            device.change_address();
            for connection in [&mut local, &mut peer] {
                let (reason, returned) = closed(connection).await;
                assert_eq!(reason, CloseReason::Io("the address of the network device changed".into()));
                assert!(returned.len() >= 2, "{} buffers", returned.len());
            }
            assert_eq!(device.memory(), (0, 0));
        });
    }
}

#[test]
fn a_listener_survives_an_address_change_and_a_device_removal() {
    with(Settings::CARD, async |device| {
        let listener = VerbsListener::bind(any_port(), options()).await.expect("a listener");
        let address = listener.local_addr().expect("an address");
        let options = options();
        device.change_address();
        device.remove();
        let later = async {
            tokio::time::sleep(Duration::from_secs(2)).await;
            let local = connect(address, b"", RECEIVE, &options).await;
            assert!(matches!(local, Err(VerbsError::NoDevice(_))), "{local:?}");
            device.restore();
            tokio::time::sleep(Duration::from_secs(2)).await;
            connect(address, b"", RECEIVE, &options).await
        };
        let serving = async { listener.accept().await.expect("a peer").accept(b"", RECEIVE).await };
        let (local, peer) = tokio::join!(later, serving);
        let (mut local, mut peer) = (local.expect("a connection"), peer.expect("a connection"));
        send(&mut local, vec![Bytes::from_static(b"again")], None).await;
        assert_eq!(receive(&mut peer).await.0, b"again"[..]);
    });
}

#[test]
fn removing_the_device_during_the_handshake_is_an_error() {
    with(Settings::CARD, async |device| {
        let listener = VerbsListener::bind(any_port(), options()).await.expect("a listener");
        let address = listener.local_addr().expect("an address");
        let options = options();
        let serving = async {
            let request = listener.accept().await.expect("a peer");
            device.remove();
            request.accept(b"", RECEIVE).await
        };
        let (local, peer) = tokio::join!(connect(address, b"", RECEIVE, &options), serving);
        assert!(local.is_err() && peer.is_err(), "{local:?}, {peer:?}");
    });
}
