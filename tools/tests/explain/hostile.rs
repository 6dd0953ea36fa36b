//! Hostile captures are shown or rejected, with limits on memory and time.

use proptest::prelude::*;
use rpcrdma_tools::explain::{Chunk, ReadError, Selection, html, read, svg};

use super::{short, text};

/// Shows any file as text and drawings, or rejects the file. Returns the number of calls.
fn show(file: &[u8]) -> usize {
    let Ok(trace) = read(file) else { return 0 };
    let selection = Selection::default();
    let shown = text(&trace, selection);
    for brief in [true, false] {
        let selection = Selection { brief, ..selection };
        let _ = svg(&trace, &selection);
        if let Ok(page) = html(&trace, &selection) {
            assert!(!page.contains("<script") && page.ends_with("</html>"));
        }
    }
    assert!(shown.bytes().all(|byte| byte == b'\n' || !byte.is_ascii_control()), "{shown:?}");
    trace.connections.iter().map(|connection| connection.conversation.calls.len()).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_prefix_of_a_capture_is_explained() {
    let capture = short().await;
    let all = show(&capture);
    let mut before = 0;
    for len in 0..=capture.len() {
        let calls = show(&capture[..len]);
        assert!(calls >= before, "the prefix of {len} bytes shows fewer calls than a shorter one");
        before = calls;
    }
    assert_eq!((before, all), (4, 4));
    let cut = read(&capture[..capture.len() - 1]).unwrap();
    assert_eq!(cut.remarks, ["the file ends in the middle of a packet"]);
}

#[test]
fn files_that_are_not_captures_are_rejected() {
    assert_eq!(read(&b""[..]).unwrap_err(), ReadError::Empty);
    assert_eq!(read(&b"MPA ID Req Frame, and what follows it"[..]).unwrap_err(), ReadError::NoCapture);
    let nothing = read(&short_head()[..]).unwrap();
    assert!(text(&nothing, Selection::default()).contains("no iWARP in 0 packets and 0 TCP connections"));
}

fn short_head() -> Vec<u8> {
    let words = [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 65_535, 1];
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Returns a pcap record of a TCP segment in an IPv4 packet.
pub(super) fn segment(from: u32, to: u32, seq: u32, flags: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x45, 0];
    packet.extend(u16::try_from(40 + payload.len()).unwrap().to_be_bytes());
    packet.extend([0, 0, 0x40, 0, 64, 6, 0, 0]);
    for address in [from, to] {
        packet.extend((0x0a00_0000 | address >> 8).to_be_bytes());
    }
    for port in [from, to] {
        packet.extend((0x8000 | u16::try_from(port & 0xff).unwrap()).to_be_bytes());
    }
    packet.extend([seq.to_be_bytes(), [0; 4], [0x50, flags, 0xff, 0xff], [0; 4]].concat());
    packet.extend(payload);
    let len = u32::try_from(packet.len()).unwrap();
    let head = [0, 0, len, len].map(u32::to_le_bytes).concat();
    [head, packet].concat()
}

pub(super) const SYN: u8 = 2;
pub(super) const ACK: u8 = 16;
const RAW: u8 = 101;

pub(super) fn file_of(segments: impl Iterator<Item = Vec<u8>>) -> Vec<u8> {
    let mut file = short_head();
    file[20] = RAW;
    segments.for_each(|segment| file.extend(segment));
    file
}

/// A flood of SYNs does not hide a connection that carries iWARP, and uses little memory.
#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_connections_is_omitted() {
    const FLOOD: u32 = 300_000;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.pcap");
    let begins = segment(1, 2, 6, ACK, &frame());
    let flood = (0..FLOOD).map(|number| segment(number << 8, 3, number, SYN, b""));
    let syn = segment(1, 2, 5, SYN, b"");
    std::fs::write(&path, file_of([syn, begins].into_iter().chain(flood))).unwrap();
    let limited = "ulimit -v 200000; exec \"$@\"";
    let mut command = std::process::Command::new("sh");
    command.args(["-c", limited, "sh", env!("CARGO_BIN_EXE_rpcrdma"), "explain"]).arg(&path);
    let output = command.output().unwrap();
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(
        shown.contains("connection 1: client 10.0.0.0:32769") && shown.contains("MPA request"),
        "{shown}"
    );
    assert!(shown.contains("TCP connections omitted: "), "{shown}");
}

/// Once the maximum number of connections with iWARP is reached, later connections are omitted, and their
/// packets are counted.
#[test]
fn packets_of_connections_beyond_the_limit_are_counted() {
    const LIMIT: u32 = 16_384;
    let connect = |number: u32| {
        let client = (number + 1) << 8;
        [segment(client, 2, 5, SYN, b""), segment(client, 2, 6, ACK, &frame())]
    };
    let trace = read(&file_of((0..LIMIT + 3).flat_map(connect))[..]).unwrap();
    assert_eq!((trace.connections.len(), trace.more_connections), (LIMIT as usize, 0));
    let expected = "packets omitted: 6 (their TCP connections exceed the limit of 16384)";
    assert_eq!(trace.remarks, [expected]);
}

/// Returns an MPA request without private data, CRC or markers.
pub(super) fn frame() -> Vec<u8> {
    [&b"MPA ID Req Frame"[..], &[0, 1, 0, 0]].concat()
}

/// Returns an FPDU with a CRC field of 0, as in connections without CRCs.
pub(super) fn fpdu(header: &[u8], payload: &[u8]) -> Vec<u8> {
    let len = u16::try_from(header.len() + payload.len()).unwrap();
    let mut fpdu = [&len.to_be_bytes(), header, payload].concat();
    fpdu.resize(fpdu.len().next_multiple_of(4) + 4, 0);
    fpdu
}

/// Returns a capture of a call with `segments` segments in its Write list, and of `writes` RDMA Writes of one
/// byte to the last segment.
fn one_call(segments: u32, writes: u32) -> Vec<u8> {
    let list = (0..segments).flat_map(|number| [7, 1, 0, number]);
    let header = [1, 1, 1, 0, 0, 1, segments].into_iter().chain(list).chain([0, 0]);
    let rpc = [1, 0, 2, 100_003, 3, 6, 0, 0, 0, 0];
    let call: Vec<u8> = header.chain(rpc).flat_map(u32::to_be_bytes).collect();
    let parts = call.chunks(32_000).enumerate();
    let count = call.len().div_ceil(32_000);
    let sends = parts.map(|(at, part)| {
        let control = if at + 1 == count { 0x41 } else { 0x01 };
        let offset = u32::try_from(at * 32_000).unwrap();
        let words = [0, 0, 1, offset].map(u32::to_be_bytes).concat();
        fpdu(&[&[control, 0x43][..], &words].concat(), part)
    });
    let mut client = frame();
    sends.for_each(|send| client.extend(send));
    let mut server = [&b"MPA ID Rep Frame"[..], &[0, 1, 0, 0]].concat();
    let target = [7, 0, segments - 1].map(u32::to_be_bytes).concat();
    for _ in 0..writes {
        server.extend(fpdu(&[&[0xc1, 0x40][..], &target].concat(), b"x"));
    }
    let mut file = vec![segment(1, 2, 5, SYN, b""), segment(2, 1, 5, SYN | ACK, b"")];
    for (from, to, octets) in [(1, 2, client), (2, 1, server)] {
        let mut seq = 6;
        for part in octets.chunks(60_000) {
            file.push(segment(from, to, seq, ACK, part));
            seq += u32::try_from(part.len()).unwrap();
        }
    }
    file_of(file.into_iter())
}

/// Returns the CPU time of this thread in nanoseconds, if available.
fn computed() -> Option<u64> {
    std::fs::read_to_string("/proc/thread-self/schedstat").ok()?.split_whitespace().next()?.parse().ok()
}

#[test]
fn the_segments_of_a_call_do_not_multiply_the_time_of_its_writes() {
    const WRITES: u32 = 30_000;
    let time = |segments| {
        let (file, start) = (one_call(segments, WRITES), computed()?);
        let trace = read(&file[..]).unwrap();
        let took = computed()?.saturating_sub(start);
        let call = &trace.connections[0].conversation.calls[0];
        assert_eq!((call.operations.len(), call.rdma_bytes()), (WRITES as usize, (0, u64::from(WRITES))));
        assert!(call.operations.iter().all(|operation| operation.chunk == Some(Chunk::Write(1))));
        Some(took)
    };
    let (Some(few), Some(many)) = (time(1), time(4000)) else {
        return not_run::not_run("the kernel does not report the CPU time of a thread");
    };
    assert!(many < few * 4, "{few} ns with one segment, {many} ns with 4,000");
}

#[test]
fn time_is_linear_in_unanswered_calls() {
    let time = |calls: u32| {
        let (file, start) = (sends((0..calls).map(|xid| write_call(xid, 8, 0))), computed()?);
        let trace = read(&file[..]).unwrap();
        assert_eq!(trace.connections[0].conversation.calls.len(), calls as usize);
        Some(computed()?.saturating_sub(start))
    };
    let (Some(few), Some(many)) = (time(20_000), time(80_000)) else {
        return not_run::not_run("the kernel does not report the CPU time of a thread");
    };
    assert!(many < few * 8, "{few} ns for 20,000 calls, {many} ns for 80,000");
}

/// Returns a WRITE call with `len` bytes of data in a Read chunk, and `padding` bytes after its arguments.
fn write_call(xid: u32, len: u32, padding: usize) -> Vec<u8> {
    let header = [xid, 1, 1, 0, 1, 40 + 24, 7, len, 0, 0, 0, 0, 0];
    let rpc = [xid, 0, 2, 100_003, 3, 7, 0, 0, 0, 0];
    let arguments = [0, 0, 0, 0, 2, len];
    let words = header.iter().chain(&rpc).chain(&arguments).flat_map(|word| word.to_be_bytes());
    words.chain(vec![0; padding]).collect()
}

/// Returns a capture in which the client sends these messages and the server sends no messages.
fn sends(messages: impl Iterator<Item = Vec<u8>>) -> Vec<u8> {
    let mut file = vec![segment(1, 2, 5, SYN, b""), segment(2, 1, 5, SYN | ACK, b"")];
    let mut seq = 6;
    let sends = messages.zip(1u32..).map(|(message, number)| send(number, &message));
    for octets in std::iter::once(frame()).chain(sends) {
        file.push(segment(1, 2, seq, ACK, &octets));
        seq += u32::try_from(octets.len()).unwrap();
    }
    file_of(file.into_iter())
}

pub(super) fn send(number: u32, message: &[u8]) -> Vec<u8> {
    fpdu(&[&[0x41, 0x43][..], &[0, 0, number, 0].map(u32::to_be_bytes).concat()].concat(), message)
}

#[test]
fn stored_values_are_limited() {
    let file = sends([write_call(1, 16 << 20, 0), write_call(2, (16 << 20) + 1, 0)].into_iter());
    let calls = &read(&file[..]).unwrap().connections[0].conversation.calls;
    let arguments: Vec<_> = calls.iter().map(|call| call.arguments.as_deref()).collect();
    assert!(arguments[0].is_some_and(|text| text.contains("(16777216 bytes)")), "{arguments:?}");
    assert_eq!(arguments[1], None);
    // The stored parts of a connection's calls without a reply are limited to 4 MiB in total.
    const LEN: usize = 30_000;
    let file = sends((0..200).map(|xid| write_call(xid, 8, LEN)));
    let calls = &read(&file[..]).unwrap().connections[0].conversation.calls;
    let shown = calls.iter().take_while(|call| call.arguments.is_some()).count();
    assert_eq!((calls.len(), shown), (200, (4 << 20) / (LEN + 64)));
    assert!(calls.iter().skip(shown).all(|call| call.arguments.is_none()));
}

#[test]
fn the_text_of_values_is_limited() {
    const TEXT: usize = 16 << 20;
    // Each byte of the name in this LOOKUP is shown as four characters.
    let lookup = |xid: u32| {
        let words = [xid, 1, 1, 0, 0, 0, 0, xid, 0, 2, 100_003, 3, 3, 0, 0, 0, 0, 0, 252];
        words.into_iter().flat_map(u32::to_be_bytes).chain([0xff; 252]).collect::<Vec<u8>>()
    };
    let file = sends((0..28_000).map(lookup));
    let conversation = &read(&file[..]).unwrap().connections[0].conversation;
    let len = |call: &rpcrdma_tools::explain::Call| call.arguments.as_ref().map_or(0, String::len);
    let text: usize = conversation.calls.iter().map(len).sum();
    assert!((TEXT..TEXT + 1000).contains(&text), "{text}");
    assert_eq!((conversation.calls.len(), len(&conversation.calls[27_999])), (28_000, 0));
    assert!(conversation.notes.iter().any(|note| note.text.contains("of later calls are not shown")));
}

fn capture() -> &'static [u8] {
    static CAPTURE: std::sync::OnceLock<Vec<u8>> = std::sync::OnceLock::new();
    CAPTURE.get_or_init(|| tokio::runtime::Runtime::new().unwrap().block_on(short()))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn a_capture_with_changed_bytes_is_shown_or_rejected(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..40),
    ) {
        let mut file = capture().to_vec();
        for (at, octet) in changes {
            let at = at.index(file.len());
            file[at] = octet;
        }
        show(&file);
    }

    #[test]
    fn a_capture_of_random_packets_is_shown_or_rejected(
        packets in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 0..20),
        link in prop::sample::select(vec![0u8, 1, 12, 101, 113]),
    ) {
        let mut file = short_head();
        file[20] = link;
        for packet in packets {
            let len = u32::try_from(packet.len()).unwrap();
            for word in [0, 0, len, len] {
                file.extend(word.to_le_bytes());
            }
            file.extend(packet);
        }
        show(&file);
    }
}
