//! Establishing connections.

use std::time::Duration;

use rpcrdma_runtime::Config;
use rpcrdma_runtime::provider::{Connector, IncomingConnection, LocalParameters};

use crate::{VerbsConnector, devices, serves};

use super::*;
use crate::fake_device::UNRESOLVABLE;

async fn listening() -> (VerbsListener, std::net::SocketAddr) {
    let listener = VerbsListener::bind(any_port(), options()).await.expect("a listener");
    let address = listener.local_addr().expect("an address");
    (listener, address)
}

#[test]
fn peers_connect_and_receive_private_data() {
    with(Settings::CARD, async |_| {
        let (listener, address) = listening().await;
        let serving = async {
            let request = listener.accept().await.expect("a peer");
            assert_eq!((request.private_data().len(), &request.private_data()[..5]), (56, &b"hello"[..]));
            request.accept(b"welcome", RECEIVE).await
        };
        let options = options();
        let (local, peer) = tokio::join!(connect(address, b"hello", RECEIVE, &options), serving);
        let (local, peer) = (local.expect("a connection"), peer.expect("a connection"));
        assert_eq!((local.info().private_data.len(), &local.info().private_data[..7]), (56, &b"welcome"[..]));
        assert_eq!(local.info().peer, Some(address));
        assert_eq!((local.info().ord, peer.info().ord), (8, 8));
    });
}

/// Sends seven messages to the peer. Returns the number of messages received from the peer within a second.
async fn messages_received(connection: &mut VerbsConnection) -> u32 {
    for number in 0..7 {
        let message = vec![Bytes::from_static(b"message")];
        connection.submit(Action::Send { token: Token(number), message, invalidate: None });
    }
    let mut count = 0;
    let receiving = async {
        loop {
            match next(connection).await {
                Completion::Received { .. } => count += 1,
                Completion::Sent { .. } => {}
                other => panic!("expected a message: {other:?}"),
            }
        }
    };
    let _: Result<(), _> = tokio::time::timeout(Duration::from_secs(1), receiving).await;
    count
}

/// Neither peer requests further Receives.
#[test]
fn a_receive_is_posted_for_each_credit_and_two_more() {
    with(Settings::CARD, async |_| {
        let (listener, address) = listening().await;
        let local = LocalParameters::new(&Config { credits: 3, backward_credits: 1, ..Config::default() });
        let connector = VerbsConnector::new(address.to_string(), options());
        let request = async { listener.accept().await.expect("a peer") };
        let serving = async { IncomingConnection::accept(request.await, &local).await };
        let (client, server) = tokio::join!(connector.connect(&local), serving);
        let (mut client, mut server) = (client.expect("a connection"), server.expect("a connection"));
        let counts = tokio::join!(messages_received(&mut client), messages_received(&mut server));
        assert_eq!(counts, (6, 6));
    });
}

#[test]
fn a_refused_client_receives_the_private_data() {
    with(Settings { padded_private_data: 0, ..Settings::CARD }, async |_| {
        let (listener, address) = listening().await;
        let serving = async { listener.accept().await.expect("a peer").reject(b"too many").await };
        let options = options();
        let (local, peer) = tokio::join!(connect(address, b"", RECEIVE, &options), serving);
        peer.expect("the refusal is sent");
        let Err(VerbsError::Refused { private_data }) = local else { panic!("not refused") };
        assert_eq!(private_data, b"too many"[..]);
        // Dropping a request also refuses it.
        let dropping = async { drop(listener.accept().await.expect("a peer")) };
        let (local, ()) = tokio::join!(connect(address, b"", RECEIVE, &options), dropping);
        assert!(matches!(local, Err(VerbsError::Refused { .. })), "{local:?}");
    });
}

#[test]
fn private_data_beyond_the_limit_is_an_error() {
    with(Settings { padded_private_data: 0, ..Settings::CARD }, async |_| {
        let (listener, address) = listening().await;
        let options = options();
        let too_long = [1; 57];
        let local = connect(address, &too_long, RECEIVE, &options).await;
        assert!(matches!(local, Err(VerbsError::PrivateData(57))), "{local:?}");
        for accepts in [true, false] {
            let serving = async {
                let request = listener.accept().await.expect("a peer");
                if accepts {
                    request.accept(&too_long, RECEIVE).await.map(drop)
                } else {
                    request.reject(&too_long).await
                }
            };
            let (local, peer) = tokio::join!(connect(address, &too_long[1..], RECEIVE, &options), serving);
            assert!(matches!(peer, Err(VerbsError::PrivateData(57))), "{peer:?}");
            assert!(matches!(local, Err(VerbsError::Refused { .. })), "{local:?}");
        }
    });
}

#[test]
fn connecting_fails_without_a_device_or_a_listener() {
    with(Settings::CARD, async |_| {
        let options = options();
        for elsewhere in [(UNRESOLVABLE, 20_049), (std::net::Ipv4Addr::LOCALHOST, 20_049)] {
            let local = connect(elsewhere.into(), b"", RECEIVE, &options).await;
            assert!(matches!(local, Err(VerbsError::NoDevice(_))), "{local:?}");
        }
        let (listener, address) = listening().await;
        drop(listener);
        let local = connect(address, b"", RECEIVE, &options).await;
        assert!(matches!(local, Err(VerbsError::Refused { .. })), "{local:?}");
        assert!(serves(address) && !serves((UNRESOLVABLE, 0).into()));
    });
}

#[test]
fn devices_are_listed() {
    with(Settings::CARD, async |_| {
        let found = devices().expect("a list");
        let [device] = &found[..] else { panic!("{found:?}") };
        assert_eq!((&device.name[..], &device.guid[..]), ("fake0", "0102030405060708"));
        assert!(device.windows && !device.iwarp && device.ports[0].active);
        assert_eq!((device.ports.len(), device.ports[0].gids.len()), (1, 1));
    });
}

#[test]
fn dropping_a_connection_attempt_leaves_no_objects() {
    let mut total = None;
    for steps in 0.. {
        for local_first in [true, false] {
            with(Settings::CARD, async |_| {
                let (listener, address) = listening().await;
                let options = options();
                let mut local = Box::pin(connect(address, b"", RECEIVE, &options));
                let mut peer =
                    Box::pin(async { listener.accept().await.expect("a peer").accept(b"", RECEIVE).await });
                let (mut local_done, mut peer_done) = (None, None);
                for step in 0..steps {
                    // Lets the reactor run.
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    if step % 2 == 0 && local_done.is_none() {
                        local_done = ready(poll_once(local.as_mut()));
                    } else if step % 2 == 1 && peer_done.is_none() {
                        peer_done = ready(poll_once(peer.as_mut()));
                    }
                }
                if local_done.is_some() && peer_done.is_some() {
                    total = Some(steps);
                }
                if local_first {
                    drop((local, local_done));
                }
            });
        }
        if total.is_some() {
            break;
        }
    }
    assert!(total >= Some(6), "the peers connected in too few steps: {total:?}");
}

fn ready<T>(polled: Poll<T>) -> Option<T> {
    match polled {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}

#[test]
fn accepting_times_out() {
    with(Settings::CARD, async |device| {
        device.faults(|faults| faults.never_established = true);
        let (listener, address) = listening().await;
        let options = VerbsOptions { connect_timeout: Duration::from_secs(30), ..options() };
        let serving = async { listener.accept().await.expect("a peer").accept(b"", RECEIVE).await };
        let (local, peer) = tokio::join!(connect(address, b"", RECEIVE, &options), serving);
        // The server's shorter timeout expires first.
        assert!(matches!(peer, Err(VerbsError::Timeout { .. })), "{peer:?}");
        assert!(matches!(local, Err(VerbsError::Refused { .. })), "{local:?}");
    });
}

/// In each run, a different library call fails.
#[test]
fn any_call_may_fail() {
    let mut failed = 0;
    for call in 1.. {
        let mut total = 0;
        with(Settings::CARD, async |device| {
            device.faults(|faults| faults.failing_call = Some(call));
            let options = VerbsOptions { connect_timeout: Duration::from_secs(20), ..options() };
            let Ok(listener) = VerbsListener::bind(any_port(), options).await else {
                failed += 1;
                total = call;
                return;
            };
            let address = listener.local_addr().expect("an address");
            let serving = async { listener.accept().await.expect("a peer").accept(b"", RECEIVE).await };
            let mut serving = Box::pin(serving);
            let mut connecting = Box::pin(connect(address, b"", RECEIVE, &options));
            let (local, peer) = tokio::select! {
                local = &mut connecting => match local {
                    Ok(local) => (Some(local), serving.await.ok()),
                    Err(_) => (None, None),
                },
                peer = &mut serving => (connecting.await.ok(), peer.ok()),
            };
            if local.is_none() || peer.is_none() {
                failed += 1;
            }
            total = device.calls();
        });
        if total < call {
            break;
        }
    }
    assert!(failed > 15, "only {failed} failing calls had an effect");
}
