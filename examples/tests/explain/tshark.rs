//! The same captures, read by Wireshark.

use std::process::{Command, Output};

use rpcrdma_examples::explain::{Call, read};
use rpcrdma_runtime::wire::rdma::{ChunkLists, Segment};
use serde_json::Value;

use super::captured;

/// Whether Wireshark's program is to be run, and is there.
fn is_there() -> bool {
    if std::env::var_os("RPCRDMA_TSHARK").is_none() {
        eprintln!("not run: RPCRDMA_TSHARK is not set");
        return false;
    }
    if Command::new("tshark").arg("--version").output().is_err() {
        eprintln!("not run: there is no tshark");
        return false;
    }
    true
}

fn tshark(capture: &std::path::Path, arguments: &[&str]) -> Output {
    let output = Command::new("tshark").arg("-2").arg("-r").arg(capture).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output
}

/// What Wireshark says of one RPC-over-RDMA message: XID, counts of the lists, segments.
fn shown(field: &dyn Fn(&str) -> Vec<u64>) -> (u64, [u64; 3], Vec<(u64, u64, u64)>) {
    let one = |name: &str| field(name).first().copied().unwrap_or(0);
    let (handles, lengths, offsets) =
        (field("rpcordma.rdma_handle"), field("rpcordma.rdma_length"), field("rpcordma.rdma_offset"));
    assert_eq!((handles.len(), handles.len()), (lengths.len(), offsets.len()));
    let segments = handles.into_iter().zip(lengths).zip(offsets).map(|((a, b), c)| (a, b, c));
    let counts = [one("rpcordma.reads_count"), one("rpcordma.writes_count"), one("rpcordma.reply_count")];
    (one("rpcordma.xid"), counts, segments.collect())
}

fn ours(lists: &ChunkLists) -> ([u64; 3], Vec<(u64, u64, u64)>) {
    let of = |segment: &Segment| (u64::from(segment.handle), u64::from(segment.length), segment.offset);
    let counts = [lists.reads.len(), lists.writes.len(), usize::from(lists.reply.is_some())];
    (counts.map(|count| count as u64), lists.segments().map(of).collect())
}

/// A value as Wireshark writes numbers.
fn number(text: &str) -> u64 {
    text.strip_prefix("0x").map_or_else(|| text.parse().unwrap(), |hex| u64::from_str_radix(hex, 16).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn wireshark_reads_them_down_to_nfs_and_finds_the_same_chunks() {
    if !is_there() {
        return;
    }
    for crc in [true, false] {
        let (capture, _) = captured(crc).await;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.pcap");
        std::fs::write(&path, &capture).unwrap();
        let malformed = tshark(&path, &["-Y", "_ws.malformed || tcp.analysis.flags"]).stdout;
        assert!(malformed.is_empty(), "{}", String::from_utf8_lossy(&malformed));
        let json = tshark(&path, &["-T", "json", "--no-duplicate-keys", "-Y", "rpcordma"]).stdout;
        let Value::Array(packets) = serde_json::from_slice(&json).unwrap() else { panic!("no packets") };
        let mut theirs = Vec::new();
        for packet in &packets {
            each_message(packet, &mut theirs);
        }
        let trace = read(&capture[..]).unwrap();
        let calls = &trace.connections[0].conversation.calls;
        let reply = |call: &Call| call.reply.clone().unwrap();
        let of_calls = calls.iter().map(|call| (call.time, call.xid, ours(&call.lists)));
        let of_replies = calls.iter().map(|call| (reply(call).time, call.xid, ours(&reply(call).lists)));
        let mut expected: Vec<_> = of_calls.chain(of_replies).collect();
        expected.sort_by_key(|(time, ..)| *time);
        let expected: Vec<_> = expected.into_iter().map(|(_, xid, (a, b))| (u64::from(xid), a, b)).collect();
        assert_eq!(theirs, expected);
        for (filter, at_least) in [("nfs", calls.len()), ("mount", 2), ("iwarp_mpa.crc_check", 0)] {
            let found = tshark(&path, &["-Y", filter]).stdout;
            let lines = String::from_utf8_lossy(&found).lines().count();
            assert!(lines >= at_least, "{filter}: {lines} packets of at least {at_least}");
        }
    }
}

/// The messages in the tree of a packet.
fn each_message(tree: &Value, found: &mut Vec<(u64, [u64; 3], Vec<(u64, u64, u64)>)>) {
    match tree {
        Value::Object(fields) => {
            for (name, value) in fields {
                match (name.as_str(), value) {
                    ("rpcordma", Value::Array(messages)) => {
                        messages.iter().for_each(|one| message(one, found))
                    }
                    ("rpcordma", one) => message(one, found),
                    (_, other) => each_message(other, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| each_message(item, found)),
        _ => {}
    }
}

fn message(tree: &Value, found: &mut Vec<(u64, [u64; 3], Vec<(u64, u64, u64)>)>) {
    let field = |name: &str| {
        let mut values = Vec::new();
        collect(tree, name, &mut values);
        values
    };
    found.push(shown(&field));
}

fn collect(tree: &Value, wanted: &str, values: &mut Vec<u64>) {
    match tree {
        Value::Object(fields) => {
            for (name, value) in fields {
                match value {
                    Value::String(text) if name == wanted => values.push(number(text)),
                    Value::Array(texts) if name == wanted => {
                        values.extend(texts.iter().filter_map(Value::as_str).map(number));
                    }
                    other => collect(other, wanted, values),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, wanted, values)),
        _ => {}
    }
}
