//! Reduced messages are restored. Uses random values of every type that is emitted from `specs/` (and of
//! one with many items), any choice of reduced items, and chunks that are segmented anywhere. The messages
//! pass through both engines, as calls and as replies.
#![allow(clippy::unwrap_used)] // a test that cannot go on says so by panicking

use std::cell::RefCell;
use std::collections::HashSet;
use std::fmt::Debug;

use arbitrary::{Arbitrary, Unstructured};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config as Cases, TestRunner};
use rpcrdma_runtime::proto::rdma::{
    Config, IncomingCall, LongCall, OutgoingCall, ReplyResources, RequesterEvent, ResponderEvent, Traffic,
};
use rpcrdma_runtime::wire::private_data::PrivateData;
use rpcrdma_runtime::xdr::{
    Bytes, Error, Message, Placed, Reader, Received, Reducer, Sink, Size, Xdr, from_bytes, to_bytes,
};
use rpcrdma_sim::{Pair, Settings};

/// The protocols, with types that make values of themselves.
#[allow(dead_code, unreachable_pub, missing_docs, clippy::all)]
#[rustfmt::skip]
mod emitted {
    pub mod nfs3 { include!(concat!(env!("OUT_DIR"), "/nfs3.rs")); }
    pub mod mount3 { include!(concat!(env!("OUT_DIR"), "/mount3.rs")); }
    pub mod rpcbind { include!(concat!(env!("OUT_DIR"), "/rpcbind.rs")); }
    pub mod rdma_conf { include!(concat!(env!("OUT_DIR"), "/rdma_conf.rs")); }
    pub mod keepalive { include!(concat!(env!("OUT_DIR"), "/keepalive.rs")); }
    pub mod rpc_msg { include!(concat!(env!("OUT_DIR"), "/rpc_msg.rs")); }
    pub mod rpcsec_gss { include!(concat!(env!("OUT_DIR"), "/rpcsec_gss.rs")); }
    pub mod rpcrdma1 { include!(concat!(env!("OUT_DIR"), "/rpcrdma1.rs")); }
    pub mod compound { include!(concat!(env!("OUT_DIR"), "/compound.rs")); }
}

include!(concat!(env!("OUT_DIR"), "/checks.rs"));

const XID: u32 = 7;

/// A value, and how it is sent.
#[derive(Clone, Debug)]
struct Way {
    /// The seed of the value.
    seed: Vec<u8>,
    /// Words before it: the message's header.
    words: usize,
    /// Smaller items stay in the stream.
    min_item: usize,
    /// The other items to reduce.
    out: Vec<bool>,
    /// The approximate maximum number of segments of the longest chunk.
    pieces: u32,
    /// Chunks of a call beyond those it needs.
    spare: u32,
    long_call: LongCall,
}

fn ways() -> impl Strategy<Value = Way> {
    let seed = prop_oneof![vec(any::<u8>(), 0..300), vec(any::<u8>(), 2000..8000)];
    let min_item = prop_oneof![3 => Just(1usize), 1 => 1usize..3000];
    let long_call = prop_oneof![Just(LongCall::Whole), Just(LongCall::Reduced)];
    (seed, 2usize..12, min_item, vec(prop::bool::weighted(0.8), 16), 1u32..9, 0u32..40, long_call).prop_map(
        |(seed, words, min_item, out, pieces, spare, long_call)| Way {
            seed,
            words,
            min_item,
            out,
            pieces,
            spare,
            long_call,
        },
    )
}

/// The results for the values of a type.
#[derive(Debug, Default)]
struct Seen {
    #[expect(dead_code, reason = "shown when a test fails")]
    name: &'static str,
    /// Whether it has eligible items.
    items: bool,
    read_chunks: u32,
    write_chunks: u32,
    position_zero: u32,
    reply_chunks: u32,
    /// Chunks that were cut.
    cut: u32,
}

impl Seen {
    fn count(&mut self, traffic: &Traffic) {
        self.read_chunks += traffic.read_chunks;
        self.write_chunks += u32::from(traffic.write_bytes > 0);
        self.position_zero += u32::from(traffic.position_zero > 0);
        self.reply_chunks += u32::from(traffic.reply_chunk_bytes > 0);
        // In addition to the counted chunks there are at most a Position-Zero chunk and a Reply chunk.
        let moved = traffic.read_bytes + traffic.position_zero + traffic.write_bytes > 0;
        self.cut += u32::from(moved && traffic.segments > traffic.read_chunks + traffic.write_chunks + 2);
    }
}

impl Way {
    fn is_out(&self, index: usize) -> bool {
        self.out[index % self.out.len()]
    }

    /// A message with this value after its header.
    fn message<T: Xdr>(&self, kind: u32, value: &T, mut reducer: Reducer) -> Message {
        reducer.put_u32(XID).unwrap();
        reducer.put_u32(kind).unwrap();
        (2..self.words).for_each(|word| reducer.put_u32(word.try_into().unwrap()).unwrap());
        value.encode(&mut reducer).unwrap();
        reducer.into_message()
    }

    fn read<T: Xdr>(&self, received: &Received) -> Result<T, Error> {
        let mut reader = Reader::new(received);
        reader.take(self.words * 4)?;
        let value = T::decode(&mut reader)?;
        reader.finish().map(|()| value)
    }

    /// Both peers, with the smallest inline threshold that fits the chunk lists of such a message.
    fn pair(&self, items: usize, longest: usize) -> Pair {
        let inline = if items <= 2 { 1024 } else { 4096 };
        let private_data = PrivateData::new(true, inline, inline);
        let config = Config { private_data, long_call: self.long_call, ..Config::default() };
        let max_segment = u32::try_from(longest).unwrap().div_ceil(self.pieces).max(1);
        Pair::new(&Settings { left: Config { max_segment, ..config }, right: config, ..Settings::default() })
    }

    /// A Write chunk for each reduced item, an empty one for each other, and a surplus one.
    fn resources(&self, reply: &Message) -> ReplyResources {
        let len = |len: usize| u32::try_from(len).unwrap() + self.spare;
        let items = reply.items.iter().enumerate();
        let chunks = items.map(|(index, item)| if self.is_out(index) { len(item.data.len()) } else { 0 });
        ReplyResources {
            write_chunks: chunks.chain([self.spare]).collect(),
            reply_chunk: Some(len(reply.flatten().len())),
            memory: None,
        }
    }
}

/// An item that arrived by RDMA is the received buffer itself.
fn is_placed<T: Xdr>(way: &Way, received: &Received, value: &T) -> Result<(), TestCaseError> {
    let held: HashSet<*const u8> =
        way.message(0, value, Reducer::new(1)).items.iter().map(|item| item.data.as_ptr()).collect();
    let chunks: Vec<&Bytes> = match &received.items {
        Placed::None => Vec::new(),
        Placed::Positioned(items) => items.iter().map(|item| &item.data).collect(),
        Placed::InOrder(items) => items.iter().map(|item| &item.data).collect(),
    };
    for chunk in chunks.into_iter().filter(|chunk| !chunk.is_empty()) {
        prop_assert!(held.contains(&chunk.as_ptr()), "{} bytes were copied", chunk.len());
    }
    Ok(())
}

fn survives<T>(way: &Way, seen: &RefCell<Seen>) -> Result<(), TestCaseError>
where
    T: for<'a> Arbitrary<'a> + Xdr + PartialEq + Debug,
{
    let value = T::arbitrary(&mut Unstructured::new(&way.seed)).unwrap();
    let encoded = to_bytes(&value).unwrap();
    prop_assert_eq!(&from_bytes::<T>(&encoded).unwrap(), &value);

    let whole = way.message(0, &value, Reducer::disabled()).stream;
    let call = way.message(0, &value, Reducer::new(way.min_item)).split(|index, _| way.is_out(index));
    prop_assert_eq!(&call.flatten(), &whole);
    let direct = Received { stream: call.stream.clone(), items: Placed::Positioned(call.items.clone()) };
    let read: T = way.read(&direct).unwrap();
    prop_assert_eq!(&read, &value);
    is_placed(way, &direct, &read)?;

    let answer = way.message(1, &value, Reducer::new(1));
    let mut pair = way.pair(answer.items.len(), whole.len());
    pair.requester.submit(OutgoingCall { message: call, reply: way.resources(&answer) });
    let ResponderEvent::Call(IncomingCall { key, message, .. }) = pair.next_call() else {
        return Err(TestCaseError::fail("no call"));
    };
    let read: T = way.read(&message).unwrap();
    prop_assert_eq!(&read, &value);
    is_placed(way, &message, &read)?;

    pair.responder.reply(key, answer);
    let RequesterEvent::Done { outcome: Ok(reply), .. } = pair.next_event() else {
        return Err(TestCaseError::fail("no reply"));
    };
    let read: T = way.read(&reply.message).unwrap();
    prop_assert_eq!(&read, &value);
    is_placed(way, &reply.message, &read)?;
    seen.borrow_mut().count(&reply.traffic);
    Ok(())
}

/// Tries values of a type in many ways.
fn every_way<T>(name: &'static str) -> Seen
where
    T: for<'a> Arbitrary<'a> + Xdr + PartialEq + Debug,
{
    let seen = RefCell::new(Seen { name, items: T::HELD.count != Size::ZERO, ..Seen::default() });
    let mut runner = TestRunner::new(Cases { cases: 48, failure_persistence: None, ..Cases::default() });
    if let Err(error) = runner.run(&ways(), |way| survives::<T>(&way, &seen)) {
        panic!("{name}: {error}");
    }
    seen.into_inner()
}

/// All of it happened, and nothing where it may not: a test in which nothing is ever taken out shows nothing.
fn is_seen(all: &[Seen], types: usize, items: usize) {
    assert_eq!((all.len(), all.iter().filter(|one| one.items).count()), (types, items), "{all:#?}");
    for one in all.iter().filter(|one| !one.items) {
        assert_eq!((one.read_chunks, one.write_chunks), (0, 0), "{one:?}");
    }
    let sum = |of: fn(&Seen) -> u32| all.iter().map(of).sum::<u32>();
    let seen = [sum(|one| one.read_chunks), sum(|one| one.write_chunks), sum(|one| one.cut)];
    assert!(items == 0 || !seen.contains(&0), "{seen:?}");
    let long = [sum(|one| one.position_zero), sum(|one| one.reply_chunks)];
    assert!(items == 0 || !long.contains(&0), "{long:?}");
}

#[test]
fn values_of_nfs() {
    is_seen(&nfs3(), 108, 7);
}

#[test]
fn values_of_mount() {
    is_seen(&mount3(), 12, 0);
}

#[test]
fn values_of_rpcbind() {
    is_seen(&rpcbind(), 24, 0);
}

#[test]
fn values_of_the_configuration_protocol() {
    is_seen(&rdma_conf(), 2, 0);
}

#[test]
fn values_of_an_extension_and_its_base() {
    is_seen(&keepalive(), 18, 0);
    is_seen(&rpcrdma1(), 17, 0);
}

#[test]
fn values_of_rpc_and_its_security() {
    is_seen(&rpc_msg(), 16, 0);
    is_seen(&rpcsec_gss(), 8, 0);
}

#[test]
fn values_with_many_items() {
    is_seen(&compound(), 6, 5);
}
