//! Memory windows, and handles that a peer invalidates.

use super::*;

/// Connects two peers. The first peer advertises memory with windows. Returns `None` if the device has no
/// windows.
async fn windowed(at: SocketAddr) -> Option<(VerbsConnection, VerbsConnection)> {
    let Some(options) = ways(at).await.get(1).copied() else {
        not_run::not_run("the device has no memory windows of type 2");
        return None;
    };
    let (local, peer) = pair(at, options).await;
    assert!(local.info().remote_invalidation && !peer.info().remote_invalidation);
    Some((local, peer))
}

/// Requirement: R295
#[tokio::test]
async fn remote_invalidation_is_offered_only_with_memory_windows() {
    let Some(at) = device() else { return };
    for (options, windows) in ways(at).await.into_iter().zip([false, true]) {
        check_private_data(at, options, windows).await;
    }
}

async fn check_private_data(at: SocketAddr, options: VerbsOptions, windows: bool) {
    let listener = listener(at, options).await;
    let address = listener.local_addr().expect("a local address");
    let own = PrivateData::new(true, 4096, 4096);
    let octets = own.encode();
    let connecting = connect(address, &octets, RECEIVE, &options);
    let accepting = async {
        let request = listener.accept().await.expect("a request");
        let received = PrivateData::find(request.private_data());
        (request.accept(&octets, RECEIVE).await.expect("accepted"), received)
    };
    let (local, (_peer, received)) = tokio::join!(connecting, accepting);
    assert_eq!(received, Some(PrivateData { remote_invalidation: windows, ..own }));
    assert_eq!(local.expect("a connection").info().remote_invalidation, windows);
}

/// Requirement: R200, R286
#[tokio::test]
async fn an_invalidated_window_is_closed_to_the_peer() {
    let Some(at) = device() else { return };
    // If the last round is 297, its handle is invalidated locally. If the last round is 299, its handle is
    // invalidated remotely.
    for last in [297, 299] {
        let Some((local, peer)) = windowed(at).await else { return };
        check_invalidated_windows(local, peer, last).await;
    }
}

async fn check_invalidated_windows(mut local: VerbsConnection, mut peer: VerbsConnection, last: u16) {
    // The connection setup has already posted these Receives, so the requests post no further Receives.
    for end in [&mut local, &mut peer] {
        end.submit(Action::PostReceives { count: VerbsOptions::default().receives });
    }
    let mut sink = register(&mut local, Memory::Sink(BytesMut::zeroed(5000))).await;
    // The number of rounds exceeds the 256 keys of a window.
    for round in 0..=last {
        advertise(&mut local, &mut peer).await;
        let data = Bytes::from(vec![round.to_be_bytes()[1]; 5000]);
        peer.submit(Action::Write { token: Token(1), sink, data: data.clone() });
        // Two of every three handles are invalidated remotely, and the others locally.
        let invalidate = (round % 3 != 0).then_some(sink.handle);
        peer.submit(Action::Send { token: Token(2), message: vec![Bytes::from_static(b"x")], invalidate });
        local.submit(Action::PostReceives { count: 1 });
        let received = drive(&mut local, &mut peer, is_received).await;
        let Completion::Received { invalidated, .. } = received else { unreachable!() };
        assert_eq!(invalidated, invalidate);
        local.submit(Action::Invalidate { token: Token(3), handle: sink.handle });
        assert!(fenced(&mut local).await == data, "round {round}");
        let old = sink;
        sink = register(&mut local, Memory::Sink(BytesMut::zeroed(5000))).await;
        assert_ne!(sink.handle, old.handle);
        if round == last {
            advertise(&mut local, &mut peer).await;
            peer.submit(Action::Write { token: Token(4), sink: old, data });
        }
    }
    let ((_, returned), _) = tokio::join!(closed(&mut local), closed(&mut peer));
    assert!(matches!(&returned[..], [Memory::Sink(returned)] if *returned == vec![0; 5000]), "{returned:?}");
}

/// Requirement: H46
#[tokio::test]
async fn invalidating_a_handle_that_is_not_advertised_closes_the_connection() {
    let Some(at) = device() else { return };
    let Some((mut local, mut peer)) = windowed(at).await else { return };
    let sink = register(&mut local, Memory::Sink(BytesMut::zeroed(100))).await;
    advertise(&mut local, &mut peer).await;
    // The handle to invalidate belongs to the same window, but its key differs from the advertised key.
    let invalidate = Some(sink.handle ^ 0x55);
    peer.submit(Action::Send { token: Token(1), message: vec![Bytes::from_static(b"x")], invalidate });
    let ((_, returned), _) = tokio::join!(closed(&mut local), closed(&mut peer));
    assert!(matches!(&returned[..], [Memory::Sink(returned)] if returned.len() == 100), "{returned:?}");
}

/// siw does not report that the peer has invalidated a handle, but the handle is no longer usable.
#[tokio::test]
async fn an_unsolicited_invalidation_closes_the_connection_or_ends_the_handle() {
    let Some(at) = device() else { return };
    let (mut local, mut peer) = pair(at, VerbsOptions::default()).await;
    let sink = register(&mut local, Memory::Sink(BytesMut::zeroed(100))).await;
    peer.submit(Action::Send {
        token: Token(1),
        message: vec![Bytes::from_static(b"x")],
        invalidate: Some(sink.handle),
    });
    if name(at).await.starts_with("siw") {
        drive(&mut local, &mut peer, is_received).await;
        peer.submit(Action::Write { token: Token(2), sink, data: Bytes::from_static(&[1; 100]) });
    }
    let ((_, returned), _) = tokio::join!(closed(&mut local), closed(&mut peer));
    match &returned[..] {
        [Memory::Sink(returned)] => {
            assert!(returned.iter().all(|octet| *octet == 0), "the peer wrote to the invalidated sink")
        }
        other => panic!("{other:?}"),
    }
}
