//! The end of connections, in whatever order, and of the device.

use std::time::Duration;

use super::*;

/// The kinds of devices.
const KINDS: [Settings; 2] = [Settings::CARD, PLAIN];

fn close(connection: &mut VerbsConnection) {
    connection.submit(Action::Close { reason: CloseReason::Local });
}

#[test]
fn one_end_closes_and_the_other_hears_it() {
    for settings in KINDS {
        for near_first in [true, false] {
            with(settings, async |device| {
                let (mut near, mut far) = connected(&options()).await;
                let wanted = advertise(&mut near, &mut far, sink(500)).await;
                write(&mut far, wanted, octets(500, 1)).await;
                let (first, second) = if near_first { (&mut near, &mut far) } else { (&mut far, &mut near) };
                close(first);
                let (mine, theirs) = tokio::join!(closed(first), closed(second));
                assert_eq!((&mine.0, &theirs.0), (&CloseReason::Local, &CloseReason::Peer));
                let returned = if near_first { mine.1 } else { theirs.1 };
                assert!(returned == [octets(500, 1)]);
                assert_eq!(device.memory(), (0, 0));
                // It was the last completion.
                assert!(poll_once(next(&mut near)).is_pending() && poll_once(next(&mut far)).is_pending());
            });
        }
    }
}

#[test]
fn both_ends_close_at_once() {
    with(Settings::CARD, async |_| {
        let (mut near, mut far) = connected(&options()).await;
        close(&mut near);
        close(&mut far);
        let (mine, theirs) = tokio::join!(closed(&mut near), closed(&mut far));
        assert_eq!((mine.0, theirs.0), (CloseReason::Local, CloseReason::Local));
    });
}

#[test]
fn what_was_asked_for_before_the_end_leaves() {
    with(Settings::CARD, async |device| {
        let (mut near, mut far) = connected(&options()).await;
        device.faults(|faults| faults.idle = true);
        for seed in 0..3 {
            let message = vec![octets(9000, seed).into()];
            near.submit(Action::Send { token: Token(1), message, invalidate: None });
        }
        close(&mut near);
        assert!(poll_once(next(&mut near)).is_pending());
        device.go_on();
        let both = async {
            for seed in 0..3 {
                assert!(receive(&mut far).await.0 == octets(9000, seed));
            }
            closed(&mut far).await.0
        };
        let (mine, theirs) = tokio::join!(closed(&mut near), both);
        assert_eq!((mine.0, theirs), (CloseReason::Local, CloseReason::Peer));
    });
}

#[test]
fn a_peer_that_does_not_answer_the_end_is_not_waited_for() {
    with(Settings::CARD, async |device| {
        let (mut near, mut far) = connected(&options()).await;
        let wanted = advertise(&mut near, &mut far, sink(500)).await;
        device.faults(|faults| faults.end_unanswered = true);
        close(&mut near);
        let (reason, returned) = closed(&mut near).await;
        assert_eq!(reason, CloseReason::Local);
        assert!(returned == [vec![0; 500]]);
        // The peer finds out when it sends: to its device there is nobody.
        drop(near);
        far.submit(Action::Write { token: Token(3), sink: wanted, data: vec![7; 500].into() });
        let (reason, _) = closed(&mut far).await;
        assert!(matches!(reason, CloseReason::Timeout(_)), "{reason:?}");
    });
}

/// Asks for one of everything, of which the device does nothing.
async fn busy(near: &mut VerbsConnection, far: &mut VerbsConnection, device: FakeDevice) {
    let (there, here) = (source(9000, 1), sink(9000));
    let given = advertise(far, near, there).await;
    let wanted = advertise(far, near, here).await;
    let own = advertise(near, far, sink(700)).await;
    advertise(near, far, source(800, 2)).await;
    device.faults(|faults| faults.idle = true);
    near.submit(Action::Read { token: Token(10), source: given });
    near.submit(Action::Write { token: Token(11), sink: wanted, data: octets(9000, 3).into() });
    let message = vec![octets(10, 1).into(), octets(9000, 4).into()];
    near.submit(Action::Send { token: Token(12), message, invalidate: None });
    near.submit(Action::Register { token: Token(13), memory: sink(900) });
    near.submit(Action::Invalidate { token: Token(14), handle: own.handle });
    let mut done = Vec::new();
    while let Poll::Ready(completion) = poll_once(next(near)) {
        done.push(completion);
    }
    // Without windows fencing takes no work.
    let expected = 1 + usize::from(!near.info().remote_invalidation);
    assert_eq!(done.len(), expected, "{done:?}");
}

#[test]
fn an_end_that_is_dropped_in_the_middle_of_work_leaves_nothing() {
    for settings in KINDS {
        for near_first in [true, false] {
            with(settings, async |device| {
                let (mut near, mut far) = connected(&options()).await;
                busy(&mut near, &mut far, device).await;
                let left = if near_first {
                    drop(near);
                    &mut far
                } else {
                    drop(far);
                    &mut near
                };
                device.go_on();
                // Its device may find that nobody answers before the connection manager says so.
                let (reason, _) = closed(left).await;
                assert!(matches!(reason, CloseReason::Peer | CloseReason::Timeout(_)), "{reason:?}");
            });
        }
    }
}

#[test]
fn an_end_that_is_dropped_before_anything_was_asked_for_leaves_nothing() {
    with(Settings::CARD, async |_| {
        let (near, far) = connected(&options()).await;
        drop(far);
        drop(near);
    });
}

/// Memory that is on its way to be advertised, or to be let go of, by another thread.
#[test]
fn an_end_that_is_dropped_while_another_thread_registers_memory_leaves_nothing() {
    const LONG: usize = crate::objects::LONG;
    for settings in KINDS {
        with(Settings { message: 1 << 30, ..settings }, async |_| {
            let (mut near, mut far) = connected(&options()).await;
            let given = advertise(&mut near, &mut far, sink(LONG)).await;
            near.submit(Action::Register { token: Token(1), memory: sink(LONG) });
            near.submit(Action::Invalidate { token: Token(2), handle: given.handle });
            far.submit(Action::Read { token: Token(3), source: given });
            // How far the threads are by now is not known.
            let _ = (poll_once(next(&mut near)), poll_once(next(&mut far)));
            drop(near);
        });
    }
}

#[test]
fn when_the_device_goes_calls_fail_and_memory_comes_back() {
    for settings in KINDS {
        with(settings, async |device| {
            let (mut near, mut far) = connected(&options()).await;
            busy(&mut near, &mut far, device).await;
            device.goes();
            for end in [&mut near, &mut far] {
                let (reason, returned) = closed(end).await;
                assert_eq!(reason, CloseReason::Io("the RDMA device is gone".into()));
                // Without windows one piece of the near end was fenced before.
                assert!(returned.len() >= 2, "{} pieces", returned.len());
            }
            assert_eq!(device.memory().1, 0);
        });
    }
}

#[test]
fn when_the_address_changes_calls_fail_and_memory_comes_back() {
    for settings in KINDS {
        with(settings, async |device| {
            let (mut near, mut far) = connected(&options()).await;
            busy(&mut near, &mut far, device).await;
            device.changes_its_address();
            for end in [&mut near, &mut far] {
                let (reason, returned) = closed(end).await;
                assert_eq!(reason, CloseReason::Io("the network device has another address now".into()));
                assert!(returned.len() >= 2, "{} pieces", returned.len());
            }
            assert_eq!(device.memory(), (0, 0));
        });
    }
}

#[test]
fn a_listener_comes_back_with_its_device_and_stays_when_the_address_changes() {
    with(Settings::CARD, async |device| {
        let listener = Listener::bind(any_port(), options()).await.expect("a listener");
        let address = listener.local_addr().expect("an address");
        let options = options();
        device.changes_its_address();
        device.goes();
        let later = async {
            tokio::time::sleep(Duration::from_secs(2)).await;
            let near = connect(address, b"", RECEIVE, &options).await;
            assert!(matches!(near, Err(ConnectError::NoDevice(_))), "{near:?}");
            device.comes_back();
            tokio::time::sleep(Duration::from_secs(2)).await;
            connect(address, b"", RECEIVE, &options).await
        };
        let serving = async { listener.accept().await.expect("a peer").accept(b"", RECEIVE).await };
        let (near, far) = tokio::join!(later, serving);
        let (mut near, mut far) = (near.expect("a connection"), far.expect("a connection"));
        send(&mut near, vec![Bytes::from_static(b"again")], None).await;
        assert_eq!(receive(&mut far).await.0, b"again"[..]);
    });
}

#[test]
fn when_the_device_goes_while_an_end_connects_that_fails() {
    with(Settings::CARD, async |device| {
        let listener = Listener::bind(any_port(), options()).await.expect("a listener");
        let address = listener.local_addr().expect("an address");
        let options = options();
        let going = async {
            let request = listener.accept().await.expect("a peer");
            device.goes();
            request.accept(b"", RECEIVE).await
        };
        let (near, far) = tokio::join!(connect(address, b"", RECEIVE, &options), going);
        assert!(near.is_err() && far.is_err(), "{near:?}, {far:?}");
    });
}
