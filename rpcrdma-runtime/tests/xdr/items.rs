//! Items that are moved out of the stream and received in chunks.

use super::*;

/// Requirement: R053, R055, R056, R071, R072, R074, R097
#[test]
fn positions_refer_to_the_unreduced_stream() {
    let value = Write {
        handle: SmallOpaque::new(&[7; 8]).unwrap(),
        data: vec![1; 5].into(),
        stable: 2,
        more: "abcdefg".into(),
        last: 9,
    };
    let message = reduced(&value, &[0; 40], 1);
    let positions: Vec<u32> = message.items.iter().map(|item| item.position).collect();
    // The header has 40 bytes, the handle 12, the count 4, the data with padding 8, `stable` 4, and the
    // second count 4.
    assert_eq!(positions, [56, 72]);
    assert_eq!(message.stream.len(), 40 + 12 + 4 + 4 + 4 + 4);
    assert_eq!(message.items[0].data.as_ptr(), value.data.as_ptr(), "the data was copied");
}

/// Requirement: R057, R076, R082
#[test]
fn a_chunk_may_include_only_padding_beyond_its_item() {
    let value = Write {
        handle: SmallOpaque::default(),
        data: vec![1; 5].into(),
        stable: 0,
        more: "".into(),
        last: 0,
    };
    for (chunk, good) in [(4, false), (5, true), (6, false), (7, false), (8, true), (9, false)] {
        let mut message = reduced(&value, &[], 1);
        message.items[0].data = vec![1; chunk].into();
        let received = Received { stream: message.stream, items: Placed::Positioned(message.items) };
        let mut reader = Reader::new(&received);
        let decoded = Write::decode(&mut reader);
        match decoded {
            Ok(decoded) => assert!(good && decoded == value && reader.finish().is_ok(), "{chunk}"),
            Err(error) => {
                assert!(!good, "{chunk}");
                assert_eq!(error.kind(), ErrorKind::ItemLength { count: 5, chunk: chunk as u64 });
            }
        }
    }
}

#[test]
fn a_chunk_where_no_item_begins_is_refused() {
    let value = Write {
        handle: SmallOpaque::default(),
        data: vec![1; 8].into(),
        stable: 0,
        more: "".into(),
        last: 0,
    };
    let mut message = reduced(&value, &[], usize::MAX);
    message.items.push(Item { position: 4, data: vec![0; 4].into() });
    let received = Received { stream: message.stream, items: Placed::Positioned(message.items) };
    let mut reader = Reader::new(&received);
    let refused = Write::decode(&mut reader).and_then(|_| reader.finish());
    assert_eq!(kind(refused), ErrorKind::ItemUnused { position: 4 });
}

#[test]
fn a_chunk_that_was_passed_is_refused_at_the_next_item() {
    let value = Write {
        handle: SmallOpaque::default(),
        data: vec![1; 8].into(),
        stable: 0,
        more: "abcd".into(),
        last: 0,
    };
    let mut message = reduced(&value, &[], 1);
    message.items.first_mut().unwrap().position -= 4;
    let received = Received { stream: message.stream, items: Placed::Positioned(message.items) };
    assert_eq!(kind(Write::decode(&mut Reader::new(&received))), ErrorKind::ItemUnused { position: 4 });
}

#[test]
fn an_empty_item_uses_only_an_empty_chunk() {
    let value = Write {
        handle: SmallOpaque::default(),
        data: Opaque::default(),
        stable: 5,
        more: "".into(),
        last: 6,
    };
    let stream = to_bytes(&value).unwrap();
    for (data, good) in [(&b""[..], true), (b"xyz", false)] {
        let item = Item { position: 8, data: Bytes::from_static(data) };
        let received = Received { stream: stream.clone(), items: Placed::Positioned(vec![item]) };
        let mut reader = Reader::new(&received);
        let decoded = Write::decode(&mut reader);
        if good {
            assert_eq!(decoded.unwrap(), value);
            reader.finish().unwrap();
        } else {
            assert_eq!(kind(decoded), ErrorKind::ItemLength { count: 0, chunk: 3 });
        }
    }
}

fn in_order(value: &Write, chunks: Vec<PlacedItem>, inline: &[bool]) -> Result<Write, Error> {
    let message = reduced(value, &[], 1).split(|index, _| !inline[index]);
    let received = Received { stream: message.stream, items: Placed::InOrder(chunks) };
    let mut reader = Reader::new(&received);
    let decoded = Write::decode(&mut reader)?;
    reader.finish().map(|()| decoded)
}

/// Requirement: R104, R106, R111, R187, R188, H28
#[test]
fn write_chunks_are_used_in_order() {
    let value = Write {
        handle: SmallOpaque::default(),
        data: vec![1; 5].into(),
        stable: 0,
        more: "xyz".into(),
        last: 0,
    };
    let chunk = |data: &[u8], segments| PlacedItem { data: Bytes::copy_from_slice(data), segments };
    let both = vec![chunk(&[1; 5], 1), chunk(b"xyz", 2)];
    assert_eq!(in_order(&value, both, &[false, false]).unwrap(), value);
    // If the chunk for an item has no segments, the item is inline, and the next chunk is for the next item.
    assert_eq!(in_order(&value, vec![chunk(&[], 0), chunk(b"xyz", 1)], &[true, false]).unwrap(), value);
    // If a reply has fewer chunks than items, the remaining items are inline.
    assert_eq!(in_order(&value, vec![chunk(&[1; 5], 1)], &[false, true]).unwrap(), value);
    assert_eq!(in_order(&value, vec![], &[true, true]).unwrap(), value);
    // An item must not be inline if its chunk has a segment.
    assert_eq!(
        kind(in_order(&value, vec![chunk(&[], 1)], &[true, true])),
        ErrorKind::ItemLength { count: 5, chunk: 0 }
    );
    // An empty item consumes no chunk.
    let empty = Write { data: Opaque::default(), ..value.clone() };
    assert_eq!(in_order(&empty, vec![chunk(b"xyz", 1)], &[false]).unwrap(), empty);
    // The length of the data in the chunk must equal the length of the item.
    assert_eq!(
        kind(in_order(&value, vec![chunk(&[1; 4], 1), chunk(b"xyz", 1)], &[false, false])),
        ErrorKind::ItemLength { count: 5, chunk: 4 }
    );
    // A chunk with data must belong to an item.
    let extra = vec![chunk(&[1; 5], 1), chunk(b"xyz", 1), chunk(b"more", 1)];
    assert_eq!(kind(in_order(&value, extra, &[false, false])), ErrorKind::ItemUnused { position: 2 });
    let extra = vec![chunk(&[1; 5], 1), chunk(b"xyz", 1), chunk(&[], 1), chunk(b"more", 1)];
    assert_eq!(kind(in_order(&value, extra, &[false, false])), ErrorKind::ItemUnused { position: 3 });
}

#[derive(Clone, Debug, PartialEq, Xdr)]
struct Unmarked {
    data: Opaque,
    names: Vec<XdrString>,
    inner: Option<Opaque>,
}

#[test]
fn r051_unmarked_data_stays_in_the_stream() {
    let large = vec![7; 100_000];
    let names = vec!["n".repeat(5000).as_str().into()];
    let value = Unmarked { data: large.clone().into(), names, inner: Some(large.into()) };
    let message = reduced(&value, &[0; 40], 1);
    assert!(message.items.is_empty());
    assert_eq!(message.stream[40..], to_bytes(&value).unwrap());
}
