//! The codec: the worked example of RFC 4506, truncations, bounds, the nesting limit, and the reduction and
//! reinsertion of items.

#![allow(clippy::unwrap_used)] // tests fail by panicking

#[path = "support/plain.rs"]
mod plain;

#[path = "xdr/items.rs"]
mod items;

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

use bytes::Bytes;
use proptest::prelude::*;
use rpcrdma_runtime::xdr::{
    Decode, Encode, Error, ErrorKind, Item, Layout, Message, Opaque, Placed, PlacedItem, Reader, Received,
    Reducer, Sink, Size, SmallOpaque, Writer, Xdr, XdrString, encoded_len, from_bytes, from_slice, to_bytes,
};

use plain::Plain;

/// The example of RFC 4506 section 7: a file with its name, kind, owner and contents.
#[derive(Clone, Debug, PartialEq, Xdr)]
struct File {
    filename: XdrString<255>,
    kind: FileType,
    owner: XdrString<32>,
    data: Opaque<65535>,
}

#[derive(Clone, Copy, Debug, PartialEq, Xdr)]
enum FileKind {
    Text = 0,
    Data = 1,
    Exec = 2,
}

#[derive(Clone, Debug, PartialEq, Xdr)]
#[xdr(union = "FileKind")]
enum FileType {
    #[xdr(case = "FileKind::Text")]
    Text,
    #[xdr(case = "FileKind::Data")]
    Data(XdrString<255>),
    #[xdr(case = "FileKind::Exec")]
    Exec(XdrString<255>),
}

fn sillyprog() -> File {
    File {
        filename: "sillyprog".into(),
        kind: FileType::Exec("lisp".into()),
        owner: "john".into(),
        data: Opaque::from(&b"(quit)"[..]),
    }
}

const SILLYPROG: [u8; 48] = [
    0, 0, 0, 9, b's', b'i', b'l', b'l', b'y', b'p', b'r', b'o', b'g', 0, 0, 0, // filename and padding
    0, 0, 0, 2, // EXEC
    0, 0, 0, 4, b'l', b'i', b's', b'p', // interpreter
    0, 0, 0, 4, b'j', b'o', b'h', b'n', // owner
    0, 0, 0, 6, b'(', b'q', b'u', b'i', b't', b')', 0, 0, // data and padding
];

#[derive(Clone, Debug, PartialEq, Xdr)]
struct Everything {
    number: i32,
    wide: u64,
    ratio: f64,
    flag: bool,
    short: i16,
    fixed: [u8; 5],
    pair: [u32; 2],
    handle: SmallOpaque<64>,
    maybe: Option<Box<Everything>>,
    #[xdr(max = 3)]
    few: Vec<u32>,
    many: Vec<XdrString<8>>,
    #[xdr(list)]
    chain: Vec<FileType>,
    status: Status,
}

#[derive(Clone, Debug, PartialEq, Xdr)]
#[xdr(union = "i32")]
enum Status {
    #[xdr(case = 0)]
    Fine,
    #[xdr(case = -1, case = 7)]
    Odd(i32, u32),
    #[xdr(default)]
    Other(i32, Opaque<16>),
}

#[derive(Clone, Debug, PartialEq, Xdr)]
struct Write {
    handle: SmallOpaque<64>,
    #[ddp_eligible]
    data: Opaque,
    stable: u32,
    #[ddp_eligible]
    more: XdrString<100>,
    last: u32,
}

fn file_type() -> impl Strategy<Value = FileType> {
    prop_oneof![
        Just(FileType::Text),
        "[ -~]{0,255}".prop_map(|name| FileType::Data(name.into())),
        "[ -~]{0,255}".prop_map(|name| FileType::Exec(name.into())),
    ]
}

fn status() -> impl Strategy<Value = Status> {
    prop_oneof![
        Just(Status::Fine),
        (prop_oneof![Just(-1), Just(7)], any::<u32>()).prop_map(|(which, value)| Status::Odd(which, value)),
        (8i32.., prop::collection::vec(any::<u8>(), 0..=16))
            .prop_map(|(which, data)| Status::Other(which, data.into())),
    ]
}

fn everything() -> impl Strategy<Value = Everything> {
    let leaf = (
        (
            any::<i32>(),
            any::<u64>(),
            -1e300f64..1e300,
            any::<bool>(),
            any::<i16>(),
            any::<[u8; 5]>(),
            any::<[u32; 2]>(),
        ),
        prop::collection::vec(any::<u8>(), 0..=64),
        prop::collection::vec(any::<u32>(), 0..=3),
        prop::collection::vec("[a-z]{0,8}", 0..5),
        prop::collection::vec(file_type(), 0..4),
        status(),
    )
        .prop_map(|(numbers, handle, few, many, chain, status)| {
            let (number, wide, ratio, flag, short, fixed, pair) = numbers;
            let handle = SmallOpaque::new(&handle).expect("at most 64 bytes");
            let many = many.into_iter().map(XdrString::from).collect();
            Everything {
                number,
                wide,
                ratio,
                flag,
                short,
                fixed,
                pair,
                handle,
                maybe: None,
                few,
                many,
                chain,
                status,
            }
        });
    leaf.prop_recursive(4, 5, 1, |inner| {
        (inner.clone(), inner).prop_map(|(outer, inner)| Everything { maybe: Some(Box::new(inner)), ..outer })
    })
}

fn kind<T: std::fmt::Debug>(result: Result<T, Error>) -> ErrorKind {
    result.expect_err("refused").kind()
}

/// Requirement: R336
#[test]
fn the_worked_example_of_rfc_4506_section_7() {
    assert_eq!(to_bytes(&sillyprog()).unwrap()[..], SILLYPROG);
    assert_eq!(from_slice::<File>(&SILLYPROG).unwrap(), sillyprog());
}

#[test]
fn short_strings_are_stored_inline_and_long_ones_share_the_message() {
    for len in 0..=64 {
        let text = XdrString::<64>::from("x".repeat(len));
        let mut wire = Writer::new();
        text.encode(&mut wire).unwrap();
        [7u64; 5].encode(&mut wire).unwrap();
        let wire = wire.into_bytes();
        let mut reader = Reader::from_bytes(&wire);
        let read = XdrString::<64>::decode(&mut reader).unwrap();
        assert_eq!((&read, u64::decode(&mut reader).unwrap()), (&text, 7));
        assert_eq!(read.as_ptr() == wire[4..].as_ptr(), len > 23, "{len} bytes");
        assert_eq!(read.to_bytes(), read.clone().into_bytes());
        // Decoding also succeeds if the string is the last value of the stream.
        let last = wire.slice(..wire.len() - 40);
        assert_eq!(from_bytes::<XdrString<64>>(&last).unwrap(), text);
        assert_eq!(&to_bytes(&read).unwrap(), &last);
    }
    assert_eq!(size_of::<XdrString>(), size_of::<Bytes>(), "inline strings need no additional space");
}

#[test]
fn strings_compare_by_their_bytes_in_any_storage() {
    let (short, shared) = (XdrString::<9>::from("name"), XdrString::<9>::new(Bytes::from_static(b"name")));
    assert_eq!(short, shared);
    assert_eq!(std::collections::HashSet::from([short.clone(), shared.clone()]).len(), 1);
    assert!(short < XdrString::new(Bytes::from_static(b"named")) && shared > XdrString::from("nam"));
    assert_eq!(format!("{short:?} {shared:?}"), r#""name" "name""#);
}

#[test]
fn even_a_short_string_shares_the_memory_of_its_chunk() {
    #[derive(Xdr)]
    struct Link {
        #[ddp_eligible]
        target: XdrString<255>,
    }
    let mut reducer = Reducer::new(1);
    Link { target: "../up".into() }.encode(&mut reducer).unwrap();
    let Message { stream, items } = reducer.into_message();
    assert_eq!((&stream[..], &items[0].data[..]), (&[0, 0, 0, 5][..], &b"../up"[..]));
    let place = items[0].data.as_ptr();
    let received = Received { stream, items: Placed::Positioned(items) };
    assert_eq!(Link::decode(&mut Reader::new(&received)).unwrap().target.as_ptr(), place);
}

#[test]
fn opaque_data_shares_the_message() {
    let message = Bytes::copy_from_slice(&SILLYPROG);
    let file: File = from_bytes(&message).unwrap();
    assert_eq!(file.data.as_ptr(), message[40..].as_ptr());
}

/// Requirement: R331
#[test]
fn an_error_names_the_byte_and_the_field() {
    let mut bytes = SILLYPROG;
    bytes[19] = 9;
    let error = from_slice::<File>(&bytes).unwrap_err();
    assert_eq!(error.to_string(), "at kind, byte 16: FileKind has no value 9");
}

/// Requirement: R330
#[test]
fn padding_must_be_zero() {
    for at in [13, 14, 15, 46, 47] {
        let mut bytes = SILLYPROG;
        bytes[at] = 1;
        assert_eq!(kind(from_slice::<File>(&bytes)), ErrorKind::Padding, "byte {at}");
    }
    for len in 1..4u8 {
        let mut zeros = [0, 0, 0, len, 0xff, 0xff, 0xff, 0xff];
        zeros[4..4 + usize::from(len)].fill(0);
        assert_eq!(kind(from_slice::<Opaque<4>>(&zeros)), ErrorKind::Padding, "{len} zeros");
        let mut bytes = [0, 0, 0, len, 1, 1, 1, 1];
        assert_eq!(kind(from_slice::<Opaque<4>>(&bytes)), ErrorKind::Padding, "{len} bytes");
        bytes[4 + usize::from(len)..].fill(0);
        assert!(from_slice::<Opaque<4>>(&bytes).is_ok(), "{len} bytes");
    }
}

#[test]
fn strings_are_compared_hashed_and_printed_by_their_bytes() {
    type Text = XdrString<1000>;
    let hash = |text: &Text| BuildHasherDefault::<DefaultHasher>::default().hash_one(text);
    for len in [1, 15, 16, 300] {
        let text = Text::from("a".repeat(len));
        let same = Text::from(Bytes::from("a".repeat(len)));
        assert_eq!(text, same);
        assert_eq!(hash(&text), hash(&same));
        for other in ["a".repeat(len + 1), format!("{}b", "a".repeat(len - 1))] {
            let other = Text::from(other);
            assert_ne!(text, other);
            assert!(text < other);
            assert_ne!(hash(&text), hash(&other));
        }
    }
    for len in [0, 255, 256, 257] {
        let shown = format!("\"{}\"", "a".repeat(len.min(256)));
        let complete = if len > 256 { format!("{shown}... ({len} bytes)") } else { shown };
        assert_eq!(format!("{:?}", Text::from("a".repeat(len))), complete);
    }
}

/// Requirement: R332
#[test]
fn booleans_and_presence_are_zero_or_one() {
    assert_eq!(kind(from_slice::<bool>(&[0, 0, 0, 2])), ErrorKind::BadBool(2));
    assert_eq!(kind(from_slice::<Option<u32>>(&[0x80, 0, 0, 0])), ErrorKind::BadBool(0x8000_0000));
}

/// Requirement: R333
#[test]
fn bounds_hold_in_both_directions() {
    for (len, good) in [(0, true), (31, true), (32, true), (33, false)] {
        let file = File { owner: XdrString::from("x".repeat(len)), ..sillyprog() };
        assert_eq!(to_bytes(&file).is_ok(), good, "encode {len}");
        let mut wire = to_bytes(&XdrString::<1000>::from("x".repeat(len))).unwrap().to_vec();
        assert_eq!(from_slice::<XdrString<32>>(&wire).is_ok(), good, "decode {len}");
        wire.push(0);
        assert!(from_slice::<XdrString<32>>(&wire).is_err(), "a byte too many");
    }
    for count in 0..6u32 {
        let wire: Vec<u8> = [count].into_iter().chain(0..count).flat_map(u32::to_be_bytes).collect();
        let encoded = to_bytes(&Bounded { values: (0..count).collect() });
        assert_eq!(encoded.ok().as_deref(), (count <= 3).then_some(&wire[..]), "{count} elements");
        assert_eq!(from_slice::<Bounded>(&wire).is_ok(), count <= 3, "{count} elements");
    }
    assert!(SmallOpaque::<8>::new(&[0; 8]).is_ok() && SmallOpaque::<8>::new(&[0; 9]).is_err());
}

#[derive(Debug, PartialEq, Xdr)]
struct Bounded {
    #[xdr(max = 3)]
    values: Vec<u32>,
}

/// Requirement: H70
#[test]
fn an_element_count_allocates_no_memory() {
    let huge = [0xff; 4];
    assert!(matches!(kind(from_slice::<Vec<u64>>(&huge)), ErrorKind::Truncated { .. }));
    assert!(matches!(kind(from_slice::<Opaque>(&huge)), ErrorKind::Truncated { .. }));
    assert!(matches!(kind(from_slice::<Vec<()>>(&huge)), ErrorKind::TooLong { .. }));
    // The padded length would overflow 32 bits.
    assert!(matches!(kind(from_slice::<Opaque>(&[0xff, 0xff, 0xff, 0xfd, 0])), ErrorKind::Truncated { .. }));
}

#[derive(Debug, PartialEq, Xdr)]
struct Chain {
    #[xdr(list)]
    nodes: Vec<u32>,
}

/// Requirement: R335, H69
#[test]
fn a_list_of_100_000_nodes_is_decoded_in_a_loop() {
    let chain = Chain { nodes: (0..100_000).collect() };
    let wire = to_bytes(&chain).unwrap();
    assert_eq!(wire.len(), 100_000 * 8 + 4);
    assert_eq!(from_bytes::<Chain>(&wire).unwrap(), chain);
    assert!(matches!(kind(from_slice::<Chain>(&wire[..wire.len() - 4])), ErrorKind::Truncated { .. }));
}

#[derive(Debug, PartialEq, Xdr)]
struct Tree {
    children: Vec<Tree>,
}

/// Requirement: H69
#[test]
fn nesting_is_limited() {
    let nested = |depth: usize| [0, 0, 0, 1].repeat(depth).into_iter().chain([0; 4]).collect::<Vec<u8>>();
    assert!(from_slice::<Tree>(&nested(63)).is_ok());
    assert_eq!(kind(from_slice::<Tree>(&nested(64))), ErrorKind::TooDeep { limit: 64 });
    assert_eq!(kind(from_slice::<Tree>(&nested(100_000))), ErrorKind::TooDeep { limit: 64 });
}

#[test]
fn a_default_arm_keeps_its_discriminant() {
    for status in
        [Status::Fine, Status::Odd(-1, 5), Status::Odd(7, 5), Status::Other(99, vec![1, 2, 3].into())]
    {
        let wire = to_bytes(&status).unwrap();
        assert_eq!(from_bytes::<Status>(&wire).unwrap(), status);
    }
    // Encoding a value fails if the value would decode as another arm.
    assert_eq!(
        kind(to_bytes(&Status::Other(0, Opaque::default()))),
        ErrorKind::UnknownDiscriminant { type_name: "Status", value: 0 }
    );
    assert!(to_bytes(&Status::Odd(3, 0)).is_err());
}

/// Requirement: R331
#[test]
fn an_enum_is_encoded_as_its_number() {
    assert_eq!(i32::from(FileKind::Exec), 2);
    assert_eq!(FileKind::try_from(1), Ok(FileKind::Data));
    assert_eq!(FileKind::try_from(3), Err(ErrorKind::UnknownEnum { type_name: "FileKind", value: 3 }));
}

#[test]
fn a_fixed_array_fails_at_its_first_invalid_element() {
    let names = ["a name of more than twenty-three bytes", "b", "c"].map(XdrString::<64>::from);
    let mut bytes = to_bytes(&names).unwrap().to_vec();
    assert_eq!(from_slice::<[XdrString<64>; 3]>(&bytes).unwrap(), names);
    let error = from_slice::<[XdrString<0>; 3]>(&[0; 8]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Truncated { needed: 12, left: 8 });
    let last = bytes.len() - 8;
    bytes[last..].copy_from_slice(&[0, 0, 0, 65, b'c', 0, 0, 0]);
    let error = from_slice::<[XdrString<64>; 3]>(&bytes).unwrap_err();
    assert_eq!(error.to_string(), "at [2], byte 52: a length of 65 exceeds the bound of 64");
    assert_eq!(from_slice::<[u32; 0]>(&[]).unwrap(), [0u32; 0]);
    let error = to_bytes(&["a", "bc"].map(|text| XdrString::<1>::new(text.into()))).unwrap_err();
    assert_eq!(error.to_string(), "at [1], byte 8: a length of 2 exceeds the bound of 1");
}

#[test]
fn sizes_are_known_at_compile_time() {
    const { assert!(<Bounded as Layout>::LENGTHS.min == 4 && <SmallOpaque<64> as Layout>::LENGTHS.min == 4) };
    assert_eq!(<Bounded as Layout>::LENGTHS.max, Size::Bounded(4 + 12));
    assert_eq!(<FileType as Layout>::LENGTHS.min, 4);
    assert_eq!(<FileType as Layout>::LENGTHS.max, Size::Bounded(4 + 4 + 256));
    assert_eq!(<File as Layout>::LENGTHS.max, Size::Bounded((4 + 256) + (8 + 256) + (4 + 32) + (4 + 65536)));
    assert_eq!(<Write as Layout>::LENGTHS.max, Size::Unbounded);
    assert_eq!(<Write as Layout>::LENGTHS.max_reduced, Size::Bounded(68 + 4 + 4 + 4 + 4));
    assert_eq!(
        (<Write as Layout>::HELD.largest, <Write as Layout>::HELD.count),
        (Size::Unbounded, Size::Bounded(2))
    );
    assert_eq!(<Tree as Layout>::LENGTHS.max, Size::Unbounded);
}

#[derive(Clone, Debug, PartialEq, Xdr)]
#[xdr(union = "u32")]
enum Operation {
    #[xdr(case = 1)]
    Write(Write),
    #[xdr(case = 2)]
    #[ddp_eligible]
    Put(Opaque<4096>),
    #[xdr(case = 3)]
    Commit,
}

/// Requirement: R334
#[test]
fn a_union_without_a_default_rejects_other_discriminants() {
    for discriminant in 0..6u32 {
        let bytes = [discriminant.to_be_bytes(), [0; 4]].concat();
        match (discriminant, from_slice::<Operation>(&bytes)) {
            (2, Ok(Operation::Put(data))) => assert!(data.is_empty()),
            (1 | 3, Err(error)) => {
                assert!(matches!(error.kind(), ErrorKind::Truncated { .. } | ErrorKind::Trailing(4)));
            }
            (_, Err(error)) => {
                let value = discriminant.into();
                assert_eq!(error.kind(), ErrorKind::UnknownDiscriminant { type_name: "Operation", value });
            }
            (_, Ok(other)) => panic!("{discriminant}: {other:?}"),
        }
    }
    let beyond = from_slice::<Operation>(&[0xff; 8]);
    assert_eq!(
        kind(beyond),
        ErrorKind::UnknownDiscriminant { type_name: "Operation", value: u32::MAX.into() }
    );
}

#[derive(Clone, Debug, PartialEq, Xdr)]
struct Compound {
    tag: XdrString<16>,
    operations: Vec<Operation>,
}

#[derive(Clone, Debug, PartialEq, Xdr)]
struct FewOperations {
    #[xdr(max = 4)]
    operations: Vec<Operation>,
}

#[derive(Clone, Debug, PartialEq, Xdr)]
struct Branch {
    #[ddp_eligible]
    data: Opaque<64>,
    #[xdr(list)]
    children: Vec<Branch>,
    #[xdr(recursive)]
    more: Branches,
}

type Branches = Vec<Branch>;

#[test]
fn items_in_arrays_arms_and_recursive_types_are_counted() {
    assert_eq!(<Operation as Layout>::HELD.count, Size::Bounded(2));
    assert_eq!(
        (<Compound as Layout>::HELD.largest, <Compound as Layout>::HELD.count),
        (Size::Unbounded, Size::Unbounded)
    );
    assert_eq!(<FewOperations as Layout>::HELD.count, Size::Bounded(8));
    assert_eq!(<FewOperations as Layout>::LENGTHS.max_reduced, Size::Bounded(4 + 4 * (4 + 84)));
    assert_eq!(
        (<Branch as Layout>::HELD.largest, <Branch as Layout>::HELD.count),
        (Size::Bounded(64), Size::Unbounded)
    );
    assert_eq!((<Tree as Layout>::HELD.largest, <Tree as Layout>::HELD.count), (Size::ZERO, Size::ZERO));
}

fn reduced<T: Encode>(value: &T, header: &[u8], min_item: usize) -> Message {
    let mut reducer = Reducer::new(min_item);
    reducer.put(header).unwrap();
    value.encode(&mut reducer).unwrap();
    reducer.into_message()
}

proptest! {
    #[test]
    fn decode_after_encode_is_the_identity(value in everything()) {
        let wire = to_bytes(&value).unwrap();
        prop_assert_eq!(wire.len() as u64, encoded_len(&value).unwrap());
        prop_assert_eq!(wire.len() % 4, 0);
        let decoded: Everything = from_bytes(&wire).unwrap();
        prop_assert_eq!(&decoded, &value);
        prop_assert_eq!(to_bytes(&decoded).unwrap(), wire);
    }

    #[test]
    fn every_truncation_is_an_error(value in everything()) {
        let wire = to_bytes(&value).unwrap();
        for len in 0..wire.len() {
            prop_assert!(from_slice::<Everything>(&wire[..len]).is_err());
        }
    }

    #[test]
    fn decoding_and_encoding_round_trip(wire in prop::collection::vec(prop_oneof![0u8..3, any::<u8>()], 0..200)) {
        if let Ok(value) = from_slice::<Everything>(&wire) {
            prop_assert_eq!(&to_bytes(&value).unwrap()[..], &wire[..]);
        }
        if let Ok(value) = from_slice::<Status>(&wire) {
            prop_assert_eq!(&to_bytes(&value).unwrap()[..], &wire[..]);
        }
    }

    /// Requirement: R061, R062
    #[test]
    fn reduce_then_rebuild_is_the_identity(
        data in prop::collection::vec(any::<u8>(), 0..40),
        more in "[a-z]{0,40}",
        header in 0usize..10,
        min_item in 0usize..50,
        keep in any::<[bool; 2]>(),
    ) {
        let value = Write { handle: SmallOpaque::new(&[3; 6]).unwrap(), data: data.into(), stable: 1, more: more.into(), last: 2 };
        let header = vec![0; header * 4];
        let message = reduced(&value, &header, min_item);
        let complete = reduced(&value, &header, usize::MAX).stream;
        prop_assert_eq!(message.flatten(), &complete[..]);
        prop_assert_eq!(message.unreduced_len(), complete.len() as u64);
        let message = message.split(|index, _| keep[index]);
        prop_assert_eq!(message.flatten(), &complete[..]);
        let received = Received { stream: message.stream, items: Placed::Positioned(message.items) };
        let mut reader = Reader::new(&received);
        reader.take(header.len()).unwrap();
        let decoded = Write::decode(&mut reader).unwrap();
        reader.finish().unwrap();
        prop_assert_eq!(decoded, value);
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Xdr)]
struct Nothing {}

#[derive(Clone, Debug, PartialEq, Eq, Xdr)]
struct Nothings {
    of_them: Vec<Nothing>,
}

fn words(words: impl IntoIterator<Item = u32>) -> Vec<u8> {
    words.into_iter().flat_map(u32::to_be_bytes).collect()
}

#[test]
fn empty_elements_are_counted_across_the_message() {
    // The message has 404 bytes. No array by itself claims more elements than there are bytes left.
    let claims = |each: u32, how_many: u32| {
        words([100].into_iter().chain((0..100).map(|index| if index < how_many { each } else { 0 })))
    };
    let fits = from_slice::<Vec<Nothings>>(&claims(101, 4)).unwrap();
    assert_eq!(fits.iter().map(|nothings| nothings.of_them.len()).sum::<usize>(), 404);
    assert_eq!(&to_bytes(&fits).unwrap()[..], claims(101, 4));
    let error = from_slice::<Vec<Nothings>>(&claims(101, 5)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLong { len: 101, max: 0 });
    assert_eq!(error.to_string(), "at [4].of_them, byte 24: a length of 101 exceeds the bound of 0");
    // An array must not claim more elements than there are bytes left, even if earlier arrays claimed few.
    assert!(from_slice::<Vec<Nothings>>(&words([2, 1, 0])).is_ok());
    assert_eq!(kind(from_slice::<Vec<Nothings>>(&words([2, 0, 1]))), ErrorKind::TooLong { len: 1, max: 0 });
}

#[test]
fn a_writer_is_reused() {
    let mut writer = Writer::with_capacity(4);
    for len in [1usize, 700, 3, 0] {
        writer.clear();
        let value = Opaque::<{ u32::MAX }>::from(vec![0xff; len]);
        value.encode(&mut writer).unwrap();
        SmallOpaque::<8>::new(&[1, 2, 3]).unwrap().encode(&mut writer).unwrap();
        let mut expected = words([u32::try_from(len).unwrap()]);
        expected.resize(4 + len, 0xff);
        expected.resize(4 + len.next_multiple_of(4), 0);
        expected.extend([0, 0, 0, 3, 1, 2, 3, 0]);
        assert_eq!(writer.as_slice(), expected);
    }
}

#[test]
fn small_opaque_data_ends_at_its_length() {
    let read = |behind: u8| {
        let wire = [vec![0, 0, 0, 3, 1, 2, 3, 0], vec![behind; 8]].concat();
        let mut reader = Reader::from_slice(&wire);
        let value = SmallOpaque::<8>::decode(&mut reader).unwrap();
        assert_eq!(reader.remaining(), 8);
        value
    };
    assert_eq!(read(0xaa), read(0xbb));
    assert_eq!(format!("{:?}", read(0xaa)), "0x010203");
    assert_eq!(&to_bytes(&(read(0xaa))).unwrap()[..], [0, 0, 0, 3, 1, 2, 3, 0]);
}

#[derive(Clone, Debug, PartialEq, Xdr)]
struct Entry {
    number: u64,
    name: XdrString<1400>,
    handle: Option<SmallOpaque<64>>,
    stamp: Option<u64>,
    more: Vec<Opaque<40>>,
}

#[derive(Clone, Debug, PartialEq, Xdr)]
struct Listing {
    #[xdr(list)]
    entries: Vec<Entry>,
    #[xdr(max = 50)]
    counted: Vec<Entry>,
}

fn entry() -> impl Strategy<Value = Entry> {
    let bytes = |max: usize| proptest::collection::vec(any::<u8>(), 0..max);
    // Some names are longer than the encoder's buffer of 1,024 bytes (`STAGE`), and some elements of `more`
    // exceed their bound of 40 bytes.
    let name = prop_oneof![bytes(40), bytes(601), bytes(1401)];
    let handle = proptest::option::of(bytes(65));
    let more = proptest::collection::vec(bytes(42), 0..4);
    (any::<u64>(), name, handle, any::<Option<u64>>(), more).prop_map(
        |(number, name, handle, stamp, more)| Entry {
            number,
            name: name.into(),
            handle: handle.map(|handle| SmallOpaque::new(&handle).unwrap()),
            stamp,
            more: more.into_iter().map(Opaque::from).collect(),
        },
    )
}

proptest! {
    /// Some values break a bound. The writer either already has room for the failing element or must first
    /// allocate memory for it.
    #[test]
    fn encodings_are_independent_of_the_sink(
        entries in proptest::collection::vec(entry(), 0..30),
        counted in proptest::collection::vec(entry(), 0..30),
        before in 0usize..1200,
        capacity in 0usize..4000,
    ) {
        let listing = Listing { entries, counted };
        let mut plain = Plain(vec![0x77; before]);
        let expected = listing.encode(&mut plain).map_err(|error| error.to_string());
        // Tries a new writer, a reused writer and a reducer.
        let mut writer = Writer::with_capacity(capacity);
        for _ in 0..2 {
            writer.clear();
            writer.put(&vec![0x77; before]).unwrap();
            let written = listing.encode(&mut writer).map_err(|error| error.to_string());
            prop_assert_eq!(&written, &expected);
            prop_assert!(written.is_err() || writer.as_slice() == plain.0);
        }
        let mut reducer = Reducer::new(0);
        reducer.put(&vec![0x77; before]).unwrap();
        prop_assert_eq!(&listing.encode(&mut reducer).map_err(|error| error.to_string()), &expected);
        prop_assert!(expected.is_err() || reducer.into_message().stream == plain.0);
    }
}
