//! Compares Wireshark's analysis of a capture with that of `rpcrdma explain`. The tests in tests/interop also
//! use this module.

use std::path::Path;
use std::process::Command;

use rpcrdma_runtime::wire::rdma::{ChunkLists, Segment};
use rpcrdma_tools::explain::{CapturedConnection, Peer, Trace, read};
use serde_json::Value;

/// An RPC-over-RDMA message: its XID, how many Read segments, Write chunks and Reply chunks it has, and the
/// handle, length and offset of each segment.
type Shown = (u64, [u64; 3], Vec<(u64, u64, u64)>);

/// Returns true if tests with Wireshark are enabled and tshark is installed.
pub(crate) fn is_available() -> bool {
    if std::env::var_os("RPCRDMA_TSHARK").is_none() {
        not_run::not_run("RPCRDMA_TSHARK is not set");
        return false;
    }
    let there = Command::new("tshark").arg("--version").output().is_ok();
    if !there {
        not_run::not_run("tshark is not installed");
    }
    there
}

/// Checks that Wireshark reports no problems in a capture, and that it finds the same messages and chunks as
/// `explain`, in the same order. Wireshark must also decode at least the given number of packets of each
/// protocol.
pub(crate) fn agrees(capture: &Path, programs: &[(&str, usize)]) {
    let suspicious = tshark(capture, &["-Y", "tcp.analysis.flags"]);
    assert!(suspicious.is_empty(), "{}", String::from_utf8_lossy(&suspicious));
    let json = tshark(capture, &["-T", "json", "--no-duplicate-keys", "-J", "rpcordma", "-Y", "rpcordma"]);
    let mut theirs = Vec::new();
    each_message(&serde_json::from_slice(&json).unwrap(), &mut theirs);
    let trace = read(std::fs::File::open(capture).unwrap()).unwrap();
    let malformed = malformed(capture, &trace);
    assert!(malformed.is_empty(), "malformed: {malformed:#?}");
    let mut ours: Vec<_> = trace.connections.iter().flat_map(messages).collect();
    ours.sort_by_key(|(time, _)| *time);
    let ours: Vec<_> = ours.into_iter().map(|(_, shown)| shown).collect();
    assert!(!ours.is_empty());
    assert_eq!(theirs, ours);
    for (program, at_least) in programs {
        let found = tshark(capture, &["-Y", program]);
        let packets = String::from_utf8_lossy(&found).lines().count();
        assert!(packets >= *at_least, "{program}: {packets} packets, expected at least {at_least}");
    }
}

/// The fields that tshark prints for each packet that it reports as malformed.
const SHAPE: [&str; 8] = [
    "frame.number",
    "rpcordma.xid",
    "frame.protocols",
    "rpc.msgtyp",
    "nfs.procedure_v3",
    "rpc.opaque_length",
    "rpc.fill_bytes",
    "_ws.malformed",
];

/// Returns the packets that Wireshark correctly reports as malformed. Each packet is one line with the fields
/// of [`SHAPE`].
pub(crate) fn malformed(capture: &Path, trace: &Trace) -> Vec<String> {
    let fields: Vec<&str> = SHAPE.into_iter().flat_map(|field| ["-e", field]).collect();
    let arguments = [&["-Y", "_ws.malformed", "-T", "fields"], &fields[..]].concat();
    let found = String::from_utf8(tshark(capture, &arguments)).unwrap();
    let is_padding = |packet: &&str| {
        trace.connections.iter().any(|connection| is_padding_omitted_by_wireshark(connection, packet))
    };
    found.lines().filter(|packet| !is_padding(packet)).map(str::to_owned).collect()
}

/// Returns true for the only kind of packet that Wireshark 4.0 wrongly calls malformed. Data in a Write chunk
/// has no padding (RFC 8166 section 3.4.6.2), so Wireshark must add the padding when it reassembles the
/// reply. Over iWARP, Wireshark adds the padding only if the RDMA Writes filled all offered memory
/// (`add_iwarp_padding` in its packet-rpcrdma.c). Otherwise its NFS dissector misses the padding of a READ or
/// READLINK result.
fn is_padding_omitted_by_wireshark(connection: &CapturedConnection, packet: &str) -> bool {
    let values: Vec<&str> = packet.split('\t').collect();
    let Ok([_, xid, protocols, "1", "5" | "6", length, "<MISSING>", what]) = <[&str; 8]>::try_from(values)
    else {
        return false;
    };
    if !protocols.ends_with(":iwarp_ddp_rdmap:rpcordma:rpc:nfs") {
        return false;
    }
    let mut calls = connection.conversation.calls.iter().filter(|call| u64::from(call.xid) == number(xid));
    let (Some(call), None) = (calls.next(), calls.next()) else { return false };
    let Some(reply) = &call.reply else { return false };
    let ([room], [used]) = (&call.lists.writes[..], &reply.lists.writes[..]) else { return false };
    let is_left = used.len() % 4 != 0 && used.len() < room.len() && used.len() == number(length);
    is_left && call.lists.reply.is_none() && what == "[Malformed Packet: NFS],_ws.malformed"
}

fn tshark(capture: &Path, arguments: &[&str]) -> Vec<u8> {
    let output = Command::new("tshark").arg("-2").arg("-r").arg(capture).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// Returns each message of a connection as decoded by `explain`, with its time in nanoseconds since 1970.
fn messages(connection: &CapturedConnection) -> Vec<(u64, Shown)> {
    let mut messages = Vec::new();
    for call in &connection.conversation.calls {
        assert_eq!(call.by, Some(Peer::Client));
        messages.push((call.time, ours(call.xid, &call.lists)));
        if let Some(reply) = &call.reply {
            messages.push((reply.time, ours(call.xid, &reply.lists)));
        }
    }
    messages
}

fn ours(xid: u32, lists: &ChunkLists) -> Shown {
    let of = |segment: &Segment| (u64::from(segment.handle), u64::from(segment.length), segment.offset);
    let counts = [lists.reads.len(), lists.writes.len(), usize::from(lists.reply.is_some())];
    (u64::from(xid), counts.map(|count| count as u64), lists.segments().map(of).collect())
}

/// Appends the RPC-over-RDMA messages in a part of tshark's JSON output to `found`.
fn each_message(tree: &Value, found: &mut Vec<Shown>) {
    match tree {
        Value::Object(fields) => {
            for (name, value) in fields {
                match (name.as_str(), value) {
                    ("rpcordma", Value::Array(messages)) => found.extend(messages.iter().map(theirs)),
                    ("rpcordma", message) => found.push(theirs(message)),
                    (_, other) => each_message(other, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| each_message(item, found)),
        _ => {}
    }
}

fn theirs(tree: &Value) -> Shown {
    let field = |name: &str| {
        let mut values = Vec::new();
        collect(tree, name, &mut values);
        values
    };
    let one = |name: &str| field(name).first().copied().unwrap_or(0);
    let (handles, lengths, offsets) =
        (field("rpcordma.rdma_handle"), field("rpcordma.rdma_length"), field("rpcordma.rdma_offset"));
    assert_eq!((handles.len(), handles.len()), (lengths.len(), offsets.len()));
    let segments = handles.into_iter().zip(lengths).zip(offsets).map(|((a, b), c)| (a, b, c));
    let counts = [one("rpcordma.reads_count"), one("rpcordma.writes_count"), one("rpcordma.reply_count")];
    (one("rpcordma.xid"), counts, segments.collect())
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

fn number(text: &str) -> u64 {
    text.strip_prefix("0x").map_or_else(|| text.parse().unwrap(), |hex| u64::from_str_radix(hex, 16).unwrap())
}
