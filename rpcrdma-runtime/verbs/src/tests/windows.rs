//! Memory windows and remote invalidation.

use rpcrdma_runtime::wire::private_data::PrivateData;

use super::*;

#[test]
fn the_peer_invalidates_a_window() {
    with(Settings::CARD, async |device| {
        let (mut local, mut peer) = connected(&options()).await;
        assert!(local.info().remote_invalidation && !peer.info().remote_invalidation);
        let sink_segment = advertise(&mut local, &mut peer, sink(500)).await;
        write(&mut peer, sink_segment, octets(500, 1)).await;
        send(&mut peer, vec![Bytes::from_static(b"done")], Some(sink_segment.handle)).await;
        assert_eq!(device.memory().1, 0);
        assert_eq!(receive(&mut local).await, (Bytes::from_static(b"done"), Some(sink_segment.handle)));
        assert!(fence(&mut local, sink_segment).await == octets(500, 1));
        // The peer can no longer access the memory.
        peer.submit(Action::Write { token: Token(3), sink: sink_segment, data: octets(500, 2).into() });
        let (reason, _) = closed(&mut peer).await;
        assert!(matches!(reason, CloseReason::Terminated { etype: 1, .. }), "{reason:?}");
    });
}

#[test]
fn a_remotely_invalidated_window_is_fenced_once() {
    with(Settings::CARD, async |device| {
        let (mut local, mut peer) = connected(&options()).await;
        let source_segment = advertise(&mut local, &mut peer, source(500, 1)).await;
        send(&mut peer, vec![], Some(source_segment.handle)).await;
        assert_eq!(device.memory().1, 0);
        receive(&mut local).await;
        local.submit(Action::Invalidate { token: Token(5), handle: source_segment.handle });
        // A second invalidation has no effect.
        local.submit(Action::Invalidate { token: Token(6), handle: source_segment.handle });
        let done = next(&mut local).await;
        assert!(matches!(done, Completion::Invalidated { token: Token(5), .. }), "{done:?}");
        assert!(poll_once(next(&mut local)).is_pending());
    });
}

#[test]
fn invalidating_a_handle_that_is_not_advertised_closes_the_connection() {
    for settings in [Settings::CARD, PLAIN] {
        with(settings, async |_| {
            let (mut local, mut peer) = connected(&options()).await;
            let sink_segment = advertise(&mut local, &mut peer, sink(500)).await;
            // Without windows, the peer may not even invalidate advertised handles.
            let handle =
                if settings.windows > 0 { sink_segment.handle ^ 0xff00 } else { sink_segment.handle };
            peer.submit(Action::Send { token: Token(1), message: vec![], invalidate: Some(handle) });
            closed(&mut peer).await;
            let (_, returned) = closed(&mut local).await;
            assert!(returned == [vec![0; 500]]);
        });
    }
}

#[test]
fn registration_fails_until_a_window_is_free() {
    with(Settings { windows: 2, ..Settings::CARD }, async |device| {
        let (mut local, mut peer) = connected(&options()).await;
        let first = advertise(&mut local, &mut peer, source(100, 1)).await;
        let second = advertise(&mut local, &mut peer, sink(200)).await;
        for memory in [source(300, 3), sink(300)] {
            let had = contents(&memory).to_vec();
            local.submit(Action::Register { token: Token(7), memory });
            match next(&mut local).await {
                Completion::RegisterFailed { token: Token(7), memory } => assert!(contents(&memory) == had),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(device.memory().1, 2);
        assert!(read(&mut peer, first).await == octets(100, 1));
        assert!(fence(&mut local, first).await == octets(100, 1));
        let third = advertise(&mut local, &mut peer, source(300, 3)).await;
        assert!(third.handle != first.handle && third.handle != second.handle);
        assert!(read(&mut peer, third).await == octets(300, 3));
    });
}

#[test]
fn each_bind_changes_the_handle_of_a_window() {
    with(Settings { windows: 1, ..Settings::CARD }, async |_| {
        let (mut local, mut peer) = connected(&options()).await;
        let mut handles = Vec::new();
        for seed in 0..5 {
            let source_segment = advertise(&mut local, &mut peer, source(100, seed)).await;
            assert!(read(&mut peer, source_segment).await == octets(100, seed));
            assert!(!handles.contains(&source_segment.handle));
            handles.push(source_segment.handle);
            fence(&mut local, source_segment).await;
            local.submit(Action::PostReceives { count: 1 });
            peer.submit(Action::PostReceives { count: 1 });
        }
        let source_segment = advertise(&mut local, &mut peer, source(100, 9)).await;
        let stale = Segment { handle: handles[4], ..source_segment };
        peer.submit(Action::read(Token(4), stale));
        let (reason, _) = closed(&mut peer).await;
        assert!(matches!(reason, CloseReason::Terminated { etype: 1, .. }), "{reason:?}");
    });
}

/// Requirement: R295
#[test]
fn a_connection_without_windows_clears_the_r_flag() {
    with(Settings { windows: 1, padded_private_data: 0, ..Settings::CARD }, async |_| {
        let listener = VerbsListener::bind(any_port(), options()).await.expect("a listener");
        let address = listener.local_addr().expect("an address");
        let options = options();
        let wants = PrivateData { send_size: 4096, receive_size: 4096, remote_invalidation: true }.encode();
        let mut connections = Vec::new();
        for allowed in [true, false] {
            let serving = async {
                let request = listener.accept().await.expect("a peer");
                let found = PrivateData::find(request.private_data()).expect("private data");
                assert_eq!(found.remote_invalidation, allowed);
                request.accept(b"", RECEIVE).await.expect("a connection")
            };
            let (local, peer) = tokio::join!(connect(address, &wants, RECEIVE, &options), serving);
            let local = local.expect("a connection");
            assert_eq!(local.info().remote_invalidation, allowed);
            connections.push((local, peer));
        }
        // The second connection has no window, but can still advertise memory.
        let (local, peer) = &mut connections[1];
        let source_segment = advertise(local, peer, source(100, 1)).await;
        assert!(read(peer, source_segment).await == octets(100, 1));
        assert!(fence(local, source_segment).await == octets(100, 1));
    });
}

#[test]
fn read_only_memory_is_copied_for_a_window() {
    static CONSTANT: &[u8] = b"read-only data of the program";
    with(Settings::CARD, async |device| {
        let (mut local, mut peer) = connected(&options()).await;
        device.faults(|faults| faults.read_only = Some(CONSTANT.as_ptr().addr()));
        let memory = Memory::Source(Bytes::from_static(CONSTANT));
        let source_segment = advertise(&mut local, &mut peer, memory).await;
        assert_ne!(source_segment.offset, CONSTANT.as_ptr().addr() as u64);
        assert_eq!(read(&mut peer, source_segment).await, CONSTANT);
        assert_eq!(fence(&mut local, source_segment).await, CONSTANT);
    });
}
