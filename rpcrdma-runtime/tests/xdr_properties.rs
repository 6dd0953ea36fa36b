//! Properties of the codec for types of every kind: values round-trip, and no input causes a panic.

#![allow(clippy::unwrap_used)] // tests fail by panicking

use std::fmt::Debug;

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;
use rpcrdma_runtime::xdr::{
    Char, Decode, DecodeLimits, Encode, Error, ErrorKind, Item, Message, Opaque, Placed, PlacedItem,
    Quadruple, Reader, Received, Reducer, Sink, SmallOpaque, UnsignedChar, Xdr, XdrString, encoded_len,
    from_bytes, from_slice, to_bytes,
};

#[derive(Clone, Debug, PartialEq, Xdr)]
struct Numbers {
    int: i32,
    unsigned: u32,
    hyper: i64,
    unsigned_hyper: u64,
    float: f32,
    double: f64,
    quadruple: Quadruple,
    truth: bool,
    short: i16,
    unsigned_short: u16,
    byte: Char,
    unsigned_byte: UnsignedChar,
}

fn numbers() -> impl Strategy<Value = Numbers> {
    (
        (any::<i32>(), any::<u32>(), any::<i64>(), any::<u64>()),
        (-1e30f32..1e30, -1e300f64..1e300, any::<[u8; 16]>(), any::<bool>()),
        (any::<i16>(), any::<u16>(), any::<i8>(), any::<u8>()),
    )
        .prop_map(|(wide, other, narrow)| Numbers {
            int: wide.0,
            unsigned: wide.1,
            hyper: wide.2,
            unsigned_hyper: wide.3,
            float: other.0,
            double: other.1,
            quadruple: Quadruple(other.2),
            truth: other.3,
            short: narrow.0,
            unsigned_short: narrow.1,
            byte: Char(narrow.2),
            unsigned_byte: UnsignedChar(narrow.3),
        })
}

#[derive(Clone, Copy, Debug, PartialEq, Xdr)]
enum Kind {
    Nothing = -7,
    Words = 0,
    Text = 1,
    More,
    Most = 0x7fff_ffff,
}

#[derive(Clone, Debug, PartialEq, Xdr)]
#[xdr(union = "Kind")]
enum Value {
    #[xdr(case = "Kind::Nothing")]
    Nothing,
    #[xdr(case = "Kind::Words")]
    Words(#[xdr(max = 5)] Vec<[u16; 2]>),
    #[xdr(case = "Kind::Text")]
    Text(XdrString<9>),
    #[xdr(default)]
    Other(Kind, Box<Numbers>),
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Nothing),
        vec(any::<[u16; 2]>(), 0..=5).prop_map(Value::Words),
        vec(any::<u8>(), 0..=9).prop_map(|text| Value::Text(text.into())),
        (prop_oneof![Just(Kind::More), Just(Kind::Most)], numbers())
            .prop_map(|(kind, numbers)| Value::Other(kind, Box::new(numbers))),
    ]
}

#[derive(Clone, Debug, PartialEq, Xdr)]
struct Containers<T> {
    fixed: [u8; 3],
    handle: SmallOpaque<7>,
    data: Opaque<11>,
    present: Option<T>,
    #[xdr(max = 3)]
    bounded: Vec<T>,
    #[xdr(list)]
    chain: Vec<T>,
    flag: Flag,
}

#[derive(Clone, Debug, PartialEq, Xdr)]
#[xdr(union = "bool")]
enum Flag {
    #[xdr(case = true)]
    Set(u64),
    #[xdr(case = false)]
    Clear,
}

fn containers() -> impl Strategy<Value = Containers<Value>> {
    (
        (any::<[u8; 3]>(), vec(any::<u8>(), 0..=7), vec(any::<u8>(), 0..=11)),
        (prop::option::of(value()), vec(value(), 0..=3), vec(value(), 0..4)),
        prop::option::of(any::<u64>()),
    )
        .prop_map(|((fixed, handle, data), (present, bounded, chain), flag)| Containers {
            fixed,
            handle: SmallOpaque::new(&handle).unwrap(),
            data: data.into(),
            present,
            bounded,
            chain,
            flag: flag.map_or(Flag::Clear, Flag::Set),
        })
}

/// A request with several operations, as in NFSv4: a variable number of items in union arms and in a list.
#[derive(Clone, Debug, PartialEq, Xdr)]
struct Compound {
    tag: XdrString<16>,
    operations: Vec<Operation>,
    #[xdr(list)]
    attributes: Vec<Attribute>,
}

#[derive(Clone, Debug, PartialEq, Xdr)]
#[xdr(union = "u32")]
enum Operation {
    #[xdr(case = 1)]
    #[ddp_eligible]
    Put(Opaque<64>),
    #[xdr(case = 2)]
    Commit,
    #[xdr(case = 3, case = 4)]
    Rename(u32, Attribute),
}

#[derive(Clone, Debug, PartialEq, Xdr)]
struct Attribute {
    number: u32,
    #[ddp_eligible]
    name: XdrString<64>,
}

fn attribute() -> impl Strategy<Value = Attribute> {
    (any::<u32>(), vec(any::<u8>(), 0..=64))
        .prop_map(|(number, name)| Attribute { number, name: name.into() })
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        vec(any::<u8>(), 0..=64).prop_map(|data| Operation::Put(data.into())),
        Just(Operation::Commit),
        (3u32..=4, attribute()).prop_map(|(which, attribute)| Operation::Rename(which, attribute)),
    ]
}

fn compound() -> impl Strategy<Value = Compound> {
    (vec(any::<u8>(), 0..=16), vec(operation(), 0..6), vec(attribute(), 0..4))
        .prop_map(|(tag, operations, attributes)| Compound { tag: tag.into(), operations, attributes })
}

fn reduced<T: Encode>(value: &T, header: usize, min_item: usize) -> Message {
    let mut reducer = Reducer::new(min_item);
    reducer.put(&vec![0; header * 4]).unwrap();
    value.encode(&mut reducer).unwrap();
    reducer.into_message()
}

fn read<T: Xdr>(received: &Received, header: usize) -> Result<T, Error> {
    let mut reader = Reader::new(received);
    reader.take(header * 4)?;
    let value = T::decode(&mut reader)?;
    reader.finish().map(|()| value)
}

/// Checks that a value round-trips through `from_bytes` and `from_slice`, and that its encoding has the
/// expected length. Also checks that no truncated or longer encoding is valid.
fn survives<T: Xdr + PartialEq + Debug>(value: &T) -> Result<(), TestCaseError> {
    let wire = to_bytes(value).unwrap();
    prop_assert_eq!(wire.len() as u64, encoded_len(value).unwrap());
    prop_assert_eq!(wire.len() % 4, 0);
    prop_assert!(
        wire.len() as u64 >= T::LENGTHS.min
            && T::LENGTHS.max.bound().is_none_or(|max| wire.len() as u64 <= max)
    );
    let shared: T = from_bytes(&wire).unwrap();
    let copied: T = from_slice(&wire).unwrap();
    prop_assert_eq!(&shared, value);
    prop_assert_eq!(&copied, value);
    prop_assert_eq!(&to_bytes(&shared).unwrap(), &wire);
    for len in 0..wire.len() {
        let error = from_bytes::<T>(&wire.slice(..len)).expect_err("a truncated value");
        prop_assert!(matches!(error.kind(), ErrorKind::Truncated { .. }), "{len} of {}: {error}", wire.len());
    }
    let mut longer = wire.to_vec();
    longer.extend([0; 4]);
    prop_assert_eq!(from_slice::<T>(&longer).unwrap_err().kind(), ErrorKind::Trailing(4));
    Ok(())
}

/// Returns words that are often small, so that counts, discriminants and presence flags are often valid. Up
/// to three bytes are missing at the end.
fn words() -> impl Strategy<Value = Vec<u8>> {
    let word = prop_oneof![3 => 0u32..5, 1 => any::<u32>(), 1 => Just(u32::MAX)];
    (vec(word, 0..60), 0usize..4).prop_map(|(words, cut)| {
        let mut bytes: Vec<u8> = words.into_iter().flat_map(u32::to_be_bytes).collect();
        bytes.truncate(bytes.len().saturating_sub(cut));
        bytes
    })
}

fn check_round_trip<T: Xdr>(wire: &[u8]) -> Result<(), TestCaseError> {
    if let Ok(value) = from_slice::<T>(wire) {
        prop_assert_eq!(&to_bytes(&value).unwrap()[..], wire);
    }
    Ok(())
}

proptest! {
    #[test]
    fn numbers_survive(value in numbers()) {
        survives(&value)?;
    }

    #[test]
    fn unions_survive(value in value()) {
        survives(&value)?;
    }

    #[test]
    fn containers_survive(value in containers()) {
        survives(&value)?;
    }

    #[test]
    fn compounds_survive(value in compound()) {
        survives(&value)?;
    }

    #[test]
    fn decoded_input_encodes_to_the_same_bytes(wire in words()) {
        check_round_trip::<Numbers>(&wire)?;
        check_round_trip::<Value>(&wire)?;
        check_round_trip::<Containers<Value>>(&wire)?;
        check_round_trip::<Compound>(&wire)?;
    }

    #[test]
    fn a_compound_survives_any_reduction(
        value in compound(),
        header in 0usize..8,
        min_item in 0usize..70,
        keep in vec(any::<bool>(), 10),
        padded in any::<bool>(),
    ) {
        let complete = reduced(&value, header, usize::MAX).stream;
        let mut message = reduced(&value, header, min_item).split(|index, _| keep[index % keep.len()]);
        prop_assert_eq!(&message.flatten(), &complete);
        let pieces: Vec<Bytes> = message.clone().into_pieces().collect();
        prop_assert!(pieces.concat() == complete, "{pieces:?}");
        prop_assert_eq!(message.unreduced_len(), complete.len() as u64);
        let bound = <Compound as rpcrdma_runtime::xdr::Layout>::HELD.largest.bound().unwrap();
        prop_assert!(message.items.iter().all(|item| item.data.len() as u64 <= bound));
        if padded {
            // A requester may include the padding in the chunk; the content of the padding is ignored.
            for item in &mut message.items {
                let mut data = item.data.to_vec();
                data.resize(data.len().next_multiple_of(4), 0xee);
                item.data = data.into();
            }
        }
        let received = Received { stream: message.stream, items: Placed::Positioned(message.items) };
        prop_assert_eq!(read::<Compound>(&received, header).unwrap(), value);
    }

    #[test]
    fn a_reply_survives_write_chunks(value in compound(), min_item in 0usize..70, unused in 0usize..3) {
        // The responder uses the chunks in order, so an inline item has a chunk without segments.
        let all = reduced(&value, 0, 1);
        let chunks: Vec<PlacedItem> = all.items.iter().map(|item| {
            let out = item.data.len() >= min_item;
            PlacedItem { data: if out { item.data.clone() } else { Bytes::new() }, segments: u32::from(out) }
        }).chain(std::iter::repeat_n(PlacedItem { data: Bytes::new(), segments: 1 }, unused)).collect();
        let stream = all.split(|_, item| item.data.len() >= min_item).stream;
        let received = Received { stream, items: Placed::InOrder(chunks) };
        prop_assert_eq!(read::<Compound>(&received, 0).unwrap(), value);
    }

    #[test]
    fn chunks_at_random_positions_are_read_or_rejected(
        stream in words(),
        items in vec((0u32..60, vec(any::<u8>(), 0..12)), 0..4),
        segments in vec(0u32..3, 4),
    ) {
        let stream = Bytes::from(stream);
        let mut placed: Vec<Item> = items.iter()
            .map(|(position, data)| Item { position: position * 4, data: data.clone().into() })
            .collect();
        placed.sort_by_key(|item| item.position);
        let positioned = Received { stream: stream.clone(), items: Placed::Positioned(placed.clone()) };
        if let Ok(value) = read::<Compound>(&positioned, 0) {
            // The encoding of the decoded value is as long as the stream with the items reinserted.
            let used: Vec<Item> = placed.into_iter().filter(|item| !item.data.is_empty()).collect();
            let are_whole_words = used.iter().all(|item| item.data.len() % 4 == 0);
            if are_whole_words {
                let complete = Message { stream: stream.clone(), items: used }.flatten();
                prop_assert_eq!(to_bytes(&value).unwrap().len(), complete.len());
            }
        }
        let in_order = items.into_iter().zip(segments)
            .map(|((_, data), segments)| PlacedItem { data: if segments == 0 { Bytes::new() } else { data.into() }, segments })
            .collect();
        let _ = read::<Compound>(&Received { stream, items: Placed::InOrder(in_order) }, 0);
    }
}

/// Requirement: R333
#[test]
fn bounds_are_exact() {
    for (len, good) in [(8, true), (9, true), (10, false)] {
        let text = XdrString::<9>::from(vec![b'x'; len]);
        assert_eq!(to_bytes(&Value::Text(text)).is_ok(), good, "string of {len}");
        let wire = to_bytes(&Opaque::<1000>::from(vec![1; len])).unwrap();
        assert_eq!(from_bytes::<XdrString<9>>(&wire).is_ok(), good);
        assert_eq!(from_bytes::<Opaque<9>>(&wire).is_ok(), good);
        assert_eq!(from_bytes::<SmallOpaque<9>>(&wire).is_ok(), good);
        assert_eq!(SmallOpaque::<9>::new(&vec![1; len]).is_ok(), good);
    }
    for (count, good) in [(4, true), (5, true), (6, false)] {
        let words = Value::Words(vec![[1, 2]; count]);
        assert_eq!(to_bytes(&words).is_ok(), good, "{count} elements");
        let mut wire = vec![0, 0, 0, 0];
        wire.extend_from_slice(&to_bytes(&vec![[1u16, 2]; count]).unwrap());
        assert_eq!(from_slice::<Value>(&wire).is_ok(), good, "{count} elements");
    }
    for (len, good) in [(63, true), (64, true), (65, false)] {
        assert_eq!(to_bytes(&Operation::Put(vec![0; len].into())).is_ok(), good, "item of {len}");
        let mut wire = vec![0, 0, 0, 1];
        wire.extend_from_slice(&to_bytes(&Opaque::<100>::from(vec![0; len])).unwrap());
        assert_eq!(from_slice::<Operation>(&wire).is_ok(), good, "item of {len}");
    }
}

#[test]
fn narrow_numbers_must_fit() {
    assert_eq!(from_slice::<i16>(&[0xff, 0xff, 0x80, 0]).unwrap(), i16::MIN);
    let too_small = from_slice::<i16>(&[0xff, 0xff, 0x7f, 0xff]).unwrap_err();
    assert_eq!(too_small.kind(), ErrorKind::OutOfRange { type_name: "short", value: -32769 });
    assert_eq!(from_slice::<u16>(&[0, 0, 0xff, 0xff]).unwrap(), u16::MAX);
    assert!(from_slice::<u16>(&[0, 1, 0, 0]).is_err());
    assert!(
        from_slice::<Char>(&[0, 0, 0, 0x80]).is_err() && from_slice::<UnsignedChar>(&[0, 0, 1, 0]).is_err()
    );
}

#[test]
fn an_error_has_a_path_through_lists_and_arms() {
    let mut compound =
        Compound { tag: "t".into(), operations: vec![Operation::Commit; 2], attributes: Vec::new() };
    let attribute = Attribute { number: 1, name: vec![b'n'; 65].into() };
    compound.operations.push(Operation::Rename(4, attribute));
    let error = to_bytes(&compound).unwrap_err();
    assert_eq!(
        error.to_string(),
        "at operations[2].Rename.name, byte 28: a length of 65 exceeds the bound of 64"
    );
    let wire = [0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 9];
    assert_eq!(
        from_slice::<Compound>(&wire).unwrap_err().to_string(),
        "at operations[1], byte 12: Operation has no arm for 9"
    );
}

#[test]
fn limits_belong_to_the_reader() {
    #[derive(Debug, PartialEq, Xdr)]
    struct Nested(Option<Box<Nested>>);
    let wire: Vec<u8> = [1u32, 1, 1, 0].into_iter().flat_map(u32::to_be_bytes).collect();
    for (depth, good) in [(2, false), (3, true)] {
        let mut reader = Reader::from_slice(&wire)
            .with_limits(DecodeLimits { max_depth: depth, ..DecodeLimits::default() });
        assert_eq!(Nested::decode(&mut reader).is_ok(), good, "{depth}");
    }
}
