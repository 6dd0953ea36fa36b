//! Decodes captured messages of Linux's NFS client and server, from the transport header down to NFS. The
//! decoded RPC messages encode to the same bytes. Messages truncated at any length are rejected. The tests
//! skip calls whose data is in a Read chunk, and replies in a Reply chunk.

use bytes::Bytes;
use rpcrdma_nfs3::nfs_v3::proc;
use rpcrdma_runtime::program::Procedure;
use rpcrdma_runtime::wire::rdma::{Body, MessageLimits, decode_call, decode_reply as decode_reply_header};
use rpcrdma_runtime::wire::rpc::{CallHeader, ReplyHeader, decode_reply};
use rpcrdma_runtime::xdr::{Decode, Encode, Placed, PlacedItem, Reader, Received, Reducer};
use rpcrdma_tests::captured::{Captured, ours};

const FILE: &str = "linux-nfs3.jsonl";

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

/// Returns the procedure number of a call, the stream of the call, and the re-encoded stream. Returns `None`
/// if the call is truncated or its data is in a Read chunk.
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

/// Returns the stream of a reply to `procedure`, and the re-encoded stream without the data in Write chunks.
/// Returns `None` if the reply is truncated or in a Reply chunk.
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
fn every_call_round_trips_and_is_rejected_if_truncated() {
    let mut complete = 0;
    for bytes in ours(FILE).into_iter().filter(|message| message.from_client).map(|message| message.bytes) {
        // `call` returns `None` for one WRITE, because the data is in a Read chunk.
        let Some((procedure, stream, again)) = call(&bytes) else { continue };
        assert_eq!(stream, again, "procedure {procedure}");
        for len in 0..bytes.len() {
            assert!(call(&bytes.slice(..len)).is_none(), "procedure {procedure} cut at {len}");
        }
        complete += 1;
    }
    assert_eq!(complete, 7, "one of eight calls has its data in a Read chunk");
}

#[test]
fn every_reply_round_trips_and_is_rejected_if_truncated() {
    let (mut last, mut complete) = (0, 0);
    for Captured { from_client, bytes, .. } in ours(FILE) {
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
        complete += 1;
    }
    assert_eq!(complete, 7, "one of eight replies is in a Reply chunk");
}
