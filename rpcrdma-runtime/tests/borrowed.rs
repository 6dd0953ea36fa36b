//! Borrowed values have the same encoding as owned values. Decoding a borrowed value copies no data and
//! allocates no memory.

#![allow(clippy::unwrap_used)] // tests fail by panicking

use allocation_counter::measure;
use rpcrdma_runtime::xdr::{
    self, ArrayRef, BoxRef, Bytes, Decode, DecodeLimits, Encode, ErrorKind, Item, Layout, ListRef, Opaque,
    OpaqueRef, Placed, Reader, Received, Size, StringRef, Xdr, XdrString,
};

#[derive(Clone, Debug, PartialEq, Xdr)]
struct Owned {
    handle: Opaque<64>,
    name: XdrString<255>,
    marks: [Entry; 2],
    #[xdr(max = 4)]
    entries: Vec<Entry>,
    #[xdr(list)]
    chain: Vec<Entry>,
    choice: Choice,
    tree: Tree,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Xdr)]
struct Entry {
    id: u64,
    kind: u32,
}

#[derive(Clone, Debug, PartialEq, Xdr)]
#[xdr(union = "u32")]
enum Choice {
    #[xdr(case = 0)]
    Nothing,
    #[xdr(case = 1)]
    Data(Opaque),
    #[xdr(default)]
    Other(u32, XdrString<8>),
}

#[derive(Clone, Debug, PartialEq, Xdr)]
struct Tree {
    name: XdrString,
    left: Option<Box<Tree>>,
    branches: Vec<Tree>,
}

#[derive(Clone, Copy, Debug, PartialEq, Xdr)]
struct Borrowed<'a> {
    handle: OpaqueRef<'a, 64>,
    name: StringRef<'a, 255>,
    marks: [Entry; 2],
    entries: ArrayRef<'a, Entry, 4>,
    chain: ListRef<'a, Entry>,
    choice: ChoiceRef<'a>,
    tree: TreeRef<'a>,
}

#[derive(Clone, Copy, Debug, PartialEq, Xdr)]
#[xdr(union = "u32")]
enum ChoiceRef<'a> {
    #[xdr(case = 0)]
    Nothing,
    #[xdr(case = 1)]
    Data(OpaqueRef<'a>),
    #[xdr(default)]
    Other(u32, StringRef<'a, 8>),
}

#[derive(Clone, Copy, Debug, PartialEq, Xdr)]
struct TreeRef<'a> {
    name: StringRef<'a>,
    left: Option<BoxRef<'a, TreeRef<'a>>>,
    branches: ArrayRef<'a, TreeRef<'a>>,
}

fn leaf(name: &str) -> Tree {
    Tree { name: name.into(), left: None, branches: vec![] }
}

fn owned() -> Owned {
    let entry = |id| Entry { id, kind: 7 };
    Owned {
        handle: vec![1, 2, 3, 4, 5].into(),
        name: "a name".into(),
        marks: [entry(1), entry(2)],
        entries: vec![entry(3), entry(4), entry(5)],
        chain: vec![entry(6), entry(7)],
        choice: Choice::Other(9, "other".into()),
        tree: Tree {
            name: "root".into(),
            left: Some(Box::new(leaf("left"))),
            branches: vec![leaf("one"), Tree { branches: vec![leaf("deep")], ..leaf("two") }],
        },
    }
}

#[test]
fn borrowed_and_owned_types_have_the_same_encoding() {
    let bytes = xdr::to_bytes(&owned()).unwrap();
    let value: Borrowed<'_> = xdr::from_slice(&bytes).unwrap();
    assert_eq!(xdr::to_bytes(&value).unwrap(), bytes);
    assert_eq!(value.name.to_str(), Ok("a name"));
    assert_eq!(value.entries.iter().map(|entry| entry.id).collect::<Vec<_>>(), [3, 4, 5]);
    assert_eq!(value.chain.to_vec(), owned().chain);
    assert_eq!(value.tree.left.unwrap().get().unwrap().name.to_str(), Ok("left"));
    let two = value.tree.branches.iter().nth(1).unwrap();
    assert_eq!(two.branches.iter().next().unwrap().name.to_str(), Ok("deep"));
    assert_eq!(<Borrowed<'_> as Layout>::LENGTHS.min, Owned::LENGTHS.min);
    assert_eq!(<Borrowed<'_> as Layout>::LENGTHS.max, Owned::LENGTHS.max);
    assert_eq!(<ChoiceRef<'_> as Layout>::LENGTHS.max, Choice::LENGTHS.max);
    let Owned { entries, chain, .. } = owned();
    let written = Borrowed { entries: ArrayRef::new(&entries), chain: ListRef::from(&chain), ..value };
    assert_eq!(written, value);
    assert_eq!(xdr::to_bytes(&written).unwrap(), bytes);
}

#[test]
fn decoding_copies_no_data() {
    let bytes = xdr::to_bytes(&owned()).unwrap();
    let value: Borrowed<'_> = xdr::from_slice(&bytes).unwrap();
    assert!(std::ptr::eq(value.handle.as_slice(), &bytes[4..9]));
    assert!(std::ptr::eq(value.name.to_str().unwrap().as_bytes(), &bytes[16..22]));
    let deep = value.tree.left.unwrap().get().unwrap().name;
    assert!(bytes.as_ptr_range().contains(&deep.as_ptr()));
}

#[test]
fn decoding_encoding_and_iterating_do_not_allocate() {
    let bytes = xdr::to_bytes(&owned()).unwrap();
    let counted = measure(|| {
        let value: Borrowed<'_> = xdr::from_slice(&bytes).unwrap();
        assert_eq!(value.entries.iter().map(|entry| entry.id).sum::<u64>(), 12);
        assert_eq!(value.chain.iter().len(), 2);
        assert_eq!(value.tree.branches.iter().filter(|tree| tree.name.is_empty()).count(), 0);
        assert_eq!(xdr::encoded_len(&value).unwrap(), bytes.len() as u64);
        assert_eq!(value, value);
    });
    assert_eq!(counted.count_total, 0);
    // Shows that the counter detects allocations.
    assert!(measure(|| drop(xdr::from_slice::<Owned>(&bytes).unwrap())).count_total > 5);
}

#[test]
fn truncations_and_impossible_counts_are_errors() {
    let bytes = xdr::to_bytes(&owned()).unwrap();
    for end in 0..bytes.len() {
        assert!(xdr::from_slice::<Borrowed<'_>>(&bytes[..end]).is_err(), "cut to {end}");
    }
    let huge = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 1];
    let error = xdr::from_slice::<ArrayRef<'_, u32>>(&huge).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Truncated { left: 4, .. }));
    let error = xdr::from_slice::<OpaqueRef<'_>>(&huge).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Truncated { left: 4, .. }));
    let error = xdr::from_slice::<ArrayRef<'_, ()>>(&huge).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::TooLong { .. }));
}

/// The size of the message limits the number of zero-size elements. An iterator sees only the bytes of the
/// array, not the whole message, so an iterator must not apply the limit again.
#[test]
fn elements_of_size_zero_are_found_again() {
    let mut bytes = xdr::to_bytes(&vec![vec![(); 50]]).unwrap().to_vec();
    bytes.resize(100, 0);
    let values = ArrayRef::<'_, Vec<()>>::decode(&mut Reader::from_slice(&bytes)).unwrap();
    assert_eq!(values.iter().collect::<Vec<_>>(), [vec![(); 50]]);
}

/// Requirement: R333
#[test]
fn bounds_hold_in_both_directions() {
    let long = [0u8; 9];
    let error = xdr::to_bytes(&OpaqueRef::<8>::new(&long)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLong { len: 9, max: 8 });
    let bytes = xdr::to_bytes(&OpaqueRef::<9>::new(&long)).unwrap();
    let error = xdr::from_slice::<OpaqueRef<'_, 8>>(&bytes).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLong { len: 9, max: 8 });
    let error = xdr::to_bytes(&StringRef::<8>::from("123456789")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLong { len: 9, max: 8 });
    let error = xdr::from_slice::<StringRef<'_, 8>>(&bytes).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLong { len: 9, max: 8 });
    let error = xdr::to_bytes(&ArrayRef::<u32, 1>::new(&[1, 2])).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLong { len: 2, max: 1 });
    let bytes = xdr::to_bytes(&ArrayRef::<u32, 2>::new(&[1, 2])).unwrap();
    let error = xdr::from_slice::<ArrayRef<'_, u32, 1>>(&bytes).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLong { len: 2, max: 1 });
}

#[test]
fn padding_and_links_are_checked_without_access_to_values() {
    let names = [StringRef::<8>::from("a")];
    let mut bytes = xdr::to_bytes(&ArrayRef::<_>::new(&names)).unwrap().to_vec();
    *bytes.last_mut().unwrap() = 1;
    let error = xdr::from_slice::<ArrayRef<'_, StringRef<'_, 8>>>(&bytes).unwrap_err();
    assert_eq!(
        (error.kind(), error.to_string().as_str()),
        (ErrorKind::Padding, "at [0], byte 9: padding is not zero")
    );
    let error = xdr::from_slice::<ListRef<'_, u32>>(&[0, 0, 0, 1, 0, 0, 0, 7, 0, 0, 0, 2]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BadBool(2));
}

#[test]
fn nesting_is_limited_and_deep_values_can_be_inspected() {
    let mut bytes = Vec::new();
    for _ in 0..100 {
        bytes.extend([0, 0, 0, 0, 0, 0, 0, 1]);
    }
    bytes.extend([0; 12]);
    bytes.extend([0; 400]);
    let error = xdr::from_slice::<TreeRef<'_>>(&bytes).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooDeep { limit: 64 });
    let mut reader =
        Reader::from_slice(&bytes).with_limits(DecodeLimits { max_depth: 200, ..DecodeLimits::default() });
    let mut tree = TreeRef::decode(&mut reader).unwrap();
    reader.finish().unwrap();
    let mut depth = 0;
    while let Some(left) = tree.left {
        tree = left.get().unwrap();
        depth += 1;
    }
    assert_eq!(depth, 100);
}

#[derive(Clone, Copy, Debug, PartialEq, Xdr)]
struct Slices<'a> {
    #[xdr(max = 8)]
    data: &'a [u8],
    #[xdr(max = 8)]
    text: &'a str,
    rest: &'a [u8],
}

#[test]
fn slices_and_text_are_opaque_data_and_strings() {
    let value = Slices { data: &[1, 2, 3], text: "text!", rest: &[] };
    let bytes = xdr::to_bytes(&value).unwrap();
    assert_eq!(xdr::from_slice::<Slices<'_>>(&bytes).unwrap(), value);
    assert_eq!(&bytes[..8], [0, 0, 0, 3, 1, 2, 3, 0]);
    assert_eq!((Slices::LENGTHS.min, Slices::LENGTHS.max), (12, Size::Unbounded));
    let too_long = Slices { text: "nine char", ..value };
    assert_eq!(
        xdr::to_bytes(&too_long).unwrap_err().to_string(),
        "at text, byte 8: a length of 9 exceeds the bound of 8"
    );
    let mut broken = bytes.to_vec();
    broken[14] = 0xff;
    let error = xdr::from_slice::<Slices<'_>>(&broken).unwrap_err();
    assert_eq!(error.to_string(), "at text, byte 14: the string is not UTF-8");
}

#[test]
fn borrowed_data_can_be_stored_and_borrowed_again() {
    let bytes = xdr::to_bytes(&owned()).unwrap();
    let (handle, name) = {
        let value: Borrowed<'_> = xdr::from_slice(&bytes).unwrap();
        (value.handle.to_opaque(), XdrString::from(value.name))
    };
    drop(bytes);
    assert_eq!((&handle, &name), (&owned().handle, &owned().name));
    assert_eq!(OpaqueRef::from(&handle).as_slice(), [1, 2, 3, 4, 5]);
    assert_eq!(StringRef::from(&name).to_string(), "a name");
    assert_eq!(
        format!("{:?} {:?}", OpaqueRef::from(&handle), StringRef::from(&name)),
        "0x0102030405 \"a name\""
    );
    assert_eq!(format!("{:?}", ArrayRef::<u32>::new(&[1, 2])), "[1, 2]");
}

#[derive(Clone, Debug, PartialEq, Xdr)]
struct Mixed<'a> {
    before: StringRef<'a>,
    #[ddp_eligible]
    data: Opaque,
    after: ArrayRef<'a, u32>,
}

#[test]
fn borrowed_types_decode_around_reduced_items() {
    let value = Mixed { before: "x".into(), data: vec![5; 100].into(), after: ArrayRef::new(&[1, 2]) };
    let mut reducer = xdr::Reducer::new(16);
    value.encode(&mut reducer).unwrap();
    let message = reducer.into_message();
    assert_eq!(message.items.len(), 1);
    let data: Bytes = message.items[0].data.clone();
    let received = Received {
        stream: message.stream,
        items: Placed::Positioned(vec![Item { position: message.items[0].position, data }]),
    };
    let mut reader = Reader::new(&received);
    assert_eq!(Mixed::decode(&mut reader).unwrap(), value);
    reader.finish().unwrap();
}
