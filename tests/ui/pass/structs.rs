//! Structs of every style, generics with inferred bounds, a borrowing type, and another path to the runtime.

use rpcrdma_runtime as elsewhere;
use rpcrdma_runtime::xdr::{
    Decode, Encode, Error, Items, Layout, Lengths, Opaque, Reader, Sink, Xdr, XdrString, from_slice,
    to_bytes,
};

#[derive(Clone, Debug, PartialEq, Xdr)]
struct Unit;

#[derive(Clone, Debug, PartialEq, Xdr)]
struct Tuple(u32, XdrString<8>);

#[derive(Clone, Debug, PartialEq, Xdr)]
struct Empty {}

#[derive(Clone, Debug, PartialEq, Xdr)]
#[xdr(crate = "elsewhere")]
struct CratePath {
    value: i64,
}

#[derive(Clone, Debug, PartialEq, Xdr)]
struct Pair<A, B = u32>
where
    A: Clone,
{
    first: A,
    second: B,
}

#[derive(Clone, Debug, PartialEq, Xdr)]
struct Carries<T> {
    #[ddp_eligible]
    data: T,
}

#[derive(Clone, Debug, PartialEq, Xdr)]
struct Sized<const N: u32, const M: usize> {
    data: Opaque<N>,
    fixed: [u8; M],
    #[xdr(max = N)]
    values: Vec<u32>,
}

/// Four borrowed bytes of the input.
#[derive(Clone, Debug, PartialEq)]
struct Word<'a>(&'a [u8; 4]);

impl Layout for Word<'_> {
    const LENGTHS: Lengths = Lengths::fixed(4);
    const HELD: Items = Items::NONE;
}

impl Encode for Word<'_> {
    fn encode<S: Sink + ?core::marker::Sized>(&self, sink: &mut S) -> Result<(), Error> {
        sink.put(self.0)
    }
}

impl<'de: 'a, 'a> Decode<'de> for Word<'a> {
    fn decode(reader: &mut Reader<'de>) -> Result<Self, Error> {
        reader.array().map(Word)
    }
}

#[derive(Clone, Debug, PartialEq, Xdr)]
struct Borrows<'a> {
    count: u32,
    word: Word<'a>,
}

fn same<T: Xdr + PartialEq + core::fmt::Debug>(value: T) {
    let bytes = to_bytes(&value).unwrap();
    assert_eq!(from_slice::<T>(&bytes).unwrap(), value);
}

fn main() {
    same(Unit);
    same(Empty {});
    same(Tuple(1, "two".into()));
    same(CratePath { value: -1 });
    same(Pair { first: Tuple(1, "x".into()), second: Pair { first: 1u64, second: Unit } });
    same(Carries { data: Opaque::<8>::from(vec![1, 2, 3]) });
    same(Sized::<8, 5> { data: vec![1].into(), fixed: [1; 5], values: vec![1, 2] });
    let bytes = [0, 0, 0, 1, 1, 2, 3, 4];
    let borrowed: Borrows<'_> = from_slice(&bytes).unwrap();
    assert!(core::ptr::eq(borrowed.word.0.as_slice(), &bytes[4..]));
}
