//! Valid and invalid messages that a requester receives while a call is outstanding, and the outcome of the
//! call (RFC 8166 sections 3.4.6, 4.4 and 4.5).

use bytes::Bytes;
use rpcrdma_runtime::program::Caller;
use rpcrdma_runtime::proto::rdma::TransportError;
use rpcrdma_runtime::proto::work::Segment;
use rpcrdma_runtime::provider::Connection;
use rpcrdma_runtime::wire::rdma::{
    Body, ChunkLists, ErrorBody, Header, MessageLimits, ReadSegment, WriteChunk, decode_call,
};
use rpcrdma_runtime::xdr::{Encode, Message, Reducer, Sink};
use rpcrdma_runtime::{CallError, Client, ClientOptions};
use rpcrdma_sim::{Args, Echo, Res, ResultLengths};

use crate::link::{Link, Provider, isolated};
use crate::raw::{Raw, words};

#[derive(Clone, Copy)]
enum Expected {
    Result,
    BadReply,
    /// Decoding fails, because the result and the Write chunks do not match.
    Decode,
    /// ERR_CHUNK.
    Chunk,
    /// ERR_VERS, which states that the responder supports versions 2 to 3.
    Version,
    /// The message is dropped, and the call waits for its reply.
    NoReply,
    /// The requester replies with ERR_CHUNK, and the call waits for its reply.
    NoReplyButErrChunk,
}

impl Expected {
    fn waits(self) -> bool {
        matches!(self, Expected::NoReply | Expected::NoReplyButErrChunk)
    }
}

struct Reply {
    xid: u32,
    /// The chunks of the call: two Write chunks and a Reply chunk.
    offered: ChunkLists,
    /// The chunks of a valid reply: Write chunks as long as the items, and an unused Reply chunk.
    returned: ChunkLists,
    /// The Payload stream of a valid reply, without the items.
    stream: Bytes,
    /// The Payload stream with the items inline.
    complete: Bytes,
}

impl Reply {
    fn message(&self, lists: ChunkLists, stream: &[u8]) -> Bytes {
        let header = Header { xid: self.xid, credits: 8, body: Body::Msg(lists) }.encode();
        [&header[..], stream].concat().into()
    }

    fn long(&self, lists: ChunkLists) -> Bytes {
        Header { xid: self.xid, credits: 8, body: Body::NoMsg(lists) }.encode()
    }

    fn valid(&self) -> Bytes {
        self.message(self.returned.clone(), &self.stream)
    }

    /// Encodes the valid reply with changed lists.
    fn with(&self, change: impl FnOnce(&mut ChunkLists)) -> Bytes {
        let mut lists = self.returned.clone();
        change(&mut lists);
        self.message(lists, &self.stream)
    }

    /// Encodes a backward call with these chunk lists.
    fn backward(&self, lists: ChunkLists) -> Bytes {
        self.message(lists, &words(&[self.xid, 0, 2, 0, 0, 0, 0, 0, 0, 0]))
    }

    fn error(&self, body: ErrorBody) -> Bytes {
        Header { xid: self.xid, credits: 8, body: Body::Error(body) }.encode()
    }
}

/// The lengths of the result's items. The call offers memory for two items of the larger length.
const ITEMS: [u32; 2] = [16, 7];

type MakeReply = fn(&Reply) -> Bytes;

fn table() -> Vec<(&'static str, MakeReply, Expected)> {
    [accepted(), bad_chunks(), bad_items(), errors(), dropped(), backward_calls()].concat()
}

fn accepted() -> Vec<(&'static str, MakeReply, Expected)> {
    vec![
        ("a valid reply", Reply::valid, Expected::Result),
        (
            "a Reply chunk without segments",
            |reply| reply.with(|lists| lists.reply = Some(WriteChunk::default())),
            Expected::Result,
        ),
        ("no Reply chunk", |reply| reply.with(|lists| lists.reply = None), Expected::Result),
    ]
}

fn bad_chunks() -> Vec<(&'static str, MakeReply, Expected)> {
    let cases: [(&str, MakeReply); 12] = [
        ("longer than offered", |reply| {
            reply.with(|lists| lists.writes[0].0[0].length = reply.offered.writes[0].0[0].length + 1)
        }),
        ("another handle", |reply| reply.with(|lists| lists.writes[0].0[0].handle ^= 1)),
        ("another offset", |reply| reply.with(|lists| lists.writes[0].0[0].offset += 4)),
        ("more segments", |reply| {
            reply.with(|lists| lists.writes[0].0.extend(reply.offered.writes[0].0.clone()))
        }),
        ("more chunks", |reply| reply.with(|lists| lists.writes.extend(reply.offered.writes.clone()))),
        ("a Read list", |reply| {
            let read = ReadSegment { position: 0, segment: Segment { handle: 1, length: 4, offset: 0 } };
            reply.with(|lists| lists.reads.push(read))
        }),
        ("RDMA_NOMSG without a Reply chunk", |reply| reply.long(ChunkLists::default())),
        ("RDMA_NOMSG with an empty Reply chunk", |reply| reply.long(reply.returned.clone())),
        ("RDMA_MSG with a Reply chunk in use", |reply| {
            reply.with(|lists| lists.reply = reply.offered.reply.as_ref().map(|chunk| chunk.filled(8)))
        }),
        ("the XID of another call in the payload", |reply| {
            let stream = [&(!reply.xid).to_be_bytes()[..], &reply.stream[4..]].concat();
            reply.message(reply.returned.clone(), &stream)
        }),
        ("no XID in the Reply chunk", |reply| {
            let mut lists = reply.returned.clone();
            lists.reply = reply.offered.reply.as_ref().map(|chunk| chunk.filled(16));
            reply.long(lists)
        }),
        ("an invalid list", |reply| words(&[reply.xid, 1, 8, 0, 0, 5, 0])),
    ];
    cases.map(|(name, make_reply)| (name, make_reply, Expected::BadReply)).to_vec()
}

/// Returns cases in which the chunks are valid, but do not match the result.
fn bad_items() -> Vec<(&'static str, MakeReply, Expected)> {
    let cases: [(&str, MakeReply); 3] = [
        ("R188 items inline although Write chunks are free", |reply| {
            let mut lists = reply.returned.clone();
            lists.writes.iter_mut().for_each(|chunk| *chunk = chunk.filled(0));
            reply.message(lists, &reply.complete)
        }),
        ("R188 items inline and in Write chunks", |reply| {
            reply.message(reply.returned.clone(), &reply.complete)
        }),
        ("R187 a Write chunk with data that is not eligible", |reply| {
            // The last word is the length of the item in the second chunk.
            let mut stream = reply.stream.to_vec();
            *stream.last_mut().expect("a result") = 0;
            reply.message(reply.returned.clone(), &stream)
        }),
    ];
    cases.map(|(name, make_reply)| (name, make_reply, Expected::Decode)).to_vec()
}

/// Returns backward calls that have chunks. A client without services rejects these calls with ERR_CHUNK, and
/// drops backward calls without chunks (see [`dropped`]).
fn backward_calls() -> Vec<(&'static str, MakeReply, Expected)> {
    const READ: ReadSegment = ReadSegment { position: 40, segment: MEMORY };
    const MEMORY: Segment = Segment { handle: 1, length: 4, offset: 0 };
    let cases: [(&str, MakeReply); 4] = [
        ("R220 a backward call with a Read chunk", |reply| {
            reply.backward(ChunkLists { reads: vec![READ], ..ChunkLists::default() })
        }),
        ("R220 a backward call with a Write chunk", |reply| {
            reply.backward(ChunkLists { writes: vec![WriteChunk(vec![MEMORY])], ..ChunkLists::default() })
        }),
        ("R220 a backward call with a Reply chunk", |reply| {
            reply.backward(ChunkLists { reply: Some(WriteChunk(vec![MEMORY])), ..ChunkLists::default() })
        }),
        ("R220 a long backward call", |reply| {
            let reads = vec![ReadSegment { position: 0, ..READ }];
            reply.long(ChunkLists { reads, ..ChunkLists::default() })
        }),
    ];
    cases.map(|(name, make_reply)| (name, make_reply, Expected::NoReplyButErrChunk)).to_vec()
}

fn errors() -> Vec<(&'static str, MakeReply, Expected)> {
    vec![
        ("ERR_CHUNK", |reply| reply.error(ErrorBody::Chunk), Expected::Chunk),
        ("ERR_VERS", |reply| reply.error(ErrorBody::Version { low: 2, high: 3 }), Expected::Version),
        ("H31 an unknown error", |reply| words(&[reply.xid, 1, 8, 4, 77]), Expected::BadReply),
        ("H31 a truncated error", |reply| words(&[reply.xid, 1, 8, 4]), Expected::BadReply),
        ("H37 an error with an unknown XID", |_| words(&[99, 1, 8, 4, 2]), Expected::NoReply),
        ("H31 an unknown error with an unknown XID", |_| words(&[99, 1, 8, 4, 77]), Expected::NoReply),
        ("H30 an invalid list and an unknown XID", |_| words(&[99, 1, 8, 0, 0, 5, 0]), Expected::NoReply),
    ]
}

fn dropped() -> Vec<(&'static str, MakeReply, Expected)> {
    let cases: [(&str, MakeReply); 8] = [
        ("H13 nothing", |_| Bytes::new()),
        ("H13 15 bytes", |reply| words(&[reply.xid, 1, 8, 0]).slice(..15)),
        ("H13 27 bytes", |reply| words(&[reply.xid, 1, 8, 0, 0, 0, 0]).slice(..27)),
        ("H14 version 2", |reply| words(&[reply.xid, 2, 8, 0, 0, 0, 0, reply.xid, 1])),
        ("H16 RDMA_MSGP", |reply| words(&[reply.xid, 1, 8, 2, 0, 0, 0, 0, 0, reply.xid, 1])),
        ("H18 RDMA_DONE", |reply| words(&[reply.xid, 1, 8, 3, 0, 0, 0])),
        ("H36 a backward call", |reply| {
            reply.message(ChunkLists::default(), &words(&[reply.xid, 0, 2, 0, 0, 0, 0, 0, 0, 0]))
        }),
        ("H37 a reply with an unknown XID", |_| words(&[99, 1, 8, 0, 0, 0, 0, 99, 1, 0, 0, 0, 0])),
    ];
    cases.map(|(name, make_reply)| (name, make_reply, Expected::NoReply)).to_vec()
}

/// The number of times that a case runs if its message leaves the call waiting. The number exceeds the number
/// of the client's Receives, so a case fails if a Receive is not posted again.
const CALLS: usize = 8;

async fn run<P: Provider>(make_reply: MakeReply, expected: Expected) {
    let link = Link::of_table();
    let (local, peer) = P::connect(&link).await;
    let mut raw = Raw::new(peer);
    let options = ClientOptions { config: link.config, ..ClientOptions::default() };
    let client = Client::over(local, options);
    for _ in 0..if expected.waits() { CALLS } else { 1 } {
        exchange(&client, &mut raw, make_reply, expected).await;
    }
}

async fn exchange<C: Connection>(
    client: &Client,
    raw: &mut Raw<C>,
    make_reply: MakeReply,
    expected: Expected,
) {
    // The arguments request a note of 3000 bytes, so the call offers a Reply chunk in addition to two Write
    // chunks. The peer returns a shorter note, so a valid reply does not use the Reply chunk.
    let result = Args::new(5, [0; 3], ResultLengths { note: 12, item: ITEMS[0], other: ITEMS[1] }).result();
    let args = Args::new(1, [0; 3], ResultLengths { note: 3000, item: ITEMS[0], other: ITEMS[0] });
    let answering = async {
        let reply = place(raw, &result).await;
        assert!(raw.send(vec![make_reply(&reply)]).await, "the connection has ended");
        if matches!(expected, Expected::NoReplyButErrChunk) {
            assert_eq!(raw.receive().await, Some(words(&[reply.xid, 1, 1, 4, 2])));
        }
        if expected.waits() {
            assert!(raw.send(vec![reply.valid()]).await, "the connection has ended");
        }
        raw.receive().await
    };
    let outcome = tokio::select! {
        outcome = client.call::<Echo>(&args) => outcome,
        received = answering => panic!("R164: unexpected message from the requester: {received:?}"),
    };
    let is_expected = match (expected, &outcome) {
        (Expected::Result | Expected::NoReply | Expected::NoReplyButErrChunk, Ok(got)) => *got == result,
        (Expected::BadReply, Err(CallError::Transport(TransportError::BadReply(_)))) => true,
        (Expected::Decode, Err(CallError::Decode(_))) => true,
        (Expected::Chunk, Err(CallError::TooLong { source: TransportError::Chunk, .. })) => true,
        (Expected::Version, Err(CallError::Transport(TransportError::Version { low: 2, high: 3 }))) => true,
        _ => false,
    };
    assert!(is_expected, "{outcome:?}");
}

/// Receives the call and writes the result's items to its Write chunks. Returns the parts of a valid reply.
async fn place<C: Connection>(raw: &mut Raw<C>, result: &Res) -> Reply {
    let message = raw.receive().await.expect("a call");
    let (header, _) = decode_call(&message, &MessageLimits::default()).expect("a valid call");
    let Body::Msg(offered) = header.body else { panic!("a short call") };
    let xid = header.xid;
    let mut sink = Reducer::new(1);
    let placed = sink.put(&words(&[xid, 1, 0, 0, 0, 0])).and_then(|()| result.encode(&mut sink));
    placed.expect("a result within its bounds");
    let message = sink.into_message();
    let complete = message.clone().flatten();
    let Message { stream, items } = message;
    let mut returned = offered.clone();
    assert_eq!((returned.writes.len(), items.len()), (2, 2));
    for (chunk, item) in returned.writes.iter_mut().zip(items) {
        chunk.fill(item.data.len() as u64);
        raw.write(chunk.0[0], item.data).await;
    }
    returned.reply.as_mut().expect("a Reply chunk").fill(0);
    Reply { xid, offered, returned, stream, complete }
}

pub(crate) async fn over<P: Provider>() {
    let mut failed = Vec::new();
    for (name, make_reply, expected) in table() {
        if let Err(why) = isolated(move || run::<P>(make_reply, expected)).await {
            failed.push(format!("{name}: {why}"));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}
