//! How connections come about, and how not.

use std::time::Duration;

use crate::{devices, serves};

use super::*;
use crate::fake_device::NOBODY;

async fn listening() -> (Listener, std::net::SocketAddr) {
    let listener = Listener::bind(any_port(), options()).await.expect("a listener");
    let address = listener.local_addr().expect("an address");
    (listener, address)
}

#[test]
fn ends_connect_and_see_each_others_private_data() {
    with(Settings::CARD, async |_| {
        let (listener, address) = listening().await;
        let serving = async {
            let request = listener.accept().await.expect("a peer");
            assert_eq!((request.private_data().len(), &request.private_data()[..5]), (56, &b"hello"[..]));
            request.accept(b"welcome", RECEIVE).await
        };
        let options = options();
        let (near, far) = tokio::join!(connect(address, b"hello", RECEIVE, &options), serving);
        let (near, far) = (near.expect("a connection"), far.expect("a connection"));
        assert_eq!((near.info().private_data.len(), &near.info().private_data[..7]), (56, &b"welcome"[..]));
        assert_eq!(near.info().peer, Some(address));
        assert_eq!((near.info().reads_out, far.info().reads_out), (8, 8));
    });
}

#[test]
fn who_is_refused_hears_why() {
    with(Settings { filled_up: 0, ..Settings::CARD }, async |_| {
        let (listener, address) = listening().await;
        let serving = async { listener.accept().await.expect("a peer").reject(b"too many").await };
        let options = options();
        let (near, far) = tokio::join!(connect(address, b"", RECEIVE, &options), serving);
        far.expect("it was refused");
        let Err(ConnectError::Refused { private_data }) = near else { panic!("not refused") };
        assert_eq!(private_data, b"too many"[..]);
        // A request that nobody answers is refused, too.
        let dropping = async { drop(listener.accept().await.expect("a peer")) };
        let (near, ()) = tokio::join!(connect(address, b"", RECEIVE, &options), dropping);
        assert!(matches!(near, Err(ConnectError::Refused { .. })), "{near:?}");
    });
}

#[test]
fn where_no_device_or_nobody_is_there_is_no_connection() {
    with(Settings::CARD, async |_| {
        let options = options();
        for elsewhere in [(NOBODY, 20_049), (std::net::Ipv4Addr::LOCALHOST, 20_049)] {
            let near = connect(elsewhere.into(), b"", RECEIVE, &options).await;
            assert!(matches!(near, Err(ConnectError::NoDevice(_))), "{near:?}");
        }
        let (listener, address) = listening().await;
        drop(listener);
        let near = connect(address, b"", RECEIVE, &options).await;
        assert!(matches!(near, Err(ConnectError::Refused { .. })), "{near:?}");
        assert!(serves(address) && !serves((NOBODY, 0).into()));
    });
}

#[test]
fn the_devices_of_the_machine_are_told() {
    with(Settings::CARD, async |_| {
        let found = devices().expect("a list");
        let [device] = &found[..] else { panic!("{found:?}") };
        assert_eq!((&device.name[..], &device.guid[..]), ("fake0", "0102030405060708"));
        assert!(device.windows && !device.iwarp && device.ports[0].active);
        assert_eq!((device.ports.len(), device.ports[0].gids.len()), (1, 1));
    });
}

/// Whoever gives up, at whatever point of connecting, leaves nothing behind.
#[test]
fn what_is_dropped_while_it_connects_is_gone() {
    let mut all = None;
    for steps in 0.. {
        for near_first in [true, false] {
            with(Settings::CARD, async |_| {
                let (listener, address) = listening().await;
                let options = options();
                let mut near = Box::pin(connect(address, b"", RECEIVE, &options));
                let mut far =
                    Box::pin(async { listener.accept().await.expect("a peer").accept(b"", RECEIVE).await });
                let (mut near_done, mut far_done) = (None, None);
                for step in 0..steps {
                    // The reactor has its turn.
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    if step % 2 == 0 && near_done.is_none() {
                        near_done = ready(poll_once(near.as_mut()));
                    } else if step % 2 == 1 && far_done.is_none() {
                        far_done = ready(poll_once(far.as_mut()));
                    }
                }
                if near_done.is_some() && far_done.is_some() {
                    all = Some(steps);
                }
                if near_first {
                    drop((near, near_done));
                }
            });
        }
        if all.is_some() {
            break;
        }
    }
    assert!(all >= Some(6), "both ends waited less often than they have to: {all:?}");
}

fn ready<T>(polled: Poll<T>) -> Option<T> {
    match polled {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}

#[test]
fn what_was_accepted_and_does_not_come_about_is_given_up() {
    with(Settings::CARD, async |device| {
        device.faults(|faults| faults.never_established = true);
        let (listener, address) = listening().await;
        let options = Options { connect_timeout: Duration::from_secs(30), ..options() };
        let serving = async { listener.accept().await.expect("a peer").accept(b"", RECEIVE).await };
        let (near, far) = tokio::join!(connect(address, b"", RECEIVE, &options), serving);
        // The end that accepts has less time, so it is the first.
        assert!(matches!(far, Err(ConnectError::Timeout { .. })), "{far:?}");
        assert!(matches!(near, Err(ConnectError::Refused { .. })), "{near:?}");
    });
}

/// Each call of the libraries that may fail does so once: there is an error or a connection, and nothing is left behind.
#[test]
fn any_call_may_fail() {
    let mut failed = 0;
    for call in 1.. {
        let mut all = 0;
        with(Settings::CARD, async |device| {
            device.faults(|faults| faults.failing_call = Some(call));
            let options = Options { connect_timeout: Duration::from_secs(20), ..options() };
            let Ok(listener) = Listener::bind(any_port(), options).await else {
                failed += 1;
                all = call;
                return;
            };
            let address = listener.local_addr().expect("an address");
            let serving = async { listener.accept().await.expect("a peer").accept(b"", RECEIVE).await };
            let mut serving = Box::pin(serving);
            let mut connecting = Box::pin(connect(address, b"", RECEIVE, &options));
            let (near, far) = tokio::select! {
                near = &mut connecting => match near {
                    Ok(near) => (Some(near), serving.await.ok()),
                    Err(_) => (None, None),
                },
                far = &mut serving => (connecting.await.ok(), far.ok()),
            };
            if near.is_none() || far.is_none() {
                failed += 1;
            }
            all = device.calls();
        });
        if all < call {
            break;
        }
    }
    assert!(failed > 15, "only {failed} calls that failed were noticed");
}
