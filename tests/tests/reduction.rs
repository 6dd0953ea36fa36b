//! Checks that the receiver of a reduced message decodes the original value. The tests use random values of
//! every type in `specs/` and of a protocol with many items. The reduced items and the number of segments are
//! random. A requester and a responder exchange the messages as calls and as replies.
#![allow(clippy::unwrap_used)] // a test that cannot continue panics

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

/// The protocols, compiled to types that implement `Arbitrary`.
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

#[derive(Clone, Debug)]
struct Variant {
    seed: Vec<u8>,
    /// The number of header words before the value.
    words: usize,
    /// The minimum size of a call's reduced items, in bytes.
    min_item: usize,
    /// Whether an item is reduced, by the item's index. The list repeats for further items.
    reduced: Vec<bool>,
    /// The approximate maximum number of segments of the longest chunk.
    pieces: u32,
    /// The number of extra bytes in the Reply chunk and in each Write chunk of a reduced item. Also the size
    /// of the surplus Write chunk.
    spare: u32,
    long_call: LongCall,
}

fn variants() -> impl Strategy<Value = Variant> {
    let seed = prop_oneof![vec(any::<u8>(), 0..300), vec(any::<u8>(), 2000..8000)];
    let min_item = prop_oneof![3 => Just(1usize), 1 => 1usize..3000];
    let long_call = prop_oneof![Just(LongCall::Whole), Just(LongCall::Reduced)];
    (seed, 2usize..12, min_item, vec(prop::bool::weighted(0.8), 16), 1u32..9, 0u32..40, long_call).prop_map(
        |(seed, words, min_item, reduced, pieces, spare, long_call)| Variant {
            seed,
            words,
            min_item,
            reduced,
            pieces,
            spare,
            long_call,
        },
    )
}

#[derive(Debug, Default)]
struct Counts {
    #[expect(dead_code, reason = "shown when a test fails")]
    name: &'static str,
    items: bool,
    read_chunks: u32,
    write_chunks: u32,
    position_zero: u32,
    reply_chunks: u32,
    /// Calls in which a chunk certainly has more than one segment.
    segmented: u32,
}

impl Counts {
    fn count(&mut self, traffic: &Traffic) {
        self.read_chunks += traffic.read_chunks;
        self.write_chunks += u32::from(traffic.write_bytes > 0);
        self.position_zero += u32::from(traffic.position_zero > 0);
        self.reply_chunks += u32::from(traffic.reply_chunk_bytes > 0);
        // Apart from the counted chunks, a call has at most a Position-Zero chunk and a Reply chunk.
        let moved = traffic.read_bytes + traffic.position_zero + traffic.write_bytes > 0;
        self.segmented +=
            u32::from(moved && traffic.segments > traffic.read_chunks + traffic.write_chunks + 2);
    }
}

impl Variant {
    fn is_reduced(&self, index: usize) -> bool {
        self.reduced[index % self.reduced.len()]
    }

    /// Encodes a message: a header of `words` words, followed by the value.
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

    /// Returns a connected requester and responder, with an inline threshold large enough for the chunk lists
    /// of `items` items.
    fn pair(&self, items: usize, longest: usize) -> Pair {
        let inline = if items <= 2 { 1024 } else { 4096 };
        let private_data = PrivateData::new(true, inline, inline);
        let config = Config { private_data, long_call: self.long_call, ..Config::default() };
        let max_segment = u32::try_from(longest).unwrap().div_ceil(self.pieces).max(1);
        Pair::new(&Settings { left: Config { max_segment, ..config }, right: config, ..Settings::default() })
    }

    /// Returns a Reply chunk and Write chunks: a Write chunk for each reduced item, an empty chunk for each
    /// other item, and a surplus chunk.
    fn resources(&self, reply: &Message) -> ReplyResources {
        let len = |len: usize| u32::try_from(len).unwrap() + self.spare;
        let items = reply.items.iter().enumerate();
        let chunks = items.map(|(index, item)| if self.is_reduced(index) { len(item.data.len()) } else { 0 });
        ReplyResources {
            write_chunks: chunks.chain([self.spare]).collect(),
            reply_chunk: Some(len(reply.flatten().len())),
            memory: None,
        }
    }
}

/// Checks that the decoded value shares the memory of the received chunks.
fn check_placed<T: Xdr>(variant: &Variant, received: &Received, value: &T) -> Result<(), TestCaseError> {
    let held: HashSet<*const u8> =
        variant.message(0, value, Reducer::new(1)).items.iter().map(|item| item.data.as_ptr()).collect();
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

fn check_round_trip<T>(variant: &Variant, counts: &RefCell<Counts>) -> Result<(), TestCaseError>
where
    T: for<'a> Arbitrary<'a> + Xdr + PartialEq + Debug,
{
    let value = T::arbitrary(&mut Unstructured::new(&variant.seed)).unwrap();
    let encoded = to_bytes(&value).unwrap();
    prop_assert_eq!(&from_bytes::<T>(&encoded).unwrap(), &value);

    let unreduced = variant.message(0, &value, Reducer::disabled()).stream;
    let call = variant
        .message(0, &value, Reducer::new(variant.min_item))
        .split(|index, _| variant.is_reduced(index));
    prop_assert_eq!(&call.flatten(), &unreduced);
    let direct = Received { stream: call.stream.clone(), items: Placed::Positioned(call.items.clone()) };
    let read: T = variant.read(&direct).unwrap();
    prop_assert_eq!(&read, &value);
    check_placed(variant, &direct, &read)?;

    let answer = variant.message(1, &value, Reducer::new(1));
    let mut pair = variant.pair(answer.items.len(), unreduced.len());
    pair.requester.submit(OutgoingCall { message: call, reply: variant.resources(&answer) });
    let ResponderEvent::Call(IncomingCall { key, message, .. }) = pair.next_call() else {
        return Err(TestCaseError::fail("no call"));
    };
    let read: T = variant.read(&message).unwrap();
    prop_assert_eq!(&read, &value);
    check_placed(variant, &message, &read)?;

    pair.responder.reply(key, answer);
    let RequesterEvent::Done { outcome: Ok(reply), .. } = pair.next_event() else {
        return Err(TestCaseError::fail("no reply"));
    };
    let read: T = variant.read(&reply.message).unwrap();
    prop_assert_eq!(&read, &value);
    check_placed(variant, &reply.message, &read)?;
    counts.borrow_mut().count(&reply.traffic);
    Ok(())
}

fn check_type<T>(name: &'static str) -> Counts
where
    T: for<'a> Arbitrary<'a> + Xdr + PartialEq + Debug,
{
    let counts = RefCell::new(Counts { name, items: T::HELD.count != Size::ZERO, ..Counts::default() });
    let mut runner = TestRunner::new(Cases { cases: 48, failure_persistence: None, ..Cases::default() });
    if let Err(error) = runner.run(&variants(), |variant| check_round_trip::<T>(&variant, &counts)) {
        panic!("{name}: {error}");
    }
    counts.into_inner()
}

/// Checks the number of types and the number of types with items. Checks that every kind of chunk occurred
/// if there are items, and that types without items had no Read or Write chunks.
fn check_counts(all: &[Counts], types: usize, items: usize) {
    assert_eq!((all.len(), all.iter().filter(|one| one.items).count()), (types, items), "{all:#?}");
    for one in all.iter().filter(|one| !one.items) {
        assert_eq!((one.read_chunks, one.write_chunks), (0, 0), "{one:?}");
    }
    let sum = |of: fn(&Counts) -> u32| all.iter().map(of).sum::<u32>();
    let counts = [sum(|one| one.read_chunks), sum(|one| one.write_chunks), sum(|one| one.segmented)];
    assert!(items == 0 || !counts.contains(&0), "{counts:?}");
    let long = [sum(|one| one.position_zero), sum(|one| one.reply_chunks)];
    assert!(items == 0 || !long.contains(&0), "{long:?}");
}

#[test]
fn values_of_nfs() {
    check_counts(&nfs3(), 108, 7);
}

#[test]
fn values_of_mount() {
    check_counts(&mount3(), 12, 0);
}

#[test]
fn values_of_rpcbind() {
    check_counts(&rpcbind(), 24, 0);
}

#[test]
fn values_of_the_configuration_protocol() {
    check_counts(&rdma_conf(), 2, 0);
}

#[test]
fn values_of_an_extension_and_its_base() {
    check_counts(&keepalive(), 18, 0);
    check_counts(&rpcrdma1(), 17, 0);
}

#[test]
fn values_of_rpc_and_its_security() {
    check_counts(&rpc_msg(), 16, 0);
    check_counts(&rpcsec_gss(), 8, 0);
}

#[test]
fn values_with_many_items() {
    check_counts(&compound(), 6, 5);
}
