//! Explains pcap and pcapng files with the same traffic over several link types, and files with late,
//! duplicate and missing packets.

use rpcrdma_tools::explain::{Trace, read};

use super::{captured, framing, redacted, short};

/// Returns the times and IP packets of a capture that this project's client wrote.
fn packets(capture: &[u8]) -> Vec<(u32, u32, Vec<u8>)> {
    let (mut rest, mut packets) = (&capture[24..], Vec::new());
    while let Some((head, after)) = rest.split_first_chunk::<16>() {
        let word = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().unwrap());
        let (packet, next) = after.split_at(word(8) as usize);
        packets.push((word(0), word(4), packet.to_vec()));
        rest = next;
    }
    packets
}

fn pcap(link: u32, packets: &[(u32, u32, Vec<u8>)]) -> Vec<u8> {
    let mut file = Vec::new();
    file.extend(0xa1b2_3c4du32.to_be_bytes());
    file.extend([0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0]);
    file.extend(262_144u32.to_be_bytes());
    file.extend(link.to_be_bytes());
    for (seconds, nanos, packet) in packets {
        let len = packet.len() as u32;
        for word in [*seconds, *nanos, len, len] {
            file.extend(word.to_be_bytes());
        }
        file.extend(packet);
    }
    file
}

/// Returns a little-endian pcapng block.
fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    let padded = body.len().next_multiple_of(4);
    let len = (padded + 12) as u32;
    let mut block = Vec::new();
    block.extend(kind.to_le_bytes());
    block.extend(len.to_le_bytes());
    block.extend(body);
    block.resize(8 + padded, 0);
    block.extend(len.to_le_bytes());
    block
}

fn pcapng(link: u16, packets: &[(u32, u32, Vec<u8>)]) -> Vec<u8> {
    let mut file =
        block(0x0a0d_0d0a, &[0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255]);
    // Times are in nanoseconds: value 9 of option 9 (if_tsresol) means 10 to the power of -9.
    let interface =
        [&link.to_le_bytes()[..], &[0, 0, 0, 0, 4, 0, 9, 0, 1, 0, 9, 0, 0, 0, 0, 0, 0, 0]].concat();
    file.extend(block(1, &interface));
    for (seconds, nanos, packet) in packets {
        let time = u64::from(*seconds) * 1_000_000_000 + u64::from(*nanos);
        let len = packet.len() as u32;
        let mut body = Vec::new();
        for word in [0, (time >> 32) as u32, time as u32, len, len] {
            body.extend(word.to_le_bytes());
        }
        body.extend(packet);
        file.extend(block(6, &body));
    }
    file
}

fn framed(packets: &[(u32, u32, Vec<u8>)], head: &[u8]) -> Vec<(u32, u32, Vec<u8>)> {
    packets.iter().map(|(s, n, packet)| (*s, *n, [head, packet].concat())).collect()
}

fn trace(file: &[u8]) -> Trace {
    read(file).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_of_file_and_link_shows_the_same() {
    let capture = short().await;
    let expected = redacted(&trace(&capture));
    let packets = packets(&capture);
    let ethernet = [&[2; 12][..], &[8, 0]].concat();
    let vlan = [&[2; 12][..], &[0x81, 0, 0, 5, 8, 0]].concat();
    let cooked = [&[0, 0, 3, 4, 0, 6, 1, 2, 3, 4, 5, 6, 0, 0][..], &[8, 0]].concat();
    let cooked_2 = [&[8, 0, 0, 0][..], &[0; 16]].concat();
    for (link, head) in [
        (101, &[][..]),
        (12, &[]),
        (228, &[]),
        (1, &ethernet),
        (1, &vlan),
        (113, &cooked),
        (276, &cooked_2),
        (0, &[2, 0, 0, 0]),
    ] {
        let packets = framed(&packets, head);
        assert_eq!(redacted(&trace(&pcap(link, &packets))), expected, "pcap, link {link}");
        assert_eq!(redacted(&trace(&pcapng(link as u16, &packets))), expected, "pcapng, link {link}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_link_is_reported() {
    let trace = trace(&pcap(127, &packets(&short().await)));
    assert!(trace.connections.is_empty());
    assert!(trace.remarks[0].contains("LINKTYPE 127"), "{:?}", trace.remarks);
}

#[tokio::test(flavor = "multi_thread")]
async fn duplicate_and_late_packets_do_not_change_the_calls() {
    let capture = short().await;
    let expected = trace(&capture);
    let mut packets = packets(&capture);
    let twice: Vec<_> = packets.iter().flat_map(|packet| [packet.clone(), packet.clone()]).collect();
    let again = trace(&pcap(101, &twice));
    assert!(again.connections[0].retransmitted > 0);
    assert_eq!(
        again.connections[0].conversation.calls.len(),
        expected.connections[0].conversation.calls.len()
    );
    // Swaps adjacent packets of the same direction. All of these packets contain data, and each still appears
    // before its acknowledgment.
    let from = |packet: &(u32, u32, Vec<u8>)| packet.2[20..22].to_vec();
    let mut at = 3;
    while at + 2 < packets.len() {
        if from(&packets[at]) == from(&packets[at + 1]) {
            packets.swap(at, at + 1);
            at += 1;
        }
        at += 1;
    }
    let late = trace(&pcap(101, &packets));
    assert_eq!(late.connections[0].lost, 0);
    assert_eq!(
        late.connections[0].conversation.calls.len(),
        expected.connections[0].conversation.calls.len()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_packet_is_reported_and_the_rest_is_shown() {
    let (capture, reports) = captured(framing(true, false)).await;
    let packets = packets(&capture);
    let mut noticed = 0;
    for missing in 5..packets.len() - 4 {
        let mut fewer = packets.clone();
        let (_, _, packet) = fewer.remove(missing);
        let trace = trace(&pcap(101, &fewer));
        let connection = &trace.connections[0];
        if packet.len() > 40 {
            assert!(connection.lost > 0, "packet {missing}");
            noticed += 1;
        }
        let calls = connection.conversation.calls.len();
        // The missing packet may contain the end of one call and the start of the next, so two calls may be
        // missing.
        assert!(calls + 2 >= reports.len(), "without packet {missing}: {calls} of {} calls", reports.len());
        let operations = connection.conversation.calls.iter().flat_map(|call| &call.operations);
        let mixed: Vec<_> = operations.filter(|operation| operation.received > operation.len).collect();
        assert!(mixed.is_empty(), "packet {missing}: data of several operations: {mixed:?}");
    }
    assert!(noticed > 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_capture_that_starts_late_shows_later_calls() {
    let (capture, reports) = captured(framing(true, false)).await;
    let packets = packets(&capture);
    let half = trace(&pcap(101, &packets[packets.len() / 2..]));
    let calls = &half.connections[0].conversation.calls;
    assert!(calls.len() > 2 && calls.len() < reports.len());
    assert!(
        calls.iter().any(|call| call.procedure.is_some_and(|called| called.procedure_name() == "SYMLINK"))
    );
}
