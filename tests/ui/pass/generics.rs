//! Bounds on type parameters are inferred. Each derived implementation has only the bounds that it needs.

use rpcrdma_runtime::xdr::{
    DdpItem, Encode, Layout, Opaque, Reducer, Size, SmallOpaque, Xdr, XdrString, from_slice, to_bytes,
};

#[derive(Clone, Debug, PartialEq, Xdr)]
struct Listing<K, V: DdpItem, const N: u32> {
    cookie: K,
    #[xdr(max = N)]
    entries: Vec<Entry<K, V>>,
    next: Option<K>,
}

#[derive(Clone, Debug, PartialEq, Xdr)]
struct Entry<K, V> {
    key: K,
    #[ddp_eligible]
    value: V,
}

#[derive(Clone, Debug, PartialEq, Xdr)]
#[xdr(union = "u32")]
enum Outcome<T, E = i32> {
    #[xdr(case = 0)]
    Good(T),
    #[xdr(default)]
    Bad(u32, E),
}

#[derive(Clone, Debug, PartialEq, Xdr)]
struct Tree<T> {
    value: T,
    #[xdr(list)]
    branches: Vec<Tree<T>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Xdr)]
#[xdr(backward)]
struct Recall<T> {
    handle: SmallOpaque<8>,
    why: T,
}

/// Generic code needs bounds only for the traits that it uses.
fn encoded<K: Encode, V: DdpItem>(entry: &Entry<K, V>) -> Vec<u8> {
    to_bytes(entry).unwrap().to_vec()
}

fn same<T: Xdr + PartialEq + core::fmt::Debug>(value: T) {
    assert_eq!(from_slice::<T>(&to_bytes(&value).unwrap()).unwrap(), value);
}

fn main() {
    type Names = Listing<u64, XdrString<16>, 3>;
    assert_eq!((Names::HELD.largest, Names::HELD.count), (Size::Bounded(16), Size::Bounded(3)));
    assert_eq!(Names::LENGTHS.max, Size::Bounded(8 + 4 + 3 * (8 + 4 + 16) + 12));
    assert_eq!(Names::LENGTHS.max_reduced, Size::Bounded(8 + 4 + 3 * (8 + 4) + 12));

    let entry = |key| Entry { key, value: XdrString::<16>::from("0123456789") };
    let names: Names = Listing { cookie: 7, entries: vec![entry(1), entry(2)], next: Some(2) };
    let mut reducer = Reducer::new(1);
    names.encode(&mut reducer).unwrap();
    assert_eq!(reducer.into_message().items.len(), 2);
    same(names);
    assert_eq!(encoded(&Entry { key: 1u32, value: Opaque::<9>::from(vec![1]) }).len(), 12);
    same(Outcome::<u64>::Good(1));
    same(Outcome::<u64, XdrString<8>>::Bad(4, "why".into()));
    same(Tree { value: 1u32, branches: vec![Tree { value: 2, branches: vec![] }] });
    same(Recall { handle: SmallOpaque::default(), why: true });
}
