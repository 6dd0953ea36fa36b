//! Messages, RDMA Reads and RDMA Writes.

use std::time::Duration;

use super::*;

#[test]
fn messages_of_all_sizes_are_sent_in_both_directions() {
    with(Settings::CARD, async |_| {
        let (mut local, mut peer) = connected(&options()).await;
        // In this order: an inline message, a copied message, a registered message, a partly registered
        // message, a message that has too many parts for one request, and an empty message.
        for pieces in
            [vec![20], vec![100, 300], vec![15_000], vec![100, 9000, 200, 5000], vec![3000; 6], vec![]]
        {
            let message: Vec<Bytes> =
                pieces.iter().zip(1..).map(|(len, seed)| octets(*len, seed).into()).collect();
            let whole = message.concat();
            send(&mut local, message.clone(), None).await;
            assert!(receive(&mut peer).await == (whole.clone().into(), None), "{pieces:?}");
            send(&mut peer, message, None).await;
            assert!(receive(&mut local).await == (whole.into(), None), "{pieces:?}");
            local.submit(Action::PostReceives { count: 1 });
            peer.submit(Action::PostReceives { count: 1 });
        }
    });
}

/// The verbs API does not report the inline limit, so the provider tries successively smaller values.
#[test]
fn the_inline_limit_of_the_device_is_respected() {
    for (inline, shorter) in [(0, 0), (40, 1), (300, 4)] {
        with(Settings { max_inline: inline, ..Settings::CARD }, async |device| {
            let (mut local, mut peer) = connected(&VerbsOptions { inline: 300, ..options() }).await;
            for len in [30, 40, 41, 300, 301] {
                peer.submit(Action::PostReceives { count: 1 });
                send(&mut local, vec![octets(len, 1).into()], None).await;
                assert!(receive(&mut peer).await.0 == octets(len, 1));
            }
            assert_eq!(device.inlined(), shorter);
        });
    }
}

#[test]
fn a_waiting_connection_is_woken() {
    with(Settings::CARD, async |_| {
        let (mut local, mut peer) = connected(&options()).await;
        for seed in 0..3 {
            let (message, answer) = (octets(100, seed), octets(200, seed));
            let local = async {
                assert!(poll_once(next(&mut local)).is_pending());
                send(&mut local, vec![message.clone().into()], None).await;
                assert!(receive(&mut local).await.0 == answer);
            };
            let peer = async {
                assert!(receive(&mut peer).await.0 == message);
                tokio::task::yield_now().await;
                send(&mut peer, vec![answer.clone().into()], None).await;
            };
            // The server waits first, and then the client.
            tokio::join!(peer, local);
        }
    });
}

#[test]
fn work_is_posted_without_polling() {
    for settings in [Settings::CARD, PLAIN] {
        with(settings, async |device| {
            let (mut local, mut peer) = connected(&options()).await;
            assert!(local.try_flush() && local.try_completion().is_none());
            local.submit(Action::Register { token: Token(2), memory: sink(500) });
            let Some(Completion::Registered { segment, .. }) = local.try_completion() else {
                panic!("not registered")
            };
            let message = vec![Bytes::from_static(b"registered")];
            local.submit(Action::Send { token: Token(1), message, invalidate: None });
            assert!(local.try_flush());
            assert_eq!(receive(&mut peer).await.0, b"registered"[..]);
            write(&mut peer, segment, octets(500, 1)).await;
            device.faults(|faults| faults.fail_sends = true);
            local.submit(Action::Send { token: Token(1), message: vec![Bytes::new()], invalidate: None });
            assert!(!local.try_flush());
            let (reason, returned) = closed(&mut local).await;
            assert!(matches!(reason, CloseReason::Io(_)) && returned == [octets(500, 1)], "{reason:?}");
            assert!(!local.try_flush() && local.try_completion().is_none());
        });
    }
}

/// `try_flush` returns false if the connection must still be polled.
#[test]
fn work_that_cannot_be_posted_at_once_needs_polling() {
    with(Settings::CARD, async |device| {
        let (mut local, mut peer) = connected(&options()).await;
        local.submit(Action::Register { token: Token(2), memory: sink(crate::objects::LONG) });
        assert!(!local.try_flush() && local.try_completion().is_none());
        assert!(matches!(next(&mut local).await, Completion::Registered { .. }));
        assert!(local.try_flush());
        device.faults(|faults| faults.stalled = true);
        for number in 0..9 {
            let message = vec![Bytes::from(octets(50, number))];
            local.submit(Action::Send { token: Token(number.into()), message, invalidate: None });
        }
        assert!(!local.try_flush());
        device.resume();
        peer.submit(Action::PostReceives { count: 5 });
        for number in 0..9 {
            assert!(receive_while(&mut peer, &mut local).await == octets(50, number));
        }
        local.submit(Action::Close { reason: CloseReason::Local });
        assert!(!local.try_flush());
        let (mut spinning, _peer) =
            connected(&VerbsOptions { spin: Duration::from_secs(1), ..options() }).await;
        assert!(!spinning.try_flush());
    });
}

/// The completion arrives between the last poll and the arming of the completion queue.
#[test]
fn a_completion_before_arming_the_queue_is_not_missed() {
    with(Settings::CARD, async |device| {
        let (mut local, mut peer) = connected(&options()).await;
        device.faults(|faults| (faults.stalled, faults.late_completions) = (true, true));
        send(&mut local, vec![Bytes::from_static(b"late")], None).await;
        assert_eq!(receive(&mut peer).await.0, b"late"[..]);
    });
}

/// Buffers without other references are reused.
#[test]
fn consecutive_reads_return_the_current_data() {
    for settings in [Settings::CARD, Settings { iwarp: true, ..PLAIN }] {
        with(settings, async |_| {
            let (mut local, mut peer) = connected(&options()).await;
            let mut held = Bytes::new();
            for seed in 0..4 {
                let segment = advertise(&mut local, &mut peer, source(65_536, seed)).await;
                peer.submit(Action::PostReceives { count: 1 });
                let data = read(&mut peer, segment).await;
                assert!(data == octets(65_536, seed), "{seed}");
                assert!(held.is_empty() || held == octets(65_536, 1), "{seed}");
                if seed == 1 {
                    held = data;
                }
                fence(&mut local, segment).await;
            }
        });
    }
}

/// On siw, a peer may respond with less data than requested.
#[test]
fn a_short_read_on_iwarp_does_not_disclose_data_of_another_connection() {
    with(Settings { iwarp: true, ..PLAIN }, async |device| {
        let (mut other_local, mut other_peer) = connected(&options()).await;
        let segment = advertise(&mut other_local, &mut other_peer, source(65_536, 2)).await;
        for _ in 0..2 {
            assert!(read(&mut other_peer, segment).await == octets(65_536, 2));
        }
        let (mut local, mut peer) = connected(&options()).await;
        let segment = advertise(&mut local, &mut peer, source(65_536, 1)).await;
        device.faults(|faults| faults.short_reads = true);
        let half = read(&mut peer, segment).await;
        assert!(half[..32_768] == octets(65_536, 1)[..32_768]);
        assert!(half[32_768..].iter().all(|octet| *octet == 0));
    });
}

/// After a short RDMA Read, the unwritten part of the buffer keeps its previous content.
#[test]
fn a_connection_on_iwarp_reuses_its_own_buffers() {
    with(Settings { iwarp: true, ..PLAIN }, async |device| {
        let (mut local, mut peer) = connected(&options()).await;
        let first = advertise(&mut local, &mut peer, source(65_536, 1)).await;
        let second = advertise(&mut local, &mut peer, source(65_536, 2)).await;
        assert!(read(&mut peer, first).await == octets(65_536, 1));
        device.faults(|faults| faults.short_reads = true);
        let half = read(&mut peer, second).await;
        assert!(half[..32_768] == octets(65_536, 2)[..32_768]);
        assert!(half[32_768..] == octets(65_536, 1)[32_768..]);
        // The buffer is cached until the connection is dropped.
        assert!(!half.is_unique());
        drop(peer);
        assert!(half.is_unique());
    });
}

/// Fewer completions need fewer queue entries and polls.
#[test]
fn messages_of_one_batch_have_one_completion() {
    with(Settings::CARD, async |device| {
        let (mut local, mut peer) = connected(&options()).await;
        let before = device.signaled();
        for number in 0..4 {
            let message = vec![Bytes::from(octets(50, number))];
            local.submit(Action::Send { token: Token(number.into()), message, invalidate: None });
        }
        for number in 0..4 {
            let done = next(&mut local).await;
            assert!(matches!(done, Completion::Sent { token } if token == Token(number)), "{done:?}");
        }
        assert_eq!(device.signaled() - before, 1);
        for number in 0..4 {
            assert!(receive(&mut peer).await.0 == octets(50, number));
        }
    });
}

#[test]
fn messages_beyond_the_send_queue_capacity_wait() {
    with(Settings::CARD, async |device| {
        let (mut local, mut peer) = connected(&options()).await;
        device.faults(|faults| faults.stalled = true);
        for number in 0..12 {
            let message = vec![Bytes::from(octets(50, number))];
            local.submit(Action::Send { token: Token(number.into()), message, invalidate: None });
        }
        assert!(poll_once(next(&mut local)).is_pending());
        device.resume();
        for number in 0..12 {
            // The peer starts with four Receives and requests one more for each further message.
            if number >= 4 {
                peer.submit(Action::PostReceives { count: 1 });
            }
            assert!(receive_while(&mut peer, &mut local).await == octets(50, number));
        }
    });
}

async fn receive_while(peer: &mut VerbsConnection, local: &mut VerbsConnection) -> Bytes {
    loop {
        tokio::select! {
            biased;
            message = receive(peer) => return message.0,
            done = next(local) => assert!(matches!(done, Completion::Sent { .. }), "{done:?}"),
        }
    }
}

#[test]
fn memory_is_read_and_written() {
    let iwarp = Settings { iwarp: true, ..PLAIN };
    for settings in [Settings::CARD, PLAIN, iwarp] {
        with(settings, async |device| {
            let (mut local, mut peer) = connected(&options()).await;
            let source_segment = advertise(&mut local, &mut peer, source(10_000, 1)).await;
            let sink_segment = advertise(&mut local, &mut peer, sink(12_000)).await;
            assert_eq!(device.memory().1, if settings.windows > 0 { 2 } else { 0 });
            assert!(read(&mut peer, source_segment).await == octets(10_000, 1));
            let part = Segment { length: 100, offset: source_segment.offset + 700, ..source_segment };
            assert!(read(&mut peer, part).await == octets(800, 1)[700..]);
            write(&mut peer, sink_segment, octets(12_000, 2)).await;
            let part = Segment { length: 100, offset: sink_segment.offset + 50, ..sink_segment };
            write(&mut peer, part, octets(100, 3)).await;
            let (mut expected, with) = (octets(12_000, 2), octets(100, 3));
            expected[50..150].copy_from_slice(&with);
            assert!(fence(&mut local, sink_segment).await == expected);
            assert!(fence(&mut local, source_segment).await == octets(10_000, 1));
            assert_eq!(device.memory().1, 0);
        });
    }
}

#[test]
fn transfers_longer_than_a_message_are_split() {
    with(Settings { max_message: 3000, ..Settings::CARD }, async |_| {
        let (mut local, mut peer) = connected(&options()).await;
        let source_segment = advertise(&mut local, &mut peer, source(10_000, 1)).await;
        let sink_segment = advertise(&mut local, &mut peer, sink(20_000)).await;
        assert!(read(&mut peer, source_segment).await == octets(10_000, 1));
        write(&mut peer, sink_segment, octets(20_000, 2)).await;
        assert!(fence(&mut local, sink_segment).await == octets(20_000, 2));
    });
}

#[test]
fn long_memory_is_registered_by_another_thread() {
    const LONG: usize = crate::objects::LONG;
    for settings in [Settings::CARD, PLAIN, Settings { iwarp: true, ..PLAIN }] {
        with(Settings { max_message: 1 << 30, ..settings }, async |_| {
            let (mut local, mut peer) = connected(&options()).await;
            let sink_segment = advertise(&mut local, &mut peer, sink(LONG)).await;
            write(&mut peer, sink_segment, octets(LONG, 1)).await;
            assert!(read_back(&mut local, &mut peer, sink_segment).await == octets(LONG, 1));
        });
    }
}

/// Only the last RDMA Read into a region returns data: the whole region, without a copy. A region that is not
/// filled is dropped.
#[test]
fn rdma_reads_of_one_region_fill_it_in_place() {
    for settings in
        [Settings::CARD, Settings { iwarp: true, ..PLAIN }, Settings { max_message: 1000, ..PLAIN }]
    {
        with(settings, async |_| {
            let (mut local, mut peer) = connected(&options()).await;
            let segment = advertise(&mut local, &mut peer, source(9000, 1)).await;
            // The first region gets only one of its parts.
            let parts = [(0, 1500), (0, 3000), (3000, 5), (3005, 1995), (5000, 4000)];
            for (token, (offset, length)) in (10..).map(Token).zip(parts) {
                let source = Segment { length, offset: segment.offset + offset, ..segment };
                peer.submit(Action::Read { token, source, part: RegionPart { offset, total: 9000 } });
            }
            for token in (10..14).map(Token) {
                let done = next(&mut peer).await;
                assert!(
                    matches!(&done, Completion::ReadDone { token: done, data } if *done == token && data.is_empty()),
                    "{done:?}"
                );
            }
            let Completion::ReadDone { token: Token(14), data } = next(&mut peer).await else {
                panic!("not read")
            };
            assert!(data == octets(9000, 1));
            // An RDMA Read that neither starts nor continues a region fails.
            let part = RegionPart { offset: 100, total: 9000 };
            peer.submit(Action::Read { token: Token(15), source: Segment { length: 8900, ..segment }, part });
            let (reason, _) = closed(&mut peer).await;
            assert!(matches!(reason, CloseReason::Io(_)), "{reason:?}");
        });
    }
}

async fn read_back(local: &mut VerbsConnection, peer: &mut VerbsConnection, sink_segment: Segment) -> Bytes {
    let written = fence(local, sink_segment).await;
    let source_segment = advertise(local, peer, Memory::Source(written.into())).await;
    read(peer, source_segment).await
}

#[test]
fn access_to_fenced_memory_or_without_the_right_closes_the_connection() {
    for settings in [Settings::CARD, PLAIN] {
        for (memory, reads) in [(sink(500), true), (source(500, 1), false)] {
            with(settings, async |_| {
                let (mut local, mut peer) = connected(&options()).await;
                let segment = advertise(&mut local, &mut peer, memory).await;
                if reads {
                    peer.submit(Action::read(Token(4), segment));
                } else {
                    peer.submit(Action::Write { token: Token(3), sink: segment, data: vec![7; 500].into() });
                }
                let (reason, _) = closed(&mut peer).await;
                assert!(matches!(reason, CloseReason::Terminated { etype: 1, .. }), "{reason:?}");
                let (_, returned) = closed(&mut local).await;
                assert!(returned == [if reads { vec![0; 500] } else { octets(500, 1) }]);
            });
        }
        with(settings, async |_| {
            let (mut local, mut peer) = connected(&options()).await;
            let segment = advertise(&mut local, &mut peer, sink(500)).await;
            assert!(fence(&mut local, segment).await == vec![0; 500]);
            peer.submit(Action::Write { token: Token(3), sink: segment, data: vec![7; 500].into() });
            let (reason, _) = closed(&mut peer).await;
            assert!(matches!(reason, CloseReason::Terminated { etype: 1, .. }), "{reason:?}");
        });
    }
}

#[test]
fn a_message_longer_than_a_receive_closes_the_connection() {
    with(Settings::CARD, async |_| {
        let (mut local, mut peer) = connected(&options()).await;
        let message = vec![Bytes::from(octets(25_000, 1))];
        local.submit(Action::Send { token: Token(1), message, invalidate: None });
        let (reason, _) = closed(&mut local).await;
        assert!(matches!(reason, CloseReason::Terminated { etype: 2, .. }), "{reason:?}");
        let (reason, _) = closed(&mut peer).await;
        assert!(matches!(reason, CloseReason::Violation(_)), "{reason:?}");
    });
}
