//! Memory windows, and handles that a peer invalidates.

use super::*;

/// Both ends, if the device has windows, and one of them advertises memory through such.
async fn windowed(at: SocketAddr) -> Option<(VerbsConnection, VerbsConnection)> {
    let Some(options) = ways(at).await.get(1).copied() else {
        not_run::not_run("the device has no memory windows of type 2");
        return None;
    };
    let (near, far) = pair(at, options).await;
    assert!(near.info().remote_invalidation && !far.info().remote_invalidation);
    Some((near, far))
}

/// Requirement: R295
#[tokio::test]
async fn remote_invalidation_is_offered_only_with_memory_windows() {
    let Some(at) = device() else { return };
    for (options, windows) in ways(at).await.into_iter().zip([false, true]) {
        the_peer_is_told(at, options, windows).await;
    }
}

async fn the_peer_is_told(at: SocketAddr, options: VerbsOptions, windows: bool) {
    let listener = listener(at, options).await;
    let address = listener.local_addr().expect("an address");
    let said = PrivateData::new(true, 4096, 4096);
    let octets = said.encode();
    let connecting = connect(address, &octets, RECEIVE, &options);
    let accepting = async {
        let request = listener.accept().await.expect("a request");
        let heard = PrivateData::find(request.private_data());
        (request.accept(&octets, RECEIVE).await.expect("accepted"), heard)
    };
    let (near, (_far, heard)) = tokio::join!(connecting, accepting);
    assert_eq!(heard, Some(PrivateData { remote_invalidation: windows, ..said }));
    assert_eq!(near.expect("a connection").info().remote_invalidation, windows);
}

/// Requirement: R200, R286
#[tokio::test]
async fn a_window_that_has_ended_is_closed_to_the_peer() {
    let Some(at) = device() else { return };
    // The last is ended by this end, and by the peer.
    for last in [297, 299] {
        let Some((near, far)) = windowed(at).await else { return };
        windows_end(near, far, last).await;
    }
}

async fn windows_end(mut near: VerbsConnection, mut far: VerbsConnection, last: u16) {
    // Those that are posted already are these.
    for end in [&mut near, &mut far] {
        end.submit(Action::PostReceives { count: VerbsOptions::default().receives });
    }
    let mut sink = register(&mut near, Memory::Sink(BytesMut::zeroed(5000))).await;
    // More often than a window has names.
    for round in 0..=last {
        tell(&mut near, &mut far).await;
        let data = Bytes::from(vec![round.to_be_bytes()[1]; 5000]);
        far.submit(Action::Write { token: Token(1), sink, data: data.clone() });
        // The peer invalidates most handles, and this end the others.
        let invalidate = (round % 3 != 0).then_some(sink.handle);
        far.submit(Action::Send { token: Token(2), message: vec![Bytes::from_static(b"x")], invalidate });
        near.submit(Action::PostReceives { count: 1 });
        let heard = drive(&mut near, &mut far, |heard| matches!(heard, Completion::Received { .. })).await;
        let Completion::Received { invalidated, .. } = heard else { unreachable!() };
        assert_eq!(invalidated, invalidate);
        near.submit(Action::Invalidate { token: Token(3), handle: sink.handle });
        assert!(fenced(&mut near).await == data, "round {round}");
        let old = sink;
        sink = register(&mut near, Memory::Sink(BytesMut::zeroed(5000))).await;
        assert_ne!(sink.handle, old.handle);
        if round == last {
            tell(&mut near, &mut far).await;
            far.submit(Action::Write { token: Token(4), sink: old, data });
        }
    }
    let ((_, returned), _) = tokio::join!(closed(&mut near), closed(&mut far));
    assert!(matches!(&returned[..], [Memory::Sink(back)] if *back == vec![0; 5000]), "{returned:?}");
}

/// Requirement: H46
#[tokio::test]
async fn invalidating_a_handle_that_is_not_advertised_closes_the_connection() {
    let Some(at) = device() else { return };
    let Some((mut near, mut far)) = windowed(at).await else { return };
    let sink = register(&mut near, Memory::Sink(BytesMut::zeroed(100))).await;
    tell(&mut near, &mut far).await;
    // The same window under another name.
    let invalidate = Some(sink.handle ^ 0x55);
    far.submit(Action::Send { token: Token(1), message: vec![Bytes::from_static(b"x")], invalidate });
    let ((_, returned), _) = tokio::join!(closed(&mut near), closed(&mut far));
    assert!(matches!(&returned[..], [Memory::Sink(back)] if back.len() == 100), "{returned:?}");
}

/// The library of siw does not tell that the peer has invalidated a handle; but then no peer can use it any
/// more.
#[tokio::test]
async fn an_unsolicited_invalidation_closes_the_connection_or_ends_the_handle() {
    let Some(at) = device() else { return };
    let (mut near, mut far) = pair(at, VerbsOptions::default()).await;
    let sink = register(&mut near, Memory::Sink(BytesMut::zeroed(100))).await;
    far.submit(Action::Send {
        token: Token(1),
        message: vec![Bytes::from_static(b"x")],
        invalidate: Some(sink.handle),
    });
    if name(at).await.starts_with("siw") {
        drive(&mut near, &mut far, |heard| matches!(heard, Completion::Received { .. })).await;
        far.submit(Action::Write { token: Token(2), sink, data: Bytes::from_static(&[1; 100]) });
    }
    let ((_, returned), _) = tokio::join!(closed(&mut near), closed(&mut far));
    match &returned[..] {
        [Memory::Sink(back)] => assert!(back.iter().all(|octet| *octet == 0), "it was written"),
        other => panic!("{other:?}"),
    }
}
