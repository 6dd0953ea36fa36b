//! Calls with handcrafted chunks of each kind, and the responder's replies (RFC 8166 sections 3.4, 3.5 and
//! 4.3). In many cases, a length or a number of chunks or segments is at a limit or next to it.

use std::ops::RangeInclusive;

use bytes::{Bytes, BytesMut};
use rpcrdma_runtime::proto::work::{Memory, Segment};
use rpcrdma_runtime::provider::Connection;
use rpcrdma_runtime::wire::rdma::{
    Body, ChunkLists, Header, MessageLimits, ReadSegment, WriteChunk, decode_reply,
};
use rpcrdma_runtime::wire::rpc::{self, ReplyError};
use rpcrdma_runtime::xdr::{Decode, Message, Placed, PlacedItem, Reader, Received, pad_len};
use rpcrdma_sim::{Args, Res, ResultLengths, call};

use crate::link::{Link, Provider, isolated};
use crate::raw::{Raw, XID, words};

#[derive(Clone)]
enum Gets {
    /// The result. The reply returns the Write chunks and the Reply chunk with these segment lengths.
    Result(Vec<Vec<u32>>, Option<Vec<u32>>),
    GarbageArguments,
    ErrChunk,
    /// The connection ends.
    Closed,
}

#[derive(Clone)]
struct Case {
    name: String,
    args: Args,
    /// The inline stream, or `None` for RDMA_NOMSG.
    inline: Option<Bytes>,
    /// The Read list: the position and the content of each segment.
    reads: Vec<(u32, Bytes)>,
    writes: Vec<Vec<u32>>,
    reply: Option<Vec<u32>>,
    /// Changes the chunk lists after the memory is registered.
    modify: fn(&mut ChunkLists),
    gets: Gets,
}

impl Case {
    /// Returns a case with each non-empty item of the call in a Read chunk, and with an inline result.
    fn new(name: impl Into<String>, args: [usize; 3], [note, item, other]: [u32; 3]) -> Self {
        let args = Args::new(XID, args, ResultLengths { note, item, other });
        let Message { stream, items } = call(XID, &args, 1);
        let reads = items.into_iter().map(|item| (item.position, item.data)).collect();
        let gets = Gets::Result(Vec::new(), None);
        let (writes, reply) = (Vec::new(), None);
        Case { name: name.into(), args, inline: Some(stream), reads, writes, reply, modify: |_| {}, gets }
    }

    /// Returns a case with the complete stream of the call inline.
    fn inline(name: impl Into<String>, args: [usize; 3], want: [u32; 3]) -> Self {
        let case = Case::new(name, args, want);
        Case { inline: Some(call(XID, &case.args, usize::MAX).flatten()), reads: Vec::new(), ..case }
    }

    /// Puts the inline stream into a Position-Zero chunk.
    fn long(mut self) -> Self {
        self.reads.splice(..0, self.inline.take().map(|stream| (0, stream)));
        self
    }

    /// Splits a segment of the Read list at each of the offsets `at`.
    fn cut(mut self, entry: usize, at: RangeInclusive<usize>) -> Self {
        let (position, mut data) = self.reads.remove(entry);
        let mut parts = Vec::new();
        for at in at.rev() {
            parts.insert(0, (position, data.split_off(at)));
        }
        parts.insert(0, (position, data));
        self.reads.splice(entry..entry, parts);
        self
    }

    /// Changes the data of the first segment of the Read list.
    fn first(mut self, change: fn(&mut Vec<u8>)) -> Self {
        let mut data = self.reads[0].1.to_vec();
        change(&mut data);
        self.reads[0].1 = data.into();
        self
    }

    fn order(mut self, order: &[usize]) -> Self {
        self.reads = order.iter().map(|entry| self.reads[*entry].clone()).collect();
        self
    }

    /// Offers Write chunks with the segment lengths `offered`. The reply returns them with the segment
    /// lengths `returned`.
    fn writes(mut self, offered: &[&[u32]], returned: &[&[u32]]) -> Self {
        let lengths = |chunks: &[&[u32]]| chunks.iter().map(|chunk| chunk.to_vec()).collect();
        self.writes = lengths(offered);
        if let Gets::Result(writes, _) = &mut self.gets {
            *writes = lengths(returned);
        }
        self
    }

    /// Offers a Reply chunk with the segment lengths `offered`. The reply returns it with the segment lengths
    /// `returned`.
    fn reply(mut self, offered: &[u32], returned: &[u32]) -> Self {
        self.reply = Some(offered.to_vec());
        if let Gets::Result(_, reply) = &mut self.gets {
            *reply = Some(returned.to_vec());
        }
        self
    }

    fn gets(self, gets: Gets) -> Self {
        Case { gets, ..self }
    }
}

/// Empty arguments.
const NONE: [usize; 3] = [0; 3];
/// An empty result.
const VOID: [u32; 3] = [0; 3];

fn cases() -> Vec<Case> {
    let mut cases = read_chunks();
    cases.extend(long_calls());
    cases.extend(write_chunks());
    cases.extend(replies());
    cases
}

fn read_chunks() -> Vec<Case> {
    let mut cases = vec![
        Case::inline("nothing eligible", NONE, VOID),
        Case::inline("items inline", [5, 3, 2], VOID),
        Case::new("two Read chunks", [5, 3, 6], VOID),
        Case::new("the Read list in reverse order", [5, 3, 6], VOID).order(&[1, 0]),
        Case::new("a segment for each byte", [7, 0, 0], VOID).cut(0, 1..=6),
        Case::new("interleaved segments of two chunks", [5, 3, 6], VOID)
            .cut(1, 4..=4)
            .cut(0, 3..=3)
            .order(&[0, 2, 1, 3]),
        Case::new("a chunk shorter than its item", [5, 0, 0], VOID)
            .first(|data| data.truncate(4))
            .gets(Gets::GarbageArguments),
        Case::new("a chunk longer than its padded item", [5, 0, 0], VOID)
            .first(|data| data.resize(9, 0))
            .gets(Gets::GarbageArguments),
        Case {
            reads: vec![(52, Bytes::from_static(b"note"))],
            ..Case::new("a chunk in place of data that is not eligible", [0, 4, 0], VOID)
        }
        .gets(Gets::GarbageArguments),
        Case {
            modify: |lists| lists.reads[0].segment.handle ^= 0x5555_0000,
            ..Case::new("an unknown handle", [5, 0, 0], VOID)
        }
        .gets(Gets::Closed),
        Case {
            modify: |lists| lists.reads[0].segment.length += 4096,
            ..Case::new("a segment longer than its memory", [5, 0, 0], VOID)
        }
        .gets(Gets::Closed),
    ];
    for len in 1..=8 {
        cases.push(Case::new(format!("{len} bytes without padding"), [len, 0, len], VOID));
        let padded = Case::new(format!("{len} bytes with their padding"), [len, 0, len], VOID);
        cases.push(padded.first(|data| data.resize(data.len().next_multiple_of(4), 0)));
        if pad_len(len) > 0 {
            let mut apart =
                Case::new(format!("{len} bytes and their padding in separate segments"), [len, 0, len], VOID);
            apart.reads.insert(1, (apart.reads[0].0, vec![0; pad_len(len)].into()));
            cases.push(apart);
        }
    }
    cases
}

/// Returns calls about as long as the inline threshold, and calls with a Position-Zero chunk. The header
/// takes 28 bytes and a call with empty arguments takes 68, so 928 more bytes reach the threshold of 1,024
/// bytes.
fn long_calls() -> Vec<Case> {
    vec![
        Case::inline("a call below the threshold", [0, 924, 0], VOID),
        Case::inline("a call as long as the threshold", [0, 928, 0], VOID),
        Case::inline("a call above the threshold", [0, 932, 0], VOID).gets(Gets::Closed),
        Case::inline("a Position-Zero chunk", [5, 3000, 7], VOID).long(),
        Case::inline("a Position-Zero chunk that would fit inline", NONE, VOID).long(),
        Case::inline("a Position-Zero chunk in segments", [5, 9, 7], VOID).long().cut(0, 3..=8),
        Case::new("a Position-Zero chunk before the chunks of items", [5, 3000, 7], VOID).long(),
        Case::new("a Position-Zero chunk after the chunks of items", [5, 3000, 7], VOID)
            .long()
            .order(&[2, 1, 0]),
        Case::inline("a Position-Zero chunk with another XID", NONE, VOID)
            .long()
            .first(|data| data[3] ^= 1)
            .gets(Gets::ErrChunk),
    ]
}

fn write_chunks() -> Vec<Case> {
    let mut cases = vec![
        Case::inline("an item in segments", NONE, [0, 5, 0]).writes(&[&[3, 3, 3]], &[&[3, 2, 0]]),
        Case::inline("items that fill segments", NONE, [0, 6, 3])
            .writes(&[&[3, 3], &[1, 2]], &[&[3, 3], &[1, 2]]),
        Case::inline("two items and one chunk", NONE, [0, 5, 7]).writes(&[&[8]], &[&[5]]),
        Case::inline("one item and three chunks", NONE, [0, 5, 0])
            .writes(&[&[8], &[8], &[8, 8]], &[&[5], &[0], &[0, 0]]),
        Case::inline("an empty item leaves its chunk to the next item", NONE, [0, 0, 6])
            .writes(&[&[8], &[8]], &[&[6], &[0]]),
        Case::inline("a chunk without segments leaves its item inline", NONE, [0, 5, 6])
            .writes(&[&[], &[8]], &[&[], &[6]]),
        Case::inline("a chunk one byte too short", NONE, [0, 5, 0]).writes(&[&[4]], &[]).gets(Gets::ErrChunk),
        Case::inline("segments one byte too short", NONE, [0, 9, 0])
            .writes(&[&[4, 4]], &[])
            .gets(Gets::ErrChunk),
        Case::inline("the second chunk one byte too short", NONE, [0, 5, 9])
            .writes(&[&[5], &[8]], &[])
            .gets(Gets::ErrChunk),
        Case::new("Read chunks and Write chunks", [5, 3, 6], [3, 7, 9]).writes(&[&[7], &[9]], &[&[7], &[9]]),
        Case {
            modify: |lists| lists.writes[0].0[0].handle ^= 0x5555_0000,
            ..Case::inline("an unknown sink", NONE, [0, 5, 0])
        }
        .writes(&[&[8]], &[])
        .gets(Gets::Closed),
        Case {
            modify: |lists| lists.writes[0].0[0].length = 9000,
            ..Case::inline("a chunk longer than its memory", NONE, [0, 9000, 0])
        }
        .writes(&[&[8]], &[])
        .gets(Gets::Closed),
    ];
    cases.extend(limits());
    for len in 1..=8 {
        let case = || Case::inline(format!("a result of {len} bytes"), NONE, [0, len, 0]);
        cases.push(case().writes(&[&[len]], &[&[len]]));
        cases.push(case().writes(&[&[len + 1]], &[&[len]]));
    }
    cases
}

/// Returns cases with as many Write chunks or segments as [`Link::of_table`] allows, and with one more.
fn limits() -> Vec<Case> {
    const CHUNKS: usize = Link::LIMITS.max_write_chunks;
    const SEGMENTS: usize = Link::LIMITS.max_segments;
    let mut chunks = [&[0][..]; CHUNKS];
    chunks[0] = &[5];
    let mut segments = [0; SEGMENTS];
    segments[..5].fill(1);
    vec![
        Case::inline("the maximum number of Write chunks", NONE, [0, 5, 0])
            .writes(&[&[8][..]; CHUNKS], &chunks),
        Case::inline("one Write chunk too many", NONE, [0, 5, 0])
            .writes(&[&[8][..]; CHUNKS + 1], &[])
            .gets(Gets::ErrChunk),
        Case::inline("the maximum number of segments", NONE, [0, 5, 0])
            .writes(&[&[1; SEGMENTS]], &[&segments]),
        Case::inline("one segment too many", NONE, [0, 5, 0])
            .writes(&[&[1; SEGMENTS + 1]], &[])
            .gets(Gets::ErrChunk),
        Case::inline("one segment too many in the Reply chunk", NONE, [0, 5, 0])
            .writes(&[&[1; SEGMENTS]], &[])
            .reply(&[976], &[])
            .gets(Gets::ErrChunk),
    ]
}

/// Returns calls whose replies are about as long as the inline threshold, and calls with Reply chunks. The
/// header takes 28 bytes and a reply without data takes 52, so 944 more bytes reach the threshold. With a
/// Reply chunk of one segment, 924 more bytes reach it.
fn replies() -> Vec<Case> {
    vec![
        Case::inline("a reply below the threshold", NONE, [940, 0, 0]),
        Case::inline("a reply as long as the threshold", NONE, [944, 0, 0]),
        Case::inline("a reply above the threshold", NONE, [945, 0, 0]).gets(Gets::ErrChunk),
        Case::inline("an unused Reply chunk", NONE, [924, 0, 0]).reply(&[976], &[0]),
        Case::inline("a used Reply chunk", NONE, [925, 0, 0]).reply(&[980], &[980]),
        Case::inline("a Reply chunk larger than the reply", NONE, [925, 0, 0]).reply(&[981], &[980]),
        Case::inline("a Reply chunk smaller than the reply", NONE, [925, 0, 0])
            .reply(&[979], &[])
            .gets(Gets::ErrChunk),
        Case::inline("a Reply chunk without segments", NONE, [945, 0, 0])
            .reply(&[], &[])
            .gets(Gets::ErrChunk),
        Case::inline("a Reply chunk of empty segments", NONE, [945, 0, 0])
            .reply(&[0; 3], &[])
            .gets(Gets::ErrChunk),
        Case::inline("a Reply chunk in segments", NONE, [925, 0, 0]).reply(&[4, 975, 8], &[4, 975, 1]),
        Case::inline("a Reply chunk with items inside", NONE, [0, 925, 5]).reply(&[2000], &[988]),
        Case::inline("a Reply chunk with Write chunks", NONE, [3000, 50, 5])
            .writes(&[&[50], &[5]], &[&[50], &[5]])
            .reply(&[4000], &[3052]),
        Case::new("every kind of chunk", [5, 3000, 7], [3000, 5000, 0])
            .long()
            .writes(&[&[5000], &[8]], &[&[5000], &[0]])
            .reply(&[1000, 3000], &[1000, 2052]),
    ]
}

const UNTOUCHED: u8 = 0xee;

async fn run<P: Provider>(case: Case) {
    let link = Link::of_table();
    let (local, peer) = P::connect(&link).await;
    let (_serving, _stop) = link.serve(peer);
    tokio::task::yield_now().await;
    let mut raw = Raw::new(local);
    let mut lists = ChunkLists::default();
    for (position, data) in case.reads {
        lists.reads.push(ReadSegment { position, segment: raw.register(Memory::Source(data)).await });
    }
    for lengths in &case.writes {
        lists.writes.push(sink(&mut raw, lengths).await);
    }
    if let Some(lengths) = &case.reply {
        lists.reply = Some(sink(&mut raw, lengths).await);
    }
    let offered = lists.clone();
    (case.modify)(&mut lists);
    let body = if case.inline.is_some() { Body::Msg(lists) } else { Body::NoMsg(lists) };
    let message = Header { xid: XID, credits: 1, body }.with_payload(case.inline);
    let answer = if raw.send(message).await { raw.receive().await } else { None };
    match (case.gets, answer) {
        (Gets::Closed, None) => {}
        (Gets::ErrChunk, Some(answer)) => {
            assert_eq!(answer, words(&[XID, 1, link.config.credits, 4, 2]));
            // R177: nothing was written.
            for chunk in offered.writes.iter().chain(&offered.reply) {
                filled(&mut raw, chunk, &chunk.filled(0)).await;
            }
        }
        (Gets::GarbageArguments, Some(answer)) => {
            assert_eq!(result_of(&answer), Err(ReplyError::GarbageArguments));
        }
        (Gets::Result(writes, reply), Some(answer)) => {
            let message = returned(&mut raw, &answer, offered, (writes, reply)).await;
            assert_eq!(result(&message), Ok(case.args.result()));
        }
        (_, answer) => panic!("unexpected answer: {answer:?}"),
    }
}

async fn sink<C: Connection>(raw: &mut Raw<C>, lengths: &[u32]) -> WriteChunk {
    let mut segments = Vec::new();
    for length in lengths {
        // Not every provider can register empty memory, so an empty segment has an unregistered handle.
        segments.push(match *length {
            0 => Segment { handle: 1, length: 0, offset: 0 },
            length => {
                let memory = BytesMut::from(&vec![UNTOUCHED; length as usize][..]);
                raw.register(Memory::Sink(memory)).await
            }
        });
    }
    WriteChunk(segments)
}

/// Assembles a reply from its inline stream and the chunks, and checks the lengths of the chunks.
async fn returned<C: Connection>(
    raw: &mut Raw<C>,
    answer: &Bytes,
    offered: ChunkLists,
    expected: (Vec<Vec<u32>>, Option<Vec<u32>>),
) -> Received {
    let (header, payload) = decode_reply(answer, &MessageLimits::default()).expect("a reply");
    let (lists, is_long) = match header.body {
        Body::Msg(lists) => (lists, false),
        Body::NoMsg(lists) => (lists, true),
        Body::Error(error) => panic!("{error:?}"),
    };
    let lengths = |chunk: &WriteChunk| chunk.0.iter().map(|segment| segment.length).collect::<Vec<_>>();
    let seen = (lists.writes.iter().map(lengths).collect(), lists.reply.as_ref().map(lengths));
    assert_eq!(seen, expected, "the lengths of the returned chunks");
    let mut items = Vec::new();
    for (offered, used) in offered.writes.iter().zip(&lists.writes) {
        let segments = u32::try_from(offered.0.len()).expect("a few");
        items.push(PlacedItem { data: filled(raw, offered, used).await, segments });
    }
    let mut stream = payload;
    if let (Some(offered), Some(used)) = (&offered.reply, &lists.reply) {
        let data = filled(raw, offered, used).await;
        assert_eq!(data.is_empty(), !is_long, "only RDMA_NOMSG uses the Reply chunk");
        if is_long {
            stream = data;
        }
    }
    let items = if items.is_empty() { Placed::None } else { Placed::InOrder(items) };
    Received { stream, items }
}

/// Returns the data written to a chunk. Checks that the rest of the chunk is unchanged.
async fn filled<C: Connection>(raw: &mut Raw<C>, offered: &WriteChunk, used: &WriteChunk) -> Bytes {
    let mut filled = Vec::new();
    for (offered, used) in offered.0.iter().zip(&used.0) {
        assert_eq!((offered.handle, offered.offset), (used.handle, used.offset));
        let memory = if offered.length > 0 { raw.written(offered.handle).await } else { Bytes::new() };
        let (data, rest) = memory.split_at(used.length as usize);
        assert!(rest.iter().all(|byte| *byte == UNTOUCHED), "bytes beyond the returned length were written");
        filled.extend_from_slice(data);
    }
    filled.into()
}

/// Decodes a reply without chunks. Returns the result or the error in the reply.
pub(crate) fn result_of(reply: &Bytes) -> Result<Res, ReplyError> {
    let (_, payload) = decode_reply(reply, &MessageLimits::default()).expect("a reply");
    result(&Received::unreduced(payload))
}

fn result(message: &Received) -> Result<Res, ReplyError> {
    let mut reader = Reader::new(message);
    rpc::decode_reply(&mut reader, XID)?;
    let result = Res::decode(&mut reader).expect("a result");
    reader.finish().expect("no bytes after the result");
    Ok(result)
}

pub(crate) async fn over<P: Provider>() {
    let mut failed = Vec::new();
    for case in cases() {
        let name = case.name.clone();
        if let Err(why) = isolated(|| run::<P>(case)).await {
            failed.push(format!("{name}: {why}"));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}
