//! Types that contain themselves by name, through an alias or through another type. The derive still computes
//! correct bounds.

use rpcrdma_runtime::xdr::{Layout, Opaque, Size, Xdr, from_slice, to_bytes};

#[derive(Clone, Debug, Default, PartialEq, Xdr)]
struct Tree {
    #[ddp_eligible]
    value: Opaque<100>,
    #[xdr(max = 5)]
    kids: Vec<Tree>,
}

#[derive(Clone, Debug, Default, PartialEq, Xdr)]
struct Alias {
    value: u32,
    #[xdr(recursive)]
    kids: Forest,
}

type Forest = Vec<Alias>;

#[derive(Clone, Debug, Default, PartialEq, Xdr)]
struct Outer {
    inner: Inner,
}

#[derive(Clone, Debug, Default, PartialEq, Xdr)]
struct Inner {
    #[xdr(max = 5, recursive)]
    others: Vec<Outer>,
    #[xdr(list)]
    more: Vec<Self>,
    #[xdr(recursive)]
    next: Option<Box<Outer>>,
}

fn same<T: Xdr + PartialEq + core::fmt::Debug>(value: T) {
    let bytes = to_bytes(&value).unwrap();
    assert_eq!(from_slice::<T>(&bytes).unwrap(), value);
}

fn main() {
    same(Tree { value: vec![1].into(), kids: vec![Tree::default(); 5] });
    same(Alias { value: 1, kids: vec![Alias::default(); 2] });
    let inner = Inner { others: vec![Outer::default()], ..Inner::default() };
    same(Outer { inner: Inner { more: vec![inner], next: Some(Box::default()), ..Inner::default() } });
    assert!(to_bytes(&Tree { value: Opaque::default(), kids: vec![Tree::default(); 6] }).is_err());
    assert_eq!((<Tree as Layout>::HELD.largest, <Tree as Layout>::HELD.count), (Size::Bounded(100), Size::Unbounded));
    assert_eq!((<Tree as Layout>::LENGTHS.min, <Outer as Layout>::LENGTHS.min), (8, 12));
}
