//! Decodes the arguments and results in messages of Linux's NFSv3 client and server, and encodes them again
//! to the same bytes. Some messages are reduced.

use std::collections::BTreeMap;

use bytes::Bytes;
use rpcrdma_nfs3::nfs_v3::{NfsV3, proc};
use rpcrdma_runtime::program::{Procedure, Program};
use rpcrdma_runtime::wire::rdma::{
    Body, ChunkLists, MessageLimits, decode_call, decode_reply as decode_header,
};
use rpcrdma_runtime::wire::rpc::{CallHeader, ReplyHeader, decode_reply};
use rpcrdma_runtime::xdr::{Decode, Encode, Item, Placed, PlacedItem, Reader, Received, Reducer};
use rpcrdma_tests::captured::{Captured, others, ours};

/// Decodes the remaining bytes of a reader as `T`, and encodes the value again.
fn reencode<T: Encode + for<'de> Decode<'de>>(reader: &mut Reader<'_>, into: &mut Reducer, name: &str) {
    let value = T::decode(reader).unwrap_or_else(|error| panic!("{name}: {error}"));
    reader.finish().unwrap_or_else(|error| panic!("{name}: {error}"));
    value.encode(into).unwrap_or_else(|error| panic!("{name}: {error}"));
}

struct Codec {
    call: fn(&mut Reader<'_>, &mut Reducer, &str),
    reply: fn(&mut Reader<'_>, &mut Reducer, &str),
}

fn codec<Q: Procedure>() -> (u32, Codec) {
    (Q::NUMBER, Codec { call: reencode::<Q::Args>, reply: reencode::<Q::Res> })
}

macro_rules! procedures {
    ($($name:ident)*) => {
        [$(codec::<proc::$name>()),*].into_iter().collect()
    };
}

fn procedures() -> BTreeMap<u32, Codec> {
    procedures! {
        Null Getattr Setattr Lookup Access Readlink Read Write Create Mkdir Symlink Mknod Remove Rmdir Rename Link
        Readdir Readdirplus Fsstat Fsinfo Pathconf Commit
    }
}

/// Returns zeros in place of data that RDMA moved, because captured messages do not contain the data.
fn zeros(len: u64) -> Bytes {
    vec![0; usize::try_from(len).expect("a length in memory")].into()
}

fn arrived(stream: &Bytes, lists: &ChunkLists, from_client: bool) -> Received {
    let items = if from_client {
        let mut items: Vec<Item> = Vec::new();
        for read in &lists.reads {
            match items.last_mut().filter(|item| item.position == read.position) {
                Some(item) => item.data = zeros(item.data.len() as u64 + u64::from(read.segment.length)),
                None => items.push(Item { position: read.position, data: zeros(read.segment.length.into()) }),
            }
        }
        Placed::Positioned(items)
    } else {
        let placed = lists.writes.iter().map(|chunk| PlacedItem {
            data: zeros(chunk.len()),
            segments: u32::try_from(chunk.0.len()).expect("few segments"),
        });
        Placed::InOrder(placed.collect())
    };
    Received { stream: stream.clone(), items }
}

/// Returns a `Reducer` that reduces items if the message was reduced.
fn sink(received: &Received) -> Reducer {
    let reduced = match &received.items {
        Placed::None => false,
        Placed::Positioned(items) => !items.is_empty(),
        Placed::InOrder(items) => items.iter().any(|item| !item.data.is_empty()),
    };
    if reduced { Reducer::new(1) } else { Reducer::disabled() }
}

/// Checks all messages. Returns the numbers of checked calls, checked replies and skipped messages. Skipped
/// messages belong to another program, have their payload in a chunk, or reply to a skipped call.
fn check(messages: &[Captured]) -> [usize; 3] {
    let procedures = procedures();
    let mut called: BTreeMap<u32, u32> = BTreeMap::new();
    let mut counts = [0, 0, messages.len()];
    for message in messages {
        let name = &message.name;
        let limits = MessageLimits::default();
        let (header, payload) = if message.from_client {
            decode_call(&message.bytes, &limits).expect("a call")
        } else {
            decode_header(&message.bytes, &limits).expect("a reply")
        };
        let Body::Msg(lists) = &header.body else { continue };
        let received = arrived(&payload, lists, message.from_client);
        let (mut reader, mut written) = (Reader::new(&received), sink(&received));
        if message.from_client {
            let call = CallHeader::decode(&mut reader).expect("a call");
            if (call.program, call.version) != (NfsV3::NUMBER, NfsV3::VERSION) {
                continue;
            }
            called.insert(call.xid, call.procedure);
            call.encode(&mut written).expect("a decoded header");
            let codec = procedures.get(&call.procedure).expect("a procedure of NFSv3");
            (codec.call)(&mut reader, &mut written, name);
            counts[0] += 1;
        } else {
            let Some(procedure) = called.remove(&header.xid) else { continue };
            decode_reply(&mut reader, header.xid).expect("a success");
            ReplyHeader::Success.encode(header.xid, &mut written).expect("a header");
            let codec = procedures.get(&procedure).expect("a procedure of NFSv3");
            (codec.reply)(&mut reader, &mut written, name);
            counts[1] += 1;
        }
        assert_eq!(written.into_message().stream, payload, "{name}");
        counts[2] -= 1;
    }
    counts
}

#[test]
fn linux_nfs_version_3_messages_round_trip() {
    assert_eq!(check(&ours("linux-nfs3.jsonl")), [8, 7, 1]);
}

#[test]
fn nfs3_captures_in_rpcrdma_vectors_round_trip() {
    for (file, messages) in others().iter().filter(|(file, _)| file.ends_with("nfs3.jsonl")) {
        let counts = check(messages);
        let [calls, replies, others] = counts;
        assert!(calls >= 100 && replies >= 100, "{file}: {counts:?}");
        // The skipped messages belong to NFSACL, which is not implemented, or are replies in Reply chunks.
        let of_nfs =
            |message: &&Captured| !message.name.contains("NFS3") || message.bytes[12..16] == [0, 0, 0, 1];
        assert_eq!(others, messages.iter().filter(of_nfs).count(), "{file}: {counts:?}");
    }
}
