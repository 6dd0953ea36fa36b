//! Memory windows, and what peers may invalidate.

use rpcrdma_runtime::wire::private_data::PrivateData;

use super::*;

#[test]
fn the_peer_invalidates_what_it_is_done_with() {
    with(Settings::CARD, async |device| {
        let (mut near, mut far) = connected(&options()).await;
        assert!(near.info().remote_invalidation && !far.info().remote_invalidation);
        let wanted = advertise(&mut near, &mut far, sink(500)).await;
        write(&mut far, wanted, octets(500, 1)).await;
        send(&mut far, vec![Bytes::from_static(b"done")], Some(wanted.handle)).await;
        assert_eq!(device.memory().1, 0);
        assert_eq!(receive(&mut near).await, (Bytes::from_static(b"done"), Some(wanted.handle)));
        assert!(fence(&mut near, wanted).await == octets(500, 1));
        // It does not reach it any more.
        far.submit(Action::Write { token: Token(3), sink: wanted, data: octets(500, 2).into() });
        let (reason, _) = closed(&mut far).await;
        assert!(matches!(reason, CloseReason::Terminated { etype: 1, .. }), "{reason:?}");
    });
}

#[test]
fn the_end_fences_what_the_peer_has_invalidated_before_it_looks() {
    with(Settings::CARD, async |device| {
        let (mut near, mut far) = connected(&options()).await;
        let given = advertise(&mut near, &mut far, source(500, 1)).await;
        send(&mut far, vec![], Some(given.handle)).await;
        assert_eq!(device.memory().1, 0);
        receive(&mut near).await;
        near.submit(Action::Invalidate { token: Token(5), handle: given.handle });
        // A second time there is nothing to fence.
        near.submit(Action::Invalidate { token: Token(6), handle: given.handle });
        let done = next(&mut near).await;
        assert!(matches!(done, Completion::Invalidated { token: Token(5), .. }), "{done:?}");
        assert!(poll_once(next(&mut near)).is_pending());
    });
}

#[test]
fn who_invalidates_what_is_not_advertised_loses_the_connection() {
    for settings in [Settings::CARD, PLAIN] {
        with(settings, async |_| {
            let (mut near, mut far) = connected(&options()).await;
            let wanted = advertise(&mut near, &mut far, sink(500)).await;
            // On a device without windows nothing that is advertised may be invalidated either.
            let handle = if settings.windows > 0 { wanted.handle ^ 0xff00 } else { wanted.handle };
            far.submit(Action::Send { token: Token(1), message: vec![], invalidate: Some(handle) });
            closed(&mut far).await;
            let (_, returned) = closed(&mut near).await;
            assert!(returned == [vec![0; 500]]);
        });
    }
}

#[test]
fn when_all_windows_are_used_up_memory_is_not_advertised_until_one_is_free() {
    with(Settings { windows: 2, ..Settings::CARD }, async |device| {
        let (mut near, mut far) = connected(&options()).await;
        let first = advertise(&mut near, &mut far, source(100, 1)).await;
        let second = advertise(&mut near, &mut far, sink(200)).await;
        for memory in [source(300, 3), sink(300)] {
            let had = contents(&memory).to_vec();
            near.submit(Action::Register { token: Token(7), memory });
            match next(&mut near).await {
                Completion::RegisterFailed { token: Token(7), memory } => assert!(contents(&memory) == had),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(device.memory().1, 2);
        assert!(read(&mut far, first).await == octets(100, 1));
        assert!(fence(&mut near, first).await == octets(100, 1));
        let third = advertise(&mut near, &mut far, source(300, 3)).await;
        assert!(third.handle != first.handle && third.handle != second.handle);
        assert!(read(&mut far, third).await == octets(300, 3));
    });
}

#[test]
fn a_window_over_other_memory_has_another_name() {
    with(Settings { windows: 1, ..Settings::CARD }, async |_| {
        let (mut near, mut far) = connected(&options()).await;
        let mut names = Vec::new();
        for seed in 0..5 {
            let given = advertise(&mut near, &mut far, source(100, seed)).await;
            assert!(read(&mut far, given).await == octets(100, seed));
            assert!(!names.contains(&given.handle));
            names.push(given.handle);
            fence(&mut near, given).await;
            near.submit(Action::PostReceives { count: 1 });
            far.submit(Action::PostReceives { count: 1 });
        }
        let given = advertise(&mut near, &mut far, source(100, 9)).await;
        let stale = Segment { handle: names[4], ..given };
        far.submit(Action::Read { token: Token(4), source: stale });
        let (reason, _) = closed(&mut far).await;
        assert!(matches!(reason, CloseReason::Terminated { etype: 1, .. }), "{reason:?}");
    });
}

#[test]
fn a_connection_without_a_window_says_that_nothing_may_be_invalidated() {
    with(Settings { windows: 1, filled_up: 0, ..Settings::CARD }, async |_| {
        let listener = Listener::bind(any_port(), options()).await.expect("a listener");
        let address = listener.local_addr().expect("an address");
        let options = options();
        let wants = PrivateData { send_size: 4096, receive_size: 4096, remote_invalidation: true }.encode();
        let mut connections = Vec::new();
        for may in [true, false] {
            let serving = async {
                let request = listener.accept().await.expect("a peer");
                let said = PrivateData::find(request.private_data()).expect("private data");
                assert_eq!(said.remote_invalidation, may);
                request.accept(b"", RECEIVE).await.expect("a connection")
            };
            let (near, far) = tokio::join!(connect(address, &wants, RECEIVE, &options), serving);
            let near = near.expect("a connection");
            assert_eq!(near.info().remote_invalidation, may);
            connections.push((near, far));
        }
        // Memory of the second is advertised all the same.
        let (near, far) = &mut connections[1];
        let given = advertise(near, far, source(100, 1)).await;
        assert!(read(far, given).await == octets(100, 1));
        assert!(fence(near, given).await == octets(100, 1));
    });
}

#[test]
fn constants_are_copied_to_have_a_window() {
    static CONSTANT: &[u8] = b"what is in the program itself";
    with(Settings::CARD, async |device| {
        let (mut near, mut far) = connected(&options()).await;
        device.faults(|faults| faults.constants = Some(CONSTANT.as_ptr().addr()));
        let memory = Memory::Source(Bytes::from_static(CONSTANT));
        let given = advertise(&mut near, &mut far, memory).await;
        assert_ne!(given.offset, CONSTANT.as_ptr().addr() as u64);
        assert_eq!(read(&mut far, given).await, CONSTANT);
        assert_eq!(fence(&mut near, given).await, CONSTANT);
    });
}
