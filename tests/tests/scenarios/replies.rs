//! Replies that do not fit their calls, and what becomes of each call at the requester (RFC 8166 section
//! 3.4.6, 4.4 and 4.5).

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
use rpcrdma_sim::{Args, Echo, Res, Want};

use crate::link::{Link, Provider, alone};
use crate::raw::{Raw, words};

/// How a call ends.
#[derive(Clone, Copy)]
enum Ends {
    Result,
    BadReply,
    /// ERR_CHUNK.
    Chunk,
    /// ERR_VERS with versions 2 to 3.
    Version,
    /// The message is dropped, and the call waits for its reply.
    Waits,
}

/// A good reply.
struct Reply {
    xid: u32,
    /// The chunks of the call: two Write chunks and a Reply chunk.
    offered: ChunkLists,
    /// The same with the lengths of the items and an unused Reply chunk.
    returned: ChunkLists,
    /// The stream without its items.
    stream: Bytes,
}

impl Reply {
    fn message(&self, lists: ChunkLists, stream: &[u8]) -> Bytes {
        let header = Header { xid: self.xid, credits: 8, body: Body::Msg(lists) }.encode();
        [&header[..], stream].concat().into()
    }

    fn long(&self, lists: ChunkLists) -> Bytes {
        Header { xid: self.xid, credits: 8, body: Body::NoMsg(lists) }.encode()
    }

    fn good(&self) -> Bytes {
        self.message(self.returned.clone(), &self.stream)
    }

    /// The good reply with other lists.
    fn with(&self, change: impl FnOnce(&mut ChunkLists)) -> Bytes {
        let mut lists = self.returned.clone();
        change(&mut lists);
        self.message(lists, &self.stream)
    }

    fn error(&self, body: ErrorBody) -> Bytes {
        Header { xid: self.xid, credits: 8, body: Body::Error(body) }.encode()
    }
}

/// The lengths of the items of the result, and the largest, for which memory is offered.
const ITEMS: [u32; 2] = [16, 7];

type Say = fn(&Reply) -> Bytes;

fn table() -> Vec<(&'static str, Say, Ends)> {
    [accepted(), bad_chunks(), errors(), dropped()].concat()
}

fn accepted() -> Vec<(&'static str, Say, Ends)> {
    vec![
        ("a good reply", Reply::good, Ends::Result),
        (
            "a Reply chunk without segments",
            |reply| reply.with(|lists| lists.reply = Some(WriteChunk::default())),
            Ends::Result,
        ),
        ("no Reply chunk", |reply| reply.with(|lists| lists.reply = None), Ends::Result),
    ]
}

fn bad_chunks() -> Vec<(&'static str, Say, Ends)> {
    let cases: [(&str, Say); 12] = [
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
        ("RDMA_NOMSG with a Reply chunk of no bytes", |reply| reply.long(reply.returned.clone())),
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
        ("a broken list", |reply| words(&[reply.xid, 1, 8, 0, 0, 5, 0])),
    ];
    cases.map(|(name, say)| (name, say, Ends::BadReply)).to_vec()
}

fn errors() -> Vec<(&'static str, Say, Ends)> {
    vec![
        ("ERR_CHUNK", |reply| reply.error(ErrorBody::Chunk), Ends::Chunk),
        ("ERR_VERS", |reply| reply.error(ErrorBody::Version { low: 2, high: 3 }), Ends::Version),
        ("H31 an error of another kind", |reply| words(&[reply.xid, 1, 8, 4, 77]), Ends::BadReply),
        ("H31 an error that is cut", |reply| words(&[reply.xid, 1, 8, 4]), Ends::BadReply),
        ("H30 an error of no call", |_| words(&[99, 1, 8, 4, 2]), Ends::Waits),
        ("H31 an error of another kind of no call", |_| words(&[99, 1, 8, 4, 77]), Ends::Waits),
        ("H31 a broken list of no call", |_| words(&[99, 1, 8, 0, 0, 5, 0]), Ends::Waits),
    ]
}

fn dropped() -> Vec<(&'static str, Say, Ends)> {
    let cases: [(&str, Say); 8] = [
        ("H13 nothing", |_| Bytes::new()),
        ("H13 15 bytes", |reply| words(&[reply.xid, 1, 8, 0]).slice(..15)),
        ("H13 27 bytes", |reply| words(&[reply.xid, 1, 8, 0, 0, 0, 0]).slice(..27)),
        ("H14 version 2", |reply| words(&[reply.xid, 2, 8, 0, 0, 0, 0, reply.xid, 1])),
        ("H16 RDMA_MSGP", |reply| words(&[reply.xid, 1, 8, 2, 0, 0, 0, 0, 0, reply.xid, 1])),
        ("H18 RDMA_DONE", |reply| words(&[reply.xid, 1, 8, 3, 0, 0, 0])),
        ("H36 a backward call", |reply| {
            reply.message(ChunkLists::default(), &words(&[reply.xid, 0, 2, 0, 0, 0, 0, 0, 0, 0]))
        }),
        ("H37 a reply to no call", |_| words(&[99, 1, 8, 0, 0, 0, 0, 99, 1, 0, 0, 0, 0])),
    ];
    cases.map(|(name, say)| (name, say, Ends::Waits)).to_vec()
}

/// How many calls a dropped message precedes the reply of: more than there are Receives.
const CALLS: usize = 8;

async fn run<P: Provider>(say: Say, ends: Ends) {
    let link = Link::of_table();
    let (near, far) = P::connect(&link).await;
    let mut raw = Raw::new(far);
    let options = ClientOptions { config: link.config, ..ClientOptions::default() };
    let client = Client::over(near, options);
    for _ in 0..if matches!(ends, Ends::Waits) { CALLS } else { 1 } {
        exchange(&client, &mut raw, say, ends).await;
    }
}

async fn exchange<C: Connection>(client: &Client, raw: &mut Raw<C>, say: Say, ends: Ends) {
    // The call asks for more than comes, so that it offers each kind of chunk.
    let result = Args::new(5, [0; 3], Want { note: 12, item: ITEMS[0], other: ITEMS[1] }).result();
    let args = Args::new(1, [0; 3], Want { note: 3000, item: ITEMS[0], other: ITEMS[0] });
    let answering = async {
        let reply = place(raw, &result).await;
        assert!(raw.send(vec![say(&reply)]).await, "the connection has ended");
        if matches!(ends, Ends::Waits) {
            assert!(raw.send(vec![reply.good()]).await, "the connection has ended");
        }
        raw.receive().await
    };
    let outcome = tokio::select! {
        outcome = client.call::<Echo>(&args) => outcome,
        heard = answering => panic!("R164: a requester answers nothing, but here is {heard:?}"),
    };
    let is_expected = match (ends, &outcome) {
        (Ends::Result | Ends::Waits, Ok(got)) => *got == result,
        (Ends::BadReply, Err(CallError::Transport(TransportError::BadReply(_)))) => true,
        (Ends::Chunk, Err(CallError::Transport(TransportError::Chunk))) => true,
        (Ends::Version, Err(CallError::Transport(TransportError::Version { low: 2, high: 3 }))) => true,
        _ => false,
    };
    assert!(is_expected, "{outcome:?}");
}

/// Takes the call and writes the result's items to its Write chunks.
async fn place<C: Connection>(raw: &mut Raw<C>, result: &Res) -> Reply {
    let message = raw.receive().await.expect("a call");
    let (header, _) = decode_call(&message, &MessageLimits::default()).expect("a good call");
    let Body::Msg(offered) = header.body else { panic!("a short call") };
    let xid = header.xid;
    let mut sink = Reducer::new(1);
    let placed = sink.put(&words(&[xid, 1, 0, 0, 0, 0])).and_then(|()| result.encode(&mut sink));
    placed.expect("a result within its bounds");
    let Message { stream, items } = sink.into_message();
    let mut returned = offered.clone();
    assert_eq!((returned.writes.len(), items.len()), (2, 2));
    for (chunk, item) in returned.writes.iter_mut().zip(items) {
        chunk.fill(item.data.len() as u64);
        raw.write(chunk.0[0], item.data).await;
    }
    returned.reply.as_mut().expect("a Reply chunk").fill(0);
    Reply { xid, offered, returned, stream }
}

/// Runs each case on a connection of its own.
pub(crate) async fn over<P: Provider>() {
    let mut failed = Vec::new();
    for (name, say, ends) in table() {
        if let Err(why) = alone(move || run::<P>(say, ends)).await {
            failed.push(format!("{name}: {why}"));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}
