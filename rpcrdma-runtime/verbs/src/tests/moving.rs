//! Messages, RDMA Reads and RDMA Writes.

use super::*;

#[test]
fn messages_go_both_ways_short_and_long_and_in_pieces() {
    with(Settings::CARD, async |_| {
        let (mut near, mut far) = connected(&options()).await;
        // Inline, copied, from where it is, copied and from where it is, and in more pieces than a request has.
        for pieces in
            [vec![20], vec![100, 300], vec![15_000], vec![100, 9000, 200, 5000], vec![3000; 6], vec![]]
        {
            let message: Vec<Bytes> =
                pieces.iter().zip(1..).map(|(len, seed)| octets(*len, seed).into()).collect();
            let whole = message.concat();
            send(&mut near, message.clone(), None).await;
            assert!(receive(&mut far).await == (whole.clone().into(), None), "{pieces:?}");
            send(&mut far, message, None).await;
            assert!(receive(&mut near).await == (whole.into(), None), "{pieces:?}");
            near.submit(Action::PostReceives { count: 1 });
            far.submit(Action::PostReceives { count: 1 });
        }
    });
}

/// No device says how much it takes along with a request.
#[test]
fn a_device_that_takes_less_inline_is_asked_for_less() {
    for (inline, shorter) in [(0, 0), (40, 1), (300, 4)] {
        with(Settings { inline, ..Settings::CARD }, async |device| {
            let (mut near, mut far) = connected(&Options { inline: 300, ..options() }).await;
            for len in [30, 40, 41, 300, 301] {
                far.submit(Action::PostReceives { count: 1 });
                send(&mut near, vec![octets(len, 1).into()], None).await;
                assert!(receive(&mut far).await.0 == octets(len, 1));
            }
            assert_eq!(device.inlined(), shorter);
        });
    }
}

#[test]
fn an_end_that_waits_is_woken() {
    with(Settings::CARD, async |_| {
        let (mut near, mut far) = connected(&options()).await;
        for seed in 0..3 {
            let (message, answer) = (octets(100, seed), octets(200, seed));
            let near = async {
                assert!(poll_once(next(&mut near)).is_pending());
                send(&mut near, vec![message.clone().into()], None).await;
                assert!(receive(&mut near).await.0 == answer);
            };
            let far = async {
                assert!(receive(&mut far).await.0 == message);
                tokio::task::yield_now().await;
                send(&mut far, vec![answer.clone().into()], None).await;
            };
            // The far one waits first, and then the near one.
            tokio::join!(far, near);
        }
    });
}

/// Between the last look and the request to be woken there is a moment.
#[test]
fn what_is_complete_just_before_the_end_asks_to_be_woken_is_not_lost() {
    with(Settings::CARD, async |device| {
        let (mut near, mut far) = connected(&options()).await;
        device.faults(|faults| (faults.idle, faults.late) = (true, true));
        send(&mut near, vec![Bytes::from_static(b"late")], None).await;
        assert_eq!(receive(&mut far).await.0, b"late"[..]);
    });
}

/// Memory is used again for that, if nobody has it any more.
#[test]
fn what_is_read_one_after_the_other_is_each_time_what_is_there() {
    for settings in [Settings::CARD, Settings { iwarp: true, ..PLAIN }] {
        with(settings, async |_| {
            let (mut near, mut far) = connected(&options()).await;
            let mut held = Bytes::new();
            for seed in 0..4 {
                let segment = advertise(&mut near, &mut far, source(65_536, seed)).await;
                far.submit(Action::PostReceives { count: 1 });
                let data = read(&mut far, segment).await;
                assert!(data == octets(65_536, seed), "{seed}");
                assert!(held.is_empty() || held == octets(65_536, 1), "{seed}");
                if seed == 1 {
                    held = data;
                }
                fence(&mut near, segment).await;
            }
        });
    }
}

/// As with siw, whose peer answers with less.
#[test]
fn what_did_not_come_on_iwarp_is_not_what_another_connection_has_read() {
    with(Settings { iwarp: true, ..PLAIN }, async |device| {
        let (mut other, mut others) = connected(&options()).await;
        let segment = advertise(&mut other, &mut others, source(65_536, 2)).await;
        for _ in 0..2 {
            assert!(read(&mut others, segment).await == octets(65_536, 2));
        }
        let (mut near, mut far) = connected(&options()).await;
        let segment = advertise(&mut near, &mut far, source(65_536, 1)).await;
        device.faults(|faults| faults.reads_half = true);
        let half = read(&mut far, segment).await;
        assert!(half[..32_768] == octets(65_536, 1)[..32_768]);
        assert!(half[32_768..].iter().all(|octet| *octet == 0));
    });
}

/// What does not come shows what was there.
#[test]
fn a_connection_on_iwarp_fills_again_what_it_has_read_into_itself() {
    with(Settings { iwarp: true, ..PLAIN }, async |device| {
        let (mut near, mut far) = connected(&options()).await;
        let first = advertise(&mut near, &mut far, source(65_536, 1)).await;
        let second = advertise(&mut near, &mut far, source(65_536, 2)).await;
        assert!(read(&mut far, first).await == octets(65_536, 1));
        device.faults(|faults| faults.reads_half = true);
        let half = read(&mut far, second).await;
        assert!(half[..32_768] == octets(65_536, 2)[..32_768]);
        assert!(half[32_768..] == octets(65_536, 1)[32_768..]);
        // It is kept for as long as the connection lives.
        assert!(!half.is_unique());
        drop(far);
        assert!(half.is_unique());
    });
}

/// Each completion costs an entry of the queue, and a look at it.
#[test]
fn messages_that_leave_together_have_one_completion() {
    with(Settings::CARD, async |device| {
        let (mut near, mut far) = connected(&options()).await;
        let before = device.signaled();
        for number in 0..4 {
            let message = vec![Bytes::from(octets(50, number))];
            near.submit(Action::Send { token: Token(number.into()), message, invalidate: None });
        }
        for number in 0..4 {
            let done = next(&mut near).await;
            assert!(matches!(done, Completion::Sent { token } if token == Token(number)), "{done:?}");
        }
        assert_eq!(device.signaled() - before, 1);
        for number in 0..4 {
            assert!(receive(&mut far).await.0 == octets(50, number));
        }
    });
}

#[test]
fn many_messages_wait_for_their_turn() {
    with(Settings::CARD, async |device| {
        let (mut near, mut far) = connected(&options()).await;
        device.faults(|faults| faults.idle = true);
        for number in 0..12 {
            let message = vec![Bytes::from(octets(50, number))];
            near.submit(Action::Send { token: Token(number.into()), message, invalidate: None });
        }
        assert!(poll_once(next(&mut near)).is_pending());
        device.go_on();
        for number in 0..12 {
            // The peer has four Receives, and posts one for each that it has.
            if number >= 4 {
                far.submit(Action::PostReceives { count: 1 });
            }
            assert!(receive_while(&mut far, &mut near).await == octets(50, number));
        }
    });
}

/// The next message, while the other end goes on with what it has to send.
async fn receive_while(far: &mut VerbsConnection, near: &mut VerbsConnection) -> Bytes {
    loop {
        tokio::select! {
            biased;
            message = receive(far) => return message.0,
            done = next(near) => assert!(matches!(done, Completion::Sent { .. }), "{done:?}"),
        }
    }
}

/// With windows and without, on both kinds of devices.
#[test]
fn memory_is_read_and_written() {
    let iwarp = Settings { iwarp: true, ..PLAIN };
    for settings in [Settings::CARD, PLAIN, iwarp] {
        with(settings, async |device| {
            let (mut near, mut far) = connected(&options()).await;
            let given = advertise(&mut near, &mut far, source(10_000, 1)).await;
            let wanted = advertise(&mut near, &mut far, sink(12_000)).await;
            assert_eq!(device.memory().1, if settings.windows > 0 { 2 } else { 0 });
            assert!(read(&mut far, given).await == octets(10_000, 1));
            let part = Segment { length: 100, offset: given.offset + 700, ..given };
            assert!(read(&mut far, part).await == octets(800, 1)[700..]);
            write(&mut far, wanted, octets(12_000, 2)).await;
            let part = Segment { length: 100, offset: wanted.offset + 50, ..wanted };
            write(&mut far, part, octets(100, 3)).await;
            let (mut expected, with) = (octets(12_000, 2), octets(100, 3));
            expected[50..150].copy_from_slice(&with);
            assert!(fence(&mut near, wanted).await == expected);
            assert!(fence(&mut near, given).await == octets(10_000, 1));
            assert_eq!(device.memory().1, 0);
        });
    }
}

#[test]
fn what_is_longer_than_a_message_of_the_port_goes_in_parts() {
    with(Settings { message: 3000, ..Settings::CARD }, async |_| {
        let (mut near, mut far) = connected(&options()).await;
        let given = advertise(&mut near, &mut far, source(10_000, 1)).await;
        let wanted = advertise(&mut near, &mut far, sink(20_000)).await;
        assert!(read(&mut far, given).await == octets(10_000, 1));
        write(&mut far, wanted, octets(20_000, 2)).await;
        assert!(fence(&mut near, wanted).await == octets(20_000, 2));
    });
}

/// Memory of megabytes is registered, and let go of, by other threads.
#[test]
fn long_memory_is_registered_by_another_thread() {
    const LONG: usize = crate::objects::LONG;
    for settings in [Settings::CARD, PLAIN, Settings { iwarp: true, ..PLAIN }] {
        with(Settings { message: 1 << 30, ..settings }, async |_| {
            let (mut near, mut far) = connected(&options()).await;
            let wanted = advertise(&mut near, &mut far, sink(LONG)).await;
            write(&mut far, wanted, octets(LONG, 1)).await;
            assert!(read_back(&mut near, &mut far, wanted).await == octets(LONG, 1));
        });
    }
}

/// What was written, by way of a second piece of memory that the peer reads.
async fn read_back(near: &mut VerbsConnection, far: &mut VerbsConnection, wanted: Segment) -> Bytes {
    let written = fence(near, wanted).await;
    let given = advertise(near, far, Memory::Source(written.into())).await;
    read(far, given).await
}

#[test]
fn who_reaches_for_what_is_fenced_or_not_allowed_loses_the_connection() {
    for settings in [Settings::CARD, PLAIN] {
        for (wanted, reads) in [(sink(500), true), (source(500, 1), false)] {
            with(settings, async |_| {
                let (mut near, mut far) = connected(&options()).await;
                let segment = advertise(&mut near, &mut far, wanted).await;
                if reads {
                    far.submit(Action::Read { token: Token(4), source: segment });
                } else {
                    far.submit(Action::Write { token: Token(3), sink: segment, data: vec![7; 500].into() });
                }
                let (reason, _) = closed(&mut far).await;
                assert!(matches!(reason, CloseReason::Terminated { etype: 1, .. }), "{reason:?}");
                let (_, returned) = closed(&mut near).await;
                assert!(returned == [if reads { vec![0; 500] } else { octets(500, 1) }]);
            });
        }
        with(settings, async |_| {
            let (mut near, mut far) = connected(&options()).await;
            let segment = advertise(&mut near, &mut far, sink(500)).await;
            assert!(fence(&mut near, segment).await == vec![0; 500]);
            far.submit(Action::Write { token: Token(3), sink: segment, data: vec![7; 500].into() });
            let (reason, _) = closed(&mut far).await;
            assert!(matches!(reason, CloseReason::Terminated { etype: 1, .. }), "{reason:?}");
        });
    }
}

#[test]
fn a_message_longer_than_a_receive_ends_the_connection() {
    with(Settings::CARD, async |_| {
        let (mut near, mut far) = connected(&options()).await;
        let message = vec![Bytes::from(octets(25_000, 1))];
        near.submit(Action::Send { token: Token(1), message, invalidate: None });
        let (reason, _) = closed(&mut near).await;
        assert!(matches!(reason, CloseReason::Terminated { etype: 2, .. }), "{reason:?}");
        let (reason, _) = closed(&mut far).await;
        assert!(matches!(reason, CloseReason::Violation(_)), "{reason:?}");
    });
}
