//! Devices that refuse: memory, its end, and work.

use std::sync::Mutex;

use super::*;

/// What a device has for ever is never freed, and Miri tells of such memory where nothing leads to it. This does.
static FOR_EVER: Mutex<Vec<Bytes>> = Mutex::new(Vec::new());

/// Octets that a device may keep.
fn for_ever(octets: Vec<u8>) -> Bytes {
    let data = Bytes::from(octets);
    FOR_EVER.lock().expect("nobody panics here").push(data.clone());
    data
}

const KEPT: &str = "the device does not let go of memory";

#[test]
fn without_a_queue_pair_there_is_no_connection() {
    with(Settings::CARD, async |device| {
        let listener = Listener::bind(any_port(), options()).await.expect("a listener");
        let address = listener.local_addr().expect("an address");
        device.faults(|faults| faults.makes_no_queue_pair = true);
        let near = connect(address, b"", RECEIVE, &options()).await;
        assert!(matches!(near, Err(ConnectError::Io { .. })), "{near:?}");
        device.faults(|faults| faults.makes_no_queue_pair = false);
        let options = options();
        let serving = async {
            let request = listener.accept().await.expect("a peer");
            device.faults(|faults| faults.makes_no_queue_pair = true);
            request.accept(b"", RECEIVE).await
        };
        let (near, far) = tokio::join!(connect(address, b"", RECEIVE, &options), serving);
        assert!(matches!(near, Err(ConnectError::Refused { .. })), "{near:?}");
        assert!(matches!(far, Err(ConnectError::Io { .. })), "{far:?}");
    });
}

#[test]
fn memory_that_is_not_registered_comes_back() {
    for settings in [Settings::CARD, PLAIN] {
        with(settings, async |device| {
            let (mut near, mut far) = connected(&options()).await;
            device.faults(|faults| faults.registers_nothing = true);
            for memory in [source(500, 1), sink(500)] {
                let had = contents(&memory).to_vec();
                near.submit(Action::Register { token: Token(7), memory });
                match next(&mut near).await {
                    Completion::RegisterFailed { token: Token(7), memory } => {
                        assert!(contents(&memory) == had);
                    }
                    other => panic!("{other:?}"),
                }
            }
            // The connection goes on: short messages take no more memory once there are slots for them.
            device.faults(|faults| faults.registers_nothing = false);
            send(&mut near, vec![Bytes::from_static(b"still there")], None).await;
            assert_eq!(receive(&mut far).await.0, b"still there"[..]);
        });
    }
}

#[test]
fn work_whose_memory_is_not_registered_ends_the_connection() {
    for work in 0..4 {
        with(Settings::CARD, async |device| {
            let (mut near, mut far) = connected(&options()).await;
            let given = advertise(&mut far, &mut near, source(9000, 1)).await;
            let wanted = advertise(&mut far, &mut near, sink(9000)).await;
            let own = advertise(&mut near, &mut far, sink(700)).await;
            device.faults(|faults| faults.registers_nothing = true);
            near.submit(match work {
                0 => Action::Read { token: Token(1), source: given },
                1 => Action::Write { token: Token(1), sink: wanted, data: octets(9000, 1).into() },
                2 => {
                    Action::Send { token: Token(1), message: vec![octets(9000, 1).into()], invalidate: None }
                }
                // More Receives than there are slots for.
                _ => Action::PostReceives { count: 60 },
            });
            if work < 3 {
                let (reason, returned) = closed(&mut near).await;
                assert!(matches!(reason, CloseReason::Io(_)), "{reason:?}");
                assert!(returned == [vec![0; 700]]);
                assert_eq!(closed(&mut far).await.0, CloseReason::Peer);
            } else {
                write(&mut far, own, vec![1; 700]).await;
            }
        });
    }
}

#[test]
fn memory_of_which_a_device_does_not_let_go_is_never_seen_again() {
    for settings in [Settings::CARD, PLAIN] {
        with(settings, async |device| {
            let (mut near, mut far) = connected(&options()).await;
            let wanted = advertise(&mut near, &mut far, sink(500)).await;
            let other = advertise(&mut near, &mut far, source(600, 1)).await;
            let before = device.kept();
            device.faults(|faults| faults.keeps_memory = true);
            near.submit(Action::Invalidate { token: Token(5), handle: wanted.handle });
            let (reason, returned) = closed(&mut near).await;
            assert_eq!(reason, CloseReason::Io(KEPT.into()));
            assert!(returned.is_empty(), "{other:?}, too, is the device's for ever");
            drop((near, far));
            // What was advertised, and the slots for messages of both ends.
            assert!(device.kept() >= before + 4, "{} pieces", device.kept() - before);
        });
    }
}

#[test]
fn what_was_read_or_sent_is_not_freed_if_the_device_does_not_let_go_of_it() {
    with(Settings::CARD, async |device| {
        let (mut near, mut far) = connected(&options()).await;
        let given = advertise(&mut far, &mut near, source(9000, 1)).await;
        let before = device.kept();
        device.faults(|faults| faults.keeps_memory = true);
        send(&mut near, vec![for_ever(octets(9000, 2))], None).await;
        assert!(receive(&mut far).await.0 == octets(9000, 2));
        assert_eq!(device.kept(), before + 1);
        near.submit(Action::Read { token: Token(4), source: given });
        let (reason, _) = closed(&mut near).await;
        assert_eq!(reason, CloseReason::Io(KEPT.into()));
    });
}

#[test]
fn an_end_that_is_dropped_frees_nothing_that_the_device_has() {
    for settings in [Settings::CARD, PLAIN] {
        with(settings, async |device| {
            let (mut near, mut far) = connected(&options()).await;
            advertise(&mut near, &mut far, sink(500)).await;
            device.faults(|faults| (faults.keeps_memory, faults.idle) = (true, true));
            near.submit(Action::Send {
                token: Token(1),
                message: vec![for_ever(octets(9000, 2))],
                invalidate: None,
            });
            assert!(poll_once(next(&mut near)).is_pending());
        });
    }
}

#[test]
fn work_that_is_refused_ends_the_connection() {
    for settings in [Settings::CARD, PLAIN] {
        with(settings, async |device| {
            let (mut near, mut far) = connected(&options()).await;
            advertise(&mut near, &mut far, sink(500)).await;
            device.faults(|faults| faults.takes_no_work = true);
            near.submit(Action::Send {
                token: Token(1),
                message: vec![octets(9000, 2).into()],
                invalidate: None,
            });
            let (reason, returned) = closed(&mut near).await;
            assert!(matches!(reason, CloseReason::Io(_)), "{reason:?}");
            assert!(returned == [vec![0; 500]]);
            assert_eq!(closed(&mut far).await.0, CloseReason::Peer);
        });
    }
}

/// The device takes the front of what is posted together: that is done, though the connection ends.
#[test]
fn work_behind_what_is_refused_is_not_done() {
    with(Settings::CARD, async |device| {
        let (mut near, mut far) = connected(&options()).await;
        device.faults(|faults| faults.idle = true);
        for seed in 0..3 {
            let message = vec![octets(9000, seed).into()];
            near.submit(Action::Send { token: Token(seed.into()), message, invalidate: None });
        }
        // Each has its memory registered, and then they are posted.
        let calls = device.calls();
        device.faults(|faults| faults.failing_call = Some(calls + 1 + 3 + 2));
        assert!(matches!(closed(&mut near).await.0, CloseReason::Io(_)));
        assert_eq!(closed(&mut far).await.0, CloseReason::Peer);
    });
}

#[test]
fn a_receive_that_is_refused_ends_the_connection() {
    with(Settings::CARD, async |device| {
        let (mut near, mut far) = connected(&options()).await;
        device.faults(|faults| faults.takes_no_receive = true);
        near.submit(Action::PostReceives { count: 3 });
        assert!(matches!(closed(&mut near).await.0, CloseReason::Io(_)));
        assert_eq!(closed(&mut far).await.0, CloseReason::Peer);
    });
}
