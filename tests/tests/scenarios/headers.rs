//! Messages that do not start a call, and the responder's replies (RFC 8166 section 4.5).

use bytes::Bytes;
use rpcrdma_runtime::proto::work::Segment;
use rpcrdma_runtime::wire::rdma::{Body, ChunkLists, Header, ReadSegment, WriteChunk};
use rpcrdma_sim::{Args, ResultLengths};

use crate::layouts::result_of;
use crate::link::{Link, Provider, isolated};
use crate::raw::{Raw, XID, words};

/// Returns the XID and the message type of an RPC call, followed by `more` bytes.
fn rpc(more: usize) -> Bytes {
    [&words(&[XID, 0])[..], &vec![0x11; more]].concat().into()
}

fn msg(lists: ChunkLists, payload: &[u8]) -> Bytes {
    let header = Header { xid: XID, credits: 4, body: Body::Msg(lists) }.encode();
    [&header[..], payload].concat().into()
}

fn nomsg(lists: ChunkLists) -> Bytes {
    Header { xid: XID, credits: 4, body: Body::NoMsg(lists) }.encode()
}

fn segment(length: u32) -> Segment {
    Segment { handle: 1, length, offset: 0xffff_0000_0000 }
}

fn read(position: u32, length: u32) -> ReadSegment {
    ReadSegment { position, segment: segment(length) }
}

fn reads(reads: Vec<ReadSegment>) -> ChunkLists {
    ChunkLists { reads, ..ChunkLists::default() }
}

#[derive(Clone, Copy)]
enum Gets {
    Nothing,
    ErrVers,
    ErrChunk,
}

fn header(version: u32, kind: u32, rest: &[u32]) -> Bytes {
    words(&[&[XID, version, 4, kind], rest].concat())
}

fn long(kind: u32, rest: &[u32]) -> Bytes {
    [&header(1, kind, rest)[..], &rpc(40)].concat().into()
}

/// Returns messages that do not start a call because of their length, version or type, each with its
/// response.
fn bad_starts() -> Vec<(&'static str, Bytes, Gets)> {
    use Gets::{ErrChunk, ErrVers, Nothing};
    vec![
        ("H13 nothing", Bytes::new(), Nothing),
        ("H13 one byte", Bytes::from_static(b"x"), Nothing),
        ("H13 15 bytes", header(1, 0, &[]).slice(..15), Nothing),
        ("H13 27 bytes", header(1, 0, &[0, 0, 0]).slice(..27), Nothing),
        ("H14 version 0", header(0, 0, &[0, 0, 0]), ErrVers),
        ("H14 version 2", header(2, 0, &[0, 0, 0]), ErrVers),
        ("H14 version 2 and an unknown type", header(2, 77, &[9, 9, 9]), ErrVers),
        ("H14 version 0xffffffff", header(u32::MAX, 0, &[0, 0, 0]), ErrVers),
        ("R165 RDMA_ERROR of version 2", header(2, 4, &[1, 2, 2]), Nothing),
        ("H15 type 5", long(5, &[0, 0, 0]), ErrChunk),
        ("H15 type 0xffffffff", long(u32::MAX, &[0, 0, 0]), ErrChunk),
        ("H16 RDMA_MSGP", long(2, &[0, 0, 0, 0, 0]), ErrChunk),
        ("H17 RDMA_ERROR", long(4, &[2, 0, 0]), Nothing),
        ("R165 ERR_VERS", header(1, 4, &[1, 1, 1]), Nothing),
        ("R165 ERR_CHUNK", header(1, 4, &[2]), Nothing),
        ("R165 RDMA_ERROR with an unknown error code", header(1, 4, &[7, 0, 0]), Nothing),
        ("H18 RDMA_DONE", long(3, &[0, 0, 0]), Nothing),
    ]
}

/// Returns messages that do not start a call because of their chunk lists or RPC message, each with its
/// response.
fn bad_lists() -> Vec<(&'static str, Bytes, Gets)> {
    use Gets::{ErrChunk, Nothing};
    let wraps = ReadSegment { position: 8, segment: Segment { handle: 1, length: 16, offset: u64::MAX - 8 } };
    vec![
        ("H19 RDMA_NOMSG without lists", nomsg(ChunkLists::default()), ErrChunk),
        (
            "H20 RDMA_NOMSG with a payload",
            [&nomsg(reads(vec![read(0, 48)]))[..], b"more"].concat().into(),
            ErrChunk,
        ),
        ("H21 position 1", msg(reads(vec![read(1, 4)]), &rpc(40)), ErrChunk),
        ("H21 position 2", msg(reads(vec![read(2, 4)]), &rpc(40)), ErrChunk),
        ("H21 position 47", msg(reads(vec![read(47, 4)]), &rpc(40)), ErrChunk),
        ("H22 position past the end of the stream", msg(reads(vec![read(52, 4)]), &rpc(40)), ErrChunk),
        ("H22 position 0xfffffffc", msg(reads(vec![read(0xffff_fffc, 4)]), &rpc(40)), ErrChunk),
        ("H23 overlap", msg(reads(vec![read(40, 9), read(48, 4)]), &rpc(40)), ErrChunk),
        ("H24 another XID", msg(ChunkLists::default(), &words(&[XID + 1, 0, 2, 0, 0, 0])), ErrChunk),
        ("H24 no payload", msg(ChunkLists::default(), &[]), ErrChunk),
        (
            "H24 another XID, with a Read chunk",
            msg(reads(vec![read(20, 4)]), &words(&[XID + 1, 0, 2, 0, 0, 0])),
            ErrChunk,
        ),
        ("H25 discriminant 2", long(0, &[2, 0, 0]), ErrChunk),
        ("H25 discriminant 0x80000000", long(0, &[0, 0x8000_0000, 0]), ErrChunk),
        ("H26 truncated list", header(1, 0, &[1, 8, 1, 4, 0, 0, 1, 16]), ErrChunk),
        ("H29 segment count 0xffffffff", long(0, &[0, 1, u32::MAX, 0]), ErrChunk),
        ("H29 reply segment count 0x10000000", long(0, &[0, 0, 1, 0x1000_0000]), ErrChunk),
        ("H34 sum over 4 GiB", msg(reads(vec![read(48, u32::MAX); 16]), &rpc(40)), ErrChunk),
        (
            "H34 write sum over 4 GiB",
            msg(
                ChunkLists { writes: vec![WriteChunk(vec![segment(u32::MAX); 2])], ..ChunkLists::default() },
                &rpc(40),
            ),
            ErrChunk,
        ),
        ("H35 wrapping offset", msg(reads(vec![wraps]), &rpc(40)), ErrChunk),
        ("position zero with an inline stream", msg(reads(vec![read(0, 8)]), &rpc(40)), ErrChunk),
        (
            "a reply in the backward direction",
            msg(ChunkLists::default(), &words(&[XID, 1, 0, 0, 0, 0])),
            Nothing,
        ),
    ]
}

/// Returns damaged copies of a header, and the expected response to each copy. The header has a Read chunk, a
/// Write chunk and a Reply chunk. Each copy is truncated at a different word, or has a wrong discriminant in
/// one list.
fn damaged_lists() -> Vec<(String, Bytes, Gets)> {
    let chunk = WriteChunk(vec![segment(8)]);
    let lists = ChunkLists { reads: vec![read(48, 4)], writes: vec![chunk.clone()], reply: Some(chunk) };
    let complete = msg(lists, &[]);
    let gets = |len| if len < 28 { Gets::Nothing } else { Gets::ErrChunk };
    let cut = (0..complete.len())
        .step_by(4)
        .map(|len| (format!("H26 {len} bytes"), complete.slice(..len), gets(len)));
    // The fixed header has four words. A Read segment (six words) and the end of the Read list follow. Then a
    // Write chunk (six words), the end of the Write list, and the Reply chunk follow.
    let marks = [4, 10, 11, 17, 18].map(|word: usize| {
        let mut message = complete.to_vec();
        message[4 * word + 2] = 1;
        (format!("H25 word {word}"), [&message[..], &rpc(40)].concat().into(), Gets::ErrChunk)
    });
    cut.chain(marks).collect()
}

/// Sends each message and then a call. The reply to the call shows that the connection continues and that a
/// dropped message gets no response.
async fn run<P: Provider>() {
    let link = Link::of_table();
    let (local, peer) = P::connect(&link).await;
    let (_serving, _stop) = link.serve(peer);
    tokio::task::yield_now().await;
    let mut raw = Raw::new(local);
    let granted = link.config.credits;
    let table = bad_starts()
        .into_iter()
        .chain(bad_lists())
        .map(|(name, message, gets)| (name.to_owned(), message, gets));
    for (name, message, gets) in table.chain(damaged_lists()) {
        let answer = match gets {
            Gets::Nothing => None,
            Gets::ErrVers => {
                let version = message.get(4..8).and_then(|word| word.try_into().ok()).map(u32::from_be_bytes);
                // R167: ERR_VERS repeats the version of the rejected message.
                Some(words(&[XID, version.expect(&name), granted, 4, 1, 1, 1]))
            }
            Gets::ErrChunk => Some(words(&[XID, 1, granted, 4, 2])),
        };
        assert!(raw.send(vec![message]).await, "{name}");
        if answer.is_some() {
            assert_eq!(raw.receive().await, answer, "{name}");
        }
        let args = Args::new(XID, [1, 2, 3], ResultLengths::default());
        let call = rpcrdma_sim::call(XID, &args, usize::MAX).flatten();
        assert!(raw.send(vec![msg(ChunkLists::default(), &call)]).await, "{name}");
        let reply = raw.receive().await.unwrap_or_else(|| panic!("{name}: the connection has ended"));
        assert_eq!(result_of(&reply), Ok(args.result()), "{name}");
    }
}

pub(crate) async fn over<P: Provider>() {
    isolated(run::<P>).await.unwrap_or_else(|why| panic!("{why}"));
}
