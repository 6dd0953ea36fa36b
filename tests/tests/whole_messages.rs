//! Messages of Linux, from the transport's header down to NFS, decode and encode again to the same bytes.
//! Truncated at any length, they are rejected.

use std::fs;
use std::path::Path;

use bytes::Bytes;
use rpcrdma_nfs3::nfs_v3::proc;
use rpcrdma_runtime::program::Procedure;
use rpcrdma_runtime::wire::rdma::{Body, MessageLimits, decode_call, decode_reply as decode_reply_header};
use rpcrdma_runtime::wire::rpc::{CallHeader, ReplyHeader, decode_reply};
use rpcrdma_runtime::xdr::{Decode, Encode, Placed, PlacedItem, Reader, Received, Reducer};

/// Decodes the messages of one procedure completely and encodes them again.
struct Codec {
    number: u32,
    args: fn(&mut Reader<'_>, &mut Reducer) -> Option<()>,
    res: fn(&mut Reader<'_>, &mut Reducer) -> Option<()>,
}

fn codec<Q: Procedure>() -> Codec {
    fn again<T: for<'de> Decode<'de> + Encode>(reader: &mut Reader<'_>, out: &mut Reducer) -> Option<()> {
        let value = T::decode(reader).ok()?;
        reader.finish().ok()?;
        value.encode(out).ok()
    }
    Codec { number: Q::NUMBER, args: again::<Q::Args>, res: again::<Q::Res> }
}

fn codecs() -> [Codec; 7] {
    [
        codec::<proc::Null>(),
        codec::<proc::Getattr>(),
        codec::<proc::Access>(),
        codec::<proc::Read>(),
        codec::<proc::Write>(),
        codec::<proc::Create>(),
        codec::<proc::Readdirplus>(),
    ]
}

/// The messages of a connection in their order: whether it is the client's, and the bytes.
fn messages() -> Vec<(bool, Bytes)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors/linux-nfs3.jsonl");
    let text = fs::read_to_string(path).expect("the vectors");
    let value = |line: &str, key: &str| {
        let (_, rest) = line.split_once(&format!("\"{key}\": \""))?;
        rest.split_once('"').map(|(value, _)| value.to_owned())
    };
    text.lines()
        .filter(|line| matches!(value(line, "kind").as_deref(), Some("Send" | "Send_Inv")))
        .map(|line| {
            let hex = value(line, "hex").expect("bytes");
            let octet = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex");
            let bytes: Vec<u8> = (0..hex.len()).step_by(2).map(octet).collect();
            (value(line, "dir").as_deref() == Some("C->S"), bytes.into())
        })
        .collect()
}

/// A call's procedure and its stream written again, if it is whole. None if its data is in a Read chunk.
fn call(bytes: &Bytes) -> Option<(u32, Bytes, Bytes)> {
    let (header, payload) = decode_call(bytes, &MessageLimits::default()).ok()?;
    let message = Received::unreduced(payload.clone());
    let mut reader = Reader::new(&message);
    let rpc = CallHeader::decode(&mut reader).ok()?;
    let codec = codecs().into_iter().find(|codec| codec.number == rpc.procedure)?;
    let mut again = Reducer::disabled();
    rpc.encode(&mut again).ok()?;
    (codec.args)(&mut reader, &mut again)?;
    assert_eq!(header.xid, rpc.xid);
    Some((rpc.procedure, payload, again.into_message().stream))
}

/// The stream of a reply to this procedure, and the same encoded again without the data of its Write chunk.
fn reply(bytes: &Bytes, procedure: u32) -> Option<(Bytes, Bytes)> {
    let (header, payload) = decode_reply_header(bytes, &MessageLimits::default()).ok()?;
    let Body::Msg(lists) = header.body else { return None };
    let placed = |chunk: &rpcrdma_runtime::wire::rdma::WriteChunk| PlacedItem {
        data: vec![0; usize::try_from(chunk.len()).expect("short")].into(),
        segments: u32::try_from(chunk.0.len()).expect("few"),
    };
    let items = Placed::InOrder(lists.writes.iter().map(placed).collect());
    let message = Received { stream: payload.clone(), items };
    let mut reader = Reader::new(&message);
    decode_reply(&mut reader, header.xid).ok()?;
    let codec = codecs().into_iter().find(|codec| codec.number == procedure)?;
    let mut again = Reducer::new(1);
    if lists.writes.is_empty() {
        again = Reducer::disabled();
    }
    ReplyHeader::Success.encode(header.xid, &mut again).ok()?;
    (codec.res)(&mut reader, &mut again)?;
    Some((payload, again.into_message().stream))
}

#[test]
fn every_call_is_read_to_its_end_and_refused_when_it_is_cut() {
    let mut whole = 0;
    for (_, bytes) in messages().into_iter().filter(|(from_client, _)| *from_client) {
        // A WRITE whose data moved by RDMA is incomplete in its Send.
        let Some((procedure, stream, again)) = call(&bytes) else { continue };
        assert_eq!(stream, again, "procedure {procedure}");
        for len in 0..bytes.len() {
            assert!(call(&bytes.slice(..len)).is_none(), "procedure {procedure} cut at {len}");
        }
        whole += 1;
    }
    assert_eq!(whole, 7, "of eight calls one has its data in a Read chunk");
}

#[test]
fn every_reply_is_read_to_its_end_and_refused_when_it_is_cut() {
    let (mut last, mut whole) = (0, 0);
    for (from_client, bytes) in messages() {
        if from_client {
            let payload = decode_call(&bytes, &MessageLimits::default()).expect("a call").1;
            let message = Received::unreduced(payload);
            last = CallHeader::decode(&mut Reader::new(&message)).expect("a call").procedure;
            continue;
        }
        let Some((stream, again)) = reply(&bytes, last) else { continue };
        assert_eq!(stream, again, "procedure {last}");
        for len in 0..bytes.len() {
            assert!(reply(&bytes.slice(..len), last).is_none(), "reply to procedure {last} cut at {len}");
        }
        whole += 1;
    }
    assert_eq!(whole, 7, "of eight replies one is in a Reply chunk");
}
