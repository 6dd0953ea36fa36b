//! Decodes the values in messages that Linux's NFS client and server sent.

use std::fs;
use std::path::{Path, PathBuf};

use rpcrdma_tools::explain::{Call, read};
use serde_json::Value;

use super::hostile::{ACK, SYN, file_of, frame, segment, send};

/// Returns a capture of the Sends in a file of vectors, without any RDMA Reads or Writes.
fn capture(path: &Path) -> Vec<u8> {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut file = vec![segment(1, 2, 5, SYN, b""), segment(2, 1, 5, SYN | ACK, b"")];
    let (mut seqs, mut numbers) = ([6; 2], [0; 2]);
    let mut say = |side: usize, octets: &[u8]| {
        let (from, to) = if side == 0 { (1, 2) } else { (2, 1) };
        file.push(segment(from, to, seqs[side], ACK, octets));
        seqs[side] += u32::try_from(octets.len()).unwrap();
    };
    say(0, &frame());
    say(1, &[&b"MPA ID Rep Frame"[..], &[0, 1, 0, 0]].concat());
    for line in text.lines() {
        let entry: Value = serde_json::from_str(line).unwrap();
        let (kind, hex) = (entry["kind"].as_str().unwrap(), entry["hex"].as_str());
        let (true, Some(hex)) = (kind.starts_with("Send"), hex) else { continue };
        let digits: Vec<char> = hex.chars().collect();
        let octet = |pair: &[char]| u8::from_str_radix(&pair.iter().collect::<String>(), 16).unwrap();
        let octets: Vec<u8> = digits.chunks(2).map(octet).collect();
        let side = usize::from(entry["dir"] == "S->C");
        numbers[side] += 1;
        say(side, &send(numbers[side], &octets));
    }
    file_of(file.into_iter())
}

fn calls(path: &Path) -> Vec<Call> {
    let mut trace = read(&capture(path)[..]).unwrap();
    let mut calls = std::mem::take(&mut trace.connections[0].conversation.calls);
    calls
        .retain(|call| call.procedure.is_some_and(|called| (called.program, called.version) == (100_003, 3)));
    calls
}

/// Checks that the arguments and results of each call are decoded, except those of NULL and those in a
/// Position-Zero Read chunk or a Reply chunk. Returns the decoded values and their number.
fn values(calls: &[Call]) -> (Vec<&str>, usize) {
    let mut values = Vec::new();
    for call in calls {
        let is_null = call.procedure.is_some_and(|called| called.procedure == 0);
        assert_eq!(call.arguments.is_none(), is_null || call.long, "{call:#?}");
        values.extend(call.arguments.as_deref());
        if let Some(reply) = &call.reply {
            assert_eq!(reply.results.is_none(), is_null || reply.long, "{reply:#?}");
            values.extend(reply.results.as_deref());
        }
    }
    let wrong: Vec<_> = values.iter().filter(|text| text.starts_with("not decoded")).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    let count = values.len();
    (values, count)
}

#[test]
fn values_of_linux_are_decoded() {
    let calls = calls(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/vectors/linux-nfs3.jsonl"));
    let (values, count) = values(&calls);
    assert!(count > 8, "{count}: {values:#?}");
    assert!(values.iter().any(|text| text.contains("name: \"")), "{values:#?}");
    assert!(values.iter().any(|text| text.contains("data: 0x") && text.contains("stable: ")), "{values:#?}");
}

#[test]
fn values_of_complete_linux_sessions_are_decoded() {
    let Some(folder) = std::env::var_os("RPCRDMA_VECTORS").map(PathBuf::from) else {
        return not_run::not_run("RPCRDMA_VECTORS is not set");
    };
    for kernel in ["6.1", "6.12"] {
        let calls = calls(&folder.join(format!("linux-{kernel}-siw-nfs3.jsonl")));
        let (values, count) = values(&calls);
        assert!(count > 300, "{kernel}: {count}");
        for part in ["what: { dir: { data: 0x", "Nfs3Ok({ obj_attributes: { type: Nf3dir, mode: "] {
            assert!(values.iter().any(|text| text.contains(part)), "{kernel}: {part}");
        }
    }
}
